"""Logs of harnesses on the command line: how they are recognised, which of their scores, and what was left out."""

from __future__ import annotations

import argparse
import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd

from evalreg.checks import option
from evalreg.cli.parsing import offering
from evalreg.errors import ArgumentError, EvalregWarning, MissingColumnError, issue
from evalreg.logs.content import Content
from evalreg.logs.fields import the_field
from evalreg.logs.files import find_files, find_sources, read_head
from evalreg.logs.formats import READERS, format_of, sort_sources
from evalreg.logs.log import Log
from evalreg.logs.partitions import partitions
from evalreg.logs.read import links_passed_over, read_log
from evalreg.logs.reading import BrokenName, FailedName, Source, counted
from evalreg.logs.roles import ROLES
from evalreg.logs.table import table_and_broken
from evalreg.logs.table_log import joined, text_in_some

FILES_HELP = """\
CSV, TSV, JSON lines, Parquet or Arrow, also compressed by gzip ("-" is standard input), or logs of a harness, whose
columns need no names: files, folders or patterns; told apart by content"""

_CHOICES = {
    "metric": "which metric to read, where a log has several",
    "filter": "which filter, where a log has several",
    "scorer": "which scorer, where a log has several",
}
# Names that formulas use and that are no columns, unless there is one.
_FUNCTIONS = {"np", "Q", "C", "I", "center", "scale", "standardize", "bs", "cr", "cc", "te", "Poly", "Sum", "Treatment"}


class FilesAction(argparse.Action):
    """One file as a text, several as a list."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        """Keep the files."""
        setattr(namespace, self.dest, values[0] if len(values) == 1 else values)


def add_files(parser: argparse.ArgumentParser) -> None:
    """Add the files of a command."""
    parser.add_argument("file", metavar="FILE", nargs="+", action=FilesAction, help=FILES_HELP)


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Add what is chosen of a log."""
    group = parser.add_argument_group("logs of a harness")
    for name, text in _CHOICES.items():
        group.add_argument(f"--{name}", metavar="NAME", help=text)
    offering(
        group.add_argument(
            "--failed",
            metavar="RULE",
            help=f"{_or(get_args(FailedName))}: scores of samples that ended in error (default: drop)",
        ),
        get_args(FailedName),
    )
    offering(
        group.add_argument(
            "--broken",
            metavar="RULE",
            help=f"{_or(get_args(BrokenName))}: records that cannot be read (default: raise)",
        ),
        get_args(BrokenName),
    )
    offering(
        group.add_argument(
            "--log-format",
            metavar="NAME",
            help=f'{_or(READERS)}, where content does not tell; "table" is one whose columns have the names of roles',
        ),
        READERS,
    )
    group.add_argument(
        "--roles",
        metavar="ROLES",
        help="columns of a table that have roles: item=question_id,score=correct, or a TOML file such as roles.toml",
    )


def _or(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}"


def check_choices(options: argparse.Namespace) -> None:
    """Refuse wrong choices before a large file is read."""
    for name, known in (("failed", get_args(FailedName)), ("broken", get_args(BrokenName))):
        if getattr(options, name) is not None:
            option(name, getattr(options, name), known)
    if options.log_format is not None:
        option("log_format", options.log_format, tuple(READERS))


def short_names(files: Sequence[str], rule: str) -> list[str]:
    """Of each path the end that tells it from the others; `rule` says why one must not be there twice."""
    paths = [Path(file).parts for file in files]
    ends = (["/".join(path[-k:]) for path in paths] for k in range(1, max(map(len, paths)) + 1))
    short = next((names for names in ends if len(set(names)) == len(files)), None)
    if short is None:
        raise ArgumentError(f"{rule}; the same one is named twice. Name it once.")
    return short


def file_list(options: argparse.Namespace) -> list[str]:
    """The files as they were named."""
    return [options.file] if isinstance(options.file, str) else list(options.file)


def choices(options: argparse.Namespace) -> dict[str, Any]:
    """The choices that were made, as arguments of `read_log`."""
    found = {name: getattr(options, name) for name in (*_CHOICES, "failed", "broken", "roles")}
    found["format"], found["roles"] = options.log_format, _roles(options.roles)
    return {name: value for name, value in found.items() if value is not None}


def _roles(text: str | None) -> Any:
    """Roles as `read_log` takes them: a mapping of ``item=question_id,score=correct``, or a file."""
    if text is None or "=" not in text or os.path.exists(text):
        return text
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(role.strip() and column.strip() for role, _, column in pairs):
        raise ArgumentError(
            f'`--roles` must be a file or pairs such as "item=question_id,score=correct"; got "{text}".'
        )
    if len({role.strip() for role, _, _ in pairs}) < len(pairs):
        raise ArgumentError(f'`--roles` must name each role once; got "{text}".')
    return {role.strip(): column.strip() for role, _, column in pairs}


def open_log(
    options: argparse.Namespace, text: Sequence[str] = (), fields: Sequence[str] = ()
) -> tuple[Log | None, dict[str, list[str]]]:
    """The log that the files are, and the further arguments of `read_log` by which it was read.

    None where they are plain tables, whose columns the options name. A reader keeps what may be a cluster; columns in
    `text` or `fields` that it does not keep are read by their names.
    """
    files, made = file_list(options), choices(options)
    if options.roles is None and options.log_format is None and _are_tables(files, made):
        choice = next(iter(made), None)
        if choice is not None:
            raise ArgumentError(
                f"`--{choice}` chooses within the log of a harness; {files[0]} is a table. Name its columns instead, "
                "or leave out the option."
            )
        return None, {}
    log = read_log(files, text_columns=text, **made)
    columns = log._reading.frame.columns
    asked = {name: the_field(name, columns) for name in dict.fromkeys([*text, *fields]) if is_plain(name)}
    kept = [field or name for name, field in asked.items() if (field or name) not in ROLES]
    own = {"text_columns": [name for name in text if name in columns and name not in ROLES]}
    if not set(kept) <= set(columns):
        # What no record has is told by the function that it was named for.
        with suppress(MissingColumnError):
            log, own = read_log(files, text_columns=text, columns=kept, **made), own | {"columns": kept}
    return log, {name: value for name, value in own.items() if value}


