"""Draws for the bootstraps and the randomisation test: random streams, weights of clusters, and p-values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from evalreg.checks import BoolArray, FloatArray
from evalreg.inference.simultaneous import block_stream
from evalreg.numerics.limits import EQUAL, HELD

WildWeightsName: TypeAlias = Literal["auto", "rademacher", "webb", "mammen"]
BootWeightsName: TypeAlias = Literal["multinomial", "bayesian"]

# Draws of a block, which has a random stream of its own: they do not depend on who makes them.
BLOCK, WILD_BLOCK = 128, 256
# The identity stands first, so that it is vector 0 of an enumeration.
RADEMACHER = np.array([1.0, -1.0])
WEBB = np.array([1.0, -1.0, np.sqrt(1.5), -np.sqrt(1.5), np.sqrt(0.5), -np.sqrt(0.5)])
MAMMEN = np.array([(1 + np.sqrt(5)) / 2, (1 - np.sqrt(5)) / 2])
MAMMEN_FIRST = (np.sqrt(5) - 1) / (2 * np.sqrt(5))
WEBB_UP_TO = 12

Result = TypeVar("Result")


def blocks(draws: int, base: int, size: int = BLOCK) -> Iterator[tuple[int, int, np.random.Generator]]:
    """The first draw of each block, its number of draws, and its random stream."""
    for block, first in enumerate(range(0, draws, size)):
        yield first, min(size, draws - first), block_stream(base, block)


def run_blocks(
    draws: int, base: int, work: Callable[[int, int, np.random.Generator], Result], workers: int = 1
) -> list[Result]:
    """What `work` makes of each block of draws, in order; an error is that of the first block that fails."""
    if workers == 1:
        return [work(*block) for block in blocks(draws, base)]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda block: work(*block), blocks(draws, base)))


def seed_text(seed: int | None) -> str:
    """The seed of some draws in words; None where a Generator was given, whose state is not known."""
    return "from a Generator" if seed is None else f"seed {seed}"


def vectors(weights: WildWeightsName, n_clusters: int, most: int) -> int | None:
    """Number of equally likely weight vectors, where there are no more than `most`; None otherwise."""
    points = {"rademacher": RADEMACHER.size, "webb": WEBB.size}.get(weights)
    # Compared by logarithm first, as the power of a large G has more digits than anyone needs.
    if points is None or n_clusters * np.log(points) > np.log(most) + 1e-6:
        return None
    return int(points**n_clusters)


def wild_blocks(
    weights: WildWeightsName, n_clusters: int, draws: int, enumerated: bool, base: int
) -> Iterator[FloatArray]:
    """Weights of clusters for the wild bootstrap, mean 0 and variance 1, block by block.

    Cameron, Gelbach and Miller (2008), REStat 90(3), for Rademacher weights; Webb (2023), Canadian Journal of Economics
    56(3); Mammen (1993), Annals of Statistics 21(1). Shapes: returns (n_draws, n_clusters).
    """
    points = WEBB if weights == "webb" else RADEMACHER
    for first, n, rng in blocks(draws, base, WILD_BLOCK):
        if enumerated:
            # Digits of the vector's number, written with as many digits as there are points.
            places = points.size ** np.arange(n_clusters - 1, -1, -1)
            yield np.asarray(points[(np.arange(first, first + n)[:, None] // places) % points.size])
        else:
            yield _wild(weights, (n, n_clusters), rng)


def _wild(weights: WildWeightsName, shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
    if weights == "rademacher":
        # One random bit a weight.
        octets = rng.integers(0, 256, size=(WILD_BLOCK, -(-shape[1] // 8)), dtype=np.uint8)
        signs = np.unpackbits(octets[: shape[0]], axis=1, count=shape[1]).astype(np.float64)
        signs *= -2.0
        signs += 1.0
        return signs
    if weights == "webb":
        return np.asarray(WEBB[rng.integers(0, WEBB.size, size=(WILD_BLOCK, shape[1]), dtype=np.uint8)[: shape[0]]])
    return np.asarray(np.where(rng.random((WILD_BLOCK, shape[1]))[: shape[0]] < MAMMEN_FIRST, MAMMEN[0], MAMMEN[1]))


def boot_chunks(
    weights: BootWeightsName, n_clusters: Sequence[int], n: int, rng: np.random.Generator
) -> Iterator[list[FloatArray]]:
    """Weights of the clusters of each axis for the cluster bootstrap, some draws at a time.

    Rubin (1981), Annals of Statistics 9(1), for "bayesian". Shapes: returns (n_some, n_clusters).
    """
    # As many rows as do not take much memory: a matter of the clusters alone, so that draws do not depend on `n`.
    rows = min(BLOCK, max(1, HELD // sum(n_clusters)))
    for first in range(0, n, rows):
        drawn = [_boot(weights, (rows, n_axis), rng) for n_axis in n_clusters]
        yield [of_axis[: n - first] for of_axis in drawn]


def _boot(weights: BootWeightsName, shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
    if weights == "bayesian":
        drawn = rng.standard_exponential(shape)
        return np.asarray(drawn / drawn.mean(axis=1, keepdims=True))
    chosen = rng.integers(0, shape[1], size=shape)
    chosen += shape[1] * np.arange(shape[0])[:, None]
    return np.bincount(chosen.ravel(), minlength=chosen.size).reshape(shape).astype(np.float64)


def share(count: int, n: int, enumerated: bool) -> float:
    """A p-value from the draws that are as extreme; those of a sample leave out the one of the data."""
    return count / n if enumerated else (1 + count) / (n + 1)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Statistics of the draws of one hypothesis, polynomials in the gap d between estimate and hypothesised value."""

    numerator: FloatArray  # (2, n_draws): constant and slope
    # (n_rules, 3, n_draws): constant, half the slope and square of each variance whose largest is taken
    squares: FloatArray
    variance: float  # of the data
    enumerated: bool  # whether these are all draws there are, that of the data among them

    def at(self, d: float) -> tuple[FloatArray, FloatArray]:
        """Numerators and variances at a value of d, shape (n_draws,) each."""
        constant, half, square = self.squares[:, 0], self.squares[:, 1], self.squares[:, 2]
        variance = constant + d * (2 * half + d * square)
        return self.numerator[0] + d * self.numerator[1], np.maximum(np.max(variance, axis=0), 0.0)

    def share(self, extreme: BoolArray) -> float:
        """A p-value from which draws are as extreme."""
        return share(int(np.count_nonzero(extreme)), extreme.size, self.enumerated)

    def p(self, gap: float) -> float:
        """Two-sided p-value of the value that lies `gap` below the estimate: |t| is at least that of the data."""
        numerator, spread = self.at(gap)
        return self.share(numerator**2 * self.variance >= (gap * (1 - EQUAL)) ** 2 * spread)

    def p_far(self) -> float:
        """Where p ends however far the hypothesised value lies from the estimate.

        The t of the data grows without bound; that of a draw does so only where its variance does not grow with the
        gap.
        """
        grows = np.max(self.squares[:, 2], axis=0) > 0
        constant = np.max(self.squares[:, 0], axis=0)
        slope = self.numerator[1]
        stays = ~grows & (slope != 0) & (slope**2 * self.variance >= (1 - EQUAL) ** 2 * constant)
        return self.share(stays)

    def p_equal_tailed(self, d: float, t: float) -> float:
        """Twice the smaller tail; ties count in both."""
        numerator, variance = self.at(d)
        room, se = abs(t) * EQUAL, np.sqrt(variance)
        below, above = self.share(numerator <= (t + room) * se), self.share(numerator >= (t - room) * se)
        return min(1.0, 2 * min(below, above))

    def gaps(self, scale: float, alpha: float, marks: Sequence[float]) -> tuple[float, float]:
        """The lowest and the highest gap whose p-value is above alpha; infinite where p never falls to it."""
        if self.p_far() > alpha:
            return -np.inf, np.inf
        low = find_end(lambda gap: self.p(-gap), scale, alpha, [-mark for mark in marks])
        return -low, find_end(self.p, scale, alpha, marks)


def find_end(p: Callable[[float], float], se: float, alpha: float, marks: Sequence[float] = ()) -> float:
    """The largest gap whose p-value is above alpha, by bisection.

    Where it meets one of the gaps in `marks` (that of the value 0, say), it is that gap and not a number beside it.
    """
    far = 2.0 * se
    # Rejected at three doublings in a row, so that a single dip of a step function does not end the search.
    while any(p(far * factor) > alpha for factor in (1.0, 2.0, 4.0)):
        far *= 2
        if far > 1e12 * se:  # an interval so many standard errors wide is infinite
            return np.inf
    grid = np.linspace(0.0, 4.0 * far, 65)
    last = max(i for i, gap in enumerate(grid) if i == 0 or p(float(gap)) > alpha)
    low, high = float(grid[last]), float(grid[last + 1])
    for _ in range(40):  # each halves what is left
        middle = (low + high) / 2
        low, high = (middle, high) if p(middle) > alpha else (low, middle)
    end = (low + high) / 2
    # Ties that are not exact move an end by a few of their width.
    return next((mark for mark in marks if abs(end - mark) <= 100 * EQUAL * abs(end) and p(mark) > alpha), end)
