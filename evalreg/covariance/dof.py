"""Variances of contrasts, and degrees of freedom: counted, Welch's, and Satterthwaite's from the leverages of a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, DofName, FloatArray, IntArray
from evalreg.numerics.matrices import DENSE_SHARE, Matrix, compressed, dense

# Below so many entries, contrasts are multiplied as they are.
SMALL = 1 << 14
# By so much bounds are moved outwards.
ROUNDING = 1e-6


def quadratic(contrasts: Matrix, matrix: FloatArray) -> FloatArray:
    """Diagonal of C V C', the variance of each contrast, shape (m,); C has the shape (m, k), dense or sparse."""
    if sparse.issparse(contrasts):
        return _of_entries(compressed(contrasts), matrix)
    if contrasts.size > SMALL and np.count_nonzero(contrasts) < DENSE_SHARE * contrasts.size:
        return _of_entries(compressed(contrasts), matrix)  # of each row's many parameters a contrast has a few
    return np.asarray(np.sum((contrasts @ matrix) * contrasts, axis=1))


def _of_entries(rows: Matrix, matrix: Matrix) -> FloatArray:
    """The same of contrasts in compressed sparse rows; from four entries of V where each has two, as differences do."""
    if sparse.issparse(matrix) or not np.all(np.diff(rows.indptr) == 2):
        return np.asarray(rows.multiply(rows @ matrix).sum(axis=1), dtype=np.float64).ravel()
    (i, j), (c, d) = rows.indices.reshape(-1, 2).T, rows.data.reshape(-1, 2).T
    first, second = c * matrix[i, i] + d * matrix[j, i], c * matrix[i, j] + d * matrix[j, j]
    return np.asarray(c * first + d * second)


class Leverage(Protocol):
    """Degrees of freedom of contrasts of the coefficients."""

    def dof(self, contrasts: FloatArray) -> FloatArray:
        """One for each row of `contrasts`."""

    def hotelling(self, contrasts: FloatArray) -> float:
        """eta of a joint test of `contrasts`."""


@dataclass(frozen=True, eq=False)
class FixedDof:
    """The same degrees of freedom for every contrast.

    Parameters
    ----------
    value : float
        n - k, or G - 1.
    """

    value: float

    def dof(self, contrasts: FloatArray) -> FloatArray:
        """Return `value` for each contrast."""
        return np.full(contrasts.shape[0], self.value)

    def hotelling(self, contrasts: FloatArray) -> float:
        """Return `value`."""
        return self.value


@dataclass(frozen=True, eq=False)
class RoughDof:
    """Bounds of the degrees of freedom of differences of two contrasts.

    They are tr(P)^2 / |P|^2 of a positive semi-definite P, as large as there are clusters. Its diagonal is no more than
    the d_g, the squared norms of what clusters make of a difference; its trace is no less than the variance of the
    difference under the working model (Pustejovsky and Tipton 2018, section 3.1). So they are no more than the
    clusters, and no less than the square of that variance over the sum of the d_g^2.

    Parameters
    ----------
    model : ndarray, shape (m, m)
        Covariance of the contrasts under the working model.
    squares : ndarray, shape (m, m)
        Of each pair the sum over clusters of d_g^2, or a number that is no less.
    n_clusters : int
        How many.
    """

    model: FloatArray
    squares: FloatArray
    n_clusters: int

    def __call__(self, C: Matrix) -> tuple[FloatArray, FloatArray]:
        """The least and the most of each difference, C of shape (n_pairs, m); NaN without a variance."""
        i, j = compressed(C).indices.reshape(-1, 2).T
        own = np.diag(self.model)
        least = (1 - ROUNDING) * ratio((own[i] + own[j] - 2 * self.model[i, j]) ** 2, self.squares[i, j])
        return np.clip(least, 1.0, None), np.where(np.isnan(least), np.nan, float(self.n_clusters))


@dataclass(frozen=True, eq=False)
class WelchDof:
    """Degrees of freedom of contrasts of independent means: n_m - 1 for one, Welch-Satterthwaite for several.

    Parameters
    ----------
    variance : ndarray, shape (n_cells,)
        Variance of each mean.
    counts : ndarray, shape (n_cells,)
        Rows of each cell.
    """

    variance: FloatArray
    counts: FloatArray

    def dof(self, contrasts: FloatArray) -> FloatArray:
        """v^2 / sum_m v_m^2/(n_m - 1), with v_m the part of each mean."""
        contrasts = dense(contrasts)
        parts = contrasts**2 * self.variance
        # A mean without variance adds nothing; with none at all the smallest n_m - 1 is left.
        rows = np.where(contrasts != 0, np.maximum(self.counts - 1, 1.0), np.inf)
        below = np.sum(parts**2 / np.maximum(self.counts - 1, 1.0), axis=1)
        exact = np.count_nonzero(contrasts, axis=1) == 1
        ratio = parts.sum(axis=1) ** 2 / np.where(below > 0, below, 1.0)
        return np.asarray(np.where(exact | (below <= 0), rows.min(axis=1), ratio))

    def hotelling(self, contrasts: FloatArray) -> float:
        """Return the smallest n_m - 1 of the means involved."""
        return float(np.min(self.counts[np.any(contrasts != 0, axis=0)]) - 1)


@dataclass(frozen=True, eq=False)
class CountedDof:
    """Clusters less strata of each contrast: of every stratum those of the mean that has fewest there.

    Parameters
    ----------
    counts : ndarray, shape (n_cells,)
        Clusters of each cell.
    stratum : ndarray of int, shape (n_cells,)
        Its stratum.
    whole : ndarray of bool, shape (n_cells,)
        Cells that are here as a whole, which no contrast varies with and whose clusters are counted all the same.
    """

    counts: FloatArray
    stratum: IntArray
    whole: BoolArray

    def dof(self, contrasts: FloatArray) -> FloatArray:
        """Sum of G_s - 1 over the strata that a contrast has."""
        used, total = dense(contrasts) != 0, np.zeros(contrasts.shape[0])
        for s in np.unique(self.stratum):
            own = self.stratum == s
            fewest = np.where(used[:, own], self.counts[own], np.inf).min(axis=1)
            wholly = np.max(self.counts[own & self.whole], initial=1.0)
            total += np.where(np.isfinite(fewest), fewest, wholly) - 1
        return total

    def hotelling(self, contrasts: FloatArray) -> float:
        """Return the smallest of the contrasts."""
        return float(np.min(self.dof(contrasts)))


def fixed_dof(rule: DofName | float, smallest: float) -> float:
    """The degrees of freedom of every contrast, under a rule that looks at none; `smallest` is the smallest G - 1."""
    return np.inf if rule == "normal" else smallest if rule == "min" else float(rule)


def whiten(contrasts: FloatArray, expected: FloatArray) -> FloatArray:
    """Contrasts scaled so that their expected covariance under the working model is the identity."""
    unit = np.sqrt(np.diag(expected))
    values, axes = np.linalg.eigh((expected + expected.T) / (2 * np.outer(unit, unit)))
    return np.asarray((axes / np.sqrt(values)).T @ (contrasts / unit[:, None]))


def ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Quotient, NaN where the denominator is not positive."""
    positive = denominator > 0
    return np.where(positive, numerator / np.where(positive, denominator, 1.0), np.nan)
