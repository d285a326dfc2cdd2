"""Runs of HELM: statistics of each instance, with the run's specification, requests and own figures beside them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pandas as pd

from evalreg.errors import LogFormatError
from evalreg.logs.fields import flat
from evalreg.logs.helm_run import INNER, Folder, Key, failures, figures, folder_of, variant_of
from evalreg.logs.judged import chosen, refuse_choices
from evalreg.logs.one_run import Contents, known_fields, refuse_second_runs
from evalreg.logs.reading import Choice, Reading, Reason, Run, Source, counted
from evalreg.logs.records import BadRecordError, broken_record, cell, label, numeric, records
from evalreg.logs.records import field as needed

NAME, TITLE = "helm", "HELM runs (per_instance_stats.json with run_spec.json)"

# Statistics of requests and of answers that judge nothing; they can be asked for by name.
_MEASURES = frozenset(
    (
        "num_references",
        "num_train_trials",
        "num_train_instances",
        "prompt_truncated",
        "num_prompt_tokens",
        "num_completion_tokens",
        "num_output_tokens",
        "num_completions",
        "max_num_completion_tokens",
        "estimated_num_tokens_cost",
        "training_co2_cost",
        "training_energy_cost",
        "inference_runtime",
        "inference_denoised_runtime",
        "inference_idealized_runtime",
        "batch_size",
        "predicted_index",
        "logprob",
        "max_prob",
        "num_perplexity_tokens",
        "num_bytes",
        "num_instances",
    )
)
_OTHERS = {
    "run_spec.json": b'"adapter_spec"',
    "scenario.json": b'"name"',
    "scenario_state.json": b'"adapter_spec"',
    "stats.json": b'"name"',
    "instances.json": b'"input"',
    "predictions.json": b'"predicted_text"',
    "display_predictions.json": b'"predicted_text"',
    "display_requests.json": b'"request"',
}
_STATS = "per_instance_stats.json"
_RECORD = re.compile(rb'\[\s*\{\s*"instance_id"')


def recognises(source: Source) -> bool:
    """Whether it has the statistics of instances, or is another file of such a run."""
    head = source.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if _RECORD.match(head) and b'"stats"' in head and b'"predicted_text"' not in head:
        return True
    mark = _OTHERS.get(source.path.name)
    return mark is not None and mark in head and (source.path.parent / _STATS).is_file()


# Means of one answer by the names of metrics.
_Values: TypeAlias = dict[str, float | None]


@dataclass
class _HelmRows:
    """What the runs hold, before a metric and a variant are chosen."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    scores: list[_Values] = field(default_factory=list)
    left_out: Counter[Reason] = field(default_factory=Counter)
    contents: Contents = field(default_factory=Contents)
    notes: list[str] = field(default_factory=list)


def read(sources: Sequence[Source], choice: Choice) -> Reading:
    """A score for each instance, perturbation and trial."""
    refuse_choices(choice, TITLE, metric="metric", filter="perturbation")
    found, folders, sizes = _HelmRows(), [], []
    for source in sources:
        if source.path.name in _OTHERS:
            continue
        before, folder = len(found.rows), folder_of(source)
        _take_run(source, folder, choice, found)
        folders.append(folder)
        sizes.append(len(found.rows) - before)
    if not found.rows:
        raise LogFormatError(
            f"A run of HELM has its scores in {_STATS}; found no statistics in {len(sources)} files. Name that file, "
            "or the folder of the run.",
            count=0,
        )
    runs = [folder.run() for folder in folders]
    refuse_second_runs(runs, sizes)
    found.contents.check()
    frame, scores = _variant(pd.DataFrame(found.rows), found, choice)
    metric = _metric([scores[number] for number in frame.index], choice)
    frame["score"] = [scores[number].get(metric) for number in frame.index]
    frame["_there"] = [metric in scores[number] for number in frame.index]
    return _scored(frame, metric, [_reported(folder, metric) for folder in folders], choice, found)


def _take_run(source: Source, folder: Folder, choice: Choice, found: _HelmRows) -> None:
    """Rows of one run: its statistics by instance, perturbation and trial, each from several records."""
    gathered: dict[Key, _Values] = {}
    fields: dict[Key, dict[str, Any]] = {}
    for place, record in records(source, choice.broken):
        try:
            if record is None:
                raise BadRecordError("is not an object")
            _take_record(record, gathered, fields)
        except BadRecordError as error:
            if choice.broken == "raise":
                raise broken_record(source, place, error) from None
            found.left_out["broken"] += 1
    failed = failures(source.path.parent, found.notes)
    extra = _instances(source, folder, choice, found.contents)
    base = {"model": folder.model, "task": folder.task}
    for key, stats in gathered.items():
        item, variant, trial = key
        row = base | {"item": item, "sample": trial + 1, "perturbation": variant, "_errored": key in failed}
        found.rows.append(row | fields[key] | extra.get((item, variant), {}))
        found.scores.append(stats)


