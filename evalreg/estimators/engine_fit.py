"""Least squares on rows that stay in an engine: from sums of their numbers by (cluster, cell)."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import mul
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, listed
from evalreg.data.clusters import Axis, Groups
from evalreg.data.designs import as_labels, for_formula, refuse_large_design
from evalreg.data.engine import ROWS, CellKeys, Query, floats_of, schema_of
from evalreg.data.engine_rows import EngineRows, read_in_engine, refuse_arrays_of_weights
from evalreg.data.formula import ParsedFormula, whole_column
from evalreg.data.frame import refuse_extreme
from evalreg.data.rows import Roles
from evalreg.errors import CollinearityError, DataError, NonFiniteError, NotAvailableError
from evalreg.estimate import About, Estimate
from evalreg.estimators.design import Design, evaluated
from evalreg.estimators.solving import estimate_in_basis, refuse_flat, solve_moments
from evalreg.numerics.limits import ROUNDING
from evalreg.scores.base import CellSums
from evalreg.scores.engine import MOST_CELLS, EngineMoments, EngineScores, MeasuredNumbers, engine_scores, first_moments


def fit_in_engine(
    parsed: ParsedFormula,
    table: Query,
    columns: tuple[tuple[str, ...], tuple[str, ...]],
    roles: Roles,
    groups: Groups,
    family: Any,
) -> tuple[Estimate, tuple[Axis, ...] | None]:
    """The regression on covariates of rows that stay in an engine, and the clusterings asked for."""
    _refuse_in_memory_only(parsed, columns, roles.weights, family)
    keys, products = _factors(parsed, schema_of(table.frame))
    numbers = tuple(dict.fromkeys(name for product in products.values() for name in product))
    rows = read_in_engine(table, replace(roles, by=keys), groups, covariates=numbers)
    design = _of_cells(parsed, rows.cells, columns[1])
    factors = [products[codes] for codes in design.products]
    expressions = [reduce(mul, map(floats_of, names)) for names in factors]
    centre, spread = _scales(rows.table, expressions, [":".join(codes) for codes in design.products])
    scaled = tuple((z - c) / s for z, c, s in zip(expressions, centre.tolist(), spread.tolist(), strict=True))
    measured = MeasuredNumbers(rows.table, floats_of(parsed.outcome), weight=rows.weight, numbers=scaled)
    scores = engine_scores(measured, rows.cells, rows.sums, parsed.outcome)
    about = About("OLS" if roles.weights is None else "WLS", parsed.outcome, parsed.text)
    return _solve(design, scores, measured, rows, (centre, spread), about), rows.axes


def _refuse_in_memory_only(
    parsed: ParsedFormula, columns: tuple[tuple[str, ...], tuple[str, ...]], weights: Any, family: Any
) -> None:
    """Raise where a regression needs more than sums by cell."""
    names = listed(list(dict.fromkeys((*columns[0], *columns[1]))))
    if family != "gaussian":
        raise NotAvailableError(
            f"rows in an engine can be regressed by least squares; got family={family!r}, whose weights change with "
            f"every step. Collect the columns {names} and those of `groups` first."
        )
    refuse_arrays_of_weights(weights)
    if not parsed.columns_only:
        raise NotAvailableError(
            f"formulas of rows in an engine hold columns, C(...) of them and products of these; got {parsed.text!r}. "
            f"Make the column in the engine first and name it, or collect the columns {names}."
        )


def _factors(parsed: ParsedFormula, schema: Any) -> tuple[tuple[str, ...], dict[tuple[str, ...], tuple[str, ...]]]:
    """Columns of the factors that are labels; and by the codes of numbers multiplied in a term, their columns."""
    import patsy

    keys, products = set[str](), dict[tuple[str, ...], tuple[str, ...]]()
    for term in patsy.ModelDesc.from_formula(parsed.text).rhs_termlist:
        codes = []
        for factor in term.factors:
            name, kind = whole_column(factor.code), schema[whole_column(factor.code)]
            if factor.code.startswith("C(") or not kind.is_numeric():
                keys.add(name)
            else:
                codes.append(factor.code)
        products[tuple(sorted(codes))] = tuple(whole_column(code) for code in sorted(codes))
    return tuple(name for name in parsed.covariate_names if name in keys), products


def _of_cells(parsed: ParsedFormula, cells: CellKeys, covariates: tuple[str, ...]) -> Design:
    """What patsy makes of the labels of the cells, one row each; numbers are 1."""
    n = len(cells.labels)
    columns: dict[str, Any] = dict.fromkeys((*covariates, parsed.outcome), np.ones(n))
    for name, labels in zip(cells.columns, zip(*cells.labels, strict=True), strict=True):
        column = pd.Series(list(labels))
        if pd.api.types.infer_dtype(column) == "date":  # as frames in memory have them
            column = pd.to_datetime(column)
        columns[name] = as_labels(for_formula(column, name, name in parsed.plain), name in parsed.whole)
    frame = pd.DataFrame(columns, index=range(n))
    refuse_large_design(parsed, frame, 0)
    design = evaluated(parsed, frame)
    return design if design.cell is None else replace(design, coding=design.coding[design.cell], cell=None)


_ENDS: tuple[Literal["min", "max"], ...] = ("min", "max")


def _scales(table: Query, numbers: list[nw.Expr], names: list[str]) -> tuple[FloatArray, FloatArray]:
    """Middle and half the range of each number; one query. Refuses what is not finite or does not vary."""
    if not numbers:
        return np.zeros(0), np.zeros(0)
    found = table.table((), {f"{end}{j}": (z, end) for j, z in enumerate(numbers) for end in _ENDS})
    low, high = (np.array([float(found[f"{end}{j}"].iloc[0]) for j in range(len(numbers))]) for end in _ENDS)
    for name, z, *own in zip(names, numbers, low, high, strict=True):
        if not np.isfinite(own).all():
            bad = nw.when(z.is_finite()).then(nw.lit(0)).otherwise(nw.lit(1))
            count = int(table.table((), {"bad": (bad, "sum")})["bad"].iloc[0])
            raise NonFiniteError(
                f"terms of the formula must be finite; {name!r} is missing or infinite in {count} of "
                f"{int(found[ROWS].iloc[0])} rows in use. Leave such rows out, or change the transformation.",
                column=name,
                count=count,
            )
        refuse_extreme(np.array(own), name, "terms of the formula")
    spread = (high - low) / 2
    return low + spread, np.where(spread > 0, spread, 1.0)


def _solve(
    design: Design,
    scores: EngineScores,
    measured: MeasuredNumbers,
    rows: EngineRows,
    scales: tuple[FloatArray, FloatArray],
    about: About,
) -> Estimate:
    sums, k = scores.sums, len(design.names)
    n, low, high = int(sums.count.sum()), float(sums.low.min()), float(sums.high.max())
    if n <= k:
        raise DataError(f"there must be more rows than coefficients; got {n} rows and {k} coefficients.", count=n)
    refuse_flat(about.outcome, low, high, perfect=False)
    level = float(sums.total.sum() / sums.weight.sum())
    centre = np.full(sums.count.size, level if design.constant >= 0 else 0.0)
    M, m, squares = first_moments(measured, rows.cells, centre) if measured.numbers else _of_factors_alone(sums, centre)
    found = solve_moments(design, *scales, M, m)
    if found is None:
        names = listed(list(design.names[1:] if design.constant == 0 else design.names))
        raise CollinearityError(
            f"covariates must not determine each other; some of {names} can be computed from the others, or nearly, "
            "and sums of an engine leave no digits to tell them apart. Drop one of them; if only nearly so, subtract a "
            "typical value in the engine before products are formed, or collect the columns first.",
            column=design.names[-1],
        )
    T, A, map_, turned = found
    B = A @ map_
    fitted = B @ turned
    rest = m - np.einsum("cij,cj->ci", M, fitted)
    left = float(squares - np.sum(fitted * (m + rest)))
    farthest = max(abs(low - centre[0]), abs(high - centre[0]))
    refuse_flat(about.outcome, low, high, left <= ROUNDING * farthest**2 * float(sums.weight.sum()))
    params = T @ turned
    if design.constant >= 0:
        params[design.constant] += level
    whole = fitted[:, 0] + centre
    if measured.numbers:
        inner = EngineScores(measured, rows.cells, sums, whole, centre, scores.weighted)
    else:  # what is known of the cells is about their own centres
        inner, fitted = replace(scores, fitted=whole), (whole - scores.centre)[:, None]
    inner = replace(inner, heaviest=rows.sums.get("heavy"))
    reach = np.ones(1 + len(measured.numbers))
    terms = _by_term(design, rows.cells, A, map_ @ turned) if measured.numbers else ()
    moments = EngineMoments(inner, B, fitted, terms, left, reach)
    estimate = estimate_in_basis(design.names, params, T, moments, True, about, (low, high))
    return replace(estimate, dropped=rows.dropped)


def _of_factors_alone(sums: CellSums, centre: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Sums of w by cell, of w (y - centre), and of w (y - centre)^2 over all."""
    away = sums.mean - centre
    squares = float(sums.squares.sum() + sums.weight @ away**2)
    return sums.weight[:, None, None], (sums.weight * away)[:, None], squares


def _by_term(
    design: Design, cells: CellKeys, A: FloatArray, coefficients: FloatArray
) -> tuple[tuple[CellKeys, FloatArray], ...]:
    """The fitted values of u as a sum over sets of factors, each of the joint labels of its own columns."""
    found = []
    for factors in dict.fromkeys(design.terms):
        places = [i for i, own in enumerate(design.terms) if own == factors]
        columns = [i for i, name in enumerate(cells.columns) if name in {whole_column(code) for code in factors}]
        first: dict[tuple[str, ...], int] = {}
        for number, key in enumerate(cells.keys):
            first.setdefault(tuple(key[i] for i in columns), number)
        if len(first) > MOST_CELLS:
            names = listed([cells.columns[i] for i in columns])
            raise NotAvailableError(
                f"beside numbers, a regression of rows in an engine takes factors of at most {MOST_CELLS} levels; "
                f"{names} have {len(first):,}. Merge levels, or collect the columns of the formula first."
            )
        labels = tuple(tuple(cells.labels[number][i] for i in columns) for number in first.values())
        own = (A[:, :, places] @ coefficients[places])[list(first.values())]
        found.append((CellKeys(tuple(cells.columns[i] for i in columns), labels), own))
    return tuple(found)
