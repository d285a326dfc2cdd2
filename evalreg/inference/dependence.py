"""What clusters are like: how alike their rows, how unequal their sizes, how much one decides; and what to warn of."""

from __future__ import annotations

from itertools import compress, pairwise
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray, few_of, fraction, issue, listed, passed, quotient
from evalreg.covariance.absorbed import adjusted_clusters, affordable, directions_of
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.crossed import t_quantile
from evalreg.covariance.leverage import adjust_cell_totals, root_of
from evalreg.covariance.options import CovOptions, resolve_cov
from evalreg.covariance.special import FEW_CLUSTERS, LARGEST_SHARE
from evalreg.covariance.terms import assemble
from evalreg.data.clusters import Axis, axis_name
from evalreg.errors import (
    CovarianceWarning,
    DominantClusterWarning,
    FewClustersWarning,
    NotAvailableError,
    Note,
    SkewedScoresWarning,
    ZeroVarianceWarning,
)
from evalreg.estimate import Estimate, cluster_sizes, of_coefficients
from evalreg.numerics.limits import ROUNDING
from evalreg.numerics.matrices import (
    Matrix,
    absolute_entries,
    compressed,
    dense,
    nonzero_entries,
    scale_columns,
    signs_of_entries,
    transposed,
    without_zeros,
)
from evalreg.numerics.moments import ClusterSums, icc_interval, icc_of
from evalreg.scores.base import Cells, CellScores, Scores
from evalreg.scores.rows import RegressionScores
from evalreg.scores.score_interval import FEW_EXPECTED

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


def sums_of_cells(scores: Scores, cells: Cells, axis: Axis, side: Matrix, squares: bool) -> ClusterSums:
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
            totals, bread, _ = adjusted_clusters(estimate, axis, 1.0, directions_of(estimate, axis))
            changes.append(-dense(totals @ bread))
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
    return {axis_name(axis): clusters_on(axis, estimate, cov) for axis in cov.axes}


def clusters_on(axis: Axis, estimate: Estimate, cov: Covariance) -> IntArray:
    """Clusters of an axis with rows behind each estimate, (n_params,)."""
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


# A covariance, with what is fragile about it

# Thresholds below which a clustered result is valid but fragile.
FEW_CROSSED = 5
# Of a few equal clusters each has a large share; one dominates whose share is above this multiple of 1/G.
TIMES_EQUAL = 1.5


def assembled(
    estimate: Estimate, axes: tuple[Axis, ...] | None, requested: CovOptions, notes: tuple[Note, ...] = ()
) -> tuple[Covariance, tuple[Note, ...]]:
    """The covariance that was asked for, and all notes, which are issued; `axes` is None for independent rows."""
    options = resolve_cov(requested, axes is not None, default="CR1" if estimate.refit is None else "CR2")
    cov = assemble(estimate, axes or (), options)
    fragile = (*few_or_unequal(estimate, cov), *_few_left(estimate, cov), *_skewed_means(estimate, cov))
    fragile = (*cov.notes, *fragile, *variance_notes(cov))
    if requested.cov is None and cov.axes and estimate.lost:  # of the parts the default was CR2
        text = (
            f"the covariance is CR1, and not CR2, since {estimate.lost}: with few or unequal clusters its standard "
            "errors are too small. Take the estimates one by one for CR2, or fit them as one model."
        )
        notes = (*notes, (CovarianceWarning, text))
    all_notes = (*notes, *fragile)
    issue(all_notes)
    return cov, all_notes


def variance_notes(cov: Covariance) -> tuple[Note, ...]:
    """Parameters without a positive variance, by reason."""
    by_reason: dict[tuple[str, bool, bool], list[str]] = {}
    scored = None if np.all(cov.variance() > 0) else cov.widths().scored
    tested = set() if scored is None else {cov.names[i] for i in scored.rows}
    for name, reason, variance in zip(cov.names, cov.reasons(), cov.variance(), strict=True):
        if reason:
            by_reason.setdefault((reason, bool(variance == 0), name in tested), []).append(name)
    notes = []
    for (reason, is_zero, is_tested), names in by_reason.items():
        some = few_of(names)
        text = f"{some}: no test, because {reason}; t and p are NaN."
        if is_tested:
            text = f"{some}: no standard error, because {reason}; the interval and tests are by the score test alone."
        elif cov.bounded and is_zero:
            text = (
                f"{some}: {reason}, so the standard error is 0, and the interval and the tests are Clopper-Pearson on "
                "the effective number of clusters."
            )
            if cov.ends is not None and cov.paired is None:
                text += " Differences from others allow for the end of such an interval, so that they are not too sure."
        notes.append((ZeroVarianceWarning, text))
    reach = None if cov.bounded else cov.reach(np.eye(len(cov.names)))
    if reach is not None:
        some = few_of([cov.names[i] for i in np.unique(reach.row)])
        text = (
            f"{some}: one model is at an end of the scale. The standard error and the interval allow for the end of "
            "Clopper and Pearson's interval on its effective clusters."
        )
        notes.append((ZeroVarianceWarning, text))
    return tuple(notes)


