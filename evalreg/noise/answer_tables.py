"""Answers by model and question, read from one row an answer or from counts of passes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from evalreg.checks import BoolArray, FloatArray, MissingName
from evalreg.data.cells import cells_of
from evalreg.data.clusters import Axis, Codes, axis_name, joint
from evalreg.data.engine import LazyTable
from evalreg.data.frame import Table
from evalreg.data.groups import Groups
from evalreg.data.joint_ids import with_roles
from evalreg.data.opening import open_frame
from evalreg.data.repeats import Told, one_row_an_item
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.data.rows import read_rows
from evalreg.errors import ArgumentError, ScoreRangeError
from evalreg.noise.parts import AnswerTable

# A share of passes is whole passes over answers up to this, as shares that were written with all their digits are.
WHOLE = 1e-6


@dataclass(frozen=True)
class Columns:
    """Names of the columns, as the user passes them."""

    score: str
    model: str | None
    item: str
    sample: str | None
    passes: str | None
    n_samples: str | None

    @property
    def by(self) -> tuple[str, ...]:
        """Columns whose values are the models."""
        return () if self.model is None else (self.model,)


@dataclass(frozen=True, eq=False)
class ReadAnswers:
    """Answers, and the frame in which the other estimators find a score for each of them."""

    frame: Any
    score: str  # its column
    names: tuple[str, ...]  # of the models, sorted as text
    table: AnswerTable
    axes: tuple[Axis, ...]
    cluster: Codes | None  # of the questions, under one clustering

    @property
    def crossed(self) -> bool:
        """Whether there are several clusterings."""
        return len(self.axes) > 1


def read_answer_table(data: Any, columns: Columns, groups: Groups, missing: MissingName) -> ReadAnswers:
    """Answers by model and question; undeclared repeats, and counts that cannot be, are refused."""
    _refuse_mixed(columns)
    opened = open_frame(data)
    if isinstance(opened, LazyTable):
        raise ArgumentError("`noise` needs rows in memory, to tell answers apart: collect the frame first.")
    table, count = opened, None
    if columns.n_samples is not None:
        table, columns, count = _with_shares(table, columns)
    labels = {"model": columns.model, "item": columns.item, "sample": columns.sample}
    joined, _ = with_roles(table, {"score": columns.score}, **labels)
    assert isinstance(joined, Table)
    by_argument = {name: argument for argument, name in labels.items() if name is not None}
    if len(by_argument) < sum(name is not None for name in labels.values()):
        raise ArgumentError(f"`model`, `item` and `sample` must be different columns; got {labels}.")
    rows = read_rows(
        joined, {"score": columns.score}, labels=by_argument, groups=groups, missing=missing, split=columns.by
    )
    answered = one_row_an_item(rows, Told((*columns.by, columns.item), columns.sample, columns.score, ""), None)
    key = joint([rows.used[name] for name in (*columns.by, columns.item)])
    mean, values = answered.values["score"], rows.values["score"]
    if count is None:
        squares, n = np.bincount(key.codes, (values - mean[key.codes]) ** 2, key.n_clusters), key.counts
    else:
        n = rows.restrict(count).astype(np.intp)
        squares = n * mean * (1 - mean)
    names, cell = cells_of(answered.used, columns.by)
    item = answered.used[columns.item]
    where = (np.zeros(mean.size, dtype=np.intp) if cell is None else cell, item.codes)

    def by_model(of: Any, kind: Any = np.float64) -> Any:
        array = np.zeros((len(names), item.n_clusters), dtype=kind)
        array[where] = of
        return array

    axes, cluster = answered.axes or (), None
    if len(axes) == 1:
        of_rows = joint([answered.used[name] for name in axes[0]])
        cluster = replace(of_rows, codes=of_rows.codes[item.first], parts=())
    if axis_of_items(axes, columns.item):
        axes, cluster = (), None
    answers = AnswerTable(by_model(mean), by_model(n, np.intp), by_model(squares))
    shown = tuple(name[0] if name else "mean" for name in names)
    return ReadAnswers(table.frame.to_native(), columns.score, shown, answers, axes, cluster)


def axis_of_items(axes: tuple[Axis, ...], item: str) -> bool:
    """Whether the clusters are the questions themselves."""
    return len(axes) == 1 and axis_name(axes[0]) == item


def _refuse_mixed(columns: Columns) -> None:
    """Refuse single answers and counts of them together."""
    if columns.passes is not None and columns.n_samples is None:
        raise ArgumentError("`passes` counts the right answers of some number: name the column of it in `n_samples`.")
    if columns.n_samples is not None and columns.sample is not None:
        raise ArgumentError(
            "`sample` is for rows that hold one answer each, `n_samples` for rows that hold counts of answers; got "
            "both. Leave out one of them."
        )


def _with_shares(table: Table, columns: Columns) -> tuple[Table, Columns, FloatArray]:
    """The table with the share of passes as its score, that column's name, and the answers of each row."""
    assert columns.n_samples is not None
    name = columns.passes or columns.score
    with_roles(table, {"n_samples": columns.n_samples, "passes" if columns.passes else "score": name})
    count = table.floats(columns.n_samples, "n_samples")
    passes = table.floats(name, "passes" if columns.passes else "score")
    _refuse_counts(count, (count < 1) | (count != np.rint(count)), columns.n_samples, "be whole numbers of 1 or more")
    if columns.passes is None:
        shares, passes = passes, np.rint(passes * count)
        off = np.abs(shares * count - passes) > WHOLE * count
        rule = f"with `n_samples` be shares of right answers, whole multiples of 1/{columns.n_samples}"
        _refuse_counts(shares, off, name, rule, "score")
    else:
        _refuse_counts(passes, passes != np.rint(passes), name, "be whole numbers of right answers", "passes")
    _refuse_counts(passes, (passes < 0) | (passes > count), name, f"lie between 0 and {columns.n_samples!r}", "passes")
    score = f"{name}/{columns.n_samples}" if columns.passes else name
    share = nw.new_series(score, passes / count, nw.Float64, backend=table.frame.implementation)
    frame = table.frame.with_columns(share)
    return Table(frame), replace(columns, score=score, passes=None, n_samples=None), count


def _refuse_counts(values: FloatArray, wrong: BoolArray, name: str, rule: str, argument: str = "n_samples") -> None:
    wrong = wrong & ~np.isnan(values)
    if wrong.any():
        rows, count = row_list(wrong)
        raise ScoreRangeError(
            f"`{argument}` must {rule}; column {name!r} holds {values[wrong][0]:g} in {rows_text(rows, count)}. "
            "Correct the counts, or leave those rows out.",
            column=name,
            rows=rows,
            count=count,
        )
