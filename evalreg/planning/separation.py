"""Prompts and judges at which two models of a leaderboard come apart."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, fraction, keeps, listed, nearest_or_all
from evalreg.covariance.crossed import crossed_widths, sums_of, t_quantile
from evalreg.data.clusters import axis_name
from evalreg.errors import ArgumentError, ArgumentTypeError, NotAvailableError
from evalreg.inference.dependence import FEW_CROSSED
from evalreg.inference.wald import difference_of
from evalreg.numerics.limits import EQUAL
from evalreg.planning.pilot import Pilot, is_estimated, null_of, pilot_of, refuse_beyond, touched
from evalreg.planning.power import (
    PILOT_NODES,
    checked_counts,
    checked_delta,
    chi_nodes,
    fewest,
    normal_quantiles,
    reached,
    two_sided,
)
from evalreg.report.tables import Grid, Printed, Summary, number, p_value
from evalreg.scores.score_interval import FEW_EXPECTED

DIMS: list[tuple[int, ...]] = [(0,), (1,), (0, 1)]
# Of an integral over the variance of one axis that the test will see, and over its error in the pilot.
NODES = 20
# No benchmark has more prompts; and so many that they are no source of error (limits).
MOST_PROMPTS, ENDLESS = 1_000_000, 1e12
TABLE = ("judges", "prompts", "ratings", "se", "dof", "smallest")


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
    """Prompts, and judges, at which two named models of a log are separated; and the power of the log as it is.

    Parameters
    ----------
    results : Results or Comparison
        A leaderboard, means by model, a comparison, or results of a single difference; with independent rows, one
        clustering, or two that cross (prompts and judges).
    left, right : str, optional
        Names of two models. Left out, `results` must be one difference.
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
        Level of the two-sided test, 0.05 by default; divide it by the number of pairs to be separated at once.
    power : float, optional
        Probability of separating the two, 0.8 by default. Above alpha.

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
    refuse_beyond(wanted, null_of(difference.cov))
    if difference.cov.crossed:
        plan = _crossed(difference, judges, judge, wanted, alpha, power, assurance)
    elif judges is None and judge is None:
        plan = _one_way(difference, wanted, alpha, power, assurance)
    else:
        axis_names = listed(map(axis_name, difference.cov.axes)) or "none"
        raise ArgumentError(
            f'`judges` needs results whose prompts and judges cross, by groups="prompt + judge" say; these have '
            f"{axis_names}. Add the judges to `groups`, or leave `judges` out to plan prompts alone."
        )
    (lower, upper), p = map(float, difference.conf_int(alpha).iloc[0]), float(difference.pvalues.iloc[0])
    return Separation(name, seen, se, lower, upper, p, wanted, assumed, alpha, power, assurance, **plan)


def _difference(results: Any, left: str | None, right: str | None) -> Any:
    """The results of the one difference that is planned for."""
    if (left is None) != (right is None):
        raise ArgumentError("`left` and `right` go together, the names of two models; got one of them.")
    facts = getattr(results, "__dict__", {}).get("facts")  # of a comparison
    results = getattr(results, "results", results)
    if not is_estimated(results):
        raise ArgumentTypeError(
            f"`results` must be a leaderboard, means by model, a comparison or one difference; got "
            f"{type(results).__name__}."
        )
    if left is None or right is None:
        if len(results.params) != 1:
            raise ArgumentError(
                "two models are needed, as `left` and `right`, "
                f"since the results hold {len(results.params)} parameters: "
                f"{listed(list(map(str, results.estimate.names))[:6])}{', ...' if len(results.params) > 6 else ''}."
            )
        return results
    if left == right:
        raise ArgumentError(f"`left` and `right` must be two models; both are {left!r}.")
    names = list(results.estimate.names)
    models = names if facts is None else sorted({str(model) for pair in facts.index for model in pair})
    absent = [name for name in (left, right) if name not in models]
    if absent:
        hint = nearest_or_all(absent[0], models)
        raise ArgumentError(f"{absent[0]!r} is not a parameter of these results.{hint}")
    weights = difference_of(names, left, right, facts is not None and not facts.differ_in_questions)
    if not weights:
        raise ArgumentError(
            f"{left!r} and {right!r} were compared with another model on questions that differ, and not with each "
            "other. Compare the two with each other, without a `baseline`."
        )
    return results.contrast(weights, f"{left} - {right}")


