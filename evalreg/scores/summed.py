"""Scores of a log that is known by sums of its rows: a line counts as its rows, all at their mean, between clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from evalreg.checks import FloatArray
from evalreg.data.clusters import Axis
from evalreg.errors import NotAvailableError
from evalreg.numerics.matrices import Matrix, dense
from evalreg.scores.base import RowsInCells
from evalreg.scores.cells import CellScores

GONE = "a log of sums no longer has its rows: {what} needs them. Take the log itself."


@dataclass(frozen=True, eq=False)
class SummedScores(CellScores):
    """Sums of rows by line: `values` are means of lines, `weights` their rows; what clusters need is exact."""

    # Sum of (value - mean of the cell)^2 of each cell, shape (n_cells,).
    squares: FloatArray | None = None
    stackable: ClassVar[bool] = False

    @property
    def n_rows(self) -> int:
        """Rows that were summed."""
        assert self.weights is not None
        return int(self.weights.sum())

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)'; of independent rows by the squares of cells."""
        if by is not None:
            return super().meat(by, bread)
        assert self.squares is not None
        scaled = np.sqrt(self.squares)[:, None] * dense(bread)
        return np.asarray(scaled.T @ scaled)

    def in_cells(self) -> tuple[RowsInCells, ...]:
        """No rows are known."""
        return ()

    def row_influence(self, bread: Matrix) -> FloatArray:
        """Refused: there are no rows."""
        raise NotAvailableError(GONE.format(what="influence of single rows") + " Or name a clustering in `by`.")

    def with_labels(self, more: dict[str, Any]) -> CellScores:
        """Refused: labels given as arrays follow rows."""
        raise NotAvailableError(GONE.format(what="labels given as arrays"))
