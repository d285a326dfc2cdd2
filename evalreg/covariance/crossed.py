"""Student's t, and widths of clusterings that cross: the signs of inclusion-exclusion, and sums of t^2 V over terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.choices import RepairName
from evalreg.data.clusters import Axis
from evalreg.estimate import Estimate, effective_clusters
from evalreg.numerics.limits import LAST_DIGITS, ROUNDING, SMALLEST_LEVEL
from evalreg.numerics.matrices import Matrix, compressed, nonzero_entries, signs_of_entries, times, without_zeros
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
    sets = [set(chosen) for size in range(1, len(axes) + 1) for chosen in combinations(axes, size)]
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


def dof_of_quantile(critical: FloatArray, alpha: float) -> FloatArray:
    """Degrees of freedom at which the two-sided critical value of t is as given; inf at the normal's and below."""

    def room(log_dof: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):  # critical values of 0, where there is no variance
            return np.asarray(np.log(critical) - np.log(t_quantile(alpha, np.exp(log_dof))))

    low, high = np.full(critical.shape, -4.0), np.full(critical.shape, 25.0)
    dof = np.exp(crossings(room, low, high, room(low), room(high), LAST_DIGITS))
    normal = t_quantile(alpha, np.full(critical.shape, np.inf))
    return np.where(np.isnan(critical), np.nan, np.where(critical > normal * (1 + ROUNDING), dof, np.inf))


