"""Sums by (cluster, cell) that came out of an engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray
from evalreg.numerics.matrices import Matrix
from evalreg.scores.sums import Block


@dataclass(frozen=True, eq=False)
class Held:
    """Sums by (cluster, cell) of some whole clusters, entry by entry.

    `totals` are those of values times 1 and each part, shape (n_entries, K), `weights` those of the products of these,
    shape (n_entries, K (K + 1) / 2), both in the order of `where`, a sparse array of shape (n_clusters, n_cells).
    `rooted`, where asked for: rows, and sums of roots of weights times the value, 1 and each part.
    """

    where: Matrix
    totals: FloatArray
    weights: FloatArray
    rooted: FloatArray | None = None

    def about(self, fitted: FloatArray) -> Block:
        """Sums of residuals, those of a cell side by side; both have the same entries."""
        cell, K = self.where.indices, self.totals.shape[1]
        if K == 1:
            residual = self.totals[:, 0] - self.weights[:, 0] * fitted.ravel()[cell]
            like = cell, self.where.indptr
            return Block(*(sparse.csr_array((one, *like), self.where.shape) for one in (residual, self.weights[:, 0])))
        place, of = product_places(K), fitted[cell]
        residual = np.column_stack(
            [self.totals[:, u] - sum(self.weights[:, place[u, v]] * of[:, v] for v in range(K)) for u in range(K)]
        )
        return Block(self._spread(residual), self._spread(self.weights))

    def _spread(self, numbers: FloatArray) -> Matrix:
        """Several numbers for each entry, in columns side by side."""
        each = numbers.shape[1]
        columns = (self.where.indices[:, None].astype(np.int64) * each + np.arange(each)).ravel()
        shape = self.where.shape[0], self.where.shape[1] * each
        return sparse.csr_array((numbers.ravel(), columns, self.where.indptr.astype(np.int64) * each), shape)

    def residuals(self, fitted: FloatArray) -> FloatArray:
        """Rows of each cluster, and sums of residuals times the roots of the weights, shape (2, n_clusters)."""
        cell, K = self.where.indices, self.totals.shape[1]
        if self.rooted is None:
            # Of rows without weights.
            rows, total, of = self.weights[:, 0], self.totals[:, 0], self.weights[:, :K]
        else:
            rows, total, of = self.rooted[:, 0], self.rooted[:, 1], self.rooted[:, 2:]
        left = total - np.einsum("ei,ei->e", of, fitted.reshape(-1, K)[cell])
        of_cluster = np.repeat(np.arange(self.where.shape[0]), np.diff(self.where.indptr))
        return np.array([np.bincount(of_cluster, one, self.where.shape[0]) for one in (rows, left)])

    def by_cell(self) -> tuple[FloatArray, FloatArray]:
        """Totals and weights of each cell."""
        cell, n_cells = self.where.indices, self.where.shape[1]

        def summed(numbers: FloatArray) -> FloatArray:
            return np.column_stack([np.bincount(cell, column, n_cells) for column in numbers.T])

        return summed(self.totals), summed(self.weights)


def product_places(n: int) -> IntArray:
    """Place of the product of u and v among those with u <= v, shape (n, n)."""
    place = np.zeros((n, n), dtype=np.intp)
    upper = np.triu_indices(n)
    place[upper] = np.arange(upper[0].size)
    return np.maximum(place, place.T)


@dataclass(frozen=True, eq=False)
class Entries:
    """Sums by (cluster, cell) as they came out of an engine; a pair of models occurs once for either order.

    `weights`, `totals` and `rooted` are those of `Held`.
    """

    labels: list[str]
    cluster: IntArray
    cell: IntArray
    rows: FloatArray
    weights: FloatArray
    totals: FloatArray
    rooted: FloatArray | None = None

    @property
    def weight(self) -> FloatArray:
        """Weight of each entry."""
        return self.weights[:, 0]

    def by_cell(self, n_cells: int) -> FloatArray:
        """Rows and sums of values of each cell, shape (2, n_cells)."""
        return np.array([np.bincount(self.cell, one, n_cells) for one in (self.rows, self.totals[:, 0])])

    def block(self, n_cells: int) -> Held:
        """The same in rows of clusters."""
        shape = len(self.labels), n_cells
        width: Any = np.int32 if max(*shape, self.cell.size) < 2**31 else np.int64
        where = self.cluster.astype(width), self.cell.astype(width)
        given = [self.totals, self.weights] + ([] if self.rooted is None else [self.rooted])
        made = [[sparse.coo_array((one, where), shape).tocsr() for one in numbers.T] for numbers in given]
        return Held(made[0][0], *(np.column_stack([one.data for one in numbers]) for numbers in made))


@dataclass(frozen=True, eq=False)
class Clustering:
    """What is kept of a clustering that was asked for."""

    labels: list[str]
    sizes: FloatArray
    n_entries: int
    # Conditions on rows, which put whole clusters into parts; None is all.
    ranges: tuple[nw.Expr | None, ...]
    # None where there are too many.
    held: tuple[Held, ...] | None
