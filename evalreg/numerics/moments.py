"""Variance components: equations of moments, and the intraclass correlation of one-way analysis of variance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray, quotient
from evalreg.numerics.limits import HELD, ROUNDING
from evalreg.numerics.matrices import Matrix, dense, faster_dense


def moment_equations(
    values: FloatArray, Q: Matrix, designs: Sequence[Matrix], forms: Sequence[Matrix]
) -> tuple[FloatArray, FloatArray]:
    """Expected and observed quadratic forms |L_c'e|^2 of the residuals e, that of single rows last.

    With M = I - QQ', the columns of Q orthonormal, and e = M s, E|L_c'e|^2 = sum_d sigma_d^2 |L_c' M Z_d|^2, which
    counts what the fixed effects have taken out. Z are the `designs`, (n_rows, n_levels) each, L the `forms`: Z over
    the roots of the sizes of its levels for Henderson's method 1. Sums run over levels; no matrix has rows on both
    sides. Searle, Casella and McCulloch (1992), Variance Components, chapters 5 and 11; Henderson (1953), Biometrics 9,
    226-252.
    """
    e = values - Q @ (Q.T @ values)
    of_forms, fixed = ([sparse.csr_array(matrix.T @ Q) for matrix in of] for of in (forms, designs))
    expected = _products(of_forms, fixed)
    for c, d in np.ndindex(expected.shape):
        expected[c, d] += _crossed(forms[c], of_forms[c], designs[d], fixed[d])
    down, right = (
        np.array([_square(L) - _square(B) for L, B in zip(of, of_fixed, strict=True)])
        for of, of_fixed in ((designs, fixed), (forms, of_forms))
    )
    expected = np.block([[expected, right[:, None]], [np.array([*down, values.size - Q.shape[1]])]])
    observed = np.array([*(float(np.sum((L.T @ e) ** 2)) for L in forms), float(e @ e)])
    return expected, observed


def _crossed(L: Matrix, B_L: Matrix, Z: Matrix, B_Z: Matrix) -> float:
    """|L'Z|^2 - 2 tr(L'Z B_Z B_L'), by the product that has fewer levels on the left, which keeps it small."""
    if L.shape[1] > Z.shape[1]:
        L, B_L, Z, B_Z = Z, B_Z, L, B_L
    A = (L.T @ Z).tocsr()
    return _square(A) - 2.0 * float(B_L.multiply(A @ B_Z).sum())


def _square(matrix: Matrix) -> float:
    return float(matrix.power(2).sum())


def _products(left: list[Matrix], right: list[Matrix]) -> FloatArray:
    """Traces of products of B_c'B_c and B_d'B_d for all c on the left and d on the right, in blocks of columns."""
    n_fixed = left[0].shape[1]
    step = max(HELD // 4 // n_fixed, 1)
    total = np.zeros((len(left), len(right)))
    # Each of few levels meets nearly all fixed effects.
    sides = [[dense(B) if faster_dense(B) else B.tocsc() for B in side] for side in (left, right)]
    for start in range(0, n_fixed, step):
        parts = [np.array([dense(B.T @ B[:, start : start + step]).ravel() for B in side]) for side in sides]
        total += parts[0] @ parts[1].T
    return total


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
    # Sum of squares of its residuals; None where it is not known, as of rows in an engine.
    square: FloatArray | None
    # Sum of squares over all clusters, (n_columns,); None where it is that of `square`.
    whole: FloatArray | None = None

    @property
    def squares(self) -> FloatArray:
        """Sum of squares of the residuals of each column, shape (n_columns,)."""
        return self.add(self.square) if self.whole is None else self.whole

    def add(self, values: FloatArray | None = None) -> FloatArray:
        """Sums over the clusters of each column, shape (n_columns,); their number without values."""
        return np.asarray(np.bincount(self.column, values, self.n_columns), dtype=np.float64)

    @property
    def mean_size(self) -> FloatArray:
        """Mean size of the cluster of a row, shape (n_columns,)."""
        return quotient(self.add(self.size**2), self.add(self.size))


def sums_of_residuals(size: Any, total: Any, squares: float, square: Any | None = None) -> ClusterSums:
    """Sums of one column about its mean, from rows and sums of clusters; NaN sums where all add up to zero.

    Such residuals, as of a model with a level for each cluster, say nothing about it. `squares` is of all rows, and
    `square` of each cluster about the mean.
    """
    n = float(size.sum())
    mean = float(total.sum()) / n
    total = total - size * mean
    if np.sum(total**2 / size) <= ROUNDING**2 * squares:
        total = np.full(size.shape, np.nan)
    column = np.zeros(size.size, dtype=np.intp)
    return ClusterSums(column, 1, size.astype(float), total, square, np.array([squares - n * mean**2]))


def icc_of(sums: ClusterSums) -> FloatArray:
    """Intraclass correlations of sums within clusters, shape (n_columns,)."""
    n, t = sums.size, sums.total
    return anova_icc(sums.add(t**2 / n), sums.squares, sums.add(n), sums.add(), sums.add(n**2))


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
    effective = quotient(squares**2, fourth, 1.0)
    variance = (G - 1) / np.maximum(G, 1) * squares
    half = -special.stdtrit(np.clip(2 * effective - 1, 1.0, np.maximum(G - 1, 1.0)), alpha / 2) * np.sqrt(variance)
    known = np.isfinite(half) & np.isfinite(F)
    k, g = np.where(known, N - G, 2.0), np.where(known, G - 1, 1.0)
    ends = [F / special.fdtri(g, k, p) for p in (1 - alpha / 2, alpha / 2)]
    low, high = np.fmin(ends[0], F * np.exp(-half)), np.fmax(ends[1], F * np.exp(half))
    lower, upper = ((end - 1) / (end + m0 - 1) for end in (low, high))
    return np.where(known, lower, np.nan), np.where(known, upper, np.nan)
