"""What readers of judge logs share: verdicts gathered row by row, unknown ones listed, repeats told apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pandas as pd

from evalreg.errors import ArgumentError, LogFormatError
from evalreg.logs.reading import Choice, Reading, Reason, Run, Source
from evalreg.logs.records import BadRecordError, broken_record, records

Row: TypeAlias = dict[str, Any]
_SAME = ("left", "right", "prompt", "judge", "order", "turn", "iteration", "idx", "id")
_OUTCOMES = ("winner", "score")


class Unknown:
    """A verdict that means nothing that is known."""

    def __init__(self, verdict: Any) -> None:
        self.text = repr(verdict)[:60]


class VerdictRows:
    """Rows of a log as they are read, and what was left out."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.rows: list[Row] = []
        self.left_out: Counter[Reason] = Counter()
        self.unknown: Counter[str] = Counter()
        self.n_records = 0

    def read(self, sources: Sequence[Source], parse: Callable[[Row, Source], Iterator[Row | Reason | Unknown]]) -> None:
        """Rows of every record of the files."""
        for source in sources:
            for place, record in records(source, self.choice.broken):
                self.take(source, place, record, parse)

    def take(
        self,
        source: Source,
        place: str,
        record: Row | None,
        parse: Callable[[Row, Source], Iterator[Row | Reason | Unknown]],
    ) -> None:
        """Rows of one record; what cannot be read is an error or counted."""
        self.n_records += 1
        if record is None:
            self.left_out["broken"] += 1
            return
        try:
            found = list(parse(record, source))
        except BadRecordError as error:
            if self.choice.broken == "raise":
                raise broken_record(source, place, error) from None
            self.left_out["broken"] += 1
            return
        for row in found:
            if isinstance(row, dict):
                self.rows.append(row)
            elif isinstance(row, Unknown):
                self.unknown[row.text] += 1
            else:
                self.left_out[row] += 1

    def frame(self, known: str) -> pd.DataFrame:
        """The rows, once unknown verdicts and repeats are dealt with; `known` says which verdicts there are."""
        if self.unknown and self.choice.broken == "raise":
            several = _with_counts(self.unknown)
            raise LogFormatError(
                f"A verdict is {known}; found others: {several}. "
                'Correct them, or pass broken="skip" to leave them out.',
                count=self.unknown.total(),
            )
        if self.unknown:
            self.left_out["broken"] += self.unknown.total()
        if not self.rows:
            counts = _with_counts(self.left_out) or "no records"
            raise LogFormatError(f"A log needs at least one score or verdict; found {counts}.", count=0)
        return self.without_repeats(pd.DataFrame(self.rows))

    def without_repeats(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows without those that occur again; the same comparison with another verdict is an error."""
        key = [column for column in _SAME if column in frame]
        if "prompt" not in key:
            return frame
        outcome = [column for column in _OUTCOMES if column in frame]
        again = frame.duplicated(key)
        other = int((again & ~frame.duplicated(key + outcome)).sum())
        if other and self.choice.broken == "raise":
            first = frame[again & ~frame.duplicated(key + outcome)].iloc[0]
            what = ", ".join(f"{column} {first[column]!r}" for column in key)
            raise LogFormatError(
                f"A comparison has one verdict; {other} occur again with another one, the first with {what}. Name the "
                'files of one run, or pass broken="skip" to keep the first of each.',
                count=other,
            )
        self.left_out["duplicate"] += int(again.sum())
        return frame[~again].reset_index(drop=True)


def verdict(raw: Any, meanings: Mapping[Any, str]) -> str | Unknown:
    """What a verdict means."""
    found = meanings.get(raw) if isinstance(raw, str | int | float) and not isinstance(raw, bool) else None
    return Unknown(raw) if found is None else found


def refuse_choices(choice: Choice, title: str, **hints: str) -> None:
    """An argument that chooses among what this format has only one of is an error."""
    for name in ("metric", "filter", "scorer"):
        if name not in hints and getattr(choice, name) is not None:
            raise ArgumentError(f"`{name}` has nothing to choose from in {title}. Leave it out.")


def chosen(argument: str, asked: str | None, counts: Mapping[str, int], what: str) -> str:
    """The one that was asked for, or the only one; otherwise an error that lists them."""
    if not counts:
        raise LogFormatError(f"A log needs at least one score or verdict; found no {what}.", count=0)
    several = _with_counts({repr(name): count for name, count in counts.items()})
    if asked is not None:
        if asked not in counts:
            raise ArgumentError(f"`{argument}` must be one of the {what} of the log: {several}; got {asked!r}.")
        return asked
    if len(counts) > 1:
        raise ArgumentError(
            f"The log has {len(counts)} {what}: {several}. Choose one, such as {argument}={next(iter(counts))!r}."
        )
    return next(iter(counts))


def counts_of(values: pd.Series[Any]) -> dict[str, int]:
    """How often each value occurs, the most frequent first."""
    return {str(name): int(count) for name, count in values.value_counts().items()}


def _with_counts(counts: Mapping[Any, int]) -> str:
    """Names with their counts, ten at most, for a message."""
    listing = [f"{name} ({count})" for name, count in counts.items()]
    return ", ".join(listing[:10]) + (f" and {len(listing) - 10} more" if len(listing) > 10 else "")


def reading(
    name: str, gathered: VerdictRows, frame: pd.DataFrame, runs: Sequence[Run], notes: Sequence[str]
) -> Reading:
    """What a reader gives back; columns that are empty throughout are dropped."""
    left_out = {reason: count for reason, count in gathered.left_out.items() if count}
    return Reading(name, frame.dropna(axis="columns", how="all"), tuple(runs), left_out, tuple(notes))


def file_runs(sources: Sequence[Source], task: str) -> list[Run]:
    """A run for each file, where the log names none."""
    return [Run(str(source.path), task=task, path=str(source.path)) for source in sources]
