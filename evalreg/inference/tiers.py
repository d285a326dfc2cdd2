"""Which models are separated: groups that are not, as letters, and tiers that are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, IntArray, fraction
from evalreg.inference.make_family import make_family
from evalreg.inference.multiplicity import base_seed
from evalreg.inference.ranks import PairAdjustName, surely_better
from evalreg.inference.simultaneous import Seed

# Of largest sets beyond so many for each model (there can be millions) only as many are made as every pair needs.
MOST_SETS = 2


@dataclass(frozen=True, eq=False)
class SeparatedPairs:
    """Which pairs of models are separated, all at one family-wise level."""

    names: pd.Index[Any]  # of the models, as the parameters have them
    order: tuple[int, ...]  # their places, the largest estimate first
    apart: BoolArray  # (n_models, n_models), in that order


def separated(params: Any, cov: Any, *, alpha: float = 0.05, dof: Any = np.inf, seed: Seed = 0) -> SeparatedPairs:
    """Pairs that the comparison of all pairs separates, as ranks do; one without a positive variance is not."""
    alpha = fraction("alpha", alpha)
    base, _ = base_seed(seed)
    family = make_family(params, cov, "pairs", dof)
    better, _, _ = surely_better(family, alpha, base, joint=True, stepdown=False)
    names, theta = family.params.index, family.params.to_numpy(np.float64)
    order = sorted(range(theta.size), key=lambda i: (-theta[i], str(names[i])))
    return SeparatedPairs(names, tuple(order), np.logical_or(better[0], better[0].T)[np.ix_(order, order)])


def deciding_adjustment(params: Any, cov: Any) -> PairAdjustName:
    """The adjustment of p-values of pairs that decides what ranks, letters and tiers decide."""
    return "holm" if make_family(params, cov, "pairs", np.inf).few else "single-step"


@dataclass(frozen=True, eq=False)
class JudgedPair:
    """One pair of models among all: what `pairwise_table` says of it with the adjustment that decides."""

    difference: float  # of the first of the two in the order of parameters, less the other
    p_adjusted: float  # NaN without a positive variance
    n_pairs: int  # that are judged together
    undecided: tuple[tuple[Any, Any], ...]  # pairs without a positive variance


def judged_pair(params: Any, cov: Any, one: Any, other: Any, *, alpha: float = 0.05, seed: Seed = 0) -> JudgedPair:
    """One pair among all; of hundreds of models no p-values of all pairs are made."""
    family = make_family(params, cov, "pairs", np.inf)
    which = np.asarray([set(pair) == {one, other} for pair in family.names])
    undecided = tuple(family.names[~family.inside])
    p = np.array([np.nan])
    if family.inside[which].all():
        level = family.joint(fraction("alpha", alpha), base_seed(seed)[0])
        p = family.counted(level)[which] if family.few else level.adjusted(np.array([family.largest_p(which)]))
    return JudgedPair(float(family.effect[which][0]), float(p[0]), int(family.inside.sum()), undecided)


def letters(params: Any, cov: Any, *, alpha: float = 0.05, dof: Any = np.inf, seed: Seed = 0) -> pd.Series[str]:
    """Letters by model: two models share one exactly if they are not separated.

    Separated is by the single-step comparison of all pairs. A pair without a positive variance is not.

    Indexed by model; "a" holds the largest estimate. With more than 26 groups names go on with "aa", and a space stands
    between those of one model. Groups are as large as can be; of more than two for each model only those that pairs
    need are named. Piepho (2004), Journal of Computational and Graphical Statistics 13(2), 456-466. Shapes: params
    (n_models,), cov (n_models, n_models).
    """
    found = separated(params, cov, alpha=alpha, dof=dof, seed=seed)
    held = groups_of_unseparated(found.apart)
    labels = [_letter(i) for i in range(len(held))]
    between = " " if len(held) > 26 else ""
    places = range(len(found.order))
    own = [between.join(labels[i] for i, group in enumerate(held) if place in group) for place in places]
    return pd.Series(dict(zip(found.order, own, strict=True)), name="letters").sort_index().set_axis(found.names)


def tiers(params: Any, cov: Any, *, alpha: float = 0.05, dof: Any = np.inf, seed: Seed = 0) -> pd.Series[int]:
    """Tier by model, from 1: each model of a tier is separated from each model of the tiers below it.

    Indexed by model. Arguments as in `letters`; no two models of different tiers share a letter.
    """
    found = separated(params, cov, alpha=alpha, dof=dof, seed=seed)
    own = dict(zip(found.order, tiers_of(found.apart).tolist(), strict=True))
    return pd.Series(own, name="tier", dtype=np.intp).sort_index().set_axis(found.names)


def tiers_of(apart: BoolArray) -> IntArray:
    """Tiers of models that are sorted from the best down, from 1; the most there can be.

    A new one begins where every model above is apart from every model below. Shapes: apart (n_models, n_models).
    """
    n = apart.shape[0]
    # The last model that each is not apart from, itself at least.
    reach = n - 1 - np.argmax(~apart[:, ::-1], axis=1)
    begins = np.ones(n, dtype=bool)
    begins[1:] = np.maximum.accumulate(reach)[:-1] < np.arange(1, n)
    return np.cumsum(begins).astype(np.intp)


def groups_of_unseparated(apart: BoolArray) -> list[tuple[int, ...]]:
    """The largest sets of models without two that are separated; where they are many, enough of them.

    In lexicographic order. Every two models that are not separated share a set; no separated two do. Shapes: apart
    (n_models, n_models).
    """
    near = [sum(1 << int(other) for other in np.flatnonzero(~row)) for row in apart]
    sets = _largest_sets(near)
    return sorted(_members(group) for group in (_enough_sets(near) if sets is None else sets))


def _largest_sets(near: list[int]) -> list[int] | None:
    """All of them, None where there are too many; a set is a number whose bits are its models.

    `near` holds, for each model, the set of those it is not separated from, itself among them.
    """
    sets: list[int] = []
    for model, others in enumerate(near):
        # Insert the model where it fits; a set that holds a separated model keeps its own, and gives a smaller one.
        whole = [group | 1 << model for group in sets if not group & ~others]
        parts = {group & others | 1 << model for group in sets if group & ~others} or {1 << model}
        sets = [group for group in sets if group & ~others]
        held = whole
        # Absorb: what lies inside another set goes.
        for part in sorted(parts - set(whole), key=int.bit_count, reverse=True):
            if all(part & ~group for group in held):
                held.append(part)
        sets += held
        # Each stays, or grows, with every further model.
        if len(sets) > MOST_SETS * len(near):
            return None
    return sets


def _enough_sets(near: list[int]) -> list[int]:
    """Some of the largest sets, so that every two models that are not separated share one.

    Each begins with the first two that share none yet and takes in, best first, what fits: those that share none yet
    with the first, then any.
    """
    sets: list[int] = []
    shared = [0] * len(near)
    for model, others in enumerate(near):
        while alone := others & ~shared[model]:
            group, fits = 1 << model, others & ~(1 << model)
            while fits:
                chosen = fits & alone or fits
                best = chosen & -chosen  # the lowest bit
                group, fits = group | best, fits & near[best.bit_length() - 1] & ~best
            for member in _members(group):
                shared[member] |= group
            sets.append(group)
    return sets


def _members(group: int) -> tuple[int, ...]:
    return tuple(place for place, bit in enumerate(reversed(bin(group)[2:])) if bit == "1")


def _letter(i: int) -> str:
    return _letter(i // 26 - 1) + chr(97 + i % 26) if i >= 26 else chr(97 + i)
