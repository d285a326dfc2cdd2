"""Tables as they come: CSV, TSV, JSON lines, Parquet and Arrow, told apart by content and not by name."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype

from evalreg.checks import MOST_LISTED, listed, passed
from evalreg.data.clusters import known_column
from evalreg.errors import ArgumentError, ArgumentTypeError, LogFormatError
from evalreg.logs.files import BOM, PARQUET, Source
from evalreg.logs.reading import BrokenName
from evalreg.logs.records import AS_LINES, LONGEST, BrokenLineError, flat, nested_value, places, pyarrow_for, records

__all__ = ["read_table"]

CUT_OFF = "Was the run that wrote it cut off?"
# From pandas 3.1 on every number is read as the nearest float, and the option that asks for it is deprecated.
_PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])
_FLOAT_PRECISION: Literal["round_trip"] | None = "round_trip" if _PANDAS < (3, 1) else None
# Bytes, and rows, that are looked at together.
_BLOCK, _ROWS = 1 << 20, 100_000
DELIMITERS = (",", "\t", ";", "|")
TABLES = "CSV, JSON lines, Parquet or Arrow"
# First bytes of what is not a table, and what to call it.
FOREIGN = {
    b"PK\x03\x04": "a zip archive (as .zip, .xlsx and .eval files are)",
    b"\x28\xb5\x2f\xfd": "compressed by zstandard",
    b"\xfd7zXZ\x00": "compressed by xz",
    b"BZh": "compressed by bzip2",
    b"\xff\xfe\0\0": "text in UTF-32",
    b"\0\0\xfe\xff": "text in UTF-32",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}
MAGIC = {PARQUET: "Parquet", b"ARROW1": "an Arrow file"}
# Nested fields as deep as this are kept unasked.
_DEEPEST = 3


def foreign(head: bytes) -> str:
    """What a file is that begins so and is no table; empty where that is not known."""
    return next((what for start, what in FOREIGN.items() if head.startswith(start)), "")


@dataclass(frozen=True)
class TableRequest:
    """What to read of a table."""

    # Columns that are read as text, to the letter.
    text: Sequence[str] = ()
    # Those to read where a file has them, with dots into nested fields; None for all.
    names: Sequence[str] | None = None
    # Fields of objects that are columns too where all are read; or all short ones, in place of the objects.
    fields: Sequence[str] = ()
    flat: bool = False
    broken: BrokenName = "raise"

    @property
    def nested(self) -> list[str]:
        """Names with dots, which may stand for fields of nested objects."""
        names = (*self.text, *self.fields) if self.names is None else self.names
        return [name for name in dict.fromkeys(names) if "." in name]

    def of(self, header: Sequence[str], name: str) -> list[str]:
        """The columns to read of those that a file has."""
        repeated = [column for column, times in Counter(header).items() if times > 1]
        if repeated:
            raise LogFormatError(
                f"Column names must differ; {name} has more than one {listed(repeated, joiner=' and ')}. Rename them.",
                column=repeated[0],
            )
        # A row is a row even where no column of it is wanted.
        selected = [column for column in header if self.names is None or column in self.names]
        return selected or list(header[:1])


def names(argument: str, values: Sequence[str]) -> list[str]:
    """The names of a list, each once; one text in its place is an error."""
    if isinstance(values, str):
        raise ArgumentTypeError(f'`{argument}` must be a list of names; got the string "{values}". Pass ["{values}"].')
    return list(dict.fromkeys(values))


def read_table(
    path: str | os.PathLike[str],
    *,
    text_columns: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    fields: Sequence[str] | None = (),
    keep: Sequence[str] | None = None,
) -> pd.DataFrame:
    r"""The rows of a plain table as a data frame, in the order of the file.

    The format is recognised by content: Parquet, Arrow files (Feather), JSON (one object per line, or one array),
    otherwise CSV, whose delimiter is that of its header; each may be compressed by gzip. Text is UTF-8. In CSV only the
    empty field is missing, quoted or not, and blank lines do not count: a model may be called NA or 007. A column
    becomes numbers if every field that is not empty is a number, true or false if all are that, and text otherwise.
    JSON lines, Parquet and Arrow have types of their own; there, null and NaN are missing, and JSON values of several
    kinds become text.

    `read_log` reads several tables as one log, and the logs of harnesses.

    Parameters
    ----------
    path : str or path
        The file; "-" is standard input.
    text_columns : list of str, optional
        Read as text, to the letter, whatever they contain; names that the file does not have are passed over.
    columns : list of str, optional
        Those to read, in the order wanted; all by default.
    fields : list of str or None, optional
        Names of which those with dots may stand for fields of nested objects ("doc.passage"; structs in Parquet), which
        become columns of that name; so may names of the other lists. Other names are passed over. None takes all short
        fields in place of the objects.
    keep : list of str, optional
        Those to read where the file has them; the others are left in the file and take no memory.

    Returns
    -------
    DataFrame
        One row a line or object.

    Raises
    ------
    LogFormatError
        If the file is no table. The message gives lines of the file, counted from 1; the attribute `rows` gives
        positions below the header, from 0.
    MissingColumnError
        If one of `columns` is not there.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import evalreg as er
    >>> path = pathlib.Path(tempfile.mkdtemp(), "log.csv")
    >>> _ = path.write_text("model,item,score\n007,1,1\n007,2,0\nNA,1,1\nNA,2,1\n")
    >>> er.read_table(path, text_columns=["model"])["model"].tolist()
    ['007', '007', 'NA', 'NA']
    """
    lists = {"text_columns": text_columns, "columns": columns, "fields": fields, "keep": keep}
    text, must, inner, may = (None if some is None else names(name, some) for name, some in lists.items())
    source, further = Source.of(path), (*(must or ()), *(inner or ()))
    wanted = TableRequest(text or (), must if may is None else may, further, inner is must is may is None)
    frame, _ = table(source, wanted)
    for column in must or ():
        if column not in frame.columns:  # the error names all columns of the file
            known_column(column, list(table(source, replace(wanted, names=None))[0].columns), "columns")
    return frame if must is None else frame[must]


def table_records(
    source: Source, text: Sequence[str] = (), keep: Sequence[str] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row of a table as a record, None where a cell is empty."""
    wanted = TableRequest(text, keep)
    if source.head.startswith(tuple(MAGIC)):
        yield from places(_arrow(source, wanted).to_pylist(), "row")
        return
    rows, _ = table(source, wanted)
    columns = {str(name): rows[name].astype(object).where(rows[name].notna(), None).tolist() for name in rows}
    yield from places([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)], "row")


