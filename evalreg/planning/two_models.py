"""Two models: components of their differences, and simulations of plans."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy
from scipy import sparse

from evalreg.checks import FloatArray, fraction, listed
from evalreg.covariance.leverage import cell_leverage
from evalreg.data.clusters import axis_name
from evalreg.errors import ArgumentError, ArgumentTypeError, NotAvailableError
from evalreg.planning.boards import fewest_prompts
from evalreg.planning.pilot import Estimated, Pilot, detected, enough_units, is_estimated, pilot_of, power_at, touched
from evalreg.planning.power import (
    REACHED,
    checked_count,
    checked_delta,
    checked_number,
    normal_quantiles,
    unit_variance,
)
from evalreg.planning.separation import (
    TABLE,
    CrossedDesign,
    CrossedPilot,
    Separation,
    crossed_power,
    expected_error,
    split,
)
from evalreg.scores.score_interval import FEW_EXPECTED

# Experiments of one block, each block with a generator of its own.
BLOCK = 1024


@dataclass(frozen=True)
class SimulatedPower:
    """Share of simulated experiments in which the test rejects."""

    power: float  # the share
    standard_error: float  # Monte Carlo error of the share
    false_signs: float  # share of experiments in which it rejects with the wrong sign
    dof: float  # degrees of freedom of the test
    draws: int  # experiments
    seed: int | None  # what the draws started from; None where a generator was given


def power(
    *,
    delta: float,
    cluster_sizes: npt.ArrayLike,
    omega2: float,
    icc: float = 0.0,
    sigma2_a: float = 0.0,
    sigma2_b: float = 0.0,
    k_a: float = 1,
    k_b: float = 1,
    alpha: float = 0.05,
    draws: int = 10_000,
    seed: int | np.random.Generator = 0,
) -> SimulatedPower:
    """Power of a paired comparison on given clusters, by simulating it and testing as `mean` does by default.

    Where clusters are few or unequal, the formulas behind `sample_size` and `clusters` are approximations; this is the
    power of the test that will be used: CR2 with Satterthwaite degrees of freedom.

    Parameters
    ----------
    delta : float
        True difference of the mean scores; 0 gives the level of the test.
    cluster_sizes : array_like of int, shape (n_clusters,)
        Questions of each cluster, such as [5] * 40; at least two clusters.
    omega2 : float
        Variance over questions of the difference in expected scores, above 0; the plain one.
    icc : float, optional
        Intraclass correlation of the expected differences within clusters, from 0, the default, to 1.
    sigma2_a, sigma2_b : float, optional
        Variance of one answer about its question's expected score; 0 by default.
    k_a, k_b : float, optional
        Answers to each question, at least 1, the default.
    alpha : float, optional
        Level of the two-sided test, 0.05 by default.
    draws : int, optional
        Experiments, 10000 by default.
    seed : int or numpy Generator, optional
        Start of the draws; 0 by default.

    Returns
    -------
    SimulatedPower
        With the Monte Carlo error.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is outside its range.

    Notes
    -----
    Differences of question means are normal: a cluster's effect with variance icc omega2, a question's with
    (1 - icc) omega2, and the noise of the answers. Only sums within clusters are drawn.

    References
    ----------
    Bell and McCaffrey (2002), Survey Methodology 28, for the test.

    Examples
    --------
    >>> import evalreg as er
    >>> found = er.plan.power(delta=0.05, cluster_sizes=[5] * 156, omega2=1 / 9, icc=0.3, seed=1)
    >>> f"{found.power:.2f} ({found.standard_error:.3f}), dof {found.dof:.0f}"
    '0.80 (0.004), dof 155'
    """
    delta, alpha = checked_number("delta", delta), fraction("alpha", alpha)
    sizes = _sizes(cluster_sizes)
    rho = checked_number("icc", icc)
    if not 0 <= rho <= 1:
        raise ArgumentError(f"`icc` must lie between 0 and 1; got {rho:g}.")
    noise = unit_variance(omega2, sigma2_a, sigma2_b, k_a, k_b) - omega2
    draws = checked_count("draws", draws, 1, "experiments")
    spread = np.sqrt(sizes**2 * rho * omega2 + sizes * ((1 - rho) * omega2 + noise))
    share = sizes / sizes.sum()
    dof = float(cell_leverage(sparse.csr_array(share[:, None]), np.array([sizes.sum()]), 0.5).dof(np.eye(1))[0])
    critical = float(scipy.special.stdtrit(dof, 1 - alpha / 2))
    rejected, wrong = 0, 0
    # A block has its own generator, whatever the number of draws: more draws extend the same experiments.
    for block, generator in enumerate(_spawn(seed, -(-draws // BLOCK))):
        t = _statistics(delta, sizes, spread, share, generator)[: draws - block * BLOCK]
        rejected += int(np.count_nonzero(np.abs(t) > critical))
        wrong += int(np.count_nonzero(t * math.copysign(1.0, delta) < -critical)) if delta else 0
    found = rejected / draws
    return SimulatedPower(
        power=found,
        standard_error=math.sqrt(found * (1 - found) / draws),
        false_signs=wrong / draws,
        dof=dof,
        draws=draws,
        seed=None if isinstance(seed, np.random.Generator) else seed,
    )


def _sizes(given: npt.ArrayLike) -> FloatArray:
    sizes: Any = np.asarray(given)
    if sizes.ndim != 1 or sizes.size < 2 or not np.issubdtype(sizes.dtype, np.number):
        raise ArgumentError(
            "`cluster_sizes` must list the questions of each of at least two clusters, such as [5] * 40; got "
            f"{str(given)[:60]}."
        )
    if np.any(sizes < 1) or np.any(sizes != np.floor(sizes)):
        raise ArgumentError(f"`cluster_sizes` must be whole numbers of at least 1; the smallest is {sizes.min():g}.")
    return np.asarray(sizes, dtype=np.float64)


def _spawn(seed: Any, n: int) -> list[np.random.Generator]:
    if isinstance(seed, np.random.Generator):
        return seed.spawn(n)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ArgumentTypeError(f"`seed` must be a whole number of at least 0 or a numpy Generator; got {seed!r}.")
    return [np.random.default_rng(child) for child in np.random.SeedSequence(int(seed)).spawn(n)]


def _statistics(
    delta: float, sizes: FloatArray, spread: FloatArray, share: FloatArray, generator: np.random.Generator
) -> FloatArray:
    """t statistics of one block of experiments, CR2 of the mean."""
    totals = generator.standard_normal((BLOCK, sizes.size)) * spread
    error = totals.sum(axis=1) / sizes.sum()
    residual = totals - error[:, None] * sizes
    variance = (residual**2 / (1 - share)).sum(axis=1) / sizes.sum() ** 2
    return np.asarray((delta + error) / np.sqrt(variance))


# So many prompts that they are no source of error.
ENDLESS = 1e12
# A pilot with a smaller share of the combinations of prompts and judges says too little of a full grid.
LEAST_SHARE = 0.5
# With fewer degrees of freedom there is no test to plan for.
LEAST_DOF = 0.99


def separate(
    results: Any,
    left: str | None = None,
    right: str | None = None,
    *,
    judges: Iterable[int] | None = None,
    judge: str | None = None,
    delta: float | None = None,
    assurance: float | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
) -> Separation:
    """Prompts, and judges, at which two named models of a log come apart; and the power of the log as it is.

    Parameters
    ----------
    results : Results or Comparison
        A leaderboard, means by model, a comparison, or results of a single difference; with independent rows, one
        clustering, or two that cross (prompts and judges).
    left, right : str, optional
        Names of two models. Left out, `results` must hold one difference.
    judges : iterable of int, optional
        Of two crossed clusterings: the numbers of judges to plan for, at least 2 each. By default as many as there are,
        twice and three times that.
    judge : str, optional
        Which of the two clusterings `judges` counts. By default the one named "judge", or else the one with fewer
        clusters.
    delta : float, optional
        True difference that should be found, above 0. By default the difference seen, which is itself uncertain: see
        Notes.
    assurance : float, optional
        With this probability the real power is at least `power`. By default it is `power` on average over pilots like
        this one.
    alpha : float, optional
        Level of the two-sided test, 0.05 by default; divide it by the number of pairs that should come apart at once.
    power : float, optional
        Probability of telling the two apart, 0.8 by default. Above alpha.

    Returns
    -------
    Separation
        `table` has a row for each number of judges (one row where nothing crosses); `power_now` is the power of a log
        as large as this one. `summary()` says it in words.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a model is not there, a number is outside its range, or the results are not of one difference.
    NotAvailableError
        If the covariance is one for which no plan is known: three axes, `alike`, a repair other than "max" and
        "two-term", degrees of freedom not from each term; or the log has fewer than half of the combinations of
        prompts and judges.

    Notes
    -----
    A plan is for a new log of the same kind, in which every judge sees every prompt; the rows at hand are not counted
    into it. Clusters keep the pilot's mix of sizes.

    Crossed, the three terms of the difference's variance, V_P, V_J and V_PJ, are turned into the variance parts of
    prompts, judges and what is left, whose expected terms are known on any grid: the term of the combinations holds
    1/J of the prompts' part and 1/P of the judges', so that V_P - V_PJ would be too small. Parts below 0 are set to 0,
    and a note says so. The test is that of `groups="prompt + judge"`: H^2 is the largest of the one-way t^2 V and of
    their sum less that of the combinations. The power is integrated over V_P and V_J as the test will see them, which
    is exact for normal scores on a full grid: simulated .404, .815, .646 against .406, .815, .651.

    It is then averaged over the error of V_P and V_J in the pilot. Simulated (60 prompts; plans for 10 judges and a
    difference of .2; parts .05, 0 to .02, .1; 80 pilots each), where .80 was asked, the real power was .79 to .88 on
    average from pilots with 3 judges, .80 to .85 with 5, .81 to .83 with 10: a plan from few judges mostly errs on the
    safe side, since the judges' part may be anything. These are the pilots with a plan. With a judges' part of .01 and
    .02, 34% and 35% of those with 3 judges find that no number of prompts is enough, 6% and 28% with 5, 0% and 12% with
    10.

    With the difference seen in the place of a true one, a plan is a guess. One-way with 60 clusters the real power was
    .54 on average where the true difference was 1 of the pilot's standard errors, .71 at 2, .78 at 3, .79 at 4, where
    .80 was asked: differences that come out large by chance make small plans.

    References
    ----------
    Banerjee (1960), Sankhya 22, 359-362; Brennan (2001), Generalizability Theory, section 4.2; Julious and Owen (2006),
    Pharmaceutical Statistics 5, 29-37, for the average over pilots.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.judge_log(n_models=4, n_prompts=60, n_judges=10, judge_sd=0.4, seed=1)
    >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt + judge")
    >>> plan = er.plan.separate(board, "model-01", "model-02", judges=[10, 20, 40], delta=0.15)
    >>> round(plan.power_now, 2)
    0.45
    >>> print(plan.table[["judges", "prompts", "smallest"]].round(3).to_string(index=False))
     judges  prompts  smallest
         10     <NA>     0.180
         20      168     0.119
         40       90     0.082
    """
    normal_quantiles(alpha, power)
    if assurance is not None:
        fraction("assurance", assurance)
    difference = _difference(results, left, right)
    seen, se = float(difference.params.iloc[0]), float(difference.bse.iloc[0])
    name = difference.estimate.names[0]
    if not (math.isfinite(se) and se > 0):
        raise ArgumentError(
            f"`results` must give {name} a standard error above 0, which says how its rows vary; got {se:g}."
        )
    assumed = delta is not None
    if not assumed and seen == 0:
        raise ArgumentError(f"`delta` is needed: the difference {name} that was seen is 0, which no log can show.")
    wanted = checked_delta(delta) if assumed else abs(seen)
    ends = difference.conf_int(alpha).iloc[0]
    found = Separation(
        name=name,
        estimate=seen,
        se=se,
        lower=float(ends[0]),
        upper=float(ends[1]),
        p_value=float(difference.pvalues.iloc[0]),
        delta=wanted,
        assumed=assumed,
        alpha=alpha,
        power=power,
        assurance=assurance,
        power_now=math.nan,
        detectable=math.nan,
        design={},
        parts=None,
        negative=(),
        combinations=None,
        table=pd.DataFrame(),
    )
    if difference.cov.crossed:
        return _crossed(found, difference, judges, judge)
    if judges is not None or judge is not None:
        given = listed([axis_name(axis) for axis in difference.cov.axes]) if difference.cov.axes else "none"
        raise ArgumentError(
            f'`judges` needs results whose prompts and judges cross, by groups="prompt + judge" say; these have '
            f"{given}. Add the judges to `groups`, or leave `judges` out to plan prompts alone."
        )
    return _one_way(found, difference)


def _difference(results: Any, left: str | None, right: str | None) -> Estimated:
    """The results of the one difference that is planned for."""
    if (left is None) != (right is None):
        raise ArgumentError("`left` and `right` go together, the names of two models; got one of them.")
    facts = getattr(results, "__dict__", {}).get("facts")  # of a comparison
    pairs = None if facts is None else list(facts.index)
    results = getattr(results, "results", results)
    if not is_estimated(results):
        raise ArgumentTypeError(
            f"`results` must be a leaderboard, means by model, a comparison or one difference; got "
            f"{type(results).__name__}."
        )
    if left is None or right is None:
        if len(results.params) != 1:
            raise ArgumentError(
                "two models are needed, as `left` and `right`, or in `results.plan` as "
                f'separate=("A", "B"), since the results hold {len(results.params)} parameters: '
                f"{listed(list(map(str, results.estimate.names))[:6])}{', ...' if len(results.params) > 6 else ''}."
            )
        return results
    if left == right:
        raise ArgumentError(f"`left` and `right` must be two models; both are {left!r}.")
    if pairs is not None:
        return results.linear(_of_pairs(pairs, left, right), [f"{left} - {right}"])
    names = list(results.estimate.names)
    _known((left, right), names)
    row = np.zeros(len(names))
    row[names.index(left)], row[names.index(right)] = 1.0, -1.0
    return results.linear(row[None], [f"{left} - {right}"])


def _known(asked: tuple[str, str], names: list[str]) -> None:
    absent = [name for name in asked if name not in names]
    if absent:
        raise ArgumentError(f"{absent[0]!r} is not a parameter of these results. There are {listed(names)}.")


def _of_pairs(pairs: list[tuple[str, str]], left: str, right: str) -> Any:
    """left - right as a combination of the differences of a comparison, shape (1, n_pairs)."""
    _known((left, right), sorted({str(name) for pair in pairs for name in pair}))
    row = np.zeros((1, len(pairs)))
    for place, (one, other) in enumerate(pairs):
        if {one, other} == {left, right}:
            row[0, place] = 1.0 if one == left else -1.0
            return row
    # Both against one baseline.
    for place, (one, _) in enumerate(pairs):
        row[0, place] = 1.0 if one == left else -1.0 if one == right else 0.0
    return row


def _one_way(found: Separation, difference: Estimated) -> Separation:
    """Prompts alone, as `from_pilot` plans them."""
    rows = pilot_of(difference)
    kind = "clustered" if "clustered" in rows else "plain"
    pilot: Pilot = rows[kind]
    questions, units = enough_units(pilot, found.delta, found.assurance, found.alpha, found.power)
    se = math.sqrt(pilot.variance / (units * pilot.size))
    table = pd.DataFrame([[None, units, questions, se, pilot.dof_at(units), 0.0]], columns=list(TABLE))
    axes = [axis_name(axis) for axis in difference.cov.axes]
    return replace(
        found,
        power_now=power_at(pilot, pilot.n_clusters, found.delta, found.assurance, found.alpha),
        detectable=detected(pilot, found.assurance, found.alpha, found.power),
        design={axes[0] if axes else "rows": pilot.n_clusters},
        table=_typed(table),
    )


def _typed(table: pd.DataFrame) -> pd.DataFrame:
    return table.astype({"judges": "Int64", "prompts": "Int64", "ratings": "Int64"})


def _crossed(found: Separation, difference: Estimated, judges: Iterable[int] | None, judge: str | None) -> Separation:
    """Prompts for several numbers of judges."""
    pilot, names = _crossed_pilot(difference, judge)
    own = pilot.design
    numbers = [round(own.judges) * times for times in (1, 2, 3)] if judges is None else _numbers(judges)
    rows = [_row(pilot, number, found) for number in numbers]
    parts = dict(zip(("prompt", "judge", "rest"), pilot.parts, strict=True))
    negative = tuple(name for name, value in zip(parts, pilot.solved, strict=True) if value < 0)
    return replace(
        found,
        power_now=crossed_power(pilot, own, found.delta, found.alpha, found.assurance),
        detectable=_detected(pilot, own, found),
        design={names[0]: round(own.prompts), names[1]: round(own.judges)},
        parts=parts,
        negative=negative,
        combinations=round(own.cells),
        table=_typed(pd.DataFrame(rows, columns=list(TABLE))),
    )


def _numbers(judges: Any) -> list[int]:
    """Numbers of judges, checked."""
    if isinstance(judges, str) or not isinstance(judges, Iterable):
        raise ArgumentTypeError(f"`judges` must be a list of whole numbers; got {judges!r}.")
    numbers = [checked_count("judges", number, 2, "judges, since one says nothing about others") for number in judges]
    if not numbers:
        raise ArgumentError("`judges` must name at least one number; got an empty list.")
    return numbers


def _crossed_pilot(difference: Estimated, judge: str | None) -> tuple[CrossedPilot, tuple[str, str]]:
    """Variance parts of a difference, prompts first; and the names of the two axes."""
    cov = difference.cov
    names = [axis_name(axis) for axis in cov.axes]
    if len(names) != 2 or cov.options.alike or not cov.summed or cov.options.repair not in ("max", "two-term"):
        raise NotAvailableError(
            f"a plan needs two crossed clusterings under the default covariance; got {listed(names)}, "
            f"cov={cov.options.cov!r}, dof={cov.options.dof!r}, repair={cov.options.repair!r}"
            f"{f', alike={cov.options.alike!r}' if cov.options.alike else ''}. Pass "
            f'results.with_cov(groups="{names[0]} + {names[1]}", cov=None, dof=None, repair=None).'
        )
    if judge is not None and judge not in names:
        raise ArgumentError(
            f"`judge` must be one of the crossed clusterings, {listed(names, joiner=' or ')}; got {judge!r}."
        )
    counts = [touched(difference.estimate, axis) for axis in cov.axes]
    few = names.index(judge or ("judge" if "judge" in names else names[int(np.argmin(counts))]))
    order = [1 - few, few]
    widths = cov.widths()
    if widths.scored is not None and (widths.scored.null.rarer < FEW_EXPECTED).any():
        raise NotAvailableError(
            "few questions tell anything about this difference; with crossed clusterings no plan is known for that. "
            f'Pass results.with_cov(groups="{names[1 - few]}"), which holds {names[few]} fixed.'
        )
    both = next(term for term in cov.pieces if len(term.dims) == 2)
    design = CrossedDesign(counts[order[0]], counts[few], touched(difference.estimate, both.by))
    if design.cells < LEAST_SHARE * design.prompts * design.judges:
        raise NotAvailableError(
            f"the log has {design.cells:.0f} of the {design.prompts * design.judges:.0f} combinations of "
            f"{names[order[0]]} and {names[few]}, fewer than half: it says too little about what prompts and judges "
            f"add. Keep the {names[few]} values that saw most of the {names[order[0]]} values, or pass "
            f'results.with_cov(groups="{names[order[0]]}"), which holds {names[few]} fixed.'
        )
    by_dims = {term.dims: place for place, term in enumerate(cov.pieces)}
    places = [by_dims[(order[0],)], by_dims[(few,)], by_dims[both.dims]]
    parts, solved = split(widths.terms[places, 0], design)
    if sum(parts) == 0:
        raise ArgumentError("the variance parts of prompts, judges and the rest all came out at 0 or below.")
    dofs = float(widths.dofs[places[0], 0]), float(widths.dofs[places[1], 0])
    if min(dofs) < LEAST_DOF:
        raise NotAvailableError(
            f"clusters of {names[order[int(np.argmin(dofs))]]} differ so much in size that {min(dofs):.2g} degrees of "
            "freedom are left; a plan needs at least 1. Leave out the smallest ones."
        )
    return CrossedPilot(design, parts, solved, dofs, cov.options.repair), (names[order[0]], names[few])


def _row(pilot: CrossedPilot, judges: int, asked: Separation) -> list[Any]:
    """One row of the table."""

    def chance(prompts: float) -> float:
        design = CrossedDesign(prompts, judges, prompts * judges)
        if min(pilot.dofs_at(design)) < LEAST_DOF:
            return 0.0
        return crossed_power(pilot, design, asked.delta, asked.alpha, asked.assurance)

    endless = CrossedDesign(ENDLESS, judges, ENDLESS * judges)
    enough_dof = min(pilot.dofs_at(endless)) >= LEAST_DOF
    smallest = _detected(pilot, endless, asked) if enough_dof else math.inf
    prompts = None
    if enough_dof and chance(ENDLESS) > asked.power:
        prompts = fewest_prompts(lambda number: chance(number) >= asked.power - REACHED)
    planned = endless if prompts is None else CrossedDesign(prompts, judges, prompts * judges)
    se, dof = expected_error(pilot, planned, asked.alpha)
    return [judges, prompts, None if prompts is None else prompts * judges, se, dof, smallest]


def _detected(pilot: CrossedPilot, design: CrossedDesign, asked: Separation) -> float:
    """The difference that a design finds with the power asked for."""

    def short(delta: float) -> float:
        return crossed_power(pilot, design, delta, asked.alpha, asked.assurance) - asked.power

    high = max(asked.delta, expected_error(pilot, pilot.design, asked.alpha)[0])
    while short(high) < 0:
        high *= 2
    return float(scipy.optimize.brentq(short, 0.0, high, rtol=1e-6, xtol=1e-12))
