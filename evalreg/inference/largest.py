"""The distribution of the largest of several correlated statistics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from evalreg.checks import FloatArray, hold
from evalreg.numerics.student import t_pvalues, t_quantile

# Draws are summed up in this many bins: an error in p below 1e-4 of itself, far below that of the simulation.
BINS = 256
# The draws tell a tail as long as its standard error is no more than this part of it, and it is no smaller than this.
TOLD, SMALLEST = 0.1, 1e-280
# Lengths are compared with numbers up to this one, whose square is finite.
FURTHEST = 1e150
# Tails of more values than these are interpolated between so many nodes or more, until they are right to this fraction,
# by polynomials of this degree.
MANY_VALUES, FEWEST_NODES, RIGHT, DEGREE = 1 << 13, 1 << 10, 1e-9, 5


@dataclass(frozen=True, eq=False)
class LargestStatistic:
    """Distribution of the largest of several normal or t statistics that share one scale estimate.

    A normal vector is a length times a direction, independent of each other. The directions are drawn; over the
    length, and over the scale of t, the probability is exact. With one contrast nothing is left to chance.

    So far out that hardly a direction reaches there, the draws would say too little: the probability is then that of
    all statistics one by one, added up (Bonferroni), which is no smaller than the true one.

    Hothorn, Bretz and Westfall (2008), Biometrical Journal 50(3), section 3; Deak (1980), Numerische Mathematik 35.
    """

    extent: FloatArray  # (n_bins,): largest statistic in a direction of length 1, by bins
    weight: FloatArray  # (n_bins,): probability of each bin: the weights of its draws, added up
    squares: FloatArray  # (n_bins,): the squares of these weights, added up
    rank: int  # dimension of the normal vector
    dof: float  # degrees of freedom of the shared scale; inf for normals
    n_draws: int  # directions drawn
    count: int  # statistics that it is the largest of
    # Of draws that were aimed their number, and the bins that they have at the end; see `aimed_largest`.
    n_aimed: int = 0
    aimed_bins: int = 0

    def __post_init__(self) -> None:
        hold(self)

    def _beyond(self, c: FloatArray) -> FloatArray:
        """P(length times extent >= c) for each value (rows) and bin, exact."""
        with np.errstate(over="ignore"):
            squared = np.minimum(c[:, None] / np.maximum(self.extent, 1e-100), FURTHEST) ** 2
        if np.isinf(self.dof):
            return np.asarray(scipy.special.chdtrc(self.rank, squared))
        return np.asarray(scipy.special.fdtrc(self.rank, self.dof, squared / self.rank))

    def tail(self, values: FloatArray) -> FloatArray:
        """P(largest >= value), for values of 0 or more; NaN where a value is."""
        values = np.asarray(values, dtype=np.float64)
        near, last = values <= self._told, self._tail(np.array([self._told]))[0]
        p: FloatArray = np.minimum(self._added_up(values), last)
        p[near] = self._between_nodes(values[near]) if near.sum() > MANY_VALUES else self._tail(values[near])
        return p

    def _tail(self, values: FloatArray) -> FloatArray:
        """The same, as the draws have it."""
        parts = np.array_split(values, values.size // 1000 + 1)
        return np.concatenate([self._beyond(part) @ self.weight for part in parts])

    def _added_up(self, values: FloatArray) -> FloatArray:
        """Probabilities of the statistics one by one, added up."""
        return self.count * t_pvalues(values, np.full(values.shape, self.dof))

    def _between_nodes(self, values: FloatArray) -> FloatArray:
        """The tail of many values, as the draws have it: its logarithm as a function of that of 1 + the value."""
        last, n = np.log1p(np.max(values)), FEWEST_NODES
        while last > 0 and n < values.size:
            known = np.log(self._tail(np.expm1(np.linspace(0.0, last, n + 1))))
            # Half the nodes have to tell the other half.
            if np.max(np.abs(interpolated(known[::2], np.arange(0.5, n // 2)) - known[1::2])) < RIGHT:
                return np.exp(np.minimum(interpolated(known, np.log1p(values) / last * n), 0.0))
            n *= 2
        return self._tail(values)

    def _tells(self, c: float) -> bool:
        """Whether the draws tell the tail beyond a value, by its standard error from the simulation."""
        beyond = self._beyond(np.array([c]))[0]
        tail = beyond @ self.weight
        if np.isinf(c) or tail < SMALLEST:
            return False
        return self._error(beyond / tail) <= TOLD

    @cached_property
    def _told(self) -> float:
        """The largest value whose tail the draws tell."""
        low, high = 0.0, float(np.log1p(FURTHEST))
        while high - low > 1e-9:
            middle = (low + high) / 2
            low, high = (middle, high) if self._tells(float(np.expm1(middle))) else (low, middle)
        return float(np.expm1(low))

    def quantile(self, alpha: float) -> float:
        """The value exceeded with probability `alpha`; 0 where that probability is not reached above 0."""
        # One leaderboard asks a dozen times.
        if alpha not in self._quantiles:
            c = self._quantile(alpha)
            if not self._tells(c):
                c = max(self._told, float(t_quantile(alpha / self.count, np.array([self.dof]))[0]))
            self._quantiles[alpha] = c
        return self._quantiles[alpha]

    @cached_property
    def _quantiles(self) -> dict[float, float]:
        return {}

    def _quantile(self, alpha: float) -> float:
        """The same, as the draws have it; infinite where no number below `FURTHEST` is exceeded so rarely."""
        low, high = 0.0, 1.0
        if np.max(self.extent) <= 0 or float(self.weight[self.extent > 0].sum()) <= alpha:
            return 0.0
        while self._tail(np.array([high]))[0] > alpha:
            low, high = high, 2 * high
            if high > FURTHEST * np.max(self.extent):
                return float("inf")
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
        return float(np.log(max(self._tail(np.array([c]))[0] / alpha, 1e-304)))

    def quantile_error(self, alpha: float) -> float:
        """Standard error of `quantile` from the simulation; 0 where that is of no account."""
        return self.drawn_error(alpha) if self._tells(self._quantile(alpha)) else 0.0

    def drawn_error(self, alpha: float) -> float:
        """Standard error of the quantile as the draws have it, by the delta method."""
        c = self._quantile(alpha)
        if c == 0 or np.isinf(c):
            return 0.0
        step = 1e-4 * c
        below, at, above = self._beyond(np.array([c - step, c, c + step]))
        slope = float((below - above) @ self.weight) / (2 * step)
        return self._error(at) / slope if slope > 0 else 0.0

    def _error(self, values: FloatArray) -> float:
        """Standard error of values @ weight from the simulation."""
        plain = slice(values.size - self.aimed_bins)
        # What aimed draws find to be rare goes to the plain ones, so that they add what is above these' mean.
        above = values - values[plain] @ self.weight[plain] / self.weight[plain].sum()
        added = above @ self.weight if self.n_aimed else 0.0
        return float(np.sqrt(max(above**2 @ self.squares - added**2 / max(self.n_aimed, 1), 0.0)))


def interpolated(nodes: FloatArray, at: FloatArray) -> FloatArray:
    """Values between nodes at 0, 1, 2 and so on, by the polynomials through the nearest six, in Newton's form."""
    first = np.clip(at.astype(np.intp) - DEGREE // 2, 0, nodes.size - 1 - DEGREE)
    x, result = at - first, np.zeros(at.shape)
    for k in range(DEGREE, -1, -1):
        result *= (x - k) / (k + 1)
        result += np.diff(nodes, k)[first]
    return result


def binned(extent: FloatArray, weight: FloatArray) -> FloatArray:
    """Draws summed up by bins of equal width, each at the mean of its draws.

    Extents, weights, and squared weights: shape (3, n_bins).
    """
    low, high = float(np.min(extent)), float(np.max(extent))
    bins = np.minimum(((extent - low) / max(high - low, 1e-300) * BINS).astype(np.intp), BINS - 1)
    held = np.bincount(bins, minlength=BINS) > 0
    share, total, squares = (np.bincount(bins, each, BINS)[held] for each in (weight, weight * extent, weight**2))
    return np.array([total / share, share, squares])
