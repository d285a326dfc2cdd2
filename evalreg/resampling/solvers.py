"""Means, ratings and regressions solved again from sums within clusters, for any weights of the clusters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.covariance.absorbed import refuse_spanning
from evalreg.data.clusters import Axis, union
from evalreg.errors import NotAvailableError
from evalreg.estimate import Estimate, LeaveOut
from evalreg.numerics.limits import ROUNDING
from evalreg.numerics.matrices import Matrix, compressed, dense, stacked
from evalreg.scores.stacking import MappedScores


@dataclass(frozen=True, eq=False)
class Solver(ABC):
    """Parameters for any weights of clusters: one product of the weights with the clusters' sums, solved."""

    params: FloatArray  # (n_params,): estimates
    totals: Matrix  # (n_scores, n_clusters): sums of scores
    weight: Matrix  # (n_weights, n_clusters): sums of weights, or grams

    def solve(self, V: FloatArray) -> FloatArray:
        """Parameters under each row of weights, shape (n_draws, n_params); NaN where there is no solution."""
        return self._settled(np.asarray(self.totals @ V.T), np.asarray(self.weight @ V.T))

    def without(self) -> FloatArray:
        """Parameters without each cluster, shape (n_clusters, n_params)."""
        totals, weight = dense(self.totals), dense(self.weight)
        return self._settled(totals.sum(axis=1, keepdims=True) - totals, weight.sum(axis=1, keepdims=True) - weight)

    def errors(self, V: FloatArray) -> FloatArray:
        """CR0 standard errors under each row of weights, shape (n_draws, n_params)."""
        influence = self._influence(np.asarray(self.totals @ V.T), np.asarray(self.weight @ V.T))
        return np.asarray(np.sqrt([np.sum(V.T * u**2, axis=0) for u in influence]).T)

    @abstractmethod
    def _settled(self, top: FloatArray, bottom: FloatArray) -> FloatArray:
        """Parameters from weighted sums, (n_scores, n_draws) and (n_weights, n_draws)."""

    @abstractmethod
    def _influence(self, top: FloatArray, bottom: FloatArray) -> Iterator[FloatArray]:
        """Influence of clusters on each parameter in turn, (n_clusters, n_draws)."""


