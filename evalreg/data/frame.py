"""Any data frame in: opening, columns, names, alignment, memory."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from itertools import compress
from numbers import Real
from pathlib import Path
from typing import Any, Self, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import infer_dtype

from evalreg.checks import MOST_LISTED, BoolArray, FloatArray, IntArray, Names, listed, passed, repeated
from evalreg.data.clusters import (
    Codes,
    Column,
    _of_several,
    align_labels,
    factorize,
    joint_labels,
    known_column,
    labels_in_python,
    quoted_pair,
    refuse_nested,
    restricted,
    rows_where,
    spelled_alike,
    used_codes,
)
from evalreg.data.dialects import bytewise, without_parsed
from evalreg.data.engine import Query, engine_answers, fetched, without_reserved
from evalreg.data.sums import SummedLog
from evalreg.errors import (
    AlignmentError,
    ArgumentError,
    ArgumentTypeError,
    EmptyDataError,
    NonFiniteError,
    NonNumericError,
    NotAvailableError,
    RowList,
    ScoreRangeError,
    TooLargeError,
)
from evalreg.numerics.limits import GIB, LAST_DIGITS, MOST_COLLECTED, ROUNDING, SUPPOSED


def refuse_larger(n_bytes: float, what: str, remedy: str) -> None:
    """Raise if something takes more bytes at its peak than are free; the message says what, and what to do."""
    # Asking the system costs more than most results take.
    if n_bytes < GIB / 4 or n_bytes <= (free := available()):
        return
    raise TooLargeError(f"{what} takes about {_gib(n_bytes)} GiB of memory, and {_gib(free)} are free. {remedy}")


def _gib(n_bytes: float) -> str:
    return f"{n_bytes / GIB:,.1f}" if n_bytes < 10 * GIB else f"{n_bytes / GIB:,.0f}"


def available() -> float:
    """Bytes that the process may still take: of the machine, and of the container where it runs in one."""
    free = [_machine()]
    with suppress(OSError, ValueError):
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        if limit != "max":
            free.append(float(limit) - float(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii")))
    return max(min(free), 0.0)


def _machine() -> float:
    """Bytes that the machine can give without swapping; all that it has, where it does not tell the two apart."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return float(line.split()[1]) * 1024
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return SUPPOSED


# What words of scores usually count; a refusal proposes it, and nothing else reads it.
USUAL: dict[str, float | str | None] = dict.fromkeys(("correct", "pass", "passed", "yes", "true"), 1)
USUAL |= dict.fromkeys(("incorrect", "fail", "failed", "no", "false"), 0)
# Words of no score, whose rows are left out and counted.
USUAL |= dict.fromkeys(("nan", "na", "n/a", "none", "null", "error", "missing", "-", "?"))
NUMERIC_OBJECTS = ("integer", "floating", "mixed-integer-float", "boolean", "decimal", "empty")

Values: TypeAlias = npt.NDArray[Any]


def type_outside(series: nw.Series[Any]) -> object:
    """The type of a column in its own library, where that is pyarrow."""
    return getattr(series.to_native(), "type", "")


def values_of(column: nw.Series[Any]) -> Any:
    """The values of a column as pandas takes them: its own, or an array.

    Outside pandas a null among whole numbers would turn all of them to floats: such arrays are masked.
    """
    native, zoned = column.to_native(), getattr(column.dtype, "time_zone", None) is not None
    if isinstance(native, pd.Series):
        return native.dt.tz_convert("UTC") if zoned else native
    if zoned:  # arrays have no zones
        plain = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return pd.Series(values_of(plain)).dt.tz_localize("UTC")
    missing = column.is_null().to_numpy().astype(bool)
    present = np.asarray((column.filter(~column.is_null()) if missing.any() else column).to_numpy())
    if present.ndim > 1:  # structs and arrays
        present = pd.Series(list(present), dtype=object).to_numpy()
    # As objects, lengths of time in nanoseconds would be plain integers.
    present = present if present.dtype.kind in "biufmM" else present.astype(object)
    if not missing.any():
        return present
    masked = pd.array(present) if present.dtype.kind in "biu" else present
    # The place -1 is that of a missing value.
    return pd.api.extensions.take(masked, np.where(missing, -1, np.cumsum(~missing) - 1), allow_fill=True)


