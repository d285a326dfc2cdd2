"""From an estimate and its clusters to the covariance: the term of each set of axes, and their assembly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import TypeAlias

import numpy as np

from evalreg.checks import BoolArray, FloatArray, counted, issue, listed, passed
from evalreg.covariance.absorbed import Directions, adjusted_clusters, directions_of
from evalreg.covariance.covariance import Covariance, Term, term_notes, touching
from evalreg.covariance.crossed import Widths, crossed_variance, crossed_widths, subsets
from evalreg.covariance.leverage import (
    CellLeverage,
    CountedDof,
    Leverage,
    WelchDof,
    adjust_cell_totals,
    cell_dof,
    cell_meat,
    cell_pieces,
    fixed_dof,
    full_leverage_cells,
    known_dof,
    of_all_cells,
    power_scale,
    quadratic,
    spread_of,
)
from evalreg.covariance.options import (
    Groups,
    ResolvedCov,
    check_cov_options,
    check_two_clusters,
    documented,
    drop_nested,
    grouped,
    refuse_many_axes,
    resolve_cov,
)
from evalreg.covariance.reach import ends_of, mover_floor
from evalreg.covariance.special import (
    alike_note,
    as_drawn,
    check_alike,
    one_way_notes,
    pool_models,
    refuse_undrawn,
    thin_notes,
    with_answers,
)
from evalreg.data.clusters import Axis, axis_name, union
from evalreg.data.frame import refuse_larger
from evalreg.errors import NotAvailableError, Note, TooFewClustersError
from evalreg.estimate import Estimate, Inverted, Refit, check_estimate
from evalreg.numerics.limits import COVARIANCES, GRAMS, HELD, LAST_DIGITS, ROUNDING
from evalreg.numerics.matrices import (
    absolute_entries,
    compressed,
    dense,
    identity,
    inner_products,
    is_identity,
    scale_columns,
    scale_rows,
    square,
    square_of_rows,
    squared_entries,
    stacked,
    sum_blocks,
    totals_of_columns,
    with_entries,
    without_zeros,
)
from evalreg.scores.base import EVERY_ROW, Cells, CellScores, with_every_row
from evalreg.scores.differences import PairScores
from evalreg.scores.engine import EngineMoments, EngineScores


def naive_term(estimate: Estimate) -> Term:
    """The covariance for independent rows: CR1 with every row its own cluster.

    For means, each with its own n_m/(n_m - 1) (Miller 2024, eq. 1); for a regression HC1. What single rows alone
    determine is not looked for.
    """
    n, bread, cells = estimate.n_rows, estimate.bread, estimate.cells
    no_loss = np.zeros(estimate.n_params, dtype=bool)
    if cells is None or estimate.kind != "mean":
        no_loss |= n <= estimate.n_coefficients
        factor = n / max(n - estimate.n_coefficients, 1)
        matrix = factor * estimate.scores.meat(None, bread)
        rounding = _rounding(estimate, np.diag(matrix)) | _of_equal_values(estimate)
        matrix[rounding, :] = matrix[:, rounding] = 0.0
        return Term((), (), n, matrix, None, None, no_loss, counted=float(n - estimate.n_coefficients))
    scale = np.sqrt(cells.count / np.maximum(cells.count - 1, 1))
    return _of_means(estimate, cells, 0.0, scale, touching(estimate.coefficient_map, cells.count < 2))


Naive: TypeAlias = Callable[[], Term]
"""What gives the covariance for independent rows when it is asked for."""


def _most_naive(estimate: Estimate) -> FloatArray | None:
    """Bounds of the variances of coefficients for independent rows, as rows of orthonormal columns have norm 1 at most.

    None where no bound is known.
    """
    ssr, refit, n = estimate.scores.ssr, estimate.refit, estimate.n_rows
    if ssr is None or refit is None or estimate.kind != "least squares" or not is_identity(refit.inverse_gram):
        return None
    return np.asarray(ssr * n / max(n - estimate.n_coefficients, 1) * np.sum(dense(estimate.bread) ** 2, axis=0))


def _refuse_single(cells: Cells, single: BoolArray, axis: Axis = ()) -> None:
    """Raise if cells of strata, (n_cells,), have a single row, or a single cluster of an axis."""
    assert cells.stratum is not None
    if not single.any():
        return
    names = sorted({cells.strata[stratum] for stratum in cells.stratum[single]})
    what = f"clusters of {axis_name(axis)!r}" if axis else "rows"
    raise TooFewClustersError(
        f"`strata` needs at least 2 {what} in every stratum (of each model); {listed(names)} "
        f"{'has' if len(names) == 1 else 'have'} one. Merge strata, or "
        f"{'cluster by the strata instead' if axis else 'leave them out'}.",
        column=axis_name(axis) if axis else None,
        count=len(names),
    )


def _entering(estimate: Estimate) -> BoolArray:
    """Cells that some parameter varies with, shape (n_cells,); a stratum that is here as a whole has none."""
    return totals_of_columns(absolute_entries(estimate.coefficient_map)) > 0


def _of_equal_values(estimate: Estimate) -> BoolArray:
    """Parameters of cells each of whose values are equal but for rounding, as averages of three answers of 0.7 are."""
    cells, scores = estimate.cells, estimate.scores
    if cells is None or scores.mapped or estimate.coefficient_map is None:
        return np.zeros(estimate.n_params, dtype=bool)
    size = np.maximum(np.abs(cells.low), np.abs(cells.high))
    # The values of a ratio may have no known bounds.
    size[~np.isfinite(size)] = np.nan
    equal = (cells.high - cells.low <= LAST_DIGITS * size) & (cells.scatter <= LAST_DIGITS * size**2)
    return ~touching(estimate.coefficient_map, ~equal)


def _rounding(estimate: Estimate, variance: FloatArray) -> BoolArray:
    """Parameters whose rows' influences cancel to rounding, so that their variance would be rounding too."""
    scores, refit = estimate.scores, estimate.refit
    none = np.zeros(variance.size, dtype=bool)
    if refit is None or (refit.inverse_gram.ndim == 1 and not scores.mapped):
        return none
    if scores.residual is not None:
        spread = float(scores.residual @ scores.residual) / scores.residual.size
        model = quadratic(dense(estimate.coefficient_map), refit.inverse_gram) * spread
        if not np.any(variance <= ROUNDING * model):
            return none
    size = scores.uncancelled(estimate.bread)
    return none if size is None else np.asarray(variance <= scores.rounding * size)


