"""How far the sums of squares of an unbalanced design scatter where all effects are normal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.data.clusters import Codes, joint
from evalreg.planning.facets import FacetEffect

# Entries of square blocks that are held at a time.
BLOCK_ENTRIES = 1 << 19


@dataclass(frozen=True, eq=False)
class FacetCells:
    """Combinations of levels that occur, in groups that share no level of an inner effect.

    Products over inner effects are square blocks on the diagonal, one for each group. The outer effects, which join the
    groups, have few levels together.
    """

    counts: IntArray  # (n_cells,) rows of each
    levels: IntArray  # (n_effects, n_cells)
    inner: BoolArray  # (n_effects,)
    group: IntArray  # (n_cells,)
    outside: Codes  # joint levels of the outer effects
    work: float = field(init=False)  # multiplications of one product of all blocks and of the outer levels

    def __post_init__(self) -> None:
        sizes = np.array([*np.bincount(self.group), self.outside.n_clusters], dtype=np.float64)
        object.__setattr__(self, "work", float((sizes**3).sum()))


def cells_of(effects: Sequence[FacetEffect]) -> FacetCells:
    """The cells of a design, in the groups of one facet or all in one, whichever takes the fewest multiplications."""
    cell = joint([effect.codes for effect in effects])
    levels = np.array([effect.codes.codes[cell.first] for effect in effects])
    together = Codes(np.zeros(cell.n_clusters, dtype=np.intp), 1)
    found = [FacetCells(cell.counts, levels, np.ones(len(effects), dtype=bool), together.codes, together)]
    for place, effect in enumerate(effects):
        inner = np.array([effect.columns <= other.columns for other in effects])
        outer = [Codes(levels[k], effects[k].codes.n_clusters) for k in np.flatnonzero(~inner).tolist()]
        found.append(FacetCells(cell.counts, levels, inner, levels[place], joint(outer) if outer else together))
    return min(found, key=lambda cells: cells.work)


def variances_of_forms(
    cells: FacetCells, combinations: FloatArray, factors: Sequence[FloatArray], variance: FloatArray
) -> FloatArray:
    """Variances of combinations of quadratic forms |L_c'My|^2 of normal scores y, that of single rows last.

    M takes out the mean. A combination is y'MAMy with A = sum_c t_c L_c L_c', and its variance is 2 tr(A V A V) with
    V = M(sum_d s_d^2 Z_d Z_d')M: Searle, Casella and McCulloch (1992), Variance Components, appendix S. Written in
    cells, A is blocks B on the diagonal and U E U', V is blocks D and U F U'. Columns of U are the joint levels of the
    outer effects, and one that takes out the mean.

    Parameters
    ----------
    cells : FacetCells
        The design.
    combinations : ndarray, shape (n_combinations, n_effects + 1)
        Weights t of the forms.
    factors : sequence of ndarray, shape (n_levels,)
        Of each effect, the square of the entries of L at each level.
    variance : ndarray, shape (n_effects + 1,)
        Components s^2, none negative.

    Returns
    -------
    ndarray, shape (n_combinations,)
    """
    n, size = float(cells.counts.sum()), cells.outside.n_clusters + 1
    ones = [np.ones_like(factor) for factor in factors]
    single = np.zeros(variance.size)
    single[-1] = 1.0
    one, of_D = np.zeros((size, size)), np.zeros((size, size))
    for rows, D, U in _batches(cells, variance, ones):
        one += U.gram(_blocks(cells, rows, single, ones))
        of_D += U.gram(D)
    F = _mean_out(_outer(cells, variance, ones), one, n)
    traces = []
    for weights in combinations:
        trace, grams = 0.0, np.zeros((4, size, size))
        for rows, D, U in _batches(cells, variance, ones):
            B = _blocks(cells, rows, weights, factors)
            BD = B @ D
            trace += float(np.einsum("gij,gji->", BD, BD))
            for total, X in zip(grams, (B, BD, BD @ B, D @ BD), strict=True):
                total += U.gram(X)
        E = np.pad(_outer(cells, weights, factors), (0, 1))
        traces.append(trace + _words(E, F, [one, of_D, *grams]))
    # Scores of one cell differ from their mean by the error alone.
    within = (n - cells.counts.size) * (combinations[:, -1] * variance[-1]) ** 2
    return np.asarray(2.0 * (np.array(traces) + within))


def _words(E: FloatArray, F: FloatArray, grams: Sequence[FloatArray]) -> float:
    """tr((B + UEU')(D + UFU')(B + UEU')(D + UFU')) less tr(BDBD), of U'U, U'DU, U'BU, U'BDU, U'BDBU and U'DBDU."""
    one, D, B, BD, BDB, DBD = grams
    EoF, oF = E @ one @ F, one @ F
    ED, FB, EoFo = E @ D, F @ B, EoF @ one
    once = _trace(ED, ED) + _trace(FB, FB) + _trace(EoFo, EoFo)
    twice = _trace(E, DBD) + _trace(F, BDB) + _trace(EoFo, ED) + _trace(EoF.T @ oF, B)
    return once + 2.0 * twice + 4.0 * _trace(EoF, BD)


def _trace(left: FloatArray, right: FloatArray) -> float:
    """The trace of a product."""
    return float(np.sum(left * right.T))


def _mean_out(F: FloatArray, gram: FloatArray, n: float) -> FloatArray:
    """The outer part of M(D + UFU')M: that of V less m(Vm)' and (Vm)m', and m'Vm mm' more; m = Up, Vm = Dm + Ug."""
    p = np.full(F.shape[0], 1.0 / np.sqrt(n))
    sizes = gram[:-1, :-1]
    g = F @ sizes @ p
    along = p @ gram[:-1, -1] + p @ sizes @ g
    found = np.zeros_like(gram)
    found[:-1, :-1] = F - np.outer(p, g) - np.outer(g, p) + along * np.outer(p, p)
    found[:-1, -1] = found[-1, :-1] = -p
    return found


def _batches(
    cells: FacetCells, variance: FloatArray, ones: Sequence[FloatArray]
) -> Iterator[tuple[IntArray, FloatArray, OuterColumns]]:
    """Cells of groups of one size at a time, shape (n_groups, size), their blocks D, and their rows of U."""
    sizes = np.bincount(cells.group)
    order = np.argsort(cells.group, kind="stable")
    starts, mean = np.cumsum(sizes) - sizes, 1.0 / np.sqrt(cells.counts.sum())
    for size in np.unique(sizes):
        of = starts[sizes == size]
        step = max(BLOCK_ENTRIES // int(size) ** 2, 1)
        for first in range(0, of.size, step):
            rows = order[of[first : first + step, None] + np.arange(size)]
            D = _blocks(cells, rows, variance, ones)
            root = np.sqrt(cells.counts[rows])
            yield (
                rows,
                D,
                OuterColumns(root, cells.outside.codes[rows], mean * _times(D, root), cells.outside.n_clusters),
            )


def _blocks(cells: FacetCells, rows: IntArray, weights: FloatArray, factors: Sequence[FloatArray]) -> FloatArray:
    """The blocks of sum_c t_c L_c L_c' over the inner effects, and single rows, shape (n_groups, size, size)."""
    found = np.zeros((*rows.shape, rows.shape[1]))
    for c in np.flatnonzero(cells.inner).tolist():
        level = cells.levels[c, rows]
        found += np.where(level[:, :, None] == level[:, None, :], weights[c] * factors[c][level][:, :, None], 0.0)
    root = np.sqrt(cells.counts[rows])
    found *= root[:, :, None] * root[:, None, :]
    found[:, np.arange(rows.shape[1]), np.arange(rows.shape[1])] += weights[-1]
    return found


def _outer(cells: FacetCells, weights: FloatArray, factors: Sequence[FloatArray]) -> FloatArray:
    """The same between the joint levels of the outer effects, which cells enter by the roots of their rows."""
    first, size = cells.outside.first, cells.outside.n_clusters
    found = np.zeros((size, size))
    for c in np.flatnonzero(~cells.inner).tolist():
        level = cells.levels[c, first]
        found += np.where(level[:, None] == level, weights[c] * factors[c][level], 0.0)
    return found


@dataclass(frozen=True, eq=False)
class OuterColumns:
    """Rows of U, shape (n_groups, size): a number in one column, and one in the last, where the mean is taken out."""

    root: FloatArray
    column: IntArray
    last: FloatArray
    n_columns: int  # without the last

    def gram(self, X: FloatArray) -> FloatArray:
        """U'XU of blocks X."""
        k, found = self.n_columns, np.empty((self.n_columns + 1, self.n_columns + 1))
        place = self.column[:, :, None] * k + self.column[:, None, :]
        entries = self.root[:, :, None] * X * self.root[:, None, :]
        found[:k, :k] = np.bincount(place.ravel(), entries.ravel(), k * k).reshape(k, k)
        right, left = _times(X, self.last), _times(X.swapaxes(1, 2), self.last)
        found[:k, k] = np.bincount(self.column.ravel(), (self.root * right).ravel(), k)
        found[k, :k] = np.bincount(self.column.ravel(), (self.root * left).ravel(), k)
        found[k, k] = np.sum(self.last * right)
        return found


def _times(X: FloatArray, vectors: FloatArray) -> FloatArray:
    return np.asarray((X @ vectors[:, :, None])[:, :, 0])
