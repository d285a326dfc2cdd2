"""How alike the rows of a cluster are, and what that implies."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, fraction
from evalreg.data.clusters import Axis, axis_name
from evalreg.errors import NotAvailableError, Note, ZeroVarianceWarning, issue
from evalreg.numerics.limits import ROUNDING
from evalreg.numerics.matrices import (
    Matrix,
    absolute_entries,
    compressed,
    dense,
    identity,
    scale_columns,
    scale_rows,
    signs_of_entries,
    transposed,
)
from evalreg.numerics.moments import ClusterSums, anova_icc, icc_interval

if TYPE_CHECKING:
    from evalreg.covariance.covariance import Covariance
    from evalreg.estimate import Cells, Estimate
    from evalreg.scores.base import ResidualSums, Scores


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
    if found.between <= ROUNDING**2 * found.squares:
        return np.nan
    sums = (found.between, found.squares - n * mean**2, n, float(found.n_clusters), found.sizes)
    return float(anova_icc(*(np.array([value]) for value in sums))[0])


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
        sums, icc = cluster_sums(estimate, axis), intraclass_correlation(estimate, axis)
        part, found = correlation_columns(sums, icc, alpha, name, names)
        parts[name] = part.assign(design_effect=ratios[name] ** 2, se_ratio=ratios[name])
        notes += found
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


def cluster_sums(estimate: Estimate, axis: Axis) -> ClusterSums | None:
    """Sums within clusters of the rows that the intraclass correlation of each parameter is of; None without one."""
    scores, cells, A = estimate.scores, estimate.cells, estimate.coefficient_map
    of_residuals = [(part, part.residual, own) for part, own in residual_parts(estimate) if part.residual is not None]
    if of_residuals:
        sums = [_of_residuals(part, left, axis, np.flatnonzero(own)) for part, left, own in of_residuals]
        column, size, total, square = (np.concatenate(one) for one in zip(*sums, strict=True))
        return ClusterSums(column, estimate.n_params, size, total, square)
    if cells is None or A is None:
        return None
    if estimate.kind == "board":
        return sums_of_cells(scores, cells.count / cells.weight, axis, compressed(A).sign())
    if row_variance(estimate) is None:
        return None
    own = compressed((dense(A) != 0).astype(float))
    return sums_of_cells(scores.as_means, cells.count / cells.weight, axis, own)


def sums_of_cells(scores: Scores, scale: FloatArray, axis: Axis, side: Matrix) -> ClusterSums:
    """Sums of cells, each with the sign that `side` (m, n_cells) gives it; `scale` makes weights count as rows."""
    signs, m, first = compressed(side).T.tocsr(), side.shape[0], 0
    found = scores.squares_in_cells(axis)
    squares = None if found is None else compressed(scale_columns(compressed(found), scale)) @ abs(signs)
    parts: list[tuple[FloatArray, ...]] = []
    for block in scores.cells(axis):
        sizes = compressed(scale_columns(block.gram, scale)) @ abs(signs)
        totals = compressed(scale_columns(block.totals, scale)) @ signs
        keys, size = _entries(sizes, m)
        keys, size = keys[size > 0], size[size > 0]
        parts.append((keys + first * m, size, _at(_entries(totals, m), keys)))
        first += sizes.shape[0]
    key, size, total = (np.concatenate(one) for one in zip(*parts, strict=True))
    square = None if squares is None else _at(_entries(squares, m), key)
    return ClusterSums(key % m, m, size, total, square)


def _entries(matrix: Matrix, m: int) -> tuple[IntArray, FloatArray]:
    """Entries of a sparse matrix in the order of their places, row * m + column."""
    entries = matrix.tocoo()
    row, column = entries.coords
    keys = row.astype(np.intp) * m + column
    order = np.argsort(keys, kind="stable")
    return keys[order], np.asarray(entries.data[order], dtype=np.float64)


def _at(entries: tuple[IntArray, FloatArray], keys: IntArray) -> FloatArray:
    """Values of a sparse matrix at some places, zero where it holds none."""
    own, values = entries
    if not own.size:
        return np.zeros(keys.size)
    place = np.minimum(np.searchsorted(own, keys), own.size - 1)
    return np.where(own[place] == keys, values[place], 0.0)


def _of_residuals(scores: Scores, residual: FloatArray, axis: Axis, columns: IntArray) -> tuple[Any, ...]:
    """Columns, sizes, sums and squares of the residuals of a regression, the same for each of its coefficients."""
    labels = scores.row_labels()
    assert labels is not None
    codes, residual = labels.codes(axis), residual - residual.mean()
    one = (codes.counts.astype(float), np.bincount(codes.codes, residual), np.bincount(codes.codes, residual**2))
    return np.repeat(columns, codes.n_clusters), *(np.tile(values, columns.size) for values in one)
