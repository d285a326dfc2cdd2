"""Randomisation inference: a treatment that was assigned to whole clusters at random."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, prod
from typing import Any

import numpy as np

from evalreg.checks import (
    BoolArray,
    FloatArray,
    IntArray,
    counted,
    fraction,
    issue,
    keeps,
    listed,
    nearest_or_all,
    passed,
    quotient,
    whole_number,
)
from evalreg.choices import MissingName
from evalreg.data.clusters import Codes, Groups, axis_name, with_roles
from evalreg.data.frame import rows_in_memory
from evalreg.data.rows import ReadRows, read_rows
from evalreg.errors import (
    ArgumentError,
    ConstantScoreError,
    DataError,
    EvalregWarning,
    Note,
    TooFewClustersError,
    UnknownLabelError,
)
from evalreg.inference.simultaneous import Seed, base_seed
from evalreg.numerics.fitting import Progress
from evalreg.numerics.limits import EQUAL
from evalreg.report.tables import Grid, Shown, Summary, fixed, number, p_value
from evalreg.resampling.bootstrap import refuse_few
from evalreg.resampling.draws import Drawn, blocks, seed_text


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
        rows, what = self.by == "row", _units(self.by)
        of_rows = {name: "" if rows else f" ({counted(n, 'row')})" for name, n in self.n_rows.items()}
        counts = (f"{name}: {n}{of_rows[name]}" for name, n in self.n_clusters.items())
        within = "" if self.strata is None else f", within {self.n_strata} values of {self.strata}"
        how = f"all {self.n_assignments:,}, each once"
        if not self.enumerated:
            of = f"{self.n_assignments:,}" if self.n_assignments < 10**12 else "more than 10^12"
            how = f"{self.draws:,} drawn of {of}, {seed_text(self.seed)}"
        facts = (
            ("Null", "no effect on any row"),
            ("Assigned", what + within),
            (f"{what[:1].upper()}{what[1:]}", ", ".join(counts)),
            ("Assignments", how),
            ("Statistic", "difference over its clustered error"),
            ("Smallest possible p", p_value(self.smallest_p)),
        )
        ends = f"[{self.alpha / 2:.3g}", f"{1 - self.alpha / 2:.3g}]"
        row = (number(self.estimate), number(self.se), fixed(self.t, 3), p_value(self.p_value))
        grid = Grid(
            ("effect", "estimate", "clustered SE", "t", "p", *ends), ((self.name, *row, *map(number, self.interval)),)
        )
        return Summary("Randomisation test", facts, (grid,), tuple(text for _, text in self.notes))


@dataclass(frozen=True, eq=False)
class Allocation:
    """Who was treated, clusters sorted by stratum; what is random is which clusters of a stratum are."""

    treated: BoolArray  # (n_clusters,)
    stratum: IntArray  # (n_clusters,): from 0, in order
    n_rows: FloatArray  # (n_clusters,): rows of each cluster
    totals: FloatArray  # (n_clusters,): of the score

    def counts(self) -> tuple[IntArray, IntArray]:
        """Clusters of each stratum, and how many of them are treated."""
        return np.bincount(self.stratum), np.bincount(self.stratum, weights=self.treated).astype(np.intp)

    @property
    def n_assignments(self) -> int:
        """How many assignments treat as many clusters in each stratum."""
        return prod(comb(int(n), int(k)) for n, k in zip(*self.counts(), strict=True))

    def assignments(self, draws: int, base: int | None) -> Iterator[BoolArray]:
        """Random assignments, some at a time; without a base all there are, each once. Shapes: yields (n, G)."""
        sizes, treated = self.counts()
        tables = [] if base is not None else [_choices(int(n), int(k)) for n, k in zip(sizes, treated, strict=True)]
        place = np.concatenate([np.arange(size) for size in sizes])
        for first, n, rng in blocks(draws, base or 0):
            if tables:
                digits = np.unravel_index(np.arange(first, first + n), [len(table) for table in tables])
                yield np.hstack([table[digit] for table, digit in zip(tables, digits, strict=True)])
                continue
            # Sorted by stratum and a random number within it: its first places are treated.
            order = np.argsort(self.stratum + rng.random((n, place.size)), axis=1)
            chosen = np.zeros(order.shape, dtype=bool)
            np.put_along_axis(chosen, order[:, place < treated[self.stratum]], True, axis=1)
            yield chosen


def _choices(n: int, k: int) -> BoolArray:
    """All ways to treat k of n clusters, one a row."""
    places = np.array(list(combinations(range(n), k)), dtype=np.intp).reshape(comb(n, k), k)
    return np.asarray(np.eye(n, dtype=bool)[places].any(axis=1))


def effects(design: Allocation, n_draws: int, base: int | None) -> tuple[float, Drawn]:
    """The difference of treated and untreated rows within strata, with its variance by clusters, and under assignments.

    Under an effect of the same size in all rows, what a cluster's total would have been without the treatment is known;
    under each assignment the effect, and each share of its error, is linear in that size. `base`: of the draws; None
    where all assignments are used, each once.
    """
    data, moved = design.treated[None, :], design.n_rows * design.treated
    estimate = _statistics(design, design.totals[None, :], data)[0][0, 0]
    totals = np.array([design.totals - estimate * moved, moved])
    variance = float(_statistics(design, totals, data)[1][0, 0])
    parts = list[tuple[FloatArray, FloatArray]]()
    with Progress(n_draws) as progress:
        for D in design.assignments(n_draws, base):
            parts.append(_statistics(design, totals, D))
            progress.advance(len(D))
    numerator, powers = map(np.hstack, zip(*parts, strict=True))
    for power in (0, 2):
        # Sums of squares this far below the largest are rounding: the assignment of the data, and its mirror image.
        tiny = powers[power] <= EQUAL**2 * np.max(powers[power])
        powers[power, tiny], powers[1, tiny] = 0.0, 0.0
    # Of scores that do not vary within an arm nothing but rounding is left.
    level = np.sum(np.abs(design.totals)) / np.sum(design.n_rows)
    variance = 0.0 if variance <= (EQUAL * level) ** 2 else variance
    return float(estimate), Drawn(numerator, powers[None], variance, base is None)


def _statistics(design: Allocation, totals: FloatArray, treated: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Effects, shape (m, n), and sums of squares and products of the first and last of their errors, (3, n).

    Least squares with an effect of each stratum, which is averaged with weight n_s p_s (1 - p_s), p_s the share of its
    n_s rows that is treated: sum(x y)/sum(x^2), x the treatment less p_s. In a stratum with two clusters or more in
    both arms the square of a cluster's share of the error counts G/(G - 1) times, G those of its arm (Imbens and Rubin
    2015, section 9.5). Clusters of pairs and other small strata say nothing alone: their strata are compared with each
    other (section 10.5). Shapes: totals (m, G), treated (n, G).
    """
    n, within, starts = design.n_rows, design.stratum, np.flatnonzero(np.diff(design.stratum, prepend=-1))

    def summed(of_clusters: FloatArray) -> FloatArray:
        return np.add.reduceat(of_clusters, starts, axis=-1)

    size = summed(n)
    centred = (totals - n * (summed(totals) / size)[:, within])[:, None, :]
    x = treated - (summed(treated * n) / size)[:, within]
    product, square = summed(x * centred), summed(x**2 * n)
    whole = square.sum(axis=1)
    effect = product.sum(axis=2) / whole
    of_stratum = quotient(product, square, 0.0)
    (sizes, count), small = design.counts(), _small(design)
    clusters = x * (centred - n * of_stratum[:, :, within] * x) * ~small[within]
    strata = (product - effect[:, :, None] * square) * small
    shares = np.concatenate([clusters, strata], axis=2) / whole[:, None]
    of_clusters = np.where(treated, _factor(count)[within], _factor(sizes - count)[within])
    of_strata = np.full((len(treated), sizes.size), _factor(np.array(max(2, np.count_nonzero(small)))))
    factors = np.hstack([of_clusters, of_strata])
    pairs = ((0, 0), (0, -1), (-1, -1))
    return effect, np.array([np.sum(shares[a] * shares[b] * factors, axis=1) for a, b in pairs])


