"""What leverages of cells, summed over clusters, say about contrasts: dof and the approximate Hotelling test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, held_property
from evalreg.covariance.dof import quadratic, ratio, whiten
from evalreg.numerics.matrices import Matrix, compressed, dense

# Contrasts handled at a time, so that (contrasts, cells) arrays stay small.
ROWS_PER_BLOCK = 512
# Clusters times contrasts over cells, up to which a product is made from pairs of clusters and not from pairs of cells.
FEW_CLUSTERS = 3
# Columns of the (cells, cells) array that are held at a time.
COLUMNS_PER_BLOCK = 256


@dataclass(frozen=True, eq=False)
class CellLeverage:
    """What Satterthwaite needs of the leverages of cells, summed over clusters.

    With a = (1 - h)^-p, b_gk = a^2 N_gk / n_k^2 and v_gk = a N_gk / n_k^(3/2) (PT 2018 for a saturated regression), the
    totals of a contrast c have expected squares trace' c^2 and, summed over pairs of clusters, squared covariances
    (c^2)' spread (c^2).
    """

    trace: FloatArray  # (n_cells,): sum over clusters of b - v^2
    # (n_cells, n_cells): sum over g of b b' - b (v^2)' - (v^2) b', plus the squared elements of sum over g of v v'
    spread: Matrix

    def dof(self, contrasts: Matrix) -> FloatArray:
        """Satterthwaite degrees of freedom, one for each row of `contrasts` (m, n_cells)."""
        if sparse.issparse(contrasts) and not sparse.issparse(self.spread):
            few = compressed(contrasts)
            if np.all(np.diff(few.indptr) == 2):
                squares = few.multiply(few).tocsr()
                return ratio(np.asarray(squares @ self.trace) ** 2, quadratic(squares, self.spread))
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
    """The same as `CellLeverage` where its `spread` would be too large to hold: from b and v of the clusters."""

    trace: FloatArray  # (n_cells,): sum over clusters of b - v^2
    # (n_clusters, n_cells): as in `CellLeverage`, before they are summed
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

    @held_property
    def _factors(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        # Clusters that many cells share hold most of them.
        b, v = dense(self.b), dense(self.v)
        return b, v, v**2

    def times(self, matrix: Matrix) -> FloatArray:
        """The spread times a sparse array, shape (n_cells, m)."""
        if self.v.shape[0] * matrix.shape[1] < FEW_CLUSTERS * matrix.shape[0]:
            return self._times_by_clusters(compressed(matrix))
        result = np.zeros(matrix.shape)
        by_row = compressed(matrix)
        for first in range(0, result.shape[0], COLUMNS_PER_BLOCK):
            part = slice(first, first + COLUMNS_PER_BLOCK)
            result += self.columns(part) @ by_row[part]
        return result

    def _times_by_clusters(self, matrix: Matrix) -> FloatArray:
        """The same from few clusters and pairs of clusters g, h, since (v'v)^2 is the sum of (v_g v_h)(v_g v_h)'."""
        b, v, v2 = self._factors
        result = np.asarray(b.T @ ((b - v2) @ matrix) - v2.T @ (b @ matrix))
        for g, own in enumerate(v):
            both = own * v[g:]
            both[1:] *= np.sqrt(2.0)  # g, h and h, g
            result += both.T @ (both @ matrix)
        return result


@dataclass(frozen=True, eq=False)
class Projected:
    """Leverages of cells as contrasts of them see them, from which all combinations of two contrasts follow."""

    contrasts: Matrix  # (n_contrasts, n_cells): A
    spread: FloatArray  # (n_cells, n_contrasts): the spread times the squares of A
    own: FloatArray  # (n_contrasts, n_contrasts): the squares of A times that
    trace: FloatArray  # (n_contrasts,): the squares of A times the trace
    # (n_cells,): the trace, and the diagonal of the spread
    cell_trace: FloatArray
    cell_spread: FloatArray

    def dof(self, combinations: Matrix) -> FloatArray | None:
        """Satterthwaite degrees of freedom of combinations of two contrasts each, such as all differences of a board.

        The squares of c A_a + d A_b are c^2 A_a^2 + d^2 A_b^2 and a product where both have an entry: the pair of the
        two models. None where some two contrasts share several cells.
        """
        rows = compressed(combinations)
        first, last = rows.indptr[:-1], rows.indptr[1:] - 1
        i, j = rows.indices[first], rows.indices[last]
        c, d = rows.data[first], np.where(j > i, rows.data[last], 0.0)
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
    """Leverages of cells as contrasts A, shape (n_contrasts, n_cells), see them.

    The spread is multiplied by the squares of the contrasts once, not by those of every combination.
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
    """What the leverages of each cell say about its own mean."""

    # (n_cells,): of the squared totals under the working model; Satterthwaite's degrees of freedom are their ratio
    expected: FloatArray
    variance: FloatArray
    n_clusters: FloatArray  # (n_cells,): clusters that a cell occurs in

    def dof(self) -> FloatArray:
        """Satterthwaite degrees of freedom of each cell's mean, shape (n_cells,)."""
        return ratio(self.expected**2, self.variance)
