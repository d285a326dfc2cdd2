"""Results of OpenCompass: a file for each model and data set, whose details say what was correct."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from evalreg.errors import LogFormatError
from evalreg.logs.judged import chosen, refuse_choices
from evalreg.logs.one_run import Contents, known_fields, refuse_second_runs
from evalreg.logs.reading import Choice, Reading, Reason, Run, Source
from evalreg.logs.records import BadRecordError, broken_record, cell, document, dotted, numeric

NAME, TITLE = "opencompass", "OpenCompass results with details"
_PREDICTIONS = re.compile(rb'\{\s*"\d+"\s*:\s*\{\s*"(origin_prompt|prediction|in-context examples|label: )')
_MARKS = (b'"example_abbr"', b'"correct"', b'"is_correct"', b'"cascade_correct"', b'"origin_prediction"', b'"pred"')
_DETAILS = re.compile(rb'"details"\s*:\s*[\[{]')
# Numbers that say which example it is, not how good the answer.
_NAMES = frozenset({"idx", "index", "id", "example_idx", "question_id", "dataset_replica_idx", "subdivision"})
_TARGETS = ("references", "answer", "answers", "refr", "ref", "reference", "gold")


def recognises(source: Source) -> bool:
    """Whether it has details of examples, or is a file of predictions beside such results."""
    head = source.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if _PREDICTIONS.match(head):
        return True
    return head.startswith(b"{") and bool(_DETAILS.search(head)) and any(mark in head for mark in _MARKS)


@dataclass
class _Examples:
    """The examples of all files, before a metric is chosen."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    scores: list[dict[str, float | None]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    left_out: Counter[Reason] = field(default_factory=Counter)
    contents: Contents = field(default_factory=Contents)
    # Scores one level down, which are parts of others: read where they are asked for.
    inner: set[str] = field(default_factory=set)


def read(sources: Sequence[Source], choice: Choice) -> Reading:
    """A score for each example and repeat."""
    refuse_choices(choice, TITLE, metric="score")
    found = _Examples()
    for source in sources:
        if not _PREDICTIONS.match(source.head.removeprefix(b"\xef\xbb\xbf").lstrip()):
            _take_file(source, document(source), choice, found)
    if not found.rows:
        raise LogFormatError(
            f"Results of OpenCompass must hold details of examples; found none in {len(sources)} files. They are in "
            "the folder results of a run with --dump-eval-details.",
            count=0,
        )
    refuse_second_runs(found.runs, found.sizes)
    found.contents.check()
    counts = Counter(name for scores in found.scores for name in scores)
    own = {name: count for name, count in counts.items() if name not in found.inner}
    metric = chosen("metric", choice.metric, counts if choice.metric in counts else own, _what(found))
    frame = pd.DataFrame(found.rows)
    frame.insert(4, "score", pd.Series([scores.get(metric) for scores in found.scores], dtype="float64"))
    empty = frame["score"].isna()
    if empty.all():
        raise LogFormatError(f"Details must hold a score; all {len(frame)} have none as {metric!r}.", count=len(frame))
    found.left_out["unscored"] += int(empty.sum())
    frame = known_fields(frame[~empty].assign(metric=metric).reset_index(drop=True), choice)
    if frame["sample"].max() == 1:
        frame = frame.drop(columns="sample")
    left_out = {reason: count for reason, count in found.left_out.items() if count}
    notes = ["OpenCompass reports percentages; scores here are those of its details."]
    return Reading(NAME, frame, tuple(found.runs), left_out, tuple(notes))


def _what(found: _Examples) -> str:
    """What the scores are called in messages, and where else there is something to see."""
    if any(found.scores):
        return "scores in the details"
    return "scores in the details: the evaluator gave answers and references, but not which answers are right"


def _take_file(source: Source, whole: Any, choice: Choice, found: _Examples) -> None:
    """The examples of one file."""
    path, details = source.path.resolve(), dotted(whole, "details")
    if not isinstance(details, dict | list):
        raise LogFormatError(
            f"Results of OpenCompass are read from their details; {source.path} has none. Run the evaluation again "
            "with --dump-eval-details."
        )
    task, model = path.name.removesuffix(".gz").removesuffix(".json"), path.parent.name
    named = details.items() if isinstance(details, dict) else ((str(number), one) for number, one in enumerate(details))
    before = len(found.rows)
    for name, record in named:
        if name == "type" and isinstance(record, str):
            continue
        try:
            if not isinstance(record, dict):
                raise BadRecordError("is not an object")
            _take(record, name, {"model": model, "task": task}, choice, found, source)
        except BadRecordError as error:
            if choice.broken == "raise":
                raise broken_record(source, f"example {name!r}", error) from None
            found.left_out["broken"] += 1
    reported = {
        key: value for key, value in whole.items() if not isinstance(value, bool) and numeric(value) is not None
    }
    run = path.parent.parent.parent.name if path.parent.parent.name == "results" else str(source.path)
    found.runs.append(Run(run, model, task, str(source.path), {"reported": reported}))
    found.sizes.append(len(found.rows) - before)


def _take(
    record: dict[str, Any], name: str, base: Mapping[str, Any], choice: Choice, found: _Examples, source: Source
) -> None:
    """The rows of one example: one, or one for each of its repeats."""
    item, fields = name, {}
    if "example_abbr" in record:
        item = str(record["example_abbr"])
        fields["subdivision"] = item.rpartition("_")[0] or None
    for column in choice.columns or ():
        fields[column] = cell(record, column)
    target = next((record[key] for key in _TARGETS if key in record), None)
    repeats = "example_abbr" in record and any(isinstance(value, list) for value in record.values())
    scores = list(_repeats(record)) if repeats else [_scores(record)]
    if repeats and isinstance(target, list) and target:
        target = target[0]
    found.contents.add(base["task"], item, json.dumps(target, sort_keys=True) if target else None, source.path)
    nested = {key for key, value in record.items() if _is_nested(value)}
    for number, values in enumerate(scores, start=1):
        found.rows.append({**base, "item": item, "sample": number, **fields})
        found.scores.append(values)
        found.inner |= {inner for inner in values if inner.partition(".")[0] in nested}


def _repeats(record: dict[str, Any]) -> Iterator[dict[str, float | None]]:
    """Scores of each repeat; fields that are not a list are of the example as a whole, such as G-Pass@k."""
    lists = {name: value for name, value in record.items() if isinstance(value, list)}
    most = max(len(value) for value in lists.values())
    common = _scores({name: value for name, value in record.items() if name not in lists})
    for number in range(most):
        one = {name: value[number] if number < len(value) else None for name, value in lists.items()}
        yield common | _scores(one)


def _scores(record: Mapping[str, Any]) -> dict[str, float | None]:
    """Numbers and truths of a detail, and those one level down by their dots."""
    found = {name: value for name, value in record.items() if _is_score(name, value)}
    for name, inner in record.items():
        if isinstance(inner, dict):
            found |= {f"{name}.{key}": value for key, value in inner.items() if _is_score(key, value)}
    return {str(name): numeric(value) for name, value in found.items()}


def _is_nested(value: Any) -> bool:
    """Whether it is an object, or one for each repeat."""
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(one, dict) for one in value))


def _is_score(name: Any, value: Any) -> bool:
    """Whether it may be a score; what names the example is none, and null only where a verdict belongs."""
    if value is None:
        return str(name).endswith("correct")
    return isinstance(value, bool | int | float) and name not in _NAMES
