"""What readers of frames with a column for each metric share: rows as cases, NaN as a metric that failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from evalreg.logs.inspect_values import printable
from evalreg.logs.reading import Choice, Run, Source
from evalreg.logs.records import BadRecordError, numeric, shortened
from evalreg.logs.scored import Errored, MetricScores, Record, ScoredCases, content_key, named

_SHORT = 60
_AGAIN = (
    'Add a column "sample" with the number of each answer where they are repeats, or a column "model" where they are '
    "answers of several models"
)


class MetricColumns:
    """Rows of frames, where each metric has a column."""

    def __init__(self, choice: Choice, title: str) -> None:
        self.cases = ScoredCases(choice, again=_AGAIN)
        self.title = title
        self._named_by_file = False

    def take(
        self,
        source: Source,
        model: str,
        records: Iterable[Record | None],
        metrics: dict[str, str],
        item: str,
        inner: Sequence[str],
    ) -> None:
        """Rows of one file: `metrics` are columns by name, `item` that of the questions, `inner` no field."""
        self.cases.runs.append(Run(str(source.path), model, path=str(source.path)))
        parse = partial(self._case, model=model, metrics=metrics, item=item, inner={item, *inner, *metrics.values()})
        for number, record in enumerate(records, start=1):
            self.cases.take(source, f"row {number}", record, parse)

    def _case(
        self, record: Record, model: str, metrics: dict[str, str], item: str, inner: set[str]
    ) -> tuple[Record, MetricScores]:
        question = record.get(item)
        if question is None or question == "":
            raise BadRecordError(f"has no {item!r}")
        own = record.get("model")
        self._named_by_file |= own is None
        row: Record = {"model": printable(str(own)) if own is not None else model, "item": named(question)}
        row |= {"_key": content_key(question, record.get("reference")), "_sample": _sample(record.get("sample"))}
        if self.cases.choice.columns is None:
            # An underscore in front marks columns of the reader itself.
            texts = {name: value for name, value in record.items() if isinstance(value, str) and name[:1] != "_"}
            row |= {f: shortened(printable(v), _SHORT) for f, v in texts.items() if f not in inner | row.keys()}
        return row, {name: _score(record.get(column), name) for name, column in metrics.items()}

    def notes(self) -> list[str]:
        """What a reader should know."""
        found = [f"A metric that is NaN is taken to have failed; {self.title} say no more about it."]
        return found + ["Models are named by the files."] * self._named_by_file


def _sample(value: Any) -> int:
    if value is None:
        return 1
    number = None if isinstance(value, bool) else numeric(value)
    if number is None or number != int(number) or not 0 <= number < 2**53:
        raise BadRecordError(f"has {str(value)[:40]!r} as 'sample', where a whole number is needed")
    return int(number)


def _score(value: Any, name: str) -> float | Errored:
    """The value of a metric; None, NaN and what is infinite failed."""
    if value is not None and not isinstance(value, bool | int | float):
        raise BadRecordError(f"has {str(value)[:40]!r} as {name!r}, where a number is needed")
    number = numeric(value)
    return Errored() if number is None else number
