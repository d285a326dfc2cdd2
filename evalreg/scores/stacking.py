"""Scores made of other scores: two estimates together, strata whose shares are estimated, and maps of cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray, Names
from evalreg.data.clusters import Axis, Labels, axis_name
from evalreg.errors import ArgumentError, NotAvailableError
from evalreg.numerics.limits import HELD
from evalreg.numerics.matrices import (
    Matrix,
    absolute_entries,
    compressed,
    dense,
    faster_dense,
    parts_of,
    row_products,
    scale_columns,
    scale_rows,
    square,
    squared_entries,
    sum_blocks,
)
from evalreg.scores.base import (
    EVERY_ROW,
    Block,
    Blocks,
    CellScores,
    ColumnSums,
    NarrowClusters,
    RowsInCells,
    Scores,
    extremes,
)


@dataclass(frozen=True, eq=False)
class TwoScores(Scores):
    """Scores of two estimates, the columns of the second after those of the first."""

    first: Scores
    second: Scores

    @property
    def n_columns(self) -> int:
        """Columns of both."""
        return self.first.n_columns + self.second.n_columns

    @property
    def side_by_side(self) -> tuple[Scores, ...]:
        """Scores of each estimate."""
        return (*self.first.side_by_side, *self.second.side_by_side)

    @property
    def as_means(self) -> Self:
        """The same scores as those of means, a row counting with its sampling weight."""
        return self.each(lambda scores: scores.as_means)

    def rows_in(self, columns: Matrix) -> FloatArray:
        """Rows in use in any column of each line; of the same rows no more than there are."""
        touched, split = compressed(columns), self.first.n_columns
        both = _rows_of(self.first, touched[:, :split]) + _rows_of(self.second, touched[:, split:])
        return np.minimum(both, self.n_rows)


@dataclass(frozen=True, eq=False)
class StackedScores(TwoScores):
    """Scores of two estimates of the same rows, in memory and in the same order, side by side."""

    stackable = True

    def cells(self, by: Axis) -> Blocks:
        """Sums within clusters of both, all clusters in one block."""
        first, second = (labels.codes(by) for labels in self._both_labels)
        if not first.same(second):
            raise ArgumentError(
                f"stacked results must have their rows in the same clusters; the labels of {axis_name(by)!r} are not "
                "those of the same rows in both. Sort both alike, or pass estimates of independent rows to `concat`."
            )
        yield Block(*(_beside(parts) for parts in zip(_whole(self.first, by), _whole(self.second, by), strict=True)))

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', shape (n_params, n_params)."""
        parts = (*self.first.squared_parts(), *self.second.squared_parts()) if by is None else ()
        return meat_of_cell_rows(parts, bread) if len(parts) == 2 else super().meat(by, bread)

    def heaviest_rows(self) -> FloatArray:
        """The largest weight of a row in each cell."""
        return self.first.heaviest_rows()

    def in_cells(self) -> tuple[RowsInCells, ...]:
        """The rows of each value in their cells."""
        first, second = self.first.in_cells(), self.second.in_cells()
        return (*first, *second) if first and second else ()

    def row_influence(self, bread: Matrix) -> FloatArray:
        """Influence of each row on both."""
        k = self.first.n_columns
        return self.first.row_influence(bread[:k]) + self.second.row_influence(bread[k:])

    def rows_in(self, columns: Matrix) -> FloatArray:
        """Rows in use in any column of each line: a row that both estimates use is one row."""
        parts = self.in_cells()
        if not parts:  # One of them uses all rows, or does not tell.
            return super().rows_in(columns)
        touched = np.split(dense(columns) > 0, np.cumsum([part.n_cells for part in parts])[:-1], axis=1)
        counts = np.zeros(columns.shape[0])
        for line, cells in enumerate(zip(*touched, strict=True)):
            used = [inside[part.cell] & part.in_use for inside, part in zip(cells, parts, strict=True)]
            counts[line] = np.count_nonzero(np.any(used, axis=0))
        return counts

    def same_rows(self) -> bool:
        """Whether both use the same rows of their data, in one order as far as an index tells."""
        first, second = self._both_labels
        if first.index is not None and second.index is not None and not first.index.equals(second.index):
            return False
        return np.array_equal(first.positions(), second.positions())

    @property
    def _both_labels(self) -> tuple[Any, Any]:
        return self.first.row_labels(), self.second.row_labels()


