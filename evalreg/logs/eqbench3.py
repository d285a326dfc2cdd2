"""Results of EQ-Bench 3: comparisons of role-plays by one judge, beside the ratings that were made of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from evalreg.errors import LogFormatError
from evalreg.logs.judged import Row, Unknown, VerdictRows, reading, refuse_choices
from evalreg.logs.reading import Choice, Reading, Reason, Run, Source
from evalreg.logs.records import BadRecordError, cell, document, dotted, extra_columns, field, label, numeric

NAME, TITLE = "eqbench3", "EQ-Bench 3 results"
_META, _COMPARISONS = "__metadata__", "global_pairwise_comparisons"


def recognises(source: Source) -> bool:
    """Whether it has EQ-Bench's list of comparisons."""
    return _META.encode() in source.head and _COMPARISONS.encode() in source.head


def read(sources: Sequence[Source], choice: Choice) -> Reading:
    """A comparison for each judgement that did not fail; the left answer was shown first."""
    refuse_choices(choice, TITLE)
    gathered, runs = VerdictRows(choice), []
    parse = partial(_parse, columns=extra_columns(choice.columns, ()))
    for source in sources:
        found = document(source)
        comparisons = dotted(dotted(found, _META), _COMPARISONS)
        if not isinstance(comparisons, list):
            raise LogFormatError(f"Results of EQ-Bench 3 hold a list {_COMPARISONS!r}; {source.path} has none.")
        for number, record in enumerate(comparisons, start=1):
            gathered.take(source, f"comparison {number}", record if isinstance(record, dict) else {}, parse)
        ratings = {name: value for name, value in found.items() if name != _META and isinstance(value, dict)}
        updated = cell(dotted(found, _META), "last_updated")
        runs.append(Run(str(source.path), "", "eqbench3", str(source.path), {"reported": ratings, "updated": updated}))
    frame = gathered.frame("an outcome of 0, 0.5 or 1")
    notes = ["The left answer was shown first. Opponents were chosen by rank, and there is one judge."]
    return reading(NAME, gathered, frame, runs, notes)


def _parse(record: Row, source: Source, columns: tuple[str, ...]) -> Iterator[Row | Reason | Unknown]:
    """One comparison; "errored" where the judge gave none."""
    pair = field(record, "pair")
    test, other = label(pair, "test_model"), label(pair, "neighbor_model")
    if "error" in record and "outcome_for_test_model" not in record:
        yield "errored"
        return
    outcome = field(record, "outcome_for_test_model")
    number = None if isinstance(outcome, bool) else numeric(outcome)
    if number not in (0.0, 0.5, 1.0):
        yield Unknown(outcome)
        return
    test_first = _test_first(label(record, "order"))
    left, right = (test, other) if test_first else (other, test)
    winner = "tie" if number == 0.5 else "left" if (number == 1) is test_first else "right"
    row: dict[str, Any] = {"left": left, "right": right, "winner": winner, "prompt": label(record, "scenario_id")}
    row |= {"order": 1 if test_first else 2, "iteration": cell(pair, "iteration_index")}
    marks = ("plus_for_test", "plus_for_other") if test_first else ("plus_for_other", "plus_for_test")
    yield (
        row
        | {f"plus.{side}": cell(record, mark) for side, mark in zip(("left", "right"), marks, strict=True)}
        | {name: cell(record, name) for name in columns}
    )


def _test_first(order: str) -> bool:
    """Whether the tested model was shown first, from "A0493:test / A0488:other" or "forward"."""
    first, slash, _ = order.partition("/")
    role = first.rpartition(":")[2].strip() if slash else order
    found = {"test": True, "forward": True, "other": False, "reversed": False}.get(role)
    if found is None:
        raise BadRecordError(f"has the order {order[:40]!r}, where test and other are needed")
    return found
