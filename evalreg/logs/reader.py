"""The one reader: opens the files of a log, checks, chooses, counts, refuses and compares, by what a format says."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, TypeAlias

import pandas as pd

from evalreg.checks import listed, nearest
from evalreg.errors import ArgumentError, LogFormatError, MissingColumnError
from evalreg.logs.reading import (
    JUDGED,
    ROLES,
    SCORED,
    Answer,
    BadRecordError,
    Choice,
    Failed,
    Format,
    Minor,
    Missing,
    Part,
    Reading,
    Reason,
    Record,
    Run,
    Source,
    Unknown,
    counted,
)
from evalreg.logs.records import Long, as_column, cell, leaves, nested_value, printable

# Filter, scorer and metric: what identifies one score of an answer.
ScoreName: TypeAlias = tuple[str, str, str]
ARGUMENTS = ("filter", "scorer", "metric")
# What, besides the two models, makes a comparison the same one.
_SAME = ("left", "right", "prompt", "judge", "order", "turn", "iteration", "idx", "id")
# What a verdict is worth for the left side.
_SHARES: dict[Any, float] = {"left": 1.0, "tie": 0.5, "right": 0.0}
_WINNERS = {share: winner for winner, share in _SHARES.items()}
RULES = ("keep", "drop", "zero")


def read(format: Format, sources: Sequence[Source], choice: Choice) -> Reading:
    """The scores or verdicts in files of one format."""
    parts, found, left_out = _opened(format, sources, choice)
    models = _labels(parts)
    answers = [answer for part_answers in found for answer in part_answers]
    n_pairs = sum("left" in answer.row for answer in answers)
    if 0 < n_pairs < len(answers):
        raise LogFormatError(
            f"Comparisons and scores are two logs; found {n_pairs} comparisons and {len(answers) - n_pairs} scores. "
            "Name the files of one kind."
        )
    tasks = [str(answer.row.get("task", part.task)) for part, own in zip(parts, found, strict=True) for answer in own]
    picks, notes = _picks(format, answers, tasks, parts, choice)
    rows, outcomes = _rows(format, parts, found, models, picks, choice, left_out)
    outcome = "score"
    if rows and "left" in rows[0]:
        shares = [_SHARES.get(value, value) for value in outcomes]
        if set(shares) <= set(_SHARES.values()):
            outcome, outcomes = "winner", [_WINNERS[value] for value in shares]
        else:
            outcomes = shares
    for row, value in zip(rows, outcomes, strict=True):
        row[outcome] = value
    frame = _frame(rows, outcome, format, choice)
    frame = _apart(frame, format)
    _refuse_second_runs(frame, parts, format)
    frame = _without_repeats(frame, outcome, format, choice, left_out)
    for part in parts:
        left_out.update(part.left_out)
        notes += part.notes
        notes += _compared(part, picks, found[parts.index(part)], format, choice)
    frame = _settled(frame, format, choice, picks)
    notes += list(format.notes) if isinstance(format.notes, tuple) else list(format.notes(frame, parts, choice))
    runs = tuple(run for part in parts for run in _runs(part, picks))
    words = {task: _words(measure) for task, measure in picks.items()}
    counts = {reason: count for reason, count in left_out.items() if count}
    frame = frame.drop(columns=[name for name in frame if str(name).startswith("_")])
    return Reading(format.name, frame, runs, counts, tuple(dict.fromkeys(notes)), measures=words)


def _opened(
    format: Format, sources: Sequence[Source], choice: Choice
) -> tuple[list[Part], list[list[Answer]], Counter[Reason]]:
    """The runs in files of one format with their answers, and what could not be read."""
    _refuse_arguments(format, choice)
    left_out: Counter[Reason] = Counter()
    parts = _of_tasks([part for source in sources for part in format.parts(source, choice)], choice)
    _refuse_versions(parts)
    ids: set[Any] = set()
    found = [_answers(part, format, choice, left_out, ids) for part in parts]
    if format.empty and not any(found) and not +left_out:
        raise LogFormatError(f"{format.title} must hold scores; {format.empty}", count=0)
    return parts, found, left_out


def survey(format: Format, sources: Sequence[Source], choice: Choice) -> tuple[pd.DataFrame, Counter[Reason]]:
    """Every score that a log holds, a row for each task, filter, scorer and metric, whatever is chosen."""
    parts, found, left_out = _opened(format, sources, choice)
    values: dict[tuple[str, ScoreName], list[float]] = defaultdict(list)
    missing: Counter[tuple[str, ScoreName]] = Counter()
    for part, answers in zip(parts, found, strict=True):
        for answer in answers:
            for name, value in _measures(answer, format, choice):
                key = (str(answer.row.get("task", part.task)), name)
                score, _ = resolved(answer, value, choice.failed)
                score = _SHARES.get(score, score)
                if isinstance(score, float | int):
                    values[key].append(float(score))
                else:
                    missing[key] += 1
    rows = [
        {"task": task, **dict(zip(ARGUMENTS, name, strict=True)), "scores": len(values[task, name])}
        | {
            "without": missing[task, name],
            "mean": math.fsum(own) / len(own) if (own := values[task, name]) else math.nan,
        }
        for task, name in dict.fromkeys([*values, *missing])
    ]
    table = pd.DataFrame(rows)
    return table.drop(
        columns=[name for name in ("task", *ARGUMENTS) if name in table and not table[name].any()]
    ), left_out


def _refuse_arguments(format: Format, choice: Choice) -> None:
    for name in ARGUMENTS:
        if name not in format.choose and getattr(choice, name) is not None:
            raise ArgumentError(f"`{name}` has nothing to choose from in {format.title}. Leave it out.")
    for name in choice.columns or ():
        if name in ROLES:
            raise ArgumentError(
                f'`columns` are fields besides the roles; "{name}" is a role, which the log fills itself. Leave it '
                "out, or rename the field.",
                column=name,
            )


def _of_tasks(parts: list[Part], choice: Choice) -> list[Part]:
    """The runs on the tasks that are asked for; of runs that name none, all, whose answers may."""
    if choice.task is None:
        return parts
    known = {part.task for part in parts if part.task}
    for task in choice.task if all(part.task for part in parts) else ():
        refuse_unknown_task(task, known)
    return [part for part in parts if not part.task or part.task in choice.task]


def refuse_unknown_task(task: str, known: set[str]) -> None:
    """An error where no answer is of a task."""
    if task not in known:
        hint = nearest(task, known) or f" There is {listed(sorted(known))}." * bool(known)
        raise ArgumentError(f"`task` must be a task of the log; got {task!r}.{hint}")


# Runs


def _refuse_versions(parts: Sequence[Part]) -> None:
    versions: dict[str, dict[str, list[str]]] = defaultdict(dict)
    for part in parts:
        if part.task:
            versions[part.task].setdefault(part.version, []).append(str(part.source.path))
    for task, by_version in versions.items():
        if len(by_version) > 1:
            each = "; ".join(
                f"version {version or 'unknown'}: {listed(paths)}" for version, paths in by_version.items()
            )
            raise ArgumentError(
                f"Logs read together hold one version of a task; {task!r} is there in {len(by_version)} ({each}). "
                "Questions or scoring may differ between versions. Name the files of one version."
            )


def _labels(parts: Sequence[Part]) -> list[str]:
    """A model's name for each run; runs of one model on one task that differ in settings carry these in brackets."""
    labels = [printable(part.model) for part in parts]
    together: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, part in enumerate(parts):
        together[part.task, part.model].append(place)
    for places in together.values():
        names = sorted({name for place in places for name in parts[place].settings})
        differing = [name for name in names if len({parts[place].settings.get(name) for place in places}) > 1]
        for place in places if differing else ():
            settings = parts[place].settings
            listing = ", ".join(
                f"{name}={settings.get(name, 'default')}" if name else settings[name] for name in differing
            )
            labels[place] = f"{labels[place]} ({listing})"
        if differing:
            note = (
                f"Several files are runs of {parts[places[0]].model!r}; the names of these models carry what differs."
            )
            parts[places[0]].notes.append(note)
    return labels


