"""Comparisons as sums by pair of models and cluster: made where the rows lie, and read again as lines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, listed
from evalreg.data.clusters import Axis, Codes, Groups, as_codes, factorize, joint, known_column, parse_groups
from evalreg.data.designs import sides_design
from evalreg.data.engine import Measure, Query
from evalreg.data.engine_pairs import SCORE, read_pairs_in_engine
from evalreg.data.frame import Table, as_query
from evalreg.data.pairs import PairCells, PairRoles, open_pairs, pair_cells, sides_of
from evalreg.data.sums import (
    HEAVIEST,
    HIGH,
    LOSSES,
    LOW,
    ROWS,
    SQUARES,
    SQUARES2,
    TIES,
    TOTAL,
    TOTAL2,
    WEIGHT,
    WEIGHT2,
    WINS,
    SummedLog,
    SummedRoles,
    grouped_lines,
    refuse_far_weights,
    refuse_kind,
    refuse_other,
)
from evalreg.errors import ArgumentError, NotAvailableError, ScoreRangeError

# What an option that needs rows of other logs is called; verdicts have them by their counts.
DAVIDSON = '`ties="davidson"`'


def summarised_pairs(data: Any, roles: PairRoles, groups: str | list[str]) -> SummedLog:
    """Sums by (left, right, stratum, cluster)."""
    opened, roles = open_pairs(data, roles, groups)
    if roles.weights is not None and not isinstance(roles.weights, str):
        raise NotAvailableError("`weights` must name a column here, so that its sums say what they are of.")
    table = as_query(opened, {"score": roles.score, "weights": roles.weights})
    columns = sorted({name for axis in parse_groups(groups, table.columns) for name in axis})
    own = SummedRoles(
        "pairs",
        tuple(columns),
        left=roles.left,
        right=roles.right,
        score=roles.score,
        winner=roles.winner,
        key=roles.key,
        strata=roles.strata,
        weights=roles.weights,
    )
    if roles.winner is not None:
        known_column(roles.winner, table.columns, "winner")
    read = read_pairs_in_engine(table, roles, groups)
    refuse_far_weights(read.power, roles.weights)
    return SummedLog(_summed_lines(read.table, own, read.weights), own, read.dropped)


def _summed_lines(table: Query, own: SummedRoles, weights: str | None) -> pd.DataFrame:
    score, one = nw.col(SCORE), nw.lit(1)
    v = score - 0.5
    w = nw.lit(1.0) if weights is None else nw.col(weights).cast(nw.Float64)
    counted = {WINS: score == 1, TIES: score == 0.5, LOSSES: score == 0}
    made: dict[str, Measure] = {
        name: (nw.when(said).then(one).otherwise(nw.lit(0)), "sum") for name, said in counted.items()
    }
    made |= {TOTAL: (w * v, "sum"), SQUARES: (w * v * v, "sum"), LOW: (score, "min"), HIGH: (score, "max")}
    if weights is not None:
        made |= {WEIGHT: (w, "sum"), WEIGHT2: (w * w, "sum"), HEAVIEST: (w, "max")}
        made |= {TOTAL2: (w * w * v, "sum"), SQUARES2: (w * w * v * v, "sum")}
    return grouped_lines(table, own, made)


@dataclass(frozen=True, eq=False, kw_only=True)
class SummedPairCells(PairCells):
    """Lines of comparisons sorted into pairs of models, scored for the left model.

    Where all scores are wins, ties and losses, each line stands once for each of these that it has.

    Parameters
    ----------
    swapped : ndarray of bool, shape (n_lines,)
        Whether a line's left model is the cell's second.
    labels : dict of str to Codes
        Labels of the lines by column.
    axes : tuple of Axis or None
        The clusterings asked for.
    sums : dict of str to ndarray, shape (n_lines,)
        As `PairsInEngine` has them of its kinds.
    """

    swapped: BoolArray
    labels: dict[str, Codes]
    axes: tuple[Axis, ...] | None
    sums: dict[str, FloatArray]
    weighted: bool
    alike: int
    side_names: tuple[str, ...] = ()
    sides: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))


def read_summed_pairs(
    log: SummedLog, roles: PairRoles, groups: Groups, needs_rows: str | None = None
) -> SummedPairCells:
    """Lines of summed comparisons as cells, of any strata and clusters that they were summed by."""
    own = _checked(log, roles, needs_rows)
    axes = None if groups is None else parse_groups(groups, own.labels)
    line, sums = _outcomes(_sums_of(log.lines, own.weights is not None), needs_rows)
    codes = {name: factorize(log.lines[name]) for name in own.labels}
    labels = {name: Codes(of[line], len(names), names) for name, (of, names) in codes.items()}
    sides = Table(nw.from_native(log.lines[[ROWS]]), {str(name): codes[str(name)] for name in (own.left, own.right)})
    (left, right), names = sides_of(sides, roles)
    left, right = left[line], right[line]
    of = None if roles.strata is None else labels[roles.strata]
    cells = pair_cells(left, right, names, None if of is None else (of.labels, of.codes))
    read = SummedPairCells(
        **vars(cells),
        swapped=left > right,
        labels=labels,
        axes=axes,
        sums=sums,
        weighted=own.weights is not None,
        alike=0 if own.key else _alike(log, roles, axes),
    )
    if roles.sides is None:
        return read
    side_names, terms = sides_design(roles.sides, pd.DataFrame(), line.size)
    return replace(read, side_names=side_names, sides=terms)


def _checked(log: SummedLog, roles: PairRoles, needs_rows: str | None) -> SummedRoles:
    """The roles of the sums; raises where other ones are asked for, or what needs rows."""
    refuse_kind(log, "pairs")
    own = log.roles
    refuse_other(log, {name: getattr(roles, name) for name in ("left", "right", "score", "winner", "weights")})
    if roles.labels is not None:
        raise ArgumentError("`labels` said what verdicts mean when the log was summed; leave it out here.")
    if roles.key and roles.key != own.key:
        raise ArgumentError(
            f"`key` must be that of the sums, {own.key or None!r}; got {roles.key!r}. It is checked where rows are "
            "summed: give it to `summarise`."
        )
    if roles.strata is not None:
        known_column(roles.strata, own.labels, "by")
    columns = () if roles.sides is None else roles.sides.covariate_names
    if columns or (needs_rows is not None and needs_rows != DAVIDSON and roles.sides is None):
        what = f"`formula` with {listed(columns)}" if columns else needs_rows
        raise NotAvailableError(
            f"{what} needs rows, which a log of sums no longer has: take the log itself. "
            'Of formulas the advantage of a side, formula="1", is known of sums.'
        )
    return own


def _sums_of(lines: pd.DataFrame, weighted: bool) -> dict[str, FloatArray]:
    """Sums of the lines by the names that those of an engine have."""
    column = {name: lines[name].to_numpy(dtype=float) for name in lines.columns if lines[name].dtype.kind in "if"}
    n = column[ROWS]
    found = {"n": n, "wv": column[TOTAL], "wvv": column[SQUARES], "low": column[LOW], "high": column[HIGH]}
    found |= {"wins": column[WINS], "tied": column[TIES], "losses": column[LOSSES]}
    if not weighted:
        return found | {"w": n, "ww": n, "wwv": found["wv"], "wwvv": found["wvv"], "heaviest": np.ones(n.size)}
    found |= {"w": column[WEIGHT], "ww": column[WEIGHT2], "heaviest": column[HEAVIEST]}
    return found | {"wwv": column[TOTAL2], "wwvv": column[SQUARES2]}


def _outcomes(sums: dict[str, FloatArray], needs_rows: str | None) -> tuple[IntArray, dict[str, FloatArray]]:
    """The line that each entry is of, and the sums of entries: wins, ties and losses apart, where there is no more."""
    counts = np.array([sums["losses"], sums["tied"], sums["wins"]])
    others = sums["n"].sum() - counts.sum()
    if others:
        if needs_rows == DAVIDSON:
            raise ScoreRangeError(
                f"{DAVIDSON} needs verdicts: scores of 0, 1/2 and 1; {others:.0f} lie between them. "
                'Use ties="half", which takes any score in [0, 1].',
                count=int(others),
            )
        return np.arange(sums["n"].size), sums
    points, line = np.nonzero(counts)
    mixed = np.count_nonzero(counts, axis=0) > 1
    of = {"n": counts[points, line], "heaviest": sums["heaviest"][line]}
    score = points / 2.0
    v = score - 0.5
    for w, wv, wvv in (("w", "wv", "wvv"), ("ww", "wwv", "wwvv")):
        # Weights of wins and losses are a quarter each in the squares, and with a half and its opposite in the total.
        decided, ahead = 4 * sums[wvv], 2 * sums[wv]
        each = np.array([(decided - ahead) / 2, sums[w] - decided, (decided + ahead) / 2])[points, line]
        # They are positive; what is lost to rounding is no more than that of the line.
        each = np.maximum(each, np.finfo(float).eps * sums[w][line])
        of[w] = np.where(mixed[line], each, sums[w][line])
        of[wv], of[wvv] = of[w] * v, of[w] * v * v
    return line, of | {"low": score, "high": score, "tied": of["n"] * (points == 1)}


def _alike(log: SummedLog, roles: PairRoles, axes: tuple[Axis, ...] | None) -> int:
    """Rows that equal an earlier one in the models and all columns named."""
    named = dict.fromkeys([name for axis in axes or () for name in axis] + [roles.strata] * (roles.strata is not None))
    if not named:
        return 0
    columns = dict.fromkeys((roles.left, roles.right, *named))
    parts = [as_codes(*factorize(log.lines[name])) for name in columns]
    return log.n_rows - joint(parts).n_clusters
