"""Means of the human labels that an estimate holds beside a judge's scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.covariance.dof import Leverage
from evalreg.data.clusters import Axis, as_codes, union
from evalreg.data.labels import Labels
from evalreg.estimate import Cells, Estimate, Family, Refit
from evalreg.numerics.matrices import Matrix, dense, scale_columns
from evalreg.scores.cells import CellScores
from evalreg.scores.sums import cell_sums


@dataclass(frozen=True, eq=False)
class HumanLabels(Family):
    """The human labels of an estimate that corrects a judge's scores by them.

    `values` are the labels of the rows (0 where there is none), `labelled` says which cells hold labelled rows, and
    `model` which mean each cell belongs to.
    """

    values: FloatArray
    labelled: BoolArray
    model: IntArray

    own_range: ClassVar[bool] = True
    not_resolved: ClassVar[str] = (
        '`cov="jackknife"` solves the estimate again without each cluster, and a rectified mean would then have '
        'another lambda, which is not there. Use cov="CR3", which leaves out clusters at the lambda there is.'
    )

    def leverage(self, estimate: Estimate, found: Leverage) -> Leverage:
        """Degrees of freedom that do not depend on the judge's units."""
        cells = estimate.cells
        assert cells is not None
        return PartsLeverage(found, np.sqrt(cells.squares / cells.weight), self.labelled)


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
        found = np.fmin(self.of_cells.dof(both), self.of_cells.dof(both * self.labelled))
        # Where nothing varies there is nothing to weigh the parts by.
        return np.asarray(np.where(np.isnan(found), self.of_cells.dof(dense(contrasts)), found))

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
    sums = cell_sums(values, cell, coefficient_map.shape[1], weights)
    alike = sums.low == sums.high
    # Exactly the value where all are alike, so that rounding does not look like spread.
    mean = np.where(alike, sums.low, sums.total / sums.weight)
    squares = np.where(alike, 0.0, sums.squares)
    return Estimate(
        names=names,
        params=coefficient_map @ mean,
        scores=CellScores(values, mean, labels, cell, weights),
        bread=(coefficient_map / sums.weight).T,
        kind="mean",
        coefficient_map=coefficient_map,
        refit=Refit(1.0 / sums.weight),
        cells=Cells(sums.count, sums.weight, mean, squares, sums.low, sums.high),
        **more,
    )


def labelled_means(estimate: Estimate, axes: tuple[Axis, ...]) -> Estimate:
    """The same parameters from the human labels alone, with the labels of these clusterings."""
    human, scores = human_labels(estimate), estimate.scores
    assert human is not None
    (in_cells,), labels = scores.in_cells(), scores.row_labels()
    assert labels is not None
    rows = human.labelled[in_cells.cell]
    number = np.cumsum(human.labelled) - 1
    columns = union(*axes)
    held = {name: as_codes(labels.codes((name,)).codes[rows]) for name in columns}
    return means_of_cells(
        human.values[rows],
        number[in_cells.cell[rows]],
        Labels(int(np.count_nonzero(rows)), held),
        dense(estimate.coefficient_map)[:, human.labelled],
        estimate.names,
        None if in_cells.weights is None else in_cells.weights[rows],
        bounded=estimate.bounded,
    )
