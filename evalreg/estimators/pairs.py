"""Comparisons in cells, one a pair of models: what win rates and ratings are made of."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from evalreg.boards.duels import Duels
from evalreg.checks import FloatArray
from evalreg.data.clusters import Axis
from evalreg.data.groups import Groups
from evalreg.data.pairs import PairCells, read_pairs
from evalreg.data.verdicts import PairRoles
from evalreg.errors import IndependenceWarning, Note
from evalreg.scores.cells import CellScores
from evalreg.scores.sums import CellSums, cell_sums


@dataclass(frozen=True, eq=False)
class Pairs(PairCells):
    """The same with the sums and the scores of the cells."""

    sums: CellSums
    # Rows, oriented to the first model, fitted by the cell's mean.
    scores: CellScores
    # Share of the rows whose score is one half.
    tied: float
    # The clusterings asked for.
    axes: tuple[Axis, ...] | None
    # Rows dropped, by reason.
    dropped: dict[str, int]

    @property
    def n_cells(self) -> int:
        """Pairs that met, counted in each stratum."""
        return int(self.first.size)

    @property
    def mean(self) -> FloatArray:
        """psi of each cell: the mean score of its first model, shape (n_cells,)."""
        return self.scores.fitted

    def tables(self) -> tuple[FloatArray, FloatArray]:
        """Psi and counts as (n_models, n_models) matrices over all strata; NaN and 0 for pairs that never met."""
        size = len(self.models)
        weight, total = np.zeros((size, size)), np.zeros((size, size))
        np.add.at(weight, (self.first, self.second), self.sums.weight)
        np.add.at(total, (self.first, self.second), self.sums.total)
        total = total + np.tril((weight - total).T)
        weight = weight + weight.T
        with np.errstate(invalid="ignore", divide="ignore"):
            psi = np.where(weight > 0, total / weight, np.nan)
        counts = np.zeros((size, size))
        np.add.at(counts, (self.first, self.second), self.sums.count)
        return psi, counts + counts.T


def gather_pairs(data: Any, roles: PairRoles, groups: Groups) -> Pairs:
    """Comparisons of a log, sorted into pairs of models, with the sums and the scores of the cells."""
    read = read_pairs(data, roles, groups)
    weights, values = read.rows.weights, read.values
    sums = cell_sums(values, read.cell, read.first.size, weights)
    fitted = np.where(sums.low == sums.high, sums.low, sums.total / sums.weight)
    return Pairs(
        **{part.name: getattr(read, part.name) for part in fields(PairCells)},
        sums=sums,
        scores=CellScores(values, fitted, read.rows.labels(), read.cell, weights),
        tied=float(np.mean(values == 0.5)),
        axes=read.rows.axes,
        dropped=read.rows.dropped,
    )


def duels_of(pairs: Pairs) -> Duels:
    """The same cells as what a board keeps of them."""
    return Duels(
        pairs.models,
        pairs.strata,
        pairs.first,
        pairs.second,
        pairs.stratum,
        pairs.scores,
        pairs.sums.count,
        pairs.sums.weight,
        pairs.swapped,
    )


def design_lines(pairs: Pairs) -> list[str]:
    """What the schedule looks like, in words."""
    count, n_models = pairs.sums.count, len(pairs.models)
    strata = f" in {len(pairs.strata)} strata" if len(pairs.strata) > 1 else ""
    lines = [
        f"{n_models} models, {count.size} pair{'s' if count.size > 1 else ''}{strata} with {np.min(count):.0f} to "
        f"{np.max(count):.0f} comparisons "
        f"(median {np.median(count):.0f}); {pairs.tied:.1%} tied, {np.mean(pairs.swapped):.0%} with the models in the "
        "other order."
    ]
    if pairs.alike:
        lines.append(
            f"{pairs.alike} rows equal an earlier one in the models and in all columns named; name in `key` what "
            "identifies a comparison, and repeats are refused."
        )
    return lines


def independence_notes(groups: Groups) -> tuple[Note, ...]:
    """What to warn of where comparisons are treated as independent."""
    if groups is not None:
        return ()
    text = (
        "no `groups`: comparisons are treated as independent, which they are not where one answer meets several "
        'others or one judge decides many. Name the prompts and judges, such as groups="prompt + judge".'
    )
    return ((IndependenceWarning, text),)
