"""Differences of all pairs, rank sets and the best models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, adjustment, fraction
from evalreg.errors import ArgumentError
from evalreg.inference.contrast_family import ContrastFamily, counted, pair_positions, square_of_pairs
from evalreg.inference.levels import CountedLevel, LargestLevel, Level, critical
from evalreg.inference.make_family import make_family
from evalreg.inference.multiplicity import ADJUSTMENTS, adjust_pvalues, base_seed, simulate_largest
from evalreg.inference.simultaneous import Seed
from evalreg.numerics.student import t_quantile

PairAdjustName: TypeAlias = Literal["holm", "fdr_bh", "bh", "bonferroni", "single-step"]
PAIR_ADJUSTMENTS: tuple[PairAdjustName, ...] = (*ADJUSTMENTS, "single-step")


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
    allows for the number of pairs; None, the default, leaves it out. With few clusters "holm" also rejects what
    "single-step" does, and decides rank sets and letters. Hothorn, Bretz and Westfall (2008), Biometrical Journal
    50(3), for "single-step". Shapes: params (n_models,), cov (n_models, n_models).
    """
    alpha = fraction("alpha", alpha)
    adjust = adjustment("adjust", adjust, PAIR_ADJUSTMENTS)
    base, printed = base_seed(seed)
    family = make_family(params, cov, "pairs", dof)
    p_value, at, p_adjusted = family.p_value, alpha, np.full(family.se.size, np.nan)
    if adjust == "single-step" and family.inside.any():
        level = family.joint(alpha, base)
        at, p_adjusted = level.level(alpha), level.adjusted(p_value)
    elif adjust == "holm" and family.few and family.inside.any():
        p_adjusted = family.counted(family.joint(alpha, base))
    elif adjust is not None and adjust != "single-step":
        p_adjusted = adjust_pvalues(p_value, adjust)
    ends = family.widths.limits(family.effect, at)
    columns = {"difference": family.effect, "se": family.se, "lower": ends[:, 0], "upper": ends[:, 1]}
    columns["p_value"] = p_value
    if adjust is not None:
        columns["p_adjusted"] = p_adjusted
    table = pd.DataFrame(columns, index=family.names)
    table.attrs = {"adjust": adjust, "alpha": alpha, "seed": printed, "left_out": dict(family.reasons)}
    table.attrs["n_pairs"] = int(family.inside.sum())
    table.attrs["note"] = unadjusted_text(table.attrs["n_pairs"]) if adjust is None else ""
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
    params: Any,
    cov: Any,
    *,
    alpha: float = 0.05,
    joint: bool = True,
    dof: Any = np.inf,
    stepdown: bool = False,
    seed: Seed = 0,
) -> pd.DataFrame:
    """Ranks of models, with the ranks that the data do not exclude.

    A model's rank is one more than the number of models above it. Its set runs from one more than the number of models
    surely above it, to the number of models less those surely below it. Estimates are taken to be jointly normal;
    degrees of freedom and crossed covariances are treated as in `simultaneous`.

    Parameters
    ----------
    params : Series or array_like, shape (n_models,)
        Estimates; larger is better.
    cov : Covariance, DataFrame or array_like, shape (n_models, n_models)
        Their covariance.
    alpha : float, optional
        One minus the confidence level, 0.05 by default.
    joint : bool, optional
        True, the default: all sets hold their true rank together. False: each by itself, from the differences with that
        model alone.
    dof : float or array_like, optional
        For a matrix, one number (the normal by default) or one for each pair; a Covariance brings its own.
    stepdown : bool, optional
        Whether pairs already decided make way for the others, which can narrow joint sets. False by default.
    seed : int or Generator, optional
        Of the simulation, 0 by default.

    Returns
    -------
    DataFrame
        Indexed by model, integer columns `rank lower upper`. `attrs` holds `critical_value` (by model when not joint),
        `monte_carlo_error`, `seed`, and `undecided`, the pairs without a positive variance, with the reason.

    Raises
    ------
    ArgumentError, AlignmentError
        If an option is unknown, or the arguments do not fit each other.

    References
    ----------
    Mogstad, Romano, Shaikh and Wilhelm (2024), Review of Economic Studies 91(1), 476-518.

    Examples
    --------
    >>> rates = pd.Series({"x": 0.71, "y": 0.66, "z": 0.60})
    >>> rank_sets(rates, np.eye(3) * 0.02**2).to_dict("index")["z"]
    {'rank': 3, 'lower': 2, 'upper': 3}
    """
    alpha = fraction("alpha", alpha)
    if stepdown and not joint:
        raise ArgumentError("`stepdown` is for joint rank sets; got joint=False. Leave out one of the two.")
    base, printed = base_seed(seed)
    family = make_family(params, cov, "pairs", dof)
    theta = family.params.to_numpy(np.float64)
    better, critical, error = surely_better(family, alpha, base, joint=joint, stepdown=stepdown)
    table = pd.DataFrame(
        {
            "rank": 1 + np.count_nonzero(theta > theta[:, None], axis=1),
            "lower": 1 + np.count_nonzero(better[1], axis=0),
            "upper": theta.size - np.count_nonzero(better[0], axis=1),
        },
        index=family.params.index,
    )
    one = float(critical[0]) if joint else dict(zip(family.params.index, critical.tolist(), strict=True))
    table.attrs = {"critical_value": one, "monte_carlo_error": error, "alpha": alpha, "seed": printed}
    table.attrs |= {"joint": joint, "undecided": dict(family.reasons)}
    return table


