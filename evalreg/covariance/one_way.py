"""From scores and one clustering to a term: the naive one, CR0 and CR1, adjusted totals, clusters left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from evalreg.checks import BoolArray, FloatArray, SscName, listed
from evalreg.covariance.cell_dof import LeverageSums, entries_at_once
from evalreg.covariance.corrections import (
    FULL_LEVERAGE,
    cell_scale,
    full_leverage_cells,
    power_scale,
    scaled_totals,
)
from evalreg.covariance.dof import CountedDof, FixedDof, Leverage, WelchDof, quadratic
from evalreg.covariance.leverages import CellLeverage
from evalreg.covariance.one_cluster import Directions, Remaining, directions_of, remaining
from evalreg.covariance.options import Counts, ResolvedCov
from evalreg.covariance.row_leverages import RowLeverage
from evalreg.covariance.spanning import spanning_of
from evalreg.covariance.summed_leverages import Adjusting
from evalreg.covariance.terms import NO_VARIANCE, Term
from evalreg.data.clusters import Axis, axis_name, union
from evalreg.errors import NotAvailableError, TooFewClustersError
from evalreg.estimate import Cells, Estimate, LeaveOut
from evalreg.numerics.matrices import (
    Matrix,
    absolute_entries,
    compressed,
    dense,
    identity,
    scale_columns,
    scale_rows,
    square,
    totals_of_columns,
)
from evalreg.scores.base import CellSquares, Scores
from evalreg.scores.differences import PairScores

# Sums that cancel to this fraction of their terms are rounding.
ROUNDING = 1e-12
# Values that differ by less are equal: an average of equal ones is one of them to some of its last digits.
EQUAL = 1e-14


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
        rest = FixedDof(float(n - estimate.n_coefficients))
        return Term((), (), n, matrix, rest, None, no_loss)
    scale = np.sqrt(cells.count / np.maximum(cells.count - 1, 1))
    matrix = estimate.scores.meat(None, scale_rows(bread, scale))
    equal = _of_equal_values(estimate)
    matrix[equal, :] = matrix[:, equal] = 0.0
    variance = cells.squares / cells.weight**2 * scale**2
    lost = _touches(estimate, cells.count < 2)
    return Term((), (), n, matrix, WelchDof(variance, cells.count), estimate.coefficient_map, lost)


def check_strata(estimate: Estimate) -> None:
    """Raise if a stratum of independent rows has a single one, which has no variance."""
    cells = estimate.cells
    if cells is None or cells.stratum is None:
        return
    single = sorted({cells.strata[stratum] for stratum in cells.stratum[(cells.count < 2) & _entering(estimate)]})
    if single:
        raise TooFewClustersError(
            f"`strata` needs at least 2 rows in every stratum (of each model); {listed(single)} "
            f"{'has' if len(single) == 1 else 'have'} one. Merge strata, or leave them out.",
            count=len(single),
        )


def _entering(estimate: Estimate) -> BoolArray:
    """Cells that some parameter varies with, shape (n_cells,); a stratum that is here as a whole has none."""
    return totals_of_columns(absolute_entries(estimate.coefficient_map)) > 0


def _touches(estimate: Estimate, columns: BoolArray) -> BoolArray:
    """Parameters that some of the coefficients enter."""
    assert estimate.coefficient_map is not None
    if not columns.any():
        return np.zeros(estimate.n_params, dtype=bool)
    return np.asarray((estimate.coefficient_map != 0) @ columns, dtype=bool)


def _of_equal_values(estimate: Estimate) -> BoolArray:
    """Parameters of cells each of whose values are equal but for rounding, as averages of three answers of 0.7 are."""
    cells, scores = estimate.cells, estimate.scores
    if cells is None or scores.mapped or estimate.coefficient_map is None:
        return np.zeros(estimate.n_params, dtype=bool)
    size = np.maximum(np.abs(cells.low), np.abs(cells.high))
    # The values of a ratio may have no known bounds.
    equal = np.isfinite(size) & (cells.high - cells.low <= EQUAL * size) & (cells.scatter <= EQUAL * size**2)
    return ~_touches(estimate, ~equal)


def _rounding(estimate: Estimate, variance: FloatArray) -> BoolArray:
    """Parameters whose rows' influences cancel to rounding, so that their variance would be rounding too."""
    scores, refit = estimate.scores, estimate.refit
    none = np.zeros(variance.size, dtype=bool)
    if refit is None or (refit.inverse_gram.ndim == 1 and not scores.mapped):
        return none
    if scores.residual is not None:
        model = quadratic(dense(estimate.coefficient_map), refit.inverse_gram) * float(np.mean(scores.residual**2))
        if not np.any(variance <= ROUNDING * model):
            return none
    size = scores.uncancelled(estimate.bread)
    return none if size is None else np.asarray(variance <= scores.rounding * size)


