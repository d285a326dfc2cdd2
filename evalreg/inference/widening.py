"""Means of scores in [0, 1] with few whole successes or failures behind them, and how their intervals are widened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalreg.checks import BoolArray, FloatArray
from evalreg.covariance.covariance import Covariance
from evalreg.data.clusters import Axis
from evalreg.errors import NotAvailableError
from evalreg.estimate import Cells, Estimate
from evalreg.estimate.behind import effective_clusters
from evalreg.inference.dependence import alike_in_strata, exchangeable_limit, exchangeable_variance, strata_variance
from evalreg.numerics.matrices import (
    absolute_entries,
    compressed,
    scale_columns,
    scale_rows,
    signs_of_entries,
    transposed,
    without_zeros,
)
from evalreg.numerics.proportions import effective_n, proportion_interval, t_quantile

# With fewer effective successes or failures the logit interval of a mean is widened.
FEW_SUCCESSES = 5.0
# Five are five whatever the order in which rows were added up.
ROUNDING = 1e-9
# Twice as many clusters that carry a mean tell its variance well enough.
CARRIERS = 5.0


@dataclass(frozen=True, eq=False)
class Carried:
    """How many clusters of one axis carry the means' distances from the ends."""

    effective: FloatArray  # (n_params,): G*, Kish's effective number of clusters
    # (2, n_params): c^2, the variance of the clusters' means over the squared distance of the mean from the end
    uneven: FloatArray

    @property
    def carriers(self) -> FloatArray:
        """L = G*/(1 + c^2), shape (2, n_params)."""
        return np.asarray(self.effective / (1.0 + self.uneven))


@dataclass(frozen=True, eq=False)
class Widening:
    """Which means are widened, and what their further intervals are made of; the first axis: both ends of [0, 1]."""

    # (2, n_params): means with fewer than five whole successes (failures) among the effective rows, counted from the
    # lowest (highest) score seen; and those that count on strata without a variance
    few: BoolArray
    end: FloatArray  # (2, n_params): the lowest score a and 1 - a; the highest score as a distance from 1, and the rest
    reach: FloatArray
    share: FloatArray  # (2, n_params): z = (p - a)/(1 - a), the distance of the mean from the end in units of the reach
    rows: FloatArray  # (n_params,): n, the most trials while few clusters carry the mean
    by_rows: FloatArray  # (2, n_params): trials of the same variance: of independent rows, and of V*
    by_variance: FloatArray
    trust: FloatArray  # (2, n_params): f, from 0 (at most n trials) to 1 (what the variance says)
    carriers: tuple[Carried, ...]  # what carries the distances from the ends, one for each axis
    exact: BoolArray  # (n_params,): independent 0/1 scores, whose interval is Clopper and Pearson's
    whole: BoolArray  # (n_params,): means of 0/1 scores, where no row can lie beyond those seen
    unvaried: BoolArray  # (n_params,): means over strata of which some show no variance, and would add to that in use

    @property
    def acts(self) -> BoolArray:
        """Means whose interval is widened, shape (n_params,)."""
        return np.asarray(self.few.any(axis=0))

    def limits(self, alpha: FloatArray, critical: FloatArray) -> FloatArray:
        """What intervals of these levels also hold, shape (n_params, 2); NaN where nothing is widened."""
        found = np.full((alpha.size, 2), np.nan)
        for side in (0, 1):
            at = self.few[side] & ~self.exact
            trials = self._trials(side, alpha, critical)[at]
            ends = proportion_interval(self.share[side][at], trials, alpha[at], "jeffreys")
            ends = self.end[side][at, None] + self.reach[side][at, None] * ends
            ends = 1.0 - ends[:, ::-1] if side else ends
            found[at] = np.column_stack([np.fmin(found[at, 0], ends[:, 0]), np.fmax(found[at, 1], ends[:, 1])])
        at = self.acts & self.exact
        mean = self.end[0] + self.reach[0] * self.share[0]
        found[at] = proportion_interval(mean[at], self.rows[at], alpha[at], "clopper-pearson")
        return found

    def _trials(self, side: int, alpha: FloatArray, critical: FloatArray) -> FloatArray:
        """Effective trials, with Korn and Graubard's correction of what the variance says."""
        ratio = (t_quantile(alpha, np.maximum(self.rows - 1, 1)) / critical) ** 2
        by_variance = ratio * self.by_variance[side]
        at_most_rows, by_rows = np.minimum(self.rows, by_variance), np.minimum(self.by_rows[side], by_variance)
        return np.asarray(at_most_rows ** (1 - self.trust[side]) * by_rows ** self.trust[side])