def _small(design: Allocation) -> BoolArray:
    """Strata with both arms and one cluster in some arm."""
    sizes, treated = design.counts()
    return np.asarray(np.minimum(treated, sizes - treated) == 1)


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
    score : str, default "score"
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
    draws : int, default 9999
        All assignments are used where there are at most so many, otherwise so many are drawn.
    alpha : float, default 0.05
        One minus the level of the interval.
    seed : int or Generator, default 0
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
        If an arm has fewer than two clusters; if no stratum has both labels.
    ConstantScoreError
        If all scores are the same.
    MissingColumnError, NonNumericError, NonFiniteError, EmptyDataError
        If the data break another rule.
    NotAvailableError
        If the rows live in an engine.

    Notes
    -----
    The statistic is the difference over its error by clusters. p is the share of assignments whose statistic is at
    least as far from zero as that of the data where all are enumerated, and (1 + count)/(draws + 1) where they are
    drawn. The interval contains the effects, the same for all rows, that are not rejected. Under strata the difference
    is that within strata, by least squares. Its error is Neyman's, by clusters within each arm of a stratum; pairs, and
    other strata with one cluster in an arm, are compared with each other.

    For no effect on average p is not exact. Where the treatment tripled the scatter of scores, simulations with
    clusters of unequal sizes rejected 7% at 5% with 10 of 20 clusters treated, 9% with 5 of 10 and 13% with 3 of 10.

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
    draws, alpha = whole_number("draws", draws), fraction("alpha", alpha)
    refuse_few(draws, alpha)
    base, printed = base_seed(seed)
    rows, by = _read(data, score, treatment, groups, strata, missing)
    names, arm, texts = _two_arms(rows, treatment, levels)
    rows, is_treated = rows.only(arm >= 0), arm[arm >= 0]
    design = _design(rows, is_treated, treatment, strata, by)
    design, one_sided = _with_both_labels(design, strata)
    arms = {name: design.treated == side for name, side in zip(names, (True, False), strict=True)}
    n_rows = {name: int(design.n_rows @ arm) for name, arm in arms.items()}
    n_clusters = {name: int(np.count_nonzero(arm)) for name, arm in arms.items()}
    texts += one_sided
    _refuse_few_arms(design, n_clusters, by)
    values = rows.values["score"]
    if values.min() == values.max():
        raise ConstantScoreError(
            f"scores must differ for a test; column {score!r} is {values[0]:g} in all {values.size} rows in use.",
            column=score,
        )
    n_assignments = design.n_assignments
    enumerated = n_assignments <= draws
    n = n_assignments if enumerated else draws
    estimate, drawn = effects(design, n, None if enumerated else base)
    p, interval = _inverted(estimate, drawn, alpha)
    sizes, treated = design.counts()
    # Where treated and untreated may change places, |t| comes in pairs.
    mirrored = bool(np.all(2 * treated == sizes))
    smallest = (1 + mirrored) / n if enumerated else 1 / (n + 1)
    if smallest > alpha:
        texts.append(
            f"there are {n} assignments, so that the smallest possible p-value is {smallest:.4g}, above alpha = "
            f"{alpha:g}: nothing can be rejected, and the interval is infinite. More clusters are needed."
        )
    notes = tuple((EvalregWarning, text) for text in texts)
    issue(notes)
    se = float(np.sqrt(drawn.variance))
    return RandomisationTest(
        name=" - ".join(names),
        estimate=estimate,
        se=se,
        t=estimate / se if se > 0 else np.nan,
        p_value=p,
        interval=interval,
        alpha=alpha,
        n_assignments=n_assignments,
        draws=n,
        enumerated=enumerated,
        smallest_p=smallest,
        n_clusters=n_clusters,
        n_rows=n_rows,
        by=by,
        strata=strata,
        n_strata=sizes.size,
        seed=None if enumerated else printed,
        notes=notes,
    )


