"""From rows that fall into cells to an Estimate: what every estimator made of cells shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import narwhals.stable.v2 as nw
import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, listed
from evalreg.covariance.assembly import refuse_parameters
from evalreg.data.cells import CellRows, read_cells
from evalreg.data.clusters import Axis
from evalreg.data.engine import LazyTable, Measure
from evalreg.data.engine_answers import read_answers
from evalreg.data.engine_rows import MIDDLE, measured_cells, read_in_engine
from evalreg.data.frame import Table
from evalreg.data.groups import Groups, parse_groups
from evalreg.data.joint_ids import joint_parts
from evalreg.data.rows import Roles
from evalreg.data.sums import HIGH, LOW, ROWS, SQUARES, TOTAL, Lines, refuse_repeats
from evalreg.errors import ConstantScoreError
from evalreg.estimate import About, Cells, Estimate, Refit, same_questions
from evalreg.estimate.about import on_one_side
from evalreg.numerics.matrices import Matrix, compressed
from evalreg.scores.cells import CellScores
from evalreg.scores.engine import EngineScores, Measured, SummedRows, engine_scores
from evalreg.scores.paired import SingleMeans
from evalreg.scores.paired_means import paired_answers
from evalreg.scores.sums import CellSums, cell_sums


@dataclass(frozen=True, eq=False)
class Solved:
    """What a `solve` makes of the sums of the cells."""

    names: tuple[str, ...]
    # Params as a linear function of the cells' means, (n_params, n_cells).
    coefficient_map: Matrix


Solve = Callable[[list[tuple[str, ...]], CellSums], Solved]


def estimate_cells(
    table: Table | LazyTable, roles: Roles, groups: Groups, solve: Solve, about: About
) -> tuple[Estimate, tuple[Axis, ...] | None]:
    """Sums of the cells, parameters by `solve`, and the scores that give their covariance.

    With the estimate come the clusterings asked for. Missing ids of `groups` count among the missing values.
    """
    if isinstance(table, Lines):
        return _of_lines(table, roles, groups, solve, about)
    if not isinstance(table, LazyTable):
        return estimate_read(read_cells(table, roles, groups), roles, solve, about)
    if roles.sample is not None or roles.questions == "shared":
        return estimate_read(read_answers(table, roles, groups), roles, solve, about)
    read = read_in_engine(table, roles, groups)
    weight = None if read.weights is None else nw.col(read.weights).cast(nw.Float64)
    rows = Measured(read.table, nw.col(roles.score).cast(nw.Float64), weight=weight)
    scores = engine_scores(rows, read.cells, read.sums, roles.score, roles.weights)
    return estimate_sums(read.cells.keys, scores.sums, scores, roles, solve, about, read.axes, read.dropped), read.axes


def _of_lines(
    table: Lines, roles: Roles, groups: Groups, solve: Solve, about: About
) -> tuple[Estimate, tuple[Axis, ...] | None]:
    """The same of lines of sums."""
    assert table.log is not None
    if roles.item is not None:
        first, *more = joint_parts(roles.item) or (roles.item,)
        models = [part for name in roles.by for part in joint_parts(name) or (name,)]
        refuse_repeats(table.log.lines, (*models, *more), first)
    n, total, squares = (nw.col(name) for name in (ROWS, TOTAL, SQUARES))
    away = total / n - MIDDLE
    measures: dict[str, Measure] = {"t": (total, "sum"), "s": (squares + n * away * away, "sum")}
    measures |= {"lo": (nw.col(LOW), "min"), "hi": (nw.col(HIGH), "max")}
    cells, sums = measured_cells(table, roles.cell_columns, measures)
    rows = SummedRows(table, total, n=n, squares=((squares, nw.lit(0.0), n),))
    scores = engine_scores(rows, cells, {"w": sums["n"]} | sums, roles.score)
    axes = None if groups is None else parse_groups(groups, table.columns)
    return estimate_sums(cells.keys, scores.sums, scores, roles, solve, about, axes, table.log.dropped), axes


def estimate_read(read: CellRows, roles: Roles, solve: Solve, about: About) -> tuple[Estimate, tuple[Axis, ...] | None]:
    """The same of rows in memory that were read already."""
    rows = read.rows
    sums = cell_sums(read.values, read.cell, max(len(read.keys), 1), rows.weights)
    scores = CellScores(read.values, sums.total / sums.weight, rows.labels(roles.item), read.cell, rows.weights)
    about = replace(about, lines=(*about.lines, *read.lines))
    return estimate_sums(read.keys, sums, scores, roles, solve, about, rows.axes, rows.dropped), rows.axes


def estimate_sums(
    keys: list[tuple[str, ...]],
    sums: CellSums,
    scores: CellScores | EngineScores,
    roles: Roles,
    solve: Solve,
    about: About,
    axes: tuple[Axis, ...] | None,
    dropped: dict[str, int],
) -> Estimate:
    """The same of sums that were made already."""
    return _paired(_estimate(keys, sums, scores, roles, solve, about, dropped), roles, axes)


def _estimate(
    keys: list[tuple[str, ...]],
    sums: CellSums,
    scores: CellScores | EngineScores,
    roles: Roles,
    solve: Solve,
    about: About,
    dropped: dict[str, int],
) -> Estimate:
    """Parameters from the sums of the cells, with the scores that give their covariance."""
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
    return Estimate(
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
        about=replace(about, unit=bounded, levels=on_one_side(sums.low, sums.high)),
        item=() if roles.item is None else (roles.item,),
    )


def _paired(estimate: Estimate, roles: Roles, axes: tuple[Axis, ...] | None) -> Estimate:
    """The same, with what has a score interval where scores lie in [0, 1]: means, and differences on the same items."""
    item = (roles.item,) if roles.item is not None else axes[0] if axes else None
    paired = None
    if estimate.bounded and item is not None and roles.by and roles.weights is None:
        paired = paired_answers(estimate, item)
    return replace(estimate, family=same_questions(paired, single_means(estimate)))


def single_means(estimate: Estimate) -> SingleMeans | None:
    """What gives unweighted means in [0, 1] their score intervals; None of others."""
    cells, A, icc = estimate.cells, estimate.coefficient_map, estimate.about.icc
    if icc is None or not estimate.bounded or cells is None or A is None or np.any(cells.count != cells.weight):
        return None
    if np.any(np.diff(compressed(A).indptr) != 1):
        return None
    return SingleMeans(estimate.scores, cells.mean, cells.count, cells.squares, A, icc)


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
