"""Regressions of scores by formula, OLS, WLS and GLM, and the time horizons that a logistic one gives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, TypeAlias, Unpack, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalreg.checks import FloatArray, IntArray, fraction, listed, option
from evalreg.choices import EstimatorOptions, FamilyName, MissingName
from evalreg.covariance.options import requested_options
from evalreg.data.clusters import Axis, Groups, names_of, with_roles
from evalreg.data.designs import FormulaColumns, absorbed_columns, read_design
from evalreg.data.engine import Query
from evalreg.data.formula import ParsedFormula, formula_columns, parse_formula
from evalreg.data.frame import Table, open_frame, rows_in_memory
from evalreg.data.rows import Roles, cells_of, read_rows
from evalreg.errors import ArgumentError, ArgumentTypeError, DataError, MissingColumnError, NotAvailableError
from evalreg.estimate import About, Estimate
from evalreg.estimators.cells import estimate_cells, function_of, refuse_values
from evalreg.estimators.design import Design, Family, check_outcomes, estimate_of_family, evaluated, statsmodels_model
from evalreg.estimators.solving import fit_in_engine, shown, solve_absorbed, solve_glm, solve_linear, unequal
from evalreg.inference.intervals import Ratios
from evalreg.numerics.basis import basis_of
from evalreg.results.results import Results, estimator, results_of


@estimator
def fit(
    formula: str,
    data: Any,
    *,
    groups: Groups = None,
    weights: str | npt.ArrayLike | None = None,
    family: FamilyName | Family = "gaussian",
    missing: MissingName = "drop",
    **options: Unpack[EstimatorOptions],
) -> Results:
    """Regression of scores with standard errors valid when rows within a cluster are dependent.

    Rows in different clusters are taken to be independent. Covariates may be in any unit; `results.statsmodels` shows
    the fit as statsmodels does. A coefficient that one cluster alone determines has no standard error.

    Parameters
    ----------
    formula : str
        A patsy formula; ``"score ~ 1"`` is the mean. It may have columns (backticks around a name with a space),
        numbers, arithmetic, comparisons, patsy's functions and numpy's as ``np.log``; nothing else is run. Behind a
        bar, as in ``"score ~ x | question + judge"``, stand factors whose levels are absorbed (``language:question``
        for joint levels): rows are compared within levels, and those alone in a level are dropped and counted.
    data : data frame
        pandas, polars, pyarrow; or a dict of arrays. By least squares also polars LazyFrames, DuckDB relations and
        frames of Spark, Ibis or Dask, whose rows stay where they are: columns, C(...) of them and products of these;
        make other columns in the engine.
    groups : str, list of str, array, Series or dict, optional
        Clusters: a column; ``"prompt + judge"`` crosses two; ``"language:question"`` joins two into one id; backticks
        quote; a list names columns. An array is taken by its length, a Series by its index. None is independent rows.
    weights : str or array_like, shape (n_rows,), optional
        Sampling weights.
    family : {"gaussian", "binomial", "poisson"} or statsmodels family, optional
        Least squares by default; the others are GLMs with their canonical links, and absorb nothing. An instance from
        `sm.families`, such as ``sm.families.Binomial(link=sm.families.links.Probit())``, brings its own link; where
        the Hessian of such a fit is no X'WX with positive weights, the default covariance for clusters is "CR1".
    subset : str, optional
        Which rows to use, in the language of ``--where``: ``'language == "en" and tokens < 100'``. The summary and
        `dropped` count the others. Arrays of groups and weights are those of all rows.
    missing : {"drop", "raise"}, optional
        What to do with rows whose score, covariate or cluster id is missing; dropped rows are counted.
    <cov>
        Covariance; "CR2" by default with groups, "naive" (HC1) without.
    <ssc>
    <dof>
        Degrees of freedom; Satterthwaite under CR2, min over dimensions of G - 1 otherwise, n - k without groups.
    <repair>

    Returns
    -------
    Results
        Speaks statsmodels: `params`, `bse`, `tvalues`, `pvalues`, `conf_int()`, `summary()`.

    Raises
    ------
    FormulaError, MissingColumnError, NonNumericError, NonFiniteError, CollinearityError, ConstantScoreError
        If the formula or the data break a rule; the message says which rows.
    NotAvailableError
        If rows in an engine are to be fitted by another family, with absorbed factors or on what learns from all
        rows, or more absorbed levels span clusters than CR2 can adjust for.
    TooFewClustersError
        If a dimension has one cluster.
    ConvergenceError
        If a GLM does not converge, or separates the outcomes.
    ArgumentError
        If an option is unknown.

    References
    ----------
    Cameron and Miller (2015), JHR 50(2); Bell and McCaffrey (2002), Survey Methodology 28; Pustejovsky and Tipton
    (2018), JBES 36(4), with the theorem 2 as corrected in 2022; Cameron, Gelbach and Miller (2011), JBES 29(2); Abowd,
    Creecy and Kramarz (2002) for the number of coefficients that two absorbed factors are.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
    >>> er.fit("score ~ 1", log, groups="passage").bse.round(4).to_dict()
    {'Intercept': 0.0429}
    >>> both = er.datasets.paired(n_passages=20, seed=1)
    >>> er.fit("score ~ C(model) | question", both, groups="passage").bse.round(4).to_dict()
    {'C(model)[T.old]': 0.0663}
    """
    requested = requested_options(options)
    known_family = named_family(family)
    parsed = parse_formula(formula)
    table, roles = open_frame(data), Roles(parsed.outcome, weights=weights, missing=missing)
    if parsed.absorbed:
        return results_of(*_fit_absorbed(parsed, table, roles, groups, known_family), requested)
    columns = formula_columns(parsed, table.columns)
    if parsed.intercept_only and known_family == "gaussian" and parsed.outcome in columns[0]:
        return results_of(*_fit_mean(parsed, table, roles, groups), requested)
    if isinstance(table, Query):
        return results_of(*fit_in_engine(parsed, table, columns, roles, groups, known_family), requested)
    return results_of(*_fit_rows(parsed, table, columns, roles, groups, known_family), requested)


def named_family(family: Any) -> FamilyName | Family:
    """The name of a family, where it is one of ours with its canonical link; otherwise an instance of statsmodels'."""
    if isinstance(family, str):
        option("family", family, FamilyName)
        return family
    from statsmodels.genmod import families

    if not isinstance(family, families.Family):
        got = f"the class {family.__name__}" if isinstance(family, type) else type(family).__name__
        raise ArgumentTypeError(
            '`family` must be "gaussian", "binomial" or "poisson", or an instance of a statsmodels family such as '
            f"sm.families.Binomial(); got {got}."
        )
    links = families.links
    canonical: dict[tuple[type, type], FamilyName] = {
        (families.Gaussian, links.Identity): "gaussian",
        (families.Binomial, links.Logit): "binomial",
        (families.Poisson, links.Log): "poisson",
    }
    return canonical.get((type(family), type(family.link)), family)


