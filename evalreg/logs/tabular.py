"""What the readers of tables share: what is asked of a file, its columns by name, truth values with gaps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd
from pandas.api.types import infer_dtype

from evalreg.checks import listed
from evalreg.data.names import known_column
from evalreg.errors import ArgumentTypeError, LogFormatError

CUT_OFF = "Was the run that wrote it cut off?"


@dataclass(frozen=True)
class TableRequest:
    """What to read of a table.

    Parameters
    ----------
    text : list of str
        Columns read as text, to the letter; names that the file does not have are passed over.
    columns : list of str or None
        Columns to read, in this order, all of which must be there.
    keep : list of str or None
        Columns to read where they are there; with neither, all are read.
    nested : list of str
        Names with dots that may stand for fields of nested objects.
    flat : bool
        Whether short fields of nested objects take the place of the objects.
    """

    text: list[str]
    columns: list[str] | None = None
    keep: list[str] | None = None
    nested: list[str] = field(default_factory=list)
    flat: bool = False


def names(argument: str, given: Sequence[str]) -> list[str]:
    """The names of a list, each once; one text in its place is an error."""
    if isinstance(given, str):
        raise ArgumentTypeError(f'`{argument}` must be a list of names; got the string "{given}". Pass ["{given}"].')
    return list(dict.fromkeys(given))


def chosen(columns: list[str] | None, found: list[str], name: str) -> list[str]:
    """The columns to read, once the names in the file and those asked for are checked."""
    repeated = [column for column, times in Counter(found).items() if times > 1]
    if repeated:
        raise LogFormatError(
            f"Column names must differ; {name} has more than one {listed(repeated, joiner=' and ')}. Rename them.",
            column=repeated[0],
        )
    return found if columns is None else [known_column(column, found, "columns") for column in columns]


def nullable(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with truth values and gaps, which come as objects, as nullable booleans."""
    objects = [column for column in frame.columns if frame[column].dtype == object]
    return frame.astype({column: "boolean" for column in objects if infer_dtype(frame[column]) == "boolean"})
