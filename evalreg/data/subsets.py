"""The rows of a frame that `subset` keeps, by the language of ``--where``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import narwhals.stable.v2 as nw
import pandas as pd

from evalreg.checks import BoolArray
from evalreg.data.engine import LazyTable
from evalreg.data.frame import Chosen, Table
from evalreg.data.opening import open_frame
from evalreg.data.where import mask, parse, unheard_of
from evalreg.errors import ArgumentTypeError, EmptyDataError, NotAvailableError


def open_subset(data: Any, subset: object) -> Table:
    """The rows of a frame in memory for which the filter is true."""
    if not isinstance(subset, str):
        raise ArgumentTypeError(
            f"`subset` must be text such as 'language == \"en\" and tokens < 100'; got {type(subset).__name__}. Rows "
            "that are chosen in another way are left out beforehand, as in data[keep]."
        )
    expression, table = parse(subset, "subset"), open_frame(data)
    if isinstance(table, LazyTable):
        raise NotAvailableError(
            "`subset` keeps rows of a frame in memory, and these are in an engine. Filter them there, and pass what is "
            "left: data.filter(...)."
        )
    known = [name for name in expression.columns if name in table.columns]
    frame = table.to_pandas(known or list(table.columns), None)
    keep = mask(expression, frame if len(known) == len(expression.columns) else _all(table), "subset")
    if not keep.any():
        raise EmptyDataError(
            f"`subset` must keep some rows; {subset} is true for none of the {keep.size} rows."
            f"{unheard_of(expression, frame)}",
            count=keep.size,
        )
    chosen = Chosen(subset, keep, table.index)
    return replace(table, frame=_kept(table.frame, keep), _labels={}, chosen=chosen)


def _all(table: Table) -> pd.DataFrame:
    """All columns, for a message that lists them."""
    return pd.DataFrame(columns=list(table.columns))


def _kept(frame: nw.DataFrame[Any], keep: BoolArray) -> nw.DataFrame[Any]:
    native = frame.to_native()
    if isinstance(native, pd.DataFrame):
        return nw.from_native(native[keep])
    return frame.filter(nw.new_series("keep", keep, nw.Boolean, backend=frame.implementation))
