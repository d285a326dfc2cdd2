"""Variance by facet: components of crossed and nested designs, their errors, and what other designs would have."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, compress, permutations
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, checked_count, fraction, keeps, listed, nearest
from evalreg.choices import MissingName
from evalreg.covariance.options import MOST_AXES
from evalreg.covariance.special import FEW_CLUSTERS
from evalreg.data.clusters import Codes, joint
from evalreg.data.frame import rows_in_memory
from evalreg.data.rows import read_rows
from evalreg.errors import ArgumentError, ArgumentTypeError, DataError, MissingColumnError
from evalreg.numerics.limits import CONSTANT, EQUAL, HELD, ROOT_OF_ROUNDING, ROUNDING
from evalreg.numerics.matrices import Matrix, scale_columns
from evalreg.numerics.moments import moment_equations
from evalreg.report.tables import Grid, Shown, Summary, interval_text, number

CROSS = " x "


@dataclass(frozen=True)
class Facet:
    """A source of error, such as the judges; `within` are the facets that it is nested in."""

    name: str
    within: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Name in a design: "judge:item" is judges of their own for each item."""
        return ":".join((self.name, *self.within))

    @property
    def columns(self) -> frozenset[str]:
        """Columns whose joint values are its levels."""
        return frozenset((self.name, *self.within))


@dataclass(frozen=True, eq=False)
class FacetEffect:
    """A random effect: a facet, or an interaction of several."""

    name: str
    columns: frozenset[str]
    codes: Codes


def parse_facets(facets: object, columns: Sequence[str]) -> tuple[Facet, ...]:
    """The facets of a text such as "item x judge:item x template"; those that others are nested in are first."""
    if not isinstance(facets, str):
        raise ArgumentTypeError(
            f'`facets` must be a text such as "item x judge"; got {type(facets).__name__}. Columns are joined by " x " '
            'where they are crossed, and by a colon where the first is nested in the second, as in "item x judge:item".'
        )
    parts = [[name.strip() for name in part.split(":")] for part in re.split(r"\s+[x×]\s+|\s*[*+]\s*", facets.strip())]
    for name in (name for part in parts for name in part):
        if name not in columns:
            raise MissingColumnError(
                f'`facets` must name columns, crossed by " x " (blanks around it) or nested by ":"; {name!r} in '
                f'"{facets}" is none of {listed(columns)}.{nearest(name, columns)}',
                column=name,
            )
    names, within = [part[0] for part in parts], {part[0]: part[1:] for part in parts}
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ArgumentError(f'`facets` must name each facet once; {listed(twice)} occurs more than once in "{facets}".')
    if len(names) > MOST_AXES:
        raise ArgumentError(f"`facets` must be at most {MOST_AXES}; got {len(names)}. Leave out what varies least.")
    for part in parts:
        if len(set(part)) < len(part):
            raise ArgumentError(f'`facets` must not nest a column in itself; got "{":".join(part)}" in "{facets}".')
        outside = [name for name in part if name not in names]
        if outside:
            raise ArgumentError(
                f'`facets` must hold what another is nested in; {listed(outside)} of "{":".join(part)}" is missing. '
                f'Write "{CROSS.join((*outside, facets))}".'
            )
    closed = [Facet(name, tuple(_outer_facets(name, within, (name,)))) for name in names]
    return tuple(sorted(closed, key=lambda facet: len(facet.within)))


def _outer_facets(name: str, within: dict[str, list[str]], seen: tuple[str, ...]) -> dict[str, None]:
    """All facets that one is nested in, through others too."""
    every: dict[str, None] = {}
    for outer in within[name]:
        if outer in seen:
            raise ArgumentError(f"`facets` must not be nested in each other; {listed((*seen, outer))} are.")
        every |= {outer: None} | _outer_facets(outer, within, (*seen, outer))
    return every


