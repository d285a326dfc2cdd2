"""What lies beside the statistics of a HELM run: its specification, requests that failed, HELM's own figures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from evalreg.logs.one_run import beside
from evalreg.logs.reading import Run, Source
from evalreg.logs.records import digest, dotted, numeric

# Instance, perturbation and trial from 0.
Key: TypeAlias = tuple[str, str, int]
INNER = "original"
_FAILED = re.compile(rb'"success"\s*:\s*false')
_BLOCK = 1 << 24
# What a perturbation is computed on and used for does not tell it from others; a seed of the data does not either.
_COMMON = ("name", "robustness", "fairness", "computed_on", "seed")
_OF_THE_MODEL = re.compile(r"(?<=[:,])(model|model_deployment)=[^,]*(,|$)")


@dataclass(frozen=True)
class Folder:
    """One run: where it is, and what its specification says."""

    path: Path
    name: str
    model: str
    task: str
    details: dict[str, Any] = field(default_factory=dict)

    def run(self) -> Run:
        """The run, without figures."""
        return Run(self.name, self.model, self.task, str(self.path), self.details)

    @staticmethod
    def instances(path: Path) -> Iterator[dict[str, Any]]:
        """The instances of the run, where the file is there."""
        found = beside(path / "instances.json")
        yield from (record for record in (found if isinstance(found, list) else []) if isinstance(record, dict))


def folder_of(source: Source) -> Folder:
    """The run that statistics are of; without a specification, its folder's name says model and task."""
    path = source.path.resolve().parent
    spec = beside(path / "run_spec.json")
    name, model = dotted(spec, "name"), dotted(spec, "adapter_spec.model")
    name = name if isinstance(name, str) and name else path.name
    named = re.search(r"[:,]model=([^,]*)", name)
    model = model if isinstance(model, str) and model else named.group(1) if named else ""
    task = _OF_THE_MODEL.sub("", name).rstrip(":,")
    asked = {key: dotted(spec, f"adapter_spec.{key}") for key in ("method", "num_train_trials", "max_eval_instances")}
    return Folder(path, name, model, task, {key: value for key, value in asked.items() if value is not None})


def variant_of(perturbation: Any) -> str:
    """The name of a perturbation, with its settings where it has some."""
    if not isinstance(perturbation, dict):
        return INNER
    settings = {key: value for key, value in perturbation.items() if key not in _COMMON}
    words = ", ".join(f"{key}={value}" for key, value in sorted(settings.items()))
    name = str(perturbation.get("name") or "perturbed")
    if len(words) > 80:
        words = digest(json.dumps(settings, sort_keys=True))
    return f"{name} ({words})" if words else name


def failures(path: Path, notes: list[str]) -> frozenset[Key]:
    """Answers whose request failed; the large file of requests is parsed only where one did."""
    state = path / "scenario_state.json"
    if not state.is_file() or state.is_symlink():
        notes.append(
            f"There is no scenario_state.json in {path}: requests that failed cannot be told from wrong answers."
        )
        return frozenset()
    if not _mentions_failure(state):
        return frozenset()
    requests = dotted(beside(state), "request_states")
    found = set()
    for request in requests if isinstance(requests, list) else []:
        trial = dotted(request, "train_trial_index")
        if dotted(request, "result.success") is False:
            item, variant = str(dotted(request, "instance.id")), variant_of(dotted(request, "instance.perturbation"))
            found.add((item, variant, trial if isinstance(trial, int) else 0))
    return frozenset(found)


def _mentions_failure(path: Path) -> bool:
    """Whether a file says about some request that it had no success, looked at block by block."""
    with path.open("rb") as file:
        last = b""
        while block := file.read(_BLOCK):
            if _FAILED.search(last + block):
                return True
            last = block[-64:]
    return False


def figures(path: Path, metric: str) -> dict[str, float]:
    """HELM's means of a metric over instances and trials, by split and perturbation."""
    stats, found = beside(path / "stats.json"), {}
    for stat in stats if isinstance(stats, list) else []:
        name, mean = dotted(stat, "name"), numeric(dotted(stat, "mean"))
        if dotted(name, "name") == metric and mean is not None:
            perturbed = dotted(name, "perturbation")
            on = f"{variant_of(perturbed)}, {dotted(perturbed, 'computed_on')}" if perturbed else ""
            parts = [metric, dotted(name, "split"), dotted(name, "sub_split"), on]
            found[", ".join(str(part) for part in parts if part)] = mean
    return found
