"""Leverages of the clusters of a regression, by k x k matrices or, for those of few rows, by their rows; and dof."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from evalreg.checks import FloatArray, IntArray, held_property
from evalreg.covariance.corrections import inverse_power_times, narrow_adjustment, narrow_change_times
from evalreg.covariance.dof import RoughDof, ratio, whiten
from evalreg.covariance.thin_leverages import (
    CLUSTERS_TO_COLUMNS,
    Forms,
    ThinClusters,
    is_thin,
    thin_clusters,
    well_conditioned,
)
from evalreg.data.memory import refuse_larger
from evalreg.numerics.progress import Progress
from evalreg.scores.sums import NarrowClusters

# Contrasts and clusters handled at a time, so that (clusters, columns, contrasts) arrays stay small.
CONTRASTS_PER_BLOCK = 16
CLUSTERS_PER_BLOCK = 1 << 14
# Entries of rows, or of columns times contrasts, that are held at a time where clusters have few rows.
ENTRIES = 1 << 20
# Entries of the (contrasts, columns, columns) products that are summed at a time, and of the u that they are made of.
PRODUCTS = 1 << 23
HELD = 1 << 22
# Multiplications for the degrees of freedom of one contrast from which on bounds come first where there are many.
DEAR = 1e6
# Entries of all pairs and clusters up to which the d_g of each pair are made for these bounds, and those at a time.
PAIRS_OF_CLUSTERS, CACHED = 1 << 27, 1 << 17
# Matrices of (contrasts, columns) by (contrasts, columns) that exist at once in a joint test.
JOINT = 2

Halves: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]
"""Of some clusters, two factors of D_g, (n_clusters, n, m) each, and U_g', (n_clusters, m, k)."""
Alike: TypeAlias = tuple[tuple[IntArray, FloatArray], ...]
"""Rows of some clusters of one size, (n, size), and their (I - Z_gZ_g')^-p, (n, size, size)."""
Room: TypeAlias = Callable[[int], FloatArray]
"""Where the U_g' of so many clusters are to be written, (n_clusters, m, k)."""


