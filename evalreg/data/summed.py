"""Logs as sums by cluster and model: made where the rows lie, and added up over shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype

from evalreg.checks import BoolArray, FloatArray, IntArray, MissingName, listed
from evalreg.data.centres import LOST, about_near_centres
from evalreg.data.clusters import Codes, factorize, joint
from evalreg.data.engine import LazyTable, schema_of, without_own
from evalreg.data.engine_groups import coded, grouped_lines, joint_codes
from evalreg.data.engine_rows import read_in_engine
from evalreg.data.frame import Table, refuse_extreme
from evalreg.data.groups import Groups, parse_groups
from evalreg.data.joint_ids import joint_parts
from evalreg.data.names import MADE
from evalreg.data.rows import Roles
from evalreg.data.summed_ratios import about_own
from evalreg.data.summed_roles import (
    BY_WEIGHT,
    COUNTS,
    HIGH,
    LARGEST,
    LOW,
    QUESTIONS,
    RATIOS_BY_WEIGHT,
    ROWS,
    SMALLEST,
    SQUARES,
    TOTAL,
    WEIGHTED_RATIO_SUMS,
    AnyRoles,
    SummedRatioRoles,
    SummedRoles,
)
from evalreg.errors import ArgumentError, DataError, NonFiniteError, NotAvailableError


@dataclass(frozen=True, eq=False)
class SummedLog:
    """Sums of a log by cluster and model; made by `summarise` and `merged`, immutable.

    `mean` takes it like a data frame, `compare` does where the questions are among the groups, `win_rate` and
    `bradley_terry` take sums of comparisons, and `ratio` those of numerators and denominators.

    Parameters
    ----------
    lines : DataFrame
        One line for each joint value of the groups and `by`: labels as text, n_rows, total, squares (about the mean
        of the line), low, high, and questions_hash (the sum of hashes of its questions). Of comparisons a line for each
        joint value of both sides, strata and groups; total and squares are of the left score less one half, and wins,
        ties and losses count the scores 1, 1/2 and 0; with weights also weight, weight2, total2, squares2 and heaviest.
        Of ratios sums of the numerators n and denominators d; squares, cross and denominator2 of e^2, e d and d^2, with
        e = n - R d about the ratio R of the line.
    roles : SummedRoles, SummedPairRoles or SummedRatioRoles
        Which columns it was summed by.
    kinds : dict of str to str
        What the labels of each column were: "text", "whole numbers", ...
    dropped : dict of str to int
        Rows dropped by reason.
    shards : tuple of str
        Files that it was made of; none where it was made of rows.
    power : int
        The sums are those of weights times two to this power, 0 unless weights are far from 1: only their ratios
        matter.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
    >>> sums = er.summarise(log, item="question", groups="passage")
    >>> sums
    <SummedLog: 200 rows of score in 40 lines, by passage>
    """

    lines: pd.DataFrame
    roles: AnyRoles
    kinds: dict[str, str]
    dropped: dict[str, int]
    shards: tuple[str, ...] = ()
    power: int = 0

    @property
    def n_rows(self) -> int:
        """Rows that were summed."""
        return int(self.lines[ROWS].sum())

    @cached_property
    def _questions(self) -> pd.DataFrame:
        columns = list(self.roles.by)
        code, index = _joint_codes(self.lines, columns)
        found = pd.DataFrame({"n": np.bincount(code, self.lines[ROWS].to_numpy()).astype(np.int64)}, index=index)
        found["hash"] = [f"{value:016x}" for value in hash_sums(code, len(index), self.lines[QUESTIONS].to_numpy())]
        return found

    @property
    def questions(self) -> pd.DataFrame:
        """Questions of each model: `n`, and `hash`, the same for the same set of questions in any shards.

        Of comparisons one line, "all".

        Raises
        ------
        NotAvailableError
            If the log was summed without `item`, or comparisons without `key`.
        """
        if not self.roles.hashed:
            named = "item" if self.roles.unit == "question" else "key"
            raise NotAvailableError(f"the questions are known only if the log was summed with `{named}`.")
        return self._questions.copy()

    def with_joint(self, name: str, columns: Sequence[str]) -> SummedLog:
        """The same sums with the joint values of some columns as labels under a name.

        Parameters
        ----------
        name : str
            Of the labels, which are the values joined by a colon.
        columns : list of str
            Labels that the log was summed by.

        Returns
        -------
        SummedLog
            New.

        Raises
        ------
        ArgumentError
            If different values would read alike.
        """
        parts = [Codes(codes, len(names), names) for codes, names in (factorize(self.lines[one]) for one in columns)]
        texts = self.lines[columns[0]].astype(object)
        for column in columns[1:]:
            texts = texts + ":" + self.lines[column]
        if texts.nunique() < joint(parts).n_clusters:
            raise ArgumentError(
                f"{name!r} joins labels by a colon, and different ones of {' and '.join(map(repr, columns))} would "
                "read alike. Summarise again with other labels.",
                column=columns[0],
            )
        roles = replace(self.roles, groups=(*self.roles.groups, name))
        return replace(self, lines=self.lines.assign(**{name: texts}), roles=roles, kinds={**self.kinds, name: "text"})

    def __repr__(self) -> str:
        return (
            f"<SummedLog: {self.n_rows} rows of {self.roles.outcome} in {len(self.lines)} lines, by "
            f"{', '.join(self.roles.labels)}>"
        )


def in_power(sums: SummedLog, power: int) -> SummedLog:
    """The same sums, of weights times two to another power."""
    by_weight = RATIOS_BY_WEIGHT if isinstance(sums.roles, SummedRatioRoles) else BY_WEIGHT
    made = {
        name: np.ldexp(sums.lines[name].to_numpy(dtype=float), times * (power - sums.power))
        for times, names in enumerate(by_weight, 1)
        for name in names
        if name in sums.lines
    }
    return replace(sums, lines=sums.lines.assign(**made), power=power)


def with_joint_lines(sums: SummedLog, **roles: object) -> SummedLog:
    """A log of sums with labels for every joint id of columns that it was summed by."""
    for argument, value in roles.items():
        for name in value if isinstance(value, list | tuple) else (value,):
            parts, known = joint_parts(name), sums.roles.labels
            if not parts or name in known or not set(parts) <= set(known):
                continue
            if len(set(parts)) < len(parts):
                raise ArgumentError(f"`{argument}` joins different columns; {name!r} names one twice.")
            sums = sums.with_joint(str(name), parts)
    return sums


def _joint_codes(lines: pd.DataFrame, columns: Sequence[str]) -> tuple[IntArray, pd.Index]:
    """Code of each line's joint label, and the labels."""
    if not columns:
        return np.zeros(len(lines), dtype=np.intp), pd.Index(["all"])
    joint = lines[columns[0]] if len(columns) == 1 else pd.MultiIndex.from_frame(lines[list(columns)])
    codes, labels = pd.factorize(joint, sort=True)
    return codes, pd.Index(labels)


