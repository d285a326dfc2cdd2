"""Scores of a regression row by row, and of one whose rows are few numbers in few cells; the levels that it absorbs.

In a cell c a row of the design is u'B_c, u being 1 and the numbers of the row, centred and over their spread. With M
the sums of w u u' and m those of w u e over the rows of a cluster in a cell, X_g'W X_g is the sum of B_c'M B_c over the
cells, and the cluster's total that of B_c'm (Wong, Forsell, Lewis, Mao and Wardrop 2021, arXiv:2102.11297: "you only
compress once"). Factors alone have u = 1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any

import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray, held_property, hold, listed, passed
from evalreg.choices import SscName
from evalreg.data.clusters import Axes, Axis, Codes, Labels, axis_name, joint, ordered
from evalreg.errors import NotAvailableError
from evalreg.numerics.basis import MOST_ENTRIES, Partition, Within, within
from evalreg.numerics.fitting import without_rounding
from evalreg.numerics.limits import HELD, IN_SPAN, MANY_COLUMNS, MOST_CUBES, MOST_LOOKED_AT, REDUNDANT, SINGULAR
from evalreg.numerics.matrices import CACHED, Matrix, dense, faster_dense, in_rows, is_identity, parts_of, sum_blocks
from evalreg.scores.base import Block, Blocks, LabelledScores, Leverages, NarrowClusters, Scores


@dataclass(frozen=True, eq=False)
class Absorbed:
    """The absorbed factors of a regression.

    Parameters
    ----------
    factors : tuple of Axis
        Columns of each; joint levels have several.
    codes : tuple of Codes
        Level of each row in use.
    weights : ndarray, shape (n_rows,), optional
        Sampling weights.
    n_covariates : int
        Coefficients besides the levels.
    rank : int
        Levels that count as coefficients: all less those that others determine.
    exact : bool
        Whether `rank` is exact; otherwise it is at most that.
    r2_within : float
        Share of the variation within levels that the covariates explain.
    """

    factors: Axes
    codes: tuple[Codes, ...]
    weights: FloatArray | None
    n_covariates: int
    rank: int
    exact: bool
    r2_within: float
    project: Within = field(repr=False)

    @property
    def text(self) -> str:
        """Factors with their numbers of levels."""
        pairs = zip(self.factors, self.codes, strict=True)
        return ", ".join(f"{axis_name(factor)} ({codes.n_clusters:,} levels)" for factor, codes in pairs)

    def nested(self, by: Codes) -> BoolArray:
        """Whether every level of each factor lies inside one cluster, shape (n_factors,)."""
        return np.array([bool(np.all(by.codes[factor.first][factor.codes] == by.codes)) for factor in self.codes])

    def n_coefficients(self, ssc: SscName, axes: Sequence[Codes]) -> int:
        """K of (n - 1)/(n - K).

        fixest counts all levels but one for each further factor, and one for a factor that is nested in some axis;
        the other conventions count what the regression on dummies does.
        """
        if ssc != "fixest":
            return self.n_covariates + self.rank
        levels = np.array([factor.n_clusters for factor in self.codes])
        inside = np.any([self.nested(by) for by in axes], axis=0) if axes else np.zeros(levels.size, dtype=bool)
        return int(self.n_covariates + levels.sum() - (levels.size - 1) - np.sum(levels[inside] - 1))

    def least_alone(self, by: Codes) -> float:
        """The least leverage in the covariates of a cluster that alone determines a direction; 0 if that is not known.

        With w in that cluster alone, and s its largest share of a level of the one factor, the levels take at most s of
        |w|^2, which is all that there is outside the cluster: 1 - s/(1 - s) of what is left lies inside.
        """
        if len(self.codes) > 1:
            return 0.0
        level = self.codes[0]
        both, of_level = joint([by, level]), np.bincount(level.codes, self.weights)
        s = float(np.max(np.bincount(both.codes, self.weights) / of_level[level.codes[both.first]]))
        return 1.0 - s / (1.0 - s) if s < 0.5 else 0.0

    def affordable(self, by: Codes) -> bool:
        """Whether the dummies of factors whose levels span clusters are few enough to adjust for."""
        m = sum(factor.n_clusters for factor, inside in zip(self.codes, self.nested(by), strict=True) if not inside)
        sizes = np.minimum(by.counts, m + self.n_covariates).astype(np.float64)
        return m == 0 or bool(by.codes.size * m <= MOST_ENTRIES and np.sum(sizes**3) <= MOST_CUBES)

    def outside(self, by: Codes, name: str) -> FloatArray | None:
        """Orthonormal columns of what factors whose levels span clusters add to the others, (n_rows, m); None if none.

        Factors whose levels each lie in one cluster change neither the adjustment of CR2 and CR3 nor its degrees of
        freedom (Pustejovsky and Tipton 2018, theorem 2 as corrected in 2022); the others do.
        """
        inside = self.nested(by)
        if inside.all():
            return None
        spanning = [i for i in range(inside.size) if not inside[i]]
        if not self.affordable(by):
            names = listed([axis_name(self.factors[i]) for i in spanning])
            levels = sum(self.codes[i].n_clusters for i in spanning)
            raise NotAvailableError(
                f"levels of the absorbed {names} ({levels:,}) span clusters of {name!r}, so that CR2, CR3 and their "
                f"degrees of freedom need the leverage of every level: too much for {by.codes.size:,} rows. Use "
                f"{passed(cov='CR1')}, or clusters that hold whole levels."
            )
        factors = [self.codes[i] for i in spanning]
        D = np.hstack([np.eye(factor.n_clusters)[factor.codes] for factor in factors])
        whole = np.sqrt(np.concatenate([np.bincount(factor.codes, self.weights) for factor in factors]))
        if inside.any():
            absorbed = [self.codes[i] for i in np.flatnonzero(inside)]
            D = within([Partition(codes.codes, codes.n_clusters) for codes in absorbed], self.weights)(D)
        if self.weights is not None:
            D = D * np.sqrt(self.weights)[:, None]
        size = np.sqrt(np.einsum("ij,ij->j", D, D))
        # What is left of a level that the others hold, as of one level for all rows, is rounding.
        added = size > IN_SPAN * whole
        if not added.any():
            return None
        D = D[:, added] / size[added]
        values, axes = np.linalg.eigh(D.T @ D)
        independent = values > REDUNDANT * values[-1]
        Z = D @ (axes[:, independent] / np.sqrt(values[independent]))
        # Once more takes away what the square of the condition number cost.
        return np.asarray(np.linalg.qr(Z)[0]) if values[independent][0] < 1e-3 else Z

    def row_leverages(self) -> FloatArray:
        """Leverage of the levels in each row, shape (n_rows,), which adds to that of the covariates."""
        leverages = self.project.leverages()
        if leverages is None:
            raise NotAvailableError(
                f"leverages of rows need those of the levels, too many of which are absorbed ({self.text}); use cov "
                '"HC0" or "HC1", or clusters.'
            )
        return leverages

    def lone_rows(self, design: FloatArray, residual: FloatArray) -> FloatArray:
        """Rows of the design of leverage 1 once levels count, shape (k, n_lone): each alone determines something."""
        leverage = np.einsum("ij,ij->i", design, design)
        size = np.sqrt(np.mean(residual**2))
        candidates = np.flatnonzero((leverage > IN_SPAN) & (np.abs(residual) <= IN_SPAN * size))
        candidates = candidates[np.argsort(-leverage[candidates], kind="stable")[:MOST_LOOKED_AT]]
        root = np.ones(residual.size) if self.weights is None else np.sqrt(self.weights)
        lone = []
        for rows in np.array_split(candidates, candidates.size // 32 + 1):
            unit = np.zeros((residual.size, rows.size))
            unit[rows, np.arange(rows.size)] = 1.0 / root[rows]
            left = self.project(unit) * root[:, None]
            lone.append(rows[np.einsum("ij,ij->j", left, left) <= leverage[rows] + IN_SPAN])
        rows = np.concatenate(lone)
        return np.asarray((design[rows] / np.sqrt(leverage[rows])[:, None]).T)


def starts_of(counts: IntArray) -> IntArray:
    """Where clusters of so many rows begin, one after the other, with the end."""
    return np.concatenate([[0], np.cumsum(counts)])


@dataclass(frozen=True, eq=False)
class Clusters:
    """Some whole clusters of a regression, one after the other.

    Parameters
    ----------
    first : int
        Number of the first cluster.
    totals : ndarray, shape (n_clusters, k)
        Sums of scores.
    starts : ndarray of int, shape (n_clusters + 1,)
        Where each cluster begins among the rows.
    source : Any
        What rows are made of; the rows themselves here.
    """

    first: int
    totals: FloatArray
    starts: IntArray
    source: Any

    @property
    def rows(self) -> FloatArray:
        """Z with Z_g'Z_g = X_g'W X_g, (n_rows, k); they may be others than those of the data."""
        return np.asarray(self.source)

    @property
    def counts(self) -> IntArray:
        """Rows of each cluster."""
        return np.diff(self.starts)

    def squares(self, maps: FloatArray) -> FloatArray:
        """Sums of squares of the rows of each cluster times the maps, shape (n_clusters, m)."""
        return sums_of_rows(_turned(self.rows, maps) ** 2, self.starts)

    def some(self, which: BoolArray) -> Clusters:
        """Some of these clusters."""
        chosen = np.repeat(which, self.counts)
        return Clusters(0, self.totals[which], starts_of(self.counts[which]), self.rows[chosen])

    def grams(self) -> FloatArray:
        """X_g'W X_g, shape (n_clusters, k, k)."""
        rows, k = self.rows, self.rows.shape[1]
        if k < MANY_COLUMNS:
            return np.stack([sums_of_rows(rows * column[:, None], self.starts) for column in rows.T], axis=1)
        grams = np.empty((self.starts.size - 1, k, k))
        for gram, (begin, end) in zip(grams, pairwise(self.starts), strict=True):
            np.matmul(rows[begin:end].T, rows[begin:end], out=gram)
        return grams

    def parted(self) -> tuple[NarrowClusters | None, Blocks]:
        """Clusters of fewer rows than columns, if any, and those of as many or more."""
        few = self.counts < self.totals.shape[1]
        if not few.any():
            return None, iter([Block(self.totals, self.grams())])
        order = np.flatnonzero(np.repeat(few, self.counts))
        which = self.first + np.flatnonzero(few)
        narrow = NarrowClusters(self.rows, self.totals[few], order, starts_of(self.counts[few]), which)
        return narrow, iter(() if few.all() else [Block(self.totals[~few], self.some(~few).grams())])


