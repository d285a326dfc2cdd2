"""The distribution of the largest of several correlated statistics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from evalreg.checks import FloatArray, frozen

# Draws are summed up in this many bins: an error in p below 1e-4 of itself, far below that of the simulation.
BINS = 256


@dataclass(frozen=True, eq=False)
class LargestStatistic:
    """Distribution of the largest of several normal or t statistics that share one scale estimate.

    A normal vector is a length times a direction, independent of each other. The directions are drawn; over the
    length, and over the scale of t, the probability is exact. With one contrast nothing is left to chance.

    Hothorn, Bretz and Westfall (2008), Biometrical Journal 50(3), section 3; Deak (1980), Numerische Mathematik 35.
    """

    extent: FloatArray  # (n_bins,): largest statistic in a direction of length 1, by bins
    weight: FloatArray  # (n_bins,): share of the draws in each bin
    rank: int  # dimension of the normal vector
    dof: float  # degrees of freedom of the shared scale; inf for normals
    n_draws: int  # directions drawn

    def __post_init__(self) -> None:
        object.__setattr__(self, "extent", frozen(self.extent))
        object.__setattr__(self, "weight", frozen(self.weight))

    def _beyond(self, c: FloatArray) -> FloatArray:
        """P(length times extent >= c) for each value (rows) and bin, exact."""
        # Bounded, so that the square stays finite: beyond them the probability is 0 in any case.
        squared = (np.minimum(c, 1e50)[:, None] / np.maximum(self.extent, 1e-100)) ** 2
        if np.isinf(self.dof):
            return np.asarray(scipy.special.chdtrc(self.rank, squared))
        return np.asarray(scipy.special.fdtrc(self.rank, self.dof, squared / self.rank))

    def tail(self, values: FloatArray) -> FloatArray:
        """P(largest >= value), for values of 0 or more; NaN where a value is."""
        values = np.asarray(values, dtype=np.float64)
        parts = np.array_split(values, values.size // 1000 + 1)
        return np.concatenate([self._beyond(part) @ self.weight for part in parts])

    def quantile(self, alpha: float) -> float:
        """The value exceeded with probability `alpha`; 0 where that probability is not reached above 0."""
        # One leaderboard asks a dozen times.
        if alpha not in self._quantiles:
            self._quantiles[alpha] = self._quantile(alpha)
        return self._quantiles[alpha]

    @cached_property
    def _quantiles(self) -> dict[float, float]:
        return {}

    def _quantile(self, alpha: float) -> float:
        low, high = 0.0, 1.0
        if np.max(self.extent) <= 0 or float(self.weight[self.extent > 0].sum()) <= alpha:
            return 0.0
        while self.tail(np.array([high]))[0] > alpha:
            low, high = high, 2 * high
        last, at = (low, self._excess(low, alpha)), (high, self._excess(high, alpha))
        while high - low > 1e-12 * high:
            # By secant; at least half a tolerance towards the other end, which closes in the root from both sides.
            step = -at[1] * (at[0] - last[0]) / (at[1] - last[1]) if at[1] != last[1] else np.nan
            least = 4e-13 * high
            if abs(step) < least:
                step = least if at[0] == low else -least
            new = at[0] + step
            if not low < new < high:
                new = (low + high) / 2
            if not low < new < high:
                break
            last, at = at, (new, self._excess(new, alpha))
            low, high = (new, high) if at[1] > 0 else (low, new)
        return high

    def _excess(self, c: float, alpha: float) -> float:
        """Logarithm of the probability beyond a value over `alpha`, which is near a parabola; at least -700."""
        return float(np.log(max(self.tail(np.array([c]))[0] / alpha, 1e-304)))

    def quantile_error(self, alpha: float) -> float:
        """Standard error of `quantile` from the simulation, by the delta method."""
        c = self.quantile(alpha)
        if c == 0:
            return 0.0
        step = 1e-4 * c
        below, at, above = self._beyond(np.array([c - step, c, c + step]))
        slope = float((below - above) @ self.weight) / (2 * step)
        spread = np.sqrt(float((at - at @ self.weight) ** 2 @ self.weight))
        return float(spread / np.sqrt(self.n_draws) / slope) if slope > 0 else 0.0


def binned(extent: FloatArray, rank: int, dof: float) -> LargestStatistic:
    """Draws summed up by bins of equal width, each at the mean of its draws."""
    low, high = float(np.min(extent)), float(np.max(extent))
    bins = np.minimum(((extent - low) / max(high - low, 1e-300) * BINS).astype(np.intp), BINS - 1)
    count = np.bincount(bins, minlength=BINS)
    total = np.bincount(bins, weights=extent, minlength=BINS)
    held = count > 0
    return LargestStatistic(total[held] / count[held], count[held] / extent.size, rank, dof, extent.size)
