"""Dependence of rows, measured: design effect, effective numbers, intraclass correlation, what cluster sizes imply."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray
from evalreg.covariance.covariance import Covariance
from evalreg.data.clusters import Axis
from evalreg.estimate import Cells, Estimate
from evalreg.numerics.matrices import (
    Matrix,
    absolute_entries,
    compressed,
    dense,
    identity,
    scale_rows,
    signs_of_entries,
    transposed,
)
from evalreg.numerics.moments import anova_icc
from evalreg.scores.base import ResidualSums, Scores

# Sums of residuals within clusters that are smaller, squared and over their own squares, are zero but for rounding.
ROUNDING = 1e-20


def design_effect(cov: Covariance) -> FloatArray:
    """Clustered over naive variance of each parameter; NaN where the naive one is zero. Kish (1965), section 8.2."""
    naive = np.diag(cov.naive)
    return np.asarray(np.divide(cov.variance(), naive, out=np.full(naive.size, np.nan), where=naive > 0))


def standard_error_ratios(cov: Covariance) -> pd.DataFrame:
    """Standard error under the clustering of each axis alone, over that of independent rows.

    One row for each parameter and one column for each axis; with several axes "together" is the covariance in use. NaN
    where there is no positive naive variance, or none of the axis.
    """
    naive = np.diag(cov.naive)
    columns = {term.name: np.diag(term.matrix) for term in cov.one_way}
    if cov.crossed:
        columns["together"] = cov.variance()
    known = {name: np.where((naive > 0) & (variance > 0), variance, np.nan) for name, variance in columns.items()}
    ratios = {name: np.sqrt(variance / np.where(naive > 0, naive, np.nan)) for name, variance in known.items()}
    return pd.DataFrame(ratios, index=list(cov.names))


def row_variance(estimate: Estimate) -> FloatArray | None:
    """Variance of one row about each parameter, sum w e^2 / sum w * n/(n - 1); None unless each has one cell."""
    cells, A = estimate.cells, estimate.coefficient_map
    if cells is None or A is None:
        return None
    A = dense(A)
    if not np.all(np.count_nonzero(A, axis=1) == 1):
        return None
    cell = np.argmax(A != 0, axis=1)
    n = cells.count[cell]
    own = A[np.arange(cell.size), cell] ** 2
    return np.asarray(own * cells.squares[cell] / cells.weight[cell] * n / np.maximum(n - 1, 1))


def effective_rows(estimate: Estimate, cov: Covariance, behind: FloatArray | None) -> FloatArray:
    """Number of independent rows with the same variance V.

    For a mean [sum w e^2/sum w * n/(n-1)]/V, which counts unequal weights too; otherwise n over the design effect, n
    being the rows behind the parameter (None: all rows).
    """
    variance, own = cov.variance(), row_variance(estimate)
    n = estimate.n_rows if behind is None else behind
    top = n * np.diag(cov.naive) if own is None else own
    return np.asarray(np.divide(top, variance, out=np.full(variance.size, np.nan), where=variance > 0))


def intraclass_correlation(estimate: Estimate, axis: Axis) -> FloatArray:
    """One-way ANOVA intraclass correlation of the rows of each parameter, not truncated at zero.

    (MSB - MSW)/(MSB + (m0 - 1) MSW), Snedecor and Cochran (1989), section 13.3: of the scores of each mean, of the
    residuals of a least-squares regression (the same for all coefficients), and for a win rate of the residuals of the
    model's own comparisons, as scores of that model. NaN where it is not defined: one row in each cluster, no
    variation, several cells or estimates, residuals that add up to zero in every cluster.
    """
    labels = None if estimate.absorbed is None else estimate.scores.row_labels()
    if estimate.absorbed is not None and labels is not None and estimate.absorbed.nested(labels.codes(axis)).any():
        return np.full(estimate.n_params, np.nan)
    found = np.full(estimate.n_params, np.nan)
    sums = [(scores.residual_sums(axis), own) for scores, own in residual_parts(estimate)]
    for residuals, own in sums:
        found[own] = np.nan if residuals is None else _residual_icc(residuals)
    if any(residuals is not None for residuals, _ in sums):
        return found
    if estimate.kind == "board" and estimate.cells is not None:
        return _board_icc(estimate, estimate.cells, axis)
    if row_variance(estimate) is None or estimate.cells is None or estimate.coefficient_map is None:
        return np.full(estimate.n_params, np.nan)
    # A ratio's clusters count by denominators in leverages; the analysis of variance counts rows.
    by_cell = _cell_icc(estimate.scores.as_means, estimate.cells, axis)
    cell = np.argmax(dense(estimate.coefficient_map) != 0, axis=1)
    return np.asarray(by_cell[cell])


def residual_parts(estimate: Estimate) -> list[tuple[Scores, BoolArray]]:
    """The scores of each of the estimates side by side, and which parameters are made of it alone."""
    parts = estimate.scores.side_by_side
    if len(parts) == 1:
        return [(parts[0], np.ones(estimate.n_params, dtype=bool))]
    touched = absolute_entries(compressed(estimate.bread))
    edges = np.cumsum([0, *(part.n_columns for part in parts)]).tolist()
    used = np.array([touched[a:b].sum(axis=0) > 0 for a, b in pairwise(edges)])
    return [(part, own & (used.sum(axis=0) == 1)) for part, own in zip(parts, used, strict=True)]


def _own_rows(estimate: Estimate) -> FloatArray:
    """Rows of the cells that each parameter is made of."""
    assert estimate.cells is not None
    return np.asarray((estimate.coefficient_map != 0) @ estimate.cells.count, dtype=np.float64)


def _board_icc(estimate: Estimate, cells: Cells, axis: Axis) -> FloatArray:
    """Of the residuals of each model's own comparisons, oriented to it: a pair counts where it enters the model."""
    assert estimate.coefficient_map is not None
    side = signs_of_entries(estimate.coefficient_map)
    scale = cells.count / cells.weight
    count = _own_rows(estimate)
    if np.any(count == 0):
        return np.full(estimate.n_params, np.nan)
    total = absolute_entries(side) @ (cells.squares * scale)
    return _sums_icc(estimate.scores, axis, transposed(side), scale, total, count)


def _cell_icc(scores: Scores, cells: Cells, axis: Axis) -> FloatArray:
    scale = cells.count / cells.weight
    return _sums_icc(scores, axis, identity(cells.count.size), scale, cells.squares * scale, cells.count)


def _sums_icc(
    scores: Scores, axis: Axis, side: Matrix, scale: FloatArray, squares: FloatArray, count: FloatArray
) -> FloatArray:
    """ICC of sums of cells, each with the sign that `side` (n_cells, m) gives it."""
    total = scale_rows(side, scale)
    size = absolute_entries(total)
    found = scores.column_sums(axis, size, total)
    return anova_icc(found.between, squares, count, found.n_clusters, found.squares)


def _residual_icc(found: ResidualSums) -> float:
    n, mean = found.n_rows, found.total / found.n_rows
    # Residuals that add up to zero in every cluster, as of a model with a level for each, say nothing about it.
    if found.between <= ROUNDING * found.squares:
        return np.nan
    sums = (found.between, found.squares - n * mean**2, n, float(found.n_clusters), found.sizes)
    return float(anova_icc(*(np.array([value]) for value in sums))[0])
