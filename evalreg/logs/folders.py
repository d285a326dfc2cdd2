"""Formats whose runs are folders: lm-evaluation-harness, HELM and lighteval, with what lies beside the scores."""

from __future__ import annotations

import json
import re
from ast import literal_eval
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from evalreg.checks import counted, listed, passed
from evalreg.errors import LogFormatError
from evalreg.logs.files import PARQUET, Source
from evalreg.logs.reading import Answer, BadRecordError, Choice, Format, Minor, Part, Record, ScoreName
from evalreg.logs.records import (
    as_score,
    at,
    beside,
    described,
    digest,
    first_text,
    label,
    needed,
    numeric,
    numeric_items,
    objects,
    records,
    score_of,
    short,
    typed,
    unfit,
)
from evalreg.logs.tables import table_records

# lm-evaluation-harness: samples files, one line a document and filter, with the results file beside them

LARGEST_RESULTS = 1 << 28
# The files have no version of their own; that of the harness has to do.
NEWEST_LM_EVAL = (0, 4)
_LM_TIME = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?"
_SAMPLES_NAME = re.compile(rf"samples_(?P<task>.+)_(?P<time>{_LM_TIME})\.jsonl(?:\.gz)?")
# Arguments of a model that name it; without one of them the harness makes up a random name.
_NAMING = ("peft", "delta", "pretrained", "model", "path", "engine")
# What may change the prompts of one question between two models.
_PROMPTING = ("chat_template_sha", "system_instruction_sha", "fewshot_as_multiturn", "config.fewshot_seed")
# Keys of a line that are not scores; files from before the key "metrics" have every other key as one.
_LM_KEYS = set(
    re.findall(
        r"\w+",
        "doc_id doc target arguments resps filtered_resps filter metrics doc_hash prompt_hash target_hash task idx",
    )
)
# A document can be longer than what is looked at, so that the marks after it are not seen.
_CUT = re.compile(rb'\{\s*"doc_id"\s*:\s*[^,]+,\s*"doc"\s*:')


def _is_lm_results(source: Source) -> bool:
    results_first = re.match(rb'\{\s*"results"\s*:\s*\{', source.start) is not None
    return results_first and (b'"alias"' in source.head or b"_stderr," in source.head)


def _is_lm_eval(source: Source) -> bool:
    if _is_lm_results(source):
        return True
    if not source.start.startswith(b"{") or b'"doc_id"' not in source.head:
        return False
    marks = (b'"resps"', b'"filtered_resps"', b'"doc_hash"')
    return any(mark in source.head for mark in marks) or _CUT.match(source.start) is not None


def _lm_parts(source: Source, choice: Choice) -> Iterator[Part]:
    """The run of a samples file."""
    match, path = _SAMPLES_NAME.fullmatch(source.place.name), source.path
    task, time = (match["task"], match["time"]) if match else (source.stem.removeprefix("samples_"), "")
    results = _lm_results(path, time)
    model, is_named = _lm_model(results)
    groups = _lm_groups(results, task)
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
    part.records = _lm_lines(part, choice)
    part.notes += _lm_name_notes(path, results, is_named)
    yield part


def _lm_results(samples: Path, time: str) -> Record:
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


def _lm_model(results: Record) -> tuple[str, bool]:
    """The model: its name, or how it was loaded where the harness made up a name; and whether it is named."""
    arguments = at(results, "config.model_args")
    text = ",".join(f"{key}=" for key in arguments) if isinstance(arguments, Mapping) else str(arguments)
    is_named = any(f"{key}=" in text for key in _NAMING)
    source = str(at(results, "model_source|config.model") or "")
    name = str(at(results, "model_name") or "")
    return (name if is_named or not source else source) or source, is_named


def _lm_groups(results: Record, task: str) -> list[str]:
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


def _lm_name_notes(path: Path, results: Record, is_named: bool) -> Iterator[str]:
    version = str(results.get("lm_eval_version", ""))
    numbers = re.match(r"(\d{1,6})\.(\d{1,6})", version)
    if numbers and (int(numbers[1]), int(numbers[2])) > NEWEST_LM_EVAL:
        known = ".".join(map(str, NEWEST_LM_EVAL))
        yield f"Files of lm-evaluation-harness {version[:40]} were read as those of {known}, the newest known."
    if not results:
        yield f'There is no results file beside {path.name}, and samples do not name their model: it is "unknown".'
    elif not is_named:
        yield "The arguments of a model do not name it, and the harness made up a name: here its type is its name."


def _lm_lines(part: Part, choice: Choice) -> Iterator[tuple[str, Record | None]]:
    unique = ["doc_id", *([choice.metric] if choice.metric else [])]
    for place, line, record in records(part.source, choice.broken, unique):
        if record is not None:
            # Lines that are equal to the letter are one line written twice.
            record["#line"] = hash(line)
        yield place, record


