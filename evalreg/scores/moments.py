"""Scores of a regression whose rows are few numbers in few cells: sums by (cluster, cell) are all that is kept of them.

A row of the design is u'B_c in cell c, u being 1 and the numbers of the row, centred and over their spread. With M the
sums of w u u' and m those of w u e over the rows of a cluster in a cell, X_g'W X_g is the sum of B_c'M B_c over the
cells, and the cluster's total that of B_c'm (Wong, Forsell, Lewis, Mao and Wardrop 2021, arXiv:2102.11297: "you only
compress once"). Factors alone have u = 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray, held_property, hold
from evalreg.data.clusters import Axis, Codes, Labels, pair_codes
from evalreg.numerics.matrices import Matrix, dense
from evalreg.scores.rows import ClusterRows, RegressionScores, cluster_ranges

# Rows of the data whose products are made at a time.
ROWS_PER_BLOCK = 1 << 20
# PairSums of clusters and cells of which a table is made, however few the rows are.
FEW_PAIRS = 1 << 14
# A pivot below this fraction of its square is rounding.
ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class CodedRows:
    """The rows of a regression: the cell of each, and its numbers.

    Parameters
    ----------
    n_rows : int
        How many.
    cell : ndarray of int, shape (n_rows,), or None
        Cell of each row; None where there is one.
    n_cells : int
        Number of cells.
    numbers : sequence of ndarray, shape (n_rows,)
        Centred, and over their spread.
    weights : ndarray, shape (n_rows,), optional
        Sampling weights.
    """

    n_rows: int
    cell: IntArray | None
    n_cells: int
    numbers: Sequence[FloatArray]
    weights: FloatArray | None

    @property
    def n_parts(self) -> int:
        """1 and the numbers."""
        return len(self.numbers) + 1

    def parts(self, rows: slice) -> list[FloatArray | None]:
        """The u of some rows, part by part; None for 1."""
        return [None, *(number[rows] for number in self.numbers)]

    def blocks(self) -> Iterator[slice]:
        """Rows some at a time."""
        return (slice(first, first + ROWS_PER_BLOCK) for first in range(0, self.n_rows, ROWS_PER_BLOCK))

    def combined(self, rows: slice, maps: FloatArray) -> FloatArray:
        """u'F_c of some rows, for F of shape (n_cells, n_parts) or (n_cells, n_parts, m)."""
        cell = slice(0, 1) if self.cell is None else self.cell[rows]
        total = np.empty((len(range(*rows.indices(self.n_rows))), *maps.shape[2:]))
        total[:] = maps[cell, 0]
        for j, u in enumerate(self.parts(rows)):
            if u is not None:
                total += maps[cell, j] * u.reshape((-1, *(1,) * (maps.ndim - 2)))
        return total

    def sums(
        self, codes: Codes | None, error: FloatArray | None = None, squares: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Of each (cluster, cell) the sums over its rows of w u u', and of w u e; zero where they are not wanted.

        Shapes (n_clusters * n_cells, K, K) and (n_clusters * n_cells, K), the cells of a cluster after one another.
        """
        K, C, n_clusters = self.n_parts, self.n_cells, 1 if codes is None else codes.n_clusters
        M, m = np.zeros((K, K, n_clusters * C)), np.zeros((K, n_clusters * C))
        for rows in self.blocks():
            u, w = self.parts(rows), None if self.weights is None else self.weights[rows]
            cell = None if self.cell is None else self.cell[rows]
            key = cell if codes is None else codes.codes[rows] if cell is None else codes.codes[rows] * C + cell
            key = np.zeros(len(range(*rows.indices(self.n_rows))), np.intp) if key is None else key
            for i, part in enumerate(u):
                first = w if part is None else part if w is None else part * w
                if error is not None:
                    m[i] += np.bincount(key, error[rows] if first is None else first * error[rows], m.shape[1])
                for j, second in enumerate(u[: i + 1] if squares else []):
                    product = first if first is None or second is None else first * second
                    M[i, j] += np.bincount(key, product, m.shape[1])
        for i in range(K):
            M[:i, i] = M[i, :i]
        return np.moveaxis(M, 2, 0), m.T


def roots(M: FloatArray) -> FloatArray:
    """Upper triangles R with R'R = M, M (n, K, K) positive semi-definite; rows whose pivots are rounding are zero."""
    rest, R = M.copy(), np.zeros_like(M)
    for j in range(M.shape[1]):
        pivot = rest[:, j, j]
        known = pivot > ROUNDING * M[:, j, j]
        root = np.sqrt(np.where(known, pivot, 1.0))
        R[:, j, j:] = np.where(known[:, None], rest[:, j, j:] / root[:, None], 0.0)
        rest = rest - R[:, j, :, None] * R[:, j, None, :]
    return R


def solved(R: FloatArray, m: FloatArray) -> FloatArray:
    """r with R'r = m, (n, K); zero where a row of R is."""
    r = np.zeros_like(m)
    for j in range(m.shape[1]):
        rest, pivot = m[:, j] - np.einsum("ni,ni->n", R[:, :, j], r), R[:, j, j]
        r[:, j] = np.where(pivot > 0, rest / np.where(pivot > 0, pivot, 1.0), 0.0)
    return r


@dataclass(frozen=True, eq=False)
class PairSums:
    """Sums over the rows of each (cluster, cell) that occurs, cluster by cluster."""

    cell: IntArray
    starts: IntArray  # where each cluster begins
    squares: FloatArray  # (n_pairs, K, K), of w u u'; zero where only totals are wanted
    totals: FloatArray  # (n_pairs, K), of w u e


def totals_of(pairs: PairSums, basis: FloatArray) -> FloatArray:
    """Totals of the clusters in the columns of a basis, shape (n_clusters, m)."""
    n_cells, K, m = basis.shape
    places = (pairs.cell * K)[:, None] + np.arange(K)
    entries = (pairs.totals.ravel(), places.ravel(), pairs.starts * K)
    return np.asarray(sparse.csr_array(entries, shape=(pairs.starts.size - 1, n_cells * K)) @ basis.reshape(-1, m))


def rows_of(pairs: PairSums, basis: FloatArray, first: int = 0) -> Iterator[ClusterRows]:
    """Rows with the squares and products of those of each cluster, at most as many a cell as u has parts."""
    n_cells, K, k = basis.shape
    totals, flat = totals_of(pairs, basis), basis.reshape(-1, k)
    for low, high in cluster_ranges(np.diff(pairs.starts) * float(K), k):
        some = slice(pairs.starts[low], pairs.starts[high])
        R = roots(pairs.squares[some])
        there = R[:, range(K), range(K)] > 0
        there[:, 0] = True
        before = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        places = np.repeat(pairs.cell[some] * K, np.diff(before))[:, None] + np.arange(K)
        entries = (R[there].ravel(), places.ravel(), np.arange(before[-1] + 1) * K)
        design = sparse.csr_array(entries, shape=(int(before[-1]), n_cells * K)) @ flat
        starts = before[pairs.starts[low : high + 1] - some.start]
        yield ClusterRows(first + low, np.asarray(design), totals[low:high], starts)


@dataclass(frozen=True, eq=False)
class MomentScores(RegressionScores):
    """Scores w e u'B_c of rows in cells."""

    rows: CodedRows
    # e of each row.
    error: FloatArray
    # (n_cells, K, k).
    basis: FloatArray
    labels: Labels
    # Times the roots of the weights; None of what is no least squares.
    residual: FloatArray | None = None
    weights: FloatArray | None = None
    made: dict[tuple[Axis, bool], PairSums] = field(default_factory=dict, repr=False)

    @property
    def n_columns(self) -> int:
        """Columns of the scores."""
        return int(self.basis.shape[2])

    def design_rows(self, rows: slice) -> FloatArray:
        """Some rows of the design."""
        design = self.rows.combined(rows, self.basis)
        return design if self.weights is None else design * np.sqrt(self.weights[rows])[:, None]

    def score_rows(self, rows: slice) -> FloatArray:
        """Scores of some rows."""
        factor = self.error[rows] if self.weights is None else self.error[rows] * self.weights[rows]
        return self.rows.combined(rows, self.basis) * factor[:, None]

    def turned(self, turn: FloatArray) -> MomentScores:
        """The same in other columns."""
        return replace(self, basis=self.basis @ turn)

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', by statsmodels from the totals of the clusters."""
        from statsmodels.stats.sandwich_covariance import S_white_simple

        if by is None:
            # The sum of (w e)^2 u u' over the rows of a cell is R'R.
            s = self.error if self.weights is None else self.error * self.weights
            R = roots(replace(self.rows, weights=s**2).sums(None)[0])
            return np.asarray(S_white_simple((R @ (self.basis @ dense(bread))).reshape(-1, bread.shape[1])))
        return np.asarray(S_white_simple(totals_of(self._pairs(by, False), self.basis @ dense(bread))))

    def clusters(self, by: Axis) -> Iterator[ClusterRows]:
        """Rows with the squares and products of those of a cluster in a cell."""
        return rows_of(self._pairs(by, True), self.basis)

    def dominant(
        self, by: Axis | None, root: FloatArray, above: float
    ) -> Iterator[tuple[FloatArray, FloatArray | None]]:
        """As for rows; not looked for where the largest cluster with the farthest row would not reach that."""
        counts = 1 if by is None else int(self.labels.codes(by).counts.max())
        heaviest = 1.0 if self.weights is None else float(self.weights.max())
        far = np.einsum("j,cjk->ck", self._farthest, np.abs(self.basis @ root))
        if counts * heaviest * float(np.max(np.einsum("ck,ck->c", far, far))) > above:
            yield from super().dominant(by, root, above)

    @property
    def reach(self) -> FloatArray:
        """A bound of the size of the entries of the design in each column."""
        return np.asarray(np.max(np.einsum("j,cjk->ck", self._farthest, np.abs(self.basis)), axis=0))

    @held_property
    def _farthest(self) -> FloatArray:
        """The largest size of each part of u."""
        ends = (max(float(number.max()), -float(number.min())) for number in self.rows.numbers)
        return np.array([1.0, *ends])

    def design_total(self) -> FloatArray:
        """X'W1, shape (n_columns,)."""
        total = np.zeros(self.n_columns)
        for part in self.slices():
            rows = self.rows.combined(part, self.basis)
            total += rows.sum(axis=0) if self.weights is None else self.weights[part] @ rows
        return total

    def _pairs(self, by: Axis, squares: bool) -> PairSums:
        """Sums by (cluster, cell), made once."""
        for known in ((by, True), (by, squares)):
            if known in self.made:
                return self.made[known]
        self.made[by, squares] = pairs = self._summed(self.labels.codes(by), squares)
        hold(pairs)
        return pairs

    def _summed(self, codes: Codes, squares: bool) -> PairSums:
        C, n_clusters = self.rows.n_cells, codes.n_clusters
        if n_clusters * C <= max(self.n_rows, FEW_PAIRS):
            M, m = self.rows.sums(codes, self.error, squares)
            there = M[:, 0, 0] > 0 if squares else np.ones(n_clusters * C, dtype=bool)
            cluster, cell = np.divmod(np.flatnonzero(there), C)
            M, m = M[there], m[there]
        else:
            assert self.rows.cell is not None
            joint = pair_codes(codes.codes, n_clusters, self.rows.cell, C)
            cluster, cell = (np.empty(joint.n_clusters, np.intp) for _ in range(2))
            cluster[joint.codes], cell[joint.codes] = codes.codes, self.rows.cell
            M, m = replace(self.rows, cell=None, n_cells=1).sums(joint, self.error, squares)
            order = np.argsort(cluster, kind="stable")
            cluster, cell, M, m = cluster[order], cell[order], M[order], m[order]
        starts = np.concatenate([[0], np.cumsum(np.bincount(cluster, minlength=n_clusters))])
        return PairSums(cell, starts, M, m)
