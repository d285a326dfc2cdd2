"""Judge scores corrected by human labels: lambda, the rectified means, and what the judge adds to the labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, listed, quotient
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.leverage import Leverage
from evalreg.covariance.options import ResolvedCov
from evalreg.covariance.terms import assemble
from evalreg.data.clusters import Axis, Codes, Labels, as_codes, joint, union
from evalreg.errors import NotAvailableError, Note, RectificationWarning, TooFewClustersError
from evalreg.estimate import Estimate, Family, of_means
from evalreg.numerics.limits import LAST_DIGITS
from evalreg.numerics.matrices import Matrix, dense, scale_columns
from evalreg.scores.base import CellScores, cell_sums

# A labelled sample drawn at random fails this once in a hundred analyses, whatever the number of means.
SUSPICIOUS = 0.01


@dataclass(frozen=True, eq=False)
class HumanLabels(Family):
    """The human labels of an estimate that corrects a judge's scores by them.

    `values` are the labels of the rows (0 where there is none), `labelled` says which cells hold labelled rows,
    `model` which mean each cell belongs to, and `unit` the comparisons, each of which is two rows.
    """

    values: FloatArray
    labelled: BoolArray
    model: IntArray
    unit: Axis | None = None

    own_range: ClassVar[bool] = True
    not_resolved: ClassVar[str] = (
        '`cov="jackknife"` solves the estimate again without each cluster, and a rectified mean would then have '
        'another lambda, which is not there. Use cov="CR3", which leaves out clusters at the lambda there is.'
    )

    def leverage(self, estimate: Estimate, leverage: Leverage) -> Leverage:
        """Degrees of freedom that do not depend on the judge's units."""
        cells = estimate.cells
        assert cells is not None
        return PartsLeverage(leverage, np.sqrt(cells.squares / cells.weight), self.labelled)


@dataclass(frozen=True, eq=False)
class PartsLeverage:
    """Leverages of cells of labelled and of unlabelled rows, which vary by different amounts.

    Satterthwaite's degrees of freedom under the working model that the rows of a cell have its variance, which leaves
    the judge's units aside; and no more than those of the labelled part alone, from which lambda was learnt too. Bell
    and McCaffrey (2002), Survey Methodology 28.
    """

    of_cells: Leverage
    # (n_cells,): standard deviation of a row
    spread: FloatArray
    labelled: BoolArray

    def dof(self, contrasts: Matrix) -> FloatArray:
        """The fewer of those of both parts together and of the labelled one, one for each row of `contrasts`."""
        both = dense(scale_columns(contrasts, self.spread))
        dof = np.fmin(self.of_cells.dof(both), self.of_cells.dof(both * self.labelled))
        # Where nothing varies there is nothing to weigh the parts by.
        return np.where(np.isnan(dof), self.of_cells.dof(dense(contrasts)), dof)

    def hotelling(self, contrasts: FloatArray) -> float:
        """The fewer of those of both parts together and of the labelled one."""
        both = dense(scale_columns(contrasts, self.spread))
        varying = [part for part in (both, both * self.labelled) if np.all(np.any(part != 0, axis=1))]
        return min(self.of_cells.hotelling(part) for part in varying or [contrasts])


def human_labels(estimate: Estimate) -> HumanLabels | None:
    """The human labels of a rectified mean, or of contrasts of such; None of anything else."""
    return estimate.family if isinstance(estimate.family, HumanLabels) else None


def means_of_cells(
    values: FloatArray,
    cell: IntArray,
    labels: Labels,
    coefficient_map: FloatArray,
    names: tuple[str, ...],
    weights: FloatArray | None = None,
    **more: Any,
) -> Estimate:
    """Linear combinations of the means of cells, with their scores and `refit`.

    Every cell has rows. `more` are further fields of the estimate. Shapes: values, cell, weights (n_rows,),
    coefficient_map (n_params, n_cells).
    """
    cells = cell_sums(values, cell, coefficient_map.shape[1], weights)
    return of_means(names, coefficient_map, cells, CellScores(values, cells.mean, labels, cell, weights), **more)


def labelled_means(estimate: Estimate, axes: tuple[Axis, ...]) -> Estimate:
    """The same parameters from the human labels alone, with the labels of these clusterings."""
    human, scores = human_labels(estimate), estimate.scores
    assert human is not None
    (in_cells,), labels = scores.in_cells(), scores.row_labels()
    assert labels is not None
    rows = human.labelled[in_cells.cell]
    number = np.cumsum(human.labelled) - 1
    held = {name: as_codes(labels.codes((name,)).codes[rows]) for name in union(*axes)}
    return means_of_cells(
        human.values[rows],
        number[in_cells.cell[rows]],
        Labels(int(np.count_nonzero(rows)), held),
        dense(estimate.coefficient_map)[:, human.labelled],
        estimate.names,
        None if in_cells.weights is None else in_cells.weights[rows],
        bounded=estimate.bounded,
    )


