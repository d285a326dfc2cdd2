"""Time horizons: how long the tasks are that a model solves with a given chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import (
    MISSING,
    CovName,
    DofName,
    FloatArray,
    MissingName,
    RepairName,
    SscName,
    fraction,
    listed,
    option,
)
from evalreg.covariance.options import check_cov_options, documented
from evalreg.data.frame import Table
from evalreg.data.groups import Groups
from evalreg.data.joint_ids import with_roles
from evalreg.data.opening import open_frame
from evalreg.errors import (
    ArgumentError,
    ArgumentTypeError,
    DataError,
    MissingColumnError,
    ScoreRangeError,
    muted,
)
from evalreg.estimate import About
from evalreg.estimators.functions_of_means import function_of
from evalreg.estimators.linearized import in_memory
from evalreg.estimators.regression import fit
from evalreg.estimators.subsets import chooses_rows
from evalreg.inference.fieller import Ratios
from evalreg.results.results import Results, results_of

# Columns that the regression is of.
SUCCESS, LENGTH, MODEL = "success of a run", "log2 minutes", "model of a run"
DAYS_A_YEAR = 365.25


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
        alpha : float, optional
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
            If a model has no date.
        ArgumentError
            If there are several `p`, or all dates are the same.
        """
        names = list(self.params.index)
        given = {str(name): date for name, date in dates.items()}
        without = [name for name in names if name not in given]
        if without:
            raise MissingColumnError(
                f"`dates` must name each parameter, a model at one `p`; {listed(without)} is not in it, which holds "
                f"{listed(given)}.",
                column=without[0],
            )
        years = np.array([_year(given[name]) for name in names])
        apart = years - years.mean()
        if not np.any(np.abs(apart) > 0):
            raise ArgumentError(f"`dates` must differ for a trend; all are {years[0]:.2f}.")
        return Results(*_as_parts(self)).linear([apart / (apart @ apart)], ["doublings a year"])


def _as_parts(results: Results) -> tuple[Any, ...]:
    return results.estimate, results.cov, results.axes, results.asked, results.notes


def _year(date: Any) -> float:
    if isinstance(date, int | float | np.number) and not isinstance(date, bool):
        return float(date)
    try:
        return 1970.0 + float((pd.to_datetime(date) - pd.Timestamp(0)) / pd.Timedelta(days=DAYS_A_YEAR))
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"`dates` must be years or dates; got {date!r}.") from None


