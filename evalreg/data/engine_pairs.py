"""The reader of comparisons that stay in an engine: one grouped query tells all that the pairs of models need.

Each row gets its two sides in one order, the engine's own, and the score of the first: pairs of models are then cells
as any others, whose sums the engine makes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, listed, without_none
from evalreg.data.clusters import Axes, Codes, Groups, as_codes, factorize, joint, known_column, parse_groups
from evalreg.data.designs import sides_design
from evalreg.data.engine import Grouped, Measures, Numbers, Query, count_of, floats_of, indicator, kind_of
from evalreg.data.engine_rows import REASON, EngineRows, refuse_far_weights, used_columns, weight_of, weighted
from evalreg.data.frame import as_query, refuse_infinite
from evalreg.data.pairs import (
    OTHER_KEY,
    PairCells,
    PairRoles,
    open_pairs,
    outside_scores,
    pair_cells,
    plain_label,
    refuse_unlike_names,
    self_comparison,
    sides_of,
    verdict_scores,
)
from evalreg.data.rows import dropped_rows
from evalreg.data.sums import (
    PAIR_COLUMNS,
    ROWS,
    WEIGHTED_PAIR_COLUMNS,
    SummedLog,
    SummedRoles,
    grouped_lines,
    refuse_kind,
    refuse_other,
    summed_roles,
)
from evalreg.errors import ArgumentError, NotAvailableError, RowList, ScoreRangeError

# Scores of the left model, and of the first in the engine's order of names.
SCORE, FIRST_SCORE = "__score", "__first_score"
# The two sides in that order, and whether it exchanged them.
FIRST, SECOND, EXCHANGED = "__first", "__second", "__exchanged"


@dataclass(frozen=True, eq=False, kw_only=True)
class PairsInEngine(EngineRows):
    """Comparisons of an engine, of kinds of rows: (first, second, exchanged, stratum, verdict).

    Parameters
    ----------
    table : Query
        The comparisons in use, with both sides in one order and the scores of the left and of the first model.
    sums : dict of str to ndarray, shape (n_kinds,)
        Rows "n"; sums of w "w", of w^2 "ww", of w v "wv" and so on, v being the left score less one half; the
        smallest and largest score "low" and "high", the largest weight "heaviest", and ties, "tied".
    pairs : PairCells
        The kinds in cells, whose models are in the engine's order.
    """

    pairs: PairCells


def read_pairs_in_engine(table: Query, roles: PairRoles, groups: Groups) -> PairsInEngine:
    """Comparisons sorted into pairs of models, of which no row leaves the engine."""
    labels = (roles.left, roles.right, *roles.key, roles.strata)
    needed, axes = used_columns(table, {"score": roles.score}, labels, groups, roles.weights, roles.winner)
    table = _in_one_order(table, roles)
    weight = weight_of(table, roles.weights)
    kinds = _kinds(needed.marked(table), roles, weight)
    n, why, exchanged = kinds.numbers["n"], kinds.values(REASON).astype(int), kinds.values(EXCHANGED) == 1
    # The rules of rows in memory, on the labels of the kinds.
    (first, second), names = sides_of((kinds.keys[FIRST], kinds.keys[SECOND]), roles)
    value, named = _left_scores(kinds, roles, first, second, exchanged, names)
    why = why if roles.winner is None else np.where(np.isnan(value), 1, why)
    dropped, used = dropped_rows(why, needed.by_reason, roles.missing, n), why == 0
    first, second = first[used], second[used]
    if (same := first == second).any():
        raise self_comparison({names[code] for code in first[same]}, RowList((), int(n[used][same].sum())), roles)
    strata = None
    if roles.strata is not None:
        codes, names_of_strata = kinds.keys[roles.strata]
        strata = Codes(codes[used], len(names_of_strata), names_of_strata)
    pairs = pair_cells(first, second, names, strata)
    comparisons = _in_use(table.present(needed.names), roles, kinds, named, value)
    if roles.key:
        comparisons.refuse_repeats((roles.left, roles.right, *roles.key), roles.key[0], OTHER_KEY)
    entry = np.unique(pairs.cell, return_index=True)[1]
    # The models of a cell in the engine's order.
    other = (first > second)[entry]
    earlier, later = np.where(other, pairs.second, pairs.first), np.where(other, pairs.first, pairs.second)
    return PairsInEngine(
        comparisons,
        axes,
        dropped,
        weight,
        kinds.cells((FIRST, SECOND, *without_none(roles.strata)), np.flatnonzero(used)[entry]),
        _sums(kinds, used, value, roles),
        pairs=replace(pairs, first=earlier, second=later, swapped=exchanged[used]),
    )


def _in_one_order(table: Query, roles: PairRoles) -> Query:
    """The table with both sides in the engine's order of names, and whether that exchanged them."""
    kinds = [table.schema[name] for name in (roles.left, roles.right)]
    refuse_unlike_names(kind_of(kinds[0]), kind_of(kinds[1]), roles)
    sides = [nw.col(roles.left), nw.col(roles.right)]
    if not (kinds[0] == kinds[1] and (kinds[0] == nw.String or kinds[0].is_integer())):
        sides = [side.cast(nw.Float64 if kinds[0].is_numeric() else nw.String) for side in sides]
    left, right = sides
    other = left > right
    columns = (
        nw.when(other).then(right).otherwise(left).alias(FIRST),
        nw.when(other).then(left).otherwise(right).alias(SECOND),
        indicator(other).alias(EXCHANGED),
    )
    return table.each(lambda frame: frame.with_columns(*columns))


