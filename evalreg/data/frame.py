"""A data frame in memory, and its rows in use: columns as numbers, labels as codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.data.alignment import align_labels
from evalreg.data.clusters import Codes, factorize, joint, used_codes
from evalreg.data.columns import as_floats, nested_labels, outside_pandas, refuse_nested, type_outside
from evalreg.data.names import known_column
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.errors import AlignmentError, ArgumentTypeError, NonFiniteError, ScoreRangeError

# Fourth powers of what lies between, summed over many rows, are still floats.
LARGEST, SMALLEST = 1e70, 1e-70


@dataclass(frozen=True, eq=False)
class Chosen:
    """Which rows of a frame `subset` keeps."""

    text: str
    # True for those kept, (n_rows of the frame,).
    keep: BoolArray
    # The index of the whole frame, where it is of pandas.
    index: pd.Index | None

    @property
    def said(self) -> str:
        """By which filter rows are kept, and how many of how many."""
        return f"{self.text} ({np.count_nonzero(self.keep)} of {self.keep.size} rows)"


def _chosen_of(labels: Any, keep: BoolArray) -> Any:
    """Entries of a list, or of another library's series."""
    if isinstance(labels, list | tuple):
        return [one for one, kept in zip(labels, keep, strict=True) if kept]
    return labels.filter(pd.Series(keep).tolist()) if hasattr(labels, "filter") else np.asarray(labels)[keep]


@dataclass(frozen=True, eq=False)
class Table:
    """A data frame in memory, of any library that narwhals knows.

    Parameters
    ----------
    frame : narwhals.DataFrame
        What `open_frame` holds of the caller's.
    made : tuple of str
        Names of labels that are made of several columns.
    chosen : Chosen, optional
        Which rows of the caller's frame these are, where `subset` chose among them.
    """

    frame: nw.DataFrame[Any]
    _labels: dict[str, tuple[IntArray, Any]] = field(default_factory=dict)
    made: tuple[str, ...] = ()
    chosen: Chosen | None = None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(str(name) for name in self.frame.columns)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.frame)

    def align(self, name: str, labels: Any, argument: str = "groups") -> Any:
        """Labels or weights of the rows: an array by the length, a Series by the index, of the caller's frame."""
        if self.chosen is None:
            return align_labels(name, labels, self.n_rows, self.index, argument)
        keep, index = self.chosen.keep, self.chosen.index
        if isinstance(labels, pd.Series) and index is not None and not labels.index.equals(index):
            # By the index of the rows that were chosen: others need no label.
            return align_labels(name, labels, self.n_rows, self.index, argument)
        if len(labels) == self.n_rows != keep.size:
            raise AlignmentError(
                f"`{argument}` must have one entry for each of the {keep.size} rows of the data, of which `subset` "
                f"keeps {self.n_rows}; got {len(labels)}. Pass an array for all rows, or filter the data and leave "
                "`subset` out.",
                column=name,
                count=len(labels),
            )
        aligned = align_labels(name, labels, keep.size, index, argument)
        return aligned[keep] if isinstance(aligned, pd.Series | pd.Index | np.ndarray) else _chosen_of(aligned, keep)

    @property
    def index(self) -> pd.Index | None:
        """The index of a pandas frame; None for other libraries."""
        native = self.frame.to_native()
        return native.index if isinstance(native, pd.DataFrame) else None

    def floats(self, name: str, argument: str) -> FloatArray:
        """A column as float64, NaN where it is missing, booleans as 0 and 1; finite, with squares that are floats."""
        series = self.frame.get_column(known_column(name, self.columns, argument))
        values = as_floats(series, name, argument)
        if argument != "weights":  # These are scaled.
            refuse_extreme(values, name, f"`{argument}`")
        infinite = np.isinf(values)
        if infinite.any():
            rows, count = row_list(infinite)
            raise NonFiniteError(
                f"`{argument}` must be finite; column {name!r} is infinite in {rows_text(rows, count)}. "
                "Set such values to missing, or leave the rows out.",
                column=name,
                rows=rows,
                count=count,
            )
        return values

    def labels(self, name: str, argument: str) -> tuple[IntArray, Any]:
        """Integer codes of a column with -1 for missing, and the label of each code."""
        if name not in self._labels:
            column = self.frame.get_column(known_column(name, (*self.columns, *self.frame.columns), argument))
            refuse_nested(name, column.dtype, type_outside(column))
            try:
                self._labels[name] = _as_labels(column)
            except ArgumentTypeError:
                raise nested_labels(name, "lists or the like") from None
        return self._labels[name]

    def with_joint(self, name: str, columns: Sequence[str]) -> Table:
        """The same table with the joint values of some columns as labels under a name."""
        parts = [self.labels(column, "item") for column in columns]
        missing = np.any([codes < 0 for codes, _ in parts], axis=0)
        used = [Codes(np.where(missing, 0, codes), len(labels), labels) for codes, labels in parts]
        both = joint(used)
        rows = both.first
        shown = [np.asarray(one.labels, dtype=object).astype(str)[one.codes[rows]] for one in used]
        labels = np.array([":".join(parts) for parts in zip(*shown, strict=True)], dtype=object)
        held = (np.where(missing, -1, both.codes), labels)
        return replace(self, _labels={**self._labels, name: held}, made=(*self.made, name))

    def to_pandas(self, names: Sequence[str], keep: BoolArray | None) -> pd.DataFrame:
        """Some columns of some rows as a pandas frame, for patsy."""
        if isinstance(native := self.frame.to_native(), pd.DataFrame):
            every = [str(name) for name in self.frame.columns]
            part = native.iloc[:, [every.index(name) for name in names]]
            return part if keep is None else part.loc[keep]
        pandas = pd.DataFrame({name: outside_pandas(self.frame.get_column(name)) for name in names})
        return pandas if keep is None else pandas.loc[keep]

    def missing(self, name: str) -> BoolArray:
        """True where a column is null or NaN."""
        series = self.frame.get_column(name)
        if isinstance(native := series.to_native(), pd.Series):
            return np.asarray(native.isna().to_numpy(), dtype=bool)
        mask = series.is_null().to_numpy()
        if series.dtype.is_float():
            mask = mask | (series.is_nan().fill_null(False).to_numpy().astype(bool))
        return np.asarray(mask, dtype=bool)


