"""Records of JSON logs: lines or one array, a field of them by its dotted name, and what is wrong with one."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, cast

from evalreg.errors import LogFormatError
from evalreg.logs.lines import JsonLines
from evalreg.logs.reading import BrokenName, Source
from evalreg.numerics.progress import Progress

# A document of one piece that is larger than this is not a log that a person means to read.
LARGEST_DOCUMENT = 2**31
PART = 1 << 24  # bytes that are read at a time
_MISSING = object()


class BadRecordError(Exception):
    """A record that cannot be read: what is wrong with it."""


def document(source: Source) -> Any:
    """The JSON value that a file is."""
    data = whole_file(source, LARGEST_DOCUMENT)
    if data is None:
        raise LogFormatError(
            f"A JSON log in one piece is read up to {LARGEST_DOCUMENT >> 30} GiB; {source.path} is larger. "
            "Write it as JSON lines, or split it."
        )
    try:
        return json.loads(decoded(data, str(source.path)))
    except LogFormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise LogFormatError(
            f"A JSON log is one whole value in UTF-8; {source.path} is not: {error}. Was the run that wrote it cut "
            "off, or is it still being written?"
        ) from error


def whole_file(source: Source, largest: int) -> bytes | None:
    """All bytes of a file, uncompressed; None where there are more than `largest`."""
    with _opened(source) as file:
        packed = isinstance(file, gzip.GzipFile)
        size = source.path.stat().st_size
        if size > largest and not packed:
            return None
        parts, total = [], 0
        with Progress(max(1, size), unit="bytes") as progress:
            while total <= largest and (part := file.read(PART)):
                parts.append(part)
                total += len(part)
                progress.advance(0 if packed else len(part))
    return None if total > largest else b"".join(parts)


def decoded(data: bytes, name: str) -> str:
    """Text in UTF-8, with or without a mark."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LogFormatError(
            f"A JSON log is text in UTF-8; byte {error.start} of {name} is 0x{data[error.start]:02x}, which is not. "
            "Save it as UTF-8."
        ) from error


def records(source: Source, broken: BrokenName) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Where each record stands and the record, from lines or from one array; None for one that is skipped."""
    if source.head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"[":
        yield from _elements(source, broken)
    else:
        yield from _lines(source, broken)


def _elements(source: Source, broken: BrokenName) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Each element of an array; None for one that is not an object and is skipped."""
    for number, value in enumerate(document(source), start=1):
        if not isinstance(value, dict) and broken == "raise":
            raise broken_record(source, f"record {number}", "is not an object")
        yield f"record {number}", value if isinstance(value, dict) else None


def broken_record(source: Source, place: str, what: object) -> LogFormatError:
    """The error of a record that cannot be read."""
    return LogFormatError(
        f'Every record of a log must be whole; {place} of {source.path} {what}. Repair it, or pass broken="skip".'
    )


def _lines(source: Source, broken: BrokenName) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """The object of each line; None for one that is skipped."""
    lines, skipped = JsonLines(source.path, broken, exact=True), 0
    for number, _, value in lines:
        yield from _skipped(lines.n_broken - skipped)
        skipped = lines.n_broken
        yield f"line {number}", value
    yield from _skipped(lines.n_broken - skipped)


def _skipped(count: int) -> Iterator[tuple[str, None]]:
    yield from [("a line", None)] * count


@contextmanager
def _opened(source: Source) -> Iterator[IO[bytes]]:
    """The content of a file, uncompressed where it is gzip."""
    try:
        with source.path.open("rb") as plain:
            packed = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            yield cast(IO[bytes], gzip.GzipFile(fileobj=plain)) if packed else plain
    except (EOFError, zlib.error, OSError) as error:
        raise LogFormatError(f"{source.path} cannot be read to its end ({error}). Copy it again.") from error


def dotted(record: Any, name: str) -> Any:
    """The value of a field, with dots into nested ones; None where it is not there."""
    if isinstance(record, dict) and name in record:
        return record[name]
    first, dot, rest = name.partition(".")
    return dotted(record.get(first), rest) if dot and isinstance(record, dict) else None


def cell(record: Any, name: str) -> Any:
    """The value of a field as one cell of a table; lists and objects as JSON."""
    value = dotted(record, name)
    return json.dumps(value, sort_keys=True, ensure_ascii=False) if isinstance(value, dict | list) else value


def field(record: Any, name: str) -> Any:
    """The value of a field that must be there."""
    value = record.get(name, _MISSING) if isinstance(record, dict) else _MISSING
    if value is _MISSING:
        raise BadRecordError(f"has no {name!r}")
    return value


def label(record: Any, name: str) -> str:
    """A name or an id, as text."""
    value = field(record, name)
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise BadRecordError(f"has {str(value)[:40]!r} as {name!r}, where a name or a number is needed")


def text(record: Any, name: str) -> str:
    """A text that may be empty."""
    value = field(record, name)
    if isinstance(value, str):
        return value
    raise BadRecordError(f"has {str(value)[:40]!r} as {name!r}, where text is needed")


def digest(value: str) -> str:
    """Twelve letters that stand for a text."""
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def short(value: str, most: int = 60) -> str:
    """A text as an id: itself where it is short and on one line, else its beginning and its digest."""
    plain = " ".join(value.split())
    return plain if plain == value and len(plain) <= most else f"{plain[: most - 14].rstrip()} #{digest(value)}"


class Long(str):
    """A text that is too long to be kept as it is: its beginning and its digest, which tell it from others."""


def shortened(value: Any, most: int) -> Any:
    """A value as it is kept of a field that nobody named; None of lists, objects and what is missing."""
    if isinstance(value, str):
        return value if len(value) <= most else Long(short(value, most))
    return value if isinstance(value, bool | int | float) else None


def settled(cells: list[Any]) -> list[Any] | None:
    """The values of such a field; None where all are long, which are questions and answers and not names of clusters.

    Where some are short the others are told apart by their digests: without them, their rows would be in no cluster.
    """
    long = [isinstance(cell, Long) for cell in cells]
    if not any(long):
        return cells
    if all(is_long or cell is None for is_long, cell in zip(long, cells, strict=True)):
        return None
    return [str(cell) if is_long else cell for is_long, cell in zip(long, cells, strict=True)]


def numeric(value: Any) -> float | None:
    """A finite number, or None for what is none; true and false count as 1 and 0."""
    if not isinstance(value, int | float) or abs(value) > 1e308 or value != value:
        return None
    return float(value)


def extra_columns(columns: Sequence[str] | None, usual: Sequence[str]) -> tuple[str, ...]:
    """Fields to keep: those asked for, or the usual ones."""
    return tuple(usual if columns is None else columns)
