"""Sampling weights: positive, finite, and scaled so that their squares stay floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from evalreg.checks import FloatArray
from evalreg.data.columns import array_floats
from evalreg.data.frame import Table
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.errors import ArgumentError, ArgumentTypeError, NonFiniteError, NonNumericError

# Squares of weights between this and its inverse, summed over many rows, are still floats.
FAR = 1e50


def checked_weights(table: Table, weights: Any) -> FloatArray | None:
    """Sampling weights of all rows, NaN where missing and positive everywhere else; None for none."""
    if weights is None:
        return None
    if isinstance(weights, str):
        values = table.floats(weights, "weights")
    else:
        values = _weight_array(table, weights)
    wrong = ~(values > 0) & ~np.isnan(values)
    if wrong.any():
        rows, count = row_list(wrong)
        remedy = "Check the signs" if (values < 0).any() else "A row of weight zero is not an observation: leave it out"
        raise ArgumentError(
            f"`weights` must be positive; {rows_text(rows, count)} {'is' if count == 1 else 'are'} not "
            f"(smallest {np.nanmin(values):g}). {remedy}.",
            column=weights_name(weights),
            rows=rows,
            count=count,
        )
    return _scaled_weights(values, weights_name(weights))


def _scaled_weights(values: FloatArray, name: str) -> FloatArray:
    """Weights by a power of two that keeps their squares and inverses within floats; only their ratios matter."""
    largest = float(np.max(values, where=~np.isnan(values), initial=0.0))
    if largest == 0.0:
        return values
    if not 1 / FAR < largest < FAR:
        # In two steps: the power itself may be no float.
        power = -int(np.frexp(largest)[1])
        values = np.ldexp(np.ldexp(values, power // 2), power - power // 2)
    light = values < np.max(values, where=~np.isnan(values), initial=0.0) / FAR**2
    if light.any():
        rows, count = row_list(light)
        raise ArgumentError(
            f"`weights` must lie within a factor of {FAR**2:.0e} of each other; {rows_text(rows, count)} "
            f"{'is' if count == 1 else 'are'} smaller, compared with the largest. Such a row says nothing: leave it "
            "out.",
            column=name,
            rows=rows,
            count=count,
        )
    return values


def _weight_array(table: Table, weights: Any) -> FloatArray:
    if not hasattr(weights, "__len__") or getattr(weights, "ndim", 1) != 1:
        raise ArgumentTypeError(
            f"`weights` must be a column or a one-dimensional array; got {type(weights).__name__}"
            f"{f' of {weights.ndim} dimensions' if hasattr(weights, 'ndim') else ''}."
        )
    aligned = table.align("weights", weights, "weights")
    try:
        values = array_floats(aligned)
    except (TypeError, ValueError):
        raise NonNumericError(
            "`weights` must hold numbers; the array holds something else.", column="weights"
        ) from None
    if np.isinf(values).any():
        rows, count = row_list(np.isinf(values))
        raise NonFiniteError(
            f"`weights` must be finite; {rows_text(rows, count)} {'is' if count == 1 else 'are'} infinite.",
            column="weights",
            rows=rows,
            count=count,
        )
    return values


def weights_name(weights: Any) -> str:
    """Return the column of the weights, or "weights" for an array."""
    return weights if isinstance(weights, str) else "weights"
