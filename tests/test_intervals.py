"""Intervals of means in [0, 1], by default and by name, and their tests."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats
from statsmodels.stats.proportion import proportion_confint

import evalreg as er
from evalreg.covariance.proportions import proportion_interval

pytestmark = pytest.mark.filterwarnings(
    "ignore::evalreg.errors.FewClustersWarning",
    "ignore::evalreg.errors.DominantClusterWarning",
    "ignore::evalreg.errors.FewCarriersWarning",
)


def log_of(totals, rows=5):
    """One passage a total: so many of its rows are right."""
    scores = np.concatenate([np.repeat([1.0, 0.0], [total, rows - total]) for total in totals])
    return pd.DataFrame({"score": scores, "passage": np.repeat(np.arange(len(totals)), rows)})


FEW = log_of([5] * 9 + [3, 4, 5])
MANY = log_of([3, 2, 5, 1, 4, 2, 3, 5, 0, 4, 3, 2] * 5)


def zero_inflated(n=120, rows=1, seed=3):
    """Nine scores in ten are 0, the others anything up to 1; so many rows a cluster."""
    rng = np.random.default_rng(seed)
    hit = np.repeat(rng.random(n // rows) < 0.1, rows)
    log = pd.DataFrame({"score": hit * rng.random(n), "passage": np.arange(n) // rows})
    return log if rows > 1 else log[["score"]]


@pytest.mark.parametrize("groups", [None, "passage"])
def test_a_ratio_is_the_weighted_mean_of_its_rows_own_ratios(groups):
    log = zero_inflated(60, rows=3)
    log["words"] = np.random.default_rng(4).integers(5, 60, len(log)).astype(float)
    log["errors"] = log["score"] * log["words"]
    ratio = er.ratio(log, "errors", "words", groups=groups)
    if groups:
        # Under clusters a ratio is the weighted mean in every respect but Kish's design effect, which counts rows.
        mean = er.mean(log, weights="words", groups=groups)
        np.testing.assert_allclose(ratio.conf_int(method="logit"), mean.conf_int(method="logit"), rtol=1e-9)
        np.testing.assert_allclose(ratio.conf_int().iloc[0], mean.conf_int().iloc[0], rtol=0.05)


@pytest.mark.parametrize("failures", [1, 3, 4, 5, 9])
def test_rows_that_are_clusters_of_their_own_are_independent_rows(failures):
    log = pd.DataFrame({"score": np.repeat([1.0, 0.0], [60 - failures, failures]), "question": np.arange(60)})
    plain = er.mean(log)
    for own in (er.mean(log, groups="question"), er.mean(log, item="question")):
        np.testing.assert_allclose(own.conf_int(), plain.conf_int(), rtol=1e-12)
        np.testing.assert_allclose(own.t_test("mean = 0.8").pvalue, plain.t_test("mean = 0.8").pvalue, rtol=1e-9)
    both = pd.concat([log.assign(model="A"), log.assign(model="B", score=1 - log["score"])])
    joint = er.mean(both, by="model", item="question").conf_int()
    np.testing.assert_allclose(joint.loc["A"], plain.conf_int().loc["mean"], rtol=1e-12)
    np.testing.assert_allclose(joint.loc["B"], 1 - plain.conf_int().loc["mean"].to_numpy()[::-1], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["low spread", "zero inflated"])
def test_intervals_of_scores_that_are_no_trials_cover(kind):
    # Binomial bounds: 400 logs at .95 are within .9 and .985 but once in ten thousand.
    rng, n, held, width = np.random.default_rng(11), 100, 0, []
    for _ in range(400):
        y = rng.beta(6, 594, n) if kind == "low spread" else (rng.random(n) < 0.1) * rng.random(n)
        results = er.mean(pd.DataFrame({"score": y}))
        low, high = results.conf_int().loc["mean"]
        held += low <= (0.01 if kind == "low spread" else 0.05) <= high
        width.append((high - low) / results.bse["mean"])
    assert 0.9 <= held / 400 <= 0.985
    assert np.median(width) < 5


LOGS = {
    "few": lambda: er.mean(FEW, groups="passage"),
    "many": lambda: er.mean(MANY, groups="passage"),
    "regression": lambda: er.fit("score ~ 1", FEW, groups="passage"),
}


@pytest.mark.parametrize("kind", ["few", "many", "regression"])
def test_a_wald_test_is_the_distance_in_standard_errors(kind):
    results = LOGS[kind]()
    name = results.params.index[0]
    t = (results.params[name] - 0.8) / results.bse[name]
    found = results.t_test(f"{name} = 0.8", method="wald")
    np.testing.assert_allclose(found.tvalue, t, rtol=1e-12)
    np.testing.assert_allclose(found.pvalue, 2 * stats.t.sf(abs(t), results.dof[name]), rtol=1e-10)
    np.testing.assert_allclose(found.conf_int()[0], results.conf_int(method="wald").iloc[0], rtol=1e-12)
    # A regression's interval is Wald's, so that its tests are.
    default = results.t_test(f"{name} = 0.8")
    assert np.allclose(default.tvalue, t) == (kind == "regression")
    np.testing.assert_allclose(results.wald_test(f"{name} = 0.8").pvalue, default.pvalue, rtol=1e-10)


def test_a_test_on_the_logit_scale_is_the_distance_there():
    results = LOGS["regression"]()
    p, se, dof = results.params["Intercept"], results.bse["Intercept"], results.dof["Intercept"]
    t = (special.logit(p) - special.logit(0.7)) * p * (1 - p) / se
    found = results.t_test("Intercept = 0.7", method="logit")
    np.testing.assert_allclose([found.tvalue[0], found.pvalue], [t, 2 * stats.t.sf(abs(t), dof)], rtol=1e-9)


def test_statsmodels_tables_of_a_test_agree_with_the_interval():
    results = er.mean(
        pd.concat([FEW.assign(model="A"), MANY.assign(model="B")], ignore_index=True), by="model", groups="passage"
    )
    found = results.t_test("A = 0.8, A - B = 0, B = 0")
    frame = found.summary_frame()
    ends = frame[["Conf. Int. Low", "Conf. Int. Upp."]].to_numpy()
    np.testing.assert_allclose(ends[0], results.conf_int().loc["A"], rtol=1e-12)
    difference = results.contrast("A - B")
    np.testing.assert_allclose(ends[1], difference.conf_int().iloc[0], rtol=1e-12)
    np.testing.assert_allclose(ends[2], results.conf_int().loc["B"], rtol=1e-12)
    np.testing.assert_allclose(frame["P>|t|"].iloc[1:], [difference.pvalues.iloc[0], 0.0], rtol=1e-12)
    np.testing.assert_allclose(2 * stats.t.sf(abs(frame["t"].iloc[0]), results.dof["A"]), frame["P>|t|"].iloc[0])
    assert str(found.summary()).count("\n") > 5


@pytest.mark.parametrize("alpha", [0.5, 0.05, 1e-4, 1e-6])
@pytest.mark.parametrize(
    ("method", "name"), [("wilson", "wilson"), ("clopper-pearson", "beta"), ("jeffreys", "jeffreys")]
)
def test_intervals_of_proportions_are_those_of_statsmodels(method, name, alpha):
    rng = np.random.default_rng(5)
    n = np.concatenate([np.ones(4), rng.integers(2, 5000, 300), rng.uniform(0.3, 60, 300)])
    mean = np.concatenate(
        [[0, 1, 0.5, 1e-9], rng.random(200), 1 - 10 ** rng.uniform(-9, -1, 100), np.zeros(150), np.ones(150)]
    )
    found = proportion_interval(mean, n, alpha, method)
    expected = np.column_stack(proportion_confint(mean * n, n, alpha=alpha, method=name))
    np.testing.assert_allclose(found, np.clip(expected, 0, 1), rtol=1e-9, atol=1e-12)
