"""Reads the table whose path a public function was given in place of rows, as the command line reads it."""

from __future__ import annotations

import glob
import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from evalreg.data.asked_names import formula_names, group_names, role_names
from evalreg.data.sums import holds_sums
from evalreg.data.where import parse
from evalreg.errors import LogFormatError
from evalreg.logs.files import read_head
from evalreg.logs.formats import format_of
from evalreg.logs.reading import Source
from evalreg.logs.table import read_table

# Arguments that name labels, which are read as text unchanged, and those that name columns read as they are.
_LABELS = ("by", "model", "item", "sample", "strata", "left", "right", "winner", "key", "treatment")
_VALUES = ("score", "weights", "judge", "human", "numerator", "denominator", "truth", "predicted", "order")


def rows_for(function: Callable[..., Any], path: str | os.PathLike[str], /, *args: Any, **kwargs: Any) -> pd.DataFrame:
    """The rows of the file that a call names, with the columns of its labels as text."""
    # By position alone: `summarise` has a `path` of its own.
    path = os.path.expanduser(path)
    _refuse_logs(path)
    bound = inspect.signature(function).bind_partial(*args, **kwargs)
    bound.apply_defaults()
    text, values = asked_columns(bound.arguments)
    return read_table(path, text_columns=sorted(text - values), fields=sorted(values))


def asked_columns(arguments: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """Columns that the arguments of an estimator name: as labels, and as they are."""
    text: set[str] = role_names(*(name for role in _LABELS for name in _names(arguments.get(role))))
    for axis in _names(arguments.get("groups")):
        text |= group_names(axis)
    values = {name for role in _VALUES for name in _names(arguments.get(role))}
    formula, subset = arguments.get("formula"), arguments.get("subset")
    if isinstance(formula, str):
        factors, plain = formula_names(formula if "~" in formula else f"score ~ {formula}")
        text, values = text | factors, values | plain
    if isinstance(arguments.get("facets"), str):
        text |= set(str(arguments["facets"]).replace(":", " ").split()) - {"x"}
    # Columns of a condition are read as they are, unless they are labels too.
    return text, values | (set(parse(subset).columns) - text if isinstance(subset, str) else set())


def _names(value: Any) -> list[str]:
    """Names in an argument: one, several, or none where it holds labels of rows."""
    if isinstance(value, str):
        return [value]
    return [name for name in value if isinstance(name, str)] if isinstance(value, list | tuple) else []


def _refuse_logs(path: str | os.PathLike[str]) -> None:
    """Refuse the logs of harnesses and files of sums, which have readers of their own."""
    if os.path.isdir(path):
        raise LogFormatError(
            f"`data` is read from one table; {path} is a folder. Read it by er.read_log({str(path)!r})."
        )
    if not os.path.isfile(path):
        _refuse_pattern(str(path))
        return  # the reader says what is wrong
    if holds_sums(path):
        raise LogFormatError(f"`data` must be rows; {path} holds sums. Read it by er.merged([{str(path)!r}]).")
    name = format_of(Source(Path(path), read_head(Path(path))))
    if name not in (None, "table", "ragas"):
        raise LogFormatError(
            f"`data` is read from a plain table; {path} is a log of the format {name!r}. Read it by "
            f"er.read_log({str(path)!r}), whose methods mean, compare, fit and win_rate know its columns."
        )


def _refuse_pattern(path: str) -> None:
    """Refuse a pattern that files match, and say what takes several."""
    files = sorted(glob.glob(path)) if glob.has_magic(path) else []
    if not files:
        return
    many = f"{path} is a pattern, which {len(files)} {'file matches' if len(files) == 1 else 'files match'}"
    if all(holds_sums(file) for file in files):
        named = ", ".join(map(repr, files))
        raise LogFormatError(f"`data` must be rows; {many}, of sums. Read them by er.merged([{named}]).")
    lazily = f", or leave the rows there: duckdb.sql(\"SELECT * FROM '{path}'\")" if path.endswith(".parquet") else ""
    raise LogFormatError(f"`data` is read from one table; {many}. Read them by er.read_log({path!r}){lazily}.")
