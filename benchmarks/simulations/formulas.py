"""The published formulas on many logs at once, written out once more.

Nothing here is taken from the package: variances by their definitions, with a small matrix for each cluster, and
degrees of freedom from the matrix of expected cross products. What is measured is nevertheless the package, because
every k-th log also goes through its public functions and has to agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import special

from benchmarks.simulations.score import Rows
from benchmarks.simulations.worlds import Clusters, FloatArray

POWERS = {"CR0": 0.0, "CR2": 0.5, "CR3": 1.0}
FULL_LEVERAGE = 1e-10
ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class Fit:
    """One coefficient in many logs, with its variances.

    Parameters
    ----------
    estimate : ndarray, shape (n_logs,)
        The coefficient.
    variance : mapping of str to ndarray, shape (n_logs,)
        "rows" (eq. 1 of Miller for a mean, HC1 for a regression), "CR0", "CR2", "CR3".
    dof : mapping of str to float
        Satterthwaite for "CR2" and "CR3".
    n_rows, n_clusters, n_coefficients : int
        Counts.
    effective : float
        Kish's effective number of clusters.
    rows : Rows, optional
        What score intervals of a mean take.
    """

    estimate: FloatArray
    variance: Mapping[str, FloatArray]
    dof: Mapping[str, float]
    n_rows: int
    n_clusters: int
    n_coefficients: int
    effective: float
    rows: Rows | None = None

    @property
    def ratio(self) -> float:
        """G/(G - 1)."""
        return self.n_clusters / (self.n_clusters - 1)

    @property
    def stata(self) -> float:
        """G/(G - 1) times (n - 1)/(n - k)."""
        return self.ratio * (self.n_rows - 1) / (self.n_rows - self.n_coefficients)


def least_squares(X: FloatArray, clusters: Clusters, Y: FloatArray, column: int) -> Fit:
    """Least squares of every column of Y on X, and the variances of one coefficient.

    References
    ----------
    Bell and McCaffrey (2002), Survey Methodology 28; MacKinnon, Nielsen and Webb (2023), J. Applied Econometrics 38.
    """
    n, k = X.shape
    M = np.linalg.inv(X.T @ X)
    # A mean of scores that are all 1 has to be 1 exactly.
    beta = Y.mean(axis=0, keepdims=True) if np.all(X == 1) else M @ (X.T @ Y)
    residual = Y - X @ beta
    # Scores that do not vary leave rounding, which is no variance.
    residual[np.abs(residual) < ROUNDING * np.abs(Y).max()] = 0.0
    values, axes = np.linalg.eigh(M)
    root = (axes * np.sqrt(values)) @ axes.T
    leverage = root @ clusters.sums(X[:, :, None] * X[:, None, :]) @ root
    influence = X @ M[:, column]
    variance = {"rows": n / (n - k) * (influence**2) @ residual**2}
    dof = {}
    for name, power in POWERS.items():
        outer = _inverse_power(leverage, power) @ root[:, column]
        weight = np.sum(X * (outer @ root)[clusters.codes], axis=1)
        variance[name] = np.sum(clusters.sums(weight[:, None] * residual) ** 2, axis=0)
        dof[name] = _satterthwaite(outer, leverage)
    G = clusters.sizes.size
    variance["CR3"] = variance["CR3"] * (G - 1) / G
    rows = Rows.of(Y, clusters) if np.all(X == 1) else None
    return Fit(beta[column], variance, dof, n, G, k, clusters.effective, rows)


def _inverse_power(leverage: FloatArray, power: float) -> FloatArray:
    """(I - L_g)^-power, directions of leverage 1 mapped to zero."""
    values, axes = np.linalg.eigh(leverage)
    rest = 1.0 - values
    full = rest < FULL_LEVERAGE
    scale = np.where(full, 0.0, np.where(full, 1.0, rest) ** -power)
    return (axes * scale[:, None, :]) @ np.swapaxes(axes, 1, 2)


def _satterthwaite(outer: FloatArray, leverage: FloatArray) -> float:
    """(tr P)^2 / tr P^2, with P the expected cross products of the clusters' adjusted totals."""
    inner = np.einsum("gij,gj->gi", leverage, outer)
    P = np.diag(np.sum(outer * inner, axis=1)) - inner @ inner.T
    return float(np.trace(P) ** 2 / np.sum(P**2))


@dataclass(frozen=True, eq=False)
class CrossedFit:
    """A mean under two crossed clusterings in many logs.

    Parameters
    ----------
    estimate : ndarray, shape (n_logs,)
        The mean.
    plain, adjusted : ndarray, shape (3, n_logs)
        CR0 and CR2 pieces: prompts, judges, intersections.
    rows : ndarray, shape (n_logs,)
        Variance of independent rows.
    counts : tuple of int
        Clusters of the pieces.
    dof : tuple of float
        Satterthwaite degrees of freedom of the CR2 pieces; cells less one for the intersections.
    units : mapping of str or None to Rows
        What score intervals take, with the rows in clusters by "prompt", by "judge" and by themselves (None).
    """

    estimate: FloatArray
    plain: FloatArray
    adjusted: FloatArray
    rows: FloatArray
    counts: tuple[int, int, int]
    dof: tuple[float, float, float]
    units: Mapping[str | None, Rows]

    @property
    def smallest(self) -> int:
        """Smallest number of clusters of an axis."""
        return min(self.counts[:2])


