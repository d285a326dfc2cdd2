"""The one root finder for arrays: brackets closed at once, and the levels at which values leave their intervals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evalreg.checks import FloatArray
from evalreg.numerics.limits import ROUNDING, SMALLEST_LEVEL


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
    counts as at most 0. Inverse quadratic interpolation where three points lie well for it, bisection elsewhere
    (Chandrupatla 1997, Advances in Engineering Software 28, 145-149) and in every third step, so that no function takes
    more than three times the steps of halving. SciPy's floor has no root finder for arrays.
    """
    # The newest point a, the end b of the bracket on its other side, and the point c that the newest replaced.
    b, a = np.broadcast_arrays(low, high)
    at_b, at_a = np.where(np.isnan(at_low), -np.inf, at_low) + np.zeros(a.shape), at_high + np.zeros(a.shape)
    c, at_c, reached = b, at_b, at_a > 0
    share, widest = np.full(a.shape, 0.5), float(np.max(np.abs(b - a), initial=width))
    most = 3 * int(np.ceil(np.log2(widest / width)) + 1) if np.isfinite(widest) else 0
    while most > 0 and np.any((np.abs(b - a) > width) & reached):
        most -= 1
        new = a + share * (b - a)
        value = function(new)
        stays = (value > 0) == (at_a > 0)
        c, at_c = np.where(stays, a, b), np.where(stays, at_a, at_b)
        b, at_b = np.where(stays, b, a), np.where(stays, at_b, at_a)
        a, at_a = new, np.where(np.isnan(value), -np.inf, value)
        with np.errstate(all="ignore"):
            xi, phi = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
            near = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
            share = at_a / (at_b - at_a) * at_c / (at_b - at_c)
            share += (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
            least = np.minimum(width / 2 / np.abs(b - a), 0.5)
        # Never quite at an end, so that the bracket closes from both sides.
        share = np.where(near & np.isfinite(share) & (most % 3 > 0), np.clip(share, least, 1 - least), 0.5)
    return np.where(reached, np.where(at_a > 0, a, b), high)


def levels(outside: Callable[[FloatArray], FloatArray], least: FloatArray) -> FloatArray:
    """The levels above which values lie outside their intervals, where `outside` of the level is above 0, shape (m,).

    All are known to be at least so large; 0 of values that are outside at every level, 1 of those that never are.
    """

    def room(log_level: FloatArray) -> FloatArray:
        return outside(np.exp(log_level))

    low = np.log(np.maximum(least, SMALLEST_LEVEL))
    high, at_low = np.zeros(low.shape), room(low)
    always = at_low > 0
    reached = np.exp(crossings(room, low, high, at_low, np.where(always, 0.0, room(high)), ROUNDING))
    return np.where(always, np.where(least > SMALLEST_LEVEL, least, 0.0), reached)
