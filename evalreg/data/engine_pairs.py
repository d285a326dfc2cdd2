"""The reader of comparisons that stay in an engine: one grouped query tells all that the pairs of models need.

Each row gets its two sides in one order, the engine's own, and the score of the first: pairs of models are then cells
as any others, whose sums the engine makes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.data.clusters import Axis, Groups, as_text, parse_groups, union
from evalreg.data.dialects import refuse_text_among_numbers
from evalreg.data.engine import CellKeys, Query, aggregated, refuse_spark_names, schema_of
from evalreg.data.engine_rows import (
    RESCALED,
    Grouped,
    dropped_rows,
    grouped,
    power_of_weights,
    reason_number,
    refuse_light_weights,
    rescaled,
)
from evalreg.data.frame import Table
from evalreg.data.pairs import (
    PairRoles,
    cells_of_pairs,
    is_stranger,
    outside_scores,
    present_models,
    read_verdicts,
    refuse_unlike_names,
    repeated_key,
    self_comparison,
    sides_of,
    strange_winner,
    strata_of,
    unknown_label,
)
from evalreg.errors import EmptyDataError

# Scores of the left model, and of the first in the engine's order of names.
SCORE, FIRST_SCORE = "__score", "__first_score"
# The two sides in that order, and whether it exchanged them.
FIRST, SECOND, EXCHANGED = "__first", "__second", "__exchanged"
_GONE, _N = "__gone", "__n"
# Sums over rows of w, w^2 and their products with v and v^2, v being the left score less one half.
_W, _WW, _V, _VV, _WV, _WVV, _WWV, _WWVV = "__w", "__ww", "__v", "__vv", "__wv", "__wvv", "__wwv", "__wwvv"


@dataclass(frozen=True, eq=False)
class PairsInEngine:
    """Comparisons in an engine, and sums by (first, second, exchanged, stratum, verdict), one kind each.

    Parameters
    ----------
    table : Query
        The comparisons in use, with both sides in one order and the scores of the left and of the first model.
    models, strata : tuple of str
        Sorted as text.
    first, second, stratum : ndarray of int, shape (n_cells,)
        The models of each cell, in the engine's order, and its stratum.
    cell : ndarray of int, shape (n_kinds,)
        Cell of each kind.
    swapped : ndarray of bool, shape (n_kinds,)
        Whether the left model of a kind is the cell's second.
    cells : CellKeys
        The same cells as joint values of columns.
    n_given : int
        (left, right[, stratum]) that occur.
    sums : dict of str to ndarray, shape (n_kinds,)
        Rows "n"; sums of w "w", of w^2 "ww", of w v "wv" and so on, v being the left score less one half; the
        smallest and largest score "low" and "high", the largest weight "heaviest", and ties, "tied".
    axes : tuple of Axis or None
        The clusterings asked for.
    dropped : dict of str to int
        Rows dropped by reason.
    weights : str or None
        Column of the weights: another one than was asked for, where these are far from 1.
    power : int
        It holds the weights times two to this power.
    """

    table: Query
    models: tuple[str, ...]
    strata: tuple[str, ...]
    first: IntArray
    second: IntArray
    stratum: IntArray
    cell: IntArray
    swapped: BoolArray
    cells: CellKeys
    n_given: int
    sums: dict[str, FloatArray]
    axes: tuple[Axis, ...] | None
    dropped: dict[str, int] = field(default_factory=dict)
    weights: str | None = None
    power: int = 0


def read_pairs_in_engine(table: Query, roles: PairRoles, groups: Groups) -> PairsInEngine:
    """Comparisons sorted into pairs of models, of which no row leaves the engine.

    Weights far from 1 are rescaled, and all is asked again.
    """
    axes = None if groups is None else parse_groups(groups, table.columns)
    for argument, name in {"score": roles.score, "weights": roles.weights}.items():
        if name is not None:
            table.check_numeric(name, argument)
    names_in_use = _columns_in_use(roles, axes)
    refuse_text_among_numbers(table, names_in_use)
    refuse_spark_names(table.frame, names_in_use)
    table = _in_one_order(table, roles)
    kinds = _kinds(table, roles, axes)
    # The rules of rows in memory, on the labels of the kinds.
    sides = {roles.left: kinds.keys[FIRST], roles.right: kinds.keys[SECOND]}
    (first, second), names = sides_of(Table(nw.from_native(pd.DataFrame(kinds.numbers)), sides), roles)
    gone, exchanged = kinds.numbers[_GONE].astype(np.intp), kinds.numbers[EXCHANGED] == 1
    value, named = _verdicts(kinds, roles, first, second, exchanged, names)
    gone = np.where(np.isnan(value) if roles.winner is not None else gone == 1, 1, gone)
    dropped = dropped_rows(gone, kinds.numbers[_N], roles.missing)
    used = gone == 0
    if power := _power_of_weights(kinds, used, roles):
        table = rescaled(table, str(roles.weights), power)
        again = read_pairs_in_engine(table, replace(roles, weights=RESCALED), groups)
        return replace(again, dropped=dropped, power=power)
    first, second = first[used], second[used]
    if (same := first == second).any():
        raise self_comparison(
            {names[code] for code in first[same]}, None, int(kinds.numbers[_N][used][same].sum()), roles
        )
    first, second, models = present_models(first, second, names)
    strata: tuple[str, ...] = ("",)
    stratum = None
    if roles.strata is not None:
        of, of_labels = kinds.keys[roles.strata]
        strata, stratum = strata_of([str(text) for text in as_text(of_labels)], of[used])
    cell, keys = cells_of_pairs(np.minimum(first, second), np.maximum(first, second), stratum, len(models))
    found = _in_use(table, roles, axes, kinds, named, value)
    if roles.key:
        _refuse_repeats(found, roles)
    entry = np.unique(cell, return_index=True)[1]
    given = np.stack([cell, exchanged[used]])
    return PairsInEngine(
        table=found,
        models=tuple(models),
        strata=strata,
        first=first[entry],
        second=second[entry],
        stratum=keys[0],
        cell=cell,
        swapped=exchanged[used],
        cells=_cell_keys(kinds, np.flatnonzero(used)[entry], roles),
        n_given=np.unique(given, axis=1).shape[1],
        sums=_sums(kinds, used, value, roles),
        axes=axes,
        dropped=dropped,
        weights=roles.weights,
    )


def _strata_of(roles: PairRoles) -> tuple[str, ...]:
    return () if roles.strata is None else (roles.strata,)


def _cell_keys(kinds: Grouped, entries: IntArray, roles: PairRoles) -> CellKeys:
    """What makes the cells whose kinds these are one of, each."""
    columns = (FIRST, SECOND, *_strata_of(roles))
    of = [kinds.keys[name] for name in columns]
    labels = [tuple(np.asarray(names, dtype=object)[codes[entries]]) for codes, names in of]
    return CellKeys(columns, tuple(zip(*labels, strict=True)))


def _in_one_order(table: Query, roles: PairRoles) -> Query:
    """The table with both sides in the engine's order of names, and whether that exchanged them."""
    schema = schema_of(table.holding((roles.left, roles.right)))
    kinds = [schema[name] for name in (roles.left, roles.right)]
    refuse_unlike_names(_word(kinds[0]), _word(kinds[1]), roles)
    sides = [nw.col(roles.left), nw.col(roles.right)]
    if not (kinds[0] == kinds[1] and (kinds[0] == nw.String or kinds[0].is_integer())):
        sides = [side.cast(nw.Float64 if kinds[0].is_numeric() else nw.String) for side in sides]
    left, right = sides
    other = left > right
    made = (
        nw.when(other).then(right).otherwise(left).alias(FIRST),
        nw.when(other).then(left).otherwise(right).alias(SECOND),
        # Floats: DuckDB sums whole numbers to what Arrow has as decimals.
        nw.when(other).then(nw.lit(1.0)).otherwise(nw.lit(0.0)).alias(EXCHANGED),
    )
    return table.each(lambda frame: frame.with_columns(*made))


