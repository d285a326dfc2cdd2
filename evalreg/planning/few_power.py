"""Power of tests of differences that rest on few questions, which allow for differences not seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy

from evalreg.checks import BoolArray, FloatArray
from evalreg.numerics.student import t_quantile
from evalreg.scores.score_interval import NullVariance

# Halvings of the interval that a difference lies in.
STEPS = 60
# A difference of 1 is the largest; at this distance from it, and from 0, the search ends.
REACHED = 1e-9


def found_where_few_differ(few: NullVariance, dof: FloatArray, alpha: float, power: float) -> FloatArray:
    """True differences that the tests find with the power asked for, shape (m,); NaN where even one of 1 is not found.

    The power is Phi((x - t sqrt(V(0)))/sqrt(V(x))), V(x) the variance that the test takes if the difference is x, with
    the rates of questions that differ that are likeliest at a true difference x in the direction that was seen. Shapes:
    dof (m,).
    """
    few = replace(few, theta=np.abs(few.theta))
    critical = t_quantile(alpha, dof)

    def enough(difference: FloatArray) -> BoolArray:
        expected = few.if_true(difference)
        sd = np.sqrt(np.maximum(expected.seen, np.finfo(float).tiny))
        far = (expected.theta - critical * np.sqrt(expected.at(0.0))) / sd
        return np.asarray(scipy.special.ndtr(far) >= power)

    low, high = np.zeros(few.theta.shape), np.full(few.theta.shape, 1 - REACHED)
    none = ~enough(high)
    for _ in range(STEPS):
        middle = (low + high) / 2
        found = enough(middle)
        low, high = np.where(found, low, middle), np.where(found, middle, high)
    return np.where(none, np.nan, high)
