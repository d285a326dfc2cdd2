"""Clusterings that cross: the signs of inclusion-exclusion, Student's t, and widths by sums of t^2 V over terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.choices import RepairName
from evalreg.covariance.reach import Reach
from evalreg.numerics.limits import LAST_DIGITS, ROUNDING
from evalreg.numerics.roots import crossings, levels
from evalreg.scores.score_interval import NullVariance

Dims: TypeAlias = tuple[int, ...]
"""The axes that a term intersects; one for an axis itself, none for independent rows."""


def subsets(n_axes: int) -> list[tuple[int, ...]]:
    """Non-empty subsets of the axes, the axes themselves first."""
    return [dims for size in range(1, n_axes + 1) for dims in combinations(range(n_axes), size)]


def sign(dims: Dims) -> int:
    """(-1)^(|A|+1); 1 for independent rows."""
    return 1 if len(dims) % 2 or not dims else -1


def subset_signs(dims: list[tuple[int, ...]]) -> FloatArray:
    """Inclusion-exclusion over each non-empty set of axes, shape (n_sets, n_terms).

    The variance and the width of several axes are the largest over these sets, so that none is smaller than fewer axes
    alone give.
    """
    axes = sorted({axis for subset in dims for axis in subset})
    sets = [{axes[i] for i in chosen} for chosen in subsets(len(axes))]
    return np.array([[float(sign(subset)) if set(subset) <= chosen else 0.0 for subset in dims] for chosen in sets])


def sums_of(dims: Sequence[Dims], repair: str) -> FloatArray:
    """Signs of the sums of which the largest is the variance, shape (n_sums, n_terms)."""
    if repair == "two-term":
        return np.array([[float(len(subset) == 1) for subset in dims]])
    signs = subset_signs(list(dims))
    # The last set is that of all axes.
    return signs if repair == "max" else signs[-1:]


def crossed_variance(each: FloatArray, dims: Sequence[Dims], repair: RepairName) -> FloatArray:
    """Variances of contrasts, shape (m,), from those of the terms, shape (n_terms, m).

    The sum can be too small, or negative; under "max" no set of fewer axes gives more. The eigenvalue of a single
    variance is that variance, so that "eigen" is "none" here.
    """
    return np.asarray(np.max(sums_of(dims, repair) @ each, axis=0))


def crossed_widths(
    variance: FloatArray, terms: FloatArray, dofs: FloatArray, dims: list[tuple[int, ...]], repair: str
) -> Widths:
    """The widths of crossed contrasts with variance v(c) after a repair; `dims` are the axes of each term.

    "max": the largest over all sets of axes. "two-term": the axes without intersections. Otherwise v(c) times the mean
    of t^2 over the axes, weighted by their variances. Where v(c) is above that of the terms (a floor), the width grows
    with it. Shapes: variance (m,), terms, dofs (n_terms, m).
    """
    signs = sums_of(dims, "max" if repair == "max" else "two-term")
    total = np.max(signs @ terms, axis=0)
    scale = np.divide(variance, total, out=np.ones_like(total), where=(total > 0) & (variance > 0))
    # Equal but for rounding is equal.
    scale = np.where(np.isclose(scale, 1.0, rtol=1e-13, atol=0), 1.0, scale)
    return Widths(variance, terms * scale, dofs, signs)


# What statements are made at if nothing else is asked for.
USUAL_LEVEL = 0.05

# The normal's two-sided critical value at 5%.
NORMAL = 1.959963984540054


def t_quantile(alpha: float | FloatArray, dof: FloatArray) -> FloatArray:
    """Two-sided critical values of t, the normal's where dof is infinite, NaN where it is; right at small levels."""
    from scipy import special

    dof = np.asarray(dof, dtype=float)
    # From the lower tail: 1 - alpha/2 would lose the digits of a small alpha. SciPy's infinities there are positive.
    tail = np.asarray(alpha, dtype=float) / 2
    if tail.ndim == 0 and dof.size > 1 and np.all(dof == dof.flat[0]):
        return np.full(dof.shape, np.abs(_of_each(special.ndtri, special.stdtrit, np.asarray(dof.flat[0]), tail)))
    return np.abs(_of_each(special.ndtri, special.stdtrit, dof, tail))


