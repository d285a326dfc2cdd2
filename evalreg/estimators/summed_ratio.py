"""Ratios of a log that is known by its sums: made where the rows lie, and read again as lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray
from evalreg.data.cells import cells_of, joint_names
from evalreg.data.centres import LOST, about_near_centres
from evalreg.data.clusters import Codes, factorize
from evalreg.data.engine import LazyTable
from evalreg.data.engine_groups import grouped_lines
from evalreg.data.engine_rows import read_in_engine
from evalreg.data.groups import Groups, parse_groups
from evalreg.data.joint_ids import with_roles
from evalreg.data.labels import Labels
from evalreg.data.names import MADE, known_columns
from evalreg.data.opening import open_frame
from evalreg.data.rows import Roles
from evalreg.data.summed import SummedLog, again, as_lazy, hashes_of, in_order, kinds_of
from evalreg.data.summed_ratios import moved, own_ratio
from evalreg.data.summed_roles import (
    BOTTOM,
    BOTTOM2,
    CROSS,
    CROSS2,
    HIGH,
    IDLE,
    LEAST,
    LOW,
    MOST,
    OUTSIDE,
    OWN,
    QUESTIONS,
    ROWS,
    SQUARES,
    SQUARES2,
    STRAY,
    TOP,
    WEIGHT,
    WEIGHT2,
    WEIGHT2_BOTTOM,
    WEIGHT2_BOTTOM2,
    SummedRatioRoles,
)
from evalreg.errors import ArgumentError, NotAvailableError
from evalreg.estimate import About
from evalreg.estimators.engine_ratio import (
    CellRatios,
    EngineRatio,
    check_numbers,
    ranged,
    refuse_empty,
    relative_errors,
    squared,
    weighted_columns,
)
from evalreg.scores.summed import SummedRatios

# What the queries of an engine call the sums of a line.
_FIRST = {ROWS: "rows", TOP: "top", BOTTOM: "bottom", WEIGHT: "weight", LOW: "low", HIGH: "high", LEAST: "least"}
_FIRST |= {MOST: "most", OUTSIDE: "outside", STRAY: "stray", IDLE: "idle"}
_SECOND = {SQUARES: "ee", CROSS: "ed", BOTTOM2: "dd", OWN: "each", SQUARES2: "wee", CROSS2: "wed"}
_SECOND |= {WEIGHT2_BOTTOM2: "wdd", WEIGHT2: "ww", WEIGHT2_BOTTOM: "u"}


def summarised_ratio(data: Any, columns: tuple[str, str], roles: Roles, groups: str | list[str]) -> SummedLog:
    """Sums of numerators and denominators by cluster and model, by two queries; one more for hashes of questions."""
    values = dict(zip(("numerator", "denominator"), columns, strict=True))
    if roles.weights is not None and not isinstance(roles.weights, str):
        raise NotAvailableError("`weights` must name a column here, so that its sums say what they are of.")
    opened = as_lazy(open_frame(data), {**values, "weights": roles.weights})
    table, by_columns = with_roles(opened, values, by=roles.by or None, item=roles.item)
    names = sorted({name for axis in parse_groups(groups, table.columns) for name in axis})
    own = SummedRatioRoles(*columns, by_columns, roles.item, roles.weights, tuple(names))
    kinds = kinds_of(table, own)
    read = read_in_engine(table, roles, groups, values)
    lines = _summed_lines(read.table, own, read.weights)
    lines[QUESTIONS] = hashes_of(read.table, own, lines)
    return SummedLog(in_order(lines, own), own, kinds, read.dropped, power=read.power)


def _summed_lines(table: LazyTable, own: SummedRatioRoles, weights: str | None) -> pd.DataFrame:
    columns = (own.numerator, own.denominator)
    frame = weighted_columns(table.frame, columns, weights)
    chosen, keys, aggregates = ranged(frame, own.labels)
    first = _grouped(chosen, keys, aggregates)
    sums = {name: first[MADE + name].to_numpy(dtype=float) for name in aggregates}
    check_numbers(sums, columns, own.weights)
    lines = first.rename(columns={MADE + name: ours for ours, name in _FIRST.items()})
    for name, nowhere in ((LOW, np.inf), (HIGH, -np.inf)):
        lines[name] = lines[name].astype(float).fillna(nowhere)
    cell = pd.factorize(pd.MultiIndex.from_frame(lines[list(own.by)]))[0] if own.by else np.zeros(len(lines), np.intp)
    top, bottom = (lines[name].to_numpy(dtype=float) for name in (TOP, BOTTOM))
    of_cell = own_ratio(*(np.bincount(cell, one).astype(float) for one in (top, bottom)))
    whole = float(top.sum() / bottom.sum()) if bottom.sum() > 0 else 0.0

    def ask(line: int | None) -> tuple[dict[str, FloatArray], BoolArray]:
        centre = whole if line is None else float(of_cell[cell[line]])
        chosen, keys, aggregates = squared(frame, own.labels, centre, 0.0)
        found = again(lines, _grouped(chosen, keys, aggregates), own.labels)
        found = found.rename(columns={MADE + name: ours for ours, name in _SECOND.items()})
        positive = found[f"{MADE}e"].to_numpy(dtype=float)
        about = moved(found, np.full(top.size, centre) - own_ratio(top, bottom), positive)
        # A line loses no more digits than its cell: what is asked is whether the cell does, about this centre.
        shift = centre - of_cell[cell]
        left, size = (np.bincount(cell, one) for one in _moments(found, shift))
        return {name: about[name].to_numpy(dtype=float) for name in _SECOND}, (left < LOST * size)[cell]

    more = about_near_centres(ask, of_cell[cell], [str(one) for one in cell], "ratios")
    return lines.assign(**more)


def _grouped(frame: nw.LazyFrame[Any], keys: Sequence[str], aggregates: dict[str, nw.Expr]) -> pd.DataFrame:
    """The labels of lines, which may be called as an aggregate is, and aggregates by names that begin with `MADE`."""
    return grouped_lines(frame, keys, {MADE + name: one for name, one in aggregates.items()})


def _moments(lines: pd.DataFrame, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Squares about the ratios of cells, and the size of the terms that these are a difference of."""
    ee, ed, dd = (lines[name].to_numpy(dtype=float) for name in (SQUARES, CROSS, BOTTOM2))
    terms = ee, 2 * shift * ed, shift**2 * dd
    return np.maximum(sum(terms), 0.0), ee + np.abs(terms[1]) + terms[2]


