"""Joint ids: "task:question" wherever an item, a model, a sample or a stratum is named."""

from __future__ import annotations

import re
from typing import TypeVar

from evalreg.data.engine import LazyTable
from evalreg.data.frame import Table
from evalreg.data.names import known_column
from evalreg.errors import ArgumentError

AnyTable = TypeVar("AnyTable", Table, LazyTable, Table | LazyTable)

_PIECE = re.compile(r"`([^`]+)`|([^`:]+)")


def joint_parts(name: object) -> tuple[str, ...]:
    """Columns that a joint id names: "a:`b:c`" is a and "b:c"; none where it is no joint id.

    Parameters
    ----------
    name : object
        As passed by the user.

    Returns
    -------
    tuple of str
        At least two, or one in backticks.

    Examples
    --------
    >>> joint_parts("task:question_index"), joint_parts("`a:b`:c"), joint_parts("plain")
    (('task', 'question_index'), ('a:b', 'c'), ())
    """
    if not isinstance(name, str) or not (":" in name or "`" in name):
        return ()
    pieces = list(_PIECE.finditer(name))
    if ":".join(piece.group() for piece in pieces) != name:
        return ()
    return tuple(quoted or bare.strip() for quoted, bare in (piece.groups() for piece in pieces))


def with_joint_ids(table: AnyTable, **roles: object) -> AnyTable:
    """The table with labels for every joint id among the names of roles; a column of that very name comes first.

    Parameters
    ----------
    table : Table or LazyTable
        The data.
    **roles : str, list of str or None
        What the caller passed, by argument.

    Returns
    -------
    Table or LazyTable
        The same where there are none.

    Raises
    ------
    MissingColumnError
        If a part of a joint id is no column.
    ArgumentError
        If the rows are in an engine, or a part is named twice.
    """
    for argument, value in roles.items():
        for name in value if isinstance(value, list | tuple) else (value,):
            parts = joint_parts(name)
            if not parts or name in names_of(table):
                continue
            for part in parts:
                known_column(part, table.columns, argument)
            if len(set(parts)) < len(parts):
                raise ArgumentError(f"`{argument}` joins different columns; {name!r} names one twice.")
            if isinstance(table, LazyTable):
                raise ArgumentError(
                    f"`{argument}={name!r}` joins columns of rows in memory. Make a column of both in the engine, or "
                    "collect the frame first."
                )
            table = table.with_joint(str(name), parts)
    return table


def names_of(table: Table | LazyTable) -> tuple[str, ...]:
    """Names that a role may take: the columns, and the joint ids that were made.

    Parameters
    ----------
    table : Table or LazyTable
        The data.

    Returns
    -------
    tuple of str
        Columns first.
    """
    return table.columns if isinstance(table, LazyTable) else (*table.columns, *table.made)
