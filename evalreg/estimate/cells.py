"""What is known of the cells of an estimate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalreg.checks import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Cells:
    """What is known of the cells of an estimate, one entry a cell.

    Parameters
    ----------
    count : ndarray, shape (n_cells,)
        Rows.
    weight : ndarray, shape (n_cells,)
        Sum of weights; the count where there are none.
    mean : ndarray, shape (n_cells,)
        Weighted mean of the values; exactly the value where they are all alike.
    squares : ndarray, shape (n_cells,)
        Sum of w (value - mean)^2.
    low, high : ndarray, shape (n_cells,)
        Smallest and largest value.
    stratum : ndarray of int, shape (n_cells,), optional
        Stratum of each cell; None without strata.
    strata : tuple of str
        Names of the strata.
    spread : ndarray, shape (n_cells,), optional
        Weighted mean of (value - mean)^2, where the weights of the mean are not those of the rows; `scatter` is it.
    """

    count: FloatArray
    weight: FloatArray
    mean: FloatArray
    squares: FloatArray
    low: FloatArray
    high: FloatArray
    stratum: IntArray | None = None
    strata: tuple[str, ...] = ()
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
