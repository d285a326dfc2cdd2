"""The reader of rows that stay in an engine: what is missing is filtered and counted there."""

from __future__ import annotations

import narwhals.stable.v2 as nw

from evalreg.checks import listed
from evalreg.data.clusters import Axis
from evalreg.data.engine import LazyTable
from evalreg.data.filters import refuse_filters
from evalreg.data.groups import Groups, parse_groups
from evalreg.data.rows import Roles
from evalreg.errors import ArgumentError, DuplicateRowsError, EmptyDataError, NonFiniteError


def read_in_engine(
    table: LazyTable, roles: Roles, groups: Groups
) -> tuple[LazyTable, tuple[Axis, ...] | None, dict[str, int]]:
    """The rows in use, one an item, which stay where they are; axes of the groups; rows dropped by reason."""
    _refuse_in_memory_only(roles)
    table.check_numeric(roles.score, "score")
    axes = None if groups is None else parse_groups(groups, table.columns)
    table, dropped = _without_missing(table, roles, axes)
    if roles.weights is not None:
        _check_weights(table, roles.weights)
    refuse_filters(table, None, roles.cell_columns)
    if roles.item is not None:
        _refuse_repeats(table, roles)
    return table, axes, dropped


def _refuse_in_memory_only(roles: Roles) -> None:
    if roles.weights is not None and not isinstance(roles.weights, str):
        raise ArgumentError("`weights` of rows in an engine must name a column.")


def _without_missing(table: LazyTable, roles: Roles, axes: tuple[Axis, ...] | None) -> tuple[LazyTable, dict[str, int]]:
    """Rows in which nothing is missing that plays a role, and how many were dropped for which reason."""
    asked = {
        "score": [roles.score],
        "covariate": [name for name in (*roles.cell_columns, roles.item, roles.weights) if name is not None],
        "group": list(dict.fromkeys(name for axis in axes or () for name in axis)),
    }
    dropped, n_left = {}, 0
    for reason, names in asked.items():
        n_all, absent = table.count_absent(names)
        if absent and roles.missing == "raise":
            raise NonFiniteError(
                f'nothing may be missing under `missing="raise"`; {absent} of {n_all} rows have no {reason} '
                f"({listed(names)}).",
                count=absent,
            )
        dropped[reason], n_left = absent, n_all - absent
        table = table.present(names) if absent else table
    if n_left == 0:
        raise EmptyDataError("`data` has no rows, or none is left without missing values.")
    return table, dropped


def _check_weights(table: LazyTable, weight: str) -> None:
    table.check_numeric(weight, "weights")
    smallest = float(table.group((), {"low": nw.col(weight).min()})["low"].iloc[0])
    if not smallest > 0:
        raise ArgumentError(f"`weights` must be positive; the smallest is {smallest:g}.", column=weight)


def _refuse_repeats(table: LazyTable, roles: Roles) -> None:
    assert roles.item is not None
    columns = (*roles.by, roles.item)
    counts = LazyTable(table.frame.group_by(*columns).agg(nw.len().alias("__n"))).group(
        (), {"rows": nw.col("__n").sum(), "items": nw.len()}
    )
    repeats = int(counts["rows"].iloc[0]) - int(counts["items"].iloc[0])
    if repeats:
        raise DuplicateRowsError(
            f"there must be one row for each {' and '.join(map(repr, columns))}; {repeats} rows repeat an earlier one. "
            "Average or remove them in the engine first.",
            column=roles.item,
            count=repeats,
        )
