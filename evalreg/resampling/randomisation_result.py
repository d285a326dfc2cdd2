"""What a randomisation test gives."""

from __future__ import annotations

from dataclasses import dataclass

from evalreg.checks import keeps
from evalreg.errors import Note
from evalreg.report.tables import Grid, Summary, fixed, number, p_value
from evalreg.resampling.assignments import StatisticName
from evalreg.resampling.draws import seed_text


@keeps("n_clusters", "n_rows")
@dataclass(frozen=True)
class RandomisationTest:
    """A randomisation test, with the interval of the effects that it does not reject.

    Made by `randomisation_test`.

    Parameters
    ----------
    name : str
        The effect, "treated - reference".
    estimate : float
        The difference of the rows' means, within strata where there are any.
    se : float
        Its standard error by clusters, which studentises it.
    t : float
        Estimate over standard error; NaN where that is 0.
    p_value : float
        Two-sided: the share of assignments whose statistic is at least as far from zero, ties counted.
    interval : (float, float)
        Effects, the same for all rows, whose p-value is above `alpha`; an end is infinite where p never falls to it.
        NaN where the scores do not vary between the clusters of an arm.
    alpha : float
        One minus the level of the interval.
    statistic : {"t", "difference"}
        What is compared.
    n_assignments : int
        Assignments there are.
    draws : int
        Assignments in use besides that of the data, or all where they are enumerated.
    enumerated : bool
        Whether these are all there are, each once.
    smallest_p : float
        The smallest p-value that this design can give.
    n_clusters : dict of str to int
        Clusters by level, the treated one first.
    n_rows : dict of str to int
        Rows by level.
    by : str
        What was assigned: the clusters' column, or "row".
    strata : str or None
        Within what.
    n_strata : int
        How many strata; 1 without.
    seed : int or None
        Of the draws; None for a Generator, or where nothing was drawn.
    notes : tuple of (category, text)
        What was warned of.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=12, questions_per_passage=5, seed=2)
    >>> log["prompt"] = log["passage"].factorize()[0] % 2 == 0
    >>> test = er.randomisation_test(log, treatment="prompt", groups="passage")
    >>> test.name, test.draws, test.enumerated, test.n_clusters
    ('True - False', 924, True, {'True': 6, 'False': 6})
    """

    name: str
    estimate: float
    se: float
    t: float
    p_value: float
    interval: tuple[float, float]
    alpha: float
    statistic: StatisticName
    n_assignments: int
    draws: int
    enumerated: bool
    smallest_p: float
    n_clusters: dict[str, int]
    n_rows: dict[str, int]
    by: str
    strata: str | None
    n_strata: int
    seed: int | None
    notes: tuple[Note, ...] = ()

    def summary(self) -> Summary:
        """The test in words.

        Returns
        -------
        Summary
            Prints as text; also `as_markdown()`, `as_latex()` and `as_html()`.
        """
        return summarize_randomisation(self)

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def __repr__(self) -> str:
        return self.summary().as_text()


def summarize_randomisation(test: RandomisationTest) -> Summary:
    """The facts of a test."""
    what = "rows" if test.by == "row" else f"{test.by} clusters"
    within = "" if test.strata is None else f", within {test.n_strata} values of {test.strata}"
    each = ", ".join(
        f"{name}: {n}" + ("" if test.by == "row" else f" ({test.n_rows[name]} rows)")
        for name, n in test.n_clusters.items()
    )
    if test.enumerated:
        how = f"all {test.n_assignments:,}, each once"
    else:
        there = f"{test.n_assignments:,}" if test.n_assignments < 10**12 else "more than 10^12"
        how = f"{test.draws:,} drawn of {there}, {seed_text(test.seed)}"
    ends = tuple(number(end) for end in test.interval)
    facts = [
        ("Null", "no effect on any row"),
        ("Assigned", what + within),
        (f"{what[:1].upper()}{what[1:]}", each),
        ("Assignments", how),
        ("Statistic", "difference over its clustered error" if test.statistic == "t" else "difference"),
        ("Smallest possible p", p_value(test.smallest_p)),
    ]
    headers = ("effect", "estimate", "clustered SE", "t", "p", f"[{test.alpha / 2:.3g}", f"{1 - test.alpha / 2:.3g}]")
    numbers = (number(test.estimate), number(test.se), fixed(test.t, 3), p_value(test.p_value), *ends)
    grid = Grid(headers, ((test.name, *numbers),))
    return Summary("Randomisation test", tuple(facts), (grid,), tuple(text for _, text in test.notes))