def _refuse_second_runs(frame: pd.DataFrame, parts: Sequence[Part], format: Format) -> None:
    """Refuse two runs of one model on one task: nothing tells their answers apart."""
    if "model" not in frame or "_part" not in frame:
        return
    key = [name for name in ("model", "task", "prompt") if name in frame]
    runs = frame[[*key, "_part"]].drop_duplicates()
    again = runs[runs.duplicated(key, keep=False)]
    if again.empty:
        return
    first = again.iloc[0][key]
    same = again[(again[key] == first).all(axis=1)]["_part"]
    each = "; ".join(
        f"{parts[place].source.path}{_when(parts[place])} ({counted(int((frame['_part'] == place).sum()), 'score')})"
        for place in same[:5]
    )
    on = f" on {first['task']!r}" if "task" in key else ""
    raise ArgumentError(
        f"Logs read together hold one run of a model on a task; {first['model']!r} has {len(same)}{on}: {each}. Name "
        "the files of one; repeats belong in one run, as samples. To compare two runs, name them: "
        'er.read_log({"before": path, "after": path}).',
        count=len(same),
    )


def _when(part: Part) -> str:
    facts = [str(part.details[name]) for name in ("status", "created") if part.details.get(name)]
    return f" [{part.id}{''.join(f', {fact}' for fact in facts)}]" if part.id and facts else ""


