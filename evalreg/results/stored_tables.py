"""Tables, matrices and intervals out of the JSON of results, checked."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray
from evalreg.errors import LogFormatError
from evalreg.report.documents import numbers

# Columns of tables that are no numbers, and those that are whole ones.
TEXT = ("parameter", "model", "baseline", "letters")
WHOLE = ("n", "n_clusters", "n_unpaired", "rank", "rank_lower", "rank_upper", "tier")
# The order of columns, which JSON with sorted keys does not keep.
ORDER = (
    *("parameter", "model", "baseline", "rank", "rank_lower", "rank_upper", "estimate", "difference", "se"),
    *("lower", "upper", "joint_lower", "joint_upper", "letters", "tier", "p_value", "p_adjusted", "correlation", "n"),
    *("n_clusters", "dof", "variance_saved", "n_unpaired", "paired"),
)
STATISTICS = ("estimate", "se", "naive_se", "t", "dof", "p_value")


@dataclass(frozen=True, eq=False)
class PairTable:
    """Differences of pairs of parameters, by place."""

    places: np.ndarray[Any, np.dtype[np.intp]]
    frame: pd.DataFrame
    ends: dict[float, FloatArray]


def read_ends(entries: list[dict[str, Any]], size: int) -> dict[float, FloatArray]:
    """Intervals by their level, each of shape (size, 2)."""
    ends = {float(one["alpha"]): np.column_stack([numbers(one["lower"]), numbers(one["upper"])]) for one in entries}
    if not ends or any(one.shape != (size, 2) for one in ends.values()):
        raise LogFormatError(f"`intervals` must have levels with an interval for each of the {size} parameters.")
    return ends


def pairs_from(found: dict[str, Any], size: int) -> PairTable:
    """Differences of pairs, as they were written."""
    places = np.column_stack([np.array(found[side], dtype=np.intp) for side in ("left", "right")])
    if places.tolist() != [list(pair) for pair in combinations(range(size), 2)]:
        raise LogFormatError(f"`pairs` must hold each pair of the {size} parameters once, in their order.")
    frame = pd.DataFrame({name: numbers(found[name]) for name in STATISTICS})
    return PairTable(places, frame, read_ends(found["intervals"], len(frame)))


def read_matrix(rows: list[list[Any]], name: str, size: int | None = None) -> FloatArray:
    """A square matrix, with a row for each of `size` parameters."""
    matrix = np.array([numbers(row) for row in rows], dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or size not in (None, matrix.shape[0]):
        raise LogFormatError(f"`{name}` of the covariance must have a row and a column for each parameter.")
    return matrix


def table_from(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """A table from its rows, with numbers where they were."""
    found_names = dict.fromkeys(name for row in rows for name in row)
    names = [*(name for name in ORDER if name in found_names), *(name for name in found_names if name not in ORDER)]
    columns: dict[str, Any] = {}
    for name in names:
        values = [row[name] for row in rows]
        if name in TEXT:
            columns[name] = [str(value) for value in values]
        elif name == "paired":
            columns[name] = pd.Series(values, dtype=bool)
        else:
            found = numbers(values)
            whole = name in WHOLE and bool(np.isfinite(found).all())
            columns[name] = found.astype(np.intp) if whole else found
    return pd.DataFrame(columns)
