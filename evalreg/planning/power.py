"""Power of tests by t and normal quantiles, and what follows from it: sizes, curves, clusters and costs."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy
from scipy import sparse

from evalreg.checks import FloatArray, checked_count, checked_number, fraction
from evalreg.covariance.crossed import Widths, t_quantile
from evalreg.covariance.leverage import cell_dof, cell_pieces
from evalreg.errors import ArgumentError, ArgumentTypeError
from evalreg.inference.simultaneous import base_seed
from evalreg.numerics.limits import BLOCK, EQUAL, EXACT, HELD, LAST_DIGITS, ROUNDING
from evalreg.numerics.roots import crossings
from evalreg.resampling.draws import blocks
from evalreg.scores.score_interval import NullVariance


def checked_delta(delta: object) -> float:
    """Return `delta` if it is a positive number."""
    remedy = " The test is two-sided: pass the absolute value."
    rule = "be positive, the size of the difference to be detected"
    return checked_number("delta", delta, rule, above=0.0, remedy=remedy)


def checked_variance(name: str, value: object) -> float:
    """Return `value` if it is a number of at least 0."""
    return checked_number(name, value, "not be negative: it is a variance", least=0.0)


def checked_icc(icc: object, remedy: str = "") -> float:
    """Return `icc` if it is a number from 0 to 1."""
    return checked_number("icc", icc, "lie between 0 and 1", least=0.0, most=1.0, remedy=remedy)


def checked_counts(name: str, values: Any, least: int, what: str) -> list[int]:
    """Return `values` if it lists such numbers, one at least."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ArgumentTypeError(f"`{name}` must be a list of whole numbers; got {values!r}.")
    counts = [checked_count(name, value, least, what) for value in values]
    if not counts:
        raise ArgumentError(f"`{name}` must name at least one number; got an empty list.")
    return counts


# Above this many independent units t is normal, and one unit more or less is nothing (limit).
LARGE = 100_000
# Nodes of an integral over a chi distribution, exact to some 1e-10; and where the integrand is an average of powers, to
# some 1e-7.
NODES, PILOT_NODES = 400, 60
# Normal quantiles stand in for t where that costs at most this share of the chance to miss (or, below 1/2, to find).
NEAR = 0.025


# Power


def two_sided(away: FloatArray, half_width: FloatArray) -> FloatArray:
    """P(|Z + away| > half_width) of a standard normal Z: the power of a test with this half-width."""
    return np.asarray(scipy.special.ndtr(away - half_width) + scipy.special.ndtr(-away - half_width))


def t_power(shift: float, dof: float, alpha: float, pilot_dof: float = np.inf) -> float:
    """Power of a two-sided t test whose true difference is `shift` standard errors: noncentral t.

    (Z + shift)/S, averaged over S = sqrt(chi2/dof): scipy's noncentral t is NaN for some large shifts, other ones in
    each release. Where the standard errors are a pilot's, the true shift is `shift` times the root of chi2/pilot_dof,
    and the power is averaged over that too (Julious and Owen 2006).
    """
    root, weights = chi_nodes(float(dof))
    errors, of_errors = chi_nodes(float(pilot_dof), PILOT_NODES)
    far = float(scipy.special.stdtrit(dof, 1 - alpha / 2)) * root
    return float(of_errors @ (two_sided(shift * errors[:, None], far) @ weights))


@lru_cache(maxsize=64)
def chi_nodes(dof: float, n_nodes: int = NODES) -> tuple[FloatArray, FloatArray]:
    """Values of sqrt(chi2/dof), by which a standard error from `dof` is off, and weights that sum to 1.

    Of the rule of Gauss and Legendre in the distribution function, whose ends are drawn out.
    """
    if dof > LARGE:
        return np.ones(1), np.ones(1)
    nodes, weights = _legendre(n_nodes)
    u = (nodes + 1) / 2
    root = np.sqrt(2 * scipy.special.gammaincinv(dof / 2, u * u * (3 - 2 * u)) / dof)
    return root, weights * 3 * u * (1 - u)