# Of Fowler, Noll and Vo's hash of 64 bits.
_PRIME = np.uint64(1099511628211)


def hash_sums(code: IntArray, n: int, hashes: Any) -> Any:
    """Sums of hashes within groups, modulo 2**64, which adds up over shards in any order; shape (n,)."""
    result = np.zeros(n, dtype=np.uint64)
    np.add.at(result, code, np.asarray(hashes, dtype=np.uint64))
    return result


def added(lines: pd.DataFrame, roles: AnyRoles) -> pd.DataFrame:
    """Lines of the same labels added up: what a GROUP BY of any engine does."""
    columns = list(roles.labels)
    both = joint([Codes(codes, len(names)) for codes, names in (factorize(lines[name]) for name in columns)])
    code, n = both.codes, both.n_clusters
    result = lines.iloc[both.first][columns].reset_index(drop=True)

    def total(name: str) -> FloatArray:
        return np.asarray(np.bincount(code, lines[name].to_numpy(dtype=float), n), dtype=np.float64)

    if isinstance(roles, SummedRatioRoles):
        lines = about_own(lines, code, n)
    for name in roles.sums:
        values = lines[name]
        if name == QUESTIONS:
            result[name] = hash_sums(code, n, values.to_numpy())
        elif name in (*SMALLEST, *LARGEST):
            better, ends = (np.minimum, np.full(n, np.inf)) if name in SMALLEST else (np.maximum, np.full(n, -np.inf))
            better.at(ends, code, values.to_numpy(dtype=float))
            result[name] = ends
        else:
            result[name] = total(name).astype(np.int64) if name in COUNTS else total(name)
    if isinstance(roles, SummedRoles):
        rows, mean = lines[ROWS].to_numpy(dtype=float), (result[TOTAL] / result[ROWS]).to_numpy()
        away = (lines[TOTAL].to_numpy() / rows - mean[code]) ** 2
        between = np.bincount(code, rows * away, n)
        result[SQUARES] = np.where(result[LOW] == result[HIGH], 0.0, result[SQUARES] + between)
    return result.sort_values(columns, ignore_index=True)