def _kinds(table: Query, roles: PairRoles, w: nw.Expr | None) -> Grouped:
    """Rows, weights and scores by the two sides, their order, the stratum, the verdict, and why they are not in use."""
    keys = tuple(dict.fromkeys((FIRST, SECOND, EXCHANGED, *without_none(roles.strata, roles.winner), REASON)))
    measures: Measures = {}
    if w is not None:
        measures |= _of_weights(w)
    if roles.score is not None:
        score = floats_of(roles.score)
        measures |= {"outside": count_of((score < 0) | (score > 1))} | _of_scores(score, w)
    return table.lines(keys, measures)


def _of_weights(w: nw.Expr) -> Measures:
    return {"w": (w, "sum"), "ww": (w * w, "sum"), "heaviest": (w, "max")}


def _of_scores(score: nw.Expr, w: nw.Expr | None) -> Measures:
    """Ends and ties of scores, and sums of their products with the weights w, about one half."""
    v = score - 0.5
    measures: Measures = {"low": (score, "min"), "high": (score, "max"), "tied": count_of(score == 0.5)}
    for power in (1, 2) if w is not None else (1,):
        for number, name in ((v, "v"), (v * v, "vv")):
            measures["w" * power + name] = weighted(number, w, power), "sum"
    return measures


def _left_scores(
    kinds: Grouped, roles: PairRoles, first: IntArray, second: IntArray, exchanged: BoolArray, names: list[str]
) -> tuple[FloatArray, IntArray]:
    """Score of the left model of each kind (NaN: none, or a column of scores), and the model that its verdict names."""
    n = kinds.numbers["n"]
    if roles.winner is not None:
        sides = np.where(exchanged, second, first), np.where(exchanged, first, second)
        return verdict_scores(kinds.keys[roles.winner], roles, sides, names, n)
    # To an engine NaN is larger than any number.
    known = kinds.values(REASON) != 1
    outside, low, high = (kinds.numbers[name][known] for name in ("outside", "low", "high"))
    refuse_infinite([low, high], str(roles.score), "score", ends=True)
    if outside.sum() > 0:
        raise outside_scores(roles, float(np.nanmin(low)), float(np.nanmax(high)), RowList((), int(outside.sum())))
    return np.full(n.size, np.nan), np.full(n.size, -1, dtype=np.intp)


