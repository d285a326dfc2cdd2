"""The noise of an eval: how much of each error bar is the sampling of answers, how much that of questions.

In reading order: the parts of a variance, what is read, the public function, its result, its summary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray, fraction, listed, muted, option, quotient
from evalreg.choices import MissingName
from evalreg.covariance.crossed import t_quantile
from evalreg.data.answers import NOBODY, AnswerTable, clusters_of_questions, read_single_answers
from evalreg.data.clusters import Axis, Codes, Groups, axis_name, rows_where, with_roles
from evalreg.data.frame import Table, rows_in_memory
from evalreg.data.rows import cells_of
from evalreg.errors import ArgumentError, EvalregWarning, NotAvailableError, Note, ScoreRangeError
from evalreg.estimators.comparison import Comparison
from evalreg.estimators.difference import compare
from evalreg.estimators.mean import mean
from evalreg.numerics.limits import EQUAL, HELD, ROUNDING
from evalreg.numerics.matrices import Matrix
from evalreg.planning.power import detectable, normal_quantiles
from evalreg.report.axes import FigSize, differences_axes, errors_axes
from evalreg.report.tables import MOST_ROWS, Grid, Printed, Summary, fixed, number, p_value, whole_columns
from evalreg.results.results import Results, estimator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A share of the variance below which more answers buy next to nothing.
ENOUGH = 0.05
# With fewer questions (clusters) than this whose mean is not the usual one, the share has no interval.
FEWEST_APART = 8


@dataclass(frozen=True, eq=False)
class Parts:
    """What the answers say about each column, a model or a pair of models, shape (m,) each."""

    sigma2: FloatArray  # variance of one answer of each model, averaged over questions and added over the two models
    prediction: FloatArray  # variance of the estimate that is the sampling of answers
    share: FloatArray  # the same over the variance of the estimate
    share_se: FloatArray  # NaN where too few clusters differ from the usual one
    share_dof: FloatArray
    n: IntArray  # questions
    n_clusters: IntArray
    n_single: IntArray  # questions with a single answer of the model, or of one of the two

    @property
    def k(self) -> FloatArray:
        """Answers to each question that would leave as much noise as these; NaN where answers do not vary."""
        return quotient(self.sigma2, self.n * self.prediction)

    def shares(self, alpha: float) -> FloatArray:
        """Intervals of the shares, shape (m, 2), by t with `share_dof` degrees of freedom; not cut off.

        They hold both the interval of the share itself and, where it lies between 0 and 1, that of its log odds: either
        alone is too short where few questions carry the noise, or where noise is nearly all.
        """
        t = t_quantile(alpha, self.share_dof)
        inside = (self.share > 0) & (self.share < 1)
        share = np.where(inside, self.share, 0.5)
        half = np.minimum(t * self.share_se / (share * (1 - share)), 500.0)
        odds = share / (1 - share) * np.exp([-half, half])
        ends = self.share + np.array([-1.0, 1.0])[:, None] * t * self.share_se
        other = np.where(inside, odds / (1 + odds), ends)
        return np.stack([np.minimum(ends[0], other[0]), np.maximum(ends[1], other[1])], axis=1)

    def enough(self, share: FloatArray) -> FloatArray:
        """Answers at which noise keeps `ENOUGH` of the variance, if it has `share` of it now; infinite from 1 on.

        Miller (2024), arXiv:2411.00640, section 3.1: sigma2/K over omega2 + sigma2/K, with omega2 = (1/share - 1)
        sigma2/K at the K in use.
        """
        share = np.where(np.isnan(share), np.nan, np.clip(share, 0.0, 1.0))
        k = np.where(np.isnan(self.k) & (self.prediction == 0), 1.0, self.k)
        with np.errstate(divide="ignore"):
            needed = k * share / (1 - share) * (1 - ENOUGH) / ENOUGH
        return np.maximum(np.ceil(needed * (1 - EQUAL)), 1.0)


def noise_parts(answers: AnswerTable, left: IntArray, right: IntArray, cluster: Codes | None) -> Parts:
    """Parts of each column, left less right over the questions of both; where `right` is `NOBODY`, left alone.

    Answers are taken to be independent of each other given their questions, so that the noise of a mean over n
    questions is (1/n^2) sum_i sigma2_i/K_i whatever the clusters. It is over the variance between clusters as CR2 has
    it, sum_g T_g^2/(1 - n_g/n)/n^2, which without clusters is the variance of question means over n. The error of the
    quotient is that of a ratio of two sums over clusters. Shapes: left, right (m,); cluster codes of questions.
    """
    # NOBODY is the last row: it answered everything twice and alike, without noise.
    n_questions = answers.mean.shape[1]
    parts = (answers.mean, 0.0), (answers.count, 2), (answers.squares, 0.0)
    table = AnswerTable(*(np.vstack([part, np.full(n_questions, value)]) for part, value in parts))
    mean, present, single = table.mean, table.count > 0, table.count == 1
    sigma2, noise = table.sigma2, table.noise
    member = None
    if cluster is not None:
        place = (np.arange(n_questions), cluster.codes)
        member = sparse.csr_array((np.ones(n_questions), place), (n_questions, cluster.n_clusters))
    columns = []
    for part in np.array_split(np.arange(left.size), left.size * n_questions // HELD + 1):
        a, b = left[part], right[part]
        inside = present[a] & present[b]
        of_one, of_mean = (np.where(inside, of[a] + of[b], 0.0) for of in (sigma2, noise))
        difference = np.where(inside, mean[a] - mean[b], 0.0)
        columns.append(_parts(difference, of_one, of_mean, inside, single[a] | single[b], member))
    return Parts(*(np.concatenate(arrays) for arrays in zip(*columns, strict=True)))


def _parts(
    d: FloatArray, variance: FloatArray, noise: FloatArray, inside: BoolArray, single: BoolArray, member: Matrix | None
) -> tuple[FloatArray | IntArray, ...]:
    """The fields of `Parts`, shape (m,) each, from (m, n_questions) arrays that are 0 outside."""
    n = inside.sum(axis=1)
    some = np.maximum(n, 1)[:, None]
    centred = np.where(inside, d - d.sum(axis=1, keepdims=True) / some, 0.0)
    sums = [noise, centred, inside.astype(float)]
    top, totals, sizes = sums if member is None else [np.asarray(each @ member) for each in sums]
    n_clusters = np.count_nonzero(sizes, axis=1)
    rest = 1 - sizes / some
    bottom = quotient(totals**2, rest, 0.0)
    below, scale = bottom.sum(axis=1), np.max(np.abs(d), axis=1, initial=0.0)
    # Differences that are all alike leave rounding.
    flat = below <= ROUNDING**2 * some[:, 0] * scale**2
    below = np.where((n_clusters < 2) | flat, np.nan, below)
    share = top.sum(axis=1) / below
    apart = top - share[:, None] * bottom
    factor = n_clusters / np.maximum(n_clusters - 1, 1)
    share_se = np.sqrt(factor * np.einsum("mg,mg->m", apart, apart)) / below
    means = quotient(totals, sizes)
    # Columns without any cluster have no middle. The middle mean is that of most where nearly all scores are alike.
    means[n_clusters == 0] = 0.0
    unusual = np.abs(means - np.nanmedian(means, axis=1, keepdims=True)) > EQUAL * scale[:, None]
    share_se = np.where(np.count_nonzero(unusual, axis=1) < FEWEST_APART, np.nan, share_se)
    worth = np.minimum(_effective(apart**2), _effective(bottom))
    return (
        variance.sum(axis=1) / some[:, 0],
        noise.sum(axis=1) / some[:, 0] ** 2,
        share,
        share_se,
        np.clip(2 * worth - 1, 1.0, np.maximum(n_clusters - 1.0, 1.0)),
        n,
        n_clusters,
        (inside & single).sum(axis=1),
    )


def _effective(squares: FloatArray) -> FloatArray:
    """How many equal clusters would make a sum of squares as these do, shape (m,); 1 where there are none."""
    return quotient(squares.sum(axis=1) ** 2, np.einsum("mg,mg->m", squares, squares), 1.0)


# Columns of the tables

OF_PAIRS = ("z", "p_value", "wins", "losses", "sign_p_value", "detectable", "paired")


def noise_columns(parts: Parts, variance: FloatArray, alpha: float) -> dict[str, FloatArray]:
    """Columns of both tables."""
    total = np.where(variance > 0, variance, np.nan)
    data = total - parts.prediction
    low, high = parts.shares(alpha).T
    columns = {"se_prediction": np.sqrt(parts.prediction), "se_data": _root(data), "se_total": np.sqrt(total)}
    columns |= {"prediction_share": parts.share, "share_lower": np.maximum(low, 0.0), "share_upper": high}
    columns["share_upper"] = np.maximum(np.minimum(high, 1.0), columns["share_lower"])
    for name, share in (("answers", parts.share), ("lower", low), ("upper", high)):
        columns[f"enough_{name}"] = parts.enough(share)
    columns |= {"sigma2": parts.sigma2, "data_variance": data, "se_one_answer": _root(data + parts.sigma2 / parts.n)}
    return columns | {"n": parts.n, "n_clusters": parts.n_clusters, "n_single": parts.n_single}


def _root(variance: FloatArray) -> FloatArray:
    return np.sqrt(np.where(variance > 0, variance, np.nan))


def middle(column: pd.Series[float]) -> float:
    """The median of what is known, the upper one where infinite values are among it; NaN where nothing is."""
    known = column.to_numpy(dtype=float)
    known = known[~np.isnan(known)]
    if not known.size:
        return float("nan")
    return float(np.quantile(known, 0.5, method="higher" if np.isinf(known).any() else "linear"))


# What is read

# A share of passes is whole passes over answers up to this, as shares that were written with all their digits are.
WHOLE = 1e-6


@dataclass(frozen=True, eq=False)
class ReadAnswers:
    """Answers, and the frame in which the other estimators find a score for each of them."""

    frame: Any
    score: str  # its column
    names: tuple[str, ...]  # of the models, sorted as text
    table: AnswerTable
    axes: tuple[Axis, ...]
    cluster: Codes | None  # of the questions, under one clustering


def read_answer_table(
    data: Any,
    score: str,
    labels: dict[str, str | None],
    passes: str | None,
    n_samples: str | None,
    groups: Groups,
    missing: MissingName,
) -> ReadAnswers:
    """Answers by model and question; undeclared repeats, and counts that cannot be, are refused.

    `labels` are the columns of "model", "item" and "sample".
    """
    if passes is not None and n_samples is None:
        raise ArgumentError("`passes` counts the right answers of some number: name the column of it in `n_samples`.")
    if n_samples is not None and labels["sample"] is not None:
        raise ArgumentError(
            "`sample` is for rows that hold one answer each, `n_samples` for rows that hold counts of answers; got "
            "both. Leave out one of them."
        )
    table, count = rows_in_memory(data, "`noise`"), None
    if n_samples is not None:
        table, score, count = _with_shares(table, score, passes, n_samples)
    rows, roles = read_single_answers(table, score, labels, groups, missing)
    names, side = cells_of(rows.used, roles.by)
    question, item = rows.used[str(roles.item)], str(roles.item)
    shape = len(names), question.n_clusters
    cell = question.codes if side is None else side * question.n_clusters + question.codes
    answers = AnswerTable.of(cell, shape, rows.values["score"])
    if count is not None:
        n = np.bincount(cell, rows.restrict(count), answers.mean.size).astype(np.intp).reshape(shape)
        answers = AnswerTable(answers.mean, n, n * answers.mean * (1 - answers.mean))
    axes = rows.axes or ()
    if [axis_name(axis) for axis in axes] == [item]:  # the questions themselves
        axes = ()
    cluster = clusters_of_questions(rows, axes[0], item) if len(axes) == 1 else None
    shown = tuple(name[0] if name else "mean" for name in names)
    return ReadAnswers(table.frame.to_native(), score, shown, answers, axes, cluster)


def _with_shares(table: Table, score: str, passes: str | None, n_samples: str) -> tuple[Table, str, FloatArray]:
    """The table with the share of passes as its score, that column's name, and the answers of each row."""
    role, name = ("score", score) if passes is None else ("passes", passes)
    with_roles(table, {"n_samples": n_samples, role: name})
    count, right = table.floats(n_samples, "n_samples"), table.floats(name, role)
    _refuse_counts(count, (count < 1) | (count != np.rint(count)), n_samples, "be whole numbers of 1 or more")
    if passes is None:
        shares, right = right, np.rint(right * count)
        off = np.abs(shares * count - right) > WHOLE * count
        rule = f"with `n_samples` be shares of right answers, whole multiples of 1/{n_samples}"
        _refuse_counts(shares, off, name, rule, "score")
    else:
        _refuse_counts(right, right != np.rint(right), name, "be whole numbers of right answers", "passes")
    _refuse_counts(right, (right < 0) | (right > count), name, f"lie between 0 and {n_samples!r}", "passes")
    score = name if passes is None else f"{name}/{n_samples}"
    share = nw.new_series(score, right / count, nw.Float64, backend=table.frame.implementation)
    return Table(table.frame.with_columns(share)), score, count


