"""Rows of one file of lighteval's details: what they are called, their texts and metrics, in any of three layouts."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from evalreg.errors import ArgumentError, LogFormatError
from evalreg.logs.fields import LONGEST, flat, nested_value
from evalreg.logs.reading import Choice
from evalreg.logs.records import digest, numeric, short

_LARGEST_FOOTER, _MOST_BYTES, _MOST_ROWS, _LONGEST_TEXT, _BATCH = 1 << 24, 1 << 31, 10_000_000, 100_000, 4096
# Columns of the oldest layout that are no metric.
_NO_METRICS = frozenset(
    (
        "example",
        "query",
        "choices",
        "gold",
        "gold_index",
        "predictions",
        "prediction_logits",
        "pred_logits",
        "input_tokens",
        "cont_tokens",
        "truncated",
        "padded",
        "instruction",
        "full_prompt",
        "num_effective_few_shots",
        "num_asked_few_shots",
        "specifics",
        "hashes",
        "metrics",
        "id",
        "__index_level_0__",
    )
)


@dataclass(frozen=True)
class Details:
    """The rows of one file."""

    items: list[str]
    # What each row asks, as a short digest; empty where it is not written down.
    texts: list[str]
    metrics: dict[str, pd.Series[Any]]
    # Values of a metric that are no number.
    odd: Counter[str]
    fields: dict[str, list[Any]] = field(default_factory=dict)
    # Whether items are called by an id, or else by their place.
    by_id: bool = False

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.items)


def footer(path: Path) -> bytes:
    """The description of a Parquet file's columns, found at its end; empty where there is none."""
    with path.open("rb") as file:
        file.seek(0, 2)
        size = file.tell()
        file.seek(max(0, size - 8))
        end = file.read(8)
        length = int.from_bytes(end[:4], "little")
        if end[4:] != b"PAR1" or length > min(size, _LARGEST_FOOTER):
            return b""
        file.seek(size - 8 - length)
        return file.read(length)


def read_details(path: Path, choice: Choice) -> Details:
    """The rows of a file; only the columns that are used are read."""
    table = _table(path, choice)
    if "doc" in table:
        return _of_structs(table, path, choice)
    return _of_columns(table, path, choice)


