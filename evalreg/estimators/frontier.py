"""Score against cost: which models are on the frontier, which are dominated, and of which the data say neither."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack, cast

import numpy as np
import pandas as pd

from evalreg.checks import fraction, listed
from evalreg.choices import EstimatorOptions, MissingName
from evalreg.covariance.options import requested_options
from evalreg.data.clusters import Groups, known_columns
from evalreg.data.frame import open_frame
from evalreg.errors import ArgumentError
from evalreg.estimate import About, Estimate
from evalreg.estimators.cells import Split, means_of_cells, rows_by_item, side_by_side
from evalreg.inference.questions import unequal_rows
from evalreg.inference.simultaneous import adjust_pvalues
from evalreg.results.results import Results, estimator, results_of

DIRECTIONS = {"max": 1.0, "min": -1.0}


@dataclass(frozen=True, eq=False, repr=False)
class Frontier(Results):
    """Means of several metrics by model, and which models no other one beats; made by `frontier`.

    Parameters
    ----------
    metrics : tuple of (str, float)
        The metrics, with 1 where more is better and -1 where less is.
    alpha : float
        Familywise level of `states`.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.paired(n_passages=40, seed=1)
    >>> log["usd"] = log["model"].map({"new": 0.2, "old": 0.1}) + 0.01 * (log["question"].factorize()[0] % 7)
    >>> er.frontier(log, {"score": "max", "usd": "min"}, item="question", groups="passage").states.to_dict()
    {'new': 'open', 'old': 'frontier'}
    """

    metrics: tuple[tuple[str, float], ...] = ()
    alpha: float = 0.05

    def _derived(self, estimate: Estimate, cov: Any, notes: tuple[Any, ...]) -> Any:
        """Plain results: only all the means have states."""
        return Results(estimate, cov, self.axes, self.requested, notes)

    def _verdict(self) -> str:
        """The states by name."""
        states = self.states
        named = {word: listed(states.index[states == word]) for word in ("frontier", "dominated", "open")}
        each = "; ".join(f"{word}: {names}" for word, names in named.items() if names)
        return f"{each[0].upper()}{each[1:]} (all at a familywise level of {self.alpha:g}, by Holm's method)."

    @property
    def states(self) -> pd.Series:
        """By model "frontier", "dominated" or "open", all at one familywise level.

        A model is dominated where another is shown to be better in every metric, and on the frontier where against each
        other one it is shown to be better in some metric; "open" is neither. Each statement rests on one-sided t tests
        of pairs in a metric, adjusted by Holm's method over all of them; of a difference that is the same in all rows,
        as of prices, on the sign test of the clusters, p = 2^-G.
        """
        signs = np.array([direction for _, direction in self.metrics])
        n, k, units = len(self.params) // signs.size, signs.size, np.eye(len(self.params))
        first, second, metric = (part.ravel() for part in np.indices((n, n, k)))
        C = signs[metric][:, None] * (units[first * k + metric] - units[second * k + metric])
        effect = C @ self.estimate.params
        p = self.cov.pvalues(C, effect) / 2
        same = np.where(effect > 0, 0.5 ** min(self.n_clusters.values(), default=self.nobs // n), 1.0)
        one_sided = np.where(np.isnan(p), same, np.where(effect > 0, p, 1 - p))
        one_sided[first == second] = np.nan
        better = (adjust_pvalues(one_sided, "holm") < self.alpha).reshape(n, n, k)
        undefeated = (better.any(axis=2) | np.eye(n, dtype=bool)).all(axis=1)
        states = np.select([better.all(axis=2).any(axis=0), undefeated], ["dominated", "frontier"], "open")
        names = [name.removesuffix(f":{self.metrics[0][0]}") for name in self.params.index[::k]]
        return pd.Series(states, index=names, name="state")


@estimator
def frontier(
    data: Any,
    metrics: Mapping[str, Literal["max", "min"]],
    *,
    by: str = "model",
    item: str = "item",
    groups: Groups = None,
    alpha: float = 0.05,
    missing: MissingName = "drop",
    **options: Unpack[EstimatorOptions],
) -> Frontier:
    """Means of several metrics by model, and which models are on the Pareto frontier.

    Parameters
    ----------
    data : data frame
        In memory: pandas, polars, pyarrow; or a dict of arrays. One row for each model and item.
    metrics : dict of str to {"max", "min"}
        Columns of at least two metrics, and which of more or less of each is better.
    by, item : str
        Columns of the models and of the items.
    groups : str, list of str, array, Series or dict, optional
        Clusters, as in `mean`; the items by default.
    alpha : float, default 0.05
        Familywise level of `states`.
    subset : str, optional
        Which rows to use, in the language of ``--where``; frames in memory only.
    missing : {"drop", "raise"}, optional
        What to do with rows where something is missing; they are dropped from all metrics, and counted.
    <cov>
        Covariance; "CR2" by default.
    <ssc>
    <dof>
        Degrees of freedom, as in `mean`.
    <repair>

    Returns
    -------
    Frontier
        Results: means named "model:metric", all in one covariance. `states` says which models are on the frontier,
        dominated or open.

    Raises
    ------
    ArgumentError, MissingColumnError
        If there are fewer than two metrics, a direction is another, or a metric is no column.
    DataError, DuplicateRowsError, ConstantScoreError
        If there is one model, a model has several rows on an item, or a metric does not vary.

    References
    ----------
    Holm (1979), Scandinavian Journal of Statistics 6, 65-70; Berger (1982), Technometrics 24, 295-300 (better in every
    metric, by an intersection of tests).

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.paired(n_passages=40, seed=1).assign(words=lambda log: 50 + 10 * log["score"])
    >>> results = er.frontier(log, {"score": "max", "words": "min"}, item="question", groups="passage")
    >>> results.params.round(2).to_dict()
    {'new:score': 0.78, 'new:words': 57.85, 'old:score': 0.74, 'old:words': 57.45}
    """
    requested = requested_options(options)
    fraction("alpha", alpha)
    chosen: list[Any] = list(metrics.values()) if isinstance(cast("Any", metrics), Mapping) else []
    if len(chosen) < 2 or any(direction not in tuple(DIRECTIONS) for direction in chosen):
        raise ArgumentError(f'`metrics` must be a dict of at least two columns to "max" or "min"; got {metrics!r}.')
    table, clusters = open_frame(data), item if groups is None else groups
    known_columns(list(metrics), table.columns, "metrics")
    numbers = {name: name for name in metrics}
    rows, models, cell = rows_by_item(table, numbers, {"by": by, "item": item}, missing, clusters)
    parts = []
    for name in metrics:
        split = Split(rows, tuple(f"{model}:{name}" for model in models), cell)
        # In [0, 1] a metric may be the same in all rows of a model, as a price is.
        low, spread = rows.values[name].min(), np.ptp(rows.values[name]) or 1.0
        means = means_of_cells(split, (rows.values[name] - low) / spread, name)
        parts.append(means.linear(spread * np.eye(len(models)), split.names).moved(low))
    about = About(f"Means by {by}", ", ".join(metrics))
    unequal = unequal_rows(rows.labels(item), (item,), cell, models)
    results = results_of(
        replace(side_by_side(parts), about=about, default_groups=[item]), rows.axes, requested, unequal
    )
    signs = tuple((name, DIRECTIONS[direction]) for name, direction in metrics.items())
    return Frontier(results.estimate, results.cov, results.axes, results.requested, results.notes, signs, alpha)
