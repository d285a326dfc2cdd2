"""A statsmodels result that shows what evalreg solved, with its covariance and degrees of freedom."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from evalreg.checks import FloatArray
from evalreg.errors import NotAvailableError
from evalreg.numerics.fitting import Fitted


def shown_fit(model: Any, fitted: Fitted) -> Any:
    """The statsmodels result of a model (OLS, WLS or GLM, not fitted) that evalreg solved, in the units of its columns.

    The model takes on what its own fit would leave there. Residuals do not come from coefficients times columns, which
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
    """A statsmodels result with another covariance, (n_params, n_params), and degrees of freedom of t (inf: normal).

    It is of the same class, and `description` names the covariance in its summary; `fitted` stays as it is.
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
