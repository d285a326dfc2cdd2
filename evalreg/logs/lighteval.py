"""Details of lighteval in Parquet: an example a row, with its metrics in a struct or in columns of their own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from evalreg.errors import LogFormatError
from evalreg.logs.judged import chosen, refuse_choices
from evalreg.logs.lighteval_details import Details, footer, read_details
from evalreg.logs.one_run import Contents, beside, known_fields, refuse_second_runs
from evalreg.logs.reading import Choice, Reading, Reason, Run, Source
from evalreg.logs.records import dotted, numeric

NAME, TITLE = "lighteval", "lighteval and Hub details (details_*.parquet)"
_NAME = re.compile(r"details_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT.+)\.parquet$")
_LAYOUTS = (
    (b"model_response", b"metric", b"doc", b"query"),
    (b"full_prompt", b"predictions", b"example"),
)
_RESULTS = (b'"config_general"', b'"results"')


def recognises(source: Source) -> bool:
    """Whether its columns are those of details, or it holds the results of such a run."""
    if source.head.startswith(b"PAR1"):
        found = footer(source.path)
        return any(all(name in found for name in layout) for layout in _LAYOUTS)
    start = source.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return start.startswith(b"{") and all(mark in source.head for mark in _RESULTS)


@dataclass
class _DetailFiles:
    """The examples of all files, before a metric is chosen."""

    frames: list[pd.DataFrame] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    details: list[Details] = field(default_factory=list)
    left_out: Counter[Reason] = field(default_factory=Counter)
    contents: Contents = field(default_factory=Contents)
    notes: list[str] = field(default_factory=list)


def read(sources: Sequence[Source], choice: Choice) -> Reading:
    """A score for each example, by the metric that was chosen."""
    refuse_choices(choice, TITLE, metric="metric")
    found = _DetailFiles()
    for source in sources:
        if source.head.startswith(b"PAR1"):
            found.details.append(read_details(source.path, choice))
            found.runs.append(_run(source.path))
    if not found.details:
        raise LogFormatError(
            f"lighteval keeps scores of examples in details_*.parquet; found none in {len(sources)} files. Run it with "
            "--save-details.",
            count=0,
        )
    refuse_second_runs(found.runs, [details.n_rows for details in found.details])
    counts: Counter[str] = Counter()
    for details in found.details:
        counts.update({name: int(values.notna().sum()) for name, values in details.metrics.items()})
    metric = chosen("metric", choice.metric, counts, "metrics")
    for run, details in zip(found.runs, found.details, strict=True):
        found.frames.append(_rows(run, details, metric, found))
    found.contents.check()
    frame = pd.concat([one for one in found.frames if len(one)] or found.frames[:1], ignore_index=True)
    if frame.empty:
        raise LogFormatError(f"Details must hold a score; none of the examples has {metric!r}.", count=0)
    if frame["sample"].max() == 1:
        frame = frame.drop(columns="sample")
    left_out = {reason: count for reason, count in found.left_out.items() if count}
    frame = known_fields(frame, choice)
    return Reading(NAME, frame, tuple(found.runs), left_out, tuple(dict.fromkeys(found.notes)))


def _rows(run: Run, details: Details, metric: str, found: _DetailFiles) -> pd.DataFrame:
    """The scores of one file; an example is written once for each kind of request, with the metrics of that kind."""
    values = details.metrics.get(metric, pd.Series(float("nan"), index=range(details.n_rows)))
    frame = pd.DataFrame({"item": details.items, "_text": details.texts}).assign(score=values, **details.fields)
    scored = frame["score"].notna()
    # Without ids an example is known by its question, and by its place among the rows of its kind.
    key = frame["item"] if details.by_id else frame["_text"].where(frame["_text"] != "", frame["item"])
    frame = frame[scored | ~(key.isin(set(key[scored])) | key.duplicated())].reset_index(drop=True)
    if not details.by_id:
        frame["item"] = frame.index.astype(str)
    empty, odd = frame["score"].isna(), details.odd.get(metric, 0)
    found.left_out["unparsed"] += min(odd, int(empty.sum()))
    found.left_out["unscored"] += max(0, int(empty.sum()) - odd)
    frame = frame[~empty].reset_index(drop=True)
    for item, text in zip(frame["item"], frame["_text"], strict=True):
        found.contents.add(run.task, item, text, Path(run.path))
    again = frame.duplicated("item", keep=False)
    seeds = run.details.get("num_fewshot_seeds")
    if again.any() and details.by_id:
        found.notes.append(
            f'{int(again.sum())} rows of "{run.task}" of "{run.model}" are of examples that occur again; they are read '
            "as samples of an example."
        )
    if not details.by_id and isinstance(seeds, int) and seeds > 1:
        frame["item"] = frame["_text"]
        found.notes.append(
            f'"{run.task}" was run with {seeds} draws of examples for the prompt; they are read as samples.'
        )
    frame["sample"] = frame.groupby("item", sort=False).cumcount() + 1
    base = pd.DataFrame({"model": run.model, "task": run.task}, index=frame.index)
    kept = ["item", "sample", "score", *details.fields]
    return base.join(frame[kept]).assign(metric=metric)


def _run(path: Path) -> Run:
    """The run of a file: task and date from its name, the model from the results beside or from the folders."""
    path = path.resolve()
    named = _NAME.match(path.name)
    task, date = (named["task"], named["date"]) if named else (path.stem.removeprefix("details_"), "")
    results = _results(path, date)
    general = dotted(results, "config_general")
    model = dotted(general, "model_name") or dotted(general, "model_config.model_name") or _model_of_folders(path, date)
    figures = dotted(results, "results")
    own = figures.get(task) or figures.get(task.replace("|", ":")) if isinstance(figures, dict) else None
    reported = {
        key: value for key, value in (own if isinstance(own, dict) else {}).items() if numeric(value) is not None
    }
    details = {"date": date, "reported": reported}
    for key in ("lighteval_sha", "num_fewshot_seeds", "max_samples", "model_sha"):
        if dotted(general, key) is not None:
            details[key] = dotted(general, key)
    versions = dotted(results, "versions")
    version = versions.get(task) if isinstance(versions, dict) else None
    details |= {"task_version": version} if version is not None else {}
    return Run(date or str(path), str(model), task, str(path), details)


def _results(path: Path, date: str) -> Any:
    """The results of a run: beside the details, above them as on the Hub, or in the folder results."""
    if not date:
        return None
    name = f"results_{date}.json"
    places = [path.parent / name, path.parent.parent / name]
    parts = path.parts
    if "details" in parts:
        at = len(parts) - 1 - parts[::-1].index("details")
        model = parts[at + 1 : -2] if parts[-2] == date else parts[at + 1 : -1]
        places.append(Path(*parts[:at], "results", *model, name))
    return next((found for place in places if (found := beside(place)) is not None), None)


def _model_of_folders(path: Path, date: str) -> str:
    """The model that folders name: details/org/model on disk, details_org__model on the Hub."""
    parts = list(path.parts[:-1])
    if date and parts and parts[-1] == date:
        parts.pop()
    if "details" in parts:
        return "/".join(parts[len(parts) - parts[::-1].index("details") :])
    hub = parts[-1] if parts else ""
    return hub.removeprefix("details_").removesuffix("_private").replace("__", "/") if "details_" in hub else ""