def one_term(
    estimate: Estimate, axes: tuple[Axis, ...], dims: tuple[int, ...], options: ResolvedCov, naive: Naive
) -> Term:
    """Return the term of the axes `dims`, with its leverages where it is an axis itself."""
    by, one_way, leverage = union(*(axes[d] for d in dims)), len(dims) == 1, None
    n_clusters, keep = estimate.scores.n_clusters(by), one_way and options.dof == "satterthwaite"
    alone = directions_of(estimate, by) if one_way and _has_matrices(estimate) else None
    kind, factor = options.kind, factor_of(estimate, axes, n_clusters, options)
    if kind.adjusts or keep:
        matrix, leverage, lost = _adjusted(estimate, by, options, keep, alone)
        leverage = None if leverage is None else estimate.family.leverage(estimate, leverage)
    if not kind.adjusts:
        bread, cells = estimate.bread, estimate.cells
        if cells is not None and cells.stratum is not None and kind.takes_ssc and options.ssc != "none":
            # Each mean within a stratum has the factor of its own clusters.
            counts, factor = _clusters_of_cells(estimate, cells, by, each=True), 1.0
            bread = scale_rows(bread, np.sqrt(counts / np.maximum(counts - 1, 1)))
        matrix = estimate.scores.meat(by, bread)
        lost = _lost_without_variance(estimate, by, factor * matrix, naive)
    if one_way and options.dof == "min":
        leverage = _counted(estimate, by)
    contrasts = None if leverage is None else estimate.coefficient_map
    blind = None if alone is None else alone.moves(estimate)
    return Term(by, dims, n_clusters, factor * matrix, leverage, contrasts, lost, blind)


def _has_matrices(estimate: Estimate) -> bool:
    """Whether leverages are matrices, those of a regression."""
    return estimate.refit is not None and estimate.refit.inverse_gram.ndim == 2