def _refuse_counts(values: FloatArray, wrong: BoolArray, name: str, rule: str, argument: str = "n_samples") -> None:
    wrong = wrong & ~np.isnan(values)
    if wrong.any():
        rows = rows_where(wrong)
        raise ScoreRangeError(
            f"`{argument}` must {rule}; column {name!r} holds {values[wrong][0]:g} in {rows}. "
            "Correct the counts, or leave those rows out.",
            column=name,
            rows=rows,
        )


@estimator
def noise(
    data: Any,
    score: str = "score",
    *,
    model: str | None = "model",
    item: str = "item",
    sample: str | None = None,
    passes: str | None = None,
    n_samples: str | None = None,
    groups: str | list[str] | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
    subset: str | None = None,
    missing: MissingName = "drop",
) -> Noise:
    """How much of every error bar is the sampling of answers, and how much that of questions.

    For each model and each pair of models the variance of its mean score, or of the difference, is split in two: what
    other answers to the same questions would change (prediction noise), and what other questions would (data noise).
    Pairs are taken over the questions that both answered. Each question counts the same, however many answers it has.

    Parameters
    ----------
    data : data frame or Log
        In memory: pandas, polars, pyarrow; or a dict of arrays. One row for each answer, or for each model and question
        with counts of answers.
    score : str, default "score"
        Column of scores; booleans count as 0 and 1. With `n_samples` and without `passes`: shares of right answers.
    model : str, default "model"
        Column of the models; None where all rows are of one.
    item : str, default "item"
        Column of the questions; "task:question" joins two columns into one id.
    sample : str, optional
        Column that numbers the answers of a model to a question. Without it there is one answer to each.
    passes, n_samples : str, optional
        Columns of right answers and of answers, in place of single ones.
    groups : str or list of str, optional
        Clusters of the questions, as in `compare`; each question is its own by default.
    alpha : float, optional
        Level of tests and intervals, 0.05 by default.
    power : float, optional
        Chance with which `detectable` differences are found, 0.8 by default.
    subset : str, optional
        Which rows to use, in the language of ``--where``, as in `mean`; the results count the others.
    missing : {"drop", "raise"}, optional
        What to do with rows whose score or label is missing; dropped rows are counted.

    Returns
    -------
    Noise
        Tables `models` and `pairs`, numbers for the whole benchmark, and `summary()`.

    Raises
    ------
    MissingColumnError
        If a column is not there; the message has the nearest names.
    DuplicateRowsError
        If a model answered a question twice and `sample` is not given.
    ScoreRangeError
        If counts are not whole, or `passes` are more than `n_samples`.
    ArgumentError, ArgumentTypeError
        If an option is unknown.
    NotAvailableError
        If the rows live in an engine.

    Notes
    -----
    With n questions, x_i the mean of K_i answers to question i and s_i^2 their variance (with K_i - 1), the total
    variance of a mean is sum_i (x_i - x)^2/(n - 1)/n, its prediction part sum_i (s_i^2/K_i)/n^2, and its data part what
    is left. The first two are unbiased, whatever the K_i, and so is the third; it can be 0 or less as estimated, and
    has no square root then. A difference has x_i = a_i - b_i and the noise of both models. The total is what `mean` and
    `compare` report. With `groups` it is their clustered variance (CR2), and answers to different questions are still
    taken to be independent of each other: a seed or a prompt order that a whole run shares would be missed.

    Wang (2025) divides by n where this has n - 1: published standard errors are these times sqrt((n - 1)/n).

    A question with one answer says nothing about the noise of its answers. Where a model has such questions, the parts
    are NaN, and the total stands: it contains both.

    The interval of `prediction_share` is by t, from the error of a ratio of sums over clusters, and holds both that of
    the share and that of its log odds. Its degrees of freedom are 2 k - 1, at most clusters - 1, where k equal clusters
    would make the sums as these do: few where few questions make the variance. There is none where fewer than 8
    questions (or clusters) have another mean than the usual one. In 19 of 20
    simulated designs of 0/1 scores (15 to 800 questions, 2,000 logs each) it covered the true share in 94 to 99% of the
    logs that have one; in 87% with a score of 0.02 on 100 questions, where a quarter of the logs have one.

    References
    ----------
    Wang (2025), Measuring all the noises of LLM evals, arXiv:2512.21326; Miller (2024), arXiv:2411.00640, section 3.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.sampled(n_questions=400, n_samples=5, n_models=2, correlation=0.5, seed=1)
    >>> noise = er.noise(log, item="question", sample="sample")
    >>> noise.models[["score", "se_prediction", "se_data", "se_total"]].round(4).loc["model-1"].tolist()
    [0.5135, 0.0094, 0.0136, 0.0165]
    >>> float(round(noise.detectable, 3)), float(round(noise.enough_answers, 0))
    (0.054, 83.0)
    """
    alpha = fraction("alpha", alpha)
    normal_quantiles(alpha, power)
    labels = {"model": model, "item": item, "sample": sample}
    read = read_answer_table(data, score, labels, passes, n_samples, groups, missing)
    options: dict[str, Any] = {"item": item, "sample": sample, "groups": groups, "missing": missing}
    comparison = compare(read.frame, read.score, model=model, **options) if len(read.names) > 1 and model else None
    with muted():
        results = mean(read.frame, read.score, by=model, **options)
    names = pd.Index(read.names)
    alone = np.arange(names.size), np.full(names.size, NOBODY)
    of_models, of_pairs = _parts_of(read, *alone, np.array(results.bse.reindex(names)) ** 2), None
    if comparison is not None:
        index = comparison.facts.index
        left, right = (names.get_indexer(index.get_level_values(side).map(str)) for side in (0, 1))
        of_pairs = _parts_of(read, left, right, comparison.results.cov.variance(), of_models)
    return Noise(results, comparison, of_models, of_pairs, read, alpha, power)


