"""One rule for scores in [0, 1]: the variance of a mean or of a paired difference under the value that is tested.

A log of few failures shows neither how often others fail nor how failures go together. So the variance is that of the
log where it is now, and grows towards the value tested as the null variance of Wilson (means) and of Tango (paired
differences) does. In clusters the growth is multiplied by a design effect: the log's own where the log shows it, and a
granted one where it does not. Formulas on arrays come first, then what an estimate's scores put into them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray, checked_number, quotient
from evalreg.data.clusters import Axis
from evalreg.errors import ArgumentError
from evalreg.numerics.limits import EQUAL, HELD, LAST_DIGITS, ROUNDING
from evalreg.numerics.matrices import (
    Matrix,
    compressed,
    dense,
    identity,
    nonzero_entries,
    of_columns,
    parts_of,
    scale_columns,
    scale_rows,
    squared_entries,
    sum_blocks,
    totals_of_columns,
    with_entries,
    without_zeros,
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
    def of_clusters(cls, blocks: Iterable[tuple[FloatArray, FloatArray, FloatArray]]) -> Unseen:
        """From what clusters add to the variance of independent rows (as n_g), n_g and k_g, (n_clusters, m) each.

        Block by block.
        """
        total, share, pairs = 0.0, 0.0, 0.0
        for part, size, rarer in blocks:
            unseen = part * (0.5 / (0.5 + np.maximum(rarer, 0.0)))
            total = total + part.sum(axis=0)
            share = share + unseen.sum(axis=0)
            pairs = pairs + (unseen * (size - 1.0)).sum(axis=0)
        return cls(np.asarray(share / total), np.asarray(pairs / total))

    @classmethod
    def of_rows(cls, m: int) -> Unseen:
        """Where every row is a cluster of its own."""
        return cls(np.ones(m), np.zeros(m))

    def design_effect(self, icc: float, seen: FloatArray) -> FloatArray:
        """E = sum_g (n_g/n) [unseen_g (1 + icc (n_g - 1)) + (1 - unseen_g) seen]; Rao and Scott (1992)."""
        return self.share + icc * self.pairs + (1.0 - self.share) * seen


def rarer_scores(
    blocks: Iterable[tuple[Matrix, Matrix]], shares: Matrix
) -> Iterable[tuple[FloatArray, FloatArray, FloatArray]]:
    """Parts of clusters in the variance, their rows, and those of the rarer kind, shape (n_clusters, m) each.

    From scores and rows of clusters in cells, and what a row of each cell counts in each mean, shape (m, n_cells): of
    the rows of a cluster that count a_i it has (sum a)^2/sum a^2; Kish (1965), section 8.2.
    """
    counted, squares = shares.T.tocsr(), squared_entries(shares).T.tocsr()
    for scores, rows in blocks:
        rarer = compressed(rows - abs(2 * scores - rows)) / 2
        for at in parts_of(rows.shape[0], max(HELD // max(shares.shape[0], 1), 1)):
            part, weight = dense(rows[at] @ squares), dense(rows[at] @ counted)
            size = quotient(weight**2, part, 0.0)
            yield part, size, size * quotient(dense(rarer[at] @ counted), weight, 0.0)


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
        return np.maximum(quotient(self.seen, self.naive, 1.0), 1.0)

    @property
    def naive(self) -> FloatArray:
        """The variance were rows independent."""
        return self.spread / np.maximum(self.n - 1, 1)

    @property
    def multiplied(self) -> bool:
        """Whether a design effect multiplies the growth of some variance, as in clusters of several rows."""
        return bool(np.any(self.effect > 1 + ROUNDING))

    @property
    def rarer(self) -> FloatArray:
        """Rows that tell: failures or successes, whichever are fewer; questions that differ, weighted by size."""
        side = np.minimum(self.theta, 1 - self.theta)
        level = self.n * quotient(side**2, self.spread + side**2, 0.0)
        differing = self.n * quotient(self.size**2, self.square, 0.0)
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
        return self.base * np.minimum(self.elsewhere(x), 1.0) + growth

    def _of_difference(self, x: float | FloatArray) -> FloatArray:
        """v(x) = jump R(x) - x^2, R(x) the likeliest mean |d| if the difference were x."""
        jump = (self.n * self.square + self.effect) / (self.n * self.size + self.effect)
        growth = jump * (self.rate(x) - self.size) - (x * x - self.theta**2)
        return self.base + self.effect * np.maximum(growth, 0.0) / self.n

    def _of_two_means(self, x: float | FloatArray) -> FloatArray:
        """By the v of each mean, at the means that are likeliest if their difference were x."""
        growth = self._spread_of_two(likeliest_means(x, self.two)) - self._spread_of_two(self.two[..., 0])
        return self.base + np.maximum(growth, 0.0)

    def _spread_of_two(self, means: FloatArray) -> FloatArray:
        """Sum of E phi p (1 - p)/n over both means."""
        _, n, effect, phi = np.moveaxis(self.two, -1, 0)
        return np.asarray(np.sum(effect * phi * means * (1 - means) / n, axis=-1))

    def rate(self, x: float | FloatArray) -> FloatArray:
        """R(x), Tango's likeliest mean |d| where the mean d is x."""
        B, C = (2 - self.theta) * x - self.size, x * (1 - x) * (self.size - self.theta) / 2
        return x + (np.sqrt(np.maximum(B * B + 8 * C, 0.0)) - B) / 2

    @property
    def bounds(self) -> tuple[FloatArray, float]:
        """The least and the largest value that there can be."""
        return np.where(self.signed, -1.0, 0.0), 1.0

    def if_true(self, x: float | FloatArray) -> NullVariance:
        """What a log of these sizes and this dependence would show were x the true value."""
        x = np.broadcast_to(np.asarray(x, dtype=np.float64), self.theta.shape)
        jump = quotient(self.square, self.size, 1.0)
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
        effect = quotient(self.base, self.naive, self.effect)
        variance = effect * np.maximum(spread, 0.0) / np.maximum(self.n - 1, 1)
        return replace(self, theta=x, spread=spread, size=size, square=square, seen=variance, base=variance, two=two)

    def _of_row(self, x: float | FloatArray) -> FloatArray:
        """v(x) = phi x (1 - x), phi = s^2/(theta (1 - theta))."""
        now = self.theta * (1 - self.theta)
        phi = np.where(self.spread > 0, quotient(self.spread, now, 1.0), 1.0)
        return phi * x * (1 - x)

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
) -> NullVariance:
    """V(x) of means or of paired differences, from the variance V of the covariance in use (0 where there is none).

    `factor` is that of a finite population, 1 - n/N. Where no row varies and the value is not at an end, the spread of
    0/1 trials is supposed: never an interval of no width.
    """
    level = np.abs(theta) if signed else theta
    supposed = (spread < LAST_DIGITS) & (level > 0) & (level < 1)
    spread = np.where(supposed, level - level**2, np.where(spread < LAST_DIGITS, 0.0, spread))
    seen = np.where(variance > 0, variance, 0.0)
    naive = factor * spread / np.maximum(n - 1, 1)
    ratio = np.where(supposed, 1.0, quotient(seen, naive, 1.0))
    effect = unseen.design_effect(icc, np.maximum(ratio, 1.0)) * factor
    grown = seen + unseen.share * np.maximum(naive - seen, 0.0)
    base = np.where(supposed, np.maximum(effect * spread / n, seen), grown)
    kind = np.full(theta.shape, signed), not_of_two(theta.size)
    return NullVariance(theta, n, spread, size, square, seen, base, effect, *kind)


