"""Sums of scores within clusters, which is all that a covariance needs, and sums of cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray
from evalreg.numerics.basis import FewEntries
from evalreg.numerics.matrices import Matrix, compressed, dense, is_identity, mostly_there, row_ranges, some_rows


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

    def parts(self, n_entries: int) -> Iterator[Block]:
        """The same clusters, some at a time, with about so many entries of sparse arrays each."""
        totals, gram = compressed(self.totals), compressed(self.gram)
        if gram.nnz <= n_entries:
            yield self
            return
        for first, last in row_ranges(gram, n_entries):
            yield Block(some_rows(totals, first, last), some_rows(gram, first, last))


@dataclass(frozen=True, eq=False)
class NarrowClusters:
    """Clusters of fewer rows than columns, whose leverages follow from matrices as small as their rows are few.

    Parameters
    ----------
    design : ndarray or sparse array, shape (n_rows, n_columns)
        Rows with X_g'X_g = X_g'W X_g; not only those of these clusters.
    totals : ndarray, shape (n_clusters, n_columns)
        Sums of scores within these clusters, combinations of their rows.
    order : ndarray of int, shape (n_kept,)
        Rows of these clusters, cluster by cluster.
    starts : ndarray of int, shape (n_clusters + 1,)
        Where each begins in `order`.
    which : ndarray of int, shape (n_clusters,)
        Their places among all clusters.
    entries : FewEntries, optional
        Rows of the design by their entries, where these are few.
    """

    design: Matrix
    totals: FloatArray
    order: IntArray
    starts: IntArray
    which: IntArray
    entries: FewEntries | None = None

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
        few = sparse.issparse(rows) and not mostly_there(rows)
        for matrix in maps:
            # Least squares have orthonormal columns, which need no root.
            own = dense(rows) if is_identity(matrix) else (rows if few else dense(rows)) @ matrix
            yield np.asarray(own).reshape(*members.shape, -1)


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
    """Sums of the rows of each cell, in memory; `cell` is None where there is one."""
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