Solved: TypeAlias = "tuple[Estimate, tuple[Axis, ...] | None]"
"""An estimate, and the clusterings asked for."""


def _fit_absorbed(
    parsed: ParsedFormula, table: Table | Query, roles: Roles, groups: Groups, family: FamilyName | Family
) -> Solved:
    """The regression whose formula has factors behind a bar: their levels are taken out of score and covariates."""
    if family != "gaussian":
        raise NotAvailableError(
            f"factors are absorbed in least squares; got family={family!r}, where levels do not drop out of the "
            f"equations. Write {parsed.absorbed!r} among the covariates, as in C(...), if it has few levels; with few "
            "rows in each level that is biased, and a conditional logit (statsmodels' ConditionalLogit) is not."
        )
    columns, factors = absorbed_columns(parsed, names_of(table))
    if isinstance(table, Query):
        needed = listed(dict.fromkeys(name for part in (*columns, *factors) for name in part))
        raise NotAvailableError(
            f"rows in an engine cannot have factors absorbed. Collect the columns {needed} and those of `groups` first."
        )
    rows, held = read_design(parsed, table, columns, roles, groups, factors)
    design = evaluated(parsed, held)
    design.check()
    return solve_absorbed(design, rows, factors, parsed), rows.axes


def _fit_mean(parsed: ParsedFormula, table: Table | Query, roles: Roles, groups: Groups) -> Solved:
    about = About("OLS" if roles.weights is None else "WLS", parsed.outcome, parsed.text)
    # One cell, one coefficient, named as patsy names it.
    estimate, axes = estimate_cells(table, roles, groups, lambda keys, cells: (("Intercept",), np.ones((1, 1))), about)
    if isinstance(table, Table):
        scores: Any = estimate.scores
        held = {parsed.outcome: pd.Series(scores.values, name=parsed.outcome)}
        estimate = replace(estimate, fitted=cache(partial(shown, parsed, held, scores.weights, "gaussian")))
    return estimate, axes


