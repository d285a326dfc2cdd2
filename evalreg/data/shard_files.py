"""Sums of logs as files of Parquet: written, read and checked, and added up."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import listed
from evalreg.data.summed import SummedLog, added, in_power
from evalreg.data.summed_roles import (
    HEAVIEST,
    HIGH,
    LOW,
    QUESTIONS,
    ROWS,
    WEIGHT,
    AnyRoles,
    SummedPairRoles,
    SummedRatioRoles,
    SummedRoles,
)
from evalreg.data.weights import FAR
from evalreg.errors import (
    ArgumentError,
    ArgumentTypeError,
    DataError,
    DuplicateRowsError,
    LogFormatError,
    NotAvailableError,
)

# The newest that is read; each kind of sums is written as the first that had it, which older releases read.
SCHEMA = 4
SCHEMAS: dict[type, int] = {SummedRoles: 1, SummedPairRoles: 2, SummedRatioRoles: 3}
# Of weights times a power of two.
SCHEMA_OF_POWERS = 4
KEY = b"evalreg.sums"
# Sums of the same rows in another order agree to this fraction.
UNCHANGED = 1e-9


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise NotAvailableError(
            'sums are kept as Parquet, which needs pyarrow; it is not installed. Run: pip install "evalreg[parquet]"'
        ) from error
    return pyarrow


def write_sums(sums: SummedLog, path: str | os.PathLike[str], versions: dict[str, str]) -> None:
    """A file of the sums, whole or not at all."""
    pa = _pyarrow()
    told = {
        "schema": SCHEMA_OF_POWERS if sums.power else SCHEMAS[type(sums.roles)],
        "roles": asdict(sums.roles),
        "kinds": sums.kinds,
        "dropped": sums.dropped,
        "content": _digest(sums.lines, (*sums.roles.labels, *sums.roles.sums)),
        "versions": versions,
    } | ({"power": sums.power} if sums.power else {})
    table = pa.Table.from_pandas(sums.lines, preserve_index=False)
    table = table.replace_schema_metadata({KEY: json.dumps(told, sort_keys=True).encode()})
    target = os.fspath(path)
    try:
        # Two processes may write to one target: each to a file of its own, and the last one stands.
        unfinished = f"{target}.{os.getpid()}.part"
        pa.parquet.write_table(table, unfinished)
        os.replace(unfinished, target)
    except OSError as error:
        raise ArgumentError(f"the sums could not be written to {target!r}: {error}.") from error


def _digest(lines: pd.DataFrame, columns: Sequence[str]) -> str:
    """Hash of some columns of the lines, in whatever order they stand."""
    hashes = np.sort(pd.util.hash_pandas_object(lines[list(columns)], index=False).to_numpy())
    return hashlib.sha256(hashes.tobytes()).hexdigest()


def holds_sums(path: str | os.PathLike[str]) -> bool:
    """Whether a file is one of sums, and whole enough to say so."""
    try:
        with open(path, "rb") as stream:
            if stream.read(4) != b"PAR1":
                return False
        pa = _pyarrow()
        return KEY in (pa.parquet.read_schema(path).metadata or {})
    except (OSError, NotAvailableError):
        return False
    except pa.ArrowException:
        return False


def read_sums(path: str | os.PathLike[str]) -> SummedLog:
    """A file of sums, found whole."""
    pa, name = _pyarrow(), os.fspath(path)
    try:
        table = pa.parquet.read_table(name, partitioning=None)
    except FileNotFoundError as error:
        raise ArgumentError(f"no file is called {name!r}.") from error
    except (pa.ArrowException, OSError) as error:
        raise LogFormatError(
            f"{name} cannot be read as Parquet: it was cut off, or is not a file of sums ({error}). Copy it again, or "
            "summarise its log again."
        ) from error
    told = (table.schema.metadata or {}).get(KEY)
    if told is None:
        raise LogFormatError(f"{name} holds no sums: it was not written by `summarise`. Summarise that log first.")
    return _checked(table.to_pandas(ignore_metadata=True), json.loads(told), name)


def _checked(lines: pd.DataFrame, told: dict[str, Any], name: str) -> SummedLog:
    if told["schema"] > SCHEMA:
        raise LogFormatError(
            f"{name} has sums of schema {told['schema']}, written by evalreg {told['versions'].get('evalreg', '?')}; "
            f"this evalreg reads schema {SCHEMA} and older. Upgrade evalreg here, or summarise the log again with "
            "this one."
        )
    roles = _roles_of(told["roles"])
    lines = lines.astype(dict.fromkeys(roles.labels, object))
    if _digest(lines, (*roles.labels, *roles.sums)) != told["content"]:
        raise LogFormatError(
            f"{name} was changed after it was written: its sums no longer match their hash. Summarise its log again."
        )
    return SummedLog(lines, roles, dict(told["kinds"]), dict(told["dropped"]), (name,), told.get("power", 0))


def _roles_of(given: dict[str, Any]) -> AnyRoles:
    """Roles as they were written, lists of names as tuples."""
    held: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    if "left" in held:
        return SummedPairRoles(**held)
    return SummedRatioRoles(**held) if "numerator" in held else SummedRoles(**held)


@dataclass(frozen=True)
class Expected:
    """What is known of the shards beforehand."""

    cells: str = "same"
    n_shards: int | None = None
    questions: int | str | None = None


def merge(paths: Any, expected: Expected) -> SummedLog:
    """Files of sums added up, after every check."""
    if isinstance(paths, str | os.PathLike) or not isinstance(paths, Sequence):
        raise ArgumentTypeError(f"`paths` must be a list of files; got {type(paths).__name__}. One file: [path].")
    if not paths:
        raise ArgumentError("`paths` must name at least one file; the list is empty.")
    for place, path in enumerate(paths):
        if not isinstance(path, str | os.PathLike):
            what = "; write sums to a file by `path` of `summarise`" if isinstance(path, SummedLog) else ""
            raise ArgumentTypeError(f"`paths` must name files; number {place} is of type {type(path).__name__}{what}.")
    if expected.n_shards is not None and len(paths) != expected.n_shards:
        raise DataError(
            f"`n_shards` says {expected.n_shards} shards; `paths` names {len(paths)}. Find the others, or say "
            f"n_shards={len(paths)}.",
            count=len(paths),
        )
    parts = [read_sums(path) for path in paths]
    _refuse_other_roles(parts)
    parts = _in_one_power(parts)
    if expected.cells == "same":
        _refuse_other_cells(parts)
    _refuse_spelling(parts)
    _refuse_twice(parts)
    lines = added(pd.concat([part.lines for part in parts], ignore_index=True), parts[0].roles)
    dropped = {reason: sum(part.dropped.get(reason, 0) for part in parts) for reason in parts[0].dropped}
    whole = SummedLog(lines, parts[0].roles, parts[0].kinds, dropped, tuple(part.shards[0] for part in parts))
    whole = replace(whole, power=parts[0].power)
    if expected.questions is not None:
        _refuse_lost(whole, expected.questions)
    return whole


def _refuse_other_roles(parts: list[SummedLog]) -> None:
    first = parts[0]
    for part in parts[1:]:
        if type(part.roles) is not type(first.roles):
            raise ArgumentError(
                f"shards must have the same roles; {first.shards[0]} holds sums of {first.roles.what} and "
                f"{part.shards[0]} those of {part.roles.what}. Merge each with its own kind."
            )
        for what, one, other in (
            *((name, value, getattr(part.roles, name)) for name, value in asdict(first.roles).items()),
            *((f"labels in {name!r}", kind, part.kinds.get(name)) for name, kind in first.kinds.items()),
        ):
            if one != other:
                raise ArgumentError(
                    f"shards must have the same roles and kinds of labels; {what}: {one!r} in {first.shards[0]}, "
                    f"{other!r} in {part.shards[0]}. Summarise one of them again as the other."
                )


def _in_one_power(parts: list[SummedLog]) -> list[SummedLog]:
    """The shards with their weights times the same power of two: as they are, where they agree."""
    if len({part.power for part in parts}) == 1:
        return parts
    # Mean weights of lines as powers of two: the weights themselves may be no floats.
    means = [np.log2(part.lines[WEIGHT].to_numpy() / part.lines[ROWS].to_numpy()) - part.power for part in parts]
    heaviest, far = max(float(one.max()) for one in means), float(np.log2(FAR))
    for part, mean in zip(parts, means, strict=True):
        light = mean < heaviest - 2 * far
        if light.any():
            raise ArgumentError(
                f"`weights` of all shards must lie within a factor of {FAR**2:.0e} of each other; those of "
                f"{int(light.sum())} lines of {part.shards[0]} are lighter than that, compared with the heaviest. "
                "Leave that shard out, or weigh its rows on the scale of the others.",
                count=int(light.sum()),
            )
    power = 0 if abs(heaviest) < far else -int(np.ceil(heaviest))
    return [in_power(part, power) for part in parts]


def _cells(part: SummedLog) -> set[tuple[str, ...]]:
    """Models and strata, or pairs of models, either way round, and strata."""
    found = set(part.lines[list(part.roles.cell_columns)].drop_duplicates().itertuples(index=False, name=None))
    if not isinstance(part.roles, SummedPairRoles):
        return found
    return {(*sorted(cell[:2]), *cell[2:]) for cell in found}


def _refuse_other_cells(parts: list[SummedLog]) -> None:
    first = _cells(parts[0])
    what = "pairs of models" if isinstance(parts[0].roles, SummedPairRoles) else "models"
    for part in parts[1:]:
        differ = sorted(":".join(one) for one in first ^ _cells(part))
        if differ:
            raise DataError(
                f"shards must hold the same {what} and strata; {listed(differ)} "
                f"{'is' if len(differ) == 1 else 'are'} in only one of {parts[0].shards[0]} "
                f'and {part.shards[0]}. If shards are meant to hold different ones, say cells="any".',
                count=len(differ),
            )


def _refuse_spelling(parts: list[SummedLog]) -> None:
    """Raise where labels of different shards are alike but for case and blanks, and no shard tells them apart."""
    for names in _columns_of_names(parts[0].roles):
        name = names[0]
        frames = [
            pd.DataFrame({"label": pd.unique(part.lines[list(names)].to_numpy().ravel()), "shard": i})
            for i, part in enumerate(parts)
        ]
        labels = pd.concat(frames)
        labels["folded"] = labels["label"].str.strip().str.casefold()
        spelled = labels.groupby("folded")["label"].nunique()
        within = labels.groupby(["folded", "shard"])["label"].nunique().groupby("folded").max()
        differ = spelled.index[(spelled > 1) & (within == 1)]
        if len(differ):
            some = labels[labels["folded"] == differ[0]].drop_duplicates("label")
            where = ", ".join(f"{row.label!r} in {parts[row.shard].shards[0]}" for row in some.itertuples())
            raise DataError(
                f"labels must be spelled alike in all shards; {len(differ)} of column "
                f"{' and '.join(map(repr, names))} differ by case or blanks: {where}. Spell them alike in the log and "
                "summarise it again; if they are two different labels, rename one.",
                column=name,
                count=len(differ),
            )


def _columns_of_names(roles: AnyRoles) -> list[tuple[str, ...]]:
    """Columns of labels; both sides of a comparison hold the names of one set of models."""
    if not isinstance(roles, SummedPairRoles):
        return [(name,) for name in roles.labels]
    sides = (roles.left, roles.right)
    return [sides, *((name,) for name in roles.labels if name not in sides)]


def _refuse_twice(parts: list[SummedLog]) -> None:
    """Raise if a shard, or a line with the same questions, is there twice."""
    labels = list(parts[0].roles.labels)
    exact = [_digest(part.lines, (*labels, ROWS, LOW, HIGH, QUESTIONS)) for part in parts]
    rest = [name for name in parts[0].roles.sums if name not in (ROWS, LOW, HIGH, QUESTIONS, HEAVIEST)]
    for i, j in combinations(range(len(parts)), 2):
        if exact[i] != exact[j]:
            continue
        one, two = (part.lines.sort_values(labels)[rest].to_numpy(dtype=float) for part in (parts[i], parts[j]))
        # Each column by itself: weights of 1e10 have squares beside which everything else is small.
        if np.all(np.abs(one - two) <= UNCHANGED * (np.abs(two) + np.abs(two).max(axis=0, initial=0.0))):
            raise DuplicateRowsError(
                f"a shard counts once; {parts[i].shards[0]} and {parts[j].shards[0]} hold the same sums. "
                "Leave one out.",
                count=len(one),
            )
    hashed = parts[0].roles.hashed
    if not hashed:
        return
    lines = pd.concat([part.lines[[*labels, QUESTIONS]].assign(shard=i) for i, part in enumerate(parts)])
    again = lines.duplicated([*labels, QUESTIONS], keep=False)
    if again.any():
        pair = lines[again].sort_values(labels).iloc[:2]
        shown = ":".join(pair[labels].iloc[0])
        first, second = (parts[i].shards[0] for i in pair["shard"])
        what = parts[0].roles.unit
        raise DuplicateRowsError(
            f"a {what} counts once{' for each model' if what == 'question' else ''}; "
            f"{int(lines[again].duplicated([*labels, QUESTIONS]).sum())} lines have the {what}s of a line of another "
            f"shard, such as {shown!r} in {first} and {second}. Leave one run out; to use both, average them in one "
            "log first.",
            column=hashed[-1],
        )


def _refuse_lost(whole: SummedLog, expected: int | str) -> None:
    """Raise unless every model has so many questions, or those of a hash."""
    found = whole.questions
    what = whole.roles.unit + "s"
    if isinstance(expected, str):
        wrong = found[found["hash"] != expected]
        said = f"the {what} of hash {expected}"
    else:
        wrong = found[found["n"] != expected]
        said = f"{expected} {what}"
    if not len(wrong):
        return
    if isinstance(whole.roles, SummedPairRoles):
        say = f"there are {said}; {listed(wrong['n'])} are"
    else:
        names = [":".join(one) if isinstance(one, tuple) else str(one) for one in wrong.index]
        say = f"each model has {said}; {listed(names)} {'has' if len(names) == 1 else 'have'} "
        say += f"{listed(wrong['n'].unique())},"
    n = len(whole.shards)
    raise DataError(
        f"`questions` says that {say} in {n} shard{'s' if n > 1 else ''}. A shard may be lost, or was summed of other "
        f"{what}.",
        count=len(wrong),
    )