def refuse_extreme(values: FloatArray, name: str, argument: str) -> None:
    """Raise if squares of the values, or of their differences, do not fit into a float."""
    present = values[np.isfinite(values)]
    if not present.size:
        return
    low, high = float(present.min()), float(present.max())
    size, spread = max(-low, high), high - low
    if size > LARGEST or 0 < spread < SMALLEST:
        what = f"as large as {size:.3g}" if size > LARGEST else f"that differ by at most {spread:.3g}"
        raise ScoreRangeError(
            f"{argument} must have squares that fit into a float; column {name!r} holds values {what}. "
            f"{'Divide' if size > LARGEST else 'Multiply'} the column by a power of ten first.",
            column=name,
        )


def _as_labels(series: nw.Series[Any]) -> tuple[IntArray, Any]:
    native = series.to_native()
    if isinstance(native, pd.Series):
        return factorize(native)
    missing = series.is_null().to_numpy().astype(bool)
    if not missing.any():
        return factorize(series.to_numpy())
    # Codes of the rows that have a label: a null among integers would turn them to floats, and large ids would merge.
    codes = np.full(missing.size, -1, dtype=np.intp)
    codes[~missing], labels = factorize(series.filter(~series.is_null()).to_numpy())
    return codes, labels


@dataclass(frozen=True, eq=False)
class UsedRows:
    """The rows of a table that an estimate uses; the source of its labels.

    Parameters
    ----------
    table : Table
        All rows.
    keep : ndarray of bool, shape (table.n_rows,), optional
        Rows in use; None for all.
    item : Codes, optional
        Items of the rows in use, where rows were averaged within them first; labels are then those of the items.
    """

    table: Table
    keep: BoolArray | None = None
    item: Codes | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the table."""
        return self.table.columns

    @property
    def n_rows(self) -> int:
        """Number of rows in use, or of items."""
        if self.item is not None:
            return self.item.n_clusters
        return self.table.n_rows if self.keep is None else int(np.count_nonzero(self.keep))

    def codes(self, column: str) -> Codes:
        """Codes of a column on the rows in use."""
        return self._used(column, *self.table.labels(column, "groups"))

    def align(self, name: str, labels: Any) -> Codes:
        """Codes of an array (by length) or a Series (by index) on the rows in use."""
        return self._used(name, *factorize(self.table.align(name, labels)))

    def positions(self) -> IntArray:
        """Positions in the caller's frame of the rows in use (of the first row of each item)."""
        chosen = self.table.chosen
        return self.places() if chosen is None else np.flatnonzero(chosen.keep)[self.places()]

    def places(self) -> IntArray:
        """Positions in the table of the rows in use (of the first row of each item)."""
        rows = np.arange(self.table.n_rows) if self.keep is None else np.flatnonzero(self.keep)
        return rows if self.item is None else rows[self.item.first]

    def _used(self, name: str, codes: IntArray, labels: Any) -> Codes:
        used = used_codes(name, restrict(codes, self.keep), labels, every_row=self.keep is None)
        return used if self.item is None else codes_of_items(name, used, self.item)


def codes_of_items(name: str, codes: Codes, item: Codes) -> Codes:
    """Labels of items from the labels of their rows, which must agree; one entry for each item."""
    first = item.first
    by_item = codes.codes[first]
    differ = by_item[item.codes] != codes.codes
    if differ.any():
        rows, count = row_list(differ)
        raise AlignmentError(
            f"answers to one item are averaged first, so {name!r} must be the same in all of them; it differs within "
            f"an item in {rows_text(rows, count)} of those in use. Leave out `sample`, or use a coarser cluster.",
            column=name,
            rows=rows,
            count=count,
        )
    return Codes(by_item, codes.n_clusters, codes.labels, codes.parts)


def restrict(array: Any, keep: BoolArray | None) -> Any:
    """Return the kept rows of an array, or the array itself."""
    return array if keep is None or array is None else array[keep]
