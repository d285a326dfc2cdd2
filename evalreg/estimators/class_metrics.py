"""Metrics of predicted classes and their averages, as ratios of counts and functions of such ratios."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np

from evalreg.checks import FloatArray, IntArray, listed
from evalreg.errors import DataError
from evalreg.estimators.linearized import Linearized, Split
from evalreg.estimators.ratio import solve

Fraction: TypeAlias = tuple[FloatArray, FloatArray]


def class_counts(truth: IntArray, predicted: IntArray, label: int, metric: str) -> Fraction:
    """Numerator and denominator of each row, whole numbers, for one class against all others; shape (n_rows,) each.

    F1 is 2 TP / (2 TP + FP + FN): a row counts once for a label in `truth` and once for one in `predicted`.
    """
    is_true, is_predicted = (truth == label).astype(float), (predicted == label).astype(float)
    hit = is_true * is_predicted
    if metric == "precision":
        return hit, is_predicted
    if metric == "recall":
        return hit, is_true
    return 2 * hit, is_true + is_predicted


def macro(parts: list[Linearized]) -> Linearized:
    """Mean of the ratios of several classes, one a part.

    Its influence is the mean of theirs; so are its leverages, which makes leaving out a cluster one Newton step.
    """
    n = len(parts)
    params, influence, share = (
        sum((getattr(part, name) for part in parts[1:]), getattr(parts[0], name)) / n
        for name in ("params", "influence", "share")
    )
    return Linearized(params, influence, share, exact=n == 1, bounded=True)


def delta(split: Split, parts: list[Linearized], gradient: list[FloatArray], params: FloatArray) -> Linearized:
    """A function of several statistics of the same rows, by the delta method: influence sum_j g_j u_j, equal leverages.

    Shapes: params and each gradient, the derivative of the function by a part, (n_cells,).
    """
    terms = zip(gradient, parts, strict=True)
    influence = sum((g[split.codes] * part.influence for g, part in terms), np.zeros(split.n_rows))
    return Linearized(params, influence, np.ones(split.n_rows), exact=False, bounded=False)


def weighted_average(split: Split, parts: list[Linearized], shares: list[Linearized]) -> Linearized:
    """Mean of the metrics of classes with their shares of the true labels as weights, which are estimated too.

    A = sum w_c M_c / sum w_c, with the derivatives w_c / W by M_c and (M_c - A) / W by w_c.
    """
    w, M = (np.stack([part.params for part in which]) for which in (shares, parts))
    W = w.sum(axis=0)
    average = (w * M).sum(axis=0) / W
    found = delta(split, [*parts, *shares], [*(w / W), *((M - average) / W)], average)
    return replace(found, bounded=True)


def kappa(split: Split, truth: IntArray, predicted: IntArray, n_classes: int) -> Linearized:
    """Cohen's kappa (p - e) / (1 - e), e = sum_c t_c q_c: agreement beyond what the two margins give by chance.

    Its derivatives are 1 / (1 - e) by p, and -(1 - p) / (1 - e)^2 times q_c by t_c, and t_c by q_c. Fleiss, Cohen and
    Everitt (1969), Psychological Bulletin 72, 323-327, for independent rows. DataError where all labels are one class.
    """
    one = np.ones(split.n_rows)
    agree = solve(split, (truth == predicted).astype(float), one)
    true, said = (
        [solve(split, (codes == c).astype(float), one) for c in range(n_classes)] for codes in (truth, predicted)
    )
    t, q = (np.stack([part.params for part in which]) for which in (true, said))
    chance = (t * q).sum(axis=0)
    if np.any(chance >= 1 - 1e-12):
        where = [name for name, flat in zip(split.names, chance >= 1 - 1e-12, strict=True) if flat]
        raise DataError(
            f"kappa needs at least two classes; all labels of {listed(where)} are one, in both columns, so that chance "
            'agrees always. Use metric="accuracy".',
            count=len(where),
        )
    by_chance = -(1 - agree.params) / (1 - chance) ** 2
    gradient = [1 / (1 - chance), *(by_chance * q), *(by_chance * t)]
    return delta(split, [agree, *true, *said], gradient, (agree.params - chance) / (1 - chance))


def class_part(split: Split, labels: tuple[IntArray, IntArray], name: str, label: int, metric: str) -> Linearized:
    """Metric of one class in every cell."""
    top, bottom = class_counts(*labels, label, metric)
    empty = [cell for cell, total in zip(split.names, split.total(bottom), strict=True) if total == 0]
    if empty:
        what = {"precision": "is never predicted", "recall": "never occurs", "f1": "neither occurs nor is predicted"}
        where = "" if len(split.names) == 1 else f" in the rows of {listed(empty)}"
        raise DataError(
            f'{metric} of "{name}" is not defined: the class {what[metric]}{where}. Leave it out of `classes`, '
            'or ask for another metric; metric="f1" is defined for every class that occurs.',
            count=len(empty),
        )
    return solve(split, top, bottom)
