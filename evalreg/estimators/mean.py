"""Means of scores, of shares of k answers, over prompt templates, and of several metrics against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias, Unpack, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import chdtri

from evalreg.checks import (
    FloatArray,
    IntArray,
    by_stratum,
    check_target,
    checked_number,
    fraction,
    listed,
    option,
    passed,
    whole_number,
)
from evalreg.choices import EstimatorOptions, MissingName, QuestionsName, TargetName
from evalreg.covariance.options import CovOptions, clustered_by_items, requested_options
from evalreg.data.clusters import Groups, known_column, known_columns, names_of, refuse_same, with_roles
from evalreg.data.engine import Query
from evalreg.data.engine_rows import EngineAnswers, read_used, used_answers
from evalreg.data.frame import Table, open_frame, restrict
from evalreg.data.questions import shared_rows
from evalreg.data.rows import CellRows, Roles, joint_names, read_cells
from evalreg.data.sums import Lines, SummedLog, lines_of, refuse_unsummed
from evalreg.errors import ArgumentError, DataError, RowList, ScoreRangeError
from evalreg.estimate import About, Estimate
from evalreg.estimators import targets
from evalreg.estimators.cells import (
    COMPARE_FIRST,
    Split,
    estimate_cells,
    estimate_read,
    from_row_influence,
    independence_note,
    means_of_cells,
    refuse_unless_binary,
    rows_by_item,
    side_by_side,
    titled,
)
from evalreg.inference.intervals import Behind
from evalreg.inference.questions import scale_notes, unequal_notes, unequal_rows
from evalreg.inference.simultaneous import adjust_pvalues
from evalreg.results.results import Results, estimator, results_of
from evalreg.scores.base import Cells
from evalreg.scores.score_interval import ICC_MEAN, checked_icc, refuse_idle_icc


def solve(
    keys: list[tuple[str, ...]],
    cells: Cells,
    *,
    n_by: int,
    strata_weights: targets.Shares | None,
    name: str = "mean",
    argument: str = "strata_weights",
) -> tuple[tuple[str, ...], FloatArray]:
    """Means by model as a linear function of the means of the cells.

    `keys` holds the labels of each cell: those of `by`, then the stratum. `strata_weights` is None without strata, and
    was given as `argument`; `name` is that of the parameter without `by`.
    """
    models = list(dict.fromkeys(key[:n_by] for key in keys))
    names = joint_names(models) if n_by else (name,)
    number = {model: i for i, model in enumerate(models)}
    row = np.array([number[key[:n_by]] for key in keys])
    member = np.zeros((len(names), len(keys)))
    member[row, np.arange(len(keys))] = 1.0
    if strata_weights is None:
        return names, member
    if strata_weights in ("micro", "as_sampled"):
        weight = cells.weight
    else:
        weight = _weights_by_stratum(names, row, [key[-1] for key in keys], strata_weights, argument)
    member = member * weight
    return names, member / member.sum(axis=1, keepdims=True)


def _weights_by_stratum(
    names: Sequence[str], row: IntArray, stratum: list[str], shares: targets.Shares, argument: str
) -> FloatArray:
    """Weight of each cell's stratum; every model needs every stratum."""
    strata = sorted(set(stratum))
    weights = dict.fromkeys(strata, 1.0)
    if isinstance(shares, Mapping):
        what = "weight" if argument == "strata_weights" else "size"
        weights = dict(zip(strata, by_stratum(argument, shares, strata, what), strict=True))
    weights = {name: checked_number(argument, w, "hold positive numbers", above=0.0) for name, w in weights.items()}
    for i, name in enumerate(names):
        absent = set(strata) - {stratum[k] for k in np.flatnonzero(row == i)}
        if absent:
            raise DataError(
                f"each mean needs rows in every stratum; {name!r} has none in {listed(sorted(absent))}. "
                f"Use {passed(strata_weights='micro')}, or leave those strata out.",
                count=len(absent),
            )
    return np.array([weights[name] for name in stratum])


