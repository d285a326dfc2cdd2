"""What differences allow for by the ends of intervals (MOVER): of means without a variance, at 0 or 1; of quantiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from evalreg.checks import FloatArray, IntArray
from evalreg.covariance.proportions import proportion_interval
from evalreg.data.clusters import Axis
from evalreg.estimate import Estimate, effective_clusters
from evalreg.numerics.matrices import Matrix, compressed, nonzero_entries, signs_of_entries, times, without_zeros


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
    if estimate.n_params < 2 or A is None or estimate.cells is None or estimate.family.own_range:
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


# Intervals that are not made of standard errors

# Levels at which intervals are combined, as normal quantiles: from one half to one in a thousand million.
LEVELS = np.append(scipy.special.ndtri(0.975), np.arange(0.25, 6.3, 0.25))


@dataclass(frozen=True, eq=False)
class MoverFloor:
    """Variances below which those of contrasts of two or more estimates may not lie.

    The interval of a difference that is made of the limits of the two, with their correlation R (MOVER), reaches from
    the estimate towards zero by H with H^2 = a'Ra, a_i the part of c_i theta_i that lies between the estimate and its
    limit on that side. The variance is the square of |estimate|/t at the level where H is the estimate, so that the t
    test rejects where that interval leaves zero out, and no less than (H/t)^2 at 5%. Zou and Donner (2008), Statistics
    in Medicine 27, 1693-1702, equations 7 and 8; Zou (2009), Statistics in Medicine 28, for correlated estimates.
    """

    theta: FloatArray
    # Distances to the lower and upper limits at each of `LEVELS`, (n_levels, k); infinite where there is none.
    below: FloatArray
    above: FloatArray
    correlation: FloatArray
    # Covariance of the estimates, for the critical values of contrasts.
    cov: Any
    # The parameters as contrasts of the estimates, (m, k).
    contrasts: FloatArray

    def linear(self, contrasts: FloatArray) -> MoverFloor:
        """The same for contrasts of the parameters."""
        return replace(self, contrasts=np.asarray(contrasts @ self.contrasts, dtype=np.float64))

    def variance(self, contrasts: FloatArray) -> FloatArray:
        """The least variance of each contrast; 0 for single estimates."""
        C = np.asarray(contrasts @ self.contrasts, dtype=np.float64)
        several, least = np.count_nonzero(C, axis=1) > 1, np.zeros(len(C))
        if not several.any():
            return least
        C = C[several]
        effect = C @ self.theta
        # At no difference either side is towards zero.
        sides = [self._reach(C, np.where(effect < 0, -1.0, 1.0)), self._reach(C, np.where(effect > 0, 1.0, -1.0))]
        (at_five, *_), H = np.maximum(*sides), np.maximum.accumulate(np.maximum(*sides)[1:], axis=0)
        t = np.array([self.cov.critical(C, 2 * scipy.special.ndtr(-z)) for z in LEVELS])
        with np.errstate(invalid="ignore", divide="ignore"):
            least[several] = np.maximum(_spread(np.abs(effect), H, t[1:]), at_five / t[0]) ** 2
        return least

    def _reach(self, C: FloatArray, side: FloatArray) -> FloatArray:
        """H of each level and contrast towards lower (side 1) or higher values (-1), shape (n_levels, m)."""
        squares = np.empty((LEVELS.size, C.shape[0]))
        for i, row in enumerate(C * side[:, None]):
            used = np.flatnonzero(row)
            limit = np.where(row[used] > 0, self.below[:, used], self.above[:, used])
            with np.errstate(invalid="ignore"):
                a = row[used] * limit
                squares[:, i] = np.sum((a @ self.correlation[np.ix_(used, used)]) * a, axis=1)
        return np.sqrt(np.where(np.isnan(squares), np.inf, np.maximum(squares, 0.0)))


def _spread(distance: FloatArray, H: FloatArray, t: FloatArray) -> FloatArray:
    """|estimate| over the t at which H, growing with the level, is the estimate; shape (m,)."""
    beyond = np.argmax(distance <= H, axis=0)
    never = ~np.any(distance <= H, axis=0)
    columns = np.arange(distance.size)
    before = np.maximum(beyond - 1, 0)
    low, high = H[before, columns], H[beyond, columns]
    share = np.where(np.isfinite(high) & (high > low), (distance - low) / (high - low), 0.0)
    reached = t[before, columns] + share * (t[beyond, columns] - t[before, columns])
    spread = np.where(beyond == 0, H[0] / t[0], distance / reached)
    return np.asarray(np.where(never, H[-1] / t[-1], spread))


def mover_floor(theta: FloatArray, cov: Any, limits: Callable[[FloatArray, FloatArray], FloatArray]) -> MoverFloor:
    """Least variances of contrasts of estimates, from their intervals.

    `limits` takes standard errors and critical values, and gives the ends of the intervals, (k, 2).
    """
    se = np.sqrt(cov.variance())
    ends = np.array([limits(se, cov.critical(None, 2 * scipy.special.ndtr(-z))) for z in LEVELS])
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.clip(cov.matrix / np.outer(se, se), -1.0, 1.0)
    # Not but for rounding, which would tell apart limits that meet.
    np.fill_diagonal(correlation, 1.0)
    return MoverFloor(theta, theta - ends[:, :, 0], ends[:, :, 1] - theta, correlation, cov, np.eye(theta.size))
