"""Tables in Parquet and in Arrow's own files: the columns asked for, also from within structs, by their dots."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd

from evalreg.checks import listed
from evalreg.errors import ArgumentError, LogFormatError
from evalreg.logs.content import Content
from evalreg.logs.fields import DEEPEST, LONGEST
from evalreg.logs.tabular import CUT_OFF, TableRequest, chosen, nullable

MAGIC = {b"PAR1": "Parquet", b"ARROW1": "an Arrow file"}


def read_arrow(content: Content, head: bytes, asked: TableRequest) -> pd.DataFrame:
    """The rows of a file; of structs the fields named with dots, or all short ones where objects are made flat."""
    kind = next(kind for magic, kind in MAGIC.items() if head.startswith(magic))
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ArgumentError(
            f'{content.name} is {kind}, which needs pyarrow; it is not installed. Run: pip install "evalreg[parquet]"'
        ) from error
    try:
        with _source(pa, content) as source:
            names, arrays = _columns(pa, source, kind == "Parquet", content.name, asked)
            # Without metadata, which would turn an index that pandas saved back into one.
            frame = pa.table(arrays, names=names).to_pandas(ignore_metadata=True)
    except (pa.ArrowException, OSError) as error:
        raise LogFormatError(f"{content.name} begins as {kind} but cannot be read as a table: {error}") from error
    return nullable(frame)


@contextmanager
def _source(pa: Any, content: Content) -> Iterator[Any]:
    """The file in place where it lies on disk uncompressed, else its bytes."""
    with content.stream() as stream:
        source = pa.BufferReader(stream.read()) if content.packed else pa.OSFile(os.fspath(content.path), "rb")
    with source:
        yield source


def _columns(pa: Any, source: Any, parquet: bool, name: str, asked: TableRequest) -> tuple[list[str], list[Any]]:
    """Names and values of the columns to read."""
    from pyarrow import ipc

    schema = _schema(source, parquet)
    tops = chosen(None, list(schema.names), name)
    paths = _paths(pa, schema)
    wanted = _wanted(pa, schema, paths, name, asked)
    if parquet:
        from pyarrow import parquet as reader

        source.seek(0)
        table = reader.ParquetFile(source).read(columns=list(dict.fromkeys(wanted)))
    else:
        needed = {paths[column][0][0] for column in wanted}
        places = [place for place, top in enumerate(tops) if top in needed]
        source.seek(0)
        table = ipc.open_file(source, options=ipc.IpcReadOptions(included_fields=places)).read_all()
    if table.num_rows == 0:
        raise LogFormatError(f"A table must have rows; {name} has none. {CUT_OFF}", count=0)
    found = {column: _values(table, paths[column][0]) for column in wanted}
    if asked.flat:
        found = {column: values for column, values in found.items() if column in tops or not _is_long(pa, values)}
    found = {c: values.cast(pa.string()) if c in asked.text else values for c, values in found.items()}
    return list(found), list(found.values())


def _schema(source: Any, parquet: bool) -> Any:
    """Names and types of a file."""
    if parquet:
        from pyarrow import parquet as reader

        return reader.ParquetFile(source).schema_arrow
    from pyarrow import ipc

    return ipc.open_file(source).schema


def kinds(content: Content, columns: Iterable[str]) -> dict[str, str]:
    """What columns of Parquet and Arrow files are, before any is read as text; nothing of other files."""
    head = content.head(max(map(len, MAGIC)))
    if not head.startswith(tuple(MAGIC)):
        return {}
    import pyarrow as pa

    with _source(pa, content) as source:
        schema = _schema(source, head.startswith(b"PAR1"))
    paths = _paths(pa, schema)
    found = {column: _kind(pa, _type(schema, paths[column][0])) for column in columns if column in paths}
    return {column: kind for column, kind in found.items() if kind != "null"}


def _kind(pa: Any, kind: Any) -> str:
    """A type in words; text is text however it is stored."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_integer(kind):
        return "whole numbers"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "numbers with decimals"
    texts = (pa.types.is_string, pa.types.is_large_string, *filter(None, [getattr(pa.types, "is_string_view", None)]))
    return "text" if any(is_text(kind) for is_text in texts) else str(kind)


def _paths(pa: Any, schema: Any) -> dict[str, list[tuple[str, ...]]]:
    """Ways into the structs of a file by the dotted names of their fields; two ways may have one name."""
    found: dict[str, list[tuple[str, ...]]] = {}

    def enter(fields: Iterable[Any], above: tuple[str, ...]) -> None:
        for field in fields:
            path = (*above, field.name)
            found.setdefault(".".join(path), []).append(path)
            if pa.types.is_struct(field.type):
                enter(field.type, path)

    enter(schema, ())
    return found


def _wanted(pa: Any, schema: Any, paths: dict[str, list[tuple[str, ...]]], name: str, asked: TableRequest) -> list[str]:
    """Names of the columns to read."""
    tops = list(schema.names)
    if asked.columns is not None:
        inner = [column for column in paths if column in asked.columns and column not in tops]
        wanted = chosen(asked.columns, [*tops, *inner], name)
    elif asked.keep is not None:
        # A row is a row even where no column of it is wanted.
        wanted = [column for column in paths if column in asked.keep] or tops[:1]
    elif asked.flat:
        leaves = [column for column, (path, *_) in paths.items() if _is_leaf(pa, schema, path)]
        wanted = sorted(leaves, key=lambda column: len(paths[column][0]) > 1)
    else:
        wanted = [*tops, *(column for column in paths if column in asked.nested and column not in tops)]
    for column in wanted:
        if len(paths[column]) > 1:
            ways = listed((" > ".join(path) for path in paths[column]), joiner=" and ")
            raise ArgumentError(
                f'A name must mean one field; "{column}" is {ways} in {name}, keys within keys being joined by ">". '
                "Rename one.",
                column=column,
            )
    return wanted


def _type(schema: Any, path: tuple[str, ...]) -> Any:
    kind = schema.field(path[0]).type
    for key in path[1:]:
        kind = kind.field(key).type
    return kind


def _is_leaf(pa: Any, schema: Any, path: tuple[str, ...]) -> bool:
    """Whether a field holds one value, or is at the top and is not a struct."""
    kind = _type(schema, path)
    if len(path) == 1:
        return not pa.types.is_struct(kind)
    return len(path) <= DEEPEST + 1 and not pa.types.is_nested(kind)


def _values(table: Any, path: tuple[str, ...]) -> Any:
    """The values of a field, null where a struct around it is null."""
    import pyarrow.compute as pc

    values = table.column(path[0])
    for key in path[1:]:
        values = pc.struct_field(values, key)
    return values


def _is_long(pa: Any, values: Any) -> bool:
    """Whether some text is longer than what is kept unasked."""
    import pyarrow.compute as pc

    is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    return bool(is_text and (pc.max(pc.utf8_length(values)).as_py() or 0) > LONGEST)
