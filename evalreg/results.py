"""Results: an Estimate and its Covariance under statsmodels' names."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from evalreg.bridge import to_statsmodels
from evalreg.checks import (
    INTERVALS,
    CovName,
    CovOptions,
    DofName,
    FloatArray,
    IntervalName,
    RepairName,
    SscName,
    check_cov_options,
    fraction,
    option,
    resolve_cov,
)
from evalreg.clusters import Axis, axis_name, find_axis, parse_groups, summarize_sizes
from evalreg.covariance import Covariance, Groups, assemble, check_estimate, resolve_groups
from evalreg.diagnostics import (
    cluster_influence,
    design_effect,
    effective_clusters,
    effective_rows,
    fragility,
    intraclass_correlation,
    row_influence,
)
from evalreg.errors import (
    ArgumentError,
    NotAvailableError,
    Note,
    ScoreRangeError,
    TooFewClustersError,
    ZeroVarianceWarning,
    issue,
)
from evalreg.estimate import Estimate
from evalreg.inference.proportions import effective_n, logit_interval, proportion_interval, t_quantile
from evalreg.inference.wald import (
    JointTest,
    as_contrast_results,
    as_t_results,
    f_test,
    hotelling_test,
    parse_contrasts,
    t_pvalues,
)
from evalreg.scores import detached
from evalreg.tables import Grid, Summary, number, p_value

if TYPE_CHECKING:
    from statsmodels.stats.contrast import ContrastResults


class _Kept(enum.Enum):
    """Left out: as it was."""

    KEPT = "kept"


KEPT = _Kept.KEPT


@dataclass(frozen=True, eq=False)
class Results:
    """Estimates with standard errors, tests and intervals, under statsmodels' names; immutable.

    Made by `fit`, `mean` and `infer`.

    Parameters
    ----------
    estimate : Estimate
        Parameters and scores.
    cov : Covariance
        Their covariance.
    axes : tuple of Axis
        Clusterings as asked, before nested ones are left out; empty for independent rows.
    asked : CovOptions
        Covariance options as asked; None is a default.
    notes : tuple of (category, text)
        What was warned of.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
    >>> results = er.fit("score ~ 1", log, groups="passage")
    >>> results.with_cov(cov="CR1").dof.to_dict()
    {'Intercept': 39.0}
    """

    estimate: Estimate
    cov: Covariance
    axes: tuple[Axis, ...]
    asked: CovOptions
    notes: tuple[Note, ...] = ()

    @property
    def params(self) -> pd.Series:
        """Estimates, by parameter."""
        return self._series(self.estimate.params)

    @property
    def bse(self) -> pd.Series:
        """Standard errors; 0 where bounded scores do not vary, NaN where the data give none (`notes` says why)."""
        return self._series(np.sqrt(self.cov.variance()))

    @property
    def dof(self) -> pd.Series:
        """Degrees of freedom of t; inf where the normal is the reference."""
        return self._series(self.cov.dof())

    @property
    def tvalues(self) -> pd.Series:
        """Estimates over standard errors; NaN where the standard error is 0 or NaN."""
        se = np.sqrt(self.cov.variance())
        return self._series(self.estimate.params / np.where(se > 0, se, np.nan))

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values of the t tests that each parameter is zero."""
        return self._series(t_pvalues(self.tvalues.to_numpy(), self.cov.dof()))

    @property
    def nobs(self) -> int:
        """Rows in use."""
        return self.estimate.n_rows

    @property
    def n_clusters(self) -> dict[str, int]:
        """Clusters by dimension, the intersections as "prompt:judge"."""
        return dict(self.cov.n_clusters)

    @property
    def dropped(self) -> pd.Series:
        """Rows left out by reason, each counted once: score, then covariate, then group."""
        counts = {"score": 0, "covariate": 0, "group": 0} | self.estimate.dropped
        return pd.Series(counts, name="dropped", dtype="int64")

    @property
    def statsmodels(self) -> Any:
        """A statsmodels results object with this covariance and the smallest degrees of freedom of the parameters."""
        if self.estimate.fitted is None:
            raise AttributeError(
                "`statsmodels` exists for results of `fit` and of `from_statsmodels` that still hold their fit "
                "(contrasts, means, copies and unpickled results do not)."
            )
        return to_statsmodels(
            self.estimate.fitted(), self.cov.matrix, float(np.min(self.cov.dof())), covariance_text(self.cov)
        )

    def cov_params(self) -> pd.DataFrame:
        """Covariance of the parameters, both axes named.

        Returns
        -------
        DataFrame
            Its diagonal is the square of `bse`.
        """
        return self.cov.to_frame()

    def conf_int(self, alpha: float = 0.05, method: IntervalName | None = None) -> pd.DataFrame:
        """Confidence intervals.

        Parameters
        ----------
        alpha : float, optional
            Level; 0.05 gives 95% intervals.
        method : {"wald", "logit", "wilson", "clopper-pearson", "jeffreys"}, optional
            By default "logit" for `mean` of scores in [0, 1], "wald" otherwise. The last three treat the mean as a
            proportion of the effective number of rows (Korn and Graubard).

        Returns
        -------
        DataFrame
            Columns 0 and 1, one row a parameter. Where a mean of scores in [0, 1] has no variance, Clopper-Pearson on
            the effective number of clusters.

        Raises
        ------
        ScoreRangeError
            If a proportion's interval is asked of something that is not a mean of scores in [0, 1].
        """
        return pd.DataFrame(intervals(self, alpha, method), index=list(self.estimate.names), columns=[0, 1])

    def with_cov(
        self,
        *,
        groups: Groups | _Kept = KEPT,
        cov: CovName | _Kept | None = KEPT,
        ssc: SscName | _Kept | None = KEPT,
        dof: DofName | float | _Kept | None = KEPT,
        repair: RepairName | _Kept | None = KEPT,
    ) -> Results:
        """The same estimates with another covariance, without refitting.

        Parameters
        ----------
        groups : str, list of str, array, Series, dict or None, optional
            Clusters as in `fit`; None is independent rows; left out keeps those in use.
        cov, ssc, dof, repair : str, float or None, optional
            As in `fit`; None is the default; left out keeps what was asked.

        Returns
        -------
        Results
            New; this one stays as it is.

        Raises
        ------
        MissingLabelsError
            If a row in use has no cluster id.
        NotAvailableError
            If the source of the labels is gone (after copying or unpickling).
        """
        return rederive(self, groups, {"cov": cov, "ssc": ssc, "dof": dof, "repair": repair})

    def contrast(self, contrast: str | dict[str, float] | Any) -> Results:
        """Linear combinations of the parameters, as results of their own.

        Parameters
        ----------
        contrast : str, dict or array_like
            "A - B", {"A": 1, "B": -1}, or an array with one column a parameter.

        Returns
        -------
        Results
            Variances and degrees of freedom come from the same pieces.
        """
        return contrasted(self, contrast)

    def t_test(self, contrasts: str | dict[str, float] | Any) -> ContrastResults:
        """t tests of linear combinations, as statsmodels' ContrastResults.

        Parameters
        ----------
        contrasts : str, dict or array_like
            "A - B", "A = 0.5", {"A": 1, "B": -1}, or an array with one column a parameter.

        Returns
        -------
        ContrastResults
            `df_denom` has one entry a contrast.
        """
        asked = parse_contrasts(contrasts, self.estimate.names)
        C = asked.matrix
        se = np.sqrt(self.cov.variance(C))
        return as_t_results(C @ self.estimate.params, se, self.cov.dof(C), asked.value)

    def wald_test(self, contrasts: str | dict[str, float] | Any) -> ContrastResults:
        """Joint test of linear combinations, as statsmodels' ContrastResults.

        Under one-way CR2 the approximate Hotelling test HTZ (Pustejovsky and Tipton 2018); otherwise F(q, G - 1),
        crossed on the sum of the one-way pieces.

        Parameters
        ----------
        contrasts : str, dict or array_like, shape (q, n_params)
            Hypotheses, such as "A = B, B = C".

        Returns
        -------
        ContrastResults
            NaN with a `reason` where too few degrees of freedom are left.

        Raises
        ------
        TooFewClustersError
            If there are more hypotheses than clusters less one, and the reference is F(q, G - 1).
        """
        return as_contrast_results(joint_test(self, contrasts))

    def design_effect(self) -> pd.Series:
        """Clustered over naive variance, by parameter.

        Returns
        -------
        Series
            Indexed by parameter.
        """
        return self._series(design_effect(self.cov))

    def n_eff(self) -> pd.Series:
        """Number of independent rows with the same variance, by parameter.

        Returns
        -------
        Series
            Indexed by parameter.
        """
        return self._series(effective_rows(self.estimate, self.cov))

    def icc(self, dimension: str | None = None) -> pd.Series:
        """One-way ANOVA intraclass correlation, not truncated; of the residuals for regressions.

        Parameters
        ----------
        dimension : str, optional
            Which clustering; the first by default.

        Returns
        -------
        Series
            By parameter; NaN where it is not defined.
        """
        if not self.cov.n_clusters:
            return self._series(np.full(self.estimate.n_params, np.nan))
        return self._series(intraclass_correlation(self.estimate, self._axis(dimension)))

    def diagnostics(self) -> pd.DataFrame:
        """What the clusters look like, and what leaving out the most influential one does.

        Returns
        -------
        DataFrame
            One row a dimension; columns n_clusters, effective_clusters, largest_share, mean_size, max_leverage,
            most_influential (its label) and params_without (a dict).
        """
        return diagnose(self)

    def influence(self, by: str | None = None) -> pd.DataFrame:
        """Influence of each row, or of each cluster, on each parameter; columns sum to zero.

        Parameters
        ----------
        by : str, optional
            A clustering to sum within; rows by default.

        Returns
        -------
        DataFrame
            Indexed by the position of the row in the data, or by the cluster's label.
        """
        axis = None if by is None else parse_groups(by, self.estimate.scores.columns)[0]
        values, index = row_influence(self.estimate, axis)
        return pd.DataFrame(values, index=index, columns=list(self.estimate.names))

    def summary(self, alpha: float = 0.05) -> Summary:
        """Tables of estimates and of dependence, and what a careful reader asks.

        Parameters
        ----------
        alpha : float, optional
            Level of the intervals.

        Returns
        -------
        Summary
            Prints as text of 80 columns; also `as_text(width)`, `as_markdown()`, `as_latex()`, `as_html()`.
        """
        return summarize(self, alpha)

    def to_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Estimates, standard errors, tests and intervals, one row a parameter.

        Parameters
        ----------
        alpha : float, optional
            Level of the intervals.

        Returns
        -------
        DataFrame
            Columns estimate, se, naive_se, t, dof, p_value, lower, upper.
        """
        interval = intervals(self, alpha, None)
        columns = {
            "estimate": self.params,
            "se": self.bse,
            "naive_se": self._series(np.sqrt(np.diag(self.cov.naive))),
            "t": self.tvalues,
            "dof": self.dof,
            "p_value": self.pvalues,
            "lower": self._series(interval[:, 0]),
            "upper": self._series(interval[:, 1]),
        }
        return pd.DataFrame(columns)

    def to_latex(self, alpha: float = 0.05) -> str:
        """The summary as LaTeX.

        Parameters
        ----------
        alpha : float, optional
            Level of the intervals.

        Returns
        -------
        str
            Tables and sentences.
        """
        return self.summary(alpha).as_latex()

    def to_markdown(self, alpha: float = 0.05) -> str:
        """The summary as Markdown.

        Parameters
        ----------
        alpha : float, optional
            Level of the intervals.

        Returns
        -------
        str
            Tables and sentences.
        """
        return self.summary(alpha).as_markdown()

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def __repr__(self) -> str:
        rows = f"{self.nobs} rows, {covariance_text(self.cov)}"
        return f"<Results: {self.estimate.about.model} of {self.estimate.about.outcome}, {rows}>\n{self.to_frame()}"

    def __getstate__(self) -> dict[str, Any]:
        estimate = replace(self.estimate, scores=detached(self.estimate.scores), fitted=None)
        return {**self.__dict__, "estimate": estimate}

    def _series(self, values: FloatArray) -> pd.Series:
        return pd.Series(values, index=list(self.estimate.names))

    def _axis(self, dimension: str | None) -> Axis:
        axes = self.cov.axes or self.axes
        return axes[0] if dimension is None else find_axis(dimension, axes)


def infer(
    estimate: Estimate,
    *,
    groups: Groups = None,
    cov: CovName | None = None,
    ssc: SscName | None = None,
    dof: DofName | float | None = None,
    repair: RepairName | None = None,
) -> Results:
    """Results of an estimate under a clustering.

    Rows in different clusters are taken to be independent.

    Parameters
    ----------
    estimate : Estimate
        From `from_statsmodels`, or another result's `estimate`.
    groups : str, list of str, array, Series or dict, optional
        Clusters, as in `fit`.
    cov : {"naive", "CR0", "CR1", "CR2", "CR3", "jackknife"}, optional
        "CR2" by default with groups ("CR1" where the model has no design that CR2 could use), "naive" without.
    ssc : {"statsmodels", "fixest", "sandwich", "G", "none"}, optional
        Factor of CR1.
    dof : {"satterthwaite", "min", "normal"} or float, optional
        Degrees of freedom; Satterthwaite under CR2, min over dimensions of G - 1 otherwise.
    repair : {"max", "eigen", "two-term", "none"}, optional
        What is done to a crossed covariance that is not positive semi-definite.

    Returns
    -------
    Results
        Parameters keep their names.

    Raises
    ------
    EvalregError
        As in `covariance`.

    Examples
    --------
    >>> import evalreg as er, statsmodels.formula.api as smf
    >>> log = er.datasets.passages(n_passages=30, seed=2)
    >>> fitted = smf.ols("score ~ n_words", log).fit()
    >>> er.infer(er.from_statsmodels(fitted), groups="passage", cov="CR1").dof.tolist()
    [29.0, 29.0]
    """
    asked = check_cov_options(cov, ssc, dof, repair)
    check_estimate(estimate)
    scores, axes = resolve_groups(estimate.scores, groups)
    return results_of(replace(estimate, scores=scores), None if groups is None else axes, asked)


def results_of(
    estimate: Estimate,
    axes: tuple[Axis, ...] | None,
    asked: CovOptions,
    notes: tuple[Note, ...] = (),
) -> Results:
    """Covariance and warnings of an estimate, put together; the warnings are issued.

    Parameters
    ----------
    estimate : Estimate
        Parameters and scores that hold the labels of the axes.
    axes : tuple of Axis or None
        Clusterings as asked; None is independent rows.
    asked : CovOptions
        Options as asked.
    notes : tuple of (category, text)
        What else to warn of.

    Returns
    -------
    Results
        With all notes.
    """
    options = resolve_cov(asked, axes is not None, default="CR1" if estimate.refit is None else "CR2")
    cov = assemble(estimate, axes or (), options)
    found = (*notes, *cov.notes, *fragility(estimate, cov), *_variance_notes(cov))
    issue(found)
    return Results(estimate, cov, axes or (), asked, found)


def _variance_notes(cov: Covariance) -> tuple[Note, ...]:
    """Parameters without a positive variance, by reason."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in zip(cov.names, cov.reasons(), strict=True):
        if reason:
            by_reason.setdefault(reason, []).append(name)
    notes = []
    for reason, names in by_reason.items():
        some = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        text = f"{some}: no test, because {reason}; t and p are NaN."
        if cov.bounded and "do not vary" in reason:
            text = (
                f"{some}: {reason}, so the standard error is 0, t and p are NaN, and the interval is Clopper-Pearson "
                "on the effective number of clusters."
            )
        notes.append((ZeroVarianceWarning, text))
    return tuple(notes)