@dataclass(frozen=True, eq=False)
class CellSolver(Solver):
    """Solver of estimates that depend on the rows by the means of cells, mostly linearly."""

    A: FloatArray | None  # (n_params, n_cells): params as combinations of the cells' means; None where they are not
    # solves again where cells are gone or weigh otherwise: pairs of models that no drawn cluster holds, whose weight
    # goes to the others; likelihoods
    again: LeaveOut | None
    C: FloatArray | None  # (n_params, n_solved): params as combinations of what is solved again

    def _means(self, top: FloatArray, bottom: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Means of cells, and which cells have none: those of which nothing but rounding is left."""
        empty = bottom <= ROUNDING * np.asarray(self.weight.sum(axis=1)).reshape(-1, 1)
        return np.divide(top, bottom, out=np.zeros_like(top), where=~empty), empty

    def _settled(self, top: FloatArray, bottom: FloatArray) -> FloatArray:
        means, empty = self._means(top, bottom)
        if self.again is not None:
            whole = [np.asarray(one.sum(axis=1)).reshape(-1, 1) for one in (self.totals, self.weight)]
            at_whole = self.again.resolve(whole[0] / whole[1], whole[1])
            change = self.again.resolve(means, np.where(empty, 0.0, bottom)) - at_whole
            return np.asarray(self.params + (change if self.C is None else change @ self.C.T))
        assert self.A is not None
        lost = (self.A != 0) @ empty
        return np.asarray(np.where(lost, np.nan, self.params[:, None] + self.A @ means).T)

    def _influence(self, top: FloatArray, bottom: FloatArray) -> Iterator[FloatArray]:
        if self.A is None:
            raise NotAvailableError(
                'the "studentized" interval is available for means, win rates of fixed shares and least squares; this '
                'is a likelihood, or has shares that vary. Use kind="percentile", "basic" or "bca".'
            )
        means, empty = self._means(top, bottom)
        for place, fixed in enumerate(self.A):
            share: FloatArray | None = fixed[:, None]
            if self.again is not None and empty.any():
                of = np.eye(len(self.A))[place] if self.C is None else self.C[place]
                share = self.again.shares(of, np.where(empty, 0.0, bottom))
            assert share is not None
            cells = np.flatnonzero(share.any(axis=1))
            pull = np.divide(share[cells], bottom[cells], out=np.zeros((cells.size, top.shape[1])), where=~empty[cells])
            yield self.totals[cells].T @ pull - self.weight[cells].T @ (pull * means[cells])


@dataclass(frozen=True, eq=False)
class RowSolver(Solver):
    """Solver of least-squares regressions; of likelihoods of comparisons, by one Newton step from the fit.

    The weights are grams X_g'W X_g, k * k of a cluster. Davidson and MacKinnon (1999), International Economic Review
    40, 487-508, for few steps in each draw.
    """

    A: FloatArray  # (n_params, k): params as combinations of the coefficients

    def _moved(self, top: FloatArray, gram: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Inverses of the grams, (n_draws, k, k), and the step of the coefficients, (n_draws, k)."""
        k = len(top)
        inverse = _inverses(gram.T.reshape(-1, k, k))
        return inverse, np.einsum("bij,jb->bi", inverse, top)

    def _settled(self, top: FloatArray, bottom: FloatArray) -> FloatArray:
        return np.asarray(self.params + self._moved(top, bottom)[1] @ self.A.T)

    def _influence(self, top: FloatArray, bottom: FloatArray) -> Iterator[FloatArray]:
        inverse, moved = self._moved(top, bottom)
        for row in self.A:
            share = inverse @ row
            pull = (share[:, :, None] * moved[:, None, :]).reshape(len(share), -1)
            yield self.totals.T @ share.T - self.weight.T @ pull.T


def _inverses(gram: FloatArray) -> FloatArray:
    """Inverses of symmetric matrices, shape (n, k, k); NaN where there is none."""
    scale = np.sqrt(np.maximum(np.einsum("nii->ni", gram), 0.0))
    unit = np.where(scale > 0, scale, 1.0)
    values, axes = np.linalg.eigh(gram / (unit[:, :, None] * unit[:, None, :]))
    regular = (values[:, 0] > ROUNDING * values[:, -1]) & np.all(scale > 0, axis=1)
    turned = axes / unit[:, :, None]
    return np.asarray(turned / np.where(regular[:, None], values, np.nan)[:, None, :]) @ np.swapaxes(turned, 1, 2)


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
    params, A = np.array(estimate.params), dense(A)
    if refit.step:
        assert isinstance(estimate.scores, MappedScores)
        totals, grams = estimate.scores.sparse_grams(by)
        return RowSolver(params, totals.T, grams.T, A)
    # What solves again takes the cells themselves; a linear solution takes what they are mapped to.
    blocks = list(estimate.scores.sums_in_cells(by) if again else estimate.scores.cells(by))
    if refit.inverse_gram.ndim == 2 and not again:
        totals = np.concatenate([dense(block.totals) for block in blocks])
        grams = np.concatenate([dense(block.gram).reshape(len(block.totals), -1) for block in blocks])
        return RowSolver(params, totals.T, grams.T, A)
    used = np.arange(blocks[0].totals.shape[1]) if again else np.flatnonzero(np.any(A != 0, axis=0))
    sums = ([block.totals for block in blocks], [block.gram for block in blocks])
    totals, weight = (compressed(stacked([compressed(part)[:, used] for part in parts]).T) for parts in sums)
    linear = refit.linear and not (again and estimate.scores.mapped)
    C = None if refit.contrasts is None else dense(refit.contrasts)
    return CellSolver(params, totals, weight, A[:, used] if linear else None, refit.leave_out, C)


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