class ByClusterRows(Scores):
    """Sums within clusters of a regression, from the rows of its clusters."""

    @abstractmethod
    def clusters(self, by: Axis, *, grams: bool = False) -> Iterator[Clusters]:
        """Rows of the clusters, some clusters at a time in their order; fewer where X_g'W X_g of all are made."""

    def cells(self, by: Axis) -> Blocks:
        """Sums within clusters, with each cluster's X_g'W X_g."""
        return (Block(rows.totals, rows.grams()) for rows in self.clusters(by, grams=True))

    def narrow(self, by: Axis) -> Iterator[tuple[NarrowClusters | None, Blocks]]:
        """Clusters of fewer rows than columns, where there are any, and blocks of the others."""
        return (rows.parted() for rows in self.clusters(by))

    def dominant(self, by: Axis | None, root: FloatArray, above: float) -> Leverages:
        """Leverages of the clusters (or rows) that add up to more than that, and what maps their eigenvectors to L_g's.

        Z_g R has as many rows as the cluster, and Z_g R R'Z_g' the eigenvalues of L_g = R'Z_g'Z_g R: the smaller is
        taken. The leverages of all clusters add up to k, so that at most k / above are found.
        """
        groups = self.rows_above(root, above) if by is None else self._clusters_above(by, root, above)
        for rows in groups:
            yield (rows @ rows.T, rows.T) if rows.shape[0] < rows.shape[1] else (rows.T @ rows, None)

    def _clusters_above(self, by: Axis, root: FloatArray, above: float) -> Iterator[FloatArray]:
        """Rows of each cluster that add up to more, times the root."""
        large = self.squares_by_cluster(by, root).sum(axis=1) > above
        for clusters in self.clusters(by) if large.any() else ():
            chosen = clusters.some(large[clusters.first : clusters.first + clusters.counts.size])
            if chosen.counts.size:
                yield from np.split(chosen.rows @ root, chosen.starts[1:-1])

    @abstractmethod
    def rows_above(self, root: FloatArray, above: float) -> Iterator[FloatArray]:
        """Rows of the data whose leverage is more than that, times the root, (1, k) each."""

    def squares_by_cluster(self, by: Axis, maps: FloatArray) -> FloatArray:
        """Sums of squares of the rows of each cluster times the maps, shape (n_clusters, m)."""
        return np.concatenate([clusters.squares(maps) for clusters in self.clusters(by)])

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

    def rows_above(self, root: FloatArray, above: float) -> Iterator[FloatArray]:
        """Rows whose leverage is more than that."""
        for turned in (_turned(rows, root) for rows in self._parts()):
            yield from (turned[[r]] for r in np.flatnonzero(np.einsum("rk,rk->r", turned, turned) > above))

    def row_influence(self, bread: Matrix) -> FloatArray:
        """Influence of each row, B's_r, shape (n_rows, n_params)."""
        B, influence = dense(bread), np.empty((self.n_rows, bread.shape[1]))
        for part in self.slices():
            influence[part] = self.score_rows(part) @ B
        return influence

    def rows_moving(self, bread: FloatArray) -> FloatArray:
        """Rows of the design that are not orthogonal to the bread of a parameter."""
        lengths = IN_SPAN * np.linalg.norm(bread, axis=0)
        moving = (np.abs(rows @ bread) > np.linalg.norm(rows, axis=1)[:, None] * lengths for rows in self._parts())
        return np.asarray(np.sum([part.sum(axis=0, dtype=np.float64) for part in moving], axis=0))

    def row_leverages(self, inverse_gram: FloatArray) -> FloatArray | None:
        """x'Mx of each row of the design."""
        forms = (np.einsum("rj,jk,rk->r", rows, inverse_gram, rows, optimize=True) for rows in self._parts())
        return np.concatenate(list(forms))

    def uncancelled(self, bread: Matrix) -> FloatArray:
        """Bounds of the sums of squares of the influence of rows if its parts did not cancel, shape (n_params,).

        |s_r|^2 |B|^2 (Cauchy and Schwarz): a part that is rounding itself does not make its product with B more exact.
        """
        lengths = sum(float(np.sum(self.score_rows(part) ** 2)) for part in self.slices())
        return np.asarray(lengths * np.sum(dense(bread) ** 2, axis=0))

    def slices(self) -> Iterator[slice]:
        """Rows in parts whose design, and three arrays more of its size, stay small."""
        return parts_of(self.n_rows, max(HELD // 4 // max(self.n_columns, 1), 1))

    def _parts(self) -> Iterator[FloatArray]:
        return (self.design_rows(part) for part in self.slices())


def _turned(rows: FloatArray, maps: FloatArray) -> FloatArray:
    return rows if is_identity(maps) else rows @ maps


def cluster_ranges(rows: FloatArray, k: int, grams: bool) -> Iterator[tuple[int, int]]:
    """Ranges of clusters of so many rows, shape (n_clusters,), of a design of k columns that are made at a time.

    With `grams`, k x k matrices of all of them fit too; clusters of as many rows as columns have room for theirs.
    """
    entries = np.cumsum((np.maximum(rows, k) if grams else rows) * k)
    ends = np.searchsorted(entries, np.arange(HELD // 4, entries[-1], HELD // 4), side="right")
    return pairwise(np.unique([0, *ends, rows.size]).tolist())


class ScoreRows(LabelledScores):
    """Scores row by row, as an array: (n_rows, n_columns), weighted, so that columns sum to zero."""

    values: FloatArray

    @property
    def n_columns(self) -> int:
        """Columns of the scores."""
        return int(self.values.shape[1])

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', by statsmodels."""
        return meat_of_rows(self.values, None if by is None else self.labels.codes(by), bread)


@dataclass(frozen=True, eq=False)
class InfluenceScores(ScoreRows):
    """Scores of any model; of its design nothing is known."""

    values: FloatArray
    labels: Labels
    # Weights of the rows in the fit; None where all are alike. The scores hold them already.
    weights: FloatArray | None = None

    def cells(self, by: Axis) -> Blocks:
        """Sums within clusters."""
        codes = self.labels.codes(by)
        totals = [np.bincount(codes.codes, column, codes.n_clusters) for column in self.values.T]
        return iter([Block(np.column_stack(totals), None)])

    def row_influence(self, bread: Matrix) -> FloatArray:
        """Influence of each row, B's_r, shape (n_rows, n_params)."""
        return self.values @ dense(bread)


@dataclass(frozen=True, eq=False)
class RowScores(RegressionScores, ScoreRows):
    """Scores of a regression as an array of rows, with its design."""

    values: FloatArray
    labels: Labels
    # Rows of the design scaled by the square root of the working weights, so that X_g'W X_g is the sum of squares of
    # its rows.
    design: FloatArray
    # Residuals on the scale of least squares, from which an intraclass correlation is computed.
    residual: FloatArray | None = None
    # Weights of the rows in the fit; None where all are alike. The scores hold them already.
    weights: FloatArray | None = None

    def design_rows(self, rows: slice) -> FloatArray:
        """Some rows of the design."""
        return self.design[rows]

    def score_rows(self, rows: slice) -> FloatArray:
        """Scores of some rows."""
        return self.values[rows]

    @property
    def reach(self) -> FloatArray:
        """The largest size of the entries of the design in each column."""
        return np.asarray(np.maximum(self.design.max(axis=0), -self.design.min(axis=0)))

    def squares_by_cluster(self, by: Axis, maps: FloatArray) -> FloatArray:
        """Sums of squares of the rows of each cluster times the maps, without their order."""
        codes = self.labels.codes(by)
        sums = np.zeros((codes.n_clusters, maps.shape[1]))
        for part in self.slices():
            for into, column in zip(sums.T, _turned(self.design[part], maps).T, strict=True):
                into += np.bincount(codes.codes[part], column**2, into.size)
        return sums

    def clusters(self, by: Axis, *, grams: bool = False) -> Iterator[Clusters]:
        """Rows of the clusters in their order."""
        codes = self.labels.codes(by)
        order, starts = codes.order
        for low, high in cluster_ranges(codes.counts.astype(float), self.n_columns, grams):
            rows, offsets = order[starts[low] : starts[high]], starts[low : high + 1] - starts[low]
            yield Clusters(low, sums_of_rows(self.values[rows], offsets), offsets, self.design[rows])


def meat_of_rows(values: FloatArray, codes: Codes | None, bread: Matrix) -> FloatArray:
    """Sum over clusters (None: rows) of (B' T_g)(B' T_g)' of the scores of rows, by statsmodels.

    Rows are mapped before they are squared: what a far score adds to several columns cancels in B's, where its squares
    would leave their rounding behind.
    """
    from statsmodels.stats.sandwich_covariance import S_crosssection, S_white_simple

    B = dense(bread)
    if codes is None:
        parts = parts_of(values.shape[0], max(HELD // 4 // max(values.shape[1], 1), 1))
        return sum_blocks(np.asarray(S_white_simple(values[part] @ B)) for part in parts)
    # Each column in one piece of memory, as it is summed.
    return np.asarray(S_crosssection((B.T @ values.T).T, codes.codes))


def sums_of_rows(rows: FloatArray, starts: IntArray) -> FloatArray:
    """Sums of sorted rows within clusters, which start there."""
    n = rows.shape[0]
    return np.asarray(in_rows(np.ones(n), np.arange(n), starts, (starts.size - 1, n)) @ rows)


def _product(first: FloatArray | None, second: FloatArray | None) -> FloatArray | None:
    """The product of numbers of rows, None being 1 in each."""
    if first is None or second is None:
        return second if first is None else first
    return first * second


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
        Numbers of the rows: a part of u is one of them less its centre, over its spread.
    centre, spread : ndarray, shape (n_numbers,)
        Of each of the numbers.
    largest : ndarray, shape (1 + n_numbers,)
        The largest size of each part of u, the first of which is 1.
    """

    n_rows: int
    cell: IntArray | None
    n_cells: int
    numbers: Sequence[FloatArray]
    centre: FloatArray
    spread: FloatArray
    largest: FloatArray

    def parts(self, rows: slice | IntArray) -> list[Any]:
        """The u of some rows, part by part, the first of which is 1."""
        scales = zip(self.numbers, self.centre, self.spread, strict=True)
        return [1.0, *((number[rows] - centre) / spread for number, centre, spread in scales)]

    def combined(self, rows: slice | IntArray, maps: FloatArray, *, size: bool = False) -> FloatArray:
        """u'F_c of some rows, for F of shape (n_cells, K) or (n_cells, K, m); with `size` |u|'|F_c|."""
        cell: Any = slice(0, 1) if self.cell is None else self.cell[rows]
        maps, parts = (np.abs(maps), map(np.abs, self.parts(rows))) if size else (maps, self.parts(rows))
        shaped = (np.reshape(part, (-1, *(1,) * (maps.ndim - 2))) for part in parts)
        n_rows = rows.size if isinstance(rows, np.ndarray) else rows.stop - rows.start
        return np.broadcast_to(sum(maps[cell, j] * part for j, part in enumerate(shaped)), (n_rows, *maps.shape[2:]))

    def sums(
        self, codes: Codes | None, weights: Sequence[FloatArray | None], outcome: FloatArray | None, level: float = 0.0
    ) -> tuple[FloatArray, FloatArray]:
        """Sums over the rows of each cell, or code, of w u u' and of w u (y - level); zero without outcomes.

        w is the product of the weights, None being 1. Shapes (n_codes, K, K) and (n_codes, K).
        """
        key, size = (self.cell, self.n_cells) if codes is None else (codes.codes, codes.n_clusters)
        K = len(self.numbers) + 1
        sums = np.zeros((K + 1, K, size))
        for rows in parts_of(self.n_rows, max(CACHED, size)):
            w = reduce(_product, (weight[rows] for weight in weights if weight is not None), None)
            u = [None, *self.parts(rows)[1:], None if outcome is None else outcome[rows] - level]
            weighted = [_product(w, part) for part in u]
            code = np.zeros(rows.stop - rows.start, np.intp) if key is None else key[rows].astype(np.intp, copy=False)
            for i in range(K + (outcome is not None)):
                for j in range(min(i + 1, K)):
                    sums[i, j] += np.bincount(code, _product(weighted[i], u[j]), size)
        above, below = np.triu_indices(K, 1)
        sums[above, below] = sums[below, above]
        by_code = np.ascontiguousarray(np.moveaxis(sums, 2, 0))
        return by_code[:, :K], by_code[:, K]

    def pair_sums(self, codes: Codes, weights: FloatArray | None, outcome: FloatArray, level: float) -> PairSums:
        """The same by (cluster, cell)."""
        C, cell = self.n_cells, self.cell
        present, pair = ordered(codes.codes if cell is None else codes.codes * C + cell)
        M, m = self.sums(Codes(pair, present.size), (weights,), outcome, level)
        cluster, of_pair = np.divmod(present, C)
        return PairSums(of_pair, starts_of(np.bincount(cluster, minlength=codes.n_clusters)), M, m)


def roots(M: FloatArray) -> FloatArray:
    """Upper triangles R with R'R = M, M (n, K, K) positive semi-definite; rows whose pivots are rounding are zero."""
    rest, R = M.copy(), np.zeros_like(M)
    for j in range(M.shape[1]):
        pivot = rest[:, j, j]
        known = pivot > SINGULAR * M[:, j, j]
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
    squares: FloatArray  # (n_pairs, K, K), of w u u'
    totals: FloatArray  # (n_pairs, K), of w u e

    def about(self, fitted: FloatArray) -> PairSums:
        """Sums of which the totals are of w u (e - u'F_c), fitted values having the shape (n_cells, K)."""
        return replace(self, totals=self.totals - np.einsum("pij,pj->pi", self.squares, fitted[self.cell]))

    def by_cell(self, n_cells: int) -> tuple[FloatArray, FloatArray]:
        """Squares and totals of all clusters together, (n_cells, K, K) and (n_cells, K)."""
        columns = np.column_stack([self.squares.reshape(self.cell.size, -1), self.totals]).T
        sums = np.array([np.bincount(self.cell, column, n_cells) for column in columns], dtype=np.float64).T
        K = self.totals.shape[1]
        return sums[:, : K**2].reshape(-1, K, K), sums[:, K**2 :]

    def some(self, low: int, high: int) -> PairSums:
        """Those of some of the clusters."""
        part = slice(self.starts[low], self.starts[high])
        starts = self.starts[low : high + 1] - self.starts[low]
        return PairSums(self.cell[part], starts, self.squares[part], self.totals[part])

    def by_cluster(self, sums: FloatArray, n_cells: int) -> Matrix:
        """Some sums of each pair, (n_pairs, m), side by side in their cells: sparse, (n_clusters, n_cells m)."""
        m, shape = sums.shape[1], (self.starts.size - 1, n_cells * sums.shape[1])
        return in_rows(sums.ravel(), ((self.cell * m)[:, None] + np.arange(m)).ravel(), self.starts * m, shape)


def totals_of(pairs: PairSums, basis: FloatArray) -> FloatArray:
    """Totals of the clusters in the columns of a basis, shape (n_clusters, m)."""
    totals = pairs.by_cluster(pairs.totals, basis.shape[0])
    return np.asarray((dense(totals) if faster_dense(totals) else totals) @ basis.reshape(-1, basis.shape[2]))


class SummedClusters(Clusters):
    """Clusters known by sums in cells, which with the basis are their source."""

    @cached_property
    def rows(self) -> FloatArray:
        """R B_c, R being the root of the squares that a cluster has in a cell."""
        pairs, basis = self.source
        return np.asarray((roots(pairs.squares) @ basis[pairs.cell]).reshape(-1, basis.shape[2]))

    def grams(self) -> FloatArray:
        """X_g'W X_g; where clusters meet many of the cells as the sums of w u u' times what each of them adds."""
        pairs, basis = self.source
        (n_cells, _, k), (i, j) = basis.shape, np.triu_indices(basis.shape[1])
        sums = pairs.by_cluster(pairs.squares[:, i, j] * np.where(i == j, 0.5, 1.0), n_cells)
        if not faster_dense(sums) or sums.shape[1] * k**2 > HELD:
            return super().grams()
        added = basis[:, i, :, None] * basis[:, j, None, :]
        added = (added + np.swapaxes(added, 2, 3)).reshape(-1, k**2)
        return np.asarray(dense(sums) @ added).reshape(-1, k, k)


class CellMoments(ByClusterRows):
    """Scores w e u'B_c of rows in cells, in memory or in an engine: their clusters are known by sums in cells."""

    # B, (n_cells, K, k).
    basis: FloatArray

    @property
    def n_columns(self) -> int:
        """Columns of the scores."""
        return int(self.basis.shape[2])

    @abstractmethod
    def pair_sums(self, by: Axis) -> Iterator[PairSums]:
        """Sums by (cluster, cell), some whole clusters at a time."""

    @abstractmethod
    def squared_errors(self) -> FloatArray:
        """Sums of w^2 e^2 u u' over the rows of each cell, (n_cells, K, K)."""

    def clusters(self, by: Axis, *, grams: bool = False) -> Iterator[Clusters]:
        """Rows with the squares and products of those of a cluster in a cell."""
        first, (_, K, k) = 0, self.basis.shape
        for pairs in self.pair_sums(by):
            totals = totals_of(pairs, self.basis)
            for low, high in cluster_ranges(np.diff(pairs.starts) * float(K), k, grams):
                some = pairs.some(low, high)
                yield SummedClusters(first + low, totals[low:high], some.starts * K, (some, self.basis))
            first += pairs.starts.size - 1

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', by statsmodels from the totals of the clusters."""
        from statsmodels.stats.sandwich_covariance import S_white_simple

        B = self.basis @ dense(bread)
        if by is None:  # the sum of (w e)^2 u u' over the rows of a cell is R'R
            return np.asarray(S_white_simple((roots(self.squared_errors()) @ B).reshape(-1, B.shape[2])))
        return sum_blocks(np.asarray(S_white_simple(totals_of(pairs, B))) for pairs in self.pair_sums(by))


@dataclass(frozen=True, eq=False)
class MomentScores(CellMoments, RegressionScores):
    """Scores w e u'B_c of rows in cells, in memory; e is the outcome less a level and what is fitted."""

    rows: CodedRows
    outcome: FloatArray
    basis: FloatArray
    labels: Labels
    weights: FloatArray | None = None
    level: float = 0.0
    # u'F_c of each row, and the sum of w e^2; None of what is no least squares, whose outcomes are the e.
    fitted: FloatArray | None = None
    ssr: float | None = None
    # Sums by (cluster, cell), of the outcome less the level.
    known: dict[Axis, PairSums] = field(default_factory=dict, repr=False)

    @held_property
    def error(self) -> FloatArray:
        """e of each row."""
        if self.fitted is None:
            return self.outcome
        error, F = self.outcome - self.level, self.fitted
        for block in parts_of(error.size):
            error[block] -= self.rows.combined(block, F)
        return without_rounding(error, self.outcome, lambda places: self.rows.combined(places, F, size=True))

    @held_property
    def residual(self) -> FloatArray | None:
        """e times the root of the weight."""
        if self.fitted is None or self.weights is None:
            return None if self.fitted is None else self.error
        return self.error * np.sqrt(self.weights)

    def design_rows(self, rows: slice) -> FloatArray:
        """Some rows of the design."""
        design = self.rows.combined(rows, self.basis)
        return design if self.weights is None else design * np.sqrt(self.weights[rows])[:, None]

    def score_rows(self, rows: slice) -> FloatArray:
        """Scores of some rows."""
        factor = self.error[rows] if self.weights is None else self.error[rows] * self.weights[rows]
        return self.rows.combined(rows, self.basis) * factor[:, None]

    def squared_errors(self) -> FloatArray:
        """Sums of w^2 e^2 u u' over the rows of each cell, (n_cells, K, K)."""
        return self.rows.sums(None, (self.error, self.error, self.weights, self.weights), None)[0]

    def dominant(self, by: Axis | None, root: FloatArray, above: float) -> Leverages:
        """As for rows; not looked for where the largest cluster with the farthest row would not reach that."""
        counts = 1 if by is None else int(self.labels.codes(by).counts.max())
        heaviest = 1.0 if self.weights is None else float(self.weights.max())
        far = np.einsum("j,cjk->ck", self.rows.largest, np.abs(self.basis @ root))
        if counts * heaviest * float(np.max(np.einsum("ck,ck->c", far, far))) > above:
            yield from super().dominant(by, root, above)

    @property
    def reach(self) -> FloatArray:
        """A bound of the size of the entries of the design in each column."""
        return np.asarray(np.max(np.einsum("j,cjk->ck", self.rows.largest, np.abs(self.basis)), axis=0))

    def pair_sums(self, by: Axis) -> Iterator[PairSums]:
        """Sums by (cluster, cell), made once."""
        if by not in self.known:
            self.known[by] = self.rows.pair_sums(self.labels.codes(by), self.weights, self.outcome, self.level)
            hold(self.known[by])
        yield self.known[by] if self.fitted is None else self.known[by].about(self.fitted)
