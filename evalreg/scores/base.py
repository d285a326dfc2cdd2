"""Scores: the contributions of rows to the estimating equations, and their sums within clusters.

Everything that a covariance, a diagnostic, a board or a bootstrap asks is a sum over clusters. A new kind of scores is
a frozen dataclass with `n_columns` and `cells`. Of rows in memory it is a `LabelledScores` and needs a field `labels`;
made of other scores, which are its fields, it needs nothing more. What has a default here need not be said.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray, Names, held_property
from evalreg.data.clusters import Axis, Codes, Labels, factorize, ordered
from evalreg.errors import NotAvailableError
from evalreg.numerics.matrices import (
    Matrix,
    absolute_entries,
    compressed,
    dense,
    faster_dense,
    is_identity,
    of_sorted,
    square,
    square_of_rows,
    sum_blocks,
    times,
    transposed,
    white,
    with_entries,
    without_zeros,
)
from evalreg.numerics.moments import ClusterSums, sums_of_residuals


@dataclass(frozen=True, eq=False)
class Block:
    """Some whole clusters of a clustering.

    Parameters
    ----------
    totals : ndarray or sparse array, shape (n_clusters, n_columns)
        Sums of scores within clusters.
    gram : ndarray, shape (n_clusters, n_columns, n_columns), or sparse array, shape (n_clusters, n_columns), or None
        X_g'W X_g of each cluster; for cells its diagonal, the weight of each (cluster, cell). None where the
        estimate has no design.
    """

    totals: Matrix
    gram: Matrix


Blocks: TypeAlias = Iterator[Block]
Leverages: TypeAlias = Iterator[tuple[FloatArray, FloatArray | None]]
"""Matrices with the eigenvalues of L_g, and what maps their eigenvectors to its own (None: they are the same)."""


@dataclass(frozen=True, eq=False)
class NarrowClusters:
    """Clusters of fewer rows than columns, whose leverages follow from matrices as small as their rows are few.

    Parameters
    ----------
    design : ndarray or sparse array, shape (n_rows, n_columns)
        Rows with X_g'X_g = X_g'W X_g, not only those of these clusters; sparse where their entries are few.
    totals : ndarray, shape (n_clusters, n_columns)
        Sums of scores within these clusters, combinations of their rows.
    order : ndarray of int, shape (n_members,)
        Rows of these clusters, cluster by cluster.
    starts : ndarray of int, shape (n_clusters + 1,)
        Where each begins in `order`.
    which : ndarray of int, shape (n_clusters,)
        Their places among all clusters.
    """

    design: Matrix
    totals: FloatArray
    order: IntArray
    starts: IntArray
    which: IntArray

    def alike(self, entries: int) -> Iterator[tuple[IntArray, IntArray]]:
        """Some clusters of one size and their rows, shape (n, size), with at most so many entries of the design."""
        sizes = np.diff(self.starts)
        by_size = np.argsort(sizes, kind="stable")
        edges = np.flatnonzero(np.diff(sizes[by_size], prepend=-1, append=-1))
        for low, high in pairwise(edges):
            size = int(sizes[by_size[low]])
            step = max(entries // (size * self.design.shape[1]), 1)
            for first in range(low, high, step):
                some = by_size[first : min(first + step, high)]
                yield some, self.order[self.starts[some][:, None] + np.arange(size)]

    def rows(self, members: IntArray, *maps: FloatArray) -> Iterator[FloatArray]:
        """Rows of some clusters of one size times each of some matrices, shape (n, size, m)."""
        # In one product: a product for each cluster would cost far more than its few numbers do.
        rows = self.design[members.ravel()]
        # A pair of models has two entries in hundreds of columns, which are multiplied as they are.
        few = sparse.issparse(rows) and not faster_dense(rows)
        for matrix in maps:
            # Least squares have orthonormal columns, which need no root.
            mapped = dense(rows) if is_identity(matrix) else (rows if few else dense(rows)) @ matrix
            yield np.asarray(mapped).reshape(*members.shape, -1)


@dataclass(frozen=True, eq=False)
class Cells:
    """What is known of the cells that rows fall into, one entry a cell."""

    count: FloatArray  # (n_cells,): rows
    weight: FloatArray  # (n_cells,): sum of weights; the count where there are none
    mean: FloatArray  # (n_cells,): weighted mean of the values; exactly the value where they are all alike
    squares: FloatArray  # (n_cells,): sum of w (value - mean)^2
    low: FloatArray  # (n_cells,): smallest value
    high: FloatArray  # (n_cells,): largest value
    stratum: IntArray | None = None  # (n_cells,): stratum of each cell; None without strata
    strata: Names = ()  # names of the strata
    # (n_cells,): weighted mean of (value - mean)^2, where the weights of the mean are not those of the rows;
    # `scatter` is it
    spread: FloatArray | None = None
    unlike: bool = False  # whether weights of rows are known to differ from 1, also where their sum is the count

    @classmethod
    def of_totals(
        cls,
        count: FloatArray,
        weight: FloatArray,
        total: FloatArray,
        squares: FloatArray,
        *ends: FloatArray,
        unlike: bool = False,
    ) -> Cells:
        """Cells from weighted sums of values and both their ends; where all are alike rounding is no spread."""
        low, high = ends
        alike = low == high
        mean, squares = np.where(alike, low, total / weight), np.where(alike, 0.0, squares)
        return cls(count, weight, mean, squares, low, high, unlike=unlike)

    @property
    def weighted(self) -> BoolArray:
        """Whether rows have weights other than 1, shape (n_cells,)."""
        return np.asarray((self.count != self.weight) | self.unlike)

    @property
    def scatter(self) -> FloatArray:
        """Weighted mean of (value - mean)^2, with the weights of the mean, shape (n_cells,)."""
        return self.squares / self.weight if self.spread is None else self.spread

    def beside(self, other: Cells) -> Cells | None:
        """Cells of both; None where either has strata, whose clusters would have to be counted apart."""
        if self.stratum is not None or other.stratum is not None:
            return None
        names = ("count", "weight", "mean", "squares", "low", "high", "scatter")
        parts = (np.concatenate([getattr(self, name), getattr(other, name)]) for name in names)
        count, weight, mean, squares, low, high, spread = parts
        unlike = self.unlike or other.unlike
        return Cells(count, weight, mean, squares, low, high, spread=spread, unlike=unlike)


def cell_sums(values: FloatArray, cell: IntArray | None, n_cells: int, weights: FloatArray | None) -> Cells:
    """The cells of rows in memory; `cell` is None where there is one."""

    def total(of_rows: FloatArray) -> FloatArray:
        return np.array([of_rows.sum()]) if cell is None else np.bincount(cell, of_rows, n_cells).astype(float)

    def weighted(of_rows: FloatArray) -> FloatArray:
        return total(of_rows if weights is None else weights * of_rows)

    unlike = weights is not None and bool(np.any(weights != 1))
    count = np.array([float(values.size)]) if cell is None else np.bincount(cell, minlength=n_cells).astype(float)
    weight, totals = count if weights is None else total(weights), weighted(values)
    squares = weighted((values - (totals / weight)[slice(None) if cell is None else cell]) ** 2)
    ends = ([values.min()], [values.max()]) if cell is None else extremes(cell, values, values, n_cells)
    return Cells.of_totals(count, weight, totals, squares, *map(np.asarray, ends), unlike=unlike)


def extremes(cell: IntArray, low: FloatArray, high: FloatArray, n_cells: int) -> tuple[FloatArray, FloatArray]:
    """The smallest of `low` and the largest of `high` in each cell, both (n_cells,)."""
    least, most = np.full(n_cells, np.inf), np.full(n_cells, -np.inf)
    np.minimum.at(least, cell, low)
    np.maximum.at(most, cell, high)
    return least, most


EVERY_ROW: Axis = ("",)
"""The clustering whose clusters are the rows, under a name that no column has."""


@dataclass(frozen=True, eq=False)
class RowsInCells:
    """Rows that have one value each, in one cell each."""

    values: FloatArray
    # Score of each row in the column of its cell.
    scores: FloatArray
    cell: IntArray
    # None when all are one.
    weights: FloatArray | None
    n_cells: int

    @property
    def in_use(self) -> BoolArray:
        """Rows with a part in their statistic, which those of a ratio may lack, shape (n_rows,)."""
        return np.asarray((self.weight != 0) | (self.scores != 0))

    @property
    def weight(self) -> FloatArray:
        """Weights, ones where there are none, shape (n_rows,)."""
        return np.ones(self.values.size) if self.weights is None else self.weights


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Sums over clusters of the weight s that they have in each of some columns, (n_columns,)."""

    # Clusters with s above zero.
    n_clusters: FloatArray
    # Sum of s^2, and the largest s.
    squares: FloatArray
    largest: FloatArray


