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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray, held_property, quotient
from evalreg.choices import DofName
from evalreg.data.clusters import Axis
from evalreg.data.frame import refuse_larger
from evalreg.numerics.fitting import Progress
from evalreg.numerics.limits import FEW_COLUMNS_NORM, FULL_LEVERAGE, HELD, LAST_DIGITS, SERIES_NORM, SQUARED_CONDITION
from evalreg.numerics.matrices import (
    DENSE_SHARE,
    SMALL,
    Matrix,
    compressed,
    dense,
    faster_dense,
    inverse_root,
    is_identity,
    parts_of,
    row_products,
    scale_columns,
    scale_rows,
    square,
    squared_entries,
    stacked,
    totals_of_columns,
    with_entries,
)
from evalreg.scores.base import Block, NarrowClusters, Scores


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


@dataclass(frozen=True, eq=False)
class Powers:
    """F_g of some clusters, by which (I - M_g)^-p = I + M_g F_g: ((1 - v)^-p - 1)/v of eigenvalues v, -1 of v = 1.

    That is the Moore-Penrose inverse. By the binomial series where that is short, by eigenvectors elsewhere.
    """

    M: FloatArray  # (n_clusters, n, n), eigenvalues in [0, 1]
    power: float
    norm: float | None  # the largest, of matrices that have a short series

    @held_property
    def _series(self) -> FloatArray:
        """a_j = a_(j-1) (p + j - 1)/j, a_0 = 1, from j = 1 on, as far as they tell."""
        degree = np.log(LAST_DIGITS) / np.log(max(self.norm or 0.0, np.finfo(float).tiny))
        j = np.arange(1, max(int(np.ceil(degree)), 2))
        return np.asarray(np.cumprod((self.power + j - 1) / j), dtype=np.float64)

    @held_property
    def _eigen(self) -> tuple[FloatArray, FloatArray]:
        """F_g of eigenvalues, which has the limit p where these are next to 0, and eigenvectors."""
        values, axes = np.linalg.eigh(self.M)
        full, none = 1.0 - values < FULL_LEVERAGE, np.abs(values) < np.finfo(float).tiny ** 0.5
        scale = np.expm1(-self.power * np.log1p(-np.where(full, 0.0, values))) / np.where(none, 1.0, values)
        return np.where(full, -1.0, np.where(none, self.power, scale)), axes

    def change(self, V: FloatArray, some: slice = slice(None)) -> FloatArray:
        """V F_g of some clusters, V being of the shape (n_clusters, m, n) or (m, n)."""
        if not self.power:
            return np.zeros(V.shape)
        if self.norm is None:
            scale, axes = (part[some] for part in self._eigen)
            return np.asarray((V @ axes * scale[:, None]) @ np.swapaxes(axes, 1, 2))
        M, result = self.M[some], np.asarray(self._series[-1] * V)
        for coefficient in self._series[-2::-1]:  # Horner's rule
            result = result @ M
            result += coefficient * V
        return result

    @held_property
    def _inverses(self) -> FloatArray:
        one = np.eye(self.M.shape[1])
        return one + self.change(one) @ self.M

    def times(self, V: FloatArray, some: slice) -> FloatArray:
        """V (I - M_g)^-p of some clusters; of more rows than M_g has by the matrix itself, which costs less."""
        if V.shape[-2] > V.shape[-1]:
            return V @ self._inverses[some]
        return V + self.change(V, some) @ self.M[some]


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
class LeveragePart:
    """Some clusters of a regression, by M_g: L_g, or Z_gZ_g' of clusters of one size and few rows Z_g = X_g R.

    With V_g the contrasts T' themselves, or T'Z_g', and W_g = V_g (I - M_g)^-p: U_g is W_g L_g, or W_g Z_g, and D_g is
    W_gU_g', or W_gW_g'.
    """

    powers: Powers
    clusters: NarrowClusters | None = None
    members: Any = None  # (n_clusters, size): their rows
    root: Any = None

    @property
    def n_clusters(self) -> int:
        """How many."""
        return int(self.powers.M.shape[0])

    def _rows(self, some: slice, *maps: FloatArray) -> Iterator[FloatArray]:
        assert self.clusters is not None
        return self.clusters.rows(self.members[some], *maps)

    def adjusted(self, T: FloatArray) -> FloatArray:
        """W_g of contrasts, (K, m), and clusters of few rows, shape (n_clusters, m, n)."""
        (V,) = self._rows(slice(None), self.root @ T)
        return self.powers.times(np.swapaxes(V, 1, 2), slice(None))

    def forms(self, T: FloatArray) -> Iterator[tuple[FloatArray, FloatArray | None, FloatArray]]:
        """W_g, whose product with it is D_g (None: U_g), and with which it is U_g, a few clusters at a time."""
        if self.clusters is None:
            for some in parts_of(self.n_clusters, max((HELD >> 6) // T.size, 1)):
                yield self.powers.times(np.ascontiguousarray(T.T), some), None, self.powers.M[some]
            return
        for some in parts_of(self.n_clusters, max(HELD // T.size, 1)):
            V, Z = self._rows(some, self.root @ T, self.root)
            W = self.powers.times(np.swapaxes(V, 1, 2), some)
            yield W, W, Z


def adjusted_parts(
    totals: FloatArray, M: FloatArray, power: float, few: bool, Z: FloatArray | None = None, *rows: Any
) -> tuple[FloatArray, list[LeveragePart]]:
    """(I - L_g)^-p t of totals t = R'T_g, (n_clusters, K), and parts of clusters with a short series and without.

    t + t F_g L_g, or t + t Z_g'F_g Z_g. `few` says that fewer columns are asked for than M_g has. Of few numbers in all
    eigenvectors take less time than the steps of a series.
    """
    norm, adjusted, parts = np.sqrt(np.einsum("gij,gij->g", M, M)), totals.copy(), list[LeveragePart]()
    short = (norm <= (FEW_COLUMNS_NORM if few else SERIES_NORM)) & (M.size > SMALL)
    for some, largest in ((short, np.max(norm[short], initial=0.0)), (~short, None)):
        if some.any():
            chosen: Any = slice(None) if some.all() else some
            clusters, members, root = (rows[0], rows[1][chosen], rows[2]) if rows else (None, None, None)
            part = LeveragePart(Powers(M[chosen], power, largest), clusters, members, root)
            t, maps = totals[chosen][:, None], part.powers.M if Z is None else Z[chosen]
            change = part.powers.change(t if Z is None else t @ np.swapaxes(maps, 1, 2))
            adjusted[chosen] += (change @ maps)[:, 0]
            parts.append(part)
    return adjusted, parts


def entry_forms(
    parts: Sequence[LeveragePart], T: FloatArray
) -> Iterator[tuple[slice, tuple[FloatArray, FloatArray, FloatArray]]]:
    """The same of clusters whose rows hold few entries, as pairs of many models: d_g, u_g'u_g, and the sum of u_gu_g'.

    With w a row of W and E the entries of the rows, u_g = R'E_g'w: the sum is R'SR with S that of E_g'ww'E_g. A pair
    of rows adds w_r w_s x_r x_s' to it and the transpose of that, a row with itself half of each. Yields contrasts,
    with (n_clusters, m) twice and (m, k, k).
    """
    before, pairs_of_rows = 0, list[IntArray]()
    for n, size in (part.members.shape for part in parts):
        starts = before + np.arange(0, n * size, size)
        pairs_of_rows.append((starts[:, None] + np.array(np.triu_indices(size))[:, None]).reshape(2, -1))
        before += n * size
    first, second = np.concatenate(pairs_of_rows, axis=1)
    clusters: Any = parts[0].clusters
    rows = compressed(clusters.design)[np.concatenate([part.members.ravel() for part in parts])]
    k, share, R = rows.shape[1], np.where(first == second, 0.5, 1.0), parts[0].root
    pairs = scale_rows(row_products(rows[first], rows[second]), share).T.tocsr()
    for some in parts_of(T.shape[1], max((HELD >> 2) // max(first.size, k * k), 1)):
        W = [part.adjusted(T[:, some]) for part in parts]
        d = np.concatenate([np.einsum("gmn,gmn->gm", w, w) for w in W])
        uu = np.concatenate([np.einsum("gmn,gmn->gm", w, w @ part.powers.M) for part, w in zip(parts, W, strict=True)])
        w = np.concatenate([np.swapaxes(of_part, 1, 2).reshape(-1, of_part.shape[1]) for of_part in W])
        half = (pairs @ (w[first] * w[second])).T.reshape(-1, k, k)
        yield some, (d, uu, R.T @ (half + np.swapaxes(half, 1, 2)) @ R)


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


def fixed_dof(rule: DofName | float, smallest: float) -> float:
    """The degrees of freedom of every contrast, under a rule that looks at none; `smallest` is the smallest G - 1."""
    return np.inf if rule == "normal" else smallest if rule == "min" else float(rule)


def ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Satterthwaite's quotient, NaN where there is none: trace^2 / |P|^2 is 1 at least, and much less is rounding."""
    dof = quotient(numerator, denominator)
    return np.where(dof > 0.5, dof, np.nan)


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
    v2, C = with_entries(v, v.data**2), squares.T
    if faster_dense(b) and faster_dense(squares):
        first, second = dense(b) @ dense(C), dense(v2) @ dense(C)
    else:
        first, second = dense(b @ C), dense(v2 @ C)
    sums = (first - second).sum(axis=0), np.sum(first * (first - 2 * second), axis=0)
    if np.diff(squares.indptr).max() == 1:
        return *sums, totals_of_columns(v2)[squares.indices]
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


def cell_meat(
    inverse: FloatArray, power: float, bread: Matrix | None, known: Matrix | None, block: Block
) -> FloatArray:
    """What a block of whole clusters adds to the covariance of means of cells, and to their degrees of freedom.

    It is one array, so that blocks add up wherever they lie: the squares of adjusted totals, cells that rest on a
    single cluster, and sums for the degrees of freedom of contrasts whose squared entries are `known`. Without `bread`
    it is the sums for all contrasts alone.
    """
    share, arrays = scale_columns(block.gram, inverse), list[FloatArray | BoolArray]()
    if bread is not None:
        totals = adjust_cell_totals(block.totals, share, power)
        arrays += [square(totals, bread), full_leverage_cells(share)]
    if bread is None or known is not None:
        pieces = cell_pieces(share, 1.0 / inverse, power)
        arrays += spread_sums(*pieces) if known is None else known_sums(known, *pieces)
    return np.concatenate([np.asarray(array, dtype=np.float64).ravel() for array in arrays])


def of_all_cells(scores: Scores, by: Axis, inverse: FloatArray, power: float) -> CellSpread:
    """What the leverages of all cells say of any contrasts."""
    n = inverse.size
    if n**2 > HELD:
        shares = (scale_columns(block.gram, inverse) for block in scores.cells(by))
        return spread_of([cell_pieces(share, 1.0 / inverse, power) for share in shares])
    trace, squares, products = np.split(scores.fold(by, partial(cell_meat, inverse, power, None, None)), [n, n + n**2])
    return trace, (squares + products**2).reshape(n, n), None


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
        return CellLeverage, (partial(tuple, self.sums), self.parameters)

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
        return parts_of(self.trace.size, max(HELD // self.trace.size, 1))

    def dof(self, contrasts: Matrix) -> FloatArray:
        """Satterthwaite degrees of freedom, one for each row of `contrasts` (m, n_cells), some at a time."""
        squares, dofs, (_, spread, factors) = squared_entries(compressed(contrasts)), list[FloatArray](), self.sums
        if factors is None and faster_dense(squares):
            squares = dense(squares)
        for part in (squares[some] for some in parts_of(squares.shape[0], max(HELD // self.trace.size, 1))):
            if factors is None:
                dofs.append(ratio(np.asarray(part @ self.trace) ** 2, quadratic(part, spread)))
            else:
                dofs.append(known_dof(part, np.concatenate(known_sums(part, *factors))))
        return np.concatenate(dofs)

    def hotelling(self, contrasts: FloatArray) -> float:
        """eta of the approximate Hotelling test of `contrasts` (q, n_cells)."""
        q, scaled = contrasts.shape[0], inverse_root((contrasts * self.trace) @ contrasts.T, 0.0).T @ contrasts
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


Projected = tuple[Matrix, FloatArray, FloatArray, FloatArray]
"""(n_contrasts, n_cells), (n_cells, n_contrasts), (n_contrasts, n_contrasts) and (n_contrasts,): see `project`."""


@dataclass(frozen=True, eq=False)
class ClusterLeverage:
    """The leverages of a regression's clusters.

    Parameters
    ----------
    parts : tuple of LeveragePart
        Leverages of all clusters.
    root : ndarray, shape (n_coefficients, K)
        R, with RR' = M; without the directions that single clusters alone determine, whose leverage counts nothing.
    """

    parts: tuple[LeveragePart, ...]
    root: FloatArray

    @property
    def n_clusters(self) -> int:
        """How many."""
        return sum(part.n_clusters for part in self.parts)

    def dof(self, contrasts: FloatArray) -> FloatArray:
        """Satterthwaite degrees of freedom, one for each row of `contrasts` (m, n_coefficients)."""
        K, dofs = self.root.shape[1], list[FloatArray]()
        with Progress(contrasts.shape[0], unit="degrees of freedom") as progress:
            for some in parts_of(contrasts.shape[0], max(2 * HELD // max(min(self.n_clusters, K) * K, 1), 16)):
                dofs.append(self._dof(self.root.T @ contrasts[some].T))
                progress.advance(dofs[-1].size)
        return np.concatenate(dofs)

    def _dof(self, T: FloatArray) -> FloatArray:
        """(sum_g d_g - u_g'u_g)^2 / (sum_g d_g^2 - 2 d_g u_g'u_g + |sum_g u_gu_g'|^2) of R'C', (K, m)."""
        K, m = T.shape
        expected, squares, few = np.zeros(m), np.zeros(m), self.n_clusters < K
        sums, n_held = np.zeros((0 if few else m, K, K)), 0
        U = np.empty((m, self.n_clusters if few else min(max(HELD // (m * K), 1), self.n_clusters), K))
        for _, together in groupby(self.parts, key=lambda part: id(part.clusters)):
            parts = list(together)
            if self._thin(parts):
                for some, (d, uu, products) in entry_forms(parts, T):
                    expected[some] += (d - uu).sum(axis=0)
                    squares[some] += (d**2 - 2 * d * uu).sum(axis=0)
                    sums[some] += products
                continue
            for W, right, maps in chain.from_iterable(part.forms(T) for part in parts):
                if n_held + len(W) > U.shape[1]:
                    _add_products(sums, U[:, :n_held])
                    n_held = 0
                # Where they stay: copies of them take as long as half of their products.
                u = np.matmul(W, maps, out=np.swapaxes(U[:, n_held : n_held + len(W)], 0, 1))
                n_held += len(W)
                d = np.einsum("gmn,gmn->gm", W, u if right is None else right)
                uu = np.einsum("gmk,gmk->gm", u, u)
                expected += (d - uu).sum(axis=0)
                squares += (d**2 - 2 * d * uu).sum(axis=0)
        if few:  # of fewer clusters than columns UU' is the smaller, which has the sum of squares of U'U
            sums = U[:, :n_held] @ np.swapaxes(U[:, :n_held], 1, 2)
        else:
            _add_products(sums, U[:, :n_held])
        return ratio(expected**2, squares + np.einsum("mij,mij->m", sums, sums))

    def _thin(self, parts: Sequence[LeveragePart]) -> bool:
        """Whether rows have so few entries that sparse products, at fifty times the price each, cost less."""
        clusters, K = parts[0].clusters, self.root.shape[1]
        if clusters is None or self.n_clusters < K or isinstance(clusters.design, np.ndarray):
            return False
        sizes = np.diff(clusters.starts) * (clusters.design.nnz / clusters.design.shape[0])
        if 50 * float(sizes @ sizes) + 8 * K**3 > float(sizes.size) * K**2:
            return False
        # Sums of products of entries keep their digits when they are turned by such a root; units do not matter.
        root = parts[0].root
        return bool(np.linalg.cond(root / np.linalg.norm(root, axis=1)[:, None]) < SQUARED_CONDITION)

    def _forms(self, T: FloatArray) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
        for W, right, maps in chain.from_iterable(part.forms(T) for part in self.parts):
            u = W @ maps
            yield W, u if right is None else right, u

    def hotelling(self, contrasts: FloatArray) -> float:
        """eta of the approximate Hotelling test of `contrasts` (q, n_coefficients)."""
        q, k = contrasts.shape[0], self.root.shape[1]
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
        for left, right, u in self._forms(self.root.T @ contrasts.T @ inverse_root(expected, 0.0)):
            d, uu = left @ np.swapaxes(right, 1, 2), u @ np.swapaxes(u, 1, 2)
            traces = np.einsum("gss->g", d)
            variance += float(np.sum(traces**2) - 2 * np.sum(traces * np.einsum("gss->g", uu)))
            variance += float(np.sum(d * np.swapaxes(d, 1, 2)) - 2 * np.sum(d * np.swapaxes(uu, 1, 2)))
            flat = u.reshape(u.shape[0], q * k)
            products += flat.T @ flat
        pairs = products.reshape(q, k, q, k)
        variance += float(np.sum(pairs**2) + np.einsum("sitj,tisj->", pairs, pairs))
        return float(q * (q + 1) / variance)