def table(source: Source, wanted: TableRequest) -> tuple[pd.DataFrame, int]:
    """The rows of a table, and how many lines of JSON were broken and left out."""
    head = source.head
    if head.startswith(tuple(MAGIC)):
        # Without metadata, which would turn an index that pandas saved back into one.
        return _nullable(_arrow(source, wanted).to_pandas(ignore_metadata=True)), 0
    if what := foreign(head):
        raise LogFormatError(f"A table is {TABLES}, text in UTF-8; {source.name} is {what}. Convert it first.")
    if holds_results(source):
        path = source.stream or source.name
        shown = passed(f"print(er.read_results({path!r}))", files=f"evalreg table {shlex.quote(path)}")
        raise LogFormatError(
            f"A log holds scores or verdicts; {source.name} holds results, as `to_json` and --format json write them. "
            f"`{shown}` shows those of means, differences, boards and regressions; or name the log they were made from."
        )
    if re.match(rb'\{|\[\s*[\[{"]', source.start):
        return _json(source, wanted)
    return _nullable(_csv(source, wanted)), 0


def holds_results(source: Source) -> bool:
    """Whether it is a document of results, as evalreg itself writes them."""
    keys = (b'\n  "covariance": {', b'\n  "command": {', b'\n  "kind": "')
    lines = source.head.startswith(b"{\n") and any(key in source.head for key in keys)
    return lines or source.head.startswith(b'{"covariance":{"matrix"')


