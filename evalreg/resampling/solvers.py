"""Means, ratings and regressions solved again from sums within clusters, for any weights of the clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.covariance.absorbed import refuse_spanning
from evalreg.data.clusters import Axis, union
from evalreg.errors import NotAvailableError
from evalreg.estimate import Estimate, Refit
from evalreg.numerics.fitting import ROUNDING
from evalreg.numerics.matrices import Matrix, compressed, dense
from evalreg.scores.stacking import MappedScores


class Solver(Protocol):
    """Parameters for weights of clusters."""

    def solve(self, V: FloatArray) -> FloatArray:
        """Parameters under each row of weights, shape (n_draws, n_params); NaN where there is no solution."""

    def without(self) -> FloatArray:
        """Parameters without each cluster, shape (n_clusters, n_params)."""

    def errors(self, V: FloatArray) -> FloatArray:
        """CR0 standard errors under each row of weights, shape (n_draws, n_params)."""


@dataclass(frozen=True, eq=False)
class CellSolver:
    """Solver of estimates that depend on the rows by the means of cells, mostly linearly."""

    params: FloatArray  # (n_params,): estimates
    A: FloatArray | None  # (n_params, n_cells): params as combinations of the cells' means; None where they are not
    totals: Matrix  # (n_cells, n_clusters): sums of scores and of weights of each cell within clusters
    weight: Matrix
    # solves again where cells are gone or weigh otherwise: pairs of models that no drawn cluster holds, whose weight
    # goes to the others; likelihoods
    refit: Refit | None = None

    def _settled(self, top: FloatArray, bottom: FloatArray) -> FloatArray:
        # A cell of which nothing is left has no mean, and nor has what is made of it.
        empty = bottom <= self._nothing[:, None]
        means = np.divide(top, bottom, out=np.zeros_like(top), where=~empty)
        if self.refit is not None and self.refit.leave_out is not None:
            every = np.ones((self.totals.shape[1], 1))
            whole = np.asarray(self.weight @ every)
            solve = self.refit.leave_out.resolve
            change = solve(means, np.where(empty, 0.0, bottom)) - solve(np.asarray(self.totals @ every) / whole, whole)
            C = self.refit.contrasts
            return np.asarray(self.params + (change if C is None else change @ C.T))
        assert self.A is not None
        lost = (self.A != 0) @ empty
        return np.asarray(np.where(lost, np.nan, self.params[:, None] + self.A @ means).T)

    @property
    def _nothing(self) -> FloatArray:
        """Weight of each cell that is rounding."""
        return np.asarray(ROUNDING * self.weight.sum(axis=1)).ravel()

    def solve(self, V: FloatArray) -> FloatArray:
        """Parameters under each row of weights."""
        return self._settled(np.asarray(self.totals @ V.T), np.asarray(self.weight @ V.T))

    def without(self) -> FloatArray:
        """Parameters without each cluster."""
        totals, weight = dense(self.totals), dense(self.weight)
        return self._settled(totals.sum(axis=1, keepdims=True) - totals, weight.sum(axis=1, keepdims=True) - weight)

    def errors(self, V: FloatArray) -> FloatArray:
        """CR0 standard errors under each row of weights."""
        if self.A is None:
            raise NotAvailableError(
                'the "studentized" interval is available for means, win rates of fixed shares and least squares; this '
                'is a likelihood, or has shares that vary. Use kind="percentile", "basic" or "bca".'
            )
        top, bottom = np.asarray(self.totals @ V.T), np.asarray(self.weight @ V.T)
        drawn = bottom > self._nothing[:, None]
        inverse = np.divide(1.0, bottom, out=np.zeros_like(bottom), where=drawn)
        moved, V = top * inverse, V.T
        if np.all(np.count_nonzero(self.A, axis=1) == 1):
            return self._single_errors(V, moved, inverse)
        variance = []
        for place in range(len(self.A)):
            share = self._shares(place, np.where(drawn, bottom, 0.0)) * inverse
            u = self.totals.T @ share - self.weight.T @ (share * moved)
            variance.append(np.sum(V * u**2, axis=0))
        return np.asarray(np.sqrt(np.array(variance)).T)

    def _shares(self, place: int, bottom: FloatArray) -> FloatArray:
        """What each cell's mean weighs in a parameter, (n_cells, n_draws) or (n_cells, 1)."""
        assert self.A is not None
        again = None if self.refit is None else self.refit.leave_out
        if again is None or np.all(bottom > 0):
            return np.asarray(self.A[place][:, None])
        C = None if self.refit is None else self.refit.contrasts
        of = np.eye(len(self.A))[place] if C is None else dense(C)[place]
        found = again.shares(of, bottom)
        assert found is not None
        return found

    def _single_errors(self, V: FloatArray, moved: FloatArray, inverse: FloatArray) -> FloatArray:
        """Standard errors of parameters of one cell each, from squares and products of the sums."""
        S, W = self.totals, self.weight
        squares = S.multiply(S) @ V - 2 * moved * (S.multiply(W) @ V) + moved**2 * (W.multiply(W) @ V)
        assert self.A is not None
        return np.asarray((np.abs(self.A) @ (np.sqrt(np.maximum(squares, 0.0)) * inverse)).T)


