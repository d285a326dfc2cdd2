"""Degrees of freedom: counted, Welch's, and Satterthwaite's and Hotelling's from the leverages of a fit.

Bell and McCaffrey (2002) under the working model that rows vary alike and independently: with P_gh = delta_gh D_g -
U_g'U_h what clusters g and h make of contrasts, one contrast has tr(P)^2 / |P|^2 degrees of freedom; q of them jointly
the eta of Pustejovsky and Tipton (2018), JBES 36(4), section 3.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, DofName, FloatArray, IntArray, held_property
from evalreg.covariance.adjust import HELD, ClusterPart, Forms, Narrow, entry_forms, power_scale
from evalreg.data.frame import refuse_larger
from evalreg.numerics.fitting import Progress
from evalreg.numerics.matrices import (
    DENSE_SHARE,
    Matrix,
    compressed,
    dense,
    mostly_there,
    stacked,
    with_entries,
)

# With more cells than this, a (cells, cells) array of 72 MiB, sums over clusters are sparse or wait for the contrasts.
MOST_CELLS = 3000
# Condition number of the root up to which turned sums lose no more than six of sixteen digits, and mostly none.
LARGEST_CONDITION = 1e3


def quadratic(contrasts: Matrix, matrix: FloatArray) -> FloatArray:
    """Diagonal of C V C', the variance of each contrast, shape (m,); C has the shape (m, k), dense or sparse."""
    if not (sparse.issparse(contrasts) or (contrasts.size > HELD >> 8 and _few_entries(contrasts))):
        return np.asarray(np.sum((contrasts @ matrix) * contrasts, axis=1))
    rows = compressed(contrasts)
    if sparse.issparse(matrix) or not np.all(np.diff(rows.indptr) == 2):
        return np.asarray(rows.multiply(rows @ matrix).sum(axis=1), dtype=np.float64).ravel()
    # From four entries of V where each contrast has two, as differences do.
    (i, j), (c, d) = rows.indices.reshape(-1, 2).T, rows.data.reshape(-1, 2).T
    first, second = c * matrix[i, i] + d * matrix[j, i], c * matrix[i, j] + d * matrix[j, j]
    return np.asarray(c * first + d * second)


def _few_entries(matrix: FloatArray) -> bool:
    return bool(np.count_nonzero(matrix) < DENSE_SHARE * matrix.size)


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


# Cells: D_g is diagonal with b_gk = a^2 h/n_k, a = (1 - h)^-p, and U_g with v_gk = a h/sqrt(n_k), so that contrasts c
# have tr(P) = trace' c^2 and |P|^2 = (c^2)' spread (c^2).


def cell_pieces(leverage: Matrix, weight: FloatArray, power: float) -> tuple[Matrix, Matrix]:
    """The b and v of every cluster and cell, shape (n_clusters, n_cells), from h and n_k."""
    h, n, a = leverage.data, weight[leverage.indices], power_scale(leverage.data, power)
    return with_entries(leverage, a**2 * h / n), with_entries(leverage, a * h / np.sqrt(n))


