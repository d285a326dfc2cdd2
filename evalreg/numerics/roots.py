"""Where functions of many entries change their sign."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evalreg.checks import FloatArray

# Regula falsi halves a bracket at least once in three steps.
MOST_STEPS = 200


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
    counts as at most 0. By regula falsi: an end that stays a second time counts half (Illinois). Dowell and Jarratt
    (1971), BIT 11, 168-174.
    """
    stayed = np.zeros(low.shape)  # 1 where `high` moved last, -1 where `low` did
    for _ in range(MOST_STEPS):
        gap = high - low
        if not np.any((np.abs(gap) > width) & (at_high > 0)):
            break
        with np.errstate(all="ignore"):
            share = at_high / (at_high - at_low)
        # Never quite at an end, so that the bracket closes from both sides.
        least = np.minimum(width / (2 * np.maximum(np.abs(gap), width)), 0.5)
        new = high - gap * np.clip(np.where(np.isfinite(share), share, 0.5), least, 1 - least)
        value = function(new)
        above = value > 0
        at_low = np.where(above, np.where(stayed > 0, at_low / 2, at_low), value)
        at_high = np.where(above, value, np.where(stayed < 0, at_high / 2, at_high))
        low, high, stayed = np.where(above, low, new), np.where(above, new, high), np.where(above, 1.0, -1.0)
    return high
