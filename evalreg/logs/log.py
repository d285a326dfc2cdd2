"""A log: tidy rows with their roles, and the questions that one asks of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from evalreg.checks import listed
from evalreg.data.subsets import open_subset
from evalreg.errors import ArgumentError, NotAvailableError, issue
from evalreg.estimators.bradley_terry import bradley_terry
from evalreg.estimators.comparison import Comparison
from evalreg.estimators.difference import compare
from evalreg.estimators.mean import mean
from evalreg.estimators.regression import fit
from evalreg.estimators.win_rate import win_rate
from evalreg.hints import with_hints
from evalreg.logs.doctor import Diagnosis, diagnose, question
from evalreg.logs.fields import naming, with_short_names
from evalreg.logs.log_rows import LogRows, as_pandas, refuse_empty
from evalreg.logs.overlooked import candidates, overlooked
from evalreg.logs.reading import Reading, counted
from evalreg.logs.roles import with_roles
from evalreg.noise.noise import Noise, noise
from evalreg.planning.facet_components import components
from evalreg.planning.facet_result import FacetComponents
from evalreg.results.results import Results

# What is wrong with a keyword is said of the function that it was for.
_mean, _compare, _fit = with_hints(mean), with_hints(compare), with_hints(fit)
_win_rate, _bradley_terry = with_hints(win_rate), with_hints(bradley_terry)


class Log(LogRows):
    """Scores or verdicts with their roles, so that no question asked of them needs the names of columns.

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
        rows = as_pandas(frame)
        asked = {"model": model, "task": task, "item": item, "sample": sample, "score": score, "left": left}
        asked |= {"right": right, "winner": winner, "prompt": prompt, "judge": judge, "order": order}
        self._take(Reading("frame", with_roles(rows, {role: name for role, name in asked.items() if name is not None})))

    def mean(self, *, by: str | list[str] | None = None, groups: Any = None, **options: Any) -> Results:
        """Mean scores: of each model where there are several, of each task and of each prompt.

        Repeated answers to a question are averaged first. Questions of several tasks are told apart by task and item.

        Parameters
        ----------
        by : str or list of str, optional
            Columns of what is estimated; by default model, task and prompt, each where there are several.
        groups : optional
            As in `evalreg.mean`; without it questions are the clusters, and an `IndependenceWarning` names the field
            that groups questions which are alike, if there is one.
        **options
            Further arguments of `evalreg.mean`.

        Returns
        -------
        Results
            One mean for each value of `by`.

        Raises
        ------
        NotAvailableError
            If the log holds comparisons.
        ArgumentError
            If there are several prompts and `by` does not tell them apart.
        """
        self._needs("score", "mean")
        kept = self._kept(options)
        several = [role for role in ("model", "task", "prompt") if kept._several(role)]
        separated = several if by is None else [by] if isinstance(by, str) else by
        kept._refuse_averaging("prompt", separated, f"by={[*separated, 'prompt']}")
        kept._one_metric(*separated)
        asked = kept._questions() | options
        with naming(self._reading.frame.columns):
            results = _mean(self._rows(), by=(several or None) if by is None else by, groups=groups, **asked)
        return kept._with_overlooked(results) if groups is None and "strata" not in options else results

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
        """
        for role in ("score", "model", "item"):
            self._needs(role, "compare")
        separated, kept = [options.get("model", "model")], self._kept(options)
        kept._refuse_averaging("prompt", separated, 'model="prompt" to compare the prompts of one model')
        kept._refuse_averaging("model", separated, 'model="model" to compare the models with one prompt')
        kept._one_metric()
        with naming(self._reading.frame.columns):
            found = _compare(self._rows(), groups=groups, **(kept._questions() | options))
        if groups is not None or "strata" in options:
            return found
        return replace(found, results=kept._with_overlooked(found.results))

    def noise(self, *, groups: Any = None, **options: Any) -> Noise:
        """How much of every error bar is the sampling of answers, and how much that of questions.

        Parameters
        ----------
        groups : str or list of str, optional
            Clusters of the questions, as in `evalreg.noise`; without it questions are the clusters, as in `mean`.
        **options
            Further arguments of `evalreg.noise`.

        Returns
        -------
        Noise
            A row for each model, and for each pair of models.

        Raises
        ------
        NotAvailableError
            If the log has no scores or no items.
        ArgumentError
            If the models answered several prompts.
        """
        for role in ("score", "item"):
            self._needs(role, "noise")
        kept = self._kept(options)
        kept._refuse_averaging("prompt", [options.get("model", "model")], 'model="prompt" for prompts of one model')
        kept._one_metric()
        asked = {"model": "model" if "model" in self.roles else None} | kept._questions() | options
        with naming(self._reading.frame.columns):
            found = noise(self._rows(), groups=groups, **asked)
        return found if groups is not None else replace(found, results=kept._with_overlooked(found.results))

    def components(self, *, facets: str, **options: Any) -> FacetComponents:
        """Variance components of the scores by their facets.

        Parameters
        ----------
        facets : str
            Such as "model x item" or "item x judge x template", as in `evalreg.components`.
        **options
            Further arguments of `evalreg.components`.

        Returns
        -------
        FacetComponents
            A row for each facet and each interaction.

        Raises
        ------
        NotAvailableError
            If the log has no scores.
        ArgumentError
            If the log has several models or prompts, and they are not a facet.
        """
        self._needs("score", "components")
        named = re.findall(r"[^\s:*+]+", str(facets))
        for role in ("model", "prompt"):
            self._refuse_averaging(role, named, f'facets="{role} x ..." to make them a facet')
        self._one_metric(*named)
        with naming(self._reading.frame.columns):
            return components(self._rows(), facets=facets, **options)

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
        refuse_empty(self)
        self._kept(options)._one_metric(formula)
        with naming(self._reading.frame.columns):
            return _fit(formula, self._rows(), groups=groups, **options)

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
            If the log holds no comparisons.
        """
        with naming(self._reading.frame.columns):
            return _win_rate(self._rows(), **self._sides("win_rate", groups, options))

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
            If the log holds no comparisons.
        """
        with naming(self._reading.frame.columns):
            return _bradley_terry(self._rows(), **self._sides("bradley_terry", groups, options))

    def doctor(self) -> Diagnosis:
        """What the log holds, what may be wrong with it, and what to ask of it next.

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
        return diagnose(self)

    def _kept(self, options: Mapping[str, Any]) -> Log:
        """The log with the rows that `subset` keeps, where it is among the options."""
        subset = options.get("subset")
        if subset is None:
            return self
        with naming(self._reading.frame.columns):
            chosen = open_subset(self._rows(), subset).chosen
        assert chosen is not None
        return kept_rows(self, self._reading.frame[chosen.keep])

    def _rows(self) -> pd.DataFrame:
        """The rows, where a field goes by its last word too."""
        return with_short_names(self._reading.frame)

    def _refuse_averaging(self, role: str, separated: Sequence[str], advice: str) -> None:
        """Refuse to average over prompts, or over models, unasked."""
        if self._several(role) and not any(self._is_role(name, role) for name in separated):
            counts = self._reading.frame[role].value_counts(sort=False)
            several = ", ".join(f"{name!r} ({counted(count, 'score')})" for name, count in counts.items())
            one = "read one of them (filter=... of er.read_log)" if role == "prompt" else "keep the rows of one"
            raise ArgumentError(f"The log has {len(counts)} {role}s: {several}. Pass {advice}, or {one}.")

    def _with_overlooked(self, results: Results) -> Results:
        """The results with a warning of questions that are alike and were taken to be independent."""
        notes = overlooked(results, candidates(self._reading.frame, question(self))) if "item" in self.roles else ()
        issue(notes)
        return replace(results, notes=(*results.notes, *notes)) if notes else results

    def _needs(self, role: str, verb: str) -> None:
        if role not in self.roles or (role == "score" and "left" in self.roles):
            offered = "win_rate or bradley_terry" if "left" in self.roles else "mean or fit"
            raise NotAvailableError(
                f"`{verb}` needs the role {role!r}, and this log has {listed(self.roles)}. Use {offered}, or make "
                f"er.Log(frame, {role}=...) with its column."
            )
        refuse_empty(self)

    def _one_metric(self, *separated: str) -> None:
        """Refuse to average over scores by several metrics, unless tasks or metrics are told apart."""
        rows = self._reading.frame
        if self.format == "frame" or "metric" not in rows or rows["metric"].nunique() < 2:
            return
        if not any(name in text for name in ("task", "metric") for text in separated):
            tasks = dict(rows.groupby("metric")["task"].unique()) if "task" in rows else {}
            counts = rows["metric"].value_counts(sort=False)
            listing = "; ".join(
                f"{metric}{f' of {listed(tasks[metric])}' if tasks else ''} ({counted(int(count), 'score')})"
                for metric, count in counts.items()
            )
            advice = 'Read the files of one, or use by="task".' if tasks else 'Keep one, or use by="metric".'
            raise NotAvailableError(f"scores by several metrics are not averaged: {listing}. {advice}", column="metric")

    def _questions(self) -> dict[str, Any]:
        """Item and sample: questions of several tasks are told apart, and repeats are named where there are some."""
        item = "task:item" if self._several("task") else "item"
        found = {"item": item} if "item" in self.roles else {}
        return found | ({"sample": "sample"} if self._several("sample") else {})

    def _sides(self, verb: str, groups: Any, options: dict[str, Any]) -> dict[str, Any]:
        """Arguments of what compares models in pairs."""
        for role in ("left", "right"):
            self._needs(role, verb)
        kept = self._kept(options)
        axes = [role for role in ("prompt", "judge") if kept._several(role)]
        outcome = {"winner": "winner"} if "winner" in self.roles else {"score": "score"}
        asked = {"left": "left", "right": "right", "groups": groups if groups is not None else " + ".join(axes) or None}
        key = {"key": self.key} if self.key else {}
        return asked | outcome | key | options


def log_of(reading: Reading) -> Log:
    """A log of what a reader found."""
    log = object.__new__(Log)
    log._take(reading)
    return log


def kept_rows(log: Log, frame: pd.DataFrame) -> Log:
    """A log with other rows of the same columns, or with more columns."""
    return log_of(replace(log._reading, frame=frame))
