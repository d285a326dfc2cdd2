"""Sums of numerators and denominators: about which ratio their squares are, and how they move to another."""

from __future__ import annotations

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, IntArray
from evalreg.data.summed_roles import BOTTOM, BOTTOM2, CROSS, CROSS2, OWN, SQUARES, SQUARES2, TOP, WEIGHT2_BOTTOM2


def own_ratio(top: FloatArray, bottom: FloatArray) -> FloatArray:
    """Ratios, zero where there is no denominator."""
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)


def moved(lines: pd.DataFrame, shift: FloatArray, positive: FloatArray | None = None) -> pd.DataFrame:
    """Lines whose squares are about ratios that are smaller by so much: e + shift d stands for e.

    `positive` is the sum of w e over rows with a denominator: zero about the ratio of a line, all of whose numerators
    have one.
    """
    column = {name: lines[name].to_numpy(dtype=float) for name in lines.columns if lines[name].dtype.kind in "if"}
    made = {OWN: column[OWN] + 2 * shift * (0.0 if positive is None else positive) + shift**2 * column[BOTTOM]}
    for squares, cross, bottom2 in ((SQUARES, CROSS, BOTTOM2), (SQUARES2, CROSS2, WEIGHT2_BOTTOM2)):
        if squares in column:
            made[squares] = column[squares] + 2 * shift * column[cross] + shift**2 * column[bottom2]
            made[cross] = column[cross] + shift * column[bottom2]
    for name in (OWN, SQUARES, SQUARES2):
        if name in made:
            made[name] = np.maximum(made[name], 0.0)
    return lines.assign(**made)


def about_own(lines: pd.DataFrame, code: IntArray, n: int) -> pd.DataFrame:
    """Lines about the ratio of those of the same code, each being about its own."""
    top, bottom = (lines[name].to_numpy(dtype=float) for name in (TOP, BOTTOM))
    whole = own_ratio(*(np.bincount(code, one, n).astype(float) for one in (top, bottom)))
    return moved(lines, own_ratio(top, bottom) - whole[code])
