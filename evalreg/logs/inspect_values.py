"""Values of Inspect's scores as numbers, and fields of its samples as columns."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from evalreg.checks import nearest
from evalreg.errors import ArgumentError, LogFormatError, MissingColumnError
from evalreg.logs.records import Long, settled, shortened

# What Inspect's `value_to_float` makes of text, which it looks at in this order.
LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
LONGEST = 200
# What stands in a summary for a field that is too long for it.
REMOVED = "Key removed from summary (> 1k)"


def as_number(value: Any) -> float | None:
    """A value as `inspect_ai.scorer.value_to_float()` has it; NaN if unscored, None if not a number."""
    if value is None:  # older versions wrote NaN so
        return math.nan
    if isinstance(value, str):
        if value in LETTERS:
            return LETTERS[value]
        word = value.lower()
        if word in WORDS:
            return WORDS[word]
        try:
            number = float(word)
        except ValueError:
            return None
        return number if math.isfinite(number) else None
    if not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return None if math.isinf(number) else number


def printable(text: str) -> str:
    """Text that any table can hold: half characters, which JSON may spell, are written out."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def printable_cell(value: Any) -> Any:
    """A value of which text is printable, and a long one still marked as such."""
    if not isinstance(value, str):
        return value
    return Long(printable(value)) if isinstance(value, Long) else printable(value)


def is_thinned(value: Any) -> bool:
    """Whether a summary may hold less than the sample: text is shortened, longer things are removed."""
    return isinstance(value, str) and (value == REMOVED or value.endswith("..."))


def values_at(record: Any, path: str) -> list[Any]:
    """Everything that a dotted name may mean in a record, since keys may contain dots themselves."""
    if not isinstance(record, dict):
        return []
    found = [record[path]] if path in record else []
    for place in (place for place, letter in enumerate(path) if letter == "."):
        found += values_at(record.get(path[:place]), path[place + 1 :])
    return found


def short_fields(metadata: Any, prefix: str = "metadata.", depth: int = 0) -> Iterable[tuple[str, Any]]:
    """Numbers, booleans and short text of a sample's metadata, by dotted names."""
    if not isinstance(metadata, dict) or depth > 8:
        return
    for key, value in metadata.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from short_fields(value, f"{name}.", depth + 1)
        elif value != REMOVED and (kept := shortened(value, LONGEST)) is not None:
            yield name, kept


def field_table(samples: Sequence[dict[str, Any]], columns: Sequence[str] | None, name: str) -> dict[str, list[Any]]:
    """One list for each field, as long as the samples: the short ones of metadata, or those asked for."""
    table: dict[str, list[Any]] = {}
    for row, sample in enumerate(samples):
        for column, value in _asked(sample, columns) if columns is not None else short_fields(sample.get("metadata")):
            cells = table.get(column)
            if cells is None:
                cells = table[column] = [None] * len(samples)
            if cells[row] is not None:
                raise LogFormatError(
                    f'The name "{column}" means two fields of sample {sample.get("id")!r} in {name}: {cells[row]!r} '
                    f"and {value!r}. Pass `columns` without it."
                )
            cells[row] = printable_cell(value)
    for column in columns or ():
        if column not in table and samples:
            known = [field for field, _ in short_fields(samples[0].get("metadata"))]
            hint = nearest(column, known) or (f" Such as {known[0]!r}." if known else "")
            raise MissingColumnError(f'`columns` names "{column}", which no sample of {name} has.{hint}', column=column)
    return {column: found for column, cells in table.items() if (found := settled(cells)) is not None}


def _asked(sample: dict[str, Any], columns: Sequence[str]) -> Iterable[tuple[str, Any]]:
    """Values of the named fields; what is neither number nor text is written as JSON."""
    for column in columns:
        found = values_at(sample, column)
        if len(found) > 1:
            raise ArgumentError(
                f'`columns` names "{column}", which means {len(found)} fields of sample {sample.get("id")!r}: '
                f"{' and '.join(repr(value)[:60] for value in found)}. Leave it out, or rename one in the task."
            )
        for value in found:
            if value is not None:
                yield column, value if isinstance(value, bool | int | float | str) else json.dumps(value)


def as_column(cells: list[Any]) -> pd.Series[Any]:
    """A column of one kind, or of objects as they are: an id 1 does not turn into 1.0 beside a missing one."""
    kinds = {type(cell) for cell in cells} - {type(None)}
    if kinds == {str}:
        return pd.Series(cells, dtype="str")
    if len(kinds) == 1 and None not in cells and not (kinds == {int} and any(abs(cell) >= 1 << 62 for cell in cells)):
        return pd.Series(cells)
    return pd.Series(cells, dtype=object)
