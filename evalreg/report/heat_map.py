"""Differences of all pairs in a square, coloured by sign and size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.errors import MissingColumnError
from evalreg.report.canvas import (
    INK,
    MOST_NAMED,
    MUTED,
    NAME_PITCH,
    NAME_WIDTH,
    ROW_NAME_WIDTH,
    SHARE_OF_NAMES,
    FigSize,
    canvas,
    checked_columns,
    display_names,
    foot_height,
    inches,
    size_asked,
    width_of,
)
from evalreg.report.named_rows import step_of
from evalreg.report.pages import named

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Letters of a name that still stands above a column: of more the columns have numbers, explained by the rows.
FEW, LONGEST_ABOVE_FEW, LONGEST_ABOVE = 12, 38, 30
LONGEST_NUMBER = 3
# Models that the note of a narrow figure lists with their numbers.
MOST_NUMBERED = 60
# Inches of a cell that leave names more of the width.
ROOMY = 0.3
# Inches of a cell that white lines would leave too little of.
SMALL = 0.04
# Inches of a narrow figure above and below its cells, without its note.
BESIDE_CELLS = 0.85
SPACE = "\u00a0"
# Light enough at both ends for dark text. A grey copy shows the size; the sign is in the order of the models.
DIVERGING = ("#d9822b", "#f3cfa6", "#ffffff", "#bcdcf2", "#6fb1e0")


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
        Sentences below the figure.
    figsize : float or (float, float), optional
        Inches of a new figure: its width, such as 3.3 for a column of a paper, or width and height. By default what
        fits.
    ax : Axes, optional
        To draw into; a new figure by default.

    Returns
    -------
    Axes
        Row i is the i-th name, and so is column i. Where a name is long, rows have whole names and a number, and
        columns the number. Where names leave too little of a width that was asked for, rows have numbers too, which
        the note explains.

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
    n = len(names)
    plan = _planned(names, ax, figsize, note)
    marks, size = plan.marks, plan.size
    with canvas(ax, *plan.figure, plan.note, figsize) as ax:
        # The size of new axes is known before they are laid out, that of others only from themselves.
        room = inches(ax) if plan.room is None else plan.room
        image = _heat(ax, difference, min(room) / n)
        at_left, above = ([labels[row] for row in marks] for labels in (plan.at_left, plan.above))
        upright = 0 if plan.narrow or max(map(len, above)) <= LONGEST_NUMBER else 90
        ax.set_xticks(marks, above, size=size, rotation=upright, parse_math=False, usetex=False)
        ax.set_yticks(marks, at_left, size=size, parse_math=False, usetex=False)
        ax.tick_params(length=0, labeltop=True, labelbottom=n > 40 and not plan.narrow, colors=INK)
        ax.spines[:].set_visible(False)
        _colour_bar(ax, image, room, plan.narrow)
        _write_cells(ax, difference, p < alpha, room)
    return ax


@dataclass(frozen=True)
class MatrixPlan:
    """How large a matrix is, and what stands at its rows and columns."""

    at_left: Sequence[str]
    above: Sequence[str]
    marks: IntArray  # rows and columns that are named
    size: float  # of the letters
    figure: tuple[float, float]  # inches of a new figure, without its note
    room: tuple[float, float] | None  # inches of the cells of a new figure
    note: str
    narrow: bool


def _planned(names: Sequence[Any], ax: Axes | None, figsize: FigSize, note: str) -> MatrixPlan:
    n, given = len(names), ax is not None
    width, total = size_asked(figsize, ax)
    size, (wide, high) = (8.0 if n <= 40 else 7.0), _cell(n)
    if width is not None:
        return _narrow(names, width, total, note)
    at_left, above = _labels(names, given)
    beside, over = (width_of(labels, size) + 0.15 for labels in (at_left, above))
    pitch = inches(ax)[1] / n if ax is not None else high
    step = step_of(n, pitch) if n > MOST_NAMED else 1
    figure = (n * wide + beside + 1.1, n * high + over * (1 + (n > 40)) + 0.1)
    note += "" if step == 1 else f" {n:,} rows, of which one in {step} is named."
    return MatrixPlan(
        at_left, above, np.arange(0, n, step), size, figure, None if given else (n * wide, n * high), note, False
    )


def _narrow(names: Sequence[Any], width: float, total: float | None, note: str) -> MatrixPlan:
    """In a figure whose width was asked for: names at the left where they leave enough of it, else numbers."""
    n, size = len(names), 8.0 if len(names) <= 12 else 7.0
    numbers, whole = [str(i) for i in range(1, n + 1)], display_names(names, ROW_NAME_WIDTH)
    beside = width_of(whole, size) + 0.15
    cell = (width - beside - 0.1) / n
    with_names = cell >= (NAME_PITCH if beside <= SHARE_OF_NAMES * width else ROOMY)
    with_names = with_names and (total is None or _high(total, width, note) >= n * NAME_PITCH)
    short = with_names and width_of(whole, size) < cell
    above = whole if short else numbers
    at_left = whole if short else [f"{a}  {i}" for a, i in zip(whole, numbers, strict=True)] if with_names else numbers
    wide = width - width_of(at_left, size) - 0.25
    if not with_names and n <= MOST_NUMBERED:
        # A space that is not broken keeps a number with its name.
        note += f" {'; '.join(f'{i}{SPACE}{named(name)}' for i, name in zip(numbers, whole, strict=True))}."
    elif not with_names:
        note += f" Numbers count from the top: 1 is {named(whole[0])}, {n} is {named(whole[-1])}."
    high = min(wide, 0.4 * n) if total is None else _high(total, width, note)
    step = 1 if with_names else _round_step(n, min(wide, high) / n, width_of(numbers, size))
    figure = (width, high + BESIDE_CELLS)
    return MatrixPlan(at_left, above, np.arange(step - 1, n, step), size, figure, (wide, high), note, True)


def _high(total: float, width: float, note: str) -> float:
    """Inches of the cells in a figure whose height was asked for too."""
    return max(total - foot_height(note, width) - BESIDE_CELLS, 0.3)


def _round_step(n: int, pitch: float, needed: float) -> int:
    """One row in how many has its number: a round number, so that numbers stand apart."""
    least = max(NAME_PITCH, needed + 0.04) / pitch
    return next((step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500) if step >= least and step <= n), n)


def _labels(names: Sequence[Any], given: bool) -> tuple[list[str], list[str]]:
    """What is written at the left and above: names, or where some are long whole names with a number, and the numbers.

    In axes that are given there is no more room than there is.
    """
    longest = LONGEST_ABOVE if len(names) > FEW else LONGEST_ABOVE_FEW
    whole = display_names(names, NAME_WIDTH if given else ROW_NAME_WIDTH)
    if max(map(len, whole)) <= longest:
        return whole, whole
    numbers = [str(i) for i in range(1, len(names) + 1)]
    return [f"{name}  {number}" for name, number in zip(whole, numbers, strict=True)], numbers


def _cell(n: int) -> tuple[float, float]:
    """Width and height of a cell in inches."""
    few = (0.9, 0.5) if n <= 4 else (0.56, 0.4) if n <= 12 else (0.2, 0.2)
    return few if n <= 40 else (0.145 * min(1.0, MOST_NAMED / n),) * 2


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


def _heat(ax: Axes, difference: FloatArray, cell: float) -> Any:
    """The colours of cells of some inches, with white lines between where they leave enough of them."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    most = float(np.nanmax(np.abs(difference))) or 1.0
    colours = LinearSegmentedColormap.from_list("evalreg", DIVERGING)
    image = ax.imshow(difference, cmap=colours, vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
    for i, j in np.argwhere(np.isnan(difference)):
        ax.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, hatch="//////", lw=0, ec=MUTED))
    edges = np.arange(len(difference) + 1) - 0.5
    line = 0.0 if cell < SMALL else 0.8 if len(difference) <= 12 else 0.4
    ax.hlines(edges, edges[0], edges[-1], color="white", lw=line)
    ax.vlines(edges, edges[0], edges[-1], color="white", lw=line)
    return image


