"""Regressions of rows that stay in an engine: factors make cells, numbers are summed within cluster and cell.

A row's design is x = A'u, where u holds 1 and the numbers that the row has beside its cell, and A the codes of the
factors of that cell. So X_g'WX_g and the scores of a cluster follow from the sums of w u u' and w y u of its cells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evalreg.checks import FloatArray, MissingName, listed
from evalreg.covariance.options import CovOptions, takes_each_cluster
from evalreg.data.clusters import union
from evalreg.data.engine import LazyTable, schema_of
from evalreg.data.engine_design import VALUE, DesignRoles, DesignRows, read_design_in_engine
from evalreg.data.formula import ParsedFormula
from evalreg.data.groups import Groups
from evalreg.errors import CollinearityError, ConstantScoreError, DataError
from evalreg.estimate import About, Estimate, Refit
from evalreg.estimators.cell_design import (
    CellDesign,
    coded_cells,
    key_columns,
    numbers_of,
    refuse_in_memory_only,
    score_of,
)
from evalreg.estimators.engine_squares import cell_powers, squared_residuals
from evalreg.numerics.basis import basis_of
from evalreg.numerics.fitting import PERFECT_FIT
from evalreg.results.results import Results, results_of
from evalreg.scores.lazy import LazyScores
from evalreg.scores.lazy_sums import product_places
from evalreg.scores.mapped import Information, MappedScores
from evalreg.scores.sums import CellSums

# Squares and products lose twice the digits that columns lose: beyond this, fewer than six are left.
WORST_CONDITION = 1e5


@dataclass(frozen=True, eq=False)
class CellFit:
    """Least squares from the sums of the cells.

    Parameters
    ----------
    coefficients : ndarray, shape (k,)
        Of the design's columns without their shifts.
    fitted : ndarray, shape (n_cells, n_parts + 1)
        Fitted values, less the centre of the scores, as coefficients of 1 and of the parts.
    map : ndarray, shape (k, k)
        From coefficients of the basis to those of the design's columns without their shifts.
    turned : ndarray, shape (n_cells, n_parts + 1, k)
        The design in the basis.
    centre : float
        What was taken from the scores, and is in the constant.
    """

    coefficients: FloatArray
    fitted: FloatArray
    map: FloatArray
    turned: FloatArray
    centre: float


def fit_in_engine(
    parsed: ParsedFormula,
    table: LazyTable,
    columns: tuple[tuple[str, ...], tuple[str, ...]],
    groups: Groups,
    weights: Any,
    family: Any,
    missing: MissingName,
    asked: CovOptions,
) -> Results:
    """The regression on covariates of rows that stay in an engine."""
    refuse_in_memory_only(parsed, columns, weights, family)
    schema = schema_of(table.frame)
    factors, numbers, products = numbers_of(parsed, schema)
    score = score_of(parsed, table, columns[0], schema)
    # A column may stand on both sides.
    keys = tuple(name for name in parsed.covariate_names if name in key_columns(parsed, factors))
    roles = DesignRoles(parsed.outcome, score, *columns, keys, numbers, products, weights, missing)
    rows, roles = read_design_in_engine(table, roles, groups)
    design = coded_cells(parsed, rows, factors, tuple(products))
    method = "OLS" if weights is None else "WLS"
    by_cluster = rows.axes is not None and takes_each_cluster(asked)
    about = About(method, parsed.outcome, parsed.text)
    return results_of(_solve(rows, design, roles, about, by_cluster), rows.axes, asked)


def _solve(rows: DesignRows, design: CellDesign, roles: DesignRoles, about: About, by_cluster: bool) -> Estimate:
    """The estimate of the sums of the cells; `by_cluster` says that a covariance is made of a matrix of each."""
    n, k, K = int(rows.count.sum()), len(design.names), len(rows.parts) + 1
    low, high = float(rows.low.min() + rows.centre), float(rows.high.max() + rows.centre)
    if n <= k:
        raise DataError(f"there must be more rows than coefficients; got {n} rows and {k} coefficients.", count=n)
    if low == high:
        raise _constant(roles.outcome, f"is {low:g} in every row")
    powers = cell_powers(rows, roles) if K == 1 else None
    scores = _scores(rows, roles, K, k, rows.total if powers is None else powers.wv)
    solved = _least_squares(rows, design, *scores.totals_by_cell(rows.axes or ()))
    if powers is not None:
        squared, left = powers.squares_about(solved.fitted[:, 0], rows, roles.weights is not None)
    else:
        squared, left = squared_residuals(rows, roles, design, solved.fitted, solved.coefficients)
    if left <= PERFECT_FIT**2 * (max(abs(low), abs(high)) ** 2 * float(rows.weight.sum())):
        raise _constant(roles.outcome, "is determined by the covariates")
    back, level = np.eye(k), np.zeros(k)
    if design.constant >= 0:
        back[design.constant] -= design.shift
        level[design.constant] = solved.centre
    flat = solved.turned.reshape(-1, k)
    inner = replace(scores, fitted=solved.fitted, squared=squared, left=left)
    return Estimate(
        names=design.names,
        params=back @ solved.coefficients + level,
        scores=MappedScores(inner, flat, information=_information(solved.turned)),
        bread=(back @ solved.map).T,
        kind="least squares",
        n_coefficients=k,
        coefficient_map=back @ solved.map,
        refit=Refit(np.eye(k)),
        dropped=rows.dropped,
        about=replace(about, unit=low >= 0 and high <= 1),
    )


def _least_squares(rows: DesignRows, design: CellDesign, totals: FloatArray, weights: FloatArray) -> CellFit:
    """Coefficients from sums of w u y and of w u u' of the cells, in an orthonormal basis."""
    K, k = totals.shape[1], len(design.names)
    gram = weights[:, product_places(K)]
    # Scores less their mean, which the constant takes.
    centre = rows.centre if design.constant >= 0 else 0.0
    totals = totals + (rows.centre - centre) * gram[:, :, 0]
    T, B = _basis(design, gram)
    flat = B.reshape(-1, k)
    turned = flat.T @ totals.ravel()
    # Once more takes away what rounding left.
    rest = totals - np.einsum("cij,cj->ci", gram, B @ turned)
    turned = turned + flat.T @ rest.ravel()
    fitted = B @ turned
    fitted[:, 0] -= rows.centre - centre
    return CellFit(T @ turned, fitted, T, B, centre)


