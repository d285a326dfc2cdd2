"""What a reader of logs is asked, and what it gives back: tidy rows, the runs they came from, what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, get_args

import pandas as pd

# Columns of scored answers and of comparisons; a tidy frame names them so, whatever the log calls them. `order` is
# there where a pair was shown in both orders; the left answer is then the one shown first.
SCORED = ("model", "task", "item", "sample", "score")
JUDGED = ("left", "right", "winner", "prompt", "judge", "order")

FailedName: TypeAlias = Literal["drop", "keep", "zero"]
BrokenName: TypeAlias = Literal["raise", "skip"]
Reason: TypeAlias = Literal["errored", "unscored", "cancelled", "refused", "unparsed", "duplicate", "broken"]
REASONS: tuple[Reason, ...] = get_args(Reason)


def counted(n: int, thing: str) -> str:
    """A number of things: "1 sample", "3 samples"."""
    return f"{n} {thing}{'' if n == 1 else 's'}"


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
class Source:
    """One file of a log, a regular file and never a link."""

    path: Path
    # Its beginning, 64 KiB at most, uncompressed where the file is gzip.
    head: bytes


@dataclass(frozen=True)
class Choice:
    """What to read of a log that holds several things."""

    # None asks for the log's own declaration, and is refused where there are several without one.
    metric: str | None = None
    filter: str | None = None
    scorer: str | None = None
    # Further fields to keep, with dots into nested ones; None keeps the short ones of documents and metadata.
    columns: tuple[str, ...] | None = None
    # What becomes of scores that stand on samples in error: "zero" is for every sample in error.
    failed: FailedName = "drop"
    # What becomes of records that cannot be read.
    broken: BrokenName = "raise"
    # For tables, the columns that have roles; other formats know their own.
    roles: TableRoles | None = None
    # Further columns of tables that are read as text, to the letter.
    text: tuple[str, ...] = ()


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

    # Name of the reader.
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


class Reader(Protocol):
    """What a module of a format has; it is one file of this folder and one line in `formats.READERS`."""

    NAME: str
    TITLE: str

    def recognises(self, source: Source) -> bool:
        """Whether a file is of this format, by its content."""

    def read(self, sources: Sequence[Source], choice: Choice) -> Reading:
        """The rows of files that are all of this format."""
