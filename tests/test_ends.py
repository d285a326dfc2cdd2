"""Differences from means without a variance: MOVER with Clopper and Pearson's ends, against versions by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import evalreg as er
from evalreg.checks import muted

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


def log_of(n_prompts: int = 30, seed: int = 2) -> pd.DataFrame:
    """Three models that meet once a prompt; c lost all."""
    rng = np.random.default_rng(seed)
    log = pd.DataFrame({"left": ["a", "a", "b"] * n_prompts, "right": ["b", "c", "c"] * n_prompts})
    log["prompt"] = np.arange(n_prompts).repeat(3)
    log["judge"] = rng.integers(0, 3, len(log))
    log["score"] = np.where(log["right"] == "c", 1.0, rng.integers(0, 2, len(log)))
    return log


def board_of(log: pd.DataFrame, groups: str | None = "prompt", **more: object) -> er.Results:
    return er.win_rate(log, left="left", right="right", score="score", groups=groups, **more)


def pair_of_means(n: int = 20, wins: int = 9, seed: int = 0) -> pd.DataFrame:
    """Two models with questions of their own; "low" has no right answer."""
    right = np.random.default_rng(seed).permutation(np.arange(n) < wins).astype(float)
    return pd.DataFrame({"model": ["low"] * n + ["mid"] * n, "score": np.append(np.zeros(n), right)})


def upper(trials: float, alpha: float) -> float:
    """Clopper and Pearson's upper end for no success."""
    return float(stats.beta.isf(alpha / 2, 1, trials))


@pytest.mark.parametrize("alpha", [0.3, 0.05, 1e-3, 1e-8])
def test_the_interval_of_a_difference_is_made_of_those_of_the_means(alpha: float) -> None:
    """Zou and Donner (2008), equations 7 and 8, with t for the mean that varies."""
    results = er.mean(pair_of_means(), by="model")
    difference, se = results.params["mid"], results.bse["mid"]
    t = stats.t.isf(alpha / 2, 19)
    table = results.contrast("mid - low").conf_int(alpha).to_numpy()[0]
    assert table == pytest.approx([difference - np.hypot(t * se, upper(20, alpha)), difference + t * se])
    # Turned around, the sides change places.
    other = results.pairwise(alpha=alpha).iloc[0]
    assert [other["lower"], other["upper"]] == pytest.approx([-table[1], -table[0]])
    # The standard error is that of the wider side at 5%.
    whole = np.hypot(stats.t.isf(0.025, 19) * se, upper(20, 0.05))
    assert results.contrast("mid - low").bse.iloc[0] == pytest.approx(whole / stats.t.isf(0.025, 19))


@pytest.mark.parametrize("wins", [1, 3, 6, 9, 19])
@pytest.mark.parametrize("null", [0.0, 0.1])
def test_p_values_are_the_levels_at_which_intervals_end(wins: int, null: float) -> None:
    results = er.mean(pair_of_means(wins=wins), by="model")
    distance, se = results.params["mid"] - null, results.bse["mid"]

    def room(log_level: float) -> float:
        level = np.exp(log_level)
        more = upper(20, level) if distance > 0 else 0.0
        return float(abs(distance) - np.hypot(stats.t.isf(level / 2, 19) * se, more))

    expected = np.exp(optimize.brentq(room, -300, 0, xtol=1e-13)) if room(0.0) > 0 else 1.0
    found = results.t_test(f"mid - low = {null}").pvalue
    assert found == pytest.approx(expected, rel=1e-8)
    if null == 0:
        assert results.pairwise()["p_value"].iloc[0] == pytest.approx(expected, rel=1e-8)
        assert results.wald_test("mid = low").pvalue == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("n", [3, 5, 6, 12, 40])
@pytest.mark.parametrize("opponents", ["uniform", "as_sampled"])
@pytest.mark.parametrize("groups", [None, "prompt"])
def test_of_two_models_one_of_which_won_all_the_test_is_the_sign_test(n: int, opponents: str, groups: str) -> None:
    log = pd.DataFrame({"left": ["a"] * n, "right": ["b"] * n, "score": 1.0, "prompt": range(n)})
    pair = board_of(log, groups, opponents=opponents).pairwise().iloc[0]
    assert pair["p_value"] == pytest.approx(stats.binomtest(n, n).pvalue, rel=1e-9)
    low, high = stats.binomtest(n, n).proportion_ci(0.95, method="exact")
    assert [pair["lower"], pair["upper"]] == pytest.approx([1 - 2 * (1 - low), 1.0])
    assert high == 1


def test_over_crossed_clusters_the_axis_with_most_clusters_counts() -> None:
    board, prompts = board_of(log_of(), "prompt + judge"), board_of(log_of())
    seen = replace(board.cov, ends=None)
    C = np.array([[1.0, 0.0, -1.0]])
    plain, own = seen.half_width(C)[0], prompts.conf_int().loc["c", 1]
    low, high = board.cov.limits(C @ board.params.to_numpy(), C)[0]
    assert [low, high] == pytest.approx(board.params["a"] + np.array([-np.hypot(plain, 1.5 * own), plain]))
    assert board.conf_int().loc["c", 1] > 0.7  # its own interval is of three judges
    p = board.cov.pvalues(C, C @ board.params.to_numpy())
    assert board.cov.half_width(C, alpha=p)[0] == pytest.approx(board.params["a"], rel=1e-8)