def _parts_of(
    read: ReadAnswers, left: IntArray, right: IntArray, variance: FloatArray, of_models: Parts | None = None
) -> Parts:
    """Parts of the variances that the results report; of two models without a shared question those of both."""
    parts = noise_parts(read.table, left, right, read.cluster)
    if of_models is not None:
        apart = parts.n == 0
        counted = {name: (getattr(of_models, name), getattr(parts, name)) for name in ("prediction", "n", "n_single")}
        both = {name: np.where(apart, of[left] + of[right], shared) for name, (of, shared) in counted.items()}
        parts = replace(parts, sigma2=np.where(apart, np.nan, parts.sigma2), **both)
    error = np.full(left.size, np.nan) if len(read.axes) > 1 else parts.share_se
    return replace(parts, share=parts.prediction / np.where(variance > 0, variance, np.nan), share_se=error)


NoiseFigureName: TypeAlias = Literal["errors", "differences"]
NoiseTableName: TypeAlias = Literal["models", "pairs"]


@dataclass(frozen=True, eq=False)
class Noise(Printed):
    """The noise of an eval, by model and by pair of models; made by `noise`, immutable.

    Parameters
    ----------
    results : Results
        Mean scores of the models.
    comparison : Comparison or None
        Differences of all pairs; None where there is one model.
    of_models, of_pairs : Parts
        What the answers say about each.
    read : ReadAnswers
        The answers.
    alpha, power : float
        Level of tests and intervals, and the chance with which detectable differences are found.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.sampled(n_questions=300, n_samples=4, n_models=2, correlation=0.5, seed=2)
    >>> noise = er.noise(log, item="question", sample="sample")
    >>> noise.pairs[["difference", "se_prediction", "se_data", "se_total"]].round(3).to_dict("records")
    [{'difference': 0.013, 'se_prediction': 0.016, 'se_data': 0.015, 'se_total': 0.023}]
    """

    results: Results
    comparison: Comparison | None
    of_models: Parts
    of_pairs: Parts | None
    read: ReadAnswers
    alpha: float
    power: float

    @property
    def models(self) -> pd.DataFrame:
        """One row a model, the best first; see `to_frame` for the columns."""
        return self._models.copy()

    @property
    def pairs(self) -> pd.DataFrame:
        """One row a pair of models, indexed by (model, baseline); see `to_frame` for the columns."""
        return self._pairs.copy()

    @cached_property
    def _models(self) -> pd.DataFrame:
        return self.to_frame()

    @cached_property
    def _pairs(self) -> pd.DataFrame:
        return self.to_frame("pairs")

    def to_frame(self, table: NoiseTableName = "models", alpha: float | None = None) -> pd.DataFrame:
        """The models, or the pairs.

        Parameters
        ----------
        table : {"models", "pairs"}, optional
            What a row is.
        alpha : float, optional
            Level of intervals and of `detectable`; that of `noise` by default.

        Returns
        -------
        DataFrame
            Columns of both tables, after `score` or `difference`:

            - `se_prediction`, `se_data`, `se_total`: standard errors from the sampling of answers, of questions, and of
              both. `se_data` is NaN where the variance left for it, `data_variance`, is 0 or less.
            - `prediction_share`, `share_lower`, `share_upper`: share of the total variance that is answers, as
              estimated, and its interval; NaN where fewer than 8 questions (clusters) differ from the usual mean.
            - `enough_answers`, `enough_lower`, `enough_upper`: answers to each question, of each model, from which on
              more hardly pay: noise then keeps 5% of the variance. Infinite where the data show no other noise.
            - `sigma2`, `data_variance`: variance of one answer (of a pair: added over both models); variance of the
              estimate that endless answers would leave.
            - `se_one_answer`: total standard error with one answer to each question.
            - `n`, `n_clusters`, `n_single`: questions, clusters, and questions with a single answer.

            Of pairs also `z` (difference over `se_total`), `p_value` (as `compare` has it), `wins`, `losses` (questions
            on which the first model has the higher or lower mean), `sign_p_value` (exact; with `groups` the clustered
            sign test), `detectable` (a true difference that a test of this pair finds with the power asked for; where
            few questions differ, that of the test of `compare`, which allows for differences not seen) and `paired`.

        Raises
        ------
        ArgumentError
            If there is no such table, or a level is not between 0 and 1.
        """
        option("table", table, NoiseTableName)
        alpha = self.alpha if alpha is None else fraction("alpha", alpha)
        return self._model_frame(alpha) if table == "models" else self._pair_frame(alpha)

    def _model_frame(self, alpha: float) -> pd.DataFrame:
        names = pd.Index(self.read.names, name="model")
        score = self.results.params.reindex(names).to_numpy()
        variance = self.results.bse.reindex(names).to_numpy() ** 2
        frame = pd.DataFrame({"score": score} | noise_columns(self.of_models, variance, alpha), index=names)
        return frame.sort_values("score", ascending=False, kind="stable")

    def _pair_frame(self, alpha: float) -> pd.DataFrame:
        if self.comparison is None or self.of_pairs is None:
            names = ["difference", *noise_columns(self.of_models, np.zeros(len(self.read.names)), alpha), *OF_PAIRS]
            index = pd.MultiIndex.from_arrays([[], []], names=["model", "baseline"])
            return pd.DataFrame(np.zeros((0, len(names))), index=index, columns=names)
        table, parts = self.comparison.to_frame(alpha), self.of_pairs
        se = table["se"].to_numpy()
        columns: dict[str, Any] = {"difference": table["difference"].to_numpy()} | noise_columns(parts, se**2, alpha)
        columns["n_clusters"] = table["n_clusters"].to_numpy()
        columns |= {"z": columns["difference"] / se, "p_value": table["p_value"].to_numpy()}
        signs = self.comparison.sign_test()
        columns |= {side: signs[side].fillna(0).astype(int).to_numpy() for side in ("wins", "losses")}
        columns["sign_p_value"] = signs["clustered_p_value" if self.read.axes else "p_value"].to_numpy()
        widths = self.comparison.results.cov.widths()
        columns["detectable"] = detectable(se, table["dof"].to_numpy(), widths, alpha, self.power)
        columns["paired"] = table["paired"].to_numpy()
        return pd.DataFrame(columns, index=table.index)

    @property
    def notes(self) -> tuple[Note, ...]:
        """Warnings of the means and of the differences, each once."""
        notes = [*self.results.notes, *(() if self.comparison is None else self.comparison.results.notes)]
        names = list(map(str, self._models.index[self._models["data_variance"] <= 0]))
        names += map(" - ".join, self._pairs.index[self._pairs["data_variance"] <= 0])
        if names:
            text = (
                f"{NONE_SEEN} for {listed(names)}: the noise of the answers is all the variance that shows, so that "
                "`se_data` is NaN. The noise of questions need not be zero: there is too little data to see it."
            )
            notes.append((EvalregWarning, text))
        return tuple(dict.fromkeys(notes))

    # Of the benchmark.

    @property
    def detectable(self) -> float:
        """The difference that this benchmark shows between two typical models: the median over pairs; NaN without."""
        return middle(self._pairs["detectable"])

    @property
    def smallest_shown(self) -> float:
        """The smallest difference of a pair with a p-value below `alpha`; NaN where there is none.

        The luckiest of many pairs: other models that differ by as much need not come out so.
        """
        shown = self._pairs["difference"][self._pairs["p_value"] < self.alpha].abs()
        return float(shown.min()) if len(shown) else float("nan")

    @property
    def enough_answers(self) -> float:
        """Answers to each question from which on more hardly pay: the median over pairs, or that of the one model."""
        return middle((self._pairs if len(self._pairs) else self._models)["enough_answers"])

    def summary(self, alpha: float | None = None) -> Summary:
        """Standard errors by model and by pair, their parts, and what this benchmark can show.

        Parameters
        ----------
        alpha : float, optional
            Level of intervals; that of `noise` by default.

        Returns
        -------
        Summary
            Prints as text of 80 columns; also `as_markdown()`, `as_latex()` and `as_html()`.
        """
        return noise_summary(self, self.alpha if alpha is None else alpha)

    def plot(self, kind: NoiseFigureName = "errors", *, figsize: FigSize = None, ax: Axes | None = None) -> Axes:
        """Draw a figure.

        Parameters
        ----------
        kind : {"errors", "differences"}, optional
            Standard errors of the models and their parts against their scores; or the p-value of every pair against its
            difference.
        figsize : float or (float, float), optional
            Inches of a new figure: its width, such as 3.3 for a column of a paper, or width and height. By default what
            fits.
        ax : Axes, optional
            To draw into; a new figure by default.

        Returns
        -------
        Axes
            Drawn into.

        Raises
        ------
        ArgumentError
            If there is no such figure.
        NotAvailableError
            If a figure of pairs is asked for and there is one model, or matplotlib is not installed.
        """
        option("kind", kind, NoiseFigureName)
        if kind == "errors":
            n, unit = self._models["n"], self.results.estimate.about.unit
            ceiling = int(n.iloc[0]) if unit and n.nunique() == 1 and not self.read.axes else None
            return errors_axes(self._models, xlabel=f"mean {self.read.score}", n=ceiling, figsize=figsize, ax=ax)
        if self.comparison is None:
            raise NotAvailableError("this figure is of pairs, and there is one model. Add the answers of another one.")
        return differences_axes(self._pairs, alpha=self.alpha, detectable=self.detectable, figsize=figsize, ax=ax)

    def __repr__(self) -> str:
        of = f"{self.read.table.mean.shape[1]} questions"
        return f"<Noise: {self.read.score}, {of}, {len(self.read.names)} models>\n{whole_columns(self._models)}"


