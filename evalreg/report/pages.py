"""A report: what it says, apart from the format in which it is written."""

from __future__ import annotations

from dataclasses import dataclass

from evalreg.report.tables import Grid, visible

# Around a name inside a sentence. A name cannot hold them, because `visible` spells them out.
OPEN, CLOSE = "\x02", "\x03"
MARKS = {ord(OPEN): "", ord(CLOSE): ""}


def named(name: object) -> str:
    """A name as a part of a sentence, marked so that each format can set it apart from the words."""
    return f"{OPEN}{visible(str(name))}{CLOSE}"


def words_of(text: str) -> str:
    """A sentence without the marks of names."""
    return text.translate(MARKS)


@dataclass(frozen=True)
class Figure:
    """A figure, and the table that says the same."""

    name: str
    title: str
    image: str  # its source; empty where it could not be drawn
    table: Grid | None  # None where the table of scores says the same
    told: str = ""  # a sentence on that table


@dataclass(frozen=True)
class Page:
    """What a report says, in the order in which it says it; sentences may hold names marked by `named`."""

    title: str
    answer: tuple[str, ...]  # two sentences
    scores: Grid
    scores_note: tuple[str, ...]
    figures: tuple[Figure, ...]
    missing: tuple[str, ...]  # what could not be drawn or computed
    left_out: tuple[str, ...]  # what was read of the log, and what was not used
    design: tuple[str, ...]  # rows, clusters and what they do, in plain words
    notes: tuple[str, ...]  # sentences of the summary, warnings among them
    grids: tuple[tuple[str, Grid], ...]  # dependence and clusters, each under a title
    methods: tuple[str, ...]
    formulas: tuple[str, ...]  # in plain text
    sources: tuple[str, ...]
    options: tuple[tuple[str, str], ...]  # as resolved
    versions: tuple[tuple[str, str], ...]
    command: str  # on one line; empty where the report was not made by one
    code: str
    document: str  # the results as JSON
    heading: str = "Scores"  # above the table