def _lost_without_variance(estimate: Estimate, by: Axis, matrix: FloatArray, naive: Naive) -> BoolArray:
    """Parameters without a variance because one cluster determines them; looked for only where a variance is zero."""
    none = np.zeros(estimate.n_params, dtype=bool)
    if estimate.refit is not None and estimate.refit.inverse_gram.ndim == 1:
        none = np.diag(matrix) <= LAST_DIGITS * np.diag(naive().matrix)
    if not none.any():
        return none
    return touching(estimate.coefficient_map, _adjust_cells(estimate, by, 1.0, False)[2]) & none


def factor_of(estimate: Estimate, axes: tuple[Axis, ...], n_clusters: int, options: ResolvedCov) -> float:
    """The factor of a term of so many clusters; absorbed levels count by the convention asked for."""
    smallest, K, labels = min(map(estimate.scores.n_clusters, axes)), estimate.n_coefficients, None
    if estimate.absorbed is not None and (labels := estimate.scores.row_labels()) is not None:
        K = estimate.absorbed.n_coefficients(options.ssc, [labels.codes(axis) for axis in axes])
    return options.factor(n_clusters, smallest, estimate.n_rows, K, estimate.kind != "likelihood")


def _clusters_of_cells(estimate: Estimate, cells: Cells, by: Axis, each: bool = False) -> FloatArray:
    """Clusters of each cell, of a model in a stratum.

    A single one has no variance (and needs none where it is no sample): refused of all models, or of `each` of them.
    """
    assert cells.stratum is not None
    counts = estimate.scores.column_sums(by, identity(cells.stratum.size)).n_clusters
    varies = _entering(estimate)
    most = np.zeros(len(cells.strata))
    np.maximum.at(most, cells.stratum[varies], counts[varies])
    few = counts < 2 if each else most[cells.stratum] < 2
    _refuse_single(cells, few & varies, by)
    return counts


def _counted(estimate: Estimate, axis: Axis) -> CountedDof | None:
    """Degrees of freedom by counting where there are strata; None elsewhere."""
    cells = estimate.cells
    if cells is None or cells.stratum is None:
        return None
    return CountedDof(_clusters_of_cells(estimate, cells, axis), cells.stratum, ~_entering(estimate))


def axis_dof(estimate: Estimate, axis: Axis) -> float:
    """G - 1; with strata G - S of the mean with the fewest."""
    counted = _counted(estimate, axis)
    if counted is not None:
        return counted.hotelling(dense(estimate.coefficient_map))
    return float(estimate.scores.n_clusters(axis) - 1)


Adjusted: TypeAlias = tuple[FloatArray, Leverage | None, BoolArray]


def _adjusted(estimate: Estimate, by: Axis, options: ResolvedCov, keep: bool, alone: Directions | None) -> Adjusted:
    """Sum of squares of adjusted totals, with the leverages for dof and the parameters that a cluster determines."""
    refit = estimate.refit
    if refit is None:
        raise NotAvailableError(
            f"`{passed(cov=options.cov, dof=options.dof)}` needs the design of the model, which this estimate "
            'does not have. Available are cov "naive", "CR0" and "CR1" with dof "min", "normal" or a number.'
        )
    if options.kind.needs_exact_refit and estimate.family.not_resolved:
        raise NotAvailableError(estimate.family.not_resolved)
    if options.kind.needs_exact_refit and not refit.exact:
        raise NotAvailableError(
            f"`{passed(cov='jackknife')}` solves the estimate again without each cluster, which is there for means, "
            f"win rates, ratings and least squares. Use {passed(cov='CR3')}, one Newton step for each cluster."
        )
    if options.kind.needs_exact_refit and refit.leave_out is not None:
        return _left_out(estimate, by, refit)
    if refit.inverse_gram.ndim == 1:
        matrix, leverage, lost = _adjust_cells(estimate, by, options.kind.power, keep)
        return matrix, leverage, touching(estimate.coefficient_map, lost)
    totals, bread, leverages = adjusted_clusters(estimate, by, options.kind.power, alone)
    return square(totals, bread), leverages if keep else None, np.zeros(estimate.n_params, dtype=bool)


def _left_out(estimate: Estimate, by: Axis, refit: Refit) -> Adjusted:
    """Sum of squares of theta_(g) - theta, the estimate solved again without each cluster."""
    n = estimate.n_params
    matrix, lost = np.zeros((n, n)), np.zeros(n, dtype=bool)
    for block in estimate.scores.sums_in_cells(by):
        change = compressed(refit.without(block))
        unsolved = np.isnan(change.data)
        lost[change.indices[unsolved]] = True
        matrix += inner_products(with_entries(change, np.where(unsolved, 0.0, change.data)))
    return matrix, None, lost


