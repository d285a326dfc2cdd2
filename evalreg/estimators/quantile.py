"""Quantiles by Woodruff's interval, and their differences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import compress, pairwise
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import scipy

from evalreg.checks import FloatArray, few_of, fraction
from evalreg.choices import EstimatorOptions, MissingName
from evalreg.covariance.options import requested_options
from evalreg.data.clusters import Groups
from evalreg.errors import ConstantScoreError, EvalregWarning, Note
from evalreg.estimate import About, Inverted, on_one_side
from evalreg.estimators.cells import Linearized, Split, linearized_estimate, notes_by, split_rows, titled
from evalreg.numerics.limits import ROUNDING
from evalreg.results.results import Results, estimator, results_of


@dataclass(frozen=True, eq=False)
class Sample:
    """A sample, sorted from the smallest up."""

    values: FloatArray
    # Share of the weight up to and with each value; the last is 1.
    share: FloatArray

    def quantile(self, q: float) -> float:
        """Smallest value whose share reaches q; the midpoint to the next where it is exactly q."""
        place = min(int(np.searchsorted(self.share, q - ROUNDING)), self.values.size - 1)
        above = place + 1 if abs(self.share[place] - q) <= ROUNDING and place + 1 < self.values.size else place
        return float((self.values[place] + self.values[above]) / 2)

    def limit(self, q: float, side: int) -> float:
        """Quantile at the end of an interval; infinite where q lies within the share of the outermost value."""
        if side < 0:
            return -np.inf if q <= self.share[0] else self.quantile(q)
        return np.inf if self.values.size < 2 or q >= self.share[-2] else self.quantile(q)


@dataclass(frozen=True, eq=False)
class Woodruff:
    """The interval of a quantile, by that of the share of values below it."""

    sample: Sample
    q: float
    density: float  # turns a standard error of the quantile into one of the share

    def __call__(self, half: float) -> tuple[float, float]:
        """Both ends, from the half-width of the quantile."""
        low, high = shares_within(self.q, half * self.density)
        return self.sample.limit(float(low), -1), self.sample.limit(float(high), 1)


def shares_within(q: float, half: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """The shares at a half-width from q: the smallest interval that holds the plain one and that on the logit scale.

    The share below the quantile is known to be q, so that the plain interval is centred where it should be. Its end on
    the side of the nearer of 0 and 1 is the farther one; on the other side, whose tail is the longer, it is that on the
    logit scale.
    """
    half = np.asarray(half)
    low, high = (logit_shift(q, side * half) for side in (-1, 1))
    return np.minimum(low, q - half), np.maximum(high, q + half)


def logit_shift(q: float, half: npt.ArrayLike) -> FloatArray:
    """The share at a signed half-width `half` from q, on the logit scale so that it stays between 0 and 1."""
    return np.asarray(scipy.special.expit(scipy.special.logit(q) + np.asarray(half) / (q * (1 - q))))


def bandwidth(q: float, n: float) -> float:
    """Half-width, in shares, of the difference quotient that estimates the density of n values at a quantile.

    Of order n^(-1/3). Hall and Sheather (1988), JRSS B 50, 381-391.
    """
    z = float(scipy.special.ndtri(q))
    normal = float(np.exp(-z * z / 2) / np.sqrt(2 * np.pi))
    # Best for an interval of 95%.
    level = float(scipy.special.ndtri(0.975))
    return float(n ** (-1 / 3) * level ** (2 / 3) * (1.5 * normal**2 / (2 * z * z + 1)) ** (1 / 3))


def inverse_density(sample: Sample, q: float, n: float) -> float:
    """Slope of the quantile function at q: one over the density there; 0 where values are tied around the quantile.

    n counts values, or equally weighted ones that are as informative. Siddiqui (1960), J. Research NBS 64B, with the
    shares of `bandwidth` shifted on the logit scale.
    """
    low, high = logit_shift(q, bandwidth(q, n) * np.array([-1.0, 1.0]))
    # Shares at the middle of each value's own, so that ends between two values are interpolated.
    middle = sample.share - np.diff(sample.share, prepend=0.0) / 2
    return float((np.interp(high, middle, sample.values) - np.interp(low, middle, sample.values)) / (high - low))


def solve(split: Split, values: FloatArray, q: float) -> tuple[Linearized, tuple[Woodruff, ...]]:
    """Quantiles of the cells, with the influence (q - 1{value <= quantile})/density of each row.

    Rows tied at the quantile count as below it by that part which makes the share of rows below q. The density that
    makes the intervals is infinite where ties at the quantile reach further than the bandwidth on both sides, or there
    are no more than two values.
    """
    order = np.lexsort((values, split.codes))
    edges = np.searchsorted(split.codes[order], np.arange(len(split.names) + 1))
    samples, params, slopes = [], [], []
    for first, last in pairwise(edges):
        rows = order[first:last]
        weight = np.ones(rows.size) if split.rows.weights is None else split.rows.weights[rows]
        # Equal values share their weight, which must not depend on the order of their rows.
        tie = np.cumsum(np.diff(values[rows], prepend=values[rows[0]]) != 0)
        share = np.cumsum((np.bincount(tie, weight) / np.bincount(tie))[tie]) / weight.sum()
        share[-1] = 1.0
        samples.append(Sample(values[rows], share))
        params.append(samples[-1].quantile(q))
        n = float(weight.sum() ** 2 / (weight @ weight))
        # Of two values the share of either says all there is to say.
        two = np.count_nonzero(np.diff(values[rows])) < 2 and rows.size > 2
        slopes.append(0.0 if two else inverse_density(samples[-1], q, n))
    theta, slope = np.array(params), np.array(slopes)
    influence = (q - _shares_of_rows(split, values, theta, q)) * slope[split.codes]
    statistic = Linearized(theta, influence, np.ones(split.n_rows), exact=False, bounded=False)
    with np.errstate(divide="ignore"):
        return statistic, tuple(Woodruff(sample, q, 1.0 / at) for sample, at in zip(samples, slope, strict=True))


def _shares_of_rows(split: Split, values: FloatArray, theta: FloatArray, q: float) -> FloatArray:
    """1 for rows below the quantile of their cell, 0 above, and for rows at it what makes their mean q."""
    at = theta[split.codes]
    below, tied = (values < at).astype(float), (values == at).astype(float)
    whole, of_below, of_tied = (split.total(part) for part in (np.ones(split.n_rows), below, tied))
    part = np.divide(q * whole - of_below, of_tied, out=np.zeros_like(whole), where=of_tied > 0)
    return np.asarray(below + tied * np.clip(part, 0.0, 1.0)[split.codes])


@estimator
def quantile(
    data: Any,
    score: str = "score",
    q: float = 0.5,
    *,
    by: str | list[str] | None = None,
    groups: Groups = None,
    weights: str | npt.ArrayLike | None = None,
    missing: MissingName = "drop",
    **options: Unpack[EstimatorOptions],
) -> Results:
    """Quantiles with error bars valid when rows within a cluster are dependent.

    For continuous values: times, costs, numbers of tokens.

    Parameters
    ----------
    data : data frame
        In memory: pandas, polars, pyarrow; or a dict of arrays.
    score : str, default "score"
        Column of values.
    q : float, optional
        Level, strictly between 0 and 1; 0.5, the default, is the median.
    by : str or list of str, optional
        Columns of the models; one quantile each, named by the labels, with their joint covariance.
    groups : str, list of str, array, Series or dict, optional
        Clusters, as in `fit`; independent rows by default.
    weights : str or array_like, shape (n_rows,), optional
        Sampling weights.
    subset : str, optional
        Which rows to use, in the language of ``--where``: ``'language == "en" and tokens < 100'``. The summary and
        `dropped` count the others. Arrays of groups and weights are those of all rows.
    missing : {"drop", "raise"}, optional
        What to do with rows where something is missing; dropped rows are counted.
    <cov in one step>
        Covariance; "CR2" by default with groups, "naive" without.
    <ssc>
    <dof>
        Degrees of freedom, as in `mean`.
    <repair>

    Returns
    -------
    Results
        Parameters are named by the labels of `by`, sorted as strings, or "quantile". `conf_int()` is Woodruff's
        interval, the wider of that on the plain and that on the logit scale at each end. Ends are values of the
        sample and need not be symmetric; an end is infinite where the sample does not reach far enough.
        `conf_int(method="wald")` uses the standard error. Differences between models have one that is no smaller than
        what the two intervals together give (MOVER), so that values which are rounded or tied are not told apart by
        their rounding.

    Raises
    ------
    ConstantScoreError
        If values are tied around a quantile on both sides, so that the density there cannot be estimated.
    MissingColumnError, NonNumericError, NonFiniteError, TooFewClustersError, EmptyDataError
        If the data break another rule.
    NotAvailableError
        If the rows live in an engine.
    ArgumentError, ArgumentTypeError
        If `q` is not between 0 and 1, or an option is unknown.

    Notes
    -----
    The quantile is the smallest value whose cumulated share reaches q, and the midpoint to the next value where it is
    exactly q; the median is the usual one. Its standard error is that of the share of values at or below it, divided
    by the density there, estimated by a difference quotient of sample quantiles with Hall and Sheather's bandwidth.
    The density does not depend on the clusters.

    References
    ----------
    Woodruff (1952), JASA 47, 635-646; Francisco and Fuller (1991), Annals of Statistics 19, 454-469; Hall and Sheather
    (1988), JRSS B 50, 381-391; Zou and Donner (2008), Statistics in Medicine 27, 1693-1702, for differences.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=60, questions_per_passage=5, seed=3)
    >>> results = er.quantile(log, "n_words", 0.9, groups="passage")
    >>> results.params.index.tolist(), bool(results.conf_int().loc["quantile", 0] < results.params["quantile"])
    (['quantile'], True)
    """
    requested = requested_options(options)
    q = fraction("q", q)
    split = split_rows(data, {"score": score}, by, groups, weights, missing, "quantile")
    values = split.rows.values["score"]
    statistic, intervals = solve(split, values, q)
    tied = list(compress(split.names, [not np.isfinite(each.density) for each in intervals]))
    if tied:
        value = statistic.params[split.names.index(tied[0])]
        where = "" if len(split.names) == 1 else f' of "{tied[0]}"'
        raise ConstantScoreError(
            f"values around a quantile must differ; column {score!r}{where} is {value:g} in all rows near its quantile "
            f"{q:g}, where the standard error needs a density. For scores with few values estimate the share above a "
            "threshold with `er.mean` instead.",
            column=score,
            count=len(tied),
        )
    about = About(
        model=titled(f"Quantile {q:g}", by),
        outcome=score,
        lines=("Intervals are Woodruff's: those of the share of values below, read off the sample.",),
        levels=on_one_side(values, values),
    )
    estimate = linearized_estimate(split, statistic, about, score)
    family = Inverted(intervals, np.array(estimate.params), np.zeros(estimate.n_params), "Woodruff's")
    estimate = replace(estimate, family=family)
    notes = (*notes_by(split, by, groups), *_heaped_notes(split, values, q))
    return results_of(estimate, split.rows.axes, requested, notes)


def _heaped_notes(split: Split, values: FloatArray, q: float) -> Iterator[Note]:
    """A warning where models may be compared whose values stand in heaps at the quantile, as rounded ones do."""
    order, sizes = np.argsort(split.codes, kind="stable"), np.bincount(split.codes, minlength=len(split.names))
    heaped = [_is_heaped(part, q) for part in np.split(values[order], np.cumsum(sizes)[:-1])]
    if len(split.names) > 1 and any(heaped):
        text = (
            f"{few_of(list(compress(split.names, heaped)))}: most rows near the quantile share their value with "
            "others, as rounded numbers do. Tests say whether such quantiles differ; the interval of a difference is "
            "too short to say by how much. Compare the shares above a value with `er.mean`, or take numbers of more "
            "digits."
        )
        yield EvalregWarning, text


def _is_heaped(values: FloatArray, q: float) -> bool:
    """Whether rows within a standard error of the share, sqrt(q (1 - q)/n), have half as many values or fewer."""
    h = np.sqrt(q * (1 - q) / values.size)
    low, high = np.quantile(values, [max(q - h, 0.0), min(q + h, 1.0)])
    near = values[(low <= values) & (values <= high)]
    return bool(2 * np.unique(near).size <= near.size)
