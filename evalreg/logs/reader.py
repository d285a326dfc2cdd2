"""The one reader: opens the files of a log, checks, chooses, counts, refuses and compares, by what a format says."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import counted, listed, nearest, passed
from evalreg.data.clusters import known_column
from evalreg.errors import ArgumentError, LogFormatError
from evalreg.logs.choosing import NO_SCORE, in_words, listing, offers_of, picks_of, reads_all
from evalreg.logs.files import Source
from evalreg.logs.reading import (
    ARGUMENTS,
    JUDGED,
    ROLES,
    SCORED,
    Answer,
    BadRecordError,
    Choice,
    Failed,
    Format,
    Missing,
    Part,
    Reading,
    Reason,
    Record,
    Run,
    ScoreName,
    Unknown,
)
from evalreg.logs.records import Long, as_column, at, cell, document, leaves, nested_value, numeric, printable, records
from evalreg.logs.tables import table_records
from evalreg.numerics.limits import ROUNDING

# What, besides the two models, makes a comparison the same one; and what makes an answer the same one.
_SAME_GAME = ("left", "right", "prompt", "judge", "order", "turn", "iteration", "idx", "id")
_SAME_ANSWER = ("model", "task", "prompt", "perturbation", "item", "sample")
# Winners by what they are worth for the left side.
_WINNERS = {1.0: "left", 0.5: "tie", 0.0: "right"}
RULES = ("keep", "drop", "zero")
_FIRST = (*JUDGED[:3], *SCORED, *JUDGED[3:])
# Answers whose fields are named where one is not there.
FIRST = 100


def read(format: Format, sources: Sequence[Source], choice: Choice) -> Reading:
    """The scores or verdicts in files of one format."""
    parts, answers = _opened(format, sources, choice)
    n_pairs = sum("left" in answer.row for answer in answers)
    if 0 < n_pairs < len(answers):
        files: tuple[set[str], set[str]] = (set(), set())
        for answer in answers:
            files["left" in answer.row].add(answer.part.source.name)
        raise LogFormatError(
            f"Comparisons and scores are two logs; found {n_pairs} comparisons in {listed(sorted(files[True]))} and "
            f"{len(answers) - n_pairs} scores in {listed(sorted(files[False]))}. Name the files of one kind."
        )
    picks, notes = picks_of(format, answers, parts, choice)
    rows = _rows(format, answers, picks, choice)
    if n_pairs and {row["score"] for row in rows} <= set(_WINNERS):
        for row in rows:
            row["winner"] = _WINNERS[row.pop("score")]
    frame = _apart(_frame(rows, choice, answers), format)
    _refuse_second_runs(frame, parts)
    n_rows, frame = len(frame), _without_repeats(frame, format, choice)
    left_out = _left_out(parts)
    left_out["duplicate"] += n_rows - len(frame)
    for part in parts:
        if unread := _other_scores(part.answers, picks):
            part.details["unread"] = f"{part.source.name} is left out: {unread}"
            part.notes.append(part.details["unread"])
        elif counts := +part.unscored:
            reasons = ", ".join(f"{count} {why}" for why, count in counts.most_common())
            part.notes.append(f"{counted(counts.total(), 'sample')} of {part.source.name} unscored: {reasons}.")
        if "reported" in part.details:
            part.details["reported"] = format.reported(part.details["reported"], picks.get(part.task, NO_SCORE))
        notes += [*part.notes, *_compared(part, picks, format, choice)]
    frame = _settled(frame, format, choice)
    notes += format.notes if isinstance(format.notes, tuple) else format.notes(frame, parts)
    return Reading(
        format.name,
        frame.drop(columns=[name for name in frame if str(name).startswith("_")]),
        tuple(run for part in parts for run in _runs(part, picks)),
        {reason: count for reason, count in left_out.items() if count},
        tuple(dict.fromkeys(notes)),
        _key(frame),
        measures={task: in_words(measure) for task, measure in picks.items()},
    )


def _other_scores(answers: Sequence[Answer], picks: Mapping[str, ScoreName]) -> str:
    """Of a run that has other scores than those read: which. Empty of the others."""
    names = {name for answer in answers for name in answer.scores}
    if not names or any(picks[answer.task] in answer.scores for answer in answers):
        return ""
    read, others = (listed(sorted(map(in_words, each))) for each in ({picks[answer.task] for answer in answers}, names))
    return f"it has no score by {read}, but by {others}. To compare its model, score it by the same first."


def _numbers(values: Sequence[Any]) -> pd.Series[float]:
    """Scores as numbers; NaN of what is none."""
    return pd.Series([value if isinstance(value, float | int) else math.nan for value in values], dtype=float)


def survey(form: Format, files: Sequence[Source], choice: Choice, apart: bool) -> tuple[pd.DataFrame, Counter[Reason]]:
    """Every score that a log, or each file of it, holds: a row for each task, filter, scorer and metric."""
    parts, answers = _opened(form, files, choice)
    rows = []
    of_file = groupby(answers, lambda answer: str(answer.part.source.path) if apart else "")
    for file, task, offered in ((file, *offer) for file, some in of_file for offer in offers_of([*some]).items()):
        for name, having in offered.items():
            values = _numbers([resolved(answer, answer.scores[name], choice.failed)[0] for answer in having])
            row: Record = {"file": file, "task": task} | name._asdict()
            row |= {"scores": values.count(), "without": values.isna().sum(), "mean": values.mean()}
            rows.append(row | {"verb": "leaderboard" if "left" in having[0].row else "mean"})
    table = pd.DataFrame(rows)
    silent = [name for name in ("file", "task", *ARGUMENTS) if name in table and not table[name].any()]
    return table.drop(columns=silent), _left_out(parts)


def _left_out(parts: Sequence[Part]) -> Counter[Reason]:
    """Records of all runs that are not a score, by reason."""
    return sum((part.left_out for part in parts), Counter())


# Runs and their records


def _opened(format: Format, sources: Sequence[Source], choice: Choice) -> tuple[list[Part], list[Answer]]:
    """The runs in files of one format, and their answers."""
    for name in choice.columns or ():
        if name in ROLES:
            raise ArgumentError(
                f'`columns` are fields besides the roles; "{name}" is a role, which the log fills itself. Leave it '
                "out, or rename the field.",
                column=name,
            )
    parts: list[Part] = []
    for source in (source for source in sources if not format.beside(source)):
        try:
            parts += format.parts(source, choice) if format.parts else [_whole_file(format, source, choice)]
        except BadRecordError as error:
            raise LogFormatError(f"{source.name} {error}.") from None
    known = {part.task for part in parts}
    parts = [part for part in parts if choice.task is None or not part.task or part.task in choice.task]
    _refuse_versions(parts)
    _label(parts)
    ids: set[Any] = set()
    for part in parts:
        part.answers = _answers(part, format, choice, ids)
        known |= {answer.task for answer in part.answers}
        part.answers = [answer for answer in part.answers if choice.task is None or answer.task in choice.task]
    for task in choice.task or ():
        refuse_unknown_task(task, known - {""})
    answers = [answer for part in parts for answer in part.answers]
    if format.empty and not answers and not _left_out(parts):
        raise LogFormatError(f"{format.title} must hold scores; {format.empty}", count=0)
    return parts, answers


def _whole_file(format: Format, source: Source, choice: Choice) -> Part:
    """The one run of a file: records in lines, in an array or rows; or one object, and the records in lists in it."""
    if format.text and not source.start.startswith((b"{", b"[")):
        return Part(source, records=table_records(source, (*format.text, *choice.text_columns)))
    if not format.rows:
        return Part(source, records=records(source, choice.broken))
    whole = document(source)
    lists = {re.split(r"[.|]", path)[-1]: at(whole, path) for path in format.rows}
    odd = [kind for kind, held in lists.items() if not isinstance(held, list | dict | None)]
    if odd or not any(lists.values()):
        what = f"{odd[0]} is not a list." if odd else f"there are none{f': {format.empty}' if format.empty else '.'}"
        raise LogFormatError(f"Records of {format.title} stand in {listed(lists)}; in {source.name} {what}")
    part, rows = format.run(whole, source, choice), []
    for kind, held in lists.items():
        for number, (name, row) in enumerate(held.items() if isinstance(held, dict) else enumerate(held or ()), 1):
            known = row if isinstance(row, dict) else {"#value": row}
            place = repr(name) if isinstance(held, dict) else number
            rows.append((f"entry {place} of {kind}", {**known, "#list": kind, "#name": str(name)}))
    part.records = rows
    return part


def refuse_unknown_task(task: str, known: set[str]) -> None:
    """An error where no answer is of a task."""
    if task not in known:
        hint = nearest(task, known) or f" There is {listed(sorted(known))}."
        hint = hint if known else " The log names no task. Leave it out."
        raise ArgumentError(f"`task` must be a task of the log; got {task!r}.{hint}")


def _refuse_versions(parts: Sequence[Part]) -> None:
    versions: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for part in parts:
        versions[part.task][part.version].append(part.source.name)
    for task, files in versions.items():
        if task and len(files) > 1:
            each = "; ".join(f"version {version or 'unknown'}: {listed(paths)}" for version, paths in files.items())
            raise ArgumentError(
                f"Logs read together hold one version of a task; {task!r} is there in {len(files)} ({each}). "
                "Questions or scoring may differ between versions. Name the files of one version."
            )


def _label(parts: Sequence[Part]) -> None:
    """Name the model of each run; runs of one model on one task that differ in settings carry these in brackets."""
    together: dict[tuple[str, str], list[Part]] = defaultdict(list)
    for number, part in enumerate(parts):
        part.number, part.label = number, printable(part.model)
        together[part.task, part.model].append(part)
    for same in together.values():
        names = sorted({name for part in same for name in part.settings})
        differing = [name for name in names if len({part.settings.get(name) for part in same}) > 1]
        if not differing:
            continue
        for part in same:
            settings = part.settings
            each = (f"{name}={settings.get(name, 'default')}" if name else settings[name] for name in differing)
            part.label += f" ({', '.join(each)})"
        same[0].notes.append(
            f"Several files are runs of {same[0].model!r}; the names of these models carry what differs."
        )


def _answers(part: Part, format: Format, choice: Choice, ids: set[Any]) -> list[Answer]:
    """The answers in the records of a run; what cannot be read is an error, or left out and counted."""
    answers: list[Answer] = []
    together: dict[Any, list[Answer]] = defaultdict(list)
    for place, *_, record in part.records:
        try:
            for answer in _said(record, part, format, choice):
                if answer.id is not None and answer.id in ids:
                    part.left_out["duplicate"] += 1
                    continue
                ids.add(answer.id)
                key = tuple(answer.row[name] for name in format.same if name in answer.row)
                same = together[key] if key else []
                if not _added(answer, same, format):
                    same.append(answer)
                    answers.append(answer)
        except BadRecordError as error:
            if choice.broken == "raise":
                refusal = LogFormatError(
                    f"Every record of a log must be whole; {place} of {part.source.name} {error}. Repair it, or pass "
                    f"{passed(broken='skip')}."
                )
                for note in part.notes if "newest known" in " ".join(part.notes) else ():
                    refusal.add_note(f"({note})")
                raise refusal from None
            part.left_out["broken"] += 1
    if any(len(same) > 1 for same in together.values()):
        part.notes.append(
            f"Some questions of {part.source.name} have several answers: these are samples of a question and averaged "
            "first, while its own figures may count each alike."
        )
    if format.average:
        _average(answers)
    _name_scores(answers, part, format, choice)
    return answers


def _said(record: Any, part: Part, format: Format, choice: Choice) -> list[Answer]:
    """What a record says, each answer with its run and its fields."""
    if record is None:
        raise BadRecordError("cannot be read")
    if not isinstance(record, dict):
        raise BadRecordError(f"is {type(record).__name__}, not an object")
    answers = list(format.answers(record, part))
    for answer in answers:
        answer.part, answer.row = part, _fields(answer, format, choice) | answer.row
    return answers


def _name_scores(answers: Sequence[Answer], part: Part, format: Format, choice: Choice) -> None:
    """Give each answer its task, and each of its scores its full name, of which columns may be a part."""
    columns = {
        argument: column
        for argument, (column, _) in format.choose.items()
        if column and not reads_all(argument, format, choice)
    }
    names = [argument for argument, (column, _) in format.choose.items() if not column]
    for answer in answers:
        answer.task = str(answer.row.get("task", part.task))
        answer.under = {argument: str(answer.row.get(column, "")) for argument, column in columns.items()}
        under = NO_SCORE._replace(**answer.under)
        answer.scores = {
            under._replace(**dict(zip(names, name if isinstance(name, tuple) else [name], strict=False))): value
            for name, value in answer.values.items()
        }


def _average(answers: Sequence[Answer]) -> None:
    """Where answers have several scores, their mean is a further one; missing where one of them is."""
    if len({name for answer in answers for name in answer.values}) > 1:
        for answer in answers:
            grades = list(answer.values.values())
            missing = next((grade for grade in grades if isinstance(grade, Missing)), None)
            answer.values["average"] = missing or sum(grades) / len(grades)


def _added(answer: Answer, same: Sequence[Answer], format: Format) -> bool:
    """Whether an answer goes to an earlier one of the same question, which lacks its scores."""
    for first in same:
        again = [
            name for name, value in answer.values.items() if value is not None and first.values.get(name) is not None
        ]
        if again and format.repeats == "number":  # it is another answer to the question
            continue
        if other := [name for name in again if first.values[name] != answer.values[name]]:
            words = ", ".join(f"{name} {answer.row[name]!r}" for name in format.same if name in answer.row)
            what = repr(other[0]) if other[0] else "the score"
            raise BadRecordError(f"has {what} of {words} again with another value")
        answer.part.left_out["duplicate"] += answer.values.keys() <= first.values.keys() and bool(again)
        for name, value in answer.values.items():
            first.values[name] = value if first.values.get(name) is None else first.values[name]
        first.row, first.state = {**answer.row, **first.row}, first.state or answer.state
        return True
    return False


def _fields(answer: Answer, format: Format, choice: Choice) -> Record:
    """The fields of an answer: those asked for, or the short ones of those that are usual."""
    if choice.columns is not None:
        fields = {name: cell(nested_value(answer.record, name)[1]) for name in choice.columns}
        return {name: value for name, value in fields.items() if value is not None}
    fields = {}
    for path in format.fields:
        value = nested_value(answer.record, path)[1] if path else answer.record
        for name, leaf in leaves(value, path):
            if name in fields:
                raise BadRecordError(f"has two fields called {name!r}; pass `columns` without it")
            if name not in ROLES:
                fields[name] = leaf
    return fields


def _runs(part: Part, picks: Mapping[str, ScoreName]) -> Iterator[Run]:
    """The run of a part, with what was read of it."""
    pick = picks.get(part.task, NO_SCORE)
    details = part.details | {argument: value for argument, value in pick._asdict().items() if value}
    runs = details.pop("runs", None)
    yield from runs or [Run(part.id or part.source.name, part.model, part.task, part.source.name, details)]


# Scores


def _rows(format: Format, answers: Sequence[Answer], picks: Mapping[str, ScoreName], choice: Choice) -> list[Record]:
    """The rows of answers that have the score that was picked; others are counted by reason."""
    rows: list[Record] = []
    unknown: Counter[str] = Counter()
    readable = dict.fromkeys(picks)
    repeats: Counter[Any] = Counter()
    named_metric = not format.choose.get("metric", ("metric", ""))[0]
    for answer in answers:
        pick, part = picks[answer.task], answer.part
        if not _is_picked(answer, pick):
            continue
        if format.repeats == "number":
            same = (answer.row.get(name) for name in ("model", "task", "prompt", "item"))
            repeats[key := (part.number, *same, answer.content)] += 1
            answer.row["sample"] = repeats[key]
        value, reason = resolved(answer, _value(answer, pick), choice.failed)
        if isinstance(value, Unknown):
            unknown[f"{repr(value.value)[:60]}{f' of {answer.task}' * (len(picks) > 1)}"] += 1
            readable.pop(answer.task, None)
            reason, value = "broken" if "left" in answer.row else "unparsed", None
        if value is None:
            part.left_out[reason] += 1
            part.unscored[answer.why] += reason == "unscored" and answer.why != ""
            continue
        base = {} if "left" in answer.row else {"model": part.model and part.label, "task": part.task}
        row: Record = {name: text for name, text in base.items() if text} | answer.row
        row |= {"_part": part.number, "_content": answer.content, "score": value}
        rows.append(row | ({"metric": pick.metric} if named_metric and pick.metric else {}))
    if unknown and choice.broken == "raise":
        raise LogFormatError(
            f"In {format.title} a score is {format.known}; found others: {listing(unknown)}. "
            + (
                f"Correct them, or pass {passed(broken='skip')} to leave them out and count them"
                f"{f', or {passed(task=[*readable])} to read the tasks without these' if readable else ''}."
                if rows
                else "No answer has a score that can be read: nothing is left without these."
            ),
            count=unknown.total(),
        )
    return rows


def _is_picked(answer: Answer, pick: ScoreName) -> bool:
    """Whether an answer is of the filter, scorer or metric that was picked, where these are columns."""
    return all(getattr(pick, argument) == value for argument, value in answer.under.items())


def _value(answer: Answer, pick: ScoreName) -> Any:
    """The value of the score that was picked; what stands beside it in another form is unknown."""
    if pick in answer.scores:
        return answer.scores[pick]
    beside = {name.metric: value for name, value in answer.scores.items() if name[:2] == pick[:2]}
    return Unknown(beside) if beside and (not pick.metric or "" in beside) else None


def resolved(answer: Answer, value: Any, failed: str) -> tuple[Any, Reason]:
    """The score of an answer under a rule for samples in error, or why there is none."""
    state, plain = answer.state, value if isinstance(value, float | int) else None
    if state == "cancelled" and plain is not None:
        state = "errored"  # it had a score before the run ended
    if state not in (None, "errored"):
        return None, state
    if state == "errored" and not (isinstance(value, Unknown) and failed == "keep"):
        value = Failed(plain)
    if isinstance(value, Missing):
        return None, value.reason
    if isinstance(value, Failed):
        return {"drop": None, "keep": value.value, "zero": 0.0}[failed], value.reason
    return value, "unscored"


def _compared(part: Part, picks: Mapping[str, ScoreName], format: Format, choice: Choice) -> Iterator[str]:
    """A note where the tool's own figure is not the mean of the scores read, or where failures decide the mean."""
    if part.task not in picks or not part.answers or "left" in part.answers[0].row:
        return
    pick, reported = picks[part.task], part.details.get("reported", {})
    answers = [answer for answer in part.answers if _is_picked(answer, pick)]
    values = [_value(answer, pick) for answer in answers]
    # Without errors the rules for them agree.
    failed = any(a.state is not None or isinstance(v, Failed) for a, v in zip(answers, values, strict=True))
    table = pd.DataFrame(
        {
            rule: _numbers([resolved(a, v, rule)[0] for a, v in zip(answers, values, strict=True)])
            for rule in (RULES if failed else [choice.failed])
        }
    )
    by_item = table.groupby([str(each.row.get("item")) for each in answers]).mean().mean().dropna()
    figures = ((name, numeric(reported.get(name))) for name in format.figure(reported, pick))
    name, value = next(((name, value) for name, value in figures if value is not None), ("", math.nan))
    equal = [rule for rule in by_item.index if np.isclose([by_item[rule], table[rule].mean()], value, 1e-9, 1e-9).any()]
    tool = re.split(" (?:logs|runs|and|[(])", format.title)[0].rpartition(" of ")[2]
    called = name.partition(",none")[0]
    if by_item.max() - by_item.min() > ROUNDING:
        in_error = table[table["zero"].notna() & table["drop"].isna()]
        each = ", ".join(f"{mean:.4g} with {passed(failed=str(rule))}" for rule, mean in by_item.items())
        note = (
            f"{counted(len(in_error), 'sample')} of {part.source.name} ended in error, {in_error['keep'].count()} "
            f"after a score was given: the mean is {each}. This is {passed(failed=choice.failed)}."
        )
        if name:
            rules = " and ".join(f'"{rule}"' for rule in equal) or "none of these"
            note += f" The {called} {value:.4g} that {tool} reports is that of {rules}."
        yield note
    elif not equal and len(by_item) and name:
        rule = choice.failed if choice.failed in by_item else by_item.index[0]
        yield (
            f"{tool} reports {called} {value:.6g} for {part.source.name}; the mean of the "
            f"{counted(int(table[rule].count()), 'score')} read is {by_item[rule]:.6g}. It may sum up by a rule of its "
            "own."
        )


