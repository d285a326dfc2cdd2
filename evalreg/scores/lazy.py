"""Sums of cells that are asked of an engine: rows stay where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray, frozen, listed
from evalreg.data.centres import LOST, about_near_centres
from evalreg.data.clusters import Axis
from evalreg.data.engine import LazyTable, aggregated, asking, changed_rows, fetched
from evalreg.data.engine_groups import grouped, grouped_sorted, most_lines, ranges_of
from evalreg.data.labels import Labels, no_source
from evalreg.data.names import known_column
from evalreg.errors import MissingLabelsError, NotAvailableError
from evalreg.numerics.matrices import Matrix, dense
from evalreg.scores.base import ResidualSums, Scores, meat_of_sums
from evalreg.scores.lazy_sums import Clustering, Clusters, Entries, Held, joined, same_products
from evalreg.scores.sums import Block, CellSums

# Sums of the same rows in another order agree to this fraction of their terms.
UNCHANGED = 1e-9
# Cells whose rows are looked through in one query.
CELLS_AT_ONCE = 50

# Bytes of the sums of one clustering that are held; more are asked of the engine again whenever they are needed.
MOST_HELD = 800 << 20
ROWS, TOTAL, WEIGHT, EXCHANGED = "__rows", "__total", "__weight", "__exchanged"
# Values times parts, products of parts, and what is multiplied by the root of the weight.
BY, OF, ROOT = "__by", "__of", "__root"


@dataclass(frozen=True, eq=False)
class LazyScores(Scores):
    """Scores of rows in cells that live in an engine; each clustering is one grouped query.

    Where rows have numbers u beside their cell, a score is w (value - fitted'u) u, in the columns of its cell: one for
    1, the first of u, and one for each part.
    """

    table: LazyTable | None
    # Column of the values.
    value: str
    # Columns whose joint values are the cells; empty for one cell.
    cell_columns: tuple[str, ...]
    # Cell of each joint value.
    cell_codes: dict[tuple[str, ...], int]
    # Fitted value of each cell; with parts the coefficients of 1 and of these, shape (n_cells, n_parts + 1).
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
    # Columns of numbers that rows have beside their cell, and bounds of the size of these times the root of the weight,
    # 1 among them, shape (n_cells, n_parts + 1).
    parts: tuple[str, ...] = ()
    # Of each part, the numbers that are multiplied in it: products of parts that are the same are asked for once.
    multiplied: tuple[tuple[int, ...], ...] = ()
    reach: FloatArray | None = None
    # Sums of w^2 e^2 u_i u_j of each cell, i <= j, where they are known, shape (n_cells, n_products).
    squared: FloatArray | None = None
    # Sum of w e^2 of all rows, where it is known; whether sums of e times the root of w can be asked for.
    left: float | None = None
    rooted: bool = False
    # Column that is 1 where the engine has exchanged the two sides of a row, so that a pair has one order.
    exchanged: str | None = None
    # The caller's columns that the cell columns were made of, where they are others.
    made_of: tuple[str, ...] = ()
    # The columns of all clusterings that the caller named, which are asked for at once.
    jointly: Axis = ()
    # Values of the cell columns, by cell.
    cell_labels: dict[str, list[Any]] = field(default_factory=dict)
    _queries: dict[Axis, Clustering] = field(default_factory=dict)
    _homes: dict[tuple[Axis, Axis], IntArray] = field(default_factory=dict)
    # Under `WEIGHT` the fitted values and the sums of (w e)^2 of each cell about them, once these were asked for.
    _squares: dict[str, tuple[FloatArray, FloatArray]] = field(default_factory=dict)

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
        """Number of cells, times one more than the parts."""
        return self.fitted.size

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return int(self.sums.count.size)

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
        """Clusters and their sums, asked of the engine once for each clustering, or made of sums that are held."""
        if by not in self._queries:
            if set(by) < set(self.jointly):
                self.ask_jointly(self.jointly)
            finer = (one for own, one in self._queries.items() if set(by) < set(own) and by)
            made = next((coarse for one in finer if (coarse := one.coarser(by)) is not None), None)
            if made is None and self.table is None:
                raise no_source(":".join(by), [":".join(held) for held in self._queries])
            self._queries[by] = self._ask(by) if made is None else made
        return self._queries[by]

    def ask_jointly(self, by: Axis) -> None:
        """Ask for the sums of a joint clustering; those of its columns are added up from them."""
        if self.table is not None:
            self._query(by)

    @asking
    def _ask(self, by: Axis) -> Clustering:
        """Sums of all clusters, held where they are not too many."""
        clusters: list[Clusters] = []
        sizes, n_entries, n_bytes = [], 0, 0
        held: list[Held] = []
        kept, seen = True, np.zeros((2, self.n_cells))
        ranges, parts = self._parts(by)
        for part in parts:
            clusters.append(part.clusters)
            sizes.append(np.bincount(part.cluster, part.weight, len(part.clusters)))
            n_entries += part.n_entries
            seen += part.by_cell(self.n_cells)
            if kept:
                held.append(part.block(self.n_cells))
                n_bytes += held[-1].nbytes
                kept = n_bytes <= MOST_HELD
            held = held if kept else []
        self._refuse_changed(*seen)
        return Clustering(joined(clusters), np.concatenate(sizes), n_entries, ranges, tuple(held) if kept else None)

    def _parts(self, by: Axis) -> tuple[tuple[nw.Expr | None, ...], Iterator[Entries]]:
        """Ranges of clusters, and the sums of one range after the other."""
        assert self.table is not None
        for name in by:
            known_column(name, self.table.columns, "groups")
        # Beyond the first column, nothing says how many cells of a cluster of it there are but its rows.
        n_cells = self.n_cells if len(by) < 2 else self.n_rows
        where = self.table.holding(by), by[0], self.n_rows, n_cells
        found = self._at_once(by, most_lines(*where))
        if found is not None:
            return (None,), iter((found,))
        ranges = ranges_of(*where)
        return ranges, (self._grouped(by, one) for one in ranges)

    def _at_once(self, by: Axis, most: int | None) -> Entries | None:
        """Sums of all clusters in one query, which gives no more lines than so many; None where there are more."""
        if most is None:
            return None
        found = self._grouped(by, None, most)
        return found if found.cluster.size <= most else None

    def _grouped(self, by: Axis, within: nw.Expr | None, most: int | None = None) -> Entries:
        """Sums by (cluster, cell) of the clusters within a range; one more than the most at most."""
        assert self.table is not None
        columns = tuple(dict.fromkeys((*by, *self.cell_columns)))
        frame = self.table.holding(by)
        frame = frame if within is None else frame.filter(within)
        made = self._made()
        # Engines differ in what may stand inside a sum: columns are made first.
        if self.exchanged is not None:
            made[EXCHANGED] = nw.col(self.exchanged)
        chosen = frame.select(*columns, *(one.alias(name) for name, one in made.items()))
        sums = {ROWS: nw.len()} | {name: nw.col(name).sum() for name in made}
        found = grouped(chosen, columns, sums, None if most is None else most + 1)
        rows = found.numbers[ROWS]
        missing = np.any([found.keys[name][0] < 0 for name in by], axis=0)
        if missing.any():
            raise self._without_ids(by, int(rows[missing].sum()))
        cluster, n_clusters = found.joint(by)
        clusters = Clusters(*found.parts(by, cluster, n_clusters), n_clusters)
        joint, n_joint = found.joint(self.cell_columns)
        keys = found.texts(self.cell_columns, joint, n_joint)
        self._refuse_new(keys)
        cell = np.array([self.cell_codes[key] for key in keys], dtype=np.intp)[joint]
        weight = rows if self.weight is None else found.numbers[WEIGHT]
        total = found.numbers[TOTAL]
        if self.turned:
            turned = np.array([key in self.turned for key in keys])[joint]
            total = np.where(turned, weight - total, total)
        totals = [found.numbers[name] for name in made if name.startswith(BY)]
        weights = [found.numbers[name] for name in self._products[1:]]
        rooted = [found.numbers[name] for name in made if name.startswith(ROOT)]
        return Entries(
            clusters,
            cluster,
            cell,
            rows,
            _side_by_side(weight, weights),
            _side_by_side(total, totals),
            _side_by_side(rows, rooted) if rooted else None,
            found.numbers.get(EXCHANGED),
        )

    def _made(self) -> dict[str, nw.Expr]:
        """Columns whose sums are asked for beside the number of rows."""
        value = nw.col(self.value).cast(nw.Float64)
        made = {TOTAL: value} if self.weight is None else {WEIGHT: nw.col(self.weight).cast(nw.Float64)}
        if self.weight is not None:
            made[TOTAL] = value * made[WEIGHT]
        u = [nw.col(name) for name in self.parts]
        if self.rooted and self.weight is not None:
            root = made[WEIGHT].sqrt()
            made |= {f"{ROOT}{i}": root if one is None else root * one for i, one in enumerate([value, None, *u])}
        if not self.parts:
            return made
        w = [one if self.weight is None else made[WEIGHT] * one for one in u]
        made |= {f"{BY}{i}": made[TOTAL] * one for i, one in enumerate(u)}
        made |= {f"{OF}0_{j}": one for j, one in enumerate(w, 1)}
        made |= {f"{OF}{i}_{j}": w[i - 1] * u[j - 1] for i in range(1, len(u) + 1) for j in range(i, len(u) + 1)}
        kept = set(self._products)
        return {name: one for name, one in made.items() if not name.startswith(OF) or name in kept}

    @property
    def _products(self) -> list[str]:
        """Sums of the products of 1 and the parts, u <= v, by what they are called; the first is the weight."""
        return [f"{OF}{i}_{j}" for i, j in same_products(((), *self.multiplied))]

    def totals_by_cell(self, axes: tuple[Axis, ...]) -> tuple[FloatArray, FloatArray]:
        """Totals and weights of the cells as `Held` has them: from clusters that are asked for anyway, or by a query.

        None is needed where a row has nothing but its cell.
        """
        if not self.parts:
            return self.sums.total[:, None], self.sums.weight[:, None]
        held = self._query(tuple(dict.fromkeys(name for axis in axes for name in axis))).held if axes else None
        parts = held or (self._grouped((), None).block(self.n_cells),)
        found = [part.by_cell() for part in parts]
        none = np.zeros(())
        return sum((one for one, _ in found), none), sum((two for _, two in found), none)

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
            raise changed_rows(f"its {self.n_rows} rows are now {int(count.sum())}, or their scores differ")

    def _refuse_new(self, keys: Sequence[tuple[str, ...]]) -> None:
        """Raise if a cell is none of those that the estimate was made of."""
        if not set(keys) <= set(self.cell_codes):
            raise changed_rows(f"joint values of {listed(self.cell_columns)} are new")

    def unasked(self, by: Axis) -> LazyScores | None:
        """These scores, until the sums within a clustering are asked for."""
        return None if by in self._queries else self

    @asking
    def n_distinct(self, by: Axis) -> int:
        """Distinct joint values of some columns, counted in the engine."""
        assert self.table is not None
        frame = self.table.holding(by)
        if len(by) > 1:
            frame = aggregated(frame, by, nw.len().alias("__n"))
            return int(grouped(frame, (), {"n": nw.len()}).numbers["n"][0])
        return int(grouped(frame, (), {"n": nw.col(by[0]).n_unique()}).numbers["n"][0])

    @asking
    def shares_unequally(self, by: Axis) -> bool:
        """Whether some cell has items that different numbers of cells have, counted in the engine."""
        assert self.table is not None
        cells = [name for name in self.cell_columns if name not in by]
        # Grouped, as the lowest narwhals hands DuckDB names to make unique without quotes, such as "my item".
        pairs = aggregated(self.table.holding(by), (*by, *cells), nw.len().alias("__n"))
        of_item = aggregated(pairs, by, nw.len().alias("__cells"))
        found = aggregated(pairs.join(of_item, on=list(by)), (*cells, "__cells"), nw.len().alias("__items"))
        return bool(len(fetched(found, "pandas")) > self.n_columns)

    @asking
    def holds_several(self, by: Axis) -> bool:
        """Whether some cell has more than one row of a cluster, counted in the engine."""
        assert self.table is not None
        keys = tuple(dict.fromkeys((*by, *self.cell_columns)))
        pairs = aggregated(self.table.holding(by), keys, nw.len().alias("__n"))
        return bool(grouped(pairs, (), {"most": nw.col("__n").max()}).numbers["most"][0] > 1)

    def n_clusters(self, by: Axis) -> int:
        """Observed joint values of some columns."""
        return len(self._query(by).clusters)

    def sizes(self, by: Axis) -> FloatArray:
        """Weight of each cluster, shape (n_clusters,)."""
        return self._query(by).sizes

    def label(self, by: Axis, code: int) -> str:
        """Label of one cluster."""
        return self._query(by).clusters.label(code)

    @asking
    def homes(self, item: Axis, by: Axis) -> IntArray | None:
        """Cluster of each question, in the order of the clusters of `item`; None where the table is gone unasked."""
        if (item, by) not in self._homes:
            if self.table is None:
                return None
            known = self._query(item).clusters
            number = {known.label(code): code for code in range(len(known))}
            found = grouped(self.table.holding((*item, *by)), tuple(dict.fromkeys((*item, *by))), {ROWS: nw.len()})
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
            yield self._grouped(by, one).block(self.n_cells).about(self.fitted)

    def n_entries(self, by: Axis) -> int:
        """Joint values of the clusters' columns and those of the cells."""
        return self._query(by).n_entries

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', shape (n_params, n_params)."""
        if by is not None:
            return meat_of_sums(self, by, bread)
        if self.squared is not None:
            return self._meat_of_rows(dense(bread))
        squares = self._squared_scores()
        scaled = np.sqrt(squares)[:, None] * dense(bread)
        return np.asarray(scaled.T @ scaled)

    def _meat_of_rows(self, bread: FloatArray) -> FloatArray:
        """The same of rows, from their squares."""
        assert self.squared is not None
        K = len(self.parts) + 1
        of = bread.reshape(self.n_cells, K, -1)
        pairs = zip(*np.triu_indices(K), self.squared.T, strict=True)
        meat = np.zeros((bread.shape[1], bread.shape[1]))
        for i, j, squares in pairs:
            half = of[:, i].T @ (squares[:, None] * of[:, j])
            meat += half if i == j else half + half.T
        return meat

    def squares_of_parts(self) -> FloatArray:
        """Sum of (w e u)^2 of each cell, u being 1 and each number of its rows, shape (n_cells, n_parts + 1)."""
        first, second = np.triu_indices(len(self.parts) + 1)
        squares = self._squared_scores()[:, None] if self.squared is None else self.squared[:, first == second]
        # Rows that are all alike have what is left of their distance from the others.
        mean = self.sums.total / self.sums.weight
        away = mean - self.sums.total.sum() / self.sums.weight.sum()
        squares = np.array(squares, dtype=float)
        squares[:, 0] += self.sums.weight**2 / self.sums.count * away**2
        return squares

    def squares_of_size(self) -> FloatArray:
        """Sum of (w s)^2 of each cell if its rows were alike, s being what is fitted and the mean, shape (n_cells,)."""
        size = np.abs(self.sums.total / self.sums.weight) + np.abs(self.fitted)
        return np.asarray(self.sums.weight**2 / self.sums.count * size**2)

    def residual_sums(self, by: Axis) -> ResidualSums | None:
        """Sums of residuals of a regression within clusters; None of other estimates."""
        if self.left is None:
            return None
        asked = self._query(by)
        parts = asked.held or (self._grouped(by, one).block(self.n_cells) for one in asked.ranges)
        counts, sums = np.concatenate([part.residuals(self.fitted) for part in parts], axis=1)
        return ResidualSums.of(counts, sums, self.left)

    def heavy_rows(self, forms: FloatArray, above: float) -> Iterator[tuple[int, FloatArray]]:
        """Rows with w u'Fu above that, F (n_cells, K, K) being that of their cell: the cell and u times root w."""
        assert self.reach is not None
        bound = np.einsum("ci,cij,cj->c", self.reach, np.abs(forms), self.reach)
        cells = np.flatnonzero(bound > above)
        if self.table is None and cells.size:
            raise NotAvailableError(
                "whether single rows determine a coefficient needs the rows, which this result does not hold any more "
                "(copied or unpickled). Fit again, or name clusters in `groups`."
            )
        for first in range(0, cells.size, CELLS_AT_ONCE):
            yield from self._heavy_in(cells[first : first + CELLS_AT_ONCE], forms, above)

    def _heavy_in(self, cells: IntArray, forms: FloatArray, above: float) -> Iterator[tuple[int, FloatArray]]:
        """The same of some cells, one query."""
        assert self.table is not None
        w = nw.lit(1.0) if self.weight is None else nw.col(self.weight).cast(nw.Float64)
        u = [nw.lit(1.0), *(nw.col(name) for name in self.parts)]
        conditions = []
        for cell in cells:
            F = forms[cell]
            form: Any = sum(u[i] * u[j] * float(F[i, j]) for i in range(len(u)) for j in range(len(u)))
            conditions.append((w * form > above) & self.inside(int(cell)))
        kept = self.table.frame.filter(nw.any_horizontal(*conditions, ignore_nulls=False))
        chosen = kept.select(*self.cell_columns, *self.parts, w.alias(WEIGHT))
        found = grouped(chosen, (*self.cell_columns, *self.parts, WEIGHT), {ROWS: nw.len()})
        joint, n_joint = found.joint(self.cell_columns)
        keys = found.texts(self.cell_columns, joint, n_joint)
        numbers = [np.asarray(found.keys[name][1], dtype=float)[found.keys[name][0]] for name in (*self.parts, WEIGHT)]
        for place, times in enumerate(found.numbers[ROWS].astype(int)):
            row = np.array([1.0, *(column[place] for column in numbers[:-1])]) * np.sqrt(numbers[-1][place])
            for _ in range(times):
                yield self.cell_codes[keys[joint[place]]], row

    def inside(self, cell: int) -> nw.Expr:
        """Whether a row is in a cell."""
        labels = self.cell_labels
        if not self.cell_columns:
            return nw.lit(True)
        return nw.all_horizontal(
            *(nw.col(name) == labels[name][cell] for name in self.cell_columns), ignore_nulls=False
        )

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
        """Those of rows with weights, asked for once."""
        known = self._squares.get(WEIGHT)
        if known is None or not np.array_equal(known[0], self.fitted):
            known = self._squares[WEIGHT] = self.fitted, frozen(self._ask_weighted_squares())
        return known[1]

    @asking
    def _ask_weighted_squares(self) -> FloatArray:
        """Sum of (w (value - fitted))^2 of each cell, from powers about a common centre."""
        assert self.weight is not None
        if self.table is None:
            raise NotAvailableError(
                "errors of independent rows with weights need the rows, which this result does not hold any more "
                "(copied or unpickled). Fit again."
            )
        w, x = nw.col(self.weight).cast(nw.Float64), nw.col(self.value).cast(nw.Float64)
        table, alike = self.table, self.sums.low == self.sums.high

        def ask(own: int | None) -> tuple[dict[str, FloatArray], BoolArray]:
            centre = float(self.sums.total.sum() / self.sums.weight.sum() if own is None else self.fitted[own])
            e = x - centre
            # Columns are made first: not every engine has products inside a sum.
            made = {"__a": w * w * e * e, "__b": w * w * e, "__c": w * w}
            frame = table.frame.select(*self.cell_columns, *(one.alias(name) for name, one in made.items()))
            keys, sums = grouped_sorted(frame, self.cell_columns, {name: nw.col(name).sum() for name in made})
            self._refuse_new(keys)
            order = [self.cell_codes[key] for key in keys]
            a, b, c = (np.zeros(self.n_columns) for _ in made)
            a[order], b[order], c[order] = (sums[name] for name in made)
            shift = self.fitted - centre
            squares = np.maximum(a - 2 * shift * b + shift**2 * c, 0.0)
            return {"s": squares}, ~alike & (squares < LOST * (a + 2 * np.abs(shift * b) + shift**2 * c))

        names = [", ".join(key) for key in self.cell_codes]
        squares = about_near_centres(ask, self.fitted, names, "means")["s"]
        return np.where(alike & (self.fitted == self.sums.low), 0.0, squares)

    def relabelled(self, change: Callable[[Labels], Labels]) -> Scores:
        """Refused: it is asked for where every row counts."""
        raise NotAvailableError(
            "leverages and labels of single rows need the rows in memory, and these stay in an engine. Collect the "
            'columns first; clusters, and cov "HC0" and "HC1", need no rows.'
        )

    def detached(self) -> LazyScores:
        """The same scores without their table: only clusterings already asked for are known."""
        return replace(self, table=None)

    def with_labels(self, more: dict[str, Any]) -> LazyScores:
        """Refused: an engine's rows have no order that an array could follow."""
        raise NotAvailableError(
            f"rows in an engine have no order, so labels must be columns; got arrays for {listed(more)}. "
            "Add the labels as a column, and name it in `groups`."
        )


def _side_by_side(first: FloatArray, more: list[FloatArray]) -> FloatArray:
    """Columns as one array; of one column no copy is made."""
    return np.column_stack([first, *more]) if more else first[:, None]