@estimator
def mean(
    data: Any,
    score: str = "score",
    *,
    by: str | list[str] | None = None,
    item: str | None = None,
    sample: str | None = None,
    groups: Groups = None,
    over: str | None = None,
    q: Sequence[float] = (0.05, 0.5, 0.95),
    strata: str | None = None,
    strata_weights: targets.Shares = "micro",
    weights: str | npt.ArrayLike | None = None,
    questions: QuestionsName = "own",
    target: TargetName = "questions like these",
    n_population: targets.PopulationSize | None = None,
    icc: float | None = ICC_MEAN,
    missing: MissingName = "drop",
    **options: Unpack[EstimatorOptions],
) -> Results:
    """Means of scores with error bars valid when rows within a cluster are dependent.

    With `by`, all means come at once with their joint covariance, so that differences between models that answered
    the same questions are paired. Where scores lie in [0, 1], such differences (`contrast`, `pairwise`, and tests of
    them) have Tango's score interval, as in `compare` with its default `icc=0.5`.

    Parameters
    ----------
    data : data frame
        pandas, polars, pyarrow, a polars LazyFrame or a DuckDB relation; a dict of arrays; or sums of a
        log (`summarise`, `merged`).
    score : str, default "score"
        Column of scores; booleans count as 0 and 1.
    by : str or list of str, optional
        Columns of the models; one mean each, named by the labels.
    item : str, optional
        Column of the questions. Each (by, item) may have one row, unless `sample` is given.
    sample : str, optional
        Column of repeated answers, which are averaged within their item first.
    groups : str, list of str, array, Series or dict, optional
        Clusters, as in `fit`. By default the items if `item` is given, and independent rows otherwise.
    over : str, optional
        Column of the prompt templates that all items were put to: the parameters are then the "mean" over templates,
        "sd", their spread without the noise of the items, and the quantiles `q` of templates shrunk to that spread.
        `groups` are then items crossed with templates by default: both are drawn. Takes no other option of rows than
        `item` and `missing`.
    q : sequence of float, default (0.05, 0.5, 0.95)
        With `over`: which quantiles, each in (0, 1); named "q0.05" and so on.
    strata : str, optional
        Column of a fixed list of subjects: only questions within subjects are sampled.
    strata_weights : {"micro", "macro", "as_sampled"} or mapping, optional
        Weights of the strata: their rows, equal, or given, all taken as known shares (post-stratification); or
        "as_sampled", their rows as the draw of clusters made them, shares that are estimated (`svymean` of a stratified
        design). The two differ where clusters are of unequal size.
    weights : str or array_like, shape (n_rows,), optional
        Sampling weights.
    questions : {"own", "shared"}, optional
        With `by` and `item`: "own", the default, takes each model's mean over the questions that it answered, and warns
        where they are not the same; "shared" keeps the questions that all models answered.
    target : {"questions like these", "the full benchmark"}, optional
        Which questions the means are about: "questions like these", the default, of which there is no end; or "the full
        benchmark" that these were drawn from at random without replacement, whose size is `n_population`. Its answers
        are taken as they came; with `sample` they are drawn (two or more to each question). These questions alone, of
        which only the answers vary, are in means of single answers with ``strata=item, strata_weights="macro"``.
    n_population : int or dict, optional
        For "the full benchmark": how many questions it has, where they were drawn one by one; or {"passage": 896}, how
        many clusters, where they were drawn whole. All models have the same ones. Variances are multiplied by 1 - n/N,
        with `sample` without the part that the answers make (Cochran 1977, eq. 2.8 and 10.15). With `strata` the
        questions of each, {"algebra": 400, "law": 250}, which are then its weights, or one number beside
        `strata_weights`; or the clusters of each, {"passage": {"algebra": 90, "law": 40}}, one drawn cluster standing
        for 90/G or 40/G (survey's `svymean` with `fpc`), unless `strata_weights` are the questions of each.
    icc : float, optional
        Correlation, within a cluster, that is granted to failures that were not seen, from 0 to 1; 0.2 by default. It
        matters for scores in [0, 1] near an end, in clusters that show few failures. None takes t intervals by the
        standard error alone; another number is refused where there is no score interval.
    subset : str, optional
        Which rows to use, in the language of ``--where``: ``'language == "en" and tokens < 100'``. The summary and
        `dropped` count the others. Arrays of groups and weights are those of all rows.
    missing : {"drop", "raise"}, optional
        What to do with rows whose score, label or cluster id is missing; dropped rows are counted.
    <cov>
        Covariance; "CR2" by default with groups, "naive" without.
    <ssc>
    <dof>
        Degrees of freedom; Satterthwaite under CR2, min over dimensions of G - 1 otherwise, n_m - 1 without groups.
    <repair>

    Returns
    -------
    Results
        Parameters are named by the labels of `by`, sorted as strings, or "mean". Means of scores in [0, 1], with
        `weights` or over `strata` too, have Wilson's score interval with a design effect.

    Raises
    ------
    MissingColumnError, NonNumericError, NonFiniteError, DuplicateRowsError, TooFewClustersError, ConstantScoreError
        If the data break a rule; the message says which rows.
    ArgumentError
        If an option is unknown.

    References
    ----------
    Miller (2024), arXiv:2411.00640, eq. 1 and 4; Bell and McCaffrey (2002), Survey Methodology 28; Wilson (1927), JASA
    22, 209-212, with the design effect of Rao and Scott (1992), Biometrics 48, 577-585; for a finite
    benchmark Cochran (1977), Sampling Techniques, eq. 2.8, 5.6 (strata), 9.10 (clusters), 10.15 (answers) and section
    6.12 (clusters within strata); for the spread over templates Searle, Casella and McCulloch (1992), Variance
    Components, section 4.3, and Polo et al. (2024), arXiv:2405.17202.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
    >>> results = er.mean(log, groups="passage")
    >>> results.n_clusters
    {'passage': 40}
    """
    requested = requested_options(options)
    icc = checked_icc(icc, "scores")
    if over is not None:
        refused = {"by": by, "sample": sample, "strata": strata, "weights": weights, "n_population": n_population}
        _refuse_beside_over(**refused, questions=questions, target=target, icc=icc)
        return mean_over(data, score, over, item, q, groups, missing, requested)
    if not np.array_equal(q, (0.05, 0.5, 0.95)):
        raise ArgumentError("`q` needs `over`, the column of the templates; `er.quantile` is of the scores of rows.")
    option("questions", questions, QuestionsName)
    option("target", target, TargetName)
    shared = "shared" if questions == "shared" else None
    check_target(target, n_population, None if weights is None else _UNLIKE_CHANCES)
    table = _opened(data, score, item, {"sample": sample, "weights": weights, "questions": shared})
    shares = targets.checked_shares(strata, strata_weights)
    if sample is not None and item is None:
        raise ArgumentError("`sample` names repeated answers to an item; name the column of the items in `item`.")
    numbers = {} if isinstance(table, Lines) else {"score": score}
    table, by_columns = with_roles(table, numbers, by=by, item=item, sample=sample, strata=strata)
    refuse_same({"by": by_columns, "item": item, "sample": sample, "strata": strata})
    if shared and not (by_columns and item is not None):
        raise ArgumentError(
            '`questions="shared"` keeps the questions that all models answered: name the models in `by` and the '
            "questions in `item`."
        )
    items = item if groups is None else None
    groups = items if groups is None else groups
    roles = Roles(score, by_columns, item, sample, strata, weights, missing, questions=questions)
    whole = targets.counts_clusters(n_population, groups, strata)
    # Of a benchmark whose strata have known sizes the score is over all its questions.
    sized = isinstance(n_population, Mapping) and shares == "micro" and not whole
    if sized:
        shares = cast(Mapping[str, float], n_population)
    named = "n_population" if sized else "strata_weights"
    about = About(
        model=titled("Mean", by_columns),
        outcome=score,
        interval="wald" if icc is None else "logit",
        icc=icc,
        lines=_lines(strata, "benchmark" if sized else strata_weights, whole, sample, item),
    )
    estimate, axes = estimate_cells(
        table, roles, groups, partial(solve, n_by=len(by_columns), strata_weights=shares, argument=named), about
    )
    noise = None if n_population is None or sample is None else targets.noise_of_means(estimate.scores, score)
    if shares == "as_sampled" and not whole:
        estimate = targets.estimated_shares(estimate)
    if n_population is not None:
        drawn: dict[str, Any] = {"item": item, "sample": sample, "whole": whole, "shares": strata_weights}
        estimate = targets.of_benchmark(estimate, axes, n_population, **drawn, noise=noise)
    notes = scale_notes(estimate, axes or ())
    if by_columns:
        estimate = replace(estimate, about=replace(estimate.about, n_models=estimate.n_params))
        alone = independence_note(by_columns, groups, "means", "item")
        notes = (*alone, *notes, *unequal_notes(estimate, item, axes))
    with clustered_by_items(estimate, items):
        results = results_of(estimate, axes, requested, notes)
    refuse_idle_icc(icc, ICC_MEAN, results.cov.single, "means")
    return results