def _in_use(used: Query, roles: PairRoles, kinds: Grouped, named: IntArray, value: FloatArray) -> Query:
    """The comparisons in use with the scores of the left and of the first model, by conditions on the verdict."""
    exchanged = kinds.values(EXCHANGED) == 1

    def turned(score: nw.Expr) -> nw.Expr:
        return nw.when(nw.col(EXCHANGED) == 1.0).then(1.0 - score).otherwise(score)

    if roles.winner is None:
        assert roles.score is not None
        score = floats_of(roles.score)
        return used.each(lambda frame: frame.with_columns(score.alias(SCORE), turned(score).alias(FIRST_SCORE)))
    of, labels = kinds.keys[roles.winner]
    winner = nw.col(roles.winner)
    none = [plain_label(labels[code]) for code in np.unique(of[np.isnan(value) & (of >= 0)])]
    if none:
        used = used.each(lambda frame: frame.filter(~winner.is_in(none)))
    points_of = {
        points: [plain_label(labels[code]) for code in np.unique(of[(value == points) & (named < 0)])]
        for points in (0.0, 0.5, 1.0)
    }
    of_first = _named_first(kinds, roles, (named >= 0) & (value == np.where(exchanged, 0.0, 1.0)))
    for points, says in points_of.items():
        if says:
            of_first = nw.when(winner.is_in(says)).then(turned(nw.lit(points))).otherwise(of_first)
    # In two steps: the left score is made of the first's.
    first_scored = used.each(lambda frame: frame.with_columns(of_first.alias(FIRST_SCORE)))
    return first_scored.each(lambda frame: frame.with_columns(turned(nw.col(FIRST_SCORE)).alias(SCORE)))


def _named_first(kinds: Grouped, roles: PairRoles, won: BoolArray) -> nw.Expr:
    """1 where the verdict names the first model, as it does in the kinds `won`, else 0."""
    of, verdicts = kinds.keys[str(roles.winner)]
    side, firsts = kinds.keys[FIRST]
    pairs = sorted(set(zip(of[won].tolist(), side[won].tolist(), strict=True)))
    if not pairs:
        return nw.lit(0.0)
    plain = [(plain_label(verdicts[v]), plain_label(firsts[s])) for v, s in pairs]
    if all(type(v) is type(s) and v == s for v, s in plain):
        return indicator(nw.col(str(roles.winner)) == nw.col(FIRST))
    hits = [(nw.col(str(roles.winner)) == v) & (nw.col(FIRST) == s) for v, s in plain]
    return indicator(nw.any_horizontal(*hits, ignore_nulls=False))


def _sums(kinds: Grouped, used: BoolArray, value: FloatArray, roles: PairRoles) -> Numbers:
    """Sums of the kinds in use, of scores or of verdicts alike."""
    numbers = {name: column[used] for name, column in kinds.numbers.items()}
    n = numbers["n"]
    sums = {"w": n, "ww": n, "heaviest": np.ones(n.size)} | numbers
    if roles.winner is not None:
        v, w, ww = value[used] - 0.5, sums["w"], sums["ww"]
        sums |= {"wv": w * v, "wvv": w * v * v, "wwv": ww * v, "wwvv": ww * v * v}
        return sums | {"low": value[used], "high": value[used], "tied": n * (v == 0)}
    return {"wwv": sums["wv"], "wwvv": sums["wvv"]} | sums


# What an option that needs rows of other logs is called; verdicts have them by their counts.
DAVIDSON = '`ties="davidson"`'


def summarised_pairs(data: Any, roles: PairRoles, groups: str | list[str]) -> SummedLog:
    """Sums by (left, right, stratum, cluster)."""
    opened, roles = open_pairs(data, roles, groups)
    table = as_query(opened, {"score": roles.score, "weights": roles.weights})
    summed = summed_roles("pairs", roles, groups, table)
    read = read_pairs_in_engine(table, roles, groups)
    refuse_far_weights(table, roles.weights)
    return SummedLog(_summed_lines(read.table, summed, read.weight), summed, read.dropped)


