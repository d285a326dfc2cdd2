"""Scores of rows that stay in an engine: sums within clusters, of cells and of regressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations_with_replacement
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray, Names, listed
from evalreg.data.clusters import Axis, as_codes, factorize, joint, no_source, union
from evalreg.data.engine import CellKeys, Expressions, Numbers, Query, Sums, changed_rows, count_of
from evalreg.data.engine_rows import MIDDLE, weighted
from evalreg.data.frame import refuse_extreme, refuse_infinite
from evalreg.errors import NotAvailableError
from evalreg.numerics.limits import EQUAL, FULL_LEVERAGE, HELD_BYTES, ROOT_OF_ROUNDING
from evalreg.numerics.matrices import Matrix, compressed, dense, parts_of, square
from evalreg.numerics.moments import ClusterSums, sums_of_residuals
from evalreg.scores.base import Block, Blocks, Cells, Scores
from evalreg.scores.rows import CellMoments, PairSums, roots

# Squares that are a smaller share of the terms they are a difference of have lost digits.
LOST, LOST_AT_FIRST = 1e-6, 0.05
# Cells whose numbers stand in one expression: engines bound how deep one goes.
MOST_CELLS = 500
WEIGHT, SIZE, TOTAL, ORDER = "w", "d", "t", "x"


@dataclass(frozen=True, eq=False)
class Measured:
    """Rows that an engine holds: a value each, of a ratio also a size (its denominator), and a sampling weight.

    Size and weight are None where all are one. A mean is the ratio whose sizes are one.
    """

    engine: Query
    value: nw.Expr
    size: nw.Expr | None = None
    weight: nw.Expr | None = None
    # Whether the sides of a comparison were exchanged, which tells its two orders apart.
    exchanged: nw.Expr | None = None

    def residual(self, cells: CellKeys, centre: FloatArray) -> nw.Expr:
        """Value less size times the centre of the cell."""
        about = of_cell(cells, centre)
        return self.value - (about if self.size is None else self.size * about)

    def weighted(self, number: nw.Expr, power: int = 1) -> nw.Expr:
        """A number times a power of the weight."""
        return weighted(number, self.weight, power)

    def summed(self, cells: CellKeys, centre: FloatArray) -> Expressions:
        """What is summed: weighted residuals; sizes and weights, where not all are one."""
        sums = {TOTAL: self.weighted(self.residual(cells, centre))}
        if self.size is not None:
            sums[SIZE] = self.weighted(self.size)
        if self.exchanged is not None:
            sums[ORDER] = self.exchanged
        return sums if self.weight is None else sums | {WEIGHT: self.weight}

    def moments(self, cells: CellKeys, centre: FloatArray, power: int) -> Expressions:
        """Products of w^p with e^2, e d and d^2, e being the residual about the centre and d the size."""
        e, d = self.residual(cells, centre), nw.lit(1.0) if self.size is None else self.size
        return {name: self.weighted(number, power) for name, number in {"ee": e * e, "ed": e * d, "dd": d * d}.items()}

    def spread(self, cells: CellKeys, centre: FloatArray) -> Expressions:
        """Products of w with e^2/d and e, of rows whose size is positive: their own ratios differ by e/d."""
        assert self.size is not None
        some = nw.when(self.size > 0)
        e = some.then(self.residual(cells, centre)).otherwise(nw.lit(0.0))
        each = e * e / some.then(self.size).otherwise(nw.lit(1.0))
        return {"each": self.weighted(each), "e": self.weighted(e)}

    def sizes(self) -> Expressions:
        """w^2, w^2 d and w^2 d^2."""
        assert self.size is not None
        values = {"ww": nw.lit(1.0), "wd": self.size, "wdd": self.size * self.size}
        return {name: self.weighted(number, 2) for name, number in values.items()}

    def by_cell(self, cells: CellKeys, values: Expressions) -> Numbers:
        """Rows "n" of each cell, and sums of some values over them."""
        (sums,) = self.engine.sums((), cells, values)
        return {name: by_cell(sums, numbers, len(cells.labels)) for name, numbers in sums.numbers.items()}


@dataclass(frozen=True, eq=False)
class SummedRows(Measured):
    """The same of lines, `value`, `size` (of means the rows) and `weight` being sums over the rows of a line.

    The residuals of a line are held about its own ratio; about another one they are those of that and its distance.
    """

    size: nw.Expr
    # Sums of w^p e^2, w^p e d and w^p d^2, for p of 1 and 2; and of w e^2/d, w^2 and w^2 d.
    squares: tuple[tuple[nw.Expr, nw.Expr, nw.Expr], ...] = field(kw_only=True)
    ratio_sums: tuple[nw.Expr, ...] = field(kw_only=True, default=())

    def _away(self, cells: CellKeys, centre: FloatArray) -> nw.Expr:
        """The ratio of the line less the centre of its cell."""
        some = nw.when(self.size > 0)
        ratio = some.then(self.value / some.then(self.size).otherwise(nw.lit(1.0))).otherwise(nw.lit(0.0))
        return ratio - of_cell(cells, centre)

    def weighted(self, number: nw.Expr, power: int = 1) -> nw.Expr:
        """Sums are weighted already."""
        return number

    def moments(self, cells: CellKeys, centre: FloatArray, power: int) -> Expressions:
        """Sums of w^p e^2, w^p e d and w^p d^2."""
        away = self._away(cells, centre)
        ee, ed, dd = self.squares[min(power, len(self.squares)) - 1]
        return {"ee": ee + away * ed * 2.0 + away * away * dd, "ed": ed + away * dd, "dd": dd}

    def spread(self, cells: CellKeys, centre: FloatArray) -> Expressions:
        """About the ratio of a line the residuals of rows with a size sum to zero, where every numerator has one."""
        away = self._away(cells, centre)
        return {"each": self.ratio_sums[0] + away * away * self.size, "e": away * self.size}

    def sizes(self) -> Expressions:
        """Sums of w^2, w^2 d and w^2 d^2."""
        return {"ww": self.ratio_sums[1], "wd": self.ratio_sums[2], "wdd": self.squares[-1][2]}


@dataclass(frozen=True, eq=False)
class HeldClustering:
    """What is known of a clustering: sizes and labels of its clusters, and its blocks where these are held."""

    sizes: FloatArray
    n_lines: int  # (cluster, cell) that have rows, each order of a comparison for itself
    labels: tuple[Any, ...]  # of Arrow, one a column of the clustering
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
    sums : Cells
        What is known of the cells.
    fitted : ndarray, shape (n_cells,)
        Fitted value of each cell.
    centre : ndarray, shape (n_cells,)
        What is taken from values before they are summed, so that no digits are lost.
    weighted : bool
        Whether rows have weights other than one.
    mean_size : ndarray, shape (n_cells,), optional
        Of ratios the mean size of each cell, which scores and leverages are divided by.
    flat : ndarray of bool, shape (n_cells,), optional
        Of ratios, cells of which every row has the ratio, so that no residual is other than zero.
    by_rows : bool
        Whether the grams of ratios count sampling weights, as those of means do.
    heaviest : ndarray, shape (n_cells,), optional
        The largest weight of a row in each cell.
    """

    rows: Measured | None
    of: CellKeys
    sums: Cells
    fitted: FloatArray
    centre: FloatArray
    weighted: bool = False
    mean_size: FloatArray | None = None
    by_rows: bool = False
    flat: BoolArray | None = None
    heaviest: FloatArray | None = None
    _clusterings: dict[Axis, HeldClustering] = field(default_factory=dict)
    _homes: dict[tuple[Axis, Axis], IntArray] = field(default_factory=dict)
    _moments: list[Numbers] = field(default_factory=list)

    @property
    def n_rows(self) -> int:
        """Rows in use."""
        return int(self.sums.count.sum())

    @property
    def n_columns(self) -> int:
        """Number of cells."""
        return self.fitted.size

    @property
    def columns(self) -> Names:
        """Columns of the engine; those of the clusterings that are held, where it is gone."""
        return union(*self._clusterings) if self.rows is None else self.rows.engine.columns

    @property
    def has_source(self) -> bool:
        """Whether further columns can be looked up."""
        return self.rows is not None

    def cells(self, by: Axis) -> Blocks:
        """Sums within (cluster, cell), in blocks of whole clusters, held where they are not too many."""
        return map(self._formula(), self.blocks(by))

    def blocks(self, by: Axis) -> Iterator[Sums]:
        """The sums of these, as the engine gave them."""
        known = self._clustering(by)
        return self._ask(by) if known.blocks is None else iter(known.blocks)

    def _formula(self) -> Formula:
        """What makes a block of a covariance of sums of the engine."""
        size = np.ones(self.n_columns) if self.mean_size is None else self.mean_size
        gram = WEIGHT if self.by_rows or self.mean_size is None else SIZE
        return Formula(self.fitted - self.centre, size, self.flat, gram)

    @property
    def of_means(self) -> bool:
        """Whether the values of cells are averaged."""
        return self.mean_size is None

    @property
    def as_means(self) -> EngineScores:
        """The same scores as those of means, a row counting with its sampling weight."""
        return self if self.mean_size is None else replace(self, by_rows=True)

    def fold(self, by: Axis, piece: Callable[[Block], FloatArray]) -> FloatArray:
        """What `piece` makes of each block, added up; made by the engine where its blocks are not held."""
        if self._clustering(by).blocks is not None:
            return super().fold(by, piece)
        rows = self._rows_of(by)
        return rows.engine.fold(
            by, self.of, rows.summed(self.of, self.centre), partial(_folded, self._formula(), piece)
        )

    def _ask(self, by: Axis) -> Iterator[Sums]:
        rows = self._rows_of(by)
        return rows.engine.sums(by, self.of, rows.summed(self.of, self.centre))

    def _rows_of(self, by: Axis) -> Measured:
        if self.rows is None:
            raise no_source(":".join(by), [":".join(axis) for axis in self._clusterings])
        return self.rows

    def _clustering(self, by: Axis) -> HeldClustering:
        """What is known of a clustering, asked for once; refused if the rows are others than those of the cells."""
        if by not in self._clusterings:
            from pyarrow import chunked_array

            blocks: list[Sums] = []
            sizes, labels, n_bytes, n_lines, seen = [], [], 0, 0, np.zeros((2, self.n_columns))
            for sums in self._ask(by):
                seen += [by_cell(sums, numbers, self.n_columns) for numbers in (sums.n, sums.totals[TOTAL])]
                sizes.append(compressed(self._formula()(sums).gram).sum(axis=1))
                labels.append(sums.labels)
                n_lines += sums.n.size + _in_both_orders(sums)
                n_bytes += sums.nbytes
                blocks = [*blocks, sums] if n_bytes <= HELD_BYTES else []
            self._refuse_changed(*seen)
            columns = tuple(map(chunked_array, zip(*labels, strict=True)))
            held = tuple(blocks) if n_bytes <= HELD_BYTES else None
            self._clusterings[by] = HeldClustering(np.concatenate(sizes), n_lines, columns, held)
        return self._clusterings[by]

    def _refuse_changed(self, count: FloatArray, total: FloatArray) -> None:
        """Raise if the rows are not those that the estimate was made of: an engine reads its tables again each time."""
        size = np.maximum(np.abs(self.sums.low), np.abs(self.sums.high)) + np.abs(self.centre)
        total = total / (1.0 if self.mean_size is None else self.mean_size) + self.centre * self.sums.weight
        moved = np.abs(total - self.sums.mean * self.sums.weight) > EQUAL * size * self.sums.weight
        if moved.any() or np.any(count != self.sums.count):
            raise changed_rows(f"its {self.n_rows} rows are now {int(count.sum())}, or their scores differ")

    def n_clusters(self, by: Axis) -> int:
        """Distinct joint values of some columns."""
        return self._clustering(by).sizes.size

    def n_entries(self, by: Axis) -> int:
        """(cluster, cell) that have rows, each order of a comparison for itself."""
        return self._clustering(by).n_lines

    def n_distinct(self, by: Axis) -> int:
        """The same, of what need not be a clustering that is used: no more than the count is asked for."""
        return self.n_clusters(by) if by in self._clusterings else self._rows_of(by).engine.n_clusters(by)

    def sizes(self, by: Axis) -> FloatArray:
        """Weight of each cluster, shape (n_clusters,)."""
        return self._clustering(by).sizes

    def label(self, by: Axis, code: int) -> str:
        """Label of one cluster."""
        return ":".join(str(column[code].as_py()) for column in self._clustering(by).labels)

    def homes(self, item: Axis, by: Axis) -> IntArray:
        """Cluster of each question, in the order of the clusters of `item`."""
        if (item, by) not in self._homes:
            names = union(item, by)
            parts = [sums.labels for sums in self._rows_of(item).engine.sums(names, CellKeys(), {})]
            codes = {name: as_codes(factorize(_joined(part[i] for part in parts))[0]) for i, name in enumerate(names)}
            of_item, home = (joint([codes[name] for name in axis]).codes for axis in (item, by))
            self._homes[item, by] = home[np.flatnonzero(np.diff(of_item, prepend=-1))]
        return self._homes[item, by]

    def row_squares(self) -> FloatArray:
        """Sums over the rows of each cell of the squares of their scores."""
        return self.row_moments()[0]

    def row_moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sums over the rows of each cell of s^2, s w and w^2: scores of rows, and their weights in leverages."""
        if not self._moments:
            if self.rows is None:
                raise rows_gone("errors of independent rows with weights")
            self._moments.append(self.rows.by_cell(self.of, self.rows.moments(self.of, self.centre, 2)))
        size = 1.0 if self.mean_size is None else self.mean_size
        ee, ed, dd = (self._moments[0][name] / size**2 for name in ("ee", "ed", "dd"))
        shift = self.fitted - self.centre
        squares = np.maximum(ee - 2 * shift * ed + shift**2 * dd, 0.0)
        if self.flat is None:  # Where values are one number no digits are lost.
            alike, exact = self.sums.low == self.sums.high, dd * (self.sums.low - self.fitted) ** 2
        else:
            alike, exact = self.flat, np.zeros_like(dd)
        return np.where(alike, exact, squares), ed - shift * dd, dd

    def squares_in_cells(self, by: Axis) -> Matrix | None:
        """Sums of w e^2 within (cluster, cell) of lines of sums; rows in an engine are not asked again for them."""
        if not isinstance(self.rows, SummedRows):
            return None
        size = np.ones(self.n_columns) if self.mean_size is None else self.mean_size
        values = self.rows.moments(self.of, self.fitted, 1)
        parts = [
            sums.matrix(sums.totals["ee"] / size[sums.cell] ** 2, self.n_columns)
            for sums in self.rows.engine.sums(by, self.of, values)
        ]
        return sparse.vstack(parts).tocsr()

    def scaled_squares(self, inverse: FloatArray, power: float) -> FloatArray:
        """Sums of s^2 / (1 - h)^(2 power) over the rows of each cell, whose leverage h is their weight times `inverse`.

        A row of leverage 1 is fitted without error and counts nothing.
        """
        if not power or not self.weighted:  # all rows of a cell are alike
            known = 1.0 - inverse > FULL_LEVERAGE
            scale = np.where(known, np.where(known, 1.0 - inverse, 1.0) ** (-2 * power), 0.0) if power else 1.0
            return self.row_squares() * scale
        rows = self._rows_of(())
        _refuse_many(self.of, self.n_columns)
        assert rows.weight is not None
        rest = 1.0 - rows.weight * of_cell(self.of, inverse)
        score = rows.weight * (rows.value - of_cell(self.of, self.fitted))
        squared = score * score / (rest if power == 0.5 else rest * rest)
        squared = nw.when(rest > FULL_LEVERAGE).then(squared).otherwise(nw.lit(0.0))
        return rows.by_cell(self.of, {"q": squared})["q"]

    def row_labels(self) -> None:
        """None: rows are not in memory."""

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


def rows_gone(what: str) -> NotAvailableError:
    """The error for what is asked of the rows of a copy, which gave them up."""
    return NotAvailableError(
        f"{what} need the rows, which this result does not hold any more (copied or unpickled). Fit again."
    )


def _refuse_many(cells: CellKeys, n_used: int) -> None:
    """Raise where an expression would have to tell too many cells apart."""
    if n_used > MOST_CELLS:
        raise NotAvailableError(
            f"leverages of single rows are computed in an engine for at most {MOST_CELLS} joint values of columns; "
            f"{listed(cells.columns)} have {len(cells.labels):,}. Merge levels, or collect the columns first; "
            'clusters, and cov "HC0" and "HC1", need no leverages.'
        )


def _joined(parts: Iterator[Any]) -> Any:
    return np.concatenate([np.asarray(part.to_pandas(), dtype=object) for part in parts])


@dataclass(frozen=True, eq=False)
class Formula:
    """Sums of residuals about what is fitted, and weights in leverages, from sums about the centres of cells.

    Shapes (n_cells,): `away`, fitted values less the centres; `size`, which both are divided by; `flat`, cells of which
    every row has the ratio, so that no residual is other than zero. `gram` names the weights.
    """

    away: FloatArray
    size: FloatArray
    flat: BoolArray | None
    gram: str

    def __call__(self, sums: Sums) -> Block:
        """The block of a covariance."""
        weight = sums.totals.get(WEIGHT, sums.n)
        bottom, n_cells = sums.totals.get(SIZE, weight), self.away.size
        size = self.size[sums.cell]
        totals = (sums.totals[TOTAL] - bottom * self.away[sums.cell]) / size
        totals = totals if self.flat is None else np.where(self.flat[sums.cell], 0.0, totals)
        return Block(sums.matrix(totals, n_cells), sums.matrix(bottom / size if self.gram == SIZE else weight, n_cells))


def _folded(formula: Formula, piece: Callable[[Block], FloatArray], sums: Sums) -> FloatArray:
    """What is made of a block, of the sums that it is made of; with its first arguments it can be pickled."""
    return piece(formula(sums))


def _in_both_orders(sums: Sums) -> int:
    turned = sums.totals.get(ORDER)
    return 0 if turned is None else int(np.count_nonzero((turned > 0) & (turned < sums.n)))


def by_cell(sums: Sums, numbers: FloatArray, n_cells: int) -> FloatArray:
    """One number for each line, added up by cell, shape (n_cells,)."""
    return np.bincount(sums.cell, numbers, n_cells).astype(float)


def of_cell(cells: CellKeys, values: FloatArray) -> nw.Expr:
    """The number of the cell of a row; the most common one is looked for last."""
    distinct, counts = np.unique(values, return_counts=True)
    common = float(distinct[np.argmax(counts)])
    expression: nw.Expr = nw.lit(common)
    for number in np.flatnonzero(values != common):
        inside = nw.when(cells.inside(int(number)))
        expression = inside.then(nw.lit(float(values[number]))).otherwise(expression)
    return expression


def engine_scores(rows: Measured, cells: CellKeys, first: Mapping[str, FloatArray], score: str) -> EngineScores:
    """Scores of means, from the first sums of the cells: n, w, t, smallest, largest, and squares about the middle.

    Where these squares have lost digits, they are asked for about the means.
    """
    n, w, total, low, high, squared = (first[name] for name in ("n", "w", "t", "lo", "hi", "s"))
    refuse_infinite([low, high], score, "score", ends=True)
    refuse_extreme(np.array([low, high]), score, "`score`")
    alike = low == high
    mean = np.where(alike, low, total / w)
    with np.errstate(over="ignore", invalid="ignore"):
        beyond = w * (mean - MIDDLE) ** 2
        squares = np.maximum(squared - beyond, 0.0)
        lost = ~alike & ~(squares > LOST_AT_FIRST * (squared + beyond))
    centre = np.full(n.size, float(total.sum() / w.sum()))
    moments: list[Numbers] = []
    if lost.any():
        centre, products = near_centres(rows, cells, mean, centre, alike)
        shift = mean - centre
        squares = np.maximum(products["ee"] - 2 * shift * products["ed"] + shift**2 * products["dd"], 0.0)
    squares = np.where(alike, 0.0, squares)
    if rows.weight is None:  # About the mean no digits are lost where values hardly vary.
        shift = mean - centre
        moments.append({"ee": squares + n * shift**2, "ed": n * shift, "dd": n})
    sums = Cells(n, w, mean, squares, low, high, unlike=rows.weight is not None)
    return EngineScores(rows, cells, sums, mean, centre, rows.weight is not None, _moments=moments)


def near_centres(
    rows: Measured, cells: CellKeys, fitted: FloatArray, centre: FloatArray, alike: BoolArray, more: Any = None
) -> tuple[FloatArray, Numbers]:
    """Centres about which no cell loses digits of its squares, and moments about them.

    They are common to the cells but for those that are far from the others, whose centre is their own. `more` makes
    further values to sum of the centres.
    """
    values = rows.moments(cells, centre, 1) | ({} if more is None else more(centre))
    moments = rows.by_cell(cells, values)
    shift = fitted - centre
    size = moments["ee"] + 2 * np.abs(shift * moments["ed"]) + shift**2 * moments["dd"]
    lost = ~alike & (moments["ee"] - 2 * shift * moments["ed"] + shift**2 * moments["dd"] < LOST * size)
    if not lost.any() or np.array_equal(centre[lost], fitted[lost]):
        return centre, moments
    return near_centres(rows, cells, fitted, np.where(lost, fitted, centre), alike, more)


@dataclass(frozen=True, eq=False)
class MeasuredNumbers(Measured):
    """Rows that have numbers beside their value: u is 1 and these."""

    numbers: tuple[nw.Expr, ...] = ()

    def summed(self, cells: CellKeys, centre: FloatArray) -> Expressions:
        """Sums of w, w u u' and w u (y - centre); with weights also those of their roots, for residuals."""
        sums, y = super().summed(cells, centre), self.value - of_cell(cells, centre)
        for j, z in enumerate(self.numbers, 1):
            sums |= {f"y{j}": self.weighted(z * y), f"u0,{j}": self.weighted(z)}
        for i, j in combinations_with_replacement(range(1, len(self.parts)), 2):
            sums[f"u{i},{j}"] = self.weighted(self.parts[i] * self.parts[j])
        if self.weight is not None:
            root = self.weight.sqrt()
            sums |= {"r": root * y} | {f"r{j}": root * z for j, z in enumerate(self.parts)}
        return sums

    @property
    def parts(self) -> tuple[nw.Expr, ...]:
        """u, part by part."""
        return nw.lit(1.0), *self.numbers


