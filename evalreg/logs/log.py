"""A log: tidy rows with their roles, where they came from, and the questions that one asks of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, TypeVar

import pandas as pd

from evalreg.checks import BoolArray, counted, listed, passed, with_hints
from evalreg.data.frame import Table, pandas_rows
from evalreg.data.where import open_subset
from evalreg.errors import ArgumentError, DataError, EmptyDataError, EvalregError, MissingColumnError, NotAvailableError
from evalreg.logs.reader import two_runs
from evalreg.logs.reading import REASONS, ROLES, Reading, Run
from evalreg.logs.table_log import LONG, if_wide, likely_roles, refuse_nested_roles, with_roles

if TYPE_CHECKING:
    from evalreg.estimators.comparison import Comparison
    from evalreg.logs.doctor import Diagnosis
    from evalreg.results.results import Results

T = TypeVar("T")

# Names of fields: a nested one by its dots, or by its last words where only one field ends so


def fields_called(name: str, columns: Iterable[object]) -> list[str]:
    """Columns that a name may mean: the one of that name, else those that end in a dot and the name."""
    names = [str(column) for column in columns]
    return [name] if name in names else [column for column in names if column.endswith(f".{name}")]


def with_short_names(frame: pd.DataFrame, reserved: Sequence[str] = ()) -> pd.DataFrame:
    """The rows with each dotted column under its last word too, where nothing else could be meant by it."""
    wide = frame.copy(deep=False)
    for column in map(str, frame.columns):
        short = column.rpartition(".")[2]
        if short not in ("", column, *reserved) and fields_called(short, frame.columns) == [column]:
            wide[short] = frame[column]
    return wide


@contextmanager
def naming(columns: Iterable[object]) -> Iterator[None]:
    """For a name that is not a column, say which fields it may be."""
    try:
        yield
    except MissingColumnError as error:
        names = fields_called(error.column or "", columns)
        if len(names) > 1:
            raise ArgumentError(
                f'A name must mean one field; "{error.column}" may be {listed(names, joiner=" or ")}. Write the one '
                "that is meant.",
                column=error.column,
            ) from None
        raise


@contextmanager
def within(name: str) -> Iterator[None]:
    """Of several logs or evals, say in which one an error is."""
    try:
        yield
    except EvalregError as error:
        error.add_note(f"(In {name!r}.)")
        raise


class Log:
    """Scores or verdicts with their roles, so that later calls need no names of columns.

    Functions that take data take a log in its place: `er.mean(log)` is `log.mean()`. Nested fields go by their full
    name ("metadata.passage"), or by the last word where only one field ends so ("passage").

    Parameters
    ----------
    frame : data frame
        One row a score or verdict: pandas, or whatever narwhals takes. A column that has a role is there under the
        role's name too.
    model, task, item, sample, score : str, optional
        Columns of scored answers. A role whose name is a column need not be given.
    left, right, winner, prompt, judge, order : str, optional
        Columns of comparisons.

    Attributes
    ----------
    frame : DataFrame
        The rows; a copy at each access.
    runs : tuple
        Runs that the rows came from; empty where the log was made from a frame.
    left_out : Series
        Records that are not a score, counted by reason.
    measures : dict
        Which scores were read, by task: "match", or "exact_match under strict-match".
    notes : tuple of str
        What a reader should know.

    Raises
    ------
    MissingColumnError
        If a column of a role is not in the frame.
    DataError
        If the frame has a column of a role's name and another column is named for that role.

    See Also
    --------
    read_log : From the files of a harness.

    Examples
    --------
    >>> import evalreg as er
    >>> rows = er.datasets.passages(n_passages=20, seed=1).rename(columns={"score": "correct", "question": "id"})
    >>> log = er.Log(rows, score="correct", item="id")
    >>> log
    Log of 160 scores: item, score
    >>> float(log.fit("score ~ 1", groups="passage").params["Intercept"]).__round__(4)
    0.7875
    """

    _reading: Reading

    @with_hints
    def __init__(
        self,
        frame: Any,
        *,
        model: str | None = None,
        task: str | None = None,
        item: str | None = None,
        sample: str | None = None,
        score: str | None = None,
        left: str | None = None,
        right: str | None = None,
        winner: str | None = None,
        prompt: str | None = None,
        judge: str | None = None,
        order: str | None = None,
    ) -> None:
        columns = {"model": model, "task": task, "item": item, "sample": sample, "score": score, "left": left}
        columns |= {"right": right, "winner": winner, "prompt": prompt, "judge": judge, "order": order}
        named = {role: name for role, name in columns.items() if name is not None}
        _take(self, Reading("frame", with_roles(pandas_rows(frame), named)))

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: a log is not changed in place."""
        raise AttributeError(f"a Log cannot be changed; make another one instead of setting {name!r}")

    def __repr__(self) -> str:
        """One line: how many rows of what, and the roles."""
        what = "score" if "score" in self.roles else "verdict"
        return f"Log of {counted(len(self._reading.frame), what)}: {', '.join(self.roles)}"

    @property
    def frame(self) -> pd.DataFrame:
        """The rows, as a copy."""
        return self._reading.frame.copy()

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles that the log has, which are columns of these names; one side of comparisons alone is none."""
        columns = set(self._reading.frame.columns)
        sides = {"left", "right"}
        return tuple(role for role in ROLES if role in (columns if sides <= columns else columns - sides))

    @property
    def format(self) -> str:
        """The format that was read; "frame" where the log was made from one."""
        return self._reading.format

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs that the rows came from."""
        return self._reading.runs

    @property
    def left_out(self) -> pd.Series[int]:
        """Records that are not a score, counted by reason; reasons that did not occur are not listed."""
        counts = {reason: self._reading.left_out.get(reason, 0) for reason in REASONS}
        return pd.Series({reason: n for reason, n in counts.items() if n}, dtype="int64", name="left_out")

    @property
    def key(self) -> list[str]:
        """Columns that, with the two models, identify a comparison; none where the log names none."""
        return list(self._reading.key)

    @property
    def measures(self) -> dict[str, str]:
        """Which scores were read, by task; the one key is "" where the log names no task."""
        return {task: words for task, words in self._reading.measures.items() if words}

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what a reader should know."""
        return self._reading.notes

    def mean(self, *, by: str | list[str] | None = None, groups: Any = None, **options: Any) -> Results:
        """Mean scores: of each model where there are several, of each task and of each prompt.

        Repeated answers to a question are averaged first. A question of several tasks is one in each task.

        Parameters
        ----------
        by : str or list of str, optional
            Columns of what is estimated; by default model, task and prompt, each where there are several.
        groups : optional
            As in `evalreg.mean`; without it questions are the clusters. `doctor` names fields that group questions
            which are alike.
        **options
            Further arguments of `evalreg.mean`.

        Returns
        -------
        Results
            One mean for each value of `by`.

        Raises
        ------
        NotAvailableError
            If the log has comparisons.
        ArgumentError
            If there are several prompts and `by` does not name them.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.Log(er.datasets.paired(n_passages=20, seed=1), item="question")
        >>> log.mean(groups="passage").params.round(3).to_dict()
        {'new': 0.8, 'old': 0.75}
        """
        from evalreg.estimators.mean import mean

        return ask(self, mean, {"by": by, "groups": groups} | options)

    def compare(self, *, groups: Any = None, **options: Any) -> Comparison:
        """Differences between the models, over the questions that both answered.

        Parameters
        ----------
        groups : optional
            As in `evalreg.compare`; without it questions are the clusters, as in `mean`.
        **options
            Further arguments of `evalreg.compare`, such as `baseline`.

        Returns
        -------
        Comparison
            A row for each pair of models.

        Raises
        ------
        NotAvailableError
            If the log has no scores, no models or no items.
        ArgumentError
            If the models answered several prompts, or prompts are compared over several models.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.Log(er.datasets.paired(n_passages=20, seed=1), item="question")
        >>> log.compare(groups="passage").table["difference"].round(3).to_dict()
        {('new', 'old'): 0.05}
        """
        from evalreg.estimators.difference import compare

        return ask(self, compare, {"groups": groups} | options)

    def fit(self, formula: str, *, groups: Any = None, **options: Any) -> Results:
        """A regression of the scores.

        Parameters
        ----------
        formula : str
            Such as "score ~ 1" or "score ~ model".
        groups : optional
            As in `evalreg.fit`.
        **options
            Further arguments of `evalreg.fit`.

        Returns
        -------
        Results
            One coefficient for each column of the design.
        """
        from evalreg.estimators.regression import fit

        return ask(self, fit, {"formula": formula, "groups": groups} | options)

    def win_rate(self, *, groups: Any = None, **options: Any) -> Results:
        """Win rates of models that were compared in pairs.

        Parameters
        ----------
        groups : optional
            As in `evalreg.win_rate`; by default prompts, crossed with judges where there are several.
        **options
            Further arguments of `evalreg.win_rate`.

        Returns
        -------
        Board
            One win rate for each model.

        Raises
        ------
        NotAvailableError
            If the log has no comparisons.
        """
        from evalreg.estimators.win_rate import win_rate

        return ask(self, win_rate, {"groups": groups} | options)

    def bradley_terry(self, *, groups: Any = None, **options: Any) -> Results:
        """Bradley-Terry ratings of models that were compared in pairs.

        Parameters
        ----------
        groups : optional
            As in `evalreg.bradley_terry`; by default prompts, crossed with judges where there are several.
        **options
            Further arguments of `evalreg.bradley_terry`.

        Returns
        -------
        Board
            One rating for each model.

        Raises
        ------
        NotAvailableError
            If the log has no comparisons.
        """
        from evalreg.estimators.ratings import bradley_terry

        return ask(self, bradley_terry, {"groups": groups} | options)

    def doctor(self) -> Diagnosis:
        """What the log contains, what may be wrong with it, and what to type next.

        Returns
        -------
        Diagnosis
            Prints as tables; `models` and `clusters` are data frames, `remarks` and `commands` are texts.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.Log(er.datasets.paired(n_passages=20, seed=1), item="question")
        >>> log.doctor().clusters["clusters"].to_dict()
        {'passage': 20}
        """
        from evalreg.logs.doctor import diagnose

        return diagnose(self)

    def _with_rows(self, frame: pd.DataFrame) -> Log:
        """A log with other rows of the same columns, or with other columns."""
        return log_of(replace(self._reading, frame=frame))

    def _several(self, role: str) -> bool:
        return role in self.roles and self._reading.frame[role].nunique() > 1


# A question asked of a log


def ask(log: Log, function: Callable[..., T], arguments: Mapping[str, Any]) -> T:
    """A function on the rows of a log: roles fill what no argument names, and nothing is pooled unasked.

    What is wrong with a keyword is said of the function that it was for.
    """
    keywords = {name: value for name, value in arguments.items() if value is not None or name not in ("by", "groups")}
    parameters, frame = signature(function).parameters, log._reading.frame
    _refuse_lacking(log, function.__name__, [name for name in _needed(parameters) if name not in keywords])
    with naming(frame.columns):
        rows = with_short_names(frame)
        subset = keywords.get("subset")
        chosen = frame if subset is None else frame[chosen_rows(rows, subset)]
        keywords = role_arguments(chosen, parameters, keywords, log.key) | keywords
        refuse_pooling(log, chosen, parameters, keywords)
        try:
            return with_hints(function)(data=rows, **keywords)
        except EvalregError as error:
            if error.parameter == "model":
                error.add_note(unread_runs(log) or two_runs())
            raise


def unread_runs(log: Log) -> str:
    """What is said of runs that have other scores than the one that was read; empty where there are none."""
    return " ".join(str(run.details["unread"]) for run in log.runs if "unread" in run.details)


def chosen_rows(frame: pd.DataFrame, subset: Any, argument: str = "subset") -> BoolArray:
    """Which rows a filter keeps."""
    table = open_subset(frame, subset, argument)[0]
    assert isinstance(table, Table)
    assert table.chosen is not None
    return table.chosen.keep


def _needed(parameters: Mapping[str, Parameter]) -> list[str]:
    """Roles whose columns a function cannot do without, by its signature."""
    names = [name for name in ("left", "right", "score", "model", "item", "sample") if name in parameters]
    return [name for name in names if parameters[name].annotation == "str"]


def _refuse_lacking(log: Log, verb: str, needed: Sequence[str]) -> None:
    """Refuse a log without the roles that a question needs, or without rows; scores are those of single models."""
    for role in needed:
        if role == "score" and "left" in log.roles:
            raise NotAvailableError(
                f"`{verb}` needs scores of single models, and each row of this log compares two. Use win_rate or "
                "bradley_terry, or name another column in `score`."
            )
        if role not in log.roles:
            column = likely_roles(log._reading.frame, (role,)).get(role)
            offered = "win_rate or bradley_terry" if "left" in log.roles else "mean or fit"
            named = f'Its column seems to be "{column}"' if column else f"Use {offered}, or name its column"
            raise NotAvailableError(
                f"`{verb}` needs the role {role!r}, and this log has {listed(log.roles)}. {named}: "
                f"{passed(**{role: column or 'COLUMN'})}."
            )
    refuse_empty(log)


def role_arguments(
    frame: pd.DataFrame, parameters: Mapping[str, Parameter], keywords: Mapping[str, Any], key: Sequence[str] = ()
) -> dict[str, Any]:
    """Arguments of a function that were not given, as columns with the names of roles fill them.

    Comparisons are clustered by prompts, crossed with judges, where there are several; without prompts not at all,
    as judges alone leave out what answers share. Means are those of each model, task and prompt; questions of several
    tasks are told apart by both, and repeats are named where there are some.
    """
    several = [role for role in ROLES if role in frame and frame[role].nunique() > 1]
    named = {*frame, *keywords}
    filled: dict[str, Any] = {role: role for role in ("model", "order") if role in frame}
    if "left" in parameters and ("left" in named or "left" in _needed(parameters)):
        outcome = "winner" if "winner" in frame or "score" not in frame else "score"
        axes = " + ".join(role for role in ("prompt", "judge") if role in several and "prompt" in frame)
        filled |= {"left": "left", "right": "right", "groups": axes, "key": list(key)}
        filled |= {} if {"winner", "score"} & set(keywords) else {outcome: outcome}
    else:
        item = "task:item" if "task" in several else "item"
        # The prompts of comparisons are their questions.
        separated = ("model", "task") if "left" in frame else ("model", "task", "prompt")
        repeated = "sample" in several or ("sample" in frame and "sample" in _needed(parameters))
        filled |= {"by": [role for role in separated if role in several]}
        filled |= {"item": item} if "item" in frame else {}
        filled |= {"sample": "sample"} if repeated and "item" in named and not keywords.get("over") else {}
        filled |= {"groups": filled.get("item")} if "numerator" in parameters else {}
    filled = {name: value for name, value in filled.items() if value}
    if "model" not in named and "None" in str(getattr(parameters.get("model"), "annotation", "")):
        filled["model"] = None
    return {name: value for name, value in filled.items() if name in parameters and name not in keywords}


def refuse_pooling(
    log: Log, frame: pd.DataFrame, parameters: Mapping[str, Parameter], keywords: Mapping[str, Any]
) -> None:
    """Refuse to average over prompts, models or metrics that no argument tells apart.

    A name tells a role apart that is the role's, or that of the column which has it. Without items prompts are
    questions.
    """
    if "left" in keywords:
        return
    by, filtered = keywords.get("by"), f"({keywords['subset']}) and " if keywords.get("subset") else ""
    roles = [role for role in ("model", "prompt") if role in frame and frame[role].nunique() > 1]
    counts = {role: frame[role].value_counts(sort=False) for role in roles}
    # The first value alone, for advice that can be followed as it stands.
    alone = {role: {"subset": f"{filtered}{role} == {_literal(counts[role].index.tolist()[0])}"} for role in roles}
    names = [by] if isinstance(by, str) else [str(name) for name in by] if isinstance(by, list | tuple) else []
    advice = {"prompt": passed(by=[*names, "prompt"])} if "by" in parameters else {}
    if "facets" in parameters:
        facets = str(keywords["facets"])
        names = re.findall(r"[^\s:*+]+", facets)
        advice = {role: f"{passed(facets=f'{role} x {facets}')} to make them a facet" for role in roles}
    elif "model" in parameters:
        names = [str(keywords.get("model"))]
        advice = {
            "prompt": f"{passed(model='prompt', **alone.get('model', {}))} to compare the prompts of one model",
            "model": f"{passed(model='model', **alone.get('prompt', {}))} to compare the models"
            + " with one prompt" * ("prompt" in roles),
        }
    for role in (role for role in advice if role in roles):
        apart = (name for name in names if name == role or (name in frame and frame[name].equals(frame[role])))
        if any(apart) or (role == "prompt" and "item" not in {*frame, *keywords}):
            continue
        listing = ", ".join(f"{name!r} ({counted(count, 'score')})" for name, count in counts[role].items())
        rows = "" if "subset" in parameters else f"only the rows of {role} {listing.partition(' (')[0]},"
        raise ArgumentError(
            f"The log has {len(counts[role])} {role}s: {listing}. Pass {advice[role]}, or "
            f"{passed(rows, **alone[role])} to keep one {role}."
        )
    words = set(re.findall(r"[\w.]+", " ".join([*names, str(keywords.get("formula"))])))
    by_task = "metric" not in frame
    metric = frame["task"].map(log.measures) if "task" in frame and by_task else frame.get("metric")
    if log.format == "frame" or metric is None or metric.nunique() < 2 or words & {"task", "metric"}:
        return
    largest = pd.Series(frame.get("score"), dtype=float).groupby(metric).max()
    # Scorers by task: shares may be averaged, and points beside them may not.
    if by_task and ((largest <= 1).all() or (largest > 1).all()):
        return
    tasks = dict(frame.groupby(metric)["task"].unique()) if "task" in frame else {}
    listing = "; ".join(
        f"{name}{f' of {listed(tasks[name])}' if tasks else ''} ({counted(int(count), 'score')})"
        for name, count in metric.value_counts(sort=False).items()
    )
    first = metric.dropna().tolist()[0]
    chosen = f"task in {_literal(tasks[first].tolist())}" if tasks else f"metric == {_literal(first)}"
    each = f"{passed(by=[*names, 'task' if tasks else 'metric'])} to have each alone, or " * ("by" in parameters)
    raise NotAvailableError(
        f"scores by several metrics are not averaged: {listing}. Pass {each}{passed(subset=filtered + chosen)} to keep "
        f"{first}.",
        column="metric",
    )


def _literal(value: Any) -> str:
    """A value as filters write it, with double quotes, which a shell leaves alone in single ones."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _take(log: Log, reading: Reading) -> None:
    if not {"score", "winner"} & set(reading.frame.columns):
        long = LONG.join(if_wide(reading.frame))
        raise DataError(f"a log needs scores or verdicts: name their column in `score` or in `winner`. {long}".strip())
    refuse_nested_roles(reading.frame)
    object.__setattr__(log, "_reading", reading)


