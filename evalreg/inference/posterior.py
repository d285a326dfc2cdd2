"""Posteriors of means of 0/1 scores, from the counts of their clusters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, IntArray, fraction, listed, option
from evalreg.data.clusters import Axis, axis_name
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.errors import ArgumentError, NotAvailableError, ScoreRangeError
from evalreg.estimate import Cells, Estimate
from evalreg.inference.beta_binomial import Marginal, beta_binomial
from evalreg.numerics.matrices import dense

CredibleName: TypeAlias = Literal["equal-tailed", "highest-density"]
CREDIBLE: tuple[CredibleName, ...] = get_args(CredibleName)

# Lower tails among which the shortest interval is looked for.
TAILS = 1001


@dataclass(frozen=True, eq=False)
class Posterior:
    """Posteriors of success rates and of the correlation within clusters, one for each mean.

    Made by `Results.posterior`. Each mean has a posterior of its own: nothing is said of differences between models,
    which share their questions, so that their posteriors are not independent.

    Parameters
    ----------
    names : tuple of str
        Of the means.
    rates : tuple of Marginal
        Posterior of each mean.
    correlations : tuple of Marginal or None
        Posterior of each intraclass correlation; None where no cluster has two rows.
    n_rows, n_clusters : tuple of int
        Of each mean.
    by : str
        The clustering; empty for independent rows.
    prior, icc_prior : tuple of float
        Beta priors of the mean and of the intraclass correlation.
    outcome : str
        The score's name.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=15, questions_per_passage=4, seed=3)
    >>> posterior = er.mean(log, groups="passage").posterior()
    >>> print(posterior.interval().round(3).to_string())
              0      1
    mean  0.558  0.854
    >>> posterior.probability(above=0.6).round(3).to_dict()
    {'mean': 0.934}
    """

    names: tuple[str, ...]
    rates: tuple[Marginal, ...]
    correlations: tuple[Marginal | None, ...]
    n_rows: tuple[int, ...]
    n_clusters: tuple[int, ...]
    by: str
    prior: tuple[float, float]
    icc_prior: tuple[float, float]
    outcome: str = "score"

    @property
    def mean(self) -> pd.Series:
        """Posterior means, by parameter."""
        return self._series(lambda rate: rate.mean)

    @property
    def median(self) -> pd.Series:
        """Posterior medians, by parameter."""
        return self._series(lambda rate: float(rate.quantiles(np.array([0.5]))[0]))

    @property
    def icc(self) -> pd.Series:
        """Posterior means of the intraclass correlation; NaN where no cluster has two rows."""
        means = [np.nan if part is None else part.mean for part in self.correlations]
        return pd.Series(means, index=list(self.names))

    def interval(self, alpha: float = 0.05, kind: CredibleName = "equal-tailed") -> pd.DataFrame:
        """Credible intervals.

        Parameters
        ----------
        alpha : float, optional
            One minus the probability inside.
        kind : {"equal-tailed", "highest-density"}, optional
            alpha/2 on either side, or the shortest interval.

        Returns
        -------
        DataFrame
            Columns 0 and 1, one row a parameter.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If `alpha` is not between 0 and 1, or `kind` is unknown.
        """
        alpha = fraction("alpha", alpha)
        find = _equal_tailed if option("kind", kind, CREDIBLE) == "equal-tailed" else _shortest
        return pd.DataFrame([find(rate, alpha) for rate in self.rates], index=list(self.names), columns=[0, 1])

    def probability(self, above: float) -> pd.Series:
        """Posterior probability that a mean is above a number.

        Parameters
        ----------
        above : float
            Strictly between 0 and 1.

        Returns
        -------
        Series
            By parameter.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If `above` is not between 0 and 1.
        """
        value = fraction("above", above)
        return self._series(lambda rate: 1 - rate.below(value))

    def to_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Everything in one table.

        Parameters
        ----------
        alpha : float, optional
            One minus the probability inside the interval.

        Returns
        -------
        DataFrame
            By parameter: mean, median, lower, upper (equal-tailed), icc, n, n_clusters.
        """
        ends = self.interval(alpha)
        parts = {"mean": self.mean, "median": self.median, "lower": ends[0], "upper": ends[1], "icc": self.icc}
        return pd.DataFrame({**parts, "n": self.n_rows, "n_clusters": self.n_clusters})

    def _series(self, of: Callable[[Marginal], float]) -> pd.Series:
        return pd.Series([of(rate) for rate in self.rates], index=list(self.names))

    def __repr__(self) -> str:
        model = f"Beta-binomial by {self.by}" if self.by else "Beta, rows independent"
        priors = f"mean Beta{self.prior}" + (f", ICC Beta{self.icc_prior}" if self.by else "")
        table = self.to_frame().round(4).to_string()
        return f"<Posterior of {self.outcome}: {model}; priors: {priors}; 95% equal-tailed>\n{table}"


def _equal_tailed(rate: Marginal, alpha: float) -> FloatArray:
    return rate.quantiles(np.array([alpha / 2, 1 - alpha / 2]))


def _shortest(rate: Marginal, alpha: float) -> FloatArray:
    lower = np.linspace(0.0, alpha, TAILS)
    low, high = rate.quantiles(lower), rate.quantiles(lower + 1 - alpha)
    # A tail of zero ends at the bound, not where the computed part of the posterior does.
    best = int(np.argmin(high - low))
    return np.array([low[best], high[best]])