def rectification_table(estimate: Estimate, cov: Covariance) -> pd.DataFrame:
    """What the judge's scores add to the human labels, by parameter: the table of `Results.rectification`."""
    human, cells = human_labels(estimate), estimate.cells
    if human is None or cells is None:
        raise NotAvailableError("`rectification` is there for results of `rectified_mean` and contrasts of them.")
    A = dense(estimate.coefficient_map)
    of_model = np.eye(int(np.max(human.model)) + 1)[human.model]
    labelled = A[:, human.labelled] @ of_model[human.labelled]
    unlabelled = A[:, ~human.labelled] @ of_model[~human.labelled]
    used = labelled != 0
    counts = [used @ (of_model[part].T @ cells.count[part]) for part in (human.labelled, ~human.labelled)]
    single = np.count_nonzero(used, axis=1) == 1
    se, alone = np.sqrt(cov.variance()), labelled_means(estimate, cov.axes)
    try:
        se_alone = np.sqrt(assemble(alone, cov.axes, cov.options).variance())
    except TooFewClustersError:  # of the labels alone
        se_alone = np.full(estimate.n_params, np.nan)
    columns = {
        # A contrast of several means has no lambda of its own.
        "lambda": np.where(single, unlabelled.sum(axis=1) / np.where(single, labelled.sum(axis=1), 1.0), np.nan),
        "n_labelled": counts[0].astype(int),
        "n_unlabelled": counts[1].astype(int),
        "human_mean": alone.params,
        "human_se": se_alone,
        "se": se,
        "effective_labels": counts[0] * quotient(se_alone, se) ** 2,
    }
    return pd.DataFrame(columns, index=list(estimate.names))


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows that a judge scored, some with a human label too, in cells of labelled and of unlabelled rows of each mean.

    The cells stand in the order of the means, without those that no row falls into.
    """

    judge: FloatArray
    # 0 where a row has no human label.
    human: FloatArray
    labelled: BoolArray
    # The mean that each row belongs to, by its place in `names`; every mean has labelled rows.
    model: IntArray
    names: tuple[str, ...]
    labels: Labels
    weights: FloatArray | None = None

    @cached_property
    def cell(self) -> IntArray:
        """The cell of each row."""
        return as_codes(2 * self.model + ~self.labelled).codes

    @cached_property
    def kinds(self) -> tuple[BoolArray, IntArray]:
        """Of each cell: whether its rows have human labels, and the mean that it belongs to."""
        number = np.unique(2 * self.model + ~self.labelled)
        return number % 2 == 0, number // 2

    def pick(self, labelled: bool) -> FloatArray:
        """Which cell is the labelled (or unlabelled) one of each mean, shape (n_means, n_cells)."""
        is_labelled, model = self.kinds
        means = np.arange(len(self.names))[:, None] == model
        return np.asarray(means & (is_labelled == labelled), dtype=np.float64)

    def means(self, values: FloatArray, coefficient_map: FloatArray, names: Sequence[str], **more: Any) -> Estimate:
        """Linear combinations of the means that values have in the cells."""
        return means_of_cells(values, self.cell, self.labels, coefficient_map, tuple(names), self.weights, **more)

    def n_clusters(self, axes: tuple[Axis, ...], labelled: bool) -> FloatArray:
        """Clusters with labelled (or unlabelled) rows of each mean, the fewest over axes; rows without axes."""
        cells = Codes(self.cell, self.kinds[1].size)
        firsts: list[Any] = [slice(None), *(joint([self.labels.codes(axis), cells]).first for axis in axes)]
        counts = [np.bincount(self.cell[first], minlength=cells.n_clusters) for first in firsts]
        return np.asarray(self.pick(labelled) @ np.min(counts, axis=0), dtype=np.float64)


def tune(
    judged: LabelledRows, axes: tuple[Axis, ...], options: ResolvedCov, pooled: bool = False
) -> tuple[FloatArray, tuple[str, ...], tuple[Note, ...]]:
    """lambda of each mean, how far to follow the judge; what a summary says of it; and what is warned of.

    With D the difference of the judge's means over labelled and unlabelled rows, lambda = Cov(ybar_L, D)/Var(D), which
    makes the variance of ybar_L - lambda D smallest, cut to [0, 1]; `pooled` takes one for all means, which makes the
    sum of their variances smallest. Several clusterings enter by the sum of their one-way covariances, which is
    positive semi-definite. Angelopoulos, Duchi and Zrnic (2023), arXiv:2311.01453, section 6, for independent rows.
    """
    n_means = len(judged.names)
    has_rest = np.asarray(judged.pick(False).any(axis=1), dtype=bool)
    D = np.where(has_rest[:, None], judged.pick(True) - judged.pick(False), 0.0)
    human = judged.means(judged.human, judged.pick(True), [f"human {name}" for name in judged.names])
    judge = judged.means(judged.judge, D, [f"judge {name}" for name in judged.names])
    cov = assemble(human.stack(judge), axes, options)
    together, at, gap_at = cov.sum_one_way, np.arange(n_means), n_means + np.arange(n_means)
    spread, common = together[gap_at, gap_at], together[at, gap_at]
    alone = has_rest & (judged.n_clusters(axes, False) < 2)
    # Variances that are rounding, where the judge's scores (or their sums within clusters) do not vary.
    naive = np.diag(cov.naive)
    varies = spread > LAST_DIGITS * np.maximum(naive[gap_at], np.finfo(float).tiny)
    usable = has_rest & ~alone & varies
    if pooled and usable.any():
        spread, common = np.full(n_means, spread[usable].sum()), np.full(n_means, common[usable].sum())
    weight = np.where(usable, np.clip(common / np.where(usable, spread, 1.0), 0.0, 1.0), 0.0)
    C = np.eye(2 * n_means)[n_means:]
    se = np.sqrt(cov.variance(C))
    t = quotient(judge.params, se)
    p = cov.pvalues(C, np.array(judge.params))
    # Without spread any difference at all is more than chance.
    p = np.where(has_rest & ~varies & (np.abs(judge.params) > 0), 0.0, p)
    reasons = {
        "every row has a human label": ~has_rest,
        "the unlabelled rows lie in one cluster" if axes else "there is one unlabelled row": alone,
        "the judge's scores do not vary": has_rest & ~alone & ~varies,
        "the human labels do not vary": usable & (naive[at] == 0),
        "the judge's scores do not rise with the human labels": usable & (naive[at] > 0) & (common <= 0),
    }
    texts, lines = list[str](), list[str]()
    for reason, where in reasons.items():
        if where.any():
            why = f"{listed(compress(judged.names, where))}: {reason}"
            texts.append(f"{why}, so that lambda is 0 and the estimate is the mean of the human labels alone.")
    texts += _gap_texts(judged.names, judge.params, t, p)
    if np.isfinite(t).any():
        largest = int(np.nanargmax(np.abs(t)))
        whose = f"largest for {judged.names[largest]}, " if n_means > 1 else ""
        lines.append(
            "Labelled rows are taken to be a random sample. The judge's means with and without a human label differ by "
            f"{judge.params[largest]:+.3g} ({whose}t = {t[largest]:.2f})."
        )
    return weight, tuple(lines), tuple((RectificationWarning, text) for text in texts)


def _gap_texts(names: Sequence[str], gap: FloatArray, t: FloatArray, p: FloatArray) -> list[str]:
    """A warning where the judge scores labelled and unlabelled rows too differently for a random sample."""
    suspicious = np.flatnonzero(p * len(names) < SUSPICIOUS)
    if not suspicious.size:
        return []
    worst = int(suspicious[np.argmax(np.nan_to_num(np.abs(t[suspicious]), nan=np.inf))])
    more = f" (and {suspicious.size - 1} more)" if suspicious.size > 1 else ""
    size = f"t = {t[worst]:.1f}" if np.isfinite(t[worst]) else "and neither varies"
    return [
        f"{names[worst]}{more}: the judge's mean differs by {gap[worst]:+.3g} between rows with and without a human "
        f"label ({size}). Labelled rows must be a random sample of all rows, or the estimate is biased."
    ]


def rectify(judged: LabelledRows, weight: FloatArray, unit: Axis | None = None, **more: Any) -> Estimate:
    """Means corrected by the human labels, lambda (`weight`) held fixed.

    The value of a labelled row is y - lambda f, that of an unlabelled one f; the estimate is the mean of the former
    plus lambda times the mean of the latter, a combination of the means of two cells. It is bounded where labels and
    the judge's scores lie in [0, 1]. `more` are further fields of the estimate.
    """
    values = np.where(judged.labelled, judged.human - weight[judged.model] * judged.judge, judged.judge)
    coefficient_map = judged.pick(True) + weight[:, None] * judged.pick(False)
    human = HumanLabels(judged.human, *judged.kinds, unit)
    # Labels outside [0, 1] may be missing by chance; the judge scores all rows on the same scale.
    both = np.concatenate([judged.human[judged.labelled], judged.judge])
    estimate = judged.means(values, coefficient_map, judged.names, family=human, **more)
    # Without a cluster lambda would be another one, which no leverage tells.
    refit = estimate.refit and replace(estimate.refit, linear=False)
    return replace(estimate, refit=refit, bounded=bool(both.min() >= 0 and both.max() <= 1))