@lru_cache(maxsize=3)
def _legendre(n_nodes: int) -> tuple[FloatArray, FloatArray]:
    return np.polynomial.legendre.leggauss(n_nodes)


def score_power(
    null: NullVariance, bound: float, critical: FloatArray, pilot_dof: float = np.inf, *, larger: float = 1.0
) -> FloatArray:
    """Power of the tests of a score interval against a bound, were the means as in `null`: Phi of what is left.

    (|theta - bound| - t sqrt(V_bound))/sqrt(V_theta), V_x the variance that the test takes for x, both `larger` times
    as large, averaged over the error of a pilot as `t_powers`. Shapes: critical (m,); returns (m,).
    """
    null = replace(null, base=null.base * larger)
    errors, weights = chi_nodes(float(pilot_dof), PILOT_NODES)
    # A difference of 1 has no variance: it is found for sure, or never.
    sd = np.sqrt(np.maximum(null.base, np.finfo(float).tiny))
    far = np.abs(null.theta - bound)[:, None] * errors - (critical * np.sqrt(null.at(bound)))[:, None]
    return scipy.special.ndtr(far / sd[:, None]) @ weights


# What has the power asked for


def normal_quantiles(alpha: float, power: float) -> float:
    """Return z_(alpha/2) + z_beta."""
    alpha, power = fraction("alpha", alpha), fraction("power", power)
    if power <= alpha:
        raise ArgumentError(
            f"`power` must be above alpha, which the two-sided test reaches without any difference; got "
            f"power={power:g} with alpha={alpha:g}. A usual power is 0.8."
        )
    return float(scipy.special.ndtri(power) - scipy.special.ndtri(alpha / 2))


def reached(power_at: Callable[[float], float], power: float, low: float, high: float) -> float:
    """Where a rising power is reached, from `low` on; infinite where it is not by 1e9 times `high`."""
    end = high
    while power_at(end) < power:
        low, end = end, 2 * end
        if end > high / EQUAL:
            return math.inf
    return float(scipy.optimize.brentq(lambda x: power_at(x) - power, low, end, xtol=1e-12, rtol=1e-11))


def t_shift(dof: float, alpha: float, power: float, pilot_dof: float = np.inf) -> float:
    """True difference, in standard errors (of a pilot), at which a two-sided t test has the power asked for."""
    high = 2 * normal_quantiles(alpha, power) + 1
    return reached(lambda shift: t_power(shift, dof, alpha, pilot_dof), power, 0.0, high)


def least_differences(null: NullVariance, dof: FloatArray, alpha: float, power: float, **error: float) -> FloatArray:
    """True differences that tests of a score interval find with the power asked for; NaN where even one of 1 is not.

    The rates of questions that differ are those likeliest at a true difference in the direction that was seen. `error`:
    that of a pilot, as `score_power` takes it. Shapes: dof (m,).
    """
    null = replace(null, theta=np.abs(null.theta))
    critical = t_quantile(alpha, dof)

    def excess(difference: FloatArray) -> FloatArray:
        return score_power(null.if_true(difference), 0.0, critical, **error) - power

    low, high = np.full(null.theta.shape, EQUAL), np.full(null.theta.shape, 1 - EQUAL)
    at_low, at_high = np.full(low.shape, -power), excess(high)
    return np.where(at_high > 0, crossings(excess, low, high, at_low, at_high, LAST_DIGITS), np.nan)


def detectable(se: FloatArray, dof: FloatArray, widths: Widths, alpha: float, power: float) -> FloatArray:
    """True differences that the tests find with the power asked for, shape (m,); NaN without a standard error.

    Where few questions differ those of the score interval, which allows for differences not seen. Degrees of freedom
    are rounded down to three digits where they are many.
    """
    known, scored = dof > 0, widths.scored
    rounded = np.where(known, np.minimum(dof, 2.0 * LARGE), 1.0)
    if np.unique(rounded).size >= 20:
        size = 10.0 ** (np.floor(np.log10(rounded)) - 2)
        rounded = np.floor(rounded / size) * size
    distinct, which = np.unique(rounded, return_inverse=True)
    shifts = np.array([t_shift(float(nu), alpha, power) for nu in distinct])[which.ravel()]
    differences = np.where(known, shifts, np.nan) * se
    if scored is not None:
        differences[scored.rows] = least_differences(scored.null, dof[scored.rows], alpha, power)
    return differences


