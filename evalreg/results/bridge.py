"""A statsmodels result to and from Estimate + Covariance."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, listed
from evalreg.data.clusters import Codes, Labels, factorize, no_source, used_codes
from evalreg.data.frame import align_labels, held_pandas
from evalreg.errors import AlignmentError, ArgumentTypeError, CollinearityError, ConvergenceError, NotAvailableError
from evalreg.estimate import About, Estimate, Refit
from evalreg.numerics.basis import basis_of
from evalreg.numerics.fitting import ROUNDING, Fitted, residuals_of
from evalreg.scores.rows import RowScores

# A fit that is off by more than this many standard errors is not the one that its model asks for.
OFF = 1e-3
# Information whose smallest eigenvalue is this fraction of its largest, coefficients scaled, determines too little.
SINGULAR = 1e-13
# Likewise for squares and products of columns of norm 1: a condition number of the columns of 1e6.
SINGULAR_GRAM = 1e-12
# A likelihood fit with columns of so different scales, whose scores add up to few standard errors, is polished by
# Newton steps.
NEARLY = 0.1
POLISHED = 1e-11
UNLIKE = 1e4
MOST_POLISH = 5
# Scores of a maximum-likelihood fit sum to zero; this much of their size is left by the optimiser.
SCORE_SUM = 1e-3


@dataclass(frozen=True, eq=False)
class FittedRows:
    """The rows of a fitted statsmodels model; the source of its labels.

    Parameters
    ----------
    frame : DataFrame, optional
        The data of a formula model, all rows, as they were when the model was fitted.
    row_labels : Index, optional
        Index of the rows in use.
    keep : ndarray of bool, optional
        Rows of the data in use, where some had missing values.
    n_rows : int
        Rows in use.
    changed : bool
        Whether the data are no longer those that were fitted, so that only the names of their columns are known.
    """

    frame: pd.DataFrame | None
    row_labels: pd.Index | None
    keep: BoolArray | None
    n_rows: int
    changed: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data."""
        return () if self.frame is None else tuple(str(name) for name in self.frame.columns)

    def positions(self) -> IntArray:
        """Positions of the rows in use in the data."""
        return np.arange(self.n_rows) if self.keep is None else np.flatnonzero(self.keep)

    def codes(self, column: str) -> Codes:
        """Codes of a column on the rows in use."""
        if self.frame is None:
            raise no_source(column, ())
        if self.changed:
            raise AlignmentError(
                "the data frame of the fitted statsmodels model has other rows, or rows in another order, than when it "
                f"was fitted, so that labels of {column!r} cannot be matched. Fit the model again, or pass the labels "
                "as an array in the order of the rows that were fitted.",
                column=column,
            )
        labels = self.frame[column]
        return used_codes(column, *factorize(labels if self.keep is None else labels[self.keep]))

    def align(self, name: str, labels: Any) -> Codes:
        """Codes of an array (by length, of the rows in use or of all) or a Series (by index)."""
        if isinstance(labels, pd.Series) and self.row_labels is not None and self.row_labels.isin(labels.index).all():
            labels = labels.loc[self.row_labels] if labels.index.is_unique else labels
        if self.keep is not None and len(labels) == self.keep.size:
            labels = labels[self.keep]
        return used_codes(name, *factorize(align_labels(name, labels, self.n_rows, self.row_labels)))


