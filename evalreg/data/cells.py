"""Rows that fall into cells, one for each joint value of `by` (and stratum): one row for each model and question."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evalreg.checks import FloatArray, IntArray, listed
from evalreg.data.clusters import Codes, joint
from evalreg.data.frame import Table
from evalreg.data.groups import Groups
from evalreg.data.questions import shared_rows
from evalreg.data.repeats import Told, one_row_an_item
from evalreg.data.rows import ReadRows, Roles, read_rows, weights_name
from evalreg.errors import DataError


@dataclass(frozen=True, eq=False)
class CellRows:
    """Rows in cells, answers to one item averaged.

    Parameters
    ----------
    keys : list of tuple of str
        Labels of each cell: those of `by`, then the stratum; sorted as text.
    cell : ndarray of int, shape (n_rows,), optional
        Cell of each row; None when there is one.
    rows : ReadRows
        One for each (by, item), where there is an item.
    item : Codes, optional
        Items of the rows before they were averaged.
    lines : tuple of str
        What to say about them.
    """

    keys: list[tuple[str, ...]]
    cell: IntArray | None
    rows: ReadRows
    item: Codes | None
    lines: tuple[str, ...] = ()

    @property
    def values(self) -> FloatArray:
        """Scores, shape (n_rows,)."""
        return self.rows.values["score"]


def read_cells(table: Table, roles: Roles, groups: Groups) -> CellRows:
    """Rows in memory, in cells: those of shared items only where that is asked for, and one row an item."""
    rows = read_rows(
        table,
        {"score": roles.score},
        labels=roles.labels,
        weights=roles.weights,
        groups=groups,
        missing=roles.missing,
        split=roles.cell_columns,
    )
    lines: tuple[str, ...] = ()
    if roles.questions == "shared":
        rows, lines = _shared_questions(rows, roles)
    item = None if roles.item is None else rows.used[roles.item]
    if roles.item is not None:
        told = Told((*roles.by, roles.item), roles.sample, roles.score, weights_name(roles.weights))
        rows = one_row_an_item(rows, told, roles.combine)
    keys, cell = cells_of(rows.used, roles.cell_columns)
    return CellRows(keys, cell, rows, item, lines)


def _shared_questions(rows: ReadRows, roles: Roles) -> tuple[ReadRows, tuple[str, ...]]:
    """The rows of items that all models have, and what to say about them."""
    assert roles.item is not None
    models = joint([rows.used[name] for name in roles.by])
    names = tuple(models.label(code) for code in range(models.n_clusters))
    kept, line = shared_rows(models, names, rows.used[roles.item], roles.item)
    return (rows if kept.all() else rows.only(kept, "unshared")), (line,)


def cells_of(used: dict[str, Codes], columns: Sequence[str]) -> tuple[list[tuple[str, ...]], IntArray | None]:
    """Keys of the cells, sorted as text, and the cell of each row; one unnamed cell, and None, without columns."""
    if not columns:
        return [()], None
    cells = joint([used[name] for name in columns])
    first = cells.first
    texts = [tuple(used[name].label(int(used[name].codes[row])) for name in columns) for row in first]
    order = sorted(range(len(texts)), key=texts.__getitem__)
    alike = [":".join(texts[i]) for i, j in itertools.pairwise(order) if texts[i] == texts[j]]
    if alike:
        raise DataError(
            f"labels must be distinct as text; different values of {' and '.join(map(repr, columns))} all read "
            f"{listed(alike)}. Convert the column to one type first.",
            column=columns[0],
            count=len(alike),
        )
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    return [texts[i] for i in order], np.asarray(rank[cells.codes])


def joint_names(models: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Names of parameters from the labels of `by`, joined by a colon and all distinct; "mean" without any."""
    names = [":".join(model) if model else "mean" for model in models]
    alike = [name for name, times in Counter(names).items() if times > 1]
    if alike:
        raise DataError(
            f"the joint labels of `by` must be distinct as text; {listed(alike)} would name different values. Rename "
            "labels that contain a colon, or join the columns yourself.",
            count=len(alike),
        )
    return tuple(names)
