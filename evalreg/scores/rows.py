"""Scores of a model fitted row by row, a number times the row of a design, and their sums within clusters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.data.clusters import Axis, Labels
from evalreg.numerics.matrices import Matrix, dense, in_rows, is_identity, sum_blocks
from evalreg.scores.base import Scores
from evalreg.scores.labelled import LabelledScores
from evalreg.scores.sums import Block, NarrowClusters

# Entries of the design, or of X_g'W X_g of clusters, that are made at a time.
ENTRIES_PER_BLOCK = 1 << 20
# From so many columns on, a product for each cluster costs less than a pass over all rows for each pair of columns.
MANY_COLUMNS = 16


@dataclass(frozen=True, eq=False)
class ClusterRows:
    """Rows of some whole clusters, one cluster after the other: Z with Z_g'Z_g = X_g'W X_g, and the clusters' totals.

    Parameters
    ----------
    first : int
        Number of the first cluster.
    design : ndarray, shape (n_rows, k)
        Z; rows of a cluster may be fewer than those of the data.
    totals : ndarray, shape (n_clusters, k)
        Sums of scores.
    starts : ndarray of int, shape (n_clusters + 1,)
        Where each cluster begins.
    """

    first: int
    design: FloatArray
    totals: FloatArray
    starts: IntArray

    @property
    def counts(self) -> IntArray:
        """Rows of each cluster."""
        return np.diff(self.starts)

    def grams(self) -> FloatArray:
        """X_g'W X_g, shape (n_clusters, k, k)."""
        design, k, n = self.design, self.design.shape[1], self.totals.shape[0]
        grams = np.empty((n, k, k))
        if k >= MANY_COLUMNS:
            for gram, (begin, end) in zip(grams, pairwise(self.starts), strict=True):
                np.matmul(design[begin:end].T, design[begin:end], out=gram)
            return grams
        columns, place = np.ascontiguousarray(design.T), np.repeat(np.arange(n), self.counts)
        for i in range(k):
            for j in range(i + 1):
                grams[:, i, j] = grams[:, j, i] = np.bincount(place, columns[i] * columns[j], n)
        return grams

    def parted(self) -> tuple[NarrowClusters | None, Iterator[Block]]:
        """Clusters of fewer rows than columns, if any, and those of as many or more."""
        few = self.counts < self.design.shape[1]
        if not few.any():
            return None, iter([Block(self.totals, self.grams())])
        order = np.flatnonzero(np.repeat(few, self.counts))
        starts, which = np.concatenate([[0], np.cumsum(self.counts[few])]), self.first + np.flatnonzero(few)
        narrow = NarrowClusters(self.design, self.totals[few], order, starts, which)
        return narrow, iter(() if few.all() else [self._wide(~few)])

    def _wide(self, wide: BoolArray) -> Block:
        starts = np.concatenate([[0], np.cumsum(self.counts[wide])])
        rows = ClusterRows(0, self.design[np.repeat(wide, self.counts)], self.totals[wide], starts)
        return Block(rows.totals, rows.grams())


class ByClusterRows(Scores):
    """Sums within clusters of a regression, from the rows of its clusters."""

    @abstractmethod
    def clusters(self, by: Axis) -> Iterator[ClusterRows]:
        """Rows of the clusters, some clusters at a time in their order."""

    def cells(self, by: Axis) -> Iterator[Block]:
        """Sums within clusters, with each cluster's X_g'W X_g."""
        return (Block(rows.totals, rows.grams()) for rows in self.clusters(by))

    def narrow(self, by: Axis) -> Iterator[tuple[NarrowClusters | None, Iterator[Block]]]:
        """Clusters of fewer rows than columns, where there are any, and blocks of the others."""
        return (rows.parted() for rows in self.clusters(by))

    def dominant(
        self, by: Axis | None, root: FloatArray, above: float
    ) -> Iterator[tuple[FloatArray, FloatArray | None]]:
        """Leverages of the clusters (or rows) that add up to more than that, and what maps their eigenvectors to L_g's.

        Z_g R has as many rows as the cluster, and Z_g R R'Z_g' the eigenvalues of L_g = R'Z_g'Z_g R: the smaller is
        taken. The leverages of all clusters add up to k, so that at most k / above are found.
        """
        if by is None:
            groups = self.rows_above(root, above)
        else:
            groups = (
                rows.design[rows.starts[g] : rows.starts[g + 1]] @ root
                for rows in self.clusters(by)
                for g in np.flatnonzero(_by_cluster(rows, root) > above)
            )
        for rows in groups:
            yield (rows @ rows.T, rows.T) if rows.shape[0] < rows.shape[1] else (rows.T @ rows, None)

    @abstractmethod
    def rows_above(self, root: FloatArray, above: float) -> Iterator[FloatArray]:
        """Rows of the data whose leverage is more than that, times the root, (1, k) each."""

    def leverage_sums(self, by: Axis, root: FloatArray) -> FloatArray | None:
        """Sum of the leverages of the rows of each cluster, shape (n_clusters,)."""
        return np.concatenate([_by_cluster(rows, root) for rows in self.clusters(by)])

    def gram_entries(self, by: Axis) -> int:
        """Entries of X_g'W X_g of the clusters that have as many rows as columns or more; at most n / k have."""
        return min(self.n_clusters(by) * self.n_columns, self.n_rows) * self.n_columns


