"""Quantiles and tails of Student's t."""

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
