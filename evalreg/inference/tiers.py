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


def letters(params: Any, cov: Any, *, alpha: float = 0.05, dof: Any = np.inf, seed: Seed = 0) -> pd.Series[str]:
    """Letters by model: two models share one exactly if they are not separated.

    Separated is by the single-step comparison of all pairs. A pair without a positive variance is not.

    Indexed by model; "a" holds the largest estimate. With more than 26 groups names go on with "aa", and a space stands
    between those of one model. Piepho (2004), Journal of Computational and Graphical Statistics 13(2), 456-466. Shapes:
    params (n_models,), cov (n_models, n_models).
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
    """The largest sets of models without two that are separated.

    In lexicographic order. Every two models that are not separated share a set; no separated two do. Shapes: apart
    (n_models, n_models).
    """
    sets: list[frozenset[int]] = []
    for model in range(apart.shape[0]):
        near = frozenset(np.flatnonzero(~apart[model, :model]).tolist())
        # Insert the model where it fits; a set that holds a separated model keeps its own, and gives a smaller one.
        whole = [group | {model} for group in sets if group <= near]
        parts = {(group & near) | {model} for group in sets if not group <= near} or {frozenset({model})}
        sets = [group for group in sets if not group <= near] + whole
        # Absorb: what lies inside another set goes.
        for part in sorted(parts - set(whole), key=lambda group: (-len(group), sorted(group))):
            if not any(part <= group for group in sets if model in group):
                sets.append(part)
    return sorted(tuple(sorted(group)) for group in sets)


def _letter(i: int) -> str:
    return _letter(i // 26 - 1) + chr(97 + i % 26) if i >= 26 else chr(97 + i)