class RegressionScores(LabelledScores, ByClusterRows):
    """Scores of a regression of rows in memory."""

    @abstractmethod
    def design_rows(self, rows: slice) -> FloatArray:
        """Some rows of the design times the square roots of their weights."""

    @abstractmethod
    def score_rows(self, rows: slice) -> FloatArray:
        """Scores of some rows in every column."""

    @property
    @abstractmethod
    def reach(self) -> FloatArray:
        """A bound of the size of the entries of the design in each column, its weights left out, shape (k,)."""

    @abstractmethod
    def turned(self, turn: FloatArray) -> RegressionScores:
        """The same in other columns, combinations `turn` of these, shape (k, m)."""

    def rows_above(self, root: FloatArray, above: float) -> Iterator[FloatArray]:
        """Rows whose leverage is more than that."""
        return (rows[[r]] @ root for rows in self._parts() for r in np.flatnonzero(_lengths(rows, root) > above))

    def row_influence(self, bread: Matrix) -> FloatArray:
        """Influence of each row, B's_r, shape (n_rows, n_params)."""
        B, influence = dense(bread), np.empty((self.n_rows, bread.shape[1]))
        for part in self.slices():
            influence[part] = self.score_rows(part) @ B
        return influence

    def row_leverages(self, inverse_gram: FloatArray) -> FloatArray | None:
        """x'Mx of each row of the design."""
        forms = (np.einsum("rj,jk,rk->r", rows, inverse_gram, rows, optimize=True) for rows in self._parts())
        return np.concatenate(list(forms))

    def uncancelled(self, bread: Matrix) -> FloatArray:
        """Sums of squares of the influence of rows if its parts did not cancel, shape (n_params,)."""
        B = np.abs(dense(bread))
        return np.asarray(sum(np.sum((np.abs(self.score_rows(part)) @ B) ** 2, axis=0) for part in self.slices()))

    def full_scores(self) -> FloatArray:
        """Scores of each row in every column, shape (n_rows, n_columns)."""
        return self.score_rows(slice(None))

    def slices(self) -> Iterator[slice]:
        """Rows in parts whose design stays small."""
        step = max(ENTRIES_PER_BLOCK // max(self.n_columns, 1), 1)
        return (slice(first, min(first + step, self.n_rows)) for first in range(0, self.n_rows, step))

    def _parts(self) -> Iterator[FloatArray]:
        return (self.design_rows(part) for part in self.slices())


def _lengths(rows: FloatArray, root: FloatArray) -> FloatArray:
    """|R'x|^2 of each row."""
    turned = rows if is_identity(root) else rows @ root
    return np.asarray(np.einsum("rk,rk->r", turned, turned))


def _by_cluster(rows: ClusterRows, root: FloatArray) -> FloatArray:
    """Sums of the leverages of the rows of each cluster."""
    place = np.repeat(np.arange(rows.totals.shape[0]), rows.counts)
    return np.bincount(place, _lengths(rows.design, root), rows.totals.shape[0]).astype(np.float64, copy=False)


def cluster_ranges(rows: FloatArray, k: int) -> Iterator[tuple[int, int]]:
    """Ranges of clusters of so many rows, shape (n_clusters,), of a design of k columns that are made at a time."""
    entries = np.cumsum(np.maximum(rows, k) * k)
    ends = np.searchsorted(entries, np.arange(ENTRIES_PER_BLOCK, entries[-1], ENTRIES_PER_BLOCK), side="right")
    return pairwise(np.unique([0, *ends, rows.size]).tolist())


@dataclass(frozen=True, eq=False)
class RowScores(RegressionScores):
    """Scores of a regression, or of any model fitted row by row, as an array of rows."""

    # Scores, (n_rows, n_columns); columns sum to zero.
    values: FloatArray
    labels: Labels
    # Rows of the design scaled by the square root of the working weights, so that X_g'W X_g is the sum of squares of
    # its rows; None where there is no design.
    design: FloatArray | None = None
    # Residuals on the scale of least squares, from which an intraclass correlation is computed.
    residual: FloatArray | None = None
    # Weights of the rows in the fit; None where all are alike. The scores hold them already.
    weights: FloatArray | None = None

    @property
    def n_columns(self) -> int:
        """Columns of the scores."""
        return int(self.values.shape[1])

    def design_rows(self, rows: slice) -> FloatArray:
        """Some rows of the design."""
        assert self.design is not None
        return self.design[rows]

    def score_rows(self, rows: slice) -> FloatArray:
        """Scores of some rows."""
        return self.values[rows]

    @property
    def reach(self) -> FloatArray:
        """The largest size of the entries of the design in each column."""
        assert self.design is not None
        return np.asarray(np.maximum(self.design.max(axis=0), -self.design.min(axis=0)))

    def turned(self, turn: FloatArray) -> RowScores:
        """The same in other columns."""
        return RowScores(self.values @ turn, self.labels, None if self.design is None else self.design @ turn)

    def clusters(self, by: Axis) -> Iterator[ClusterRows]:
        """Rows of the clusters in their order."""
        assert self.design is not None
        codes = self.labels.codes(by)
        order, starts = codes.order
        for low, high in cluster_ranges(codes.counts.astype(float), self.n_columns):
            rows, own = order[starts[low] : starts[high]], starts[low : high + 1] - starts[low]
            yield ClusterRows(low, self.design[rows], sums_of_rows(self.values[rows], own), own)

    def cells(self, by: Axis) -> Iterator[Block]:
        """Sums within clusters, with each cluster's X_g'W X_g where there is a design."""
        if self.design is not None:
            return super().cells(by)
        codes = self.labels.codes(by)
        totals = [np.bincount(codes.codes, column, codes.n_clusters) for column in self.values.T]
        return iter([Block(np.column_stack(totals), None)])

    def narrow(self, by: Axis) -> Iterator[tuple[NarrowClusters | None, Iterator[Block]]]:
        """Clusters of fewer rows than columns, where there are any, and blocks of the others."""
        return iter([(None, self.cells(by))]) if self.design is None else super().narrow(by)

    def leverage_sums(self, by: Axis, root: FloatArray) -> FloatArray | None:
        """Sum of the leverages of the rows of each cluster; None without a design."""
        return None if self.design is None else super().leverage_sums(by, root)

    def row_leverages(self, inverse_gram: FloatArray) -> FloatArray | None:
        """x'Mx of each row of the design; None without a design."""
        return None if self.design is None else super().row_leverages(inverse_gram)

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', by statsmodels.

        Rows are mapped before they are squared: what a far score adds to several columns cancels in B's, where its
        squares would leave their rounding behind.
        """
        from statsmodels.stats.sandwich_covariance import S_crosssection, S_white_simple

        if by is None:
            B = dense(bread)
            return sum_blocks(np.asarray(S_white_simple(self.values[rows] @ B)) for rows in self.slices())
        # Each column in one piece of memory, as it is summed.
        influence = (dense(bread).T @ self.values.T).T
        return np.asarray(S_crosssection(influence, self.labels.codes(by).codes))

    def design_total(self) -> FloatArray | None:
        """X'W1, what coefficients solve for where all scores are 1, shape (n_columns,); None without a design."""
        if self.design is None:
            return None
        root = np.ones(self.n_rows) if self.weights is None else np.sqrt(self.weights)
        return np.asarray(self.design.T @ root)

    def gram_entries(self, by: Axis) -> int:
        """Entries of X_g'W X_g of the clusters; none without a design."""
        return 0 if self.design is None else super().gram_entries(by)


def sums_of_rows(rows: FloatArray, starts: IntArray) -> FloatArray:
    """Sums of sorted rows within clusters, which start there."""
    n = rows.shape[0]
    return np.asarray(in_rows(np.ones(n), np.arange(n), starts, (starts.size - 1, n)) @ rows)