def _adjust_cells(estimate: Estimate, by: Axis, power: float, keep: bool) -> Adjusted:
    assert estimate.refit is not None
    scores, inverse, m = estimate.scores, estimate.refit.inverse_gram, estimate.n_params
    if isinstance(scores, PairScores) and (share := scores.shares(by)) is not None:
        return _adjust_alike(estimate, scores, by, share, power, keep)
    known = squared_entries(compressed(estimate.coefficient_map))
    # Centred means, say, each have all cells: what is known of all contrasts is less. Rows in memory are asked again.
    most = HELD if isinstance(scores, CellScores) else max(inverse.size**2, HELD)
    few = keep and float(np.sum(np.diff(known.indptr).astype(float) ** 2)) <= most
    sums = scores.fold(by, partial(cell_meat, inverse, power, estimate.bread, known if few else None))
    matrix, rest, of_known = np.split(sums, [m**2, m**2 + inverse.size])
    dof = known_dof(known, of_known) if few else None
    leverage = CellLeverage(partial(of_all_cells, scores, by, inverse, power), dof) if keep else None
    return matrix.reshape(m, m), leverage, (rest > 0) & bool(power)


def _adjust_alike(
    estimate: Estimate, scores: PairScores, by: Axis, share: FloatArray, power: float, keep: bool
) -> Adjusted:
    """The same where the leverages of all cells are the shares of one clustering."""
    assert estimate.refit is not None
    n, column = estimate.refit.inverse_gram.size, compressed(share[:, None])
    matrix = scores.scaled_meat(by, power_scale(share.copy(), power), estimate.bread)
    lost = np.full(n, bool(power) and bool(full_leverage_cells(column)[0]))
    if not keep:
        return matrix, None, lost
    trace, spread, _ = spread_of([cell_pieces(column, 1.0 / estimate.refit.inverse_gram[:1], power)])
    every = np.repeat(trace, n), np.broadcast_to(dense(spread), (n, n)), None
    return matrix, CellLeverage(lambda: every), lost


def term_of_rows(estimate: Estimate, options: ResolvedCov, naive: Term) -> Term:
    """HC0 to HC3: CR0 to CR3 with every row its own cluster. HC1 is the naive one, and HC3 has no (n-1)/n.

    MacKinnon and White (1985), J. Econometrics 29, eq. 8, 10, 12 and 13 in its first form. Degrees of freedom are those
    of the naive covariance.
    """
    if options.kind.row_factor or options.kind.needs_clusters:
        return naive
    power = options.kind.power
    if power and estimate.refit is None:
        raise NotAvailableError(
            f"`{passed(cov=options.cov)}` needs the leverages of the rows, and so the design of the model, which this "
            'estimate does not have. Available are cov "HC0" and "HC1".'
        )
    of_cells = not power or (estimate.refit is not None and estimate.refit.inverse_gram.ndim == 1)
    if power and not estimate.scores.of_means and isinstance(estimate.scores, EngineScores):
        raise NotAvailableError(
            f"`{passed(cov=options.cov)}` of a ratio needs the leverage of each row, its share of the denominators, "
            "which needs the rows in memory: take the log itself, its columns collected first where an engine holds "
            'it, or use cov "HC0" or "HC1".'
        )
    if estimate.kind == "mean" and estimate.cells is not None and of_cells:
        return _of_means(estimate, estimate.cells, power, np.ones(estimate.cells.count.size), naive.lost)
    if not power:
        matrix = estimate.scores.meat(None, estimate.bread)
    elif isinstance(estimate.scores, EngineMoments):
        matrix = estimate.scores.scaled_meat(power, estimate.bread)
    else:
        M = None if estimate.refit is None else estimate.refit.inverse_gram
        h = estimate.scores.row_leverages(M) if M is not None and M.ndim == 2 else None
        if h is None:
            by_row = replace(estimate, scores=with_every_row(estimate.scores))
            term = one_term(by_row, (EVERY_ROW,), (0,), replace(options, dof="min"), lambda: naive)
            return replace(naive, matrix=term.matrix, lost=naive.lost | term.lost)
        if estimate.absorbed is not None:
            h = h + estimate.absorbed.row_leverages()
        from statsmodels.stats.sandwich_covariance import S_white_simple

        influence = estimate.scores.row_influence(estimate.bread) * power_scale(h, power)[:, None]
        matrix = np.asarray(S_white_simple(influence))
    none = np.diag(naive.matrix) == 0
    matrix[none, :] = matrix[:, none] = 0.0
    return replace(naive, matrix=matrix)


