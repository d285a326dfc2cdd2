"""The reader of comparisons that stay in an engine: one grouped query tells all that the pairs of models need."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.data.clusters import Axis, union
from evalreg.data.engine import LazyTable, aggregated, as_text, schema_of
from evalreg.data.engine_groups import Grouped, grouped
from evalreg.data.engine_missing import (
    RESCALED,
    dropped_rows,
    power_of_weights,
    reason_number,
    refuse_light_weights,
    rescaled,
)
from evalreg.data.engine_spark import refuse_spark_names
from evalreg.data.engine_sqlite import refuse_text_among_numbers
from evalreg.data.frame import Table
from evalreg.data.groups import Groups, parse_groups
from evalreg.data.pair_rules import cells_of_pairs, present_models, repeated_key, self_comparison, sides_of, strata_of
from evalreg.data.verdicts import PairRoles, is_stranger, outside_scores, read_verdicts, strange_winner, unknown_label
from evalreg.errors import EmptyDataError

SCORE = "__score"
# The two sides, the smaller name first in the engine's order, and whether that exchanged them.
FIRST, SECOND, EXCHANGED = "__first", "__second", "__exchanged"
_GONE, _N = "__gone", "__n"
# Sums over rows of w, w^2 and their products with v and v^2, v being the score less one half.
_W, _WW, _V, _VV, _WV, _WVV, _WWV, _WWVV = "__w", "__ww", "__v", "__vv", "__wv", "__wvv", "__wwv", "__wwvv"


@dataclass(frozen=True, eq=False)
class PairsInEngine:
    """Comparisons in an engine, and the rows, weights and scores by (left, right, stratum, verdict), one kind each.

    Parameters
    ----------
    table : LazyTable
        The comparisons in use, with the score of the left model in a column of its own.
    models, strata : tuple of str
        Sorted as text.
    first, second, stratum : ndarray of int, shape (n_cells,)
        The models of each cell, first before second, and its stratum.
    cell : ndarray of int, shape (n_kinds,)
        Cell of each kind.
    swapped : ndarray of bool, shape (n_kinds,)
        Whether the left model of a kind is the cell's second.
    cell_columns : tuple of str
        Columns whose joint values are the cells, either way round.
    codes : dict of tuple of str to int
        Cell of each joint value of these, and below those whose first column is the cell's second model.
    turned : frozenset of tuple of str
        See `codes`.
    n_kinds : int
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

    table: LazyTable
    models: tuple[str, ...]
    strata: tuple[str, ...]
    first: IntArray
    second: IntArray
    stratum: IntArray
    cell: IntArray
    swapped: BoolArray
    cell_columns: tuple[str, ...]
    codes: dict[tuple[str, ...], int]
    turned: frozenset[tuple[str, ...]]
    n_kinds: int
    sums: dict[str, FloatArray]
    axes: tuple[Axis, ...] | None
    dropped: dict[str, int] = field(default_factory=dict)
    weights: str | None = None
    power: int = 0


def read_pairs_in_engine(
    table: LazyTable, roles: PairRoles, groups: Groups, *, as_given: bool = False
) -> PairsInEngine:
    """Comparisons sorted into pairs of models, of which no row leaves the engine.

    Weights far from 1 are rescaled, and all is asked again. Sums of shards need rows `as_given`: the score of the left
    model, whichever it is.
    """
    axes = _checked_axes(table, groups)
    for argument, name in {"score": roles.score, "weights": roles.weights}.items():
        if name is not None:
            table.check_numeric(name, argument)
    names_in_use = _columns_in_use(roles, axes)
    refuse_text_among_numbers(table, names_in_use)
    refuse_spark_names(table.frame, names_in_use)
    kinds = _kinds(table, roles, axes)
    # The rules of rows in memory, on the labels of the kinds.
    labels = Table(nw.from_native(pd.DataFrame(kinds.numbers)), dict(kinds.keys))
    (left, right), names = sides_of(labels, roles)
    gone = kinds.numbers[_GONE].astype(np.intp)
    value, named = _verdicts(kinds, roles, left, right, names, gone)
    gone = np.where(np.isnan(value) if roles.winner is not None else gone == 1, 1, gone)
    dropped = dropped_rows(gone, kinds.numbers[_N], roles.missing)
    used = gone == 0
    if power := _power_of_weights(kinds, used, roles):
        table = rescaled(table, str(roles.weights), power)
        again = read_pairs_in_engine(table, replace(roles, weights=RESCALED), groups, as_given=as_given)
        return replace(again, dropped=dropped, power=power)
    left, right = left[used], right[used]
    rows = kinds.numbers[_N][used]
    if (left == right).any():
        same = left == right
        raise self_comparison({names[code] for code in left[same]}, None, int(rows[same].sum()), roles)
    left, right, models = present_models(left, right, names)
    strata: tuple[str, ...] = ("",)
    stratum = None
    if roles.strata is not None:
        of, of_labels = kinds.keys[roles.strata]
        strata, stratum = strata_of([str(text) for text in as_text(of_labels)], of[used])
    cell, keys = cells_of_pairs(np.minimum(left, right), np.maximum(left, right), stratum, len(models))
    found = _in_use(table, roles, axes, kinds, named, value)
    if roles.key:
        _refuse_repeats(found, roles)
    codes, turned = _raw_cells(kinds, used, roles, cell, left > right)
    n_kinds, columns = len(codes), raw_columns(roles)
    if not as_given and _exchangeable(found, roles):
        found, columns = found.each(lambda frame: _in_one_order(frame, roles)), (FIRST, SECOND, *columns[2:])
        other = {(key[1], key[0], *key[2:]): one for key, one in codes.items()}
        turned = turned | {(key[1], key[0], *key[2:]) for key in codes if key not in turned}
        codes = other | codes
    return PairsInEngine(
        table=found,
        models=tuple(models),
        strata=strata,
        first=keys[1],
        second=keys[2],
        stratum=keys[0],
        cell=cell,
        swapped=left > right,
        cell_columns=columns,
        codes=codes,
        turned=turned,
        n_kinds=n_kinds,
        sums=_sums(kinds, used, value, roles),
        axes=axes,
        dropped=dropped,
        weights=roles.weights,
    )


