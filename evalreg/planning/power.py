"""Number of questions for a difference, and the difference that a number of questions detects."""

from __future__ import annotations

import math

import numpy as np

from evalreg.checks import FloatArray
from evalreg.errors import ArgumentError
from evalreg.planning.checked_numbers import (
    checked_at_least,
    checked_count,
    checked_delta,
    checked_number,
    checked_variance,
)
from evalreg.planning.t_power import (
    LARGE,
    REACHED,
    ROUNDING,
    nearly_normal,
    normal_quantiles,
    normal_units,
    t_power,
    t_shift,
    t_units,
)


def sample_size(
    *,
    delta: float,
    omega2: float,
    sigma2_a: float = 0.0,
    sigma2_b: float = 0.0,
    k_a: float = 1,
    k_b: float = 1,
    cluster_size: float | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
) -> int:
    """Number of questions at which a paired test of two models detects a difference with the power asked for.

    Both models answer the same questions, A `k_a` times each and B `k_b` times; the test of the mean difference is
    two-sided. Questions are drawn independently, or in clusters of the same mix of sizes as those that a clustered
    `omega2` was estimated from. With few clusters this n is too small; `cluster_size` counts degrees of freedom by
    clusters.

    Parameters
    ----------
    delta : float
        True difference of the mean scores that should be detected, above 0, in units of the score.
    omega2 : float
        Variance over questions of the difference of the two models' expected scores, above 0:
        Var(x_A) + Var(x_B) - 2 Cov(x_A, x_B), plain or clustered. `components` estimates it.
    sigma2_a, sigma2_b : float, optional
        Variance of one answer about its question's expected score, averaged over questions; 0, the default, for
        scores without sampling noise.
    k_a, k_b : float, optional
        Answers to each question, at least 1, the default.
    cluster_size : float, optional
        Mean number of questions of a cluster, at least 1. With it the test is t with as many degrees of freedom as
        there are clusters less one, and n whole clusters; 1 is the t test of independent questions. None, the
        default, is eq. 9 as printed, with normal quantiles, wherever n is large enough for these (see Notes).
    alpha : float, optional
        Level of the two-sided test, 0.05 by default.
    power : float, optional
        Probability of detecting the difference, 0.8 by default; 1 minus the paper's beta. Above alpha.

    Returns
    -------
    int
        Questions, rounded up; at least 2.

    Raises
    ------
    ArgumentError
        If a number is outside its range; an `omega2` of 0 or less is among these.
    ArgumentTypeError
        If an argument is not a number.

    Notes
    -----
    The test will be a t test. On n questions it has less power than the normal quantiles of eq. 9 promise: 0.70 instead
    of 0.80 on 10. Eq. 9 stands where the loss is at most 0.025 of the chance to miss the difference (0.005 at a power
    of 0.8, from about 150 questions on); below, n is that of the t test of independent questions.

    References
    ----------
    Miller (2024), arXiv:2411.00640, eq. 9, and appendix C for clusters.

    Examples
    --------
    >>> import evalreg as er
    >>> er.plan.sample_size(delta=0.03, omega2=1 / 9)
    969
    >>> er.plan.sample_size(delta=0.03, omega2=1 / 9, sigma2_a=1 / 6, sigma2_b=1 / 6, k_a=10, k_b=10)
    1260

    Ten questions by normal quantiles, but twelve for a t test:

    >>> er.plan.sample_size(delta=0.3, omega2=1 / 9)
    12
    """
    delta = checked_delta(delta)
    variance = unit_variance(omega2, sigma2_a, sigma2_b, k_a, k_b)
    return questions_needed(variance, delta, cluster_size, alpha, power)