# The frame


def _frame(rows: Sequence[Record], choice: Choice, answers: Sequence[Answer]) -> pd.DataFrame:
    """A column for each field, roles first."""
    if not rows:
        empty = dict.fromkeys(SCORED, "str") | {"score": "float64"}
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in empty.items()})
    names = dict.fromkeys(name for row in rows for name in row)
    for lacking in (name for name in choice.columns or () if name not in names):
        fields = dict.fromkeys(name for answer in answers[:FIRST] for name, _ in leaves(answer.record, ""))
        known_column(lacking, [n for n in (*fields, *names) if n[:1] not in "_#" and n != lacking], "columns")
    n_items = len({(row.get("task"), row.get("item", row.get("prompt"))) for row in rows})
    columns = {}
    for name in (name for name in dict.fromkeys([*_FIRST, *names]) if name in names):
        cells = [row.get(name) for row in rows]
        kinds = set(map(type, cells)) - {type(None)}
        if name == "item" and (kinds != {int} or any(abs(value or 0) >= 2**63 for value in cells)):
            cells = [None if value is None else str(value) for value in cells]
        # Texts that are all long are questions and answers, unless they group questions as a passage does.
        if kinds == {Long} and choice.columns is None and not 1 < len(set(cells)) < n_items:
            continue
        column = as_column(cells)
        if column is not None:
            columns[name] = column.astype("float64") if name == "score" else column
    return pd.DataFrame(columns)


