"""Text of an engine, told apart byte by byte as in memory, whatever the collation of its column says.

Under a collation "a" and "A", or "a" and "a " may be one to an engine: two clusters, or two models, would be merged
without a word. Types do not show a collation, Spark's apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narwhals.stable.v2 as nw

from evalreg.data.engine_spark import is_spark


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
