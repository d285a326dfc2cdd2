"""Simulated scores of models on the same questions, once or several times."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import scipy

from evalreg.checks import FloatArray, IntArray
from evalreg.datasets.making import by_name, companions, generator, ids, label_column, whole, with_truth, within

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


def paired(
    *,
    n_passages: int = 40,
    questions_per_passage: int = 5,
    difference: float = 0.03,
    mean: float = 0.7,
    correlation: float = 0.5,
    icc: float = 0.2,
    seed: int | np.random.Generator = 0,
) -> pd.DataFrame:
    """Simulated 0/1 scores of two models, "old" and "new", on the same questions.

    The data are simulated, by a Gaussian copula. Behind every score lies a standard normal difficulty, the sum of a
    passage effect (share `icc` of its variance) and a question effect; the score is 1 where the difficulty is below
    the normal quantile of the model's mean. `correlation` and `icc` are those of the difficulties: both effects of one
    model correlate by `correlation` with those of the other. Scores of 0 or 1 correlate less; what they come to is in
    the truth.

    Parameters
    ----------
    n_passages : int, optional
        Number of passages, 40 by default; at least 1.
    questions_per_passage : int, optional
        Questions in each passage, 5 by default; at least 1.
    difference : float, optional
        Expected score of "new" minus that of "old", 0.03 by default; `mean + difference` must lie in (0, 1).
    mean : float, optional
        Expected score of "old", in (0, 1); 0.7 by default.
    correlation : float, optional
        Latent correlation of the two models over questions, in [-1, 1]; 0.5 by default.
    icc : float, optional
        Latent intraclass correlation within passages, in [0, 1); 0.2 by default.
    seed : int or numpy.random.Generator, optional
        0 by default.

    Returns
    -------
    pandas.DataFrame
        One row per model and question. Columns `model`, `passage`, `question` (unique over all passages) and `score`.
        `.attrs["truth"]` holds `mean` by model; `difference`; `correlation` of the two scores of a question; `icc` of
        the scores by model; `standard_error` of the mean by model and `difference_standard_error`, both with passages
        taken as drawn; `latent_correlation` and `latent_icc`, as asked for.

    Raises
    ------
    ArgumentError
        If a count is below 1, `mean` or `mean + difference` is outside (0, 1), `correlation` is outside [-1, 1],
        `icc` is outside [0, 1), or `seed` is negative.
    ArgumentTypeError
        If a count or a number is something else, or `seed` is neither a whole number nor a Generator.

    References
    ----------
    Miller (2024), arXiv:2411.00640, section 4 (paired differences).
    Plackett (1954), Biometrika 41, 351-360 (the covariance of the scores from that of the difficulties).

    Examples
    --------
    >>> from evalreg import datasets
    >>> log = datasets.paired(n_passages=30, questions_per_passage=4, difference=0.05)
    >>> log.shape
    (240, 4)
    >>> log.attrs["truth"]["difference"]
    0.05
    """
    rng, used_seed = generator(seed)
    n_passages = whole("n_passages", n_passages)
    questions_per_passage = whole("questions_per_passage", questions_per_passage)
    mean, icc = within("mean", mean, "(0, 1)"), within("icc", icc, "[0, 1)")
    difference = within("difference", difference, "(-1, 1)")
    correlation = within("correlation", correlation, "[-1, 1]")
    means = np.array([mean, within("mean + difference", mean + difference, "(0, 1)")])

    codes = np.repeat(np.arange(n_passages), questions_per_passage)
    cut = scipy.special.ndtri(means)
    score = _difficulty(rng, codes, correlation, icc) < cut[:, None]
    models = ["old", "new"]
    model, question = np.divmod(np.arange(score.size), len(codes))
    columns = {
        "model": label_column(models, model),
        "passage": label_column(ids("passage", n_passages), codes[question]),
        "question": label_column(ids("question", len(codes), 4), question),
        "score": score.ravel().astype(np.float64),
    }

    def covariance(i: int, j: int, r: float) -> float:
        return _score_covariance(cut[i], cut[j], r)

    variance = means * (1 - means)
    of_means = _mean_covariance(covariance, codes, correlation, icc)
    truth = {
        "mean": by_name(models, means),
        "difference": difference,
        "correlation": covariance(0, 1, correlation) / math.sqrt(variance.prod()),
        "icc": by_name(models, [covariance(i, i, icc) / variance[i] for i in range(2)]),
        "standard_error": by_name(models, np.sqrt(of_means.diagonal())),
        "difference_standard_error": _difference_error(of_means),
        "latent_correlation": correlation,
        "latent_icc": icc,
    }
    return with_truth(columns, truth, used_seed)


def sampled(
    *,
    n_questions: int = 100,
    n_samples: int = 4,
    n_models: int = 1,
    questions_per_passage: int = 5,
    correlation: float = 0.5,
    icc: float = 0.0,
    seed: int | np.random.Generator = 0,
) -> pd.DataFrame:
    """Simulated 0/1 scores of answers sampled several times to each question.

    The data are simulated. Model m answers question i rightly with a probability x_mi that is uniform on [0, 1]; given
    x, sampled answers are independent. So Var(x) = 1/12, and an answer varies about its x by E[sigma^2] = 1/6 on
    average. `correlation` and `icc` are Pearson correlations of x, reached exactly through a Gaussian copula.

    Parameters
    ----------
    n_questions : int, optional
        Number of questions, 100 by default; at least 1.
    n_samples : int, optional
        Answers K sampled to each question by each model, 4 by default; at least 1.
    n_models : {1, 2}, optional
        Number of models, 1 by default.
    questions_per_passage : int, optional
        Questions in each passage, 5 by default; at least 1. The last passage takes what is left.
    correlation : float, optional
        Correlation of the two models' x over questions, in [-1, 1]; 0.5 by default. One model ignores it.
    icc : float, optional
        Correlation of the x of two questions of one passage, in [0, 1). 0, the default, makes questions independent.
    seed : int or numpy.random.Generator, optional
        0 by default.

    Returns
    -------
    pandas.DataFrame
        One row per answer. Columns `model`, `question` (unique over all passages), `passage`, `sample` (repeats in
        every question) and `score`. `.attrs["truth"]` holds `mean` by model; `var_x`; `sigma2`, which is E[sigma^2];
        `icc_x`; and `standard_error` of the mean by model, (var_x + sigma2/K)/n under the root when `icc` is 0. With
        two models also `difference` (0), `correlation_x`, `omega2` (the variance over questions of the difference of
        the x) and `difference_standard_error`.

    Raises
    ------
    ArgumentError
        If a count is below 1, `n_models` is above 2, `correlation` is outside [-1, 1], `icc` is outside [0, 1), or
        `seed` is negative.
    ArgumentTypeError
        If a count or a number is something else, or `seed` is neither a whole number nor a Generator.

    References
    ----------
    Miller (2024), arXiv:2411.00640, section 3.
    Kruskal (1958), Journal of the American Statistical Association 53, 814-861 (the correlation of the uniforms under
    two normals of correlation r is (6/pi) arcsin(r/2)).

    Examples
    --------
    >>> from evalreg import datasets
    >>> log = datasets.sampled(n_questions=50, n_samples=3)
    >>> log.shape
    (150, 5)
    >>> round(log.attrs["truth"]["var_x"] * 12, 6), round(log.attrs["truth"]["sigma2"] * 6, 6)
    (1.0, 1.0)
    """
    rng, used_seed = generator(seed)
    n_questions, n_samples = whole("n_questions", n_questions), whole("n_samples", n_samples)
    n_models = whole("n_models", n_models, 1, 2)
    questions_per_passage = whole("questions_per_passage", questions_per_passage)
    latent_correlation = _latent(within("correlation", correlation, "[-1, 1]"))
    latent_icc = _latent(within("icc", icc, "[0, 1)"))

    codes = np.arange(n_questions) // questions_per_passage
    x = np.asarray(1 - scipy.special.ndtr(_difficulty(rng, codes, latent_correlation, latent_icc)[:n_models]))
    score = rng.random((n_models, n_questions, n_samples)) < x[..., None]
    models = ids("model", n_models, 1)
    model, question, sample = (index.ravel() for index in np.indices(score.shape))
    columns = {
        "model": label_column(models, model),
        "question": label_column(ids("question", n_questions, 4), question),
        "passage": label_column(ids("passage", codes[-1] + 1), codes[question]),
        "sample": label_column(ids("sample", n_samples, 1), sample),
        "score": score.ravel().astype(np.float64),
    }
    var_x, sigma2 = 1 / 12, 1 / 6
    of_means = _mean_covariance(lambda i, j, r: _uniform_covariance(r), codes, latent_correlation, latent_icc)
    of_means += np.eye(2) * sigma2 / (n_samples * n_questions)
    truth: dict[str, Any] = {
        "mean": dict.fromkeys(models, 0.5),
        "var_x": var_x,
        "sigma2": sigma2,
        "icc_x": float(icc),
        "standard_error": by_name(models, np.sqrt(of_means.diagonal()[:n_models])),
    }
    if n_models == 2:
        truth |= {
            "difference": 0.0,
            "correlation_x": float(correlation),
            "omega2": 2 * var_x * (1 - float(correlation)),
            "difference_standard_error": _difference_error(of_means),
        }
    return with_truth(columns, truth, used_seed)


def _difficulty(rng: np.random.Generator, codes: IntArray, correlation: float, icc: float) -> FloatArray:
    """Standard normals, shape (2, n_questions): `icc` within a passage, `correlation` between the rows."""

    def effects(count: int) -> FloatArray:
        first, own = rng.standard_normal((2, count))
        return np.stack([first, correlation * first + math.sqrt(1 - correlation**2) * own])

    return math.sqrt(icc) * effects(codes[-1] + 1)[:, codes] + math.sqrt(1 - icc) * effects(len(codes))


def _mean_covariance(
    covariance: Callable[[int, int, float], float], codes: IntArray, correlation: float, icc: float
) -> FloatArray:
    """Covariance of the two means, from that of scores of models i and j whose difficulties correlate by r."""
    others = companions(codes)

    def entry(i: int, j: int) -> float:
        r = 1.0 if i == j else correlation
        return (covariance(i, j, r) + others * covariance(i, j, icc * r)) / len(codes)

    return np.array([[entry(i, j) for j in range(2)] for i in range(2)])


def _difference_error(of_means: FloatArray) -> float:
    """Standard error of the difference of two means."""
    return math.sqrt(max(0.0, of_means.trace() - 2 * of_means[0, 1]))


def _score_covariance(cut_a: float, cut_b: float, r: float) -> float:
    """Covariance of the indicators that normals of correlation r lie below their cuts (Plackett 1954)."""
    if abs(r) == 1:  # The integrand is then a step, which the nodes would miss.
        below_a, below_b = float(scipy.special.ndtr(cut_a)), float(scipy.special.ndtr(cut_b))
        both = min(below_a, below_b) if r > 0 else max(0.0, below_a + below_b - 1)
        return both - below_a * below_b
    end = math.asin(r)
    angle = end * (_NODES + 1) / 2
    exponent = (cut_a**2 + cut_b**2 - 2 * cut_a * cut_b * np.sin(angle)) / (2 * np.cos(angle) ** 2)
    return float(end / 2 * (_WEIGHTS @ np.exp(-exponent)) / (2 * math.pi))


def _uniform_covariance(r: float) -> float:
    """Covariance of the uniforms under two normals of correlation r."""
    return math.asin(r / 2) / (2 * math.pi)


def _latent(pearson: float) -> float:
    """Correlation of two normals whose uniforms have this Pearson correlation."""
    return 2 * math.sin(math.pi * pearson / 6)