def multiple_to_tell(
    estimate: float, widths: Widths, dof: float, bound: float, alpha: float, power: float = 0.8
) -> float:
    """How many times the clusters at hand a one-sided test of one parameter would need, were the truth as estimated.

    More clusters like those at hand: variances shrink and degrees of freedom grow by it. Where few questions differ,
    they go on differing as rarely. Infinite where no number would do: the estimate is at the bound, or has no error.
    Miller (2024), arXiv:2411.00640, eq. 9, one-sided, by the test that is made.
    """
    variance, scored = float(widths.variance[0]), widths.scored if len(widths.terms) == 1 else None

    def power_at(factor: float) -> float:
        critical = t_quantile(2 * alpha, np.array([dof * factor]))
        if scored is not None:
            x = float(scored.null.theta[0] - (estimate - bound) / scored.scale[0])
            return float(score_power(scored.null.grown(factor), x, critical)[0])
        return float(scipy.special.ndtr(abs(estimate - bound) / math.sqrt(variance / factor) - critical[0]))

    if not (dof > 0 and estimate != bound and (variance > 0 or scored is not None)):
        return math.inf
    return 1.0 if power_at(1.0) >= power else reached(power_at, power, 1.0, 1.0)


def normal_units(variance: float, delta: float, alpha: float, power: float) -> int:
    """Number of independent units by eq. 9, with normal quantiles."""
    scale = normal_quantiles(alpha, power) * math.sqrt(variance) / delta
    units = scale * scale
    if not units < EXACT:
        raise ArgumentError(f"`delta` must leave n below {EXACT:.0e}; got {delta:g}. Pass a larger one.")
    return max(1, math.ceil(units * (1 - ROUNDING)))


@lru_cache(maxsize=4096)
def needed_shift(units: float, alpha: float, power: float, *, eq9: bool = False) -> float:
    """True difference, in standard errors, that a t test on so many units finds with the power asked for.

    With `eq9` normal quantiles are enough where they are nearly right.
    """
    normal = normal_quantiles(alpha, power)
    if units > LARGE or (eq9 and t_power(normal, units - 1, alpha) >= power - NEAR * min(power, 1 - power)):
        return normal
    return t_shift(units - 1, alpha, power)


def t_units(variance: float, delta: float, alpha: float, power: float) -> int:
    """Number of independent units at which a t test on them has the power asked for, exact for normal units."""
    return int(units_needed(np.array([variance]), delta, alpha, power)[0])


def units_needed(variance: FloatArray, delta: float, alpha: float, power: float, *, eq9: bool = False) -> FloatArray:
    """The same by variance of a unit; with `eq9` by normal quantiles where `needed_shift` has them."""
    normal_units(float(variance.max()), delta, alpha, power)  # refuses a difference too small for any number
    scale = normal_quantiles(alpha, power) / delta
    units = np.maximum(np.ceil(scale**2 * variance * (1 - ROUNDING)), 2.0)
    while True:
        distinct, which = np.unique(units, return_inverse=True)
        shift = np.array([needed_shift(float(count), alpha, power, eq9=eq9) for count in distinct])[which]
        short = shift * np.sqrt(variance / units) > delta * (1 + EQUAL)
        if not short.any():
            return units
        units[short] += 1


def fewest(enough: Callable[[int], bool], low: int, most: float = math.inf) -> int:
    """Smallest whole number, from `low` up, that is enough; the larger of two is enough where the smaller is.

    0 where none is up to about `most`.
    """
    if enough(low):
        return low
    step = 1
    while not enough(low + step):
        step *= 2
        if low + step > most:
            return 0
    return low + 1 + bisect_left(range(low + 1, low + step), True, key=enough)


