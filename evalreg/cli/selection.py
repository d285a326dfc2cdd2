"""What the command line reads of a file: which rows, which columns, and which of them as text."""

from __future__ import annotations

import argparse
import csv
import io
import json
import keyword
import shlex
import tokenize
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from pandas.api.types import infer_dtype

from evalreg.checks import listed
from evalreg.cli.logs import check_choices, file_list, lacks, named_columns, open_log, tables
from evalreg.cli.spelled import like_python
from evalreg.cli.sums import open_sums
from evalreg.data import where
from evalreg.data.asked_names import formula_names, group_names, role_names
from evalreg.data.grammar import without_backticks
from evalreg.data.names import known_column
from evalreg.data.summed import SummedLog
from evalreg.data.summed_roles import SummedRoles
from evalreg.errors import ArgumentError, DuplicateRowsError, EmptyDataError, EvalregError, MissingColumnError, muted
from evalreg.estimators.comparison import Comparison
from evalreg.logs.fields import the_field
from evalreg.logs.log import Log, kept_rows
from evalreg.logs.log_rows import refuse_empty
from evalreg.logs.overlooked import OVERLOOKED
from evalreg.logs.roles import are_battles, likely_roles
from evalreg.report.tables import Grid
from evalreg.results.results import Results

__all__ = ["Outcome", "Rows", "counting", "formula_names", "group_names", "read_rows", "role_names", "split_names"]

# What a column of verdicts is called; where there are no scores, the table is one of comparisons.
VERDICTS = ("winner", "verdict", "preference")
# Values of a column of names: of models, say. Sentences quote the ids of more.
MOST_NAMES = 10_000