def refuse_misspelt(facets: Sequence[Facet], codes: dict[str, Codes]) -> None:
    """Refuse facets with one level, and facets that are nested though written as crossed."""
    for facet in facets:
        if codes[facet.name].n_clusters < 2:
            raise DataError(
                f"a facet needs at least 2 levels; column {facet.name!r} has 1 ({codes[facet.name].label(0)!r}). "
                "Leave it out of `facets`: the components then hold for this level alone.",
                column=facet.name,
                count=1,
            )

    def level_count(columns: frozenset[str]) -> int:
        return joint([codes[name] for name in sorted(columns)]).n_clusters

    for inner, outer in permutations(facets, 2):
        levels = level_count(inner.columns)
        nested = outer.name in inner.within or inner.name in outer.within
        if nested or level_count(inner.columns | outer.columns) > levels:
            continue
        if level_count(outer.columns) == levels:
            text = (
                f"facets must vary by themselves; {inner.text!r} and {outer.text!r} have the same {levels} levels in "
                "all rows, so that nothing tells them apart. Name one of them."
            )
        else:
            texts = [f"{facet.text}:{outer.name}" if facet is inner else facet.text for facet in facets]
            text = (
                f"facets that are written as crossed must meet in several ways; each of the {levels} levels of "
                f"{inner.text!r} occurs with one {outer.name!r} only, so that it is nested. Write "
                f'facets="{CROSS.join(texts)}".'
            )
        raise DataError(text, column=inner.name, count=levels)


def effects_of(facets: Sequence[Facet], codes: dict[str, Codes]) -> list[FacetEffect]:
    """The random effects of a design: every set of facets that are not nested in each other, small ones first."""
    effects = []
    for size in range(1, len(facets) + 1):
        for chosen in combinations(facets, size):
            names = {facet.name for facet in chosen}
            if not any(names & set(facet.within) for facet in chosen):
                columns = frozenset().union(*(facet.columns for facet in chosen))
                levels = joint([codes[facet.name] for facet in facets if facet.name in columns])
                effects.append(FacetEffect(CROSS.join(facet.text for facet in chosen), columns, levels))
    return sorted(effects, key=lambda effect: len(effect.columns))


def between(effects: Sequence[FacetEffect]) -> FloatArray:
    """Combinations of quadratic forms that are the sums of squares of an analysis of variance, the last of rows.

    The form of an effect is its sum of squares and those of all effects inside it, that of rows the sum of all; W, of
    shape (n_effects + 1, n_effects + 1), takes them apart.
    """
    forms = [[float(inner.columns <= effect.columns) for inner in effects] + [0.0] for effect in effects]
    return np.asarray(np.rint(np.linalg.inv([*forms, [1.0] * (len(effects) + 1)])))


def balanced(effects: Sequence[FacetEffect], n: int) -> bool:
    """Whether all combinations of crossed facets occur, each equally often, so that sums of squares are orthogonal."""
    levels = {effect.columns: effect.codes.n_clusters for effect in effects} | {frozenset(): 1}
    if any(np.ptp(effect.codes.counts) > 0 for effect in effects):
        return False
    for left, right in combinations(effects, 2):
        both, common = left.columns | right.columns, left.columns & right.columns
        met = levels.get(both, n)
        if common not in levels or met * levels[common] != levels[left.columns] * levels[right.columns]:
            return False
    return True


ERROR = "error"


