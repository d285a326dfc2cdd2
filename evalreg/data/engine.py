"""Rows that stay in an engine (DuckDB, a polars LazyFrame): only sums and labels of cells come out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import pandas as pd

from evalreg.data.names import known_column
from evalreg.errors import NonNumericError


def _knows_nan(frame: nw.LazyFrame[Any]) -> bool:
    """Whether a column may hold NaN: SQLite and its like have none, and no test for it, which Ibis says."""
    if not frame.implementation.is_ibis():
        return True
    from ibis.expr import operations

    return bool(frame.to_native().get_backend().has_operation(operations.IsNan))


def as_pandas(frame: nw.LazyFrame[Any]) -> pd.DataFrame:
    """What a query gives, as pandas; days stay days, which columns of pandas would turn into times at midnight."""
    found: pd.DataFrame = frame.collect("pandas").to_native()
    days = [name for name, kind in frame.collect_schema().items() if kind == nw.Date]
    return found.assign(**{name: found[name].dt.date for name in days if found[name].dtype.kind == "M"})


@dataclass(frozen=True, eq=False)
class LazyTable:
    """A data frame in an engine (DuckDB, a polars LazyFrame): only sums and labels of cells come out.

    Parameters
    ----------
    frame : narwhals.LazyFrame
        A reference; queries run when sums are asked for.
    """

    frame: nw.LazyFrame[Any]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(str(name) for name in self.frame.collect_schema().names())

    def present(self, names: Sequence[str]) -> LazyTable:
        """Rows in which none of some columns is null or NaN."""
        return LazyTable(self.frame.filter(~self.absent(names)))

    def absent(self, names: Sequence[str]) -> nw.Expr:
        """Whether one of some columns is null or NaN; never, where there are none."""
        if not names:
            return nw.lit(False)
        schema = self.frame.collect_schema()
        with_nan = _knows_nan(self.frame)
        masks = []
        for name in names:
            masks.append(nw.col(name).is_null())
            if with_nan and schema[name].is_float():
                masks.append(nw.col(name).is_nan().fill_null(False))
        return nw.any_horizontal(*masks, ignore_nulls=False)

    def count_absent(self, names: Sequence[str]) -> tuple[int, int]:
        """All rows, and rows in which one of some columns is missing."""
        flag = nw.when(self.absent(names)).then(nw.lit(1)).otherwise(nw.lit(0)) if names else nw.lit(0)
        marked = self.frame.select(flag.alias("__absent")) if names else self.frame.select(nw.col(self.columns[0]))
        sums = marked.select(nw.len().alias("n"), *([nw.col("__absent").sum()] if names else [])).collect("pandas")
        native = sums.to_native()
        absent = native["__absent"].iloc[0] if names else 0
        return int(native["n"].iloc[0]), 0 if pd.isna(absent) else int(absent)

    def check_numeric(self, name: str, argument: str) -> None:
        """Raise unless a column is numeric or boolean."""
        dtype = self.frame.collect_schema()[known_column(name, self.columns, argument)]
        if not (dtype.is_numeric() or dtype == nw.Boolean):
            raise NonNumericError(f"`{argument}` must hold numbers; column {name!r} is {dtype}.", column=name)

    def group(self, by: Sequence[str], aggregates: dict[str, nw.Expr]) -> pd.DataFrame:
        """One row for each joint value of some columns, with aggregates, sorted by those columns' text."""
        expressions = [expression.alias(name) for name, expression in aggregates.items()]
        frame = self.frame.group_by(*by).agg(*expressions) if by else self.frame.select(*expressions)
        native = as_pandas(frame)
        return native.sort_values(list(by), key=lambda column: column.astype(str)) if by else native
