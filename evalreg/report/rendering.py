"""A report in a format: HTML by jinja2, with every text escaped; Markdown, which is the answer and its table."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from evalreg.checks import option, visible
from evalreg.errors import NotAvailableError
from evalreg.report.documents import as_compact_json, versions
from evalreg.report.tables import Grid, Texts, latex_text, markdown_text

if TYPE_CHECKING:
    from jinja2 import Environment, Template

MarkupName: TypeAlias = Literal["text", "markdown", "latex", "html"]
MARKUPS: tuple[MarkupName, ...] = get_args(MarkupName)
ReportFormat: TypeAlias = Literal["html", "md", "json"]
REPORT_FORMATS: tuple[ReportFormat, ...] = get_args(ReportFormat)
# What a comment on a merge request may hold.
MOST_CHARACTERS = 65_000
# What sites that show Markdown make links and messages of; and what makes a line something else than a paragraph.
_LINKS = re.compile(r"(?<=[@#!$])(?=\w)|(?<=:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
_BLOCK = re.compile(r"^(\s*)([#>=]|[+-](?=\s|-)|\d+(?=[.)]\s))")


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

    title: str
    image: str  # its source; empty where it could not be drawn
    table: Grid | None  # None where the table of scores says the same
    note: str = ""  # a sentence on that table


NOTHING = Grid((), ())


@dataclass(frozen=True)
class Page:
    """What a report says, in the order in which it says it; sentences may hold names marked by `named`."""

    title: str = ""
    heading: str = "Scores"  # above the table
    answer: Texts = ()  # two sentences
    scores: Grid = NOTHING
    scores_note: Texts = ()
    figures: tuple[Figure, ...] = ()
    missing: Texts = ()  # what could not be drawn or computed
    read: Texts = ()  # what was read of files, and left out there
    left_out: Texts = ()  # rows that were not used
    design: Texts = ()  # rows, clusters and what they do, in plain words
    notes: Texts = ()  # sentences of the summary, warnings among them
    grids: tuple[tuple[str, Grid], ...] = ()  # dependence and clusters, each under a title
    methods: Texts = ()
    formulas: Texts = ()  # in plain text
    sources: Texts = ()
    options: tuple[tuple[str, str], ...] = ()  # as resolved
    command: str = ""  # on one line; empty where the report was not made by one
    document: str = ""  # the results as JSON


def rendered_page(page: Page, form: ReportFormat) -> str:
    """The report as text in a format."""
    if form == "json":
        read = {"read": list(page.read)} if page.read else {}
        return as_compact_json(json.loads(page.document) | read) + "\n"
    return _html(page) if form == "html" else _markdown(page)


def _template(name: str) -> str:
    return files("evalreg.report").joinpath("templates", name).read_text(encoding="utf-8")


def check_renders(form: ReportFormat) -> None:
    """Refuse a format that cannot be written here."""
    if form == "html":
        _environment()


def _environment(**options: Any) -> Environment:
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as problem:
        raise NotAvailableError(
            'reports need jinja2, which is not installed. Run: pip install "evalreg[report]". '
            'The formats "md" and "json" do not need it.'
        ) from problem
    return Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, **options)


# Each template is read and compiled once.
@cache
def _html_template() -> Template:
    environment = _environment(autoescape=True, finalize=_shown)
    from markupsafe import Markup, escape

    def prose(text: str) -> Markup:
        shown = str(escape(visible(text, keep=OPEN + CLOSE)))
        return Markup(shown.replace(OPEN, "<bdi>").replace(CLOSE, "</bdi>"))

    # Neither the end of the element nor a comment can begin inside JSON.
    script_json = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"}
    environment.filters |= {
        "prose": prose,
        "words": words_of,
        "script_json": lambda text: Markup(text.translate(script_json)),
    }
    script = _template("report.js").strip()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment.globals |= {
        "style": Markup(_template("report.css").strip()),
        "script": Markup(script),
        "script_hash": f"sha256-{digest}",
    }
    return environment.from_string(_template("report.html"))


def _html(page: Page) -> str:
    text = _html_template().render(page=page, versions=versions())
    # Lines that are empty stay so in code.
    parts = re.split(r"(<pre.*?</pre>)", text, flags=re.DOTALL)
    return "".join(part if i % 2 else re.sub(r"\n{2,}", "\n", part) for i, part in enumerate(parts))


def _shown(value: object) -> object:
    """A text with its control characters spelled out; markup that a filter made as it is."""
    return visible(value, keep="\n") if type(value) is str else value


def _markdown(page: Page) -> str:
    """The answer and its table, as much of it as fits a comment on a merge request."""
    rows = page.scores.rows
    while True:
        left = len(page.scores.rows) - len(rows)
        parts = [f"## {_as_markdown(page.title)}", " ".join(map(_as_markdown, page.answer))]
        # Names are code, in which nothing is a link, a tag or a message to a person.
        named = [" | ".join([_code(row[0]).replace("|", "\\|"), *map(markdown_text, row[1:])]) for row in rows]
        head = [" | ".join(page.scores.headers), ":---|" + "|".join(["---:"] * (len(page.scores.headers) - 1))]
        parts += [
            "\n".join(f"| {line} |" for line in (*head, *named)),
            *map(_as_markdown, (*page.scores_note, *page.read)),
        ]
        parts += [f"{left} more are in the report as HTML."] if left else []
        text = "\n\n".join(parts) + "\n"
        if len(text) <= MOST_CHARACTERS or len(rows) < 2:
            return text
        rows = rows[: len(rows) * 3 // 4]


def _as_markdown(text: str) -> str:
    """A sentence as text: no markup, no link, no message to a person; names are marked as code."""
    parts = re.split(f"{OPEN}([^{CLOSE}]*){CLOSE}", text)
    return "".join(str(_code(part)) if i % 2 else _plain_markdown(part) for i, part in enumerate(parts))


def _plain_markdown(text: str) -> str:
    shown = markdown_text(visible(text)).replace("<", "&lt;")
    shown = re.sub(r"([\[\]])", r"\\\1", shown)
    return _BLOCK.sub(r"\1\\\2", _LINKS.sub("<!-- -->", shown))


def _code(text: str) -> str:
    """Text as code on one line: the only thing that ends it are as many backticks as began it."""
    shown = visible(str(text)).translate(MARKS) or " "
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence, room = "`" * (longest + 1), " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{room}{shown}{room}{fence}"


def marked_up(text: str, markup: MarkupName) -> str:
    """A sentence with names marked by `named`, in a markup in which they and signs are escaped."""
    if option("markup", markup, MARKUPS) == "markdown":
        return _as_markdown(text)
    plain = visible(text, keep=OPEN + CLOSE).translate(MARKS)
    if markup == "latex":
        return latex_text(plain)
    return html.escape(plain) if markup == "html" else plain
