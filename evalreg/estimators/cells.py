"""From rows that fall into cells to an Estimate: means of cells, other statistics of each, and functions of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import compress
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, listed
from evalreg.choices import MissingName
from evalreg.covariance.terms import refuse_parameters
from evalreg.data.answers import refuse_single
from evalreg.data.clusters import Axes, Axis, Groups, joint_parts, parse_groups, refuse_same, rows_where, with_roles
from evalreg.data.engine import Measure, Query, floats_of
from evalreg.data.engine_rows import MIDDLE, measured_cells, read_answers, read_in_engine
from evalreg.data.frame import Table, rows_in_memory
from evalreg.data.rows import CellRows, ReadRows, Roles, cells_of, joint_names, one_row_an_item, read_cells, read_rows
from evalreg.data.sums import HIGH, LOW, ROWS, SQUARES, TOTAL, UNSUMMED, Lines
from evalreg.errors import ConstantScoreError, IndependenceWarning, Note, ScoreRangeError
from evalreg.estimate import About, Estimate, Family, of_means, on_one_side, same_questions
from evalreg.inference.questions import unequal_rows
from evalreg.numerics.matrices import Matrix, compressed, scale_rows
from evalreg.scores.base import Cells, CellScores, LinearizedScores, cell_sums, extremes
from evalreg.scores.differences import paired_answers
from evalreg.scores.engine import EngineScores, Measured, SummedRows, engine_scores
from evalreg.scores.score_interval import SingleMeans

# Names of the parameters, and what they are of the means of the cells: a linear map, (n_params, n_cells).
Solve = Callable[[list[tuple[str, ...]], Cells], tuple[tuple[str, ...], Matrix]]


def estimate_cells(
    table: Table | Query, roles: Roles, groups: Groups, solve: Solve, about: About
) -> tuple[Estimate, tuple[Axis, ...] | None]:
    """Sums of the cells, parameters by `solve`, and the scores that give their covariance.

    With the estimate come the clusterings asked for. Missing ids of `groups` count among the missing values.
    """
    if isinstance(table, Lines):
        return _of_lines(table, roles, groups, solve, about)
    if not isinstance(table, Query):
        return estimate_read(read_cells(table, roles, groups), roles, solve, about)
    if roles.sample is not None or roles.questions == "shared":
        return estimate_read(read_answers(table, roles, groups), roles, solve, about)
    read = read_in_engine(table, roles, groups)
    rows = Measured(read.table, floats_of(roles.score), weight=read.weight)
    scores = engine_scores(rows, read.cells, read.sums, roles.score)
    return estimate_sums(read.cells.keys, scores.sums, scores, roles, solve, about, read.axes, read.dropped), read.axes


def _of_lines(
    table: Lines, roles: Roles, groups: Groups, solve: Solve, about: About
) -> tuple[Estimate, tuple[Axis, ...] | None]:
    """The same of lines of sums."""
    if roles.item is not None:
        items = joint_parts(roles.item) or (roles.item,)
        models = [part for name in roles.by for part in joint_parts(name) or (name,)]
        table.refuse_repeats((*models, *items), items[0], UNSUMMED)
    n, total, squares = (nw.col(name) for name in (ROWS, TOTAL, SQUARES))
    away = total / n - MIDDLE
    measures: dict[str, Measure] = {"t": (total, "sum"), "s": (squares + n * away * away, "sum")}
    measures |= {"lo": (nw.col(LOW), "min"), "hi": (nw.col(HIGH), "max")}
    cells, sums = measured_cells(table, roles.cell_columns, measures)
    rows = SummedRows(table, total, n, squares=((squares, nw.lit(0.0), n),))
    scores = engine_scores(rows, cells, {"w": sums["n"]} | sums, roles.score)
    axes = None if groups is None else parse_groups(groups, table.columns)
    return estimate_sums(cells.keys, scores.sums, scores, roles, solve, about, axes, table.log.dropped), axes


def estimate_read(read: CellRows, roles: Roles, solve: Solve, about: About) -> tuple[Estimate, tuple[Axis, ...] | None]:
    """The same of rows in memory that were read already."""
    rows = read.rows
    sums = cell_sums(read.values, read.cell, max(len(read.keys), 1), rows.weights)
    scores = CellScores(read.values, sums.mean, rows.labels(roles.item), read.cell, rows.weights)
    about = replace(about, lines=(*about.lines, *read.lines))
    return estimate_sums(read.keys, sums, scores, roles, solve, about, rows.axes, rows.dropped), rows.axes


def estimate_sums(
    keys: list[tuple[str, ...]],
    cells: Cells,
    scores: CellScores | EngineScores,
    roles: Roles,
    solve: Solve,
    about: About,
    axes: tuple[Axis, ...] | None,
    dropped: dict[str, int],
) -> Estimate:
    """The same of sums that were made already: parameters, and what has a score interval where scores lie in [0, 1]."""
    refuse_parameters(len({key[: len(roles.by)] for key in keys}))
    names, coefficient_map = solve(keys, cells)
    bounded = bool(np.min(cells.low) >= 0 and np.max(cells.high) <= 1)
    if not bounded:
        flat = cells.low == cells.high
        refuse_constant(names, (coefficient_map != 0) @ ~flat == 0, roles.score, cells.low[flat])
    strata = sorted({key[-1] for key in keys}) if roles.strata is not None else []
    stratum = np.array([strata.index(key[-1]) for key in keys]) if strata else None
    cells = replace(cells, stratum=stratum, strata=tuple(strata))
    estimate = of_means(
        names,
        coefficient_map,
        cells,
        replace(scores, fitted=cells.mean),
        bounded=bounded,
        dropped=dropped,
        about=replace(about, unit=bounded, levels=on_one_side(cells.low, cells.high)),
        item=() if roles.item is None else (roles.item,),
    )
    return with_score_intervals(estimate, axes=axes or () if bounded and roles.by and roles.weights is None else None)


def single_means(estimate: Estimate, which: BoolArray | None = None) -> SingleMeans | None:
    """What gives means in [0, 1], over known strata or not, their score intervals; None of others.

    `which` of the parameters they are, shape (n_params,); all by default, or none.
    """
    cells, A, icc, scores = estimate.cells, estimate.coefficient_map, estimate.about.icc, estimate.scores
    which = np.full(estimate.n_params, estimate.bounded) if which is None else which
    if icc is None or not which.any() or cells is None or A is None:
        return None
    count, squares = cells.count, cells.squares
    if cells.weighted.any() or not scores.of_means:
        count = cells.weight**2 / scores.row_moments()[2]
        squares = cells.scatter * count
    contrasts = A if which.all() else scale_rows(compressed(A), which.astype(np.float64))
    return SingleMeans(scores, cells.mean, count, contrasts, icc, squares, cells.weight)


def with_score_intervals(estimate: Estimate, which: BoolArray | None = None, axes: Axes | None = None) -> Estimate:
    """The same means with their score intervals, where they have any.

    With `axes`, clusterings of the rows, also those of differences of models on the same questions. Where these have no
    name, they are the clusters of which there are most.
    """
    single, item = single_means(estimate, which), estimate.item
    if axes and not item:
        item = max(axes, key=estimate.scores.n_clusters) if len(axes) > 1 else axes[0]
    paired = paired_answers(estimate, item) if axes is not None and item else None
    return replace(estimate, family=same_questions(paired, single, estimate.family))


@dataclass(frozen=True, eq=False)
class Split:
    """Rows in use, and the cell of each."""

    rows: ReadRows
    # Names of the cells, sorted as text.
    names: tuple[str, ...]
    # None where there is a single cell.
    cell: IntArray | None

    @property
    def n_rows(self) -> int:
        """Rows in use."""
        return self.rows.n_rows

    @property
    def codes(self) -> IntArray:
        """Cell of each row, zeros when there is one."""
        return np.zeros(self.n_rows, dtype=np.intp) if self.cell is None else self.cell

    def weighted(self, values: FloatArray) -> FloatArray:
        """Values times sampling weights, shape (n_rows,)."""
        return values if self.rows.weights is None else values * self.rows.weights

    def total(self, values: FloatArray) -> FloatArray:
        """Weighted sums within cells, shape (n_cells,)."""
        return np.asarray(np.bincount(self.codes, self.weighted(values), len(self.names)), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Linearized:
    """A statistic of each cell, to first order a sum over rows. Shapes: params (n_cells,), the others (n_rows,)."""

    params: FloatArray
    # Influence of a row times the weight of its cell, so that its weighted mean within the cell is zero.
    influence: FloatArray
    # Weight of each row in the leverage of its cluster; weighted, it sums to the weight of the cell.
    share: FloatArray
    # Whether leaving a cluster out changes the statistic by exactly -T_g/(W - W_g).
    exact: bool
    # Whether each is a mean of values in [0, 1]; shape (n_cells,), or one for all.
    bounded: bool | BoolArray
    # Values whose mean, weighted by `share`, the statistic is; without them a bounded one is taken to be of 0 and 1.
    value: FloatArray | None = None


def split_rows(
    data: Any,
    numbers: dict[str, str],
    by: str | list[str] | None,
    groups: Groups,
    weights: Any,
    missing: MissingName,
    what: str,
    texts: dict[str, str] | None = None,
) -> Split:
    """Rows in use of a data frame in memory, and their cells, one for each joint value of `by`.

    `numbers` and `texts` are columns by argument; `what` names the statistic in messages.
    """
    opened = rows_in_memory(data, f"`{what}`", [*numbers.values(), *(texts or {}).values()])
    table, by_columns = with_roles(opened, {}, by=by)
    rows = read_rows(
        table,
        numbers,
        texts=texts or {},
        labels=dict.fromkeys(by_columns, "by"),
        weights=weights,
        groups=groups,
        missing=missing,
        split=by_columns,
    )
    keys, cell = cells_of(rows.used, by_columns)
    return Split(rows, joint_names(keys) if by_columns else (what,), cell)


def linearized_estimate(split: Split, statistic: Linearized, about: About, column: str) -> Estimate:
    """Estimate of the statistics, one parameter for each cell; `column` is for messages.

    With z the influence of a row times the weight W of its cell, sum w z = 0, the estimate has the covariance of the
    means of the linearized values theta + z: CR0 and CR1 are those of Taylor linearization. Binder (1983),
    International Statistical Review 51, 279-292.
    """
    n_cells, rows, codes = len(split.names), split.rows, split.codes
    weight = split.total(np.ones(split.n_rows))
    # Rows without any part in the statistic (neither numerator nor denominator) are not observations of it.
    count = np.bincount(codes, (statistic.share != 0) | (statistic.influence != 0), n_cells).astype(float)
    bounded, squares = np.broadcast_to(statistic.bounded, n_cells), split.total(statistic.influence**2)
    spread, (low, high) = None, extremes(codes, statistic.influence, statistic.influence, n_cells)
    refuse_constant(split.names, (low == high) & ~bounded, column)
    low, high = statistic.params + low, statistic.params + high
    if bounded.any():
        sides = zip(_values(split, statistic), (low, high, squares / weight), strict=True)
        low, high, spread = (np.where(bounded, *side) for side in sides)
    scores = LinearizedScores(
        split.weighted(statistic.influence),
        statistic.params,
        rows.labels(),
        split.cell,
        split.weighted(statistic.share),
        rows.weights,
    )
    estimate = of_means(
        split.names,
        np.eye(n_cells),
        Cells(count, weight, statistic.params, squares, low, high, spread=spread, unlike=rows.weights is not None),
        scores,
        linear=statistic.exact,
        bounded=bool(bounded.all()),
        dropped=rows.dropped,
        about=replace(about, levels=about.levels or bool(bounded.all())),
    )
    plain = rows.weights is None and bool(bounded.all()) and n_cells > 1 and bool(np.all(statistic.share == 1))
    return with_score_intervals(estimate, bounded, rows.axes if plain else None)


def _values(split: Split, statistic: Linearized) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Lowest and highest of the values whose weighted means the statistics are, and their weighted variances."""
    n_cells, codes = len(split.names), split.codes
    if statistic.value is None:
        return np.zeros(n_cells), np.ones(n_cells), statistic.params * (1 - statistic.params)
    some = statistic.share > 0
    low, high = extremes(codes[some], statistic.value[some], statistic.value[some], n_cells)
    deviation = np.where(some, statistic.value - statistic.params[codes], 0.0)
    return low, high, split.total(statistic.share * deviation**2) / split.total(statistic.share)


