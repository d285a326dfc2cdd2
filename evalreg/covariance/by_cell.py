"""The same covariances for means of cells, each by itself: one entry a cell where `assemble` has a matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray
from evalreg.covariance.cell_dof import cell_terms
from evalreg.covariance.corrections import adjust_cell_totals, power_scale
from evalreg.covariance.crossed import Dims, crossed_variance, subsets
from evalreg.covariance.dof import fixed_dof
from evalreg.covariance.options import Counts, ResolvedCov
from evalreg.covariance.widths import Widths, crossed_widths, one_t
from evalreg.data.clusters import Axis, union
from evalreg.errors import NotAvailableError
from evalreg.numerics.matrices import compressed, scale_columns
from evalreg.scores.cells import CellScores
from evalreg.scores.engine import EngineScores
from evalreg.scores.summed import SummedPairScores


@dataclass(frozen=True, eq=False)
class CellErrors:
    """Errors of the means of cells, each by itself.

    Parameters
    ----------
    widths : Widths
        Of the means; no variance where a cell rests on a single cluster.
    n_clusters : ndarray, shape (n_cells,)
        Clusters of each cell on the first axis.
    """

    widths: Widths
    n_clusters: FloatArray

    @property
    def se(self) -> FloatArray:
        """Standard errors, shape (n_cells,); NaN where there is none."""
        return np.sqrt(self.widths.variance)

    @property
    def dof(self) -> FloatArray:
        """Degrees of freedom, crossed those of 95% intervals, shape (n_cells,)."""
        return self.widths.dof(0.05)


@dataclass(frozen=True, eq=False)
class CellTerm:
    """A term of inclusion-exclusion, of each cell's mean: variances, dof and clusters, shape (n_cells,)."""

    dims: Dims
    variance: FloatArray
    dof: FloatArray
    n_clusters: FloatArray


def errors_by_cell(
    scores: CellScores | EngineScores,
    count: FloatArray,
    weight: FloatArray,
    axes: tuple[Axis, ...],
    options: ResolvedCov,
    n_rows: int,
) -> CellErrors:
    """Errors of each cell's mean alone, from `count` rows of `weight` in all; `n_rows` is n of small-sample factors."""
    if not axes:
        return _errors_of_rows(scores, count, weight, options, n_rows)
    smallest = min(scores.n_clusters(axis) for axis in axes)
    terms = [_term(scores, weight, axes, dims, options, n_rows, smallest) for dims in subsets(len(axes))]
    each, dims = np.array([term.variance for term in terms]), [term.dims for term in terms]
    total = crossed_variance(each, dims, options.repair)
    # Of the clusters of a cell by itself, those of the axis with fewest.
    fewest = np.min([term.n_clusters for term in terms[: len(axes)]], axis=0)
    variance = np.where((total > 0) & (fewest > 1), total, np.nan)
    if options.dof != "satterthwaite":
        widths = one_t(variance, np.full(variance.size, fixed_dof(options.dof, smallest - 1.0)))
    elif len(axes) == 1:
        widths = one_t(variance, terms[0].dof)
    else:
        dofs = np.maximum(np.nan_to_num([term.dof for term in terms], nan=1.0), 1.0)
        widths = crossed_widths(variance, each, dofs, dims, options.repair)
    return CellErrors(widths, terms[0].n_clusters)


def _errors_of_rows(
    scores: CellScores | EngineScores, count: FloatArray, weight: FloatArray, options: ResolvedCov, n_rows: int
) -> CellErrors:
    """Of independent rows: CR0 to CR3 with every row its own cluster, without a factor for HC0, HC2 and HC3."""
    factor = n_rows / max(n_rows - 1, 1) if options.kind.row_factor else 1.0
    if isinstance(scores, EngineScores | SummedPairScores):
        squares = scores.row_moments()[0]
        if options.kind.power and scores.weighted:
            raise NotAvailableError(
                f'`cov="{options.cov}"` of independent rows of unequal weight needs them in memory. Take a frame of '
                'them, or use cov="naive".'
            )
        if options.kind.power:
            squares = squares * power_scale(1.0 / weight, options.kind.power) ** 2
        variance = factor * squares / weight**2
        return CellErrors(one_t(np.where((count > 1) & (variance > 0), variance, np.nan), count - 1.0), count.copy())
    assert scores.cell is not None
    row_scores = scores.row_scores
    if options.kind.power:
        own = np.ones(scores.cell.size) if scores.weights is None else scores.weights
        row_scores = row_scores * power_scale(own / weight[scores.cell], options.kind.power)
    variance = factor * np.bincount(scores.cell, row_scores**2, count.size) / weight**2
    return CellErrors(one_t(np.where((count > 1) & (variance > 0), variance, np.nan), count - 1.0), count.copy())


def _term(
    scores: CellScores | EngineScores,
    weight: FloatArray,
    axes: tuple[Axis, ...],
    dims: Dims,
    options: ResolvedCov,
    n_rows: int,
    smallest: int,
) -> CellTerm:
    """The sum of squares of adjusted totals of each cell, as the diagonal of a saturated regression's has it."""
    by = union(*(axes[d] for d in dims))
    squares, leverages = np.zeros(weight.size), []
    for block in scores.cells(by):
        leverages.append(scale_columns(block.gram, 1.0 / weight))
        totals = scale_columns(adjust_cell_totals(block.totals, leverages[-1], options.kind.power), 1.0 / weight)
        squares += np.asarray(compressed(totals).power(2).sum(axis=0), dtype=np.float64).ravel()
    leverage = leverages[0] if len(leverages) == 1 else sparse.vstack(leverages).tocsr()
    factor = options.factor(Counts(scores.n_clusters(by), smallest, n_rows))
    of_leverage = cell_terms(leverage, weight, options.kind.power)
    satterthwaite = options.dof == "satterthwaite" and len(dims) == 1
    dof = of_leverage.dof() if satterthwaite else of_leverage.n_clusters - 1.0
    return CellTerm(dims, factor * squares, dof, of_leverage.n_clusters)
