"""Lines over a common horizontal axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, option
from evalreg.report.canvas import (
    COLOURS,
    DASHES,
    INK,
    FigSize,
    canvas,
    checked_columns,
    display_names,
    graph_size,
    inches,
    open_axes,
    spread,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def curve_axes(
    table: pd.DataFrame,
    *,
    xlabel: str = "",
    ylabel: str = "",
    log: Literal["", "x", "y", "xy"] = "",
    note: str = "",
    figsize: FigSize = None,
    ax: Axes | None = None,
) -> Axes:
    """Lines over a common horizontal axis, each with its name at its right end.

    Parameters
    ----------
    table : DataFrame
        The index is x, in increasing order; one column a line, its name the label.
    xlabel, ylabel : str, optional
        What is on the axes.
    log : {"", "x", "y", "xy"}, optional
        Axes with a logarithmic scale; none by default.
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
    ArgumentError
        If `log` is not one of these.
    EmptyDataError
        If the table has no rows.
    NotAvailableError
        If matplotlib is not installed.

    Examples
    --------
    >>> from evalreg.plots import curve_axes
    >>> n = np.array([100, 200, 400])
    >>> ax = curve_axes(pd.DataFrame({"paired": 1.3 / np.sqrt(n), "unpaired": 2.0 / np.sqrt(n)}, index=n), log="x")
    >>> len(ax.get_lines()), [text.get_text() for text in ax.texts]
    (2, ['paired', 'unpaired'])
    """
    option("log", log, ("", "x", "y", "xy"))
    x = checked_columns(table.index.to_frame(name="x"), ("x",))[:, 0]
    values = checked_columns(table, tuple(table.columns))
    with canvas(ax, *graph_size(3.8, figsize, ax), note, figsize) as ax:
        for name in log:
            _log_scale(ax, name)
        for k, line in enumerate(values.T):
            ax.plot(x, line, color=COLOURS[k % 6], ls=DASHES[k % 6], lw=1.8)
        ax.margins(x=0.02)
        open_axes(ax, xlabel, ylabel)
        _end_labels(ax, x, values, display_names(table.columns, 30))
    return ax


def _log_scale(ax: Axes, name: str) -> None:
    """A logarithmic axis with 1, 2, 5, 10 and so on, written out."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    getattr(ax, f"set_{name}scale")("log")
    axis = ax.xaxis if name == "x" else ax.yaxis
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def _end_labels(ax: Axes, x: FloatArray, values: FloatArray, names: Sequence[str]) -> None:
    """Names at the right, level with the last points of the lines, moved apart where these are close."""
    ax.set(xlim=ax.get_xlim(), ylim=ax.get_ylim())
    known = [k for k in range(len(names)) if np.isfinite(values[:, k]).any()]
    last = [int(np.flatnonzero(np.isfinite(values[:, k]))[-1]) for k in known]
    points = ax.transData.transform([(x[i], values[i, k]) for k, i in zip(known, last, strict=True)])
    ends = ax.transAxes.inverted().transform(points)
    heights = spread(ends[:, 1], 11.0 / (72 * inches(ax)[1]), 0.0, 1.0)
    for k, end, height in zip(known, ends, heights, strict=True):
        tie = {"arrowstyle": "-", "color": COLOURS[k % 6], "lw": 0.7, "shrinkA": 1, "shrinkB": 2, "relpos": (0, 0.5)}
        ax.annotate(
            names[k],
            tuple(end),
            xytext=(1.03, height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            arrowprops=tie,
            annotation_clip=False,
            parse_math=False,
            size=8,
            va="center",
            color=INK,
        )