@dataclass(frozen=True, eq=False)
class Sides:
    """Contrasts that have a null variance: multiples of a mean, or of the difference of two.

    Means are numbered: the columns first, then `shared`, those that have shares of several columns.
    """

    rows: IntArray  # which of the contrasts
    first: IntArray
    second: IntArray  # -1 where there is one only
    scale: FloatArray  # what multiplies the mean or the difference
    shared: Matrix  # (n_shared, n_columns): w_s, which sum to 1

    def chosen(self, which: BoolArray) -> Sides:
        """Some of them."""
        return Sides(self.rows[which], self.first[which], self.second[which], self.scale[which], self.shared)

    def of_mean(self, number: IntArray) -> Sides:
        """Such means in place of the differences."""
        return replace(self, first=number, second=np.full(number.size, -1))

    @classmethod
    def of_signs(cls, A: Matrix, *, signed: bool) -> Sides:
        """Rows of A whose entries have one sign; `signed`: whose entries above 0 sum to what those below do."""
        above, below = (without_zeros(with_entries(A, np.maximum(sign * A.data, 0.0))) for sign in (1.0, -1.0))
        up, down = (side.sum(axis=1) for side in (above, below))
        which = np.abs(up - down) <= ROUNDING * (up + down) if signed else (up == 0) != (down == 0)
        rows = np.flatnonzero(which & (up + down > 0))
        size = np.where(signed, up, up + down)[rows]
        parts = [above[rows], below[rows]] if signed else [compressed(above + below)[rows]]
        number, shared = _numbered([compressed(scale_rows(part, 1 / size)) for part in parts])
        second = number[rows.size :] if signed else np.full(rows.size, -1)
        scale = size if signed else np.where(up[rows] > 0, size, -size)
        return cls(rows, number[: rows.size], second, scale, shared)


