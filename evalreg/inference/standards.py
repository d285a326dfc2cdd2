"""Tests of contrasts against values; of a mean in [0, 1] against a standard, in agreement with its interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.covariance.covariance import Covariance
from evalreg.errors import ScoreRangeError
from evalreg.estimate import Estimate, Limits
from evalreg.inference.contrasts import Contrasts
from evalreg.inference.intervals import intervals
from evalreg.inference.monotone import through
from evalreg.inference.rectified import few_labels, rectified_limits
from evalreg.inference.wald import as_t_results
from evalreg.inference.widening import widening
from evalreg.numerics.proportions import logit_statistic
from evalreg.numerics.roots import crossings

if TYPE_CHECKING:
    from statsmodels.stats.contrast import ContrastResults

# p-values of a proportion's interval below the first are taken to be zero, above the second to be one.
SMALLEST_LEVEL, LARGEST_LEVEL = 1e-15, 0.9999
# And known to this share of themselves.
LEVEL_WIDTH = 1e-12


def t_tests(estimate: Estimate, cov: Covariance, asked: Contrasts, method: str | None) -> ContrastResults:
    """Tests of contrasts against values, as statsmodels' ContrastResults.

    `df_denom` has one entry a contrast. For a mean tested by its interval the p-value is the largest level at which the
    interval holds the value, `tvalue` is the t statistic with that p-value, and `conf_int` gives the interval.
    """
    C, value = asked.matrix, asked.value
    variance, effect = cov.variance(C), C @ estimate.params
    result = as_t_results(effect, np.sqrt(variance), cov.dof(C), value)
    widths = cov.widths(C)
    if method == "wald":
        widths = replace(widths, few=None)
    if cov.summed or widths.few is not None or widths.reach is not None:
        result.pvalue = np.squeeze(widths.pvalues(effect - value))
        result.conf_int = partial(widths.limits, effect)
    if widths.few is not None:
        # Of these the t that has the p-value.
        result.tvalue = result.statistic = widths.statistic(effect - value)
    behind = through(estimate, cov) if method is None else None
    of, errors, against = estimate, cov, asked
    if behind is not None:
        of, errors, against = behind.estimate, behind.cov, replace(asked, value=behind.value(value))
    scaled = _on_scale(of, errors, against, method)
    if not scaled.any():
        return result
    limits = "logit" if method == "logit" else None
    p = np.array(np.atleast_1d(result.pvalue), dtype=np.float64)
    t = np.array(result.tvalue, dtype=np.float64)
    own = np.argmax(C != 0, axis=1)
    p[scaled] = levels_reached(of, errors, own[scaled], against.value[scaled], limits)
    signs = np.sign(effect - value)
    t[scaled] = (signs * cov.critical(C, np.maximum(p, np.finfo(float).tiny)))[scaled]
    result.tvalue = result.statistic = t
    result.pvalue = np.squeeze(p)
    result.conf_int = partial(_limits, estimate, cov, scaled, own, limits, result.conf_int)
    return result


def _limits(
    estimate: Estimate,
    cov: Covariance,
    scaled: BoolArray,
    own: IntArray,
    method: str | None,
    wald: Callable[[float], FloatArray],
    alpha: float = 0.05,
) -> FloatArray:
    """Wald limits, and for means tested by their intervals those."""
    limits = wald(alpha)
    limits[scaled] = intervals(estimate, cov, alpha, method)[own[scaled]]
    return limits


def _on_scale(estimate: Estimate, cov: Covariance, asked: Contrasts, method: str | None) -> BoolArray:
    """Contrasts that are one mean in [0, 1] itself, against a value between 0 and 1."""
    C, value = asked.matrix, asked.value
    single = (np.count_nonzero(C, axis=1) == 1) & (C.max(axis=1) == 1)
    possible = single & (value > 0) & (value < 1) & estimate.bounded
    if method == "wald" or (method is None and estimate.about.interval == "wald"):
        return np.zeros(value.size, dtype=bool)
    if method == "logit" and not possible.all():
        name = asked.names[int(np.argmin(possible))]
        raise ScoreRangeError(
            f'`method="logit"` tests a mean of scores that all lie in [0, 1] against a value between 0 and 1; {name!r} '
            'is not such a hypothesis. Use method="wald".'
        )
    effect = C @ estimate.params
    # A rectified mean has an interval wherever it is.
    inside = (effect > 0) & (effect < 1) | (method is None and estimate.about.interval == "rectified")
    return np.asarray(possible & (cov.variance(C) > 0) & inside)


def tested_against(estimate: Estimate) -> float | None:
    """What t and p of each parameter are against, to be shown; None where they tell nothing.

    Scores that are all at least 0 have a mean above 0 as soon as one of them is, so that nobody asks whether it is 0.
    Differences, contrasts, coefficients, and means of scores on both sides of 0 have a null.
    """
    return None if estimate.about.levels and estimate.about.null == 0 else estimate.about.null


def against_null(estimate: Estimate, cov: Covariance) -> tuple[FloatArray, FloatArray]:
    """t and p of each parameter against what its kind is tested against: a half for win rates, 1 for odds, else 0.

    A win rate is tested by its interval: p < alpha where `conf_int(alpha)` leaves a half out, and so are its odds and
    its net benefit. NaN without a variance.
    """
    own = estimate.family.tests(estimate, cov)
    if own is not None:
        return own
    behind = through(estimate, cov)
    if behind is not None:
        return against_null(behind.estimate, behind.cov)
    null, theta = estimate.about.null, np.array(estimate.params)
    se = np.sqrt(cov.variance())
    effect = theta - null
    t, p = effect / np.where(se > 0, se, np.nan), cov.pvalues(None, effect)
    scale = estimate.about.interval
    if null == 0 or scale == "wald" or not estimate.bounded:
        return t, p
    inside = (se > 0) & (((theta > 0) & (theta < 1)) | (scale == "rectified"))
    if scale == "logit":
        distance = np.where(inside, effect, 0.0)
        distance[inside] = se[inside] * logit_statistic(theta[inside], se[inside], np.full(inside.sum(), null))
        p = np.where(inside, cov.pvalues(None, distance), p)
    else:
        at = np.flatnonzero(inside)
        p[at] = levels_reached(estimate, cov, at, np.full(at.size, null), None)
    level = np.where(inside, np.maximum(p, np.finfo(float).tiny), 0.5)
    return np.where(inside, np.sign(effect) * cov.critical(alpha=level), t), p


def against_value(estimate: Estimate, cov: Covariance, value: float) -> FloatArray:
    """Two-sided p-values of means in [0, 1] against a value, by their intervals; none lies beyond 0 or 1.

    NaN without a variance. Shapes: returns (n_params,).
    """
    behind = through(estimate, cov)
    if behind is not None:
        return against_value(behind.estimate, behind.cov, float(behind.value(np.array([value]))[0]))
    theta, variance = np.array(estimate.params), cov.variance()
    p = cov.pvalues(None, theta - value)
    at = np.flatnonzero((variance > 0) & (theta > 0) & (theta < 1))
    p[at] = levels_reached(estimate, cov, at, np.full(at.size, value), None) if 0 < value < 1 else 0.0
    return p


def levels_reached(
    estimate: Estimate, cov: Covariance, at: IntArray, value: FloatArray, method: str | None
) -> FloatArray:
    """Two-sided p-values of means in [0, 1]: the largest levels at which their intervals hold the values.

    At most 1; the larger of those of the logit interval and, where few successes or failures are effective, of the one
    that it is widened to. Shapes: at (m,), parameters that may occur several times, value (m,); returns (m,).
    """
    found = np.empty(at.size)
    # All parameters have their interval at once, for one value each.
    turn = pd.Series(at).groupby(at).cumcount().to_numpy()
    for k in range(int(turn.max(initial=-1)) + 1):
        now = turn == k
        found[now] = _each_once(estimate, cov, at[now], value[now], method)
    return found


def _each_once(estimate: Estimate, cov: Covariance, at: IntArray, value: FloatArray, method: str | None) -> FloatArray:
    mean = estimate.params[at]
    limits: Limits | None = None
    inverted = np.zeros(at.size, dtype=bool)
    if method is None and estimate.about.interval == "rectified":
        limits = partial(rectified_limits, estimate, cov)
        inverted = few_labels(estimate, cov)[at] | ~((mean > 0) & (mean < 1))
    on_logit, p = ~inverted, np.zeros(at.size)
    if on_logit.any():
        units = np.eye(estimate.n_params)[at[on_logit]]
        se = np.sqrt(cov.variance(units))
        p[on_logit] = cov.pvalues(units, se * logit_statistic(mean[on_logit], se, value[on_logit]))
    wider = None if method == "logit" else widening(estimate, cov)
    if wider is not None:
        inverted, limits = wider.acts[at], wider.limits
    if limits is not None and inverted.any():
        p[inverted] = np.maximum(p[inverted], _inverted(estimate, cov, at[inverted], value[inverted], limits))
    return p


def _inverted(estimate: Estimate, cov: Covariance, at: IntArray, value: FloatArray, limits: Limits) -> FloatArray:
    """Largest levels at which intervals, from levels and critical values, hold the values; each parameter once."""
    below = value < estimate.params[at]

    def room(log_level: FloatArray) -> FloatArray:
        """How far inside the nearer end the values are."""
        level = np.full(estimate.n_params, 0.5)
        level[at] = np.exp(log_level)
        ends = limits(level, cov.critical(alpha=level))[at]
        return np.where(below, value - ends[:, 0], ends[:, 1] - value)

    smallest, largest = np.full(at.size, np.log(SMALLEST_LEVEL)), np.full(at.size, np.log(LARGEST_LEVEL))
    at_smallest, at_largest = room(smallest), room(largest)
    level = np.exp(crossings(room, largest, smallest, at_largest, at_smallest, LEVEL_WIDTH))
    return np.where(at_largest >= 0, 1.0, np.where(at_smallest > 0, level, 0.0))
