"""Logs of lm-evaluation-harness: samples files, one line a document and filter, with the results file beside them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from evalreg.checks import listed, nearest
from evalreg.errors import ArgumentError, LogFormatError
from evalreg.logs.lm_eval_results import (
    NEWEST_VERSION,
    ResultsFile,
    is_results,
    results_beside,
    results_file,
    task_and_time,
)
from evalreg.logs.lm_eval_samples import Part, read_samples
from evalreg.logs.one_run import TWO_RUNS
from evalreg.logs.reading import Choice, Reading, Reason, Run, Source, counted

_CUT = re.compile(rb'\{\s*"doc_id"\s*:\s*[^,]+,\s*"doc"\s*:')

NAME, TITLE = "lm_eval", "lm-evaluation-harness (samples_*.jsonl with results_*.json)"

# What the harness makes of values that are not the score of one document.
_AGGREGATES = {
    "matthews_corrcoef": "the Matthews correlation of all pairs",
    "f1": "F1 over all pairs",
    "bleu": "BLEU of the whole corpus",
    "chrf": "chrF of the whole corpus",
    "chrf++": "chrF++ of the whole corpus",
    "ter": "TER of the whole corpus",
    "weighted_perplexity": "perplexity, weighted by length",
    "bits_per_byte": "bits per byte of the whole corpus",
    "brier_score": "the Brier score over all documents",
}


@dataclass(frozen=True)
class _File:
    """A samples file with the run it is of."""

    path: Path
    task: str
    time: str
    results: ResultsFile

    @property
    def model(self) -> str:
        return self.results.model or "unknown"


@dataclass(frozen=True, eq=False)
class _Chosen:
    """What is read of a file: the documents of one filter by one metric."""

    file: _File
    part: Part
    metric: str


def recognises(source: Source) -> bool:
    """Whether a file is one of samples or of results."""
    return is_results(source.head) or _is_samples(source.head)


def _is_samples(head: bytes) -> bool:
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start.startswith(b"{") or b'"doc_id"' not in head:
        return False
    marks = (b'"resps"', b'"filtered_resps"', b'"doc_hash"')
    # A document can be longer than what is looked at, so that the marks after it are not seen.
    return any(mark in head for mark in marks) or _CUT.match(start) is not None


def read(sources: Sequence[Source], choice: Choice) -> Reading:
    """The scores of all samples files, one row a document."""
    files = _files(sources)
    notes = _name_notes(files)
    chosen, left_out = [], Counter[Reason]()
    for file in files:
        parts, n_broken = read_samples(file.path, choice)
        left_out["broken"] += n_broken
        if parts:
            chosen.append((file, parts))
    if not chosen:
        raise LogFormatError(f"A samples file has a line for each document; {files[0].path} has none.", count=0)
    picks = _pick(chosen, choice, notes)
    _check_fields(picks, choice)
    frames, runs = [], []
    for pick in picks:
        frame = _frame(pick, choice, left_out)
        runs.append(_run(pick, frame, notes))
        frames.append(frame)
    _check_contents(frames, picks, notes)
    rows = pd.concat(frames, ignore_index=True).drop(columns=["_doc", "_prompt"])
    return Reading(NAME, _without_useless(rows, choice), tuple(runs), dict(left_out), tuple(notes))


def _files(sources: Sequence[Source]) -> list[_File]:
    """Samples files with the results of their run; two runs of a model on a task are refused."""
    samples = [source.path for source in sources if not is_results(source.head)]
    if not samples:
        raise LogFormatError(
            f"Scores of documents are in samples files; {sources[0].path} holds only their sums. Run the harness "
            "with --log_samples, and name the folder that it wrote."
        )
    read_already: dict[Path, ResultsFile] = {}
    found = []
    for path in samples:
        beside = results_beside(path)
        if beside is not None and beside not in read_already:
            read_already[beside] = results_file(beside)
        task, time = task_and_time(path)
        found.append(_File(path, task, time, read_already[beside] if beside is not None else ResultsFile()))
    _check_runs(found)
    return found


def _check_runs(files: list[_File]) -> None:
    """Refuse two runs of one model on one task, and two versions of one task."""
    seen: dict[tuple[str, str], _File] = {}
    for file in files:
        other = seen.setdefault((file.model, file.task), file)
        if other is not file:
            hint = "" if file.results.path else " Keep the results files next to them: those name the models."
            raise ArgumentError(
                f'`path` must name one run of a model on a task; "{file.model}" on "{file.task}" is in {other.path} '
                f"and in {file.path}. Name the files of one of them.{hint}{TWO_RUNS}"
            )
    versions: dict[str, dict[str, str]] = {}
    for file in files:
        version = file.results.part("versions").get(file.task)
        if version is not None:
            versions.setdefault(file.task, {}).setdefault(str(version), file.model)
    for task, by in versions.items():
        if len(by) > 1:
            listing = ", ".join(f'{version} (model "{model}")' for version, model in by.items())
            raise ArgumentError(
                f'A task has one version in a log; "{task}" has {listing}. Name the files of one version.'
            )


def _name_notes(files: list[_File]) -> list[str]:
    nameless = [file.path.name for file in files if not file.results.path]
    notes = []
    for version in dict.fromkeys(file.results.newer for file in files if file.results.newer):
        known = ".".join(map(str, NEWEST_VERSION))
        notes.append(f"Files of lm-evaluation-harness {version} were read as those of {known}, the newest known.")
    if nameless:
        notes.append(
            f"There is no results file next to {listed(nameless)}, and samples do not name their model: it is "
            '"unknown".'
        )
    if any(file.results.path and not file.results.named for file in files):
        notes.append(
            "The arguments of a model do not name it, and the harness made up a name: here its type is its name."
        )
    return notes


def _pick(chosen: list[tuple[_File, list[Part]]], choice: Choice, notes: list[str]) -> list[_Chosen]:
    """One filter and metric of each file: as asked, the only one, or what the groups of the log are reported by."""
    metric, filter = choice.metric, choice.filter
    every = {(part.filter, name) for _, parts in chosen for part in parts for name in part.scores}
    if metric is not None and metric not in {name for _, name in every} and "," in metric and filter is None:
        metric, filter = metric.rsplit(",", 1)  # as the harness writes "exact_match,strict-match"
    for argument, asked, known in (
        ("filter", filter, sorted({name for name, _ in every})),
        ("metric", metric, sorted({name for _, name in every})),
    ):
        if asked is not None and asked not in known:
            raise ArgumentError(f"`{argument}` must be one of {listed(known)}; got {asked!r}.{nearest(asked, known)}")
    return [_pick_one(file, parts, metric, filter, notes) for file, parts in chosen]


def _pick_one(file: _File, parts: list[Part], metric: str | None, filter: str | None, notes: list[str]) -> _Chosen:
    pairs = {(part.filter, name): part for part in parts for name in part.readable()}
    if not pairs or (metric is not None and not any(name == metric for _, name in pairs)):
        names = {name for part in parts for name in part.scores}
        if not pairs or metric in names:
            raise _no_scores(file, parts, metric)
    found = {
        pair: part
        for pair, part in pairs.items()
        # What was chosen narrows down only the files that have it.
        if (filter is None or pair[0] == filter or filter not in {pair[0] for pair in pairs})
        and (metric is None or pair[1] == metric or metric not in {pair[1] for pair in pairs})
    }
    declared = {(name, kind) for kind, name in file.results.declared(file.task)}
    if len(found) > 1 and metric is None and len(declared & set(found)) == 1:
        (pair,) = declared & set(found)
        _note(notes, f'Read by "{pair[1]}", by which the log reports their group', file.task)
        found = {pair: found[pair]}
    if len(found) > 1:
        raise _ambiguous(file, found)
    ((kind, name), part) = next(iter(found.items()))
    if (metric is not None and name != metric) or (filter is not None and kind != filter):
        _note(notes, f'Read by "{name}" under the filter "{kind}", as what was asked for is not there', file.task)
    unread = sorted({name for part in parts for name in part.scores} - {name for _, name in pairs})
    if unread and metric is None:
        _note(notes, f"Not read: {listed(unread)}, no scores of single documents", file.task)
    return _Chosen(file, part, name)


def _note(notes: list[str], what: str, task: str) -> None:
    """One note for all tasks that have the same to say."""
    start = f"{what}: tasks "
    for i, note in enumerate(notes):
        if note.startswith(start):
            notes[i] = note if f'"{task}"' in note else f'{note[:-1]}, "{task}".'
            return
    notes.append(f'{start}"{task}".')


def _ambiguous(file: _File, found: dict[tuple[str, str], Part]) -> ArgumentError:
    """The error that lists the metrics and filters to choose from."""
    filters, metrics = (list(dict.fromkeys(pair[i] for pair in found)) for i in (0, 1))
    counts = ", ".join(
        f'metric "{name}" under filter "{kind}" ({counted(part.kinds[name]["number"], "document")})'
        for (kind, name), part in found.items()
    )
    advice = [f'{key}="{names[0]}"' for key, names in (("metric", metrics), ("filter", filters)) if len(names) > 1]
    what = " and ".join(f"`{key}`" for key, names in (("metric", metrics), ("filter", filters)) if len(names) > 1)
    if filters == [""]:
        what = "`metric`"
    return ArgumentError(
        f'{what} must say which scores to read: "{file.task}" in {file.path} has {counts}. They are scores of the same '
        f"answers. For instance pass {' and '.join(advice)}."
    )


def _no_scores(file: _File, parts: list[Part], metric: str | None) -> ArgumentError:
    """The error that says what values there are instead of scores."""
    holdings = []
    for name in sorted({name for part in parts for name in part.scores if metric in (None, name)}):
        kinds = sum((part.kinds.get(name, Counter()) for part in parts), Counter[str]())
        most = kinds.most_common(1)[0][0]
        rule = _AGGREGATES.get(file.results.aggregation(file.task, name), file.results.aggregation(file.task, name))
        holdings.append(f'"{name}" holds {most} for each document' + (f", of which {rule} is made" if rule else ""))
    others = sorted({name for part in parts for name in part.readable()})
    advice = f" Metrics that are: {listed(others)}." if others else ""
    return ArgumentError(
        f'`metric` must be a number for each document; in "{file.task}" of {file.path} '
        + "; ".join(holdings)
        + "."
        + advice
    )


def _frame(pick: _Chosen, choice: Choice, left_out: Counter[Reason]) -> pd.DataFrame:
    """Rows of one file; lines that occur twice and documents without a score are counted and left out."""
    file, part, kinds = pick.file, pick.part, pick.part.kinds[pick.metric]
    wrong = {kind: count for kind, count in kinds.items() if kind not in ("number", "missing")}
    if wrong and choice.broken == "raise":
        listing = ", ".join(f"{count} times {kind}" for kind, count in wrong.items())
        raise LogFormatError(
            f'A score is a number; "{pick.metric}" of "{file.task}" in {file.path} is {listing}. '
            'Correct these lines, or pass broken="skip" to leave them out and count them.',
            count=sum(wrong.values()),
        )
    columns = {"model": file.model, "task": file.task, "item": part.item_column(), "score": part.values(pick.metric)}
    columns |= {"metric": pick.metric, "filter": part.filter} | _groups(file)
    rows = pd.DataFrame(columns | {"_doc": np.asarray(part.docs), "_prompt": np.asarray(part.prompts)})
    rows = rows.assign(_line=np.asarray(part.lines), **part.fields)
    repeated = rows.duplicated(["item", "_line"])
    left_out["duplicate"] += int(repeated.sum())
    rows = rows[~repeated]
    again = rows["item"].duplicated(keep=False)
    if again.any():
        several = rows.loc[again, "item"].drop_duplicates()
        raise LogFormatError(
            f"A document has one line for each filter; in {file.path} {len(several)} have several that differ, "
            f"`doc_id` {listed(several.tolist())} among them"
            + (
                ". The file does not name filters; write it again with a newer harness."
                if part.filter == ""
                else f', under the filter "{part.filter}". Was another run appended? Remove its lines.'
            ),
            count=len(several),
        )
    without = rows["score"].isna()
    odd = min(sum(wrong.values()), int(without.sum()))
    left_out["unparsed"] += odd
    left_out["unscored"] += int(without.sum()) - odd
    return rows[~without].drop(columns="_line").reset_index(drop=True)


def _groups(file: _File) -> dict[str, str]:
    """The outermost and the innermost group of a task, where it is in some."""
    groups = file.results.groups(file.task)
    return ({"group": groups[0]} if groups else {}) | ({"subgroup": groups[-1]} if len(groups) > 1 else {})


def _run(pick: _Chosen, rows: pd.DataFrame, notes: list[str]) -> Run:
    """The run of a file, with the harness's own figures; a note where they are not those of the rows."""
    file, results = pick.file, pick.file.results
    figures = results.part("results", file.task)
    reported = {key: value for key, value in figures.items() if "," in key and isinstance(value, int | float)}
    aggregation = results.aggregation(file.task, pick.metric)
    own = reported.get(f"{pick.metric},{pick.part.filter}")
    mean = float(rows["score"].mean()) if len(rows) else np.nan
    if own is not None and not abs(own - mean) <= 1e-9 * max(1.0, abs(mean)):
        rule = f" ({aggregation})" if aggregation not in ("", "mean") else ""
        notes.append(
            f'The harness reports {pick.metric} = {own:.6g}{rule} for "{file.task}" of "{file.model}"; the mean of the '
            f"{counted(len(rows), 'score')} read is {mean:.6g}."
        )
    effective = results.part("n-samples", file.task).get("effective")
    n_documents = pick.part.item_column().nunique()
    if isinstance(effective, int) and effective != n_documents:
        notes.append(
            f'The harness ran {counted(effective, "document")} of "{file.task}"; {file.path.name} holds {n_documents}.'
        )
    if pick.part.n_answers > 1:
        notes.append(
            f'"{file.task}" has {pick.part.n_answers} answers to each document, of which the filter '
            f'"{pick.part.filter}" made one score: how much answers vary is not in the file.'
        )
    details = {
        "time": file.time,
        "metric": pick.metric,
        "filter": pick.part.filter,
        "version": results.part("versions").get(file.task),
        "n_shot": results.part("n-shot").get(file.task),
        "higher_is_better": results.part("higher_is_better", file.task).get(pick.metric),
        "model_name": results.text("model_name"),
        "model_source": results.text("model_source"),
        "model_args": results.part("config").get("model_args"),
        "lm_eval_version": results.text("lm_eval_version"),
        "reported": reported,
        "groups": {group: dict(results.part("groups", group)) for group in results.groups(file.task)},
    }
    return Run(f"{file.task} {file.time}".strip(), file.model, file.task, str(file.path), details)