def refuse_constant(names: Sequence[str], flat: BoolArray, column: str, values: FloatArray | None = None) -> None:
    """Raise for means or statistics without variation, outside [0, 1]; `values` are those of cells that have one."""
    if alike := list(compress(names, flat)):
        each = () if values is None else tuple(f"{value:g}" for value in np.unique(values)[:3])
        has = f"has one number ({', '.join(each)}) in each part of" if each else "does not vary in"
        raise ConstantScoreError(
            f"scores must vary; column {column!r} {has} {listed(alike)}, and outside [0, 1] nothing else bounds an "
            "error bar. Leave such rows out, or rescale scores to [0, 1].",
            column=column,
            count=len(alike),
        )


def titled(name: str, by: str | Sequence[str] | None) -> str:
    """The name of an estimate, with the columns that it is by."""
    return f"{name} by {by if isinstance(by, str) else ', '.join(by)}" if by else name


def independence_note(
    by: str | Sequence[str] | None, groups: Groups, what: str = "estimates", cure: str = "groups"
) -> tuple[Note, ...]:
    """A warning that models are taken as independent where no groups are named; empty otherwise."""
    if not by or groups is not None:
        return ()
    text = (
        f"no `groups`: the {by if isinstance(by, str) else '/'.join(by)} {what} are treated as independent, which they "
        f"are not if the same questions were put to all. Name the column of the questions in `{cure}`."
    )
    return ((IndependenceWarning, text),)