def one_term(
    estimate: Estimate, axes: tuple[Axis, ...], dims: tuple[int, ...], options: ResolvedCov, naive: FloatArray
) -> Term:
    """Return the term of the axes `dims`, with its leverages where it is an axis itself."""
    by = union(*(axes[d] for d in dims))
    n_clusters = estimate.scores.n_clusters(by)
    alone = directions_of(estimate, by) if len(dims) == 1 else None
    if not options.kind.adjusts:
        matrix = _unadjusted(estimate, axes, by, n_clusters, options)
        wants_dof = options.dof == "satterthwaite" and len(dims) == 1
        leverage = _adjusted(estimate, by, options, True, alone)[1] if wants_dof else None
        lost = _lost_without_variance(estimate, by, matrix, naive)
    else:
        keep = options.dof == "satterthwaite" and len(dims) == 1
        matrix, leverage, lost = _adjusted(estimate, by, options, keep, alone)
        matrix = options.factor(counts_of(estimate, axes, n_clusters, options.ssc)) * matrix
    if len(dims) == 1 and options.dof == "min":
        leverage = _counted(estimate, by)
    if leverage is not None and options.dof == "satterthwaite":
        leverage = estimate.family.leverage(estimate, leverage)
    contrasts = None if leverage is None else estimate.coefficient_map
    blind = None if alone is None else alone.moves(estimate)
    return Term(by, dims, n_clusters, matrix, leverage, contrasts, lost, blind)


def _lost_without_variance(estimate: Estimate, by: Axis, matrix: FloatArray, naive: FloatArray) -> BoolArray:
    """Parameters without a variance because one cluster determines them; looked for only where a variance is zero."""
    none = np.diag(matrix) <= NO_VARIANCE * np.diag(naive)
    if estimate.refit is None or estimate.refit.inverse_gram.ndim == 2 or not none.any():
        return np.zeros(estimate.n_params, dtype=bool)
    return _touches(estimate, _adjust_cells(estimate, by, 1.0, False)[2]) & none


def _unadjusted(
    estimate: Estimate, axes: tuple[Axis, ...], by: Axis, n_clusters: int, options: ResolvedCov
) -> FloatArray:
    """CR0, or CR1 with its factor; with strata each mean within a stratum has the factor of its own clusters."""
    cells = estimate.cells
    if cells is not None and cells.stratum is not None and options.kind.takes_ssc and options.ssc != "none":
        own = _clusters_of_cells(estimate, cells, by, each=True)
        scale = np.sqrt(own / np.maximum(own - 1, 1))
        return estimate.scores.meat(by, scale_rows(estimate.bread, scale))
    factor = options.factor(counts_of(estimate, axes, n_clusters, options.ssc))
    return factor * estimate.scores.meat(by, estimate.bread)


def counts_of(estimate: Estimate, axes: tuple[Axis, ...], n_clusters: int, ssc: SscName) -> Counts:
    """What the factor of a term is made of; absorbed levels count by the convention asked for."""
    smallest, K, labels = min(map(estimate.scores.n_clusters, axes)), estimate.n_coefficients, None
    if estimate.absorbed is not None and (labels := estimate.scores.row_labels()) is not None:
        K = estimate.absorbed.n_coefficients(ssc, [labels.codes(axis) for axis in axes])
    return Counts(n_clusters, smallest, estimate.n_rows, K, estimate.kind != "likelihood")


def _clusters_of_cells(estimate: Estimate, cells: Cells, by: Axis, each: bool = False) -> FloatArray:
    """Clusters of each cell, of a model in a stratum.

    A single one has no variance (and needs none where it is no sample): refused of all models, or of `each` of them.
    """
    assert cells.stratum is not None
    every = identity(cells.stratum.size)
    counts = estimate.scores.column_sums(by, every, every).n_clusters
    varies = _entering(estimate)
    most = np.zeros(len(cells.strata))
    np.maximum.at(most, cells.stratum[varies], counts[varies])
    few = counts < 2 if each else most[cells.stratum] < 2
    single = sorted({cells.strata[s] for s in cells.stratum[few & varies]})
    if single:
        raise TooFewClustersError(
            f"`strata` needs at least 2 clusters of {axis_name(by)!r} in every stratum (of each model); "
            f"{listed(single)} {'has' if len(single) == 1 else 'have'} one. Merge strata, or cluster by the strata "
            "instead.",
            column=axis_name(by),
            count=len(single),
        )
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
            f'`cov="{options.cov}"` with dof={options.dof!r} needs the design of the model, which this estimate '
            'does not have. Available are cov "naive", "CR0" and "CR1" with dof "min", "normal" or a number.'
        )
    if options.kind.needs_exact_refit and estimate.family.not_resolved:
        raise NotAvailableError(estimate.family.not_resolved)
    if options.kind.needs_exact_refit and not refit.exact:
        raise NotAvailableError(
            '`cov="jackknife"` solves the estimate again without each cluster, which is there for means, win rates, '
            'ratings and least squares. Use cov="CR3", which takes one Newton step for each cluster.'
        )
    if options.kind.needs_exact_refit and refit.leave_out is not None:
        return _left_out(estimate, by, refit.leave_out, refit.contrasts)
    if refit.inverse_gram.ndim == 1:
        matrix, leverage, lost = _adjust_cells(estimate, by, options.kind.power, keep)
        return matrix, leverage, _touches(estimate, lost)
    spanning = spanning_of(estimate, by, options.kind.power)
    if spanning is not None:
        matrix = square(spanning.totals(estimate.scores), estimate.bread)
        return matrix, spanning if keep else None, np.zeros(estimate.n_params, dtype=bool)
    matrix, leverage = _adjust_rows(remaining(estimate, alone), by, options.kind.power, keep)
    return matrix, leverage, np.zeros(estimate.n_params, dtype=bool)


