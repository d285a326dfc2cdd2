"""Scores that are linear in the sums of cells: of what an estimate solves for, where that is not the cells' means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray
from evalreg.data.clusters import Axis
from evalreg.numerics.basis import FewEntries
from evalreg.numerics.matrices import Matrix, compressed, dense, row_products, scale_rows, square, sum_blocks
from evalreg.scores.base import ColumnSums, RowsInCells, Scores
from evalreg.scores.engine import EngineScores
from evalreg.scores.shared_rows import SharedRows
from evalreg.scores.sums import Block, NarrowClusters

# Clusters whose (columns, columns) grams are held at a time.
GRAM_ENTRIES = 1 << 24


@dataclass(frozen=True, eq=False)
class Information:
    """What a row of unit weight in each cell adds to X'WX; a sum of squares x x' and its x are held together."""

    # Flattened, (n_cells, n_columns ** 2).
    flat: Matrix
    # The x, (n_cells, n_columns); None where it has more parts, or is not known.
    factor: Matrix | None = None


@dataclass(frozen=True, eq=False)
class MappedScores(SharedRows):
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
    def whose(self) -> Scores:
        """Scores of the same rows."""
        return self.inner

    def each(self, change: Callable[[Any], Any]) -> MappedScores:
        """The same with a change made to the residuals."""
        return replace(self, inner=change(self.inner))

    @property
    def n_columns(self) -> int:
        """Columns of the scores."""
        return int(self.design.shape[1])

    def sums_in_cells(self, by: Axis) -> Iterator[Block]:
        """Sums within clusters in the cells themselves, before they are mapped."""
        return self.inner.cells(by)

    def cells(self, by: Axis) -> Iterator[Block]:
        """Sums within clusters, in blocks of whole clusters."""
        for block in self.inner.cells(by):
            totals, weight = self._totals(block), self._weights(block)
            if self.information is None:
                gram = None if self.counted is None else compressed(weight @ self.counted)
                yield Block(totals, gram)
            else:
                yield from self._grams(totals, weight, self.information.flat)

    def column_sums(self, by: Axis, size: Matrix, total: Matrix, shift: Matrix | None = None) -> ColumnSums:
        """What clusters hold of some columns, asked of the cells that these are made of."""
        if self.counted is None or not self._maps:
            return super().column_sums(by, size, total, shift)
        moved = [] if self.offset is None else [self.offset @ total]
        moved += [] if shift is None else [self.counted @ shift]
        return self.inner.column_sums(
            by, self.counted @ size, self.design @ total, compressed(sum(moved[1:], moved[0])) if moved else None
        )

    @property
    def _maps(self) -> tuple[Matrix, ...]:
        """What a unit of weight, and of residual, in each cell is of each column; none where columns share more."""
        if self.counted is None or self.information is not None or self.inner.n_columns != self._n_cells:
            return ()
        return (self.counted, self.design) if self.offset is None else (self.counted, self.design, self.offset)

    def sparse_grams(self, by: Axis) -> tuple[FloatArray, Matrix]:
        """Sums of all clusters, (n_clusters, n_columns), and their X_g'W X_g, flattened: few entries a cluster."""
        assert self.information is not None
        blocks = list(self.inner.cells(by))
        grams = [compressed(self._weights(block)) @ self.information.flat for block in blocks]
        return np.concatenate([dense(self._totals(block)) for block in blocks]), sparse.vstack(grams).tocsr()

    def _grams(self, totals: Matrix, weight: Matrix, flat: Matrix) -> Iterator[Block]:
        """Sums of some clusters with their X_g'W X_g, from the weights of their cells."""
        n_columns = self.n_columns
        size = max(GRAM_ENTRIES // n_columns**2, 1)
        for first in range(0, weight.shape[0], size):
            part = slice(first, first + size)
            gram = dense(weight[part] @ flat).reshape(-1, n_columns, n_columns)
            yield Block(dense(totals[part]), gram)

    def narrow(self, by: Axis) -> Iterator[tuple[NarrowClusters | None, Iterator[Block]]]:
        """Of some clusters at a time, those of fewer cells than columns, if any, and blocks of the others."""
        if self.information is None or self.information.factor is None:
            yield None, self.cells(by)
            return
        flat, factor = self.information.flat, compressed(self.information.factor)
        size, before = max(GRAM_ENTRIES // (8 * self.n_columns), 1), 0
        for block in self.inner.cells(by):
            totals, weight = compressed(self._totals(block)), compressed(self._weights(block))
            for first in range(0, weight.shape[0], size):
                part = slice(first, first + size)
                yield self._narrow(before + first, totals[part], weight[part], flat, factor)
            before += weight.shape[0]

    def _narrow(
        self, before: int, totals: Matrix, weight: Matrix, flat: Matrix, factor: Matrix
    ) -> tuple[NarrowClusters | None, Iterator[Block]]:
        few = np.diff(weight.indptr) < self.n_columns
        if not few.any():
            return None, self._grams(totals, weight, flat)
        own = weight[few]
        rows = sparse.diags_array(np.sqrt(own.data)).tocsr() @ factor[own.indices]
        which = before + np.flatnonzero(few)
        places, starts, entries = (
            np.arange(own.nnz),
            own.indptr.astype(np.intp),
            FewEntries(rows, np.eye(self.n_columns)),
        )
        narrow = NarrowClusters(rows, dense(totals[few]), places, starts, which, entries)
        return narrow, self._grams(totals[~few], weight[~few], flat)

    def _weights(self, block: Block) -> Matrix:
        """Weights of the cells: those of the first value, where rows have several."""
        assert block.gram is not None
        n_cells = self._n_cells
        return block.gram if block.gram.shape[1] == n_cells else compressed(block.gram)[:, :n_cells]

    @property
    def _n_cells(self) -> int:
        flat = None if self.information is None else self.information.flat
        for matrix in (self.offset, flat, self.counted):
            if matrix is not None:
                return int(matrix.shape[0])
        return int(self.design.shape[0])

    def _totals(self, block: Block) -> Matrix:
        totals = block.totals @ self.design
        return totals if self.offset is None else totals + self._weights(block) @ self.offset

    def uncancelled(self, bread: Matrix) -> FloatArray | None:
        """Bounds of the sums of squares of the influence of rows if its parts did not cancel."""
        reach = dense(abs(compressed(self.design)) @ np.abs(dense(bread))) ** 2
        if isinstance(self.inner, EngineScores):
            return np.asarray(self.inner.squares_of_size() @ reach)
        parts = self.inner.in_cells()
        if not parts:
            return None
        # A row's score is its value less what is fitted.
        squares = np.concatenate([_squares_of_parts(part) for part in parts])
        if self.offset is None:
            return np.asarray(len(parts) * (squares @ reach))
        beyond = dense(abs(compressed(self.offset)) @ np.abs(dense(bread))) ** 2
        weights = np.bincount(parts[0].cell, parts[0].weight ** 2, minlength=self._n_cells)
        return np.asarray((len(parts) + 1) * (squares @ reach + weights @ beyond))

    def leverage_sums(self, by: Axis, root: FloatArray) -> FloatArray | None:
        """Sum of the leverages of the rows of each cluster, shape (n_clusters,); None without a design."""
        if self.information is None:
            return None
        leverage = np.asarray(self.information.flat @ (root @ root.T).ravel())
        return np.concatenate([np.asarray(self._weights(block) @ leverage) for block in self.inner.cells(by)])

    def dominant(self, by: Axis | None, root: FloatArray, above: float) -> Iterator[tuple[FloatArray, None]]:
        """Leverage matrices L_g of the clusters (or rows) whose leverages add up to more than that."""
        assert self.information is not None
        flat = self.information.flat
        leverage = np.asarray(flat @ (root @ root.T).ravel())
        for weight in [self._heaviest_rows()] if by is None else map(self._weights, self.inner.cells(by)):
            for found in np.flatnonzero(weight @ leverage > above):
                yield root.T @ dense(weight[[found]] @ flat).reshape(root.shape) @ root, None

    def influence_powers(self, by: Axis, bread: Matrix) -> FloatArray:
        """Sums over clusters of u^2 and u^4, u being the influence of a cluster by each column; shape (2, m)."""
        if self.offset is not None:
            return super().influence_powers(by, bread)
        return self.inner.influence_powers(by, compressed(self.design @ bread))

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
        first, second = dense(self.design @ bread), dense(self.offset @ bread)
        cross = first.T @ (sw[:, None] * second)
        return np.asarray(first.T @ (ss[:, None] * first) + cross + cross.T + second.T @ (ww[:, None] * second))

    def row_influence(self, bread: Matrix) -> FloatArray:
        """Influence of each row, shape (n_rows, n_params)."""
        total = np.zeros((self.n_rows, bread.shape[1]))
        first, parts = 0, self.inner.in_cells()
        if not parts:
            return self.inner.row_influence(self.design @ bread)
        for part in parts:
            mapped = dense(self.design[first : first + part.n_cells] @ bread)
            total += part.scores[:, None] * mapped[part.cell]
            first += part.n_cells
        if self.offset is not None:
            total += parts[0].weight[:, None] * dense(self.offset @ bread)[parts[0].cell]
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


def _squares_of_parts(rows: RowsInCells) -> FloatArray:
    """Sum over the rows of each cell of the square of what a score is the difference of, shape (n_cells,)."""
    value = rows.weight * rows.values
    size = np.abs(value) + np.abs(value - rows.scores)
    return np.asarray(np.bincount(rows.cell, size**2, minlength=rows.n_cells))
