"""Differences of quantiles: scores with atoms are not told apart by their rounding."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import evalreg as er

pytestmark = pytest.mark.filterwarnings("ignore:.*share their value with others")
ROUNDINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "whole scores to ten": lambda z: np.clip(np.round(6.5 + 2 * z), 1, 10),
    "tokens in hundreds": lambda z: np.round(np.exp(5 + 0.8 * z) / 100) * 100,
    "counts": lambda z: stats.poisson.ppf(stats.norm.cdf(z), 12.0),
}


def pairs(rng: np.random.Generator, n: int, shift: float = 0.0, correlation: float = 0.6) -> np.ndarray:
    shared = rng.normal(size=n)
    own = rng.normal(size=(2, n))
    return np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own + np.array([[0.0], [shift]])


def log_of(values: np.ndarray) -> pd.DataFrame:
    n = values.shape[1]
    return pd.DataFrame({"x": values.ravel(), "model": np.repeat(["a", "b"], n), "item": np.tile(np.arange(n), 2)})


def slow_mover(results: er.Results, alpha: float) -> tuple[float, float]:
    """Both limits of a - b, from the two printed intervals and the printed covariance (Zou and Donner 2008)."""
    (la, ua), (lb, ub) = results.conf_int(alpha).loc[["a", "b"]].to_numpy()
    a, b = results.params[["a", "b"]]
    cov = results.cov_params()
    r = cov.loc["a", "b"] / np.sqrt(cov.loc["a", "a"] * cov.loc["b", "b"])
    lower = a - b - np.sqrt((a - la) ** 2 + (ub - b) ** 2 - 2 * r * (a - la) * (ub - b))
    upper = a - b + np.sqrt((ua - a) ** 2 + (b - lb) ** 2 - 2 * r * (ua - a) * (b - lb))
    return lower, upper


@pytest.mark.parametrize("name", ROUNDINGS)
@pytest.mark.parametrize("q", [0.5, 0.9])
def test_a_difference_is_shown_only_where_the_limits_of_the_two_leave_zero_out(name, q):
    shown = 0
    for seed in range(8 if q == 0.5 else 2):
        rng = np.random.default_rng(seed)
        results = er.quantile(log_of(ROUNDINGS[name](pairs(rng, 150, shift=0.4))), "x", q, by="model", groups="item")
        p = results.contrast("a - b").pvalues.iloc[0]
        table = results.pairwise()
        np.testing.assert_allclose(table["p_value"].iloc[0], p)
        if p < 0.05:
            lower, upper = slow_mover(results, 0.05)
            assert lower > 0 or upper < 0
        # Other levels are read between those that were computed, a quarter of a standard error apart.
        for alpha in (0.2, 0.01, 0.001):
            if p < alpha:
                z = stats.norm.isf(alpha / 2) - 0.25
                lower, upper = slow_mover(results, 2 * stats.norm.sf(z))
                assert lower > 0 or upper < 0
        shown += p < 0.05
    assert shown > 0 or q == 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", ROUNDINGS)
def test_models_alike_are_seldom_told_apart(name):
    """120 logs; without the floor 10% to 60% of them show a difference at 5%."""
    false = slope = 0
    contrast = np.array([[1.0, -1.0]])
    for seed in range(120):
        rng = np.random.default_rng(1000 + seed)
        values = ROUNDINGS[name](pairs(rng, 200))
        results = er.quantile(log_of(values), "x", by="model", groups="item")
        false += results.contrast("a - b").pvalues.iloc[0] < 0.05
        by_slope = replace(results.cov, floor=None)
        slope += by_slope.pvalues(contrast, contrast @ results.params.to_numpy())[0] < 0.05
    # Above this in one of 10,000 series at 5%.
    assert false <= stats.binom.ppf(1 - 1e-4, 120, 0.05)
    assert slope > false


def test_many_models_and_general_contrasts_come_from_the_same_limits(rng):
    values = np.round(np.exp(rng.normal(size=(4, 150)) + np.linspace(0, 0.6, 4)[:, None]) * 4)
    log = pd.DataFrame({"x": values.ravel(), "model": np.repeat(list("abcd"), 150), "item": np.tile(np.arange(150), 4)})
    results = er.quantile(log, "x", by="model", groups="item")
    table = results.pairwise()
    for left, right in table.index:
        alone = results.contrast(f"{left} - {right}")
        np.testing.assert_allclose(table.loc[(left, right), "se"], alone.bse.iloc[0], rtol=1e-12)
    # A contrast of three whose third weight vanishes is that of two.
    nearly = results.contrast({"a": 1.0, "b": -1.0, "c": 1e-9})
    np.testing.assert_allclose(nearly.bse.iloc[0], table.loc[("a", "b"), "se"], rtol=1e-6)
    assert results.with_cov(groups=None).cov.floor is not None
    assert list(results.ranks()["lower"]) <= list(results.ranks()["upper"])


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_the_bandwidth_is_that_of_statsmodels():
    from statsmodels.regression.quantile_regression import hall_sheather

    from evalreg.estimators.quantile import bandwidth

    for q in (0.01, 0.25, 0.5, 0.9):
        for n in (2, 37.5, 1e6):
            np.testing.assert_allclose(bandwidth(q, n), hall_sheather(n, q, 0.05), rtol=1e-12)


def test_tied_rows_of_unequal_weights_stand_in_no_order(rng):
    frame = pd.DataFrame({"score": rng.integers(0, 20, 60), "w": rng.integers(1, 9, 60), "c": np.arange(60) // 4})
    for q in (0.3, 0.5, 0.8):
        both = [er.quantile(rows, "score", q, weights="w", groups="c").bse for rows in (frame, frame[::-1])]
        np.testing.assert_allclose(*both, rtol=1e-9)


@pytest.mark.parametrize("q", [0.5, 0.9])
def test_of_models_whose_values_stand_in_heaps_it_is_said_and_of_no_others(q):
    rng = np.random.default_rng(3)
    for rounded in ROUNDINGS.values():
        log = log_of(rounded(pairs(rng, 150)))
        with pytest.warns(er.errors.EvalregWarning, match="share their value with others"):
            er.quantile(log, "x", q, by="model", groups="item")
        with warnings.catch_warnings():  # of one model nothing is compared
            warnings.simplefilter("error")
            er.quantile(log[log["model"] == "a"], "x", q, groups="item")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        er.quantile(log_of(np.round(1000 * np.exp(pairs(rng, 150)))), "x", q, by="model", groups="item")
