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
    two = log[log["model"].isin(["new1", "old1"])]
    for rows in (log, two):
        found = er.mean(rows, **options).contrast({"new1": 1, "old1": -1})
        assert found.to_frame()["n_eff"].iloc[0] == pytest.approx(of_two(two), rel=SAME)
    # The others answered in passages of their own.
    apart = log.assign(passage=log["passage"].where(log.index.isin(two.index), log["passage"] + "x"))
    found = er.mean(apart, **options).contrast({"new1": 1, "old1": -1})
    assert (found.nobs, found.n_clusters) == (len(two), {"passage": 40})


def test_two_scores_of_the_same_rows_are_the_same_rows(log):
    first, second = (er.mean(log, score, by="model", groups="passage").estimate for score in ("score", "judge"))
    both = first.stack(replace(second, names=tuple(f"{name} judged" for name in second.names)))
    found = er.infer(both, groups="passage").contrast({"new1": 1, "new1 judged": -1})
    one = log[log["model"] == "new1"]
    plain = er.mean(one.assign(difference=one["score"] - one["judge"]), "difference", groups="passage")
    np.testing.assert_allclose(found.to_frame()["n_eff"], plain.to_frame()["n_eff"], rtol=SAME)
    across = er.infer(both, groups="passage").contrast({"new1": 1, "old1 judged": -1})
    assert across.to_frame().eval("n_eff * design_effect").iloc[0] == pytest.approx(400, rel=SAME)


@pytest.mark.parametrize("board", [er.win_rate, er.bradley_terry])
def test_a_models_effective_comparisons_are_out_of_its_own(board):
    duels = er.datasets.judge_log(n_models=4, n_prompts=60, seed=1)
    results = board(duels, left="left", right="right", winner="winner", groups="prompt")
    own = [((duels["left"] == name) | (duels["right"] == name)).sum() for name in results.params.index]
    np.testing.assert_allclose(results.to_frame().eval("n_eff * design_effect"), own, rtol=SAME)
    if board is er.win_rate:
        first, second = results.params.index[:2]
        pair = results.contrast({first: 1, second: -1})
        either = duels[["left", "right"]].isin([first, second]).any(axis=1).sum()
        assert pair.to_frame().eval("n_eff * design_effect").iloc[0] == pytest.approx(either, rel=SAME)


@pytest.mark.parametrize("options", [{}, {"standardise": "uniform"}])
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
    np.testing.assert_allclose(both.to_frame().eval("n_eff * design_effect"), own, rtol=SAME)
