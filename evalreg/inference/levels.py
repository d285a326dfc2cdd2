"""The level at which each of many contrasts is judged, so that all statements together hold at theirs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evalreg.checks import BoolArray, FloatArray, frozen
from evalreg.inference.multiplicity import BLOCK, LargestStatistic, block_stream
from evalreg.numerics.student import t_pvalues, t_quantile

# With so many degrees of freedom the studentized maximum is taken to be that of normals.
LIKE_NORMAL = 50
# Work of one draw, in statistics, up to which all draws are made; beyond it fewer do.
MOST_DRAWS, FEWEST_DRAWS, WORK = 8192, 2048, 1.2e8


class Level(Protocol):
    """A joint level and the p-values adjusted to it: p_adjusted <= alpha where p <= level(alpha)."""

    @property
    def dof(self) -> float:
        """Degrees of freedom of the t whose quantile `critical` is."""

    @property
    def n_draws(self) -> int:
        """Draws that it rests on; 0 where it is exact."""

    def level(self, alpha: float) -> float:
        """Level of each contrast, at most alpha."""

    def adjusted(self, p: FloatArray) -> FloatArray:
        """Adjusted p-values, NaN where p is."""

    def error(self, alpha: float) -> float:
        """Standard error of `critical(alpha)` from the simulation."""


def critical(level: Level, alpha: float) -> float:
    """Critical value of t with `level.dof` at the joint level."""
    return float(t_quantile(level.level(alpha), np.array([level.dof]))[0])


@dataclass(frozen=True, eq=False)
class LargestLevel:
    """From the largest of normals, or of t statistics that share one scale."""

    largest: LargestStatistic  # its distribution

    @property
    def dof(self) -> float:
        """Degrees of freedom of the shared scale; inf for normals."""
        return self.largest.dof

    @property
    def n_draws(self) -> int:
        """Directions drawn."""
        return self.largest.n_draws

    def level(self, alpha: float) -> float:
        """P-value of one contrast at the critical value of the largest."""
        return float(t_pvalues(np.array([self.largest.quantile(alpha)]), np.array([self.dof]))[0])

    def adjusted(self, p: FloatArray) -> FloatArray:
        """P(largest >= the quantile of t at p)."""
        return self.largest.tail(t_quantile(np.asarray(p), np.full(np.shape(p), self.dof)))

    def error(self, alpha: float) -> float:
        """Standard error of the critical value."""
        return self.largest.quantile_error(alpha)


@dataclass(frozen=True, eq=False)
class CountedLevel:
    """From the number of contrasts (Bonferroni) and, where given, draws of the largest studentized statistic."""

    count: int  # contrasts in the family
    dof: float  # degrees of freedom of the t that draws are compared with
    draws: FloatArray | None = None  # (n_draws,): largest statistics, in rising order

    def __post_init__(self) -> None:
        if self.draws is not None:
            object.__setattr__(self, "draws", frozen(self.draws))

    @property
    def n_draws(self) -> int:
        """Draws of the largest statistic."""
        return 0 if self.draws is None else self.draws.size

    def level(self, alpha: float) -> float:
        """The larger of alpha/m and the p-value at the drawn quantile, but no more than alpha."""
        counted = alpha / self.count
        beyond = int(np.floor(alpha * (self.n_draws + 1) * (1 + 1e-12))) - 1
        if self.draws is None or beyond < 0:
            return counted
        at = self.draws[self.n_draws - 1 - beyond]
        # By chance the draws of hardly more than one contrast may ask for less than the contrast by itself.
        return min(max(counted, float(t_pvalues(np.array([at]), np.array([self.dof]))[0])), alpha)

    def adjusted(self, p: FloatArray) -> FloatArray:
        """The smaller of m p and the share of draws as far out, the data's own among them."""
        p = np.asarray(p, dtype=np.float64)
        adjusted = np.minimum(self.count * p, 1.0)
        if self.draws is not None:
            t = t_quantile(p, np.full(p.shape, self.dof))
            beyond = self.n_draws - np.searchsorted(self.draws, np.nan_to_num(t), side="left")
            adjusted = np.where(np.isnan(p), np.nan, np.minimum(adjusted, (1 + beyond) / (1 + self.n_draws)))
        return np.maximum(adjusted, p)

    def error(self, alpha: float) -> float:
        """Standard error of the drawn quantile, from the spread of its neighbours; 0 where counting decides."""
        if self.draws is None or self.level(alpha) <= alpha / self.count:
            return 0.0
        spread = np.sqrt(alpha * (1 - alpha) / self.n_draws)
        low, high = np.quantile(self.draws, [max(1 - alpha - spread, 0.0), min(1 - alpha + spread, 1.0)])
        return float((high - low) / 2)


def studentized_draws(
    factor: FloatArray,
    weight: FloatArray,
    dof: int,
    *,
    pairs: bool,
    base: int,
    n_draws: int | None = None,
    by_model: bool = False,
) -> FloatArray:
    """Largest statistics |Z_c| / sqrt(sum_i G_ic^2 / dof), each contrast with a denominator of its own.

    Z and the `dof` vectors G_i are normal with the correlation of the contrasts: the estimates, and what their
    variances are learnt from.

    Shapes: factor (m, rank), weight (m,); returns (n_draws,).
    """
    inside = weight > 0
    if n_draws is None:
        work = float(np.count_nonzero(inside)) * dof
        n_draws = int(np.clip(WORK / max(work, 1.0), FEWEST_DRAWS, MOST_DRAWS))
    found = []
    for block in range(-(-n_draws // BLOCK)):
        rng = block_stream(base, block)
        normals = rng.standard_normal((dof + 1, factor.shape[1], BLOCK))
        values = np.matmul(factor, normals)
        each = _pairs(values, inside, dof) if pairs else _single(values, inside, dof)
        found.append(each.T if by_model else each.max(axis=0))
    return np.sort(np.sqrt(np.concatenate(found)), axis=0)


def _single(values: FloatArray, inside: BoolArray, dof: int) -> FloatArray:
    """Largest squared statistic of contrasts, shape (1, n_draws), from normals of shape (1 + dof, m, n_draws)."""
    kept = values[:, inside]
    below = np.einsum("imd,imd->md", kept[1:], kept[1:]) / dof
    return np.asarray(np.max(kept[0] ** 2 / below, axis=0, keepdims=True))


def _pairs(values: FloatArray, inside: BoolArray, dof: int) -> FloatArray:
    """The same of the differences with each model, shape (n_models, n_draws); one model at a time in memory."""
    n, start = values.shape[1], 0
    result = np.zeros(values.shape[1:])
    for a in range(n - 1):
        others = np.flatnonzero(inside[start : start + n - 1 - a]) + a + 1
        start += n - 1 - a
        if others.size:
            # Of all others the values are next to each other, and need no copy.
            rest = values[:, a + 1 :] if others.size == n - 1 - a else values[:, others]
            gaps = rest - values[:, a : a + 1]
            gaps *= gaps
            below = gaps[1:].sum(axis=0)
            squares = gaps[0] / below * dof
            result[a] = np.maximum(result[a], squares.max(axis=0))
            result[others] = np.maximum(result[others], squares)
    return result
