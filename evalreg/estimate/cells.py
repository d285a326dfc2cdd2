"""What is known of the cells of an estimate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalreg.checks import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Cells:
    """What is known of the cells of an estimate, one entry a cell."""

    count: FloatArray  # (n_cells,): rows
    weight: FloatArray  # (n_cells,): sum of weights; the count where there are none
    mean: FloatArray  # (n_cells,): weighted mean of the values; exactly the value where they are all alike
    squares: FloatArray  # (n_cells,): sum of w (value - mean)^2
    low: FloatArray  # (n_cells,): smallest value
    high: FloatArray  # (n_cells,): largest value
    stratum: IntArray | None = None  # (n_cells,): stratum of each cell; None without strata
    strata: tuple[str, ...] = ()  # names of the strata
    # (n_cells,): weighted mean of (value - mean)^2, where the weights of the mean are not those of the rows;
    # `scatter` is it
    spread: FloatArray | None = None

    @property
    def scatter(self) -> FloatArray:
        """Weighted mean of (value - mean)^2, with the weights of the mean, shape (n_cells,)."""
        return self.squares / self.weight if self.spread is None else self.spread

    def beside(self, other: Cells) -> Cells | None:
        """Cells of both; None where either has strata, whose clusters would have to be counted apart."""
        if self.stratum is not None or other.stratum is not None:
            return None
        pairs = zip(_arrays(self), _arrays(other), strict=True)
        count, weight, mean, squares, low, high = (np.concatenate(pair) for pair in pairs)
        spread = np.concatenate([self.scatter, other.scatter])
        return Cells(count, weight, mean, squares, low, high, spread=spread)


def _arrays(cells: Cells) -> tuple[FloatArray, ...]:
    return cells.count, cells.weight, cells.mean, cells.squares, cells.low, cells.high
