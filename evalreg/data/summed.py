"""Logs as sums by cluster and model: made where the rows lie, and added up over shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import IntArray, MissingName, listed
from evalreg.data.engine import LazyTable, as_pandas
from evalreg.data.engine_rows import read_in_engine
from evalreg.data.groups import Groups, parse_groups
from evalreg.data.rows import Roles
from evalreg.errors import ArgumentError, NonFiniteError, NotAvailableError

# Columns of sums; labels stand before them. `squares` is about the mean of the line.
ROWS, TOTAL, SQUARES, LOW, HIGH, QUESTIONS = "n_rows", "total", "squares", "low", "high", "questions_hash"
SUMS = (ROWS, TOTAL, SQUARES, LOW, HIGH, QUESTIONS)


@dataclass(frozen=True)
class SummedRoles:
    """Which columns a log was summed by."""

    score: str
    by: tuple[str, ...]
    item: str | None
    strata: str | None
    groups: tuple[str, ...]

    @property
    def cell_columns(self) -> tuple[str, ...]:
        """Columns of the cells: models, and strata where there are some."""
        return self.by if self.strata is None else (*self.by, self.strata)

    @property
    def labels(self) -> tuple[str, ...]:
        """Columns that tell lines apart."""
        return tuple(dict.fromkeys((*self.cell_columns, *self.groups)))


@dataclass(frozen=True, eq=False)
class SummedLog:
    """Sums of a log by cluster and model; made by `summarise` and `merged`, immutable.

    `mean` takes it like a data frame, and `compare` does where the questions are among the groups.

    Parameters
    ----------
    lines : DataFrame
        One line for each joint value of the groups and `by`: labels as text, n_rows, total, squares (about the mean
        of the line), low, high, and questions_hash (the sum of hashes of its questions).
    roles : SummedRoles
        Which columns it was summed by.
    kinds : dict of str to str
        What the labels of each column were: "text", "whole numbers", ...
    dropped : dict of str to int
        Rows dropped by reason.
    shards : tuple of str
        Files that it was made of; none where it was made of rows.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
    >>> sums = er.summarise(log, item="question", groups="passage")
    >>> sums
    <SummedLog: 200 rows of score in 40 lines, by passage>
    """

    lines: pd.DataFrame
    roles: SummedRoles
    kinds: dict[str, str]
    dropped: dict[str, int]
    shards: tuple[str, ...] = ()

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

        Raises
        ------
        NotAvailableError
            If the log was summed without `item`.
        """
        if self.roles.item is None:
            raise NotAvailableError("the questions are known only if the log was summed with `item`.")
        return self._questions.copy()

    def __repr__(self) -> str:
        return (
            f"<SummedLog: {self.n_rows} rows of {self.roles.score} in {len(self.lines)} lines, by "
            f"{', '.join(self.roles.labels)}>"
        )


def _joint_codes(lines: pd.DataFrame, columns: Sequence[str]) -> tuple[IntArray, pd.Index]:
    """Code of each line's joint label, and the labels."""
    if not columns:
        return np.zeros(len(lines), dtype=np.intp), pd.Index(["all"])
    joint = lines[columns[0]] if len(columns) == 1 else pd.MultiIndex.from_frame(lines[list(columns)])
    codes, labels = pd.factorize(joint, sort=True)
    return codes, pd.Index(labels)


def hash_sums(code: IntArray, n: int, hashes: Any) -> Any:
    """Sums of hashes within groups, modulo 2**64, which adds up over shards in any order; shape (n,)."""
    result = np.zeros(n, dtype=np.uint64)
    np.add.at(result, code, np.asarray(hashes, dtype=np.uint64))
    return result