class Scores(ABC):
    """Scores of the rows of an estimate, and their sums within clusters.

    Scores that are made of others ask the first of them about their rows.
    """

    paired: ClassVar[bool] = False
    """Whether a row is a question and a column the difference of two models on it."""

    mapped: ClassVar[bool] = False
    """Whether the columns are what an estimate solves for, made of the sums of cells."""

    stackable: ClassVar[bool] = False
    """Whether scores of the same rows can stand beside these."""

    residual: FloatArray | None = None
    """Residuals of rows on the scale of least squares, shape (n_rows,); None where there are none."""

    rounding: ClassVar[float] = 1e-24
    """A sum of squares of influences below this fraction of what `uncancelled` gives is rounding."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """Columns of the scores."""

    @property
    def ssr(self) -> float | None:
        """Sum of squares of `residual`."""
        return None if self.residual is None else float(self.residual @ self.residual)

    @property
    def _inner_scores(self) -> dict[str, Scores]:
        """The scores that these are made of, by field."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in values if isinstance(value, Scores)}

    @property
    def _rows(self) -> Scores:
        return next(iter(self._inner_scores.values()))

    def each(self, change: Callable[[Any], Any]) -> Self:
        """The same with a change made to the scores that these are made of."""
        return replace(self, **{name: change(part) for name, part in self._inner_scores.items()})

    @property
    def n_rows(self) -> int:
        """Rows in use."""
        return self._rows.n_rows

    @property
    def columns(self) -> Names:
        """Columns of labels that can be clustered on."""
        return self._rows.columns

    @property
    def has_source(self) -> bool:
        """Whether further columns can be looked up, which pickle and copy give up."""
        return self._rows.has_source

    def n_clusters(self, by: Axis) -> int:
        """Observed joint values of some columns."""
        return self._rows.n_clusters(by)

    def n_distinct(self, by: Axis) -> int:
        """The same, where no more than the count is needed."""
        return self.n_clusters(by)

    def sizes(self, by: Axis) -> FloatArray:
        """Weight of each cluster (rows, where there are no weights), shape (n_clusters,)."""
        return self._rows.sizes(by)

    def label(self, by: Axis, code: int) -> str:
        """Label of one cluster."""
        return self._rows.label(by, code)

    def homes(self, item: Axis, by: Axis) -> IntArray | None:
        """Cluster of each question, in the order of the clusters of `item`; None where that is not known."""
        return self._rows.homes(item, by)

    def row_labels(self) -> Labels | None:
        """Labels of the rows; None where they are not in memory, or not of one table."""
        return self._rows.row_labels()

    def residual_sums(self, by: Axis) -> ClusterSums | None:
        """Sums of residuals within clusters; None where there are no residuals."""
        return None

    def with_labels(self, more: dict[str, Any]) -> Scores:
        """The same scores with further label columns, given as arrays or Series."""
        return self.each(lambda scores: scores.with_labels(more))

    def detached(self) -> Scores:
        """The same scores without the source of further labels, as pickle and copy keep them."""
        return self.each(lambda scores: scores.detached())

    def relabelled(self, change: Callable[[Labels], Labels]) -> Scores:
        """The same scores with the labels of their rows changed."""
        return self.each(lambda scores: scores.relabelled(change))

    @abstractmethod
    def cells(self, by: Axis) -> Blocks:
        """Sums within clusters, in blocks of whole clusters."""

    def fold(self, by: Axis, piece: Callable[[Block], FloatArray]) -> FloatArray:
        """What `piece` makes of each block, added up; it can be pickled, as an engine may run it where rows are."""
        return sum_blocks(piece(block) for block in self.cells(by))

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', shape (n_params, n_params); None is every row its own cluster."""
        if by is None and (squares := self.row_squares()) is not None:
            return square_of_rows(squares, bread)
        blocks = with_every_row(self).cells(EVERY_ROW) if by is None else self.cells(by)
        return sum_blocks(square(block.totals, bread) for block in blocks)

    @property
    def of_means(self) -> bool:
        """Whether the values of cells, where there are any, are averaged."""
        return True

    @property
    def side_by_side(self) -> tuple[Scores, ...]:
        """Scores of each of the estimates that these are side by side, in the order of the columns."""
        return (self,)

    def in_cells(self) -> tuple[RowsInCells, ...]:
        """The rows of each value in the cells that are the columns; empty where columns are not cells of rows."""
        return ()

    def squared_parts(self) -> tuple[RowsInCells, ...]:
        """The same, or fewer rows of which squares and products of scores add up to those of all."""
        return self.in_cells()

    def rows_in(self, columns: Matrix) -> FloatArray | None:
        """Rows in use in any column of each line of 0 and 1; None where one column's rows are no other's."""
        return None

    def rows_moving(self, bread: FloatArray) -> FloatArray | None:
        """Rows whose part of the design moves each parameter, (n_params,); None where no design is known."""
        return None

    def squares_in_cells(self, by: Axis) -> Matrix | None:
        """Sums of w e^2 within (cluster, column), where a score is w e; None where rows are not held so."""
        return None

    def row_squares(self) -> FloatArray | None:
        """Sums over the rows of each cell of the squares of their scores; None where a row is in several, or none."""
        return None

    def row_moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sums over the rows of each cell of s^2, s w and w^2, s being the score of a row and w its weight."""
        parts = self.in_cells()
        if len(parts) != 1:
            raise NotAvailableError("the covariance of independent rows needs rows in memory with one value each.")
        (rows,) = parts
        pairs = (rows.scores, rows.scores), (rows.scores, rows.weight), (rows.weight, rows.weight)
        ss, sw, ww = (np.bincount(rows.cell, a * b, rows.n_cells).astype(float) for a, b in pairs)
        return ss, sw, ww

    def heaviest_rows(self) -> FloatArray:
        """The largest weight of a row in each cell."""
        rows = self.in_cells()[0]
        return extremes(rows.cell, rows.weight, rows.weight, rows.n_cells)[1]

    def column_sums(self, by: Axis, columns: Matrix) -> ColumnSums:
        """The weight of clusters in some columns, each a combination of these scores' columns, (n_columns, m)."""
        n, squares, largest = (np.zeros(columns.shape[1]) for _ in range(3))
        for block in self.cells(by):
            s = without_zeros(times(compressed(block.gram), columns))
            squares += np.bincount(s.indices, s.data**2, squares.size)
            n += np.bincount(s.indices, s.data > 0, n.size)
            np.maximum.at(largest, s.indices, s.data)
        return ColumnSums(n, squares, largest)

    @property
    def as_means(self) -> Scores:
        """The same scores as those of means, a row counting with its sampling weight."""
        return self

    def shares_apart(self, by: Axis) -> FloatArray:
        """Sum over clusters of the squared difference of the weights of leverages and of means, in each cell."""
        squares = np.zeros(self.n_columns)
        for share, count in zip(self.cells(by), self.as_means.cells(by), strict=True):
            squares += (share.gram - count.gram).power(2).sum(axis=0)
        return squares

    def sums_in_cells(self, by: Axis) -> Blocks:
        """Sums within clusters in the cells themselves, before they are mapped to what an estimate solves for."""
        return self.cells(by)

    def clusters_reached(self, by: Axis, maps: Matrix) -> IntArray:
        """Clusters with rows in some column that enters each row of `maps` (m, n_columns), shape (m,)."""
        columns, counts = transposed(absolute_entries(maps)), np.zeros(maps.shape[0], dtype=np.intp)
        for block in self.cells(by):
            inside = times(compressed(block.gram), columns)
            counts += np.bincount(inside.indices[inside.data > 0], minlength=counts.size)
        return counts

    def samples(self, by: Axis) -> tuple[Matrix, IntArray]:
        """Whether a cluster is in each distinct sample, (n_clusters, n_samples), and the sample of each column."""
        inside = sparse.csc_array(sparse.vstack([compressed(block.gram) > 0 for block in self.cells(by)]))
        inside.eliminate_zeros()
        inside.sort_indices()
        whose = [inside.indices[first:last].tobytes() for first, last in pairwise(inside.indptr)]
        of = factorize(whose)[0]
        first = np.unique(of, return_index=True)[1]
        return inside[:, first].astype(float).tocsr(), of

    def row_influence(self, bread: Matrix) -> FloatArray:
        """Influence of each row, B's_r, shape (n_rows, n_params)."""
        raise NotAvailableError("influence of rows needs them in memory; name a clustering in `by`.")

    def row_leverages(self, inverse_gram: FloatArray) -> FloatArray | None:
        """Leverage of each row, where its scores are a number times its row of the design; None elsewhere."""
        return None

    def uncancelled(self, bread: Matrix) -> FloatArray | None:
        """Sums of squares of the influence of rows if its parts did not cancel; None where a row has one part."""
        return None

    def squares_by_cluster(self, by: Axis, maps: FloatArray) -> FloatArray | None:
        """Diagonal of R'X_g'W X_g R of each cluster, (n_clusters, m), for maps R of m columns; None without a design.

        With RR' = (X'WX)^-1 they add up to the leverages of the cluster's rows.
        """
        return None

    def dominant(self, by: Axis | None, root: FloatArray, above: float) -> Leverages:
        """Leverage matrices of the clusters (or rows) that add up to more than that; none where they are diagonal."""
        return iter(())

    def narrow(self, by: Axis) -> Iterator[tuple[NarrowClusters | None, Blocks]]:
        """Of some clusters at a time, those of fewer rows than columns, if any, and blocks of the others."""
        yield None, self.cells(by)

    def gram_entries(self, by: Axis) -> int:
        """Entries of X_g'W X_g that may be held of all clusters together; 0 where they are sparse or made in blocks."""
        return 0


