"""Tables as logs: CSV, JSON lines and Parquet whose columns have the names of roles."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from evalreg.checks import listed
from evalreg.errors import LogFormatError
from evalreg.logs.reading import JUDGED, SCORED, Choice, Reading, Source
from evalreg.logs.table import read_table

NAME, TITLE = "table", "a table (CSV, TSV, JSON lines, Parquet)"

# Ids are text, to the letter.
IDS = tuple(role for role in (*SCORED, *JUDGED) if role not in ("score", "sample"))


def recognises(source: Source) -> bool:
    """Whether it may be a table: Parquet, JSON lines, or text with a header."""
    start = source.head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith((b"PAR1", b"{")):
        return True
    first = start.split(b"\n", 1)[0]
    return not start.startswith((b"[", b"PK")) and b"\0" not in source.head and (b"," in first or b"\t" in first)


def read(sources: Sequence[Source], choice: Choice) -> Reading:
    """The rows of tables, one below the other."""
    frames = [read_table(source.path, text_columns=IDS) for source in sources]
    columns = [str(column) for column in frames[0].columns]
    for source, frame in zip(sources, frames, strict=True):
        if list(frame.columns) != columns:
            raise LogFormatError(
                f"Tables of one log have the same columns; {sources[0].path} has {listed(columns)}, "
                f"{source.path} has {listed(frame.columns)}. Read them one by one."
            )
    if not {"score", "winner"} & set(columns):
        raise LogFormatError(
            f"A table read as a log has a column 'score' or 'winner'; {sources[0].path} has {listed(columns)}. "
            "Read it with pandas and name the columns: er.Log(frame, score=..., item=...)."
        )
    return Reading(NAME, pd.concat(frames, ignore_index=True))
