"""Comparisons of models: verdicts, rules, and sums by pair."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, listed
from evalreg.data.clusters import Codes, joint
from evalreg.data.engine import LazyTable
from evalreg.data.formula import design_frame, formula_columns, sides_design
from evalreg.data.frame import Table, known_column, known_columns
from evalreg.data.groups import Groups, names_of, parse_groups, with_joint_ids
from evalreg.data.opening import collected_at_most, open_frame
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.data.rows import ReadRows, read_rows
from evalreg.data.verdicts import PairRoles, as_name, left_scores
from evalreg.errors import ArgumentError, DataError, DuplicateRowsError, NotAvailableError, SelfComparisonError


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


@dataclass(frozen=True, eq=False)
class PairCells:
    """Comparisons in cells, one a pair of models (of each stratum), scored for the model that sorts first.

    Parameters
    ----------
    models : tuple of str
        Sorted as text.
    strata : tuple of str
        Sorted as text; one unnamed without strata.
    first, second : ndarray of int, shape (n_cells,)
        The models of each cell, in memory first before second in the order of their text.
    stratum : ndarray of int, shape (n_cells,)
        Stratum of each cell.
    swapped : ndarray of bool, shape (n_rows,), or None
        Whether a row's left model is the cell's second; None where rows stay in an engine.
    alike : int
        Rows that equal an earlier one in all named columns, where no `key` says what a comparison is.
    side_names : tuple of str
        Terms that differ between the two sides.
    sides : ndarray, shape (n_rows, n_terms)
        Those terms, left minus right.
    """

    models: tuple[str, ...]
    strata: tuple[str, ...]
    first: IntArray
    second: IntArray
    stratum: IntArray
    swapped: BoolArray | None
    alike: int
    side_names: tuple[str, ...]
    sides: FloatArray


@dataclass(frozen=True, eq=False)
class PairRows(PairCells):
    """The same with the rows as they were read.

    Parameters
    ----------
    rows : ReadRows
        The comparisons in use.
    values : ndarray, shape (n_rows,)
        Scores of the first model.
    cell : ndarray of int, shape (n_rows,)
        Cell of each row.
    """

    rows: ReadRows
    values: FloatArray
    cell: IntArray


def read_pairs(table: Table, roles: PairRoles, groups: Groups) -> PairRows:
    """Comparisons sorted into pairs of models, cells in the order of stratum, first and second model."""
    codes, names = sides_of(table, roles)
    verdict = str(roles.score or roles.winner)
    labels = {name: "key" if name in roles.key else "by" for name in (*roles.key, roles.strata) if name is not None}
    covariates = () if roles.sides is None else formula_columns(roles.sides, table.columns)[1]
    rows = read_rows(
        table,
        made={verdict: left_scores(table, roles, codes, names)[0]},
        labels=labels,
        present={"covariate": covariates},
        absent={name: side < 0 for name, side in zip((roles.left, roles.right), codes, strict=True)},
        weights=roles.weights,
        groups=groups,
        missing=roles.missing,
    )
    values, (left, right) = rows.values[verdict], (rows.restrict(side) for side in codes)
    _refuse_self(left, right, names, roles)
    left, right, models = present_models(left, right, names)
    alike = _check_repeats(left, right, len(models), rows.used, roles)
    strata, stratum = _strata(rows.used, roles)
    swapped = left > right
    cell, keys = cells_of_pairs(np.minimum(left, right), np.maximum(left, right), stratum, len(models))
    side_names, sides = _side_terms(rows, roles, covariates)
    return PairRows(
        models=tuple(models),
        strata=strata,
        first=keys[1],
        second=keys[2],
        stratum=keys[0],
        rows=rows,
        values=np.where(swapped, 1.0 - values, values),
        cell=cell,
        swapped=swapped,
        alike=alike,
        side_names=side_names,
        sides=sides,
    )


def _side_terms(rows: ReadRows, roles: PairRoles, covariates: tuple[str, ...]) -> tuple[tuple[str, ...], FloatArray]:
    """Names and values of what differs between the two sides; none without a formula."""
    if roles.sides is None:
        return (), np.zeros((rows.n_rows, 0))
    frame = design_frame(rows, covariates, roles.sides) if covariates else pd.DataFrame()
    return sides_design(roles.sides, frame, rows.n_rows)


def read_scores(table: Table, roles: PairRoles) -> FloatArray:
    """Score of the left model in each row of a table in memory, in [0, 1], NaN where there is none."""
    roles = _checked(names_of(table), roles)
    return left_scores(table, roles, *sides_of(table, roles))[0]


def open_pairs(
    data: Any, roles: PairRoles, groups: Groups, needs_rows: str | None = None
) -> tuple[Table | LazyTable, PairRoles]:
    """The table and the roles, checked; rows in an engine stay there.

    Where `needs_rows` says what needs them in memory, as the argument is written, the columns named are collected, up
    to MOST_COLLECTED rows.
    """
    table = open_frame(data)
    table = with_joint_ids(table, left=roles.left, right=roles.right, by=roles.strata)
    roles = _checked(names_of(table), roles)
    if not isinstance(table, LazyTable):
        return table, roles
    _refuse_arrays(roles, groups)
    if needs_rows is None:
        return table, roles
    named = [roles.left, roles.right, roles.score, roles.winner, roles.strata, *roles.key, roles.weights]
    named += [] if roles.sides is None else formula_columns(roles.sides, table.columns)[1]
    if groups is not None:
        named += [name for axis in parse_groups(groups, table.columns) for name in axis]
    labels = {roles.left, roles.right, roles.strata, *roles.key}
    return collected_at_most(table, list(dict.fromkeys(name for name in named if name)), labels, needs_rows), roles


def _refuse_arrays(roles: PairRoles, groups: Groups) -> None:
    """Rows of an engine have no order that an array could follow."""
    named = isinstance(groups, list | tuple) and all(isinstance(name, str) for name in groups)
    for argument, value in {"weights": roles.weights, "groups": None if named else groups}.items():
        if value is not None and not isinstance(value, str):
            raise NotAvailableError(
                f"rows in an engine have no order, so `{argument}` must name columns; got {type(value).__name__}. Add "
                "it as a column and name that."
            )


def _checked(columns: tuple[str, ...], roles: PairRoles) -> PairRoles:
    if (roles.score is None) == (roles.winner is None):
        what = "neither" if roles.score is None else "both"
        raise ArgumentError(
            f"exactly one of `score` (a number in [0, 1] for the left model) and `winner` (a verdict) must be given; "
            f"got {what}."
        )
    if roles.labels is not None and roles.winner is None:
        raise ArgumentError("`labels` says what the verdicts in `winner` mean; it has no bearing on `score`.")
    asked = {"left": roles.left, "right": roles.right, "score": roles.score, "winner": roles.winner}
    for argument, name in asked.items():
        if name is not None:
            known_column(name, columns, argument)
    if roles.strata is not None:
        known_column(roles.strata, columns, "by")
        sides = {name: argument for argument, name in asked.items() if name is not None}
        if roles.strata in sides:
            raise ArgumentError(
                f'`by` must name a column of strata, such as languages; "{roles.strata}" is `{sides[roles.strata]}`.',
                column=roles.strata,
            )
    key = known_columns(roles.key or None, columns, "key")
    if roles.left == roles.right:
        raise ArgumentError(f'`left` and `right` must be different columns; both name "{roles.left}".')
    return replace(roles, key=key)


def _refuse_self(left: IntArray, right: IntArray, models: list[str], roles: PairRoles) -> None:
    same = left == right
    if same.any():
        raise self_comparison({models[code] for code in np.unique(left[same])}, *row_list(same), roles)


def _check_repeats(left: IntArray, right: IntArray, n_models: int, used: dict[str, Codes], roles: PairRoles) -> int:
    """Refuse repeats of a declared key; without one, count rows alike in all named columns."""
    named = [used[name] for name in (roles.key or tuple(used))]
    sides = [Codes(side, n_models) for side in (left, right)]
    key = joint([*sides, *named])
    n_alike = left.size - key.n_clusters
    if not roles.key or not n_alike:
        return n_alike if not roles.key and named else 0
    again = np.ones(left.size, dtype=bool)
    again[key.first] = False
    raise repeated_key(*row_list(again), roles)


def _strata(used: dict[str, Codes], roles: PairRoles) -> tuple[tuple[str, ...], IntArray | None]:
    """Names of the strata, sorted as text, and the stratum of each row."""
    if roles.strata is None:
        return ("",), None
    codes = used[roles.strata]
    return strata_of([codes.label(code) for code in range(codes.n_clusters)], codes.codes)