def added(lines: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Lines of the same labels added up: what a GROUP BY of any engine does."""
    code, _ = pd.factorize(pd.MultiIndex.from_frame(lines[list(columns)]) if len(columns) > 1 else lines[columns[0]])
    n = int(code.max()) + 1
    first = np.zeros(n, dtype=np.intp)
    first[code[::-1]] = np.arange(len(lines) - 1, -1, -1)
    rows, total, squares = (lines[name].to_numpy(dtype=float) for name in (ROWS, TOTAL, SQUARES))
    result = lines.iloc[first][list(columns)].reset_index(drop=True)
    count, sums = np.bincount(code, rows, n), np.bincount(code, total, n)
    mean = sums / count
    between = np.bincount(code, rows * (total / rows - mean[code]) ** 2, n)
    low, high = np.full(n, np.inf), np.full(n, -np.inf)
    np.minimum.at(low, code, lines[LOW].to_numpy(dtype=float))
    np.maximum.at(high, code, lines[HIGH].to_numpy(dtype=float))
    result[ROWS], result[TOTAL] = count.astype(np.int64), sums
    result[SQUARES] = np.where(low == high, 0.0, np.bincount(code, squares, n) + between)
    result[LOW], result[HIGH] = low, high
    result[QUESTIONS] = hash_sums(code, n, lines[QUESTIONS].to_numpy())
    return result.sort_values(list(columns), ignore_index=True)


def summed(table: LazyTable, roles: Roles, groups: Groups) -> SummedLog:
    """Sums by cluster and model, by two grouped queries; one more for the hashes where there is an item."""
    axes = parse_groups(groups, table.columns)
    own = SummedRoles(
        roles.score, roles.by, roles.item, roles.strata, tuple(sorted({name for axis in axes for name in axis}))
    )
    taken = [name for name in own.labels if name in SUMS]
    if taken:
        raise ArgumentError(f"labels must not have the name of a column of sums; rename {listed(taken)}.")
    schema = table.frame.collect_schema()
    kinds = {name: _kind(name, schema[name]) for name in own.labels}
    table, _, dropped = read_in_engine(table, roles, groups)
    lines = _summed_lines(table, own)
    for name in own.labels:
        lines[name] = lines[name].map(str).astype(object)
    lines = lines.astype({ROWS: np.int64}).sort_values(list(own.labels), ignore_index=True)
    return SummedLog(lines, own, kinds, dropped)


def _kind(name: str, dtype: Any) -> str:
    """What labels of a column are, the same for the same values in any library."""
    if dtype == nw.String or dtype == nw.Categorical or dtype == nw.Enum:
        return "text"
    if dtype == nw.Boolean:
        return "Booleans"
    if dtype.is_integer():
        return "whole numbers"
    if dtype.is_numeric():
        raise ArgumentError(
            f"labels must be text, whole numbers, Booleans or dates; column {name!r} holds {dtype}, whose text differs "
            "between engines. Convert it to text or whole numbers first (a pandas column of whole numbers with gaps: "
            '`astype("Int64")`).',
            column=name,
        )
    if dtype == nw.Date:
        return "dates"
    raise ArgumentError(
        f"labels must be text, whole numbers, Booleans or dates; column {name!r} holds {dtype}. Convert it "
        "to text first.",
        column=name,
    )


def _summed_lines(table: LazyTable, roles: SummedRoles) -> pd.DataFrame:
    names = roles.labels
    x = nw.col(roles.score).cast(nw.Float64)
    frame = table.frame.select(*map(nw.col, names), x.alias("__x"))
    value = nw.col("__x")
    first = LazyTable(frame).group(names, {ROWS: nw.len(), TOTAL: value.sum(), LOW: value.min(), HIGH: value.max()})
    if np.isinf(first[[LOW, HIGH]].to_numpy(dtype=float)).any():
        raise NonFiniteError(f"`score` must be finite; column {roles.score!r} holds infinities.", column=roles.score)
    # Squares about a common centre lose no digits where the means of lines are near each other.
    centre = float(first[TOTAL].sum() / first[ROWS].sum())
    away = frame.select(*map(nw.col, names), ((value - centre) * (value - centre)).alias("__x"))
    second = LazyTable(away).group(names, {"__s": value.sum()})
    lines = first.merge(second, on=list(names), how="left", validate="one_to_one")
    rows, total, square = (lines[name].to_numpy(dtype=float) for name in (ROWS, TOTAL, "__s"))
    within = np.maximum(square - rows * (total / rows - centre) ** 2, 0.0)
    lines[SQUARES] = np.where(lines[LOW] == lines[HIGH], 0.0, within)
    lines[QUESTIONS] = np.zeros(len(lines), dtype=np.uint64)
    if roles.item is not None:
        lines[QUESTIONS] = _hashes(table, roles, lines)
    return lines[[*names, *SUMS]].reset_index(drop=True)


def _hashes(table: LazyTable, roles: SummedRoles, lines: pd.DataFrame) -> Any:
    """Sum of the hashes of the questions of each line."""
    assert roles.item is not None
    names = list(dict.fromkeys((*roles.labels, roles.item)))
    items = as_pandas(table.frame.select(*names))
    codes, labels = pd.factorize(items[roles.item])
    hashes = pd.util.hash_array(np.array([str(one) for one in labels], dtype=object), categorize=False)[codes]
    number = lines[list(roles.labels)].assign(__line=np.arange(len(lines)))
    line = items.merge(number, on=list(roles.labels), how="left")["__line"].to_numpy(dtype=np.intp)
    return hash_sums(line, len(lines), hashes)


def summarised(data: Any, missing: MissingName, roles: Roles, groups: Groups) -> SummedLog:
    """The same of any data frame, in memory or in an engine."""
    frame = data.frame if isinstance(data, LazyTable) else data.frame.lazy()
    return summed(LazyTable(frame), roles, groups)