def meat_of_cell_rows(parts: tuple[RowsInCells, ...], bread: Matrix) -> FloatArray:
    """Sum over rows of (B' s)(B' s)', each row having one score in either part: products summed by pairs of cells."""
    squares = [np.bincount(part.cell, part.scores**2, part.n_cells) for part in parts]
    shape, cells = (parts[0].n_cells, parts[1].n_cells), (parts[0].cell, parts[1].cell)
    crossed = sparse.coo_array((parts[0].scores * parts[1].scores, cells), shape).tocsr()
    middle: Matrix = sparse.block_array(
        [[sparse.diags_array(squares[0]), crossed], [crossed.T, sparse.diags_array(squares[1])]], format="csr"
    )
    return dense(bread.T @ (middle @ bread))


def _whole(scores: Scores, by: Axis) -> tuple[Matrix, Matrix | None]:
    """Totals and grams of all clusters; grams that have no diagonal form are left out."""
    blocks = list(scores.cells(by))
    sparse_grams = all(sparse.issparse(block.gram) for block in blocks)
    if len(blocks) == 1:
        return blocks[0].totals, blocks[0].gram if sparse_grams else None
    totals = sparse.vstack([compressed(block.totals) for block in blocks])
    return totals, sparse.vstack([compressed(block.gram) for block in blocks]) if sparse_grams else None


def _beside(parts: tuple[Matrix | None, Matrix | None]) -> Matrix | None:
    if parts[0] is None or parts[1] is None:
        return None
    return sparse.hstack([compressed(part) for part in parts]).tocsr()


@dataclass(frozen=True, eq=False)
class ConcatScores(TwoScores):
    """Scores of two estimates of independent rows, one below the other; no cluster is shared."""

    @property
    def n_rows(self) -> int:
        """Rows of both."""
        return self.first.n_rows + self.second.n_rows

    @property
    def columns(self) -> Names:
        """Columns of labels that both have."""
        return tuple(name for name in self.first.columns if name in self.second.columns)

    @property
    def has_source(self) -> bool:
        """Whether further columns can be looked up."""
        return self.first.has_source and self.second.has_source

    def n_clusters(self, by: Axis) -> int:
        """Clusters of both."""
        return self.first.n_clusters(by) + self.second.n_clusters(by)

    def sizes(self, by: Axis) -> FloatArray:
        """Weight of each cluster, shape (n_clusters,)."""
        return np.concatenate([self.first.sizes(by), self.second.sizes(by)])

    def label(self, by: Axis, code: int) -> str:
        """Label of one cluster."""
        n_first = self.first.n_clusters(by)
        return self.first.label(by, code) if code < n_first else self.second.label(by, code - n_first)

    def cells(self, by: Axis) -> Blocks:
        """Sums within clusters, zero in the other's columns."""
        for scores, before, after in ((self.first, 0, self.second.n_columns), (self.second, self.first.n_columns, 0)):
            for block in scores.cells(by):
                gram = _padded(block.gram, before, after) if sparse.issparse(block.gram) else None
                yield Block(_padded(block.totals, before, after), gram)

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', shape (n_params, n_params)."""
        split = self.first.n_columns
        return self.first.meat(by, bread[:split]) + self.second.meat(by, bread[split:])

    def with_labels(self, more: dict[str, Any]) -> ConcatScores:
        """Refused: an array cannot say which rows it labels."""
        raise NotAvailableError("labels of concatenated estimates are columns that both hold; arrays cannot be added.")

    def relabelled(self, change: Callable[[Labels], Labels]) -> Scores:
        """Refused: rows have the labels of two tables."""
        raise NotAvailableError("labels of rows can be changed only where the rows are in memory.")

    def row_labels(self) -> None:
        """None: rows are of two tables."""

    def homes(self, item: Axis, by: Axis) -> None:
        """None: questions are of two tables."""


