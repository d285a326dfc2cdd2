"""Which of two models wins more questions: the exact sign test, and one that allows for clusters."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from evalreg.checks import FloatArray
from evalreg.data.clusters import Codes, joint
from evalreg.errors import ArgumentError, ArgumentTypeError
from evalreg.inference.wald import t_pvalues

MOST = 2**53


@dataclass(frozen=True)
class SignTest:
    """What `sign_test` found.

    Parameters
    ----------
    statistic : int
        Wins.
    p_value : float
        Two-sided, exact.
    n : int
        Wins and losses; ties are not among them.
    """

    statistic: int
    p_value: float
    n: int

    @property
    def smallest_p(self) -> float:
        """The smallest p-value that n allows, 2^(1 - n): above 0.05 where n is below 6."""
        return 2.0 ** min(1 - self.n, 0)


def sign_test(wins: int, losses: int) -> SignTest:
    """Exact two-sided test that a win is as likely as a loss.

    Wins are the questions (or comparisons) that went to one model, losses those that went to the other; where they
    did equally well they say nothing and are left out. For scores of 0 and 1 on the same questions this is the exact
    form of McNemar's test. Wins and losses are taken to be independent of each other: questions of one passage are
    not, and the clustered interval of the difference is then the better guide.

    Parameters
    ----------
    wins, losses : int
        Counts, from 0 to 2^53.

    Returns
    -------
    SignTest
        With `statistic` (the wins), `p_value`, `n`, and `smallest_p`, below which no p-value of n can fall: five wins
        and no loss have 0.0625. The p-value is Pr[X <= min or X >= max] for X binomial with n trials of probability
        1/2, and so 1 where wins equal losses.

    Raises
    ------
    ArgumentError
        If a count is negative, not whole or above 2^53.
    ArgumentTypeError
        If a count is not a number.

    References
    ----------
    McNemar (1947), Psychometrika 12, 153-157; Dixon and Mood (1946), Journal of the American Statistical Association
    41, 557-566.

    Examples
    --------
    >>> import evalreg as er
    >>> er.sign_test(8, 2)
    SignTest(statistic=8, p_value=0.109375, n=10)
    """
    wins, losses = _count("wins", wins), _count("losses", losses)
    return SignTest(wins, float(sign_pvalues(wins, losses)), wins + losses)


def sign_pvalues(wins: Any, losses: Any) -> FloatArray:
    """Exact two-sided p-values of as many wins as losses, 1 where there are none.

    Twice the smaller tail: both are equal at 1/2. By the incomplete beta function, which takes any counts.
    """
    from scipy import special

    fewer, n = np.minimum(wins, losses), np.add(wins, losses)
    tail = special.betainc(np.maximum(n - fewer, 1), fewer + 1.0, 0.5)
    return np.where(np.equal(wins, losses), 1.0, np.minimum(1.0, 2 * tail))


def _count(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ArgumentTypeError(f"`{name}` must be a count; got {type(value).__name__} {value!r}.")
    number = int(value) if isinstance(value, numbers.Integral) else float(value)
    # The binomial distribution is computed in floats, which hold whole numbers up to here.
    if not 0 <= number <= MOST or number != int(number):
        raise ArgumentError(
            f"`{name}` must be a whole number from 0 to 2**53; got {value!r}. Ties count as neither wins nor losses."
        )
    return int(number)


@dataclass(frozen=True)
class ClusteredSign:
    """The sign test of questions in clusters."""

    statistic: float  # (wins - losses)^2 over its variance under the null; NaN where there is none
    p_value: float  # two-sided, from t with the smallest number of clusters less one


def clustered_sign_test(signs: FloatArray, axes: Sequence[Codes]) -> ClusteredSign:
    """Test that wins are as likely as losses, where questions of a cluster may go together.

    With every question its own cluster, the statistic is McNemar's (wins - losses)^2/(wins + losses). McNemar (1947),
    Psychometrika 12, 153-157. In clusters, the square of the sum of the clusters' surplus of wins over the sum of their
    squares; crossed, by inclusion and exclusion, not below the largest one-way variance. Shapes: signs (n,).
    """
    n_smallest = min([codes.n_clusters for codes in axes], default=signs.size)
    together, one_way = 0.0, [] if axes else [float(signs @ signs)]
    for size in range(1, len(axes) + 1):
        for some in combinations(axes, size):
            squares = float(np.sum(np.bincount(joint(list(some)).codes, signs) ** 2))
            together -= (-1) ** size * squares
            one_way += [squares] if size == 1 else []
    variance = max([together, *one_way])
    if not variance > 0 or n_smallest < 2:
        return ClusteredSign(float("nan"), float("nan"))
    z = float(signs.sum()) / float(np.sqrt(variance))
    return ClusteredSign(z**2, float(t_pvalues(np.array([z]), np.array([n_smallest - 1.0]))[0]))
