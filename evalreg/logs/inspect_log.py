"""Logs of Inspect (`.eval` and `.json`): one score for each sample and epoch, and what became of the rest."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from evalreg.checks import listed, nearest
from evalreg.errors import ArgumentError, LogFormatError
from evalreg.logs.inspect_file import InspectFile, open_log
from evalreg.logs.inspect_runs import (
    NEWEST_VERSION,
    check_contents,
    labels_of,
    reported_figures,
    rule_note,
    runs_of,
    version_of,
)
from evalreg.logs.inspect_values import as_column, as_number, field_table, is_thinned, printable, values_at
from evalreg.logs.reading import Choice, Reading, Reason, Source, counted

NAME, TITLE = "inspect", "a log of Inspect (.eval or .json)"

MEMBERS = (b"_journal/", b"header.json", b"samples/", b"summaries.json", b"reductions.json")
START = re.compile(rb'\s*\{\s*"version"\s*:\s*\d+\s*,')


def recognises(source: Source) -> bool:
    """Whether it is a zip file that begins with a member of a log, or JSON that begins as one."""
    if source.head.startswith(b"PK\x03\x04"):
        return source.head[30:].startswith(MEMBERS)
    start = source.head.removeprefix(b"\xef\xbb\xbf")
    return bool(START.match(start)) and b'"eval"' in start and b'"task"' in start


@dataclass
class Tally:
    """What one log gave: rows by column, and records that are not a score, by reason.

    `rules` holds item and score under each rule for samples in error; `n_scored_before` counts those of them that had
    a score already.
    """

    samples: list[dict[str, Any]] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    left_out: Counter[Reason] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    unscored: Counter[str] = field(default_factory=Counter)
    rules: dict[str, list[tuple[str, float]]] = field(default_factory=lambda: {"drop": [], "keep": [], "zero": []})
    n_errored: int = 0
    n_scored_before: int = 0


def read(sources: Sequence[Source], choice: Choice) -> Reading:
    """The scores of one scorer in all the logs."""
    files = [open_log(source, _complete(choice), choice.columns or ()) for source in sources]
    try:
        return _read(files, choice)
    except LogFormatError as error:
        newer = {file.header.get("version") for file in files if version_of(file) > NEWEST_VERSION}
        if newer:
            error.add_note(f"(The log has version {listed(map(str, newer))}; the newest known is {NEWEST_VERSION}.)")
        raise


def _read(files: Sequence[InspectFile], choice: Choice) -> Reading:
    """The same of logs that are open."""
    left_out: Counter[Reason] = Counter()
    checked = [_checked(file, choice, left_out) for file in files]
    runs = runs_of(files)
    labels = labels_of(runs)
    check_contents(files, runs)
    scorer, notes = _scorer(files, choice)
    metric = _metric(files, scorer, choice)
    frames, described = [], []
    for file, samples, run, label in zip(files, checked, runs, labels, strict=True):
        tally = _tally(samples, scorer, metric, choice)
        _check_words(tally, file, scorer, choice)
        left_out.update(tally.left_out)
        left_out.update(duplicate=file.n_superseded, cancelled=run.details["cancelled"])
        frames.append(_frame(tally, label, run.task, choice, str(file.path)))
        reported = reported_figures(file, scorer, metric)
        described.append(run.described(scorer=scorer, metric=metric, reported=reported, edited=file.n_edited))
        notes += run.notes(len(tally.scores)) + _tally_notes(tally, str(file.path), file.n_edited)
        notes += rule_note(tally.rules, tally.n_errored, tally.n_scored_before, reported, choice.failed, str(file.path))
    frame = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
    return Reading(NAME, frame, tuple(described), {key: n for key, n in left_out.items() if n}, tuple(notes))


def _complete(choice: Choice) -> Any:
    """Whether summaries hold what is asked: versions before 2025 left out metadata and errors, long fields are cut."""

    def complete(samples: Sequence[Any]) -> bool:
        if not any(isinstance(sample, dict) and "completed" in sample for sample in samples):
            return False
        for column in choice.columns or ():
            found = [value for sample in samples for value in values_at(sample, column)]
            if not found or any(map(is_thinned, found)):
                return False
        return True

    return complete


def _checked(file: InspectFile, choice: Choice, left_out: Counter[Reason]) -> list[dict[str, Any]]:
    """Samples whose shape is that of a sample; others are refused, or left out and counted."""
    kept = []
    for position, sample in enumerate(file.samples):
        wrong = _fault(sample)
        if wrong and choice.broken == "raise":
            raise LogFormatError(
                f"Sample {position + 1} of {file.path} cannot be read: {wrong}. Copy the log again, or pass "
                'broken="skip" to leave such samples out and count them.'
            )
        if wrong:
            left_out["broken"] += 1
        else:
            kept.append(sample)
    return kept


def _fault(sample: Any) -> str:
    """What is wrong with a record, or nothing."""
    if not isinstance(sample, dict):
        return f"it is {type(sample).__name__}, not an object"
    if not isinstance(sample.get("id"), str | int) or isinstance(sample["id"], bool):
        return f"its id is {sample.get('id')!r:.60}"
    epoch = sample.get("epoch")
    if not isinstance(epoch, int) or isinstance(epoch, bool) or not 1 <= epoch < 1 << 31:
        return f"its epoch is {epoch!r:.60}"
    scores = sample.get("scores")
    if scores is not None and not isinstance(scores, dict):
        return f"its scores are {type(scores).__name__}"
    for name, score in (scores or {}).items():
        if not isinstance(score, dict) or "value" not in score:
            return f"its score {name!r:.60} has no value"
    return ""


def _scores_of(file: InspectFile) -> list[dict[str, Any]]:
    return [sample["scores"] for sample in file.samples if not _fault(sample) and sample.get("scores")]


def _scorer(files: Sequence[InspectFile], choice: Choice) -> tuple[str, list[str]]:
    """The scorer to read: the one named, the only one, or the one that the task declares as its headline."""
    counts = Counter(name for file in files for scores in _scores_of(file) for name in scores)
    if choice.scorer is not None:
        if choice.scorer not in counts:
            hint = nearest(choice.scorer, counts) or f" There is {_counted(counts)}." * bool(counts)
            raise ArgumentError(f"`scorer` must be one that gave scores; got {choice.scorer!r}.{hint}")
        return choice.scorer, []
    if len(counts) < 2:
        return next(iter(counts), ""), []
    declared = {_headline(file, "scorer") for file in files}
    if len(declared) == 1 and (name := declared.pop()) in counts:
        return str(name), [f'The task declares the scorer "{name}" as its headline; it was read.']
    raise ArgumentError(
        f"`scorer` must say which scorer to read; there are {len(counts)}: {_counted(counts)}. "
        f"For instance pass scorer={next(iter(counts))!r}."
    )


def _metric(files: Sequence[InspectFile], scorer: str, choice: Choice) -> str | None:
    """The entry to read where the scores are dicts: the one named, the only one, or the declared one."""
    values = [scores[scorer]["value"] for file in files for scores in _scores_of(file) if scorer in scores]
    counts = Counter(key for value in values if isinstance(value, dict) for key in value)
    if choice.metric is not None:
        if choice.metric not in counts:
            found = f"it gave {_counted(counts)}" if counts else "its scores are single values, so leave `metric` out"
            raise ArgumentError(
                f"`metric` must be an entry of the scores of {scorer!r}; got {choice.metric!r}, and {found}."
            )
        return choice.metric
    if len(counts) < 2:
        return next(iter(counts), None)
    declared = {_headline(file, "score") for file in files}
    if len(declared) == 1 and (name := declared.pop()) in counts:
        return str(name)
    raise ArgumentError(
        f"`metric` must say which entry of the scores of {scorer!r} to read; there are {len(counts)}: "
        f"{_counted(counts)}. For instance pass metric={next(iter(counts))!r}."
    )


def _headline(file: InspectFile, part: str) -> Any:
    """What the task itself declared, which is not the first metric that Inspect falls back to."""
    found = values_at(file.header, f"eval.headline_metric.{part}")
    return found[0] if found and isinstance(found[0], str) else None


def _counted(counts: Counter[str]) -> str:
    return listed(f"{name} ({counted(n, 'score')})" for name, n in counts.items())


def _tally(samples: Sequence[dict[str, Any]], scorer: str, metric: str | None, choice: Choice) -> Tally:
    """Each sample as a score or as a reason why it is none."""
    tally = Tally()
    for sample in samples:
        value, why = _value(sample, scorer, metric)
        found = as_number(value)
        number = found if found is not None and not math.isnan(found) else None
        item = str(sample["id"])
        if _is_cancelled(sample) and number is None:
            tally.left_out["cancelled"] += 1
        elif sample.get("error") is not None:
            tally.n_errored += 1
            tally.n_scored_before += number is not None
            tally.rules["zero"].append((item, 0.0))
            if number is not None:
                tally.rules["keep"].append((item, number))
            number = {"drop": None, "keep": number, "zero": 0.0}[choice.failed]
            tally.left_out["errored"] += number is None
        elif found is None:
            tally.words[repr(value)[:60]] += 1
            tally.left_out["unparsed"] += 1
        elif number is None:
            tally.unscored[why] += 1
            tally.left_out["unscored"] += 1
        else:
            for rule in tally.rules.values():
                rule.append((item, number))
        if number is not None:
            tally.samples.append(sample)
            tally.scores.append(number)
    return tally


def _is_cancelled(sample: dict[str, Any]) -> bool:
    """Whether a sample ended because its run did; Inspect writes that as an error of the sample."""
    error = sample.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    return isinstance(message, str) and message.startswith("CancelledError(")


def _value(sample: dict[str, Any], scorer: str, metric: str | None) -> tuple[Any, str]:
    """The value of a score, and in words why there is none should it be missing."""
    score = (sample.get("scores") or {}).get(scorer)
    if score is None:
        return None, "without a score"
    value = score["value"]
    if metric is not None and isinstance(value, dict):
        if metric not in value:
            return None, f"without {metric!r} in its score"
        value = value[metric]
    # Versions before 2026 kept the reason among the score's metadata.
    noted = score.get("metadata")
    reason = score.get("reason") or (noted.get("unscored_reason") if isinstance(noted, dict) else None)
    return value, printable(str(reason))[:60] if reason else "not a number (NaN)"


def _check_words(tally: Tally, file: InspectFile, scorer: str, choice: Choice) -> None:
    if tally.words and choice.broken == "raise":
        found = listed(f"{word} ({n})" for word, n in tally.words.most_common())
        raise LogFormatError(
            f"Scores must be numbers, true or false, or one of the letters C, I, P and N; scorer {scorer!r} of "
            f'{file.path} has others: {found}. Pass broken="skip" to leave these samples out and count them.'
        )


def _frame(tally: Tally, model: str, task: str, choice: Choice, name: str) -> pd.DataFrame:
    """The rows of a log."""
    n = len(tally.scores)
    columns: dict[str, Any] = {
        "model": pd.Series([model] * n, dtype="str"),
        "task": pd.Series([task] * n, dtype="str"),
        "item": pd.Series([printable(str(sample["id"])) for sample in tally.samples], dtype="str"),
        "sample": pd.Series([sample["epoch"] for sample in tally.samples], dtype="int64"),
        "score": pd.Series(tally.scores, dtype="float64"),
    }
    fields = field_table(tally.samples, choice.columns, name)
    return pd.DataFrame(columns | {column: as_column(cells) for column, cells in fields.items()})


def _tally_notes(tally: Tally, name: str, n_edited: int | None) -> list[str]:
    """What was unscored and why, and what was edited."""
    notes = []
    if tally.unscored:
        reasons = ", ".join(f"{n} {reason}" for reason, n in tally.unscored.most_common())
        notes.append(f"{counted(tally.unscored.total(), 'sample')} of {name} unscored: {reasons}.")
    if n_edited:
        notes.append(f"{counted(n_edited, 'score')} of {name} edited by hand; the latest values were read.")
    return notes
