"""What every figure needs of matplotlib: axes of the right size, names as they are written, notes that fit."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy

from evalreg.checks import FloatArray, IntArray
from evalreg.errors import ArgumentTypeError, EmptyDataError, MissingColumnError, NotAvailableError
from evalreg.report.tables import shorten

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
NOTE_SIZE = 7.0
# Rows that a figure names at the most: with more of them it grows no higher, and names one in so many.
MOST_NAMED = 250
# Inches from name to name in which they can just be read.
NAME_PITCH = 0.14
# Width of an average character, in units of the font's size.
CHARACTER = 0.56
STYLE = {
    "text.usetex": False,
    "text.color": INK,
    "axes.grid": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.facecolor": "white",
    "axes.labelsize": 9,
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


@contextmanager
def canvas(ax: Axes | None, width: float, height: float, note: str = "") -> Iterator[Axes]:
    """Axes to draw into, in the style of the figures; matplotlib's global settings come back as they were."""
    plt = pyplot()
    _check_axes(ax)
    with plt.rc_context(STYLE):
        if ax is not None:
            yield ax
            _note_below(ax, note)
            return
        ax = _new_axes(plt, width, height, note)
        try:
            yield ax
        except BaseException:
            plt.close(ax.figure)
            raise


def _check_axes(ax: object) -> None:
    if ax is not None and not hasattr(ax, "get_window_extent"):
        raise ArgumentTypeError(f"`ax` must be matplotlib Axes or None; got {type(ax).__name__}.")


def _new_axes(plt: Any, width: float, height: float, note: str) -> Axes:
    lines = wrapped(note, width - 0.2)
    foot = (len(lines) * NOTE_SIZE * 1.3 + 8) / 72 if lines else 0.0
    total = height + foot
    figure = plt.figure(figsize=(width, total), layout="constrained")
    figure.get_layout_engine().set(rect=(0, foot / total, 1, 1 - foot / total))
    if lines:
        style = {"size": NOTE_SIZE, "color": INK, "va": "bottom", "linespacing": 1.2, "parse_math": False}
        figure.text(0.1 / width, 0.06 / total, "\n".join(lines), **style)
    ax: Axes = figure.add_subplot()
    return ax


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
    return textwrap.wrap(note, int(inches * 72 / (NOTE_SIZE * CHARACTER)))


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


def row_names(index: Iterable[object], size: float, ax: Axes | None) -> tuple[list[str], float]:
    """Names of rows, and the inches that a new figure is wide: more where names are long, as of differences of two."""
    names = display_names(index, NAME_WIDTH if ax is not None else ROW_NAME_WIDTH)
    return names, 7.0 + max(width_of(names, size) - width_of(["x" * NAME_WIDTH], size), 0.0)


def _joined(name: object) -> str:
    return " - ".join(map(str, name)) if isinstance(name, tuple) else str(name)


def width_of(texts: Sequence[str], size: float) -> float:
    """Inches that the longest of some texts takes, about; letters as wide as high count twice."""
    letters = (len(text) + sum(unicodedata.east_asian_width(letter) in "WF" for letter in text) for text in texts)
    return max(letters, default=0) * size * CHARACTER / 72


def row_height(n: int) -> tuple[float, float]:
    """Inches for each of n rows, and the font size of their names."""
    return (0.30, 9.0) if n <= 12 else (0.22, 8.0) if n <= 40 else (0.16 * min(1.0, MOST_NAMED / n), 7.5)


@dataclass(frozen=True)
class DrawnRows:
    """How n rows are drawn: one in `step` with its name, and of a height of `pitch` points."""

    n: int
    step: int
    pitch: float

    @property
    def named(self) -> IntArray:
        """Positions of the rows that have a name."""
        return np.arange(0, self.n, self.step)

    @property
    def note(self) -> str:
        """A sentence on the names that are left out; empty where all are there."""
        return "" if self.step == 1 else f" {self.n:,} rows, of which one in {self.step} is named."

    def at_most(self, size: float, share: float) -> float:
        """Points of a mark: less than `size` where there are so many rows that it would hide the next."""
        return size if self.n <= MOST_NAMED else min(size, share * self.pitch)


def rows_of(n: int, ax: Axes | None, height: float) -> DrawnRows:
    """How n rows are drawn in axes, or of some height in a new figure: of a great many one in so many has its name."""
    _check_axes(ax)
    pitch = height if ax is None else inches(ax)[1] / n
    step = 1 if n <= MOST_NAMED else max(int(np.ceil(NAME_PITCH / pitch)), 1)
    return DrawnRows(n, step, 72 * pitch)


def name_rows(ax: Axes, names: Sequence[str], size: float, rows: DrawnRows) -> None:
    """Names at the left, the first at the top, with a faint line for each row that has one."""
    n, named = rows.n, rows.named
    names = [names[row] for row in named]
    if named.size < n or _names_fit(ax, names, size):
        ax.set_yticks(named, names, size=size, color=INK, parse_math=False, usetex=False)
    else:
        ax.set_yticks(named, [""] * n)
        place: dict[str, Any] = {"xycoords": ax.get_yaxis_transform(), "textcoords": "offset points"}
        look: dict[str, Any] = {"size": min(size, 8.0), "va": "bottom", "color": INK, "parse_math": False}
        look["bbox"] = {"fc": "white", "ec": "none", "pad": 0.5}
        for row, name in enumerate(names):
            ax.annotate(name, (0, row), xytext=(0, 2.5), gid="name", annotation_clip=False, **place, **look)
    ax.set_ylim(n - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=8, top=n > 40, labeltop=n > 40)
    ax.hlines(named, 0, 1, transform=ax.get_yaxis_transform(), color=GRID, lw=0.7, zorder=0)
    ax.spines[["left", "right"]].set_visible(False)
    ax.spines["top"].set_visible(n > 40)


def open_axes(ax: Axes, xlabel: str, ylabel: str) -> None:
    """Axes without a frame above and at the right, with faint lines across and both labels."""
    ax.grid(axis="y", color=GRID, lw=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8, which="both", colors=INK)
    ax.set_xlabel(xlabel, parse_math=False)
    ax.set_ylabel(ylabel, parse_math=False)


def legend_above(ax: Axes, **options: Any) -> Legend:
    """A legend above the axes, from their left end."""
    style: dict[str, Any] = {"frameon": False, "fontsize": 8, "labelcolor": INK}
    legend = ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), **style, **options)
    for text in (*legend.get_texts(), legend.get_title()):
        text.set_parse_math(False)
    return legend


def _names_fit(ax: Axes, names: Sequence[str], size: float) -> bool:
    """Whether names fit left of axes; yes where the figure makes room, and where rows are too low for a line above."""
    figure: Any = ax.figure
    if getattr(figure, "get_layout_engine", lambda: True)() is not None:
        return True
    left = ax.get_window_extent().x0 / figure.dpi
    return width_of(names, size) + 0.1 <= left or inches(ax)[1] / len(names) < 0.26


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
