"""Adjusted p-values, and draws of the largest of several correlated statistics."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from evalreg.checks import FloatArray, IntArray, adjustment
from evalreg.errors import ArgumentError, ArgumentTypeError
from evalreg.inference.aimed import Target, aimed_draws, aimed_largest
from evalreg.inference.largest import LargestStatistic, binned

AdjustName: TypeAlias = Literal["holm", "fdr_bh", "bh", "bonferroni"]
ADJUSTMENTS: tuple[AdjustName, ...] = ("holm", "fdr_bh", "bonferroni")

# Draws come in blocks of this many, each with a stream of its own.
BLOCK = 1024
PILOT = 8
MOST_BLOCKS = 256
# Aimed blocks at a time, and how often as many draws lie beyond where they are aimed as beyond the critical value.
AIMED, OFTEN = 2, 2.0
# Standard error asked of a critical value; draws beyond that are made where they cost next to nothing.
WANTED_ERROR = 0.004
CHEAP_BLOCKS, CHEAP_WORK = 128, 4e8
# What a draw costs, in passes over the statistics: so many dimensions of a product one, and a normal so many entries.
PRODUCT, NORMAL = 20, 7
# From so many entries on, the map from normals to statistics is first used in single precision.
MANY_STATISTICS = 1 << 16

# Contrasts are taken so many at a time, which bounds the memory.
CHUNK = 512

Largest: TypeAlias = Callable[[FloatArray], FloatArray]
DrawnContrasts: TypeAlias = Callable[[FloatArray, IntArray], FloatArray]


def adjust_pvalues(p: FloatArray, method: AdjustName) -> FloatArray:
    """P-values adjusted for their number.

    NaN where `p` is. `method`: the names of statsmodels. Holm and Bonferroni bound the chance of any false rejection
    under any dependence; "fdr_bh" ("bh") bounds the expected share of false ones, for independent or positively
    dependent statistics. Holm (1979), Scandinavian Journal of Statistics 6, 65-70; Benjamini and Hochberg (1995), JRSS
    B 57, 289-300. The same numbers as statsmodels' `multipletests`, which clears the memory of Python at every call.
    Shapes: p (m,); returns (m,).
    """
    method = adjustment("method", method, ADJUSTMENTS)
    adjusted = np.array(p, dtype=np.float64)
    known = np.flatnonzero(~np.isnan(adjusted))
    rising = known[np.argsort(adjusted[known], kind="stable")]
    m, place = rising.size, np.arange(rising.size)
    # Each p times the nulls still standing (Holm), all of them, or their number over its rank (Benjamini, Hochberg).
    factor = {"holm": m - place, "bonferroni": np.full(m, m), "fdr_bh": m / (1 + place)}[method]
    each = np.minimum(adjusted[rising] * factor, 1.0)
    # A larger p is never adjusted to a smaller one.
    falling = method == "fdr_bh"
    adjusted[rising] = np.minimum.accumulate(each[::-1])[::-1] if falling else np.maximum.accumulate(each)
    return adjusted


def base_seed(seed: object) -> tuple[int, int | None]:
    """A whole number to start from, and the seed to print (None for a Generator, which gives its next number)."""
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63)), None
    if isinstance(seed, bool) or not isinstance(seed, numbers.Integral):
        raise ArgumentTypeError(f"`seed` must be a whole number or a numpy.random.Generator; got {seed!r}.")
    if seed < 0:
        raise ArgumentError(f"`seed` must be 0 or more; got {seed!r}.")
    return int(seed), int(seed)


def block_stream(base: int, block: int) -> np.random.Generator:
    """The random numbers of one block, the same whatever else is drawn."""
    return np.random.default_rng(np.random.SeedSequence(base, spawn_key=(block,)))


def simulate_largest(
    largest: Largest,
    rank: int,
    n_statistics: int,
    *,
    alpha: float,
    dof: float,
    base: int,
    target: Target | None = None,
) -> list[LargestStatistic]:
    """Distributions of the largest statistic, with as many draws as the critical value needs.

    A first 8192 draws tell how many keep the standard error of the critical value below 0.004; at most 262,144 are
    made, and more than needed, up to 131,072, where statistics and dimensions are so few that draws cost little. Where
    they cost much and `target` is given, others are aimed at the tail, of which a fraction tells as much.
    """

    def draw(blocks: range) -> list[FloatArray]:
        extents = []
        for block in blocks:
            normals = block_stream(base, block).standard_normal((BLOCK, rank))
            normals /= np.sqrt(np.einsum("ij,ij->i", normals, normals))[:, None]
            extents.append(np.clip(largest(normals), 0.0, None))
        return extents

    extents = draw(range(PILOT))
    error = max(one.drawn_error(alpha) for one in _summed(extents, rank, dof, n_statistics))
    if error > 1e-9:  # otherwise all directions agree, and nothing is left to chance
        needed = int(np.ceil(1.1 * PILOT * min((error / WANTED_ERROR) ** 2, 1e6)))
        work = n_statistics * (1 + rank / PRODUCT) + NORMAL * rank
        cheap = min(CHEAP_BLOCKS, int(CHEAP_WORK / max(work, 1) / BLOCK))
        wanted = min(max(needed, cheap), MOST_BLOCKS)
        if target is not None and needed > max(cheap, PILOT + AIMED):
            return [_with_aimed(draw, extents, wanted, target, rank, alpha=alpha, dof=dof, base=base)]
        extents += draw(range(PILOT, wanted))
    return _summed(extents, rank, dof, n_statistics)


def _with_aimed(
    draw: Callable[[range], list[FloatArray]],
    extents: list[FloatArray],
    wanted: int,
    target: Target,
    rank: int,
    *,
    alpha: float,
    dof: float,
    base: int,
) -> LargestStatistic:
    """Plain draws, and others aimed beyond most of them, until these tell the critical value, or the plain ones do.

    `wanted` blocks of plain draws are as many as would do alone. Aimed ones help little where some statistics have a
    great many twins and others none.
    """
    least = float(np.quantile(np.concatenate(extents), max(1 - OFTEN * alpha, 0.5), method="lower"))
    aimed: list[tuple[FloatArray, FloatArray]] = []
    while True:
        # Streams that no plain draws have.
        streams = [block_stream(base, MOST_BLOCKS + len(aimed) + i) for i in range(AIMED)]
        aimed += [aimed_draws(target, rank, least, BLOCK, rng) for rng in streams]
        plain, (extent, weight) = np.concatenate(extents)[:, 0], np.concatenate(aimed, axis=1)
        found = aimed_largest(plain, (extent, weight), least, rank=rank, dof=dof, count=target.n_targets)
        if found.drawn_error(alpha) <= WANTED_ERROR:
            return found
        if len(extents) >= wanted:
            return min(found, *_summed(extents, rank, dof, target.n_targets), key=lambda one: one.drawn_error(alpha))
        extents = extents + draw(range(len(extents), min(len(extents) + PILOT, wanted)))


def furthest(normals: FloatArray, statistics: FloatArray, rough: npt.NDArray[np.float32]) -> FloatArray:
    """Largest absolute statistic in each draw, shape (n_draws,).

    Of many, single precision tells which is the largest and which the smallest: of two that agree to seven digits
    either is taken. Shapes: normals (n_draws, rank); statistics and `rough`, the same in single precision, (m, rank).
    """
    if statistics.size < MANY_STATISTICS:
        values = normals @ statistics.T
        return np.asarray(np.maximum(values.max(axis=1), -values.min(axis=1)))
    near = normals.astype(np.float32) @ rough.T
    ends = [np.einsum("ij,ij->i", normals, statistics[row]) for row in (near.argmax(axis=1), near.argmin(axis=1))]
    return np.asarray(np.max(np.abs(ends), axis=0))


def beyond(directions: FloatArray, rough: npt.NDArray[np.float32], least: float) -> tuple[FloatArray, IntArray]:
    """Largest absolute statistic in each direction, and how many are more than `least`, in single precision.

    Shapes: directions (n_directions, rank), rough (m, rank); returns (n_directions,) twice.
    """
    size = np.abs(directions.astype(np.float32) @ rough.T)
    return size.max(axis=1).astype(np.float64), np.count_nonzero(size > least, axis=1)


def stepdown_pvalues(
    drawn: DrawnContrasts, observed: FloatArray, factor: FloatArray, *, dof: float, base: int, n_draws: int
) -> FloatArray:
    """P-values adjusted by free step-down: each against the largest of the statistics that are not above it.

    `drawn` gives absolute statistics (n_positions, n_draws) from factor @ normals' and positions in `observed`, the
    absolute statistics (m,). The rest is as in `simulate_largest`. P-values are at least 1/(n_draws + 1). Westfall and
    Young (1993), Resampling-Based Multiple Testing, algorithm 2.8; Westfall (1997), JASA 92, 299-306.
    """
    rising = np.argsort(observed, kind="stable")
    exceeded = np.zeros(rising.size)
    n_blocks = max(n_draws // BLOCK, 1)
    for block in range(n_blocks):
        rng = block_stream(base, block)
        normals = rng.standard_normal((BLOCK, factor.shape[1]))
        if np.isfinite(dof):
            normals /= np.sqrt(rng.chisquare(dof, BLOCK) / dof)[:, None]
        values, largest = factor @ normals.T, np.zeros(BLOCK)
        for places in np.array_split(np.arange(rising.size), rising.size // CHUNK + 1):
            if places.size:
                each = np.maximum(np.maximum.accumulate(drawn(values, rising[places]), axis=0), largest)
                exceeded[places] += np.count_nonzero(each >= observed[rising[places], None], axis=1)
                largest = each[-1]
    p = np.empty(observed.size)
    # From the largest statistic down, p never falls.
    p[rising[::-1]] = np.maximum.accumulate((1 + exceeded[::-1]) / (1 + n_blocks * BLOCK))
    return p


def _summed(extents: list[FloatArray], rank: int, dof: float, count: int) -> list[LargestStatistic]:
    drawn = np.concatenate(extents)
    weight, summed = np.full(len(drawn), 1 / len(drawn)), []
    for column in drawn.T:
        extent, share, squares = binned(column, weight)
        summed.append(LargestStatistic(extent, share, squares, rank, dof, len(drawn), count))
    return summed