def _write_cells(ax: Axes, difference: FloatArray, separated: BoolArray, room: tuple[float, float]) -> None:
    """Values where cells have room for them, and a dot where a difference is separated from zero."""
    n = len(difference)
    texts = _cell_texts(difference) if n <= MOST_NAMED else [[""]]
    widest = width_of([text for line in texts for text in line], 7.5)
    fits = n <= MOST_NAMED and room[0] / n > widest and room[1] / n > 0.28
    if fits:
        for i, line in enumerate(texts):
            for j, text in enumerate(line):
                ax.text(j, i - 0.12, text, size=7.5, ha="center", va="center", color=INK)
    places, columns = np.nonzero(separated)
    side = 72 * min(room) / n
    ax.scatter(columns, places + 0.3 * fits, s=min(0.3 * side, 4.0) ** 2, color=INK, lw=0, gid="marked")


def _colour_bar(ax: Axes, image: Any, room: tuple[float, float], below: bool) -> None:
    if below:
        inset = ax.inset_axes((0, -0.2 / room[1], 1, 0.1 / room[1]))
        bar = ax.figure.colorbar(image, cax=inset, orientation="horizontal")
        bar.outline.set_visible(False)
        inset.tick_params(labelsize=7.5, colors=INK)
        inset.set_xlabel("row minus column", size=8, color=INK)
        return
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
