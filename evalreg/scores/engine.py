"""Scores of cells whose rows lie in an engine, which gives their sums in blocks of whole clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from evalreg.checks import FloatArray, IntArray, listed
from evalreg.data.clusters import Axis, factorize, pair_codes, union
from evalreg.data.engine import CellKeys, Engine, Sums, changed_rows
from evalreg.data.engine_rows import MIDDLE
from evalreg.data.frame import refuse_extreme
from evalreg.data.labels import no_source
from evalreg.errors import NonFiniteError, NotAvailableError
from evalreg.numerics.matrices import Matrix, dense
from evalreg.scores.base import Scores, meat_of_sums
from evalreg.scores.sums import Block, CellSums

# Bytes of the blocks of one clustering that are held; of more, the engine is asked whenever they are needed.
HELD = 1 << 29
# Sums of the same rows in another order agree to this fraction of their terms.
UNCHANGED = 1e-9
# Squares that are a smaller share of the terms they are a difference of have lost digits.
LOST, LOST_AT_FIRST = 1e-6, 0.05
# CellKeys whose numbers stand in one expression: engines bound how deep one goes.
MOST_CELLS = 500
# One less a leverage below this is rounding.
FULL = 1e-10
WEIGHT, TOTAL = "w", "t"


@dataclass(frozen=True, eq=False)
class Measured:
    """Rows that an engine holds, each with a value, and a sampling weight where not all are one."""

    engine: Engine
    value: nw.Expr
    weight: nw.Expr | None = None

    def summed(self, cells: CellKeys, centre: FloatArray) -> dict[str, nw.Expr]:
        """What is summed: weights, and weighted distances of values from the centres of their cells."""
        distance = self.value - of_cell(cells, centre)
        return {TOTAL: distance} if self.weight is None else {WEIGHT: self.weight, TOTAL: self.weight * distance}

    def squares(self, cells: CellKeys, centre: FloatArray, power: int) -> dict[str, FloatArray]:
        """Sums over the rows of each cell of w^p, w^p e and w^p e^2, e being the distance from its centre."""
        distance = self.value - of_cell(cells, centre)
        w = nw.lit(1.0) if self.weight is None else self.weight**power
        (sums,) = self.engine.sums((), cells, {"w": w, "we": w * distance, "wee": w * distance * distance})
        return {name: by_cell(sums, one, len(cells.labels)) for name, one in sums.totals.items()}


@dataclass(frozen=True, eq=False)
class HeldClustering:
    """What is known of a clustering: sizes and labels of its clusters, and its blocks where these are held."""

    sizes: tuple[FloatArray, ...]
    labels: tuple[tuple[Any, ...], ...]
    blocks: tuple[Sums, ...] | None


@dataclass(frozen=True, eq=False)
class EngineScores(Scores):
    """Scores of rows in cells, w (value - fitted), summed by (cluster, cell) in an engine.

    Parameters
    ----------
    rows : Measured, optional
        None once they are given up, as by pickle: clusterings that are held stay.
    of : CellKeys
        The columns.
    sums : CellSums
        Of the cells.
    fitted : ndarray, shape (n_cells,)
        Fitted value of each cell.
    centre : ndarray, shape (n_cells,)
        What is taken from values before they are summed, so that no digits are lost.
    weighted : bool
        Whether rows have weights other than one.
    heaviest : ndarray, shape (n_cells,), optional
        The largest weight of a row in each cell.
    """

    rows: Measured | None
    of: CellKeys
    sums: CellSums
    fitted: FloatArray
    centre: FloatArray
    weighted: bool = False
    heaviest: FloatArray | None = None
    _clusterings: dict[Axis, HeldClustering] = field(default_factory=dict)
    _moments: list[dict[str, FloatArray]] = field(default_factory=list)

    @property
    def n_rows(self) -> int:
        """Rows in use."""
        return int(self.sums.count.sum())

    @property
    def n_columns(self) -> int:
        """Number of cells."""
        return self.fitted.size

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the engine; those of the clusterings that are held, where it is gone."""
        return union(*self._clusterings) if self.rows is None else self.rows.engine.columns

    @property
    def has_source(self) -> bool:
        """Whether further columns can be looked up."""
        return self.rows is not None

    def cells(self, by: Axis) -> Iterator[Block]:
        """Sums within (cluster, cell), in blocks of whole clusters, held where they are not too many."""
        known = self._clustering(by)
        for sums in self._ask(by) if known.blocks is None else known.blocks:
            yield block_of(sums, self.fitted - self.centre)

    def fold(self, by: Axis, piece: Callable[[Block], FloatArray]) -> FloatArray:
        """What `piece` makes of each block, added up; made by the engine where its blocks are not held."""
        if self._clustering(by).blocks is not None:
            return super().fold(by, piece)
        rows = self._rows_of(by)
        values = rows.summed(self.of, self.centre)
        return rows.engine.fold(by, self.of, values, partial(_piece_of, self.fitted - self.centre, piece))

    def _ask(self, by: Axis) -> Iterator[Sums]:
        rows = self._rows_of(by)
        return rows.engine.sums(by, self.of, rows.summed(self.of, self.centre))

    def _rows_of(self, by: Axis) -> Measured:
        if self.rows is None:
            raise no_source(":".join(by), [":".join(one) for one in self._clusterings])
        return self.rows

    def _clustering(self, by: Axis) -> HeldClustering:
        """What is known of a clustering, asked for once; refused if the rows are others than those of the cells."""
        if by not in self._clusterings:
            blocks: list[Sums] = []
            sizes, labels, n_bytes, seen = [], [], 0, np.zeros((2, self.n_columns))
            for sums in self._ask(by):
                seen += [by_cell(sums, one, self.n_columns) for one in (sums.n, sums.totals[TOTAL])]
                sizes.append(np.bincount(sums.cluster, sums.totals.get(WEIGHT, sums.n)).astype(float))
                labels.append(sums.labels)
                n_bytes += sums.nbytes
                blocks = [*blocks, sums] if n_bytes <= HELD else []
            self._refuse_changed(*seen)
            self._clusterings[by] = HeldClustering(
                tuple(sizes), tuple(labels), tuple(blocks) if n_bytes <= HELD else None
            )
        return self._clusterings[by]

    def _refuse_changed(self, count: FloatArray, total: FloatArray) -> None:
        """Raise if the rows are not those that the estimate was made of: an engine reads its tables again each time."""
        size = np.maximum(np.abs(self.sums.low), np.abs(self.sums.high)) + np.abs(self.centre)
        moved = np.abs(total + self.centre * self.sums.weight - self.sums.total) > UNCHANGED * size * self.sums.weight
        if moved.any() or np.any(count != self.sums.count):
            raise changed_rows(f"its {self.n_rows} rows are now {int(count.sum())}, or their scores differ")

    def n_clusters(self, by: Axis) -> int:
        """Distinct joint values of some columns."""
        return sum(one.size for one in self._clustering(by).sizes)

    def n_distinct(self, by: Axis) -> int:
        """The same, of what need not be a clustering that is used: no more than the count is asked for."""
        return self.n_clusters(by) if by in self._clusterings else self._rows_of(by).engine.n_clusters(by)

    def sizes(self, by: Axis) -> FloatArray:
        """Weight of each cluster, shape (n_clusters,)."""
        return np.concatenate(self._clustering(by).sizes)

    def label(self, by: Axis, code: int) -> str:
        """Label of one cluster."""
        known = self._clustering(by)
        ends = np.cumsum([one.size for one in known.sizes])
        part = int(np.searchsorted(ends, code, side="right"))
        place = code - int(ends[part] - known.sizes[part].size)
        return ":".join(str(column[place].as_py()) for column in known.labels[part])

    def homes(self, item: Axis, by: Axis) -> IntArray | None:
        """Cluster of each question, in the order of the clusters of `item`; None where the rows are gone."""
        if self.rows is None:
            return None
        parts = [sums.labels for sums in self.rows.engine.sums(union(item, by), CellKeys(), {})]
        names = union(item, by)
        codes = {name: factorize(_joined(part[i] for part in parts))[0] for i, name in enumerate(names)}

        def joint(axis: Axis) -> IntArray:
            found, *others = (codes[name] for name in axis)
            for other in others:
                found = pair_codes(found, int(found.max()) + 1, other, int(other.max()) + 1).codes
            return found

        of_item = joint(item)
        return joint(by)[np.flatnonzero(np.diff(of_item, prepend=-1))]

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', shape (n_params, n_params)."""
        if by is not None:
            return meat_of_sums(self, by, bread)
        scaled = np.sqrt(self.row_moments()[0])[:, None] * dense(bread)
        return np.asarray(scaled.T @ scaled)

    def row_moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sums over the rows of each cell of s^2, s w and w^2, s being the score of a row and w its weight."""
        mean = np.where(self.sums.low == self.sums.high, self.sums.low, self.sums.total / self.sums.weight)
        if not self.weighted:
            w, shift = self.sums.count, self.fitted - mean
            return self.sums.squares + w * shift**2, -w * shift, w
        if not self._moments:
            if self.rows is None:
                raise NotAvailableError(
                    "errors of independent rows with weights need the rows, which this result does not hold any more "
                    "(copied or unpickled). Fit again."
                )
            self._moments.append(self.rows.squares(self.of, mean, 2))
        ww, wwe, wwee = (self._moments[0][name] for name in ("w", "we", "wee"))
        shift = self.fitted - mean
        squares = np.where(
            (self.sums.low == self.sums.high) & (shift == 0), 0.0, wwee - 2 * shift * wwe + shift**2 * ww
        )
        return np.maximum(squares, 0.0), wwe - shift * ww, ww

    def scaled_squares(self, inverse: FloatArray, power: float) -> FloatArray:
        """Sums of s^2 / (1 - h)^(2 power) over the rows of each cell, whose leverage h is their weight times `inverse`.

        A row of leverage 1 is fitted without error and counts nothing.
        """
        rows = self._rows_of(())
        if self.n_columns > MOST_CELLS:
            raise NotAvailableError(
                f"leverages of single rows beside weights are computed for at most {MOST_CELLS} joint values of "
                f"columns; {listed(self.of.columns)} have {self.n_columns:,}. Merge some, or collect the columns "
                'first; clusters, and cov "HC0" and "HC1", need no leverages.'
            )
        assert rows.weight is not None
        rest = 1.0 - rows.weight * of_cell(self.of, inverse)
        score = rows.weight * (rows.value - of_cell(self.of, self.fitted))
        squared = score * score / (rest if power == 0.5 else rest * rest)
        squared = nw.when(rest > FULL).then(squared).otherwise(nw.lit(0.0))
        (sums,) = rows.engine.sums((), self.of, {"q": squared})
        return by_cell(sums, sums.totals["q"], self.n_columns)

    def heaviest_rows(self) -> FloatArray:
        """The largest weight of a row in each cell."""
        return np.ones(self.n_columns) if self.heaviest is None else self.heaviest

    def relabelled(self, change: Callable[[Any], Any]) -> Scores:
        """Refused: it is asked for where every row counts."""
        raise NotAvailableError(
            "leverages and labels of single rows need the rows in memory, and these stay in an engine. Collect the "
            'columns first; clusters, and cov "HC0" and "HC1", need no rows.'
        )

    def detached(self) -> EngineScores:
        """The same scores without their rows: only clusterings already asked for are known."""
        return replace(self, rows=None)

    def with_labels(self, more: dict[str, Any]) -> EngineScores:
        """Refused: an engine's rows have no order that an array could follow."""
        raise NotAvailableError(
            f"rows in an engine have no order, so labels must be columns; got arrays for {listed(more)}. "
            "Add the labels as a column, and name it in `groups`."
        )


