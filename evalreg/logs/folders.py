"""Formats whose runs are folders: HELM and lighteval, with what lies beside the scores."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from evalreg.checks import passed
from evalreg.errors import LogFormatError
from evalreg.logs.files import Source
from evalreg.logs.reading import Answer, BadRecordError, Choice, Format, Minor, Name, Part, Record, ScoreName, Unknown
from evalreg.logs.records import (
    as_score,
    at,
    beside,
    described,
    digest,
    first_text,
    label,
    name_set,
    needed,
    numeric,
    numeric_items,
    pyarrow_for,
    records,
    short,
    typed,
    unfit,
)

# HELM: statistics of each instance, with the run's specification, requests and own figures beside them

_STATS = "per_instance_stats.json"
# Other files of a run, which count as such beside the statistics.
_HELM_FILE = re.compile(r"(run_spec|scenario|scenario_state|stats|instances|(display_)?(predictions|requests))\.json")
# Statistics of requests and of answers that judge nothing; they can be asked for by name.
_MEASURES = name_set(
    """
    num_references num_train_trials num_train_instances prompt_truncated num_prompt_tokens num_completion_tokens
    num_output_tokens num_completions max_num_completion_tokens estimated_num_tokens_cost training_co2_cost
    training_energy_cost inference_runtime inference_denoised_runtime inference_idealized_runtime batch_size
    predicted_index logprob max_prob num_perplexity_tokens num_bytes num_instances
    """
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
    spec = beside(folder / "run_spec.json")
    name = first_text(spec, "name") or folder.name
    named = re.search(r"[:,]model=([^,]*)", name)
    model = first_text(spec, "adapter_spec.model") or (named[1] if named else "")
    task = re.sub(r"(?<=[:,])(model|model_deployment)=[^,]*(,|$)", "", name).rstrip(":,")
    settings = {key: at(spec, f"adapter_spec.{key}") for key in ("method", "num_train_trials", "max_eval_instances")}
    details = {key: value for key, value in settings.items() if value is not None}
    stats = beside(folder / "stats.json")
    part = Part(source, model, task, records(source, choice.broken), name, details=details)
    instances = beside(folder / "instances.json")
    rows = [row for row in (instances if isinstance(instances, list) else []) if isinstance(row, dict)]
    by_key = {(str(row.get("id")), _variant(row.get("perturbation"))): row for row in rows}
    part.header = {"failed": _failures(folder, part.notes), "instances": by_key}
    part.details["reported"] = _figures(stats if isinstance(stats, list) else [])
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
    requests = at(beside(state), "request_states") if mentioned else []
    return {
        (
            str(at(request, "instance.id")),
            _variant(at(request, "instance.perturbation")),
            at(request, "train_trial_index") or 0,
        )
        for request in (requests if isinstance(requests, list) else [])
        if at(request, "result.success") is False
    }


def _figures(stats: Sequence[Any]) -> dict[str, float]:
    """HELM's means over instances and trials, by metric, split and perturbation."""
    means = {}
    for stat in stats:
        name, mean, perturbed = at(stat, "name"), numeric(at(stat, "mean")), at(stat, "name.perturbation")
        if mean is not None:
            on = f"{_variant(perturbed)}, {at(perturbed, 'computed_on')}" if perturbed else ""
            parts = [at(name, "name"), at(name, "split"), at(name, "sub_split"), on]
            means[", ".join(str(part) for part in parts if part)] = mean
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
    values: dict[Name, Any] = {}
    row: Record = {"item": item, "sample": trial + 1, "perturbation": variant}
    for stat in typed(record, "stats", list):
        name = label(needed(stat, "name"), "name")
        name = Minor(name) if name in _MEASURES or name.startswith("finish_reason_") else name
        values["", name] = as_score(at(stat, "mean"), f"mean of {name}")
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

# lighteval: details in Parquet, an example a row, with its metrics in a struct or in columns of their own

_DETAILS_NAME = re.compile(r"details_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT.+)\.parquet$")
_LAYOUTS = (("model_response", "metric", "doc", "query"), ("full_prompt", "predictions", "example"))
_MOST_BYTES, _MOST_ROWS, _LONGEST_TEXT = 1 << 31, 10_000_000, 100_000
# Columns of the oldest layout that are no metric.
_NO_METRICS = name_set(
    """
    example query choices gold gold_index predictions prediction_logits pred_logits input_tokens cont_tokens
    truncated padded instruction full_prompt num_effective_few_shots num_asked_few_shots specifics hashes
    metrics id __index_level_0__
    """
)


def _is_lighteval(source: Source) -> bool:
    if source.head.startswith(b"PAR1"):
        columns = described(source.path)
        return any(all(name in columns for name in layout) for layout in _LAYOUTS)
    return source.start.startswith(b"{") and b'"config_general"' in source.head and b'"results"' in source.head


