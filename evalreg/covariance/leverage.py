"""What leverages make of clusters: totals times (I - L)^-p, and degrees of freedom.

p is 0 for CR0 and CR1, 1/2 for CR2 (Bell and McCaffrey 2002), 1 for CR3; where a cluster has leverage 1 the
Moore-Penrose inverse gives it nothing. Three forms of one formula:

- *cells*: the design is one dummy a cell, X'WX is diagonal, and the leverage of cluster g in cell k is its share
  h = W_gk / W_k;
- *wide* clusters of a regression: with RR' = M = (X'WX)^-1 the leverage is L_g = R'X_g'W X_g R, k x k;
- *narrow* ones, of fewer rows than columns: K_g = Z_gZ_g' with Z_g = X_g R, which has the eigenvalues of L_g = Z_g'Z_g.

Nothing is ever n_g x n_g for many rows, or G x G. Degrees of freedom are counted, Welch's, or Bell and McCaffrey's
under the working model that rows vary alike and independently: with P_gh = delta_gh D_g - U_g'U_h what clusters g and
h make of contrasts, one contrast has tr(P)^2 / |P|^2; q of them jointly have the eta of Pustejovsky and Tipton (2018),
JBES 36(4), section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray, held_property
from evalreg.choices import DofName
from evalreg.data.frame import refuse_larger
from evalreg.numerics.fitting import Progress
from evalreg.numerics.limits import FEW_COLUMNS_NORM, FULL_LEVERAGE, HELD, SERIES_NORM, SQUARED_CONDITION
from evalreg.numerics.matrices import (
    CACHED,
    DENSE_SHARE,
    Matrix,
    compressed,
    dense,
    faster_dense,
    is_identity,
    parts_of,
    row_products,
    scale_rows,
    squared_entries,
    stacked,
    totals_of_columns,
    with_entries,
)
from evalreg.scores.base import NarrowClusters

Forms: TypeAlias = tuple[FloatArray, FloatArray | None, FloatArray]
"""Of some clusters and m contrasts: two factors of D_g, (n_clusters, m, n) each, the second u_g where it is None; and
what the first is multiplied by to u_g, (n_clusters, m, k)."""


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


def inverse_power(
    L: FloatArray, power: float, columns: FloatArray | None = None, *, change: bool = False
) -> FloatArray:
    """(I - L_g)^-p for each cluster, times some columns if there are any; eigenvalue 1 of L_g is mapped to 0.

    That is the Moore-Penrose inverse. With `change`, F_g, where (I - L_g)^-p = I + L_g F_g. Shapes: L (n_clusters, n,
    n), eigenvalues in [0, 1]; columns (n_clusters, n, m) or (n, m); returns (n_clusters, n, m), m = n without columns.
    """
    n = L.shape[1]
    shape = (*L.shape[:2], n if columns is None else columns.shape[-1])
    if power == 0:
        return np.zeros(shape) if change else np.broadcast_to(np.eye(n) if columns is None else columns, shape)
    V = None if columns is None else np.broadcast_to(columns, shape)
    if n == 1:
        return _of_eigenvalues(L, power, change) * (1.0 if V is None else V)
    result, limit = np.empty(shape), SERIES_NORM if V is None else FEW_COLUMNS_NORM
    for part in parts_of(L.shape[0], max(CACHED // n**2, 1)):
        norm = np.sqrt(np.einsum("gij,gij->g", L[part], L[part]))
        small = norm <= limit
        if small.any():
            some: slice | IntArray = part if small.all() else part.start + np.flatnonzero(small)
            of = None if V is None else V[some]
            result[some] = _series_times(L[some], power, of, float(norm[small].max()), change)
        if not small.all():
            some = part.start + np.flatnonzero(~small)
            values, axes = np.linalg.eigh(L[some])
            scale, turned = _of_eigenvalues(values, power, change)[:, :, None], np.swapaxes(axes, 1, 2)
            coordinates: FloatArray = turned if V is None else turned @ V[some]
            result[some] = axes @ (scale * coordinates)
    return result


def _series_times(L: FloatArray, power: float, V: FloatArray | None, largest: float, change: bool) -> FloatArray:
    """sum_j a_j L^j V (with `change`, L^(j-1) from j = 1), a_0 = 1, a_j = a_(j-1) (p + j - 1)/j, by Horner's rule.

    V is the identity where it is None.
    """
    degree = 1
    while largest ** (degree + 1) > np.finfo(float).eps / 16:
        degree += 1
    j = np.arange(1, degree + 2 if change else degree + 1)
    a = np.cumprod((power + j - 1) / j)
    a = a if change else np.append(1.0, a)
    result: FloatArray = a[-1] * L if V is None else L @ (a[-1] * V)
    for place, coefficient in enumerate(a[-2::-1]):
        result = L @ result if place else result
        if V is None:
            result.reshape(L.shape[0], -1)[:, :: L.shape[1] + 1] += coefficient
        else:
            result += coefficient * V
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
    return axes[:, 1.0 - values < FULL_LEVERAGE]


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


@dataclass(frozen=True, eq=False)
class Wide:
    """Clusters of many rows: L_g, shape (n_clusters, K, K), and R'T_g, (n_clusters, K); contrasts use the first k."""

    L: FloatArray
    unadjusted: FloatArray
    power: float
    k: int

    @property
    def n_clusters(self) -> int:
        """How many."""
        return int(self.L.shape[0])

    @held_property
    def adjustment(self) -> FloatArray:
        """The first k columns of (I - L)^-p of each cluster, which all contrasts share."""
        K = self.L.shape[1]
        return inverse_power(self.L, self.power, np.eye(K, self.k) if self.k < K else None)

    @property
    def totals(self) -> FloatArray:
        """The first k of (I - L_g)^-p R'T_g, shape (n_clusters, k)."""
        # One column: the error bar of an intersection needs its totals, and never its adjustment.
        return inverse_power(self.L, self.power, self.unadjusted[:, :, None])[:, : self.k, 0]

    def forms(self, turned: FloatArray) -> Iterator[Forms]:
        """C R(I - L)^-p, and L: the products of u, that times L, with it are the D_g, with themselves the U_g'U_h."""
        step = max((HELD >> 4) // (turned.shape[1] * self.L.shape[1]), 1)
        for first in range(0, self.n_clusters, step):
            outer = turned.T @ np.swapaxes(self.adjustment[first : first + step], 1, 2)
            yield outer, None, self.L[first : first + step]


@dataclass(frozen=True, eq=False)
class Narrow:
    """Clusters of few rows Z_g = X_g R: with W = (I - K_g)^-p Z_g R'C', D_g is W'W and U_g is Z_g'W."""

    clusters: NarrowClusters
    root: FloatArray
    power: float
    k: int  # contrasts use the first k columns of the root

    @property
    def n_clusters(self) -> int:
        """How many."""
        return int(self.clusters.totals.shape[0])

    @held_property
    def adjusted(self) -> tuple[FloatArray, tuple[tuple[IntArray, FloatArray, FloatArray], ...]]:
        """Adjusted totals, (n_clusters, k), and of clusters of one size their rows, (I - K_g)^-p = I + K_g F, and K_g.

        (I - L_g)^-p t = t + Z'F Z t, t = R'T_g. Rows have the shape (n, size), matrices (n, size, size). Where k is
        smaller than the size, (I - K_g)^-p comes times the first k columns of Z.
        """
        totals, parts, adjusted = self.clusters.totals @ self.root, [], np.empty((self.n_clusters, self.k))
        for which, members in self.clusters.alike(HELD):
            (Z,) = self.clusters.rows(members, self.root)
            K, t, few = _products(Z), totals[which][:, :, None], self.k < members.shape[1]
            columns, Zt = Z[:, :, : self.k], Z @ t
            F = inverse_power(K, self.power, columns if few else None, change=True)
            change = np.swapaxes(F, 1, 2) @ Zt if few else np.swapaxes(columns, 1, 2) @ (F @ Zt)
            adjusted[which] = (t[:, : self.k] + change)[:, :, 0]
            parts.append((members, (columns if few else np.eye(members.shape[1])) + K @ F, K))
        return adjusted, tuple(parts)

    @property
    def adjustments(self) -> tuple[tuple[IntArray, FloatArray, FloatArray], ...]:
        """Rows of clusters of one size, their (I - K_g)^-p, as `adjusted` has it, and K_g."""
        return self.adjusted[1]

    def forms(self, turned: FloatArray) -> Iterator[Forms]:
        """W', twice, and Z."""
        mapped, step = self.root[:, : self.k] @ turned, max(HELD // (turned.shape[1] * self.root.shape[1]), 1)
        for members, adjustment, _ in self.adjustments:
            maps = (self.root,) if self.k < members.shape[1] else (self.root, mapped)
            for first in range(0, members.shape[0], step):
                some = slice(first, first + step)
                Z, *rows = self.clusters.rows(members[some], *maps)
                W = np.swapaxes(adjustment[some] @ (rows[0] if rows else turned), 1, 2)
                yield W, W, Z


def _products(Z: FloatArray) -> FloatArray:
    """Z_gZ_g' of each cluster, shape (n_clusters, n, n)."""
    return np.einsum("gik,gik->gi", Z, Z)[:, :, None] if Z.shape[1] == 1 else Z @ np.swapaxes(Z, 1, 2)


def entry_forms(part: Narrow, turned: FloatArray) -> Iterator[tuple[slice, tuple[FloatArray, FloatArray, FloatArray]]]:
    """The same of clusters whose rows hold few entries, as pairs of many models: d_g, u_g'u_g, and the sum of u_gu_g'.

    With w a column of W and E the entries of the rows, u_g = R'E_g'w: the sum is R'SR with S that of E_g'ww'E_g. A pair
    of rows adds w_r w_s x_r x_s' to it and the transpose of that, a row with itself half of each. Yields contrasts,
    with (n_clusters, m) twice and (m, k, k).
    """
    m, mapped, before = turned.shape[1], part.root @ turned, 0
    pairs_of_rows = list[IntArray]()
    for members, *_ in part.adjustments:
        starts = before + np.arange(0, members.size, members.shape[1])
        pairs_of_rows.append((starts[:, None] + np.array(np.triu_indices(members.shape[1]))[:, None]).reshape(2, -1))
        before += members.size
    first, second = np.concatenate(pairs_of_rows, axis=1)
    rows = compressed(part.clusters.design)[np.concatenate([members.ravel() for members, *_ in part.adjustments])]
    k, share = rows.shape[1], np.where(first == second, 0.5, 1.0)
    pairs = scale_rows(row_products(rows[first], rows[second]), share).T.tocsr()
    step = max((HELD >> 2) // max(first.size, k * k), 1)
    for some in (slice(begin, begin + step) for begin in range(0, m, step)):
        totals, norms = [], []
        for members, adjustment, K in part.adjustments:
            (mapped_rows,) = part.clusters.rows(members, mapped[:, some])
            W = adjustment @ mapped_rows
            totals.append(W.reshape(-1, W.shape[2]))
            norms.append((np.einsum("gnm,gnm->gm", W, W), np.einsum("gnm,gnm->gm", W, K @ W)))
        w = np.concatenate(totals)
        half = (pairs @ (w[first] * w[second])).T.reshape(-1, k, k)
        d, uu = (np.concatenate(blocks) for blocks in zip(*norms, strict=True))
        yield some, (d, uu, part.root.T @ (half + np.swapaxes(half, 1, 2)) @ part.root)


def quadratic(contrasts: Matrix, matrix: FloatArray) -> FloatArray:
    """Diagonal of C V C', the variance of each contrast, shape (m,); C has the shape (m, k), dense or sparse."""
    if not sparse.issparse(contrasts):
        share = np.count_nonzero(contrasts) / contrasts.size if contrasts.size > HELD >> 8 else 1.0
        if share >= DENSE_SHARE:
            return np.asarray(np.sum((contrasts @ matrix) * contrasts, axis=1))
    rows = compressed(contrasts)
    if sparse.issparse(matrix) or not np.all(np.diff(rows.indptr) == 2):
        return np.asarray(rows.multiply(rows @ matrix).sum(axis=1), dtype=np.float64).ravel()
    # From four entries of V where each contrast has two, as differences do.
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
    """The same degrees of freedom for every contrast: n - k, or G - 1."""

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

    `variance` is that of each mean and `counts` its rows, both (n_cells,).
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
        whole = parts.sum(axis=1) ** 2 / np.where(below > 0, below, 1.0)
        return np.asarray(np.where(exact | (below <= 0), rows.min(axis=1), whole))

    def hotelling(self, contrasts: FloatArray) -> float:
        """Return the smallest n_m - 1 of the means involved."""
        return float(np.min(self.counts[np.any(contrasts != 0, axis=0)]) - 1)


@dataclass(frozen=True, eq=False)
class CountedDof:
    """Clusters less strata of each contrast: of every stratum those of the mean that has fewest there.

    `counts` are the clusters of each cell, `stratum` is its stratum, and `whole` are cells that are here as a whole,
    which no contrast varies with and whose clusters are counted all the same; all (n_cells,).
    """

    counts: FloatArray
    stratum: IntArray
    whole: BoolArray

    def dof(self, contrasts: FloatArray) -> FloatArray:
        """Sum of G_s - 1 over the strata that a contrast has."""
        used, total = dense(contrasts) != 0, np.zeros(contrasts.shape[0])
        for s in np.unique(self.stratum):
            in_stratum = self.stratum == s
            fewest = np.where(used[:, in_stratum], self.counts[in_stratum], np.inf).min(axis=1)
            wholly = np.max(self.counts[in_stratum & self.whole], initial=1.0)
            total += np.where(np.isfinite(fewest), fewest, wholly) - 1
        return total

    def hotelling(self, contrasts: FloatArray) -> float:
        """Return the smallest of the contrasts."""
        return float(np.min(self.dof(contrasts)))


def dof_word(leverage: Leverage | None, contrasts: Matrix | None) -> str:
    """What the degrees of freedom of some parameters are, in a word."""
    if isinstance(leverage, WelchDof):
        single = contrasts is None or bool(np.all(np.count_nonzero(dense(contrasts), axis=1) == 1))
        return "n - 1" if single else "Welch-Satterthwaite"
    return "n - k" if isinstance(leverage, FixedDof) else "G - 1"


def fixed_dof(rule: DofName | float, smallest: float) -> float:
    """The degrees of freedom of every contrast, under a rule that looks at none; `smallest` is the smallest G - 1."""
    return np.inf if rule == "normal" else smallest if rule == "min" else float(rule)


def whiten(contrasts: FloatArray, expected: FloatArray) -> FloatArray:
    """Contrasts scaled so that their expected covariance under the working model is the identity; NaN if singular."""
    unit = np.sqrt(np.diag(expected))
    values, axes = np.linalg.eigh((expected + expected.T) / (2 * np.outer(unit, unit)))
    return (axes / np.sqrt(np.where(values > 0, values, np.nan))).T @ (contrasts / unit[:, None])


def ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Satterthwaite's quotient, NaN where there is none: trace^2 / |P|^2 is 1 at least, and much less is rounding."""
    positive = denominator > 0
    dof = numerator / np.where(positive, denominator, 1.0)
    return np.where(positive & (dof > 0.5), dof, np.nan)


# Cells: D_g is diagonal with b_gk = a^2 h/n_k, a = (1 - h)^-p, and U_g with v_gk = a h/sqrt(n_k), so that contrasts c
# have tr(P) = trace' c^2 and |P|^2 = (c^2)' spread (c^2).


def cell_pieces(leverage: Matrix, weight: FloatArray, power: float) -> tuple[Matrix, Matrix]:
    """The b and v of every cluster and cell, shape (n_clusters, n_cells), from h and n_k."""
    h, n, a = leverage.data, weight[leverage.indices], power_scale(leverage.data, power)
    return with_entries(leverage, a**2 * h / n), with_entries(leverage, a * h / np.sqrt(n))


def spread_sums(b: Matrix, v: Matrix) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sums over clusters that add up over blocks: b - v^2, bb' - b(v^2)' - (v^2)b', and vv'."""
    d, v2 = with_entries(b, b.data - v.data**2), with_entries(v, v.data**2)
    trace = totals_of_columns(d)
    if faster_dense(b):
        d, v2, v = d.toarray(), v2.toarray(), v.toarray()
    # A matrix times itself is half the work, for which BLAS starts no threads.
    return trace, dense(d.T @ d - v2.T @ v2), dense(v.T @ v)


def known_sums(squares: sparse.csr_array, b: Matrix, v: Matrix) -> tuple[FloatArray, FloatArray, FloatArray]:
    """What some clusters add to |P|^2 of known contrasts alone, `squares` being their c^2, (m, n_cells).

    tr P and sum_g (b'c^2)^2 - 2 (b'c^2)(v^2'c^2), (m,), and the sums of v_gk v_gl of the cells of each contrast. Of a
    board a parameter has the pairs of one model alone: of vv' it needs the elements whose two pairs have a model in
    common, and not those of all pairs with all.
    """
    v2 = with_entries(v, v.data**2)
    first, second = dense(b @ squares.T), dense(v2 @ squares.T)
    sums = (first - second).sum(axis=0), np.sum(first * (first - 2 * second), axis=0)
    if np.diff(squares.indptr).max() == 1:
        return *sums, np.asarray(v2.sum(axis=0)).ravel()[squares.indices]
    by_cell = v.tocsc()
    cells = (by_cell[:, of] for of in np.split(squares.indices, squares.indptr[1:-1]))
    return *sums, np.concatenate([dense(of.T @ of).ravel() for of in cells])


def known_dof(squares: sparse.csr_array, sums: FloatArray) -> FloatArray:
    """Satterthwaite degrees of freedom of known contrasts, from their sums over all clusters in one array."""
    m, counts = squares.shape[0], np.diff(squares.indptr).astype(np.int64)
    trace, forms, *products = np.split(sums, np.cumsum([m, m, *counts[:-1] ** 2]))
    weights = np.split(squares.data, squares.indptr[1:-1])
    squared_products = [c @ part.reshape(c.size, c.size) ** 2 @ c for c, part in zip(weights, products, strict=True)]
    return ratio(trace**2, forms + np.array(squared_products))


CellSpread: TypeAlias = tuple[FloatArray, Matrix, tuple[Matrix, Matrix] | None]
"""Of all cells the trace, sum over clusters of b - v^2, and the spread; or in its place the b and v of the clusters."""


def spread_of(blocks: list[tuple[Matrix, Matrix]]) -> CellSpread:
    """The spread from the b and v of all clusters.

    Of very many cells it is sparse where few pairs of them share a cluster; elsewhere its factors stand for it.
    """
    b, v = (stacked(parts) for parts in zip(*blocks, strict=True))
    if b.shape[1] ** 2 <= HELD:
        trace, squares, products = spread_sums(b, v)
        return trace, squares + products**2, None
    v2 = with_entries(v, v.data**2)
    trace = np.asarray(b.sum(axis=0) - v2.sum(axis=0)).ravel()
    if float(np.sum(np.diff(b.indptr).astype(float) ** 2)) > HELD:
        return trace, None, (b, v)
    cross, products = b.T @ v2, v.T @ v
    return trace, (b.T @ b - cross - cross.T + products.multiply(products)).tocsr(), None


def cell_dof(b: Matrix, v: Matrix) -> FloatArray:
    """Satterthwaite degrees of freedom of each cell's own mean, shape (n_cells,)."""

    def summed(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(b.indices, values, b.shape[1]), dtype=np.float64)

    v2 = v.data**2
    squares = summed(v2)
    return ratio((summed(b.data) - squares) ** 2, summed(b.data**2 - 2 * b.data * v2) + squares**2)


@dataclass(frozen=True, eq=False)
class CellLeverage:
    """What the leverages of cells say about contrasts of their means, summed over clusters.

    The spread is the sum over g of bb' - b(v^2)' - (v^2)b', plus the squared elements of the sum of vv'. The degrees of
    freedom of the parameters themselves may be known without it: the clusters are asked again where others are wanted.
    """

    ask: Callable[[], CellSpread]
    parameters: FloatArray | None = None

    @held_property
    def sums(self) -> CellSpread:
        """Trace, spread and factors."""
        return self.ask()

    @property
    def trace(self) -> FloatArray:
        """Sum over clusters of b - v^2, shape (n_cells,)."""
        return self.sums[0]

    def linear(self) -> CellLeverage:
        """The same of contrasts of the parameters."""
        return CellLeverage(lambda: self.sums)

    def __reduce__(self) -> tuple[Any, ...]:
        """What is pickled has no clusters to ask again."""
        return _answered, (self.sums, self.parameters)

    @held_property
    def diagonal(self) -> FloatArray:
        """Of the spread, shape (n_cells,)."""
        _, spread, factors = self.sums
        if factors is None:
            return np.asarray(spread.diagonal(), dtype=np.float64)
        b, v = factors
        v2 = with_entries(v, v.data**2)
        return totals_of_columns(with_entries(b, b.data * (b.data - 2 * v2.data))) + totals_of_columns(v2) ** 2

    def columns(self, part: slice) -> FloatArray:
        """Some columns of the spread, shape (n_cells, n_columns)."""
        _, spread, factors = self.sums
        if factors is None:
            return dense(spread[:, part])
        b, v, v2 = self._dense_factors
        both = b.T @ (b[:, part] - v2[:, part]) - v2.T @ b[:, part]
        return both + (v.T @ v[:, part]) ** 2

    @held_property
    def _dense_factors(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        # Clusters that many cells share hold most of them.
        b, v = (dense(factor) for factor in self.sums[2] or ())
        return b, v, v**2

    def times(self, matrix: Matrix) -> FloatArray:
        """The spread times a sparse array, shape (n_cells, m)."""
        if self.sums[2] is None:
            return dense(self.sums[1] @ matrix)
        by_row, result = compressed(matrix), np.zeros(matrix.shape)
        for part in self._parts:
            result += self.columns(part) @ by_row[part]
        return result

    @property
    def _parts(self) -> Iterator[slice]:
        step = max(HELD // self.trace.size, 1)
        return (slice(first, first + step) for first in range(0, self.trace.size, step))

    def dof(self, contrasts: Matrix) -> FloatArray:
        """Satterthwaite degrees of freedom, one for each row of `contrasts` (m, n_cells), some at a time."""
        squares = squared_entries(compressed(contrasts))
        _, spread, factors = self.sums
        if factors is None and faster_dense(squares):
            forms = quadratic(dense(squares), spread)
            return ratio(np.asarray(squares @ self.trace) ** 2, forms)
        step, dofs = max(HELD // self.trace.size, 1), list[FloatArray]()
        for part in (squares[first : first + step] for first in range(0, squares.shape[0], step)):
            if factors is None:
                dofs.append(ratio(np.asarray(part @ self.trace) ** 2, quadratic(part, spread)))
            else:
                dofs.append(known_dof(part, np.concatenate(known_sums(part, *factors))))
        return np.concatenate(dofs)

    def hotelling(self, contrasts: FloatArray) -> float:
        """eta of the approximate Hotelling test of `contrasts` (q, n_cells)."""
        q, scaled = contrasts.shape[0], whiten(contrasts, (contrasts * self.trace) @ contrasts.T)
        squares, variance = np.sum(scaled**2, axis=0), 0.0
        for part in self._parts:
            products = scaled.T @ scaled[:, part]
            variance += float(np.sum((np.outer(squares, squares[part]) + products**2) * self.columns(part)))
        return float(q * (q + 1) / variance)

    def of_pairs(self, combinations: Matrix, projected: Projected) -> FloatArray | None:
        """Satterthwaite degrees of freedom of combinations of two contrasts each, such as all differences of a board.

        The squares of c A_a + d A_b are c^2 A_a^2 + d^2 A_b^2 and a product where both have an entry: the pair of the
        two models. None where some two contrasts share several cells.
        """
        rows = compressed(combinations)
        first, last = rows.indptr[:-1], rows.indptr[1:] - 1
        i, j = rows.indices[first], rows.indices[last]
        c, d = rows.data[first], np.where(j > i, rows.data[last], 0.0)
        A, spread, forms, trace = projected
        both = compressed(A[i].multiply(A[j]).tocsr() * (2 * c * d)[:, None])
        both.eliminate_zeros()
        if np.max(np.diff(both.indptr), initial=0) > 1:
            return None
        variance = c**4 * forms[i, i] + d**4 * forms[j, j] + 2 * c**2 * d**2 * forms[i, j]
        expected = c**2 * trace[i] + d**2 * trace[j]
        shared = np.flatnonzero(np.diff(both.indptr))
        cell, x = both.indices, both.data
        i, j, c, d = i[shared], j[shared], c[shared], d[shared]
        variance[shared] += 2 * x * (c**2 * spread[cell, i] + d**2 * spread[cell, j]) + x**2 * self.diagonal[cell]
        expected[shared] += x * self.trace[cell]
        return ratio(expected**2, variance)

    def project(self, contrasts: Matrix) -> Projected:
        """A, the spread times the squares Q of A (once, not for every combination), Q times that, and Q trace."""
        A = compressed(contrasts)
        Q = with_entries(A, A.data**2)
        spread = self.times(Q.T.tocsc())
        return A, spread, Q @ spread, Q @ self.trace


def _add_products(sums: FloatArray, U: FloatArray) -> None:
    """Add U'U of each contrast to its sum, (m, k, k), of clusters, (m, n_clusters, k).

    A matrix times itself is half the work; of many clusters at once, as sums of few take longer to add than to make.
    """
    for total, u in zip(sums, U, strict=True):
        total += u.T @ u


def _answered(sums: CellSpread, parameters: FloatArray | None) -> CellLeverage:
    return CellLeverage(lambda: sums, parameters)


Projected = tuple[Matrix, FloatArray, FloatArray, FloatArray]
"""(n_contrasts, n_cells), (n_cells, n_contrasts), (n_contrasts, n_contrasts) and (n_contrasts,): see `project`."""


@dataclass(frozen=True, eq=False)
class ClusterLeverage:
    """The leverages of a regression's clusters.

    Parameters
    ----------
    parts : tuple of Wide and Narrow
        Leverages of all clusters.
    root : ndarray, shape (n_coefficients, k)
        R, with RR' = M, to the k columns that contrasts use; without the directions that single clusters alone
        determine, whose leverage counts nothing.
    n_columns : int
        K of U_g: more than k where absorbed levels are among the columns.
    """

    parts: tuple[Wide | Narrow, ...]
    root: FloatArray
    n_columns: int

    @property
    def n_clusters(self) -> int:
        """How many."""
        return sum(part.n_clusters for part in self.parts)

    def dof(self, contrasts: FloatArray) -> FloatArray:
        """Satterthwaite degrees of freedom, one for each row of `contrasts` (m, k)."""
        k = self.n_columns
        step, dofs = max(2 * HELD // max(min(self.n_clusters, k) * k, 1), 16), list[FloatArray]()
        with Progress(contrasts.shape[0], unit="degrees of freedom") as progress:
            for first in range(0, contrasts.shape[0], step):
                dofs.append(self._dof(self.root.T @ contrasts[first : first + step].T))
                progress.advance(dofs[-1].size)
        return np.concatenate(dofs)

    def _dof(self, turned: FloatArray) -> FloatArray:
        """(sum_g d_g - u_g'u_g)^2 / (sum_g d_g^2 - 2 d_g u_g'u_g + |sum_g u_gu_g'|^2) of R'C', (k, m)."""
        k, m = self.n_columns, turned.shape[1]
        expected, squares, few = np.zeros(m), np.zeros(m), self.n_clusters < k
        sums, n_held = np.zeros((0 if few else m, k, k)), 0
        U = np.empty((m, self.n_clusters if few else min(max(HELD // (m * k), 1), self.n_clusters), k))
        for part in self.parts:
            if isinstance(part, Narrow) and self._thin(part):
                for some, (d, uu, products) in entry_forms(part, turned):
                    expected[some] += (d - uu).sum(axis=0)
                    squares[some] += (d**2 - 2 * d * uu).sum(axis=0)
                    sums[some] += products
                continue
            for left, right, Z in part.forms(turned):
                if n_held + len(left) > U.shape[1]:
                    _add_products(sums, U[:, :n_held])
                    n_held = 0
                # Where they stay: copies of them take as long as half of their products.
                u = np.matmul(left, Z, out=np.swapaxes(U[:, n_held : n_held + len(left)], 0, 1))
                n_held += len(left)
                d = np.einsum("gmn,gmn->gm", left, u if right is None else right)
                uu = np.einsum("gmk,gmk->gm", u, u)
                expected += (d - uu).sum(axis=0)
                squares += (d**2 - 2 * d * uu).sum(axis=0)
        if few:  # of fewer clusters than columns UU' is the smaller, which has the sum of squares of U'U
            sums = U[:, :n_held] @ np.swapaxes(U[:, :n_held], 1, 2)
        else:
            _add_products(sums, U[:, :n_held])
        return ratio(expected**2, squares + np.einsum("mij,mij->m", sums, sums))

    def _thin(self, part: Narrow) -> bool:
        """Whether rows have so few entries that sparse products, at fifty times the price each, cost less."""
        design, root, k = part.clusters.design, part.root, self.n_columns
        if self.n_clusters < k or isinstance(design, np.ndarray):
            return False
        sizes = np.diff(part.clusters.starts) * (design.nnz / design.shape[0])
        if 50 * float(sizes @ sizes) + 8 * k**3 > float(sizes.size) * k**2:
            return False
        # Sums of products of entries keep their digits when they are turned by such a root; units do not matter.
        return bool(np.linalg.cond(root / np.linalg.norm(root, axis=1)[:, None]) < SQUARED_CONDITION)

    def _forms(self, turned: FloatArray) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
        for left, right, Z in (forms for part in self.parts for forms in part.forms(turned)):
            u = left @ Z
            yield left, u if right is None else right, u

    def hotelling(self, contrasts: FloatArray) -> float:
        """eta of the approximate Hotelling test of `contrasts` (q, k)."""
        q, k = contrasts.shape[0], self.n_columns
        refuse_larger(
            2 * 8.0 * (q * k) ** 2,
            f"the degrees of freedom of a joint test of {q:,} contrasts of {k:,} coefficients",
            "Test fewer contrasts at a time.",
        )
        expected = np.zeros((q, q))
        for left, right, u in self._forms(self.root.T @ contrasts.T):
            expected += np.einsum("gsn,gtn->st", left, right, optimize=True)
            expected -= np.einsum("gsk,gtk->st", u, u, optimize=True)
        variance, products = 0.0, np.zeros((q * k, q * k))
        for left, right, u in self._forms(self.root.T @ whiten(contrasts, expected).T):
            d, uu = left @ np.swapaxes(right, 1, 2), u @ np.swapaxes(u, 1, 2)
            traces = np.einsum("gss->g", d)
            variance += float(np.sum(traces**2) - 2 * np.sum(traces * np.einsum("gss->g", uu)))
            variance += float(np.sum(d * np.swapaxes(d, 1, 2)) - 2 * np.sum(d * np.swapaxes(uu, 1, 2)))
            flat = u.reshape(u.shape[0], q * k)
            products += flat.T @ flat
        pairs = products.reshape(q, k, q, k)
        variance += float(np.sum(pairs**2) + np.einsum("sitj,tisj->", pairs, pairs))
        return float(q * (q + 1) / variance)
