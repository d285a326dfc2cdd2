"""Models of one log whose scores seem to be shares for some and percentages for others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evalreg.checks import BoolArray, FloatArray, listed
from evalreg.errors import Note, UnlikeScalesWarning
from evalreg.estimate import Estimate
from evalreg.estimate.behind import touches

# Percentages end at 100, and of right and wrong answers some reach it; a rubric of 0 to 10 or 20 is none.
PERCENT, SURELY_PERCENT = 100.0, 20.0


def mixed_scales(names: Sequence[str], low: FloatArray, high: FloatArray) -> str:
    """A sentence where scores of some models lie in [0, 1] and of others in [0, 100]; empty otherwise.

    `low` and `high`, shape (n_models,), are the smallest and the largest score of each model.
    """
    share = (low >= 0) & (high > 0) & (high <= 1)
    percent = (low >= 0) & (high > SURELY_PERCENT) & (high <= PERCENT)
    if not (share.any() and percent.any()):
        return ""
    largest = f"{np.max(high[percent]):g}"
    return (
        f"scores of {_of(names, percent)} reach {largest}, and those of {_of(names, share)} lie in [0, 1]. If the "
        "former are percentages, divide them by 100: on unlike scales differences and ranks mean nothing."
    )


def _of(names: Sequence[str], chosen: BoolArray) -> str:
    return listed([name for name, one in zip(names, chosen, strict=True) if one], joiner=" and ")


def scale_notes(estimate: Estimate) -> tuple[Note, ...]:
    """Warn of means by model of which some seem to be shares and others percentages."""
    A, cells = estimate.coefficient_map, estimate.cells
    if estimate.bounded or A is None or cells is None or A.shape[1] != cells.count.size:
        return ()
    found = touches(A)
    row, column = found.nonzero()
    low, high = np.full(found.shape[0], np.inf), np.full(found.shape[0], -np.inf)
    np.minimum.at(low, row, cells.low[column])
    np.maximum.at(high, row, cells.high[column])
    text = mixed_scales(estimate.names, low, high)
    return ((UnlikeScalesWarning, text),) if text else ()
