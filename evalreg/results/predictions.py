"""Predictions and average slopes of regressions, each with the degrees of freedom of its own contrast."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, fraction, listed, nearest
from evalreg.covariance.covariance import Covariance
from evalreg.data.frame import Table
from evalreg.data.opening import open_frame
from evalreg.errors import ArgumentError, DataError, MissingColumnError, NotAvailableError, Note
from evalreg.estimate import Estimate

# Step of a central difference, in standard deviations; its square is the relative error of a curved term.
STEP = 1e-4
# statsmodels' likelihood models whose mean is a function of X b, and that function's link.
LINKS = {"Logit": "Logit", "Probit": "Probit", "Poisson": "Log"}


class Predicted(ABC):
    """Methods of regressions: expected scores, and what a covariate does to them on average."""

    estimate: Estimate
    cov: Covariance

    def predict(self, data: Any = None, *, alpha: float = 0.05) -> pd.DataFrame:
        """Expected scores at given covariates, with intervals by t with the degrees of freedom of each row.

        Parameters
        ----------
        data : data frame, optional
            Covariates, under the names of the formula; by default the rows that were fitted.
        alpha : float, optional
            Level; 0.05 gives 95% intervals, of the expected score and not of single scores.

        Returns
        -------
        DataFrame
            Columns estimate, se, dof, lower and upper; NaN in rows where a covariate is missing. For GLMs the interval
            is made on the scale of the link and carried over, so that it stays in the range of the mean; `se` is by
            the delta method.

        Raises
        ------
        NotAvailableError
            If these are not results of `fit`, or of a least squares, GLM, Logit, Probit or Poisson fit by formula; and
            of results that were copied or unpickled.
        MissingColumnError, DataError
            If the data lack a column of the formula, or have a level that the fit has not seen.

        References
        ----------
        Bell and McCaffrey (2002), Survey Methodology 28, for the degrees of freedom of a contrast.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
        >>> results = er.fit("score ~ n_words", log, groups="passage")
        >>> print(results.predict({"n_words": [100, 300]}).round(3).to_string())
           estimate     se     dof  lower  upper
        0     0.670  0.081  18.070  0.500  0.841
        1     0.682  0.047  25.381  0.584  0.779
        """
        return prediction_table(self.estimate, self.cov, data, alpha)

    def avg_slopes(self, variables: str | list[str] | None = None) -> Any:
        """Average effect of each covariate on the expected score, over the rows that were fitted.

        Of a number it is the mean derivative; of labels and booleans the mean difference to the first level. The rows'
        covariates are taken as given, and count with their weights.

        Parameters
        ----------
        variables : str or list of str, optional
            Covariates; all of the formula by default.

        Returns
        -------
        Results
            One parameter for each number, named as its column, and one for each further level, named
            "column[level - first]". Errors by the delta method from the covariance in use; each has its own degrees of
            freedom.

        Raises
        ------
        NotAvailableError
            As in `predict`.
        MissingColumnError, ArgumentError
            If a variable is not in the formula, or there is none.

        References
        ----------
        Arel-Bundock, Greifer and Heiss (2024), J. Statistical Software 111(9), whose `avg_slopes` gives the same
        estimates with normal quantiles.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
        >>> results = er.fit("score ~ n_words", log, groups="passage", family="binomial")
        >>> results.avg_slopes().params.round(5).to_dict()
        {'n_words': 6e-05}
        """
        values, J, names = average_slopes(self.estimate, variables)
        model = f"Average slopes of {self.estimate.about.model}"
        if self.estimate.kind == "least squares":
            estimate = self.estimate.linear(J, names)
        else:
            estimate = self.estimate.transform(lambda _: values, J, names)
        about = replace(self.estimate.about, model=model, interval="wald", lines=(), n_models=0)
        return self._derived(replace(estimate, about=about), self.cov.linear(J, names), ())

    @abstractmethod
    def _derived(self, estimate: Estimate, cov: Covariance, notes: tuple[Note, ...]) -> Any:
        """Results of the same rows with other parameters."""


@dataclass(frozen=True, eq=False)
class Mean:
    """The mean as a function of X b.

    Parameters
    ----------
    link : statsmodels link or None
        None is the identity.
    """

    link: Any

    def at(self, eta: FloatArray) -> FloatArray:
        """Return the means."""
        return eta if self.link is None else np.asarray(self.link.inverse(eta))

    def slope(self, eta: FloatArray) -> FloatArray:
        """Return the first derivatives."""
        return np.ones_like(eta) if self.link is None else np.asarray(self.link.inverse_deriv(eta))

    def curve(self, eta: FloatArray) -> FloatArray:
        """Return the second derivatives."""
        return np.zeros_like(eta) if self.link is None else np.asarray(self.link.inverse_deriv2(eta))


def prediction_table(estimate: Estimate, cov: Covariance, data: Any, alpha: float) -> pd.DataFrame:
    """The table of `predict`: intervals of x'b by its own t, carried over by the link."""
    fraction("alpha", alpha)
    model = _model_of(estimate)
    mean = _mean_of(model)
    X, index = (np.asarray(model.exog), None) if data is None else design_rows(model, data)
    known = np.isfinite(X).all(axis=1)
    eta = X @ estimate.params
    columns = np.full((5, X.shape[0]), np.nan)
    if known.any():
        at, rows = X[known], eta[known]
        half = cov.half_width(at, alpha)
        ends = np.sort([mean.at(rows - half), mean.at(rows + half)], axis=0)
        se = np.abs(mean.slope(rows)) * np.sqrt(cov.variance(at))
        columns[:, known] = [mean.at(rows), se, cov.dof(at), *ends]
    return pd.DataFrame(dict(zip(("estimate", "se", "dof", "lower", "upper"), columns, strict=True)), index=index)


