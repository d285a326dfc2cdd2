"""(I - L)^-p, by which totals of clusters are corrected for few or unequal clusters, and what clusters determine alone.

p is 0 for CR0 and CR1, 1/2 for CR2 (Bell and McCaffrey 2002), 1 for CR3; where a cluster has leverage 1 the
Moore-Penrose inverse gives it nothing. Three forms of one formula:

- *cells*: the design is one dummy a cell, X'WX is diagonal, and the leverage of cluster g in cell k is its share
  h = W_gk / W_k;
- *wide* clusters of a regression: with RR' = M = (X'WX)^-1 the leverage is L_g = R'X_g'W X_g R, k x k;
- *narrow* ones, of fewer rows than columns: K_g = Z_gZ_g' with Z_g = X_g R, which has the eigenvalues of L_g = Z_g'Z_g.

Nothing is ever n_g x n_g for many rows, or G x G.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray, held_property
from evalreg.data.clusters import Axis
from evalreg.numerics.matrices import Matrix, compressed, is_identity, row_products, scale_rows, with_entries
from evalreg.scores.base import Scores
from evalreg.scores.sums import NarrowClusters

# 1 - leverage below this is leverage 1: rounding in sums of some 1e6 terms, with room.
FULL_LEVERAGE = 1e-10
# Up to this norm of L the binomial series of (I - L)^-p needs at most 33 terms for all digits; no norm is above the
# trace, and traces sum to k, so that few clusters need eigenvectors, which cost ten times as much.
SERIES_NORM = 0.3
# Entries of (clusters, columns, contrasts) that are held at a time, 32 MiB.
HELD = 1 << 22

Forms: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]
"""Of some clusters and m contrasts: two factors of D_g, (n_clusters, n, m) each, and u_g, (n_clusters, k, m)."""


def adjust_cell_totals(totals: Matrix, leverage: Matrix, power: float) -> Matrix:
    """Cluster totals of cells divided by (1 - h)^power, zero where h is 1; the power is 1/2 for CR2, 1 for CR3.

    h is the cluster's share of the cell's weight. Bell and McCaffrey (2002), Survey Methodology 28; Pustejovsky and
    Tipton (2018), JBES 36(4), eq. 8, for a saturated regression. Shapes: totals, leverage (n_clusters, n_cells).
    """
    sums = compressed(totals)
    if not power:
        return sums
    scale = power_scale(leverage.data, power)
    if np.array_equal(sums.indptr, leverage.indptr) and np.array_equal(sums.indices, leverage.indices):
        return with_entries(sums, sums.data * scale)
    return sums.multiply(with_entries(leverage, scale)).tocsr()


def power_scale(leverage: FloatArray, power: float) -> FloatArray:
    """(1 - h)^-power, zero where h is 1."""
    rest = 1.0 - leverage
    full = rest < FULL_LEVERAGE
    rest[full] = 1.0
    scale = 1.0 / np.sqrt(rest) if power == 0.5 else rest**-power
    scale[full] = 0.0
    return scale


def full_leverage_cells(leverage: Matrix) -> BoolArray:
    """Whether each cell rests on a single cluster, some h of it being 1. Shapes: leverage (n_clusters, n_cells)."""
    lost = np.zeros(leverage.shape[1], dtype=bool)
    lost[leverage.indices[1.0 - leverage.data < FULL_LEVERAGE]] = True
    return lost


def inverse_power_times(L: FloatArray, power: float, vectors: FloatArray, *, change: bool = False) -> FloatArray:
    """(I - L_g)^-p times a matrix, for each cluster; eigenvalue 1 of L_g is mapped to 0 (Moore-Penrose).

    With `change`, F_g times it, where (I - L_g)^-p = I + L_g F_g. Shapes: L (n_clusters, n, n), eigenvalues in [0, 1];
    vectors (n_clusters, n, m) or (n, m); returns (n_clusters, n, m).
    """
    vectors = np.broadcast_to(vectors, (L.shape[0], *vectors.shape[-2:]))
    if power == 0:
        return np.zeros(vectors.shape) if change else vectors
    if L.shape[1] == 1:
        return np.asarray(_of_eigenvalues(L, power, change) * vectors)
    norm = np.sqrt(np.einsum("gij,gij->g", L, L))
    small = norm <= SERIES_NORM
    if small.all():
        return _series_times(L, power, vectors, float(norm.max(initial=0.0)), change)
    result = np.empty(vectors.shape)
    values, axes = np.linalg.eigh(L[~small])
    scale = _of_eigenvalues(values, power, change)[:, :, None]
    result[~small] = axes @ (scale * (np.swapaxes(axes, 1, 2) @ vectors[~small]))
    result[small] = _series_times(L[small], power, vectors[small], float(norm[small].max(initial=0.0)), change)
    return result


def _series_times(L: FloatArray, power: float, vectors: FloatArray, largest: float, change: bool) -> FloatArray:
    """sum_j a_j L^j (with `change`, L^(j-1) from j = 1 on), a_0 = 1, a_j = a_(j-1) (p + j - 1)/j, by Horner's rule."""
    degree = 1
    while largest ** (degree + 1) > np.finfo(float).eps / 16:
        degree += 1
    j = np.arange(1, degree + 2 if change else degree + 1)
    a = np.cumprod((power + j - 1) / j)
    a = a if change else np.append(1.0, a)
    result: FloatArray = a[-1] * vectors
    for coefficient in a[-2::-1]:
        result = coefficient * vectors + L @ result
    return result


