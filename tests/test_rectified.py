"""Rectified means: slow loops, PPI++ written out and its package, er.mean on the labelled rows, simulated truth."""

from __future__ import annotations

import functools
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from statsmodels.stats.proportion import proportion_confint

import evalreg as er
from evalreg.errors import EvalregWarning, NotAvailableError, TooFewClustersError

REFERENCE = Path(__file__).parent / "reference"
# The same few hundred sums in another order.
SAME = 1e-10


def judged(seed=3, n_clusters=24, models=("a", "b"), whole=False) -> pd.DataFrame:
    """A log of its own of those that are drawn once."""
    return drawn(seed, n_clusters, models, whole).copy()


@functools.cache
def drawn(seed: int, n_clusters: int, models: tuple[str, ...], whole: bool) -> pd.DataFrame:
    """Two models on questions of unequal passages, a biased judge with a taste of its own in each passage."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 9, n_clusters)
    passage = np.repeat(np.arange(n_clusters), sizes)
    rows = []
    for shift, model in enumerate(models):
        easy, taste = rng.normal(size=n_clusters), rng.normal(size=n_clusters)
        truth = 0.5 * easy[passage] + rng.normal(size=passage.size) + 0.3 * shift
        judge = 0.4 + 0.7 * truth + 0.5 * taste[passage] + 0.5 * rng.normal(size=passage.size)
        rows.append(pd.DataFrame({"model": model, "passage": passage, "truth": truth, "judge": judge}))
    log = pd.concat(rows, ignore_index=True)
    log["rater"] = rng.choice(["r1", "r2", "r3", "r4"], len(log))
    if whole:
        labelled = log["passage"].isin(rng.choice(n_clusters, n_clusters // 2, replace=False))
    else:
        labelled = pd.Series(rng.random(len(log)) < 0.4)
    log["human"] = log["truth"].where(labelled)
    return log


def rectified(log, **options) -> er.Results:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvalregWarning)
        return er.rectified_mean(log, judge="judge", human="human", **options)


def slow_one(part: pd.DataFrame, cluster: str | None, power: float = 0.0):
    """lambda, theta and the clusters' influence on theta of one model, by loops over clusters."""
    y, f = part["human"].to_numpy(), part["judge"].to_numpy()
    has = ~np.isnan(y)
    n, N = has.sum(), (~has).sum()
    y_bar, f_l, f_u = y[has].mean(), f[has].mean(), f[~has].mean()
    ids = np.arange(len(part)) if cluster is None else part[cluster].to_numpy()
    human, gap, keys = [], [], list(dict.fromkeys(ids))
    for key in keys:
        mine = ids == key
        one_l, one_u = mine & has, mine & ~has
        # CR2's division by (1 - share)^(1/2), or nothing.
        a_l, a_u = (1 - one_l.sum() / n) ** -power, (1 - one_u.sum() / N) ** -power
        human.append(a_l * sum(y[one_l] - y_bar) / n)
        gap.append(a_l * sum(f[one_l] - f_l) / n - a_u * sum(f[one_u] - f_u) / N)
    human, gap = np.array(human), np.array(gap)
    lam = min(max(sum(human * gap) / sum(gap * gap), 0.0), 1.0)
    return lam, y_bar - lam * (f_l - f_u), dict(zip(keys, human - lam * gap, strict=True))


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("cov", "power"), [("CR0", 0.0), ("CR1", 0.0), ("CR2", 0.5)])
def test_one_way_estimates_are_those_of_the_slow_loop(cov, power, whole):
    log = judged(whole=whole)
    results = rectified(log, by="model", groups="passage", cov=cov)
    parts = {model: slow_one(log[log["model"] == model], "passage", power) for model in ("a", "b")}
    G = log["passage"].nunique()
    factor = G / (G - 1) if cov == "CR1" else 1.0
    table = results.to_frame()
    for model, (lam, theta, influence) in parts.items():
        assert 0.05 < lam < 0.95  # otherwise the cut to [0, 1] is all that is compared
        assert table.loc[model, "lambda"] == pytest.approx(lam, rel=SAME)
        assert results.params[model] == pytest.approx(theta, rel=SAME)
        assert results.bse[model] ** 2 == pytest.approx(factor * sum(u**2 for u in influence.values()), rel=SAME)
    # The two models share passages: their covariance is that of the clusters' influence.
    u, v = parts["a"][2], parts["b"][2]
    shared = factor * sum(u[key] * v[key] for key in u)
    assert results.cov_params().loc["a", "b"] == pytest.approx(shared, rel=SAME)
    difference = results.contrast("b - a")
    assert difference.bse.iloc[0] ** 2 == pytest.approx(factor * sum((v[key] - u[key]) ** 2 for key in u), rel=SAME)


