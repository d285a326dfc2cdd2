"""What every figure needs of matplotlib: axes of the right size, names as they are written, notes that fit."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
import scipy

from evalreg.checks import FloatArray
from evalreg.errors import (
    ArgumentError,
    ArgumentTypeError,
    EmptyDataError,
    EvalregWarning,
    MissingColumnError,
    NotAvailableError,
)
from evalreg.report.pages import words_of
from evalreg.report.tables import in_lines, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend

INK, GRID, MUTED, BLUE = "#1a1a1a", "#e4e4e4", "#767676", "#1f5a99"
# Okabe and Ito's colours, told apart by the colour-blind; each line has a shape or dash of its own besides.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9")
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 3)))
NAME_WIDTH = 40
# A difference has the names of two models in it, and a new figure is made wide enough for them.
ROW_NAME_WIDTH = 100
NOTE_SIZE, LABEL_SIZE = 7.0, 9.0
# Rows that a figure names at the most: with more of them it grows no higher, and names one in so many.
MOST_NAMED = 250
# Inches from name to name in which they can just be read.
NAME_PITCH = 0.14
# Width of an average character, in units of the font's size.
CHARACTER = 0.56
# A new figure in inches: its width, with the height that it needs, or both; None is a size that fits.
FigSize: TypeAlias = float | tuple[float, float] | None
# Inches that a new figure is wide where no size is asked for; None is what fits what it shows.
USUAL_WIDTH: float | None = None
# Labels beside and below the axes leave no room for what is drawn in a narrower figure.
LEAST_WIDTH = 2
# What names at the left may take of a figure whose width was asked for.
SHARE_OF_NAMES = 0.4
# Inches in height that are left for what is drawn, with the margins of the layout.
LEAST_DRAWN = 0.4
# How often a height is asked for anew, and the inches by which it may be short.
ROUNDS, ROUNDING = 12, 0.02
STYLE = {
    "text.usetex": False,
    "text.color": INK,
    "axes.grid": False,
    # Figures have decimal points, as tables have.
    "axes.formatter.use_locale": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.facecolor": "white",
    "axes.labelsize": LABEL_SIZE,
    "axes.linewidth": 0.8,
    "figure.facecolor": "white",
    "xtick.color": INK,
    "ytick.color": INK,
}


def pyplot() -> Any:
    """matplotlib.pyplot, or an error that says what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as problem:
        raise NotAvailableError(
            'figures need matplotlib, which is not installed. Run: pip install "evalreg[plot]"'
        ) from problem
    return plt


def size_asked(figsize: FigSize, ax: Axes | None) -> tuple[float | None, float | None]:
    """Width and height of a new figure in inches, each None where it may be what fits."""
    _check_axes(ax)
    if figsize is None:
        return (USUAL_WIDTH if ax is None else None), None
    if ax is not None:
        raise ArgumentError("`figsize` is the size of a new figure, and `ax` has one. Leave one of them out.")
    both: tuple[Any, ...] = tuple(figsize) if isinstance(figsize, tuple | list) else (figsize, None)
    known = [*both[:1], *(side for side in both[1:] if side is not None)]
    right = all(isinstance(side, Real) and not isinstance(side, bool) for side in known)
    if len(both) != 2 or not right or not (LEAST_WIDTH <= known[0] <= 500 and all(1 <= side <= 500 for side in known)):
        raise ArgumentError(
            f"`figsize` must be a width in inches, such as 3.3, of {LEAST_WIDTH} to 500, or width and height, such as "
            f"(3.3, 4), with a height of 1 to 500; got {figsize!r}."
        )
    return float(both[0]), None if both[1] is None else float(both[1])


def graph_size(height: float, figsize: FigSize, ax: Axes | None) -> tuple[float, float]:
    """Width and height of a new figure that has no rows of names: lower where it is asked to be narrow."""
    width = size_asked(figsize, ax)[0]
    return (6.5, height) if width is None else (width, height * min(max(width / 6.5, 0.75), 1.6))


