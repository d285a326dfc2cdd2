"""The chance that any, or all, of k answers to a question are right, from more answers than that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeAlias, Unpack

import numpy as np
import numpy.typing as npt

from evalreg.checks import FloatArray, listed, option, whole_number
from evalreg.choices import EstimatorOptions, MissingName
from evalreg.covariance.options import clustered_by_items, requested_options
from evalreg.data.clusters import Groups, known_column, names_of, refuse_same, with_roles
from evalreg.data.engine import Query
from evalreg.data.engine_rows import EngineAnswers, read_used, used_answers
from evalreg.data.frame import Table, open_frame, restrict
from evalreg.data.rows import CellRows, Roles, read_cells
from evalreg.errors import ArgumentError, DataError, RowList, ScoreRangeError
from evalreg.estimate import About
from evalreg.estimators.cells import COMPARE_FIRST, estimate_read, refuse_unless_binary, side_by_side, titled
from evalreg.estimators.mean import solve
from evalreg.inference.questions import unequal_notes
from evalreg.results.results import Results, estimator, results_of
from evalreg.scores.score_interval import ICC_MEAN

RequireName: TypeAlias = Literal["any", "all", "same"]
# What the chance is called, with k behind.
CALLED = {"any": "pass@", "all": "pass^", "same": "same@"}
RULE = "`score` must be 0 or 1 for pass@k"


def all_of_k(right: FloatArray, answers: FloatArray, k: int) -> FloatArray:
    """Share of the subsets of k answers in which all are right, C(c, k)/C(n, k), with c `right` of n >= k `answers`.

    The product of (c - j)/(n - j) over j from 0 to k - 1, which cannot overflow.
    """
    share = np.ones(right.shape)
    for j in range(k):
        share *= np.maximum(right - j, 0.0) / (answers - j)
    return share


@estimator
def pass_at_k(
    data: Any,
    score: str = "score",
    *,
    item: str,
    sample: str,
    k: int | Sequence[int],
    require: RequireName = "any",
    by: str | list[str] | None = None,
    groups: Groups = None,
    weights: str | npt.ArrayLike | None = None,
    missing: MissingName = "drop",
    **options: Unpack[EstimatorOptions],
) -> Results:
    """Chance that any (pass@k) or all (pass^k) of k answers to a question are right, averaged over questions.

    Of each question's n answers every subset of k is used: 1 - C(n - c, k)/C(n, k) for "any" and C(c, k)/C(n, k) for
    "all", c of n being right, and for "same" (C(c, k) + C(n - c, k))/C(n, k): the consistency of answers. Each is
    unbiased for each question, and their mean is an ordinary mean over questions.

    Parameters
    ----------
    data : data frame
        pandas, polars, pyarrow, a polars LazyFrame or a DuckDB relation; or a dict of arrays. One row for each answer.
    score : str, default "score"
        Column of scores, 0 or 1.
    item, sample : str
        Columns of the questions, and of the ids of the answers to a question.
    k : int or list of int
        Answers of which any, or all, must be right; every question of every model needs at least k. A list gives the
        curve, all its values in one covariance: `contrast("`pass^1` - `pass^4`")` is what asking for four costs.
    require : {"any", "all", "same"}, optional
        "any", the default, is pass@k; "all" is pass^k; "same" is that all k are right or all wrong.
    by : str or list of str, optional
        Columns of the models; one parameter each, with their joint covariance.
    groups : str, list of str, array, Series or dict, optional
        Clusters, as in `fit`; the questions by default.
    weights : str or array_like, shape (n_rows,), optional
        Sampling weights, the same in all answers to a question.
    subset : str, optional
        Which rows to use, in the language of ``--where``: ``'language == "en" and tokens < 100'``. The summary and
        `dropped` count the others. Arrays of groups and weights are those of all rows.
    missing : {"drop", "raise"}, optional
        What to do with rows where something is missing; dropped rows are counted.
    <cov>
        Covariance; "CR2" by default.
    <ssc>
    <dof>
        Degrees of freedom, as in `mean`.
    <repair>

    Returns
    -------
    Results
        Named by the labels of `by`, or "pass@k", "pass^k" and "same@k" with the number; with several k and `by`
        "model:k". Score intervals as in `mean`, those of each k as it has them alone.

    Raises
    ------
    DataError
        If questions have fewer than k answers; `count` is their number.
    ScoreRangeError
        If a score is neither 0 nor 1.
    ArgumentError, ArgumentTypeError
        If `k` is not a whole number above 0, a list names one twice or none, or an option is unknown.
    MissingColumnError, NonNumericError, NonFiniteError, DuplicateRowsError, AlignmentError, EmptyDataError
        If the data break another rule.
    NotAvailableError
        If the rows live in an engine and are weighted.

    References
    ----------
    Chen et al. (2021), arXiv:2107.03374, eq. 1 (pass@k); Yao et al. (2024), arXiv:2406.12045, section 3 (pass^k);
    Rabanser et al. (2026), Towards a science of AI agent reliability (consistency).

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.sampled(n_questions=200, n_samples=6, seed=1)
    >>> for require in ("any", "all"):
    ...     results = er.pass_at_k(log, item="question", sample="sample", k=2, require=require)
    ...     print(results.params.round(3).to_dict())
    {'pass@2': 0.704}
    {'pass^2': 0.373}
    >>> curve = er.pass_at_k(log, item="question", sample="sample", k=[1, 2, 4], require="all")
    >>> curve.params.round(3).to_dict()
    {'pass^1': 0.538, 'pass^2': 0.373, 'pass^4': 0.233}
    """
    requested = requested_options(options)
    option("require", require, RequireName)
    every = [whole_number("k", size) for size in np.atleast_1d(np.asarray(k, dtype=object))]
    if not every or len(set(every)) < len(every):
        raise ArgumentError(f"`k` must name each number of answers once, and at least one; got {k!r}.")
    table, by_columns = with_roles(open_frame(data), {"score": score}, by=by, item=item, sample=sample)
    for column, argument in ((item, "item"), (sample, "sample")):
        known_column(column, names_of(table), argument)  # None is no column
    refuse_same({"by": by_columns, "item": item, "sample": sample})
    clusters = item if groups is None else groups
    roles = Roles(score, by_columns, item, sample, None, weights, missing)
    read, right, answers, label = _counted(table, roles, clusters)
    estimates, what = [], "all right or all wrong" if require == "same" else f"with {require} right"
    for size in every:
        shares = _shares(right, answers, label, score, size, require)
        rows = replace(read, rows=replace(read.rows, values={"score": shares}))
        name = f"{CALLED[require]}{size}"
        line = f"A row is one {item}: the share of the sets of {size} of its answers ({sample}) {what}."
        about = About(model=titled(name, by_columns), outcome=score, interval="logit", icc=ICC_MEAN, lines=(line,))
        solved = partial(solve, n_by=len(by_columns), strata_weights=None, name=name)
        estimate = estimate_read(rows, roles, solved, about)[0]
        several = tuple(f"{model}:{size}" for model in estimate.names) if by_columns else estimate.names
        estimates.append(replace(estimate, names=several) if len(every) > 1 else estimate)
    axes = read.rows.axes
    if len(every) > 1:
        estimate = side_by_side(estimates)
        about = replace(estimate.about, model=titled(f"{CALLED[require]}k", by_columns), icc=ICC_MEAN)
        estimate = replace(estimate, about=about)
    estimate = replace(estimate, default_groups=[item])
    with clustered_by_items(estimate, item if groups is None else None):
        return results_of(estimate, axes, requested, unequal_notes(estimate, item, axes) if by_columns else ())


def _counted(
    table: Table | Query, roles: Roles, groups: Groups
) -> tuple[CellRows, FloatArray, FloatArray, Callable[[int], str]]:
    """The questions of each model; how many answers to each are right, and how many there are; and its label."""
    if isinstance(table, Query):
        used = used_answers(table, roles, groups)
        if n_other := int(used.sums["other"].sum()):
            text = f"{RULE}; column {roles.score!r} is not in {n_other} of the rows in use. {COMPARE_FIRST}"
            raise ScoreRangeError(text, column=roles.score, rows=RowList((), n_other))
        read = read_used(used, roles, groups)
        lines = read.rows.source.table
        assert isinstance(lines, EngineAnswers)
        keys = [read.rows.used[name] for name in lines.key]
        counts, label = lines.answers, lambda line: ":".join(key.label(int(key.codes[line])) for key in keys)
    else:
        read = read_cells(table, roles, groups)
        source = read.rows.source
        assert source.item is not None
        refuse_unless_binary(restrict(table.floats(roles.score, "score"), source.keep), roles.score, RULE)
        counts, label = source.item.counts, source.item.label
    answers = counts.astype(float)
    return read, np.rint(read.values * answers), answers, label


def _shares(
    right: FloatArray, answers: FloatArray, label: Callable[[int], str], score: str, k: int, require: str
) -> FloatArray:
    """Share of the sets of k answers to each question that have what is required; `label` names the question."""
    few = answers < k
    if few.any():
        first, n_few = [label(int(code)) for code in np.flatnonzero(few)[:3]], int(few.sum())
        raise DataError(
            f"every question needs at least k = {k} answers; {n_few} of {answers.size} "
            f"{'has' if n_few == 1 else 'have'} fewer (the fewest {int(answers.min())}; {listed(first)}). Pass a "
            "smaller `k`, sample those questions again, or leave them out.",
            column=score,
            count=n_few,
        )
    wrong = all_of_k(answers - right, answers, k)
    if require == "any":
        return 1.0 - wrong
    return all_of_k(right, answers, k) + (wrong if require == "same" else 0.0)