def _refuse_beside_over(**options: object) -> None:
    """Raise where an option has no place beside `over`."""
    usual = {"questions": "own", "target": "questions like these", "icc": ICC_MEAN}
    for name, value in options.items():
        if not np.array_equal(np.asarray(value), np.asarray(usual.get(name))):
            raise ArgumentError(f"`over` gives the spread of one score over templates and takes no `{name}`.")


def _opened(data: Any, score: str, item: str | None, needs_rows: Mapping[str, Any]) -> Table | Query:
    """Rows, or sums of them, which must be of the score and have the items."""
    if not isinstance(data, SummedLog):
        return open_frame(data)
    lines = lines_of(data, "scores", score, needs_rows)
    refuse_unsummed(data, item)
    return lines


_UNLIKE_CHANCES = (
    "`weights`: they say that questions were drawn with unlike chances, and then 1 - n/N is not the share by which "
    "variances fall. If the chances differ between subjects, name these in `strata` and give the sizes as "
    'n_population={"algebra": 400, "law": 250}.'
)
_SHARES = {
    "micro": "their shares of the rows are taken as known",
    "macro": "they count alike",
    "as_sampled": "their shares are estimated from the clusters drawn",
    "benchmark": "each counts by its questions in the benchmark",
}


def _lines(
    strata: str | None, shares: str | Mapping[str, float], whole: bool, sample: str | None, item: str | None
) -> tuple[str, ...]:
    """What a summary says of strata and of answers."""
    lines = []
    if strata is not None:
        how = _SHARES[shares] if isinstance(shares, str) else "their shares are given"
        if shares == "micro":
            how += f" ({passed(strata_weights='as_sampled')} estimates them)"
        if whole and shares in ("micro", "as_sampled"):
            how = "each counts by its clusters in the benchmark, with the questions that those drawn have"
        lines.append(
            f"Strata: the values of {strata!r} are a fixed list, and {how}; only {'clusters' if whole else 'rows'} "
            f"within them are sampled. Read as a draw of {strata}, cluster by it instead."
        )
    if sample is not None:
        lines.append(f"Answers ({sample}) were averaged within each {item} first; a row is one {item}.")
    return tuple(lines)


