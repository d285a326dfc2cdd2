"""Number of questions for a difference, and the difference that a number of questions detects."""

from __future__ import annotations

import math
import numbers

import scipy

from evalreg.checks import fraction
from evalreg.errors import ArgumentError, ArgumentTypeError

# A whole number of questions that arithmetic puts just above itself is not rounded up to the next.
ROUNDING = 1e-12


def sample_size(
    *,
    delta: float,
    omega2: float,
    sigma2_a: float = 0.0,
    sigma2_b: float = 0.0,
    k_a: float = 1,
    k_b: float = 1,
    alpha: float = 0.05,
    power: float = 0.8,
) -> int:
    """Number of questions at which a paired test of two models detects a difference with the power asked for.

    Both models answer the same questions, A `k_a` times each and B `k_b` times; the mean difference is compared with
    normal quantiles, two-sided. Questions are drawn independently, or in clusters of the same mix of sizes as those
    that a clustered `omega2` was estimated from. With few clusters the normal quantiles are too small, and so is n.

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
    alpha : float, optional
        Level of the two-sided test, 0.05 by default.
    power : float, optional
        Probability of detecting the difference, 0.8 by default; 1 minus the paper's beta. Above alpha/2.

    Returns
    -------
    int
        Questions, rounded up.

    Raises
    ------
    ArgumentError
        If a number is outside its range; an `omega2` of 0 or less is among these.
    ArgumentTypeError
        If an argument is not a number.

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
    """
    delta = _number("delta", delta)
    if delta <= 0:
        raise ArgumentError(
            f"`delta` must be positive, the size of the difference to be detected; got {delta:g}. The test is "
            "two-sided: pass the absolute value."
        )
    scale = _quantiles(alpha, power) * math.sqrt(_unit_variance(omega2, sigma2_a, sigma2_b, k_a, k_b)) / delta
    questions = scale * scale
    if not math.isfinite(questions):
        raise ArgumentError(f"`delta` must leave n within the range of numbers; got {delta:g}. Pass a larger one.")
    return max(1, math.ceil(questions * (1 - ROUNDING)))


def mde(
    *,
    n: int,
    omega2: float,
    sigma2_a: float = 0.0,
    sigma2_b: float = 0.0,
    k_a: float = 1,
    k_b: float = 1,
    alpha: float = 0.05,
    power: float = 0.8,
) -> float:
    """Smallest true difference that a paired test on n questions detects with the power asked for.

    The assumptions are those of `sample_size`.

    Parameters
    ----------
    n : int
        Questions that both models answer, at least 1.
    omega2 : float
        Variance over questions of the difference of the two models' expected scores, above 0.
    sigma2_a, sigma2_b : float, optional
        Variance of one answer about its question's expected score, averaged over questions; 0 by default.
    k_a, k_b : float, optional
        Answers to each question, at least 1, the default.
    alpha : float, optional
        Level of the two-sided test, 0.05 by default.
    power : float, optional
        Probability of detecting the difference, 0.8 by default. Above alpha/2.

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
    """
    questions = _number("n", n)
    if questions < 1 or questions != int(questions):
        raise ArgumentError(f"`n` must be a whole number of questions, at least 1; got {n!r}.")
    variance = _unit_variance(omega2, sigma2_a, sigma2_b, k_a, k_b)
    return _quantiles(alpha, power) * math.sqrt(variance / questions)


def _quantiles(alpha: float, power: float) -> float:
    """Return z_(alpha/2) + z_beta."""
    alpha, power = fraction("alpha", alpha), fraction("power", power)
    if power <= alpha / 2:
        raise ArgumentError(
            f"`power` must be above alpha/2, which the test reaches on either side without any difference; got "
            f"power={power:g} with alpha={alpha:g}. A usual power is 0.8."
        )
    return float(scipy.special.ndtri(power) - scipy.special.ndtri(alpha / 2))


def _unit_variance(omega2: float, sigma2_a: float, sigma2_b: float, k_a: float, k_b: float) -> float:
    """Variance of the mean difference times the number of questions."""
    omega2 = _number("omega2", omega2)
    if omega2 <= 0:
        raise ArgumentError(
            "`omega2` must be positive, as the variance over questions of the difference in expected scores; got "
            f"{omega2:g}. An estimate less the noise of K answers falls to 0 or below where that noise hides the "
            "rest: add questions or answers to the pilot, or plan with its `omega2_uncorrected`, which errs upwards."
        )
    noise = 0.0
    for side, sigma2, k in (("a", sigma2_a, k_a), ("b", sigma2_b, k_b)):
        sigma2, k = _number(f"sigma2_{side}", sigma2), _number(f"k_{side}", k)
        if sigma2 < 0:
            raise ArgumentError(f"`sigma2_{side}` must not be negative: it is a variance; got {sigma2:g}.")
        if k < 1:
            raise ArgumentError(f"`k_{side}` must be at least 1, the answers to each question; got {k:g}.")
        noise += sigma2 / k
    return omega2 + noise


def _number(name: str, value: object) -> float:
    """Return `value` as a finite float."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ArgumentTypeError(f"`{name}` must be a number; got {type(value).__name__} {value!r}.")
    try:
        number = float(value)
    except OverflowError:  # a whole number of more than 308 digits
        number = math.inf
    if not math.isfinite(number):
        raise ArgumentError(f"`{name}` must be finite; got {number:g}.")
    return number