def _of_eigenvalues(values: FloatArray, power: float, change: bool) -> FloatArray:
    """(1 - v)^-p, or ((1 - v)^-p - 1)/v, of eigenvalues; 1 is mapped to 0."""
    full = 1.0 - values < FULL_LEVERAGE
    log = np.log1p(np.where(full, 0.0, -values))
    if not change:
        return np.where(full, 0.0, np.exp(-power * log))
    # Where an eigenvalue is next to 0 the quotient has its limit, p.
    none = np.abs(values) < np.finfo(float).tiny ** 0.5
    return np.where(full, -1.0, np.where(none, power, np.expm1(-power * log) / np.where(none, 1.0, values)))


def full_leverage_directions(L: FloatArray) -> FloatArray:
    """Eigenvectors of eigenvalue 1 of the leverage matrix of a cluster, (k, n_directions)."""
    power = L
    for _ in range(3):
        # Sums of powers of the eigenvalues, up to the eighth, mostly show that none is 1; far cheaper than these are.
        if np.vdot(power, power) < 1.0 - 1e4 * FULL_LEVERAGE:
            return np.zeros((L.shape[0], 0))
        power = power @ power
    values, axes = np.linalg.eigh(L)
    return np.asarray(axes[:, 1.0 - values < FULL_LEVERAGE])