@dataclass(frozen=True, eq=False)
class RowSolver:
    """Solver of least-squares regressions; of likelihoods of comparisons, by one Newton step from the fit.

    Davidson and MacKinnon (1999), International Economic Review 40, 487-508, for few steps in each draw.
    """

    params: FloatArray  # (n_params,): estimates
    A: FloatArray  # (n_params, k): params as combinations of the coefficients
    totals: FloatArray  # (n_clusters, k): sums of scores
    gram: Matrix  # (n_clusters, k * k): X_g'W X_g

    def _weighted(self, V: FloatArray) -> tuple[FloatArray, FloatArray]:
        k = self.totals.shape[1]
        return V @ self.totals, np.asarray(V @ self.gram).reshape(-1, k, k)

    def _settled(self, top: FloatArray, gram: FloatArray) -> FloatArray:
        inverse, regular = _inverses(gram)
        moved = np.einsum("bij,bj->bi", inverse, top)
        return np.where(regular[:, None], self.params + moved @ self.A.T, np.nan)

    def solve(self, V: FloatArray) -> FloatArray:
        """Parameters under each row of weights."""
        return self._settled(*self._weighted(V))

    def without(self) -> FloatArray:
        """Parameters without each cluster."""
        k, whole = self.totals.shape[1], np.asarray(self.gram.sum(axis=0))
        return self._settled(self.totals.sum(axis=0) - self.totals, (whole - dense(self.gram)).reshape(-1, k, k))

    def errors(self, V: FloatArray) -> FloatArray:
        """CR0 standard errors under each row of weights."""
        top, gram = self._weighted(V)
        inverse, regular = _inverses(gram)
        moved = np.einsum("bij,bj->bi", inverse, top)
        k = self.totals.shape[1]
        variance = []
        for row in self.A:
            share = inverse @ row
            pulled = (share[:, :, None] * moved[:, None, :]).reshape(-1, k * k)
            u = share @ self.totals.T - np.asarray(pulled @ self.gram.T)
            variance.append(np.sum(V * u**2, axis=1))
        return np.where(regular[:, None], np.sqrt(np.array(variance)).T, np.nan)


def _inverses(gram: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Inverses of symmetric matrices (n, k, k), and which of them have one."""
    scale = np.sqrt(np.maximum(np.einsum("nii->ni", gram), 0.0))
    unit = np.where(scale > 0, scale, 1.0)
    values, axes = np.linalg.eigh(gram / (unit[:, :, None] * unit[:, None, :]))
    regular = np.asarray((values[:, 0] > ROUNDING * values[:, -1]) & np.all(scale > 0, axis=1))
    turned = axes / unit[:, :, None]
    return (turned / np.where(regular[:, None], values, 1.0)[:, None, :]) @ np.swapaxes(turned, 1, 2), regular


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
    if refit.step:
        assert isinstance(estimate.scores, MappedScores)
        return RowSolver(np.array(estimate.params), dense(A), *estimate.scores.sparse_grams(by))
    # What solves again takes the cells themselves; a linear solution takes what they are mapped to.
    made = estimate.scores.sums_in_cells(by) if again else estimate.scores.cells(by)
    params, A, blocks = np.array(estimate.params), dense(A), list(made)
    if refit.inverse_gram.ndim == 2 and not again:
        grams = np.concatenate([dense(block.gram) for block in blocks])
        totals = np.concatenate([dense(block.totals) for block in blocks])
        return RowSolver(params, A, totals, grams.reshape(len(grams), -1))
    used = np.arange(blocks[0].totals.shape[1]) if again else np.flatnonzero(np.any(A != 0, axis=0))
    sums = [(compressed(block.totals)[:, used], compressed(block.gram)[:, used]) for block in blocks]
    totals, weight = (_stacked(parts) for parts in zip(*sums, strict=True))
    linear = refit.linear and not (again and estimate.scores.mapped)
    return CellSolver(params, A[:, used] if linear else None, totals, weight, refit)


def _stacked(parts: tuple[Matrix, ...]) -> Matrix:
    """Blocks of clusters as one array, cells by clusters."""
    from scipy import sparse

    return compressed(sparse.vstack(parts).T)


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