@dataclass(frozen=True, eq=False)
class Spread(Behind):
    """Values theta + k sd of the means of templates, and sd, the root of the variance behind it less a noise.

    The interval of sd is that of a chi-squared with as many degrees of freedom as the error of the variance shows,
    2 v^2/Var(v) (Satterthwaite 1946, Biometrics Bulletin 2), less the noise, as roots: at least 1, and where templates
    are drawn at most one less than there are. Intervals of the others are made of it and of theirs at this sd (MOVER:
    Zou and Donner 2008, equations 7 and 8).
    """

    interval_rule = "MOVER, of a t interval and that of the spread by a chi-squared"
    noise: float
    distance: FloatArray  # k of each value
    over: str
    n_templates: int

    def ends(self, estimate: Estimate, cov: Any, alpha: float | FloatArray) -> FloatArray:
        """Ends of the values, shape (n_values, 2); of the spread at least 0."""
        theta, variance = np.array(estimate.params), self.covariance(cov).variance()
        half, raw = cov.critical(alpha=alpha) * np.sqrt(variance[self.at]), float(self.behind.params[1])
        most = self.n_templates - 1.0 if any(self.over in axis for axis in cov.axes) else np.inf
        nu, tail = np.clip(2 * raw**2 / variance[1], 1.0, most), np.broadcast_to(alpha, theta.shape)[:, None] / 2
        spread = np.sqrt(np.maximum(nu * raw / chdtri(nu, np.hstack([tail, 1 - tail])) - self.noise, 0.0))
        k = self.distance[self.at][:, None]
        away = k * (spread - np.sqrt(max(raw - self.noise, 0.0)))
        reach = np.hypot(half[:, None], np.where(k < 0, away[:, ::-1], away))
        ends = np.where((self.at == 1)[:, None], spread, theta[:, None] + reach * np.array([-1, 1]))
        return np.asarray(ends)


