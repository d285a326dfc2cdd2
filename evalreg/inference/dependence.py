"""Dependence of rows, measured: design effect, effective numbers, intraclass correlation, what cluster sizes imply."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray
from evalreg.covariance.covariance import Covariance
from evalreg.data.clusters import Axis
from evalreg.estimate import Cells, Estimate
from evalreg.estimate.behind import effective_clusters
from evalreg.numerics.anova import anova_icc
from evalreg.numerics.matrices import (
    Matrix,
    absolute_entries,
    compressed,
    dense,
    identity,
    scale_rows,
    signs_of_entries,
    transposed,
    without_zeros,
)
from evalreg.scores.base import ResidualSums, Scores

# Sums of residuals within clusters that are smaller, squared and over their own squares, are zero but for rounding.
ROUNDING = 1e-20
# Of n rows that are all alike so many over n may be others.
RULE_OF_THREE = 3.0
# A standard error so many times as large is worth a word.
MATTERS = 1.1
# A cluster that has all of a pair but for so much is alone in it.
SINGLE = 1e-9


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


def exchangeable_variance(estimate: Estimate, cov: Covariance) -> FloatArray:
    """Variance of each mean if any two rows of a cluster are correlated by the intraclass correlation rho.

    It shows what the sizes of the clusters imply, where the clusters that vary happen to be small ones: (1 - rho)
    V_naive + rho s^2/G*, with rho not below zero, s^2 the variance of one row and G* Kish's effective number of
    clusters; for equal weights V_naive (1 + (m - 1) rho) with m the mean size of the cluster of a row. The largest over
    the clusterings; 0 where rho is not defined. Kish (1965), Survey Sampling, section 5.4.
    """
    s2, naive = row_variance(estimate), np.diag(cov.naive)
    largest = np.zeros(estimate.n_params)
    if s2 is None:
        return largest
    for axis in cov.axes:
        rho = np.clip(np.nan_to_num(intraclass_correlation(estimate, axis)), 0.0, 1.0)
        alike = (1 - rho) * naive + rho * s2 / effective_clusters(estimate, (axis,))
        largest = np.fmax(largest, np.where(rho > 0, alike, 0.0))
    return largest


def strata_variance(estimate: Estimate, cov: Covariance) -> FloatArray:
    """Variance of each mean over strata if those whose scores are all alike vary within as the others do.

    Of a win rate the pairs of models are such strata. NaN where there is none; see `varied_alike`.
    """
    cells, A = estimate.cells, estimate.coefficient_map
    board = estimate.kind == "board" and estimate.bounded
    if cells is None or A is None or not (board or cells.stratum is not None) or estimate.scores.paired:
        return np.full(estimate.n_params, np.nan)
    flat = (cells.low == cells.high) & (cells.count > 0)
    if not flat.any():
        return np.full(estimate.n_params, np.nan)
    found = varied_alike(estimate, cov, flat)
    if not board or not alike_in_strata(found, cov.variance()).any():
        return found
    # A pair that met under one prompt has its part in the variance by the jackknife, which leaves it out.
    for axis in cov.axes:
        share = scale_rows(identity(flat.size), 1.0 / cells.weight)
        flat &= estimate.scores.column_sums(axis, share, share).largest < 1 - SINGLE
    return varied_alike(estimate, cov, flat)


def alike_in_strata(alike: FloatArray, variance: FloatArray) -> BoolArray:
    """Means of which some stratum shows no variance and would make the standard error a tenth larger; (n_params,)."""
    return np.asarray((variance > 0) & (np.nan_to_num(alike) > MATTERS**2 * variance))


def varied_alike(estimate: Estimate, cov: Covariance, flat: BoolArray) -> FloatArray:
    """Variance of each mean of several cells if the cells of `flat`, (n_cells,), vary within as its others do.

    A small stratum of which all rows are right shows no variance, and a large weight counts on it. With w_s the weight
    of a stratum of n_s rows and s^2 the variance within strata, pooled, it is V + sum w_s^2 s^2/n_s over such strata,
    and no more than that sum over all strata; times the design effect. Of rows that are alike s^2 is at most what the
    rule of three leaves, three of them at the other end of the scores. NaN where a mean has no such cell.
    """
    cells = estimate.cells
    assert cells is not None
    A, found = without_zeros(compressed(estimate.coefficient_map)), np.full(estimate.n_params, np.nan)
    part, known = absolute_entries(signs_of_entries(A)), cells.count > 0
    which = (np.asarray(part @ flat) > 0) & (np.asarray(part @ (~flat & known)) > 0)
    if not which.any():
        return found
    count = np.maximum(cells.count, 1.0)
    within = part @ (cells.count * cells.scatter) / np.maximum(part @ (count - 1.0), 1.0)
    starts = A.indptr[:-1]
    span = np.maximum.reduceat(cells.high[A.indices], starts) - np.minimum.reduceat(cells.low[A.indices], starts)
    alike = np.minimum(within, RULE_OF_THREE * span**2 / np.maximum(part @ (flat * count), 1.0))
    drawn = 1.0 if estimate.population is None else estimate.population.scale**2
    each = A.multiply(A).tocsr()
    all_of, flat_of = each @ (known * drawn / count), each @ (flat * drawn / count)
    V, naive = cov.variance(), np.diag(cov.naive)
    inflation = np.maximum(np.divide(V, naive, out=np.ones(V.size), where=naive > 0), 1.0)
    larger = np.minimum(all_of * within * inflation, V + flat_of * alike * inflation)
    return np.where(which, np.maximum(larger, V), np.nan)


def exchangeable_limit(estimate: Estimate, cov: Covariance) -> FloatArray:
    """What `exchangeable_variance` cannot exceed, without a pass over the cells of clusters.

    The larger of V_naive and s^2 times the largest share that a cluster can have in the mean, which is at least 1/G*.
    """
    s2, naive = row_variance(estimate), np.array(np.diag(cov.naive))
    if s2 is None or not cov.axes:
        return np.zeros(estimate.n_params)
    assert estimate.cells is not None
    weight = absolute_entries(signs_of_entries(estimate.coefficient_map)) @ estimate.cells.weight
    largest = max(estimate.scores.cluster_sizes(axis).largest for axis in cov.axes)
    return np.asarray(np.fmax(naive, s2 * np.minimum(largest / weight, 1.0)))
