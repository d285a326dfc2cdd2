"""Means, ratings and regressions solved again from sums within clusters, for any weights of the clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from evalreg.checks import FloatArray, IntArray
from evalreg.covariance.absorbed import refuse_spanning
from evalreg.data.clusters import Axis, union
from evalreg.errors import NotAvailableError
from evalreg.estimate import Estimate
from evalreg.inference.wald import inverse_root
from evalreg.numerics.limits import ROUNDING
from evalreg.numerics.matrices import Matrix, compressed, dense, faster_dense, stacked
from evalreg.scores.stacking import MappedScores

# For each parameter, which scores enter it, and what each draw makes of a cluster's totals and of its weights.
Pulls: TypeAlias = Iterator[tuple[slice | IntArray, FloatArray, FloatArray]]


@dataclass(frozen=True, eq=False)
class Solver:
    """Parameters for any weights of clusters: one product of the weights with the clusters' sums, solved."""

    totals: Matrix  # (n_scores, n_clusters): sums of scores
    weight: Matrix  # (n_weights, n_clusters): sums of weights, or grams
    # Parameters (n_draws, n_params) from weighted sums, (n_scores, n_draws) and (n_weights, n_draws), and what makes
    # influence; NaN where there is no solution.
    solved: Callable[[FloatArray, FloatArray], tuple[FloatArray, Pulls]]

    def solve(self, V: FloatArray) -> FloatArray:
        """Parameters under each row of weights, shape (n_draws, n_params); NaN where there is no solution."""
        return self.solved(np.asarray(self.totals @ V.T), np.asarray(self.weight @ V.T))[0]

    def with_errors(self, V: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Parameters and their CR0 standard errors under each row of weights, shape (n_draws, n_params) each."""
        params, pulls = self.solved(np.asarray(self.totals @ V.T), np.asarray(self.weight @ V.T))
        influence = (self.totals[rows].T @ pull - self.weight[rows].T @ moved for rows, pull, moved in pulls)
        return params, np.asarray(np.sqrt([np.einsum("ng,gn->n", V, u * u) for u in influence]).T)

    def without(self) -> FloatArray:
        """Parameters without each cluster, shape (n_clusters, n_params)."""
        top, bottom = (_whole(part) - dense(part) for part in (self.totals, self.weight))
        return self.solved(top, bottom)[0]


def _whole(part: Matrix) -> FloatArray:
    return np.asarray(part.sum(axis=1)).reshape(-1, 1)


def _of_cells(estimate: Estimate, A: FloatArray | None, totals: Matrix, weight: Matrix) -> Solver:
    """Solver of estimates that depend on the rows by the means of cells, mostly linearly: params + A means.

    Solves again where cells are gone or weigh otherwise: pairs of models that no drawn cluster holds, whose weight goes
    to the others; likelihoods, which have no A.
    """
    assert estimate.refit is not None
    params, again, of = np.array(estimate.params), estimate.refit.leave_out, estimate.refit.contrasts
    C = None if of is None else dense(of)
    whole, all_weight = _whole(totals), _whole(weight)

    def solved(top: FloatArray, bottom: FloatArray) -> tuple[FloatArray, Pulls]:
        # Of cells without a mean nothing but rounding is left.
        empty = bottom <= ROUNDING * all_weight
        means, bottom = np.divide(top, bottom, out=np.zeros_like(top), where=~empty), np.where(empty, 0.0, bottom)
        if again is not None:
            change = again.resolve(means, bottom) - again.resolve(whole / all_weight, all_weight)
            return np.asarray(params + (change if C is None else change @ C.T)), pulls(means, bottom)
        assert A is not None
        moved = params[:, None] + A @ means
        return np.asarray(np.where((A != 0) @ empty, np.nan, moved).T), pulls(means, bottom)

    def pulls(means: FloatArray, bottom: FloatArray) -> Pulls:
        if A is None:
            raise NotAvailableError(
                'the "studentized" interval is available for means, win rates of fixed shares and least squares; this '
                'is a likelihood, or has shares that vary. Use kind="percentile", "basic" or "bca".'
            )
        empty = bottom == 0
        for place, fixed in enumerate(A):
            share: FloatArray | None = fixed[:, None]
            if again is not None and empty.any():
                share = again.shares(np.eye(len(A))[place] if C is None else C[place], bottom)
            assert share is not None
            cells = np.flatnonzero(share.any(axis=1))
            pull = np.divide(share[cells], bottom[cells], out=np.zeros_like(means[cells]), where=~empty[cells])
            yield cells, pull, pull * means[cells]

    return Solver(totals, weight, solved)


def _of_rows(estimate: Estimate, A: FloatArray, totals: Matrix, grams: Matrix) -> Solver:
    """Solver of least-squares regressions; of likelihoods of comparisons, by one Newton step from the fit.

    The weights are grams X_g'W X_g, k * k of a cluster. Davidson and MacKinnon (1999), International Economic Review
    40, 487-508, for few steps in each draw.
    """
    params = np.array(estimate.params)

    def solved(top: FloatArray, bottom: FloatArray) -> tuple[FloatArray, Pulls]:
        k = len(top)
        root = inverse_root(bottom.T.reshape(-1, k, k))
        inverse = root @ np.swapaxes(root, 1, 2)
        step = np.einsum("bij,jb->bi", inverse, top)
        shares = (inverse @ row for row in A)
        pulls = ((slice(None), share.T, np.einsum("bi,bj->ijb", share, step).reshape(k * k, -1)) for share in shares)
        return np.asarray(params + step @ A.T), pulls

    return Solver(totals, grams, solved)


def solver_of(estimate: Estimate, by: Axis) -> Solver:
    """Solver from the sums within the clusters of `by`."""
    refit, A = estimate.refit, estimate.coefficient_map
    again = refit is not None and refit.leave_out is not None
    if refit is not None and refit.delta:
        raise NotAvailableError(
            f"a bootstrap solves again for the parameters, and these are a function of them ({estimate.about.model}), "
            "of which only the slope is kept. Take the function of each draw: `bootstrap` of the results before "
            "`transform` (or `odds`) has them in `draws`. Or pass a function that does both to `evalreg.bootstrap`, "
            "which resamples the rows."
        )
    if refit is None or A is None or not (refit.linear or refit.step or again):
        raise NotAvailableError(
            "a bootstrap from cluster sums is available for means, win rates, ratings and least squares (and contrasts "
            f"of them); this is {estimate.about.model}. Pass a function that fits it to `evalreg.bootstrap`, which "
            "resamples the rows."
        )
    refuse_spanning(estimate, by, "a bootstrap")
    if estimate.cells is not None and estimate.cells.stratum is not None:
        raise NotAvailableError("a bootstrap of stratified means is not available. Leave `strata` out.")
    A = dense(A)
    if refit.step:
        assert isinstance(estimate.scores, MappedScores)
        totals, grams = estimate.scores.sparse_grams(by)
        return _of_rows(estimate, A, totals.T, grams.T)
    # What solves again takes the cells themselves; a linear solution takes what they are mapped to.
    blocks = list(estimate.scores.sums_in_cells(by) if again else estimate.scores.cells(by))
    if refit.inverse_gram.ndim == 2 and not again:
        totals = np.concatenate([dense(block.totals) for block in blocks])
        grams = np.concatenate([dense(block.gram).reshape(len(block.totals), -1) for block in blocks])
        return _of_rows(estimate, A, totals.T, grams.T)
    used = np.arange(blocks[0].totals.shape[1]) if again else np.flatnonzero(np.any(A != 0, axis=0))
    sums = ([block.totals for block in blocks], [block.gram for block in blocks])
    sparse = (compressed(stacked([compressed(part)[:, used] for part in parts]).T) for parts in sums)
    totals, weight = (dense(part) if faster_dense(part) else part for part in sparse)
    linear = refit.linear and not (again and estimate.scores.mapped)
    return _of_cells(estimate, A[:, used] if linear else None, totals, weight)


def meetings(estimate: Estimate, axes: tuple[Axis, ...]) -> tuple[Axis, list[IntArray], list[int]]:
    """Joint values of crossed clusterings, and the cluster of each on every axis.

    Shapes: returns codes (n_meetings,).
    """
    by, n_clusters = union(*axes), [estimate.scores.n_clusters(axis) for axis in axes]
    if len(axes) == 1:
        return by, [np.arange(n_clusters[0])], n_clusters
    labels = estimate.scores.row_labels()
    if labels is None:
        raise NotAvailableError(
            "a bootstrap of crossed clusters needs rows in memory; collect the frame first, or name one clustering."
        )
    first = labels.codes(by).first
    return by, [labels.codes(axis).codes[first] for axis in axes], n_clusters