NONE_SEEN, ABOVE_ALL = "none seen", "> 100%"
HEADERS = ("answers", "questions", "total SE", "answers' share", "enough K")


def noise_summary(split: Noise, alpha: float) -> Summary:
    """Tables of models and pairs, and sentences on what they mean."""
    models, pairs = split.to_frame("models", alpha), split.to_frame("pairs", alpha)
    grids = [Grid(("model", "score", *HEADERS), tuple((str(name), *_cells(row)) for name, row in _rows(models)))]
    if 0 < len(pairs) <= MOST_ROWS:
        rows = tuple((" - ".join(map(str, name)), *_cells(row)) for name, row in _rows(pairs))
        grids += [Grid(("pair", "difference", *HEADERS), rows), _tests(pairs, alpha)]
    elif len(pairs):
        grids.append(_typical(pairs))
    cells = {cell for grid in grids for row in grid.rows for cell in row}
    said = _sentences(split, models, pairs, alpha, cells)
    return Summary("evalreg noise", tuple(_facts(split)), tuple(grids), tuple(said))


def _rows(frame: pd.DataFrame) -> list[tuple[Any, dict[Any, Any]]]:
    return list(zip(frame.index, frame.to_dict("records"), strict=True))


def _cells(row: dict[Any, Any]) -> tuple[str, ...]:
    """One row of the tables of parts: estimate, standard errors, share with its interval, answers that are enough."""
    estimate = row["score"] if "score" in row else row["difference"]
    data = NONE_SEEN if row["data_variance"] <= 0 else _known(row["se_data"])
    parts = (_known(row["se_prediction"]), data, _known(row["se_total"]))
    share = _known(row["prediction_share"], _percent, (row["share_lower"], row["share_upper"]))
    # Of pairs there is no room for the interval of K on 80 columns; `to_frame` has it.
    ends = (row["enough_lower"], row["enough_upper"]) if "score" in row else np.nan
    return number(estimate), *parts, share, _known(row["enough_answers"], "{:.0f}".format, ends)


