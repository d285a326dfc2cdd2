"""Variance components of two models on the same questions: what power needs to know of a pilot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from evalreg.checks import MISSING, BoolArray, FloatArray, IntArray, MissingName, listed, option
from evalreg.data.clusters import Axis, Codes, axis_name, joint, pair_codes
from evalreg.data.frame import Table
from evalreg.data.groups import parse_groups
from evalreg.data.joint_ids import with_joint_ids
from evalreg.data.names import or_one_model
from evalreg.data.opening import open_frame
from evalreg.data.repeats import refuse_questions
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.data.rows import ReadRows, read_rows
from evalreg.errors import (
    AlignmentError,
    ArgumentError,
    ArgumentTypeError,
    DataError,
    DuplicateRowsError,
    EmptyDataError,
    MissingColumnError,
    TooFewClustersError,
)

COLUMNS = ("omega2", "omega2_uncorrected", "sigma2_a", "sigma2_b", "k_a", "k_b", "n", "n_clusters")
# Of one model, which is what it is against a model whose answers all score 0.
ONE_MODEL = {
    "omega2": "omega2",
    "omega2_uncorrected": "omega2_uncorrected",
    "sigma2_a": "sigma2",
    "k_a": "k",
    "n": "n",
    "n_clusters": "n_clusters",
}


@dataclass(frozen=True, eq=False)
class PairedAnswers:
    """Answers of two models to the same questions, one row each."""

    score: FloatArray  # (n_rows,): scores without missing ones
    side: IntArray  # (n_rows,): 0 for model A, 1 for model B
    question: Codes  # of the rows
    sample: Codes
    cluster: Codes  # of the questions

    @property
    def cell(self) -> IntArray:
        """Model and question of each row: side * n_questions + question."""
        return np.asarray(self.side * self.question.n_clusters + self.question.codes, dtype=np.intp)

    @property
    def count(self) -> FloatArray:
        """Answers K of each model to each question, shape (2, n_questions)."""
        return np.bincount(self.cell, minlength=2 * self.question.n_clusters).astype(float).reshape(2, -1)


@dataclass(frozen=True)
class Components:
    """Variance components on the scale on which 1/n gives the variance of a mean."""

    var_a: float  # variances over questions of the two models' question means, and their covariance
    var_b: float
    cov: float
    omega2_uncorrected: float  # variance over questions of the difference of the question means: var_a + var_b - 2 cov
    sigma2_a: float  # variance of one answer within its question, averaged over questions
    sigma2_b: float
    noise_a: float  # what that leaves in a question mean: sigma2/K for K answers to each question
    noise_b: float
    k_a: float  # answers to each question; their harmonic mean where it differs
    k_b: float
    n: int  # questions, and clusters of them
    n_clusters: int

    @property
    def omega2(self) -> float:
        """Variance over questions of the difference in expected scores; may be 0 or less, as estimated."""
        return self.omega2_uncorrected - self.noise_a - self.noise_b

    def with_factor(self) -> Components:
        """Variances over questions times G/(G - 1): their cluster sums were centred at their mean; noise was not."""
        factor = self.n_clusters / (self.n_clusters - 1)
        over = {name: factor * getattr(self, name) for name in ("var_a", "var_b", "cov", "omega2_uncorrected")}
        return replace(self, **over)


def components(
    data: Any,
    score: str = "score",
    *,
    model: str | None = "model",
    item: str = "item",
    sample: str = "sample",
    groups: str | None = None,
    baseline: str | None = None,
    ssc: Literal["none", "G"] = "none",
    missing: MissingName = "drop",
) -> pd.DataFrame:
    """Variance components of the difference between two models, or of one, from a pilot with repeated answers.

    In the row "plain" questions are independent: variances over questions divide by n - 1, as in eq. 1 of the paper.
    "clustered" is appendix C: sums within clusters are squared and divided by n. As published it has no small-sample
    factor, and is low by a share of 1/G: `from_pilot` multiplies by G/(G - 1), and allows for the error of so few
    clusters. Who plugs the row into `sample_size` or `mde` takes `ssc="G"`.

    Parameters
    ----------
    data : data frame
        In memory: pandas, polars, pyarrow; or a dict of arrays. One row for each answer, of two models or of one.
    score : str, optional
        Column of scores; booleans count as 0 and 1.
    model, item, sample : str, optional
        Columns of the models, the questions, and the ids of the answers to a question. Each model needs at least 2
        answers to each question. `model=None` where all rows are of one model, whose score is then planned for.
    groups : str, optional
        Column of the clusters of questions, or columns joined by a colon. By default each question is its own.
    baseline : str, optional
        The model called B. By default B is the second of the two in text order.
    ssc : {"none", "G"}, optional
        Factor of the variances over questions in the row "clustered": none, the default, as published; "G" is
        G/(G - 1) for G clusters. `from_pilot` gives the same plan with either.
    missing : {"drop", "raise"}, optional
        What to do with rows whose score, label or cluster id is missing; dropped rows are counted.

    Returns
    -------
    pandas.DataFrame
        Rows "plain" and "clustered", and columns

        - `omega2`: variance over questions of the difference in expected scores, that is `omega2_uncorrected` less
          the answer noise; reported as estimated, and 0 or less where noise hides the rest.
        - `omega2_uncorrected`: the same of the observed question means, as the paper has it: too large by the noise
          of K answers.
        - `sigma2_a`, `sigma2_b`: variance of one answer within its question, averaged over questions.
        - `k_a`, `k_b`: answers to each question in the pilot; their harmonic mean where it differs.
        - `n`, `n_clusters`: questions answered by both models, and clusters of them ("plain": questions).

        Of one model the columns are `omega2`, `omega2_uncorrected`, `sigma2`, `k`, `n` and `n_clusters`; the variance
        of its mean score over n questions with k answers each is (omega2 + sigma2/k)/n.

        `.attrs["models"]` are the names of A and B (none of one model), `.attrs["left_out"]` the number of questions
        that only one of them answered, and `.attrs["dropped"]` the numbers of rows by reason. With `ssc="G"`,
        `.attrs["ssc"]` says so.

    Raises
    ------
    DataError
        If there are not exactly two models, a question has a single answer of a model, or there is one question.
    MissingColumnError, NonNumericError, NonFiniteError, EmptyDataError, DuplicateRowsError, AlignmentError,
    TooFewClustersError
        If the data break a rule; the message says which rows.
    ArgumentError, ArgumentTypeError
        If an argument breaks its rule; crossed groups are among these.

    Notes
    -----
    With s_i^2 the variance of the K_i answers to question i (denominator K_i - 1), plain sigma2 is the mean of s_i^2,
    and plain `omega2` subtracts the means of s_i^2/K_i of both models. The K_i may differ.

    The clustered sigma2 adds the products of deviations of answers with the same sample id to different questions of
    a cluster. This takes sample ids to mean the same thing in all questions, as one run or one seed does. Where they
    only count answers, these products are noise about 0, and the plain sigma2 says the same more precisely; the row
    "clustered" follows appendix C all the same. Ids that are different in every question leave no products. Where the
    K_i differ, a deviation counts with the weight (K_i - 1)^(-1/2), which is exact for the squares and shrinks the
    products somewhat.

    The clustered `omega2` subtracts clustered noise, a step that the paper does not take.

    References
    ----------
    Miller (2024), arXiv:2411.00640, section 3 (law of total variance), section 5 and appendix C.

    Examples
    --------
    >>> import evalreg as er
    >>> pilot = er.datasets.sampled(n_questions=400, n_samples=5, n_models=2, correlation=0.5, icc=0.2, seed=1)
    >>> found = er.plan.components(pilot, item="question", groups="passage")
    >>> print(found[["omega2", "omega2_uncorrected", "sigma2_a", "sigma2_b"]].round(4).to_string())
               omega2  omega2_uncorrected  sigma2_a  sigma2_b
    plain      0.0740              0.1419    0.1715     0.168
    clustered  0.0954              0.1604    0.1637     0.161
    >>> pilot.attrs["truth"]["omega2"], found.attrs["models"]
    (0.08333333333333333, ('model-1', 'model-2'))
    """
    option("missing", missing, MISSING)
    option("ssc", ssc, ("none", "G"))
    table = open_frame(data)
    if not isinstance(table, Table):
        raise ArgumentError("`data` must be in memory for variance components: collect the frame first.")
    table = with_joint_ids(table, model=model, item=item, sample=sample)
    axis = _axis(groups, table.columns)
    roles = tuple(name for name in (model, item, sample) if name is not None)
    if len(set(roles)) < len(roles):
        raise ArgumentError(
            f"`model`, `item` and `sample` must be different columns; got {listed((model, item, sample))}."
        )
    labels = {item: "item", sample: "sample"} | ({} if model is None else {model: "model"})
    split = () if model is None else (model,)
    with or_one_model(model):
        read = read_rows(table, {"score": score}, labels=labels, groups=groups, missing=missing, split=split)
    if model is None:
        answers, attrs = _answers_of_one(read, (item, sample), axis, baseline)
    else:
        answers, attrs = _answers(read, (model, item, sample), axis, baseline)
    _refuse_single(answers, attrs["models"])
    if axis is not None and answers.cluster.n_clusters < 2:
        raise TooFewClustersError(
            f'`groups="{axis_name(axis)}"` has 1 distinct value; at least 2 are needed. Use a finer column, or pass '
            "`groups=None` to treat questions as independent.",
            column=axis_name(axis),
            count=1,
        )
    rows = {"plain": plain_components(answers), "clustered": clustered_components(answers)}
    if ssc == "G":
        attrs["ssc"] = ssc
        rows["clustered"] = rows["clustered"].with_factor()
    frame = pd.DataFrame([[getattr(row, name) for name in COLUMNS] for row in rows.values()], list(rows), list(COLUMNS))
    if model is None:
        frame = frame[list(ONE_MODEL)].rename(columns=ONE_MODEL)
    frame.attrs.update(attrs)
    return frame


def plain_components(answers: PairedAnswers) -> Components:
    """Components when questions are independent. Miller (2024), arXiv:2411.00640, eq. 1 and section 5."""
    centred, residual = _deviations(answers)
    n = answers.question.n_clusters
    return _components(answers, centred, n - 1, residual, answers.side, n)


def clustered_components(answers: PairedAnswers) -> Components:
    """Components when questions within a cluster may be dependent. Miller (2024), arXiv:2411.00640, appendix C."""
    centred, residual = _deviations(answers)
    cluster, n = answers.cluster, answers.question.n_clusters
    totals = np.array([np.bincount(cluster.codes, row, cluster.n_clusters) for row in centred], dtype=float)
    # The same answer id of one model within one cluster: summed before squaring, the cross terms of appendix C.
    run = pair_codes(
        cluster.codes[answers.question.codes], cluster.n_clusters, answers.sample.codes, answers.sample.n_clusters
    )
    key = answers.side * run.n_clusters + run.codes
    summed = np.array([np.bincount(key, weighted, 2 * run.n_clusters) for weighted in residual], dtype=float)
    return _components(answers, totals, n, summed, np.repeat([0, 1], run.n_clusters), cluster.n_clusters)


def _deviations(answers: PairedAnswers) -> tuple[FloatArray, FloatArray]:
    """Question means about their mean, shape (2, n); answers about theirs, weighted for sigma2 and sigma2/K."""
    cell, count = answers.cell, answers.count
    mean = np.bincount(cell, answers.score, count.size).reshape(count.shape) / count
    residual = answers.score - mean.ravel()[cell]
    k = count.ravel()[cell]
    weighted = np.stack([residual / np.sqrt(k - 1), residual / np.sqrt(k * (k - 1))])
    return mean - mean.mean(axis=1, keepdims=True), weighted


def _components(
    answers: PairedAnswers, totals: FloatArray, divisor: int, sums: FloatArray, side: IntArray, n_clusters: int
) -> Components:
    """Components from what is squared: totals of question means, shape (2, m), and sums of residuals of each side."""
    n, count = answers.question.n_clusters, answers.count
    var_a, var_b, cov = (float(totals[i] @ totals[j]) / divisor for i, j in ((0, 0), (1, 1), (0, 1)))
    # Of the difference itself: the sum of the three would lose digits where the models are nearly alike.
    difference = totals[0] - totals[1]
    sigma2, noise = (np.bincount(side, squared, 2) / n for squared in sums**2)
    fewest = count.min(axis=1)
    k_a, k_b = fewest * n / (fewest[:, None] / count).sum(axis=1)
    return Components(
        var_a=var_a,
        var_b=var_b,
        cov=cov,
        omega2_uncorrected=float(difference @ difference) / divisor,
        sigma2_a=float(sigma2[0]),
        sigma2_b=float(sigma2[1]),
        noise_a=float(noise[0]),
        noise_b=float(noise[1]),
        k_a=float(k_a),
        k_b=float(k_b),
        n=n,
        n_clusters=n_clusters,
    )


def _axis(groups: object, columns: tuple[str, ...]) -> Axis | None:
    """The columns whose joint values are the clusters."""
    if groups is None:
        return None
    if not isinstance(groups, str):
        raise ArgumentTypeError(
            f"`groups` must be the name of a column here; got {type(groups).__name__}. Add the labels to the data."
        )
    axes = parse_groups(groups, columns)
    if len(axes) > 1:
        raise ArgumentError(
            f"`groups` must name one clustering for variance components; got {listed(map(axis_name, axes))}. Appendix "
            'C has no crossed form: use the one that matters most, or a joint id such as "language:question".'
        )
    return axes[0]


def _answers(
    every: ReadRows, roles: tuple[str, str, str], axis: Axis | None, baseline: object
) -> tuple[PairedAnswers, dict[str, Any]]:
    """The answers to questions that both models answered, and what was left aside."""
    models, side = _two_models(every.used[roles[0]], roles[0], baseline)
    both, left_out = _shared(side, every.used[roles[1]], roles[1], models)
    used, side = every.only(both), side[both]
    values, rows = used.values["score"], used.source.positions()
    question, sample = used.used[roles[1]], used.used[roles[2]]
    _refuse_repeats(joint([Codes(side, 2), question, sample]), roles, rows)
    refuse_questions(values, Codes(side, 2), question, sample, (roles[1], roles[2]))
    attrs = {"models": models, "left_out": left_out, "dropped": every.dropped}
    return PairedAnswers(values, side, question, sample, _clusters(used, question, axis)), attrs


def _answers_of_one(
    used: ReadRows, roles: tuple[str, str], axis: Axis | None, baseline: object
) -> tuple[PairedAnswers, dict[str, Any]]:
    """The answers of one model, beside as many answers of none that all score 0; and what was left aside."""
    if baseline is not None:
        raise ArgumentError(f"`baseline` names one of two models; got {baseline!r} with model=None. Leave it out.")
    question, sample, values = used.used[roles[0]], used.used[roles[1]], used.values["score"]
    if question.n_clusters < 2:
        raise DataError(f"variance over questions needs at least 2 questions; column {roles[0]!r} holds 1.", count=1)
    own = Codes(np.zeros(values.size, dtype=np.intp), 1)
    _refuse_repeats(joint([question, sample]), roles, used.source.positions())
    refuse_questions(values, own, question, sample, roles)
    cluster = _clusters(used, question, axis)
    twice = [replace(codes, codes=np.tile(codes.codes, 2)) for codes in (question, sample)]
    scores, side = np.concatenate([values, np.zeros(values.size)]), np.repeat([0, 1], values.size)
    attrs = {"models": (), "left_out": 0, "dropped": used.dropped}
    return PairedAnswers(scores, side, twice[0], twice[1], cluster), attrs


def _clusters(used: ReadRows, question: Codes, axis: Axis | None) -> Codes:
    """Clusters of the questions; each its own without an axis."""
    if axis is None:
        return Codes(np.arange(question.n_clusters), question.n_clusters)
    return _of_questions(joint([used.used[name] for name in axis]), question, axis_name(axis), used.source.positions())


def _two_models(codes: Codes, column: str, baseline: object) -> tuple[tuple[str, str], IntArray]:
    """Names of A and B, and the side of each row."""
    names = sorted(codes.label(code) for code in range(codes.n_clusters))
    if len(names) != 2:
        remedy = (
            f"Keep the rows of two of them, such as {listed(names[:2], joiner=' and ')}."
            if len(names) > 2
            else "Add the answers of a second model to the same questions, or pass model=None for its own components."
        )
        raise DataError(
            f"variance components of a difference need exactly 2 models; column {column!r} holds {len(names)} "
            f"({listed(names)}). {remedy}",
            column=column,
            count=len(names),
        )
    if names[0] == names[1]:
        raise DataError(
            f"labels must be distinct as text; both models of column {column!r} read {names[0]!r}. Convert the column "
            "to one type first.",
            column=column,
            count=2,
        )
    if baseline is not None and not isinstance(baseline, str):
        raise ArgumentTypeError(f"`baseline` must be the name of a model; got {type(baseline).__name__} {baseline!r}.")
    if baseline is not None and baseline not in names:
        raise MissingColumnError(
            f"`baseline` must be one of the two models, {listed(names, joiner=' and ')}; got {baseline!r}.",
            column=column,
        )
    a, b = names if baseline in (None, names[1]) else names[::-1]
    side = codes.codes if codes.label(0) == a else 1 - codes.codes
    return (a, b), np.asarray(side, dtype=np.intp)


def _shared(side: IntArray, question: Codes, column: str, models: tuple[str, str]) -> tuple[BoolArray, int]:
    """Rows of questions that both models answered, and the number of the other questions."""
    n = question.n_clusters
    answered = np.bincount(side * n + question.codes, minlength=2 * n).reshape(2, n) > 0
    both = answered[0] & answered[1]
    n_both = int(both.sum())
    if n_both < 2:
        counts = " and ".join(
            f"{name!r} answered {count}" for name, count in zip(models, answered.sum(axis=1), strict=True)
        )
        kind = DataError if n_both else EmptyDataError
        raise kind(
            f"at least 2 questions must have answers of both models; {n_both or 'none'} has ({counts}). A question "
            f"needs the same id in column {column!r} for both.",
            column=column,
            count=n_both,
        )
    return both[question.codes], n - n_both


def _refuse_repeats(key: Codes, roles: tuple[str, ...], rows: IntArray) -> None:
    """Each answer of a model to a question has its own sample id."""
    if key.n_clusters == key.codes.size:
        return
    again = np.ones(key.codes.size, dtype=bool)
    again[key.first] = False
    count = int(again.sum())
    named = [int(row) for row in rows[np.flatnonzero(again)[:5]]]
    raise DuplicateRowsError(
        f"there must be one row for each {' and '.join(map(repr, roles))}; {count} row"
        f"{'s repeat' if count > 1 else ' repeats'} an earlier one ({rows_text(named, count)}). Remove the copies, or "
        "give each answer its own sample id.",
        column=roles[-1],
        rows=named,
        count=count,
    )


def _of_questions(codes: Codes, question: Codes, name: str, rows: IntArray) -> Codes:
    """Clusters of the questions, from those of their rows, which must agree."""
    by_question = codes.codes[question.first]
    differ = by_question[question.codes] != codes.codes
    if differ.any():
        where, count = row_list(differ)
        named = [int(row) for row in rows[where]]
        raise AlignmentError(
            f"`groups` must be the same in all answers to a question; {name!r} differs within a question in "
            f"{rows_text(named, count)}. Where ids of questions restart in each cluster, make them unique first; "
            "otherwise use a coarser cluster.",
            column=name,
            rows=named,
            count=count,
        )
    return Codes(by_question, codes.n_clusters)


def _refuse_single(answers: PairedAnswers, models: tuple[str, ...]) -> None:
    """Answer noise cannot be told from one answer."""
    single = answers.count[: max(len(models), 1)] < 2
    if not single.any():
        return
    if not models:
        count, first = int(single.sum()), int(np.flatnonzero(single[0])[0])
        raise DataError(
            f"variance components need at least 2 answers to each question; {count} of {single.size} questions have 1 "
            f"(the first: {answers.question.label(first)!r}). Sample them again or leave those questions out. With one "
            "answer to every question, plan for k of 1 with the variance of the scores as `omega2`, which holds the "
            "answer noise: neither part can be larger than it.",
            count=count,
        )
    count = int(single.sum())
    side, question = (int(index[0]) for index in np.nonzero(single))
    raise DataError(
        f"variance components need at least 2 answers of each model to each question; {count} of {single.size} pairs "
        f"of model and question have 1 (the first: {models[side]!r}, {answers.question.label(question)!r}). Sample "
        "them again or leave those questions out. With one answer to every question, plan for k of 1 with the variance "
        "of the paired differences as `omega2`, which holds the answer noise.",
        count=count,
    )
