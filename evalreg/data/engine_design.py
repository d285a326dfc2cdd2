"""The reader of a regression whose rows stay in an engine: what is missing, its cells, and columns of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, MissingName, listed
from evalreg.data.clusters import Axis
from evalreg.data.engine import LazyTable, as_text
from evalreg.data.engine_groups import Grouped, grouped
from evalreg.data.engine_missing import (
    RESCALED,
    dropped_rows,
    power_of_weights,
    reason_number,
    refuse_light_weights,
    rescaled,
)
from evalreg.data.engine_parts import maps_to_parts, multiplied_in_parts, names_of_parts, with_parts
from evalreg.data.engine_spark import refuse_spark_names
from evalreg.data.engine_sqlite import refuse_text_among_numbers
from evalreg.data.engine_terms import Factors
from evalreg.data.filters import refuse_filters
from evalreg.data.frame import refuse_extreme
from evalreg.data.groups import Groups, parse_groups
from evalreg.errors import EmptyDataError, NonFiniteError, NotAvailableError

VALUE = "__value"
# Joint values of the columns that are factors, at most; more of them are rows rather than cells.
MOST_CELLS = 100_000
_GONE, _N, _BAD, _WHICH, _UNSOUND = "__gone", "__n", "__bad", "__which", "__unsound"
_W, _LIGHT, _HEAVY = "__w", "__light", "__heavy"


@dataclass(frozen=True)
class DesignRoles:
    """What a regression asks of the rows of an engine.

    Parameters
    ----------
    outcome : str
        What the score is called.
    score : narwhals.Expr
        The score as a number.
    score_columns, covariates : tuple of str
        Columns whose missing values drop a row, because a score or a covariate is missing.
    keys : tuple of str
        Columns whose joint values are the cells.
    numbers : dict of str to narwhals.Expr
        Numbers of rows, by their code.
    products : dict of str to tuple of (str, float)
        By what they are called in the formula, the numbers that are multiplied, and what is added to each before.
    weights : str, optional
        Column of sampling weights.
    missing : {"drop", "raise"}
        What to do about missing values.
    """

    outcome: str
    score: nw.Expr
    score_columns: tuple[str, ...]
    covariates: tuple[str, ...]
    keys: tuple[str, ...]
    numbers: Mapping[str, nw.Expr]
    products: Mapping[str, Factors]
    weights: str | None
    missing: MissingName


@dataclass(frozen=True, eq=False)
class DesignRows:
    """The rows in use, which stay where they are, and what one query told of them.

    Parameters
    ----------
    table : LazyTable
        With the score less `centre` as `VALUE` and with `parts` as columns.
    labels : DataFrame
        The columns of the keys, one line for each cell.
    codes : dict of tuple of str to int
        Cell of each joint value of the keys.
    count, weight, total : ndarray, shape (n_cells,)
        Rows, sums of weights, and weighted sums of scores less `centre`.
    low, high : ndarray, shape (n_cells,)
        Smallest and largest score less `centre`.
    heaviest : ndarray, shape (n_cells, n_parts + 1)
        The largest size of 1 and of each part, times the square root of the largest weight.
    centre : float
        Mean of the scores.
    parts : tuple of str
        Columns of the numbers less a centre, over a spread, and of their products.
    multiplied : tuple of tuple of int
        Of each part, which of the first parts are multiplied in it; these are the numbers themselves.
    maps : ndarray, shape (n_products, n_parts + 1)
        What the products of the formula are of 1 and of the parts.
    axes : tuple of Axis or None
        The clusterings asked for.
    dropped : dict of str to int
        Rows dropped by reason.
    """

    table: LazyTable
    labels: pd.DataFrame
    codes: dict[tuple[str, ...], int]
    count: FloatArray
    weight: FloatArray
    total: FloatArray
    low: FloatArray
    high: FloatArray
    heaviest: FloatArray
    centre: float
    parts: tuple[str, ...]
    multiplied: tuple[tuple[int, ...], ...]
    maps: FloatArray
    axes: tuple[Axis, ...] | None
    dropped: dict[str, int]


def read_design_in_engine(table: LazyTable, roles: DesignRoles, groups: Groups) -> tuple[DesignRows, DesignRoles]:
    """One query by cell and by what is missing: levels, means and ranges of all that a regression uses.

    With the rows come the roles as they are in these: weights far from 1 are rescaled, and all is asked again.
    """
    axes = None if groups is None else parse_groups(groups, table.columns)
    if roles.weights is not None:
        table.check_numeric(roles.weights, "weights")
    in_use = (*roles.score_columns, *roles.covariates, *roles.keys, roles.weights)
    names_in_use = (*in_use, *(name for axis in axes or () for name in axis))
    refuse_text_among_numbers(table, names_in_use)
    refuse_spark_names(table.frame, names_in_use)
    gone = _reason(table, roles, axes)
    found = _kinds(table, roles, gone)
    codes, reasons = found.keys[_GONE]
    why = np.asarray(reasons, dtype=np.intp)[codes]
    dropped = dropped_rows(why, found.numbers[_N], roles.missing)
    kept = table.each(lambda frame: frame.filter(gone == 0)) if sum(dropped.values()) else table
    refuse_filters(kept, None, roles.covariates)
    used = why == 0
    numbers = {name: column[used] for name, column in found.numbers.items()}
    _refuse_nonfinite(kept, numbers, roles)
    if power := _power_of_weights(numbers, roles):
        far = rescaled(table, str(roles.weights), power)
        rows, again = read_design_in_engine(far, replace(roles, weights=RESCALED), groups)
        return replace(rows, dropped=dropped), again
    count = numbers[_N]
    centres, spreads = _scales(numbers, count, tuple(roles.numbers))
    centre = float(numbers["__y"].sum() / count.sum())
    keys = {name: (found.keys[name][0][used], found.keys[name][1]) for name in roles.keys}
    order = np.lexsort([column for column, _ in reversed(keys.values())]) if keys else np.zeros(1, dtype=np.intp)
    multiplied = multiplied_in_parts(tuple(roles.numbers), roles.products)
    of_numbers = zip(roles.numbers.values(), centres, spreads, strict=True)
    scaled = [(number - float(c)) / float(s) for number, c, s in of_numbers]
    centred = kept.each(lambda frame: frame.with_columns((roles.score - centre).alias(VALUE)))
    shown = [as_text(of)[column[order]] for column, of in keys.values()]
    weighted = numbers["__wy"] if roles.weights is not None else numbers["__y"]
    weight = numbers[_W] if roles.weights is not None else count
    design = DesignRows(
        table=centred.each(lambda frame: with_parts(frame, scaled, multiplied)),
        labels=pd.DataFrame({name: _line(of, column[order]) for name, (column, of) in keys.items()}),
        codes={key: code for code, key in enumerate(zip(*shown, strict=True))} if shown else {(): 0},
        count=count[order],
        weight=weight[order],
        total=(weighted - centre * weight)[order],
        low=numbers["__ylow"][order] - centre,
        high=numbers["__yhigh"][order] - centre,
        heaviest=_heaviest(numbers, roles, centres, spreads, multiplied)[order],
        centre=centre,
        parts=names_of_parts(len(multiplied)),
        multiplied=multiplied,
        maps=maps_to_parts(tuple(roles.numbers), roles.products, multiplied, centres, spreads),
        axes=axes,
        dropped=dropped,
    )
    return design, roles


def _line(labels: Any, codes: Any) -> pd.Series:
    """Labels of the cells; text stays objects."""
    column = pd.Series(np.asarray(labels)[codes])
    return column.astype(object) if not pd.api.types.is_numeric_dtype(column.dtype) else column


def _reason(table: LazyTable, roles: DesignRoles, axes: tuple[Axis, ...] | None) -> nw.Expr:
    """Why a row is not in use: the first reason in the order score, covariate, group."""
    weights = () if roles.weights is None else (roles.weights,)
    asked = (roles.score_columns, (*roles.covariates, *weights), tuple(name for axis in axes or () for name in axis))
    return reason_number(table, [list(dict.fromkeys(names)) for names in asked])


def _columns(roles: DesignRoles) -> dict[str, nw.Expr]:
    """The score and the numbers, by what they are called in a query."""
    return {"__y": roles.score} | {f"__z{v}": number for v, number in enumerate(roles.numbers.values())}


def _kinds(table: LazyTable, roles: DesignRoles, gone: nw.Expr) -> Grouped:
    """Rows, sums and ranges by the keys and by why rows are not in use."""
    numbers = _columns(roles)
    made = {_GONE: gone, **numbers}
    if roles.weights is not None:
        w = nw.col(roles.weights).cast(nw.Float64)
        made |= {_W: w, "__wy": w * roles.score}
    frame = table.frame.select(*roles.keys, *(one.alias(name) for name, one in made.items()))
    aggregates = {_N: nw.len()}
    for name in numbers:
        column = nw.col(name)
        aggregates |= {name: column.sum(), f"{name}n": column.count()}
        aggregates |= {f"{name}low": column.min(), f"{name}high": column.max()}
    if roles.weights is not None:
        aggregates |= {_W: nw.col(_W).sum(), _LIGHT: nw.col(_W).min(), _HEAVY: nw.col(_W).max()}
        aggregates |= {"__wy": nw.col("__wy").sum()}
    found = grouped(frame, (*roles.keys, _GONE), aggregates, most=MOST_CELLS)
    if not found.n_entries:
        raise EmptyDataError("`data` has no rows.")
    if found.n_entries >= MOST_CELLS:
        raise NotAvailableError(
            f"a regression of rows in an engine takes factors of at most {MOST_CELLS:,} joint values; those of "
            f"{listed(roles.keys)} have more. Numbers in columns, arithmetic, np.log, np.exp and np.sqrt stay numbers "
            "there; of anything else make a column in the engine first, or collect the columns "
            f"{listed([*roles.score_columns, *roles.covariates])}."
        )
    return found


def _refuse_nonfinite(kept: LazyTable, numbers: Mapping[str, FloatArray], roles: DesignRoles) -> None:
    """Raise where a score or a number is not finite; which one and how many is asked only where a sum tells of it."""
    columns = tuple(_columns(roles))
    # A sum is finite only of what is; what is not defined is null, which it passes over.
    if not all(np.isfinite(numbers[one]).all() and np.all(numbers[f"{one}n"] == numbers[_N]) for one in columns):
        _refuse_counted(kept, int(numbers[_N].sum()), roles)
    ends = {one: np.array([numbers[f"{one}low"].min(), numbers[f"{one}high"].max()]) for one in columns}
    refuse_extreme(ends["__y"], roles.outcome, "`score`")
    of = dict(zip(roles.numbers, columns[1:], strict=True))
    for called, factors in roles.products.items():
        reached = [ends[of[name]] + added for name, added in factors]
        whole = reached[0] if len(reached) == 1 else np.array([0.0, np.prod([np.abs(one).max() for one in reached])])
        refuse_extreme(whole, called, "terms of the formula")


def _refuse_counted(kept: LazyTable, n_rows: int, roles: DesignRoles) -> None:
    """Raise where scores or numbers of the rows in use are not finite, with how many; one query."""
    frame = kept.frame.select(*(one.alias(name) for name, one in _columns(roles).items()))
    which = nw.lit(0)
    for v in range(len(roles.numbers)):
        which = nw.when(_finite(f"__z{v}")).then(which).otherwise(nw.lit(v + 1))
    unsound = nw.when(_finite("__y")).then(nw.lit(0)).otherwise(nw.lit(1))
    frame = frame.select(unsound.alias(_UNSOUND), which.alias(_WHICH))
    bad = nw.when(nw.col(_WHICH) > 0).then(nw.lit(1)).otherwise(nw.lit(0))
    frame = frame.with_columns(bad.alias(_BAD))
    aggregates = {name: nw.col(name).sum() for name in (_UNSOUND, _BAD)} | {_WHICH: nw.col(_WHICH).max()}
    found = {name: int(column[0]) for name, column in grouped(frame, (), aggregates).numbers.items()}
    if count := found[_UNSOUND]:
        raise NonFiniteError(
            f"`score` must be finite; {roles.outcome!r} is infinite or not defined in {count} of {n_rows} rows in use. "
            "Set such values to missing, or leave the rows out.",
            column=roles.outcome,
            count=count,
        )
    if count := found[_BAD]:
        name = tuple(roles.numbers)[found[_WHICH] - 1]
        raise NonFiniteError(
            f"terms of the formula must be finite; {name!r} is missing or infinite in {count} of {n_rows} rows in use. "
            "Leave such rows out, or change the transformation.",
            column=name,
            count=count,
        )


def _finite(name: str) -> nw.Expr:
    """Whether a column is: nothing else times zero is zero."""
    return nw.col(name) * 0.0 == 0.0


def _power_of_weights(numbers: Mapping[str, FloatArray], roles: DesignRoles) -> int:
    if roles.weights is None:
        return 0
    light, heavy = float(numbers[_LIGHT].min()), float(numbers[_HEAVY].max())
    refuse_light_weights(light, roles.weights)
    return power_of_weights(light, heavy, roles.weights)


def _scales(
    numbers: Mapping[str, FloatArray], count: FloatArray, names: Sequence[str]
) -> tuple[FloatArray, FloatArray]:
    """Means of the numbers, and powers of two near half their ranges: sums about zero keep their digits."""
    found = [(numbers[f"__z{v}"], numbers[f"__z{v}low"], numbers[f"__z{v}high"]) for v in range(len(names))]
    centres = np.array([np.clip(total.sum() / count.sum(), low.min(), high.max()) for total, low, high in found])
    half = np.array([(high.max() - low.min()) / 2 for _, low, high in found])
    spreads = np.exp2(np.frexp(np.where(half > 0, half, 1.0))[1].astype(float))
    return centres, spreads


def _heaviest(
    numbers: Mapping[str, FloatArray],
    roles: DesignRoles,
    centres: FloatArray,
    spreads: FloatArray,
    multiplied: Sequence[tuple[int, ...]],
) -> FloatArray:
    """Bounds of the size of 1 and of each part, times the square root of the largest weight, in each cell."""
    root = np.sqrt(numbers[_HEAVY]) if roles.weights is not None else np.ones(numbers[_N].size)
    ends = [
        np.abs([numbers[f"__z{v}low"] - centres[v], numbers[f"__z{v}high"] - centres[v]]).max(axis=0) / spreads[v]
        for v in range(len(centres))
    ]
    return np.column_stack([root, *(root * np.prod([ends[v] for v in own], axis=0) for own in multiplied)])
