"""One rule for scores in [0, 1]: the variance of a mean or of a paired difference under the value that is tested.

A log of few failures shows neither how often others fail nor how failures go together. So the variance is that of the
log where it is now, and grows towards the value tested as the null variance of Wilson (means) and of Tango (paired
differences) does. In clusters the growth is multiplied by a design effect: the log's own where the log shows it, and a
granted one where it does not. Formulas on arrays come first, then what an estimate's scores put into them.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray, quotient
from evalreg.data.clusters import Axis
from evalreg.errors import ArgumentError, ArgumentTypeError
from evalreg.numerics.limits import EQUAL, HELD, LAST_DIGITS, ROUNDING
from evalreg.numerics.matrices import (
    Matrix,
    compressed,
    dense,
    identity,
    nonzero_entries,
    of_columns,
    scale_columns,
    squared_entries,
    sum_blocks,
    totals_of_columns,
)
from evalreg.scores.base import Block, Scores

# Correlation within a cluster that is granted to what was not seen: of scores, and of paired differences. Sourced in
# docs/decisions/score-interval.md, where 0 to .3 and .5 were simulated.
ICC_MEAN, ICC_DIFFERENCE = 0.2, 0.5
# Cochran (1954), Biometrics 10, 417-451: the fewest that are expected where a count is near normal.
FEW_EXPECTED = 5.0


@dataclass(frozen=True, eq=False)
class Unseen:
    """What clusters did not show of means of rows, summed over clusters; shape (m,).

    A cluster with k rows of the rarer kind did not show (1/2)/(1/2 + k) of it, Jeffreys' rule of succession.
    """

    share: FloatArray  # sum_g (n_g/n) unseen_g
    pairs: FloatArray  # sum_g (n_g/n) unseen_g (n_g - 1)

    @classmethod
    def of_clusters(cls, blocks: Iterable[tuple[FloatArray, FloatArray]]) -> Unseen:
        """From rows n_g and rows of the rarer kind k_g of clusters, shape (n_clusters, m) each, block by block."""
        n, share, pairs = 0.0, 0.0, 0.0
        for size, rarer in blocks:
            unseen = size * (0.5 / (0.5 + np.maximum(rarer, 0.0)))
            n = n + size.sum(axis=0)
            share = share + unseen.sum(axis=0)
            pairs = pairs + (unseen * (size - 1.0)).sum(axis=0)
        return cls(np.asarray(share / n), np.asarray(pairs / n))

    @classmethod
    def of_rows(cls, m: int) -> Unseen:
        """Where every row is a cluster of its own."""
        return cls(np.ones(m), np.zeros(m))

    def design_effect(self, icc: float, seen: FloatArray) -> FloatArray:
        """E = sum_g (n_g/n) [unseen_g (1 + icc (n_g - 1)) + (1 - unseen_g) seen]; Rao and Scott (1992)."""
        return np.asarray(self.share + icc * self.pairs + (1.0 - self.share) * seen)


def rarer_scores(
    blocks: Iterable[tuple[Matrix, Matrix]], mean: FloatArray, worth: FloatArray
) -> Iterable[tuple[FloatArray, FloatArray]]:
    """Rows of clusters, and the smaller of their sums of y and of 1 - y, from weighted totals of y - mean and weights.

    `worth` is how many rows a weight of 1 counts as, in each column.
    """
    for totals, weights in blocks:
        step = max(HELD // max(weights.shape[1], 1), 1)
        for first in range(0, weights.shape[0], step):
            size = dense(weights[first : first + step]) * worth
            total = dense(totals[first : first + step]) * worth + size * mean
            yield size, np.minimum(total, size - total)


@dataclass(frozen=True, eq=False)
class NullVariance:
    """Means theta of scores in [0, 1] or of paired differences in [-1, 1], and their variance V(x) under a value x.

    With v(x) what Wilson's or Tango's test takes for one row, V(x) = base + E (v(x) - v(theta))+ / n. The test of x is
    t(x) = (theta - x)/sqrt V(x), the interval holds what it does not reject. All arrays have shape (m,).

    Wilson (1927), JASA 22, 209-212; Tango (1998), Statistics in Medicine 17, 891-908; Rao and Scott (1992),
    Biometrics 48, 577-585.
    """

    theta: FloatArray
    n: FloatArray
    spread: FloatArray  # s^2, the variance of one row
    size: FloatArray  # M, the mean of |d|; of a mean that of the score
    square: FloatArray  # Q, the mean of d^2
    seen: FloatArray  # V, that of the covariance in use
    base: FloatArray  # V at theta, with what clusters that show little are taken to have
    effect: FloatArray  # E
    signed: BoolArray  # whether it is a difference
    # (m, 2, 4): mean, n, E and phi of both means of a difference that is not paired; NaN of anything else
    two: FloatArray

    @property
    def apart(self) -> BoolArray:
        """Whether it is a difference of two means that is not paired."""
        return ~np.isnan(self.two[:, 0, 0])

    @property
    def design_effect(self) -> FloatArray:
        """That of the log, at least 1."""
        naive = self.spread / np.maximum(self.n - 1, 1)
        return np.where(naive > 0, np.maximum(self.seen / np.where(naive > 0, naive, 1.0), 1.0), 1.0)

    @property
    def multiplied(self) -> bool:
        """Whether a design effect multiplies the growth of some variance, as in clusters of several rows."""
        return bool(np.any(self.effect > 1 + ROUNDING))

    @property
    def rarer(self) -> FloatArray:
        """Rows that tell: failures or successes, whichever are fewer; questions that differ, weighted by size."""
        side = np.minimum(self.theta, 1 - self.theta)
        level = self.n * quotient(side**2, self.spread + side**2, 0.0)
        differing = self.n * self.size**2 / np.where(self.square > 0, self.square, 1.0)
        mean, n, _, _ = np.moveaxis(self.two, -1, 0)
        of_pairs = np.minimum(differing, self.n * (1 - np.abs(self.theta)))
        of_two = np.min(n * np.minimum(mean, 1 - mean), axis=-1)
        return np.select([self.apart, self.signed], [of_two, of_pairs], level)

    def at(self, x: float | FloatArray) -> FloatArray:
        """V(x); x of shape (m,) or with rows of values."""
        apart = self.apart
        rules = (
            (apart, self._of_two_means),
            (self.signed & ~apart, self._of_difference),
            (~self.signed, self._of_mean),
        )
        rows, values = zip(*((rows, rule(x)) for rows, rule in rules if rows.any()), strict=True)
        return values[0] if len(values) == 1 else np.select(rows, values)

    def elsewhere(self, x: float | FloatArray) -> FloatArray:
        """What variances of other clusterings are multiplied by, whose design effects stay: v(x)/v(theta) of a mean."""
        now = self.theta * (1 - self.theta)
        with np.errstate(all="ignore"):
            ratio = np.maximum(x * (1 - x), 0.0) / np.where(now > 0, now, 1.0)
        return np.where(self.signed | (now <= 0), 1.0, ratio)

    def _of_mean(self, x: float | FloatArray) -> FloatArray:
        """By the v(x) of one row; where v falls all of V falls with it, as Wilson's."""
        growth = self.effect * np.maximum(self._of_row(x) - self._of_row(self.theta), 0.0) / self.n
        return np.asarray(self.base * np.minimum(self.elsewhere(x), 1.0) + growth)

    def _of_difference(self, x: float | FloatArray) -> FloatArray:
        """v(x) = jump R(x) - x^2, R(x) the likeliest mean |d| if the difference were x."""
        jump = (self.n * self.square + self.effect) / (self.n * self.size + self.effect)
        growth = jump * (self.rate(x) - self.size) - (x * x - self.theta**2)
        return np.asarray(self.base + self.effect * np.maximum(growth, 0.0) / self.n)

    def _of_two_means(self, x: float | FloatArray) -> FloatArray:
        """By the v of each mean, at the means that are likeliest if their difference were x."""
        growth = self._spread_of_two(likeliest_means(x, self.two)) - self._spread_of_two(self.two[..., 0])
        return np.asarray(self.base + np.maximum(growth, 0.0))

    def _spread_of_two(self, means: FloatArray) -> FloatArray:
        """Sum of E phi p (1 - p)/n over both means."""
        _, n, effect, phi = np.moveaxis(self.two, -1, 0)
        return np.asarray(np.sum(effect * phi * means * (1 - means) / n, axis=-1))

    def rate(self, x: float | FloatArray) -> FloatArray:
        """R(x), Tango's likeliest mean |d| where the mean d is x."""
        B, C = (2 - self.theta) * x - self.size, x * (1 - x) * (self.size - self.theta) / 2
        return np.asarray(x + (np.sqrt(np.maximum(B * B + 8 * C, 0.0)) - B) / 2)

    @property
    def bounds(self) -> tuple[FloatArray, float]:
        """The least and the largest value that there can be."""
        return np.where(self.signed, -1.0, 0.0), 1.0

    def if_true(self, x: float | FloatArray) -> NullVariance:
        """What a log of these sizes and this dependence would show were x the true value."""
        x = np.broadcast_to(np.asarray(x, dtype=np.float64), self.theta.shape)
        jump = np.where(self.size > 0, self.square / np.where(self.size > 0, self.size, 1.0), 1.0)
        size = np.where(self.signed, np.maximum(self.rate(x), np.abs(x)), x)
        square = np.where(self.signed, np.maximum(jump * size, x**2), x)
        spread = np.where(self.signed, square - x**2, self._of_row(x))
        two = self.two.copy()
        if self.apart.any():
            two[..., 0] = likeliest_means(x, self.two)
            now = self._spread_of_two(self.two[..., 0])
            ratio = self._spread_of_two(two[..., 0]) / np.where(now > 0, now, 1.0)
            of_two = np.where(now > 0, self.spread, np.maximum(self.n - 1, 1) / self.effect) * ratio
            spread = np.where(self.apart, of_two, spread)
        naive = self.spread / np.maximum(self.n - 1, 1)
        effect = np.where(naive > 0, self.base / np.where(naive > 0, naive, 1.0), self.effect)
        variance = effect * np.maximum(spread, 0.0) / np.maximum(self.n - 1, 1)
        return replace(self, theta=x, spread=spread, size=size, square=square, seen=variance, base=variance, two=two)

    def _of_row(self, x: float | FloatArray) -> FloatArray:
        """v(x) = phi x (1 - x), phi = s^2/(theta (1 - theta))."""
        now = self.theta * (1 - self.theta)
        phi = np.where((now > 0) & (self.spread > 0), self.spread / np.where(now > 0, now, 1.0), 1.0)
        return np.asarray(phi * x * (1 - x))

    def grown(self, factor: float) -> NullVariance:
        """The same rates on so many times the rows, in so many times the clusters."""
        two = self.two * [1.0, factor, 1.0, 1.0]
        return replace(self, n=self.n * factor, seen=self.seen / factor, base=self.base / factor, two=two)

    @classmethod
    def of_two(cls, first: NullVariance, second: NullVariance, naive: FloatArray) -> NullVariance:
        """That of the differences of two means; `naive` is their variance were rows independent."""
        parts, none = (first, second), np.zeros(naive.size)
        two = np.stack([np.stack([p.theta, p.n, p.effect, 4 * p._of_row(0.5)], axis=-1) for p in parts], axis=1)
        n, seen, base = (sum(values) for values in zip(*((p.n, p.seen, p.base) for p in parts), strict=True))
        effect, theta = np.maximum(first.effect, second.effect), first.theta - second.theta
        return cls(theta, n, naive * np.maximum(n - 1, 1), none, none, seen, base, effect, none == 0, two)

    @classmethod
    def joined(cls, parts: Iterable[NullVariance]) -> NullVariance:
        """Those of all parts, one after the other."""
        columns = zip(*([getattr(part, f.name) for f in fields(cls)] for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))


