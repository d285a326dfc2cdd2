"""A log of comparisons, sorted into pairs of models: verdicts to scores, sides to an order, rows to cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evalreg.boards.duels import Duels
from evalreg.checks import BoolArray, FloatArray, IntArray, known_column, known_columns, listed, row_list, rows_text
from evalreg.covariance.groups import Groups
from evalreg.data.clusters import Axis, Codes, Labels, joint, parse_groups, used_codes
from evalreg.data.engine import LazyTable
from evalreg.data.formula import design_frame, formula_columns, sides_design
from evalreg.data.frame import Table, UsedRows, collected, keep_rows, open_frame, restrict
from evalreg.data.joint_ids import names_of, with_joint_ids
from evalreg.data.verdicts import PairRoles, as_name, left_scores
from evalreg.errors import ArgumentError, DataError, DuplicateRowsError, IndependenceWarning, Note, SelfComparisonError
from evalreg.estimators.cells import checked_weights, group_labels, missing_masks, weights_name
from evalreg.scores.sums import CellScores, CellSums, cell_sums


@dataclass(frozen=True, eq=False)
class Pairs:
    """Comparisons in cells, one a pair of models (of each stratum), scored for the model that sorts first.

    Parameters
    ----------
    models : tuple of str
        Sorted as text.
    strata : tuple of str
        Sorted as text; one unnamed without strata.
    first, second : ndarray of int, shape (n_cells,)
        The models of each cell, first before second.
    stratum : ndarray of int, shape (n_cells,)
        Stratum of each cell.
    sums : CellSums
        Counts and sums of each cell.
    scores : CellScores
        Rows, oriented to the first model, fitted by the cell's mean.
    swapped : ndarray of bool, shape (n_rows,)
        Whether a row's left model is the cell's second.
    tied : float
        Share of the rows whose score is one half.
    alike : int
        Rows that equal an earlier one in all named columns, where no `key` says what a comparison is.
    axes : tuple of Axis or None
        Clusterings asked for.
    dropped : dict of str to int
        Rows dropped by reason.
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
    sums: CellSums
    scores: CellScores
    swapped: BoolArray
    tied: float
    alike: int
    axes: tuple[Axis, ...] | None
    dropped: dict[str, int]
    side_names: tuple[str, ...]
    sides: FloatArray

    @property
    def n_cells(self) -> int:
        """Pairs that met, counted in each stratum."""
        return int(self.first.size)

    @property
    def mean(self) -> FloatArray:
        """psi of each cell: the mean score of its first model, shape (n_cells,)."""
        return self.scores.fitted

    def tables(self) -> tuple[FloatArray, FloatArray]:
        """Psi and counts as (n_models, n_models) matrices over all strata; NaN and 0 for pairs that never met."""
        size = len(self.models)
        weight, total = np.zeros((size, size)), np.zeros((size, size))
        np.add.at(weight, (self.first, self.second), self.sums.weight)
        np.add.at(total, (self.first, self.second), self.sums.total)
        total = total + np.tril((weight - total).T)
        weight = weight + weight.T
        with np.errstate(invalid="ignore", divide="ignore"):
            psi = np.where(weight > 0, total / weight, np.nan)
        counts = np.zeros((size, size))
        np.add.at(counts, (self.first, self.second), self.sums.count)
        return psi, counts + counts.T


