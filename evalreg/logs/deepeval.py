"""Test runs of DeepEval as JSON: a test case is a question, and each of its metrics has a score and passes or not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from evalreg.errors import LogFormatError
from evalreg.logs.judged import refuse_choices
from evalreg.logs.reading import Choice, Reading, Run, Source
from evalreg.logs.records import BadRecordError, document, dotted, numeric
from evalreg.logs.scored import Errored, MetricScores, Record, ScoredCases, content_key, finite, list_at, named, texts

NAME, TITLE = "deepeval", "test runs of DeepEval"
_START = re.compile(
    rb'\s*\{\s*("testRunData"\s*:\s*\{\s*)?("testFile"\s*:\s*"[^"]*"\s*,\s*)?"(testCases|conversationalTestCases)"\s*:'
)
_MARKS = (b'"metricsData"', b'"metricsScores"', b'"conversationalTestCases"', b'"runDuration"')
# Names that DeepEval gives to cases without one, by their place.
_AUTOMATIC = re.compile(r"(conversational_)?test_case_\d+")
_CONTENT = ("input", "expectedOutput", "scenario", "expectedOutcome", "userDescription", "context")
OVERALL = "success"


def recognises(source: Source) -> bool:
    """Whether it begins as a test run."""
    head = source.head.removeprefix(b"\xef\xbb\xbf")
    return bool(_START.match(head)) and any(mark in head for mark in _MARKS)


def read(sources: Sequence[Source], choice: Choice) -> Reading:
    """A score for each test case, by the metric that was chosen."""
    refuse_choices(choice, TITLE, metric="score")
    found = ScoredCases(choice)
    for source in sources:
        whole = document(source)
        whole = whole["testRunData"] if isinstance(dotted(whole, "testRunData"), dict) else whole
        if not isinstance(whole, dict):
            raise LogFormatError(f"Test runs of DeepEval are objects; {source.path} is not.")
        base = _base(whole, source)
        found.runs.append(_run(whole, source, base))
        for kind in ("testCases", "conversationalTestCases"):
            for number, record in enumerate(list_at(whole, kind, source.path, TITLE), start=1):
                found.take(source, f"{kind} {number}", record, partial(_case, base=base))
    found.notes += _notes(found, choice)
    return found.reading(NAME, TITLE, alike=True)


def _base(whole: Record, source: Source) -> Record:
    """Model and task: from the hyperparameters or the run's identifier, else the name of the file."""
    parameters = whole.get("hyperparameters")
    names = [*texts(parameters if isinstance(parameters, dict) else {}, ["model"]), *texts(whole, ["identifier"])]
    found = {"model": names[0] if names else source.path.name.removesuffix(".gz").removesuffix(".json")}
    return found | dict(zip(["task"], texts(whole, ["datasetAlias", "testFile"]), strict=False))


def _run(whole: Record, source: Source, base: Record) -> Run:
    """The run, with DeepEval's own counts of what passed, failed and ended in error."""
    own: Record = {name: whole[name] for name in ("testPassed", "testFailed") if numeric(whole.get(name)) is not None}
    entries = whole.get("metricsScores")
    for entry in entries if isinstance(entries, list) else []:
        counts = {name: dotted(entry, name) for name in ("passes", "fails", "errors")}
        own[str(dotted(entry, "metric"))] = {name: count for name, count in counts.items() if count is not None}
    details = {"hyperparameters": whole.get("hyperparameters"), "reported": own}
    return Run(str(source.path), base["model"], base.get("task", ""), str(source.path), details)


def _case(record: Record, base: Record) -> tuple[Record, MetricScores]:
    """What identifies a test case, and the score and success of each metric."""
    metrics = record.get("metricsData") or []
    if not isinstance(metrics, list) or not all(isinstance(one, dict) for one in metrics):
        raise BadRecordError("has 'metricsData' that is not a list of metrics")
    scores: MetricScores = {}
    for name, metric in _apart(metrics):
        failed = bool(metric.get("error"))
        score, success = finite(metric.get("score"), name), _flag(metric.get("success"), name)
        scores[name] = Errored(score) if failed else score
        # Without a score there is nothing that could pass; DeepEval writes false.
        scores[f"{name}.success"] = Errored(success) if failed else None if score is None else success
    overall = _flag(record.get("success"), OVERALL)
    # A metric that ended in error fails the whole case, unless it is flaky.
    spoilt = any(metric.get("error") and not metric.get("flaky") for metric in metrics)
    scores[OVERALL] = Errored(overall) if spoilt else overall
    return base | _named(record), scores


def _apart(metrics: list[Record]) -> Iterator[tuple[str, Record]]:
    """Each metric by its name, with its number where several of a case have one name."""
    names = [next(texts(metric, ["name"]), "") for metric in metrics]
    if "" in names:
        raise BadRecordError("has a metric without a name")
    several, seen = Counter(names), Counter[str]()
    for name, metric in zip(names, metrics, strict=True):
        seen[name] += 1
        yield f"{name} ({seen[name]})" if several[name] > 1 else name, metric


def _flag(value: Any, name: str) -> float | None:
    if value is None or isinstance(value, bool):
        return numeric(value)
    raise BadRecordError(f"has {str(value)[:40]!r} as success of {name!r}, where true or false is needed")


def _named(record: Record) -> Record:
    """A case by its own name, or by its text where DeepEval numbered it."""
    name = next(texts(record, ["name"]), "")
    name = "" if _AUTOMATIC.fullmatch(name) else name
    called = name or next(texts(record, ["input", "scenario"]), "")
    if not called:
        raise BadRecordError("has no name, no input and no scenario")
    return {"item": named(called), "_key": content_key(name, *(record.get(field) for field in _CONTENT))}


def _notes(found: ScoredCases, choice: Choice) -> Iterator[str]:
    spoilt = sum(isinstance(scores and scores.get(OVERALL), Errored) for scores in found.scores)
    if spoilt and choice.failed == "drop":
        yield (
            f"Test cases with a metric in error: {spoilt}. DeepEval's own pass rate counts them as failed, as "
            'metric="success" with failed="keep" does.'
        )
    named_files = [run for run in found.runs if not run.details["hyperparameters"] and run.model in run.path]
    if named_files:
        yield "Models are named by the files where a test run does not name them (hyperparameters, identifier)."
