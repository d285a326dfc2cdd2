"""Rules of comparisons, wherever their rows lie: names of the two sides, pairs of models as cells, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import IntArray, listed
from evalreg.data.frame import Table
from evalreg.data.row_numbers import rows_text
from evalreg.data.verdicts import PairRoles, as_name
from evalreg.errors import DataError, DuplicateRowsError, SelfComparisonError


def present_models(left: IntArray, right: IntArray, models: list[str]) -> tuple[IntArray, IntArray, list[str]]:
    """Codes and names of the models that rows in use compare."""
    present = np.zeros(len(models), dtype=bool)
    present[left] = present[right] = True
    if present.all():
        return left, right, models
    number = np.cumsum(present) - 1
    return number[left], number[right], [models[i] for i in np.flatnonzero(present)]


def sides_of(table: Table, roles: PairRoles) -> tuple[tuple[IntArray, IntArray], list[str]]:
    """Codes of the left and right models in one list of names, sorted as text; -1 where missing."""
    sides = [table.labels(roles.left, "left"), table.labels(roles.right, "right")]
    values = [list(_as_objects(labels)) for _, labels in sides]
    kinds = [sorted({_kind(value) for value in column}) for column in values]
    refuse_unlike_names(" and ".join(kinds[0]), " and ".join(kinds[1]), roles)
    distinct = {(_kind(value), as_name(value)) for column in values for value in column}
    texts = [text for _, text in distinct]
    if len(set(texts)) < len(texts):
        twice = pd.Series(texts, dtype=object)
        twice = twice[twice.duplicated()]
        raise DataError(
            f"models' names must be distinct as text; different values all read {listed(twice)}. Convert the columns "
            f"{roles.left!r} and {roles.right!r} to one type first.",
            column=roles.left,
            count=int(twice.size),
        )
    models = sorted(texts)
    number = {name: code for code, name in enumerate(models)}
    codes = []
    for (of, _), names in zip(sides, values, strict=True):
        # One entry more, so that the code -1 of a missing name finds -1.
        place = np.array([*(number[as_name(name)] for name in names), -1], dtype=np.intp)
        codes.append(place[of])
    return (codes[0], codes[1]), models


def refuse_unlike_names(left: str, right: str, roles: PairRoles) -> None:
    """Raise where the two sides hold names of unlike types; empty where a side has none."""
    if left and right and left != right:
        raise DataError(
            f"`left` and `right` must hold models' names of one type; column {roles.left!r} holds {left} and column "
            f"{roles.right!r} {right}, so that no model on one side would equal one on the other. Convert one of them.",
            column=roles.right,
        )


def _as_objects(labels: Any) -> Any:
    """Labels with text as Python's, of which a column of Arrow makes one at a time."""
    is_text = isinstance(labels, pd.Index) and isinstance(labels.dtype, pd.StringDtype)
    return labels.to_numpy(dtype=object) if is_text else labels


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool | np.bool_):
        return "booleans"
    return "numbers" if isinstance(value, int | float | np.number) else type(value).__name__


def self_comparison(names: set[str], rows: Any, count: int, roles: PairRoles) -> SelfComparisonError:
    """The error for models compared with themselves; `rows` is None where they have no order."""
    where = "" if rows is None else f"; {rows_text(rows, count)} of those in use"
    return SelfComparisonError(
        f"a row must compare two different models; {count} row{'s compare' if count > 1 else ' compares'} a model with "
        f"itself ({listed(sorted(names))}{where}). Leave such rows out: they say nothing about a difference.",
        column=roles.right,
        rows=rows,
        count=count,
    )


def repeated_key(rows: Any, count: int, roles: PairRoles) -> DuplicateRowsError:
    """The error for repeats of a declared key."""
    columns = listed((roles.left, roles.right, *roles.key))
    where = "" if rows is None else f" ({rows_text(rows, count)} of those in use)"
    return DuplicateRowsError(
        f"there must be one row for each of {columns}; {count} row{'s repeat' if count > 1 else ' repeats'} an earlier "
        f"one{where}. Remove the copies, or name in `key` what tells them apart.",
        column=roles.key[0],
        rows=rows,
        count=count,
    )


def strata_of(names: list[str], codes: IntArray) -> tuple[tuple[str, ...], IntArray]:
    """Names of the strata that occur, sorted as text, and the stratum of each entry, from codes and their names."""
    present = np.unique(codes).tolist()
    order = sorted(present, key=names.__getitem__)
    rank = np.empty(len(names), dtype=np.intp)
    rank[order] = np.arange(len(order))
    return tuple(names[code] for code in order), rank[codes]


def cells_of_pairs(
    first: IntArray, second: IntArray, stratum: IntArray | None, n_models: int
) -> tuple[IntArray, tuple[IntArray, IntArray, IntArray]]:
    """Cell of each row, numbered by (stratum, first, second), and the three of each cell."""
    key = first * n_models + second
    if stratum is not None:
        key = key + stratum * n_models**2
    size = int(np.max(key)) + 1
    if size <= 16 * key.size + 1024:
        present = np.flatnonzero(np.bincount(key, minlength=size))
        number = np.zeros(size, dtype=np.intp)
        number[present] = np.arange(present.size)
        cell = number[key]
    else:
        present, cell = np.unique(key, return_inverse=True)
    pair = present % n_models**2
    return cell, (present // n_models**2, pair // n_models, pair % n_models)
