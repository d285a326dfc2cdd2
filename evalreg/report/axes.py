"""Tables already computed, drawn with matplotlib: a row a name, lines, scatters, and pairs as a matrix.

matplotlib's own constrained layout gives names, legends and notes their room.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, listed, option, real_numbers, visible
from evalreg.errors import (
    AlignmentError,
    ArgumentError,
    ArgumentTypeError,
    EmptyDataError,
    MissingColumnError,
    NonNumericError,
    NotAvailableError,
)
from evalreg.report.tables import PAIRED, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FigSize: TypeAlias = float | tuple[float, float | None] | None
"""Inches of a new figure: its width, or width and height; what fits by default."""

INK, MUTED, GRID, BLUE = "#1a1a1a", "#767676", "#d9d9d9", "#0072b2"
# Okabe and Ito's colours, which are told apart by eyes of every kind; shapes and dashes tell the same in grey.
COLOURS = (BLUE, "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9")
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (3, 3)), (0, (8, 3)))
DOTTED: tuple[int, tuple[int, int]] = (0, (4, 3))
# Light enough at both ends for dark text.
DIVERGING = ("#d9822b", "#f3cfa6", "#ffffff", "#bcdcf2", "#6fb1e0")
# Letters of a name; rows or columns of which each has its name; rows that have the larger pitch.
NAME_WIDTH, MOST_NAMED, FEW_ROWS = 40, 250, 40
# Inches of a new figure across, and characters of a note to an inch.
USUAL_WIDTH, NOTE_LETTERS = 6.5, 17
# p-values below this are drawn at it.
LEAST = 1e-6
PARTS = {"se_total": "total", "se_data": "from questions", "se_prediction": "from answers"}


# Axes


def figure_size(figsize: FigSize) -> tuple[float, float | None]:
    """Width of a new figure in inches, and its height where it is set."""
    width, height = figsize if isinstance(figsize, tuple | list) and len(figsize) == 2 else (figsize, None)
    width = USUAL_WIDTH if width is None else width
    if not _is_length(width) or width < 2 or not (height is None or _is_length(height)):
        raise ArgumentError(
            "`figsize` must be a width in inches, such as 3.3, of 2 to 500, or width and height, such as (3.3, 4); "
            f"got {figsize!r}."
        )
    return width, height


def _is_length(side: object) -> bool:
    return type(side) is not bool and isinstance(side, Real) and 1 <= float(side) <= 500


@contextmanager
def canvas(ax: Axes | None, height: float, note: str, figsize: FigSize) -> Iterator[Axes]:
    """Axes to draw into, in the style of the figures; matplotlib's global settings come back as they were.

    The height is that of a new figure without its note.
    """
    try:
        import matplotlib.pyplot as plt
        from matplotlib.axes import Axes as AnyAxes
    except ImportError as problem:
        raise NotAvailableError(
            'figures need matplotlib, which is not installed. Run: pip install "evalreg[plot]"'
        ) from problem
    if ax is not None and not isinstance(ax, AnyAxes):
        raise ArgumentTypeError(f"`ax` must be matplotlib Axes; got {type(ax).__name__}.")
    if ax is not None and figsize is not None:
        raise ArgumentError("`figsize` is the size of a new figure, and `ax` has one. Leave one of them out.")
    with plt.style.context(Path(__file__).with_name("templates") / "figures.mplstyle"):
        if ax is not None:
            yield ax
            return
        width, whole = figure_size(figsize)
        lines = textwrap.wrap(visible(note), int(NOTE_LETTERS * width))
        whole = height + 0.14 * len(lines) if whole is None else whole
        figure, new_axes = plt.subplots(figsize=(width, whole), layout="constrained")
        try:
            yield new_axes
            if lines:
                figure.supxlabel("\n".join(lines), size=7.5, color=MUTED, x=0.01, ha="left")
        except BaseException:
            plt.close(figure)
            raise


def checked_columns(table: pd.DataFrame, names: tuple[Any, ...]) -> FloatArray:
    """Columns of a table as an array, shape (n_rows, n_columns)."""
    if not isinstance(table, pd.DataFrame):
        raise ArgumentTypeError(f"a figure is drawn of a DataFrame; got {type(table).__name__}.")
    missing = [name for name in names if name not in table]
    if missing:
        raise MissingColumnError(f'the table has no column "{missing[0]}", which the figure shows.', column=missing[0])
    if table.empty:
        raise EmptyDataError("the table has no rows, so there is nothing to draw.")
    try:
        return real_numbers(table[list(names)])
    except (TypeError, ValueError) as error:
        raise NonNumericError(f"the columns {listed(names)} of the table must hold numbers ({error}).") from None


def display_names(names: Iterable[object], width: int = NAME_WIDTH) -> list[str]:
    """Names on one line, cut in their middle where they are long, and numbered where two would be alike then.

    Of a difference each of the two names is cut by itself, so that both can be told.
    """
    whole = [visible(PAIRED.join(map(str, name)) if isinstance(name, tuple) else str(name)) for name in names]
    short = [shorten(name, width) for name in whole]
    if len(set(short)) == len(set(whole)):
        return short
    return [f"{place}. {shorten(name, width - len(f'{place}. '))}" for place, name in enumerate(whole, 1)]


def name_width(ax: Axes) -> int:
    """Letters of a name in a figure: fewer in one that is narrower than usual."""
    figure: Any = ax.figure
    return int(NAME_WIDTH * min(1.0, float(figure.get_size_inches()[0]) / USUAL_WIDTH))


def limits(values: FloatArray) -> tuple[float, float]:
    """Ends of an axis that shows all finite values with some room at both sides."""
    finite = values[np.isfinite(values)]
    low, high = (float(np.min(finite)), float(np.max(finite))) if finite.size else (0.0, 1.0)
    room = 0.05 * (high - low)
    if room <= 1e-9 * max(abs(low), abs(high)):
        room = 0.05 * max(abs(low), abs(high)) or 0.5
    return low - room, high + room


def _marks(ax: Axes, x: Any, y: Any, k: int, size: float, label: str, fill: str = "", **style: Any) -> None:
    """Points of the kth kind, of its colour and shape, filled with the colour or with another."""
    colour = COLOURS[k % 6]
    ax.plot(x, y, MARKERS[k % 6], color=colour, mfc=fill or colour, ms=size, label=label, **style)


def legend_above(ax: Axes, title: str | None = None) -> None:
    """A legend above the axes."""
    n = len(ax.get_legend_handles_labels()[1])
    ax.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=min(n, 4), title=title, handletextpad=0.4, borderaxespad=0.2
    )


def as_image(ax: Axes) -> str:
    """The figure of axes, which is closed, as the source of an image: SVG in which text is text."""
    import base64
    import io

    import matplotlib.pyplot as plt

    buffer, figure = io.BytesIO(), ax.get_figure(root=True)
    assert figure is not None
    try:
        with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "evalreg"}):
            figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    finally:
        plt.close(figure)
    return f"data:image/svg+xml;base64,{base64.b64encode(buffer.getvalue()).decode()}"


# A row a name


def _rows_height(n: int) -> float:
    return 0.9 + n * (0.3 if n <= FEW_ROWS else 0.16)


def _name_rows(ax: Axes, index: Iterable[object], n: int) -> None:
    """Names at the left, from the top down; of more rows than have room for a name, every so many."""
    step = -(-n // MOST_NAMED)
    marks = np.arange(0, n, step)
    names = display_names(index, name_width(ax))
    ax.set_yticks(marks, [names[i] for i in marks], size=8 if n <= FEW_ROWS else 7)
    ax.set_ylim(n - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    if n > FEW_ROWS:
        ax.tick_params(axis="x", top=True, labeltop=True)
        ax.spines["top"].set_visible(True)


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
    xlabel : str, default "estimate"
        What is estimated.
    note : str, optional
        Sentences below the figure; none by default.
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
    many = n > FEW_ROWS
    with canvas(ax, _rows_height(n), note, figsize) as ax:
        _name_rows(ax, table.index, n)
        ax.set_xlim(limits(np.hstack([values, joint, np.zeros((n, int(zero)))])))
        if zero:
            ax.axvline(0, color=INK, lw=0.8, ls=DOTTED, zorder=1)
        if joint.size:
            _intervals(ax, joint, lw=0.6 if many else 0.9, color=INK)
        _intervals(ax, values[:, 1:], lw=2.0 if many else 3.4, color=BLUE)
        _points(ax, values, 3.2 if many else 5.0)
        ax.set_xlabel(visible(xlabel, keep="\n"))
        if ranks is not None:
            ends = checked_columns(ranks, ("lower", "upper"))
            texts = [f"{low:.0f}" if low == high else f"{low:.0f}-{high:.0f}" for low, high in ends]
            place: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center", "size": 7 if many else 8}
            for row, text in enumerate(texts):
                ax.text(1.01, row, text, gid="rank", **place)
            ax.text(1.01, -0.9 if many else -0.7, "ranks", **place)
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
    ax.plot(values[~bare, 0], rows[~bare], "o", color=INK, mec="white", mew=0.6, ms=size, zorder=4)
    if bare.any():
        ax.plot(values[bare, 0], rows[bare], "o", color="white", mec=INK, mew=1.0, ms=size, zorder=4)
    for row in np.flatnonzero(np.isnan(values[:, 0])):
        ax.text(0.5, int(row), "no estimate", size=7, ha="center", va="center", transform=ax.get_yaxis_transform())


def inflation_axes(table: pd.DataFrame, *, note: str = "", figsize: FigSize = None, ax: Axes | None = None) -> Axes:
    """Standard errors by clustering as multiples of that of independent rows, one row a parameter.

    Parameters
    ----------
    table : DataFrame
        One row a parameter, the index its name; one column a clustering, and "together", drawn as a bar.
    note : str, optional
        Sentences below the figure; none by default.
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
    steps = (np.arange(len(axes)) - (len(axes) - 1) / 2) * min(0.25, 0.7 / max(len(axes), 1))
    with canvas(ax, _rows_height(n) + 0.2, note, figsize) as ax:
        _name_rows(ax, table.index, n)
        # Ratios that hardly differ from 1 are not drawn as if they did.
        ax.set_xlim(limits(np.append(values, [0.9, 1.1])))
        ax.axvline(1, color=INK, lw=0.8, ls=DOTTED, zorder=1)
        place, size = np.arange(n), 5.0 if n <= FEW_ROWS else 3.2
        for k, name in enumerate(axes):
            fill = "white" if k % 2 else ""
            _marks(ax, table[name], place + steps[k], k, size, display_names([name])[0], fill)
        if "together" in table:
            ax.plot(table["together"], place, ls="", marker="|", color=INK, ms=2 * size, mew=2.0, label="together")
        ax.set_xlabel("standard error / standard error of independent rows")
        legend_above(ax)
    return ax