def _of_means(estimate: Estimate, cells: Cells, power: float, scale: FloatArray, lost: BoolArray) -> Term:
    """Of means of independent rows, each over (1 - h)^power of its share h in the weight of its cell, times `scale`."""
    scores, unit, refit, bread = estimate.scores, estimate.family.unit, estimate.refit, estimate.bread
    bread = scale_rows(bread, scale)
    if not power or refit is None:
        matrix, squares = scores.meat(unit, bread), cells.squares
    elif isinstance(scores, EngineScores):
        squares = scores.scaled_squares(refit.inverse_gram, power)
        matrix = square_of_rows(squares, bread)
    else:
        parts, squares = [], np.zeros(cells.count.size)
        for block in with_every_row(scores).cells(unit or EVERY_ROW):
            totals = adjust_cell_totals(block.totals, scale_columns(block.gram, refit.inverse_gram), power)
            parts.append(square(totals, bread))
            squares += totals_of_columns(squared_entries(compressed(totals)))
        matrix = sum_blocks(iter(parts))
    equal = _of_equal_values(estimate)
    matrix[equal, :] = matrix[:, equal] = 0.0
    dof = WelchDof(squares / cells.weight**2 * scale**2, cells.count)
    return Term((), (), estimate.n_rows, matrix, dof, estimate.coefficient_map, lost)


def errors_by_cell(
    scores: CellScores | EngineScores, sums: Cells, axes: tuple[Axis, ...], options: ResolvedCov
) -> tuple[Widths, FloatArray]:
    """Widths of each cell's mean alone, from the rows that `sums` are of, and its clusters on the first axis.

    There is no variance where a cell rests on a single cluster.
    """
    weight, n_rows = sums.weight, scores.n_rows
    if not axes:
        variance = _squares_of_rows(scores, weight, options) / weight**2
        variance *= n_rows / max(n_rows - 1, 1) if options.kind.row_factor else 1.0
        known = (sums.count > 1) & (variance > 0)
        return Widths.one_t(np.where(known, variance, np.nan), sums.count - 1.0), sums.count.copy()
    dims, smallest = subsets(len(axes)), min(scores.n_clusters(axis) for axis in axes)
    joint = [union(*(axes[d] for d in subset)) for subset in dims]
    factors = [options.factor(scores.n_clusters(by), smallest, n_rows) for by in joint]
    terms = np.array([_diagonal(scores, weight, by, options.kind.power) for by in joint])
    each, dofs, n_clusters = np.array(factors)[:, None] * terms[:, 0], terms[:, 1], terms[:, 2]
    total = crossed_variance(each, dims, options.repair)
    # Of the clusters of a cell by itself, those of the axis with fewest.
    variance = np.where((total > 0) & (np.min(n_clusters[: len(axes)], axis=0) > 1), total, np.nan)
    if options.dof != "satterthwaite":
        widths = Widths.one_t(variance, np.full(variance.size, fixed_dof(options.dof, smallest - 1.0)))
    elif len(axes) == 1:
        widths = Widths.one_t(variance, dofs[0])
    else:
        dofs[len(axes) :] = n_clusters[len(axes) :] - 1.0  # An intersection counts its clusters.
        widths = crossed_widths(variance, each, np.fmax(dofs, 1.0), dims, options.repair)
    return widths, n_clusters[0]


def _squares_of_rows(scores: CellScores | EngineScores, weight: FloatArray, options: ResolvedCov) -> FloatArray:
    """Sum of squares of the scores of the rows of each cell over a power of 1 less their leverage, (n_cells,)."""
    power = options.kind.power
    if isinstance(scores, EngineScores):
        return scores.scaled_squares(1.0 / weight, power)
    if not power:
        return scores.row_squares()
    (rows,) = scores.in_cells()
    scaled = rows.scores * power_scale(rows.weight / weight[rows.cell], power)
    return np.bincount(rows.cell, scaled**2, weight.size).astype(np.float64, copy=False)