def squares_of(sums: Numbers, K: int, name: str = "u") -> FloatArray:
    """Sums of products of parts, (n_lines, K, K); those of 1 and 1 are the weights unless they have a name."""
    M = np.empty((sums["n"].size, K, K))
    for i, j in combinations_with_replacement(range(K), 2):
        product = sums.get(f"{name}{i},{j}")
        M[:, i, j] = M[:, j, i] = sums.get(WEIGHT, sums["n"]) if product is None else product
    return M


def totals_in(sums: Numbers, K: int) -> FloatArray:
    """Sums of w u (y - centre), (n_lines, K)."""
    return np.column_stack([sums[TOTAL], *(sums[f"y{j}"] for j in range(1, K))])


@dataclass(frozen=True, eq=False)
class EngineMoments(CellMoments):
    """Scores w e u'B_c of rows in cells, in an engine.

    Parameters
    ----------
    inner : EngineScores
        Of the cells; its rows are `MeasuredNumbers`.
    basis : ndarray, shape (n_cells, K, k)
        B.
    fitted : ndarray, shape (n_cells, K)
        Of u, less the centre of the inner scores.
    terms : tuple of (CellKeys, ndarray)
        The same as a sum of functions of few columns each: of the joint values of these, shape (n_values, K).
    left : float
        Sum of w e^2.
    reach : ndarray, shape (K,)
        The largest size of each part.
    """

    inner: EngineScores
    basis: FloatArray
    fitted: FloatArray
    terms: tuple[tuple[CellKeys, FloatArray], ...]
    left: float
    reach: FloatArray
    # Squares of rows come as sums, whose last digits are of the largest rows.
    rounding = 1e-14
    _squared_by_power: dict[float, FloatArray] = field(default_factory=dict)

    def pair_sums(self, by: Axis) -> Iterator[PairSums]:
        """Sums by (cluster, cell), some whole clusters at a time."""
        return map(self._pairs, self.inner.blocks(by))

    def _pairs(self, sums: Sums) -> PairSums:
        K, starts = self.basis.shape[1], np.searchsorted(sums.cluster, np.arange(sums.n_clusters + 1))
        pairs = PairSums(sums.cell, starts, squares_of(sums.numbers, K), totals_in(sums.numbers, K))
        return pairs.about(self.fitted)

    def squared_errors(self) -> FloatArray:
        """Sums of w^2 e^2 u u' over the rows of each cell, (n_cells, K, K)."""
        return self._squared(0.0)

    def scaled_meat(self, power: float, bread: Matrix) -> FloatArray:
        """The same of rows, each over (1 - h)^power of its leverage: HC2 and HC3."""
        B, n = self.basis @ dense(bread), bread.shape[1]
        return square((roots(self._squared(power)) @ B).reshape(-1, n), np.eye(n))

    def _squared(self, power: float) -> FloatArray:
        """Sums of w^2 e^2 u u' of each cell, over (1 - h)^(2 power), (n_cells, K, K); one query."""
        forms, K = self.basis @ np.swapaxes(self.basis, 1, 2), self.basis.shape[1]
        if K == 1:
            if power and self.inner.weighted:
                self._measured("leverages of independent rows")
            return self.inner.scaled_squares(forms[:, 0, 0], power)[:, None, None]
        if power not in self._squared_by_power:
            measured = self._measured("errors and leverages of independent rows")
            residual = self._residual(measured)
            squared = measured.weighted(residual * residual, 2)
            if power:
                rest = 1.0 - measured.weighted(self._form(measured, forms))
                self._refuse_full(measured, rest)
                squared = squared / (rest if power == 0.5 else rest * rest)
            self._squared_by_power[power] = self._products(measured, squared)
            self._squared_by_power[power].setflags(write=False)
        return self._squared_by_power[power]

    def _products(self, measured: MeasuredNumbers, factor: nw.Expr) -> FloatArray:
        parts, K = measured.parts, len(measured.parts)
        products = {f"q{i},{j}": factor * parts[i] * parts[j] for i, j in combinations_with_replacement(range(K), 2)}
        sums = measured.by_cell(self.inner.of, products)
        if not np.array_equal(sums["n"], self.inner.sums.count):
            raise changed_rows(f"its {self.n_rows} rows are now {int(sums['n'].sum())}, or in other cells")
        return squares_of(sums, K, "q")

    def _measured(self, what: str) -> MeasuredNumbers:
        rows = self.inner.rows
        if rows is None:
            raise rows_gone(what)
        assert isinstance(rows, MeasuredNumbers)
        return rows

    def _residual(self, measured: MeasuredNumbers) -> nw.Expr:
        """e of a row."""
        residual = measured.value - float(self.inner.centre[0])
        for cells, maps in self.terms:
            for j, z in enumerate((None, *measured.numbers)):
                if np.any(maps[:, j] != 0):
                    coefficient = of_cell(cells, maps[:, j])
                    residual = residual - (coefficient if z is None else coefficient * z)
        return residual

    def _form(self, measured: MeasuredNumbers, forms: FloatArray) -> nw.Expr:
        """u'F_c u of a row, F (n_cells, K, K)."""
        cells = self.inner.of
        _refuse_many(cells, int(np.count_nonzero(np.any(forms != 0, axis=(1, 2)))))
        parts, form = measured.parts, nw.lit(0.0)
        for i, j in combinations_with_replacement(range(len(parts)), 2):
            times = forms[:, i, j] * (1.0 if i == j else 2.0)
            form = form + of_cell(cells, times) * parts[i] * parts[j]
        return form

    def _refuse_full(self, measured: MeasuredNumbers, rest: nw.Expr) -> None:
        # Too near to rounding for a power of it.
        if count := int(measured.engine.totals({"full": count_of(rest < ROOT_OF_ROUNDING)})["full"]):
            raise NotAvailableError(
                f"{count} {'row has' if count == 1 else 'rows have'} a leverage of 1, or too near it for sums of an "
                'engine. Leave such rows or columns out, collect the columns first, or use cov "HC0" or "HC1".',
                count=count,
            )

    def rows_above(self, root: FloatArray, above: float) -> Iterator[FloatArray]:
        """Rows whose leverage is more than that; looked for where the farthest row could reach it."""
        B = self.basis @ root
        far = np.einsum("j,cjk->ck", self.reach, np.abs(B))
        heaviest = self.inner.heaviest_rows()
        cells = np.flatnonzero(heaviest * np.einsum("ck,ck->c", far, far) > above)
        for some in (cells[part] for part in parts_of(cells.size, MOST_CELLS)):
            measured = self._measured("whether single rows determine a coefficient")
            forms = np.zeros((B.shape[0], B.shape[1], B.shape[1]))
            forms[some] = (B @ np.swapaxes(B, 1, 2))[some]
            weight = measured.weighted(nw.lit(1.0))
            heavy = nw.when(measured.weighted(self._form(measured, forms)) > above).then(weight).otherwise(nw.lit(0.0))
            R = roots(self._products(measured, heavy)[some])
            yield from (rows[np.any(rows != 0, axis=1)] for rows in R @ B[some] if np.any(rows != 0))

    def residual_sums(self, by: Axis) -> ClusterSums:
        """Sums of residuals within clusters."""
        K, counts, totals = self.basis.shape[1], [], []
        for sums in self.inner.blocks(by):
            f = self.fitted[sums.cell]
            if self.inner.weighted:
                e = sums.totals["r"] - np.einsum("jl,lj->l", np.array([sums.totals[f"r{j}"] for j in range(K)]), f)
            else:
                e = self._pairs(sums).totals[:, 0]
            counts.append(np.bincount(sums.cluster, sums.n))
            totals.append(np.bincount(sums.cluster, e))
        return sums_of_residuals(np.concatenate(counts), np.concatenate(totals), self.left)

    def uncancelled(self, bread: Matrix) -> FloatArray:
        """Bounds of the sums of squares of the influence of rows if its parts did not cancel."""
        sums, centre = self.inner.sums, self.inner.centre
        y = np.maximum(np.abs(sums.low - centre), np.abs(sums.high - centre))
        size = y + np.abs(self.fitted) @ self.reach
        far = np.einsum("j,cjk->ck", self.reach, np.abs(self.basis @ dense(bread)))
        return np.asarray((sums.count * (self.inner.heaviest_rows() * size) ** 2) @ far**2)


def first_moments(
    measured: MeasuredNumbers, cells: CellKeys, centre: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """Of each cell the sums of w u u' and of w u y, and that of w y^2 over all, y less the centre; one query."""
    y, K = measured.value - of_cell(cells, centre), len(measured.parts)
    sums = measured.by_cell(cells, measured.summed(cells, centre) | {"yy": measured.weighted(y * y)})
    return squares_of(sums, K), totals_in(sums, K), float(sums["yy"].sum())
