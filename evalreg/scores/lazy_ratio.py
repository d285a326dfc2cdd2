"""Scores of ratios whose rows live in an engine: sums of both columns within (cluster, cell) are all they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import narwhals.stable.v2 as nw
import numpy as np

from evalreg.checks import BoolArray, FloatArray
from evalreg.data.clusters import Axis
from evalreg.scores.lazy import ROOT, TOTAL, WEIGHT, LazyScores
from evalreg.scores.lazy_sums import Entries
from evalreg.scores.sums import Block

# Columns of the table: sampling weights, and numerator and denominator times these.
PLAIN, TOP, BOTTOM = "__plain", "__top", "__bottom"


@dataclass(frozen=True, eq=False)
class LazyRatios(LazyScores):
    """A row scores w (n - R d) over the mean denominator of its cell; its leverage is by w d over the same.

    `fitted` are the ratios, `weight` the column of w d.
    """

    # Mean denominator of each cell.
    mean: FloatArray = field(default_factory=lambda: np.zeros(0))
    # Sum over the rows of each cell of the squares of their scores.
    row_squares: FloatArray = field(default_factory=lambda: np.zeros(0))
    # Cells whose rows all have the same ratio: no score is other than zero.
    flat: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    # Whether the grams count sampling weights, as those of means do.
    by_rows: bool = False

    of_means = False

    @property
    def as_means(self) -> LazyRatios:
        """The same scores as those of means of the linearized values, a row counting with its sampling weight."""
        return replace(self, by_rows=True)

    def _made(self) -> dict[str, nw.Expr]:
        return {WEIGHT: nw.col(BOTTOM), TOTAL: nw.col(TOP), f"{ROOT}0": nw.col(PLAIN)}

    def _grouped(self, by: Axis, within: nw.Expr | None, most: int | None = None) -> Entries:
        """Sums by (cluster, cell), in units of the mean denominator."""
        found = super()._grouped(by, within, most)
        mean = self.mean[found.cell][:, None]
        return replace(found, weights=found.weights / mean, totals=found.totals / mean)

    def cells(self, by: Axis) -> Iterator[Block]:
        """Sums within (cluster, cell), asked again where they are too many to hold."""
        asked = self._query(by)
        parts = asked.held or (self._grouped(by, one).block(self.n_cells) for one in asked.ranges)
        for part in parts:
            assert part.rooted is not None
            cell = part.cell
            residual = np.where(self.flat[cell], 0.0, part.totals[:, 0] - part.weights[:, 0] * self.fitted[cell])
            weight = part.rooted[:, 1] if self.by_rows else part.weights[:, 0]
            yield Block(part.like(residual), part.like(weight.astype(float)))

    def _squared_scores(self) -> FloatArray:
        return self.row_squares
