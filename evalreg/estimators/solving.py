"""Regressions solved: in sums of cells and moments where rows are few numbers in few cells, row by row elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from evalreg.checks import FamilyName, FloatArray
from evalreg.data.clusters import Labels
from evalreg.data.formula import ParsedFormula
from evalreg.errors import CollinearityError, ConstantScoreError, ConvergenceError
from evalreg.estimate import About, Estimate, Refit
from evalreg.estimators.design import Design, evaluated, statsmodels_model
from evalreg.numerics.basis import basis_of
from evalreg.numerics.fitting import (
    PERFECT_FIT,
    ROUNDING,
    SEPARATED,
    Fitted,
    canonical,
    least_squares,
    mean_and_variance,
    residual_of,
    residuals_of,
)
from evalreg.results.bridge import shown_fit
from evalreg.scores.rows import CodedRows, MomentScores, RegressionScores, RowScores, roots, solved

# Sums of products leave rounding times the square of the condition number of the scaled columns: 1e-12 at most.
LARGEST_CONDITION = 1e2


Solution: TypeAlias = tuple[FloatArray, FloatArray, RegressionScores]
"""Coefficients, the map from the basis to them, (k, k), and scores in the basis."""


@dataclass(frozen=True, eq=False)
class ShownFit:
    """Makes the statsmodels fit that shows a regression, when it is asked for."""

    parsed: ParsedFormula
    data: pd.DataFrame
    weights: FloatArray | None
    family: FamilyName

    def __call__(self) -> Any:
        """Return the fit."""
        return self._made

    @cached_property
    def _made(self) -> Any:
        design = evaluated(self.parsed, self.data)
        if self.family == "gaussian":
            fitted = least_squares(design.rows, design.outcome, design.names, self.weights)
        else:
            fitted = canonical(design.rows, design.outcome, design.names, self.family, self.weights)
        with np.errstate(all="ignore"):
            return shown_fit(statsmodels_model(self.parsed.text, self.data, self.weights, self.family), fitted)


def solve_linear(
    design: Design, labels: Labels, weights: FloatArray | None, about: About, shown: Callable[[], Any] | None
) -> Estimate:
    """The estimate of least squares."""
    params, T, scores = _in_moments(design, labels, weights) or _row_by_row(design, labels, weights)
    low, high = float(design.outcome.min()), float(design.outcome.max())
    assert scores.residual is not None
    left, total = float(scores.residual @ scores.residual), float(design.outcome @ design.outcome)
    if low == high or left <= PERFECT_FIT**2 * total * (1.0 if weights is None else float(weights.max())):
        what = f"is {low:g} in every row" if low == high else "is determined by the covariates"
        raise ConstantScoreError(
            f"`score` must vary about its fitted values; {about.outcome!r} {what}, so that there is no error bar.",
            column=about.outcome,
        )
    about = replace(about, unit=low >= 0 and high <= 1)
    return _estimate(design.names, params, T, scores, True, about, shown)


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
    M, m = cells.sums(None, error)
    found = solve_moments(design, centre, spread, M, m)
    if found is None:
        return None
    back, A, map_, turned = found
    T, B = back @ map_, A @ map_
    _take(error, cells, B @ turned)
    # Once more takes away what rounding left.
    step = np.einsum("cj,cjk->k", cells.sums(None, error, False)[1], B)
    if np.max(np.abs(step)) > ROUNDING * float(np.linalg.norm(turned)):
        _take(error, cells, B @ step)
    turned = turned + step
    _clear_rounding(error, design.outcome, cells, B @ turned)
    params = T @ turned
    if constant >= 0:
        params[constant] += level
    residual = error if weights is None else error * np.sqrt(weights)
    if weights is None or not np.all(weights == weights[0]):
        return params, T, MomentScores(cells, error, B, labels, residual, weights)
    # Weights that are all alike are in the scores, and count for nothing else.
    alike = replace(cells, weights=None)
    return params, T, MomentScores(alike, residual, B * np.sqrt(weights[0]), labels, residual, None)


def solve_moments(
    design: Design, centre: FloatArray, spread: FloatArray, M: FloatArray, m: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None:
    """Least squares from the sums of w u u' and of w u y by cell, by statsmodels on rows that have these squares.

    What takes coefficients of centred columns to those of the design's own, (k, k); what these columns are of u in each
    cell, (n_cells, K, k); what maps the basis to them, (k, k); and coefficients in the basis, (k,). None where the
    condition of the columns is too large for sums of products, or infinite.
    """
    A, back = _in_parts(design, centre, spread)
    R = roots(M)
    try:
        basis = basis_of((R @ A).reshape(-1, A.shape[2]), design.names)
    except CollinearityError:
        return None
    if basis.condition > LARGEST_CONDITION:
        return None
    turned, _ = residuals_of(basis, solved(R, m).ravel())
    return back, A, basis.map, turned


def _take(error: FloatArray, cells: CodedRows, maps: FloatArray) -> None:
    """Subtract u'F_c of each row, in place."""
    for rows in cells.blocks():
        error[rows] -= cells.combined(rows, maps)


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


def _clear_rounding(error: FloatArray, outcome: FloatArray, cells: CodedRows, maps: FloatArray) -> None:
    """Set residuals that are rounding of their row's terms to zero, so that no variance is made of them."""
    size = np.abs(error)
    largest = max(float(size.max()), float(np.abs(outcome).max()))
    small = np.flatnonzero(size <= ROUNDING * largest)
    if not small.size:
        return
    some = replace(
        cells,
        n_rows=small.size,
        cell=None if cells.cell is None else cells.cell[small],
        numbers=tuple(number[small] for number in cells.numbers),
    )
    terms = np.abs(outcome[small]) + sum(
        np.abs(some.combined(slice(None), np.where(np.arange(maps.shape[1]) == j, maps, 0.0)))
        for j in range(maps.shape[1])
    )
    error[small[size[small] <= ROUNDING * terms]] = 0.0


def solve_glm(
    design: Design,
    labels: Labels,
    weights: FloatArray | None,
    family: FamilyName,
    about: About,
    shown: Callable[[], Any] | None,
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
    unit = bool(design.outcome.min() >= 0 and design.outcome.max() <= 1)
    return _estimate(design.names, fitted.params, fitted.basis.map, scores, False, replace(about, unit=unit), shown)


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
    own = None if weights is None or np.all(weights == weights[0]) else weights
    return RowScores(fitted.scores, labels, fitted.basis.rows, fitted.residual, own)


def _estimate(
    names: tuple[str, ...],
    params: FloatArray,
    T: FloatArray,
    scores: RegressionScores,
    linear: bool,
    about: About,
    shown: Callable[[], Any] | None,
) -> Estimate:
    """The estimate whose scores are those of an orthonormal basis, which the bread maps to the coefficients."""
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
        about=about,
        fitted=shown,
    )
