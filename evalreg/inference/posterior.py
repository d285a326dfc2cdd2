"""Posteriors of means of 0/1 scores, from the counts of their clusters: the beta-binomial model, by quadrature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import special

from evalreg.checks import FloatArray, IntArray, fraction, listed
from evalreg.data.clusters import Axis, axis_name, rows_where
from evalreg.errors import ArgumentError, ArgumentTypeError, NotAvailableError, ScoreRangeError
from evalreg.estimate import Estimate
from evalreg.numerics.limits import LAST_DIGITS, ROOT_OF_ROUNDING
from evalreg.numerics.matrices import dense
from evalreg.numerics.roots import crossings

if TYPE_CHECKING:
    from scipy.interpolate import PPoly


@dataclass(frozen=True, eq=False)
class Posterior:
    """Posteriors of success rates and of the correlation within clusters, one for each mean.

    Made by `posterior`. Each mean has a posterior of its own: there is none of differences between models,
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
    >>> posterior = er.posterior(er.mean(log, groups="passage"))
    >>> print(posterior.interval().round(3).to_string())
              0      1
    mean  0.558  0.854
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

    def interval(self, alpha: float = 0.05) -> pd.DataFrame:
        """Credible intervals, with alpha/2 on either side.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the probability inside.

        Returns
        -------
        DataFrame
            Columns 0 and 1, one row a parameter.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If `alpha` is not between 0 and 1.
        """
        alpha = fraction("alpha", alpha)
        ends = [rate.quantiles(np.array([alpha / 2, 1 - alpha / 2])) for rate in self.rates]
        return pd.DataFrame(ends, index=list(self.names), columns=[0, 1])

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
        alpha : float, default 0.05
            One minus the probability inside the interval.

        Returns
        -------
        DataFrame
            By parameter: mean, median, lower, upper, icc, n, n_clusters.
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


def posterior(
    results: Any, *, prior: tuple[float, float] = (1.0, 1.0), icc_prior: tuple[float, float] = (1.0, 1.0)
) -> Posterior:
    """Beta-binomial posteriors of means of 0/1 scores, for evals of few clusters.

    Each cluster has a success rate of its own, drawn from a Beta distribution with mean mu and intraclass correlation
    rho; its rows are independent given the rate. Without groups this is the Beta posterior. Computed by quadrature, so
    that nothing is drawn at random.

    Parameters
    ----------
    results : Results
        Of `mean`, with at most one clustering.
    prior : (float, float), optional
        Beta prior of mu; (1, 1), the default, is uniform, (0.5, 0.5) Jeffreys'.
    icc_prior : (float, float), optional
        Beta prior of rho; uniform by default.

    Returns
    -------
    Posterior
        `mean`, `median`, `interval()`, `probability(above)`, `icc` and `to_frame()`, for each mean by itself.

    Raises
    ------
    ScoreRangeError
        If scores are not all 0 or 1.
    NotAvailableError
        If clusterings are crossed, rows are weighted, the parameters are not plain means of rows, or they are of a
        finite benchmark.
    ArgumentError, ArgumentTypeError
        If `results` are none, or a prior is not two numbers of at least 0.5.

    References
    ----------
    Bowyer, Aitchison and Ivanova (2025), arXiv:2503.01747, whose model of clustered evals this is, with another
    prior; Skellam (1948), JRSS B 10(2), 257-261.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=15, questions_per_passage=4, seed=3)
    >>> er.posterior(er.mean(log, groups="passage")).probability(above=0.6).round(3).to_dict()
    {'mean': 0.934}
    """
    if not isinstance(getattr(results, "estimate", None), Estimate):
        raise ArgumentTypeError(f"`results` must be those of `mean`; got {type(results).__name__}.")
    estimate, axes = results.estimate, results.cov.axes
    refuse_population(estimate, "`posterior`")
    priors = _beta("prior", prior), _beta("icc_prior", icc_prior)
    if len(axes) > 1:
        raise NotAvailableError(
            f"a posterior needs one clustering; got {listed(axis_name(axis) for axis in axes)} crossed. In the "
            "beta-binomial model rows of different clusters are independent, which rows that share a cluster of "
            "another clustering are not. Use with_cov(groups=...) with one of them, or conf_int()."
        )
    counts = [_counts(estimate, axes, int(k)) for k in _columns(estimate)]
    rates, correlations = zip(*(beta_binomial(*each, prior=priors[0], icc=priors[1]) for each in counts), strict=True)
    sizes = [sizes for _, sizes in counts]
    return Posterior(
        names=estimate.names,
        rates=rates,
        correlations=tuple(icc if np.max(n) > 1 else None for icc, n in zip(correlations, sizes, strict=True)),
        n_rows=tuple(int(n.sum()) for n in sizes),
        n_clusters=tuple(n.size for n in sizes),
        by=axis_name(axes[0]) if axes else "",
        prior=priors[0],
        icc_prior=priors[1],
        outcome=estimate.about.outcome,
    )


