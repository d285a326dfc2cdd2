"""Logs that are drawn from worlds whose true values are known: of one model, of several, of judges."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
import scipy
from pandas.api.extensions import ExtensionArray

from evalreg.checks import FloatArray, IntArray, checked_number, whole_number
from evalreg.inference.simultaneous import base_seed

# What simulated logs share: their arguments checked, ids of one length, the truth beside the rows


def generator(seed: int | np.random.Generator) -> tuple[np.random.Generator, int | None]:
    """Generator to draw from, and the seed when it was a number."""
    if isinstance(seed, np.random.Generator):
        return seed, None
    base, shown = base_seed(seed)
    return np.random.default_rng(base), shown


def within(name: str, value: float, interval: str) -> float:
    """A number in an interval written as "[0, 1)", or an error."""
    low, high = (float(end) for end in interval[1:-1].split(","))
    least = low if interval[0] == "[" else math.nextafter(low, math.inf)
    most = high if interval[-1] == "]" else math.nextafter(high, -math.inf)
    return checked_number(name, value, f"lie in {interval}", least=least, most=most)


def ids(prefix: str, count: int, width: int = 3) -> list[str]:
    """Ids "passage-001", "passage-002", ..., all of one length."""
    template = f"{prefix}-%0{max(width, len(str(count)))}d"
    return [template % number for number in range(1, count + 1)]


def label_column(names: list[str], codes: IntArray | None = None) -> ExtensionArray:
    """Column of names, one per code."""
    labels = pd.Series(names).array
    return labels if codes is None else labels.take(codes)


def with_truth(columns: dict[str, Any], truth: dict[str, Any], seed: int | None) -> pd.DataFrame:
    """The columns as a frame that carries its truth and its seed."""
    frame = pd.DataFrame(columns)
    frame.attrs = {"truth": truth, "seed": seed}
    return frame


def by_name(names: list[str], values: Iterable[float]) -> dict[str, float]:
    """Numbers by the names that they belong to."""
    return {name: float(value) for name, value in zip(names, values, strict=True)}


def companions(codes: IntArray) -> float:
    """Other questions of its passage that a question has, on average over questions."""
    return float(np.square(np.bincount(codes)).sum() / len(codes)) - 1


# Simulated scores of one model; those within a passage are alike


_SUBJECTS = ("history", "law", "medicine", "physics")
# Given its passage, a fractional score is Beta(p k, (1 - p) k) with this k, so its variance is p(1 - p)/(k + 1).
_FRACTION_PRECISION = 4.0
# Nearer than this to 0 or 1 the parameters of a Beta leave the range of floats, and its spread is past noticing.
_NO_SPREAD = 1e-12


def passages(
    *,
    n_passages: int = 60,
    questions_per_passage: int = 8,
    unequal: bool = False,
    mean: float = 0.7,
    icc: float = 0.2,
    binary: bool = True,
    seed: int | np.random.Generator = 0,
) -> pd.DataFrame:
    """Simulated scores of one model on questions grouped under reading passages.

    The data are simulated. Each passage draws a success rate from Beta(mean (1 - icc)/icc, (1 - mean)(1 - icc)/icc)
    and its questions are independent given that rate, so any two scores of one passage correlate by exactly `icc`.
    Subjects and the length of a passage have no effect on the score: a test of either should come out significant
    as often as its level says, and no more often. Length is constant within a passage, which is where errors that treat
    questions as independent go most astray.

    Parameters
    ----------
    n_passages : int, optional
        Number of passages, 60 by default; at least 1.
    questions_per_passage : int, optional
        Questions in each passage, 8 by default; at least 1. Their expected number when `unequal`.
    unequal : bool, optional
        True draws the size of each passage from a geometric distribution, whose standard deviation nearly equals its
        mean. False, the default, gives every passage the same size.
    mean : float, optional
        Expected score, in (0, 1); 0.7 by default.
    icc : float, optional
        Intraclass correlation of the scores, in [0, 1); 0.2 by default.
    binary : bool, optional
        True, the default, gives scores of 0 or 1; False gives scores between 0 and 1, with the same mean and `icc`.
    seed : int or numpy.random.Generator, optional
        0 by default.

    Returns
    -------
    pandas.DataFrame
        One row per question. Columns `passage`, `question` (unique over all passages), `score`, `n_words` (length of
        the passage in words) and `subject` (each passage has one). `.attrs["truth"]` has `mean`, `icc`, `variance`
        (of one score), `design_effect`, `standard_error` (of the mean over questions, for the sizes drawn; the design
        effect is 1 + (m - 1) icc for passages of m questions), `naive_standard_error` (that of as many independent
        questions), `n_words_slope` (0) and `subject_means`.

    Raises
    ------
    ArgumentError
        If a count is below 1, `mean` is outside (0, 1), `icc` is outside [0, 1), or `seed` is negative.
    ArgumentTypeError
        If a count or a number is something else, or `seed` is neither a whole number nor a Generator.

    References
    ----------
    Skellam (1948), Journal of the Royal Statistical Society B 10, 257-261 (the beta-binomial distribution).
    Kish (1965), Survey Sampling, Wiley (the design effect).

    Examples
    --------
    >>> from evalreg import datasets
    >>> log = datasets.passages(n_passages=50, questions_per_passage=6, icc=0.2)
    >>> log.shape
    (300, 5)
    >>> log.attrs["truth"]["design_effect"]
    2.0
    """
    rng, used_seed = generator(seed)
    n_passages = whole_number("n_passages", n_passages)
    questions_per_passage = whole_number("questions_per_passage", questions_per_passage)
    mean, icc = within("mean", mean, "(0, 1)"), within("icc", icc, "[0, 1)")
    sizes = np.full(n_passages, questions_per_passage)
    if unequal:
        sizes = rng.geometric(1 / questions_per_passage, n_passages)
    codes = np.repeat(np.arange(n_passages), sizes)
    score, variance = _clustered_scores(rng, codes, mean, icc, binary)
    n_words = rng.integers(120, 601, n_passages)
    subject = np.arange(n_passages) % len(_SUBJECTS)
    columns = {
        "passage": label_column(ids("passage", n_passages), codes),
        "question": label_column(ids("question", len(codes), 4)),
        "score": score,
        "n_words": n_words[codes],
        "subject": label_column(list(_SUBJECTS), subject[codes]),
    }
    design_effect = 1 + companions(codes) * icc
    truth = {
        "mean": mean,
        "icc": icc,
        "variance": variance,
        "design_effect": design_effect,
        "standard_error": math.sqrt(design_effect * variance / len(codes)),
        "naive_standard_error": math.sqrt(variance / len(codes)),
        "n_words_slope": 0.0,
        "subject_means": {_SUBJECTS[code]: mean for code in np.unique(subject)},
    }
    return with_truth(columns, truth, used_seed)


def _clustered_scores(
    rng: np.random.Generator, codes: IntArray, mean: float, icc: float, binary: bool
) -> tuple[FloatArray, float]:
    """Scores with the intraclass correlation asked for, and the variance of one."""
    k = _FRACTION_PRECISION
    # Share of mean (1 - mean) that lies between passages. Fractional scores vary less within, so they need less.
    between = icc if binary else icc / ((k + 1) * (1 - icc) + icc)
    rate = np.full(codes[-1] + 1, mean)
    if between > _NO_SPREAD:
        rate = rng.beta(mean * (1 - between) / between, (1 - mean) * (1 - between) / between, len(rate))
    if binary:
        return (rng.random(len(codes)) < rate[codes]).astype(np.float64), mean * (1 - mean)
    rate = np.clip(rate, _NO_SPREAD, 1 - _NO_SPREAD)[codes]
    return rng.beta(k * rate, k * (1 - rate)), mean * (1 - mean) * (between + (1 - between) / (k + 1))


# Simulated scores of models on the same questions, once or several times


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
        `.attrs["truth"]` has `mean` by model; `difference`; `correlation` of the two scores of a question; `icc` of
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
    n_passages = whole_number("n_passages", n_passages)
    questions_per_passage = whole_number("questions_per_passage", questions_per_passage)
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
        every question) and `score`. `.attrs["truth"]` has `mean` by model; `var_x`; `sigma2`, which is E[sigma^2];
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
    n_questions, n_samples = whole_number("n_questions", n_questions), whole_number("n_samples", n_samples)
    n_models = whole_number("n_models", n_models, 1, 2)
    questions_per_passage = whole_number("questions_per_passage", questions_per_passage)
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
        first, noise = rng.standard_normal((2, count))
        return np.stack([first, correlation * first + math.sqrt(1 - correlation**2) * noise])

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


# Simulated verdicts of judges on pairs of models


def judge_log(
    *,
    n_models: int = 6,
    n_prompts: int = 80,
    n_judges: int = 3,
    spread: float = 1.0,
    judge_sd: float = 0.2,
    prompt_sd: float = 1.0,
    ties: float = 0.1,
    position_effect: float = 0.0,
    pairs_per_prompt: int | None = None,
    seed: int | np.random.Generator = 0,
) -> pd.DataFrame:
    """Simulated log of pairwise comparisons of models by judges.

    The data are simulated. On prompt p, judge j prefers the left answer, by model a, to the right one, by model b, if

        (theta_a + u_ap + w_aj) - (theta_b + u_bp + w_bj) + position_effect + noise

    exceeds a threshold, prefers the right one if it is below minus the threshold, and calls a tie otherwise. The
    noise is standard normal and is the unit of every other scale. The answer u_ap is drawn once and is in all
    comparisons of model a on prompt p; the taste w_aj of judge j for model a is in all comparisons of a by j.
    Rows that share them are dependent, so by default errors that treat rows as independent are about a third of what
    they should be. Sides are random, row by row. Every pair drawn for a prompt is seen by every judge.

    Parameters
    ----------
    n_models : int, optional
        Number of models, 6 by default; at least 2.
    n_prompts : int, optional
        Number of prompts, 80 by default; at least 1.
    n_judges : int, optional
        Number of judges, 3 by default; at least 1.
    spread : float, optional
        Quality theta of the best model, model-01, minus that of the worst, the last; others are spaced evenly, and
        the mean is 0. At least 0; 1 by default.
    judge_sd : float, optional
        Standard deviation of w, at least 0; 0.2 by default.
    prompt_sd : float, optional
        Standard deviation of u, at least 0; 1 by default.
    ties : float, optional
        Expected share of ties when all pairs are compared, in [0, 1); 0.1 by default.
    position_effect : float, optional
        Advantage of the left side; 0 by default, negative favours the right.
    pairs_per_prompt : int, optional
        Pairs compared on each prompt, drawn without replacement; at least 1. None, the default, compares all pairs.
    seed : int or numpy.random.Generator, optional
        0 by default.

    Returns
    -------
    pandas.DataFrame
        One row per comparison. Columns `prompt`, `judge`, `left`, `right` (models) and `winner` ("left", "right" or
        "tie"). `.attrs["truth"]` has `theta` by model; `psi`, the expected score `psi[a][b]` of a against b, a tie
        counting one half, over new prompts, new judges and both sides; `win_rate` by model, the mean of its psi over
        all opponents; `win_rate_these_judges`, the same for the judges drawn here; `tie_share`; `tie_threshold`;
        and `left_score`, the expected score of the left side.

    Raises
    ------
    ArgumentError
        If a count is too small, a standard deviation or `spread` is negative or infinite, `ties` is outside [0, 1),
        `position_effect` is not finite, `pairs_per_prompt` exceeds the number of pairs, or `seed` is negative.
    ArgumentTypeError
        If a count or a number is something else, or `seed` is neither a whole number nor a Generator.

    References
    ----------
    Thurstone (1927), Psychological Review 34, 273-286.
    Glenn and David (1960), Biometrics 16, 86-109 (ties by a threshold).

    Examples
    --------
    >>> from evalreg import datasets
    >>> log = datasets.judge_log(n_models=3, n_prompts=20, n_judges=2)
    >>> log.shape
    (120, 5)
    >>> round(log.attrs["truth"]["win_rate"]["model-02"], 6)
    0.5
    """
    rng, used_seed = generator(seed)
    n_models = whole_number("n_models", n_models, 2)
    n_prompts, n_judges = whole_number("n_prompts", n_prompts), whole_number("n_judges", n_judges)
    spread, ties = within("spread", spread, "[0, inf)"), within("ties", ties, "[0, 1)")
    judge_sd, prompt_sd = within("judge_sd", judge_sd, "[0, inf)"), within("prompt_sd", prompt_sd, "[0, inf)")
    position_effect = within("position_effect", position_effect, "(-inf, inf)")

    n_pairs = n_models * (n_models - 1) // 2
    chosen = n_pairs if pairs_per_prompt is None else whole_number("pairs_per_prompt", pairs_per_prompt, 1, n_pairs)

    theta = np.linspace(spread / 2, -spread / 2, n_models)
    sd = math.sqrt(1 + 2 * prompt_sd**2 + 2 * judge_sd**2)
    threshold = _tie_threshold(_gaps(theta) + position_effect, sd, ties)
    prompt, judge, left, right = _schedule(rng, n_models, n_prompts, n_judges, chosen)
    answer = theta[:, None] + prompt_sd * rng.standard_normal((n_models, n_prompts))
    taste = judge_sd * rng.standard_normal((n_models, n_judges))
    latent = answer[left, prompt] + taste[left, judge] - answer[right, prompt] - taste[right, judge]
    latent += position_effect + rng.standard_normal(len(latent))
    winner = np.where(latent > threshold, 0, np.where(latent < -threshold, 1, 2))

    models = ids("model", n_models, 2)
    columns = {
        "prompt": label_column(ids("prompt", n_prompts), prompt),
        "judge": label_column(ids("judge", n_judges, 1), judge),
        "left": label_column(models, left),
        "right": label_column(models, right),
        "winner": label_column(["left", "right", "tie"], winner),
    }
    psi = _expected_scores(theta, position_effect, threshold, sd)
    # Given the judges, their tastes shift theta and leave the variance.
    sd_given = math.sqrt(1 + 2 * prompt_sd**2)
    psi_given = np.mean([_expected_scores(theta + w, position_effect, threshold, sd_given) for w in taste.T], axis=0)
    truth = {
        "theta": by_name(models, theta),
        "psi": {a: {b: float(psi[i, j]) for j, b in enumerate(models) if j != i} for i, a in enumerate(models)},
        "win_rate": by_name(models, _win_rates(psi)),
        "win_rate_these_judges": by_name(models, _win_rates(psi_given)),
        "left_score": float(_half_tie(_gaps(theta) + position_effect, threshold, sd).mean()),
        "tie_share": ties,
        "tie_threshold": threshold,
    }
    return with_truth(columns, truth, used_seed)


def published_design(
    *, n_prompts: int = 300, judge_sd: float = 0.0, seed: int | np.random.Generator = 7
) -> pd.DataFrame:
    """Simulated log of the design that many public leaderboards have: 19 models, all pairs shown to 3 judges.

    It shows what clustering by prompt is for. Each model answers each prompt once, and its answer meets 18 others, so
    that errors of independent rows are too small by about sqrt(18) = 4.2, however little alike all rows of a prompt
    are.

    Parameters
    ----------
    n_prompts : int, optional
        Number of prompts, 300 by default; 171 comparisons by each of 3 judges on each.
    judge_sd : float, optional
        How much judges differ in taste, as in `judge_log`; not at all by default, 0.2 for a fivefold inflation.
    seed : int or Generator, optional
        Seed, 7 by default.

    Returns
    -------
    pandas.DataFrame
        As `judge_log`, with answers that differ by 1.8 times the noise of a verdict.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is outside its range.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.published_design()
    >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
    >>> float(round((board.bse / board.with_cov(groups=None, cov="naive").bse).median(), 2))
    4.25
    """
    return judge_log(n_models=19, n_judges=3, prompt_sd=1.8, judge_sd=judge_sd, n_prompts=n_prompts, seed=seed)


def _schedule(
    rng: np.random.Generator, n_models: int, n_prompts: int, n_judges: int, n_chosen: int
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Prompt, judge, left and right model of each row."""
    first, second = np.triu_indices(n_models, 1)
    pairs = np.broadcast_to(np.arange(len(first)), (n_prompts, len(first)))
    if n_chosen < len(first):
        pairs = np.sort(rng.random(pairs.shape).argsort(axis=1)[:, :n_chosen], axis=1)
    pair = np.repeat(pairs.ravel(), n_judges)
    prompt = np.repeat(np.arange(n_prompts), n_chosen * n_judges)
    judge = np.tile(np.arange(n_judges), n_prompts * n_chosen)
    swapped = rng.random(len(pair)) < 0.5
    left, right = np.where(swapped, second[pair], first[pair]), np.where(swapped, first[pair], second[pair])
    return prompt, judge, left, right


