"""Sums of cells that are asked of an engine: rows stay where they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.checks import FloatArray, IntArray, listed
from evalreg.data.clusters import Axis, factorize, pair_codes
from evalreg.data.engine import LazyTable
from evalreg.data.labels import no_source
from evalreg.data.names import known_column
from evalreg.errors import DataError, MissingLabelsError, NonFiniteError, NotAvailableError
from evalreg.numerics.matrices import Matrix, compressed, dense
from evalreg.scores.base import Scores, meat_of_sums
from evalreg.scores.sums import Block, CellSums

# Sums of the same rows in another order agree to this fraction of their terms.
UNCHANGED = 1e-9


@dataclass(frozen=True, eq=False)
class LazyScores(Scores):
    """Scores of rows in cells that live in an engine; each clustering is one grouped query."""

    table: LazyTable | None
    # Column of the values.
    value: str
    # Columns whose joint values are the cells; empty for one cell.
    cell_columns: tuple[str, ...]
    # Cell of each joint value.
    cell_codes: dict[tuple[str, ...], int]
    # Fitted value of each cell.
    fitted: FloatArray
    sums: CellSums
    # Column of sampling weights.
    weight: str | None = None
    _queries: dict[Axis, tuple[list[str], Block]] = field(default_factory=dict)
    _homes: dict[tuple[Axis, Axis], IntArray] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Rows in use."""
        return int(self.sums.count.sum())

    @property
    def n_columns(self) -> int:
        """Number of cells."""
        return self.fitted.size

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the table; those already asked for, where it is gone."""
        if self.table is None:
            return tuple(dict.fromkeys(name for by in self._queries for name in by))
        return self.table.columns

    @property
    def has_source(self) -> bool:
        """Whether further columns can be looked up."""
        return self.table is not None

    def _query(self, by: Axis) -> tuple[list[str], Block]:
        """Labels of the clusters and their sums, asked of the engine once for each clustering."""
        if by not in self._queries:
            if self.table is None:
                raise no_source(":".join(by), [":".join(held) for held in self._queries])
            self._queries[by] = self._grouped(by)
        return self._queries[by]

    def _grouped(self, by: Axis) -> tuple[list[str], Block]:
        assert self.table is not None
        columns = tuple(dict.fromkeys((*by, *self.cell_columns)))
        known = self.table.columns
        for name in by:
            known_column(name, known, "groups")
        weight = nw.len() if self.weight is None else nw.col(self.weight).sum()
        value = nw.col(self.value).cast(nw.Float64)
        total = value.sum() if self.weight is None else (value * nw.col(self.weight)).sum()
        grouped = self.table.group(columns, {"__weight": weight, "__total": total, "__rows": nw.len()})
        missing = grouped[list(by)].isna().any(axis=1)
        if missing.any():
            count = int(grouped["__rows"][missing].sum())
            raise MissingLabelsError(
                f'`groups="{":".join(by)}"` must give an id to every row in use; {count} of {self.n_rows} have none. '
                "Fit again with those groups, which drops and counts such rows.",
                column=":".join(by),
                count=count,
            )
        cluster, n_clusters = np.zeros(len(grouped), dtype=np.intp), 1
        for name in by:
            codes, labels = factorize(grouped[name])
            pair = pair_codes(cluster, n_clusters, codes, len(labels))
            cluster, n_clusters = pair.codes, pair.n_clusters
        keys = _keys(grouped, self.cell_columns)
        self._refuse_changed(grouped, keys)
        cells = [self.cell_codes[key] for key in keys]
        weights = grouped["__weight"].to_numpy(dtype=float)
        totals = grouped["__total"].to_numpy(dtype=float) - weights * self.fitted[cells]
        where, shape = (cluster, np.array(cells, dtype=np.intp)), (n_clusters, self.n_columns)
        labels = [""] * n_clusters
        for code, key in zip(cluster, _keys(grouped, by), strict=True):
            labels[code] = ":".join(key)
        block = Block(
            sparse.coo_array((totals, where), shape).tocsr(), sparse.coo_array((weights, where), shape).tocsr()
        )
        return labels, block

    def _refuse_changed(self, grouped: pd.DataFrame, keys: list[tuple[str, ...]]) -> None:
        """Raise if the rows are not those that the estimate was made of: an engine reads its tables again each time."""
        known = set(keys) <= set(self.cell_codes)
        count, total = np.zeros(self.n_columns), np.zeros(self.n_columns)
        if known:
            cells = [self.cell_codes[key] for key in keys]
            np.add.at(count, cells, grouped["__rows"].to_numpy(dtype=float))
            np.add.at(total, cells, grouped["__total"].to_numpy(dtype=float))
        size = np.maximum(np.abs(self.sums.low), np.abs(self.sums.high)) * self.sums.weight
        moved = np.abs(total - self.sums.total) > UNCHANGED * size
        if not known or moved.any() or np.any(count != self.sums.count):
            raise DataError(
                f"the rows in the engine have changed since the estimate was made: its {self.n_rows} rows are now "
                f"{int(grouped['__rows'].sum())}, or their scores differ. Make the estimate again."
            )

    def unasked(self, by: Axis) -> LazyScores | None:
        """These scores, until the sums within a clustering are asked for."""
        return None if by in self._queries else self

    def n_distinct(self, column: str) -> int:
        """Distinct values of a column, counted in the engine."""
        assert self.table is not None
        return int(self.table.group((), {"n": nw.col(column).n_unique()})["n"].iloc[0])

    def shares_unequally(self, item: str) -> bool:
        """Whether some cell has items that different numbers of cells have, counted in the engine."""
        assert self.table is not None
        cells = [name for name in self.cell_columns if name != item]
        pairs = self.table.frame.select(item, *cells).unique()
        of_item = pairs.group_by(item).agg(nw.len().alias("__cells"))
        found = pairs.join(of_item, on=item).group_by(*cells, "__cells").agg(nw.len().alias("__items"))
        return bool(len(found.collect("pandas")) > self.n_columns)

    def n_clusters(self, by: Axis) -> int:
        """Observed joint values of some columns."""
        return len(self._query(by)[0])

    def sizes(self, by: Axis) -> FloatArray:
        """Weight of each cluster, shape (n_clusters,)."""
        return np.asarray(compressed(self._query(by)[1].gram).sum(axis=1), dtype=np.float64).ravel()

    def label(self, by: Axis, code: int) -> str:
        """Label of one cluster."""
        return self._query(by)[0][code]

    def homes(self, item: Axis, by: Axis) -> IntArray | None:
        """Cluster of each question, in the order of the clusters of `item`; None where the table is gone unasked."""
        if (item, by) not in self._homes:
            if self.table is None:
                return None
            number = {label: code for code, label in enumerate(self._query(item)[0])}
            grouped = self.table.group(tuple(dict.fromkeys((*item, *by))), {"__rows": nw.len()})
            home = np.zeros(len(number), dtype=np.intp)
            clusters = factorize(pd.Series(_keys(grouped, by)))[0]
            home[[number[":".join(key)] for key in _keys(grouped, item)]] = clusters
            self._homes[item, by] = home
        return self._homes[item, by]

    def cells(self, by: Axis) -> Iterator[Block]:
        """Sums within (cluster, cell)."""
        yield self._query(by)[1]

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', shape (n_params, n_params)."""
        if by is not None:
            return meat_of_sums(self, by, bread)
        squares = self.sums.squares if self.weight is None else self._weighted_squares()
        scaled = np.sqrt(squares)[:, None] * dense(bread)
        return np.asarray(scaled.T @ scaled)

    def _weighted_squares(self) -> FloatArray:
        """Sum of (w (value - fitted))^2 of each cell, from powers about a common centre."""
        assert self.weight is not None
        assert self.table is not None
        centre = float(self.sums.total.sum() / self.sums.weight.sum())
        w, e = nw.col(self.weight).cast(nw.Float64), nw.col(self.value).cast(nw.Float64) - centre
        powers = {"a": (w * w * e * e).sum(), "b": (w * w * e).sum(), "c": (w * w).sum()}
        grouped = self.table.group(self.cell_columns, powers)
        order = [self.cell_codes[key] for key in _keys(grouped, self.cell_columns)]
        shift = self.fitted[order] - centre
        squares = np.zeros(self.n_columns)
        a, b, c = (grouped[name].to_numpy(dtype=float) for name in "abc")
        squares[order] = a - 2 * shift * b + shift**2 * c
        return np.maximum(squares, 0.0)

    def detached(self) -> LazyScores:
        """The same scores without their table: only clusterings already asked for are known."""
        return replace(self, table=None)

    def with_labels(self, more: dict[str, Any]) -> LazyScores:
        """Refused: an engine's rows have no order that an array could follow."""
        raise NotAvailableError(
            f"rows in an engine have no order, so labels must be columns; got arrays for {listed(more)}. "
            "Add the labels as a column, and name it in `groups`."
        )


