"""Scores in [0, 1] of models, question by question: means, and how much two models differ on shared questions."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.data.answers import TIED
from evalreg.data.clusters import Axis
from evalreg.errors import ArgumentError, ArgumentTypeError
from evalreg.numerics.matrices import (
    Matrix,
    absolute_entries,
    compressed,
    identity,
    of_columns,
    scale_columns,
    signs_of_entries,
)
from evalreg.scores.base import Scores
from evalreg.scores.score_interval import NullVariance, Unseen, null_variance, rarer_scores
from evalreg.scores.sums import Block

# Coefficients of a difference agree but for rounding.
ALIKE = 1e-12

Sides: TypeAlias = tuple[IntArray, IntArray, IntArray, FloatArray]
"""Contrasts that have a null variance, their two columns (-1: there is one only), and what multiplies them."""

Strata: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]
"""Mean, rows, and sum of squares about the mean of each stratum, shape (n_strata,) each."""


@dataclass(frozen=True, eq=False)
class UnitScores(ABC):
    """Scores in [0, 1] in columns that are means, or differences of two, and which contrasts have a null variance."""

    signed: ClassVar[bool]

    scores: Scores  # of an estimate
    # (n_columns,): mean of each column, its rows, and their sum of squares about it
    means: FloatArray
    count: FloatArray
    squares: FloatArray
    contrasts: Matrix  # (n_params, n_columns): the parameters as contrasts of the columns
    icc: float  # correlation that is granted within a cluster to what was not seen
    factor: FloatArray | None = field(default=None, kw_only=True)  # (n_columns,): 1 - n/N of a finite population
    stratified: bool = field(default=False, kw_only=True)  # whether strata are fixed, which lowers variances

    def drawn(self, factor: FloatArray) -> Self:
        """The same of a finite population, whose variances fall by 1 - n/N."""
        return replace(self, factor=factor)

    def linear(self, contrasts: Matrix) -> Self:
        """The same for contrasts of the parameters."""
        return replace(self, contrasts=compressed(contrasts) @ compressed(self.contrasts))

    def __getstate__(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)} | {"scores": self.scores.detached()}

    @abstractmethod
    def sides(self, contrasts: Matrix | None) -> Sides:
        """Which contrasts (None: the parameters) are means, or differences on the same questions."""

    def null_variance(self, sides: Sides, variance: FloatArray, axis: Axis | None) -> NullVariance:
        """V(x) of such contrasts, from their variances in clusters of an axis (None: independent rows)."""
        _, first, second, _ = sides
        n, theta = self.count[first], self._theta(first, second)
        size, square, unseen = self._moments(first, second, axis)
        spread = np.maximum(square - theta**2, 0.0) if self.signed else self.squares[first] / n
        factor = np.ones(n.size) if self.factor is None else self.factor[first]
        if self.stratified:
            naive = factor * spread / np.maximum(n - 1, 1)
            known = (variance > 0) & (naive > 0)
            factor = factor * np.where(known, np.minimum(variance / np.where(known, naive, 1.0), 1.0), 1.0)
        moments = theta, n, spread, size, square
        return null_variance(*moments, variance, unseen, self.icc, signed=self.signed, factor=factor)

    @property
    def covered(self) -> IntArray:
        """Which parameters have a null variance."""
        return self.sides(None)[0]

    def apart(self, contrasts: Matrix) -> IntArray:
        """Which contrasts are of two models that were not asked the same questions."""
        return np.setdiff1d(self._held(contrasts, 2)[1], self.sides(contrasts)[0])

    def _held(self, contrasts: Matrix | None, n_columns: int) -> tuple[Matrix, IntArray, IntArray]:
        """Contrasts of the columns, which of them hold so many, and where the entries of these start."""
        A = self._of_columns(contrasts)
        A.sum_duplicates()
        A.eliminate_zeros()
        rows = np.flatnonzero(np.diff(A.indptr) == n_columns)
        return A, rows, A.indptr[rows]

    def _of_columns(self, contrasts: Matrix | None) -> Matrix:
        """Contrasts of the parameters as contrasts of the columns; no other array shares the entries."""
        if contrasts is None:
            return self._compressed.copy()
        return of_columns(compressed(contrasts), self._compressed)

    @cached_property
    def _compressed(self) -> Matrix:
        return compressed(self.contrasts)

    @abstractmethod
    def _moments(self, first: IntArray, second: IntArray, axis: Axis | None) -> tuple[FloatArray, FloatArray, Unseen]:
        """Means of |d| and of d^2, and what the clusters did not show."""

    def _theta(self, first: IntArray, second: IntArray) -> FloatArray:
        return np.asarray(self.means[first] - np.where(second < 0, 0.0, self.means[second]))


@dataclass(frozen=True, eq=False)
class SingleMeans(UnitScores):
    """Columns are unweighted means; each has a null variance by itself."""

    signed = False

    def sides(self, contrasts: Matrix | None) -> Sides:
        """Contrasts that are one column."""
        A, rows, start = self._held(contrasts, 1)
        whole = np.abs(A.data[start] - 1.0) <= ALIKE
        rows, column = rows[whole], A.indices[start[whole]].astype(np.intp)
        return rows, column, np.full(rows.size, -1), np.ones(rows.size)

    def _moments(self, first: IntArray, second: IntArray, axis: Axis | None) -> tuple[FloatArray, FloatArray, Unseen]:
        """Of scores, and the rarer of successes and failures in each cluster."""
        mean = self.means[first]
        square = self.squares[first] / self.count[first] + mean**2
        if axis is None or not first.size:
            return mean, square, Unseen.of_rows(first.size)
        if axis not in self._unseen:
            self._unseen[axis] = self._unseen_in(axis)
        of = self._unseen[axis]
        return mean, square, Unseen(of.share[first], of.pairs[first])

    def _unseen_in(self, axis: Axis) -> Unseen:
        """What the clusters did not show of each column."""
        blocks = ((one.totals, rows_of(one)) for one in self.scores.as_means.cells(axis))
        return Unseen.of_clusters(rarer_scores(blocks, self.means))

    def beside(self, other: SingleMeans, scores: Scores) -> SingleMeans | None:
        """Means of both from their scores side by side; None where the two have not the same rule."""
        rules = [(type(one), one.icc, one.stratified, one.factor is None) for one in (self, other)]
        if rules[0] != rules[1] or self.factor is not None:
            return None
        parts = ((one.means, one.count, one.squares) for one in (self, other))
        means, count, squares = (np.concatenate(both) for both in zip(*parts, strict=True))
        contrasts = sparse.block_diag([self._compressed, other._compressed], format="csr")
        return SingleMeans(scores, means, count, squares, contrasts, self.icc, stratified=self.stratified)

    @cached_property
    def _unseen(self) -> dict[Axis, Unseen]:
        return {}


@dataclass(frozen=True, eq=False)
class StratifiedMeans(SingleMeans):
    """Columns are means over strata with known shares w_s; each has a null variance by itself.

    A column counts as n* = 1/sum(w_s^2/n_s) rows of variance s^2 = n* sum(w_s^2 s_s^2/n_s), Kish (1965), section 8.2.
    A stratum with k_s rows of the rarer kind did not show (1/2)/(1/2 + k_s) of its s_s^2; so much of it is the variance
    within the strata of its mean, pooled.
    """

    shares: Matrix = field(kw_only=True)  # (n_columns, n_strata): w_s
    strata: Strata = field(kw_only=True)

    @classmethod
    def of_strata(
        cls, scores: Scores, shares: Matrix, strata: Strata, icc: float, factor: FloatArray | float = 1.0
    ) -> StratifiedMeans:
        """From means, rows and squares of the strata; `factor` is 1 - n/N of each stratum of a finite population."""
        (mean, count, squares), w = strata, compressed(shares)
        inside, variances = absolute_entries(signs_of_entries(w)), _shares_of_variance(w, factor / count)
        pooled = (inside @ squares) / np.maximum(inside @ (count - 1), 1)
        unseen = 0.5 / (0.5 + count * np.minimum(mean, 1 - mean))
        total = np.asarray(variances.sum(axis=1)).ravel()
        own = (1 - unseen) * squares / np.maximum(count - 1, 1)
        n = 1 / total
        spread = n * (variances @ own + pooled * (variances @ unseen))
        contrasts = identity(n.size)
        return cls(scores, w @ mean, n, spread * (n - 1), contrasts, icc, shares=w, strata=(mean, count, squares))

    def drawn(self, factor: FloatArray) -> StratifiedMeans:
        """The same of strata of finite populations."""
        of = StratifiedMeans.of_strata(self.scores, self.shares, self.strata, self.icc, factor)
        return replace(of, contrasts=self.contrasts)

    def beside(self, other: SingleMeans, scores: Scores) -> SingleMeans | None:
        """Means over other strata are not put beside them."""
        return None

    def _unseen_in(self, axis: Axis) -> Unseen:
        """That of the strata, by their shares of the variance."""
        mean, count, _ = self.strata
        blocks = ((one.totals, rows_of(one)) for one in self.scores.as_means.cells(axis))
        of = Unseen.of_clusters(rarer_scores(blocks, mean))
        variances = _shares_of_variance(compressed(self.shares), 1 / count)
        total = np.asarray(variances.sum(axis=1)).ravel()
        return Unseen(variances @ of.share / total, variances @ of.pairs / total)


def _shares_of_variance(w: Matrix, inverse: FloatArray) -> Matrix:
    """w_s^2/n_s of each stratum, (n_columns, n_strata)."""
    return compressed(scale_columns(w.multiply(w), inverse))


def rows_of(block: Block) -> Matrix:
    """Rows of clusters in each cell; of a regression on a constant its one column's."""
    rows: Any = block.gram
    return rows[:, :, 0] if rows.ndim == 3 else rows


