"""What clusters are like: how alike their rows, how unequal their sizes, and how much one of them decides."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray, fraction, issue, quotient
from evalreg.covariance.absorbed import adjusted_clusters, affordable, directions_of
from evalreg.covariance.leverage import adjust_cell_totals, root_of
from evalreg.covariance.special import FEW_CLUSTERS
from evalreg.data.clusters import Axis, axis_name
from evalreg.errors import NotAvailableError, Note, ZeroVarianceWarning
from evalreg.estimate import of_coefficients
from evalreg.numerics.limits import ROUNDING
from evalreg.numerics.matrices import (
    Matrix,
    absolute_entries,
    compressed,
    dense,
    scale_columns,
    signs_of_entries,
    transposed,
    without_zeros,
)
from evalreg.numerics.moments import ClusterSums, icc_interval, icc_of
from evalreg.scores.base import CellScores
from evalreg.scores.rows import RegressionScores

if TYPE_CHECKING:
    from evalreg.covariance.covariance import Covariance
    from evalreg.estimate import Estimate
    from evalreg.scores.base import Cells, Scores


# Of crossed clusterings, what is said of all of them.
TOGETHER = "together"


def design_effect(cov: Covariance) -> FloatArray:
    """Clustered over naive variance of each parameter; NaN where the naive one is zero. Kish (1965), section 8.2."""
    naive = np.diag(cov.naive)
    return quotient(cov.variance(), naive)


def standard_error_ratios(cov: Covariance) -> pd.DataFrame:
    """Standard error under the clustering of each axis alone, over that of independent rows.

    One row for each parameter and one column for each axis; with several axes "together" is the covariance in use. NaN
    where there is no positive naive variance, or none of the axis.
    """
    naive = np.where(np.diag(cov.naive) > 0, np.diag(cov.naive), np.nan)
    columns = {term.name: np.diag(term.matrix) for term in cov.one_way}
    if cov.crossed:
        columns[TOGETHER] = cov.variance()
    ratios = {name: np.sqrt(np.where(variance > 0, variance, np.nan) / naive) for name, variance in columns.items()}
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
    return quotient(top, variance)


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


COLUMNS = ["n_clusters", "mean_size", "icc", "lower", "upper", "implied", "design_effect", "se_ratio"]


def dependence_table(estimate: Estimate, cov: Covariance, alpha: float) -> pd.DataFrame:
    """The table of `Results.dependence`, one row for each clustering and parameter."""
    alpha = fraction("alpha", alpha)
    if not cov.axes:
        raise NotAvailableError(
            "`dependence` says how alike rows of a cluster are, and these results have no clusters. Pass "
            'groups="column" to the estimate or to `with_cov`.'
        )
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


# How unequal clusters are, and what one of them decides


def cluster_influence(estimate: Estimate, axis: Axis, bse: FloatArray) -> dict[str, Any]:
    """Leverage of clusters (for means the largest share of a cell), and the estimate without the most influential one.

    That is the cluster whose leaving moves some parameter by most standard errors; NaN without `refit`. Solved: by the
    rows without it, and not by one step from the estimate, which may name another cluster. MacKinnon, Nielsen and Webb
    (2023), J. Econometrics 232, sections 7 and 8.1.
    """
    refit, leverage, label, solved = estimate.refit, np.nan, None, False
    without = np.full(estimate.n_params, np.nan)
    if refit is not None and (estimate.absorbed is None or affordable(estimate, axis)):
        changes, leverage = _leave_out(estimate, axis)
        unit = np.where(bse > 0, bse, np.inf)
        moved = [np.nan_to_num(np.abs(change) / unit).max(axis=1) for change in changes]
        block = int(np.argmax([sizes.max() for sizes in moved]))
        place = int(np.argmax(moved[block]))
        label = estimate.scores.label(axis, sum(map(len, moved[:block])) + place)
        without = estimate.params + changes[block][place]
        solved = refit.exact and not refit.step
    params = dict(zip(estimate.names, map(float, without), strict=True))
    return {"max_leverage": leverage, "most_influential": label, "params_without": params, "solved": solved}


def _leave_out(estimate: Estimate, axis: Axis) -> tuple[list[FloatArray], float]:
    """theta_(g) - theta of the clusters of each block, and the largest leverage."""
    refit, scores = estimate.refit, estimate.scores
    assert refit is not None
    changes, largest = list[FloatArray](), 0.0
    if refit.inverse_gram.ndim == 2:
        squares = scores.squares_by_cluster(axis, root_of(refit.inverse_gram)[0])
        assert squares is not None
        largest = float(squares.sum(axis=1).max())
        if refit.leave_out is None:
            # What a cluster alone determines stays.
            changes.append(-adjusted_clusters(estimate, axis, 1.0, directions_of(estimate, axis)).influence)
    else:
        for block in scores.cells(axis):
            share = (compressed(block.gram) @ sparse.diags_array(refit.inverse_gram)).tocsr()
            largest = max(largest, float(share.data.max()))
            if refit.leave_out is None:
                changes.append(-dense(adjust_cell_totals(block.totals, share, 1.0) @ estimate.bread))
    if refit.leave_out is not None:
        changes = [dense(refit.without(block)) for block in scores.sums_in_cells(axis)]
    return changes, largest


def clusters_behind(estimate: Estimate, cov: Covariance) -> dict[str, IntArray]:
    """Clusters with rows behind each estimate, (n_params,), by axis, as `rows_behind` counts rows."""
    return {axis_name(axis): _clusters_on(axis, estimate, cov) for axis in cov.axes}


def _clusters_on(axis: Axis, estimate: Estimate, cov: Covariance) -> IntArray:
    if estimate.coefficient_map is not None and estimate.kind in ("mean", "board"):
        return estimate.scores.clusters_reached(axis, estimate.coefficient_map)
    squares = estimate.scores.squares_by_cluster(axis, dense(estimate.bread)) if of_coefficients(estimate) else None
    if squares is None:
        return np.full(estimate.n_params, cov.n_clusters[axis_name(axis)], dtype=np.intp)
    return np.asarray(np.count_nonzero(squares > ROUNDING**2 * squares.max(axis=0), axis=0), dtype=np.intp)


def row_influence(estimate: Estimate, axis: Axis | None) -> tuple[FloatArray, list[object]]:
    """Influence B's_r of rows, or its sums within the clusters of an axis; columns sum to zero.

    The second part says whose it is: positions of the rows in the data, or labels of the clusters.
    """
    scores, bread = estimate.scores, dense(estimate.bread)
    if axis is not None:
        parts = [np.asarray(block.totals @ bread) for block in scores.cells(axis)]
        return np.concatenate(parts), [scores.label(axis, code) for code in range(scores.n_clusters(axis))]
    values, labels = scores.row_influence(bread), scores.row_labels()
    assert labels is not None
    return values, list(labels.positions())


def clusters_worth(estimate: Estimate, axis: Axis | None) -> FloatArray:
    """How many equal clusters (None: rows) those of each parameter are worth, (sum v)^2 / sum v^2.

    NaN where that is not known, or where bounds show that it is large for all. v is what a cluster adds to the variance
    if rows vary alike and independently, a^2 of a row with a what it adds to a parameter for each unit of its residual;
    the ratio is at least sum v / max v. Carter, Schnepel and Steigerwald (2017), REStat 99(4), with a working
    correlation of 0; of rows Satterthwaite's degrees of freedom (1946).
    """
    scores, cells, A = estimate.scores, estimate.cells, estimate.coefficient_map
    unknown = np.full(estimate.n_params, np.nan)
    if axis is None:
        return _ratio(*_squares_of_rows(estimate))
    if cells is not None and A is not None and estimate.refit is not None and estimate.refit.inverse_gram.ndim == 1:
        squares = compressed(A).power(2)
        total, farthest = squares @ (1 / cells.weight), squares @ cells.weight**-2.0
        if np.all(total >= FEW_CLUSTERS * float(scores.sizes(axis).max()) * farthest):
            return unknown
        parts = transposed(scale_columns(squares, cells.weight**-2.0))
        return _ratio(total, scores.column_sums(axis, parts).squares)
    by_cluster = None if _spread_out(estimate, axis) else scores.squares_by_cluster(axis, dense(estimate.bread))
    if by_cluster is None:
        return unknown
    return _ratio(by_cluster.sum(axis=0), np.einsum("gj,gj->j", by_cluster, by_cluster))


def _ratio(total: FloatArray, squares: FloatArray) -> FloatArray:
    return quotient(total**2, squares)


def _squares_of_rows(estimate: Estimate) -> FloatArray:
    """Sums of a^2 and a^4 of the rows of each parameter, shape (2, n_params); NaN where that is not known."""
    scores, power_sums = estimate.scores, np.full((2, estimate.n_params), np.nan)
    if isinstance(scores, RegressionScores) and not _spread_out(estimate, None):
        power_sums[:] = 0.0
        bread = dense(estimate.bread)
        for part in scores.slices():
            squares = (scores.design_rows(part) @ bread) ** 2
            if scores.weights is not None:
                squares *= scores.weights[part, None]
            power_sums += squares.sum(axis=0), np.einsum("ij,ij->j", squares, squares)
    elif isinstance(scores, CellScores) and scores.weights is not None and (parts := scores.in_cells()):
        rows = parts[0]
        weight2 = rows.weight**2
        powers = [np.bincount(rows.cell, part, rows.n_cells) for part in (weight2, weight2**2)]
        maps = compressed(estimate.bread)
        power_sums[:] = [part @ maps.power(power) for part, power in zip(powers, (2, 4), strict=True)]
    return power_sums


def _spread_out(estimate: Estimate, axis: Axis | None) -> bool:
    """Whether the range of the covariates shows that no cluster adds much to any parameter, without a look at rows."""
    scores = estimate.scores
    if not isinstance(scores, RegressionScores) or scores.weights is not None or estimate.refit is None:
        return False
    bread, largest = dense(estimate.bread), 1.0 if axis is None else float(scores.sizes(axis).max())
    total = np.einsum("ij,ij->j", bread, np.linalg.solve(estimate.refit.inverse_gram, bread))
    farthest = scores.reach @ np.abs(bread)
    return bool(np.all(total >= FEW_CLUSTERS * largest * farthest**2))


def skewness(estimate: Estimate, axis: Axis | None) -> tuple[FloatArray, FloatArray]:
    """Skewness of each mean, and how many clusters (None: rows) add to it; shape (n_params,) each, 0 where not known.

    It is sum u^3 / (sum u^2)^(3/2), u being what a cluster adds.
    """
    scores, bread, sums = estimate.scores, compressed(estimate.bread), np.zeros((3, estimate.n_params))
    if axis is not None:
        for block in scores.cells(axis):
            u = compressed(compressed(block.totals) @ bread)
            for power, into in zip(_powers(u.data), sums, strict=True):
                into += np.bincount(u.indices, power, into.size)
    elif isinstance(scores, CellScores) and (parts := scores.in_cells()):
        # A row is in one cell: its powers add up there, and are mapped by those of the bread.
        rows, maps = parts[0], (bread.power(3), bread.power(2), signs_of_entries(absolute_entries(bread)))
        powers = (np.bincount(rows.cell, power, rows.n_cells) for power in _powers(rows.scores))
        sums[:] = [power @ each for power, each in zip(powers, maps, strict=True)]
    cubes, squares, count = sums
    return quotient(cubes, squares**1.5, 0.0), count


def _powers(u: FloatArray) -> tuple[FloatArray | BoolArray, ...]:
    """The cubes, the squares, and which are not zero."""
    square = u * u
    return square * u, square, square > 0


def short_tails(estimate: Estimate, most: float) -> bool:
    """Whether the extremes of every cell show that no skewness is above `most`: it is at most max u / root sum u^2."""
    scores, cells = estimate.scores, estimate.cells
    if cells is None or not scores.of_means or not isinstance(scores, CellScores) or scores.weights is not None:
        return False
    farthest = np.maximum(cells.high - cells.mean, cells.mean - cells.low)
    return bool(np.all(farthest**2 <= most**2 * cells.squares))
