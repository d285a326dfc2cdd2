"""Results of promptfoo, JSON or JSON lines: a question is its variables, a repeat its order among equals."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from evalreg.errors import ArgumentError, LogFormatError
from evalreg.logs.judged import chosen, counts_of, refuse_choices
from evalreg.logs.reading import Choice, Reading, Reason, Run, Source, counted
from evalreg.logs.records import (
    BadRecordError,
    broken_record,
    cell,
    digest,
    document,
    dotted,
    label,
    numeric,
    records,
    settled,
    short,
    shortened,
)
from evalreg.logs.scored import apart

NAME, TITLE = "promptfoo", "promptfoo results"
_DOCUMENT = re.compile(rb'\s*\{\s*"(evalId|results|version)"')
NEWEST_VERSION = 3
_ERROR = 2  # failureReason: 0 passed, 1 an assertion failed or threw, 2 no answer
_OF_THE_RUN = frozenset({"sessionId", "_conversation"})  # variables that promptfoo itself adds
_SHORT = 60


def recognises(source: Source) -> bool:
    """Whether it has promptfoo's names of results."""
    head = source.head.removeprefix(b"\xef\xbb\xbf")
    if _DOCUMENT.match(head):
        return b'"prompts"' in head and (b'"version"' in head or b'"evalId"' in head)
    graded = b'"gradingResult"' in head and b'"latencyMs"' in head
    return head.lstrip().startswith(b"{") and (graded or all(name in head for name in (b'"promptIdx"', b'"testIdx"')))


@dataclass
class _Results:
    """Results of all files, before a metric is chosen."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    scores: list[dict[str, float | None]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    left_out: Counter[Reason] = field(default_factory=Counter)
    ids: set[str] = field(default_factory=set)


def read(sources: Sequence[Source], choice: Choice) -> Reading:
    """A score for each model, prompt, question and repeat."""
    refuse_choices(choice, TITLE, metric="score", filter="prompt")
    found = _Results()
    for source in sources:
        for place, record in _results(source, choice, found):
            _take(source, place, record, choice, found)
    if not found.rows:
        raise LogFormatError(f"promptfoo results must hold at least one; found none in {len(sources)} files.", count=0)
    names = dict.fromkeys(name for row in found.rows for name in row)
    cells = {name: settled([row.get(name) for row in found.rows]) for name in names}
    frame = _named(pd.DataFrame({name: values for name, values in cells.items() if values is not None}))
    scores = pd.DataFrame(found.scores, dtype="float64")
    if choice.filter is not None:
        of_id = dict(zip(frame["prompt.id"], frame["prompt"], strict=True))
        asked = of_id.get(choice.filter, choice.filter)
        kept = frame["prompt"] == chosen("filter", asked, counts_of(frame["prompt"]), "prompts")
        frame, scores = frame.loc[kept].reset_index(drop=True), scores.loc[kept].reset_index(drop=True)
    return _scored(frame, scores, choice, found)


def _results(source: Source, choice: Choice, found: _Results) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Each result of a file, once the file's own figures are noted."""
    if not _DOCUMENT.match(source.head.removeprefix(b"\xef\xbb\xbf")):
        found.runs.append(Run(str(source.path), task="promptfoo", path=str(source.path)))
        yield from records(source, choice.broken)
        return
    whole = document(source)
    body = whole["results"] if isinstance(dotted(whole, "results"), dict) else whole
    results, version = dotted(body, "results"), dotted(body, "version")
    if not isinstance(results, list):
        newer = f" It has version {version!r:.20}; the newest known is {NEWEST_VERSION}." * (version != NEWEST_VERSION)
        raise LogFormatError(f"promptfoo results hold a list 'results'; {source.path} has none.{newer}")
    if version != NEWEST_VERSION:
        found.notes.append(
            f"{source.path} has version {version!r:.20} of promptfoo's results, read as {NEWEST_VERSION}, the newest "
            "known."
        )
    found.runs += _runs(whole, body, source)
    for number, record in enumerate(results, start=1):
        yield f"result {number}", record if isinstance(record, dict) else None


