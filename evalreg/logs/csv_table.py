"""Tables in CSV: every line as wide as the header, then by pandas; what is wrong is said with its lines."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype

from evalreg.checks import MOST_LISTED, listed
from evalreg.errors import LogFormatError
from evalreg.logs.records import Content

CUT_OFF = "Was the run that wrote it cut off?"
# From pandas 3.1 on every number is read as the nearest float, and the option that asks for it is deprecated.
_PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])
_FLOAT_PRECISION: Literal["round_trip"] | None = "round_trip" if _PANDAS < (3, 1) else None
# Bytes, and rows, that are looked at together.
_BOM, _BLOCK, _ROWS = b"\xef\xbb\xbf", 1 << 20, 100_000


def read_csv(content: Content, wanted: Any, text: Sequence[str]) -> pd.DataFrame:
    """The rows of a file whose delimiter is the comma or tab of its header; `wanted` picks columns of the header."""
    head = content.head(1 << 16).removeprefix(_BOM)
    layout = _layout(head[: head.rfind(b"\n") + 1], content.name)
    whole: str | None = None
    if layout is None or not _is_plain(content, layout[0], len(layout[1])):
        whole = _text(content)
        layout = _header(whole, content.name)
        whole = _checked(whole, layout[0], len(layout[1]), content.name)
    delimiter, header = layout
    names = wanted(header)

    def parse(columns: list[str], as_text: set[str]) -> pd.DataFrame:
        options: dict[str, Any] = {
            "sep": delimiter,
            "names": header,
            "header": 0,
            "usecols": columns,
            "index_col": False,
        }
        options |= {"dtype": dict.fromkeys(as_text, str), "keep_default_na": False, "na_values": [""]}
        # Some rows at a time, of which each is read at once: pandas alone would warn of columns of several kinds.
        options |= {"float_precision": _FLOAT_PRECISION, "low_memory": False, "chunksize": _ROWS}
        with content.counted() as file:
            source: Any = file if whole is None else io.StringIO(whole)
            parts = [part[columns] for part in pd.read_csv(source, encoding="utf-8-sig", **options)]
        return pd.DataFrame(parts[0]) if len(parts) == 1 else pd.concat(parts, ignore_index=True)

    frame = parse(names, set(text) & set(names))
    if mixed := [name for name in names if _is_mixed(frame[name])]:
        frame[mixed] = parse(mixed, set(mixed))
    return frame


def _is_mixed(column: pd.Series[Any]) -> bool:
    """Whether pandas took some values for numbers and some for text, or lost digits of large whole numbers."""
    if column.dtype == object:
        return infer_dtype(column, skipna=True) not in ("string", "boolean", "empty")
    if column.dtype == "float64":
        large = column[np.abs(column) >= 2**53]
        return len(large) > 0 and bool((large < 2**70).all() and (column.dropna() % 1 == 0).all())
    return str(column.dtype) == "uint64"


def _layout(lines: bytes, name: str) -> tuple[str, list[str]] | None:
    """Delimiter and column names; None where the beginning of the file does not hold its header to the end."""
    try:
        return _header(lines.decode(), name) if lines.strip() else None
    except (ValueError, csv.Error, StopIteration):
        return None


def _is_plain(content: Content, delimiter: str, width: int) -> bool:
    """Whether it is UTF-8 without quotes, zero bytes and lone carriage returns, each line as wide as the header."""
    n_lines, rest = 0, b""
    with content.counted() as file:
        while block := file.read(_BLOCK):
            block = rest + block.removeprefix(_BOM) if not n_lines else rest + block
            end = block.rfind(b"\n") + 1
            block, rest = block[:end], block[end:]
            if len(rest) > 64 * _BLOCK or not _are_lines(block, delimiter, width):
                return False
            n_lines += block.count(b"\n")
    last = rest.rstrip(b"\r")
    return n_lines + bool(last) > 1 and (not rest or _are_lines(rest + b"\n", delimiter, width))


def _are_lines(block: bytes, delimiter: str, width: int) -> bool:
    if b'"' in block or b"\0" in block or block.count(b"\r") != block.count(b"\r\n"):
        return False
    if not block.isascii():
        try:
            block.decode()
        except UnicodeDecodeError:
            return False
    signs = np.frombuffer(block, dtype=np.uint8)
    ends, before = np.flatnonzero(signs == 10), np.flatnonzero(signs == ord(delimiter))
    counts = np.diff(np.searchsorted(before, ends), prepend=0)
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    is_blank = bool(np.isin(signs[starts], (10, 13)).any()) if width == 1 and len(ends) else False
    return bool((counts == width - 1).all()) and not is_blank


def _text(content: Content) -> str:
    """The text of a file, without a byte order mark."""
    data, name = content.everything(), content.name
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise LogFormatError(f"A table is text; line {line} of {name} has a zero byte. Is it the right file?")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, byte = error.object.count(b"\n", 0, error.start) + 1, error.object[error.start]
        raise LogFormatError(
            f"A table must be UTF-8; line {line} of {name} has the byte 0x{byte:02x}, which is not. Save it as UTF-8."
        ) from error
    if not text.strip():
        raise LogFormatError(f"A table has a header and rows; {name} is empty. {CUT_OFF}")
    return text


def _checked(text: str, delimiter: str, width: int, name: str) -> str:
    """The text of a table whose lines all have `width` fields, without blank lines."""
    with _fields_of_any_length():
        try:
            widths = Counter(len(record) for record in _records(text, delimiter))
        except csv.Error:
            widths = Counter()
        if set(widths) - {0} != {width}:
            raise _malformed(text, delimiter, width, name)
        if widths[width] == 1:
            raise LogFormatError(f"A table must have rows; {name} has a header only. {CUT_OFF}", count=0)
        if 0 not in widths and not re.search(r"\r(?!\n)", text):
            return text
        # pandas mixes up fields, and may not end, where blank lines and lone carriage returns meet: write it again.
        buffer = io.StringIO(newline="")
        writer = csv.writer(buffer, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerows(record for record in _records(text, delimiter) if record)
        return buffer.getvalue()


def _malformed(text: str, delimiter: str, width: int, name: str) -> LogFormatError:
    """The error that lists the lines whose fields are not as many as the header's."""
    reader, line, position, ragged = _records(text, delimiter), 1, -1, []
    try:
        for record in reader:
            if record and len(record) != width:
                ragged.append((line, position, len(record)))
            line, position = reader.line_num + 1, position + bool(record)
    except csv.Error:
        return LogFormatError(
            f"A quoted field ends with a quote and then a delimiter; in {name} one that begins on or after line {line} "
            'does not. Write a quote inside quotes twice: "5"" disk".',
            rows=[position],
        )
    listing = ", ".join(f"line {line} has {fields}" for line, _, fields in ragged[:MOST_LISTED])
    more = f" and {len(ragged) - MOST_LISTED} more differ" if len(ragged) > MOST_LISTED else ""
    cut = len(ragged) == 1 and ragged[0][1] == position - 1 and ragged[0][2] < width
    advice = "It is the last: was the file cut off, or is the run still writing it?"
    return LogFormatError(
        f"Every line must have as many fields as the header, {width}; in {name} {listing}{more}. "
        f"{advice if cut else 'Quote the fields that contain the delimiter.'}",
        rows=[position for _, position, _ in ragged[:MOST_LISTED]],
        count=len(ragged),
    )


