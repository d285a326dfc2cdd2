"""Regressions solved: in sums of cells and moments where rows are few numbers in few cells, row by row elsewhere.

Sums of cells are made in memory or by the engine that holds the rows; what is solved from them is the same.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import mul
from typing import Any, Literal, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, listed
from evalreg.choices import FamilyName
from evalreg.data.clusters import Axis, Groups, Labels, axis_name
from evalreg.data.designs import TERMS, DesignColumns, as_labels, for_formula, levels_of, refuse_large_design
from evalreg.data.engine import CellKeys, Query, count_of, floats_of
from evalreg.data.engine_rows import EngineRows, read_in_engine, refuse_arrays_of_weights
from evalreg.data.formula import ParsedFormula, terms_of, whole_column
from evalreg.data.frame import refuse_extreme
from evalreg.data.rows import ReadRows, Roles
from evalreg.errors import (
    CollinearityError,
    ConstantScoreError,
    ConvergenceError,
    DataError,
    FormulaError,
    NonFiniteError,
    NotAvailableError,
)
from evalreg.estimate import About, Estimate, Refit
from evalreg.estimators.design import Design, evaluated, refuse_separated, separated, statsmodels_model
from evalreg.numerics.basis import Partition, Within, basis_of, redundant_levels, within
from evalreg.numerics.fitting import Fitted, canonical, least_squares, mean_and_variance, residual_of, residuals_of
from evalreg.numerics.limits import IN_SPAN, LAST_DIGITS, NEARLY_PERFECT, ROUNDING, SQUARED_CONDITION
from evalreg.numerics.matrices import parts_of, sum_blocks
from evalreg.results.bridge import shown_fit
from evalreg.scores.base import Scores
from evalreg.scores.engine import MOST_CELLS, EngineMoments, EngineScores, MeasuredNumbers, engine_scores, first_moments
from evalreg.scores.rows import Absorbed, CodedRows, MomentScores, RegressionScores, RowScores, roots, solved

Solution: TypeAlias = tuple[FloatArray, FloatArray, RegressionScores]
"""Coefficients, the map from the basis to them, (k, k), and scores in the basis."""


def shown(parsed: ParsedFormula, data: DesignColumns, weights: FloatArray | None, family: FamilyName) -> Any:
    """The statsmodels fit that shows a regression."""
    design = evaluated(parsed, data)
    if family == "gaussian":
        fitted = least_squares(design.rows, design.outcome, design.names, weights)
    else:
        fitted = canonical(design.rows, design.outcome, design.names, family, weights)
    with np.errstate(all="ignore"):
        return shown_fit(statsmodels_model(parsed.text, pd.DataFrame(data), weights, family), fitted)


def solve_linear(
    design: Design, labels: Labels, weights: FloatArray | None, about: About, by: Axis | None = None, **more: Any
) -> Estimate:
    """The estimate of least squares, from sums of cells or, where these are no shorter or too near collinear, rows.

    `by` is a clustering by which sums will be asked for; `more` are further fields.
    """
    low, high = float(design.outcome.min()), float(design.outcome.max())
    solution = _in_moments(design, labels, weights, by)
    if solution is None:
        fitted = least_squares(design.rows, design.outcome, design.names, weights)
        solution = fitted.params, fitted.basis.map, _of_rows(fitted, labels, weights)
    scores, total = solution[2], float(design.outcome @ design.outcome)
    assert scores.ssr is not None
    perfect = scores.ssr <= ROUNDING**2 * total * (1.0 if weights is None else float(weights.max()))
    refuse_flat(about.outcome, low, high, perfect)
    more |= {"r_squared": _r_squared(design, scores, weights)}
    return estimate_in_basis(design.names, *solution, True, about, low >= 0 and high <= 1, **more)


def _r_squared(design: Design, scores: RegressionScores, weights: FloatArray | None) -> tuple[float, bool]:
    """1 - sum of w e^2 over that of w (y - mean)^2; over w y^2 where the columns span no constant, as statsmodels."""
    y, is_constant = design.outcome, design.constant >= 0
    root = None if weights is None else np.sqrt(weights)
    if not is_constant:
        # The rows of the design are orthonormal: a constant is as long as its projection on them.
        length = float(y.size if weights is None else weights.sum())
        parts = ((1.0 if root is None else root[part, None]) * scores.design_rows(part) for part in scores.slices())
        projected = sum_blocks(part.sum(axis=0) for part in parts)
        is_constant = float(projected @ projected) >= (1 - IN_SPAN) * length
    level = float(np.average(y, weights=weights)) if is_constant else 0.0
    return 1.0 - (scores.ssr or 0.0) / _squares_about(level, y, weights), is_constant


def _squares_about(level: float, y: FloatArray, weights: FloatArray | None) -> float:
    """Sum of w (y - level)^2."""
    parts = ((y[part] - level, part) for part in parts_of(y.size))
    return sum(float(away @ (away if weights is None else weights[part] * away)) for away, part in parts)


def refuse_flat(outcome: str, low: float, high: float, perfect: bool, what: str = "the covariates") -> None:
    """Raise where the score does not vary, or not about its fitted values, or by too little for its size."""
    refuse_extreme(np.array([low, high]), outcome, "scores")
    if low == high or perfect:
        is_so = f"is {low:g} in every row" if low == high else f"is determined by {what}"
        raise ConstantScoreError(
            f"`score` must vary about its fitted values; {outcome!r} {is_so}, so that there is no error bar.",
            column=outcome,
        )


def _in_moments(design: Design, labels: Labels, weights: FloatArray | None, by: Axis | None = None) -> Solution | None:
    """The solution from sums of cells, those by (cluster, cell) added up where there are any; None from rows."""
    y, n, n_cells, numbers = design.outcome, design.outcome.size, design.coding.shape[0], design.numbers
    if 2 * n_cells * (len(numbers) + 1) > n:
        return None
    centre = np.array([float(number.mean()) for number in numbers])
    low, high = design.ends.T
    spread = (high - low) / 2
    if not np.all(spread > 0):
        return None
    largest = np.append(1.0, np.maximum(high - centre, centre - low) / spread)
    # Columns of the frame may be written to before rows are looked at again.
    rows = CodedRows(n, design.cell, n_cells, tuple(map(np.array, numbers)), centre, spread, largest)
    # Where there is a constant, it takes the mean of the scores.
    level = float(y.mean()) if design.constant >= 0 else 0.0
    known = {} if by is None else {by: rows.pair_sums(labels.codes(by), weights, y, level)}
    M, m = rows.sums(None, (weights,), y, level) if by is None else known[by].by_cell(n_cells)
    moments = solve_moments(design, (centre, spread), level, M, m)
    if moments is None:
        return None
    params, T, B, F, _ = moments
    squares = _squares_about(level, y, weights)
    ssr = squares - float(np.sum(F * (2 * m - np.einsum("cij,cj->ci", M, F))))
    scores = MomentScores(rows, y, B, labels, weights, level, F, ssr, known)
    if ssr < NEARLY_PERFECT * squares and (residual := scores.residual) is not None:
        ssr = float(residual @ residual)
        scores = MomentScores(rows, scores.error, B, labels, weights, 0.0, np.zeros_like(F), ssr)
    return params, T, scores


def solve_moments(
    design: Design, scales: tuple[FloatArray, FloatArray], level: float, M: FloatArray, m: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray] | None:
    """Least squares from the sums of w u u' and of w u (y - level) by cell, by statsmodels on rows of these squares.

    Coefficients of the design's own columns, (k,), and what maps the basis to them, (k, k); by cell what columns of the
    basis are of u, (n_cells, K, k), the fitted value as one of u, (n_cells, K), and what each column adds to it,
    (n_cells, K, k). None where the condition of the columns is too large for sums of products, or infinite.
    """
    A, back = _in_parts(design, *scales)
    R = roots(M)
    try:
        basis = basis_of((R @ A).reshape(-1, A.shape[2]), design.names)
    except CollinearityError:
        return None
    if basis.condition > SQUARED_CONDITION:
        return None
    turned, _ = residuals_of(basis, solved(R, m).ravel())
    # Once more takes away what rounding left.
    T, B = back @ basis.map, A @ basis.map
    turned = turned + np.einsum("cj,cjk->k", m - np.einsum("cij,cj->ci", M, B @ turned), B)
    params = T @ turned
    if design.constant >= 0:
        params[design.constant] += level
    return params, T, B, B @ turned, A * (basis.map @ turned)


def _in_parts(design: Design, centre: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What columns are of u in each cell, (n_cells, K, k), and what takes coefficients back to the design's own.

    A column of a number in some coding is taken less its centre times the column of that coding, where there is one.
    """
    n_cells, k = design.coding.shape
    A, back = np.zeros((n_cells, centre.size + 1, k)), np.eye(k)
    plain = {design.coding[:, i].tobytes(): i for i in np.flatnonzero(design.part == 0)}
    for i, part in enumerate(design.part):
        codes = design.coding[:, i]
        if not part:
            A[:, 0, i] = codes
            continue
        A[:, part, i] = codes * spread[part - 1]
        coding_column = plain.get(np.ascontiguousarray(codes).tobytes())
        if coding_column is None:
            A[:, 0, i] = codes * centre[part - 1]
        else:
            back[coding_column, i] = -centre[part - 1]
    return A, back


