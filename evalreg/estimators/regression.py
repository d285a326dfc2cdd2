"""Regressions of scores by formula: OLS, WLS and GLM, shown as statsmodels results."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any, TypeAlias, Unpack, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalreg.checks import family_hint, listed, option
from evalreg.choices import EstimatorOptions, FamilyName, MissingName
from evalreg.covariance.options import requested_options
from evalreg.data.clusters import Axis, Groups, names_of
from evalreg.data.designs import FormulaColumns, absorbed_columns, read_design
from evalreg.data.engine import Query
from evalreg.data.formula import ParsedFormula, formula_columns, parse_formula
from evalreg.data.frame import Table, open_frame
from evalreg.data.rows import Roles
from evalreg.errors import ArgumentTypeError, NotAvailableError
from evalreg.estimate import About, Estimate
from evalreg.estimators.cells import estimate_cells
from evalreg.estimators.design import Family, check_outcomes, estimate_of_family, evaluated, statsmodels_model
from evalreg.estimators.solving import fit_in_engine, shown, solve_absorbed, solve_glm, solve_linear, unequal
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
        option("family", family, FamilyName, family_hint(family))
        return family
    from statsmodels.genmod import families

    if isinstance(family, type) and issubclass(family, families.Family):
        raise ArgumentTypeError(
            f"`family` must be an instance of a statsmodels family; got the class {family.__name__}. Write "
            f"sm.families.{family.__name__}()."
        )
    if not isinstance(family, families.Family):
        raise ArgumentTypeError(
            '`family` must be "gaussian", "binomial" or "poisson", or a statsmodels family such as '
            f"sm.families.Binomial(); got {type(family).__name__}."
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
            estimate = solve_linear(design, labels, unequal(rows.weights), about, **more)
        else:
            check_outcomes(design.outcome, design.outcome_name, name)
            estimate = solve_glm(design, labels, unequal(rows.weights), name, about, **more)
    return estimate, rows.axes