def widening(estimate: Estimate, cov: Covariance) -> Widening | None:
    """How default intervals of means in [0, 1] are widened near an end, or None where none is.

    With z = d/S, d the distance of the mean from the lowest (highest) score seen and S that of the far bound, a mean is
    widened where min(n, M) z < 5, M = d (S - d)/V*. V* is the larger of the variance in use and of that which the
    intraclass correlation and the sizes of clusters imply. Found once for a covariance, since intervals, p-values and
    summaries ask for it in turn.
    """
    held = cov.kept.get("widening")
    if held is None or held[0] is not estimate:
        held = cov.kept["widening"] = (estimate, _widening(estimate, cov))
    found: Widening | None = held[1]
    return found


def _widening(estimate: Estimate, cov: Covariance) -> Widening | None:
    variance = cov.variance()
    if not estimate.bounded or estimate.about.interval != "widened" or estimate.cells is None:
        return None
    # Most logs are settled without a pass over their clusters for the correlation within them.
    exact, alike = counted(estimate, cov), strata_variance(estimate, cov)
    unvaried = alike_in_strata(alike, variance)
    most = np.fmax(np.fmax(variance, alike), exchangeable_limit(estimate, cov))
    if not (unvaried.any() or _few(estimate, cov, most, exact).any()):
        return None
    larger = np.fmax(np.fmax(variance, alike), exchangeable_variance(estimate, cov))
    counted_few = _few(estimate, cov, larger, exact)
    few = counted_few | (unvaried & _inside(estimate, cov))
    if not few.any():
        return None
    n, s2 = n_rows(estimate), scatter(estimate)
    end, distance = _ends(estimate, estimate.cells)
    reach = 1.0 - end
    known = few.any(axis=0)
    distance, reach = np.where(known, distance, 0.5), np.where(known, reach, 1.0)
    spread = distance * (reach - distance)
    carriers = carried(estimate, cov.axes, distance, s2)
    # Of many failures in strata the variance alone says how many trials they are worth.
    many, by_rows = ~counted_few, np.where(s2 > 0, n * spread / np.where(s2 > 0, s2, 1.0), np.inf)
    return Widening(
        few=few,
        end=end,
        reach=reach,
        share=np.clip(distance / reach, 0.0, 1.0),
        rows=n,
        by_rows=np.where(many, np.inf, by_rows),
        by_variance=spread / np.where(known, larger, 1.0),
        trust=np.where(many, 1.0, _trust(carriers, distance)),
        carriers=carriers,
        exact=exact,
        whole=_whole(estimate, estimate.cells),
        unvaried=unvaried & known,
    )


def _inside(estimate: Estimate, cov: Covariance) -> BoolArray:
    """Means inside the range of their scores, shape (2, n_params)."""
    assert estimate.cells is not None
    mean = np.array(estimate.params)
    return np.asarray((cov.variance() > 0) & (mean > 0) & (mean < 1) & (_ends(estimate, estimate.cells)[1] > 0))


def _few(estimate: Estimate, cov: Covariance, larger: FloatArray, exact: BoolArray) -> BoolArray:
    """Where fewer than five successes or failures are effective, shape (2, n_params)."""
    assert estimate.cells is not None
    n, (end, distance) = n_rows(estimate), _ends(estimate, estimate.cells)
    known = _inside(estimate, cov)
    share = np.where(known, distance, 0.5) / np.where(known, 1.0 - end, 1.0)
    by_variance = distance * (1.0 - end - distance) / np.where(known, larger, 1.0)
    trials = np.where(exact, n, np.minimum(n, by_variance))
    return known & too_few(trials * share)


def too_few(effective: FloatArray) -> BoolArray:
    """Whether successes or failures are fewer than five."""
    return np.asarray(effective < FEW_SUCCESSES * (1 - ROUNDING))


def n_rows(estimate: Estimate) -> FloatArray:
    """Rows behind each mean, shape (n_params,)."""
    assert estimate.cells is not None
    return np.asarray(absolute_entries(signs_of_entries(estimate.coefficient_map)) @ estimate.cells.count, dtype=float)


def _ends(estimate: Estimate, cells: Cells) -> tuple[FloatArray, FloatArray]:
    """The lowest score and 1 less the highest of each mean, and its distance from either, both (2, n_params)."""
    A = without_zeros(compressed(estimate.coefficient_map))
    low = np.minimum.reduceat(cells.low[A.indices], A.indptr[:-1])
    high = np.maximum.reduceat(cells.high[A.indices], A.indptr[:-1])
    mean = np.array(estimate.params)
    return np.stack([low, 1.0 - high]), np.stack([mean - low, high - mean])


