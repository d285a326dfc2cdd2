"""The reader of rows that stay in an engine: what is missing is filtered and counted there."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray, MissingName, listed
from evalreg.data.clusters import MADE, TABLE_PER_ROW, Axis, Groups, as_text, known_column, parse_groups, union
from evalreg.data.dialects import refuse_text_among_numbers
from evalreg.data.engine import (
    FAR,
    CellKeys,
    Measure,
    Query,
    aggregated,
    encoded,
    fetched,
    numbers_of,
    refuse_spark_names,
)
from evalreg.data.rows import Roles, refuse_filters
from evalreg.errors import ArgumentError, DuplicateRowsError, EmptyDataError, NonFiniteError

# In the order in which they count; of a row that lacks several, the first.
REASONS = ("score", "covariate", "group")
# Weights that are far from 1, times a power of two: only their ratios matter.
RESCALED = "__rescaled_weights"


def reason_number(table: Query, asked: Iterable[Sequence[str]]) -> nw.Expr:
    """Why a row is not in use: 1 if one of the first columns is missing, else 2 if one of the next is; 0: in use."""
    found = nw.lit(0)
    for number, names in reversed(list(enumerate(asked, 1))):
        if names:
            found = nw.when(table.absent(names)).then(nw.lit(number)).otherwise(found)
    return found


def refuse_missing(
    dropped: Mapping[str, int], asked: Mapping[str, Sequence[str]], n_rows: int, missing: MissingName
) -> None:
    """Raise under `missing="raise"` if rows are dropped; the first reason is told with its columns."""
    first = next((reason for reason in asked if dropped[reason]), None)
    if first is not None and missing == "raise":
        raise NonFiniteError(
            f'nothing may be missing under `missing="raise"`; {dropped[first]} of {n_rows} rows have no {first} '
            f"({listed(asked[first])}).",
            count=dropped[first],
        )


def dropped_rows(why: Any, rows: FloatArray, missing: MissingName) -> dict[str, int]:
    """Rows not in use by reason, from the number of the reason of each entry and its rows; some must be in use."""
    dropped = {reason: int(rows[why == number].sum()) for number, reason in enumerate(REASONS, 1)}
    lost = {reason: count for reason, count in dropped.items() if count}
    if lost and missing == "raise":
        reason, count = next(iter(lost.items()))
        raise NonFiniteError(
            f'nothing may be missing under `missing="raise"`; {count} of {int(rows.sum())} rows have no {reason}. Fill '
            'the values in, or pass missing="drop" to leave the rows out, counted.',
            count=count,
        )
    if not (why == 0).any():
        counts = ", ".join(f"{count} without a {reason}" for reason, count in lost.items())
        raise EmptyDataError(
            f"no row is left: all {int(rows.sum())} have something missing ({counts}).", count=int(rows.sum())
        )
    return dropped


def refuse_light_weights(light: float, column: str) -> None:
    """Raise unless the smallest weight is positive."""
    if not light > 0:
        remedy = "Check the signs" if light < 0 else "A row of weight zero is not an observation: leave it out"
        raise ArgumentError(f"`weights` must be positive; the smallest is {light:g}. {remedy}.", column=column)


def _refuse_infinite(heavy: float, column: str) -> None:
    if np.isinf(heavy):
        raise NonFiniteError(f"`weights` must be finite; column {column!r} holds infinities.", column=column)


def power_of_weights(light: float, heavy: float, column: str) -> int:
    """The power of two that keeps squares of weights, and sums of these, within floats; as in memory, mostly 0."""
    _refuse_infinite(heavy, column)
    if light < heavy / FAR**2:
        raise ArgumentError(
            f"`weights` must lie within a factor of {FAR**2:.0e} of each other; they are from {light:g} to {heavy:g}. "
            "Rows so much lighter than the heaviest say nothing: leave them out.",
            column=column,
        )
    return 0 if 1 / FAR < heavy < FAR else -int(np.frexp(heavy)[1])


def rescaled(table: Query, weights: str, power: int) -> Query:
    """The table with the weights times a power of two in a column of their own, `RESCALED`."""
    # In two steps: the power itself may be no float.
    halves = 2.0 ** (power // 2), 2.0 ** (power - power // 2)
    made = (nw.col(weights).cast(nw.Float64) * halves[0] * halves[1]).alias(RESCALED)
    return table.each(lambda frame: frame.with_columns(made))


# Entries that a range of clusters is to have: one query each. Measured on DuckDB: the process grows by 110 bytes an
# entry while one is read.
AT_ONCE = 1 << 23
# Rows at the start of a table that tell how many clusters it seems to have.
LOOKED_AT = 1 << 16


@dataclass(frozen=True, eq=False)
class Grouped:
    """One entry for each joint value of the keys.

    Parameters
    ----------
    keys : dict of str to (ndarray of int, labels)
        By column the code of each entry, -1 where it is missing, and the label of each code.
    numbers : dict of str to ndarray, shape (n_entries,)
        Sums and counts.
    """

    keys: dict[str, tuple[IntArray, Any]]
    numbers: dict[str, FloatArray]

    @property
    def n_entries(self) -> int:
        """Joint values of the keys."""
        return int(next(iter(self.numbers.values())).size)

    def only(self, kept: BoolArray) -> Grouped:
        """Some of the entries, with their labels."""

        def some(codes: IntArray, labels: Any) -> tuple[IntArray, Any]:
            own = codes[kept]
            there = np.unique(own[own >= 0])
            place = np.full(len(labels) + 1, -1, dtype=codes.dtype)
            place[there] = np.arange(there.size)
            return place[own], np.asarray(labels)[there]

        keys = {name: some(*one) for name, one in self.keys.items()}
        return Grouped(keys, {name: column[kept] for name, column in self.numbers.items()})

    def joint(self, columns: Sequence[str]) -> tuple[IntArray, int]:
        """Codes of the joint values of some keys, none of which may be missing, in their order, and how many."""
        own = [(codes, len(labels)) for codes, labels in (self.keys[name] for name in columns)]
        return joint_codes(own, self.n_entries)

    def texts(self, columns: Sequence[str], codes: IntArray, n_codes: int) -> list[tuple[str, ...]]:
        """The labels of joint values, as text."""
        if not columns:
            return [()] * n_codes
        of, labels = self.parts(columns, codes, n_codes)
        return list(zip(*(labels[name][of[name]] for name in columns), strict=True))

    def parts(
        self, columns: Sequence[str], codes: IntArray, n_codes: int
    ) -> tuple[dict[str, IntArray], dict[str, Any]]:
        """By column, the code of each joint value, and the labels of codes as text."""
        labels = {name: as_text(self.keys[name][1]) for name in columns}
        if len(columns) == 1:  # Joint codes of one column are its own.
            return {columns[0]: np.arange(n_codes, dtype=codes.dtype)}, labels
        entry = np.empty(n_codes, dtype=np.intp)
        entry[codes] = np.arange(codes.size)
        return {name: self.keys[name][0][entry] for name in columns}, labels


def joint_codes(columns: Sequence[tuple[IntArray, int]], n: int) -> tuple[IntArray, int]:
    """Codes of the joint values of `n` entries, from the codes of each column and how many it has, in their order."""
    (codes, n_codes), *others = columns or [(np.zeros(n, dtype=np.int32), 1)]
    for own, n_own in others:
        if n_codes == 1:
            codes, n_codes = own, n_own
            continue
        codes, n_codes = ordered(codes.astype(np.int64) * n_own + own, n_codes * n_own)
    return codes, n_codes


def backend() -> Literal["pyarrow", "pandas"]:
    """Where grouped tables go: Arrow holds text in a third of the memory that objects of Python take."""
    return "pyarrow" if importlib.util.find_spec("pyarrow") else "pandas"


def grouped(
    frame: nw.LazyFrame[Any], keys: Sequence[str], aggregates: dict[str, nw.Expr], most: int | None = None
) -> Grouped:
    """Ask an engine for aggregates by the joint values of some columns, of which no more than so many are fetched."""
    # A column of the caller may be called as an aggregate is.
    own = {name: f"__sum_{name}" for name in aggregates}
    expressions = [expression.alias(own[name]) for name, expression in aggregates.items()]
    asked = aggregated(frame, keys, *expressions)
    held = fetched(asked if most is None else asked.head(most), backend())
    coded = {name: encoded(held[name]) for name in keys}
    return Grouped(coded, {name: numbers_of(held[made]) for name, made in own.items()})


def coded(frame: nw.LazyFrame[Any], columns: Sequence[str]) -> dict[str, tuple[IntArray, Any]]:
    """By column the code of each row, -1 where it is missing, and the label of each code."""
    held = fetched(frame.select(*columns), backend())
    return {name: encoded(held[name]) for name in columns}


def grouped_sorted(
    frame: nw.LazyFrame[Any], columns: Sequence[str], aggregates: dict[str, nw.Expr]
) -> tuple[list[tuple[str, ...]], dict[str, FloatArray]]:
    """Joint values of some columns, sorted as text, and aggregates of each; labels are spelled as in clusterings."""
    return sorted_lines(grouped(frame, columns, aggregates), columns)


def sorted_lines(found: Grouped, columns: Sequence[str]) -> tuple[list[tuple[str, ...]], dict[str, FloatArray]]:
    """The same of a table that came out already, in which no label is missing."""
    joint, n_joint = found.joint(columns)
    keys = found.texts(columns, joint, n_joint)
    order = sorted(range(n_joint), key=keys.__getitem__)
    entry = np.argsort(joint)[order]
    return [keys[i] for i in order], {name: column[entry] for name, column in found.numbers.items()}


def _width(n: int) -> Any:
    """Type of whole numbers up to n."""
    return np.int32 if n < 2**31 else np.int64


def ordered(key: IntArray, size: int) -> tuple[IntArray, int]:
    """Codes of keys below `size` in their order, and how many there are."""
    if size <= TABLE_PER_ROW * key.size + 1024:
        present = np.bincount(key, minlength=size) > 0
        place: IntArray = np.cumsum(present, dtype=_width(key.size)) - 1
        return place[key], int(np.count_nonzero(present))
    values, codes = np.unique(key, return_inverse=True)
    return codes, values.size


# Where squares are taken about: the middle of scores from 0 to 1.
MIDDLE = 0.5
_REASON, _ROWS = "__reason", "__rows"


@dataclass(frozen=True, eq=False)
class EngineRows:
    """The rows in use, one an item, which stay where they are.

    Parameters
    ----------
    table : Query
        Nothing is missing in it that plays a role.
    axes : tuple of Axis or None
        Those of the groups.
    dropped : dict of str to int
        Rows dropped by reason.
    weights : str or None
        Column of the weights: another one than was asked for, where these are far from 1.
    power : int
        It holds the weights times two to this power.
    cells : CellKeys
        Of the columns of the roles.
    sums : dict of str to ndarray, shape (n_cells,)
        By cell: rows n and weight w, sum t of values, their ends lo and hi, squares s about the middle, largest weight.
    """

    table: Query
    axes: tuple[Axis, ...] | None
    dropped: dict[str, int]
    weights: str | None
    power: int = 0
    cells: CellKeys = field(default_factory=CellKeys)
    sums: dict[str, FloatArray] = field(default_factory=dict)


def mean_measures(score: nw.Expr, weight: nw.Expr | None) -> dict[str, Measure]:
    """Sums t of values and s of their squares about the middle, and their ends lo and hi."""
    w = nw.lit(1.0) if weight is None else weight
    squares = w * (score - MIDDLE) * (score - MIDDLE)
    return {"t": (w * score, "sum"), "s": (squares, "sum"), "lo": (score, "min"), "hi": (score, "max")}


def read_in_engine(
    table: Query,
    roles: Roles,
    groups: Groups,
    values: dict[str, str] | None = None,
    measures: Callable[..., dict[str, Measure]] = mean_measures,
    covariates: Sequence[str] = (),
) -> EngineRows:
    """The rows in use, what is missing counted, and what is measured of each cell: one query.

    `values` are columns of numbers by argument, by default the score; `measures` are made of these and the weight;
    of further `covariates` none may be missing.
    """
    refuse_arrays_of_weights(roles.weights)
    values = {"score": roles.score} if values is None else values
    for argument, name in values.items():
        table.check_numeric(name, argument)
    if roles.weights is not None:
        table.check_numeric(known_column(roles.weights, table.columns, "weights"), "weights")
    axes = None if groups is None else parse_groups(groups, table.columns)
    asked = _asked(roles, axes, list(values.values()))
    asked["covariate"] += covariates
    names_in_use = [name for names in asked.values() for name in names]
    refuse_text_among_numbers(table, names_in_use)
    refuse_spark_names(table.frame, names_in_use)
    weights = roles.weights
    numbers = [nw.col(name).cast(nw.Float64) for name in values.values()]
    w = None if roles.weights is None else nw.col(roles.weights).cast(nw.Float64)
    found = _by_reason(table, roles, asked, measures(*numbers, w) | _of_weights(w))
    codes, reasons = found.keys[_REASON]
    why, rows = np.asarray(reasons)[codes], found.numbers[_ROWS]
    dropped = {name: int(rows[why == number].sum()) for number, name in enumerate(asked, 1)}
    refuse_missing(dropped, asked, int(rows.sum()), roles.missing)
    if any(dropped.values()):
        table = table.present(names_in_use)
    if not (why == 0).any():
        raise EmptyDataError("`data` has no rows, or none is left without missing values.")
    cells, sums = _cells(found.only(why == 0), roles.cell_columns)
    power = 0
    if weights is not None:
        refuse_light_weights(float(sums["light"].min()), weights)
        power = power_of_weights(float(sums["light"].min()), float(sums["heavy"].max()), weights)
    if weights is not None and power:
        table, weights = rescaled(table, weights, power), RESCALED
        sums |= {name: np.ldexp(sums[name], power) for name in ("w", "t", "s", "b", "light", "heavy") if name in sums}
    refuse_filters(table, None, (*roles.cell_columns, *covariates))
    if roles.item is not None:
        _refuse_repeats(table, roles)
    return EngineRows(table, axes, dropped, weights, power, cells, sums)


def refuse_arrays_of_weights(weights: object) -> None:
    """Rows of an engine have no order that an array could follow."""
    if weights is not None and not isinstance(weights, str):
        raise ArgumentError(
            "rows in an engine have no order, so `weights` must name a column; got "
            f"{type(weights).__name__}. Add it as a column and name that."
        )


def _asked(roles: Roles, axes: tuple[Axis, ...] | None, values: list[str]) -> dict[str, list[str]]:
    """The columns of the roles, by the reason for which a row without one is dropped."""
    labels = (*roles.cell_columns, roles.item, roles.weights)
    return {
        "score": values,
        "covariate": [str(name) for name in labels if name is not None],
        "group": list(union(*(axes or ()))),
    }


def _of_weights(weight: nw.Expr | None) -> dict[str, Measure]:
    return {} if weight is None else {"w": (weight, "sum"), "light": (weight, "min"), "heavy": (weight, "max")}


def _by_reason(table: Query, roles: Roles, asked: dict[str, list[str]], measures: Mapping[str, Measure]) -> Grouped:
    """What is measured, by cell and the number of the reason for which rows are not in use, 0 for those that are."""
    # Columns are made first: not every engine has products or casts inside a sum.
    made = {name: f"{MADE}sum{i}" for i, name in enumerate(measures)}
    columns = [expression.alias(made[name]) for name, (expression, _) in measures.items()]
    sums = {name: getattr(nw.col(made[name]), how)() for name, (_, how) in measures.items()}
    reason = reason_number(table, asked.values()).alias(_REASON)
    keys = dict.fromkeys(roles.cell_columns)
    return grouped(table.frame.select(reason, *keys, *columns), (_REASON, *keys), {_ROWS: nw.len()} | sums)


def measured_cells(
    table: Query, columns: tuple[str, ...], measures: Mapping[str, Measure]
) -> tuple[CellKeys, dict[str, FloatArray]]:
    """The cells of rows in which nothing is missing, and what is measured of each."""
    made = {name: f"{MADE}sum{i}" for i, name in enumerate(measures)}
    chosen = [expression.alias(made[name]) for name, (expression, _) in measures.items()]
    sums = {name: getattr(nw.col(made[name]), how)() for name, (_, how) in measures.items()}
    found = grouped(table.frame.select(*columns, *table.rows_of, *chosen), columns, {_ROWS: table.rows} | sums)
    return _cells(found, columns)


def _cells(found: Grouped, columns: tuple[str, ...]) -> tuple[CellKeys, dict[str, FloatArray]]:
    """The cells of the rows in use, in the order of their text, and the sums of each."""
    of = [found.keys[name] for name in columns]
    labels = [tuple(np.asarray(names, dtype=object)[codes]) for codes, names in of]
    cells = CellKeys(columns, tuple(zip(*labels, strict=True)) if columns else ((),))
    order = sorted(range(len(cells.keys)), key=cells.keys.__getitem__)
    sums = {name: column[order] for name, column in found.numbers.items()}
    sums["n"] = sums.pop(_ROWS)
    return CellKeys(columns, tuple(cells.labels[place] for place in order)), {"w": sums["n"]} | sums


def _refuse_repeats(table: Query, roles: Roles) -> None:
    assert roles.item is not None
    columns = (*roles.by, roles.item)
    counts = Query(aggregated(table.frame, columns, nw.len().alias("__n"))).group(
        (), {"rows": nw.col("__n").sum(), "items": nw.len()}
    )
    repeats = int(counts["rows"].iloc[0]) - int(counts["items"].iloc[0])
    if repeats:
        raise DuplicateRowsError(
            f"there must be one row for each {' and '.join(map(repr, columns))}; {repeats} rows repeat an earlier one. "
            "Average repeated answers first (`sample` of `mean` does), remove copies, and where models or tasks tell "
            f'rows apart name these in `by`, or join them as in item="task:{roles.item}".',
            column=roles.item,
            count=repeats,
        )