def rederive(results: Results, groups: Any, options: dict[str, Any]) -> Results:
    """Results under another covariance, from the same estimate.

    Parameters
    ----------
    results : Results
        What to start from.
    groups : str, list, array, Series, dict, None or KEPT
        Clusters.
    options : dict
        cov, ssc, dof and repair; KEPT keeps what was asked.

    Returns
    -------
    Results
        New.
    """
    asked = {name: getattr(results.asked, name) for name in ("cov", "ssc", "dof", "repair")}
    given = {name: value for name, value in options.items() if value is not KEPT}
    asked |= given
    if "cov" in given and asked["cov"] != "CR1" and "ssc" not in given:
        # The factor belongs to CR1, and has no meaning for another covariance.
        asked["ssc"] = None
    checked = check_cov_options(**asked)
    estimate, axes = results.estimate, results.axes or None
    if groups is not KEPT:
        scores, found = resolve_groups(estimate.scores, groups)
        estimate, axes = replace(estimate, scores=scores), None if groups is None else found
        if axes is None and checked.cov not in (None, "naive") and "cov" not in given:
            checked = replace(checked, cov=None, ssc=None, dof=None if checked.dof == "satterthwaite" else checked.dof)
    return results_of(estimate, axes, checked)


def contrasted(results: Results, contrast: Any) -> Results:
    """Linear combinations as results, their covariance from the same pieces.

    Parameters
    ----------
    results : Results
        What to start from.
    contrast : str, dict or array_like
        As in `Results.contrast`.

    Returns
    -------
    Results
        Of the contrasts.

    Raises
    ------
    ArgumentError
        If the text sets a contrast equal to something other than zero.
    """
    asked = parse_contrasts(contrast, results.estimate.names)
    if np.any(asked.value != 0):
        raise ArgumentError(
            f"a contrast is a combination of parameters; {contrast!r} compares it with a number. Use `t_test`."
        )
    estimate = results.estimate.linear(asked.matrix, asked.names)
    about = replace(estimate.about, model=f"Contrast of {estimate.about.model}", lines=())
    estimate = replace(estimate, about=about)
    cov = results.cov.linear(asked.matrix, asked.names)
    return replace(results, estimate=estimate, cov=cov, notes=_variance_notes(cov))