def cell_sums(b: Matrix, v: Matrix) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sums over clusters that add up over blocks: b - v^2, bb' - b(v^2)' - (v^2)b', and vv'."""
    d, v2 = with_entries(b, b.data - v.data**2), with_entries(v, v.data**2)
    trace = np.bincount(b.indices, d.data, b.shape[1]).astype(np.float64, copy=False)
    if mostly_there(b):
        d, v2, v = d.toarray(), v2.toarray(), v.toarray()
    # A matrix times itself is half the work, for which BLAS starts no threads.
    return trace, dense(d.T @ d - v2.T @ v2), dense(v.T @ v)


def cell_leverage(leverage: Matrix, weight: FloatArray, power: float) -> CellLeverage | FactoredLeverage:
    """What the leverages of cells, (n_clusters, n_cells), say about contrasts of their means."""
    b, v = cell_pieces(leverage, weight, power)
    if weight.size <= MOST_CELLS:
        trace, squares, products = cell_sums(b, v)
        return CellLeverage(trace, squares + products**2)
    return many_cells([(b, v)])


def many_cells(blocks: list[tuple[Matrix, Matrix]]) -> CellLeverage | FactoredLeverage:
    """The same of very many cells: a sparse spread where few pairs of them share a cluster; its factors elsewhere."""
    b, v = (stacked(parts) for parts in zip(*blocks, strict=True))
    v2 = with_entries(v, v.data**2)
    trace = np.asarray(b.sum(axis=0) - v2.sum(axis=0)).ravel()
    if float(np.sum(np.diff(b.indptr).astype(float) ** 2)) > MOST_CELLS**2:
        return FactoredLeverage(trace, b, v)
    cross, products = b.T @ v2, v.T @ v
    return CellLeverage(trace, (b.T @ b - cross - cross.T + products.multiply(products)).tocsr())


def own_dof(b: Matrix, v: Matrix) -> FloatArray:
    """Satterthwaite degrees of freedom of each cell's own mean, shape (n_cells,)."""

    def summed(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(b.indices, values, b.shape[1]), dtype=np.float64)

    v2 = v.data**2
    squares = summed(v2)
    return ratio((summed(b.data) - squares) ** 2, summed(b.data**2 - 2 * b.data * v2) + squares**2)