@dataclass(frozen=True, eq=False)
class Paired(UnitScores):
    """Scores that models have on the same questions: of columns that are means, or differences of two."""

    signed = True


class PairedQuestions(Paired):
    """The same of which the scores of each question are at hand."""

    @abstractmethod
    def _homes(self, axis: Axis) -> IntArray | None:
        """Cluster of each question; None where that is not known."""

    @abstractmethod
    def _present(self, first: IntArray) -> FloatArray | None:
        """Which questions the columns have, shape (m, n_questions); None where `_each` tells."""

    @abstractmethod
    def _each(self, first: IntArray, second: IntArray) -> Iterator[tuple[IntArray, FloatArray, BoolArray | None]]:
        """Differences by question, of a few contrasts at a time, and which questions they are (None: all)."""

    def _apart(self, axis: Axis | None) -> bool:
        """Whether each question is known to be a cluster of its own."""
        if axis is None:
            return True
        if axis not in self._apart_by_axis:
            home = self._homes(axis)
            self._apart_by_axis[axis] = home is None or np.unique(home).size == home.size
        return self._apart_by_axis[axis]

    @cached_property
    def _apart_by_axis(self) -> dict[Axis, bool]:
        return {}

    def _moments(self, first: IntArray, second: IntArray, axis: Axis | None) -> tuple[FloatArray, FloatArray, Unseen]:
        """Means of |d| and d^2, and questions that are not of the commonest of -1, 0 and 1 in each cluster."""
        sums, found = np.zeros((2, first.size)), Unseen.of_rows(first.size)
        if not first.size:  # No clusters are looked up in vain either.
            return sums[0], sums[1], found
        home = None if axis is None or self._apart(axis) else self._homes(axis)
        share, pairs = np.ones(first.size), np.zeros(first.size)
        for at, d, member in self._each(first, second):
            sums[:, at] = np.array([np.abs(d).sum(axis=1), np.einsum("mn,mn->m", d, d)]) / self.count[first[at]]
            if home is not None:
                own = home if member is None else home[member]
                one = Unseen.of_clusters([differing_in_clusters(d, self._present(first[at]), own)])
                share[at], pairs[at] = one.share, one.pairs
        return sums[0], sums[1], Unseen(share, pairs)


