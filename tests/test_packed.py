"""Matrices of clusters with the columns alone that their rows touch: the entries of the whole ones, none lost."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from evalreg.numerics.matrices import compressed
from evalreg.numerics.packed import Touched

K = 7


def matrices_of(members: np.ndarray, design: np.ndarray) -> np.ndarray:
    """X'WX of each cluster, by loops; members hold the weights."""
    return np.array([sum(w * np.outer(x, x) for w, x in zip(own, design, strict=True)) for own in members])


@pytest.mark.parametrize("n_entries", [1, 1 << 20])
def test_packed_matrices_hold_every_entry_of_the_whole_ones(n_entries: int) -> None:
    rng = np.random.default_rng(2)
    design = rng.normal(size=(30, K)) * (rng.random((30, K)) < 0.25)
    members = rng.random((40, 30)) * (rng.random((40, 30)) < rng.uniform(0, 0.3, (40, 1)))
    whole = matrices_of(members, design)
    touched = Touched.of(compressed(members), compressed(design))
    found = np.zeros_like(whole)
    for places, entries in touched.packed(compressed(whole.reshape(40, -1)), n_entries):
        columns, clusters = touched.column[places], touched.cluster[places]
        np.testing.assert_array_equal(touched.place(clusters, columns), places)
        found[clusters[:, :, None], columns[:, :, None], columns[:, None, :]] = entries
    np.testing.assert_array_equal(found, whole)


def test_a_cell_without_weight_keeps_the_columns_that_it_touches() -> None:
    members = sparse.csr_array((np.array([0.0, 2.0]), (np.array([0, 1]), np.array([0, 1]))), shape=(2, 2))
    design = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
    touched = Touched.of(members, compressed(design))
    assert touched.column.tolist() == [0, 1, 1, 2]
    whole = compressed(matrices_of(members.toarray(), design).reshape(2, -1))
    ((places, entries),) = touched.packed(whole, 100)
    np.testing.assert_array_equal(entries, [np.zeros((2, 2)), [[2.0, -2.0], [-2.0, 2.0]]])
    assert places.tolist() == [[0, 1], [2, 3]]
