"""DofSums over clusters of the leverages of cells, which give Satterthwaite degrees of freedom of their means."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from evalreg.checks import FloatArray, IntArray
from evalreg.covariance.corrections import cell_scale
from evalreg.covariance.leverages import CellLeverage, CellTerms, FactoredLeverage
from evalreg.numerics.matrices import (
    Matrix,
    dense,
    mostly_there,
    row_ranges,
    some_rows,
    stacked,
    with_entries,
)

# Entries of (cluster, cell) that are handled at a time, so that what is made of them stays near the processor; and how
# many at least for each entry of the matrices that their sums are added to.
ENTRIES, PER_PRODUCT = 1 << 15, 8
# Lines that mostly tell unequal columns apart.
FEW_LINES = 8
# With more cells than this, an ordinary (n_cells, n_cells) array would be the largest thing in memory by far.
MOST_CELLS = 3000


def cell_terms(leverage: Matrix, weight: FloatArray, power: float) -> CellTerms:
    """What `cell_leverage` gives for the cells one by one, without their covariances: power is p of the adjustment.

    Shapes: leverage h (n_clusters, n_cells), weight n_k (n_cells,).
    """
    scale, cell, n = cell_scale(leverage, power).data, leverage.indices, weight.size
    b = scale**2 * leverage.data / weight[cell]
    v2 = scale**2 * leverage.data**2 / weight[cell]
    squares = _per_cell(cell, v2, n)
    variance = _per_cell(cell, b**2 - 2 * b * v2, n) + squares**2
    return CellTerms(_per_cell(cell, b, n) - squares, variance, _per_cell(cell, np.ones(cell.size), n))


def _per_cell(cell: IntArray, values: FloatArray, n_cells: int) -> FloatArray:
    return np.asarray(np.bincount(cell, values, n_cells), dtype=np.float64)


def entries_at_once(n_columns: int) -> int:
    """Entries of (cluster, cell) to handle at a time where their squares and products in so many columns are summed."""
    return max(ENTRIES, PER_PRODUCT * n_columns**2)


class LeverageSums:
    """What `cell_leverage` gives, from one block of clusters after the other."""

    def __init__(self, weight: FloatArray) -> None:
        self._weight = weight
        self._sums: DofSums | None = None
        self._many: list[tuple[Matrix, Matrix]] = []

    def add(self, leverage: Matrix, scale: Matrix) -> None:
        """Add a block of clusters, h and its `cell_scale`, (n_clusters, n_cells); of very many cells it is held."""
        if leverage.shape[1] > MOST_CELLS:
            self._many.append(_entries(leverage, scale, self._weight))
            return
        more = _leverage_sums(leverage, scale, self._weight)
        before = self._sums
        self._sums = more if before is None else (before[0] + more[0], before[1] + more[1], before[2] + more[2])

    def sums(self) -> CellLeverage | FactoredLeverage:
        """What there is to know of all blocks."""
        if self._sums is None:
            b, v = (stacked(parts) for parts in zip(*self._many, strict=True))
            return _many_cells(b, v)
        trace, squares, products = self._sums
        return CellLeverage(trace=trace, spread=squares + products**2)


def cell_leverage(leverage: Matrix | list[Matrix], weight: FloatArray, power: float) -> CellLeverage | FactoredLeverage:
    """DofSums over clusters that give the Satterthwaite degrees of freedom of cells; G - 1 for equal clusters.

    Bell and McCaffrey (2002); Pustejovsky and Tipton (2018), JBES 36(4), eq. 11; the working model is identity. The
    first kind has a size that does not depend on the number of clusters, the second is for very many cells. `leverage`
    is h, shape (n_clusters, n_cells), in one or in blocks of clusters, `weight` n_k, `power` p of the adjustment.
    """
    sums = LeverageSums(weight)
    for block in leverage if isinstance(leverage, list) else [leverage]:
        for first, last in row_ranges(block, entries_at_once(weight.size)):
            part = some_rows(block, first, last)
            sums.add(part, cell_scale(part, power))
    return sums.sums()


def _many_cells(b: Matrix, v: Matrix) -> CellLeverage | FactoredLeverage:
    """A sparse spread where few pairs of cells share a cluster; its factors where many do."""
    v2 = v.multiply(v).tocsr()
    trace = np.asarray(b.sum(axis=0) - v2.sum(axis=0)).ravel()
    shared = float(np.sum(np.diff(b.indptr).astype(float) ** 2))
    if shared > MOST_CELLS**2:
        return FactoredLeverage(trace, b, v)
    cross, products = b.T @ v2, v.T @ v
    return CellLeverage(trace, (b.T @ b - cross - cross.T + products.multiply(products)).tocsr())


def _entries(leverage: Matrix, scale: Matrix, weight: FloatArray) -> tuple[Matrix, Matrix]:
    """The b and v of every cluster and cell, shape (n_clusters, n_cells)."""
    a, h, n = scale.data, leverage.data, weight[leverage.indices]
    return with_entries(leverage, a**2 * h / n), with_entries(leverage, a * h / np.sqrt(n))


DofSums: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]
"""DofSums over some clusters: b - v^2, the squares bb' - b(v^2)' - (v^2)b', and the products vv'."""


def _leverage_sums(leverage: Matrix, scale: Matrix, weight: FloatArray) -> DofSums:
    if mostly_there(leverage):
        return _dense_leverage_sums(leverage, scale, weight)
    b, v = _entries(leverage, scale, weight)
    v2 = v.multiply(v).tocsr()
    cross = (b.T @ v2).toarray()
    trace = np.asarray(b.sum(axis=0) - v2.sum(axis=0)).ravel()
    return trace, (b.T @ b).toarray() - cross - cross.T, (v.T @ v).toarray()


def _dense_leverage_sums(leverage: Matrix, scale: Matrix, weight: FloatArray) -> DofSums:
    # Many cells share their leverages: those of all pairs of models that answered the same questions, say.
    lines = some_rows(leverage, 0, min(FEW_LINES, leverage.shape[0]))
    first, cell = distinct_columns(np.vstack([dense(lines), weight]))
    if first.size < cell.size:
        first, cell = distinct_columns(np.vstack([dense(leverage), weight]))
    h, a = dense(leverage), dense(scale)
    if not np.array_equal(first, np.arange(cell.size)):
        h, a = h[:, first], a[:, first]
    # Those of the whole weight, which the sums are divided by.
    v = a * h
    b = a * v
    v2 = v * v
    d = b - v2
    each, both = weight[first], np.ix_(cell, cell)
    pairs = np.outer(each, each)
    # d'd - v2'v2 is b'b - b'v2 - v2'b. A matrix times itself is half the work, for which BLAS starts no threads.
    squares, products = (d.T @ d - v2.T @ v2) / pairs, v.T @ v / np.sqrt(pairs)
    return (d.sum(axis=0) / each)[cell], squares[both], products[both]


def distinct_columns(matrix: FloatArray) -> tuple[IntArray, IntArray]:
    """First of each set of equal columns, and for each column the place of its equal among them.

    ``matrix[:, first][:, place]`` is the matrix, shape (n, k), of finite numbers.
    """
    every = np.arange(matrix.shape[1])
    if every.size == 1:
        return every, every
    bits = np.ascontiguousarray(matrix).view(np.uint64)
    # Any odd multipliers do: whole-number sums are the same for equal columns in whatever order they are formed.
    odd = np.arange(bits.shape[0], dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) | np.uint64(1)
    if np.unique(odd[:FEW_LINES] @ bits[:FEW_LINES]).size == every.size:
        return every, every
    _, first, place = np.unique(odd @ bits, return_index=True, return_inverse=True)
    # Unequal columns of the same sum are as good as impossible, and found.
    return (first, place) if np.array_equal(matrix[:, first][:, place], matrix) else (every, every)
