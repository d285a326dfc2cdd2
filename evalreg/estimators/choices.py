"""The probability of the right choice, from the log-likelihoods of all choices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.errors import AlignmentError, ArgumentError, NonFiniteError, NonNumericError, ScoreRangeError


def choice_probability(logprobs: npt.ArrayLike, correct: npt.ArrayLike) -> FloatArray:
    """Probabilities of the right choices, by a softmax over the log-likelihoods of the choices of each question.

    As a score it is the expected 0/1 score of an answer sampled from these probabilities, so that no noise of sampling
    is left in it. Softmax of logits and of log-probabilities is the same; whether log-likelihoods of long choices are
    to be divided by their length first is for the caller to say.

    Parameters
    ----------
    logprobs : array_like, shape (n_questions, n_choices)
        Natural log-likelihood (or logit) of each choice; minus infinity where a question has fewer choices.
    correct : array_like of int, shape (n_questions,)
        Which choice is right, from 0.

    Returns
    -------
    ndarray, shape (n_questions,)
        In [0, 1].

    Raises
    ------
    AlignmentError
        If the shapes do not fit, or a DataFrame and a Series have different indexes.
    NonNumericError
        If something is not a number, or `correct` holds no whole numbers.
    NonFiniteError
        If a log-likelihood is NaN or plus infinity, or all of a question's are minus infinity.
    ScoreRangeError
        If `correct` names a choice that is not there.

    References
    ----------
    Miller (2024), arXiv:2411.00640, section 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> import evalreg as er
    >>> logprobs = np.log([[0.2, 0.1, 0.1], [0.3, 0.3, 0.6]])
    >>> er.choice_probability(logprobs, [0, 2]).round(3).tolist()
    [0.5, 0.5]
    """
    values, right = _log_likelihoods(logprobs), _right_choices(correct)
    if (
        isinstance(logprobs, pd.DataFrame)
        and isinstance(correct, pd.Series)
        and not logprobs.index.equals(correct.index)
    ):
        raise AlignmentError(
            "`logprobs` and `correct` must have the same index in the same order; they differ. Reindex one by the "
            "other, or pass arrays, which are taken row by row.",
            column="correct",
            count=right.size,
        )
    if right.shape != values.shape[:1]:
        raise AlignmentError(
            f"`correct` must have one choice for each question; got shape {right.shape} for {values.shape[0]} rows of "
            "`logprobs`.",
            column="correct",
            count=right.size,
        )
    outside = (right < 0) | (right >= values.shape[1])
    if outside.any():
        raise _at_rows(
            ScoreRangeError,
            "correct",
            outside,
            f"`correct` must name a choice from 0 to {values.shape[1] - 1}",
            f"holds others (from {np.min(right)} to {np.max(right)}). Count choices from 0",
        )
    chosen = values[np.arange(right.size), right]
    return np.asarray(np.exp(chosen - special.logsumexp(values, axis=1)) if right.size else chosen)


def _log_likelihoods(logprobs: Any) -> FloatArray:
    values = _numbers("logprobs", logprobs)
    if values.ndim != 2 or values.shape[1] < 2:
        raise AlignmentError(
            "`logprobs` must have one row for each question and one column for each of at least 2 choices; got shape "
            f"{values.shape}. Fill up questions with fewer choices with minus infinity.",
            column="logprobs",
            count=values.size,
        )
    wrong = (np.isnan(values) | (values == np.inf)).any(axis=1)
    if wrong.any():
        rule = "`logprobs` must hold numbers or minus infinity"
        problem = "holds NaN or plus infinity. Leave such questions out, or read their log-likelihoods again"
        raise _at_rows(NonFiniteError, "logprobs", wrong, rule, problem)
    nothing = (values == -np.inf).all(axis=1)
    if nothing.any():
        rule = "`logprobs` must give each question a choice that is possible"
        raise _at_rows(NonFiniteError, "logprobs", nothing, rule, "holds minus infinity only. Leave such questions out")
    return values


def _right_choices(correct: Any) -> IntArray:
    values = _numbers("correct", correct)
    broken = values != np.round(values)
    if broken.any():
        rule = "`correct` must hold whole numbers, the place of the right choice"
        raise _at_rows(
            NonNumericError, "correct", broken, rule, "holds something else. Leave out questions without one"
        )
    return values.astype(np.intp)


def _numbers(name: str, given: Any) -> FloatArray:
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise NonNumericError(
            f"`{name}` must be an array of numbers; got something else, or rows of unequal length.", column=name
        ) from None


def _at_rows(kind: Any, name: str, where: BoolArray, rule: str, problem: str) -> ArgumentError:
    rows, count = row_list(where)
    error: ArgumentError = kind(f"{rule}; {rows_text(rows, count)} {problem}.", column=name, rows=rows, count=count)
    return error