def _runs(part: Part, picks: Mapping[str, ScoreName]) -> Iterator[Run]:
    """The run of a part, with what was read of it."""
    filter, scorer, metric = picks.get(part.task, ("", "", ""))
    details = dict(part.details)
    details |= {name: value for name, value in zip(ARGUMENTS, (filter, scorer, metric), strict=True) if value}
    if part.reported is not None:
        details["reported"] = part.reported(scorer, metric, filter)
    own = details.pop("runs", None)
    if own is not None:
        yield from own
    else:
        yield Run(part.id or str(part.source.path), part.model, part.task, str(part.source.path), details)


# Records


def _answers(part: Part, format: Format, choice: Choice, left_out: Counter[Reason], ids: set[Any]) -> list[Answer]:
    """The answers in the records of a run; what cannot be read is an error, or left out and counted."""
    answers: list[Answer] = []
    for place, record in part.records:
        try:
            if record is None:
                raise BadRecordError("cannot be read")
            if not isinstance(record, dict):
                raise BadRecordError(f"is {type(record).__name__}, not an object")
            new = list(format.answers(record, part))
            for answer in new:
                answer.place = answer.place or place
                answer.row = _with_fields(answer, format, choice)
        except BadRecordError as error:
            if choice.broken == "raise":
                refusal = LogFormatError(
                    f"Every record of a log must be whole; {place} of {part.source.path} {error}. Repair it, or pass "
                    'broken="skip".'
                )
                for note in part.notes if "newest known" in " ".join(part.notes) else ():
                    refusal.add_note(f"({note})")
                raise refusal from None
            left_out["broken"] += 1
            continue
        answers += new
    answers = format.gather(answers, part)
    if choice.task is not None:
        answers = [answer for answer in answers if answer.row.get("task", part.task) in choice.task]
    once = []
    for answer in answers:
        if answer.id is None or answer.id not in ids:
            once.append(answer)
        ids.add(answer.id)
    left_out["duplicate"] += len(answers) - len(once)
    return once


def _with_fields(answer: Answer, format: Format, choice: Choice) -> Record:
    """The row of an answer with its fields: those asked for, or the short ones of those that are usual."""
    if choice.columns is not None:
        fields = {name: cell(nested_value(answer.record, name)[1]) for name in choice.columns}
        fields = {name: value for name, value in fields.items() if value is not None}
    else:
        fields = {}
        for path in format.fields:
            value = nested_value(answer.record, path)[1] if path else answer.record
            for name, leaf in leaves(value, path):
                if name in fields:
                    raise BadRecordError(f"has two fields called {name!r}; pass `columns` without it")
                if name not in ROLES:
                    fields[name] = leaf
    return fields | answer.row


# The choice of scores