class LeveragePart(Protocol):
    """Leverages of some of the clusters."""

    @property
    def n_clusters(self) -> int:
        """How many."""

    @property
    def power(self) -> float:
        """p of (I - L_g)^-p."""

    def factors(self, turned: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """The two factors of D_g alone, likewise."""

    def halves(self, turned: FloatArray, room: Room) -> Iterator[Halves]:
        """What contrasts, as R'C' of shape (k, m), make of some clusters at a time, at most `_at_once`."""

    def forms(self, turned: FloatArray, products: PairProducts) -> Iterator[Forms]:
        """The d_g and u_g'u_g of the same, whose u_g are added to the products."""


@dataclass(frozen=True, eq=False)
class WideLeverage:
    """Of clusters of many rows: L_g, shape (n_clusters, k, k)."""

    L: FloatArray
    power: float

    @property
    def n_clusters(self) -> int:
        """How many."""
        return int(self.L.shape[0])

    def factors(self, turned: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """(I - L)^-p R'C' and L times it."""
        for block in self._blocks(_at_once(turned)):
            outer = self._adjustment[block] @ turned
            yield outer, self.L[block] @ outer

    def halves(self, turned: FloatArray, room: Room) -> Iterator[Halves]:
        """(I - L)^-p R'C' and L times it: the products of the two are the D_g, of the second the U_g'U_h."""
        for block in self._blocks(_at_once(turned)):
            outer = self._adjustment[block] @ turned
            u = np.matmul(np.swapaxes(outer, 1, 2), self.L[block], out=room(outer.shape[0]))
            yield outer, np.swapaxes(u, 1, 2), u

    def forms(self, turned: FloatArray, products: PairProducts) -> Iterator[Forms]:
        """The d_g and u_g'u_g, from these."""
        return map(_forms, self.halves(turned, products.room))

    @held_property
    def _adjustment(self) -> FloatArray:
        """(I - L)^-p of each cluster, which all contrasts share."""
        k = self.L.shape[1]
        blocks = self._blocks(CLUSTERS_PER_BLOCK)
        return np.concatenate([inverse_power_times(self.L[block], self.power, np.eye(k)) for block in blocks])

    def _blocks(self, size: int) -> list[slice]:
        return [slice(first, first + size) for first in range(0, self.n_clusters, size)]


@dataclass(frozen=True, eq=False)
class NarrowLeverage:
    """Of clusters of few rows Z_g = X_g R: with W = (I - Z_gZ_g')^-p Z_g R'C', D_g is W'W and U_g is Z_g'W."""

    clusters: NarrowClusters
    root: FloatArray
    power: float

    @property
    def n_clusters(self) -> int:
        """How many."""
        return int(self.clusters.totals.shape[0])

    def factors(self, turned: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """W, twice."""
        mapped = self.root @ turned
        for members, adjustment in self._adjustments:
            step = max(HELD // (members.shape[1] * turned.shape[1]), 1)
            for first in range(0, members.shape[0], step):
                some = slice(first, first + step)
                (own,) = self.clusters.rows(members[some], mapped)
                yield (adjustment[some] @ own,) * 2

    def halves(self, turned: FloatArray, room: Room) -> Iterator[Halves]:
        """Likewise."""
        return self._halves(turned, room, self._adjustments)

    def forms(self, turned: FloatArray, products: PairProducts) -> Iterator[Forms]:
        """Likewise; of clusters with few entries in many columns by these alone."""
        if products.entries is None or self.entries_root is None:
            yield from map(_forms, self.halves(turned, products.room))
            return
        wide = tuple(one for one in self._adjustments if not is_thin(self.clusters, one[0].shape[1]))
        yield from map(_forms, self._halves(turned, products.room, wide))
        for clusters in self._thin:
            yield from clusters.forms(self.entries_root @ turned, products.entries)

    def _halves(self, turned: FloatArray, room: Room, alike: Alike) -> Iterator[Halves]:
        step, mapped = _at_once(turned), self.root @ turned
        for members, adjustment in alike:
            for first in range(0, members.shape[0], step):
                some = slice(first, first + step)
                Z, own = self.clusters.rows(members[some], self.root, mapped)
                W = adjustment[some] @ own
                yield W, W, np.matmul(np.swapaxes(W, 1, 2), Z, out=room(W.shape[0]))

    @held_property
    def _adjustments(self) -> Alike:
        """Rows of some clusters of one size, (n, size), and their (I - Z_gZ_g')^-p, (n, size, size)."""
        found = []
        for _, members in self.clusters.alike(ENTRIES):
            (Z,) = self.clusters.rows(members, self.root)
            found.append((members, narrow_adjustment(_own_products(Z), self.power)))
        return tuple(found)

    @held_property
    def _thin(self) -> tuple[ThinClusters, ...]:
        """Clusters that have few entries."""
        entries = self.clusters.entries
        return () if entries is None else tuple(thin_clusters(entries.rows, self._of_few_entries()))

    def _of_few_entries(self) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
        for members, adjustment in self._adjustments:
            if is_thin(self.clusters, members.shape[1]):
                (Z,) = self.clusters.rows(members, self.root)
                yield members, adjustment, _own_products(Z)

    @held_property
    def entries_root(self) -> FloatArray | None:
        """TR, from products of the columns that have few entries, where there are such."""
        entries = self.clusters.entries
        return None if entries is None else entries.map @ self.root


def _own_products(Z: FloatArray) -> FloatArray:
    """Z_gZ_g' of each cluster, shape (n_clusters, n, n)."""
    return np.einsum("gik,gik->gi", Z, Z)[:, :, None] if Z.shape[1] == 1 else Z @ np.swapaxes(Z, 1, 2)


def adjust_narrow(clusters: NarrowClusters, root: FloatArray, power: float) -> FloatArray:
    """(I - L_g)^-p R'T_g of clusters of few rows, shape (n_clusters, k)."""
    totals = clusters.totals @ root
    for which, members in clusters.alike(ENTRIES):
        (Z,) = clusters.rows(members, root)
        K = _own_products(Z)
        if members.shape[1] == 1:  # R'T_g is a multiple of the one row
            totals[which] *= narrow_adjustment(K, power)[:, 0]
        else:
            own = totals[which][:, :, None]
            totals[which] = (own + np.swapaxes(Z, 1, 2) @ narrow_change_times(K, power, Z @ own))[:, :, 0]
    return totals


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

    def _halves(self, contrasts: FloatArray, room: Room) -> Iterator[Halves]:
        turned = self.root.T @ contrasts.T
        return (halves for part in self.parts for halves in part.halves(turned, room))

    def dof(self, contrasts: FloatArray) -> FloatArray:
        """Satterthwaite degrees of freedom, one for each row of `contrasts` (m, k)."""
        k = self.root.shape[1]
        few = self._n_clusters < k
        fit = PRODUCTS // max(min(self._n_clusters, k) * k, 1)
        size = max(min(fit, k if few else 4 * CONTRASTS_PER_BLOCK), CONTRASTS_PER_BLOCK)
        found = []
        with Progress(contrasts.shape[0], unit="degrees of freedom") as progress:
            for first in range(0, contrasts.shape[0], size):
                found.append(self._dof(contrasts[first : first + size]))
                progress.advance(found[-1].size)
        return np.concatenate(found)

    def rough(self, contrasts: FloatArray) -> RoughDof | None:
        """What bounds the degrees of freedom of differences of `contrasts` (m, k); None where those cost little."""
        k, n = self.root.shape[1], self._n_clusters
        if n * min(n, k) * k < DEAR or any(part.power < 0.5 for part in self.parts):
            return None
        turned = self.root.T @ contrasts.T
        return RoughDof(turned.T @ turned, self._squares_of_pairs(turned), n)

    def _squares_of_pairs(self, turned: FloatArray) -> FloatArray:
        """Sums over clusters of d_g^2 of all differences, or numbers that are no less, (m, m)."""
        m = turned.shape[1]
        each = self._n_clusters * m * m <= PAIRS_OF_CLUSTERS
        squares, step = np.zeros((m, m)), max(CACHED // (m * m), 1)
        for left, right in (factors for part in self.parts for factors in part.factors(turned)):
            d = np.einsum("gnm,gnm->gm", left, right)
            if not each:
                squares += d.T @ d
                continue
            for some in (slice(first, first + step) for first in range(0, len(d), step)):
                of_pairs = np.swapaxes(left[some], 1, 2) @ right[some]
                of_pairs *= -2.0
                of_pairs += d[some, :, None]
                of_pairs += d[some, None, :]
                squares += np.einsum("gij,gij->ij", of_pairs, of_pairs)
        # The squared norm of a difference is at most twice the sum of the two.
        own = np.diag(squares)
        return squares if each else 4 * (own[:, None] + own + 2 * squares)

    @held_property
    def _entries_root(self) -> FloatArray | None:
        """What turns products of entries of the design, where they are to be summed in its own columns."""
        roots = (part.entries_root for part in self.parts if isinstance(part, NarrowLeverage))
        root = next((root for root in roots if root is not None), None)
        if root is None or self._n_clusters < CLUSTERS_TO_COLUMNS * self.root.shape[1]:
            return None
        return root if well_conditioned(root) else None

    @property
    def _n_clusters(self) -> int:
        return sum(part.n_clusters for part in self.parts)

    def _dof(self, contrasts: FloatArray) -> FloatArray:
        # BM 2002: with P_gh = delta_gh d_g - u_g'u_h, dof = (sum_g P_gg)^2 / sum_gh P_gh^2.
        m = contrasts.shape[0]
        products = PairProducts(m, self.root.shape[1], self._n_clusters, self._entries_root)
        expected, squares, turned = np.zeros(m), np.zeros(m), self.root.T @ contrasts.T
        for part in self.parts:
            for some, d, uu in part.forms(turned, products):
                expected[some] += (d - uu).sum(axis=0)
                squares[some] += (d**2 - 2 * d * uu).sum(axis=0)
        return ratio(expected**2, squares + products.squares())

    def hotelling(self, contrasts: FloatArray) -> float:
        """eta of the approximate Hotelling test of `contrasts` (q, k), PT 2018 section 3.2."""
        q, k = contrasts.shape[0], self.root.shape[1]
        refuse_larger(
            JOINT * 8.0 * (q * k) ** 2,
            f"the degrees of freedom of a joint test of {q:,} contrasts of {k:,} coefficients",
            "Test fewer contrasts at a time.",
        )
        expected, room = np.zeros((q, q)), new_room(q, k)
        for left, right, u in self._halves(contrasts, room):
            expected += np.einsum("gns,gnt->st", left, right, optimize=True)
            expected -= np.einsum("gsk,gtk->st", u, u, optimize=True)
        scaled = whiten(contrasts, expected)
        variance, products = 0.0, np.zeros((q * k, q * k))
        for left, right, u in self._halves(scaled, room):
            d, uu = np.swapaxes(left, 1, 2) @ right, u @ np.swapaxes(u, 1, 2)
            traces = np.einsum("gss->g", d)
            variance += float(np.sum(traces**2) - 2 * np.sum(traces * np.einsum("gss->g", uu)))
            variance += float(np.sum(d * np.swapaxes(d, 1, 2)) - 2 * np.sum(d * np.swapaxes(uu, 1, 2)))
            flat = u.reshape(u.shape[0], q * k)
            products += flat.T @ flat
        pairs = products.reshape(q, k, q, k)
        variance += float(np.sum(pairs**2) + np.einsum("sitj,tisj->", pairs, pairs))
        return float(q * (q + 1) / variance)


def new_room(m: int, k: int) -> Room:
    """An array of its own for each."""
    return lambda n: np.empty((n, m, k))


def _at_once(turned: FloatArray) -> int:
    """Clusters whose u may be held at a time, for contrasts of shape (k, m)."""
    return max(HELD // turned.size, 1)


def _forms(halves: Halves) -> Forms:
    left, right, u = halves
    return slice(None), np.einsum("gnm,gnm->gm", left, right), np.einsum("gmk,gmk->gm", u, u)


class PairProducts:
    """Sum over all pairs of clusters of (u_g'u_h)^2, for each of m contrasts.

    The u of many clusters are gathered before they are multiplied, as products of few are slower; each is written where
    it is multiplied, (m, n_clusters, k), as copies cost as much as the products.
    """

    def __init__(self, m: int, k: int, n_clusters: int, root: FloatArray | None = None) -> None:
        # Of fewer clusters than columns UU' is the smaller, which has the sum of squares of U'U.
        self.few = n_clusters < k
        self.held = np.empty((m, n_clusters if self.few else min(n_clusters, max(HELD // (m * k), 1)), k))
        self.n_held = 0
        self.sums = np.zeros((m, 0 if self.few else k, 0 if self.few else k))
        # R, and half of what is R'SR of clusters whose u are not made.
        self.root, self.entries = root, None if root is None else np.zeros((root.shape[0] ** 2, m))

    def room(self, n: int) -> FloatArray:
        """Where the U_g' of the next n clusters are to be written, (n, m, k)."""
        if self.n_held + n > self.held.shape[1]:
            self._add()
        self.n_held += n
        return np.moveaxis(self.held[:, self.n_held - n : self.n_held], 1, 0)

    def _add(self) -> None:
        for total, u in zip(self.sums, self.held[:, : self.n_held], strict=True):
            total += u.T @ u
        self.n_held = 0

    def squares(self) -> FloatArray:
        """The sums of squares, shape (m,)."""
        if self.few:
            return np.array([float(np.vdot(UU := u @ u.T, UU)) for u in self.held])
        if self.n_held:
            self._add()
        if self.root is None or self.entries is None:
            return np.asarray(np.einsum("mij,mij->m", self.sums, self.sums))
        k, squares = self.root.shape[0], np.empty(len(self.sums))
        for c, (total, half) in enumerate(zip(self.sums, self.entries.T, strict=True)):
            turned = self.root.T @ half.reshape(k, k) @ self.root
            whole = total + turned + turned.T
            squares[c] = np.vdot(whole, whole)
        return squares