class _OfCells:
    """Contrasts of means of cells, from `trace` and `spread`."""

    trace: FloatArray  # (n_cells,): sum over clusters of b - v^2

    @property
    def diagonal(self) -> FloatArray:
        """Of the spread, shape (n_cells,)."""
        raise NotImplementedError

    def columns(self, part: slice) -> FloatArray:
        """Some columns of the spread, shape (n_cells, n_columns)."""
        raise NotImplementedError

    def forms(self, squares: Matrix) -> FloatArray:
        """x' spread x of each row of a sparse array, shape (m,)."""
        raise NotImplementedError

    def times(self, matrix: Matrix) -> FloatArray:
        """The spread times a sparse array, shape (n_cells, m)."""
        by_row, result = compressed(matrix), np.zeros(matrix.shape)
        for part in self._parts:
            result += self.columns(part) @ by_row[part]
        return result

    @property
    def _parts(self) -> Iterator[slice]:
        step = max(HELD // self.trace.size, 1)
        return (slice(first, first + step) for first in range(0, self.trace.size, step))

    def dof(self, contrasts: Matrix) -> FloatArray:
        """Satterthwaite degrees of freedom, one for each row of `contrasts` (m, n_cells)."""
        rows = compressed(contrasts)
        squares = with_entries(rows, rows.data**2)
        return ratio(np.asarray(squares @ self.trace) ** 2, self.forms(squares))

    def hotelling(self, contrasts: FloatArray) -> float:
        """eta of the approximate Hotelling test of `contrasts` (q, n_cells)."""
        q, scaled = contrasts.shape[0], whiten(contrasts, (contrasts * self.trace) @ contrasts.T)
        own, variance = np.sum(scaled**2, axis=0), 0.0
        for part in self._parts:
            products = scaled.T @ scaled[:, part]
            variance += float(np.sum((np.outer(own, own[part]) + products**2) * self.columns(part)))
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
        A, spread, own, trace = projected
        both = compressed(A[i].multiply(A[j]).tocsr() * (2 * c * d)[:, None])
        both.eliminate_zeros()
        if np.max(np.diff(both.indptr), initial=0) > 1:
            return None
        variance = c**4 * own[i, i] + d**4 * own[j, j] + 2 * c**2 * d**2 * own[i, j]
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
        return A, spread, np.asarray(Q @ spread), np.asarray(Q @ self.trace)


Projected = tuple[Matrix, FloatArray, FloatArray, FloatArray]
"""(n_contrasts, n_cells), (n_cells, n_contrasts), (n_contrasts, n_contrasts) and (n_contrasts,): see `project`."""


@dataclass(frozen=True, eq=False)
class CellLeverage(_OfCells):
    """What the leverages of cells say about contrasts, summed over clusters: its size is that of the cells alone."""

    trace: FloatArray
    # (n_cells, n_cells): sum over g of bb' - b(v^2)' - (v^2)b', plus the squared elements of the sum of vv'
    spread: Matrix

    @property
    def diagonal(self) -> FloatArray:
        """Of the spread."""
        return np.asarray(self.spread.diagonal(), dtype=np.float64)

    def columns(self, part: slice) -> FloatArray:
        """Some columns of the spread."""
        return dense(self.spread[:, part])

    def times(self, matrix: Matrix) -> FloatArray:
        """The spread times a sparse array."""
        return dense(self.spread @ matrix)

    def forms(self, squares: Matrix) -> FloatArray:
        """x' spread x of each row, some at a time."""
        if not mostly_there(squares):
            step = max(HELD // self.trace.size, 1)
            parts = (squares[first : first + step] for first in range(0, squares.shape[0], step))
            return np.concatenate([quadratic(part, self.spread) for part in parts])
        return quadratic(dense(squares), self.spread)


@dataclass(frozen=True, eq=False)
class FactoredLeverage(_OfCells):
    """The same where `spread` would be too large to hold: from the b and v of the clusters, (n_clusters, n_cells)."""

    trace: FloatArray
    b: Matrix
    v: Matrix

    @held_property
    def diagonal(self) -> FloatArray:
        """Of the spread."""
        v2 = with_entries(self.v, self.v.data**2)
        of_b = self.b.multiply(self.b - 2 * v2).sum(axis=0)
        return np.asarray(of_b + np.asarray(v2.sum(axis=0)) ** 2, dtype=np.float64).ravel()

    def columns(self, part: slice) -> FloatArray:
        """Some columns of the spread."""
        b, v, v2 = self._factors
        both = b.T @ (b[:, part] - v2[:, part]) - v2.T @ b[:, part]
        return np.asarray(both + (v.T @ v[:, part]) ** 2)

    @held_property
    def _factors(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        # Clusters that many cells share hold most of them.
        b, v = dense(self.b), dense(self.v)
        return b, v, v**2

    def forms(self, squares: Matrix) -> FloatArray:
        """x' spread x of each row, from what the clusters make of it."""
        found = np.empty(squares.shape[0])
        v2, step = with_entries(self.v, self.v.data**2), max(HELD // self.b.shape[0], 1)
        for first in range(0, found.size, step):
            part = squares[first : first + step]
            of_b, of_v = dense(part @ self.b.T), dense(part @ v2.T)
            found[first : first + step] = np.sum(of_b**2 - 2 * of_b * of_v, axis=1)
        columns = self.v.tocsc()
        for row in range(found.size):
            entries = slice(squares.indptr[row], squares.indptr[row + 1])
            # Sum over pairs of cells of x_k x_l (v_k'v_l)^2, by the smaller of the two products of v.
            scaled = dense(columns[:, squares.indices[entries]]) * np.sqrt(squares.data[entries])
            product = scaled @ scaled.T if scaled.shape[0] < scaled.shape[1] else scaled.T @ scaled
            found[row] += float(np.vdot(product, product))
        return found


@dataclass(frozen=True, eq=False)
class ClusterLeverage:
    """The leverages of a regression's clusters.

    Parameters
    ----------
    parts : tuple of ClusterPart
        Leverages of all clusters.
    root : ndarray, shape (n_coefficients, k)
        R, with RR' = M; without the directions that single clusters alone determine, whose leverage counts nothing.
    """

    parts: tuple[ClusterPart, ...]
    root: FloatArray
    # Columns of U_g: k, or those of the whole design where absorbed levels span clusters.
    width: int

    @property
    def n_clusters(self) -> int:
        """How many."""
        return sum(part.n_clusters for part in self.parts)

    def dof(self, contrasts: FloatArray) -> FloatArray:
        """Satterthwaite degrees of freedom, one for each row of `contrasts` (m, k)."""
        k = self.width
        step, found = max(2 * HELD // max(min(self.n_clusters, k) * k, 1), 16), list[FloatArray]()
        with Progress(contrasts.shape[0], unit="degrees of freedom") as progress:
            for first in range(0, contrasts.shape[0], step):
                found.append(self._dof(self.root.T @ contrasts[first : first + step].T))
                progress.advance(found[-1].size)
        return np.concatenate(found)

    def _dof(self, turned: FloatArray) -> FloatArray:
        """(sum_g d_g - u_g'u_g)^2 / (sum_g d_g^2 - 2 d_g u_g'u_g + |sum_g u_gu_g'|^2) of R'C', (k, m)."""
        k, m = self.width, turned.shape[1]
        expected, squares, few = np.zeros(m), np.zeros(m), self.n_clusters < k
        sums, held = np.zeros((0 if few else m, k, k)), list[FloatArray]()
        for part in self.parts:
            if isinstance(part, Narrow) and self._thin(part):
                for some, (d, uu, products) in entry_forms(part, turned, self._entries_root(part)):
                    expected[some] += (d - uu).sum(axis=0)
                    squares[some] += (d**2 - 2 * d * uu).sum(axis=0)
                    sums[some] += products
                continue
            for left, right, u in part.forms(turned):
                d, uu = np.einsum("gnm,gnm->gm", left, right), np.einsum("gkm,gkm->gm", u, u)
                expected += (d - uu).sum(axis=0)
                squares += (d**2 - 2 * d * uu).sum(axis=0)
                u = np.ascontiguousarray(np.moveaxis(u, 2, 0))
                if few:
                    held.append(u)
                else:
                    sums += np.swapaxes(u, 1, 2) @ u
        if few:  # of fewer clusters than columns UU' is the smaller, which has the sum of squares of U'U
            u = np.concatenate(held, axis=1)
            sums = u @ np.swapaxes(u, 1, 2)
        return ratio(expected**2, squares + np.einsum("mij,mij->m", sums, sums))

    def _entries_root(self, part: Narrow) -> FloatArray:
        assert part.clusters.entries is not None
        return np.asarray(part.clusters.entries.map @ part.root)

    def _thin(self, part: Narrow) -> bool:
        """Whether rows have so few entries that sparse products, at fifty times the price each, cost less."""
        if part.clusters.entries is None or self.n_clusters < self.root.shape[1]:
            return False
        sizes = np.diff(part.clusters.starts) * float(np.diff(part.clusters.entries.rows.indptr).mean())
        k, root = self.root.shape[1], self._entries_root(part)
        if 50 * float(sizes @ sizes) + 8 * k**3 > float(sizes.size) * k**2:
            return False
        # Sums of products of entries keep their digits when they are turned by such a root; units do not matter.
        return bool(np.linalg.cond(root / np.linalg.norm(root, axis=1)[:, None]) < LARGEST_CONDITION)

    def _forms(self, turned: FloatArray) -> Iterator[Forms]:
        return (forms for part in self.parts for forms in part.forms(turned))

    def hotelling(self, contrasts: FloatArray) -> float:
        """eta of the approximate Hotelling test of `contrasts` (q, k)."""
        q, k = contrasts.shape[0], self.width
        refuse_larger(
            2 * 8.0 * (q * k) ** 2,
            f"the degrees of freedom of a joint test of {q:,} contrasts of {k:,} coefficients",
            "Test fewer contrasts at a time.",
        )
        expected = np.zeros((q, q))
        for left, right, u in self._forms(self.root.T @ contrasts.T):
            expected += np.einsum("gns,gnt->st", left, right, optimize=True)
            expected -= np.einsum("gks,gkt->st", u, u, optimize=True)
        variance, products = 0.0, np.zeros((q * k, q * k))
        for left, right, u in self._forms(self.root.T @ whiten(contrasts, expected).T):
            d, uu = np.swapaxes(left, 1, 2) @ right, np.swapaxes(u, 1, 2) @ u
            traces = np.einsum("gss->g", d)
            variance += float(np.sum(traces**2) - 2 * np.sum(traces * np.einsum("gss->g", uu)))
            variance += float(np.sum(d * np.swapaxes(d, 1, 2)) - 2 * np.sum(d * np.swapaxes(uu, 1, 2)))
            flat = np.swapaxes(u, 1, 2).reshape(u.shape[0], q * k)
            products += flat.T @ flat
        pairs = products.reshape(q, k, q, k)
        variance += float(np.sum(pairs**2) + np.einsum("sitj,tisj->", pairs, pairs))
        return float(q * (q + 1) / variance)
