"""Differences of all pairs, rank sets, and which models are separated, as letters and tiers."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, adjustment, fraction
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.crossed import Widths
from evalreg.inference.simultaneous import (
    ADJUSTMENTS,
    ContrastFamily,
    Seed,
    adjust_pvalues,
    base_seed,
    family_of,
    pair_positions,
)
from evalreg.numerics.limits import BLOCK, HELD, SMALLEST_P

PairAdjustName: TypeAlias = Literal["holm", "fdr_bh", "bh", "bonferroni", "single-step", "step-down"]
PAIR_ADJUSTMENTS: tuple[PairAdjustName, ...] = (*ADJUSTMENTS, "single-step", "step-down")


def pairwise_table(
    params: Any,
    cov: Any,
    adjust: PairAdjustName | None = None,
    alpha: float = 0.05,
    *,
    dof: Any = np.inf,
    seed: Seed = 0,
) -> pd.DataFrame:
    """Differences between all pairs of models.

    Indexed by (left, right), columns `difference se lower upper p_value`, and `p_adjusted` where p-values are adjusted;
    ``attrs["n_pairs"]`` is the number of pairs, and ``attrs["note"]`` says where nothing was adjusted. Each interval
    stands by itself, except under "single-step", where they hold together. A pair without a positive variance is NaN,
    is not counted in the adjustment, and stands with its reason in ``attrs["left_out"]``. `adjust`: how `p_adjusted`
    allows for the number of pairs; None, the default, leaves it out. "step-down" decides rank sets and letters.
    Hothorn, Bretz and Westfall (2008), Biometrical Journal 50(3), for "single-step". Shapes: params (n_models,), cov
    (n_models, n_models).
    """
    alpha = fraction("alpha", alpha)
    adjust = adjustment("adjust", adjust, PAIR_ADJUSTMENTS)
    base, printed = base_seed(seed)
    family = family_of(params, cov, "pairs", dof, base)
    at = family.level(alpha) if adjust == "single-step" else alpha
    ends = np.where(family.inside[:, None], family.widths.limits(family.effect, at), np.nan)
    columns = {"difference": family.effect, "se": family.se, "lower": ends[:, 0], "upper": ends[:, 1]}
    table = pd.DataFrame(columns | {"p_value": family.p_value}, index=family.names)
    if adjust == "single-step":
        table["p_adjusted"] = family.adjusted()
    elif adjust == "step-down":
        table["p_adjusted"] = deciding(family, cov, alpha)[0]
    elif adjust is not None:
        table["p_adjusted"] = adjust_pvalues(family.p_value, adjust)
    note = unadjusted_text(family.count) if adjust is None else ""
    table.attrs = {"adjust": adjust, "alpha": alpha, "seed": printed, "left_out": dict(family.reasons)}
    table.attrs |= {"n_pairs": family.count, "note": note}
    return table


def unadjusted_text(n_pairs: int) -> str:
    """What to say about p-values of several pairs that are not adjusted; empty for one."""
    if n_pairs < 2:
        return ""
    return (
        f"p is of each of {n_pairs} differences by itself: of {n_pairs} with nothing behind them about "
        f'{0.05 * n_pairs:.2g} would have p < .05. adjust="holm" allows for their number.'
    )


def rank_sets(
    params: Any, cov: Any, *, alpha: float = 0.05, joint: bool = True, dof: Any = np.inf, seed: Seed = 0
) -> pd.DataFrame:
    """Ranks of models, with the ranks that the data do not exclude.

    A model's rank is one more than the number of models above it. Its set runs from one more than the number of models
    surely above it, to the number of models less those surely below it. Pairs are decided by the p-values of
    `pairwise(adjust="step-down")`: Holm's or those of the joint level of all pairs, whichever is smaller; and, where
    the joint intervals of the models are the sharper statement by their widths (few clusters, many models), the level
    at which those of the two stop overlapping, if that is smaller still. Two whose joint intervals lie apart at `alpha`
    are always separated.

    Parameters
    ----------
    params : Series or array_like, shape (n_models,)
        Estimates; larger is better.
    cov : Covariance, DataFrame or array_like, shape (n_models, n_models)
        Their covariance.
    alpha : float, optional
        One minus the confidence level, 0.05 by default.
    joint : bool, optional
        True, the default: all sets together contain the true ranks. False: each by itself, from the differences with
        that model alone.
    dof : float or array_like, shape (n_pairs,), optional
        For a matrix, one number (the normal by default) or one for each pair; a Covariance brings its own.
    seed : int or Generator, optional
        Of the simulation, 0 by default.

    Returns
    -------
    DataFrame
        Indexed by model, integer columns `rank lower upper`. `attrs` has `critical_value`, `monte_carlo_error`,
        `seed`, `by` ("pairs" or "bands"), and `undecided`, the pairs without a p-value, with the reason.

    Raises
    ------
    ArgumentError, AlignmentError
        If an option is unknown, or the arguments do not fit each other.

    References
    ----------
    Mogstad, Romano, Shaikh and Wilhelm (2024), Review of Economic Studies 91(1), 476-518; Holm (1979), Scandinavian
    Journal of Statistics 6, 65-70.

    Examples
    --------
    >>> rates = pd.Series({"x": 0.71, "y": 0.66, "z": 0.60})
    >>> rank_sets(rates, np.eye(3) * 0.02**2).to_dict("index")["z"]
    {'rank': 3, 'lower': 2, 'upper': 3}
    """
    alpha = fraction("alpha", alpha)
    base, printed = base_seed(seed)
    family = family_of(params, cov, "pairs", dof, base)
    theta, by, error = family.params.to_numpy(np.float64), "pairs", 0.0
    if joint:
        p, by = deciding(family, cov, alpha)
        above = below = _square(family, p) <= alpha
        error = family.error(alpha)
    else:  # by Holm among the differences with the row, and with the column
        above = np.array([adjust_pvalues(row, "holm") for row in _square(family, family.p_value)]) <= alpha
        below = above.T
    ahead = theta[:, None] > theta
    table = pd.DataFrame(
        {
            "rank": 1 + np.count_nonzero(ahead, axis=0),
            "lower": 1 + np.count_nonzero(below & ahead, axis=0),
            "upper": theta.size - np.count_nonzero(above & ahead, axis=1),
        },
        index=family.params.index,
    )
    table.attrs = {"critical_value": family.critical(alpha), "monte_carlo_error": error, "alpha": alpha}
    table.attrs |= {"seed": printed, "joint": joint, "by": by, "undecided": dict(family.reasons)}
    return table


def deciding(family: ContrastFamily, cov: Any, alpha: float) -> tuple[FloatArray, str]:
    """The adjusted p-values that decide all pairs everywhere, and what these come from: "pairs" or "bands".

    Where the joint intervals of the models are the sharper statement by widths, which do not know who is ahead (an
    interval is one of K, a pair one of K (K - 1)/2), a pair takes the smaller of both; and two models whose joint
    intervals lie apart at `alpha` have no p-value above it, so that ranks leave nothing open that the intervals shown
    beside them exclude. Intervals of equal models lie apart in so few logs (.007 at most where .05 is asked) that the
    two together keep the level (docs/decisions/joint-statements.md). So no p-value is above Holm's.
    """
    n, p, by = family.params.size, family.stepdown(), "pairs"
    if isinstance(cov, Covariance) and family.count and n > 2:
        each, (left, right) = family_of(family.params, cov, base=family.base), pair_positions(n)
        if each.count == n:
            single, of_pairs = each.widths.at_estimates(), family.widths.at_estimates().half(family.level(alpha))
            both = np.sum(single.half(each.level(alpha))[[left, right]], axis=0)
            known = (of_pairs > 0) & np.isfinite(both)
            if known.any() and np.median(both[known] / of_pairs[known]) < 1:
                apart = each.adjusted(_overlap_levels(single, np.abs(family.effect), left, right))
                # What a pair by itself does not show, intervals of its models do not either.
                p, by = np.minimum(p, np.maximum(apart, family.p_value)), "bands"
            low, high = each.widths.limits(np.array(family.params, dtype=np.float64), each.level(alpha)).T
            open_still = ((low[left] > high[right]) | (low[right] > high[left])) & (p > alpha)
            p, by = np.where(open_still, alpha, p), "bands" if open_still.any() else by
    return p, by


def _overlap_levels(widths: Widths, gap: FloatArray, left: IntArray, right: IntArray) -> FloatArray:
    """The smallest levels at which the intervals of two models do not overlap, shape (n_pairs,)."""
    levels = np.geomspace(SMALLEST_P, 1.0, BLOCK)
    half = np.array([widths.half(float(level)) for level in levels])
    smallest = np.ones(gap.shape)
    for part in np.array_split(np.arange(gap.size), gap.size * BLOCK // HELD + 1):
        apart = half[:, left[part]] + half[:, right[part]] < gap[part]
        smallest[part] = np.where(apart.any(axis=0), levels[np.argmax(apart, axis=0)], 1.0)
    return smallest


def _square(family: ContrastFamily, of_pairs: FloatArray) -> FloatArray:
    """Numbers of all pairs as a symmetric matrix, NaN on its diagonal."""
    square, places = np.full((family.params.size,) * 2, np.nan), pair_positions(family.params.size)
    square[places] = square[places[::-1]] = of_pairs
    return square


def separated(params: Any, cov: Any, *, alpha: float = 0.05, dof: Any = np.inf, seed: Seed = 0) -> pd.DataFrame:
    """Which models are separated, as rank sets have it, in two columns by model; a pair without a p-value is not.

    "letters": two models share one exactly if they are not separated; "a" holds the largest estimate. With more than 26
    groups names go on with "aa", and a space stands between those of one model. Groups are as large as can be, and no
    more than the pairs need. Piepho (2004), Journal of Computational and Graphical Statistics 13(2), 456-466. "tier",
    from 1: each model of a tier is separated from each model of the tiers below it, so that models of different tiers
    share no letter. Shapes: params (n_models,), cov (n_models, n_models).
    """
    alpha = fraction("alpha", alpha)
    family = family_of(params, cov, "pairs", dof, base_seed(seed)[0])
    names, theta = family.params.index, family.params.to_numpy(np.float64)
    order = sorted(range(theta.size), key=lambda i: (-theta[i], str(names[i])))
    decided = _square(family, deciding(family, cov, alpha)[0]) <= alpha
    apart = (decided & (theta[:, None] != theta))[np.ix_(order, order)]
    groups = groups_of_unseparated(apart)
    between = " " if len(groups) > 26 else ""
    shown = [between.join(_letter(i) for i, group in enumerate(groups) if k in group) for k in range(len(order))]
    return pd.DataFrame({"letters": shown, "tier": tiers_of(apart)}, index=order).sort_index().set_axis(names)


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
    """Largest sets of models without two that are separated, so that every two that are not share one.

    In lexicographic order; models stand from the best down. Each set begins with the first two that share none yet and
    takes in, best first, what fits: those that share none yet with the first, then any. Of the largest sets of all
    there can be millions. Shapes: apart (n_models, n_models).
    """
    # A set is a number whose bits are its models; of each model those that it is not separated from, itself too.
    near = [sum(1 << int(other) for other in np.flatnonzero(~row)) for row in apart]
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
    return sorted(map(_members, sets))


def _members(group: int) -> tuple[int, ...]:
    return tuple(place for place, bit in enumerate(reversed(bin(group)[2:])) if bit == "1")


def _letter(i: int) -> str:
    return _letter(i // 26 - 1) + chr(97 + i % 26) if i >= 26 else chr(97 + i)