def floats_or_none(column: pd.Series) -> FloatArray | None:
    """A copy of numbers, truth values or objects that are numbers, as float64, NaN where missing; None of others."""
    if pd.api.types.is_numeric_dtype(column.dtype) and column.dtype.kind != "c":
        return np.array(column.to_numpy(dtype=np.float64, na_value=np.nan))
    objects = column.astype(object)
    return object_floats(objects) if are_numbers(objects).all() else None


def as_floats(series: nw.Series[Any], name: str, argument: str) -> FloatArray:
    """A copy of a column as float64, NaN where it is missing; of numbers, truth values or objects that are numbers."""
    if several := _of_several(type_outside(series)):
        rule = f"`{argument}` must hold numbers; column {name!r} holds {several}"
        raise NonNumericError(f"{rule}. Convert the column first, or name another.", column=name)
    column = values_of(series)
    column = column if isinstance(column, pd.Series) else pd.Series(column)
    if (floats := floats_or_none(column)) is not None:
        return floats
    values = column.astype(object)
    text = ~are_numbers(values)
    parsed = pd.to_numeric(values.astype(str), errors="coerce")
    # In a column that was read as text, what made it text: cells that are no numbers, or digits that would be lost.
    unread, large = text & parsed.isna().to_numpy(), text & (parsed.abs() >= 2**53).to_numpy()
    wrong = next(cells for cells in (unread, large, text) if cells.any())
    rows, why, advice = rows_where(wrong), "", "Convert the column first, or name another"
    words = list(map(str, _some_of(values[wrong], MOST_LISTED + 1)))
    if wrong is large:
        why, advice = ", too large to keep all digits in 64 bits", "Leave such cells empty, or divide the column first"
    elif _all_match(r"[-+]?\d{1,3}(,\d{3})+", values[wrong]):
        advice = "Write thousands without a comma, and decimals with a point"
    elif _all_match(r"[-+]?\d*,\d+", values[wrong]):
        advice = "Write decimal points, not commas"
    elif _all_match(r"[-+]?[\d.]+\s*%", values[wrong]):
        advice = "Write numbers without a sign of percent, such as 0.71"
    elif argument in ("score", "numerator"):
        # Of many words how it is typed; of digits a few, since one pair has all digits read as numbers.
        words = ["WORD", "OTHER"] if wrong is unread and len(words) > MOST_LISTED else words[:MOST_LISTED]
        meant = {word: word if wrong is text else USUAL.get(word.strip().lower(), "NUMBER") for word in words}
        typed = passed("Convert the column first", score_labels=meant)
        advice = f"{'Pass ' * typed.startswith('--')}{typed}, or name another"
    rule = f"`{argument}` must hold numbers; column {name!r} holds {listed(_some_of(values[wrong]))} in {rows}{why}"
    raise NonNumericError(f"{rule}. {advice}.", column=name, rows=rows)


def _all_match(pattern: str, values: pd.Series) -> bool:
    """Whether all are texts of a pattern, blanks around it aside."""
    return all(isinstance(value, str) and re.fullmatch(pattern, value.strip()) for value in values)


def _some_of(values: pd.Series, most: int = 3) -> list[Any]:
    """Up to so many of the values, each once; lists as their text, as they cannot be told apart by a key."""
    try:
        return list(values.unique()[:most])
    except TypeError:
        return list(dict.fromkeys(str(value) for value in values[:100]))[:most]


def are_numbers(values: pd.Series, kind: str | None = None) -> BoolArray:
    """True where an object is a real number or missing; `kind` is what pandas infers of the values."""
    kind = infer_dtype(values, skipna=True) if kind is None else kind
    if kind in NUMERIC_OBJECTS:
        return np.ones(len(values), dtype=bool)
    if kind == "string":
        return values.isna().to_numpy(dtype=bool)
    known = {kind: issubclass(kind, Real | Decimal | np.bool_) for kind in set(map(type, values))}
    return values.map(type).map(known).to_numpy(dtype=bool) | values.isna().to_numpy(dtype=bool)


