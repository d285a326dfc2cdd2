"""What is particular to SQLite: a column keeps values of any type, and text among numbers counts as 0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import narwhals.stable.v2 as nw

from evalreg.data.engine import LazyTable, engine_answers, schema_of
from evalreg.errors import NonNumericError


def refuse_text_among_numbers(table: LazyTable, names: Iterable[str | None]) -> None:
    """Raise if a column of numbers has text in some rows, as a CSV file that was imported leaves empty fields.

    SQLite would take it for 0. One query, in SQLite alone.
    """
    frame = table.frame
    if not frame.implementation.is_ibis() or frame.to_native().get_backend().name != "sqlite":
        return
    schema = schema_of(frame)
    used = [name for name in dict.fromkeys(names) if name is not None and name in schema]
    numbers = [name for name in used if schema[name].is_numeric() or schema[name] == nw.Boolean]
    if not numbers:
        return
    native = frame.to_native()
    with engine_answers(frame, "tell text from numbers"):
        counted = native.aggregate([_is_text(native, name).sum().name(f"n{i}") for i, name in enumerate(numbers)])
        (counts,) = counted.to_pyarrow().to_pylist()
        wrong = {name: counts[f"n{i}"] or 0 for i, name in enumerate(numbers)}
        name = next((name for name in numbers if wrong[name]), None)
        if name is None:
            return
        rows = native.filter(_is_text(native, name)).select(value=native[name].cast("string")).limit(1)
        (shown,) = rows.to_pyarrow().to_pylist()
    raise NonNumericError(
        f"columns of numbers must hold numbers in every row; column {name!r} has text in {wrong[name]:,} rows, such as "
        f'"{shown["value"]}", which SQLite would count as 0. Set it to NULL where it stands for a missing value: '
        f"UPDATE ... SET {name} = NULL WHERE typeof({name}) = 'text'.",
        column=name,
        count=wrong[name],
    )


def _is_text(native: Any, name: str) -> Any:
    return native[name].typeof().isin(["text", "blob"])