def solve_glm(
    design: Design, labels: Labels, weights: FloatArray | None, family: FamilyName, about: About, **more: Any
) -> Estimate:
    """The estimate of a GLM with its canonical link; of factors alone from the means of the cells."""
    n_cells, y, cell = design.coding.shape[0], design.outcome, design.cell
    if cell is None or design.numbers or 2 * n_cells > y.size:
        cell, rows, outcome, size = None, design.rows, y, weights
    else:
        rows, size = design.coding, np.bincount(cell, weights, n_cells).astype(np.float64)
        outcome = np.bincount(cell, y if weights is None else y * weights, n_cells) / size
    try:
        fitted = canonical(rows, outcome, design.names, family, size)
    except ConvergenceError:
        raise separated(about.formula) from None
    assert fitted.index is not None
    variance = mean_and_variance(fitted.index, family)[1]
    refuse_separated(variance, fitted.basis.rows, about.formula)
    if cell is None:
        scores: RegressionScores = _of_rows(fitted, labels, weights)
    else:
        error = residual_of(y, fitted.index[cell], family) / np.sqrt(variance)[cell]
        columns = (fitted.basis.rows / np.sqrt(np.bincount(cell, weights))[:, None])[:, None]
        of_cells = CodedRows(y.size, cell, n_cells, (), np.zeros(0), np.zeros(0), np.ones(1))
        scores = MomentScores(of_cells, error, columns, labels, weights)
    unit = bool(y.min() >= 0 and y.max() <= 1)
    return estimate_in_basis(design.names, fitted.params, fitted.basis.map, scores, False, about, unit, **more)


