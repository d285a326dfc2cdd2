"""What `components` gives: variance components by facet, what they mean for other designs, and how they are printed."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import pandas as pd

from evalreg.checks import keeps, listed
from evalreg.errors import ArgumentError, EvalregWarning
from evalreg.planning.checked_numbers import checked_count
from evalreg.report.tables import Grid, Summary, number

ERROR = "error"
# Below this many levels the variance of a facet is next to unknown.
FEW_LEVELS = 10


@keeps("frame", "dropped")
@dataclass(frozen=True, eq=False)
class FacetComponents:
    """Variance components of a log by its facets; immutable.

    Made by `evalreg.components`.

    Parameters
    ----------
    frame : DataFrame
        What `table` copies.
    facets : tuple of str
        The facets, as in "judge:item".
    columns : tuple of frozenset of str
        Columns whose joint values are the levels of each component; of the last row those of all facets.
    score : str
        Column of the scores.
    mean : float
        Their mean.
    n_rows : int
        Rows in use.
    method : str
        "anova" or "minque".
    alpha : float
        Level of the intervals.
    dropped : dict of str to int
        Rows left out by reason.
    remarks : tuple of str
        What else the summary says.

    Examples
    --------
    >>> import evalreg as er, numpy as np, pandas as pd
    >>> rng = np.random.default_rng(1)
    >>> item, judge = np.repeat(np.arange(40), 5), np.tile(np.arange(5), 40)
    >>> score = rng.normal(0, 0.3, 40)[item] + rng.normal(0, 0.1, 5)[judge] + rng.normal(0, 0.2, 200)
    >>> found = er.components(pd.DataFrame({"item": item, "judge": judge, "score": score}), facets="item x judge")
    >>> [round(found.standard_error(item=n, judge=5), 3) for n in (40, 400)]
    [0.053, 0.03]
    """

    frame: pd.DataFrame
    facets: tuple[str, ...]
    columns: tuple[frozenset[str], ...]
    score: str
    mean: float
    n_rows: int
    method: str
    alpha: float
    dropped: dict[str, int]
    remarks: tuple[str, ...] = ()

    @property
    def table(self) -> pd.DataFrame:
        """One row a component, the error last, which is the interaction of all facets too where its name says so.

        Columns variance (squared units of the score, unbiased, negative as it may come), se, lower, upper, share (of
        the sum of all), sd (root of the variance; NaN where negative), levels (that occur) and dof (of its sum of
        squares).
        """
        return self.frame

    def standard_error(self, *, repeats: int = 1, **levels: int) -> float:
        """Standard error of the mean score of another balanced design.

        Parameters
        ----------
        repeats : int, optional
            Scores of each combination, 1 by default.
        **levels : int
            Number of levels of each facet, by its column; of "judge:item" judges for each item.

        Returns
        -------
        float
            The root of the sum of each component over the number of its levels. Negative components count as 0.

        Raises
        ------
        ArgumentError
            If a facet has no number, or the interaction of all facets cannot be told from the error and `repeats` is
            not 1.

        References
        ----------
        Brennan (2001), Generalizability Theory, section 4.1 (D studies).
        """
        names = {facet.partition(":")[0] for facet in self.facets}
        if set(levels) != names:
            raise ArgumentError(
                f"`standard_error` needs a number of levels for each of {listed(sorted(names))}; got "
                f"{listed(sorted(levels)) or 'none'}."
            )
        counts = {name: checked_count(name, value, 1, f"levels of {name}") for name, value in levels.items()}
        if checked_count("repeats", repeats, 1, "scores") > 1 and self._confounded:
            raise ArgumentError(
                "`repeats` above 1 needs a log in which combinations of the facets repeat: here the interaction of all "
                "facets, which repeats do not average out, cannot be told from the error."
            )
        each = [math.prod(counts[name] for name in columns) for columns in self.columns]
        each[-1] *= repeats
        return math.sqrt(sum(max(v, 0.0) / n for v, n in zip(self.frame["variance"], each, strict=True)))

    def for_board(self, model: str = "model", prompt: str = "prompt", judge: str | None = "judge") -> dict[str, float]:
        """What `plan.board` takes: variances of what a difference of two models rests on.

        Parameters
        ----------
        model, prompt, judge : str, optional
            The facets, all crossed; judge None for scores without judges.

        Returns
        -------
        dict
            model_prompt, model_judge and residual. Negative components are 0, and a warning names them.

        Raises
        ------
        ArgumentError
            If the facets are not these.

        Examples
        --------
        `er.plan.board(delta=0.05, **found.for_board("model", "item", "judge"))`
        """
        roles = (model, prompt) if judge is None else (model, prompt, judge)
        if set(self.facets) != set(roles):
            raise ArgumentError(
                f"`for_board` needs components of {listed(roles)} and nothing else, all crossed; these are of "
                f'{listed(self.facets)}. Compute them with facets="{" x ".join(roles)}".'
            )
        of: dict[str, list[frozenset[str]]] = {"model_prompt": [frozenset((model, prompt))], "model_judge": []}
        if judge is not None:
            of["model_judge"] = [frozenset((model, judge))]
        found, negative = dict.fromkeys((*of, "residual"), 0.0), []
        last = len(self.columns) - 1
        for place, (name, variance) in enumerate(self.frame["variance"].items()):
            inside = place == last or (judge is not None and self.columns[place] == set(roles))
            role = "residual" if inside else next((r for r, sets in of.items() if self.columns[place] in sets), None)
            if role is not None:
                found[role] += max(float(variance), 0.0)
                negative += [str(name)] if variance < 0 else []
        if negative:
            warnings.warn(
                f"Planned with 0 for {listed(negative)}, whose variance came out negative: too little data to see it. "
                "The upper ends in the table say how large it may be.",
                EvalregWarning,
                stacklevel=2,
            )
        return found

    @property
    def _confounded(self) -> bool:
        return str(self.frame.index[-1]) != ERROR

    def summary(self) -> Summary:
        """The table, and what a careful reader asks.

        Returns
        -------
        Summary
            Prints as text of 80 columns; also `as_text(width)`, `as_markdown()`, `as_latex()`, `as_html()`.
        """
        return _summary(self)

    def __repr__(self) -> str:
        return self.summary().as_text()

    def _repr_html_(self) -> str:
        return self.summary().as_html()


def _summary(found: FacetComponents) -> Summary:
    dropped = sum(found.dropped.values())
    facts = (
        ("Score", found.score),
        ("Rows", f"{found.n_rows}"),
        ("Facets", " x ".join(found.facets)),
        ("Mean", number(found.mean)),
        ("Method", {"anova": "analysis of variance (Henderson 1)", "minque": "MINQUE(0)"}[found.method]),
        ("Rows dropped", f"{dropped}" if dropped else "none"),
    )
    rows = tuple(
        (
            str(name),
            number(row["variance"]),
            f"{number(row['se'])}",
            f"[{number(row['lower'])}, {number(row['upper'])}]",
            f"{row['share']:.0%}",
            f"{row['levels']:.0f}",
        )
        for name, row in found.frame.iterrows()
    )
    interval = f"{100 * (1 - found.alpha):g}% interval"
    grid = Grid(("component", "variance", "SE", interval, "share", "levels"), rows)
    return Summary("evalreg components", facts, (grid,), tuple(_sentences(found)))


def _sentences(found: FacetComponents) -> list[str]:
    table = found.frame
    said = [
        "variance: what one level of the component adds to the variance of one score. share: of their sum.",
    ]
    if found._confounded:
        said.append(
            f"Each combination has one score, so that {table.index[-1].removesuffix(f' + {ERROR}')} cannot be told "
            f"from "
            "the error of single scores: the last row is both. Repeated scores would tell."
        )
    effects = table.iloc[:-1]
    negative = table.index[(table["variance"] < 0) & (table["upper"] >= 0)]
    if len(negative):
        said.append(
            f"Negative for {listed(map(str, negative))}: the estimate is unbiased, and the true variance "
            "is probably small compared with the error of the estimate. It is not cut at 0; the interval says how "
            "large the variance may be."
        )
    below = table.index[table["upper"] < 0]
    if len(below):
        said.append(
            f"The whole interval of {listed(map(str, below))} lies below 0, where no variance can be: levels are "
            "less alike than chance allows, as when scores are shares of a fixed total. The model does not fit."
        )
    few = [str(name) for name in effects.index[(effects["levels"] < FEW_LEVELS)]]
    if few:
        said.append(
            f"Few levels of {listed(few)}: its variance is known up to a factor of several, as the interval shows."
        )
    said.append(
        "Intervals assume normal effects. A facet with a few levels far from the rest varies more than they say."
    )
    return [*said, *found.remarks]