def _units(by: str) -> str:
    """What was assigned, in words."""
    return "rows" if by == "row" else f"{by} clusters"


def _read(
    data: Any, score: str, treatment: str, groups: Groups, strata: str | None, missing: MissingName
) -> tuple[ReadRows, str]:
    """Rows in use, and what was assigned."""
    opened = rows_in_memory(data, "a randomisation test")
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


def _two_arms(
    rows: ReadRows, treatment: str, levels: Sequence[Any] | None
) -> tuple[tuple[str, str], IntArray, list[str]]:
    """The treated label and the other; the arm of each row, 1, 0, or -1 for neither; and which rows take no part."""
    codes = rows.used[treatment]
    names = [codes.label(code) for code in range(codes.n_clusters)]
    if levels is not None and (np.ndim(levels) != 1 or len(levels) != 2 or str(levels[0]) == str(levels[1])):
        raise ArgumentError(f"`levels` must be two labels, (treated, reference); got {levels!r}.")
    if levels is None and len(names) != 2:
        raise ArgumentError(
            f"`treatment` must have two labels; column {treatment!r} has {len(names)}: {listed(sorted(names))}. "
            f"Pass two of them, as {passed(levels=sorted(names)[:2])} does, the treated first."
        )
    treated, reference = sorted(names, reverse=True) if levels is None else map(str, levels)
    for level in (treated, reference):
        if level not in names:
            hint = nearest_or_all(level, sorted(names), "label")
            raise UnknownLabelError(f"`levels` names {level!r}, which {treatment!r} does not hold.{hint}")
    arm_of_label = np.full(len(names), -1)
    arm_of_label[[names.index(reference), names.index(treated)]] = 0, 1
    arm, texts = arm_of_label[codes.codes], list[str]()
    dropped = {reason: n for reason, n in rows.dropped.items() if n}
    if dropped:
        lacks = {"score": "a score", "covariate": "a treatment or stratum", "group": "an id"}
        each = ", ".join(f"{n} without {lacks[reason]}" for reason, n in dropped.items())
        texts.append(f"rows left out: {each}. The test assumes that they would be missing under every assignment.")
    if len(names) > 2:
        others = listed(sorted(set(names) - {treated, reference}))
        idle = counted(int(np.count_nonzero(arm < 0)), "row")
        texts.append(f"{idle} under {others} left aside: their clusters keep their assignment.")
    return (treated, reference), arm, texts


