"""Tests of contrasts against values; of a mean in [0, 1] against a standard, in agreement with its interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.covariance.covariance import Covariance
from evalreg.errors import ScoreRangeError
from evalreg.estimate import Estimate, Limits
from evalreg.inference.contrasts import Contrasts
from evalreg.inference.intervals import intervals
from evalreg.inference.proportions import logit_statistic
from evalreg.inference.rectified import few_labels, rectified_limits
from evalreg.inference.wald import as_t_results
from evalreg.inference.widening import widening

if TYPE_CHECKING:
    from statsmodels.stats.contrast import ContrastResults

# p-values of a proportion's interval below the first are taken to be zero, above the second to be one.
SMALLEST_LEVEL, LARGEST_LEVEL = 1e-15, 0.9999


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
    if cov.summed or widths.few is not None:
        result.pvalue = np.squeeze(widths.pvalues(effect - value))
        result.conf_int = partial(widths.limits, effect)
    if widths.few is not None:
        # Of these the t that has the p-value.
        result.tvalue = result.statistic = widths.statistic(effect - value)
    scaled = _on_scale(estimate, cov, asked, method)
    if not scaled.any():
        return result
    limits = "logit" if method == "logit" else None
    p = np.array(np.atleast_1d(result.pvalue), dtype=np.float64)
    t = np.array(result.tvalue, dtype=np.float64)
    own = np.argmax(C != 0, axis=1)
    for i in np.flatnonzero(scaled):
        p[i] = level_reached(estimate, cov, int(own[i]), float(value[i]), limits)
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

    A win rate is tested by its interval: p < alpha where `conf_int(alpha)` leaves a half out. NaN without a variance.
    """
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
        for i in np.flatnonzero(inside):
            p[i] = level_reached(estimate, cov, int(i), null, None)
    level = np.where(inside, np.maximum(p, np.finfo(float).tiny), 0.5)
    return np.where(inside, np.sign(effect) * cov.critical(alpha=level), t), p


def against_value(estimate: Estimate, cov: Covariance, value: float) -> FloatArray:
    """Two-sided p-values of means in [0, 1] against a value, by their intervals; none lies beyond 0 or 1.

    NaN without a variance. Shapes: returns (n_params,).
    """
    theta, variance = np.array(estimate.params), cov.variance()
    p = cov.pvalues(None, theta - value)
    for i in np.flatnonzero((variance > 0) & (theta > 0) & (theta < 1)):
        p[i] = level_reached(estimate, cov, int(i), value, None) if 0 < value < 1 else 0.0
    return p


def level_reached(estimate: Estimate, cov: Covariance, parameter: int, value: float, method: str | None) -> float:
    """Two-sided p-value of a mean in [0, 1]: the largest level at which its interval holds the value.

    At most 1; the larger of those of the logit interval and, where few successes or failures are effective, of the one
    that it is widened to.
    """
    unit = np.eye(estimate.n_params)[[parameter]]
    mean, se = estimate.params[[parameter]], np.sqrt(cov.variance(unit))
    rectified = method is None and estimate.about.interval == "rectified"
    if rectified and (few_labels(estimate, cov)[parameter] or not 0 < mean[0] < 1):
        return _inverted(estimate, cov, parameter, value, partial(rectified_limits, estimate, cov))
    on_logit = float(cov.pvalues(unit, se * logit_statistic(mean, se, np.array([value])))[0])
    wider = None if method == "logit" else widening(estimate, cov)
    if wider is None or not wider.acts[parameter]:
        return on_logit
    return max(on_logit, _inverted(estimate, cov, parameter, value, wider.limits))


def _inverted(estimate: Estimate, cov: Covariance, parameter: int, value: float, limits: Limits) -> float:
    """Largest level at which an interval, from levels and critical values, holds the value."""
    from scipy import optimize

    side = 0 if value < estimate.params[parameter] else 1

    def room(log_level: float) -> float:
        """How far inside the nearer end the value is."""
        level = np.full(estimate.n_params, np.exp(log_level))
        end = limits(level, cov.critical(alpha=level))[parameter, side]
        return float(value - end if side == 0 else end - value)

    smallest, largest = np.log(SMALLEST_LEVEL), np.log(LARGEST_LEVEL)
    if room(largest) >= 0:
        return 1.0
    return float(np.exp(optimize.brentq(room, smallest, largest, xtol=1e-12))) if room(smallest) > 0 else 0.0
