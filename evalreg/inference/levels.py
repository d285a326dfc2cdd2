"""The level at which each of many contrasts is judged, so that all statements together hold at theirs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evalreg.checks import FloatArray, IntArray, frozen
from evalreg.inference.apart import FEW_MODELS
from evalreg.inference.largest import LargestStatistic
from evalreg.inference.multiplicity import BLOCK, block_stream
from evalreg.numerics.student import t_pvalues, t_quantile

# With so many degrees of freedom the studentized maximum is taken to be that of normals.
LIKE_NORMAL = 50
# Work of one draw, in statistics, up to which all draws are made; beyond it fewer do.
MOST_DRAWS, FEWEST_DRAWS, WORK = 32768, 2048, 1.2e8
# With so few columns of squares, of many models only those near to each other need a look.
FEW_COLUMNS = 3
# Standard deviations of differences that are no further apart than this are taken from products.
ALIKE = 1e4


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
    columns = min(dof, factor.shape[1])
    if n_draws is None:
        work = float(np.count_nonzero(inside)) * columns
        n_draws = int(np.clip(WORK / max(work, 1.0), FEWEST_DRAWS, MOST_DRAWS))
    near = columns <= FEW_COLUMNS and len(factor) >= FEW_MODELS and not by_model and bool(inside.all())
    largest = (_nearest if near else _pairs) if pairs else _single
    found = []
    for block in range(-(-n_draws // BLOCK)):
        each = largest(_learnt(factor, dof, block_stream(base, block)), weight)
        found.append(each.T if by_model else each.max(axis=0))
    return np.sort(np.sqrt(np.concatenate(found) * dof), axis=0)


def _learnt(factor: FloatArray, dof: int, rng: np.random.Generator) -> FloatArray:
    """Normals, and columns whose products sum to those of `dof` more normals: shape (1 + min(dof, rank), m, BLOCK).

    Bartlett's decomposition: independent normals in `dof` columns are a triangle, of normals below a diagonal of chis,
    times a rotation, which products do not see. Anderson (2003), An Introduction to Multivariate Statistical Analysis,
    3rd ed., section 7.2; with fewer columns than rows Srivastava (2003), Annals of Statistics 31, 1537-1560.
    """
    rank = factor.shape[1]
    values = np.empty((1 + min(dof, rank), len(factor), BLOCK))
    np.matmul(factor, rng.standard_normal((rank, BLOCK)), out=values[0])
    for j in range(len(values) - 1):
        column = rng.standard_normal((rank - j, BLOCK))
        column[0] = np.sqrt(rng.chisquare(dof - j, BLOCK))
        np.matmul(factor[:, j:], column, out=values[1 + j])
    return values


def _single(values: FloatArray, weight: FloatArray) -> FloatArray:
    """Largest squared statistic of contrasts but for the dof, shape (1, n_draws), from values of `_learnt`."""
    kept = values if np.all(weight > 0) else values[:, weight > 0]
    below = np.einsum("imd,imd->md", kept[1:], kept[1:])
    return np.asarray(np.max(kept[0] ** 2 / below, axis=0, keepdims=True))


def _pairs(values: FloatArray, weight: FloatArray) -> FloatArray:
    """The same of the differences with each model, shape (n_models, n_draws); one model at a time in memory."""
    n, start, inside = values.shape[1], 0, weight > 0
    # Sums of squares of differences from those of the models, unless a difference could be lost in them.
    near = len(values) <= 1 + FEW_COLUMNS or weight.max() > ALIKE * weight[inside].min()
    own = None if near else np.einsum("imd,imd->md", values[1:], values[1:])
    result = np.zeros(values.shape[1:])
    for a in range(n - 1):
        others = np.flatnonzero(inside[start : start + n - 1 - a]) + a + 1
        start += n - 1 - a
        if others.size:
            # Of all others the values are next to each other, and need no copy.
            rest = slice(a + 1, None) if others.size == n - 1 - a else others
            squares = _squares(values, own, a, rest)
            result[a] = np.maximum(result[a], squares.max(axis=0))
            result[rest] = np.maximum(result[rest], squares)
    return result


def _squares(values: FloatArray, own: FloatArray | None, a: int, rest: slice | IntArray) -> FloatArray:
    """Squared statistics of the differences of model `a` with others, shape (n_others, n_draws)."""
    if own is None:
        gaps = values[:, rest] - values[:, a : a + 1]
        gaps *= gaps
        return np.asarray(gaps[0] / gaps[1:].sum(axis=0))
    below = np.einsum("imd,id->md", values[1:, rest], values[1:, a])
    below *= -2.0
    below += own[rest]
    below += own[a]
    squares: FloatArray = values[0, rest] - values[0, a]
    squares *= squares
    squares /= below
    return squares


def _nearest(values: FloatArray, weight: FloatArray) -> FloatArray:
    """The same of all differences, shape (1, n_draws), for all pairs: neighbours first, then those further apart.

    Models are in the order of the first column of squares. A gap there so wide that even the range of what is divided
    by it gives less than what is held needs no look, and neither do those of models more places apart.
    """
    order = np.argsort(values[1], axis=0, kind="stable")
    values = np.take_along_axis(values, order[None], axis=1)
    result, left = np.zeros((1, values.shape[2])), np.arange(values.shape[2])
    reach = np.ptp(values[0], axis=0) ** 2
    for apart in range(1, values.shape[1]):
        gaps = values[:, apart:] - values[:, :-apart]
        gaps *= gaps
        result[0, left] = np.maximum(result[0, left], (gaps[0] / gaps[1:].sum(axis=0)).max(axis=0))
        going = gaps[1].min(axis=0) * result[0, left] < reach[left]
        # On a line a slope between two is no steeper than the steepest on the way from one to the other.
        if len(values) == 2 or not going.any():
            break
        values, left = values[:, :, going], left[going]
    return result