def joint_test(results: Results, contrasts: Any) -> JointTest:
    """Wald test of several contrasts, by the rule of the covariance in use.

    Parameters
    ----------
    results : Results
        Parameters and covariance.
    contrasts : str, dict or array_like
        As in `Results.wald_test`.

    Returns
    -------
    JointTest
        The test.

    Raises
    ------
    ArgumentError
        If the hypotheses are linearly dependent.
    TooFewClustersError
        If there are too many of them.
    """
    asked = parse_contrasts(contrasts, results.estimate.names)
    C, cov = asked.matrix, results.cov
    q = C.shape[0]
    if np.linalg.matrix_rank(C) < q:
        raise ArgumentError(f"hypotheses of a joint test must not follow from each other; these {q} have a lower rank.")
    effect = C @ results.estimate.params - asked.value
    reasons = [reason for reason in cov.reasons(C) if reason]
    if reasons:
        return JointTest(float("nan"), q, float("nan"), f"a contrast has no variance, because {reasons[0]}")
    piece = cov.pieces[0]
    if not cov.crossed and cov.axes and cov.options.dof == "satterthwaite":
        eta = piece.hotelling(C)
        return hotelling_test(effect, C @ piece.matrix @ C.T, eta)
    middle = cov.sum_one_way if cov.repaired is None or cov.options.cov == "CR2" else cov.repaired
    rule = cov.options.dof
    dof = np.inf if rule == "normal" else rule if isinstance(rule, float) else cov.smallest_dof
    if cov.axes and q > cov.smallest_dof:
        raise TooFewClustersError(
            f"a joint test needs more clusters than hypotheses; got {q} hypotheses, and {cov.smallest_dof:.0f} "
            f"degree{'' if cov.smallest_dof == 1 else 's'} of freedom between clusters. Test fewer at a time.",
            count=q,
        )
    return f_test(effect, C @ middle @ C.T, dof)


