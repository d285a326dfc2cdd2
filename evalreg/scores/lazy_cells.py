"""Sums of the cells of scores that live in an engine: what an estimate is made of."""

from __future__ import annotations

from collections.abc import Sequence

import narwhals.stable.v2 as nw
import numpy as np

from evalreg.checks import BoolArray, FloatArray, listed
from evalreg.data.engine import LazyTable
from evalreg.data.engine_groups import grouped_sorted
from evalreg.errors import NonFiniteError
from evalreg.scores.centres import LOST, about_near_centres
from evalreg.scores.lazy import changed_rows
from evalreg.scores.sums import CellSums


def lazy_cell_sums(
    table: LazyTable, value: str, cell_columns: Sequence[str], weight: str | None
) -> tuple[list[tuple[str, ...]], CellSums]:
    """Joint values of the cells, sorted as text, and the sums of each, by two grouped queries.

    `value` and `weight` are columns, and the joint values of `cell_columns` are the cells; one cell if it is empty.
    """
    # Columns are made first: not every engine has products or casts inside a sum.
    made = [nw.col(value).cast(nw.Float64).alias("__x")]
    made += [] if weight is None else [nw.col(weight).cast(nw.Float64).alias("__w")]
    rows = table.frame.select(*cell_columns, *made)
    x, w = nw.col("__x"), nw.lit(1.0) if weight is None else nw.col("__w")
    if weight is not None:
        rows = rows.with_columns((w * x).alias("__wx"))
    keys, first = grouped_sorted(
        rows,
        cell_columns,
        {"n": nw.len(), "t": nw.col("__x" if weight is None else "__wx").sum(), "lo": x.min(), "hi": x.max()}
        | ({} if weight is None else {"w": w.sum()}),
    )
    n, total, low, high = (first[name] for name in ("n", "t", "lo", "hi"))
    if np.isinf(low).any() or np.isinf(high).any():
        raise NonFiniteError(f"`score` must be finite; column {value!r} holds infinities.", column=value)
    weights = n if weight is None else first["w"]
    if not np.isfinite(weights).all():
        raise NonFiniteError(f"`weights` must be finite; column {weight!r} holds infinities.", column=weight)
    mean = total / weights

    def ask(own: int | None) -> tuple[dict[str, FloatArray], BoolArray]:
        centre = 0.0 if not n.size else float(total.sum() / weights.sum() if own is None else mean[own])
        e = x - centre
        squared = e * e if weight is None else w * e * e
        again, found = grouped_sorted(rows.with_columns(squared.alias("__s")), cell_columns, {"s": nw.col("__s").sum()})
        if again != keys:
            raise changed_rows(f"joint values of {listed(cell_columns)} are new or gone")
        beyond = weights * (mean - centre) ** 2
        squares = np.maximum(found["s"] - beyond, 0.0)
        return {"s": squares}, (low < high) & (squares < LOST * (found["s"] + beyond))

    squares = about_near_centres(ask, mean, [", ".join(key) for key in keys], "means")["s"]
    squares = np.where(low == high, 0.0, squares)
    return keys, CellSums(n, weights, total, squares, low, high)
