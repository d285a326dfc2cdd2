"""The readers of rows that stay in an engine, of scores and of answers by question: what is missing is counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, IntArray, Names, listed, passed
from evalreg.data.clusters import Axes, Column, Groups, factorize, parse_groups, union
from evalreg.data.dialects import refuse_unreadable
from evalreg.data.engine import (
    KEY,
    ROWS,
    SUM,
    CellKeys,
    Grouped,
    Measure,
    Measures,
    Numbers,
    Query,
    changed_rows,
    count_of,
    floats_of,
)
from evalreg.data.frame import Table, differing_labels, refuse_infinite, refuse_larger
from evalreg.data.rows import REASONS, CellRows, Roles, dropped_rows, power_of_weights, read_cells, refuse_filters
from evalreg.errors import ArgumentError, NotAvailableError, RowList
from evalreg.numerics.limits import ANSWER_BYTES, FAR

# Where squares are taken about: the middle of scores from 0 to 1.
MIDDLE = 0.5
# Why a row is not in use, by number.
REASON = "__reason"


@dataclass(frozen=True)
class Needed:
    """The columns of the roles, by the reason for which a row without one is not in use."""

    by_reason: list[tuple[str, list[str]]]

    @property
    def names(self) -> list[str]:
        """All of the columns."""
        return list(dict.fromkeys(name for _, names in self.by_reason for name in names))

    def marked(self, table: Query) -> Query:
        """The table with the number of the reason for which a row is not in use, 0 where it is."""
        reason = nw.lit(0)
        for number, (_, names) in reversed(list(enumerate(self.by_reason, 1))):
            if names:
                reason = nw.when(table.absent(names)).then(nw.lit(number)).otherwise(reason)
        return table.each(lambda frame: frame.with_columns(reason.alias(REASON)))


def used_columns(
    table: Query,
    numbers: Mapping[str, str | None],
    labels: Sequence[str | None],
    groups: Groups,
    weights: object = None,
    verdicts: str | None = None,
) -> tuple[Needed, Axes | None]:
    """Columns of the roles, each of which the engine must have as its role needs it, and the clusterings.

    Numbers are by argument.
    """
    refuse_arrays_of_weights(weights)
    for argument, name in {**numbers, "weights": weights}.items():
        if name is not None:
            table.check_numeric(name, argument)
    axes = None if groups is None else parse_groups(groups, table.columns)
    roles = ((*numbers.values(), verdicts), (*labels, weights), union(*(axes or ())))
    named = ([str(name) for name in names if name is not None] for names in roles)
    needed = Needed(list(zip(REASONS, named, strict=True)))
    refuse_unreadable(table, needed.names)
    return needed, axes


def refuse_arrays_of_weights(weights: object) -> None:
    """Rows of an engine have no order that an array could follow."""
    if weights is not None and not isinstance(weights, str):
        raise ArgumentError(
            "rows in an engine have no order, so `weights` must name a column; got "
            f"{type(weights).__name__}. Add it as a column and name that."
        )


def power_of_column(table: Query, column: str) -> int:
    """The power of two of `power_of_weights` for a column of weights, whose ends one query tells."""
    w = floats_of(column)
    ends = table.present([column]).totals({"light": (w, "min"), "heavy": (w, "max")})
    refuse_infinite(ends["heavy"], column, "weights", ends=True)
    return 0 if np.isnan(ends["light"]) else power_of_weights(ends["light"], ends["heavy"], column)


def weight_of(table: Query, column: str | None) -> nw.Expr | None:
    """Sampling weights, times a power of two where these are far from 1; None where all are one."""
    if column is None:
        return None
    power = power_of_column(table, column)
    # In two steps: the power itself may be no float.
    return floats_of(column) * 2.0 ** (power // 2) * 2.0 ** (power - power // 2) if power else floats_of(column)


def refuse_far_weights(table: Query, column: str | None) -> None:
    """Raise where weights are so far from 1 that those of other shards could not be added to them."""
    if column is not None and power_of_column(table, column):
        raise ArgumentError(
            f"`weights` of sums must lie between {1 / FAR:.0e} and {FAR:.0e}, so that shards add up. Multiply the "
            "column by one number for all shards first.",
            column=column,
        )


@dataclass(frozen=True, eq=False)
class EngineRows:
    """The rows in use, which stay where they are.

    Parameters
    ----------
    table : Query
        Nothing is missing in it that plays a role.
    axes : tuple of Axis or None
        Those of the groups.
    dropped : dict of str to int
        Rows dropped by reason.
    weight : narwhals.Expr, optional
        Sampling weights.
    cells : CellKeys
        Of the columns of the roles.
    sums : dict of str to ndarray, shape (n_cells,)
        By cell: rows n and weight w, sum t of values, their ends lo and hi, squares s about the middle, largest weight.
    absent : tuple of str
        Models of which every row was dropped.
    """

    table: Query
    axes: Axes | None
    dropped: dict[str, int]
    weight: nw.Expr | None
    cells: CellKeys
    sums: Numbers
    absent: Names = ()


def weighted(number: nw.Expr, weight: nw.Expr | None, power: int = 1) -> nw.Expr:
    """A number times a power of the weight; itself without one, as engines would multiply every row by one."""
    return number if weight is None else weighted(number * weight, weight, power - 1) if power else number


def mean_measures(score: nw.Expr, weight: nw.Expr | None) -> Measures:
    """Sums t of values and s of their squares about the middle, and their ends lo and hi."""
    squares = weighted(score - MIDDLE, weight) * (score - MIDDLE)
    return {"t": (weighted(score, weight), "sum"), "s": (squares, "sum"), "lo": (score, "min"), "hi": (score, "max")}


def read_in_engine(
    table: Query,
    roles: Roles,
    groups: Groups,
    values: dict[str, str] | None = None,
    measures: Callable[..., Measures] = mean_measures,
    covariates: Sequence[str] = (),
    repeats: bool = False,
) -> EngineRows:
    """The rows in use, what is missing counted, and what is measured of each cell: one query.

    `values` are columns of numbers by argument, by default the score; `measures` are made of these and the weight;
    of further `covariates` none may be missing. Unless `repeats` may be, there is one row an item.
    """
    values = {"score": roles.score} if values is None else values
    labels = (*roles.cell_columns, roles.item, roles.sample, *covariates)
    needed, axes = used_columns(table, values, labels, groups, roles.weights)
    w = weight_of(table, roles.weights)
    measured = measures(*map(floats_of, values.values()), w)
    if w is not None:
        measured |= {"w": (w, "sum"), "heavy": (w, "max")}
    grouped = needed.marked(table).lines((REASON, *roles.cell_columns), measured)
    why = grouped.values(REASON).astype(int)
    used, dropped = why == 0, dropped_rows(why, needed.by_reason, roles.missing, grouped.numbers["n"])
    if any(dropped.values()):
        table = table.present(needed.names)
    cells, sums = _cells(grouped, roles.cell_columns, used)
    refuse_filters(table, None, (*roles.cell_columns, *covariates))
    if roles.item is not None and not repeats:
        remedy = "Average repeated answers first (`sample` of `mean` does), remove copies, and where models or tasks "
        remedy += f"tell rows apart name these in `by`, or join them as in {passed(item=f'task:{roles.item}')}."
        table.refuse_repeats((*roles.by, roles.item), roles.item, remedy)
    return EngineRows(table, axes, dropped, w, cells, sums, _absent(grouped, roles.by, used))


def measured_cells(table: Query, columns: Names, measures: Measures) -> tuple[CellKeys, Numbers]:
    """The cells of rows in which nothing is missing, and what is measured of each."""
    grouped = table.lines(columns, measures)
    return _cells(grouped, columns, np.ones(grouped.numbers["n"].size, dtype=bool))


def _cells(grouped: Grouped, columns: Names, used: BoolArray) -> tuple[CellKeys, Numbers]:
    """The cells of the entries in use, in the order of their text, and the sums of each."""
    entries = np.flatnonzero(used)
    keys = grouped.cells(columns, entries).keys
    entries = entries[sorted(range(entries.size), key=keys.__getitem__)]
    sums = {name: column[entries] for name, column in grouped.numbers.items()}
    return grouped.cells(columns, entries), {"w": sums["n"]} | sums


def _absent(grouped: Grouped, by: Names, used: BoolArray) -> Names:
    """Joint labels of which no entry is in use."""
    known = np.all([np.ones(used.size, dtype=bool), *(grouped.keys[name][0] >= 0 for name in by)], axis=0)
    every, some = (set(grouped.cells(by, np.flatnonzero(entries)).keys) for entries in (known, used))
    return tuple(sorted(":".join(key) for key in every - some))


# Names of what is counted and summed; no label is called so.
ANSWERS, TOTAL = "__answers", "__total"


@dataclass(frozen=True, eq=False)
class EngineAnswers(Table):
    """One line for each model and question, from an engine; other columns are looked up there when asked for."""

    engine: Query = field(kw_only=True)
    # Columns of the models and of the questions, which tell lines apart.
    key: Names = ()
    # Answers of each line, shape (n_rows,).
    answers: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    # Models of which every row was dropped.
    absent: Names = ()

    def labels(self, name: str, argument: str) -> Column:
        """Integer codes of a column with -1 for missing, and the label of each code."""
        if name not in self._labels and name not in self.frame.columns and name in self.every:
            self._labels[name] = factorize(self._queried(name))
        return super().labels(name, argument)

    def _queried(self, name: str) -> pd.Series:
        """A column that was not read, one label a line, by one query."""
        by_label, key = self.engine.table((*self.key, name), {}), list(self.key)
        labelled = by_label.dropna(subset=[name])
        refuse_differing(labelled, self.key, (name,))
        lines = self.to_pandas(self.key).reset_index(drop=True)
        counts = by_label.groupby(key, as_index=False, observed=True)[ROWS].sum()
        answers_now = lines.merge(counts, on=key, how="left")[ROWS].fillna(-1).to_numpy(dtype=int)
        if len(counts) != len(lines) or not np.array_equal(answers_now, self.answers):
            raise changed_rows(
                f"its {len(lines)} answers by model and question are now {len(counts)}, or different ones"
            )
        # A line of which some answers have no label has none.
        found = lines.merge(labelled, on=key, how="left", validate="one_to_one")
        return found[name].where(found[ROWS] == self.answers)


def refuse_differing(lines: pd.DataFrame, key: Names, names: Names) -> None:
    """Raise if one of some labels differs between the rows that a key tells apart."""
    again = lines.duplicated(list(key), keep=False)
    if not again.any():
        return
    parts = lines[again]
    # A column may be a stratum and a cluster at once.
    counts = parts.groupby(list(key), sort=False, observed=True)[list(dict.fromkeys(names))].nunique(dropna=False)
    name = next(column for column in counts.columns if (counts[column] > 1).any())
    where = counts.index[counts[name] > 1]
    shown = [":".join(map(str, label if isinstance(label, tuple) else (label,))) for label in where[:3]]
    of = f"{' and '.join(map(repr, key))}, such as {listed(shown)}"
    raise differing_labels(name, key[-1], f"within {len(where)} of {of}", RowList((), len(where)))


def used_answers(engine: Query, roles: Roles, groups: Groups) -> EngineRows:
    """The rows in use, of which one query counts what is missing, and by model the scores that are neither 0 nor 1."""
    if roles.weights is not None:
        named = [roles.score, *roles.labels, *([roles.weights] if isinstance(roles.weights, str) else [])]
        raise NotAvailableError(
            "`weights` of answers that are put together by question need rows in memory: collect the columns "
            f"{listed(named)} and those of `groups` first."
        )
    rows = read_in_engine(engine, roles, groups, measures=_ends, repeats=True)
    refuse_infinite([rows.sums["lo"], rows.sums["hi"]], roles.score, "score", ends=True)
    return rows


def _ends(score: nw.Expr, _: nw.Expr | None) -> Measures:
    return {"lo": (score, "min"), "hi": (score, "max"), "other": count_of(~((score == 0) | (score == 1)))}


def read_answers(engine: Query, roles: Roles, groups: Groups) -> CellRows:
    """Answers by model and question, averaged over samples, of which one query more makes the lines."""
    return read_used(used_answers(engine, roles, groups), roles, groups)


def read_used(used: EngineRows, roles: Roles, groups: Groups) -> CellRows:
    """The same of rows whose missing values are known."""
    assert roles.item is not None
    key, n_rows = (*roles.by, roles.item), int(used.sums["n"].sum())
    _refuse_many(used.table, n_rows, roles)
    names = tuple(dict.fromkeys((*key, *roles.cell_columns, *union(*(used.axes or ())))))
    lines = _lines(used.table, roles, names)
    refuse_differing(lines, key, tuple(name for name in names if name not in key))
    answers = lines[ANSWERS].to_numpy(dtype=np.intp)
    lines[roles.score] = lines[TOTAL].to_numpy(dtype=float) / answers
    frame = nw.from_native(lines.drop(columns=[TOTAL, ANSWERS]), eager_only=True)
    every = used.table.columns
    table = EngineAnswers(frame, every=every, engine=used.table, key=key, answers=answers, absent=used.absent)
    read = read_cells(table, replace(roles, sample=None), groups)
    dropped = dict(read.rows.dropped)
    if "unshared" in dropped:  # Of answers, not of lines.
        dropped["unshared"] = n_rows - int(answers[read.rows.source.places()].sum())
    return replace(read, rows=replace(read.rows, dropped=dropped | used.dropped))


def _refuse_many(used: Query, n_rows: int, roles: Roles) -> None:
    """Raise if the lines do not fit into memory; repeated answers are counted in the engine where they might not."""
    assert roles.item is not None
    if roles.sample is not None and n_rows * ANSWER_BYTES > 2**28:
        n_rows = used.n_clusters((*roles.by, roles.item))
    remedy = 'Compare fewer models at a time, or take `er.mean(..., by="model", groups=...)` with coarser groups than '
    remedy += "the questions, whose `pairwise()` needs the sums of clusters alone."
    refuse_larger(n_rows * ANSWER_BYTES, f"a comparison of {n_rows:,} answers by model and question", remedy)


def _lines(used: Query, roles: Roles, names: Names) -> pd.DataFrame:
    """Sum and number of the answers of each joint value of some columns, sorted by the engine; each sample has one."""
    score: Measure = floats_of(roles.score), "sum"
    item, key = str(roles.item), (*roles.by, str(roles.item))
    if roles.sample is None:
        lines = used.table(names, {TOTAL: score}).rename(columns={ROWS: ANSWERS})
        remedy = "Name the column of repeated answers in `sample`, which averages them first, or remove copies in the "
        if lines[ANSWERS].max() > 1 or lines.duplicated(list(key)).any():
            # One row a question was to be; that its rows have several labels is the smaller fault.
            used.refuse_repeats(key, item, f"{remedy}engine.")
        return lines
    within = Query(used.grouped(tuple(dict.fromkeys((*names, roles.sample))), {TOTAL: score}))
    keys = {f"{KEY}{i}": name for i, name in enumerate(names)}
    total, rows = nw.col(f"{SUM}0"), floats_of(ROWS)
    lines = within.table(tuple(keys), {TOTAL: (total, "sum"), ANSWERS: (rows, "sum")}).rename(columns=keys)
    if (lines[ANSWERS] > lines[ROWS]).any():
        used.refuse_repeats((*key, roles.sample), item, "Remove the copies in the engine.")
    return lines.drop(columns=[ROWS])
