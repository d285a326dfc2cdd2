"""The answer first: one sentence, one table, the rule in a line, and at most three notes, worst first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from evalreg import errors
from evalreg.checks import counted, listed
from evalreg.covariance.covariance import Covariance
from evalreg.data.formula import short_name
from evalreg.errors import Note
from evalreg.estimate import Estimate, rows_behind
from evalreg.inference.dependence import clusters_behind, design_effect
from evalreg.inference.intervals import tested_against
from evalreg.report.sentences import axis_counts, in_clusters, named, reference_text
from evalreg.report.summaries import (
    INDEPENDENT,
    as_mean_text,
    coefficient_frame,
    covariance_text,
    dropped_text,
    estimate_grid,
    few_seen,
    reference_fact,
    score_kinds,
)
from evalreg.report.tables import Grid, Summary, ends_text, level_text, number

# Notes below an answer, of which a board has room for fewer.
MOST_NOTES, MOST_BOARD_NOTES = 3, 2
# What is worse comes first; whatever is not named here comes last.
SEVERITY = (
    errors.ZeroVarianceWarning,
    errors.FewClustersWarning,
    errors.LeverageWarning,
    errors.DominantClusterWarning,
    errors.FewCarriersWarning,
    errors.UnequalQuestionsWarning,
    errors.SparseBoardWarning,
    errors.RectificationWarning,
    errors.RepairWarning,
    errors.CovarianceWarning,
    errors.IndependenceWarning,
)
# A design effect within this of 1 is printed as 1.00.
NO_EFFECT = 0.005


def rule_text(estimate: Estimate, cov: Covariance) -> str:
    """By which rule the intervals were made: "CR2 by passage, t with 31 degrees of freedom, on the logit scale"."""
    scored, null = cov.widths().scored, tested_against(estimate)
    scale = ", on the logit scale" if estimate.bounded and estimate.about.interval != "wald" else ""
    if scored is not None:
        kinds = " and ".join(f"{name}'s" for name in score_kinds(scored.null))
        scale = f", {kinds} score interval" + " with a design effect" * scored.null.multiplied
    carried = f", intervals of the {estimate.family.monotone.scale.of}" if estimate.family.monotone else ""
    tested = f", t and p against {null:g}" if null else ""
    repaired = f", {cov.change}" if cov.crossed and cov.change else ""
    # Crossed half-widths are not those of one t.
    reference = reference_fact(cov) if cov.summed else reference_text(cov.dof())
    return f"{covariance_text(cov)}, {reference}{scale}{carried}{tested}{repaired}"


def rests_on(estimate: Estimate, cov: Covariance, n: int | None = None, rows: str = "rows") -> str:
    """What an estimate rests on: "480 rows in 60 passage clusters"; of several all that they rest on together."""
    counts = axis_counts(cov)
    if estimate.n_params == 1 and n is None:
        behind = rows_behind(estimate)
        n = estimate.n_rows if behind is None else round(float(behind[0]))
        counts = {axis: int(some[0]) for axis, some in clusters_behind(estimate, cov).items()}
    where = in_clusters(counts) or ", independent"
    left_out = "".join(f"; {line[:-1]}" for line in dropped_lines(estimate.dropped))
    return f"{counted(estimate.n_rows if n is None else n, rows[:-1])}{where}{left_out}"


def dropped_lines(dropped: Mapping[str, int]) -> tuple[str, ...]:
    """A line that counts the rows left out, by reason; none where there are none."""
    parts = dropped_text(dropped)
    return (f"{counted(sum(dropped.values()), 'row')} dropped ({parts}).",) if parts else ()


def value_text(estimate: float, low: float, high: float, alpha: float) -> str:
    """An estimate with its interval: "0.715, 95% interval 0.648 to 0.781"."""
    if not np.isfinite([low, high]).all():
        return f"{number(estimate, 3)}, without an error bar"
    return f"{number(estimate, 3)}, {100 * (1 - alpha):g}% interval {number(low, 3)} to {number(high, 3)}"


def answer_text(
    estimate: Estimate, cov: Covariance, frame: pd.DataFrame, alpha: float, board: pd.DataFrame | None, rows: str
) -> str:
    """One sentence: what was found, how sure that is, and what it rests on."""
    about, rests = estimate.about, rests_on(estimate, cov, rows=rows)
    what = named(estimate)
    ends = frame[["estimate", "lower", "upper"]].to_numpy(dtype=np.float64)
    values = [value_text(float(theta), float(low), float(high), alpha) for theta, low, high in ends]
    if about.n_models > 1:
        order = np.argsort(-estimate.params[: about.n_models], kind="stable")
        first, second = order[:2]
        best = [estimate.names[i] for i in order if estimate.params[i] == estimate.params[first]]
        by = about.model.partition(" by ")[2]
        things = "models" if by in ("", "model") else f"values of {by}"
        text = f"{what}: {best[0]} is first of {about.n_models} {things} with {values[first]}; "
        text += f"{estimate.names[second]} is next with {number(estimate.params[second], 3)}."
        if len(best) > 1:
            text = f"{what}: {listed(best)} share the first place of {about.n_models} {things} with "
            text += f"{number(estimate.params[first], 3)}."
        if board is not None:
            rivals = [str(name) for name in board.index if name not in best and board.loc[name, "rank_lower"] == 1]
            shown = f"{rivals[0]} may be the best too" if len(rivals) == 1 else f"{len(rivals)} others may be the best"
            text += f" The first place is not settled: {shown}." if rivals else ""
            text += " The first place is settled." if len(best) == 1 and not rivals else ""
        return f"{text} {rests[0].upper()}{rests[1:]}."
    if estimate.n_params == 1:
        name = estimate.names[0]
        what = f"Mean of {about.outcome}" if name == "Intercept" else what
        whose = about.subject or (what if name in ("mean", "Intercept", "ratio") else f"{what}, {short_name(name)}")
        return f"{whose}: {values[0]}; {rests}."
    if about.formula:
        squared, about_mean = estimate.r_squared or (0.0, False)
        return f"{about.formula}: {rests}{f', R-squared {squared:.4f}' if about_mean else ''}."
    return f"{what}: {estimate.n_params} estimates; {rests}."


def notes_of(cov: Covariance, notes: Sequence[Note], more: Sequence[str] = ()) -> list[str]:
    """What a reader should know, worst first."""
    rank = {category: place for place, category in enumerate(SEVERITY)}
    ordered = sorted(notes, key=lambda note: rank.get(note[0], len(SEVERITY)))
    texts = [text for _, text in ordered]
    if not cov.axes:
        texts.insert(sum(rank.get(category, len(SEVERITY)) < 2 for category, _ in ordered), INDEPENDENT)
    return list(dict.fromkeys([*texts, *more]))


def few(texts: Sequence[str], most: int) -> tuple[str, ...]:
    """The first of some notes, and how many more there are."""
    left = len(texts) - most
    if left <= 0:
        return tuple(texts)
    return (*texts[:most], f"{counted(left, 'more note')} with the details.")


def short(summary: Summary) -> Summary:
    """A summary without its notes, and of many rows the first and the last."""
    return replace(summary, sentences=(), grids=tuple(grid.ends() for grid in summary.grids))


def brief(results: Any, alpha: float, board: pd.DataFrame | None) -> Summary:
    """The answer, its table and at most three notes; with `board`, the table of `leaderboard`, ranks too."""
    estimate, cov = results.estimate, results.cov
    frame = coefficient_frame(estimate, cov, alpha, results._counts if estimate.about.n_models > 1 else None)
    answer = f"{answer_text(estimate, cov, frame, alpha, board, results._rows_word)} {results._verdict()}".strip()
    if board is None:
        effect = design_effect(cov) if cov.axes and tested_against(estimate) is None else np.ones(1)
        grid = estimate_grid(estimate, frame, alpha, effect if bool(np.any(np.abs(effect - 1) >= NO_EFFECT)) else None)
    else:
        grid = board_grid(board)
    lines = [f"Rows: {estimate.about.subset}."] if estimate.about.subset else []
    lines += filter(None, [few_seen(cov), as_mean_text(estimate, cov, alpha), *estimate.about.lines])
    most = MOST_NOTES if board is None else MOST_BOARD_NOTES
    said = few(notes_of(cov, results.notes, lines), most)
    if board is not None:
        level = level_text(alpha)
        said = (f"ranks: those not excluded; joint intervals: for all models at once; both {level}.", *said)
    return Summary(answer, (), (grid,), said, rule=rule_text(estimate, cov))


# Of more models, and where one would have more letters, they say no more than that hardly anything is separated.
MOST_WITH_LETTERS, MOST_LETTERS = 30, 12
LETTER_NOTE = "Models that share a letter under groups are not separated from each other."
TIER_NOTE = "Each model of a tier is separated from each model of the tiers below it."


def board_grid(board: pd.DataFrame, column: str = "") -> Grid:
    """A line a model: rank, ranks that are not excluded, estimate, its interval, the joint interval, and rows.

    `column` is a further one that says which models are separated: "letters", under the header "groups", or "tier".
    """
    reach, level = board.attrs["reach"], level_text(board.attrs["alpha"])
    single, joint = (board[[f"{kind}lower", f"{kind}upper", "estimate"]].to_numpy(float) for kind in ("", "joint_"))
    columns: dict[str, Iterable[str]] = {
        "": map(str, board.index),
        "rank": map(str, board["rank"]),
        "ranks": map(ranks_text, board.to_dict("records")),
        "estimate": map(number, board["estimate"]),
        f"{level} interval": (ends_text(low, high, value, reach) for low, high, value in single),
        "joint interval": (ends_text(low, high, value, reach) for low, high, value in joint),
    }
    columns |= {name.replace("letters", "groups"): map(str, board[name]) for name in (column, "n") if name in board}
    return Grid.of(columns, spare=("n", "joint interval"))


def ranks_text(row: pd.Series[Any] | Mapping[Any, Any]) -> str:
    """The ranks that are not excluded: "2" or "1-4"."""
    low, high = row["rank_lower"], row["rank_upper"]
    return f"{low}" if low == high else f"{low}-{high}"


def separating_column(board: pd.DataFrame) -> str:
    """Which column says what is separated: letters where they can be read, tiers where there are several, or ""."""
    if len(board) <= MOST_WITH_LETTERS and bool(board["letters"].map(len).max() <= MOST_LETTERS):
        return "letters"
    return "tier" if board["tier"].max() > 1 else ""


def ranks_sentences(board: pd.DataFrame) -> str:
    """What the columns of a leaderboard mean: joint intervals, ranks, and what is separated."""
    separation = {"letters": LETTER_NOTE, "tier": f"{TIER_NOTE} {_LEFT_OUT}", "": _LEFT_OUT}[separating_column(board)]
    return (
        "Joint intervals hold for all models at once. Ranks are those that the data do not exclude, "
        f"{level_text(board.attrs['alpha'])} for all models at once. {separation}"
    )


_LEFT_OUT = "Letters of groups are left out: there would be too many to read."


def tiers_summary(board: pd.DataFrame) -> Summary:
    """A leaderboard with its tiers, and whether its first two models are separated."""
    first, second = board.index[:2]
    apart = "is" if not set(board["letters"].iloc[0]) & set(board["letters"].iloc[1]) else "is not"
    separation = f"{TIER_NOTE} Models of one tier may be equal or not."
    if board["tier"].max() == 1:
        separation = "There is one tier: no place on the board has every model above separated from every model below."
    sentences = (
        f"The first, {first}, {apart} separated from the second, {second}.",
        f"{separation} {level_text(board.attrs['alpha'])} for all pairs at once.",
    )
    return Summary("tiers", (), (board_grid(board, "tier"),), sentences)
