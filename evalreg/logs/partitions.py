"""Columns that folders give to the files in them: `logs/model=ada/part-0.parquet` has a column `model`, as in Hive."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd

from evalreg.checks import listed
from evalreg.errors import LogFormatError

MISSING = "__HIVE_DEFAULT_PARTITION__"


def partitions(path: str | os.PathLike[str]) -> dict[str, str | None]:
    """Names and values in the folders `name=value` of a path as it was given; None is a missing one."""
    found: dict[str, str | None] = {}
    for folder in Path(os.path.normpath(path)).parts[:-1]:
        name, sign, value = folder.partition("=")
        if not (name and sign):
            continue
        try:
            name, value = unquote(name, errors="strict"), unquote(value, errors="strict")
        except UnicodeDecodeError as error:
            raise LogFormatError(
                f'Text is UTF-8; the folder "{folder}" of "{path}" stands for other bytes. Rename it.'
            ) from error
        if name in found:
            raise LogFormatError(
                f'A folder "name=value" is a column, and names of columns differ; "{path}" has more than one "{name}". '
                "Rename a folder.",
                column=name,
            )
        found[name] = None if value == MISSING else value
    return found


def with_partitions(
    frame: pd.DataFrame, given: dict[str, str | None], name: str, kept: Sequence[str] | None
) -> pd.DataFrame:
    """The rows just read of a file with the columns that its folders give, as text; of these `kept`, or all.

    A column that the file has as well stays as it is there, and is refused where it says something else.
    """
    for column, value in given.items():
        if column in frame.columns:
            _refuse_other(frame[column], column, value, name)
    for column, value in given.items():
        if column not in frame.columns and (kept is None or column in kept):
            frame.insert(len(frame.columns), column, pd.Series(value, index=frame.index, dtype=str))
    return frame


def refuse_unlike_partitions(names: Sequence[str]) -> None:
    """Refuse files of one log whose folders give other columns."""
    keys = [list(partitions(name)) for name in names]
    for name, own in zip(names, keys, strict=True):
        if set(own) != set(keys[0]):
            raise LogFormatError(
                'Folders "name=value" are columns, and tables of one log have the same columns; '
                f'"{names[0]}" lies in {_folders(keys[0])}, "{name}" in {_folders(own)}. Read them one by one.'
            )


def _folders(keys: list[str]) -> str:
    return f"folders of {listed(keys, joiner=' and ')}" if keys else "no such folder"


def _refuse_other(column: pd.Series[Any], name: str, value: str | None, file: str) -> None:
    """Refuse a column of a file that does not say what the folder says."""
    uniques: Any
    try:
        codes, uniques = pd.factorize(column)
    except TypeError:  # objects within the file
        codes, uniques = np.zeros(len(column), dtype=int), [column.iloc[0]]
    # The last one is that of missing values, whose code is -1.
    agrees = np.array([*(_is_same(one, value) for one in uniques), value is None], dtype=bool)
    rows = np.flatnonzero(~agrees[codes])
    if rows.size:
        first = column.iloc[rows[:1]].tolist()[0]
        said = "a missing value" if value is None else f'"{value}"'
        raise LogFormatError(
            f'A column has one value a row; of "{name}" the folder of "{file}" says {said}, and the file itself '
            f"something else in {len(rows)} of its {len(column)} rows, such as {first!r}. Rename the folder "
            "or the column.",
            column=name,
            rows=rows,
            count=len(rows),
        )


def _is_same(own: Any, value: str | None) -> bool:
    """Whether a value of a file is what a folder says: as text, as a number or as a time."""
    if value is None or str(own) == value:
        return value is not None
    if isinstance(own, bool | np.bool_):
        return str(own).lower() == value.lower()
    try:
        if isinstance(own, pd.Timestamp):
            return bool(pd.Timestamp(value) == own)
        # Whole numbers beyond 2**53 are not told apart as floats.
        return bool((int(value) if isinstance(own, int | np.integer) else float(value)) == own)
    except (TypeError, ValueError):
        return False
