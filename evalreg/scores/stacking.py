"""Scores of two estimates together: side by side on the same rows, or one below the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray
from evalreg.data.clusters import Axis, Labels
from evalreg.errors import NotAvailableError
from evalreg.numerics.matrices import Matrix, compressed, dense
from evalreg.scores.base import ResidualSums, RowsInCells, Scores
from evalreg.scores.shared_rows import SharedRows
from evalreg.scores.sums import Block


@dataclass(frozen=True, eq=False)
class StackedScores(SharedRows):
    """Scores of two estimates of the same rows, in memory and in the same order, side by side."""

    first: Scores
    second: Scores
    stackable = True

    @property
    def whose(self) -> Scores:
        """Scores of the same rows."""
        return self.first

    def each(self, change: Callable[[Any], Any]) -> StackedScores:
        """The same with a change made to both."""
        return StackedScores(change(self.first), change(self.second))

    @property
    def n_columns(self) -> int:
        """Columns of both."""
        return self.first.n_columns + self.second.n_columns

    def cells(self, by: Axis) -> Iterator[Block]:
        """Sums within clusters of both, all clusters in one block."""
        yield Block(*(_beside(parts) for parts in zip(_whole(self.first, by), _whole(self.second, by), strict=True)))

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', shape (n_params, n_params)."""
        parts = self.in_cells()
        return meat_of_cell_rows(parts, bread) if by is None and len(parts) == 2 else super().meat(by, bread)

    def in_cells(self) -> tuple[RowsInCells, ...]:
        """The rows of each value in their cells."""
        first, second = self.first.in_cells(), self.second.in_cells()
        return (*first, *second) if first and second else ()

    @property
    def as_means(self) -> StackedScores:
        """The same scores as those of means, a row counting with its sampling weight."""
        return self.each(lambda scores: scores.as_means)

    def residual_sums(self, by: Axis) -> ResidualSums | None:
        """None: each estimate has residuals of its own."""
        return None

    @property
    def side_by_side(self) -> tuple[Scores, ...]:
        """Scores of each estimate."""
        return (*self.first.side_by_side, *self.second.side_by_side)

    def rows_in(self, columns: Matrix) -> FloatArray | None:
        """Rows in use in any column of each line: a row that both estimates use is one row."""
        parts, touched, first = self.in_cells(), compressed(columns), 0
        if not parts:
            # One of them uses all rows, or does not tell.
            split = self.first.n_columns
            both = _rows_of(self.first, touched[:, :split]) + _rows_of(self.second, touched[:, split:])
            return np.asarray(np.minimum(both, self.n_rows))
        kinds = np.column_stack([np.where(part.in_use, part.cell, -1) for part in parts])
        distinct, count = np.unique(kinds, axis=0, return_counts=True)
        used: Matrix = sparse.csr_array((touched.shape[0], count.size))
        for part, cell in zip(parts, distinct.T, strict=True):
            own = touched[:, first : first + part.n_cells] @ _indicator(cell, part.n_cells)
            used, first = used + own, first + part.n_cells
        return np.asarray(compressed(used).sign() @ count, dtype=np.float64)

    def same_rows(self) -> bool:
        """Whether both use the same rows of their data."""
        first, second = self._both_labels
        return np.array_equal(first.positions(), second.positions())

    def same_clusters(self, by: Axis) -> bool:
        """Whether both have their rows in the same clusters."""
        first, second = self._both_labels
        return np.array_equal(first.codes(by).codes, second.codes(by).codes)

    @property
    def _both_labels(self) -> tuple[Labels, Labels]:
        first, second = self.first.row_labels(), self.second.row_labels()
        assert first is not None
        assert second is not None
        return first, second


def _indicator(cell: IntArray, n_cells: int) -> Matrix:
    """One at (cell, place) of each place whose cell is not -1, shape (n_cells, n_places)."""
    place = np.flatnonzero(cell >= 0)
    return sparse.csr_array((np.ones(place.size), (cell[place], place)), (n_cells, cell.size))