@chooses_rows()
@documented
def horizon(
    data: Any,
    success: str = "success",
    *,
    minutes: str = "minutes",
    model: str = "model",
    p: float | Sequence[float] = 0.5,
    groups: Groups = None,
    weights: Any = None,
    subset: str | None = None,
    missing: MissingName = "drop",
    cov: CovName | None = None,
    ssc: SscName | None = None,
    dof: DofName | float | None = None,
    repair: RepairName | None = None,
) -> Horizons:
    """Time horizons: log2 of the minutes that a task takes a human of which a model solves a share p.

    logit P(success) = b0 + b1 log2(minutes) for each model, so that the horizon is (logit p - b0)/b1. All models are
    fitted at once: tasks that they share are in the covariance, and differences are paired.

    Parameters
    ----------
    data : data frame
        One row a run, in memory: pandas, polars, pyarrow; or a dict of arrays.
    success : str
        Column of 0 and 1, or shares.
    minutes : str
        Column of the time that each task takes a human; positive, and never missing.
    model : str
        Column of the models.
    p : float or list of float, optional
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
        If minutes are missing or not positive, or a model solves everything or nothing.
    ArgumentError
        If a chance is not in (0, 1).
    ConvergenceError
        If the lengths of tasks separate what a model solves from what it does not.
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
    asked = check_cov_options(cov, ssc, dof, repair)
    option("missing", missing, MISSING)
    chances = np.array([fraction("p", one) for one in (p if isinstance(p, list | tuple | np.ndarray) else [p])])
    if np.unique(chances).size < max(chances.size, 1):
        raise ArgumentError(f"`p` must name each chance once, and at least one; got {p!r}.")
    table, _ = with_roles(
        in_memory(open_frame(data), "time horizon"), {"success": success, "minutes": minutes}, by=model
    )
    lengths = _lengths(table, minutes)
    codes, names = _models(table, model, success)
    frame = table.frame
    columns = {
        SUCCESS: table.floats(success, "success"),
        LENGTH: lengths,
        MODEL: [None if code < 0 else f"{code:09d}" for code in codes],
    }
    series = [nw.new_series(name, values, backend=frame.implementation) for name, values in columns.items()]
    whole = Table(frame.with_columns(*series), chosen=table.chosen)
    with muted():
        formula = f"`{SUCCESS}` ~ 0 + C(`{MODEL}`) + C(`{MODEL}`):`{LENGTH}`"
        base = fit(
            formula, whole, groups=groups, weights=weights, family="binomial", missing=missing, **_options(asked)
        )
    coefficients = base.estimate
    n, k = len(names), chances.size
    intercept, slope = np.repeat(np.eye(n), k, axis=0), np.array(coefficients.params)[n:].repeat(k)
    level = np.tile(np.log(chances / (1 - chances)), n)
    numerator = np.hstack([-intercept, np.zeros((n * k, n))])
    denominator = np.hstack([np.zeros((n * k, n)), intercept])
    value = (level + numerator @ coefficients.params) / slope
    jacobian = (numerator - value[:, None] * denominator) / slope[:, None]
    labels = [name if k == 1 else f"{name}:{chance:g}" for name in names for chance in chances]
    family = Ratios(coefficients, numerator, denominator, np.column_stack([level, np.zeros(n * k)]))
    line = f"log2 {minutes} at which {success} has the chance {listed(chances.tolist())}; intervals are Fieller's."
    about = About(f"Time horizon by {model}", success, lines=(line,), n_models=n if k == 1 else 0)
    estimate = function_of(coefficients, value, jacobian, labels, about, family)
    made = results_of(estimate, base.axes or None, asked)
    return Horizons(*_as_parts(made))


def _options(asked: Any) -> dict[str, Any]:
    return {name: getattr(asked, name) for name in ("cov", "ssc", "dof", "repair")}


def _lengths(table: Table, minutes: str) -> FloatArray:
    """log2 of the minutes, all of which are there and positive."""
    values = table.floats(minutes, "minutes")
    wrong = ~(values > 0)
    if wrong.any():
        first = values[wrong][0]
        raise DataError(
            f"`minutes` must be positive and never missing; column {minutes!r} is "
            f"{'missing' if np.isnan(first) else f'{first:g}'} in the first of {int(wrong.sum())} such rows. A task "
            "without a length has no place on the curve: leave it out.",
            column=minutes,
            count=int(wrong.sum()),
        )
    return np.log2(values)


def _models(table: Table, model: str, success: str) -> tuple[Any, list[str]]:
    """Codes of the models in the order of their names, -1 where missing; each solves something, but not everything."""
    found, labels = table.labels(model, "model")
    outcome = table.floats(success, "success")
    outside = (outcome < 0) | (outcome > 1)
    if outside.any():
        raise ScoreRangeError(
            f"`success` must lie in [0, 1]; column {success!r} is {outcome[outside][0]:g} in one of "
            f"{int(outside.sum())} rows outside.",
            column=success,
            count=int(outside.sum()),
        )
    order = sorted(np.unique(found[found >= 0]), key=lambda code: str(labels[code]))
    names = [str(labels[code]) for code in order]
    if len(set(names)) < len(names) or not names:
        raise DataError(f"models must have distinct names as text; column {model!r} has {listed(names)}.", column=model)
    place = np.full(len(labels) + 1, -1)
    place[order] = np.arange(len(order))
    for code, name in zip(order, names, strict=True):
        own = outcome[(found == code) & ~np.isnan(outcome)]
        if own.size and (own.min() == own.max()) and own[0] in (0.0, 1.0):
            what = "everything" if own[0] else "nothing"
            raise DataError(
                f"a model needs both successes and failures; {name!r} solves {what}, so that its horizon is beyond all "
                "tasks. Leave it out, or add longer and shorter tasks.",
                column=model,
                count=1,
            )
    return place[found], names