def _of_rows(fitted: Fitted, labels: Labels, weights: FloatArray | None) -> RowScores:
    return RowScores(fitted.scores, labels, fitted.basis.rows, fitted.residual, weights)


def unequal(weights: FloatArray | None) -> FloatArray | None:
    """Weights that differ; those that are all alike count for nothing."""
    return None if weights is None or np.all(weights == weights[0]) else weights


def estimate_in_basis(
    names: tuple[str, ...],
    params: FloatArray,
    T: FloatArray,
    scores: Scores,
    linear: bool,
    about: About,
    unit: bool,
    **more: Any,
) -> Estimate:
    """The estimate whose scores are those of an orthonormal basis, which the bread maps to the coefficients.

    `unit` says whether the outcomes lie in [0, 1]; `more` are further fields.
    """
    k = len(names)
    return Estimate(
        names=names,
        params=params,
        scores=scores,
        bread=T.T,
        kind="least squares" if linear else "likelihood",
        coefficient_map=T,
        refit=Refit(np.eye(k), linear=linear),
        about=replace(about, unit=unit),
        **{"n_coefficients": k} | more,
    )


# Absorbed factors: their levels are taken out of the score and the covariates, and never solved for.


def solve_absorbed(design: Design, rows: ReadRows, factors: tuple[Axis, ...], parsed: ParsedFormula) -> Estimate:
    """The estimate from the score and the design of the formula before the bar, with its constant.

    By Frisch, Waugh and Lovell the coefficients are those of the regression on dummies of the levels.
    """
    codes, weights, y = levels_of(rows, factors), unequal(rows.weights), design.outcome
    places = [i for i, name in enumerate(design.names) if name != "Intercept"]
    names = [design.names[i] for i in places]
    refuse_extreme(y, parsed.outcome, "scores")
    partitions = [Partition(levels.codes, levels.n_clusters) for levels in codes]
    project = within(partitions, weights)
    n_redundant, exact = redundant_levels(partitions, project)
    rank = sum(levels.n_clusters for levels in codes) - n_redundant
    what = listed([axis_name(factor) for factor in factors], joiner=" and ")
    if not names:
        raise FormulaError(
            f"`formula` has nothing to estimate: each of the covariates of {parsed.text!r} has one level in the "
            f"{y.size} rows in use, and the absorbed {what} contains the constant. Name a covariate that varies, or "
            f'write "{parsed.outcome} ~ 1" for the mean.'
        )
    if y.size <= len(names) + rank:
        raise DataError(
            f"there must be more rows than coefficients; got {y.size} rows for {len(names)} coefficients and {rank} "
            f"levels of the absorbed {what}. Absorb something coarser, or leave it out.",
            count=y.size,
        )
    left = _left(project, np.array([y, *design.rows.T[places]]).T, [parsed.outcome, *names], what)
    y_left = left[:, 0]
    fitted = least_squares(left[:, 1:], y_left, names, weights)
    assert fitted.residual is not None
    total = float(y_left @ (y_left if weights is None else y_left * weights))
    unexplained = float(fitted.residual @ fitted.residual)
    perfect = unexplained <= IN_SPAN**2 * total
    refuse_flat(parsed.outcome, 0.0, 1.0, perfect, f"the covariates and the absorbed {what}")
    k = len(names)
    absorbed = Absorbed(factors, codes, weights, k, rank, exact, 1.0 - unexplained / total, project)
    scores = _of_rows(fitted, rows.labels(), weights)
    about = About("OLS" if rows.weights is None else "WLS", parsed.outcome, f"{parsed.text} | {parsed.absorbed}")
    more = {"n_coefficients": k + rank, "dropped": rows.dropped, "absorbed": absorbed}
    return estimate_in_basis(tuple(names), fitted.params, fitted.basis.map, scores, True, about, False, **more)


