"""The winner of several models, corrected for having been chosen, and tiers of settled places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from scipy import sparse, special

from evalreg.checks import FloatArray, fraction, keeps, listed, option
from evalreg.data.clusters import Axis, axis_name
from evalreg.errors import ArgumentError, NotAvailableError
from evalreg.inference.ranks import judged_pair
from evalreg.inference.selection import SHARE, Corrected, corrected, hybrid_level, winning_values
from evalreg.numerics.limits import EQUAL
from evalreg.numerics.matrices import compressed, dense
from evalreg.report.sentences import escaped, p_text
from evalreg.report.summaries import choice_sentence, covariance_text, limit_sentence, rating_reach
from evalreg.report.tables import Grid, Printed, Summary, limits, number
from evalreg.scores.score_interval import FEW_EXPECTED

if TYPE_CHECKING:
    from evalreg.covariance.covariance import Covariance
    from evalreg.estimate import Estimate, Scale
    from evalreg.inference.simultaneous import Seed
    from evalreg.report.sentences import MarkupName


# `MultipleModels`, whose module imports this one.
AnyModels: TypeAlias = Any

# Of more models, and where one would have more letters, they say no more than that hardly anything is separated.
MOST_WITH_LETTERS, MOST_LETTERS = 30, 12
LETTERS_TOLD = "Models that share a letter under groups are not separated from each other."
_LEFT_OUT = "Letters of groups are left out: there would be too many to read."


@keeps("table")
@dataclass(frozen=True, eq=False)
class Tiers(Printed):
    """Tiers of models; made by `tiers`, immutable.

    Parameters
    ----------
    first, second : str
        The models with the two largest estimates.
    separated : bool
        Whether the first is separated from the second, all pairs of models judged at once.
    difference, p_adjusted : float
        First less second, and its p-value, which allows for all pairs; NaN where there is no error bar.
    n_tiers, n_pairs : int
        How many tiers there are, and of how many pairs the level is.
    undecided : tuple of (str, str)
        Pairs without an error bar, which are not separated.
    alpha : float
        Family-wise level.
    facts : tuple of (str, str)
        What was estimated, and how.
    sentences : tuple of str
        What is said below the table.
    table : DataFrame
        That of `leaderboard`.
    reach : float
        How far from an estimate a limit is printed.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.judge_log(n_models=4, n_prompts=400, spread=1.0, seed=3)
    >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
    >>> found = board.tiers()
    >>> found.to_frame()["tier"].to_dict(), found.separated
    ({'model-01': 1, 'model-02': 1, 'model-03': 2, 'model-04': 3}, False)
    """

    first: str
    second: str
    separated: bool
    difference: float
    p_adjusted: float
    n_tiers: int
    n_pairs: int
    undecided: tuple[tuple[str, str], ...]
    alpha: float
    facts: tuple[tuple[str, str], ...]
    sentences: tuple[str, ...]
    table: pd.DataFrame
    reach: float = np.inf

    def to_frame(self) -> pd.DataFrame:
        """One row a model, the best first.

        Returns
        -------
        DataFrame
            Indexed by model; columns as in `leaderboard`, among them tier, rank, rank_lower, rank_upper and letters.
        """
        return self.table

    def sentence(self, *, markup: MarkupName = "text") -> str:
        """Whether the first is separated from the second, in words.

        Parameters
        ----------
        markup : {"text", "markdown", "latex", "html"}, optional
            In which of these names and signs are escaped; "text" by default.

        Returns
        -------
        str
            Two sentences: whether it is, and the reason.
        """
        return escaped(first_sentence(self), markup)

    def summary(self, alpha: float | None = None) -> Summary:
        """The table of tiers with what they mean.

        Parameters
        ----------
        alpha : float, optional
            The level that the tiers were made at, the only one they have.

        Returns
        -------
        Summary
            Prints as text of 80 columns; also `as_markdown()`, `as_latex()` and `as_html()`.
        """
        if alpha is not None and not np.isclose(alpha, self.alpha, rtol=1e-12, atol=0):
            raise ArgumentError(f"these tiers are at alpha={self.alpha:g}; ask for `tiers(alpha={alpha:g})`.")
        grid = tier_grid(self.table, self.reach)
        return Summary("tiers", self.facts, (grid,), (first_sentence(self), *self.sentences, *limit_sentence([grid])))

    def _summary(self, alpha: float | None) -> Summary:
        return self.summary(alpha)

    def __repr__(self) -> str:
        return self.summary().as_text()


def find_tiers(models: AnyModels, alpha: float, seed: Seed) -> Tiers:
    """The tiers of `MultipleModels.tiers`."""
    params, cov = models._ranked
    if len(params) < 2:
        raise ArgumentError(f"tiers need at least two models; here is {len(params)}. Name the models in `by`.")
    table = models.leaderboard(alpha, seed)
    first, second = table.index[:2]
    pair = judged_pair(params, cov, first, second, alpha=alpha, seed=seed)
    p, undecided = pair.p_adjusted, tuple((str(a), str(b)) for a, b in pair.undecided)
    n_tiers = int(table["tier"].max())
    about = models.estimate.about
    facts = (
        ("Score", about.outcome),
        ("Model", about.model),
        ("Models", f"{len(table)}"),
        ("Tiers", f"{n_tiers}"),
        ("Covariance", covariance_text(models.cov)),
    )
    return Tiers(
        first=str(first),
        second=str(second),
        separated=p <= alpha and pair.difference != 0,
        difference=float(table["estimate"].iloc[0] - table["estimate"].iloc[1]),
        p_adjusted=p,
        n_tiers=n_tiers,
        n_pairs=pair.n_pairs,
        undecided=undecided,
        alpha=alpha,
        facts=facts,
        sentences=(*_meaning(table, alpha, undecided), *choice_sentence(models.estimate)),
        table=table,
        reach=rating_reach(models.estimate),
    )


def first_sentence(found: Tiers) -> str:
    """Whether the first is separated from the second, and by what."""
    answer = "is" if found.separated else "is not"
    said = f"The first, {found.first}, {answer} separated from the second, {found.second}."
    if found.difference == 0:
        return f"{said} They have the same estimate."
    if np.isnan(found.p_adjusted):
        return f"{said} Their difference has no error bar."
    test = f"p {p_text(found.p_adjusted, found.alpha)}"
    test += f", adjusted for all {found.n_pairs} pairs" if found.n_pairs > 1 else ""
    return f"{said} The difference is {number(found.difference)} ({test})."


def _meaning(table: pd.DataFrame, alpha: float, undecided: tuple[tuple[str, str], ...]) -> list[str]:
    """What tiers, ranks and letters say and do not say."""
    level = f"{100 * (1 - alpha):.4g}%"
    told = [
        f"Each model of a tier is separated from each model of the tiers below it ({level} for all pairs at once). "
        "Models of one tier may be equal or not: ranks open are the ranks that the data do not exclude.",
        "A higher estimate is taken to be better.",
    ]
    if int(table["tier"].max()) == 1:
        told[0] = (
            f"There is one tier: no place on the board has every model above separated from every model below ({level} "
            "for all pairs at once). Ranks open are the ranks that the data do not exclude."
        )
    if shows_letters(table):
        told.append(LETTERS_TOLD)
    if undecided:
        n, what = len(undecided), "no error bar for the difference"
        one = f"1 pair has {what}: it is not separated."
        told.append(one if n == 1 else f"{n} pairs have {what}: none is separated.")
    return told


def ranks_told(table: pd.DataFrame, alpha: float) -> str:
    """What the columns of a leaderboard mean: joint intervals, ranks, groups."""
    level = f"{100 * (1 - alpha):.4g}%"
    return (
        f"Joint intervals hold for all models at once. Ranks are those that the data do not exclude, {level} for all "
        f"models at once. {groups_told(table)}"
    )


def groups_told(table: pd.DataFrame) -> str:
    """What the column of groups means, or that of tiers, where there are several; or why there is neither."""
    if shows_letters(table):
        return LETTERS_TOLD
    told = "Each model of a tier is separated from each model of the tiers below it. "
    return f"{told if table['tier'].max() > 1 else ''}{_LEFT_OUT}"


def group_column(table: pd.DataFrame) -> tuple[str, list[str]]:
    """Header and cells that say what is separated: letters, or tiers where there are several; "" for neither."""
    if shows_letters(table):
        return "groups", table["letters"].astype(str).tolist()
    return ("tier", table["tier"].astype(str).tolist()) if table["tier"].max() > 1 else ("", [])


def shows_letters(table: pd.DataFrame) -> bool:
    """Whether letters of a leaderboard can be read: there are few models, and few letters each."""
    return len(table) <= MOST_WITH_LETTERS and bool(table["letters"].map(len).max() <= MOST_LETTERS)


def tier_grid(table: pd.DataFrame, reach: float = np.inf) -> Grid:
    """Models from the best down with tier, ranks, joint intervals, and letters where they can be read."""
    alpha = table.attrs["alpha"]
    with_letters = shows_letters(table)
    ends = (f"joint [{alpha / 2:.3g}", f"{1 - alpha / 2:.3g}]")
    more = (*(("groups",) if with_letters else ()), *(("n",) if "n" in table else ()))
    rows = []
    for name, row in table.iterrows():
        cells = [str(row["tier"]), str(row["rank"]), ranks_text(row), number(row["estimate"])]
        cells += limits(row["joint_lower"], row["joint_upper"], row["estimate"], reach)
        cells += [str(row["letters"])] if with_letters else []
        cells += [str(row["n"])] if "n" in table else []
        rows.append((str(name), *cells))
    return Grid(("", "tier", "rank", "ranks open", "estimate", *ends, *more), tuple(rows))


def ranks_text(row: pd.Series[Any] | Mapping[Any, Any]) -> str:
    """The ranks that are not excluded: "2" or "1-4"."""
    low, high = row["rank_lower"], row["rank_upper"]
    return f"{low}" if low == high else f"{low}-{high}"


WinnerName: TypeAlias = Literal["hybrid", "conditional", "projection"]
BestName: TypeAlias = Literal["largest", "smallest"]
METHODS: tuple[WinnerName, ...] = ("hybrid", "conditional", "projection")
BEST: tuple[BestName, ...] = ("largest", "smallest")
# Equal clusters on every crossed axis from which the hybrid holds the truth often enough (benchmarks/winner.py); of
# so many cells with unlike rows a little of one is lost.
ENOUGH = 9.0
# Clusters that strong effects of theirs are worth, (sum h^2)^2 / sum h^4 with h their shares of the rows. Below it the
# corrected estimate is too high in up to .81 of the logs, and the hybrid holds the truth in as few as .92; with two
# equal clusters, which are worth just that, it holds it in .81.
ALONE = 2.0

_WORDS = {
    "hybrid": "is conditional on who came first, within one that holds for all at once (hybrid)",
    "conditional": "is conditional on who came first, and can be very long where others are near",
    "projection": "is one that holds for all of them at once, whichever comes first (projection)",
}


@dataclass(frozen=True)
class Winner:
    """The best of several models with an interval that allows for the choice; made by `winner`, immutable.

    Parameters
    ----------
    name : str
        The model whose estimate is best.
    n_models : int
        How many it was chosen from.
    estimate, se : float
        As measured, and its standard error.
    corrected : float
        About as often above the truth as below it, roughly so with few clusters; NaN where nothing but a projection is
        known.
    lower, upper : float
        The interval of `method`.
    single_lower, single_upper : float
        The interval shown in tables, which does not allow for the choice.
    method : {"hybrid", "conditional", "projection"}
        How the interval was made.
    alpha : float
        Level.
    tied : tuple of str
        Other models with the same estimate.
    reason : str
        Why there is no other interval than the projection; empty otherwise.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.judge_log(n_models=6, n_prompts=60, seed=1)
    >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
    >>> found = board.winner()
    >>> found.name, round(found.estimate, 3), round(found.corrected, 3)
    ('model-01', 0.602, 0.585)
    """

    name: str
    n_models: int
    estimate: float
    se: float
    corrected: float
    lower: float
    upper: float
    single_lower: float
    single_upper: float
    method: WinnerName
    alpha: float
    tied: tuple[str, ...] = ()
    reason: str = ""

    def to_frame(self) -> pd.DataFrame:
        """One row, indexed by the model.

        Returns
        -------
        DataFrame
            Columns estimate, se, corrected, lower, upper, single_lower, single_upper, n_models, method and alpha.
        """
        names = ("estimate", "se", "corrected", "lower", "upper", "single_lower", "single_upper")
        columns = {name: getattr(self, name) for name in (*names, "n_models", "method", "alpha")}
        return pd.DataFrame(columns, index=pd.Index([self.name], name="model"))

    def summary(self) -> Summary:
        """Estimate and interval with the correction and without, and what they mean.

        Returns
        -------
        Summary
            Prints as text of 80 columns; also `as_markdown()`, `as_latex()` and `as_html()`.
        """
        facts = (("Winner", self.name), ("Chosen from", f"{self.n_models} models"))
        return Summary("the winner", facts, (winner_grid(self),), winner_sentences(self))

    def __repr__(self) -> str:
        return self.summary().as_text()

    def _repr_html_(self) -> str:
        return self.summary().as_html()


def winner_grid(found: Winner, reach: float = np.inf) -> Grid:
    """The winner as measured, and corrected; limits further away than `reach` are none."""
    ends = (f"[{found.alpha / 2:.3g}", f"{1 - found.alpha / 2:.3g}]")
    plain = (number(found.estimate), *limits(found.single_lower, found.single_upper, found.estimate, reach))
    known = "unknown" if np.isnan(found.corrected) else number(found.corrected)
    fixed = (known, *limits(found.lower, found.upper, found.estimate, reach))
    return Grid(("winner", "estimate", *ends), (("as measured", *plain), ("corrected for the choice", *fixed)))


def winner_sentences(found: Winner) -> tuple[str, ...]:
    """What the correction is, and what stood in its way."""
    text = (
        f"{found.name} came first of {found.n_models}. Coming first takes luck too: the estimate as measured is too "
        "good on average, and its interval misses too often."
    )
    how = f"The corrected interval {_WORDS[found.method]}."
    if not found.reason:
        how = (
            "The corrected estimate is about as often too high as too low; with few clusters one of the two may come "
            f"nearly twice as often as the other. {how}"
        )
    ties = f"{listed(list(found.tied))} came out equal with {found.name}." if found.tied else ""
    reason = f"No other interval is known here, and no corrected estimate: {found.reason}." if found.reason else ""
    return tuple(filter(None, (text, how, ties, reason)))


@dataclass(frozen=True, eq=False)
class _Scale:
    """Estimates so that the largest is best, on the scale on which their intervals are built."""

    logit: bool
    sign: float

    def values(self, params: FloatArray) -> FloatArray:
        return self.sign * (special.logit(params) if self.logit else params)

    def slopes(self, params: FloatArray) -> FloatArray:
        """By which standard errors are multiplied; 0 where a mean is 0 or 1, which is known to lose."""
        if not self.logit:
            return np.ones_like(params)
        spread = params * (1 - params)
        return np.divide(1.0, spread, out=np.zeros_like(params), where=spread > 0)

    def back(self, values: Corrected) -> Corrected:
        ends = [self.sign * value for value in (values.estimate, values.lower, values.upper)]
        middle, low, high = (float(special.expit(end)) if self.logit else end for end in ends)
        return Corrected(middle, min(low, high), max(low, high))


Bands: TypeAlias = Callable[[float], pd.DataFrame]
"""Takes a level, returns intervals by name."""


def find_winner(
    params: pd.Series[float],
    cov: Covariance,
    estimate: Estimate,
    together: Bands,
    single: Bands,
    *,
    alpha: float,
    method: WinnerName | None,
    best: BestName,
) -> Winner:
    """The winner of parameters with their covariance, of which `estimate` is; see `MultipleModels.winner`."""
    alpha = fraction("alpha", alpha)
    option("best", best, BEST)
    if method is not None:
        option("method", method, METHODS)
    theta, variance = _checked(params, cov)
    sign = 1.0 if best == "largest" else -1.0
    w = int(np.argmax(sign * theta))
    name, names = str(params.index[w]), [str(label) for label in params.index]
    se = np.sqrt(variance)
    scale = _Scale(estimate.bounded and estimate.about.interval != "wald", sign)
    equal = [int(i) for i in np.flatnonzero(np.abs(theta - theta[w]) <= EQUAL * max(se[w], EQUAL)) if i != w]
    moving = [i for i in equal if _gap_variance(cov, i, w) > 0]
    reason = _why_not(estimate, cov, w, names, moving)
    if method in ("hybrid", "conditional") and reason:
        raise NotAvailableError(f'method="{method}" is not known here: {reason}. Use method="projection".')
    chosen: WinnerName = method or ("projection" if reason else "hybrid")
    made = None
    if not reason:
        made = _conditional(theta, cov, w, scale, together, alpha, chosen == "conditional")
    ends = (
        (made.lower, made.upper)
        if made and chosen != "projection"
        else _projected(name, together, single, alpha, names)
    )
    own = _ends(single(alpha), name)
    return Winner(
        name=name,
        n_models=theta.size,
        estimate=float(theta[w]),
        se=float(se[w]),
        corrected=float("nan") if made is None else made.estimate,
        lower=ends[0],
        upper=ends[1],
        single_lower=own[0],
        single_upper=own[1],
        method=chosen,
        alpha=alpha,
        tied=tuple(names[i] for i in equal),
        reason=reason,
    )


def carried_winner(found: Winner, scale: Scale, se: float) -> Winner:
    """The winner of increasing functions of parameters, from that of the parameters."""
    ends = [found.lower, found.upper, found.single_lower, found.single_upper]
    values = scale.forward(np.array([found.estimate, found.corrected, *ends])).tolist()
    estimate, corrected_estimate, lower, upper, single_lower, single_upper = values
    return replace(
        found,
        estimate=estimate,
        se=se,
        corrected=corrected_estimate,
        lower=lower,
        upper=upper,
        single_lower=single_lower,
        single_upper=single_upper,
    )


def _checked(params: pd.Series[float], cov: Covariance) -> tuple[FloatArray, FloatArray]:
    """Estimates and variances of two or more models."""
    if len(params) < 2:
        raise ArgumentError(f"a winner is chosen from two or more models; got {len(params)}.")
    if "Intercept" in params.index:
        raise ArgumentError(
            "a winner is the largest of parameters that mean the same; an intercept and coefficients do not. Use "
            '`mean` with `by`, or a formula without intercept, such as "score ~ 0 + C(model)".'
        )
    theta, variance = np.array(params, dtype=np.float64), cov.variance()
    unknown = [str(name) for name, value in zip(params.index, variance, strict=True) if np.isnan(value)]
    if unknown:
        raise NotAvailableError(
            f"a winner needs the variance of every model; {listed(unknown)} has none "
            f"({next(filter(None, cov.reasons()), 'it is not known')}). Leave such models out of the data."
        )
    return theta, variance


def _gap_variance(cov: Covariance, i: int, j: int) -> float:
    C = np.zeros((1, len(cov.names)))
    C[0, i], C[0, j] = 1.0, -1.0
    return float(np.nan_to_num(cov.variance(C))[0])


def _why_not(estimate: Estimate, cov: Covariance, w: int, names: list[str], moving: list[int]) -> str:
    """Why the conditional distribution is not known; empty where it is."""
    if cov.variance()[w] == 0:
        if cov.fixed is not None and cov.fixed[w]:
            raise NotAvailableError(
                f"{names[w]} came first and is the reference, whose rating is set and not estimated. "
                "Use reference=None, which centres the ratings."
            )
        return f"the scores of {names[w]} do not vary"
    if cov.crossed and (crossed := _crossed_reason(cov, w)):
        return crossed
    if alone := _alone_reason(estimate, cov, w):
        return alone
    if moving:
        others = listed([names[i] for i in moving])
        return f"{others} came out equal with {names[w]}, and the data do not decide which of them is first"
    scored = cov.widths().scored
    if scored is not None and w in scored.rows:
        # Cochran's rule for the normal approximation of a count: five of the rarer kind are expected, after clustering.
        null, at = scored.null, int(np.flatnonzero(scored.rows == w)[0])
        if null.rarer[at] / null.design_effect[at] < FEW_EXPECTED:
            return f"{names[w]} has so few rows of the rarer kind that its estimate is not near normal"
    return ""


def _crossed_reason(cov: Covariance, w: int) -> str:
    """Why a normal given who won is not known to hold over crossed clusters; empty where it does."""
    if not cov.summed or cov.options.repair != "max" or cov.options.alike is not None:
        return "clusters are crossed, where the other interval (conditional on who won) needs their default covariance"
    C = np.eye(len(cov.names))[[w]]
    worth = {term.name: float(term.dof(C)[0]) + 1 for term in cov.one_way}
    fewest = min(worth, key=lambda name: worth[name])
    if worth[fewest] >= ENOUGH:
        return ""
    return (
        f'clusters are crossed, and those of "{fewest}" are worth {worth[fewest]:.1f} equal ones; with fewer than '
        f"{ENOUGH:g} the other interval (conditional on who won) misses the truth too often"
    )


def _alone_reason(estimate: Estimate, cov: Covariance, w: int) -> str:
    """Why one cluster of an axis makes nearly all of the covariance; empty where none does."""
    for axis in cov.axes:
        share = _shares(estimate, axis, w)
        if share is None or np.sum(share**2) ** 2 > ALONE * np.sum(share**4) * (1 + EQUAL):
            continue
        second, first = np.argsort(share)[-2:]
        return (
            f'"{estimate.scores.label(axis, int(first))}" weighs {share[first]:.0%} in the estimate of '
            f"{estimate.names[w]} and the next of {share.size} {axis_name(axis)} clusters {share[second]:.0%}, so that "
            "few clusters tell how the models vary together"
        )
    return ""


def _shares(estimate: Estimate, axis: Axis, w: int) -> FloatArray | None:
    """Share of each cluster in the weight of an estimate: of its rows, where the scores tell no weights.

    None where they tell no rows either.
    """
    own = np.abs(dense(estimate.bread[:, [w]])).ravel()
    parts = []
    for block in estimate.scores.cells(axis):
        gram = block.gram
        if isinstance(gram, np.ndarray) and gram.shape[1:] == (own.size, own.size):
            b = dense(estimate.bread[:, [w]]).ravel()
            parts.append(np.asarray((gram @ b) @ b, dtype=np.float64))
        elif sparse.issparse(gram) and compressed(gram).shape[1] == own.size:
            parts.append(np.asarray(compressed(gram) @ own, dtype=np.float64))
        else:
            return _shares_of_rows(estimate, axis, w)
    share = np.concatenate(parts)
    return np.asarray(share / share.sum())


def _conditional(
    theta: FloatArray, cov: Covariance, w: int, scale: _Scale, together: Bands, alpha: float, alone: bool
) -> Corrected:
    """The hybrid, or the conditional interval alone, both with t in place of the normal."""
    # A mean of 0 or 1 has no logit, and did not win.
    kept = (theta > 0) & (theta < 1) if scale.logit else np.ones(theta.size, dtype=bool)
    slopes = scale.slopes(theta)
    V = np.asarray(cov.matrix) * np.outer(slopes, slopes)
    own = int(np.count_nonzero(kept[:w]))
    values, V = scale.values(theta[kept]), V[np.ix_(kept, kept)]
    ends = winning_values(values, V, own)
    x, se = float(values[own]), float(np.sqrt(V[own, own]))
    level = alpha if alone else hybrid_level(alpha)
    stretch = float(cov.critical(alpha=level)[w] / -special.ndtri(level / 2))
    reach = np.inf
    if not alone:
        reach = se * float(cov.critical(alpha=together(SHARE * alpha).attrs["level"])[w])
    return scale.back(corrected(x, se, ends, level, stretch=stretch, reach=reach))


def _projected(name: str, together: Bands, single: Bands, alpha: float, names: list[str]) -> tuple[float, float]:
    """The winner's interval of those that hold for all at once; by their number where the winner does not vary."""
    low, high = _ends(together(alpha)[["lower", "upper"]], name)
    return (low, high) if np.isfinite(low + high) else _ends(single(alpha / len(names)), name)


def _ends(table: pd.DataFrame, name: str) -> tuple[float, float]:
    """The two numbers of a row."""
    low, high = table.loc[[name]].to_numpy(np.float64)[0].tolist()
    return low, high


def _shares_of_rows(estimate: Estimate, axis: Axis, w: int) -> FloatArray | None:
    """Share of each cluster in the rows that have a part in an estimate of which only the influence is known."""
    labels = estimate.scores.row_labels()
    if labels is None:
        return None
    codes, influence = labels.codes(axis), estimate.scores.row_influence(estimate.bread[:, [w]])
    count = np.bincount(codes.codes, influence.ravel() != 0, codes.n_clusters)
    return np.asarray(count / count.sum())