def _one_way(difference: Any, delta: float, alpha: float, power: float, assurance: float | None) -> dict[str, Any]:
    """Prompts alone, as `from_pilot` plans them."""
    rows = pilot_of(difference)
    pilot: Pilot = rows.get("clustered", rows["plain"])
    planned = pilot.at_limit(assurance)
    questions, units = planned.enough(delta, alpha, power)
    se = math.sqrt(pilot.variance / (units * pilot.size))
    return {
        "power_now": planned.power(pilot.n_clusters, delta, alpha),
        "detectable": planned.detected(alpha, power),
        "design": {next(map(axis_name, difference.cov.axes), "rows"): pilot.n_clusters},
        "table": _typed([[None, units, questions, se, pilot.dof_at(units), 0.0]]),
    }


def _crossed(
    difference: Any,
    judges: Iterable[int] | None,
    judge: str | None,
    delta: float,
    alpha: float,
    power: float,
    assurance: float | None,
) -> dict[str, Any]:
    """Prompts for several numbers of judges."""
    pilot, names = _crossed_pilot(difference, judge)
    pilot = replace(pilot, assurance=assurance)
    n_prompts, n_judges, n_cells = map(round, pilot.design)
    if judges is None:
        numbers = [n_judges * times for times in (1, 2, 3)]
    else:
        numbers = checked_counts("judges", judges, 2, "judges, since one says nothing about others")
    parts = dict(zip(("prompt", "judge", "rest"), map(float, pilot.parts), strict=True))
    return {
        "power_now": crossed_power(pilot, pilot.design, delta, alpha),
        "detectable": _detected(pilot, pilot.design, alpha, power),
        "design": {names[0]: n_prompts, names[1]: n_judges},
        "parts": parts,
        "negative": tuple(name for name, value in zip(parts, pilot.solved, strict=True) if value < 0),
        "combinations": n_cells,
        "table": _typed([_row(pilot, count, delta, alpha, power) for count in numbers]),
    }


def _crossed_pilot(difference: Any, judge: str | None) -> tuple[CrossedPilot, tuple[str, str]]:
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
    prompts, judges = names[1 - few], names[few]
    widths = cov.widths()
    if widths.scored is not None and (widths.scored.null.rarer < FEW_EXPECTED).any():
        raise NotAvailableError(
            "few questions tell anything about this difference; with crossed clusterings no plan is known for that. "
            f'Pass results.with_cov(groups="{prompts}"), which holds {judges} fixed.'
        )
    # The terms by prompt, by judge and by their combinations.
    by_dims = {term.dims: place for place, term in enumerate(cov.pieces)}
    places = [by_dims[dims] for dims in ((1 - few,), (few,), (0, 1))]
    n_cells, full = touched(difference.estimate, cov.pieces[places[2]].by), counts[0] * counts[1]
    if 2 * n_cells < full:
        raise NotAvailableError(
            f"the log has {n_cells} of the {full} combinations of {prompts} and {judges}, fewer than "
            f"half: it says too little about what prompts and judges add. Keep the {judges} values that saw most of "
            f'the {prompts} values, or pass results.with_cov(groups="{prompts}"), which holds {judges} fixed.'
        )
    design = np.array([counts[1 - few], counts[few], n_cells], dtype=np.float64)
    parts, solved = split(widths.terms[places, 0], design)
    if not parts.any():
        raise ArgumentError("the variance parts of prompts, judges and the rest all came out at 0 or below.")
    dofs = widths.dofs[places[:2], 0]
    if dofs.min() < 1 - EQUAL:
        raise NotAvailableError(
            f"clusters of {(prompts, judges)[int(np.argmin(dofs))]} differ so much in size that {dofs.min():.2g} "
            "degrees of freedom are left; a plan needs at least 1. Leave out the smallest ones."
        )
    return CrossedPilot(design, parts, solved, (float(dofs[0]), float(dofs[1])), cov.options.repair), (prompts, judges)


# The plan