def _header(text: str, name: str) -> tuple[str, list[str]]:
    """The delimiter and the column names: of comma and tab, the one that gives more names."""
    candidates: list[tuple[str, list[str]]] = []
    for delimiter in (",", "\t"):
        with _fields_of_any_length():
            try:
                candidates.append((delimiter, next(record for record in _records(text, delimiter) if record)))
            except csv.Error:
                continue
    if not candidates:
        raise LogFormatError(f"The header must name the columns; that of {name} has a quote that is not closed.")
    delimiter, header = max(candidates, key=lambda candidate: len(candidate[1]))
    other = next((sign for sign in ";|" if len(header) == 1 and sign in header[0]), None)
    if other:
        commas = ', decimal=","' if other == ";" else ""
        raise LogFormatError(
            f'The delimiter must be a comma or a tab; the header of {name} has "{other}". Convert it, as by '
            f'pandas.read_csv({name!r}, sep="{other}"{commas}).to_csv("new.csv", index=False).'
        )
    numbers = [column for column in header if _is_number(column)]
    if numbers or not any(column.strip() for column in header):
        what = f"has {listed(numbers)} among its names" if numbers else "is blank"
        raise LogFormatError(f"The header must name the columns; the first line of {name} {what}. Add a header line.")
    return delimiter, header


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _records(text: str, delimiter: str) -> Any:
    """A strict reader: it raises csv.Error where a quote does not close or is followed by more than a delimiter."""
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)


@contextmanager
def _fields_of_any_length() -> Iterator[None]:
    before = csv.field_size_limit(2**31 - 1)  # answers of models can be longer than 131,072 letters
    try:
        yield
    finally:
        csv.field_size_limit(before)
