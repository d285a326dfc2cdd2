"""Satterthwaite degrees of freedom of means of cells, and of contrasts of them, from the leverages of clusters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray
from evalreg.covariance.corrections import cell_scale, power_scale
from evalreg.covariance.dof import quadratic, ratio, whiten
from evalreg.numerics.matrices import Matrix, compressed, dense, mostly_there

# Contrasts handled at a time, so that (contrasts, cells) arrays stay small.
ROWS_PER_BLOCK = 512
BLOCK_ENTRIES = 1 << 20
# With more cells than this, an ordinary (n_cells, n_cells) array would be the largest thing in memory by far.
MOST_CELLS = 3000
# Columns of such an array that are held at a time.
COLUMNS_PER_BLOCK = 256


@dataclass(frozen=True, eq=False)
class CellLeverage:
    """What Satterthwaite needs of the leverages of cells, summed over clusters.

    With a = (1 - h)^-p, b_gk = a^2 N_gk / n_k^2 and v_gk = a N_gk / n_k^(3/2) (PT 2018 for a saturated regression), the
    totals of a contrast c have expected squares trace' c^2 and, summed over pairs of clusters, squared covariances
    (c^2)' spread (c^2).

    Parameters
    ----------
    trace : ndarray, shape (n_cells,)
        Sum over clusters of b - v^2.
    spread : ndarray or sparse array, shape (n_cells, n_cells)
        Sum over g of b b' - b (v^2)' - (v^2) b', plus the square of each element of sum over g of v v'.
    """

    trace: FloatArray
    spread: Matrix

    def dof(self, contrasts: Matrix) -> FloatArray:
        """Satterthwaite degrees of freedom, one for each row of `contrasts` (m, n_cells)."""
        if sparse.issparse(contrasts) or sparse.issparse(self.spread):
            rows = compressed(contrasts)
            squares = rows.multiply(rows).tocsr()
            parts = range(0, squares.shape[0], ROWS_PER_BLOCK)
            # The spread is symmetric: half of it twice, which halves the time where it is sparse.
            is_sparse = sparse.issparse(self.spread)
            half = sparse.triu(compressed(self.spread), 1).tocsr() if is_sparse else np.triu(self.spread, 1)
            above = [_row_forms(squares[first : first + ROWS_PER_BLOCK], half) for first in parts]
            variance = 2 * np.concatenate(above) + squares.multiply(squares) @ self.spread.diagonal()
            return ratio(np.asarray(squares @ self.trace) ** 2, variance)
        squares = np.asarray(contrasts) ** 2
        expected = squares @ self.trace
        return ratio(expected**2, quadratic(squares, self.spread))

    def hotelling(self, contrasts: FloatArray) -> float:
        """eta of the approximate Hotelling test of `contrasts` (q, n_cells), PT 2018 section 3.2."""
        return _hotelling(contrasts, self.trace, self.columns)

    @property
    def diagonal(self) -> FloatArray:
        """Of the spread, shape (n_cells,)."""
        return np.asarray(self.spread.diagonal(), dtype=np.float64)

    def columns(self, part: slice) -> FloatArray:
        """Some columns of the spread, shape (n_cells, n_columns)."""
        return dense(self.spread[:, part])

    def times(self, matrix: Matrix) -> FloatArray:
        """The spread times a sparse array, shape (n_cells, m)."""
        return dense(self.spread @ matrix)


@dataclass(frozen=True, eq=False)
class FactoredLeverage:
    """The same as `CellLeverage` where its `spread` would be too large to hold: from b and v of the clusters.

    Parameters
    ----------
    trace : ndarray, shape (n_cells,)
        Sum over clusters of b - v^2.
    b, v : sparse array, shape (n_clusters, n_cells)
        As there.
    """

    trace: FloatArray
    b: Matrix
    v: Matrix

    def dof(self, contrasts: Matrix) -> FloatArray:
        """Satterthwaite degrees of freedom, one for each row of `contrasts` (m, n_cells)."""
        rows = compressed(contrasts)
        squares, v, v2 = rows.multiply(rows).tocsr(), self.v.tocsc(), self.v.multiply(self.v).tocsr()
        variance = np.empty(squares.shape[0])
        for first in range(0, variance.size, ROWS_PER_BLOCK):
            part = squares[first : first + ROWS_PER_BLOCK]
            of_b, of_v = dense(part @ self.b.T), dense(part @ v2.T)
            variance[first : first + ROWS_PER_BLOCK] = np.sum(of_b**2 - 2 * of_b * of_v, axis=1)
        for row in range(variance.size):
            entries = slice(squares.indptr[row], squares.indptr[row + 1])
            variance[row] += _squared_products(v[:, squares.indices[entries]], squares.data[entries])
        return ratio(np.asarray(squares @ self.trace) ** 2, variance)

    def hotelling(self, contrasts: FloatArray) -> float:
        """eta of the approximate Hotelling test of `contrasts` (q, n_cells), PT 2018 section 3.2."""
        return _hotelling(contrasts, self.trace, self.columns)

    @property
    def diagonal(self) -> FloatArray:
        """Of the spread, shape (n_cells,)."""
        v2 = self.v.multiply(self.v)
        of_b = self.b.multiply(self.b - 2 * v2).sum(axis=0)
        return np.asarray(of_b + np.asarray(v2.sum(axis=0)) ** 2, dtype=np.float64).ravel()

    def columns(self, part: slice) -> FloatArray:
        """Some columns of the spread, shape (n_cells, n_columns)."""
        b, v, v2 = self._factors
        both = b.T @ (b[:, part] - v2[:, part]) - v2.T @ b[:, part]
        return both + (v.T @ v[:, part]) ** 2

    @cached_property
    def _factors(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        # Clusters that many cells share hold most of them.
        b, v = dense(self.b), dense(self.v)
        return b, v, v**2

    def times(self, matrix: Matrix) -> FloatArray:
        """The spread times a sparse array, shape (n_cells, m)."""
        result = np.zeros(matrix.shape)
        by_row = compressed(matrix)
        for first in range(0, result.shape[0], COLUMNS_PER_BLOCK):
            part = slice(first, first + COLUMNS_PER_BLOCK)
            result += self.columns(part) @ by_row[part]
        return result


@dataclass(frozen=True, eq=False)
class Projected:
    """Leverages of cells as contrasts of them see them, from which all combinations of two contrasts follow.

    Parameters
    ----------
    contrasts : sparse array, shape (n_contrasts, n_cells)
        A.
    spread : ndarray, shape (n_cells, n_contrasts)
        The spread times the squares of A.
    own : ndarray, shape (n_contrasts, n_contrasts)
        The squares of A times that.
    trace : ndarray, shape (n_contrasts,)
        The squares of A times the trace.
    cell_trace, cell_spread : ndarray, shape (n_cells,)
        The trace, and the diagonal of the spread.
    """

    contrasts: Matrix
    spread: FloatArray
    own: FloatArray
    trace: FloatArray
    cell_trace: FloatArray
    cell_spread: FloatArray

    def dof(self, combinations: FloatArray) -> FloatArray | None:
        """Satterthwaite degrees of freedom of combinations of two contrasts each, such as all differences of a board.

        The squares of c A_a + d A_b are c^2 A_a^2 + d^2 A_b^2 and a product where both have an entry: the pair of the
        two models. None where some two contrasts share several cells.
        """
        there = combinations != 0
        row, i = np.arange(there.shape[0]), np.argmax(there, axis=1)
        j = there.shape[1] - 1 - np.argmax(there[:, ::-1], axis=1)
        c, d = combinations[row, i], np.where(j > i, combinations[row, j], 0.0)
        both = compressed(self.contrasts[i].multiply(self.contrasts[j]).tocsr() * (2 * c * d)[:, None])
        both.eliminate_zeros()
        if np.max(np.diff(both.indptr), initial=0) > 1:
            return None
        own = self.own
        variance = c**4 * own[i, i] + d**4 * own[j, j] + 2 * c**2 * d**2 * own[i, j]
        expected = c**2 * self.trace[i] + d**2 * self.trace[j]
        shared = np.flatnonzero(np.diff(both.indptr))
        cell, x = both.indices, both.data
        i, j, c, d = i[shared], j[shared], c[shared], d[shared]
        variance[shared] += 2 * x * (c**2 * self.spread[cell, i] + d**2 * self.spread[cell, j])
        variance[shared] += x**2 * self.cell_spread[cell]
        expected[shared] += x * self.cell_trace[cell]
        return ratio(expected**2, variance)


def project(leverage: CellLeverage | FactoredLeverage, contrasts: Matrix) -> Projected:
    """Leverages of cells as contrasts of them see them.

    Parameters
    ----------
    leverage : CellLeverage or FactoredLeverage
        Of the cells.
    contrasts : sparse array, shape (n_contrasts, n_cells)
        A.

    Returns
    -------
    Projected
        The spread is multiplied by the squares of the contrasts once, not by those of every combination.

    Examples
    --------
    >>> share = sparse.csr_array(np.full((6, 2), 1 / 6))
    >>> leverage = cell_leverage(share, np.array([60.0, 60.0]), 0.5)
    >>> project(leverage, sparse.eye_array(2, format="csr")).dof(np.array([[1.0, -1.0]])).round(9).tolist()
    [5.0]
    """
    A = compressed(contrasts)
    Q = A.multiply(A).tocsr()
    spread = leverage.times(Q.T.tocsc())
    trace = np.asarray(Q @ leverage.trace)
    return Projected(A, spread, np.asarray(Q @ spread), trace, leverage.trace, leverage.diagonal)


def _squared_products(v: Matrix, x: FloatArray) -> float:
    """Sum over pairs of cells of x_k x_l (v_k'v_l)^2, for x >= 0, by the smaller of the two products of v."""
    scaled = dense(v) * np.sqrt(x)
    product = scaled @ scaled.T if scaled.shape[0] < scaled.shape[1] else scaled.T @ scaled
    return float(np.vdot(product, product))


def _hotelling(contrasts: FloatArray, trace: FloatArray, spread: Callable[[slice], FloatArray]) -> float:
    """eta of the approximate Hotelling test, from some columns of the spread at a time."""
    scaled = whiten(contrasts, (contrasts * trace) @ contrasts.T)
    own, variance = np.sum(scaled**2, axis=0), 0.0
    for first in range(0, own.size, COLUMNS_PER_BLOCK):
        columns = slice(first, first + COLUMNS_PER_BLOCK)
        products = scaled.T @ scaled[:, columns]
        variance += float(np.sum((np.outer(own, own[columns]) + products**2) * spread(columns)))
    q = contrasts.shape[0]
    return float(q * (q + 1) / variance)


def _row_forms(rows: Matrix, matrix: Matrix) -> FloatArray:
    """x'Mx of each row of a sparse array."""
    return np.asarray(rows.multiply(rows @ matrix).sum(axis=1)).ravel()


@dataclass(frozen=True, eq=False)
class CellTerms:
    """What the leverages of each cell say of its own mean.

    Parameters
    ----------
    expected, variance : ndarray, shape (n_cells,)
        Of the squared totals under the working model; Satterthwaite's degrees of freedom are their ratio.
    n_clusters : ndarray, shape (n_cells,)
        Clusters that a cell occurs in.
    """

    expected: FloatArray
    variance: FloatArray
    n_clusters: FloatArray

    def dof(self) -> FloatArray:
        """Satterthwaite degrees of freedom of each cell's mean, shape (n_cells,)."""
        return ratio(self.expected**2, self.variance)


def cell_terms(leverage: Matrix, weight: FloatArray, power: float) -> CellTerms:
    """What `cell_leverage` gives for the cells one by one, without their covariances.

    Parameters
    ----------
    leverage : sparse array, shape (n_clusters, n_cells)
        h.
    weight : ndarray, shape (n_cells,)
        n_k, the weight of each cell.
    power : float
        p of the adjustment.

    Returns
    -------
    CellTerms
        One entry a cell.

    Examples
    --------
    >>> share = sparse.csr_array(np.full((6, 1), 1 / 6))
    >>> cell_terms(share, np.array([60.0]), 0.5).dof().round(9).tolist()
    [5.0]
    """
    scale, cell, n = cell_scale(leverage, power).data, leverage.indices, weight.size
    b = scale**2 * leverage.data / weight[cell]
    v2 = scale**2 * leverage.data**2 / weight[cell]
    squares = _per_cell(cell, v2, n)
    variance = _per_cell(cell, b**2 - 2 * b * v2, n) + squares**2
    return CellTerms(_per_cell(cell, b, n) - squares, variance, _per_cell(cell, np.ones(cell.size), n))


def _per_cell(cell: IntArray, values: FloatArray, n_cells: int) -> FloatArray:
    return np.asarray(np.bincount(cell, values, n_cells), dtype=np.float64)


def cell_leverage(
    leverage: Matrix | list[Matrix], weight: FloatArray, power: float, single_totals: bool = False
) -> CellLeverage | FactoredLeverage:
    """Sums over clusters that give the Satterthwaite degrees of freedom of cells.

    Parameters
    ----------
    leverage : sparse array, shape (n_clusters, n_cells), or list of them
        h, in one or in blocks of clusters.
    weight : ndarray, shape (n_cells,)
        n_k, the weight of each cell.
    power : float
        p of the adjustment.
    single_totals : bool
        Whether totals of cells of leverage 1 were centred by something that does not come from their own rows, so
        that they count as unadjusted and uncentred instead of not at all.

    Returns
    -------
    CellLeverage or FactoredLeverage
        The first has a size that does not depend on the number of clusters; the second is for very many cells.

    References
    ----------
    Bell and McCaffrey (2002); Pustejovsky and Tipton (2018), JBES 36(4), eq. 11; the working model is identity.

    Examples
    --------
    Equal clusters give G - 1:

    >>> share = sparse.csr_array(np.full((6, 1), 1 / 6))
    >>> cell_leverage(share, np.array([60.0]), 0.5).dof(np.eye(1)).round(9).tolist()
    [5.0]
    """
    blocks = leverage if isinstance(leverage, list) else [leverage]
    if weight.size > MOST_CELLS:
        return _many_cells(sparse.vstack(blocks).tocsr(), weight, power, single_totals)
    trace, squares, products = (
        sum(part) for part in zip(*(_leverage_sums(b, weight, power, single_totals) for b in blocks), strict=True)
    )
    return CellLeverage(trace=trace, spread=squares + products**2)


def _many_cells(
    leverage: Matrix, weight: FloatArray, power: float, single_totals: bool
) -> CellLeverage | FactoredLeverage:
    """A sparse spread where few pairs of cells share a cluster; its factors where many do."""
    b, v = _entries(leverage, weight, power, single_totals)
    v2 = v.multiply(v).tocsr()
    trace = np.asarray(b.sum(axis=0) - v2.sum(axis=0)).ravel()
    shared = float(np.sum(np.diff(leverage.indptr).astype(float) ** 2))
    if shared > MOST_CELLS**2:
        return FactoredLeverage(trace, b, v)
    cross, products = b.T @ v2, v.T @ v
    return CellLeverage(trace, (b.T @ b - cross - cross.T + products.multiply(products)).tocsr())


def _entries(leverage: Matrix, weight: FloatArray, power: float, single_totals: bool) -> tuple[Matrix, Matrix]:
    """The b and v of every cluster and cell, shape (n_clusters, n_cells)."""
    scale = cell_scale(leverage, power).data

    def like(data: FloatArray) -> Matrix:
        return sparse.csr_array((data, leverage.indices, leverage.indptr), shape=leverage.shape)

    full = (scale == 0) & single_totals
    b = like(np.where(full, 1.0, scale**2) * leverage.data / weight[leverage.indices])
    return b, like(scale * leverage.data / np.sqrt(weight[leverage.indices]))


LeverageSums: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]
"""Sums over some clusters: b - v^2, the squares bb' - b(v^2)' - (v^2)b', and the products vv'."""


