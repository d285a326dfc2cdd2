"""From files to records: JSON lines or one document, within bounds.

Fields of a record go by their dotted names, texts by their beginning and a digest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from evalreg.checks import listed, passed
from evalreg.errors import ArgumentError, LogFormatError
from evalreg.logs.files import BOM, Source
from evalreg.logs.reading import BadRecordError, BrokenName, Record, Unknown


def pyarrow_for(name: str, kind: str) -> Any:
    """The package pyarrow, which a file of this kind needs."""
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise ArgumentError(
            f'{name} is {kind}, which needs pyarrow; it is not installed. Run: pip install "evalreg[parquet]"'
        ) from error


def described(path: Path) -> str:
    """What a Parquet file says of its columns; empty where it cannot be read."""
    try:
        from pyarrow import parquet

        return str(parquet.read_schema(path))
    except (ImportError, OSError, ValueError):
        return ""


# Records

# A document of one piece that is larger than this is not a log that a person means to read.
LARGEST_DOCUMENT = 2**31
LONGEST_LINE = 1 << 26
AS_LINES = 'Write an object for each row: pandas does so by to_json(path, orient="records", lines=True).'
# Text of a field that nobody named is kept up to this length, and nested fields as deep as this.
LONGEST, DEEPEST = 200, 8
# Whole numbers of more than 64 bits lose digits in orjson.
_MANY_DIGITS = re.compile(rb"[0-9]{19}")


def parser() -> Callable[[bytes], Any]:
    """A parser of JSON that keeps all digits, and takes NaN and Infinity, which Python writes; fast where orjson is."""
    try:
        fast: Callable[[bytes], Any] | None = import_module("orjson").loads
    except ImportError:
        fast = None

    def parse(text: bytes) -> Any:
        if fast is not None and not _MANY_DIGITS.search(text):
            with suppress(ValueError):
                return fast(text)
        return json.loads(text.decode("utf-8"))

    return parse


def records(
    source: Source, broken: BrokenName, unique: Sequence[str] | None = ()
) -> Iterator[tuple[str, bytes, Record | None]]:
    """Of JSON lines where each stands, the line, and its object, None for one that is broken and left out.

    Of one array the same without a line. `unique` are keys that an object may have once only; None means all keys at
    its top.
    """
    if source.start.startswith(b"["):
        yield from ((place, b"", record) for place, record in places(document(source), "record"))
        return
    parse, n_records = parser(), 0
    with source.opened() as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), start=1):
            place, record = f"line {number}", None
            if number == 1:
                line = line.removeprefix(BOM)
            if line.isspace() or not line:
                continue
            try:
                record = _object(line, parse, unique, number == 1)
            except BrokenLineError as error:
                if broken == "raise":
                    raise error.of(source, place, n_records) from error.__cause__
                while line and not line.endswith(b"\n"):  # the rest of one that is too long
                    line = file.readline(1 << 20)
            yield place, line, record
            n_records += 1


def _remove() -> str:
    return f"Remove that line, or pass {passed(broken='skip')} to leave such lines out and count them."


class BrokenLineError(Exception):
    """What is wrong with a line that is no object, what to do, and the key that it is about."""

    def __init__(self, what: str, advice: str = "", column: str | None = None) -> None:
        super().__init__(what)
        self.advice, self.column = advice or _remove(), column

    def of(self, source: Source, place: str, n_before: int) -> LogFormatError:
        """The error of that line of a file, after so many records."""
        return LogFormatError(
            f"In JSON lines every line is one whole object, each key once; {place} of {source.name} {self}. "
            f"{self.advice}",
            rows=[n_before],
            column=self.column,
        )


def _object(line: bytes, parse: Callable[[bytes], Any], unique: Sequence[str] | None, is_first: bool) -> Record:
    """The object that a line is."""
    if len(line) > LONGEST_LINE:  # refused at once, for its end may be far away
        raise BrokenLineError(f"is longer than {LONGEST_LINE >> 20} MiB")
    try:
        record = parse(line)
    except UnicodeDecodeError as error:
        # Leaving out the lines with such bytes would leave out whole languages.
        byte = error.object[error.start]
        raise BrokenLineError(f"has the byte 0x{byte:02x}, which is not UTF-8", "Save it as UTF-8.") from error
    except (ValueError, RecursionError) as error:
        cut = "" if line.endswith(b"\n") else "It is the last and was cut off: is the run still writing it? "
        # A document of its own begins with an object that goes on in further lines.
        whole = is_first and not cut and line.rstrip()[-1:] != b"}"
        document = f"It looks like one JSON document of no known format. {AS_LINES}"
        advice = document if whole else cut + _remove()
        raise BrokenLineError(f"is not: {str(error)[:200].rstrip('.')}", advice) from error
    if not isinstance(record, dict):
        raise BrokenLineError(f"is {line.strip()[:40].decode('utf-8', 'replace')}")
    wanted = record if unique is None else unique
    # A name that is a value too, as in lm-eval's list of metrics, is no key given twice.
    names = (f'"{key}"'.encode() for key in wanted)
    again = any(line.count(name) > 1 and len(re.findall(re.escape(name) + rb"\s*:", line)) > 1 for name in names)
    if again and (twice := _repeated(line, wanted)):
        raise BrokenLineError(f"has more than one {listed(twice, joiner=' and ')}", column=twice[0])
    return record


def _repeated(line: bytes, wanted: Any) -> list[str]:
    """Keys that the object of a line has twice at its top; its pairs are the last that the parser gives."""
    last: list[str] = []

    def keep(pairs: list[tuple[str, Any]]) -> Record:
        last[:] = [key for key, _ in pairs]
        return dict(pairs)

    json.loads(line.decode("utf-8"), object_pairs_hook=keep)
    return [key for key, times in Counter(last).items() if times > 1 and key in wanted]


def document(source: Source, largest: int | None = None) -> Any:
    """The JSON value that a file is."""
    largest = LARGEST_DOCUMENT if largest is None else largest
    with source.opened() as file:
        data = file.read(largest + 1) if source.path.stat().st_size <= largest else b""
    if not data or len(data) > largest:
        if not data and not source.path.stat().st_size:
            raise LogFormatError(f"A JSON log is one whole value; {source.name} is empty.")
        raise LogFormatError(
            f"A JSON log in one piece is read up to {largest >> 20} MiB; {source.name} has more. Write it as JSON "
            "lines, or split it; Inspect turns its own by: inspect log convert --to eval --output-dir FOLDER FILE"
        )
    return parsed(data, source.name)


def parsed(data: bytes, name: str) -> Any:
    """The JSON value of bytes, where NaN and infinities may stand for numbers."""
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise LogFormatError(
            f"A JSON log is text in UTF-8; byte {error.start} of {name} is 0x{data[error.start]:02x}, which is not. "
            "Save it as UTF-8."
        ) from error
    except (ValueError, RecursionError) as error:
        raise LogFormatError(
            f"A JSON log is one whole value in UTF-8; {name} is not: {error}. Is it damaged, was the run that wrote it "
            "cut off, or is it still being written?"
        ) from error


def beside(path: Path, largest: int | None = None) -> Any:
    """The JSON value of a file that may lie beside a log; None where there is none."""
    return document(Source(path), largest) if path.is_file() and not path.is_symlink() else None


def places(rows: Sequence[Any], what: str) -> Iterator[tuple[str, Any]]:
    """Records with their places in a list."""
    return ((f"{what} {number}", row) for number, row in enumerate(rows, start=1))


# Fields of a record

T = TypeVar("T")
KINDS: dict[type, str] = {str: "text", list: "a list", dict: "an object", bool: "true or false", int: "a whole number"}


def at(record: Any, path: str) -> Any:
    """The value at a path of keys and places, "games.0.score"; of "a|b" the first that is there; None if none is."""
    for way in path.split("|"):
        value = record
        for step in way.split("."):
            if isinstance(value, Mapping):
                value = value.get(step)
            elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
                value = value[int(step)]
            else:
                value = None
        if value is not None:
            return value
    return None


def objects(value: Any) -> list[Record]:
    """The objects in a list; none where it is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def needed(record: Any, path: str) -> Any:
    """The value at a path whose last key must be there, if only with null."""
    for way in path.split("|"):
        above, _, key = way.rpartition(".")
        holder = at(record, above) if above else record
        if isinstance(holder, Mapping) and key in holder:
            return holder[key]
        if isinstance(holder, list) and key.isdigit() and int(key) < len(holder):
            return holder[int(key)]
    if isinstance(record, Mapping) and "#value" in record:  # an entry of a list that is no object
        raise BadRecordError(f"is {type(record['#value']).__name__}, not an object")
    raise BadRecordError(f"has no {path.replace('|', ' or ')!r}")