def scatter(estimate: Estimate) -> FloatArray:
    """Weighted variance of the scores about each mean, whichever cells they are in, shape (n_params,)."""
    A, cells = compressed(estimate.coefficient_map), estimate.cells
    assert cells is not None
    rows = np.repeat(np.arange(estimate.n_params), np.diff(A.indptr))
    about = cells.scatter[A.indices] + (cells.mean[A.indices] - np.array(estimate.params)[rows]) ** 2
    return np.asarray(np.bincount(rows, A.data * about, estimate.n_params), dtype=np.float64)


def _whole(estimate: Estimate, cells: Cells) -> BoolArray:
    """Means of scores that are 0 or 1."""
    other = ~np.isclose(cells.scatter, cells.mean * (1 - cells.mean), rtol=1e-9, atol=1e-12)
    return np.asarray((signs_of_entries(estimate.coefficient_map) @ other) == 0)


def trusted(estimate: Estimate, axes: tuple[Axis, ...], distance: FloatArray, s2: FloatArray) -> FloatArray:
    """f: whether the clusters that carry a mean's distance from the end are enough to tell its variance."""
    return _trust(carried(estimate, axes, distance, s2), distance)


def carried(estimate: Estimate, axes: tuple[Axis, ...], distance: FloatArray, s2: FloatArray) -> tuple[Carried, ...]:
    """What carries the means' distances from the ends, by axis; the rows where there is none."""
    pairs = [_between(estimate, axis) for axis in axes] or [(n_rows(estimate), s2)]
    return tuple(Carried(effective, between / distance**2) for effective, between in pairs)


def _trust(carriers: tuple[Carried, ...], distance: FloatArray) -> FloatArray:
    trust = np.ones(distance.shape)
    for found in carriers:
        enough = np.clip((found.carriers - CARRIERS) / CARRIERS, 0.0, 1.0)
        trust = np.minimum(trust, np.maximum(enough, np.clip(2.0 - 2.0 * found.uneven, 0.0, 1.0)))
    return trust


def _between(estimate: Estimate, axis: Axis) -> tuple[FloatArray, FloatArray]:
    """Kish's effective clusters of each mean, and the weighted variance of the clusters' means about it."""
    cells, params = estimate.cells, np.array(estimate.params)
    assert cells is not None
    share = transposed(scale_columns(compressed(estimate.coefficient_map), 1.0 / cells.weight))
    # Of a mean of several cells these lie away from it, whatever their clusters do.
    away = scale_rows(share, cells.mean) - scale_columns(share, params)
    found = estimate.scores.column_sums(axis, share, share, away if np.any(away.data) else None)
    return 1.0 / found.squares, found.between


def effective_trials(
    estimate: Estimate, cov: Covariance, alpha: float | FloatArray | None, variance: FloatArray
) -> FloatArray:
    """Effective number of 0/1 trials behind each mean; their number itself for independent 0/1 scores.

    Shapes: variance (n_params,); returns (n_params,).
    """
    if estimate.cells is None or estimate.coefficient_map is None:
        raise NotAvailableError("a proportion's interval needs means of cells.")
    n, mean = n_rows(estimate), np.array(estimate.params)
    degenerate = (mean <= 0) | (mean >= 1) | ~(variance > 0)
    # A pass over the cells of every axis, which few logs need.
    clusters = effective_clusters(estimate, cov.axes) if degenerate.any() else np.ones(mean.size)
    level = 0.5 if alpha is None else alpha
    critical = t_quantile(level, np.maximum(n - 1, 1)) if alpha is None else cov.critical(alpha=level)
    korn = effective_n(mean, variance, n, critical, clusters, level)
    return np.where(counted(estimate, cov), n, korn)


def counted(estimate: Estimate, cov: Covariance) -> BoolArray:
    """Means of independent 0/1 scores, whose rows are the trials and need not be estimated.

    Shapes: returns (n_params,).
    """
    cells, A = estimate.cells, estimate.coefficient_map
    none = np.zeros(estimate.n_params, dtype=bool)
    if cells is None or A is None or not np.array_equal(cells.count, cells.weight):
        return none
    found: BoolArray = np.diff(without_zeros(compressed(A)).indptr) == 1
    # With fewer clusters than rows of the largest mean, some rows of it share one; that needs no pass.
    found &= np.array([n_rows(estimate) <= estimate.scores.n_clusters(axis) for axis in cov.axes]).all(axis=0)
    if found.any():
        found &= _whole(estimate, cells)
    if not found.any() or not cov.axes:
        return found
    # Intervals and p-values ask alike, and the answer is a pass over the cells of every axis.
    held = cov.kept.get("effective clusters")
    if held is None or held[0] is not estimate:
        held = cov.kept["effective clusters"] = (estimate, effective_clusters(estimate, cov.axes))
    effective: FloatArray = held[1]
    return found & (effective > n_rows(estimate) - 0.5)
