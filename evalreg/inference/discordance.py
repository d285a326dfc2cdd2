"""Which of two models wins more questions: an exact test, and one that allows for clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from evalreg.checks import FloatArray
from evalreg.data.clusters import Codes, joint
from evalreg.inference.wald import t_pvalues


@dataclass(frozen=True)
class ClusteredSign:
    """The sign test of questions in clusters."""

    statistic: float  # (wins - losses)^2 over its variance under the null; NaN where there is none
    p_value: float  # two-sided, from t with the smallest number of clusters less one


def clustered_sign_test(signs: FloatArray, axes: Sequence[Codes]) -> ClusteredSign:
    """Test that wins are as likely as losses, where questions of a cluster may go together.

    With every question its own cluster, the statistic is McNemar's (wins - losses)^2/(wins + losses). McNemar (1947),
    Psychometrika 12, 153-157. In clusters, the square of the sum of the clusters' surplus of wins over the sum of their
    squares; crossed, by inclusion and exclusion, not below the largest one-way variance. Shapes: signs (n,).
    """
    n_smallest = min([codes.n_clusters for codes in axes], default=signs.size)
    squares = {dims: _squares(signs, [axes[d] for d in dims]) for dims in subsets_of_axes(len(axes))}
    return sign_test_of_sums(float(signs.sum()), squares or {(0,): _plain(signs)}, n_smallest)


def sign_test_of_sums(surplus: float, squares: Mapping[tuple[int, ...], float], n_smallest: float) -> ClusteredSign:
    """The same of sums: wins less losses, and by axes the squares of that of their clusters, added up."""
    together = sum((-1) ** (len(dims) + 1) * value for dims, value in squares.items())
    variance = max([together, *(value for dims, value in squares.items() if len(dims) == 1)])
    if not variance > 0 or n_smallest < 2:
        return ClusteredSign(float("nan"), float("nan"))
    z = surplus / float(np.sqrt(variance))
    p = t_pvalues(np.array([z]), np.array([n_smallest - 1.0]))
    return ClusteredSign(z**2, float(p[0]))


def subsets_of_axes(n_axes: int) -> list[tuple[int, ...]]:
    """One axis, two, and so on: the terms of inclusion and exclusion."""
    return [dims for size in range(1, n_axes + 1) for dims in combinations(range(n_axes), size)]


def _plain(signs: FloatArray) -> float:
    return float(signs @ signs)


def _squares(signs: FloatArray, parts: list[Codes]) -> float:
    """Sum over clusters of the squared surplus of wins."""
    return _plain(np.bincount(joint(parts).codes, signs).astype(float))
