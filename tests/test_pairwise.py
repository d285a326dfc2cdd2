"""Sets of products in which every pair of values occurs."""

from __future__ import annotations

import itertools

import pytest
from pairwise import covering


def pairs(rows):
    """Every pair of values in two columns."""
    width = range(len(rows[0]))
    return {(i, j, row[i], row[j]) for row in rows for i, j in itertools.combinations(width, 2)}


@pytest.mark.parametrize(
    "sizes", [(2, 2), (3, 3, 3), (2, 2, 2, 2, 2), (8, 3, 6), (37, 4, 7), (5, 1, 4), (10, 10, 3, 2)]
)
def test_every_pair_of_values_occurs_and_few_rows_are_needed(sizes):
    rows = list(itertools.product(*map(range, sizes)))
    chosen = [rows[position] for position in covering(rows)]
    assert pairs(chosen) == pairs(rows)
    largest, second = sorted(sizes)[-1], sorted(sizes)[-2]
    assert largest * second <= len(chosen) <= 1.5 * largest * second + 3
