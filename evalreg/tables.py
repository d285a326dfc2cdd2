"""Tables already computed, to text, Markdown, LaTeX and HTML by statsmodels' SimpleTable."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

WIDTH = 80
ELLIPSIS = "..."


def number(value: float, digits: int = 4) -> str:
    """Return a number with a few decimals, or in scientific notation where those would show none.

    Parameters
    ----------
    value : float
        The number.
    digits : int
        Decimals.

    Returns
    -------
    str
        "nan" and "inf" in words.

    Examples
    --------
    >>> number(0.73126), number(0.000012), number(float("nan")), number(123456.7)
    ('0.7313', '1.20e-05', 'nan', '123457')
    """
    if not np.isfinite(value):
        return str(float(value))
    if value != 0 and abs(value) < 10.0 ** (1 - digits):
        return f"{value:.2e}"
    return f"{value:.{digits}f}" if abs(value) < 1000 else f"{value:.0f}" if abs(value) < 1e7 else f"{value:.3e}"


def fixed(value: float, digits: int) -> str:
    """Return a statistic with so many decimals whatever its size; none from a thousand on.

    Parameters
    ----------
    value : float
        A t statistic, a ratio or a number of rows, whose digits beyond `digits` say nothing.
    digits : int
        Decimals.

    Returns
    -------
    str
        "nan" and "inf" in words.

    Examples
    --------
    >>> fixed(-0.0209, 2), fixed(4178.3, 1), fixed(float("inf"), 1)
    ('-0.02', '4178', 'inf')
    """
    return number(value, digits) if abs(value) >= 1 or not np.isfinite(value) else f"{value:.{digits}f}"


def p_value(value: float) -> str:
    """Return a p-value with three decimals, "<.001" below that, "nan" where there is none.

    Parameters
    ----------
    value : float
        The p-value.

    Returns
    -------
    str
        Never 0.000.

    Examples
    --------
    >>> p_value(0.0421), p_value(1e-9)
    ('0.042', '<.001')
    """
    if np.isnan(value):
        return "nan"
    return "<.001" if value < 0.001 else f"{value:.3f}"


def shorten(name: str, width: int) -> str:
    """Return a name cut in the middle, so that both ends can be told apart.

    Parameters
    ----------
    name : str
        The name.
    width : int
        Largest length.

    Returns
    -------
    str
        At most `width` characters.

    Examples
    --------
    >>> shorten("anthropic/claude-3.5-sonnet-20241022", 20)
    'anthropic...20241022'
    """
    if len(name) <= width:
        return name
    left = (width - len(ELLIPSIS) + 1) // 2
    return name[:left] + ELLIPSIS + name[len(name) - (width - len(ELLIPSIS) - left) :]


@dataclass(frozen=True)
class Grid:
    """A table of text.

    Parameters
    ----------
    headers : tuple of str
        One for each column, the first for the row names.
    rows : tuple of tuple of str
        Row name and cells.

    Raises
    ------
    TypeError
        If a header or a cell is not text, or a row has not one cell a header: a fault of whoever made the table.
    """

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        """Refuse what is no text here, and not where a format happens to trip over it."""
        for row in (self.headers, *self.rows):
            if len(row) != len(self.headers) or not all(isinstance(cell, str) for cell in row):
                raise TypeError(f"a table holds text, {len(self.headers)} cells a row; got {row!r}.")

    def _simple(self, escape: Callable[[str], str]) -> Any:
        from statsmodels.iolib.table import SimpleTable
        from statsmodels.iolib.tableformatting import fmt_params

        data = [[escape(cell) for cell in row[1:]] for row in self.rows]
        stubs = [escape(row[0]) for row in self.rows]
        return SimpleTable(data, [escape(header) for header in self.headers[1:]], stubs, txt_fmt=fmt_params)

    def latex(self) -> str:
        """A tabular, by statsmodels, which escapes all but the signs of p-values and braces."""
        text: str = self._simple(lambda cell: cell.replace("{", "(").replace("}", ")")).as_latex_tabular()
        return text.replace("<.", "$<$.")

    def html(self) -> str:
        """An HTML table, by statsmodels, with names escaped."""
        text: str = self._simple(html.escape).as_html()
        return text

    def text(self, width: int) -> str:
        """Aligned columns; a row name too long for its column is cut, or stands on a line of its own.

        Names are cut only where they stay distinct.
        """
        columns = list(zip(*(self.headers, *self.rows), strict=True))
        widths = [max(map(len, column)) for column in columns]
        room = width - sum(w + 2 for w in widths[1:])
        first = min(widths[0], max(room, 12))
        # The numbers' columns share what room is left, so that tables of one summary end at one margin.
        spare = max(width - first - sum(w + 2 for w in widths[1:]), 0) // max(len(widths) - 1, 1)
        short = [shorten(row[0], first) for row in self.rows]
        lines = [self._line(self.headers[0].ljust(first), self.headers[1:], widths[1:], spare), "-" * width]
        for name, row in zip(short, self.rows, strict=True):
            if short.count(name) > 1 and name != row[0]:
                lines.append(row[0][:width])
                name = "  "
            lines.append(self._line(name.ljust(first), row[1:], widths[1:], spare))
        return "\n".join(lines)

    @staticmethod
    def _line(stub: str, cells: tuple[str, ...], widths: list[int], spare: int) -> str:
        return stub + "".join(cell.rjust(w + 2 + spare) for cell, w in zip(cells, widths, strict=True))

    def markdown(self) -> str:
        """A pipe table."""
        cells = [[cell.replace("|", "\\|") for cell in row] for row in (self.headers, *self.rows)]
        for row in cells:
            # A name is text, not HTML.
            row[0] = row[0].replace("<", "&lt;")
        lines = ["| " + " | ".join(row) + " |" for row in cells]
        return "\n".join([lines[0], "|:---|" + "---:|" * (len(self.headers) - 1), *lines[1:]])


@dataclass(frozen=True)
class Summary:
    """A summary, ready to be printed: facts, tables and sentences.

    Parameters
    ----------
    title : str
        First line.
    facts : tuple of (str, str)
        Labels and values, set in two columns.
    grids : tuple of Grid
        Coefficients first.
    sentences : tuple of str
        What is said below the tables.

    Examples
    --------
    >>> print(Summary("Title", (("Rows", "3"),), (), ("A note.",)).as_text(width=30))
                Title
    ==============================
    Rows: 3
    ==============================
    [1] A note.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    grids: tuple[Grid, ...]
    sentences: tuple[str, ...]

    def as_text(self, width: int = WIDTH) -> str:
        """Plain text of that width.

        Parameters
        ----------
        width : int
            Columns of the terminal.

        Returns
        -------
        str
            Lines no longer than `width`.
        """
        double, parts = "=" * width, [self.title.center(width).rstrip(), "=" * width]
        parts.extend(self._fact_lines(width))
        parts.append(double)
        for grid in self.grids:
            parts.extend([grid.text(width), double])
        for i, sentence in enumerate(self.sentences, 1):
            mark = f"[{i}] "
            parts.append(textwrap.fill(mark + sentence, width, subsequent_indent=" " * len(mark)))
        return "\n".join(parts)

    def _fact_lines(self, width: int) -> list[str]:
        """Facts two a line where both fit in half the width, otherwise one a line."""
        half, lines, waiting = width // 2, [], ""
        for label, value in self.facts:
            text = f"{label}: {value}"
            if len(text) >= half - 1:
                lines.extend([waiting] if waiting else [])
                lines.extend(textwrap.wrap(text, width, subsequent_indent="  "))
                waiting = ""
            elif waiting:
                lines.append(waiting.ljust(half) + text)
                waiting = ""
            else:
                waiting = text
        return [*lines, waiting] if waiting else lines

    def as_markdown(self) -> str:
        """Markdown with pipe tables."""
        facts = "\n".join(f"- {label}: {value}" for label, value in self.facts)
        notes = "\n".join(f"{i}. {sentence}" for i, sentence in enumerate(self.sentences, 1))
        return (
            "\n\n".join([f"**{self.title}**", facts, *(grid.markdown() for grid in self.grids), notes]).rstrip() + "\n"
        )

    def as_latex(self) -> str:
        """LaTeX tabulars by statsmodels, with the sentences below them."""
        tables = [grid.latex() for grid in self.grids]
        notes = "\\\\\n".join(_latex_text(sentence) for sentence in self.sentences)
        return "\n\n".join([*tables, f"{{\\small\n{notes}\n}}"] if notes else tables) + "\n"

    def as_html(self) -> str:
        """HTML tables by statsmodels, with facts above and sentences below."""
        left = ' style="text-align: left"'
        facts = "".join(
            f"<tr><th{left}>{html.escape(a)}</th><td{left}>{html.escape(b)}</td></tr>" for a, b in self.facts
        )
        tables = "".join(grid.html() for grid in self.grids)
        notes = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in self.sentences)
        return (
            f'<div class="evalreg"><h4>{html.escape(self.title)}</h4>'
            f'<table class="simpletable">{facts}</table>{tables}<ol>{notes}</ol></div>'
        )

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return self.as_text()

    def _repr_html_(self) -> str:
        return self.as_html()


def _latex_text(text: str) -> str:
    for mark in "&%$#_{}":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("<", "$<$").replace(">", "$>$")