def t_pvalues(statistic: FloatArray, dof: FloatArray) -> FloatArray:
    """Two-sided p-values of t, the normal's where dof is infinite; right in the tails, NaN where an input is."""
    from scipy import special

    return 2 * _of_each(special.ndtr, special.stdtr, np.asarray(dof, dtype=float), -np.abs(statistic))


def _of_each(normal: Any, of_t: Any, dof: FloatArray, values: FloatArray) -> FloatArray:
    """The normal's function where degrees of freedom are infinite, that of t elsewhere; only those that are needed."""
    infinite = np.isinf(dof)
    if infinite.all():
        return np.asarray(normal(values + np.zeros(dof.shape)))
    if not infinite.any():
        return np.asarray(of_t(dof, values))
    return np.asarray(np.where(infinite, normal(values), of_t(np.where(infinite, 1.0, dof), values)))


def dof_of_quantile(critical: FloatArray, alpha: float | FloatArray) -> FloatArray:
    """Degrees of freedom at which the two-sided critical value of t is as given; inf at the normal's and below."""

    def room(log_dof: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):  # critical values of 0, where there is no variance
            return np.log(critical) - np.log(t_quantile(alpha, np.exp(log_dof)))

    low, high = np.full(critical.shape, -4.0), np.full(critical.shape, 25.0)
    dof = np.exp(crossings(room, low, high, room(low), room(high), LAST_DIGITS))
    normal = t_quantile(alpha, np.full(critical.shape, np.inf))
    return np.where(np.isnan(critical), np.nan, np.where(critical > normal * (1 + ROUNDING), dof, np.inf))