def _lm_answers(record: Record, part: Part) -> Iterator[Answer]:
    """A document as one filter read its answers: a value for each metric."""
    item = record.get("doc_id")
    if not isinstance(item, int | str) or isinstance(item, bool):
        raise BadRecordError(f"has {item!r:.60} as 'doc_id', where a number or text is needed")
    names = record.get("metrics")
    if not isinstance(names, list):
        names = [key for key in record if key not in _LM_KEYS and key[0] != "#"]
    values: Record = {name: score_of(record.get(name)) for name in map(str, names)}
    filter, groups = str(record.get("filter", "")), part.header["groups"]
    row: Record = {"item": item, "filter": filter, "_prompt": str(record.get("prompt_hash"))}
    row |= ({"group": groups[0]} if groups else {}) | ({"subgroup": groups[-1]} if len(groups) > 1 else {})
    answers = record.get("resps")
    if isinstance(answers, list) and answers and isinstance(answers[0], list) and len(answers[0]) > 1:
        part.header.setdefault("n_answers", {})[filter] = len(answers[0])
    content = str(record["doc_hash"]) if record.get("doc_hash") else ""
    yield Answer(row, values, record, content=content, id=(part.source.name, filter, item, record["#line"]))


def _lm_notes(frame: pd.DataFrame, parts: Sequence[Part]) -> Iterator[str]:
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
    _is_lm_eval,
    _lm_answers,
    _lm_parts,
    beside=_is_lm_results,
    fields=("doc",),
    choose={"filter": ("filter", "filters"), "metric": ("", "metrics")},
    known="a number",
    figure=lambda reported, score: (f"{score.metric},{score.filter}",),
    empty="those of documents are in samples files. Run the harness with --log_samples, and name the folder it wrote.",
    notes=_lm_notes,
)

# HELM: statistics of each instance, with the run's specification, requests and own figures beside them

_STATS = "per_instance_stats.json"
# Other files of a run, which count as such beside the statistics.
_HELM_FILE = re.compile(r"(run_spec|scenario|scenario_state|stats|instances|(display_)?(predictions|requests))\.json")
# Statistics of requests and of answers that judge nothing; they can be asked for by name.
_MEASURES = set(
    re.findall(
        r"\w+",
        """
    num_references num_train_trials num_train_instances prompt_truncated num_prompt_tokens num_completion_tokens
    num_output_tokens num_completions max_num_completion_tokens estimated_num_tokens_cost training_co2_cost
    training_energy_cost inference_runtime inference_denoised_runtime inference_idealized_runtime batch_size
    predicted_index logprob max_prob num_perplexity_tokens num_bytes num_instances
    """,
    )
)
# What a perturbation is computed on and used for does not tell it from others; a seed of the data does not either.
_COMMON = ("name", "robustness", "fairness", "computed_on", "seed")
_FAILED = re.compile(rb'"success"\s*:\s*false')


def _is_helm(source: Source) -> bool:
    if re.match(rb'\[\s*\{\s*"instance_id"', source.start) and b'"stats"' in source.head:
        return b'"predicted_text"' not in source.head
    return _HELM_FILE.fullmatch(source.path.name) is not None and (source.path.parent / _STATS).is_file()


def _variant(perturbation: Any) -> str:
    """The name of a perturbation, with its settings where it has some."""
    if not isinstance(perturbation, dict):
        return "original"
    settings = {key: value for key, value in perturbation.items() if key not in _COMMON}
    words = ", ".join(f"{key}={value}" for key, value in sorted(settings.items()))
    words = digest(json.dumps(settings, sort_keys=True)) if len(words) > 80 else words
    name = str(perturbation.get("name") or "perturbed")
    return f"{name} ({words})" if words else name


def _helm_parts(source: Source, choice: Choice) -> Iterator[Part]:
    """The run of a folder; without a specification, its folder's name says model and task."""
    folder = source.path.resolve().parent
    spec, stats, instances = (beside(folder / f"{name}.json") for name in ("run_spec", "stats", "instances"))
    name = first_text(spec, "name") or folder.name
    named = re.search(r"[:,]model=([^,]*)", name)
    model = first_text(spec, "adapter_spec.model") or (named[1] if named else "")
    task = re.sub(r"(?<=[:,])(model|model_deployment)=[^,]*(,|$)", "", name).rstrip(":,")
    settings = {key: at(spec, f"adapter_spec.{key}") for key in ("method", "num_train_trials", "max_eval_instances")}
    details = {key: value for key, value in settings.items() if value is not None} | {"reported": _figures(stats)}
    part = Part(source, model, task, records(source, choice.broken), name, details=details)
    by_key = {(str(row.get("id")), _variant(row.get("perturbation"))): row for row in objects(instances)}
    part.header = {"failed": _failures(folder, part.notes), "instances": by_key}
    yield part


