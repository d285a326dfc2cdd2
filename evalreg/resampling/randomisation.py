"""Randomisation inference: a treatment that was assigned to whole clusters at random."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb, prod
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from evalreg.checks import (
    BoolArray,
    FloatArray,
    IntArray,
    MissingName,
    fraction,
    issue,
    keeps,
    listed,
    nearest,
    option,
)
from evalreg.data.clusters import Codes, Groups, axis_name, with_roles
from evalreg.data.engine import Query
from evalreg.data.frame import open_frame
from evalreg.data.rows import ReadRows, read_rows
from evalreg.errors import (
    ArgumentError,
    ConstantScoreError,
    DataError,
    EvalregWarning,
    NotAvailableError,
    Note,
    TooFewClustersError,
    UnknownLabelError,
)
from evalreg.inference.simultaneous import Seed, base_seed
from evalreg.numerics.fitting import Progress
from evalreg.numerics.limits import EQUAL, HELD
from evalreg.report.tables import Grid, Shown, Summary, fixed, number, p_value
from evalreg.resampling.bootstrap import refuse_few
from evalreg.resampling.draws import Drawn, blocks, seed_text, whole_number


@keeps("n_clusters", "n_rows")
@dataclass(frozen=True, repr=False)
class RandomisationTest(Shown):
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
        what = "rows" if self.by == "row" else f"{self.by} clusters"
        within = "" if self.strata is None else f", within {self.n_strata} values of {self.strata}"
        each = ", ".join(
            f"{name}: {n}" + ("" if self.by == "row" else f" ({self.n_rows[name]} rows)")
            for name, n in self.n_clusters.items()
        )
        if self.enumerated:
            how = f"all {self.n_assignments:,}, each once"
        else:
            there = f"{self.n_assignments:,}" if self.n_assignments < 10**12 else "more than 10^12"
            how = f"{self.draws:,} drawn of {there}, {seed_text(self.seed)}"
        ends = tuple(number(end) for end in self.interval)
        facts = [
            ("Null", "no effect on any row"),
            ("Assigned", what + within),
            (f"{what[:1].upper()}{what[1:]}", each),
            ("Assignments", how),
            ("Statistic", "difference over its clustered error" if self.statistic == "t" else "difference"),
            ("Smallest possible p", p_value(self.smallest_p)),
        ]
        headers = (
            "effect",
            "estimate",
            "clustered SE",
            "t",
            "p",
            f"[{self.alpha / 2:.3g}",
            f"{1 - self.alpha / 2:.3g}]",
        )
        numbers = (number(self.estimate), number(self.se), fixed(self.t, 3), p_value(self.p_value), *ends)
        grid = Grid(headers, ((self.name, *numbers),))
        return Summary("Randomisation test", tuple(facts), (grid,), tuple(text for _, text in self.notes))


StatisticName: TypeAlias = Literal["t", "difference"]
STATISTICS: tuple[StatisticName, ...] = get_args(StatisticName)


@dataclass(frozen=True, eq=False)
class Allocation:
    """Who was treated, clusters sorted by stratum; what is random is which clusters of a stratum are."""

    treated: BoolArray  # (n_clusters,)
    stratum: IntArray  # (n_clusters,): from 0, in order
    n_rows: FloatArray  # (n_clusters,): rows of each cluster

    @cached_property
    def starts(self) -> IntArray:
        """First cluster of each stratum."""
        return np.flatnonzero(np.diff(self.stratum, prepend=-1))

    @cached_property
    def n_clusters(self) -> IntArray:
        """Clusters of each stratum."""
        return np.bincount(self.stratum)

    @cached_property
    def n_treated(self) -> IntArray:
        """Treated clusters of each stratum."""
        return np.bincount(self.stratum, weights=self.treated).astype(np.intp)

    @cached_property
    def small(self) -> BoolArray:
        """Strata with both arms and one cluster in some arm."""
        least = np.minimum(self.n_treated, self.n_clusters - self.n_treated)
        return np.asarray(least == 1)

    @property
    def n_assignments(self) -> int:
        """How many assignments treat as many clusters in each stratum."""
        return prod(comb(int(n), int(k)) for n, k in zip(self.n_clusters, self.n_treated, strict=True))

    @property
    def mirrored(self) -> bool:
        """Whether treated and untreated may change places, so that |t| comes in pairs."""
        return bool(np.all(2 * self.n_treated == self.n_clusters))

    def enumerated(self) -> Iterator[BoolArray]:
        """All assignments, some at a time."""
        tables = [_choices(int(n), int(k)) for n, k in zip(self.n_clusters, self.n_treated, strict=True)]
        sizes = [len(table) for table in tables]
        step = max(1, HELD // self.treated.size)
        for first in range(0, self.n_assignments, step):
            numbers = np.arange(first, min(first + step, self.n_assignments))
            digits = np.unravel_index(numbers, sizes)
            yield np.hstack([table[digit] for table, digit in zip(tables, digits, strict=True)])

    def drawn(self, draws: int, base: int) -> Iterator[BoolArray]:
        """Random assignments, some at a time; each block of draws has a stream of its own."""
        G = self.treated.size
        place = np.arange(G) - np.repeat(self.starts, self.n_clusters)
        chosen = place < np.repeat(self.n_treated, self.n_clusters)
        for _, n, rng in blocks(draws, base):
            # Sorted by stratum and a random number within it: its first places are treated.
            order = np.argsort(self.stratum + rng.random((n, G)), axis=1)
            found = np.zeros((n, G), dtype=bool)
            np.put_along_axis(found, order[:, chosen], True, axis=1)
            yield found


def _choices(n: int, k: int) -> BoolArray:
    """All ways to treat k of n clusters, one a row."""
    places = np.array(list(combinations(range(n), k)), dtype=np.intp).reshape(comb(n, k), k)
    found = np.zeros((len(places), n), dtype=bool)
    np.put_along_axis(found, places, True, axis=1)
    return found


def effects(
    design: Allocation, totals: FloatArray, assignments: Iterator[BoolArray], enumerated: bool, progress: Progress
) -> tuple[float, Drawn]:
    """The difference of treated and untreated rows within strata, with its variance by clusters, and under assignments.

    Under an effect of the same size in all rows, what a cluster's total would have been without the treatment is known;
    under each assignment the effect, and each share of its error, is linear in that size. Shapes: totals (n_clusters,).
    """
    own = design.treated[None, :]
    at = _effect(design, totals, own)[0][0]
    moved = design.n_rows * design.treated
    rest = totals - at * moved
    variance = float(_squares(design, own, _effect(design, rest, own)[1])[0])
    numerators, squares = [], []
    for D in assignments:
        (a, s), (b, m) = _effect(design, rest, D), _effect(design, moved, D)
        numerators.append(np.array([a, b]))
        squares.append(np.array([_squares(design, D, s), _squares(design, D, s, m), _squares(design, D, m)]))
        progress.advance(len(D))
    found = np.hstack(squares)
    for power in (0, 2):
        # Sums of squares this far below the largest are rounding: the assignment of the data, and its mirror image.
        tiny = found[power] <= EQUAL**2 * np.max(found[power])
        found[power, tiny], found[1, tiny] = 0.0, 0.0
    # Of scores that do not vary within an arm nothing but rounding is left.
    level = np.sum(np.abs(totals)) / np.sum(design.n_rows)
    variance = 0.0 if variance <= (EQUAL * level) ** 2 else variance
    return float(at), Drawn(np.hstack(numerators), found[None], variance, enumerated)


def _effect(design: Allocation, totals: FloatArray, treated: BoolArray) -> tuple[FloatArray, FloatArray]:
    """The effect, shape (n,), and the shares of its error, of clusters and then of small strata, shape (n, G + S).

    Least squares with an effect of each stratum, which is averaged with weight n_s p_s (1 - p_s), p_s the share of its
    n_s rows that is treated: sum(x y)/sum(x^2), x the treatment less p_s.
    """
    n, spread = design.n_rows, design.stratum
    size = np.add.reduceat(n, design.starts)
    centred = totals - n * (np.add.reduceat(totals, design.starts) / size)[spread]
    x = treated - (np.add.reduceat(treated * n, design.starts, axis=1) / size)[:, spread]
    product = np.add.reduceat(x * centred, design.starts, axis=1)
    square = np.add.reduceat(x**2 * n, design.starts, axis=1)
    whole = square.sum(axis=1)
    effect = product.sum(axis=1) / whole
    of_stratum = np.divide(product, square, out=np.zeros_like(square), where=square > 0)
    clusters = x * (centred - n * of_stratum[:, spread] * x) * ~design.small[spread]
    strata = (product - effect[:, None] * square) * design.small
    return effect, np.hstack([clusters, strata]) / whole[:, None]


def _squares(
    design: Allocation, treated: BoolArray, shares: FloatArray, others: FloatArray | None = None
) -> FloatArray:
    """Sums of products of shares, each with its factor; shape (n,).

    In a stratum with two clusters or more in both arms the factor is G/(G - 1) of its arm (Imbens and Rubin 2015,
    section 9.5). Clusters of pairs and other small strata say nothing alone: their strata are compared with each other
    (section 10.5).
    """
    one, zero = (_factor(count)[design.stratum] for count in (design.n_treated, design.n_clusters - design.n_treated))
    product = shares * (shares if others is None else others)
    G = treated.shape[1]
    of_strata = product[:, G:].sum(axis=1) * _factor(np.array([max(2, int(design.small.sum()))]))
    return np.asarray(np.sum(np.where(treated, one, zero) * product[:, :G], axis=1) + of_strata)


def _factor(count: IntArray) -> FloatArray:
    return count / np.maximum(count - 1, 1)


def randomisation_test(
    data: Any,
    score: str = "score",
    *,
    treatment: str,
    groups: Groups,
    levels: Sequence[Any] | None = None,
    strata: str | None = None,
    statistic: StatisticName = "t",
    draws: int = 9999,
    alpha: float = 0.05,
    seed: Seed = 0,
    missing: MissingName = "drop",
) -> RandomisationTest:
    """Test of a treatment that was assigned to whole clusters at random, by the assignments there could have been.

    Prompt variants or judges' instructions that were drawn for each passage, say. It assumes that every assignment
    that treats as many clusters (in each stratum) was equally likely, and nothing of the scores. The p-value is then
    exact for the null that the treatment moves no row's score, with however few clusters.

    Parameters
    ----------
    data : data frame
        In memory: pandas, polars, pyarrow; or a dict of arrays.
    score : str, optional
        Column of scores.
    treatment : str
        Column with two labels, one for all rows of a cluster.
    groups : str, array, Series, dict or None
        What was assigned: one clustering, as in `fit`; None where rows were assigned one by one.
    levels : (label, label), optional
        The treated label and the one that it is compared with; needed where there are more than two. By default the
        second of the two, sorted as strings, is compared with the first.
    strata : str, optional
        Column of strata (pairs or blocks of clusters) within which treatment was assigned.
    statistic : {"t", "difference"}, optional
        "t", the default, is the difference over its error by clusters. "difference" alone is too sure where the
        treatment changes how far scores scatter and the arms differ in size; it works with one treated cluster.
    draws : int, optional
        All assignments are used where there are at most so many, otherwise so many are drawn.
    alpha : float, optional
        One minus the level of the interval.
    seed : int or Generator, optional
        Of the draws.
    missing : {"drop", "raise"}, optional
        What to do with rows where something is missing; dropped rows are counted in a note.

    Returns
    -------
    RandomisationTest
        `p_value`, `estimate`, `interval` and what they rest on.

    Raises
    ------
    DataError
        If the treatment, or the stratum, varies within clusters; the message says in how many.
    ArgumentError, UnknownLabelError
        If the treatment has not two labels and `levels` does not say which; if clusterings are crossed.
    TooFewClustersError
        If an arm has no cluster, or one only under "t"; if no stratum has both labels.
    ConstantScoreError
        If all scores are the same.
    MissingColumnError, NonNumericError, NonFiniteError, EmptyDataError
        If the data break another rule.
    NotAvailableError
        If the rows live in an engine.

    Notes
    -----
    p is the share of assignments whose statistic is at least as far from zero as that of the data where all are
    enumerated, and (1 + count)/(draws + 1) where they are drawn. The interval holds the effects, the same for all rows,
    that are not rejected. Under strata the difference is that within strata, by least squares. Its error is Neyman's,
    by clusters within each arm of a stratum; pairs, and other strata with one cluster in an arm, are compared with each
    other.

    For no effect on average p is not exact. Where the treatment tripled the scatter of scores, simulations with
    clusters of unequal sizes rejected 7% at 5% with 10 of 20 clusters treated, 9% with 5 of 10 and 13% with 3 of 10
    ("difference" 21%).

    References
    ----------
    Imbens and Rubin (2015), Causal Inference, chapter 5; Young (2019), Quarterly Journal of Economics 134(2), for t;
    MacKinnon and Webb (2020), Journal of Econometrics 218(2), for t and few treated clusters; Wu and Ding (2021), JASA
    116, for what t holds beyond the exact null.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=12, questions_per_passage=5, seed=3)
    >>> log["prompt"] = log["passage"].factorize()[0] % 2 == 0
    >>> test = er.randomisation_test(log, treatment="prompt", groups="passage")
    >>> round(test.estimate, 3), round(test.p_value, 3), test.draws
    (-0.3, 0.141, 924)
    """
    option("statistic", statistic, STATISTICS)
    draws, alpha = whole_number("draws", draws), fraction("alpha", alpha)
    refuse_few(draws, alpha)
    base, printed = base_seed(seed)
    rows, by = _read(data, score, treatment, groups, strata, missing)
    arms = _two_arms(rows, treatment, levels)
    rows = rows.only(arms.kept)
    design, totals = _design(rows, arms, treatment, strata, by)
    notes = [*_dropped_notes(rows, arms), *_checked(design, arms, statistic, strata, by)]
    values = rows.values["score"]
    if values.min() == values.max():
        raise ConstantScoreError(
            f"scores must differ for a test; column {score!r} is {values[0]:g} in all {values.size} rows in use.",
            column=score,
        )
    enumerated = design.n_assignments <= draws
    n = design.n_assignments if enumerated else draws
    with Progress(n) as progress:
        assignments = design.enumerated() if enumerated else design.drawn(draws, base)
        estimate, drawn = effects(design, totals, assignments, enumerated, progress)
    p, interval = _inverted(estimate, drawn, statistic, alpha)
    smallest = (1 + design.mirrored) / n if enumerated else 1 / (n + 1)
    if smallest > alpha:
        text = (
            f"there are {n} assignments, so that the smallest possible p-value is {smallest:.4g}, above alpha = "
            f"{alpha:g}: nothing can be rejected, and the interval is infinite. More clusters are needed."
        )
        notes.append((EvalregWarning, text))
    issue(notes)
    se = float(np.sqrt(drawn.variance))
    treated, n_rows = design.treated, design.n_rows
    return RandomisationTest(
        name=f"{arms.treated} - {arms.reference}",
        estimate=estimate,
        se=se,
        t=estimate / se if se > 0 else np.nan,
        p_value=p,
        interval=interval,
        alpha=alpha,
        statistic=statistic,
        n_assignments=design.n_assignments,
        draws=n,
        enumerated=enumerated,
        smallest_p=smallest,
        n_clusters={arms.treated: int(treated.sum()), arms.reference: int((~treated).sum())},
        n_rows={arms.treated: int(n_rows[treated].sum()), arms.reference: int(n_rows[~treated].sum())},
        by=by,
        strata=strata,
        n_strata=design.n_clusters.size,
        seed=None if enumerated else printed,
        notes=tuple(notes),
    )


@dataclass(frozen=True, eq=False)
class _Arms:
    """The two labels that are compared."""

    treated: str
    reference: str
    is_treated: BoolArray  # of the rows kept
    kept: BoolArray  # rows with one of the two labels
    others: tuple[str, ...]  # labels that take no part


def _read(
    data: Any, score: str, treatment: str, groups: Groups, strata: str | None, missing: MissingName
) -> tuple[ReadRows, str]:
    """Rows in use, and what was assigned."""
    opened = open_frame(data)
    if isinstance(opened, Query):
        raise NotAvailableError("a randomisation test needs rows in memory; collect the frame first.")
    table = with_roles(opened, {"score": score}, treatment=treatment, strata=strata)[0]
    labels = {treatment: "treatment"} | ({} if strata is None else {strata: "strata"})
    # Answers that a file holds once for each filter would count as several rows.
    rows = read_rows(table, {"score": score}, labels=labels, groups=groups, missing=missing, split=tuple(labels))
    axes = rows.axes or ()
    if len(axes) > 1:
        raise ArgumentError(
            f"treatment is assigned to one kind of cluster; `groups` crosses {listed(map(axis_name, axes), ' and ')}. "
            "Name what was assigned; the test assumes nothing about how rows depend."
        )
    return rows, axis_name(axes[0]) if axes else "row"


def _two_arms(rows: ReadRows, treatment: str, levels: Sequence[Any] | None) -> _Arms:
    """The labels that are compared, and their rows."""
    codes = rows.used[treatment]
    names = [
        str(codes.labels[code]) if codes.labels is not None else codes.label(code) for code in range(codes.n_clusters)
    ]
    if levels is None:
        if len(names) != 2:
            raise ArgumentError(
                f"`treatment` must have two labels; column {treatment!r} has {len(names)}: {listed(sorted(names))}. "
                "Pass levels=(treated, reference) with two of several."
            )
        reference, treated = sorted(names)
    else:
        if isinstance(levels, str) or len(levels) != 2 or str(levels[0]) == str(levels[1]):
            raise ArgumentError(f"`levels` must be two labels, (treated, reference); got {levels!r}.")
        treated, reference = (str(level) for level in levels)
        for level in (treated, reference):
            if level not in names:
                hint = nearest(level, names) or f" The labels are {listed(sorted(names))}."
                raise UnknownLabelError(f"`levels` names {level!r}, which {treatment!r} does not hold.{hint}")
    is_treated = codes.codes == names.index(treated)
    kept = is_treated | (codes.codes == names.index(reference))
    others = tuple(sorted(set(names) - {treated, reference}))
    return _Arms(treated, reference, is_treated[kept], kept, others)


def _design(rows: ReadRows, arms: _Arms, treatment: str, strata: str | None, by: str) -> tuple[Allocation, FloatArray]:
    """Clusters sorted by stratum, and their totals of the score."""
    n = rows.n_rows
    units = rows.labels().codes(rows.axes[0]) if rows.axes else Codes(np.arange(n), n)
    treated = _of_clusters(units, arms.is_treated.astype(np.intp), treatment, by)
    stratum = np.zeros(units.n_clusters, dtype=np.intp)
    if strata is not None:
        stratum = _of_clusters(units, rows.used[strata].codes, strata, by, is_stratum=True)
    order = np.argsort(stratum, kind="stable")
    totals: FloatArray = np.bincount(units.codes, weights=rows.values["score"])[order].astype(np.float64)
    return Allocation(treated[order] == 1, stratum[order], units.counts[order].astype(np.float64)), totals


def _of_clusters(units: Codes, codes: IntArray, column: str, by: str, *, is_stratum: bool = False) -> IntArray:
    """The label of each cluster, which must be the same in all its rows."""
    own = codes[units.first]
    differs = np.bincount(units.codes, weights=codes != own[units.codes]) > 0
    if differs.any():
        some = [units.label(int(g)) for g in np.flatnonzero(differs)[:3]]
        more = ", ..." if differs.sum() > len(some) else ""
        what = f"{int(differs.sum())} of {units.n_clusters} {by} clusters ({listed(some)}{more})"
        if is_stratum:
            raise DataError(
                f"a cluster lies in one stratum; {column!r} varies within {what}. Where ids are used again in another "
                f'stratum, groups="{column}:{by}" tells the clusters apart.',
                column=column,
                count=int(differs.sum()),
            )
        raise DataError(
            f"a treatment that was assigned to clusters is one label in each; {column!r} varies within {what}. Name in "
            f"`groups` what was assigned. Where rows were assigned one by one within clusters, groups=None with "
            f'strata="{by}" is that design; where every question was asked under both, `er.compare` pairs them.',
            column=column,
            count=int(differs.sum()),
        )
    return own


def _checked(design: Allocation, arms: _Arms, statistic: StatisticName, strata: str | None, by: str) -> list[Note]:
    """What to say about the design; raises where there is nothing to test."""
    counts = {arms.treated: int(design.treated.sum()), arms.reference: int((~design.treated).sum())}
    what = "rows" if by == "row" else f"{by} clusters"
    least = 2 if statistic == "t" else 1
    for name, count in counts.items():
        if count < least:
            advice = ' Pass statistic="difference", which needs one.' if count else ""
            raise TooFewClustersError(
                f'each arm needs at least {least} of what was assigned; "{name}" has {count} of the '
                f"{design.treated.size} {what}.{advice}",
                column=by,
                count=count,
            )
    one_sided = (design.n_treated == 0) | (design.n_treated == design.n_clusters)
    if one_sided.all():
        raise TooFewClustersError(
            f"treatment must vary within some stratum; each of the {one_sided.size} values of {strata!r} has one label "
            "only, so that there is one possible assignment. Leave out `strata`, if it was not assigned within them.",
            column=strata,
            count=0,
        )
    notes: list[Note] = []
    if one_sided.any():
        n = int(np.sum(design.n_rows[one_sided[design.stratum]]))
        text = (
            f"{int(one_sided.sum())} of {one_sided.size} values of {strata} have one label of the treatment only: "
            f"their {n} rows say nothing about the effect, and are not used."
        )
        notes.append((EvalregWarning, text))
    if statistic == "difference" and counts[arms.treated] != counts[arms.reference]:
        text = (
            f'statistic="difference" with {counts[arms.treated]} and {counts[arms.reference]} {what}: the p-value is '
            "for no effect on any row. Where the treatment changes the scatter of scores and not their mean, it "
            "rejects too often."
        )
        notes.append((EvalregWarning, text))
    return notes


def _dropped_notes(rows: ReadRows, arms: _Arms) -> list[Note]:
    """Rows that take no part."""
    notes = list[Note]()
    gone = {reason: n for reason, n in rows.dropped.items() if n}
    if gone:
        each = ", ".join(f"{n} without {'an id' if reason == 'group' else 'a ' + reason}" for reason, n in gone.items())
        text = (
            f"{sum(gone.values())} rows are left out ({each}). The test assumes that they would be missing under "
            "every assignment."
        )
        notes.append((EvalregWarning, text))
    if arms.others:
        n = int(np.count_nonzero(~arms.kept))
        text = f"{n} rows under {listed(arms.others)} take no part: their clusters keep their assignment."
        notes.append((EvalregWarning, text))
    return notes


def _inverted(
    estimate: float, drawn: Drawn, statistic: StatisticName, alpha: float
) -> tuple[float, tuple[float, float]]:
    """The p-value of no effect, and the effects that are not rejected: the estimate less the gaps."""
    numerator, varies = drawn.numerator, drawn.variance > 0
    # What the search for the ends of the interval starts from; the spread of the effect over assignments is never zero.
    scale = float(np.std(numerator[0])) or float(np.std(numerator.sum(axis=0)))
    if statistic == "difference":
        ones = np.zeros_like(drawn.squares)
        ones[:, 0] = 1.0
        drawn = Drawn(numerator, ones, 1.0, drawn.enumerated)
    if not (varies and scale > 0):
        return drawn.p(estimate), (np.nan, np.nan)
    low, high = drawn.gaps(scale, alpha, [estimate])
    return drawn.p(estimate), (estimate - high, estimate - low)
