"""Battles of Chatbot Arena: two models side by side, and what the person who asked them thought."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pandas as pd

from evalreg.checks import listed
from evalreg.errors import ArgumentError
from evalreg.logs.fields import LONGEST, flat
from evalreg.logs.judged import Row, Unknown, VerdictRows, file_runs, reading, refuse_choices, verdict
from evalreg.logs.one_run import known_fields
from evalreg.logs.reading import Choice, Reading, Reason, Source
from evalreg.logs.records import cell, field, label
from evalreg.logs.roles import BATTLES, ROLES
from evalreg.logs.table import read_table

NAME, TITLE = "chatbot_arena", "Chatbot Arena battles"
# One of these tells battles from any table that happens to name its columns so.
_MARKS = (b"tstamp", b"anony", b"conversation_a", b"conversation_id")
_PROMPTS = ("question_id", "conversation_id")
# Columns that mean a question, or questions of one kind, wherever they are.
_QUESTIONS = ("prompt", "item", "task")


def recognises(source: Source) -> bool:
    """Whether it has the sides of a battle, in JSON or in CSV."""
    head = source.head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not head.startswith((b"{", b"[")):
        head = head.split(b"\n", 1)[0]
    sides = all(name in head for name in (b"model_a", b"model_b", b"winner"))
    return sides and b"\0" not in head and any(mark in head for mark in _MARKS)


def read(sources: Sequence[Source], choice: Choice) -> Reading:
    """A comparison for each battle; model_a is on the left, as it was shown."""
    refuse_choices(choice, TITLE, filter="names shown or not")
    if choice.filter not in (None, "anonymous", "named", "all"):
        raise ArgumentError(f'`filter` must be "anonymous", "named" or "all"; got {choice.filter!r}.')
    gathered = VerdictRows(choice)
    parse = partial(_parse, columns=choice.columns, which=choice.filter)
    for source in sources:
        if source.head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
            gathered.read([source], parse)
            continue
        table = read_table(source.path, text_columns=[*_IDS, *choice.text])
        for number, (record, given) in enumerate(_records(table), start=1):
            whole = {name: value if there else None for (name, value), there in zip(record.items(), given, strict=True)}
            gathered.take(source, f"row {number}", whole, parse)
    frame = gathered.frame(listed(BATTLES))
    shown = frame.pop("_shown")
    counts = {name: int((shown == name).sum()) for name in ("anonymous", "named")}
    if choice.filter is None and min(counts.values()):
        raise ArgumentError(
            f"Names were hidden in {counts['anonymous']} battles and shown in {counts['named']}; the Arena's own board "
            'counts the first alone. Choose filter="anonymous", "named" or "all".'
        )
    frame = frame.rename(columns={f"_{name}": name for name in ROLES if name not in frame})
    frame = frame.drop(columns=[f"_{name}" for name in ROLES], errors="ignore")
    long = (
        []
        if choice.columns is not None
        else [str(name) for name in frame if name != "prompt" and _is_long(frame[name])]
    )
    frame = known_fields(frame.drop(columns=long), choice)
    return reading(NAME, gathered, frame, file_runs(sources, "chatbot_arena"), ["The left answer is model_a's."])


# Columns that are there under the names of roles; text, to the letter.
_IDS = ("model_a", "model_b", "winner", "judge", *_PROMPTS)


def _parse(
    record: Row, source: Source, columns: tuple[str, ...] | None, which: str | None
) -> Iterator[Row | Reason | Unknown]:
    """The comparison of one battle."""
    raw = field(record, "winner")
    shown = "named" if record.get("anony") in (False,) else "anonymous"  # of numpy where it is read from CSV
    if which in ("anonymous", "named") and which != shown:
        return
    if raw is None:
        yield "unparsed"
        return
    found = verdict(raw, BATTLES)
    if isinstance(found, Unknown):
        yield found
        return
    row: Row = {"left": label(record, "model_a"), "right": label(record, "model_b"), "winner": found}
    prompt = next((name for name in _PROMPTS if record.get(name) is not None), None)
    row |= {} if prompt is None else {"prompt": label(record, prompt)}
    row |= {"judge": label(record, "judge")} if record.get("judge") is not None else {}
    yield _further(record, columns) | row | {"verdict": raw, "_shown": shown}


def _further(record: Row, columns: tuple[str, ...] | None) -> Row:
    """Fields that were asked for, or else all but lists; one of a role's name is set aside: it may mean another thing.

    Repeats are told apart by columns of such names.
    """
    if columns is not None:
        return {f"_{name}" if name in ROLES else name: cell(record, name) for name in columns}
    kept = {
        name: value for name, value in flat(record).items() if not (name.startswith("_") or isinstance(value, list))
    }
    others = {name: value for name, value in kept.items() if name not in (*_IDS, *ROLES)}
    return others | {f"_{name}": kept[name] for name in _QUESTIONS if name in kept}


def _is_long(column: pd.Series[Any]) -> bool:
    """Whether a column holds whole texts, of questions or answers say."""
    return any(isinstance(value, str) and len(value) > LONGEST for value in column)


def _records(table: pd.DataFrame) -> Iterator[tuple[Row, Any]]:
    """Each row of a table, and which of its cells hold something."""
    columns, given = [table[name].tolist() for name in table], table.notna().to_numpy()
    rows = zip(*columns, strict=True)
    return (
        (dict(zip(map(str, table.columns), row, strict=True)), there) for row, there in zip(rows, given, strict=True)
    )
