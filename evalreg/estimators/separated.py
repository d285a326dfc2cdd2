"""Ratings of draws in which some models never win, or never lose, against the rest: infinite ones at their side."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.estimators.reweighted import CONVERGED, Reweighted
from evalreg.numerics.graphs import reachable, strong_components
from evalreg.numerics.matrices import Matrix, dense

# Coefficients of a contrast this small are none.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Separated:
    """What a board's parameters tend to where its likelihood has no finite best.

    Models fall into tiers: within one, chains of wins lead both ways, and differences are finite (Ford 1957). A tier
    that only wins against another stands infinitely far above it; of tiers that did not meet, nothing is known.
    """

    # The likelihood, and its coefficients for all rows.
    again: Reweighted
    # The two models of each cell.
    first: IntArray
    second: IntArray
    models: tuple[str, ...]
    # The board's parameters as contrasts of the p coefficients, ratings first, (n_models + n_others, p).
    contrasts: FloatArray
    # Model whose rating is zero; None where ratings are centred.
    reference: int | None
    # A log-odds in the units of each parameter of the board, (n_models + n_others,).
    units: FloatArray
    # Parameters as contrasts of the board's, (n_params, n_models + n_others); None where they are the same.
    of_board: FloatArray | None = None

    @property
    def rated(self) -> tuple[str, ...]:
        """Models whose ratings are among the parameters as they are."""
        return self.models if self.of_board is None else ()

    @property
    def zero(self) -> str | None:
        """Model whose rating is zero."""
        return None if self.reference is None else self.models[self.reference]

    def map(self, C: Matrix) -> Separated:
        """The same for contrasts of the parameters."""
        return replace(self, of_board=dense(C) if self.of_board is None else dense(C @ self.of_board))

    def __call__(self, moved: FloatArray, weight: FloatArray) -> FloatArray:
        """Parameters for mean residuals and weights of cells, both (n_values, m): shape (m, n_params)."""
        fitted = self.again.outcomes.fitted(self.again.coefficients[None, :])[0]
        score = (fitted[:, None] + moved)[: self.first.size]
        draws = zip(score.T, moved.T, weight.T, strict=True)
        return np.asarray([self._of_draw(*draw) for draw in draws], dtype=np.float64)

    def _of_draw(self, score: FloatArray, moved: FloatArray, weight: FloatArray) -> FloatArray:
        K, drawn = len(self.models), weight[: self.first.size] > 0
        tier, above = tiers_of(self.first[drawn], self.second[drawn], score[drawn], K)
        strength, others = self._within(tier, moved, weight)
        rows = np.eye(self.contrasts.shape[0]) if self.of_board is None else self.of_board
        total = rows[:, :K].sum(axis=1)
        total[np.abs(total) < ROUNDING] = 0.0
        C = rows[:, :K] - total[:, None] * self._zero(tier)
        finite = self.units[0] * (C @ strength) + rows[:, K:] @ (self.contrasts[K:, K - 1 :] @ others)
        return np.asarray(finite + _sides(C @ np.eye(above.shape[0])[tier], above))

    def _zero(self, tier: IntArray) -> FloatArray:
        """Weights of the models from whose mean ratings are measured: of the tier that holds most of them, else all."""
        if self.reference is not None:
            return np.asarray(np.eye(tier.size)[self.reference])
        size = np.bincount(tier)
        held = tier == np.argmax(size) if 2 * size.max() > tier.size else np.ones(tier.size, dtype=bool)
        return np.asarray(held / held.sum())

    def _within(self, tier: IntArray, moved: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Strengths less that of the first model of their tier, and other coefficients, from comparisons in tiers."""
        again, K = self.again, tier.size
        pinned = np.unique(tier, return_index=True)[1]
        found = np.append(0.0, again.coefficients)
        found[:K] -= found[pinned][tier]
        kept = np.setdiff1d(np.arange(found.size), pinned)
        if kept.size:
            inside = np.resize(tier[self.first] == tier[self.second], weight.size)
            part = replace(again, outcomes=again.outcomes.only(kept - 1), coefficients=found[kept])
            # NaN still where verdicts of the draw decide a covariate, or none is a tie.
            found[kept] = part.resolve(moved[:, None], (weight * inside)[:, None])[0]
        return found[:K], found[K:]


def tiers_of(first: IntArray, second: IntArray, score: FloatArray, n_models: int) -> tuple[IntArray, BoolArray]:
    """Tier of each model, and whether a tier only wins, itself or through others, against another.

    Shapes: first, second, score (n_cells,) of the first model; returns (n_models,), (n_tiers, n_tiers).
    """
    wins, losses = score > CONVERGED, score < 1 - CONVERGED
    winner = np.concatenate([first[wins], second[losses]])
    loser = np.concatenate([second[wins], first[losses]])
    reaches = reachable(winner, loser, n_models)
    # A tier stands for its first model.
    pinned, tier = strong_components(reaches)
    above = reaches[np.ix_(pinned, pinned)]
    np.fill_diagonal(above, False)
    return tier, above


def _sides(share: FloatArray, above: BoolArray) -> FloatArray:
    """Side to which contrasts of the tiers' levels tend: 0, infinite, or NaN where the order of tiers does not tell.

    Shapes: share (n_params, n_tiers); returns (n_params,).
    """
    up, down = share > ROUNDING, share < -ROUNDING
    # Pairs of a tier that counts for and one that counts against, and those whose first is the higher, or the lower.
    pairs = up.sum(axis=1) * down.sum(axis=1)
    higher, lower = (np.einsum("pa,ab,pb->p", up, order, down, dtype=float) for order in (above, above.T))
    side = np.where(higher == pairs, np.inf, np.where(lower == pairs, -np.inf, np.nan))
    return np.where(pairs == 0, 0.0, side)
