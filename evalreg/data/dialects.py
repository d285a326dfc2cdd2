"""What is particular to an engine: names that DuckDB parses, SQLite's text among numbers, collations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw

from evalreg.checks import counted, listed
from evalreg.data.clusters import is_parsed, names_are_parsed
from evalreg.data.engine import Lazy, Query, engine_answers, is_spark, schema_of
from evalreg.errors import ArgumentError, NonNumericError


def without_parsed(frame: Lazy) -> Lazy:
    """The frame without columns that DuckDB cannot be asked for, since it parses their names."""
    if not frame.implementation.is_duckdb() or not names_are_parsed():
        return frame
    relation = frame.to_native()
    plain = [name for name in relation.columns if not is_parsed(name)]
    if not plain or len(plain) == len(relation.columns):
        return frame
    readable: Lazy = nw.from_native(relation.project(", ".join(map(_quoted, plain))))
    return readable


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def refuse_unreadable(table: Query, names: Sequence[str]) -> None:
    """Raise where an engine would not find a column by its name, or would count text among its numbers as 0."""
    odd = [name for name in names if "." in name or "`" in name]
    if odd and is_spark(table.frame):
        raise ArgumentError(
            "columns in Spark must not have a dot or a backtick in their names, which stand for fields of structures "
            f"there; got {listed(odd)}. Rename first: "
            f"data.withColumnRenamed({odd[0]!r}, {odd[0].replace('.', '_').replace('`', '_')!r}).",
            column=odd[0],
        )
    if table.frame.implementation.is_ibis() and table.frame.to_native().get_backend().name == "sqlite":
        _refuse_text_among_numbers(table.frame, names)


def _refuse_text_among_numbers(frame: Lazy, names: Sequence[str]) -> None:
    """Raise if a column of numbers has text in some rows, as a CSV file that was imported leaves empty fields."""
    schema = schema_of(frame)
    numbers = [name for name in names if name in schema and (schema[name].is_numeric() or schema[name] == nw.Boolean)]
    if not numbers:
        return
    native, measures = frame.to_native(), []
    for i, name in enumerate(numbers):
        is_text = native[name].typeof().isin(["text", "blob"])
        shown = native[name].cast("string").max(where=is_text)
        measures += [is_text.sum().name(f"n{i}"), shown.name(f"text{i}")]
    with engine_answers(frame, "tell text from numbers"):
        (texts,) = native.aggregate(measures).to_pyarrow().to_pylist()
    for i, name in enumerate(numbers):
        if count := texts[f"n{i}"]:
            raise NonNumericError(
                f"columns of numbers must hold numbers in every row; column {name!r} has text in "
                f'{counted(count, "row")}, such as "{texts[f"text{i}"]}", which SQLite would count as 0. Set it to '
                "NULL where it stands for a missing value: "
                f"UPDATE ... SET {name} = NULL WHERE typeof({name}) = 'text'.",
                column=name,
                count=count,
            )


def bytewise(frame: Lazy) -> Lazy:
    """The same frame with columns of text that are compared byte by byte: DuckDB, Spark, Ibis over DuckDB or SQLite."""
    kind = frame.implementation
    native: Any = frame.to_native()
    if kind.is_duckdb():
        native = _of_duckdb(native)
    elif is_spark(frame):
        native = _of_spark(native)
    elif kind.is_ibis():
        native = _of_ibis(native)
    collated: Lazy = nw.from_native(native)
    return collated


def _of_duckdb(relation: Any) -> Any:
    """Measured on 10^6 rows by two columns of text: grouping takes as long as without, and so do ranges."""
    texts = [name for name, kind in zip(relation.columns, relation.types, strict=True) if str(kind) == "VARCHAR"]
    if not texts or len(set(relation.columns)) < len(relation.columns):
        return relation
    replaced = ", ".join(f"{name} COLLATE C AS {name}" for name in map(_quoted, texts))
    return relation.project(f"* REPLACE ({replaced})")


def _of_spark(data: Any) -> Any:
    for field in data.schema.fields:
        if getattr(field.dataType, "collation", "UTF8_BINARY") != "UTF8_BINARY":
            name = "`" + field.name.replace("`", "``") + "`"
            data = data.withColumn(field.name, data[name].cast("string collate UTF8_BINARY"))
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

    to_bytes, to_text = (udf.scalar.builtin(function) for function in (encode, decode))
    return table.mutate(**{name: to_text(to_bytes(table[name])) for name in texts})
