"""What a command prints: one renderer for text, JSON, CSV, Markdown, LaTeX and HTML, whatever was found."""

from __future__ import annotations

import inspect
import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import writing
from evalreg.cli.verbs import Found, Request
from evalreg.errors import ArgumentError, NotAvailableError
from evalreg.report.answer import tiers_summary
from evalreg.report.documents import SCHEMA_VERSION, as_json, records, versions
from evalreg.report.sentences import p_text
from evalreg.report.summaries import CORRECTED_BY
from evalreg.report.tables import Grid, Summary, number, spreadsheet

# Columns of a terminal that are used at most; and of what is no terminal.
WIDEST, PLAIN = 120, 80
SUFFIXES = {".html": "html", ".htm": "html", ".md": "md", ".tex": "latex", ".json": "json", ".csv": "csv"}
# The first line of a file that --summary made.
MADE = "<!-- evalreg -->"


@dataclass(frozen=True)
class Output:
    """What a command prints, its status, and lines for standard error."""

    text: str
    status: int = 0
    to_file: bool = True  # whether --output names where the text goes, and not what was written already
    said: frozenset[str] = frozenset()  # notes of the result, which are not warned of once more
    messages: tuple[str, ...] = ()


def format_of(asked: Request) -> str:
    """The format asked for, by its name or by the end of --output; the two may not contradict each other."""
    output = asked.get("output")
    ending = SUFFIXES.get(Path(str(output)).suffix.lower()) if output not in (None, "-") else None
    form = asked.get("format")
    if form and ending and form != ending:
        raise ArgumentError(
            f'`output` ends as {ending} does, and `format` is {form}; got "{output}".', parameter="output"
        )
    return str(form or ending or "text")


def rendered(asked: Request, found: Found) -> Output:
    """What was found, in the format asked for."""
    if isinstance(found.result, str):
        return Output(found.result, to_file=asked.command.name != "summarise")
    form, notes = format_of(asked), getattr(getattr(found.result, "results", found.result), "notes", ()) or ()
    # A table alone has no place for notes: they are warnings then.
    texts = (str(note[1] if isinstance(note, tuple) else note) for note in notes)
    said = frozenset[str]() if form in ("csv", "latex") else frozenset(" ".join(text.split()) for text in texts)
    log = found.rows.log if found.rows is not None else None
    if form == "json":
        text = _json(asked, found)
    elif form == "csv":
        text = _csv(asked, found)
    else:
        text = _tables(asked, found, form)
    messages = tuple(_of_log(log)) if form == "csv" and log is not None else ()
    status = 0 if found.gate is None else found.gate.status
    if found.gate is not None and form in ("csv", "latex", "html"):
        messages = (found.gate.line, *messages)
    if "summary" in asked.given:
        _append(str(asked.given["summary"]), _tables(asked, found, "md"))
    return Output(text, status, said=said, messages=messages)


def _of_log(log: Any) -> list[str]:
    """What was read of a log and what was left out, in one line, and what the reader says."""
    if log.format in ("table", "frame"):
        return list(log.notes)
    counts = ", ".join(f"{count:,} {reason}" for reason, count in log.left_out.items())
    return [f"{len(log.frame):,} rows of {log.format}; left out: {counts or 'none'}.", *log.notes]


def summary_of(result: Any, asked: Request) -> Summary:
    """The summary of a result; of a table, its cells as they are printed."""
    if isinstance(result, pd.DataFrame):
        return Summary("", (), (grid_of(result),), ())
    if not hasattr(result, "summary"):
        values = asdict(result) if is_dataclass(result) and not isinstance(result, type) else {"": str(result)}
        return Summary("", (), (grid_of(pd.DataFrame([values]).T.set_axis(["value"], axis=1)),), ())
    options = {"alpha": asked.alpha, "details": bool(asked.get("details")), "seed": asked.get("seed", 0)}
    options["ranks"] = asked.command.name == "leaderboard" or bool(asked.get("ranks"))
    names = inspect.signature(result.summary).parameters
    found: Summary = result.summary(**{name: value for name, value in options.items() if name in names})
    if "best" not in {option.name for option in asked.command.options()}:
        return found
    return replace(found, sentences=tuple(text.replace(CORRECTED_BY, "--best") for text in found.sentences))


