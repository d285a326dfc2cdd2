"""Symmetric matrices that have few of many columns, one for each cluster: the others left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from evalreg.checks import FloatArray, IntArray
from evalreg.numerics.matrices import Matrix, compressed, with_entries


@dataclass(frozen=True, eq=False)
class Touched:
    """Columns of a design that the rows of each cluster touch, cluster by cluster, in order.

    Parameters
    ----------
    cluster, column : ndarray of int, shape (n_touched,)
        One pair for each.
    starts : ndarray of int, shape (n_clusters + 1,)
        Where each cluster begins.
    n_columns : int
        Of the design.
    """

    cluster: IntArray
    column: IntArray
    starts: IntArray
    n_columns: int

    @classmethod
    def of(cls, members: Matrix, design: Matrix) -> Touched:
        """Those of clusters whose cells are stored in `members`, (n_clusters, n_cells); design (n_cells, n_columns)."""
        cells, columns = (with_entries(rows := compressed(own), np.ones(rows.nnz)) for own in (members, design))
        there = compressed(cells @ columns)
        there.sort_indices()
        cluster = np.repeat(np.arange(there.shape[0]), np.diff(there.indptr))
        return cls(cluster, there.indices.astype(np.int64), there.indptr.astype(np.int64), there.shape[1])

    def place(self, cluster: IntArray, column: IntArray) -> IntArray:
        """Where columns of clusters are in the list, which holds them all."""
        listed = self.cluster * self.n_columns + self.column
        return np.searchsorted(listed, cluster.astype(np.int64) * self.n_columns + column)

    def packed(self, flat: Matrix, n_entries: int) -> Iterator[tuple[IntArray, FloatArray]]:
        """Matrices of some clusters that touch as many columns each: their places (m, k), and the entries (m, k, k).

        `flat` holds a matrix a row, shape (n_clusters, n_columns ** 2); about `n_entries` are given at a time.
        Clusters that touch none have no matrix.
        """
        sizes = np.diff(self.starts)
        order = np.argsort(sizes, kind="stable")
        edges = np.flatnonzero(np.diff(sizes[order], prepend=-1, append=-1))
        for low, high in pairwise(edges):
            k = int(sizes[order[low]])
            if not k:
                continue
            step = max(n_entries // (k * k), 1)
            for begin in range(low, high, step):
                some = order[begin : min(begin + step, high)]
                yield self.starts[some][:, None] + np.arange(k), self._entries(compressed(flat[some]), some, k)

    def _entries(self, flat: Matrix, clusters: IntArray, k: int) -> FloatArray:
        """Matrices of clusters that touch k columns each, shape (m, k, k)."""
        own = np.repeat(np.arange(clusters.size), np.diff(flat.indptr))
        begin, cluster = self.starts[clusters][own], clusters[own]
        row, column = (self.place(cluster, one) - begin for one in np.divmod(flat.indices, self.n_columns))
        entries = np.bincount((own * k + row) * k + column, flat.data, clusters.size * k * k)
        return np.asarray(entries.reshape(clusters.size, k, k), dtype=np.float64)