def _picks(
    format: Format, answers: Sequence[Answer], tasks: Sequence[str], parts: Sequence[Part], choice: Choice
) -> tuple[dict[str, ScoreName], list[str]]:
    """The score to read of each task: as asked where it fits, the only one, or the one that the log declares."""
    usable: dict[str, Counter[ScoreName]] = {task: Counter() for task in dict.fromkeys(tasks)}
    seen: dict[str, dict[ScoreName, Any]] = {task: {} for task in usable}
    for answer, task in zip(answers, tasks, strict=True):
        for measure, value in _measures(answer, format, choice):
            if isinstance(value, float | int | str):
                usable[task][measure] += 1
            seen[task].setdefault(measure, value)
            if isinstance(value, Unknown):
                seen[task][measure] = value
    choice = _split(choice, seen)
    _refuse_unknown(format, seen, usable, choice)
    for task, counts in usable.items() if choice.metric is None else ():
        usable[task] = Counter({m: n for m, n in counts.items() if not isinstance(m[2], Minor)}) or counts
    declared: dict[str, dict[str, set[str]]] = {task: {name: set() for name in ARGUMENTS} for task in usable}
    for part in parts:
        for task in [part.task] if part.task in declared else []:
            for name in ARGUMENTS:
                declared[task][name].add(part.declared.get(name, ""))
    picks: dict[str, ScoreName] = {}
    open_tasks: dict[str, list[ScoreName]] = {}
    by_log: set[str] = set()
    for task, counts in usable.items():
        measures = _fitting(list(counts) or list(seen[task]), choice)
        wanted = declared[task] if len(measures) > 1 else {}
        for place, name in enumerate(ARGUMENTS):
            values = wanted.get(name, set())
            if len(values) == 1 and "" not in values and getattr(choice, name) is None:
                narrowed = [measure for measure in measures if measure[place] in values]
                by_log |= {task} if 0 < len(narrowed) < len(measures) else set()
                measures = narrowed or measures
        if len(measures) > 1 and format.alike and _agree(answers, tasks, task, measures, format, choice):
            measures = measures[:1]
        if len(measures) > 1:
            open_tasks[task] = measures
        filter, scorer, metric = measures[0] if measures else ("", "", "")
        picks[task] = (str(filter), str(scorer), str(metric))
    if open_tasks:
        raise _ambiguous(format, usable, open_tasks, choice)
    return picks, _said(picks, by_log, usable, seen, choice)


def _measures(answer: Answer, format: Format, choice: Choice) -> Iterator[tuple[ScoreName, Any]]:
    """The scores of an answer by filter, scorer and metric."""
    columns = {name: format.choose.get(name, ("", ""))[0] for name in ARGUMENTS}
    given = {
        name: "" if not column or _reads_all(name, format, choice) else str(answer.row.get(column, ""))
        for name, column in columns.items()
    }
    for (scorer, metric), value in answer.values.items():
        yield (given["filter"], scorer or given["scorer"], metric or given["metric"]), value


def _reads_all(name: str, format: Format, choice: Choice) -> bool:
    asked = getattr(choice, name)
    return asked == "all" or (asked is None and name in format.every)


def _split(choice: Choice, seen: Mapping[str, Mapping[ScoreName, Any]]) -> Choice:
    """Metric and filter where they were written as one: "exact_match,strict-match"."""
    metrics = {metric for found in seen.values() for _, _, metric in found}
    if choice.metric is not None and choice.metric not in metrics and "," in choice.metric and choice.filter is None:
        metric, _, filter = choice.metric.rpartition(",")
        return replace(choice, metric=metric, filter=filter)
    return choice


def _refuse_unknown(
    format: Format,
    seen: Mapping[str, Mapping[ScoreName, Any]],
    usable: Mapping[str, Counter[ScoreName]],
    choice: Choice,
) -> None:
    """An error where no task has what was asked for, or it holds no numbers."""
    for place, name in enumerate(ARGUMENTS):
        asked = getattr(choice, name)
        if asked is None or _reads_all(name, format, choice):
            continue
        what, counts = format.choose[name][1], Counter[str]()
        for found in usable.values():
            each: Counter[str] = Counter()
            for measure, count in found.items():
                each[measure[place]] = max(each[measure[place]], count)
            counts += each
        known = {measure[place] for found in seen.values() for measure in found}
        if asked not in known:
            several = _listing({repr(key): count for key, count in counts.items() if key})
            there = f"the {what} of the log: {several}" if several else f"the {what} of the log, which has none"
            raise ArgumentError(f"`{name}` must be one of {there}; got {asked!r}.{nearest(asked, known)}")
        if asked not in counts and counts:
            values = {
                str(value.value)[:60]
                for found in seen.values()
                for measure, value in found.items()
                if measure[place] == asked and isinstance(value, Unknown)
            }
            holds = listed(sorted(values)) if values else "nothing"
            raise ArgumentError(
                f"`{name}` must name a number for each answer; {asked!r} holds {holds}. Those that do: "
                f"{listed(sorted(filter(None, counts)))}."
            )


