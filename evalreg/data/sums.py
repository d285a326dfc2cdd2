"""Logs as sums by cluster and model: what their lines hold, files of Parquet, and shards added up."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import combinations
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import Names, counted, listed, passed, without_none
from evalreg.data.clusters import RESERVED, Axis, factorize, joint_labels, joint_parts, known_columns, parse_groups
from evalreg.data.engine import ROWS as GROUPED_ROWS
from evalreg.data.engine import Measures, Query
from evalreg.data.streams import is_stream, name_of, spooled
from evalreg.errors import (
    ArgumentError,
    ArgumentTypeError,
    DataError,
    DuplicateRowsError,
    LogFormatError,
    NotAvailableError,
)
from evalreg.numerics.limits import EQUAL

# Columns of sums; labels stand before them. `squares` of scores is about the mean of the line.
ROWS, TOTAL, SQUARES, LOW, HIGH = "n_rows", "total", "squares", "low", "high"
WEIGHT, WEIGHT2, SQUARES2 = "weight", "weight2", "squares2"
# Of comparisons, by what is measured of them, v being the left score less one half and w the weight; and of weighted.
PAIR_COLUMNS = {"wv": TOTAL, "wvv": SQUARES, "low": LOW, "high": HIGH}
PAIR_COLUMNS |= {"wins": "wins", "tied": "ties", "losses": "losses"}
WEIGHTED_PAIR_COLUMNS = {"w": WEIGHT, "ww": WEIGHT2, "wwv": "total2", "wwvv": SQUARES2, "heaviest": "heaviest"}
# Of ratios, by what is measured of them: sums of w n and w d, and with e = n - R d about the ratio R of the line those
# of w e^2, w e d, w d^2 and w e^2 / d; the lowest and highest n / d and n; rows between 0 and their denominator, with a
# numerator and no denominator, and with neither. Of weighted ones also sums of w^2, w^2 d, w^2 e^2, w^2 e d, w^2 d^2.
RATIO_COLUMNS = {"t": "numerator", "b": "denominator", "ee": SQUARES, "ed": "cross", "dd": "denominator2"}
RATIO_COLUMNS |= {"each": "own_squares", "lo": LOW, "hi": HIGH}
RATIO_COLUMNS |= {name: name for name in ("least", "most", "inside", "stray", "idle")}
WEIGHTED_RATIO_COLUMNS = {"w": WEIGHT, "ww": WEIGHT2, "wd": "weight2_denominator"}
WEIGHTED_RATIO_COLUMNS |= {"wee": SQUARES2, "wed": "cross2", "wdd": "weight2_denominator2"}

SUMS = {"scores": (ROWS, TOTAL, SQUARES, LOW, HIGH), "pairs": (ROWS, *PAIR_COLUMNS.values())}
SUMS["ratios"] = (ROWS, *RATIO_COLUMNS.values())
OF_WEIGHTS = {"pairs": tuple(WEIGHTED_PAIR_COLUMNS.values()), "ratios": tuple(WEIGHTED_RATIO_COLUMNS.values())}
WHAT = {"scores": "single scores", "pairs": "comparisons of two models", "ratios": "ratios"}
TAKERS = {
    "scores": "`mean` and `compare` take it",
    "pairs": "`win_rate` and `bradley_terry` take it",
    "ratios": "`ratio` takes it",
}
# What to do about several rows of a model and question.
UNSUMMED = "Average answers before they are summed."
# In the metadata of a file.
KEY = b"evalreg.sums"


@dataclass(frozen=True)
class SummedRoles:
    """Which columns a log was summed by: scores of single models, comparisons of two, or ratios."""

    kind: Literal["scores", "pairs", "ratios"]
    groups: Names
    by: Names = ()
    score: str | None = None
    item: str | None = None
    strata: str | None = None
    left: str | None = None
    right: str | None = None
    winner: str | None = None
    key: Names = ()
    numerator: str | None = None
    denominator: str | None = None
    weights: str | None = None

    def __post_init__(self) -> None:
        sums = set().union(*SUMS.values(), *OF_WEIGHTS.values())
        named = (*self.labels, self.score, self.item, self.winner, *self.key, self.numerator, self.denominator)
        taken = [name for name in without_none(*named, self.weights) if name.startswith(RESERVED)]
        if taken := [*taken, *(name for name in self.labels if name in sums)]:
            raise ArgumentError(
                f'labels must not have the name of a column of sums, nor columns one that begins with "{RESERVED}"; '
                f"rename {listed(taken)}.",
                column=taken[0],
            )

    @property
    def cell_columns(self) -> Axis:
        """Columns of the cells: models, or both sides, and strata."""
        return without_none(*self.by, self.left, self.right, self.strata)

    @property
    def labels(self) -> Axis:
        """Columns that tell lines apart."""
        return tuple(dict.fromkeys((*self.cell_columns, *self.groups)))

    @property
    def sums(self) -> Names:
        """Columns of numbers."""
        return SUMS[self.kind] if self.weights is None else (*SUMS[self.kind], *OF_WEIGHTS[self.kind])

    @property
    def outcome(self) -> str:
        """What was summed."""
        return f"{self.numerator} / {self.denominator}" if self.kind == "ratios" else str(self.score or self.winner)


def summed_roles(kind: str, roles: Any, groups: Any, table: Query, **more: Any) -> SummedRoles:
    """The roles of a reader as those of its sums, by the columns of all clusterings."""
    columns = {name for axis in parse_groups(groups, table.columns) for name in axis}
    shared = {role.name: getattr(roles, role.name) for role in fields(SummedRoles) if hasattr(roles, role.name)}
    return SummedRoles(**{**shared, "kind": kind, "groups": tuple(sorted(columns)), **more})


@dataclass(frozen=True, eq=False)
class SummedLog:
    """Sums of a log by cluster and model; made by `summarise` and `merged`, immutable.

    `mean` takes it like a data frame, `compare` does where the questions are among the groups, `win_rate` and
    `bradley_terry` take sums of comparisons, and `ratio` those of numerators and denominators.

    Parameters
    ----------
    lines : DataFrame
        Lines by the joint values of the groups and `by`: the labels, n_rows, total, squares (about the mean of the
        line), low and high. Of comparisons by both sides, strata and groups; total and squares are of the left score
        less one half, and wins, ties and losses count the scores 1, 1/2 and 0; with weights also weight, weight2,
        total2, squares2 and heaviest. Of ratios sums of the numerators n and denominators d; squares, cross and
        denominator2 of e^2, e d and d^2, with e = n - R d about the ratio R of the line.
    roles : SummedRoles
        Which columns it was summed by.
    dropped : dict of str to int
        Rows dropped by reason.
    shards : tuple of str
        Files that it was made of; none where it was made of rows.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
    >>> sums = er.summarise(log, item="question", groups="passage")
    >>> sums
    <SummedLog: 200 rows of score in 40 lines, by passage>
    """

    lines: pd.DataFrame
    roles: SummedRoles
    dropped: dict[str, int]
    shards: Names = ()

    @property
    def n_rows(self) -> int:
        """Rows that were summed."""
        return int(self.lines[ROWS].sum())

    def __repr__(self) -> str:
        rows, lines = counted(self.n_rows, "row"), counted(len(self.lines), "line")
        return f"<SummedLog: {rows} of {self.roles.outcome} in {lines}, by {', '.join(self.roles.labels)}>"


@dataclass(frozen=True, eq=False)
class Lines(Query):
    """Lines of sums as an engine: a line counts as its rows."""

    log: SummedLog = field(kw_only=True)
    rows_of = (ROWS,)

    @property
    def columns(self) -> Names:
        """Columns of labels."""
        return self.log.roles.labels

    @property
    def rows(self) -> nw.Expr:
        """Rows of a group of lines."""
        return nw.col(ROWS).sum()


def lines_of(log: SummedLog, kind: str, score: str | None = None, needs_rows: Mapping[str, Any] | None = None) -> Lines:
    """A log of sums as an engine; raises where it holds sums of something else, or an argument needs rows."""
    refuse_kind(log, kind)
    if score is not None and score != log.roles.outcome:
        raise ArgumentError(f'`score` must be the score that was summed, "{log.roles.outcome}"; got "{score}".')
    arguments = [name for name, value in (needs_rows or {}).items() if value is not None]
    if arguments:
        raise NotAvailableError(
            f"rows are needed for {listed(arguments)}, and a log of sums no longer has them: give such arguments to "
            "`summarise`, or take the log itself."
        )
    return as_engine(log)


def as_engine(log: SummedLog) -> Lines:
    """The lines of a log of sums, which are queried as rows of an engine are."""
    return Lines(nw.from_native(log.lines).lazy(), log=log)


def refuse_kind(log: SummedLog, kind: str) -> None:
    """Raise unless a log holds sums of one kind."""
    if log.roles.kind != kind:
        raise NotAvailableError(
            f"sums of {WHAT[kind]} are needed, and this log holds sums of {WHAT[log.roles.kind]}: "
            f"{TAKERS[log.roles.kind]}."
        )


def refuse_other(log: SummedLog, arguments: Mapping[str, object]) -> None:
    """Raise where an argument is not as the log was summed."""
    for name, value in arguments.items():
        summed = getattr(log.roles, name)
        if not isinstance(value, str | None) or value != summed:
            say = f"leave `{name}` out" if summed is None else f"say {name}={summed!r}"
            shown = repr(value) if isinstance(value, str | None) else f"an array ({type(value).__name__})"
            raise ArgumentError(
                f"`{name}` must be as the log was summed, {summed!r}; got {shown}. To take these sums, {say}; for "
                "others summarise the log again."
            )


def lines_as_rows(log: SummedLog, model: str, item: str) -> pd.DataFrame:
    """One row for each model and question of a log that was summed by question."""
    refuse_kind(log, "scores")
    parts = refuse_unsummed(log, item)
    models = (model,) if model in log.roles.labels else joint_parts(model) or (model,)
    known_columns(list(models), log.roles.labels, "model")
    as_engine(log).refuse_repeats((*models, *parts), parts[0], UNSUMMED)
    rows = log.lines[list(log.roles.labels)].copy()
    rows[log.roles.outcome] = log.lines[TOTAL] / log.lines[ROWS]
    return rows


def refuse_unsummed(log: SummedLog, item: str | None) -> Names:
    """The columns of the questions; raises where they are not among the sums."""
    known = log.roles.labels
    parts = (item,) if item is None or item in known else joint_parts(item) or (item,)
    if item is not None and not set(parts) <= set(known):
        raise NotAvailableError(
            f"questions of column {item!r} are not among the sums, which have {listed(known)}. `mean` needs no `item`: "
            "leave it out. A comparison does: summarise the log again with its column among the groups, as in "
            f"{passed(groups='QUESTION + CLUSTER')}, and pass {passed(item='QUESTION')}."
        )
    return tuple(part for part in parts if part is not None)


def with_joint(log: SummedLog, name: str | None) -> SummedLog:
    """A log of sums with labels for a joint id of columns that it was summed by."""
    parts = joint_parts(name)
    if name is None or not parts or name in log.roles.labels or not set(parts) <= set(log.roles.labels):
        return log
    codes, labels = joint_labels([factorize(log.lines[part]) for part in parts])
    roles = replace(log.roles, groups=(*log.roles.groups, name))
    return replace(log, lines=log.lines.assign(**{name: labels[codes]}), roles=roles)


def grouped_lines(table: Query, roles: SummedRoles, measures: Measures) -> pd.DataFrame:
    """One line for each joint value of the labels, sorted by them, with its rows and what is measured of them."""
    lines = table.table(roles.labels, measures).rename(columns={GROUPED_ROWS: ROWS})
    return lines.astype({ROWS: "int64"}).sort_values(list(roles.labels), ignore_index=True)


def _parquet() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise NotAvailableError(
            'sums are kept as Parquet, which needs pyarrow; it is not installed. Run: pip install "evalreg[parquet]"'
        ) from error
    return pyarrow


def write_sums(log: SummedLog, path: str | os.PathLike[str], versions: dict[str, str]) -> None:
    """A file of the sums, whole or not at all."""
    pa, target = _parquet(), os.fspath(path)
    metadata = {"roles": asdict(log.roles), "dropped": log.dropped, "versions": versions}
    table = pa.Table.from_pandas(log.lines[[*log.roles.labels, *log.roles.sums]], preserve_index=False)
    table = table.replace_schema_metadata({KEY: json.dumps(metadata, sort_keys=True).encode()})
    try:
        # Two processes may write to one target: each to a file of its own, and the last one stands.
        unfinished = f"{target}.{os.getpid()}.part"
        pa.parquet.write_table(table, unfinished)
        os.replace(unfinished, target)
    except OSError as error:
        raise ArgumentError(f"the sums could not be written to {target!r}: {error}.") from error


def read_sums(path: str | os.PathLike[str]) -> SummedLog:
    """A file of sums."""
    pa, name = _parquet(), name_of(path)
    try:
        table = pa.parquet.read_table(spooled(path) if is_stream(path) else os.fspath(path), partitioning=None)
    except FileNotFoundError as error:
        raise ArgumentError(f"no file is called {name!r}.") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise LogFormatError(
            f"{name} cannot be read as Parquet: it was cut off, or is not a file of sums ({error}). Copy it again, or "
            "summarise its log again."
        ) from error
    text = (table.schema.metadata or {}).get(KEY)
    if text is None:
        raise LogFormatError(f"{name} holds no sums: it was not written by `summarise`. Summarise that log first.")
    metadata = json.loads(text)
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in metadata["roles"].items()
    }
    try:
        roles = SummedRoles(**values)
        lines = table.to_pandas(ignore_metadata=True)[[*roles.labels, *roles.sums]]
    except (TypeError, KeyError) as error:
        raise LogFormatError(
            f"{name} was written by evalreg {metadata.get('versions', {}).get('evalreg', '?')} in another form; "
            "summarise its log again with this one."
        ) from error
    return SummedLog(lines, roles, dict(metadata["dropped"]), (name,))


def merge(paths: Any, cells: str, n_shards: int | None) -> SummedLog:
    """Files of sums, one after the other: lines of the same labels add up whenever sums are made of them."""
    if isinstance(paths, str | os.PathLike) or not isinstance(paths, Sequence):
        raise ArgumentTypeError(f"`paths` must be a list of files; got {type(paths).__name__}. One file: [path].")
    if not paths:
        raise ArgumentError("`paths` must name at least one file; the list is empty.")
    for place, path in enumerate(paths):
        if not isinstance(path, str | os.PathLike):
            what = "; write sums to a file by `path` of `summarise`" if isinstance(path, SummedLog) else ""
            raise ArgumentTypeError(f"`paths` must name files; number {place} is of type {type(path).__name__}{what}.")
    if n_shards is not None and len(paths) != n_shards:
        raise DataError(
            f"`n_shards` says {n_shards} shards; `paths` names {len(paths)}. Find the others, or say "
            f"n_shards={len(paths)}.",
            count=len(paths),
        )
    parts = [read_sums(path) for path in paths]
    for part in parts[1:]:
        _refuse_other_roles(parts[0], part)
        if cells == "same":
            _refuse_other_cells(parts[0], part)
    for earlier, later in combinations(parts, 2):
        _refuse_twice(earlier, later)
    dropped = {reason: sum(part.dropped.get(reason, 0) for part in parts) for reason in parts[0].dropped}
    lines = pd.concat([part.lines for part in parts], ignore_index=True)
    return SummedLog(lines, parts[0].roles, dropped, tuple(part.shards[0] for part in parts))


def _refuse_other_roles(first: SummedLog, part: SummedLog) -> None:
    kinds = ({f"labels in {name!r}": str(log.lines[name].dtype) for name in log.roles.labels} for log in (first, part))
    roles, others = (asdict(log.roles) | kind for log, kind in zip((first, part), kinds, strict=True))
    for what in roles:
        if roles[what] != others.get(what):
            raise ArgumentError(
                f"shards must have the same roles and kinds of labels; {what}: {roles[what]!r} in {first.shards[0]}, "
                f"{others.get(what)!r} in {part.shards[0]}. Summarise one of them again as the other."
            )


def _cells(part: SummedLog) -> Iterator[tuple[Any, ...]]:
    """Models and strata, or pairs of models, either way round, and strata."""
    columns = list(part.roles.cell_columns)
    for cell in part.lines[columns].drop_duplicates().itertuples(index=False, name=None) if columns else ():
        yield (*sorted(cell[:2]), *cell[2:]) if part.roles.kind == "pairs" else cell


def _refuse_other_cells(first: SummedLog, part: SummedLog) -> None:
    differ = sorted(":".join(map(str, cell)) for cell in set(_cells(first)) ^ set(_cells(part)))
    if differ:
        what = "pairs of models" if part.roles.kind == "pairs" else "models"
        raise DataError(
            f"shards must hold the same {what} and strata; only one of {first.shards[0]} and {part.shards[0]} has "
            f"{listed(differ)}. If shards are meant to hold different ones, say {passed(cells='any')}.",
            count=len(differ),
        )


def _refuse_twice(earlier: SummedLog, later: SummedLog) -> None:
    """Raise if two shards hold the same sums."""
    labels, sums = list(earlier.roles.labels), list(earlier.roles.sums)
    if len(earlier.lines) != len(later.lines):
        return
    first, second = (part.lines.sort_values(labels, ignore_index=True) for part in (earlier, later))
    if not first[labels].equals(second[labels]):
        return
    a, b = (part[sums].to_numpy(dtype=float) for part in (first, second))
    # Each column by itself: weights of 1e10 have squares beside which everything else is small.
    if np.allclose(a, b, rtol=0, atol=EQUAL * (1 + np.nanmax(np.abs(np.where(np.isfinite(b), b, 0)), axis=0))):
        raise DuplicateRowsError(
            f"a shard counts once; {earlier.shards[0]} and {later.shards[0]} hold the same sums. Leave one out.",
            count=len(a),
        )
