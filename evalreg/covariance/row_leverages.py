"""Leverages of the clusters of a regression, by k x k matrices or, for those of few rows, by their rows; and dof."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np

from evalreg.checks import FloatArray, IntArray
from evalreg.covariance.corrections import inverse_power_times, narrow_adjustment
from evalreg.covariance.dof import ratio, whiten
from evalreg.scores.sums import NarrowClusters

# Contrasts and clusters handled at a time, so that (clusters, columns, contrasts) arrays stay small.
CONTRASTS_PER_BLOCK = 16
CLUSTERS_PER_BLOCK = 1 << 14
# Entries of rows, or of columns times contrasts, that are held at a time where clusters have few rows.
ENTRIES = 1 << 20
# Entries of the (contrasts, columns, columns) products that are summed at a time, and of the u that they are made of.
PRODUCTS = 1 << 23
HELD = 1 << 22

Halves: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]
"""Of some clusters, two factors of D_g, (n_clusters, n, m) each, and U_g, (n_clusters, k, m)."""


class LeveragePart(Protocol):
    """Leverages of some of the clusters."""

    @property
    def n_clusters(self) -> int:
        """How many."""

    def halves(self, turned: FloatArray) -> Iterator[Halves]:
        """What contrasts, as R'C' of shape (k, m), make of some clusters at a time."""


@dataclass(frozen=True, eq=False)
class WideLeverage:
    """Of clusters of many rows: L_g, shape (n_clusters, k, k)."""

    L: FloatArray
    power: float

    @property
    def n_clusters(self) -> int:
        """How many."""
        return int(self.L.shape[0])

    def halves(self, turned: FloatArray) -> Iterator[Halves]:
        """(I - L)^-p R'C' and L times it: the products of the two are the D_g, of the second the U_g'U_h."""
        for block in self._blocks():
            outer = self._adjustment[block] @ turned
            u = self.L[block] @ outer
            yield outer, u, u

    @cached_property
    def _adjustment(self) -> FloatArray:
        """(I - L)^-p of each cluster, which all contrasts share."""
        k = self.L.shape[1]
        return np.concatenate([inverse_power_times(self.L[block], self.power, np.eye(k)) for block in self._blocks()])

    def _blocks(self) -> list[slice]:
        n_clusters = self.L.shape[0]
        return [slice(first, first + CLUSTERS_PER_BLOCK) for first in range(0, n_clusters, CLUSTERS_PER_BLOCK)]


@dataclass(frozen=True, eq=False)
class NarrowLeverage:
    """Of clusters of few rows Z_g = X_g R: with W = (I - Z_gZ_g')^-p Z_g R'C', D_g is W'W and U_g is Z_g'W."""

    clusters: NarrowClusters
    root: FloatArray
    # Rows of some clusters of one size, (n, size), and their (I - Z_gZ_g')^-p, (n, size, size).
    parts: tuple[tuple[IntArray, FloatArray], ...]

    @property
    def n_clusters(self) -> int:
        """How many."""
        return int(self.clusters.totals.shape[0])

    def halves(self, turned: FloatArray) -> Iterator[Halves]:
        """Likewise."""
        for members, adjustment in self.parts:
            Z = self.clusters.rows(members, self.root)
            W = adjustment @ (Z @ turned)
            yield W, W, np.swapaxes(Z, 1, 2) @ W


def adjust_narrow(
    clusters: NarrowClusters, root: FloatArray, power: float, keep: bool
) -> tuple[FloatArray, NarrowLeverage | None]:
    """(I - L_g)^-p R'T_g of clusters of few rows, shape (n_clusters, k), and their leverages where they are kept."""
    totals, parts = clusters.totals @ root, []
    for which, members in clusters.alike(ENTRIES):
        Z = clusters.rows(members, root)
        if members.shape[1] == 1:  # R'T_g is a multiple of the one row
            adjustment = narrow_adjustment(np.einsum("gik,gik->gi", Z, Z)[:, :, None], power)[0]
            totals[which] *= adjustment[:, 0]
        else:
            adjustment, change = narrow_adjustment(Z @ np.swapaxes(Z, 1, 2), power)
            own = totals[which][:, :, None]
            totals[which] = (own + np.swapaxes(Z, 1, 2) @ (change @ (Z @ own)))[:, :, 0]
        if keep:
            parts.append((members, adjustment))
    return totals, NarrowLeverage(clusters, root, tuple(parts)) if keep else None


