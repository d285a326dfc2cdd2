"""What is particular to an engine: names that DuckDB parses, SQLite's text among numbers, collations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import narwhals.stable.v2 as nw

from evalreg.data.clusters import is_parsed, names_are_parsed
from evalreg.data.engine import Query, engine_answers, is_spark, schema_of
from evalreg.errors import NonNumericError

# A rough count is within this factor of the exact one: a sketch of 64 registers, whose standard error is 13%.
ROUGHLY = 2


def without_parsed(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """The frame without columns that DuckDB cannot be asked for, since it parses their names."""
    if not frame.implementation.is_duckdb() or not names_are_parsed():
        return frame
    relation = frame.to_native()
    plain = [name for name in relation.columns if not is_parsed(name)]
    if not plain or len(plain) == len(relation.columns):
        return frame
    found: nw.LazyFrame[Any] = nw.from_native(relation.project(", ".join(map(_quoted, plain))))
    return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def rough_count(frame: nw.LazyFrame[Any], column: str) -> int | None:
    """About how many values of a column there are; None in other engines."""
    if not frame.implementation.is_duckdb():
        return None
    name = _quoted(column)
    with engine_answers(frame, "count distinct values"):
        return int(frame.to_native().aggregate(f"approx_count_distinct({name})").fetchall()[0][0])


def refuse_text_among_numbers(table: Query, names: Iterable[str | None]) -> None:
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


def bytewise(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """The same frame with columns of text that are compared byte by byte: DuckDB, Spark, Ibis over DuckDB or SQLite."""
    kind = frame.implementation
    change: Callable[[Any], Any]
    if kind.is_duckdb():
        change = _of_duckdb
    elif is_spark(frame):
        change = _of_spark
    elif kind.is_ibis():
        change = _of_ibis
    else:
        return frame
    found: nw.LazyFrame[Any] = nw.from_native(change(frame.to_native()))
    return found


def _of_duckdb(relation: Any) -> Any:
    """Measured on 10^6 rows by two columns of text: grouping takes as long as without, and so do ranges."""
    texts = [name for name, kind in zip(relation.columns, relation.types, strict=True) if str(kind) == "VARCHAR"]
    if not texts or len(set(relation.columns)) < len(relation.columns):
        return relation
    quoted = ['"' + name.replace('"', '""') + '"' for name in texts]
    return relation.project("* REPLACE (" + ", ".join(f"{name} COLLATE C AS {name}" for name in quoted) + ")")


def _of_spark(data: Any) -> Any:
    fields = [one for one in data.schema.fields if getattr(one.dataType, "collation", "UTF8_BINARY") != "UTF8_BINARY"]
    for one in fields:
        name = "`" + one.name.replace("`", "``") + "`"
        data = data.withColumn(one.name, data[name].cast("string collate UTF8_BINARY"))
    return data


def _of_ibis(table: Any) -> Any:
    """What is made of a column has no collation in SQLite; in DuckDB bytes have none."""
    backend = table.get_backend().name
    texts = [name for name, kind in table.schema().items() if kind.is_string()]
    if backend not in ("duckdb", "sqlite") or not texts:
        return table
    if backend == "sqlite":
        return table.mutate(**{name: table[name] + "" for name in texts})
    from ibis import udf

    def encode(value: str) -> bytes: ...  # type: ignore[empty-body]

    def decode(value: bytes) -> str: ...  # type: ignore[empty-body]

    made = [udf.scalar.builtin(one) for one in (encode, decode)]
    return table.mutate(**{name: made[1](made[0](table[name])) for name in texts})
