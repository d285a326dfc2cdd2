"""Any data frame in: held as it is now in memory, or left in its engine."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import IntArray, listed
from evalreg.data.engine import LazyTable, as_pandas, engine_answers, fetched, schema_of, without_own
from evalreg.data.engine_duckdb import without_parsed
from evalreg.data.engine_text import bytewise
from evalreg.data.frame import Table
from evalreg.data.sums import SummedLog
from evalreg.errors import AlignmentError, ArgumentError, ArgumentTypeError, EmptyDataError, NotAvailableError


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


def _is_arrow_dataset(data: Any) -> bool:
    """Whether this is a dataset of pyarrow, files that are not read yet."""
    module = sys.modules.get("pyarrow.dataset")
    return module is not None and isinstance(data, module.Dataset)


def _scanned(dataset: Any) -> Any:
    """A dataset of pyarrow as a relation of DuckDB, or else a LazyFrame of polars; both read batches as they go."""
    if importlib.util.find_spec("duckdb") is not None:
        return importlib.import_module("duckdb").from_arrow(dataset)
    if importlib.util.find_spec("polars") is not None:
        return importlib.import_module("polars").scan_pyarrow_dataset(dataset)
    raise NotAvailableError(
        "a dataset of pyarrow is read by DuckDB or polars, neither of which is installed. Install one, or read the "
        'columns that are needed: data.to_table(columns=["model", "score", ...]).'
    )


def open_frame(data: Any) -> Table | LazyTable:
    """A handle on any data frame, or dict of arrays: in memory, as it is now; or in its engine."""
    if isinstance(data, Table | LazyTable):
        return data
    if isinstance(data, dict):
        data = _from_dict(data)
    if isinstance(data, SummedLog):
        raise NotAvailableError(
            "`data` must be rows here: a log of sums is taken by `mean`, by `compare` where it was summed by question, "
            "by `win_rate` and `bradley_terry` where it was summed of comparisons, and by `ratio` where of ratios."
        )
    if _is_arrow_dataset(data):
        data = _scanned(data)
    if isinstance(data, pd.DataFrame):
        data = held_pandas(_named_by_text(data))
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
        with engine_answers(frame, "tell the columns of the frame"):
            return LazyTable(bytewise(without_own(without_parsed(frame))))
    if len(frame) == 0:
        raise EmptyDataError("`data` has no rows.")
    return Table(frame if isinstance(data, pd.DataFrame) else held_frame(frame))


# Rows of an engine that are collected for an option that needs them; of more the caller is to know.
MOST_COLLECTED = 1_000_000


@dataclass(frozen=True, eq=False)
class CollectedTable(Table):
    """Columns that a call named, of rows in an engine; the others stayed there."""

    every: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns in the engine."""
        return self.every

    def labels(self, name: str, argument: str) -> tuple[IntArray, Any]:
        """Integer codes of a column with -1 for missing, and the label of each code."""
        here = tuple(self.frame.columns)
        if name in self.every and name not in here and name not in self._labels:
            raise NotAvailableError(
                f'`{argument}` names "{name}", which is still in the engine: of its rows only the columns that the '
                f"call named were collected, {listed(here)}. Add it to the `groups` of that call, of which "
                "`with_cov` takes any later; or collect the frame first.",
                column=name,
            )
        return super().labels(name, argument)


def collected_at_most(table: LazyTable, names: Sequence[str], labels: Set[str | None], needs: str) -> Table:
    """`collected`, refused above MOST_COLLECTED rows; `needs` is what needs the rows, as its argument is written."""
    n_rows = table.count_absent(())[0]
    if n_rows > MOST_COLLECTED:
        raise NotAvailableError(
            f"{needs} needs rows in memory, and the engine has {n_rows}; up to {MOST_COLLECTED} are collected without "
            f"being asked for. Collect these columns yourself and pass the frame: {', '.join(map(repr, names))}.",
            count=n_rows,
        )
    return collected(table, names, labels)


def collected(table: LazyTable, names: Sequence[str], labels: Set[str | None]) -> Table:
    """Those of some columns that are there, in memory (polars or pandas), of a frame in an engine.

    Whole numbers that are read as labels keep every digit, also where some are missing.
    """
    known = [name for name in names if name in table.columns]
    if table.frame.implementation.is_polars():
        own = nw.from_native(fetched(table.frame.select(known), "polars"), eager_only=True)
        return CollectedTable(own, every=table.columns)
    schema = schema_of(table.frame)
    columns = [
        nw.col(name).cast(nw.String) if name in labels and schema[name].is_integer() else nw.col(name) for name in known
    ]
    own = nw.from_native(as_pandas(table.frame.select(*columns)), eager_only=True)
    return CollectedTable(own, every=table.columns)