def gather_pairs(data: Any, roles: PairRoles, groups: Groups) -> Pairs:
    """Comparisons sorted into pairs of models, with their labels and clusters.

    Parameters
    ----------
    data : data frame
        One row a comparison. Of a lazy frame the columns named are collected.
    roles : PairRoles
        Which column is what.
    groups : str, list, array, Series, dict or None
        Clusters asked for.

    Returns
    -------
    Pairs
        Cells sorted by stratum, first and second model.

    Raises
    ------
    UnknownLabelError, SelfComparisonError, DuplicateRowsError, ScoreRangeError
        If the log breaks a rule; the message says which rows.
    """
    table, roles = _open(data, roles, groups)
    codes, models = _sides(table, roles)
    weights = checked_weights(table, roles.weights)
    axes, labels = group_labels(table, groups)
    values, no_verdict = left_scores(table, roles, codes, models)
    more = [name for name in (*roles.key, roles.strata) if name is not None]
    columns = {name: table.labels(name, "key" if name in roles.key else "by") for name in more}
    covariates = () if roles.sides is None else formula_columns(roles.sides, table.columns)[1]
    missing = {f"score: {roles.score or roles.winner}": no_verdict}
    sides_missing = {name: side < 0 for name, side in zip((roles.left, roles.right), codes, strict=True)}
    absent = sides_missing | {name: of < 0 for name, (of, _) in columns.items()}
    missing |= {f"covariate: {name}": mask for name, mask in absent.items()}
    missing |= missing_masks(table, covariates, "covariate")
    if weights is not None:
        missing[f"covariate: {weights_name(roles.weights)}"] = np.isnan(weights)
    missing |= {f"group: {name}": of < 0 for name, (of, _) in labels.items()}
    keep, dropped = keep_rows(missing, table.n_rows, roles.missing)
    left, right = (restrict(side, keep) for side in codes)
    values, weights = restrict(values, keep), restrict(weights, keep)
    _refuse_self(left, right, models, roles)
    left, right, models = _present(left, right, models)
    used = {
        name: used_codes(name, restrict(of, keep), names, every_row=keep is None)
        for name, (of, names) in {**columns, **labels}.items()
    }
    alike = _check_repeats(left, right, len(models), used, roles)
    strata, stratum = _strata(used, roles)
    swapped = left > right
    oriented = np.where(swapped, 1.0 - values, values)
    cell, keys = _cells(np.minimum(left, right), np.maximum(left, right), stratum, len(models))
    sums = cell_sums(oriented, cell, keys[0].size, weights)
    fitted = np.where(sums.low == sums.high, sums.low, sums.total / sums.weight)
    held = {name: used[name] for name in used if name in labels}
    rows = Labels(values.size, held, UsedRows(table, keep))
    side_names, sides = _side_terms(table, roles, covariates, keep, values.size)
    return Pairs(
        models=tuple(models),
        strata=strata,
        first=keys[1],
        second=keys[2],
        stratum=keys[0],
        sums=sums,
        scores=CellScores(oriented, fitted, rows, cell, weights),
        swapped=swapped,
        tied=float(np.mean(values == 0.5)),
        alike=alike,
        axes=axes,
        dropped=dropped,
        side_names=side_names,
        sides=sides,
    )


def _present(left: IntArray, right: IntArray, models: list[str]) -> tuple[IntArray, IntArray, list[str]]:
    """Codes and names of the models that rows in use compare."""
    present = np.zeros(len(models), dtype=bool)
    present[left] = present[right] = True
    if present.all():
        return left, right, models
    number = np.cumsum(present) - 1
    return number[left], number[right], [models[i] for i in np.flatnonzero(present)]


def _side_terms(
    table: Table, roles: PairRoles, covariates: tuple[str, ...], keep: BoolArray | None, n_rows: int
) -> tuple[tuple[str, ...], FloatArray]:
    """Names and values of what differs between the two sides; none without a formula."""
    if roles.sides is None:
        return (), np.zeros((n_rows, 0))
    frame = design_frame(table, covariates, keep, roles.sides, None) if covariates else pd.DataFrame()
    return sides_design(roles.sides, frame, n_rows)


def read_scores(table: Table, roles: PairRoles) -> FloatArray:
    """Score of the left model in each row of a table in memory, NaN where there is none.

    Parameters
    ----------
    table : Table
        The log.
    roles : PairRoles
        Which column is what.

    Returns
    -------
    ndarray, shape (n_rows,)
        In [0, 1], of all rows.

    Raises
    ------
    ScoreRangeError, UnknownLabelError
        If a score or a verdict breaks its rule.
    """
    roles = _checked(names_of(table), roles)
    return left_scores(table, roles, *_sides(table, roles))[0]


def _open(data: Any, roles: PairRoles, groups: Groups) -> tuple[Table, PairRoles]:
    """The table in memory (of a lazy frame the columns that the call names), and the roles, checked."""
    table = open_frame(data)
    table = with_joint_ids(table, left=roles.left, right=roles.right, by=roles.strata)
    roles = _checked(names_of(table), roles)
    if not isinstance(table, LazyTable):
        return table, roles
    named = [roles.left, roles.right, roles.score, roles.winner, roles.strata, *roles.key]
    named += [roles.weights] if isinstance(roles.weights, str) else []
    named += [] if roles.sides is None else formula_columns(roles.sides, table.columns)[1]
    if groups is not None:
        named += [name for axis in parse_groups(groups, table.columns) for name in axis]
    labels = {roles.left, roles.right, roles.strata, *roles.key}
    return collected(table, list(dict.fromkeys(name for name in named if name is not None)), labels), roles


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


