"""Variance components of two models on the same questions: what power needs to know of a pilot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from evalreg.checks import MISSING, FloatArray, IntArray, MissingName, option
from evalreg.data.clusters import pair_codes
from evalreg.data.paired_answers import PairedAnswers, read_paired_answers

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
    answers, attrs = read_paired_answers(data, score, (model, item, sample), groups, baseline, missing)
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