def _fit_rows(
    parsed: ParsedFormula,
    table: Table,
    columns: FormulaColumns,
    roles: Roles,
    groups: Groups,
    family: FamilyName | Family,
) -> Solved:
    rows, held = read_design(parsed, table, columns, roles, groups)
    design, labels = evaluated(parsed, held), rows.labels()
    design.check()
    if not isinstance(family, str):
        # Collinear columns are refused, which statsmodels takes.
        basis = basis_of(design.rows, design.names, rows.weights)
        model = statsmodels_model(parsed.text, pd.DataFrame(held), rows.weights, family)
        estimate = estimate_of_family(model, basis.rows, parsed.text)
        about = replace(estimate.about, outcome=parsed.outcome, formula=parsed.text)
        scores = estimate.scores.relabelled(lambda _: labels)
        estimate = replace(estimate, scores=scores, about=about, dropped=rows.dropped)
    else:
        name = cast(FamilyName, family)
        methods = {"binomial": "GLM, Binomial (logit link)", "poisson": "GLM, Poisson (log link)"}
        about = About(methods.get(name, "OLS" if rows.weights is None else "WLS"), parsed.outcome, parsed.text)
        more = {"fitted": cache(partial(shown, parsed, held, rows.weights, name)), "dropped": rows.dropped}
        if name == "gaussian":
            estimate = solve_linear(
                design, labels, unequal(rows.weights), about, next(iter(rows.axes or ()), None), **more
            )
        else:
            check_outcomes(design.outcome, design.outcome_name, name)
            estimate = solve_glm(design, labels, unequal(rows.weights), name, about, **more)
    return estimate, rows.axes


@dataclass(frozen=True, eq=False, repr=False)
class Horizons(Results):
    """Time horizons of models, in log2 minutes; made by `horizon`.

    Examples
    --------
    >>> import evalreg as er
    >>> runs = {"success": [1, 1, 0, 1, 0, 0] * 20, "minutes": [1, 4, 8, 16, 30, 60] * 20, "model": ["m"] * 120}
    >>> er.horizon(runs).minutes().round(1).loc["m", "estimate"].item()
    10.9
    """

    def minutes(self, alpha: float = 0.05) -> pd.DataFrame:
        """The horizons in minutes.

        Parameters
        ----------
        alpha : float, default 0.05
            Level of the intervals, which are those of `conf_int`.

        Returns
        -------
        DataFrame
            Columns estimate, lower and upper, one row a parameter.
        """
        table = pd.concat([self.params, self.conf_int(alpha)], axis=1)
        with np.errstate(over="ignore"):
            return (2.0**table).set_axis(["estimate", "lower", "upper"], axis=1)

    def trend(self, dates: Mapping[str, Any] | pd.Series) -> Results:
        """Doublings a year: the least-squares slope of the horizons on the dates of the models.

        The error is the noise of the tasks, which all models share. How the models scatter about the line is not in
        it: another set of models would have another slope.

        Parameters
        ----------
        dates : dict or Series
            By model its date: a year, such as 2024.5, or what `pandas.to_datetime` reads. A year is 365.25 days.

        Returns
        -------
        Results
            One parameter, "doublings a year".

        Raises
        ------
        MissingColumnError
            If a model has no date, or there are several `p`.
        ArgumentError
            If all dates are the same.
        ArgumentTypeError
            If something is no date, or a model has two.
        """
        if not hasattr(dates, "items") or len(set(map(str, dates.keys()))) < len(dates):
            raise ArgumentTypeError(f"`dates` must be a dict or Series that names each model once; got {dates!r}.")
        date_of_model = {str(name): date for name, date in dates.items()}
        without = [name for name in self.params.index if name not in date_of_model]
        if without:
            text = f"`dates` must name each model; {listed(without)} is not in it, which holds {listed(date_of_model)}."
            if all(name.rpartition(":")[0] in date_of_model for name in without):
                text = f"`trend` is of one chance; {listed(without)} are of several. Call `horizon` with one `p`."
            raise MissingColumnError(text, column=without[0])
        years = np.array([_year(date_of_model[name]) for name in self.params.index])
        apart = years - years.mean()
        if not np.any(np.abs(apart) > 0):
            raise ArgumentError(f"`dates` must differ for a trend; all are {years[0]:.2f}.")
        results = Results(self.estimate, self.cov, self.axes, self.requested, self.notes)
        return results.contrast([apart / (apart @ apart)], ["doublings a year"])


