"""What readers of cases with several scores each share: one score is chosen, and what is none is counted by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from evalreg.checks import listed
from evalreg.errors import ArgumentError, LogFormatError, MissingColumnError
from evalreg.logs.inspect_values import as_column, printable, printable_cell, short_fields
from evalreg.logs.judged import chosen
from evalreg.logs.reading import Choice, Reading, Reason, Run, Source
from evalreg.logs.records import BadRecordError, broken_record, cell, digest, numeric, settled, short, shortened

Record: TypeAlias = dict[str, Any]
LONGEST_NAME = 80
_SHORT = 60  # text of questions that may be a cluster


@dataclass(frozen=True)
class Errored:
    """A score that ended in error; `value` is what the tool counts in its place, if anything."""

    value: float | None = None


# The scores of a case by metric; None is a metric that gave no number.
MetricScores: TypeAlias = dict[str, float | Errored | None]


class ScoredCases:
    """Cases of all files, before a metric is chosen."""

    def __init__(self, choice: Choice, again: str = "Name the files of different runs only") -> None:
        self.choice = choice
        # What to do where a case occurs again.
        self._again = again
        self.rows: list[Record] = []
        # None where the case itself ended in error, and so every metric of it.
        self.scores: list[MetricScores | None] = []
        self.runs: list[Run] = []
        self.notes: list[str] = []
        self.left_out: Counter[Reason] = Counter()

    def take(
        self, source: Source, place: str, record: Any, parse: Callable[[Record], tuple[Record, MetricScores | None]]
    ) -> None:
        """The row and the scores of one case; what cannot be read is an error or counted."""
        try:
            if not isinstance(record, dict):
                raise BadRecordError("is not an object")
            row, scores = parse(record)
            row |= self._fields(record)
        except BadRecordError as error:
            if self.choice.broken == "raise":
                raise broken_record(source, place, error) from None
            self.left_out["broken"] += 1
            return
        self.rows.append({"_path": str(source.path)} | row)
        self.scores.append(scores)

    def _fields(self, record: Record) -> Record:
        """Fields that may be clusters: those asked for, or the short ones of metadata and inputs."""
        if self.choice.columns is not None:
            return {name: printable_cell(cell(record, name)) for name in self.choice.columns}
        found: Record = {}
        for name, longest in (("metadata", 200), ("inputs", _SHORT)):
            value = record.get(name)
            fields = short_fields(value, f"{name}.") if isinstance(value, dict) else [(name, value)]
            kept = {key: shortened(printable_cell(one), longest) for key, one in fields}
            found |= kept if name == "metadata" or isinstance(value, dict) else {}
        return found

    def reading(self, name: str, title: str, *, alike: bool = False) -> Reading:
        """The rows with the score that was chosen; with `alike` scores that are equal throughout are one."""
        if not self.rows:
            raise LogFormatError(f"{title} must hold at least one case that can be read; found none.", count=0)
        cells = {column: settled([row.get(column) for row in self.rows]) for column in self._columns()}
        frame = pd.DataFrame({column: as_column(found) for column, found in cells.items() if found is not None})
        frame["model"] = self._models(frame)
        frame["item"] = apart(frame["item"], frame["_key"])
        frame = self._with_samples(frame, title)
        metric = self._metric(title, alike)
        found = [Errored() if scores is None else scores.get(metric) for scores in self.scores]
        score = pd.Series([self._value(one) for one in found], dtype="float64")
        errored = pd.Series([isinstance(one, Errored) for one in found])
        self.left_out["errored"] += int((score.isna() & errored).sum())
        self.left_out["unscored"] += int((score.isna() & ~errored).sum())
        frame.insert(list(frame.columns).index("item") + 1, "score", score)
        rows = frame[score.notna()].drop(columns=[column for column in frame if str(column).startswith("_")])
        if rows.empty:
            raise LogFormatError(f"{title} must hold a score; all {len(frame)} cases are without {metric!r}.", count=0)
        rows = rows.reset_index(drop=True).dropna(axis="columns", how="all")
        left_out = {reason: count for reason, count in self.left_out.items() if count}
        return Reading(name, rows, tuple(self.runs), left_out, tuple(self.notes))

    def _columns(self) -> list[str]:
        columns = list(dict.fromkeys(column for row in self.rows for column in row))
        for column in self.choice.columns or ():
            if all(row.get(column) is None for row in self.rows):
                raise MissingColumnError(f'`columns` names "{column}", which no case of the log has.', column=column)
        return columns

    def _models(self, frame: pd.DataFrame) -> pd.Series[Any]:
        """Names of models; where several files have one name, that of the file is added."""
        names, paths = frame["model"], frame["_path"]
        several = paths.groupby(names).transform("nunique") > 1
        if several.any():
            common = listed(sorted(set(names[several])))
            self.notes.append(f"Several files are runs of {common}; the names of these models carry that of the file.")
        files = sorted(set(paths))
        stems = Counter(Path(path).stem for path in files)
        called = {path: Path(path).stem if stems[Path(path).stem] == 1 else path for path in files}
        return names.mask(several, names + " (" + paths.map(called) + ")")

    def _with_samples(self, frame: pd.DataFrame, title: str) -> pd.DataFrame:
        """The rows with repeats of a question told apart: by the number that the log gives, else by their order."""
        if "_sample" not in frame:
            frame["_sample"] = frame.groupby(["model", "item"]).cumcount() + 1
        again = frame.duplicated(["model", "item", "_sample"])
        if again.any():
            first = frame[again].iloc[0]
            raise LogFormatError(
                f"A case occurs once in a run of {title}; {int(again.sum())} occur again, the first {first['item']!r} "
                f"of {first['model']!r}. {self._again}.",
                count=int(again.sum()),
            )
        return frame.rename(columns={"_sample": "sample"}) if (frame["_sample"] != 1).any() else frame

    def _metric(self, title: str, alike: bool) -> str:
        """The metric that was asked for, or the only one."""
        names = list(dict.fromkeys(name for scores in self.scores for name in scores or ()))
        table = {name: [None if scores is None else scores.get(name) for scores in self.scores] for name in names}
        counts = {name: sum(isinstance(one, float) for one in values) for name, values in table.items()}
        if self.choice.metric is None and alike and names and all(table[name] == table[names[0]] for name in names):
            return names[0]
        if not names:
            raise LogFormatError(f"{title} must hold a score; none of the {len(self.rows)} cases has one.", count=0)
        return chosen("metric", self.choice.metric, counts, "scores")

    def _value(self, one: float | Errored | None) -> float | None:
        if not isinstance(one, Errored):
            return one
        return {"drop": None, "keep": one.value, "zero": 0.0}[self.choice.failed]


def apart(names: pd.Series[Any], keys: pd.Series[Any]) -> pd.Series[Any]:
    """Names, with the first letters of the key where one name stands for several keys."""
    several = keys.groupby(names).transform("nunique") > 1
    return names.mask(several, names + " #" + keys.str[:12])


def named(value: Any) -> str:
    """A text as the name of a question."""
    return printable(short(value if isinstance(value, str) else repr(value), LONGEST_NAME))


def content_key(*parts: Any) -> str:
    """Twelve letters that stand for the content of a question."""
    return digest(repr(parts))


def finite(value: Any, name: str) -> float | None:
    """A score; None for what is missing, NaN or infinite."""
    if value is not None and not isinstance(value, bool | int | float):
        raise BadRecordError(f"has {str(value)[:40]!r} as {name!r}, where a number is needed")
    return numeric(value)


def list_at(whole: Any, name: str, path: Path, title: str) -> list[Any]:
    """A list of a document, which may be left out."""
    found = whole.get(name) if isinstance(whole, Mapping) else None
    if found is None:
        return []
    if not isinstance(found, list):
        raise LogFormatError(f"{title} hold a list {name!r}; that of {path} is none.")
    return found


def texts(whole: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    """Those of the named fields that hold a text."""
    for name in names:
        value = whole.get(name)
        if isinstance(value, str) and value:
            yield printable(value)


def refuse_texts(asked: str | None, labels: Mapping[str, Counter[str]]) -> None:
    """Refuse a metric whose values are texts, and list them."""
    if asked is not None and asked in labels:
        several = ", ".join(f"{value!r} ({count})" for value, count in labels[asked].most_common(10))
        raise ArgumentError(
            f"`metric` must name numbers; {asked!r} gives labels: {several}. Make er.Log(frame, score=...) of a frame "
            "that says what each is worth."
        )