def _word(kind: Any) -> str:
    """What the labels of a column are, as `pair_rules` calls it."""
    text = kind in (nw.String, nw.Categorical, nw.Enum)
    return "text" if text else "booleans" if kind == nw.Boolean else "numbers" if kind.is_numeric() else str(kind)


def _columns_in_use(roles: PairRoles, axes: tuple[Axis, ...] | None) -> list[str | None]:
    sides = [roles.left, roles.right, roles.strata, roles.score, roles.winner, roles.weights, *roles.key]
    return [*sides, *(name for axis in axes or () for name in axis)]


def _reasons(table: Query, roles: PairRoles, axes: tuple[Axis, ...] | None) -> nw.Expr:
    """Why a row is not in use: the first reason in the order score, covariate, group."""
    labels = (roles.left, roles.right, *roles.key, roles.strata, roles.weights)
    asked = (
        [str(roles.score or roles.winner)],
        [name for name in dict.fromkeys(labels) if name is not None],
        list(union(*(axes or ()))),
    )
    return reason_number(table, asked)


def _kinds(table: Query, roles: PairRoles, axes: tuple[Axis, ...] | None) -> Grouped:
    """Rows, weights and scores by the two sides, their order, the stratum, the verdict, and why they are not in use."""
    verdict = () if roles.winner is None else (roles.winner,)
    keys = tuple(dict.fromkeys((FIRST, SECOND, EXCHANGED, *_strata_of(roles), *verdict)))
    made: dict[str, nw.Expr] = {_GONE: _reasons(table, roles, axes)}
    aggregates = {_N: nw.len()}
    if roles.weights is not None:
        w = nw.col(roles.weights).cast(nw.Float64)
        made |= {_W: w, _WW: w * w}
        aggregates |= {_W: nw.col(_W).sum(), _WW: nw.col(_WW).sum()}
        aggregates |= {"__light": nw.col(_W).min(), "__heavy": nw.col(_W).max()}
    if roles.score is not None:
        made |= _moments(nw.col(roles.score).cast(nw.Float64), made.get(_W), made.get(_WW))
        summed = [name for name in made if name not in (_GONE, _W, _WW, SCORE)]
        aggregates |= {name: nw.col(name).sum() for name in summed}
        aggregates |= {"__low": nw.col(SCORE).min(), "__high": nw.col(SCORE).max()}
    frame = table.frame.select(*keys, *(one.alias(name) for name, one in made.items()))
    found = grouped(frame, (*keys, _GONE), aggregates)
    if not found.n_entries:
        raise EmptyDataError("`data` has no rows.")
    numbers = {name: np.asarray(found.keys[name][1], dtype=float)[found.keys[name][0]] for name in (_GONE, EXCHANGED)}
    rest = {name: one for name, one in found.keys.items() if name not in numbers}
    return Grouped(rest, found.numbers | numbers)