def intervals(results: Results, alpha: float, method: str | None) -> FloatArray:
    """Confidence limits of the parameters, shape (n_params, 2).

    Parameters
    ----------
    results : Results
        Parameters and covariance.
    alpha : float
        Level.
    method : str or None
        As in `Results.conf_int`.

    Returns
    -------
    ndarray, shape (n_params, 2)
        Never of width zero.

    Raises
    ------
    ScoreRangeError
        If a proportion's interval is asked of something else.
    """
    fraction("alpha", alpha)
    estimate, cov = results.estimate, results.cov
    if method is not None:
        option("method", method, INTERVALS)
    if method not in (None, "wald") and not estimate.bounded:
        raise ScoreRangeError(
            f'`method="{method}"` is for means of scores that all lie in [0, 1]; this is {estimate.about.model} of '
            f'{estimate.about.outcome!r}, which is not. Use method="wald".'
        )
    chosen = method or (estimate.about.interval if estimate.bounded else "wald")
    theta, variance, dof = np.array(estimate.params), cov.variance(), cov.dof()
    se, critical = np.sqrt(variance), t_quantile(alpha, dof)
    half = critical * se
    limits = np.column_stack([theta - half, theta + half])
    limits[~(se > 0)] = np.nan
    if not estimate.bounded:
        return limits
    if chosen == "logit":
        inside = (se > 0) & (theta > 0) & (theta < 1)
        limits[inside] = logit_interval(theta[inside], se[inside], critical[inside])
    for rows, rule in ((se == 0, "clopper-pearson"), (se > 0, chosen)):
        if rows.any() and rule not in ("wald", "logit"):
            limits[rows] = proportion_interval(theta[rows], _trials(results, alpha)[rows], alpha, rule)
    return limits


