"""Sums of scores within clusters, which is all that a covariance needs, their squares, and sums of cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray

Matrix: TypeAlias = Any
"""A dense array or a scipy sparse array."""

# Above this share of entries that are there, a dense product is faster than a sparse one.
DENSE_SHARE = 0.25
SMALL = 1 << 14


@dataclass(frozen=True, eq=False)
class Block:
    """Some whole clusters of a clustering.

    Parameters
    ----------
    totals : ndarray or sparse array, shape (n_clusters, n_columns)
        Sums of scores within clusters.
    gram : ndarray, shape (n_clusters, n_columns, n_columns), or sparse array, shape (n_clusters, n_columns), or None
        X_g'W X_g of each cluster; for cells its diagonal, the weight of each (cluster, cell). None where the
        estimate has no design.
    """

    totals: Matrix
    gram: Matrix | None


def dense(matrix: Matrix) -> FloatArray:
    """Return a sparse array as a dense one, a dense one as it is."""
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)


def mostly_there(matrix: Matrix) -> bool:
    """Return whether so much of a sparse array is there that it is faster dense."""
    return hasattr(matrix, "nnz") and matrix.nnz > DENSE_SHARE * matrix.shape[0] * matrix.shape[1]


def compressed(matrix: Matrix) -> Matrix:
    """Return an array in compressed sparse rows."""
    return sparse.csr_array(matrix)


def single_column(values: FloatArray) -> Matrix:
    """Return one value a row as a column in compressed sparse rows, every entry stored."""
    n_rows = values.size
    return sparse.csr_array((values, np.zeros(n_rows, np.int32), np.arange(n_rows + 1, dtype=np.int32)), (n_rows, 1))


def scale_columns(matrix: Matrix, factor: FloatArray) -> Matrix:
    """Return an array in compressed sparse rows, each column multiplied by a number."""
    rows = compressed(matrix)
    return sparse.csr_array((rows.data * factor[rows.indices], rows.indices, rows.indptr), rows.shape)


def square(totals: Matrix, bread: Matrix) -> FloatArray:
    """Sum of outer products of cluster totals, mapped by the bread.

    Parameters
    ----------
    totals : ndarray or sparse array, shape (n_clusters, n_columns)
        Sums of scores within clusters.
    bread : ndarray or sparse array, shape (n_columns, n_params)
        Maps scores to influence.

    Returns
    -------
    ndarray, shape (n_params, n_params)
        B'T'TB.
    """
    if mostly_there(totals):
        totals = dense(totals)  # whose products are many times faster
    influence = totals @ bread
    product = influence.T @ influence
    return dense(product)


def quadratic(contrasts: FloatArray, matrix: FloatArray) -> FloatArray:
    """Diagonal of C V C'.

    Parameters
    ----------
    contrasts : ndarray, shape (m, k)
        C.
    matrix : ndarray, shape (k, k)
        V.

    Returns
    -------
    ndarray, shape (m,)
        c'Vc of each row.

    Examples
    --------
    >>> quadratic(np.array([[1.0, -1.0]]), np.eye(2)).tolist()
    [2.0]
    """
    if contrasts.size > SMALL and np.count_nonzero(contrasts) < DENSE_SHARE * contrasts.size:
        few = compressed(contrasts)  # of each row's many parameters a contrast has a few
        return np.asarray(few.multiply(few @ matrix).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.sum((contrasts @ matrix) * contrasts, axis=1))


def sum_blocks(parts: Iterator[FloatArray]) -> FloatArray:
    """Sum arrays one at a time, so that only one is held."""
    total = next(parts).copy()
    for part in parts:
        total += part
    return total


@dataclass(frozen=True, eq=False)
class CellSums:
    """Sums of each cell over its rows: what a cell estimator needs of the data.

    Parameters
    ----------
    count, weight, total : ndarray, shape (n_cells,)
        Rows, sum of weights, weighted sum of values.
    squares : ndarray, shape (n_cells,)
        Sum of w (value - cell mean)^2.
    low, high : ndarray, shape (n_cells,)
        Smallest and largest value.
    """

    count: FloatArray
    weight: FloatArray
    total: FloatArray
    squares: FloatArray
    low: FloatArray
    high: FloatArray


def cell_sums(values: FloatArray, cell: IntArray | None, n_cells: int, weights: FloatArray | None) -> CellSums:
    """Sums of the rows of each cell, in memory.

    Parameters
    ----------
    values : ndarray, shape (n_rows,)
        Values without missing ones.
    cell : ndarray of int, shape (n_rows,), optional
        Cell of each row; None when there is one.
    n_cells : int
        Number of cells.
    weights : ndarray, shape (n_rows,), optional
        Sampling weights.

    Returns
    -------
    CellSums
        One entry a cell.

    Examples
    --------
    >>> cell_sums(np.array([1.0, 0.0]), None, 1, None).squares.tolist()
    [0.5]
    """
    if cell is None:
        total = np.array([values.sum() if weights is None else weights @ values])
        weight = np.array([float(values.size) if weights is None else weights.sum()])
        residual = values - total[0] / weight[0]
        squares = np.array([residual @ residual if weights is None else weights @ residual**2])
        count, low, high = (np.array([float(x)]) for x in (values.size, np.min(values), np.max(values)))
        return CellSums(count, weight, total, squares, low, high)
    count = np.bincount(cell, minlength=n_cells).astype(float)
    weight = count if weights is None else _sums(cell, weights, n_cells)
    total = _sums(cell, values if weights is None else weights * values, n_cells)
    squared = (values - (total / weight)[cell]) ** 2
    squares = _sums(cell, squared if weights is None else weights * squared, n_cells)
    low, high = np.full(n_cells, np.inf), np.full(n_cells, -np.inf)
    np.minimum.at(low, cell, values)
    np.maximum.at(high, cell, values)
    return CellSums(count, weight, total, squares, low, high)


def _sums(cell: IntArray, values: FloatArray, n_cells: int) -> FloatArray:
    return np.asarray(np.bincount(cell, values, n_cells), dtype=np.float64)