def object_floats(values: pd.Series) -> FloatArray:
    """Objects that are real numbers as float64, NaN where missing, infinite where they are too large for it."""
    present = values.notna().to_numpy(dtype=bool)
    result = np.full(len(values), np.nan)
    try:
        result[present] = values[present].to_numpy(dtype=np.float64)
    except OverflowError:
        largest = sys.float_info.max
        result[present] = [
            float(value) if abs(value) <= largest else (np.inf if value > 0 else -np.inf) for value in values[present]
        ]
    return result


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


@dataclass(frozen=True, eq=False)
class Table:
    """A data frame in memory, of any library that narwhals knows.

    Parameters
    ----------
    frame : narwhals.DataFrame
        What `open_frame` holds of the caller's.
    joint_ids : tuple of str
        Names of labels that are made of several columns.
    chosen : Chosen, optional
        Which rows of the caller's frame these are, where `subset` chose among them.
    every : tuple of str
        Names of the columns in the engine that some were read from; none where no engine is behind.
    """

    frame: nw.DataFrame[Any]
    _labels: dict[str, Column] = field(default_factory=dict)
    joint_ids: Names = ()
    chosen: Chosen | None = None
    every: Names = ()

    @cached_property
    def columns(self) -> Names:
        """Names of the columns."""
        return self.every or tuple(str(name) for name in self.frame.columns)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.frame)

    def align(self, name: str, labels: Any, argument: str = "groups") -> Any:
        """Labels or weights of the rows: an array by the length, a Series by the index, of the caller's frame."""
        chosen = self.chosen
        by_index = isinstance(labels, pd.Series) and chosen is not None and chosen.index is not None
        # By the index of the rows that were chosen: others need no label.
        if chosen is None or (by_index and not labels.index.equals(chosen.index)):
            return align_labels(name, labels, self.n_rows, self.index, argument)
        keep = chosen.keep
        if len(labels) == self.n_rows != keep.size:
            raise AlignmentError(
                f"`{argument}` must have one entry for each of the {keep.size} rows of the data, of which `subset` "
                f"keeps {self.n_rows}; got {len(labels)}. Pass an array for all rows, or filter the data beforehand.",
                column=name,
                count=len(labels),
            )
        aligned = align_labels(name, labels, keep.size, chosen.index, argument)
        if isinstance(aligned, pd.Series | pd.Index | np.ndarray):
            return aligned[keep]
        return list(compress(labels_in_python(aligned), keep))

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
        refuse_infinite(values, name, argument)
        return values

    def labels(self, name: str, argument: str) -> Column:
        """Integer codes of a column with -1 for missing, and the label of each code."""
        if name not in self._labels:
            here = tuple(self.frame.columns)
            if name in self.every and name not in here:
                raise NotAvailableError(
                    f'`{argument}` names "{name}", which is still in the engine: of its rows only the columns that the '
                    f"call named were collected, {listed(here)}. Add it to the `groups` of that call, of which "
                    "`with_cov` takes any later; or collect the frame first.",
                    column=name,
                )
            column = self.frame.get_column(known_column(name, (*self.columns, *here), argument))
            refuse_nested(name, column.dtype, type_outside(column))
            self._labels[name] = factorize(values_of(column), name)
        return self._labels[name]

    def with_joint(self, name: str, parts: Sequence[str], argument: str) -> Self:
        """The same table with the joint values of some columns as labels under a name."""
        held = joint_labels([self.labels(part, argument) for part in parts])
        return replace(self, _labels={**self._labels, name: held}, joint_ids=(*self.joint_ids, name))

    def series(self, names: Sequence[str], keep: BoolArray | None) -> dict[str, pd.Series]:
        """Some columns of some rows as series of pandas; of its own frames no value is copied where all rows are."""
        columns = dict[str, pd.Series]()
        for name in names:
            column = self.frame.get_column(name)
            if not self.frame.implementation.is_pandas():
                refuse_nested(name, column.dtype, type_outside(column))
            values = values_of(column)
            held = values if isinstance(values, pd.Series) else pd.Series(values, name=name, copy=False)
            columns[name] = held if keep is None else held.loc[keep]
        return columns

    def to_pandas(self, names: Sequence[str]) -> pd.DataFrame:
        """The same of all rows as a frame."""
        return pd.DataFrame(self.series(names, None))

    def missing(self, name: str) -> BoolArray:
        """True where a column is null or NaN."""
        series = self.frame.get_column(name)
        missing = np.isnan(series.to_numpy()) if series.dtype.is_float() else series.is_null().to_numpy()
        return np.asarray(missing, dtype=bool)