def with_every_row(scores: Scores) -> Scores:
    """The same scores, with EVERY_ROW as a clustering."""
    every_row = {EVERY_ROW[0]: Codes(np.arange(scores.n_rows), scores.n_rows)}
    return scores.relabelled(lambda labels: labels.with_held(every_row))


class LabelledScores(Scores):
    """Scores of rows in memory whose clusters are told by `labels`, a field of the dataclass."""

    labels: Labels
    stackable: ClassVar[bool] = True
    weights: FloatArray | None = None

    @property
    def n_rows(self) -> int:
        """Rows in use."""
        return self.labels.n_rows

    @property
    def columns(self) -> Names:
        """Columns of labels that can be clustered on."""
        return self.labels.columns

    @property
    def has_source(self) -> bool:
        """Whether further columns can be looked up."""
        return self.labels.source is not None

    def n_clusters(self, by: Axis) -> int:
        """Observed joint values of some columns."""
        return self.labels.codes(by).n_clusters

    def sizes(self, by: Axis) -> FloatArray:
        """Weight of each cluster, shape (n_clusters,)."""
        codes = self.labels.codes(by)
        return np.asarray(codes.counts if self.weights is None else np.bincount(codes.codes, self.weights), dtype=float)

    def label(self, by: Axis, code: int) -> str:
        """Label of one cluster."""
        return self.labels.codes(by).label(code)

    def homes(self, item: Axis, by: Axis) -> IntArray | None:
        """Cluster of each question, in the order of the clusters of `item`."""
        of = self.labels.codes(item)
        home = np.zeros(of.n_clusters, dtype=np.intp)
        home[of.codes] = self.labels.codes(by).codes
        return home

    def row_labels(self) -> Labels | None:
        """Labels of the rows."""
        return self.labels

    def residual_sums(self, by: Axis) -> ClusterSums | None:
        """Sums of residuals within clusters; None where there are no residuals."""
        if self.residual is None:
            return None
        codes, residual = self.labels.codes(by), self.residual
        total, square = (np.bincount(codes.codes, e) for e in (residual, (residual - residual.mean()) ** 2))
        return sums_of_residuals(codes.counts, total, float(residual @ residual), square)

    def relabelled(self, change: Callable[[Labels], Labels]) -> LabelledScores:
        """The same scores with the labels of their rows changed."""
        return replace(self, labels=change(self.labels))

    def with_labels(self, more: dict[str, Any]) -> LabelledScores:
        """The same scores with further label columns."""
        held = {name: self.labels.align(name, values) for name, values in more.items()}
        return self.relabelled(lambda labels: labels.with_held(held))

    def detached(self) -> LabelledScores:
        """The same scores without the source of further labels."""
        return self.relabelled(Labels.detached)


