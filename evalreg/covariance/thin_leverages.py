"""Leverages of clusters whose rows hold few entries, as one or two pairs of many models: products of entries alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from evalreg.checks import FloatArray, IntArray
from evalreg.numerics.matrices import Matrix, row_products, scale_rows
from evalreg.scores.sums import NarrowClusters

# Entries in a cluster, times that, up to as many as there are columns: a product of two entries of the design takes
# some fifty times as long as one in a product of matrices, and there are half the square of the entries of them.
ENTRIES_TO_COLUMNS = 10
# Clusters for each column, from which on turning the sums is worth it: that takes as long as the products of some four.
CLUSTERS_TO_COLUMNS = 8
# Condition number of the root up to which turned sums lose no more than six of sixteen digits, and mostly none.
LARGEST_CONDITION = 1e3
# Pairs of rows, and products of these for several contrasts, that are held at a time.
PAIRS = 1 << 17
HELD = 1 << 20

Forms: TypeAlias = tuple[slice, FloatArray, FloatArray]
"""Some of the contrasts, and of some clusters d_g and u_g'u_g of them, (n_clusters, n_contrasts)."""


def well_conditioned(root: FloatArray) -> bool:
    """Whether sums of products of entries keep their digits when they are turned by R; units do not matter."""
    return bool(np.linalg.cond(root / np.linalg.norm(root, axis=1)[:, None]) < LARGEST_CONDITION)


def is_thin(clusters: NarrowClusters, size: int) -> bool:
    """Whether clusters of so many rows have few entries beside the columns."""
    if clusters.entries is None:
        return False
    rows = clusters.entries.rows
    return bool(ENTRIES_TO_COLUMNS * size * int(np.diff(rows.indptr).max(initial=0)) <= rows.shape[1])


@dataclass(frozen=True, eq=False)
class ThinClusters:
    """Clusters whose rows have few entries.

    Parameters
    ----------
    rows : sparse array, shape (n_rows, k)
        X_g, cluster by cluster.
    parts : tuple of (ndarray, ndarray), both of shape (n_clusters, n, n)
        (I - K_g)^-p and K_g = X_g M X_g' of the clusters in the same order, of one size each.
    """

    rows: Matrix
    parts: tuple[tuple[FloatArray, FloatArray], ...]

    def forms(self, mapped: FloatArray, sums: FloatArray) -> Iterator[Forms]:
        """Of contrasts as MC', shape (k, m); half of the sums of X_g'ww'X_g are added to `sums` (k * k, m).

        With w = (I - K_g)^-p X_g M c the u_g of a contrast is R'X_g'w, so that d_g is w'w and u_g'u_g is w'K_g w, and
        the sum of the u_g u_g' is R'SR, S that of the X_g'ww'X_g. A pair of rows adds w_r w_s x_r x_s' to it and the
        transpose of that, a row with itself half of each.
        """
        first, second = self._pairs()
        share = np.where(first == second, 0.5, 1.0)
        pairs = scale_rows(row_products(self.rows[first], self.rows[second]), share).T
        width = max(HELD // first.size, 1)
        for begin in range(0, mapped.shape[1], width):
            some = slice(begin, begin + width)
            w, d, uu = (np.concatenate(own) for own in zip(*self._totals(mapped[:, some]), strict=True))
            sums[:, some] += pairs @ (w[first] * w[second])
            yield some, d, uu

    def _totals(self, mapped: FloatArray) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
        """w, w'w and w'K_g w of the clusters of each part."""
        own, before = np.asarray(self.rows @ mapped), 0
        for adjustment, products in self.parts:
            n_clusters, size = adjustment.shape[:2]
            after = before + n_clusters * size
            w = adjustment @ own[before:after].reshape(n_clusters, size, -1)
            norms = np.einsum("gnm,gnm->gm", w, w), np.einsum("gnm,gnm->gm", w, products @ w)
            yield w.reshape(n_clusters * size, -1), *norms
            before = after

    def _pairs(self) -> tuple[IntArray, IntArray]:
        """The rows of each pair within a cluster, each row with itself too."""
        found, before = list[IntArray](), 0
        for adjustment, _ in self.parts:
            n_clusters, size = adjustment.shape[:2]
            starts = before + size * np.arange(n_clusters)
            found.append((starts[:, None] + np.array(np.triu_indices(size))[:, None]).reshape(2, -1))
            before += n_clusters * size
        first, second = np.concatenate(found, axis=1)
        return first, second


def thin_clusters(rows: Matrix, alike: Iterable[tuple[IntArray, FloatArray, FloatArray]]) -> list[ThinClusters]:
    """Clusters in a few pieces, of some of one size at a time: their rows, (n_clusters, n), and what `parts` hold."""
    pieces, n_pairs = list[list[tuple[IntArray, FloatArray, FloatArray]]](), PAIRS
    for one in alike:
        n_clusters, size = one[0].shape
        own = n_clusters * size * (size + 1) // 2
        if n_pairs + own > PAIRS:
            pieces.append([])
            n_pairs = 0
        n_pairs += own
        pieces[-1].append(one)
    members = (np.concatenate([one[0].ravel() for one in piece]) for piece in pieces)
    return [ThinClusters(rows[of], tuple(one[1:] for one in piece)) for of, piece in zip(members, pieces, strict=True)]