def _failures(folder: Path, notes: list[str]) -> set[tuple[str, str, int]]:
    """Answers whose request failed; the large file of requests is parsed only where one did."""
    state = folder / "scenario_state.json"
    if not state.is_file() or state.is_symlink():
        notes.append(
            f"There is no scenario_state.json in {folder}: requests that failed cannot be told from wrong answers."
        )
        return set()
    with state.open("rb") as file:
        last, mentioned = b"", False
        while not mentioned and (block := file.read(1 << 24)):
            mentioned, last = _FAILED.search(last + block) is not None, block[-64:]
    return {
        (
            str(at(request, "instance.id")),
            _variant(at(request, "instance.perturbation")),
            at(request, "train_trial_index") or 0,
        )
        for request in objects(at(beside(state), "request_states") if mentioned else None)
        if at(request, "result.success") is False
    }


def _figures(stats: Any) -> dict[str, float]:
    """HELM's means over instances and trials, by metric, split and perturbation."""
    means: dict[str, float] = {}
    for stat in objects(stats):
        mean, perturbed = numeric(stat.get("mean")), at(stat, "name.perturbation")
        on = f"{_variant(perturbed)}, {at(perturbed, 'computed_on')}" if perturbed else ""
        parts = [*(at(stat, f"name.{part}") for part in ("name", "split", "sub_split")), on]
        means |= {} if mean is None else {", ".join(str(part) for part in parts if part): mean}
    return means


def _helm_figure(reported: Record, score: ScoreName) -> list[str]:
    """The one figure of a metric without perturbation."""
    plain = [name for name in reported if name.count(", ") < 2 and name.split(", ")[0] == score.metric]
    return plain if len(plain) == 1 and score.filter in ("", "original") else []


def _helm(record: Record, part: Part) -> Iterator[Answer]:
    """The statistics of one instance, perturbation and trial by one class of metrics."""
    item, variant = label(record, "instance_id"), _variant(record.get("perturbation"))
    trial = typed(record, "train_trial_index", int, 0)
    if trial < 0:
        raise unfit(trial, "train_trial_index", "a number from 0")
    values: Record = {}
    row: Record = {"item": item, "sample": trial + 1, "perturbation": variant}
    for stat in typed(record, "stats", list):
        name = label(needed(stat, "name"), "name")
        name = Minor(name) if name in _MEASURES or name.startswith("finish_reason_") else name
        values[name] = as_score(at(stat, "mean"), f"mean of {name}")
        row |= {part: stat["name"][part] for part in ("split", "sub_split") if isinstance(stat["name"].get(part), str)}
    instance = part.header["instances"].get((item, variant), {})
    text = at(instance, "input.text") or at(instance, "input")
    content = digest(text) if isinstance(text, str) and text and variant == "original" else ""
    state = "errored" if (item, variant, trial) in part.header["failed"] else None
    yield Answer(row, values, instance, state, content=content)  # type: ignore[arg-type]


def _helm_notes(frame: pd.DataFrame, parts: Sequence[Part]) -> Iterator[str]:
    if "sample" in frame and frame["sample"].nunique() > 1:
        yield (
            f"{frame['sample'].nunique()} trials are read as samples of each instance. All instances of a trial share "
            "its examples: the error bar is that of these trials, not of others."
        )
    if "split" in frame and frame["split"].nunique() > 1:
        several = ", ".join(f"{name} ({count})" for name, count in frame["split"].value_counts().items())
        yield f"The splits {several} are read together; HELM reports each. {passed(by='split')} tells them apart."


HELM = Format(
    "helm",
    "HELM runs (per_instance_stats.json with run_spec.json)",
    _is_helm,
    _helm,
    _helm_parts,
    beside=lambda source: _HELM_FILE.fullmatch(source.path.name) is not None,
    same=("item", "perturbation", "sample"),
    fields=("extra_data",),
    choose={"metric": ("", "metrics"), "filter": ("perturbation", "perturbations")},
    figure=_helm_figure,
    empty=f"they are in {_STATS}. Name that file, or the folder of the run.",
    notes=_helm_notes,
)

# lighteval: details in Parquet, an example a row, with its metrics in a struct

_DETAILS_NAME = re.compile(r"details_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT.+)\.parquet$")
# Structs of the present releases, and columns of those before.
_LAYOUTS = (("model_response", "metric", "doc", "query"), ("full_prompt", "predictions", "example", "metrics"))
# What names, asks and scores an example; tokens and answers are passed over.
_COLUMNS = ("doc", "metric", "query", "example", "metrics", "specifics")


def _is_lighteval(source: Source) -> bool:
    if source.head.startswith(PARQUET):
        columns = described(source.path)
        return any(all(name in columns for name in layout) for layout in _LAYOUTS)
    return source.start.startswith(b"{") and b'"config_general"' in source.head and b'"results"' in source.head