def from_statsmodels(result: Any) -> Estimate:
    """The Estimate of a fitted statsmodels model.

    Parameters
    ----------
    result : statsmodels results
        Of OLS, WLS, GLS, GLM, or any likelihood model with `score_obs` and `hessian`.

    Returns
    -------
    Estimate
        Least squares and models whose Hessian has the form X'WX keep what CR2 and CR3 need. Where columns differ so
        much in scale that the fit lost digits, the parameters are those that the model asks for, not those of the fit.

    Raises
    ------
    ArgumentTypeError
        If it is not a fitted statsmodels model.
    NotAvailableError
        If the model has no scores or no Hessian, or the scores do not sum to zero (a penalised fit, or least squares
        that are more than 0.001 standard errors off).
    CollinearityError
        If columns determine each other.
    ConvergenceError
        If the fit did not converge.

    Examples
    --------
    >>> import evalreg as er, statsmodels.formula.api as smf
    >>> log = er.datasets.passages(n_passages=30, seed=2)
    >>> fitted = smf.logit("score ~ n_words", log).fit(disp=False)
    >>> er.infer(er.from_statsmodels(fitted), groups="passage").n_clusters
    {'passage': 30}
    """
    model, params = getattr(result, "model", None), getattr(result, "params", None)
    if model is None or params is None or not hasattr(model, "data"):
        raise ArgumentTypeError(f"`result` must be a fitted statsmodels model; got {type(result).__name__}.")
    refuse_unconverged(result)
    estimate = estimate_of(result)
    values = estimate.scores.full_scores()
    if values is not None:
        _refuse_nonzero(values, model)
    return estimate


def estimate_of(result: Any) -> Estimate:
    """The Estimate of a fit that is known to solve its estimating equations.

    Parameters
    ----------
    result : statsmodels results
        Of least squares or a likelihood model.

    Returns
    -------
    Estimate
        As `from_statsmodels` gives it, which checks first.

    Raises
    ------
    NotAvailableError
        If the model has no scores or no Hessian.
    """
    from statsmodels.regression.linear_model import GLS, WLS

    model = result.model
    labels = _labels_of(model, int(model.endog.shape[0]))
    if isinstance(model, GLS | WLS) and hasattr(result, "wresid"):
        return replace(_least_squares(result, model, labels), fitted=HeldFit(result))
    if not hasattr(model, "score_obs") or not hasattr(model, "hessian"):
        raise NotAvailableError(
            f"{type(model).__name__} has no scores of rows (`score_obs`) or no `hessian`, which a sandwich needs."
        )
    return replace(_likelihood(result, model, labels), fitted=HeldFit(result))


@dataclass(frozen=True, eq=False)
class HeldFit:
    """The statsmodels fit that an estimate was made from.

    Parameters
    ----------
    fitted : statsmodels results
        The user's object, which stays as it is.
    """

    fitted: Any

    def __call__(self) -> Any:
        """Return the fit."""
        return self.fitted


def refuse_unconverged(result: Any) -> None:
    """Raise if a fit says that it did not converge.

    Parameters
    ----------
    result : statsmodels results
        The fit.

    Raises
    ------
    ConvergenceError
        If it did not converge.
    """
    returned = getattr(result, "mle_retvals", None)
    converged = returned.get("converged", True) if isinstance(returned, dict) else getattr(result, "converged", True)
    if not converged:
        raise ConvergenceError(
            f"{type(result.model).__name__} did not converge, so its scores do not sum to zero. Fit it again with more "
            "iterations or another method, or drop covariates that separate the outcomes."
        )


def refuse_singular(gram: FloatArray, names: list[str]) -> None:
    """Raise if columns of a design determine each other, from their squares and products.

    Parameters
    ----------
    gram : ndarray, shape (k, k)
        X'X.
    names : list of str
        Names of the columns.

    Raises
    ------
    CollinearityError
        If the rank is below k.
    """
    scale = np.sqrt(np.diag(gram))
    unit = np.where(scale > 0, scale, 1.0)
    gram = gram / np.outer(unit, unit)
    rank, k = int(np.linalg.matrix_rank(gram, tol=SINGULAR_GRAM, hermitian=True)), gram.shape[0]
    if rank == k:
        return
    kept: list[int] = []
    for j in range(k):
        trial = np.ix_([*kept, j], [*kept, j])
        if np.linalg.matrix_rank(gram[trial], tol=SINGULAR_GRAM, hermitian=True) > len(kept):
            kept.append(j)
    named = [str(names[j]) for j in range(k) if j not in kept]
    raise CollinearityError(
        f"covariates must not determine each other; {k} columns of the design have rank {rank}, and {listed(named)} "
        f"can be computed from the others. Drop {'it' if len(named) == 1 else 'them'}.",
        column=named[0],
        count=k - rank,
    )


