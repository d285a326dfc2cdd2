"""What a command prints: one renderer for text, JSON, CSV, Markdown, LaTeX and HTML, whatever the command computed."""

from __future__ import annotations

import html
import inspect
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from evalreg.checks import accessing, visible
from evalreg.cli.verbs import Reply, Request
from evalreg.errors import ArgumentError, NotAvailableError
from evalreg.report.documents import SCHEMA_VERSION, as_json, records, versions
from evalreg.report.sentences import p_text
from evalreg.report.summaries import dropped_lines
from evalreg.report.tables import Grid, Summary, latex_text, markdown_text, show, spreadsheet

# Columns of a terminal that are used at most; and of what is no terminal.
WIDEST, PLAIN = 120, 80
# The first line of a file that --summary made.
SUMMARY_MARK = "<!-- evalreg -->"


@dataclass(frozen=True)
class Output:
    """What a command prints, its status, and lines for standard error."""

    text: str
    status: int = 0
    to_file: bool = True  # whether --output names where the text goes, and not what was written already
    said: frozenset[str] = frozenset()  # notes of the result, which are not warned of once more
    messages: tuple[str, ...] = ()


def rendered(request: Request, reply: Reply) -> Output:
    """The reply of a command in the format that it requests."""
    form, about = request.form, reply.more.get("reported", reply.result)
    notes = getattr(getattr(about, "results", about), "notes", ()) or ()
    texts = [str(note[1] if isinstance(note, tuple) else note) for note in notes]
    if isinstance(reply.result, str):
        # Of a report the page has all notes, its Markdown the answer and its table.
        said = _in_lines(texts if form == "html" else ())
        return Output(reply.result, to_file=request.command.name != "summarise", said=said)
    if form == "json":
        text = _json(request, reply)
    elif form == "csv":
        text = _csv(request, reply)
    else:
        summary = summary_of(reply.result, request)
        text = _tables(request, reply, summary, form)
        texts += summary.sentences
    # A table alone has no place for notes: they are warnings then.
    said = _in_lines(() if form in ("csv", "latex") else texts)
    estimate = getattr(getattr(about, "results", about), "estimate", None)
    dropped = dropped_lines(getattr(estimate, "dropped", {})) if form in ("csv", "latex") else ()
    lines = _lines(request, reply) if form == "csv" or _is_one_table(reply, form) else []
    decided = [reply.gate.line] if reply.gate is not None and form in ("csv", "latex", "html") else []
    status = 0 if reply.gate is None else reply.gate.status
    if "summary" in request.options:
        _append(str(request.options["summary"]), _tables(request, reply, summary_of(reply.result, request), "md"))
    return Output(text, status, said=said, messages=(*decided, *dropped, *lines))


