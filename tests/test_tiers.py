"""Tiers of models, and what letters, ranks and p-values say of the same pairs."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.inference.simultaneous import tiers_of

# What is compared here rests on the same draws, however many.
pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


@functools.cache
def _board(seed, *, n_models=6, prompts=60, judges=6, spread=0.5, groups="prompt", scores=False):
    if scores:  # Fractions near 1 in few clusters, where a score interval of a pair grants more than that of a model.
        rng, names = np.random.default_rng(seed), [f"m{k}" for k in range(n_models)]
        score = np.linspace(0.97, 0.6, n_models) ** rng.gamma(1.0, 1.0, prompts // 4).repeat(4)[:, None]
        score = (score + rng.normal(0, 0.1, score.shape)).clip(0, 1)
        log = pd.DataFrame(score, columns=names).assign(prompt=np.arange(prompts) // 4, item=np.arange(prompts))
        log = log.melt(["prompt", "item"], names, "model", "score")
        return er.mean(log, by="model", item="item", groups="prompt")
    log = er.datasets.judge_log(n_models=n_models, n_prompts=prompts, n_judges=judges, spread=spread, seed=seed)
    return er.win_rate(log, left="left", right="right", winner="winner", groups=groups)


BOARDS = [
    (0, {"spread": 1.5}),
    (1, {"spread": 1.5, "groups": "prompt + judge"}),
    (2, {"spread": 0.0}),
    (3, {"n_models": 3, "prompts": 200, "judges": 2, "spread": 4.0}),
    (4, {"spread": 1.0, "judges": 3, "groups": "prompt + judge"}),
    (5, {"n_models": 8, "scores": True}),
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
    table, p = board.leaderboard(), board.pairwise("step-down")["p_adjusted"]
    for (one, a), (other, b) in itertools.combinations(table.iterrows(), 2):
        shared = set(a["letters"]) & set(b["letters"])
        assert a["tier"] <= b["tier"]
        assert (not shared) == (p[(one, other) if (one, other) in p.index else (other, one)] <= 0.05)
        assert not (shared and a["joint_lower"] > b["joint_upper"])
        if a["tier"] < b["tier"]:
            assert not shared
            assert a["rank_upper"] < b["rank"]
            assert b["rank_lower"] > a["rank"], (one, other)


def test_pairs_without_an_error_bar_are_not_separated():
    log = er.datasets.paired(n_passages=30, seed=1).eval("score = 7 * score")
    # Always one more than "new", so that their difference does not vary.
    more = log[log["model"] == "new"].assign(model="more").eval("score = score + 1")
    results = er.mean(pd.concat([log, more]), by="model", item="question", groups="passage")
    assert list(results.ranks().attrs["undecided"]) == [("more", "new")]
    table = results.leaderboard()
    assert set(table.loc["more", "letters"]) & set(table.loc["new", "letters"])
    twin = pd.concat([log, log[log["model"] == "new"].assign(model="twin")])
    table = er.mean(twin, by="model", item="question", groups="passage").leaderboard()
    assert table["tier"].loc[["new", "twin"]].tolist() == [1, 1]


def test_coefficients_beside_an_intercept_have_no_ranks_and_no_winner():
    results = er.fit("score ~ C(model)", er.datasets.paired(n_passages=20, seed=1), groups="passage")
    for ask in (results.ranks, results.leaderboard, results.winner):
        with pytest.raises(er.errors.ArgumentError, match="an intercept and coefficients do not"):
            ask()


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
        found = er.mean(log, by="model", item="item", groups="passage").leaderboard()
        wrong += found["tier"].max() > 1 or not set(found["letters"].iloc[0]) & set(found["letters"].iloc[1])
    assert wrong <= 19
