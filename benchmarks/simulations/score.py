"""Score intervals of means in [0, 1] and of paired differences, from docs/decisions/score-interval.md."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.simulations.worlds import Clusters, FloatArray

# What is granted within clusters to what was not seen, of scores and of differences.
ICC = {False: 0.2, True: 0.5}
NO_SPREAD = 1e-15
TIED = 1e-9
HALVINGS = 60


@dataclass(frozen=True, eq=False)
class Rows:
    """Scores in [0, 1], or differences of two on the same questions, in many logs; each (n_logs,) but for `n`."""

    n: int
    theta: FloatArray
    size: FloatArray  # the mean of |d|
    square: FloatArray  # the mean of d^2
    spread: FloatArray
    share: FloatArray  # sum_g n_g/n u_g
    pairs: FloatArray  # sum_g n_g/n u_g (n_g - 1)
    signed: bool

    @classmethod
    def of(cls, values: FloatArray, clusters: Clusters, *, signed: bool = False) -> Rows:
        """From the values, shape (n_rows, n_logs), the rows of a cluster together."""
        if signed:
            kinds = (values < TIED - 1, np.abs(values) <= TIED, values > 1 - TIED)
            rarer = clusters.sizes[:, None] - np.max([clusters.sums(kind.astype(float)) for kind in kinds], axis=0)
        else:
            rarer = np.minimum(clusters.sums(values), clusters.sums(1 - values))
        unseen = 0.5 / (0.5 + np.maximum(rarer, 0)) * clusters.sizes[:, None] / len(values)
        theta, square = values.mean(axis=0), np.mean(values**2, axis=0)
        spread = np.mean((values - theta) ** 2, axis=0)
        pairs = np.sum(unseen * (clusters.sizes[:, None] - 1), axis=0)
        moments = theta, np.abs(values).mean(axis=0), square, spread
        return cls(len(values), *moments, unseen.sum(axis=0), pairs, signed)

    def rate(self, x: FloatArray) -> FloatArray:
        """The likeliest mean of |d| where that of d is x; the larger root of Tango's quadratic."""
        b = self.size + (2 - self.theta) * -x
        c = x * (1 - x) * (self.theta - self.size)
        return np.asarray(x + (b + np.sqrt(np.maximum(b**2 - 4 * c, 0))) / 2)

    def under(self, x: FloatArray, seen: FloatArray) -> tuple[FloatArray, FloatArray]:
        """V(x) where the log's variance is `seen`, and what the variances of other clusterings are multiplied by."""
        level, now = np.abs(self.theta), self.theta * (1 - self.theta)
        supposed = (self.spread < NO_SPREAD) & (level > 0) & (level < 1)
        s2 = np.where(supposed, level * (1 - level), np.where(self.spread < NO_SPREAD, 0.0, self.spread))
        naive = s2 / (self.n - 1)
        shown = np.where((naive > 0) & ~supposed, seen / np.where(naive > 0, naive, 1), 1)
        effect = self.share + ICC[self.signed] * self.pairs + (1 - self.share) * np.maximum(shown, 1)
        least = np.where(supposed, effect * s2 / self.n, seen + self.share * np.maximum(naive - seen, 0))
        if self.signed:
            jump = (self.n * self.square + effect) / (self.n * self.size + effect)
            growth = jump * (self.rate(x) - self.size) - (x**2 - self.theta**2)
            return least + effect * np.maximum(growth, 0) / self.n, np.ones_like(x)
        then, inside = x * (1 - x), now > 0
        phi = np.where(inside & (s2 > 0), s2 / np.where(inside, now, 1), 1)
        ratio = np.where(inside, then / np.where(inside, now, 1), 1)
        return least * np.minimum(ratio, 1) + effect * phi * np.maximum(then - now, 0) / self.n, ratio


@dataclass(frozen=True, eq=False)
class Terms:
    """Variances of a mean, (n_terms, n_logs), with t^2 (n_terms,) each, of which sums are taken, (n_sums, n_terms)."""

    variances: FloatArray
    t2: FloatArray
    signs: FloatArray
    seen: FloatArray  # that of the clustering in `rows`, which grows
    grows: int = 0  # the term it is part of

    def half(self, rows: Rows, x: FloatArray) -> FloatArray:
        """Half-width were x the truth."""
        V, ratio = rows.under(x, self.seen)
        terms = self.variances * ratio
        terms[self.grows] += V - self.seen * ratio
        return np.sqrt(np.maximum(np.max(self.signs @ (self.t2[:, None] * np.maximum(terms, 0)), axis=0), 0))


def score_limits(rows: Rows, terms: Terms) -> tuple[FloatArray, FloatArray]:
    """The values nearest to theta that are further from it than the half-width under them, by bisection."""

    def rejected(x: FloatArray) -> np.ndarray:
        return np.abs(x - rows.theta) > terms.half(rows, x)

    ends = []
    for bound in (-1.0 if rows.signed else 0.0, 1.0):
        inside, outside = rows.theta.copy(), np.full(rows.theta.shape, bound)
        open_end = ~rejected(outside)
        # No difference is tested before values beyond it.
        zero = np.zeros_like(outside)
        beyond, no = rows.signed & (rows.theta * bound < 0), rejected(zero)
        inside, outside = np.where(beyond & ~no, zero, inside), np.where(beyond & no, zero, outside)
        for _ in range(HALVINGS):
            middle = (inside + outside) / 2
            out = rejected(middle)
            inside, outside = np.where(out, inside, middle), np.where(out, middle, outside)
        ends.append(np.where(open_end, bound, (inside + outside) / 2))
    return ends[0], ends[1]
