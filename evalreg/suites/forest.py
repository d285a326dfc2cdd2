"""Forest plots: a row for each eval, and their average at the foot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from evalreg.checks import fraction, listed
from evalreg.errors import ArgumentError
from evalreg.report.canvas import INK, FigSize
from evalreg.report.plots import estimates_axes
from evalreg.report.tables import in_lines
from evalreg.suites.average import EvalAverage

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Letters of a line of names of evals.
LINE = 40


def forest_axes(
    suite: Any,
    name: str | None,
    average: EvalAverage | Literal[False] | None,
    alpha: float,
    figsize: FigSize,
    ax: Axes | None,
) -> Axes:
    """The figure of `Evals.plot`: `name` is a model, or a difference "model - baseline"."""
    fraction("alpha", alpha)
    frame, differences = suite.to_frame(alpha), "difference" in suite.to_frame(alpha)
    names = [" - ".join(map(str, key[1:])) for key in frame.index]
    name = _chosen(name, names, "difference" if differences else "model")
    rows = frame[np.array(names) == name].rename(columns={"difference": "estimate"})
    table = rows[["estimate", "lower", "upper"]].set_axis(rows.index.get_level_values(0))
    if average is None and len(table) > 1:
        average = _averaged(suite, name)
    foot = None if average is False else average
    level = f"{100 * (1 - alpha):.4g}%"
    joint = differences and any(suite.parts[part].adjust == "single-step" for part in table.index)
    together = " that hold for all differences of an eval at once (single-step)" if joint else " of each eval by itself"
    note = f"Bars: {level} intervals{together}."
    if foot is not None:
        table = pd.concat([table, _foot(foot, name, table, alpha)])
        note += f" {_told(foot)}"
    if bool(table["lower"].isna().any()):
        note += " Hollow: no standard error can be computed."
    outcomes = list(dict.fromkeys(_outcome(suite.parts[part]) for part in rows.index.get_level_values(0)))
    what = outcomes[0] if len(outcomes) == 1 else "score"
    label = f"{name}: {'difference in ' if differences else ''}{what}"
    label = "\n".join(in_lines(label, 60))
    ax = estimates_axes(table, zero=differences, xlabel=label, note=note, figsize=figsize, ax=ax)
    if figsize is None:
        _name_whole(ax, list(map(str, table.index)))
    if foot is not None:
        n = len(table) - 1
        ax.axhline(n - 0.5, color=INK, lw=0.8)
        ax.plot(table["estimate"].iloc[n], n, "D", color=INK, mec="white", mew=0.6, ms=7, zorder=5, gid="average")
    return ax


def _chosen(name: str | None, names: list[str], what: str) -> str:
    """The model or the difference that is drawn."""
    known = list(dict.fromkeys(names))
    if name is None and len(known) == 1:
        return known[0]
    if name is None or name not in known:
        got = "none" if name is None else repr(name)
        raise ArgumentError(f"`name` must be the {what} to draw, one of {listed(known)}; got {got}.")
    return name


def _averaged(suite: Any, name: str) -> EvalAverage:
    found: EvalAverage = suite.average(models=[name])
    return found


def _foot(average: Any, name: str, table: pd.DataFrame, alpha: float) -> pd.DataFrame:
    """The row of the average, which must be of this name over the evals that are drawn."""
    if not isinstance(average, EvalAverage) or name not in average.names or set(average.evals) != set(table.index):
        raise ArgumentError(
            f"`average` must be what `average()` returned, of {name!r} over these {len(table)} evals; False leaves it "
            "out."
        )
    found: pd.DataFrame = average.to_frame(alpha).loc[[name], ["estimate", "lower", "upper"]].set_axis(["Average"])
    return found


def _told(average: EvalAverage) -> str:
    weights = (
        "weighted by precision"
        if not average.weights
        else "equal weights"
        if len(set(average.weights)) == 1
        else "weights "
        + ", ".join(f"{name} {weight:.3g}" for name, weight in zip(average.evals, average.weights, strict=True))
    )
    about = "about these evals only" if average.tasks == "fixed" else "about tasks of which these evals are a sample"
    return f"Diamond: average ({weights}; {about})."


def _outcome(part: Any) -> str:
    return str(getattr(part, "results", part).estimate.about.outcome)


def _name_whole(ax: Axes, names: list[str]) -> None:
    """Names of evals in full: on two lines where rows are high enough, else on one."""
    few = len(names) <= 12
    whole = [" ".join(name.split()) for name in names]
    lines = ["\n".join(in_lines(name, max(LINE, -(-len(name) // 2) + 4))) if few else name for name in whole]
    size = ax.get_yticklabels()[0].get_fontsize()
    ax.set_yticks(np.arange(len(names)), lines, size=size, color=INK, parse_math=False, usetex=False, linespacing=1.0)
