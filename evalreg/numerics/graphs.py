"""Who reaches whom along directed edges."""

from __future__ import annotations

import numpy as np

from evalreg.checks import BoolArray, IntArray


def reachable(start: IntArray, end: IntArray, n_nodes: int) -> BoolArray:
    """Whether a chain of edges leads from one node to another, each to itself included; shape (n_nodes, n_nodes).

    Warshall (1962), Journal of the ACM 9(1), 11-12. Strong components by scipy 1.13 do not end on some graphs.
    """
    reaches = np.eye(n_nodes, dtype=bool)
    reaches[start, end] = True
    for through in range(n_nodes):
        before = np.flatnonzero(reaches[:, through])
        reaches[before] |= reaches[through]
    return reaches


def strong_components(reaches: BoolArray) -> tuple[IntArray, IntArray]:
    """First node of each set of nodes that reach each other, shape (n_sets,), and the set of each, shape (n_nodes,)."""
    first, part = np.unique(np.argmax(reaches & reaches.T, axis=1), return_inverse=True)
    return first.astype(np.intp), part.reshape(-1).astype(np.intp)