@dataclass(frozen=True)
class Rows:
    """The rows of a file that a filter keeps."""

    frame: pd.DataFrame
    n_read: int
    log: Log | None = None  # what was read, where that is not a plain table
    sums: SummedLog | None = None  # what was read instead of rows
    read_by: Mapping[str, list[str]] = field(default_factory=dict)  # arguments of `read_log` beside the choices

    @property
    def data(self) -> pd.DataFrame | SummedLog:
        """What an estimator takes: the rows, or their sums."""
        return self.frame if self.sums is None else self.sums

    @property
    def n_kept(self) -> int:
        """Rows that are kept, or were summed."""
        return len(self.frame) if self.sums is None else self.sums.n_rows

    @property
    def summed_by(self) -> list[str] | None:
        """Columns of the models of sums; None of rows, and where there is one model."""
        return None if self.sums is None else list(self.sums.roles.by) or None

    @property
    def holds_scores(self) -> bool:
        """Whether what was read are sums of scores of single models."""
        return self.sums is not None and isinstance(self.sums.roles, SummedRoles)

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles that the log has; none for a plain table, whose columns the options name."""
        return () if self.log is None else self.log.roles

    @property
    def item(self) -> str | None:
        """What a question of the log is, as an argument; told apart by task where there are several."""
        return None if self.kept is None else self.kept._questions().get("item")

    @property
    def sample(self) -> str | None:
        """The column of repeated answers, where there are some."""
        return None if self.kept is None else self.kept._questions().get("sample")

    @property
    def kept(self) -> Log | None:
        """The log with the rows that the filter keeps."""
        return None if self.log is None else kept_rows(self.log, self.frame)

    def overlooked(self, differences: bool) -> tuple[str, ...]:
        """Sentences where questions are alike and no column groups them; for means, or for their differences."""
        if self.log is None or "item" not in self.roles or "score" not in self.roles:
            return ()
        whole = kept_rows(self.log, self.log._reading.frame.loc[self.frame.index])
        with muted(), suppress(EvalregError):
            results = whole.compare().results if differences else whole.mean()
            return tuple(text for _, text in results.notes if text.startswith(OVERLOOKED))
        return ()

    def refuse_verdicts(self, score: str) -> None:
        """Refuse to take comparisons of two models for the scores of single ones; another column is a choice."""
        if "left" in self.roles and (score == "score" or score not in self.frame):
            raise ArgumentError(
                "The log holds comparisons of two models, and no scores of single ones. See evalreg leaderboard."
            )
        if self.log is not None or self.sums is not None or score != "score" or score in self.frame:
            return
        verdicts = next((str(name) for name in self.frame.columns if str(name).lower() in VERDICTS), None)
        if verdicts is not None:
            raise ArgumentError(
                f'the table has no column "score"; its column "{verdicts}" holds verdicts on two models, it seems. '
                f"Ranks from verdicts: evalreg leaderboard {_of_verdicts(self.frame, verdicts)}. Scores "
                "of another name: --score NAME."
            )
        columns = [str(name) for name in self.frame.columns]
        likely = likely_roles(self.frame, ("score",)).get("score")
        say = "--score NAME" if likely is None else f"--score {shlex.quote(likely)}, say"
        raise MissingColumnError(
            f'the table has no column "score"; its columns are {listed(columns)}. Name that of the scores: {say}. '
            "`evalreg doctor FILE` says what a table holds.",
            column="score",
        )

    def refuse_unnamed_pairs(self, left: str, winner: str | None, score: str | None) -> None:
        """Refuse a table whose two models, verdicts or scores nothing names, and say what seems to be there."""
        if self.log is not None or self.sums is not None or left in self.frame or (winner, score) != (None, None):
            return
        columns = f"its columns are {listed(map(str, self.frame.columns))}"
        verdicts = next((str(name) for name in self.frame.columns if str(name).lower() in VERDICTS), None)
        if verdicts is not None:
            advice = f"Say which are which: evalreg leaderboard {_of_verdicts(self.frame, verdicts)}."
        else:
            likely = likely_roles(self.frame)
            named = [f"{role}={name}" for role, name in likely.items()]
            roles = (
                "--roles item=NAME,score=NAME" if "score" not in likely else f"--roles {shlex.quote(','.join(named))}"
            )
            advice = f"Of scores of single models name the columns by roles, such as {roles}."
        raise MissingColumnError(f'the table has no column "{left}"; {columns}. {advice}', column=left)

    def one_metric(self, *separated: str) -> None:
        """Refuse to average over scores by several metrics of a log."""
        if self.kept is not None:
            self.kept._one_metric(*separated)

    def refuse_averaging(self, *separated: str) -> None:
        """Refuse to average over the prompts of a log of scores, or its metrics, that nothing tells apart."""
        self.one_metric(*separated)
        if self.kept is not None and "left" not in self.roles and "prompt" not in separated and self.several("prompt"):
            counts = self.frame["prompt"].value_counts(sort=False)
            several = ", ".join(f"{name!r} ({count} scores)" for name, count in counts.items())
            raise ArgumentError(
                f"The log has {len(counts)} prompts: {several}. Keep one, as in --where 'prompt == "
                f"{json.dumps(str(counts.index[0]))}', or see evalreg mean, which keeps them apart."
            )

    @property
    def pooled(self) -> str:
        """A sentence where questions of several tasks make one estimate; empty otherwise."""
        if not self.several("task") or "item" not in self.roles:
            return ""
        return (
            f"Questions of {self.frame['task'].nunique()} tasks are taken together, each weighing the same. Name one "
            "by --where, or see evalreg mean, which keeps them apart."
        )

    def several(self, role: str) -> bool:
        """Whether the log has a role, of which the rows have several values."""
        return role in self.roles and bool(self.frame[role].nunique() > 1)


def _of_verdicts(frame: pd.DataFrame, verdicts: str) -> str:
    """The options by which a leaderboard reads a table of verdicts."""
    if are_battles(frame):
        return "FILE --log-format chatbot_arena"
    sides = {"left": "X", "right": "Y"} | likely_roles(frame, ("left", "right"))
    named = [f"--{side} {shlex.quote(name)}" for side, name in sides.items() if side not in frame]
    return " ".join(["FILE", *named, f"--winner {shlex.quote(verdicts)}"])


@dataclass(frozen=True)
class Outcome:
    """Results, the rows that they are of, what was asked for, and what else is printed."""

    results: Results  # the estimates
    rows: Rows  # rows of the file
    options: argparse.Namespace  # the command line
    asked: Mapping[str, object]  # options, for JSON
    comparison: Comparison | None = None  # what the results belong to
    more: Mapping[str, object] = field(default_factory=dict)  # further entries of JSON
    first: tuple[Grid, ...] = ()  # tables before those of the summary
    frame: pd.DataFrame | None = None  # what CSV holds, where that is not the table of the parameters
    said: tuple[str, ...] = ()  # sentences before those of the summary
    last: tuple[Grid, ...] = ()  # tables after those of the summary

    @property
    def printed(self) -> Results | Comparison:
        """What is printed: the comparison, or else the results."""
        return self.results if self.comparison is None else self.comparison


def read_rows(options: argparse.Namespace, text_columns: set[Any], numbers: set[Any] | None = None) -> Rows:
    """The rows of files that ``--where`` keeps.

    `text_columns` and `numbers` name all columns that the command uses, as text and as they are.
    """
    expression = None if options.where is None else where.parse(options.where)
    named = [] if options.text is None else split_names(options.text, "--text")
    conditions = [] if expression is None else list(expression.columns)
    text = [*named, *sorted(text_columns - {None})]
    fields = [*conditions, *sorted((numbers or set()) - {None})]
    check_choices(options)
    sums = open_sums(options)
    if sums is not None:
        options.of_data = _names(sums.lines)
        return Rows(pd.DataFrame(), sums.n_rows, sums=sums)
    log, read_by = open_log(options, text, fields)
    frame = tables(file_list(options), text, fields) if log is None else _of_log(log, text, fields)
    options.of_data = _names(frame)
    for name in named:
        known_column(name, list(frame.columns), "text")
    if expression is None:
        return Rows(frame, len(frame), log, read_by=read_by)
    kept = where.mask(expression, frame)
    if not kept.any():
        raise EmptyDataError(
            f"`where` must keep some rows; {options.where} is true for none of the {len(frame)} rows."
            f"{where.unheard_of(expression, frame)}",
            count=len(frame),
        )
    return Rows(frame[kept], len(frame), log, read_by=read_by)


def _names(frame: pd.DataFrame) -> list[str]:
    """Labels that read like Python, of columns that may name what sentences speak of: others are quoted there."""
    columns = (frame[name] for name in frame)
    texts = [column.dropna().unique() for column in columns if infer_dtype(column, skipna=True) == "string"]
    return like_python({label for labels in texts if len(labels) <= MOST_NAMES for label in labels})


def _of_log(log: Log, text: list[str], fields: list[str]) -> pd.DataFrame:
    """The roles of a log, and of its fields those asked for; where one is missing, all, for a message to list."""
    refuse_empty(log)
    frame = log.frame
    asked = [name for name in dict.fromkeys([*text, *fields]) if the_field(name, frame.columns) is not None]
    own = [*log.roles, *(["metric"] if "metric" in frame else [])]  # the second says which scores are alike
    wanted = [*own, *(name for name in asked if name not in own)]
    rest = [str(column) for column in frame.columns if column not in wanted]
    chosen = named_columns(frame, wanted, text)
    return chosen if not lacks([*text, *fields], chosen) else pd.concat([chosen, frame[rest]], axis=1)


@contextmanager
def counting(rows: Rows) -> Iterator[None]:
    """Say of errors that name rows how the rows are counted."""
    try:
        yield
    except EvalregError as error:
        if error.rows and "in use" not in str(error):
            among = "of the log" if rows.log is not None else "below the header"
            among = "of those that --where keeps" if len(rows.frame) < rows.n_read else among
            error.add_note(f"(Row 0 is the first {among}.)")
        if isinstance(error, DuplicateRowsError) and rows.log is None:
            error.add_note(
                "(Only columns that options name were looked at. Another one of the file may tell the rows apart, that "
                "of the models, say.)"
            )
        raise


def with_score(formula: str, column: str) -> str:
    """A formula with the name of a column wherever it says `score`."""
    code = without_backticks(formula).replace("\n", " ").strip()
    tokens = list(tokenize.generate_tokens(io.StringIO(code).readline))
    is_name = column.isidentifier() and not keyword.iskeyword(column)
    spelled = column if is_name else f"Q({json.dumps(column, ensure_ascii=False)})"
    places = [
        token.start[1]
        for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False)
        # Neither an attribute nor the name of an argument.
        if token.string == "score" and getattr(before, "string", "") != "." and getattr(after, "string", "") != "="
    ]
    if not places:
        raise ArgumentError(
            f'`--score` names the column that "score" means in the formula; {formula!r} does not say "score". '
            'Write "score ~ 1", or leave out `--score`.'
        )
    for start in reversed(places):
        code = code[:start] + spelled + code[start + len("score") :]
    return code


def split_names(text: str, argument: str) -> list[str]:
    """Names separated by commas; one that contains a comma is in double quotes."""
    try:
        names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True, strict=True), [])]
    except csv.Error:
        names = []
    if not names or not all(names):
        raise ArgumentError(f'`{argument}` must be names separated by commas, such as "a,b"; got "{text}".')
    return names
