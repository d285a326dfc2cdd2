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
from evalreg.logs.reading import BrokenName, Source

# A line longer than this, or a document of one piece longer than that, is no log that a person means to read.
LONGEST_LINE = 2**28
LARGEST_DOCUMENT = 2**31
_MISSING = object()


class BadRecordError(Exception):
    """A record that cannot be read: what is wrong with it."""


def document(source: Source) -> Any:
    """The JSON value that a file is."""
    with _opened(source) as file:
        data = file.read(LARGEST_DOCUMENT + 1)
    if len(data) > LARGEST_DOCUMENT:
        raise LogFormatError(
            f"A JSON log in one piece is read up to {LARGEST_DOCUMENT >> 30} GiB; {source.path} is larger. "
            "Write it as JSON lines, or split it."
        )
    try:
        return json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise LogFormatError(
            f"A JSON log is one whole value in UTF-8; {source.path} is not: {error}. Was the run that wrote it cut off?"
        ) from error


def records(source: Source, broken: BrokenName) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Where each record stands and the record, from lines or from one array; None for one that is skipped."""
    if source.head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"[":
        found: Iterator[tuple[str, Any]] = _elements(source)
    else:
        found = _lines(source)
    for place, value in found:
        if isinstance(value, dict):
            yield place, value
            continue
        if broken == "raise":
            what = str(value) if isinstance(value, BadRecordError) else "is not an object"
            raise broken_record(source, place, what)
        yield place, None


def _elements(source: Source) -> Iterator[tuple[str, Any]]:
    """Each element of an array."""
    for number, value in enumerate(document(source), start=1):
        yield f"record {number}", value


def broken_record(source: Source, place: str, what: object) -> LogFormatError:
    """The error of a record that cannot be read."""
    return LogFormatError(
        f'Every record of a log must be whole; {place} of {source.path} {what}. Repair it, or pass broken="skip".'
    )


def _lines(source: Source) -> Iterator[tuple[str, Any]]:
    """Each line that is not blank, as JSON or as what is wrong with it."""
    with _opened(source) as file:
        number = 0
        while line := file.readline(LONGEST_LINE):
            number += 1
            if len(line) == LONGEST_LINE:
                raise LogFormatError(
                    f"A line of a log is at most {LONGEST_LINE >> 20} MiB long; line {number} of {source.path} is "
                    "longer. Is it the right file?"
                )
            if line.strip():
                yield f"line {number}", _parsed(line)


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        return BadRecordError(f"is not JSON in UTF-8 ({error})")


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


def numeric(value: Any) -> float | None:
    """A finite number, or None for what is none; true and false count as 1 and 0."""
    if not isinstance(value, int | float) or abs(value) > 1e308 or value != value:
        return None
    return float(value)


def extra_columns(columns: Sequence[str] | None, usual: Sequence[str]) -> tuple[str, ...]:
    """Fields to keep: those asked for, or the usual ones."""
    return tuple(usual if columns is None else columns)
