"""A report in a format: HTML, Markdown or LaTeX, by jinja2, with every text escaped."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from evalreg.errors import NotAvailableError
from evalreg.report.pages import CLOSE, MARKS, OPEN, Page, words_of
from evalreg.report.tables import LATEX, Grid, latex_text, markdown_text, visible

if TYPE_CHECKING:
    from jinja2 import Environment, Template

ReportFormat: TypeAlias = Literal["html", "md", "tex", "json"]
REPORT_FORMATS: tuple[ReportFormat, ...] = get_args(ReportFormat)
# What a comment on a merge request may hold.
MOST_CHARACTERS = 65_000
# What sites that show Markdown make links and messages of; and what makes a line something else than a paragraph.
_LINKS = re.compile(r"(?<=[@#!$])(?=\w)|(?<=:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
_BLOCK = re.compile(r"^(\s*)([#>=]|[+-](?=\s|-)|\d+(?=[.)]\s))")
# Two hyphens are a dash, a bracket after the end of a line its argument, quotes and marks ligatures.
_TEX = LATEX | {ord("-"): "{-}", ord("["): "{[}", ord("]"): "{]}", ord("*"): "{*}", ord("'"): "{'}", ord("`"): "{`}"}
_TEX |= {ord('"'): r"\textquotedbl{}", ord("?"): "{?}", ord("!"): "{!}", ord(","): "{,}"}


class Raw(str):
    """Markup that a template made, which is not escaped again."""


def rendered_page(page: Page, form: ReportFormat) -> str:
    """The report as text in a format."""
    if form == "json":
        return page.document.rstrip("\n") + "\n"
    return {"html": _html, "md": _markdown, "tex": _latex}[form](page)


def _template(name: str) -> str:
    return files("evalreg.report").joinpath("templates", name).read_text(encoding="utf-8")


def check_renders(form: ReportFormat) -> None:
    """Refuse a format that cannot be written here."""
    if form != "json":
        _environment()


def _environment(**options: Any) -> Environment:
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as problem:
        raise NotAvailableError(
            'reports need jinja2, which is not installed. Run: pip install "evalreg[report]". '
            'The format "json" does not need it.'
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
    text = _html_template().render(page=page)
    # Lines that are empty stay so in code.
    parts = re.split(r"(<pre.*?</pre>)", text, flags=re.DOTALL)
    return "".join(part if i % 2 else re.sub(r"\n{2,}", "\n", part) for i, part in enumerate(parts))


def _shown(value: object) -> object:
    """A text with its control characters spelled out; markup that a filter made as it is."""
    return visible(value, keep="\n") if type(value) is str else value


def _markdown(page: Page) -> str:
    """As much as fits a comment: without details first, then without the last rows of the scores."""
    text = _markdown_of(page, full=True)
    if len(text) > MOST_CHARACTERS:
        text = _markdown_of(page, full=False)
    n_rows = len(page.scores.rows)
    while len(text) > MOST_CHARACTERS and n_rows > 1:
        n_rows = n_rows * 3 // 4
        text = _markdown_of(_shortened(page, n_rows), full=False, left=len(page.scores.rows) - n_rows)
    if len(text) > MOST_CHARACTERS:
        raise NotAvailableError(
            f"the report has {len(text):,} characters as Markdown without its tables, and {MOST_CHARACTERS:,} fit a "
            "comment. Write it as HTML."
        )
    return text


def _shortened(page: Page, n_rows: int) -> Page:
    """With fewer rows of scores; notes and lists of names, which grow with the models, are cut as well."""
    most = 2000
    notes = tuple(text if len(text) <= most else f"{text[:most].rstrip(OPEN + CLOSE)} ..." for text in page.notes)
    return replace(page, scores=Grid(page.scores.headers, page.scores.rows[:n_rows]), notes=notes)


@cache
def _markdown_template() -> Template:
    environment = _environment(finalize=lambda value: value if isinstance(value, Raw) else _as_markdown(str(value)))
    environment.filters |= {"raw": Raw, "code": _code, "cell": _cell, "fenced": _fenced}
    return environment.from_string(_template("report.md"))


def _markdown_of(page: Page, *, full: bool, left: int = 0) -> str:
    short = []
    if left:
        short.append(f"{left} more models are in the report as HTML, as are the tables of pairs and clusters.")
    elif not full:
        short.append("The tables of pairs and clusters are in the report as HTML.")
    text = _markdown_template().render(page=page, full=full, short=short)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _as_markdown(text: str) -> str:
    """A sentence as text: no markup, no link, no message to a person; names are marked as code."""
    parts = re.split(f"{OPEN}([^{CLOSE}]*){CLOSE}", text)
    return "".join(str(_code(part)) if i % 2 else _plain_markdown(part) for i, part in enumerate(parts))


def _plain_markdown(text: str) -> str:
    shown = markdown_text(visible(text)).replace("<", "&lt;")
    shown = re.sub(r"([\[\]])", r"\\\1", shown)
    return _BLOCK.sub(r"\1\\\2", _LINKS.sub("<!-- -->", shown))


def _code(text: str) -> Raw:
    """Text as code on one line: the only thing that ends it are as many backticks as began it."""
    shown = visible(str(text)).translate(MARKS) or " "
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence, room = "`" * (longest + 1), " " if shown.startswith("`") or shown.endswith("`") else ""
    return Raw(f"{fence}{room}{shown}{room}{fence}")


def _cell(text: str) -> Raw:
    """The same in a table, which ends a cell at a bar inside code too."""
    return Raw(_code(text).replace("|", "\\|")) if text else Raw("")


def _fenced(text: str, language: str) -> Raw:
    shown = "\n".join(map(visible, text.split("\n")))
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return Raw(f"{fence}{language}\n{shown}\n{fence}")


def marked_up(text: str, markup: str) -> str:
    """A sentence with names marked by `named`, in the markup "text", "markdown", "latex" or "html"."""
    if markup == "markdown":
        return _as_markdown(text)
    plain = visible(text, keep=OPEN + CLOSE).translate(MARKS)
    if markup == "latex":
        return latex_text(plain)
    return html.escape(plain) if markup == "html" else plain


@cache
def _latex_template() -> Template:
    delimiters = {
        "block_start_string": "((*",
        "block_end_string": "*))",
        "variable_start_string": "(((",
        "variable_end_string": ")))",
        "comment_start_string": "((#",
        "comment_end_string": "#))",
    }
    environment = _environment(
        finalize=lambda value: value if isinstance(value, Raw) else _as_latex(str(value)), **delimiters
    )
    environment.filters |= {"raw": Raw}
    return environment.from_string(_template("report.tex"))


def _latex(page: Page) -> str:
    lines = {"command": page.command.split("\n") if page.command else [], "code": page.code.split("\n")}
    template = _latex_template()
    body = template.render(page=page, letters=[], **lines)
    letters = sorted({f"{ord(letter):04X}" for letter in body if ord(letter) > 0x7F})
    return re.sub(r"\n{3,}", "\n\n", template.render(page=page, letters=letters, **lines))


def _as_latex(text: str) -> str:
    return visible(text, keep=OPEN + CLOSE).translate(MARKS).translate(_TEX)
