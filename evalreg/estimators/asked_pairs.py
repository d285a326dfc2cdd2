"""The pairs of models that are compared, and the questions that both of a pair answered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from evalreg.checks import (
    BoolArray,
    IntArray,
    listed,
    nearest,
)
from evalreg.data.answers import Answers
from evalreg.errors import (
    MissingColumnError,
)
from evalreg.estimators.pair_tables import Facts, correlations
from evalreg.scores.differences import ModelPairs, chosen


def asked_pairs(answers: Answers, model: str, baseline: str | None) -> tuple[IntArray, IntArray]:
    """Models of each pair, the better one by its own mean first."""
    order = answers.order
    if baseline is None:
        first, second = np.triu_indices(len(order), 1)
        ranked = np.array(order)
        return ranked[first], ranked[second]
    if str(baseline) not in answers.models:
        hint = nearest(baseline, answers.models) or f" The models are {listed(answers.models)}."
        raise MissingColumnError(
            f'`baseline` must be a model in column {model!r}; "{baseline}" is not.{hint}', column=model
        )
    against = answers.models.index(str(baseline))
    others = np.array([i for i in order if i != against])
    return others, np.full(others.size, against)


def oriented(answers: Answers, left: IntArray, right: IntArray, *, swap: bool) -> ModelPairs:
    """The pairs with their shared questions; on request the better model on those first, and sorted."""
    sets, of_set = _shared(answers.present, left, right)
    if not swap:
        return ModelPairs(left, right, of_set, sets)
    totals = np.array([chosen(answers.values, member).sum(axis=1) for member in sets])
    worse = totals[of_set, left] < totals[of_set, right]
    left, right = np.where(worse, right, left), np.where(worse, left, right)
    rank = np.empty(len(answers.models), dtype=np.intp)
    rank[answers.order] = np.arange(rank.size)
    order = np.lexsort((rank[right], rank[left]))
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


def facts_of(answers: Answers, pairs: ModelPairs, paired: bool) -> tuple[Answers, Facts]:
    """What is known of the pairs; and the answers to the questions that some difference is over."""
    present = answers.present.astype(np.float64)
    shared = (present @ present.T)[pairs.left, pairs.right].round().astype(np.intp)
    own = answers.present.sum(axis=1)
    either, is_paired = own[pairs.left] + own[pairs.right], (shared > 0) & paired
    if paired:
        answers, pairs = _in_use(answers, pairs, is_paired)
    r, saved = correlations(answers.values, pairs)
    names = [[answers.models[i] for i in side] for side in (pairs.left, pairs.right)]
    facts = Facts(
        index=pd.MultiIndex.from_arrays(names, names=["model", "baseline"]),
        n=np.where(is_paired, shared, either),
        n_unpaired=either - 2 * shared,
        paired=is_paired,
        correlation=r,
        variance_saved=np.where(is_paired, saved, np.nan),
        values=answers.values,
        pairs=pairs,
    )
    return answers, facts


def _in_use(answers: Answers, pairs: ModelPairs, is_paired: BoolArray) -> tuple[Answers, ModelPairs]:
    """Answers and pairs without the questions that no difference is over; the unpaired use all of both models."""
    apart = np.append(pairs.left[~is_paired], pairs.right[~is_paired])
    used = np.asarray(answers.present[apart].any(axis=0), dtype=bool)
    for member in pairs.sets:
        used = used | True if member is None else used | member
    if used.all():
        return answers, pairs
    sets = tuple(member if member is None else member[used] for member in pairs.sets)
    return answers.only(used), replace(pairs, sets=sets)