def _numbered(parts: list[Matrix]) -> tuple[IntArray, Matrix]:
    """Numbers of means with such shares, one after the other, and the distinct ones of several columns."""
    shares = compressed(sparse.vstack(parts))
    shares.sort_indices()
    start, length = shares.indptr[:-1], np.diff(shares.indptr)
    alone = length == 1
    number = np.full(length.size, shares.shape[1], dtype=np.intp)
    number[alone] = shares.indices[start[alone]]
    several, seen = np.flatnonzero(~alone), dict[bytes, int]()
    for row in several.tolist():
        at = slice(shares.indptr[row], shares.indptr[row + 1])
        key = shares.indices[at].tobytes() + shares.data[at].tobytes()
        number[row] += seen.setdefault(key, len(seen))
    _, place = np.unique(number[several], return_index=True)
    return number, shares[several[place]]


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

    def null_variance(self, sides: Sides, variance: FloatArray, axis: Axis | None) -> NullVariance:
        """V(x) of such contrasts, from their variances in clusters of an axis (None: independent rows)."""
        first, second = sides.first, sides.second
        means, count, factor = self._columns(sides.shared)
        n, factor, theta = count[first], factor[first], means[first] - np.where(second < 0, 0.0, means[second])
        size, spread, unseen = self._moments(sides, theta, axis)
        moments, factor = (theta, n, spread, size, spread + theta**2), factor * self._within(sides, theta, spread)
        return null_variance(*moments, variance, unseen, self.icc, signed=self.signed, factor=factor)

    def _within(self, sides: Sides, theta: FloatArray, spread: FloatArray) -> FloatArray | float:
        """What fixed strata leave of the variance of independent rows."""
        return 1.0

    def _columns(self, shared: Matrix) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means, rows and 1 - n/N of the columns, and of means that have shares of several."""
        factor = np.ones(self.count.size) if self.factor is None else self.factor
        means, count, factor = (np.append(of, shared @ of) for of in (self.means, self.count, factor))
        return means, count, factor

    def of_columns(self, contrasts: Matrix | None) -> Matrix:
        """Contrasts of the parameters (None: these) as contrasts of the columns."""
        # No other array shares the entries.
        A = self._compressed.copy() if contrasts is None else of_columns(compressed(contrasts), self._compressed)
        A.sum_duplicates()
        A.eliminate_zeros()
        return A

    @cached_property
    def _compressed(self) -> Matrix:
        return compressed(self.contrasts)

    @abstractmethod
    def _moments(self, sides: Sides, theta: FloatArray, axis: Axis | None) -> tuple[FloatArray, FloatArray, Unseen]:
        """Means of |d|, variances of the rows, and what the clusters did not show."""


@dataclass(frozen=True, eq=False)
class SingleMeans(UnitScores):
    """Columns are means; each, and each mean of several with known shares w_s, has a null variance by itself.

    A weighted mean counts as n* = (sum w)^2/sum w^2 rows, and a weight as its part of these; one of several columns as
    n* = 1/sum(w_s^2/n_s) rows of variance s^2 = n* sum(w_s^2 s_s^2/n_s): Kish (1965), section 8.2. A column with k_s
    rows of the rarer kind did not show (1/2)/(1/2 + k_s) of its s_s^2; so much of it is the variance within the columns
    of that mean, pooled.
    """

    signed = False

    squares: FloatArray  # (n_columns,): n* times the variance of one row
    weight: FloatArray  # (n_columns,): sum of the weights
    # whether models are scored against each other, where what one wins another loses: no difference is of two means
    opposed: bool = field(default=False, kw_only=True)

    def sides(self, contrasts: Matrix | None) -> Sides:
        """Contrasts that are multiples of a mean; where models are opposed, of one column."""
        sides = Sides.of_signs(self.of_columns(contrasts), signed=False)
        return sides.chosen(sides.first < self.count.size) if self.opposed else sides

    def _columns(self, shared: Matrix) -> tuple[FloatArray, FloatArray, FloatArray]:
        means, count, factor = super()._columns(shared)
        parts, k = squared_entries(shared), self.count.size
        count[k:] = 1 / (parts @ (1 / self.count))
        factor[k:] = (parts @ (factor[:k] / self.count)) * count[k:]
        return means, count, factor

    def _spread(self, shared: Matrix) -> FloatArray:
        """Variances of one row of the columns, and of means that have shares of several."""
        n, squares = rows_over_strata(shared, (self.means, self.count, self.squares), self.factor)
        return np.append(self.squares / self.count, squares / n)

    def _moments(self, sides: Sides, theta: FloatArray, axis: Axis | None) -> tuple[FloatArray, FloatArray, Unseen]:
        """Of scores, and the rarer of successes and failures in each cluster."""
        first, shared = sides.first, sides.shared
        moments = theta, self._spread(shared)[first]
        if axis is None or not first.size:
            return *moments, Unseen.of_rows(first.size)
        if axis not in self._unseen:
            self._unseen[axis] = self._unseen_in(axis, identity(self.count.size))
        of = [self._unseen[axis], *([self._unseen_in(axis, shared)] if shared.shape[0] else [])]
        share, pairs = (np.concatenate([getattr(part, name) for part in of]) for name in ("share", "pairs"))
        return *moments, Unseen(share[first], pairs[first])

    def variances(self, axis: Axis | None, shared: Matrix) -> tuple[FloatArray, FloatArray]:
        """CR0 variances of the columns and of means of several in clusters of an axis, and of independent rows."""
        _, n, factor = self._columns(shared)
        naive = np.asarray(factor * self._spread(shared) / np.maximum(n - 1, 1))
        if axis is None:
            return naive, naive
        shares = compressed(sparse.vstack([identity(self.count.size), shared]))
        totals = (compressed(scale_columns(block.totals, 1 / self.weight)) for block in self.scores.cells(axis))
        squares = (squared_entries(compressed(block @ shares.T)) for block in totals)
        return sum_blocks(totals_of_columns(block) for block in squares), naive

    def _unseen_in(self, axis: Axis, shares: Matrix) -> Unseen:
        """What the clusters did not show of means with such shares of the columns."""
        of_row = self.count / self.weight

        def in_cells(block: Block) -> tuple[Matrix, Matrix]:
            rows = compressed(scale_columns(compressed(rows_of(block)), of_row))
            return compressed(scale_columns(compressed(block.totals), of_row) + scale_columns(rows, self.means)), rows

        counted = compressed(scale_columns(shares, 1 / self.count))
        return Unseen.of_clusters(rarer_scores(map(in_cells, self.scores.cells(axis)), counted))

    def beside(self, other: SingleMeans, stacked: Any) -> SingleMeans | None:
        """Means of both, their scores in place of what is `stacked`; None where the two have not the same rule."""
        alike = self.icc == other.icc and self.opposed == other.opposed
        if not alike or self.factor is not None or other.factor is not None:
            return None
        parts = ((part.means, part.count, part.squares, part.weight) for part in (self, other))
        means, count, *more = (np.concatenate(both) for both in zip(*parts, strict=True))
        contrasts = sparse.block_diag([self._compressed, other._compressed], format="csr")
        scores = replace(stacked, first=self.scores, second=other.scores)
        return SingleMeans(scores, means, count, contrasts, self.icc, *more, opposed=self.opposed)

    @cached_property
    def _unseen(self) -> dict[Axis, Unseen]:
        return {}


@dataclass(frozen=True, eq=False)
class IndependentMeans(SingleMeans):
    """Columns are means of rows that have no cluster in common, as those of several evals have not."""

    unseen: Unseen  # of each column, in its own clusters

    @classmethod
    def of(cls, parts: Sequence[tuple[SingleMeans, Matrix, Axis | None]], shares: FloatArray) -> Self | None:
        """Means w_j theta_j summed over parts, each with its contrasts and its clusters; None where some are no means.

        Shape of the shares w: (n_parts,).
        """
        columns, unseen = [], []
        for single, contrasts, axis in parts:
            sides = single.sides(contrasts)
            if sides.rows.size < contrasts.shape[0] or np.any(sides.scale < 0) or single.icc != parts[0][0].icc:
                return None
            means, count, factor = (of[sides.first] for of in single._columns(sides.shared))
            _, spread, part = single._moments(sides, means, axis)
            columns.append((means, count, spread * count, factor))
            unseen.append((part.share, part.pairs))
        means, count, squares, factor = (np.concatenate(of) for of in zip(*columns, strict=True))
        contrasts = sparse.kron(shares[None], sparse.eye_array(means.size // shares.size), format="csr")
        of = Unseen(*(np.concatenate(each) for each in zip(*unseen, strict=True)))
        scores, icc = parts[0][0].scores, parts[0][0].icc
        return cls(scores, means, count, contrasts, icc, squares, count, of, factor=factor)

    def _unseen_in(self, axis: Axis, shares: Matrix) -> Unseen:
        parts = squared_entries(shares) @ sparse.diags_array(1 / self.count)
        total = parts.sum(axis=1)
        return Unseen(parts @ self.unseen.share / total, parts @ self.unseen.pairs / total)


@dataclass(frozen=True, eq=False)
class UnpairedMeans:
    """Differences of two means that are not over the same questions, by the variances of both."""

    signed = True

    single: SingleMeans
    paired: Paired | None

    def sides(self, contrasts: Matrix | None) -> Sides:
        """Contrasts that are multiples of such differences, and not of the same questions; the larger mean first."""
        sides = Sides.of_signs(self.single.of_columns(contrasts), signed=True)
        if self.paired is not None and sides.rows.size:
            sides = sides.chosen(~np.isin(sides.rows, self.paired.sides(contrasts).rows))
        means, first, second = self.single.means, sides.first, sides.second
        means = np.append(means, sides.shared @ means)
        turned = means[first] < means[second]
        first, second = np.where(turned, (second, first), (first, second))
        return replace(sides, first=first, second=second, scale=np.where(turned, -sides.scale, sides.scale))

    def null_variance(self, sides: Sides, variance: FloatArray, axis: Axis | None) -> NullVariance:
        """V(x) from the variances of the differences in clusters of an axis (None: independent rows).

        Each mean has its part of the variance, in proportion to what its own clusters add to it; what was not seen is
        taken to have nothing in common.
        """
        numbers = np.array([sides.first, sides.second])
        clustered, naive = (of[numbers] for of in self.single.variances(axis, sides.shared))
        total = clustered.sum(axis=0)
        left = quotient(variance, total, 1.0)
        nulls = [
            self.single.null_variance(sides.of_mean(number), part, axis)
            for number, part in zip(numbers, clustered * left, strict=True)
        ]
        return NullVariance.of_two(nulls[0], nulls[1], naive.sum(axis=0))


def rows_over_strata(
    shares: Matrix, strata: tuple[FloatArray, FloatArray, FloatArray], factor: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """n* and n* s^2 of means with such shares, (n_means, n_strata), as `SingleMeans` has them.

    From means, rows and n s^2 of the strata, and 1 - n/N of finite ones.
    """
    mean, count, squares = strata
    parts, inside = squared_entries(shares), nonzero_entries(shares)
    part = scale_columns(parts, (1.0 if factor is None else factor) / count)
    pooled = (inside @ squares) / np.maximum(inside @ (count - 1), 1)
    unseen = 0.5 / (0.5 + count * np.minimum(mean, 1 - mean))
    within = part @ ((1 - unseen) * squares / np.maximum(count - 1, 1)) + pooled * (part @ unseen)
    n = 1 / (parts @ (1 / count))
    return n, within / part.sum(axis=1) * (n - 1)


def rows_of(block: Block) -> Matrix:
    """Rows of clusters in each cell; of a regression on a constant its one column's."""
    rows: Any = block.gram
    return rows[:, :, 0] if rows.ndim == 3 else rows