@keeps("table", "dropped")
@dataclass(frozen=True, eq=False, repr=False)
class FacetComponents(Shown):
    """Variance components of a log by its facets; immutable.

    Made by `evalreg.components`.

    Parameters
    ----------
    table : DataFrame
        One row a component, the error last, which is the interaction of all facets too where its name says so. Columns
        variance (squared units of the score, unbiased, negative as it may come), se, lower, upper, share (of the sum of
        all), sd (root of the variance; NaN where negative), levels (that occur) and dof (of its sum of squares).
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
    >>> parts = er.components(pd.DataFrame({"item": item, "judge": judge, "score": score}), facets="item x judge")
    >>> [round(parts.standard_error(item=n, judge=5), 3) for n in (40, 400)]
    [0.053, 0.03]
    """

    table: pd.DataFrame
    facets: tuple[str, ...]
    columns: tuple[frozenset[str], ...]
    score: str
    mean: float
    n_rows: int
    alpha: float
    dropped: dict[str, int]
    remarks: tuple[str, ...] = ()

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
            If a facet has no number, or the interaction of all facets cannot be separated from the error and `repeats`
            is not 1.

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
        return math.sqrt(sum(max(v, 0.0) / n for v, n in zip(self.table["variance"], each, strict=True)))

    @property
    def _confounded(self) -> bool:
        return str(self.table.index[-1]) != ERROR

    def summary(self) -> Summary:
        """The table, and what a careful reader asks.

        Returns
        -------
        Summary
            Prints as text of 80 columns; also `as_text(width)`, `as_markdown()`, `as_latex()`, `as_html()`.
        """
        return _summary(self)


def _summary(result: FacetComponents) -> Summary:
    dropped = sum(result.dropped.values())
    facts = (
        ("Score", result.score),
        ("Rows", f"{result.n_rows}"),
        ("Facets", " x ".join(result.facets)),
        ("Mean", number(result.mean)),
        ("Method", "analysis of variance (Henderson 1)"),
        ("Rows dropped", f"{dropped}" if dropped else "none"),
    )
    table = result.table
    columns = {
        "component": map(str, table.index),
        "variance": map(number, table["variance"]),
        "SE": map(number, table["se"]),
        f"{100 * (1 - result.alpha):g}% interval": map(interval_text, table["lower"], table["upper"]),
        "share": map("{:.0%}".format, table["share"]),
        "levels": map(str, table["levels"]),
    }
    return Summary("evalreg components", facts, (Grid.of(columns),), tuple(_sentences(result)))