def _diagonal(scores: CellScores | EngineScores, weight: FloatArray, by: Axis, power: float) -> FloatArray:
    """Of each cell the variance of adjusted totals, Satterthwaite's degrees of freedom, and its clusters, (3, n)."""
    squares, leverages = np.zeros(weight.size), []
    for block in scores.cells(by):
        leverages.append(scale_columns(block.gram, 1.0 / weight))
        totals = scale_columns(adjust_cell_totals(block.totals, leverages[-1], power), 1.0 / weight)
        squares += np.bincount(totals.indices, totals.data**2, weight.size)
    leverage = stacked(leverages)
    n_clusters = np.bincount(leverage.indices, minlength=weight.size)
    return np.array([squares, cell_dof(*cell_pieces(leverage, weight, power)), n_clusters])


@documented
def covariance(
    estimate: Estimate,
    groups: Groups = None,
    *,
    cov: str | None = None,
    ssc: str | None = None,
    dof: str | float | None = None,
    repair: str | None = None,
) -> Covariance:
    """Covariance of an estimate when rows within a cluster may be dependent.

    Rows that share a cluster in no dimension are taken to be independent.

    Parameters
    ----------
    estimate : Estimate
        From any estimator, or `from_statsmodels`.
    groups : str, list of str, array, Series or dict, optional
        Clusters: a column, columns crossed by "+" or joined by ":", or labels. None is independent rows.
    <cov>
        "CR2" by default with groups, "naive" without.
    ssc : {"statsmodels", "fixest", "sandwich", "G", "none"}, optional
        Factor of CR1; "statsmodels" by default.
    <dof>
        Satterthwaite under CR2, min over dimensions of G - 1 otherwise.
    repair : {"max", "eigen", "two-term", "none"}, optional
        What is done to a crossed covariance; "max" by default.

    Returns
    -------
    Covariance
        With its terms by axis, `matrix`, `raw`, `variance(C)` and `dof(C)`.

    Raises
    ------
    TooFewClustersError
        If a dimension has one cluster.
    NotAvailableError
        If the estimate cannot give that covariance.
    ArgumentError
        If an option is unknown.

    References
    ----------
    Cameron, Gelbach and Miller (2011), JBES 29(2), eq. 2.13; Bell and McCaffrey (2002), Survey Methodology 28;
    MacKinnon, Nielsen and Webb (2024), arXiv:2406.08880.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=20, seed=1)
    >>> er.covariance(er.mean(log).estimate, "passage").options.cov
    'CR2'
    """
    requested = check_cov_options(cov, ssc, dof, repair)
    check_estimate(estimate)
    options = resolve_cov(requested, groups is not None, default="CR1" if estimate.refit is None else "CR2")
    result = assemble(*grouped(estimate, groups), options)
    issue(result.notes)
    return result


def assemble(estimate: Estimate, axes: tuple[Axis, ...], options: ResolvedCov) -> Covariance:
    """The terms of every non-empty subset of the axes, put together; warnings are in its notes, not issued."""
    refuse_many_axes(axes)
    population = estimate.population
    if population is None:
        return _assembled(estimate, axes, options)
    drawn = as_drawn(estimate, population)
    cov = _assembled(drawn, axes, options)
    refuse_undrawn(cov, population)
    return with_answers(cov, estimate, population)


