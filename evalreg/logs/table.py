"""Tables as they come: CSV, TSV, JSON lines and Parquet, told apart by content and not by name."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from pandas.api.types import infer_dtype

from evalreg.checks import MOST_LISTED, listed, nearest
from evalreg.data.names import known_column
from evalreg.errors import ArgumentError, ArgumentTypeError, LogFormatError
from evalreg.logs.fields import flat, nested_value

__all__ = ["read_bytes", "read_table"]

# First bytes of what is not a table, and what to call it.
_FOREIGN = {
    b"PK\x03\x04": "a zip archive (as .zip, .xlsx and .eval files are)",
    b"\x28\xb5\x2f\xfd": "compressed by zstandard",
    b"\xfd7zXZ\x00": "compressed by xz",
    b"BZh": "compressed by bzip2",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}
# From pandas 3.1 on every number is read as the nearest float, and the option that asks for it is deprecated.
_PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])
_FLOAT_PRECISION: Literal["round_trip"] | None = "round_trip" if _PANDAS < (3, 1) else None
_LONGEST_FIELD = 2**31 - 1
_CUT_OFF = "Was the run that wrote it cut off?"


def read_table(
    path: str | os.PathLike[str],
    *,
    text_columns: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    fields: Sequence[str] | None = (),
) -> pd.DataFrame:
    """The rows of a file as a data frame, in the order of the file; "-" is standard input.

    The format is recognised by content: Parquet, JSON lines (one object per line), otherwise CSV, whose delimiter is
    the comma or tab of its header; each may be compressed by gzip. Text is UTF-8. In CSV only the empty field is
    missing, quoted or not, and blank lines do not count: a model may be called NA or 007. A column becomes numbers if
    every field that is not empty is a number, true or false if all are that, and text otherwise. JSON lines and Parquet
    have types of their own; there, null and NaN are missing, and JSON values of several kinds become text.

    `text_columns` are read as text, to the letter, whatever they hold; names that the file does not have are passed
    over. `columns` are those to read, in the order wanted. `fields` are names of which those with dots may stand for
    fields of nested objects in JSON lines ("doc.passage"), which become columns of that name; so may names of
    `text_columns` and `columns`. Other names are passed over. None takes all short fields in place of the objects.

    A LogFormatError gives lines of the file, counted from 1; its attribute `rows` gives positions below the header,
    from 0.
    """
    text_names = _names("text_columns", text_columns)
    wanted = None if columns is None else _names("columns", columns)
    name, data = _called(path), read_bytes(path)
    if data.startswith(b"PAR1"):
        return _read_parquet(data, name, text_names, wanted)
    text = _decoded(data, name)
    start = text.lstrip()
    if start.startswith("{"):
        if fields is None:
            return _read_json_lines(text, name, text_names, wanted, None)
        nested = [*text_names, *(wanted or ()), *_names("fields", fields)]
        return _read_json_lines(
            text, name, text_names, wanted, dict.fromkeys(field for field in nested if "." in field)
        )
    if start.startswith("[") and start[1:].lstrip()[:1] in tuple('[{"]'):
        raise LogFormatError(
            f"A table is CSV, JSON lines or Parquet; {name} is one JSON array. Write one object per line."
        )
    return _read_csv(text, name, text_names, wanted)


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The content of a file ("-" is standard input), uncompressed if its first bytes say that it is gzip."""
    if path == "-" and sys.stdin is None:
        raise ArgumentError("Standard input is closed; name a file.")
    data = sys.stdin.buffer.read() if path == "-" else _file_bytes(Path(path))
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise LogFormatError(
            f"{_called(path)} begins as gzip but is damaged or cut off ({error}). Copy it again."
        ) from error


def _called(path: str | os.PathLike[str]) -> str:
    return "standard input" if path == "-" else str(path)


