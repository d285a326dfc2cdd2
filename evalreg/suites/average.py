"""Averages over independent evals: with stated weights, or as a sample from a population of tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from evalreg.checks import (
    FloatArray,
    adjustment,
    checked_number,
    fraction,
    issue,
    listed,
    nearest,
    option,
    passed,
    quotient,
)
from evalreg.covariance.crossed import Scored, Widths, t_quantile
from evalreg.errors import ArgumentError, ArgumentTypeError, FewClustersWarning, NotAvailableError, Note
from evalreg.inference.simultaneous import adjust_pvalues
from evalreg.numerics.matrices import compressed
from evalreg.report.summaries import ranks_text
from evalreg.report.tables import Grid, Printed, Summary, dof_texts, error_text, interval_text, number, p_value
from evalreg.results.results import Results
from evalreg.scores.score_interval import IndependentMeans, NullVariance

TasksName: TypeAlias = Literal["fixed", "drawn"]
WeightsName: TypeAlias = Literal["precision"]
Weights: TypeAlias = Mapping[str, float]
SuiteAdjustName: TypeAlias = Literal["fdr_bh", "bh", "fdr_by", "holm", "bonferroni"]
SUITE_ADJUSTMENTS: tuple[SuiteAdjustName, ...] = ("fdr_bh", "fdr_by", "holm", "bonferroni")
# A tolerance: weights that people type add up to 1 within this.
SUM_ERROR = 1e-6
# Fewer drawn tasks than this are warned of: t has at most three degrees of freedom.
FEW_TASKS = 5


@dataclass(frozen=True, eq=False)
class Averaged:
    """Averages of k estimates of each of p effects; arrays of shape (p,)."""

    estimate: FloatArray
    se: FloatArray
    dof: FloatArray
    # Of effects drawn from a population: the spread of the true ones, and the standard error of a new one. NaN else.
    tau: FloatArray
    new_se: FloatArray
    # Of means of scores in [0, 1], whose variance depends on the value tested.
    null: NullVariance | None = None

    @property
    def widths(self) -> Widths:
        """From which intervals and p-values come."""
        if self.null is None:
            return Widths.one_t(np.where(self.se > 0, self.se, np.nan) ** 2, self.dof)
        every = np.arange(self.dof.size)
        return replace(Widths.one_t(self.null.seen, self.dof), scored=Scored(every, np.ones(every.size), 0, self.null))


def weighted(theta: FloatArray, se: FloatArray, dof: FloatArray, weights: FloatArray) -> Averaged:
    """Sum w_j theta_j of independent estimates; shapes (k, p), weights (k,).

    Degrees of freedom by Welch and Satterthwaite: V^2/sum (w_j^2 V_j)^2/dof_j. Satterthwaite (1946), Biometrics
    Bulletin 2(6), 110-114.
    """
    parts = weights[:, None] ** 2 * se**2
    variance, spread = parts.sum(axis=0), (parts**2 / dof).sum(axis=0)
    welch = quotient(variance**2, spread, np.inf)
    unknown = np.full_like(variance, np.nan)
    return Averaged(weights @ theta, np.sqrt(variance), welch, unknown, unknown)


def drawn_alike(theta: FloatArray, se: FloatArray) -> Averaged:
    """Mean of the population from which k effects were drawn, all counted alike; shapes (k, p), k >= 2.

    The spread of the k estimates holds their own errors and the effects', so that mean +- t(k - 1) sd/sqrt(k) needs
    neither (Student 1908, Biometrika 6, 1-25). It is never below the error of these k alone. A new one varies by
    sd^2 about the mean, errors of such a size included. tau^2 is the sample variance less the mean squared error.
    """
    k, spread, noise = theta.shape[0], theta.var(axis=0, ddof=1), (se**2).mean(axis=0)
    widest = np.maximum(spread, noise)
    tau = np.sqrt(np.maximum(spread - noise, 0.0))
    dof = np.full(spread.size, k - 1.0)
    return Averaged(theta.mean(axis=0), np.sqrt(widest / k), dof, tau, np.sqrt(widest * (1 + 1 / k)))


def drawn(theta: FloatArray, se: FloatArray) -> Averaged:
    """Mean of the population from which k effects were drawn; shapes (k, p), k >= 2, se > 0.

    tau^2 by Paule and Mandel: sum (y - mu)^2/(v + tau^2) = k - 1, 0 where that has no root. The variance of Hartung and
    Knapp with t(k - 1), never below 1/sum of weights. Paule and Mandel (1982), J. Res. Natl. Bur. Stand. 87, 377-385;
    Knapp and Hartung (2003), Statistics in Medicine 22, 2693-2710; Roever, Knapp and Friede (2015), BMC Medical
    Research Methodology 15:99. The interval of a new one has tau^2 + Var(mean) and the same t, as R's metafor.
    """
    k, v = theta.shape[0], se**2
    tau2 = np.array([_paule_mandel(y, variances) for y, variances in zip(theta.T, v.T, strict=True)])
    w = 1 / (v + tau2)
    mean = (w * theta).sum(axis=0) / w.sum(axis=0)
    ratio = (w * (theta - mean) ** 2).sum(axis=0) / (k - 1)
    variance = np.maximum(ratio, 1.0) / w.sum(axis=0)
    return Averaged(mean, np.sqrt(variance), np.full(mean.size, k - 1.0), np.sqrt(tau2), np.sqrt(tau2 + variance))


def _paule_mandel(y: FloatArray, v: FloatArray) -> float:
    """The root in tau^2 of Cochran's Q with weights 1/(v + tau^2) less its expectation, shape (k,)."""

    def excess(tau2: float) -> float:
        w = 1 / (v + tau2)
        mean = float(w @ y / w.sum())
        return float(w @ (y - mean) ** 2) - (y.size - 1)

    # At the sample variance Q is at most k - 1, so that the root lies below.
    return float(brentq(excess, 0.0, y.var(ddof=1))) if excess(0.0) > 0 else 0.0