@contextmanager
def canvas(ax: Axes | None, width: float, height: float, note: str = "", figsize: FigSize = None) -> Iterator[Axes]:
    """Axes to draw into, in the style of the figures; matplotlib's global settings come back as they were.

    Width and height are those of a new figure without its note; `figsize`, where given, is that of all of it.
    """
    plt = pyplot()
    asked = size_asked(figsize, ax)
    width, total = width if asked[0] is None else asked[0], asked[1]
    with plt.rc_context(STYLE):
        if ax is not None:
            yield ax
            _note_below(ax, note)
            return
        ax = _new_axes(plt, width, height, total, note)
        try:
            yield ax
            if total is not None:
                _make_room(ax, foot_height(note, width), total)
        except BaseException:
            plt.close(ax.figure)
            raise


def _check_axes(ax: object) -> None:
    if ax is not None and not hasattr(ax, "get_window_extent"):
        raise ArgumentTypeError(f"`ax` must be matplotlib Axes or None; got {type(ax).__name__}.")


def foot_height(note: str, width: float) -> float:
    """Inches that a note takes below a figure of a width."""
    lines = wrapped(note, width - 0.2)
    return (len(lines) * NOTE_SIZE * 1.3 + 8) / 72 if lines else 0.0


def _new_axes(plt: Any, width: float, height: float, total: float | None, note: str) -> Axes:
    lines, foot = wrapped(note, width - 0.2), foot_height(note, width)
    total = height + foot if total is None else max(total, foot + 0.5)
    figure = plt.figure(figsize=(width, total), layout="constrained")
    figure.get_layout_engine().set(rect=(0, foot / total, 1, 1 - foot / total))
    if lines:
        style = {"size": NOTE_SIZE, "color": INK, "va": "bottom", "linespacing": 1.2, "parse_math": False}
        # The label keeps the note as it was given, with its names marked.
        figure.text(0.1 / width, 0.06 / total, "\n".join(lines), label=note, **style)
    ax: Axes = figure.add_subplot()
    return ax


def _make_room(ax: Axes, foot: float, asked: float) -> None:
    """Make a figure higher whose note and labels leave no room for what is drawn, and say so."""
    figure: Any = ax.figure
    width, total = figure.get_size_inches()
    low, needed = total, 0.0
    for _ in range(ROUNDS):  # A bar of colours below is the farther down the higher the axes are.
        box: Any = ax.get_tightbbox()
        beside = (box.height - ax.get_window_extent().height) / figure.dpi
        needed = foot + beside + LEAST_DRAWN
        if needed <= total + ROUNDING:
            break
        figure.set_size_inches(width, needed)
        for text in figure.texts:
            text.set_y(text.get_position()[1] * total / needed)
        total = needed
    if total == low:
        return
    figure.get_layout_engine().set(rect=(0, foot / total, 1, 1 - foot / total))
    warnings.warn(
        f"a height of {asked:g} inches leaves no room beside the labels and the note of this figure, so that "
        f"it is {total:.1f} inches high. Give a height of {np.ceil(10 * total) / 10:g} or more, a larger width, or the "
        "width alone.",
        EvalregWarning,
        stacklevel=2,
    )


def _note_below(ax: Axes, note: str) -> None:
    """A note under the label of the horizontal axis, as wide as the axes."""
    if note:
        text = "\n".join(wrapped(note, max(inches(ax)[0], 2.0)))
        place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
        look: dict[str, Any] = {"size": NOTE_SIZE, "color": INK, "va": "top", "linespacing": 1.2, "parse_math": False}
        ax.annotate(text, (0, 0), xytext=(0, -38), **place, **look)


def inches(ax: Axes) -> tuple[float, float]:
    """Width and height of axes as they are now laid out."""
    box = ax.get_window_extent().transformed(ax.figure.dpi_scale_trans.inverted())
    return float(box.width), float(box.height)


def wrapped(note: str, inches: float) -> list[str]:
    """Lines of a note that fit a width. None for an empty note."""
    # A little less than fits on average: names may have wide letters.
    return in_lines(words_of(note), int(0.96 * inches * 72 / (NOTE_SIZE * CHARACTER)))


