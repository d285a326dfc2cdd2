"""What simulated logs share: their arguments checked, ids of one length, the truth beside the rows."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray

from evalreg.checks import IntArray
from evalreg.errors import ArgumentError, ArgumentTypeError


def generator(seed: int | np.random.Generator) -> tuple[np.random.Generator, int | None]:
    """Generator to draw from, and the seed when it was a number."""
    if isinstance(seed, np.random.Generator):
        return seed, None
    if isinstance(seed, bool) or not isinstance(seed, numbers.Integral):
        raise ArgumentTypeError(f"`seed` must be a whole number or a numpy.random.Generator; got {seed!r}.")
    seed = whole("seed", seed, 0)
    return np.random.default_rng(seed), seed


def _number(name: str, value: float) -> float:
    """A real number, or an error."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ArgumentTypeError(f"`{name}` must be a number; got {value!r}.")
    return float(value)


def whole(name: str, value: int, minimum: int = 1, maximum: int | None = None) -> int:
    """A whole number within limits, or an error."""
    number = _number(name, value)
    if not isinstance(value, numbers.Integral) or number < minimum or (maximum is not None and number > maximum):
        limits = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise ArgumentError(f"`{name}` must be a whole number {limits}; got {value!r}.")
    return int(value)


def within(name: str, value: float, interval: str) -> float:
    """A number in an interval written as "[0, 1)", or an error."""
    number = _number(name, value)
    low, high = (float(end) for end in interval[1:-1].split(","))
    at_end = (number == low and interval[0] == "[") or (number == high and interval[-1] == "]")
    if not (at_end or low < number < high):
        raise ArgumentError(f"`{name}` must lie in {interval}; got {value!r}.")
    return number


def ids(prefix: str, count: int, width: int = 3) -> list[str]:
    """Ids "passage-001", "passage-002", ..., all of one length."""
    template = f"{prefix}-%0{max(width, len(str(count)))}d"
    return [template % number for number in range(1, count + 1)]


def label_column(names: list[str], codes: IntArray | None = None) -> ExtensionArray:
    """Column of names, one per code."""
    labels = pd.Series(names).array
    return labels if codes is None else labels.take(codes)


def with_truth(columns: dict[str, Any], truth: dict[str, Any], seed: int | None) -> pd.DataFrame:
    """The columns as a frame that carries its truth and its seed."""
    frame = pd.DataFrame(columns)
    frame.attrs = {"truth": truth, "seed": seed}
    return frame


def by_name(names: list[str], values: Iterable[float]) -> dict[str, float]:
    """Numbers by the names that they belong to."""
    return {name: float(value) for name, value in zip(names, values, strict=True)}


def companions(codes: IntArray) -> float:
    """Other questions of its passage that a question has, on average over questions."""
    return float(np.square(np.bincount(codes)).sum() / len(codes)) - 1
