"""Joint ids of rows that stay in an engine: "task:question" as a column of text that the engine makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import narwhals.stable.v2 as nw

from evalreg.data.engine import LazyTable, fetched, schema_of
from evalreg.errors import ArgumentError


def with_joint_text(table: LazyTable, name: str, parts: Sequence[str], argument: str) -> LazyTable:
    """The table with the joint text of some columns, spelled as in memory, missing where one of them is.

    Different values that would read alike, ("a:b", "c") and ("a", "b:c"), are refused.
    """
    schema = schema_of(table.frame)
    texts = {part: _text(part, schema[part], argument) for part in parts}
    _refuse_alike(table, texts, [part for part in parts if _is_text(schema[part])], argument)
    made = nw.concat_str(*texts.values(), separator=":", ignore_nulls=False).alias(name)
    joined = table.each(lambda frame: frame.with_columns(made))
    return replace(joined, made=(*table.made, name))


def _is_text(kind: Any) -> bool:
    return bool(kind in (nw.String, nw.Categorical, nw.Enum))


def _text(name: str, kind: Any, argument: str) -> nw.Expr:
    column = nw.col(name)
    if kind == nw.Boolean:
        return nw.when(column).then(nw.lit("True")).otherwise(nw.when(~column).then(nw.lit("False")))
    if _is_text(kind) or kind.is_integer() or kind == nw.Date:
        return column.cast(nw.String)
    raise ArgumentError(
        f"`{argument}` joins columns of text, whole numbers, Booleans or dates where rows are in an engine; column "
        f"{name!r} is {kind}, whose text differs between engines. Make a column of text in the engine, or collect the "
        "frame first.",
        column=name,
    )


def _refuse_alike(table: LazyTable, texts: dict[str, nw.Expr], named: list[str], argument: str) -> None:
    """Raise where joint text would name different values, which takes colons in two of the columns."""
    if len(named) < 2:
        return
    colons = [
        nw.when(texts[name].str.contains(":", literal=True)).then(nw.lit(1)).otherwise(nw.lit(0)).alias(f"__c{i}")
        for i, name in enumerate(named)
    ]
    frame = table.frame.select(*colons).select(*(nw.col(f"__c{i}").max() for i in range(len(named))))
    if fetched(frame, "pandas").fillna(0).to_numpy().sum() < 2:
        return
    parts = [f"__p{i}" for i in range(len(texts))]
    distinct = table.frame.select(*(one.alias(part) for part, one in zip(parts, texts.values(), strict=True))).unique()
    both = distinct.select(nw.concat_str(*map(nw.col, parts), separator=":", ignore_nulls=False).alias("__joint"))
    alike = both.filter(~nw.col("__joint").is_null()).group_by("__joint").agg(nw.len().alias("__n"))
    found = fetched(alike.filter(nw.col("__n") > 1).head(3), "pandas")
    if len(found):
        label = str(found["__joint"].iloc[0])
        raise ArgumentError(
            f"`{argument}` joins labels by a colon, and different ones of {' and '.join(map(repr, texts))} would read "
            f"alike, such as {label!r}. Replace the colons in one of the columns in the engine first.",
            column=next(iter(texts)),
        )
