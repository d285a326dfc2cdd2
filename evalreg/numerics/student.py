"""Quantiles and tails of Student's t, where functions cross zero, and intervals of means of scores in [0, 1]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from evalreg.checks import FloatArray
from evalreg.numerics.limits import LAST_DIGITS, ROUNDING

# The normal's two-sided critical value at 5%.
NORMAL = 1.959963984540054


def t_quantile(alpha: float | FloatArray, dof: FloatArray) -> FloatArray:
    """Two-sided critical values of t, the normal's where dof is infinite, NaN where it is; right at small levels."""
    from scipy import special

    dof = np.asarray(dof, dtype=float)
    # From the lower tail: 1 - alpha/2 would lose the digits of a small alpha.
    tail = np.asarray(alpha, dtype=float) / 2
    if tail.ndim == 0 and dof.size > 1 and np.all(dof == dof.flat[0]):
        return np.full(dof.shape, -_of_each(special.ndtri, special.stdtrit, np.asarray(dof.flat[0]), tail))
    return -_of_each(special.ndtri, special.stdtrit, dof, tail)


def t_pvalues(statistic: FloatArray, dof: FloatArray) -> FloatArray:
    """Two-sided p-values of t, the normal's where dof is infinite; right in the tails, NaN where an input is."""
    from scipy import special

    return 2 * _of_each(special.ndtr, special.stdtr, np.asarray(dof, dtype=float), -np.abs(statistic))


def _of_each(normal: Any, of_t: Any, dof: FloatArray, values: FloatArray) -> FloatArray:
    """The normal's function where degrees of freedom are infinite, that of t elsewhere; only those that are needed."""
    infinite = np.isinf(dof)
    if infinite.all():
        return np.asarray(normal(values + np.zeros(dof.shape)))
    if not infinite.any():
        return np.asarray(of_t(dof, values))
    return np.asarray(np.where(infinite, normal(values), of_t(np.where(infinite, 1.0, dof), values)))


def dof_of_quantile(critical: FloatArray, alpha: float) -> FloatArray:
    """Degrees of freedom at which the two-sided critical value of t is as given; inf at the normal's and below."""

    def room(log_dof: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):  # critical values of 0, where there is no variance
            return np.asarray(np.log(critical) - np.log(t_quantile(alpha, np.exp(log_dof))))

    low, high = np.full(critical.shape, -4.0), np.full(critical.shape, 25.0)
    dof = np.exp(crossings(room, low, high, room(low), room(high), LAST_DIGITS))
    normal = t_quantile(alpha, np.full(critical.shape, np.inf))
    return np.where(np.isnan(critical), np.nan, np.where(critical > normal * (1 + ROUNDING), dof, np.inf))


def crossings(
    function: Callable[[FloatArray], FloatArray],
    low: FloatArray,
    high: FloatArray,
    at_low: FloatArray,
    at_high: FloatArray,
    width: float,
) -> FloatArray:
    """The ends `high` of brackets, once these are narrower than `width`; any shape, either end the larger number.

    The function is at most 0 at `low` and above 0 at `high`, and stays so; where it is not, `high` says nothing. NaN
    counts as at most 0. Regula falsi, in which an end that stays a second time counts half (Illinois; Dowell and
    Jarratt 1971, BIT 11, 168-174), with every third step a bisection: no function takes more than three times the
    steps of halving. SciPy's floor has no root finder for arrays.
    """
    low, high = np.broadcast_arrays(low, high)
    widest = float(np.max(np.abs(high - low), initial=width))
    most = 3 * int(np.ceil(np.log2(widest / width)) + 1) if np.isfinite(widest) else 0
    stayed = np.zeros(low.shape)  # 1 where `high` moved last, -1 where `low` did
    for step in range(1, most + 1):
        gap = high - low
        if not np.any((np.abs(gap) > width) & (at_high > 0)):
            break
        with np.errstate(all="ignore"):
            share = at_high / (at_high - at_low)
        # Never quite at an end, so that the bracket closes from both sides.
        least = np.minimum(width / (2 * np.maximum(np.abs(gap), width)), 0.5)
        share = np.where(np.isfinite(share) & (step % 3 > 0), np.clip(share, least, 1 - least), 0.5)
        new = high - gap * share
        value = function(new)
        above = value > 0
        at_low = np.where(above, np.where(stayed > 0, at_low / 2, at_low), value)
        at_high = np.where(above, value, np.where(stayed < 0, at_high / 2, at_high))
        low, high, stayed = np.where(above, low, new), np.where(above, new, high), np.where(above, 1.0, -1.0)
    return high


