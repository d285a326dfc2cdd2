"""The results file of lm-evaluation-harness, which is next to its samples: the model, versions, groups, figures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalreg.errors import LogFormatError
from evalreg.logs.lines import read_json

LARGEST_RESULTS = 1 << 28
# The files have no version of their own; that of the harness has to do.
NEWEST_VERSION = (0, 4)
_TIME = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?"
_SAMPLES_NAME = re.compile(rf"samples_(?P<task>.+)_(?P<time>{_TIME})\.jsonl(?:\.gz)?")
_RESULTS_NAME = re.compile(rf".*_(?P<time>{_TIME})\.json")
# Arguments of a model that name it; without one of them the harness makes up a random name.
_NAMING = ("peft", "delta", "pretrained", "model", "path", "engine")
# What may change the prompts of one question between two models.
_PROMPTING = ("chat_template_sha", "system_instruction_sha", "fewshot_as_multiturn")


@dataclass(frozen=True)
class ResultsFile:
    """A results file; empty where there is none."""

    path: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)

    def part(self, *keys: str) -> Mapping[str, Any]:
        """The object under these keys; empty where there is none."""
        found: Any = self.data
        for key in keys:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found if isinstance(found, Mapping) else {}

    def text(self, key: str) -> str:
        """A value at the top as text, empty where there is none."""
        found = self.data.get(key)
        return "" if found is None or isinstance(found, list | dict) else str(found)

    @property
    def named(self) -> bool:
        """Whether the arguments of the model name it, so that its name is not a random one."""
        arguments = self.part("config").get("model_args")
        if isinstance(arguments, Mapping):
            return any(key in arguments for key in _NAMING)
        return isinstance(arguments, str) and any(f"{key}=" in arguments for key in _NAMING)

    @property
    def newer(self) -> str:
        """The version of the harness, where it is newer than those that are known."""
        version = self.text("lm_eval_version")
        numbers = re.match(r"(\d{1,6})\.(\d{1,6})", version)
        return version[:40] if numbers and (int(numbers[1]), int(numbers[2])) > NEWEST_VERSION else ""

    @property
    def model(self) -> str:
        """The model: its name, or how it was loaded where the harness made up a name."""
        source = self.text("model_source") or str(self.part("config").get("model") or "")
        return (self.text("model_name") if self.named or not source else source) or source

    def prompting(self, task: str) -> tuple[str, ...]:
        """What shapes the prompts of a task besides its questions."""
        seed = self.part("config").get("fewshot_seed")
        return (*(self.text(key) for key in _PROMPTING), str(self.part("n-shot").get(task)), str(seed))

    def groups(self, task: str) -> list[str]:
        """Groups that a task is in, the outermost first."""
        inside = {str(group): set(map(str, below)) for group, below in self._below().items()}
        found: list[str] = []
        edge = {task}
        while edge:
            edge = {group for group, below in inside.items() if below & edge and group not in found}
            found = [*sorted(edge), *found]
        return found

    def _below(self) -> dict[str, list[Any]]:
        return {key: value for key, value in self.part("group_subtasks").items() if isinstance(value, list)}

    def declared(self, task: str) -> set[tuple[str, str]]:
        """Metrics with their filters that the groups of a task are reported by."""
        keys = (str(key) for group in self.groups(task) for key in self.part("groups", group))
        pairs = (key.rsplit(",", 1) for key in keys if "," in key)
        return {(pair[0], pair[1]) for pair in pairs if not pair[0].endswith("_stderr")}

    def aggregation(self, task: str, metric: str) -> str:
        """How the harness sums a metric of a task up, where the file says."""
        metrics = self.part("configs", task).get("metric_list")
        found = [entry for entry in metrics if isinstance(entry, dict)] if isinstance(metrics, list) else []
        return next((str(entry.get("aggregation", "")) for entry in found if entry.get("metric") == metric), "")


def is_results(head: bytes) -> bool:
    """Whether a file begins as a results file."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return re.match(rb'\{\s*"results"\s*:\s*\{', start) is not None and (b'"alias"' in head or b"_stderr," in head)


def results_file(path: Path) -> ResultsFile:
    """A results file."""
    data = read_json(path, LARGEST_RESULTS)
    if not isinstance(data, dict) or not isinstance(data.get("results"), dict):
        raise LogFormatError(f'A results file of lm-evaluation-harness has an object "results"; {path} has none.')
    return ResultsFile(str(path), data)


def task_and_time(path: Path) -> tuple[str, str]:
    """Task and time that the name of a samples file says; a renamed file is a task of its own name."""
    match = _SAMPLES_NAME.fullmatch(path.name)
    if match:
        return match["task"], match["time"]
    return path.name.removesuffix(".gz").removesuffix(".jsonl").removeprefix("samples_"), ""


def results_beside(samples: Path) -> Path | None:
    """The results file of the same time in the same folder; links are not followed."""
    _, time = task_and_time(samples)
    if not time:
        return None
    for path in sorted(samples.parent.iterdir()):
        match = _RESULTS_NAME.fullmatch(path.name)
        if match and match["time"] == time and path.is_file() and not path.is_symlink():
            return path
    return None
