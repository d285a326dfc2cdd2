"""What a cluster bootstrap gives: its draws, their spread and their intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, fraction, frozen, keeps, option
from evalreg.errors import ArgumentError, NotAvailableError, Note
from evalreg.report.tables import Grid, Summary, number
from evalreg.resampling.draws import BootWeightsName, seed_text
from evalreg.resampling.intervals import (
    basic_interval,
    bca_interval,
    least_draws,
    percentile_interval,
    studentized_interval,
)

KindName: TypeAlias = Literal["percentile", "basic", "bca", "studentized"]


KINDS: tuple[KindName, ...] = get_args(KindName)


FEW_DRAWS = 999


@keeps("n_clusters")
@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Estimates with the values that they take when clusters are drawn again.

    Made by `bootstrap` and `Results.bootstrap`.

    Parameters
    ----------
    names : tuple of str
        Names of the estimates.
    values : ndarray, shape (n_estimates,)
        Estimates of the data.
    draws : ndarray, shape (n_draws, n_estimates)
        Estimates of the draws, read-only; NaN where a draw has none, infinite where it is lost on one side
        (a model that never won).
    kind : {"percentile", "basic", "bca", "studentized"}
        Interval that was asked for.
    weights : {"multinomial", "bayesian"}
        How clusters are drawn.
    alpha : float
        One minus the level of the interval.
    seed : int or None
        Of the draws; None for a Generator.
    n_clusters : dict of str to int
        Clusters by dimension; empty where rows are drawn one by one.
    jackknife : ndarray, shape (n_clusters, n_estimates), optional
        Estimates without each cluster, for "bca".
    se : ndarray, shape (n_estimates,), optional
        CR0 standard errors of the data, for "studentized".
    draws_se : ndarray, shape (n_draws, n_estimates), optional
        The same of the draws.
    notes : tuple of (category, text)
        What was warned of.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=40, seed=1)
    >>> boot = er.mean(log, groups="passage").bootstrap(draws=999)
    >>> boot.draws.shape, list(boot.conf_int().columns)
    ((999, 1), [0, 1])
    """

    names: tuple[str, ...]
    values: FloatArray
    draws: FloatArray
    kind: KindName
    weights: BootWeightsName
    alpha: float
    seed: int | None
    n_clusters: dict[str, int]
    jackknife: FloatArray | None = None
    se: FloatArray | None = None
    draws_se: FloatArray | None = None
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        for name in ("values", "draws", "jackknife", "se", "draws_se"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, frozen(getattr(self, name)))

    @property
    def estimate(self) -> pd.Series:
        """Estimates of the data, by name."""
        return pd.Series(self.values, index=list(self.names))

    @property
    def bse(self) -> pd.Series:
        """Standard deviation of the draws, by name."""
        return pd.Series(_spread(self.draws), index=list(self.names))

    def conf_int(self, alpha: float | None = None, kind: KindName | None = None) -> pd.DataFrame:
        """Confidence intervals.

        Parameters
        ----------
        alpha : float, optional
            One minus the level; that of the bootstrap by default.
        kind : {"percentile", "basic", "bca", "studentized"}, optional
            That of the bootstrap by default; "bca" and "studentized" only where they were asked for there.

        Returns
        -------
        DataFrame
            Columns 0 and 1, one row an estimate.

        Raises
        ------
        NotAvailableError
            If the bootstrap did not keep what that interval needs.
        ArgumentError
            If there are too few draws for the level.
        """
        ends = intervals(self, self.alpha if alpha is None else alpha, self.kind if kind is None else kind)
        return pd.DataFrame(ends, index=list(self.names), columns=[0, 1])

    def summary(self) -> Summary:
        """Estimates, standard errors and intervals.

        Returns
        -------
        Summary
            Prints as text; also `as_markdown()`, `as_latex()` and `as_html()`.
        """
        return summarize_bootstrap(self)

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def __repr__(self) -> str:
        return self.summary().as_text()


def _spread(draws: FloatArray) -> FloatArray:
    """Standard deviation of the draws of each column that have a value; infinite where some are."""
    finite = np.isfinite(draws)
    n = finite.sum(axis=0)
    centre = np.where(finite, draws, 0.0).sum(axis=0) / np.maximum(n, 1)
    squares = np.where(finite, draws - centre, 0.0) ** 2
    spread = np.where(n > 1, np.sqrt(squares.sum(axis=0) / np.maximum(n - 1, 1)), np.nan)
    return np.where(np.isinf(draws).any(axis=0), np.inf, spread)


def summarize_bootstrap(boot: Bootstrap) -> Summary:
    """The summary of a bootstrap."""
    clusters = ", ".join(f"{n} by {name}" for name, n in boot.n_clusters.items()) or "each row"
    facts = (
        ("Draws", f"{boot.draws.shape[0]} ({boot.weights}, {seed_text(boot.seed)})"),
        ("Clusters", clusters),
        ("Interval", f"{1 - boot.alpha:.4g} {boot.kind}"),
    )
    ends, bse = boot.conf_int().to_numpy(), boot.bse.to_numpy()
    rows = tuple(
        (name, number(value), number(se), number(low), number(high))
        for name, value, se, (low, high) in zip(boot.names, boot.values, bse, ends, strict=True)
    )
    grid = Grid(("", "estimate", "se", "lower", "upper"), rows)
    return Summary("Cluster bootstrap", facts, (grid,), tuple(text for _, text in boot.notes))


def intervals(boot: Bootstrap, alpha: float, kind: KindName) -> FloatArray:
    """Ends of the intervals of a bootstrap. NaN where no draw is finite. Shapes: returns (n_estimates, 2)."""
    option("kind", kind, KINDS)
    alpha = fraction("alpha", alpha)
    refuse_few(boot.draws.shape[0], alpha)
    if kind == "percentile":
        return percentile_interval(boot.draws, alpha)
    if kind == "basic":
        return basic_interval(boot.values, boot.draws, alpha)
    if kind == "studentized" and boot.se is not None and boot.draws_se is not None:
        return studentized_interval(boot.values, boot.se, boot.draws, boot.draws_se, alpha)
    if kind == "bca" and boot.jackknife is not None:
        return bca_interval(boot.values, boot.draws, boot.jackknife, alpha)
    raise NotAvailableError(
        f'this bootstrap did not keep what the "{kind}" interval needs. Pass kind="{kind}" when drawing; "percentile" '
        'and "basic" are always available.'
    )


def refuse_few(draws: int, alpha: float) -> None:
    """Raise if the ends of an interval lie beyond so few draws."""
    least = least_draws(alpha)
    if draws < least:
        raise ArgumentError(
            f"`draws` must be at least {least} for a {1 - alpha:.4g} interval, whose ends are the draws at "
            f"(draws + 1) alpha/2 from either side; got {draws}. Take {FEW_DRAWS} or more, or a larger `alpha`.",
            count=draws,
        )