def _year(date: Any) -> float:
    """A date as a number of years, one of 365.25 days."""
    number = isinstance(date, int | float | np.number) and not isinstance(date, bool)
    try:
        year = float(date if number else 1970 + pd.to_datetime(date, utc=True).timestamp() / (365.25 * 24 * 3600))
    except (TypeError, ValueError, AttributeError):
        year = math.nan
    if not math.isfinite(year):
        raise ArgumentTypeError(f"`dates` must be years or dates; got {date!r}.")
    return year


@estimator
def horizon(
    data: Any,
    success: str = "success",
    *,
    minutes: str = "minutes",
    model: str = "model",
    p: float | Sequence[float] = 0.5,
    groups: Groups = None,
    weights: Any = None,
    missing: MissingName = "drop",
    **options: Unpack[EstimatorOptions],
) -> Horizons:
    """Time horizons: log2 of the human minutes of tasks of which a model solves a share p.

    logit P(success) = b0 + b1 log2(minutes) for each model, so that the horizon is (logit p - b0)/b1. All models are
    fitted at once: tasks that they share are in the covariance, and differences are paired.

    Parameters
    ----------
    data : data frame
        One row a run, in memory: pandas, polars, pyarrow; or a dict of arrays.
    success : str, default "success"
        Column of 0 and 1, or shares.
    minutes : str, default "minutes"
        Column of the time that each task takes a human; positive, and never missing.
    model : str, default "model"
        Column of the models.
    p : float or list of float, default 0.5
        Chances of success, each in (0, 1).
    groups : str, list of str, array, Series or dict, optional
        Clusters, as in `fit`: the family of a task, say. Independent rows by default.
    weights : str or array_like, shape (n_rows,), optional
        Weights of the runs.
    subset : str, optional
        Which rows to use, in the language of ``--where``; frames in memory only.
    missing : {"drop", "raise"}, optional
        What to do with rows without success, model or cluster id; dropped rows are counted.
    <cov>
        Covariance; "CR2" by default with groups, "naive" without.
    <ssc>
    <dof>
        Degrees of freedom, as in `fit`.
    <repair>

    Returns
    -------
    Horizons
        Results in log2 minutes, named by the models, with several `p` as "model:p". `conf_int()` is Fieller's, with
        infinite ends where the slope may be 0; `method="wald"` is the delta method. `minutes()` are the same in
        minutes, `trend(dates)` the doublings a year.

    Raises
    ------
    DataError
        If minutes are missing or not positive, or a model solves everything or nothing, or everything up to some
        length and nothing beyond.
    ArgumentError
        If a chance is not in (0, 1).
    MissingColumnError, NonNumericError, TooFewClustersError
        If the data break another rule.

    References
    ----------
    Kwa et al. (2025), arXiv:2503.14499, section 4; Fieller (1954), JRSS B 16, 175-185.

    Examples
    --------
    >>> import evalreg as er
    >>> runs = {"success": [1, 1, 0, 1, 0, 0] * 20, "minutes": [1, 4, 8, 16, 30, 60] * 20, "model": ["m"] * 120}
    >>> er.horizon(runs, p=[0.5, 0.8]).params.round(2).to_dict()
    {'m:0.5': 3.44, 'm:0.8': 2.25}
    """
    requested = requested_options(options)
    chances = np.array([fraction("p", chance) for chance in np.ravel(np.array(p, dtype=object))])
    if np.unique(chances).size < max(chances.size, 1):
        raise ArgumentError(f"`p` must name each chance once, and at least one; got {p!r}.")
    numbers = {"success": success, "minutes": minutes}
    table, _ = with_roles(rows_in_memory(data, "`horizon`"), numbers, model=model)
    do = "A task without a length has no place on the curve: leave it out."
    length = table.floats(minutes, "minutes")
    refuse_values(~(length > 0), length, minutes, "`minutes` must be positive and never missing", do)
    of_model = {model: "model"}
    rows = read_rows(table, numbers, labels=of_model, weights=weights, groups=groups, missing=missing, split=of_model)
    outcome = rows.values["success"]
    refuse_values((outcome < 0) | (outcome > 1), outcome, success, "`success` must lie in [0, 1]", "Rescale it.")
    keys, cell = cells_of(rows.used, (model,))
    names, n, k = [key[0] for key in keys], len(keys), chances.size
    _refuse_unbounded(names, np.asarray(cell), outcome, rows.values["minutes"], model)
    terms = tuple(f"{term} of {name}" for term in ("intercept", "slope") for name in names)
    coding, numbers_of_terms = np.tile(np.eye(n), 2), (np.log2(rows.values["minutes"]),)
    design = Design(terms, cell, coding, numbers_of_terms, np.repeat([0, 1], n), (), (), outcome, success)
    of_base = About(outcome=success, formula=f"logit {success} ~ log2 {minutes}")
    base = solve_glm(design, rows.labels(), unequal(rows.weights), "binomial", of_base, dropped=rows.dropped)
    # (logit p - b0)/b1, of n intercepts and n slopes.
    each, none = np.repeat(np.eye(n), k, axis=0), np.zeros((n * k, n))
    constants = np.column_stack([np.tile(np.log(chances / (1 - chances)), n), np.zeros(n * k)])
    family = Ratios(base, np.arange(n * k), np.hstack([-each, none]), np.hstack([none, each]), constants)
    line = f"log2 {minutes} at which {success} has the chance {listed(chances.tolist())}; Fieller's intervals."
    title = f"Time horizon in log2 {minutes} by {model}"
    about = About(title, success, lines=(line,), n_models=n if k == 1 else 0, levels=True)
    labels = [name if k == 1 else f"{name}:{chance:g}" for name in names for chance in chances]
    estimate = function_of(base, *family.values(), labels, about, family)
    results = results_of(estimate, rows.axes, requested)
    return Horizons(results.estimate, results.cov, results.axes, results.requested, results.notes)


def _refuse_unbounded(names: list[str], cell: IntArray, outcome: FloatArray, length: FloatArray, model: str) -> None:
    """Each model fails a task shorter than one that it solves, and one longer: else no curve fits best."""
    for code, name in enumerate(names):
        solved, failed = (length[(cell == code) & part] for part in (outcome > 0, outcome < 1))
        no_longer = solved.max(initial=0.0) <= failed.min(initial=np.inf)
        if no_longer or failed.max(initial=0.0) <= solved.min(initial=np.inf):
            only = f"only what is no {'longer' if no_longer else 'shorter'} than all that it fails"
            does = "nothing" if not solved.size else "everything" if not failed.size else only
            text = f"a horizon lies where a model solves some tasks and fails others; {name!r} solves {does}"
            raise DataError(f"{text}. Leave it out, or add runs on other tasks.", column=model, count=1)