def _are_tables(files: list[str], made: Mapping[str, Any]) -> bool:
    """Whether the files are plain tables; those of ragas are, unless a metric is chosen among their columns."""
    plain = ("table",) if "metric" in made else ("table", "ragas")
    if len(files) == 1:
        path = Path(files[0])
        # Nothing is read of a pipe, which can be read once only; what is not there is refused by the reader of tables.
        # Those of os.path say no of what may not be looked at, which the search for files refuses by name.
        is_file = os.path.isfile(path)
        if files[0] == "-" or (not is_file and not os.path.isdir(path) and os.path.exists(path)):
            return True
        if is_file:
            return format_of(Source(path, read_head(path))) in (None, *plain)
    elif "-" in files:
        raise ArgumentError('Standard input ("-") is read alone; got other files too.')
    return sort_sources(find_sources(files), None)[0].NAME in plain


def tables(files: list[str], text: list[str], fields: list[str]) -> pd.DataFrame:
    """The rows of plain tables; several, which have the same columns, one below the other.

    Columns of other names are left in the files, unless one of those asked for is missing: a message lists all then.
    """
    contents = [Content(name) for name in table_files(files)]
    asked = [*text, *fields]

    def read(text: list[str]) -> list[pd.DataFrame]:
        found = [table_and_broken(one, text_columns=text, keep=asked)[0] for one in contents]
        if any(lacks(asked, frame) for frame in found):
            found = [table_and_broken(one, text_columns=text, fields=fields)[0] for one in contents]
        return found

    found = read(text)
    if unlike := text_in_some(found):
        found = read([*text, *unlike])
    issue((EvalregWarning, note) for note in _pooled([one.name for one in contents], asked))
    return joined(contents, found)


def _pooled(files: list[str], asked: list[str]) -> Iterator[str]:
    """Roles that only folders give, of several values, and that nothing asks for."""
    found = [partitions(name) for name in files]
    for role in ROLES:
        values = {own[role] for own in found if role in own}
        if len(values) > 1 and not any(re.search(rf"\b{role}\b", name) for name in asked):
            yield (
                f'The folders of the files give a column "{role}" of {len(values)} values, which nothing names: rows '
                "of all its values are taken together."
            )


def table_files(files: list[str]) -> list[str]:
    """The files of plain tables that files, folders and patterns stand for."""
    if len(files) == 1 and not Path(files[0]).is_dir() and (files[0] == "-" or Path(files[0]).exists()):
        return files
    found = find_files(files)
    for note in links_passed_over(found.links):
        warnings.warn(note, EvalregWarning, stacklevel=3)
    return [str(source.path) for source in sort_sources(found.sources, None)[1]]


def lacks(asked: Iterable[str], frame: pd.DataFrame) -> bool:
    """Whether a name is no column; joint ids and formulas of clusters stand beside the names in them, functions too."""
    return any(name not in frame.columns for name in asked if is_plain(name))


def is_plain(name: str) -> bool:
    """Whether a name that was asked for is one of a column."""
    return not set("+:`") & set(name) and name not in _FUNCTIONS


def named_columns(frame: pd.DataFrame, wanted: Iterable[str], text: Iterable[str]) -> pd.DataFrame:
    """The rows with the roles and the fields asked for, these under the names by which they were asked for."""
    found = {name: field for name in wanted if (field := the_field(name, frame.columns)) is not None}
    columns = {name: frame[field] for name, field in found.items()}
    for name in set(text) & set(columns):
        columns[name] = _as_text(columns[name])
    # No copy of what is long: a frame of these columns.
    return pd.DataFrame(columns, index=frame.index)


def _as_text(column: pd.Series[Any]) -> pd.Series[Any]:
    """Values as text, as a table would have them."""
    if pd.api.types.is_string_dtype(column.dtype) and column.dtype != object:
        return column
    values = [
        value if isinstance(value, str) else None if _is_missing(value) else json.dumps(_plain(value), default=str)
        for value in column
    ]
    return pd.Series(values, index=column.index, dtype=object)


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and value != value)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


# Sentences about a log


def log_sentences(log: Log) -> tuple[str, ...]:
    """What was read, what was left out by reason, and what else the reader says."""
    counts = ", ".join(f"{count} {reason}" for reason, count in log.left_out.items())
    read = counted(len(log.frame), "verdict" if "winner" in log.roles else "score")
    read = f"{read} {'was' if len(log.frame) == 1 else 'were'} read from the log ({log.format}{_runs(log)})"
    return (f"{read}; left out: {counts or 'none'}.", *log.notes)


def _runs(log: Log) -> str:
    return f", {len(log.runs)} run{'s' if len(log.runs) > 1 else ''}" if log.runs else ""


def log_document(log: Log, notes: tuple[str, ...]) -> dict[str, object]:
    """The same for JSON."""
    runs = [
        {"id": run.id, "model": run.model, "task": run.task, "path": run.path, "details": dict(run.details)}
        for run in log.runs
    ]
    document = {
        "format": log.format,
        "left_out": {str(reason): int(count) for reason, count in log.left_out.items()},
        "notes": list(notes),
        "rows": len(log.frame),
        "runs": runs,
    }
    # Details may hold times and numbers of any kind.
    found: dict[str, object] = json.loads(json.dumps(document, default=lambda value: str(_plain(value))))
    return found