def raw_columns(roles: PairRoles) -> tuple[str, ...]:
    """Columns whose joint values are cells, either way round."""
    return (roles.left, roles.right) if roles.strata is None else (roles.left, roles.right, roles.strata)


def _exchangeable(table: LazyTable, roles: PairRoles) -> bool:
    """Whether an engine can tell which of two sides comes first: both are text, or both whole numbers of one type."""
    schema = schema_of(table.holding((roles.left, roles.right)))
    kinds = [schema[name] for name in (roles.left, roles.right)]
    return bool(kinds[0] == kinds[1] and (kinds[0] == nw.String or kinds[0].is_integer()))


def _in_one_order(frame: nw.LazyFrame[Any], roles: PairRoles) -> nw.LazyFrame[Any]:
    """Pairs of models in one order each, with the scores of their first."""
    left, right = nw.col(roles.left), nw.col(roles.right)
    other = left > right
    return frame.with_columns(
        nw.when(other).then(right).otherwise(left).alias(FIRST),
        nw.when(other).then(left).otherwise(right).alias(SECOND),
        nw.when(other).then(1.0 - nw.col(SCORE)).otherwise(nw.col(SCORE)).alias(SCORE),
        # Floats: DuckDB sums whole numbers to what Arrow has as decimals.
        nw.when(other).then(nw.lit(1.0)).otherwise(nw.lit(0.0)).alias(EXCHANGED),
    )


def _checked_axes(table: LazyTable, groups: Groups) -> tuple[Axis, ...] | None:
    return None if groups is None else parse_groups(groups, table.columns)


def _columns_in_use(roles: PairRoles, axes: tuple[Axis, ...] | None) -> list[str | None]:
    sides = [*raw_columns(roles), roles.score, roles.winner, roles.weights, *roles.key]
    return [*sides, *(name for axis in axes or () for name in axis)]


def _reasons(table: LazyTable, roles: PairRoles, axes: tuple[Axis, ...] | None) -> nw.Expr:
    """Why a row is not in use: the first reason in the order score, covariate, group."""
    labels = (roles.left, roles.right, *roles.key, roles.strata, roles.weights)
    asked = (
        [str(roles.score or roles.winner)],
        [name for name in dict.fromkeys(labels) if name is not None],
        list(union(*(axes or ()))),
    )
    return reason_number(table, asked)


def _kinds(table: LazyTable, roles: PairRoles, axes: tuple[Axis, ...] | None) -> Grouped:
    """Rows, weights and scores by the two sides, the stratum, the verdict, and why they are not in use: one query."""
    keys = tuple(dict.fromkeys((*raw_columns(roles), *([] if roles.winner is None else [roles.winner]))))
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
    codes, reasons = found.keys[_GONE]
    return Grouped(
        {name: one for name, one in found.keys.items() if name != _GONE},
        {**found.numbers, _GONE: np.asarray(reasons, dtype=float)[codes]},
    )


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
    kinds: Grouped, roles: PairRoles, left: IntArray, right: IntArray, names: list[str], gone: IntArray
) -> tuple[FloatArray, IntArray]:
    """Score of the left model of each kind (NaN: none, or a column of scores), and the model that its verdict names."""
    n = kinds.numbers[_N]
    if roles.winner is None:
        # To an engine NaN is larger than any number.
        outside, low, high = (kinds.numbers[name][gone != 1] for name in ("__outside", "__low", "__high"))
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
    stranger = is_stranger((left, right), named)
    if stranger.any():
        raise strange_winner(roles, {names[code] for code in named[stranger]}, None, int(n[stranger].sum()))
    return np.where(named >= 0, (named == left).astype(float), found.score[of]), named