def average_slopes(
    estimate: Estimate, variables: str | list[str] | None
) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """Average slopes, their derivatives with respect to the coefficients (n_slopes, k), and names."""
    model = _model_of(estimate)
    frame, mean = _frame_of(model), _mean_of(model)
    weights = next((w for w in (getattr(model, name, None) for name in ("var_weights", "weights")) if w is not None), 1)
    share = np.broadcast_to(np.asarray(weights, dtype=float), (len(frame),))
    share = share / share.sum()
    found = []
    for name in _asked(model, frame, variables):
        column = frame[name]
        number = pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)
        rows = _derivative if number else _differences
        found += rows(model, frame, name, estimate.params, mean, share)
    names, values, J = zip(*found, strict=True)
    return np.array(values), np.array(J), tuple(names)


def _derivative(
    model: Any, frame: pd.DataFrame, name: str, b: FloatArray, mean: Mean, share: FloatArray
) -> list[tuple[str, float, FloatArray]]:
    """Mean derivative with respect to a number: d/dx of the mean is slope(x'b) times dx'b."""
    x = frame[name].to_numpy(dtype=float)
    step, low, high = STEP * (np.std(x) or 1.0), x.min(), x.max()
    if high == low:
        low, high = low - step, high + step
    # Not beyond the data, where a spline is not defined.
    above, below = np.minimum(x + step, high), np.maximum(x - step, low)
    D = _design(model, frame.assign(**{name: above})) - _design(model, frame.assign(**{name: below}))
    D = D / (above - below)[:, None]
    X = np.asarray(model.exog)
    eta, moved = X @ b, D @ b
    slope, curve = share * mean.slope(eta), share * mean.curve(eta)
    return [(name, float(slope @ moved), slope @ D + (curve * moved) @ X)]


def _differences(
    model: Any, frame: pd.DataFrame, name: str, b: FloatArray, mean: Mean, share: FloatArray
) -> list[tuple[str, float, FloatArray]]:
    """Mean difference of each level to the first."""
    column = frame[name]
    levels = list(column.cat.categories) if isinstance(column.dtype, pd.CategoricalDtype) else sorted(column.unique())
    ends = []
    for level in levels:
        at = pd.Series([level] * len(frame), index=frame.index, dtype=column.dtype)
        X = _design(model, frame.assign(**{name: at}))
        eta = X @ b
        ends.append((float(share @ mean.at(eta)), (share * mean.slope(eta)) @ X))
    (value, gradient), *others = ends
    return [
        (f"{name}[{level} - {levels[0]}]", end - value, at - gradient)
        for level, (end, at) in zip(levels[1:], others, strict=True)
    ]


def _model_of(estimate: Estimate) -> Any:
    """The statsmodels model, if its mean is a function of X b."""
    if estimate.absorbed is not None:
        raise NotAvailableError(
            "predictions and slopes need the effects of the levels, which absorbing takes out without solving for "
            "them. A covariate's coefficient is its slope, and `t_test` compares coefficients; for predictions write "
            "the factor as C(...) among the covariates, where its levels are few."
        )
    if estimate.fitted is None:
        raise NotAvailableError(
            "predictions and slopes need a regression that still holds its fit: results of `fit` or of "
            "`from_statsmodels` (contrasts, means, copies and unpickled results do not)."
        )
    model = estimate.fitted().model
    _mean_of(model)
    for name in ("offset", "exposure"):
        if np.any(np.asarray(getattr(model, name, None) if getattr(model, name, None) is not None else 0.0) != 0):
            raise NotAvailableError(f"predictions and slopes of a model with `{name}` are not available.")
    return model


