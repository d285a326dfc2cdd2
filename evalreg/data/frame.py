"""Any data frame in: columns, labels and cell sums out, from memory or from an engine."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, listed, row_list, rows_text
from evalreg.data.clusters import Codes, factorize, joint, used_codes
from evalreg.data.columns import as_floats, outside_pandas
from evalreg.data.engine import LazyTable
from evalreg.data.names import known_column
from evalreg.errors import (
    AlignmentError,
    ArgumentError,
    ArgumentTypeError,
    EmptyDataError,
    NonFiniteError,
    ScoreRangeError,
)

# Fourth powers of what lies between, summed over many rows, are still floats.
LARGEST, SMALLEST = 1e70, 1e-70


@dataclass(frozen=True, eq=False)
class Table:
    """A data frame in memory, of any library that narwhals knows.

    Parameters
    ----------
    frame : narwhals.DataFrame
        What `open_frame` holds of the caller's.
    made : tuple of str
        Names of labels that are made of several columns.
    """

    frame: nw.DataFrame[Any]
    _labels: dict[str, tuple[IntArray, Any]] = field(default_factory=dict)
    made: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(str(name) for name in self.frame.columns)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.frame)

    @property
    def index(self) -> pd.Index | None:
        """The index of a pandas frame; None for other libraries."""
        native = self.frame.to_native()
        return native.index if isinstance(native, pd.DataFrame) else None

    def floats(self, name: str, argument: str) -> FloatArray:
        """A column as float64, NaN where it is missing.

        Parameters
        ----------
        name : str
            The column.
        argument : str
            The argument that named it, for messages.

        Returns
        -------
        ndarray, shape (n_rows,)
            Booleans as 0 and 1.

        Raises
        ------
        MissingColumnError, NonNumericError, NonFiniteError
            If it is not there, holds text, or holds infinities.
        """
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
            self._labels[name] = _as_labels(self.frame.get_column(known_column(name, self.columns, argument)))
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
        part = self.frame.select(list(names))
        if isinstance(native := part.to_native(), pd.DataFrame):
            return native if keep is None else native.loc[keep]
        pandas = pd.DataFrame({name: outside_pandas(part.get_column(name)) for name in names})
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
        return self._used(name, *factorize(align_labels(name, labels, self.table.n_rows, self.table.index)))

    def positions(self) -> IntArray:
        """Positions in the table of the rows in use (of the first row of each item)."""
        rows = np.arange(self.table.n_rows) if self.keep is None else np.flatnonzero(self.keep)
        return rows if self.item is None else rows[self.item.first]

    def _used(self, name: str, codes: IntArray, labels: Any) -> Codes:
        used = used_codes(name, restrict(codes, self.keep), labels, every_row=self.keep is None)
        return used if self.item is None else codes_of_items(name, used, self.item)


def codes_of_items(name: str, codes: Codes, item: Codes) -> Codes:
    """Labels of items from the labels of their rows, which must agree.

    Parameters
    ----------
    name : str
        The column, for the message.
    codes : Codes
        Of the rows.
    item : Codes
        Items of the rows.

    Returns
    -------
    Codes
        One entry for each item.

    Raises
    ------
    AlignmentError
        If an item has rows with different labels.
    """
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


def align_labels(name: str, labels: Any, n_rows: int, index: pd.Index | None, argument: str = "groups") -> Any:
    """Labels in the order of the rows: a Series by its index, anything else by its length.

    Parameters
    ----------
    name : str
        What the labels are called, for messages.
    labels : array_like, shape (n_rows,)
        Cluster labels.
    n_rows : int
        Rows of the data.
    index : pandas.Index, optional
        Index of the data, for a Series.
    argument : str
        The argument that they were passed as.

    Returns
    -------
    array_like, shape (n_rows,)
        Aligned labels.

    Raises
    ------
    AlignmentError
        If the length or the index does not match.
    """
    if isinstance(labels, pd.Series) and index is None and not labels.index.equals(pd.RangeIndex(len(labels))):
        raise AlignmentError(
            f"`{argument}`{_quoted(name)} is a Series with an index of its own, and the data have no index to align it "
            "with. Pass an array in the order of the rows, or a column's name.",
            column=name,
        )
    if isinstance(labels, pd.Series) and index is not None and not labels.index.equals(index):
        if not labels.index.is_unique or not index.is_unique:
            raise AlignmentError(
                f"`{argument}`{_quoted(name)} is a Series whose index differs from the data's and has repeats, so "
                "that rows cannot be matched. Pass an array in the order of the rows, or a column's name.",
                column=name,
            )
        absent = ~index.isin(labels.index)
        if absent.any():
            rows, count = row_list(absent)
            raise AlignmentError(
                f"`{argument}`{_quoted(name)} is a Series and is aligned by index; the data's {rows_text(rows, count)} "
                f"({listed(index[absent][:3])}) are not in its index. Pass an array, or reindex the Series.",
                column=name,
                rows=rows,
                count=count,
            )
        return labels.reindex(index)
    if len(labels) != n_rows:
        what, found = ("label" if argument == "groups" else "weight"), len(labels)
        raise AlignmentError(
            f"`{argument}`{_quoted(name)} must have one {what} for each row; got {found} {what}s for {n_rows} rows.",
            column=name,
            count=len(labels),
        )
    return labels


def _quoted(name: str) -> str:
    """The name of labels for a message, unless it says no more than the argument."""
    return "" if name in ("groups", "weights") else f" {name!r}"


def _from_dict(data: dict[str, Any]) -> pd.DataFrame:
    """A frame of arrays by name, which must be of one length."""
    lengths = {name: len(column) for name, column in data.items() if np.ndim(column) == 1}
    if len(lengths) < len(data):
        other = [name for name in data if name not in lengths]
        raise ArgumentTypeError(f"`data` as a dict must hold one array for each column; {listed(other)} is not one.")
    if len(set(lengths.values())) > 1:
        raise AlignmentError(f"`data` as a dict must hold arrays of one length; got {lengths}.")
    return pd.DataFrame(data)


def held_frame(frame: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """A frame of the same columns that stays as it is when the caller changes his in place.

    Under copy-on-write no value is copied. In pandas before version 3 that is an option, without which values are
    copied. Tables of pyarrow do not change.
    """
    if frame.implementation.is_pandas():
        return nw.from_native(held_pandas(frame.to_native()))
    return frame if frame.implementation.is_pyarrow() else frame.clone()


def held_pandas(frame: pd.DataFrame) -> pd.DataFrame:
    """The same for a frame of pandas."""
    return frame.copy(deep=not _copies_on_write())


def _copies_on_write() -> bool:
    """Whether pandas copies values when one of the frames that share them is written to."""
    return int(pd.__version__.partition(".")[0]) >= 3 or bool(pd.get_option("mode.copy_on_write") is True)


def _named_by_text(data: pd.DataFrame) -> pd.DataFrame:
    """A frame whose columns are named by text: a column 0 is called "0"."""
    if data.columns.nlevels > 1:
        raise ArgumentTypeError(
            f"`data` must have one name for each column; its columns have {data.columns.nlevels} levels. Join them "
            'first: data.columns = ["_".join(map(str, names)) for names in data.columns].'
        )
    if all(isinstance(name, str) for name in data.columns):
        return data
    return data.set_axis([str(name) for name in data.columns], axis=1)


def open_frame(data: Any) -> Table | LazyTable:
    """A handle on any data frame.

    Parameters
    ----------
    data : data frame or dict of arrays
        pandas, polars, pyarrow in memory; polars LazyFrame, DuckDB relation and other lazy frames in their engine.

    Returns
    -------
    Table or LazyTable
        What it holds stays as it is when the caller changes a frame in memory.

    Raises
    ------
    ArgumentTypeError
        If it is not a data frame.
    EmptyDataError
        If it has no rows.

    Examples
    --------
    >>> open_frame(pd.DataFrame({"score": [1, 0]})).n_rows
    2
    """
    if isinstance(data, dict):
        data = _from_dict(data)
    if isinstance(data, pd.DataFrame):
        data = _named_by_text(data)
    if isinstance(data, pd.DataFrame) and not data.columns.is_unique:
        twice = data.columns[data.columns.duplicated()].unique()
        raise ArgumentError(f"`data` must have distinct column names; {listed(twice)} occurs more than once.")
    try:
        frame = nw.from_native(data)
    except TypeError:
        raise ArgumentTypeError(
            "`data` must be a data frame (pandas, polars, pyarrow, DuckDB or another that narwhals reads) or a dict of "
            f"arrays; got {type(data).__name__}."
        ) from None
    if isinstance(frame, nw.LazyFrame):
        return LazyTable(frame)
    if len(frame) == 0:
        raise EmptyDataError("`data` has no rows.")
    return Table(held_frame(frame))


def collected(table: LazyTable, names: Sequence[str], labels: Set[str | None]) -> Table:
    """Some columns of a frame in an engine, in memory.

    Parameters
    ----------
    table : LazyTable
        The frame.
    names : sequence of str
        Columns wanted; one that is not there is left out, to be missed by whoever asks for it.
    labels : set of str
        Columns that are read as labels: whole numbers among them keep every digit, also where some are missing.

    Returns
    -------
    Table
        polars for a polars LazyFrame, pandas for other engines.
    """
    known = [name for name in names if name in table.columns]
    if table.frame.implementation.is_polars():
        return Table(table.frame.select(known).collect())
    schema = table.frame.collect_schema()
    columns = [
        nw.col(name).cast(nw.String) if name in labels and schema[name].is_integer() else nw.col(name) for name in known
    ]
    return Table(table.frame.select(*columns).collect("pandas"))


def keep_rows(
    missing: dict[str, BoolArray], n_rows: int, rule: str, within: BoolArray | None = None
) -> tuple[BoolArray | None, dict[str, int]]:
    """Rows without missing values, and how many were dropped for which reason, each row once.

    Parameters
    ----------
    missing : dict of str to ndarray of bool, shape (n_rows,)
        Masks by "<reason>" or "<reason>: <column>", in the order in which reasons are counted.
    n_rows : int
        Number of rows.
    rule : {"drop", "raise"}
        What to do about missing values.
    within : ndarray of bool, shape (n_rows,), optional
        Rows in question; others are neither kept nor counted.

    Returns
    -------
    keep : ndarray of bool or None
        None when all rows are kept.
    dropped : dict of str to int
        Rows by reason: "score", "covariate" and "group".

    Raises
    ------
    NonFiniteError
        Under "raise", if anything is missing.
    EmptyDataError
        If no row is left.
    """
    gone = np.zeros(n_rows, dtype=bool)
    dropped = {"score": 0, "covariate": 0, "group": 0}
    for name, missed in missing.items():
        mask = missed if within is None else missed & within
        if not mask.any():
            continue
        reason, _, column = name.partition(": ")
        if rule == "raise":
            rows, count = row_list(mask)
            raise NonFiniteError(
                f'nothing may be missing under `missing="raise"`; the {reason} column {column!r} is missing in '
                f'{rows_text(rows, count)}. Fill the values in, or pass missing="drop" to leave the rows out, counted.',
                column=column,
                rows=rows,
                count=count,
            )
        dropped[reason] += int(np.count_nonzero(mask & ~gone))
        gone |= mask
    if gone.all():
        counts = ", ".join(f"{count} without a {reason}" for reason, count in dropped.items() if count)
        raise EmptyDataError(f"no row is left: all {n_rows} have something missing ({counts}).", count=n_rows)
    if within is not None:
        gone |= ~within
    return (~gone if gone.any() else None), dropped


def restrict(array: Any, keep: BoolArray | None) -> Any:
    """Return the kept rows of an array, or the array itself."""
    return array if keep is None or array is None else array[keep]
