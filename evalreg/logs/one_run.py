"""What readers of several runs share: one run of a model on a task, one content of an item, own files beside a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from evalreg.data.names import known_column
from evalreg.errors import ArgumentError, LogFormatError
from evalreg.logs.files import read_head
from evalreg.logs.reading import Choice, Run, Source
from evalreg.logs.records import digest, document

# What to do with two runs of one model that are to be compared.
TWO_RUNS = " To compare two runs of a model, read each by er.read_log and give its frame a column `model` of its own."


def refuse_second_runs(runs: Sequence[Run], rows: Sequence[int]) -> None:
    """An error where a model has several runs on a task; `rows` counts the rows of each run."""
    counts = Counter((run.model, run.task) for run in runs)
    twice = [key for key, count in counts.items() if count > 1]
    if not twice:
        return
    model, task = twice[0]
    several = [
        f'"{run.path}" ({count} rows)'
        for run, count in zip(runs, rows, strict=True)
        if (run.model, run.task) == twice[0]
    ]
    further = f" So it is with {len(twice) - 1} more." if len(twice) > 1 else ""
    raise ArgumentError(
        f"A model has one run on a task; {model!r} has {len(several)} on {task!r}: {'; '.join(several[:5])}.{further} "
        f"Name the files of one.{TWO_RUNS}",
        count=len(several),
    )


class Contents:
    """The content of each item of a task, so that one id does not stand for two questions."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], tuple[str, str]] = {}
        self._other: list[str] = []

    def add(self, task: str, item: str, content: Any, path: Path) -> None:
        """Note the content of an item; an empty one says nothing."""
        if content in (None, ""):
            return
        found = digest(str(content))
        first, where = self._seen.setdefault((task, item), (found, str(path)))
        if first != found:
            self._other.append(f"{item!r} of {task!r} in {where} and {path}")

    def check(self) -> None:
        """An error where an item has two contents."""
        if self._other:
            raise LogFormatError(
                f"An item is one question; {len(self._other)} have another content in another file, such as "
                f"{self._other[0]}. Were the runs made with different data? Read them one by one.",
                count=len(self._other),
            )


def known_fields(frame: pd.DataFrame, choice: Choice) -> pd.DataFrame:
    """The rows without columns that are empty throughout, once every field that was asked for is found somewhere."""
    kept = frame.dropna(axis="columns", how="all")
    for column in choice.columns or ():
        known_column(column, [str(name) for name in kept.columns], "columns")
    return kept


def beside(path: Path) -> Any:
    """The JSON value of a file that may lie beside a log; None where there is none."""
    return document(Source(path, read_head(path))) if path.is_file() and not path.is_symlink() else None
