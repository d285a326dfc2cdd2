"""Time horizons: how long the tasks are that a model solves with a given chance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, IntArray, fraction, listed
from evalreg.choices import EstimatorOptions, MissingName
from evalreg.covariance.options import requested_options
from evalreg.data.clusters import Groups, with_roles
from evalreg.data.frame import rows_in_memory
from evalreg.data.rows import cells_of, read_rows
from evalreg.errors import ArgumentError, ArgumentTypeError, DataError, MissingColumnError
from evalreg.estimate import About
from evalreg.estimators.cells import function_of, refuse_values
from evalreg.estimators.design import Design
from evalreg.estimators.solving import solve_glm, unequal
from evalreg.inference.intervals import Ratios
from evalreg.results.results import Results, estimator, results_of


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
