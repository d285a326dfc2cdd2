"""How many rows, and how many clusters of equal size, are behind each parameter of an estimate."""

from __future__ import annotations

import numpy as np

from evalreg.checks import FloatArray
from evalreg.data.clusters import Axis
from evalreg.estimate.estimate import Estimate
from evalreg.numerics.matrices import (
    Matrix,
    absolute_entries,
    compressed,
    scale_columns,
    signs_of_entries,
    transposed,
    with_entries,
)

# A coefficient below this share of the largest one is a zero that was not computed exactly.
ROUNDING = 1e-12


def rows_behind(estimate: Estimate) -> FloatArray | None:
    """Rows that each estimate is made of, (n_params,): those of its cells, or all rows of a regression.

    None where the parameters are not a map of the cells (ratings).
    """
    cells, A = estimate.cells, estimate.coefficient_map
    if A is not None and A.shape[1] == estimate.scores.n_columns:
        together = estimate.scores.rows_in(touches(A))
        if together is not None and cells is not None and A.shape[1] == cells.count.size:
            # Scores that do not tell their cells count all rows; some rows are in several cells.
            return np.asarray(np.minimum(together, touches(A) @ cells.count))
        if together is not None:
            return together
    if cells is None:
        return None if estimate.kind == "board" else np.full(estimate.n_params, float(estimate.n_rows))
    if A is None or A.shape[1] != cells.count.size:
        return None
    return np.asarray(touches(A) @ cells.count, dtype=np.float64)


def touches(A: Matrix) -> Matrix:
    """One where a parameter is made of a cell, shape (n_params, n_cells); what rounding left of a zero is none."""
    rows = compressed(A)
    row, size = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), np.abs(rows.data)
    largest = np.zeros(rows.shape[0])
    np.maximum.at(largest, row, size)
    return with_entries(rows, (size > ROUNDING * largest[row]).astype(np.float64))


def effective_clusters(estimate: Estimate, axes: tuple[Axis, ...]) -> FloatArray:
    """Kish's effective number of clusters of each mean, 1/sum_g share_g^2, the smallest over axes; rows without axes.

    share_g is the weight of cluster g in the mean. Kish (1965), Survey Sampling.
    """
    A, cells = estimate.coefficient_map, estimate.cells
    if A is None or cells is None:
        return np.full(estimate.n_params, np.nan)
    # A win rate has pairs in which its model is the second, with a minus; they count all the same.
    A = absolute_entries(A)
    if not axes:
        return np.asarray(signs_of_entries(A) @ cells.count, dtype=np.float64)
    smallest = np.full(estimate.n_params, np.inf)
    for axis in axes:
        share = transposed(scale_columns(A, 1.0 / cells.weight))
        smallest = np.minimum(smallest, 1.0 / estimate.scores.column_sums(axis, share, share).squares)
    return smallest