def _gaps(theta: FloatArray) -> FloatArray:
    """Difference of theta, left model minus right, for all ordered pairs of different models."""
    return np.subtract.outer(theta, theta)[~np.eye(len(theta), dtype=bool)]


def _half_tie(gap: FloatArray, threshold: float, sd: float) -> FloatArray:
    """Expected score when the latent difference is normal with mean `gap`; a tie counts one half."""
    return np.asarray((scipy.special.ndtr((gap - threshold) / sd) + scipy.special.ndtr((gap + threshold) / sd)) / 2)


def _tie_threshold(gap: FloatArray, sd: float, ties: float) -> float:
    """Threshold at which the expected share of ties over the pairs is `ties`, by bisection."""
    low, high = 0.0, float(np.abs(gap).max()) + 40 * sd
    for _ in range(100):
        middle = (low + high) / 2
        share = (scipy.special.ndtr((middle - gap) / sd) - scipy.special.ndtr((-middle - gap) / sd)).mean()
        low, high = (middle, high) if share < ties else (low, middle)
    return low


def _expected_scores(theta: FloatArray, position_effect: float, threshold: float, sd: float) -> FloatArray:
    """psi, shape (n_models, n_models): expected score of each model against each, half the time on either side."""
    gap = np.subtract.outer(theta, theta)
    either = _half_tie(gap + position_effect, threshold, sd) + _half_tie(gap - position_effect, threshold, sd)
    return either / 2


def _win_rates(psi: FloatArray) -> FloatArray:
    """Mean of psi over the opponents of each model."""
    return np.asarray((psi.sum(axis=1) - psi.diagonal()) / (len(psi) - 1))