def mean_over(
    data: Any, score: str, over: str, item: str | None, q: Any, groups: Groups, missing: MissingName, cov: CovOptions
) -> Results:
    """Mean, spread and quantiles of the means of templates, whose items are all the same."""
    if item is None:
        raise ArgumentError("`over` needs `item`, the column of the items that all templates were put to.")
    shares = [fraction("q", share) for share in np.atleast_1d(np.asarray(q, dtype=object))]
    if len(set(shares)) < len(shares):
        raise ArgumentError(f"`q` must name each quantile once; got {listed(shares)}.")
    clusters = [item, over] if groups is None else groups
    rows, names, template = rows_by_item(data, {"score": score}, {"over": over, "item": item}, missing, clusters)
    is_shared, line = shared_rows(rows.used[over], names, rows.used[item], item, over=True)
    if not is_shared.all():
        rows, template = rows.only(is_shared, "unshared"), template[is_shared]
    split = Split(rows, ("mean",), None)
    y, codes, n_items = rows.values["score"], rows.used[item].codes, rows.used[item].n_clusters
    if n_items < 2:
        raise DataError(f"a spread needs two items or more under all templates; {item!r} has one.", column=item)
    shape = len(names), n_items
    value, influence, raw, noise, distance, fixed = _spread(y, template, codes, shape, np.array(shares))
    labels = ("mean", "sd", *(f"q{share:g}" for share in shares))
    said = f"{score} over {len(names)} templates ({over}); the noise of {n_items} items is taken out of the spread."
    about = About(f"Mean over {over}", score, lines=(line, said))
    at_spread = np.where(np.arange(value.size) == 1, raw, value)
    behind = from_row_influence(split, at_spread, fixed, labels, about)
    estimate = from_row_influence(split, value, influence, labels, about)
    family = Spread(behind, np.arange(value.size), noise, distance, over, len(names))
    return results_of(replace(estimate, family=family, default_groups=[item, over]), rows.axes, cov)


