"""From rows that fall into cells to an Estimate: what every estimator made of cells shares."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray, MissingName, QuestionsName, listed, row_list, rows_text
from evalreg.covariance.groups import Groups, as_label_dict
from evalreg.data.clusters import Axis, Codes, Labels, factorize, joint, parse_groups, used_codes
from evalreg.data.columns import array_floats
from evalreg.data.engine import LazyTable
from evalreg.data.filters import refuse_filters
from evalreg.data.frame import Table, UsedRows, align_labels, keep_rows, restrict
from evalreg.data.memory import refuse_parameters
from evalreg.data.repeats import Told, one_row_an_item
from evalreg.errors import (
    ArgumentError,
    ArgumentTypeError,
    ConstantScoreError,
    DataError,
    DuplicateRowsError,
    EmptyDataError,
    NonFiniteError,
    NonNumericError,
    NotAvailableError,
)
from evalreg.estimate import About, Cells, Estimate, Refit
from evalreg.inference.questions import restricted, shared_rows
from evalreg.scores.lazy import LazyScores, lazy_cell_sums
from evalreg.scores.paired import paired_answers
from evalreg.scores.sums import CellScores, CellSums, Matrix, cell_sums, compressed

# Squares of weights between this and its inverse, summed over many rows, are still floats.
FAR = 1e50


@dataclass(frozen=True, eq=False)
class Solved:
    """What a `solve` makes of the sums of the cells.

    Parameters
    ----------
    names : tuple of str
        Names of the parameters.
    coefficient_map : ndarray or sparse array, shape (n_params, n_cells)
        Params as a linear function of the cells' means.
    """

    names: tuple[str, ...]
    coefficient_map: Matrix


Gathered: TypeAlias = tuple[
    list[tuple[str, ...]], CellSums, CellScores | LazyScores, tuple[Axis, ...] | None, dict[str, int], tuple[str, ...]
]
"""Keys and sums of the cells, scores of the rows, axes of the groups, rows dropped by reason, what to say of them."""

Solve = Callable[[list[tuple[str, ...]], CellSums], Solved]


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


def estimate_cells(
    table: Table | LazyTable, roles: Roles, groups: Groups, solve: Solve, about: About
) -> tuple[Estimate, tuple[Axis, ...] | None]:
    """Sums of the cells, parameters by `solve`, and the scores that give their covariance.

    Parameters
    ----------
    table : Table or LazyTable
        The data.
    roles : Roles
        Which column is what.
    groups : str, list, array, Series, dict or None
        Clusters asked for, whose missing ids count among the missing values.
    solve : callable
        Names and coefficient map from the keys and sums of the cells.
    about : About
        For the summary.

    Returns
    -------
    estimate : Estimate
        With labels for the groups.
    axes : tuple of Axis or None
        The clusterings asked for.

    Raises
    ------
    EvalregError
        See `evalreg.errors`: columns, numbers, duplicates, alignment, constant scores.
    """
    gathered = _gather_lazy(table, roles, groups) if isinstance(table, LazyTable) else gather(table, roles, groups)
    keys, sums, scores, axes, dropped, lines = gathered
    refuse_parameters(len({key[: len(roles.by)] for key in keys}))
    solved = solve(keys, sums)
    mean = np.where(sums.low == sums.high, sums.low, sums.total / sums.weight)
    bounded = bool(np.min(sums.low) >= 0 and np.max(sums.high) <= 1)
    _refuse_constant(sums, solved, bounded, roles.score)
    strata = sorted({key[-1] for key in keys}) if roles.strata is not None else []
    cells = Cells(
        count=sums.count,
        weight=sums.weight,
        mean=mean,
        squares=np.where(sums.low == sums.high, 0.0, sums.squares),
        low=sums.low,
        high=sums.high,
        stratum=np.array([strata.index(key[-1]) for key in keys]) if strata else None,
        strata=tuple(strata),
    )
    estimate = Estimate(
        names=solved.names,
        params=np.asarray(solved.coefficient_map @ mean),
        scores=replace(scores, fitted=mean),
        bread=_scaled(solved.coefficient_map, 1.0 / sums.weight).T,
        kind="mean",
        coefficient_map=solved.coefficient_map,
        refit=Refit(1.0 / sums.weight),
        cells=cells,
        bounded=bounded,
        dropped=dropped,
        about=replace(about, lines=(*about.lines, *lines), unit=bounded),
        item=() if roles.item is None else (roles.item,),
    )
    item = (roles.item,) if roles.item is not None else axes[0] if axes else None
    if bounded and item is not None and roles.by and roles.weights is None:
        estimate = replace(estimate, paired=paired_answers(estimate, item))
    return estimate, axes


def _scaled(matrix: Matrix, columns: FloatArray) -> Matrix:
    return compressed(matrix) @ sparse.diags_array(columns) if sparse.issparse(matrix) else matrix * columns


def _refuse_constant(sums: CellSums, solved: Solved, bounded: bool, score: str) -> None:
    """Scores that do not vary have no error bar, unless their bounds give one."""
    if bounded:
        return
    varies = np.asarray((solved.coefficient_map != 0) @ (sums.low < sums.high)).astype(bool)
    if varies.all():
        return
    alike = [name for name, is_varied in zip(solved.names, varies, strict=True) if not is_varied]
    value = sums.low[np.flatnonzero(sums.low == sums.high)[0]]
    raise ConstantScoreError(
        f"`score` must vary; column {score!r} is {value:g} in every row of {listed(alike)}, and scores outside [0, 1] "
        "give no bound for an error bar. Leave such rows out, or rescale scores to [0, 1].",
        column=score,
        count=len(alike),
    )


def group_labels(table: Table, groups: Groups) -> tuple[tuple[Axis, ...] | None, dict[str, tuple[IntArray, Any]]]:
    """Axes of the groups asked for, and the codes of all rows of each column, -1 where missing.

    Parameters
    ----------
    table : Table
        The data.
    groups : str, list of str, array, Series, dict or None
        As passed by the user.

    Returns
    -------
    axes : tuple of Axis or None
        None for no groups.
    labels : dict of str to (codes, labels)
        One entry a column.
    """
    if groups is None:
        return None, {}
    if isinstance(groups, str) or (isinstance(groups, list | tuple) and all(isinstance(g, str) for g in groups)):
        axes = parse_groups(groups, table.columns)
        return axes, {name: table.labels(name, "groups") for axis in axes for name in axis}
    given = as_label_dict(groups)
    labels = {name: factorize(align_labels(name, values, table.n_rows, table.index)) for name, values in given.items()}
    return tuple((name,) for name in given), labels


def checked_weights(table: Table, weights: Any) -> FloatArray | None:
    """Sampling weights of all rows, NaN where missing; positive everywhere else.

    Parameters
    ----------
    table : Table
        The data.
    weights : str, array_like or None
        A column, or one weight a row.

    Returns
    -------
    ndarray, shape (n_rows,), or None
        The weights.

    Raises
    ------
    ArgumentError
        If a weight is negative, or they sum to zero.
    """
    if weights is None:
        return None
    if isinstance(weights, str):
        values = table.floats(weights, "weights")
    else:
        values = _weight_array(table, weights)
    wrong = ~(values > 0) & ~np.isnan(values)
    if wrong.any():
        rows, count = row_list(wrong)
        remedy = "Check the signs" if (values < 0).any() else "A row of weight zero is no observation: leave it out"
        raise ArgumentError(
            f"`weights` must be positive; {rows_text(rows, count)} {'is' if count == 1 else 'are'} not "
            f"(smallest {np.nanmin(values):g}). {remedy}.",
            column=weights_name(weights),
            rows=rows,
            count=count,
        )
    return _scaled_weights(values, weights_name(weights))


def _scaled_weights(values: FloatArray, name: str) -> FloatArray:
    """Weights by a power of two that keeps their squares and inverses within floats; only their ratios matter."""
    largest = float(np.max(values, where=~np.isnan(values), initial=0.0))
    if largest == 0.0:
        return values
    if not 1 / FAR < largest < FAR:
        # In two steps: the power itself may be no float.
        power = -int(np.frexp(largest)[1])
        values = np.ldexp(np.ldexp(values, power // 2), power - power // 2)
    light = values < np.max(values, where=~np.isnan(values), initial=0.0) / FAR**2
    if light.any():
        rows, count = row_list(light)
        raise ArgumentError(
            f"`weights` must lie within a factor of {FAR**2:.0e} of each other; {rows_text(rows, count)} "
            f"{'is' if count == 1 else 'are'} smaller beside the largest. Such a row says nothing: leave it out.",
            column=name,
            rows=rows,
            count=count,
        )
    return values


def _weight_array(table: Table, weights: Any) -> FloatArray:
    if not hasattr(weights, "__len__") or getattr(weights, "ndim", 1) != 1:
        raise ArgumentTypeError(
            f"`weights` must be a column or a one-dimensional array; got {type(weights).__name__}"
            f"{f' of {weights.ndim} dimensions' if hasattr(weights, 'ndim') else ''}."
        )
    aligned = align_labels("weights", weights, table.n_rows, table.index, "weights")
    try:
        values = array_floats(aligned)
    except (TypeError, ValueError):
        raise NonNumericError(
            "`weights` must hold numbers; the array holds something else.", column="weights"
        ) from None
    if np.isinf(values).any():
        rows, count = row_list(np.isinf(values))
        raise NonFiniteError(
            f"`weights` must be finite; {rows_text(rows, count)} {'is' if count == 1 else 'are'} infinite.",
            column="weights",
            rows=rows,
            count=count,
        )
    return values


def weights_name(weights: Any) -> str:
    """Return the column of the weights, or "weights" for an array."""
    return weights if isinstance(weights, str) else "weights"


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows in use of a table in memory.

    Parameters
    ----------
    values : dict of str to ndarray, shape (n_rows,)
        Columns of numbers, by the argument that named them.
    weights : ndarray, shape (n_rows,), optional
        Sampling weights.
    used : dict of str to Codes
        Columns of labels.
    held : tuple of str
        Those of the groups.
    source : UsedRows
        Where further labels can be looked up.
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
        """Rows in use."""
        keep = self.source.keep
        return self.source.table.n_rows if keep is None else int(np.count_nonzero(keep))


def read_rows(
    table: Table, numbers: dict[str, str], roles: Roles, groups: Groups, texts: dict[str, str] | None = None
) -> Rows:
    """Rows without missing values, of the columns that play a role.

    Parameters
    ----------
    table : Table
        The data.
    numbers, texts : dict of str to str
        Columns of numbers, and of labels that are what is scored, by the argument that names them.
    roles : Roles
        The other columns; its `score` is not read.
    groups : str, list, array, Series, dict or None
        Clusters asked for.

    Returns
    -------
    Rows
        Aligned with each other.

    Raises
    ------
    EvalregError
        See `evalreg.errors`: columns, numbers, alignment, nothing left.
    """
    values = {argument: table.floats(name, argument) for argument, name in numbers.items()}
    weights = checked_weights(table, roles.weights)
    scored = {name: table.labels(name, argument) for argument, name in (texts or {}).items()}
    needed = [name for name in (*roles.by, roles.strata, roles.item, roles.sample) if name is not None]
    columns = {name: table.labels(name, _role_of(roles, name)) for name in needed}
    axes, labels = group_labels(table, groups)
    missing = {f"score: {numbers[argument]}": np.isnan(column) for argument, column in values.items()}
    missing |= {f"score: {name}": codes < 0 for name, (codes, _) in scored.items()}
    missing |= {f"covariate: {name}": codes < 0 for name, (codes, _) in columns.items()}
    if weights is not None:
        missing[f"covariate: {weights_name(roles.weights)}"] = np.isnan(weights)
    missing |= {f"group: {name}": codes < 0 for name, (codes, _) in labels.items()}
    keep, dropped = keep_rows(missing, table.n_rows, roles.missing)
    refuse_filters(table, keep, roles.cell_columns)
    used = {
        name: used_codes(name, restrict(codes, keep), names, every_row=keep is None)
        for name, (codes, names) in {**scored, **columns, **labels}.items()
    }
    values = {argument: restrict(column, keep) for argument, column in values.items()}
    source = UsedRows(table, keep)
    return Rows(values, restrict(weights, keep), used, tuple(labels), source, axes, dropped)


def gather(table: Table, roles: Roles, groups: Groups) -> Gathered:
    """Sums of cells and scores of rows in memory.

    Parameters
    ----------
    table : Table
        The data.
    roles : Roles
        Which column is what.
    groups : str, list of str, array, Series, dict or None
        Clusters asked for.

    Returns
    -------
    keys, sums, scores, axes, dropped, lines
        See `Gathered`.
    """
    rows = read_rows(table, {"score": roles.score}, roles, groups)
    lines: tuple[str, ...] = ()
    if roles.questions == "shared":
        rows, lines = _shared_questions(rows, roles)
    values, weights, used, source = rows.values["score"], rows.weights, rows.used, rows.source
    if roles.item is not None:
        told = Told((*roles.by, roles.item), roles.sample, roles.score, weights_name(roles.weights))
        values, weights, used, source = one_row_an_item(values, weights, used, told, source, roles.combine)
    keys, cell = cells_of(used, roles.cell_columns)
    n_cells = max(len(keys), 1)
    sums = cell_sums(values, cell, n_cells, weights)
    held = {name: used[name] for name in used if name in rows.held or name == roles.item}
    scores = CellScores(values, sums.total / sums.weight, Labels(values.size, held, source), cell, weights)
    return keys, sums, scores, rows.axes, rows.dropped, lines


def _shared_questions(rows: Rows, roles: Roles) -> tuple[Rows, tuple[str, ...]]:
    """The rows of items that all models have, and what to say of them."""
    assert roles.item is not None
    models = joint([rows.used[name] for name in roles.by])
    names = tuple(models.label(code) for code in range(models.n_clusters))
    kept, line = shared_rows(models, names, rows.used[roles.item], roles.item)
    n_left = int(np.count_nonzero(~kept))
    if not n_left:
        return rows, (line,)
    keep = np.ones(rows.source.table.n_rows, dtype=bool) if rows.source.keep is None else rows.source.keep.copy()
    keep[np.flatnonzero(keep)] = kept
    part = replace(
        rows,
        values={argument: column[kept] for argument, column in rows.values.items()},
        weights=restrict(rows.weights, kept),
        used={name: restricted(codes, kept) for name, codes in rows.used.items()},
        source=replace(rows.source, keep=keep),
        dropped={**rows.dropped, "unshared": n_left},
    )
    return part, (line,)


def _role_of(roles: Roles, name: str) -> str:
    pairs = {roles.item: "item", roles.sample: "sample", roles.strata: "strata"}
    return pairs.get(name, "by")


def cells_of(used: dict[str, Codes], columns: Sequence[str]) -> tuple[list[tuple[str, ...]], IntArray | None]:
    """Keys of the cells, sorted as text, and the cell of each row; one unnamed cell without columns.

    Parameters
    ----------
    used : dict of str to Codes
        Codes of the rows in use by column.
    columns : sequence of str
        Whose joint values are the cells.

    Returns
    -------
    keys : list of tuple of str
        Labels of each cell.
    cell : ndarray of int, shape (n_rows,), or None
        Cell of each row.

    Raises
    ------
    DataError
        If different values read the same as text.
    """
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
    """Names of parameters from the labels of `by`, joined by a colon; "mean" without any.

    Parameters
    ----------
    models : sequence of tuple of str
        Labels of each parameter.

    Returns
    -------
    tuple of str
        All distinct.

    Raises
    ------
    DataError
        If different labels join to the same text.
    """
    names = [":".join(model) if model else "mean" for model in models]
    alike = [name for name, times in Counter(names).items() if times > 1]
    if alike:
        raise DataError(
            f"the joint labels of `by` must be distinct as text; {listed(alike)} stands for different values. Rename "
            "labels that contain a colon, or join the columns yourself.",
            count=len(alike),
        )
    return tuple(names)


def _gather_lazy(table: LazyTable, roles: Roles, groups: Groups) -> Gathered:
    """Sums of cells by queries; rows stay in the engine."""
    if roles.questions == "shared":
        raise NotAvailableError(
            '`questions="shared"` needs rows in memory: keep the questions that all models answered in the engine, or '
            "collect the frame first."
        )
    if roles.sample is not None:
        raise ArgumentError(
            "`sample` needs rows in memory: average the answers in the engine, or collect the frame first."
        )
    weight = roles.weights
    if weight is not None and not isinstance(weight, str):
        raise ArgumentError("`weights` of rows in an engine must name a column.")
    table.check_numeric(roles.score, "score")
    axes = None if groups is None else parse_groups(groups, table.columns)
    asked = {
        "score": [roles.score],
        "covariate": [name for name in (*roles.cell_columns, roles.item, weight) if name is not None],
        "group": list(dict.fromkeys(name for axis in axes or () for name in axis)),
    }
    dropped, n_left = {}, 0
    for reason, names in asked.items():
        n_all, absent = table.count_absent(names)
        if absent and roles.missing == "raise":
            raise NonFiniteError(
                f'nothing may be missing under `missing="raise"`; {absent} of {n_all} rows have no {reason} '
                f"({listed(names)}).",
                count=absent,
            )
        dropped[reason], n_left = absent, n_all - absent
        table = table.present(names) if absent else table
    if n_left == 0:
        raise EmptyDataError("`data` has no rows, or none is left without missing values.")
    if weight is not None:
        _check_lazy_weights(table, weight)
    refuse_filters(table, None, roles.cell_columns)
    if roles.item is not None:
        _refuse_lazy_repeats(table, roles)
    keys, sums = lazy_cell_sums(table, roles.score, roles.cell_columns, weight)
    codes = {key: code for code, key in enumerate(keys)}
    scores = LazyScores(table, roles.score, roles.cell_columns, codes, sums.total / sums.weight, sums, weight)
    return keys, sums, scores, axes, dropped, ()


def _check_lazy_weights(table: LazyTable, weight: str) -> None:
    import narwhals.stable.v2 as nw

    table.check_numeric(weight, "weights")
    smallest = float(table.group((), {"low": nw.col(weight).min()})["low"].iloc[0])
    if not smallest > 0:
        raise ArgumentError(f"`weights` must be positive; the smallest is {smallest:g}.", column=weight)


def _refuse_lazy_repeats(table: LazyTable, roles: Roles) -> None:
    import narwhals.stable.v2 as nw

    assert roles.item is not None
    columns = (*roles.by, roles.item)
    counts = LazyTable(table.frame.group_by(*columns).agg(nw.len().alias("__n"))).group(
        (), {"rows": nw.col("__n").sum(), "items": nw.len()}
    )
    repeats = int(counts["rows"].iloc[0]) - int(counts["items"].iloc[0])
    if repeats:
        raise DuplicateRowsError(
            f"there must be one row for each {' and '.join(map(repr, columns))}; {repeats} rows repeat an earlier one. "
            "Average or remove them in the engine first.",
            column=roles.item,
            count=repeats,
        )


def missing_masks(table: Table, columns: Sequence[str], reason: str) -> dict[str, BoolArray]:
    """Masks of missing values by "<reason>: <column>", for `keep_rows`."""
    return {f"{reason}: {name}": table.missing(name) for name in columns}
