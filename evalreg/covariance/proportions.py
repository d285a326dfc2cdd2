"""Intervals of proportions: on the logit scale, and Wilson's, Clopper and Pearson's and Jeffreys' on so many trials."""

from __future__ import annotations

import numpy as np

from evalreg.checks import FloatArray


def logit_interval(mean: FloatArray, se: FloatArray, critical: FloatArray) -> FloatArray:
    """Interval built on the logit scale, inside (0, 1) at every level.

    Korn and Graubard (1998), Survey Methodology 24, 193-201; Agresti (2013), Categorical Data Analysis, section 3.1.6.
    Shapes: mean, se (m,), critical (m,); returns (m, 2).
    """
    from scipy import special

    half = critical * se / (mean * (1 - mean))
    centre = special.logit(mean)
    ends = special.expit(np.column_stack([centre - half, centre + half]))
    return np.clip(ends, np.finfo(float).tiny, 1 - np.finfo(float).epsneg)


def logit_statistic(mean: FloatArray, se: FloatArray, value: FloatArray) -> FloatArray:
    """Distance of a mean from a value on the logit scale, in standard errors there.

    (logit p - logit p0) p (1 - p)/SE: beyond the critical value where `logit_interval` leaves the value out. Shapes:
    mean, se (m,), value (m,); returns (m,).
    """
    from scipy import special

    return (special.logit(mean) - special.logit(value)) * mean * (1 - mean) / se


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
