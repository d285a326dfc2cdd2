"""The largest difference between two of many models in each draw, without a look at every pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray, hold

# With fewer, comparing each model with each costs less than asking which comparisons can matter; and in several bands.
FEW_MODELS, FEW_IN_BANDS = 40, 250
# Largest weights of models in one band are no further apart than this, where so many bands suffice.
ALIKE, MOST_BANDS = 1.4, 16
# Share of all comparisons that may be left, beyond which all are made; of so many at a time.
MOST_LEFT, MOST_PAIRS = 0.05, 1 << 20
# Entries (draws times models) that are looked at together: as many as stay in a cache of the processor, and more where
# each of several bands is looked at by itself.
IN_CACHE, OF_BANDS = 1 << 17, 1 << 19


# Rows (draws) and columns (models) of some entries, in rising order of rows.
DrawnModels: TypeAlias = tuple[IntArray, IntArray]


@dataclass(frozen=True, eq=False)
class PairWeights:
    """Weights of all pairs of models; the models in bands whose weights are alike."""

    order: IntArray  # (n_models,): models by their largest weight, which all else follows
    weight: FloatArray  # (n_models, n_models), symmetric; zero where a pair is not in the family
    ends: IntArray  # (n_bands + 1,): where bands start, and where the last one ends
    reach: FloatArray  # (n_models, n_bands): largest weight of each model with one of a band
    peak: FloatArray  # (n_bands, n_bands): largest weight of a pair of two bands

    def __post_init__(self) -> None:
        hold(self)

    @property
    def at_once(self) -> int:
        """Entries, draws times models, to look at together."""
        return IN_CACHE if len(self.peak) == 1 or self.order.size < FEW_IN_BANDS else OF_BANDS

    def band(self, g: int) -> slice:
        """The places of a band's models."""
        return slice(int(self.ends[g]), int(self.ends[g + 1]))


def pair_weights(weight: FloatArray) -> PairWeights:
    """The weights of all pairs, a symmetric matrix, in bands."""
    most = weight.max(axis=1)
    order = np.argsort(most, kind="stable")
    size = np.log(np.maximum(most[order], most.max() * 1e-12 + 1e-300))
    step = max(np.log(ALIKE), (size[-1] - size[0]) / MOST_BANDS * (1 + 1e-9))
    starts = np.flatnonzero(np.diff(np.floor((size - size[0]) / step), prepend=-1.0))
    ordered = np.ascontiguousarray(weight[np.ix_(order, order)])
    reach = np.maximum.reduceat(ordered, starts, axis=1)
    return PairWeights(order, ordered, np.append(starts, order.size), reach, np.maximum.reduceat(reach, starts, axis=0))


def largest_of_pairs(models: FloatArray, weights: PairWeights) -> FloatArray:
    """Largest weighted absolute difference between two models in each draw, shape (n_draws,).

    `models` has shape (n_draws, n_models), in the order of the weights.
    """
    if models.shape[1] < (FEW_MODELS if len(weights.peak) == 1 else FEW_IN_BANDS):
        return _each_with_each(models, weights.weight)
    bands = [weights.band(g) for g in range(len(weights.peak))]
    top = np.stack([models[:, band].argmax(axis=1) + band.start for band in bands], axis=1)
    bottom = np.stack([models[:, band].argmin(axis=1) + band.start for band in bands], axis=1)
    draws = np.arange(len(models))[:, None]
    apart = models[draws, top][:, :, None] - models[draws, bottom][:, None, :]
    result: FloatArray = (apart * weights.weight[top[:, :, None], bottom[:, None, :]]).max(axis=(1, 2))
    # No pair of two bands weighs more than the top of one and the bottom of the other with their largest weight.
    bound = apart * weights.peak
    for pair in np.argsort(-bound.mean(axis=0), axis=None):
        g, h = divmod(int(pair), len(bands))
        at = np.flatnonzero(bound[:, g, h] > result)
        if at.size:
            block = _Block(weights.weight[bands[g], bands[h]], weights.reach[bands[g], h], weights.reach[bands[h], g])
            rows = slice(None) if at.size == len(models) else at
            result[at] = block.largest(models[rows, bands[g]], models[rows, bands[h]], result[at])
    return result


def pairs_beyond(models: FloatArray, weights: PairWeights, least: float) -> tuple[FloatArray, IntArray]:
    """Largest weighted absolute difference between two models, and how many are more than `least`: (n_draws,) each.

    The largest is 0 where none is. `models` has shape (n_draws, n_models), in the order of the weights; `least` is
    positive.
    """
    bands = [weights.band(g) for g in range(len(weights.peak))]
    largest, number = np.zeros(len(models)), np.zeros(len(models), dtype=np.intp)
    top = np.stack([models[:, band].max(axis=1) for band in bands])
    bottom = np.stack([models[:, band].min(axis=1) for band in bands])
    for g, one in enumerate(bands):
        for h, other in enumerate(bands):
            at = np.flatnonzero((top[g] - bottom[h]) * weights.peak[g, h] > least)
            if at.size:
                block = _Block(weights.weight[one, other], weights.reach[one, h], weights.reach[other, g])
                own, n_own = block.beyond(models[at, one], models[at, other], least)
                largest[at] = np.maximum(largest[at], own)
                number[at] += n_own
    return largest, number