def _trials(results: Results, alpha: float) -> FloatArray:
    """Effective number of 0/1 trials behind each mean; their number itself for independent 0/1 scores."""
    estimate, cov = results.estimate, results.cov
    cells, A = estimate.cells, estimate.coefficient_map
    if cells is None or A is None:
        raise NotAvailableError("a proportion's interval needs means of cells.")
    n = np.asarray((A != 0) @ cells.count, dtype=float)
    clusters = effective_clusters(estimate, cov.axes)
    korn = effective_n(np.array(estimate.params), cov.variance(), n, cov.dof(), clusters, alpha)
    binary = np.isclose(cells.squares, cells.weight * cells.mean * (1 - cells.mean), rtol=1e-9, atol=1e-12)
    plain = not cov.axes and bool(binary.all()) and np.array_equal(cells.count, cells.weight)
    single = np.asarray((A != 0).sum(axis=1)).ravel() == 1
    return np.where(single & plain, n, korn)


def diagnose(results: Results) -> pd.DataFrame:
    """The table of `Results.diagnostics`.

    Parameters
    ----------
    results : Results
        Clustered or not.

    Returns
    -------
    DataFrame
        Empty without clusters.
    """
    estimate, se = results.estimate, np.sqrt(results.cov.variance())
    rows = {}
    for axis in results.cov.axes:
        size = summarize_sizes(estimate.scores.sizes(axis), estimate.n_rows)
        moved = cluster_influence(estimate, axis, se)
        rows[axis_name(axis)] = {
            "n_clusters": size.n_clusters,
            "effective_clusters": size.effective_clusters,
            "largest_share": size.largest_share,
            "mean_size": size.mean_size,
            "max_leverage": moved.max_leverage,
            "most_influential": None if moved.cluster < 0 else estimate.scores.label(axis, moved.cluster),
            "params_without": dict(zip(estimate.names, map(float, moved.params_without), strict=True)),
        }
    columns = ["n_clusters", "effective_clusters", "largest_share", "mean_size", "max_leverage", "most_influential"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=[*columns, "params_without"])


