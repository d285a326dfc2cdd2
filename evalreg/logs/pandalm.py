"""PandaLM's test set: pairs of answers judged by people, and files of the verdicts of other judges on them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from evalreg.errors import LogFormatError
from evalreg.logs.judged import Row, Unknown, VerdictRows, file_runs, reading, refuse_choices, verdict
from evalreg.logs.reading import Choice, Reading, Reason, Source
from evalreg.logs.records import BadRecordError, cell, digest, extra_columns, field, label, records, text

NAME, TITLE = "pandalm", "the PandaLM test set"
_VERDICTS: dict[Any, str] = {0: "tie", 1: "left", 2: "right", "0": "tie", "1": "left", "2": "right"}
_VERDICTS |= {"tie": "tie", "Tie": "tie"}
_RESULT = re.compile(r"(\w+)_result")


def recognises(source: Source) -> bool:
    """Whether it has items of the test set, or verdicts on them."""
    head = source.head
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")) or b'"idx"' not in head:
        return False
    return b'"cmp_key"' in head or re.search(rb'"\w+_result"', head) is not None


def read(sources: Sequence[Source], choice: Choice) -> Reading:
    """A comparison for each item and judge; response 1 is on the left."""
    refuse_choices(choice, TITLE)
    gathered = VerdictRows(choice)
    columns = extra_columns(choice.columns, ("motivation_app",))
    items: dict[str, Row] = {}
    # Items first, wherever they stand: verdicts of other judges name them by number alone.
    for source in sources:
        if b'"cmp_key"' in source.head:
            for place, record in records(source, choice.broken):
                gathered.take(source, place, record, partial(_item, items=items, columns=columns))
    if not items:
        raise LogFormatError(
            "Verdicts on the PandaLM test set name items by number; their models are in testset-v1.json. "
            "Name that file too."
        )
    for source in sources:
        if b'"cmp_key"' not in source.head:
            judge = source.path.name.partition("-testset")[0].partition(".json")[0]
            for place, record in records(source, choice.broken):
                gathered.take(source, place, record, partial(_verdict, items=items, judge=judge))
    frame = gathered.frame("1, 2, 0 or tie, or null")
    notes = [
        "Each pair was shown in one order only, response 1 first. An annotator is a column of the file, and need not "
        "be one person throughout."
    ]
    return reading(NAME, gathered, frame, file_runs(sources, "pandalm"), notes)


def _item(
    record: Row, source: Source, items: dict[str, Row], columns: tuple[str, ...]
) -> Iterator[Row | Reason | Unknown]:
    """Verdicts of the people on one item, which is kept for other judges."""
    models = label(record, "cmp_key").split("_")
    if len(models) != 2:
        raise BadRecordError(
            f"has the pair {record['cmp_key']!r}, where two models joined by one underscore are needed"
        )
    prompt = digest(text(record, "instruction") + "\0" + text(record, "input"))
    item = {"left": models[0], "right": models[1], "prompt": prompt, "idx": label(record, "idx")}
    item |= {name: cell(record, name) for name in columns}
    if items.setdefault(item["idx"], item) != item:
        raise BadRecordError(f"has the number {item['idx']} of another item")
    for name in sorted(key for key in record if re.fullmatch(r"annotator\d+", key)):
        yield _row(item, name, record[name])


def _verdict(record: Row, source: Source, items: dict[str, Row], judge: str) -> Iterator[Row | Reason | Unknown]:
    """The verdict of another judge on one item."""
    idx = label(record, "idx")
    if idx not in items:
        raise BadRecordError(f"is a verdict on item {idx}, which the test set does not have")
    names = [key for key in record if _RESULT.fullmatch(key)]
    if len(names) != 1:
        raise BadRecordError(f"has {len(names)} fields that end in _result, where one is needed")
    yield _row(items[idx], judge, field(record, names[0]))


def _row(item: Row, judge: str, raw: Any) -> Row | Reason | Unknown:
    if raw is None or raw == "":
        return "unparsed"
    found = verdict(raw, _VERDICTS)
    if isinstance(found, Unknown):
        return found
    sides = {"left": item["left"], "right": item["right"], "winner": found, "prompt": item["prompt"], "judge": judge}
    return sides | {name: value for name, value in item.items() if name not in sides}
