"""Scores of a model fitted row by row: an (n_rows, n_columns) array, with the design where there is one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.data.clusters import Axis, Codes
from evalreg.data.labels import Labels
from evalreg.numerics.basis import FewEntries
from evalreg.numerics.matrices import Matrix, dense, is_identity, square, sum_blocks
from evalreg.scores.labelled import LabelledScores
from evalreg.scores.sums import Block, NarrowClusters

# Clusters of a block of row scores, so that memory does not grow with the number of clusters.
CLUSTERS_PER_BLOCK = 1 << 16
# Entries of the design that are turned at a time, so that they stay in fast memory.
ENTRIES_PER_BLOCK = 1 << 16
# From so many columns on, a product for each cluster costs less than a pass over all rows for each pair of columns.
MANY_COLUMNS = 16


@dataclass(frozen=True, eq=False)
class RowScores(LabelledScores):
    """Scores of a regression or of any model fitted row by row, in memory."""

    # Scores, (n_rows, n_columns); columns sum to zero.
    values: FloatArray
    labels: Labels
    # Rows of the design scaled by the square root of the working weights, so that X_g'W X_g is the sum of squares of
    # its rows.
    design: FloatArray | None = None
    # Residuals on the scale of least squares, from which an intraclass correlation is computed.
    residual: FloatArray | None = None
    # Weights of the rows in the fit; None where all are alike. The scores hold them already.
    weights: FloatArray | None = None
    # Rows of the design by their entries, where these are few in other columns.
    entries: FewEntries | None = None
    block_size: int = field(default=CLUSTERS_PER_BLOCK, repr=False)

    @property
    def n_columns(self) -> int:
        """Columns of the scores."""
        return int(self.values.shape[1])

    def cells(self, by: Axis) -> Iterator[Block]:
        """Sums within clusters, with each cluster's X_g'W X_g where there is a design."""
        codes = self.labels.codes(by)
        if codes.n_clusters <= self.block_size:
            yield self._whole(codes)
            return
        order, starts = codes.order
        for first in range(0, codes.n_clusters, self.block_size):
            edges = starts[first : min(first + self.block_size, codes.n_clusters) + 1]
            rows = order[edges[0] : edges[-1]]
            part = Codes(codes.codes[rows] - first, edges.size - 1)
            design = None if self.design is None else self.design[rows]
            yield RowScores(self.values[rows], self.labels, design)._whole(part)

    def narrow(self, by: Axis) -> Iterator[tuple[NarrowClusters | None, Iterator[Block]]]:
        """Clusters of fewer rows than columns, where there are any, and blocks of the others."""
        codes = self.labels.codes(by)
        few = codes.counts < self.n_columns
        if self.design is None or not few.any():
            yield None, self.cells(by)
            return
        # Clusters of one row in the order of the rows, so many at a time as stay in fast memory.
        single = codes.counts == 1
        lone = np.flatnonzero(single[codes.codes])
        for first in range(0, lone.size, self.block_size):
            rows = lone[first : first + self.block_size]
            starts = np.arange(rows.size + 1)
            which: IntArray = codes.codes[rows]
            yield NarrowClusters(self.design, self.values[rows], rows, starts, which, self.entries), iter(())
        yield self._several(codes, few & ~single), iter(()) if few.all() else self._wide(codes, ~few)

    def _several(self, codes: Codes, which: BoolArray) -> NarrowClusters | None:
        """Some of the clusters, of several rows each; None where there is none."""
        if not which.any():
            return None
        assert self.design is not None
        rows, place = np.flatnonzero(which[codes.codes]), np.cumsum(which) - 1
        own = Codes(place[codes.codes[rows]], int(place[-1]) + 1)
        order, starts = own.order
        values = self.values if rows.size == self.n_rows else self.values[rows]
        columns = np.ascontiguousarray(values.T)
        totals: FloatArray = np.column_stack([np.bincount(own.codes, column, own.n_clusters) for column in columns])
        entries = self.entries and replace(self.entries, rows=self.entries.rows[rows[order]])
        design, places = self._sorted(rows, order), np.arange(rows.size)
        return NarrowClusters(design, totals, places, starts, np.flatnonzero(which), entries)

    def _sorted(self, rows: IntArray, order: IntArray) -> FloatArray:
        """Some rows of the design in another order, each in one piece of memory: they are asked for again and again.

        They are read as they stand, some at a time. Read in the other order they take four times as long, as columns
        lie in memory one after another.
        """
        assert self.design is not None
        k = self.design.shape[1]
        result, place = np.empty((rows.size, k)), np.empty(rows.size, dtype=np.intp)
        place[order] = np.arange(rows.size)
        step = max(ENTRIES_PER_BLOCK // k, 1)
        for first in range(0, rows.size, step):
            part = slice(first, first + step)
            result[place[part]] = self.design[rows[part]]
        return result

    def _wide(self, codes: Codes, wide: BoolArray) -> Iterator[Block]:
        """Blocks of some of the clusters."""
        own, edges = _rows_of(codes, wide)
        for first in range(0, edges.size - 1, self.block_size):
            some = edges[first : first + self.block_size + 1]
            rows, place = own[some[0] : some[-1]], np.repeat(np.arange(some.size - 1), np.diff(some))
            design = None if self.design is None else self.design[rows]
            yield RowScores(self.values[rows], self.labels, design)._whole(Codes(place, some.size - 1))

    def _whole(self, codes: Codes) -> Block:
        """All clusters at once."""
        return Block(self._totals(codes), None if self.design is None else cluster_grams(self.design, codes))

    def _totals(self, codes: Codes) -> FloatArray:
        """Scores summed within clusters, shape (n_clusters, n_columns)."""
        return np.column_stack([np.bincount(codes.codes, column, codes.n_clusters) for column in self.values.T])

    def dominant(
        self, by: Axis | None, root: FloatArray, above: float
    ) -> Iterator[tuple[FloatArray, FloatArray | None]]:
        """Leverages of the clusters (or rows) that add up to more than that, and what maps their eigenvectors to L_g's.

        Z_g = X_g R has as many rows as the cluster, and Z_g Z_g' the eigenvalues of L_g = Z_g'Z_g: the smaller is
        taken. The leverages of all clusters add up to k, so that at most k / above are found.
        """
        assert self.design is not None
        design, leverage = self.design, self._leverages(root)
        if by is None:
            groups: Iterable[FloatArray] = (design[[row]] @ root for row in np.flatnonzero(leverage > above))
        else:
            codes = self.labels.codes(by)
            found = np.flatnonzero(np.bincount(codes.codes, leverage) > above)
            order, starts = codes.order if found.size else (codes.codes, codes.codes)
            groups = (design[order[starts[g] : starts[g + 1]]] @ root for g in found)
        for rows in groups:
            yield (rows @ rows.T, rows.T) if rows.shape[0] < rows.shape[1] else (rows.T @ rows, None)

    def leverage_sums(self, by: Axis, root: FloatArray) -> FloatArray | None:
        """Sum of the leverages of the rows of each cluster, shape (n_clusters,); None without a design."""
        if self.design is None:
            return None
        return np.bincount(self.labels.codes(by).codes, self._leverages(root)).astype(np.float64, copy=False)

    def _leverages(self, root: FloatArray) -> FloatArray:
        """Of each row, |x'R|^2, shape (n_rows,)."""
        assert self.design is not None
        leverage = np.empty(self.n_rows)
        step, alike = max(ENTRIES_PER_BLOCK // root.shape[0], 1), is_identity(root)
        for first in range(0, self.n_rows, step):
            part = self.design[first : first + step]
            turned = part if alike else part @ root
            leverage[first : first + step] = np.einsum("rk,rk->r", turned, turned)
        return leverage

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', by statsmodels.

        Rows are mapped before they are squared: what a far score adds to several columns cancels in B's, where its
        squares would leave their rounding behind.
        """
        if by is not None:
            from statsmodels.stats.sandwich_covariance import S_crosssection

            # Each column in one piece of memory, as it is summed.
            influence = (dense(bread).T @ self.values.T).T
            return np.asarray(S_crosssection(influence, self.labels.codes(by).codes))
        step = max(ENTRIES_PER_BLOCK // self.n_columns, 1)
        return sum_blocks(square(self.values[first : first + step], bread) for first in range(0, self.n_rows, step))

    def row_influence(self, bread: Matrix) -> FloatArray:
        """Influence of each row, B's_r, shape (n_rows, n_params)."""
        return np.asarray(self.values @ bread)

    def row_leverages(self, inverse_gram: FloatArray) -> FloatArray | None:
        """x'Mx of each row of the design; None without a design."""
        if self.design is None:
            return None
        return np.asarray(np.einsum("rj,jk,rk->r", self.design, inverse_gram, self.design, optimize=True))

    def uncancelled(self, bread: Matrix) -> FloatArray:
        """Sums of squares of the influence of rows if its parts did not cancel, shape (n_params,)."""
        return np.asarray(np.sum((np.abs(self.values) @ np.abs(dense(bread))) ** 2, axis=0))

    def full_scores(self) -> FloatArray:
        """Scores of each row in every column, shape (n_rows, n_columns)."""
        return self.values

    def design_total(self) -> FloatArray | None:
        """X'W1, what coefficients solve for where all scores are 1, shape (n_columns,); None without a design."""
        if self.design is None:
            return None
        root = np.ones(self.n_rows) if self.weights is None else np.sqrt(self.weights)
        return np.asarray(self.design.T @ root)

    def gram_entries(self, by: Axis) -> int:
        """Entries of X_g'W X_g of the clusters that have as many rows as columns or more; at most n / k have."""
        return 0 if self.design is None else min(self.n_clusters(by) * self.n_columns, self.n_rows) * self.n_columns


def _rows_of(codes: Codes, kept: BoolArray) -> tuple[IntArray, IntArray]:
    """Rows of some clusters, cluster by cluster, and where each begins (with the end appended)."""
    starts = np.concatenate([[0], np.cumsum(codes.counts[kept])]).astype(np.intp)
    return codes.order[0][np.repeat(kept, codes.counts)], starts


def cluster_grams(design: FloatArray, codes: Codes) -> FloatArray:
    """Sums of squares and products of the design within clusters, X_g'X_g, (n_clusters, n_columns, n_columns)."""
    n_columns = design.shape[1]
    grams = np.empty((codes.n_clusters, n_columns, n_columns))
    if n_columns < MANY_COLUMNS:
        columns, product = np.ascontiguousarray(design.T), np.empty(design.shape[0])
        for j in range(n_columns):
            for k in range(j + 1):
                np.multiply(columns[j], columns[k], out=product)
                grams[:, j, k] = grams[:, k, j] = np.bincount(codes.codes, product, codes.n_clusters)
        return grams
    order, starts = codes.order
    for gram, (first, last) in zip(grams, pairwise(starts), strict=True):
        rows = design[order[first:last]]
        np.matmul(rows.T, rows, out=gram)
    return grams