def _labels_of(model: Any, n_rows: int) -> Labels:
    data = model.data
    dropped = getattr(data, "missing_row_idx", None)
    frame = getattr(data, "frame", None)
    keep = None
    if dropped is not None and len(dropped):
        keep = np.ones(n_rows + len(dropped), dtype=bool)
        keep[np.asarray(dropped)] = False
    row_labels = getattr(data, "row_labels", None)
    index = row_labels if isinstance(row_labels, pd.Index) and len(row_labels) == n_rows else None
    if not isinstance(frame, pd.DataFrame):
        return Labels(n_rows, {}, FittedRows(None, index, keep, n_rows))
    changed = not _is_as_fitted(frame, model, index, keep)
    return Labels(n_rows, {}, FittedRows(held_pandas(frame), index, keep, n_rows, changed))


def _is_as_fitted(frame: pd.DataFrame, model: Any, index: pd.Index | None, keep: BoolArray | None) -> bool:
    """Whether a frame still has the rows that a model was fitted to, in their order: statsmodels holds the caller's."""
    values = np.asarray(model.endog)
    if len(frame) != (values.shape[0] if keep is None else keep.size):
        return False
    used = frame if keep is None else frame.loc[keep]
    if index is not None and not used.index.equals(index):
        return False
    name = str(model.endog_names)
    if name not in used.columns or values.ndim != 1 or not pd.api.types.is_numeric_dtype(used[name]):
        return True
    return bool(np.array_equal(used[name].to_numpy(dtype=np.float64, na_value=np.nan), values))


def _about(result: Any, model: Any) -> About:
    name = type(model).__name__
    if name == "GLM":
        name = f"GLM, {type(model.family).__name__} ({type(model.family.link).__name__.lower()} link)"
    outcome, formula = str(model.endog_names), str(getattr(model, "formula", "") or "")
    unit = bool(np.min(model.endog) >= 0 and np.max(model.endog) <= 1)
    return About(model=name, outcome=outcome, formula=formula, unit=unit)


def estimate_from(fitted: Fitted, result: Any) -> Estimate:
    """The Estimate of a regression that evalreg solved, with the statsmodels result that shows it.

    Parameters
    ----------
    fitted : Fitted
        Coefficients and scores.
    result : statsmodels results
        From `shown_fit`.

    Returns
    -------
    Estimate
        Its scores are those of the basis, which the bread maps to the coefficients.
    """
    model, k = result.model, fitted.params.size
    linear = fitted.residual is not None
    return Estimate(
        names=tuple(map(str, model.exog_names)),
        params=fitted.params,
        scores=RowScores(
            fitted.scores, _labels_of(model, fitted.mean.size), fitted.basis.rows, fitted.residual, _weights_of(model)
        ),
        bread=fitted.basis.map.T,
        kind="least squares" if linear else "likelihood",
        n_coefficients=k,
        coefficient_map=fitted.basis.map,
        refit=Refit(np.eye(k), linear=linear),
        about=_about(result, model),
        fitted=HeldFit(result),
    )


def _weights_of(model: Any) -> FloatArray | None:
    """Weights of the rows of a fit that has them."""
    weights = getattr(model, "var_weights", getattr(model, "weights", None))
    if weights is None or np.shape(weights) != model.endog.shape or np.all(weights == np.ravel(weights)[0]):
        return None
    return np.asarray(weights, dtype=np.float64)


