"""Differences of estimates whose intervals are not symmetric: their errors from both intervals, not from one slope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import scipy

from evalreg.checks import FloatArray, IntArray
from evalreg.numerics.matrices import compressed

# Levels at which intervals are combined, as normal quantiles: from one half to one in a thousand million.
LEVELS = np.append(scipy.special.ndtri(0.975), np.arange(0.25, 6.3, 0.25))


class Critical(Protocol):
    """What is asked of the covariance of single estimates."""

    def variance(self, contrasts: FloatArray | None = None) -> FloatArray:
        """Return variances of contrasts."""

    def critical(self, contrasts: FloatArray | None = None, alpha: float | FloatArray = 0.05) -> FloatArray:
        """Return half-widths in standard errors."""

    @property
    def matrix(self) -> FloatArray:
        """The covariance shown."""


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
    cov: Critical
    # The parameters as contrasts of the estimates, (m, k); None where they are the same.
    contrasts: FloatArray | None = None

    def linear(self, contrasts: FloatArray, names: Sequence[str]) -> MoverFloor:
        """The same for contrasts of the parameters."""
        C = np.asarray(contrasts, dtype=np.float64)
        return replace(self, contrasts=C if self.contrasts is None else C @ self.contrasts)

    def variance(self, contrasts: FloatArray) -> FloatArray:
        """The least variance of each contrast; 0 for single estimates."""
        C = np.asarray(contrasts, dtype=np.float64)
        C = C if self.contrasts is None else C @ self.contrasts
        several = np.flatnonzero(np.count_nonzero(C, axis=1) > 1)
        least = np.zeros(C.shape[0])
        if several.size:
            least[several] = self._combined(C[several])
        return least

    def _combined(self, C: FloatArray) -> FloatArray:
        effect = C @ self.theta
        # At no difference either side is towards zero.
        sides = [self._reach(C, np.where(effect < 0, -1.0, 1.0)), self._reach(C, np.where(effect > 0, 1.0, -1.0))]
        H = np.maximum.accumulate(np.maximum(*sides)[1:], axis=0)
        at_five = np.maximum(*sides)[0]
        t = np.array([self.cov.critical(C, 2 * scipy.special.ndtr(-z)) for z in LEVELS])
        with np.errstate(invalid="ignore", divide="ignore"):
            spread: FloatArray = np.maximum(_spread(np.abs(effect), H, t[1:]), at_five / t[0])
        return spread**2

    def _reach(self, C: FloatArray, side: FloatArray) -> FloatArray:
        """H of each level and contrast towards lower (side 1) or higher values (-1), shape (n_levels, m)."""
        rows = compressed(C)
        if np.all(np.diff(rows.indptr) == 2):
            first, second = rows.indices.reshape(-1, 2).T
            c = rows.data.reshape(-1, 2).T * side
            a, b = self._part(c[0], first), self._part(c[1], second)
            with np.errstate(invalid="ignore"):
                squares = a**2 + b**2 + 2 * self.correlation[first, second] * a * b
        else:
            columns = np.arange(C.shape[1])
            squares = np.empty((LEVELS.size, C.shape[0]))
            for i, row in enumerate(C * side[:, None]):
                used = columns[row != 0]
                a = self._part(row[used], used)
                with np.errstate(invalid="ignore"):
                    squares[:, i] = np.sum((a @ self.correlation[np.ix_(used, used)]) * a, axis=1)
        return np.sqrt(np.where(np.isnan(squares), np.inf, np.maximum(squares, 0.0)))

    def _part(self, c: FloatArray, column: IntArray) -> FloatArray:
        """c times the distance to the limit that makes c theta smaller, shape (n_levels, m)."""
        return np.asarray(c * np.where(c > 0, self.below[:, column], self.above[:, column]))


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


def mover_floor(theta: FloatArray, cov: Critical, limits: Callable[[FloatArray, FloatArray], FloatArray]) -> MoverFloor:
    """Least variances of contrasts of estimates, from their intervals.

    `limits` takes standard errors and critical values, and gives the ends of the intervals, (k, 2).
    """
    se = np.sqrt(cov.variance())
    ends = np.array([limits(se, cov.critical(None, 2 * scipy.special.ndtr(-z))) for z in LEVELS])
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = cov.matrix / np.outer(se, se)
    return MoverFloor(theta, theta - ends[:, :, 0], ends[:, :, 1] - theta, np.clip(correlation, -1.0, 1.0), cov)