def _table(path: Path, choice: Choice) -> dict[str, list[Any]]:
    """The columns that are used, as lists."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise ArgumentError(
            f'{path} is Parquet, which needs pyarrow; it is not installed. Run: pip install "evalreg[parquet]"'
        ) from error
    columns: dict[str, list[Any]] = {}
    try:
        with parquet.ParquetFile(path) as file:
            wanted = _wanted(file.schema_arrow, pa.types, choice)
            n_bytes = n_rows = 0
            # What the file says of its sizes is not trusted: counting stops where there is too much.
            for batch in file.iter_batches(_BATCH, columns=wanted):
                n_bytes, n_rows = n_bytes + batch.nbytes, n_rows + batch.num_rows
                if n_bytes > _MOST_BYTES or n_rows > _MOST_ROWS:
                    raise LogFormatError(
                        f"Details are read up to {_MOST_ROWS:,} rows and {_MOST_BYTES >> 30} GiB; {path} has more. "
                        "Split it."
                    )
                for name, values in zip(batch.schema.names, batch.columns, strict=True):
                    columns.setdefault(name, []).extend(values.to_pylist())
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
        raise LogFormatError(f"{path} begins as Parquet but cannot be read: {error}. Copy it again.") from error
    if not columns:
        raise LogFormatError(f"Details must have rows; {path} has none. Was the run that wrote it cut off?", count=0)
    return columns


def _wanted(schema: Any, types: Any, choice: Choice) -> list[str]:
    """Columns to read: names, texts and metrics, and those asked for; tokens and answers are passed over.

    A name with dots stands for all below it. Only the schema is asked: the sizes and places in a damaged file have
    ended the whole process.
    """
    inner = {
        f"{column.name}.{column.type.field(number).name}"
        for column in schema
        if types.is_struct(column.type)
        for number in range(column.type.num_fields)
    }
    held = {*schema.names, *inner}
    more = [name for name in choice.columns or () if ".".join(name.split(".")[:2]) in held]
    if "doc" in schema.names:
        kept = ["doc.id", "doc.query", "doc.specific", "metric"]
        return [name for name in dict.fromkeys([*kept, *more]) if ".".join(name.split(".")[:2]) in held]
    scalar = [column.name for column in schema if column.name not in _NO_METRICS and not types.is_nested(column.type)]
    kept = [name for name in ("example", "query", "metrics", "specifics") if name in schema.names]
    return list(dict.fromkeys([*kept, *scalar, *more]))


def _of_structs(table: Mapping[str, list[Any]], path: Path, choice: Choice) -> Details:
    """The present layout: doc, model_response and metric, each a struct."""
    docs = [doc if isinstance(doc, dict) else {} for doc in table["doc"]]
    ids = [doc.get("id") for doc in docs]
    by_id = all(isinstance(one, str) and one for one in ids)
    items = [str(one) for one in ids] if by_id else _places(len(docs))
    metrics, odd = _metrics(table.get("metric", []), path)
    records = [{"doc": doc} for doc in docs]
    return Details(
        items, [_text(doc.get("query")) for doc in docs], metrics, odd, _fields(records, table, choice), by_id
    )


def _of_columns(table: Mapping[str, list[Any]], path: Path, choice: Choice) -> Details:
    """The older layouts: a struct of metrics, its text, or a column for each metric."""
    n_rows = len(next(iter(table.values()), []))
    if "metrics" in table:
        metrics, odd = _metrics(table["metrics"], path)
    else:
        columns = {
            name: values for name, values in table.items() if name not in {*_NO_METRICS, *(choice.columns or ())}
        }
        metrics, odd = _metrics(
            [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)], path
        )
    # The oldest files call an example by its id, and keep the question in `query`.
    examples = table.get("example") or [None] * n_rows
    queries = table.get("query")
    by_id = queries is not None and len({str(one) for one in examples}) == n_rows
    items = [short(str(one), 80) for one in examples] if by_id else _places(n_rows)
    texts = [_text(one) for one in (queries or examples)]
    records = [{"specifics": one} for one in table.get("specifics", [])]
    return Details(items, texts, metrics, odd, _fields(records, table, choice), by_id)


def _places(n_rows: int) -> list[str]:
    return [str(number) for number in range(n_rows)]


def _text(value: Any) -> str:
    return digest(value) if isinstance(value, str) and value else ""


def _metrics(rows: list[Any], path: Path) -> tuple[dict[str, pd.Series[Any]], Counter[str]]:
    """A column of numbers for each metric; what is neither a number nor missing is counted."""
    found: dict[str, list[float | None]] = {}
    odd: Counter[str] = Counter()
    for number, row in enumerate(rows):
        for name, value in _as_mapping(row, number, path).items():
            score = numeric(value)
            odd[str(name)] += score is None and value is not None and value == value
            if score is not None:
                found.setdefault(str(name), [None] * len(rows))[number] = score
    if not found:
        known = ", ".join(f"{name} ({count} values)" for name, count in odd.items() if count)
        raise LogFormatError(
            f"Details must hold a metric with a number for each example; {path} has none"
            + (f": {known} are not numbers, and are for all examples together." if known else "."),
            count=0,
        )
    return {name: pd.Series(values, dtype="float64") for name, values in found.items()}, odd


def _as_mapping(row: Any, number: int, path: Path) -> Mapping[Any, Any]:
    """The metrics of a row; lighteval writes them as the text of a Python dict where structs do not fit."""
    if isinstance(row, str) and len(row) <= _LONGEST_TEXT:
        try:
            row = ast.literal_eval(row)
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            row = None
        if not isinstance(row, dict):
            raise LogFormatError(
                f"Metrics are a struct or the text of one; in row {number} of {path} they are neither. Write them as "
                "numbers.",
                rows=[number],
            )
    if row is None:
        return {}
    if isinstance(row, Mapping):
        return row
    raise LogFormatError(f"Metrics are a struct; in row {number} of {path} they are {str(row)[:40]!r}.", rows=[number])


def _fields(records: list[dict[str, Any]], table: Mapping[str, list[Any]], choice: Choice) -> dict[str, list[Any]]:
    """Fields that may be clusters: those asked for, or the short ones of the example."""
    n_rows = len(next(iter(table.values()), []))
    if choice.columns is not None:
        whole = [{name: values[number] for name, values in table.items()} for number in range(n_rows)]
        return {name: [_cell(nested_value(row, name)[1]) for row in whole] for name in choice.columns}
    leaves = [
        {name: value for name, value in flat(record).items() if name.startswith(("doc.specific.", "specifics."))}
        for record in records
    ]
    names = dict.fromkeys(name for row in leaves for name in row)
    columns = {name: [row.get(name) for row in leaves] for name in names}
    return {name: values for name, values in columns.items() if all(_is_short(value) for value in values)}


def _cell(value: Any) -> Any:
    """One cell of a table; lists and objects as JSON."""
    if isinstance(value, dict | list):
        return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return value


def _is_short(value: Any) -> bool:
    return value is None or (isinstance(value, str | int | float) and len(str(value)) <= LONGEST)