@dataclass(frozen=True, eq=False)
class CellScores(LabelledScores):
    """Scores of rows that fall into cells, in memory."""

    values: FloatArray
    # Fitted value of each cell.
    fitted: FloatArray
    labels: Labels
    # Cell of each row; None when there is one cell.
    cell: IntArray | None = None
    # Sampling weights; None when all are one.
    weights: FloatArray | None = None

    @property
    def n_columns(self) -> int:
        """Number of cells."""
        return self.fitted.size

    @property
    def fitted_rows(self) -> FloatArray:
        """Fitted value of each row, or of all."""
        return self.fitted if self.cell is None else self.fitted[self.cell]

    @held_property
    def row_scores(self) -> FloatArray:
        """Each row's score in its own cell's column, w (value - fitted), shape (n_rows,)."""
        residual = self.values - self.fitted_rows
        return residual if self.weights is None else residual * self.weights

    def cells(self, by: Axis) -> Blocks:
        """Sums within (cluster, cell), all clusters in one block."""
        codes, n_cells = self.labels.codes(by), self.n_columns
        present, pair = ordered(codes.codes if self.cell is None else codes.codes * n_cells + self.cell)
        total, weight = (np.bincount(pair, of_row).astype(float) for of_row in (self.row_scores, self.weights))
        totals = of_sorted(total, present // n_cells, present % n_cells, (codes.n_clusters, n_cells))
        yield Block(totals, with_entries(totals, weight))

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', shape (n_params, n_params)."""
        if by is None:
            return super().meat(None, bread)
        return sum_blocks(white(block.totals, bread) for block in self.cells(by))

    def row_squares(self) -> FloatArray:
        """Sums over the rows of each cell of the squares of their scores."""
        if self.cell is None:
            return np.array([self.row_scores @ self.row_scores])
        return np.bincount(self.cell, self.row_scores**2, self.n_columns).astype(float, copy=False)

    def in_cells(self) -> tuple[RowsInCells, ...]:
        """The rows in their cells."""
        cell = np.zeros(self.n_rows, dtype=np.intp) if self.cell is None else self.cell
        return (RowsInCells(self.values, self.row_scores, cell, self.weights, self.n_columns),)

    def squares_in_cells(self, by: Axis) -> Matrix:
        """Sums of w e^2 within (cluster, cell)."""
        codes = self.labels.codes(by)
        weights = 1.0 if self.weights is None else np.where(self.weights > 0, self.weights, 1.0)
        squares = self.row_scores**2 / weights
        cell = np.zeros(squares.size, dtype=np.intp) if self.cell is None else self.cell
        return sparse.coo_array((squares, (codes.codes, cell)), (codes.n_clusters, self.n_columns)).tocsr()

    def turned(self, which: BoolArray, cell: IntArray, fitted: FloatArray) -> CellScores:
        """The same rows in other cells, some as scores of the other of two sides."""
        return replace(self, values=np.where(which, 1.0 - self.values, self.values), cell=cell, fitted=fitted)

    def row_influence(self, bread: Matrix) -> FloatArray:
        """Influence of each row, B's_r, shape (n_rows, n_params)."""
        return np.asarray(self.row_scores[:, None] * (bread[0] if self.cell is None else bread[self.cell]))


@dataclass(frozen=True, eq=False)
class LinearizedScores(CellScores):
    """Scores of statistics that are not means, one statistic a cell, by the influence of each row.

    `values` are weight times influence of each row, in units of the statistic, and sum to zero within each cell;
    `fitted` are the statistics. `weights` are those of the rows in the leverage of their cluster: for a ratio, their
    part of the denominator.
    """

    # Sampling weights.
    row_weights: FloatArray | None = None

    @property
    def of_means(self) -> bool:
        """Whether the values of cells are averaged."""
        return False

    @property
    def row_scores(self) -> FloatArray:
        """Each row's score in its own cell's column, shape (n_rows,)."""
        return self.values

    @property
    def as_means(self) -> CellScores:
        """The same scores as those of means of the linearized values, a row counting with its sampling weight."""
        influence = self.values if self.row_weights is None else self.values / self.row_weights
        return CellScores(influence + self.fitted_rows, self.fitted, self.labels, self.cell, self.row_weights)