def _joined(parts: Iterator[Any]) -> Any:
    return np.concatenate([np.asarray(part.to_pandas(), dtype=object) for part in parts])


def _piece_of(fitted: FloatArray, piece: Callable[[Block], FloatArray], sums: Sums) -> FloatArray:
    return piece(block_of(sums, fitted))


def by_cell(sums: Sums, numbers: FloatArray, n_cells: int) -> FloatArray:
    """One number for each line, added up by cell, shape (n_cells,)."""
    return np.bincount(sums.cell, numbers, n_cells).astype(float)


def block_of(sums: Sums, fitted: FloatArray) -> Block:
    """Sums of residuals, and weights, by (cluster, cell)."""
    weight = sums.totals.get(WEIGHT, sums.n)
    totals = sums.totals[TOTAL] - weight * fitted[sums.cell]
    return Block(sums.matrix(totals, fitted.size), sums.matrix(weight, fitted.size))


def of_cell(cells: CellKeys, values: FloatArray) -> nw.Expr:
    """The number of the cell of a row; the most common one is looked for last."""
    distinct, counts = np.unique(values, return_counts=True)
    common = float(distinct[np.argmax(counts)])
    found: Any = nw.lit(common)
    for number in np.flatnonzero(values != common):
        found = nw.when(cells.inside(int(number))).then(nw.lit(float(values[number]))).otherwise(found)
    expression: nw.Expr = found
    return expression