def _file_bytes(path: Path) -> bytes:
    if path.is_dir():
        raise ArgumentError(f'`path` must be a file; "{path}" is a directory. Name one file in it.')
    try:
        return path.read_bytes()
    except FileNotFoundError:
        siblings = [sibling.name for sibling in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = nearest(path.name, siblings) or " Check the spelling and the working directory."
        raise ArgumentError(f'`path` must be a file; there is no "{path}".{hint}') from None
    except (OSError, ValueError) as error:
        raise ArgumentError(f'`path` must be a file that can be read; "{path}" cannot: {error}.') from error


def _names(argument: str, names: Sequence[str]) -> list[str]:
    if isinstance(names, str):
        raise ArgumentTypeError(f'`{argument}` must be a list of names; got the string "{names}". Pass ["{names}"].')
    return list(dict.fromkeys(names))


def _decoded(data: bytes, name: str) -> str:
    """The text of a file, without a byte order mark."""
    for start, what in _FOREIGN.items():
        if data.startswith(start):
            raise LogFormatError(f"A table is CSV, JSON lines or Parquet in UTF-8; {name} is {what}. Convert it first.")
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
        raise LogFormatError(f"A table has a header and rows; {name} is empty. {_CUT_OFF}")
    return text


def _chosen(columns: list[str] | None, found: list[str], name: str) -> list[str]:
    """The columns to read, once the names in the file and those asked for are checked."""
    repeated = [column for column, times in Counter(found).items() if times > 1]
    if repeated:
        raise LogFormatError(
            f"Column names must differ; {name} has more than one {listed(repeated, joiner=' and ')}. Rename them.",
            column=repeated[0],
        )
    return found if columns is None else [known_column(column, found, "columns") for column in columns]


def _read_csv(text: str, name: str, text_columns: list[str], columns: list[str] | None) -> pd.DataFrame:
    delimiter, header = _header(text, name)
    chosen = _chosen(columns, header, name)
    frame = pd.read_csv(
        io.BytesIO(_checked(text, delimiter, len(header), name).encode()),
        sep=delimiter,
        names=header,
        header=0,
        usecols=chosen,
        dtype=dict.fromkeys(set(text_columns) & set(chosen), str),
        keep_default_na=False,
        na_values=[""],
        index_col=False,
        low_memory=False,  # in chunks, a column could become half numbers, half text
        skip_blank_lines=False,
        float_precision=_FLOAT_PRECISION,
    )[chosen]
    # Newer versions of pandas make Python integers of what does not fit in 64 bits, older ones text; such are ids.
    ids = [column for column in chosen if frame[column].dtype == object and infer_dtype(frame[column]) == "integer"]
    return _read_csv(text, name, [*text_columns, *ids], columns) if ids else _nullable(frame)


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
            raise LogFormatError(f"A table must have rows; {name} has a header only. {_CUT_OFF}", count=0)
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
    return LogFormatError(
        f"Every line must have as many fields as the header, {width}; in {name} {listing}{more}. "
        "Quote the fields that contain the delimiter.",
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
        raise LogFormatError(f'The delimiter must be a comma or a tab; the header of {name} has "{other}". Convert it.')
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


def _nullable(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with truth values and gaps, which come as objects, as nullable booleans."""
    objects = [column for column in frame.columns if frame[column].dtype == object]
    return frame.astype({column: "boolean" for column in objects if infer_dtype(frame[column]) == "boolean"})


class _Object(dict[str, Any]):
    """A JSON object that knows which keys it was given twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        count = Counter(key for key, _ in pairs) if len(self) < len(pairs) else Counter[str]()
        self.repeated = [key for key, times in count.items() if times > 1]


def _read_json_lines(
    text: str, name: str, text_columns: list[str], columns: list[str] | None, nested: Iterable[str] | None = ()
) -> pd.DataFrame:
    records: list[dict[str, Any]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line, object_pairs_hook=_Object)
        except (ValueError, RecursionError) as error:
            raise LogFormatError(
                f"In JSON lines every line is one whole object; line {number} of {name} is not: {error}. "
                "Write one object per line, and remove a line that was cut off.",
                rows=[len(records)],
            ) from error
        if not isinstance(record, _Object):
            raise LogFormatError(
                f"In JSON lines every line is one object; line {number} of {name} is {line.strip()[:40]}. Remove it.",
                rows=[len(records)],
            )
        if "\\ud" in line.lower() and not _is_unicode(record):
            raise LogFormatError(
                f"Text is Unicode; line {number} of {name} has half a surrogate pair, such as \\ud83d alone. Was an "
                "answer cut off within a sign? Remove the line, or the half.",
                rows=[len(records)],
            )
        if record.repeated:
            raise LogFormatError(
                f"Keys of an object must differ; line {number} of {name} has more than one "
                f"{listed(record.repeated, joiner=' and ')}. Rename or remove one.",
                column=record.repeated[0],
                rows=[len(records)],
            )
        record = flat(record) if nested is None else _with_nested(record, nested, f" in line {number} of {name}")
        records.append(record)
    found = list(dict.fromkeys(key for record in records for key in record))
    if not found:
        raise LogFormatError(f"In JSON lines the keys of the objects are the columns; those of {name} have no keys.")
    return pd.DataFrame(
        {
            column: _json_column([record.get(column) for record in records], column, column in text_columns, name)
            for column in _chosen(columns, found, name)
        },
        index=pd.RangeIndex(len(records)),
    )


def _is_unicode(record: _Object) -> bool:
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _with_nested(record: _Object, nested: Iterable[str], where: str) -> _Object:
    """The object with the nested fields that are named by their dots."""
    for field in nested:
        exists, value = nested_value(record, field, where)
        if exists:
            record[field] = value
    return record


def _json_column(values: list[Any], column: str, as_text: bool, name: str) -> pd.Series[Any]:
    """One column of JSON values; what is of several kinds becomes text, as in CSV."""
    values = [None if value is None or value != value else value for value in values]
    kinds = {type(value) for value in values} - {type(None)}
    if kinds & {dict, list}:
        if not as_text:
            return pd.Series(values, dtype=object)
        row = next(row for row, value in enumerate(values) if isinstance(value, dict | list))
        raise LogFormatError(
            f'A column read as text must not hold lists or objects; "{column}" of {name} does, first in row {row}. '
            "Name another column.",
            column=column,
            rows=[row],
        )
    # Integers of more than 64 bits are ids; they become text, as in CSV.
    if kinds <= {int, float} and not as_text and all(abs(value) < 2**63 for value in values if type(value) is int):
        return pd.Series(values, dtype="int64" if kinds == {int} and None not in values else "float64")
    if kinds <= {bool} and not as_text:
        return pd.Series(values, dtype="boolean" if None in values else None)
    return pd.Series([value if value is None or isinstance(value, str) else json.dumps(value) for value in values])


def _read_parquet(data: bytes, name: str, text_columns: list[str], columns: list[str] | None) -> pd.DataFrame:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise ArgumentError(
            f'{name} is Parquet, which needs pyarrow; it is not installed. Run: pip install "evalreg[parquet]"'
        ) from error
    try:
        file = parquet.ParquetFile(pa.BufferReader(data))
        chosen = _chosen(columns, file.schema_arrow.names, name)
        table = file.read(columns=chosen).select(chosen)
        for column in set(text_columns) & set(chosen):
            table = table.set_column(chosen.index(column), column, table[column].cast(pa.string()))
    except (pa.ArrowException, OSError) as error:
        raise LogFormatError(f"{name} begins as Parquet but cannot be read as a table: {error}") from error
    if table.num_rows == 0:
        raise LogFormatError(f"A table must have rows; {name} has none. {_CUT_OFF}", count=0)
    # The metadata would turn an index that pandas saved back into one, and its column would be gone.
    return _nullable(table.to_pandas(ignore_metadata=True))
