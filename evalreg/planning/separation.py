"""When two named models come apart, on one axis or crossed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy

from evalreg.checks import FloatArray, keeps
from evalreg.covariance.crossed import crossed_widths, sums_of
from evalreg.numerics.student import t_quantile
from evalreg.planning.power import REACHED, chi_nodes
from evalreg.report.tables import Grid, Printed, Summary, number, p_value

if TYPE_CHECKING:
    from collections.abc import Mapping

DIMS: list[tuple[int, ...]] = [(0,), (1,), (0, 1)]
# Of an integral over the variance of one axis that the test will see, and over its error in the pilot.
TEST_NODES, ERROR_NODES = 20, 20


@dataclass(frozen=True)
class CrossedDesign:
    """So many prompts and judges, and combinations of them with scores."""

    prompts: float
    judges: float
    cells: float


@dataclass(frozen=True)
class CrossedPilot:
    """What a pilot on prompts and judges says about a difference."""

    design: CrossedDesign
    # Variance of the difference in one combination, by prompt, by judge and by what is left: at least 0.
    parts: tuple[float, float, float]
    # The same before negative ones were set to 0.
    solved: tuple[float, float, float]
    # Degrees of freedom of the one-way variances by prompt and by judge.
    dofs: tuple[float, float]
    repair: str

    def dofs_at(self, design: CrossedDesign) -> tuple[float, float]:
        """Those of another design with the pilot's mix of sizes; one less than equal clusters."""
        pairs = zip(
            self.dofs,
            (design.prompts, design.judges),
            (self.design.prompts, self.design.judges),
            strict=True,
        )
        prompt, judge = (max((dof + 1) * new / old - 1, REACHED) for dof, new, old in pairs)
        return prompt, judge


def expected_terms(design: CrossedDesign) -> FloatArray:
    """What each part adds to the variances by prompt, by judge and by combination, shape (3 terms, 3 parts).

    Scores are a prompt's effect, a judge's and the rest, combinations are at random among all, and their mean is taken
    off: the sample variance of M combinations holds 1 - 1/P of the prompts' variance, the mean of a prompt's judges
    their effects where not all judge all.
    """
    P, J, M = design.prompts, design.judges, design.cells
    gap = 1 / M - 1 / (P * J)
    within = np.array([1 - 1 / P, 1 - 1 / J, 1 - 1 / M]) / (M - 1)
    return np.array([[1 / P, gap, 1 / M], [gap, 1 / J, 1 / M], within])


def true_variance(parts: FloatArray, design: CrossedDesign) -> FloatArray:
    """Variance of the difference; parts (3, ...)."""
    return np.asarray(parts[0] / design.prompts + parts[1] / design.judges + parts[2] / design.cells)