def _apart(frame: pd.DataFrame, format: Format) -> pd.DataFrame:
    """Names of questions that tell contents apart, or a refusal of one id with two contents."""
    if "_content" not in frame or "item" not in frame:
        return frame
    if format.apart:
        items, content = frame["item"], frame["_content"]
        several = content.groupby(items).transform("nunique") > 1
        return frame.assign(item=items.mask(several, items.astype(str) + " #" + content)) if several.any() else frame
    key = [name for name in ("task", "item") if name in frame]
    known = frame[frame["_content"] != ""]
    contents = known.drop_duplicates([*key, "_part"]).groupby(key)["_content"].nunique()
    other = contents[contents > 1]
    if len(other):
        name = other.index[0]
        raise LogFormatError(
            f"A question has one content in all logs of a task; {len(other)} of {len(contents)} differ under one id, "
            f"such as {str(name[-1] if isinstance(name, tuple) else name)!r}. The data were changed or shuffled "
            "between the runs: read the logs one by one, or run the task again with ids of its own.",
            count=len(other),
        )
    return frame


def two_runs() -> str:
    """How two runs are compared, for messages."""
    named = passed('er.read_log({"before": path, "after": path})', files="before=PATH after=PATH")
    return f"To compare two runs, name them: {named}."


def _refuse_second_runs(frame: pd.DataFrame, parts: Sequence[Part]) -> None:
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
    each = []
    for part in (parts[place] for place in same[:5]):
        facts = [str(part.details[name]) for name in ("status", "created") if part.details.get(name)]
        when = f" [{', '.join([part.id, *facts])}]" if part.id and facts else ""
        each.append(f"{part.source.name}{when} ({counted(int((frame['_part'] == part.number).sum()), 'score')})")
    on = f" on {first['task']!r}" if "task" in key else ""
    raise ArgumentError(
        f"Logs read together hold one run of a model on a task; {first['model']!r} has {len(same)}{on}: "
        f"{'; '.join(each)}. Name the files of one; repeats belong in one run, as samples. {two_runs()}",
        count=len(same),
    )


