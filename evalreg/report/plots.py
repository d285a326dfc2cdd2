"""Tables already computed, drawn with matplotlib a row a name: estimates, inflation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, IntArray
from evalreg.errors import AlignmentError
from evalreg.report.canvas import (
    BLUE,
    COLOURS,
    INK,
    MARKERS,
    FigSize,
    canvas,
    checked_columns,
    display_names,
    legend_above,
    limits,
    width_of,
)
from evalreg.report.named_rows import label_below, name_rows, named_rows, row_height

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["estimates_axes", "inflation_axes"]


def estimates_axes(
    table: pd.DataFrame,
    *,
    ranks: pd.DataFrame | None = None,
    zero: bool = False,
    xlabel: str = "estimate",
    note: str = "",
    figsize: FigSize = None,
    ax: Axes | None = None,
) -> Axes:
    """Estimates with intervals, one row each, in the order of the table.

    Parameters
    ----------
    table : DataFrame
        One row an estimate, the index its name; columns estimate, lower and upper, and joint_lower and joint_upper for
        a thin line besides. An end that is infinite is drawn as an arrow, a row without interval as a hollow point.
    ranks : DataFrame, optional
        Columns lower and upper, in the order of the table, written at the right.
    zero : bool, optional
        Whether to draw a line at zero.
    xlabel : str, optional
        What is estimated.
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
        Row i of the table is at y = i.

    Raises
    ------
    EmptyDataError, MissingColumnError, AlignmentError
        If the table has no rows, lacks a column, or `ranks` has another number of rows.
    NotAvailableError
        If matplotlib is not installed.

    Examples
    --------
    >>> from evalreg.plots import estimates_axes
    >>> table = pd.DataFrame({"estimate": [0.7, 0.6], "lower": [0.6, 0.5], "upper": [0.8, 0.7]}, index=["new", "old"])
    >>> ax = estimates_axes(table, xlabel="accuracy")
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['new', 'old']
    """
    values = checked_columns(table, ("estimate", "lower", "upper"))
    joint = checked_columns(table, ("joint_lower", "joint_upper")) if "joint_lower" in table else values[:, :0]
    n = len(table)
    if ranks is not None and len(ranks) != n:
        raise AlignmentError(f"`ranks` must have a row for each of the {n} rows of the table; got {len(ranks)}.")
    over = 0.95 if n > 40 else 0.75
    rows = named_rows(table.index, ax, figsize, over, note)
    drawn = [values, joint, np.zeros((n, int(zero)))]
    with canvas(ax, rows.width, n * rows.pitch + over, note + rows.note, figsize) as ax:
        name_rows(ax, rows)
        low, high = limits(np.hstack(drawn))
        ax.set_xlim(low, high)
        if zero:
            ax.axvline(0, color=INK, lw=0.8, ls=(0, (4, 3)), zorder=1)
        if joint.size:
            _intervals(ax, joint, lw=rows.at_most(0.9, 0.25), color=INK)
        _intervals(ax, values[:, 1:], lw=rows.at_most(2.6, 0.5) if n > 40 else 3.4, color=BLUE)
        _points(ax, values, 5.0 if n <= 40 else rows.at_most(4.0, 0.8))
        label_below(ax, xlabel, rows, 0.6 if ranks is not None else 0.0)
        if ranks is not None:
            _rank_texts(ax, ranks, rows.size, rows.named)
    return ax


def _intervals(ax: Axes, ends: FloatArray, *, lw: float, color: str) -> None:
    """Lines from end to end; where an end is infinite, to the margin with an arrow."""
    known = ~np.isnan(ends).any(axis=1)
    rows, inside = np.flatnonzero(known), np.clip(ends[known], *ax.get_xlim())
    ax.hlines(rows, inside[:, 0], inside[:, 1], color=color, lw=lw, capstyle="butt", zorder=2)
    for column, marker in ((0, "<"), (1, ">")):
        beyond = np.isinf(ends[known][:, column])
        if beyond.any():
            ax.plot(inside[beyond, column], rows[beyond], marker, color=color, ms=lw + 3, clip_on=False, zorder=3)


def _points(ax: Axes, values: FloatArray, size: float) -> None:
    rows, bare = np.arange(len(values)), np.isnan(values[:, 1:]).any(axis=1)
    look: dict[str, Any] = {"ms": size, "zorder": 4, "clip_on": False}
    ax.plot(values[~bare, 0], rows[~bare], "o", color=INK, mec="white", mew=0.15 * min(size, 4.0), **look)
    if bare.any():
        ax.plot(values[bare, 0], rows[bare], "o", color="white", mec=INK, mew=1.0, **look)
    for row in np.flatnonzero(np.isnan(values[:, 0])):
        ax.text(0.5, int(row), "no estimate", size=7, ha="center", va="center", transform=ax.get_yaxis_transform())


def _rank_texts(ax: Axes, ranks: pd.DataFrame, size: float, named: IntArray) -> None:
    ends = checked_columns(ranks, ("lower", "upper"))
    texts = [f"{low:.0f}" if low == high else f"{low:.0f}-{high:.0f}" for low, high in ends[named]]
    # Right-aligned in a column as wide as the widest, so that digits stand below each other.
    column = max(8 + 72 * width_of(texts, size), 30)
    style: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "color": INK, "annotation_clip": False}
    for row, text in zip(named, texts, strict=True):
        place: dict[str, Any] = {"xycoords": ax.get_yaxis_transform(), "xytext": (column, 0)}
        # The heading ends where they do, and is enough for the layout.
        ax.annotate(text, (1, row), size=size, va="center", gid="rank", in_layout=False, **place, **style)
    above = 20 if ax.spines["top"].get_visible() else 3
    ax.annotate("ranks", (1, 1), xycoords="axes fraction", xytext=(column, above), size=size, **style)


def inflation_axes(table: pd.DataFrame, *, note: str = "", figsize: FigSize = None, ax: Axes | None = None) -> Axes:
    """Standard errors by clustering as multiples of that of independent rows, one row a parameter.

    Parameters
    ----------
    table : DataFrame
        One row a parameter, the index its name; one column a clustering, and "together", drawn as a bar.
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
        Row i of the table is at y = i.

    Raises
    ------
    EmptyDataError
        If the table has no rows.
    NotAvailableError
        If matplotlib is not installed.

    Examples
    --------
    >>> from evalreg.plots import inflation_axes
    >>> table = pd.DataFrame({"prompt": [1.8], "judge": [2.5], "together": [2.9]}, index=["mean"])
    >>> [text.get_text() for text in inflation_axes(table).get_legend().get_texts()]
    ['prompt', 'judge', 'together']
    """
    values = checked_columns(table, tuple(table.columns))
    n, axes = len(table), [name for name in table.columns if name != "together"]
    over = 1.2 if n > 40 else 1.0
    rows = named_rows(table.index, ax, figsize, over, note)
    steps = (np.arange(len(axes)) - (len(axes) - 1) / 2) * min(0.25, 0.7 / max(len(axes), 1))
    with canvas(ax, rows.width, n * rows.pitch + over, note + rows.note, figsize) as ax:
        name_rows(ax, rows)
        # Ratios that hardly differ from 1 are not drawn as if they did.
        ax.set_xlim(limits(np.append(values, [0.9, 1.1])))
        ax.axvline(1, color=INK, lw=0.8, ls=(0, (4, 3)), zorder=1)
        place, mark = np.arange(n), 5.0 if n <= 40 else rows.at_most(3.6, 0.8)
        for k, name in enumerate(axes):
            colour, shape = COLOURS[k % 6], MARKERS[k % 6]
            fill, label = "white" if k % 2 else colour, display_names([name])[0]
            ax.plot(table[name], place + steps[k], shape, color=colour, mfc=fill, ms=mark, mew=1.0, label=label)
        if "together" in table:
            bar: dict[str, Any] = {
                "marker": "|",
                "color": INK,
                "ms": 72 * row_height(n)[0] * 0.75,
                "mew": 2.0,
                "zorder": 3,
            }
            ax.plot(table["together"], place, ls="", label="together", **bar)
        label_below(ax, "standard error / standard error of independent rows", rows)
        columns, away = min(values.shape[1], 5), 1.6 if n > 40 else 0.2
        room = rows.room if rows.asked else None
        legend = legend_above(ax, room, ncols=columns, handletextpad=0.3, borderaxespad=away)
        for entry in legend.get_lines():
            entry.set_markersize(min(entry.get_markersize(), 9))  # the bar of a row is taller than a line of text
    return ax
