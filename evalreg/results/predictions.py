"""Predictions of regressions with error bars, and their figure."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, fraction
from evalreg.errors import ArgumentError
from evalreg.numerics.limits import EQUAL
from evalreg.report.axes import predictions_axes
from evalreg.report.summaries import covariance_text
from evalreg.report.tables import level_text
from evalreg.results.algebra import Algebra
from evalreg.results.comparisons import (
    Contrast,
    average_comparisons,
    average_predictions,
    average_slopes,
    covariate_values,
    fitted_groups,
    term_tests,
)
from evalreg.results.fitted import design_rows, is_probability, mean_of, model_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from evalreg.covariance.covariance import Covariance
    from evalreg.estimate import Estimate
    from evalreg.report.axes import FigSize


# Values of a number along the axis.
N_VALUES = 25
OVERLAP = "Overlapping intervals are not a test of a difference: `avg_comparisons` is. "


def plot_predictions(
    results: Any, by: str | list[str] | dict[str, Any], alpha: float, figsize: FigSize, ax: Axes | None
) -> Axes:
    """The figure of `Results.plot("predictions")`: the `avg_predictions` along a covariate, a second one in colour."""
    fraction("alpha", alpha)
    names = [by] if isinstance(by, str) else list(by)
    if not 1 <= len(names) <= 2:
        raise ArgumentError(f"`by` must name one covariate, or two: along the axis and in colour; got {len(names)}.")
    grid = plotted_values(results.estimate, by, names)
    averages = results.avg_predictions(variables=grid)
    ends = averages.conf_int(alpha)
    places = list(product(*grid.values()))
    table = pd.DataFrame(
        {"estimate": averages.params.to_numpy(), "lower": ends[0].to_numpy(), "upper": ends[1].to_numpy()}
    )
    table.insert(0, "x", [place[0] for place in places])
    if len(names) == 2:
        table["group"] = [f"{place[1]:g}" if isinstance(place[1], float) else str(place[1]) for place in places]
    dof = averages.dof[np.isfinite(averages.dof)]
    said = f", with {dof.min():.3g} to {dof.max():.3g} degrees of freedom" if len(dof) else ""
    note = f"{level_text(alpha)} interval of each average{said}; every row is put at these values, its others "
    return predictions_axes(
        table,
        xlabel=names[0],
        ylabel=f"expected {results.estimate.about.outcome}",
        legend=names[1] if len(names) == 2 else "",
        note=f"{note}as they are. {OVERLAP if len(names) == 2 else ''}Standard errors: {covariance_text(results.cov)}.",
        figsize=figsize,
        ax=ax,
    )


def plotted_values(estimate: Any, by: Any, names: list[str]) -> dict[str, list[Any]]:
    """Values of the covariates: those given, all levels of labels, a grid of the number along the axis."""
    fitted = fitted_groups(estimate, None)
    values = dict(by) if isinstance(by, dict) else {}
    x = names[0]
    if x not in values and x in fitted.frame and not fitted.labels(x):
        column = fitted.frame[x].to_numpy(dtype=float)
        values[x] = np.linspace(column.min(), column.max(), N_VALUES).tolist()
    grid: dict[str, list[Any]] = {}
    for name in names:
        grid |= covariate_values(fitted, {name: values[name]} if name in values else [name])
    return grid


class Predicted(Algebra):
    """Methods of regressions: expected scores, and what a covariate does to them on average."""

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
        return self._averaged("slopes", *average_slopes(fitted_groups(self.estimate, None), variables))

    def avg_comparisons(
        self,
        variables: str | list[str] | dict[str, Any] | None = None,
        *,
        contrast: Contrast | None = None,
        by: str | list[str] | None = None,
    ) -> Any:
        """Average differences of the expected score between two values of a covariate, over the rows that were fitted.

        Each row is put at both values, with its other covariates as they are, and counts with its weight.

        Parameters
        ----------
        variables : str, list of str or dict, optional
            Covariates, or a contrast for each; all of the formula by default.
        contrast : str, float or (high, low), optional
            For covariates without one of their own. Of labels "reference", the default (each level less the first),
            "pairwise", "sequential" (each less the one before) or (level, other level). Of numbers a step, 1 by
            default, from half of it below to half above the row's own value; "sd", a step of one standard deviation;
            "iqr", "minmax" or (high, low) between two values that are the same for all rows.
        by : str or list of str, optional
            Columns of the data whose joint values split the rows; one average each.

        Returns
        -------
        Results
            Parameters such as "words[+1]" or "model[b - a]", with the label of the rows in front under `by`. Errors by
            the delta method from the covariance in use; each has its own degrees of freedom. The rows' covariates are
            taken as given: other rows would have other averages, which the errors leave out.

        Raises
        ------
        NotAvailableError
            As in `predict`.
        MissingColumnError, ArgumentError
            If a variable is not in the formula, a level not in the data, or the contrast not one for it.
        DataError
            If a value lies where a term of the formula is not defined, such as a spline beyond the data.

        References
        ----------
        Arel-Bundock, Greifer and Heiss (2024), J. Statistical Software 111(9), whose `avg_comparisons` gives the same
        estimates with normal quantiles.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
        >>> results = er.fit("score ~ n_words + subject", log, groups="passage", family="binomial")
        >>> results.avg_comparisons({"n_words": 100, "subject": ("law", "history")}).params.round(4).to_dict()
        {'n_words[+100]': 0.0078, 'subject[law - history]': 0.0841}
        """
        averages = average_comparisons(fitted_groups(self.estimate, by), variables, contrast)
        return self._averaged("comparisons", *averages)

    def avg_predictions(
        self,
        by: str | list[str] | None = None,
        *,
        variables: str | list[str] | dict[str, Any] | None = None,
    ) -> Any:
        """Average expected score of the rows that were fitted, by groups of rows or with covariates put at values.

        Parameters
        ----------
        by : str or list of str, optional
            Columns of the data whose joint values split the rows; one average each.
        variables : str, list of str or dict, optional
            Covariates at which every row is put, the others as they are: {"words": [2, 8]} gives the values, and a
            column of labels by name alone stands for all its levels. Models then answer the same rows, so that their
            averages differ by model alone.

        Returns
        -------
        Results
            Parameters are named by the labels and values, joined by a colon; "average" without any. Errors by the delta
            method, with the rows' covariates taken as given; each has its own degrees of freedom. Intervals of
            probabilities are on the logit scale, and stay between 0 and 1, unless one is 0 or 1 up to rounding.

        Raises
        ------
        NotAvailableError
            As in `predict`.
        MissingColumnError, ArgumentError
            If there is no such column, covariate or level, or a number comes without values.
        MissingLabelsError
            If a row in use has no label of `by`.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
        >>> results = er.fit("score ~ n_words", log, groups="passage", family="binomial")
        >>> results.avg_predictions(variables={"n_words": [100, 300]}).params.round(3).to_dict()
        {'100': 0.67, '300': 0.682}
        """
        fitted = fitted_groups(self.estimate, by)
        predictions = self._averaged("predictions", *average_predictions(fitted, variables))
        mean = np.array(predictions.estimate.params)
        # A probability that is 0 or 1 up to rounding has no logit.
        if not is_probability(fitted.model) or np.any(np.minimum(mean, 1 - mean) < EQUAL):
            return predictions
        about = replace(predictions.estimate.about, interval="logit")
        return replace(predictions, estimate=replace(predictions.estimate, bounded=True, about=about))

    def wald_test_terms(self, *, alpha: float = 0.05) -> pd.DataFrame:
        """Joint tests of the terms of the formula: whether all coefficients of a factor or an interaction are zero.

        Each is the `wald_test` of its coefficients: under CR2 HTZ with degrees of freedom of its own, otherwise F.

        Parameters
        ----------
        alpha : float, optional
            Level of `critical`.

        Returns
        -------
        DataFrame
            By term: F, df_num, df_denom, p_value, `critical` (the F from which the test rejects: with few clusters so
            large that it rejects next to nothing, and no rejection is then no sign of no effect), and reason, why there
            is not a test.

        Raises
        ------
        NotAvailableError
            If there is no formula or no fit, or factors are absorbed.

        References
        ----------
        Pustejovsky and Tipton (2018), JBES 36(4). Under CR1 the numbers of statsmodels' `wald_test_terms`.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
        >>> results = er.fit("score ~ n_words + subject", log, groups="passage")
        >>> results.wald_test_terms()[["df_num", "df_denom", "p_value", "critical"]].round(2).loc["subject"].to_dict()
        {'df_num': 3.0, 'df_denom': 21.62, 'p_value': 0.93, 'critical': 3.06}
        """
        return term_tests(self.estimate, self.cov, alpha)

    def _averaged(self, what: str, values: FloatArray, J: FloatArray, names: tuple[str, ...]) -> Any:
        """Results of averages over the fitted rows, from their derivatives by the coefficients."""
        if self.estimate.kind == "least squares":
            estimate = self.estimate.linear(J, names)
        else:
            estimate = self.estimate.transform(lambda _: values, J, names)
        model = f"Average {what} of {self.estimate.about.model}"
        about = replace(self.estimate.about, model=model, interval="wald", lines=(), n_models=0)
        return self._derived(replace(estimate, about=about), self.cov.linear(J, names), ())


def prediction_table(estimate: Estimate, cov: Covariance, data: Any, alpha: float) -> pd.DataFrame:
    """The table of `predict`: intervals of x'b by its own t, carried over by the link."""
    fraction("alpha", alpha)
    model = model_of(estimate)
    mean = mean_of(model)
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
