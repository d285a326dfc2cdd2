"""Scores of a log that is known by sums of its rows: a line counts as its rows, all at their mean, between clusters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.data.clusters import Axis, Labels
from evalreg.errors import NotAvailableError
from evalreg.numerics.matrices import Matrix, dense
from evalreg.scores.base import EVERY_ROW, RowsInCells
from evalreg.scores.cells import CellScores
from evalreg.scores.stacking import StackedScores, meat_of_cell_rows

Moments: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]
"""Sums over the rows of each cell of s^2, s w and w^2, s being the score of a row and w its weight."""

GONE = "a log of sums no longer has its rows: {what} needs them. Take the log itself."


class WithoutRows(CellScores):
    """Scores of lines that rows were summed to: what needs single rows is refused."""

    stackable: ClassVar[bool] = False

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


@dataclass(frozen=True, eq=False, kw_only=True)
class SummedScores(WithoutRows):
    """Sums of rows by line: `values` are means of lines, `weights` theirs; what clusters need is exact."""

    # Sum over the rows of each line of w (value - mean of the line)^2, shape (n_lines,).
    within: FloatArray

    @property
    def n_rows(self) -> int:
        """Rows that were summed."""
        assert self.weights is not None
        return int(self.weights.sum())

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)'; of independent rows by the squares of cells."""
        if by is not None:
            return super().meat(by, bread)
        scaled = np.sqrt(self.row_moments()[0])[:, None] * dense(bread)
        return np.asarray(scaled.T @ scaled)

    def row_moments(self) -> Moments:
        """Sums over the rows of each cell of s^2, s w and w^2."""
        assert self.weights is not None
        return self._moments(self.weights, self.values, self.within)

    def _moments(self, weight: FloatArray, mean: FloatArray, within: FloatArray) -> Moments:
        """The same of lines of some weight, mean and squares about it."""
        away = mean - (self.fitted[0] if self.cell is None else self.fitted[self.cell])
        ss, sw, ww = (self._by_cell(one) for one in (within + weight * away**2, weight * away, weight))
        return ss, sw, ww

    def _by_cell(self, values: FloatArray) -> FloatArray:
        cell = np.zeros(values.size, dtype=np.intp) if self.cell is None else self.cell
        return np.asarray(np.bincount(cell, values, self.n_columns), dtype=np.float64)

    def squares_in_cells(self, by: Axis) -> Matrix:
        """Sums of w e^2 within (cluster, cell)."""
        cell = np.zeros(self.values.size, dtype=np.intp) if self.cell is None else self.cell
        codes, where = self.labels.codes(by), (self.labels.codes(by).codes, cell)
        within = sparse.coo_array((self.within, where), (codes.n_clusters, self.n_columns)).tocsr()
        return super().squares_in_cells(by) + within


@dataclass(frozen=True, eq=False, kw_only=True)
class SummedPairScores(SummedScores):
    """Sums of comparisons, which may be weighted, by line."""

    # Rows of each line.
    count: FloatArray
    # Sums over the rows of each line of w^2, the mean of the values with these weights, and squares about it.
    weight2: FloatArray
    mean2: FloatArray
    within2: FloatArray
    # The largest weight of a row of each line.
    heaviest: FloatArray
    # Whether rows have weights other than one.
    weighted: bool

    @property
    def n_rows(self) -> int:
        """Comparisons that were summed."""
        return int(self.count.sum())

    def row_moments(self) -> Moments:
        """Sums over the rows of each cell of s^2, s w and w^2."""
        return self._moments(self.weight2, self.mean2, self.within2)

    def heaviest_rows(self) -> FloatArray:
        """The largest weight of a row in each cell."""
        found, cell = np.zeros(self.n_columns), self.cell
        np.maximum.at(found, np.zeros(self.count.size, dtype=np.intp) if cell is None else cell, self.heaviest)
        return found

    def turned(self, which: BoolArray, cell: IntArray, fitted: FloatArray) -> SummedPairScores:
        """The same lines in other cells, some as scores of the other side."""
        values, mean2 = (np.where(which, 1.0 - one, one) for one in (self.values, self.mean2))
        return replace(self, values=values, mean2=mean2, cell=cell, fitted=fitted)


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
            assert part.cell is not None
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