def covariance_text(cov: Covariance) -> str:
    """Covariance and clustering in a few words.

    Parameters
    ----------
    cov : Covariance
        The covariance.

    Returns
    -------
    str
        Such as "CR2 by passage".
    """
    names = " + ".join(axis_name(axis) for axis in cov.axes)
    return f"{cov.options.cov} by {names}" if names else "naive (rows independent)"


def _reference_text(cov: Covariance) -> str:
    rule, dofs = cov.options.dof, cov.dof()
    if np.all(np.isnan(dofs)):
        return "t, without degrees of freedom"
    if np.all(np.isinf(dofs)):
        return "normal"
    low, high = np.nanmin(dofs), np.nanmax(dofs)
    spread = f"{low:.4g}" if np.isclose(low, high) else f"{low:.4g} to {high:.4g}"
    words = {"satterthwaite": "Satterthwaite", "min": "G - 1" if cov.axes else cov.pieces[0].dof_name}
    return f"t, dof {spread} ({words.get(rule, 'given') if isinstance(rule, str) else 'given'})"


FACTORS = {
    "statsmodels": "G/(G-1), and (n-1)/(n-k) for regressions",
    "fixest": "smallest G/(G-1), and (n-1)/(n-k)",
    "sandwich": "G/(G-1), and (n-1)/(n-k) for least squares",
    "G": "G/(G-1)",
    "none": "none",
}