def _spread(
    y: FloatArray, template: IntArray, item: IntArray, shape: tuple[int, int], q: FloatArray
) -> tuple[FloatArray, FloatArray, float, float, FloatArray, FloatArray]:
    """Mean, sd and quantiles, and N times the influence of each row; the variance and its noise; sds from the mean.

    Last the influence on the variance less its noise in place of the sd, and on the others at this sd.

    The variance is that of template means less MS/n, MS the mean square of template by item (Searle, Casella and
    McCulloch 1992, section 4.3). Added over a template the influence is that of the template, over an item that of the
    item.
    """
    T, n = shape
    N, m, of_item = T * n, np.bincount(template, y) / n, np.bincount(item, y) / T
    mean, raw = float(m.mean()), float(m.var(ddof=1))
    residual = y - m[template] - of_item[item] + mean
    MS = float(residual @ residual) / ((T - 1) * (n - 1))
    square = raw - MS / n
    apart, within = (m - mean)[template], y - m[template]
    of_raw = N * (2 * apart * within + apart**2) / ((T - 1) * n) - raw
    of_square = of_raw - (N * residual**2 / ((T - 1) * (n - 1)) - MS) / n
    sd, top = np.sqrt(max(square, 0.0)), np.sqrt(raw) or 1.0
    of_sd = of_square / (2 * sd if sd > 0 else 2 * top)
    # Template means shrunk to the spread that is left: mean + (m - mean) sd/top.
    shrink = sd / top
    of_shrink = (of_sd - shrink * of_raw / (2 * top)) / top if sd > 0 else np.zeros(N)
    values, influence, distance, fixed = [mean, sd], [y - mean, of_sd], [0.0, 0.0], [y - mean, of_square]
    for share in q:
        at = np.quantile(m, share)
        # Of a quantile each template has (share - (m <= at)) times the slope of the quantiles: Woodruff (1952).
        h = np.sqrt(share * (1 - share) / T)
        low, high = max(share - h, 0.0), min(share + h, 1.0)
        slope = float(np.diff(np.quantile(m, [low, high]))[0] / (high - low))
        of_templates = slope * (np.mean(m <= at) - (m <= at))[template]
        fixed.append((y - mean - apart) * shrink + shrink * of_templates + (1 - shrink) * (y - mean))
        values.append(mean + (at - mean) * shrink)
        distance.append((at - mean) / top)
        influence.append(fixed[-1] + (at - mean) * of_shrink)
    return np.array(values), np.column_stack(influence), raw, MS / n, np.array(distance), np.column_stack(fixed)


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
    roles = Roles(score, by_columns, item, sample, None, weights, missing)
    read, right, answers = _counted(table, roles, item if groups is None else groups, max(every))
    estimates, what = [], "all right or all wrong" if require == "same" else f"with {require} right"
    for size in every:
        all_right, all_wrong = (all_of_k(count, answers, size) for count in (right, answers - right))
        shares = {"any": 1.0 - all_wrong, "all": all_right, "same": all_right + all_wrong}[require]
        rows = replace(read, rows=replace(read.rows, values={"score": shares}))
        name = f"{CALLED[require]}{size}"
        line = f"A row is one {item}: the share of the sets of {size} of its answers ({sample}) {what}."
        about = About(titled(name, by_columns), score, interval="logit", icc=ICC_MEAN, lines=(line,))
        solved = partial(solve, n_by=len(by_columns), strata_weights=None, name=name)
        estimates.append(estimate_read(rows, roles, solved, about)[0])
    estimate, axes = estimates[0], read.rows.axes
    if len(every) > 1:
        if by_columns:
            named = zip(estimates, every, strict=True)
            estimates = [replace(part, names=tuple(f"{name}:{size}" for name in part.names)) for part, size in named]
        estimate = side_by_side(estimates)
        about = replace(estimate.about, model=titled(f"{CALLED[require]}k", by_columns), icc=ICC_MEAN)
        estimate = replace(estimate, about=about)
    estimate = replace(estimate, default_groups=[item])
    with clustered_by_items(estimate, item if groups is None else None):
        return results_of(estimate, axes, requested, unequal_notes(estimate, item, axes) if by_columns else ())