# Two models


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
    return int(questions_needed(np.array([variance]), delta, cluster_size, alpha, power)[0])


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
    units = questions if n_clusters is None else checked_count("n_clusters", n_clusters, 2, "clusters")
    if units > questions:
        raise ArgumentError(f"`n_clusters` must not exceed `n`, the questions in them; got {units} of {questions}.")
    return needed_shift(units, alpha, power, eq9=n_clusters is None) * math.sqrt(variance / questions)


def questions_needed(
    variance: FloatArray, delta: float, cluster_size: float | None, alpha: float, power: float
) -> FloatArray:
    """Numbers of questions by variance, in whole clusters where their size is given; else as `mde` turned around."""
    size = 1.0
    if cluster_size is not None:
        rule = "be at least 1, the mean number of questions of a cluster"
        size = checked_number("cluster_size", cluster_size, rule, least=1.0)
    units = units_needed(variance / size, delta, alpha, power, eq9=cluster_size is None)
    return np.ceil(units * size * (1 - ROUNDING))


def unit_variance(omega2: float, sigma2_a: float, sigma2_b: float, k_a: float, k_b: float) -> float:
    """Variance of the mean difference times the number of questions."""
    omega2 = checked_number(
        "omega2",
        omega2,
        "be positive, as the variance over questions of the difference in expected scores",
        above=0.0,
        remedy=" An estimate less the noise of K answers falls to 0 or below where that noise hides the rest: add "
        "questions or answers to the pilot, or plan with its `omega2_uncorrected`, which errs upwards.",
    )
    noise = 0.0
    for side, sigma2, k in (("a", sigma2_a, k_a), ("b", sigma2_b, k_b)):
        k = checked_number(f"k_{side}", k, "be at least 1, the answers to each question", least=1.0)
        noise += checked_variance(f"sigma2_{side}", sigma2) / k
    return float(omega2 + noise)


def clusters(
    *,
    delta: float,
    cluster_size: float,
    omega2: float,
    icc: float = 0.0,
    sigma2_a: float = 0.0,
    sigma2_b: float = 0.0,
    k_a: float = 1,
    k_b: float = 1,
    alpha: float = 0.05,
    power: float = 0.8,
) -> int:
    """Number of clusters of a given size at which a paired test of two models detects a difference.

    The test is t on the clusters' means, with one degree of freedom less than there are clusters.

    Parameters
    ----------
    delta : float
        True difference of the mean scores that should be detected, above 0.
    cluster_size : float
        Questions of each cluster, at least 1.
    omega2 : float
        Variance over questions of the difference of the two models' expected scores, above 0: the plain one, of single
        questions, where `icc` is given; the clustered one, for clusters of this size, where `icc` is left at 0.
    icc : float, optional
        Intraclass correlation of the expected differences within clusters, from 0, the default, to 1. That of observed
        differences is smaller by the factor omega2/(omega2 + sigma2_a/k_a + sigma2_b/k_b).
    sigma2_a, sigma2_b : float, optional
        Variance of one answer about its question's expected score; 0 by default. It is taken to be independent
        between questions.
    k_a, k_b : float, optional
        Answers to each question, at least 1, the default.
    alpha : float, optional
        Level of the two-sided test, 0.05 by default.
    power : float, optional
        Probability of detecting the difference, 0.8 by default. Above alpha.

    Returns
    -------
    int
        Clusters, at least 2.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is outside its range.

    References
    ----------
    Kish (1965), Survey Sampling, section 5.4 (design effect 1 + (m - 1) icc); Miller (2024), arXiv:2411.00640, eq. 9.

    Examples
    --------
    >>> import evalreg as er
    >>> for size in (1, 5, 20):
    ...     print(size, er.plan.clusters(delta=0.05, cluster_size=size, omega2=1 / 9, icc=0.3))
    1 351
    5 156
    20 119
    """
    size = checked_number("cluster_size", cluster_size, "be at least 1, the questions of each cluster", least=1.0)
    rho = checked_icc(icc, " A negative estimate says that clusters are no more alike than chance: plan with 0.")
    noise = unit_variance(omega2, sigma2_a, sigma2_b, k_a, k_b) - omega2
    per_cluster = (omega2 * (1 + (size - 1) * rho) + noise) / size
    return t_units(per_cluster, checked_delta(delta), alpha, power)


