"""The posterior of a success rate whose clusters have rates of their own, by quadrature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy import special

from evalreg.checks import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.interpolate import PPoly

Box: TypeAlias = tuple[float, float, float, float]
"""Lowest and highest angle of the rate, and of the correlation."""

# Angles of the rate and of the correlation at which the posterior is computed.
RATE_POINTS, CORRELATION_POINTS = 257, 129
# Of the search for where the posterior has its mass.
SEARCH_POINTS, SEARCH_ROUNDS = 61, 20
# What lies this far below the top on the log scale is left out: a share of the mass of about exp(-40).
DEPTH = 40.0
# Rounds in which points move to where the posterior is steep, and the share of them that stays spread out evenly.
CROWDINGS, EVEN = 6, 0.3
# Terms of the likelihood that are multiplied before a logarithm is taken: none is so small that the product vanishes.
TERMS = 8
BISECTIONS = 60


@dataclass(frozen=True, eq=False)
class Marginal:
    """Posterior of a number in [0, 1], as a density of its angle, arcsin of the square root."""

    angle: FloatArray  # (n_points,): increasing, in [0, pi/2]
    density: FloatArray  # (n_points,): up to a factor

    @cached_property
    def _spline(self) -> PPoly:
        from scipy.interpolate import CubicSpline

        spline = CubicSpline(self.angle, self.density)
        return CubicSpline(self.angle, self.density / spline.integrate(self.angle[0], self.angle[-1]))

    @cached_property
    def _cumulative(self) -> PPoly:
        return self._spline.antiderivative()

    @property
    def mean(self) -> float:
        """Posterior mean."""
        from scipy.interpolate import CubicSpline

        moment = CubicSpline(self.angle, np.sin(self.angle) ** 2 * self._spline(self.angle))
        return float(moment.integrate(self.angle[0], self.angle[-1]))

    def below(self, value: float) -> float:
        """Posterior probability of a smaller number."""
        angle = np.clip(np.arcsin(np.sqrt(value)), self.angle[0], self.angle[-1])
        return float(np.clip(self._cumulative(angle), 0.0, 1.0))

    def quantiles(self, p: FloatArray) -> FloatArray:
        """Quantiles, shape of p."""
        reached = np.maximum.accumulate(self._cumulative(self.angle))
        k = np.clip(np.searchsorted(reached, p) - 1, 0, self.angle.size - 2)
        low, high = self.angle[k], self.angle[k + 1]
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            short = self._cumulative(middle) < p
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return np.asarray(np.sin((low + high) / 2) ** 2)


@dataclass(frozen=True, eq=False)
class Tallies:
    """What the likelihood needs of the clusters, however many there are."""

    successes: FloatArray  # (largest,): number of clusters with more than j successes, failures and rows, j = 0, 1, ...
    failures: FloatArray
    sizes: FloatArray
    mixed: float  # clusters with both


def tally(successes: IntArray, sizes: IntArray) -> Tallies:
    """Numbers of clusters beyond each count. Shapes: successes, sizes (n_clusters,)."""
    largest = int(np.max(sizes))
    mixed = np.count_nonzero((successes > 0) & (successes < sizes))
    return Tallies(
        successes=_beyond(successes, largest),
        failures=_beyond(sizes - successes, largest),
        sizes=_beyond(sizes, largest),
        mixed=float(mixed),
    )


def _beyond(counts: IntArray, largest: int) -> FloatArray:
    reached = np.cumsum(np.bincount(counts, minlength=largest + 1)[::-1])[::-1]
    return reached[1:].astype(float)


def log_posterior(
    tallies: Tallies, rate: FloatArray, correlation: FloatArray, prior: tuple[float, float], icc: tuple[float, float]
) -> FloatArray:
    """Log density of the two angles, up to a constant.

    A cluster of n rows with s successes has the likelihood prod_(j<s) (mu q + j rho) prod_(j<n-s) ((1 - mu) q + j rho)
    / prod_(j<n) (q + j rho), q = 1 - rho, which needs no phi = q/rho and so is exact at rho = 0.

    Shapes: rate, correlation (n,); returns (n, m).
    """
    u, v = rate[:, None], correlation[None, :]
    mu, rho, q = np.sin(u) ** 2, np.sin(v) ** 2, np.cos(v) ** 2
    # j = 0, where a factor q cancels in every cluster that is not mixed; the ones come from the change to angles.
    found = special.xlogy(2 * (prior[0] + tallies.successes[0]) - 1, np.sin(u))
    found = found + special.xlogy(2 * (prior[1] + tallies.failures[0]) - 1, np.cos(u))
    found = found + special.xlogy(2 * icc[0] - 1, np.sin(v))
    found = found + special.xlogy(2 * (icc[1] + tallies.mixed) - 1, np.cos(v))
    for counts, base in ((tallies.successes, mu * q), (tallies.failures, (1 - mu) * q), (-tallies.sizes, q)):
        found = found + _log_products(counts, base, rho)
    return np.asarray(found)


def _log_products(counts: FloatArray, base: FloatArray, rho: FloatArray) -> FloatArray:
    """Sum of counts[j] log(base + j rho) over j = 1, 2, ...; terms of the same count are multiplied first."""
    found, j, last = np.zeros_like(base), 1, int(np.count_nonzero(counts))
    while j < last:
        count, end = counts[j], min(j + TERMS, last)
        product = base + j * rho
        j += 1
        while j < end and counts[j] == count:
            product *= base + j * rho
            j += 1
        with np.errstate(divide="ignore"):
            found += count * np.log(product)
    return found


def _region(tallies: Tallies, prior: tuple[float, float], icc: tuple[float, float]) -> Box:
    """A box of angles that holds all of the posterior that counts."""
    box = (0.0, np.pi / 2, 0.0, np.pi / 2)
    for _ in range(SEARCH_ROUNDS):
        u, v = np.linspace(*box[:2], SEARCH_POINTS), np.linspace(*box[2:], SEARCH_POINTS)
        height = log_posterior(tallies, u, v, prior, icc)
        high = height > np.max(height) - DEPTH
        smaller = (*_around(u, np.asarray(high.any(axis=1))), *_around(v, np.asarray(high.any(axis=0))))
        gain = min((smaller[1] - smaller[0]) / (box[1] - box[0]), (smaller[3] - smaller[2]) / (box[3] - box[2]))
        box = smaller
        if gain > 0.7:
            break
    return box


def _around(angle: FloatArray, high: BoolArray) -> tuple[float, float]:
    """From two points below the first to two points above the last that is high: the top may lie between points."""
    where = np.flatnonzero(high)
    return float(angle[max(where[0] - 2, 0)]), float(angle[min(where[-1] + 2, angle.size - 1)])


def beta_binomial(
    successes: IntArray, sizes: IntArray, *, prior: tuple[float, float], icc: tuple[float, float]
) -> tuple[Marginal, Marginal]:
    """Posteriors of the mean rate and of the intraclass correlation.

    Clusters are independent, each with a rate from Beta(mu (1 - rho)/rho, (1 - mu)(1 - rho)/rho), and rows within a
    cluster are independent given its rate.

    Skellam (1948), JRSS B 10(2), for the likelihood; Bowyer, Aitchison and Ivanova (2025), arXiv:2503.01747. Shapes:
    successes, sizes (n_clusters,).
    """
    tallies = tally(successes, sizes)
    u, v = _nodes(tallies, prior, icc)
    height = log_posterior(tallies, u, v, prior, icc)
    density = np.exp(height - np.max(height))
    return Marginal(u, density @ _spline_weights(v)), Marginal(v, _spline_weights(u) @ density)


def _nodes(tallies: Tallies, prior: tuple[float, float], icc: tuple[float, float]) -> tuple[FloatArray, FloatArray]:
    """Angles of the rate and of the correlation, close together where the posterior is steep."""
    box = _region(tallies, prior, icc)
    u, v = np.linspace(*box[:2], SEARCH_POINTS), np.linspace(*box[2:], SEARCH_POINTS)
    # A narrow top with wide tails, as of few large clusters that are alike, is found in several rounds.
    for n_rates, n_correlations in [(SEARCH_POINTS, SEARCH_POINTS)] * CROWDINGS + [(RATE_POINTS, CORRELATION_POINTS)]:
        height = log_posterior(tallies, u, v, prior, icc)
        density = np.exp(height - np.max(height))
        by_rate, by_correlation = np.trapezoid(density, v, axis=1), np.trapezoid(density, u, axis=0)
        u, v = _crowd(u, by_rate, n_rates), _crowd(v, by_correlation, n_correlations)
    return u, v


def _crowd(angle: FloatArray, density: FloatArray, n_points: int) -> FloatArray:
    """Points, equally many in equal parts of a mix of the density's root and a constant."""
    root = np.sqrt(density)
    steps = np.diff(angle)
    part = (root[1:] + root[:-1]) / 2 * steps
    part = (1 - EVEN) * part / part.sum() + EVEN * steps / steps.sum()
    return np.asarray(np.interp(np.linspace(0, 1, n_points), np.append(0, np.cumsum(part)) / part.sum(), angle))


def _spline_weights(angle: FloatArray) -> FloatArray:
    """Weights of the values at some points in the integral of the cubic spline through them."""
    from scipy.interpolate import CubicSpline

    return np.asarray(CubicSpline(angle, np.eye(angle.size)).integrate(angle[0], angle[-1]))
