"""What results say in two sentences, and their design in plain words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from evalreg.data.clusters import axis_name
from evalreg.inference.fragile import cluster_sizes
from evalreg.report.pages import named
from evalreg.report.sentences import PERCENT, PLAIN, POINTS, printed, unit_of, with_interval

# So many names stand in a sentence; of more, how many there are.
MOST_NAMED = 5


def answer_of(results: Any, board: pd.DataFrame | None, alpha: float) -> tuple[str, ...]:
    """Two sentences: what was found, and how sure it is; of two models also by how much they differ."""
    if board is not None:
        first, second = _first_place(results, board, alpha)
        return (first, _gap(results, board, alpha), second) if len(board) == 2 else (first, second)
    ends, about = results.conf_int(alpha), results.estimate.about
    names, params = list(results.params.index), results.params.to_numpy()
    unit = unit_of(results.estimate)
    shown = [f"{with_interval(*pair, unit, alpha)})" for pair in zip(params, ends.to_numpy(), strict=True)]
    if len(names) == 1:
        kind, by, _ = f"{about.model[0].lower()}{about.model[1:]}".partition(" by ")
        whose = f" of {named(names[0])}" if by else ""
        what = f"The {kind} of {named(about.outcome)}{whose}" if not about.formula else ""
        return f"{what or named(names[0])} is {shown[0]}.", _worth(results)
    several = f"There are {len(names)} estimates ({about.model} of {named(about.outcome)})"
    if results.estimate.kind == "mean" and not about.contrast:
        best = int(np.argmax(np.where(np.isnan(params), -np.inf, params)))
        return f"{several}; the largest is {named(names[best])} with {shown[best]}.", _worth(results)
    away = int(((ends[0] > 0) | (ends[1] < 0)).sum())
    told = f"{away} of the {len(names)} {_level(alpha)} intervals leave out zero, each judged by itself."
    return f"{several}; {named(names[0])} is {shown[0]}.", told


def _level(alpha: float) -> str:
    return f"{100 * (1 - alpha):.4g}%"


def _gap(results: Any, board: pd.DataFrame, alpha: float) -> str:
    """By how much two models differ."""
    names = list(results.estimate.names)
    contrast = np.zeros((1, len(names)))
    contrast[0, [names.index(name) for name in board.index]] = 1.0, -1.0
    found = results.linear(contrast, ["difference"])
    unit = POINTS if unit_of(results.estimate) is PERCENT else PLAIN
    value = with_interval(float(found.params.iloc[0]), found.conf_int(alpha).to_numpy()[0], unit, alpha)
    return f"The difference, {named(board.index[0])} less {named(board.index[1])}, is {value})."


def _first_place(results: Any, board: pd.DataFrame, alpha: float) -> tuple[str, str]:
    """Who is first, and whether the data leave that place to others."""
    best, second = board.iloc[0], board.iloc[1]
    unit, level = unit_of(results.estimate), _level(alpha)
    tied = bool(best["estimate"] == second["estimate"])
    start = f"{named(board.index[0])} {'shares the first place' if tied else 'comes first'} of {len(board)} models"
    value = with_interval(best["estimate"], best[["lower", "upper"]].to_numpy(dtype=float), unit, alpha)
    other = printed((second["estimate"], second["lower"], second["upper"]), unit)[0]
    next_one = f"{named(board.index[1])} {'has the same' if tied else f'is next with {other}{unit.word}'}"
    if np.isnan(second["lower"]):
        next_one = f"{next_one}, but has no error bar"
    found = f"{start} with {value}); {next_one}."
    open_to = [name for name in board.index[1:] if board.loc[name, "rank_lower"] == 1]
    if not open_to:
        apart = f"{named(board.index[0])} is separated from all others"
        return found, f"{apart}: the data exclude each of them from rank 1 ({level} for all)."
    names = ", ".join(map(named, open_to)) if len(open_to) <= MOST_NAMED else f"{len(open_to)} of them"
    one = len(open_to) == 1
    which = f"The first place is not settled: {names} may be the best as well"
    return found, f"{which} ({level} for all models at once; {'its' if one else 'their'} set of ranks holds 1)."


def _worth(results: Any) -> str:
    clusters = _clusters(results)
    rows = f"{results.nobs:,} rows"
    if not clusters:
        return f"It rests on {rows} that are treated as independent."
    worth = results.n_eff().to_numpy(dtype=float)
    known = worth[np.isfinite(worth)]
    text = f"This rests on {rows} in {clusters}"
    # Rows that seem to be worth more than as many independent ones are rows whose likeness is not known well.
    told = known.size == 1 == worth.size and known[0] <= results.nobs * (1 + 1e-9)
    return f"{text}, worth about {known[0]:,.0f} independent rows." if told else f"{text}."


def _clusters(results: Any) -> str:
    parts = [
        f"{results.cov.n_clusters[axis_name(axis)]:,} clusters of {named(axis_name(axis))}" for axis in _axes(results)
    ]
    return " crossed with ".join(parts)


def _axes(results: Any) -> tuple[Any, ...]:
    return tuple(axis for axis in results.cov.axes if axis_name(axis) in results.cov.n_clusters)


def design_sentences(results: Any, rows: str = "rows") -> tuple[str, ...]:
    """Rows, clusters, and what they do to the error bars."""
    cov, n = results.cov, results.nobs
    if not cov.axes:
        what = "a passage, a prompt or a judge" if rows == "questions" else "a question, a passage, a prompt or a judge"
        shared = f"If some share {what}, the error bars are too short."
        return (f"{n:,} {rows} are treated as independent of each other. {shared}",)
    depend = f"{rows.capitalize()} of one cluster may depend on each other in any way."
    found = [f"{n:,} {rows} are in {_clusters(results)}. {depend}"]
    for axis in _axes(results):
        size = cluster_sizes(results.estimate, axis)
        found.append(
            f"The largest {named(axis_name(axis))} cluster holds {size.largest_share:.1%} of the {rows}. By their "
            f"sizes the {size.n_clusters:,} clusters are worth {size.effective_clusters:,.1f} equal ones."
        )
    effect = np.sqrt(results.design_effect().to_numpy(dtype=float))
    effect = effect[np.isfinite(effect)]
    if effect.size:
        low, high = f"{effect.min():.2f}", f"{effect.max():.2f}"
        times = f"{low} times" if low == high else f"{low} to {high} times"
        found.append(f"The standard errors are {times} those of independent {rows}.")
    dof = cov.dof()
    dof = dof[np.isfinite(dof)]
    if dof.size:
        low, high = f"{dof.min():,.1f}", f"{dof.max():,.1f}"
        spread = low if low == high else f"{low} to {high}"
        found.append(f"Intervals are those of t with {spread} degrees of freedom; fewer make them longer.")
    return tuple(found)