def _mean_of(model: Any) -> Mean:
    import statsmodels.api as sm
    from statsmodels.regression.linear_model import GLS, WLS

    if isinstance(model, GLS | WLS):
        return Mean(None)
    if hasattr(model, "family"):
        return Mean(model.family.link)
    name = LINKS.get(type(model).__name__)
    if name is None:
        raise NotAvailableError(
            f"predictions and slopes are those of least squares, GLM, {listed(list(LINKS))}; got "
            f"{type(model).__name__}. Use its own `predict`, and `t_test` for what is linear in the coefficients."
        )
    return Mean(getattr(sm.families.links, name)())


def _frame_of(model: Any) -> pd.DataFrame:
    frame = getattr(model.data, "frame", None)
    if not isinstance(frame, pd.DataFrame) or _design_info(model) is None:
        raise NotAvailableError(
            "slopes by covariate need a formula, which says what a covariate enters; this model was given columns of "
            "numbers. Fit it with `er.fit` or by formula."
        )
    gone = getattr(model.data, "missing_row_idx", None)
    return frame if gone is None or not len(gone) else frame.drop(index=frame.index[np.asarray(gone)])


def _design_info(model: Any) -> Any:
    """patsy's description of the columns of the design, under either name that statsmodels has for it."""
    return getattr(model.data, "design_info", None) or getattr(model.data, "model_spec", None)


def _design(model: Any, frame: pd.DataFrame) -> FloatArray:
    """Rows of the design; NaN where a covariate is missing."""
    import patsy

    keep = patsy.NAAction(on_NA="drop", NA_types=[])
    try:
        rows = np.asarray(patsy.dmatrix(_design_info(model), frame, NA_action=keep), dtype=float)
    except patsy.PatsyError as error:
        raise DataError(f"the covariates do not fit the formula: {str(error).splitlines()[0]}") from None
    # A formula without covariates does not know how many rows there are.
    return np.repeat(rows, len(frame), axis=0) if rows.shape[0] == 1 != len(frame) else rows


def design_rows(model: Any, data: Any) -> tuple[FloatArray, pd.Index | None]:
    """Rows of the design for new covariates, and their index where they have one."""
    info = _design_info(model)
    if info is None:
        raise NotAvailableError("predictions for new data need a formula; this model was given columns of numbers.")
    table = open_frame(data)
    if not isinstance(table, Table):
        raise ArgumentError("`data` must be in memory for predictions: collect the frame first.")
    names = _covariates(model, _frame_of(model))
    for name in names:
        if name not in table.columns:
            hint = nearest(name, table.columns) or f" The columns are {listed(table.columns)}."
            raise MissingColumnError(f'`data` lacks "{name}", a covariate of the formula.{hint}', column=name)
    frame = table.to_pandas(tuple(names), None)
    frame = pd.DataFrame({name: _plain(frame[name]) for name in names}, index=range(table.n_rows))
    index = data.index if isinstance(data, pd.DataFrame) else None
    return _design(model, frame), index


def _plain(column: pd.Series) -> Any:
    """A column as patsy takes it: plain numbers, or objects."""
    if isinstance(column.dtype, np.dtype | pd.CategoricalDtype):
        return column.array
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
        return column.to_numpy(dtype=float, na_value=np.nan)
    return column.to_numpy(dtype=object)


def _covariates(model: Any, frame: pd.DataFrame) -> list[str]:
    """Columns of the data that the terms of the formula name."""
    names: dict[str, None] = {}
    for factor in _design_info(model).factor_infos:
        for node in ast.walk(ast.parse(factor.code, mode="eval")):
            name = getattr(node, "id", None)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Q" and node.args:
                name = getattr(node.args[0], "value", None)
            if name in frame.columns:
                names[str(name)] = None
    return list(names)


def _asked(model: Any, frame: pd.DataFrame, variables: str | list[str] | None) -> list[str]:
    """Names of the covariates whose slopes are wanted."""
    known = _covariates(model, frame)
    if not known:
        raise ArgumentError("a regression on a constant has no covariates, and so no slopes.")
    if variables is None:
        return known
    asked = [variables] if isinstance(variables, str) else list(variables)
    for name in asked:
        if name not in known:
            hint = nearest(name, known) or f" They are {listed(known)}."
            raise MissingColumnError(
                f'`variables` names "{name}", which is no covariate of the formula.{hint}', column=name
            )
    if not asked:
        raise ArgumentError(f"`variables` must name at least one covariate: {listed(known)}.")
    return asked