def test_crossed_variances_add_up_from_slow_one_way_pieces_at_the_same_lambda():
    log = judged(models=("a",))
    results = rectified(log, groups="passage + rater", cov="CR0", repair="none")
    lam = results.to_frame()["lambda"].iloc[0]
    has = log["human"].notna()
    f = log["judge"]
    y_bar, f_l, f_u, n, N = log["human"].mean(), f[has].mean(), f[~has].mean(), has.sum(), (~has).sum()
    u = np.where(has, ((log["human"] - y_bar) - lam * (f - f_l)) / n, lam * (f - f_u) / N)
    pieces = {
        name: (pd.Series(u).groupby(keys).sum() ** 2).sum()
        for name, keys in {
            "passage": log["passage"],
            "rater": log["rater"],
            "both": log["passage"].astype(str) + "/" + log["rater"],
        }.items()
    }
    assert results.bse.iloc[0] ** 2 == pytest.approx(pieces["passage"] + pieces["rater"] - pieces["both"], rel=SAME)
    np.testing.assert_allclose(results.influence()["mean"], u, rtol=1e-9, atol=1e-14)
    # lambda comes from the sum of the two one-way covariances.
    top = bottom = 0.0
    for keys in (log["passage"], log["rater"]):
        human = pd.Series(np.where(has, (log["human"] - y_bar) / n, 0.0)).groupby(keys).sum()
        gap = pd.Series(np.where(has, (f - f_l) / n, -(f - f_u) / N)).groupby(keys).sum()
        top, bottom = top + (human * gap).sum(), bottom + (gap**2).sum()
    assert lam == pytest.approx(top / bottom, rel=SAME)


def ppi_written_out(log: pd.DataFrame, lam: float) -> tuple[float, float]:
    """Estimate and variance of PPI++ for a mean of independent rows (Angelopoulos, Duchi and Zrnic 2023, section 2)."""
    has = log["human"].notna()
    y, f, rest = log["human"][has].to_numpy(), log["judge"][has].to_numpy(), log["judge"][~has].to_numpy()
    n, N = len(y), len(rest)
    theta = sum(lam * rest) / N + sum(y - lam * f) / n
    rectifier, imputed = y - lam * f, lam * rest
    spread = [sum((part - sum(part) / len(part)) ** 2) / (len(part) - 1) for part in (rectifier, imputed)]
    return theta, spread[0] / n + spread[1] / N


@pytest.mark.parametrize("unit", [1.0, 5.0])
def test_independent_rows_are_ppi_plus_plus_written_out(unit):
    log = judged(models=("a",), n_clusters=60)
    log["human"] *= unit
    results = rectified(log)
    has = log["human"].notna()
    y, f, rest = log["human"][has], log["judge"][has], log["judge"][~has]
    # lambda* of the paper, with the judge's variance of each part beside its own number of rows.
    lam = min(np.cov(y, f)[0, 1] / len(y) / (f.var() / len(f) + rest.var() / len(rest)), 1.0)
    assert results.to_frame()["lambda"].iloc[0] == pytest.approx(lam, rel=SAME)
    theta, variance = ppi_written_out(log, lam)
    assert results.params["mean"] == pytest.approx(theta, rel=SAME)
    assert results.bse["mean"] ** 2 == pytest.approx(variance, rel=SAME)


def test_independent_rows_agree_with_ppi_py():
    log = pd.read_csv(REFERENCE / "ppi.csv")
    theirs = json.loads((REFERENCE / "ppi.json").read_text())
    results = rectified(log)
    assert results.to_frame()["lambda"].iloc[0] == pytest.approx(theirs["lambda"], rel=1e-9)
    assert results.params["mean"] == pytest.approx(theirs["mean"], rel=1e-9)
    low, high = results.with_cov(dof="normal").conf_int().loc["mean"]
    # They divide by n where we divide by n - 1.
    half = (theirs["upper"] - theirs["lower"]) / 2
    assert [low, high] == pytest.approx([theirs["lower"], theirs["upper"]], abs=half / log["human"].count())
    # Their own lambda pools the judge's variance over both parts: the same up to sampling error.
    assert theirs["pooled_upper"] - theirs["pooled_lower"] == pytest.approx(high - low, rel=0.01)


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_a_difference_from_a_mean_of_1_is_still_a_rectified_one():
    log = judged()
    log["judge"] = 1 / (1 + np.exp(-log["judge"]))
    log["human"] = np.where(log["human"].isna(), np.nan, (log["human"] > 0) | (log["model"] == "a"))
    results = er.rectified_mean(log, judge="judge", human="human", by="model", groups="passage")
    assert results.params["a"] == 1
    assert results.contrast("b - a").to_frame()["human_mean"].iloc[0] < 0


def test_one_labelled_cluster_is_too_few():
    log = judged(models=("a",))
    log["human"] = log["truth"].where(log["passage"] == 3)
    with pytest.raises(TooFewClustersError, match=r'at least 2 clusters of \'passage\'; one alone has those of "mean"'):
        er.rectified_mean(log, judge="judge", human="human", groups="passage")
    one = judged(models=("a",))
    one["human"] = one["truth"].where(one.index == 5)
    with pytest.raises(TooFewClustersError, match="2 labelled rows"):
        er.rectified_mean(one, judge="judge", human="human")


