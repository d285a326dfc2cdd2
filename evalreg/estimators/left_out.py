"""Ratings without each cluster, where that moves them little: Newton's steps, all with the matrix of the first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalreg.checks import FloatArray, IntArray
from evalreg.estimators.outcomes import Outcomes
from evalreg.numerics.matrices import Matrix, compressed, scale_columns, transposed, with_entries
from evalreg.numerics.packed import Touched

MOST_STEPS = 20
# Steps settle where the next would be shorter than this, if it shrinks as the last one did.
CONVERGED = 1e-13
# A step that is more than this fraction of the one before is left to Newton's method with new matrices.
SHRINKS = 0.25
# So are linear predictors that move further than this, in log-odds.
NEAR = 1.0
# Of a cluster's information so little stays, so that a matrix of which nothing is left has an inverse.
TRACE = 1e-9
# Eigenvalues that are a smaller fraction of the largest are rounding.
ROUNDING = 1e-14
# Rounding of the gradient moves no coefficient further than this.
ROUGH = 1e-11
# Entries of the matrices of clusters that are made at a time.
ENTRIES = 1 << 20


@dataclass(frozen=True, eq=False)
class AllRows:
    """A likelihood at the coefficients of all rows."""

    outcomes: Outcomes
    coefficients: FloatArray  # (p,)
    weight: FloatArray  # (n_values,): of each cell, for each value of its rows
    residual: FloatArray  # (n_values,): mean of the values less what is expected
    flat: Matrix  # information of a row of each cell, (n_cells, p * p)
    inverse: FloatArray  # M, that of the information H of all rows, (p, p)
    # Smallest eigenvalue of H over its largest, coordinates scaled; 0 where rounding moves coefficients too far.
    determined: float

    @classmethod
    def of(cls, outcomes: Outcomes, coefficients: FloatArray, weight: FloatArray, residual: FloatArray) -> AllRows:
        """From the likelihood and its coefficients."""
        p, flat = coefficients.size, outcomes.flat(coefficients)
        H = np.asarray(flat.T @ weight[: flat.shape[0]]).reshape(p, p)
        if not np.all(np.isfinite(H)) or np.any(np.diag(H) <= 0):
            return cls(outcomes, coefficients, weight, residual, flat, np.zeros_like(H), 0.0)
        unit = np.sqrt(np.diag(H))
        values, axes = np.linalg.eigh(H / np.outer(unit, unit))
        determined = float(values[0] / values[-1])
        # What is hardly determined at all needs no inverse: no cluster is left out nearby.
        turned = axes / unit[:, None]
        inverse = (turned / np.maximum(values, ROUNDING * values[-1])) @ turned.T
        rounding = np.finfo(float).eps * (abs(compressed(outcomes.design)).T @ weight)
        if np.max(np.abs(inverse) @ rounding) > ROUGH:
            determined = 0.0
        return cls(outcomes, coefficients, weight, residual, flat, inverse, determined)


@dataclass(frozen=True, eq=False)
class FirstStep:
    """The inverse of the information H of all rows less that of a cluster, for each of some clusters.

    A cluster's own, H_g, has entries for the columns alone that its rows touch. With M = H^-1, and M_g and H_g cut down
    to these, (H - H_g)^-1 = M + M S_g M, S_g = (I - H_g M_g)^-1 H_g: Woodbury's formula.
    """

    inverse: FloatArray  # M, (p, p)
    touched: Touched  # columns of the clusters
    # Places of the columns of clusters that touch as many, (m, k), and S_g, (m, k, k).
    parts: tuple[tuple[IntArray, FloatArray], ...]
    # In any direction no less of H is left than this fraction, (n_clusters,).
    left: FloatArray

    @classmethod
    def of(cls, rows: AllRows, gram: Matrix) -> FirstStep:
        """For clusters whose rows have these weights in the cells, (n_clusters, n_values)."""
        touched = Touched.of(gram, rows.outcomes.design)
        parts, left = list[tuple[IntArray, FloatArray]](), np.ones(gram.shape[0])
        for places, H in touched.packed(compressed(gram[:, : rows.flat.shape[0]] @ rows.flat), ENTRIES):
            own = touched.column[places]
            M = rows.inverse[own[:, :, None], own[:, None, :]]
            S = np.asarray(np.linalg.solve(np.eye(own.shape[1]) - (1 - TRACE) * H @ M, H), dtype=np.float64)
            # Eigenvalues of (I - H_g M_g)^-1 are 1 and more, and none is larger than their sum.
            total = own.shape[1] + np.einsum("gij,gji->g", S, M)
            left[touched.cluster[places[:, 0]]] = np.where(total > 0, 1 / total, 0.0)
            parts.append((places, S))
        return cls(rows.inverse, touched, tuple(parts), left)

    def __call__(self, gradient: FloatArray) -> FloatArray:
        """(H - H_g)^-1 times a gradient for each cluster, (n_clusters, p)."""
        step = gradient @ self.inverse
        back = np.zeros_like(step)
        for places, S in self.parts:
            cluster, column = self.touched.cluster[places], self.touched.column[places]
            back[cluster, column] = (S @ step[cluster, column][:, :, None])[:, :, 0]
        return np.asarray(step + back @ self.inverse)


def solved_nearby(rows: AllRows, totals: Matrix, gram: Matrix, *, gone: float, singular: float) -> FloatArray:
    """Coefficients without each cluster, (n_clusters, p); NaN where it takes new matrices to find them, or to be sure.

    Totals and gram are the cluster's sums of residuals and of weights, (n_clusters, n_values); a cell of whose weight
    the share `gone` or less would be left has none. Information changes by a factor of exp(|d|) at most where linear
    predictors move by d, which bounds its eigenvalues: they are far from `singular`.
    """
    design, weight = compressed(rows.outcomes.design), rows.weight
    cell = gram.indices
    taken = with_entries(gram, np.where(weight[cell] - gram.data <= gone * weight[cell], weight[cell], gram.data))
    cluster = np.repeat(np.arange(gram.shape[0]), np.diff(gram.indptr))
    to_gradient = scale_columns(transposed(design), weight)
    expected = rows.outcomes.fitted(rows.coefficients[None, :])[0]
    start = to_gradient @ rows.residual - (totals @ design).toarray()
    # No linear predictor moves further than its number of entries times the largest of what one adds.
    unit = np.diff(design.indptr).max(initial=1) * abs(design).max(axis=0).toarray().ravel()
    first = FirstStep.of(rows, gram)
    beta = np.tile(rows.coefficients, (gram.shape[0], 1))
    found, active, last = np.full(beta.shape, np.nan), first.left * rows.determined > singular, NEAR / SHRINKS
    gradient = start
    for _ in range(MOST_STEPS):
        step = np.where(active[:, None], first(gradient), 0.0)
        reach = np.max(unit * np.abs(step), axis=1)
        settled = active & (reach**2 < CONVERGED * (1 + np.max(np.abs(beta), axis=1)) * last)
        beta += step
        moved = np.max(unit * np.abs(beta - rows.coefficients), axis=1)
        # Davidson's tie parameter moves all three outcomes, besides the linear predictor.
        sure = first.left * np.exp(-4 * moved) * rows.determined > singular
        found[settled & sure] = beta[settled & sure]
        active &= ~settled & (reach < SHRINKS * last) & (moved < NEAR) & sure
        if not active.any():
            break
        last = reach
        change = rows.outcomes.fitted(beta).T - expected[:, None]
        own = with_entries(taken, taken.data * change[cell, cluster])
        gradient = start - (to_gradient @ change).T + (own @ design).toarray()
    return found