def refuse_population(estimate: Estimate, method: str) -> None:
    """What knows nothing of a finite population would contradict the error bar that does."""
    if estimate.population is not None:
        raise NotAvailableError(
            f'{method} takes clusters from a population without end, and these results are about "the full benchmark". '
            "Take results without `target` for it."
        )


def _beta(name: str, value: Any) -> tuple[float, float]:
    """Parameters of a Beta prior; from 1/2 on, so that the density of the angle is finite."""
    pair = value if isinstance(value, list | tuple) and len(value) == 2 else [None]
    if not all(isinstance(v, int | float | np.number) and not isinstance(v, bool) and 0.5 <= v < np.inf for v in pair):
        raise ArgumentError(
            f"`{name}` must be the two parameters of a Beta distribution, each at least 0.5, as in (1, 1); "
            f"got {value!r}."
        )
    return float(value[0]), float(value[1])


def _columns(estimate: Estimate) -> IntArray:
    """The cell of each parameter; all its scores are 0 or 1."""
    cells, A, score = estimate.cells, estimate.coefficient_map, estimate.about.outcome
    not_means = NotAvailableError(
        "a posterior is for results of `evalreg.mean` without strata, each parameter the plain mean of rows of its "
        f"own; this is {estimate.about.model} of {score!r}. Use conf_int()."
    )
    if cells is None or A is None or not estimate.scores.of_means:
        raise not_means
    A = dense(A)
    if not (((A != 0).sum(axis=1) == 1) & (A.sum(axis=1) == 1)).all():
        raise not_means
    if cells.weighted.any():
        raise NotAvailableError(
            "a posterior counts successes among rows; rows with `weights` cannot be counted. Fit again without "
            "`weights`, or use conf_int()."
        )
    column = np.asarray(np.argmax(A != 0, axis=1))
    binary = np.isclose(cells.squares, cells.count * cells.mean * (1 - cells.mean), rtol=1e-9, atol=1e-12)
    others = list(compress(estimate.names, ~(binary & (cells.low >= 0) & (cells.high <= 1))[column]))
    if others:
        parts = estimate.scores.in_cells()
        rows = rows_where(~np.isin(parts[0].values, (0.0, 1.0))) if len(parts) == 1 else None
        raise ScoreRangeError(
            f"a posterior is for scores of 0 and 1; {score!r} holds others in {listed(others)}"
            f"{f' ({rows} of those in use)' if rows else ''}. Answers that were averaged can be passed as rows of "
            "their own, with groups= their item; otherwise use conf_int().",
            column=score,
            rows=rows,
            count=len(others),
        )
    if not estimate.bounded:
        raise not_means  # Differences, of which none is below 0 here; a mean with a constant added.
    return column


