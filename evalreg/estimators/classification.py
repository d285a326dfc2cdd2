"""Labels and scores against them: accuracy, precision, recall, F1; areas, hits, Brier's score, calibration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, Literal, TypeAlias, Unpack, get_args

import numpy as np
import numpy.typing as npt

from evalreg.checks import BoolArray, FloatArray, IntArray, fraction, listed, nearest_or_all, option
from evalreg.choices import EstimatorOptions, MissingName
from evalreg.covariance.options import CovOptions, requested_options, resolve_cov
from evalreg.covariance.proportions import logit_interval, proportion_interval
from evalreg.covariance.reach import Ends
from evalreg.covariance.terms import assemble
from evalreg.data.clusters import Codes, Groups, joint
from evalreg.data.pairs import as_name
from evalreg.errors import ArgumentError, ArgumentTypeError, DataError, FewClustersWarning, Note
from evalreg.estimate import About, Contrasted, Estimate, Family, effective_clusters, selects
from evalreg.estimators.cells import (
    Linearized,
    Split,
    function_of,
    linearized_estimate,
    means_of_cells,
    notes_by,
    refuse_values,
    side_by_side,
    split_rows,
    titled,
    with_score_intervals,
)
from evalreg.estimators.ratio import solve
from evalreg.inference.intervals import Behind, joint_test
from evalreg.inference.wald import joint_test_p
from evalreg.numerics.limits import ROUNDING
from evalreg.numerics.matrices import Matrix
from evalreg.results.results import Results, estimator, results_of
from evalreg.scores.score_interval import FEW_EXPECTED, ICC_MEAN

MetricName: TypeAlias = Literal["accuracy", "precision", "recall", "f1"]
ScoreMetricName: TypeAlias = Literal["auc", "brier", "ece"] | str
AverageName: TypeAlias = Literal["macro", "micro"]

TITLES = {"auc": "Area under the ROC curve", "brier": "Brier score", "ece": "Calibration error"}
AT_RATE = "tpr@fpr="
# Bins of equal width of the calibration error: Guo et al. (2017), ICML, section 2.
BINS = 10
# Standard errors of the rate of false alarms over which the slope of the curve is taken: Woodruff (1952), JASA 47.
WINDOW = 2.0

# With three rows of a class 95% intervals of a mean recall held the truth in .80 to .82 of simulated logs, with 12 in
# .87 to .93 and with 30 in .93 to .95 (benchmarks/fragile.py).
FEW_OF_CLASSES = 15.0


@estimator
def classification(
    data: Any,
    *,
    truth: str,
    predicted: str,
    metric: MetricName | ScoreMetricName = "f1",
    positive: Any = None,
    average: AverageName | None = None,
    classes: list[Any] | None = None,
    by: str | list[str] | None = None,
    groups: Groups = None,
    weights: str | npt.ArrayLike | None = None,
    missing: MissingName = "drop",
    **options: Unpack[EstimatorOptions],
) -> Results:
    """Accuracy, precision, recall, F1 and metrics of scores, with error bars valid when rows are dependent.

    Parameters
    ----------
    data : data frame
        In memory: pandas, polars, pyarrow; or a dict of arrays. One row for each prediction.
    truth, predicted : str
        Columns of labels, compared as text; whole numbers read alike in columns of integers and of floats. For the
        metrics of scores `predicted` has numbers, and `truth` two classes.
    metric : {"f1", "precision", "recall", "accuracy", "auc", "brier", "ece"} or `"tpr@fpr=0.01"`, optional
        What is estimated; "f1" by default. Of scores: "auc", the area under the
        ROC curve; `"tpr@fpr=f"`, the share of positives above the lowest threshold that flags at most a share f of the
        negatives, whose own noise is in the error; "brier", the mean square of score less truth; "ece", the root mean
        square gap of truth and score over ten bins, less what noise makes of it (negative where that is more), whose
        `pvalues` are those of the joint test that all gaps are 0, which decides whether the interval contains 0. Of
        "brier" and "ece" less is better, where `ranks` puts the largest first.
    positive : label, optional
        The class that counts, against all others; of scores by default the greater of the two.
    average : {"macro", "micro"}, optional
        "macro" is the unweighted mean over classes (of recall: the balanced accuracy); "micro" counts all labels
        alike, which is the accuracy for each of the three. With neither `positive` nor `average` each class has its
        own parameter, with their joint covariance.
    classes : list of labels, optional
        Classes that are averaged or shown; by default all labels of either column. Answers that could not be read
        can have a label of their own in `predicted`, and are then wrong without being a class.
    by : str or list of str, optional
        Columns of the models; one value each, with their joint covariance.
    groups : str, list of str, array, Series or dict, optional
        Clusters, as in `fit`; independent rows by default.
    weights : str or array_like, shape (n_rows,), optional
        Sampling weights.
    subset : str, optional
        Which rows to use, in the language of ``--where``: ``'language == "en" and tokens < 100'``. The summary and
        `dropped` count the others. Arrays of groups and weights are those of all rows.
    missing : {"drop", "raise"}, optional
        What to do with rows where something is missing; dropped rows are counted.
    <cov>
        Covariance; "CR2" by default with groups, "naive" without. No "jackknife" for macro
        averages.
    <ssc>
    <dof>
        Degrees of freedom, as in `mean`.
    <repair>

    Returns
    -------
    Results
        Named by the labels of `by`, or by the metric; by class, or model and class with a colon between, where there is
        one parameter a class. Score intervals as in `mean`; on the logit scale of F1, "auc" and `"tpr@fpr=f"`, and
        of "ece" roots of those of its square.

    Raises
    ------
    DataError
        If a metric is not defined, since a class never occurs or is never predicted, or if the two columns have no
        label in common; of scores, if `truth` has not two classes, or chances lie outside [0, 1].
    ArgumentError
        If an option is unknown, or two exclude each other.
    MissingColumnError, NonNumericError, NonFiniteError, TooFewClustersError, EmptyDataError
        If the data break another rule.
    NotAvailableError
        If the rows live in an engine.

    Notes
    -----
    Each is a ratio of sums over rows, F1 being 2 TP/(2 TP + FP + FN), and has the influence of a ratio; the influence
    of a macro average is the mean of those of the classes. Precision equals the mean over the rows that were predicted
    as the class, with the same CR2 and the same degrees of freedom.

    References
    ----------
    Cochran (1977), Sampling Techniques, section 6.3; Takahashi et al. (2022), Applied Intelligence 52, 4961-4972,
    for F1 with independent rows; DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44, 837-845, and Obuchowski
    (1997), Biometrics 53, 567-578, for areas; Kumar, Liang and Ma (2019), NeurIPS 32, for calibration.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
    >>> log["answer"] = log["score"].where(log["n_words"] < log["n_words"].quantile(0.8), 0)
    >>> results = er.classification(log, truth="score", predicted="answer", positive=1, groups="passage")
    >>> results.params.index.tolist(), results.n_clusters
    (['f1'], {'passage': 40})
    """
    requested = requested_options(options)
    if str(metric) in TITLES or str(metric).startswith(AT_RATE):
        if average is not None or classes is not None:
            raise ArgumentError(f'`metric="{metric}"` is of scores of two classes: leave out `average` and `classes`.')
        split = split_rows(data, {"predicted": predicted}, by, groups, weights, missing, metric, texts={"truth": truth})
        title = titled(TITLES.get(metric, metric.upper()), by)
        estimate = scored(split, truth, predicted, metric, positive, title, requested)
        return results_of(estimate, split.rows.axes, requested, notes_by(split, by, groups))
    option("metric", metric, (*get_args(MetricName), *TITLES), ' Or "tpr@fpr=f" with a rate f.')
    _check_which(metric, positive, average, classes)
    split = split_rows(data, {}, by, groups, weights, missing, metric, texts={"truth": truth, "predicted": predicted})
    title = titled(_title(metric, positive, average), by)
    # What a row weighs in F1 depends on whether it is right, so that Kish's effective rows are too few.
    icc = None if metric == "f1" and average != "micro" else ICC_MEAN
    about = About(title, f"{predicted} against {truth}", interval="logit", icc=icc)
    names, labels = _coded(split.rows.used[truth], split.rows.used[predicted], truth, predicted)
    notes = list(notes_by(split, by, groups))
    if metric == "accuracy" or average == "micro":
        estimate = linearized_estimate(split, share(split, labels[0] == labels[1]), about, predicted)
    else:
        chosen = _chosen(names, [positive] if positive is not None else classes)
        parts = [class_part(split, labels, names[label], label, metric) for label in chosen]
        if average == "macro" or positive is not None:
            estimate = linearized_estimate(split, macro(parts), about, predicted)
            counted = labels[1 if metric == "precision" else 0]
            notes += _rare_notes(split, counted, chosen, names) if average == "macro" else []
        else:
            estimates = [linearized_estimate(split, part, about, about.outcome) for part in parts]
            models = [f"{model}:" if by is not None else "" for model in split.names]
            named = [tuple(f"{model}{names[label]}" for model in models) for label in chosen]
            estimate = side_by_side([replace(part, names=n) for part, n in zip(estimates, named, strict=True)])
    return results_of(estimate, split.rows.axes, requested, tuple(notes))


# Metrics of labels


def share(split: Split, which: BoolArray) -> Linearized:
    """Share of some rows."""
    return solve(split, which.astype(float), np.ones(split.n_rows))


def macro(parts: list[Linearized]) -> Linearized:
    """Mean of the ratios of several classes, one a part.

    Its influence is the mean of theirs; so are its leverages, which makes leaving out a cluster one Newton step.
    """
    params, influence, share = (
        np.mean([getattr(part, name) for part in parts], axis=0) for name in ("params", "influence", "share")
    )
    return Linearized(params, influence, share, exact=len(parts) == 1, bounded=True)


def class_part(split: Split, labels: tuple[IntArray, IntArray], name: str, label: int, metric: str) -> Linearized:
    """Metric of one class against all others in every cell.

    F1 is 2 TP / (2 TP + FP + FN): a row counts once for a label in `truth` and once for one in `predicted`.
    """
    is_true, is_predicted = ((codes == label).astype(float) for codes in labels)
    hit = is_true * is_predicted
    fractions = {"precision": (hit, is_predicted), "recall": (hit, is_true), "f1": (2 * hit, is_true + is_predicted)}
    top, bottom = fractions[metric]
    empty = list(compress(split.names, split.total(bottom) == 0))
    if empty:
        what = {"precision": "is never predicted", "recall": "never occurs", "f1": "neither occurs nor is predicted"}
        where = "" if len(split.names) == 1 else f" in the rows of {listed(empty)}"
        raise DataError(
            f'{metric} of "{name}" is not defined: the class {what[metric]}{where}. Leave it out of `classes`, '
            'or ask for another metric; metric="f1" is defined for every class that occurs.',
            count=len(empty),
        )
    return solve(split, top, bottom)


def _rare_notes(split: Split, labels: IntArray, chosen: list[int], names: list[str]) -> list[Note]:
    """A warning where the mean over classes rests on the few rows of the rarest.

    If the classes' values vary as means of their n_c rows do, the variance of their mean has about (sum 1/n_c)^2 / sum
    1/n_c^3 degrees of freedom (Satterthwaite 1946).
    """
    n_models = len(split.names)
    rows = np.bincount(labels * n_models + split.codes, minlength=len(names) * n_models).reshape(-1, n_models)[chosen]
    part = np.divide(1.0, rows, out=np.zeros(rows.shape), where=rows > 0)
    telling = part.sum(axis=0) ** 2 / np.maximum((part**3).sum(axis=0), 1e-300)
    worst = int(np.argmin(telling))
    if telling[worst] >= FEW_OF_CLASSES:
        return []
    rarest = int(np.argmax(part[:, worst]))
    of = "" if n_models == 1 else f" of {split.names[worst]}"
    text = (
        f'the mean over classes{of} rests on the rarest of them; rows of class "{names[chosen[rarest]]}": '
        f"{rows[rarest, worst]}. The standard error has about {telling[worst]:.0f} degrees of freedom, so that the "
        "interval may be too short. A micro average counts rows, and rare classes can be left out."
    )
    return [(FewClustersWarning, text)]


def _check_which(metric: str, positive: Any, average: Any, classes: Any) -> None:
    if average is not None:
        option("average", average, AverageName)
    options = {"positive": positive, "average": average, "classes": classes}
    passed = [name for name, value in options.items() if value is not None]
    if metric == "accuracy" and passed:
        raise ArgumentError(f'`metric="accuracy"` counts all classes alike and takes no `{passed[0]}`; leave it out.')
    if positive is not None and len(passed) > 1:
        raise ArgumentError(
            f"`positive` asks for one class, and `{passed[1]}` for several; got positive={positive!r} with both. Leave "
            "out one."
        )
    if average == "micro" and classes is not None:
        raise ArgumentError('`average="micro"` counts all labels, and `classes` leaves some out. Pass one of the two.')
    if classes is not None and (isinstance(classes, str) or not isinstance(classes, list | tuple) or not classes):
        raise ArgumentTypeError(f"`classes` must be a list of labels; got {classes!r}.")


def _title(metric: str, positive: Any, average: Any) -> str:
    word = "F1" if metric == "f1" else metric.capitalize()
    if positive is not None:
        return f"{word} of {positive}"
    if metric == "accuracy":
        return word
    return f"{average.capitalize()} {word}" if average else f"{word} by class"


def _coded(truth: Codes, predicted: Codes, *columns: str) -> tuple[list[str], tuple[IntArray, IntArray]]:
    """Labels of both columns, sorted as text, and their codes."""
    texts = [[as_name(codes.labels[code]) for code in range(codes.n_clusters)] for codes in (truth, predicted)]
    names = sorted({*texts[0], *texts[1]})
    if not set(texts[0]) & set(texts[1]):
        raise DataError(
            f"truth and prediction must share labels; column {columns[0]!r} holds {listed(texts[0])} and "
            f"{columns[1]!r} {listed(texts[1])}. Write both in one way.",
            column=columns[1],
        )
    place = {name: i for i, name in enumerate(names)}
    first, second = (np.array([place[text] for text in column]) for column in texts)
    return names, (first[truth.codes], second[predicted.codes])


def _chosen(names: list[str], classes: list[Any] | None) -> list[int]:
    if classes is None:
        return list(range(len(names)))
    texts = [as_name(label) for label in classes]
    for text in texts:
        if text not in names:
            hint = nearest_or_all(text, names, "label")
            raise ArgumentError(f'"{text}" is not a label of either column.{hint}')
    if len(set(texts)) < len(texts):
        raise ArgumentError(f"`classes` must name each label once; got {listed(texts)}.")
    return [names.index(text) for text in texts]


# Metrics of scores

Pair: TypeAlias = tuple[FloatArray, FloatArray]


def scored(
    split: Split, truth: str, predicted: str, metric: str, positive: Any, title: str, requested: CovOptions
) -> Estimate:
    """Estimate of one of these metrics, a value for each cell of the split; `requested` is for the noise of gaps."""
    (is_true, label), score = _positives(split, truth, positive), split.rows.values["predicted"]
    n, of_chances = len(split.names), metric in ("brier", "ece")
    lines = (f'"{label}" is the positive class; `positive` names another.',) if isinstance(label, str) else ()
    # Of chances less is better, so that no model comes first.
    about = About(title, f"{predicted} against {truth}", lines=lines, n_models=0 if of_chances else n, levels=True)
    if of_chances:
        rule = f"`predicted` must hold chances, in [0, 1], for {metric}"
        refuse_values((score < 0) | (score > 1), score, predicted, rule, "Divide percentages by 100.")
        if metric == "ece":
            return _calibration(split, is_true, score, about, requested)
        means = means_of_cells(split, (score - is_true) ** 2, predicted)
        means = replace(means, about=replace(about, interval="logit", unit=True, icc=ICC_MEAN))
        return with_score_intervals(means, axes=split.rows.axes if n > 1 and split.rows.weights is None else None)
    # Two cells of each model, of its negatives and its positives.
    cell = 2 * split.codes + is_true
    both = replace(split, names=tuple(f"cell {i}" for i in range(2 * n)), cell=cell)
    empty = np.flatnonzero(np.bincount(cell, minlength=2 * n) == 0)
    if empty.size:
        text = f"each curve needs rows of both classes of {truth!r}; {split.names[empty[0] // 2]!r} has one alone."
        raise DataError(text, column=truth)
    rate, weight = None if metric == "auc" else false_alarms(metric), split.weighted(np.ones(split.n_rows))
    values, jacobian = np.empty(split.n_rows), np.zeros((n, 2 * n))
    for i in range(n):
        sides = [np.flatnonzero(cell == 2 * i + k) for k in (0, 1)]
        negative, positive = ((score[rows], weight[rows]) for rows in sides)
        placed, slope = _placements(negative, positive) if rate is None else _hits(negative, positive, rate)
        values[np.concatenate(sides)] = np.concatenate(placed)
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


def _positives(split: Split, truth: str, positive: Any) -> tuple[IntArray, Any]:
    """1 where the truth is the positive class, by default the greater of the two, 0 elsewhere; and that class."""
    codes = split.rows.used[truth]
    labels = [codes.labels[code] for code in range(codes.n_clusters)]
    if len(labels) != 2:
        text = f"`truth` must have two classes here; column {truth!r} has {len(labels)}: {listed(labels)}."
        raise DataError(text, column=truth, count=len(labels))
    chosen = max(labels, key=lambda label: (isinstance(label, str), label)) if positive is None else positive
    texts, name = [as_name(label) for label in labels], as_name(chosen)
    if name not in texts:
        raise ArgumentError(f"`positive` must be a class of {truth!r}, {listed(labels)}; got {positive!r}.")
    return np.asarray(codes.codes == texts.index(name), dtype=np.intp), chosen


def _share_below(values: FloatArray, of: Pair, side: Literal["left", "right"]) -> FloatArray:
    """Share of `of`, scores with their weights, that is below each value; with the side "right" also at it."""
    order = np.argsort(of[0], kind="stable")
    total = np.append(0.0, np.cumsum(of[1][order]))
    return np.asarray(total[np.searchsorted(of[0][order], values, side)] / total[-1])


def _placements(negative: Pair, positive: Pair) -> tuple[Pair, float]:
    """DeLong's components of each row: the share of the other class that it is on the right side of, ties by halves.

    Both classes have the area as their mean. DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44, 837-845; summed
    within clusters, Obuchowski (1997), Biometrics 53, 567-578.
    """
    above, below = (
        (_share_below(scores, of, "left") + _share_below(scores, of, "right")) / 2
        for scores, of in ((negative[0], positive), (positive[0], negative))
    )
    return (1 - above, below), 1.0


def _hits(negative: Pair, positive: Pair, rate: float) -> tuple[Pair, float]:
    """Whether each row is flagged by the lowest threshold that flags at most a share of the negatives.

    Those are the rows that at most this share of the negatives is as high as. With them what a share of negatives more
    weighs in the hits, less the slope of the curve (the ratio of densities at the threshold): by how much hits change
    over WINDOW standard errors of the share on either side.
    """
    # But for rounding of sums of weights.
    as_high = [1 - _share_below(scores, negative, "left") - ROUNDING for scores, _ in (negative, positive)]
    h = WINDOW * np.sqrt(rate * (1 - rate) / negative[0].size)
    window = np.clip([rate - h, rate + h], 0.0, 1.0)
    hits = [float(np.average(as_high[1] <= share, weights=positive[1])) for share in window]
    flagged = [(share <= rate).astype(np.float64) for share in as_high]
    return (flagged[0], flagged[1]), -float(np.diff(hits)[0] / np.diff(window)[0])


@dataclass(frozen=True, eq=False)
class OnLogit(Behind):
    """Shares made of the means of two classes, whose intervals are built on the logit scale.

    Where all is right or wrong the interval is Clopper and Pearson's on the clusters of the class that has fewer, for
    whose ends differences allow; with an error of its own, that of a threshold, by MOVER, so that intervals and
    differences count either noise once.
    """

    interval_rule = "on the logit scale"

    def linear(self, whole: Estimate, C: Matrix) -> Family:
        """Some of the shares, or contrasts of them all."""
        return super().linear(whole, C) if selects(C) else Contrasted(whole, C)

    def without_variance(self, estimate: Estimate, cov: Any) -> Ends | None:
        """Those where all is right or wrong."""
        which = np.flatnonzero(np.isin(estimate.params, (0.0, 1.0)))
        moves = np.eye(estimate.n_params)[:, which]
        return Ends(which, estimate.params[which], self._trials(cov)[which], moves) if which.size else None

    def _trials(self, cov: Any) -> FloatArray:
        return np.asarray(effective_clusters(self.behind, cov.axes).reshape(-1, 2).min(axis=1)[self.at])

    def ends(self, estimate: Estimate, cov: Any, alpha: float | FloatArray) -> FloatArray:
        """Both ends of every share, shape (n_params, 2)."""
        share, se = np.array(estimate.params), np.sqrt(cov.variance())
        inside = (share > 0) & (share < 1) & (se > 0)
        limits, t = proportion_interval(share, self._trials(cov), alpha, "clopper-pearson"), cov.critical(alpha=alpha)
        away = np.hypot(limits - share[:, None], np.where(se > 0, t * se, 0.0)[:, None])
        limits = np.clip(share[:, None] + away * [-1, 1], 0.0, 1.0)
        limits[inside] = logit_interval(share[inside], se[inside], t[inside])
        return np.asarray(limits)


@dataclass(frozen=True, eq=False)
class Gaps(Behind):
    """Signed roots of sum_b w_b (d_b^2 - V_bb); `weights` are those of each bin, shape (n_values, n_bins).

    No gap is 0 where the root is not: the joint test of the gaps of `groups` of neighbouring bins, by value a matrix of
    shares, (n_groups, n_bins), says whether the interval holds 0.
    """

    interval_rule = "roots of those of squared gaps"
    weights: FloatArray
    groups: tuple[FloatArray, ...]

    def ends(self, estimate: Estimate, cov: Any, alpha: float | FloatArray) -> FloatArray:
        """Roots of the sums whose distance from the estimate is not significant, with the variance at that sum.

        Var d'Wd = 4 mu'WVW mu + 2 tr WVWV; the first part grows with the sum, S, as a S does, a S the variance of the
        linear part. All bins without a gap are tested together, which shows more than their sum does.
        """
        value, raw = np.array(estimate.params), self.weights[self.at] @ (2 * np.array(self.behind.params) - 1) ** 2
        a = 4 * np.where(value == 0, 1.0, value) ** 2 * cov.variance() / np.where(raw > 0, raw, 1.0)
        p, noise = (of_all[self.at] for of_all in self._of_all_levels(cov))
        # So that squares of t^2 stay numbers at small levels of few degrees of freedom.
        t2 = np.minimum(cov.critical(alpha=alpha), np.finfo(float).max ** 0.2) ** 2
        square = value * np.abs(value)
        middle, product = square + t2 * a / 2, square**2 - t2 * noise
        half = np.sqrt(np.maximum(middle**2 - product, 0.0))
        # Of the two roots the one nearer 0 from their product: a difference would have no digits at small levels.
        far = middle + np.copysign(half, middle)
        near = np.where(half > 0, product / np.where(far != 0, far, 1.0), middle)
        low, high = signed_root(np.stack([np.minimum(np.minimum(far, near), square), np.maximum(far, near)]))
        least = np.where(p <= alpha, np.finfo(float).tiny, -np.inf)
        low = np.where(p > alpha, np.minimum(low, 0.0), np.maximum(low, least))
        return np.column_stack([low, np.maximum(high, np.where(p > alpha, 0.0, least))])

    def _of_all_levels(self, cov: Any) -> tuple[FloatArray, FloatArray]:
        """p of the joint tests that every gap is 0, and 2 tr WVWV; of all values, shape (n_values,)."""
        behind, weights = self.covariance(cov), self.weights
        if "gaps" not in behind.cache:
            no_gap = [(C, C.sum(axis=1) / 2) for C in self.groups]
            p = np.array([joint_test_p(joint_test(self.behind, behind, C)) for C in no_gap])
            V = np.nan_to_num(4 * behind.matrix)
            behind.cache["gaps"] = p, 2 * np.sum((weights @ (V * V.T)) * weights, axis=1)
        of_all: tuple[FloatArray, FloatArray] = behind.cache["gaps"]
        return of_all


def signed_root(values: FloatArray) -> FloatArray:
    """The root of the size of each value, with its sign."""
    return np.asarray(np.sign(values) * np.sqrt(np.abs(values)))


def _calibration(split: Split, is_true: IntArray, score: FloatArray, about: About, requested: CovOptions) -> Estimate:
    """The debiased root mean square gap between truth and prediction over ten bins.

    The signed root of sum_b w_b (d_b^2 - V_bb), with d_b the mean of truth - predicted in bin b, V_bb the variance of
    that and w_b the share of its rows, which is estimated too. Kumar, Liang and Ma (2019), NeurIPS 32, section 4. A bin
    that lies in one cluster has no variance, and is left out.
    """
    axes, bins = split.rows.axes, np.minimum((score * BINS).astype(np.intp), BINS - 1)
    cells, cell = np.unique(split.codes * BINS + bins, return_inverse=True)
    binned = replace(split, names=tuple(f"bin {i}" for i in range(cells.size)), cell=cell)
    # Gaps are carried as (1 + gap)/2, in [0, 1], so that a bin in which all are alike is no error.
    means = means_of_cells(binned, (1 + is_true - score) / 2, "predicted")
    cov = assemble(means, axes or (), resolve_cov(requested, axes is not None, default="CR2"))
    d, V = 2 * np.array(means.params) - 1, 4 * cov.variance()
    model_bins = (cells // BINS == np.arange(len(split.names))[:, None]) & ~np.isnan(V)
    weights = np.where(model_bins, binned.total(np.ones(split.n_rows)), 0.0)
    used, every, counted = weights.sum(axis=1), split.total(np.ones(split.n_rows)), np.any(weights, axis=0)[cell]
    if not counted.all():
        out = int((~counted).sum())
        text = f"{out:,} rows are in bins that lie in one cluster, whose noise is not known: left out."
        if not used.all():
            raise DataError(f"{text} Nothing is left: name a finer column in `groups`.", parameter="groups")
        about = replace(about, lines=(*about.lines, text))
    weights = weights / used[:, None]
    square = d**2 - np.nan_to_num(V)
    total = weights @ square
    value, size = signed_root(total), np.sqrt(np.where(total == 0, 1.0, np.abs(total)))
    # What the shares of the bins add: the mean over rows of the square gap of their bin, in [0, 1] like the gaps.
    away = np.where(counted, square[cell] - total[split.codes], 0.0)
    shares = means_of_cells(split, (1 + away) / 2, "predicted", np.full(total.size, 0.5))
    both = means.stack(replace(shares, names=tuple(f"share {i}" for i in range(total.size))))
    jacobian = np.column_stack([2 * weights * d, np.diag(every / used)]) / size[:, None]
    groups = tuple(_with_both_outcomes(binned, is_true, row) for row in weights)
    family = Gaps(means, np.arange(value.size), weights, groups)
    return function_of(both, value, jacobian, split.names, replace(about, levels=False), family)


def _with_both_outcomes(binned: Split, is_true: IntArray, weights: FloatArray) -> FloatArray:
    """Neighbouring bins put together until each has both outcomes in several clusters: shares, (n_groups, n_bins).

    A gap is tested where a normal holds, by the rule of Cochran (1954) for expected counts.
    The variance of a bin in which all came true is that of its scores alone, as good as none.
    """
    axes = [joint([binned.rows.used[name] for name in axis]).codes for axis in binned.rows.axes or ()]
    clusters, groups = axes or [np.arange(binned.n_rows)], [np.zeros(weights.size)]
    for b in np.flatnonzero(weights):
        groups[-1][b] = weights[b]
        rows = groups[-1][binned.codes] > 0
        if min(np.unique(codes[rows & (is_true == k)]).size for codes in clusters for k in (0, 1)) >= FEW_EXPECTED:
            groups.append(np.zeros(weights.size))
    if len(groups) > 1:
        groups[-2:] = [groups[-2] + groups[-1]]
    return np.array([group / group.sum() for group in groups])
