"""What `plan.separate` returns: a plan for two named models, as a table and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pandas as pd

from evalreg.checks import keeps
from evalreg.report.tables import Grid, Printed, Summary, number, p_value

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