def engine_scores(
    rows: Measured, cells: CellKeys, first: Mapping[str, FloatArray], score: str, weight: str | None = None
) -> EngineScores:
    """Scores of the cells, from their first sums: n, w, t, smallest, largest, and squares about the middle.

    Where these squares have lost digits, they are asked for about the means.
    """
    n, w, total, low, high, squared = (first[name] for name in ("n", "w", "t", "lo", "hi", "s"))
    if np.isinf(low).any() or np.isinf(high).any():
        raise NonFiniteError(f"`score` must be finite; column {score!r} holds infinities.", column=score)
    refuse_extreme(np.array([low, high]), score, "`score`")
    if not np.isfinite(w).all():
        raise NonFiniteError(f"`weights` must be finite; column {weight!r} holds infinities.", column=weight)
    alike = low == high
    mean = np.where(alike, low, total / w)
    with np.errstate(over="ignore", invalid="ignore"):
        beyond = w * (mean - MIDDLE) ** 2
        squares = np.maximum(squared - beyond, 0.0)
        lost = ~alike & ~(squares > LOST_AT_FIRST * (squared + beyond))
    centre = np.full(n.size, float(total.sum() / w.sum()))
    if lost.any():
        # About a common centre, unless the cells are so far from each other that digits would be lost again.
        spread = np.maximum(high - low, 0.0)
        centre = np.where(np.abs(mean - centre) > spread / np.sqrt(LOST), mean, centre)
        found = rows.squares(cells, centre, 1)
        squares = np.maximum(found["wee"] - w * (mean - centre) ** 2, 0.0)
        mean = np.where(alike, low, centre + found["we"] / w)
    squares = np.where(alike, 0.0, squares)
    sums = CellSums(n, w, total, squares, low, high)
    return EngineScores(rows, cells, sums, mean, centre, rows.weight is not None)