def crossings(
    function: Callable[[FloatArray], FloatArray],
    low: FloatArray,
    high: FloatArray,
    at_low: FloatArray,
    at_high: FloatArray,
    width: float,
) -> FloatArray:
    """The ends `high` of brackets, once these are narrower than `width`; any shape, either end the larger number.

    The function is at most 0 at `low` and above 0 at `high`, and stays so; where it is not, `high` says nothing. NaN
    counts as at most 0. Inverse quadratic interpolation where three points lie well for it, bisection elsewhere
    (Chandrupatla 1997, Advances in Engineering Software 28, 145-149) and in every third step, so that no function takes
    more than three times the steps of halving. SciPy's floor has no root finder for arrays.
    """
    # The newest point a, the end b of the bracket on its other side, and the point c that the newest replaced.
    b, a = np.broadcast_arrays(low, high)
    at_b, at_a = np.where(np.isnan(at_low), -np.inf, at_low) + np.zeros(a.shape), at_high + np.zeros(a.shape)
    c, at_c, reached = b, at_b, at_a > 0
    share, widest = np.full(a.shape, 0.5), float(np.max(np.abs(b - a), initial=width))
    most = 3 * int(np.ceil(np.log2(widest / width)) + 1) if np.isfinite(widest) else 0
    while most > 0 and np.any((np.abs(b - a) > width) & reached):
        most -= 1
        new = a + share * (b - a)
        value = function(new)
        stays = (value > 0) == (at_a > 0)
        c, at_c = np.where(stays, a, b), np.where(stays, at_a, at_b)
        b, at_b = np.where(stays, b, a), np.where(stays, at_b, at_a)
        a, at_a = new, np.where(np.isnan(value), -np.inf, value)
        with np.errstate(all="ignore"):
            xi, phi = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
            near = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
            share = at_a / (at_b - at_a) * at_c / (at_b - at_c)
            share += (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
            least = np.minimum(width / 2 / np.abs(b - a), 0.5)
        # Never quite at an end, so that the bracket closes from both sides.
        share = np.where(near & np.isfinite(share) & (most % 3 > 0), np.clip(share, least, 1 - least), 0.5)
    return np.where(reached, np.where(at_a > 0, a, b), high)


def levels(outside: Callable[[FloatArray], FloatArray], least: FloatArray) -> FloatArray:
    """The levels above which values lie outside their intervals, where `outside` of the level is above 0, shape (m,).

    All are known to be at least so large; 0 of values that are outside at every level, 1 of those that never are.
    """

    def room(log_level: FloatArray) -> FloatArray:
        return outside(np.exp(log_level))

    low = np.log(np.maximum(least, SMALLEST_LEVEL))
    high, at_low = np.zeros(low.shape), room(low)
    always = at_low > 0
    reached = np.exp(crossings(room, low, high, at_low, np.where(always, 0.0, room(high)), ROUNDING))
    return np.where(always, np.where(least > SMALLEST_LEVEL, least, 0.0), reached)


def logit_interval(mean: FloatArray, se: FloatArray, critical: FloatArray) -> FloatArray:
    """Interval built on the logit scale, inside (0, 1) at every level.

    Korn and Graubard (1998), Survey Methodology 24, 193-201; Agresti (2013), Categorical Data Analysis, section 3.1.6.
    Shapes: mean, se (m,), critical (m,); returns (m, 2).
    """
    from scipy import special

    half = critical * se / (mean * (1 - mean))
    centre = special.logit(mean)
    ends = special.expit(np.column_stack([centre - half, centre + half]))
    return np.clip(ends, np.finfo(float).tiny, 1 - np.finfo(float).epsneg)


def logit_statistic(mean: FloatArray, se: FloatArray, value: FloatArray) -> FloatArray:
    """Distance of a mean from a value on the logit scale, in standard errors there.

    (logit p - logit p0) p (1 - p)/SE: beyond the critical value where `logit_interval` leaves the value out. Shapes:
    mean, se (m,), value (m,); returns (m,).
    """
    from scipy import special

    return np.asarray((special.logit(mean) - special.logit(value)) * mean * (1 - mean) / se)


def effective_n(
    mean: FloatArray,
    variance: FloatArray,
    n: FloatArray,
    critical: FloatArray,
    fallback: FloatArray,
    alpha: float | FloatArray,
) -> FloatArray:
    """Number of independent 0/1 trials with the same variance, with Korn and Graubard's t correction.

    Korn and Graubard (1998), Survey Methodology 24, 193-201. Shapes: mean, variance (m,), n (m,), critical (m,),
    fallback (m,), alpha (m,); returns (m,).
    """
    degenerate = (mean <= 0) | (mean >= 1) | ~(variance > 0)
    safe = np.where(degenerate, 1.0, variance)
    ratio = (t_quantile(alpha, np.maximum(n - 1, 1)) / critical) ** 2
    return np.where(degenerate, fallback, np.minimum(n, mean * (1 - mean) / safe * ratio))


def proportion_interval(mean: FloatArray, n: FloatArray, alpha: float | FloatArray, method: str) -> FloatArray:
    """Wilson, Clopper-Pearson or Jeffreys interval, as `proportion_confint` of statsmodels has them.

    Here because that function takes half a second to load. Bowyer, Aitchison and Ivanova (2025), arXiv:2503.01747;
    Brown, Cai and DasGupta (2001), Statistical Science 16(2). Shapes: mean (m,), n (m,), alpha (m,); returns (m, 2).
    """
    from scipy import special

    # A mean of fractions may lie past its bound by rounding.
    k, tail = np.clip(mean, 0.0, 1.0) * n, np.asarray(alpha) / 2
    if method == "wilson":
        z2 = special.ndtri(tail) ** 2
        centre, half = k + z2 / 2, np.sqrt(z2 * (k * (n - k) / n + z2 / 4))
        return np.clip(np.column_stack([centre - half, centre + half]) / (n + z2)[:, None], 0.0, 1.0)
    if method == "jeffreys":
        low = special.betaincinv(k + 0.5, n - k + 0.5, tail)
        high = special.betainccinv(k + 0.5, n - k + 0.5, tail)
    else:  # Clopper and Pearson's, which without a success or without a failure is a power of the tail.
        k, n, tail = np.broadcast_arrays(k, n, tail)
        low, high, inner = np.zeros(k.shape), np.ones(k.shape), (k > 0) & (k < n)
        none, all_of_them = k <= 0, k >= n
        low[all_of_them] = tail[all_of_them] ** (1 / n[all_of_them])
        high[none] = -np.expm1(np.log(tail[none]) / n[none])
        low[inner] = special.betaincinv(k[inner], n[inner] - k[inner] + 1, tail[inner])
        high[inner] = special.betainccinv(k[inner] + 1, n[inner] - k[inner], tail[inner])
    return np.column_stack([low, high]).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Reach:
    """What contrasts allow for beyond their variance; one entry for a contrast and a mean in it without a variance.

    Zou and Donner (2008), Statistics in Medicine 27, 1693-1702, equations 7 and 8: the interval of a difference from
    the intervals of two means (MOVER), here Clopper and Pearson's.
    """

    row: IntArray  # which of the contrasts
    size: FloatArray  # what the contrast moves by where the mean moves by 1
    mean: FloatArray
    trials: FloatArray  # effective clusters behind it

    def squares(self, alpha: FloatArray) -> FloatArray:
        """Squared distances to the lower and the upper end at each contrast's level (m,), shape (2, m)."""
        ends = proportion_interval(self.mean, self.trials, alpha[self.row], "clopper-pearson")
        apart = np.abs(ends.T - self.mean) * np.abs(self.size)
        sides = np.where(self.size > 0, apart, apart[::-1])
        return np.array([np.bincount(self.row, side**2, alpha.size) for side in sides])

    def within(self, rows: IntArray) -> Reach | None:
        """That of some contrasts alone, which keep their numbers; None where they allow for nothing."""
        mask = np.isin(self.row, rows)
        return Reach(self.row[mask], self.size[mask], self.mean[mask], self.trials[mask]) if mask.any() else None

    def chosen(self, rows: IntArray) -> Reach | None:
        """That of some contrasts, in rising order, which are numbered from 0."""
        reach = self.within(rows)
        return None if reach is None else replace(reach, row=np.searchsorted(rows, reach.row))


def joined_reach(parts: Sequence[Reach | None], starts: Sequence[int]) -> Reach | None:
    """That of contrasts that follow each other, each part with its first contrast."""
    columns = [
        (part.row + start, part.size, part.mean, part.trials)
        for part, start in zip(parts, starts, strict=True)
        if part is not None
    ]
    return Reach(*(np.concatenate(arrays) for arrays in zip(*columns, strict=True))) if columns else None


@dataclass(frozen=True, eq=False)
class Ends:
    """Means without a variance, and what other parameters move by with them."""

    which: IntArray  # (k,): which parameters have none
    mean: FloatArray  # (k,): 0 or 1, mostly
    trials: FloatArray  # (k,): effective clusters, on the axis that has most
    # (n_params, k): what parameters move by where all rows of one of these move by 1; an opponent loses what it wins
    moves: Matrix
    # The parameters as contrasts of those above, (m, n_params); None where they are the same.
    contrasts: Matrix | None = None

    def linear(self, contrasts: Matrix) -> Ends:
        """The same for contrasts of the parameters."""
        return replace(self, contrasts=self._of_means(contrasts))

    def reach(self, contrasts: Matrix) -> Reach | None:
        """What contrasts of two and more means allow for, if one of them has no variance; None where none does."""
        C = self._of_means(contrasts)
        size = self._sizes(compressed(C.multiply((np.diff(C.indptr) > 1)[:, None])))
        row = np.repeat(np.arange(C.shape[0]), np.diff(size.indptr))
        return Reach(row, size.data, self.mean[size.indices], self.trials[size.indices]) if row.size else None

    def variance(self, contrasts: Matrix, alpha: float, critical: float) -> FloatArray:
        """Covariance of contrasts of which each of these means has its distance at that level over t as an error.

        Shape (m, m), also of single means: for what is tested or drawn together.
        """
        size = self._sizes(self._of_means(contrasts)).toarray()
        ends = proportion_interval(self.mean, self.trials, alpha, "clopper-pearson")
        error = np.max(np.abs(ends - self.mean[:, None]), axis=1) / critical
        return np.asarray((size * error**2) @ size.T)

    def _of_means(self, contrasts: Matrix) -> Matrix:
        C = compressed(contrasts)
        return without_zeros(C if self.contrasts is None else times(C, compressed(self.contrasts)))

    def _sizes(self, C: Matrix) -> Matrix:
        """What contrasts move by where the rows of a mean in them move by 1, shape (m, k)."""
        size = without_zeros(compressed(C[:, self.which]))
        held = nonzero_entries(size)
        return without_zeros(compressed(held.multiply(C @ self.moves) - self._twice(size, held)))

    def _twice(self, size: Matrix, held: Matrix) -> Matrix:
        """What rows between two of these move, one at 0 and one at 1: they are among the rows of both, and count once.

        All of it is taken from the one at 1.
        """
        between, high = compressed(self.moves)[self.which].toarray(), self.mean > 0.5
        crossing = ~high[:, None] & high
        return size @ compressed(between * crossing) - size.multiply(held @ compressed(between.T * crossing))


def ends_of(estimate: Estimate, variance: FloatArray, axes: tuple[Axis, ...]) -> Ends | None:
    """Means of scores in [0, 1] without a variance among others; None where there are none.

    Clusters are those of the axis with most of them: that with the fewest, three judges say, would leave nothing to
    tell of any model that lost all.
    """
    which, A = np.flatnonzero(variance == 0), estimate.coefficient_map
    if not which.size or estimate.n_params < 2 or A is None or estimate.cells is None or estimate.family.own_range:
        return None
    A = compressed(A)
    each = [effective_clusters(estimate, (axis,)) for axis in axes] or [effective_clusters(estimate, ())]
    trials = np.max(each, axis=0)[which] * abs(A).sum(axis=1)[which] ** 2
    if not np.all(trials > 0):
        return None
    return Ends(which, estimate.params[which], trials, _moves(estimate, A, which))


def _moves(estimate: Estimate, A: Matrix, which: IntArray) -> Matrix:
    """What parameters move by where all rows of some means move by 1, shape (n_params, k)."""
    n = estimate.n_params
    diagonal = A.shape[1] == n == A.nnz and np.array_equal(A.indices, np.arange(n))
    if estimate.kind != "board" or not diagonal or estimate.cells is None:
        return times(A, signs_of_entries(A[which]).T.tocsr())
    # Means of models' own comparisons do not tell their opponents: as if each had met all others equally often.
    weight = estimate.cells.weight
    met = weight[which] / np.maximum(weight[:, None], weight[which]) / (n - 1)
    return compressed(np.where(np.arange(n)[:, None] == which, 1.0, -met))


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
        scored = [(part, first) for part, first in parts if part is not None]
        if not scored:
            return None
        rows = np.concatenate([part.rows + first for part, first in scored])
        scale = np.concatenate([part.scale for part, _ in scored])
        return cls(rows, scale, scored[0][0].term, NullVariance.joined(part.null for part, _ in scored))

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
            return np.asarray(t_quantile(alpha, self.dofs[0]) * np.sqrt(self.variance))
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
            ends[self.scored.rows] = self._scored_limits(self.scored, alpha)
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

    def statistic(self, distance: FloatArray) -> FloatArray:
        """Signed distances in standard errors, shape (m,), those of `scored` under the value tested."""
        t = np.asarray(distance / np.sqrt(np.where(self.variance > 0, self.variance, np.nan)))
        if self.scored is not None:
            scored = self.scored
            x, impossible = scored.tested(distance)
            at_x = self._statistic(scored, x) * np.sign(scored.scale)
            t[scored.rows] = np.where(impossible, np.copysign(np.inf, distance[scored.rows]), at_x)
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
        x, impossible = scored.tested(distance)

        def plain(x: FloatArray) -> FloatArray:
            far = null.theta - x
            widths = self.under(scored, x)
            pvalues = widths.pvalues(scored.scale * far)
            return np.where(far == 0, 1.0, np.where(widths.variance > 0, pvalues, 0.0))

        scored_p, beyond = plain(x), null.signed & (null.theta * x < 0)
        if beyond.any():
            scored_p = np.where(beyond, np.minimum(scored_p, plain(np.zeros(x.shape))), scored_p)
        scored_p[impossible] = 0.0
        p[scored.rows] = np.where(np.isnan(distance[scored.rows]), np.nan, scored_p)
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
        ends = np.where(reached, crossings(excess, inside, outside, at_inside, at_outside, LAST_DIGITS), far)
        return np.sort(ends.T * scored.scale[:, None], axis=1)

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
                return np.asarray(np.log(np.abs(distance)) - np.log(half))

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


def half_widths(null: NullVariance, dof: FloatArray, alpha: float) -> FloatArray:
    """Half the lengths of score intervals by one t each; shapes (m,)."""
    scored = Scored(np.arange(dof.size), np.ones(dof.size), 0, null)
    ends = replace(Widths.one_t(null.seen, dof), scored=scored).limits(null.theta, alpha)
    return np.asarray(np.diff(ends)[:, 0] / 2)


def joined(parts: Sequence[Widths]) -> Widths:
    """Widths of the contrasts of all parts, which have the same sums."""
    columns = [(part.variance[None], part.terms, part.dofs) for part in parts]
    variance, terms, dofs = (np.concatenate(arrays, axis=1) for arrays in zip(*columns, strict=True))
    starts = np.cumsum([0, *(part.variance.size for part in parts)])
    scored = Scored.joined([(part.scored, int(start)) for part, start in zip(parts, starts, strict=False)])
    reach = joined_reach([part.reach for part in parts], starts[:-1].tolist())
    seen = None
    if reach is not None:
        seen = np.concatenate([part.variance if part.seen is None else part.seen for part in parts])
    return Widths(variance[0], terms, dofs, parts[0].signs, scored, reach, seen)


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
