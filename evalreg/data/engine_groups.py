"""Grouped tables of an engine as they come out of it: integer codes of the keys, and columns of numbers."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.data.clusters import TABLE_PER_ROW, factorize
from evalreg.data.engine import aggregated, as_text, encoded, fetched, numbers_of, schema_of
from evalreg.data.engine_duckdb import ROUGHLY, rough_count
from evalreg.data.engine_spark import LINES_AT_ONCE, MOST_LINES, is_spark
from evalreg.errors import NotAvailableError

# Entries that a range of clusters is to have: one query each. Measured on DuckDB: the process grows by 110 bytes an
# entry while one is read.
AT_ONCE = 1 << 23
# Rows at the start of a table that tell how many clusters it seems to have.
LOOKED_AT = 1 << 16


@dataclass(frozen=True, eq=False)
class Grouped:
    """One entry for each joint value of the keys.

    Parameters
    ----------
    keys : dict of str to (ndarray of int, labels)
        By column the code of each entry, -1 where it is missing, and the label of each code.
    numbers : dict of str to ndarray, shape (n_entries,)
        Sums and counts.
    """

    keys: dict[str, tuple[IntArray, Any]]
    numbers: dict[str, FloatArray]

    @property
    def n_entries(self) -> int:
        """Joint values of the keys."""
        return int(next(iter(self.numbers.values())).size)

    def only(self, kept: BoolArray) -> Grouped:
        """Some of the entries, with their labels."""

        def some(codes: IntArray, labels: Any) -> tuple[IntArray, Any]:
            own = codes[kept]
            there = np.unique(own[own >= 0])
            place = np.full(len(labels) + 1, -1, dtype=codes.dtype)
            place[there] = np.arange(there.size)
            return place[own], np.asarray(labels)[there]

        keys = {name: some(*one) for name, one in self.keys.items()}
        return Grouped(keys, {name: column[kept] for name, column in self.numbers.items()})

    def joint(self, columns: Sequence[str]) -> tuple[IntArray, int]:
        """Codes of the joint values of some keys, none of which may be missing, in their order, and how many."""
        own = [(codes, len(labels)) for codes, labels in (self.keys[name] for name in columns)]
        return joint_codes(own, self.n_entries)

    def texts(self, columns: Sequence[str], codes: IntArray, n_codes: int) -> list[tuple[str, ...]]:
        """The labels of joint values, as text."""
        if not columns:
            return [()] * n_codes
        of, labels = self.parts(columns, codes, n_codes)
        return list(zip(*(labels[name][of[name]] for name in columns), strict=True))

    def parts(
        self, columns: Sequence[str], codes: IntArray, n_codes: int
    ) -> tuple[dict[str, IntArray], dict[str, Any]]:
        """By column, the code of each joint value, and the labels of codes as text."""
        labels = {name: as_text(self.keys[name][1]) for name in columns}
        if len(columns) == 1:  # Joint codes of one column are its own.
            return {columns[0]: np.arange(n_codes, dtype=codes.dtype)}, labels
        entry = np.empty(n_codes, dtype=np.intp)
        entry[codes] = np.arange(codes.size)
        return {name: self.keys[name][0][entry] for name in columns}, labels


def joint_codes(columns: Sequence[tuple[IntArray, int]], n: int) -> tuple[IntArray, int]:
    """Codes of the joint values of `n` entries, from the codes of each column and how many it has, in their order."""
    (codes, n_codes), *others = columns or [(np.zeros(n, dtype=np.int32), 1)]
    for own, n_own in others:
        if n_codes == 1:
            codes, n_codes = own, n_own
            continue
        codes, n_codes = ordered(codes.astype(np.int64) * n_own + own, n_codes * n_own)
    return codes, n_codes


def backend() -> Literal["pyarrow", "pandas"]:
    """Where grouped tables go: Arrow holds text in a third of the memory that objects of Python take."""
    return "pyarrow" if importlib.util.find_spec("pyarrow") else "pandas"


def grouped(
    frame: nw.LazyFrame[Any], keys: Sequence[str], aggregates: dict[str, nw.Expr], most: int | None = None
) -> Grouped:
    """Ask an engine for aggregates by the joint values of some columns, of which no more than so many are fetched."""
    # A column of the caller may be called as an aggregate is.
    own = {name: f"__sum_{name}" for name in aggregates}
    expressions = [expression.alias(own[name]) for name, expression in aggregates.items()]
    asked = aggregated(frame, keys, *expressions)
    held = fetched(asked if most is None else asked.head(most), backend())
    coded = {name: encoded(held[name]) for name in keys}
    return Grouped(coded, {name: numbers_of(held[made]) for name, made in own.items()})


def coded(frame: nw.LazyFrame[Any], columns: Sequence[str]) -> dict[str, tuple[IntArray, Any]]:
    """By column the code of each row, -1 where it is missing, and the label of each code."""
    held = fetched(frame.select(*columns), backend())
    return {name: encoded(held[name]) for name in columns}


def grouped_lines(frame: nw.LazyFrame[Any], keys: Sequence[str], aggregates: dict[str, nw.Expr]) -> pd.DataFrame:
    """One line for each joint value of some columns, none missing, in the order of their labels, each label held once.

    Queries of the same rows by the same columns have their lines in the same order.
    """
    found = grouped(frame, keys, aggregates)
    place, n = found.joint(keys)
    line = np.empty(n, dtype=np.intp)
    line[place] = np.arange(n)
    columns = {name: np.asarray(labels)[codes[line]] for name, (codes, labels) in found.keys.items()}
    columns |= {name: column[line] for name, column in found.numbers.items()}
    # Text as objects, which are the few labels again and again.
    return pd.DataFrame({name: pd.Series(column, dtype=column.dtype) for name, column in columns.items()})


def grouped_sorted(
    frame: nw.LazyFrame[Any], columns: Sequence[str], aggregates: dict[str, nw.Expr]
) -> tuple[list[tuple[str, ...]], dict[str, FloatArray]]:
    """Joint values of some columns, sorted as text, and aggregates of each; labels are spelled as in clusterings."""
    return sorted_lines(grouped(frame, columns, aggregates), columns)


def sorted_lines(found: Grouped, columns: Sequence[str]) -> tuple[list[tuple[str, ...]], dict[str, FloatArray]]:
    """The same of a table that came out already, in which no label is missing."""
    joint, n_joint = found.joint(columns)
    keys = found.texts(columns, joint, n_joint)
    order = sorted(range(n_joint), key=keys.__getitem__)
    entry = np.argsort(joint)[order]
    return [keys[i] for i in order], {name: column[entry] for name, column in found.numbers.items()}


def _width(n: int) -> Any:
    """Type of whole numbers up to n."""
    return np.int32 if n < 2**31 else np.int64


def ordered(key: IntArray, size: int) -> tuple[IntArray, int]:
    """Codes of keys below `size` in their order, and how many there are."""
    if size <= TABLE_PER_ROW * key.size + 1024:
        present = np.bincount(key, minlength=size) > 0
        place: IntArray = np.cumsum(present, dtype=_width(key.size)) - 1
        return place[key], int(np.count_nonzero(present))
    values, codes = np.unique(key, return_inverse=True)
    return codes, values.size


def most_lines(frame: nw.LazyFrame[Any], column: str, n_rows: int, n_cells: int) -> int | None:
    """How many lines all (cluster, cell) may be in one part, if they seem few enough by the first rows; else None.

    A guess, as rows may be in any order. Measured on DuckDB, 10,000,000 rows of 100,000 ids of text in Parquet: .03
    seconds of a processor, a tenth of a rough count of all rows.
    """
    if n_rows <= AT_ONCE or ROUGHLY * n_cells > AT_ONCE or is_spark(frame) or not _divides(frame, column):
        return None
    first = fetched(frame.select(column).head(LOOKED_AT), "pandas")[column]
    seems = guessed_distinct(factorize(first)[0], n_rows) * n_cells
    return AT_ONCE if ROUGHLY * seems <= AT_ONCE else None


def guessed_distinct(codes: IntArray, n_rows: int) -> float:
    """About how many values so many rows have, from codes of the first of them in order of appearance.

    In rows at random the new values of each quarter of those seen are a constant share of those of the quarter before.
    In rows in the order of their values every row brings as many. The fewer of both are taken.
    """
    quarter = codes.size // 4
    if not quarter:
        return float(n_rows)
    seen = np.maximum.accumulate(codes)[quarter - 1 : 4 * quarter : quarter] + 1
    new = np.diff(seen, prepend=0)
    by_rows = float(seen[-1]) * n_rows / (4 * quarter)
    # One standard error more: a few new values say little.
    share = float((new[-1] + np.sqrt(new[-1])) / max(new[0], 1)) ** (1 / 3)
    return min(by_rows, float(seen[-1] + new[-1] * share / (1 - share))) if share < 1 else by_rows


def ranges_of(frame: nw.LazyFrame[Any], column: str, n_rows: int, n_cells: int) -> tuple[nw.Expr | None, ...]:
    """Conditions that put the rows of whole clusters into parts of at most so many (cluster, cell); None is all rows.

    Only columns of text or whole numbers are divided, in their order; others, and what is small, stay in one part.
    """
    most = LINES_AT_ONCE if is_spark(frame) else AT_ONCE
    if n_rows <= most or not _divides(frame, column):
        return (None,)
    rough = rough_count(frame, column) if ROUGHLY * n_cells <= most else None
    if rough is not None and ROUGHLY * rough * n_cells <= most:
        return (None,)
    found = grouped(frame.select(column), (column,), {"__n": nw.len()})
    codes, labels = found.keys[column]
    if (codes < 0).any():  # The part that holds them will say so.
        return (None,)
    if is_spark(frame):
        _refuse_many(column, float(np.minimum(found.numbers["__n"], n_cells).sum()))
    order = sorted(range(len(labels)), key=labels.__getitem__)
    entries = np.empty(len(labels))
    entries[codes] = np.minimum(found.numbers["__n"], n_cells)
    # A part ends before the cluster that would be too many for it.
    part = (np.cumsum(entries[order]) // most).astype(np.intp)
    starts = [_plain(labels[order[i]]) for i in np.flatnonzero(np.diff(part)) + 1]
    if not starts:
        return (None,)
    key, middle = nw.col(column), itertools.pairwise(starts)
    between = [(key >= low) & (key < high) for low, high in middle]
    return (key < starts[0], *between, key >= starts[-1])


def _divides(frame: nw.LazyFrame[Any], column: str) -> bool:
    """Whether ranges of a column can be asked for."""
    kind = schema_of(frame)[column]
    return bool(kind == nw.String or kind.is_integer())


def _refuse_many(column: str, n_lines: float) -> None:
    """Raise where Spark would have to hand over the sums of too many clusters, a query for each million."""
    if n_lines > MOST_LINES:
        raise NotAvailableError(
            f"sums of single clusters by {column!r} would be up to {n_lines:,.0f} lines that Spark hands over, and at "
            f"most {MOST_LINES:,} are taken. Means, ratios and win rates need none of them, nor do ratings and "
            'regressions with cov="CR0" or "CR1", nor with another one where the workers of Spark can run this '
            'evalreg. Install it there or take cov="CR1", cluster by fewer values, or write the columns as Parquet and '
            "take the files as a relation of DuckDB.",
            column=column,
            count=int(n_lines),
        )


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
