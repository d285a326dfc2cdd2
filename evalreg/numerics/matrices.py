"""Dense and sparse matrices alike: from one to the other, columns scaled, products and sums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray

Matrix: TypeAlias = Any
"""A dense array or a scipy sparse array."""

# Above this share of entries that are there, a dense product is faster than a sparse one.
DENSE_SHARE = 0.25


def dense(matrix: Matrix) -> FloatArray:
    """Return a sparse array as a dense one, a dense one as it is."""
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)


def mostly_there(matrix: Matrix) -> bool:
    """Return whether so much of a sparse array is there that it is faster dense."""
    return hasattr(matrix, "nnz") and matrix.nnz > DENSE_SHARE * matrix.shape[0] * matrix.shape[1]


def compressed(matrix: Matrix) -> Matrix:
    """Return an array in compressed sparse rows; what already is one as it is."""
    return matrix if isinstance(matrix, sparse.csr_array) else sparse.csr_array(matrix)


def squared_entries(matrix: Matrix) -> Matrix:
    """Return the square of each entry."""
    if not sparse.issparse(matrix):
        return matrix**2
    rows = compressed(matrix)
    return sparse.csr_array((rows.data**2, rows.indices, rows.indptr), rows.shape)


def difference_rows(left: IntArray, right: IntArray, n: int) -> Matrix:
    """Return rows of n columns with 1 at `left` and -1 at `right`, left < right, in compressed sparse rows."""
    m = left.size
    columns, signs = np.column_stack([left, right]).ravel(), np.tile([1.0, -1.0], m)
    return sparse.csr_array((signs, columns, 2 * np.arange(m + 1)), (m, n))


def of_columns(rows: Matrix, own: Matrix) -> Matrix:
    """Return the product of two arrays in compressed sparse rows; entries move where the second has one in each row."""
    if not np.all(np.diff(own.indptr) == 1):
        return rows @ own
    data, columns = rows.data * own.data[rows.indices], own.indices[rows.indices]
    moved = sparse.csr_array((data, columns, rows.indptr.copy()), (rows.shape[0], own.shape[1]))
    moved.sum_duplicates()
    return moved


def single_column(values: FloatArray) -> Matrix:
    """Return one value a row as a column in compressed sparse rows, every entry stored."""
    n_rows = values.size
    return sparse.csr_array((values, np.zeros(n_rows, np.int32), np.arange(n_rows + 1, dtype=np.int32)), (n_rows, 1))


def scale_columns(matrix: Matrix, factor: FloatArray) -> Matrix:
    """Return an array in compressed sparse rows, each column multiplied by a number."""
    rows = compressed(matrix)
    return sparse.csr_array((rows.data * factor[rows.indices], rows.indices, rows.indptr), rows.shape)


def square(totals: Matrix, bread: Matrix) -> FloatArray:
    """B'T'TB: the sum of outer products of cluster totals T, mapped by the bread B, shape (n_params, n_params)."""
    if mostly_there(totals):
        totals = dense(totals)  # whose products are many times faster
    influence = totals @ bread
    product = influence.T @ influence
    return dense(product)


def sum_blocks(parts: Iterator[FloatArray]) -> FloatArray:
    """Sum arrays one at a time, so that only one is held."""
    total = next(parts).copy()
    for part in parts:
        total += part
    return total