def test_joint_tests_agree_with_a_slow_search_of_the_level() -> None:
    rng = np.random.default_rng(1)
    log = pd.DataFrame({"model": np.repeat(["a", "b", "c"], 25), "score": rng.integers(0, 2, 75).astype(float)})
    log.loc[log["model"] == "c", "score"] = 0.0
    results = er.mean(log, by="model", cov="HC0", dof=24)
    C = np.array([[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]])
    effect, V = C @ results.params.to_numpy(), C @ results.cov.sum_one_way @ C.T

    def gap(log_level: float) -> float:
        level = np.exp(log_level)
        error = upper(25, level) / stats.t.isf(level / 2, 24)
        F = effect @ np.linalg.solve(V + error**2 * np.ones((2, 2)), effect) / 2
        return float(np.log(stats.f.sf(F, 2, 24)) - log_level)

    expected = np.exp(optimize.brentq(gap, -60, np.log(0.9), xtol=1e-13))
    assert results.wald_test("a = c, b = c").pvalue == pytest.approx(expected, rel=1e-8)
    # Without what is allowed for it is surer.
    assert stats.f.sf(effect @ np.linalg.solve(V, effect) / 2, 2, 24) < expected / 10


def test_statements_about_many_models_rest_on_the_same_differences() -> None:
    right = {"none": 0, "few": 5, "many": 18}
    log = pd.concat([pd.DataFrame({"model": name, "score": (np.arange(30) < k) * 1.0}) for name, k in right.items()])
    results = er.mean(log, by="model")
    plain = replace(results.cov, ends=None)
    C = np.array([[1.0, 0.0, -1.0]])  # few, many, none
    effect = C @ results.params.to_numpy()
    assert plain.pvalues(C, effect)[0] < 0.05 < results.cov.pvalues(C, effect)[0]
    ranks = results.ranks()
    assert ranks.loc["none", ["lower", "upper"]].tolist() == [2, 3]
    together = results.pairwise(adjust="single-step")
    inside = (together["lower"] <= 0) & (together["upper"] >= 0)
    assert (inside == (together["p_adjusted"] > 0.05)).all()
    assert inside.loc[("few", "none")]
    assert not inside.loc[("many", "none")]
    # What does not concern the model without a variance is as it was, and so is its own row.
    others = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]])
    assert np.array_equal(plain.variance(others), results.cov.variance(others))
    assert results.bse["none"] == 0
    assert np.isnan(results.pvalues["none"])


def test_two_models_that_lost_all_are_not_told_apart_and_may_be_shown_to_be_near() -> None:
    log = pd.DataFrame({"model": ["a"] * 200 + ["b"] * 200, "score": 0.0})
    results = er.mean(log, by="model")
    pair = results.pairwise().iloc[0]
    end = upper(200, 0.05)
    assert [pair["lower"], pair["upper"], pair["p_value"]] == pytest.approx([-end, end, 1.0])
    assert results.t_test("a - b = 0.05").pvalue < 0.05 < results.t_test("a - b = 0.015").pvalue
    assert results.ranks()["upper"].tolist() == [2, 2]


def test_models_with_questions_of_their_own_allow_for_it_and_shared_ones_for_what_was_not_seen() -> None:
    log = pair_of_means(40, 12)
    log["question"] = [*range(40)] * 2
    shared = er.mean(log, by="model", item="question", groups="question")
    log["question"] = range(80)
    apart, C = er.mean(log, by="model", groups="question"), np.array([[-1.0, 1.0]])
    assert shared.cov.reach(C) is None
    half = np.hypot(stats.t.isf(0.025, apart.cov.dof(C)[0]) * apart.bse["mid"], upper(40, 0.05))
    assert apart.pairwise().iloc[0]["upper"] == pytest.approx(-(apart.params["mid"] - half))
    for paired in (True, False):
        pair = er.compare(log, item="question", paired=paired).table.loc[("mid", "low")]
        assert pair["lower"] == pytest.approx(apart.params["mid"] - half)


def test_models_whose_pairs_met_once_have_the_errors_of_the_jackknife():
    """By hand: the win rate without each prompt, over the opponents that are left; none varies within its pair."""
    rng, names = np.random.default_rng(3), np.array(list("abcdef"))
    left, right = (names[place] for place in np.triu_indices(6, 1))
    order = rng.permutation(left.size)
    log = pd.DataFrame({"left": left[order], "right": right[order], "prompt": np.arange(15) // 3})
    log["score"] = np.where(log["left"] == "a", 1.0, (rng.random(15) < 0.5) * 1.0)
    with muted():
        board = er.win_rate(log, left="left", right="right", score="score", groups="prompt")

    def rate(rows, model):
        won = np.where(rows["left"] == model, rows["score"], 1 - rows["score"])
        return won[(rows["left"] == model) | (rows["right"] == model)].mean()

    for model in "bcdef":
        changes = [rate(log[log["prompt"] != p], model) - rate(log, model) for p in range(5)]
        assert board.bse[model] == pytest.approx(np.sqrt(4 / 5 * np.sum(np.square(changes))), rel=1e-9)
    # One that won every comparison has no spread without any prompt either.
    assert board.bse["a"] == 0
    low, high = board.conf_int().loc["a"]
    assert 0 < low < high == 1