# Lines


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
    """Lines over a common horizontal axis, with their names at the right in the order in which they end.

    Parameters
    ----------
    table : DataFrame
        The index is x, in increasing order; one column a line, its name the label.
    xlabel, ylabel : str, optional
        What is on the axes.
    log : {"", "x", "y", "xy"}, optional
        Axes with a logarithmic scale; none by default.
    note : str, optional
        Sentences below the figure; none by default.
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
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['unpaired', 'paired']
    """
    option("log", log, ("", "x", "y", "xy"))
    x = checked_columns(table.index.to_frame(name="x"), ("x",))[:, 0]
    values = checked_columns(table, tuple(table.columns))
    with canvas(ax, 3.8, note, figsize) as ax:
        for name in log:
            _log_scale(ax, name)
        for k, (line, name) in enumerate(zip(values.T, display_names(table.columns, 30), strict=True)):
            ax.plot(x, line, color=COLOURS[k % 6], ls=DASHES[k % 6], lw=1.8, label=name)
        ax.margins(x=0.02)
        # As high as they end.
        ends = pd.DataFrame(values).ffill().iloc[-1].sort_values(ascending=False, na_position="last", kind="stable")
        lines = [ax.lines[k - values.shape[1]] for k in ends.index]
        ax.legend(handles=lines, loc="center left", bbox_to_anchor=(1, 0.5))
        ax.set(xlabel=xlabel, ylabel=ylabel)
    return ax