@dataclass(frozen=True, eq=False, repr=False)
class EvalAverage(Printed):
    """Averages over several evals; made by `average` of what `join_evals` returns, immutable.

    Parameters
    ----------
    names : tuple of str
        Models, or differences.
    evals : tuple of str
        What was averaged over.
    weights : tuple of float
        By eval; empty where they differ by model ("precision").
    tasks : {"fixed", "drawn"}
        Whether the evals are all that is asked about, or a sample.
    each : Averaged
        The averages.
    pairs : Averaged or None
        Of all pairs of models, the first less the second; None where the averages are differences.
    bounds : (float, float)
        Between which the averages lie.
    notes : tuple of (category, text)
        What was warned of.

    Examples
    --------
    >>> import evalreg as er
    >>> logs = {name: er.datasets.paired(n_passages=20, seed=i) for i, name in enumerate(["reading", "maths"])}
    >>> evals = er.join_evals({name: er.mean(log, by="model", item="question") for name, log in logs.items()})
    >>> evals.average({"reading": 0.25, "maths": 0.75}).table["estimate"].round(4).to_dict()
    {'new': 0.8, 'old': 0.735}
    """

    names: tuple[str, ...]
    evals: tuple[str, ...]
    weights: tuple[float, ...]
    tasks: TasksName
    each: Averaged
    pairs: Averaged | None
    bounds: tuple[float, float]
    notes: tuple[Note, ...] = ()

    @property
    def weights_text(self) -> str:
        """What each eval counts."""
        if not self.weights:
            return "by precision"
        if len(set(self.weights)) == 1:
            return f"equal, 1/{len(self.evals)} each"
        return ", ".join(f"{name} {weight:.4g}" for name, weight in zip(self.evals, self.weights, strict=True))

    @property
    def table(self) -> pd.DataFrame:
        """The averages with 95% intervals; see `to_frame` for the columns."""
        return self.to_frame()

    def to_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """The averages, one row each.

        Parameters
        ----------
        alpha : float, default 0.05
            Level of the intervals, and family-wise level of the ranks.

        Returns
        -------
        DataFrame
            Of models, best first: columns estimate, se, dof, lower, upper, rank, rank_lower and rank_upper (the ranks
            that the pairs leave open, all at once, by Holm). Of differences p_value in place of the ranks. Of drawn
            tasks also tau (the spread of true values over tasks), new_lower and new_upper (for one more task).
        """
        fraction("alpha", alpha)
        if self.pairs is None:
            return self._frame(self.each, alpha, {"p_value": _p_values(self.each)}).set_axis(list(self.names))
        table = self._frame(self.each, alpha, self._ranks(self.pairs, alpha)).set_axis(list(self.names))
        return table.sort_values("estimate", ascending=False, kind="stable")

    def pairwise(self, adjust: SuiteAdjustName | None = "holm", alpha: float = 0.05) -> pd.DataFrame:
        """Differences between the averages of all pairs of models.

        Parameters
        ----------
        adjust : {"holm", "fdr_bh", "fdr_by", "bonferroni"}, optional
            How `p_adjusted` allows for the number of pairs, "holm" by default, "bh" is "fdr_bh"; None leaves the
            column out.
        alpha : float, default 0.05
            Level of the intervals, each by itself.

        Returns
        -------
        DataFrame
            Indexed by (left, right); columns difference, se, dof, lower, upper, p_value and p_adjusted; of drawn tasks
            also tau, new_lower and new_upper.

        Raises
        ------
        NotAvailableError
            If the averages are differences already.
        """
        fraction("alpha", alpha)
        if self.pairs is None:
            raise NotAvailableError("these averages are differences; `pairwise` is of averages of scores.")
        adjust = adjustment("adjust", adjust, SUITE_ADJUSTMENTS)
        names, tested = np.array(self.names, dtype=object), {"p_value": _p_values(self.pairs)}
        if adjust is not None:
            tested["p_adjusted"] = adjust_pvalues(tested["p_value"], adjust)
        sides = [names[side] for side in np.triu_indices(len(names), 1)]
        table = self._frame(self.pairs, alpha, tested).rename(columns={"estimate": "difference"})
        return table.set_axis(pd.MultiIndex.from_arrays(sides, names=["left", "right"]))

    def _frame(self, averaged: Averaged, alpha: float, tested: dict[str, Any]) -> pd.DataFrame:
        """Estimates with intervals, within what is possible; what is tested; and of drawn tasks those of a new one."""
        low, high = self.bounds
        bounds = (low - high, high - low) if averaged is self.pairs else self.bounds
        columns = {"estimate": averaged.estimate, "se": averaged.se, "dof": averaged.dof}
        columns["lower"], columns["upper"] = np.clip(averaged.widths.limits(averaged.estimate, alpha).T, *bounds)
        columns |= tested
        if self.tasks == "drawn":
            sides = np.array([[-1.0], [1.0]]) * t_quantile(alpha, averaged.dof)
            low, high = np.clip(averaged.estimate + sides * averaged.new_se, *bounds)
            columns |= {"tau": averaged.tau, "new_lower": low, "new_upper": high}
        return pd.DataFrame(columns)

    def _ranks(self, pairs: Averaged, alpha: float) -> dict[str, FloatArray]:
        """Ranks, and those that no pair excludes at a family-wise level."""
        n, theta = len(self.names), self.each.estimate
        above, (left, right) = np.zeros((n, n), dtype=bool), np.triu_indices(n, 1)
        decided = adjust_pvalues(_p_values(pairs), "holm") <= alpha
        above[left, right], above[right, left] = decided & (pairs.estimate > 0), decided & (pairs.estimate < 0)
        rank = 1 + np.count_nonzero(theta > theta[:, None], axis=1)
        return {"rank": rank, "rank_lower": 1 + above.sum(axis=0), "rank_upper": n - above.sum(axis=1)}

    def summary(self, alpha: float = 0.05) -> Summary:
        """The averages, what they are averages of, and what their errors allow for.

        Parameters
        ----------
        alpha : float, default 0.05
            Level of the intervals.

        Returns
        -------
        Summary
            Prints as text of 80 columns; also `as_markdown()`, `as_latex()` and `as_html()`.
        """
        frame = self.to_frame(alpha)
        value, records = frame["estimate"], frame.to_dict("records")
        columns: dict[str, Iterable[str]] = {
            "": map(str, frame.index),
            "average (SE)": [f"{number(row['estimate'])} ({error_text(row['se'])})" for row in records],
            f"{100 * (1 - alpha):g}% interval": map(interval_text, frame["lower"], frame["upper"], value),
            "dof": dof_texts(frame["dof"], "normal"),
        }
        if self.pairs is None:
            columns["p"] = [p_value(p, alpha) for p in frame["p_value"]]
        else:
            columns["ranks"] = map(ranks_text, records)
        if self.tasks == "drawn":
            columns["tau"] = map(number, frame["tau"])
            columns["new task"] = map(interval_text, frame["new_lower"], frame["new_upper"], value)
        evals = f"{len(self.evals)}: {', '.join(self.evals)}"
        facts = (("Evals", evals), ("Tasks", self.tasks), ("Weights", self.weights_text))
        grid = replace(Grid.of(columns), blocks=True)
        return Summary("average over evals", facts, (grid,), tuple(self._sentences()))

    def _sentences(self) -> list[str]:
        if self.tasks == "fixed":
            sentences = [
                "These averages are about these evals: their errors are those of the questions. Other evals of the "
                f"same kind would give other averages, which {passed(tasks='drawn')} allows for."
            ]
        else:
            sentences = [
                f"The {len(self.evals)} evals are taken as a random sample of tasks, and the averages are about all "
                "such tasks. tau is the spread of true values over tasks, new task the interval for "
                f"the {'score' if self.weights else 'true value'} of one more."
            ]
            if not self.weights:
                # python -m benchmarks.intervals evals: six evals, two models.
                sentences.append(
                    "Weights by precision give scores near 1 too much weight: in simulated suites of six evals 95% "
                    "intervals held the truth in .90."
                )
        sentences.append("The evals are taken to share no questions. Standard errors in parentheses.")
        if self.pairs is not None and len(self.names) > 1:
            sentences.append("ranks: those that no difference between two models excludes, all at once (Holm).")
        elif self.pairs is None and len(self.names) > 1:
            sentences.append(f"p is of each of {len(self.names)} differences by itself.")
        return sentences + [text for _, text in self.notes]


