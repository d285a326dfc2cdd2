"""Assignments of a treatment to clusters within strata, and the effect and its variance under each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb, prod
from typing import Literal, TypeAlias, get_args

import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.inference.multiplicity import block_stream
from evalreg.numerics.progress import Progress
from evalreg.resampling.draws import BLOCK, MOST_ENTRIES
from evalreg.resampling.inversion import Drawn

StatisticName: TypeAlias = Literal["t", "difference"]
STATISTICS: tuple[StatisticName, ...] = get_args(StatisticName)

# Sums of squares this far below the largest are rounding: the assignment of the data, and its mirror image.
ROUNDING = 1e-18


@dataclass(frozen=True, eq=False)
class Allocation:
    """Who was treated, clusters sorted by stratum; what is random is which clusters of a stratum are."""

    treated: BoolArray  # (n_clusters,)
    stratum: IntArray  # (n_clusters,): from 0, in order
    n_rows: FloatArray  # (n_clusters,): rows of each cluster

    @cached_property
    def starts(self) -> IntArray:
        """First cluster of each stratum."""
        return np.flatnonzero(np.diff(self.stratum, prepend=-1))

    @cached_property
    def n_clusters(self) -> IntArray:
        """Clusters of each stratum."""
        return np.bincount(self.stratum)

    @cached_property
    def n_treated(self) -> IntArray:
        """Treated clusters of each stratum."""
        return np.bincount(self.stratum, weights=self.treated).astype(np.intp)

    @cached_property
    def small(self) -> BoolArray:
        """Strata with both arms and one cluster in some arm."""
        least = np.minimum(self.n_treated, self.n_clusters - self.n_treated)
        return np.asarray(least == 1)

    @property
    def n_assignments(self) -> int:
        """How many assignments treat as many clusters in each stratum."""
        return prod(comb(int(n), int(k)) for n, k in zip(self.n_clusters, self.n_treated, strict=True))

    @property
    def mirrored(self) -> bool:
        """Whether treated and untreated may change places, so that |t| comes in pairs."""
        return bool(np.all(2 * self.n_treated == self.n_clusters))

    def enumerated(self) -> Iterator[BoolArray]:
        """All assignments, some at a time."""
        tables = [_choices(int(n), int(k)) for n, k in zip(self.n_clusters, self.n_treated, strict=True)]
        sizes = [len(table) for table in tables]
        step = max(1, MOST_ENTRIES // self.treated.size)
        for first in range(0, self.n_assignments, step):
            numbers = np.arange(first, min(first + step, self.n_assignments))
            digits = np.unravel_index(numbers, sizes)
            yield np.hstack([table[digit] for table, digit in zip(tables, digits, strict=True)])

    def drawn(self, draws: int, base: int) -> Iterator[BoolArray]:
        """Random assignments, some at a time; each block of draws has a stream of its own."""
        G = self.treated.size
        place = np.arange(G) - np.repeat(self.starts, self.n_clusters)
        chosen = place < np.repeat(self.n_treated, self.n_clusters)
        for block, first in enumerate(range(0, draws, BLOCK)):
            n, rng = min(BLOCK, draws - first), block_stream(base, block)
            # Sorted by stratum and a random number within it: its first places are treated.
            order = np.argsort(self.stratum + rng.random((n, G)), axis=1)
            found = np.zeros((n, G), dtype=bool)
            np.put_along_axis(found, order[:, chosen], True, axis=1)
            yield found


def _choices(n: int, k: int) -> BoolArray:
    """All ways to treat k of n clusters, one a row."""
    places = np.array(list(combinations(range(n), k)), dtype=np.intp).reshape(comb(n, k), k)
    found = np.zeros((len(places), n), dtype=bool)
    np.put_along_axis(found, places, True, axis=1)
    return found


@dataclass(frozen=True, eq=False)
class Effect:
    """The effect in the data, and what it would be under the other assignments."""

    estimate: float
    variance: float  # by clusters; of the data
    drawn: Drawn  # polynomials in estimate - hypothesised effect, one for each assignment


def effects(design: Allocation, totals: FloatArray, assignments: Iterator[BoolArray], progress: Progress) -> Effect:
    """The difference of treated and untreated rows within strata, and its variance by clusters, under each assignment.

    Under an effect of the same size in all rows, what a cluster's total would have been without the treatment is known;
    under each assignment the effect, and each share of its error, is linear in that size. Shapes: totals (n_clusters,).
    """
    own = design.treated[None, :]
    at = _effect(design, totals, own)[0][0]
    moved = design.n_rows * design.treated
    rest = totals - at * moved
    variance = float(_squares(design, own, _effect(design, rest, own)[1])[0])
    numerators, squares = [], []
    for D in assignments:
        (a, s), (b, m) = _effect(design, rest, D), _effect(design, moved, D)
        numerators.append(np.array([a, b]))
        squares.append(np.array([_squares(design, D, s), _squares(design, D, s, m), _squares(design, D, m)]))
        progress.advance(len(D))
    found = np.hstack(squares)
    for power in (0, 2):
        tiny = found[power] <= ROUNDING * np.max(found[power])
        found[power, tiny], found[1, tiny] = 0.0, 0.0
    # Of scores that do not vary within an arm nothing but rounding is left.
    level = np.sum(np.abs(totals)) / np.sum(design.n_rows)
    return Effect(
        float(at), 0.0 if variance <= ROUNDING * level**2 else variance, Drawn(np.hstack(numerators), found[None])
    )


def _effect(design: Allocation, totals: FloatArray, treated: BoolArray) -> tuple[FloatArray, FloatArray]:
    """The effect, shape (n,), and the shares of its error, of clusters and then of small strata, shape (n, G + S).

    Least squares with an effect of each stratum, which is averaged with weight n_s p_s (1 - p_s), p_s the share of its
    n_s rows that is treated: sum(x y)/sum(x^2), x the treatment less p_s.
    """
    n, spread = design.n_rows, design.stratum
    size = np.add.reduceat(n, design.starts)
    centred = totals - n * (np.add.reduceat(totals, design.starts) / size)[spread]
    x = treated - (np.add.reduceat(treated * n, design.starts, axis=1) / size)[:, spread]
    product = np.add.reduceat(x * centred, design.starts, axis=1)
    square = np.add.reduceat(x**2 * n, design.starts, axis=1)
    whole = square.sum(axis=1)
    effect = product.sum(axis=1) / whole
    of_stratum = np.divide(product, square, out=np.zeros_like(square), where=square > 0)
    clusters = x * (centred - n * of_stratum[:, spread] * x) * ~design.small[spread]
    strata = (product - effect[:, None] * square) * design.small
    return effect, np.hstack([clusters, strata]) / whole[:, None]


def _squares(
    design: Allocation, treated: BoolArray, shares: FloatArray, others: FloatArray | None = None
) -> FloatArray:
    """Sums of products of shares, each with its factor; shape (n,).

    In a stratum with two clusters or more in both arms the factor is G/(G - 1) of its arm (Imbens and Rubin 2015,
    section 9.5). Clusters of pairs and other small strata say nothing alone: their strata are compared with each other
    (section 10.5).
    """
    one, zero = (_factor(count)[design.stratum] for count in (design.n_treated, design.n_clusters - design.n_treated))
    product = shares * (shares if others is None else others)
    G = treated.shape[1]
    of_strata = product[:, G:].sum(axis=1) * _factor(np.array([max(2, int(design.small.sum()))]))
    return np.asarray(np.sum(np.where(treated, one, zero) * product[:, :G], axis=1) + of_strata)


def _factor(count: IntArray) -> FloatArray:
    return count / np.maximum(count - 1, 1)
