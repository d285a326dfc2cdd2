"""Intervals from draws: quantiles of a bootstrap, and tests of one hypothesis inverted.

Bootstrap quantiles are at (n + 1) p among the draws that have a value, linear between them. Infinite draws are at the
end of their side; draws without a value (NaN) are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from evalreg.checks import BoolArray, FloatArray

# Draws this close to the estimate, as a fraction of their range, are equal to it.
TIE = 1e-9
# Places this near to a draw, as a fraction of their number, are at it.
ROUNDING = 1e-12
# Standard errors of draws below this fraction of that of the estimate are the root of rounding.
NO_SPREAD = 1e-6


def percentile_interval(draws: FloatArray, alpha: float) -> FloatArray:
    """Quantiles of the draws.

    Infinite where the draws are at that place; NaN where too few draws have a value for the level. Davison and Hinkley
    (1997), Bootstrap Methods and their Application, section 5.3.1. Shapes: draws (n_draws, n_estimates); returns
    (n_estimates, 2).
    """
    return np.array([_quantiles(column, np.array([alpha / 2, 1 - alpha / 2])) for column in draws.T])


def basic_interval(values: FloatArray, draws: FloatArray, alpha: float) -> FloatArray:
    """Twice the estimate less the quantiles of the draws.

    NaN where too few draws have a value for the level. Davison and Hinkley (1997), Bootstrap Methods and their
    Application, equation 5.6. Shapes: values (n_estimates,), draws (n_draws, n_estimates); returns (n_estimates, 2).
    """
    return np.asarray(2 * values[:, None] - percentile_interval(draws, alpha)[:, ::-1])


def studentized_interval(
    values: FloatArray, se: FloatArray, draws: FloatArray, draws_se: FloatArray, alpha: float
) -> FloatArray:
    """The estimate less quantiles of (draw - estimate)/se(draw) times its standard error.

    NaN where too few draws have a value for the level. `draws, draws_se`: the same of the draws; one that is away from
    the estimate without a standard error is infinitely far. Davison and Hinkley (1997), Bootstrap Methods and their
    Application, equation 5.7. Shapes: values, se (n_estimates,), draws, draws_se (n_draws, n_estimates); returns
    (n_estimates, 2).
    """
    away, least = draws - values, NO_SPREAD * se
    none = np.where(np.abs(away) <= least, np.nan, np.copysign(np.inf, away))
    spread = (draws_se > least) & np.isfinite(away)
    t = np.divide(away, draws_se, out=np.where(np.isnan(away), np.nan, none), where=spread)
    return np.asarray(values[:, None] - percentile_interval(t, alpha)[:, ::-1] * se[:, None])


def bca_interval(values: FloatArray, draws: FloatArray, without: FloatArray, alpha: float) -> FloatArray:
    """Quantiles of the draws at levels corrected for bias and acceleration.

    NaN where all draws lie on one side of the estimate, it does not exist without some cluster, the acceleration is too
    large for the level, or the corrected level lies beyond the draws. Efron (1987), JASA 82, equations 2.3 and 2.8;
    Davison and Hinkley (1997), equations 5.20 to 5.26. Shapes: values (n_estimates,), draws (n_draws, n_estimates),
    without (n_clusters, n_estimates); returns (n_estimates, 2).
    """
    columns = zip(draws.T, values, without.T, strict=True)
    return np.array([_quantiles(one, bca_levels(one, value, left, alpha)) for one, value, left in columns])


def bca_levels(draws: FloatArray, value: float, without: FloatArray, alpha: float) -> FloatArray:
    """Levels of the quantiles that end a bias-corrected and accelerated interval.

    NaN where all draws lie on one side of the estimate, it does not exist without some cluster, or the acceleration is
    too large for the level. Efron (1987), JASA 82, equations 2.3 and 2.8; Davison and Hinkley (1997), equations 5.20 to
    5.26. Shapes: draws (n_draws,), without (n_clusters,); returns (2,).
    """
    known, finite = draws[~np.isnan(draws)], draws[np.isfinite(draws)]
    # Draws at the estimate count as half below it, as statistics of few clusters are discrete; rounding aside.
    room = TIE * float(np.ptp(finite)) if finite.size else 0.0
    below = (np.count_nonzero(known < value - room) + np.count_nonzero(known <= value + room)) / 2
    bias = float(scipy.special.ndtri(below / max(known.size, 1)))
    if not (np.isfinite(bias) and np.isfinite(without).all()):
        return np.full(2, np.nan)
    change = without.mean() - without
    squares = float(np.sum(change**2))
    acceleration = float(np.sum(change**3)) / (6 * squares**1.5) if squares > 0 else 0.0
    shifted = bias + scipy.special.ndtri(np.array([alpha / 2, 1 - alpha / 2]))
    below_one = 1 - acceleration * shifted
    levels = scipy.special.ndtr(bias + shifted / np.where(below_one > 0, below_one, 1.0))
    return np.where(below_one > 0, levels, np.nan)


def least_draws(alpha: float) -> int:
    """Draws below which no quantile at alpha/2 is among them: (n + 1) alpha/2 is at least 1."""
    return int(np.ceil(2 / alpha * (1 - ROUNDING))) - 1


def _quantiles(draws: FloatArray, level: FloatArray) -> FloatArray:
    """Lower and upper quantile at (n + 1) p; between a number and infinity the outer one; NaN beyond the draws."""
    known = np.sort(draws[~np.isnan(draws)])
    place = (known.size + 1) * level
    if known.size == 0 or not np.isfinite(level).all():
        return np.full(level.size, np.nan)
    if place[0] < 1 - ROUNDING * known.size or place[-1] > known.size * (1 + ROUNDING):
        return np.full(level.size, np.nan)
    below = np.clip(np.floor(place + ROUNDING * known.size).astype(int), 1, known.size)
    share = np.clip(place - below, 0.0, 1.0)
    low, high = known[below - 1], known[np.minimum(below, known.size - 1)]
    with np.errstate(invalid="ignore"):
        between = low + share * (high - low)
    outer = np.where(np.arange(level.size) == 0, low, high)
    finite = np.isfinite(low) & np.isfinite(high)
    return np.asarray(np.where(finite, between, np.where(share <= ROUNDING * known.size, low, outer)))


# Statistics this close are ties, and ties count as at least as extreme.
SLACK = 1e-9
# An end is moved by ties that are not exact, by a few of these; it meets a value that is nearer than this part of it.
BESIDE = 100 * SLACK


@dataclass(frozen=True, eq=False)
class Drawn:
    """Statistics of the draws of one hypothesis, polynomials in the gap d between estimate and hypothesised value."""

    numerator: FloatArray  # (2, n_draws): constant and slope
    # (n_rules, 3, n_draws): constant, half the slope and square of each variance whose largest is taken
    squares: FloatArray

    def at(self, d: float) -> tuple[FloatArray, FloatArray]:
        """Numerators and variances at a value of d, shape (n_draws,) each."""
        constant, half, square = self.squares[:, 0], self.squares[:, 1], self.squares[:, 2]
        variance = constant + d * (2 * half + d * square)
        # One rule for one clustering: nothing to compare.
        largest = variance[0] if variance.shape[0] == 1 else np.max(variance, axis=0)
        return self.numerator[0] + d * self.numerator[1], np.maximum(largest, 0.0)


def as_extreme(drawn: Drawn, gap: float, variance: float) -> BoolArray:
    """Draws whose |t| is at least that of the data, at a value that lies `gap` below the estimate.

    Shapes: returns (n_draws,).
    """
    numerator, spread = drawn.at(gap)
    return np.asarray(numerator**2 * variance >= (gap * (1 - SLACK)) ** 2 * spread)


def as_extreme_far(drawn: Drawn, variance: float) -> BoolArray:
    """Draws that stay at least as extreme however far the hypothesised value lies from the estimate.

    The t of the data grows without bound; that of a draw does so only where its variance does not grow with the gap.

    Shapes: returns (n_draws,).
    """
    grows = np.max(drawn.squares[:, 2], axis=0) > 0
    constant = np.max(drawn.squares[:, 0], axis=0)
    moves = drawn.numerator[1] != 0
    return np.asarray(~grows & moves & (drawn.numerator[1] ** 2 * variance >= (1 - SLACK) ** 2 * constant))


def find_end(p: Callable[[float], float], se: float, alpha: float, marks: Sequence[float] = ()) -> float:
    """The largest gap whose p-value is above alpha, by bisection.

    Where it meets one of the gaps in `marks` (that of the value 0, say), it is that gap and not a number beside it.
    """
    far = 2.0 * se
    # Rejected at three doublings in a row, so that a single dip of a step function does not end the search.
    while any(p(far * factor) > alpha for factor in (1.0, 2.0, 4.0)):
        far *= 2
        if far > 1e12 * se:  # an interval so many standard errors wide is infinite
            return np.inf
    grid = np.linspace(0.0, 4.0 * far, 65)
    last = max(i for i, gap in enumerate(grid) if i == 0 or p(float(gap)) > alpha)
    low, high = float(grid[last]), float(grid[last + 1])
    for _ in range(40):  # each halves what is left
        middle = (low + high) / 2
        low, high = (middle, high) if p(middle) > alpha else (low, middle)
    end = (low + high) / 2
    return next((mark for mark in marks if abs(end - mark) <= BESIDE * abs(end) and p(mark) > alpha), end)


def tails(numerator: FloatArray, variance: FloatArray, t: float) -> tuple[int, int]:
    """Draws whose t is at most, and at least, that of the data; ties count in both. Shapes: (n_draws,)."""
    room = abs(t) * SLACK
    se = np.sqrt(variance)
    below = np.count_nonzero(numerator <= (t + room) * se)
    return int(below), int(np.count_nonzero(numerator >= (t - room) * se))