def _check_contents(frames: list[pd.DataFrame], picks: list[_Chosen], notes: list[str]) -> None:
    """Refuse one document id with two contents or, unless the log says why, two prompts."""
    by_task: dict[str, list[int]] = {}
    for i, pick in enumerate(picks):
        by_task.setdefault(pick.file.task, []).append(i)
    for task, numbers in by_task.items():
        if len(numbers) < 2:
            continue
        rows = pd.concat([frames[i] for i in numbers])
        spread = rows.groupby("item")[["_doc", "_prompt"]].nunique()
        contents, prompts = (spread.index[spread[name] > 1] for name in ("_doc", "_prompt"))
        why = len({picks[i].file.results.prompting(task) for i in numbers}) > 1
        if len(contents) or (len(prompts) and not why):
            what, which = ("doc_hash", contents) if len(contents) else ("prompt_hash", prompts)
            raise LogFormatError(
                f'One `doc_id` is one question, with one `{what}`; in "{task}" {len(which)} of {len(spread)} have '
                f"several, {listed(which.tolist())} among them. Read the models one by one.",
                count=len(which),
            )
        if len(prompts):
            notes.append(
                f'Prompts of {len(prompts)} of {len(spread)} documents of "{task}" differ between the models, which '
                "have other chat templates, system prompts or examples."
            )


def _check_fields(picks: list[_Chosen], choice: Choice) -> None:
    found = {name for pick in picks for name in pick.part.fields}
    for name in choice.columns or ():
        if name not in found:
            raise ArgumentError(
                f'`columns` must name fields of the lines, such as "doc.subject"; "{name}" is in none of them.'
            )


def _without_useless(rows: pd.DataFrame, choice: Choice) -> pd.DataFrame:
    """The rows without fields that can be no clusters, unless they were asked for."""
    if choice.columns is not None:
        return rows
    n_items = len(rows[["task", "item"]].drop_duplicates())
    fields = [name for name in rows.columns if name.startswith("doc.")]
    return rows.drop(columns=[name for name in fields if not 1 < rows[name].nunique() < n_items])
