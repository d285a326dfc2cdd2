"""Asymptotic confidence sequences on totals of clusters: intervals that hold at every look together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from evalreg.checks import FloatArray, IntArray
from evalreg.numerics.limits import CONSTANT, ROUNDING

# Clusters that differ wholly, of those not seen yet, which differences of scores in [0, 1] count.
UNSEEN = 2.0
# From so many clusters that differ on, they count no more.
ENOUGH = 20.0


@dataclass(frozen=True, eq=False)
class Path:
    """Estimates as clusters come in, one entry for each number of clusters from 1."""

    estimate: FloatArray  # (n_clusters,): theta_t; NaN until every part has rows
    # (n_clusters,): standard deviation of one cluster's influence, s_t / nbar_t; the standard error is it over
    # sqrt(t)
    spread: FloatArray
    n_rows: IntArray  # (n_clusters,): rows so far
    # (n_clusters,): clusters so far that differ from zero, worth as many that differ alike: (sum |d|)^2 / sum d^2
    differing: FloatArray | None = None


def mixture_width(t: FloatArray, rho: float, alpha: float) -> FloatArray:
    """Half-width of the sequence for a cluster influence of standard deviation 1.

    Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024), Annals of Statistics 52(6), theorem 2.2 (arXiv:2103.06476).
    """
    inside = t * rho**2 + 1
    return np.sqrt(2 * inside / (t * rho) ** 2 * np.log(np.sqrt(inside) / alpha))


def mixture_rho(t0: float, alpha: float) -> float:
    """The rho that makes the sequence about as narrow as it can be at t0.

    Waudby-Smith et al. (2024), appendix on the choice of rho, where the exact minimum is a Lambert W; this is its first
    approximation.
    """
    return float(np.sqrt((-2 * np.log(alpha) + np.log(1 - 2 * np.log(alpha))) / t0))


def path_of_totals(totals: FloatArray, counts: FloatArray, contrast: FloatArray) -> Path:
    """A contrast of means after each cluster, and the spread of the clusters' influence on it.

    With T_g and n_g the total and the count of a part (one model's rows) in cluster g, theta_t is the sum over parts of
    c T/n, and the cluster has the influence sum over parts of c (T_g - mean_t n_g)/nbar_t. All of it is running sums.

    Shapes: totals, counts (n_clusters, n_parts), contrast (n_parts,).
    """
    n_clusters = len(totals)
    t = np.arange(1, n_clusters + 1)
    rows = np.cumsum(counts, axis=0)
    # About the final means, so that running sums of squares do not cancel.
    centre = totals.sum(axis=0) / counts.sum(axis=0)
    T = totals - centre * counts
    columns = np.concatenate([T, counts], axis=1)
    # Before every part has rows there is no mean, and what comes out is NaN.
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.cumsum(T, axis=0) / rows
        per_cluster = contrast * t[:, None] / rows
        # The influence of cluster g at t is a_t T_g + b_t n_g over the parts, so its square is of running products.
        coefficient = np.concatenate([per_cluster, -mean * per_cluster], axis=1)
        terms = np.cumsum(columns[:, :, None] * columns[:, None, :], axis=0)
        terms *= coefficient[:, :, None] * coefficient[:, None, :]
        square, size = terms.sum(axis=(1, 2)), np.abs(terms).sum(axis=(1, 2))
        uncentred = np.sum(per_cluster**2 * np.cumsum(totals**2, axis=0), axis=1)
        square[(square <= ROUNDING * size) | (square <= CONSTANT**2 * uncentred)] = 0.0
        estimate = (np.cumsum(totals, axis=0) / rows) @ contrast
        d = (totals * (n_clusters / rows[-1])) @ contrast
        differing = np.cumsum(np.abs(d)) ** 2 / np.maximum(np.cumsum(d**2), 1e-300)
        return Path(estimate, np.sqrt(square / t), rows.sum(axis=1).astype(np.intp), differing)


def roughness(totals: FloatArray, counts: FloatArray, contrast: FloatArray, start: int) -> tuple[float, float]:
    """How far the clusters' influences are from normal at the worst look.

    The skewness of their mean, and the largest share of one cluster in the sum of squares; both 0 where nothing varies.
    """
    t = np.arange(1, totals.shape[0] + 1)
    rows = counts.sum(axis=0)
    u = ((totals - totals.sum(axis=0) / rows * counts) / (rows / t[-1])) @ contrast
    m1, m2, m3 = (np.cumsum(u**k) / t for k in (1, 2, 3))
    variance = m2 - m1**2
    known = variance > ROUNDING * m2
    safe = np.where(known, variance, 1.0)
    skew = np.where(known, np.abs(m3 - 3 * m1 * m2 + 2 * m1**3) / safe**1.5 / np.sqrt(t), 0.0)
    share = np.where(known, np.maximum.accumulate((u - u.mean()) ** 2) / (safe * t), 0.0)
    return float(skew[start - 1 :].max()), float(np.minimum(share[start - 1 :], 1.0).max())


def bounds(
    path: Path, start: int, *, alpha: float, t0: int, logit: bool, limits: tuple[float, float] = (-np.inf, np.inf)
) -> tuple[FloatArray, FloatArray]:
    """Ends of the confidence sequence from its first look on.

    `logit`: whether to build them for log(theta/(1 - theta)), whose influence is that of theta over theta (1 - theta),
    and turn them back: for a mean of scores in [0, 1]. Scores all alike so far then give [0, 1]. `limits`: between
    which the truth must lie, and all that is said until the clusters vary. Where fewer than 20 clusters differ, a
    difference of scores in [0, 1], (-1, 1), counts up to two more that differ wholly, not seen yet. Shapes: returns
    lower, upper (n_clusters - start + 1,).
    """
    t = np.arange(start, path.estimate.size + 1).astype(float)
    theta, spread = path.estimate[start - 1 :], path.spread[start - 1 :]
    width, known = mixture_width(t, mixture_rho(t0, alpha), alpha), spread > 0
    if not logit:
        few = 0.0 if path.differing is None else np.clip(1.25 * (1 - path.differing[start - 1 :] / ENOUGH), 0.0, 1.0)
        unseen = few * UNSEEN / t if limits == (-1.0, 1.0) else 0.0
        half = np.sqrt(spread**2 + unseen) * width
        return np.where(known, theta - half, limits[0]), np.where(known, theta + half, limits[1])
    half = spread * width
    inside = np.where(known, theta, 0.5)
    middle, half = scipy.special.logit(inside), np.where(known, half, np.inf) / (inside * (1 - inside))
    return scipy.special.expit(middle - half), scipy.special.expit(middle + half)
