"""Runs of Inspect: what tells one from another, what was planned, and the figures that Inspect itself reports."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from evalreg.checks import listed
from evalreg.errors import ArgumentError, LogFormatError
from evalreg.logs.inspect_file import InspectFile
from evalreg.logs.inspect_values import printable
from evalreg.logs.one_run import TWO_RUNS
from evalreg.logs.reading import Run, counted

NEWEST_VERSION = 2
SETTINGS = ("task_args", "model_args", "model_roles", "model_generate_config")
KEPT = ("run_id", "task_id", "created", "task_version", "task_args", "model_args", "model_roles", "packages")
RULES = ("keep", "drop", "zero")


@dataclass(frozen=True)
class InspectRun:
    """One log as a run; `settings` are arguments that tell runs of a model apart, by dotted name."""

    id: str
    model: str
    task: str
    path: str
    settings: Mapping[str, str]
    details: Mapping[str, Any]

    def described(self, **more: Any) -> Run:
        """The run as readers hand it on."""
        return Run(self.id, self.model, self.task, self.path, {**self.details, **more})

    def notes(self, n_scores: int) -> list[str]:
        """What is unusual: a run that did not end well, samples that are not in the log, an unknown version."""
        notes, details = [], self.details
        if details["status"] != "success":
            error = f" ({details['error']})" if details["error"] else ""
            notes.append(
                f"The run of {self.path} has the status {details['status']!r}{error}: {details['logged']} of "
                f"{counted(details['planned'], 'sample') if details['planned'] else 'an unknown number of samples'} "
                f"are in the log, {n_scores} with a score. "
                "Those that ended first may be the easy ones."
            )
        elif details["cancelled"]:
            notes.append(f"{self.path} holds {details['logged']} of {counted(details['planned'], 'planned sample')}.")
        if details["stripped"]:
            notes.append(f"{self.path} holds results but no samples; nothing could be read from it.")
        if details["version"] > NEWEST_VERSION:
            notes.append(
                f"{self.path} has log version {details['version']}, read as {NEWEST_VERSION}, the newest known."
            )
        return notes


def runs_of(files: Sequence[InspectFile]) -> list[InspectRun]:
    """The runs; no task is there in two versions."""
    runs = [_run(file) for file in files]
    versions: dict[str, dict[str, list[str]]] = {}
    for run in runs:
        versions.setdefault(run.task, {}).setdefault(str(run.details["task_version"]), []).append(run.path)
    for task, found in versions.items():
        if len(found) > 1:
            each = "; ".join(f"version {version}: {listed(paths)}" for version, paths in found.items())
            raise ArgumentError(
                f"Logs read together hold one version of a task; {task!r} is there in {len(found)} ({each}). Questions "
                "or scoring may differ between versions. Name the files of one version."
            )
    return runs


def _run(file: InspectFile) -> InspectRun:
    """The run of a log."""
    header = file.header
    spec = header.get("eval")
    if not isinstance(spec, dict) or not isinstance(spec.get("model"), str) or not isinstance(spec.get("task"), str):
        raise LogFormatError(f"{file.path} names no model and task, so it is not a log of Inspect. Leave it out.")
    results = _dict(header.get("results"))
    logged, planned = len(file.samples), _planned(spec, results)
    completed = results.get("completed_samples")
    stripped = not logged and isinstance(completed, int) and completed > 0
    details = {key: spec.get(key) for key in KEPT}
    error = _dict(header.get("error")).get("message")
    details |= {
        "status": str(header.get("status")),
        "error": printable(str(error))[:200] if error else "",
        "version": version_of(file),
        "epochs": _dict(spec.get("config")).get("epochs") or 1,
        "planned": planned,
        "logged": logged,
        "stripped": stripped,
        "cancelled": 0 if stripped else max(planned - logged, 0),
    }
    found = next((str(spec[key]) for key in ("eval_id", "task_id", "run_id") if spec.get(key)), file.path.stem)
    return InspectRun(
        found, printable(spec["model"]), printable(spec["task"]), str(file.path), _settings(spec), details
    )


def version_of(file: InspectFile) -> int:
    """The version of the log; the first where it does not say."""
    version = file.header.get("version")
    return version if isinstance(version, int) else 1


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _planned(spec: dict[str, Any], results: dict[str, Any]) -> int:
    """Samples times epochs that the run was to have; 0 where the log does not say."""
    ids, epochs = _dict(spec.get("dataset")).get("sample_ids"), _dict(spec.get("config")).get("epochs")
    if isinstance(total := results.get("total_samples"), int) and 0 < total < 1 << 40:
        return total
    return len(ids) * (epochs if isinstance(epochs, int) and epochs > 0 else 1) if isinstance(ids, list) else 0


def _settings(spec: dict[str, Any]) -> dict[str, str]:
    """Arguments of the task and of the model, by dotted name."""
    found = {}
    for part in SETTINGS:
        for key, value in _dict(spec.get(part)).items():
            if part == "model_roles" and isinstance(value, dict):
                value = value.get("model", value)
            name = f"{part}.{key}" if part == "model_roles" else str(key)
            found[printable(name)] = printable(value if isinstance(value, str) else json.dumps(value))
    return found


def labels_of(runs: Sequence[InspectRun]) -> list[str]:
    """A model's name for each run; runs of one model on one task that differ in settings carry these in brackets."""
    labels = [run.model for run in runs]
    order = sorted(range(len(runs)), key=lambda place: (runs[place].task, runs[place].model))
    for _, group in groupby(order, key=lambda place: (runs[place].task, runs[place].model)):
        places = list(group)
        names = sorted({name for place in places for name in runs[place].settings})
        differing = [name for name in names if len({runs[place].settings.get(name) for place in places}) > 1]
        for place in places if differing else ():
            settings = runs[place].settings
            listing = ", ".join(
                f"{name.removeprefix('model_roles.')}={settings.get(name, 'default')}" for name in differing
            )
            labels[place] = f"{runs[place].model} ({listing})"
        _check_one_run([runs[place] for place in places], [labels[place] for place in places])
    return labels


