"""Scores of rows that fall into cells: one entry a row, value - fitted[cell] in the column of its cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray, held_property
from evalreg.data.clusters import TABLE_PER_ROW, Axis, Codes, Labels
from evalreg.numerics.matrices import Matrix, dense, in_rows, of_sorted, single_column, sum_blocks, white
from evalreg.scores.base import RowsInCells
from evalreg.scores.labelled import LabelledScores
from evalreg.scores.sums import Block


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
