"""Estimates of the largest of several parameters, by Andrews, Kitagawa and McCloskey (2024).

Normal estimates X with covariance S; the winner w has the largest. Given Z = X - S[:, w]/S[w, w] X[w], which does not
depend on X[w], the winner's estimate is a normal truncated to the values at which w still wins.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from evalreg.checks import FloatArray
from evalreg.numerics.limits import LAST_DIGITS
from evalreg.numerics.roots import crossings

# Means are looked for as far as sinh of this many standard errors away, 1e17; an end beyond is infinite.
FARTHEST = 40.0
# The share of alpha that the hybrid spends on the interval that it never leaves, as the authors recommend.
SHARE = 0.1


def winning_values(estimates: FloatArray, covariance: FloatArray, winner: int) -> tuple[float, float]:
    """Least and largest estimate with which the winner still wins, given what is independent of it.

    Andrews, Kitagawa and McCloskey (2024), equations for L and U of section 3.1 with X = Y. Shapes: estimates (K,),
    covariance (K, K).
    """
    coefficients = covariance[:, winner] / covariance[winner, winner]
    rest = estimates - coefficients * estimates[winner]
    slope = 1.0 - coefficients
    # A model that moves as the winner does neither bounds it nor is bounded by it.
    moves = np.abs(slope) > 1e-12
    moves[winner] = False
    ends = rest[moves] / slope[moves]
    lower, upper = ends[slope[moves] > 0], ends[slope[moves] < 0]
    x = float(estimates[winner])
    return min(float(np.max(lower, initial=-np.inf)), x), max(float(np.min(upper, initial=np.inf)), x)


def _tail_ratio(u: FloatArray, gap: FloatArray) -> FloatArray:
    """log of P(Z > u + gap) / P(Z > u), for gap >= 0; exact far in the tail, where both are too small to be held."""
    near = np.maximum(u, -1.0)
    scaled = special.erfcx((near + gap) / np.sqrt(2)) / special.erfcx(near / np.sqrt(2))
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.log(scaled) - gap * (near + gap / 2)
        left = np.minimum(u, -1.0)
        value = np.where(u > -1.0, far, special.log_ndtr(-(left + gap)) - special.log_ndtr(-left))
    return np.where(np.isinf(gap), -np.inf, value)


def truncated_log_odds(
    x: FloatArray, mean: FloatArray, se: FloatArray, lower: FloatArray, upper: FloatArray
) -> FloatArray:
    """log of F/(1 - F), F the distribution at x of a normal truncated to [lower, upper]; falls in the mean."""
    z = (x - mean) / se
    below, above = np.maximum(x - lower, 0.0) / se, np.maximum(upper - x, 0.0) / se
    # Seen from the side on which x lies in the upper tail, where ratios of tails are exact.
    turned = z < 0
    first, second = np.where(turned, above, below), np.where(turned, below, above)
    z = np.abs(z)
    open_end = np.isinf(first)
    gap = np.where(open_end, 0.0, first)
    inside = np.where(open_end, special.log_ndtr(-z), _tail_ratio(z - gap, gap))
    with np.errstate(divide="ignore"):
        odds = np.log(-np.expm1(inside)) - inside - np.log(-np.expm1(_tail_ratio(z, second)))
    return np.where(turned, -odds, odds)


def quantile_unbiased(
    x: FloatArray,
    se: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    probability: FloatArray | float,
    *,
    stretch: FloatArray | float = 1.0,
    reach: FloatArray | float = np.inf,
) -> FloatArray:
    """The mean that is above the truth with that probability: F(x; mean) = 1 - probability.

    `reach`: half-width of the interval to which the mean is held, by which the truncation is narrowed as well (the
    hybrid). `stretch` multiplies the standard error of the normal, and so makes t of it where nothing is truncated.
    Andrews, Kitagawa and McCloskey (2024), sections 3.1 and 5. All arguments broadcast.
    """
    arguments = np.broadcast_arrays(x, se, lower, upper, probability, stretch, reach)
    x, se, lower, upper, p, stretch, reach = (np.asarray(value, dtype=np.float64) for value in arguments)
    target = np.log1p(-p) - np.log(p)
    edge = np.minimum(np.arcsinh(reach / se), FARTHEST)

    def past(place: FloatArray) -> FloatArray:
        mean = x + se * np.sinh(place)
        ends = np.maximum(lower, mean - reach), np.minimum(upper, mean + reach)
        return target - truncated_log_odds(x, mean, stretch * se, *ends)

    at_low = past(-edge)
    place = np.where(at_low > 0, -edge, crossings(past, -edge, edge, at_low, past(edge), LAST_DIGITS))
    gone = np.isinf(reach) & (np.abs(place) > FARTHEST - 1e-6)
    return np.where(gone, np.copysign(np.inf, place), x + se * np.sinh(place))


def hybrid_level(alpha: float) -> float:
    """Level of the hybrid's conditional part, which spends what the outer interval leaves of alpha."""
    beta = SHARE * alpha
    return (alpha - beta) / (1 - beta)


def corrected(
    x: float, se: float, ends: tuple[float, float], level: float, *, stretch: float = 1.0, reach: float = np.inf
) -> FloatArray:
    """Median-unbiased estimate of a winner that wins between two ends, and its equal-tailed interval, shape (3,).

    With `reach` those of the hybrid, whose `level` is that of `hybrid_level`.
    """
    probability, stretches = np.array([0.5, level / 2, 1 - level / 2]), np.array([1.0, stretch, stretch])
    where, error, low, high = (np.asarray(value) for value in (x, se, *ends))
    return quantile_unbiased(where, error, low, high, probability, stretch=stretches, reach=reach)
