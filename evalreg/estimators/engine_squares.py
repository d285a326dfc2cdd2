"""Squared residuals of a regression whose rows stay in an engine: fitted values are made there, term by term."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, listed
from evalreg.data.engine_design import VALUE, DesignRoles, DesignRows
from evalreg.data.engine_groups import grouped
from evalreg.errors import NotAvailableError
from evalreg.estimators.cell_design import CellDesign
from evalreg.scores.lazy_sums import same_products

# Levels of factors that stand beside numbers; each is a case of what the engine computes row by row.
MOST_LEVELS = 300
LEVELS_OF_A_CASE = 8


@dataclass(frozen=True, eq=False)
class CellPowers:
    """Sums over the rows of each cell, v being the score less its centre: of w v, w v^2, w^2, w^2 v and w^2 v^2."""

    wv: FloatArray
    wvv: FloatArray
    ww: FloatArray
    wwv: FloatArray
    wwvv: FloatArray

    def squares_about(self, fitted: FloatArray, rows: DesignRows, weighted: bool) -> tuple[FloatArray, float]:
        """Sums of w^2 e^2 of each cell, shape (n_cells, 1), and the sum of w e^2, for fitted values of the cells."""
        mean = self.wv / rows.weight
        within = np.where(rows.low == rows.high, 0.0, np.maximum(self.wvv - rows.weight * mean**2, 0.0))
        about = within + rows.weight * (mean - fitted) ** 2
        squared = np.maximum(self.wwvv - 2 * fitted * self.wwv + fitted**2 * self.ww, 0.0) if weighted else about
        return squared[:, None], float(about.sum())


def cell_powers(rows: DesignRows, roles: DesignRoles) -> CellPowers:
    """One query of rows that have nothing but their cell."""
    v = nw.col(VALUE)
    made = {"wv": v, "wvv": v * v}
    if roles.weights is not None:
        w = nw.col(roles.weights).cast(nw.Float64)
        made = {"wv": w * v, "wvv": w * v * v, "ww": w * w, "wwv": w * w * v, "wwvv": w * w * v * v}
    found = _by_cell(rows.table.frame, rows, roles, made)
    if roles.weights is None:
        found |= {"ww": rows.weight, "wwv": found["wv"], "wwvv": found["wvv"]}
    # Where scores of a cell are all alike, so is their mean.
    found["wv"] = np.where(rows.low == rows.high, rows.low * rows.weight, found["wv"])
    return CellPowers(**found)


def squared_residuals(
    rows: DesignRows, roles: DesignRoles, design: CellDesign, fitted: FloatArray, coefficients: FloatArray
) -> tuple[FloatArray, float]:
    """Sums of w^2 e^2 u_i u_j of each cell, and the sum of w e^2, of rows that have numbers of their own: one query."""
    e = nw.col(VALUE) - _fitted_in_engine(rows, design, fitted, coefficients)
    made = {"__e": e, "__we": e}
    if roles.weights is not None:
        made["__we"] = nw.col(roles.weights).cast(nw.Float64) * e
    frame = rows.table.frame.select(*roles.keys, *rows.parts, *(one.alias(name) for name, one in made.items()))
    # The scores of a row are made first, so that a sum takes one product.
    scores = {f"__s{i}": nw.col("__we") * nw.col(name) for i, name in enumerate(rows.parts, 1)}
    frame = frame.select(
        *roles.keys, "__e", nw.col("__we").alias("__s0"), *(one.alias(name) for name, one in scores.items())
    )
    pairs = same_products(((), *rows.multiplied))
    products = {f"p{i}_{j}": nw.col(f"__s{i}") * nw.col(f"__s{j}") for i, j in pairs}
    if roles.weights is not None:
        products["left"] = nw.col("__s0") * nw.col("__e")
    found = _by_cell(frame, rows, roles, products)
    left = found.get("left", found["p0_0"])
    return np.column_stack([found[f"p{i}_{j}"] for i, j in pairs]), float(left.sum())


def _by_cell(
    frame: nw.LazyFrame[Any], rows: DesignRows, roles: DesignRoles, made: dict[str, nw.Expr]
) -> dict[str, FloatArray]:
    """Sums over the rows of each cell of what is made of the columns of a frame."""
    frame = frame.select(*roles.keys, *(one.alias(f"__{name}") for name, one in made.items()))
    found = grouped(frame, roles.keys, {name: nw.col(f"__{name}").sum() for name in made})
    joint, n_joint = found.joint(roles.keys)
    cell = np.array([rows.codes[key] for key in found.texts(roles.keys, joint, n_joint)], dtype=np.intp)[joint]
    place = np.empty(rows.count.size, dtype=np.intp)
    place[cell] = np.arange(cell.size)
    return {name: column[place] for name, column in found.numbers.items()}


def _fitted_in_engine(rows: DesignRows, design: CellDesign, fitted: FloatArray, coefficients: FloatArray) -> nw.Expr:
    """The fitted value of a row, less the centre of the scores, term by term."""
    K = len(rows.parts) + 1
    flat, levels = np.zeros(K), 0
    made: nw.Expr | None = None
    u = [nw.lit(1.0), *(nw.col(name) for name in rows.parts)]
    for columns, places in design.terms:
        own = design.coded[:, :, list(places)] @ coefficients[list(places)]
        if not columns:
            flat += own[0]
            continue
        lines = rows.labels[list(columns)].reset_index(drop=True)
        first = _first_lines(lines)
        levels += first.size
        if levels > MOST_LEVELS:
            raise NotAvailableError(
                f"beside numbers, a regression of rows in an engine takes factors of at most {MOST_LEVELS} levels in "
                f"all; those of {listed(columns)} bring them to {levels:,}. Merge levels, or make a column in the "
                "engine of what the formula makes of them, or collect the columns of the formula first."
            )
        for v in np.flatnonzero(np.any(own != 0, axis=0)):
            case = _case(lines, first, own[:, v])
            made = case * u[v] if made is None else made + case * u[v]
    flat[0] += fitted[0, 0] - (design.coded[0] @ coefficients)[0]
    for one, times in zip(u, flat.tolist(), strict=True):
        made = one * times if made is None else made + one * times
    assert made is not None
    return made


def _case(lines: pd.DataFrame, first: Any, values: FloatArray) -> nw.Expr:
    """The value of each joint label, as a number of a row; some labels in each case, and sums of cases in pairs."""
    cases = []
    for some in range(0, first.size, LEVELS_OF_A_CASE):
        case: nw.Expr = nw.lit(0.0)
        for at in first[some : some + LEVELS_OF_A_CASE]:
            inside = [nw.col(name) == _plain(lines[name].iloc[at]) for name in lines.columns]
            case = nw.when(nw.all_horizontal(*inside, ignore_nulls=False)).then(float(values[at])).otherwise(case)
        cases.append(case)
    while len(cases) > 1:
        # Neither cases nor sums go deep: engines bound the depth of an expression.
        pairs = [cases[i : i + 2] for i in range(0, len(cases), 2)]
        cases = [pair[0] + pair[1] if len(pair) == 2 else pair[0] for pair in pairs]
    return cases[0]


def _first_lines(lines: pd.DataFrame) -> Any:
    """The first line of each joint value."""
    codes = lines.groupby(list(lines.columns), sort=False, observed=True).ngroup().to_numpy()
    return np.unique(codes, return_index=True)[1]


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