def _assembled(estimate: Estimate, axes: tuple[Axis, ...], options: ResolvedCov) -> Covariance:
    """The same for a population without end."""
    scores, family = estimate.scores, estimate.family
    if options.kind.needs_clusters:
        for axis in axes:
            check_two_clusters(estimate.scores, axis, axes)
    axes, notes = drop_nested(scores, axes)
    refuse_covariance(estimate, axes, options)
    if options.alike is not None:
        check_alike(estimate, axes, options.alike)
    # A pass over the rows, which few statements about clusters need where there is a bound.
    clustered = bool(axes) and options.kind.needs_clusters
    naive, most = cache(partial(naive_term, estimate)), _most_naive(estimate) if clustered else None
    if clustered:
        terms = [one_term(estimate, axes, dims, options, naive) for dims in subsets(len(axes))]
        solved_again = estimate.kind == "board" and estimate.refit is not None and estimate.refit.leave_out is not None
        # Of pairs that met under one cluster there is no CR2.
        if options.left_open and solved_again and any(term.lost.any() for term in terms[: len(axes)]):
            options = replace(options, cov="jackknife", dof="min" if options.dof == "satterthwaite" else options.dof)
            terms = [one_term(estimate, axes, dims, options, naive) for dims in subsets(len(axes))]
        n_clusters = {term.name: term.n_clusters for term in terms}
        smallest_dof = min(axis_dof(estimate, axis) for axis in axes)
    else:
        if (cells := estimate.cells) is not None and cells.stratum is not None:
            _refuse_single(cells, (cells.count < 2) & _entering(estimate))
        term, alone = term_of_rows(estimate, options, naive()), None
        if _has_matrices(estimate):
            alone = directions_of(estimate, None).moves(estimate)
        terms, n_clusters = [replace(term, blind=alone)], {axis_name(axis): scores.n_clusters(axis) for axis in axes}
        smallest_dof = float(np.min(naive().dof(np.eye(estimate.n_params))))
        options = replace(options, cov="naive") if options.kind.needs_clusters else options
    if options.alike is not None:
        terms = pool_models(estimate, axes, terms, options.alike)
    repaired, change = _repaired(estimate, terms, options)
    result = Covariance(
        names=estimate.names,
        options=options,
        axes=axes if clustered else (),
        n_clusters=n_clusters,
        pieces=tuple(terms),
        independent=partial(np.array, naive().matrix) if most is None else lambda: naive().matrix,
        most_naive=most,
        smallest_dof=smallest_dof,
        # An interval in [0, 1] can take the place of a variance of zero: of means of cells, or by the family.
        bounded=estimate.bounded and (estimate.cells is not None or family.own_range),
        fixed=_constants(estimate),
        repaired=repaired,
        change=change,
        means=clustered and estimate.kind == "mean",
        paired=family.paired,
        single=family.single,
        within=_within(estimate),
    )
    notes = [*notes, *_notes_of(estimate, result)]
    # What has no variance of its own has none in a difference either, where the other's would stand for both.
    unknown = np.isnan(result.variance()) & result.lost
    result = replace(result, withheld=unknown) if clustered and unknown.any() else result
    return _floored(replace(result, notes=tuple(notes)) if notes else result, estimate, axes, options)


def _notes_of(estimate: Estimate, cov: Covariance) -> Iterator[Note]:
    """What a reader should know of a covariance; score intervals of means over strata allow for their flat ones."""
    board, cells, options = estimate.kind == "board", estimate.cells, cov.options
    if options.alike is not None:
        yield alike_note(options.alike, cov.n_clusters[options.alike], estimate.about.n_models)
    if cov.axes and board:
        yield from thin_notes(estimate, cov.axes, options)
    if cells is not None and estimate.coefficient_map is not None and not estimate.scores.paired:
        strata = cells.stratum is not None and estimate.family.single is None
        if (cov.axes and estimate.bounded) if board else strata:
            yield from one_way_notes(estimate, cells, cov)
    if cov.axes:
        yield from term_notes(cov)


def _floored(cov: Covariance, estimate: Estimate, axes: tuple[Axis, ...], options: ResolvedCov) -> Covariance:
    """The covariance with what differences allow for, where intervals are not made from standard errors."""
    whole, C = estimate.family.source(estimate)
    if C is not None:
        source_cov = assemble(replace(whole, scores=estimate.scores), axes, options)
        floor, ends = source_cov.floor, source_cov.ends
        return replace(
            cov, floor=None if floor is None else floor.linear(dense(C)), ends=None if ends is None else ends.linear(C)
        )
    if ends := estimate.family.without_variance(estimate, cov):
        cov = replace(cov, ends=ends)
    elif cov.bounded and np.any(cov.variance() == 0):
        cov = replace(cov, ends=ends_of(estimate, cov.variance(), axes))
    family = estimate.family
    if not isinstance(family, Inverted) or estimate.n_params < 2:
        return cov
    return replace(cov, floor=mover_floor(estimate.params, cov, family.limits))


