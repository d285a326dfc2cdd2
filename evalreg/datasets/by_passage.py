"""Simulated scores of one model; those within a passage are alike."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, IntArray
from evalreg.datasets.making import companions, generator, ids, label_column, whole, with_truth, within

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
        the passage in words) and `subject` (each passage has one). `.attrs["truth"]` holds `mean`, `icc`, `variance`
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
    n_passages = whole("n_passages", n_passages)
    questions_per_passage = whole("questions_per_passage", questions_per_passage)
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
