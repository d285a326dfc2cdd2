"""What is particular to DuckDB: names with a dot or a quote, and a rough count of distinct values.

The count takes a third of the time of an exact one. Measured on 10,000,000 rows of 100,000 ids of text in Parquet: .28
seconds of a processor; .79 for the exact count, .91 for the rows of each id.
"""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw

from evalreg.data.engine import engine_answers
from evalreg.data.frame import is_parsed, names_are_parsed

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
