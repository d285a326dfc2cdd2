"""Quantiles and tails of Student's t, and intervals of means of scores in [0, 1]."""

from __future__ import annotations

from typing import Any

import numpy as np

from evalreg.checks import FloatArray

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


def t_log_density(t: FloatArray, dof: FloatArray) -> FloatArray:
    """Logarithm of the density of t, of the normal where dof is infinite."""
    from scipy import special

    finite = np.where(np.isinf(dof), 1.0, dof)
    half = (finite + 1) / 2
    # Written so that neither large dof nor large t loses digits or overflows.
    size = np.log1p((t / np.sqrt(finite)) ** 2)
    own = special.gammaln(half) - special.gammaln(finite / 2) - np.log(finite * np.pi) / 2 - half * size
    return np.where(np.isinf(dof), -(t**2) / 2 - np.log(2 * np.pi) / 2, own)


def dof_of_quantile(critical: FloatArray, alpha: float) -> FloatArray:
    """Degrees of freedom at which the two-sided critical value of t is as given; inf at the normal's and below."""
    from scipy import special

    log_low, log_high = np.full(critical.shape, -4.0), np.full(critical.shape, 25.0)
    for _ in range(60):
        middle = (log_low + log_high) / 2
        wider = -special.stdtrit(np.exp(middle), alpha / 2) > critical
        log_low, log_high = np.where(wider, middle, log_low), np.where(wider, log_high, middle)
    normal = t_quantile(alpha, np.full(critical.shape, np.inf))
    found = np.where(critical > normal * (1 + 1e-12), np.exp((log_low + log_high) / 2), np.inf)
    return np.where(np.isnan(critical), np.nan, found)


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
