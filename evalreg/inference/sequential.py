"""Asymptotic confidence sequences on totals of clusters: intervals that hold at every look together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from evalreg.checks import FloatArray, IntArray

# Squared totals that cancel to this fraction of their terms are rounding.
ROUNDING = 1e-12
# So are squares about the mean that are this fraction of the squares about zero.
UNCENTRED = 1e-26
# Clusters that differ wholly, of those not seen yet, which differences of scores in [0, 1] count.
UNSEEN = 2.0
# From so many clusters that differ on, they count no more.
ENOUGH = 20.0


@dataclass(frozen=True, eq=False)
class Path:
    """Estimates as clusters come in, one entry for each number of clusters from 1.

    Parameters
    ----------
    estimate : ndarray, shape (n_clusters,)
        theta_t; NaN until every part has rows.
    spread : ndarray, shape (n_clusters,)
        Standard deviation of one cluster's influence, s_t / nbar_t; the standard error is it over sqrt(t).
    n_rows : ndarray of int, shape (n_clusters,)
        Rows so far.
    differing : ndarray, shape (n_clusters,), optional
        Clusters so far that differ from zero, worth as many that differ alike: (sum |d|)^2 / sum d^2.
    """

    estimate: FloatArray
    spread: FloatArray
    n_rows: IntArray
    differing: FloatArray | None = None


def mixture_width(t: FloatArray, rho: float, alpha: float) -> FloatArray:
    """Half-width of the sequence for a cluster influence of standard deviation 1.

    Parameters
    ----------
    t : ndarray
        Numbers of clusters.
    rho : float
        Spread of the normal mixture, which sets where the sequence is narrowest.
    alpha : float
        Level over all t together.

    Returns
    -------
    ndarray
        sqrt(2 (t rho^2 + 1)/(t rho)^2 log(sqrt(t rho^2 + 1)/alpha)).

    References
    ----------
    Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024), Annals of Statistics 52(6), theorem 2.2 (arXiv:2103.06476).

    Examples
    --------
    >>> mixture_width(np.array([50.0, 200.0]), mixture_rho(50, 0.05), 0.05).round(3).tolist()
    [0.429, 0.221]
    """
    inside = t * rho**2 + 1
    return np.asarray(np.sqrt(2 * inside / (t * rho) ** 2 * np.log(np.sqrt(inside) / alpha)))


def mixture_rho(t0: float, alpha: float) -> float:
    """The rho that makes the sequence about as narrow as it can be at t0.

    Parameters
    ----------
    t0 : float
        Number of clusters.
    alpha : float
        Level.

    Returns
    -------
    float
        sqrt((-2 log alpha + log(1 - 2 log alpha))/t0).

    References
    ----------
    Waudby-Smith et al. (2024), appendix on the choice of rho, where the exact minimum is a Lambert W; this is its
    first approximation.

    Examples
    --------
    >>> round(mixture_rho(50, 0.05), 4)
    0.3984
    """
    return float(np.sqrt((-2 * np.log(alpha) + np.log(1 - 2 * np.log(alpha))) / t0))


def path_of_totals(totals: FloatArray, counts: FloatArray, contrast: FloatArray) -> Path:
    """A contrast of means after each cluster, and the spread of the clusters' influence on it.

    With T_g and n_g the total and the count of a part (one model's rows) in cluster g, theta_t is the sum over parts of
    c T/n, and the cluster has the influence sum over parts of c (T_g - mean_t n_g)/nbar_t. All of it is running sums.

    Parameters
    ----------
    totals, counts : ndarray, shape (n_clusters, n_parts)
        Sums of scores and numbers of rows of each cluster, in the order in which clusters were complete.
    contrast : ndarray, shape (n_parts,)
        c: 1 for a mean, (1, -1) for a difference.

    Returns
    -------
    Path
        One entry for each number of clusters.

    Examples
    --------
    >>> path = path_of_totals(np.array([[1.0], [0.0], [2.0]]), np.full((3, 1), 2.0), np.ones(1))
    >>> path.estimate.tolist(), path.spread.round(3).tolist()
    ([0.5, 0.25, 0.5], [0.0, 0.25, 0.408])
    """
    n_clusters, n_parts = totals.shape
    t = np.arange(1, n_clusters + 1)
    rows = np.cumsum(counts, axis=0)
    # About the final means, so that running sums of squares do not cancel.
    centre = totals.sum(axis=0) / counts.sum(axis=0)
    T = totals - centre * counts
    columns = np.concatenate([T, counts], axis=1)
    square, size = np.zeros(n_clusters), np.zeros(n_clusters)
    # Before every part has rows there is no mean, and what comes out is NaN.
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.cumsum(T, axis=0) / rows
        per_cluster = contrast * t[:, None] / rows
        # The influence of cluster g at t is a_t T_g + b_t n_g over the parts, so its square is of running products.
        coefficient = np.concatenate([per_cluster, -mean * per_cluster], axis=1)
        for i in range(2 * n_parts):
            for j in range(2 * n_parts):
                term = coefficient[:, i] * coefficient[:, j] * np.cumsum(columns[:, i] * columns[:, j])
                square, size = square + term, size + np.abs(term)
        uncentred = np.sum(per_cluster**2 * np.cumsum(totals**2, axis=0), axis=1)
        square[(square <= ROUNDING * size) | (square <= UNCENTRED * uncentred)] = 0.0
        estimate = (np.cumsum(totals, axis=0) / rows) @ contrast
        d = (totals * (n_clusters / rows[-1])) @ contrast
        differing = np.cumsum(np.abs(d)) ** 2 / np.maximum(np.cumsum(d**2), 1e-300)
        return Path(estimate, np.sqrt(square / t), rows.sum(axis=1).astype(np.intp), differing)


def roughness(totals: FloatArray, counts: FloatArray, contrast: FloatArray, start: int) -> tuple[float, float]:
    """How far the clusters' influences are from normal at the worst look.

    Parameters
    ----------
    totals, counts, contrast
        As in `path_of_totals`.
    start : int
        Clusters at the first look.

    Returns
    -------
    skew : float
        Largest |skewness|/sqrt(t), the skewness of the mean of t clusters.
    share : float
        Largest share of one cluster in the sum of squares; both 0 where nothing varies.

    Examples
    --------
    >>> one = np.ones((4, 1))
    >>> skew, share = roughness(np.array([[0.0], [0.0], [0.0], [4.0]]), one, np.ones(1), 4)
    >>> round(skew, 3), share
    (0.577, 0.75)
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

    Parameters
    ----------
    path : Path
        Estimates and spreads.
    start : int
        Clusters at the first look.
    alpha : float
        Probability of a miss over all looks.
    t0 : int
        Number of clusters at which intervals are narrowest.
    logit : bool
        Whether to build them for log(theta/(1 - theta)), whose influence is that of theta over theta (1 - theta), and
        turn them back: for a mean of scores in [0, 1]. Scores all alike so far then give [0, 1].
    limits : (float, float), optional
        Between which the truth must lie, and all that is said until the clusters vary. Where fewer than 20 clusters
        differ, a difference of scores in [0, 1], (-1, 1), counts up to two more that differ wholly, not seen yet.

    Returns
    -------
    lower, upper : ndarray, shape (n_clusters - start + 1,)
        Ends.

    Examples
    --------
    >>> path = Path(np.full(50, 0.9), np.full(50, 0.3), np.arange(50))
    >>> low, high = bounds(path, 50, alpha=0.05, t0=50, logit=True)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.683], [0.974])
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


def running_intersection(lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What each interval has in common with all before it.

    Parameters
    ----------
    lower, upper : ndarray, shape (n_looks,)
        Ends.

    Returns
    -------
    lower, upper : ndarray, shape (n_looks,)
        NaN from where nothing is left.

    Examples
    --------
    >>> running_intersection(np.array([0.1, 0.0, 0.5]), np.array([0.6, 0.4, 0.9]))
    (array([0.1, 0.1, nan]), array([0.6, 0.4, nan]))
    """
    low, high = np.maximum.accumulate(lower), np.minimum.accumulate(upper)
    empty = low > high
    return np.where(empty, np.nan, low), np.where(empty, np.nan, high)
