"""One score: the half-width of its interval, gates, and the labels that calibrate its judge."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy
from scipy.special import bdtr, betaln, ndtr

from evalreg.checks import FloatArray, checked_count, checked_number, fraction
from evalreg.covariance.crossed import half_widths, t_quantile
from evalreg.errors import ArgumentError
from evalreg.numerics.limits import EQUAL, EXACT, ROOT_OF_ROUNDING, ROUNDING
from evalreg.planning.pilot import pilot_of
from evalreg.planning.power import LARGE, checked_icc, fewest
from evalreg.scores.score_interval import ICC_MEAN, NullVariance, Unseen, not_of_two

DROPS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.1)


def gate(
    results: Any = None,
    *,
    score: float | None = None,
    n: int | None = None,
    margin: float,
    drop: float | Sequence[float] = DROPS,
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
    drop : float or sequence of float, default (0.0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.1)
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
    least = checked_number("margin", margin, "be positive, the difference that a run may be below", above=0.0)
    drops = [checked_number("drop", size) for size in np.atleast_1d(drop)]
    if (results is None, score is None, n is None) not in ((False, True, True), (True, False, False)):
        raise ArgumentError("pass either results, er.plan.gate(results, margin=0.03), or `score` and `n`.")
    beyond = np.array(drops) - least
    if score is not None and n is not None:
        power = _exact(score, n, least, beyond)
    else:
        bse = getattr(results, "bse", None)
        if not isinstance(bse, pd.Series) or len(bse) != 1 or not bse.iloc[0] > 0:
            what = f"errors {bse.to_dict()}" if isinstance(bse, pd.Series) else type(results).__name__
            rule = "`results` must be of one mean with an error, as results.contrast(name) is"
            raise ArgumentError(f"{rule}; got {what}.")
        power = ndtr(beyond / float(bse.iloc[0]))
    return pd.DataFrame({"power": power}, index=pd.Index(drops, name="drop"))


def _exact(score: float, n: int, margin: float, beyond: FloatArray) -> FloatArray:
    """P(X/n < score - margin) of X binomial at the dropped score; of a drop to below 0, NaN."""
    value = checked_number("score", score, "lie in [0, 1]", least=0.0, most=1.0)
    count = checked_count("n", n, 1, "questions")
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
        Whole numbers "negative" and "positive", at least 1 each, whose sum is n.

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
    rule = "lie above 0 and be at most 1"
    sensitivity = checked_number("sensitivity", sensitivity, rule, above=0.0, most=1.0)
    specificity = checked_number("specificity", specificity, rule, above=0.0, most=1.0)
    positive = share * math.sqrt(sensitivity * (1 - sensitivity))
    negative = (1 - share) * math.sqrt(specificity * (1 - specificity))
    # A judge without errors needs no more labels of one kind than of the other.
    part = 0.5 if positive + negative == 0 else negative / (positive + negative)
    first = min(max(round(total * part), 1), total - 1)
    return pd.Series({"negative": first, "positive": total - first}, name="labels", dtype="int64")


@dataclass(frozen=True)
class Precision:
    """Rows that give a score's interval a half-width; made by `plan.precision`.

    Parameters
    ----------
    n : int
        Rows (questions) in all.
    effective : float
        Independent rows that would say as much: n over `deff`.
    n_clusters : int or None
        Clusters, where their size is known.
    cluster_size : float or None
        Rows of a cluster.
    deff : float
        Variance over that of as many independent rows.
    dof : float
        Degrees of freedom of the interval; inf where the normal is its reference.
    half_width : float
        That of the interval, as asked.
    alpha : float
        Its level.
    expected : float
        Half-width expected of so many rows.

    Examples
    --------
    >>> import evalreg as er
    >>> er.plan.precision(half_width=0.03, rate=0.7).n
    897
    """

    n: int
    effective: float
    n_clusters: int | None
    cluster_size: float | None
    deff: float
    dof: float
    half_width: float
    alpha: float
    expected: float


def precision(
    *,
    half_width: float,
    rate: float | None = None,
    variance: float | None = None,
    deff: float | None = None,
    icc: float | None = None,
    cluster_size: float | None = None,
    pilot: Any = None,
    assurance: float | None = None,
    alpha: float = 0.05,
) -> Precision:
    """Number of rows at which the interval of a single score has a given half-width.

    Parameters
    ----------
    half_width : float
        Half of the length of the interval, above 0, in units of the score.
    rate : float, optional
        Expected share of right answers, for scores of 0 and 1; between 0 and 1. 0.5 is the safe side.
    variance : float, optional
        Variance of one row, for other scores, in place of `rate`.
    deff : float, optional
        Design effect, at least 1: by how much the dependence of rows multiplies the variance. 1 by default.
    icc, cluster_size : float, optional
        In place of `deff`: correlation of two rows of a cluster, from 0 to 1, and rows of a cluster, at least 1: deff
        is then 1 + (cluster_size - 1) icc. `cluster_size` may stand beside `deff` too. Where it is given the interval
        is t with one degree of freedom less than there are clusters.
    pilot : Results, optional
        In place of all of these: results with one parameter, such as `mean`, with the clusters of the pilot.
    assurance : float, optional
        With `pilot`: with this probability the half-width is reached, for the pilot's variance is an estimate. By
        default it is taken as it is.
    alpha : float, optional
        Level, 0.05 by default: 95% intervals.

    Returns
    -------
    Precision
        Rows, clusters, effective rows, degrees of freedom.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is outside its range, or what is given does not go together.
    NotAvailableError
        If the pilot is about a finite benchmark.

    Notes
    -----
    The half-width is t sqrt(deff variance/n), with a variance of rate (1 - rate) for 0/1 scores, or that of the score
    interval of `mean` where it is larger, as near 0 and 1: what clusters of `cluster_size` rows are expected not to
    show is granted the `icc` that `mean` grants, 0.2. A design effect without `cluster_size` says nothing about
    clusters, so the normal is the reference, and nothing is granted: with few clusters that promises too much, by 3% at
    40 of them, 7% at 20, 21% at 8, and near 0 and 1 by more.

    Clusters of a pilot keep their mix of sizes: its degrees of freedom grow with the number of clusters, and its score
    interval is that of more clusters like these.

    References
    ----------
    Kish (1965), Survey Sampling, section 5.4 (design effects); Wilson (1927), Journal of the American Statistical
    Association 22, 209-212.

    Examples
    --------
    >>> import evalreg as er
    >>> plan = er.plan.precision(half_width=0.03, rate=0.7, deff=2.5)
    >>> plan.n, round(plan.effective)
    (2241, 896)
    >>> plan = er.plan.precision(half_width=0.03, rate=0.7, icc=0.2, cluster_size=5)
    >>> plan.n, plan.n_clusters
    (1630, 326)
    """
    half_width = checked_number("half_width", half_width, "be positive, half of the length of the interval", above=0.0)
    fraction("alpha", alpha)
    if pilot is not None:
        assumed = {"rate": rate, "variance": variance, "deff": deff, "icc": icc, "cluster_size": cluster_size}
        named = [name for name, value in assumed.items() if value is not None]
        if named:
            raise ArgumentError(
                f"`pilot` has the variance and the clusters; `{named[0]}` would contradict it. Leave one of them out."
            )
        rows = pilot_of(pilot)
        known, plain = rows.get("clustered", rows["plain"]), rows["plain"]
        if assurance is not None:
            known = known.at_limit(fraction("assurance", assurance))
        variance, size = known.variance * known.larger, known.size if "clustered" in rows else None
        results = getattr(pilot, "results", pilot)
        about, score = results.estimate.about, float(results.params.iloc[0])
        # Near 0 and 1 the interval of a mean of scores in [0, 1] is that of a proportion.
        near = about.unit and about.interval == "logit" and 0 < score < 1
        null_of = known.null_at if known.null is not None else _trials(score, variance, None) if near else None
        return _smallest(variance, known.variance / plain.variance, size, null_of, known.dof_at, half_width, alpha)
    if assurance is not None:
        raise ArgumentError("`assurance` needs `pilot`: numbers that are assumed have no error of their own.")
    each = _variance(rate, variance)
    deff, size = _design_effect(deff, icc, cluster_size)
    # Of a design effect alone nobody knows how many clusters are behind it.
    normal = size is None and (rate is not None or deff != 1)

    def dof_of(units: float) -> float:
        return math.inf if normal else units - 1.0

    null_of = None if rate is None else _trials(rate, each * deff, size)
    return _smallest(each * deff, deff, size, null_of, dof_of, half_width, alpha)


def _smallest(
    variance: float,
    deff: float,
    size: float | None,
    null_of: Callable[[float], NullVariance] | None,
    dof_of: Callable[[float], float],
    half_width: float,
    alpha: float,
) -> Precision:
    """The fewest units (clusters of a size, or rows) whose interval has the half-width.

    `variance` is that of the mean times its rows; where there is a score interval (`null_of` so many units), its
    half-width counts if that is larger.
    """
    rows, z2 = size or 1.0, float(scipy.special.ndtri(alpha / 2)) ** 2

    def half(units: float) -> float:
        dof = np.array([dof_of(units)])
        by_t = float(t_quantile(alpha, dof)[0]) * math.sqrt(variance / (units * rows))
        return by_t if null_of is None else max(by_t, float(half_widths(null_of(units), dof, alpha)[0]))

    least = z2 / half_width**2 * variance / rows
    if not least * rows < EXACT:
        raise ArgumentError(f"`half_width` must leave n below {EXACT:.0e}; got one that needs {least:.3g} units.")
    least = max(2, math.ceil(least * (1 - ROUNDING)))
    units = fewest(lambda count: half(count) <= half_width * (1 + EQUAL), least)
    n, known = math.ceil(units * rows * (1 - ROUNDING)), size is not None
    dof = dof_of(units)
    return Precision(n, n / deff, units if known else None, size, deff, dof, half_width, alpha, half(units))


def _trials(rate: float, variance: float, size: float | None) -> Callable[[float], NullVariance]:
    """V(x) of a mean of 0/1 scores with this variance times its rows, in so many units (clusters of a size, or rows).

    What clusters of a size are expected not to show is granted the correlation that `mean` grants by default.
    """
    spread = rate * (1 - rate)
    effect, rows = variance / spread, size or 1.0
    if size is not None and size > 1:
        share = np.array([_unseen(rate, size, (effect - 1) / (size - 1))])
        effect = float(Unseen(share, share * (size - 1)).design_effect(ICC_MEAN, np.array([effect]))[0])

    def null_of(units: float) -> NullVariance:
        mean, n, s2, seen, E = np.array([[rate], [units * rows], [spread], [variance / (units * rows)], [effect]])
        return NullVariance(mean, n, s2, mean, mean, seen, seen, E, np.array([False]), not_of_two(1))

    return null_of


def _unseen(rate: float, size: float, icc: float) -> float:
    """What a cluster is expected not to show of 0/1 scores, whose successes are beta-binomial."""
    n, between = round(min(size, LARGE)), min(max(icc, ROOT_OF_ROUNDING), 1 - ROOT_OF_ROUNDING)
    k, a, b = np.arange(n + 1.0), rate * (1 / between - 1), (1 - rate) * (1 / between - 1)
    chance = np.exp(betaln(k + a, n - k + b) - betaln(a, b) - betaln(k + 1, n - k + 1) - np.log(n + 1))
    return float(chance @ (0.5 / (0.5 + np.minimum(k, n - k))))


def _variance(rate: float | None, variance: float | None) -> float:
    """Variance of a row."""
    if (rate is None) == (variance is None):
        raise ArgumentError(
            "`precision` needs one of `rate` (0/1 scores), `variance` (of one row) and `pilot`; got "
            f"{'none of them' if rate is None else 'rate and variance'}. rate=0.5 is the safe side for 0/1 scores."
        )
    if rate is not None:
        share = fraction("rate", rate)
        return share * (1 - share)
    return checked_number("variance", variance, "be positive, the variance of one row", above=0.0)


def _design_effect(deff: float | None, icc: float | None, size: float | None) -> tuple[float, float | None]:
    """The design effect, and rows of a cluster where they are known."""
    if size is not None:
        size = checked_number("cluster_size", size, "be at least 1, the rows of a cluster", least=1.0)
    if icc is None:
        if deff is None and size is not None and size > 1:
            raise ArgumentError("`cluster_size` needs `icc`, how alike the rows of a cluster are, or `deff`.")
        deff = 1.0 if deff is None else deff
        return checked_number("deff", deff, "be at least 1, a design effect", least=1.0), size
    if deff is not None or size is None:
        raise ArgumentError("`icc` goes with `cluster_size`, in place of `deff`: deff is 1 + (cluster_size - 1) icc.")
    rho = checked_icc(icc, " Plan with 0 where an estimate is negative.")
    return 1 + (size - 1) * rho, size