def _leverage_sums(leverage: Matrix, weight: FloatArray, power: float, single_totals: bool) -> LeverageSums:
    if mostly_there(leverage):
        return _dense_leverage_sums(leverage, weight, power, single_totals)
    b, v = _entries(leverage, weight, power, single_totals)
    v2 = v.multiply(v).tocsr()
    cross = (b.T @ v2).toarray()
    trace = np.asarray(b.sum(axis=0) - v2.sum(axis=0)).ravel()
    return trace, (b.T @ b).toarray() - cross - cross.T, (v.T @ v).toarray()


def _dense_leverage_sums(leverage: Matrix, weight: FloatArray, power: float, single_totals: bool) -> LeverageSums:
    # Many cells share their leverages: those of all pairs of models that answered the same questions, say.
    first, cell = distinct_columns(np.vstack([dense(leverage), weight]))
    trace, squares, products = np.zeros(first.size), np.zeros((first.size,) * 2), np.zeros((first.size,) * 2)
    n_block = max(BLOCK_ENTRIES // first.size, 1)
    for start in range(0, leverage.shape[0], n_block):
        h = dense(leverage[start : start + n_block])[:, first]
        scale = power_scale(h, power)
        b = np.where((scale == 0) & single_totals, 1.0, scale**2) * h / weight[first]
        v = scale * h / np.sqrt(weight[first])
        v2 = v**2
        cross = b.T @ v2
        trace += (b - v2).sum(axis=0)
        squares += b.T @ b - cross - cross.T
        products += v.T @ v
    both = np.ix_(cell, cell)
    return trace[cell], squares[both], products[both]


def distinct_columns(matrix: FloatArray) -> tuple[IntArray, IntArray]:
    """First of each set of equal columns, and for each column the place of its equal among them.

    Parameters
    ----------
    matrix : ndarray, shape (n, k)
        Finite numbers.

    Returns
    -------
    first : ndarray of int, shape (n_distinct,)
        Columns.
    place : ndarray of int, shape (k,)
        ``matrix[:, first][:, place]`` is the matrix.

    Examples
    --------
    >>> matrix = np.array([[1.0, 2.0, 1.0], [3.0, 4.0, 3.0]])
    >>> first, place = distinct_columns(matrix)
    >>> matrix[:, first].shape, bool(np.all(matrix[:, first][:, place] == matrix))
    ((2, 2), True)
    """
    every = np.arange(matrix.shape[1])
    if every.size == 1:
        return every, every
    bits = np.ascontiguousarray(matrix).view(np.uint64)
    # Any odd multipliers do: whole-number sums are the same for equal columns in whatever order they are formed.
    odd = np.arange(bits.shape[0], dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) | np.uint64(1)
    _, first, place = np.unique(odd @ bits, return_index=True, return_inverse=True)
    # Unequal columns of the same sum are as good as impossible, and found.
    return (first, place) if np.array_equal(matrix[:, first][:, place], matrix) else (every, every)
