"""To and from statsmodels: fitted models in, results objects with our covariance out; and lines of Stata and R."""

from __future__ import annotations

import copy
import re
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from evalreg.checks import FloatArray, listed, quotient
from evalreg.covariance.covariance import Covariance
from evalreg.data.clusters import Labels
from evalreg.errors import ArgumentTypeError, CollinearityError, ConvergenceError, NotAvailableError
from evalreg.estimate import About, Estimate, Refit
from evalreg.numerics.basis import EXACT_FROM, basis_of, refuse_singular
from evalreg.numerics.fitting import Fitted, residuals_of
from evalreg.numerics.limits import OFF, ROUNDING, SETTLED, SINGULAR
from evalreg.numerics.matrices import inverse_root
from evalreg.report.summaries import covariance_text
from evalreg.results.fitted import FittedModel, labels_of
from evalreg.scores.rows import InfluenceScores, RowScores


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


def to_statsmodels(fitted: Any, cov: Covariance, description: str) -> Any:
    """A statsmodels result with another covariance, and t with the smallest of its degrees of freedom (inf: normal).

    It is of the same class, and `description` names the covariance in its summary; `fitted` stays as it is.
    Predictions have the degrees of freedom of their rows, and what cannot have them is refused.
    """
    dof = float(np.min(cov.dof()))
    inner = copy.copy(getattr(fitted, "_results", fitted))
    held = getattr(inner, "_cache", {})
    inner._cache = {name: held[name] for name in ("wresid", "resid", "fittedvalues") if name in held}
    for name in ("bse", "tvalues", "pvalues"):
        inner.__dict__.pop(name, None)
    inner.cov_params_default = cov.matrix
    inner.cov_type = description
    inner.cov_kwds = {"description": f"Standard errors are {description}, by evalreg"}
    inner.use_t = bool(np.isfinite(dof))
    inner.df_resid_inference = dof if np.isfinite(dof) else None
    if hasattr(inner, "wresid"):
        inner.get_prediction = partial(_prediction, inner, cov)
    elif hasattr(inner, "get_prediction"):
        inner.get_prediction = partial(_refuse, "get_prediction", "predict(data)")
    if hasattr(inner, "get_margeff"):
        inner.get_margeff = partial(_refuse, "get_margeff", "avg_slopes()")
    return type(fitted)(inner) if hasattr(fitted, "_results") else inner


def _prediction(
    inner: Any, cov: Covariance, exog: Any = None, transform: bool = True, weights: Any = None, row_labels: Any = None
) -> Any:
    """`get_prediction` of least squares with t of each row's own degrees of freedom."""
    if exog is not None and transform and getattr(inner.model, "formula", None) is not None:
        exog, index = FittedModel(inner.model).new_rows(exog)
        row_labels = index if row_labels is None else row_labels
    rows = np.atleast_2d(np.asarray(inner.model.exog if exog is None else exog, dtype=float))
    predicted = type(inner).get_prediction(inner, exog=rows, transform=False, weights=weights, row_labels=row_labels)
    if inner.use_t:
        predicted.df = cov.dof(rows)
        predicted.dist_args = (predicted.df,)
    return predicted


def _refuse(name: str, instead: str, *args: Any, **options: Any) -> Any:
    """Refuse a method of statsmodels whose degrees of freedom would be wrong."""
    raise NotAvailableError(
        f"`{name}` of statsmodels has a reference distribution of its own, normal or t with n - k degrees of "
        f"freedom, whatever the covariance rests on. Use `results.{instead}` of evalreg's results."
    )


# A likelihood fit with columns of so different scales, whose scores add up to few standard errors, is polished by
# Newton steps.
NEARLY, MOST_POLISH = 0.1, 5


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
    from statsmodels.regression.linear_model import GLS, WLS

    _refuse_unconverged(result)
    labels = labels_of(model, int(model.endog.shape[0]))
    linear = isinstance(model, GLS | WLS) and hasattr(result, "wresid")
    if linear:
        names, params, T, scores = _least_squares(result, model, labels)
    elif hasattr(model, "score_obs") and hasattr(model, "hessian"):
        names, params, T, scores = _likelihood(result, model, labels)
    else:
        raise NotAvailableError(
            f"{type(model).__name__} has no scores of rows (`score_obs`) or no `hessian`, which a sandwich needs."
        )
    _refuse_nonzero(scores.row_influence(np.eye(scores.n_columns)), model)
    return Estimate(
        names=names,
        params=params,
        scores=scores,
        bread=T.T,
        kind="least squares" if linear else "likelihood",
        n_coefficients=params.size,
        coefficient_map=T,
        refit=Refit(np.eye(params.size), linear=linear) if isinstance(scores, RowScores) else None,
        about=_about(model),
        fitted=lambda: result,
        r_squared=(float(result.rsquared), bool(result.k_constant)) if linear else None,
    )