@dataclass(frozen=True, eq=False)
class Scored:
    """Contrasts that are means of scores in [0, 1], or paired differences: their variance depends on the value."""

    rows: IntArray  # which of the contrasts
    scale: FloatArray  # what multiplies the mean or the difference in the contrast
    term: int  # the term whose variance grows towards the value tested
    null: NullVariance

    @classmethod
    def joined(cls, parts: Sequence[Scored]) -> Scored:
        """That of the contrasts of all parts, of one term."""
        rows, scale = (np.concatenate([getattr(part, name) for part in parts]) for name in ("rows", "scale"))
        return cls(rows, scale, parts[0].term, NullVariance.joined(part.null for part in parts))

    def tested(self, distance: FloatArray) -> tuple[FloatArray, BoolArray]:
        """The values so far from the contrasts, put within what there can be, and which of them there cannot be."""
        x = self.null.theta - distance[self.rows] / self.scale
        within = np.clip(x, *self.null.bounds)
        return within, np.abs(x - within) > ROUNDING


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

    @classmethod
    def one_t(cls, variance: FloatArray, dof: FloatArray) -> Widths:
        """Widths of contrasts, shape (m,), to which one t each serves all levels."""
        return cls(variance, variance[None], np.asarray(dof, dtype=np.float64)[None], np.ones((1, 1)))

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
            return t_quantile(alpha, self.dofs[0]) * np.sqrt(self.variance)
        with np.errstate(invalid="ignore"):  # infinite variances
            H = np.sqrt(np.clip(np.max(self.signs @ self._squares(alpha), axis=0), 0.0, None))
        return np.where(self.variance > 0, H, np.where(self.variance == 0, 0.0, np.nan))

    def critical(self, alpha: float | FloatArray) -> FloatArray:
        """H(alpha)/sqrt(v), shape (m,); without a positive variance the critical value of t with `dof`."""
        if self.signs.size == 1 and self.reach is None:
            return t_quantile(alpha, self.dofs[0])
        positive = self.variance > 0
        ratio = self.half(alpha) / np.sqrt(np.where(positive, self.variance, 1.0))
        return ratio if positive.all() else np.where(positive, ratio, t_quantile(alpha, self.dof(0.05)))

    def _squares(self, alpha: float | FloatArray) -> FloatArray:
        """t_A^2 V_A, shape (n_terms, m); a term without variance adds nothing whatever its dof."""
        t = t_quantile(np.broadcast_to(alpha, self.variance.shape), self.dofs)
        t = np.minimum(t, np.finfo(float).max ** 0.25)  # so that sums of squares with signs stay numbers
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
        p = np.zeros(x.shape)
        # A sum of positive terms is at least each of them, and so is its p-value.
        for term in np.flatnonzero(np.any(self.signs[np.all(self.signs >= 0, axis=1)] > 0, axis=0)):
            V = np.where(self.terms[term] > 0, self.terms[term], 1.0)
            alone = t_pvalues(x / np.sqrt(V), self.dofs[term])
            p = np.where(self.terms[term] > 0, np.maximum(p, alone), p)
        if np.any(np.count_nonzero(self.signs, axis=1) > 1):
            wanted = np.flatnonzero(known & (x > 0) & (p < 1))
            p[wanted] = self.chosen(wanted)._levels(x[wanted], p[wanted])
        return np.where(known, np.where(x == 0, 1.0, p), np.nan)

    def limits(self, estimate: FloatArray, alpha: float | FloatArray = 0.05) -> FloatArray:
        """Ends of the intervals, shape (m, 2): estimate +- H(alpha), or what a score test does not reject."""
        sides = np.stack([self.half(alpha)] * 2) if self.reach is None else self._sides(self.reach, alpha)
        below, above = np.where(self.variance > 0, sides, np.nan)
        ends = np.column_stack([estimate - below, estimate + above])
        if self.scored is not None:
            ends[self.scored.rows] = self._scored_limits(self.scored, estimate[self.scored.rows], alpha)
        return ends

    def under(self, scored: Scored, x: FloatArray) -> Widths:
        """Widths of the contrasts of `scored` were the means or differences x in truth; x of shape (..., m)."""
        null, rows, unit = scored.null, scored.rows, scored.scale**2
        elsewhere = null.elsewhere(x)
        growth = unit * (null.at(x) - elsewhere * null.seen)
        terms = np.expand_dims(elsewhere, -2) * np.nan_to_num(self.terms[:, rows])
        terms[..., scored.term, :] += growth
        # What one t serves has one term, of which that of the axis is a part.
        total = np.maximum(elsewhere * np.nan_to_num(self.variance[rows]) + growth, 0.0)
        variance = np.max(self.signs @ terms, axis=-2) if self.signs.size > 1 else total
        return Widths(np.maximum(variance, 0.0), np.maximum(terms, 0.0), self.dofs[:, rows], self.signs)

    def at_estimates(self) -> Widths:
        """Widths of t with the variances that score tests take at the estimates, where clusters may show too little."""
        if self.scored is None:
            return self
        rows, variance, terms = self.scored.rows, self.variance.copy(), self.terms.copy()
        now = self.under(self.scored, self.scored.null.theta)
        variance[rows], terms[:, rows] = now.variance, now.terms
        return replace(self, variance=variance, terms=terms, scored=None)

    def statistic(self, distance: FloatArray) -> FloatArray:
        """Signed distances in standard errors, shape (m,), those of `scored` under the value tested."""
        t = distance / np.sqrt(np.where(self.variance > 0, self.variance, np.nan))
        if self.scored is not None:
            scored = self.scored
            x, impossible = scored.tested(distance)
            at_x = self._statistic(scored, x) * np.sign(scored.scale)
            t[scored.rows] = np.where(impossible, np.copysign(np.inf, distance[scored.rows]), at_x)
        return t

    @staticmethod
    def _farther(scored: Scored, x: FloatArray, of: Any, farther: Any) -> FloatArray:
        """What is made of the values x; of a difference beyond zero the farther of that and of what is made of zero."""
        value, beyond = of(x), scored.null.signed & (scored.null.theta * x < 0)
        return np.where(beyond, farther(value, of(np.zeros(x.shape))), value) if beyond.any() else np.asarray(value)

    def _statistic(self, scored: Scored, x: FloatArray) -> FloatArray:
        """The distance from x in standard errors under x; of a difference beyond zero at least that from zero."""

        def plain(x: FloatArray) -> FloatArray:
            distance = scored.null.theta - x
            sd = np.sqrt(self.under(scored, x).variance) / np.abs(scored.scale)
            far = np.where(sd > 0, distance / np.where(sd > 0, sd, 1.0), np.copysign(np.inf, distance))
            return np.where(distance == 0, 0.0, far)

        return self._farther(
            scored, x, plain, lambda t, at_zero: np.copysign(np.maximum(np.abs(t), np.abs(at_zero)), t)
        )

    def _scored_pvalues(self, scored: Scored, distance: FloatArray) -> FloatArray:
        p, null = replace(self, scored=None).pvalues(distance), scored.null
        x, impossible = scored.tested(distance)

        def plain(x: FloatArray) -> FloatArray:
            far = null.theta - x
            widths = self.under(scored, x)
            pvalues = widths.pvalues(scored.scale * far)
            return np.where(far == 0, 1.0, np.where(widths.variance > 0, pvalues, 0.0))

        scored_p = np.where(impossible, 0.0, self._farther(scored, x, plain, np.minimum))
        p[scored.rows] = np.where(np.isnan(distance[scored.rows]), np.nan, scored_p)
        return p

    def _scored_limits(self, scored: Scored, estimate: FloatArray, alpha: float | FloatArray) -> FloatArray:
        """Values that are no further from theta than H under them, shape (m, 2), each end by root search.

        What estimates have beside their multiple of theta is a constant that was added.
        """
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
        beyond = null.signed & (null.theta * far < 0)
        if beyond.any():
            # Zero first, so that an interval holds it just where a test of no difference does not reject.
            zero = excess(np.zeros(far.shape))
            out, within = beyond & (zero > 0), beyond & (zero <= 0)
            outside, at_outside = np.where(out, 0.0, outside), np.where(out, zero, at_outside)
            inside, at_inside = np.where(within, 0.0, inside), np.where(within, zero, at_inside)
        ends = np.where(reached, crossings(excess, inside, outside, at_inside, at_outside, LAST_DIGITS), far)
        constant = estimate - scored.scale * null.theta
        constant[np.abs(constant) <= ROUNDING * np.abs(scored.scale)] = 0.0
        return np.sort(ends.T * scored.scale[:, None], axis=1) + constant[:, None]

    def _reached_pvalues(self, reach: Reach, distance: FloatArray) -> FloatArray:
        """P-values of which those of contrasts that allow for more are the levels at which a side is the distance."""
        p = np.where(np.isnan(self.variance), np.nan, self._plain.pvalues(distance))
        rows = np.unique(reach.row)
        rows = rows[~np.isnan(self.variance[rows]) & np.isfinite(distance[rows])]
        if rows.size:
            p[rows] = self.chosen(rows)._levels(distance[rows], np.nan_to_num(p[rows]))
        return p

    def _levels(self, distance: FloatArray, least: FloatArray) -> FloatArray:
        """Levels at which H, on the side of the distance, is the distance, all of which are at least so large."""
        side, place = (distance < 0).astype(np.intp), np.arange(distance.size)

        def outside(level: FloatArray) -> FloatArray:
            """How far outside the interval of each level the value tested lies, as a logarithm."""
            half = self.half(level) if self.reach is None else self._sides(self.reach, level)[side, place]
            with np.errstate(divide="ignore"):
                return np.log(np.abs(distance)) - np.log(half)

        return levels(outside, least)

    def chosen(self, rows: IntArray) -> Widths:
        """Those of some contrasts, in rising order, without what few questions leave open."""
        reach = None if self.reach is None else self.reach.chosen(rows)
        seen = None if self.seen is None else self.seen[rows]
        return Widths(self.variance[rows], self.terms[:, rows], self.dofs[:, rows], self.signs, None, reach, seen)

    def allowing(self, reach: Reach) -> Widths:
        """The same contrasts with more to allow for; the variance shown is that of the wider side at 5%, over t^2."""
        t = self.critical(USUAL_LEVEL)
        t = np.where(np.isfinite(t), t, t_quantile(USUAL_LEVEL, np.full(t.shape, np.inf)))
        more = np.max(reach.squares(np.full(t.shape, USUAL_LEVEL)), axis=0)
        return replace(self, variance=np.asarray(self.variance + more / t**2), reach=reach, seen=self.variance)

    def dof(self, alpha: float | FloatArray) -> FloatArray:
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
            level = np.broadcast_to(alpha, H.shape)[rest]
            nu[rest] = dof_of_quantile(H[rest] / np.sqrt(self.variance[rest]), level)
        return nu


def half_widths(null: NullVariance, dof: FloatArray, alpha: float) -> FloatArray:
    """Half the lengths of score intervals by one t each; shapes (m,)."""
    scored = Scored(np.arange(dof.size), np.ones(dof.size), 0, null)
    ends = replace(Widths.one_t(null.seen, dof), scored=scored).limits(null.theta, alpha)
    return np.diff(ends)[:, 0] / 2
