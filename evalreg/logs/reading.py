"""What a format of logs says of itself, what is asked of its reader, and what the reader gives back."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import pandas as pd

from evalreg.logs.files import Source

# Columns of scored answers and of comparisons; a tidy frame names them so, whatever the log calls them. `order` is
# there where a pair was shown in both orders; the left answer is then the one shown first.
SCORED = ("model", "task", "item", "sample", "score")
JUDGED = ("left", "right", "winner", "prompt", "judge", "order")
ROLES = (*SCORED, *JUDGED)

FailedName: TypeAlias = Literal["drop", "keep", "zero"]
BrokenName: TypeAlias = Literal["raise", "skip"]
Reason: TypeAlias = Literal["errored", "unscored", "cancelled", "refused", "unparsed", "duplicate", "broken"]
REASONS: tuple[Reason, ...] = get_args(Reason)
Record: TypeAlias = dict[str, Any]


class ScoreName(NamedTuple):
    """What identifies a score; empty where a log has only one of them."""

    filter: str
    scorer: str
    metric: str


ARGUMENTS = ScoreName._fields


class BadRecordError(Exception):
    """A record that cannot be read: what is wrong with it."""


@dataclass(frozen=True)
class TableRoles:
    """Columns of a table by role, as a team writes them down."""

    # Columns by role, with dots into nested fields.
    columns: Mapping[str, str]
    # Meanings of verdicts; None is not a verdict.
    labels: Mapping[str, str | None] = field(default_factory=dict)
    # Columns that, with the two models, identify a comparison.
    key: tuple[str, ...] = ()


@dataclass(frozen=True)
class Marks:
    """How the beginning of a file shows its format: how it starts, what all stands in it, and one of several."""

    start: bytes = rb"[{\[]"
    all: tuple[bytes, ...] = ()
    among: tuple[bytes, ...] = (b"",)

    def __call__(self, source: Source) -> bool:
        """Whether a file has them."""
        head = source.head
        return (
            re.match(self.start, source.start) is not None
            and all(re.search(mark, head) for mark in self.all)
            and any(re.search(mark, head) for mark in self.among)
        )


@dataclass(frozen=True)
class Choice:
    """What to read of a log that holds several things."""

    # None asks for the log's own declaration, and is refused where there are several without one. Each narrows the
    # tasks that have it, and leaves the others as they are.
    metric: str | None = None
    filter: str | None = None
    scorer: str | None = None
    task: tuple[str, ...] | None = None
    # Further fields to keep, with dots into nested ones; None keeps the short ones of documents and metadata.
    columns: tuple[str, ...] | None = None
    # What becomes of scores that stand on samples in error: "zero" is for every sample in error.
    failed: FailedName = "drop"
    # What becomes of records that cannot be read.
    broken: BrokenName = "raise"
    # For tables, the columns that have roles; other formats know their own.
    roles: TableRoles | None = None
    # Further columns of tables that are read as text, to the letter.
    text_columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """One run of one model on one task; `id` is what tells it from other runs."""

    id: str
    # Model and task as the log names them; empty where it does not.
    model: str = ""
    task: str = ""
    path: str = ""
    # What else identifies it (version, arguments, time), and in "reported" the tool's own figures by name.
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Reading:
    """The rows of a log."""

    # Name of the format.
    format: str
    # One row a score or verdict: columns of `SCORED` or `JUDGED`, then fields that may be clusters, such as
    # "metadata.subject".
    frame: pd.DataFrame
    # In the order of the files.
    runs: tuple[Run, ...] = ()
    # Records that are not a score, by reason.
    left_out: Mapping[Reason, int] = field(default_factory=dict)
    # Whole sentences on what a reader should know.
    notes: tuple[str, ...] = ()
    # Columns that, with the two models, identify a comparison; none where repeats are not refused.
    key: tuple[str, ...] = ()
    # Which scores were read, by task: "match", "exact_match under strict-match".
    measures: Mapping[str, str] = field(default_factory=dict)


class Minor(str):
    """A metric that is read only where it is asked for: it measures requests, or is a part of another."""


@dataclass(frozen=True)
class Unknown:
    """A value that means nothing that is known."""

    value: Any


@dataclass(frozen=True)
class Failed:
    """A score that ended in error; `value` is what the tool counts in its place, if anything."""

    value: float | None = None
    reason: Reason = "errored"


@dataclass(frozen=True)
class Missing:
    """No score, for a reason that no rule for samples in error changes."""

    reason: Reason


@dataclass(slots=True)
class Answer:
    """One answer, or one comparison, as a record says it."""

    # Roles and columns of the format's own.
    row: Record
    # By name, or scorer and metric where the format chooses among both: a number (of comparisons the share of the left
    # side), what it failed with; None is no score.
    values: dict[Any, Any]
    # Where its fields are found.
    record: Record = field(default_factory=dict)
    # Why it is no score, whatever its values: "errored" is dealt with as `failed` says.
    state: Reason | None = None
    # Why a score is missing, in words.
    why: str = ""
    # What the question is, so that one id does not stand for two.
    content: str = ""
    # The same again is a duplicate.
    id: Hashable = None
    # Set by the reader: run and task, values by their full names, and of these the parts that are columns, by argument.
    part: Part = field(init=False)
    task: str = field(init=False)
    scores: dict[ScoreName, Any] = field(init=False)
    under: dict[str, str] = field(init=False, default_factory=dict)


@dataclass
class Part:
    """One run in a log, with its records as they lie in the file."""

    source: Source
    model: str = ""
    task: str = ""
    # Each with its place, and its line where it has one between them.
    records: Iterable[tuple[Any, ...]] = ()
    id: str = ""
    # Arguments that tell runs of a model apart; the one without a name is the file's.
    settings: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    # What the log declares as its own: "metric", "filter", "scorer".
    declared: Mapping[str, str] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    left_out: Counter[Reason] = field(default_factory=Counter)
    # Why scores are missing, in words.
    unscored: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    # Whatever else the format needs of the file for each record.
    header: dict[Any, Any] = field(default_factory=dict)
    # Set by the reader: its answers, its place among the runs, and the model's name that tells it from others.
    answers: list[Answer] = field(default_factory=list)
    number: int = 0
    label: str = ""


@dataclass(frozen=True)
class Format:
    """One format of logs: an entry of the table that the reader goes by."""

    name: str
    title: str
    recognises: Callable[[Source], bool]
    # What a record says.
    answers: Callable[[Record, Part], Iterable[Answer]] = lambda record, part: ()
    # The runs in a file, none where it only lies beside a log; by default its records, in lines or one array, are one.
    parts: Callable[[Source, Choice], Iterable[Part]] | None = None
    # Files that only lie beside a log.
    beside: Callable[[Source], bool] = lambda source: False
    # Columns of a file in CSV that are read as text, to the letter; none where no file is one.
    text: tuple[str, ...] = ()
    # Of a file that is one object: paths of the lists of records in it, of objects by name as well; and its run.
    rows: tuple[str, ...] = ()
    run: Callable[[Record, Source, Choice], Part] = lambda whole, source, choice: Part(source)
    # Columns by which records are of one answer: each adds the scores that the others lack.
    same: tuple[str, ...] = ()
    # Whether the mean of all scores of an answer is a further one, "average".
    average: bool = False
    # Fields of which the short values are kept unasked, objects with all their short fields.
    fields: tuple[str, ...] = ()
    # Arguments that choose: the column of which one value is read, or "" for names of scores; and what these are.
    choose: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    # Arguments that need not choose: without them all values of the column are read.
    every: tuple[str, ...] = ()
    # What scores may be, for messages.
    known: str = "a number, true or false"
    # Whether one name for several questions is told apart by what they are, or refused.
    apart: bool = False
    # Whether answers to one question are numbered in their order, or refused; None keeps the log's own numbers.
    repeats: Literal["number", "refuse"] | None = "refuse"
    # Whether scores that agree throughout are one.
    alike: bool = False
    # Of what a run reports: what is about the score that was read; and names of its mean, of which the first counts.
    reported: Callable[[Any, ScoreName], Any] = lambda reported, score: reported
    figure: Callable[[Record, ScoreName], Iterable[str]] = lambda reported, score: ()
    # What to do where no file has a score.
    empty: str = ""
    # Sentences for every log, or made of its rows.
    notes: tuple[str, ...] | Callable[[pd.DataFrame, Sequence[Part]], Iterator[str]] = ()