def in_unit(p=0.97, n=1000, share=0.2, right=0.9, seed=1, rows=1) -> pd.DataFrame:
    """0/1 truths, alike more often within clusters of so many rows, and a judge that is right in so many of them."""
    rng = np.random.default_rng(seed)
    passage = np.arange(n) // rows
    chance = p if rows == 1 else rng.beta(5 * p, 5 * (1 - p), n)[passage]
    truth = (rng.random(n) < chance).astype(float)
    judge = np.where(rng.random(n) < right, truth, 1 - truth)
    log = pd.DataFrame({"judge": judge, "truth": truth, "passage": passage})
    return log.assign(human=truth).assign(human=lambda log: log["human"].where(rng.random(n) < share))


@pytest.mark.slow
def test_a_rectified_mean_in_the_unit_interval_stays_there_and_covers():
    held, outside, n_logs = 0, 0, 200
    for seed in range(n_logs):
        results = rectified(in_unit(p=0.98, n=600, seed=100 + seed))
        low, high = results.conf_int().loc["mean"]
        assert 0 <= low < high <= 1
        held += low <= 0.98 <= high
        outside += results.conf_int(method="wald").loc["mean", 1] > 1
    # Wald's cover about .76 of these; 200 logs at .95 are above .9 but once in a thousand.
    assert held / n_logs > 0.9
    assert outside > 0.2 * n_logs


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_labels_that_are_all_alike_have_clopper_and_pearsons_interval(label):
    log = in_unit(p=0.9, n=200)
    log["human"] = log["human"].where(log["human"].isna(), label)
    n = int(log["human"].notna().sum())
    results = rectified(log)
    assert results.bse["mean"] == 0
    np.testing.assert_allclose(results.conf_int().iloc[0], proportion_confint(label * n, n, method="beta"), rtol=1e-9)


def test_an_estimate_beyond_one_has_an_interval_that_ends_there():
    judge = np.concatenate([[0.0], np.tile([0.4, 0.6], 10)[:19], np.tile([0.9, 1.0], 100)])
    human = np.concatenate([[0.0], np.ones(19), np.full(200, np.nan)])
    log = pd.DataFrame({"judge": judge, "human": human})
    results = rectified(log)
    assert results.params["mean"] > 1
    n = 20  # the human labels
    np.testing.assert_allclose(results.conf_int().iloc[0], proportion_confint(n, n, method="beta"), rtol=1e-9)
    mirrored = rectified(1 - log)
    np.testing.assert_allclose(mirrored.conf_int().iloc[0], proportion_confint(0, n, method="beta"), atol=1e-12)
    for value in (0.7, 0.82, 0.84, 0.9):
        tested = float(results.t_test(f"mean = {value}").pvalue)
        np.testing.assert_allclose(tested, min(2 * value**n, 1), rtol=1e-9)
        np.testing.assert_allclose(float(mirrored.t_test(f"mean = {1 - value}").pvalue), tested, rtol=1e-9)
    bands = rectified(pd.concat([log.assign(model=model) for model in "ab"]), by="model").simultaneous()
    assert bands[["lower", "upper"]].stack().between(0, 1).all()


def satterthwaite_by_hand(parts: list[tuple[np.ndarray, np.ndarray, float]]) -> float:
    """(tr)^2/tr of squares of sum_g (w_g'z)^2, rows of a part independent with its variance; no formula of the package.

    A part is the clusters and the values of its rows, and the weight of its mean in the estimate.
    """
    clusters = np.unique(np.concatenate([cluster for cluster, _, _ in parts]))
    maps, variances = [], []
    for cluster, values, weight in parts:
        n = values.size
        inside = clusters[:, None] == cluster
        share = inside.mean(axis=1, keepdims=True)
        adjust = 1 / np.sqrt(1 - share)
        maps.append(weight * adjust * (inside - share) / n)
        variances.append(np.full(n, np.var(values)))
    W, omega = np.hstack(maps), np.concatenate(variances)
    together = (W * omega) @ W.T
    return float(np.trace(together) ** 2 / np.sum(together**2))


@pytest.mark.parametrize("whole", [True, False])
def test_degrees_of_freedom_are_satterthwaites_by_hand(whole):
    log = judged(models=("a",), whole=whole)
    results = er.rectified_mean(log, judge="judge", human="human", groups="passage")
    weight = results.to_frame()["lambda"].iloc[0]
    assert 0 < weight < 1
    has = log["human"].notna().to_numpy()
    cluster, f, y = (log[name].to_numpy() for name in ("passage", "judge", "human"))
    labelled = (cluster[has], (y - weight * f)[has], 1.0)
    both = [labelled, (cluster[~has], f[~has], weight)]
    expected = min(satterthwaite_by_hand(both), satterthwaite_by_hand([labelled]))
    assert results.cov.dof()[0] == pytest.approx(expected, rel=SAME)


def test_rows_of_an_engine_are_collected_with_all_that_a_call_names():
    log = pl.from_pandas(er.datasets.passages(n_passages=12, seed=1).assign(human=1.0)).lazy()
    with pytest.raises(NotAvailableError, match="all that the call names"):
        er.rectified_mean(log, judge="score", human="human", groups="passage")
