"""Battles of Chatbot Arena: two models side by side, and what the person who asked them thought."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pandas as pd

from evalreg.checks import listed
from evalreg.errors import ArgumentError
from evalreg.logs.judged import Row, Unknown, VerdictRows, file_runs, reading, refuse_choices, verdict
from evalreg.logs.reading import Choice, Reading, Reason, Source
from evalreg.logs.records import cell, extra_columns, field, label
from evalreg.logs.roles import BATTLES
from evalreg.logs.table import read_table

NAME, TITLE = "chatbot_arena", "Chatbot Arena battles"
_USUAL = ("language", "turn", "anony")
# One of these tells battles from any table that happens to name its columns so.
_MARKS = (b"tstamp", b"anony", b"conversation_a", b"conversation_id")
_PROMPTS = ("question_id", "conversation_id")


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
    parse = partial(_parse, columns=extra_columns(choice.columns, _USUAL), which=choice.filter)
    for source in sources:
        if source.head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
            gathered.read([source], parse)
            continue
        for number, record in enumerate(read_table(source.path, text_columns=_IDS).to_dict("records"), start=1):
            whole = {str(name): None if pd.isna(value) else value for name, value in record.items()}
            gathered.take(source, f"row {number}", whole, parse)
    frame = gathered.frame(listed(BATTLES))
    shown = frame.pop("_shown")
    counts = {name: int((shown == name).sum()) for name in ("anonymous", "named")}
    if choice.filter is None and min(counts.values()):
        raise ArgumentError(
            f"Names were hidden in {counts['anonymous']} battles and shown in {counts['named']}; the Arena's own board "
            'counts the first alone. Choose filter="anonymous", "named" or "all".'
        )
    return reading(NAME, gathered, frame, file_runs(sources, "chatbot_arena"), ["The left answer is model_a's."])


_IDS = ("model_a", "model_b", "winner", "judge", *_PROMPTS)


def _parse(
    record: Row, source: Source, columns: tuple[str, ...], which: str | None
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
    yield row | {"verdict": raw, "_shown": shown} | {name: cell(record, name) for name in columns}