def meat_of_cell_rows(parts: tuple[RowsInCells, ...], bread: Matrix) -> FloatArray:
    """Sum over rows of (B' s)(B' s)', each row having one score in either part: products summed by pairs of cells."""
    own = [np.bincount(part.cell, part.scores**2, part.n_cells) for part in parts]
    shape, cells = (parts[0].n_cells, parts[1].n_cells), (parts[0].cell, parts[1].cell)
    crossed = sparse.coo_array((parts[0].scores * parts[1].scores, cells), shape).tocsr()
    middle: Matrix = sparse.block_array(
        [[sparse.diags_array(own[0]), crossed], [crossed.T, sparse.diags_array(own[1])]], format="csr"
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
class ConcatScores(Scores):
    """Scores of two estimates of independent rows, one below the other; no cluster is shared."""

    first: Scores
    second: Scores

    @property
    def n_rows(self) -> int:
        """Rows of both."""
        return self.first.n_rows + self.second.n_rows

    @property
    def n_columns(self) -> int:
        """Columns of both."""
        return self.first.n_columns + self.second.n_columns

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of labels that both have."""
        return tuple(name for name in self.first.columns if name in self.second.columns)

    @property
    def has_source(self) -> bool:
        """Whether further columns can be looked up."""
        return self.first.has_source and self.second.has_source

    @property
    def as_means(self) -> ConcatScores:
        """The same scores as those of means, a row counting with its sampling weight."""
        return ConcatScores(self.first.as_means, self.second.as_means)

    @property
    def side_by_side(self) -> tuple[Scores, ...]:
        """Scores of each estimate."""
        return (*self.first.side_by_side, *self.second.side_by_side)

    def rows_in(self, columns: Matrix) -> FloatArray:
        """Rows in use in any column of each line: no row is of both estimates."""
        touched, split = compressed(columns), self.first.n_columns
        halves = ((self.first, touched[:, :split]), (self.second, touched[:, split:]))
        return np.asarray(sum(_rows_of(scores, own) for scores, own in halves))

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

    def cells(self, by: Axis) -> Iterator[Block]:
        """Sums within clusters, zero in the other's columns."""
        for scores, before, after in ((self.first, 0, self.second.n_columns), (self.second, self.first.n_columns, 0)):
            for block in scores.cells(by):
                gram = block.gram if sparse.issparse(block.gram) else None
                yield Block(
                    _padded(block.totals, before, after), None if gram is None else _padded(gram, before, after)
                )

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', shape (n_params, n_params)."""
        split = self.first.n_columns
        return self.first.meat(by, bread[:split]) + self.second.meat(by, bread[split:])

    def with_labels(self, more: dict[str, Any]) -> ConcatScores:
        """Refused: an array cannot say which rows it labels."""
        raise NotAvailableError("labels of concatenated estimates are columns that both hold; arrays cannot be added.")

    def detached(self) -> ConcatScores:
        """The same scores without the sources of further labels."""
        return ConcatScores(self.first.detached(), self.second.detached())


def _rows_of(scores: Scores, columns: Matrix) -> FloatArray:
    """Rows of a part that are in any column of each line; all of them where it does not tell."""
    found, parts = scores.rows_in(columns), scores.in_cells()
    if found is None and len(parts) == 1:
        own = parts[0]
        found = columns @ np.bincount(own.cell[own.in_use], minlength=own.n_cells)
    if found is None:
        found = scores.n_rows * np.asarray(abs(columns).sum(axis=1) > 0)
    return np.asarray(found, dtype=np.float64)


def _padded(matrix: Matrix, before: int, after: int) -> Matrix:
    """A matrix with empty columns on either side."""
    empty = [sparse.csr_array((matrix.shape[0], width)) for width in (before, after)]
    return sparse.hstack([empty[0], compressed(matrix), empty[1]]).tocsr()


def stack_scores(first: Scores, second: Scores) -> StackedScores:
    """Scores of the same rows side by side; refused where either lives in an engine."""
    if not (first.stackable and second.stackable):
        raise NotAvailableError("`stack` needs means, win rates or regressions whose rows are in memory.")
    return StackedScores(first, second)


def concat_scores(first: Scores, second: Scores) -> Scores:
    """Scores of independent rows, one below the other, with the columns and the clusters of both."""
    return ConcatScores(first, second)
