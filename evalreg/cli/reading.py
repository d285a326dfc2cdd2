"""What a command reads: logs and tables, by one path, with names before files and a filter on rows."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from inspect import signature
from typing import Any, cast

import pandas as pd

import evalreg as er
from evalreg.checks import counted, option, passed
from evalreg.cli.options import options_of, typed_value
from evalreg.data.streams import is_stream
from evalreg.errors import ArgumentError, EvalregError, LogFormatError, MissingColumnError
from evalreg.logs.files import PARQUET, Source, find_files
from evalreg.logs.log import Log, chosen_rows, role_arguments, together, with_short_names, within
from evalreg.logs.read import FORMATS, format_of, read_log
from evalreg.logs.reading import ROLES
from evalreg.logs.table_log import (
    if_wide,
    is_text,
    likely_prompt,
    likely_roles,
    likely_sides,
    refuse_nested_roles,
    rows_of,
)

# Parameters that name columns of labels, whose ids are read as text to the letter.
LABELS = ("by", "model", "item", "sample", "strata", "left", "right", "winner", "key", "treatment", "eval", "judge")


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of files: a log with its roles, a plain table, or sums."""

    data: Any  # what a public function takes: a data frame, or sums
    log: Log | None = None  # with roles, runs and notes; None of a table without the names of roles, and of sums
    filter_note: str = ""  # the filter, with how many rows it kept of how many

    @property
    def frame(self) -> pd.DataFrame:
        """The rows."""
        return cast(pd.DataFrame, self.data)

    @property
    def wide(self) -> Any:
        """The data, of rows with nested fields under their last words too, but for those that would be roles."""
        return with_short_names(self.frame, ROLES) if hasattr(self.data, "columns") else self.data

    def has(self, *columns: str) -> bool:
        """Whether there are rows, and these are all columns of them."""
        return set(columns) <= set(getattr(self.data, "columns", ()))

    def several(self, column: str) -> bool:
        """Whether a column has several values."""
        return self.has(column) and bool(self.frame[column].nunique() > 1)

    @property
    def harness(self) -> Log | None:
        """The log of a harness, whose own methods know what may not be pooled."""
        return None if self.log is None or self.log.format in ("table", "frame") else self.log

    @property
    def pairs(self) -> bool:
        """Whether the rows compare two models."""
        return self.has("left", "right") or getattr(getattr(self.data, "roles", None), "kind", "") == "pairs"

    @property
    def read(self) -> list[str]:
        """What was read of a log and what was left out, in one line, and what the reader says."""
        if self.harness is None:
            return [] if self.log is None else list(self.log.notes)
        counts = ", ".join(f"{count:,} {reason}" for reason, count in self.harness.left_out.items())
        rows = counted(len(self.harness.frame), "row")
        return [f"{rows} of {self.harness.format}; left out: {counts or 'none'}.", *self.harness.notes]

    def pooled(self, options: Mapping[str, Any], has_by: bool, is_doctor: bool) -> Iterator[str]:
        """Sentences where no option tells several tasks, or what seem to be models or questions, apart."""
        text = " ".join(str(value) for name, value in options.items() if name != "where")
        if is_doctor:
            return
        if self.several("task") and not re.search(r"\btask\b", text) and ("by" in options or not has_by):
            by = ",".join(filter(None, [typed_value(options.get("by", "")), "task"]))
            n, apart = self.frame["task"].nunique(), f", or keep them apart by --by {by}" if has_by else ""
            yield f"Rows of {n} tasks are taken together. Name one by --where{apart}."
        if self.harness is not None or self.pairs or not hasattr(self.data, "columns"):
            return
        for role, column in likely_roles(self.frame, ("model", "item")).items():
            if column in text or not self.several(column):
                continue
            if role == "model":
                models = counted(self.frame[column].nunique(), "model")
                yield f'"{column}" seems to hold {models}, whose rows are taken together. Name it to tell them apart.'
            elif not {"item", "groups"} & {*options} and self.frame[column].duplicated().any():
                yield f'"{column}" seems to hold questions. Rows of one count as independent: {passed(groups=column)}.'

    def only(self, column: str) -> str:
        """The one value of a column; empty where there are several or none."""
        values = self.frame[column].dropna().unique().tolist() if self.has(column) else []
        return str(values[0]) if len(values) == 1 else ""


