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
    """Sums of values and weights by (cluster, cell) of some whole clusters, shape (n_clusters, n_cells)."""

    totals: Matrix
    weights: Matrix

    def about(self, fitted: FloatArray) -> Block:
        """Sums of residuals; both have the same entries."""
        residual = self.totals.data - self.weights.data * fitted[self.totals.indices]
        like = self.totals.indices, self.totals.indptr
        return Block(sparse.csr_array((residual, *like), shape=self.totals.shape), self.weights)


@dataclass(frozen=True, eq=False)
class Entries:
    """Sums by (cluster, cell) as they came out of an engine; a pair of models occurs once for either order."""

    labels: list[str]
    cluster: IntArray
    cell: IntArray
    rows: FloatArray
    weight: FloatArray
    total: FloatArray

    def by_cell(self, n_cells: int) -> FloatArray:
        """Rows and sums of values of each cell, shape (2, n_cells)."""
        return np.array([np.bincount(self.cell, one, n_cells) for one in (self.rows, self.total)])

    def block(self, n_cells: int) -> Held:
        """The same in rows of clusters."""
        shape = len(self.labels), n_cells
        width: Any = np.int32 if max(*shape, self.cell.size) < 2**31 else np.int64
        where = self.cluster.astype(width), self.cell.astype(width)
        totals, weights = (sparse.coo_array((one, where), shape).tocsr() for one in (self.total, self.weight))
        return Held(totals, weights)


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