def _p_values(averaged: Averaged) -> FloatArray:
    """Two-sided p-values against 0; NaN without a variance."""
    return averaged.widths.pvalues(averaged.estimate)


def average_over(
    parts: Mapping[str, Results], weights: Any, tasks: TasksName, models: Sequence[str] | None, differences: bool
) -> EvalAverage:
    """The averages of models and of all their pairs, or of differences."""
    names = _shared_names(parts, models, "differences" if differences else "models")
    option("tasks", tasks, TasksName)
    w = _checked_weights(weights, tuple(parts), tasks)
    notes = tuple[Note, ...]()
    if tasks == "drawn" and len(parts) < FEW_TASKS:
        text = f"{len(parts)} tasks say little about tasks in general: t has {len(parts) - 1} degrees of freedom."
        notes = ((FewClustersWarning, text),)
    issue(notes)

    def averaged(C: FloatArray) -> Averaged:
        errors = [_errors_of(name, part, names, C) for name, part in parts.items()]
        theta, se, dof = (np.array(arrays) for arrays in zip(*errors, strict=True))
        if w is not None and tasks == "fixed":
            return replace(weighted(theta, se, dof, w), null=_null_variance(parts, names, C, w))
        return drawn(theta, se) if w is None else drawn_alike(theta, se)

    m = len(names)
    left, right = np.triu_indices(m, 1)
    pairs = None if differences else averaged(np.eye(m)[left] - np.eye(m)[right])
    unit = all(part.estimate.about.unit for part in parts.values())
    bounds = (-np.inf, np.inf) if not unit else (-1.0, 1.0) if differences else (0.0, 1.0)
    said = () if w is None else tuple(w.tolist())
    return EvalAverage(names, tuple(parts), said, tasks, averaged(np.eye(m)), pairs, bounds, notes)


