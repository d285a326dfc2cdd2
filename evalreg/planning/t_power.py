"""Power of a t test, and the number of units or the difference at which it is reached."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import scipy

from evalreg.checks import FloatArray, fraction
from evalreg.errors import ArgumentError

# A whole number of questions that arithmetic puts just above itself is not rounded up to the next.
ROUNDING = 1e-12
# Above this many independent units t is normal, and one unit more or less is nothing.
LARGE = 100_000
# Nodes of an integral over a chi distribution; exact to some 1e-10.
NODES = 400
# From so many degrees of freedom on, fewer are enough: equal steps of the normal quantile up to an end, beyond which is
# less than the last bit. Exact to 1e-15, and to 1e-12 where alpha is 1e-13.
SMOOTH, FEW_NODES, END = 20, 61, 8.6
# Of the integral over the error of a pilot, whose integrand is smooth; exact to some 1e-7.
PILOT_NODES = 60
# Normal quantiles stand in for t where that costs at most this share of the chance to miss (or, below 1/2, to find).
NEAR = 0.025
# A power this near to the one asked for is it.
REACHED = 1e-9


def normal_units(variance: float, delta: float, alpha: float, power: float) -> int:
    """Number of independent units by eq. 9, with normal quantiles."""
    scale = normal_quantiles(alpha, power) * math.sqrt(variance) / delta
    units = scale * scale
    if not math.isfinite(units):
        raise ArgumentError(f"`delta` must leave n within the range of numbers; got {delta:g}. Pass a larger one.")
    return max(1, math.ceil(units * (1 - ROUNDING)))


def nearly_normal(units: int, alpha: float, power: float) -> bool:
    """Whether a t test on so many units has nearly the power that normal quantiles promise."""
    promised = t_power(normal_quantiles(alpha, power), units - 1, alpha)
    return promised >= power - NEAR * min(power, 1 - power)


def pilot_power(shift: float, dof: float, alpha: float, pilot_dof: float) -> float:
    """Power of a t test, averaged over the error of the pilot's variance in whose standard errors `shift` is.

    The true shift is `shift` times the root of chi2/pilot_dof (Julious and Owen 2006).
    """
    errors, weights = pilot_errors(pilot_dof)
    return float(weights @ t_powers(shift * errors, dof, alpha))


def pilot_errors(pilot_dof: float) -> tuple[FloatArray, FloatArray]:
    """Values of sqrt(chi2/pilot_dof), by which the standard error of a pilot may be off, and weights that sum to 1."""
    return chi_nodes(float(pilot_dof), PILOT_NODES)


def pilot_shift(dof: float, alpha: float, power: float, pilot_dof: float) -> float:
    """The shift at which `pilot_power` is the power asked for."""
    return _reached(lambda shift: pilot_power(shift, dof, alpha, pilot_dof), alpha, power)


def t_units(variance: float, delta: float, alpha: float, power: float) -> int:
    """Number of independent units at which a t test on them has the power asked for.

    The power is that of the noncentral t distribution, exact for normal units of equal variance.
    """

    def enough(units: int) -> bool:
        return t_power(delta / math.sqrt(variance / units), units - 1, alpha) >= power - REACHED

    low = max(2, normal_units(variance, delta, alpha, power))
    return low if low > LARGE else fewest(enough, low)


def fewest(enough: Callable[[int], bool], low: int) -> int:
    """Smallest whole number, from `low` up, that is enough; the larger of two is enough where the smaller is."""
    if enough(low):
        return low
    step = 1
    while not enough(low + step):
        step *= 2
    high, low = low + step, low + step // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def t_power(shift: float, dof: float, alpha: float) -> float:
    """Power of a two-sided t test."""
    return float(t_powers(np.array([shift]), dof, alpha)[0])


def t_powers(shifts: FloatArray, dof: float, alpha: float) -> FloatArray:
    """Power at each of several shifts."""
    critical = float(scipy.special.stdtrit(dof, 1 - alpha / 2))
    # (Z + shift)/S, averaged over S = sqrt(chi2/dof). scipy's noncentral t is NaN for some large shifts, other ones
    # in each release.
    root, weights = chi_nodes(float(dof)) if dof < SMOOTH or dof > LARGE else smooth_chi_nodes(float(dof))
    far = critical * root
    return np.asarray(
        (scipy.special.ndtr(shifts[:, None] - far) + scipy.special.ndtr(-shifts[:, None] - far)) @ weights
    )


@lru_cache(maxsize=64)
def chi_nodes(dof: float, n_nodes: int = NODES) -> tuple[FloatArray, FloatArray]:
    """Values of sqrt(chi2/dof), and weights that sum to 1.

    Of the rule of Gauss and Legendre in the distribution function, whose ends are drawn out.
    """
    if dof > LARGE:
        return np.ones(1), np.ones(1)
    nodes, weights = _legendre(n_nodes)
    u = (nodes + 1) / 2
    root = np.sqrt(2 * np.asarray(scipy.special.gammaincinv(dof / 2, u * u * (3 - 2 * u))) / dof)
    return root, weights * 3 * u * (1 - u)


@lru_cache(maxsize=64)
def smooth_chi_nodes(dof: float) -> tuple[FloatArray, FloatArray]:
    """The same of the trapezoid rule in the normal quantile of chi2; the integrand dies out at both of its ends.

    Trefethen and Weideman (2014), SIAM Review 56, 385-458: the error falls exponentially with the number of nodes.
    """
    z = np.linspace(-END, END, FEW_NODES)
    density = np.exp(-z * z / 2)
    below, above = np.split(z, [FEW_NODES // 2])
    chi2 = np.concatenate(
        [
            scipy.special.gammaincinv(dof / 2, scipy.special.ndtr(below)),
            scipy.special.gammainccinv(dof / 2, scipy.special.ndtr(-above)),
        ]
    )
    return np.sqrt(2 * chi2 / dof), density / density.sum()


@lru_cache(maxsize=2)
def _legendre(n_nodes: int) -> tuple[FloatArray, FloatArray]:
    return np.polynomial.legendre.leggauss(n_nodes)


def t_shift(dof: float, alpha: float, power: float) -> float:
    """True difference, in standard errors, at which a two-sided t test has the power asked for."""
    return _reached(lambda shift: t_power(shift, dof, alpha), alpha, power)


def _reached(power_at: Callable[[float], float], alpha: float, power: float) -> float:
    """The shift at which a power is reached."""
    high = 2 * normal_quantiles(alpha, power) + 1
    while power_at(high) < power:
        high *= 2
    return float(scipy.optimize.brentq(lambda shift: power_at(shift) - power, 0.0, high, xtol=1e-10))


def normal_quantiles(alpha: float, power: float) -> float:
    """Return z_(alpha/2) + z_beta."""
    alpha, power = fraction("alpha", alpha), fraction("power", power)
    if power <= alpha:
        raise ArgumentError(
            f"`power` must be above alpha, which the two-sided test reaches without any difference; got "
            f"power={power:g} with alpha={alpha:g}. A usual power is 0.8."
        )
    return float(scipy.special.ndtri(power) - scipy.special.ndtri(alpha / 2))
