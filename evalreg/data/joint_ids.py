"""The names of roles, all there; and joint ids: "task:question" where an item, a model or the like is named."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

from evalreg.data.engine import LazyTable
from evalreg.data.engine_joint import with_joint_text
from evalreg.data.frame import Table
from evalreg.data.names import known_column, known_columns, refuse_ambiguous
from evalreg.errors import ArgumentError

AnyTable = TypeVar("AnyTable", Table, LazyTable, Table | LazyTable)

_PIECE = re.compile(r"`([^`]+)`|([^`:]+)")


def joint_parts(name: object) -> tuple[str, ...]:
    """Columns that a joint id names, a and "b:c" of "a:`b:c`"; none where it is not a joint id."""
    if not isinstance(name, str) or not (":" in name or "`" in name):
        return ()
    pieces = list(_PIECE.finditer(name))
    if ":".join(piece.group() for piece in pieces) != name:
        return ()
    return tuple(quoted or bare.strip() for quoted, bare in (piece.groups() for piece in pieces))


def with_roles(
    table: AnyTable, numbers: Mapping[str, str], *, by: object = None, **labels: str | None
) -> tuple[AnyTable, tuple[str, ...]]:
    """The table with its joint ids, and the names in `by`; a role that names nothing of the table is refused.

    Numbers, by argument, are columns; labels, and those of `by`, columns or joint ids of them.
    """
    table = with_joint_ids(table, by=by, **labels)
    known = names_of(table)
    by_columns = known_columns(by, known, "by")
    for argument, name in numbers.items():
        known_column(name, table.columns, argument)
    for argument, label in labels.items():
        if label is not None:
            known_column(label, known, argument)
    return table, by_columns


def with_joint_ids(table: AnyTable, **roles: object) -> AnyTable:
    """The table with labels for every joint id among the names of roles; a column of that very name comes first."""
    for argument, value in roles.items():
        for name in value if isinstance(value, list | tuple) else (value,):
            parts = joint_parts(name)
            if isinstance(name, str):
                refuse_ambiguous(name, table.columns, argument)
            if not parts or name in names_of(table):
                continue
            for part in parts:
                known_column(part, table.columns, argument)
            if len(set(parts)) < len(parts):
                raise ArgumentError(f"`{argument}` joins different columns; {name!r} names one twice.")
            if isinstance(table, LazyTable):
                table = with_joint_text(table, str(name), parts, argument)
            else:
                table = table.with_joint(str(name), parts)
    return table


def names_of(table: Table | LazyTable) -> tuple[str, ...]:
    """Names that a role may take: the columns, and the joint ids that were made."""
    return (*table.columns, *table.made)
