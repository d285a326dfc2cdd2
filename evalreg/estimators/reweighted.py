"""Ratings solved again under other weights of the comparisons: without each cluster, or for clusters drawn again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evalreg.checks import BoolArray, FloatArray
from evalreg.estimators.left_out import AllRows, solved_nearby
from evalreg.estimators.outcomes import Outcomes
from evalreg.numerics.matrices import compressed, dense, transposed
from evalreg.scores.sums import Block

MOST_STEPS = 50
# A step moves no linear predictor further than this, so that none leaps to where the likelihood is flat.
LONGEST = 3.0
CONVERGED = 1e-10
# Information whose smallest eigenvalue is this fraction of its largest, coordinates scaled, has no solution.
SINGULAR = 1e-12
# Where that fraction may be smaller than this, matrices are made anew at each step.
DOUBTFUL = 1e-8
# Coefficients that moved further than this, in log-odds, were on their way to infinity until rounding stopped them.
FAR = 16.0
# Entries of the arrays of a block of problems.
ENTRIES = 1 << 22


@dataclass(frozen=True, eq=False)
class Reweighted:
    """Coefficients of a likelihood where cells weigh and score otherwise, by Newton's method from those of all rows."""

    outcomes: Outcomes
    coefficients: FloatArray
    # Weight of each cell for each value of its rows, (n_values,).
    weight: FloatArray
    # Mean of the values less what the coefficients of all rows expect.
    residual: FloatArray

    def __call__(self, block: Block) -> FloatArray:
        """Coefficients without each cluster less those of all, shape (n_clusters, p); NaN where there are none."""
        totals, gram = compressed(block.totals), compressed(block.gram)
        found = np.concatenate(
            [
                solved_nearby(self._all_rows, totals[part], gram[part], gone=CONVERGED, singular=DOUBTFUL)
                for part in self._parts(totals.shape[0], self.weight.size)
            ]
        )
        others = np.flatnonzero(np.isnan(found[:, 0]))
        for part in self._parts(others.size):
            some = others[part]
            left = self.weight - dense(gram[some])
            left[left <= CONVERGED * self.weight] = 0.0
            found[some] = self._solve((self.weight * self.residual - dense(totals[some])).T, left.T)
        return found - self.coefficients

    @cached_property
    def _all_rows(self) -> AllRows:
        return AllRows.of(self.outcomes, self.coefficients, self.weight, self.residual)

    def resolve(self, moved: FloatArray, weight: FloatArray) -> FloatArray:
        """Coefficients where cells have these mean residuals and weights, both (n_values, m): shape (m, p)."""
        parts = self._parts(weight.shape[1])
        return np.concatenate([self._solve(moved[:, part] * weight[:, part], weight[:, part]) for part in parts])

    def shares(self, of: FloatArray, weight: FloatArray) -> FloatArray | None:
        """None: a likelihood is no linear map of the means."""
        return None

    def _parts(self, n: int, n_entries: int | None = None) -> list[slice]:
        """Some of n problems at a time, of so many entries each; by default as many as one has in all."""
        size = max(ENTRIES // (n_entries or max(self.coefficients.size**2, self.weight.size)), 1)
        return [slice(first, first + size) for first in range(0, max(n, 1), size)]

    def _solve(self, top: FloatArray, weight: FloatArray) -> FloatArray:
        """Coefficients for sums of residuals and weights, both (n_values, m); NaN where no finite ones are the best.

        Shape (m, p).
        """
        outcomes, rows = self.outcomes, transposed(compressed(self.outcomes.design))
        expected = outcomes.fitted(self.coefficients[None, :])[0]
        beta = np.tile(self.coefficients, (weight.shape[1], 1))
        found = np.full(beta.shape, np.nan)
        active = np.arange(len(beta))
        for _ in range(MOST_STEPS):
            if not active.size:
                break
            at = beta[active]
            fitted = outcomes.fitted(at)
            gradient = np.asarray(rows @ (top - weight * (fitted.T - expected[:, None]))).T
            information = outcomes.information(at, weight.T)
            step = np.linalg.solve(_regular(information), gradient[:, :, None])[:, :, 0]
            reach = np.max(np.abs(np.where(weight > 0, outcomes.design @ step.T, 0.0)), axis=0)
            beta[active] = at + step * np.minimum(1.0, LONGEST / np.maximum(reach, LONGEST))[:, None]
            settled = reach < CONVERGED * (1 + np.max(np.abs(at), axis=1))
            if not settled.any():
                continue
            done = active[settled]
            finite = np.all(np.abs(beta[done] - self.coefficients) < FAR, axis=1)
            found[done] = np.where((finite & _determined(information[settled]))[:, None], beta[done], np.nan)
            active, top, weight = active[~settled], top[:, ~settled], weight[:, ~settled]
        return found


def _regular(information: FloatArray) -> FloatArray:
    """Information with a trace of a ridge, so that a coordinate of which nothing is left stays where it is."""
    regular = information.copy()
    diagonal = np.einsum("mii->mi", regular)
    diagonal += np.where(diagonal > 0, SINGULAR * diagonal, 1.0)
    return regular


def _determined(information: FloatArray) -> BoolArray:
    """Whether all coordinates are determined, shape (m,)."""
    scale = np.sqrt(np.maximum(np.einsum("mii->mi", information), 0.0))
    unit = np.where(scale > 0, scale, 1.0)
    scaled = information / unit[:, :, None] / unit[:, None, :]
    if np.all(scale > 0) and _far_from_singular(scaled):
        return np.ones(len(scaled), dtype=bool)
    values = np.linalg.eigvalsh(scaled)
    return np.asarray(np.all(scale > 0, axis=1) & (values[:, 0] > SINGULAR * values[:, -1]))


def _far_from_singular(scaled: FloatArray) -> bool:
    """Whether all of some matrices whose diagonals are 1 have no eigenvalue as small as ten times `SINGULAR` times p.

    No eigenvalue is larger than p, and a root takes a tenth of the time of eigenvalues.
    """
    p = scaled.shape[1]
    lower = scaled.copy()
    np.einsum("mii->mi", lower)[...] -= 10 * SINGULAR * p
    try:
        np.linalg.cholesky(lower)
    except np.linalg.LinAlgError:
        return False
    return True