@dataclass(frozen=True, eq=False)
class Paired(UnitScores):
    """Scores that models have on the same questions: of columns that are means, or differences of two."""

    signed = True

    # Means and questions of each column by fixed stratum, (n_columns, n_strata) each.
    strata: tuple[FloatArray, FloatArray] | None = field(default=None, kw_only=True)

    def _within(self, sides: Sides, theta: FloatArray, spread: FloatArray) -> FloatArray | float:
        """The pooled variance within strata over that of all questions; 1 where they vary in no stratum."""
        if self.strata is None:
            return 1.0
        means, count = (np.vstack([of, sides.shared @ of]) for of in self.strata)
        d = means[sides.first] - np.where(sides.second[:, None] < 0, 0.0, means[sides.second])
        count = count[sides.first]
        n, n_strata = count.sum(axis=1), np.count_nonzero(count, axis=1)
        within = spread - np.sum(count * (d - theta[:, None]) ** 2, axis=1) / n
        ratio = quotient(within / np.maximum(n - n_strata, 1), spread / np.maximum(n - 1, 1), 1.0)
        return np.where(within > ROUNDING, ratio, 1.0)

    @abstractmethod
    def _homes(self, axis: Axis) -> IntArray | None:
        """Cluster of each question; None where that is not known, or each is one itself."""

    def _present(self, sides: Sides, at: IntArray) -> FloatArray | None:
        """Which questions some differences are over, shape (m, n_questions); None where `_each` tells."""
        return None

    @abstractmethod
    def _each(self, sides: Sides) -> Iterator[tuple[IntArray, FloatArray, BoolArray | None]]:
        """Differences by question, of a few contrasts at a time, and which questions they are (None: all)."""

    def _moments(self, sides: Sides, theta: FloatArray, axis: Axis | None) -> tuple[FloatArray, FloatArray, Unseen]:
        """Of differences, and questions that are not of the commonest of -1, 0 and 1 in each cluster."""
        first, count = sides.first, self._columns(sides.shared)[1]
        (size, square), of_rows = np.zeros((2, first.size)), Unseen.of_rows(first.size)
        if not first.size:  # No clusters are looked up in vain either.
            return size, square, of_rows
        home = None if axis is None else self._homes(axis)
        home = None if home is None or np.max(np.bincount(home)) == 1 else home
        share, pairs = np.ones(first.size), np.zeros(first.size)
        for at, d, member in self._each(sides):
            n = count[first[at]]
            size[at], square[at] = np.abs(d).sum(axis=1) / n, np.einsum("mn,mn->m", d, d) / n
            if home is not None:
                cluster = home if member is None else home[member]
                rows, rarer = differing_in_clusters(d, self._present(sides, at), cluster)
                unseen = Unseen.of_clusters([(rows, rows, rarer)])
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
    rule = f"lie between 0 and 1: the correlation, within a cluster, of {of} that were not seen"
    return checked_number("icc", icc, rule, least=0.0, most=1.0, remedy=" Leave it out for the default.")


def refuse_idle_icc(icc: float | None, usual: float, scored: object, of: str) -> None:
    """Raise where another `icc` than the usual one is asked for, and no score interval takes it."""
    if scored is None and icc not in (None, usual):
        raise ArgumentError(
            f"`icc` belongs to the score interval of {of} of scores in [0, 1]; this result has none, so that "
            f"icc={icc:g} would have no effect. Leave it out.",
            parameter="icc",
        )
