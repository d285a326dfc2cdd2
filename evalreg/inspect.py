"""Metrics for Inspect: standard errors and intervals that hold when questions share a passage, a language, a topic.

A metric is called many times while a run is young, and one that raises ends the run. These never raise once the task
is made: until there are two clusters, and where the scores are wrong, they give NaN and say why in Inspect's log.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any, get_args

import pandas as pd

from evalreg.checks import fraction, muted, option
from evalreg.choices import CovName
from evalreg.covariance.options import documented
from evalreg.errors import ArgumentError, ArgumentTypeError, TooFewClustersError
from evalreg.estimators.mean import mean
from evalreg.logs.inspect_log import as_number
from evalreg.logs.records import readings
from evalreg.results.results import Results

try:
    from inspect_ai.scorer import metric as _metric
except ImportError:
    _metric = None

__all__ = ["stderr", "ci"]

LOGGER = logging.getLogger(__name__)

Measure = Callable[[list[Any]], dict[str, float]]


@documented
def stderr(groups: str | Sequence[str] | None = None, *, cov: CovName | None = None) -> Any:
    """The standard error of a mean score as a metric of Inspect, for questions that come in groups.

    It belongs to the mean that Inspect shows as `accuracy` or `mean`, after its reducer of epochs.

    Parameters
    ----------
    groups : str or list of str, optional
        Keys of the samples' metadata, with dots into nested ones; several are crossed. By default questions are
        independent.
    <cov>
        Covariance; "CR2" by default with groups. "CR1" is what `stderr(cluster=...)` of Inspect computes.

    Returns
    -------
    Metric
        For `metrics=[...]` of a scorer or task. Its value is named by the groups: "stderr_passage".

    Raises
    ------
    ArgumentError
        If `groups` or `cov` is none of these, or Inspect is not installed; while the task is made, not in the run.
    """
    return _registered("stderr")(groups=_checked(groups), cov=_checked_cov(cov))


@documented
def ci(groups: str | Sequence[str] | None = None, *, alpha: float = 0.05, cov: CovName | None = None) -> Any:
    """The confidence interval of a mean score as a metric of Inspect, for questions that come in groups.

    Parameters
    ----------
    groups : str or list of str, optional
        As in `stderr`.
    alpha : float, optional
        Level; 0.05 gives 95% intervals.
    <cov>
        As in `stderr`.

    Returns
    -------
    Metric
        For `metrics=[...]` of a scorer or task. Its values are "ci_passage_lower" and "ci_passage_upper".

    Raises
    ------
    ArgumentError
        If an argument is none of these, or Inspect is not installed; while the task is made, not in the run.
    """
    return _registered("ci")(groups=_checked(groups), alpha=fraction("alpha", alpha), cov=_checked_cov(cov))


def _stderr(groups: list[str], cov: CovName | None = None) -> Measure:
    return _measure(["_".join(["stderr", *groups])], groups, cov, lambda results: [results.bse.iloc[0]])


def _ci(groups: list[str], alpha: float = 0.05, cov: CovName | None = None) -> Measure:
    name = "_".join(["ci", *groups])
    return _measure([f"{name}_lower", f"{name}_upper"], groups, cov, lambda results: results.conf_int(alpha).iloc[0])


# Under these names Inspect finds them again when it scores a log anew.
_REGISTERED = {} if _metric is None else {"stderr": _metric(name="stderr")(_stderr), "ci": _metric(name="ci")(_ci)}


def _registered(name: str) -> Any:
    if not _REGISTERED:
        raise ArgumentError(
            'metrics for Inspect need inspect-ai, which is not installed. Run: pip install "evalreg[inspect]"'
        )
    return _REGISTERED[name]


def _checked(groups: str | Sequence[str] | None) -> list[str]:
    """The keys of metadata, as a list, which Inspect can write into its log."""
    keys = [] if groups is None else [groups] if isinstance(groups, str) else list(groups)
    for name in keys:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"`groups` must be keys of the samples' metadata; got {name!r}.")
        if not name or len(set(keys)) < len(keys):
            raise ArgumentError(f"`groups` must be different keys of the samples' metadata; got {keys!r}.")
    return keys


def _checked_cov(cov: CovName | None) -> CovName | None:
    return cov if cov is None else option("cov", cov, get_args(CovName))


def _measure(names: list[str], groups: list[str], cov: CovName | None, take: Callable[[Results], Any]) -> Measure:
    """What Inspect calls with the scores so far; each reason for NaN is written to its log once.

    >>> from types import SimpleNamespace as Of
    >>> def scored(i): return Of(sample_id=i, sample_metadata={"passage": i // 4}, score=Of(value="CI"[i % 3 == 0]))
    >>> measure = _stderr(["passage"], "CR1")
    >>> [round(measure([scored(i) for i in range(n)])["stderr_passage"], 4) for n in (0, 1, 4, 8, 24)]
    [nan, nan, nan, 0.125, 0.0527]
    """
    logged: set[str] = set()

    def measure(scores: list[Any]) -> dict[str, float]:
        try:
            with muted():
                values = [float(value) for value in take(_mean(scores, groups, cov))]
        # Whatever it is, hours of answers are worth more than an error bar.
        except Exception as error:
            text = str(error)
            if text not in logged and len(logged) < 20:
                logged.add(text)
                young = isinstance(error, TooFewClustersError)
                LOGGER.log(logging.INFO if young else logging.WARNING, "%s is NaN: %s", names[0], text)
            return dict.fromkeys(names, math.nan)
        return dict(zip(names, values, strict=True))

    return measure


def _mean(scores: list[Any], groups: list[str], cov: CovName | None) -> Results:
    """The mean of the scores, clustered by metadata, or by question, since without a reducer one has several rows."""
    columns: dict[str, list[Any]] = {"score": [], "item": [], **{f"metadata.{name}": [] for name in groups}}
    for place, scored in enumerate(scores):
        number = as_number(scored.score.value)
        if number is None:
            raise ArgumentError(f"scores must be numbers; sample {scored.sample_id!r} has {scored.score.value!r:.60}.")
        columns["score"].append(number)
        columns["item"].append(f"row {place}" if scored.sample_id is None else str(scored.sample_id))
        for name in groups:
            labels = [value for _, value in readings(scored.sample_metadata, name)]
            if len(labels) != 1 or labels[0] is None or labels[0] != labels[0]:
                raise ArgumentError(f"`groups` must be metadata of every sample; {scored.sample_id!r} has no {name!r}.")
            columns[f"metadata.{name}"].append(str(labels[0]))
    frame = pd.DataFrame(columns)
    for name in groups:
        if (count := frame[f"metadata.{name}"].nunique()) < 2:
            raise TooFewClustersError(f"there is {count} {name} so far; at least 2 are needed.")
    if len(frame) < 2:
        raise TooFewClustersError(f"there is {len(frame)} score so far; at least 2 are needed.")
    return mean(frame, groups=[f"metadata.{name}" for name in groups] or "item", cov=cov)