def logit_interval(mean: FloatArray, se: FloatArray, critical: FloatArray) -> FloatArray:
    """Interval built on the logit scale, inside (0, 1).

    Korn and Graubard (1998), Survey Methodology 24, 193-201; Agresti (2013), Categorical Data Analysis, section 3.1.6.
    Shapes: mean, se (m,), critical (m,); returns (m, 2).
    """
    from scipy import special

    half = critical * se / (mean * (1 - mean))
    centre = special.logit(mean)
    return np.column_stack([special.expit(centre - half), special.expit(centre + half)])


def logit_statistic(mean: FloatArray, se: FloatArray, value: FloatArray) -> FloatArray:
    """Distance of a mean from a value on the logit scale, in standard errors there.

    (logit p - logit p0) p (1 - p)/SE: beyond the critical value where `logit_interval` leaves the value out. Shapes:
    mean, se (m,), value (m,); returns (m,).
    """
    from scipy import special

    return np.asarray((special.logit(mean) - special.logit(value)) * mean * (1 - mean) / se)


def effective_n(
    mean: FloatArray,
    variance: FloatArray,
    n: FloatArray,
    critical: FloatArray,
    fallback: FloatArray,
    alpha: float | FloatArray,
) -> FloatArray:
    """Number of independent 0/1 trials with the same variance, with Korn and Graubard's t correction.

    Korn and Graubard (1998), Survey Methodology 24, 193-201. Shapes: mean, variance (m,), n (m,), critical (m,),
    fallback (m,), alpha (m,); returns (m,).
    """
    degenerate = (mean <= 0) | (mean >= 1) | ~(variance > 0)
    safe = np.where(degenerate, 1.0, variance)
    ratio = (t_quantile(alpha, np.maximum(n - 1, 1)) / critical) ** 2
    return np.where(degenerate, fallback, np.minimum(n, mean * (1 - mean) / safe * ratio))


def proportion_interval(mean: FloatArray, n: FloatArray, alpha: float | FloatArray, method: str) -> FloatArray:
    """Wilson, Clopper-Pearson or Jeffreys interval, as `proportion_confint` of statsmodels has them.

    Here because that function takes half a second to load. Bowyer, Aitchison and Ivanova (2025), arXiv:2503.01747;
    Brown, Cai and DasGupta (2001), Statistical Science 16(2). Shapes: mean (m,), n (m,), alpha (m,); returns (m, 2).
    """
    from scipy import special

    # A mean of fractions may lie past its bound by rounding.
    k, tail = np.clip(mean, 0.0, 1.0) * n, np.asarray(alpha) / 2
    if method == "wilson":
        z2 = special.ndtri(tail) ** 2
        centre, half = k + z2 / 2, np.sqrt(z2 * (k * (n - k) / n + z2 / 4))
        return np.clip(np.column_stack([centre - half, centre + half]) / (n + z2)[:, None], 0.0, 1.0)
    if method == "jeffreys":
        low = special.betaincinv(k + 0.5, n - k + 0.5, tail)
        high = special.betainccinv(k + 0.5, n - k + 0.5, tail)
    else:  # Clopper and Pearson's, which without a success or without a failure is a power of the tail.
        k, n, tail = np.broadcast_arrays(k, n, tail)
        low, high, inner = np.zeros(k.shape), np.ones(k.shape), (k > 0) & (k < n)
        none, all_of_them = k <= 0, k >= n
        low[all_of_them] = tail[all_of_them] ** (1 / n[all_of_them])
        high[none] = -np.expm1(np.log(tail[none]) / n[none])
        low[inner] = special.betaincinv(k[inner], n[inner] - k[inner] + 1, tail[inner])
        high[inner] = special.betainccinv(k[inner] + 1, n[inner] - k[inner], tail[inner])
    return np.column_stack([low, high]).astype(np.float64)
