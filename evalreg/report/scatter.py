"""Scatters: standard errors against scores, p-values against differences, inflation against correlation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray
from evalreg.errors import EmptyDataError
from evalreg.report.canvas import (
    COLOURS,
    INK,
    MUTED,
    FigSize,
    canvas,
    checked_columns,
    graph_size,
    legend_above,
    open_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# p-values below this are drawn at it.
LEAST = 1e-6
PARTS = (
    ("se_total", "o", COLOURS[0], "total"),
    ("se_data", "s", COLOURS[1], "from questions"),
    ("se_prediction", "^", COLOURS[2], "from answers"),
)
LEGEND = {"ncols": 4, "handletextpad": 0.4, "columnspacing": 1.2, "borderaxespad": 0.2}


def errors_axes(
    models: pd.DataFrame, *, xlabel: str, n: int | None, figsize: FigSize = None, ax: Axes | None = None
) -> Axes:
    """Total, data and prediction standard errors of models against their scores.

    `n`: questions of scores in [0, 1], for the line sqrt(p(1 - p)/n) of one 0/1 answer to each; None without.
    """
    note = "NaN parts are left out: a question with one answer, or no variance left for questions."
    missing = bool(models[["se_data", "se_prediction"]].isna().to_numpy().any())
    with canvas(ax, *graph_size(4.0, figsize, ax), note if missing else "", figsize) as ax:
        x, size = models["score"].to_numpy(dtype=float), 5.0 if len(models) <= 40 else 3.6
        for name, marker, colour, label in PARTS:
            y = models[name].to_numpy(dtype=float)
            if np.isfinite(y).any():
                fill = colour if name == "se_total" else "white"
                ax.plot(x, y, marker, color=colour, mfc=fill, ms=size, mew=1.0, label=label, clip_on=False)
        low, high = _widened(x)
        if n is not None:
            p = np.linspace(max(low, 0.0), min(high, 1.0), 201)
            ax.plot(p, np.sqrt(p * (1 - p) / n), color=MUTED, lw=1.0, ls=(0, (4, 3)), label="one 0/1 answer each")
        ax.set_xlim(low, high)
        ax.set_ylim(bottom=0)
        open_axes(ax, xlabel, "standard error")
        legend_above(ax, **LEGEND)
    return ax


def differences_axes(
    pairs: pd.DataFrame, *, alpha: float, detectable: float, figsize: FigSize = None, ax: Axes | None = None
) -> Axes:
    """p-values of pairs against the size of their differences: of the test in use, and of the sign test."""
    from matplotlib.ticker import FuncFormatter

    known = pairs[pairs["p_value"].notna()]
    # Differences beyond those that anything is left to tell of would fill most of the width.
    told = known[(known["p_value"] >= LEAST) | (known["sign_p_value"] >= LEAST)]
    most = 1.1 * float((told if len(told) else known)["difference"].abs().max())
    beyond = int((known["difference"].abs() > most).sum())
    note = f"p-values under {LEAST:g} are drawn there. Each pair by itself: not adjusted for their number."
    note += f" {beyond} pairs that differ by more, all with p under {LEAST:g}, are not shown." if beyond else ""
    with canvas(ax, *graph_size(4.0, figsize, ax), note, figsize) as ax:
        known = known[known["difference"].abs() <= most]
        size = 5.0 if len(known) <= 100 else 2.6
        x = known["difference"].abs().to_numpy(dtype=float)
        for name, marker, colour, label in (
            ("sign_p_value", "s", COLOURS[1], "sign test"),
            ("p_value", "o", COLOURS[0], "paired test"),
        ):
            p = np.maximum(known[name].to_numpy(dtype=float), LEAST)
            fill = colour if name == "p_value" else "none"
            ax.plot(x, p, marker, color=colour, mfc=fill, ms=size, mew=0.7, label=label, clip_on=False)
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.set_ylim(LEAST, 1.0)
        ax.set_xlim(0, max(most, 1.05 * detectable) if np.isfinite(detectable) else most)
        ax.axhline(alpha, color=INK, lw=0.8, ls=(0, (4, 3)), zorder=1, label=f"p = {alpha:g}")
        if np.isfinite(detectable):
            ax.axvline(detectable, color=MUTED, lw=0.8, ls=(0, (1.5, 1.5)), zorder=1, label="detectable")
        open_axes(ax, "difference of two models", "p-value")
        legend_above(ax, **LEGEND)
    return ax


def dependence_axes(table: pd.DataFrame, *, note: str = "", figsize: FigSize = None, ax: Axes | None = None) -> Axes:
    """Standard errors over those of independent rows against intraclass correlations, one point a parameter.

    Parameters
    ----------
    table : DataFrame
        What `Results.dependence` returns; rows without a correlation are left out.
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
        A marker for each clustering, bars for the intervals of its correlations, and a line for what they imply,
        sqrt(1 + (m - 1) ICC) with m the median of `mean_size`.

    Raises
    ------
    EmptyDataError, MissingColumnError
        If no row has a correlation and a ratio, or the table lacks a column.
    NotAvailableError
        If matplotlib is not installed.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=50, questions_per_passage=20, icc=0.1, seed=1)
    >>> axes = er.plots.dependence_axes(er.mean(log, groups="passage").dependence())
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['passage (clusters of 20)', 'implied']
    """
    checked_columns(table, ("mean_size", "icc", "lower", "upper", "se_ratio"))
    known = table[table["icc"].notna() & table["se_ratio"].notna()]
    if known.empty:
        raise EmptyDataError("no row of the table has a correlation and a standard error, so there is nothing to draw.")
    names = known.index.get_level_values(0)
    with canvas(ax, *graph_size(4.0, figsize, ax), note, figsize) as ax:
        size, ends = 5.0 if len(known) <= 40 else 3.0, known[["icc", "lower", "upper"]].to_numpy(dtype=float)
        low, high = _widened(np.append(ends, 0.0))
        for k, name in enumerate(dict.fromkeys(names)):
            own, colour, shape = known[names == name], COLOURS[k % 6], "os^DvP"[k % 6]
            x, y, m = (own[column].to_numpy(dtype=float) for column in ("icc", "se_ratio", "mean_size"))
            ax.hlines(y, own["lower"], own["upper"], color=colour, lw=0.8, alpha=0.5, zorder=2)
            ax.plot(x, y, shape, color=colour, ms=size, label=f"{name} (clusters of {np.median(m):.4g})", zorder=3)
            grid = np.linspace(max(low, -1 / max(np.median(m) - 1, 1.0)), min(high, 1.0), 201)
            ax.plot(grid, np.sqrt(np.maximum(1 + (np.median(m) - 1) * grid, 0.0)), color=colour, lw=1.0, ls=(0, (4, 3)))
        ax.plot([], [], color=MUTED, lw=1.0, ls=(0, (4, 3)), label="implied")
        ax.axhline(1, color=INK, lw=0.8, zorder=1)
        ax.set_xlim(low, high)
        ax.set_ylim(0, 1.15 * max(float(known["se_ratio"].max()), 1.0))
        open_axes(ax, "intraclass correlation, with its interval", "standard error over that of independent rows")
        legend_above(ax, **LEGEND)
    return ax


def _widened(x: FloatArray) -> tuple[float, float]:
    low, high = float(np.nanmin(x)), float(np.nanmax(x))
    room = max(0.08 * (high - low), 0.02 * max(abs(low), abs(high), 1e-6))
    return low - room, high + room