def _within(estimate: Estimate) -> str:
    """Within what scores are centred, where a parameter is made of several means; empty for one mean each."""
    A = estimate.coefficient_map
    if estimate.cells is None or A is None or np.all(np.diff(without_zeros(compressed(A)).indptr) <= 1):
        return ""
    if estimate.kind == "board":
        return " within its pairs of models (a pair that met once has one verdict)"
    if estimate.kind != "mean" or estimate.family.interval_rule:
        return ""
    return " within any of its means" if estimate.cells.stratum is None else " within strata"


def _constants(estimate: Estimate) -> BoolArray | None:
    """Parameters that no coefficient enters; None where there is none."""
    A = estimate.coefficient_map
    if A is None:
        return None
    fixed = ~touching(A, np.ones(A.shape[1], dtype=bool))
    return fixed if fixed.any() else None


def _repaired(estimate: Estimate, terms: list[Term], options: ResolvedCov) -> tuple[FloatArray | None, str]:
    """The matrix that variances come from, shape (n, n), or None (from the terms); and what the repair changed."""
    if options.alike is not None:
        return None, f"two terms, that of {options.alike} pooled over models"
    if len(terms) == 1:
        return terms[0].matrix, ""
    raw = sum_blocks(term.sign * term.matrix for term in terms)
    one_way = [term.matrix for term in terms if len(term.dims) == 1]
    if options.repair == "none":
        return raw, ""
    if options.repair == "two-term":
        return sum_blocks(iter(one_way)), "the intersection terms were left out"
    if options.repair == "max":
        each = np.array([np.diag(term.matrix) for term in terms])
        largest = crossed_variance(each, [term.dims for term in terms], "max")
        raised = int(np.sum(np.diag(raw) < largest * (1 - 1e-12)))
        fewer = "one-way variance" if len(one_way) == 2 else "variance of fewer axes"
        return None, f"{raised} of {raw.shape[0]} variances were raised to the largest {fewer}" if raised else ""
    # Eigenvalues depend on the parameters that they are of.
    centring, back = _centring(estimate)
    centred = centring @ raw @ centring.T
    values, axes = np.linalg.eigh((centred + centred.T) / 2)
    # Win rates add up to a constant, whose eigenvalue of zero is rounding of either sign.
    negative = values < -1e-14 * max(values[-1], 0.0)
    if not negative.any():
        return raw, ""
    cut, share = int(np.sum(negative)), -values[values < 0].sum() / np.abs(values).sum()
    repaired = (axes * np.clip(values, 0.0, None)) @ axes.T
    text = f"{counted(cut, 'negative eigenvalue')} ({share:.2g} of the total) set to zero"
    return back @ repaired @ back.T, text


def _centring(estimate: Estimate) -> tuple[FloatArray, FloatArray]:
    """Maps from the parameters to ratings in log-odds that sum to zero, whatever their reference and scale, and back.

    Both (n, n); parameters that are no ratings stay as they are.
    """
    n, ratings = estimate.n_params, None if estimate.refit is None else estimate.refit.ratings
    if ratings is None:
        return np.eye(n), np.eye(n)
    rated, centring = np.isin(estimate.names, ratings.names), np.eye(n)
    centring[np.ix_(rated, rated)] -= 1.0 / np.count_nonzero(rated)
    back = centring.copy() if ratings.zero is None else np.eye(n)
    if ratings.zero is not None:
        back[rated, estimate.names.index(ratings.zero)] -= 1.0
    return centring / ratings.units, back * ratings.units[:, None]


def refuse_parameters(size: int) -> None:
    """Raise if the covariances of so many parameters do not fit into memory."""
    refuse_larger(
        COVARIANCES * 8.0 * size**2,
        f"the covariance of {size:,} parameters",
        "Ask for fewer at a time: some of the values of `by`, or some of the models.",
    )


def refuse_covariance(estimate: Estimate, axes: tuple[Axis, ...], options: ResolvedCov) -> None:
    """Raise if the covariances, or the squares and products of the design in each cluster, do not fit into memory."""
    scores = estimate.scores
    refuse_parameters(estimate.n_params)
    adjusted = options.kind.adjusts or options.dof == "satterthwaite"
    if axes and adjusted:
        n_clusters = max(scores.n_clusters(axis) for axis in axes)
        refuse_larger(
            GRAMS * 8.0 * max(scores.gram_entries(axis) for axis in axes),
            f"the covariance of {scores.n_columns:,} coefficients in {n_clusters:,} clusters",
            "Leave out or merge levels of the factors of the formula, or cluster by something coarser.",
        )
