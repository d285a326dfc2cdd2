"""Valid but fragile results: they warn and name the quantity, and never show a precision that the data do not give."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import evalreg as er
from evalreg.errors import DominantClusterWarning, FewClustersWarning, RepairWarning, ZeroVarianceWarning

COVS = ("CR0", "CR1", "CR2", "CR3", "jackknife")
# What a note says where a parameter has neither standard error nor test.
NONE = "no (standard error|test), because"
quiet = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


def crossed_log(n_prompts: int = 12, n_judges: int = 12, seed: int = 5, bounded: bool = False) -> pd.DataFrame:
    """Every judge scores every prompt, with effects of both."""
    rng = np.random.default_rng(seed)
    prompt, judge = np.meshgrid(np.arange(n_prompts), np.arange(n_judges), indexing="ij")
    level = rng.normal(size=n_prompts)[prompt] + 0.5 * rng.normal(size=n_judges)[judge]
    score = (level + rng.normal(size=prompt.shape)).ravel()
    return pd.DataFrame(
        {
            "score": (score > 0).astype(float) if bounded else score,
            "x": rng.normal(size=prompt.size),
            "prompt": [f"p{i}" for i in prompt.ravel()],
            "judge": [f"j{i}" for i in judge.ravel()],
            "topic": [f"t{i // 2}" for i in prompt.ravel()],
        }
    )


def chessboard(noise: float = 0.1) -> pd.DataFrame:
    """Scores that alternate on a 6 by 6 board: rows and columns average out, so the crossed variance is negative."""
    rng = np.random.default_rng(0)
    a, b = np.meshgrid(np.arange(6), np.arange(6))
    score = (-1.0) ** (a + b).ravel() + noise * rng.normal(size=36)
    return pd.DataFrame({"score": score, "a": a.ravel(), "b": b.ravel()})


def notes_of(results: er.Results) -> str:
    return " ".join(text for _, text in results.notes)


def check_no_silent_precision(results: er.Results) -> None:
    """No zero or missing standard error without its reason, no p of zero, no interval of width zero."""
    frame = results.to_frame()
    reasons = [text for category, text in results.notes if issubclass(category, ZeroVarianceWarning)]
    for name, row in frame.iterrows():
        assert row["p_value"] != 0
        assert row["upper"] != row["lower"]
        assert np.isnan(row["p_value"]) == np.isnan(row["t"])
        if not row["se"] > 0:
            assert np.isnan(row["p_value"])
            # A note lists at most five names, and counts the others.
            assert any(str(name) in text or " more:" in text for text in reasons), (name, reasons)


# --- nothing to say ---------------------------------------------------------------------------------------------------


# --- a model whose rows all lie in one cluster ------------------------------------------------------------------------


# --- every cluster with the same mean ---------------------------------------------------------------------------------


def estimated(log: pd.DataFrame, formula: str | None, cov: Any) -> er.Results:
    """A mean, or a regression, by passage."""
    how = {"groups": "passage", "cov": cov}
    return er.mean(log, **how) if formula is None else er.fit(formula, log, **how)


def flat_log(values: tuple[float, ...] = (0.0, 1.0, 0.0, 1.0), n_clusters: int = 12) -> pd.DataFrame:
    """Every passage has the same answers, so that cluster totals are all zero."""
    passage = np.repeat(np.arange(n_clusters), len(values))
    return pd.DataFrame({"score": np.tile(values, n_clusters), "passage": passage, "z": passage % 3})


@pytest.mark.parametrize("cov", [None, *COVS])
@pytest.mark.parametrize("formula", [None, "score ~ 1"])
def test_equal_clusters_of_bounded_scores_give_an_interval_and_no_p_value(cov: Any, formula: str | None) -> None:
    log = flat_log()
    with pytest.warns(ZeroVarianceWarning, match="the cluster totals do not vary") as record:
        results = estimated(log, formula, cov)
    assert results.bse.tolist() == [0.0]
    low, high = results.conf_int().iloc[0]
    if formula is None:
        # Wilson's, by t: clusters with 2 of 4 rows of the rarer kind leave (1/2)/(1/2 + 2) of their variance unseen.
        assert "by the score test alone" in str(record[0].message)
        inverse = stats.t.ppf(0.975, results.dof.iloc[0]) ** 2 * 0.2 / (len(log) - 1)
        half = 0.5 * np.sqrt(inverse / (1 + inverse))
        assert (low, high) == pytest.approx((0.5 - half, 0.5 + half), rel=1e-9)
    else:
        # Clopper-Pearson for 6 of 12, the effective number of clusters.
        assert low == pytest.approx(stats.beta.ppf(0.025, 6, 7), rel=1e-9)
        assert high == pytest.approx(stats.beta.ppf(0.975, 7, 6), rel=1e-9)
    check_no_silent_precision(results)


@pytest.mark.pairwise
@pytest.mark.parametrize("cov", [None, *COVS])
@pytest.mark.parametrize("values", [(1.0, 10.0), (0.1, 0.7, 0.3, -0.2), (1 / 3, -1 / 7, 1e6 / 9)])
@pytest.mark.parametrize("formula", [None, "score ~ 1", "score ~ z"])
def test_equal_clusters_of_unbounded_scores_have_no_standard_error(
    cov: Any, values: tuple[float, ...], formula: str | None
) -> None:
    log = flat_log(values)
    with pytest.warns(ZeroVarianceWarning, match=f"{NONE} the cluster totals do not vary"):
        results = estimated(log, formula, cov)
    assert np.isnan(results.bse).all()
    assert np.isnan(results.conf_int().to_numpy()).all()
    check_no_silent_precision(results)
    assert "nan" in str(results.summary())
    joint = results.wald_test(np.eye(results.params.size)[-1])
    assert np.isnan(joint.pvalue)
    assert joint.reason


# --- identical models -------------------------------------------------------------------------------------------------


@quiet
@pytest.mark.parametrize("groups", [None, "prompt", "prompt + judge"])
@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("cov", [None, "CR1"])
def test_identical_models_differ_by_nothing_that_is_shown(cov: Any, bounded: bool, groups: str | None) -> None:
    log = crossed_log(bounded=bounded).assign(item=np.arange(144))
    twins = pd.concat([log.assign(model="a"), log.assign(model="b")], ignore_index=True)
    results = er.mean(twins, by="model", item="item", groups=groups, cov=cov)
    difference = results.contrast("a - b")
    assert difference.params.iloc[0] == 0
    # One answer by every way: 0 where the bounds of the scores give an interval in its place, of one axis.
    errors = [*difference.bse, *results.pairwise().se, *np.sqrt(results.cov.variance(np.array([[1.0, -1.0]])))]
    np.testing.assert_array_equal(errors, 0.0 if bounded and groups != "prompt + judge" else np.nan)
    joint = results.wald_test("a - b")
    np.testing.assert_equal(float(joint.pvalue), 1.0 if bounded else np.nan)
    assert bool(joint.reason) != bounded
    if bounded:
        # Differences that were not seen are allowed for, about three in all questions.
        low, high = difference.conf_int().iloc[0]
        assert 1 / 144 < high < 0.5
        assert high == pytest.approx(-low)
        assert difference.pvalues.iloc[0] == results.t_test("a - b").pvalue == 1
        return
    assert np.isnan(difference.pvalues.iloc[0])
    assert re.search(f"a - b: {NONE} ", notes_of(difference))
    check_no_silent_precision(difference)
    assert np.isnan(results.t_test("a - b").pvalue)


# --- a crossed variance that is negative ------------------------------------------------------------------------------


@quiet
def test_negative_eigenvalues_of_a_crossed_covariance_are_cut_and_told() -> None:
    log = chessboard(noise=0.02).assign(model=np.tile(["u", "v", "w"], 12))
    with pytest.warns(RepairWarning, match="not positive semi-definite.*negative eigenvalue"):
        results = er.mean(log, by="model", groups="a + b", repair="eigen")
    assert np.linalg.eigvalsh(results.cov.raw)[0] < 0
    assert np.linalg.eigvalsh(results.cov.repaired)[0] >= -1e-15
    check_no_silent_precision(results)


# --- few, unequal and dominant clusters -------------------------------------------------------------------------------


def sized_log(sizes: list[int], seed: int = 2) -> pd.DataFrame:
    passage = np.repeat([f"p{i}" for i in range(len(sizes))], sizes)
    score = np.random.default_rng(seed).normal(size=passage.size)
    return pd.DataFrame({"score": score, "passage": passage})


@pytest.mark.parametrize("n_clusters", [4, 9])
def test_fewer_than_ten_clusters_warn_with_their_degrees_of_freedom(n_clusters: int) -> None:
    with pytest.warns(
        FewClustersWarning, match=f"^{n_clusters} passage clusters: .* {n_clusters - 1} degrees of freedom"
    ):
        results = er.mean(sized_log([5] * n_clusters), groups="passage")
    assert results.dof.iloc[0] == pytest.approx(n_clusters - 1)
    assert notes_of(results) in str(results.summary()).replace("\n    ", " ")


@quiet
def test_unequal_clusters_warn_with_their_effective_number() -> None:
    sizes = [20, *[2] * 38]
    effective = sum(sizes) ** 2 / sum(size**2 for size in sizes)
    assert effective < len(sizes) / 2
    with pytest.warns(FewClustersWarning, match=f"39 passage clusters differ .* worth {effective:.1f}") as record:
        er.mean(sized_log(sizes), groups="passage")
    assert len(record) == 1


@quiet
@pytest.mark.parametrize(("sizes", "dominates"), [([70, 10, 10, 10], True), ([9, 1], True), ([30, 25, 25, 20], False)])
def test_a_cluster_that_dominates_a_few_others_is_named(sizes: list[int], dominates: bool) -> None:
    categories = [category for category, _ in er.mean(sized_log(sizes), groups="passage").notes]
    assert (DominantClusterWarning in categories) == dominates


@quiet
@pytest.mark.parametrize("cov", COVS)
def test_more_coefficients_than_clusters_warn_where_nothing_allows_for_them(cov: Any) -> None:
    log, rng = sized_log([20] * 12), np.random.default_rng(3)
    names = [f"x{i}" for i in range(12)]
    log[names] = rng.normal(size=(len(log), 12))
    results = er.fit(f"score ~ {' + '.join(names)}", log, groups="passage", cov=cov)
    assert ("12 passage clusters for 13 coefficients" in notes_of(results)) == (cov in ("CR0", "CR1"))


# --- nested and crossed axes ------------------------------------------------------------------------------------------


# --- clusters of leverage 1 -------------------------------------------------------------------------------------------


@quiet
@pytest.mark.parametrize("cov", COVS)
def test_a_covariance_with_leverage_one_is_missing_for_that_parameter_only(cov: Any) -> None:
    # A dummy of one cluster, beside a covariate that varies within clusters.
    log = crossed_log().assign(solo=lambda log: (log["prompt"] == "p0").astype(float))
    with pytest.warns(ZeroVarianceWarning, match=f"^solo: {NONE} it rests on a single cluster"):
        results = er.fit("score ~ solo + x", log, groups="prompt", cov=cov)
    assert np.isnan(results.bse["solo"])
    assert np.isfinite(results.bse[["Intercept", "x"]]).all()
    assert np.isnan(results.cov_params().loc["solo"]).all()
    check_no_silent_precision(results)
    # The rows of that cluster still say something of x, which the other parameters' standard errors use.
    assert results.bse["x"] > 0


# --- immutable --------------------------------------------------------------------------------------------------------


# --- copies -----------------------------------------------------------------------------------------------------------


# --- the same numbers -------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
@pytest.mark.parametrize("cov", ["CR0", "CR1", "CR2", "CR3", "jackknife"])
def test_a_model_on_a_single_cluster_is_compared_with_nobody(cov):
    log = er.datasets.paired(n_passages=20, seed=1)
    alone = log[(log["passage"] == log["passage"].iloc[0]) & (log["model"] == "new")].assign(model="alone")
    both = pd.concat([log, alone], ignore_index=True)
    results = er.mean(both, by="model", item="question", groups="passage", cov=cov)
    assert np.isnan(results.bse["alone"])
    table = results.pairwise()
    assert table.loc["alone", "se"].isna().all()
    assert table.loc[("new", "old"), "se"] > 0
    assert results.ranks().loc["alone", ["lower", "upper"]].tolist() == [1, 3]