def ratio_of_sums(sums: SummedLog, columns: tuple[str, str], roles: Roles, groups: Groups, about: About) -> EngineRatio:
    """The estimate from lines of sums, of any labels that the log was summed by."""
    own = _checked(sums, columns, roles)
    by = known_columns(list(roles.by) or None, own.labels, "by")
    axes = None if groups is None else parse_groups(groups, own.labels)
    coded = {name: factorize(sums.lines[name]) for name in own.labels}
    used = {name: Codes(codes, len(names), names) for name, (codes, names) in coded.items()}
    keys, cell = cells_of(used, by)
    lines = _with_weights(sums.lines, own.weights is not None)
    code, n = np.zeros(len(lines), dtype=np.intp) if cell is None else cell, len(keys)
    cells = CellRatios(joint_names(keys) if by else ("ratio",), _of_cells(lines, code, n, columns[1], keys), columns[0])
    about_cell = moved(lines, own_ratio(*_columns(lines, TOP, BOTTOM)) - cells.ratio[code])
    squares, row_squares, spread = (
        np.where(cells.flat, 0.0, np.bincount(code, about_cell[name], n)) for name in (SQUARES, SQUARES2, OWN)
    )
    mean = cells.mean
    top, bottom, weight = _columns(lines, TOP, BOTTOM, WEIGHT)
    residual = np.where(cells.flat[code], 0.0, top - cells.ratio[code] * bottom) / mean[code]
    scores = SummedRatios(
        residual,
        cells.ratio,
        Labels(len(lines), used),
        cell,
        bottom / mean[code],
        weight,
        count=lines[ROWS].to_numpy(dtype=float),
        squares=np.where(cells.flat[code], 0.0, about_cell[SQUARES]) / mean[code] ** 2,
        row_squares=row_squares / mean**2,
    )
    estimate = cells.estimate(scores, squares / mean**2, spread / cells.sums["bottom"], sums.dropped, about)
    ww, wd, dd = (np.bincount(code, lines[name], n) for name in (WEIGHT2, WEIGHT2_BOTTOM, WEIGHT2_BOTTOM2))
    apart = np.maximum(dd - 2 * mean * wd + mean**2 * ww, 0.0) / mean**2
    return EngineRatio(estimate, axes, relative_errors(scores, axes, apart, cells.sums["weight"]))


def _columns(lines: pd.DataFrame, *names: str) -> list[FloatArray]:
    return [lines[name].to_numpy(dtype=float) for name in names]


def _of_cells(
    lines: pd.DataFrame, code: Any, n: int, denominator: str, keys: list[tuple[str, ...]]
) -> dict[str, FloatArray]:
    """Sums and ranges of cells, under the names that an engine's have."""
    found = {}
    for name, short in _FIRST.items():
        values = lines[name].to_numpy(dtype=float)
        if name in (LOW, HIGH, LEAST, MOST):
            better, start = (np.minimum, np.inf) if name in (LOW, LEAST) else (np.maximum, -np.inf)
            found[short] = np.full(n, start)
            better.at(found[short], code, values)
        else:
            found[short] = np.bincount(code, values, n).astype(float)
    empty = [":".join(key) or "ratio" for key, total in zip(keys, found["bottom"], strict=True) if total == 0]
    refuse_empty(empty, denominator)
    return found


def _with_weights(lines: pd.DataFrame, weighted: bool) -> pd.DataFrame:
    """Lines with the sums of weighted rows, also where every row has the weight 1."""
    if weighted:
        return lines
    plain = {WEIGHT: ROWS, WEIGHT2: ROWS, WEIGHT2_BOTTOM: BOTTOM, SQUARES2: SQUARES, CROSS2: CROSS}
    return lines.assign(**{name: lines[same] for name, same in (plain | {WEIGHT2_BOTTOM2: BOTTOM2}).items()})


def _checked(sums: SummedLog, columns: tuple[str, str], roles: Roles) -> SummedRatioRoles:
    """The roles of the sums; raises where they are of something else, or other columns are asked for."""
    own = sums.roles
    if not isinstance(own, SummedRatioRoles):
        raise NotAvailableError(
            f"a ratio needs sums of numerators and denominators, and this log holds sums of {own.what}: {own.takers}. "
            "Summarise with `numerator` and `denominator`."
        )
    asked = {"numerator": columns[0], "denominator": columns[1], "weights": roles.weights}
    for name, given in asked.items():
        summed = getattr(own, name)
        if not isinstance(given, str | None) or given != summed:
            say = f"leave `{name}` out" if summed is None else f"say {name}={summed!r}"
            shown = repr(given) if isinstance(given, str | None) else f"an array ({type(given).__name__})"
            raise ArgumentError(
                f"`{name}` must be as the log was summed, {summed!r}; got {shown}. To take these sums, {say}; for "
                "others summarise the log again."
            )
    return own