def _power_of_weights(kinds: Grouped, used: BoolArray, roles: PairRoles) -> int:
    if roles.weights is None:
        return 0
    low, high = float(np.min(kinds.numbers["__light"][used])), float(np.max(kinds.numbers["__heavy"][used]))
    refuse_light_weights(low, roles.weights)
    return power_of_weights(low, high, roles.weights)


def _in_use(
    table: LazyTable,
    roles: PairRoles,
    axes: tuple[Axis, ...] | None,
    kinds: Grouped,
    named: IntArray,
    value: FloatArray,
) -> LazyTable:
    """The comparisons in use with the score of the left model, made by conditions on the verdict."""
    used = table.each(lambda frame: frame.filter(_reasons(table, roles, axes) == 0))
    if roles.winner is None:
        assert roles.score is not None
        points_of = nw.col(roles.score).cast(nw.Float64).alias(SCORE)
        return used.each(lambda frame: frame.with_columns(points_of))
    of, labels = kinds.keys[roles.winner]
    winner = nw.col(roles.winner)
    none = [_plain(labels[code]) for code in np.unique(of[np.isnan(value) & (of >= 0)])]
    if none:
        used = used.each(lambda frame: frame.filter(~winner.is_in(none)))
    score = _by_name(kinds, roles, named, value)
    for points in (0.0, 0.5, 1.0):
        says = [_plain(labels[code]) for code in np.unique(of[(value == points) & (named < 0)])]
        if says:
            score = nw.when(winner.is_in(says)).then(nw.lit(points)).otherwise(score)
    return used.each(lambda frame: frame.with_columns(score.alias(SCORE)))


def _by_name(kinds: Grouped, roles: PairRoles, named: IntArray, value: FloatArray) -> nw.Expr:
    """1 where the verdict names the left model, else 0: what each name is on the left is known from the kinds."""
    of, verdicts = kinds.keys[str(roles.winner)]
    side, lefts = kinds.keys[roles.left]
    won = (named >= 0) & (value == 1)
    pairs = sorted(set(zip(of[won].tolist(), side[won].tolist(), strict=True)))
    if not pairs:
        return nw.lit(0.0)
    plain = [(_plain(verdicts[v]), _plain(lefts[s])) for v, s in pairs]
    if all(type(v) is type(s) and v == s for v, s in plain):
        return nw.when(nw.col(str(roles.winner)) == nw.col(roles.left)).then(nw.lit(1.0)).otherwise(nw.lit(0.0))
    hits = [(nw.col(str(roles.winner)) == v) & (nw.col(roles.left) == s) for v, s in plain]
    return nw.when(nw.any_horizontal(*hits, ignore_nulls=False)).then(nw.lit(1.0)).otherwise(nw.lit(0.0))


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _refuse_repeats(table: LazyTable, roles: PairRoles) -> None:
    """Refuse repeats of a declared key, counted in the engine."""
    columns = tuple(dict.fromkeys((roles.left, roles.right, *roles.key)))
    counts = aggregated(table.frame, columns, nw.len().alias(_N))
    found = grouped(counts, (), {"rows": nw.col(_N).sum(), "keys": nw.len()})
    repeats = int(found.numbers["rows"][0] - found.numbers["keys"][0])
    if repeats:
        raise repeated_key(None, repeats, roles)


def _raw_cells(
    kinds: Grouped, used: BoolArray, roles: PairRoles, cell: IntArray, swapped: BoolArray
) -> tuple[dict[tuple[str, ...], int], frozenset[tuple[str, ...]]]:
    """Cell of the joint values of the columns of sides and strata, and which of them are the other way round."""
    columns = raw_columns(roles)
    shown = [as_text(kinds.keys[name][1])[kinds.keys[name][0][used]] for name in columns]
    keys = list(zip(*shown, strict=True))
    codes = dict(zip(keys, cell.tolist(), strict=True))
    return codes, frozenset(key for key, turned in zip(keys, swapped, strict=True) if turned)


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