def _least_squares(result: Any, model: Any, labels: Labels) -> Estimate:
    """Of a least-squares fit, polished: a pseudo-inverse loses digits where columns differ in scale."""
    from statsmodels.regression.linear_model import OLS, WLS

    names = list(map(str, model.exog_names))
    if isinstance(model, OLS | WLS):
        # Before whitening, where a constant can be seen.
        basis = basis_of(model.exog, names, np.broadcast_to(model.weights, model.endog.shape))
    else:
        basis = basis_of(model.wexog, names)
    given = np.asarray(result.wresid, dtype=float)
    step = basis.rows.T @ given
    params = np.asarray(result.params, dtype=float)
    turned, residual = residuals_of(basis, np.asarray(model.wendog, dtype=float))
    sigma = float(np.sqrt(residual @ residual / residual.size))
    off = float(np.max(np.abs(step), initial=0.0))
    if off > OFF * sigma + ROUNDING * float(np.linalg.norm(model.wendog)):
        raise NotAvailableError(
            f"statsmodels' coefficients are not those of least squares: one combination is {off / sigma:.2g} standard "
            f"errors away, because the columns differ too much in scale or hardly differ from each other (condition "
            f"number {np.linalg.cond(model.wexog):.1e}). Fit with evalreg.fit, or first centre and scale "
            f"{listed(names)}."
        )
    return Estimate(
        names=tuple(names),
        params=params if off <= ROUNDING * sigma else basis.map @ turned,
        scores=RowScores(basis.rows * residual[:, None], labels, basis.rows, residual, _weights_of(model)),
        bread=basis.map.T,
        kind="least squares",
        n_coefficients=len(names),
        coefficient_map=basis.map,
        refit=Refit(np.eye(len(names))),
        about=_about(result, model),
    )


def _refuse_nonzero(scores: FloatArray, model: Any) -> None:
    """Refuse fits that do not solve the estimating equations whose scores these are."""
    size = np.sqrt(np.sum(scores**2, axis=0) * scores.shape[0])
    if np.any(np.abs(scores.sum(axis=0)) > SCORE_SUM * size):
        raise NotAvailableError(
            f"the scores of this {type(model).__name__} do not sum to zero, as they do where a fit solves its "
            "estimating equations (a penalised or constrained one, or one that minimises something else, does not), so "
            "that the sandwich does not apply."
        )


def _likelihood(result: Any, model: Any, labels: Labels) -> Estimate:
    params = np.asarray(result.params, dtype=float)
    names = _likelihood_names(result, model, params)
    flat = params.ravel(order="F") if params.ndim > 1 else params
    turned, design, T = _standardised(model, params, names)
    for _ in range(MOST_POLISH if design is not None and np.linalg.cond(T) > UNLIKE else 0):
        # Newton steps from a fit that is nearly there: statsmodels loses digits where columns differ in scale.
        step = turned.sum(axis=0)
        size = np.sqrt(np.sum(turned**2, axis=0))
        if np.all(np.abs(step) <= POLISHED * size) or np.any(np.abs(step) > NEARLY * size):
            break
        flat = params = params + T @ step
        turned, design, T = _standardised(model, params, names)
    return Estimate(
        names=names,
        params=flat,
        scores=RowScores(turned, labels, design, weights=_weights_of(model)),
        bread=T.T,
        kind="likelihood",
        n_coefficients=flat.size,
        coefficient_map=T,
        refit=None if design is None else Refit(np.eye(flat.size), linear=False),
        about=_about(result, model),
    )


def _standardised(
    model: Any, params: FloatArray, names: tuple[str, ...]
) -> tuple[FloatArray, FloatArray | None, FloatArray]:
    """Scores in coordinates whose information is the identity, the design in them where there is one, and the map."""
    try:
        scores = np.asarray(model.score_obs(params), dtype=float)
        information = -np.asarray(model.hessian(params), dtype=float)
    except (TypeError, AttributeError, NotImplementedError):
        raise NotAvailableError(
            f"{type(model).__name__} does not give the scores of its rows or its Hessian, which a sandwich needs."
        ) from None
    working = _working_weights(model, params, information)
    if working is None:
        T = _inverse_root(information, scores, names)
        return scores @ T, None, T
    X = np.asarray(model.exog, dtype=float)
    basis = basis_of(X, names, working)
    # A score is a number times its row of the design. That row is known in the basis without rounding.
    unit = np.max(np.abs(X), axis=0)
    factor = np.sum(scores / unit * (X / unit), axis=1) / np.sum((X / unit) ** 2, axis=1)
    root = np.sqrt(working)
    ratio = np.divide(factor, root, out=np.zeros_like(root), where=root > 0)
    return basis.rows * ratio[:, None], basis.rows, basis.map