def summed(table: LazyTable, roles: Roles, groups: Groups) -> SummedLog:
    """Sums by cluster and model, by two grouped queries; one more for the hashes where there is an item."""
    axes = parse_groups(groups, table.columns)
    own = SummedRoles(
        roles.score, roles.by, roles.item, roles.strata, tuple(sorted({name for axis in axes for name in axis}))
    )
    kinds = kinds_of(table, own)
    read = read_in_engine(table, roles, groups)
    return SummedLog(in_order(_summed_lines(read.table, own), own), own, kinds, read.dropped)


def kinds_of(table: LazyTable, own: AnyRoles) -> dict[str, str]:
    """What the labels of each column are; refused where they have the name of a sum, or no text of their own."""
    # Ratios have sums of weighted rows also where every weight is 1.
    sums = WEIGHTED_RATIO_SUMS if isinstance(own, SummedRatioRoles) else own.sums
    taken = [name for name in own.labels if name in sums]
    taken += [name for name in (*own.labels, *own.hashed) if name.startswith(MADE)]
    if taken:
        raise ArgumentError(
            f'labels must not have the name of a column of sums, nor one that begins with "{MADE}"; rename '
            f"{listed(taken)}."
        )
    schema = schema_of(table.frame)
    return {name: _kind(name, schema[name], table.frame) for name in own.labels}


def in_order(lines: pd.DataFrame, own: AnyRoles) -> pd.DataFrame:
    """Lines with labels as text, sorted by them."""
    made, places = {}, []
    for name in own.labels:
        codes, labels = factorize(lines[name])
        texts = np.array([str(one) for one in labels], dtype=object)
        order = np.argsort(texts)
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        places.append(place[codes])
        made[name] = texts[order]
    # By the first label, then the next: of the keys of `lexsort` the last counts most.
    line = np.lexsort(places[::-1])
    # Text as objects, which are the few labels again and again, as lines that are read from a file have them.
    columns = {
        name: pd.Series(texts[place[line]], dtype=object)
        for (name, texts), place in zip(made.items(), places, strict=True)
    }
    sums = {name: lines[name].to_numpy()[line] for name in own.sums}
    counts = {name: sums[name].astype(np.int64) for name in COUNTS if name in sums}
    return pd.DataFrame(columns | sums | counts, copy=False)


# Columns of objects in pandas, by what is inferred of their values.
_OBJECTS = {"string": "text", "integer": "whole numbers", "boolean": "Booleans", "date": "dates"}


def _kind(name: str, dtype: Any, frame: nw.LazyFrame[Any]) -> str:
    """What labels of a column are, the same for the same values in any library."""
    inferred = infer_dtype(frame.to_native()[name], skipna=True) if dtype == nw.Object else ""
    if inferred in _OBJECTS:
        return _OBJECTS[inferred]
    if dtype == nw.String or dtype == nw.Categorical or dtype == nw.Enum:
        return "text"
    if dtype == nw.Boolean:
        return "Booleans"
    if dtype.is_integer():
        return "whole numbers"
    if dtype == nw.Date:
        return "dates"
    told, advice = dtype, "Convert it to text first."
    if inferred:
        told = f"objects ({inferred})"
    elif dtype.is_numeric():
        told = f"{dtype}, whose text differs between engines"
        advice = (
            'Convert it to text or whole numbers first (a pandas column of whole numbers with gaps: `astype("Int64")`).'
        )
    raise ArgumentError(
        f"labels must be text, whole numbers, Booleans or dates; column {name!r} holds {told}. {advice}", column=name
    )


def _summed_lines(table: LazyTable, roles: SummedRoles) -> pd.DataFrame:
    names = roles.labels
    x = nw.col(roles.score).cast(nw.Float64)
    frame = table.frame.select(*map(nw.col, names), x.alias("__x"))
    value = nw.col("__x")
    lines = grouped_lines(frame, names, {ROWS: nw.len(), TOTAL: value.sum(), LOW: value.min(), HIGH: value.max()})
    ends = lines[[LOW, HIGH]].to_numpy()
    if np.isinf(ends).any():
        raise NonFiniteError(f"`score` must be finite; column {roles.score!r} holds infinities.", column=roles.score)
    refuse_extreme(ends, roles.score, "`score`")
    lines[SQUARES] = _squares(frame, roles, lines)
    lines[QUESTIONS] = hashes_of(table, roles, lines)
    return lines


