"""Scores against two classes: area under the curve, hits at a rate of false alarms, Brier's score, calibration."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evalreg.checks import FloatArray, IntArray, listed
from evalreg.covariance.assembly import assemble
from evalreg.covariance.options import CovOptions, resolve_cov
from evalreg.data.clusters import joint
from evalreg.errors import ArgumentError, DataError, ScoreRangeError
from evalreg.estimate import PLAIN, About, Estimate, Family
from evalreg.estimate.about import selects
from evalreg.estimate.behind import effective_clusters
from evalreg.estimators.functions_of_means import function_of, means_of_cells
from evalreg.estimators.linearized import Split
from evalreg.inference.fieller import covariance_behind
from evalreg.inference.wald import joint_test, joint_test_p
from evalreg.numerics.matrices import Matrix, dense
from evalreg.numerics.proportions import logit_interval, proportion_interval

TITLES = {"auc": "Area under the ROC curve", "brier": "Brier score", "ece": "Calibration error"}
# Bins of equal width of the calibration error: Guo et al. (2017), ICML, section 2.
BINS = 10
# Standard errors of the rate of false alarms over which the slope of the curve is taken: Woodruff (1952), JASA 47.
WINDOW = 2.0
# Clusters with either outcome that a gap is tested on: Cochran (1954), Biometrics 10, for expected counts.
SOME = 5


def false_alarms(metric: str) -> float | None:
    """f of "tpr@fpr=f", a number between 0 and 1; None of another metric."""
    named = re.fullmatch(r"tpr@fpr=(.+)", metric)
    if named is None:
        return None
    try:
        share = float(named[1])
    except ValueError:
        share = np.nan
    if not 0 < share < 1:
        raise ArgumentError(f'`metric="tpr@fpr=f"` needs a rate f strictly between 0 and 1, as 0.01; got {named[1]!r}.')
    return share


def takes_scores(metric: str) -> bool:
    """Whether a metric is of scores, and not of predicted labels."""
    return metric in TITLES or false_alarms(metric) is not None


def scored(
    split: Split, truth: str, predicted: str, metric: str, positive: Any, title: str, asked: CovOptions
) -> Estimate:
    """The estimate of one of these metrics, a value for each cell of the split; `asked` is for the noise of gaps."""
    is_true, score = _positives(split, truth, positive), split.rows.values["predicted"]
    about = About(title, f"{predicted} against {truth}", n_models=len(split.names), levels=True)
    if metric in ("brier", "ece"):
        outside = (score < 0) | (score > 1)
        if outside.any():
            n, first = int(outside.sum()), score[outside][0]
            raise ScoreRangeError(
                f"`predicted` must hold chances, in [0, 1], for {metric}; column {predicted!r} does not in {n} rows "
                f"(the first is {first:g}). Divide percentages by 100.",
                column=predicted,
                count=n,
            )
        if metric == "brier":
            means = means_of_cells(split, (score - is_true) ** 2, predicted)
            return replace(means, about=replace(about, interval="widened", unit=True))
        return _calibration(split, is_true, score, about, asked)
    _check_classes(split, is_true, truth)
    share = false_alarms(metric)
    values, weights = _placements(split, is_true, score) if share is None else _hits(split, is_true, score, share)
    # Two cells of each model, of its negatives and its positives.
    both = replace(split, names=tuple(f"{i}" for i in range(2 * len(split.names))), cell=2 * split.codes + is_true)
    means = means_of_cells(both, values, predicted)
    found = np.array(means.params)[1::2]
    jacobian = np.zeros((found.size, 2 * found.size))
    jacobian[np.arange(found.size), 2 * np.arange(found.size)] = weights
    jacobian[np.arange(found.size), 2 * np.arange(found.size) + 1] = 1.0
    return function_of(means, found, jacobian, split.names, about, OnLogit(means, np.arange(found.size)))


def _positives(split: Split, truth: str, positive: Any) -> IntArray:
    """1 where the truth is the positive class, by default the greater of the two, 0 elsewhere."""
    codes = split.rows.used[truth]
    labels = [codes.labels[code] for code in range(codes.n_clusters)]
    if len(labels) != 2:
        raise DataError(
            f"`truth` must have two classes here; column {truth!r} has {len(labels)}: {listed(labels)}.",
            column=truth,
            count=len(labels),
        )
    chosen = max(labels) if positive is None else next((one for one in labels if str(one) == str(positive)), None)
    if chosen is None:
        raise ArgumentError(f"`positive` must be a class of {truth!r}, {listed(labels)}; got {positive!r}.")
    return np.asarray(codes.codes == labels.index(chosen), dtype=np.intp)


def _check_classes(split: Split, is_true: IntArray, truth: str) -> None:
    count = np.bincount(2 * split.codes + is_true, minlength=2 * len(split.names)).reshape(-1, 2)
    if (count == 0).any():
        name = split.names[int(np.flatnonzero((count == 0).any(axis=1))[0])]
        raise DataError(f"each curve needs rows of both classes of {truth!r}; {name!r} has one alone.", column=truth)


def _weights(split: Split) -> FloatArray:
    return np.ones(split.n_rows) if split.rows.weights is None else split.rows.weights


def _share_below(values: FloatArray, of: FloatArray, weight: FloatArray) -> FloatArray:
    """Share of `of`, by weight, that is below each value, ties by halves."""
    order = np.argsort(of, kind="stable")
    total = np.append(0.0, np.cumsum(weight[order]))
    ends = [total[np.searchsorted(of[order], values, side)] for side in ("left", "right")]
    return np.asarray((ends[0] + ends[1]) / (2 * total[-1]))


def _placements(split: Split, is_true: IntArray, score: FloatArray) -> tuple[FloatArray, FloatArray]:
    """DeLong's components of each row: the share of the other class that it is on the right side of.

    Both classes have the area as their mean. DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44, 837-845; summed
    within clusters, Obuchowski (1997), Biometrics 53, 567-578.
    """
    values, weight = np.empty(split.n_rows), _weights(split)
    for code in range(len(split.names)):
        positive, negative = (np.flatnonzero((split.codes == code) & (is_true == k)) for k in (1, 0))
        values[positive] = _share_below(score[positive], score[negative], weight[negative])
        values[negative] = 1 - _share_below(score[negative], score[positive], weight[positive])
    return values, np.ones(len(split.names))


def _hits(split: Split, is_true: IntArray, score: FloatArray, share: float) -> tuple[FloatArray, FloatArray]:
    """Whether each row is flagged by the lowest threshold that flags at most a share of the negatives.

    With them what a share of negatives more weighs in the hits, less the slope of the curve, the ratio of densities at
    the threshold: by how much hits change over WINDOW standard errors of the share on either side.
    """
    values, weights, weight = np.empty(split.n_rows), np.empty(len(split.names)), _weights(split)
    for code in range(len(split.names)):
        positive, negative = (np.flatnonzero((split.codes == code) & (is_true == k)) for k in (1, 0))
        order = negative[np.argsort(score[negative], kind="stable")]
        above = 1 - np.cumsum(weight[order]) / weight[order].sum()

        def threshold(rate: float, order: IntArray = order, above: FloatArray = above) -> float:
            # Flagged is what lies above a negative that leaves at most this share above it, ties together.
            ties = np.searchsorted(score[order], score[order], "right") - 1
            return float(score[order][np.flatnonzero(above[ties] <= rate + 1e-12)[0]])

        def hits(rate: float, positive: IntArray = positive) -> float:
            return float(np.average(score[positive] > threshold(rate), weights=weight[positive]))

        h = WINDOW * np.sqrt(share * (1 - share) / negative.size)
        low, high = max(share - h, 0.0), min(share + h, 1.0)
        weights[code] = -(hits(high) - hits(low)) / (high - low)
        rows = split.codes == code
        values[rows] = score[rows] > threshold(share)
    return values, weights


@dataclass(frozen=True, eq=False)
class Behind(Family):
    """Values made of means, of which intervals and tests need to know; `at` says which of all values these are."""

    behind: Estimate
    at: IntArray

    def linear(self, whole: Estimate, C: Matrix) -> Family:
        """Some of the values; contrasts of them have Wald's intervals."""
        return replace(self, at=self.at[np.argmax(dense(C) != 0, axis=1)]) if selects(C) else PLAIN

    def with_labels(self, more: dict[str, Any]) -> Family:
        """The same with further columns of labels."""
        return replace(self, behind=replace(self.behind, scores=self.behind.scores.with_labels(more)))


