"""P-values of one hypothesis as a function of the hypothesised value, and the interval that they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evalreg.checks import BoolArray, FloatArray

# Statistics this close are ties, and ties count as at least as extreme.
SLACK = 1e-9
# An end is moved by ties that are not exact, by a few of these; it meets a value that is nearer than this part of it.
BESIDE = 100 * SLACK
# Points between the estimate and where the search for an end of the interval stops.
GRID = 64
BISECTIONS = 40
# An interval this many standard errors wide is infinite.
FAR = 1e12


@dataclass(frozen=True, eq=False)
class Drawn:
    """Statistics of the draws of one hypothesis, polynomials in the gap d between estimate and hypothesised value."""

    numerator: FloatArray  # (2, n_draws): constant and slope
    # (n_rules, 3, n_draws): constant, half the slope and square of each variance whose largest is taken
    squares: FloatArray

    def at(self, d: float) -> tuple[FloatArray, FloatArray]:
        """Numerators and variances at a value of d, shape (n_draws,) each."""
        constant, half, square = self.squares[:, 0], self.squares[:, 1], self.squares[:, 2]
        variance = constant + d * (2 * half + d * square)
        # One rule for one clustering: nothing to compare.
        largest = variance[0] if variance.shape[0] == 1 else np.max(variance, axis=0)
        return self.numerator[0] + d * self.numerator[1], np.maximum(largest, 0.0)


def as_extreme(drawn: Drawn, gap: float, variance: float) -> BoolArray:
    """Draws whose |t| is at least that of the data, at a value that lies `gap` below the estimate.

    Shapes: returns (n_draws,).
    """
    numerator, spread = drawn.at(gap)
    return np.asarray(numerator**2 * variance >= (gap * (1 - SLACK)) ** 2 * spread)


def as_extreme_far(drawn: Drawn, variance: float) -> BoolArray:
    """Draws that stay at least as extreme however far the hypothesised value lies from the estimate.

    The t of the data grows without bound; that of a draw does so only where its variance does not grow with the gap.

    Shapes: returns (n_draws,).
    """
    grows = np.max(drawn.squares[:, 2], axis=0) > 0
    constant = np.max(drawn.squares[:, 0], axis=0)
    moves = drawn.numerator[1] != 0
    return np.asarray(~grows & moves & (drawn.numerator[1] ** 2 * variance >= (1 - SLACK) ** 2 * constant))


def find_end(p: Callable[[float], float], se: float, alpha: float, marks: Sequence[float] = ()) -> float:
    """The largest gap whose p-value is above alpha, by bisection.

    Where it meets one of the gaps in `marks` (that of the value 0, say), it is that gap and not a number beside it.
    """
    far = 2.0 * se
    # Rejected at three doublings in a row, so that a single dip of a step function does not end the search.
    while any(p(far * factor) > alpha for factor in (1.0, 2.0, 4.0)):
        far *= 2
        if far > FAR * se:
            return np.inf
    grid = np.linspace(0.0, 4.0 * far, GRID + 1)
    last = max(i for i, gap in enumerate(grid) if i == 0 or p(float(gap)) > alpha)
    low, high = float(grid[last]), float(grid[last + 1])
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if p(middle) > alpha else (low, middle)
    end = (low + high) / 2
    return next((mark for mark in marks if abs(end - mark) <= BESIDE * abs(end) and p(mark) > alpha), end)


def tails(numerator: FloatArray, variance: FloatArray, t: float) -> tuple[int, int]:
    """Draws whose t is at most, and at least, that of the data; ties count in both. Shapes: (n_draws,)."""
    room = abs(t) * SLACK
    se = np.sqrt(variance)
    below = np.count_nonzero(numerator <= (t + room) * se)
    return int(below), int(np.count_nonzero(numerator >= (t - room) * se))