def _known(value: float, text: Callable[[float], str] = number, ends: Any = np.nan) -> str:
    """A value, and its interval where there is one."""
    if np.isnan(value):
        return "unknown"
    return text(value) + ("" if np.isnan(ends).any() else f" [{', '.join(map(text, ends))}]")


def _percent(share: float) -> str:
    """A share, which as an estimate without bias can come out above the whole."""
    return ABOVE_ALL if share > 1 else f"{share:.0%}"


def _tests(pairs: pd.DataFrame, alpha: float) -> Grid:
    rows = []
    for name, row in _rows(pairs):
        signs = "" if not row["paired"] else f"{row['wins']:.0f}:{row['losses']:.0f}"
        p = (p_value(row["p_value"], alpha), signs, p_value(row["sign_p_value"], alpha))
        rows.append((" - ".join(map(str, name)), fixed(row["z"], 2), *p, number(row["detectable"]), f"{row['n']:.0f}"))
    return Grid(("model - baseline", "z", "p", "wins:losses", "sign p", "detectable", "n"), tuple(rows))


def _typical(pairs: pd.DataFrame) -> Grid:
    """Quantiles over pairs, each column by itself."""
    columns: dict[str, Callable[[float], str]] = dict.fromkeys(("se_prediction", "se_data", "se_total"), number)
    columns |= {"prediction_share": _percent, "enough_answers": "{:.0f}".format, "detectable": number}
    rows = []
    for name, q in (("lowest", 0.0), ("quarter", 0.25), ("median", 0.5), ("three quarters", 0.75), ("highest", 1.0)):
        values = (pairs[column].dropna().quantile(q, interpolation="higher") for column in columns)
        rows.append((name, *(_known(float(value), text) for value, text in zip(values, columns.values(), strict=True))))
    return Grid((f"{len(pairs)} pairs", *HEADERS, "detectable"), tuple(rows))