def _counts(estimate: Estimate, axes: tuple[Axis, ...], column: int) -> tuple[IntArray, IntArray]:
    """Successes and rows of each cluster of a cell."""
    cells = estimate.cells
    assert cells is not None
    mean = float(cells.mean[column])
    if not axes:
        n = int(cells.count[column])
        return (np.arange(n) < round(mean * n)).astype(np.intp), np.ones(n, dtype=np.intp)
    parts = zip(*((block.totals, block.gram) for block in estimate.scores.cells(axes[0])), strict=True)
    totals, sizes = (np.concatenate([dense(part[:, [column]])[:, 0] for part in of_blocks]) for of_blocks in parts)
    totals, sizes = totals[sizes > 0], sizes[sizes > 0]
    return np.rint(totals + mean * sizes).astype(np.intp), sizes.astype(np.intp)


# Angles of the rate and of the correlation at which the posterior is computed; and in the rounds before, in which they
# move to where it is steep. A share of them stays spread out evenly.
POINTS, FIRST_POINTS, ROUNDS, EVEN = (257, 129), (61, 61), 10, 0.3
# Terms of the likelihood that are multiplied before a logarithm is taken: none is so small that the product vanishes.
TERMS = 8


@dataclass(frozen=True, eq=False)
class Marginal:
    """Posterior of a number in [0, 1], as a density of its angle, arcsin of the square root."""

    angle: FloatArray  # (n_points,): increasing, in [0, pi/2]
    density: FloatArray  # (n_points,): up to a factor

    @cached_property
    def _cumulative(self) -> PPoly:
        from scipy.interpolate import CubicSpline

        total = CubicSpline(self.angle, self.density).integrate(self.angle[0], self.angle[-1])
        return CubicSpline(self.angle, self.density / total).antiderivative()

    @property
    def mean(self) -> float:
        """Posterior mean."""
        from scipy.interpolate import CubicSpline

        values = np.column_stack([self.density, np.sin(self.angle) ** 2 * self.density])
        total, moment = CubicSpline(self.angle, values).integrate(self.angle[0], self.angle[-1])
        return float(moment / total)

    def below(self, value: float) -> float:
        """Posterior probability of a smaller number."""
        angle = np.clip(np.arcsin(np.sqrt(value)), self.angle[0], self.angle[-1])
        return float(np.clip(self._cumulative(angle), 0.0, 1.0))

    def quantiles(self, p: FloatArray) -> FloatArray:
        """Quantiles, shape of p."""
        reached = np.maximum.accumulate(self._cumulative(self.angle))
        k = np.clip(np.searchsorted(reached, p) - 1, 0, self.angle.size - 2)
        low, high = self.angle[k], self.angle[k + 1]

        def past(angle: FloatArray) -> FloatArray:
            return self._cumulative(angle) - p

        return np.sin(crossings(past, low, high, past(low), past(high), LAST_DIGITS)) ** 2


def _beyond(counts: IntArray, largest: int) -> FloatArray:
    """Number of clusters with more than j, for j = 0, 1, ... below the largest."""
    reached = np.cumsum(np.bincount(counts, minlength=largest + 1)[::-1])[::-1]
    return reached[1:].astype(float)


