"""Tiers of a board: models that are separated from all below, and whether the first is from the second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from evalreg.checks import keeps
from evalreg.errors import ArgumentError
from evalreg.inference.ranks import judged_pair
from evalreg.inference.simultaneous import Seed
from evalreg.report.sentences import escaped, p_text
from evalreg.report.summaries import choice_sentence, covariance_text, limit_sentence, rating_reach
from evalreg.report.tables import Grid, Printed, Summary, limits, number

if TYPE_CHECKING:
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
    """What the columns of a leaderboard mean: joint intervals, ranks open, groups."""
    level = f"{100 * (1 - alpha):.4g}%"
    return (
        f"Joint intervals hold for all models at once. Ranks open are the ranks that the data do not exclude, {level} "
        f"for all models at once. {groups_told(table)}"
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
