"""Differences that are not paired, and from means without a variance, against versions by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special, stats

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


def upper(trials: float, alpha: float) -> float:
    """Clopper and Pearson's upper end for no success."""
    return float(stats.beta.isf(alpha / 2, 1, trials))


@pytest.mark.parametrize("alpha", [0.3, 0.05, 1e-3, 1e-8])
def test_the_interval_of_a_difference_is_made_of_those_of_the_means(alpha: float) -> None:
    """Zou and Donner (2008), equations 7 and 8, with t for the mean that varies."""
    # Questions of their own; "low" has no right answer.
    log = pd.DataFrame({"model": ["low"] * 20 + ["mid"] * 20, "score": np.repeat([0.0, 1.0, 0.0], [20, 9, 11])})
    results = er.mean(log, by="model", icc=None)
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
    # The p-value is the level at which the interval ends.
    for test in (results.t_test, results.wald_test):
        assert test(f"mid - low = {float(table[0])!r}").pvalue == pytest.approx(alpha, rel=1e-8)


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
    plain, own = seen.half_width(C)[0], prompts.conf_int(method="clopper-pearson").loc["c", 1]
    low, high = board.cov.limits(C @ board.params.to_numpy(), C)[0]
    assert [low, high] == pytest.approx(board.params["a"] + np.array([-np.hypot(plain, 1.5 * own), plain]))
    assert board.conf_int(method="clopper-pearson").loc["c", 1] > 0.7  # its own interval is of three judges
    p = board.cov.pvalues(C, C @ board.params.to_numpy())
    assert board.cov.half_width(C, alpha=p)[0] == pytest.approx(board.params["a"], rel=1e-8)


def test_joint_tests_agree_with_a_slow_search_of_the_level() -> None:
    rng = np.random.default_rng(1)
    log = pd.DataFrame({"model": np.repeat(["a", "b", "c"], 25), "score": rng.integers(0, 2, 75).astype(float)})
    log.loc[log["model"] == "c", "score"] = 0.0
    results = er.mean(log, by="model", cov="HC0", dof=24, icc=None)
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
    results = er.mean(log, by="model", icc=None)
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


def variance_under(x: float, log: pd.DataFrame, seen: float, icc: float = 0.2) -> float:
    """V(x) of mid - low by docs/decisions/unpaired.md, the likeliest means under x by a search."""
    models, totals = dict(list(log.groupby("model"))), log.groupby(["model", "passage"])["score"].agg(["size", "sum"])
    left = (totals["sum"] - totals["size"] * log.groupby("model")["score"].mean()) ** 2
    clustered, parts = left.groupby("model").sum() / log["model"].value_counts() ** 2, []
    for name in ("low", "mid"):
        score, (size, wins) = models[name]["score"], totals.loc[name].to_numpy().T
        unseen, naive = 0.5 / (0.5 + np.minimum(wins, size - wins)), score.var() / len(score)
        V = seen * clustered[name] / clustered.sum()
        each = unseen * (1 + icc * (size - 1)) + (1 - unseen) * max(V / naive if naive else 0, 1)
        E, base = np.average(each, weights=size), V + np.average(unseen, weights=size) * max(naive - V, 0)
        parts.append((score.mean(), len(score), E, base))

    def unlikely(low: float) -> float:
        return -sum(n / E * (special.xlogy(p, q) + special.xlogy(1 - p, 1 - q)) for (p, n, E, _), q in under(low))

    def under(low: float) -> list:
        return list(zip(parts, (low, low + x), strict=True))

    low = optimize.minimize_scalar(unlikely, bounds=(max(0, -x), min(1, 1 - x)), options={"xatol": 1e-13}).x
    growth = sum(E * (q * (1 - q) - p * (1 - p)) / n for (p, n, E, _), q in under(low))
    return sum(part[3] for part in parts) + max(growth, 0)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("n", "wins"), [((20, 10), (0, 9)), ((30, 12), (3, 12)), ((50, 20), (0, 4))])
def test_differences_that_are_not_paired_have_a_score_interval(n: tuple, wins: tuple, shared: bool) -> None:
    """Miettinen and Nurminen (1985) with design effects; in `mean` and `compare`, in tests and intervals."""
    rng, question = np.random.default_rng(n[0]), np.arange(3 * sum(n))
    score = np.concatenate([rng.permutation(np.arange(3 * m) < k) * 1.0 for m, k in zip(n, wins, strict=True)])
    model = np.repeat(["low", "mid"], 3 * np.array(n))
    log = pd.DataFrame({"model": model, "score": score, "passage": question // 3, "question": question})
    if shared:
        log["passage"] %= n[0]
    results = er.mean(log, by="model", groups="passage")
    C = np.array([[-1.0, 1.0]])
    seen, d, dof = (C @ results.cov_params() @ C.T).iloc[0, 0], results.params @ C[0], results.cov.dof(C)[0]
    for level in (0.3, 0.05, 1e-3):
        for end in results.contrast("mid - low").conf_int(level).to_numpy()[0]:
            t = (d - end) / np.sqrt(variance_under(end, log, seen))
            if end * d > 0:
                assert 2 * stats.t.sf(abs(t), dof) == pytest.approx(level, rel=1e-5)
            for test in (results.t_test, results.wald_test):
                assert test(f"mid - low = {float(end)!r}").pvalue == pytest.approx(level, rel=1e-6)
    if shared:  # models are taken to be independent in `compare`
        return
    pair = results.contrast("mid - low").to_frame().iloc[0]
    table = er.compare(log, item="question", groups="passage", paired=False).table.loc[("mid", "low")]
    columns = ["difference", "se", "lower", "upper", "p_value"]
    assert table[columns].tolist() == pytest.approx(pair[["estimate", *columns[1:]]].tolist(), rel=1e-9)


def test_two_models_that_lost_all_are_not_told_apart_and_may_be_shown_to_be_near() -> None:
    log = pd.DataFrame({"model": ["a"] * 200 + ["b"] * 200, "score": 0.0})
    results = er.mean(log, by="model")
    assert results.pairwise()["p_value"].iloc[0] == 1
    apart = er.compare(log.assign(item=range(400)), paired=False)
    assert "do not vary within any of its means" in apart.summary().as_text().replace("\n    ", " ")
    assert results.t_test("a - b = 0.05").pvalue < 0.05 < results.t_test("a - b = 0.015").pvalue
    assert results.ranks()["upper"].tolist() == [2, 2]


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


def test_models_that_agree_on_nearly_all_rows_of_their_clusters_are_not_told_apart_too_surely():
    too_low, rng = 0, np.random.default_rng(9)
    for _ in range(60):  # on a twentieth of the rows they differ, nine times in ten against a
        cluster = np.repeat(np.arange(12), 10)
        differ = rng.random(120) < rng.beta(0.05 * 7 / 3, 0.95 * 7 / 3, 12)[cluster]
        both, gain = rng.random(120) < rng.beta(3.2, 0.8, 12)[cluster], rng.random(120) < 0.1
        scores = {"a": np.where(differ, gain, both), "b": np.where(differ, ~gain, both)}
        parts = [pd.DataFrame({"model": name, "cluster": cluster, "score": 1.0 * y}) for name, y in scores.items()]
        interval = er.mean(pd.concat(parts), by="model", groups="cluster").contrast("a - b").conf_int()
        too_low += interval.iloc[0, 1] < -0.04
    assert too_low <= 3