def few_or_unequal(estimate: Estimate, cov: Covariance) -> list[Note]:
    """One warning an axis of few, unequal or dominant clusters; and of estimates that rest on few of them or rows."""
    notes: list[Note] = []
    if not cov.axes and estimate.absorbed is None:
        # Of a normal covariate the rows are worth a third of their number.
        notes += [(FewClustersWarning, text) for text in _rests_on_few(estimate, cov, None, cov.dof() / 4)]
    for axis in cov.axes:
        name, size = axis_name(axis), cluster_sizes(estimate, axis)
        G, effective = size.n_clusters, size.effective_clusters
        few = G < FEW_CLUSTERS and name != cov.options.alike
        dominant = size.largest_share > max(LARGEST_SHARE, TIMES_EQUAL / G)
        rests: list[str] = []
        if cov.options.dof != "satterthwaite" and estimate.refit is not None and estimate.kind != "board":
            rests = _rests_on_few(estimate, cov, axis, np.minimum(G, cov.dof() + 1) / 2)
        texts = [_few_text(name, G, estimate, cov)] if few else []
        if dominant:
            sizes = estimate.scores.sizes(axis)
            largest = estimate.scores.label(axis, int(np.argmax(sizes)))
            what = "rows" if sizes.sum() == estimate.n_rows and np.all(sizes % 1 == 0) else "weight"
            texts.append(
                f'The {name} "{largest}" holds {size.largest_share:.0%} of '
                f"the {what}: the error bar rests on how that one cluster compares with the others."
            )
        elif effective < G / 2 and not few and not rests:
            texts.append(
                f"{G} {name} clusters differ so much in size that they are worth {effective:.1f} equal ones "
                f"(G* = {effective:.1f}). Expect a rough interval."
            )
        n_coefficients = estimate.n_coefficients if estimate.absorbed is None else estimate.absorbed.n_covariates
        # Of 12 clusters and 16 coefficients .60 of CR1's 95% intervals held the truth of a covariate between clusters.
        if n_coefficients >= G and estimate.kind not in ("mean", "board") and not cov.options.kind.adjusts:
            texts.append(
                f"{G} {name} clusters for {n_coefficients} coefficients: {cov.options.cov} intervals of covariates "
                f"between clusters may be far too short. Use {passed(cov='CR2')}, whose degrees of freedom "
                "allow for that."
            )
        if texts := texts + rests:
            notes.append((DominantClusterWarning if dominant else FewClustersWarning, " ".join(texts)))
    return notes


def _few_text(name: str, n_clusters: int, estimate: Estimate, cov: Covariance) -> str:
    dof = cov.dof()
    smallest = f"{np.min(dof[np.isfinite(dof)], initial=np.inf):.3g}"
    text = f"{n_clusters} {name} clusters: t intervals use {smallest} degree{'' if smallest == '1' else 's'} of freedom"
    if smallest == "inf":
        text = f"{n_clusters} {name} clusters: few to learn a variance from"
    if cov.crossed and n_clusters < FEW_CROSSED:
        return (
            f'{text}. So few values of "{name}" say little about others; without it in `groups` the result holds them '
            f"fixed and is about these {n_clusters} only.{_models_text(name, n_clusters, estimate, cov)}"
        )
    return f"{text}, and may still be too short."


def _models_text(name: str, n_clusters: int, estimate: Estimate, cov: Covariance) -> str:
    """How far apart two of many models must lie where a few clusters decide, and what pools these over models."""
    pairs, text = estimate.n_params * (estimate.n_params - 1) // 2, ""
    if pairs > 1 and estimate.kind in ("mean", "board"):
        far = float(t_quantile(0.05 / pairs, np.array([n_clusters - 1.0]))[0])
        text = f" Where they differ, one of {pairs} pairs is separated only at {far:.0f} standard errors or more."
    if not (estimate.about.one_board and estimate.about.n_models > 2 and len(cov.axes) == 2):
        return text
    pooled = passed(alike=name)
    return f"{text} {pooled} learns from all models together, where values of {name} differ alike over models."