def not_of_two(m: int) -> FloatArray:
    """What `NullVariance.two` is of means, and of paired differences."""
    return np.full((m, 2, 4), np.nan)


def likeliest_means(x: float | FloatArray, two: FloatArray) -> FloatArray:
    """Means that are likeliest where the first less the second is x, shape (..., m, 2), from rows of `two`.

    The second is a root of a cubic; Miettinen and Nurminen (1985), Statistics in Medicine 4, 213-226, appendix, of
    counts that are divided by their design effects.
    """
    mean, n = two[..., 0], two[..., 1] / two[..., 2]
    total, successes, n2, wins = n.sum(axis=-1), (n * mean).sum(axis=-1), n[:, 1], n[:, 1] * mean[:, 1]
    a = ((total + n2) * x - total - successes) / (3 * total)
    b = ((n2 * x - total - 2 * wins) * x + successes) / (3 * total)
    c = wins * x * (1 - x) / total
    shift = np.sqrt(np.maximum(a * a - b, 0.0))
    cosine = (a**3 - 1.5 * a * b + c / 2) / np.where(shift > 0, shift, 1.0) ** 3
    second = 2 * shift * np.cos((np.pi + np.arccos(np.clip(cosine, -1, 1))) / 3) - a
    second = np.clip(second, np.maximum(0, -x), np.minimum(1, 1 - x))
    return np.stack([second + x, second], axis=-1)