@dataclass(frozen=True)
class AnswerPlan:
    """Numbers of questions and answers that detect a difference at the least cost."""

    k_a: int  # answers of each model to each question
    k_b: int
    n: int  # questions
    cost: float  # of all questions and answers, in the units of the costs given
    noise_share: float  # share of the variance of the difference that is answer noise
    cost_one_answer: float  # cost of the plan with one answer of each model to each question, for comparison


def answers(
    *,
    delta: float,
    omega2: float,
    sigma2_a: float,
    sigma2_b: float = 0.0,
    cost_question: float,
    cost_a: float,
    cost_b: float | None = None,
    cluster_size: float | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
) -> AnswerPlan:
    """Answers to each question, and questions, that detect a difference at the least cost.

    Parameters
    ----------
    delta : float
        True difference of the mean scores that should be detected, above 0.
    omega2 : float
        Variance over questions of the difference in expected scores, above 0.
    sigma2_a, sigma2_b : float
        Variance of one answer about its question's expected score, of B 0 by default. Where it is 0, one is enough.
    cost_question : float
        Cost of one more question, whatever the number of answers: writing it, or its part of a licence. At least 0.
    cost_a, cost_b : float
        Cost of one more answer of each model, above 0; that of B is A's by default.
    cluster_size : float, optional
        As in `sample_size`.
    alpha : float, optional
        Level of the two-sided test, 0.05 by default.
    power : float, optional
        Probability of detecting the difference, 0.8 by default. Above alpha.

    Returns
    -------
    AnswerPlan
        Whole numbers, n counted as `sample_size` counts it: no other whole numbers cost less.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is outside its range.

    Notes
    -----
    The cost of a given precision is proportional to (omega2 + sigma2_a/K_a + sigma2_b/K_b) times
    (cost_question + cost_a K_a + cost_b K_b), which is least at K = sqrt((sigma2/omega2) (cost_question/cost)) for each
    model, or at 1 where that is smaller. Free questions make one answer each the best plan. Whole questions make steps
    of these costs, so that every pair of numbers of answers is priced whose unrounded cost is below the best one found
    (a million pairs around it, where questions cost so much more than answers that there are more).

    References
    ----------
    Cochran (1977), Sampling Techniques, section 10.6, for the optimum in two stages; Miller (2024), arXiv:2411.00640,
    eq. 9.

    Examples
    --------
    >>> import evalreg as er
    >>> variances = {"omega2": 1 / 9, "sigma2_a": 1 / 6, "sigma2_b": 1 / 6}
    >>> plan = er.plan.answers(delta=0.03, cost_question=5, cost_a=0.1, cost_b=0.4, **variances)
    >>> plan.k_a, plan.k_b, plan.n, round(plan.cost / plan.cost_one_answer, 2)
    (9, 4, 1494, 0.53)
    """
    unit_variance(omega2, sigma2_a, sigma2_b, 1, 1)
    checked_number("cost_question", cost_question, "be at least 0, the cost of one more question", least=0.0)
    cost_b = cost_a if cost_b is None else cost_b
    for name, cost in (("cost_a", cost_a), ("cost_b", cost_b)):
        checked_number(name, cost, "be positive, since with free answers no number of them is the best", above=0.0)
    delta = checked_delta(delta)

    def variance(a: Any, b: Any) -> Any:
        return omega2 + sigma2_a / a + sigma2_b / b

    def price(a: Any, b: Any) -> Any:
        return cost_question + cost_a * a + cost_b * b

    def needed(a: Any, b: Any) -> FloatArray:
        return questions_needed(np.atleast_1d(variance(a, b)), delta, cluster_size, alpha, power)

    # Where questions need not be whole: each number is the best given the other, and far fewer steps settle them.
    a = b = 1.0
    for _ in range(60):
        a = max(1.0, math.sqrt(sigma2_a * price(0, b) / (variance(np.inf, b) * cost_a)))
        b = max(1.0, math.sqrt(sigma2_b * price(a, 0) / (variance(a, np.inf) * cost_b)))
    a, b = round(a), round(b)
    # By eq. 9, before n is rounded, nothing costs less; nor do questions alone, with no noise of answers.
    most, scale = float(needed(a, b)[0]) * price(a, b), (normal_quantiles(alpha, power) / delta) ** 2
    reach = math.isqrt(HELD) // 4
    sides = (
        np.arange(max(1.0, k - reach), min(most / (scale * omega2 * cost), k + reach) + 1)
        for k, cost in ((a, cost_a), (b, cost_b))
    )
    A, B = np.meshgrid(*sides, indexing="ij")
    near = scale * variance(A, B) * price(A, B) <= most * (1 + EQUAL)
    A, B = A[near], B[near]
    n = needed(A, B)
    best = int(np.argmin(n * price(A, B)))
    a, b = int(A[best]), int(B[best])
    cost, noise_share = float(n[best] * price(a, b)), 1 - omega2 / variance(a, b)
    return AnswerPlan(a, b, int(n[best]), cost, noise_share, cost_one_answer=float(needed(1, 1)[0]) * price(1, 1))


