"""Draws of the largest of many correlated statistics that are aimed at where it is large."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from evalreg.checks import FloatArray, IntArray
from evalreg.inference.largest import LargestStatistic, binned
from evalreg.numerics.student import t_pvalues, t_quantile


class Target(Protocol):
    """Statistics that are linear in normals, and have a variance of 1 each."""

    @property
    def n_targets(self) -> int:
        """Their number."""

    def toward(self, which: IntArray) -> FloatArray:
        """Directions of length 1 in which some of them are largest, shape (n_which, rank)."""

    def beyond(self, directions: FloatArray, least: float) -> tuple[FloatArray, IntArray]:
        """Largest absolute statistic in each direction, and how many are more than `least`: (n_directions,) each."""


def aimed_draws(
    target: Target, rank: int, least: float, n: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Directions in which some statistic is more than `least`: the largest in each, and the weight of each.

    A direction is drawn given that a statistic, which is chosen by chance, is more than `least`. One in which n
    statistics are has been drawn n times too often, and weighs 1/n. The mean weight is the probability of such a
    direction. Naiman and Priebe (2001), Journal of Computational and Graphical Statistics 10, 296-328; Adler, Blanchet
    and Liu (2012), Annals of Applied Probability 22, 1167-1214.
    """
    dof = np.array([rank - 1.0])
    ahead = target.toward(rng.integers(target.n_targets, size=n))
    # A direction's cosine with another is as t, over the root of its square and these degrees of freedom.
    one = t_pvalues(least * np.sqrt(dof / (1 - least**2)), dof)
    t = t_quantile(one * (1 - rng.random(n)), dof)[:, None]
    aside = rng.standard_normal((n, rank))
    aside -= np.einsum("ij,ij->i", aside, ahead)[:, None] * ahead
    aside *= np.sqrt(dof / np.einsum("ij,ij->i", aside, aside))[:, None]
    extent, n_beyond = target.beyond((t * ahead + aside) / np.sqrt(t**2 + dof), least)
    # The one that was chosen is among them, whatever its rounding.
    return extent, target.n_targets * one / np.maximum(n_beyond, 1)


def aimed_largest(
    plain: FloatArray, aimed: tuple[FloatArray, FloatArray], least: float, *, rank: int, dof: float, count: int
) -> LargestStatistic:
    """The distribution that plain draws tell up to `least`, and those aimed there beyond it.

    Shapes: plain (n_plain,), aimed two of (n_aimed,).
    """
    extent, weight = aimed[0], aimed[1] / aimed[1].size
    near = plain[plain <= least]
    usual, far = binned(near, np.full(near.size, (1 - weight.sum()) / near.size)), binned(extent, weight)
    extents, weights, squares = np.concatenate([usual, far], axis=1)
    n_draws, bins = plain.size + extent.size, far.shape[1]
    return LargestStatistic(extents, weights, squares, rank, dof, n_draws, count, extent.size, bins)