def _refuse_unconverged(result: Any) -> None:
    """Raise ConvergenceError if a fit says that it did not converge."""
    returned = getattr(result, "mle_retvals", None)
    converged = returned.get("converged", True) if isinstance(returned, dict) else getattr(result, "converged", True)
    if not converged:
        raise ConvergenceError(
            f"{type(result.model).__name__} did not converge, so its scores do not sum to zero. Fit it again with more "
            "iterations or another method, or drop covariates that separate the outcomes."
        )


def _about(model: Any) -> About:
    name = type(model).__name__
    if name == "GLM":
        name = f"GLM, {type(model.family).__name__} ({type(model.family.link).__name__.lower()} link)"
    outcome, formula = str(model.endog_names), str(getattr(model, "formula", "") or "")
    unit = bool(np.min(model.endog) >= 0 and np.max(model.endog) <= 1)
    return About(model=name, outcome=outcome, formula=formula, unit=unit)


def _weights_of(model: Any) -> FloatArray | None:
    """Weights of the rows of a fit that has them, and not all the same."""
    weights = np.asarray(getattr(model, "var_weights", getattr(model, "weights", None)))
    equal = weights.shape != model.endog.shape or bool(np.all(weights == weights.flat[0]))
    return None if equal else weights.astype(np.float64)


# Names, parameters, T with TT' the inverse of the information, and the scores in coordinates turned by it.
FittedParts: TypeAlias = tuple[tuple[str, ...], FloatArray, FloatArray, InfluenceScores | RowScores]


def _least_squares(result: Any, model: Any, labels: Labels) -> FittedParts:
    """Of a least-squares fit, polished: a pseudo-inverse loses digits where columns differ in scale."""
    from statsmodels.regression.linear_model import OLS, WLS

    names = list(map(str, model.exog_names))
    if isinstance(model, OLS | WLS):
        # Before whitening, where a constant can be seen.
        basis = basis_of(model.exog, names, np.broadcast_to(model.weights, model.endog.shape))
    else:
        basis = basis_of(model.wexog, names)
    wresid = np.asarray(result.wresid, dtype=float)
    step = basis.rows.T @ wresid
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
    scores = RowScores(basis.rows * residual[:, None], labels, basis.rows, residual, _weights_of(model))
    return tuple(names), params if off <= ROUNDING * sigma else basis.map @ turned, basis.map, scores


def _refuse_nonzero(scores: FloatArray, model: Any) -> None:
    """Refuse fits that do not solve the estimating equations whose scores these are."""
    size = np.sqrt(np.sum(scores**2, axis=0) * scores.shape[0])
    if np.any(np.abs(scores.sum(axis=0)) > OFF * size):
        raise NotAvailableError(
            f"the scores of this {type(model).__name__} do not sum to zero, as they do where a fit solves its "
            "estimating equations (a penalised or constrained one, or one that minimises something else, does not), so "
            "that the sandwich does not apply."
        )


def _likelihood(result: Any, model: Any, labels: Labels) -> FittedParts:
    params = np.asarray(result.params, dtype=float)
    names = _likelihood_names(result, model, params)
    flat = params.ravel(order="F") if params.ndim > 1 else params
    turned, design, T = _standardised(model, params, names)
    for _ in range(MOST_POLISH if design is not None and np.linalg.cond(T) > EXACT_FROM else 0):
        # Newton steps from a fit that is nearly there: statsmodels loses digits where columns differ in scale.
        step = turned.sum(axis=0)
        size = np.sqrt(np.sum(turned**2, axis=0))
        if np.all(np.abs(step) <= SETTLED * size) or np.any(np.abs(step) > NEARLY * size):
            break
        flat = params = params + T @ step
        turned, design, T = _standardised(model, params, names)
    weights = _weights_of(model)
    if design is None:
        return names, flat, T, InfluenceScores(turned, labels, weights)
    return names, flat, T, RowScores(turned, labels, design, weights=weights)


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
        T = inverse_root(information, SINGULAR)
        if np.isnan(T).any():
            refuse_singular(scores.T @ scores, list(names))
            raise CollinearityError(
                "the Hessian must be that of a maximum; with every coefficient scaled to 1 it has eigenvalues that are "
                f"not above 0. The data do not determine some combination of {listed(names)}; leave terms out."
            )
        return scores @ T, None, T
    X = np.asarray(model.exog, dtype=float)
    basis = basis_of(X, names, working)
    # A score is a number times its row of the design. That row is known in the basis without rounding.
    unit = np.max(np.abs(X), axis=0)
    factor = np.sum(scores / unit * (X / unit), axis=1) / np.sum((X / unit) ** 2, axis=1)
    root = np.sqrt(working)
    ratio = quotient(factor, root, 0.0)
    return basis.rows * ratio[:, None], basis.rows, basis.map


