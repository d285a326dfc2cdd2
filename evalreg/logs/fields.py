"""Names of fields: a nested one by its dots, or by its last words where only one field ends so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pandas as pd

from evalreg.checks import listed
from evalreg.errors import ArgumentError, MissingColumnError

# Nested fields as deep and as long as these are kept unasked.
DEEPEST, LONGEST = 3, 200


def fields_called(name: str, columns: Iterable[object]) -> list[str]:
    """Columns that a name may mean: the one of that name, else those that end in a dot and the name."""
    names = [str(column) for column in columns]
    return [name] if name in names else [column for column in names if column.endswith(f".{name}")]


def the_field(name: str, columns: Iterable[object]) -> str | None:
    """The one column that a name means; None where there is none, an error where there are two."""
    found = fields_called(name, columns)
    if len(found) > 1:
        raise ArgumentError(
            f'A name must mean one field; "{name}" may be {listed(found, joiner=" or ")}. Write the one that is meant.',
            column=name,
        )
    return found[0] if found else None


def with_short_names(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with each dotted column under its last word too, where no other column could be meant by it."""
    wide = frame.copy(deep=False)
    for column in map(str, frame.columns):
        short = column.rpartition(".")[2]
        if short and short != column and fields_called(short, frame.columns) == [column]:
            wide[short] = frame[column]
    return wide


@contextmanager
def naming(columns: Iterable[object]) -> Iterator[None]:
    """For a name that is not a column, say which fields it may be."""
    try:
        yield
    except MissingColumnError as error:
        if error.column is not None:
            the_field(error.column, columns)
        raise


def nested_value(record: Mapping[str, Any], name: str, where: str = "") -> tuple[bool, Any]:
    """Whether an object has a field, by its key or by dots into nested objects, and its value."""
    found = list(_readings(record, name, ()))
    if len(found) > 1:
        ways = listed((" > ".join(keys) for keys, _ in found), joiner=" and ")
        raise ArgumentError(
            f'A name must mean one field; "{name}" is {ways}{where}, keys within keys being joined by ">". Rename one.',
            column=name,
        )
    return (True, found[0][1]) if found else (False, None)


def flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """An object with the short fields of its nested objects in their place, by their dots; its own keys come first."""
    nested = {key: value for key, value in record.items() if isinstance(value, Mapping)}
    leaves = {name: leaf for key, value in nested.items() for name, leaf in _leaves(value, key, DEEPEST)}
    own = {key: value for key, value in record.items() if key not in nested}
    return own | {name: leaf for name, leaf in leaves.items() if name not in record}


def _leaves(record: Mapping[str, Any], before: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Fields that hold one short value each."""
    for key, value in record.items():
        if isinstance(value, Mapping):
            if depth > 1:
                yield from _leaves(value, f"{before}.{key}", depth - 1)
        elif not isinstance(value, list) and not (isinstance(value, str) and len(value) > LONGEST):
            yield f"{before}.{key}", value


def _readings(record: Any, rest: str, before: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every way to read dots as steps into an object or as part of a key."""
    if not isinstance(record, Mapping):
        return
    if rest in record:
        yield (*before, rest), record[rest]
    for place, sign in enumerate(rest):
        if sign == "." and rest[:place] in record:
            yield from _readings(record[rest[:place]], rest[place + 1 :], (*before, rest[:place]))
