"""The intraclass correlation of one-way analysis of variance, and its interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalreg.checks import FloatArray, IntArray
from evalreg.numerics.student import t_quantile


def anova_icc(
    between: FloatArray, total: FloatArray, n: FloatArray, n_clusters: FloatArray, sum_squares: FloatArray
) -> FloatArray:
    """Intraclass correlations, shape (m,), from sums of squares; NaN where nothing varies, or nothing within clusters.

    `sum_squares` is that of cluster sizes. Snedecor and Cochran (1989), Statistical Methods, section 13.3.
    """
    defined = (n_clusters > 1) & (n > n_clusters) & (total > 0)
    G, N = np.where(defined, n_clusters, 2.0), np.where(defined, n, 4.0)
    msb, msw = between / (G - 1), np.maximum(total - between, 0.0) / (N - G)
    m0 = (N - sum_squares / N) / (G - 1)
    bottom = msb + (m0 - 1) * msw
    defined &= bottom > 0
    return np.where(defined, (msb - msw) / np.where(defined, bottom, 1.0), np.nan)


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """Sums of residuals within clusters, one entry for each cluster that a column has rows in.

    The residuals of a column add up to zero.
    """

    # Which column an entry is of, (n_entries,), below `n_columns`.
    column: IntArray
    n_columns: int
    # Rows of the cluster, and the sum of their residuals.
    size: FloatArray
    total: FloatArray
    # Sum of squares of its residuals; None where the rows are in an engine.
    square: FloatArray | None

    def add(self, values: FloatArray | None = None) -> FloatArray:
        """Sums over the clusters of each column, shape (n_columns,); their number without values."""
        return np.asarray(np.bincount(self.column, values, self.n_columns), dtype=np.float64)

    @property
    def mean_size(self) -> FloatArray:
        """Mean size of the cluster of a row, shape (n_columns,)."""
        rows = self.add(self.size)
        return np.asarray(np.divide(self.add(self.size**2), rows, out=np.full(rows.size, np.nan), where=rows > 0))


def icc_of(sums: ClusterSums) -> FloatArray:
    """Intraclass correlations of sums within clusters, shape (n_columns,)."""
    assert sums.square is not None
    n, t = sums.size, sums.total
    return anova_icc(sums.add(t**2 / n), sums.add(sums.square), sums.add(n), sums.add(), sums.add(n**2))


def _ratio(
    between: FloatArray, total: FloatArray, n: FloatArray, n_clusters: FloatArray, sum_squares: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """F = MSB/MSW and m0; NaN where one of the mean squares is zero or not defined."""
    within = total - between
    known = (n_clusters > 1) & (n > n_clusters) & (within > 1e-12 * total) & (between > 1e-12 * total)
    G, N = np.where(known, n_clusters, 2.0), np.where(known, n, 4.0)
    F = between / (G - 1) / np.where(known, within / (N - G), 1.0)
    return np.where(known, F, np.nan), (N - sum_squares / N) / (G - 1)


def icc_interval(sums: ClusterSums, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Intervals of intraclass correlations, each of shape (n_columns,); NaN where there is none.

    The wider end, on each side, of two intervals of F = MSB/MSW, taken to rho = (F - 1)/(F + m0 - 1): the one of the F
    distribution, exact for normal scores in clusters of one size (Searle 1971, Linear Models, section 9.8), and that of
    the jackknife over clusters of log F, which assumes neither (Arvesen and Schmitz 1970, Biometrics 26, 677-686).
    The jackknife's t has 2 (sum d^2)^2 / sum d^4 - 1 degrees of freedom, d being what leaving out a cluster changes, at
    most G - 1: few where few clusters make the variance. There is none where leaving out a cluster leaves no variation
    between clusters or within.
    """
    from scipy import special

    assert sums.square is not None
    c, n, t, q = sums.column, sums.size, sums.total, sums.square
    B, T, N, G, S = sums.add(t**2 / n), sums.add(q), sums.add(n), sums.add(), sums.add(n**2)
    F, m0 = _ratio(B, T, N, G, S)
    # Without a cluster the mean moves too, by -t/(N - n), and the sums of squares are those about the new mean.
    rest = np.where(N[c] > n, N[c] - n, np.nan)
    without, _ = _ratio(B[c] - t**2 / n - t**2 / rest, T[c] - q - t**2 / rest, rest, G[c] - 1, S[c] - n**2)
    left = np.log(without)
    change = left - (sums.add(left) / np.maximum(G, 1))[c]
    squares, fourth = sums.add(change**2), sums.add(change**4)
    effective = np.divide(squares**2, fourth, out=np.ones(G.size), where=fourth > 0)
    variance = (G - 1) / np.maximum(G, 1) * squares
    half = t_quantile(alpha, np.clip(2 * effective - 1, 1.0, np.maximum(G - 1, 1.0))) * np.sqrt(variance)
    known = np.isfinite(half) & np.isfinite(F)
    k, g = np.where(known, N - G, 2.0), np.where(known, G - 1, 1.0)
    ends = [F / special.fdtri(g, k, p) for p in (1 - alpha / 2, alpha / 2)]
    low, high = np.fmin(ends[0], F * np.exp(-half)), np.fmax(ends[1], F * np.exp(half))
    lower, upper = ((end - 1) / (end + m0 - 1) for end in (low, high))
    return np.where(known, lower, np.nan), np.where(known, upper, np.nan)