def _factor_text(cov: Covariance) -> str:
    if cov.options.cov == "CR1":
        return f"{FACTORS[cov.options.ssc]} ({cov.options.ssc})"
    words = {
        "naive": "n/(n-1), or n/(n-k) for regressions",
        "CR0": "none",
        "CR2": "(1-h)^(-1/2) in each cluster",
        "CR3": "(G-1)/G, (1-h)^(-1) in each cluster",
        "jackknife": "(G-1)/G",
    }
    return words[cov.options.cov]


def summarize(results: Results, alpha: float) -> Summary:
    """The summary of results.

    Parameters
    ----------
    results : Results
        What to summarise.
    alpha : float
        Level of the intervals.

    Returns
    -------
    Summary
        Ready to print.
    """
    estimate, cov = results.estimate, results.cov
    about, dropped = estimate.about, results.dropped
    facts = [("Score", about.outcome), ("Rows", f"{results.nobs}"), ("Model", about.model)]
    if about.formula:
        facts.append(("Formula", about.formula))
    facts += [("Covariance", covariance_text(cov)), ("Reference", _reference_text(cov)), ("Factor", _factor_text(cov))]
    if dropped.sum():
        parts = ", ".join(f"{count} without {reason}" for reason, count in dropped.items() if count)
        facts.append(("Rows dropped", f"{dropped.sum()} ({parts})"))
    else:
        facts.append(("Rows dropped", "none"))
    if cov.crossed:
        facts.append(("Repair", f"{cov.options.repair}: {cov.change or 'nothing changed'}"))
    grids = [_coefficient_grid(results, alpha)]
    if cov.n_clusters:
        grids.append(_dependence_grid(results))
        grids.append(_cluster_grid(results))
    return Summary("evalreg results", tuple(facts), tuple(grids), tuple(_sentences(results, alpha)))


