"""From results on several evals to their averages: what is checked, and which errors are taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalreg.checks import FloatArray, listed, nearest, option
from evalreg.covariance.covariance import Covariance
from evalreg.data.clusters import axis_name
from evalreg.errors import ArgumentError, ArgumentTypeError, FewClustersWarning, NotAvailableError, Note, issue
from evalreg.inference.diagnostics import row_influence
from evalreg.inference.random_effects import Averaged, drawn, drawn_alike, weighted
from evalreg.numerics.student import t_quantile
from evalreg.results.results import Results
from evalreg.suites.averages import EvalAverage

TasksName: TypeAlias = Literal["fixed", "drawn"]
WeightsName: TypeAlias = Literal["precision"]
Weights: TypeAlias = Mapping[str, float]
# Estimates that agree to this are the same.
SAME = 1e-9
# Weights that people type add up to 1 within this.
SUM_ERROR = 1e-6
FEW_TASKS = 5
# What is said where no model, or no difference, is in all evals.
_NONE_SHARED = {
    "models": "None is in all.",
    "differences": "None is in all. Name the same `baseline` in each `compare`, which gives differences one direction.",
}
# Questions with the same ids that go together so much (in standard errors of a correlation) are the same questions.
TOGETHER, FEWEST_SHARED = 5.0, 20


def average_means(
    parts: Mapping[str, Results],
    weights: Weights | WeightsName | None,
    tasks: TasksName,
    models: Sequence[str] | None,
    notes: Sequence[Note],
) -> EvalAverage:
    """The averages of models, and of the differences of all pairs."""
    names = _shared_names(parts, models, "models")
    _refuse_same_questions(parts)
    left, right = np.triu_indices(len(names), 1)
    C = np.zeros((left.size, len(names)))
    C[np.arange(left.size), left], C[np.arange(left.size), right] = 1.0, -1.0
    own = [_errors_of(name, part, names) for name, part in parts.items()]
    gaps = [_errors_of_pairs(name, part, names, C) for name, part in parts.items()]
    unit = all(part.estimate.about.unit for part in parts.values())
    return _average(parts, names, own, gaps, weights, tasks, (0.0, 1.0) if unit else (-np.inf, np.inf), notes)


def average_differences(
    parts: Mapping[str, Results],
    weights: Weights | WeightsName | None,
    tasks: TasksName,
    models: Sequence[str] | None,
) -> EvalAverage:
    """The averages of differences."""
    names = _shared_names(parts, models, "differences")
    _refuse_same_questions(parts)
    own = [_errors_of_pairs(name, part, names, np.eye(len(names))) for name, part in parts.items()]
    unit = all(part.estimate.about.unit for part in parts.values())
    return _average(parts, names, own, None, weights, tasks, (-1.0, 1.0) if unit else (-np.inf, np.inf), ())


_Errors: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]
"""Estimates, standard errors and degrees of freedom on one eval."""


def _average(
    parts: Mapping[str, Results],
    names: tuple[str, ...],
    own: list[_Errors],
    gaps: list[_Errors] | None,
    weights: Any,
    tasks: Any,
    bounds: tuple[float, float],
    notes: Sequence[Note],
) -> EvalAverage:
    option("tasks", tasks, ("fixed", "drawn"))
    w = _checked_weights(weights, tuple(parts), tasks)
    new = []
    if tasks == "drawn" and len(parts) < FEW_TASKS:
        text = f"{len(parts)} tasks say little about tasks in general: t has {len(parts) - 1} degrees of freedom."
        new.append((FewClustersWarning, text))
    issue(new)

    def averaged(errors: list[_Errors]) -> Averaged:
        theta, se, dof = (np.array(arrays) for arrays in zip(*errors, strict=True))
        if tasks == "fixed":
            assert w is not None
            return weighted(theta, se, dof, w)
        return drawn(theta, se) if w is None else drawn_alike(theta, se)

    said = () if w is None else tuple(w.tolist())
    pairs = None if gaps is None else averaged(gaps)
    return EvalAverage(names, tuple(parts), said, tasks, averaged(own), pairs, bounds, (*notes, *new))


def _alike(one: npt.ArrayLike, two: npt.ArrayLike) -> bool:
    """Whether numbers are the same but for rounding."""
    first, second = np.asarray(one, dtype=float), np.asarray(two, dtype=float)
    return np.allclose(first, second, rtol=SAME, atol=SAME * float(np.max(np.abs(first), initial=0.0)))


def _shared_names(parts: Mapping[str, Results], models: Sequence[str] | None, what: str) -> tuple[str, ...]:
    """What is averaged; all evals must have it."""
    if len(parts) < 2:
        raise ArgumentError(f"an average is over two or more evals; got {listed(parts)} alone.")
    for (name, one), (other, two) in combinations(parts.items(), 2):
        same = one.estimate.names == two.estimate.names and one.nobs == two.nobs
        # Rows in an engine, or sums of them, may give another last digit.
        same = same and _alike(one.params, two.params) and _alike(one.cov.naive, two.cov.naive)
        if same and not _of_other_questions(one, two):
            raise ArgumentError(
                f"{name!r} and {other!r} hold the same numbers: one eval is there twice. Leave out one."
            )
    every = list(dict.fromkeys(label for part in parts.values() for label in part.estimate.names))
    everywhere = [label for label in every if all(label in part.estimate.names for part in parts.values())]
    if isinstance(models, str):
        raise ArgumentTypeError(f"`models` must be a list; got {models!r}.")
    wanted = every if models is None else list(dict.fromkeys(map(str, models)))
    for label in wanted:
        if label not in every:
            raise ArgumentError(f"`models` must name {what}; {label!r} is none.{nearest(label, every)}")
        lacking = [name for name, part in parts.items() if label not in part.estimate.names]
        if lacking:
            do = f"models={everywhere!r}" if 0 < len(everywhere) <= 10 else "`models` to name those that all have"
            raise ArgumentError(
                f"an average is over the same evals for all {what}; {label!r} is not in {listed(lacking)}. "
                + (f"In all evals are {len(everywhere)} {what}: use {do}." if everywhere else _NONE_SHARED[what])
            )
    if not wanted:
        raise ArgumentError(f"`models` must name at least one of the {what}; got an empty list.")
    return tuple(wanted)


def _checked_weights(weights: Any, evals: tuple[str, ...], tasks: str) -> FloatArray | None:
    """Weights by eval, with sum 1; None for those by precision."""
    if weights is None:
        return np.full(len(evals), 1 / len(evals))
    if isinstance(weights, str):
        option("weights", weights, ("precision",))
        if tasks == "fixed":
            raise ArgumentError(
                'weights="precision" is for tasks="drawn": of fixed evals it would be an average that nobody chose, '
                "with other weights for each model. State the weights."
            )
        return None
    if not isinstance(weights, Mapping):
        raise ArgumentTypeError('`weights` must be a dict by eval, such as {"MATH": 0.5, "DROP": 0.5}, or "precision".')
    if tasks == "drawn":
        raise ArgumentError('stated weights are for tasks="fixed"; drawn tasks count alike, or by "precision".')
    given = {str(name): float(weight) for name, weight in weights.items()}
    if set(given) != set(evals):
        other = sorted(set(given) ^ set(evals))
        raise ArgumentError(f"`weights` must have one weight for each eval; {listed(other)} is only in one of the two.")
    w = np.array([given[name] for name in evals])
    if not np.isfinite(w).all() or (w < 0).any():
        raise ArgumentError(f"`weights` must be finite and not negative; got {given}.")
    if abs(w.sum() - 1) > SUM_ERROR:
        fixed = {name: round(float(weight / w.sum()), 6) for name, weight in given.items()} if w.sum() > 0 else {}
        advice = f" Divided by their sum they are {fixed}." if fixed else ""
        raise ArgumentError(f"`weights` must sum to 1; they sum to {w.sum():.6g}.{advice}")
    scaled: FloatArray = w / w.sum()
    return scaled


def _errors_of(name: str, part: Results, names: tuple[str, ...]) -> _Errors:
    """Scores on one eval."""
    at = [part.estimate.names.index(label) for label in names]
    theta, se = np.array(part.estimate.params)[at], np.sqrt(part.cov.variance())[at]
    ends = part.conf_int().to_numpy()[at]
    return _at_least(name, names, theta, se, ends, part.cov.dof()[at], part.cov)


def _errors_of_pairs(name: str, part: Results, names: tuple[str, ...], C: FloatArray) -> _Errors:
    """Contrasts C of the named parameters on one eval."""
    at = [part.estimate.names.index(label) for label in names]
    full = np.zeros((C.shape[0], part.estimate.n_params))
    full[:, at] = C
    theta = full @ np.array(part.estimate.params)
    whole = np.array_equal(full, np.eye(part.estimate.n_params))
    asked = None if whole else full
    ends = part.cov.limits(theta, asked)
    labels = [" - ".join(names[i] for i in np.flatnonzero(row)) for row in C]
    return _at_least(name, labels, theta, np.sqrt(part.cov.variance(asked)), ends, part.cov.dof(asked), part.cov)


def _at_least(
    name: str,
    labels: Sequence[str],
    theta: FloatArray,
    se: FloatArray,
    ends: FloatArray,
    dof: FloatArray,
    cov: Covariance,
) -> _Errors:
    """Standard errors that are no less than the 95% interval says: where few or no questions tell, it says more."""
    dof = np.where(np.isnan(dof) | (dof <= 0), cov.smallest_dof, dof)
    half = (ends[:, 1] - ends[:, 0]) / 2 / t_quantile(0.05, dof)
    found = np.fmax(se, half)
    unknown = [label for label, value in zip(labels, found, strict=True) if not (np.isfinite(value) and value > 0)]
    if unknown:
        raise NotAvailableError(
            f"an average needs the error of each score; on {name!r} {listed(unknown)} has none. Leave it out by "
            "`models`, or the eval."
        )
    return theta, found, dof


def _refuse_same_questions(parts: Mapping[str, Results]) -> None:
    """Raise where two evals seem to be of the same questions, whose errors are not independent."""
    for (name, one), (other, two) in combinations(parts.items(), 2):
        found = _comparable(one, two)
        if found is not None:
            _refuse_together(name, found[0], other, found[1])


def _refuse_together(name: str, one: pd.Series[float], other: str, two: pd.Series[float]) -> None:
    """Raise where sums of the same labels go together."""
    both = pd.concat([one, two], axis=1, join="inner").to_numpy()
    if len(both) < FEWEST_SHARED or not both.std(axis=0).all():
        return
    r = float(np.corrcoef(both.T)[0, 1])
    if r * np.sqrt(len(both)) > TOGETHER:
        raise ArgumentError(
            f"the errors of {name!r} and {other!r} are not independent: their {len(both)} questions or clusters "
            f"with the same ids go together (correlation {r:.2f}). Two scores of the same questions go side by "
            "side with `stack`; give questions that only share their ids other ids."
        )


def _of_other_questions(one: Results, two: Results) -> bool:
    """Whether two results have labels of questions, and none in common: then equal numbers are chance."""
    found = _comparable(one, two)
    return found is not None and found[0].index.intersection(found[1].index).empty


def _comparable(one: Results, two: Results) -> tuple[pd.Series[float], pd.Series[float]] | None:
    """Sums of the scores of both by question; by cluster where rows of one are in an engine, or gone."""
    pairs = [(sums_of(one), sums_of(two)) for sums_of in (_by_question, _by_cluster)]
    known = [(first, second) for first, second in pairs if first is not None and second is not None]
    # Questions of one and passages of the other may share their ids.
    alike = (pair for pair in known if pair[0].name == pair[1].name)
    return next(alike, known[0] if known else None)


def _by_question(part: Results) -> pd.Series[float] | None:
    """Sums of the rows' residuals by the finest label that is at hand; None where there is none."""
    scores = part.estimate.scores
    held = getattr(getattr(scores, "labels", None), "held", None)
    rows = getattr(scores, "row_scores", None)
    if not held or rows is None:
        return None
    name, codes = max(held.items(), key=lambda one: one[1].n_clusters)
    if codes.labels is None or len(codes.labels) != codes.n_clusters:
        return None
    sums = np.asarray(np.bincount(codes.codes, rows, codes.n_clusters), dtype=np.float64)
    return _by_text(sums, codes.labels, name)


def _by_cluster(part: Results) -> pd.Series[float] | None:
    """Influences of the finest clusters in use, added up; None without clusters, or where they stay in Spark."""
    scores, axes = part.estimate.scores, part.cov.axes
    if not axes or any(scores.stays(axis) for axis in axes):
        return None
    axis = max(axes, key=scores.n_clusters)
    values, index = row_influence(part.estimate, axis)
    return _by_text(values.sum(axis=1), index, axis_name(axis))


def _by_text(values: FloatArray, labels: Any, name: str) -> pd.Series[float]:
    """Sums by the text of labels, of which two may be alike: 1 and "1"."""
    found: pd.Series[float] = pd.Series(values, index=list(map(str, labels)), name=name)
    return found if found.index.is_unique else found.groupby(level=0, sort=False).sum()