def _counted(table: Table | Query, roles: Roles, groups: Groups, k: int) -> tuple[CellRows, FloatArray, FloatArray]:
    """The questions of each model; how many answers to each are right, and how many there are, at least k."""
    if isinstance(table, Query):
        used = used_answers(table, roles, groups)
        if n_other := int(used.sums["other"].sum()):
            text = f"{RULE}; column {roles.score!r} is not in {n_other} of the rows in use. {COMPARE_FIRST}"
            raise ScoreRangeError(text, column=roles.score, rows=RowList((), n_other))
        read = read_used(used, roles, groups)
        lines = read.rows.source.table
        assert isinstance(lines, EngineAnswers)
        keys, answers = [read.rows.used[name] for name in lines.key], lines.answers.astype(float)
    else:
        read = read_cells(table, roles, groups)
        source = read.rows.source
        assert source.item is not None
        refuse_unless_binary(restrict(table.floats(roles.score, "score"), source.keep), roles.score, RULE)
        keys, answers = [], source.item.counts.astype(float)
    few = np.flatnonzero(answers < k)
    if few.size:
        item = read.rows.source.item
        first = [
            item.label(int(i)) if item else ":".join(key.label(int(key.codes[i])) for key in keys) for i in few[:3]
        ]
        raise DataError(
            f"every question needs at least k = {k} answers; {few.size} of {answers.size} "
            f"{'has' if few.size == 1 else 'have'} fewer (the fewest {int(answers.min())}; {listed(first)}). Pass a "
            "smaller `k`, sample those questions again, or leave them out.",
            column=roles.score,
            count=few.size,
        )
    return read, np.rint(read.values * answers), answers


DIRECTIONS = {"max": 1.0, "min": -1.0}