def notes_by(split: Split, by: str | Sequence[str] | None, groups: Groups) -> tuple[Note, ...]:
    """Warn of models that are taken as independent, or that answered different questions, which the clusters are."""
    notes, labels = independence_note(by, groups), split.rows.labels()
    if not split.rows.axes or not by:
        return notes
    finest = max(split.rows.axes, key=lambda axis: labels.codes(axis).n_clusters)
    return (*notes, *unequal_rows(labels, finest, split.codes, split.names))


def rows_by_item(
    data: Any, numbers: dict[str, str], roles: dict[str, str], missing: MissingName = "drop", groups: Groups = None
) -> tuple[ReadRows, tuple[str, ...], IntArray]:
    """Rows in use, one for each model and item; the names of at least two models, and the model of each row.

    `roles` are the columns of models and items, in this order, by the arguments that name them.
    """
    argument, (model, item) = next(iter(roles)), roles.values()
    table, _ = with_roles(rows_in_memory(data, "a comparison of answers"), numbers, **roles)
    refuse_same(roles)
    labels = {name: role for role, name in roles.items()}
    rows = read_rows(table, numbers, labels=labels, groups=groups, missing=missing, split=(model, item))
    keys, cell = cells_of(rows.used, (model,))
    refuse_single([key[0] for key in keys], model, argument)
    assert cell is not None
    values = pd.factorize(pd.MultiIndex.from_arrays(list(rows.values.values())))[0].astype(np.float64)
    # Templates are compared on items; of models that answered anew, the k-th answers are pairs.
    joined = f"join ids with a column that numbers them, and cluster by {item!r}; average scores that may be fractions"
    repeats = "average them first" if argument == "over" else joined
    roles_of_rows = Roles(next(iter(numbers.values())), (model,), item, repeats=repeats, has_by=False)
    one_row_an_item(replace(rows, values={"score": values}), roles_of_rows)
    return rows, tuple(key[0] for key in keys), cell


