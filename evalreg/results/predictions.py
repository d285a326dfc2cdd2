"""What a regression says beyond its coefficients: predictions, slopes, comparisons, tests of terms, and a figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg import errors
from evalreg.checks import FloatArray, fraction, issue, nearest_or_all
from evalreg.data.clusters import known_columns
from evalreg.data.rows import joint_names
from evalreg.estimate import Estimate
from evalreg.inference.intervals import joint_test
from evalreg.inference.wald import NO_DOF, JointTest, critical_value, few_notes, joint_test_p
from evalreg.numerics.limits import EQUAL
from evalreg.report.axes import FigSize, predictions_axes
from evalreg.report.summaries import covariance_text
from evalreg.report.tables import level_text
from evalreg.results.algebra import Algebra
from evalreg.results.fitted import FittedModel, model_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Averages of the mean over the rows of groups, shape (n_groups,), and their derivatives, shape (n_groups, k).
Averages: TypeAlias = tuple[FloatArray, FloatArray]
# One after the other, each with the parts of the names of its groups.
NamedAverages: TypeAlias = Iterator[tuple[Sequence[tuple[str, ...]], Averages]]


class Predicted(Algebra):
    """Methods of regressions: expected scores, and what a covariate does to them on average."""

    def predict(self, data: Any = None, *, alpha: float = 0.05) -> pd.DataFrame:
        """Expected scores at given covariates, with intervals by t with the degrees of freedom of each row.

        Parameters
        ----------
        data : data frame, optional
            Covariates, under the names of the formula; by default the rows that were fitted.
        alpha : float, default 0.05
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
        fraction("alpha", alpha)
        fitted = model_of(self.estimate)
        link = fitted.link
        X, index = (np.asarray(fitted.model.exog), None) if data is None else fitted.new_rows(data)
        known = np.isfinite(X).all(axis=1)
        eta = X @ self.estimate.params
        columns = np.full((5, X.shape[0]), np.nan)
        if known.any():
            at, rows = X[known], eta[known]
            half = self.cov.half_width(at, alpha)
            ends = np.sort([link.inverse(rows - half), link.inverse(rows + half)], axis=0)
            se = np.abs(link.inverse_deriv(rows)) * np.sqrt(self.cov.variance(at))
            columns[:, known] = [link.inverse(rows), se, self.cov.dof(at), *ends]
        return pd.DataFrame(dict(zip(("estimate", "se", "dof", "lower", "upper"), columns, strict=True)), index=index)

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
        return self._averaged("slopes", average_slopes(fitted_groups(self.estimate, None), variables))

    def avg_comparisons(
        self, variables: str | list[str] | dict[str, Any] | None = None, *, by: str | list[str] | None = None
    ) -> Any:
        """Average differences of the expected score between two values of a covariate, over the rows that were fitted.

        Each row is put at both values, with its other covariates as they are, and counts with its weight.

        Parameters
        ----------
        variables : str, list of str or dict, optional
            Covariates, or a contrast for each; all of the formula by default. Of labels each level less the first, or
            (level, other level). Of numbers a step, 1 by default, from half of it below to half above the row's own
            value, or (high, low), two values that are the same for all rows.
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
        return self._averaged("comparisons", average_comparisons(fitted_groups(self.estimate, by), variables))

    def avg_predictions(
        self, by: str | list[str] | None = None, *, variables: str | list[str] | dict[str, Any] | None = None
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
        predictions = self._averaged("predictions", average_predictions(fitted, variables))
        mean = np.array(predictions.estimate.params)
        # A probability that is 0 or 1 up to rounding has no logit.
        family = type(getattr(fitted.model, "family", fitted.model)).__name__
        if family not in ("Binomial", "Logit", "Probit") or np.any(np.minimum(mean, 1 - mean) < EQUAL):
            return predictions
        about = replace(predictions.estimate.about, interval="logit")
        return replace(predictions, estimate=replace(predictions.estimate, bounded=True, about=about))

    def wald_test_terms(self, *, alpha: float = 0.05) -> pd.DataFrame:
        """Joint tests of the terms of the formula: whether all coefficients of a factor or an interaction are zero.

        Each is the `wald_test` of its coefficients: under CR2 HTZ with degrees of freedom of its own, otherwise F.

        Parameters
        ----------
        alpha : float, default 0.05
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
        Pustejovsky and Tipton (2018), JBES 36(4), section 3.2. Under CR1 the numbers of statsmodels' `wald_test_terms`.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
        >>> results = er.fit("score ~ n_words + subject", log, groups="passage")
        >>> results.wald_test_terms()[["df_num", "df_denom", "p_value", "critical"]].round(2).loc["subject"].to_dict()
        {'df_num': 3.0, 'df_denom': 21.62, 'p_value': 0.93, 'critical': 3.06}
        """
        fraction("alpha", alpha)
        estimate, cov = self.estimate, self.cov
        info = None
        if estimate.fitted is not None and estimate.absorbed is None:
            info = FittedModel(estimate.fitted().model).info
        if info is None:
            raise errors.NotAvailableError(
                "tests by term need a formula and its fit: results of `fit` without absorbed factors, or of "
                "`from_statsmodels` by formula (contrasts, copies, unpickled results and fits of rows in an engine "
                "hold none). `wald_test` takes any coefficients by name."
            )
        rows, notes = {}, list[errors.Note]()
        for name, part in info.term_name_slices.items():
            C = np.eye(estimate.n_params)[part]
            try:
                test = joint_test(estimate, cov, C)
            except errors.TooFewClustersError:
                text = f"{float(cov.smallest_dof):.3g} {NO_DOF} {len(C)} contrasts jointly"
                test = JointTest(float("nan"), len(C), float("nan"), text)
            notes += [(kind, f'term "{name}": {text}') for kind, text in few_notes(test)]
            q, dof = test.df_num, test.df_denom
            rows[name] = test.statistic, q, dof, joint_test_p(test), critical_value(q, dof, alpha), test.reason
        issue(notes)
        columns = ["F", "df_num", "df_denom", "p_value", "critical", "reason"]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    def _averaged(self, what: str, averages: NamedAverages) -> Any:
        """Results of averages over the fitted rows, from their derivatives by the coefficients."""
        labels, parts = zip(*averages, strict=True)
        names = joint_names(list(chain.from_iterable(labels)))
        values, J = map(np.concatenate, zip(*parts, strict=True))
        if self.estimate.kind == "least squares":
            estimate = self.estimate.linear(J, names)
        else:
            estimate = self.estimate.transform(lambda _: values, J, names)
        model = f"Average {what} of {self.estimate.about.model}"
        about = replace(self.estimate.about, model=model, interval="wald", lines=(), n_models=0)
        return self._derived(replace(estimate, about=about), self.cov.linear(J, names), ())


# Averages over the fitted rows


@dataclass(frozen=True, eq=False)
class FittedMean(FittedModel):
    """A fitted regression whose mean is averaged over groups of its rows."""

    b: FloatArray
    shares: Any  # sparse, (n_groups, n_rows): weights of the rows, which sum to one in each group
    groups: tuple[tuple[str, ...], ...]  # labels of each group; one empty tuple for all rows

    def at(self, **values: Any) -> Averages:
        """Averages with every row's covariates put at these values, each one value or an array."""
        columns = {}
        for name, value in values.items():
            dtype: Any = self.frame[name].dtype if self.labels(name) else np.float64
            columns[name] = pd.Series(value, index=self.frame.index, dtype=dtype)
        X = self.design(self.frame.assign(**columns)) if values else np.asarray(self.model.exog)
        eta = X @ self.b
        return self.shares @ self.link.inverse(eta), self.shares @ (self.link.inverse_deriv(eta)[:, None] * X)

    def levels(self, name: str) -> list[Any]:
        """Levels of labels, in the order of the formula."""
        column = self.frame[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            return list(column.cat.categories)
        return sorted(column.unique().tolist())

    def value(self, name: str, value: Any) -> Any:
        """A value that a covariate can be put at."""
        if not self.labels(name):
            if not _is_number(value) or not np.isfinite(value):
                raise errors.ArgumentError(f'values of "{name}" must be finite numbers; got {value!r}.')
            return float(value)
        levels = self.levels(name)
        if value not in levels:
            hint = nearest_or_all(value, levels, "level")
            raise errors.MissingColumnError(f'"{name}" has no level {value!r}.{hint}', column=name)
        return value


def fitted_groups(estimate: Estimate, by: str | list[str] | None) -> FittedMean:
    """The regression of an estimate, over all rows or over the rows of each joint value of `by`."""
    fitted = model_of(estimate)
    model, n = fitted.model, len(fitted.frame)
    codes, groups = (np.zeros(n, dtype=np.intp), ((),)) if by is None else _rows_by(estimate, by)
    weights = np.broadcast_to(getattr(model, "var_weights", getattr(model, "weights", 1.0)), (n,))
    share = weights / np.bincount(codes, weights=weights, minlength=len(groups))[codes]
    shares = sparse.csr_array((share, (codes, np.arange(n))), shape=(len(groups), n))
    return FittedMean(model, np.array(estimate.params), shares, groups)


def _rows_by(estimate: Estimate, by: str | list[str]) -> tuple[Any, Any]:
    """Group of each row, and the labels of each, sorted as text."""
    names = known_columns(by, estimate.scores.columns, "by")
    labels = estimate.scores.row_labels()
    if labels is None:
        raise errors.NotAvailableError("`by` needs rows in memory. Leave it out, or fit data that are in memory.")
    try:
        codes = labels.codes(names)
    except errors.MissingLabelsError as error:
        raise errors.MissingLabelsError(
            f"`by` must have a label in every row in use; {error.column!r} has none in {error.count}. Leave these rows "
            "out of the fit, or give them a label.",
            column=error.column,
            rows=error.rows,
            count=error.count,
        ) from None
    parts = codes.parts or (codes,)
    groups = [tuple(part.label(int(part.codes[row])) for part in parts) for row in codes.first]
    order = sorted(range(len(groups)), key=groups.__getitem__)
    place = np.empty(len(groups), dtype=np.intp)
    place[order] = np.arange(len(groups))
    return place[codes.codes], tuple(groups[i] for i in order)


def average_predictions(fitted: FittedMean, variables: Any) -> NamedAverages:
    """Average expected scores of groups of rows, at each joint value of `variables`."""
    grid = {} if variables is None else covariate_values(fitted, variables)
    for values in product(*grid.values()):
        exact = [isinstance(value, float) and float(f"{value:g}") == value for value in values]
        texts = [f"{value:g}" if short else str(value) for short, value in zip(exact, values, strict=True)]
        names = [(*group, *texts) or ("average",) for group in fitted.groups]
        yield names, fitted.at(**dict(zip(grid, values, strict=True)))


def covariate_values(fitted: FittedMean, variables: Any) -> dict[str, list[Any]]:
    """Values at which the covariates are put."""
    values = {}
    for name, value in fitted.chosen(variables).items():
        if value is not None:
            several = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)
            values[name] = [fitted.value(name, each) for each in (value if several else [value])]
            if len(set(values[name])) < max(len(values[name]), 1):
                raise errors.ArgumentError(f'`variables` must give values for "{name}", each once; got {value!r}.')
        elif fitted.labels(name):
            values[name] = fitted.levels(name)
        else:
            column = fitted.frame[name]
            raise errors.ArgumentError(
                f'`variables` must say at which values of the number "{name}" predictions are wanted, such as '
                f'{{"{name}": [{column.min():g}, {column.max():g}]}}.'
            )
    return values


