"""Random weights of clusters, the same whatever the number of workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import numpy as np

from evalreg.checks import FloatArray
from evalreg.covariance.adjust import HELD
from evalreg.errors import ArgumentError, ArgumentTypeError
from evalreg.inference.multiplicity import block_stream

WildWeightsName: TypeAlias = Literal["auto", "rademacher", "webb", "mammen"]
BootWeightsName: TypeAlias = Literal["multinomial", "bayesian"]
WILD_WEIGHTS: tuple[WildWeightsName, ...] = get_args(WildWeightsName)
BOOT_WEIGHTS: tuple[BootWeightsName, ...] = get_args(BootWeightsName)

# Each block of draws has a random stream of its own, so that the draws do not depend on who makes them.
BLOCK = 128
WILD_BLOCK = 256
# The identity stands first, so that it is vector 0 of an enumeration.
RADEMACHER = np.array([1.0, -1.0])
WEBB = np.array([1.0, -1.0, np.sqrt(1.5), -np.sqrt(1.5), np.sqrt(0.5), -np.sqrt(0.5)])
MAMMEN = np.array([(1 + np.sqrt(5)) / 2, (1 - np.sqrt(5)) / 2])
MAMMEN_FIRST = (np.sqrt(5) - 1) / (2 * np.sqrt(5))
WEBB_UP_TO = 12

Result = TypeVar("Result")


def seed_text(seed: int | None) -> str:
    """The seed of some draws in words; None where a Generator was given, whose state is not known."""
    return "from a Generator" if seed is None else f"seed {seed}"


def whole_number(name: str, value: object) -> int:
    """A number of draws or workers, at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ArgumentTypeError(f"`{name}` must be a whole number; got {value!r}.")
    if value < 1:
        raise ArgumentError(f"`{name}` must be 1 or more; got {value}.")
    return int(value)


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
    for block, first in enumerate(range(0, draws, WILD_BLOCK)):
        n = min(WILD_BLOCK, draws - first)
        if enumerated:
            # Digits of the vector's number, written with as many digits as there are points.
            places = points.size ** np.arange(n_clusters - 1, -1, -1)
            yield np.asarray(points[(np.arange(first, first + n)[:, None] // places) % points.size])
        else:
            yield _wild(weights, (n, n_clusters), block_stream(base, block))


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
        yield [one[: n - first] for one in drawn]


def _boot(weights: BootWeightsName, shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
    if weights == "bayesian":
        drawn = rng.standard_exponential(shape)
        return np.asarray(drawn / drawn.mean(axis=1, keepdims=True))
    chosen = rng.integers(0, shape[1], size=shape)
    chosen += shape[1] * np.arange(shape[0])[:, None]
    return np.bincount(chosen.ravel(), minlength=chosen.size).reshape(shape).astype(np.float64)


def run_blocks(
    draws: int, base: int, work: Callable[[int, int, np.random.Generator], Result], workers: int = 1
) -> list[Result]:
    """What `work` makes of each block of draws, in order; an error is that of the first block that fails."""
    blocks = [(i, first, min(BLOCK, draws - first)) for i, first in enumerate(range(0, draws, BLOCK))]

    def one(block: tuple[int, int, int]) -> Any:
        number, first, n = block
        return work(first, n, block_stream(base, number))

    if workers == 1:
        return [one(block) for block in blocks]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, blocks))