def _log_scale(ax: Axes, name: str) -> None:
    """A logarithmic axis with 1, 2, 5, 10 and so on, written out."""
    from matplotlib.ticker import LogLocator

    getattr(ax, f"set_{name}scale")("log")
    axis = ax.xaxis if name == "x" else ax.yaxis
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:,.10g}")
    axis.set_minor_formatter("")


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
        What the groups are; no title by default.
    note : str, optional
        Sentences below the figure; none by default.
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
    with canvas(ax, 3.8, note, figsize) as ax:
        for k, ((_, part), label) in enumerate(zip(parts, display_names([n for n, _ in parts], 30), strict=True)):
            if numeric:
                _line(ax, part.sort_values("x"), k, label, bands=len(parts) <= 3)
            else:
                step = (k - (len(parts) - 1) / 2) * min(0.14, 0.7 / len(parts))
                x = np.array([levels.index(level) for level in part["x"]]) + step
                ax.vlines(x, part["lower"], part["upper"], color=COLOURS[k], lw=2.0)
                _marks(ax, x, part["estimate"], k, 6, label, mec="white", mew=0.6)
        if not numeric:
            names = display_names(levels, 24)
            turned = sum(map(len, names)) > 70
            ax.set_xticks(np.arange(len(levels)), names, rotation=30 if turned else 0)
            ax.set_xlim(-0.5, len(levels) - 0.5)
        ax.set(xlabel=xlabel, ylabel=ylabel)
        if several:
            legend_above(ax, legend or None)
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