def _in_lines(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(" ".join(text.split()) for text in texts)


def _is_one_table(reply: Reply, form: str) -> bool:
    """Whether the result has a LaTeX table of itself, for a paper, which has no place for notes."""
    has_table = hasattr(reply.result, "to_latex") and not isinstance(reply.result, pd.DataFrame)
    return form == "latex" and has_table and not reply.more.keys() & {"board", "ranks"}


def _lines(request: Request, reply: Reply) -> list[str]:
    """What was read and kept, and answers in words: notes below a table, or lines for standard error."""
    lines = [] if reply.rows is None else request.read(reply.rows)
    for name, rows in reply.beside.items():
        lines += [f"{name}: {line}" if len(reply.beside) > 1 else line for line in request.read(rows)]
    if (test := reply.more.get("joint")) is not None:
        F = f"F({test.df_num:g}, {test.df_denom:.4g}) = {float(test.statistic):.4g}"
        lines.insert(0, f"All differences at once: {F}, p {p_text(float(test.pvalue), request.alpha)}.")
    return [*lines, *filter(None, [reply.sentence])]


def summary_of(result: Any, request: Request) -> Summary:
    """The summary of a result; of a table, its cells as they are printed."""
    if isinstance(result, pd.DataFrame):
        return Summary("", (), (grid_of(result),), ())
    if not hasattr(result, "summary"):
        values = {name: value for name, value in vars(result).items() if value is not None}
        return Summary("", (), (grid_of(pd.DataFrame([values]).T.set_axis(["value"], axis=1)),), ())
    options = {"alpha": request.alpha, "details": bool(request.get("details")), "seed": request.get("seed", 0)}
    options["averaged"] = bool(request.get("average"))
    options["ranks"] = request.command.name == "leaderboard" or bool(request.get("ranks"))
    names = inspect.signature(result.summary).parameters
    summary: Summary = result.summary(**{name: value for name, value in options.items() if name in names})
    return summary


def grid_of(table: pd.DataFrame) -> Grid:
    """A data frame as a table of text, named by its first column where it has no names; whole numbers as such."""
    if isinstance(table.index, pd.RangeIndex):
        table = table.set_index(table.columns[0])
    return replace(show(table.convert_dtypes()).grids[0], blocks=False)


def _tables(request: Request, reply: Reply, first: Summary, form: str) -> str:
    """Text, Markdown, LaTeX or HTML: the gate's line, the answer and its table, then what further options asked."""
    width = min(shutil.get_terminal_size((PLAIN, 24)).columns, WIDEST)
    more = {name: further for name, further in reply.more.items() if name not in ("board", "ranks", "joint")}
    # The notes of a page are numbered once.
    first = replace(first, sentences=(*first.sentences, *_lines(request, reply)))
    parts = [first, *(_further(name, further, request) for name, further in more.items())]
    # How a part is written, how a text is so that it is no markup, and how it stands out.
    ways: dict[str, tuple[Callable[[Summary], str], Callable[[str], str], str]] = {
        "text": (lambda part: part.as_text(width), str, "{}"),
        "md": (Summary.as_markdown, markdown_text, "**{}**"),
        "latex": (Summary.as_latex, latex_text, r"\noindent\textbf{{{}}}"),
        "html": (Summary.as_html, html.escape, "<p><strong>{}</strong></p>"),
    }
    write, escape, bold = ways[form]
    texts = [write(part) for part in parts]
    if _is_one_table(reply, form):
        texts[0] = str(reply.result.to_latex())
    # A browser is told the encoding of a file.
    title = f'<!doctype html>\n<meta charset="utf-8">\n<title>evalreg {request.command.name}</title>'
    head = [title] if form == "html" else []
    head += [bold.format(escape(visible(reply.gate.line)))] if reply.gate is not None else []
    # Commands are to be copied: they are not broken into lines as sentences are.
    tail = list(reply.result.next_steps(form)) if hasattr(reply.result, "next_steps") else []
    return "\n\n".join([*head, *(text for text in texts if text.strip()), *tail])


def _further(name: str, further: Any, request: Request) -> Summary:
    """What a further option asked of the result, under its name."""
    if hasattr(further, "to_frame") and not hasattr(further, "summary"):
        further = further.to_frame()
    summary = summary_of(further, request)
    return replace(summary, title=summary.title or name)


def frame_of(reply: Reply, request: Request) -> pd.DataFrame:
    """The table of a reply; a board's ranks stand beside its estimates."""
    shown = next((name for name in ("average", "wild", "board", "ranks") if name in reply.more), "")
    result, alpha = reply.more.get(shown, reply.result), request.alpha
    if isinstance(result, pd.DataFrame):
        return result
    if hasattr(result, "to_frame"):
        names = inspect.signature(result.to_frame).parameters
        options = {"alpha": alpha, "table": request.get("table", "models")}
        frame: pd.DataFrame = result.to_frame(**{name: value for name, value in options.items() if name in names})
        return frame
    for table in (getattr(result, name, None) for name in ("table", "models")):
        if isinstance(table, pd.DataFrame):
            return table
    nested = (list, tuple, dict, pd.DataFrame)  # which have no place in one row
    return pd.DataFrame([{name: value for name, value in asdict(result).items() if not isinstance(value, nested)}])


def _csv(request: Request, reply: Reply) -> str:
    for name in reply.more.keys() & {"best"}:
        raise ArgumentError(f"`{name}` has no place in CSV, which is one table. Name another format, such as json.")
    table = frame_of(reply, request)
    if not isinstance(table.index, pd.RangeIndex):
        names = [str(name) if name is not None else "name" for name in table.index.names]
        table = table.reset_index(names=names)
    if request.get("spreadsheet"):
        table = table.map(lambda cell: spreadsheet(cell) if isinstance(cell, str) else cell)
    return str(table.to_csv(index=False, lineterminator="\n"))


def _json(request: Request, reply: Reply) -> str:
    """Strict JSON: the result's own document, or its table, with the command, the log and further answers."""
    document = {"kind": request.command.name, "schema_version": SCHEMA_VERSION, "versions": versions()}
    document |= _document_of(reply.result, request) or _fields_of(reply, request)
    document["command"] = {"name": request.command.name, "files": list(request.files)} | dict(request.options)
    if reply.rows is not None and reply.rows.harness is not None:
        log = reply.rows.harness
        document["log"] = {
            "format": log.format,
            "left_out": {str(reason): int(count) for reason, count in log.left_out.items()},
            "notes": list(log.notes),
            "rows": len(log.frame),
            "runs": [{"model": run.model, "task": run.task, "path": run.path} for run in log.runs],
        }
    for name, further in reply.more.items():
        table = further.to_frame() if hasattr(further, "to_frame") else further
        if isinstance(table, pd.DataFrame):
            document[name] = table.reset_index().to_dict("records")
        else:  # a test of statsmodels
            document[name] = {key: float(getattr(table, key)) for key in ("statistic", "df_num", "df_denom", "pvalue")}
    if reply.gate is not None:
        document["gate"] = reply.gate.as_dict()
    if reply.sentence:
        document["sentence"] = reply.sentence
    return as_json(document)


def _document_of(result: Any, request: Request) -> dict[str, Any]:
    """The document that a result makes of itself; empty where it makes none."""
    if hasattr(result, "to_json") and not isinstance(result, pd.DataFrame):
        with suppress(NotAvailableError):  # a table of unlike estimates has no covariance to write
            return dict(json.loads(result.to_json(alpha=request.alpha)))
    return dict(result.as_dict()) if hasattr(result, "as_dict") else {}


def _fields_of(reply: Reply, request: Request) -> dict[str, Any]:
    """The table of a result, and its fields that are plain values or name some."""
    plain, table = str | int | float | bool, frame_of(replace(reply, more={}), request)
    named = table.index.names != [None]
    rows = records(table, *map(str, table.index.names)) if named else table.to_dict("records")
    fields = vars(reply.result) if is_dataclass(reply.result) else {}

    def is_plain(value: Any) -> bool:
        return isinstance(value, plain) or (isinstance(value, Mapping) and all(map(is_plain, value.values())))

    return {"table": rows} | {name: value for name, value in fields.items() if is_plain(value)}


def _append(file: str, markdown: str) -> None:
    """Add to the end of a file that --summary made, or make it; another file is left as it is."""
    path = Path(file)
    with accessing("summary", file):
        if path.exists() and path.stat().st_size and not path.read_text(encoding="utf-8").startswith(SUMMARY_MARK):
            raise ArgumentError(
                f'`summary` adds to files that it made itself; "{file}" begins with something else. Name another one.',
                parameter="summary",
            )
        start = "" if path.exists() and path.stat().st_size else f"{SUMMARY_MARK}\n\n"
        with path.open("a", encoding="utf-8", errors="replace", newline="\n") as stream:
            stream.write(f"{start}{markdown.rstrip()}\n\n")