def _summed_lines(table: Query, roles: SummedRoles, w: nw.Expr | None) -> pd.DataFrame:
    """Lines by (left, right, stratum, cluster), whose scores are those of the left model."""
    score = nw.col(SCORE)
    measures = {"wins": count_of(score == 1), "losses": count_of(score == 0)} | _of_scores(score, w)
    measures |= {} if w is None else _of_weights(w)
    columns = PAIR_COLUMNS | WEIGHTED_PAIR_COLUMNS
    return grouped_lines(table, roles, {columns[name]: measure for name, measure in measures.items()})


def read_summed_pairs(
    log: SummedLog, roles: PairRoles, groups: Groups, needs_rows: str | None = None
) -> tuple[PairCells, dict[str, Codes], Axes | None, Numbers]:
    """Lines of summed comparisons in cells, their labels, the clusterings asked for, and sums as of an engine's kinds.

    Lines are of any strata and clusters that they were summed by. Where all scores are wins, ties and losses, each
    line stands once for each of these that it has.
    """
    summed = _checked(log, roles, needs_rows)
    axes = None if groups is None else parse_groups(groups, summed.labels)
    line, sums = _outcomes(_sums_of(log.lines, summed.weights is not None), needs_rows)
    codes = {name: factorize(log.lines[name]) for name in summed.labels}
    labels = {name: Codes(of[line], len(names), names) for name, (of, names) in codes.items()}
    (left, right), names = sides_of((codes[roles.left], codes[roles.right]), roles)
    cells = pair_cells(left[line], right[line], names, None if roles.strata is None else labels[roles.strata])
    cells = replace(cells, alike=0 if summed.key else _alike(log, roles, axes))
    if roles.sides is not None:
        side_names, terms = sides_design(roles.sides, pd.DataFrame(), line.size)
        cells = replace(cells, side_names=side_names, sides=terms)
    return cells, labels, axes, sums


def _checked(log: SummedLog, roles: PairRoles, needs_rows: str | None) -> SummedRoles:
    """The roles of the sums; raises where other ones are asked for, or what needs rows."""
    refuse_kind(log, "pairs")
    summed = log.roles
    refuse_other(log, {name: getattr(roles, name) for name in ("left", "right", "score", "winner", "weights")})
    if roles.labels is not None:
        raise ArgumentError("`labels` said what verdicts mean when the log was summed; leave it out here.")
    if roles.key and roles.key != summed.key:
        raise ArgumentError(
            f"`key` must be that of the sums, {summed.key or None!r}; got {roles.key!r}. It is checked where rows are "
            "summed: give it to `summarise`."
        )
    if roles.strata is not None:
        known_column(roles.strata, summed.labels, "by")
    columns = () if roles.sides is None else roles.sides.covariate_names
    if columns or (needs_rows is not None and needs_rows != DAVIDSON and roles.sides is None):
        what = f"`formula` with {listed(columns)}" if columns else needs_rows
        raise NotAvailableError(
            f"{what} needs rows, which a log of sums no longer has: take the log itself. "
            'Of formulas the advantage of a side, formula="1", is known of sums.'
        )
    return summed


def _sums_of(lines: pd.DataFrame, weighted: bool) -> Numbers:
    """Sums of the lines by the names that those of an engine have."""
    columns = {"n": ROWS} | PAIR_COLUMNS | (WEIGHTED_PAIR_COLUMNS if weighted else {})
    sums = {name: lines[column].to_numpy(dtype=float) for name, column in columns.items()}
    n = sums["n"]
    return {"w": n, "ww": n, "wwv": sums["wv"], "wwvv": sums["wvv"], "heaviest": np.ones(n.size)} | sums


def _outcomes(sums: Numbers, needs_rows: str | None) -> tuple[IntArray, Numbers]:
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


def _alike(log: SummedLog, roles: PairRoles, axes: Axes | None) -> int:
    """Rows that equal an earlier one in the models and all columns named."""
    named = dict.fromkeys([name for axis in axes or () for name in axis] + [roles.strata] * (roles.strata is not None))
    if not named:
        return 0
    columns = dict.fromkeys((roles.left, roles.right, *named))
    parts = [as_codes(*factorize(log.lines[name])) for name in columns]
    return log.n_rows - joint(parts).n_clusters