# Scatters


def errors_axes(
    models: pd.DataFrame, *, xlabel: str, n: int | None, figsize: FigSize = None, ax: Axes | None = None
) -> Axes:
    """Total, data and prediction standard errors of models against their scores.

    `n`: questions of scores in [0, 1], for the line sqrt(p(1 - p)/n) of one 0/1 answer to each; None without.
    """
    note = "NaN parts are left out: a question with one answer, or no variance left for questions."
    missing = bool(models[["se_data", "se_prediction"]].isna().to_numpy().any())
    with canvas(ax, 4.0, note if missing else "", figsize) as ax:
        x, size = models["score"].to_numpy(dtype=float), 5.0 if len(models) <= 40 else 3.6
        for k, (name, label) in enumerate(PARTS.items()):
            if models[name].notna().any():
                _marks(ax, x, models[name], k, size, label, "white" if k else "", mew=1.0, clip_on=False)
        low, high = limits(x)
        if n is not None:
            p = np.linspace(max(low, 0.0), min(high, 1.0), 201)
            ax.plot(p, np.sqrt(p * (1 - p) / n), color=MUTED, lw=1.0, ls=DOTTED, label="one 0/1 answer each")
        ax.set_xlim(low, high)
        ax.set_ylim(bottom=0)
        ax.set(xlabel=xlabel, ylabel="standard error")
        legend_above(ax)
    return ax


def differences_axes(
    pairs: pd.DataFrame, *, alpha: float, detectable: float, figsize: FigSize = None, ax: Axes | None = None
) -> Axes:
    """p-values of pairs against the size of their differences: of the test in use, and of the sign test."""
    known = pairs[pairs["p_value"].notna()]
    # Differences beyond those that anything is left to tell of would fill most of the width.
    above_least = known[(known["p_value"] >= LEAST) | (known["sign_p_value"] >= LEAST)]
    most = 1.1 * float((above_least if len(above_least) else known)["difference"].abs().max())
    beyond = int((known["difference"].abs() > most).sum())
    note = f"p-values under {LEAST:g} are drawn there. Each pair by itself: not adjusted for their number."
    note += f" {beyond} pairs that differ by more, all with p under {LEAST:g}, are not shown." if beyond else ""
    with canvas(ax, 4.0, note, figsize) as ax:
        known = known[known["difference"].abs() <= most]
        size = 5.0 if len(known) <= 100 else 2.6
        x = known["difference"].abs().to_numpy(dtype=float)
        for k, name, label, fill in ((1, "sign_p_value", "sign test", "none"), (0, "p_value", "paired test", "")):
            _marks(ax, x, known[name].clip(LEAST), k, size, label, fill, mew=0.7, clip_on=False)
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter("{x:g}")
        ax.set_ylim(LEAST, 1.0)
        ax.set_xlim(0, max(most, 1.05 * detectable) if np.isfinite(detectable) else most)
        ax.axhline(alpha, color=INK, lw=0.8, ls=DOTTED, zorder=1, label=f"p = {alpha:g}")
        if np.isfinite(detectable):
            ax.axvline(detectable, color=MUTED, lw=0.8, ls=(0, (1.5, 1.5)), zorder=1, label="detectable")
        ax.set(xlabel="difference of two models", ylabel="p-value")
        legend_above(ax)
    return ax