def _runs(whole: Any, body: Any, source: Source) -> Iterator[Run]:
    """A run for each prompt and provider, with promptfoo's own counts."""
    name = str(dotted(whole, "evalId") or source.path)
    version = dotted(whole, "metadata.promptfooVersion")
    prompts = dotted(body, "prompts")
    for prompt in prompts if isinstance(prompts, list) else []:
        metrics = dotted(prompt, "metrics")
        own = metrics.items() if isinstance(metrics, dict) else ()
        reported = {name: value for name, value in own if numeric(value) is not None}
        details = {"prompt": dotted(prompt, "label"), "prompt.id": dotted(prompt, "id"), "version": version}
        model = str(dotted(prompt, "provider") or "")
        yield Run(name, model, "promptfoo", str(source.path), details | {"reported": reported})


def _take(source: Source, place: str, record: dict[str, Any] | None, choice: Choice, found: _Results) -> None:
    """The row of one result, and every score that it has."""
    try:
        if record is None:
            raise BadRecordError("is not an object")
        row, scores = _row(record, choice, str(source.path)), _scores(record)
    except BadRecordError as error:
        if choice.broken == "raise":
            raise broken_record(source, place, error) from None
        found.left_out["broken"] += 1
        return
    # One run written twice, as JSON and as JSON lines say.
    if row["_id"] and row["_id"] in found.ids:
        found.left_out["duplicate"] += 1
        return
    found.ids.add(row["_id"])
    found.rows.append(row)
    found.scores.append(scores)


def _row(record: dict[str, Any], choice: Choice, path: str) -> dict[str, Any]:
    """What identifies a result, and the fields that may be clusters."""
    variables = record.get("vars")
    if not isinstance(variables, dict):
        raise BadRecordError("has no 'vars', which tell one question from another")
    variables = {name: value for name, value in variables.items() if name not in _OF_THE_RUN}
    provider, prompt = record.get("provider"), record.get("prompt")
    name = label(provider, "label") if dotted(provider, "label") else None
    called = dotted(prompt, "label") or dotted(prompt, "raw") or prompt
    if not isinstance(called, str):
        raise BadRecordError("has no 'prompt' with a label")
    asserted = dotted(record, "testCase.assert") or []
    question = json.dumps(variables, sort_keys=True, ensure_ascii=False)
    row: dict[str, Any] = {
        "model": name or (provider if isinstance(provider, str) and provider else label(provider, "id")),
        "item": short(question, 80),
        "prompt": short(called),
        "prompt.id": str(record.get("promptId") or digest(called)),
        "_key": digest(json.dumps([variables, asserted], sort_keys=True)),
        "_test": _index(record, "testIdx"),
        "_column": _index(record, "promptIdx"),
        "_path": path,
        "_id": str(record.get("id") or ""),
        "_state": _state(record, asserted),
    }
    return row | (_usual(variables, record) if choice.columns is None else _asked(choice.columns, record))


def _index(record: dict[str, Any], name: str) -> int:
    value = record.get(name, 0)
    if isinstance(value, int) and abs(value) < 2**53:
        return value
    raise BadRecordError(f"has {str(value)[:40]!r} as {name!r}, where a whole number is needed")


def _state(record: dict[str, Any], asserted: Any) -> Reason | None:
    """Why a result is not a score: there was no answer, or nothing was asserted of it."""
    reason = record.get("failureReason")
    if reason == _ERROR or (reason is None and record.get("error") and not record.get("gradingResult")):
        return "errored"
    tested = (
        asserted or dotted(record, "gradingResult.componentResults") or not isinstance(record.get("testCase"), dict)
    )
    return None if tested else "unscored"


