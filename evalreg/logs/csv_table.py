"""Tables in CSV: by pandas where every line is as wide as the header, else record by record to say what is wrong."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, Literal

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_string_dtype

from evalreg.checks import MOST_LISTED, listed
from evalreg.errors import LogFormatError
from evalreg.logs.content import BLOCK, Content, line_blocks
from evalreg.logs.tabular import CUT_OFF, TableRequest, chosen, nullable

# From pandas 3.1 on every number is read as the nearest float, and the option that asks for it is deprecated.
_PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])
_FLOAT_PRECISION: Literal["round_trip"] | None = "round_trip" if _PANDAS < (3, 1) else None
_LONGEST_FIELD = 2**31 - 1
# Bytes of the file that pandas holds at a time.
CHUNK = 1 << 24
_BOM = b"\xef\xbb\xbf"
_QUOTE, _LINE = ord('"'), ord("\n")


def read_csv(content: Content, head: bytes, asked: TableRequest) -> pd.DataFrame:
    """The rows of a file whose delimiter is the comma or tab of its header."""
    layout = _layout_of(head, content.name)
    if layout is not None and _is_regular(content, *layout):
        frame = _in_chunks(content, head, *layout, asked)
        if frame is not None:
            return frame
    with content.stream() as file:
        text = decoded(file.read(), content.name)
    return _whole(text, content.name, asked.text, asked)


def decoded(data: bytes, name: str) -> str:
    """The text of a file, without a byte order mark."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, byte = error.object.count(b"\n", 0, error.start) + 1, error.object[error.start]
        raise LogFormatError(
            f"A table must be UTF-8; line {line} of {name} has the byte 0x{byte:02x}, which is not. Save it as UTF-8."
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise LogFormatError(f"A table is text; line {line} of {name} has a zero byte. Is it the right file?")
    if not text.strip():
        raise LogFormatError(f"A table has a header and rows; {name} is empty. {CUT_OFF}")
    return text


def _layout_of(head: bytes, name: str) -> tuple[str, list[str]] | None:
    """Delimiter and column names; None where the beginning of the file does not hold its header to the end."""
    lines = head.removeprefix(_BOM)
    try:
        text = lines[: lines.rindex(b"\n") + 1].decode()
        with _fields_of_any_length():
            reader = _records(text, ",")
            next(record for record in reader if record)
        return _header(text, name)
    except (ValueError, csv.Error, StopIteration):
        return None


def _is_regular(content: Content, delimiter: str, header: Sequence[str]) -> bool:
    """Whether every line has the fields of the header, quotes stand around whole fields, and no line is blank.

    Delimiters and line ends between quotes count for nothing: they are those with an odd number of quotes before them.
    """
    width, opened, n_delimiters, n_records, text = len(header), 0, 0, 0, b""
    with content.stream() as file:
        for block in line_blocks(file, BLOCK):
            if block.text is None or not _is_plain(block.text, width):
                return False
            text, signs = block.text, np.frombuffer(block.text, dtype=np.uint8)
            ends, delimiters = np.flatnonzero(signs == _LINE), np.flatnonzero(signs == ord(delimiter))
            quotes = np.flatnonzero(signs == _QUOTE)
            if quotes.size or opened:
                if not _are_around_fields(signs, quotes, opened, ord(delimiter)):
                    return False
                ends = ends[(np.searchsorted(quotes, ends) + opened) % 2 == 0]
                delimiters = delimiters[(np.searchsorted(quotes, delimiters) + opened) % 2 == 0]
                opened = (opened + quotes.size) % 2
            before = np.searchsorted(delimiters, ends)
            if ends.size:
                if n_delimiters + before[0] != width - 1 or (np.diff(before) != width - 1).any():
                    return False
                n_delimiters, n_records = 0, n_records + ends.size
            n_delimiters += delimiters.size - (int(before[-1]) if ends.size else 0)
    if not text.endswith(b"\n"):
        n_records += 1
        return not opened and n_delimiters == width - 1 and n_records > 1
    return not opened and n_records > 1


def _is_plain(text: bytes, width: int) -> bool:
    """Whether it is UTF-8 without zero bytes, lone carriage returns, or blank lines that could be rows."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    if b"\0" in text or text.count(b"\r") != text.count(b"\r\n"):
        return False
    return width > 1 or not (text.startswith((b"\n", b"\r")) or b"\n\n" in text or b"\n\r" in text)


def _are_around_fields(signs: Any, quotes: Any, opened: int, delimiter: int) -> bool:
    """Whether quotes open after a delimiter, a line end or a quote, and close before one."""
    opening, closing = quotes[opened::2], quotes[1 - opened :: 2]
    before = signs[opening[opening > 0] - 1]
    after = signs[closing[closing < signs.size - 1] + 1]
    fine = [delimiter, _LINE, _QUOTE]
    return bool(np.isin(before, fine).all() and np.isin(after, [*fine, ord("\r")]).all())


def _in_chunks(
    content: Content, head: bytes, delimiter: str, header: list[str], asked: TableRequest
) -> pd.DataFrame | None:
    """The columns wanted, some lines at a time; None where only the whole file says what a column is."""
    wanted = _wanted(asked, header, content.name)
    rows = max(1, CHUNK * max(1, head.count(b"\n")) // len(head))
    text = set(asked.text) & set(wanted)
    for _ in range(2):
        parts = list(_chunks(content, delimiter, header, wanted, text, rows))
        columns = {column: _joined([part[column] for part in parts]) for column in wanted}
        if any(isinstance(found, str) and found == "unclear" for found in columns.values()):
            return None
        mixed = {column for column, found in columns.items() if isinstance(found, str)}
        if not mixed:
            return pd.DataFrame(columns, columns=wanted, copy=False)
        text |= mixed
    return None


def _chunks(
    content: Content, delimiter: str, header: list[str], wanted: list[str], text: set[str], rows: int
) -> Iterator[pd.DataFrame]:
    with content.counted() as file:
        _skip_mark(file)
        yield from (nullable(part[wanted]) for part in _parse(file, delimiter, header, wanted, text, chunksize=rows))


def _skip_mark(file: IO[bytes]) -> None:
    if file.read(3) != _BOM:
        file.seek(0)


def _parse(file: Any, delimiter: str, header: list[str], wanted: list[str], text: set[str], **options: Any) -> Any:
    return pd.read_csv(
        file,
        sep=delimiter,
        names=header,
        header=0,
        usecols=wanted,
        dtype=dict.fromkeys(text, str),
        keep_default_na=False,
        na_values=[""],
        index_col=False,
        low_memory=False,  # a column could become half numbers, half text
        skip_blank_lines=False,
        float_precision=_FLOAT_PRECISION,
        **options,
    )


def _joined(parts: list[pd.Series[Any]]) -> pd.Series[Any] | Literal["mixed", "unclear"]:
    """A column of its chunks; "mixed" where it is text as a whole, "unclear" where the chunks do not say."""
    if len(parts) == 1 and parts[0].dtype != object:
        return parts[0]
    given = [part for part in parts if part.notna().any()]
    kinds = {_kind(part) for part in given}
    if "other" in kinds:
        return "unclear"
    if len(kinds) > 1 and kinds != {"int64", "float64"}:
        return "mixed"
    if kinds in ({"text"}, {"boolean"}):
        dtype: Any = given[0].dtype if kinds == {"text"} else "boolean"
        parts = [part.astype(dtype) if len(given) < len(parts) or dtype == "boolean" else part for part in parts]
        whole = pd.concat(parts, ignore_index=True)
        return whole.astype(bool) if kinds == {"boolean"} and not whole.isna().any() else whole
    return pd.concat(parts, ignore_index=True)


def _kind(part: pd.Series[Any]) -> str:
    if part.dtype in ("bool", "boolean"):
        return "boolean"
    if part.dtype == object:
        return "text" if infer_dtype(part, skipna=True) == "string" else "other"
    if is_string_dtype(part.dtype):
        return "text"
    return str(part.dtype) if str(part.dtype) in ("int64", "float64") else "other"


def _wanted(asked: TableRequest, header: list[str], name: str) -> list[str]:
    found = chosen(asked.columns, header, name)
    if asked.keep is None or asked.columns is not None:
        return found
    # A row is a row even where no column of it is wanted.
    return [column for column in header if column in asked.keep] or header[:1]


def _whole(text: str, name: str, text_columns: list[str], asked: TableRequest) -> pd.DataFrame:
    """The rows of a text that pandas alone might read otherwise than it is written."""
    delimiter, header = _header(text, name)
    wanted = _wanted(asked, header, name)
    file = io.BytesIO(_checked(text, delimiter, len(header), name).encode())
    frame = _parse(file, delimiter, header, wanted, set(text_columns) & set(wanted))[wanted]
    # Newer versions of pandas make Python integers of what does not fit in 64 bits, older ones text; such are ids.
    ids = [column for column in wanted if frame[column].dtype == object and infer_dtype(frame[column]) == "integer"]
    return _whole(text, name, [*text_columns, *ids], asked) if ids else nullable(frame)


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
    listing = ", ".join(f"line {line} has {found}" for line, _, found in ragged[:MOST_LISTED])
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
        with _fields_of_any_length(), suppress(csv.Error):
            candidates.append((delimiter, next(record for record in _records(text, delimiter) if record)))
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
        found = f"has {listed(numbers)} among its names" if numbers else "is blank"
        raise LogFormatError(f"The header must name the columns; the first line of {name} {found}. Add a header line.")
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
    before = csv.field_size_limit(_LONGEST_FIELD)  # answers of models can be longer than 131,072 letters
    try:
        yield
    finally:
        csv.field_size_limit(before)
