"""Intervals for means of scores that lie in [0, 1]."""

from __future__ import annotations

import numpy as np

from evalreg.checks import FloatArray
from evalreg.numerics.student import t_quantile as t_quantile


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
    else:  # Clopper and Pearson's, whose ends are 0 and 1 where there is no success or no failure.
        low = special.betaincinv(np.where(k == 0, 1.0, k), n - k + 1, tail) * (k > 0)
        high = np.where(k == n, 1.0, special.betainccinv(k + 1, np.where(k == n, 1.0, n - k), tail))
    return np.column_stack([low, high]).astype(np.float64)
