"""Tables already computed, to text, Markdown, LaTeX, and HTML by statsmodels' SimpleTable."""

from __future__ import annotations

import html
import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from unicodedata import east_asian_width

import numpy as np
import pandas as pd

from evalreg.checks import counted, visible
from evalreg.errors import ArgumentTypeError

Texts: TypeAlias = tuple[str, ...]

WIDTH = 80
# A name in a table of text is cut to no less than this, of a pair each of the two names.
SHORTEST_NAME, PAIRED = 24, " - "
# Of more rows than these a representation shows the first and the last.
MOST_ROWS = 20
ELLIPSIS = "..."
# A header longer than this, and than the cells below it, goes over several lines.
LONGEST_HEAD = 24
# What a p-value is read against, and how many decimals show on which side it lies.
LEVELS, MOST_DIGITS = (0.05, 0.01, 0.001), 6
# An end of an interval that is smaller than this part of the estimate is printed as 0.
NEGLIGIBLE = 1e-6
NO_LIMIT = "no limit"
# What is nearer to a whole number is one.
WHOLE = 1e-6
LATEX = {
    **{ord(mark): f"\\{mark}" for mark in "&%$#_{}"},
    **{ord(mark): f"${mark}$" for mark in "<>|"},
    ord("\\"): r"\textbackslash{}",
    ord("^"): r"\textasciicircum{}",
    ord("~"): r"\textasciitilde{}",
}
# In Markdown: marks of emphasis and code, links, and HTML. An underscore inside a word is one.
_MARKS = re.compile(r"([\\`*|~]|(?<![^\W_])_|_(?![^\W_])|(?<=\])\()")
_TAG = re.compile(r"<(?=[A-Za-z/!?])|&(?=#?\w+;)")