def _nullable(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with truth values and gaps, which come as objects, as nullable booleans."""
    objects = [column for column in frame.columns if frame[column].dtype == object]
    return frame.astype({column: "boolean" for column in objects if infer_dtype(frame[column]) == "boolean"})


# JSON lines


def _json(source: Source, wanted: TableRequest) -> tuple[pd.DataFrame, int]:
    """Columns of the objects of JSON lines: those asked for, or all of the top level."""
    columns: dict[str, list[Any]] = {name: [] for name in wanted.names or ()}
    plain, nested = [name for name in columns if "." not in name], wanted.nested
    n_rows, n_broken, n_keys, first = 0, 0, 0, dict[str, Any]()
    # Keys that an object may have once only: all, or those that are read, and the objects that hold them.
    unique = None if wanted.names is None else [part for name in columns for part in (name, name.split(".")[0])]
    for place, line, record in records(source, wanted.broken, unique):
        problem = None
        if not isinstance(record, dict | None):
            problem = BrokenLineError("is no object")
        elif record is not None and (not line or b"\\ud" in line.lower()) and not _is_unicode(record):
            advice = "Was an answer cut off within a character? Remove the line, or that half."
            problem = BrokenLineError("has half a surrogate pair, such as \\ud83d alone", advice)
        if problem is not None and wanted.broken == "raise":
            raise problem.of(source, place, n_rows)
        if problem is not None or record is None:
            n_broken += 1
            continue
        where = f" in {place} of {source.name}"
        n_keys, first = n_keys + len(record), first or record
        values = {name: value for name in nested for held, value in [nested_value(record, name, where)] if held}
        if wanted.names is None:
            values = (flat(record, _DEEPEST) if wanted.flat else record) | values
        else:
            values |= {name: record[name] for name in plain if name in record}
        for name, value in values.items():
            column = columns.setdefault(name, [])
            if len(column) < n_rows:
                column.extend([None] * (n_rows - len(column)))
            column.append(value)
        n_rows += 1
    if not n_keys and not n_broken:
        raise LogFormatError(f"In JSON lines the keys of the objects are the columns; {source.name} has no keys.")
    if n_rows == 1 and all(isinstance(value, dict | list) for value in first.values()):
        raise LogFormatError(
            f"In JSON lines each row is an object; {source.name} is one object of lists or objects. {AS_LINES}"
        )
    present = [name for name, column in columns.items() if column]
    wanted.of(present, source.name)
    frame = {}
    for name in present:
        column = columns.pop(name)
        column.extend([None] * (n_rows - len(column)))
        frame[name] = _series(column, name, name in wanted.text, source.name)
    return pd.DataFrame(frame, index=pd.RangeIndex(n_rows), copy=False), n_broken


def _is_unicode(record: dict[str, Any]) -> bool:
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _series(values: list[Any], column: str, as_text: bool, name: str) -> pd.Series[Any]:
    """Values of JSON as a column; those of several kinds become text, as in CSV."""
    kinds = set(map(type, values))
    if float in kinds:
        values = [None if value != value else value for value in values]
        kinds = set(map(type, values))
    n_none, kinds = type(None) in kinds, kinds - {type(None)}
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
    # Whole numbers of more than 64 bits are ids; they become text, as in CSV.
    ids = int in kinds and any(type(value) is int and abs(value) >= 2**63 for value in values)
    if kinds <= {int, float} and not as_text and not ids:
        if kinds == {int} and not n_none:
            return pd.Series(np.array(values, dtype=np.int64))
        return pd.Series(np.array(values, dtype=np.float64))
    if kinds == {bool} and not as_text:
        return pd.Series(values, dtype="boolean" if n_none else None)
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pd.Series(texts, dtype=None if kinds else object)


# CSV


def _csv(source: Source, wanted: TableRequest) -> pd.DataFrame:
    """The rows of a file whose delimiter is that of its header."""
    head = source.head.removeprefix(BOM)
    whole: str | None = None
    is_plain = False
    with suppress(ValueError, StopIteration):  # where the header has no end there, or is not one, the whole text tells
        delimiter, header = _header(head[: head.rfind(b"\n") + 1].decode(), source.name)
        is_plain = _is_plain(source, delimiter, len(header))
    if not is_plain:
        whole = _csv_text(source)
        delimiter, header = _header(whole, source.name)
        whole = _checked(whole, delimiter, len(header), source.name)
    selected = wanted.of(header, source.name)

    def parse(columns: list[str], as_text: set[str]) -> pd.DataFrame:
        options: dict[str, Any] = {"sep": delimiter, "names": header, "header": 0, "usecols": columns}
        options |= {"dtype": dict.fromkeys(as_text, str), "keep_default_na": False, "na_values": [""]}
        # Some rows at a time, of which each is read at once: pandas alone would warn of columns of several kinds.
        options |= {"float_precision": _FLOAT_PRECISION, "low_memory": False, "chunksize": _ROWS, "index_col": False}
        with source.opened() as file:
            text: Any = file if whole is None else io.StringIO(whole)
            parts = [part[columns] for part in pd.read_csv(text, encoding="utf-8-sig", **options)]
        return pd.DataFrame(parts[0]) if len(parts) == 1 else pd.concat(parts, ignore_index=True)

    frame = parse(selected, set(wanted.text) & set(selected))
    if mixed := [name for name in selected if _is_mixed(frame[name])]:
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


def _is_plain(source: Source, delimiter: str, width: int) -> bool:
    """Whether it is UTF-8 without quotes, zero bytes and lone carriage returns, each line as wide as the header."""
    n_lines = 0
    with source.opened() as file:
        while block := file.read(_BLOCK) + file.readline(_BLOCK):
            block = block if n_lines else block.removeprefix(BOM)
            block = block if block.endswith(b"\n") else block + b"\n"
            if not _are_lines(block, delimiter, width):
                return False
            n_lines += block.count(b"\n")
    return n_lines > 1


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


def _csv_text(source: Source) -> str:
    """The text of a file, without a byte order mark."""
    with source.opened() as file:
        data, name = file.read(), source.name
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
    """The text of a table whose lines all have `width` fields, without blank lines; other lines are listed."""
    line, n_lines, n_records, ragged = 1, 0, 0, []
    try:
        for end, record in _records(text, delimiter):
            if record and len(record) != width:
                ragged.append((line, n_records - 1, len(record)))
            line, n_lines, n_records = end + 1, n_lines + 1, n_records + bool(record)
    except csv.Error:
        raise LogFormatError(
            f"A quoted field ends with a quote and then a delimiter; in {name} one that begins on or after line {line} "
            'does not. Write a quote inside quotes twice: "5"" disk".',
            rows=[n_records - 1],
        ) from None
    if ragged:
        listing = ", ".join(f"line {line} has {fields}" for line, _, fields in ragged[:MOST_LISTED])
        more = f" and {len(ragged) - MOST_LISTED} more differ" if len(ragged) > MOST_LISTED else ""
        cut = len(ragged) == 1 and ragged[0][1] == n_records - 2 and ragged[0][2] < width
        advice = "It is the last: was the file cut off, or is the run still writing it?"
        raise LogFormatError(
            f"Every line must have as many fields as the header, {width}; in {name} {listing}{more}. "
            f"{advice if cut else 'Quote the fields that contain the delimiter.'}",
            rows=[position for _, position, _ in ragged[:MOST_LISTED]],
            count=len(ragged),
        )
    if n_records == 1:
        raise LogFormatError(f"A table must have rows; {name} has a header only. {CUT_OFF}", count=0)
    if n_lines == n_records and not re.search(r"\r(?!\n)", text):
        return text
    # pandas mixes up fields, and may not end, where blank lines and lone carriage returns meet: write it again.
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows(record for _, record in _records(text, delimiter) if record)
    return buffer.getvalue()


def _header(text: str, name: str) -> tuple[str, list[str]]:
    """The delimiter and the column names: of the delimiters, the first of those that give most names."""
    candidates: list[tuple[str, list[str]]] = []
    for delimiter in DELIMITERS:
        with suppress(csv.Error):
            candidates.append((delimiter, next(record for _, record in _records(text, delimiter) if record)))
    if not candidates:
        raise LogFormatError(f"The header must name the columns; that of {name} has a quote that is not closed.")
    delimiter, header = max(candidates, key=lambda candidate: len(candidate[1]))
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


def _records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Records with the lines where they end; csv.Error where a quote does not close, or not before a delimiter."""
    before = csv.field_size_limit(2**31 - 1)  # answers of models can be longer than 131,072 letters
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for record in reader:
            yield reader.line_num, record
    finally:
        csv.field_size_limit(before)


# Parquet and Arrow


def _arrow(source: Source, wanted: TableRequest) -> Any:
    """The rows of a file; of structs the fields named with dots, or all short ones where objects are made flat."""
    kind = next(kind for magic, kind in MAGIC.items() if source.head.startswith(magic))
    pa = pyarrow_for(source.name, kind)
    from pyarrow import compute, ipc, parquet

    try:
        with source.opened() as content:
            # In place where it lies on disk uncompressed.
            file = content if isinstance(content, io.BufferedReader) else io.BytesIO(content.read())
            reader = parquet.ParquetFile(file) if kind == "Parquet" else ipc.open_file(file)
            schema = reader.schema_arrow if kind == "Parquet" else reader.schema
            tops = TableRequest().of(schema.names, source.name)
            inner = [name for name in _levels(pa, schema.empty_table()) if wanted.flat or name in wanted.nested]
            selected = wanted.of(list(dict.fromkeys([*tops, *inner])), source.name)
            needed = [top for top in tops if any(name == top or name.startswith(f"{top}.") for name in selected)]
            if kind == "Parquet":
                table = reader.read(columns=needed)
            else:
                places = [place for place, top in enumerate(tops) if top in needed]
                file.seek(0)
                table = ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=places)).read_all()
            if table.num_rows == 0:
                raise LogFormatError(f"A table must have rows; {source.name} has none. {CUT_OFF}", count=0)
            levels, columns = _levels(pa, table), {}
            for name in selected:
                (depth, values), *more = levels[name]
                if more:
                    raise ArgumentError(
                        f'A name must mean one field; "{name}" is {1 + len(more)} of {source.name}, in structs and '
                        "beside them. Rename one.",
                        column=name,
                    )
                is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
                is_long = is_text and (compute.max(compute.utf8_length(values)).as_py() or 0) > LONGEST
                is_struct, is_nested = pa.types.is_struct(values.type), pa.types.is_nested(values.type)
                # Of structs that are made flat: not they themselves, long texts, nor lists in them.
                is_left = is_struct or depth > _DEEPEST or (depth > 0 and (is_long or is_nested))
                if not (wanted.flat and is_left):
                    columns[name] = values.cast(pa.string()) if name in wanted.text else values
            table = pa.table(columns)
            table.validate(full=True)  # text that is not UTF-8 shows only where it is looked at
            return table
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise LogFormatError(f"{source.name} begins as {kind} but cannot be read as a table: {error}") from error


def _levels(pa: Any, table: Any) -> dict[str, list[tuple[int, Any]]]:
    """Columns and fields of structs by their dotted names, with how deep they lie; two may have one name."""
    levels: dict[str, list[tuple[int, Any]]] = {}
    depth = 0
    while table.num_columns:
        for name, values in zip(table.column_names, table.columns, strict=True):
            levels.setdefault(name, []).append((depth, values))
        structs = [place for place, column in enumerate(table.schema) if pa.types.is_struct(column.type)]
        table, depth = table.select(structs).flatten(), depth + 1
    return levels
