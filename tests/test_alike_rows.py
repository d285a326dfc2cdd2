"""Intraclass correlations with intervals, beside design effects."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import statsmodels.formula.api as smf
from statsmodels.stats.anova import anova_lm

import evalreg as er
from evalreg.errors import FewClustersWarning, ZeroVarianceWarning
from evalreg.numerics.moments import ClusterSums, icc_interval

# The same sums of squares in another order.
SAME = 1e-9


def cluster_sums(rng, n_logs, sizes, rho, scores):
    """Sums within clusters of many logs, a log a column: normal scores, or 0/1 with beta rates of mean `scores`."""
    shape, n = (n_logs, sizes.size), np.broadcast_to(sizes, (n_logs, sizes.size)).astype(float)
    if isinstance(scores, str):
        each = np.sqrt(1 - rho) * rng.standard_normal((*shape, sizes.max()))
        each += np.sqrt(rho) * rng.standard_normal(shape)[..., None]
        each *= np.arange(sizes.max()) < sizes[:, None]
        total, square = each.sum(axis=2), (each**2).sum(axis=2)
    else:
        a = (1 - rho) / rho
        total = rng.binomial(sizes, rng.beta(scores * a, (1 - scores) * a, shape)).astype(float)
        square = total.copy()
    mean = (total.sum(axis=1) / n.sum(axis=1))[:, None]
    square += n * mean**2 - 2 * mean * total
    column = np.repeat(np.arange(n_logs), sizes.size)
    return ClusterSums(column, n_logs, n.ravel(), (total - n * mean).ravel(), square.ravel())


def analysis_of_variance(frame):
    """F of a one-way analysis of variance of rows that count `rows` times."""
    clusters = [(rows["score"].to_numpy(), rows["rows"].to_numpy()) for _, rows in frame.groupby("passage")]
    total = np.average(frame["score"], weights=frame["rows"])
    between = sum(w.sum() * (np.average(y, weights=w) - total) ** 2 for y, w in clusters)
    within = sum(w @ (y - np.average(y, weights=w)) ** 2 for y, w in clusters)
    return between / (len(clusters) - 1) / (within / (frame["rows"].sum() - len(clusters)))


def slow_interval(frame, alpha=0.05, weights=1.0):
    """Both intervals one by one, the jackknife by a new analysis of variance without each cluster; weights are rows."""
    frame = frame.assign(rows=weights / np.mean(weights))
    n = frame.groupby("passage")["rows"].sum()
    F, G, N = analysis_of_variance(frame), n.size, n.sum()
    m0 = (N - n @ n / N) / (G - 1)
    exact = [F / scipy.stats.f.ppf(p, G - 1, N - G) for p in (1 - alpha / 2, alpha / 2)]
    left = np.log([analysis_of_variance(frame[frame["passage"] != passage]) for passage in n.index])
    change = left - left.mean()
    dof = min(max(2 * (change**2).sum() ** 2 / (change**4).sum() - 1, 1), G - 1)
    half = scipy.stats.t.ppf(1 - alpha / 2, dof) * np.sqrt((G - 1) / G * (change**2).sum())
    ends = np.array([min(exact[0], F * np.exp(-half)), max(exact[1], F * np.exp(half))])
    return (F - 1) / (F + m0 - 1), *((ends - 1) / (ends + m0 - 1))


@pytest.mark.parametrize("unequal", [False, True])
def test_correlation_and_interval_are_those_of_repeated_analyses_of_variance(unequal):
    frame = er.datasets.passages(n_passages=12, questions_per_passage=6, unequal=unequal, icc=0.3, seed=2)
    frame = frame[frame.groupby("passage")["score"].transform("size") > 1]
    found = er.mean(frame, groups="passage").dependence().loc[("passage", "mean")]
    np.testing.assert_allclose(found[["icc", "lower", "upper"]], slow_interval(frame), rtol=SAME)
    F = anova_lm(smf.ols("score ~ C(passage)", frame).fit())["F"].iloc[0]
    assert analysis_of_variance(frame.assign(rows=1.0)) == pytest.approx(F, rel=SAME)
    weights = np.random.default_rng(3).integers(1, 5, len(frame))
    weighted = er.mean(frame.assign(w=weights), groups="passage", weights="w").dependence()[["icc", "lower", "upper"]]
    np.testing.assert_allclose(weighted.iloc[0], slow_interval(frame, weights=weights), rtol=SAME)
    sizes = frame["passage"].value_counts().to_numpy(dtype=float)
    assert found["n_clusters"] == sizes.size
    assert found["mean_size"] == pytest.approx((sizes**2).sum() / sizes.sum())
    assert found["implied"] == pytest.approx(1 + (found["mean_size"] - 1) * found["icc"])


def test_design_effect_is_that_of_the_results_and_its_root_the_ratio_of_errors():
    frame = er.datasets.passages(n_passages=30, questions_per_passage=6, seed=2)
    results = er.mean(frame, groups="passage")
    found = results.dependence().loc["passage"]
    np.testing.assert_allclose(found["design_effect"], results.to_frame()["design_effect"], rtol=SAME)
    np.testing.assert_allclose(found["se_ratio"], results.bse / results.with_cov(groups=None).bse, rtol=SAME)


def test_a_difference_of_models_is_the_mean_of_differences():
    wide = er.datasets.paired(n_passages=15, seed=1).pivot(index=["passage", "question"], columns="model")["score"]
    frame = (wide["new"] - wide["old"]).rename("score").reset_index()
    both = er.compare(er.datasets.paired(n_passages=15, seed=1), item="question", groups="passage").results
    found = both.dependence().loc[("passage", "new - old")]
    np.testing.assert_allclose(found[["icc", "lower", "upper"]], slow_interval(frame), rtol=SAME)


def test_of_a_regression_they_are_those_of_the_residuals():
    frame = er.datasets.passages(n_passages=15, questions_per_passage=6, seed=2)
    residuals = frame.assign(score=smf.ols("score ~ n_words", frame).fit().resid)
    intervals = er.fit("score ~ n_words", frame, groups="passage").dependence()[["icc", "lower", "upper"]]
    for name in ("Intercept", "n_words"):
        np.testing.assert_allclose(intervals.loc[("passage", name)], slow_interval(residuals), rtol=SAME)


def judged(**options):
    return er.datasets.judge_log(n_models=4, n_judges=3, n_prompts=20, prompt_sd=1.0, seed=3, **options)


def board_of(log, groups="prompt"):
    return er.win_rate(log, left="left", right="right", winner="winner", groups=groups)


def oriented(log):
    """Each row twice, as a score of either model less the mean of its pair."""
    score = log["winner"].map({"left": 1.0, "tie": 0.5, "right": 0.0})
    ahead = pd.DataFrame({"model": log["left"], "other": log["right"], "passage": log["prompt"], "score": score})
    behind = pd.DataFrame({"model": log["right"], "other": log["left"], "passage": log["prompt"], "score": 1 - score})
    both = pd.concat([ahead, behind], ignore_index=True)
    return both.assign(score=both["score"] - both.groupby(["model", "other"])["score"].transform("mean"))


def test_of_a_model_they_are_those_of_its_own_comparisons():
    log = judged()
    found = board_of(log).dependence()
    assert set(log["left"]) | set(log["right"]) <= set(found.loc["prompt"].index)
    for name, rows in list(oriented(log).groupby("model"))[::3]:
        interval = found.loc[("prompt", name), ["icc", "lower", "upper"]]
        np.testing.assert_allclose(interval, slow_interval(rows), rtol=SAME)


def test_where_one_cluster_holds_all_variation_there_is_no_interval():
    frame = pd.DataFrame({"score": np.arange(40) < 3, "passage": np.arange(40) // 5})
    with pytest.warns(FewClustersWarning):
        results = er.mean(frame, groups="passage")
    with pytest.warns(ZeroVarianceWarning, match="leaving out one cluster leaves no variation"):
        found = results.dependence()
    assert found[["icc", "lower", "upper"]].isna().iloc[0].tolist() == [False, True, True]


@pytest.mark.parametrize("n_clusters", [5, 30, *(pytest.param(n, marks=pytest.mark.slow) for n in (10, 100))])
@pytest.mark.parametrize("scores", ["normal", 0.7])
@pytest.mark.parametrize("unequal", [False, True])
def test_intervals_hold_the_correlation_at_least_as_often_as_they_say(n_clusters, scores, unequal):
    rng, n_logs, rho = np.random.default_rng([n_clusters, unequal]), 1000, 0.2
    sizes = np.geomspace(2, 40, n_clusters).round().astype(int) if unequal else np.full(n_clusters, 10)
    lower, upper = icc_interval(cluster_sums(rng, n_logs, sizes, rho, scores), 0.05)
    known = np.isfinite(lower)
    held = ((lower <= rho) & (rho <= upper))[known]
    assert known.mean() > 0.95
    assert held.sum() >= scipy.stats.binom.ppf(0.001, held.size, 0.95)