def _rows_of(scores: Scores, columns: Matrix) -> FloatArray:
    """Rows of a part that are in any column of each line; all of them where it does not tell."""
    counts, parts = scores.rows_in(columns), scores.in_cells()
    if counts is None and len(parts) == 1:
        part = parts[0]
        counts = columns @ np.bincount(part.cell[part.in_use], minlength=part.n_cells)
    if counts is None:
        counts = scores.n_rows * np.asarray(abs(columns).sum(axis=1) > 0)
    return np.asarray(counts, dtype=np.float64)


def _padded(matrix: Matrix, before: int, after: int) -> Matrix:
    """A matrix with empty columns on either side."""
    empty = [sparse.csr_array((matrix.shape[0], width)) for width in (before, after)]
    return sparse.hstack([empty[0], compressed(matrix), empty[1]]).tocsr()


@dataclass(frozen=True, eq=False)
class SampledShares(Scores):
    """Scores of means over strata whose clusters are drawn, so that the shares of the strata are estimated too.

    The total of cluster g in stratum k is sum (y - ybar), less its mean over the G_k clusters of the stratum:
    T_gk + (n_gk - n_k/G_k)(ybar_k - ybar). Clusters are the units, and have the leverage 1/G_k.

    Parameters
    ----------
    inner : Scores
        Residuals y - ybar_k of the rows in their cells.
    away : ndarray, shape (n_cells,)
        ybar_k - ybar.
    weight : ndarray, shape (n_cells,)
        n_k.

    References
    ----------
    Cochran (1977), Sampling Techniques, sections 5A and 6.12; Lumley (2004), J. Statistical Software 9(8).
    """

    inner: Scores
    away: FloatArray
    weight: FloatArray

    @property
    def n_columns(self) -> int:
        """Cells."""
        return self.inner.n_columns

    def cells(self, by: Axis) -> Blocks:
        """Centred totals of clusters, and n_k/G_k for each cell that a cluster is in."""
        blocks = [(compressed(block.totals), compressed(block.gram)) for block in self.inner.cells(by)]
        clusters = sum((gram > 0).sum(axis=0) for _, gram in blocks)
        typical = self.weight / np.maximum(clusters, 1)
        for totals, gram in blocks:
            unit = sparse.csr_array((gram > 0).astype(float))
            even = scale_columns(unit, typical)
            yield Block(compressed(totals + scale_columns(gram - even, self.away)), even)

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum of squares of the centred totals, mapped by the bread; rows are units alike."""
        return self.inner.meat(None, bread) if by is None else super().meat(by, dense(bread))

    def row_influence(self, bread: Matrix) -> FloatArray:
        """Refused: a row has none."""
        raise NotAvailableError(
            "rows have no influence of their own where the shares of strata are estimated, since clusters are the "
            "units; name a clustering in `by`."
        )


@dataclass(frozen=True, eq=False)
class Information:
    """What a row of unit weight in each cell adds to X'WX; a sum of squares x x' and its x are held together."""

    # Flattened, (n_cells, n_columns ** 2).
    flat: Matrix
    # The x, (n_cells, n_columns); None where it has more parts, or is not known.
    factor: Matrix | None = None


@dataclass(frozen=True, eq=False)
class MappedScores(Scores):
    """Scores T = R A + N B of each cluster, R its sums of residuals and N its weights in the cells.

    A design that is the same for all rows of a cell (a pair of models) makes the score of a row its residual times that
    design. What depends on how often a cell is seen, as a mean over a random schedule does, comes in by B.
    """

    # Residuals of the rows in their cells; stacked where rows have several values.
    inner: Scores
    # A, (n_inner, n_columns).
    design: Matrix
    # B, (n_cells, n_columns).
    offset: Matrix | None = None
    # None where it is diagonal.
    information: Information | None = None
    # The diagonal of it, (n_cells, n_columns), where that is all there is.
    counted: Matrix | None = None

    mapped = True

    @property
    def n_columns(self) -> int:
        """Columns of the scores."""
        return int(self.design.shape[1])

    def sums_in_cells(self, by: Axis) -> Blocks:
        """Sums within clusters in the cells themselves, before they are mapped."""
        return self.inner.cells(by)

    def cells(self, by: Axis) -> Blocks:
        """Sums within clusters, in blocks of whole clusters."""
        for block in self.inner.cells(by):
            totals, weight = self._totals(block), self._weights(block)
            if self.information is None:
                gram = None if self.counted is None else compressed(weight @ self.counted)
                yield Block(totals, gram)
            else:
                yield from self._grams(totals, weight, self.information.flat)

    def column_sums(self, by: Axis, columns: Matrix) -> ColumnSums:
        """The weight of clusters in some columns, asked of the cells that these are made of."""
        if self.counted is None or self.information is not None or self.inner.n_columns != self._n_cells:
            return super().column_sums(by, columns)
        return self.inner.column_sums(by, self.counted @ columns)

    def sparse_grams(self, by: Axis) -> tuple[FloatArray, Matrix]:
        """Sums of all clusters, (n_clusters, n_columns), and their X_g'W X_g, flattened: few entries a cluster."""
        assert self.information is not None
        blocks = list(self.inner.cells(by))
        grams = [compressed(self._weights(block)) @ self.information.flat for block in blocks]
        return np.concatenate([dense(self._totals(block)) for block in blocks]), sparse.vstack(grams).tocsr()

    def _grams(self, totals: Matrix, weight: Matrix, flat: Matrix) -> Blocks:
        """Sums of some clusters with their X_g'W X_g, from the weights of their cells."""
        n_columns = self.n_columns
        for part in parts_of(weight.shape[0], max(HELD // n_columns**2, 1)):
            gram = dense(weight[part] @ flat).reshape(-1, n_columns, n_columns)
            yield Block(dense(totals[part]), gram)

    def narrow(self, by: Axis) -> Iterator[tuple[NarrowClusters | None, Blocks]]:
        """Of some clusters at a time, those of fewer cells than columns, if any, and blocks of the others."""
        if self.information is None or self.information.factor is None:
            yield None, self.cells(by)
            return
        flat, factor = self.information.flat, compressed(self.information.factor)
        before = 0
        for block in self.inner.cells(by):
            totals, weight = compressed(self._totals(block)), compressed(self._weights(block))
            for part in parts_of(weight.shape[0], max(HELD // (8 * self.n_columns), 1)):
                yield self._narrow(before + part.start, totals[part], weight[part], flat, factor)
            before += weight.shape[0]

    def _narrow(
        self, before: int, totals: Matrix, weight: Matrix, flat: Matrix, factor: Matrix
    ) -> tuple[NarrowClusters | None, Blocks]:
        few = np.diff(weight.indptr) < self.n_columns
        if not few.any():
            return None, self._grams(totals, weight, flat)
        part = weight[few]
        rows = sparse.diags_array(np.sqrt(part.data)).tocsr() @ factor[part.indices]
        which = before + np.flatnonzero(few)
        narrow = NarrowClusters(rows, dense(totals[few]), np.arange(part.nnz), part.indptr.astype(np.intp), which)
        return narrow, self._grams(totals[~few], weight[~few], flat)

    def _weights(self, block: Block) -> Matrix:
        """Weights of the cells: those of the first value, where rows have several."""
        n_cells = self._n_cells
        return block.gram if block.gram.shape[1] == n_cells else compressed(block.gram)[:, :n_cells]

    @property
    def _n_cells(self) -> int:
        flat = self.information.flat if self.information else None
        matrices = (self.offset, flat, self.counted, self.design)
        return next(int(matrix.shape[0]) for matrix in matrices if matrix is not None)

    def _totals(self, block: Block) -> Matrix:
        totals = block.totals @ self.design
        return totals if self.offset is None else totals + self._weights(block) @ self.offset

    def uncancelled(self, bread: Matrix) -> FloatArray:
        """Bounds of the sums of squares of the influence of rows if its parts did not cancel; scores are in [0, 1]."""
        size = absolute_entries(bread)
        weights = [part.row_moments()[2] for part in self.inner.side_by_side]
        squares = np.concatenate(weights) @ squared_entries(absolute_entries(self.design) @ size)
        if self.offset is not None:
            squares = squares + weights[0] @ squared_entries(absolute_entries(self.offset) @ size)
        return np.asarray(4.0 * squares)

    def squares_by_cluster(self, by: Axis, maps: FloatArray) -> FloatArray | None:
        """Diagonal of R'X_g'W X_g R of each cluster, from the weights of its cells; None without a design."""
        if self.information is None:
            return None
        of_cells = self.information.flat @ np.einsum("im,jm->ijm", maps, maps).reshape(-1, maps.shape[1])
        return np.concatenate([dense(self._weights(block) @ of_cells) for block in self.inner.cells(by)])

    def dominant(self, by: Axis | None, root: FloatArray, above: float) -> Iterator[tuple[FloatArray, None]]:
        """Leverage matrices L_g of the clusters (or rows) whose leverages add up to more than that."""
        assert self.information is not None
        flat = self.information.flat
        leverage = np.asarray(flat @ (root @ root.T).ravel())
        for weight in [self._heaviest_rows()] if by is None else map(self._weights, self.inner.cells(by)):
            for row in np.flatnonzero(weight @ leverage > above):
                yield root.T @ dense(weight[[row]] @ flat).reshape(root.shape) @ root, None

    def _heaviest_rows(self) -> Matrix:
        """The largest weight of a row in each cell, as rows of their own; shape (n_cells, n_cells)."""
        weight = self.inner.heaviest_rows()[: self._n_cells]
        return sparse.diags_array(weight).tocsr()

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', shape (n_params, n_params)."""
        if by is not None:
            return sum_blocks(square(self._totals(block), bread) for block in self.inner.cells(by))
        if self.offset is None:
            return self.inner.meat(None, self.design @ bread)
        # A row's score is its residual times a row of A plus its weight times a row of B: squares of both by cell.
        ss, sw, ww = self.inner.row_moments()
        mapped = [part @ compressed(bread) for part in (self.design, self.offset)]
        first, second = (dense(part) if faster_dense(part) else part for part in mapped)
        cross = first.T @ scale_rows(second, sw)
        squares = first.T @ scale_rows(first, ss) + second.T @ scale_rows(second, ww)
        return dense(squares + cross + cross.T)

    def row_influence(self, bread: Matrix) -> FloatArray:
        """Influence of each row, shape (n_rows, n_params)."""
        total = self.inner.row_influence(dense(self.design @ bread))
        if self.offset is not None:
            rows = self.inner.in_cells()[0]
            total = total + rows.weight[:, None] * dense(self.offset @ bread)[rows.cell]
        return total


def squared(design: FloatArray | Matrix, weight: FloatArray) -> Information:
    """Information of rows of unit weight, w x x', and its factor."""
    factor = scale_rows(compressed(design), np.sqrt(weight))
    return Information(flattened(design, weight), factor)


def flattened(design: FloatArray | Matrix, weight: FloatArray) -> Matrix:
    """Information of rows of unit weight, w x x', flattened to (n_cells, p ** 2)."""
    rows = compressed(design)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return scale_rows(row_products(rows, rows), weight)


GONE = "a log of sums no longer has its rows: {what} needs them. Take the log itself."


@dataclass(frozen=True, eq=False, kw_only=True)
class SummedPairScores(CellScores):
    """Scores of lines that comparisons were summed to: `values` are means of lines, `weights` their sums of weights.

    What clusters need is exact; what needs single rows is refused. All arrays have shape (n_lines,).
    """

    stackable: ClassVar[bool] = False
    cell: IntArray
    weights: FloatArray
    # Rows of each line, and the sum over them of w (value - mean of the line)^2.
    count: FloatArray
    within: FloatArray
    # Sums over the rows of each line of w^2, the mean of the values with these weights, and squares about it.
    weight2: FloatArray
    mean2: FloatArray
    within2: FloatArray
    # The largest weight of a row of each line.
    heaviest: FloatArray

    @property
    def n_rows(self) -> int:
        """Comparisons that were summed."""
        return int(self.count.sum())

    def row_squares(self) -> FloatArray:
        """Sums over the rows of each cell of the squares of their scores."""
        return self.row_moments()[0]

    def row_moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sums over the rows of each cell of s^2, s w and w^2."""
        w2, away = self.weight2, self.mean2 - self.fitted[self.cell]
        lines = self.within2 + w2 * away**2, w2 * away, w2
        ss, sw, ww = (np.bincount(self.cell, numbers, self.n_columns).astype(float, copy=False) for numbers in lines)
        return ss, sw, ww

    def squares_in_cells(self, by: Axis) -> Matrix:
        """Sums of w e^2 within (cluster, cell)."""
        codes = self.labels.codes(by)
        within = sparse.coo_array((self.within, (codes.codes, self.cell)), (codes.n_clusters, self.n_columns))
        return super().squares_in_cells(by) + within.tocsr()

    def heaviest_rows(self) -> FloatArray:
        """The largest weight of a row in each cell."""
        return extremes(self.cell, self.heaviest, self.heaviest, self.n_columns)[1]

    def turned(self, which: BoolArray, cell: IntArray, fitted: FloatArray) -> SummedPairScores:
        """The same lines in other cells, some as scores of the other side."""
        values, mean2 = (np.where(which, 1.0 - mean, mean) for mean in (self.values, self.mean2))
        return replace(self, values=values, mean2=mean2, cell=cell, fitted=fitted)

    def in_cells(self) -> tuple[RowsInCells, ...]:
        """No rows are known."""
        return ()

    def squared_parts(self) -> tuple[RowsInCells, ...]:
        """The lines, where the rows of each are alike."""
        scores = np.sqrt(self.weight2) * (self.values - self.fitted[self.cell])
        alike = not self.within.any()
        return (RowsInCells(self.values, scores, self.cell, self.weights, self.n_columns),) if alike else ()

    def row_influence(self, bread: Matrix) -> FloatArray:
        """Refused: there are no rows."""
        raise NotAvailableError(GONE.format(what="influence of single rows") + " Or name a clustering in `by`.")

    def with_labels(self, more: dict[str, Any]) -> CellScores:
        """Refused: labels given as arrays follow rows."""
        raise NotAvailableError(GONE.format(what="labels given as arrays"))

    def relabelled(self, change: Callable[[Labels], Labels]) -> CellScores:
        """The same scores with the labels of their lines changed; rows cannot be told apart."""
        labels = change(self.labels)
        if EVERY_ROW[0] in labels.held:
            raise NotAvailableError(GONE.format(what="the leverage of single rows"))
        return replace(self, labels=labels)


def beside_ties(rows: CellScores, tie: FloatArray, fitted: FloatArray) -> StackedScores:
    """Scores of verdicts and of whether each is a tie, side by side; `fitted` is the share of ties of each cell.

    Lines of sums are of one outcome each.
    """
    if not isinstance(rows, SummedPairScores):
        return StackedScores(rows, CellScores(tie, fitted, rows.labels, rows.cell, rows.weights))
    return StackedScores(rows, replace(rows, values=tie, mean2=tie, fitted=fitted))
