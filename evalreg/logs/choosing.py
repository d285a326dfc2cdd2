"""Which score of a log is read: as asked where it fits, the only one, or the one that the log declares."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias

from evalreg.checks import listed, nearest, passed
from evalreg.errors import ArgumentError
from evalreg.logs.reading import ARGUMENTS, Answer, Choice, Format, Minor, Part, ScoreName, Unknown

# The answers that have a score, by task and name of the score; and how many of them are numbers.
Offers: TypeAlias = Mapping[str, Mapping[ScoreName, list[Answer]]]
Usable: TypeAlias = Mapping[str, Mapping[ScoreName, int]]
# What was asked for, None where nothing was.
Wanted: TypeAlias = Mapping[str, str | None]
NO_SCORE = ScoreName("", "", "")


def offers_of(answers: Sequence[Answer]) -> Offers:
    """The answers that have each score, by task."""
    offers: dict[str, dict[ScoreName, list[Answer]]] = {answer.task: {} for answer in answers}
    for answer in answers:
        for name in answer.scores:
            offers[answer.task].setdefault(name, []).append(answer)
    return offers


def picks_of(
    format: Format, answers: Sequence[Answer], parts: Sequence[Part], choice: Choice
) -> tuple[dict[str, ScoreName], list[str]]:
    """The score to read of each task; and notes on what was read, where that is not plain, and what cannot be read."""
    offers = offers_of(answers)
    usable = {task: _numbers(offered) for task, offered in offers.items()}
    wanted: dict[str, str | None] = {argument: getattr(choice, argument) for argument in ARGUMENTS}
    # lm-eval writes a metric and a filter in one word: "acc,none".
    metric, _, filter = (choice.metric or "").rpartition(",")
    if choice.filter is None and metric and filter in _values(offers, "filter"):
        wanted |= {"metric": metric, "filter": filter}
    choosing = {a: text for a, text in wanted.items() if text is not None and not reads_all(a, format, choice)}
    for argument, value in choosing.items():
        _refuse_unknown(argument, value, format, offers, usable)
    if wanted["metric"] is None:
        for task, counts in usable.items():
            usable[task] = {name: n for name, n in counts.items() if not isinstance(name.metric, Minor)} or counts
    chosen: dict[str, list[ScoreName]] = {}
    by_log = False
    for task, counts in usable.items():
        # Of a task without scores of single answers nothing can be chosen.
        fitting = _fitting(list(counts), wanted) or _fitting(list(offers[task]), wanted)[:1]
        names = _declared(fitting, wanted, [part for part in parts if part.task == task])
        by_log |= len(names) < len(fitting)
        alike = format.alike and all(_agree(answer, names) for answer in answers if answer.task == task)
        chosen[task] = names[:1] if alike else names
    if several := {task: names for task, names in chosen.items() if len(names) > 1}:
        raise _ambiguous(format, usable, several, wanted, answers)
    picks = {task: ScoreName(*map(str, names[0])) if names else NO_SCORE for task, names in chosen.items()}
    _refuse_idle(choosing, wanted, picks, usable)
    read = _with_tasks({task: in_words(name) for task, name in picks.items()}, "for")
    notes = [f"Read: {'; '.join(read)}{', as the log declares it' * by_log}."] if len(read) > 1 or by_log else []
    return picks, notes if choice.metric is not None else [*notes, *_not_read(offers, usable)]


def reads_all(argument: str, format: Format, choice: Choice) -> bool:
    """Whether all values of a column are read: as asked, or where it need not be chosen from."""
    value = getattr(choice, argument)
    return value == "all" or (value is None and argument in format.every)


def _values(offers: Mapping[str, Iterable[ScoreName]], argument: str) -> list[str]:
    """The filters, scorers or metrics of a log."""
    return [*dict.fromkeys(getattr(name, argument) for names in offers.values() for name in names)]


def _numbers(offered: Mapping[ScoreName, Sequence[Answer]]) -> dict[ScoreName, int]:
    """How many answers have each score as a number, of scores that some have so."""
    counts = {n: sum(isinstance(a.scores[n], float | int) for a in having) for n, having in offered.items()}
    return {name: count for name, count in counts.items() if count}


def _unknown(offered: Mapping[ScoreName, Sequence[Answer]]) -> dict[ScoreName, Any]:
    """Scores with a value that is no score, and the first such value."""
    values = ((name, answer.scores[name]) for name, having in offered.items() for answer in reversed(having))
    return {name: value.value for name, value in values if isinstance(value, Unknown)}


def _fitting(names: list[ScoreName], wanted: Wanted) -> list[ScoreName]:
    """The scores of a task as far as what was asked fits it."""
    for argument, value in wanted.items():
        names = [name for name in names if getattr(name, argument) == value] or names
    # Single values beside dicts of several: the one is not an entry of the other.
    if wanted["metric"] is None and len({name[:2] for name in names}) == 1:
        names = [name for name in names if not name.metric] or names
    return names


def _declared(names: list[ScoreName], wanted: Wanted, parts: Sequence[Part]) -> list[ScoreName]:
    """Of several scores of a task the one that all its runs declare as their own, where it was not asked for."""
    for argument, value in wanted.items():
        declared = {part.declared.get(argument, "") for part in parts}
        if len(names) > 1 and value is None and len(declared) == 1 and "" not in declared:
            names = [name for name in names if getattr(name, argument) in declared] or names
    return names


def _agree(answer: Answer, names: Sequence[ScoreName]) -> bool:
    """Whether scores of an answer are equal."""
    return bool(answer.state) or not answer.scores or len({repr(answer.scores.get(name)) for name in names}) == 1


def _with_tasks(words: Mapping[str, str], joint: str) -> list[str]:
    """What is said of tasks, each text once with the tasks it is said of."""
    tasks: dict[str, list[str]] = defaultdict(list)
    for task, text in words.items():
        tasks[text].append(task)
    return [f"{text}{f' {joint} {listed(named)}' * any(named)}" for text, named in tasks.items()]


def _not_read(offers: Offers, usable: Usable) -> list[str]:
    """Metrics that hold no scores of single answers."""
    metrics = {}
    for task, offered in offers.items():
        if unknown := {name.metric for name in _unknown(offered)} - {name.metric for name in usable[task]} - {""}:
            metrics[task] = f"Not read: {listed(sorted(unknown))}, no scores of single answers"
    return [f"{text}." for text in _with_tasks(metrics, "of")]


def _refuse_idle(choosing: Wanted, wanted: Wanted, picks: Mapping[str, ScoreName], usable: Usable) -> None:
    """An error where something that was asked for is of no score that is read, since what else was asked has none."""
    for argument, value in choosing.items():
        if all(getattr(name, argument) != value for name in picks.values()):
            together = " and ".join(f"{name}={each!r}" for name, each in wanted.items() if each is not None)
            scores = sorted({in_words(name) for names in usable.values() for name in names})
            raise ArgumentError(
                f"`{argument}` must go with what else is asked for; {together} are of no score together. The log has "
                f"{listed(scores)}.",
                parameter=argument,
            )


def _refuse_unknown(argument: str, value: str, format: Format, offers: Offers, usable: Usable) -> None:
    """An error where no task has what was asked for, or it holds no numbers."""
    counts = {
        text: sum(max((n for name, n in task.items() if getattr(name, argument) == text), default=0) for task in tasks)
        for tasks in [usable.values()]
        for text in _values(usable, argument)
    }
    if value not in (known := _values(offers, argument)):
        several = listing({repr(text): counts.get(text, 0) for text in counts or known if text})
        choices = f"the {format.choose[argument][1]} of the log{f': {several}' if several else ', which has none'}"
        others = (
            f" It is read by {passed(**{other: value})}." for other in ARGUMENTS if value in _values(offers, other)
        )
        if several_known := [word for word in map(str.strip, value.split(",")) if word in known]:
            hint = f" One is read at a time: {passed(**{argument: several_known[0]})}."
        else:
            hint = next(others, nearest(value, known))
        raise ArgumentError(f"`{argument}` must be one of {choices}; got {value!r}.{hint}")
    if value not in counts and counts:
        every = (pair for offered in offers.values() for pair in _unknown(offered).items())
        values = sorted({str(example)[:60] for name, example in every if getattr(name, argument) == value})
        raise ArgumentError(
            f"`{argument}` must name a number for each answer; {value!r} holds {listed(values) or 'nothing'}. Those "
            f"that do: {listed(sorted(filter(None, counts)))}."
        )


def _ambiguous(
    format: Format, usable: Usable, several: Mapping[str, list[ScoreName]], wanted: Wanted, answers: Sequence[Answer]
) -> ArgumentError:
    """The error that lists the scores of every task that has several, and the fewest arguments that read all tasks."""
    missing = [a for a in ARGUMENTS if any(len(_values({"": names}, a)) > 1 for names in several.values())]
    blank = {argument: "" for argument in ARGUMENTS if argument not in missing}
    each = []
    for task, names in several.items():
        counts = {in_words(name._replace(**blank), quoted=True): usable[task].get(name, 0) for name in names}
        each.append(f"{f'{task!r} has ' if task else ''}{listing(counts)}")
    named = _fewest_that_read_all(usable, wanted)
    advice = f" For instance pass {passed(**named)}." if named else ""
    if sum(map(bool, usable)) > 1:
        # One that has what was asked for, and of these one that has a single such score.
        fitting = {
            task: sum(all(value in (None, getattr(name, a)) for a, value in wanted.items()) for name in names)
            for task, names in usable.items()
            if names
        }
        alone = min(fitting, key=lambda task: (fitting[task] == 0, fitting[task]))
        advice += f" `task` reads some tasks alone, such as {passed(task=alone)}."
    error = ArgumentError(
        f"{' and '.join(f'`{argument}`' for argument in missing)} must say which "
        f"{' and '.join(format.choose[argument][1] for argument in missing)} to read, for there are several: "
        f"{'; '.join(each[:10])}"
        f"{f' and {len(each) - 10} more tasks' if len(each) > 10 else ''}.{advice}{_unshared(answers, several)}",
        parameter=missing[0],
    )
    error.options = named
    return error


def _unshared(answers: Sequence[Answer], several: Mapping[str, list[ScoreName]]) -> str:
    """What is said of tasks whose runs have no score in common: whatever is chosen reads some of the runs alone."""
    for task, names in several.items():
        runs: dict[str, set[ScoreName]] = defaultdict(set)
        for answer in answers:
            if answer.task == task and answer.scores:
                runs[answer.part.source.name] |= answer.scores.keys() & set(names)
        if not set(names).intersection(*runs.values()):
            each = "; ".join(f"{run} has {listed(sorted(map(in_words, scores)))}" for run, scores in runs.items())
            return f" No score is in all runs: {each}. To compare their models, score them alike first."
    return ""


def _fewest_that_read_all(usable: Usable, wanted: Wanted) -> dict[str, str]:
    """The fewest arguments, those asked for among them, that leave one score of every task; none where none do."""
    options = [
        [None, *list(filter(None, _values(usable, argument)))[:20]] if value is None else [value]
        for argument, value in wanted.items()
    ]
    for tried in sorted(product(*options), key=lambda values: sum(value is not None for value in values)):
        arguments = dict(zip(wanted, tried, strict=True))
        if all(len(_fitting(list(names), arguments)) <= 1 for names in usable.values()):
            return {argument: value for argument, value in arguments.items() if value is not None}
    return {}


def in_words(name: ScoreName, quoted: bool = False) -> str:
    """A score in words: "exact_match under strict-match"."""
    filter, scorer, metric = (repr(part) if quoted and part else part for part in name)
    named = f"{metric} of {scorer}" if metric and scorer else metric or scorer
    return f"{named} under {filter}" if named and name.filter not in ("", "none") else named or filter


def listing(counts: Mapping[str, int]) -> str:
    """Names with their counts, ten at most, for a message."""
    shown = [f"{name} ({count})" for name, count in counts.items()]
    return ", ".join(shown[:10]) + (f" and {len(shown) - 10} more" if len(shown) > 10 else "")
