"""How many prompts and judges a leaderboard needs until two neighbours separate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, fraction
from evalreg.covariance.widths import crossed_widths
from evalreg.errors import ArgumentError
from evalreg.planning.checked_numbers import checked_count, checked_delta, checked_variance
from evalreg.planning.t_power import t_power, t_shift

# No benchmark has more prompts.
MOST_PROMPTS = 1_000_000


def board(
    *,
    delta: float,
    model_prompt: float,
    residual: float,
    model_judge: float = 0.0,
    judges: Iterable[int] = (2, 3, 5, 10),
    alpha: float = 0.05,
    power: float = 0.8,
) -> pd.DataFrame:
    """Prompts that separate two neighbours of a leaderboard, for several numbers of judges.

    Every judge rates both models on every prompt; prompts and judges are samples of all that could have been asked.
    What is common to all models, such as hard prompts and strict judges, cancels in a difference, so that three
    variance components are left.

    Parameters
    ----------
    delta : float
        True difference of the two models' scores, above 0, in units of the score.
    model_prompt : float
        Variance of the interaction of model and prompt: that prompts suit models differently.
    residual : float
        Variance of a single rating about all effects of model, prompt and judge: the interaction of all three, and
        noise.
    model_judge : float, optional
        Variance of the interaction of model and judge: that judges have favourites; 0 by default.
    judges : iterable of int, optional
        Numbers of judges; 1 only where `model_judge` is 0, since one judge says nothing about others.
    alpha : float, optional
        Level of the two-sided test, 0.05 by default; divide it by the number of neighbours for all at once.
    power : float, optional
        Probability of telling the two apart, 0.8 by default. Above alpha.

    Returns
    -------
    pandas.DataFrame
        Indexed by the number of judges, with columns

        - `prompts`: the number needed; missing where no number is enough, since the judges' favourites alone hide the
          difference.
        - `ratings`: prompts times judges, of each model.
        - `se`, `dof`: standard error of the difference at that number, and its degrees of freedom.
        - `smallest`: the difference that this many judges detect with unlimited prompts.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is outside its range.

    Notes
    -----
    The variance of the difference is 2 (model_prompt/P + model_judge/J + residual/(P J)); its estimate by
    inclusion-exclusion has the degrees of freedom at which t gives the half-width that is expected with
    `groups="prompt + judge"`, the root of a sum of t^2 V over its three terms. The power is that of the noncentral t
    distribution.

    References
    ----------
    Brennan (2001), Generalizability Theory, section 4.2 (D studies of a crossed design); Banerjee (1960),
    Sankhya 22, 359-362.

    Examples
    --------
    >>> import evalreg as er
    >>> table = er.plan.board(delta=0.1, model_prompt=0.05, model_judge=0.002, residual=0.1, judges=[2, 3, 6])
    >>> print(table[["prompts", "ratings", "smallest"]].round(3).to_string())
            prompts  ratings  smallest
    judges
    2          <NA>     <NA>     0.730
    3          <NA>     <NA>     0.206
    6           678     4068     0.091
    """
    delta = checked_delta(delta)
    parts = (
        checked_variance("model_prompt", model_prompt),
        checked_variance("model_judge", model_judge),
        checked_variance("residual", residual),
    )
    if parts[0] + parts[2] == 0:
        raise ArgumentError("`model_prompt` and `residual` must not both be 0: nothing would be left to plan for.")
    numbers = [checked_count("judges", number, 1, "judges") for number in judges]
    if not numbers:
        raise ArgumentError("`judges` must name at least one number; got an empty list.")
    if 1 in numbers and parts[1] > 0:
        raise ArgumentError(
            "`judges` of 1 says nothing about other judges where `model_judge` is above 0. Ask for at least 2, or pass "
            "model_judge=0 to hold the one judge fixed, and speak of it alone."
        )
    t_shift(1e6, alpha, power)
    fraction("alpha", alpha)
    rows = [_row(delta, parts, number, alpha, power) for number in numbers]
    table = pd.DataFrame(rows, index=pd.Index(numbers, name="judges"))
    return table.astype({"prompts": "Int64", "ratings": "Int64"})


def difference_variance(
    parts: tuple[float, float, float], prompts: float, judges: int, alpha: float = 0.05
) -> tuple[float, float]:
    """Variance of the difference of two models on a crossed design, and its degrees of freedom."""
    p, j, r = (2 * part for part in parts)
    a, b, c = p / prompts, j / judges, r / (prompts * judges)
    if judges == 1 or j == 0:
        # Judges without favourites are no source of error; the prompts' means are the units.
        return a + b + c, prompts - 1.0
    terms: FloatArray = np.array([[a + c], [b + c], [c]])
    dofs = np.array([[prompts - 1.0], [judges - 1.0], [prompts * judges - 1.0]])
    widths = crossed_widths(np.array([a + b + c]), terms, dofs, [(0,), (1,), (0, 1)], "max")
    return a + b + c, float(widths.dof(alpha)[0])


def _row(delta: float, parts: tuple[float, float, float], judges: int, alpha: float, power: float) -> dict[str, object]:
    def enough(prompts: int) -> bool:
        variance, dof = difference_variance(parts, prompts, judges, alpha)
        return t_power(delta / math.sqrt(variance), dof, alpha) >= power

    limit = 2 * parts[1] / judges
    smallest = t_shift(judges - 1, alpha, power) * math.sqrt(limit) if limit > 0 else 0.0
    prompts = fewest_prompts(enough)
    if prompts is None:
        return {"prompts": None, "ratings": None, "se": math.sqrt(limit), "dof": judges - 1.0, "smallest": smallest}
    variance, dof = difference_variance(parts, prompts, judges, alpha)
    return {
        "prompts": prompts,
        "ratings": prompts * judges,
        "se": math.sqrt(variance),
        "dof": dof,
        "smallest": smallest,
    }


def fewest_prompts(enough: Callable[[int], bool]) -> int | None:
    """Smallest number of prompts that is enough, or None."""
    high = 2
    while not enough(high):
        high *= 2
        if high > MOST_PROMPTS:
            return None
    low = max(high // 2, 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