def _sentences(result: FacetComponents) -> list[str]:
    table = result.table
    said = ["variance: what one level of the component adds to the variance of one score. share: of their sum."]
    if result._confounded:
        said.append(
            f"Each combination has one score, so that {table.index[-1].removesuffix(f' + {ERROR}')} cannot be told "
            "from the error of single scores: the last row is both. Repeated scores would tell."
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
    few = [str(name) for name in effects.index[(effects["levels"] < FEW_CLUSTERS)]]
    if few:
        said.append(
            f"Few levels of {listed(few)}: its variance is known up to a factor of several, as the interval shows."
        )
    said.append(
        "Intervals assume normal effects. A facet with a few levels far from the rest varies more than they say."
    )
    return [*said, *result.remarks]


# Draws behind the intervals.
DRAWS = 20_000


def components(
    data: Any,
    score: str = "score",
    *,
    facets: str,
    alpha: float = 0.05,
    missing: MissingName = "drop",
    seed: int | np.random.Generator = 0,
) -> FacetComponents:
    """Variance components of a log by its facets: how much items, judges, templates and their interactions vary.

    A score is a mean, plus a random effect of every facet and of every interaction of facets, plus an error. Each
    component is the variance of one such effect, in squared units of the score.

    Parameters
    ----------
    data : data frame or Log
        In memory: pandas, polars, pyarrow; or a dict of arrays. One row a score.
    score : str, default "score"
        Column of scores; booleans count as 0 and 1.
    facets : str
        Columns joined by " x " where they are crossed, as in "item x judge x template"; "judge:item" where each item
        has judges of its own. At most six.
    alpha : float, optional
        Level of the intervals, 0.05 by default.
    missing : {"drop", "raise"}, optional
        What to do with rows whose score or label is missing; dropped rows are counted.
    seed : int or Generator, default 0
        Of the 20,000 draws behind the intervals.

    Returns
    -------
    FacetComponents
        With `table`, `summary()`, and `standard_error(...)` of other designs.

    Raises
    ------
    MissingColumnError
        If a column is not there.
    DataError
        If scores do not vary, a facet has one level or is nested though written as crossed, or the combinations that
        occur are too few.
    ArgumentError, ArgumentTypeError
        If an argument breaks its rule.
    NotAvailableError
        If the rows live in an engine.

    Notes
    -----
    Estimates are those of Henderson's method 1, in which each level of a facet counts by its mean; on balanced designs
    they are REML's where none is negative. They are unbiased on every design, so that small ones may be negative. They
    are not cut; a note names them.

    Where each combination occurs once, the interaction of all facets cannot be separated from the error: the last row
    is both, and its name says so.

    On a balanced design intervals are generalised pivots: each sum of squares SS of d degrees of freedom is replaced by
    SS d/chi2, and the components are solved again. On an unbalanced one the sums of squares are neither independent nor
    chi2: their errors are exact, d is that of a chi2 with the same mean and variance, and the intervals are as much
    wider as the errors are. Ends below 0 are cut there, unless the whole interval lies below 0, which says that the
    model does not fit.

    All this takes effects to be normal. Simulated, items x judges, 50 x 3 to 200 x 10 (200 logs each, so that a figure
    is uncertain by .03): 95% intervals covered the truth in .91 to .99 of logs on balanced designs, in .93 to .99 with
    40% or 80% of the combinations missing, and in .90 to 1.00 for 0/1 scores whose items are mostly easy or hard.
    Effects with heavy tails break them: .74 to .93 of logs for t with 5 degrees of freedom, .30 to .91 with 3.

    References
    ----------
    Henderson (1953), Biometrics 9, 226-252; Searle, Casella and McCulloch (1992), Variance Components, chapters 4
    and 5; Weerahandi (1993), Journal of the American Statistical Association 88, 899-905, for the pivots; Brennan
    (2001), Generalizability Theory, chapters 3 to 5.

    Examples
    --------
    >>> import evalreg as er, numpy as np, pandas as pd
    >>> rng = np.random.default_rng(1)
    >>> item, judge = np.repeat(np.arange(40), 5), np.tile(np.arange(5), 40)
    >>> score = rng.normal(0, 0.3, 40)[item] + rng.normal(0, 0.1, 5)[judge] + rng.normal(0, 0.2, 200)
    >>> parts = er.components(pd.DataFrame({"item": item, "judge": judge, "score": score}), facets="item x judge")
    >>> print(parts.table[["variance", "lower", "upper", "share"]].round(3).to_string())
                          variance  lower  upper  share
    component
    item                     0.075  0.048  0.129  0.652
    judge                    0.004  0.001  0.037  0.031
    item x judge + error     0.037  0.030  0.046  0.317
    """
    fraction("alpha", alpha)
    table = rows_in_memory(data, "`components`")
    parsed = parse_facets(facets, table.columns)
    if score in {facet.name for facet in parsed}:
        raise ArgumentError(f"`score` must not be a facet; got {score!r} as both.", column=score)
    labels = {facet.name: "facets" for facet in parsed}
    rows = read_rows(table, {"score": score}, labels=labels, missing=missing, split=tuple(labels))
    values, codes = rows.values["score"], {name: rows.used[name] for name in labels}
    refuse_misspelt(parsed, codes)
    if np.ptp(values) <= CONSTANT * np.abs(values).max():
        raise DataError(
            f"scores must vary; column {score!r} holds {values[0]:g} in all rows, which has no variance to split. "
            "Check that this is the column that was meant.",
            column=score,
        )
    effects = effects_of(parsed, codes)
    top = effects[-1]
    confounded = top.codes.n_clusters == values.size
    if confounded:
        effects = effects[:-1]
    if not effects:
        raise DataError(
            f"a single facet needs several scores at a level; column {top.name!r} has one at each, so that nothing "
            "tells its variance from the error's. Cross it with another facet.",
            column=top.name,
        )
    last = f"{top.name} + {ERROR}" if confounded else ERROR
    frame = solve_facets(values, effects, last, alpha, np.random.default_rng(seed))
    names, sets = tuple(facet.text for facet in parsed), (*(effect.columns for effect in effects), top.columns)
    mean, dropped, remarks = float(values.mean()), dict(rows.dropped), tuple(_reused(parsed, codes))
    return FacetComponents(frame, names, sets, score, mean, values.size, float(alpha), dropped, remarks)


def _reused(facets: Sequence[Facet], codes: dict[str, Codes]) -> list[str]:
    """Nested facets whose names occur in several of the levels that they are nested in."""
    return [
        f"Names of {facet.name} occur in several {outer} and are taken as different ones each time, since "
        f'"{facet.text}" is nested. If they are the same, write "{facet.name}{CROSS}{outer}".'
        for facet in facets
        for outer in facet.within
        if joint([codes[facet.name], codes[outer]]).n_clusters > codes[facet.name].n_clusters
    ]


def solve_facets(
    values: FloatArray, effects: Sequence[FacetEffect], last: str, alpha: float, rng: np.random.Generator
) -> pd.DataFrame:
    """Components of the effects and the error, by equations of moments; intervals by generalised pivots."""
    n, W = values.size, between(effects)
    designs = [_indicator(effect.codes) for effect in effects]
    forms = [scale_columns(Z, 1.0 / np.sqrt(effect.codes.counts)) for Z, effect in zip(designs, effects, strict=True)]
    mean = sparse.csr_array(np.full((n, 1), 1.0 / np.sqrt(n)))
    expected, observed = moment_equations(values, mean, designs, forms)
    C, squares, names = W @ expected, W @ observed, [*(effect.name for effect in effects), ERROR]
    _refuse_singular(C, names)
    # A sum of squares is what is left of larger ones.
    squares = np.where(np.abs(squares) > ROUNDING * observed[-1], squares, 0.0)
    solution: FloatArray = np.asarray(np.linalg.inv(C), dtype=np.float64)
    variance = solution @ squares
    variance = np.where(np.abs(variance) > ROUNDING * np.abs(variance).max(), variance, 0.0)
    levels = np.array([*(effect.codes.n_clusters for effect in effects), n])
    widen: Any = 1.0
    if balanced(effects, n):
        dof = W @ (levels - 1.0)
        # 2 SS^2/(d + 2) is unbiased for the variance of SS. Searle, Casella and McCulloch (1992), section 4.5.
        se = np.sqrt(solution**2 @ (2.0 * squares**2 / (dof + 2.0)))
    else:
        positive = np.maximum(variance, 0.0)
        errors = variances_of_forms(effects, np.vstack([solution @ W, W]), positive)
        se, sd = np.sqrt(np.maximum(errors, np.repeat([0.0, np.finfo(float).tiny], len(W)))).reshape(2, -1)
        # The shape is that of sums of squares with the same mean and variance; the spread is that of the components.
        dof = np.maximum(2.0 * (C @ positive) ** 2 / sd**2, 1.0)
        squares = sd * np.sqrt(dof / 2.0)
        widen = np.maximum(se / np.sqrt(solution**2 @ sd**2), 1.0)[:, None]
    chi2 = rng.chisquare(dof[:, None], (dof.size, DRAWS))
    pivots = solution @ (squares[:, None] * (dof[:, None] / chi2 - 1.0)) * widen
    lower, upper = variance + np.quantile(pivots, [alpha / 2, 1 - alpha / 2], axis=1)
    total = float(variance.sum())
    columns = {
        "variance": variance,
        "se": se,
        "lower": np.where(upper > 0, np.maximum(lower, 0.0), lower),
        "upper": upper,
        "share": variance / (total if total > 0 else np.nan),
        "sd": np.sqrt(np.where(variance >= 0, variance, np.nan)),
        "levels": levels,
        "dof": dof,
    }
    return pd.DataFrame(columns, index=pd.Index([*names[:-1], last], name="component"))


def variances_of_forms(effects: Sequence[FacetEffect], weights: FloatArray, variance: FloatArray) -> FloatArray:
    """Variances of combinations of quadratic forms |L_c'My|^2 of normal scores y, that of single rows last.

    M takes out the mean, and L_c L_c' = Z_c F_c Z_c' with one over the rows of each level. With A = M(ZFZ' + t I)M, F
    the sum over effects of weights times F_c, and V = M(ZDZ' + s I)M, D and s the components, a combination y'Ay has
    the variance 2 tr(AVAV): Searle, Casella and McCulloch (1992), Variance Components, appendix S. In levels, with
    G = Z'MZ, Q = GDG + sG and R = DG, the trace is tr((FQ + tR)^2) + 2ts tr(FQ + tR) + t^2 s^2 (n - 1): some columns
    of Q at a time, and no matrix of rows. Shapes: weights (n_combinations, n_effects + 1), returns (n_combinations,).
    """
    counts = [effect.codes.counts for effect in effects]
    starts, c = np.cumsum([0, *map(len, counts)]), np.concatenate(counts).astype(np.float64)
    n, d, s = float(counts[0].sum()), np.repeat(variance[:-1], np.diff(starts)), variance[-1]
    Z = sparse.csc_array(sparse.hstack([_indicator(effect.codes) for effect in effects]))
    met, size, k = sparse.csr_array(Z.T @ Z), len(c), len(effects)
    # Sums over levels of the effects of F Q F Q, of F Q R and of F Q; and those of R R and of R.
    FQFQ, FQR, FQ, RR, R = np.zeros((k, k)), np.zeros(k), np.zeros(k), 0.0, 0.0
    for effect in range(k):
        for first in range(starts[effect], starts[effect + 1], max(1, HELD // size)):
            place = np.arange(first, min(first + max(1, HELD // size), starts[effect + 1]))
            G = met[:, place].toarray() - np.outer(c, c[place] / n)
            DG = d[:, None] * G
            Q, f = met @ DG - np.outer(c, c @ DG / n) + s * G, 1 / c[place]
            RR += d[place] @ np.einsum("ij,ij->j", DG, G)
            R += DG[place, np.arange(place.size)].sum()
            FQFQ[:, effect] += np.add.reduceat(Q**2 @ f / c, starts[:-1])
            FQR[effect] += f @ np.einsum("ij,ij->j", Q, DG)
            FQ[effect] += f @ Q[place, np.arange(place.size)]
    T, t = weights[:, :-1], weights[:, -1]
    trace = np.einsum("ac,cd,ad->a", T, FQFQ, T) + 2 * t * (T @ FQR) + t**2 * RR
    return np.asarray(2.0 * (trace + 2 * t * s * (T @ FQ + t * R) + (t * s) ** 2 * (n - 1)))


def _indicator(codes: Codes) -> Matrix:
    n = codes.codes.size
    return sparse.csr_array((np.ones(n), codes.codes, np.arange(n + 1)), shape=(n, codes.n_clusters))


def _refuse_singular(C: FloatArray, names: list[str]) -> None:
    """Refuse sums of squares whose expectations are a combination of the others', or nothing at all."""
    alike: BoolArray = np.abs(C).max(axis=1) <= ROUNDING * np.abs(C).max()
    if not alike.any():
        scaled = C / np.abs(C).max(axis=1, keepdims=True)
        _, singular, right = np.linalg.svd(scaled / np.abs(scaled).max(axis=0))
        # All directions that no score tells apart: of several, the decomposition returns any basis.
        lost = np.abs(right[singular <= EQUAL * singular[0]])
        alike = lost.max(axis=0, initial=0.0) > ROOT_OF_ROUNDING
    if alike.any():
        few = list(compress(names, alike))
        raise DataError(
            f"the combinations that occur cannot tell {listed(few, joiner=' and ')} apart from the rest. Add scores "
            "that cross the facets, or leave a facet out.",
            count=len(few),
        )
