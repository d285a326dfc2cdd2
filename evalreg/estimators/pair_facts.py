"""What is known of each pair of models whatever the covariance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, listed
from evalreg.data.answers import Answers
from evalreg.data.clusters import Axis, as_codes
from evalreg.data.model_pairs import NOBODY, ModelPairs, Overlap
from evalreg.errors import DataError
from evalreg.inference.discordance import ClusteredSign, clustered_sign_test
from evalreg.numerics.matrices import dense
from evalreg.scores.base import Scores
from evalreg.scores.differences import by_set, chunks, differences
from evalreg.scores.paired import Paired
from evalreg.scores.paired_differences import paired_differences


@dataclass(frozen=True)
class Wins:
    """Which of two models wins the questions that both answered."""

    pair: int
    wins: int
    losses: int
    n: int
    # Sum of the scores of the first model: the questions that it answered right, where scores are 0 or 1.
    right: float
    clustered: ClusteredSign


@dataclass(frozen=True, eq=False)
class Facts(ABC):
    """What is known of each pair whatever the covariance, one entry for each pair."""

    # Models and their baselines, one of each for each pair, and the names of the differences.
    sides: tuple[tuple[str, ...], tuple[str, ...]]
    names: tuple[str, ...]
    # Questions that the difference is over, and those that one of the two answered and the other did not.
    n: IntArray
    n_unpaired: IntArray
    # Whether the difference is over shared questions.
    paired: BoolArray

    @cached_property
    def index(self) -> pd.MultiIndex:
        """Labels (model, baseline)."""
        return pd.MultiIndex.from_arrays([list(side) for side in self.sides], names=["model", "baseline"])

    @property
    def correlation(self) -> FloatArray:
        """Pearson's r of the two models' scores over shared questions."""
        return self._correlations[0]

    @property
    def variance_saved(self) -> FloatArray:
        """1 - Var(difference)/(Var(model) + Var(baseline)) over shared questions, taken to be independent."""
        return np.where(self.paired, self._correlations[1], np.nan)

    @property
    @abstractmethod
    def n_questions(self) -> int:
        """Questions in use, of all pairs."""

    @property
    @abstractmethod
    def _correlations(self) -> tuple[FloatArray, FloatArray]:
        """As `correlations` has them."""

    @abstractmethod
    def others(self) -> tuple[int, float]:
        """Scores in use that are neither 0 nor 1: how many, and one of them (0 where there is none)."""

    @abstractmethod
    def each_pair(self, scores: Scores, axes: tuple[Axis, ...]) -> Iterator[Wins]:
        """Wins and losses of the pairs that share questions, with the clusters in use."""

    @abstractmethod
    def family(self, estimate: Any, icc: float | None) -> Paired | None:
        """What the differences allow for that was not seen, as `paired_differences` has it."""


@dataclass(frozen=True, eq=False)
class HeldFacts(Facts):
    """The same of questions in memory."""

    # Scores of the questions in use, (n_models, n_questions).
    values: FloatArray
    pairs: ModelPairs

    @property
    def n_questions(self) -> int:
        """Questions in use, of all pairs."""
        return int(self.values.shape[1])

    @cached_property
    def _correlations(self) -> tuple[FloatArray, FloatArray]:
        return correlations(self.values, self.pairs)

    def others(self) -> tuple[int, float]:
        """Scores in use that are neither 0 nor 1: how many, and the first of them."""
        other = self.values[(self.values != 0) & (self.values != 1)]
        return other.size, float(other[0]) if other.size else 0.0

    def each_pair(self, scores: Scores, axes: tuple[Axis, ...]) -> Iterator[Wins]:
        """Wins and losses of the pairs that share questions, with the clusters in use."""
        labels = scores.row_labels()
        assert labels is not None
        codes = [labels.codes(axis) for axis in axes]
        for columns, member in chunks(self.pairs, self.n_questions):
            d = differences(self.values, self.pairs, columns, member)
            own = codes if member is None else [as_codes(one.codes[member]) for one in codes]
            for i, pair in enumerate(columns):
                if self.paired[pair]:
                    scored = self.values[self.pairs.left[pair]]
                    right = float((scored if member is None else scored[member]).sum())
                    wins, losses = int(np.sum(d[i] > 0)), int(np.sum(d[i] < 0))
                    yield Wins(int(pair), wins, losses, d.shape[1], right, clustered_sign_test(np.sign(d[i]), own))

    def family(self, estimate: Any, icc: float | None) -> Paired | None:
        """What the differences allow for that was not seen."""
        return paired_differences(estimate, icc, self.pairs, self.paired)


def facts_of(answers: Answers, pairs: ModelPairs, overlap: Overlap) -> HeldFacts:
    """The facts of pairs, from the answers that they are over."""
    sides = tuple(answers.models[i] for i in pairs.left), tuple(answers.models[i] for i in pairs.right)
    return HeldFacts(
        sides=sides,
        names=difference_names(*sides),
        n=overlap.n,
        n_unpaired=overlap.n_unpaired,
        paired=overlap.paired,
        values=answers.values,
        pairs=pairs,
    )


def difference_names(models: Sequence[str], baselines: Sequence[str]) -> tuple[str, ...]:
    """Names "model - baseline", all distinct."""
    names = tuple(f"{model} - {baseline}" for model, baseline in zip(models, baselines, strict=True))
    alike = [name for i, name in enumerate(names) if name in names[:i]] if len(set(names)) < len(names) else []
    if alike:
        raise DataError(
            f"differences need distinct names; {listed(alike)} would name two pairs of models. Rename models that have "
            '" - " in their names.',
            count=len(alike),
        )
    return names


def correlations(values: FloatArray, pairs: ModelPairs) -> tuple[FloatArray, FloatArray]:
    """Correlation of the scores of each pair over its questions, and the variance that pairing saves.

    Pearson's r, and 2 Cov/(Var + Var); NaN where scores do not vary or fewer than two questions are shared. Shapes:
    values (n_models, n_questions).
    """
    r, saved = np.full(pairs.n_columns, np.nan), np.full(pairs.n_columns, np.nan)
    for columns, member in by_set(pairs):
        if not columns.size or (member is not None and np.count_nonzero(member) < 2):
            continue
        left, right = pairs.left[columns], pairs.right[columns]
        models = np.unique(np.append(left, right))
        models = models[models != NOBODY]
        shared = values[models] if member is None else values[np.ix_(models, np.flatnonzero(member))]
        shared = shared - shared.mean(axis=1, keepdims=True)
        products = dense(shared @ shared.T)
        a, b = np.searchsorted(models, left), np.searchsorted(models, right)
        size = np.diag(products)
        floor = 1e-24 * shared.shape[1] * np.max(np.abs(values), initial=0.0) ** 2
        r[columns], saved[columns] = _of_squares(size[a], size[b], products[a, b], np.full(a.size, floor))
    return r, saved


def correlations_of_sums(
    n: FloatArray, sums: Mapping[str, FloatArray], largest: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The same of sums x, y, xx, yy and xy of scores over n questions of each pair; `largest` is that of a score."""
    count = np.where(n > 1, n, np.nan)
    xx, yy, xy = (sums[a + b] - sums[a] * sums[b] / count for a, b in (("x", "x"), ("y", "y"), ("x", "y")))
    return _of_squares(xx, yy, xy, 1e-24 * n * largest**2)


def _of_squares(xx: FloatArray, yy: FloatArray, xy: FloatArray, floor: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Pearson's r and 2 Cov/(Var + Var); NaN where squares are below a floor, which is rounding."""
    varies = (xx > floor) & (yy > floor)
    scale = np.sqrt(np.where(varies, xx * yy, np.nan))
    total = xx + yy
    return np.clip(xy / scale, -1.0, 1.0), 2 * xy / np.where(total > floor, total, np.nan)