def refuse_infinite(values: object, name: str, argument: str, *, ends: bool = False) -> None:
    """Raise if there are infinities among the values of a column, or of an array called as its argument is.

    Where only the `ends` of values are known, no rows are named.
    """
    infinite = np.isinf(np.asarray(values))
    if infinite.any():
        rows = None if ends else rows_where(infinite)
        raise NonFiniteError(
            f"`{argument}` must be finite; {'it' if name == argument else f'column {name!r}'} is infinite in "
            f"{rows or 'some rows'}. Set such values to missing, or leave the rows out.",
            column=name,
            rows=rows,
        )


def refuse_extreme(values: FloatArray, name: str, argument: str) -> None:
    """Raise if squares of the values, or of their differences, do not fit into a float, or scores lie too close."""
    if not np.isfinite([values.min(initial=np.inf), values.max(initial=-np.inf)]).all():
        values = values[np.isfinite(values)]
    if not values.size:
        return
    low, high = float(values.min()), float(values.max())
    size, spread = max(-low, high), high - low
    if size > LARGEST or 0 < spread < SMALLEST:
        what = f"as large as {size:.3g}" if size > LARGEST else f"that differ by at most {spread:.3g}"
        raise ScoreRangeError(
            f"{argument} must have squares that fit into a float; column {name!r} holds values {what}. "
            f"{'Divide' if size > LARGEST else 'Multiply'} the column by a power of ten first.",
            column=name,
        )
    # Whole numbers are not rounding of each other, however near for their size.
    varies = spread > LAST_DIGITS * size or (spread >= 1 and low.is_integer() and high.is_integer())
    if argument in ("`score`", "scores") and spread <= ROUNDING * size and varies:
        raise ScoreRangeError(
            f"scores must differ by more than 1e-12 of their size, or sums lose them; column {name!r} goes from "
            f"{low:.17g} to {high:.17g}. Subtract {low:.17g} from it first.",
            column=name,
        )


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
    def columns(self) -> Names:
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

    @property
    def index(self) -> pd.Index | None:
        """Index of the rows in use, of a pandas frame."""
        return None if self.table.index is None else self.table.index[self.places()]

    def places(self) -> IntArray:
        """Positions in the table of the rows in use (of the first row of each item)."""
        rows = np.arange(self.table.n_rows) if self.keep is None else np.flatnonzero(self.keep)
        return rows if self.item is None else rows[self.item.first]

    def only(self, mask: BoolArray) -> UsedRows:
        """Some of the rows in use, or of the items."""
        rows = mask if self.item is None else mask[self.item.codes]
        keep = np.zeros(self.table.n_rows, dtype=bool)
        keep[replace(self, item=None).places()[rows]] = True
        return UsedRows(self.table, keep, None if self.item is None else restricted(self.item, rows))

    def _used(self, name: str, codes: IntArray, labels: Any) -> Codes:
        used = used_codes(name, restrict(codes, self.keep), labels, every_row=self.keep is None)
        if self.item is None:
            return used
        return codes_of_items(name, used, self.item, replace(self, item=None).positions())


def codes_of_items(name: str, codes: Codes, item: Codes, positions: IntArray, of: str | None = None) -> Codes:
    """Labels of items (of column `of`) from those of their rows, which must agree; one entry for each item."""
    by_item = codes.codes[item.first]
    differ = by_item[item.codes] != codes.codes
    if differ.any():
        rows = rows_where(differ, positions)
        alike = [] if codes.labels is None else spelled_alike(codes.labels)
        raise differing_labels(name, of, f"in {rows}", rows, alike)
    return Codes(by_item, codes.n_clusters, codes.labels, codes.parts)


