"""Quantiles and tails of Student's t."""

from __future__ import annotations

import numpy as np

from evalreg.checks import FloatArray


def t_quantile(alpha: float | FloatArray, dof: FloatArray) -> FloatArray:
    """Two-sided critical values of t, the normal's where dof is infinite, NaN where it is; right at small levels."""
    from scipy import special

    dof = np.asarray(dof, dtype=float)
    finite = np.where(np.isinf(dof), 1.0, dof)
    # From the lower tail: 1 - alpha/2 would lose the digits of a small alpha.
    tail = np.asarray(alpha, dtype=float) / 2
    return -np.where(np.isinf(dof), special.ndtri(tail), special.stdtrit(finite, tail))


def t_pvalues(statistic: FloatArray, dof: FloatArray) -> FloatArray:
    """Two-sided p-values of t, the normal's where dof is infinite; right in the tails, NaN where an input is."""
    from scipy import special

    tail = -np.abs(statistic)
    finite = np.where(np.isinf(dof), 1.0, dof)
    return 2 * np.where(np.isinf(dof), special.ndtr(tail), special.stdtr(finite, tail))


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