@keeps("table", "design", "parts")
@dataclass(frozen=True, eq=False)
class Separation(Printed):
    """Prompts and judges at which two models come apart; made by `plan.separate`, immutable.

    Parameters
    ----------
    name : str
        The difference.
    estimate, se, lower, upper, p_value : float
        What the log says about it: the interval at `alpha`.
    delta : float
        True difference that is planned for.
    assumed : bool
        Whether `delta` was given; otherwise it is the difference seen.
    alpha, power, assurance : float
        As asked; no assurance is None.
    power_now : float
        Power of a log as large as this one, if the difference is `delta`.
    detectable : float
        The difference that such a log finds with the power asked for.
    design : mapping of str to int
        Clusters of the log that the difference rests on, by name; prompts first.
    parts : mapping of str to float, or None
        Crossed: variance of the difference in one combination by "prompt", "judge" and "rest"; parts below 0 are 0.
    negative : tuple of str
        Which parts came out below 0.
    combinations : int or None
        Crossed: combinations of prompts and judges in the log.
    table : DataFrame
        Columns `judges` (missing where nothing crosses), `prompts` (clusters of the other axis; missing where no number
        is enough), `ratings` (their combinations; where nothing crosses questions, or rows without `item`), `se` and
        `dof` (of the difference then; with unlimited prompts if `prompts` is missing), `smallest` (the difference that
        this many judges find with unlimited prompts).

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.paired(n_passages=40, difference=0.05, seed=2)
    >>> means = er.mean(log, by="model", item="question", groups="passage")
    >>> plan = er.plan.separate(means, "new", "old", delta=0.05)
    >>> type(plan).__name__, dict(plan.design)
    ('Separation', {'passage': 40})
    """

    name: str
    estimate: float
    se: float
    lower: float
    upper: float
    p_value: float
    delta: float
    assumed: bool
    alpha: float
    power: float
    assurance: float | None
    power_now: float
    detectable: float
    design: dict[str, int]
    table: pd.DataFrame
    parts: dict[str, float] | None = None
    negative: tuple[str, ...] = ()
    combinations: int | None = None

    def to_frame(self) -> pd.DataFrame:
        """The plan.

        Returns
        -------
        DataFrame
            A copy of `table`.
        """
        return self.table

    def summary(self, alpha: float | None = None) -> Summary:
        """The plan as a table and sentences.

        Parameters
        ----------
        alpha : float, optional
            Taken for the sake of other summaries; the level is that of the plan.

        Returns
        -------
        Summary
            Prints as text of 80 columns; also `as_markdown()`, `as_latex()` and `as_html()`.
        """
        return _summary(self)

    def __repr__(self) -> str:
        table = self.table.to_string(index=False, line_width=80)
        return f"<Separation: {self.name}, {self.delta:.4g} with power {self.power:g}>\n{table}"


def _summary(plan: Separation) -> Summary:
    axes = list(plan.design)
    facts = [
        ("Difference", plan.name),
        ("Seen", f"{number(plan.estimate)} (SE {number(plan.se)}, p {p_value(plan.p_value, plan.alpha)})"),
        ("Planned for", f"{plan.delta:.4g}"),
        ("Level, power", f"{plan.alpha:g}, {plan.power:g}"),
        ("This log", " x ".join(f"{count} {name}" for name, count in plan.design.items())),
        ("Power of such a log", f"{plan.power_now:.2f}"),
        ("It finds", number(plan.detectable)),
    ]
    if plan.assurance is not None:
        facts.append(("Assurance", f"{plan.assurance:g}"))
    rows = tuple(_cells(row) for row in plan.table.to_dict("records"))
    grids = [Grid(("", axes[0], "questions or rows", "SE then", "dof"), tuple(("needed", *row[1:5]) for row in rows))]
    if plan.parts is not None:
        shares = Grid(("variance in one combination", *axes, "rest"), (("", *map(number, plan.parts.values())),))
        grids = [Grid((axes[1], axes[0], "combinations", "SE then", "dof", "smallest"), rows), shares]
    return Summary("evalreg plan separate", tuple(facts), tuple(grids), sentences(plan))


def _cells(row: dict[Any, Any]) -> tuple[str, ...]:
    judges = "" if pd.isna(row["judges"]) else f"{row['judges']}"
    counts = ("none" if pd.isna(row[name]) else f"{row[name]}" for name in ("prompts", "ratings"))
    return judges, *counts, number(row["se"]), f"{row['dof']:.1f}", number(row["smallest"])