def differing_labels(
    name: str, item: str | None, where: str, rows: RowList, alike: Sequence[tuple[str, str]] = ()
) -> AlignmentError:
    """What is wrong with labels that differ between the answers to one item."""
    cure = "Use a coarser cluster."
    if item is not None:
        joined = passed(item=f"{name}:{item}")
        cure = f"If ids of items repeat between parts of the eval, join them, as in {joined}; otherwise use a coarser "
        cure += "cluster."
    if alike:
        cure += f" First see to labels that differ by blanks or case alone, such as {quoted_pair(alike[0])}."
    return AlignmentError(
        f"answers to one item belong together, so that {name!r} must be the same for all answers to one "
        f"{item or 'item'}; it differs {where}. {cure}",
        column=name,
        rows=rows,
    )


def restrict(array: Any, keep: BoolArray | None) -> Any:
    """Return the kept rows of an array, or the array itself."""
    return array if keep is None or array is None else array[keep]


def _from_dict(data: dict[str, Any]) -> pd.DataFrame:
    """A frame of arrays by name, which must be of one length."""
    lengths = {name: len(column) for name, column in data.items() if np.ndim(column) == 1}
    if len(lengths) < len(data):
        other = [name for name in data if name not in lengths]
        raise ArgumentTypeError(f"`data` as a dict must hold one array for each column; {listed(other)} is not one.")
    if len(set(lengths.values())) > 1:
        raise AlignmentError(f"`data` as a dict must hold arrays of one length; got {lengths}.")
    return pd.DataFrame(data)


def by_name(value: Any) -> Any:
    """A frame in memory of another library as one of pandas, whose columns count by name; anything else as it is."""
    if isinstance(value, pd.DataFrame | np.ndarray | str | list | tuple | dict):
        return value
    frame: Any = nw.from_native(value, eager_only=True, pass_through=True)
    return frame.to_pandas() if isinstance(frame, nw.DataFrame) else value


