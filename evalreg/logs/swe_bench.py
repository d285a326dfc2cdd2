"""Reports of SWE-bench: lists of the instances that were resolved, and of those that were not, by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pandas as pd

from evalreg.errors import LogFormatError
from evalreg.logs.judged import refuse_choices
from evalreg.logs.reading import Choice, Reading, Reason, Run, Source
from evalreg.logs.records import document, dotted

NAME, TITLE = "swe_bench", "SWE-bench reports"
# What became of an instance, by its list: a score, or why there is none. An empty patch is an answer, which resolves
# nothing.
_SCORES = {"resolved": 1.0, "unresolved": 0.0, "empty_patch": 0.0}
_NO_SCORE: dict[str, Reason] = {"error": "errored", "incomplete": "cancelled"}


def recognises(source: Source) -> bool:
    """Whether it has the counts of a report."""
    head = source.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return head.startswith(b"{") and b'"resolved_instances"' in head and b'"total_instances"' in head


def read(sources: Sequence[Source], choice: Choice) -> Reading:
    """A score for each instance that was tried; what was not, or failed, is zero with failed="zero"."""
    refuse_choices(choice, TITLE)
    rows: list[dict[str, Any]] = []
    runs: list[Run] = []
    for source in sources:
        model, run = _named(source.path.name)
        if any(model == other.model for other in runs):
            raise LogFormatError(f"A model has one report; {model!r} has several among the files. Name one of them.")
        report = document(source)
        rows += [{"model": model, **row} for row in _rows(report, source, choice)]
        own = {name: value for name, value in report.items() if name.endswith("_instances")}
        details = {"schema_version": report.get("schema_version"), "reported": own}
        runs.append(Run(run or model, model, "swe_bench", str(source.path), details))
    counts = Counter(row["outcome"] for row in rows)
    left_out: dict[Reason, int] = {}
    if choice.failed != "zero":
        left_out = {reason: counts[name] for name, reason in _NO_SCORE.items() if counts[name]}
        rows = [row for row in rows if row["outcome"] in _SCORES]
    if not rows:
        raise LogFormatError("A report of SWE-bench must hold instances; none was tried.", count=0)
    return Reading(NAME, pd.DataFrame(rows), tuple(runs), left_out, tuple(_notes(counts, choice)))


def _named(name: str) -> tuple[str, str]:
    """Model and run, from the name that SWE-bench gives a report: model.run.json."""
    model, dot, run = name.removesuffix(".gz").removesuffix(".json").rpartition(".")
    return (model if dot else run).replace("__", "/"), run if dot else ""


def _rows(report: Any, source: Source, choice: Choice) -> list[dict[str, Any]]:
    """What became of each instance; a report whose lists and counts differ is refused."""
    lists: dict[str, list[str]] = {}
    for name in (*_SCORES, *_NO_SCORE):
        ids = dotted(report, f"{name}_ids")
        if not isinstance(ids, list) or not all(isinstance(one, str) and one for one in ids):
            raise LogFormatError(
                f"A report of SWE-bench (schema 2) holds lists of instances; {source.path} has no list {name}_ids."
            )
        count = report.get(f"{name}_instances", len(ids))
        if count != len(ids) and choice.broken == "raise":
            raise LogFormatError(
                f"A report's counts are those of its lists; {source.path} counts {count} as {name} and lists "
                f'{len(ids)}. Make it again, or pass broken="skip" to read the lists.'
            )
        lists[name] = ids
    times = Counter(one for ids in lists.values() for one in ids)
    twice = [one for one, count in times.items() if count > 1]
    if twice or not times:
        found = f"{len(twice)} are in several, such as {twice[0]!r}" if twice else "all are empty"
        raise LogFormatError(f"An instance is in one list of a report; in {source.path} {found}. Make it again.")
    return [_row(one, name) for name, ids in lists.items() for one in ids]


def _row(instance: str, outcome: str) -> dict[str, Any]:
    """The row of one instance; its repository is in its name."""
    repo = instance.rpartition("-")[0].replace("__", "/")
    return {"item": instance, "score": _SCORES.get(outcome, 0.0), "repo": repo, "outcome": outcome}


def _notes(counts: Counter[str], choice: Choice) -> list[str]:
    notes = ["Models are named by the files: a report does not name its model."]
    if counts["error"] + counts["incomplete"] and choice.failed != "zero":
        notes.append(
            f"SWE-bench's own rate counts {counts['error']} errors (patches that could not be applied among them) and "
            f'{counts["incomplete"]} instances without an answer as not resolved; failed="zero" does so too.'
        )
    return notes