def beta_binomial(
    successes: IntArray, sizes: IntArray, *, prior: tuple[float, float], icc: tuple[float, float]
) -> tuple[Marginal, Marginal]:
    """Posteriors of the mean rate and of the intraclass correlation.

    Clusters are independent, each with a rate from Beta(mu (1 - rho)/rho, (1 - mu)(1 - rho)/rho), and rows within a
    cluster are independent given its rate. A cluster of n rows with s successes has the likelihood prod_(j<s) (mu q + j
    rho) prod_(j<n-s) ((1 - mu) q + j rho) / prod_(j<n) (q + j rho), q = 1 - rho, which needs no phi = q/rho and so is
    exact at rho = 0.

    Skellam (1948), JRSS B 10(2), for the likelihood; Bowyer, Aitchison and Ivanova (2025), arXiv:2503.01747. Shapes:
    successes, sizes (n_clusters,).
    """
    hits, misses, rows = (_beyond(counts, int(np.max(sizes))) for counts in (successes, sizes - successes, sizes))
    mixed = float(np.count_nonzero((successes > 0) & (successes < sizes)))
    u = v = np.linspace(0, np.pi / 2, FIRST_POINTS[0])
    # A narrow top with wide tails, as of few large clusters that are alike, is found in several rounds.
    for n_rates, n_correlations in [*[FIRST_POINTS] * ROUNDS, POINTS, (0, 0)]:
        sin_u, cos_u, sin_v, cos_v = np.sin(u)[:, None], np.cos(u)[:, None], np.sin(v), np.cos(v)
        mu, rho, q = sin_u**2, sin_v**2, cos_v**2
        # j = 0, where a factor q cancels in every cluster that is not mixed; the ones come from the change to angles.
        height = special.xlogy(2 * (prior[0] + hits[0]) - 1, sin_u) + special.xlogy(2 * icc[0] - 1, sin_v)
        height = height + special.xlogy(2 * (prior[1] + misses[0]) - 1, cos_u)
        height = height + special.xlogy(2 * (icc[1] + mixed) - 1, cos_v)
        for counts, base in ((hits, mu * q), (misses, (1 - mu) * q), (-rows, q)):
            height = height + _log_products(counts, base, rho)
        density = np.exp(height - np.max(height))
        if n_rates:
            by_rate, by_correlation = np.trapezoid(density, v, axis=1), np.trapezoid(density, u, axis=0)
            u, v = _crowd(u, by_rate, n_rates), _crowd(v, by_correlation, n_correlations)
    return Marginal(u, density @ _spline_weights(v)), Marginal(v, _spline_weights(u) @ density)


def _log_products(counts: FloatArray, base: FloatArray, rho: FloatArray) -> FloatArray:
    """Sum of counts[j] log(base + j rho) over j = 1, 2, ...; terms of the same count are multiplied first."""
    log_product, j, last = np.zeros_like(base), 1, int(np.count_nonzero(counts))
    while j < last:
        count, end = counts[j], min(j + TERMS, last)
        product = base + j * rho
        j += 1
        while j < end and counts[j] == count:
            product *= base + j * rho
            j += 1
        with np.errstate(divide="ignore"):
            log_product += count * np.log(product)
    return log_product


def _crowd(angle: FloatArray, density: FloatArray, n_points: int) -> FloatArray:
    """Points, equally many in equal parts of a mix of the density's root and a constant where there is any density."""
    root = np.sqrt(density / np.max(density))
    angle = _ending(angle, root)
    # Some of the points beside the mass stay, as the top may lie between two.
    steps = np.diff(angle) * (np.maximum(root[1:], root[:-1]) > ROOT_OF_ROUNDING)
    part = (root[1:] + root[:-1]) / 2 * steps
    part = (1 - EVEN) * part / part.sum() + EVEN * steps / steps.sum()
    return np.interp(np.linspace(0, 1, n_points), np.append(0, np.cumsum(part)) / part.sum(), angle)


def _ending(angle: FloatArray, root: FloatArray) -> FloatArray:
    """The points, the first without density on either side moved to where the tail ends if it falls on as before.

    Else that step, to a bound far from the tail, would take all points spread out evenly, and a spline overshoot in it.
    """
    angle, points = angle.copy(), np.flatnonzero(root > ROOT_OF_ROUNDING)
    for end, outward in ((points[0], -1), (points[-1], 1)):
        before, beyond = end - outward, end + outward
        if points.size > 1 and 0 <= beyond < angle.size and root[before] > root[end]:
            falls = np.log(root[before] / root[end]) / (angle[end] - angle[before])
            tail = np.log(root[end] / ROOT_OF_ROUNDING) / falls
            angle[beyond] = angle[end] + outward * min(abs(tail), abs(angle[beyond] - angle[end]))
    return angle


def _spline_weights(angle: FloatArray) -> FloatArray:
    """Weights of the values at some points in the integral of the cubic spline through them."""
    from scipy.interpolate import CubicSpline

    return np.asarray(CubicSpline(angle, np.eye(angle.size)).integrate(angle[0], angle[-1]))
