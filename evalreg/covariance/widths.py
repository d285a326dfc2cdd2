"""Half-widths of intervals, p-values and degrees of freedom of a variance that is made of several terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evalreg.checks import FloatArray, IntArray
from evalreg.covariance.crossed import sums_of
from evalreg.covariance.ends import Reach, joined_reach
from evalreg.numerics.fitting import crossings
from evalreg.numerics.student import dof_of_quantile, t_log_density, t_pvalues, t_quantile
from evalreg.scores.score_interval import NullVariance

# Below this level quantiles of t are not sought; p-values there are those of the widest single term.
SMALLEST_LEVEL = 1e-280
MOST_STEPS = 80
# Logarithms of p-values of contrasts that allow for more than their variance are as good as this.
CLOSE = 1e-12
# Ends of score intervals are as good as this (tolerance).
END = 1e-14
# The level at which standard errors show what is allowed for.
SHOWN = 0.05


@dataclass(frozen=True, eq=False)
class Scored:
    """Contrasts that are means of scores in [0, 1], or paired differences: their variance depends on the value."""

    rows: IntArray  # which of the contrasts
    scale: FloatArray  # what multiplies the mean or the difference in the contrast
    term: int  # the term whose variance grows towards the value tested
    null: NullVariance

    @classmethod
    def joined(cls, parts: Sequence[tuple[Scored | None, int]]) -> Scored | None:
        """That of contrasts that follow each other, each part with its first contrast."""
        own = [(part, first) for part, first in parts if part is not None]
        if not own:
            return None
        rows = np.concatenate([part.rows + first for part, first in own])
        scale = np.concatenate([part.scale for part, _ in own])
        return cls(rows, scale, own[0][0].term, NullVariance.joined(part.null for part, _ in own))

    def chosen(self, which: IntArray) -> Scored:
        """Some of them."""
        return Scored(self.rows[which], self.scale[which], self.term, self.null.chosen(which))


@dataclass(frozen=True, eq=False)
class Widths:
    """Contrasts whose half-width is the root of a sum of t^2 V over terms, or the largest of several such sums.

    For a level p and the terms V_A with d_A degrees of freedom, H(p)^2 is the largest over sums of sum_A s_A t_A(p)^2
    V_A, with t_A(p) the two-sided critical value of t with d_A. The interval is the estimate +- H(alpha), the p-value
    that p with H(p) = distance. For independent variances with positive signs it is Banerjee's: Banerjee (1960),
    Sankhya 22, 359-362; carried here to inclusion-exclusion (Cameron, Gelbach and Miller 2011).
    """

    # v(c), the square of the standard error shown, (m,).
    variance: FloatArray
    # V_A(c) and d_A(c), (n_terms, m).
    terms: FloatArray
    dofs: FloatArray
    # s_A of each sum, (n_sums, n_terms); 0 where a term is not part of it.
    signs: FloatArray
    # Contrasts whose variance depends on the value that is tested.
    scored: Scored | None = None
    # What contrasts of means without a variance allow for: the square of its distance at the level is added to H^2, on
    # either side; and their variance without it, which is that of the terms.
    reach: Reach | None = None
    seen: FloatArray | None = None

    @property
    def _plain(self) -> Widths:
        """Without what is not seen."""
        return self if self.seen is None else replace(self, variance=self.seen, scored=None, reach=None, seen=None)

    def _sides(self, reach: Reach, alpha: float | FloatArray) -> FloatArray:
        """H(alpha) below and above, shape (2, m)."""
        plain = self._plain
        half = np.nan_to_num(replace(plain, variance=np.where(plain.variance > 0, plain.variance, np.nan)).half(alpha))
        more = reach.squares(np.broadcast_to(np.asarray(alpha, dtype=np.float64), half.shape))
        return np.where(np.isnan(self.variance), np.nan, np.sqrt(half**2 + more))

    def half(self, alpha: float | FloatArray) -> FloatArray:
        """H(alpha), shape (m,), that of the wider side; NaN without a variance."""
        if self.reach is not None:
            return np.asarray(np.max(self._sides(self.reach, alpha), axis=0))
        if self.signs.size == 1:
            return np.asarray(t_quantile(alpha, self.dofs[0]) * np.sqrt(self.variance))
        H = np.sqrt(np.clip(np.max(self.signs @ self._squares(alpha), axis=0), 0.0, None))
        return np.where(self.variance > 0, H, np.where(self.variance == 0, 0.0, np.nan))

    def critical(self, alpha: float | FloatArray) -> FloatArray:
        """H(alpha)/sqrt(v), shape (m,); without a positive variance the critical value of t with `dof`."""
        if self.signs.size == 1 and self.reach is None:
            return t_quantile(alpha, self.dofs[0])
        positive = self.variance > 0
        ratio = self.half(alpha) / np.sqrt(np.where(positive, self.variance, 1.0))
        return np.where(positive, ratio, t_quantile(alpha, self.dof(0.05)))

    def _squares(self, alpha: float | FloatArray) -> FloatArray:
        """t_A^2 V_A, shape (n_terms, m); a term without variance adds nothing whatever its dof."""
        t = t_quantile(np.broadcast_to(alpha, self.variance.shape), self.dofs)
        return np.where(self.terms > 0, t**2 * self.terms, 0.0)

    def pvalues(self, distance: FloatArray) -> FloatArray:
        """The p with H(p) = |distance|, shape (m,); 1 at no distance, NaN without a variance."""
        x = np.abs(np.asarray(distance, dtype=np.float64))
        if self.scored is not None:
            return self._scored_pvalues(self.scored, np.array(distance, dtype=np.float64))
        if self.reach is not None:
            return self._reached_pvalues(self.reach, np.asarray(distance, dtype=np.float64))
        if self.signs.size == 1:
            return t_pvalues(x / np.sqrt(np.where(self.variance > 0, self.variance, np.nan)), self.dofs[0])
        known = (self.variance > 0) & np.isfinite(x)
        single = np.count_nonzero(self.signs, axis=1) == 1
        p = np.zeros(x.shape)
        # A sum of positive terms is at least each of them, and so is its p-value.
        for term in np.flatnonzero(np.any(self.signs[np.all(self.signs >= 0, axis=1)] > 0, axis=0)):
            V = np.where(self.terms[term] > 0, self.terms[term], 1.0)
            own = t_pvalues(x / np.sqrt(V), self.dofs[term])
            p = np.where(self.terms[term] > 0, np.maximum(p, own), p)
        for row in self.signs[~single]:
            wanted = np.flatnonzero(known & (x > 0) & (p < 1))
            p[wanted] = self._solved(row, wanted, x[wanted], p[wanted])
        return np.where(known, np.where(x == 0, 1.0, p), np.nan)

    def limits(self, estimate: FloatArray, alpha: float | FloatArray = 0.05) -> FloatArray:
        """Ends of the intervals, shape (m, 2): estimate +- H(alpha), or what a score test does not reject."""
        sides = np.stack([self.half(alpha)] * 2) if self.reach is None else self._sides(self.reach, alpha)
        below, above = np.where(self.variance > 0, sides, np.nan)
        ends = np.column_stack([estimate - below, estimate + above])
        if self.scored is not None:
            ends[self.scored.rows] = self._scored_limits(self.scored, alpha)
        return ends

    def under(self, scored: Scored, x: FloatArray) -> Widths:
        """Widths of the contrasts of `scored` were the means or differences x in truth; x of shape (..., m)."""
        null, rows, unit = scored.null, scored.rows, scored.scale**2
        shrink = null.shrink(x)
        growth = unit * (null.at(x) - shrink * null.seen)
        terms = np.expand_dims(shrink, -2) * np.nan_to_num(self.terms[:, rows])
        terms[..., scored.term, :] += growth
        # What one t serves has one term, of which that of the axis is a part.
        total = np.maximum(shrink * np.nan_to_num(self.variance[rows]) + growth, 0.0)
        made = np.max(self.signs @ terms, axis=-2) if self.signs.size > 1 else total
        return Widths(np.maximum(made, 0.0), np.maximum(terms, 0.0), self.dofs[:, rows], self.signs)

    def statistic(self, distance: FloatArray) -> FloatArray:
        """Signed distances in standard errors, shape (m,), those of `scored` under the value tested."""
        t = np.asarray(distance / np.sqrt(np.where(self.variance > 0, self.variance, np.nan)))
        if self.scored is not None:
            scored = self.scored
            x = np.clip(scored.null.theta - distance[scored.rows] / scored.scale, *scored.null.bounds)
            t[scored.rows] = self._statistic(scored, x) * np.sign(scored.scale)
        return t

    def _statistic(self, scored: Scored, x: FloatArray) -> FloatArray:
        """The distance from x in standard errors under x; of a difference beyond zero at least that from zero."""

        def plain(x: FloatArray) -> FloatArray:
            distance = scored.null.theta - x
            sd = np.sqrt(self.under(scored, x).variance) / np.abs(scored.scale)
            far = np.where(sd > 0, distance / np.where(sd > 0, sd, 1.0), np.copysign(np.inf, distance))
            return np.where(distance == 0, 0.0, far)

        t, beyond = plain(x), scored.null.signed & (scored.null.theta * x < 0)
        if not beyond.any():
            return t
        return np.where(beyond, np.copysign(np.maximum(np.abs(t), np.abs(plain(np.zeros(x.shape)))), t), t)

    def _scored_pvalues(self, scored: Scored, distance: FloatArray) -> FloatArray:
        p, null = replace(self, scored=None).pvalues(distance), scored.null
        x = np.clip(null.theta - distance[scored.rows] / scored.scale, *null.bounds)

        def plain(x: FloatArray) -> FloatArray:
            far = null.theta - x
            own = self.under(scored, x)
            found = own.pvalues(scored.scale * far)
            return np.where(far == 0, 1.0, np.where(own.variance > 0, found, 0.0))

        own, beyond = plain(x), null.signed & (null.theta * x < 0)
        if beyond.any():
            own = np.where(beyond, np.minimum(own, plain(np.zeros(x.shape))), own)
        p[scored.rows] = np.where(np.isnan(distance[scored.rows]), np.nan, own)
        return p

    def _scored_limits(self, scored: Scored, alpha: float | FloatArray) -> FloatArray:
        """Values that are no further from theta than H under them, shape (m, 2), each end by root search."""
        null, rows = scored.null, scored.rows
        level = np.broadcast_to(np.asarray(alpha, dtype=np.float64), self.variance.shape)[rows]
        t2 = t_quantile(level, self.dofs[:, rows]) ** 2
        t2 = np.where(np.isnan(t2), 0.0, t2)

        def excess(x: FloatArray) -> FloatArray:
            H2 = np.max(self.signs @ (t2 * self.under(scored, x).terms), axis=-2)
            return np.asarray(np.abs(null.theta - x) - np.sqrt(np.maximum(H2, 0.0)) / np.abs(scored.scale))

        far = np.stack(np.broadcast_arrays(*null.bounds, null.theta)[:2])  # both ends at once, a row each
        inside, outside = np.broadcast_to(null.theta, far.shape), far
        at_inside, at_outside = excess(inside), excess(far)
        reached = at_outside > 0
        # Zero first, so that an interval holds it just where a test of no difference does not reject.
        zero, beyond = excess(np.zeros(far.shape)), null.signed & (null.theta * far < 0)
        out, within = beyond & (zero > 0), beyond & (zero <= 0)
        outside, at_outside = np.where(out, 0.0, outside), np.where(out, zero, at_outside)
        inside, at_inside = np.where(within, 0.0, inside), np.where(within, zero, at_inside)
        ends = np.where(reached, crossings(excess, inside, outside, at_inside, at_outside, END), far)
        return np.sort(ends.T * scored.scale[:, None], axis=1)

    def _reached_pvalues(self, reach: Reach, distance: FloatArray) -> FloatArray:
        """P-values of which those of contrasts that allow for more are the levels at which a side is the distance."""
        p = np.where(np.isnan(self.variance), np.nan, self._plain.pvalues(distance))
        rows = np.unique(reach.row)
        rows = rows[~np.isnan(self.variance[rows]) & np.isfinite(distance[rows])]
        own, x = self.chosen(rows), distance[rows]
        if own.reach is None:
            return p
        reach, side, place = own.reach, (x < 0).astype(np.intp), np.arange(x.size)

        def room(log_level: FloatArray) -> FloatArray:
            """How far outside the interval of each level the value tested lies."""
            return np.asarray(np.abs(x) - own._sides(reach, np.exp(log_level))[side, place])

        # No less than the p-value without.
        low = np.log(np.maximum(np.nan_to_num(p[rows]), SMALLEST_LEVEL))
        high, at_low = np.zeros(x.shape), room(low)
        found = np.exp(crossings(room, low, high, np.minimum(at_low, 0.0), room(high), CLOSE))
        p[rows] = np.where(at_low > 0, np.where(np.exp(low) > SMALLEST_LEVEL, np.exp(low), 0.0), found)
        return p

    def chosen(self, rows: IntArray) -> Widths:
        """Those of some contrasts, in rising order, without what few questions leave open."""
        reach = None if self.reach is None else self.reach.chosen(rows)
        seen = None if self.seen is None else self.seen[rows]
        return Widths(self.variance[rows], self.terms[:, rows], self.dofs[:, rows], self.signs, None, reach, seen)

    def allowing(self, reach: Reach) -> Widths:
        """The same contrasts with more to allow for; the variance shown is that of the wider side at 5%, over t^2."""
        t = self.critical(SHOWN)
        t = np.where(np.isfinite(t), t, t_quantile(SHOWN, np.full(t.shape, np.inf)))
        more = np.max(reach.squares(np.full(t.shape, SHOWN)), axis=0)
        return replace(self, variance=np.asarray(self.variance + more / t**2), reach=reach, seen=self.variance)

    def _solved(self, row: FloatArray, columns: IntArray, x: FloatArray, least: FloatArray) -> FloatArray:
        """Largest of `least` and the p at which one sum is x^2, by Newton steps in log p inside a bracket."""
        low, high = np.log(np.maximum(least, SMALLEST_LEVEL)), np.zeros(x.shape)
        V, d, u, target = self.terms[:, columns], self.dofs[:, columns], low.copy(), 2 * np.log(x)
        left = np.arange(x.size)
        for step in range(MOST_STEPS):
            value, slope = _log_sum(row, V[:, left], d[:, left], u[left])
            above = value > target[left]
            if step == 0:
                left, value, slope, above = left[above], value[above], slope[above], above[above]
            low[left] = np.where(above, u[left], low[left])
            high[left] = np.where(above, high[left], u[left])
            with np.errstate(all="ignore"):
                new = u[left] - (value - target[left]) / slope
            # A Newton step so small leaves an error far below rounding; it may leave the bracket by rounding.
            small = 1e-9 * np.maximum(np.abs(u[left]), 1.0)
            inside = (new > low[left] - small) & (new < high[left] + small)
            new = np.where(inside, np.clip(new, low[left], high[left]), (low[left] + high[left]) / 2)
            moved = np.abs(new - u[left]) > small
            u[left] = new
            left = left[moved]
            if not left.size:
                break
        return np.maximum(least, np.where(u > np.log(SMALLEST_LEVEL), np.exp(u), 0.0))

    def dof(self, alpha: float) -> FloatArray:
        """The nu with t_nu(alpha) = H(alpha)/sqrt(v), shape (m,); without a variance the smallest d_A.

        Of contrasts that allow for more that of what was seen.
        """
        if self.reach is not None:
            return self._plain.dof(alpha)
        if self.signs.size == 1:
            return np.array(self.dofs[0])
        known = self.variance > 0
        H, smallest = self.half(alpha), np.min(self.dofs[self.signs.sum(axis=0) > 0], axis=0)
        nu = np.where(known, np.nan, smallest)
        # Where one term decides both the variance and the width, its own degrees of freedom, free of rounding.
        squares = self._squares(alpha)
        for row in self.signs[np.count_nonzero(self.signs, axis=1) == 1]:
            term = int(np.argmax(row))
            same = np.isclose(squares[term], H**2, rtol=1e-13, atol=0.0) & np.isclose(
                self.terms[term], self.variance, rtol=1e-13, atol=0.0
            )
            nu = np.where(known & same & np.isnan(nu), self.dofs[term], nu)
        rest = np.flatnonzero(known & np.isnan(nu))
        if rest.size:
            nu[rest] = dof_of_quantile(H[rest] / np.sqrt(self.variance[rest]), alpha)
        return nu


def one_t(variance: FloatArray, dof: FloatArray) -> Widths:
    """Widths of contrasts, shape (m,), to which one t each serves all levels."""
    return Widths(variance, variance[None], np.asarray(dof, dtype=np.float64)[None], np.ones((1, 1)))


def joined(parts: Sequence[Widths]) -> Widths:
    """Widths of the contrasts of all parts, which have the same sums."""
    columns = [(part.variance[None], part.terms, part.dofs) for part in parts]
    variance, terms, dofs = (np.concatenate(one, axis=1) for one in zip(*columns, strict=True))
    starts = np.cumsum([0, *(part.variance.size for part in parts)])
    scored = Scored.joined([(part.scored, int(start)) for part, start in zip(parts, starts, strict=False)])
    reach = joined_reach([part.reach for part in parts], starts[:-1].tolist())
    seen = None
    if reach is not None:
        seen = np.concatenate([part.variance if part.seen is None else part.seen for part in parts])
    return Widths(variance[0], terms, dofs, parts[0].signs, scored, reach, seen)


def _log_sum(row: FloatArray, V: FloatArray, d: FloatArray, u: FloatArray) -> tuple[FloatArray, FloatArray]:
    """log of sum_A s_A t_A^2 V_A at level exp(u), and its derivative by u; -inf where the sum is not positive."""
    t = t_quantile(np.exp(u), d)
    weight = np.where(V > 0, row[:, None] * V, 0.0)
    total = np.sum(np.where(V > 0, weight * t**2, 0.0), axis=0)
    # dt/du = -p/(2 f(t)).
    positive = total > 0
    safe = np.where(positive, total, 1.0)
    with np.errstate(all="ignore"):
        slope = -np.sum(np.where(V > 0, weight * t * np.exp(u - t_log_density(t, d)), 0.0), axis=0) / safe
    return np.where(positive, np.log(safe), -np.inf), np.where(positive, slope, np.nan)


def crossed_widths(
    variance: FloatArray, terms: FloatArray, dofs: FloatArray, dims: list[tuple[int, ...]], repair: str
) -> Widths:
    """The widths of crossed contrasts with variance v(c) after a repair; `dims` are the axes of each term.

    "max": the largest over all sets of axes. "two-term": the axes without intersections. Otherwise v(c) times the mean
    of t^2 over the axes, weighted by their variances. Where v(c) is above that of the terms (a floor), the width grows
    with it. Shapes: variance (m,), terms, dofs (n_terms, m).
    """
    signs = sums_of(dims, "max" if repair == "max" else "two-term")
    made = np.max(signs @ terms, axis=0)
    scale = np.divide(variance, made, out=np.ones_like(made), where=(made > 0) & (variance > 0))
    # Equal but for rounding is equal.
    scale = np.where(np.isclose(scale, 1.0, rtol=1e-13, atol=0), 1.0, scale)
    return Widths(variance, terms * scale, dofs, signs)
