"""Rows of a figure, each with its name: how high they are, and where the names stand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evalreg.checks import IntArray
from evalreg.report.canvas import (
    CHARACTER,
    GRID,
    INK,
    MOST_NAMED,
    NAME_PITCH,
    NAME_WIDTH,
    ROW_NAME_WIDTH,
    SHARE_OF_NAMES,
    FigSize,
    display_names,
    foot_height,
    inches,
    on_lines,
    size_asked,
    width_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Inches of a row with its name above it, and the least of them.
UNDER_NAME, LEAST_UNDER_NAME, SECOND_LINE = 0.34, 0.26, 0.13


@dataclass(frozen=True)
class NamedRows:
    """How n rows are drawn: one in `step` with its name, and `pitch` inches high."""

    names: Sequence[str]
    size: float  # of the letters
    pitch: float
    step: int
    above: bool  # whether a name stands above its row
    width: float  # of a new figure
    asked: bool  # whether that was asked for

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.names)

    @property
    def named(self) -> IntArray:
        """Positions of the rows that have a name."""
        return np.arange(0, self.n, self.step)

    @property
    def note(self) -> str:
        """A sentence on the names that are left out; empty where all are there."""
        return "" if self.step == 1 else f" {self.n:,} rows, of which one in {self.step} is named."

    @property
    def room(self) -> float:
        """Inches that are left beside the names in a new figure."""
        return self.width - (0.2 if self.above else 0.2 + width_of(self.names, self.size))

    def at_most(self, size: float, share: float) -> float:
        """Points of a mark: less than `size` where there are so many rows that it would hide the next."""
        return size if self.n <= MOST_NAMED else min(size, share * 72 * self.pitch)


def row_height(n: int) -> tuple[float, float]:
    """Inches for each of n rows, and the font size of their names."""
    return (0.30, 9.0) if n <= 12 else (0.22, 8.0) if n <= 40 else (0.16 * min(1.0, MOST_NAMED / n), 7.5)


def named_rows(
    index: Iterable[object], ax: Axes | None, figsize: FigSize = None, over: float = 0.0, note: str = ""
) -> NamedRows:
    """How rows are drawn in axes, or in a new figure of fitting or given size.

    Of a great many rows one in so many has its name. `over` is what a figure has besides its rows and its note.
    """
    (width, total), names = size_asked(figsize, ax), list(index)
    n = len(names)
    pitch, size = row_height(n)
    shown = display_names(names, NAME_WIDTH if ax is not None else ROW_NAME_WIDTH)
    needed = width_of(shown, size)
    if ax is not None or width is None:
        # New figures are wider where names are long, as of differences of two.
        natural = 7.0 + max(needed - width_of(["x" * NAME_WIDTH], size), 0.0)
        pitch = pitch if ax is None else inches(ax)[1] / n
        return NamedRows(shown, size, pitch, step_of(n, pitch) if n > MOST_NAMED else 1, False, natural, False)
    above = needed > SHARE_OF_NAMES * width and n <= MOST_NAMED
    lines = None
    if above:
        pitch, size = UNDER_NAME, min(size, 8.0)
        lines = _both_lines(shown, int((width - 0.3) * 72 / (size * CHARACTER)))
        pitch += SECOND_LINE if lines else 0.0
    if total is not None:
        pitch = max(total - over - foot_height(note, width), 0.2) / n
        above = above and pitch >= LEAST_UNDER_NAME
    letters = (width - 0.3 if above else SHARE_OF_NAMES * width) * 72 / (size * CHARACTER)
    if not (above and lines) or (total is not None and pitch < LEAST_UNDER_NAME + SECOND_LINE):
        lines = display_names(names, int(min(letters, ROW_NAME_WIDTH)))
    step = step_of(n, pitch) if n > MOST_NAMED or total is not None else 1
    return NamedRows(lines, size, pitch, step, above, width, True)


def _both_lines(names: Sequence[str], letters: int) -> list[str] | None:
    """Names with long differences on two lines; None where there is none, or where two lines are too little."""
    texts = [name if len(name) <= letters else name.replace(" - ", " -\n", 1) for name in names]
    fit = all(len(line) <= letters for text in texts for line in text.split("\n"))
    return texts if fit and any("\n" in text for text in texts) else None


def step_of(n: int, pitch: float) -> int:
    """One row in how many has its name, so that names stand apart."""
    return min(max(int(np.ceil(NAME_PITCH / pitch)), 1), n)


def name_rows(ax: Axes, rows: NamedRows) -> None:
    """Names at the left, the first at the top, with a faint line for each row that has one."""
    n, named, size = rows.n, rows.named, rows.size
    names = [rows.names[row] for row in named]
    if not rows.above and (named.size < n or _names_fit(ax, names, size)):
        ax.set_yticks(named, names, size=size, color=INK, parse_math=False, usetex=False)
    else:
        ax.set_yticks(named, [""] * n)
        place: dict[str, Any] = {"xycoords": ax.get_yaxis_transform(), "textcoords": "offset points"}
        look: dict[str, Any] = {"size": min(size, 8.0), "va": "bottom", "color": INK, "parse_math": False}
        # Over lines that go through all rows, under marks.
        look |= {"bbox": {"fc": "white", "ec": "none", "pad": 0.5}, "zorder": 1.5}
        for row, name in enumerate(names):
            ax.annotate(
                name, (0, row), xytext=(0, 4 if rows.above else 2.5), gid="name", annotation_clip=False, **place, **look
            )
    ax.set_ylim(n - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=8, top=n > 40, labeltop=n > 40)
    ax.hlines(named, 0, 1, transform=ax.get_yaxis_transform(), color=GRID, lw=0.7, zorder=0)
    ax.spines[["left", "right"]].set_visible(False)
    ax.spines["top"].set_visible(n > 40)


def label_below(ax: Axes, label: str, rows: NamedRows, beside: float = 0.0) -> None:
    """The label of the horizontal axis; on several lines where the width of the figure was asked for."""
    if rows.asked:
        label = on_lines(label, rows.room - beside)
        ax.locator_params(axis="x", nbins=max(int((rows.room - beside) / 0.5), 2), steps=[1, 2, 2.5, 5, 10])
    ax.set_xlabel(label, parse_math=False)


def _names_fit(ax: Axes, names: Sequence[str], size: float) -> bool:
    """Whether names fit left of axes; yes where the figure makes room, and where rows are too low for a line above."""
    figure: Any = ax.figure
    if getattr(figure, "get_layout_engine", lambda: True)() is not None:
        return True
    left = ax.get_window_extent().x0 / figure.dpi
    return width_of(names, size) + 0.1 <= left or inches(ax)[1] / len(names) < LEAST_UNDER_NAME