def log_of(reading: Reading) -> Log:
    """A log of what a reader found."""
    log = object.__new__(Log)
    _take(log, reading)
    return log


def refuse_empty(log: Log) -> None:
    """Refuse a log of which every record was left out, with the reasons."""
    if len(log._reading.frame):
        return
    what = "score" if "score" in log.roles else "verdict"
    reasons = [f"{count} {reason}" for reason, count in log.left_out.items()]
    cause = f"every record was left out ({', '.join(reasons)})" if reasons else "it has no records"
    raise EmptyDataError(
        f"a log needs at least one {what}; {cause}. `evalreg doctor` tells more; read a log that was scored.",
        count=int(log.left_out.sum()),
    )


def together(logs: Mapping[str, Any]) -> Log:
    """Logs of scores, or frames of them, as one, in which the name of each is its model.

    Of a log of several models the names are told apart by that of the log: "before: gpt-x".
    """
    if not logs:
        raise ArgumentError("Logs by name must be at least one; got none.")
    readings: dict[str, Reading] = {}
    measures: dict[str, str] = {}
    roles: dict[str, tuple[str, ...]] = {}
    for name, log in ((str(name), log if isinstance(log, Log) else Log(log)) for name, log in logs.items()):
        if "left" in log.roles or "score" not in log.roles:
            raise ArgumentError(
                f"Logs by name must hold scores of single models; {name!r} holds comparisons, which name their models."
            )
        frame = log.frame
        frame["model"] = [f"{name}: {model}" for model in frame["model"]] if log._several("model") else name
        readings[name] = replace(log._reading, frame=frame)
        roles[name] = tuple(sorted({*log.roles, "model"}))
        for task, words in log._reading.measures.items() if len(frame) else ():
            if measures.setdefault(task, words) != words:
                chosen = passed("`metric`, `filter` or `scorer`", scorer="NAME")
                first, then = (by or "no scorer that is named" for by in (measures[task], words))
                raise ArgumentError(
                    f"Logs by name must hold the same scores; {f'{task!r} was read' if task else 'they were read'} by "
                    f"{first} and, in {name!r}, by {then}. Choose one that all have by {chosen}; where there is none, "
                    "score the logs alike first."
                )
    if len({frozenset({"task", "item", "sample"} & {*each}) for each in roles.values()}) > 1:
        each = "; ".join(f"{name!r} has {listed(fields)}" for name, fields in roles.items())
        raise ArgumentError(f"Logs by name must have the same roles; {each}.")
    return log_of(
        Reading(
            next(iter({reading.format for reading in readings.values()})),
            pd.concat([reading.frame for reading in readings.values()], ignore_index=True),
            tuple(replace(run, model=name) for name, reading in readings.items() for run in reading.runs),
            {r: n for r in REASONS if (n := sum(reading.left_out.get(r, 0) for reading in readings.values()))},
            tuple(dict.fromkeys(note for reading in readings.values() for note in reading.notes)),
            measures=measures,
        )
    )
