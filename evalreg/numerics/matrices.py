"""Dense and sparse matrices alike: from one to the other, columns scaled, products and sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray
from evalreg.numerics.limits import HELD, ROUNDING

Matrix: TypeAlias = Any
"""A dense array or a scipy sparse array."""

# Above this share of entries that are there, a dense product is faster than a sparse one.
DENSE_SHARE = 0.25
# Up to so many entries, what scipy does before and after a sparse product takes far longer than one with zeros.
SMALL = 1 << 12
# Entries of arrays that stay in a processor's cache while several steps are made on them.
CACHED = HELD >> 6


def dense(matrix: Matrix) -> FloatArray:
    """Return a sparse array as a dense one, a dense one as it is."""
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)


def faster_dense(matrix: Matrix) -> bool:
    """Return whether so much of a sparse array is there that it is faster dense."""
    return hasattr(matrix, "nnz") and matrix.nnz > DENSE_SHARE * matrix.shape[0] * matrix.shape[1]


def compressed(matrix: Matrix) -> Matrix:
    """Return an array in compressed sparse rows; what already is one as it is."""
    if isinstance(matrix, sparse.csr_array):
        return matrix
    if isinstance(matrix, np.ndarray) and matrix.ndim == 2:
        matrix = np.asarray(matrix)
        nonzero = matrix != 0
        row, column = nonzero.nonzero()
        return of_sorted(matrix[nonzero], row, column, matrix.shape)
    return sparse.csr_array(matrix)


_NONE = sparse.csr_array((1, 1))
_LARGEST_INDEX = np.iinfo(np.int32).max


def in_rows(data: FloatArray, indices: IntArray, indptr: IntArray, shape: tuple[int, int]) -> Matrix:
    """Return an array in compressed sparse rows, of parts that are known to fit together.

    scipy's constructor looks for the type of indices and at whether parts fit, which takes many times as long as a
    small log's sums.
    """
    dtype = np.int32 if max(data.size, *shape) <= _LARGEST_INDEX else np.int64
    matrix: Matrix = object.__new__(sparse.csr_array)
    matrix.__dict__.update(_NONE.__dict__)
    matrix.data, matrix.indices = data, indices.astype(dtype, copy=False)
    matrix.indptr, matrix._shape = indptr.astype(dtype, copy=False), shape
    return matrix


def _starts(row: IntArray, n_rows: int) -> IntArray:
    """Return where each row begins among entries that are in order of their rows, and where the last ends."""
    starts = np.zeros(n_rows + 1, dtype=np.intp)
    np.cumsum(np.bincount(row, minlength=n_rows), out=starts[1:])
    return starts


def of_sorted(data: FloatArray, row: IntArray, column: IntArray, shape: tuple[int, int]) -> Matrix:
    """Return an array in compressed sparse rows, of entries in order of their rows and columns, each there once."""
    matrix = in_rows(data, column, _starts(row, shape[0]), shape)
    matrix.has_canonical_format = True
    return matrix


def with_entries(rows: Matrix, data: FloatArray) -> Matrix:
    """Return an array in compressed sparse rows with other entries in the same places.

    The places are shared where they are in order. Others scipy may put in order at any time, of one array alone.
    """
    if not rows.has_canonical_format:
        return in_rows(data, rows.indices.copy(), rows.indptr.copy(), rows.shape)
    matrix = in_rows(data, rows.indices, rows.indptr, rows.shape)
    matrix.has_canonical_format = True
    return matrix


def without_zeros(rows: Matrix) -> Matrix:
    """Return an array in compressed sparse rows without stored zeros; one without any as it is."""
    nonzero = rows.data != 0
    if nonzero.all():
        return rows
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))[nonzero]
    return in_rows(rows.data[nonzero], rows.indices[nonzero], _starts(row, rows.shape[0]), rows.shape)


def identity(n: int) -> Matrix:
    """Return the identity matrix in compressed sparse rows."""
    return in_rows(np.ones(n), np.arange(n), np.arange(n + 1), (n, n))


def transposed(rows: Matrix) -> Matrix:
    """Return the transpose of an array in compressed sparse rows, in compressed sparse rows."""
    if rows.data.size > SMALL:
        return rows.T.tocsr()
    order = np.argsort(rows.indices, kind="stable")
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))[order]
    return in_rows(rows.data[order], row, _starts(rows.indices[order], rows.shape[1]), rows.shape[::-1])


def _is_diagonal(rows: Matrix) -> bool:
    """Return whether an array in compressed sparse rows has its diagonal stored, and nothing else."""
    n, m = rows.shape
    if not n == m == rows.indices.size:
        return False
    places = np.arange(n)
    return bool(np.all(rows.indices == places) and np.all(rows.indptr[:-1] == places))


def small_product(left: Matrix, right: Matrix) -> bool:
    """Return whether the right of two arrays is better dense in a product, as that is so small."""
    (n, k), m = left.shape, right.shape[1]
    return bool(max(n * k, k * m, n * m) <= SMALL)


def times(left: Matrix, right: Matrix) -> Matrix:
    """Return the product of two arrays in compressed sparse rows, in compressed sparse rows."""
    if _is_diagonal(right):
        return scale_columns(left, right.data)
    if not small_product(left, right):
        return left @ right
    product = left @ right.toarray()
    # A zero that is not stored makes no NaN of an infinite number.
    return compressed(product) if np.isfinite(product).all() else left @ right


def stacked(parts: Sequence[Matrix]) -> Matrix:
    """Return arrays in compressed sparse rows above one another."""
    return parts[0] if len(parts) == 1 else sparse.vstack(parts).tocsr()


def totals_of_columns(rows: Matrix) -> FloatArray:
    """Return the sum of each column of an array in compressed sparse rows."""
    return np.bincount(rows.indices, rows.data, rows.shape[1]).astype(np.float64, copy=False)


def squared_entries(matrix: Matrix) -> Matrix:
    """Return the square of each entry."""
    return with_entries(rows := compressed(matrix), rows.data**2) if sparse.issparse(matrix) else matrix**2


def absolute_entries(matrix: Matrix) -> Matrix:
    """Return the absolute value of each entry, in compressed sparse rows."""
    return with_entries(rows := compressed(matrix), np.abs(rows.data))


def signs_of_entries(matrix: Matrix) -> Matrix:
    """Return the sign of each entry, in compressed sparse rows."""
    return with_entries(rows := compressed(matrix), np.sign(rows.data))


def nonzero_entries(matrix: Matrix) -> Matrix:
    """Return one in the place of each entry that is not zero, in compressed sparse rows."""
    return with_entries(rows := compressed(matrix), (rows.data != 0).astype(np.float64))


def difference_rows(left: IntArray, right: IntArray, n: int) -> Matrix:
    """Return rows of n columns with 1 at `left` and -1 at `right`, left < right, in compressed sparse rows."""
    m = left.size
    columns, signs = np.column_stack([left, right]).ravel(), np.tile([1.0, -1.0], m)
    return in_rows(signs, columns, 2 * np.arange(m + 1), (m, n))


def of_columns(rows: Matrix, right: Matrix) -> Matrix:
    """Return the product of two arrays in compressed sparse rows; entries move where the second has one in each row."""
    if not np.all(np.diff(right.indptr) == 1):
        return rows @ right
    data, columns = rows.data * right.data[rows.indices], right.indices[rows.indices]
    moved = in_rows(data, columns, rows.indptr.copy(), (rows.shape[0], right.shape[1]))
    moved.sum_duplicates()
    return moved


def single_column(values: FloatArray) -> Matrix:
    """Return one value a row as a column in compressed sparse rows, every entry stored."""
    n_rows = values.size
    return in_rows(values, np.zeros(n_rows, np.int32), np.arange(n_rows + 1, dtype=np.int32), (n_rows, 1))


def scale_columns(matrix: Matrix, factor: FloatArray) -> Matrix:
    """Return an array in compressed sparse rows, each column multiplied by a number."""
    rows = compressed(matrix)
    return with_entries(rows, rows.data * factor[rows.indices])


def scale_rows(matrix: Matrix, factor: FloatArray) -> Matrix:
    """Return an array, dense or in compressed sparse rows, each row multiplied by a number."""
    if not sparse.issparse(matrix):
        return factor[:, None] * matrix
    rows = compressed(matrix)
    return with_entries(rows, rows.data * np.repeat(factor, np.diff(rows.indptr)))


def row_products(left: Matrix, right: Matrix) -> Matrix:
    """Return every entry of a row times every entry of the same row of another array, (n_rows, k * k_right)."""
    n_left, n_right = np.diff(left.indptr), np.diff(right.indptr)
    row = np.repeat(np.arange(left.shape[0]), n_left * n_right)
    first = np.repeat(np.arange(left.nnz), np.repeat(n_right, n_left))
    starts = np.concatenate([[0], np.cumsum(n_left * n_right)])
    second = right.indptr[row] + (np.arange(row.size) - starts[row]) % n_right[row]
    column = left.indices[first].astype(np.int64) * right.shape[1] + right.indices[second]
    data, shape = left.data[first] * right.data[second], (left.shape[0], left.shape[1] * right.shape[1])
    products = in_rows(data, column, starts, shape)
    products.has_canonical_format = bool(left.has_canonical_format and right.has_canonical_format)
    return products


def weighted_gram(columns: Matrix, design: Matrix, weight: FloatArray) -> FloatArray:
    """X'WX of a design X, dense or in compressed sparse rows; `columns` is X', in the same kind of array."""
    return dense(columns @ scale_rows(design, weight))


def is_identity(matrix: Matrix) -> bool:
    """Whether a matrix is exactly the identity, a product with which would change nothing."""
    return matrix.shape[0] == matrix.shape[1] == (matrix != 0).sum() and bool(np.all(matrix.diagonal() == 1.0))


def square(totals: Matrix, bread: Matrix) -> FloatArray:
    """B'T'TB: the sum of outer products of cluster totals T, mapped by the bread B, shape (n_params, n_params)."""
    if faster_dense(totals):
        totals = dense(totals)  # whose products are many times faster
    influence = totals @ bread
    return dense(influence.T @ influence)


def white(totals: Matrix, bread: Matrix) -> FloatArray:
    """B'T'TB as `square` has it, by statsmodels where cluster totals T are dense; it multiplies no sparse arrays."""
    if not (isinstance(totals, np.ndarray) or faster_dense(totals)):
        return square(totals, bread)
    from statsmodels.stats.sandwich_covariance import S_white_simple

    return np.asarray(S_white_simple(dense(dense(totals) @ bread)))


def square_of_rows(squares: FloatArray, bread: Matrix) -> FloatArray:
    """B'T'TB of rows with an entry in one column each, from the sum of their squares in each column."""
    return inner_products(scale_rows(bread, np.sqrt(squares)))


def inverse_root(matrix: FloatArray, least: float = ROUNDING) -> FloatArray:
    """R with R R' = V^-1 of symmetric matrices (..., q, q); NaN where an eigenvalue is `least` or less."""
    spread = np.einsum("...ii->...i", matrix)
    unit = np.sqrt(np.where(spread > 0, spread, 1.0))
    values, axes = np.linalg.eigh(matrix / (unit[..., :, None] * unit[..., None, :]))
    regular = (values[..., :1] > least * values[..., -1:]) & np.all(spread > 0, axis=-1, keepdims=True)
    return axes / unit[..., :, None] / np.sqrt(np.where(regular, values, np.nan))[..., None, :]


def inner_products(matrix: Matrix) -> FloatArray:
    """X'X, by way of a dense array where so much of it is there that this is faster."""
    matrix = dense(matrix) if faster_dense(matrix) else matrix
    return dense(matrix.T @ matrix)


def parts_of(n: int, step: int = CACHED) -> Iterator[slice]:
    """Places in an array of n entries, so many at a time."""
    return (slice(first, min(first + step, n)) for first in range(0, n, step))


def sum_blocks(parts: Iterator[FloatArray]) -> FloatArray:
    """Sum arrays one at a time, so that only one is held."""
    total = next(parts).copy()
    for part in parts:
        total += part
    return total