def _design(rows: ReadRows, is_treated: IntArray, treatment: str, strata: str | None, by: str) -> Allocation:
    """Clusters sorted by stratum."""
    n = rows.n_rows
    units = rows.labels().codes(rows.axes[0]) if rows.axes else Codes(np.arange(n), n)
    advice = (
        "Name in `groups` what was assigned. Where rows were assigned one by one within clusters, "
        f"{passed(groups=None)} with {passed(strata=by)} is that design; where every question was asked under both, "
        "`er.compare` pairs them."
    )
    rule = "a treatment that was assigned to clusters is one label in each"
    treated = _of_clusters(units, is_treated, treatment, by, rule, advice)
    stratum = np.zeros(units.n_clusters, dtype=np.intp)
    if strata is not None:
        advice = f'Where ids are used again in another stratum, groups="{strata}:{by}" tells the clusters apart.'
        stratum = _of_clusters(units, rows.used[strata].codes, strata, by, "a cluster lies in one stratum", advice)
    order = np.argsort(stratum, kind="stable")
    totals: FloatArray = np.bincount(units.codes, weights=rows.values["score"])[order].astype(np.float64)
    return Allocation(treated[order] == 1, stratum[order], units.counts[order].astype(np.float64), totals)


def _of_clusters(units: Codes, codes: IntArray, column: str, by: str, rule: str, advice: str) -> IntArray:
    """The label of each cluster, which must be the same in all its rows."""
    of_cluster = codes[units.first]
    differs = np.flatnonzero(np.bincount(units.codes, weights=codes != of_cluster[units.codes]))
    if differs.size:
        some = listed([units.label(int(g)) for g in differs[:3]]) + (", ..." if differs.size > 3 else "")
        raise DataError(
            f"{rule}; {column!r} varies within {differs.size} of {units.n_clusters} {by} clusters ({some}). {advice}",
            column=column,
            count=differs.size,
        )
    return of_cluster


def _with_both_labels(design: Allocation, strata: str | None) -> tuple[Allocation, list[str]]:
    """The clusters of strata that hold both labels, with a note on the others; raises where there are none."""
    sizes, treated = design.counts()
    one_sided = (treated == 0) | (treated == sizes)
    if one_sided.all():
        raise TooFewClustersError(
            f"treatment must vary within some stratum; each of the {one_sided.size} values of {strata!r} has one label "
            "only, so that there is one possible assignment. Leave out `strata`, if it was not assigned within them.",
            column=strata,
            count=0,
        )
    if not one_sided.any():
        return design, []
    text = (
        f"{int(one_sided.sum())} of {one_sided.size} values of {strata} have one label of the treatment only: "
        f"their {design.n_rows @ one_sided[design.stratum]:.0f} rows say nothing about the effect, and are not "
        "used."
    )
    chosen = ~one_sided[design.stratum]
    stratum = (np.cumsum(~one_sided) - 1)[design.stratum[chosen]]
    return Allocation(design.treated[chosen], stratum, design.n_rows[chosen], design.totals[chosen]), [text]


def _refuse_few_arms(design: Allocation, n_clusters: dict[str, int], by: str) -> None:
    """Raise where an arm has one cluster: nobody knows how far such clusters scatter."""
    for name, count in n_clusters.items():
        if count < 2:
            raise TooFewClustersError(
                f'each arm needs at least 2 of what was assigned; "{name}" has {count} of the '
                f"{design.treated.size} {_units(by)}. Assign the treatment to more of them.",
                column=by,
                count=count,
            )


def _inverted(estimate: float, drawn: Drawn, alpha: float) -> tuple[float, tuple[float, float]]:
    """The p-value of no effect, and the effects that are not rejected: the estimate less the gaps."""
    # What the search for the ends of the interval starts from; the spread of the effect over assignments is never zero.
    scale = float(np.std(drawn.numerator[0])) or float(np.std(drawn.numerator.sum(axis=0)))
    if not (drawn.variance != 0 and scale > 0):
        return drawn.p(estimate), (np.nan, np.nan)
    low, high = drawn.gaps(scale, alpha, [estimate])
    return drawn.p(estimate), (estimate - high, estimate - low)