def differing_in_clusters(d: FloatArray, present: FloatArray | None, home: IntArray) -> tuple[FloatArray, FloatArray]:
    """Questions of clusters, and those not of the commonest of -1, 0 and 1 there, shape (n_clusters, m) each.

    Shapes: d and present (m, n_questions), present 1 for the questions of a pair (None: all); home (n_questions,).
    """
    order = np.argsort(home, kind="stable")
    starts = np.flatnonzero(np.diff(home[order], prepend=-1))
    d = d[:, order]

    def count(which: BoolArray) -> FloatArray:
        return np.add.reduceat(which, starts, axis=1, dtype=np.float64)

    if present is None:
        size = np.broadcast_to(np.diff(starts, append=home.size).astype(float), (d.shape[0], starts.size))
    else:
        size = np.add.reduceat(present[:, order], starts, axis=1)
    tied = size - count(np.abs(d) > TIED)
    commonest = np.maximum(tied, np.maximum(count(d > 1 - TIED), count(d < TIED - 1)))
    return size.T, (size - commonest).T


def checked_icc(icc: object, of: str = "differences") -> float | None:
    """Return `icc` if it is a number from 0 to 1, or None."""
    if icc is None:
        return None
    if isinstance(icc, bool) or not isinstance(icc, numbers.Real):
        raise ArgumentTypeError(f"`icc` must be a number from 0 to 1, or None; got {type(icc).__name__} {icc!r}.")
    if not 0 <= float(icc) <= 1:
        raise ArgumentError(
            f"`icc` must lie between 0 and 1: the correlation, within a cluster, of {of} that were not seen; "
            f"got {float(icc):g}. Leave it out for the default."
        )
    return float(icc)
