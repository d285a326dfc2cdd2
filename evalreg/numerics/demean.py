"""Columns less what the levels of factors explain of them: the within transformation, of any number of factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from evalreg.checks import FloatArray, IntArray
from evalreg.errors import ConvergenceError
from evalreg.numerics.matrices import dense

# Up to so many levels beside those of the largest factor, their equations are solved directly.
DIRECT = 600
# Of unit diagonal: eigenvalues below this fraction of the largest are zero, one for each redundant level.
REDUNDANT = 1e-11
# What levels may still explain of a column, as a fraction of its size.
TOLERANCE = 1e-13
MOST_STEPS = 5000
# Entries of the dummies that are held at once.
MOST_ENTRIES = 1e8


@dataclass(frozen=True, eq=False)
class Partition:
    """Levels of one factor: the level of each row, shape (n_rows,), every one of `n_levels` present."""

    codes: IntArray
    n_levels: int


@dataclass(frozen=True, eq=False)
class Within:
    """Projects the levels of factors out of columns; made by `within`."""

    first: Partition  # the factor of most levels, whose means are taken exactly
    weights: FloatArray | None
    total: FloatArray  # (n_levels,): weight of each of its levels
    others: Any = None  # (n_rows, n_other) sparse: dummies of the other factors
    shared: Any = None  # (n_levels, n_other) sparse: weight of each combination of levels
    own: Any = None  # (n_other, n_other) sparse: D'WD of the other factors
    inverse: FloatArray | None = None  # (n_other, n_other): of their equations, where they are few
    n_redundant: int | None = None  # levels that others determine, where that is known exactly

    def __call__(self, columns: FloatArray) -> FloatArray:
        """Columns without what the levels explain, shape (n_rows, m)."""
        columns = np.asarray(columns, dtype=np.float64)
        size = np.sqrt(self._sums_of_squares(columns))
        # The second time takes away what rounding left of large values.
        left = self._once(self._once(columns, size), size)
        return np.ascontiguousarray(left)

    def leverages(self) -> FloatArray | None:
        """Leverage of the levels in each row, shape (n_rows,); None where their equations are not solved directly."""
        weights = np.ones(self.first.codes.size) if self.weights is None else self.weights
        own = weights / self.total[self.first.codes]
        if self.others is None:
            return np.asarray(own)
        if self.inverse is None or self.others.shape[0] * self.others.shape[1] > MOST_ENTRIES:
            return None
        left = dense(self.others) - (dense(self.shared) / self.total[:, None])[self.first.codes]
        return np.asarray(own + weights * np.einsum("ij,ij->i", left @ self.inverse, left))

    def _once(self, columns: FloatArray, size: FloatArray) -> FloatArray:
        left = columns - self._means(columns)[self.first.codes]
        if self.others is None:
            return left
        moments = self.others.T @ (left if self.weights is None else left * self.weights[:, None])
        effects = self.inverse @ moments if self.inverse is not None else self._gradients(moments, size)
        shift = (self.shared @ effects) / self.total[:, None]
        return np.asarray(left - self.others @ effects + shift[self.first.codes])

    def _means(self, columns: FloatArray) -> FloatArray:
        """Means within the levels of the first factor, (n_levels, m)."""
        codes, n_levels, weights = self.first.codes, self.first.n_levels, self.weights
        weighted = (column if weights is None else column * weights for column in np.ascontiguousarray(columns.T))
        sums = [np.bincount(codes, column, n_levels) for column in weighted]
        return np.column_stack(sums) / self.total[:, None] if sums else np.zeros((n_levels, 0))

    def _sums_of_squares(self, columns: FloatArray) -> FloatArray:
        weights = np.ones(columns.shape[0]) if self.weights is None else self.weights
        return np.asarray(np.einsum("i,ij,ij->j", weights, columns, columns))

    def _equations(self, effects: FloatArray) -> FloatArray:
        """S b = (D'WD - C'N^-1 C) b of the other factors, those of the first being solved for."""
        return np.asarray(self.own @ effects - self.shared.T @ ((self.shared @ effects) / self.total[:, None]))

    def _gradients(self, moments: FloatArray, size: FloatArray) -> FloatArray:
        """Effects by conjugate gradients with diagonal scaling, all columns at once; S is singular and consistent."""
        scale = self.own.diagonal()[:, None]
        effects, rest = np.zeros_like(moments), moments.copy()
        turned = rest / scale
        step, energy = turned.copy(), np.sum(rest * turned, axis=0)
        goal = (TOLERANCE * size) ** 2
        for _ in range(MOST_STEPS):
            if np.all(energy <= goal):
                return effects
            along = self._equations(step)
            curve = np.sum(step * along, axis=0)
            far = (energy > goal) & (curve > 0)
            length = np.where(far, energy / np.where(far, curve, 1.0), 0.0)
            effects += length * step
            rest -= length * along
            turned = rest / scale
            before, energy = energy, np.where(far, np.sum(rest * turned, axis=0), 0.0)
            step = turned + np.where(far, energy / np.where(before > 0, before, 1.0), 0.0) * step
        raise ConvergenceError(
            f"the absorbed factors could not be taken out of the columns in {MOST_STEPS} steps: they are nearly the "
            "same partition of the rows, or a long chain of them. Absorb their joint levels instead, as in "
            '"| question:judge", or one factor fewer.'
        )


def within(factors: Sequence[Partition], weights: FloatArray | None = None) -> Within:
    """The projection that takes out of columns what the levels of factors explain (Frisch, Waugh and Lovell).

    Means of the factor of most levels are exact; the equations of the levels of the others are solved directly where
    there are few, otherwise by conjugate gradients until these levels explain less than `TOLERANCE` of a column.
    Correia (2017), "Linear models with high-dimensional fixed effects", section 3, for conjugate gradients on the
    equations of levels.
    """
    ordered = sorted(factors, key=lambda factor: -factor.n_levels)
    first = ordered[0]
    total = np.bincount(first.codes, weights, first.n_levels).astype(np.float64)
    if len(ordered) == 1:
        return Within(first, weights, total, n_redundant=0)
    others = sparse.hstack([_dummies(factor) for factor in ordered[1:]], format="csr")
    weighted = others if weights is None else (sparse.diags_array(weights) @ others).tocsr()
    own = (others.T @ weighted).tocsr()
    shared = (_dummies(first).T @ weighted).tocsr()
    made = Within(first, weights, total, others, shared, own)
    if own.shape[0] > DIRECT:
        return made
    S = dense(own) - dense(shared.T @ (sparse.diags_array(1.0 / total) @ shared))
    inverse, n_redundant = _pseudo_inverse(S, own.diagonal())
    return Within(first, weights, total, others, shared, own, inverse, n_redundant)


def _dummies(factor: Partition) -> Any:
    n = factor.codes.size
    return sparse.csr_array(
        (np.ones(n), factor.codes.astype(np.int32), np.arange(n + 1, dtype=np.int32)), shape=(n, factor.n_levels)
    )


def _pseudo_inverse(S: FloatArray, diagonal: FloatArray) -> tuple[FloatArray, int]:
    """A generalised inverse of a positive semi-definite matrix, and how many of its eigenvalues are zero."""
    unit = np.sqrt(diagonal)
    values, axes = np.linalg.eigh(S / np.outer(unit, unit))
    kept = values > REDUNDANT * S.shape[0]
    turned = axes[:, kept] / unit[:, None]
    return (turned / values[kept]) @ turned.T, int(np.count_nonzero(~kept))


def redundant_levels(factors: Sequence[Partition], made: Within) -> tuple[int, bool]:
    """Levels of factors that the others determine; and whether that is exact, or at least so many.

    Of two factors there are as many as connected components of the graph of levels that meet (Abowd, Creecy and
    Kramarz 2002). Of more, each further factor has at least as many as with any one before it.
    """
    if made.n_redundant is not None:
        return made.n_redundant, True
    count = sum(max(_components(factors[i], factors[j]) for j in range(i)) for i in range(1, len(factors)))
    return count, len(factors) == 2


def _components(first: Partition, second: Partition) -> int:
    n_levels = first.n_levels + second.n_levels
    met = sparse.coo_array(
        (np.ones(first.codes.size, dtype=np.int8), (first.codes, second.codes + first.n_levels)), (n_levels, n_levels)
    )
    count, _ = csgraph.connected_components(met.tocsr(), directed=False)
    return int(count)