def _fitting(measures: list[ScoreName], choice: Choice) -> list[ScoreName]:
    """The scores of a task as far as the arguments fit it."""
    for place, name in enumerate(ARGUMENTS):
        asked = getattr(choice, name)
        narrowed = [measure for measure in measures if measure[place] == asked]
        measures = narrowed or measures
    # Single values beside dicts of several: the one is not an entry of the other.
    if choice.metric is None and len(measures) > 1 and {measure[:2] for measure in measures} == {measures[0][:2]}:
        measures = [measure for measure in measures if not measure[2]] or measures
    return measures


def _agree(
    answers: Sequence[Answer],
    tasks: Sequence[str],
    task: str,
    measures: Sequence[ScoreName],
    format: Format,
    choice: Choice,
) -> bool:
    """Whether scores of a task are equal throughout."""
    for answer, own in zip(answers, tasks, strict=True):
        values = dict(_measures(answer, format, choice)) if own == task and answer.state is None else {}
        if values and len({repr(values.get(measure)) for measure in measures}) > 1:
            return False
    return True


def _ambiguous(
    format: Format, usable: Mapping[str, Counter[ScoreName]], open_tasks: Mapping[str, list[ScoreName]], choice: Choice
) -> ArgumentError:
    """The error that lists the scores of every task that has several, and arguments that read all of them."""
    places = [place for place in range(3) if any(len({m[place] for m in found}) > 1 for found in open_tasks.values())]
    arguments = " and ".join(f"`{ARGUMENTS[place]}`" for place in places)
    kinds = " and ".join(format.choose[ARGUMENTS[place]][1] for place in places)
    each = []
    for task, measures in open_tasks.items():
        shown = {
            measure: tuple(part if place in places else "" for place, part in enumerate(measure))
            for measure in measures
        }
        counts = {_words((f, s, m), quoted=True): usable[task][measure] for measure, (f, s, m) in shown.items()}
        each.append(f"{f'{task!r} has ' if task else ''}{_listing(counts)}")
    advice = _resolving(usable, choice)
    several = len(usable) > 1 and len([task for task in usable if task]) > 1
    alone = f" `task` reads some tasks alone, such as task={next(iter(open_tasks))!r}." * several
    return ArgumentError(
        f"{arguments} must say which {kinds} to read, for there are several: {'; '.join(each[:10])}"
        f"{f' and {len(each) - 10} more tasks' if len(each) > 10 else ''}.{advice}{alone}",
        parameter=ARGUMENTS[places[0]],
    )


def _resolving(usable: Mapping[str, Counter[ScoreName]], choice: Choice) -> str:
    """Arguments by which one score of every task is read, as few as there can be."""
    options: list[list[str | None]] = []
    for place, name in enumerate(ARGUMENTS):
        asked = getattr(choice, name)
        values = list(dict.fromkeys(measure[place] for found in usable.values() for measure in found if measure[place]))
        options.append([asked] if asked is not None else [None, *values[:20]])
    for combination in sorted(product(*options), key=lambda values: sum(value is not None for value in values)):
        named = dict(zip(ARGUMENTS, combination, strict=True))
        if all(
            len(_fitting(list(found), Choice(named["metric"], named["filter"], named["scorer"]))) <= 1
            for found in usable.values()
        ):
            return f" For instance pass {' and '.join(f'{k}={v!r}' for k, v in named.items() if v is not None)}."
    return ""


def _words(measure: ScoreName, quoted: bool = False) -> str:
    """A score in words: "exact_match under strict-match"."""
    filter, scorer, metric = (repr(part) if quoted and part else part for part in measure)
    name = f"{metric} of {scorer}" if metric and scorer else metric or scorer
    return f"{name} under {filter}" if name and measure[0] not in ("", "none") else name or filter


