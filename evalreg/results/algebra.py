"""Results computed from results: combinations, smooth functions, two side by side; and what clusters do to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalreg.checks import FloatArray, listed, real_numbers
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.options import CovOptions
from evalreg.data.clusters import Axis, axis_name, parse_groups
from evalreg.data.frame import by_name
from evalreg.errors import ArgumentError, ArgumentTypeError, Note
from evalreg.estimate import Estimate, cluster_sizes, rows_behind
from evalreg.inference.dependence import assembled, cluster_influence, dependence_table, row_influence, variance_notes
from evalreg.inference.wald import in_order, parse_contrasts
from evalreg.numerics.limits import ROOT_OF_ROUNDING, ROUNDING


class Algebra:
    """Parameters with their covariance, and methods that make results from results."""

    estimate: Estimate
    cov: Covariance
    axes: tuple[Axis, ...]
    requested: CovOptions

    @property
    def params(self) -> pd.Series:
        """Estimates, by parameter."""
        return pd.Series(self.estimate.params, index=list(self.estimate.names))

    def _derived(self, estimate: Estimate, cov: Covariance, notes: tuple[Note, ...]) -> Self:
        """Results of something computed from the parameters; of a board a board without its pairs of models."""
        results_type: Any = type(self)
        return cast("Self", results_type(estimate, cov, self.axes, self.requested, notes))

    @property
    def _counts(self) -> FloatArray | None:
        """Rows behind each parameter; None where that is not known."""
        return rows_behind(self.estimate)

    def contrast(
        self,
        contrast: str | dict[str, float] | npt.ArrayLike | pd.DataFrame,
        names: str | Sequence[str] | None = None,
        *,
        constant: npt.ArrayLike = 0.0,
    ) -> Self:
        """Linear combinations C theta + c of the parameters, as results of their own.

        Parameters
        ----------
        contrast : str, dict or array_like, shape (n_combinations, n_params)
            "A - B", {"A": 1, "B": -1}, or C with one column a parameter. A Series or DataFrame is matched by
            its labels.
        names : str or list of str, optional
            A name for each combination; by default its text, the index of a DataFrame, otherwise "c0", "c1" and so on.
        constant : float or array_like, shape (n_combinations,), optional
            c, what is added; 0 by default. It moves estimates and the ends of intervals, not standard errors.

        Returns
        -------
        Results
            The covariance is C V C', and variances and degrees of freedom come from the same terms under any
            `with_cov`. Of a `Board` it is a board without its pairs of models.

        Raises
        ------
        ArgumentError
            If a parameter is unknown, the shape does not fit, a number is not finite, or names occur twice.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.paired(n_passages=20, seed=1)
        >>> results = er.mean(log, by="model", item="question", groups="passage")
        >>> results.contrast("new - old").bse.round(4).to_dict()
        {'new - old': 0.0663}
        >>> results.contrast([[1, -1], [0.5, 0.5]], ["new - old", "average"]).params.round(3).to_dict()
        {'new - old': 0.05, 'average': 0.775}
        """
        combinations = parse_contrasts(contrast, self.estimate.names)
        if np.any(combinations.value != 0):
            raise ArgumentError(
                f"a contrast is a combination of parameters; {contrast!r} compares it with a number. Use `t_test`."
            )
        C, shift = combinations.matrix, _as_numbers("constant", constant)
        names = _as_names(combinations.names if names is None else names, C.shape[0])
        if shift.shape not in ((), (C.shape[0],)) or not np.isfinite(shift).all():
            raise ArgumentError(
                f"`constant` must be one finite number, or one for each of the {C.shape[0]} combinations; "
                f"got {constant!r}."
            )
        estimate, cov = self.estimate.linear(C, names), self.cov.linear(C, names)
        notes = variance_notes(cov)
        if np.any(shift != 0):
            estimate, cov = estimate.moved(shift), replace(cov, bounded=False)
        return self._derived(estimate, cov, notes)

    def transform(
        self,
        function: Callable[[pd.Series], Any],
        names: str | Sequence[str] | None = None,
        *,
        derivative: npt.ArrayLike | pd.DataFrame | None = None,
    ) -> Self:
        """A smooth function of the parameters, with errors by the delta method.

        Parameters
        ----------
        function : callable
            Takes the parameters as a Series with their names, and returns a number, an array, a dict or a Series.
        names : str or list of str, optional
            A name for each value; by default the labels of the Series or the dict that `function` returns.
        derivative : array_like or DataFrame, shape (n_values, n_params), optional
            J, the derivative of each value by each parameter at the estimates; by central differences if left out. Of a
            DataFrame the columns are the parameters, in any order.

        Returns
        -------
        Results
            The covariance is J V J'. Tests and intervals are Wald's; of a linear function, such as 1 - p, they are
            those of `contrast`. The jackknife and the wild bootstrap, which solve again, are those of the parameters
            and not of a function of them. Of a `Board` it is a board without its pairs of models. Where the function
            rises with one parameter alone, it has a better interval at the ends of `conf_int()` of that parameter, as
            `Board.odds` has. A ratio of positive means from few clusters has one as the exponential of both ends of the
            interval of its logarithm.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If values have no names, the shapes do not fit, or a value or a derivative is no finite real number; and if
            `function` is none.

        References
        ----------
        van der Vaart (1998), Asymptotic Statistics, theorem 3.1. The differences are statsmodels', over steps that
        follow the size of a parameter and its standard error, whatever their unit.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.paired(n_passages=20, seed=1)
        >>> results = er.mean(log, by="model", item="question", groups="passage")
        >>> results.transform(lambda p: p["new"] / p["old"], "new / old").params.round(3).to_dict()
        {'new / old': 1.067}
        >>> results.transform(lambda p: p / (1 - p)).params.round(3).to_dict()
        {'new': 4.0, 'old': 3.0}
        """
        if not callable(function):
            raise ArgumentTypeError(f"`function` must be a function of the parameters; got {function!r:.200}.")
        estimate = self.estimate
        params = self.params
        returned = function(params.copy())
        labels = returned.keys() if isinstance(returned, dict | pd.Series) else None
        values = _finite("value", _as_values(returned))
        named = _as_names(names if names is not None else labels, values.size)
        derivative = by_name(derivative)
        if isinstance(derivative, pd.DataFrame):
            derivative = in_order(derivative, estimate.names, "derivative")
        if derivative is None:
            J = _derivative(function, params, np.sqrt(self.cov.variance()), values.size)
        else:
            J = _as_numbers("derivative", derivative)
        if J.shape != (values.size, params.size):
            raise ArgumentError(
                "`derivative` must have one row for each value and one column for each parameter, shape "
                f"{(values.size, params.size)}; got shape {J.shape}."
            )
        J = _finite("derivative", J)
        if (self.cov.single or self.cov.paired) and _is_affine(function, params, values, J):
            J = _slopes(function, params, J) if derivative is None else J
            shift, size = values - J @ estimate.params, np.abs(values) + np.abs(J) @ np.abs(estimate.params)
            return self.contrast(J, named, constant=np.where(np.abs(shift) > ROUNDING * size, shift, 0.0))
        cov = replace(self.cov.linear(J, named), single=None, paired=None)
        return self._derived(estimate.transform(lambda _: values, J, named), cov, variance_notes(cov))

    def stack(self, other: Algebra, names: Sequence[str] | None = None) -> Self:
        """Parameters of two results of the same rows, with their joint covariance.

        Two metrics of one log, or two regressions of it, can then be compared: the covariance between them is that of
        the rows' influences, summed within the clusters (seemingly unrelated estimation).

        Parameters
        ----------
        other : Results
            Of the same rows in the same order, with the same clusters and covariance.
        names : list of str, optional
            Names of all parameters, where the two have names in common.

        Returns
        -------
        Results
            Parameters of both, those of `other` last. Where the two have no design in common the default covariance
            is CR1, with a warning.

        Raises
        ------
        ArgumentError
            If rows, clusters or covariances differ, or a name occurs in both.
        NotAvailableError
            If the rows live in an engine, or the estimate is of another kind than means and regressions.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=30, seed=2).assign(short=lambda log: log["n_words"] < 300)
        >>> score, short = (er.mean(log, column, groups="passage") for column in ("score", "short"))
        >>> score.stack(short, ["score", "short"]).contrast("score - short").bse.round(4).to_dict()
        {'score - short': 0.0823}
        """
        first, second = self._parts(other, names)
        return self._joined(first.stack(second))

    def concat(self, other: Algebra, names: Sequence[str] | None = None) -> Self:
        """Parameters of two results of independent rows, whose covariance is zero.

        Parameters
        ----------
        other : Results
            Of other rows, clustered by columns of the same names; its clusters are other clusters, whatever their
            labels. Its covariance is of the same kind.
        names : list of str, optional
            Names of all parameters, where the two have names in common.

        Returns
        -------
        Results
            Parameters of both, those of `other` last; means as if made of all rows at once, by part. Where a part is a
            regression and there are groups, the default covariance is CR1, with a warning.

        Raises
        ------
        ArgumentError
            If clusters or covariances differ in kind, or a name occurs in both.

        Examples
        --------
        >>> import evalreg as er
        >>> spring, autumn = (er.mean(er.datasets.passages(n_passages=30, seed=seed)) for seed in (1, 2))
        >>> both = spring.concat(autumn, ["spring", "autumn"])
        >>> both.cov_params().loc["spring", "autumn"].item()
        0.0
        """
        first, second = self._parts(other, names)
        return self._joined(first.concat(second))

    def _parts(self, other: Algebra, names: Sequence[str] | None) -> tuple[Estimate, Estimate]:
        """The two estimates under their names; raises unless the errors of both are of one kind."""
        if not isinstance(other, Algebra):
            raise ArgumentTypeError(f"`other` must be results, as `mean` or `fit` return; got {type(other).__name__}.")
        if set(self.axes) != set(other.axes) or self.requested != other.requested:
            of = [
                f"{part.cov.options.cov} by {' + '.join(map(axis_name, part.axes)) or 'row'}" for part in (self, other)
            ]
            raise ArgumentError(
                "results side by side must have the same clusters and the same options of the covariance; got "
                f"{of[0]} and {of[1]}. Bring one to the other's with `with_cov`."
            )
        first, second = self.estimate, other.estimate
        if names is None:
            return first, second
        all_names = _as_names(names, first.n_params + second.n_params)
        return replace(first, names=all_names[: first.n_params]), replace(second, names=all_names[first.n_params :])

    def _joined(self, estimate: Estimate) -> Self:
        cov, notes = assembled(estimate, self.axes or None, self.requested)
        return self._derived(estimate, cov, notes)


class Diagnosed(Algebra):
    """Methods that say how much the clusters of an estimate matter."""

    def dependence(self, alpha: float = 0.05) -> pd.DataFrame:
        """How alike the rows of a cluster are, with intervals, beside what that does to the error bar.

        A small correlation can go with a large inflation: in clusters of m rows the variance is multiplied by about
        1 + (m - 1) ICC.

        Parameters
        ----------
        alpha : float, default 0.05
            Level; 0.05 gives 95% intervals.

        Returns
        -------
        DataFrame
            One row for each clustering and parameter. `n_clusters`; `mean_size`, the mean size of the cluster of a row;
            `icc`, the one-way ANOVA correlation of the rows (of a regression's residuals), not truncated at 0, with
            `lower` and `upper`; `implied`, 1 + (mean_size - 1) icc; `design_effect`, the variance if rows were
            dependent within this clustering alone, over that of independent rows; and `se_ratio`, its root. Crossed
            clusterings add rows "together", of the covariance in use. NaN where something is not defined.

        Raises
        ------
        NotAvailableError
            If there are no clusters.

        Warns
        -----
        ZeroVarianceWarning
            If a correlation has no interval.

        Notes
        -----
        Intervals are the wider ends of that of the F distribution (Searle 1971) and that of the jackknife over clusters
        of log F (Arvesen and Schmitz 1970), each assuming that clusters along the other axes do not matter. In
        simulated logs with 5 to 100 clusters, 95% intervals covered the truth in .93 to .99 of the logs for normal
        scores and for 0/1 scores around .7. They are too sure where rows seldom fail: with 5% failures and a
        correlation of .3 they covered it in .83 to .99, with 2% in 50 clusters of five in .76. Intervals are one by
        one.

        References
        ----------
        Searle (1971), Linear Models, section 9.8; Arvesen and Schmitz (1970), Biometrics 26, 677-686; Kish (1965),
        Survey Sampling, section 5.4.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=50, questions_per_passage=20, icc=0.1, seed=1)
        >>> table = er.mean(log, groups="passage").dependence()
        >>> table.loc[("passage", "mean"), ["icc", "lower", "upper", "implied", "design_effect"]].round(2).tolist()
        [0.1, 0.02, 0.23, 2.88, 2.88]
        """
        return dependence_table(self.estimate, self.cov, alpha)

    def diagnostics(self) -> pd.DataFrame:
        """What the clusters look like, and what leaving out the most influential one does.

        Returns
        -------
        DataFrame
            One row a dimension; columns n_clusters, effective_clusters, largest_share, mean_size, max_leverage,
            most_influential (its label), params_without (a dict) and solved: True where these are the parameters of
            the rows without that cluster; False where they are one step from the estimate (GLMs, quantiles and
            functions of parameters), and solving again might name another cluster. Empty for independent rows.

        References
        ----------
        Kish (1965), Survey Sampling, for `effective_clusters`.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=30, unequal=True, seed=4)
        >>> results = er.mean(log, groups="passage")
        >>> results.diagnostics()[["n_clusters", "effective_clusters", "largest_share"]].round(2).values.tolist()
        [[30.0, 16.36, 0.12]]
        """
        se = np.sqrt(self.cov.variance())
        rows = {
            axis_name(axis): asdict(cluster_sizes(self.estimate, axis)) | cluster_influence(self.estimate, axis, se)
            for axis in self.cov.axes
        }
        columns = ["n_clusters", "effective_clusters", "largest_share", "mean_size", "max_leverage", "most_influential"]
        return pd.DataFrame.from_dict(rows, orient="index", columns=[*columns, "params_without", "solved"])

    def influence(self, by: str | None = None) -> pd.DataFrame:
        """Influence of each row, or of each cluster, on each parameter; columns sum to zero.

        Parameters
        ----------
        by : str, optional
            A clustering to sum within; rows by default.

        Returns
        -------
        DataFrame
            Indexed by the position of the row in the data, or by the cluster's label. `from_influence` takes
            that of rows back.

        Raises
        ------
        ArgumentError
            If `by` crosses several clusterings.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=30, unequal=True, seed=4)
        >>> results = er.mean(log, groups="passage")
        >>> results.influence("passage").shape, bool(abs(results.influence()["mean"].sum()) < 1e-9)
        ((30, 1), True)
        """
        axes = () if by is None else parse_groups(by, self.estimate.scores.columns, "by")
        if len(axes) > 1:
            raise ArgumentError(f'`by` must name one clustering, such as "{axis_name(axes[0])}"; got {by!r}.')
        values, index = row_influence(self.estimate, axes[0] if axes else None)
        table = pd.DataFrame(values, index=index, columns=list(self.estimate.names))
        if not axes:
            table.attrs["index"] = "position in the data"
        return table


def _as_names(names: Any, n_values: int) -> tuple[str, ...]:
    """One name for each value."""
    if names is None:
        raise ArgumentError(
            f"`names` must say what the {n_values} value{'s are' if n_values > 1 else ' is'}; it may be left out where "
            "the function returns a Series or a dict."
        )
    labels = (names,) if isinstance(names, str) else tuple(map(str, names))
    if len(labels) != n_values:
        raise ArgumentError(f"`names` must hold one name for each value, here {n_values}; got {listed(labels)}.")
    return labels


def _as_values(values: Any) -> FloatArray:
    """What a function returned as numbers, shape (n_values,)."""
    numbers = np.atleast_1d(_as_numbers("function", list(values.values()) if isinstance(values, dict) else values))
    if numbers.ndim != 1 or not numbers.size:
        raise ArgumentError(f"the function must return a number or a list of numbers; got shape {numbers.shape}.")
    return numbers


def _as_numbers(what: str, values: Any) -> FloatArray:
    try:
        return real_numbers(values)
    except (TypeError, ValueError):
        raise ArgumentError(f"`{what}` must give numbers; got {values!r}.") from None


def _finite(what: str, values: FloatArray) -> FloatArray:
    if not np.isfinite(values).all():
        raise ArgumentError(
            f"the function must be smooth at the estimates; a {what} there is {values[~np.isfinite(values)][0]}."
        )
    return values


def _is_affine(function: Callable[[pd.Series], Any], params: pd.Series, values: FloatArray, J: FloatArray) -> bool:
    """Whether a function is values + J (theta - params), as far as two points that are nearer to zero tell."""
    theta = params.to_numpy()
    away = np.where(theta == 0, 0.5, -theta) * np.arange(1, theta.size + 1) / (2 * theta.size)
    off = [_as_values(function(params + part * away)) - values - part * (J @ away) for part in (0.5, 1.0)]
    return bool(np.all(np.abs(off) <= ROOT_OF_ROUNDING * (np.abs(values) + np.abs(J).sum(axis=1))))


def _slopes(function: Callable[[pd.Series], Any], params: pd.Series, J: FloatArray) -> FloatArray:
    """J of an affine function without the rounding of differences: its weights must sum as they are written."""
    with np.errstate(all="ignore"):
        start, *ends = (_as_values(function(params * 0 + unit)) for unit in np.eye(params.size + 1, params.size, -1))
    slopes = np.column_stack(ends) - start[:, None]
    return slopes if np.allclose(slopes, J, rtol=0, atol=ROOT_OF_ROUNDING * np.max(np.abs(J))) else J


def _derivative(function: Callable[[pd.Series], Any], params: pd.Series, se: FloatArray, n_values: int) -> FloatArray:
    """J by central differences, shape (n_values, n_params)."""
    from statsmodels.tools.numdiff import approx_fprime

    def at(theta: FloatArray) -> FloatArray:
        return _as_values(function(pd.Series(theta, index=params.index)))

    theta = params.to_numpy(copy=True)
    # By itself statsmodels takes no parameter for smaller than 0.1, which moves derivatives with the unit of the score.
    size = np.fmax(np.abs(theta), se)
    step = np.cbrt(np.finfo(np.float64).eps) * np.where(size > 0, size, 0.1)
    J = approx_fprime(theta, at, epsilon=step, centered=True)
    return np.asarray(J, dtype=np.float64).reshape(n_values, params.size)
