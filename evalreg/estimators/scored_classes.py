"""Scores against two classes: area under the curve, hits at a rate of false alarms, Brier's score, calibration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from evalreg.checks import FloatArray, IntArray, fraction, listed
from evalreg.covariance.options import CovOptions, resolve_cov
from evalreg.covariance.terms import assemble
from evalreg.data.clusters import joint
from evalreg.errors import ArgumentError, DataError
from evalreg.estimate import About, Estimate, effective_clusters
from evalreg.estimators.cells import Split, function_of, means_of_cells, refuse_values
from evalreg.inference.intervals import Behind
from evalreg.inference.wald import joint_test, joint_test_p
from evalreg.numerics.student import logit_interval, proportion_interval

TITLES = {"auc": "Area under the ROC curve", "brier": "Brier score", "ece": "Calibration error"}
AT_RATE = "tpr@fpr="
# Bins of equal width of the calibration error: Guo et al. (2017), ICML, section 2.
BINS = 10
# Clusters with either outcome that a gap is tested on: Cochran (1954), Biometrics 10, for expected counts.
SOME = 5
# Standard errors of the rate of false alarms over which the slope of the curve is taken: Woodruff (1952), JASA 47.
WINDOW = 2.0

Pair: TypeAlias = tuple[FloatArray, FloatArray]


def scored(
    split: Split, truth: str, predicted: str, metric: str, positive: Any, title: str, asked: CovOptions
) -> Estimate:
    """The estimate of one of these metrics, a value for each cell of the split; `asked` is for the noise of gaps."""
    is_true, score = _positives(split, truth, positive), split.rows.values["predicted"]
    n, about = len(split.names), About(title, f"{predicted} against {truth}", n_models=len(split.names), levels=True)
    if metric in ("brier", "ece"):
        rule = f"`predicted` must hold chances, in [0, 1], for {metric}"
        refuse_values((score < 0) | (score > 1), score, predicted, rule, "Divide percentages by 100.")
        if metric == "ece":
            return _calibration(split, is_true, score, about, asked)
        means = means_of_cells(split, (score - is_true) ** 2, predicted)
        return replace(means, about=replace(about, interval="logit", unit=True))
    # Two cells of each model, of its negatives and its positives.
    cell = 2 * split.codes + is_true
    both = replace(split, names=tuple(f"cell {i}" for i in range(2 * n)), cell=cell)
    empty = np.flatnonzero(np.bincount(cell, minlength=2 * n) == 0)
    if empty.size:
        text = f"each curve needs rows of both classes of {truth!r}; {split.names[empty[0] // 2]!r} has one alone."
        raise DataError(text, column=truth)
    share, weight = None if metric == "auc" else false_alarms(metric), split.weighted(np.ones(split.n_rows))
    values, jacobian = np.empty(split.n_rows), np.zeros((n, 2 * n))
    for i in range(n):
        negative, positive = (np.flatnonzero(cell == 2 * i + k) for k in (0, 1))
        low, high = ((score[rows], weight[rows]) for rows in (negative, positive))
        placed, slope = _placements(low, high) if share is None else _hits(low, high, share)
        values[negative], values[positive] = placed
        jacobian[i, 2 * i : 2 * i + 2] = slope, 1.0
    means = means_of_cells(both, values, predicted)
    return function_of(means, np.array(means.params)[1::2], jacobian, split.names, about, OnLogit(means, np.arange(n)))


def false_alarms(metric: str) -> float:
    """f of "tpr@fpr=f", a number between 0 and 1."""
    try:
        return fraction("f", float(metric.removeprefix(AT_RATE)))
    except ValueError:
        text = f'`metric="tpr@fpr=f"` needs a rate f strictly between 0 and 1, such as 0.01; got "{metric}".'
        raise ArgumentError(text) from None


def _positives(split: Split, truth: str, positive: Any) -> IntArray:
    """1 where the truth is the positive class, by default the greater of the two, 0 elsewhere."""
    codes = split.rows.used[truth]
    labels = [codes.labels[code] for code in range(codes.n_clusters)]
    if len(labels) != 2:
        text = f"`truth` must have two classes here; column {truth!r} has {len(labels)}: {listed(labels)}."
        raise DataError(text, column=truth, count=len(labels))
    chosen = max(labels) if positive is None else next((one for one in labels if str(one) == str(positive)), None)
    if chosen is None:
        raise ArgumentError(f"`positive` must be a class of {truth!r}, {listed(labels)}; got {positive!r}.")
    return np.asarray(codes.codes == labels.index(chosen), dtype=np.intp)


def _share_below(values: FloatArray, of: FloatArray, weight: FloatArray) -> FloatArray:
    """Share of `of`, by weight, that is below each value, ties by halves."""
    order = np.argsort(of, kind="stable")
    total = np.append(0.0, np.cumsum(weight[order]))
    below, through = (total[np.searchsorted(of[order], values, side)] for side in ("left", "right"))
    return np.asarray((below + through) / (2 * total[-1]))


def _placements(negative: Pair, positive: Pair) -> tuple[Pair, float]:
    """DeLong's components of each row: the share of the other class that it is on the right side of.

    Both classes have the area as their mean. DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44, 837-845; summed
    within clusters, Obuchowski (1997), Biometrics 53, 567-578.
    """
    return (1 - _share_below(negative[0], *positive), _share_below(positive[0], *negative)), 1.0


def _hits(negative: Pair, positive: Pair, rate: float) -> tuple[Pair, float]:
    """Whether each row is flagged by the lowest threshold that flags at most a share of the negatives.

    With them what a share of negatives more weighs in the hits, less the slope of the curve (the ratio of densities at
    the threshold): by how much hits change over WINDOW standard errors of the share on either side.
    """
    order = np.argsort(negative[0], kind="stable")
    ranked = negative[0][order]
    above = 1 - np.cumsum(negative[1][order]) / negative[1].sum()
    above = above[np.searchsorted(ranked, ranked, "right") - 1]

    def flagged(scores: FloatArray, share: float) -> FloatArray:
        # Above the lowest negative that leaves at most this share above it; 1e-12 for rounding of sums of weights.
        return np.asarray(scores > ranked[np.flatnonzero(above <= share + 1e-12)[0]], dtype=np.float64)

    h = WINDOW * np.sqrt(rate * (1 - rate) / ranked.size)
    low, high = max(rate - h, 0.0), min(rate + h, 1.0)
    hits = [float(np.average(flagged(positive[0], share), weights=positive[1])) for share in (low, high)]
    return (flagged(negative[0], rate), flagged(positive[0], rate)), -(hits[1] - hits[0]) / (high - low)


@dataclass(frozen=True, eq=False)
class OnLogit(Behind):
    """Shares made of the means of two classes, whose intervals are built on the logit scale.

    Where all is right or wrong the interval is Clopper and Pearson's on the clusters of the class that has fewer.
    """

    def ends(self, estimate: Estimate, cov: Any, alpha: float) -> FloatArray:
        """Both ends of every share, shape (n_params, 2)."""
        share, se = np.array(estimate.params), np.sqrt(cov.variance())
        inside = (share > 0) & (share < 1) & (se > 0)
        trials = effective_clusters(self.behind, cov.axes).reshape(-1, 2).min(axis=1)[self.at]
        limits = proportion_interval(share, trials, alpha, "clopper-pearson")
        limits[inside] = logit_interval(share[inside], se[inside], cov.critical(alpha=alpha)[inside])
        return limits


@dataclass(frozen=True, eq=False)
class Gaps(Behind):
    """Signed roots of sum_b w_b (d_b^2 - V_bb); `weights` are those of each bin, shape (n_values, n_bins).

    The joint test is of the gaps of `groups` of neighbouring bins, by value a matrix of shares, (n_groups, n_bins).
    """

    weights: FloatArray
    groups: tuple[FloatArray, ...]

    def ends(self, estimate: Estimate, cov: Any, alpha: float) -> FloatArray:
        """Roots of the ends for the sum, whose variance is that of a quadratic form of normal gaps."""
        V, weights = np.nan_to_num(4 * self.covariance(cov).matrix), self.weights[self.at]
        value, slope = np.array(estimate.params), weights * (2 * np.array(self.behind.params) - 1)
        noise = np.einsum("mi,ij,mj,ji->m", weights, V, weights, V)
        # Var d'Wd = 4 mu'WVW mu + 2 tr WVWV, and d'WVWd is tr WVWV too large for mu'WVW mu.
        variance = np.maximum(4 * np.einsum("mi,ij,mj->m", slope, V, slope) - 2 * noise, 2 * noise)
        half = cov.critical(alpha=alpha) * np.sqrt(variance)
        square = value * np.abs(value)
        return signed_root(np.column_stack([square - half, square + half]))

    def tests(self, estimate: Estimate, cov: Any) -> tuple[FloatArray, FloatArray]:
        """No t; p of the joint test that every gap is 0."""
        centred = replace(self.behind, params=np.array(self.behind.params) - 0.5)
        p = [joint_test_p(joint_test(centred, self.covariance(cov), self.groups[value])) for value in self.at]
        return np.full(len(p), np.nan), np.array(p)


def signed_root(values: FloatArray) -> FloatArray:
    """The root of the size of each value, with its sign."""
    return np.asarray(np.sign(values) * np.sqrt(np.abs(values)))


def _calibration(split: Split, is_true: IntArray, score: FloatArray, about: About, asked: CovOptions) -> Estimate:
    """The debiased root mean square gap between truth and prediction over ten bins.

    The signed root of sum_b w_b (d_b^2 - V_bb), with d_b the mean of truth - predicted in bin b, V_bb the variance of
    that and w_b the share of its rows. Kumar, Liang and Ma (2019), NeurIPS 32, section 4. A bin that lies in one
    cluster has no variance, and is left out.
    """
    axes, bins = split.rows.axes, np.minimum((score * BINS).astype(np.intp), BINS - 1)
    cells, cell = np.unique(split.codes * BINS + bins, return_inverse=True)
    binned = replace(split, names=tuple(f"bin {i}" for i in range(cells.size)), cell=cell)
    # Gaps are carried as (1 + gap)/2, in [0, 1], so that a bin in which all are alike is no error.
    means = means_of_cells(binned, (1 + is_true - score) / 2, "predicted")
    cov = assemble(means, axes or (), resolve_cov(asked, axes is not None, default="CR2"))
    d, V = 2 * np.array(means.params) - 1, 4 * cov.variance()
    own = (cells // BINS == np.arange(len(split.names))[:, None]) & ~np.isnan(V)
    weights = np.where(own, binned.total(np.ones(split.n_rows)), 0.0)
    weights = weights / weights.sum(axis=1, keepdims=True)
    value = signed_root(weights @ (d**2 - np.nan_to_num(V)))
    jacobian = 2 * weights * d / np.where(value == 0, 1.0, np.abs(value))[:, None]
    groups = tuple(_with_both_outcomes(binned, is_true, row) for row in weights)
    family = Gaps(means, np.arange(value.size), weights, groups)
    return function_of(means, value, jacobian, split.names, replace(about, levels=False), family)


def _with_both_outcomes(binned: Split, is_true: IntArray, weights: FloatArray) -> FloatArray:
    """Neighbouring bins put together until each group has both outcomes in SOME clusters: shares, (n_groups, n_bins).

    The variance of a bin in which all came true is that of its scores alone, as good as none.
    """
    axes = [joint([binned.rows.used[name] for name in axis]).codes for axis in binned.rows.axes or ()]
    clusters, groups = axes or [np.arange(binned.n_rows)], [np.zeros(weights.size)]
    for b in np.flatnonzero(weights):
        groups[-1][b] = weights[b]
        rows = groups[-1][binned.codes] > 0
        if min(np.unique(codes[rows & (is_true == k)]).size for codes in clusters for k in (0, 1)) >= SOME:
            groups.append(np.zeros(weights.size))
    if len(groups) > 1:
        groups[-2:] = [groups[-2] + groups[-1]]
    return np.array([group / group.sum() for group in groups])