def _said(
    picks: Mapping[str, ScoreName],
    by_log: set[str],
    usable: Mapping[str, Counter[ScoreName]],
    seen: Mapping[str, Mapping[ScoreName, Any]],
    choice: Choice,
) -> list[str]:
    """What was read of each task where that differs or was not asked for, and what cannot be read."""
    together: dict[str, list[str]] = defaultdict(list)
    for task, measure in picks.items():
        together[_words(measure)].append(task)
    notes = []
    if len(together) > 1 or by_log:
        each = "; ".join(f"{words}{f' for {listed(tasks)}' * any(tasks)}" for words, tasks in together.items())
        notes.append(f"Read: {each}{', as the log declares it' * bool(by_log)}.")
    unread: dict[str, list[str]] = defaultdict(list)
    for task, found in seen.items():
        names = sorted(
            {measure[2] for measure, value in found.items() if isinstance(value, Unknown)}
            - {m[2] for m in usable[task]}
        )
        if names and choice.metric is None:
            unread[listed(names)].append(task)
    for unscored, tasks in unread.items():
        notes.append(f"Not read: {unscored}, no scores of single answers{f' of {listed(tasks)}' * any(tasks)}.")
    return notes


def _listing(counts: Mapping[str, int]) -> str:
    """Names with their counts, ten at most, for a message."""
    listing = [f"{name} ({count})" for name, count in counts.items()]
    return ", ".join(listing[:10]) + (f" and {len(listing) - 10} more" if len(listing) > 10 else "")


# Scores


def _rows(
    format: Format,
    parts: Sequence[Part],
    found: Sequence[Sequence[Answer]],
    models: Sequence[str],
    picks: Mapping[str, ScoreName],
    choice: Choice,
    left_out: Counter[Reason],
) -> tuple[list[Record], list[Any]]:
    """The rows of answers that have the score that was picked, and their scores; others are counted by reason."""
    rows: list[Record] = []
    outcomes: list[Any] = []
    unknown: Counter[str] = Counter()
    repeats: Counter[Any] = Counter()
    names_metric = bool(format.choose.get("metric")) and not format.choose["metric"][0]
    for number, (part, answers) in enumerate(zip(parts, found, strict=True)):
        base = {"model": models[number]} if part.model else {}
        base |= {"task": part.task} if part.task else {}
        unscored: Counter[str] = Counter()
        for answer in answers:
            pick = picks[str(answer.row.get("task", part.task))]
            if not _is_picked(answer, pick, format, choice):
                continue
            if format.repeats == "number":
                key = (number, *(answer.row.get(name) for name in ("model", "task", "prompt", "item")), answer.content)
                repeats[key] += 1
                answer.row["sample"] = repeats[key]
            value, reason = resolved(answer, _value(answer, pick), choice.failed)
            if isinstance(value, Unknown):
                unknown[repr(value.value)[:60]] += 1
                reason, value = "broken" if "left" in answer.row else "unparsed", None
            if value is None:
                left_out[reason] += 1
                unscored[answer.why] += reason == "unscored"
                continue
            row = answer.row if "left" in answer.row else base | answer.row
            row |= {"_part": number, "_content": answer.content}
            if names_metric and pick[2]:
                row["metric"] = pick[2]
            rows.append(row)
            outcomes.append(value)
        if any(unscored) and unscored.total():
            reasons = ", ".join(f"{count} {why}" for why, count in unscored.most_common() if why and count)
            part.notes.append(f"{counted(unscored.total(), 'sample')} of {part.source.path} unscored: {reasons}.")
    if unknown and choice.broken == "raise":
        raise LogFormatError(
            f"In {format.title} a score is {format.known}; found others: {_listing(unknown)}. Correct them, or pass "
            'broken="skip" to leave them out and count them.',
            count=unknown.total(),
        )
    return rows, outcomes


def _is_picked(answer: Answer, pick: ScoreName, format: Format, choice: Choice) -> bool:
    """Whether an answer is of the filter, scorer or metric that was picked, where these are columns."""
    for place, name in enumerate(ARGUMENTS):
        column = format.choose.get(name, ("", ""))[0]
        if column and not _reads_all(name, format, choice) and str(answer.row.get(column, "")) != pick[place]:
            return False
    return True


def _value(answer: Answer, pick: ScoreName) -> Any:
    """The value of the score that was picked; what stands beside it in another form is unknown."""
    _, scorer, metric = pick
    for name in ((scorer, metric), ("", metric), ("", "")):
        if name in answer.values:
            return answer.values[name]
    others = {other: value for (own, other), value in answer.values.items() if own == scorer}
    return Unknown(others) if others and (metric == "" or "" in others) else None


