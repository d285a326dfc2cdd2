"""The one reader: from the columns that play a role (score, by, item, groups, weights, ...) to the rows in use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray, MissingName, QuestionsName
from evalreg.data.clusters import Axis, Codes, restricted, used_codes
from evalreg.data.filters import refuse_filters
from evalreg.data.frame import Table, UsedRows, restrict
from evalreg.data.groups import Groups, group_labels, name_in_use, same_partition
from evalreg.data.labels import Labels
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.data.weights import checked_weights, weights_name
from evalreg.errors import EmptyDataError, NonFiniteError

NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Roles:
    """Which column plays which role in an estimate made of cells.

    Parameters
    ----------
    score : str
        Values.
    by : tuple of str
        Columns whose joint values have a parameter each.
    item, sample : str, optional
        Items, and repeated answers that are averaged within (by, item) first.
    strata : str, optional
        Column of strata.
    weights : str or ndarray, optional
        Sampling weights.
    missing : {"drop", "raise"}
        What to do about missing values.
    combine : callable, optional
        What is made of the answers to an item, from the answers and the item of each; their mean by default.
    questions : {"own", "shared"}
        Whether only items that all models have are in use.
    """

    score: str
    by: tuple[str, ...] = ()
    item: str | None = None
    sample: str | None = None
    strata: str | None = None
    weights: Any = None
    missing: MissingName = "drop"
    combine: Callable[[FloatArray, Codes], FloatArray] | None = None
    questions: QuestionsName = "own"

    @property
    def cell_columns(self) -> tuple[str, ...]:
        """Columns whose joint values are the cells."""
        return self.by if self.strata is None else (*self.by, self.strata)

    @property
    def labels(self) -> dict[str, str]:
        """Columns of labels, and the argument that names each."""
        named = dict.fromkeys(self.by, "by")
        given = {"strata": self.strata, "item": self.item, "sample": self.sample}
        return named | {name: argument for argument, name in given.items() if name is not None}


@dataclass(frozen=True, eq=False)
class ReadRows:
    """The rows in use of a table in memory.

    Parameters
    ----------
    values : dict of str to ndarray, shape (n_rows,)
        Scores, by the argument that named them.
    weights : ndarray, shape (n_rows,), optional
        Sampling weights.
    used : dict of str to Codes
        Columns of labels.
    held : tuple of str
        Those of the groups.
    source : UsedRows
        Which rows they are; where further labels can be looked up.
    axes : tuple of Axis or None
        The clusterings asked for.
    dropped : dict of str to int
        Rows dropped by reason.
    """

    values: dict[str, FloatArray]
    weights: FloatArray | None
    used: dict[str, Codes]
    held: tuple[str, ...]
    source: UsedRows
    axes: tuple[Axis, ...] | None
    dropped: dict[str, int]

    @property
    def n_rows(self) -> int:
        """Rows in use, or items where rows were averaged within them."""
        return self.source.n_rows

    def restrict(self, array: Any) -> Any:
        """The rows in use of an array of all rows, shape (table.n_rows, ...)."""
        return restrict(array, self.source.keep)

    def labels(self, *more: str | None) -> Labels:
        """Codes of the groups and of some more columns; others are looked up when they are asked for."""
        held = {name: codes for name, codes in self.used.items() if name in self.held or name in more}
        return Labels(self.n_rows, held, self.source)

    def only(self, kept: BoolArray, reason: str | None = None) -> ReadRows:
        """Some of the rows in use, shape (n_rows,); the others are counted as dropped where a reason is given."""
        keep = np.zeros(self.source.table.n_rows, dtype=bool)
        keep[self.source.places()[kept]] = True
        counted = {} if reason is None else {reason: int(np.count_nonzero(~kept))}
        return replace(
            self,
            values={argument: column[kept] for argument, column in self.values.items()},
            weights=restrict(self.weights, kept),
            used={name: restricted(codes, kept) for name, codes in self.used.items()},
            source=replace(self.source, keep=keep),
            dropped={**self.dropped, **counted},
        )


def read_rows(
    table: Table,
    numbers: Mapping[str, str] = NONE,
    *,
    made: Mapping[str, FloatArray] = NONE,
    texts: Mapping[str, str] = NONE,
    labels: Mapping[str, str] = NONE,
    present: Mapping[str, Collection[str]] = NONE,
    absent: Mapping[str, BoolArray] = NONE,
    weights: Any = None,
    groups: Groups = None,
    missing: str = "drop",
    within: BoolArray | None = None,
    split: Collection[str] | None = None,
) -> ReadRows:
    """Rows of a table without missing values, of the columns that play a role.

    Parameters
    ----------
    table : Table
        The data.
    numbers, texts : mapping of str to str
        Columns of scores, and of labels that are what is scored, by the argument that names them.
    made : mapping of str to ndarray, shape (table.n_rows,)
        Scores made of columns already (verdicts), NaN where there is none, by column.
    labels : mapping of str to str
        Columns of labels, and the argument that names each.
    present : mapping of str to collection of str
        Columns of a formula, by the reason for which a row without them is dropped: "score" or "covariate".
    absent : mapping of str to ndarray of bool, shape (table.n_rows,)
        Further columns that are looked at already: where each is missing.
    weights, groups : as passed by the user
        Sampling weights; clusters, whose missing ids count among the missing values.
    missing : {"drop", "raise"}
        What to do about missing values.
    within : ndarray of bool, shape (table.n_rows,), optional
        Rows in question; others are neither used nor counted as dropped.
    split : collection of str, optional
        Columns that tell estimates apart; where given, files that hold answers once for each filter are refused.

    Returns
    -------
    ReadRows
        Aligned with each other.
    """
    values = {argument: table.floats(name, argument) for argument, name in numbers.items()}
    row_weights = checked_weights(table, weights)
    scored = {name: table.labels(name, argument) for argument, name in texts.items()}
    columns = {name: table.labels(name, argument) for name, argument in labels.items()}
    axes, of_groups = group_labels(table, groups)
    refuse_name_in_use(of_groups, {**scored, **columns}, {**texts, **labels})
    new = {name: found for name, found in of_groups.items() if name not in {**scored, **columns}}
    gone = {f"score: {numbers[argument]}": np.isnan(column) for argument, column in values.items()}
    gone |= {f"score: {name}": np.isnan(column) for name, column in made.items()}
    gone |= {f"score: {name}": table.missing(name) for name in present.get("score", ())}
    gone |= _without("score", scored)
    gone |= {f"covariate: {name}": mask for name, mask in absent.items()}
    gone |= _without("covariate", columns)
    gone |= {f"covariate: {name}": table.missing(name) for name in present.get("covariate", ())}
    if row_weights is not None:
        gone[f"covariate: {weights_name(weights)}"] = np.isnan(row_weights)
    gone |= _without("group", of_groups)
    keep, dropped = keep_rows(gone, table.n_rows, missing, within)
    if split is not None:
        refuse_filters(table, keep, split)
    return ReadRows(
        values={name: restrict(column, keep) for name, column in {**values, **made}.items()},
        weights=restrict(row_weights, keep),
        used={
            name: used_codes(name, restrict(codes, keep), names, every_row=keep is None)
            for name, (codes, names) in {**scored, **columns, **new}.items()
        },
        held=tuple(of_groups),
        source=UsedRows(table, keep),
        axes=axes,
        dropped=dropped,
    )


def refuse_name_in_use(
    of_groups: Mapping[str, tuple[IntArray, Any]],
    roles: Mapping[str, tuple[IntArray, Any]],
    arguments: Mapping[str, str],
) -> None:
    """Refuse labels of clusters that are called as a column with another role is, and are not its own."""
    for name in of_groups:
        if name not in roles or of_groups[name][0] is roles[name][0]:
            continue
        if not same_partition(of_groups[name][0], roles[name][0]):
            raise name_in_use(name, arguments[name])


def _without(reason: str, labels: Mapping[str, tuple[IntArray, Any]]) -> dict[str, BoolArray]:
    """Where labels are missing, by "<reason>: <column>"."""
    return {f"{reason}: {name}": codes < 0 for name, (codes, _) in labels.items()}


def keep_rows(
    missing: dict[str, BoolArray], n_rows: int, rule: str, within: BoolArray | None = None
) -> tuple[BoolArray | None, dict[str, int]]:
    """Rows without missing values (None for all), and how many of those `within` were dropped for which reason.

    Masks go by "<reason>" or "<reason>: <column>"; a row counts once, with the first reason in their order.
    """
    gone = np.zeros(n_rows, dtype=bool)
    dropped = {"score": 0, "covariate": 0, "group": 0}
    for name, missed in missing.items():
        mask = missed if within is None else missed & within
        if not mask.any():
            continue
        reason, _, column = name.partition(": ")
        if rule == "raise":
            rows, count = row_list(mask)
            raise NonFiniteError(
                f'nothing may be missing under `missing="raise"`; the {reason} column {column!r} is missing in '
                f'{rows_text(rows, count)}. Fill the values in, or pass missing="drop" to leave the rows out, counted.',
                column=column,
                rows=rows,
                count=count,
            )
        dropped[reason] += int(np.count_nonzero(mask & ~gone))
        gone |= mask
    if gone.all():
        counts = ", ".join(f"{count} without a {reason}" for reason, count in dropped.items() if count)
        raise EmptyDataError(f"no row is left: all {n_rows} have something missing ({counts}).", count=n_rows)
    if within is not None:
        gone |= ~within
    return (~gone if gone.any() else None), dropped
