"""The effective number of rows of an estimate is out of the rows behind it, whatever other models the log holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import evalreg as er

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

SAME = 1e-10


@pytest.fixture(scope="module")
def log():
    """Four models on the same 200 questions of 40 passages."""
    parts = []
    for seed in (1, 2):
        part = er.datasets.paired(n_passages=40, questions_per_passage=5, seed=seed)
        parts.append(part.assign(model=part["model"] + str(seed)))
    frame = pd.concat(parts, ignore_index=True)
    rng = np.random.default_rng(3)
    judge = np.where(rng.random(len(frame)) < 0.8, frame["score"], 1 - frame["score"])
    human = np.where(rng.random(len(frame)) < 0.4, frame["score"], np.nan)
    subject = np.where(frame["passage"] < "passage-015", "law", "algebra")
    length = rng.uniform(1, 9, len(frame))
    return frame.assign(judge=judge, human=human, subject=subject, length=length, points=frame["score"] * length)


def of_two(frame):
    """Rows of the two models over the design effect of their difference, from sums by passage alone."""
    n, total, meat = 0, {}, 0.0
    for sign, (_, rows) in zip((1, -1), frame.groupby("model"), strict=True):
        influence = sign * (rows["score"] - rows["score"].mean()) / len(rows)
        n, meat = n + len(rows), meat + float((influence**2).sum()) * len(rows) / (len(rows) - 1)
        for passage, value in influence.groupby(rows["passage"]).sum().items():
            total[passage] = total.get(passage, 0.0) + value
    G = len(total)
    return n * meat / (sum(value**2 for value in total.values()) * G / (G - 1))


def test_a_difference_of_two_models_is_out_of_the_rows_of_both(log):
    options = {"by": "model", "groups": "passage", "cov": "CR1"}
    found = er.mean(log, **options).contrast({"new1": 1, "old1": -1}).n_eff().iloc[0]
    two = log[log["model"].isin(["new1", "old1"])]
    assert found == pytest.approx(of_two(two), rel=SAME)
    assert found == pytest.approx(er.mean(two, **options).contrast({"new1": 1, "old1": -1}).n_eff().iloc[0], rel=SAME)


CALLS = {
    "differences of independent models": lambda log: (
        er.compare(log, item="question", groups="passage", paired=False).results
    ),
    "rectified means": lambda log: er.rectified_mean(log, judge="judge", human="human", by="model", groups="passage"),
    "means over strata": lambda log: er.mean(log, by="model", strata="subject", groups="passage"),
    "ratios": lambda log: er.ratio(log, "points", "length", by="model", groups="passage"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_other_models_change_nothing(log, call):
    every, alone = call(log), call(log[log["model"].isin(["new1", "old1"])])
    np.testing.assert_allclose(every.n_eff()[alone.params.index], alone.n_eff(), rtol=1e-6)
    if len(alone.params) > 1:
        pair = {"new1": 1, "old1": -1}
        np.testing.assert_allclose(every.contrast(pair).n_eff(), alone.contrast(pair).n_eff(), rtol=1e-6)
        logs = every.estimate.transform(np.log, np.diag(1 / np.asarray(every.params)), every.estimate.names)
        logs = er.infer(logs.linear([[1.0, 0, -1, 0]], ["log ratio"]), groups="passage")
        assert logs.n_eff().iloc[0] * logs.design_effect().iloc[0] == pytest.approx(400, rel=SAME)


def test_what_rounding_leaves_of_a_model_is_none_of_its_rows(log):
    means = er.mean(log, by="model", groups="passage").estimate
    C = np.array([[0.1 + 0.2 - 0.3, 1.0, 0.0, -1.0]])
    assert C[0, 0] != 0
    found, plain = (er.infer(means.linear(one, ["d"]), groups="passage") for one in (C, np.round(C)))
    assert found.n_eff().iloc[0] == pytest.approx(plain.n_eff().iloc[0], rel=SAME)


def test_two_scores_of_the_same_rows_are_the_same_rows(log):
    first, second = (er.mean(log, score, by="model", groups="passage").estimate for score in ("score", "judge"))
    both = first.stack(replace(second, names=tuple(f"{name} judged" for name in second.names)))
    found = er.infer(both, groups="passage").contrast({"new1": 1, "new1 judged": -1})
    one = log[log["model"] == "new1"]
    plain = er.mean(one.assign(difference=one["score"] - one["judge"]), "difference", groups="passage")
    np.testing.assert_allclose(found.n_eff(), plain.n_eff(), rtol=SAME)
    across = er.infer(both, groups="passage").contrast({"new1": 1, "old1 judged": -1})
    assert across.n_eff().iloc[0] == pytest.approx(400 / across.design_effect().iloc[0], rel=SAME)


def test_independent_estimates_keep_their_own_rows(log):
    first, second = (
        er.mean(part, by="model", strata="subject", groups="passage")
        for part in (log[log["model"].str.endswith("1")], log[log["model"].str.endswith("2")])
    )
    both = er.infer(first.estimate.concat(second.estimate), groups="passage")
    np.testing.assert_allclose(both.n_eff() * both.design_effect(), 200, rtol=SAME)


@pytest.mark.parametrize("board", [er.win_rate, er.bradley_terry])
def test_a_models_effective_comparisons_are_out_of_its_own(board):
    duels = er.datasets.judge_log(n_models=4, n_prompts=60, seed=1)
    results = board(duels, left="left", right="right", winner="winner", groups="prompt")
    own = [((duels["left"] == name) | (duels["right"] == name)).sum() for name in results.params.index]
    np.testing.assert_allclose(results.n_eff() * results.design_effect(), own, rtol=SAME)
    if board is er.win_rate:
        first, second = results.params.index[:2]
        pair = results.contrast({first: 1, second: -1})
        either = duels[["left", "right"]].isin([first, second]).any(axis=1).sum()
        assert pair.n_eff().iloc[0] * pair.design_effect().iloc[0] == pytest.approx(either, rel=SAME)


@pytest.mark.parametrize("options", [{}, {"standardise": "uniform"}, {"standardise": "observed"}])
def test_models_of_two_boards_are_out_of_their_own_comparisons(options):
    parts = [er.datasets.judge_log(n_models=4, n_prompts=60, seed=seed).assign(style="plain") for seed in (1, 2)]
    for part in parts:
        part.loc[part.index % 3 == 0, "style"] = "listed"
    by = {"by": "style"} if options else {}
    boards = [
        er.win_rate(p, left="left", right="right", winner="winner", groups="prompt", **by, **options) for p in parts
    ]
    names = [f"{side}: {name}" for side in (1, 2) for name in boards[0].params.index]
    both = boards[0].concat(boards[1], names)
    own = [((p["left"] == name) | (p["right"] == name)).sum() for p in parts for name in boards[0].params.index]
    np.testing.assert_allclose(both.n_eff() * both.design_effect(), own, rtol=SAME)