def _moments(score: nw.Expr, w: nw.Expr | None, ww: nw.Expr | None) -> dict[str, nw.Expr]:
    """Columns whose sums are those of a score in [0, 1], of its ties, and of what lies outside."""
    v = score - 0.5
    outside = nw.when((score < 0) | (score > 1)).then(nw.lit(1)).otherwise(nw.lit(0))
    tied = nw.when(score == 0.5).then(nw.lit(1)).otherwise(nw.lit(0))
    made = {SCORE: score, _V: v, _VV: v * v, "__outside": outside, "__tied": tied}
    if w is None or ww is None:
        return made
    return made | {_WV: w * v, _WVV: w * v * v, _WWV: ww * v, _WWVV: ww * v * v}


def _verdicts(
    kinds: Grouped, roles: PairRoles, first: IntArray, second: IntArray, exchanged: BoolArray, names: list[str]
) -> tuple[FloatArray, IntArray]:
    """Score of the left model of each kind (NaN: none, or a column of scores), and the model that its verdict names."""
    n = kinds.numbers[_N]
    if roles.winner is None:
        # To an engine NaN is larger than any number.
        known = kinds.numbers[_GONE] != 1
        outside, low, high = (kinds.numbers[name][known] for name in ("__outside", "__low", "__high"))
        if outside.sum() > 0:
            low, high = float(np.nanmin(low)), float(np.nanmax(high))
            raise outside_scores(roles, low, high, None, int(outside.sum()))
        return np.full(n.size, np.nan), np.full(n.size, -1, dtype=np.intp)
    of, labels = kinds.keys[roles.winner]
    found = read_verdicts(labels, roles, names)
    if found.unknown.any():
        counts = np.bincount(of[of >= 0], n[of >= 0], len(labels))
        count = int(counts[found.unknown[:-1]].sum())
        raise unknown_label(roles, counts, labels, found.unknown, names, None, count)
    named = found.named[of]
    stranger = is_stranger((first, second), named)
    if stranger.any():
        raise strange_winner(roles, {names[code] for code in named[stranger]}, None, int(n[stranger].sum()))
    left = np.where(exchanged, second, first)
    return np.where(named >= 0, (named == left).astype(float), found.score[of]), named


def _power_of_weights(kinds: Grouped, used: BoolArray, roles: PairRoles) -> int:
    if roles.weights is None:
        return 0
    low, high = float(np.min(kinds.numbers["__light"][used])), float(np.max(kinds.numbers["__heavy"][used]))
    refuse_light_weights(low, roles.weights)
    return power_of_weights(low, high, roles.weights)


