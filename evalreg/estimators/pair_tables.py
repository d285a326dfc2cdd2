"""What is known of each pair of models whatever the covariance, and which of two wins more questions."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse, special

from evalreg.checks import BoolArray, FloatArray, IntArray, listed
from evalreg.covariance.crossed import subsets, t_pvalues
from evalreg.data.answers import ModelPairs, in_set
from evalreg.data.clusters import EXACT, Codes, as_codes, joint
from evalreg.errors import ArgumentError, ArgumentTypeError, DataError
from evalreg.numerics.matrices import dense
from evalreg.scores.differences import by_set, chunks, differences

if TYPE_CHECKING:
    from evalreg.data.answers import Answers


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
    fewer, n = np.minimum(wins, losses), np.add(wins, losses)
    tail = special.betainc(np.maximum(n - fewer, 1), fewer + 1.0, 0.5)
    return np.where(np.equal(wins, losses), 1.0, np.minimum(1.0, 2 * tail))


def _count(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ArgumentTypeError(f"`{name}` must be a count; got {type(value).__name__} {value!r}.")
    number = int(value) if isinstance(value, numbers.Integral) else float(value)
    if not 0 <= number <= EXACT or number != int(number):
        raise ArgumentError(
            f"`{name}` must be a whole number from 0 to 2**53; got {value!r}. Ties count as neither wins nor losses."
        )
    return int(number)


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of each pair of models whatever the covariance, one entry for each pair."""

    index: pd.MultiIndex  # (model, baseline)
    names: tuple[str, ...]  # of the differences
    # Questions that the difference is over, and those that one of the two answered and the other did not.
    n: IntArray
    n_unpaired: IntArray
    paired: BoolArray  # whether it is over shared questions
    values: FloatArray  # (n_models, n_questions): scores of the questions in use
    pairs: ModelPairs

    @cached_property
    def correlations(self) -> tuple[FloatArray, FloatArray]:
        """Pearson's r of the scores of a pair over its questions, and the variance that pairing saves.

        2 Cov/(Var + Var), were questions independent; NaN where scores do not vary or fewer than two are shared.
        """
        r, saved = np.full((2, len(self.index)), np.nan)
        # Squares below this are rounding.
        least = 1e-24 * np.max(np.abs(self.values), initial=0.0) ** 2
        for columns, member in by_set(self.pairs):
            shared = in_set(self.values, member)
            if not columns.size or shared.shape[1] < 2:
                continue
            models, place = np.unique([self.pairs.left[columns], self.pairs.right[columns]], return_inverse=True)
            scores, (a, b) = shared[models], place.reshape(2, -1)
            scores = scores - scores.mean(axis=1, keepdims=True)
            products, floor = scores @ scores.T, least * shared.shape[1]
            xx, yy, xy = products[a, a], products[b, b], products[a, b]
            varies, total = (xx > floor) & (yy > floor), xx + yy
            r[columns] = np.clip(xy / np.sqrt(np.where(varies, xx * yy, np.nan)), -1.0, 1.0)
            saved[columns] = 2 * xy / np.where(total > floor, total, np.nan)
        return r, np.where(self.paired, saved, np.nan)

    @cached_property
    def outcomes(self) -> pd.DataFrame:
        """Wins, losses and ties of each pair, and the sum of the first model's scores; NaN without shared questions."""
        table = np.full((len(self.index), 4), np.nan)
        for columns, member in self._shared():
            sign = np.sign(differences(self.values, self.pairs, columns, member))
            counts = [np.count_nonzero(sign == value, axis=1) for value in (1, -1, 0)]
            scored = in_set(self.values, member)[self.pairs.left[columns]].sum(axis=1)
            table[columns] = np.column_stack([*counts, scored])
        kinds = dict.fromkeys(("wins", "losses", "ties"), "int64" if self.paired.all() else "float64")
        return pd.DataFrame(table, self.index, [*kinds, "right"]).astype(kinds)

    def clustered_sign(self, axes: Sequence[Codes]) -> dict[str, FloatArray]:
        """Statistic of each pair and its two-sided p-value by t with the fewest clusters less one; NaN where none is.

        That wins are as likely as losses. With every question its own cluster, the statistic is McNemar's
        (wins - losses)^2/(wins + losses). McNemar (1947), Psychometrika 12, 153-157. In clusters, the square of the sum
        of the clusters' surplus of wins over the sum of their squares; crossed, by inclusion and exclusion, not below
        the largest one-way variance.
        """
        z, p = np.full((2, len(self.index)), np.nan)
        for columns, member in self._shared():
            sign = np.sign(differences(self.values, self.pairs, columns, member))
            every = [codes.codes for codes in axes] or [np.arange(self.values.shape[1])]
            inside = [as_codes(codes if member is None else codes[member]) for codes in every]
            terms = []
            for dims in subsets(len(inside)):
                cluster = joint([inside[d] for d in dims])
                n = cluster.codes.size
                members = sparse.csr_array((np.ones(n), cluster.codes, np.arange(n + 1)))
                terms.append((-1) ** (len(dims) + 1) * np.sum(dense(sign @ members) ** 2, axis=1))
            variance = np.max([np.sum(terms, axis=0), *terms[: len(inside)]], axis=0)
            dof = min(codes.n_clusters for codes in inside) - 1.0
            z[columns] = sign.sum(axis=1) / np.sqrt(np.where((variance > 0) & (dof > 0), variance, np.nan))
            p[columns] = t_pvalues(z[columns], np.full(len(sign), dof))
        return {"clustered_statistic": z**2, "clustered_p_value": p}

    def _shared(self) -> list[tuple[IntArray, BoolArray | None]]:
        parts = chunks(self.pairs, self.values.shape[1])
        return [(columns, member) for columns, member in parts if self.paired[columns].all()]


def facts_of(answers: Answers, pairs: ModelPairs, paired: bool) -> Facts:
    """The facts of pairs, from the answers of all models; unless `paired`, no pair counts as sharing questions."""
    sides = [[answers.models[i] for i in side] for side in (pairs.left, pairs.right)]
    names = tuple(map(" - ".join, zip(*sides, strict=True)))
    if len(set(names)) < len(names):
        alike = [name for i, name in enumerate(names) if name in names[:i]]
        raise DataError(
            f"differences need distinct names; {listed(alike)} would name two pairs of models. Rename models that have "
            '" - " in their names.',
            count=len(alike),
        )
    present = answers.present.astype(np.float64)
    shared = (present @ present.T)[pairs.left, pairs.right].round().astype(np.intp)
    n_answered = answers.present.sum(axis=1)
    either, is_paired = n_answered[pairs.left] + n_answered[pairs.right], (shared > 0) & paired
    n = np.where(is_paired, shared, either)
    index = pd.MultiIndex.from_arrays(sides, names=["model", "baseline"])
    return Facts(index, names, n, either - 2 * shared, is_paired, answers.values, pairs)
