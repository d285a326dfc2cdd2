"""How alike the rows of a cluster are, and what that implies."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, fraction, issue
from evalreg.data.clusters import Axis, axis_name
from evalreg.errors import NotAvailableError, Note, ZeroVarianceWarning
from evalreg.numerics.matrices import (
    Matrix,
    absolute_entries,
    compressed,
    dense,
    scale_columns,
    signs_of_entries,
    without_zeros,
)
from evalreg.numerics.moments import ClusterSums, icc_interval, icc_of

if TYPE_CHECKING:
    from evalreg.covariance.covariance import Covariance
    from evalreg.estimate import Estimate
    from evalreg.scores.base import Cells, Scores


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
    A = compressed(A)
    parameter, cell = A.nonzero()
    if not np.array_equal(parameter, np.arange(A.shape[0])):
        return None
    n, coefficient2 = cells.count[cell], A.data[A.data != 0] ** 2
    return np.asarray(coefficient2 * cells.squares[cell] / cells.weight[cell] * n / np.maximum(n - 1, 1))


def effective_rows(estimate: Estimate, cov: Covariance, behind: FloatArray | None) -> FloatArray:
    """Number of independent rows with the same variance V.

    For a mean [sum w e^2/sum w * n/(n-1)]/V, which counts unequal weights too; otherwise n over the design effect, n
    being the rows behind the parameter (None: all rows).
    """
    variance, row_variances = cov.variance(), row_variance(estimate)
    n = estimate.n_rows if behind is None else behind
    top = n * np.diag(cov.naive) if row_variances is None else row_variances
    return np.asarray(np.divide(top, variance, out=np.full(variance.size, np.nan), where=variance > 0))


def intraclass_correlation(estimate: Estimate, axis: Axis) -> FloatArray:
    """One-way ANOVA intraclass correlation of the rows of each parameter, not truncated at zero.

    (MSB - MSW)/(MSB + (m0 - 1) MSW), Snedecor and Cochran (1989), section 13.3. NaN where it is not defined: one row in
    each cluster, no variation, several cells or estimates, residuals that add up to zero in every cluster.
    """
    return _correlation(estimate, axis, cluster_sums(estimate, axis, squares=False))


def _correlation(estimate: Estimate, axis: Axis, sums: ClusterSums | None) -> FloatArray:
    labels = None if estimate.absorbed is None else estimate.scores.row_labels()
    nested = labels is not None and estimate.absorbed is not None and estimate.absorbed.nested(labels.codes(axis)).any()
    return np.full(estimate.n_params, np.nan) if sums is None or nested else icc_of(sums)


def residual_parts(estimate: Estimate) -> list[tuple[Scores, BoolArray]]:
    """The scores of each of the estimates side by side, and which parameters are made of it alone."""
    parts = estimate.scores.side_by_side
    if len(parts) == 1:
        return [(parts[0], np.ones(estimate.n_params, dtype=bool))]
    touched = absolute_entries(compressed(estimate.bread))
    edges = np.cumsum([0, *(part.n_columns for part in parts)]).tolist()
    used = np.array([touched[a:b].sum(axis=0) > 0 for a, b in pairwise(edges)])
    return [(part, in_part & (used.sum(axis=0) == 1)) for part, in_part in zip(parts, used, strict=True)]


TOGETHER = "together"
COLUMNS = ["n_clusters", "mean_size", "icc", "lower", "upper", "implied", "design_effect", "se_ratio"]


def dependence_table(estimate: Estimate, cov: Covariance, alpha: float) -> pd.DataFrame:
    """The table of `Results.dependence`, one row for each clustering and parameter."""
    alpha = fraction("alpha", alpha)
    refuse_without_clusters(cov.axes)
    ratios, names = standard_error_ratios(cov), list(estimate.names)
    notes: list[Note] = []
    parts: dict[str, pd.DataFrame] = {}
    for axis in cov.axes:
        name = axis_name(axis)
        sums = cluster_sums(estimate, axis)
        part, part_notes = correlation_columns(sums, _correlation(estimate, axis, sums), alpha, name, names)
        parts[name] = part.assign(design_effect=ratios[name] ** 2, se_ratio=ratios[name])
        notes += part_notes
    if cov.crossed:
        ratio = ratios[TOGETHER]
        parts[TOGETHER] = pd.DataFrame({"design_effect": ratio**2, "se_ratio": ratio}).reindex(columns=COLUMNS)
    issue(notes)
    return pd.concat(parts, names=["clusters", "parameter"])


def refuse_without_clusters(axes: tuple[Axis, ...]) -> None:
    """Raise where rows are independent."""
    if not axes:
        raise NotAvailableError(
            "`dependence` says how alike rows of a cluster are, and these results have no clusters. Pass "
            'groups="column" to the estimate or to `with_cov`.'
        )


def correlation_columns(
    sums: ClusterSums | None, icc: FloatArray, alpha: float, name: str, index: Any
) -> tuple[pd.DataFrame, tuple[Note, ...]]:
    """Clusters, sizes, correlations with their intervals and the design effects they imply; what to warn of."""
    empty = np.full(icc.size, np.nan)
    lower, upper = empty, empty
    notes: tuple[Note, ...] = ()
    if sums is not None and sums.square is not None:
        lower, upper = icc_interval(sums, alpha)
        lower, upper = (np.where(np.isfinite(icc), end, np.nan) for end in (lower, upper))
    without = int(np.count_nonzero(np.isfinite(icc) & np.isnan(lower)))
    if without:
        # Of a regression of rows in an engine there are residuals of clusters, and no sums of cells.
        rows_away = sums is None or sums.square is None
        why = (
            "its rows are in an engine, which was asked for sums within clusters only. Collect the frame for them"
            if rows_away
            else "leaving out one cluster leaves no variation between clusters or within them, or too few clusters"
        )
        text = f"{without} of {icc.size} intraclass correlations by {name} have no interval: {why}."
        notes = ((ZeroVarianceWarning, text),)
    size = empty if sums is None else sums.mean_size
    columns = {
        "n_clusters": empty if sums is None else np.where(sums.add() > 0, sums.add(), np.nan),
        "mean_size": size,
        "icc": icc,
        "lower": lower,
        "upper": upper,
        "implied": 1 + (size - 1) * icc,
    }
    return pd.DataFrame(columns, index=index), notes


def cluster_sums(estimate: Estimate, axis: Axis, squares: bool = True) -> ClusterSums | None:
    """Sums within clusters of the rows that the intraclass correlation of each parameter is of; None without one.

    Of the scores of each mean, of the residuals of a least-squares regression (the same for all coefficients), and for
    a win rate of the residuals of the model's own comparisons, as scores of that model. `squares`: whether those of
    single clusters are needed.
    """
    scores, cells, A, m = estimate.scores, estimate.cells, estimate.coefficient_map, estimate.n_params
    parts = [(part.residual_sums(axis), np.flatnonzero(alone)) for part, alone in residual_parts(estimate)]
    residuals = [(sums, columns) for sums, columns in parts if sums is not None]
    if residuals:

        def tiled(values: list[FloatArray]) -> FloatArray:
            return np.concatenate([np.tile(v, k.size) for v, (_, k) in zip(values, residuals, strict=True)])

        whole = np.full(m, np.nan)
        for sums, columns in residuals:
            whole[columns] = sums.squares
        column = np.concatenate([np.repeat(columns, sums.size.size) for sums, columns in residuals])
        size, total = tiled([sums.size for sums, _ in residuals]), tiled([sums.total for sums, _ in residuals])
        square = [sums.square for sums, _ in residuals if sums.square is not None]
        return ClusterSums(column, m, size, total, tiled(square) if len(square) == len(residuals) else None, whole)
    if cells is None or A is None:
        return None
    if estimate.kind == "board":
        return sums_of_cells(scores, cells, axis, signs_of_entries(A), squares)
    # A ratio's clusters count by denominators in leverages; the analysis of variance counts rows.
    single = row_variance(estimate) is not None
    return sums_of_cells(scores.as_means, cells, axis, compressed(1.0 * (dense(A) != 0)), squares) if single else None


def sums_of_cells(scores: Scores, cells: Cells, axis: Axis, side: Matrix, squares: bool = True) -> ClusterSums:
    """Sums of cells, each with the sign that `side` (m, n_cells) gives it; weights count as rows."""
    signs, first, scale = compressed(side).T.tocsr(), 0, cells.count / cells.weight
    parts: list[tuple[FloatArray | IntArray, ...]] = []
    for block in scores.cells(axis):
        sizes = without_zeros(compressed(scale_columns(block.gram, scale)) @ abs(signs)).sorted_indices().tocoo()
        totals = (compressed(scale_columns(block.totals, scale)) @ signs).tocsr()
        row, column = sizes.coords
        parts.append((first + row, column, sizes.data, totals[row, column]))
        first += sizes.shape[0]
    row, column, size, total = (np.concatenate(each) for each in zip(*parts, strict=True))
    in_cells, square = scores.squares_in_cells(axis) if squares else None, None
    if in_cells is not None:
        square = np.asarray((compressed(scale_columns(compressed(in_cells), scale)) @ abs(signs))[row, column])
    return ClusterSums(column, side.shape[0], size, total, square, np.asarray(abs(signs).T @ (cells.squares * scale)))
