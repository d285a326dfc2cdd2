"""Sets of products in which every pair of values occurs."""

from __future__ import annotations

import itertools

import pytest
from pairwise import covering

pytest_plugins = ["pytester"]


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


FILE = """
import pytest

@pytest.mark.pairwise
@pytest.mark.parametrize("unit", [1, 1.0, True])
@pytest.mark.parametrize("kind", [{"a": 1}, {"a": 2}])
@pytest.mark.parametrize("name", ["x", "y", "z"])
def test_product(unit, kind, name):
    pass

@pytest.mark.parametrize("unit", [1, 2, 3])
@pytest.mark.parametrize("name", ["x", "y", "z"])
def test_other(unit, name):
    pass
"""


def test_the_rest_of_a_product_is_slow(pytester):
    pytester.makeini("[pytest]\nmarkers =\n    slow: a\n    pairwise: b")
    pytester.makeconftest(
        "import pytest\nfrom pairwise import mark_the_rest\n\n"
        "@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_collection_modifyitems(items):\n    mark_the_rest(items)\n"
    )
    pytester.makepyfile(test_it=FILE)
    # Nine pairs of unit and name are the least that hold all pairs of the three.
    pytester.inline_run("-m", "not slow").assertoutcome(passed=9 + 9)
    pytester.inline_run("-m", "slow").assertoutcome(passed=9)
    pytester.inline_run().assertoutcome(passed=18 + 9)


def test_between_the_first_case_and_the_last_only_the_contract_and_what_is_slow_stay(pytester):
    pytester.makeini("[pytest]\nmarkers =\n    slow: a\n    pairwise: b")
    pytester.makeconftest(
        "from pairwise import between_first_and_last\n\n"
        "def pytest_collection_modifyitems(items):\n"
        "    items[:] = [item for item in items if item not in between_first_and_last(items)]\n"
    )
    slow = "\n@pytest.mark.slow\n@pytest.mark.parametrize('x', [1, 2, 3])\ndef test_long(x):\n    pass\n"
    pytester.makepyfile(test_it=FILE + slow)
    pytester.mkdir("contract").joinpath("test_contract.py").write_text(FILE)
    pytester.inline_run("test_it.py").assertoutcome(passed=2 + 2 + 3)
    pytester.inline_run("contract").assertoutcome(passed=18 + 9)