def _likelihood_names(result: Any, model: Any, params: FloatArray) -> tuple[str, ...]:
    if params.ndim == 1:
        names = getattr(result.params, "index", None)
        return tuple(map(str, model.exog_names if names is None else names))
    table = result.params
    rows = list(getattr(table, "index", model.exog_names))
    return tuple(f"{category}: {row}" for category in _equations(result, model, params.shape[1]) for row in rows)


def _equations(result: Any, model: Any, count: int) -> list[str]:
    """Names of the equations of a model with several: the categories, but for the first, which all are set against."""
    categories = getattr(model, "_ynames_map", None)
    if isinstance(categories, dict) and len(categories) == count + 1:
        return [str(categories[place]) for place in sorted(categories)[1:]]
    return [str(column) for column in getattr(result.params, "columns", range(count))]


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


# A name that Stata takes, and one term of a formula that both others read alike.
_NAME, _TERM = re.compile(r"[A-Za-z_]\w{0,31}"), re.compile(r"C\((\w+)\)|(\w+)")


class _NoLineError(Exception):
    """Why no line of another program gives a number."""


def line_of(estimate: Estimate, cov: Covariance, program: Literal["Stata", "R"]) -> str:
    """The line that gives the standard errors of results, or a sentence why none does."""
    try:
        outcome, terms, has_constant = _regression_of(estimate)
        columns = [name for axis in cov.axes for name in axis]
        odd = [name for name in (outcome, *terms, *columns) if not _NAME.fullmatch(name)]
        if odd:
            raise _NoLineError(f'"{odd[0]}" is no name there; rename the column')
        line = _in_stata if program == "Stata" else _in_r
        return line(estimate, cov, outcome, terms, has_constant)
    except _NoLineError as reason:
        return f"No line of {program} gives these standard errors: {reason}."


def _regression_of(estimate: Estimate) -> tuple[str, dict[str, bool], bool]:
    """The least-squares regression that an estimate is: outcome, covariates and whether each holds labels, constant."""
    about, cells = estimate.about, estimate.cells
    kind, by, model = about.model.partition(" by ")
    if about.subset:
        raise _NoLineError("rows were left out by `subset`; give the frame without them")
    if about.lines and estimate.kind == "mean":
        raise _NoLineError(f"rows are put together or left out first ({about.lines[0].removesuffix('.')})")
    if estimate.kind == "mean" and kind in ("Mean", "OLS") and cells is not None and estimate.population is None:
        if cells.weighted.any() or cells.stratum is not None:
            raise _NoLineError("the rows are weighted, or the mean is one over strata")
        return about.outcome, ({model: True} if by else {}), not by
    if estimate.kind != "least squares" or about.model != "OLS" or estimate.absorbed is not None or about.contrast:
        raise _NoLineError(f"{about.model} is no plain mean of rows and no plain regression by least squares")
    outcome, _, right = (part.strip() for part in about.formula.partition("~"))
    parts = [part.strip() for part in right.split("+")]
    matches = {part: _TERM.fullmatch(part) for part in parts if part not in ("0", "1")}
    if not all(matches.values()):
        raise _NoLineError(f"its formula has terms that are written otherwise there ({about.formula})")
    names = {match[1] or match[2]: bool(match[1]) for match in matches.values() if match}
    labels = {name: held or any(n.startswith(f"{name}[") for n in estimate.names) for name, held in names.items()}
    return outcome, labels, "0" not in parts


