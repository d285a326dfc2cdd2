"""One rule for scores in [0, 1]: the variance of a mean or of a paired difference under the value that is tested.

A log of few failures shows neither how often others fail nor how failures go together. So the variance is that of the
log where it is now, and grows towards the value tested as the null variance of Wilson (means) and of Tango (paired
differences) does. In clusters the growth is multiplied by a design effect: the log's own where the log shows it, and a
granted one where it does not. Plain arrays in, plain arrays out; one entry for each mean or difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.numerics.matrices import Matrix, dense

# Correlation within a cluster that is granted to what was not seen: of scores, and of paired differences. Sourced in
# docs/decisions/score-interval.md, where 0 to .3 and .5 were simulated.
ICC_MEAN, ICC_DIFFERENCE = 0.2, 0.5
# Cochran (1954), Biometrics 10, 417-451: the fewest that are expected where a count is near normal.
FEW_EXPECTED = 5.0
# A variance of rows below this is rounding (tolerance).
ALIKE = 1e-15
# Entries of dense sums within clusters that are held at a time (limit).
ENTRIES = 1 << 21


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


def rarer_scores(blocks: Iterable[tuple[Matrix, Matrix]], mean: FloatArray) -> Iterable[tuple[FloatArray, FloatArray]]:
    """Rows of clusters, and the smaller of their sums of y and of 1 - y, from totals of y - mean and rows."""
    for totals, counts in blocks:
        step = max(ENTRIES // max(counts.shape[1], 1), 1)
        for first in range(0, counts.shape[0], step):
            size = dense(counts[first : first + step])
            total = dense(totals[first : first + step]) + size * mean
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

    @property
    def design_effect(self) -> FloatArray:
        """That of the log, at least 1."""
        naive = self.spread / np.maximum(self.n - 1, 1)
        return np.where(naive > 0, np.maximum(self.seen / np.where(naive > 0, naive, 1.0), 1.0), 1.0)

    @property
    def rarer(self) -> FloatArray:
        """Rows that tell: failures or successes, whichever are fewer; questions that differ, weighted by size."""
        level = np.minimum(self.theta, 1 - self.theta) * self.n
        differing = self.n * self.size**2 / np.where(self.square > 0, self.square, 1.0)
        return np.where(self.signed, np.minimum(differing, self.n * (1 - np.abs(self.theta))), level)

    def at(self, x: float | FloatArray) -> FloatArray:
        """V(x); x of shape (m,) or with rows of values."""
        if not self.signed.any():
            return self._of_mean(x)
        if self.signed.all():
            return self._of_difference(x)
        return np.where(self.signed, self._of_difference(x), self._of_mean(x))

    def shrink(self, x: float | FloatArray) -> FloatArray:
        """What a variance elsewhere is multiplied by: x (1 - x) over theta (1 - theta) of a mean where that falls."""
        now = self.theta * (1 - self.theta)
        with np.errstate(all="ignore"):
            ratio = np.maximum(x * (1 - x), 0.0) / np.where(now > 0, now, 1.0)
        return np.where(self.signed | (now <= 0), 1.0, np.minimum(ratio, 1.0))

    def _of_mean(self, x: float | FloatArray) -> FloatArray:
        """v(x) = phi x (1 - x), phi = s^2/(theta (1 - theta)); where v falls all of V falls with it, as Wilson's."""
        now, then = self.theta * (1 - self.theta), np.maximum(x * (1 - x), 0.0)
        inside = now > 0
        phi = np.where(inside & (self.spread > 0), self.spread / np.where(inside, now, 1.0), 1.0)
        growth = self.effect * phi * np.maximum(then - now, 0.0) / self.n
        return np.asarray(self.base * self.shrink(x) + growth)

    def _of_difference(self, x: float | FloatArray) -> FloatArray:
        """v(x) = jump R(x) - x^2, R(x) the likeliest mean |d| if the difference were x."""
        jump = (self.n * self.square + self.effect) / (self.n * self.size + self.effect)
        growth = jump * (self.rate(x) - self.size) - (x * x - self.theta**2)
        return np.asarray(self.base + self.effect * np.maximum(growth, 0.0) / self.n)

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
        naive = self.spread / np.maximum(self.n - 1, 1)
        effect = np.where(naive > 0, self.base / np.where(naive > 0, naive, 1.0), self.effect)
        variance = effect * np.maximum(spread, 0.0) / np.maximum(self.n - 1, 1)
        return replace(self, theta=x, spread=spread, size=size, square=square, seen=variance, base=variance)

    def _of_row(self, x: FloatArray) -> FloatArray:
        now = self.theta * (1 - self.theta)
        phi = np.where((now > 0) & (self.spread > 0), self.spread / np.where(now > 0, now, 1.0), 1.0)
        return np.asarray(phi * x * (1 - x))

    def grown(self, factor: float) -> NullVariance:
        """The same rates on so many times the rows, in so many times the clusters."""
        return replace(self, n=self.n * factor, seen=self.seen / factor, base=self.base / factor)

    def chosen(self, which: IntArray | BoolArray) -> NullVariance:
        """Some of them."""
        return NullVariance(*(getattr(self, one.name)[which] for one in fields(self)))

    @classmethod
    def joined(cls, parts: Iterable[NullVariance]) -> NullVariance:
        """Those of all parts, one after the other."""
        columns = zip(*([getattr(part, one.name) for one in fields(cls)] for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))


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
    supposed = (spread < ALIKE) & (level > 0) & (level < 1)
    spread = np.where(supposed, level - level**2, np.where(spread < ALIKE, 0.0, spread))
    seen = np.where(variance > 0, variance, 0.0)
    naive = factor * spread / np.maximum(n - 1, 1)
    ratio = np.where((naive > 0) & ~supposed, seen / np.where(naive > 0, naive, 1.0), 1.0)
    effect = unseen.design_effect(icc, np.maximum(ratio, 1.0)) * factor
    base = np.where(supposed, effect * spread / n, seen + unseen.share * np.maximum(naive - seen, 0.0))
    return NullVariance(theta, n, spread, size, square, seen, base, effect, np.full(theta.shape, signed))
