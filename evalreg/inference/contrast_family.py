"""Contrasts judged together, and their draws from a joint distribution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.covariance.widths import Widths
from evalreg.inference.apart import PairWeights, largest_of_pairs, pair_weights, pairs_beyond
from evalreg.inference.levels import CountedLevel, LargestLevel, Level, studentized_draws
from evalreg.inference.multiplicity import (
    adjust_pvalues,
    beyond,
    furthest,
    simulate_largest,
    stepdown_pvalues,
)
from evalreg.inference.rough_widths import RoughWidths, Rule
from evalreg.numerics.matrices import Matrix
from evalreg.numerics.student import t_quantile

T = TypeVar("T")

# Step-down counts plain draws, of which it takes more than where some are aimed at one critical value.
STEPDOWN_DRAWS = 1 << 15

# So many draws times statistics at a time as stay in a cache of the processor.
AT_ONCE = 1 << 17


@dataclass(frozen=True, eq=False)
class ContrastFamily:
    """Contrasts judged together, with what it takes to draw them from their joint distribution."""

    params: pd.Series[float]  # the parameters, by name
    names: pd.Index[Any]  # of the contrasts; (left, right) for pairs
    matrix: Matrix  # (m, n_params): C, sparse for the pairs of many parameters
    effect: FloatArray  # (m,): contrasts less their values under the null
    inside: BoolArray  # (m,): contrasts in the family
    shared_dof: float  # of the multivariate t; NaN where each contrast has its own and is mapped to the normal
    # of the axis with the fewest, where denominators are few enough to count as chance themselves; NaN otherwise
    few_dof: float
    drawn: bool  # whether the correlation is known well enough to draw from it; otherwise contrasts are counted
    reasons: dict[Any, str]  # why a contrast is outside the family, by name
    held: Widths | RoughWidths  # half-widths and p-values of the contrasts one by one, NaN outside the family
    # (m, rank): maps independent normals to the contrasts; for pairs to the parameters whose differences they are
    factor: FloatArray
    weight: FloatArray  # (m,): one over the standard deviation of what is drawn; zero outside the family
    pairs: bool  # whether the contrasts are all pairs

    @cached_property
    def widths(self) -> Widths:
        """The exact ones of all."""
        return self.held if isinstance(self.held, Widths) else self.held.exact(np.arange(self.effect.size))

    @property
    def se(self) -> FloatArray:
        """Standard errors, shape (m,), NaN outside the family."""
        return np.sqrt(self.widths.variance)

    @property
    def few(self) -> bool:
        """Whether denominators are drawn or contrasts counted."""
        return not np.isnan(self.few_dof)

    @property
    def draw_dof(self) -> float:
        """Degrees of freedom of the statistics that are drawn together."""
        return float("inf") if np.isnan(self.shared_dof) else self.shared_dof

    @cached_property
    def p_value(self) -> FloatArray:
        """Of each contrast by itself, shape (m,)."""
        return self.widths.pvalues(self.effect)

    def decided(self, rule: Rule) -> BoolArray:
        """Which contrasts a rule decides by their p-values, shape (m,)."""
        return rule(self.p_value) if self._rough is None else self._rough.decided(rule)

    def largest_p(self, which: BoolArray) -> float:
        """The largest p-value of some contrasts; 0 of none."""
        if self._rough is None:
            return float(np.max(self.p_value[which], initial=0.0))
        return self._rough.largest(which)

    @property
    def _rough(self) -> RoughWidths | None:
        """Bounds of the widths, where exact p-values are not known yet."""
        return None if isinstance(self.held, Widths) or "p_value" in self.__dict__ else self.held

    @property
    def statistic(self) -> FloatArray:
        """Size of the t, or of the normal, that has the p-value of each contrast."""
        return t_quantile(self.p_value, np.full(self.effect.size, self.draw_dof))

    def of_pairs(self, values: FloatArray, rows: IntArray) -> FloatArray:
        """Absolute statistics of the contrasts in `rows`, from factor @ normals: shape (n_rows, n_draws)."""
        if not self.pairs:
            return np.abs(values[rows]) * self.weight[rows, None]
        left, right = pair_positions(self.params.size)
        return np.abs(values[left[rows]] - values[right[rows]]) * self.weight[rows, None]

    def largest(self, normals: FloatArray) -> FloatArray:
        """Largest absolute statistic in each draw, shape (n_draws, 1)."""
        if self.pairs:
            factor, weights = self._in_bands
            parts = np.array_split(normals, normals.shape[0] * len(factor) // weights.at_once + 1)
            return np.concatenate([largest_of_pairs(part @ factor.T, weights) for part in parts])[:, None]
        parts = np.array_split(normals, normals.shape[0] * len(self.factor) // AT_ONCE + 1)
        return np.concatenate([furthest(part, *self._weighted) for part in parts])[:, None]

    @property
    def n_targets(self) -> int:
        """Contrasts that are drawn."""
        return self._drawn.size

    @cached_property
    def _drawn(self) -> IntArray:
        return np.flatnonzero(self.weight > 0)

    def toward(self, which: IntArray) -> FloatArray:
        """Directions of length 1 in which some of the contrasts that are drawn are largest, shape (n_which, rank)."""
        rows = self._drawn[which]
        if self.pairs:
            left, right = (side[rows] for side in pair_positions(self.params.size))
            ahead = self.factor[left] - self.factor[right]
        else:
            ahead = self.factor[rows]
        return np.asarray(ahead / np.sqrt(np.einsum("ij,ij->i", ahead, ahead))[:, None])

    def beyond(self, directions: FloatArray, least: float) -> tuple[FloatArray, IntArray]:
        """Largest absolute statistic in each direction, and how many are more than `least`: (n_directions,) each."""
        if self.pairs:
            factor, weights = self._in_bands
            parts = np.array_split(directions, len(directions) * len(factor) // weights.at_once + 1)
            found = [pairs_beyond(part @ factor.T, weights, least) for part in parts]
        else:
            parts = np.array_split(directions, len(directions) * len(self.factor) // AT_ONCE + 1)
            found = [beyond(part, self._weighted[1], least) for part in parts]
        largest, number = zip(*found, strict=True)
        return np.concatenate(largest), np.concatenate(number)

    @cached_property
    def _weighted(self) -> tuple[FloatArray, npt.NDArray[np.float32]]:
        """Maps independent normals to the statistics; the same with half the digits."""
        whole = self.factor * self.weight[:, None]
        return whole, whole.astype(np.float32)

    @cached_property
    def _in_bands(self) -> tuple[FloatArray, PairWeights]:
        """Maps independent normals to the models, in the order of the weights; the weights of pairs."""
        weights = pair_weights(square_of_pairs(self.weight, self.params.size))
        return np.ascontiguousarray(self.factor[weights.order]), weights

    def joint(self, alpha: float, base: int) -> Level:
        """The level of each contrast at which all hold together, and the p-values that go with it."""
        return self.once("joint", (alpha, base), lambda: self._joint(alpha, base))

    def once(self, name: str, how: tuple[float, int], make: Callable[[], T]) -> T:
        """What `make` returns, kept until it is asked for by other arguments."""
        held = self._kept.get(name)
        if held is None or held[0] != how:
            held = self._kept[name] = (how, make())
        return cast("T", held[1])

    @cached_property
    def _kept(self) -> dict[str, tuple[tuple[float, int], Any]]:
        return {}

    def _joint(self, alpha: float, base: int) -> Level:
        count = int(self.inside.sum())
        if not self.few:
            found = simulate_largest(
                self.largest,
                self.factor.shape[1],
                count,
                alpha=alpha,
                dof=self.draw_dof,
                base=base,
                target=self,
            )
            return LargestLevel(found[0])
        return CountedLevel(count, self.few_dof, self.studentized(base) if self.drawn else None)

    def studentized(self, base: int, *, by_model: bool = False) -> FloatArray:
        """Draws of the largest studentized statistic, of all contrasts or of those of each model."""
        whole = max(int(self.few_dof), 1)
        return studentized_draws(self.factor, self.weight, whole, pairs=self.pairs, base=base, by_model=by_model)

    def counted(self, level: Level) -> FloatArray:
        """P-values by Holm, or by the joint level where that gives less, shape (m,)."""
        return counted(self.p_value, level)

    def stepdown(self, base: int, level: Level) -> FloatArray:
        """P-values by step-down, shape (m,): free, or Holm's where contrasts are counted; NaN outside the family."""
        rows, p = np.flatnonzero(self.inside), np.full(self.effect.size, np.nan)
        if self.few:
            return self.counted(level)
        p[rows] = stepdown_pvalues(
            lambda values, places: self.of_pairs(values, rows[places]),
            self.statistic[rows],
            self.factor,
            dof=self.draw_dof,
            base=base,
            n_draws=max(level.n_draws, STEPDOWN_DRAWS),
        )
        return p


def counted(p: FloatArray, level: Level) -> FloatArray:
    """P-values adjusted by Holm, or by the joint level where that gives less, shape (m,)."""
    # A true null is rejected only below alpha over their number, or below the joint level: the larger holds alone.
    return np.fmin(adjust_pvalues(p, "holm"), level.adjusted(p))


def pair_positions(n: int) -> tuple[IntArray, IntArray]:
    """Positions of the left and right of all pairs, left before right."""
    return np.triu_indices(n, 1)


def square_of_pairs(values: FloatArray, n: int) -> FloatArray:
    """Values of all pairs as a symmetric matrix with a zero diagonal, shape (n, n)."""
    square = np.zeros((n, n))
    square[pair_positions(n)] = values
    return square + square.T