@dataclass(frozen=True, eq=False)
class RowLeverage:
    """The leverages of a regression, from which Satterthwaite degrees of freedom follow.

    Parameters
    ----------
    parts : tuple of LeveragePart
        Leverages of all clusters.
    root : ndarray, shape (n_coefficients, k)
        R, with RR' = M; without the directions that single clusters alone determine, whose leverage counts nothing.
    """

    parts: tuple[LeveragePart, ...]
    root: FloatArray

    def _halves(self, contrasts: FloatArray) -> Iterator[Halves]:
        turned = self.root.T @ contrasts.T
        return (halves for part in self.parts for halves in part.halves(turned))

    def dof(self, contrasts: FloatArray) -> FloatArray:
        """Satterthwaite degrees of freedom, one for each row of `contrasts` (m, k)."""
        k = self.root.shape[1]
        few = self._n_clusters < k
        fit = PRODUCTS // max(min(self._n_clusters, k) * k, 1)
        size = max(min(fit, k if few else 4 * CONTRASTS_PER_BLOCK), CONTRASTS_PER_BLOCK)
        parts = range(0, contrasts.shape[0], size)
        return np.concatenate([self._dof(contrasts[first : first + size]) for first in parts])

    @property
    def _n_clusters(self) -> int:
        return sum(part.n_clusters for part in self.parts)

    def _dof(self, contrasts: FloatArray) -> FloatArray:
        # BM 2002: with P_gh = delta_gh d_g - u_g'u_h, dof = (sum_g P_gg)^2 / sum_gh P_gh^2.
        m, k = contrasts.shape[0], self.root.shape[1]
        few, held, n_held = self._n_clusters < k, list[FloatArray](), 0
        expected, squares, products = np.zeros(m), np.zeros(m), np.zeros((m, 0 if few else k, 0 if few else k))
        for left, right, u in self._halves(contrasts):
            d, uu = np.einsum("gnm,gnm->gm", left, right), np.einsum("gkm,gkm->gm", u, u)
            expected += (d - uu).sum(axis=0)
            squares += (d**2 - 2 * d * uu).sum(axis=0)
            held.append(np.ascontiguousarray(np.moveaxis(u, 2, 0)))
            n_held += u.size
            if n_held > HELD and not few:
                products += _products(held)
                held, n_held = [], 0
        if few:  # UU' has the sum of squares of U'U
            u = np.concatenate(held, axis=1)
            products = u @ np.swapaxes(u, 1, 2)
        elif held:
            products += _products(held)
        return ratio(expected**2, squares + np.sum(products**2, axis=(1, 2)))

    def hotelling(self, contrasts: FloatArray) -> float:
        """eta of the approximate Hotelling test of `contrasts` (q, k), PT 2018 section 3.2."""
        q, k = contrasts.shape[0], self.root.shape[1]
        expected = np.zeros((q, q))
        for left, right, u in self._halves(contrasts):
            expected += np.einsum("gns,gnt->st", left, right, optimize=True)
            expected -= np.einsum("gks,gkt->st", u, u, optimize=True)
        scaled = whiten(contrasts, expected)
        variance, products = 0.0, np.zeros((k * q, k * q))
        for left, right, u in self._halves(scaled):
            d, uu = np.swapaxes(left, 1, 2) @ right, np.swapaxes(u, 1, 2) @ u
            traces = np.einsum("gss->g", d)
            variance += float(np.sum(traces**2) - 2 * np.sum(traces * np.einsum("gss->g", uu)))
            variance += float(np.sum(d * np.swapaxes(d, 1, 2)) - 2 * np.sum(d * np.swapaxes(uu, 1, 2)))
            flat = u.reshape(u.shape[0], k * q)
            products += flat.T @ flat
        pairs = products.reshape(k, q, k, q)
        variance += float(np.sum(pairs**2) + np.einsum("isjt,itjs->", pairs, pairs))
        return float(q * (q + 1) / variance)


def _products(held: list[FloatArray]) -> FloatArray:
    """Sum of the u_g u_g' of many clusters, by contrast; products of few are slower."""
    u = np.concatenate(held, axis=1)
    return np.asarray(np.swapaxes(u, 1, 2) @ u)
