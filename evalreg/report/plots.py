"""Tables already computed, drawn with matplotlib: estimates, pairs, inflation, curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, option
from evalreg.errors import AlignmentError, MissingColumnError
from evalreg.report.canvas import (
    BLUE,
    COLOURS,
    INK,
    MUTED,
    canvas,
    checked_columns,
    display_names,
    inches,
    legend_above,
    limits,
    name_rows,
    open_axes,
    row_height,
    row_names,
    spread,
    width_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["curve_axes", "estimates_axes", "inflation_axes", "pairs_axes"]

# Light enough at both ends for dark text. A grey copy shows the size; the sign is in the order of the models.
DIVERGING = ("#d9822b", "#f3cfa6", "#ffffff", "#bcdcf2", "#6fb1e0")
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 3)))


def estimates_axes(
    table: pd.DataFrame,
    *,
    ranks: pd.DataFrame | None = None,
    zero: bool = False,
    xlabel: str = "estimate",
    note: str = "",
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
    ax : Axes, optional
        To draw into; a new figure of fitting size by default.

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
    height, size = row_height(n)
    names, width = row_names(table.index, size, ax)
    drawn = [values, joint, np.zeros((n, int(zero)))]
    with canvas(ax, width, n * height + (0.95 if n > 40 else 0.75), note) as ax:
        name_rows(ax, names, size)
        low, high = limits(np.hstack(drawn))
        ax.set_xlim(low, high)
        if zero:
            ax.axvline(0, color=INK, lw=0.8, ls=(0, (4, 3)), zorder=1)
        if joint.size:
            _intervals(ax, joint, lw=0.9, color=INK)
        _intervals(ax, values[:, 1:], lw=2.6 if n > 40 else 3.4, color=BLUE)
        _points(ax, values)
        ax.set_xlabel(xlabel, parse_math=False)
        if ranks is not None:
            _rank_texts(ax, ranks, size)
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


def _points(ax: Axes, values: FloatArray) -> None:
    rows, bare = np.arange(len(values)), np.isnan(values[:, 1:]).any(axis=1)
    size = 5.0 if len(values) <= 40 else 4.0
    ax.plot(values[~bare, 0], rows[~bare], "o", color=INK, mec="white", mew=0.6, ms=size, zorder=4, clip_on=False)
    if bare.any():
        ax.plot(values[bare, 0], rows[bare], "o", color="white", mec=INK, mew=1.0, ms=size, zorder=4, clip_on=False)
    for row in np.flatnonzero(np.isnan(values[:, 0])):
        ax.text(0.5, int(row), "no estimate", size=7, ha="center", va="center", transform=ax.get_yaxis_transform())


def _rank_texts(ax: Axes, ranks: pd.DataFrame, size: float) -> None:
    ends = checked_columns(ranks, ("lower", "upper"))
    texts = [f"{low:.0f}" if low == high else f"{low:.0f}-{high:.0f}" for low, high in ends]
    # Right-aligned in a column as wide as the widest, so that digits stand below each other.
    column = max(8 + 72 * width_of(texts, size), 30)
    style: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "color": INK, "annotation_clip": False}
    for row, text in enumerate(texts):
        place: dict[str, Any] = {"xycoords": ax.get_yaxis_transform(), "xytext": (column, 0)}
        ax.annotate(text, (1, row), size=size, va="center", gid="rank", **place, **style)
    above = 20 if ax.spines["top"].get_visible() else 3
    ax.annotate("ranks", (1, 1), xycoords="axes fraction", xytext=(column, above), size=size, **style)


def pairs_axes(
    table: pd.DataFrame,
    *,
    order: Sequence[Any] | None = None,
    alpha: float = 0.05,
    note: str = "",
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
        Sentences below the figure.
    ax : Axes, optional
        To draw into; a new figure of fitting size by default.

    Returns
    -------
    Axes
        Row i is the i-th name, and so is column i.

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
    adjusted = "p_adjusted" in table.columns or "p_value" not in table.columns
    values = checked_columns(table, ("difference", "p_adjusted" if adjusted else "p_value"))
    names, difference, p = _square(table.index, values, order)
    n, labelled = len(names), display_names(names, 38 if len(names) <= 12 else 30)
    size, (wide, high) = (8.0 if n <= 40 else 7.0), _cell(n)
    labels, given = width_of(labelled, size) + 0.15, ax is not None
    with canvas(ax, n * wide + labels + 1.1, n * high + labels * (1 + (n > 40)) + 0.1, note) as ax:
        image = _heat(ax, difference)
        ax.set_xticks(np.arange(n), labelled, size=size, rotation=90, parse_math=False, usetex=False)
        ax.set_yticks(np.arange(n), labelled, size=size, parse_math=False, usetex=False)
        ax.tick_params(length=0, labeltop=True, labelbottom=n > 40, colors=INK)
        ax.spines[:].set_visible(False)
        # The size of new axes is known before they are laid out, that of others only from themselves.
        room = inches(ax) if given else (n * wide, n * high)
        _colour_bar(ax, image, room)
        texts = _cell_texts(difference)
        fits = room[0] / n > width_of([text for line in texts for text in line], 7.5) and room[1] / n > 0.28
        if fits:
            for i, line in enumerate(texts):
                for j, text in enumerate(line):
                    ax.text(j, i - 0.12, text, size=7.5, ha="center", va="center", color=INK)
        rows, columns = np.nonzero(p < alpha)
        side = 72 * min(room) / n
        ax.scatter(columns, rows + 0.3 * fits, s=min(0.3 * side, 4.0) ** 2, color=INK, lw=0, gid="marked")
    return ax


def _cell(n: int) -> tuple[float, float]:
    """Width and height of a cell in inches."""
    return (0.9, 0.5) if n <= 4 else (0.56, 0.4) if n <= 12 else (0.2, 0.2) if n <= 40 else (0.145, 0.145)


def _square(
    index: pd.Index[Any], values: FloatArray, order: Sequence[Any] | None
) -> tuple[list[Any], FloatArray, FloatArray]:
    """Names, differences (row minus column) and p-values of all pairs, NaN where there is none."""
    left, right = index.get_level_values(0), index.get_level_values(1)
    names = list(dict.fromkeys([*left, *right])) if order is None else list(order)
    places = pd.Index(names)
    i, j = places.get_indexer(left), places.get_indexer(right)
    if (i < 0).any() or (j < 0).any():
        missing = left[i < 0].append(right[j < 0])[0]
        raise MissingColumnError(f"`order` must hold every name of the table; {missing!r} is missing.")
    difference, p = np.full((2, len(names), len(names)), np.nan)
    difference[i, j], difference[j, i] = values[:, 0], -values[:, 0]
    p[i, j] = p[j, i] = values[:, 1]
    # A difference that cannot be judged is not coloured as if it could.
    difference[np.isnan(p)] = np.nan
    np.fill_diagonal(difference, 0.0)
    return names, difference, p


def _heat(ax: Axes, difference: FloatArray) -> Any:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    most = float(np.nanmax(np.abs(difference))) or 1.0
    colours = LinearSegmentedColormap.from_list("evalreg", DIVERGING)
    image = ax.imshow(difference, cmap=colours, vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
    for i, j in np.argwhere(np.isnan(difference)):
        ax.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, hatch="//////", lw=0, ec=MUTED))
    edges = np.arange(len(difference) + 1) - 0.5
    line = 0.8 if len(difference) <= 12 else 0.4
    ax.hlines(edges, edges[0], edges[-1], color="white", lw=line)
    ax.vlines(edges, edges[0], edges[-1], color="white", lw=line)
    return image


def _colour_bar(ax: Axes, image: Any, room: tuple[float, float]) -> None:
    height = min(1.0, 3.0 / room[1])
    inset = ax.inset_axes((1 + 0.12 / room[0], 1 - height, 0.14 / room[0], height))
    bar = ax.figure.colorbar(image, cax=inset)
    bar.outline.set_visible(False)
    inset.tick_params(labelsize=7.5, colors=INK)
    if height * room[1] > 1.3:
        inset.set_ylabel("row minus column", size=8, color=INK)


def _cell_texts(difference: FloatArray) -> list[list[str]]:
    """Differences with sign and two significant digits of the largest; nothing on the diagonal."""
    most = float(np.nanmax(np.abs(difference)))
    digits = max(1 - int(np.floor(np.log10(most))), 0) if most > 0 else 2
    texts = [["" if np.isnan(value) else _signed(value, digits) for value in line] for line in difference]
    for i, line in enumerate(texts):
        line[i] = ""
    return texts


def _signed(value: float, digits: int) -> str:
    """A number with its sign, none on a zero."""
    text = f"{value:+.{digits}f}".replace("-", "−")
    return text if float(text[1:]) else text[1:]


def inflation_axes(table: pd.DataFrame, *, note: str = "", ax: Axes | None = None) -> Axes:
    """Standard errors by clustering as multiples of that of independent rows, one row a parameter.

    Parameters
    ----------
    table : DataFrame
        One row a parameter, the index its name; one column a clustering, and "together", drawn as a bar.
    note : str, optional
        Sentences below the figure.
    ax : Axes, optional
        To draw into; a new figure of fitting size by default.

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
    height, size = row_height(n)
    names, width = row_names(table.index, size, ax)
    steps = (np.arange(len(axes)) - (len(axes) - 1) / 2) * min(0.25, 0.7 / max(len(axes), 1))
    with canvas(ax, width, n * height + (1.2 if n > 40 else 1.0), note) as ax:
        name_rows(ax, names, size)
        ax.set_xlim(limits(np.append(values, 1.0)))
        ax.axvline(1, color=INK, lw=0.8, ls=(0, (4, 3)), zorder=1)
        rows, mark = np.arange(n), 5.0 if n <= 40 else 3.6
        for k, name in enumerate(axes):
            colour, shape = COLOURS[k % 6], MARKERS[k % 6]
            fill, label = "white" if k % 2 else colour, display_names([name])[0]
            ax.plot(table[name], rows + steps[k], shape, color=colour, mfc=fill, ms=mark, mew=1.0, label=label)
        if "together" in table:
            bar: dict[str, Any] = {"marker": "|", "color": INK, "ms": 72 * height * 0.75, "mew": 2.0, "zorder": 3}
            ax.plot(table["together"], rows, ls="", label="together", **bar)
        ax.set_xlabel("standard error / standard error of independent rows", parse_math=False)
        columns, room = min(values.shape[1], 5), 1.6 if n > 40 else 0.2
        legend = legend_above(ax, ncols=columns, handletextpad=0.3, borderaxespad=room)
        for entry in legend.get_lines():
            entry.set_markersize(min(entry.get_markersize(), 9))  # the bar of a row is taller than a line of text
    return ax


def curve_axes(
    table: pd.DataFrame,
    *,
    xlabel: str = "",
    ylabel: str = "",
    log: Literal["", "x", "y", "xy"] = "",
    note: str = "",
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
    with canvas(ax, 6.5, 3.8, note) as ax:
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