def _check_one_run(runs: Sequence[InspectRun], labels: Sequence[str]) -> None:
    """Refuse two runs that cannot be told apart."""
    for label, count in Counter(labels).items():
        if count > 1:
            same = [run for run, other in zip(runs, labels, strict=True) if other == label]
            each = "; ".join(
                f"{run.id} ({run.details['status']}, {run.details['created']}, "
                f"{counted(run.details['logged'], 'sample')}, {run.path})"
                for run in same[:5]
            )
            raise ArgumentError(
                f"Logs read together hold one run of a model on a task; {label!r} has {count} on {same[0].task!r}: "
                f"{each}. Name the file of one; repeats belong in one run, as epochs.{TWO_RUNS}"
            )


def check_contents(files: Sequence[InspectFile], runs: Sequence[InspectRun]) -> None:
    """Refuse a task whose questions carry other contents under the same id in another log."""
    seen: dict[tuple[str, str], tuple[int, str]] = {}
    differing: Counter[str] = Counter()
    example = ("", "", "")
    for file, run in zip(files, runs, strict=True) if len(files) > 1 else ():
        for sample in file.samples:
            if isinstance(sample, dict) and (content := _content(sample)):
                key = (run.task, str(sample.get("id")))
                first, path = seen.setdefault(key, (hash(content), run.path))
                if first != hash(content) and path != run.path:
                    differing[run.task] += 1
                    example = (key[1], path, run.path)
    for task, count in differing.items():
        raise LogFormatError(
            f"A question has one content in all logs of a task; {count} of {task!r} differ under one id, such as "
            f"{example[0]!r} in {example[1]} and {example[2]}. The dataset was changed or shuffled without ids of its "
            "own: read the logs one by one, or run the task again with ids."
        )


def _content(sample: dict[str, Any]) -> str:
    """Beginning of the question and its target; empty where the log keeps the text elsewhere."""
    asked = sample.get("input")
    if isinstance(asked, list):
        asked = "\n".join(str(_dict(message).get("content")) for message in asked)
    text = f"{str(asked)[:1000]}\n{str(sample.get('target'))[:1000]}"
    return "" if not asked or "attachment://" in text or "tc://" in text else text


def reported_figures(file: InspectFile, scorer: str, metric: str | None) -> dict[str, float]:
    """Inspect's own figures of a scorer by name; where one name stands for several, the reducer is added."""
    entries = _dict(file.header.get("results")).get("scores")
    found: dict[str, float] = {}
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or entry.get("scorer") != scorer or entry.get("name") not in (metric, scorer):
            continue
        for name, figure in _dict(entry.get("metrics")).items():
            value = _dict(figure).get("value")
            reducer = entry.get("reducer") or "unreduced"
            place = name if name not in found else f"{name} [{reducer}]"
            for part, number in value.items() if isinstance(value, dict) else [("", value)]:
                if isinstance(number, int | float) and not isinstance(number, bool):
                    found[f"{place}.{part}" if part else place] = float(number)
    return found


def rule_note(
    rules: Mapping[str, Sequence[tuple[str, float]]],
    n_errored: int,
    n_scored: int,
    reported: Mapping[str, float],
    failed: str,
    name: str,
) -> list[str]:
    """Which rule for samples in error gives the figure in the header, and how far apart the rules are."""
    means = {rule: _means(rules[rule]) for rule in RULES}
    figure = next(((key, reported[key]) for key in ("accuracy", "mean") if key in reported), None)
    equal = [
        rule for rule in RULES if figure and any(math.isclose(mean, figure[1], abs_tol=1e-9) for mean in means[rule])
    ]
    if not n_errored:
        if figure is None or equal or not rules["drop"] or math.isnan(figure[1]):
            return []
        return [
            f"Inspect reports {figure[0]} {figure[1]:.4g} for {name}; the mean of its scores is "
            f"{means['drop'][0]:.4g}. The task reduces epochs, or turns values into numbers, by a rule of its own."
        ]
    each = ", ".join(f'{means[rule][0]:.4g} with failed="{rule}"' for rule in RULES if rules[rule])
    note = f"{counted(n_errored, 'sample')} of {name} ended in error, {n_scored} after a score was given: "
    note += f"the mean is {each}"
    if figure:
        rule = " and ".join(f'"{rule}"' for rule in equal) or "none of these"
        note += f". Inspect's own {figure[0]} {figure[1]:.4g} is that of {rule}"
    return [f'{note}. This is failed="{failed}".']


def _means(rows: Sequence[tuple[str, float]]) -> tuple[float, ...]:
    """The mean of the questions' means, which is Inspect's with its reducer, and the mean of all samples, without."""
    if not rows:
        return ()
    totals: dict[str, list[float]] = {}
    for item, score in rows:
        totals.setdefault(item, []).append(score)
    by_item = [math.fsum(scores) / len(scores) for scores in totals.values()]
    return math.fsum(by_item) / len(by_item), math.fsum(score for _, score in rows) / len(rows)
