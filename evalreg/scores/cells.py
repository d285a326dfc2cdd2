"""Scores of means of cells: of the rows themselves, and of lines that were summed from rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray, held_property
from evalreg.data.clusters import TABLE_PER_ROW, Axis, Codes, Labels
from evalreg.errors import NotAvailableError
from evalreg.numerics.matrices import Matrix, dense, in_rows, of_sorted, single_column, sum_blocks, white
from evalreg.scores.base import EVERY_ROW, Block, LabelledScores, RowsInCells
from evalreg.scores.stacking import StackedScores, meat_of_cell_rows


@dataclass(frozen=True, eq=False)
class CellScores(LabelledScores):
    """Scores of rows that fall into cells, in memory."""

    values: FloatArray
    # Fitted value of each cell.
    fitted: FloatArray
    labels: Labels
    # Cell of each row; None when there is one cell.
    cell: IntArray | None = None
    # Sampling weights; None when all are one.
    weights: FloatArray | None = None

    @property
    def n_columns(self) -> int:
        """Number of cells."""
        return self.fitted.size

    @held_property
    def row_scores(self) -> FloatArray:
        """Each row's score in its own cell's column, w (value - fitted), shape (n_rows,)."""
        fitted = self.fitted[0] if self.cell is None else self.fitted[self.cell]
        residual = self.values - fitted
        return residual if self.weights is None else residual * self.weights

    def cells(self, by: Axis) -> Iterator[Block]:
        """Sums within (cluster, cell), all clusters in one block."""
        codes = self.labels.codes(by)
        pair, shape = self._pairs(codes)
        total = np.bincount(pair, self.row_scores).astype(float, copy=False)
        if self.cell is None and self.weights is None:
            weight = codes.counts.astype(float)
        else:
            weight = np.bincount(pair, self.weights).astype(float)
        if shape is not None:
            row, column, is_sorted = shape
            where, size = (row, column), (codes.n_clusters, self.n_columns)
            if is_sorted:
                totals = of_sorted(total, row, column, size)
                yield Block(totals, in_rows(weight, totals.indices.copy(), totals.indptr.copy(), size))
            else:
                totals, gram = (sparse.coo_array((one, where), size).tocsr() for one in (total, weight))
                yield Block(totals, gram)
        else:
            # No cluster is without rows, so no entry is missing, and zeros need not be looked for.
            yield Block(single_column(total), single_column(weight))

    def _pairs(self, codes: Codes) -> tuple[IntArray, tuple[IntArray, IntArray, bool] | None]:
        """Code of each row's (cluster, cell); with the pair of each code, and whether they are in order, of cells."""
        if self.cell is None:
            return codes.codes, None
        n_table = codes.n_clusters * self.n_columns
        key = codes.codes * self.n_columns + self.cell
        if n_table <= TABLE_PER_ROW * key.size + 1024:
            present = np.flatnonzero(np.bincount(key, minlength=n_table))
            number = np.zeros(n_table, dtype=np.intp)
            number[present] = np.arange(present.size)
            pair, is_sorted = number[key], True
        else:
            (pair, present), is_sorted = pd.factorize(key), False
        return pair, (present // self.n_columns, present % self.n_columns, is_sorted)

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', shape (n_params, n_params)."""
        if by is not None:
            return sum_blocks(white(block.totals, bread) for block in self.cells(by))
        if self.cell is None:
            squares = np.array([self.row_scores @ self.row_scores])
        else:
            squares = np.bincount(self.cell, self.row_scores**2, minlength=self.n_columns)
        scaled = np.sqrt(squares)[:, None] * dense(bread)
        return np.asarray(scaled.T @ scaled)

    def in_cells(self) -> tuple[RowsInCells, ...]:
        """The rows in their cells."""
        cell = np.zeros(self.n_rows, dtype=np.intp) if self.cell is None else self.cell
        return (RowsInCells(self.values, self.row_scores, cell, self.weights, self.n_columns),)

    def squares_in_cells(self, by: Axis) -> Matrix:
        """Sums of w e^2 within (cluster, cell)."""
        codes = self.labels.codes(by)
        weights = 1.0 if self.weights is None else np.where(self.weights > 0, self.weights, 1.0)
        squares = self.row_scores**2 / weights
        cell = np.zeros(squares.size, dtype=np.intp) if self.cell is None else self.cell
        return sparse.coo_array((squares, (codes.codes, cell)), (codes.n_clusters, self.n_columns)).tocsr()

    def turned(self, which: BoolArray, cell: IntArray, fitted: FloatArray) -> CellScores:
        """The same rows in other cells, some as scores of the other of two sides."""
        return replace(self, values=np.where(which, 1.0 - self.values, self.values), cell=cell, fitted=fitted)

    def row_influence(self, bread: Matrix) -> FloatArray:
        """Influence of each row, B's_r, shape (n_rows, n_params)."""
        return np.asarray(self.row_scores[:, None] * (bread[0] if self.cell is None else bread[self.cell]))


@dataclass(frozen=True, eq=False)
class LinearizedScores(CellScores):
    """Scores of statistics that are not means, one statistic a cell, by the influence of each row.

    `values` are weight times influence of each row, in units of the statistic, and sum to zero within each cell;
    `fitted` are the statistics. `weights` are those of the rows in the leverage of their cluster: for a ratio, their
    part of the denominator.
    """

    # Sampling weights.
    row_weights: FloatArray | None = None

    @property
    def of_means(self) -> bool:
        """Whether the values of cells are averaged."""
        return False

    @property
    def row_scores(self) -> FloatArray:
        """Each row's score in its own cell's column, shape (n_rows,)."""
        return self.values

    @property
    def as_means(self) -> CellScores:
        """The same scores as those of means of the linearized values, a row counting with its sampling weight."""
        fitted = self.fitted[0] if self.cell is None else self.fitted[self.cell]
        influence = self.values if self.row_weights is None else self.values / self.row_weights
        return CellScores(influence + fitted, self.fitted, self.labels, self.cell, self.row_weights)


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

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)'; of independent rows by the squares of cells."""
        if by is not None:
            return super().meat(by, bread)
        scaled = np.sqrt(self.row_moments()[0])[:, None] * dense(bread)
        return np.asarray(scaled.T @ scaled)

    def row_moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sums over the rows of each cell of s^2, s w and w^2."""
        w2, away = self.weight2, self.mean2 - self.fitted[self.cell]
        lines = self.within2 + w2 * away**2, w2 * away, w2
        ss, sw, ww = (np.bincount(self.cell, one, self.n_columns).astype(float, copy=False) for one in lines)
        return ss, sw, ww

    def squares_in_cells(self, by: Axis) -> Matrix:
        """Sums of w e^2 within (cluster, cell)."""
        codes = self.labels.codes(by)
        within = sparse.coo_array((self.within, (codes.codes, self.cell)), (codes.n_clusters, self.n_columns))
        return super().squares_in_cells(by) + within.tocsr()

    def heaviest_rows(self) -> FloatArray:
        """The largest weight of a row in each cell."""
        largest = np.zeros(self.n_columns)
        np.maximum.at(largest, self.cell, self.heaviest)
        return largest

    def turned(self, which: BoolArray, cell: IntArray, fitted: FloatArray) -> SummedPairScores:
        """The same lines in other cells, some as scores of the other side."""
        values, mean2 = (np.where(which, 1.0 - one, one) for one in (self.values, self.mean2))
        return replace(self, values=values, mean2=mean2, cell=cell, fitted=fitted)

    def in_cells(self) -> tuple[RowsInCells, ...]:
        """No rows are known."""
        return ()

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


@dataclass(frozen=True, eq=False)
class SummedOutcomes(StackedScores):
    """Scores of lines, each of one outcome, and whether that is a tie, side by side."""

    first: SummedPairScores
    second: SummedPairScores
    stackable = False

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)'; a line's rows are alike, so that their squares are w^2 times one."""
        if by is not None:
            return super().meat(by, bread)
        parts = []
        for part in (self.first, self.second):
            scores = np.sqrt(part.weight2) * (part.values - part.fitted[part.cell])
            parts.append(RowsInCells(part.values, scores, part.cell, part.weights, part.n_columns))
        return meat_of_cell_rows(tuple(parts), bread)

    def heaviest_rows(self) -> FloatArray:
        """The largest weight of a row in each cell."""
        return self.first.heaviest_rows()


def beside_ties(rows: CellScores, tie: FloatArray, fitted: FloatArray) -> StackedScores:
    """Scores of verdicts and of whether each is a tie, side by side; `fitted` is the share of ties of each cell."""
    if not isinstance(rows, SummedPairScores):
        return StackedScores(rows, CellScores(tie, fitted, rows.labels, rows.cell, rows.weights))
    return SummedOutcomes(rows, replace(rows, values=tie, mean2=tie, fitted=fitted))