def grid_of(table: pd.DataFrame) -> Grid:
    """A data frame as a table of text."""
    if table.index.nlevels > 1:
        table = table.set_axis([" - ".join(map(str, key)) for key in table.index], axis=0)
    elif isinstance(table.index, pd.RangeIndex):
        table = table.set_index(table.columns[0])
    rows = tuple(
        (str(name), *(_cell(value) for value in row))
        for name, row in zip(table.index, table.to_numpy(dtype=object), strict=True)
    )
    return Grid(("", *map(str, table.columns)), rows)


def _cell(value: Any) -> str:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        return str(value)
    exact = float(value)
    return str(int(exact)) if exact.is_integer() and abs(exact) < 1e15 else number(exact)


def _tables(asked: Request, found: Found, form: str) -> str:
    """Text, Markdown, LaTeX or HTML: the gate's line, the answer and its table, then what further options asked."""
    width = min(shutil.get_terminal_size((PLAIN, 24)).columns, WIDEST)
    board = found.more.get("board")
    first = summary_of(found.result, asked)
    log = found.rows.log if found.rows is not None else None
    lines = [*(_of_log(log) if log is not None and asked.command.name != "doctor" else [])]
    lines += [f"Rows kept: {found.rows.kept}."] if found.rows is not None and found.rows.kept else []
    if found.rows is not None and ("by" in asked.given or "by" not in names_of(asked)):
        lines += [text for text in [found.rows.together(asked.given)] if text]
    lines += [found.sentence] if found.sentence else []
    if form == "latex" and hasattr(found.result, "to_latex") and board is None:
        return str(found.result.to_latex())
    more = {name: answer for name, answer in found.more.items() if name not in ("board", "ranks", "joint")}
    if (test := found.more.get("joint")) is not None:
        F = f"F({test.df_num:g}, {test.df_denom:.4g}) = {float(test.statistic):.4g}"
        lines.insert(0, f"All differences at once: {F}, p {p_text(float(test.pvalue), asked.alpha)}.")
    # The notes of a page are numbered once.
    first = replace(first, sentences=(*first.sentences, *lines))
    parts = [first, *(_further(name, answer, asked) for name, answer in more.items())]
    render = {
        "text": lambda part: part.as_text(width),
        "md": lambda part: part.as_markdown(),
        "latex": lambda part: part.as_latex(),
        "html": lambda part: part.as_html(),
    }[form]
    gate = {"text": "{}", "md": "**{}**", "latex": r"\noindent\textbf{{{}}}", "html": "<p><strong>{}</strong></p>"}
    head = [gate[form].format(found.gate.line)] if found.gate is not None else []
    # Commands are to be copied: they are not broken into lines as sentences are.
    tail = list(found.result.next_steps(form)) if hasattr(found.result, "next_steps") else []
    return "\n\n".join([*head, *(text for text in map(render, parts) if text.strip()), *tail])


def names_of(asked: Request) -> frozenset[str]:
    """The parameters of the functions of a command."""
    return frozenset[str]().union(*asked.command.names.values())


def _further(name: str, answer: Any, asked: Request) -> Summary:
    """What a further option asked of the result, under its name."""
    if name == "tiers":
        return tiers_summary(answer)
    if hasattr(answer, "to_frame") and not hasattr(answer, "summary"):
        answer = answer.to_frame()
    if isinstance(answer, str) or (not isinstance(answer, pd.DataFrame) and not hasattr(answer, "to_frame")):
        return Summary("", (), (), tuple(line for line in str(answer).splitlines() if line.strip()))
    summary = summary_of(answer, asked)
    return replace(summary, title=summary.title or name)


