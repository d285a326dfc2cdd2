"""Logs of OpenAI evals: a line for the run, one for each event, and one for the final report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from evalreg.errors import LogFormatError
from evalreg.logs.fields import flat
from evalreg.logs.judged import chosen, refuse_choices
from evalreg.logs.one_run import known_fields, refuse_second_runs
from evalreg.logs.reading import Choice, Reading, Reason, Run, Source, counted
from evalreg.logs.records import BadRecordError, broken_record, cell, dotted, label, numeric, records
from evalreg.logs.records import field as needed

NAME, TITLE = "openai_evals", "OpenAI evals logs (JSON lines of events)"
_FIRST = re.compile(rb'\{\s*"spec"\s*:\s*\{')
_SCORING = ("match", "metrics")
_INVALID = "__invalid__"  # a grade that could not be read, which evals scores as the worst


def recognises(source: Source) -> bool:
    """Whether its first line is the specification of a run."""
    head = source.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return bool(_FIRST.match(head)) and b'"run_id"' in head and (b'"eval_name"' in head or b'"base_eval"' in head)


@dataclass
class _Sample:
    """What the events of a sample say."""

    # By name, a value for each event that has it.
    scores: dict[str, list[float | None]] = field(default_factory=dict)
    errored: bool = False
    invalid: bool = False
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Log:
    """One run as it was written."""

    spec: Mapping[str, Any]
    samples: dict[str, _Sample] = field(default_factory=dict)
    report: Any = None
    events: set[int] = field(default_factory=set)


def read(sources: Sequence[Source], choice: Choice) -> Reading:
    """A score for each sample, from its match or its metrics."""
    refuse_choices(choice, TITLE, metric="score")
    left_out: Counter[Reason] = Counter()
    logs = [(source, _log(source, choice, left_out)) for source in sources]
    runs = [_run(source, log) for source, log in logs]
    refuse_second_runs(runs, [len(log.samples) for _, log in logs])
    every = [
        (run, item, sample) for run, (_, log) in zip(runs, logs, strict=True) for item, sample in log.samples.items()
    ]
    metric = _metric([sample for _, _, sample in every], choice)
    rows = [row for run, item, sample in every for row in _rows(run, item, sample, metric, choice, left_out)]
    if not rows:
        raise LogFormatError(f"A log of evals must hold a score; all {len(every)} samples are without one.", count=0)
    frame = pd.DataFrame(rows)
    notes = list(_notes(logs, [sample for _, _, sample in every], frame, choice))
    if frame["sample"].max() == 1:
        frame = frame.drop(columns="sample")
    counts = {reason: count for reason, count in left_out.items() if count}
    return Reading(NAME, known_fields(frame, choice), tuple(runs), counts, tuple(notes))


def _log(source: Source, choice: Choice, left_out: Counter[Reason]) -> _Log:
    """The events of one file, by sample."""
    log: _Log | None = None
    for place, record in records(source, choice.broken):
        try:
            if record is None:
                raise BadRecordError("is not an object")
            if isinstance(record.get("spec"), dict):
                if log is not None:
                    raise LogFormatError(
                        f"A log of evals is one run; {place} of {source.path} begins another. Write it to a file of "
                        "its own."
                    )
                log = _Log(record["spec"])
            elif log is None:
                raise LogFormatError(
                    f"A log of evals begins with the specification of its run; {place} of {source.path} comes before."
                )
            elif "final_report" in record:
                log.report = record["final_report"]
            elif not _take(record, log, choice):
                left_out["duplicate"] += 1
        except BadRecordError as error:
            if choice.broken == "raise":
                raise broken_record(source, place, error) from None
            left_out["broken"] += 1
    if log is None:
        raise LogFormatError(f"A log of evals begins with the specification of its run; {source.path} has none.")
    return log


def _take(record: dict[str, Any], log: _Log, choice: Choice) -> bool:
    """Note one event; whether it is new."""
    kind, number = label(record, "type"), record.get("event_id")
    if record.get("sample_id") is None:  # an event of the whole run
        return True
    sample_id = label(record, "sample_id")
    if isinstance(number, int):
        if number in log.events:
            return False
        log.events.add(number)
    sample = log.samples.setdefault(sample_id, _Sample())
    data = record.get("data")
    if kind == "error":
        sample.errored = True
    elif kind in _SCORING:
        _score(kind, data, sample)
    if isinstance(data, dict):
        _note_fields(kind, data, sample, choice)
    return True


def _score(kind: str, data: Any, sample: _Sample) -> None:
    """The numbers of an event that scores."""
    if not isinstance(data, dict):
        raise BadRecordError(f"has no 'data' with the {kind}")
    if kind == "match" and not isinstance(needed(data, "correct"), bool | int | float):
        raise BadRecordError(f"has {str(data['correct'])[:40]!r} as 'correct', where true or false is needed")
    sample.invalid |= data.get("choice") == _INVALID
    for name, value in data.items():
        scored = value is None and name == "score"
        if isinstance(value, bool | int | float) or scored:
            sample.scores.setdefault(name, []).append(None if scored else numeric(value))


def _note_fields(kind: str, data: dict[str, Any], sample: _Sample, choice: Choice) -> None:
    """Fields of an event that may be clusters; those of the sample itself, where evals wrote it down."""
    if choice.columns is not None:
        found = {name: cell(data, name.removeprefix(f"{kind}.")) for name in choice.columns}
        sample.fields |= {name: value for name, value in found.items() if value is not None}
    elif kind == "raw_sample":
        short = flat({"sample": data})
        sample.fields |= {name: value for name, value in short.items() if isinstance(value, str | int | float)}


def _run(source: Source, log: _Log) -> Run:
    """The run as its specification has it, present or old."""
    spec, report = log.spec, log.report
    functions = spec.get("completion_fns") or dotted(spec, "model_names.completions") or spec.get("model_name")
    models = functions if isinstance(functions, list) else [functions]
    named = dotted(spec, "run_config.completion_fns")
    models = named if models == [None] and isinstance(named, list) else models
    model = ", ".join(str(model) for model in models if model)
    details = {key: spec.get(key) for key in ("created_at", "split", "base_eval") if spec.get(key)}
    seed = dotted(spec, "run_config.seed")
    own = report.items() if isinstance(report, dict) else ()
    reported = {str(name): value for name, value in own if numeric(value) is not None}
    details |= ({"seed": seed} if seed is not None else {}) | {"reported": reported}
    task = str(spec.get("eval_name") or spec.get("base_eval") or "")
    return Run(str(spec.get("run_id") or source.path), model, task, str(source.path), details)


def _metric(samples: Sequence[_Sample], choice: Choice) -> str:
    """The score that was asked for, or the only one; several that agree throughout are one."""
    counts: Counter[str] = Counter()
    for sample in samples:
        counts.update({name: len(values) for name, values in sample.scores.items()})
    names = list(counts)
    alike = all(sample.scores.get(name) == sample.scores.get(names[0]) for sample in samples for name in names[1:])
    if choice.metric is None and alike and names:
        return names[0]
    return chosen("metric", choice.metric, counts, "scores")


def _rows(
    run: Run, item: str, sample: _Sample, metric: str, choice: Choice, left_out: Counter[Reason]
) -> Iterator[dict[str, Any]]:
    """The scores of one sample, or why there is none."""
    base = {"model": run.model, "task": run.task, "item": item}
    values = sample.scores.get(metric, [])
    refused = sample.invalid and choice.failed == "drop"
    if sample.errored and choice.failed != "keep":
        values = [0.0] if choice.failed == "zero" else []
    if refused or not values:
        left_out["errored" if sample.errored else "unparsed" if refused else "unscored"] += 1
        return
    for number, value in enumerate(values, start=1):
        if value is None:
            left_out["unscored"] += 1
        else:
            score = 0.0 if sample.invalid and choice.failed == "zero" else value
            yield base | {"sample": number, "score": score, "metric": metric} | sample.fields


def _notes(
    logs: Sequence[tuple[Source, _Log]], samples: Sequence[_Sample], frame: pd.DataFrame, choice: Choice
) -> Iterator[str]:
    cut = [str(source.path) for source, log in logs if log.report is None]
    if cut:
        yield f"{', '.join(cut[:5])}: no final report. The run was cut off or still goes on; samples may be missing."
    invalid = sum(sample.invalid for sample in samples)
    if invalid and choice.failed == "drop":
        yield (
            f"The grade of {counted(invalid, 'sample')} could not be read, and evals gives them the worst score; "
            'failed="keep" does so too.'
        )
    again = int((frame.groupby(["model", "task", "item"])["sample"].transform("max") > 1).sum())
    if again:
        yield (
            f"{again} scores are of samples with several events; these are read as repeats and averaged first, while "
            "evals counts every event alike."
        )
