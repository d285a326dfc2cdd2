"""Logs summed where they lie, and their sums added up: nightly logs, and logs that may not leave a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Literal

import numpy as np
import pandas as pd

from evalreg.choices import MissingName
from evalreg.data.clusters import refuse_same, with_roles
from evalreg.data.engine import Measure, changed_rows, floats_of
from evalreg.data.engine_pairs import summarised_pairs
from evalreg.data.engine_rows import read_in_engine, refuse_far_weights
from evalreg.data.frame import as_query, open_frame
from evalreg.data.pairs import PairRoles, as_names
from evalreg.data.rows import Roles
from evalreg.data.sums import (
    HIGH,
    LOW,
    RATIO_COLUMNS,
    ROWS,
    SQUARES,
    TOTAL,
    WEIGHTED_RATIO_COLUMNS,
    SummedLog,
    grouped_lines,
    merge,
    summed_roles,
    write_sums,
)
from evalreg.errors import ArgumentError, ArgumentTypeError, NotAvailableError
from evalreg.estimators.ratio import centred, ratio_measures, read_ratios
from evalreg.report.documents import versions
from evalreg.scores.engine import Measured, engine_scores, of_cell

# Of lines while they are made: what values are taken about, and residuals of rows with a denominator.
CENTRE, POSITIVE = "__centre", "__positive"


def summarise(
    data: Any,
    score: str | None = None,
    *,
    by: str | list[str] | None = None,
    item: str | None = None,
    strata: str | None = None,
    left: str | None = None,
    right: str | None = None,
    winner: str | None = None,
    labels: Mapping[Any, str | None] | None = None,
    key: str | list[str] | None = None,
    numerator: str | None = None,
    denominator: str | None = None,
    weights: str | None = None,
    groups: str | list[str],
    missing: MissingName = "drop",
    path: str | PathLike[str] | None = None,
) -> SummedLog:
    """Sums of a log by cluster and model, or pair of models, which add up over shards and contain no row.

    Parameters
    ----------
    data : data frame
        pandas, polars, pyarrow, a polars LazyFrame or a DuckDB relation; or a dict of arrays. One row for each answer,
        or with `left` and `right` one for each comparison.
    score : str, optional
        Column of scores, "score" by default; booleans count as 0 and 1. Of comparisons the left model's score, in
        [0, 1]: this or `winner`.
    by : str or list of str, optional
        Columns of the models. Of comparisons one column, of strata.
    item : str, optional
        Column of the questions. Each (by, item) may have one row then. The ids themselves stay out of the sums unless
        `groups` names them.
    strata : str, optional
        Column of a fixed list of subjects.
    left, right : str, optional
        Columns of the two models of a comparison.
    winner : str, optional
        Column of verdicts: "left", "right", "tie" or a model's name.
    labels : mapping, optional
        What other verdicts mean, as in `win_rate`.
    key : str or list of str, optional
        Columns that, with the two models, identify a comparison, which may then not be repeated.
    numerator, denominator : str, optional
        Of a ratio (`ratio`): columns of numbers, in the place of `score`.
    weights : str, optional
        Column of sampling weights, of comparisons and of ratios.
    groups : str or list of str
        Clusters, as in `mean`; several may be crossed later, all that are named here.
    missing : {"drop", "raise"}, optional
        What to do with rows whose score or label is missing; dropped rows are counted.
    path : str or path, optional
        A file of Parquet to write the sums to, for `merged`.

    Returns
    -------
    SummedLog
        A line for each joint value of the groups and `by`; of comparisons of the groups, both models and `by`.

    Raises
    ------
    ArgumentError
        If the file cannot be written, or a role of comparisons or of ratios stands beside one of scores.
    ArgumentTypeError
        If `groups` does not name columns.
    MissingColumnError, NonNumericError, NonFiniteError, DuplicateRowsError, EmptyDataError
        If the data break another rule.
    UnknownLabelError, SelfComparisonError, ScoreRangeError
        If comparisons break a rule of `win_rate`, or a denominator is negative.
    NotAvailableError
        If a file is asked for and pyarrow is not installed.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.paired(n_passages=40, questions_per_passage=5, seed=1)
    >>> sums = er.summarise(log, by="model", item="question", groups="passage")
    >>> er.mean(sums, by="model", groups="passage").n_clusters
    {'passage': 40}
    >>> duels = er.datasets.judge_log(n_models=4, n_prompts=60, seed=1)
    >>> sums = er.summarise(duels, left="left", right="right", winner="winner", groups="prompt + judge")
    >>> board = er.win_rate(sums, left="left", right="right", winner="winner", groups="prompt")
    >>> board.ranks()["rank"].to_dict()
    {'model-01': 1, 'model-02': 2, 'model-03': 3, 'model-04': 4}
    >>> log["words"] = range(1, len(log) + 1)
    >>> sums = er.summarise(log, numerator="score", denominator="words", by="model", groups="passage")
    >>> er.ratio(sums, "score", "words", by="model", groups="passage").n_clusters
    {'passage': 40}
    """
    named: Any = groups
    if not isinstance(named, str | list | tuple) or not named:
        raise ArgumentTypeError(
            '`groups` must name the columns of the clusters, such as "prompt + judge", all that may be crossed later, '
            f"so that the sums say what they are by; got {named if named is None else type(named).__name__}."
        )
    if weights is not None and not isinstance(weights, str):
        raise NotAvailableError("`weights` must name a column here, so that its sums say what they are of.")
    of_pairs = {"left": left, "right": right, "winner": winner, "labels": labels, "key": key}
    if numerator is not None or denominator is not None:
        pair = _both("a ratio needs", numerator=numerator, denominator=denominator)
        why = "does not go with `numerator` and `denominator`: leave these out, or it"
        _refuse({"score": score, "strata": strata, **of_pairs}, why)
        refuse_same({"numerator": numerator, "denominator": denominator})
        sums = _of_ratios(data, pair, Roles(pair[0], as_names(by), item, None, None, weights, missing), groups)
    elif left is not None or right is not None:
        sides = _both("comparisons need", left=left, right=right)
        why = "goes with scores of single models: leave out `left` and `right`, or it"
        _refuse({"item": item, "strata": strata}, why)
        if len(as_names(by)) > 1:
            raise ArgumentError(
                f"`by` of comparisons is one column of strata; got {by!r}. Join them in one column first."
            )
        outcome = None if score is None and winner is not None else score or "score"
        stratum = (as_names(by) or (None,))[0]
        roles = PairRoles(*sides, outcome, winner, labels, as_names(key), stratum, weights, missing)
        sums = summarised_pairs(data, roles, groups)
    else:
        why = "goes with comparisons: name their two models in `left` and `right`"
        _refuse(of_pairs, why)
        _refuse({"weights": weights}, f"{why}; or with ratios: name `numerator` and `denominator`")
        sums = _of_scores(data, Roles(score or "score", as_names(by), item, None, strata, None, missing), groups)
    if path is not None:
        write_sums(sums, path, versions())
    return sums


def _both(who: str, **names: str | None) -> tuple[str, str]:
    """Two columns of which neither may be missing."""
    first, second = names.values()
    if first is None or second is None:
        got = " and ".join(f"{name}={value!r}" for name, value in names.items())
        raise ArgumentError(f"{who} both {' and '.join(f'`{name}`' for name in names)}; got {got}.")
    return first, second


def _refuse(strangers: dict[str, Any], why: str) -> None:
    for name, value in strangers.items():
        if value is not None:
            raise ArgumentError(f"`{name}` {why}.")


def _of_scores(data: Any, roles: Roles, groups: str | list[str]) -> SummedLog:
    """Sums of scores of single models: two queries, the second about centres that lose no digits of squares."""
    score = {"score": roles.score}
    table, by = with_roles(open_frame(data), score, by=roles.by or None, item=roles.item, strata=roles.strata)
    refuse_same({"by": by, "item": roles.item})
    query = as_query(table, score)
    roles = replace(roles, by=by)
    summed = summed_roles("scores", roles, groups, query)
    read = read_in_engine(query, roles, groups)
    x = floats_of(roles.score)
    scores = engine_scores(Measured(read.table, x), read.cells, read.sums, roles.score)
    centre = of_cell(scores.of, scores.centre)
    measures: dict[str, Measure] = {TOTAL: (x, "sum"), SQUARES: ((x - centre) * (x - centre), "sum"), LOW: (x, "min")}
    measures |= {HIGH: (x, "max"), CENTRE: (centre, "max")}
    lines = grouped_lines(read.table, summed, measures)
    _refuse_changed(lines, read.sums)
    within = lines[SQUARES] - lines[ROWS] * (lines[TOTAL] / lines[ROWS] - lines[CENTRE]) ** 2
    lines[SQUARES] = np.where(lines[LOW] == lines[HIGH], 0.0, np.maximum(within, 0.0))
    return SummedLog(lines.drop(columns=CENTRE), summed, read.dropped)


def _refuse_changed(lines: pd.DataFrame, sums: Mapping[str, Any]) -> None:
    """Raise if an engine has other rows than when their cells were summed."""
    n, rows = int(sums["n"].sum()), int(lines[ROWS].sum())
    total = TOTAL if TOTAL in lines else RATIO_COLUMNS["t"]
    if n != rows or not np.isclose(lines[total].sum(), sums["t"].sum(), rtol=1e-9, atol=1e-9 * n):
        raise changed_rows(f"its {n} rows are now {rows}, or their scores differ")


def _of_ratios(data: Any, columns: tuple[str, str], roles: Roles, groups: str | list[str]) -> SummedLog:
    """Sums of numerators and denominators, with squares about the ratio of each line."""
    values = dict(zip(("numerator", "denominator"), columns, strict=True))
    opened = as_query(open_frame(data), {**values, "weights": roles.weights})
    table, by = with_roles(opened, values, by=roles.by or None, item=roles.item)
    roles = replace(roles, by=by)
    summed = summed_roles("ratios", roles, groups, table, score=None, **values)
    read, rows = read_ratios(table, columns, roles, groups)
    refuse_far_weights(table, roles.weights)
    centre, _, _ = centred(rows, read.cells, read.sums)
    n, d = map(floats_of, columns)
    measures = ratio_measures(n, d, rows.weight) | {CENTRE: (of_cell(read.cells, centre), "max")}
    moments = rows.moments(read.cells, centre, 1) | rows.spread(read.cells, centre)
    if rows.weight is not None:
        squares = rows.moments(read.cells, centre, 2)
        moments |= {"w": rows.weight} | rows.sizes() | {f"w{name}": square for name, square in squares.items()}
    measures |= {name: (moment, "sum") for name, moment in moments.items()}
    names = RATIO_COLUMNS | WEIGHTED_RATIO_COLUMNS | {"e": POSITIVE, CENTRE: CENTRE}
    of_lines = {names[name]: measure for name, measure in measures.items() if name in names}
    lines = _about_ratios(grouped_lines(rows.engine, summed, of_lines))
    _refuse_changed(lines, read.sums)
    return SummedLog(lines[[*summed.labels, *summed.sums]], summed, read.dropped)


def _about_ratios(lines: pd.DataFrame) -> pd.DataFrame:
    """Lines with squares about their own ratio: e + s d stands for e, s being the centre less it."""
    columns = RATIO_COLUMNS | WEIGHTED_RATIO_COLUMNS
    top, bottom, each = (lines[columns[name]].to_numpy(dtype=float) for name in ("t", "b", "each"))
    s = lines[CENTRE].to_numpy() - np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)
    moments = {columns["each"]: np.maximum(each + 2 * s * lines[POSITIVE] + s**2 * bottom, 0.0)}
    for names in (("ee", "ed", "dd"), ("wee", "wed", "wdd")):
        ee, ed, dd = (columns[name] for name in names)
        if ee in lines:
            moments[ee] = np.maximum(lines[ee] + 2 * s * lines[ed] + s**2 * lines[dd], 0.0)
            moments[ed] = lines[ed] + s * lines[dd]
    ends = {LOW: lines[LOW].astype(float).fillna(np.inf), HIGH: lines[HIGH].astype(float).fillna(-np.inf)}
    return lines.assign(**moments, **ends)


def merged(
    paths: Sequence[str | PathLike[str]], *, cells: Literal["same", "any"] = "same", n_shards: int | None = None
) -> SummedLog:
    """Files of sums added up; clusters and models may be split over them.

    Parameters
    ----------
    paths : list of str or path
        Files that `summarise` wrote.
    cells : {"same", "any"}, optional
        Whether every shard must have the same models and strata; of comparisons the same pairs of models.
    n_shards : int, optional
        How many shards there are: a missing one is refused.

    Returns
    -------
    SummedLog
        The sums of all rows; `mean` and `compare` take it like a data frame, or `win_rate` and `bradley_terry`, or
        `ratio`.

    Raises
    ------
    LogFormatError
        If a file was cut off, or has no sums.
    ArgumentError, ArgumentTypeError
        If shards have other roles or kinds of labels.
    DataError
        If shards have other models, or one is missing.
    DuplicateRowsError
        If a shard is there twice.

    Examples
    --------
    >>> import tempfile, evalreg as er
    >>> log = er.datasets.paired(n_passages=40, questions_per_passage=5, seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = [f"{folder}/monday.parquet", f"{folder}/tuesday.parquet"]
    ...     for path, rows in zip(files, (log[:150], log[150:])):
    ...         sums = er.summarise(rows, by="model", item="question", groups="passage", path=path)
    ...     whole = er.merged(files, cells="any", n_shards=2)
    >>> whole.n_rows
    400
    """
    if cells not in ("same", "any"):
        raise ArgumentError(f'`cells` must be "same" or "any"; got {cells!r}.')
    return merge(paths, cells, n_shards)