def null_variance(
    theta: FloatArray,
    n: FloatArray,
    spread: FloatArray,
    size: FloatArray,
    square: FloatArray,
    variance: FloatArray,
    unseen: Unseen,
    icc: float,
    *,
    signed: bool,
    factor: FloatArray | float = 1.0,
    left: FloatArray | float = 1.0,
) -> NullVariance:
    """V(x) of means or of paired differences, from the variance V of the covariance in use (0 where there is none).

    `factor` is that of a finite population, 1 - n/N; `left` is what a difference leaves of a mean's variance. Where no
    row varies and the value is not at an end, the spread of 0/1 trials is supposed: never an interval of no width.
    """
    level = np.abs(theta) if signed else theta
    supposed = (spread < LAST_DIGITS) & (level > 0) & (level < 1)
    spread = np.where(supposed, level - level**2, np.where(spread < LAST_DIGITS, 0.0, spread))
    seen = np.where(variance > 0, variance, 0.0)
    naive = factor * spread / np.maximum(n - 1, 1)
    ratio = np.where((naive > 0) & ~supposed, seen / np.where(naive > 0, naive, 1.0), 1.0)
    effect = unseen.design_effect(icc, np.maximum(ratio, 1.0)) * factor
    grown = seen + unseen.share * np.maximum(left * naive - seen, 0.0)
    base = np.where(supposed, np.maximum(effect * spread / n, seen), grown)
    kind = np.full(theta.shape, signed), not_of_two(theta.size)
    return NullVariance(theta, n, spread, size, square, seen, base, effect, *kind)


