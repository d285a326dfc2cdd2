"""Regressions with absorbed factors: their levels are taken out of the score and the covariates, and never solved for.

By Frisch, Waugh and Lovell the coefficients are those of the regression on dummies of the levels.
"""

from __future__ import annotations

import numpy as np

from evalreg.checks import FloatArray, listed
from evalreg.data.clusters import axis_name
from evalreg.data.designs import AbsorbedRows
from evalreg.data.formula import ParsedFormula
from evalreg.data.frame import refuse_extreme
from evalreg.errors import CollinearityError, ConstantScoreError, DataError, FormulaError
from evalreg.estimate import About, Estimate, Refit
from evalreg.numerics.basis import Partition, redundant_levels, within
from evalreg.numerics.fitting import least_squares
from evalreg.scores.rows import Absorbed, RowScores

# What is left of a column below this fraction of its spread is rounding, or too little to be told from it.
NOTHING_LEFT = 1e-9
# Values are rounded to this fraction of their size.
ROUNDED = 1e-14


def solve_absorbed(
    outcome: FloatArray, design: FloatArray, columns: list[str], read: AbsorbedRows, parsed: ParsedFormula
) -> Estimate:
    """The estimate from the score and the design of the formula before the bar, with its constant."""
    factors, codes, weights = read.factors, read.codes, read.rows.weights
    places = [i for i, name in enumerate(columns) if name != "Intercept"]
    names, X, y = [columns[i] for i in places], design[:, places], np.asarray(outcome, dtype=np.float64)
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
    _check_rows(y.size, len(names), rank, what)
    left = project(np.column_stack([y, X]))
    _check_left(np.column_stack([y, X]), left, [parsed.outcome, *names], what)
    y_left, X_left = left[:, 0], np.ascontiguousarray(left[:, 1:])
    fitted = least_squares(X_left, y_left, names, weights)
    assert fitted.residual is not None
    total = float(y_left @ (y_left if weights is None else y_left * weights))
    unexplained = float(fitted.residual @ fitted.residual)
    if unexplained <= NOTHING_LEFT**2 * total:
        raise ConstantScoreError(
            f"`score` must vary about its fitted values; {parsed.outcome!r} is determined by the covariates and the "
            f"absorbed {what}, so that there is no error bar.",
            column=parsed.outcome,
        )
    k = len(names)
    absorbed = Absorbed(factors, codes, weights, k, rank, exact, 1.0 - unexplained / total, project)
    return Estimate(
        names=tuple(names),
        params=fitted.params,
        scores=RowScores(fitted.scores, read.rows.labels(), fitted.basis.rows, fitted.residual, _unequal(weights)),
        bread=fitted.basis.map.T,
        kind="least squares",
        n_coefficients=k + rank,
        coefficient_map=fitted.basis.map,
        refit=Refit(np.eye(k)),
        about=About("OLS" if weights is None else "WLS", parsed.outcome, f"{parsed.text} | {parsed.absorbed}"),
        dropped=read.rows.dropped,
        absorbed=absorbed,
    )


def _unequal(weights: FloatArray | None) -> FloatArray | None:
    return None if weights is None or np.all(weights == weights[0]) else weights


def _check_rows(n: int, k: int, rank: int, what: str) -> None:
    if n <= k + rank:
        raise DataError(
            f"there must be more rows than coefficients; got {n} rows for {k} coefficients and {rank} levels of the "
            f"absorbed {what}. Absorb something coarser, or leave it out.",
            count=n,
        )


def _check_left(columns: FloatArray, left: FloatArray, names: list[str], what: str) -> None:
    """Refuse columns of which the absorbed levels leave nothing, the score first."""
    spread = np.linalg.norm(columns - columns.mean(axis=0), axis=0)
    rest = np.linalg.norm(left, axis=0)
    gone = (rest <= NOTHING_LEFT * spread) | (rest <= ROUNDED * np.linalg.norm(columns, axis=0))
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