def _take_record(record: dict[str, Any], gathered: dict[Key, _Values], fields: dict[Key, dict[str, Any]]) -> None:
    """The statistics of one record; HELM writes one for each instance and class of metrics."""
    trial = record.get("train_trial_index", 0)
    if not isinstance(trial, int) or isinstance(trial, bool) or not 0 <= trial < 2**31:
        raise BadRecordError(f"has {str(trial)[:40]!r} as 'train_trial_index', where a whole number is needed")
    key = (label(record, "instance_id"), variant_of(record.get("perturbation")), trial)
    stats = needed(record, "stats")
    if not isinstance(stats, list):
        raise BadRecordError("has 'stats' that is not a list")
    values, where = gathered.setdefault(key, {}), fields.setdefault(key, {})
    for stat in stats:
        name = needed(stat, "name")
        called, value = label(name, "name"), stat.get("mean")
        if value is not None and not isinstance(value, int | float):
            raise BadRecordError(f"has {str(value)[:40]!r} as the mean of {called!r}, where a number is needed")
        number = numeric(value)
        if called in values and values[called] != number:
            raise BadRecordError(f"has {called!r} of instance {key[0]!r} again with another value")
        values[called] = number
        for part in ("split", "sub_split"):
            if isinstance(name.get(part), str):
                where[part] = name[part]


def _instances(
    source: Source, folder: Folder, choice: Choice, contents: Contents
) -> dict[tuple[str, str], dict[str, Any]]:
    """Fields of each instance, from the file beside; the text of its question is noted."""
    found = {}
    for record in folder.instances(source.path.parent):
        item, variant = str(record.get("id")), variant_of(record.get("perturbation"))
        if variant == INNER:
            text = record.get("input")
            contents.add(folder.task, item, text.get("text") if isinstance(text, dict) else text, source.path)
        if choice.columns is not None:
            found[item, variant] = {name: cell(record, name) for name in choice.columns}
        elif isinstance(record.get("extra_data"), dict):
            found[item, variant] = {
                name: value
                for name, value in flat({"extra_data": record["extra_data"]}).items()
                if isinstance(value, str | int | float)
            }
    return found


def _variant(frame: pd.DataFrame, found: _HelmRows, choice: Choice) -> tuple[pd.DataFrame, list[_Values]]:
    """The rows of the perturbation, and of the trial, that was chosen; a perturbation alone means all its trials."""
    trial = frame["perturbation"] + ", trial " + frame["sample"].astype(str)
    if frame["sample"].nunique() == 1:
        trial = frame["perturbation"]
    counts = Counter(frame["perturbation"])
    names = dict(counts) | dict(Counter(trial)) if frame["sample"].nunique() > 1 else dict(counts)
    what = "perturbations" if frame["sample"].nunique() == 1 else "perturbations and trials (each with other examples)"
    asked = chosen("filter", choice.filter, names, what)
    frame = frame[(frame["perturbation"] == asked) | (trial == asked)].copy()
    n_trials = frame["sample"].nunique()
    if n_trials > 1:
        found.notes.append(
            f"{n_trials} trials are read as samples of each instance. All instances of a trial share its examples: the "
            f'error bar is that of these trials, not of others. filter="{asked}, trial 1" reads one.'
        )
    return frame, found.scores


def _metric(scores: Iterable[Mapping[str, float | None]], choice: Choice) -> str:
    """The metric that was asked for, or the only one that judges answers."""
    counts: Counter[str] = Counter()
    for stats in scores:
        counts.update(stats.keys())
    judged = {name: count for name, count in counts.items() if not _measures(name)}
    asked = choice.metric
    return chosen("metric", asked, judged if asked is None or asked not in counts else counts, "metrics")


def _measures(name: str) -> bool:
    return name in _MEASURES or name.startswith("finish_reason_")


def _scored(frame: pd.DataFrame, metric: str, runs: list[Run], choice: Choice, found: _HelmRows) -> Reading:
    """The rows with a score; failed requests and instances without the metric are counted."""
    errored = frame["_errored"].to_numpy()
    if choice.failed == "zero":
        frame.loc[errored, "score"] = 0.0
    drop = errored & (choice.failed == "drop")
    empty = frame["score"].isna().to_numpy() & ~drop
    found.left_out["errored"] += int(drop.sum())
    found.left_out["unscored"] += int(empty.sum())
    if errored.any():
        found.notes.append(
            f"{int(errored.sum())} of {counted(len(frame), 'request')} failed. HELM scores them as "
            'empty answers and counts them in its own figures; failed="keep" does so too.'
        )
    kept = frame[~(drop | empty)]
    if kept.empty:
        raise LogFormatError(f"A run of HELM must hold a score; all {len(frame)} are without one.", count=len(frame))
    splits = kept["split"].value_counts() if "split" in kept else pd.Series(dtype=int)
    if len(splits) > 1:
        several = ", ".join(f"{name} ({count})" for name, count in splits.items())
        found.notes.append(f'The splits {several} are read together; HELM reports each. by="split" tells them apart.')
    rows = known_fields(kept.drop(columns=["_errored", "_there"]).reset_index(drop=True), choice)
    rows = rows.assign(score=rows["score"].astype(float), metric=metric)
    if rows["sample"].nunique() == 1:
        rows = rows.drop(columns="sample")
    left_out = {reason: count for reason, count in found.left_out.items() if count}
    return Reading(NAME, rows, tuple(runs), left_out, tuple(found.notes))


def _reported(folder: Folder, metric: str) -> Run:
    """The run with HELM's own figures of the metric."""
    run = folder.run()
    return Run(run.id, run.model, run.task, run.path, {**run.details, "reported": figures(folder.path, metric)})