@dataclass(frozen=True, eq=False)
class OnLogit(Behind):
    """Shares made of the means of two classes, whose intervals are built on the logit scale.

    Where all is right or wrong the interval is Clopper and Pearson's on the clusters of the class that has fewer.
    """

    def ends(self, estimate: Estimate, cov: Any, alpha: float) -> FloatArray:
        """Both ends of every share, shape (n_params, 2)."""
        share, se = np.array(estimate.params), np.sqrt(cov.variance())
        limits = np.full((share.size, 2), np.nan)
        inside = (share > 0) & (share < 1) & (se > 0)
        limits[inside] = logit_interval(share[inside], se[inside], cov.critical(alpha=alpha)[inside])
        flat = ~inside
        trials = effective_clusters(self.behind, cov.axes).reshape(-1, 2).min(axis=1)[self.at]
        limits[flat] = proportion_interval(share[flat], trials[flat], alpha, "clopper-pearson")
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
        V, d = 4 * covariance_behind(self.behind, cov).matrix, 2 * np.array(self.behind.params) - 1
        value, weights = np.array(estimate.params), self.weights[self.at]
        slope = weights * d
        noise = np.einsum("mi,ij,mj,ji->m", weights, V, weights, V)
        # Var d'Wd = 4 mu'WVW mu + 2 tr WVWV, and d'WVWd is tr WVWV too large for mu'WVW mu.
        variance = np.maximum(4 * np.einsum("mi,ij,mj->m", slope, V, slope) - 2 * noise, 2 * noise)
        half = cov.critical(alpha=alpha) * np.sqrt(variance)
        square = value * np.abs(value)
        return signed_root(np.column_stack([square - half, square + half]))

    def tests(self, estimate: Estimate, cov: Any) -> tuple[FloatArray, FloatArray]:
        """No t; p of the joint test that every gap is 0."""
        behind, own = self.behind, covariance_behind(self.behind, cov)
        half = replace(behind, params=np.array(behind.params) - 0.5)
        p = np.array([joint_test_p(joint_test(half, own, self.groups[value])) for value in self.at])
        return np.full(p.size, np.nan), p


