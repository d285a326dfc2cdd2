"""How many answers to each question: what is cheapest, and beyond which number more buy nothing."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from evalreg.checks import FloatArray, fraction
from evalreg.errors import ArgumentError
from evalreg.planning.checked_numbers import checked_at_least, checked_delta, checked_number, checked_variance
from evalreg.planning.power import fewest_questions, questions_needed, unit_variance
from evalreg.planning.t_power import normal_quantiles

# A whole number that arithmetic puts just above itself is not rounded up to the next.
ROUNDING = 1e-12
# Pairs of numbers of answers that are priced at most, and numbers of answers that are looked at.
MOST_PAIRS = 1_000_000
MOST_ANSWERS = 200_000


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
    sigma2_a, sigma2_b : float, optional
        Variance of one answer about its question's expected score. Where it is 0, one answer is enough.
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
    omega2 = unit_variance(omega2, 0.0, 0.0, 1, 1)
    question = checked_at_least("cost_question", cost_question, 0, "the cost of one more question")
    costs = tuple(
        _cost(name, cost) for name, cost in (("cost_a", cost_a), ("cost_b", cost_a if cost_b is None else cost_b))
    )
    noise = (checked_variance("sigma2_a", sigma2_a), checked_variance("sigma2_b", sigma2_b))

    delta = checked_delta(delta)

    def plan(k: tuple[int, int]) -> tuple[float, tuple[int, int], int]:
        n = questions_needed(_each(omega2, noise, k), delta, cluster_size, alpha, power)
        return n * _price(question, costs, k), k, n

    # Around the best real numbers, and then wherever a whole number of questions may cost less.
    first = min(plan(k) for k in _candidates(omega2, noise, question, costs))
    pairs = _pairs(first, (normal_quantiles(alpha, power) / delta) ** 2, omega2, noise, question, costs)
    variance = _each(omega2, noise, pairs)
    n = fewest_questions(variance, delta, cluster_size, alpha, power)
    price = n * _price(question, costs, pairs)
    cheapest = int(np.argmin(price)) if price.size else 0
    others = [(int(pairs[0][cheapest]), int(pairs[1][cheapest]))] if price.size else []
    cost, (k_a, k_b), questions = min([first, *map(plan, others)])
    return AnswerPlan(
        k_a=k_a,
        k_b=k_b,
        n=questions,
        cost=cost,
        noise_share=1 - omega2 / _each(omega2, noise, (k_a, k_b)),
        cost_one_answer=plan((1, 1))[0],
    )


def enough_answers(*, omega2: float, sigma2: float, share: float = 0.05) -> int:
    """Answers to each question beyond which more buy next to nothing.

    Parameters
    ----------
    omega2 : float
        Variance over questions of expected scores, or of the difference of two models' expected scores, above 0.
    sigma2 : float
        Variance of one answer within its question; for a difference the sum of both models'.
    share : float, optional
        Share of the variance that answer noise may keep, 0.05 by default: then even infinitely many answers would
        shorten the interval by no more than 2.5%.

    Returns
    -------
    int
        Smallest K with (sigma2/K)/(omega2 + sigma2/K) at or below `share`.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is outside its range.

    References
    ----------
    Miller (2024), arXiv:2411.00640, section 3.1.

    Examples
    --------
    Uniform chances of being right, as in the paper:

    >>> import evalreg as er
    >>> er.plan.enough_answers(omega2=1 / 12, sigma2=1 / 6)
    38
    """
    omega2 = unit_variance(omega2, 0.0, 0.0, 1, 1)
    sigma2, share = checked_variance("sigma2", sigma2), fraction("share", share)
    return max(1, math.ceil(sigma2 * (1 - share) / (share * omega2) * (1 - ROUNDING)))


def _cost(name: str, value: object) -> float:
    cost = checked_number(name, value)
    if cost <= 0:
        raise ArgumentError(
            f"`{name}` must be positive: with free answers no number of them is the best; got {cost:g}."
        )
    return cost


def _each(omega2: float, noise: tuple[float, ...], k: tuple[Any, ...]) -> Any:
    return omega2 + sum(sigma2 / times for sigma2, times in zip(noise, k, strict=True))


def _price(question: float, costs: tuple[float, ...], k: tuple[Any, ...]) -> Any:
    return question + sum(cost * times for cost, times in zip(costs, k, strict=True))


def _candidates(
    omega2: float, noise: tuple[float, ...], question: float, costs: tuple[float, ...]
) -> list[tuple[int, int]]:
    """Whole numbers around the best ones, with each side at its own optimum or held at 1."""
    found = set()
    for held in ((), (0,), (1,)):
        # An answer that is held at 1 belongs to the question: its noise and its cost come with it.
        within = omega2 + sum(noise[side] for side in held)
        fixed = question + sum(costs[side] for side in held)
        around = [
            [1] if side in held else _near(math.sqrt(noise[side] * fixed / (within * costs[side]))) for side in (0, 1)
        ]
        found |= set(itertools.product(*around))
    return [(a, b) for a, b in found]


def _near(best: float) -> list[int]:
    low = max(1, math.floor(best) - 1)
    return list(range(low, low + 4))


def _pairs(
    best: tuple[float, tuple[int, int], int],
    scale: float,
    omega2: float,
    noise: tuple[float, ...],
    question: float,
    costs: tuple[float, ...],
) -> tuple[FloatArray, FloatArray]:
    """Whole numbers of answers of both models whose cost by eq. 9, before n is rounded, is below the best so far."""
    cost, k, _ = best
    reach = MOST_PAIRS**0.5 / 2
    sides = []
    for side in (0, 1):
        other = 1 - side
        most = min(cost / (scale * omega2 * costs[side]), k[side] + reach, MOST_ANSWERS)
        times = np.arange(max(1.0, k[side] - reach), most + 1)
        variance, price = omega2 + noise[side] / times, question + costs[side] * times
        # The other model's best number of answers, a real one.
        free = np.sqrt(noise[other] * price / (variance * costs[other])).clip(1.0)
        least = scale * (variance + noise[other] / free) * (price + costs[other] * free)
        sides.append(times[least < cost])
    a, b = (grid.ravel() for grid in np.meshgrid(*sides, indexing="ij"))
    below = scale * _each(omega2, noise, (a, b)) * _price(question, costs, (a, b)) < cost
    return a[below], b[below]