def resolved(answer: Answer, value: Any, failed: str) -> tuple[Any, Reason]:
    """The score of an answer under a rule for samples in error, or why there is none."""
    state, plain = answer.state, value if isinstance(value, float | int | str) else None
    if state == "cancelled" and plain is not None:
        state = "errored"  # it had a score before the run ended
    if state not in (None, "errored"):
        return None, state
    if state == "errored" and not (isinstance(value, Unknown) and failed == "keep"):
        value = Failed(plain if not isinstance(plain, str) else None)
    if isinstance(value, Missing):
        return None, value.reason
    if isinstance(value, Failed):
        return {"drop": None, "keep": value.value, "zero": 0.0}[failed], value.reason
    return value, "unscored"


def _compared(
    part: Part, picks: Mapping[str, ScoreName], answers: Sequence[Answer], format: Format, choice: Choice
) -> Iterator[str]:
    """A note where the tool's own figure is not the mean of the scores read, or where failures decide the mean."""
    pick = picks.get(part.task)
    if pick is None or not answers or "left" in answers[0].row:
        return
    scores: dict[str, list[tuple[str, float]]] = {rule: [] for rule in RULES}
    n_failed = n_scored = 0
    for answer in answers:
        value = _value(answer, pick) if _is_picked(answer, pick, format, choice) else None
        if not _is_picked(answer, pick, format, choice):
            continue
        results = {rule: resolved(answer, value, rule) for rule in RULES}
        if results["zero"][0] is not None and results["drop"][0] is None:
            n_failed += 1
            n_scored += results["keep"][0] is not None
        for rule, (score, _) in results.items():
            if isinstance(score, float | int):
                scores[rule].append((str(answer.row.get("item")), float(score)))
    means = {rule: _means(pairs) for rule, pairs in scores.items() if pairs}
    figure = part.figure(pick[1], pick[2], pick[0])
    equal = [
        rule
        for rule in means
        if figure and any(math.isclose(m, figure[1], rel_tol=1e-9, abs_tol=1e-9) for m in means[rule])
    ]
    own = f" {format.title.split(' (')[0].removeprefix('a log of ').removeprefix('logs of ')} reports" if figure else ""
    tool = own.strip().removesuffix(" reports")
    if n_failed and len({means[rule] for rule in means}) > 1:
        each = ", ".join(f'{mean[0]:.4g} with failed="{rule}"' for rule, mean in means.items())
        note = f"{counted(n_failed, 'sample')} of {part.source.path} ended in error, {n_scored} after a score was given"
        note += f': the mean is {each}. This is failed="{choice.failed}".'
        if figure:
            rules = " and ".join(f'"{rule}"' for rule in equal) or "none of these"
            note += f" The {figure[0]} {figure[1]:.4g} that {tool} reports is that of {rules}."
        yield note
    elif figure and not equal and means and not math.isnan(figure[1]):
        rule = choice.failed if choice.failed in means else next(iter(means))
        yield (
            f"{tool} reports {figure[0]} {figure[1]:.6g} for {part.source.path}; the mean of the "
            f"{counted(len(scores[rule]), 'score')} read is {means[rule][0]:.6g}. It may sum up by a rule of its own."
        )


def _means(scores: Sequence[tuple[str, float]]) -> tuple[float, float]:
    """The mean of the questions' means, and the mean of all answers."""
    by_item: dict[str, list[float]] = defaultdict(list)
    for item, score in scores:
        by_item[item].append(score)
    each = [math.fsum(values) / len(values) for values in by_item.values()]
    return math.fsum(each) / len(each), math.fsum(score for _, score in scores) / len(scores)


# The frame


