"""Ratios of rows that stay in an engine: sums of numerators and denominators within cluster and cell.

With R0 the ratio of all rows, e = n - R0 d and R = R0 + r, a row's residual n - R d is e - r d: its squares follow from
sums of e^2, e d and d^2, which lose no digits where the cells' ratios are near each other. Cells whose ratio is too far
from R0 are asked for again, about a ratio of one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from evalreg.checks import BoolArray, FloatArray, listed
from evalreg.data.cells import joint_names
from evalreg.data.centres import LOST, about_near_centres
from evalreg.data.clusters import Axis, union
from evalreg.data.engine import LazyTable
from evalreg.data.engine_groups import grouped_sorted
from evalreg.data.engine_rows import read_in_engine
from evalreg.data.frame import refuse_extreme
from evalreg.data.groups import Groups
from evalreg.data.rows import Roles
from evalreg.errors import DataError, NonFiniteError, ScoreRangeError
from evalreg.estimate import About, Cells, Estimate, Refit
from evalreg.estimate.about import on_one_side
from evalreg.estimators.linearized import refuse_constant
from evalreg.scores.base import Scores
from evalreg.scores.lazy_ratio import BOTTOM, PLAIN, TOP, LazyRatios
from evalreg.scores.lazy_spark import SparkRatios, stays_in_spark
from evalreg.scores.sums import CellSums

# Ratios of rows that differ by less, as a share of them, are alike.
ALIKE = 2e-13
# By so much may the squared relative error of a denominator be wrong.
NEGLIGIBLE = 1e-8
N, D = "__n", "__d"


@dataclass(frozen=True, eq=False)
class EngineRatio:
    """The estimate, its clusterings, and the relative error of each denominator."""

    estimate: Estimate
    axes: tuple[Axis, ...] | None
    relative: FloatArray


def ratio_in_engine(
    table: LazyTable, columns: tuple[str, str], roles: Roles, groups: Groups, about: About
) -> EngineRatio:
    """Two queries for the cells, and one for all clusterings."""
    values = dict(zip(("numerator", "denominator"), columns, strict=True))
    read = read_in_engine(table, roles, groups, values)
    axes, dropped = read.axes, read.dropped
    weighted = read.table.each(lambda frame: weighted_columns(frame, columns, read.weights))
    keys, sums = grouped_sorted(*ranged(weighted.frame, roles.by))
    names = joint_names(keys) if roles.by else ("ratio",)
    check_numbers(sums, columns, roles.weights)
    refuse_empty([name for name, total in zip(names, sums["bottom"], strict=True) if total == 0], columns[1])
    cells = CellRatios(names, sums, columns[0])
    more = _second(weighted, roles.by, keys, sums, cells.flat)
    squares, row_squares = (np.where(cells.flat, 0.0, more[name]) for name in ("squares", "row_squares"))
    own = CellSums(
        sums["rows"],
        sums["weight"],
        sums["top"] / cells.mean,
        squares,
        sums["least"] / cells.mean,
        sums["most"] / cells.mean,
    )
    stays = stays_in_spark(weighted, roles.by, int(sums["rows"].sum()), len(keys))
    scores = (SparkRatios if stays else LazyRatios)(
        weighted,
        N,
        roles.by,
        {key: code for code, key in enumerate(keys)},
        cells.ratio,
        own,
        BOTTOM,
        mean=cells.mean,
        row_squares=row_squares,
        flat=cells.flat,
        jointly=union(*(axes or ())),
    )
    estimate = cells.estimate(scores, squares, more["spread"], dropped, about)
    return EngineRatio(estimate, axes, relative_errors(scores, axes, more["apart"], sums["weight"]))


@dataclass(frozen=True, eq=False)
class CellRatios:
    """Sums of both columns in each cell, and the ratios that these make; raises where a ratio does not vary."""

    names: tuple[str, ...]
    sums: dict[str, FloatArray]
    column: str

    def __post_init__(self) -> None:
        if not self.bounded:
            refuse_constant([name for name, one in zip(self.names, self.flat, strict=True) if one], self.column)

    @property
    def ratio(self) -> FloatArray:
        """Sums of numerators over those of denominators."""
        return self.sums["top"] / self.sums["bottom"]

    @property
    def mean(self) -> FloatArray:
        """Mean denominators."""
        return self.sums["bottom"] / self.sums["weight"]

    @property
    def flat(self) -> BoolArray:
        """Whether the rows of a cell all have the same ratio."""
        low, high = self.sums["low"], self.sums["high"]
        near = high - low <= ALIKE * np.fmax(np.abs(low), np.abs(high))
        return np.asarray(near & (self.sums["stray"] == 0))

    @property
    def bounded(self) -> bool:
        """Whether every numerator lies between 0 and its denominator."""
        return bool(self.sums["outside"].sum() == 0)

    def estimate(
        self, scores: Scores, squares: FloatArray, spread: FloatArray, dropped: dict[str, int], about: About
    ) -> Estimate:
        """The ratios with their scores; of cells that are flat no score is other than zero."""
        sums, ratio, bounded = self.sums, self.ratio, self.bounded
        low = sums["low"] if bounded else np.full(ratio.size, -np.inf)
        high = sums["high"] if bounded else np.full(ratio.size, np.inf)
        own = np.where(self.flat, 0.0, spread) if bounded else None
        levels = bounded or on_one_side(sums["least"], sums["most"])
        return Estimate(
            names=self.names,
            params=ratio,
            scores=scores,
            bread=np.diag(1.0 / sums["weight"]),
            kind="mean",
            coefficient_map=np.eye(ratio.size),
            refit=Refit(1.0 / sums["weight"]),
            cells=Cells(sums["rows"] - sums["idle"], sums["weight"], ratio, squares, low, high, spread=own),
            bounded=bounded,
            dropped=dropped,
            about=replace(about, lines=idle_lines(int(sums["idle"].sum())), levels=levels),
        )


def weighted_columns(frame: nw.LazyFrame[Any], columns: tuple[str, str], weights: str | None) -> nw.LazyFrame[Any]:
    """The frame with both columns as numbers, sampling weights, and both columns times these."""
    n, d = (nw.col(name).cast(nw.Float64) for name in columns)
    w = nw.lit(1.0) if weights is None else nw.col(weights).cast(nw.Float64)
    frame = frame.with_columns(n.alias(N), d.alias(D), w.alias(PLAIN))
    return frame.with_columns((nw.col(N) * nw.col(PLAIN)).alias(TOP), (nw.col(D) * nw.col(PLAIN)).alias(BOTTOM))


def ranged(frame: nw.LazyFrame[Any], by: Sequence[str]) -> tuple[nw.LazyFrame[Any], Sequence[str], dict[str, nw.Expr]]:
    """A grouped query for sums and ranges of both columns: frame, keys and aggregates."""
    n, d, one, no = nw.col(N), nw.col(D), nw.lit(1), nw.lit(0)
    made = {
        # Nothing but a finite number times zero is zero.
        "unsound": nw.when((n * 0.0 == 0.0) & (d * 0.0 == 0.0)).then(no).otherwise(one),
        "negative": nw.when(d < 0).then(one).otherwise(no),
        "outside": nw.when((n >= 0) & (n <= d)).then(no).otherwise(one),
        "stray": nw.when((d == 0) & (n != 0)).then(one).otherwise(no),
        "idle": nw.when((d == 0) & (n == 0)).then(one).otherwise(no),
        "own": nw.when(d > 0).then(n / _positive()),
    }
    names = {"__unsound", "__negative", "__outside", "__stray", "__idle"}
    frame = frame.with_columns(*(expression.alias(f"__{name}") for name, expression in made.items()))
    frame = frame.select(*by, N, D, PLAIN, TOP, BOTTOM, *sorted(names), "__own")
    sums = {"rows": nw.len(), "weight": nw.col(PLAIN).sum(), "top": nw.col(TOP).sum(), "bottom": nw.col(BOTTOM).sum()}
    sums |= {"low": nw.col("__own").min(), "high": nw.col("__own").max(), "least": n.min(), "most": n.max()}
    sums |= {"shortest": d.min(), "longest": d.max()}
    return frame, by, sums | {name[2:]: nw.col(name).sum() for name in sorted(names)}


def _positive() -> nw.Expr:
    """The denominator, 1 where it is not positive: engines differ in what dividing by zero is."""
    d = nw.col(D)
    return nw.when(d > 0).then(d).otherwise(nw.lit(1.0))


def _second(
    table: LazyTable, by: Sequence[str], keys: list[tuple[str, ...]], sums: dict[str, FloatArray], flat: BoolArray
) -> dict[str, FloatArray]:
    """Squares of residuals and of denominators of each cell, by one query where cells are near each other.

    Sums of w z^2 and w^2 z^2, z being residuals over the mean denominator; the mean of (n/d - R)^2 by denominators; and
    sums of w^2 (d/mean - 1)^2.
    """
    names = [", ".join(key) or "ratio" for key in keys]
    ratio, mean = sums["top"] / sums["bottom"], sums["bottom"] / sums["weight"]
    centre, middle = sums["top"].sum() / sums["bottom"].sum(), sums["bottom"].sum() / sums["weight"].sum()

    def ask(own: int | None) -> tuple[dict[str, FloatArray], BoolArray]:
        near = (centre, middle) if own is None else (ratio[own], mean[own])
        made, lost = _about(table, by, keys, sums, *map(float, near))
        # Where all ratios are alike the squares are zero, and none of their digits matter.
        return made, lost["ratio"] & ~flat | lost["mean"]

    return about_near_centres(ask, ratio, names, "ratios")


def _about(
    table: LazyTable,
    by: Sequence[str],
    keys: list[tuple[str, ...]],
    sums: dict[str, FloatArray],
    centre: float,
    middle: float,
) -> tuple[dict[str, FloatArray], dict[str, BoolArray]]:
    """The same from sums about one ratio and one mean denominator, and which cells are too far from these."""
    again, found = grouped_sorted(*squared(table.frame, by, centre, middle))
    if again != keys:
        raise DataError("the rows in the engine have changed while the ratio was made. Make the estimate again.")
    mean = sums["bottom"] / sums["weight"]
    r, away = sums["top"] / sums["bottom"] - centre, mean - middle
    parts = {
        "squares": (found["ee"], -2 * r * found["ed"], r**2 * found["dd"]),
        "row_squares": (found["wee"], -2 * r * found["wed"], r**2 * found["wdd"]),
        "spread": (found["each"], -2 * r * found["e"], r**2 * sums["bottom"]),
        "apart": (found["uu"], -2 * away * found["u"], away**2 * found["ww"]),
    }
    over = {"squares": mean**2, "row_squares": mean**2, "spread": sums["bottom"], "apart": mean**2}
    size = {name: one[0] + np.abs(one[1]) + one[2] for name, one in parts.items()}
    total = {name: np.maximum(sum(one), 0.0) for name, one in parts.items()}
    lost = np.any([total[name] < LOST * size[name] for name in ("squares", "row_squares", "spread")], axis=0)
    rounded = np.finfo(float).eps * size["apart"] > NEGLIGIBLE * (mean * sums["weight"]) ** 2
    return {name: total[name] / over[name] for name in total}, {"ratio": lost, "mean": rounded}


def squared(
    frame: nw.LazyFrame[Any], by: Sequence[str], centre: float, middle: float
) -> tuple[nw.LazyFrame[Any], Sequence[str], dict[str, nw.Expr]]:
    """A grouped query for squares about one ratio and one mean denominator: frame, keys and aggregates."""
    e, d, w, u = nw.col("__e"), nw.col(D), nw.col(PLAIN), nw.col("__u")
    made = {"ee": w * e * e, "ed": w * e * d, "dd": w * d * d, "uu": w * w * u * u, "u": w * w * u, "ww": w * w}
    made |= {f"w{name}": w * made[name] for name in ("ee", "ed", "dd")}
    some = nw.when(d > 0)
    made["each"] = some.then(w * e * e / _positive()).otherwise(nw.lit(0.0))
    made["e"] = some.then(w * e).otherwise(nw.lit(0.0))
    frame = frame.with_columns((nw.col(N) - centre * d).alias("__e"), (d - middle).alias("__u"))
    frame = frame.select(*by, *(expression.alias(f"__s{name}") for name, expression in made.items()))
    return frame, by, {name: nw.col(f"__s{name}").sum() for name in made}


def relative_errors(scores: Scores, axes: tuple[Axis, ...] | None, apart: FloatArray, weight: FloatArray) -> FloatArray:
    """Standard error of each cell's mean denominator over that mean, the largest over the clusterings."""
    squares = apart
    for axis in axes or ():
        squares = np.maximum(squares, scores.shares_apart(axis))
    return np.asarray(np.sqrt(squares) / weight)


