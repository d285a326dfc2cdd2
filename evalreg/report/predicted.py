"""Expected scores along a covariate, drawn with matplotlib: lines with bands, or points with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from evalreg.errors import ArgumentError
from evalreg.report.canvas import (
    COLOURS,
    DASHES,
    MARKERS,
    FigSize,
    canvas,
    checked_columns,
    display_names,
    graph_size,
    legend_above,
    open_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Bands of more groups cannot be told apart.
MOST_BANDS = 3


def predictions_axes(
    table: pd.DataFrame,
    *,
    xlabel: str = "",
    ylabel: str = "expected score",
    legend: str = "",
    note: str = "",
    figsize: FigSize = None,
    ax: Axes | None = None,
) -> Axes:
    """Expected scores with intervals along a covariate, one colour a group.

    Parameters
    ----------
    table : DataFrame
        Columns x, estimate, lower and upper, and group where there are several, at most six. Numbers x give lines with
        bands (from four groups on with bars at a few x), in the order of x; anything else points with bars.
    xlabel, ylabel : str, optional
        What is on the axes.
    legend : str, optional
        What the groups are.
    note : str, optional
        Sentences below the figure.
    figsize : float or (float, float), optional
        Inches of a new figure: its width, such as 3.3 for a column of a paper, or width and height. By default what
        fits.
    ax : Axes, optional
        To draw into; a new figure by default.

    Returns
    -------
    Axes
        Drawn into.

    Raises
    ------
    EmptyDataError, MissingColumnError
        If the table has no rows, or lacks a column.
    ArgumentError
        If there are more than six groups.
    NotAvailableError
        If matplotlib is not installed.

    Examples
    --------
    >>> from evalreg.plots import predictions_axes
    >>> table = pd.DataFrame({"x": [1, 2], "estimate": [0.6, 0.7], "lower": [0.5, 0.6], "upper": [0.7, 0.8]})
    >>> ax = predictions_axes(table, xlabel="words")
    >>> len(ax.get_lines()), ax.get_xlabel()
    (1, 'words')
    """
    checked_columns(table, ("estimate", "lower", "upper"))
    numeric = pd.api.types.is_numeric_dtype(table["x"]) and not pd.api.types.is_bool_dtype(table["x"])
    several = "group" in table
    parts = [(str(name), part) for name, part in table.groupby("group", sort=False)] if several else [("", table)]
    if len(parts) > len(COLOURS):
        raise ArgumentError(f"a figure tells {len(COLOURS)} groups apart; got {len(parts)}. Choose among the levels.")
    levels = list(dict.fromkeys(table["x"]))
    with canvas(ax, *graph_size(3.8, figsize, ax), note, figsize) as ax:
        for k, ((_, part), label) in enumerate(zip(parts, display_names([n for n, _ in parts], 30), strict=True)):
            if numeric:
                _line(ax, part.sort_values("x"), k, label, bands=len(parts) <= MOST_BANDS)
            else:
                step = (k - (len(parts) - 1) / 2) * min(0.14, 0.7 / len(parts))
                _bars(ax, part, np.array([levels.index(x) for x in part["x"]]) + step, k, label)
        if not numeric:
            names = display_names(levels, 24)
            turned = sum(map(len, names)) > 70
            ax.set_xticks(
                np.arange(len(levels)), names, rotation=30 if turned else 0, ha="right" if turned else "center"
            )
            ax.set_xlim(-0.5, len(levels) - 0.5)
        open_axes(ax, xlabel, ylabel)
        for text in ax.get_xticklabels():
            text.set_parse_math(False)
        if several:
            style: dict[str, Any] = {"title_fontsize": 8, "alignment": "left"}
            legend_above(ax, title=legend or None, ncols=min(len(parts), 3), **style)
    return ax


def _line(ax: Axes, part: pd.DataFrame, k: int, label: str, bands: bool) -> None:
    """A line with a band, or with bars at a few values, other ones for each group."""
    x, low, high = (part[name].to_numpy(dtype=float) for name in ("x", "lower", "upper"))
    if bands:
        ax.fill_between(x, low, high, color=COLOURS[k], alpha=0.16, lw=0)
    else:
        step = max(len(x) // 4, 1)
        some = slice(k % step, None, step)
        ax.vlines(x[some], low[some], high[some], color=COLOURS[k], lw=1.4)
    ax.plot(x, part["estimate"], color=COLOURS[k], ls=DASHES[k], lw=1.8, label=label)
    ax.margins(x=0.02)


def _bars(ax: Axes, part: pd.DataFrame, x: Any, k: int, label: str) -> None:
    ax.vlines(x, part["lower"], part["upper"], color=COLOURS[k], lw=2.0)
    ax.plot(x, part["estimate"], MARKERS[k], color=COLOURS[k], mec="white", mew=0.6, ms=6, label=label)