def _frame(rows: Sequence[Record], outcome: str, format: Format, choice: Choice) -> pd.DataFrame:
    """A column for each field, roles first."""
    names = dict.fromkeys(name for row in rows for name in row)
    for name in (choice.columns or ()) if rows else ():
        if name not in names:
            known = [str(key) for key in rows[0] if key not in ROLES and not key.startswith("_")]
            hint = nearest(name, known)
            raise MissingColumnError(f'`columns` names "{name}", which no record of the log has.{hint}', column=name)
    ordered = [name for name in (*SCORED, *JUDGED) if name in names]
    if "left" in names:
        ordered = [name for name in ("left", "right", outcome, *JUDGED[3:]) if name in names]
    if not rows:
        empty = dict.fromkeys(("model", "task", "item", "sample", "score"), "str") | {"score": "float64"}
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in empty.items()})
    n_items = len({(row.get("task"), row.get("item", row.get("prompt"))) for row in rows})
    found = {}
    for name in [*ordered, *(name for name in names if name not in ordered)]:
        cells = [row.get(name) for row in rows]
        kinds = set(map(type, cells)) - {type(None)}
        if name == "item" and (
            kinds != {int} or any(isinstance(value, int) and abs(value) >= 2**63 for value in cells)
        ):
            cells = [None if value is None else str(value) for value in cells]
        # Texts that are all long are questions and answers, unless they group questions as a passage does.
        if kinds == {Long} and choice.columns is None and not 1 < len(set(cells)) < n_items:
            continue
        column = as_column(cells)
        if column is not None:
            found[name] = column.astype("float64") if name == "score" else column
    return pd.DataFrame(found)


def _apart(frame: pd.DataFrame, format: Format) -> pd.DataFrame:
    """Names of questions that tell contents apart, or a refusal of one id with two contents."""
    if "_content" not in frame or "item" not in frame:
        return frame
    if format.apart:
        several = frame["_content"].groupby(frame["item"]).transform("nunique") > 1
        if several.any():
            frame["item"] = (
                frame["item"].astype(str).mask(several, frame["item"].astype(str) + " #" + frame["_content"])
            )
        return frame
    key = [name for name in ("task", "item") if name in frame]
    told = frame[frame["_content"] != ""]
    if told["_part"].nunique() < 2:
        return frame
    first = told.drop_duplicates([*key, "_part"]).groupby(key)["_content"].nunique()
    other = first[first > 1]
    if len(other):
        name = other.index[0]
        item = name[-1] if isinstance(name, tuple) else name
        raise LogFormatError(
            f"A question has one content in all logs of a task; {len(other)} of {len(first)} differ under one id, such "
            f"as {str(item)!r}. The data were changed or shuffled between the runs: read the logs one by "
            "one, or run the task again with ids of its own.",
            count=len(other),
        )
    return frame


def _without_repeats(
    frame: pd.DataFrame, outcome: str, format: Format, choice: Choice, left_out: Counter[Reason]
) -> pd.DataFrame:
    """The rows once: the same comparison with one verdict, the same answer with one score."""
    judged = "left" in frame
    columns = _SAME if judged else ("model", "task", "prompt", "perturbation", "item", "sample")
    key = [name for name in columns if name in frame]
    if not key or (judged and "prompt" not in key):
        return frame
    again = frame.duplicated(key)
    if not again.any():
        return frame
    other = again & ~frame.duplicated([*key, outcome]) if judged else again
    if format.repeats == "refuse" and other.any() and (choice.broken == "raise" or not judged):
        first = frame[other].iloc[0]
        what = ", ".join(f"{name} {str(first[name])!r}" for name in key)
        rule = "A comparison has one verdict" if judged else "An answer has one score"
        several = f"{int(other.sum())} {'occurs' if other.sum() == 1 else 'occur'} again"
        raise LogFormatError(
            f"{rule}; {several} with another one, the first with {what}. Name the files of one run"
            f"{', or pass broken={chr(34)}skip{chr(34)} to keep the first of each' if judged else ''}.",
            count=int(other.sum()),
        )
    left_out["duplicate"] += int(again.sum())
    return frame[~again].reset_index(drop=True)


def _settled(frame: pd.DataFrame, format: Format, choice: Choice, picks: Mapping[str, ScoreName]) -> pd.DataFrame:
    """The frame without columns that say nothing."""
    if format.repeats is not None and "sample" in frame and (frame["sample"] == 1).all():
        frame = frame.drop(columns="sample")
    if format.prune and choice.columns is None and len(frame):
        n_items = len(frame[[name for name in ("task", "item") if name in frame]].drop_duplicates())
        fields = [name for name in frame if str(name).startswith("doc.")]
        frame = frame.drop(columns=[name for name in fields if not 1 < frame[name].nunique() < n_items])
    return frame
