"""Exceptions and warnings.

Every exception is an `EvalregError` and also a `ValueError`, `TypeError`, `KeyError` or `RuntimeError`, so that code
which knows nothing about evalreg catches it where it would expect to::

    EvalregError
    |-- ArgumentError (ValueError)          an argument breaks its rule
    |   |-- FormulaError                    a formula or a contrast that does not parse
    |   `-- NotAvailableError               what an estimate cannot give
    |-- ArgumentTypeError (TypeError)       an argument of the wrong type
    |-- MissingColumnError (KeyError)       a column, parameter or label that is not there
    |-- EngineError (RuntimeError)          a query that an engine did not finish
    `-- DataError (ValueError)              the data break a rule
        |-- EmptyDataError                  no rows, or none left
        |-- NonNumericError                 text where numbers are needed
        |-- NonFiniteError                  infinities, or missing values under missing="raise"
        |-- ScoreRangeError                 a value outside the range that a method needs
        |-- ConstantScoreError              unbounded scores that do not vary
        |-- AlignmentError                  labels that do not match the rows
        |-- MissingLabelsError              used rows without a cluster id
        |-- TooFewClustersError             fewer clusters than a method needs
        |-- DuplicateRowsError              repeats that were not declared
        |-- UnknownLabelError               verdicts that no rule maps to a side
        |-- SelfComparisonError             a model compared with itself
        |-- CollinearityError               covariates that determine each other
        |-- DisconnectedError               models that no chain of wins and losses ties together
        |-- ConvergenceError                a fit that did not converge, or separates perfectly
        |-- TooLargeError                   a result that takes more memory than there is
        `-- LogFormatError                  a file that cannot be read as a log

    EvalregWarning (UserWarning)
    |-- FewClustersWarning                  few clusters, or few that count
    |   `-- DominantClusterWarning          one cluster has much of the data
    |-- FewCarriersWarning                  means in [0, 1] that rest on a few of many clusters
    |-- IndependenceWarning                 rows or models treated as independent
    |-- NestedClustersWarning               an axis inside another was left out
    |-- RectificationWarning                human labels that may be no random sample, or a judge that adds nothing
    |-- CovarianceWarning                   the default covariance is not available, a weaker one was taken
    |-- AlikeWarning                        clusters that are taken to differ alike over models
    |-- RepairWarning                       a covariance was not positive semi-definite
    |-- ZeroVarianceWarning                 a standard error of zero, or none at all
    |-- LeverageWarning                     clusters that alone determine a parameter
    |-- SparseBoardWarning                  models compared on too few prompts
    |-- DenominatorWarning                  a ratio whose denominator is hardly known
    |-- SkewedScoresWarning                 scores too skewed for an interval or a confidence sequence
    |-- UnlikeScalesWarning                 models or evals side by side whose scores are not on one scale
    |-- EngineWarning                       an engine hands over what could stay in it
    `-- UnequalQuestionsWarning             means by model over different questions
    EvalregDeprecationWarning (EvalregWarning, FutureWarning)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class RowList:
    """Rows that break a rule: positions of the first few, none where rows have no order, and how many there are."""

    first: tuple[int, ...]
    count: int

    def __str__(self) -> str:
        plural, more = "s" if self.count != 1 else "", self.count - len(self.first)
        if not self.first:
            return f"{self.count} row{plural}"
        return f"row{plural} {', '.join(map(str, self.first))}" + (f" and {more} more" if more else "")


class EvalregError(Exception):
    """Base of all exceptions raised by evalreg.

    Parameters
    ----------
    message : str
        The rule, what was found, what to do.
    column : str, optional
        The column concerned.
    rows : RowList or iterable of int, optional
        Positions of the rows concerned, from 0.
    count : int, optional
        How many rows, clusters or values are concerned.
    parameter : str, optional
        The argument that breaks the rule; by default the one with which the message begins, "`groups` must ...".
    """

    def __init__(
        self,
        message: str,
        *,
        column: str | None = None,
        rows: RowList | Iterable[int] | None = None,
        count: int | None = None,
        parameter: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.column = column
        if isinstance(rows, RowList):
            count, rows = rows.count, rows.first or None
        self.rows = None if rows is None else [int(row) for row in rows]
        self.count = count
        first = re.match(r"`(\w+)[`=]", message)
        self.parameter = parameter or (first[1] if first else None)

    def __str__(self) -> str:
        # KeyError would print the repr of its argument.
        return self.message


class ArgumentError(EvalregError, ValueError):
    """An argument breaks its rule."""

    options: dict[str, str] | None = None
    """Arguments that mend it."""


class FormulaError(ArgumentError):
    """A formula or a contrast that does not parse."""


class NotAvailableError(ArgumentError):
    """An estimate cannot give what was called for."""


class ArgumentTypeError(EvalregError, TypeError):
    """An argument of the wrong type."""


class MissingColumnError(EvalregError, KeyError):
    """A column, parameter or label that is not there."""


class EngineError(EvalregError, RuntimeError):
    """A query that an engine did not finish: its own error is the cause, `__cause__`."""


class DataError(EvalregError, ValueError):
    """The data break a rule."""


class EmptyDataError(DataError):
    """There are no rows, or none are left."""


class NonNumericError(DataError):
    """Text where numbers are needed."""


class NonFiniteError(DataError):
    """Infinities, or missing values where none are allowed."""


class ScoreRangeError(DataError):
    """A value outside the range that a method needs."""


class ConstantScoreError(DataError):
    """Unbounded scores that do not vary, so that no error bar can be computed."""


class AlignmentError(DataError):
    """Labels whose length or index does not match the rows."""


class MissingLabelsError(DataError):
    """Rows in use without a cluster id."""


class TooFewClustersError(DataError):
    """Fewer clusters than a method needs."""


class DuplicateRowsError(DataError):
    """Repeats that were not declared."""


class UnknownLabelError(DataError):
    """Verdicts that no rule maps to a side."""

    labels: dict[Any, str | None] | None = None
    """What is offered for `labels`."""


class SelfComparisonError(DataError):
    """Rows that compare a model with itself."""


class CollinearityError(DataError):
    """Covariates that determine each other."""


class DisconnectedError(DataError):
    """Models whose strengths have no finite estimate, since they only win or only lose against the others."""


class ConvergenceError(DataError):
    """A fit that did not converge, or that separates the data perfectly."""


class TooLargeError(DataError):
    """A result that takes more memory than there is."""


class LogFormatError(DataError):
    """A file that cannot be read as a log."""


class EvalregWarning(UserWarning):
    """Base of all warnings: the result is valid but fragile."""


class FewClustersWarning(EvalregWarning):
    """Few clusters, or few that count."""


class FewCarriersWarning(EvalregWarning):
    """A mean that rests on few of many clusters, or on strata without variance; a difference of few questions."""


class DominantClusterWarning(FewClustersWarning):
    """One cluster has much of the data."""


class IndependenceWarning(EvalregWarning):
    """Rows or models are treated as independent."""


class NestedClustersWarning(EvalregWarning):
    """A clustering that lies inside another one was left out."""


class RectificationWarning(EvalregWarning):
    """Human labels that may be no random sample of the rows, or judge scores that add nothing to them."""


class AlikeWarning(EvalregWarning):
    """Clusters are taken to differ alike over models, by choice."""


class RepairWarning(EvalregWarning):
    """A covariance was not positive semi-definite."""


class CovarianceWarning(EvalregWarning):
    """The default covariance is not available, and a weaker one was taken."""


class ZeroVarianceWarning(EvalregWarning):
    """A standard error of zero, or one that cannot be computed."""


class LeverageWarning(EvalregWarning):
    """Clusters that alone determine a parameter."""


class SparseBoardWarning(EvalregWarning):
    """Models of a leaderboard are compared on too few clusters."""


class DenominatorWarning(EvalregWarning):
    """A ratio whose denominator is hardly known."""


class SkewedScoresWarning(EvalregWarning):
    """Scores are too skewed for the normal approximation of an interval or a confidence sequence."""


class UnlikeScalesWarning(EvalregWarning):
    """Scores of several models or evals are not on one scale."""


class EngineWarning(EvalregWarning):
    """An engine hands over what could stay in it."""


class UnequalQuestionsWarning(EvalregWarning):
    """Means by model are over different questions."""


class EvalregDeprecationWarning(EvalregWarning, FutureWarning):
    """A name or behaviour that will go in a later version."""


Note: TypeAlias = tuple[type[EvalregWarning], str]
"""A category and a sentence, kept with a result and issued as a warning."""