def spreadsheet(text: str) -> str:
    """Return a text that a spreadsheet program shows and does not compute, by an apostrophe before it if needed."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) else text


def number(value: float, digits: int = 4) -> str:
    """Return a number with a few decimals, fewer from 10 on; in scientific notation where they would show none."""
    if not np.isfinite(value):
        return str(float(value))
    value = float(value) + 0.0  # without the sign of a zero
    if value != 0 and abs(value) < 10.0 ** (1 - digits):
        return f"{value:.2e}"
    if abs(value) >= 1000:
        return f"{value:.0f}" if abs(value) < 1e7 else f"{value:.3e}"
    return f"{value:.{max(digits + 1 - len(str(int(abs(value)))), min(digits, 2))}f}"


def level_text(alpha: float) -> str:
    """The level of an interval: 95%."""
    return f"{100 * (1 - alpha):.4g}%"


UNKNOWN = "not known"


def error_text(se: float) -> str:
    """A standard error as it stands in parentheses."""
    return UNKNOWN if np.isnan(se) else number(se)


def interval_text(low: float, high: float, estimate: float = 0.0) -> str:
    """An interval in brackets, its ends as `limits` prints them."""
    return UNKNOWN if np.isnan(low) and np.isnan(high) else f"[{', '.join(limits(low, high, estimate))}]"


def limits(low: float, high: float, estimate: float, reach: float = np.inf) -> tuple[str, str]:
    """Both ends of an interval as they are printed.

    An end that is nearer to 0 than a millionth of the estimate is 0.0000, and one further from the estimate than
    `reach` is no limit: no log is long enough to tell it from one twice as far.
    """
    shown = []
    for end in (low, high):
        far = np.isfinite(end) and abs(end - estimate) > reach
        near = abs(end) < NEGLIGIBLE * abs(estimate)
        shown.append(NO_LIMIT if far else number(0.0 if near else end))
    return shown[0], shown[1]


def ends_text(low: float, high: float, estimate: float, reach: float = np.inf) -> str:
    """Both ends of an interval, or that there is none."""
    return "none" if np.isnan(low) or np.isnan(high) else " to ".join(limits(low, high, estimate, reach))


def span(low: str, high: str) -> str:
    """The smallest and the largest, or one number."""
    return low if low == high else f"{low} to {high}"


def fixed(value: float, digits: int) -> str:
    """Return a statistic with so many decimals whatever its size; none from a thousand on."""
    if abs(value) >= 1 or not np.isfinite(value):
        return number(value, digits)
    return f"{round(float(value), digits) + 0.0:.{digits}f}"


def dof_texts(dofs: Iterable[float], infinite: str = "inf", whole: bool = True) -> list[str]:
    """Degrees of freedom of one column: all with one decimal, or with none.

    None where they are whole numbers, if `whole`, or from a thousand on, but then all of the column.
    """
    values = [float(dof) for dof in dofs]
    known = [dof for dof in values if np.isfinite(dof)]
    is_whole = whole and all(abs(dof - round(dof)) < WHOLE for dof in known)
    digits = 0 if is_whole or all(dof >= 1000 for dof in known) else 1
    return [infinite if np.isposinf(dof) else str(dof) if np.isnan(dof) else f"{dof:.{digits}f}" for dof in values]


def p_value(value: float, alpha: float = LEVELS[0]) -> str:
    """Return a p-value with three decimals, more where it would change its side of a level by rounding."""
    if np.isnan(value):
        return "nan"
    if value < min(LEVELS):
        return "<.001"
    levels = (alpha, *LEVELS)
    for digits in range(3, MOST_DIGITS + 1):
        text = f"{value:.{digits}f}"
        # Below, at or above a level, as the number itself.
        if all(np.sign(float(text) - level) == np.sign(value - level) for level in levels):
            return text
    # Nearer to a level than the digits show: the next number on its side.
    nearest = min(levels, key=lambda level: abs(level - value))
    return f"{nearest + np.copysign(10.0**-MOST_DIGITS, value - nearest):.{MOST_DIGITS}f}"


# A letter of private use, which stands for a column of a terminal and is not printed.
FILLER = "\ue000"


def shorten(name: str, width: int) -> str:
    """A name of at most `width` characters, cut in the middle so that both ends can be read; of a pair each name."""
    if len(name) <= width:
        return name
    if PAIRED in name:
        parts = name.split(PAIRED)
        return PAIRED.join(shorten(part, (width + len(PAIRED)) // len(parts) - len(PAIRED)) for part in parts)
    left = (width - len(ELLIPSIS) + 1) // 2
    return name[:left] + ELLIPSIS + name[len(name) - (width - len(ELLIPSIS) - left) :]


def whole_columns(frame: pd.DataFrame) -> str:
    """A frame as text with every column and whole names, in blocks of 80 columns; at most the first and last rows."""
    return visible(frame.to_string(line_width=WIDTH, max_rows=MOST_ROWS), keep="\n")


@dataclass(frozen=True)
class Grid:
    """A table of text."""

    headers: Texts  # one for each column, the first for the row names
    rows: tuple[Texts, ...]  # row name and cells
    blocks: bool = False  # whether columns that do not fit the width of a text stand in blocks below each other
    rule: int = 0  # above which row there is a line, 0 for none
    spare: Texts = ()  # columns that a text leaves out, and names, where names would not fit beside them

    @classmethod
    def of(cls, columns: Mapping[str, Iterable[str]], spare: Texts = ()) -> Grid:
        """A table by its columns, the names of rows first."""
        return cls(tuple(columns), tuple(zip(*columns.values(), strict=True)), spare=spare)

    def __post_init__(self) -> None:
        """Refuse what is not text here, and not where a format happens to trip over it."""
        for row in (self.headers, *self.rows):
            if len(row) != len(self.headers) or not all(isinstance(cell, str) for cell in row):
                raise TypeError(f"a table holds text, {len(self.headers)} cells a row; got {row!r}.")
        object.__setattr__(self, "headers", tuple(map(visible, self.headers)))
        object.__setattr__(self, "rows", tuple(tuple(map(visible, row)) for row in self.rows))
        object.__setattr__(self, "spare", tuple(header for header in self.spare if header in self.headers))

    def latex(self) -> str:
        """A tabular with the rules of booktabs."""
        # A bracket or a star after the end of a line would be an argument of it.
        escaped = [" & ".join(cell.translate(LATEX) for cell in row) for row in (self.headers, *self.rows)]
        lines = ["{}" * line.startswith(("[", "*")) + line + r" \\" for line in escaped]
        body = [*lines[1 : self.rule + 1], r"\midrule", *lines[self.rule + 1 :]] if self.rule else lines[1:]
        begin = rf"\begin{{tabular}}{{l{'r' * (len(self.headers) - 1)}}}"
        return "\n".join([begin, r"\toprule", lines[0], r"\midrule", *body, r"\bottomrule", r"\end{tabular}"])

    def html(self) -> str:
        """An HTML table, by statsmodels, with names escaped."""
        from statsmodels.iolib.table import SimpleTable
        from statsmodels.iolib.tableformatting import fmt_params

        escaped = [[html.escape(cell) for cell in row] for row in (self.headers, *self.rows)]
        data, stubs = [row[1:] for row in escaped[1:]], [row[0] for row in escaped[1:]]
        text: str = SimpleTable(data, escaped[0][1:], stubs, txt_fmt=fmt_params).as_html()
        return text

    def text(self, width: int) -> str:
        """Aligned columns, a line a row, with whole names where leaving out the `spare` columns makes room for them.

        Else names are cut, if enough of each is left and no two become alike; else they stand above their rows.
        """
        names, (longest, *widths) = [row[0] for row in self.rows], self._widths()
        readable = min(longest, SHORTEST_NAME * (1 + max((name.count(PAIRED) for name in names), default=0)))
        for shortest in (longest,) if self.blocks else (longest, readable):
            for n in range(len(self.spare) + 1):
                grid = self._only([i for i, header in enumerate(self.headers) if header not in self.spare[:n]])
                room = min(width - sum(w + 2 for w in grid._widths()[1:]), longest)
                cut = [shorten(name, room) for name in names] if room >= shortest else []
                if _n_names(cut) == _n_names(names):
                    note = f"\nLeft out at {width} columns: {', '.join(self.spare[:n])}." if n else ""
                    return grid._aligned(cut, room, width) + note
        right = sum(w + 2 for w in widths)
        blocks = self._in_blocks(width) if self.blocks or right > width else []
        if len(blocks) > 1:
            return "\n\n".join(block.text(width) for block in blocks)
        return self._aligned(names, min(longest, max(width - right, 0)), width)

    def _aligned(self, names: Sequence[str], room: int, width: int) -> str:
        """The table under these names; one of more than `room` letters stands above its row."""
        heads, widths = self._heads(), self._widths()[1:]

        def line(stub: str, cells: Texts) -> str:
            stub = stub if len(stub) <= room else ""
            return stub.ljust(room) + "".join(cell.rjust(w + 2) for cell, w in zip(cells, widths, strict=True))

        lines = [line(head[0], head[1:]) for head in heads]
        rule = "-" * len(lines[0])
        lines.append(rule)
        for i, (name, row) in enumerate(zip(names, self.rows, strict=True)):
            lines += [rule] if self.rule and i == self.rule else []
            lines += in_lines(name, width, "  ") if len(name) > room else []
            lines.append(line(name, row[1:]))
        return "\n".join(lines)

    def _only(self, places: Sequence[int]) -> Grid:
        """The table of some columns."""
        headers, *rows = (tuple(row[i] for i in places) for row in (self.headers, *self.rows))
        return replace(self, headers=headers, rows=tuple(rows))

    def ends(self) -> Grid:
        """The first and the last rows, where there are many."""
        if len(self.rows) <= MOST_ROWS:
            return self
        half, gap = MOST_ROWS // 2, tuple([ELLIPSIS] * len(self.headers))
        return Grid(self.headers, (*self.rows[:half], gap, *self.rows[-half:]))

    def _heads(self) -> list[Texts]:
        """The headers, whole, on as many lines as the longest needs beside the cells of its column."""
        wrapped = []
        for column in zip(*(self.headers, *self.rows), strict=True):
            room = max(LONGEST_HEAD, *(len(cell) for cell in column[1:]), 0)
            wrapped.append(_wrapped(column[0], room))
        height = max(map(len, wrapped))
        return list(zip(*([""] * (height - len(lines)) + lines for lines in wrapped), strict=True))

    def _widths(self) -> list[int]:
        """Letters of each column."""
        return [max(map(len, column)) for column in zip(*(*self._heads(), *self.rows), strict=True)]

    def _in_blocks(self, width: int) -> list[Grid]:
        """Grids of as many columns as fit the width, each with the row names that have something in them."""
        widths = self._widths()
        chosen: list[list[int]] = [[0]]
        left = room = width - min(widths[0], width // 2)
        for i, needed in enumerate(widths[1:], 1):
            if len(chosen[-1]) > 1 and needed + 2 > left:
                chosen.append([0])
                left = room
            chosen[-1].append(i)
            left -= needed + 2
        blocks = []
        for block in map(self._only, chosen):
            filled = [i for i, row in enumerate(block.rows) if any(cell.strip() for cell in row[1:])]
            rule = sum(i < self.rule for i in filled)
            blocks.append(replace(block, rows=tuple(block.rows[i] for i in filled), blocks=True, rule=rule))
        return blocks

    def markdown(self) -> str:
        """A pipe table."""
        cells = [[markdown_text(cell) for cell in row] for row in (self.headers, *self.rows)]
        lines = ["| " + " | ".join(row) + " |" for row in cells]
        return "\n".join([lines[0], "|:---|" + "---:|" * (len(self.headers) - 1), *lines[1:]])


@dataclass(frozen=True)
class Summary:
    """A summary, ready to be printed: facts, tables and sentences."""

    title: str  # first line
    facts: tuple[tuple[str, str], ...]  # labels and values, set in two columns
    grids: tuple[Grid, ...]  # coefficients first
    sentences: Texts  # what is said below the tables
    rule: str = ""  # by which rule the intervals were made, where the title is an answer

    def __post_init__(self) -> None:
        """Spell out control characters, wherever a label brought them."""
        object.__setattr__(self, "title", visible(self.title))
        object.__setattr__(self, "facts", tuple((visible(label), visible(value)) for label, value in self.facts))
        object.__setattr__(self, "sentences", tuple(map(visible, self.sentences)))

    def as_text(self, width: int = WIDTH) -> str:
        """Plain text of that width: the answer or the facts, the tables, the notes."""
        values = (self.title, self.facts, self.grids, self.sentences, self.rule)
        return Summary(*map(_padded, values))._as_text(width).replace(FILLER, "")

    def _as_text(self, width: int) -> str:
        parts = ["\n".join(in_lines(self.title, width))] if self.title else []
        if self.rule:
            parts[0] += "\n" + "\n".join(in_lines(f"({self.rule})", width, " "))
        if self.facts:
            parts[0] += "\n" + "\n".join(self._fact_lines(width))
        parts += [grid.text(width) for grid in self.grids]
        notes = [line for i, text in enumerate(self.sentences, 1) for line in in_lines(f"[{i}] {text}", width, "    ")]
        return "\n\n".join([*parts, *(["\n".join(notes)] if notes else [])])

    def _fact_lines(self, width: int) -> list[str]:
        """Facts two a line where both fit in half the width, otherwise one a line."""
        half, lines, has_room = width // 2, list[str](), False
        for label, value in self.facts:
            text = f"{label}: {value}"
            is_short = len(text) < half - 1
            if is_short and has_room:
                lines[-1] = lines[-1].ljust(half) + text
            else:
                lines += in_lines(text, width, "  ")
            has_room = is_short and not has_room
        return lines

    def as_markdown(self) -> str:
        """Markdown with pipe tables."""
        facts = "\n".join(_untagged(f"- {label}: {value}") for label, value in self.facts)
        facts = _untagged(f"({self.rule})") if self.rule else facts
        notes = "\n".join(_untagged(f"{i}. {sentence}") for i, sentence in enumerate(self.sentences, 1))
        parts = [
            _untagged(f"**{self.title}**") if self.title else "",
            facts,
            *(grid.markdown() for grid in self.grids),
            notes,
        ]
        return "\n\n".join(filter(None, parts)).rstrip() + "\n"

    def as_latex(self) -> str:
        """LaTeX tabulars, with the sentences below them."""
        tables = [grid.latex() for grid in self.grids]
        # A bracket or a star after the end of a line would be an argument of it.
        texts = [latex_text(sentence) for sentence in self.sentences]
        notes = "\\\\\n".join("{}" + text if text[:1] in ("[", "*") else text for text in texts)
        return "\n\n".join([*tables, f"{{\\small\n{notes}\n}}"] if notes else tables) + "\n"

    def as_html(self) -> str:
        """HTML tables by statsmodels, with facts above and sentences below."""
        left = ' style="text-align: left"'
        facts = "".join(
            f"<tr><th{left}>{html.escape(a)}</th><td{left}>{html.escape(b)}</td></tr>" for a, b in self.facts
        )
        tables = "".join(grid.html() for grid in self.grids)
        notes = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in self.sentences)
        above = f'<table class="simpletable">{facts}</table>' if facts else ""
        above = f"<p>({html.escape(self.rule)})</p>" if self.rule else above
        return f'<div class="evalreg"><h4>{html.escape(self.title)}</h4>{above}{tables}<ol>{notes}</ol></div>'

    def __repr__(self) -> str:
        return self.as_text()

    def _repr_html_(self) -> str:
        return self.as_html()


def _padded(value: Any) -> Any:
    """The same with a filler behind each letter that takes two columns of a terminal."""
    if isinstance(value, str):
        wide = (letter + FILLER * (east_asian_width(letter) in "WF") for letter in value)
        return value if value.isascii() else "".join(wide)
    if isinstance(value, Grid):
        return replace(value, headers=_padded(value.headers), rows=_padded(value.rows))
    return tuple(map(_padded, value))


def in_lines(text: str, width: int, indent: str = "") -> list[str]:
    """A text as lines of that width, broken at spaces, and at the hyphens of names where one is longer than a line."""
    too_long = any(len(word) > width - len(indent) for word in text.split())
    return textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=too_long)


def _n_names(names: Iterable[str]) -> int:
    """How many different names there are, of pairs each of the two."""
    return len({part for name in names for part in name.split(PAIRED)})


def _wrapped(name: str, width: int) -> list[str]:
    """A name over lines of at most so many characters, broken after punctuation where there is some."""
    lines = [""]
    for part in re.split(r"(?<=[-_/:.,\s])", name):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        whole = lines.pop() + part
        lines += [whole[i : i + width] for i in range(0, len(whole), width)] or [""]
    return lines


def latex_table(grid: Grid, caption: str = "", label: str | None = None) -> str:
    """A grid as one booktabs table; a standard error stands in parentheses behind its estimate."""
    headers, rows = list(grid.headers), [list(row) for row in grid.rows]
    if "std err" in headers[2:]:
        place = headers.index("std err")
        headers[place - 1] = f"{headers[place - 1]} (SE)"
        for row in (headers, *rows):
            error = row.pop(place)
            row[place - 1] = row[place - 1] if row is headers else f"{row[place - 1]} ({error})"
    head = [r"\begin{table}", r"\centering", *([rf"\caption{{{caption}}}"] if caption else [])]
    head += [rf"\label{{{label}}}"] if label else []
    tabular = Grid(tuple(headers), tuple(map(tuple, rows)), rule=grid.rule).latex()
    return "\n".join([*head, tabular, r"\end{table}"]) + "\n"


def latex_text(text: str) -> str:
    """Text in which nothing is a command of LaTeX."""
    return text.translate(LATEX)


def markdown_text(text: str) -> str:
    """A cell as text and not as markup."""
    return _untagged(_MARKS.sub(r"\\\1", text))


def _untagged(text: str) -> str:
    """Text in which no tag and no entity of HTML begins."""
    return _TAG.sub(lambda match: "&lt;" if match[0] == "<" else "&amp;", text)


class Shown(ABC):
    """What has a summary, which a terminal and a notebook show."""

    @abstractmethod
    def summary(self) -> Summary:
        """Tables and sentences."""

    def __repr__(self) -> str:
        return self.summary().as_text()

    def _repr_html_(self) -> str:
        return self.summary().as_html()


class Printed(Shown):
    """What has a summary, in the formats of a terminal, a notebook and a paper."""

    @abstractmethod
    def summary(self, alpha: float = 0.05) -> Summary:
        """Tables and sentences."""

    def to_latex(self, alpha: float | None = None, *, caption: str | None = None, label: str | None = None) -> str:
        r"""One table for a paper, with booktabs: estimates as "0.744 (0.020)", caption and label.

        Parameters
        ----------
        alpha : float, optional
            Level of the intervals; that of the summary by default.
        caption : str, optional
            As LaTeX; by default what is estimated, with which intervals, from how many rows and clusters.
        label : str, optional
            For ``\\ref``; none by default.

        Returns
        -------
        str
            A ``table`` with one ``tabular``.
        """
        text = caption if caption is not None else self._caption(0.05 if alpha is None else alpha)
        summary = self.summary() if alpha is None else self.summary(alpha)
        return latex_table(summary.grids[0], text, label)

    def _caption(self, alpha: float) -> str:
        """What stands below the table, as LaTeX; nothing where that is not known."""
        return ""


def show(frame: Any) -> Summary:
    """A table that prints every column, within 80 characters.

    pandas leaves columns out where a frame is wider than the terminal. Here columns that do not fit go below each
    other, names of rows are whole, and numbers are as in summaries.

    Parameters
    ----------
    frame : DataFrame or Series
        What `leaderboard`, `pairwise`, `to_frame`, `Comparison.table` and the like return; or any other.

    Returns
    -------
    Summary
        Prints as text of 80 columns; also `as_markdown()`, `as_latex()` and `as_html()`. All rows are shown.

    Raises
    ------
    ArgumentTypeError
        If it is no pandas frame.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.paired(n_passages=20, seed=1)
    >>> print(er.show(er.compare(log, item="question", groups="passage").table))
    1 row, 12 columns
    <BLANKLINE>
    model - baseline  difference      se    lower   upper  p_value  correlation    n
    --------------------------------------------------------------------------------
    new - old             0.0500  0.0663  -0.0964  0.1963    0.463       0.1732  100
    <BLANKLINE>
    model - baseline  n_clusters  dof  variance_saved  n_unpaired  paired
    ---------------------------------------------------------------------
    new - old                 20   19          0.1727           0    True
    """
    table = (
        frame.to_frame("value" if frame.name is None else str(frame.name)) if isinstance(frame, pd.Series) else frame
    )
    if not isinstance(table, pd.DataFrame):
        raise ArgumentTypeError(f"`frame` must be a pandas frame or series; got {type(frame).__name__}.")
    joint = " - " if list(table.index.names) in (["left", "right"], ["model", "baseline"]) else ", "
    corner = joint.join(str(name) for name in table.index.names if name is not None)
    names = [joint.join(map(str, key)) if isinstance(key, tuple) else str(key) for key in table.index]
    cells = [_cells(table.iloc[:, i], str(column)) for i, column in enumerate(table.columns)]
    rows = tuple((name, *row) for name, *row in zip(names, *cells, strict=True))
    columns: Any = table.columns
    headers = (corner, *(", ".join(map(str, c)) if isinstance(c, tuple) else str(c) for c in columns))
    title = ", ".join(map(counted, table.shape, ("row", "column")))
    return Summary(title, (), (Grid(headers, rows, blocks=True),), ())


def _cells(values: pd.Series[Any], column: str) -> list[str]:
    """The values of a column as summaries print them."""
    if column == "dof" and pd.api.types.is_float_dtype(values):
        return ["" if text == "nan" else text for text in dof_texts(values)]
    return [_cell(value, column) for value in values]


def _cell(value: Any, column: str) -> str:
    """A value as summaries print it; nothing for a missing one."""
    if isinstance(value, list | tuple | dict | np.ndarray | pd.Series):
        return counted(len(value), "value")
    if pd.isna(value):
        return ""
    if not isinstance(value, float | np.floating):
        return str(value)
    is_p = column.endswith("p_value") or column.startswith("p_") or "_p_" in column
    return p_value(float(value)) if is_p else number(float(value))
