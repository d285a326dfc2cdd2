"""Increasing functions of win rates: odds and net benefits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evalreg.checks import FloatArray


@dataclass(frozen=True)
class Scale:
    """An increasing function of numbers in [0, 1]; its functions have names, so that results can be pickled."""

    of: str  # what it is a function of, what it makes of that, and how: "win rates", "odds", "S / (1 - S)"
    into: str
    formula: str
    forward: Callable[[FloatArray], FloatArray]
    # Of values that the function does not take, a number outside [0, 1].
    back: Callable[[FloatArray], FloatArray]
    slope: Callable[[FloatArray], FloatArray]


def _odds(S: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(S / (1.0 - S))


def _rates_of_odds(odds: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(odds / (1.0 + odds))


def _slope_of_odds(S: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 - S) ** 2)


def _benefit(S: FloatArray) -> FloatArray:
    return np.asarray(2.0 * S - 1.0)


def _rates_of_benefit(benefit: FloatArray) -> FloatArray:
    return np.asarray((1.0 + benefit) / 2.0)


def _slope_of_benefit(S: FloatArray) -> FloatArray:
    return np.full(S.shape, 2.0)


ODDS = Scale("win rates", "odds", "S / (1 - S)", _odds, _rates_of_odds, _slope_of_odds)
NET_BENEFIT = Scale("win rates", "net benefits", "2 S - 1", _benefit, _rates_of_benefit, _slope_of_benefit)
