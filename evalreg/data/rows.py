"""The reader of rows: roles, weights, what was dropped, repeats, and cells."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, Names, listed, option, passed, repeated, without_none
from evalreg.choices import MissingName, QuestionsName
from evalreg.data.clusters import (
    Axes,
    Codes,
    Column,
    Groups,
    Labels,
    as_codes,
    axes_of,
    factorize,
    joint,
    joint_parts,
    name_in_use,
    repeated_rows,
    restricted,
    rows_where,
    same_partition,
    union,
    used_codes,
)
from evalreg.data.engine import ROWS, Numbers, Query
from evalreg.data.frame import Table, UsedRows, codes_of_items, floats_or_none, refuse_infinite, restrict
from evalreg.data.questions import shared_rows
from evalreg.errors import (
    ArgumentError,
    ArgumentTypeError,
    DataError,
    DuplicateRowsError,
    EmptyDataError,
    NonFiniteError,
    NonNumericError,
    RowList,
)
from evalreg.numerics.limits import FAR


def group_labels(table: Table, groups: Groups) -> tuple[Axes | None, dict[str, Column]]:
    """Axes of the groups asked for, or None; and by column the codes of all rows, -1 where missing, with labels."""
    if groups is None:
        return None, {}
    axes, arrays = axes_of(groups, table.columns)
    labels = {name: table.labels(name, "groups") for name in union(*axes) if name not in arrays}
    return axes, labels | {name: factorize(table.align(name, values)) for name, values in arrays.items()}


def checked_weights(table: Table, weights: Any) -> FloatArray | None:
    """Sampling weights of all rows, NaN where missing and positive everywhere else; None for none."""
    if weights is None:
        return None
    values = table.floats(weights, "weights") if isinstance(weights, str) else _weight_array(table, weights)
    if np.isnan(values).all():
        return values
    power = power_of_weights(float(np.nanmin(values)), float(np.nanmax(values)), weights_name(weights), values)
    # In two steps: the power itself may be no float.
    return np.ldexp(np.ldexp(values, power // 2), power - power // 2) if power else values


def power_of_weights(light: float, heavy: float, column: str, values: FloatArray | None = None) -> int:
    """The power of two that keeps squares and inverses of weights from `light` to `heavy` within floats, mostly 0.

    Only their ratios matter. Raises unless they are positive, and not too unlike; with the rows whose `values` are not.
    """
    of = np.zeros(0) if values is None else values
    if not light > 0:
        rule, violation, wrong = "be positive", f"the smallest is {light:g}", of <= 0
        remedy = "Check the signs" if light < 0 else "A row of weight zero is not an observation: leave it out"
    elif light / heavy < FAR**-2:
        rule, wrong = f"lie within a factor of {FAR**2:.0e} of each other", of / heavy < FAR**-2
        violation = f"they are from {light:g} to {heavy:g}"
        remedy = "Rows so much lighter than the heaviest say nothing: leave them out"
    else:
        return 0 if 1 / FAR < heavy < FAR else -int(np.frexp(heavy)[1])
    rows = None if values is None else rows_where(wrong)
    where = "" if rows is None else f" ({rows})"
    raise ArgumentError(f"`weights` must {rule}; {violation}{where}. {remedy}.", column=column, rows=rows)


def _weight_array(table: Table, weights: Any) -> FloatArray:
    if not hasattr(weights, "__len__") or getattr(weights, "ndim", 1) != 1:
        raise ArgumentTypeError(
            f"`weights` must be a column or a one-dimensional array; got {type(weights).__name__}"
            f"{f' of {weights.ndim} dimensions' if hasattr(weights, 'ndim') else ''}."
        )
    aligned = table.align("weights", weights, "weights")
    values = floats_or_none(pd.Series(aligned))
    if values is None:
        raise NonNumericError("`weights` must hold numbers; the array holds something else.", column="weights")
    refuse_infinite(values, "weights", "weights")
    return values


def weights_name(weights: Any) -> str:
    """Return the column of the weights, or "weights" for an array."""
    return weights if isinstance(weights, str) else "weights"


FILTER = "filter"
# What a file of samples has besides the scores: the question, and either its hash, the answers or the metrics' names.
_DOCUMENT, _MARKS = "doc_id", frozenset({"doc_hash", "resps", "filtered_resps", "metrics"})


def refuse_filters(table: Table | Query, keep: BoolArray | None, named: Collection[str]) -> None:
    """Refuse a per-sample file whose rows are of several filters: its rows are the same answers, read twice.

    Of the rows kept; where the filter is among what tells estimates apart, several are fine.
    """
    columns = set(table.columns)
    split = {part for name in named for part in (name, *joint_parts(name))}
    if not {_DOCUMENT, FILTER} <= columns or not columns & _MARKS or FILTER in split:
        return
    filters, n_rows = _filters(table, keep)
    if len(filters) < 2:
        return
    raise DuplicateRowsError(
        f"one filter at a time: this is a per-sample file of lm-evaluation-harness, whose {n_rows} rows are the same "
        f"answers as read by {len(filters)} filters, {listed(filters)}. Keep one, with "
        f'--where \'{FILTER} == "{filters[0]}"\' or data[data["{FILTER}"] == "{filters[0]}"], or read the file by '
        f'er.read_log(path, filter="{filters[0]}"); or have an estimate for each, with {passed(by=FILTER)}.',
        column=FILTER,
        count=len(filters),
    )


def _filters(table: Table | Query, keep: BoolArray | None) -> tuple[list[str], int]:
    """Names of the filters in use, and the number of rows."""
    if isinstance(table, Query):
        counts = table.table((FILTER,), {}).dropna()
        return sorted(map(str, counts[FILTER])), int(counts[ROWS].sum())
    codes, labels = table.labels(FILTER, FILTER)
    used = restrict(codes, keep)
    return sorted(str(labels[code]) for code in np.unique(used[used >= 0])), int(used.size)


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
    questions : {"own", "shared"}
        Whether only items that all models have are in use.
    repeats : str
        What to do with several answers to a question, where a call has no argument `sample`.
    has_by : bool
        Whether the call has an argument `by`; in comparisons the model stands in its place.
    """

    score: str
    by: Names = ()
    item: str | None = None
    sample: str | None = None
    strata: str | None = None
    weights: Any = None
    missing: MissingName = "drop"
    questions: QuestionsName = "own"
    repeats: str = ""
    has_by: bool = True

    @property
    def cell_columns(self) -> Names:
        """Columns whose joint values are the cells."""
        return without_none(*self.by, self.strata)

    @property
    def labels(self) -> dict[str, str]:
        """Columns of labels, and the argument that names each."""
        named = dict.fromkeys(self.by, "by")
        by_argument = {"strata": self.strata, "item": self.item, "sample": self.sample}
        return named | {name: argument for argument, name in by_argument.items() if name is not None}


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

    values: Numbers
    weights: FloatArray | None
    used: dict[str, Codes]
    held: Names
    source: UsedRows
    axes: Axes | None
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

    def only(self, mask: BoolArray, reason: str | None = None) -> ReadRows:
        """Some of the rows in use, shape (n_rows,); the others are counted as dropped where a reason is given."""
        counted = {} if reason is None else {reason: int(np.count_nonzero(~mask))}
        return replace(
            self,
            values={argument: column[mask] for argument, column in self.values.items()},
            weights=restrict(self.weights, mask),
            used={name: restricted(codes, mask) for name, codes in self.used.items()},
            source=self.source.only(mask),
            dropped={**self.dropped, **counted},
        )