def _inverse_root(information: FloatArray, scores: FloatArray, names: tuple[str, ...]) -> FloatArray:
    """T with TT' the inverse of the information, by way of unit diagonals."""
    unit = np.sqrt(np.diag(information).clip(0.0))
    unit[unit == 0] = 1.0
    values, axes = np.linalg.eigh(information / np.outer(unit, unit))
    if values[0] <= SINGULAR * values[-1]:
        refuse_singular(scores.T @ scores, list(names))
        raise CollinearityError(
            f"the Hessian must be that of a maximum; its smallest eigenvalue is {values[0]:.2g} with every coefficient "
            f"scaled to 1. The data do not determine some combination of {listed(names)}; leave terms out."
        )
    return np.asarray((axes / unit[:, None]) / np.sqrt(values), dtype=np.float64)


def _likelihood_names(result: Any, model: Any, params: FloatArray) -> tuple[str, ...]:
    if params.ndim == 1:
        names = getattr(result.params, "index", None)
        return tuple(map(str, model.exog_names if names is None else names))
    table = result.params
    rows = list(getattr(table, "index", model.exog_names))
    return tuple(f"{column}:{row}" for column in getattr(table, "columns", range(params.shape[1])) for row in rows)


def _working_weights(model: Any, params: FloatArray, information: FloatArray) -> FloatArray | None:
    """Working weights of the rows, where the Hessian is X'WX."""
    if not hasattr(model, "hessian_factor") or params.ndim > 1 or model.exog.shape[1] != params.size:
        return None
    factor = np.abs(np.asarray(model.hessian_factor(params)))
    if factor.shape != (model.exog.shape[0],):
        return None
    design = np.asarray(model.exog) * np.sqrt(factor)[:, None]
    gram = design.T @ design
    scale = np.sqrt(np.outer(np.diag(information), np.diag(information)))
    return factor if np.all(np.abs(gram - information) <= 1e-8 * scale) else None


def shown_fit(model: Any, fitted: Fitted) -> Any:
    """The statsmodels result of a model that evalreg solved, in the units of its columns.

    Parameters
    ----------
    model : statsmodels OLS, WLS or GLM
        Not fitted; it takes on what its own fit would leave there.
    fitted : Fitted
        The solution.

    Returns
    -------
    statsmodels results
        Of the class that the model's own fit gives. Its residuals do not come from coefficients times columns, which
        cancel where columns lie far from zero.
    """
    n, k = model.exog.shape
    if fitted.residual is None:
        model.df_model, model.df_resid = float(k - 1), float(n - k)
        return _shown_glm(model, fitted)
    model.df_model, model.df_resid = float(k - model.k_constant), float(n - k)
    from statsmodels.regression.linear_model import OLS, OLSResults, RegressionResults, RegressionResultsWrapper

    model.pinv_wexog = fitted.basis.map @ fitted.basis.rows.T
    model.normalized_cov_params = fitted.inverse
    model.wexog_singular_values = np.linalg.svd(np.linalg.inv(fitted.basis.map), compute_uv=False)
    model.rank = k
    kind = OLSResults if isinstance(model, OLS) else RegressionResults
    result = kind(model, fitted.params, normalized_cov_params=fitted.inverse)
    result._cache |= {"wresid": fitted.residual, "resid": model.endog - fitted.mean, "fittedvalues": fitted.mean}
    return RegressionResultsWrapper(result)