@dataclass(frozen=True, eq=False)
class _Block:
    """Pairs of an upper model of one band and a lower one of another, or of the same."""

    weight: FloatArray  # (n_upper, n_lower)
    most_upper: FloatArray  # (n_upper,): the largest weight of each
    most_lower: FloatArray

    def largest(self, upper: FloatArray, lower: FloatArray, held: FloatArray) -> FloatArray:
        """The larger of `held` (n_draws,) and of each upper less each lower; values (n_draws, n_upper or n_lower)."""
        draws, top, bottom = np.arange(held.size), upper.argmax(axis=1), lower.argmin(axis=1)
        highest, lowest = upper[draws, top], lower[draws, bottom]
        room, held = (held / self.most_upper.max())[:, None], held.copy()
        # Of two that weigh more than what is held, the upper is far above the lowest, and the lower far below the top.
        high = _entries(upper > lowest[:, None] + room)
        high = self._reaching(high, upper[high] - lowest[high[0]], self.most_upper, (high[1], bottom[high[0]]), held)
        low = _entries(lower < highest[:, None] - room)
        low = self._reaching(low, highest[low[0]] - lower[low], self.most_lower, (top[low[0]], low[1]), held)
        high = _kept(high, (upper[high] - lowest[high[0]]) * self.most_upper[high[1]] > held[high[0]])
        low = _kept(low, (highest[low[0]] - lower[low]) * self.most_lower[low[1]] > held[low[0]])
        parts = self._parts(high, low, held.size)
        if parts is None:
            for size in self._sizes(upper, lower):
                np.maximum(held, size.max(axis=1), out=held)
            return held
        for part in parts:
            _raise(held, *self._between(upper, lower, part, low, held))
        return held

    def beyond(self, upper: FloatArray, lower: FloatArray, least: float) -> tuple[FloatArray, IntArray]:
        """The largest of each upper less each lower, 0 where none is more than `least`, and how many are."""
        largest, number = np.zeros(len(upper)), np.zeros(len(upper), dtype=np.intp)
        high = _entries((upper - lower.min(axis=1)[:, None]) * self.most_upper > least)
        low = _entries((upper.max(axis=1)[:, None] - lower) * self.most_lower > least)
        parts = self._parts(high, low, number.size)
        if parts is None:
            for size in self._sizes(upper, lower):
                np.maximum(largest, size.max(axis=1), out=largest)
                number += np.count_nonzero(size > least, axis=1)
            return largest, number
        bound = np.full(number.size, least)
        for part in parts:
            draw, size = self._between(upper, lower, part, low, bound)
            draw, size = draw[size > least], size[size > least]
            _raise(largest, draw, size)
            number += np.bincount(draw, minlength=number.size)
        return largest, number

    def _parts(self, high: DrawnModels, low: DrawnModels, n_draws: int) -> list[DrawnModels] | None:
        """Some of the upper models at a time, so that pairs with the lower are not too many; None where all are."""
        n_pairs = int(np.bincount(high[0], minlength=n_draws) @ np.bincount(low[0], minlength=n_draws))
        if n_pairs > MOST_LEFT * n_draws * self.weight.size:
            return None
        parts = np.array_split(np.arange(high[0].size), n_pairs // MOST_PAIRS + 1)
        return [(high[0][part], high[1][part]) for part in parts]

    def _sizes(self, upper: FloatArray, lower: FloatArray) -> Iterator[FloatArray]:
        """Weighted differences of one upper model after another with all lower ones, shape (n_draws, n_lower)."""
        for a, weight in enumerate(self.weight):
            yield (upper[:, a, None] - lower) * weight

    def _reaching(
        self, entries: DrawnModels, gap: FloatArray, most: FloatArray, pair: DrawnModels, held: FloatArray
    ) -> DrawnModels:
        """Models whose difference with the end of their draw could weigh more than `held`, which they raise."""
        which = gap * most[entries[1]] > held[entries[0]]
        entries, pair = _kept(entries, which), _kept(pair, which)
        _raise(held, entries[0], gap[which] * self.weight[pair])
        return entries

    def _between(
        self, upper: FloatArray, lower: FloatArray, high: DrawnModels, low: DrawnModels, held: FloatArray
    ) -> tuple[IntArray, FloatArray]:
        """Differences of some of the upper with some of the lower models that could weigh more than `held`.

        The draw of each, in rising order, and its weighted size.
        """
        draw, model = high
        count = np.bincount(low[0], minlength=held.size)
        each, first = count[draw], np.cumsum(count) - count
        # Each of the upper beside all of the lower of its draw.
        of = np.repeat(np.arange(draw.size), each)
        other = np.arange(of.size) + np.repeat(first[draw] - (np.cumsum(each) - each), each)
        gap = upper[high][of] - lower[low][other]
        # Weights of pairs are far apart in memory: they are looked up where they can matter.
        most = np.minimum(self.most_upper[model][of], self.most_lower[low[1]][other])
        at = np.flatnonzero(gap * most > np.repeat(held[draw], each))
        of, other = of[at], other[at]
        return draw[of], gap[at] * self.weight[model[of], low[1][other]]


def _entries(where: BoolArray) -> DrawnModels:
    draw, model = np.divmod(np.flatnonzero(where), where.shape[1])
    return draw, model


def _kept(entries: DrawnModels, which: BoolArray) -> DrawnModels:
    return entries[0][which], entries[1][which]


def _raise(held: FloatArray, draw: IntArray, values: FloatArray) -> None:
    """Each of `held` to the largest of the values of its draw, if that is larger; draws are in rising order."""
    if draw.size:
        first = np.flatnonzero(np.diff(draw, prepend=-1))
        held[draw[first]] = np.maximum(held[draw[first]], np.maximum.reduceat(values, first))


def _each_with_each(models: FloatArray, weight: FloatArray) -> FloatArray:
    """The largest of all differences in each draw, model by model."""
    result, models = np.zeros(models.shape[0]), np.ascontiguousarray(models.T)
    for a in range(models.shape[0] - 1):
        gap = models[a + 1 :] - models[a]
        np.abs(gap, out=gap)
        gap *= weight[a, a + 1 :, None]
        np.maximum(result, gap.max(axis=0), out=result)
    return result