def _null_variance(
    parts: Mapping[str, Results], names: tuple[str, ...], C: FloatArray, w: FloatArray
) -> NullVariance | None:
    """That of averages of means of scores in [0, 1], the evals as strata of known shares; None of anything else."""
    means, seen = [], np.zeros(C.shape[0])
    for part, share in zip(parts.values(), w, strict=True):
        if part.cov.single is None:
            return None
        full = _in_full(part, names, C)
        means.append((part.cov.single, compressed(full), part.cov.main_axis))
        seen += share**2 * np.nan_to_num(part.cov.variance(full))
    counting = [of for of, share in zip(means, w, strict=True) if share]
    averages = IndependentMeans.of(counting, w[w > 0])
    if averages is None or not seen.size:
        return None
    return averages.null_variance(averages.sides(None), seen, ("eval",))


def _in_full(part: Results, names: tuple[str, ...], C: FloatArray) -> FloatArray:
    """Contrasts of the named parameters as contrasts of all of an eval."""
    full = np.zeros((C.shape[0], part.estimate.n_params))
    full[:, [part.estimate.names.index(label) for label in names]] = C
    return full


def _errors_of(
    name: str, part: Results, names: tuple[str, ...], C: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Estimates, standard errors and degrees of freedom of contrasts of the named parameters on one eval.

    A score without variance, such as that of a model which solves all questions, has no standard error but an
    interval: half of its length over t stands for the error, or the average would take the score for known.
    """
    at = [part.estimate.names.index(label) for label in names]
    full = _in_full(part, names, C)
    theta = full @ np.array(part.estimate.params)
    contrasts = None if np.array_equal(full, np.eye(part.estimate.n_params)) else full
    se, dof = np.sqrt(part.cov.variance(contrasts)), part.cov.dof(contrasts)
    dof = np.where(np.isnan(dof) | (dof <= 0), part.cov.smallest_dof, dof)
    if not np.all(se > 0):
        alone = np.array_equal(C, np.eye(len(names)))
        ends = part.conf_int().to_numpy()[at] if alone else part.cov.limits(theta, full)
        se = np.where(se > 0, se, (ends[:, 1] - ends[:, 0]) / 2 / t_quantile(0.05, dof))
    unknown = np.flatnonzero(~(np.isfinite(se) & (se > 0)))
    if unknown.size:
        labels = [" - ".join(names[i] for i in np.flatnonzero(C[row])) for row in unknown]
        raise NotAvailableError(
            f"an average needs the error of each score; on {name!r} {listed(labels)} has none. Leave it out by "
            "`models`, or the eval."
        )
    return theta, se, dof


def _shared_names(parts: Mapping[str, Results], models: Sequence[str] | None, what: str) -> tuple[str, ...]:
    """What is averaged; all evals must have it."""
    if len(parts) < 2:
        raise ArgumentError(f"an average is over two or more evals; got {listed(parts)} alone.")
    every = list(dict.fromkeys(label for part in parts.values() for label in part.estimate.names))
    everywhere = [label for label in every if all(label in part.estimate.names for part in parts.values())]
    if isinstance(models, str):
        raise ArgumentTypeError(f"`models` must be a list; got {models!r}.")
    wanted = every if models is None else list(dict.fromkeys(map(str, models)))
    if not wanted:
        raise ArgumentError(f"`models` must name at least one of the {what}; got an empty list.")
    for label in wanted:
        if label not in every:
            raise ArgumentError(f"`models` must name {what}; {label!r} is none.{nearest(label, every)}")
        lacking = [name for name, part in parts.items() if label not in part.estimate.names]
        if not lacking:
            continue
        cure = "None is in all."
        if everywhere:
            use = f"models={everywhere!r}" if len(everywhere) <= 10 else "`models` to name those that all have"
            cure = f"What all evals have: {len(everywhere)} of {len(every)} {what}; use {use}."
        elif what == "differences":
            cure += " Name the same `baseline` in each `compare`, which gives differences one direction."
        raise ArgumentError(
            f"an average is over the same evals for all {what}; {label!r} is not in {listed(lacking)}. {cure}"
        )
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
    rule = "not be negative, the share of an eval"
    by_eval = {str(name): checked_number("weights", weight, rule, least=0.0) for name, weight in weights.items()}
    if set(by_eval) != set(evals):
        other = sorted(set(by_eval) ^ set(evals))
        raise ArgumentError(f"`weights` must have one weight for each eval; {listed(other)} is only in one of the two.")
    w = np.array([by_eval[name] for name in evals])
    if abs(w.sum() - 1) > SUM_ERROR:
        scaled = {name: round(float(weight / w.sum()), 9) for name, weight in by_eval.items()} if w.sum() > 0 else {}
        advice = f" Divided by their sum they are {scaled}." if scaled else ""
        raise ArgumentError(f"`weights` must sum to 1; they sum to {w.sum():.6g}.{advice}")
    return np.asarray(w / w.sum())