def tau_best(
    params: Any,
    cov: Any,
    tau: int = 1,
    *,
    alpha: float = 0.05,
    dof: Any = np.inf,
    stepdown: bool = False,
    seed: Seed = 0,
) -> list[Any]:
    """The models that may be among the best `tau`; it holds all of those at the stated level.

    Names, the largest estimate first: those whose joint lower rank bound is at most `tau`. One-sided bounds for all
    models take every pair in both directions, so the critical value is that of the two-sided joint sets. Mogstad,
    Romano, Shaikh and Wilhelm (2024), Review of Economic Studies 91(1), 476-518. Shapes: params (n_models,), cov
    (n_models, n_models).
    """
    wanted = _check_tau(tau)
    sets = rank_sets(params, cov, alpha=alpha, dof=dof, stepdown=stepdown, seed=seed)
    held = sets[sets["lower"] <= wanted]
    return sorted(held.index, key=lambda name: (held.at[name, "rank"], str(name)))


def _check_tau(tau: object) -> int:
    if isinstance(tau, bool) or not isinstance(tau, int | np.integer) or tau < 1:
        raise ArgumentError(f"`tau` must be a whole number of 1 or more; got {tau!r}.")
    return int(tau)


def surely_better(
    family: ContrastFamily, alpha: float, base: int, *, joint: bool, stepdown: bool
) -> tuple[Sequence[BoolArray], FloatArray, float]:
    """Whether row is surely better than column, judged for the row and for the column; critical values; their error."""
    n = family.params.size
    if not family.inside.any():
        return [np.zeros((n, n), dtype=bool)] * 2, np.full(n, np.nan), float("nan")
    if joint and family.few:
        decided, at, error = _counted(family, alpha, base)
        return [_ahead(family, decided)] * 2, t_quantile(at, np.array([family.few_dof])), error
    if joint and not stepdown:
        one = family.joint(alpha, base)
        better = _ahead(family, _below(family, one.level(alpha)))
        return [better] * 2, np.array([critical(one, alpha)]), one.error(alpha)
    if not joint:
        each = family.once("by model", (alpha, base), lambda: _by_model(family, alpha, base))
        own = np.array([one.level(alpha) for one in each])
        c = np.array([critical(one, alpha) for one in each])
        left, right = (_below(family, own[side]) for side in pair_positions(n))
        # Judged for the row, and for the column.
        sides = [_ahead(family, left, right), _ahead(family, right, left)]
        return sides, c, max(one.error(alpha) for one in each)
    return _stepdown(family, alpha, base)


