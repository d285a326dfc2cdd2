"""The reader of rows that stay in an engine: what is missing is filtered and counted there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
from pandas.api.types import infer_dtype

from evalreg.checks import FloatArray, IntArray
from evalreg.data.clusters import Axis, union
from evalreg.data.engine import LazyTable, aggregated
from evalreg.data.engine_groups import Grouped, grouped, sorted_lines
from evalreg.data.engine_missing import (
    RESCALED,
    power_of_weights,
    reason_number,
    refuse_light_weights,
    refuse_missing,
    rescaled,
)
from evalreg.data.engine_spark import keep
from evalreg.data.engine_sqlite import refuse_text_among_numbers
from evalreg.data.filters import refuse_filters
from evalreg.data.groups import Groups, parse_groups
from evalreg.data.names import known_column
from evalreg.data.rows import Roles
from evalreg.errors import ArgumentError, DuplicateRowsError, EmptyDataError

CellLines: TypeAlias = tuple[list[tuple[str, ...]], dict[str, FloatArray]]
"""Labels of cells, sorted as text, and sums of each by name."""

# Where squares are taken about: the middle of scores from 0 to 1.
MIDDLE = 0.5
_REASON, _ROWS, _THERE, _VALUE, _SQUARE = "__reason", "__rows", "__there", "__x", "__s"
# Of the values of each cell: rows, sum, smallest, largest, and squares about the middle.
_SUMS = {
    "n": nw.col(_VALUE).count(),
    "t": nw.col(_VALUE).sum(),
    "lo": nw.col(_VALUE).min(),
    "hi": nw.col(_VALUE).max(),
    "s": nw.col(_SQUARE).sum(),
}


@dataclass(frozen=True, eq=False)
class EngineRows:
    """The rows in use, one an item, which stay where they are.

    Parameters
    ----------
    table : LazyTable
        Nothing is missing in it that plays a role.
    axes : tuple of Axis or None
        Those of the groups.
    dropped : dict of str to int
        Rows dropped by reason.
    weights : str or None
        Column of the weights: another one than was asked for, where these are far from 1.
    power : int
        It holds the weights times two to this power.
    sums : tuple of list and dict, optional
        Labels of the cells, sorted as text, and by name in `_SUMS` what came with the count of what is missing.
    """

    table: LazyTable
    axes: tuple[Axis, ...] | None
    dropped: dict[str, int]
    weights: str | None
    power: int = 0
    sums: CellLines | None = None


def read_in_engine(
    table: LazyTable, roles: Roles, groups: Groups, values: dict[str, str] | None = None, with_sums: bool = False
) -> EngineRows:
    """The rows in use, what is missing counted.

    `values` are columns of numbers by argument, by default the score. `with_sums` asks for those of its cells in the
    same query; they are there where rows have no weights, and all have the labels of their cell.
    """
    refuse_arrays_of_weights(roles.weights)
    values = {"score": roles.score} if values is None else values
    for argument, name in values.items():
        table.check_numeric(name, argument)
    if roles.weights is not None:
        table.check_numeric(roles.weights, "weights")
    if roles.weights is not None:
        known_column(roles.weights, table.columns, "weights")
    axes = None if groups is None else parse_groups(groups, table.columns)
    asked = _asked(roles, axes, list(values.values()))
    names_in_use = [name for names in asked.values() for name in names]
    refuse_text_among_numbers(table, names_in_use)
    table = keep(table, names_in_use)
    weights = roles.weights
    table, dropped, sums = _without_missing(table, roles, asked, with_sums and weights is None)
    power = 0 if weights is None else _power_of_weights(table, weights)
    if weights is not None and power:
        table, weights = rescaled(table, weights, power), RESCALED
    refuse_filters(table, None, roles.cell_columns)
    if roles.item is not None:
        _refuse_repeats(table, roles)
    return EngineRows(table, axes, dropped, weights, power, sums)


def refuse_arrays_of_weights(weights: object) -> None:
    """Rows of an engine have no order that an array could follow."""
    if weights is not None and not isinstance(weights, str):
        raise ArgumentError(
            "rows in an engine have no order, so `weights` must name a column; got "
            f"{type(weights).__name__}. Add it as a column and name that."
        )


def _asked(roles: Roles, axes: tuple[Axis, ...] | None, values: list[str]) -> dict[str, list[str]]:
    """The columns of the roles, by the reason for which a row without one is dropped."""
    labels = (*roles.cell_columns, roles.item, roles.weights)
    return {
        "score": values,
        "covariate": [str(name) for name in labels if name is not None],
        "group": list(union(*(axes or ()))),
    }


def _without_missing(
    table: LazyTable, roles: Roles, asked: dict[str, list[str]], with_sums: bool
) -> tuple[LazyTable, dict[str, int], CellLines | None]:
    """Rows in which nothing is missing that plays a role, and how many were dropped for which reason.

    With the sums of cells comes whether anything is missing; only then the reasons are asked for, and the sums again.
    """
    names = [name for every in asked.values() for name in every]
    if with_sums and (found := _sums_of_all(table, roles, names)) is not None:
        return table, dict.fromkeys(asked, 0), sorted_lines(found, roles.cell_columns)
    found = _by_reason(table, roles, asked, with_sums)
    codes, reasons = found.keys[_REASON]
    why, rows = np.asarray(reasons)[codes], found.numbers[_ROWS]
    dropped = {name: int(rows[why == number].sum()) for number, name in enumerate(asked, 1)}
    refuse_missing(dropped, asked, int(rows.sum()), roles.missing)
    if any(dropped.values()):
        table = table.present(names)
    if not (why == 0).any():
        raise EmptyDataError("`data` has no rows, or none is left without missing values.")
    if not with_sums or not all(_reads_alike(*found.keys[name]) for name in roles.cell_columns):
        return table, dropped, None
    return table, dropped, sorted_lines(found.only(why == 0), roles.cell_columns)


def _reads_alike(codes: IntArray, labels: Any) -> bool:
    """Whether labels read as they do without a missing one: beside it, whole numbers may have been floats."""
    return bool((codes >= 0).all()) or infer_dtype(labels, skipna=False) == "string"


def _sums_of_all(table: LazyTable, roles: Roles, names: list[str]) -> Grouped | None:
    """Sums of each cell over all rows; None where one of some columns is missing in a row, or there is no row."""
    cells = roles.cell_columns
    known = {name: table.there(name) for name in names}
    others = {f"{_THERE}{i}": known[name] for i, name in enumerate(known) if name not in (roles.score, *cells)}
    frame = table.frame.select(*cells, *_summed(roles.score), *(one.alias(name) for name, one in others.items()))
    found = grouped(frame, cells, {_ROWS: nw.len()} | _SUMS | {name: nw.col(name).count() for name in others})
    rows = found.numbers[_ROWS]
    labelled = all((codes >= 0).all() for codes, _ in found.keys.values())
    filled = all(np.array_equal(found.numbers[name], rows) for name in ("n", *others))
    # A score that is no number makes the sum none.
    return found if labelled and filled and rows.sum() > 0 and not np.isnan(found.numbers["t"]).any() else None


def _by_reason(table: LazyTable, roles: Roles, asked: dict[str, list[str]], with_sums: bool) -> Grouped:
    """Rows by the number of the reason for which they are not in use, 0 for those that are; with sums by cell too."""
    cells, columns, sums = (roles.cell_columns, _summed(roles.score), _SUMS) if with_sums else ((), (), {})
    reason = reason_number(table, asked.values()).alias(_REASON)
    return grouped(table.frame.select(reason, *cells, *columns), (_REASON, *cells), {_ROWS: nw.len()} | sums)


def _summed(score: str) -> tuple[nw.Expr, nw.Expr]:
    """The columns that are summed. They are made first: not every engine has products or casts inside a sum."""
    value = nw.col(score).cast(nw.Float64)
    return value.alias(_VALUE), ((value - MIDDLE) * (value - MIDDLE)).alias(_SQUARE)


def _power_of_weights(table: LazyTable, weight: str) -> int:
    found = table.group((), {"low": nw.col(weight).min(), "high": nw.col(weight).max()})
    low, high = float(found["low"].iloc[0]), float(found["high"].iloc[0])
    refuse_light_weights(low, weight)
    return power_of_weights(low, high, weight)


def _refuse_repeats(table: LazyTable, roles: Roles) -> None:
    assert roles.item is not None
    columns = (*roles.by, roles.item)
    counts = LazyTable(aggregated(table.frame, columns, nw.len().alias("__n"))).group(
        (), {"rows": nw.col("__n").sum(), "items": nw.len()}
    )
    repeats = int(counts["rows"].iloc[0]) - int(counts["items"].iloc[0])
    if repeats:
        raise DuplicateRowsError(
            f"there must be one row for each {' and '.join(map(repr, columns))}; {repeats} rows repeat an earlier one. "
            "Average repeated answers first (`sample` of `mean` does), remove copies, and where models or tasks tell "
            f'rows apart name these in `by`, or join them as in item="task:{roles.item}".',
            column=roles.item,
            count=repeats,
        )