def _squares(frame: nw.LazyFrame[Any], roles: SummedRoles, lines: pd.DataFrame) -> FloatArray:
    """Squares of each line about its mean, from those about a common centre, or that of its cell where it is far."""
    names, value = roles.labels, nw.col("__x")
    rows, total = (lines[name].to_numpy(dtype=float) for name in (ROWS, TOTAL))
    code, cells = _joint_codes(lines, roles.cell_columns)
    of_cell = np.bincount(code, total) / np.bincount(code, rows)

    def ask(line: int | None) -> tuple[dict[str, FloatArray], BoolArray]:
        centre = float(total.sum() / rows.sum() if line is None else of_cell[code[line]])
        away = frame.select(*map(nw.col, names), ((value - centre) * (value - centre)).alias("__x"))
        square = again(lines, grouped_lines(away, names, {"__s": value.sum()}), names)["__s"].to_numpy()
        within = np.maximum(square - rows * (total / rows - centre) ** 2, 0.0)
        # What is asked is whether the cell loses digits; a line of it then loses none that the cell has.
        whole, beyond = np.bincount(code, square), np.bincount(code, rows) * (of_cell - centre) ** 2
        return {SQUARES: within}, (spread & (whole - beyond < LOST * (whole + beyond)))[code]

    alike = (lines[LOW] == lines[HIGH]).to_numpy()
    ends = lines.groupby(code)
    spread = (ends[LOW].min() < ends[HIGH].max()).to_numpy()
    squares = about_near_centres(ask, of_cell[code], [str(cells[one]) for one in code], "means")[SQUARES]
    return np.where(alike, 0.0, squares)


def again(lines: pd.DataFrame, more: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Lines with further sums of them; refused where the engine has other rows by now."""
    if len(lines) != len(more) or any(not np.array_equal(lines[name], more[name]) for name in names):
        raise other_rows(lines, len(more), names)
    return pd.concat([lines, more.drop(columns=list(names))], axis=1)


def other_rows(lines: pd.DataFrame, n: int, names: Sequence[str]) -> DataError:
    """The error for an engine whose rows give other lines when they are asked again."""
    return DataError(
        f"the rows in the engine have changed while they were summed: their {len(lines)} lines by {listed(names)} are "
        f"now {n}, or different ones. Summarise again."
    )


def hashes_of(table: LazyTable, roles: AnyRoles, lines: pd.DataFrame) -> Any:
    """Sum of the hashes of the questions of each line; zeros where none are named."""
    if not roles.hashed:
        return np.zeros(len(lines), dtype=np.uint64)
    rows = coded(table.frame, tuple(dict.fromkeys((*roles.labels, *roles.hashed))))
    hashes: Any = None
    for name in roles.hashed:
        codes, labels = rows[name]
        own = pd.util.hash_array(np.array([str(one) for one in labels], dtype=object), categorize=False)[codes]
        # A hash of several columns depends on which of them holds what: FNV's prime between one and the next.
        hashes = own if hashes is None else (hashes * _PRIME) ^ own
    # Joint codes are in the order of labels, as lines are.
    line, n = joint_codes([(codes, len(labels)) for codes, labels in (rows[one] for one in roles.labels)], hashes.size)
    if n != len(lines) or any(set(lines[one].unique()) != set(rows[one][1]) for one in roles.labels):
        raise other_rows(lines, n, roles.labels)
    return hash_sums(line, n, hashes)


def summarised(data: Table | LazyTable, missing: MissingName, roles: Roles, groups: Groups) -> SummedLog:
    """The same of any data frame, in memory or in an engine."""
    return summed(as_lazy(data, {"score": roles.score}), roles, groups)


def as_lazy(table: Table | LazyTable, numbers: Mapping[str, str | None]) -> LazyTable:
    """Rows in memory as those of an engine; joint ids that were made are columns.

    `numbers` are columns of numbers by argument; objects that are numbers become floats.
    """
    if isinstance(table, LazyTable):
        return table
    frame = table.frame
    for argument, column in numbers.items():
        kind = None if column is None else frame.schema.get(column)
        if column is not None and kind is not None and not (kind.is_numeric() or kind == nw.Boolean):
            floats = table.floats(column, argument)
            frame = frame.with_columns(nw.new_series(column, floats, nw.Float64, backend=frame.implementation))
    for name in table.made:
        codes, labels = table.labels(name, "item")
        # One entry more, which the code -1 of a missing id finds.
        texts = [*labels, None]
        values = [texts[code] for code in codes]
        frame = frame.with_columns(nw.new_series(name, values, nw.String, backend=frame.implementation))
    return LazyTable(without_own(frame.lazy()))
