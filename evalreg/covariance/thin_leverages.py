"""Leverages of clusters whose rows hold few entries, as one or two pairs of many models: products of entries alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from evalreg.checks import FloatArray, IntArray
from evalreg.numerics.matrices import Matrix, compressed, row_products, scale_rows

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


def is_thin(design: Matrix, size: int) -> bool:
    """Whether clusters of so many rows have few entries beside the columns."""
    if isinstance(design, np.ndarray):
        return False
    most = int(np.diff(compressed(design).indptr).max(initial=0))
    return bool(ENTRIES_TO_COLUMNS * size * most <= design.shape[1])


@dataclass(frozen=True, eq=False)
class ThinClusters:
    """Clusters of as many rows each.

    Parameters
    ----------
    rows : sparse array, shape (n_clusters * n, k)
        X_g, cluster by cluster.
    adjustment, products : ndarray, shape (n_clusters, n, n)
        (I - K_g)^-p and K_g = X_g M X_g'.
    """

    rows: Matrix
    adjustment: FloatArray
    products: FloatArray

    def forms(self, mapped: FloatArray, sums: FloatArray) -> Iterator[Forms]:
        """Of contrasts as MC', shape (k, m); half of the sums of X_g'ww'X_g are added to `sums` (m, k, k).

        With w = (I - K_g)^-p X_g M c the u_g of a contrast is R'X_g'w, so that d_g is w'w and u_g'u_g is w'K_g w, and
        the sum of the u_g u_g' is R'SR, S that of the X_g'ww'X_g. A pair of rows adds w_r w_s x_r x_s' to it and the
        transpose of that, a row with itself half of each.
        """
        n_clusters, size = self.adjustment.shape[:2]
        step = max(PAIRS // (size * (size + 1) // 2), 1)
        for first in range(0, n_clusters, step):
            some, of = slice(first, first + step), slice(first * size, (first + step) * size)
            yield from _forms(self.rows[of], self.adjustment[some], self.products[some], mapped, sums)


def _forms(
    rows: Matrix, adjustment: FloatArray, products: FloatArray, mapped: FloatArray, sums: FloatArray
) -> Iterator[Forms]:
    """The same of some of the clusters."""
    n_clusters, size = adjustment.shape[:2]
    i, j = np.triu_indices(size)
    first, second = (np.add.outer(size * np.arange(n_clusters), of).ravel() for of in (i, j))
    share = np.tile(np.where(i == j, 0.5, 1.0), n_clusters)
    pairs = scale_rows(row_products(rows[first], rows[second]), share).T
    width = max(HELD // first.size, 1)
    for begin in range(0, mapped.shape[1], width):
        some = slice(begin, begin + width)
        w = adjustment @ np.asarray(rows @ mapped[:, some]).reshape(n_clusters, size, -1)
        flat = w.reshape(n_clusters * size, -1)
        sums[some] += (pairs @ (flat[first] * flat[second])).T.reshape(-1, *sums.shape[1:])
        yield some, np.einsum("gnm,gnm->gm", w, w), np.einsum("gnm,gnm->gm", w, products @ w)


def thin_clusters(design: Matrix, parts: list[tuple[IntArray, FloatArray, FloatArray]]) -> ThinClusters:
    """Clusters of one size in one piece, of their rows, adjustments and products."""
    members, adjustment, products = (np.concatenate(own) for own in zip(*parts, strict=True))
    return ThinClusters(compressed(design[members.ravel()]), adjustment, products)
