"""Adjusted p-values, seeds, and streams of random numbers that do not depend on what else is drawn."""

from __future__ import annotations

import numbers
from typing import Literal, TypeAlias

import numpy as np

from evalreg.checks import FloatArray, adjustment
from evalreg.errors import ArgumentError, ArgumentTypeError

AdjustName: TypeAlias = Literal["holm", "fdr_bh", "bh", "bonferroni"]
ADJUSTMENTS: tuple[AdjustName, ...] = ("holm", "fdr_bh", "bonferroni")

# Draws come in blocks of this many, each with a stream of its own (memory limit).
BLOCK = 1024


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