def mde(
    *,
    n: int,
    omega2: float,
    sigma2_a: float = 0.0,
    sigma2_b: float = 0.0,
    k_a: float = 1,
    k_b: float = 1,
    n_clusters: int | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
) -> float:
    """Smallest true difference that a paired test on n questions detects with the power asked for.

    The assumptions are those of `sample_size`.

    Parameters
    ----------
    n : int
        Questions that both models answer, at least 2.
    omega2 : float
        Variance over questions of the difference of the two models' expected scores, above 0.
    sigma2_a, sigma2_b : float, optional
        Variance of one answer about its question's expected score, averaged over questions; 0 by default.
    k_a, k_b : float, optional
        Answers to each question, at least 1, the default.
    n_clusters : int, optional
        Clusters that the questions are in, at least 2: the test is t with n_clusters - 1 degrees of freedom. None, the
        default, is eq. 10 as printed, with normal quantiles, where n is large enough for these, as in `sample_size`;
        below, t with n - 1.
    alpha : float, optional
        Level of the two-sided test, 0.05 by default.
    power : float, optional
        Probability of detecting the difference, 0.8 by default. Above alpha.

    Returns
    -------
    float
        The difference, in units of the score.

    Raises
    ------
    ArgumentError
        If a number is outside its range; an `omega2` of 0 or less is among these.
    ArgumentTypeError
        If an argument is not a number.

    References
    ----------
    Miller (2024), arXiv:2411.00640, eq. 10.

    Examples
    --------
    >>> import evalreg as er
    >>> for k in (1, 10):
    ...     print(f"{er.plan.mde(n=198, omega2=1 / 9, sigma2_a=1 / 6, sigma2_b=1 / 6, k_a=k, k_b=k):.4f}")
    0.1327
    0.0757

    Few questions are tested with few degrees of freedom:

    >>> f"{er.plan.mde(n=10, omega2=1 / 9):.4f} by t, {er.plan.mde(n=1000, omega2=1 / 9) * 10:.4f} by normal quantiles"
    '0.3320 by t, 0.2953 by normal quantiles'
    """
    questions = checked_count("n", n, 2, "questions")
    variance = unit_variance(omega2, sigma2_a, sigma2_b, k_a, k_b)
    if n_clusters is None:
        shift = normal_quantiles(alpha, power)
        if not nearly_normal(questions, alpha, power):
            shift = t_shift(questions - 1, alpha, power)
        return shift * math.sqrt(variance / questions)
    clusters = checked_count("n_clusters", n_clusters, 2, "clusters")
    if clusters > questions:
        raise ArgumentError(f"`n_clusters` must not exceed `n`, the questions in them; got {clusters} of {questions}.")
    return t_shift(clusters - 1, alpha, power) * math.sqrt(variance / questions)


def questions_needed(variance: float, delta: float, cluster_size: float | None, alpha: float, power: float) -> int:
    """Number of questions, in whole clusters where their size is given; otherwise as `mde` turned around."""
    if cluster_size is not None:
        size = checked_at_least("cluster_size", cluster_size, 1, "the mean number of questions of a cluster")
        return math.ceil(t_units(variance / size, delta, alpha, power) * size * (1 - ROUNDING))
    n = max(2, normal_units(variance, delta, alpha, power))
    # t needs z^2/2 questions more or so.
    while n < LARGE and not nearly_normal(n, alpha, power):
        if t_power(delta / math.sqrt(variance / n), n - 1, alpha) >= power - REACHED:
            break
        n += 1
    return n


def fewest_questions(
    variance: FloatArray, delta: float, cluster_size: float | None, alpha: float, power: float
) -> FloatArray:
    """What `questions_needed` gives for many variances at once."""
    if variance.size == 0:
        return np.zeros(0)
    size = 1.0 if cluster_size is None else cluster_size
    least, most = (
        questions_needed(float(v), delta, cluster_size, alpha, power) for v in (variance.min(), variance.max())
    )
    units = np.arange(math.floor(least / size * (1 - ROUNDING)), math.ceil(most / size) + 1)
    shift = np.full(units.size, normal_quantiles(alpha, power))
    for i, count in enumerate(units):
        if count > LARGE or (cluster_size is None and nearly_normal(int(count), alpha, power)):
            break
        shift[i] = t_shift(float(count) - 1, alpha, power) if count > 1 else np.inf
    # The largest variance of one unit that so many can bear.
    bearable = units * (delta / shift) ** 2
    found = units[np.searchsorted(bearable * (1 + REACHED), variance / size).clip(max=units.size - 1)]
    return np.asarray(np.ceil(found * size * (1 - ROUNDING)))


def unit_variance(omega2: float, sigma2_a: float, sigma2_b: float, k_a: float, k_b: float) -> float:
    """Variance of the mean difference times the number of questions."""
    omega2 = checked_number("omega2", omega2)
    if omega2 <= 0:
        raise ArgumentError(
            "`omega2` must be positive, as the variance over questions of the difference in expected scores; got "
            f"{omega2:g}. An estimate less the noise of K answers falls to 0 or below where that noise hides the "
            "rest: add questions or answers to the pilot, or plan with its `omega2_uncorrected`, which errs upwards."
        )
    noise = 0.0
    for side, sigma2, k in (("a", sigma2_a, k_a), ("b", sigma2_b, k_b)):
        k = checked_at_least(f"k_{side}", k, 1, "the answers to each question")
        noise += checked_variance(f"sigma2_{side}", sigma2) / k
    return float(omega2 + noise)