def _below(family: ContrastFamily, level: float | FloatArray) -> BoolArray:
    """Pairs whose p-value is no more than a level, one or one of each, shape (n_pairs,)."""
    return family.decided(lambda p: p <= level)


def _ahead(family: ContrastFamily, left: BoolArray, right: BoolArray | None = None) -> BoolArray:
    """Pairs that are decided, as a matrix: whether the row is ahead of the column, by the estimates.

    `left` decides where the row is the pair's left model, `right`, the same by default, where it is the right one.
    """
    theta = family.params.to_numpy(np.float64)
    decided, places = np.zeros((theta.size, theta.size), dtype=bool), pair_positions(theta.size)
    decided[places] = left
    decided[places[::-1]] = left if right is None else right
    return np.asarray(decided & (theta[:, None] > theta))


def _by_model(family: ContrastFamily, alpha: float, base: int) -> list[Level]:
    """The joint level of the differences with each model."""
    n = family.params.size
    weight = square_of_pairs(family.weight, n)
    if not family.few:
        found = simulate_largest(
            lambda z: _largest_by_model(family.factor @ z.T, weight),
            family.factor.shape[1],
            2 * int(family.inside.sum()),
            alpha=alpha,
            dof=family.draw_dof,
            base=base,
        )
        return [LargestLevel(one) for one in found]
    counts = np.maximum(square_of_pairs(family.inside.astype(np.float64), n).sum(axis=0), 1).astype(int)
    draws = family.studentized(base, by_model=True).T if family.drawn else [None] * n
    return [CountedLevel(int(count), family.few_dof, own) for count, own in zip(counts, draws, strict=True)]


def _counted(family: ContrastFamily, alpha: float, base: int) -> tuple[BoolArray, float, float]:
    """With few clusters: pairs that Holm or the joint level decides, the level that comes to, and its error."""
    one = family.joint(alpha, base)
    decided = family.decided(lambda p: counted(p, one) <= alpha)
    return decided, max(one.level(alpha), family.largest_p(decided)), one.error(alpha)


def _stepdown(family: ContrastFamily, alpha: float, base: int) -> tuple[Sequence[BoolArray], FloatArray, float]:
    """Romano and Wolf (2005) on the nulls row <= column: a rejection removes that one, and its mirror stays."""
    weight = square_of_pairs(family.weight, family.params.size)
    left, better, at, c = weight > 0, np.zeros(weight.shape, dtype=bool), 0.0, float("inf")
    while True:
        held = np.where(left, weight, 0.0)
        largest = simulate_largest(
            lambda z, held=held: _largest_ordered(family.factor @ z.T, held),  # type: ignore[misc]
            family.factor.shape[1],
            int(left.sum()),
            alpha=alpha,
            dof=family.draw_dof,
            base=base,
        )[0]
        one = LargestLevel(largest)
        at, c = max(at, one.level(alpha)), min(c, largest.quantile(alpha))
        new = left & _ahead(family, _below(family, at))
        if not new.any():
            return [better, better], np.array([c]), largest.quantile_error(alpha)
        better, left = better | new, left & ~new


def _largest_by_model(models: FloatArray, weight: FloatArray) -> FloatArray:
    """Largest weighted absolute difference with each model in each draw, shape (n_draws, n_models)."""
    result, room = np.zeros_like(models), np.empty_like(models)
    for a in range(models.shape[0] - 1):
        gap = np.abs(np.subtract(models[a + 1 :], models[a], out=room[a + 1 :]), out=room[a + 1 :])
        gap *= weight[a, a + 1 :, None]
        np.maximum(result[a], gap.max(axis=0), out=result[a])
        np.maximum(result[a + 1 :], gap, out=result[a + 1 :])
    return result.T


def _largest_ordered(models: FloatArray, weight: FloatArray) -> FloatArray:
    """Largest weighted difference row less column in each draw, shape (n_draws, 1)."""
    result = np.full(models.shape[1], -np.inf)
    for one, w in zip(models, weight, strict=True):
        if w.any():
            np.maximum(result, ((one - models[w > 0]) * w[w > 0, None]).max(axis=0), out=result)
    return result[:, None]