def sentences(plan: Separation) -> tuple[str, ...]:
    """What a careful reader asks."""
    said = []
    level = f"{100 * (1 - plan.alpha):g}%"
    if not plan.assumed:
        means = f"the true one may be as small as {number(min(abs(plan.lower), abs(plan.upper)))}"
        if plan.lower <= 0 <= plan.upper:
            means = "it includes 0, so perhaps no number is enough"
        said.append(
            f"The plan takes the difference seen, {plan.delta:.3g}, for the true one. Its {level} interval is "
            f"[{number(plan.lower)}, {number(plan.upper)}]: {means}. Give the smallest difference that matters as "
            "`delta`."
        )
    held = (
        f"the power is {plan.power:g} on average over pilots like this one"
        if plan.assurance is None
        else f"{plan.assurance:g} of pilots like this one lead to a power of at least {plan.power:g}"
    )
    said.append(f"Numbers are for a whole new log, tested as this one is; {held}.")
    if plan.parts is not None:
        said += _of_judges(plan)
    said.append("One pair at its own level: divide alpha by the number of pairs that should come apart at once.")
    return tuple(said)


def _of_judges(plan: Separation) -> list[str]:
    (first, prompts), (second, judges) = plan.design.items()
    said = [
        f"smallest: the difference that this many {second} clusters find with unlimited {first} clusters. More {first} "
        f"clusters cannot outvote them."
    ]
    names = {"prompt": first, "judge": second, "rest": "the rest"}
    if plan.negative:
        said.append(
            f"The variance of {' and of '.join(names[name] for name in plan.negative)} came out below 0 and is taken "
            "as 0; the error of such estimates is allowed for."
        )
    if judges < FEW_CROSSED:
        said.append(
            f"Only {judges} {second} clusters: how much they differ is known from {judges - 1} degrees of freedom. The "
            "plan allows for that, and asks for more than one from a larger pilot would."
        )
    if plan.combinations is not None and plan.combinations < prompts * judges:
        said.append(
            f"The log has {plan.combinations} of {prompts * judges} combinations, assumed to be a random part. The "
            "plan uses all of them."
        )
    return said


# The power of the crossed test


