"""Of a product of parameters, a small set in which every pair of values occurs; the rest of the product is `slow`.

A test of several parameters (estimator x engine x clustering x covariance x format) grows as their product. Faults
that need three values at once are rare; one that two bring about is met wherever the two occur together. A test with
the mark `pairwise` therefore runs, by default, on a set that holds every pair of values of any two of its parameters
that its product holds. The rest of its product gets the mark `slow`: nothing is dropped, and `.ci/simulations` runs it.
What of a product is `slow` for another reason is not chosen from.

The set is chosen by a greedy rule without chance, so that every run chooses alike.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pytest


def covering(rows: Sequence[Sequence[Hashable]]) -> list[int]:
    """Positions of rows that hold, two columns at a time, every pair of values that the rows hold."""
    pairs = [frozenset(itertools.combinations(enumerate(row), 2)) or frozenset(enumerate(row)) for row in rows]
    missing = set().union(*pairs)
    # What a row would add can only shrink: the first of the heap that still adds what it promised adds the most.
    heap = [(-len(adds), position) for position, adds in enumerate(pairs)]
    heapq.heapify(heap)
    chosen = []
    while missing:
        promised, position = heapq.heappop(heap)
        adds = len(pairs[position] & missing)
        if adds < -promised:
            heapq.heappush(heap, (-adds, position))
            continue
        chosen.append(position)
        missing -= pairs[position]
    return sorted(chosen)


def _key(value: Any) -> Hashable:
    """A value as one that can be looked up: 1, 1.0 and True are three, and what has no hash is itself alone."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value


def _row(parameters: Mapping[str, Any]) -> tuple[Hashable, ...]:
    return tuple(_key(parameters[name]) for name in sorted(parameters))


def mark_the_rest(items: Sequence[pytest.Item]) -> None:
    """Mark as slow, of every test with the mark `pairwise`, what its covering set leaves out."""
    tests: dict[Any, list[Any]] = {}
    for item in items:
        if item.get_closest_marker("pairwise") and not item.get_closest_marker("slow"):
            tests.setdefault((item.parent, item.originalname), []).append(item)  # type: ignore[attr-defined]
    for products in tests.values():
        chosen = set(covering([_row(item.callspec.params) for item in products]))
        for position, item in enumerate(products):
            if position not in chosen:
                item.add_marker("slow")


def between_first_and_last(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Items in between, of the cases of each test outside the contract."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not {"contract", "slow"} & {item.path.parent.name, *(mark.name for mark in item.iter_markers())}:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return [item for of_one in cases.values() for item in of_one[1:-1]]