def _without_repeats(frame: pd.DataFrame, format: Format, choice: Choice) -> pd.DataFrame:
    """The rows once: the same comparison with one verdict, the same answer with one score."""
    judged = "left" in frame
    key = [name for name in (_SAME_GAME if judged else _SAME_ANSWER) if name in frame]
    if not key or (judged and "prompt" not in key):
        return frame
    again = frame.duplicated(key)
    other = again & ~frame.duplicated([*key, "winner" if "winner" in frame else "score"]) if judged else again
    if format.repeats == "refuse" and other.any() and (choice.broken == "raise" or not judged):
        first = frame[other].iloc[0]
        what = ", ".join(f"{name} {str(first[name])!r}" for name in key)
        rule = "A comparison has one verdict" if judged else "An answer has one score"
        several = f"{int(other.sum())} {'occurs' if other.sum() == 1 else 'occur'} again"
        raise LogFormatError(
            f"{rule}; {several} with another one, the first with {what}. Name the files of one run"
            f"{', or pass ' + passed(broken='skip') + ' to keep the first of each' if judged else ''}.",
            count=int(other.sum()),
        )
    return frame[~again].reset_index(drop=True) if again.any() else frame


def _key(frame: pd.DataFrame) -> tuple[str, ...]:
    """What, besides the two models, tells comparisons apart; none where there are repeats of it."""
    if not {"left", "prompt"} <= set(frame):
        return ()
    key = [name for name in _SAME_GAME[2:] if name in frame and frame[name].notna().all()]
    return () if frame.duplicated(["left", "right", *key]).any() else tuple(key)


def _settled(frame: pd.DataFrame, format: Format, choice: Choice) -> pd.DataFrame:
    """The frame without columns that say nothing."""
    silent = ["sample"] if format.repeats is not None and "sample" in frame and (frame["sample"] == 1).all() else []
    if choice.columns is None and len(frame):  # fields of documents that can be no clusters
        n_items = len(frame[[name for name in ("task", "item") if name in frame]].drop_duplicates())
        fields = [str(name) for name in frame if str(name).startswith("doc.")]
        silent += [name for name in fields if not 1 < frame[name].nunique() < n_items]
    return frame.drop(columns=silent)