def _in_stata(estimate: Estimate, cov: Covariance, outcome: str, terms: dict[str, bool], has_constant: bool) -> str:
    axes = cov.axes
    before = [f"egen {name}_code = group({name}), label" for name, labels in terms.items() if labels]
    before += [f"egen {'_'.join(axis)} = group({' '.join(axis)})" for axis in axes if len(axis) > 1]
    prefix = "i" if has_constant else "ibn"
    right = [f"{prefix}.{name}_code" if labels else name for name, labels in terms.items()]
    command, clusters = " ".join(["regress", outcome, *right]), " ".join("_".join(axis) for axis in axes)
    options, k, constant = cov.options, estimate.n_params, "noconstant" * (not has_constant)
    has_factor = options.ssc != "none" and (k == 1 or (estimate.kind != "mean" and options.ssc != "G"))
    if options.cov in ("naive", "HC1", "CR1") and (axes or k > 1) and not has_factor:
        raise _NoLineError(_unknown(cov))
    if options.cov == "CR1" and len(axes) == 2 and not cov.change and options.ssc != "fixest":
        return "\n".join([*before, f"vcemway {command}{', ' * bool(constant)}{constant}, cluster({clusters})"])
    jackknife, dof = f"jackknife, mse cluster({clusters})", ", dfadjust" * (options.dof == "satterthwaite")
    of_rows = {"naive": "robust", "HC1": "robust", "HC2": "hc2", "HC3": "hc3"}
    # CR2 of Stata 18.
    of_clusters = {
        "CR1": f"cluster {clusters}",
        "CR2": f"hc2 {clusters}{dof}",
        "CR3": jackknife,
        "jackknife": jackknife,
    }
    vce = (of_rows, of_clusters, {})[min(len(axes), 2)].get(options.cov)
    if vce is None:
        raise _NoLineError(_unknown(cov))
    return "\n".join([*before, f"{command}, {constant}{' ' * bool(constant)}vce({vce})"])


def _in_r(estimate: Estimate, cov: Covariance, outcome: str, terms: dict[str, bool], has_constant: bool) -> str:
    axes, options = cov.axes, cov.options
    right = " + ".join(
        [*([] if has_constant else ["0"]), *(f"factor({n})" if held else n for n, held in terms.items())]
    )
    fit = f"fit <- lm({outcome} ~ {right or '1'}, data = log)\n"
    by = [axis[0] if len(axis) == 1 else f"interaction({', '.join(axis)})" for axis in axes]
    single = estimate.kind == "mean" and estimate.n_params > 1  # k counts each mean by itself
    if (not axes and options.cov in ("HC0", "HC2", "HC3")) or (options.cov in ("naive", "HC1") and not single):
        return f'{fit}lmtest::coeftest(fit, vcov = sandwich::vcovHC(fit, "{options.cov.replace("naive", "HC1")}"))'
    only_clusters = options.cov == "CR1" and (options.ssc == "G" or single) and options.ssc != "none"
    if len(axes) == 1 and (options.cov == "CR2" or only_clusters):
        test = {"satterthwaite": "Satterthwaite", "normal": "z"}.get(str(options.dof), "naive-t")
        cluster = f"with(log, {by[0]})"
        return f'{fit}clubSandwich::coef_test(fit, vcov = "{options.cov}", cluster = {cluster}, test = "{test}")'
    kinds = {"CR0": '"HC0", cadjust = FALSE', "CR1": '"HC1"', "CR3": '"HC3", cadjust = FALSE'}
    kinds["jackknife"] = kinds["CR3"]
    if options.ssc == "none":
        kinds["CR1"] = kinds["CR0"]
    crossed = len(axes) > 1 and (options.cov not in ("CR0", "CR1") or cov.change or options.ssc == "fixest" or single)
    if not axes or options.cov not in kinds or crossed or only_clusters:
        raise _NoLineError(_unknown(cov))
    counted = float(cov.smallest_dof if isinstance(options.dof, str) else options.dof)
    dof = ", df = Inf" if options.dof == "normal" or np.isinf(counted) else f", df = {counted:g}"
    vcov = f"sandwich::vcovCL(fit, cluster = ~ {' + '.join(by)}, type = {kinds[options.cov]})"
    return f"{fit}lmtest::coeftest(fit, vcov = {vcov}{dof})"


def _unknown(cov: Covariance) -> str:
    """The covariance that no command there has."""
    return f"no command has {covariance_text(cov)}{' after repair' if cov.crossed and cov.change else ''}"
