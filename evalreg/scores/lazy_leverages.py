"""Squared scores of rows in an engine, each over a power of one less its leverage: HC2 and HC3.

The leverage of a row of a regression is w u'Fu, F = B (X'WX)^-1 B' being that of its cell; of a mean it is the share of
the row in the weight of its cell. Without weights, and without numbers beside its cell, it is the same for all rows of
the cell; otherwise the engine computes it row by row.
"""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from evalreg.checks import FloatArray, IntArray, listed
from evalreg.data.engine import asking, changed_rows
from evalreg.data.engine_groups import grouped
from evalreg.errors import NotAvailableError
from evalreg.scores.lazy import CELLS_AT_ONCE, ROWS, LazyScores

# Cells whose leverages are computed row by row, so many in one query.
MOST_CELLS = 1000
# One less a leverage below this is rounding of rows that have nothing but their cell; and of those with numbers, whose
# leverages come from sums of squares, which keep half the digits.
FULL, NEARLY_FULL = 1e-10, 1e-6
# Cells in one case of an expression: engines bound how deep one goes.
CELLS_OF_A_CASE = 8
_FULL_ROWS = "__full"


@asking
def scaled_squares(scores: LazyScores, forms: FloatArray, power: float) -> FloatArray:
    """Sums of (w e)^2 u_i u_j / (1 - h)^(2 power) of each cell, i <= j, shape (n_cells, n_products).

    `forms` is F, shape (n_cells, K, K). A row of leverage 1 is fitted without error and counts nothing.
    """
    assert scores.squared is not None
    if not scores.parts and scores.weight is None:
        rest = 1.0 - forms[:, 0, 0]
        scale = np.where(rest < FULL, 0.0, np.where(rest < FULL, 1.0, rest) ** (-2 * power))
        return scores.squared * scale[:, None]
    if scores.table is None:
        raise NotAvailableError(
            "leverages of single rows need the rows, which this result does not hold any more (copied or unpickled). "
            'Fit again, or use cov "HC0" or "HC1".'
        )
    if scores.n_cells > MOST_CELLS:
        what = "numbers" if scores.parts else "weights"
        raise NotAvailableError(
            f"leverages of single rows beside {what} are computed for at most {MOST_CELLS:,} joint values of factors; "
            f"{listed(scores.cell_columns)} have {scores.n_cells:,}. Merge levels, or collect the columns first; "
            'clusters, and cov "HC0" and "HC1", need no leverages.'
        )
    found = np.zeros_like(scores.squared)
    count, full = np.zeros(scores.n_cells), 0
    for first in range(0, scores.n_cells, CELLS_AT_ONCE):
        cells = np.arange(first, min(first + CELLS_AT_ONCE, scores.n_cells))
        numbers, where = _asked(scores, cells, forms, power)
        count[where] += numbers.pop(ROWS)
        full += int(numbers.pop(_FULL_ROWS).sum())
        found[where] += np.column_stack(list(numbers.values()))
    if np.any(count != scores.sums.count):
        raise changed_rows(f"its {scores.n_rows} rows are now {int(count.sum())}, or in other cells")
    if full and scores.parts:
        raise NotAvailableError(
            f"{full} row{'s have' if full > 1 else ' has'} a leverage of 1 or so near it that sums of squares from an "
            "engine cannot tell: a coefficient rests on one row alone. Leave out or merge what only one row has, or "
            'collect the columns first; cov "HC0" and "HC1" need no leverages.',
            count=full,
        )
    return found


def _asked(
    scores: LazyScores, cells: IntArray, forms: FloatArray, power: float
) -> tuple[dict[str, FloatArray], IntArray]:
    """The same sums of some cells, one query, beside rows and rows of leverage 1; and the cell of each line."""
    assert scores.table is not None
    w = nw.lit(1.0) if scores.weight is None else nw.col(scores.weight).cast(nw.Float64)
    u = [nw.lit(1.0), *(nw.col(name) for name in scores.parts)]
    K = len(u)
    pairs = list(zip(*np.triu_indices(K), strict=True))
    fitted = scores.fitted.reshape(scores.n_cells, K)
    mean = _sum(_by_cell(scores, cells, fitted[:, i]) * u[i] for i in range(K))
    form = _sum(_by_cell(scores, cells, forms[:, i, j] * (1.0 if i == j else 2.0)) * u[i] * u[j] for i, j in pairs)
    frame = scores.table.frame
    if scores.cell_columns and cells.size < scores.n_cells:
        frame = frame.filter(nw.any_horizontal(*(scores.inside(int(cell)) for cell in cells), ignore_nulls=False))
    score = w * (nw.col(scores.value).cast(nw.Float64) - mean)
    # Columns are made first: not every engine has products inside a sum.
    frame = frame.select(*scores.cell_columns, *scores.parts, score.alias("__s"), (1.0 - w * form).alias("__rest"))
    sound = nw.col("__rest") > (NEARLY_FULL if scores.parts else FULL)
    rest, one, no = nw.when(sound).then(nw.col("__rest")).otherwise(nw.lit(1.0)), nw.lit(1), nw.lit(0)
    over = rest if power == 0.5 else rest * rest
    squared = nw.when(sound).then(nw.col("__s") * nw.col("__s") / over).otherwise(nw.lit(0.0))
    frame = frame.select(
        *scores.cell_columns,
        *scores.parts,
        squared.alias("__q"),
        nw.when(sound).then(no).otherwise(one).alias(_FULL_ROWS),
    )
    made = {f"__q{n}": nw.col("__q") * u[i] * u[j] for n, (i, j) in enumerate(pairs)}
    frame = frame.select(*scores.cell_columns, _FULL_ROWS, *(column.alias(name) for name, column in made.items()))
    sums = {ROWS: nw.len()} | {name: nw.col(name).sum() for name in (_FULL_ROWS, *made)}
    found = grouped(frame, scores.cell_columns, sums)
    joint, n_joint = found.joint(scores.cell_columns)
    keys = found.texts(scores.cell_columns, joint, n_joint)
    if not set(keys) <= set(scores.cell_codes):
        raise changed_rows(f"joint values of {listed(scores.cell_columns)} are new")
    return found.numbers, np.array([scores.cell_codes[key] for key in keys], dtype=np.intp)[joint]


def _by_cell(scores: LazyScores, cells: IntArray, values: FloatArray) -> nw.Expr:
    """The value of a row's cell; some cells in each case, and sums of cases in pairs."""
    if not scores.cell_columns:
        return nw.lit(float(values[0]))
    cases = []
    for first in range(0, cells.size, CELLS_OF_A_CASE):
        case: nw.Expr = nw.lit(0.0)
        for cell in cells[first : first + CELLS_OF_A_CASE]:
            case = nw.when(scores.inside(int(cell))).then(float(values[cell])).otherwise(case)
        cases.append(case)
    found: nw.Expr = _sum(cases)
    return found


def _sum(terms: Any) -> Any:
    """The sum of columns, taken in pairs, so that it is not deep."""
    found = list(terms)
    while len(found) > 1:
        pairs = [found[i : i + 2] for i in range(0, len(found), 2)]
        found = [pair[0] + pair[1] if len(pair) == 2 else pair[0] for pair in pairs]
    return found[0]