def frame_of(found: Found, asked: Request) -> pd.DataFrame:
    """The table of what was found; a board's ranks stand beside its estimates."""
    result, alpha = found.more.get("board", found.more.get("ranks", found.result)), asked.alpha
    result = found.more.get("average", found.more.get("wild", result))
    if isinstance(result, pd.DataFrame):
        return result
    if hasattr(result, "to_frame"):
        names = inspect.signature(result.to_frame).parameters
        options = {"alpha": alpha, "table": asked.get("table", "models")}
        frame: pd.DataFrame = result.to_frame(**{name: value for name, value in options.items() if name in names})
        return frame
    if hasattr(result, "table") and isinstance(result.table, pd.DataFrame):
        return result.table
    if hasattr(result, "models") and isinstance(result.models, pd.DataFrame):
        return result.models
    return pd.DataFrame([_plain(asdict(result))])


def _plain(values: Any) -> Any:
    """Fields that have a place in one row of a table."""
    return {name: value for name, value in values.items() if not isinstance(value, list | tuple | dict | pd.DataFrame)}


def _csv(asked: Request, found: Found) -> str:
    table = frame_of(found, asked)
    if not isinstance(table.index, pd.RangeIndex):
        names = [str(name) if name is not None else "name" for name in table.index.names]
        table = table.reset_index(names=names)
    if asked.get("spreadsheet"):
        table = table.map(lambda cell: spreadsheet(cell) if isinstance(cell, str) else cell)
    return str(table.to_csv(index=False, lineterminator="\n"))


def _json(asked: Request, found: Found) -> str:
    """Strict JSON: the result's own document, or its table, with the command, the log and further answers."""
    result = found.result
    document: dict[str, Any] = {}
    if hasattr(result, "to_json") and not isinstance(result, pd.DataFrame):
        with suppress(NotAvailableError):  # a table of unlike estimates has no covariance to write
            document = json.loads(result.to_json(alpha=asked.alpha))
    elif hasattr(result, "as_dict"):
        document = result.as_dict()
    if not document:
        table = frame_of(replace(found, more={}), asked)
        named = table.index.names != [None]
        document["table"] = records(table, *map(str, table.index.names)) if named else table.to_dict("records")
        if is_dataclass(result) and not isinstance(result, type):
            fields = {name: getattr(result, name) for name in vars(result)}
            document |= {name: value for name, value in fields.items() if isinstance(value, str | int | float | bool)}
            for name, value in fields.items():
                if isinstance(value, Mapping) and all(isinstance(one, str | int | float) for one in value.values()):
                    document[name] = dict(value)
    document = {"kind": asked.command.name, "schema_version": SCHEMA_VERSION, "versions": versions()} | document
    document["command"] = {"name": asked.command.name, "files": list(asked.files)} | dict(asked.given)
    if found.rows is not None and found.rows.harness is not None:
        log = found.rows.harness
        document["log"] = {
            "format": log.format,
            "left_out": {str(reason): int(count) for reason, count in log.left_out.items()},
            "notes": list(log.notes),
            "rows": len(log.frame),
            "runs": [{"model": run.model, "task": run.task, "path": run.path} for run in log.runs],
        }
    for name, answer in found.more.items():
        table = answer.to_frame() if hasattr(answer, "to_frame") else answer
        is_table = isinstance(table, pd.DataFrame)
        document[name] = table.reset_index().to_dict("records") if is_table else str(answer)
    if found.gate is not None:
        document["gate"] = found.gate.as_dict()
    if found.sentence:
        document["sentence"] = found.sentence
    return as_json(document)


def _append(file: str, markdown: str) -> None:
    """Add to the end of a file that --summary made, or make it; another file is left as it is."""
    path = Path(file)
    with writing("summary", file):
        if path.exists() and path.stat().st_size and not path.read_text(encoding="utf-8").startswith(MADE):
            raise ArgumentError(
                f'`summary` adds to files that it made itself; "{file}" begins with something else. Name another one.',
                parameter="summary",
            )
        start = "" if path.exists() and path.stat().st_size else f"{MADE}\n\n"
        with path.open("a", encoding="utf-8", errors="replace", newline="\n") as stream:
            stream.write(f"{start}{markdown.rstrip()}\n\n")
