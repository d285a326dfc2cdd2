"""What a gate sees: its power by how far the truth has dropped; and how to split labels of a judge's calibration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import bdtr, ndtr

from evalreg.checks import FloatArray, fraction
from evalreg.errors import ArgumentError
from evalreg.planning.checked_numbers import checked_count, checked_number

DROPS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.1)


def gate(
    results: Any = None,
    *,
    score: float | None = None,
    n: int | None = None,
    margin: float,
    drop: Sequence[float] = DROPS,
) -> pd.DataFrame:
    """Power of a gate that fails a run whose score is more than a margin below an expected one.

    Parameters
    ----------
    results : Results, optional
        Of one mean: the gate on another run of these questions' kind, whose score varies as this one does, clusters
        included. In its place `score` and `n`.
    score : float, optional
        The expected score, in [0, 1].
    n : int, optional
        Questions of a run, which are right or wrong independently of each other.
    margin : float
        How far below the expected score a run may be; an absolute difference, positive.
    drop : sequence of float, optional
        How far the truth is below the expected score.

    Returns
    -------
    DataFrame
        Indexed by "drop", column "power": the chance that the run is below score - margin. At drop 0 it is the chance
        of a false alarm. Exact (binomial) of `score` and `n`; normal, of `results`.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is out of range, or it is not either `results` or both `score` and `n`.

    References
    ----------
    Casella and Berger (2002), Statistical Inference, section 8.3.1 (power function of a binomial test).

    Examples
    --------
    >>> import evalreg as er
    >>> er.plan.gate(score=0.88, n=1319, margin=0.08).round(4).loc[[0.05, 0.08], "power"].to_dict()
    {0.05: 0.0024, 0.08: 0.5055}
    """
    least, drops = checked_number("margin", margin), [checked_number("drop", one) for one in drop]
    if least <= 0:
        raise ArgumentError(f"`margin` must be positive, the difference that a run may be below; got {least:g}.")
    if (results is None) == (score is None or n is None):
        raise ArgumentError("pass either results, er.plan.gate(results, margin=0.03), or `score` and `n`.")
    beyond = np.array(drops) - least
    power = ndtr(beyond / _error_of(results)) if score is None or n is None else _exact(score, n, least, beyond)
    return pd.DataFrame({"power": power}, index=pd.Index(drops, name="drop"))


def _error_of(results: Any) -> float:
    bse = getattr(results, "bse", None)
    if not isinstance(bse, pd.Series) or len(bse) != 1 or not bse.iloc[0] > 0:
        what = type(results).__name__ if not isinstance(bse, pd.Series) else f"errors {bse.to_dict()}"
        raise ArgumentError(f"`results` must be of one mean with an error, as results.contrast(name) is; got {what}.")
    return float(bse.iloc[0])


def _exact(score: float, n: int, margin: float, beyond: FloatArray) -> FloatArray:
    """P(X/n < score - margin) of X binomial at the dropped score; of a drop to below 0, NaN."""
    value, count = checked_number("score", score), checked_count("n", n, 1, "questions")
    if not 0 <= value <= 1:
        raise ArgumentError(f"`score` must lie in [0, 1]; got {value:g}.")
    truth = np.round(value - margin - beyond, 12)
    # The last whole number below the bar; a number right on it is not below.
    last = math.ceil(round(count * (value - margin), 9)) - 1
    chance = bdtr(float(last), count, np.clip(truth, 0.0, 1.0)) if last >= 0 else np.zeros(truth.size)
    return np.where((truth >= 0) & (truth <= 1), chance, np.nan)


def labels(*, prevalence: float, sensitivity: float, specificity: float, n: int) -> pd.Series:
    """How to split n labels of a judge's calibration set over answers that are truly negative and truly positive.

    The split that makes the variance of a prevalence corrected for the judge's errors (`judge_corrected`) smallest:
    negative : positive = (1 - prevalence) sqrt(specificity (1 - specificity)) : prevalence sqrt(sensitivity
    (1 - sensitivity)).

    Parameters
    ----------
    prevalence : float
        Expected share of positive answers, in (0, 1).
    sensitivity, specificity : float
        Shares of positive and of negative answers that the judge gets right, in (0, 1].
    n : int
        Labels in all.

    Returns
    -------
    Series
        Whole numbers "negative" and "positive", whose sum is n.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is out of range.

    References
    ----------
    Lee et al. (2025), arXiv:2511.21140, on the allocation of calibration labels; Rogan and Gladen (1978), American
    Journal of Epidemiology 107, 71-76.

    Examples
    --------
    >>> import evalreg as er
    >>> er.plan.labels(prevalence=0.2, sensitivity=0.9, specificity=0.9, n=200).to_dict()
    {'negative': 160, 'positive': 40}
    """
    share, total = fraction("prevalence", prevalence), checked_count("n", n, 2, "labels")
    right = []
    for name, value in (("sensitivity", sensitivity), ("specificity", specificity)):
        right.append(checked_number(name, value))
        if not 0 < right[-1] <= 1:
            raise ArgumentError(f"`{name}` must lie above 0 and be at most 1; got {value!r}.")
    positive = share * math.sqrt(right[0] * (1 - right[0]))
    negative = (1 - share) * math.sqrt(right[1] * (1 - right[1]))
    # A judge without errors needs no more labels of one kind than of the other.
    part = 0.5 if positive + negative == 0 else negative / (positive + negative)
    first = round(total * part)
    return pd.Series({"negative": first, "positive": total - first}, name="labels", dtype="int64")
