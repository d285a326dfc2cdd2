"""Statistics that are not means, one a cell, from the influence of each row: what ratio and quantile share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evalreg.checks import FloatArray, IntArray, MissingName, listed
from evalreg.data.cells import cells_of, joint_names
from evalreg.data.engine import LazyTable
from evalreg.data.frame import Table
from evalreg.data.groups import Groups
from evalreg.data.joint_ids import with_roles
from evalreg.data.opening import open_frame
from evalreg.data.rows import ReadRows, read_rows
from evalreg.errors import ConstantScoreError, IndependenceWarning, NotAvailableError, Note
from evalreg.estimate import About, Cells, Estimate, Refit
from evalreg.scores.cells import LinearizedScores


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
    # Whether each is a mean of values in [0, 1].
    bounded: bool
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
    own = [*numbers.values(), *(texts or {}).values(), *([by] if isinstance(by, str) else by or ())]
    own += [name for name in (weights, groups) if isinstance(name, str)]
    table, by_columns = with_roles(in_memory(open_frame(data), what, own), {}, by=by)
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


def in_memory(table: Table | LazyTable, what: str, columns: Sequence[str] = ()) -> Table:
    """The table itself, if its rows are in memory; `what` names the statistic in the refusal."""
    if isinstance(table, LazyTable):
        named = f"the columns {listed(dict.fromkeys(columns))}" if columns else "the columns that are needed"
        raise NotAvailableError(
            f"`data` must be in memory for a {what}, whose scores depend on the estimate itself: select {named} and "
            "collect the frame first. Means (`er.mean`) work where the rows live."
        )
    return table


def linearized_estimate(split: Split, found: Linearized, about: About, column: str) -> Estimate:
    """Estimate of the statistics, one parameter for each cell; `column` is for messages.

    With z the influence of a row times the weight W of its cell, sum w z = 0, the estimate has the covariance of the
    means of the linearized values theta + z: CR0 and CR1 are those of Taylor linearization. Binder (1983),
    International Statistical Review 51, 279-292.
    """
    n_cells, rows, codes = len(split.names), split.rows, split.codes
    weight = split.total(np.ones(split.n_rows))
    # Rows without any part in the statistic (neither numerator nor denominator) are not observations of it.
    count = np.bincount(codes, (found.share != 0) | (found.influence != 0), n_cells).astype(float)
    if not found.bounded:
        low, high = _extremes(found.influence, codes, n_cells)
        refuse_constant([name for name, flat in zip(split.names, low == high, strict=True) if flat], column)
        low, high, spread = found.params + low, found.params + high, None
    else:
        low, high, spread = _values(split, found)
    scores = LinearizedScores(
        split.weighted(found.influence),
        found.params,
        rows.labels(),
        split.cell,
        split.weighted(found.share),
        rows.weights,
    )
    squares = split.total(found.influence**2)
    return Estimate(
        names=split.names,
        params=found.params,
        scores=scores,
        bread=np.diag(1.0 / weight),
        kind="mean",
        coefficient_map=np.eye(n_cells),
        refit=Refit(1.0 / weight, linear=found.exact),
        cells=Cells(count, weight, found.params, squares, low, high, spread=spread),
        bounded=found.bounded,
        dropped=rows.dropped,
        about=replace(about, levels=about.levels or found.bounded),
    )


def _extremes(values: FloatArray, codes: IntArray, n_cells: int) -> tuple[FloatArray, FloatArray]:
    low, high = np.full(n_cells, np.inf), np.full(n_cells, -np.inf)
    np.minimum.at(low, codes, values)
    np.maximum.at(high, codes, values)
    return low, high


def _values(split: Split, found: Linearized) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Lowest and highest of the values whose weighted means the statistics are, and their weighted variances."""
    n_cells, codes = len(split.names), split.codes
    if found.value is None:
        return np.zeros(n_cells), np.ones(n_cells), found.params * (1 - found.params)
    some = found.share > 0
    low, high = _extremes(found.value[some], codes[some], n_cells)
    deviation = np.where(some, found.value - found.params[codes], 0.0)
    return low, high, split.total(found.share * deviation**2) / split.total(found.share)


def refuse_constant(alike: list[str], column: str) -> None:
    """Raise for cells without variation."""
    if alike:
        raise ConstantScoreError(
            f"the values must vary; column {column!r} leaves no variation in {listed(alike)}, so that there is nothing "
            "to compute an error bar from. Leave such rows out.",
            column=column,
            count=len(alike),
        )


def independence_note(by: object, groups: Groups) -> tuple[Note, ...]:
    """A warning that models are taken as independent where no groups are named; empty otherwise."""
    if by is None or groups is not None:
        return ()
    text = (
        f"no `groups`: the estimates by {by} are treated as independent, which they are not if the same questions were "
        "put to all. Name the column of the questions, or of what they share, in `groups`."
    )
    return ((IndependenceWarning, text),)
