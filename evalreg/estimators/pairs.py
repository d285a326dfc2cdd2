"""Comparisons in cells, one a pair of models: what win rates and ratings are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evalreg.boards.duels import Duels
from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.data.clusters import Axis
from evalreg.data.groups import Groups
from evalreg.data.pairs import read_pairs
from evalreg.data.verdicts import PairRoles
from evalreg.errors import IndependenceWarning, Note
from evalreg.scores.cells import CellScores
from evalreg.scores.sums import CellSums, cell_sums


@dataclass(frozen=True, eq=False)
class Pairs:
    """Comparisons in cells, one a pair of models (of each stratum), scored for the model that sorts first.

    Parameters
    ----------
    models : tuple of str
        Sorted as text.
    strata : tuple of str
        Sorted as text; one unnamed without strata.
    first, second : ndarray of int, shape (n_cells,)
        The models of each cell, first before second.
    stratum : ndarray of int, shape (n_cells,)
        Stratum of each cell.
    sums : CellSums
        Counts and sums of each cell.
    scores : CellScores
        Rows, oriented to the first model, fitted by the cell's mean.
    swapped : ndarray of bool, shape (n_rows,)
        Whether a row's left model is the cell's second.
    tied : float
        Share of the rows whose score is one half.
    alike : int
        Rows that equal an earlier one in all named columns, where no `key` says what a comparison is.
    axes : tuple of Axis or None
        Clusterings asked for.
    dropped : dict of str to int
        Rows dropped by reason.
    side_names : tuple of str
        Terms that differ between the two sides.
    sides : ndarray, shape (n_rows, n_terms)
        Those terms, left minus right.
    """

    models: tuple[str, ...]
    strata: tuple[str, ...]
    first: IntArray
    second: IntArray
    stratum: IntArray
    sums: CellSums
    scores: CellScores
    swapped: BoolArray
    tied: float
    alike: int
    axes: tuple[Axis, ...] | None
    dropped: dict[str, int]
    side_names: tuple[str, ...]
    sides: FloatArray

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
        models=read.models,
        strata=read.strata,
        first=read.first,
        second=read.second,
        stratum=read.stratum,
        sums=sums,
        scores=CellScores(values, fitted, read.rows.labels(), read.cell, weights),
        swapped=read.swapped,
        tied=float(np.mean(values == 0.5)),
        alike=read.alike,
        axes=read.rows.axes,
        dropped=read.rows.dropped,
        side_names=read.side_names,
        sides=read.sides,
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