def _left_out(estimate: Estimate, by: Axis, leave_out: LeaveOut, contrasts: Matrix | None) -> Adjusted:
    """Sum of squares of theta_(g) - theta, the estimate solved again without each cluster."""
    n = estimate.n_params
    leaving = LeavingOut(by, n, leave_out, contrasts)
    made = estimate.scores.added_up(by, leaving)
    sums = leaving(estimate.scores) if made is None else made
    return sums[n:].reshape(n, n), None, sums[:n] > 0


@dataclass(frozen=True, eq=False)
class LeavingOut:
    """What solves an estimate again without each cluster of `by`."""

    by: Axis
    n_params: int
    leave_out: LeaveOut
    contrasts: Matrix | None

    @property
    def n_sums(self) -> int:
        """Length of the array of sums."""
        return self.n_params * (self.n_params + 1)

    @property
    def n_entries(self) -> int:
        """Numbers that are held of each cluster meanwhile."""
        return self.n_params**2

    def __call__(self, scores: Scores) -> FloatArray:
        """How many clusters leave each parameter without a solution, and the sum of squares of its changes."""
        n = self.n_params
        matrix, lost = np.zeros((n, n)), np.zeros(n)
        for block in scores.sums_in_cells(self.by):
            change = self.leave_out(block)
            unsolved = np.isnan(change)
            known = np.where(unsolved, 0.0, change)
            if self.contrasts is not None:
                known = np.asarray(known @ self.contrasts.T)
                unsolved = np.asarray(unsolved.astype(float) @ (abs(self.contrasts) > 0).T) > 0
            matrix += known.T @ known
            lost += np.count_nonzero(unsolved, axis=0)
        return np.append(lost, matrix)


def _adjust_cells(estimate: Estimate, by: Axis, power: float, keep: bool) -> Adjusted:
    assert estimate.refit is not None
    inverse, n_params = estimate.refit.inverse_gram, estimate.bread.shape[1]
    if isinstance(estimate.scores, PairScores):
        share = estimate.scores.shares(by)
        if share is not None:
            return _adjust_alike(estimate, estimate.scores, by, share, power, keep)
    matrix, lost = np.zeros((n_params, n_params)), np.zeros(inverse.size, dtype=bool)
    made = estimate.scores.cell_squares(by, inverse, power, FULL_LEVERAGE, keep)
    if made is not None:
        return _of_squares(estimate, made, power, keep)
    leverages = LeverageSums(1.0 / inverse)
    n_entries = entries_at_once(max(n_params, inverse.size))
    for block in (part for whole in estimate.scores.cells(by) for part in whole.parts(n_entries)):
        share = scale_columns(block.gram, inverse)
        scale = cell_scale(share, power)
        totals = scaled_totals(block.totals, scale)
        matrix += square(totals, estimate.bread)
        lost |= full_leverage_cells(share)
        if keep:
            leverages.add(share, scale)
    lost &= bool(power)
    return matrix, leverages.sums() if keep else None, lost


def _adjust_alike(
    estimate: Estimate, scores: PairScores, by: Axis, share: FloatArray, power: float, keep: bool
) -> Adjusted:
    """The same where the leverages of all cells are the shares of one clustering."""
    assert estimate.refit is not None
    inverse = estimate.refit.inverse_gram
    matrix = scores.scaled_meat(by, power_scale(share, power), estimate.bread)
    column = compressed(share[:, None])
    lost = np.full(inverse.size, bool(power) and bool(full_leverage_cells(column)[0]))
    if not keep:
        return matrix, None, lost
    one = LeverageSums(1.0 / inverse[:1])
    one.add(column, cell_scale(column, power))
    found = one.sums()
    assert isinstance(found, CellLeverage)
    spread = np.broadcast_to(found.spread, (inverse.size,) * 2)
    return matrix, CellLeverage(np.repeat(found.trace, inverse.size), spread), lost


def _of_squares(estimate: Estimate, made: CellSquares, power: float, keep: bool) -> Adjusted:
    """The same of sums over clusters."""
    matrix = dense(estimate.bread.T @ (made.totals @ estimate.bread))
    leverage = CellLeverage(made.trace, made.squares + made.products**2) if keep else None
    return matrix, leverage, made.lost & bool(power)


def _adjust_rows(rest: Remaining, by: Axis, power: float, keep: bool) -> tuple[FloatArray, Leverage | None]:
    adjusting = Adjusting(by, rest.root, rest.bread, power, keep)
    made = rest.scores.added_up(by, adjusting)
    if made is not None:
        return adjusting.split(made, rest.turn)
    matrix, parts = adjusting.of(rest.scores)
    return matrix, RowLeverage(parts, rest.turn) if keep else None
