"""Sparse arrays put together without scipy's checks: the same numbers as numpy's, and no part shared by accident."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from evalreg.numerics import matrices
from evalreg.numerics.matrices import compressed, dense, times, with_entries, without_zeros


@pytest.mark.parametrize("shape", [(7, 5, 3), (90, 40, 60), (300, 80, 90)])
def test_products_transposes_and_sums_are_those_of_numpy(shape: tuple[int, int, int]) -> None:
    rng, (n, k, m) = np.random.default_rng(0), shape
    A, B = (rng.normal(size=size) * (rng.random(size) < 0.3) for size in ((n, k), (k, m)))
    a, b, factor = compressed(A), compressed(B), np.arange(1.0, k + 1)
    np.testing.assert_array_equal(dense(a), A)
    np.testing.assert_allclose(dense(times(a, b)), A @ B, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(dense(matrices.transposed(a)), A.T)
    np.testing.assert_allclose(matrices.totals_of_columns(a), A.sum(axis=0), rtol=0, atol=1e-13)
    scaled = matrices.scale_rows(matrices.identity(k), factor)
    np.testing.assert_array_equal(dense(times(a, scaled)), A * factor)
    some = with_entries(a, np.where(a.data > 0, a.data, 0.0))
    kept = without_zeros(some)
    assert (kept.data != 0).all()
    np.testing.assert_array_equal(dense(kept), np.where(A > 0, A, 0.0))


def test_a_product_with_infinite_numbers_takes_only_what_is_stored() -> None:
    found = times(compressed(np.array([[np.inf, 0.0], [0.0, 2.0]])), compressed(np.array([[0.0, 3.0], [1.0, 0.0]])))
    np.testing.assert_array_equal(dense(found), [[0.0, np.inf], [2.0, 0.0]])


def test_entries_put_in_order_in_one_array_leave_another_in_its_places() -> None:
    unordered = sparse.csr_array((np.array([1.0, 2.0, 3.0]), np.array([2, 0, 1]), np.array([0, 2, 3])), (2, 3))
    squares = with_entries(unordered, unordered.data**2)
    unordered.sum_duplicates()
    np.testing.assert_array_equal(dense(squares), [[4.0, 0.0, 1.0], [0.0, 9.0, 0.0]])