def root_of(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A root R of a positive definite matrix, RR' = M, and its inverse.

    It goes by way of unit diagonals: eigenvalues of the matrix itself would be lost where coefficients have units as
    different as 1 and 1e8. Which root it is does not matter to the corrections, as any other is R times a rotation.
    """
    if is_identity(matrix):
        return matrix, matrix
    unit = np.sqrt(np.diag(matrix))
    values, axes = np.linalg.eigh((matrix + matrix.T) / (2 * np.outer(unit, unit)))
    values = np.sqrt(np.clip(values, np.finfo(float).tiny, None))
    return unit[:, None] * axes * values, (axes / values).T / unit


class ClusterPart(Protocol):
    """Some clusters of a regression, with their leverages."""

    @property
    def n_clusters(self) -> int:
        """How many."""

    def forms(self, turned: FloatArray) -> Iterator[Forms]:
        """What contrasts, as R'C' of shape (k, m), make of some clusters at a time."""


@dataclass(frozen=True, eq=False)
class Wide:
    """Clusters of many rows: L_g, shape (n_clusters, k, k)."""

    L: FloatArray
    power: float

    @property
    def n_clusters(self) -> int:
        """How many."""
        return int(self.L.shape[0])

    @held_property
    def adjustment(self) -> FloatArray:
        """(I - L)^-p of each cluster, which all contrasts share."""
        return inverse_power_times(self.L, self.power, np.eye(self.L.shape[1]))

    def forms(self, turned: FloatArray) -> Iterator[Forms]:
        """(I - L)^-p R'C' and L times it: the products of the two are the D_g, those of the second the U_g'U_h."""
        step = max(HELD // turned.size, 1)
        for first in range(0, self.n_clusters, step):
            outer = self.adjustment[first : first + step] @ turned
            u = self.L[first : first + step] @ outer
            yield outer, u, u


@dataclass(frozen=True, eq=False)
class Narrow:
    """Clusters of few rows Z_g = X_g R: with W = (I - K_g)^-p Z_g R'C', D_g is W'W and U_g is Z_g'W."""

    clusters: NarrowClusters
    root: FloatArray
    power: float

    @property
    def n_clusters(self) -> int:
        """How many."""
        return int(self.clusters.totals.shape[0])

    @property
    def totals(self) -> FloatArray:
        """(I - L_g)^-p R'T_g = t + Z'F Z t, t = R'T_g, shape (n_clusters, k)."""
        totals = self.clusters.totals @ self.root
        for which, members in self.clusters.alike(HELD):
            (Z,) = self.clusters.rows(members, self.root)
            own = totals[which][:, :, None]
            change = inverse_power_times(_products(Z), self.power, Z @ own, change=True)
            totals[which] = (own + np.swapaxes(Z, 1, 2) @ change)[:, :, 0]
        return totals

    @held_property
    def adjustments(self) -> tuple[tuple[IntArray, FloatArray, FloatArray], ...]:
        """Rows of some clusters of one size, (n, size), and their (I - K_g)^-p and K_g, (n, size, size)."""
        found = []
        for _, members in self.clusters.alike(HELD):
            (Z,) = self.clusters.rows(members, self.root)
            K = _products(Z)
            found.append((members, inverse_power_times(K, self.power, np.eye(members.shape[1])), K))
        return tuple(found)

    def forms(self, turned: FloatArray) -> Iterator[Forms]:
        """W, twice, and Z'W."""
        mapped = self.root @ turned
        for members, adjustment, _ in self.adjustments:
            step = max(HELD // turned.size, 1)
            for first in range(0, members.shape[0], step):
                some = slice(first, first + step)
                Z, own = self.clusters.rows(members[some], self.root, mapped)
                W = adjustment[some] @ own
                yield W, W, np.swapaxes(Z, 1, 2) @ W


def _products(Z: FloatArray) -> FloatArray:
    """Z_gZ_g' of each cluster, shape (n_clusters, n, n)."""
    return np.einsum("gik,gik->gi", Z, Z)[:, :, None] if Z.shape[1] == 1 else Z @ np.swapaxes(Z, 1, 2)


def adjusted_parts(
    scores: Scores, by: Axis, root: FloatArray, power: float
) -> Iterator[tuple[ClusterPart, FloatArray, IntArray | None]]:
    """Clusters of a regression, their adjusted totals (n, k), and their places; None for the others, in order."""
    for clusters, blocks in scores.narrow(by):
        if clusters is not None:
            narrow = Narrow(clusters, root, power)
            yield narrow, narrow.totals, clusters.which
        for block in blocks:
            assert block.gram is not None
            L = block.gram if is_identity(root) else root.T @ block.gram @ root
            yield Wide(L, power), inverse_power_times(L, power, (block.totals @ root)[:, :, None])[:, :, 0], None


def entry_forms(part: Narrow, turned: FloatArray, entries_root: FloatArray) -> Iterator[tuple[slice, Forms]]:
    """The same of clusters whose rows hold few entries, as pairs of many models: d_g, u_g'u_g, and the sum of u_gu_g'.

    With w a column of W and E the entries of the rows, u_g = R'E_g'w: the sum is R'SR with S that of E_g'ww'E_g. A pair
    of rows adds w_r w_s x_r x_s' to it and the transpose of that, a row with itself half of each. Yields contrasts,
    with (n_clusters, m) twice and (m, k, k).
    """
    assert part.clusters.entries is not None
    m, mapped, before = turned.shape[1], part.root @ turned, 0
    found = list[IntArray]()
    for members, *_ in part.adjustments:
        starts = before + np.arange(0, members.size, members.shape[1])
        found.append((starts[:, None] + np.array(np.triu_indices(members.shape[1]))[:, None]).reshape(2, -1))
        before += members.size
    first, second = np.concatenate(found, axis=1)
    rows = part.clusters.entries.rows[np.concatenate([members.ravel() for members, *_ in part.adjustments])]
    k, share = rows.shape[1], np.where(first == second, 0.5, 1.0)
    pairs = scale_rows(row_products(rows[first], rows[second]), share).T.tocsr()
    step = max((HELD >> 2) // max(first.size, k * k), 1)
    for some in (slice(begin, begin + step) for begin in range(0, m, step)):
        totals, norms = [], []
        for members, adjustment, K in part.adjustments:
            (own,) = part.clusters.rows(members, mapped[:, some])
            W = adjustment @ own
            totals.append(W.reshape(-1, W.shape[2]))
            norms.append((np.einsum("gnm,gnm->gm", W, W), np.einsum("gnm,gnm->gm", W, K @ W)))
        w = np.concatenate(totals)
        half = (pairs @ (w[first] * w[second])).T.reshape(-1, k, k)
        d, uu = (np.concatenate(one) for one in zip(*norms, strict=True))
        yield some, (d, uu, entries_root.T @ (half + np.swapaxes(half, 1, 2)) @ entries_root)
