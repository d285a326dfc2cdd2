"""The scores of an estimate and their sums within clusters, which is all that a covariance needs.

A row's *scores* are its contributions to the estimating equations. Cell scores have one non-zero a row,
value - fitted[cell] in that cell's column; row scores are an (n_rows, n_columns) array. Engines supply
the same sums from where the rows live.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.checks import FloatArray, IntArray
from evalreg.data.clusters import TABLE_PER_ROW, Axis, Codes, Labels

Matrix: TypeAlias = Any
"""A dense array or a scipy sparse array."""

# Above this share of entries that are there, a dense product is faster than a sparse one.
DENSE_SHARE = 0.25
SMALL = 1 << 14

# Clusters of a block of row scores, so that memory does not grow with the number of clusters.
CLUSTERS_PER_BLOCK = 1 << 16


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
    gram: Matrix | None


class Scores(Protocol):
    """What a covariance asks of the rows of an estimate."""

    @property
    def n_rows(self) -> int:
        """Rows in use."""

    @property
    def n_columns(self) -> int:
        """Columns of the scores."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of labels that can be clustered on."""

    @property
    def has_source(self) -> bool:
        """Whether further columns can be looked up, which pickle and copy give up."""

    def n_clusters(self, by: Axis) -> int:
        """Observed joint values of some columns."""

    def sizes(self, by: Axis) -> FloatArray:
        """Weight of each cluster (rows, where there are no weights), shape (n_clusters,)."""

    def label(self, by: Axis, code: int) -> str:
        """Label of one cluster."""

    def cells(self, by: Axis) -> Iterator[Block]:
        """Sums within clusters, in blocks of whole clusters."""

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', shape (n_params, n_params); None is every row its own cluster."""

    def with_labels(self, more: dict[str, Any]) -> Scores:
        """The same scores with further label columns, given as arrays or Series."""


def dense(matrix: Matrix) -> FloatArray:
    """Return a sparse array as a dense one, a dense one as it is."""
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)


def mostly_there(matrix: Matrix) -> bool:
    """Return whether so much of a sparse array is there that it is faster dense."""
    return hasattr(matrix, "nnz") and matrix.nnz > DENSE_SHARE * matrix.shape[0] * matrix.shape[1]


def compressed(matrix: Matrix) -> Matrix:
    """Return an array in compressed sparse rows."""
    return sparse.csr_array(matrix)


def single_column(values: FloatArray) -> Matrix:
    """Return one value a row as a column in compressed sparse rows, every entry stored."""
    n_rows = values.size
    return sparse.csr_array((values, np.zeros(n_rows, np.int32), np.arange(n_rows + 1, dtype=np.int32)), (n_rows, 1))


def scale_columns(matrix: Matrix, factor: FloatArray) -> Matrix:
    """Return an array in compressed sparse rows, each column multiplied by a number."""
    rows = compressed(matrix)
    return sparse.csr_array((rows.data * factor[rows.indices], rows.indices, rows.indptr), rows.shape)


def square(totals: Matrix, bread: Matrix) -> FloatArray:
    """Sum of outer products of cluster totals, mapped by the bread.

    Parameters
    ----------
    totals : ndarray or sparse array, shape (n_clusters, n_columns)
        Sums of scores within clusters.
    bread : ndarray or sparse array, shape (n_columns, n_params)
        Maps scores to influence.

    Returns
    -------
    ndarray, shape (n_params, n_params)
        B'T'TB.
    """
    if mostly_there(totals):
        totals = dense(totals)  # whose products are many times faster
    influence = totals @ bread
    product = influence.T @ influence
    return dense(product)


def quadratic(contrasts: FloatArray, matrix: FloatArray) -> FloatArray:
    """Diagonal of C V C'.

    Parameters
    ----------
    contrasts : ndarray, shape (m, k)
        C.
    matrix : ndarray, shape (k, k)
        V.

    Returns
    -------
    ndarray, shape (m,)
        c'Vc of each row.

    Examples
    --------
    >>> quadratic(np.array([[1.0, -1.0]]), np.eye(2)).tolist()
    [2.0]
    """
    if contrasts.size > SMALL and np.count_nonzero(contrasts) < DENSE_SHARE * contrasts.size:
        few = compressed(contrasts)  # of each row's many parameters a contrast has a few
        return np.asarray(few.multiply(few @ matrix).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.sum((contrasts @ matrix) * contrasts, axis=1))