@dataclass(frozen=True, eq=False, repr=False)
class Frontier(Results):
    """Means of several metrics by model, and which models no other one beats; made by `frontier`.

    Parameters
    ----------
    metrics : tuple of (str, float)
        The metrics, with 1 where more is better and -1 where less is.
    alpha : float
        Familywise level of `states`.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.paired(n_passages=40, seed=1)
    >>> log["usd"] = log["model"].map({"new": 0.2, "old": 0.1}) + 0.01 * (log["question"].factorize()[0] % 7)
    >>> er.frontier(log, {"score": "max", "usd": "min"}, item="question", groups="passage").states.to_dict()
    {'new': 'open', 'old': 'frontier'}
    """

    metrics: tuple[tuple[str, float], ...] = ()
    alpha: float = 0.05

    def _derived(self, estimate: Estimate, cov: Any, notes: tuple[Any, ...]) -> Any:
        """Plain results: only all the means have states."""
        return Results(estimate, cov, self.axes, self.requested, notes)

    def _verdict(self) -> str:
        """The states by name."""
        states = self.states
        named = {word: listed(states.index[states == word]) for word in ("frontier", "dominated", "open")}
        each = "; ".join(f"{word}: {names}" for word, names in named.items() if names)
        return f"{each[0].upper()}{each[1:]} (all at a familywise level of {self.alpha:g}, by Holm's method)."

    @property
    def states(self) -> pd.Series:
        """By model "frontier", "dominated" or "open", all at one familywise level.

        A model is dominated where another is shown to be better in every metric, and on the frontier where against each
        other one it is shown to be better in some metric; "open" is neither. Each statement rests on one-sided t tests
        of pairs in a metric, adjusted by Holm's method over all of them; of a difference that is the same in all rows,
        as of prices, on the sign test of the clusters, p = 2^-G.
        """
        signs = np.array([direction for _, direction in self.metrics])
        n, k, units = len(self.params) // signs.size, signs.size, np.eye(len(self.params))
        first, second, metric = (part.ravel() for part in np.indices((n, n, k)))
        C = signs[metric][:, None] * (units[first * k + metric] - units[second * k + metric])
        effect = C @ self.estimate.params
        p = self.cov.pvalues(C, effect) / 2
        same = np.where(effect > 0, 0.5 ** min(self.n_clusters.values(), default=self.nobs // n), 1.0)
        one_sided = np.where(np.isnan(p), same, np.where(effect > 0, p, 1 - p))
        one_sided[first == second] = np.nan
        better = (adjust_pvalues(one_sided, "holm") < self.alpha).reshape(n, n, k)
        undefeated = (better.any(axis=2) | np.eye(n, dtype=bool)).all(axis=1)
        states = np.select([better.all(axis=2).any(axis=0), undefeated], ["dominated", "frontier"], "open")
        names = [name.removesuffix(f":{self.metrics[0][0]}") for name in self.params.index[::k]]
        return pd.Series(states, index=names, name="state")


@estimator
def frontier(
    data: Any,
    metrics: Mapping[str, Literal["max", "min"]],
    *,
    by: str = "model",
    item: str = "item",
    groups: Groups = None,
    alpha: float = 0.05,
    missing: MissingName = "drop",
    **options: Unpack[EstimatorOptions],
) -> Frontier:
    """Means of several metrics by model, and which models are on the Pareto frontier.

    Parameters
    ----------
    data : data frame
        In memory: pandas, polars, pyarrow; or a dict of arrays. One row for each model and item.
    metrics : dict of str to {"max", "min"}
        Columns of at least two metrics, and which of more or less of each is better.
    by, item : str
        Columns of the models and of the items.
    groups : str, list of str, array, Series or dict, optional
        Clusters, as in `mean`; the items by default.
    alpha : float, default 0.05
        Familywise level of `states`.
    subset : str, optional
        Which rows to use, in the language of ``--where``; frames in memory only.
    missing : {"drop", "raise"}, optional
        What to do with rows where something is missing; they are dropped from all metrics, and counted.
    <cov>
        Covariance; "CR2" by default.
    <ssc>
    <dof>
        Degrees of freedom, as in `mean`.
    <repair>

    Returns
    -------
    Frontier
        Results: means named "model:metric", all in one covariance. `states` says which models are on the frontier,
        dominated or open.

    Raises
    ------
    ArgumentError, MissingColumnError
        If there are fewer than two metrics, a direction is another, or a metric is no column.
    DataError, DuplicateRowsError, ConstantScoreError
        If there is one model, a model has several rows on an item, or a metric does not vary.

    References
    ----------
    Holm (1979), Scandinavian Journal of Statistics 6, 65-70; Berger (1982), Technometrics 24, 295-300 (better in every
    metric, by an intersection of tests).

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.paired(n_passages=40, seed=1).assign(words=lambda log: 50 + 10 * log["score"])
    >>> results = er.frontier(log, {"score": "max", "words": "min"}, item="question", groups="passage")
    >>> results.params.round(2).to_dict()
    {'new:score': 0.78, 'new:words': 57.85, 'old:score': 0.74, 'old:words': 57.45}
    """
    requested = requested_options(options)
    fraction("alpha", alpha)
    chosen: list[Any] = list(metrics.values()) if isinstance(cast("Any", metrics), Mapping) else []
    if len(chosen) < 2 or any(direction not in tuple(DIRECTIONS) for direction in chosen):
        raise ArgumentError(f'`metrics` must be a dict of at least two columns to "max" or "min"; got {metrics!r}.')
    table, clusters = open_frame(data), item if groups is None else groups
    known_columns(list(metrics), table.columns, "metrics")
    numbers = {name: name for name in metrics}
    rows, models, cell = rows_by_item(table, numbers, {"by": by, "item": item}, missing, clusters)
    parts = []
    for name in metrics:
        split = Split(rows, tuple(f"{model}:{name}" for model in models), cell)
        # In [0, 1] a metric may be the same in all rows of a model, as a price is.
        low, spread = rows.values[name].min(), np.ptp(rows.values[name]) or 1.0
        means = means_of_cells(split, (rows.values[name] - low) / spread, name)
        parts.append(means.linear(spread * np.eye(len(models)), split.names).moved(low))
    about = About(f"Means by {by}", ", ".join(metrics))
    unequal = unequal_rows(rows.labels(item), (item,), cell, models)
    results = results_of(
        replace(side_by_side(parts), about=about, default_groups=[item]), rows.axes, requested, unequal
    )
    signs = tuple((name, DIRECTIONS[direction]) for name, direction in metrics.items())
    return Frontier(results.estimate, results.cov, results.axes, results.requested, results.notes, signs, alpha)