def split(terms: FloatArray, design: CrossedDesign) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Variance parts from the three terms of a pilot, those below 0 set to 0; and as estimated."""
    weights = expected_terms(design)
    solved = np.linalg.solve(weights, terms)
    rest = max(solved[2], 0.0)
    # Where the rest is cut, the axes keep what was seen of them.
    axes = np.linalg.solve(weights[:2, :2], terms[:2] - weights[:2, 2] * rest)
    kept = np.array([*np.maximum(axes, 0.0), rest])
    return _three(kept), _three(solved)


def _three(values: npt.NDArray[np.floating[Any]]) -> tuple[float, float, float]:
    return float(values[0]), float(values[1]), float(values[2])


def crossed_power(
    pilot: CrossedPilot, design: CrossedDesign, delta: float, alpha: float, assurance: float | None = None
) -> float:
    """Probability that the test of `groups="prompt + judge"` finds a true difference.

    For given parts the terms by prompt and by judge are their expected values times chi2/dof, independent of each other
    and of the estimate, as in a normal two-way layout; that of combinations follows from both and the rest. H is then
    that of the test. The parts are averaged over the error of the pilot's two one-way terms, or, with `assurance`, the
    power is that which so many pilots reach.
    """
    if delta == 0:
        return alpha
    parts, weights = _possible_parts(pilot)
    found = _power_of(parts, pilot, design, delta, alpha)
    if assurance is None:
        return float(weights @ found)
    order = np.argsort(-found)
    return float(np.interp(assurance, np.cumsum(weights[order]), found[order]))


def _possible_parts(pilot: CrossedPilot) -> tuple[FloatArray, FloatArray]:
    """Parts that the pilot may have come from, shape (3, m), and their weights."""
    W = expected_terms(pilot.design)
    parts = np.array(pilot.parts)
    seen = W[:2] @ parts
    (prompt, w_prompt), (judge, w_judge) = (chi_nodes(dof, ERROR_NODES) for dof in pilot.dofs)
    terms = np.stack(np.broadcast_arrays(seen[0] / prompt[:, None] ** 2, seen[1] / judge[None, :] ** 2))
    axes = np.linalg.solve(W[:2, :2], terms.reshape(2, -1) - (W[:2, 2] * parts[2])[:, None])
    weights = (w_prompt[:, None] * w_judge[None, :]).ravel()
    return np.vstack([np.maximum(axes, 0.0), np.full(weights.size, parts[2])]), weights


def _power_of(parts: FloatArray, pilot: CrossedPilot, design: CrossedDesign, delta: float, alpha: float) -> FloatArray:
    """Power for each column of parts, shape (m,)."""
    expected = expected_terms(design) @ parts
    dofs = pilot.dofs_at(design)
    t2 = t_quantile(alpha, np.array([*dofs, max(design.cells - 1.0, 1.0)])) ** 2
    (prompt, w_prompt), (judge, w_judge) = (chi_nodes(dof, TEST_NODES) for dof in dofs)
    # In units of the true variance.
    variance = true_variance(parts, design)
    expected = expected / variance
    # The sum of squares of combinations is that of prompts, of judges and of the rest.
    P, J, M = design.prompts, design.judges, design.cells
    u, w = (P - 1) / (M - 1), (J - 1) / (M - 1)
    rest = np.maximum(expected[2] - u * expected[0] - w * expected[1], 0.0)[:, None]
    V_P, V_J = expected[0][:, None] * prompt**2, expected[1][:, None] * judge**2
    H2: Any = 0.0
    for on_P, on_J, on_both in sums_of(DIMS, pilot.repair) * t2:
        # What comes from prompts and the rest, and what comes from judges.
        by_prompt = (on_P + on_both * u) * V_P + on_both * rest
        by_judge = (on_J + on_both * w) * V_J
        H2 = np.maximum(H2, by_prompt[:, :, None] + by_judge[:, None, :])
    H, away = np.sqrt(H2), (delta / np.sqrt(variance))[:, None, None]
    found = scipy.special.ndtr(away - H) + scipy.special.ndtr(-away - H)
    return np.asarray((found @ w_judge) @ w_prompt)


def expected_error(pilot: CrossedPilot, design: CrossedDesign, alpha: float) -> tuple[float, float]:
    """Standard error of the difference on a design, and the degrees of freedom that its half-width is expected to have.

    The half-width is H with the expected terms, in these standard errors.
    """
    parts = np.array(pilot.parts)
    terms = (expected_terms(design) @ parts)[:, None]
    variance = true_variance(parts, design)
    dofs = np.array([*pilot.dofs_at(design), max(design.cells - 1.0, 1.0)])[:, None]
    shown = np.max(sums_of(DIMS, pilot.repair) @ terms, axis=0)
    widths = crossed_widths(shown, terms, dofs, DIMS, pilot.repair)
    return math.sqrt(float(variance)), float(widths.dof(alpha)[0])


TABLE = ("judges", "prompts", "ratings", "se", "dof", "smallest")
# Fewer judges than this say little of how judges differ.
FEW_JUDGES = 5


@keeps("table")
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
    design: Mapping[str, int]
    parts: Mapping[str, float] | None
    negative: tuple[str, ...]
    combinations: int | None
    table: pd.DataFrame

    def __post_init__(self) -> None:
        """Make the mappings read-only."""
        object.__setattr__(self, "design", MappingProxyType(dict(self.design)))
        if self.parts is not None:
            object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))

    def __getstate__(self) -> dict[str, Any]:
        own = {"design": dict(self.design), "parts": None if self.parts is None else dict(self.parts)}
        return self.__dict__ | own

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

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
    if plan.parts is None:
        grid = Grid(("", axes[0], "questions or rows", "SE then", "dof"), tuple(("needed", *row[1:5]) for row in rows))
        grids: tuple[Grid, ...] = (grid,)
    else:
        grid = Grid((axes[1], axes[0], "combinations", "SE then", "dof", "smallest"), rows)
        shares = Grid(("variance in one combination", *axes, "rest"), (("", *map(number, plan.parts.values())),))
        grids = (grid, shares)
    return Summary("evalreg plan separate", tuple(facts), grids, sentences(plan))


def _cells(row: dict[Any, Any]) -> tuple[str, ...]:
    judges = "" if pd.isna(row["judges"]) else f"{row['judges']}"
    counts = ("none" if pd.isna(row[name]) else f"{row[name]}" for name in ("prompts", "ratings"))
    return judges, *counts, number(row["se"]), f"{row['dof']:.1f}", number(row["smallest"])


def sentences(plan: Separation) -> tuple[str, ...]:
    """What a careful reader asks."""
    said = []
    level = f"{100 * (1 - plan.alpha):g}%"
    if not plan.assumed:
        nearer = min(abs(plan.lower), abs(plan.upper))
        zero = plan.lower <= 0 <= plan.upper
        said.append(
            f"The plan takes the difference seen, {plan.delta:.3g}, for the true one. Its {level} interval is "
            f"[{number(plan.lower)}, {number(plan.upper)}]: "
            + (
                "it includes 0, so perhaps no number is enough. "
                if zero
                else f"the true one may be as small as {number(nearer)}. "
            )
            + "Give the smallest difference that matters as `delta`."
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
    if judges < FEW_JUDGES:
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
