"""Sums of the cells of scores that live in an engine: what an estimate is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from evalreg.checks import BoolArray, FloatArray, listed
from evalreg.data.centres import LOST, about_near_centres
from evalreg.data.engine import LazyTable
from evalreg.data.engine_groups import grouped_sorted
from evalreg.data.engine_rows import MIDDLE, CellLines
from evalreg.data.frame import refuse_extreme
from evalreg.errors import NonFiniteError
from evalreg.scores.lazy import changed_rows
from evalreg.scores.sums import CellSums

# Squares about the middle that are at least this share of what they are a difference of keep all digits but one.
KEPT = 0.05


def lazy_cell_sums(
    table: LazyTable, value: str, cell_columns: Sequence[str], weight: str | None, known: CellLines | None = None
) -> tuple[list[tuple[str, ...]], CellSums]:
    """Joint values of the cells, sorted as text, and the sums of each, by two grouped queries.

    `value` and `weight` are columns, and the joint values of `cell_columns` are the cells; one cell if it is empty.
    `known` are sums without weights that came with the count of what is missing, so that mostly no query is left.
    """
    x, w = nw.col("__x"), nw.lit(1.0) if weight is None else nw.col("__w")

    def rows() -> nw.LazyFrame[Any]:
        # Columns are made first: not every engine has products or casts inside a sum.
        made = [nw.col(value).cast(nw.Float64).alias("__x")]
        made += [] if weight is None else [nw.col(weight).cast(nw.Float64).alias("__w")]
        chosen = table.frame.select(*cell_columns, *made)
        return chosen if weight is None else chosen.with_columns((w * x).alias("__wx"))

    keys, first = known or grouped_sorted(
        rows(),
        cell_columns,
        {"n": nw.len(), "t": nw.col("__x" if weight is None else "__wx").sum(), "lo": x.min(), "hi": x.max()}
        | ({} if weight is None else {"w": w.sum()}),
    )
    n, total, low, high = (first[name] for name in ("n", "t", "lo", "hi"))
    if np.isinf(low).any() or np.isinf(high).any():
        raise NonFiniteError(f"`score` must be finite; column {value!r} holds infinities.", column=value)
    refuse_extreme(np.array([low, high]), value, "`score`")
    weights = n if weight is None else first["w"]
    if not np.isfinite(weights).all():
        raise NonFiniteError(f"`weights` must be finite; column {weight!r} holds infinities.", column=weight)
    mean = total / weights

    if known is not None:
        squares = _about_middle(first, mean)
        if squares is not None:
            return keys, CellSums(n, weights, total, squares, low, high)

    def ask(own: int | None) -> tuple[dict[str, FloatArray], BoolArray]:
        centre = 0.0 if not n.size else float(total.sum() / weights.sum() if own is None else mean[own])
        e = x - centre
        squared = e * e if weight is None else w * e * e
        again, found = grouped_sorted(
            rows().with_columns(squared.alias("__s")), cell_columns, {"s": nw.col("__s").sum()}
        )
        if again != keys:
            raise changed_rows(f"joint values of {listed(cell_columns)} are new or gone")
        beyond = weights * (mean - centre) ** 2
        squares = np.maximum(found["s"] - beyond, 0.0)
        return {"s": squares}, (low < high) & (squares < LOST * (found["s"] + beyond))

    squares = about_near_centres(ask, mean, [", ".join(key) for key in keys], "means")["s"]
    squares = np.where(low == high, 0.0, squares)
    return keys, CellSums(n, weights, total, squares, low, high)


def _about_middle(sums: dict[str, FloatArray], mean: FloatArray) -> FloatArray | None:
    """Squares about the mean of each cell from those about the middle; None where digits are lost."""
    n, low, high, squared = (sums[name] for name in ("n", "lo", "hi", "s"))
    alike = low == high
    with np.errstate(over="ignore", invalid="ignore"):
        beyond = n * (mean - MIDDLE) ** 2
        squares = squared - beyond
        kept = alike | (squares > KEPT * (squared + beyond))
    return np.where(alike, 0.0, squares) if kept.all() else None
