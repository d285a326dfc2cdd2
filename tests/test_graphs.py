"""Chains of wins: who reaches whom, against powers of the adjacency matrix."""

from __future__ import annotations

import numpy as np
import pytest

from evalreg.estimators.ratings import reachable, strong_components


@pytest.mark.parametrize("seed", range(40))
def test_components_are_those_of_the_powers_of_the_adjacency_matrix(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    start, end = rng.integers(0, n, (2, int(rng.integers(0, 2 * n))))
    step = np.eye(n, dtype=int)
    step[start, end] = 1
    reaches = np.linalg.matrix_power(step, n) > 0
    assert np.array_equal(reachable(start, end, n), reaches)
    first, part = strong_components(reaches)
    mutual = reaches & reaches.T
    assert np.array_equal(part[:, None] == part[None, :], mutual)
    assert [np.flatnonzero(part == k)[0] for k in range(first.size)] == first.tolist()


def test_a_graph_on_which_another_search_does_not_end():
    # Strong components by scipy 1.13.0 run for ever here.
    start, end = np.array([3, 1, 1, 0, 0, 0, 3, 5, 3, 3]), np.array([5, 4, 3, 3, 3, 5, 4, 0, 2, 5])
    assert strong_components(reachable(start, end, 6))[1].tolist() == [0, 1, 2, 0, 3, 0]