Sides: TypeAlias = tuple[IntArray, IntArray, IntArray, FloatArray]
"""Contrasts that have a null variance, their two columns (-1: there is one only), and what multiplies them."""

Strata: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]
"""Mean, rows, and sum of squares about the mean of each stratum, shape (n_strata,) each; weighted: n* and n* s^2."""


@dataclass(frozen=True, eq=False)
class UnitScores(ABC):
    """Scores in [0, 1] in columns that are means, or differences of two, and which contrasts have a null variance."""

    signed: ClassVar[bool]

    scores: Scores  # of an estimate
    means: FloatArray  # (n_columns,)
    count: FloatArray  # (n_columns,): rows of each
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
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"scores": self.scores.detached()}

    @abstractmethod
    def sides(self, contrasts: Matrix | None) -> Sides:
        """Which contrasts (None: the parameters) are means, or differences on the same questions."""

    def null_variance(
        self, sides: Sides, variance: FloatArray, axis: Axis | None, left: FloatArray | float = 1.0
    ) -> NullVariance:
        """V(x) of such contrasts, from their variances in clusters of an axis (None: independent rows)."""
        _, first, second, _ = sides
        n, theta = self.count[first], self.means[first] - np.where(second < 0, 0.0, self.means[second])
        size, spread, unseen = self._moments(first, second, theta, axis)
        factor = np.ones(n.size) if self.factor is None else self.factor[first]
        if self.stratified:
            naive = factor * spread / np.maximum(n - 1, 1)
            known = (variance > 0) & (naive > 0)
            factor = factor * np.where(known, np.minimum(variance / np.where(known, naive, 1.0), 1.0), 1.0)
        moments = theta, n, spread, size, spread + theta**2
        return null_variance(*moments, variance, unseen, self.icc, signed=self.signed, factor=factor, left=left)

    def apart(self, contrasts: Matrix) -> IntArray:
        """Which contrasts are of two models that were not asked the same questions."""
        return np.setdiff1d(self._held(contrasts, 2)[1], self.sides(contrasts)[0])

    def _held(self, contrasts: Matrix | None, n_columns: int) -> tuple[Matrix, IntArray, IntArray]:
        """Contrasts of the columns, which of them hold so many, and where the entries of these start."""
        # No other array shares the entries.
        A = self._compressed.copy() if contrasts is None else of_columns(compressed(contrasts), self._compressed)
        A.sum_duplicates()
        A.eliminate_zeros()
        rows = np.flatnonzero(np.diff(A.indptr) == n_columns)
        return A, rows, A.indptr[rows]

    def differences(self, contrasts: Matrix | None) -> Sides:
        """Contrasts that are multiples of the difference of two columns."""
        A, rows, start = self._held(contrasts, 2)
        at = start[:, None] + np.arange(2)
        value, column = A.data[at], A.indices[at].astype(np.intp)
        opposite = np.abs(value.sum(axis=1)) <= ROUNDING * np.abs(value).sum(axis=1)
        return rows[opposite], column[opposite, 0], column[opposite, 1], value[opposite, 0]

    @cached_property
    def _compressed(self) -> Matrix:
        return compressed(self.contrasts)

    @abstractmethod
    def _moments(
        self, first: IntArray, second: IntArray, theta: FloatArray, axis: Axis | None
    ) -> tuple[FloatArray, FloatArray, Unseen]:
        """Means of |d|, variances of the rows, and what the clusters did not show."""


