"""Tiers of models, and whether the first is separated from the second."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.cli.main import main
from evalreg.inference.ranks import judged_pair, pairwise_table, tiers_of

# What is compared here rests on the same draws, however many.
pytestmark = [
    pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning"),
]


@functools.cache
def _board(seed, *, n_models=6, prompts=60, judges=6, spread=0.5, groups="prompt"):
    log = er.datasets.judge_log(n_models=n_models, n_prompts=prompts, n_judges=judges, spread=spread, seed=seed)
    return er.win_rate(log, left="left", right="right", winner="winner", groups=groups)


BOARDS = [
    (0, {"spread": 1.5}),
    (1, {"spread": 1.5, "groups": "prompt + judge"}),
    (2, {"spread": 0.0}),
    (3, {"n_models": 3, "prompts": 200, "judges": 2, "spread": 4.0}),
    (4, {"spread": 1.0, "judges": 3, "groups": "prompt + judge"}),
]


def test_a_tier_begins_where_all_above_are_apart_from_all_below(rng):
    for n, share in itertools.product((2, 3, 7), (0.3, 0.9, 0.97)):
        for _ in range(40):
            half = np.triu(rng.random((n, n)) < share, 1)
            apart = half | half.T
            begins = [k for k in range(1, n) if all(apart[i, j] for i in range(k) for j in range(k, n))]
            assert tiers_of(apart).tolist() == [1 + sum(k <= i for k in begins) for i in range(n)]


@pytest.mark.parametrize(("seed", "options"), BOARDS)
def test_tiers_letters_ranks_and_p_values_say_one_thing(seed, options):
    board = _board(seed, **options)
    found = board.tiers()
    table = found.to_frame()
    for (one, a), (other, b) in itertools.combinations(table.iterrows(), 2):
        shared = set(a["letters"]) & set(b["letters"])
        assert a["tier"] <= b["tier"]
        if a["tier"] < b["tier"]:
            assert not shared
            assert a["rank_upper"] < b["rank"]
            assert b["rank_lower"] > a["rank"], (one, other)
    first, second = table.iloc[0], table.iloc[1]
    assert found.separated == (not set(first["letters"]) & set(second["letters"])) == (found.p_adjusted <= 0.05)
    assert found.difference == pytest.approx(first["estimate"] - second["estimate"])
    assert f", {'is' if found.separated else 'is not'} separated from the second, " in found.sentence()
    assert found.n_tiers == table["tier"].max()


@pytest.mark.parametrize(("seed", "options"), BOARDS)
def test_one_pair_among_all_is_judged_as_in_the_table_of_all(seed, options):
    params, cov = _board(seed, **options)._ranked
    table = pairwise_table(params, cov, "step-down")
    for (one, other), row in table.iterrows():
        found = judged_pair(params, cov, other, one)
        assert found.p_adjusted == pytest.approx(row["p_adjusted"], rel=1e-12, nan_ok=True)
        assert found.difference == row["difference"]
        assert (found.n_pairs, found.undecided) == (table.attrs["n_pairs"], ())


def test_boards_of_the_cases_have_one_tier_and_several():
    several = [_board(seed, **options).tiers() for seed, options in BOARDS]
    assert {found.n_tiers == 1 for found in several} == {True, False}
    assert {found.separated for found in several} == {True, False}
    assert "There is one tier" in str(several[2])


def test_pairs_without_an_error_bar_are_not_separated():
    log = er.datasets.paired(n_passages=30, seed=1).eval("score = 7 * score")
    # Always one more than "new", so that their difference does not vary.
    more = log[log["model"] == "new"].assign(model="more").eval("score = score + 1")
    with_more = pd.concat([log, more])
    found = er.mean(with_more, by="model", item="question", groups="passage").tiers()
    assert found.undecided == (("more", "new"),)
    assert not found.separated
    assert np.isnan(found.p_adjusted)
    assert "Their difference has no error bar." in found.sentence()
    assert "1 pair has no error bar" in " ".join(str(found).split())
    twin = pd.concat([log, log[log["model"] == "new"].assign(model="twin")])
    found = er.mean(twin, by="model", item="question", groups="passage").tiers()
    assert "They have the same estimate." in found.sentence()
    assert found.to_frame()["tier"].loc[["new", "twin"]].tolist() == [1, 1]


def test_the_level_is_that_of_the_tiers_and_one_model_has_none():
    board = _board(0)
    assert board.tiers(0.1).summary(0.1).sentences
    with pytest.raises(er.errors.ArgumentError, match="ask for `tiers"):
        board.tiers(0.1).summary(0.2)
    log = er.datasets.passages(n_passages=20, seed=1)
    with pytest.raises(er.errors.ArgumentError, match="at least two models; here is 1"):
        er.mean(log, groups="passage").tiers()


def test_the_table_handed_out_is_a_copy():
    found = _board(0).tiers()
    table = found.to_frame()
    table["tier"] = 7
    table.iloc[0, 0] = 99
    assert found.to_frame()["tier"].max() < 7
    assert found.to_frame()["rank"].iloc[0] == 1


def test_names_are_escaped_in_every_format():
    log = er.datasets.paired(n_passages=20, seed=1).replace({"model": {"new": "<b>a_1 | x", "old": "$\\b&"}})
    found = er.mean(log, by="model", item="question").tiers()
    assert "<b>" not in found.to_html()
    assert "<b>" not in found.sentence(markup="html")
    assert r"a\_1 $|$ x" in found.to_latex()
    assert r"a\_1 $|$ x" in found.sentence(markup="latex")
    assert r"\| x" in found.to_markdown()


# The columns that sites load: none may go or change its name.
COLUMNS = [
    "model",
    "rank",
    "rank_lower",
    "rank_upper",
    "estimate",
    "se",
    "lower",
    "upper",
    "joint_lower",
    "joint_upper",
]
COLUMNS += ["letters", "tier", "n"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "log.csv"
    er.datasets.judge_log(n_models=6, n_prompts=25, spread=1.5, seed=0).to_csv(path, index=False)
    return str(path)


def _run(capsys, *arguments):
    assert main(["leaderboard", *arguments, "--winner", "winner", "--groups", "prompt"]) == 0
    return capsys.readouterr().out


def test_stored_boards_keep_their_tiers():
    board = _board(0, spread=1.5)
    stored = er.read_results(board.to_json()).leaderboard()
    pd.testing.assert_series_equal(stored["tier"], board.tiers().to_frame()["tier"])


def test_reports_of_many_models_have_tiers_in_place_of_letters():
    rng = np.random.default_rng(3)
    models = [f"m{i:02d}" for i in range(32)]
    truth = np.where(np.arange(32) < 4, 3.0, rng.normal(size=32) * 0.1)
    scores = truth[:, None] + rng.normal(size=(32, 60))
    rows = [(m, q, s) for m, line in zip(models, scores, strict=True) for q, s in enumerate(line)]
    board = er.mean(pd.DataFrame(rows, columns=["model", "item", "score"]), by="model", item="item")
    text = board.report(format="md")
    assert "| tier |" in text
    assert "Each model of a tier is separated from each model of the tiers below it." in text
    assert "groups |" not in text
    assert board.tiers().n_tiers >= 2


@pytest.mark.slow
@pytest.mark.parametrize("n_passages", [8, 40])
def test_tiers_of_equal_models_are_wrong_at_most_as_often_as_the_level_says(n_passages):
    """200 logs of 12 equal models: 5% wrong is 10 of them, and more than 19 has a chance of .002."""
    wrong = 0
    for seed in range(200):
        rng = np.random.default_rng([seed, n_passages])
        shape = (n_passages, 12, 5)
        y = rng.normal(size=(n_passages, 1, 1)) + 0.8 * rng.normal(size=(n_passages, 12, 1)) + rng.normal(size=shape)
        passage, model, item = (a.ravel() for a in np.indices(shape))
        log = pd.DataFrame({"model": model, "passage": passage, "item": item + 5 * passage, "score": y.ravel()})
        found = er.mean(log, by="model", item="item", groups="passage").tiers()
        wrong += found.n_tiers > 1 or found.separated
    assert wrong <= 19