def _lighteval_parts(source: Source, choice: Choice) -> Iterator[Part]:
    """The run of a file: task and date from its name, the model from the results beside or from the folders."""
    path = source.path.resolve()
    match = _DETAILS_NAME.match(path.name)
    task, date = (match["task"], match["date"]) if match else (path.stem.removeprefix("details_"), "")
    results = _results(path, date)
    general, figures = (at(results, name) for name in ("config_general", "results"))
    by_task = figures if isinstance(figures, dict) else {}
    settings = ("lighteval_sha", "num_fewshot_seeds", "max_samples", "model_sha")
    details: Record = {"date": date}
    details["reported"] = numeric_items(by_task.get(task) or by_task.get(task.replace("|", ":")))
    details |= {key: at(general, key) for key in settings if at(general, key) is not None}
    version = (at(results, "versions") or {}).get(task)
    model = at(general, "model_name|model_config.model_name") or _model_of_folders(path, date)
    details |= {"task_version": version} if version is not None else {}
    part = Part(source, str(model), task, id=date or str(path), version=str(version or ""), details=details)
    columns = (name.partition(".")[0] for name in choice.columns or ())
    rows = [row for _, row in table_records(source, keep=[*_COLUMNS, *columns])]
    part.records = ((f"row {n}", row) for n, row in enumerate(_named(part, rows)))
    yield part


def _named(part: Part, rows: Sequence[Record]) -> list[Record]:
    """The rows with names of their examples: ids, or the place where the text of the question was first.

    An example is there once for each kind of request and each draw of examples for the prompt.
    """
    texts = [first_text(row, "doc.query", "query", "example") for row in rows]
    names: list[Any] = [short(text, 80) if (text := first_text(row, "doc.id")) else None for row in rows]
    if None in names:
        seeds = part.details.get("num_fewshot_seeds")
        drawn = isinstance(seeds, int) and seeds > 1
        if drawn:
            part.notes.append(f'"{part.task}" of "{part.model}" was run with {seeds} draws of examples for the prompt.')
        first: dict[Any, Any] = {}
        names = [first.setdefault(text or n, digest(text) if drawn else n) for n, text in enumerate(texts)]
    return [{**row, "#name": str(name), "#text": text} for row, name, text in zip(rows, names, texts, strict=True)]


def _results(path: Path, date: str) -> Any:
    """The results of a run: beside the details, above them as on the Hub, or in the folder results."""
    if not date:
        return None
    name, parts = f"results_{date}.json", path.parts
    places = [path.parent / name, path.parent.parent / name]
    if "details" in parts:
        above = len(parts) - 1 - parts[::-1].index("details")
        model = parts[above + 1 : -2] if parts[-2] == date else parts[above + 1 : -1]
        places.append(Path(*parts[:above], "results", *model, name))
    return next((results for place in places if (results := beside(place)) is not None), None)


def _model_of_folders(path: Path, date: str) -> str:
    """The model that folders name: details/org/model on disk, details_org__model on the Hub."""
    parts = list(path.parts[:-1])
    if date and parts and parts[-1] == date:
        parts.pop()
    if "details" in parts:
        return "/".join(parts[len(parts) - parts[::-1].index("details") :])
    hub = parts[-1] if parts else ""
    return hub.removeprefix("details_").removesuffix("_private").replace("__", "/") if "details_" in hub else ""


def _lighteval(record: Record, part: Part) -> Iterator[Answer]:
    metrics = at(record, "metric|metrics") or {}
    if isinstance(metrics, str):  # as old releases write them
        with suppress(ValueError, SyntaxError):
            metrics = literal_eval(metrics)
    if not isinstance(metrics, dict):
        made = passed('roles={"item": "example", "score": "acc"}', roles="item=example,score=acc")
        raise BadRecordError(
            f"has metrics that are no struct: {str(metrics)[:40]!r}. Write each metric as a column of numbers, and "
            f"read the file as a table by {made}"
        )
    values: Record = {str(key): score_of(value) for key, value in metrics.items()}
    yield Answer({"item": record["#name"]}, values, record, content=digest(record["#text"]) if record["#text"] else "")


LIGHTEVAL = Format(
    "lighteval",
    "lighteval and Hub details (details_*.parquet)",
    _is_lighteval,
    _lighteval,
    _lighteval_parts,
    beside=lambda source: not source.head.startswith(PARQUET),
    same=("item",),
    fields=("doc.specific", "specifics"),
    choose={"metric": ("", "metrics")},
    figure=lambda reported, score: (score.metric,),
    repeats="number",
    empty="those of examples are in details_*.parquet, which lighteval writes with --save-details. Old ones, with a "
    "column for each metric, are tables: name the file and its columns by `roles`.",
)