def grid(prompts: float, judges: float) -> FloatArray:
    """A design: numbers of prompts, of judges, and of their combinations with scores; here all of them."""
    return np.array([prompts, judges, prompts * judges], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class CrossedPilot:
    """What a pilot on prompts and judges says about a difference."""

    design: FloatArray
    # Variance of the difference in one combination, by prompt, by judge and by what is left: at least 0.
    parts: FloatArray
    # The same before negative ones were set to 0.
    solved: FloatArray
    # Degrees of freedom of the one-way variances by prompt and by judge; infinite where the parts are known.
    dofs: tuple[float, float]
    repair: str = "max"
    # Share of such pilots that lead to the power asked for; None averages over them.
    assurance: float | None = None

    def dofs_at(self, design: FloatArray) -> FloatArray:
        """Those of another design with the pilot's mix of sizes, one less than equal clusters; and of combinations."""
        dofs, axes = np.array(self.dofs), design[:2]
        axes = np.where(np.isinf(dofs), axes, (dofs + 1) * axes / self.design[:2]) - 1
        return np.array([*np.maximum(axes, EQUAL), max(design[2] - 1.0, 1.0)])


def expected_terms(design: FloatArray) -> FloatArray:
    """What each part adds to the variances by prompt, by judge and by combination, shape (3 terms, 3 parts).

    Scores are a prompt's effect, a judge's and the rest, combinations are at random among all, and their mean is taken
    off: the sample variance of M combinations holds 1 - 1/P of the prompts' variance, the mean of a prompt's judges
    their effects where not all judge all.
    """
    P, J, M = design
    gap = 1 / M - 1 / (P * J)
    return np.array([[1 / P, gap, 1 / M], [gap, 1 / J, 1 / M], (1 - 1 / design) / (M - 1)])


def split(terms: FloatArray, design: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Variance parts from the three terms of a pilot, those below 0 set to 0; and as estimated."""
    solved = np.asarray(np.linalg.solve(expected_terms(design), terms), dtype=np.float64)
    # Where the rest is cut, the axes keep what was seen of them.
    return _parts(terms[:2, None], max(solved[2], 0.0), design)[:, 0], solved


def _parts(terms: FloatArray, rest: float, design: FloatArray) -> FloatArray:
    """Parts at least 0, shape (3, m), from the terms by prompt and by judge, shape (2, m), and the part of the rest."""
    W = expected_terms(design)[:2]
    axes = np.linalg.solve(W[:, :2], terms - W[:, 2:] * rest)
    return np.vstack([np.maximum(axes, 0.0), np.full(terms.shape[1], rest)])


def crossed_power(pilot: CrossedPilot, design: FloatArray, delta: float, alpha: float) -> float:
    """Probability that the test of `groups="prompt + judge"` finds a true difference.

    For given parts the terms by prompt and by judge are their expected values times chi2/dof, independent of each other
    and of the estimate, as in a normal two-way layout; that of combinations follows from both and the rest. H is then
    that of the test. The parts are averaged over the error of the pilot's two one-way terms, or, where it has an
    `assurance`, the power is that which so many pilots reach. There is no test with less than a degree of freedom.
    """
    if delta == 0:
        return alpha
    if pilot.dofs_at(design).min() < 1 - EQUAL:
        return 0.0
    seen = expected_terms(pilot.design)[:2] @ pilot.parts
    (prompt, w_prompt), (judge, w_judge) = (chi_nodes(dof, NODES) for dof in pilot.dofs)
    terms = np.stack(np.broadcast_arrays(seen[0] / prompt[:, None] ** 2, seen[1] / judge[None, :] ** 2))
    parts = _parts(terms.reshape(2, -1), pilot.parts[2], pilot.design)
    weights = np.outer(w_prompt, w_judge).ravel()
    power = _power_of(parts, pilot, design, delta, alpha)
    if pilot.assurance is None:
        return float(weights @ power)
    order = np.argsort(-power)
    return float(np.interp(pilot.assurance, np.cumsum(weights[order]), power[order]))


def _power_of(parts: FloatArray, pilot: CrossedPilot, design: FloatArray, delta: float, alpha: float) -> FloatArray:
    """Power for each column of parts, shape (m,)."""
    dofs = pilot.dofs_at(design)
    t2 = t_quantile(alpha, dofs) ** 2
    # One column is not dear.
    n_nodes = PILOT_NODES if parts.shape[1] == 1 else NODES
    (prompt, w_prompt), (judge, w_judge) = (chi_nodes(float(dof), n_nodes) for dof in dofs[:2])
    # In units of the true variance.
    variance = (1 / design) @ parts
    expected = expected_terms(design) @ parts / variance
    # The sum of squares of combinations is that of prompts, of judges and of the rest.
    u, w = (design[:2] - 1) / (design[2] - 1)
    rest = np.maximum(expected[2] - u * expected[0] - w * expected[1], 0.0)[:, None]
    V_P, V_J = expected[0][:, None] * prompt**2, expected[1][:, None] * judge**2
    H2: Any = 0.0
    for on_P, on_J, on_both in sums_of(DIMS, pilot.repair) * t2:
        # What comes from prompts and the rest, and what comes from judges.
        by_prompt = (on_P + on_both * u) * V_P + on_both * rest
        by_judge = (on_J + on_both * w) * V_J
        H2 = np.maximum(H2, by_prompt[:, :, None] + by_judge[:, None, :])
    H, away = np.sqrt(H2), (delta / np.sqrt(variance))[:, None, None]
    return np.asarray((two_sided(away, H) @ w_judge) @ w_prompt)


def expected_error(pilot: CrossedPilot, design: FloatArray, alpha: float) -> tuple[float, float]:
    """Standard error of the difference on a design, and the degrees of freedom that its half-width is expected to have.

    The half-width is H with the expected terms, in these standard errors.
    """
    terms = (expected_terms(design) @ pilot.parts)[:, None]
    shown = np.max(sums_of(DIMS, pilot.repair) @ terms, axis=0)
    widths = crossed_widths(shown, terms, pilot.dofs_at(design)[:, None], DIMS, pilot.repair)
    return math.sqrt(pilot.parts @ (1 / design)), float(widths.dof(alpha)[0])


def _detected(pilot: CrossedPilot, design: FloatArray, alpha: float, power: float) -> float:
    """The difference that a design finds with the power asked for; infinite where none is found."""
    se, _ = expected_error(pilot, design, alpha)
    return reached(lambda delta: crossed_power(pilot, design, delta, alpha), power, 0.0, se)


def _row(pilot: CrossedPilot, judges: int, delta: float, alpha: float, power: float) -> list[Any]:
    """One row of the table."""

    def enough(prompts: int) -> bool:
        return crossed_power(pilot, grid(prompts, judges), delta, alpha) >= power - EQUAL

    smallest = _detected(pilot, grid(ENDLESS, judges), alpha, power)
    prompts = fewest(enough, 2, MOST_PROMPTS) if delta > smallest else 0
    se, dof = expected_error(pilot, grid(prompts or ENDLESS, judges), alpha)
    return [judges, prompts or None, prompts * judges or None, se, dof, smallest]


def _typed(rows: list[list[Any]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(TABLE)).astype(dict.fromkeys(TABLE[:3], "Int64"))
