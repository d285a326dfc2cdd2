"""Sums of cells that are asked of an engine: rows stay where they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from evalreg.checks import FloatArray, IntArray, listed
from evalreg.data.clusters import Axis
from evalreg.data.engine import LazyTable
from evalreg.data.engine_groups import grouped, ranges_of
from evalreg.data.labels import no_source
from evalreg.data.names import known_column
from evalreg.errors import DataError, MissingLabelsError, NonFiniteError, NotAvailableError
from evalreg.numerics.matrices import Matrix, dense
from evalreg.scores.base import Scores, meat_of_sums
from evalreg.scores.lazy_sums import Clustering, Entries, Held
from evalreg.scores.sums import Block, CellSums

# Sums of the same rows in another order agree to this fraction of their terms.
UNCHANGED = 1e-9


# Entries of one clustering that are held, 24 bytes each; more are asked of the engine again whenever they are needed.
MOST_HELD = 1 << 25
ROWS, TOTAL, WEIGHT = "__rows", "__total", "__weight"


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
    # Joint values whose values count as one minus them: pairs of models, read from the other side.
    turned: frozenset[tuple[str, ...]] = frozenset()
    # Sums over the rows of a cell of w^2, w^2 v and w^2 v^2, v being the value less one half, shape (3, n_cells).
    powers: FloatArray | None = None
    # The largest weight of a row in each cell.
    heaviest: FloatArray | None = None
    _queries: dict[Axis, Clustering] = field(default_factory=dict)
    _homes: dict[tuple[Axis, Axis], IntArray] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Rows in use."""
        return int(self.sums.count.sum())

    @property
    def weighted(self) -> bool:
        """Whether rows have weights other than one."""
        return self.weight is not None

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

    def _query(self, by: Axis) -> Clustering:
        """Clusters and their sums, asked of the engine once for each clustering."""
        if by not in self._queries:
            if self.table is None:
                raise no_source(":".join(by), [":".join(held) for held in self._queries])
            for name in by:
                known_column(name, self.table.columns, "groups")
            self._queries[by] = self._ask(by)
        return self._queries[by]

    def _ask(self, by: Axis) -> Clustering:
        """Sums of all clusters, held where they are not too many."""
        assert self.table is not None
        ranges = ranges_of(self.table.frame, by[0], self.n_rows, len(self.cell_codes))
        labels: list[str] = []
        sizes, n_entries = [], 0
        held: list[Held] = []
        kept, seen = True, np.zeros((2, self.n_columns))
        for one in ranges:
            part = self._grouped(by, one)
            labels += part.labels
            sizes.append(np.bincount(part.cluster, part.weight, len(part.labels)))
            n_entries += part.cluster.size
            seen += part.by_cell(self.n_columns)
            kept = kept and n_entries <= MOST_HELD
            held = [*held, part.block(self.n_columns)] if kept else []
        self._refuse_changed(*seen)
        return Clustering(labels, np.concatenate(sizes), n_entries, ranges, tuple(held) if kept else None)

    def _grouped(self, by: Axis, within: nw.Expr | None) -> Entries:
        """Sums by (cluster, cell) of the clusters within a range."""
        assert self.table is not None
        columns = tuple(dict.fromkeys((*by, *self.cell_columns)))
        frame = self.table.frame if within is None else self.table.frame.filter(within)
        value = nw.col(self.value).cast(nw.Float64)
        made = {TOTAL: value} if self.weight is None else {WEIGHT: nw.col(self.weight).cast(nw.Float64)}
        if self.weight is not None:
            made[TOTAL] = value * nw.col(self.weight)
        # Engines differ in what may stand inside a sum: columns are made first.
        chosen = frame.select(*columns, *(one.alias(name) for name, one in made.items()))
        sums = {ROWS: nw.len()} | {name: nw.col(name).sum() for name in made}
        found = grouped(chosen, columns, sums)
        rows = found.numbers[ROWS]
        missing = np.any([found.keys[name][0] < 0 for name in by], axis=0)
        if missing.any():
            raise self._without_ids(by, int(rows[missing].sum()))
        cluster, n_clusters = found.joint(by)
        labels = [":".join(parts) for parts in found.texts(by, cluster, n_clusters)]
        joint, n_joint = found.joint(self.cell_columns)
        keys = found.texts(self.cell_columns, joint, n_joint)
        self._refuse_new(keys)
        cell = np.array([self.cell_codes[key] for key in keys], dtype=np.intp)[joint]
        weight = rows if self.weight is None else found.numbers[WEIGHT]
        total = found.numbers[TOTAL]
        if self.turned:
            turned = np.array([key in self.turned for key in keys])[joint]
            total = np.where(turned, weight - total, total)
        return Entries(labels, cluster, cell, rows, weight, total)

    def _without_ids(self, by: Axis, count: int) -> MissingLabelsError:
        return MissingLabelsError(
            f'`groups="{":".join(by)}"` must give an id to every row in use; {count} of {self.n_rows} have none. '
            "Fit again with those groups, which drops and counts such rows.",
            column=":".join(by),
            count=count,
        )

    def _refuse_changed(self, count: FloatArray, total: FloatArray) -> None:
        """Raise if the rows are not those that the estimate was made of: an engine reads its tables again each time."""
        size = np.maximum(np.abs(self.sums.low), np.abs(self.sums.high)) * self.sums.weight
        moved = np.abs(total - self.sums.total) > UNCHANGED * size
        if moved.any() or np.any(count != self.sums.count):
            raise _changed(f"its {self.n_rows} rows are now {int(count.sum())}, or their scores differ")

    def _refuse_new(self, keys: Sequence[tuple[str, ...]]) -> None:
        """Raise if a cell is none of those that the estimate was made of."""
        if not set(keys) <= set(self.cell_codes):
            raise _changed(f"joint values of {listed(self.cell_columns)} are new")

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
        return len(self._query(by).labels)

    def sizes(self, by: Axis) -> FloatArray:
        """Weight of each cluster, shape (n_clusters,)."""
        return self._query(by).sizes

    def label(self, by: Axis, code: int) -> str:
        """Label of one cluster."""
        return self._query(by).labels[code]

    def homes(self, item: Axis, by: Axis) -> IntArray | None:
        """Cluster of each question, in the order of the clusters of `item`; None where the table is gone unasked."""
        if (item, by) not in self._homes:
            if self.table is None:
                return None
            number = {label: code for code, label in enumerate(self._query(item).labels)}
            found = grouped(self.table.frame, tuple(dict.fromkeys((*item, *by))), {ROWS: nw.len()})
            home = np.zeros(len(number), dtype=np.intp)
            codes, n_codes = found.joint(item)
            place = np.array([number[":".join(key)] for key in found.texts(item, codes, n_codes)], dtype=np.intp)
            home[place[codes]] = found.joint(by)[0]
            self._homes[item, by] = home
        return self._homes[item, by]

    def cells(self, by: Axis) -> Iterator[Block]:
        """Sums within (cluster, cell), asked again where they are too many to hold."""
        asked = self._query(by)
        if asked.held is not None:
            yield from (part.about(self.fitted) for part in asked.held)
            return
        if self.table is None:
            raise no_source(":".join(by), [":".join(one) for one, found in self._queries.items() if found.held])
        for one in asked.ranges:
            yield self._grouped(by, one).block(self.n_columns).about(self.fitted)

    def n_entries(self, by: Axis) -> int:
        """Joint values of the clusters' columns and those of the cells."""
        return self._query(by).n_entries

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', shape (n_params, n_params)."""
        if by is not None:
            return meat_of_sums(self, by, bread)
        squares = self._squared_scores()
        scaled = np.sqrt(squares)[:, None] * dense(bread)
        return np.asarray(scaled.T @ scaled)

    def _squared_scores(self) -> FloatArray:
        """Sum of (w (value - fitted))^2 of each cell."""
        if self.powers is not None:
            return self.row_moments()[0]
        return self.sums.squares if self.weight is None else self._weighted_squares()

    def row_moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sums over the rows of each cell of s^2, s w and w^2, s being the score of a row and w its weight."""
        if self.powers is None:
            return super().row_moments()
        ww, wwv, wwvv = self.powers
        if self.weight is None:  # About the mean no digits are lost where values hardly vary.
            mean = self.sums.total / self.sums.weight
            shift = mean - self.fitted
            return self.sums.squares + ww * shift**2, self.sums.total - ww * self.fitted, ww
        shift = self.fitted - 0.5
        return np.maximum(wwvv - 2 * shift * wwv + shift**2 * ww, 0.0), wwv - shift * ww, ww

    def heaviest_rows(self) -> FloatArray:
        """The largest weight of a row in each cell."""
        return super().heaviest_rows() if self.heaviest is None else self.heaviest

    def _weighted_squares(self) -> FloatArray:
        """Sum of (w (value - fitted))^2 of each cell, from powers about a common centre."""
        assert self.weight is not None
        assert self.table is not None
        centre = float(self.sums.total.sum() / self.sums.weight.sum())
        w, e = nw.col(self.weight).cast(nw.Float64), nw.col(self.value).cast(nw.Float64) - centre
        # Columns are made first: not every engine has products inside a sum.
        made = {"__a": w * w * e * e, "__b": w * w * e, "__c": w * w}
        frame = self.table.frame.select(*self.cell_columns, *(one.alias(name) for name, one in made.items()))
        keys, sums = _by_cell(frame, self.cell_columns, {name: nw.col(name).sum() for name in made})
        self._refuse_new(keys)
        order = [self.cell_codes[key] for key in keys]
        shift = self.fitted[order] - centre
        squares = np.zeros(self.n_columns)
        squares[order] = sums["__a"] - 2 * shift * sums["__b"] + shift**2 * sums["__c"]
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


def _changed(what: str) -> DataError:
    return DataError(
        f"the rows in the engine have changed since the estimate was made: {what}. Make the estimate again."
    )


def _by_cell(
    frame: nw.LazyFrame[Any], columns: Sequence[str], aggregates: dict[str, nw.Expr]
) -> tuple[list[tuple[str, ...]], dict[str, FloatArray]]:
    """Joint values of some columns, sorted as text, and aggregates of each; labels are spelled as in clusterings."""
    found = grouped(frame, columns, aggregates)
    joint, n_joint = found.joint(columns)
    keys = found.texts(columns, joint, n_joint)
    order = sorted(range(n_joint), key=keys.__getitem__)
    entry = np.argsort(joint)[order]
    return [keys[i] for i in order], {name: column[entry] for name, column in found.numbers.items()}


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
    keys, first = _by_cell(
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
    # Squares about a common centre lose no digits where the cells' means are near each other.
    centre = float(total.sum()) / float(weights.sum()) if n.size else 0.0
    e = x - centre
    squared = e * e if weight is None else w * e * e
    again, second = _by_cell(rows.with_columns(squared.alias("__s")), cell_columns, {"s": nw.col("__s").sum()})
    if again != keys:
        raise _changed(f"joint values of {listed(cell_columns)} are new or gone")
    squares = second["s"] - weights * (total / weights - centre) ** 2
    squares = np.where(low == high, 0.0, np.maximum(squares, 0.0))
    return keys, CellSums(n, weights, total, squares, low, high)
