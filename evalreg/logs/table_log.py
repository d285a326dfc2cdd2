"""Tables as logs: CSV, JSON lines and Parquet whose columns have the names of roles."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from pandas.api.types import infer_dtype, is_string_dtype

from evalreg.checks import listed
from evalreg.data.names import known_column
from evalreg.errors import EvalregWarning, LogFormatError, issue
from evalreg.logs.arrow_table import kinds
from evalreg.logs.content import Content
from evalreg.logs.partitions import refuse_unlike_partitions
from evalreg.logs.reading import JUDGED, SCORED, BrokenName, Choice, Reading, Reason, Source, TableRoles, counted
from evalreg.logs.roles import are_battles, likely_roles, with_meanings, with_roles
from evalreg.logs.table import table_and_broken

NAME, TITLE = "table", "a table (CSV, TSV, JSON lines, Parquet, Arrow)"

# Ids are text, unchanged.
IDS = tuple(role for role in (*SCORED, *JUDGED) if role not in ("score", "sample"))


def recognises(source: Source) -> bool:
    """Whether it may be a table: Parquet, Arrow, JSON lines, or text with a header."""
    start = source.head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith((b"PAR1", b"ARROW1", b"{")):
        return True
    if source.head.startswith((b"\xff\xfe", b"\xfe\xff")):  # text in UTF-16, which is refused by that name
        return True
    first = start.split(b"\n", 1)[0]
    return not start.startswith((b"[", b"PK")) and b"\0" not in source.head and (b"," in first or b"\t" in first)


def read(sources: Sequence[Source], choice: Choice) -> Reading:
    """The rows of tables, one below the other, the columns of roles under the roles' names too."""
    roles = choice.roles or TableRoles({})
    text = (*IDS, *(column for role, column in roles.columns.items() if role in IDS), *roles.key, *choice.text)
    # Of nested objects all short fields, where none is named.
    named = None if choice.columns is None else (*roles.columns.values(), *roles.key, *choice.columns)
    frame, n_broken = _rows(sources, text, named, choice.broken)
    frame = with_roles(frame, roles.columns, "roles")
    if not {"score", "winner"} & set(frame.columns):
        likely = likely_roles(frame)
        raise LogFormatError(
            f"A table read as a log has a column 'score' or 'winner'; {sources[0].path} has {listed(frame.columns)}. "
            "Name the columns that have roles, for instance by "
            f"{_as_python(likely if 'score' in likely else {'score': 'correct'})} or by a file such as roles.toml with "
            "such lines."
        )
    missing = [side for side in ("left", "right") if side not in frame.columns]
    if missing and "score" not in frame.columns:
        raise LogFormatError(
            f"A table of verdicts (column 'winner') has the two models in columns 'left' and 'right'; "
            f"{sources[0].path} has no {' and no '.join(map(repr, missing))}, but {listed(frame.columns)}. "
            f"{_advice_on_verdicts(frame)}"
        )
    for column in (*roles.key, *(choice.columns or ())):
        known_column(column, [str(name) for name in frame.columns], "key" if column in roles.key else "columns")
    if choice.columns is not None:
        kept = {*SCORED, *JUDGED, *roles.key, *choice.columns}
        frame = frame[[column for column in frame.columns if column in kept]]
    frame, silent = with_meanings(frame, roles)
    counts: dict[Reason, int] = {"unparsed": silent, "broken": n_broken}
    left_out = {reason: count for reason, count in counts.items() if count}
    return Reading(NAME, frame, left_out=left_out, key=roles.key)


def _as_python(roles: Mapping[str, str]) -> str:
    return f"roles={{{', '.join(f'{json.dumps(role)}: {json.dumps(name)}' for role, name in roles.items())}}}"


def _advice_on_verdicts(frame: pd.DataFrame) -> str:
    """How a table of verdicts may be read whose columns of models have other names."""
    if are_battles(frame):
        return 'Its verdicts are those of battles as Chatbot Arena writes them: pass format="chatbot_arena".'
    likely = {"left": "model_a", "right": "model_b"} | likely_roles(frame, ("left", "right")) | {"winner": "winner"}
    return f"For instance pass {_as_python(likely)} or a file such as roles.toml with such lines."


def _rows(
    sources: Sequence[Source], text: Sequence[str], named: Sequence[str] | None, broken: BrokenName
) -> tuple[pd.DataFrame, int]:
    """The rows of tables, of their columns those named and those of roles, and how many lines were broken."""
    keep = None if named is None else tuple(dict.fromkeys((*SCORED, *JUDGED, *named)))
    fields = None if named is None else ()

    def read(source: Source, text: Sequence[str]) -> tuple[pd.DataFrame, int]:
        frame, n = table_and_broken(source.path, text_columns=text, fields=fields, keep=keep, broken=broken)
        if named is not None and (set(named) - set(frame.columns) or not {"score", "winner"} & set(frame.columns)):
            # What is missing is told with the names of all columns.
            frame, n = table_and_broken(source.path, text_columns=text, fields=named, broken=broken)
        return frame, n

    found = [read(source, text) for source in sources]
    if unlike := text_in_some([frame for frame, _ in found]):
        found = [read(source, (*text, *unlike)) for source in sources]
    contents = [Content(source.path) for source in sources]
    return joined(contents, [frame for frame, _ in found]), sum(n for _, n in found)


def text_in_some(tables: Sequence[pd.DataFrame]) -> list[str]:
    """Columns that are text in one table and something else in another, so that 1 and "1" would be two values."""
    found: dict[str, set[bool]] = {}
    for frame in tables if len(tables) > 1 else ():
        for column in frame.columns:
            if frame[column].notna().any():
                found.setdefault(str(column), set()).add(is_text(frame[column]))
    return [column for column, texts in found.items() if len(texts) > 1]


def is_text(column: pd.Series[Any]) -> bool:
    """Whether a column holds text alone."""
    if column.dtype == object:
        return infer_dtype(column, skipna=True) == "string"
    return is_string_dtype(column.dtype)


def joined(files: Sequence[Content], tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables of the same columns, one below the other; each comes with its file."""
    refuse_unlike_partitions([file.name for file in files])
    first, columns = files[0].name, [str(column) for column in tables[0].columns]
    for file, frame in zip(files, tables, strict=True):
        if list(frame.columns) != columns:
            raise LogFormatError(
                f"Tables of one log have the same columns; {first} has {listed(columns)}, "
                f"{file.name} has {listed(frame.columns)}. Read them one by one."
            )
    if len(tables) == 1:
        return tables[0]
    whole = pd.concat(tables, ignore_index=True)
    _warn_of_kinds(files, [column for column in columns if is_text(whole[column])])
    return whole


def _warn_of_kinds(files: Sequence[Content], columns: list[str]) -> None:
    """Warn of columns that were read as text, and are numbers in one file and text in another."""
    found = [(file.name, kinds(file, columns)) for file in files]
    for column in columns:
        by_kind: dict[str, list[str]] = {}
        for name, own in found:
            if column in own:
                by_kind.setdefault(own[column], []).append(name)
        if len(by_kind) > 1:
            where = ", and ".join(
                f"{kind} in {names[0]}" + (f" and {counted(len(names) - 1, 'other file')}" if names[1:] else "")
                for kind, names in by_kind.items()
            )
            text = (
                f'Column "{column}" is {where}. It is read as text, where 5 and "5" are one value, and 5 and "05" are '
                "two. Write it in one type if the same ids are meant."
            )
            issue([(EvalregWarning, text)])