def _rests_on_few(estimate: Estimate, cov: Covariance, axis: Axis | None, limit: FloatArray) -> list[str]:
    """What to say of parameters whose clusters (None: rows) are worth fewer than `limit`, and t counts more.

    Without Satterthwaite's degrees of freedom t counts all of them, and CR1's variance is too small besides: of dummies
    that are 1 in 2, 3 and 4 of 30 clusters .72, .82 and .87 of 95% intervals held the truth (G* = 2.3, 3.7 and 5.3).
    """
    effective = clusters_worth(estimate, axis)
    few = (effective < FEW_CLUSTERS) & (effective < limit) & (cov.variance() > 0)
    if not few.any():
        return []
    worst = int(np.argmin(np.where(few, effective, np.inf)))
    single = np.count_nonzero(few) == 1
    example = "" if single else f" for {estimate.names[worst]}"
    rest = f"{listed(compress(estimate.names, few))} rest{'s' if single else ''} on few of the"
    dof, worth = float(np.broadcast_to(cov.dof(), few.shape)[worst]), f"{max(effective[worst], 1.0):.1f}"
    counted = "inf" if np.isinf(dof) else f"{dof:.0f}"
    if axis is None:
        return [
            f"{rest} rows, by their weights or covariates. The standard error has about {worth} degrees of "
            f"freedom{example}, and t takes {counted}, so that the interval may be too short. Number the rows in a "
            "column and name it in `groups`: the degrees of freedom of CR2 allow for that."
        ]
    return [
        f"{rest} {cov.n_clusters[axis_name(axis)]} {axis_name(axis)} clusters, by their sizes or covariates. They are "
        f"worth {worth} equal ones{example}, and t takes {counted} degrees of freedom, so that the {cov.options.cov} "
        f"interval may be far too short. Use {passed(cov='CR2', dof='satterthwaite')}, which allows for that."
    ]


# Means that are far from normal

# A mean of larger skewness has 95% intervals that hold the truth in less than .93 of logs, by and large.
SKEWED = 0.25
# The skewness of few normal totals is larger by chance.
SKEWED_OF_FEW = 8.0


def _few_left(estimate: Estimate, cov: Covariance) -> list[Note]:
    """A warning where hardly anything of a finite benchmark is left out: a few questions are far from normal."""
    population, cells, A = estimate.population, estimate.cells, estimate.coefficient_map
    if population is None or population.noise is not None or cells is None or A is None:
        return []
    n, what = cells.count, "questions"
    for axis in (axis for axis in cov.axes if axis_name(axis) in population.axes):
        members, of = estimate.scores.samples(axis)
        n, what = np.asarray(members.sum(axis=0), dtype=np.float64).ravel()[of], f"{axis_name(axis)} clusters"
    rest = population.scale**2
    if n.size != rest.size or np.any(rest >= 1):
        return []
    left = nonzero_entries(A) @ (n * rest / (1 - rest))
    few = (left > 0.5) & (left < FEW_EXPECTED - 0.5)
    if not few.any():
        return []
    fewest = round(float(np.min(left[few])))
    text = (
        f"{listed(compress(estimate.names, few))}: only {fewest} of the {what} of the benchmark "
        f"{'is' if fewest == 1 else 'are'} not here. The error is all in these, and they are too few for a normal "
        "approximation: of 0/1 scores 95% intervals held the truth in as few as .80 of the samples that left out one "
        "of 100, .84 with three, .91 with five. Ask the rest, and the score is known."
    )
    return [(FewClustersWarning, text)]


def _skewed_means(estimate: Estimate, cov: Covariance) -> list[Note]:
    """A warning of means of scores without bounds to which a few clusters (or rows) add far more than the others.

    The t interval is then too short on the side of the long tail (Johnson 1978). Of independent rows only where these
    are in memory.
    """
    if estimate.bounded or estimate.about.interval == "wald":
        return []
    notes: list[Note] = []
    for axis in cov.axes or (None,):
        if axis is None and (estimate.scores.row_labels() is None or short_tails(estimate, SKEWED)):
            continue
        skew, count = skewness(estimate, axis)
        # Few clusters have a warning of their own.
        many = (count >= FEW_CLUSTERS) | (axis is None)
        far = many & (np.abs(skew) > np.maximum(SKEWED, SKEWED_OF_FEW / np.maximum(count, 1)))
        if far.any():
            notes.append((SkewedScoresWarning, _skewed_text(estimate, axis, skew, far)))
    return notes


def _skewed_text(estimate: Estimate, axis: Axis | None, skew: FloatArray, far: BoolArray) -> str:
    worst = int(np.argmax(np.where(far, np.abs(skew), 0.0)))
    side = "high" if skew[worst] > 0 else "low"
    what = "scores" if axis is None else f"{axis_name(axis)} clusters"
    example = "" if np.count_nonzero(far) == 1 else f" for {estimate.names[worst]}"
    return (
        f"{listed(compress(estimate.names, far))}: this mean rests on a few {side} {what} (its "
        f"skewness is {abs(skew[worst]):.2f}{example}, and up to {SKEWED} is safe), so that its interval is too "
        f"short on the {side} side. 95% intervals of such means contained the truth in .65 to .93 of simulated logs. "
        "Quantiles and means of logarithms do not have this fault, and more rows mend it."
    )