def _in_use(
    table: Query,
    roles: PairRoles,
    axes: tuple[Axis, ...] | None,
    kinds: Grouped,
    named: IntArray,
    value: FloatArray,
) -> Query:
    """The comparisons in use with the scores of the left and of the first model, by conditions on the verdict."""
    used = table.each(lambda frame: frame.filter(_reasons(table, roles, axes) == 0))
    exchanged = kinds.numbers[EXCHANGED] == 1

    def turned(score: nw.Expr) -> nw.Expr:
        return nw.when(nw.col(EXCHANGED) == 1.0).then(1.0 - score).otherwise(score)

    if roles.winner is None:
        assert roles.score is not None
        score = nw.col(roles.score).cast(nw.Float64)
        return used.each(lambda frame: frame.with_columns(score.alias(SCORE), turned(score).alias(FIRST_SCORE)))
    of, labels = kinds.keys[roles.winner]
    winner = nw.col(roles.winner)
    none = [_plain(labels[code]) for code in np.unique(of[np.isnan(value) & (of >= 0)])]
    if none:
        used = used.each(lambda frame: frame.filter(~winner.is_in(none)))
    points_of = {
        points: [_plain(labels[code]) for code in np.unique(of[(value == points) & (named < 0)])]
        for points in (0.0, 0.5, 1.0)
    }
    of_first = _named_first(kinds, roles, (named >= 0) & (value == np.where(exchanged, 0.0, 1.0)))
    for points, says in points_of.items():
        if says:
            of_first = nw.when(winner.is_in(says)).then(turned(nw.lit(points))).otherwise(of_first)
    # In two steps: the left score is made of the first's.
    made = used.each(lambda frame: frame.with_columns(of_first.alias(FIRST_SCORE)))
    return made.each(lambda frame: frame.with_columns(turned(nw.col(FIRST_SCORE)).alias(SCORE)))


def _named_first(kinds: Grouped, roles: PairRoles, won: BoolArray) -> nw.Expr:
    """1 where the verdict names the first model, as it does in the kinds `won`, else 0."""
    of, verdicts = kinds.keys[str(roles.winner)]
    side, firsts = kinds.keys[FIRST]
    pairs = sorted(set(zip(of[won].tolist(), side[won].tolist(), strict=True)))
    if not pairs:
        return nw.lit(0.0)
    plain = [(_plain(verdicts[v]), _plain(firsts[s])) for v, s in pairs]
    if all(type(v) is type(s) and v == s for v, s in plain):
        return nw.when(nw.col(str(roles.winner)) == nw.col(FIRST)).then(nw.lit(1.0)).otherwise(nw.lit(0.0))
    hits = [(nw.col(str(roles.winner)) == v) & (nw.col(FIRST) == s) for v, s in plain]
    return nw.when(nw.any_horizontal(*hits, ignore_nulls=False)).then(nw.lit(1.0)).otherwise(nw.lit(0.0))


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _refuse_repeats(table: Query, roles: PairRoles) -> None:
    """Refuse repeats of a declared key, counted in the engine."""
    columns = tuple(dict.fromkeys((roles.left, roles.right, *roles.key)))
    counts = aggregated(table.frame, columns, nw.len().alias(_N))
    found = grouped(counts, (), {"rows": nw.col(_N).sum(), "keys": nw.len()})
    repeats = int(found.numbers["rows"][0] - found.numbers["keys"][0])
    if repeats:
        raise repeated_key(None, repeats, roles)


def _sums(kinds: Grouped, used: BoolArray, value: FloatArray, roles: PairRoles) -> dict[str, FloatArray]:
    """Sums of the kinds in use, of scores or of verdicts alike."""
    numbers = {name: column[used] for name, column in kinds.numbers.items()}
    n = numbers[_N]
    w, ww = numbers.get(_W, n), numbers.get(_WW, n)
    found = {"n": n, "w": w, "ww": ww, "heaviest": numbers.get("__heavy", np.ones(n.size))}
    if roles.score is None:
        v = value[used] - 0.5
        found |= {"wv": w * v, "wvv": w * v * v, "wwv": ww * v, "wwvv": ww * v * v}
        return found | {"low": value[used], "high": value[used], "tied": n * (v == 0)}
    v, vv = numbers[_V], numbers[_VV]
    found |= {"wv": numbers.get(_WV, v), "wvv": numbers.get(_WVV, vv)}
    found |= {"wwv": numbers.get(_WWV, v), "wwvv": numbers.get(_WWVV, vv)}
    return found | {"low": numbers["__low"], "high": numbers["__high"], "tied": numbers["__tied"]}