def _constant(outcome: str, what: str) -> ConstantScoreError:
    return ConstantScoreError(
        f"`score` must vary about its fitted values; {outcome!r} {what}, so that there is no error bar.",
        column=outcome,
    )


def _scores(rows: DesignRows, roles: DesignRoles, K: int, k: int, total: FloatArray) -> LazyScores:
    """Scores of the rows in their cells, nothing fitted yet."""
    none = np.zeros(rows.count.size)
    # Rounding of sums is measured by the size of the scores as they are, and of the centre taken from them: scores of a
    # cell may all be zero.
    low, high = np.minimum(rows.low, 0.0) + rows.centre, np.maximum(rows.high, 0.0) + rows.centre
    sums = CellSums(rows.count, rows.weight, total, none, low, high)
    return LazyScores(
        rows.table,
        VALUE,
        roles.keys,
        rows.codes,
        np.zeros((rows.count.size, K)),
        sums,
        roles.weights,
        heaviest=rows.heaviest[:, 0] ** 2,
        rooted=True,
        parts=rows.parts,
        multiplied=rows.multiplied,
        reach=rows.heaviest,
        jointly=union(*(rows.axes or ())),
        cell_labels={name: rows.labels[name].tolist() for name in rows.labels.columns},
    )


def _basis(design: CellDesign, gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    """T, which makes the columns of the design orthonormal, and A T in each cell, shape (n_cells, K, k)."""
    coded = design.coded
    n_cells, K, k = coded.shape
    if K == 1:
        weight = gram[:, 0, 0]
        basis = basis_of(coded[:, 0], design.names, weight)
        return basis.map, (basis.rows / np.sqrt(weight)[:, None])[:, None]
    # Parts may be of very different sizes, of which eigenvalues would keep the digits of the largest.
    size = np.sqrt(np.einsum("cii->ci", gram))
    size[size == 0] = 1.0
    values, axes = np.linalg.eigh(gram / (size[:, :, None] * size[:, None, :]))
    root = np.sqrt(values.clip(0.0))[:, :, None] * axes.transpose(0, 2, 1) * size[:, None, :]
    basis = basis_of((root @ coded).reshape(n_cells * K, k), design.names)
    if basis.condition > WORST_CONDITION:
        columns = (root @ coded).reshape(n_cells * K, k)
        distance = np.abs(np.diag(np.linalg.qr(columns / np.linalg.norm(columns, axis=0), mode="r")))
        near = [name for name, one in zip(design.names, distance, strict=True) if one * WORST_CONDITION < k]
        raise CollinearityError(
            f"covariates must not determine each other; {listed(near or list(design.names))} can be computed from the "
            f"other columns of the design, or nearly (condition number {basis.condition:.0e}; sums of squares from an "
            f"engine leave too few digits above {WORST_CONDITION:.0e}). Drop {'it' if len(near) == 1 else 'them'}; if "
            "only nearly so, subtract a typical value before powers and products are formed, as in "
            '"I((x - 5000) ** 2)", or collect the frame first.',
            column=(near or list(design.names))[0],
            count=len(near),
        )
    return basis.map, coded @ basis.map


def _information(B: FloatArray) -> Information:
    """What w u_i u_j of a row adds to X'WX, flattened, for i <= j: shape (n_cells * n_products, k ** 2)."""
    n_cells, K, k = B.shape
    upper = np.triu_indices(K)
    made = np.einsum("cpj,cpl->cpjl", B[:, upper[0]], B[:, upper[1]])
    both = np.where((upper[0] != upper[1])[None, :, None, None], made + made.transpose(0, 1, 3, 2), made)
    return Information(both.reshape(n_cells * upper[0].size, k * k), B[:, 0] if K == 1 else None)