def _facts(split: Noise) -> list[tuple[str, str]]:
    answers = split.read.table.count[split.read.table.count > 0]
    low, high = int(answers.min()), int(answers.max())
    axes = split.read.axes
    dropped = int(split.results.dropped.drop("subset", errors="ignore").sum())
    subset = split.results.estimate.about.subset
    facts = [
        ("Score", split.read.score),
        ("Questions", f"{split.read.table.count.shape[1]}"),
        ("Models", f"{len(split.read.names)}"),
        ("Answers to each", f"{low}" if low == high else f"{low} to {high}"),
        ("Clusters", " + ".join(axis_name(axis) for axis in axes) or "none (each question its own)"),
        ("Rows dropped", f"{dropped}" if dropped else "none"),
        *([("Subset", subset)] if subset else []),
    ]
    if split.comparison is not None:
        facts.append(("Detectable", f"{number(split.detectable)} (power {split.power:g}, level {split.alpha:g})"))
    return facts


def _sentences(split: Noise, models: pd.DataFrame, pairs: pd.DataFrame, alpha: float, cells: set[str]) -> list[str]:
    """What a careful reader asks; `cells` are those of the tables, whose words are explained."""
    known = bool(models["prediction_share"].notna().any())
    intervals = any(frame[["share_lower", "enough_lower"]].notna().to_numpy().any() for frame in (models, pairs))
    said = [
        "answers and questions: the standard error from other answers to the same questions, and from other questions. "
        "Their squares add up to that of the total SE."
        if known
        else "There is one answer to each question, so the noise of answers cannot be told from that of questions. "
        "The total SE includes both. With two answers or more to each question it can be split."
    ]
    if known:
        said.append(
            "enough K: with this many answers to each question their noise is 5% of the variance or less."
            + (f" In brackets {100 * (1 - alpha):g}% intervals." if intervals else "")
        )
    said += _benchmark(split, pairs)
    said += _single(models) if known else []
    said += [] if len(split.read.axes) > 1 else _too_few(models, pairs)
    if any(cell.startswith(ABOVE_ALL) for cell in cells):
        said.append(
            f"{ABOVE_ALL}: the noise of the answers is estimated by itself, and came out larger than all the variance "
            "that shows. Take it as nearly all; no number of answers is known to be enough (inf)."
        )
    if split.read.axes and known:
        said.append("Answers to different questions are taken to be independent of each other given the questions.")
    if split.comparison is not None:
        said += split.comparison.results.estimate.about.lines
    return list(dict.fromkeys([*said, *(text for _, text in split.notes)]))


