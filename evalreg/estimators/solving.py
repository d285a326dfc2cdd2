"""Regressions solved: in sums of cells and moments where rows are few numbers in few cells, row by row elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from evalreg.checks import FamilyName, FloatArray, IntArray, listed
from evalreg.data.clusters import Axis, Labels, axis_name
from evalreg.data.designs import levels_of
from evalreg.data.formula import ParsedFormula
from evalreg.data.frame import refuse_extreme
from evalreg.data.rows import ReadRows
from evalreg.errors import CollinearityError, ConstantScoreError, ConvergenceError, DataError, FormulaError
from evalreg.estimate import About, Estimate, Refit
from evalreg.estimators.design import Design, evaluated, statsmodels_model
from evalreg.numerics.basis import Partition, basis_of, redundant_levels, within
from evalreg.numerics.fitting import (
    SEPARATED,
    Fitted,
    canonical,
    least_squares,
    mean_and_variance,
    residual_of,
    residuals_of,
    without_rounding,
)
from evalreg.numerics.limits import IN_SPAN, LAST_DIGITS, ROUNDING, SQUARED_CONDITION
from evalreg.results.bridge import shown_fit
from evalreg.scores.base import Scores
from evalreg.scores.rows import Absorbed, CodedRows, MomentScores, RegressionScores, RowScores, roots, solved

Solution: TypeAlias = tuple[FloatArray, FloatArray, RegressionScores]
"""Coefficients, the map from the basis to them, (k, k), and scores in the basis."""


def shown(parsed: ParsedFormula, data: pd.DataFrame, weights: FloatArray | None, family: FamilyName) -> Any:
    """The statsmodels fit that shows a regression."""
    design = evaluated(parsed, data)
    if family == "gaussian":
        fitted = least_squares(design.rows, design.outcome, design.names, weights)
    else:
        fitted = canonical(design.rows, design.outcome, design.names, family, weights)
    with np.errstate(all="ignore"):
        return shown_fit(statsmodels_model(parsed.text, data, weights, family), fitted)


def solve_linear(design: Design, labels: Labels, weights: FloatArray | None, about: About) -> Estimate:
    """The estimate of least squares."""
    params, T, scores = _in_moments(design, labels, weights) or _row_by_row(design, labels, weights)
    low, high = float(design.outcome.min()), float(design.outcome.max())
    assert scores.residual is not None
    left, total = float(scores.residual @ scores.residual), float(design.outcome @ design.outcome)
    perfect = left <= ROUNDING**2 * total * (1.0 if weights is None else float(weights.max()))
    refuse_flat(about.outcome, low, high, perfect)
    return estimate_in_basis(design.names, params, T, scores, True, about, (low, high))


def refuse_flat(outcome: str, low: float, high: float, perfect: bool, what: str = "the covariates") -> None:
    """Raise where the score does not vary, or not about its fitted values."""
    if low == high or perfect:
        is_so = f"is {low:g} in every row" if low == high else f"is determined by {what}"
        raise ConstantScoreError(
            f"`score` must vary about its fitted values; {outcome!r} {is_so}, so that there is no error bar.",
            column=outcome,
        )


def _row_by_row(design: Design, labels: Labels, weights: FloatArray | None) -> Solution:
    fitted = least_squares(design.rows, design.outcome, design.names, weights)
    return fitted.params, fitted.basis.map, _of_rows(fitted, labels, weights)


def _in_moments(design: Design, labels: Labels, weights: FloatArray | None) -> Solution | None:
    """Coefficients, the map from the basis to them, and scores, from sums of cells; None where rows are needed."""
    n, n_cells, K = design.outcome.size, design.coding.shape[0], len(design.numbers) + 1
    if 2 * n_cells * K > n:
        return None
    ends = [(float(number.min()), float(number.max())) for number in design.numbers]
    centre = np.array([float(number.mean()) for number in design.numbers])
    spread = np.array([(high - low) / 2 for low, high in ends])
    if not np.all(spread > 0):
        return None
    scaled = tuple((z - c) / s for z, c, s in zip(design.numbers, centre, spread, strict=True))
    cells = CodedRows(n, design.cell, n_cells, scaled, weights)
    # Where there is a constant, it takes the mean of the scores.
    constant = design.constant
    level = float(design.outcome.mean()) if constant >= 0 else 0.0
    error = design.outcome - level
    moved = solve_moments(design, centre, spread, *cells.sums(None, error))
    if moved is None:
        return None
    T, A, map_, turned = moved
    B = A @ map_
    F = B @ turned
    for rows in cells.blocks():
        error[rows] -= cells.combined(rows, F)

    def terms(rows: IntArray) -> FloatArray:
        u = np.column_stack([np.ones(rows.size), *(number[rows] for number in scaled)])
        return np.asarray(np.abs(u * F[0 if design.cell is None else design.cell[rows]]).sum(axis=1))

    error = without_rounding(error, design.outcome, terms)
    params = T @ turned
    if constant >= 0:
        params[constant] += level
    residual = error if weights is None else error * np.sqrt(weights)
    return params, T, MomentScores(cells, error, B, labels, residual, weights)


def solve_moments(
    design: Design, centre: FloatArray, spread: FloatArray, M: FloatArray, m: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None:
    """Least squares from the sums of w u u' and of w u y by cell, by statsmodels on rows that have these squares.

    What maps the basis to coefficients of the design's own columns, (k, k); what centred columns are of u in each cell,
    (n_cells, K, k); what maps the basis to these, (k, k); and coefficients in the basis, (k,). None where the condition
    of the columns is too large for sums of products, or infinite.
    """
    A, back = _in_parts(design, centre, spread)
    R = roots(M)
    try:
        basis = basis_of((R @ A).reshape(-1, A.shape[2]), design.names)
    except CollinearityError:
        return None
    if basis.condition > SQUARED_CONDITION:
        return None
    turned, _ = residuals_of(basis, solved(R, m).ravel())
    # Once more takes away what rounding left.
    B = A @ basis.map
    turned = turned + np.einsum("cj,cjk->k", m - np.einsum("cij,cj->ci", M, B @ turned), B)
    return back @ basis.map, A, basis.map, turned


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
        own = plain.get(np.ascontiguousarray(codes).tobytes())
        if own is None:
            A[:, 0, i] = codes * centre[part - 1]
        else:
            back[own, i] = -centre[part - 1]
    return A, back


def solve_glm(
    design: Design,
    labels: Labels,
    weights: FloatArray | None,
    family: FamilyName,
    about: About,
) -> Estimate:
    """The estimate of a GLM with its canonical link; of factors alone from the means of the cells."""
    n, n_cells = design.outcome.size, design.coding.shape[0]
    if design.cell is None or design.numbers or 2 * n_cells > n:
        fitted = _solved_glm(design.rows, design.outcome, design.names, family, weights, about.formula)
        scores: RegressionScores = _of_rows(fitted, labels, weights)
    else:
        weight = np.bincount(design.cell, weights, n_cells).astype(np.float64)
        weighted = design.outcome if weights is None else design.outcome * weights
        means = np.bincount(design.cell, weighted, n_cells) / weight
        fitted = _solved_glm(design.coding, means, design.names, family, weight, about.formula)
        assert fitted.index is not None
        root = np.sqrt(mean_and_variance(fitted.index, family)[1])
        error = residual_of(design.outcome, fitted.index[design.cell], family) / root[design.cell]
        cells = CodedRows(n, design.cell, n_cells, (), weights)
        scores = MomentScores(
            cells, error, (fitted.basis.rows / np.sqrt(weight)[:, None])[:, None], labels, None, weights
        )
    ends = float(design.outcome.min()), float(design.outcome.max())
    return estimate_in_basis(design.names, fitted.params, fitted.basis.map, scores, False, about, ends)


def _solved_glm(
    rows: FloatArray,
    outcome: FloatArray,
    names: tuple[str, ...],
    family: FamilyName,
    weights: FloatArray | None,
    formula: str,
) -> Fitted:
    try:
        fitted = canonical(rows, outcome, names, family, weights)
    except ConvergenceError:
        fitted = None
    if fitted is None or _is_separated(fitted, family):
        raise ConvergenceError(
            f"the covariates of {formula!r} separate the outcomes perfectly, or predict some with certainty, so that "
            "no finite estimate exists. Drop the covariate or level that separates them, or use family='gaussian'."
        )
    return fitted


def _is_separated(fitted: Fitted, family: FamilyName) -> bool:
    """Whether a coefficient rests on rows that are fitted without error alone: it would grow without bound."""
    assert fitted.index is not None
    variance = mean_and_variance(fitted.index, family)[1]
    inside = variance > SEPARATED * variance.max()
    if inside.all():
        return False
    part = fitted.basis.rows[inside]
    return bool(np.linalg.matrix_rank(part.T @ part, hermitian=True) < part.shape[1])


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
    ends: tuple[float, float],
) -> Estimate:
    """The estimate whose scores are those of an orthonormal basis, which the bread maps to the coefficients.

    `ends` are the smallest and the largest score.
    """
    k = len(names)
    return Estimate(
        names=names,
        params=params,
        scores=scores,
        bread=T.T,
        kind="least squares" if linear else "likelihood",
        n_coefficients=k,
        coefficient_map=T,
        refit=Refit(np.eye(k), linear=linear),
        about=replace(about, unit=ends[0] >= 0 and ends[1] <= 1),
    )


# Absorbed factors: their levels are taken out of the score and the covariates, and never solved for.


def solve_absorbed(design: Design, rows: ReadRows, factors: tuple[Axis, ...], parsed: ParsedFormula) -> Estimate:
    """The estimate from the score and the design of the formula before the bar, with its constant.

    By Frisch, Waugh and Lovell the coefficients are those of the regression on dummies of the levels.
    """
    codes, weights, y = levels_of(rows, factors), unequal(rows.weights), design.outcome
    places = [i for i, name in enumerate(design.names) if name != "Intercept"]
    names, X = [design.names[i] for i in places], design.rows[:, places]
    refuse_extreme(y, parsed.outcome, "scores")
    partitions = [Partition(one.codes, one.n_clusters) for one in codes]
    project = within(partitions, weights)
    n_redundant, exact = redundant_levels(partitions, project)
    rank = sum(one.n_clusters for one in codes) - n_redundant
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
    columns = np.column_stack([y, X])
    left = project(columns)
    _check_left(columns, left, [parsed.outcome, *names], what)
    y_left, X_left = left[:, 0], np.ascontiguousarray(left[:, 1:])
    fitted = least_squares(X_left, y_left, names, weights)
    assert fitted.residual is not None
    total = float(y_left @ (y_left if weights is None else y_left * weights))
    unexplained = float(fitted.residual @ fitted.residual)
    perfect = unexplained <= IN_SPAN**2 * total
    refuse_flat(parsed.outcome, 0.0, 1.0, perfect, f"the covariates and the absorbed {what}")
    k = len(names)
    absorbed = Absorbed(factors, codes, weights, k, rank, exact, 1.0 - unexplained / total, project)
    scores = _of_rows(fitted, rows.labels(), weights)
    about = About("OLS" if rows.weights is None else "WLS", parsed.outcome, f"{parsed.text} | {parsed.absorbed}")
    estimate = estimate_in_basis(tuple(names), fitted.params, fitted.basis.map, scores, True, about, (-1.0, 1.0))
    return replace(estimate, n_coefficients=k + rank, dropped=rows.dropped, absorbed=absorbed)


def _check_left(columns: FloatArray, left: FloatArray, names: list[str], what: str) -> None:
    """Refuse columns of which the absorbed levels leave nothing, the score first."""
    spread = np.linalg.norm(columns - columns.mean(axis=0), axis=0)
    rest = np.linalg.norm(left, axis=0)
    gone = (rest <= IN_SPAN * spread) | (rest <= LAST_DIGITS * np.linalg.norm(columns, axis=0))
    if gone[0]:
        raise ConstantScoreError(
            f"`score` must vary within levels of the absorbed {what}; {names[0]!r} does not, so that there is nothing "
            "to explain and no error bar.",
            column=names[0],
        )
    lost = [name for name, is_gone in zip(names, gone, strict=True) if is_gone]
    if lost:
        share = max(float(r / s) if s > 0 else 0.0 for r, s, g in zip(rest, spread, gone, strict=True) if g)
        one = len(lost) == 1
        raise CollinearityError(
            f"covariates must vary within levels of what is absorbed; {listed(lost)} {'does' if one else 'do'} not "
            f"vary within {what} (what is left is {share:.0e} of {'its' if one else 'their'} spread), so that "
            f"{'its coefficient' if one else 'their coefficients'} cannot be told from the levels. Leave "
            f"{'it' if one else 'them'} out, or do not absorb {what}.",
            column=lost[0],
            count=len(lost),
        )