def crossed_mean(scores: FloatArray, mask: np.ndarray) -> CrossedFit:
    """Mean of the scores in `mask` (n_prompts, n_judges), for every log of `scores` (n_prompts, n_judges, n_logs).

    References
    ----------
    Cameron, Gelbach and Miller (2011), JBES 29(2), eq. 2.13.
    """
    n = int(mask.sum())
    estimate = np.sum(scores, axis=(0, 1), where=mask[:, :, None]) / n
    residual = np.where(mask[:, :, None], scores - estimate, 0.0) / n
    rows = np.sum(residual**2, axis=(0, 1))
    plain, adjusted, dof, counts = [], [], [], []
    for axis in (1, 0):
        totals, share = residual.sum(axis=axis), mask.sum(axis=axis) / n
        plain.append(np.sum(totals**2, axis=0))
        adjusted.append(np.sum(totals**2 / (1 - share)[:, None], axis=0))
        # The mean as a regression on a constant: M = 1/n, leverage h, outer (1 - h)^(-1/2)/sqrt(n).
        dof.append(_satterthwaite((1 - share)[:, None] ** -0.5, share[:, None, None]))
        counts.append(share.size)
    factor = n / (n - 1)
    return CrossedFit(
        estimate,
        np.array([*plain, rows]),
        np.array([*adjusted, factor * rows]),
        factor * rows,
        (counts[0], counts[1], n),
        (dof[0], dof[1], float(n - 1)),
        {
            "prompt": Rows.of(scores[mask], Clusters(mask.sum(axis=1))),
            "judge": Rows.of(np.swapaxes(scores, 0, 1)[mask.T], Clusters(mask.sum(axis=0))),
            None: Rows.of(scores[mask], Clusters(np.ones(n, dtype=np.int64))),
        },
    )


def summed_dof(variance: FloatArray, fit: CrossedFit, repair: str, level: float) -> FloatArray:
    """Degrees of freedom at which one t has the half-width of a sum of t^2 V over the pieces, at a level.

    "max": the largest of inclusion-exclusion and of each axis alone; "two-term": the axes without the intersection;
    otherwise the variance times the mean of t^2 over the axes, weighted by their variances.

    References
    ----------
    Banerjee (1960), Sankhya 22, 359-362.
    """
    t2 = t_quantile(level, np.array(fit.dof)) ** 2
    terms = t2[:, None] * fit.adjusted
    if repair == "max":
        squared = np.max([terms[0] + terms[1] - terms[2], terms[0], terms[1]], axis=0)
    elif repair == "two-term":
        squared = terms[0] + terms[1]
    else:
        axes = fit.adjusted[0] + fit.adjusted[1]
        squared = variance * (terms[0] + terms[1]) / np.where(axes > 0, axes, np.nan)
    wanted = np.sqrt(np.divide(squared, variance, out=np.full_like(variance, np.nan), where=variance > 0))
    low, high = np.full(wanted.shape, -3.0), np.full(wanted.shape, 20.0)
    for _ in range(60):
        middle = (low + high) / 2
        wider = t_quantile(level, np.exp(middle)) > wanted
        low, high = np.where(wider, middle, low), np.where(wider, high, middle)
    return np.where(np.isnan(wanted), 1.0, np.exp(middle))


def t_quantile(level: float, dof: FloatArray | float) -> FloatArray:
    """Two-sided critical values; the normal's where dof is infinite."""
    dof = np.asarray(dof, dtype=np.float64)
    finite = np.where(np.isfinite(dof), dof, 1.0)
    return np.where(np.isinf(dof), special.ndtri(1 - level / 2), special.stdtrit(finite, 1 - level / 2))


def bootstrap(
    rng: np.random.Generator, X: FloatArray, units: Clusters, Y: FloatArray, column: int, n_draws: int = 399
) -> tuple[FloatArray, FloatArray]:
    """Percentile interval from whole units drawn with replacement, shape (n_logs,) each.

    The logs of a block share their draws, so that one matrix product serves them all. A draw in which the coefficient
    cannot be estimated is left out.
    """
    k, G = X.shape[1], units.sizes.size
    gram = units.sums(X[:, :, None] * X[:, None, :]).reshape(G, k * k)
    moments = units.sums(X[:, :, None] * Y[:, None, :]).reshape(G, -1)
    times = rng.multinomial(G, np.full(G, 1 / G), size=n_draws).astype(np.float64)
    A = (times @ gram).reshape(n_draws, k, k)
    usable = np.linalg.cond(A) < 1e10
    row = np.linalg.inv(A[usable])[:, column, :]
    drawn = np.einsum("bk,bkl->bl", row, (times[usable] @ moments).reshape(-1, k, Y.shape[1]))
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    return low, high
