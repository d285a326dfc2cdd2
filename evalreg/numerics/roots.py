"""Where functions of many entries change their sign."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evalreg.checks import FloatArray


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