# Step of a central difference, in standard deviations; its square is the relative error of a curved term.
STEP = 1e-4


def average_slopes(fitted: FittedMean, variables: str | list[str] | None) -> NamedAverages:
    """Average slopes of numbers, and differences of labels to the first."""
    for name in fitted.chosen(variables):
        if fitted.labels(name):
            yield from _differences(fitted, name, None)
        else:
            yield [(name,)], _derivative(fitted, name)


def _derivative(fitted: FittedMean, name: str) -> Averages:
    """Mean derivative with respect to a number: d/dx of the mean is slope(x'b) times dx'b."""
    x = fitted.frame[name].to_numpy(dtype=float)
    step, low, high = STEP * (np.std(x) or 1.0), x.min(), x.max()
    if high == low:
        low, high = low - step, high + step
    # Not beyond the data, where a spline is not defined.
    above, below = np.minimum(x + step, high), np.maximum(x - step, low)
    ends = [fitted.design(fitted.frame.assign(**{name: end})) for end in (above, below)]
    D, X = (ends[0] - ends[1]) / (above - below)[:, None], np.asarray(fitted.model.exog)
    eta, moved = X @ fitted.b, D @ fitted.b
    slope, curve = fitted.link.inverse_deriv(eta), fitted.link.inverse_deriv2(eta)
    return fitted.shares @ (slope * moved), fitted.shares @ (slope[:, None] * D + (curve * moved)[:, None] * X)


