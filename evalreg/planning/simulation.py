"""Power of a design by simulation, with the default test of the package."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy
from scipy import sparse

from evalreg.checks import FloatArray, fraction
from evalreg.covariance.dof import cell_leverage
from evalreg.errors import ArgumentError, ArgumentTypeError
from evalreg.planning.checked_numbers import checked_count, checked_number
from evalreg.planning.power import unit_variance

# Experiments of one block, each block with a generator of its own.
BLOCK = 1024


@dataclass(frozen=True)
class SimulatedPower:
    """Share of simulated experiments in which the test rejects."""

    power: float  # the share
    standard_error: float  # Monte Carlo error of the share
    false_signs: float  # share of experiments in which it rejects with the wrong sign
    dof: float  # degrees of freedom of the test
    draws: int  # experiments
    seed: int | None  # what the draws started from; None where a generator was given


def power(
    *,
    delta: float,
    cluster_sizes: npt.ArrayLike,
    omega2: float,
    icc: float = 0.0,
    sigma2_a: float = 0.0,
    sigma2_b: float = 0.0,
    k_a: float = 1,
    k_b: float = 1,
    alpha: float = 0.05,
    draws: int = 10_000,
    seed: int | np.random.Generator = 0,
) -> SimulatedPower:
    """Power of a paired comparison on given clusters, by simulating it and testing as `mean` does by default.

    Where clusters are few or unequal, the formulas behind `sample_size` and `clusters` are approximations; this is the
    power of the test that will be used: CR2 with Satterthwaite degrees of freedom.

    Parameters
    ----------
    delta : float
        True difference of the mean scores; 0 gives the level of the test.
    cluster_sizes : array_like of int, shape (n_clusters,)
        Questions of each cluster, such as [5] * 40; at least two clusters.
    omega2 : float
        Variance over questions of the difference in expected scores, above 0; the plain one.
    icc : float, optional
        Intraclass correlation of the expected differences within clusters, from 0, the default, to 1.
    sigma2_a, sigma2_b : float, optional
        Variance of one answer about its question's expected score; 0 by default.
    k_a, k_b : float, optional
        Answers to each question, at least 1, the default.
    alpha : float, optional
        Level of the two-sided test, 0.05 by default.
    draws : int, optional
        Experiments, 10000 by default.
    seed : int or numpy Generator, optional
        Start of the draws; 0 by default.

    Returns
    -------
    SimulatedPower
        With the Monte Carlo error.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is outside its range.

    Notes
    -----
    Differences of question means are normal: a cluster's effect with variance icc omega2, a question's with
    (1 - icc) omega2, and the noise of the answers. Only sums within clusters are drawn.

    References
    ----------
    Bell and McCaffrey (2002), Survey Methodology 28, for the test.

    Examples
    --------
    >>> import evalreg as er
    >>> found = er.plan.power(delta=0.05, cluster_sizes=[5] * 156, omega2=1 / 9, icc=0.3, seed=1)
    >>> f"{found.power:.2f} ({found.standard_error:.3f}), dof {found.dof:.0f}"
    '0.80 (0.004), dof 155'
    """
    delta, alpha = checked_number("delta", delta), fraction("alpha", alpha)
    sizes = _sizes(cluster_sizes)
    rho = checked_number("icc", icc)
    if not 0 <= rho <= 1:
        raise ArgumentError(f"`icc` must lie between 0 and 1; got {rho:g}.")
    noise = unit_variance(omega2, sigma2_a, sigma2_b, k_a, k_b) - omega2
    draws = checked_count("draws", draws, 1, "experiments")
    spread = np.sqrt(sizes**2 * rho * omega2 + sizes * ((1 - rho) * omega2 + noise))
    share = sizes / sizes.sum()
    dof = float(cell_leverage(sparse.csr_array(share[:, None]), np.array([sizes.sum()]), 0.5).dof(np.eye(1))[0])
    critical = float(scipy.special.stdtrit(dof, 1 - alpha / 2))
    rejected, wrong = 0, 0
    # A block has its own generator, whatever the number of draws: more draws extend the same experiments.
    for block, generator in enumerate(_spawn(seed, -(-draws // BLOCK))):
        t = _statistics(delta, sizes, spread, share, generator)[: draws - block * BLOCK]
        rejected += int(np.count_nonzero(np.abs(t) > critical))
        wrong += int(np.count_nonzero(t * math.copysign(1.0, delta) < -critical)) if delta else 0
    found = rejected / draws
    return SimulatedPower(
        power=found,
        standard_error=math.sqrt(found * (1 - found) / draws),
        false_signs=wrong / draws,
        dof=dof,
        draws=draws,
        seed=None if isinstance(seed, np.random.Generator) else seed,
    )


def _sizes(given: npt.ArrayLike) -> FloatArray:
    sizes: Any = np.asarray(given)
    if sizes.ndim != 1 or sizes.size < 2 or not np.issubdtype(sizes.dtype, np.number):
        raise ArgumentError(
            "`cluster_sizes` must list the questions of each of at least two clusters, such as [5] * 40; got "
            f"{str(given)[:60]}."
        )
    if np.any(sizes < 1) or np.any(sizes != np.floor(sizes)):
        raise ArgumentError(f"`cluster_sizes` must be whole numbers of at least 1; the smallest is {sizes.min():g}.")
    return np.asarray(sizes, dtype=np.float64)


def _spawn(seed: Any, n: int) -> list[np.random.Generator]:
    if isinstance(seed, np.random.Generator):
        return seed.spawn(n)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ArgumentTypeError(f"`seed` must be a whole number of at least 0 or a numpy Generator; got {seed!r}.")
    return [np.random.default_rng(child) for child in np.random.SeedSequence(int(seed)).spawn(n)]


def _statistics(
    delta: float, sizes: FloatArray, spread: FloatArray, share: FloatArray, generator: np.random.Generator
) -> FloatArray:
    """t statistics of one block of experiments, CR2 of the mean."""
    totals = generator.standard_normal((BLOCK, sizes.size)) * spread
    error = totals.sum(axis=1) / sizes.sum()
    residual = totals - error[:, None] * sizes
    variance = (residual**2 / (1 - share)).sum(axis=1) / sizes.sum() ** 2
    return np.asarray((delta + error) / np.sqrt(variance))
