"""Comparisons in cells, one a pair of models: what win rates and ratings are made of."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from evalreg.boards.duels import Duels
from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.data.clusters import Axis, Groups, Labels, union
from evalreg.data.engine import Query
from evalreg.data.engine_pairs import EXCHANGED, FIRST_SCORE, PairsInEngine, read_pairs_in_engine
from evalreg.data.pairs import PairCells, PairRoles, open_pairs, read_pairs
from evalreg.data.summed_pairs import SummedPairCells, read_summed_pairs
from evalreg.data.sums import SummedLog, with_joint
from evalreg.errors import IndependenceWarning, Note
from evalreg.scores.base import CellSums, cell_sums
from evalreg.scores.cells import CellScores, SummedPairScores
from evalreg.scores.engine import EngineScores, Measured


@dataclass(frozen=True, eq=False)
class Pairs(PairCells):
    """The same with the sums and the scores of the cells."""

    sums: CellSums
    # Rows, oriented to the first model, fitted by the cell's mean.
    scores: CellScores | EngineScores
    # Shares of the rows whose score is one half, and whose models stand in the rarer order of their pair.
    tied: float
    turned: float
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

    @property
    def rows(self) -> CellScores:
        """The scores, of rows in memory."""
        assert isinstance(self.scores, CellScores)
        return self.scores

    @property
    def left_second(self) -> BoolArray:
        """Whether a row's left model is the cell's second, of rows in memory."""
        assert self.swapped is not None
        return self.swapped


def gather_pairs(data: Any, roles: PairRoles, groups: Groups, needs_rows: str | None = None) -> Pairs:
    """Comparisons of a log, sorted into pairs of models, with the sums and the scores of the cells.

    Rows in an engine stay there, unless `needs_rows` says what needs them.
    """
    if isinstance(data, SummedLog):
        data = with_joint(data, roles.strata)
        return _of_sums(read_summed_pairs(data, roles, groups, needs_rows), data)
    table, roles = open_pairs(data, roles, groups, needs_rows)
    if isinstance(table, Query):
        return _of_engine(read_pairs_in_engine(table, roles, groups), roles)
    read = read_pairs(table, roles, groups)
    weights, values = read.rows.weights, read.values
    sums = cell_sums(values, read.cell, read.first.size, weights)
    return Pairs(
        **{part.name: getattr(read, part.name) for part in fields(PairCells)},
        sums=sums,
        scores=CellScores(values, _fitted(sums), read.rows.labels(), read.cell, weights),
        tied=float(np.mean(values == 0.5)),
        turned=_turned(read.cell, np.ones(len(read.cell)), read.swapped),
        axes=read.rows.axes,
        dropped=read.rows.dropped,
    )


def _turned(cell: IntArray, count: FloatArray, swapped: BoolArray | None) -> float:
    """The share of rows whose models stand in the rarer order of their pair; 0 where each pair has one order."""
    every = np.bincount(cell, count)
    one = np.bincount(cell, np.where(np.asarray(swapped), count, 0.0))
    return float(np.minimum(one, every - one).sum() / every.sum())


def _fitted(sums: CellSums) -> FloatArray:
    return np.where(sums.low == sums.high, sums.low, sums.total / sums.weight)


def _of_engine(read: PairsInEngine, roles: PairRoles) -> Pairs:
    """The same of rows that stay in an engine, from the sums of their kinds."""
    n_cells, kinds = read.first.size, read.sums
    sign = np.where(read.swapped, -1.0, 1.0)

    def total(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(read.cell, values, n_cells), dtype=np.float64)

    sums = _added(read, n_cells)
    heaviest = np.zeros(n_cells)
    np.maximum.at(heaviest, read.cell, kinds["heaviest"])
    weight = None if read.weights is None else nw.col(read.weights).cast(nw.Float64)
    moments = {"ee": total(kinds["wwvv"]), "ed": total(sign * kinds["wwv"]), "dd": total(kinds["ww"])}
    scores = EngineScores(
        Measured(
            read.table,
            nw.col(FIRST_SCORE),
            weight=weight,
            exchanged=None if roles.key else nw.col(EXCHANGED),
        ),
        read.cells,
        sums,
        _fitted(sums),
        centre=np.full(n_cells, 0.5),
        weighted=weight is not None,
        heaviest=heaviest,
        _moments=[moments],
    )
    n_rows = sums.count.sum()
    return Pairs(
        models=read.models,
        strata=read.strata,
        first=read.first,
        second=read.second,
        stratum=read.stratum,
        swapped=None,
        alike=_alike(read, scores, roles),
        side_names=(),
        sides=np.zeros((0, 0)),
        sums=sums,
        scores=scores,
        tied=float(kinds["tied"].sum() / n_rows),
        turned=_turned(read.cell, kinds["n"], read.swapped),
        axes=read.axes,
        dropped=read.dropped,
    )


def _added(read: PairsInEngine | SummedPairCells, n_cells: int) -> CellSums:
    """Sums of cells, as scores of their first models, from those of kinds or lines."""
    kinds, swapped = read.sums, np.asarray(read.swapped)

    def total(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(read.cell, values, n_cells), dtype=np.float64)

    w, wv, wvv = total(kinds["w"]), total(np.where(swapped, -1.0, 1.0) * kinds["wv"]), total(kinds["wvv"])
    low, high = np.full(n_cells, np.inf), np.full(n_cells, -np.inf)
    np.minimum.at(low, read.cell, np.where(swapped, 1 - kinds["high"], kinds["low"]))
    np.maximum.at(high, read.cell, np.where(swapped, 1 - kinds["low"], kinds["high"]))
    squares = np.where(low == high, 0.0, np.maximum(wvv - wv**2 / w, 0.0))
    return CellSums(total(kinds["n"]), w, wv + w / 2, squares, low, high)


def _of_sums(read: SummedPairCells, log: SummedLog) -> Pairs:
    """The same of lines that were summed of comparisons."""
    lines, swapped = read.sums, np.asarray(read.swapped)
    sums = _added(read, read.first.size)
    constant = lines["low"] == lines["high"]
    means, within = [], []
    for w, wv, wvv in (("w", "wv", "wvv"), ("ww", "wwv", "wwvv")):
        mean = np.where(constant, lines["low"], lines[wv] / lines[w] + 0.5)
        means.append(np.where(swapped, 1.0 - mean, mean))
        within.append(np.where(constant, 0.0, np.maximum(lines[wvv] - lines[wv] ** 2 / lines[w], 0.0)))
    scores = SummedPairScores(
        values=means[0],
        fitted=_fitted(sums),
        labels=Labels(read.cell.size, read.labels),
        cell=read.cell,
        weights=lines["w"],
        within=within[0],
        count=lines["n"],
        weight2=lines["ww"],
        mean2=means[1],
        within2=within[1],
        heaviest=lines["heaviest"],
        weighted=read.weighted,
    )
    n_rows = sums.count.sum()
    return Pairs(
        **{part.name: getattr(read, part.name) for part in fields(PairCells)},
        sums=sums,
        scores=scores,
        tied=float(lines["tied"].sum() / n_rows),
        turned=_turned(read.cell, lines["n"], swapped),
        axes=read.axes,
        dropped=log.dropped,
    )


def _alike(read: PairsInEngine, scores: EngineScores, roles: PairRoles) -> int:
    """Rows that equal an earlier one in the models and all columns named, where no `key` tells them apart."""
    if roles.key or (read.axes is None and roles.strata is None):
        return 0
    if read.axes is None:
        return scores.n_rows - read.n_given
    return scores.n_rows - scores.n_entries(union(*read.axes))


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
    fewest, most = f"{np.min(count):.0f}", f"{np.max(count):.0f}"
    unequal = f"{fewest} to {most} comparisons (median {np.median(count):.0f})"
    each = f"{most} comparison{'' if most == '1' else 's'}{' each' if count.size > 1 else ''}"
    order = f"{pairs.turned:.0%} with the models in the other order"
    if pairs.turned == 0:
        order = f"{'each pair' if count.size > 1 else 'all'} in one order"
    lines = [
        f"{n_models} models, {count.size} pair{'s' if count.size > 1 else ''}{strata} with "
        f"{each if fewest == most else unequal}; {pairs.tied:.1%} tied, {order}."
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