def _keys(frame: pd.DataFrame, columns: Sequence[str]) -> list[tuple[str, ...]]:
    if not columns:
        return [()] * len(frame)
    return list(zip(*(frame[name].astype(str) for name in columns), strict=True))


def lazy_cell_sums(
    table: LazyTable, value: str, cell_columns: Sequence[str], weight: str | None
) -> tuple[list[tuple[str, ...]], CellSums]:
    """Joint values of the cells, sorted as text, and the sums of each, by two grouped queries.

    `value` and `weight` are columns, and the joint values of `cell_columns` are the cells; one cell if it is empty.
    """
    x = nw.col(value).cast(nw.Float64)
    w = nw.lit(1.0) if weight is None else nw.col(weight).cast(nw.Float64)
    first = table.group(
        cell_columns,
        {"n": nw.len(), "t": x.sum() if weight is None else (w * x).sum(), "lo": x.min(), "hi": x.max()}
        | ({} if weight is None else {"w": w.sum()}),
    )
    n, total, low, high = (first[name].to_numpy(dtype=float) for name in ("n", "t", "lo", "hi"))
    if np.isinf(low).any() or np.isinf(high).any():
        raise NonFiniteError(f"`score` must be finite; column {value!r} holds infinities.", column=value)
    weights = n if weight is None else first["w"].to_numpy(dtype=float)
    if not np.isfinite(weights).all():
        raise NonFiniteError(f"`weights` must be finite; column {weight!r} holds infinities.", column=weight)
    # Squares about a common centre lose no digits where the cells' means are near each other.
    centre = float(total.sum()) / float(weights.sum()) if n.size else 0.0
    e = x - centre
    squared = (e * e).sum() if weight is None else (w * e * e).sum()
    second = table.group(cell_columns, {"s": squared})
    squares = second["s"].to_numpy(dtype=float) - weights * (total / weights - centre) ** 2
    squares = np.where(low == high, 0.0, np.maximum(squares, 0.0))
    return _keys(first, cell_columns), CellSums(n, weights, total, squares, low, high)
