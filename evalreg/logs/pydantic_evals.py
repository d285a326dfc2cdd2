"""Reports of pydantic-evals as JSON: a case is a question, its runs are samples, its scores and assertions metrics."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import partial

from evalreg.errors import LogFormatError
from evalreg.logs.inspect_values import printable
from evalreg.logs.judged import refuse_choices
from evalreg.logs.reading import Choice, Reading, Run, Source
from evalreg.logs.records import BadRecordError, document, dotted, label, numeric
from evalreg.logs.scored import (
    Errored,
    MetricScores,
    Record,
    ScoredCases,
    content_key,
    finite,
    list_at,
    refuse_texts,
    texts,
)

NAME, TITLE = "pydantic_evals", "reports of pydantic-evals"
# How a report begins; a data set begins alike, and has no results.
_START = re.compile(rb'\s*\{\s*"name"\s*:\s*"[^"]*"\s*,\s*"cases"\s*:\s*\[\s*(\{\s*"name"|\])')
_RESULTS = (b'"assertions"', b'"task_duration"', b'"evaluator_failures"', b'"error_stacktrace"', b'"failures"')
_REPEAT = re.compile(r" \[(\d{1,9})/\d{1,9}\]$")
_NUMBERS = ("scores", "assertions")


def recognises(source: Source) -> bool:
    """Whether it begins as a report and has results of cases."""
    head = source.head.removeprefix(b"\xef\xbb\xbf")
    return bool(_START.match(head)) and any(mark in head for mark in _RESULTS)


def read(sources: Sequence[Source], choice: Choice) -> Reading:
    """A score for each case and run of it, by the score or assertion that was chosen."""
    refuse_choices(choice, TITLE, metric="score or assertion")
    found = ScoredCases(choice)
    labels: defaultdict[str, Counter[str]] = defaultdict(Counter)
    makers: defaultdict[str, set[str]] = defaultdict(set)
    for source in sources:
        whole = document(source)
        if not isinstance(whole, dict) or not isinstance(whole.get("name"), str):
            raise LogFormatError(f"Reports of pydantic-evals have a 'name'; {source.path} has none.")
        base = {"model": printable(whole["name"])} | dict(zip(["task"], texts(whole, ["dataset_name"]), strict=False))
        found.runs.append(_run(whole, source, base))
        for number, record in enumerate(list_at(whole, "cases", source.path, TITLE), start=1):
            parse = partial(_case, base=base, labels=labels, makers=makers)
            found.take(source, f"case {number}", record, parse)
        for number, record in enumerate(list_at(whole, "failures", source.path, TITLE), start=1):
            found.take(source, f"failure {number}", record, partial(_failure, base=base))
    _tell_apart(found.scores)
    _mark_errors(found, makers)
    refuse_texts(choice.metric, labels)
    if any(scores is None for scores in found.scores) and choice.failed != "zero":
        count = sum(scores is None for scores in found.scores)
        found.notes.append(
            f"Runs of a case that ended in error: {count}. They are not scores, as in the report's own averages; "
            'failed="zero" counts them as 0.'
        )
    return found.reading(NAME, TITLE)


def _run(whole: Record, source: Source, base: Record) -> Run:
    """The run of a report; the figures that it reports are scalars of its own analyses."""
    analyses = whole.get("analyses")
    scalars = {
        str(dotted(one, "title")): dotted(one, "value")
        for one in (analyses if isinstance(analyses, list) else [])
        if numeric(dotted(one, "value")) is not None
    }
    details = {"metadata": whole.get("experiment_metadata"), "reported": scalars}
    return Run(str(source.path), base["model"], base.get("task", ""), str(source.path), details)


def _case(
    record: Record, base: Record, labels: dict[str, Counter[str]], makers: dict[str, set[str]]
) -> tuple[Record, MetricScores]:
    """What identifies a case, and its scores and assertions; evaluators that failed leave their names."""
    scores: MetricScores = {}
    for kind in _NUMBERS:
        for name, result in _results(record, kind):
            scores[f"{kind}.{name}"] = finite(result.get("value"), name)
            makers[f"{kind}.{name}"] |= set(texts(_source(result), ["name"]))
    for name, result in _results(record, "labels"):
        labels[name][str(result.get("value"))[:40]] += 1
    failures = record.get("evaluator_failures") or []
    if not isinstance(failures, list):
        raise BadRecordError("has 'evaluator_failures' that is not a list")
    failed = {name for one in failures if isinstance(one, dict) for name in texts(_source(one), ["name"])}
    return base | _named(record) | {"_failed": sorted(failed)}, scores


def _failure(record: Record, base: Record) -> tuple[Record, None]:
    """A run of a case that ended in error."""
    return base | _named(record), None


def _results(record: Record, kind: str) -> Iterator[tuple[str, Record]]:
    found = record.get(kind) or {}
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        raise BadRecordError(f"has {kind!r} that are not results by name")
    yield from ((printable(name), result) for name, result in found.items())


def _source(result: Record) -> Record:
    source = result.get("source")
    return source if isinstance(source, dict) else {}


def _named(record: Record) -> Record:
    """The name of a case without that of its run, and the number of the run."""
    name, origin = label(record, "name"), record.get("source_case_name")
    if origin is None:
        item, sample = name, 1
    else:
        item, repeat = label(record, "source_case_name"), _REPEAT.search(name)
        if repeat is None:
            raise BadRecordError(f"is called {name[:40]!r}, without the number of its run")
        sample = int(repeat[1])
    key = content_key(item, record.get("inputs"), record.get("expected_output"))
    return {"item": printable(item), "_sample": sample, "_key": key}


def _tell_apart(found: list[MetricScores | None]) -> None:
    """Scores and assertions go by their names alone where no other is called so."""
    kinds = Counter(name.partition(".")[2] for name in {name for scores in found for name in scores or ()})
    for scores in found:
        for name in list(scores or ()):
            if scores is not None and kinds[name.partition(".")[2]] == 1:
                scores[name.partition(".")[2]] = scores.pop(name)


def _mark_errors(found: ScoredCases, makers: dict[str, set[str]]) -> None:
    """A score that is missing because its evaluator failed is an error, not a gap."""
    names = {name for scores in found.scores for name in scores or ()}
    makers = {**makers, **{name.partition(".")[2]: made for name, made in makers.items()}}
    for row, scores in zip(found.rows, found.scores, strict=True):
        failed = set(row.pop("_failed", ()))
        if scores is not None and failed:
            scores |= {name: Errored() for name in names - set(scores) if makers.get(name, set()) & failed}
