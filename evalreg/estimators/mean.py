"""Means of scores, for one model or many at once, with fixed strata or without, and over prompt templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack, cast

import numpy as np
import numpy.typing as npt
from scipy.special import chdtri

from evalreg.checks import FloatArray, IntArray, by_stratum, check_target, fraction, listed, option, passed
from evalreg.choices import EstimatorOptions, MissingName, QuestionsName, TargetName
from evalreg.covariance.options import CovOptions, clustered_by_items, requested_options
from evalreg.data.clusters import Groups, refuse_same, with_roles
from evalreg.data.engine import Query
from evalreg.data.frame import Table, open_frame
from evalreg.data.questions import shared_rows
from evalreg.data.rows import Roles, joint_names
from evalreg.data.sums import Lines, SummedLog, lines_of, refuse_unsummed
from evalreg.errors import ArgumentError, DataError
from evalreg.estimate import About, Estimate
from evalreg.estimators import targets
from evalreg.estimators.cells import Split, estimate_cells, from_row_influence, independence_note, rows_by_item, titled
from evalreg.inference.intervals import Behind
from evalreg.inference.questions import scale_notes, unequal_notes
from evalreg.planning.power import checked_number
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
        many clusters, where they were drawn whole. Variances are multiplied by 1 - n/N, with `sample` without the part
        that the answers make; covariances of models with different samples by 1 - n_a n_b/(n_ab N). With `strata` the
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
