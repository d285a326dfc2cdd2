"""The text of groups: columns, crossed or joined."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import pandas as pd

from evalreg.checks import IntArray, listed
from evalreg.data.clusters import Axis, axis_name, factorize
from evalreg.data.engine import LazyTable
from evalreg.data.engine_joint import with_joint_text
from evalreg.data.frame import Table, known_column, known_columns, refuse_ambiguous
from evalreg.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


Groups: TypeAlias = Any


def group_labels(table: Table, groups: Groups) -> tuple[tuple[Axis, ...] | None, dict[str, tuple[IntArray, Any]]]:
    """Axes of the groups asked for, or None; and by column the codes of all rows, -1 where missing, with labels."""
    if groups is None:
        return None, {}
    if isinstance(groups, str) or (isinstance(groups, list | tuple) and all(isinstance(g, str) for g in groups)):
        axes = parse_groups(groups, table.columns)
        return axes, {name: table.labels(name, "groups") for axis in axes for name in axis}
    given = as_label_dict(groups)
    labels = {name: factorize(table.align(name, values)) for name, values in given.items()}
    return tuple((name,) for name in given), labels


def parse_groups(groups: object, columns: Sequence[str]) -> tuple[Axis, ...]:
    """Axes named by "prompt + language:question", (('prompt',), ('language', 'question')), or by a list of such names.

    Plus crosses, the colon joins; backticks go around a name that contains either.
    """
    for name in [groups] if isinstance(groups, str) else groups if isinstance(groups, list | tuple) else ():
        if isinstance(name, str):
            refuse_ambiguous(name, columns, "groups")
    if isinstance(groups, str):
        axes = [(groups,)] if groups in columns else [_parse_axis(part, columns) for part in _split(groups, "+")]
    elif isinstance(groups, list | tuple) and not groups:
        raise ArgumentError("`groups` is an empty list; pass groups=None for independent rows.")
    elif isinstance(groups, list | tuple) and all(isinstance(name, str) for name in groups):
        axes = [(name,) if name in columns else _parse_axis(name, columns) for name in groups]
    else:
        raise ArgumentTypeError(
            '`groups` must name columns here: one, a text such as "prompt + judge", or a list; got '
            f"{type(groups).__name__}. Rows in an engine, and sums, have no order that labels could follow: add the "
            "labels as a column and name that."
        )
    sets = [frozenset(axis) for axis in axes]
    repeated = [axis_name(axis) for i, axis in enumerate(axes) if sets[i] in sets[:i] or len(sets[i]) < len(axis)]
    if repeated:
        raise ArgumentError(f"`groups` names {listed(repeated)} twice; each dimension once.")
    return tuple(axes)


def _split(text: str, separator: str) -> list[str]:
    pieces = re.findall(rf"(?:`[^`]*`|[^`{re.escape(separator)}])+", text)
    if text.count("`") % 2 or len(pieces) != len(re.sub(r"`[^`]*`", "x", text).split(separator)):
        raise ArgumentError(f'`groups` must read like "prompt + judge" or "language:question"; got "{text}".')
    if not all(piece.strip() for piece in pieces):
        raise ArgumentError(f'`groups` must read like "prompt + judge" or "language:question"; got "{text}".')
    return [piece.strip() for piece in pieces]


def _parse_axis(text: str, columns: Sequence[str]) -> Axis:
    refuse_ambiguous(text, columns, "groups")
    if text in columns:
        return (text,)
    names = [name[1:-1] if name.startswith("`") and name.endswith("`") else name for name in _split(text, ":")]
    for name in names:
        if name not in columns:
            known_column(name, columns, "groups")
    return tuple(names)


def same_partition(codes: IntArray, other: IntArray) -> bool:
    """Whether codes of rows say the same of which rows go together, and of which have none."""
    return np.array_equal(pd.factorize(codes)[0], pd.factorize(other)[0])


def name_in_use(name: str, argument: str) -> ArgumentError:
    """What is said of labels for `groups` that are called as a column with another role is."""
    return ArgumentError(
        f'`groups` holds labels called "{name}", as the column of `{argument}` is, and they are others. Give them a '
        'name of their own: groups={"cluster": labels}.',
        column=name,
    )


def as_label_dict(groups: Groups) -> dict[str, Any]:
    """Labels by name, of an array, a Series or a dict of them; an unnamed array is called "groups"."""
    if isinstance(groups, pd.DataFrame):
        groups = {str(name): groups[name] for name in groups.columns}
    if isinstance(groups, dict):
        if not groups:
            raise ArgumentError("`groups` is an empty dict; pass groups=None for independent rows.")
        if any(isinstance(value, str) for value in groups.values()):
            names = [value for value in groups.values() if isinstance(value, str)]
            raise ArgumentTypeError(
                "a dict for `groups` holds labels, one a row, and not column names; got str. Name columns in a list: "
                f"groups={names[:3]}."
            )
        return {name: labels for one, value in groups.items() for name, labels in _named(str(one), value).items()}
    return _named("groups", groups)


def _named(name: str, labels: Any) -> dict[str, Any]:
    if isinstance(labels, pd.MultiIndex) or (isinstance(labels, pd.Index) and labels.nlevels > 1):
        raise ArgumentTypeError(
            "`groups` must hold one label a row; a MultiIndex holds several. Pass a dict of its levels to cross them, "
            'such as {"prompt": index.get_level_values(0), "judge": index.get_level_values(1)}.'
        )
    if isinstance(labels, str | bytes | dict) or not (hasattr(labels, "__len__") and hasattr(labels, "__getitem__")):
        raise ArgumentTypeError(f"`groups` must hold one label a row; got {type(labels).__name__} for {name!r}.")
    dimensions = getattr(labels, "ndim", 1)
    if dimensions != 1:
        raise ArgumentTypeError(
            f"`groups` must be one-dimensional; got {dimensions} dimensions. Pass a dict of one array each."
        )
    own = getattr(labels, "name", None)
    return {str(own) if name == "groups" and own not in (None, "") else name: _in_python(labels)}


def _in_python(labels: Any) -> Any:
    """Labels that pandas takes: a column of pyarrow or polars as a list, everything else as it is."""
    if hasattr(labels, "to_pylist"):
        return labels.to_pylist()
    return labels.to_list() if type(labels).__module__.partition(".")[0] == "polars" else labels
