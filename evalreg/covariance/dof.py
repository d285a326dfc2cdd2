"""Variances of contrasts, and degrees of freedom: counted, Welch's, and Satterthwaite's from the leverages of a fit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from evalreg.checks import DofName, FloatArray
from evalreg.covariance.corrections import inverse_power_times
from evalreg.numerics.matrices import DENSE_SHARE, compressed, dense

# Contrasts and clusters handled at a time, so that (clusters, columns, contrasts) arrays stay small.
CONTRASTS_PER_BLOCK = 16
CLUSTERS_PER_BLOCK = 1 << 14
# Below so many entries, contrasts are multiplied as they are.
SMALL = 1 << 14


def quadratic(contrasts: FloatArray, matrix: FloatArray) -> FloatArray:
    """Diagonal of C V C', the variance of each contrast, shape (m,); C has the shape (m, k)."""
    if contrasts.size > SMALL and np.count_nonzero(contrasts) < DENSE_SHARE * contrasts.size:
        few = compressed(contrasts)  # of each row's many parameters a contrast has a few
        return np.asarray(few.multiply(few @ matrix).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.sum((contrasts @ matrix) * contrasts, axis=1))


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


def fixed_dof(rule: DofName | float, smallest: float) -> float:
    """The degrees of freedom of every contrast, under a rule that looks at none; `smallest` is the smallest G - 1."""
    return np.inf if rule == "normal" else smallest if rule == "min" else float(rule)


@dataclass(frozen=True, eq=False)
class RowLeverage:
    """The leverage matrices of a regression, from which Satterthwaite degrees of freedom follow.

    Parameters
    ----------
    L : ndarray, shape (n_clusters, k, k)
        Leverage matrices.
    root : ndarray, shape (k, k)
        R, with RR' = M.
    power : float
        p of the adjustment.
    """

    L: FloatArray
    root: FloatArray
    power: float

    def _halves(self, contrasts: FloatArray, block: slice) -> tuple[FloatArray, FloatArray]:
        """(I - L)^-p R'C' and L times it: the products of the two are the D_g, of the second the U_g'U_h."""
        outer = self._adjustment[block] @ (self.root.T @ contrasts.T)
        return outer, self.L[block] @ outer

    @cached_property
    def _adjustment(self) -> FloatArray:
        """(I - L)^-p of each cluster, which all contrasts share."""
        return np.concatenate(
            [inverse_power_times(self.L[block], self.power, np.eye(self.root.shape[0])) for block in self._blocks()]
        )

    def _blocks(self) -> list[slice]:
        n_clusters = self.L.shape[0]
        return [slice(first, first + CLUSTERS_PER_BLOCK) for first in range(0, n_clusters, CLUSTERS_PER_BLOCK)]

    def dof(self, contrasts: FloatArray) -> FloatArray:
        """Satterthwaite degrees of freedom, one for each row of `contrasts` (m, k)."""
        parts = range(0, contrasts.shape[0], CONTRASTS_PER_BLOCK)
        return np.concatenate([self._dof(contrasts[first : first + CONTRASTS_PER_BLOCK]) for first in parts])

    def _dof(self, contrasts: FloatArray) -> FloatArray:
        # BM 2002: with P_gh = delta_gh d_g - u_g'u_h, dof = (sum_g P_gg)^2 / sum_gh P_gh^2.
        m, k = contrasts.shape
        expected, squares, products = np.zeros(m), np.zeros(m), np.zeros((m, k, k))
        for block in self._blocks():
            outer, u = self._halves(contrasts, block)
            d, uu = np.einsum("gkm,gkm->gm", outer, u), np.einsum("gkm,gkm->gm", u, u)
            expected += (d - uu).sum(axis=0)
            squares += (d**2 - 2 * d * uu).sum(axis=0)
            by_contrast = np.ascontiguousarray(np.moveaxis(u, 2, 0))
            products += np.swapaxes(by_contrast, 1, 2) @ by_contrast
        return ratio(expected**2, squares + np.sum(products**2, axis=(1, 2)))

    def hotelling(self, contrasts: FloatArray) -> float:
        """eta of the approximate Hotelling test of `contrasts` (q, k), PT 2018 section 3.2."""
        q, k = contrasts.shape
        expected = np.zeros((q, q))
        for block in self._blocks():
            outer, u = self._halves(contrasts, block)
            expected += np.einsum("gks,gkt->st", outer, u, optimize=True) - np.einsum(
                "gks,gkt->st", u, u, optimize=True
            )
        scaled = whiten(contrasts, expected)
        variance, products = 0.0, np.zeros((k * q, k * q))
        for block in self._blocks():
            outer, u = self._halves(scaled, block)
            d, uu = np.swapaxes(outer, 1, 2) @ u, np.swapaxes(u, 1, 2) @ u
            traces = np.einsum("gss->g", d)
            variance += float(np.sum(traces**2) - 2 * np.sum(traces * np.einsum("gss->g", uu)))
            variance += float(np.sum(d * np.swapaxes(d, 1, 2)) - 2 * np.sum(d * np.swapaxes(uu, 1, 2)))
            flat = u.reshape(u.shape[0], k * q)
            products += flat.T @ flat
        pairs = products.reshape(k, q, k, q)
        variance += float(np.sum(pairs**2) + np.einsum("isjt,itjs->", pairs, pairs))
        return float(q * (q + 1) / variance)


def whiten(contrasts: FloatArray, expected: FloatArray) -> FloatArray:
    """Contrasts scaled so that their expected covariance under the working model is the identity."""
    unit = np.sqrt(np.diag(expected))
    values, axes = np.linalg.eigh((expected + expected.T) / (2 * np.outer(unit, unit)))
    return np.asarray((axes / np.sqrt(values)).T @ (contrasts / unit[:, None]))


def ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Quotient, NaN where the denominator is not positive."""
    positive = denominator > 0
    return np.where(positive, numerator / np.where(positive, denominator, 1.0), np.nan)
