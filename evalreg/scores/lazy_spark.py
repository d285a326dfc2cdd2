"""Scores of rows in Spark whose clusters stay there: what leaves is as large as the cells are many."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray, listed
from evalreg.data import engine_spark
from evalreg.data.clusters import Axis, union
from evalreg.data.engine import LazyTable, aggregated, changed_rows, schema_of
from evalreg.data.engine_spark_sums import ABSENT, CELL, ORDERED, ROWS, SIZE, TOTAL, SparkLines, spark_lines
from evalreg.data.engine_spark_work import MOST_SUMS, why_not
from evalreg.data.names import known_column
from evalreg.errors import EngineWarning, NotAvailableError, issue
from evalreg.numerics.matrices import Matrix, absolute_entries, compressed, dense, transposed
from evalreg.scores import lazy
from evalreg.scores.base import CellSquares, ClusterSizes, ClusterWork, ColumnSums, ResidualSums, Scores
from evalreg.scores.lazy import LazyScores
from evalreg.scores.lazy_ratio import LazyRatios
from evalreg.scores.lazy_sums import Clustering, Clusters, hold, product_places

# Sums of leverages are wrong by less.
ROUNDING = 1e-9
COMING = "{reason}, so that sums of single clusters come to the driver, a query for each million lines. {remedy}"
INSTALL = (
    "Install the evalreg of this process on the workers, with its dependencies and pyarrow, or send it: "
    '`spark.addArtifacts("evalreg.zip", pyfile=True)`.'
)
OTHER = 'With cov="CR1", or fewer coefficients, clusters stay in Spark.'
# Bytes that each worker is sent, such as the design of the cells; Connect takes messages of 128 MB.
MOST_SENT = 1 << 26
# Numbers of clusters that a worker holds at a time.
ENTRIES = 1 << 20


@dataclass(frozen=True, eq=False)
class SparkScores(LazyScores):
    """Rows in Spark, of means or of comparisons: squares and products of sums by (cluster, cell) are made there.

    Where something needs the sums of each cluster, they are asked for as elsewhere.
    """

    # Lines of joint clusterings, and what is known of clusterings without asking again; what depends on `fitted` is
    # known by it, since scores of other fitted values share these.
    _lines: dict[Axis, SparkLines] = field(default_factory=dict)
    _sizes: dict[Axis, ClusterSizes] = field(default_factory=dict)
    _entries: dict[Axis, int] = field(default_factory=dict)
    _sums: dict[tuple[Any, ...], ColumnSums] = field(default_factory=dict)
    _powers: dict[tuple[Any, ...], FloatArray] = field(default_factory=dict)
    _residuals: dict[tuple[Any, ...], ResidualSums] = field(default_factory=dict)
    # Sums of all lines by cell.
    _totals: dict[Axis, tuple[IntArray, dict[str, FloatArray]]] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the table; those that clusters were made of, where it is gone."""
        gone = () if self.table is not None else tuple(name for by in self._sizes for name in by)
        return tuple(dict.fromkeys((*super().columns, *gone)))

    def _asked(self, by: Axis) -> SparkLines | None:
        """Lines of a clustering that stay in Spark; None where they come to the driver, or have come already."""
        if self.table is None or any(set(by) <= set(own) for own in self._queries):
            return None
        finer = next((one for own, one in self._lines.items() if set(by) <= set(own)), None)
        if finer is not None:
            return finer.kept().coarser(by).kept()
        joint = self.jointly if set(by) <= set(self.jointly) else by
        for name in joint:
            known_column(name, self.table.columns, "groups")
        schema = schema_of(self.table.holding(joint))
        if not all(_plain(schema[name]) for name in (*joint, *self.cell_columns)):
            return None
        self._lines[joint] = self._ask_spark(joint)
        return self._lines[joint].coarser(by)

    def _ask_spark(self, by: Axis) -> SparkLines:
        """Lines of a joint clustering, and how many; refused where ids are missing or the rows are others by now."""
        assert self.table is not None
        frame, one = self.table.holding(by), nw.lit(1.0)
        own = self._made()
        size, value = own.pop(lazy.WEIGHT, one), own.pop(lazy.TOTAL)
        absent = nw.when(self.table.absent(by)).then(one).otherwise(nw.lit(0.0))
        keys = tuple(dict.fromkeys((*by, *self.cell_columns)))
        other = nw.lit(0.0) if self.exchanged is None else nw.col(self.exchanged)
        made = {SIZE: size, TOTAL: value, ABSENT: absent, "__other": other} | own
        chosen = frame.select(*keys, *(made_of.alias(name) for name, made_of in made.items()))
        sums = [nw.col(name).sum() for name in made]
        grouped = aggregated(chosen, keys, nw.len().alias(ROWS), *sums)
        some, others = nw.col("__other") > 0, nw.col("__other") < nw.col(ROWS)
        both = nw.when(some & others).then(nw.lit(2.0)).otherwise(one)
        ordered = grouped.with_columns(both.alias(ORDERED))
        lines = spark_lines(ordered, by, self.cell_columns, self.cell_codes, self.turned, self._units, tuple(own))
        cell, found = lines.by_cell()
        if found[ABSENT].sum():
            raise self._without_ids(by, int(found[ABSENT].sum()))
        if (cell < 0).any():
            raise changed_rows(f"joint values of {listed(self.cell_columns)} are new")
        count, total = (np.bincount(cell, found[name], self.n_cells).astype(float) for name in (ROWS, TOTAL))
        self._refuse_changed(count, total)
        self._totals[by] = cell, found
        self._entries[by] = int(found[ORDERED].sum())
        return lines

    @property
    def _units(self) -> tuple[FloatArray, FloatArray]:
        """What weights and sums of values are multiplied by, shape (n_cells,)."""
        return np.ones(self.n_cells), np.ones(self.n_cells)

    @property
    def _levels(self) -> FloatArray:
        """What residuals of the cells are about."""
        return self.fitted

    @property
    def _counted(self) -> str:
        """The sums of lines that weights are, where they are no leverages."""
        return SIZE

    def fetch_clusters(self, axes: tuple[Axis, ...], n_sums: int) -> None:
        """Have the sums of clusters come to the driver where workers cannot make so many sums of single clusters."""
        if not self._can_work(n_sums):
            for axis in axes:
                self._query(axis)

    def _can_work(self, n_sums: int, n_bytes: int = 0) -> bool:
        """Whether workers can make so many sums of what they are sent in so many bytes; warns where they cannot."""
        assert self.table is not None
        remedy = OTHER
        if n_sums > MOST_SUMS:
            reason = f"the workers of Spark make up to {MOST_SUMS:,} sums over clusters, and this takes {n_sums:,}"
        elif n_bytes > MOST_SENT:
            reason = f"the workers of Spark are sent up to {MOST_SENT:,} bytes, and the design takes {n_bytes:,}"
        elif lacking := why_not(self.table.frame.to_native()):
            reason, remedy = f"the workers of Spark cannot run evalreg ({lacking})", INSTALL
        else:
            return True
        issue([(EngineWarning, COMING.format(reason=reason, remedy=remedy))])
        return False

    def stays(self, by: Axis) -> bool:
        """Whether clusters stay in Spark."""
        return self._asked(by) is not None

    def added_up(self, by: Axis, work: ClusterWork) -> FloatArray | None:
        """Sums over clusters of what `work` makes of some of them at a time, made by the workers of Spark."""
        lines = self._asked(by)
        if lines is None:
            return None
        totals, weights = self._names
        bare = replace(self.detached(), cell_codes={}, cell_labels={}, _queries={}, _sums={}, _powers={}, _totals={})
        own = OfLines(by, bare, tuple(totals), tuple(weights), work)
        if not self._can_work(work.n_sums, len(pickle.dumps(own))):
            self._query(self.jointly if set(by) <= set(self.jointly) else by)
            return None
        n_clusters, sums = lines.added_up(
            tuple(dict.fromkeys((*totals, *weights))), max(ENTRIES // work.n_entries, 1), own
        )
        if n_clusters != self.n_clusters(by):
            raise changed_rows(f"its {self.n_clusters(by)} clusters are now {n_clusters}")
        return sums

    def totals_by_cell(self, axes: tuple[Axis, ...]) -> tuple[FloatArray, FloatArray]:
        """Totals and weights of the cells as `Held` has them, from clusters that are asked for anyway."""
        joint = union(*axes)
        if not self.parts or not axes or self._asked(joint) is None:
            return super().totals_by_cell(axes)
        at, found = self._totals[next(own for own in self._lines if set(joint) <= set(own))]
        totals, weights = (np.column_stack([found[name] for name in names]) for names in self._names)
        place = np.empty(self.n_cells, dtype=np.intp)
        place[at] = np.arange(at.size)
        return totals[place], weights[place]

    @property
    def _names(self) -> tuple[list[str], list[str]]:
        """Sums of lines: of values times 1 and each part, and of the products of these."""
        return [TOTAL, *(name for name in self._made() if name.startswith(lazy.BY))], [SIZE, *self._products[1:]]

    def _residual_lines(self, by: Axis) -> tuple[SparkLines, FloatArray] | None:
        """Lines, a cell for each column of these scores, and what their residuals are about."""
        lines = self._asked(by)
        if lines is None or not self.parts:
            return None if lines is None else (lines, self._levels.ravel())
        totals, of = self._names
        places = product_places(len(totals))
        return lines.in_parts(self.fitted, totals, [[of[i] for i in row] for row in places]), np.zeros(self.n_columns)

    def total_squares(self, by: Axis, design: Matrix, offset: Matrix | None = None) -> FloatArray | None:
        """Sum over clusters of the squares and products of their totals in some columns."""
        made = self._residual_lines(by)
        if made is None:
            return None
        lines, levels = made
        maps = [sparse.csr_array(design.shape), compressed(design)]
        lines = lines.mapped(maps if offset is None else [*maps, compressed(offset)], levels)
        none = np.zeros(design.shape[1])
        return lines.products(lines.adjusted(none, none, 0.0, 0.0), False).totals

    def heavy_clusters(self, by: Axis, leverage: FloatArray, above: float) -> Matrix | None:
        """Weights in the cells of the clusters whose leverages add up to more than that, few or none."""
        lines = self._asked(by)
        if lines is None:
            return None
        of = self._names[1]
        cluster, n_clusters, sums = lines.heavy(leverage.reshape(self.n_cells, len(of)), of, above - ROUNDING)
        column = sums[CELL].astype(np.intp)[:, None] * len(of) + np.arange(len(of))
        entries = np.column_stack([sums[name] for name in of])
        row = np.repeat(cluster, len(of))
        return sparse.csr_array((entries.ravel(), (row, column.ravel())), (n_clusters, leverage.size))

    def residual_sums(self, by: Axis) -> ResidualSums | None:
        """Sums of residuals of a regression; refused where that was not asked before a copy lost its table."""
        if self.left is None:
            return None
        known = (by, self.fitted.tobytes())
        if known not in self._residuals:
            lines = self._asked(by)
            if lines is None:
                self._refuse_gone(by)
                return super().residual_sums(by)
            roots = [name for name in self._made() if name.startswith(lazy.ROOT)]
            K = len(self.parts) + 1
            total, of = (roots[0], roots[1:]) if roots else (TOTAL, self._names[1][:K])
            fitted = self.fitted.reshape(-1, K)
            n_clusters, n, left, sizes, squares = lines.residual_sums(fitted, total, of)
            between = squares - left**2 / n
            self._residuals[known] = ResidualSums(n, int(n_clusters), left, sizes, between, self.left)
        return self._residuals[known]

    def _refuse_gone(self, by: Axis) -> None:
        """Raise where clusters stayed in Spark and the table is gone."""
        if self.table is None and by not in self._queries:
            raise self.gone(by)

    def gone(self, by: Axis) -> NotAvailableError:
        """The error of sums that stayed in Spark, from which the table is gone."""
        return NotAvailableError(
            f'sums within "{":".join(by)}" stayed in Spark, and this result no longer has its source rows '
            "(copied or unpickled). What was asked before that is kept: call `summary()`, `icc()` or `pairwise()` "
            "before you pickle a result, or fit again."
        )

    def ask_jointly(self, by: Axis) -> None:
        """Ask for the sums of a joint clustering, of which those of its columns are made."""
        if self._asked(by) is None:
            super().ask_jointly(by)

    def n_entries(self, by: Axis) -> int:
        """Joint values of the clusters' columns and those of the cells."""
        if by not in self._entries and self._asked(by) is None:
            return super().n_entries(by)
        return self._entries[by]

    def n_clusters(self, by: Axis) -> int:
        """Observed joint values of some columns."""
        return self.cluster_sizes(by).n_clusters

    def cluster_sizes(self, by: Axis) -> ClusterSizes:
        """How many clusters there are, and sums of their weights."""
        if by not in self._sizes:
            lines = self._asked(by)
            self._sizes[by] = super().cluster_sizes(by) if lines is None else ClusterSizes(*lines.sizes())
        return self._sizes[by]

    def holds_several(self, by: Axis) -> bool:
        """Whether some cell has more than one row of a cluster."""
        lines = self._asked(by)
        return super().holds_several(by) if lines is None else lines.several()

    def largest_cluster(self, by: Axis) -> str:
        """Label of the cluster of most weight."""
        lines = self._asked(by)
        return super().largest_cluster(by) if lines is None else lines.largest()

    def counts_rows(self, by: Axis) -> bool:
        """Whether the weights of clusters are numbers of rows."""
        return self.weight is None

    def column_sums(self, by: Axis, size: Matrix, total: Matrix, shift: Matrix | None = None) -> ColumnSums:
        """What clusters hold of some columns; refused where that was not asked before a copy lost its table."""
        maps = [compressed(one) for one in (size, total, shift) if one is not None]
        known = (
            by,
            self._counted,
            self.fitted.tobytes(),
            *(part.tobytes() for one in maps for part in (one.data, one.indices, one.indptr)),
        )
        if known not in self._sums:
            lines = self._asked(by)
            if lines is not None:
                self._sums[known] = ColumnSums(**_named(lines.in_columns(maps, self._levels, self._counted)))
            else:
                self._refuse_gone(by)
                return super().column_sums(by, size, total, shift)
        return self._sums[known]

    def clusters_reached(self, by: Axis, maps: Matrix) -> IntArray:
        """Clusters with rows in some column that enters each row of `maps` (m, n_columns), shape (m,)."""
        columns = transposed(absolute_entries(maps))
        return self.column_sums(by, columns, columns).n_clusters.astype(np.intp)

    def influence_powers(self, by: Axis, bread: Matrix) -> FloatArray:
        """Sums over clusters of u^2 and u^4, u being the influence of a cluster by each column; shape (2, m)."""
        known = (by, self.fitted.tobytes(), dense(bread).tobytes())
        if known not in self._powers:
            made = self._residual_lines(by)
            if made is None:
                self._refuse_gone(by)
                return super().influence_powers(by, bread)
            lines, levels = made
            self._powers[known] = lines.powers(bread, levels)
        return self._powers[known]

    def cell_squares(
        self,
        by: Axis,
        inverse: FloatArray,
        power: float,
        full: float,
        leverages: bool,
        maps: tuple[Matrix, ...] = (),
    ) -> CellSquares | None:
        """Sums over clusters made in Spark; None where it does not keep their lines."""
        lines, fitted = self._asked(by), self._levels
        if lines is None:
            return None
        share = sparse.diags_array(inverse).tocsr()
        lost = np.zeros(inverse.size, dtype=bool)
        if inverse.any():
            share = compressed(maps[0] @ share) if maps else share
            lost = 1.0 - self.column_sums(by, share, share).largest < full
        if maps:
            lines, fitted = lines.mapped(maps, fitted), np.zeros(inverse.size)
        made = lines.adjusted(fitted, inverse, power, full)
        found = lines.products(made, leverages)
        return CellSquares(found.totals, found.trace, found.squares, found.products, lost)

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', shape (n_params, n_params)."""
        lines = None if by is None else self._asked(by)
        if lines is None:
            return super().meat(by, bread)
        made = lines.adjusted(self._levels, np.zeros(self.n_cells), 0.0, 0.0)
        return dense(bread.T @ (lines.products(made, False).totals @ bread))

    def detached(self) -> SparkScores:
        """The same scores without their table: only what was asked for is known."""
        return replace(self, table=None, _lines={})


@dataclass(frozen=True, eq=False)
class OfLines:
    """Work on the sums of some clusters as they are where they lie."""

    by: Axis
    # Scores without their table, and without clusters.
    scores: SparkScores
    # Columns of `Held`.
    totals: tuple[str, ...]
    weights: tuple[str, ...]
    work: ClusterWork

    def __call__(self, cluster: IntArray, n_clusters: int, lines: dict[str, FloatArray]) -> FloatArray:
        """The work done."""
        cell = lines[CELL].astype(np.intp)
        totals, weights = (np.column_stack([lines[name] for name in own]) for own in (self.totals, self.weights))
        held = hold(cluster, cell, n_clusters, self.scores.n_cells, totals, weights)
        sizes = np.bincount(cluster, weights[:, 0], n_clusters).astype(float, copy=False)
        own = Clustering(Clusters({}, {}, n_clusters), sizes, cell.size, (None,), (held,))
        return self.work(replace(self.scores, _queries={self.by: own}))


@dataclass(frozen=True, eq=False)
class SparkRatios(SparkScores, LazyRatios):
    """Ratios of rows in Spark: sums of both columns are in units of the mean denominator of their cell."""

    @property
    def _units(self) -> tuple[FloatArray, FloatArray]:
        """Where all ratios of a cell are the same, no residual is other than zero."""
        return 1.0 / self.mean, np.where(self.flat, 0.0, 1.0 / self.mean)

    @property
    def _levels(self) -> FloatArray:
        return np.where(self.flat, 0.0, self.fitted)

    @property
    def _counted(self) -> str:
        return f"{lazy.ROOT}0" if self.by_rows else SIZE

    def _refuse_changed(self, count: FloatArray, total: FloatArray) -> None:
        super()._refuse_changed(count, np.where(self.flat, self.sums.total, total))

    def counts_rows(self, by: Axis) -> bool:
        """Whether the weights of clusters are numbers of rows."""
        return Scores.counts_rows(self, by)

    def shares_apart(self, by: Axis) -> FloatArray:
        """Sum over clusters of the squared difference of the weights of leverages and of means, in each cell."""
        lines = self._asked(by)
        return super().shares_apart(by) if lines is None else lines.apart(f"{lazy.ROOT}0")


def stays_in_spark(
    table: LazyTable, cell_columns: tuple[str, ...], n_rows: int, n_cells: int, n_columns: int = 1
) -> bool:
    """Whether clusters stay in Spark: there are many rows, and few cells (models, or pairs of them).

    What all workers are sent is as large as the cells times the columns that they are mapped to.
    """
    if not engine_spark.is_spark(table.frame) or n_rows <= engine_spark.FEW_ROWS:
        return False
    schema = schema_of(table.frame)
    few = max(n_cells * (n_cells + 1) // 2, n_cells * n_columns) <= engine_spark.LINES_AT_ONCE
    return few and all(_plain(schema[name]) for name in cell_columns)


def _plain(kind: Any) -> bool:
    """Whether labels are the same as text in Spark and in Python."""
    return bool(kind == nw.String or kind.is_integer())


def _named(found: dict[str, FloatArray]) -> dict[str, FloatArray]:
    return {"n_clusters" if name == "n" else name: values for name, values in found.items()}