@dataclass(frozen=True, eq=False)
class CellScores:
    """Scores of rows that fall into cells, in memory.

    Parameters
    ----------
    values : ndarray, shape (n_rows,)
        The value of each row.
    fitted : ndarray, shape (n_cells,)
        The fitted value of each cell.
    labels : Labels
        Cluster labels of the rows.
    cell : ndarray of int, shape (n_rows,), optional
        Cell of each row; None when there is one cell.
    weights : ndarray, shape (n_rows,), optional
        Sampling weights; None when all are one.
    """

    values: FloatArray
    fitted: FloatArray
    labels: Labels
    cell: IntArray | None = None
    weights: FloatArray | None = None

    @property
    def n_rows(self) -> int:
        """Rows in use."""
        return self.values.size

    @property
    def n_columns(self) -> int:
        """Number of cells."""
        return self.fitted.size

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of labels that can be clustered on."""
        return self.labels.columns

    @property
    def has_source(self) -> bool:
        """Whether further columns can be looked up."""
        return self.labels.source is not None

    @cached_property
    def row_scores(self) -> FloatArray:
        """Each row's score in its own cell's column, w (value - fitted), shape (n_rows,)."""
        fitted = self.fitted[0] if self.cell is None else self.fitted[self.cell]
        residual = self.values - fitted
        return residual if self.weights is None else residual * self.weights

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

    def homes(self, item: Axis, by: Axis) -> IntArray:
        """Cluster of each question, in the order of the clusters of `item`."""
        of = self.labels.codes(item)
        home = np.zeros(of.n_clusters, dtype=np.intp)
        home[of.codes] = self.labels.codes(by).codes
        return home

    def cells(self, by: Axis) -> Iterator[Block]:
        """Sums within (cluster, cell), all clusters in one block."""
        codes = self.labels.codes(by)
        pair, shape = self._pairs(codes)
        total = np.bincount(pair, self.row_scores).astype(float, copy=False)
        if self.cell is None and self.weights is None:
            weight = codes.counts.astype(float)
        else:
            weight = np.bincount(pair, self.weights).astype(float)
        if shape is not None:
            row, column = shape
            where, size = (row, column), (codes.n_clusters, self.n_columns)
            yield Block(sparse.coo_array((total, where), size).tocsr(), sparse.coo_array((weight, where), size).tocsr())
        else:
            # No cluster is without rows, so no entry is missing, and zeros need not be looked for.
            yield Block(single_column(total), single_column(weight))

    def _pairs(self, codes: Codes) -> tuple[IntArray, tuple[IntArray, IntArray] | None]:
        """Code of each row's (cluster, cell); with the pair of each code where not all pairs are numbered."""
        if self.cell is None:
            return codes.codes, None
        n_table = codes.n_clusters * self.n_columns
        key = codes.codes * self.n_columns + self.cell
        if n_table <= TABLE_PER_ROW * key.size + 1024:
            present = np.flatnonzero(np.bincount(key, minlength=n_table))
            number = np.zeros(n_table, dtype=np.intp)
            number[present] = np.arange(present.size)
            pair = number[key]
        else:
            pair, present = pd.factorize(key)
        return pair, (present // self.n_columns, present % self.n_columns)

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', shape (n_params, n_params)."""
        if by is not None:
            return sum_blocks(square(block.totals, bread) for block in self.cells(by))
        if self.cell is None:
            squares = np.array([self.row_scores @ self.row_scores])
        else:
            squares = np.bincount(self.cell, self.row_scores**2, minlength=self.n_columns)
        scaled = np.sqrt(squares)[:, None] * dense(bread)
        return np.asarray(scaled.T @ scaled)

    def with_labels(self, more: dict[str, Any]) -> CellScores:
        """The same scores with further label columns."""
        held = {name: self.labels.align(name, labels) for name, labels in more.items()}
        return replace(self, labels=self.labels.with_held(held))


@dataclass(frozen=True, eq=False)
class LinearizedScores(CellScores):
    """Scores of statistics that are not means, one statistic a cell, by the influence of each row.

    Parameters
    ----------
    values : ndarray, shape (n_rows,)
        Weight times influence of each row, in units of the statistic; sums to zero within each cell.
    fitted : ndarray, shape (n_cells,)
        The statistic of each cell.
    labels : Labels
        Cluster labels of the rows.
    cell : ndarray of int, shape (n_rows,), optional
        Cell of each row; None when there is one cell.
    weights : ndarray, shape (n_rows,), optional
        Weight of each row in the leverage of its cluster: for a ratio, its part of the denominator.
    row_weights : ndarray, shape (n_rows,), optional
        Sampling weights.
    """

    row_weights: FloatArray | None = None

    @property
    def row_scores(self) -> FloatArray:
        """Each row's score in its own cell's column, shape (n_rows,)."""
        return self.values

    @property
    def as_means(self) -> CellScores:
        """The same scores as those of means of the linearized values, a row counting with its sampling weight."""
        fitted = self.fitted[0] if self.cell is None else self.fitted[self.cell]
        influence = self.values if self.row_weights is None else self.values / self.row_weights
        return CellScores(influence + fitted, self.fitted, self.labels, self.cell, self.row_weights)


@dataclass(frozen=True, eq=False)
class RowScores:
    """Scores of a regression or of any model fitted row by row, in memory.

    Parameters
    ----------
    values : ndarray, shape (n_rows, n_columns)
        Scores; columns sum to zero.
    labels : Labels
        Cluster labels of the rows.
    design : ndarray, shape (n_rows, n_columns), optional
        Rows of the design scaled by the square root of the working weights, so that X_g'W X_g is the
        sum of squares of its rows.
    residual : ndarray, shape (n_rows,), optional
        Residuals on the scale of least squares, from which an intraclass correlation is computed.
    weights : ndarray, shape (n_rows,), optional
        Of the rows in the fit; None where all are alike. The scores hold them already.
    """

    values: FloatArray
    labels: Labels
    design: FloatArray | None = None
    residual: FloatArray | None = None
    weights: FloatArray | None = None
    block_size: int = field(default=CLUSTERS_PER_BLOCK, repr=False)

    @property
    def n_rows(self) -> int:
        """Rows in use."""
        return int(self.values.shape[0])

    @property
    def n_columns(self) -> int:
        """Columns of the scores."""
        return int(self.values.shape[1])

    @property
    def columns(self) -> tuple[str, ...]:
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
        """Weight of each cluster (rows, where there are no weights), shape (n_clusters,)."""
        codes = self.labels.codes(by)
        return np.asarray(codes.counts if self.weights is None else np.bincount(codes.codes, self.weights), dtype=float)

    def label(self, by: Axis, code: int) -> str:
        """Label of one cluster."""
        return self.labels.codes(by).label(code)

    def cells(self, by: Axis) -> Iterator[Block]:
        """Sums within clusters, with each cluster's X_g'W X_g where there is a design."""
        codes = self.labels.codes(by)
        if codes.n_clusters <= self.block_size:
            yield self._whole(codes)
            return
        order, starts = codes.order
        for first in range(0, codes.n_clusters, self.block_size):
            edges = starts[first : min(first + self.block_size, codes.n_clusters) + 1]
            rows = order[edges[0] : edges[-1]]
            part = Codes(codes.codes[rows] - first, edges.size - 1)
            design = None if self.design is None else self.design[rows]
            yield RowScores(self.values[rows], self.labels, design)._whole(part)

    def _whole(self, codes: Codes) -> Block:
        """All clusters at once."""
        columns = np.ascontiguousarray(self.values.T)
        totals = np.column_stack([np.bincount(codes.codes, column, codes.n_clusters) for column in columns])
        return Block(totals, None if self.design is None else cluster_grams(self.design, codes))

    def dominant(
        self, by: Axis | None, root: FloatArray, above: float
    ) -> Iterator[tuple[FloatArray, FloatArray | None]]:
        """Leverages of the clusters (or rows) that add up to more than that, and what maps their eigenvectors to L_g's.

        Z_g = X_g R has as many rows as the cluster, and Z_g Z_g' the eigenvalues of L_g = Z_g'Z_g: the smaller is
        taken. The leverages of all clusters add up to k, so that at most k / above are found.
        """
        assert self.design is not None
        turned = self.design @ root
        leverage = np.einsum("ij,ij->i", turned, turned)
        if by is None:
            groups: Iterable[FloatArray] = (turned[[row]] for row in np.flatnonzero(leverage > above))
        else:
            codes = self.labels.codes(by)
            found = np.flatnonzero(np.bincount(codes.codes, leverage) > above)
            order, starts = codes.order if found.size else (codes.codes, codes.codes)
            groups = (turned[order[starts[g] : starts[g + 1]]] for g in found)
        for rows in groups:
            yield (rows @ rows.T, rows.T) if rows.shape[0] < rows.shape[1] else (rows.T @ rows, None)

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', the sums and squares by statsmodels."""
        if by is None:
            middle = self.values.T @ self.values
        else:
            from statsmodels.stats.sandwich_covariance import S_crosssection

            middle = S_crosssection(self.values, self.labels.codes(by).codes)
        return np.asarray(bread.T @ middle @ bread)

    def with_labels(self, more: dict[str, Any]) -> RowScores:
        """The same scores with further label columns."""
        held = {name: self.labels.align(name, labels) for name, labels in more.items()}
        return replace(self, labels=self.labels.with_held(held))


def cluster_grams(design: FloatArray, codes: Codes) -> FloatArray:
    """Sums of squares and products of the design within clusters.

    Parameters
    ----------
    design : ndarray, shape (n_rows, n_columns)
        Rows.
    codes : Codes
        Cluster of each row.

    Returns
    -------
    ndarray, shape (n_clusters, n_columns, n_columns)
        X_g'X_g.
    """
    n_columns = design.shape[1]
    grams = np.empty((codes.n_clusters, n_columns, n_columns))
    columns = np.ascontiguousarray(design.T)
    for j in range(n_columns):
        for k in range(j + 1):
            grams[:, j, k] = grams[:, k, j] = np.bincount(codes.codes, columns[j] * columns[k], codes.n_clusters)
    return grams


def sum_blocks(parts: Iterator[FloatArray]) -> FloatArray:
    """Sum arrays one at a time, so that only one is held."""
    total = next(parts).copy()
    for part in parts:
        total += part
    return total


@dataclass(frozen=True, eq=False)
class CellSums:
    """Sums of each cell over its rows: what a cell estimator needs of the data.

    Parameters
    ----------
    count, weight, total : ndarray, shape (n_cells,)
        Rows, sum of weights, weighted sum of values.
    squares : ndarray, shape (n_cells,)
        Sum of w (value - cell mean)^2.
    low, high : ndarray, shape (n_cells,)
        Smallest and largest value.
    """

    count: FloatArray
    weight: FloatArray
    total: FloatArray
    squares: FloatArray
    low: FloatArray
    high: FloatArray


def cell_sums(values: FloatArray, cell: IntArray | None, n_cells: int, weights: FloatArray | None) -> CellSums:
    """Sums of the rows of each cell, in memory.

    Parameters
    ----------
    values : ndarray, shape (n_rows,)
        Values without missing ones.
    cell : ndarray of int, shape (n_rows,), optional
        Cell of each row; None when there is one.
    n_cells : int
        Number of cells.
    weights : ndarray, shape (n_rows,), optional
        Sampling weights.

    Returns
    -------
    CellSums
        One entry a cell.

    Examples
    --------
    >>> cell_sums(np.array([1.0, 0.0]), None, 1, None).squares.tolist()
    [0.5]
    """
    if cell is None:
        total = np.array([values.sum() if weights is None else weights @ values])
        weight = np.array([float(values.size) if weights is None else weights.sum()])
        residual = values - total[0] / weight[0]
        squares = np.array([residual @ residual if weights is None else weights @ residual**2])
        count, low, high = (np.array([float(x)]) for x in (values.size, np.min(values), np.max(values)))
        return CellSums(count, weight, total, squares, low, high)
    count = np.bincount(cell, minlength=n_cells).astype(float)
    weight = count if weights is None else _sums(cell, weights, n_cells)
    total = _sums(cell, values if weights is None else weights * values, n_cells)
    squared = (values - (total / weight)[cell]) ** 2
    squares = _sums(cell, squared if weights is None else weights * squared, n_cells)
    low, high = np.full(n_cells, np.inf), np.full(n_cells, -np.inf)
    np.minimum.at(low, cell, values)
    np.maximum.at(high, cell, values)
    return CellSums(count, weight, total, squares, low, high)


def _sums(cell: IntArray, values: FloatArray, n_cells: int) -> FloatArray:
    return np.asarray(np.bincount(cell, values, n_cells), dtype=np.float64)