@dataclass(frozen=True, eq=False)
class SingleMeans(UnitScores):
    """Columns are means, each with a null variance by itself.

    A weighted mean counts as n* = (sum w)^2/sum w^2 rows, and a weight as its part of these; Kish (1965), section 8.2.
    """

    signed = False

    squares: FloatArray  # (n_columns,): n* times the variance of one row
    weight: FloatArray  # (n_cells,): sum of the weights
    # whether models are scored against each other, where what one wins another loses: no difference is of two means
    opposed: bool = field(default=False, kw_only=True)

    def sides(self, contrasts: Matrix | None) -> Sides:
        """Contrasts that are one column."""
        A, rows, start = self._held(contrasts, 1)
        whole = np.abs(A.data[start] - 1.0) <= ROUNDING
        rows, column = rows[whole], A.indices[start[whole]].astype(np.intp)
        return rows, column, np.full(rows.size, -1), np.ones(rows.size)

    def _moments(
        self, first: IntArray, second: IntArray, theta: FloatArray, axis: Axis | None
    ) -> tuple[FloatArray, FloatArray, Unseen]:
        """Of scores, and the rarer of successes and failures in each cluster."""
        moments = theta, self.squares[first] / self.count[first]
        if axis is None or not first.size:
            return *moments, Unseen.of_rows(first.size)
        if axis not in self._unseen:
            self._unseen[axis] = self._unseen_in(axis)
        of = self._unseen[axis]
        return *moments, Unseen(of.share[first], of.pairs[first])

    @property
    def cell_count(self) -> FloatArray:
        """Rows that the cells of which the means are made count as."""
        return self.count

    def variances(self, axis: Axis | None) -> tuple[FloatArray, FloatArray]:
        """CR0 variances of the columns in clusters of an axis, and those of independent rows."""
        factor = 1.0 if self.factor is None else self.factor
        naive = np.asarray(factor * self.squares / self.count / np.maximum(self.count - 1, 1))
        if axis is None:
            return naive, naive
        totals = (scale_columns(block.totals, 1 / self.weight) for block in self.scores.cells(axis))
        squares = (squared_entries(compressed(self._in_columns(block))) for block in totals)
        return sum_blocks(totals_of_columns(block) for block in squares), naive

    def _in_columns(self, rows: Matrix) -> Matrix:
        """What clusters have in each column, from what they have in the cells."""
        return rows

    def _unseen_in(self, axis: Axis) -> Unseen:
        """What the clusters did not show of each column."""
        return self._rarer_in(axis, self.means)

    def _rarer_in(self, axis: Axis, means: FloatArray) -> Unseen:
        blocks = ((block.totals, rows_of(block)) for block in self.scores.cells(axis))
        return Unseen.of_clusters(rarer_scores(blocks, means, self.cell_count / self.weight))

    def beside(self, other: SingleMeans, stacked: Any) -> SingleMeans | None:
        """Means of both, their scores in place of what is `stacked`; None where the two have not the same rule."""
        rules = [(type(part), part.icc, part.stratified, part.opposed, part.factor is None) for part in (self, other)]
        if rules[0] != rules[1] or self.factor is not None:
            return None
        parts = ((part.means, part.count, part.squares, part.weight) for part in (self, other))
        means, count, *more = (np.concatenate(both) for both in zip(*parts, strict=True))
        contrasts = sparse.block_diag([self._compressed, other._compressed], format="csr")
        scores = replace(stacked, first=self.scores, second=other.scores)
        beside = SingleMeans(scores, means, count, contrasts, self.icc, *more, stratified=self.stratified)
        return replace(beside, opposed=self.opposed)

    @cached_property
    def _unseen(self) -> dict[Axis, Unseen]:
        return {}