def held_pandas(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame that stays as it is when the caller changes his in place.

    Under copy-on-write no value is copied. In pandas before version 3 that is an option, without which values are
    copied.
    """
    on_write = int(pd.__version__.partition(".")[0]) >= 3 or pd.get_option("mode.copy_on_write") is True
    return frame.copy(deep=not on_write)


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


def _scanned(data: Any) -> Any:
    """A dataset of pyarrow as a relation of DuckDB or a LazyFrame of polars, which read batches; else the data."""
    module = sys.modules.get("pyarrow.dataset")
    if module is None or not isinstance(data, module.Dataset):
        return data
    if importlib.util.find_spec("duckdb") is not None:
        return importlib.import_module("duckdb").from_arrow(data)
    if importlib.util.find_spec("polars") is not None:
        return importlib.import_module("polars").scan_pyarrow_dataset(data)
    raise NotAvailableError(
        "a dataset of pyarrow is read by DuckDB or polars, neither of which is installed. Install one, or read the "
        'columns that are needed: data.to_table(columns=["model", "score", ...]).'
    )


def _refuse_repeated(names: Iterable[str]) -> None:
    """Raise if two columns have one name."""
    if twice := repeated(names):
        raise ArgumentError(f"`data` must have distinct column names; {listed(twice)} occurs more than once.")


def native_frame(data: Any) -> Any:
    """A frame of narwhals on the rows, in memory or lazy; what is no data frame is refused."""
    _refuse_repeated(getattr(data, "column_names", ()))  # of pyarrow
    try:
        return nw.from_native(data)
    except TypeError:
        raise ArgumentTypeError(
            "`data` must be a data frame (pandas, polars, pyarrow, DuckDB or another that narwhals reads) or a dict of "
            f"arrays; got {type(data).__name__}."
        ) from None


def pandas_rows(data: Any) -> pd.DataFrame:
    """The rows of any data frame, or dict of arrays, as pandas; the caller's stay as they are."""
    data = _from_dict(data) if isinstance(data, dict) else data
    if isinstance(data, pd.DataFrame):
        return data.copy(deep=False)
    frame = native_frame(data)
    rows: pd.DataFrame = (frame.collect() if isinstance(frame, nw.LazyFrame) else frame).to_pandas()
    return rows


def open_frame(data: Any) -> Table | Query:
    """A handle on any data frame, or dict of arrays: in memory, as it is now; or in its engine."""
    if isinstance(data, Table | Query):
        return data
    if isinstance(data, dict):
        data = _from_dict(data)
    if isinstance(data, SummedLog):
        raise NotAvailableError(
            "`data` must be rows here: a log of sums is taken by `mean`, by `compare` where it was summed by question, "
            "by `win_rate` and `bradley_terry` where it was summed of comparisons, and by `ratio` where of ratios."
        )
    data = _scanned(data)
    if isinstance(data, pd.DataFrame):
        data = held_pandas(_named_by_text(data))
        _refuse_repeated(data.columns)
    frame = native_frame(data)
    if isinstance(frame, nw.LazyFrame):
        if not frame.implementation.is_polars():  # DuckDB takes the first of a join's two columns without a word.
            _refuse_repeated(frame.to_native().columns)
        with engine_answers(frame, "tell the columns of the frame"):
            return Query(bytewise(without_reserved(without_parsed(frame))))
    if len(frame) == 0:
        raise EmptyDataError("`data` has no rows.")
    if not isinstance(data, pd.DataFrame):
        if frame.implementation.is_pandas():
            frame = nw.from_native(held_pandas(frame.to_native()))
        elif not frame.implementation.is_pyarrow():  # Tables of pyarrow do not change.
            frame = frame.clone()
    return Table(frame)


def rows_in_memory(data: Any, what: str, columns: Sequence[str] = ()) -> Table:
    """A handle on a data frame in memory; rows in an engine are refused, as `what` is not asked of one.

    `columns` are those that it needs, where they are known.
    """
    table = open_frame(data)
    if not isinstance(table, Table):
        named = (
            f"the columns {listed(dict.fromkeys(columns))}, and all that the call names," if columns else "the frame"
        )
        raise NotAvailableError(f"{what} needs rows in memory: collect {named} first.")
    return table


def collected_at_most(table: Query, names: Sequence[str], needs: str) -> Table:
    """Those of some columns that are there, in memory, refused above MOST_COLLECTED rows.

    `needs` is what needs the rows, as its argument is written.
    """
    n_rows = int(table.totals({})["n"])
    if n_rows > MOST_COLLECTED:
        raise NotAvailableError(
            f"{needs} needs rows in memory, and the engine has {n_rows}; up to {MOST_COLLECTED} are collected without "
            f"being asked for. Collect these columns yourself and pass the frame: {', '.join(map(repr, names))}.",
            count=n_rows,
        )
    known = [name for name in names if name in table.columns]
    # Arrow keeps every digit of whole numbers, also where some are missing.
    return Table(nw.from_native(fetched(table.frame.select(known)), eager_only=True), every=table.columns)


def as_query(table: Table | Query, numbers: Mapping[str, str | None]) -> Query:
    """Rows in memory as those of an engine; joint ids that were made are columns.

    `numbers` are columns of numbers by argument; objects that are numbers become floats.
    """
    if isinstance(table, Query):
        return table
    frame = table.frame
    for argument, column in numbers.items():
        kind = None if column is None else frame.schema.get(column)
        if column is not None and kind is not None and not (kind.is_numeric() or kind == nw.Boolean):
            floats = table.floats(column, argument)
            frame = frame.with_columns(nw.new_series(column, floats, nw.Float64, backend=frame.implementation))
    for name in table.joint_ids:
        codes, labels = table.labels(name, "item")
        # One entry more, which the code -1 of a missing id finds.
        texts = np.array([*labels, None], dtype=object)
        frame = frame.with_columns(nw.new_series(name, list(texts[codes]), nw.String, backend=frame.implementation))
    return Query(without_reserved(frame.lazy()))