def average_comparisons(fitted: FittedMean, variables: Any) -> NamedAverages:
    """Average differences of expected scores between two values of a covariate."""
    for name, contrast in fitted.chosen(variables).items():
        yield from _differences(fitted, name, contrast)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _differences(fitted: FittedMean, name: str, contrast: Any) -> NamedAverages:
    """Differences of the averages between two levels of labels, or two values of a number, each under its name."""

    def at(value: Any) -> Averages:
        return fitted.at(**{name: value})

    at_level = cache(at) if fitted.labels(name) else at
    for label, high, low in _compared(fitted, name, contrast):
        (upper, of_upper), (lower, of_lower) = at_level(high), at_level(low)
        names = [(f"{':'.join(group)}{': ' * bool(group)}{name}[{label}]",) for group in fitted.groups]
        yield names, (upper - lower, of_upper - of_lower)


def _compared(fitted: FittedMean, name: str, contrast: Any) -> list[tuple[str, Any, Any]]:
    """What is compared, under its name: a level and another one, or two values of a number, which rows may share."""
    labels = fitted.labels(name)
    if isinstance(contrast, tuple | list) and len(contrast) == 2:
        high, low = (fitted.value(name, end) for end in contrast)
        return [(f"{high} - {low}" if labels else f"{high:g} - {low:g}", high, low)]
    if contrast is not None and (labels or not _is_number(contrast) or not np.isfinite(contrast) or contrast == 0):
        kind, pair = (
            ("labels", "(level, other level)") if labels else ("number", "a step that is not 0, or (high, low)")
        )
        raise errors.ArgumentError(f'the contrast of the {kind} "{name}" must be {pair}; got {contrast!r}.')
    if labels:
        first, *others = fitted.levels(name)
        if not others:
            text = f'"{name}" has one level, {first!r}, and nothing to compare it with.'
            raise errors.ConstantScoreError(text, column=name)
        return [(f"{level} - {first}", level, first) for level in others]
    x, step = fitted.frame[name].to_numpy(dtype=float), 1.0 if contrast is None else contrast
    return [(f"{step:+g}", x + step / 2, x - step / 2)]


# The figure

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
        raise errors.ArgumentError(
            f"`by` must name one covariate, or two: along the axis and in colour; got {len(names)}."
        )
    grid = plotted_values(results.estimate, by, names)
    averages = results.avg_predictions(variables=grid)
    places = list(product(*grid.values()))
    table = pd.DataFrame({"x": [place[0] for place in places], "estimate": averages.params.to_numpy()})
    table[["lower", "upper"]] = averages.conf_int(alpha).to_numpy()
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
    fitted, x = fitted_groups(estimate, None), names[0]
    values = dict.fromkeys(names) | (by if isinstance(by, dict) else {})
    if values[x] is None and x in fitted.frame and not fitted.labels(x):
        column = fitted.frame[x].to_numpy(dtype=float)
        values[x] = np.linspace(column.min(), column.max(), N_VALUES).tolist()
    return covariate_values(fitted, values)