@dataclass(frozen=True, eq=False)
class UnpairedMeans:
    """Differences of two means that are not over the same questions, by the variances of both."""

    signed = True

    single: SingleMeans
    paired: Paired | None

    def apart(self, contrasts: Matrix) -> IntArray:
        """Which contrasts are none of these."""
        return np.setdiff1d(np.arange(contrasts.shape[0]), self.sides(contrasts)[0])

    def sides(self, contrasts: Matrix | None) -> Sides:
        """Contrasts that are multiples of such differences, and not of the same questions; the larger mean first."""
        rows, first, second, scale = self.single.differences(contrasts)
        if self.paired is not None and rows.size:
            apart = ~np.isin(rows, self.paired.sides(contrasts)[0])
            rows, first, second, scale = rows[apart], first[apart], second[apart], scale[apart]
        turned = self.single.means[first] < self.single.means[second]
        return rows, *np.where(turned, (second, first), (first, second)), np.where(turned, -scale, scale)

    def null_variance(self, sides: Sides, variance: FloatArray, axis: Axis | None) -> NullVariance:
        """V(x) from the variances of the differences in clusters of an axis (None: independent rows).

        Each mean has its part of the variance, in proportion to what its own clusters add to it; what clusters have in
        common is left out of what they are taken to have at least, too.
        """
        rows, first, second, scale = sides
        columns, alone = np.array([first, second]), np.full(rows.size, -1)
        clustered, naive = (of[columns] for of in self.single.variances(axis))
        total = clustered.sum(axis=0)
        left = np.where(total > 0, variance / np.where(total > 0, total, 1.0), 1.0)
        nulls = [
            self.single.null_variance((rows, column, alone, scale), part, axis, np.minimum(left, 1.0))
            for column, part in zip(columns, clustered * left, strict=True)
        ]
        return NullVariance.of_two(nulls[0], nulls[1], naive.sum(axis=0))


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
        cls, scores: Scores, shares: Matrix, strata: Strata, icc: float, weight: FloatArray, factor: Any = 1.0
    ) -> StratifiedMeans:
        """From means, rows and squares of the strata; `factor` is 1 - n/N of each stratum of a finite population."""
        w = compressed(shares)
        n, squares = rows_over_strata(w, strata, factor)
        return cls(scores, w @ strata[0], n, identity(n.size), icc, squares, weight, shares=w, strata=strata)

    def drawn(self, factor: FloatArray) -> StratifiedMeans:
        """The same of strata of finite populations."""
        of = StratifiedMeans.of_strata(self.scores, self.shares, self.strata, self.icc, self.weight, factor)
        return replace(of, contrasts=self.contrasts)

    def beside(self, other: SingleMeans, stacked: Any) -> SingleMeans | None:
        """Means over other strata are not put beside them."""
        return None

    @property
    def cell_count(self) -> FloatArray:
        """Rows of the strata."""
        return self.strata[1]

    def _in_columns(self, rows: Matrix) -> Matrix:
        """By the shares of the strata."""
        return compressed(rows) @ self.shares.T

    def _unseen_in(self, axis: Axis) -> Unseen:
        """That of the strata, by their shares of the variance."""
        mean, count, _ = self.strata
        of = self._rarer_in(axis, mean)
        variances = _shares_of_variance(compressed(self.shares), 1 / count)
        total = np.asarray(variances.sum(axis=1)).ravel()
        return Unseen(variances @ of.share / total, variances @ of.pairs / total)


