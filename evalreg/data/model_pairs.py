"""Which models are compared with which, and the questions that both of a pair answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, listed, nearest
from evalreg.data.answers import Answers
from evalreg.errors import MissingColumnError

# In the place of a model that nobody is compared with.
NOBODY = -1
# A difference of averages below this is rounding.
TIED = 1e-9


@dataclass(frozen=True, eq=False)
class ModelPairs:
    """Which differences are taken, each over which questions."""

    # Models of each column; `right` is -1 where the column is the mean of `left` alone.
    left: IntArray
    right: IntArray
    # The set of questions of each column.
    of_set: IntArray
    # Questions of each set, (n_questions,); None is all of them.
    sets: tuple[BoolArray | None, ...]

    @property
    def n_columns(self) -> int:
        """Number of differences."""
        return self.left.size


def in_set(values: FloatArray, member: BoolArray | None) -> FloatArray:
    """Return the questions of a set, of values by model and question."""
    return values if member is None else values[:, member]


@dataclass(frozen=True, eq=False)
class Overlap:
    """How many questions the two models of each pair answered, one entry for each pair."""

    # Questions that the difference is over, and those that one of the two answered and the other did not.
    n: IntArray
    n_unpaired: IntArray
    # Whether the difference is over shared questions.
    paired: BoolArray


def compared_pairs(answers: Answers, model: str, baseline: str | None, *, paired: bool) -> ModelPairs:
    """The pairs of models with their shared questions, the better model first unless there is a baseline."""
    left, right = asked_pairs(answers.models, answers.order, model, baseline)
    return _oriented(answers, left, right, swap=paired and baseline is None)


def overlap_of(answers: Answers, pairs: ModelPairs, paired: bool) -> Overlap:
    """How many questions the two models of each pair answered; on request no pair counts as paired."""
    present = answers.present.astype(np.float64)
    shared = (present @ present.T)[pairs.left, pairs.right].round().astype(np.intp)
    own = answers.present.sum(axis=1)
    either, is_paired = own[pairs.left] + own[pairs.right], (shared > 0) & paired
    return Overlap(np.where(is_paired, shared, either), either - 2 * shared, is_paired)


def in_use(answers: Answers, pairs: ModelPairs, is_paired: BoolArray) -> tuple[Answers, ModelPairs]:
    """Answers and pairs without the questions that no difference is over; the unpaired use all of both models."""
    apart = np.append(pairs.left[~is_paired], pairs.right[~is_paired])
    used = np.asarray(answers.present[apart].any(axis=0), dtype=bool)
    for member in pairs.sets:
        used = used | True if member is None else used | member
    if used.all():
        return answers, pairs
    sets = tuple(member if member is None else member[used] for member in pairs.sets)
    return answers.only(used), replace(pairs, sets=sets)


def asked_pairs(
    models: Sequence[str], order: Sequence[int], model: str, baseline: str | None
) -> tuple[IntArray, IntArray]:
    """Models of each pair, `order` being from the best own mean down: the better one first, or against the baseline."""
    if baseline is None:
        first, second = np.triu_indices(len(order), 1)
        ranked = np.array(order)
        return ranked[first], ranked[second]
    if str(baseline) not in models:
        hint = nearest(baseline, models) or f" The models are {listed(models)}."
        raise MissingColumnError(
            f'`baseline` must be a model in column {model!r}; "{baseline}" is not.{hint}', column=model
        )
    against = models.index(str(baseline))
    others = np.array([i for i in order if i != against])
    return others, np.full(others.size, against)


def by_rank(left: IntArray, right: IntArray, order: Sequence[int]) -> IntArray:
    """The order of pairs by the rank of their models."""
    rank = np.empty(len(order), dtype=np.intp)
    rank[np.asarray(order)] = np.arange(rank.size)
    return np.lexsort((rank[right], rank[left]))


def _oriented(answers: Answers, left: IntArray, right: IntArray, *, swap: bool) -> ModelPairs:
    """The pairs with their shared questions; on request the better model on those first, and sorted."""
    sets, of_set = _shared(answers.present, left, right)
    if not swap:
        return ModelPairs(left, right, of_set, sets)
    totals = np.array([in_set(answers.values, member).sum(axis=1) for member in sets])
    worse = totals[of_set, left] < totals[of_set, right]
    left, right = np.where(worse, right, left), np.where(worse, left, right)
    order = by_rank(left, right, answers.order)
    return ModelPairs(left[order], right[order], of_set[order], sets)


def _shared(present: BoolArray, left: IntArray, right: IntArray) -> tuple[tuple[BoolArray | None, ...], IntArray]:
    """Distinct sets of questions that both of a pair answered, and the set of each pair."""
    if present.all():
        return (None,), np.zeros(left.size, dtype=np.intp)
    kind, kinds = pd.factorize(np.array([row.tobytes() for row in np.packbits(present, axis=1)], dtype=object))
    n_kinds = len(kinds)
    low, high = np.minimum(kind[left], kind[right]), np.maximum(kind[left], kind[right])
    _, first, of_set = np.unique(low * n_kinds + high, return_index=True, return_inverse=True)
    members = [present[left[i]] & present[right[i]] for i in first]
    return tuple(None if member.all() else member for member in members), of_set.ravel()