def signed_root(values: FloatArray) -> FloatArray:
    """The root of the size of each value, with its sign."""
    return np.asarray(np.sign(values) * np.sqrt(np.abs(values)))


def _calibration(split: Split, is_true: IntArray, score: FloatArray, about: About, asked: CovOptions) -> Estimate:
    """The debiased root mean square gap between truth and prediction over ten bins.

    The signed root of sum_b w_b (d_b^2 - V_bb), with d_b the mean of truth - predicted in bin b, V_bb the variance of
    that and w_b the share of its rows. Kumar, Liang and Ma (2019), NeurIPS 32, section 4.
    """
    axes = split.rows.axes
    names, cell = _bins(split, score)
    binned = replace(split, names=tuple(f"bin {i}" for i in range(names.size)), cell=cell)
    # Gaps are carried as (1 + gap)/2, in [0, 1], so that a bin in which all are alike is no error.
    means = means_of_cells(binned, (1 + is_true - score) / 2, "predicted")
    cov = assemble(means, axes or (), resolve_cov(asked, axes is not None, default="CR2"))
    d, V = 2 * np.array(means.params) - 1, 4 * cov.variance()
    weights = np.where(names == np.arange(len(split.names))[:, None], binned.total(np.ones(split.n_rows)), 0.0)
    weights = weights / weights.sum(axis=1, keepdims=True)
    value = signed_root(weights @ (d**2 - V))
    jacobian = 2 * weights * d / np.where(value == 0, 1.0, np.abs(value))[:, None]
    groups = tuple(_both_outcomes(binned, is_true, row) for row in weights)
    family = Gaps(means, np.arange(value.size), weights, groups)
    return function_of(means, value, jacobian, split.names, replace(about, levels=False), family)


def _both_outcomes(binned: Split, is_true: IntArray, weights: FloatArray) -> FloatArray:
    """Neighbouring bins of a model put together until each group has both outcomes in SOME clusters.

    The variance of a bin in which all came true is that of its scores alone: it is as good as none.
    """
    clusters = _clusters(binned)
    own, groups = np.flatnonzero(weights), []
    group: list[int] = []
    for b in own:
        group.append(int(b))
        rows = np.isin(binned.codes, group)
        if min(np.unique(codes[rows & (is_true == k)]).size for codes in clusters for k in (0, 1)) >= SOME:
            groups.append(group)
            group = []
    if group:
        groups = [*groups[:-1], [*(groups[-1] if groups else []), *group]]
    shares = np.array([np.where(np.isin(np.arange(weights.size), one), weights, 0.0) for one in groups])
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _clusters(split: Split) -> list[IntArray]:
    """Cluster of each row along every axis; the rows themselves without axes."""
    axes = [joint([split.rows.used[name] for name in axis]).codes for axis in split.rows.axes or ()]
    return axes or [np.arange(split.n_rows)]


def _bins(split: Split, score: FloatArray) -> tuple[IntArray, IntArray]:
    """The model of each bin, and the bin of each row; a bin that lies in one cluster goes with its neighbour."""
    bins = np.minimum((score * BINS).astype(np.intp), BINS - 1)
    clusters = _clusters(split)
    for model in range(len(split.names)):
        rows = split.codes == model
        own = bins[rows]
        for b in range(BINS):
            inside = own == b
            others = np.setdiff1d(own, b)
            if inside.any() and others.size and min(np.unique(codes[rows][inside]).size for codes in clusters) < 2:
                own[inside] = others[np.argmin(np.abs(others - b))]
        bins[rows] = own
    cells, cell = np.unique(split.codes * BINS + bins, return_inverse=True)
    return cells // BINS, cell