def _sides(table: Table, roles: PairRoles) -> tuple[tuple[IntArray, IntArray], list[str]]:
    """Codes of the left and right models in one list of names, sorted as text; -1 where missing."""
    sides = [table.labels(roles.left, "left"), table.labels(roles.right, "right")]
    values = [pd.Series(list(labels), dtype=object) for _, labels in sides]
    kinds = [sorted({_kind(value) for value in column}) for column in values]
    if kinds[0] and kinds[1] and kinds[0] != kinds[1]:
        raise DataError(
            f"`left` and `right` must hold models' names of one type; column {roles.left!r} holds "
            f"{' and '.join(kinds[0])} and column {roles.right!r} {' and '.join(kinds[1])}, so that no model on one "
            "side would equal one on the other. Convert one of them.",
            column=roles.right,
        )
    distinct = {(_kind(value), as_name(value)) for column in values for value in column}
    texts = pd.Series([text for _, text in distinct], dtype=object)
    if not texts.is_unique:
        twice = texts[texts.duplicated()]
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


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool | np.bool_):
        return "booleans"
    return "numbers" if isinstance(value, int | float | np.number) else type(value).__name__


def _refuse_self(left: IntArray, right: IntArray, models: list[str], roles: PairRoles) -> None:
    same = left == right
    if not same.any():
        return
    rows, count = row_list(same)
    names = [models[code] for code in np.unique(left[same])]
    raise SelfComparisonError(
        f"a row must compare two different models; {count} row{'s compare' if count > 1 else ' compares'} a model with "
        f"itself ({listed(names)}; {rows_text(rows, count)} of those in use). Leave such rows out: they say nothing of "
        "a difference.",
        column=roles.right,
        rows=rows,
        count=count,
    )


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
    rows, count = row_list(again)
    columns = listed((roles.left, roles.right, *roles.key))
    raise DuplicateRowsError(
        f"there must be one row for each of {columns}; {count} row{'s repeat' if count > 1 else ' repeats'} an earlier "
        f"one ({rows_text(rows, count)} of those in use). Remove the copies, or name in `key` what tells them apart.",
        column=roles.key[0],
        rows=rows,
        count=count,
    )


def _strata(used: dict[str, Codes], roles: PairRoles) -> tuple[tuple[str, ...], IntArray | None]:
    """Names of the strata, sorted as text, and the stratum of each row."""
    if roles.strata is None:
        return ("",), None
    codes = used[roles.strata]
    names = [codes.label(code) for code in range(codes.n_clusters)]
    order = sorted(range(len(names)), key=names.__getitem__)
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    return tuple(names[code] for code in order), rank[codes.codes]


def _cells(
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


def duels_of(pairs: Pairs) -> Duels:
    """The same cells as what a board keeps of them."""
    return Duels(
        pairs.models,
        pairs.strata,
        pairs.first,
        pairs.second,
        pairs.stratum,
        pairs.scores,
        pairs.sums.count,
        pairs.sums.weight,
        pairs.swapped,
    )


def design_lines(pairs: Pairs) -> list[str]:
    """What the schedule looks like, in words."""
    count, n_models = pairs.sums.count, len(pairs.models)
    strata = f" in {len(pairs.strata)} strata" if len(pairs.strata) > 1 else ""
    lines = [
        f"{n_models} models, {count.size} pair{'s' if count.size > 1 else ''}{strata} with {np.min(count):.0f} to "
        f"{np.max(count):.0f} comparisons "
        f"(median {np.median(count):.0f}); {pairs.tied:.1%} tied, {np.mean(pairs.swapped):.0%} with the models in the "
        "other order."
    ]
    if pairs.alike:
        lines.append(
            f"{pairs.alike} rows equal an earlier one in the models and in all columns named; name in `key` what "
            "identifies a comparison, and repeats are refused."
        )
    return lines


def independence_notes(groups: Groups) -> tuple[Note, ...]:
    """What to warn of where comparisons are treated as independent."""
    if groups is not None:
        return ()
    text = (
        "no `groups`: comparisons are treated as independent, which they are not where one answer meets several "
        'others or one judge decides many. Name the prompts and judges, such as groups="prompt + judge".'
    )
    return ((IndependenceWarning, text),)