def check_numbers(sums: dict[str, FloatArray], columns: tuple[str, str], weights: str | None) -> None:
    """Raise where numbers are not finite or denominators negative."""
    if unsound := int(sums["unsound"].sum()):
        raise NonFiniteError(
            f"`numerator` and `denominator` must be finite; columns {listed(columns)} hold infinities in {unsound} of "
            f"{int(sums['rows'].sum())} rows in use. Set them to missing, or leave the rows out.",
            count=unsound,
        )
    for argument, name, ends in zip(
        ("`numerator`", "`denominator`"), columns, (("least", "most"), ("shortest", "longest")), strict=True
    ):
        refuse_extreme(np.array([sums[end] for end in ends]), name, argument)
    if not np.isfinite(sums["weight"]).all():
        raise NonFiniteError(f"`weights` must be finite; column {weights!r} holds infinities.")
    if negative := int(sums["negative"].sum()):
        raise ScoreRangeError(
            f"`denominator` must not be negative; column {columns[1]!r} is in {negative} of "
            f"{int(sums['rows'].sum())} rows in use. A sum of both signs can come near zero, where a ratio has no "
            "error bar.",
            column=columns[1],
            count=negative,
        )


def refuse_empty(empty: Sequence[str], column: str) -> None:
    """Raise where all denominators of a model are zero."""
    if empty:
        raise DataError(
            f"the denominators must not all be zero; column {column!r} is 0 in every row of {listed(empty)}. Leave "
            "those rows out.",
            column=column,
            count=len(empty),
        )


def idle_lines(n_idle: int) -> tuple[str, ...]:
    """What a summary says of leverages, and of rows without any part in the ratio."""
    share = "Leverages and sizes of clusters are shares of the denominator."
    if not n_idle:
        return (share,)
    rows = f"{n_idle} row{'s have' if n_idle > 1 else ' has'}"
    return (share, f"{rows} a numerator and a denominator of 0 and no part in the ratio.")