def _lighteval_parts(source: Source, choice: Choice) -> Iterator[Part]:
    """The run of a file: task and date from its name, the model from the results beside or from the folders."""
    path = source.path.resolve()
    match = _DETAILS_NAME.match(path.name)
    task, date = (match["task"], match["date"]) if match else (path.stem.removeprefix("details_"), "")
    results = _results(path, date)
    general, figures = at(results, "config_general"), at(results, "results")
    by_task = figures if isinstance(figures, dict) else {}
    reported = numeric_items(by_task.get(task) or by_task.get(task.replace("|", ":")))
    settings = ("lighteval_sha", "num_fewshot_seeds", "max_samples", "model_sha")
    details: Record = {"date": date, "reported": reported}
    details |= {key: at(general, key) for key in settings if at(general, key) is not None}
    version = (at(results, "versions") or {}).get(task)
    model = at(general, "model_name") or at(general, "model_config.model_name") or _model_of_folders(path, date)
    details |= {"task_version": version} if version is not None else {}
    part = Part(source, str(model), task, id=date or str(path), version=str(version or ""), details=details)
    part.records = _named(part, _rows(source.path, choice))
    yield part


def _named(part: Part, rows: Sequence[Record]) -> list[tuple[str, Record]]:
    """The rows with names of their examples: ids, or the place where the text of the question was first.

    An example is there once for each kind of request and each draw of examples for the prompt.
    """
    names, texts = zip(*map(_example, rows), strict=True) if rows else ((), ())
    if None in names or (len(set(names)) < len(names) and "doc" not in rows[0]):
        seeds = part.details.get("num_fewshot_seeds")
        drawn = isinstance(seeds, int) and seeds > 1
        if drawn:
            part.notes.append(f'"{part.task}" of "{part.model}" was run with {seeds} draws of examples for the prompt.')
        first: dict[Any, Any] = {}
        names = tuple(first.setdefault(text or n, digest(text) if drawn else n) for n, text in enumerate(texts))
    rows = [{**row, "#name": str(name), "#text": text} for row, name, text in zip(rows, names, texts, strict=True)]
    return [(f"row {n}", row) for n, row in enumerate(rows)]


def _example(record: Record) -> tuple[str | None, str]:
    """The id of an example, where it has one, and the text of its question."""
    if "doc" in record:
        name, text = at(record, "doc.id"), at(record, "doc.query")
    else:
        name, text = (record.get("example"), record["query"]) if "query" in record else (None, record.get("example"))
    return short(name, 80) if isinstance(name, str) and name else None, text if isinstance(text, str) else ""


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


def _rows(path: Path, choice: Choice) -> list[Record]:
    """The rows of a file of details: what names, asks and scores an example; tokens and answers are passed over."""
    pa = pyarrow_for(str(path), "Parquet")
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            rows: list[Record] = []
            n_bytes = 0
            # What the file says of its sizes is not trusted: counting stops where there is too much.
            for batch in file.iter_batches(4096, columns=_columns(file.schema_arrow, pa.types, choice)):
                n_bytes += batch.nbytes
                rows += batch.to_pylist()
                if n_bytes > _MOST_BYTES or len(rows) > _MOST_ROWS:
                    raise LogFormatError(
                        f"Details are read up to {_MOST_ROWS:,} rows and {_MOST_BYTES >> 30} GiB; {path} has more. "
                        "Split it."
                    )
            return rows
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
        raise LogFormatError(f"{path} begins as Parquet but cannot be read: {error}. Copy it again.") from error


def _columns(schema: Any, types: Any, choice: Choice) -> list[str]:
    """Columns to read: names, texts and metrics, and those asked for. Only the schema is asked."""
    inner = {
        f"{c.name}.{c.type.field(n).name}" for c in schema if types.is_struct(c.type) for n in range(c.type.num_fields)
    }
    held = {*schema.names, *inner}
    if "doc" in schema.names:
        columns = ["doc.id", "doc.query", "doc.specific", "metric"]
    else:
        scalar = [c.name for c in schema if c.name not in _NO_METRICS and not types.is_nested(c.type)]
        columns = ["example", "query", "metrics", "specifics", *scalar]
    wanted = dict.fromkeys([*columns, *(choice.columns or ())])
    return [name for name in wanted if ".".join(name.split(".")[:2]) in held]


def _lighteval(record: Record, part: Part) -> Iterator[Answer]:
    """An example: its metrics from a struct, the text of one, or columns of their own."""
    fields = {key: value for key, value in record.items() if key not in _NO_METRICS and key[0] != "#"}
    metrics = record.get("metric") if "doc" in record else record.get("metrics", fields)
    if isinstance(metrics, str) and len(metrics) <= _LONGEST_TEXT:
        try:
            metrics = ast.literal_eval(metrics)
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            metrics = "text"
    if metrics is not None and not isinstance(metrics, Mapping):
        raise BadRecordError(f"has metrics that are neither a struct nor the text of one: {str(metrics)[:40]!r}")
    values: dict[Name, Any] = {}
    for key, value in (metrics or {}).items():
        is_none = value is None or value != value or numeric(value) is not None
        values["", str(key)] = numeric(value) if is_none else Unknown(type(value).__name__)
    yield Answer({"item": record["#name"]}, values, record, content=digest(record["#text"]) if record["#text"] else "")


LIGHTEVAL = Format(
    "lighteval",
    "lighteval and Hub details (details_*.parquet)",
    _is_lighteval,
    _lighteval,
    _lighteval_parts,
    beside=lambda source: not source.head.startswith(b"PAR1"),
    same=("item",),
    fields=("doc.specific", "specifics"),
    choose={"metric": ("", "metrics")},
    figure=lambda reported, score: (score.metric,),
    repeats="number",
    empty="those of examples are in details_*.parquet. Run lighteval with --save-details.",
)