def _order(results: Results) -> list[int]:
    """Means by model from the best down, everything else as it stands."""
    estimate = results.estimate
    if estimate.kind != "mean" or estimate.n_params == 1:
        return list(range(estimate.n_params))
    return sorted(range(estimate.n_params), key=lambda i: (-estimate.params[i], estimate.names[i]))


def _coefficient_grid(results: Results, alpha: float) -> Grid:
    frame = results.to_frame(alpha)
    low, high = f"[{alpha / 2:.3g}", f"{1 - alpha / 2:.3g}]"
    headers = ("", "coef", "std err", "t", "P>|t|", low, high, "dof")
    rows = []
    for i in _order(results):
        row = frame.iloc[i]
        numbers = [number(row[name]) for name in ("estimate", "se")]
        ends = [number(row[name]) for name in ("lower", "upper")]
        rows.append(
            (frame.index[i], *numbers, number(row["t"], 2), p_value(row["p_value"]), *ends, number(row["dof"], 1))
        )
    return Grid(headers, tuple(rows))


def _dependence_grid(results: Results) -> Grid:
    frame, effect, n_eff, icc = results.to_frame(), results.design_effect(), results.n_eff(), results.icc()
    headers = ("", "naive SE", "clustered", "deff", "eff. n", "ICC")
    rows = tuple(
        (
            str(frame.index[i]),
            number(frame["naive_se"].iloc[i]),
            number(frame["se"].iloc[i]),
            number(effect.iloc[i], 2),
            number(n_eff.iloc[i], 1),
            f"{icc.iloc[i]:.3f}",
        )
        for i in _order(results)
    )
    return Grid(headers, rows)


def _cluster_grid(results: Results) -> Grid:
    rows = []
    estimate = results.estimate
    for axis in results.cov.axes or results.axes:
        size = summarize_sizes(estimate.scores.sizes(axis), estimate.n_rows)
        cells = (f"{size.effective_clusters:.1f}", f"{size.largest_share:.1%}", f"{size.mean_size:.1f}")
        rows.append((axis_name(axis), str(size.n_clusters), *cells))
    return Grid(("clusters", "G", "effective G*", "largest share", "mean size"), tuple(rows))


def _sentences(results: Results, alpha: float) -> list[str]:
    estimate, cov = results.estimate, results.cov
    sentences = list(estimate.about.lines)
    if not cov.axes:
        sentences.append(
            "Rows are treated as independent; if they share passages, prompts or judges, name them in `groups`."
        )
    if cov.n_clusters and np.any(np.isfinite(results.icc())):
        name = axis_name((cov.axes or results.axes)[0])
        what = "rows" if estimate.kind == "mean" else "residuals"
        sentences.append(
            f"deff is the clustered over the naive variance, eff. n the number of independent rows as informative; ICC "
            f"is of {what} within one {name}."
        )
    if estimate.bounded and estimate.about.interval == "logit":
        sentences.append("Intervals are built on the logit scale; t and p are Wald's and may disagree with them.")
    elif estimate.bounded and estimate.n_params == 1 and cov.variance()[0] > 0:
        low, high = intervals(results, alpha, "logit")[0]
        sentences.append(f"Scores lie in [0, 1]: the interval on the logit scale is {low:.4f} to {high:.4f}.")
    few = [axis_name(axis) for axis in cov.axes if cov.n_clusters[axis_name(axis)] < 5] if cov.crossed else []
    if few and cov.options.dof == "satterthwaite":
        strict = replace(results, cov=replace(cov, options=replace(cov.options, dof="min")))
        ends = intervals(strict, alpha, None)
        shown = "; ".join(
            f"{name} {a:.4f} to {b:.4f}" for name, (a, b) in list(zip(estimate.names, ends, strict=True))[:3]
        )
        sentences.append(f"With t({cov.smallest_dof:.0f}), the strictest reading of {', '.join(few)}: {shown}.")
    return [*sentences, *(text for _, text in results.notes)]