def _shown_glm(model: Any, fitted: Fitted) -> Any:
    from statsmodels.genmod.generalized_linear_model import GLMResults, GLMResultsWrapper

    model.mu, model.scale, model.scaletype = fitted.mean, 1.0, None
    result = GLMResults(model, fitted.params, fitted.inverse, 1.0)
    result.method, result.converged = "Newton", True
    result.mle_settings = {"optimizer": "Newton"}
    result.fit_history = {"params": [fitted.params], "deviance": [result.deviance], "iteration": 1}
    return GLMResultsWrapper(result)


def to_statsmodels(fitted: Any, matrix: FloatArray, dof: float, description: str) -> Any:
    """A statsmodels result that carries another covariance and degrees of freedom.

    Parameters
    ----------
    fitted : statsmodels results
        The fit; it stays as it is.
    matrix : ndarray, shape (n_params, n_params)
        The covariance of its parameters.
    dof : float
        Degrees of freedom of t; inf for the normal.
    description : str
        Name of the covariance, shown by statsmodels' summary.

    Returns
    -------
    statsmodels results
        Of the same class, on which `summary_col`, `t_test` and the rest work.
    """
    inner = copy.copy(getattr(fitted, "_results", fitted))
    held = getattr(inner, "_cache", {})
    inner._cache = {name: held[name] for name in ("wresid", "resid", "fittedvalues") if name in held}
    for name in ("bse", "tvalues", "pvalues"):
        inner.__dict__.pop(name, None)
    inner.cov_params_default = matrix
    inner.cov_type = description
    inner.cov_kwds = {"description": f"Standard errors are {description}, by evalreg"}
    inner.use_t = bool(np.isfinite(dof))
    inner.df_resid_inference = dof if np.isfinite(dof) else None
    return type(fitted)(inner) if hasattr(fitted, "_results") else inner


def with_own_dof(
    made: Any, model: Any, dof: Callable[[FloatArray], FloatArray], design_rows: Callable[[Any, Any], tuple[Any, Any]]
) -> Any:
    """Let predictions of a statsmodels result have the degrees of freedom of their rows; refuse what cannot."""
    inner = getattr(made, "_results", made)
    if not hasattr(inner, "get_prediction"):
        return made
    least_squares = hasattr(inner, "wresid")
    inner.get_prediction = _OwnDof(inner, model, dof, design_rows) if least_squares else _Refused("get_prediction")
    if hasattr(inner, "get_margeff"):
        inner.get_margeff = _Refused("get_margeff")
    return made


@dataclass(frozen=True, eq=False)
class _OwnDof:
    """`get_prediction` of least squares with t of each row's own degrees of freedom."""

    inner: Any
    model: Any
    dof: Callable[[FloatArray], FloatArray]
    design_rows: Callable[[Any, Any], tuple[Any, Any]]

    def __call__(self, exog: Any = None, transform: bool = True, weights: Any = None, row_labels: Any = None) -> Any:
        if exog is not None and transform and getattr(self.model, "formula", None) is not None:
            exog, index = self.design_rows(self.model, exog)
            row_labels = index if row_labels is None else row_labels
        rows = np.atleast_2d(np.asarray(self.model.exog if exog is None else exog, dtype=float))
        predicted = type(self.inner).get_prediction(
            self.inner, exog=rows, transform=False, weights=weights, row_labels=row_labels
        )
        if self.inner.use_t:
            predicted.df = self.dof(rows)
            predicted.dist_args = (predicted.df,)
        return predicted


@dataclass(frozen=True)
class _Refused:
    """A method of statsmodels whose degrees of freedom would be wrong."""

    name: str

    def __call__(self, *args: Any, **kwds: Any) -> Any:
        instead = "results.predict(data)" if self.name == "get_prediction" else "results.avg_slopes()"
        raise NotAvailableError(
            f"`{self.name}` of statsmodels has a reference distribution of its own, normal or t with n - k degrees of "
            f"freedom, whatever the covariance rests on. Use `{instead}` of evalreg's results."
        )