def _left(project: Within, columns: FloatArray, names: list[str], what: str) -> FloatArray:
    """What the absorbed levels leave of columns; refuses those of which nothing is left, the score first."""
    left = project(columns)
    of_squares = (np.einsum("ij,ij->j", part, part) for part in (columns - columns.mean(axis=0), left, columns))
    spread, rest, size = map(np.sqrt, of_squares)
    gone = (rest <= IN_SPAN * spread) | (rest <= LAST_DIGITS * size)
    if gone[0]:
        raise ConstantScoreError(
            f"`score` must vary within levels of the absorbed {what}; {names[0]!r} does not, so that there is nothing "
            "to explain and no error bar.",
            column=names[0],
        )
    lost = [name for name, is_gone in zip(names, gone, strict=True) if is_gone]
    if lost:
        share = max(float(r / s) if s > 0 else 0.0 for r, s, g in zip(rest, spread, gone, strict=True) if g)
        raise CollinearityError(
            f"covariates must vary within levels of what is absorbed, {what}; of the spread of {listed(lost)} hardly "
            f"anything is left ({share:.0e}), too little to tell the effect from the levels. Leave such covariates "
            f"out, or do not absorb {what}.",
            column=lost[0],
            count=len(lost),
        )
    return left


# Rows that stay in an engine: least squares from sums of their numbers by (cluster, cell).


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
    keys, products = _factors(parsed, table.schema)
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
    keys, products = set[str](), dict[tuple[str, ...], tuple[str, ...]]()
    for term in terms_of(parsed.text).rhs_termlist:
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
    columns: DesignColumns = dict.fromkeys((*covariates, parsed.outcome), pd.Series(np.ones(n)))
    for name, labels in zip(cells.columns, zip(*cells.labels, strict=True), strict=True):
        column = pd.Series(list(labels))
        if pd.api.types.infer_dtype(column) == "date":  # as frames in memory have them
            column = pd.to_datetime(column)
        columns[name] = pd.Series(as_labels(for_formula(column, name, name in parsed.plain), name in parsed.whole))
    refuse_large_design(parsed, columns, n, 0)
    design = evaluated(parsed, columns)
    return design if design.cell is None else replace(design, coding=design.coding[design.cell], cell=None)