def unfit(value: Any, path: str, wanted: str) -> BadRecordError:
    """The error of a value that is not what its field holds."""
    return BadRecordError(f"has {str(value)[:40]!r} as {path!r}, where {wanted} is needed")


def label(record: Any, path: str) -> str:
    """A name or an id at a path, as text."""
    value = needed(record, path)
    if isinstance(value, str) and value:
        return printable(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise unfit(value, path, "a name or a number")


def typed(record: Any, path: str, kind: type[T], default: T | None = None) -> T:
    """The value of a kind at a path; without a default it must be there."""
    value = at(record, path)
    if value is None and default is not None:
        return default
    value = needed(record, path) if value is None else value
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise unfit(value, path, KINDS[kind])
    return value


def first_text(record: Any, *paths: str) -> str:
    """The first text at some paths that is not empty; empty where there is none."""
    values = (at(record, path) for path in paths)
    return printable(next((value for value in values if isinstance(value, str) and value), ""))


def numeric(value: Any) -> float | None:
    """A finite number, or None for what is none; true and false count as 1 and 0."""
    if not isinstance(value, int | float) or value != value or abs(value) > 1e308:
        return None
    return float(value)


def numeric_items(record: Any) -> Record:
    """The fields of an object that are numbers."""
    return {k: v for k, v in record.items() if numeric(v) is not None} if isinstance(record, dict) else {}


def number_at(record: Any, path: str) -> float | None:
    """A score at a path; None for what is missing, NaN or infinite."""
    return as_score(at(record, path), path)


def as_score(value: Any, path: str) -> float | None:
    """A value as a score; None for what is missing, NaN or infinite."""
    if value is not None and not isinstance(value, bool | int | float):
        raise unfit(value, path, "a number")
    return numeric(value)


def score_of(value: Any) -> Any:
    """A value as a score: None where there is none, unknown where it is no number."""
    if value is None or isinstance(value, bool | int | float):
        number = numeric(value)
        return Unknown("infinite") if number is None and value is not None and value == value else number
    many = f"a list of {len(value)}" if isinstance(value, list) else "an object"
    return Unknown("text" if isinstance(value, str) else many)


def readings(record: Any, name: str, above: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """Every way to read a dotted name, since keys may contain dots themselves: the keys, and the value."""
    if not isinstance(record, Mapping):
        return []
    ways = [((*above, name), record[name])] if name in record else []
    for place in (place for place, sign in enumerate(name) if sign == "."):
        if name[:place] in record:
            ways += readings(record[name[:place]], name[place + 1 :], (*above, name[:place]))
    return ways


def nested_value(record: Any, name: str, where: str = "") -> tuple[bool, Any]:
    """Whether an object has a field, by its key or by dots into nested objects, and its value."""
    ways = readings(record, name)
    if len(ways) > 1:
        several = listed((" > ".join(keys) for keys, _ in ways), joiner=" and ")
        raise ArgumentError(
            f'A name must mean one field; "{name}" is {several}{where}, keys within keys being joined by ">". '
            "Rename one.",
            column=name,
        )
    return (True, ways[0][1]) if ways else (False, None)


def cell(value: Any) -> Any:
    """A value as one cell of a table; lists and objects as JSON."""
    if isinstance(value, dict | list):
        return json.dumps(value, sort_keys=True, ensure_ascii=False)
    return printable(value) if isinstance(value, str) else value


class Long(str):
    """A text that is too long to be kept as it is: its beginning and its digest, which tell it from others."""


def leaves(value: Any, name: str, depth: int = DEEPEST) -> Iterator[tuple[str, Any]]:
    """Numbers, truth values and short texts of an object, by dotted names; lists are none."""
    if isinstance(value, Mapping):
        for key, inner in value.items() if depth else ():
            yield from leaves(inner, f"{name}.{key}" if name else str(key), depth - 1)
    elif isinstance(value, str):
        yield printable(name), printable(value) if len(value) <= LONGEST else Long(short(value, LONGEST))
    elif isinstance(value, bool | int | float):
        yield printable(name), value


def flat(record: Mapping[str, Any], depth: int = 3) -> Record:
    """An object with the short fields of its nested objects in their place, by their dots; its own keys come first."""
    nested = {key: value for key, value in record.items() if isinstance(value, Mapping)}
    inner = (pair for key, value in nested.items() for pair in leaves(value, key, depth))
    plain = {key: value for key, value in record.items() if key not in nested}
    return plain | {key: value for key, value in inner if key not in record and not isinstance(value, Long)}


def as_column(cells: list[Any]) -> pd.Series[Any] | None:
    """A column of one kind, or of objects as they are: an id 1 does not turn into 1.0 beside a missing one.

    None where nothing is in it.
    """
    cells = [str(value) if isinstance(value, Long) else value for value in cells]
    kinds = set(map(type, cells)) - {type(None)}
    if not kinds:
        return None
    if kinds == {str}:
        return pd.Series(cells, dtype="str")
    if len(kinds) == 1 and None not in cells and not (kinds == {int} and any(abs(v) >= 1 << 62 for v in cells)):
        return pd.Series(cells)
    return pd.Series(cells, dtype=object)


# Texts as names


def printable(value: str) -> str:
    """Text that any table can hold: half characters, which JSON may spell, are written out."""
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()


def digest(*parts: Any) -> str:
    """Twelve letters that stand for a text, or for several values."""
    value = parts[0] if len(parts) == 1 and isinstance(parts[0], str) else repr(parts)
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def short(value: str, most: int = 60) -> str:
    """A text as an id: itself where it is short and on one line, else its beginning and its digest."""
    plain = " ".join(value.split())
    name = plain if plain == value and len(plain) <= most else f"{plain[: most - 14].rstrip()} #{digest(value)}"
    return printable(name)