def display_names(names: Iterable[object], width: int = NAME_WIDTH) -> list[str]:
    """Names on one line, cut in the middle where long, and distinct where they were."""
    texts = [" ".join(_joined(name).split()) for name in names]
    short = texts
    for room in range(width, 2 * width + 1):
        short = [shorten(text, room) for text in texts]
        if len(set(short)) == len(set(texts)):
            return short
    short = [shorten(text, width) for text in texts]
    alike = {text: [i for i, other in enumerate(short) if other == text] for text in set(short)}
    return [text if len(alike[text]) == 1 else f"{text} ({alike[text].index(i) + 1})" for i, text in enumerate(short)]


def _joined(name: object) -> str:
    return " - ".join(map(str, name)) if isinstance(name, tuple) else str(name)


def width_of(texts: Sequence[str], size: float) -> float:
    """Inches that the longest of some texts takes, about; letters as wide as high count twice."""
    letters = (len(text) + sum(unicodedata.east_asian_width(letter) in "WF" for letter in text) for text in texts)
    return max(letters, default=0) * size * CHARACTER / 72


def open_axes(ax: Axes, xlabel: str, ylabel: str) -> None:
    """Axes without a frame above and at the right, with faint lines across and both labels."""
    ax.grid(axis="y", color=GRID, lw=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8, which="both", colors=INK)
    wide, high = inches(ax)
    ax.set_xlabel(on_lines(xlabel, wide), parse_math=False)
    ax.set_ylabel(on_lines(ylabel, high), parse_math=False)


def on_lines(label: str, room: float) -> str:
    """The label of an axis on as many lines as it takes in some inches."""
    letters = max(int(room * 72 / (LABEL_SIZE * CHARACTER)), 12)
    return "\n".join(part for line in label.split("\n") for part in in_lines(line, letters) or [""])


def legend_above(ax: Axes, room: float | None = None, **options: Any) -> Legend:
    """A legend above the axes, from their left end, in no more columns than fit `room` inches (their width)."""
    style: dict[str, Any] = {"frameon": False, "fontsize": 8, "labelcolor": INK} | options
    labels = ax.get_legend_handles_labels()[1]
    room = inches(ax)[0] if room is None else room
    fitting = max(int((room + 0.2) / (width_of(labels, style["fontsize"]) + 0.45)), 1)
    style["ncols"] = min(style.get("ncols", 1), fitting)
    legend = ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), **style)
    for text in (*legend.get_texts(), legend.get_title()):
        text.set_parse_math(False)
    return legend


def limits(values: FloatArray) -> tuple[float, float]:
    """Ends of an axis that shows all finite values with some room at both sides."""
    finite = values[np.isfinite(values)]
    low, high = (float(np.min(finite)), float(np.max(finite))) if finite.size else (0.0, 1.0)
    room = 0.05 * (high - low)
    if room <= 1e-9 * max(abs(low), abs(high)):
        room = 0.05 * max(abs(low), abs(high)) or 0.5
    return low - room, high + room


def spread(positions: FloatArray, gap: float, low: float = -np.inf, high: float = np.inf) -> FloatArray:
    """Positions moved as little as needed (least squares) until neighbours are a gap from each other, in their order.

    Shapes: positions (n,); returns (n,).
    """
    order = np.argsort(positions, kind="stable")
    steps = gap * np.arange(positions.size)
    placed = np.empty(positions.size)
    # Between bounds, the least-squares solution is the free one cut at them.
    free = scipy.optimize.isotonic_regression(positions[order] - steps).x
    placed[order] = np.clip(free, low, max(high - gap * (positions.size - 1), low)) + steps
    return placed


def checked_columns(table: pd.DataFrame, names: tuple[Any, ...]) -> FloatArray:
    """Columns of a table as an array, shape (n_rows, n_columns)."""
    if not isinstance(table, pd.DataFrame):
        raise ArgumentTypeError(f"a figure is drawn of a DataFrame; got {type(table).__name__}.")
    missing = [name for name in names if name not in table]
    if missing:
        raise MissingColumnError(f'the table has no column "{missing[0]}", which the figure shows.', column=missing[0])
    if table.empty:
        raise EmptyDataError("the table has no rows, so there is nothing to draw.")
    return table[list(names)].to_numpy(dtype=float)