_ENDS: tuple[Literal["min", "max"], ...] = ("min", "max")


def _scales(table: Query, numbers: list[nw.Expr], names: list[str]) -> tuple[FloatArray, FloatArray]:
    """Middle and half the range of each number; one query. Refuses what is not finite or does not vary."""
    if not numbers:
        return np.zeros(0), np.zeros(0)
    ends = table.totals({f"{end}{j}": (z, end) for j, z in enumerate(numbers) for end in _ENDS})
    low, high = (np.array([ends[f"{end}{j}"] for j in range(len(numbers))]) for end in _ENDS)
    for name, z, *bounds in zip(names, numbers, low, high, strict=True):
        if not np.isfinite(bounds).all():
            count = int(table.totals({"bad": count_of(~z.is_finite())})["bad"])
            raise NonFiniteError(
                f"{TERMS} must be finite; {name!r} is missing or infinite in {count} of "
                f"{int(ends['n'])} rows in use. Leave such rows out, or change the transformation.",
                column=name,
                count=count,
            )
        refuse_extreme(np.array(bounds), name, TERMS)
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
    weight = float(sums.weight.sum())
    level = float(sums.weight @ sums.mean) / weight if design.constant >= 0 else 0.0
    centre = np.full(sums.count.size, level)
    if measured.numbers:
        M, m, squares = first_moments(measured, rows.cells, centre)
    else:
        away = sums.mean - centre
        M, m = sums.weight[:, None, None], (sums.weight * away)[:, None]
        squares = float(sums.squares.sum() + sums.weight @ away**2)
    moments = solve_moments(design, scales, level, M, m)
    if moments is None:
        names = listed(list(design.names[1:] if design.constant == 0 else design.names))
        raise CollinearityError(
            f"covariates must not determine each other; some of {names} can be computed from the others, or nearly, "
            "and sums of an engine leave no digits to tell them apart. Drop one of them; if only nearly so, subtract a "
            "typical value in the engine before products are formed, or collect the columns first.",
            column=design.names[-1],
        )
    params, T, B, fitted, parts = moments
    left = float(squares - np.sum(fitted * (2 * m - np.einsum("cij,cj->ci", M, fitted))))
    farthest = max(abs(low - level), abs(high - level))
    refuse_flat(about.outcome, low, high, left <= ROUNDING * farthest**2 * weight)
    whole, terms = fitted[:, 0] + level, _by_term(design, rows.cells, parts) if measured.numbers else ()
    if measured.numbers:
        inner = EngineScores(measured, rows.cells, sums, whole, centre, scores.weighted)
    else:  # what is known of the cells is about their own centres
        inner, fitted = replace(scores, fitted=whole), (whole - scores.centre)[:, None]
    inner = replace(inner, heaviest=rows.sums.get("heavy"))
    scores_in_basis = EngineMoments(inner, B, fitted, terms, left, np.ones(1 + len(measured.numbers)))
    unit = low >= 0 and high <= 1
    return estimate_in_basis(design.names, params, T, scores_in_basis, True, about, unit, dropped=rows.dropped)


def _by_term(design: Design, cells: CellKeys, parts: FloatArray) -> tuple[tuple[CellKeys, FloatArray], ...]:
    """The fitted values of u as a sum over sets of factors, each of the joint labels of its own columns."""
    by_factors = []
    for factors in dict.fromkeys(design.terms):
        places = [i for i, term in enumerate(design.terms) if term == factors]
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
        values = parts[:, :, places].sum(axis=2)[list(first.values())]
        by_factors.append((CellKeys(tuple(cells.columns[i] for i in columns), labels), values))
    return tuple(by_factors)
