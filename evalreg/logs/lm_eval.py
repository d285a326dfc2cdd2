"""Logs of lm-evaluation-harness: samples files, one line a document and filter, with the results file beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from evalreg.checks import counted, listed
from evalreg.errors import LogFormatError
from evalreg.logs.files import Source
from evalreg.logs.reading import Answer, BadRecordError, Choice, Format, Name, Part, Record
from evalreg.logs.records import at, beside, numeric_items, records, score_of

LARGEST_RESULTS = 1 << 28
# The files have no version of their own; that of the harness has to do.
NEWEST_VERSION = (0, 4)
_TIME = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?"
_SAMPLES_NAME = re.compile(rf"samples_(?P<task>.+)_(?P<time>{_TIME})\.jsonl(?:\.gz)?")
# Arguments of a model that name it; without one of them the harness makes up a random name.
_NAMING = ("peft", "delta", "pretrained", "model", "path", "engine")
# What may change the prompts of one question between two models.
_PROMPTING = ("chat_template_sha", "system_instruction_sha", "fewshot_as_multiturn", "config.fewshot_seed")
# Keys of a line that are not scores; files from before the key "metrics" have every other key as one.
_KEYS = set(
    re.findall(
        r"\w+",
        "doc_id doc target arguments resps filtered_resps filter metrics doc_hash prompt_hash target_hash task idx",
    )
)
# A document can be longer than what is looked at, so that the marks after it are not seen.
_CUT = re.compile(rb'\{\s*"doc_id"\s*:\s*[^,]+,\s*"doc"\s*:')


def _is_results(source: Source) -> bool:
    results_first = re.match(rb'\{\s*"results"\s*:\s*\{', source.start) is not None
    return results_first and (b'"alias"' in source.head or b"_stderr," in source.head)


def _recognises(source: Source) -> bool:
    if _is_results(source):
        return True
    if not source.start.startswith(b"{") or b'"doc_id"' not in source.head:
        return False
    marks = (b'"resps"', b'"filtered_resps"', b'"doc_hash"')
    return any(mark in source.head for mark in marks) or _CUT.match(source.start) is not None


def _parts(source: Source, choice: Choice) -> Iterator[Part]:
    """The run of a samples file."""
    match, path = _SAMPLES_NAME.fullmatch(source.place.name), source.path
    task, time = (match["task"], match["time"]) if match else (source.stem.removeprefix("samples_"), "")
    results = _results(path, time)
    model, is_named = _model(results)
    groups = _groups(results, task)
    figures = {group: dict(_inside(results, "groups", group)) for group in groups}
    version, n_shot = (_inside(results, name).get(task) for name in ("versions", "n-shot"))
    pairs = {
        tuple(key.rsplit(",", 1)) for own in figures.values() for key in own if "," in key and "_stderr," not in key
    }
    metrics = _inside(results, "configs", task).get("metric_list")
    reported = numeric_items(dict(_inside(results, "results", task)))
    part = Part(
        source,
        model or "unknown",
        task,
        id=f"{task} {time}".strip(),
        version=str(version or ""),
        declared=dict(zip(("metric", "filter"), pairs.pop(), strict=True)) if len(pairs) == 1 else {},
        details={
            "time": time,
            "version": version,
            "n_shot": n_shot,
            "higher_is_better": _inside(results, "higher_is_better", task),
            "aggregation": {str(at(entry, "metric")): at(entry, "aggregation") for entry in metrics or ()},
            **{key: at(results, key) for key in ("model_name", "model_source", "lm_eval_version")},
            "model_args": at(results, "config.model_args"),
            "reported": {key: value for key, value in reported.items() if "," in key},
            "groups": figures,
        },
        header={
            "groups": groups,
            # What shapes the prompts of a task besides its questions.
            "prompting": [*(at(results, key) for key in _PROMPTING), n_shot],
            "effective": at(_inside(results, "n-samples", task), "effective"),
        },
    )
    part.records = _lines(part, choice)
    part.notes += _name_notes(path, results, is_named)
    yield part


def _results(samples: Path, time: str) -> Record:
    """The results file of the same time in the same folder; links are not followed."""
    for path in sorted(samples.parent.iterdir()) if time else ():
        named = re.fullmatch(rf".*_{re.escape(time)}\.json", path.name)
        if named and (results := beside(path, LARGEST_RESULTS)) is not None:
            if not isinstance(results, dict) or not isinstance(results.get("results"), dict):
                raise LogFormatError(
                    f'A results file of lm-evaluation-harness has an object "results"; {path} has none.'
                )
            return results
    return {}


def _inside(results: Record, *keys: str) -> Mapping[str, Any]:
    """The object under these keys; empty where there is none."""
    inner: Any = results
    for key in keys:
        inner = inner.get(key) if isinstance(inner, Mapping) else None
    return inner if isinstance(inner, Mapping) else {}


def _model(results: Record) -> tuple[str, bool]:
    """The model: its name, or how it was loaded where the harness made up a name; and whether it is named."""
    arguments = at(results, "config.model_args")
    text = ",".join(f"{key}=" for key in arguments) if isinstance(arguments, Mapping) else str(arguments)
    is_named = any(f"{key}=" in text for key in _NAMING)
    source = str(at(results, "model_source|config.model") or "")
    name = str(at(results, "model_name") or "")
    return (name if is_named or not source else source) or source, is_named


def _groups(results: Record, task: str) -> list[str]:
    """Groups that a task is in, the outermost first."""
    inside = {
        str(group): set(map(str, below))
        for group, below in _inside(results, "group_subtasks").items()
        if isinstance(below, list)
    }
    groups: list[str] = []
    edge = {task}
    while edge:
        edge = {group for group, below in inside.items() if below & edge and group not in groups}
        groups = [*sorted(edge), *groups]
    return groups


def _name_notes(path: Path, results: Record, is_named: bool) -> Iterator[str]:
    version = str(results.get("lm_eval_version", ""))
    numbers = re.match(r"(\d{1,6})\.(\d{1,6})", version)
    if numbers and (int(numbers[1]), int(numbers[2])) > NEWEST_VERSION:
        known = ".".join(map(str, NEWEST_VERSION))
        yield f"Files of lm-evaluation-harness {version[:40]} were read as those of {known}, the newest known."
    if not results:
        yield f'There is no results file beside {path.name}, and samples do not name their model: it is "unknown".'
    elif not is_named:
        yield "The arguments of a model do not name it, and the harness made up a name: here its type is its name."


def _lines(part: Part, choice: Choice) -> Iterator[tuple[str, Record | None]]:
    unique = ["doc_id", *([choice.metric] if choice.metric else [])]
    for place, line, record in records(part.source, choice.broken, unique):
        if record is not None:
            # Lines that are equal to the letter are one line written twice.
            record["#line"] = hash(line)
        yield place, record


def _answers(record: Record, part: Part) -> Iterator[Answer]:
    """A document as one filter read its answers: a value for each metric."""
    item = record.get("doc_id")
    if not isinstance(item, int | str) or isinstance(item, bool):
        raise BadRecordError(f"has {item!r:.60} as 'doc_id', where a number or text is needed")
    names = record.get("metrics")
    if not isinstance(names, list):
        names = [key for key in record if key not in _KEYS and key[0] != "#"]
    values: dict[Name, Any] = {("", name): score_of(record.get(name)) for name in map(str, names)}
    filter, groups = str(record.get("filter", "")), part.header["groups"]
    row: Record = {"item": item, "filter": filter, "_prompt": str(record.get("prompt_hash"))}
    row |= ({"group": groups[0]} if groups else {}) | ({"subgroup": groups[-1]} if len(groups) > 1 else {})
    answers = record.get("resps")
    if isinstance(answers, list) and answers and isinstance(answers[0], list) and len(answers[0]) > 1:
        part.header.setdefault("n_answers", {})[filter] = len(answers[0])
    content = str(record["doc_hash"]) if record.get("doc_hash") else ""
    yield Answer(row, values, record, content=content, id=(part.source.name, filter, item, record["#line"]))


def _frame_notes(frame: pd.DataFrame, parts: Sequence[Part]) -> Iterator[str]:
    """Documents that are missing, answers that a filter made one of, and prompts that differ between models."""
    for number, part in enumerate(parts):
        rows = frame[frame["_part"] == number] if "_part" in frame else frame
        effective, n_documents = part.header["effective"], rows["item"].nunique() if len(rows) else 0
        if isinstance(effective, int) and n_documents and effective != n_documents:
            yield f'The harness ran {counted(effective, "document")} of "{part.task}"; {n_documents} were read.'
        for filter, n_answers in part.header.get("n_answers", {}).items():
            if len(rows) and filter in set(rows["filter"]):
                yield (
                    f'"{part.task}" has {n_answers} answers to each document, of which the filter "{filter}" made one '
                    "score: how much answers vary is not in the file."
                )
    if "_prompt" not in frame:
        return
    spread = frame.groupby(["task", "item"])["_prompt"].nunique()
    for task in dict.fromkeys(part.task for part in parts):
        runs = [part for part in parts if part.task == task]
        several = spread.loc[[task]] if task in spread.index.get_level_values(0) else spread[:0]
        other = several[several > 1]
        if len(other) and len({str(part.header["prompting"]) for part in runs}) < 2:
            raise LogFormatError(
                f'One `doc_id` is one question, with one `prompt_hash`; in "{task}" {len(other)} of {len(several)} '
                f"have several, {listed(other.index.get_level_values(1).tolist())} among them. Read the models one by "
                "one.",
                count=len(other),
            )
        if len(other):
            yield (
                f'Prompts of {len(other)} of {len(several)} documents of "{task}" differ between the models, which '
                "have other chat templates, system prompts or examples."
            )


LM_EVAL = Format(
    "lm_eval",
    "lm-evaluation-harness (samples_*.jsonl with results_*.json)",
    _recognises,
    _answers,
    _parts,
    beside=_is_results,
    fields=("doc",),
    choose={"filter": ("filter", "filters"), "metric": ("", "metrics")},
    known="a number",
    prune=True,
    figure=lambda reported, score: (f"{score.metric},{score.filter}",),
    empty="those of documents are in samples files. Run the harness with --log_samples, and name the folder it wrote.",
    notes=_frame_notes,
)
