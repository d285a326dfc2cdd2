"""What is particular to Spark: the columns that it keeps while an estimate is made, and how much it hands over at once.

Every query of Spark reads its source again. Measured on 1,000,000 comparisons in Parquet on two workers
(`tests/engines/cluster_part.py`): a board by prompt and judge reads the source once where the columns of its roles are
kept, and four times, once a query, where they are not. Of a small local file that is no gain in time: 9.2 seconds of
processor against 6.0. Where reading costs, it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import narwhals.stable.v2 as nw

from evalreg.checks import listed
from evalreg.data.engine import LazyTable
from evalreg.errors import ArgumentError

P = ParamSpec("P")
T = TypeVar("T")

# Lines of a query that the driver is given at once: 2^20 of them, with three texts of 10 characters, are about 70 MB
# of Arrow in it, which a driver of 512 MB bears.
LINES_AT_ONCE = 1 << 20

# Lines that the driver is given in all, 64 queries of the table that Spark keeps.
MOST_LINES = 1 << 26

# Rows up to which lines come to the driver, in one query: fewer jobs than sums that are made in Spark.
FEW_ROWS = 100_000

# What is to be given up when the estimate is made; None outside of one.
_KEPT: ContextVar[list[Callable[[], Any]] | None] = ContextVar("_KEPT", default=None)


def is_spark(frame: nw.LazyFrame[Any]) -> bool:
    """Whether a frame is one of Spark, classic or Connect."""
    return bool(frame.implementation.is_pyspark() or frame.implementation.is_pyspark_connect())


@contextmanager
def _while_estimating() -> Iterator[None]:
    """Give up at the end what `keep` had Spark keep; an estimate inside of another leaves that to it."""
    if _KEPT.get() is not None:
        yield
        return
    kept: list[Callable[[], Any]] = []
    token = _KEPT.set(kept)
    try:
        yield
    finally:
        _KEPT.reset(token)
        for give_up in kept:
            with suppress(Exception):  # A session that died keeps nothing, and its own error is on the way.
                give_up()


def one_scan(function: Callable[P, T]) -> Callable[P, T]:
    """An estimator during which Spark keeps the columns in use."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with _while_estimating():
            return function(*args, **kwargs)

    return call


def keep(table: LazyTable, names: Sequence[str | None]) -> LazyTable:
    """The same table, of which Spark keeps some columns until the estimate is made: in memory, and beyond it on disk.

    Other columns are read from the source, as are all where Spark keeps nothing, or the whole frame already.
    """
    kept = _KEPT.get()
    if not is_spark(table.frame):
        return table
    used = list(dict.fromkeys(name for name in names if name is not None))
    _refuse_names(used)
    # Lines made of rows are kept where they are made.
    if kept is None or type(table) is not LazyTable:
        return table
    narrow = table.frame.select(*used).to_native()
    try:
        if _is_kept(table.frame.to_native()):
            return table
        narrow.persist()
    except Exception:  # Services without servers of one's own refuse it; the numbers are the same.
        return table
    kept.append(narrow.unpersist)
    return LazyTable(nw.from_native(narrow), whole=table.frame)


def _refuse_names(names: Sequence[str]) -> None:
    """Raise where Spark would not find a column by its name."""
    odd = [name for name in names if "." in name or "`" in name]
    if odd:
        raise ArgumentError(
            "columns in Spark must not have a dot or a backtick in their names, which stand for fields of structures "
            f"there; {listed(odd)} {'has' if len(odd) == 1 else 'have'}. Rename first: "
            f"data.withColumnRenamed({odd[0]!r}, {odd[0].replace('.', '_').replace('`', '_')!r}).",
            column=odd[0],
        )


def keep_native(native: Any) -> Any:
    """A frame of Spark that is asked more than once, kept until the estimate is made where Spark keeps anything."""
    kept = _KEPT.get()
    if kept is None:
        return native
    try:
        if _is_kept(native):
            return native
        native.persist()
    except Exception:  # As above.
        return native
    kept.append(native.unpersist)
    return native


def quoted(name: str) -> Any:
    """A column of Spark by its name, which may hold dots and backticks."""
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")


def _is_kept(native: Any) -> bool:
    level = native.storageLevel
    return bool(level.useMemory or level.useDisk)