def posterior_of(estimate: Estimate, axes: tuple[Axis, ...], prior: Any, icc_prior: Any) -> Posterior:
    """Posteriors of means of 0/1 scores, one cell each, in at most one clustering; priors as in `Results.posterior`."""
    priors = _beta("prior", prior), _beta("icc_prior", icc_prior)
    if len(axes) > 1:
        raise NotAvailableError(
            f"a posterior needs one clustering; got {listed(axis_name(axis) for axis in axes)} crossed. In the "
            "beta-binomial model rows of different clusters are independent, which rows that share a cluster of "
            "another clustering are not. Use with_cov(groups=...) with one of them, or conf_int()."
        )
    column = _columns(estimate)
    counts = [_counts(estimate, axes, int(k)) for k in column]
    found = [beta_binomial(*count, prior=priors[0], icc=priors[1]) for count in counts]
    together = [bool(np.max(sizes) > 1) for _, sizes in counts]
    return Posterior(
        names=estimate.names,
        rates=tuple(rate for rate, _ in found),
        correlations=tuple(icc if more else None for (_, icc), more in zip(found, together, strict=True)),
        n_rows=tuple(int(sizes.sum()) for _, sizes in counts),
        n_clusters=tuple(int(sizes.size) for _, sizes in counts),
        by=axis_name(axes[0]) if axes else "",
        prior=priors[0],
        icc_prior=priors[1],
        outcome=estimate.about.outcome,
    )


def _beta(name: str, value: Any) -> tuple[float, float]:
    """Parameters of a Beta prior; from 1/2 on, so that the density of the angle is finite."""
    numbers = isinstance(value, list | tuple) and len(value) == 2
    numbers = numbers and all(isinstance(v, int | float | np.number) and not isinstance(v, bool) for v in value)
    if not numbers or not all(0.5 <= float(v) < np.inf for v in value):
        raise ArgumentError(
            f"`{name}` must be the two parameters of a Beta distribution, each at least 0.5, as in (1, 1); "
            f"got {value!r}."
        )
    return float(value[0]), float(value[1])


def _columns(estimate: Estimate) -> IntArray:
    """The cell of each parameter; all its scores are 0 or 1."""
    cells, A = estimate.cells, estimate.coefficient_map
    if cells is None or A is None or not estimate.scores.of_means:
        raise _not_means(estimate)
    A = dense(A)
    if not (((A != 0).sum(axis=1) == 1) & (A.sum(axis=1) == 1)).all():
        raise _not_means(estimate)
    if not np.array_equal(cells.count, cells.weight):
        raise NotAvailableError(
            "a posterior counts successes among rows; rows with `weights` cannot be counted. Fit again without "
            "`weights`, or use conf_int()."
        )
    column = np.asarray(np.argmax(A != 0, axis=1))
    _check_binary(estimate, cells, column)
    if not estimate.bounded:
        raise _not_means(estimate)  # Differences, of which none is below 0 here; a mean with a constant added.
    return column


def _not_means(estimate: Estimate) -> NotAvailableError:
    return NotAvailableError(
        "a posterior is for results of `evalreg.mean` without strata, each parameter the plain mean of rows of its "
        f"own; this is {estimate.about.model} of {estimate.about.outcome!r}. Use conf_int()."
    )


def _check_binary(estimate: Estimate, cells: Cells, column: IntArray) -> None:
    inside = (cells.low >= 0) & (cells.high <= 1)
    binary = inside & np.isclose(cells.squares, cells.count * cells.mean * (1 - cells.mean), rtol=1e-9, atol=1e-12)
    if binary[column].all():
        return
    names = [name for name, k in zip(estimate.names, column, strict=True) if not binary[k]]
    rule = f"a posterior is for scores of 0 and 1; {estimate.about.outcome!r}"
    remedy = "Answers that were averaged can be passed as rows of their own, with groups= their item; otherwise use "
    parts = estimate.scores.in_cells()
    if len(parts) != 1:
        text = f"{rule} holds others in {listed(names)}. {remedy}conf_int()."
        raise ScoreRangeError(text, column=estimate.about.outcome, count=len(names))
    rows, count = row_list(~np.isin(parts[0].values, (0.0, 1.0)))
    text = f"{rule} holds others in {listed(names)} ({rows_text(rows, count)} of those in use). {remedy}conf_int()."
    raise ScoreRangeError(text, column=estimate.about.outcome, rows=rows, count=count)


def _counts(estimate: Estimate, axes: tuple[Axis, ...], column: int) -> tuple[IntArray, IntArray]:
    """Successes and rows of each cluster of a cell."""
    cells = estimate.cells
    assert cells is not None
    mean = float(cells.mean[column])
    if not axes:
        n = int(cells.count[column])
        return (np.arange(n) < round(mean * n)).astype(np.intp), np.ones(n, dtype=np.intp)
    totals, sizes = [], []
    for block in estimate.scores.cells(axes[0]):
        assert block.gram is not None
        size = dense(block.gram[:, [column]])[:, 0]
        here = size > 0
        totals.append(dense(block.totals[:, [column]])[here, 0])
        sizes.append(size[here])
    size = np.concatenate(sizes)
    successes = np.rint(np.concatenate(totals) + mean * size)
    return successes.astype(np.intp), size.astype(np.intp)
