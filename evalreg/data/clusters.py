"""Labels to integer codes, joint codes, and what clusterings are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.checks import BoolArray, IntArray, held_property, listed, nearest
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.errors import ArgumentTypeError, MissingColumnError, MissingLabelsError

Axis: TypeAlias = tuple[str, ...]
"""The columns whose joint values identify the clusters of one dimension."""

# Beyond it not every whole number is a float.
EXACT = 2.0**53
# Up to this many table entries per row, a table of what is present is faster than hashing.
TABLE_PER_ROW = 16


@dataclass(frozen=True, eq=False)
class Codes:
    """A partition of the rows.

    Parameters
    ----------
    codes : ndarray of int, shape (n_rows,)
        Cluster of each row, from 0 to n_clusters - 1, every code present.
    n_clusters : int
        Number of clusters.
    labels : sequence, optional
        Label of each code; None for joint codes.
    parts : tuple of Codes
        What joint codes were made from.
    """

    codes: IntArray
    n_clusters: int
    labels: Any = None
    parts: tuple[Codes, ...] = ()

    @held_property
    def counts(self) -> IntArray:
        """Number of rows of each cluster, shape (n_clusters,)."""
        return np.bincount(self.codes, minlength=self.n_clusters)

    @held_property
    def first(self) -> IntArray:
        """The first row of each cluster, shape (n_clusters,)."""
        first = np.empty(self.n_clusters, dtype=np.intp)
        first[self.codes[::-1]] = np.arange(self.codes.size - 1, -1, -1)
        return first

    @held_property
    def order(self) -> tuple[IntArray, IntArray]:
        """Rows sorted by cluster, and where each cluster starts (with the end appended)."""
        n_rows = self.codes.size
        # Rows of a compressed sparse matrix are filled by a counting sort: linear, and stable.
        rows = sparse.coo_array(
            (np.ones(n_rows, dtype=np.int8), (self.codes, np.arange(n_rows))), shape=(self.n_clusters, max(n_rows, 1))
        ).tocsr()
        return rows.indices.astype(np.intp), rows.indptr.astype(np.intp)

    def label(self, code: int) -> str:
        """Return the label of one cluster, joint labels with a colon."""
        if self.parts:
            row = int(self.first[code])
            return ":".join(part.label(int(part.codes[row])) for part in self.parts)
        return str(code if self.labels is None else self.labels[code])


# Before 3.0 pandas compares text up to its first zero byte, so that two labels would be one.
CUTS_AT_NUL = len(pd.factorize(np.array(["a\0b", "a\0c"], dtype=object))[1]) < 2


def factorize(values: Any) -> tuple[IntArray, Any]:
    """Codes of labels of any kind in order of appearance, -1 where missing, and the label of each code."""
    if isinstance(values, range):
        values = np.asarray(values)
    elif isinstance(values, list | tuple):
        array = np.empty(len(values), dtype=object)
        array[:] = values
        values = array
    try:
        codes, labels = pd.factorize(values)
        if CUTS_AT_NUL and any(isinstance(label, str) and "\0" in label for label in labels):
            codes, labels = _factorize_one_by_one(np.asarray(values, dtype=object))
    except TypeError:
        raise ArgumentTypeError(
            "labels must be one-dimensional, one hashable value a row (text, numbers, tuples); got lists or the like."
        ) from None
    refuse_inexact(np.asarray(labels))
    return codes.astype(np.intp, copy=False), labels


def refuse_inexact(labels: Any, name: str = "") -> None:
    """Raise if labels are floats so large that neighbours are one: 2^53 and 2^53 + 1 read alike."""
    if labels.dtype.kind == "f" and np.any(np.abs(labels) >= EXACT):
        where = f"column {name!r} holds" if name else "there is"
        raise ArgumentTypeError(
            "ids that are floats must be below 2^53, beyond which different ids become one; "
            f"{where} {np.nanmax(np.abs(labels)):.0f}. Read the column as whole numbers or as text."
        )


def _factorize_one_by_one(values: Any) -> tuple[IntArray, Any]:
    """The same, label by label."""
    code: dict[Any, int] = {}
    missing = pd.isna(values)
    codes = [-1 if gone else code.setdefault(value, len(code)) for value, gone in zip(values, missing, strict=True)]
    labels = np.empty(len(code), dtype=object)
    labels[:] = list(code)
    return np.asarray(codes, dtype=np.intp), labels


def as_codes(codes: IntArray, labels: Any = None) -> Codes:
    """Codes numbered anew without gaps, in their order; the labels are of all values, used or not."""
    if codes.size == 0:
        return Codes(codes, 0, labels)
    present = np.bincount(codes) > 0
    if present.all():
        return Codes(codes, present.size, labels)
    renumbered = np.cumsum(present) - 1
    kept = None if labels is None else np.asarray(labels, dtype=object)[: present.size][present]
    return Codes(renumbered[codes], int(renumbered[-1]) + 1, kept)


def joint(parts: Sequence[Codes]) -> Codes:
    """Codes of the combinations of several partitions of the same rows, as far as they occur."""
    if len(parts) == 1:
        return parts[0]
    codes, n_clusters = parts[0].codes, parts[0].n_clusters
    for part in parts[1:]:
        # Re-numbered after each pairing, so that the product of two counts cannot overflow.
        pair = pair_codes(codes, n_clusters, part.codes, part.n_clusters)
        codes, n_clusters = pair.codes, pair.n_clusters
    return Codes(codes, n_clusters, None, tuple(parts))


def pair_codes(first: IntArray, n_first: int, second: IntArray, n_second: int) -> Codes:
    """Codes of the observed pairs of two codes, in the order of (first, second) where a table fits."""
    key = first.astype(np.int64) * n_second + second
    n_table = n_first * n_second
    if n_table <= TABLE_PER_ROW * key.size + 1024:
        present = np.zeros(n_table, dtype=bool)
        present[key] = True
        # Half the memory of the table, which is the largest array here.
        number = np.cumsum(present, dtype=np.int32 if key.size < 2**31 else np.intp)
        return Codes(number[key].astype(np.intp) - 1, int(number[-1]))
    codes, labels = pd.factorize(key)
    return Codes(codes, len(labels))


def restricted(codes: Codes, rows: BoolArray) -> Codes:
    """Labels of some of the rows, every code present."""
    part = as_codes(codes.codes[rows], codes.labels)
    return replace(part, parts=tuple(restricted(one, rows) for one in codes.parts)) if codes.parts else part


def used_codes(name: str, codes: IntArray, labels: Any, every_row: bool = False) -> Codes:
    """Codes of rows in use, none of which may be missing; `every_row` says that each code occurs."""
    lowest = int(np.min(codes, initial=0))
    if lowest < 0:
        rows, count = row_list(codes < 0)
        raise MissingLabelsError(
            f'`groups="{name}"` must give an id to every row in use; {count} of {codes.size} have none '
            f"({rows_text(rows, count)} of those in use). Fit again with groups={name!r}, which drops and counts them.",
            column=name,
            rows=rows,
            count=count,
        )
    return Codes(codes, len(labels), labels) if every_row else as_codes(codes, labels)


def union(*axes: Axis) -> Axis:
    """Return the columns of several axes, each once."""
    return tuple(dict.fromkeys(name for axis in axes for name in axis))


def axis_name(axis: Axis) -> str:
    """Return the columns of an axis joined by a colon, as in ``n_clusters``."""
    return ":".join(axis)


def find_axis(name: str, axes: Sequence[Axis]) -> Axis:
    """Return the axis of that name among `axes`."""
    for axis in axes:
        if axis_name(axis) == name:
            return axis
    names = [axis_name(axis) for axis in axes]
    text = f'"{name}" is not among the clusterings {listed(names)}.{nearest(name, names)}'
    raise MissingColumnError(text, column=name)
