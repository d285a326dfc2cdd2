"""The reader of rows that stay in an engine: what is missing is filtered and counted there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import narwhals.stable.v2 as nw
import numpy as np

from evalreg.checks import FloatArray
from evalreg.data.clusters import Axis, union
from evalreg.data.engine import CellKeys, LazyTable, Measure, Query, aggregated
from evalreg.data.engine_groups import Grouped, grouped
from evalreg.data.engine_missing import (
    RESCALED,
    power_of_weights,
    reason_number,
    refuse_light_weights,
    refuse_missing,
    rescaled,
)
from evalreg.data.engine_spark import refuse_spark_names
from evalreg.data.engine_sqlite import refuse_text_among_numbers
from evalreg.data.frame import MADE, known_column
from evalreg.data.groups import Groups, parse_groups
from evalreg.data.rows import Roles, refuse_filters
from evalreg.errors import ArgumentError, DuplicateRowsError, EmptyDataError

# Where squares are taken about: the middle of scores from 0 to 1.
MIDDLE = 0.5
_REASON, _ROWS = "__reason", "__rows"


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
    cells : CellKeys
        Of the columns of the roles.
    sums : dict of str to ndarray, shape (n_cells,)
        By cell: rows n and weight w, sum t of values, their ends lo and hi, squares s about the middle, largest weight.
    """

    table: LazyTable
    axes: tuple[Axis, ...] | None
    dropped: dict[str, int]
    weights: str | None
    power: int = 0
    cells: CellKeys = field(default_factory=CellKeys)
    sums: dict[str, FloatArray] = field(default_factory=dict)


def mean_measures(score: nw.Expr, weight: nw.Expr | None) -> dict[str, Measure]:
    """Sums t of values and s of their squares about the middle, and their ends lo and hi."""
    w = nw.lit(1.0) if weight is None else weight
    squares = w * (score - MIDDLE) * (score - MIDDLE)
    return {"t": (w * score, "sum"), "s": (squares, "sum"), "lo": (score, "min"), "hi": (score, "max")}


def read_in_engine(
    table: LazyTable,
    roles: Roles,
    groups: Groups,
    values: dict[str, str] | None = None,
    measures: Callable[..., dict[str, Measure]] = mean_measures,
    covariates: Sequence[str] = (),
) -> EngineRows:
    """The rows in use, what is missing counted, and what is measured of each cell: one query.

    `values` are columns of numbers by argument, by default the score; `measures` are made of these and the weight;
    of further `covariates` none may be missing.
    """
    refuse_arrays_of_weights(roles.weights)
    values = {"score": roles.score} if values is None else values
    for argument, name in values.items():
        table.check_numeric(name, argument)
    if roles.weights is not None:
        table.check_numeric(known_column(roles.weights, table.columns, "weights"), "weights")
    axes = None if groups is None else parse_groups(groups, table.columns)
    asked = _asked(roles, axes, list(values.values()))
    asked["covariate"] += covariates
    names_in_use = [name for names in asked.values() for name in names]
    refuse_text_among_numbers(table, names_in_use)
    refuse_spark_names(table.frame, names_in_use)
    weights = roles.weights
    numbers = [nw.col(name).cast(nw.Float64) for name in values.values()]
    w = None if roles.weights is None else nw.col(roles.weights).cast(nw.Float64)
    found = _by_reason(table, roles, asked, measures(*numbers, w) | _of_weights(w))
    codes, reasons = found.keys[_REASON]
    why, rows = np.asarray(reasons)[codes], found.numbers[_ROWS]
    dropped = {name: int(rows[why == number].sum()) for number, name in enumerate(asked, 1)}
    refuse_missing(dropped, asked, int(rows.sum()), roles.missing)
    if any(dropped.values()):
        table = table.present(names_in_use)
    if not (why == 0).any():
        raise EmptyDataError("`data` has no rows, or none is left without missing values.")
    cells, sums = _cells(found.only(why == 0), roles.cell_columns)
    power = 0
    if weights is not None:
        refuse_light_weights(float(sums["light"].min()), weights)
        power = power_of_weights(float(sums["light"].min()), float(sums["heavy"].max()), weights)
    if weights is not None and power:
        table, weights = rescaled(table, weights, power), RESCALED
        sums |= {name: np.ldexp(sums[name], power) for name in ("w", "t", "s", "b", "light", "heavy") if name in sums}
    refuse_filters(table, None, (*roles.cell_columns, *covariates))
    if roles.item is not None:
        _refuse_repeats(table, roles)
    return EngineRows(table, axes, dropped, weights, power, cells, sums)


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


def _of_weights(weight: nw.Expr | None) -> dict[str, Measure]:
    return {} if weight is None else {"w": (weight, "sum"), "light": (weight, "min"), "heavy": (weight, "max")}


def _by_reason(table: LazyTable, roles: Roles, asked: dict[str, list[str]], measures: Mapping[str, Measure]) -> Grouped:
    """What is measured, by cell and the number of the reason for which rows are not in use, 0 for those that are."""
    # Columns are made first: not every engine has products or casts inside a sum.
    made = {name: f"{MADE}sum{i}" for i, name in enumerate(measures)}
    columns = [expression.alias(made[name]) for name, (expression, _) in measures.items()]
    sums = {name: getattr(nw.col(made[name]), how)() for name, (_, how) in measures.items()}
    reason = reason_number(table, asked.values()).alias(_REASON)
    keys = dict.fromkeys(roles.cell_columns)
    return grouped(table.frame.select(reason, *keys, *columns), (_REASON, *keys), {_ROWS: nw.len()} | sums)


def measured_cells(
    table: Query, columns: tuple[str, ...], measures: Mapping[str, Measure]
) -> tuple[CellKeys, dict[str, FloatArray]]:
    """The cells of rows in which nothing is missing, and what is measured of each."""
    made = {name: f"{MADE}sum{i}" for i, name in enumerate(measures)}
    chosen = [expression.alias(made[name]) for name, (expression, _) in measures.items()]
    sums = {name: getattr(nw.col(made[name]), how)() for name, (_, how) in measures.items()}
    found = grouped(table.frame.select(*columns, *table.rows_of, *chosen), columns, {_ROWS: table.rows} | sums)
    return _cells(found, columns)


def _cells(found: Grouped, columns: tuple[str, ...]) -> tuple[CellKeys, dict[str, FloatArray]]:
    """The cells of the rows in use, in the order of their text, and the sums of each."""
    of = [found.keys[name] for name in columns]
    labels = [tuple(np.asarray(names, dtype=object)[codes]) for codes, names in of]
    cells = CellKeys(columns, tuple(zip(*labels, strict=True)) if columns else ((),))
    order = sorted(range(len(cells.keys)), key=cells.keys.__getitem__)
    sums = {name: column[order] for name, column in found.numbers.items()}
    sums["n"] = sums.pop(_ROWS)
    return CellKeys(columns, tuple(cells.labels[place] for place in order)), {"w": sums["n"]} | sums


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