def _usual(variables: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """Short variables and metadata of the test."""
    metadata = dotted(record, "testCase.metadata")
    fields = {f"vars.{name}": value for name, value in variables.items()}
    fields |= {f"metadata.{name}": value for name, value in metadata.items()} if isinstance(metadata, dict) else {}
    return {name: shortened(value, _SHORT) for name, value in fields.items()}


def _asked(columns: Iterable[str], record: dict[str, Any]) -> dict[str, Any]:
    """Fields that were asked for; metadata are those of the test."""
    return {
        name: cell(record.get("testCase") or {}, name) if name.startswith("metadata.") else cell(record, name)
        for name in columns
    }


def _scores(record: dict[str, Any]) -> dict[str, float | None]:
    """Score, success and named scores of a result."""
    if "score" not in record or not isinstance(record.get("success"), bool):
        raise BadRecordError("has no 'score' and 'success'")
    named = record.get("namedScores") or {}
    if not isinstance(named, dict):
        raise BadRecordError("has 'namedScores' that is not an object")
    found = {"score": record["score"], "success": record["success"]}
    found |= {str(name): value for name, value in named.items() if name not in found}
    bad = next((name for name, value in found.items() if value is not None and not _is_number(value)), None)
    if bad is not None:
        raise BadRecordError(f"has {str(found[bad])[:40]!r} as score {bad!r}, where a number is needed")
    return {name: numeric(value) for name, value in found.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float)


def _named(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows whose models, prompts and items have names that tell them apart, and whose repeats are counted."""
    frame["prompt"] = apart(frame["prompt"], frame["prompt.id"])
    frame["item"] = apart(frame["item"], frame["_key"])
    # Two providers of one name are two models: their settings differ.
    columns = frame.groupby(["_path", "model", "prompt"])["_column"]
    several = columns.transform("nunique") > 1
    rank = columns.rank("dense").astype(int).astype(str)
    frame["model"] = frame["model"].mask(several, frame["model"] + " (" + rank + ")")
    files = frame.groupby(["model", "prompt"])["_path"].agg(lambda paths: sorted(set(paths)))
    clash = files[files.map(len) > 1]
    if len(clash):
        (model, prompt), paths = clash.index[0], clash.iloc[0]
        raise LogFormatError(
            f"A model has one run with a prompt; {model!r} with {prompt!r} is in {len(paths)} files: "
            f"{', '.join(paths)}. Name one of them.",
            count=len(clash),
        )
    order = frame.sort_values("_test", kind="stable").groupby(["model", "prompt", "item"]).cumcount() + 1
    frame.insert(2, "sample", order)
    return frame


def _scored(frame: pd.DataFrame, scores: pd.DataFrame, choice: Choice, found: _Results) -> Reading:
    """The rows with the score that was chosen, without what is none."""
    errored, unscored = frame["_state"] == "errored", frame["_state"] == "unscored"
    metric = _metric(scores[frame["_state"].isna()], choice)
    score = scores[metric].mask(errored, 0.0) if choice.failed == "zero" else scores[metric]
    drop = errored if choice.failed == "drop" else errored & score.isna()
    empty = score.isna() & ~errored & ~unscored
    for reason, which in (("errored", drop), ("unscored", unscored | empty)):
        found.left_out[reason] += int(which.sum())  # type: ignore[index]
    keep = ~(drop | unscored | empty)
    if not keep.any():
        raise LogFormatError(
            f"promptfoo results must hold a score; all {len(frame)} are without one.", count=len(frame)
        )
    inner = [column for column in frame if str(column).startswith("_")]
    rows = frame.drop(columns=inner)
    rows.insert(3, "score", score)
    rows = rows[keep].reset_index(drop=True).dropna(axis="columns", how="all")
    if rows["sample"].max() == 1:
        rows = rows.drop(columns="sample")
    notes = [*found.notes, *_notes(int(errored.sum()), int(unscored.sum()), choice)]
    left_out = {reason: count for reason, count in found.left_out.items() if count}
    return Reading(NAME, rows, tuple(found.runs), left_out, tuple(notes))


def _metric(scores: pd.DataFrame, choice: Choice) -> str:
    """The score that was asked for, or the only one; score and success are one where they agree throughout."""
    counts = {str(name): int(values.notna().sum()) for name, values in scores.items()}
    alike = all(scores[name].tolist() == scores["score"].tolist() for name in counts)
    if choice.metric is None and alike:
        return "score"
    if choice.metric is None:
        several = ", ".join(f"{name!r} ({counted(count, 'result')})" for name, count in counts.items())
        raise ArgumentError(
            f"`metric` must say which score is meant, for they differ in this log: {several}. 'success' is promptfoo's "
            "pass or fail, 'score' the weighted mean of the assertions."
        )
    return chosen("metric", choice.metric, counts, "scores")


def _notes(n_errored: int, n_unscored: int, choice: Choice) -> Iterator[str]:
    if n_errored and choice.failed == "drop":
        errors = f"{n_errored} errors as failures" if n_errored > 1 else "1 error as a failure"
        yield f'promptfoo\'s own pass rate counts {errors}; failed="zero" does so too.'
    if n_unscored:
        what = counted(n_unscored, "result")
        yield f"promptfoo's own pass rate takes {what} without an assertion as passed; here that is not a score."