def dependence_axes(table: pd.DataFrame, *, note: str = "", figsize: FigSize = None, ax: Axes | None = None) -> Axes:
    """Standard errors over those of independent rows against intraclass correlations, one point a parameter.

    Parameters
    ----------
    table : DataFrame
        What `Results.dependence` returns; rows without a correlation are left out.
    note : str, optional
        Sentences below the figure; none by default.
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
    with canvas(ax, 4.0, note, figsize) as ax:
        size, ends = 5.0 if len(known) <= 40 else 3.0, known[["icc", "lower", "upper"]].to_numpy(dtype=float)
        low, high = limits(np.append(ends, 0.0))
        for k, name in enumerate(dict.fromkeys(names)):
            rows, colour = known[names == name], COLOURS[k % 6]
            x, y, m = (rows[column].to_numpy(dtype=float) for column in ("icc", "se_ratio", "mean_size"))
            ax.hlines(y, rows["lower"], rows["upper"], color=colour, lw=0.8, alpha=0.5, zorder=2)
            _marks(ax, x, y, k, size, f"{name} (clusters of {np.median(m):.4g})", zorder=3)
            grid = np.linspace(max(low, -1 / max(np.median(m) - 1, 1.0)), min(high, 1.0), 201)
            ax.plot(grid, np.sqrt(np.maximum(1 + (np.median(m) - 1) * grid, 0.0)), color=colour, lw=1.0, ls=DOTTED)
        ax.plot([], [], color=MUTED, lw=1.0, ls=DOTTED, label="implied")
        ax.axhline(1, color=INK, lw=0.8, zorder=1)
        ax.set_xlim(low, high)
        ax.set_ylim(0, 1.15 * max(float(known["se_ratio"].max()), 1.0))
        ax.set(
            xlabel="intraclass correlation, with its interval", ylabel="standard error over that of independent rows"
        )
        legend_above(ax)
    return ax


# Pairs


def pairs_axes(
    table: pd.DataFrame,
    *,
    order: Sequence[Any] | None = None,
    alpha: float = 0.05,
    note: str = "",
    figsize: FigSize = None,
    ax: Axes | None = None,
) -> Axes:
    """Differences of all pairs as a matrix, row minus column, with a dot where one differs from zero.

    Parameters
    ----------
    table : DataFrame
        From `Results.pairwise`: indexed by (left, right), columns difference and p_adjusted, or p_value without.
    order : sequence, optional
        Names from the top down; in order of appearance by default.
    alpha : float, optional
        Level of those p-values below which a cell is marked, 0.05 by default.
    note : str, optional
        Sentences below the figure; none by default.
    figsize : float or (float, float), optional
        Inches of a new figure: its width, such as 3.3 for a column of a paper, or width and height. By default what
        fits.
    ax : Axes, optional
        To draw into; a new figure by default.

    Returns
    -------
    Axes
        Row i is the i-th name, and so is column i. Of more than twelve names rows have a number too, and columns the
        number alone.

    Raises
    ------
    EmptyDataError, MissingColumnError
        If the table has no rows, or lacks a column or a name.
    NotAvailableError
        If matplotlib is not installed.

    Examples
    --------
    >>> from evalreg.plots import pairs_axes
    >>> pairs = pd.MultiIndex.from_tuples([("a", "b"), ("a", "c"), ("b", "c")])
    >>> ax = pairs_axes(pd.DataFrame({"difference": [0.1, 0.3, 0.2], "p_adjusted": [0.6, 0.001, 0.02]}, index=pairs))
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['a', 'b', 'c']
    """
    from matplotlib.colors import LinearSegmentedColormap

    adjusted = "p_adjusted" in table.columns or "p_value" not in table.columns
    values = checked_columns(table, ("difference", "p_adjusted" if adjusted else "p_value"))
    names, difference, p = _square(table.index, values, order)
    n = len(names)
    most = float(np.nanmax(np.abs(difference))) or 1.0
    height = 1.2 + n * (0.4 if n <= 12 else 0.2 if n <= FEW_ROWS else 0.13)
    with canvas(ax, height, note, figsize) as ax:
        shown = display_names(names, name_width(ax))
        numbered = n > 12 or max(len(str(name)) for name in names) > 24
        at_left = [f"{i}. {name}" for i, name in enumerate(shown, 1)] if numbered else shown
        above = [str(i) for i in range(1, n + 1)] if numbered else shown
        colours = LinearSegmentedColormap.from_list("evalreg", DIVERGING)
        image = ax.imshow(difference, cmap=colours, vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
        # It shows through where there is no difference.
        ax.patch.set(hatch="//////", edgecolor=MUTED, linewidth=0)
        marks = np.arange(0, n, -(-n // MOST_NAMED))
        size = 8 if n <= 12 else 7 if n <= FEW_ROWS else 6
        rotation = 0 if numbered and n <= FEW_ROWS else 90
        ax.set_xticks(marks, [above[i] for i in marks], size=size, rotation=rotation)
        ax.set_yticks(marks, [at_left[i] for i in marks], size=size)
        ax.tick_params(length=0, labeltop=True, labelbottom=False)
        ax.spines[:].set_visible(False)
        bar = ax.figure.colorbar(image, ax=ax, shrink=0.6, aspect=30, pad=0.02)
        bar.outline.set_visible(False)
        bar.set_label("row minus column", size=8)
        _write_cells(ax, difference, p <= alpha)
    return ax


def _square(
    index: pd.Index[Any], values: FloatArray, order: Sequence[Any] | None
) -> tuple[list[Any], FloatArray, FloatArray]:
    """Names, differences (row minus column) and p-values of all pairs, NaN where there is none."""
    sides = [*index.get_level_values(0), *index.get_level_values(1)]
    names = list(dict.fromkeys(sides)) if order is None else list(order)
    missing = [name for name in sides if name not in names]
    if missing:
        raise MissingColumnError(f"`order` must hold every name of the table; {missing[0]!r} is missing.")
    i, j = pd.Index(names).get_indexer(sides).reshape(2, -1)
    difference, p = np.full((2, len(names), len(names)), np.nan)
    difference[i, j], difference[j, i] = values[:, 0], -values[:, 0]
    p[i, j] = p[j, i] = values[:, 1]
    # A difference that cannot be judged is not coloured as if it could.
    difference[np.isnan(p)] = np.nan
    np.fill_diagonal(difference, 0.0)
    return names, difference, p


def _write_cells(ax: Axes, difference: FloatArray, separated: Any) -> None:
    """Values with sign and two digits of the largest where there are few, and a dot where one is told from zero."""
    n, most = len(difference), float(np.nanmax(np.abs(difference)))
    digits = max(1 - int(np.floor(np.log10(most))), 0) if most > 0 else 2
    few = n <= 12
    for i, j in np.ndindex(n, n) if few else ():
        value = difference[i, j]
        if i != j and np.isfinite(value):
            ax.text(j, i - 0.12, f"{value:+.{digits}f}".replace("-", "\u2212"), size=7.5, ha="center", va="center")
    places, columns = np.nonzero(separated)
    ax.scatter(columns, places + 0.3 * few, s=12 if few else 3, color=INK, lw=0, gid="marked")