def read_rows(
    table: Table,
    numbers: Mapping[str, str | FloatArray],
    *,
    texts: Mapping[str, str] = NONE,
    labels: Mapping[str, str] = NONE,
    absent: Mapping[str, Mapping[str, BoolArray]] = NONE,
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
    numbers : mapping of str to str, or to ndarray, shape (table.n_rows,)
        Columns of scores by the argument that names them; or by column scores that are made of it, NaN for none.
    texts : mapping of str to str
        Columns of labels that are what is scored, by the argument that names them.
    labels : mapping of str to str
        Columns of labels, and the argument that names each.
    absent : mapping of str to mapping of str to ndarray of bool, shape (table.n_rows,)
        Where further columns are missing, by the reason for which such a row is dropped: "score" or "covariate".
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
    values = {key: table.floats(of, key) if isinstance(of, str) else of for key, of in numbers.items()}
    row_weights = checked_weights(table, weights)
    scored = {name: table.labels(name, argument) for argument, name in texts.items()}
    columns = {name: table.labels(name, argument) for name, argument in labels.items()}
    axes, of_groups = group_labels(table, groups)
    refuse_name_in_use(of_groups, {**scored, **columns}, {**texts, **labels})
    new = {name: coding for name, coding in of_groups.items() if name not in {**scored, **columns}}
    names = {key: of if isinstance(of, str) else key for key, of in numbers.items()}
    gone = [("score", names[key], np.isnan(column)) for key, column in values.items()]
    gone += [(reason, name, mask) for reason, masks in absent.items() for name, mask in masks.items()]
    if row_weights is not None:
        gone.append(("covariate", weights_name(weights), np.isnan(row_weights)))
    for reason, coded in (("score", scored), ("covariate", columns), ("group", of_groups)):
        gone += [(reason, name, codes < 0) for name, (codes, _) in coded.items()]
    keep, dropped = keep_rows(gone, table.n_rows, missing, within)
    if split is not None:
        refuse_filters(table, keep, split)
    return ReadRows(
        values={key: restrict(column, keep) for key, column in values.items()},
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
    of_groups: Mapping[str, Column], roles: Mapping[str, Column], arguments: Mapping[str, str]
) -> None:
    """Refuse labels of clusters that are called as a column with another role is, and are not its own."""
    for name in of_groups:
        if name in roles and not same_partition(of_groups[name][0], roles[name][0]):
            raise name_in_use(name, arguments[name])


# Why rows are not in use. Of a row that lacks several columns the first reason counts.
REASONS = ("score", "covariate", "group")


def keep_rows(
    gone: Sequence[tuple[str, str, BoolArray]], n_rows: int, missing: str, within: BoolArray | None
) -> tuple[BoolArray | None, dict[str, int]]:
    """Rows without missing values (None for all), and how many of those `within` were dropped for which reason.

    `gone` are the reason, the column, and where it is missing.
    """
    gone = sorted(gone, key=lambda part: REASONS.index(part[0]))
    why = np.zeros(n_rows, dtype=np.intp)
    for number, (_, _, mask) in reversed(list(enumerate(gone, 1))):
        why[mask if within is None else mask & within] = number
    dropped = dropped_rows(why, [(reason, [name]) for reason, name, _ in gone], missing)
    keep = why == 0 if within is None else (why == 0) & within
    return (None if keep.all() else keep), dropped


def dropped_rows(
    why: IntArray, columns: Sequence[tuple[str, list[str]]], missing: str, rows: FloatArray | None = None
) -> dict[str, int]:
    """Rows not in use by reason; some must be in use, and under `missing="raise"` all.

    `why` is the number in `columns`, from 1, of what an entry lacks, 0 where it is in use. An entry is a row in memory,
    or so many `rows` of an engine.
    """
    option("missing", missing, MissingName)
    counts = np.bincount(why, rows, len(columns) + 1).astype(int)
    dropped, n_rows = dict.fromkeys(REASONS, 0), int(counts.sum())
    for (reason, _), count in zip(columns, counts[1:], strict=True):
        dropped[reason] += int(count)
    if missing == "raise" and counts[1:].any():
        number = int(np.flatnonzero(counts[1:])[0])
        reason, names = columns[number]
        lacking = rows_where(why == number + 1) if rows is None else RowList((), int(counts[number + 1]))
        where = f"{lacking}" if rows is None else f"{lacking.count} of {n_rows} rows"
        raise NonFiniteError(
            f'nothing may be missing under `missing="raise"`; a {reason} ({listed(names)}) is missing in '
            f"{where}. Fill the values in, or pass {passed(missing='drop')} to leave the rows out, counted.",
            column=names[0] if len(names) == 1 else None,
            rows=lacking,
        )
    if not counts[0]:
        said = ", ".join(f"{count} without a {reason}" for reason, count in dropped.items() if count)
        what = f"no row is left: all {n_rows} have something missing ({said})" if n_rows else "`data` has no rows"
        raise EmptyDataError(f"{what}.", count=n_rows)
    return dropped


# A search for the column that tells repeats apart looks at so many columns, and at pairs of so many.
MOST_COLUMNS = 40


def one_row_an_item(rows: ReadRows, roles: Roles) -> ReadRows:
    """Average declared repeats within (by, item); refuse undeclared ones."""
    assert roles.item is not None
    values, weights, used = rows.values["score"], rows.weights, rows.used
    key = joint([used[name] for name in (*roles.by, roles.item)])
    if roles.sample is None and key.n_clusters == values.size:
        return rows
    full = key if roles.sample is None else joint([key, used[roles.sample]])
    refuse_repeats(full, values, roles, rows.source)
    means = np.bincount(key.codes, values) / key.counts
    places = rows.source.positions()
    others = {name: codes for name, codes in used.items() if name != roles.sample}
    by_item = {name: codes_of_items(name, codes, key, places, roles.item) for name, codes in others.items()}
    if weights is not None:
        codes_of_items("weights", as_codes(factorize(weights)[0]), key, places)
        weights = weights[key.first]
    source = replace(rows.source, item=key)
    return replace(rows, values={"score": means}, weights=weights, used=by_item, source=source)


# Columns by which one answer has several rows, as it was read or scored in several ways: these are no repeats.
_READINGS = frozenset({"filter", "metric", "scorer"})


def refuse_repeats(key: Codes, values: FloatArray, roles: Roles, source: UsedRows) -> None:
    """Raise where rows have the same key, and say which column tells them apart."""
    if key.n_clusters == key.codes.size:
        return
    again = np.ones(key.codes.size, dtype=bool)
    again[key.first] = False
    rows = rows_where(again, source.positions())
    columns = without_none(*roles.by, roles.item, roles.sample)
    raise repeated_rows(columns, roles.item, rows, _remedy(key, values, roles, source))


def _remedy(key: Codes, values: FloatArray, roles: Roles, source: UsedRows) -> str:
    """What to write, where one column or several together tell the repeats apart."""
    others, item = dict(_label_columns(roles, source, key.codes.size)), str(roles.item)
    names = _apart(key, others)
    if not names:
        return _mostly_apart(key, others) or _copies(key, values, roles)
    first, *rest = names
    if not rest and first.rpartition(".")[2] in _READINGS:
        each = f", or have an estimate for each, with {passed(by=first)}" if not roles.by else ""
        return (
            f"{first!r} tells them apart: one answer that is scored in several ways is still one answer. Keep the "
            f"rows of one {first!r}{each}."
        )
    where = "one of them" if rest else f"each {first!r}"
    anew = f"Where the ids in {item!r} start anew in {where}, join them, {passed(item=_joined(first, item))}"
    if rest:
        together = f"{', '.join(map(repr, names[:-1]))} and {names[-1]!r} tell them apart together"
        if roles.repeats:
            return f"{together}. {anew}; {roles.repeats}."
        whole = passed(item=_joined(first, item), sample=_joined(*rest))
        by = "`by` tells the others apart, " * roles.has_by
        return f"{together}. One of them may belong to the question; {by}`sample` averages over them: {whole}."
    each = f" Or {passed(by=[*roles.by, first] if roles.by else first)} for a mean of each." * roles.has_by
    averaged = f"{passed(sample=first)}; `sample` averages them first"
    answers = f"Where they are answers to the same questions: {roles.repeats or averaged}."
    ways = [f"{anew}.", answers] if roles.sample is None else [f"{anew}."]
    likelier = ways if _is_shared(key, others[first]) else ways[::-1]
    return f"{first!r} tells them apart. {' '.join(likelier)}{each}"


def _is_shared(key: Codes, column: Codes) -> bool:
    """Whether models have the same questions still, where ids are joined with a column: those of one run have not."""
    if not key.parts:
        return True
    *models, item = key.parts
    of_model = joint([joint([item, column]), joint(models)])
    most = np.bincount(of_model.parts[1].codes[of_model.first]).max()
    return bool(2 * of_model.parts[0].n_clusters <= 3 * most)


def _mostly_apart(key: Codes, others: Mapping[str, Codes]) -> str:
    """The column that tells most repeats apart, where one tells more than half; else empty."""
    left = {name: key.codes.size - joint([key, codes]).n_clusters for name, codes in others.items()}
    best = min(left, key=left.__getitem__, default="")
    if not best or 2 * left[best] > key.codes.size - key.n_clusters:
        return ""
    first = passed(subset=f"{best} == {json.dumps(others[best].label(0))}")
    return f"{best!r} tells all but {left[best]} of them apart: keep the rows of one, such as {first}."


def _copies(key: Codes, values: FloatArray, roles: Roles) -> str:
    """What to do about repeats that no column tells apart."""
    if roles.sample is not None:
        return "Remove the copies, or give each answer its own sample id."
    differing = int((values != values[key.first][key.codes]).sum())
    known = "so that they look like copies: remove them"
    if differing:
        known = f"and {differing} of them {'has' if differing == 1 else 'have'} another score than the first"
        known += ": find out which one holds before you remove the rest"
    numbered = " need a column that numbers them, named in `sample`; without it average them"
    anew = f": {roles.repeats}" if roles.repeats else numbered
    return f"No other column tells them apart, {known}. Answers that were given anew{anew}."


def _apart(key: Codes, others: Mapping[str, Codes]) -> list[str]:
    """Columns that together tell all rows of one key apart, each time the best; none where all do not."""
    names, split = list[str](), key
    while split.n_clusters < key.codes.size:
        splits = {name: joint([split, codes]) for name, codes in others.items() if name not in names}
        best = max(splits, key=lambda name: splits[name].n_clusters, default="")
        if not best or splits[best].n_clusters == split.n_clusters:
            return []
        names, split = [*names, best], splits[best]
    for name in names:  # an early one may be needless in the end
        rest = [other for other in names if other != name]
        names = rest if joint([key, *map(others.__getitem__, rest)]).n_clusters == key.codes.size else names
    return [name for name in others if name in names]


def _label_columns(roles: Roles, source: UsedRows, n_rows: int) -> Iterator[tuple[str, Codes]]:
    """Other columns that could tell rows apart: neither fractions nor an id of every row."""
    table: Table = source.table
    taken = {*roles.labels, roles.score, weights_name(roles.weights)}
    for name in [name for name in table.columns if name not in taken][:MOST_COLUMNS]:
        if table.frame.get_column(name).dtype.is_float():
            continue
        try:
            codes, labels = table.labels(name, "item")
        except (TypeError, ValueError):
            continue
        codes = restrict(codes, source.keep)
        if codes.min() >= 0 and 2 <= len(labels) <= n_rows / 2:
            yield name, as_codes(codes, labels)


def _joined(*names: str) -> str:
    """A joint id of names, in backticks where one holds a colon; a joint id in the last place stays as it is."""
    *first, last = names
    return ":".join([*(f"`{name}`" if ":" in name and "`" not in name else name for name in first), last])


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

    keys: list[Names]
    cell: IntArray | None
    rows: ReadRows
    item: Codes | None
    lines: Names = ()

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
    lines: Names = ()
    if roles.questions == "shared":
        rows, lines = _shared_questions(rows, roles)
    item = None if roles.item is None else rows.used[roles.item]
    if roles.item is not None:
        rows = one_row_an_item(rows, roles)
    keys, cell = cells_of(rows.used, roles.cell_columns)
    return CellRows(keys, cell, rows, item, lines)


def _shared_questions(rows: ReadRows, roles: Roles) -> tuple[ReadRows, Names]:
    """The rows of items that all models have, and what to say about them."""
    assert roles.item is not None
    models = joint([rows.used[name] for name in roles.by])
    names = tuple(models.label(code) for code in range(models.n_clusters))
    shared, line = shared_rows(models, names, rows.used[roles.item], roles.item)
    return (rows if shared.all() else rows.only(shared, "unshared")), (line,)


def cells_of(used: dict[str, Codes], columns: Sequence[str]) -> tuple[list[Names], IntArray | None]:
    """Keys of the cells, sorted as text, and the cell of each row; one unnamed cell, and None, without columns."""
    if not columns:
        return [()], None
    cells = joint([used[name] for name in columns])
    first = cells.first
    texts = [tuple(used[name].label(int(used[name].codes[row])) for name in columns) for row in first]
    order = sorted(range(len(texts)), key=texts.__getitem__)
    if alike := [":".join(text) for text in repeated(texts)]:
        raise alike_as_text(alike, columns)
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    return [texts[i] for i in order], np.asarray(rank[cells.codes])


def alike_as_text(texts: list[str], columns: Sequence[str]) -> DataError:
    """The error for different values of some columns that read alike."""
    return DataError(
        f"labels must be distinct as text; different values of {' and '.join(map(repr, columns))} all read "
        f"{listed(texts)}. Convert columns to one type first.",
        column=columns[0],
        count=len(texts),
    )


def joint_names(models: Sequence[Names]) -> Names:
    """Names of parameters from the labels of `by`, joined by a colon and all distinct; "mean" without any."""
    names = [":".join(model) if model else "mean" for model in models]
    if alike := repeated(names):
        raise DataError(
            f"joint labels must be distinct as text; {listed(alike)} would name different values. Rename labels that "
            "contain a colon, or join the columns yourself.",
            count=len(alike),
        )
    return tuple(names)