def rows_over_strata(w: Matrix, strata: Strata, factor: Any = 1.0) -> tuple[FloatArray, FloatArray]:
    """n* and n* s^2 of means over strata with the shares w, (n_columns, n_strata), as `StratifiedMeans` has them."""
    mean, count, squares = strata
    inside, variances = nonzero_entries(w), _shares_of_variance(w, factor / count)
    pooled = (inside @ squares) / np.maximum(inside @ (count - 1), 1)
    unseen = 0.5 / (0.5 + count * np.minimum(mean, 1 - mean))
    within = (1 - unseen) * squares / np.maximum(count - 1, 1)
    n = 1 / np.asarray(variances.sum(axis=1)).ravel()
    return n, n * (variances @ within + pooled * (variances @ unseen)) * (n - 1)


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

    def _moments(
        self, first: IntArray, second: IntArray, theta: FloatArray, axis: Axis | None
    ) -> tuple[FloatArray, FloatArray, Unseen]:
        """Of differences, and questions that are not of the commonest of -1, 0 and 1 in each cluster."""
        (size, square), of_rows = np.zeros((2, first.size)), Unseen.of_rows(first.size)
        if not first.size:  # No clusters are looked up in vain either.
            return size, square, of_rows
        home = None if axis is None or self._apart(axis) else self._homes(axis)
        share, pairs = np.ones(first.size), np.zeros(first.size)
        for at, d, member in self._each(first, second):
            n = self.count[first[at]]
            size[at], square[at] = np.abs(d).sum(axis=1) / n, np.einsum("mn,mn->m", d, d) / n
            if home is not None:
                cluster = home if member is None else home[member]
                unseen = Unseen.of_clusters([differing_in_clusters(d, self._present(first[at]), cluster)])
                share[at], pairs[at] = unseen.share, unseen.pairs
        return size, np.maximum(square - theta**2, 0.0), Unseen(share, pairs)


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
    tied = size - count(np.abs(d) > EQUAL)
    commonest = np.maximum(tied, np.maximum(count(d > 1 - EQUAL), count(d < EQUAL - 1)))
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


def refuse_idle_icc(icc: float | None, usual: float, scored: object, of: str) -> None:
    """Raise where another `icc` than the usual one is asked for, and no score interval takes it."""
    if scored is None and icc not in (None, usual):
        raise ArgumentError(
            f"`icc` belongs to the score interval of {of} of scores in [0, 1]; this result has none, so that "
            f"icc={icc:g} would have no effect. Leave it out.",
            parameter="icc",
        )
