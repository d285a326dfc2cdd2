"""Rows of an engine that are not in use: why, how many for each reason, and weights that sums there cannot take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from evalreg.checks import FloatArray, MissingName, listed
from evalreg.data.engine import LazyTable
from evalreg.data.rows import FAR
from evalreg.errors import ArgumentError, EmptyDataError, NonFiniteError

# In the order in which they count; of a row that lacks several, the first.
REASONS = ("score", "covariate", "group")
# Weights that are far from 1, times a power of two: only their ratios matter.
RESCALED = "__rescaled_weights"


def reason_number(table: LazyTable, asked: Iterable[Sequence[str]]) -> nw.Expr:
    """Why a row is not in use: 1 if one of the first columns is missing, else 2 if one of the next is; 0: in use."""
    found = nw.lit(0)
    for number, names in reversed(list(enumerate(asked, 1))):
        if names:
            found = nw.when(table.absent(names)).then(nw.lit(number)).otherwise(found)
    return found


def refuse_missing(
    dropped: Mapping[str, int], asked: Mapping[str, Sequence[str]], n_rows: int, missing: MissingName
) -> None:
    """Raise under `missing="raise"` if rows are dropped; the first reason is told with its columns."""
    first = next((reason for reason in asked if dropped[reason]), None)
    if first is not None and missing == "raise":
        raise NonFiniteError(
            f'nothing may be missing under `missing="raise"`; {dropped[first]} of {n_rows} rows have no {first} '
            f"({listed(asked[first])}).",
            count=dropped[first],
        )


def dropped_rows(why: Any, rows: FloatArray, missing: MissingName) -> dict[str, int]:
    """Rows not in use by reason, from the number of the reason of each entry and its rows; some must be in use."""
    dropped = {reason: int(rows[why == number].sum()) for number, reason in enumerate(REASONS, 1)}
    lost = {reason: count for reason, count in dropped.items() if count}
    if lost and missing == "raise":
        reason, count = next(iter(lost.items()))
        raise NonFiniteError(
            f'nothing may be missing under `missing="raise"`; {count} of {int(rows.sum())} rows have no {reason}. Fill '
            'the values in, or pass missing="drop" to leave the rows out, counted.',
            count=count,
        )
    if not (why == 0).any():
        counts = ", ".join(f"{count} without a {reason}" for reason, count in lost.items())
        raise EmptyDataError(
            f"no row is left: all {int(rows.sum())} have something missing ({counts}).", count=int(rows.sum())
        )
    return dropped


def refuse_light_weights(light: float, column: str) -> None:
    """Raise unless the smallest weight is positive."""
    if not light > 0:
        remedy = "Check the signs" if light < 0 else "A row of weight zero is not an observation: leave it out"
        raise ArgumentError(f"`weights` must be positive; the smallest is {light:g}. {remedy}.", column=column)


def _refuse_infinite(heavy: float, column: str) -> None:
    if np.isinf(heavy):
        raise NonFiniteError(f"`weights` must be finite; column {column!r} holds infinities.", column=column)


def power_of_weights(light: float, heavy: float, column: str) -> int:
    """The power of two that keeps squares of weights, and sums of these, within floats; as in memory, mostly 0."""
    _refuse_infinite(heavy, column)
    if light < heavy / FAR**2:
        raise ArgumentError(
            f"`weights` must lie within a factor of {FAR**2:.0e} of each other; they are from {light:g} to {heavy:g}. "
            "Rows so much lighter than the heaviest say nothing: leave them out.",
            column=column,
        )
    return 0 if 1 / FAR < heavy < FAR else -int(np.frexp(heavy)[1])


def rescaled(table: LazyTable, weights: str, power: int) -> LazyTable:
    """The table with the weights times a power of two in a column of their own, `RESCALED`."""
    # In two steps: the power itself may be no float.
    halves = 2.0 ** (power // 2), 2.0 ** (power - power // 2)
    made = (nw.col(weights).cast(nw.Float64) * halves[0] * halves[1]).alias(RESCALED)
    return table.each(lambda frame: frame.with_columns(made))