def means_of_cells(split: Split, values: FloatArray, column: str, mean: FloatArray | None = None) -> Estimate:
    """Means of the cells of a split; `mean` says what they are but for rounding, and `column` is for messages."""
    if mean is None:  # between its values: a row that is alone does not vary by the rounding of its weight
        within = extremes(split.codes, values, values, len(split.names))
        mean = np.clip(split.total(values) / split.total(np.ones(split.n_rows)), *within)
    bounded = bool(values.min() >= 0 and values.max() <= 1)
    deviation, share = values - mean[split.codes], np.ones(split.n_rows)
    statistic = Linearized(mean, deviation, share, True, bounded, values if bounded else None)
    return linearized_estimate(split, statistic, About(outcome=column), column)


def function_of(
    means: Estimate, values: FloatArray, jacobian: FloatArray, names: Sequence[str], about: About, family: Family
) -> Estimate:
    """Values of a smooth function of means, whose derivative there is `jacobian`."""
    return replace(means.transform(lambda _: values, jacobian, names), about=about, family=family)


def side_by_side(parts: Sequence[Estimate]) -> Estimate:
    """Several estimates of the same cells as one, the parameters of a cell beside each other."""
    order = [name for of_cell in zip(*(part.names for part in parts), strict=True) for name in of_cell]
    return reduce(Estimate.stack, parts).select(order)


def from_row_influence(
    split: Split, values: FloatArray, influence: FloatArray, names: Sequence[str], about: About
) -> Estimate:
    """Values to which each row adds influence/n, shape (n_rows, n_values), side by side: each is a mean of its own."""
    parts = [
        replace(means_of_cells(split, value + column, about.outcome, np.array([value])), names=(name,), bounded=False)
        for value, column, name in zip(values, influence.T, names, strict=True)
    ]
    return replace(reduce(Estimate.stack, parts), about=about)


def refuse_values(wrong: BoolArray, values: FloatArray, column: str, rule: str, do: str) -> None:
    """Raise where values of a column break a rule."""
    if wrong.any():
        rows = rows_where(wrong)
        text = f"column {column!r} breaks it in {rows} of those in use (the first is {values[rows.first[0]]:g})"
        raise ScoreRangeError(f"{rule}; {text}. {do}", column=column, rows=rows)


COMPARE_FIRST = "Compare it with a threshold first."


def refuse_unless_binary(values: FloatArray, column: str, rule: str) -> None:
    """Raise where values are neither 0 nor 1."""
    refuse_values(~np.isin(values, (0.0, 1.0)), values, column, rule, COMPARE_FIRST)