def _benchmark(split: Noise, pairs: pd.DataFrame) -> list[str]:
    """What this benchmark can show."""
    if not len(pairs) or np.isnan(split.detectable):
        return []
    which = "this pair" if len(pairs) == 1 else f"a typical pair (the median of {len(pairs)})"
    text = (
        f"A true difference of {number(split.detectable)} between two models comes out at p < {split.alpha:g} with a "
        f"chance of {split.power:g}, for {which}."
    )
    if len(pairs) > 1 and not np.isnan(split.smallest_shown):
        text += (
            f" The smallest difference with p < {split.alpha:g} here is {number(split.smallest_shown)}: the luckiest "
            f"of {len(pairs)} pairs, not a promise for others."
        )
    comparison = split.comparison
    scored = comparison is not None and comparison.results.cov.widths().scored is not None
    return [text] + ["z is the difference over its total SE; p is by the score test of `compare`, not by z."] * scored


def _too_few(models: pd.DataFrame, pairs: pd.DataFrame) -> list[str]:
    """Which shares have no interval, and why."""
    none = [frame.index[frame["prediction_share"].notna() & frame["share_lower"].isna()] for frame in (models, pairs)]
    of_pairs = int(pairs["paired"].reindex(none[1]).sum()) if len(pairs) else 0
    names = listed(map(str, none[0])) if len(none[0]) else ""
    which = " and of ".join(filter(None, (names, f"{of_pairs} of {len(pairs)} pairs" if of_pairs else "")))
    if not which:
        return []
    return [
        f"The answers' share of {which} has no interval: fewer than {FEWEST_APART} questions or clusters have another "
        "mean than the usual one. The share, and enough K, may be far off there."
    ]


def _single(models: pd.DataFrame) -> list[str]:
    """Of which models the parts are unknown, and why."""
    some = models[models["n_single"] > 0]
    if some.empty:
        return []
    name, worst = max(_rows(some), key=lambda row: row[1]["n_single"])
    return [
        f"unknown: {listed(map(str, some.index))} gave a single answer to some questions (to {worst['n_single']:.0f} "
        f"of {worst['n']:.0f} in the case of {name}), which does not tell the "
        "noise of that answer. The total SE is valid. Sample those again, or leave them out if they are like the rest."
    ]
