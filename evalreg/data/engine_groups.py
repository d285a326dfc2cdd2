"""Grouped tables of an engine as they come out of it: integer codes of the keys, and columns of numbers."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.data.clusters import TABLE_PER_ROW
from evalreg.data.engine import aggregated, as_text, encoded, fetched, numbers_of

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