def named_files(files: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The files with a name before them, and those without; a file that is there is one, whatever signs it holds."""
    named: dict[str, str] = {}
    plain = []
    for word in files:
        word = "-" if word == "/dev/stdin" and not os.path.isfile(word) else word
        name, sign, path = word.partition("=")
        if not sign or not name or not path or os.path.exists(word) or set(name) & set('/\\*"'):
            plain.append(word)
        elif name in named:
            raise ArgumentError(f'each name before a file must be there once; "{name}" is there twice.')
        else:
            named[name] = path
    if named and plain:
        raise ArgumentError(
            f'either every file has a name or none; "{plain[0]}" has none. Write NAME={plain[0]}, or no names.'
        )
    return named, plain


def read(files: Sequence[str], options: Mapping[str, Any]) -> Rows:
    """The rows of files as the options choose them; a name before a file is that of its model."""
    named, plain = named_files(files)
    rows = _named(named, options) if named else _read(plain, options)
    scores = {str(options.get(name, "score")).partition("~")[0].strip() for name in ("formula", "numerator", "score")}
    labels = options.get("score_labels", {})
    return _filtered(rows, options.get("where"), {"score"} | scores, labels) if labels or "where" in options else rows


def _named(named: Mapping[str, str], options: Mapping[str, Any]) -> Rows:
    """Files beside each other as models of these names; several models of a file are told apart by its name."""
    parts = {}
    for name, path in named.items():
        with within(name):
            parts[name] = _read([path], options)
    if all(rows.log is not None for rows in parts.values()):
        log = together({name: rows.log for name, rows in parts.items()})
        return Rows(log.frame, log)
    for name, rows in parts.items():
        column = "model" if rows.has("model") else likely_roles(rows.frame, ("model",)).get("model", "model")
        if rows.several(column):
            raise ArgumentError(
                f"a name before a file is that of its model; {counted(rows.frame[column].nunique(), 'model')} stand in "
                f'"{column}" of "{name}". Name the column of the scores by --roles score=COLUMN: each is then called '
                f'"{name}: MODEL".'
            )
    return Rows(pd.concat([rows.frame.assign(model=name) for name, rows in parts.items()], ignore_index=True))


def _read(files: Sequence[str], options: Mapping[str, Any]) -> Rows:
    """Logs of a harness or tables, told apart by content; tables may lack the names of roles."""
    arguments = reading_options(options)
    if "format" in arguments:  # of what is printed, where `read_log` would name it
        option("log_format", arguments["format"], tuple(FORMATS))
    are_files = all(os.path.isfile(file) or is_stream(file) for file in files)
    if are_files and all(Source.of(file).head.startswith(PARQUET) for file in files):
        from evalreg.estimators.shards import merged

        more = {name: options[name] for name in ("cells", "n_shards") if name in options}
        with suppress(LogFormatError):
            return Rows(merged(files, **more))
    paths = list(files) if len(files) > 1 else files[0]
    try:
        log = read_log(paths, **arguments)
    except LogFormatError:
        if {"format", "roles"} & set(arguments) or {*map(format_of, find_files(paths)[0])} != {"table"}:
            raise
        with suppress(EvalregError):  # no table either: what the reader of logs says is nearer to the matter
            return _tables(files, options)
        raise
    return Rows(log.frame, log)


def reading_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `read_log` that the options come to."""
    arguments = {each.name: options[each.name] for each in options_of("read_log") if each.name in options}
    arguments.pop("format", None)  # of what is printed
    arguments |= {"format": options["log_format"]} if "log_format" in options else {}
    return arguments | {"text_columns": [*arguments.get("text_columns", ()), *text_columns(options)]}


def _tables(files: Sequence[str], options: Mapping[str, Any]) -> Rows:
    """The rows of plain tables of the same columns, one below the other."""
    table, _ = rows_of([Source.of(file) for file in files], text_columns(options))
    refuse_nested_roles(table)
    return Rows(table)


def text_columns(options: Mapping[str, Any]) -> list[str]:
    """Columns of labels that the options name: models, questions, clusters, factors of formulas."""
    columns: list[str] = []
    for name in LABELS:
        value = options.get(name)
        columns += [
            part for text in ([value] if isinstance(value, str) else value or ()) for part in str(text).split(":")
        ]
    groups = str(options.get("groups") or "")
    columns += [quoted or bare for quoted, bare in re.findall(r"`([^`]+)`|([^\s`+:]+)", groups)]
    formula = " ".join(str(options.get(name) or "") for name in ("formula", "formulas"))
    columns += re.findall(r"\bC\(\s*([A-Za-z_]\w*)", formula) + re.findall(r"\w+", formula.partition("|")[2])
    columns += re.findall(r"[^\s:*+]+", re.sub(r"\sx\s", " ", f" {options.get('facets') or ''} "))
    return list(dict.fromkeys(name for name in columns if name != options.get("score")))


def _filtered(rows: Rows, text: str | None, scores: Collection[str], labels: Any) -> Rows:
    """The rows that a filter keeps; in tables, scores are numbers by labels, or where it leaves their words out."""
    if not hasattr(rows.data, "columns"):
        name = "score_labels" if text is None else "where"
        raise ArgumentError(f"`{name}` is for rows, and the files hold sums. Name it as they are made.", parameter=name)
    frame, note, remaining = rows.frame, "", rows.frame
    if text is not None:
        chosen = chosen_rows(rows.wide, text, "where")
        note, remaining = f"{text} ({int(chosen.sum()):,} of {len(frame):,} rows)", frame[chosen]
    remaining = remaining.copy()
    texts = [name for name in scores if name in remaining and is_text(remaining[name])] if rows.harness is None else []
    if labels and not (isinstance(labels, Mapping) and texts):
        rule = '`score_labels` says what words of scores count, as in "correct=1,incorrect=0"'
        none = "no column of scores holds words" if rows.harness is None else f"logs of {rows.harness.format} say it"
        problem = f"{none}. Leave it out" if isinstance(labels, Mapping) else f"got {labels!r}"
        raise ArgumentError(f"{rule}; {problem}.", parameter="score_labels")
    for name in texts:
        with suppress(ValueError):
            remaining[name] = pd.to_numeric(remaining[name].map(lambda word: labels.get(word, word)))
    log = None if rows.log is None else rows.log._with_rows(remaining)
    return Rows(remaining, log, note)


def defaults(rows: Rows, function: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What the columns with the names of roles say of arguments that were not given: nothing is pooled unasked."""
    parameters = signature(getattr(er, function)).parameters
    roles = getattr(rows.data, "roles", None)
    if rows.log is not None:  # it knows them itself
        return {}
    if roles is None:
        return role_arguments(rows.frame, parameters, options)
    # A comparison that was summed is read by the columns it was summed by.
    of_pairs = {name: getattr(roles, name) for name in ("left", "right", "winner", "score", "weights")}
    filled = of_pairs if roles.kind == "pairs" else {"by": list(roles.by)}
    return {name: value for name, value in filled.items() if value and name in parameters and name not in options}


def with_hint(error: EvalregError, rows: Rows) -> None:
    """Say of a column that is missing which one it may be."""
    if not isinstance(error, MissingColumnError) or rows.harness is not None or not hasattr(rows.data, "columns"):
        return
    likely, sides = likely_roles(rows.frame), likely_sides(rows.frame)
    role = str(error.column if error.column in ROLES else error.parameter)
    if role in likely:
        roles = passed(roles=likely) if rows.log is None else passed(**{role: likely[role]})
        error.add_note(f"The table has what seems to be the {role}: {roles}")
    elif role == "score" and sides:
        roles = passed(roles=sides | likely_prompt(rows.frame))
        error.add_note(f"The table holds verdicts on two models, it seems: evalreg leaderboard FILE {roles}")
    elif role == "score" and (wide := if_wide(rows.frame)):
        error.add_note(wide[0])
    error.add_note("`evalreg doctor FILE` says what a table holds.")