# Few or unequal clusters, simulated

# Experiments come in blocks, each with a generator of its own.


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
    >>> simulated = er.plan.power(delta=0.05, cluster_sizes=[5] * 156, omega2=1 / 9, icc=0.3, seed=1)
    >>> f"{simulated.power:.2f} ({simulated.standard_error:.3f}), dof {simulated.dof:.0f}"
    '0.80 (0.004), dof 155'
    """
    delta, alpha = checked_number("delta", delta), fraction("alpha", alpha)
    sizes = np.array(checked_counts("cluster_sizes", cluster_sizes, 1, "questions"), dtype=np.float64)
    if sizes.size < 2:
        raise ArgumentError(
            "`cluster_sizes` must list the questions of two or more clusters, such as [5] * 40; got one."
        )
    rho = checked_icc(icc)
    noise = unit_variance(omega2, sigma2_a, sigma2_b, k_a, k_b) - omega2
    draws = checked_count("draws", draws, 1, "experiments")
    spread = np.sqrt(sizes**2 * rho * omega2 + sizes * ((1 - rho) * omega2 + noise))
    share = sizes / sizes.sum()
    dof = float(cell_dof(*cell_pieces(sparse.csr_array(share[:, None]), np.array([sizes.sum()]), 0.5))[0])
    critical = float(scipy.special.stdtrit(dof, 1 - alpha / 2))
    rejected, wrong = 0, 0
    base, printed = base_seed(seed)
    # A block has its own generator, whatever the number of draws: more draws extend the same experiments.
    for _, n, rng in blocks(draws, base, BLOCK):
        totals = (rng.standard_normal((BLOCK, sizes.size)) * spread)[:n]
        error = totals.sum(axis=1) / sizes.sum()
        residual = totals - error[:, None] * sizes
        t = (delta + error) / np.sqrt((residual**2 / (1 - share)).sum(axis=1) / sizes.sum() ** 2)  # CR2 of the mean
        rejected += int(np.count_nonzero(np.abs(t) > critical))
        wrong += int(np.count_nonzero(t * math.copysign(1.0, delta) < -critical)) if delta else 0
    rejection_rate = rejected / draws
    error = math.sqrt(rejection_rate * (1 - rejection_rate) / draws)
    return SimulatedPower(rejection_rate, error, wrong / draws, dof, draws, printed)
