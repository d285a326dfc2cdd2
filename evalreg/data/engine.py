"""Rows that stay in an engine (DuckDB, Spark, a polars LazyFrame): only sums and labels of cells come out."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, Names, listed
from evalreg.data.clusters import (
    RESERVED,
    Axis,
    Codes,
    Column,
    as_text,
    factorize,
    joint,
    known_column,
    missing_ids,
    nested_labels,
    refuse_inexact,
    refuse_nested,
    repeated_rows,
)
from evalreg.errors import ArgumentError, DataError, EngineError, EvalregError, NonNumericError, NotAvailableError
from evalreg.numerics.limits import BATCH, LINES
from evalreg.numerics.matrices import Matrix, in_rows, single_column

Lazy: TypeAlias = nw.LazyFrame[Any]
Expressions: TypeAlias = dict[str, nw.Expr]
Numbers: TypeAlias = dict[str, FloatArray]
"""Arrays of one length, by what was measured."""


def is_spark(frame: Lazy) -> bool:
    """Whether a frame is one of Spark, classic or Connect."""
    return bool(frame.implementation.is_pyspark() or frame.implementation.is_pyspark_connect())


def fold_in_spark(
    grouped: Any, keys: Sequence[str], work: Callable[[Iterator[Any]], Iterator[FloatArray]]
) -> list[FloatArray]:
    """What `work` makes of the lines of each partition, which holds whole clusters: one shuffle by the keys."""

    def pickled(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for part in work(pa.Table.from_batches([batch]) for batch in batches):
            yield pa.RecordBatch.from_pydict({"part": [pickle.dumps(part)]})

    whole = grouped.repartition(*keys).sortWithinPartitions(*keys)
    return [pickle.loads(row[0]) for row in whole.mapInArrow(pickled, "part binary").collect()]


# What the columns of grouped rows are called: rows, and with a number keys and what is measured.
ROWS, KEY, SUM = f"{RESERVED}rows", f"{RESERVED}key", f"{RESERVED}sum"
# Characters that are shown of what an engine says.
MOST_SAID = 300


def _knows_nan(frame: Lazy) -> bool:
    """Whether a column may hold NaN: SQLite and its like have none, and no test for it, which Ibis says."""
    if not frame.implementation.is_ibis():
        return True
    from ibis.expr import operations

    return bool(frame.to_native().get_backend().has_operation(operations.IsNan))


@contextmanager
def engine_answers(frame: Lazy, what: str) -> Iterator[None]:
    """Put an error of ours around what an engine raises, which stays its cause."""
    try:
        yield
    except (EvalregError, ImportError, MemoryError):  # An engine that is not installed, or too old, says so itself.
        raise
    except Exception as error:
        said = " ".join(str(error).split())
        shown = said if len(said) <= MOST_SAID else said[:MOST_SAID] + " ..."
        raise EngineError(
            f"the engine must answer every query; {frame.implementation.value} did not {what}: "
            f"{type(error).__name__}: {shown.rstrip('.') or 'no message'}. The whole error is the `__cause__` of this "
            "one. Mend it (a lost worker or file, no memory, a value of a wrong type), and make the call again."
        ) from error


def fetched(frame: Lazy) -> Any:
    """What a query gives, as a table of Arrow: categories as their values, zoned times in UTC."""
    if frame.implementation.is_ibis():
        schema = frame.to_native().schema().to_pyarrow()
        return _plain(_arrow().concat_tables([schema.empty_table(), *batches(frame)]))
    with engine_answers(frame, "finish a query"):
        if _arrow() and frame.implementation.is_duckdb():
            return _plain(in_batches(frame.to_native()))
        return _plain(frame.collect("pyarrow").to_native())


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise NotAvailableError(
            "rows in an engine are read through Arrow, which is not installed: pip install pyarrow."
        ) from None
    return pyarrow


def in_batches(relation: Any) -> Any:
    """What a query of DuckDB gives, as a table of Arrow in small batches, whose buffers are seldom copied to grow.

    Measured: tables of 200,000 and of 4,000,000 lines take a tenth less time than in the batches of version 2, of
    131,072 lines, and a sixth less than in those of version 1.
    """
    return relation.to_arrow_table(BATCH)


def schema_of(frame: Lazy) -> Mapping[str, Any]:
    """Names and types of the columns, which some engines look up only now."""
    with engine_answers(frame, "tell the columns of the frame"):
        return frame.collect_schema()


def without_reserved(frame: Lazy) -> Lazy:
    """The frame without columns that are called as those that are made in an engine are; `no_column` says so."""
    reserved = [name for name in frame.collect_schema() if name.startswith(RESERVED)]
    return frame.drop(*reserved) if reserved else frame


Measure: TypeAlias = tuple[nw.Expr, Literal["sum", "min", "max"]]
"""A column that is made of rows, and what is made of it in each group of them."""
Measures: TypeAlias = dict[str, Measure]


def indicator(condition: nw.Expr) -> nw.Expr:
    """One where a condition holds, else zero; floats, as DuckDB sums whole numbers to what Arrow has as decimals."""
    return nw.when(condition).then(nw.lit(1.0)).otherwise(nw.lit(0.0))


def count_of(condition: nw.Expr) -> Measure:
    """Rows of which a condition holds."""
    return indicator(condition), "sum"


def floats_of(name: str) -> nw.Expr:
    """A column of numbers or truth values as floats."""
    return nw.col(name).cast(nw.Float64)


@dataclass(frozen=True, eq=False)
class Grouped:
    """One entry for each joint value of the keys.

    Parameters
    ----------
    keys : dict of str to (ndarray of int, labels)
        By column the code of each entry, -1 where it is missing, and the label of each code.
    numbers : dict of str to ndarray, shape (n_entries,)
        Rows "n", and what was measured.
    """

    keys: dict[str, Column]
    numbers: Numbers

    def values(self, name: str) -> FloatArray:
        """The values of a key that holds numbers, shape (n_entries,)."""
        codes, labels = self.keys[name]
        return np.asarray(labels, dtype=float)[codes]

    def cells(self, columns: Sequence[str], entries: IntArray) -> CellKeys:
        """The joint values of some keys in some entries."""
        of = [self.keys[name] for name in columns]
        labels = [tuple(np.asarray(names, dtype=object)[codes[entries]]) for codes, names in of]
        return CellKeys(tuple(columns), tuple(zip(*labels, strict=True)) if columns else ((),) * entries.size)


@dataclass(frozen=True, eq=False)
class CellKeys:
    """What makes a cell of rows in an engine: the joint values of some columns, numbered in the order of their text.

    Parameters
    ----------
    columns : tuple of str
        None of them: all rows are one cell.
    labels : tuple of tuple
        Values of the columns in each cell, as the engine has them.
    """

    columns: Axis = ()
    labels: tuple[tuple[Any, ...], ...] = ((),)

    @cached_property
    def keys(self) -> list[Names]:
        """The same as text."""
        texts = [as_text(np.array(column, dtype=object)) for column in zip(*self.labels, strict=True)]
        return list(zip(*texts, strict=True)) if texts else [()]

    @cached_property
    def number(self) -> dict[Names, int]:
        """Number of each cell, by its text."""
        return {key: number for number, key in enumerate(self.keys)}

    def inside(self, number: int) -> nw.Expr:
        """Whether a row is in a cell."""
        if not self.columns:
            return nw.lit(True)
        pairs = zip(self.columns, self.labels[number], strict=True)
        return nw.all_horizontal(*(nw.col(name) == label for name, label in pairs), ignore_nulls=False)


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums by (cluster, cell) of some whole clusters, one line for each that has rows.

    Parameters
    ----------
    cluster : ndarray of int, shape (n_lines,)
        From 0 within the block, ascending.
    cell : ndarray of int, shape (n_lines,)
        Numbers of `CellKeys`.
    n : ndarray, shape (n_lines,)
        Rows.
    totals : dict of str to ndarray, shape (n_lines,)
        Sums of the values, by name.
    labels : sequence of pyarrow arrays, each of n_clusters entries
        Values of the columns of the clustering in each cluster.
    """

    cluster: IntArray
    cell: IntArray
    n: FloatArray
    totals: Numbers
    labels: tuple[Any, ...] = ()

    @property
    def numbers(self) -> Numbers:
        """Rows "n" and the sums of each line."""
        return {"n": self.n} | self.totals

    @property
    def n_clusters(self) -> int:
        """Clusters of the block."""
        return int(self.cluster[-1]) + 1 if self.cluster.size else 0

    @property
    def nbytes(self) -> int:
        """Bytes that the block takes."""
        arrays = (self.cluster, self.cell, self.n, *self.totals.values(), *self.labels)
        return sum(int(array.nbytes) for array in arrays)

    def matrix(self, numbers: FloatArray, n_cells: int) -> Matrix:
        """One number for each line, as an array in compressed sparse rows, shape (n_clusters, n_cells)."""
        shape = self.n_clusters, n_cells
        if n_cells == 1:
            return single_column(numbers)
        starts = np.searchsorted(self.cluster, np.arange(shape[0] + 1))
        matrix = in_rows(numbers, self.cell, starts, shape)
        matrix.has_canonical_format = True
        return matrix


@dataclass(frozen=True, eq=False)
class Query:
    """A data frame in an engine (DuckDB, a polars LazyFrame): only sums and labels of cells come out.

    Parameters
    ----------
    frame : narwhals.LazyFrame
        A reference; queries run when sums are asked for.
    joint_ids : tuple of str
        Names of labels that are made of several columns.
    """

    frame: Lazy
    joint_ids: Names = ()

    rows_of: ClassVar[Names] = ()
    """Columns that hold rows of lines, where a row of the frame counts as several."""

    @property
    def rows(self) -> nw.Expr:
        """Rows of a group."""
        return nw.len()

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """Names and types of the columns, joint ids among them; a query of its own in some engines, asked for once."""
        return schema_of(self.frame)

    @property
    def columns(self) -> Names:
        """Names of the columns."""
        return tuple(str(name) for name in self.schema if name not in self.joint_ids)

    def each(self, change: Callable[[Lazy], Lazy]) -> Self:
        """The same with a change made to the frame."""
        return replace(self, frame=change(self.frame))

    def present(self, names: Sequence[str]) -> Self:
        """Rows in which none of some columns is null or NaN."""
        return self.each(lambda frame: frame.filter(~self.absent(names)))

    def with_joint(self, name: str, parts: Sequence[str], argument: str) -> Self:
        """The table with the joint text of some columns, spelled as in memory, missing where one of them is.

        Different values that would read alike, ("a:b", "c") and ("a", "b:c"), are refused.
        """
        schema = self.schema
        texts = [_text(part, schema[part], argument) for part in parts]
        joint = nw.concat_str(*texts, separator=":", ignore_nulls=False).alias(name)
        joined = replace(self.each(lambda frame: frame.with_columns(joint)), joint_ids=(*self.joint_ids, name))
        _refuse_alike(joined, name, parts, argument)
        return joined

    def absent(self, names: Sequence[str]) -> nw.Expr:
        """Whether one of some columns is null or NaN; never, where there are none."""
        if not names:
            return nw.lit(False)
        schema = self.schema
        with_nan = _knows_nan(self.frame)
        masks = []
        for name in names:
            refuse_nested(name, schema[name], self._native_type(name))
            masks.append(nw.col(name).is_null())
            if with_nan and schema[name].is_float():
                masks.append(nw.col(name).is_nan().fill_null(False))
        return nw.any_horizontal(*masks, ignore_nulls=False)

    def _native_type(self, name: str) -> object:
        """The engine's own type of a column, where that is DuckDB."""
        if not self.frame.implementation.is_duckdb():
            return ""
        native = self.frame.to_native()
        return native.types[native.columns.index(name)]

    def check_numeric(self, name: object, argument: str) -> None:
        """Raise unless a column is numeric or boolean."""
        column = known_column(name, self.columns, argument)
        dtype = self.schema[column]
        if not (dtype.is_numeric() or dtype == nw.Boolean):
            raise NonNumericError(f"`{argument}` must hold numbers; column {name!r} is {dtype}.", column=column)

    def grouped(self, keys: Sequence[str], measures: Measures, order: Sequence[str] = ()) -> Lazy:
        """Rows, and what is measured of them, by the joint values of some columns: `KEY` 0, 1, ..., `ROWS`, `SUM` 0 ...

        These are names that no engine parses; groups come in no order, but for that of some of the columns.
        """
        # Columns are made first: not every engine has products or casts inside a sum.
        columns = [nw.col(name).alias(f"{KEY}{i}") for i, name in enumerate(keys)]
        columns += [column.alias(f"{SUM}{i}") for i, (column, _) in enumerate(measures.values())]
        columns += [nw.col(name) for name in self.rows_of]
        with engine_answers(self.frame, "take a query"):
            rows = self.frame.select(*(columns or [nw.col(next(iter(self.schema))).alias(f"{RESERVED}any")]))
            added = [self.rows.alias(ROWS)]
            added += [getattr(nw.col(f"{SUM}{i}"), how)() for i, (_, how) in enumerate(measures.values())]
            names = [f"{KEY}{i}" for i in range(len(keys))]
            lines = rows.group_by(*names).agg(*added) if keys else rows.select(*added)
            return lines.sort(*names[: len(order)]) if order else lines

    def table(self, keys: Sequence[str], measures: Measures) -> pd.DataFrame:
        """The same as pandas, sorted by the keys, under the names that were asked for, and `ROWS`."""
        names = {f"{KEY}{i}": name for i, name in enumerate(keys)} | {f"{SUM}{i}": n for i, n in enumerate(measures)}
        table: pd.DataFrame = fetched(self.grouped(keys, measures, keys)).to_pandas()
        return table.rename(columns=names)

    def lines(self, keys: Sequence[str], measures: Measures) -> Grouped:
        """The same as codes of the keys and arrays of numbers, rows by the name of "n"."""
        table = fetched(self.grouped(keys, measures))
        names = {"n": ROWS} | {name: f"{SUM}{i}" for i, name in enumerate(measures)}
        coded = {name: encoded(table[f"{KEY}{i}"]) for i, name in enumerate(keys)}
        return Grouped(coded, {name: numbers_of(table[column]) for name, column in names.items()})

    def totals(self, measures: Measures) -> dict[str, float]:
        """Rows "n" and what is measured of all of them; NaN of none."""
        return {name: float(column[0]) for name, column in self.lines((), measures).numbers.items()}

    def n_clusters(self, by: Axis) -> int:
        """Distinct joint values of some columns, counted in the engine."""
        return int(Query(self.grouped(by, {})).totals({})["n"])

    def refuse_repeats(self, key: Axis, column: str, remedy: str) -> None:
        """Raise unless there is one row for each joint value of a key; `column` is the one that may be wrong."""
        again = self.grouped(key, {}).filter(nw.col(ROWS) > 1)
        counts = Query(again).totals({"rows": (nw.col(ROWS), "sum")})
        if counts["n"]:
            names = [f"{KEY}{i}" for i in range(len(key))]
            first = fetched(again.sort(*names).head(3)).to_pandas()[names]
            for name, labels in zip(key, names, strict=True):  # large floats look like repeats, and are not
                refuse_inexact(np.asarray(first[labels]), name)
            shown = listed(":".join(map(str, labels)) for labels in first.itertuples(index=False, name=None))
            raise repeated_rows(key, column, int(counts["rows"] - counts["n"]), remedy, shown=shown)

    def sums(self, by: Axis, cells: CellKeys, values: Expressions) -> Iterator[Sums]:
        """Sums by (cluster, cell): one GROUP BY sorted by cluster, read in batches of whole clusters."""
        for name in by:
            known_column(name, (*self.columns, *self.joint_ids), "groups")
        keys = [f"{KEY}{i}" for i in range(len(by))]
        for lines in whole_clusters(batches(self._by_cluster(by, cells, values)), keys):
            yield sums_of(lines, by, cells, tuple(values))

    def fold(self, by: Axis, cells: CellKeys, values: Expressions, piece: Callable[[Sums], FloatArray]) -> FloatArray:
        """What `piece` makes of each block, added up: by the executors of Spark, which need this package for it."""
        if not is_spark(self.frame) or not by:
            return functools.reduce(np.add, map(piece, self.sums(by, cells, values)))
        keys, names = [f"{KEY}{i}" for i in range(len(by))], tuple(values)

        def work(tables: Iterator[Any]) -> Iterator[FloatArray]:
            return (piece(sums_of(lines, by, cells, names)) for lines in whole_clusters(tables, keys))

        with engine_answers(self.frame, "work on clusters"):
            grouped = self._by_cluster(by, cells, values).to_native()
            return functools.reduce(np.add, fold_in_spark(grouped, keys, work))

    def _by_cluster(self, by: Axis, cells: CellKeys, values: Expressions) -> Lazy:
        """Rows and sums by (cluster, cell), sorted by cluster."""
        columns = tuple(dict.fromkeys((*by, *cells.columns)))
        return self.grouped(columns, {name: (value.cast(nw.Float64), "sum") for name, value in values.items()}, by)


def batches(frame: Lazy) -> Iterator[Any]:
    """What a query gives, as tables of Arrow, in its order; narwhals itself only collects."""
    pa = _arrow()
    with engine_answers(frame, "finish a query"):
        native = frame.to_native()
        if frame.implementation.is_duckdb():
            # DuckDB before 1.4 has the older name.
            reader = native.to_arrow_reader if hasattr(native, "to_arrow_reader") else native.fetch_arrow_reader
            for batch in reader(LINES):
                yield pa.Table.from_batches([batch])
        elif frame.implementation.is_ibis() and _streams(native.get_backend()):
            yield from _ibis_tables(native)
        else:
            backend: Literal["polars", "pyarrow"] = "polars" if frame.implementation.is_polars() else "pyarrow"
            every = frame.collect(backend).to_arrow()
            for first in range(0, every.num_rows, LINES):
                yield every.slice(first, LINES)


def _streams(backend: Any) -> bool:
    """Whether a back end of Ibis gives batches: DuckDB from version 2 on has no more what Ibis 12 takes them by."""
    return backend.name != "duckdb" or hasattr(backend.con, "fetch_record_batch")


def _ibis_tables(native: Any) -> Iterator[Any]:
    """What Ibis gives, as tables of Arrow; whole numbers of SQLite, floats beside NULL there, by way of text."""
    schema = native.schema()
    whole = [name for name, kind in schema.items() if kind.is_integer()]
    exact = native.cast(dict.fromkeys(whole, "string")) if native.get_backend().name == "sqlite" else native
    for batch in exact.to_pyarrow_batches(chunk_size=LINES):
        yield _arrow().Table.from_batches([batch]).cast(schema.to_pyarrow())


def whole_clusters(tables: Iterator[Any], keys: Sequence[str]) -> Iterator[Any]:
    """The same lines, sorted by the keys, in tables of whole clusters; the last of a table waits for the next."""
    import pyarrow as pa

    waiting = None
    for table in tables:
        table = _plain(table)
        table = table if waiting is None else pa.concat_tables([waiting, table])
        ends = np.flatnonzero(_starts(table, keys))
        last = int(ends[-1]) if ends.size else 0
        if last:
            yield table.slice(0, last)
        waiting = table.slice(last)
    if waiting is not None and waiting.num_rows:
        yield waiting


def _plain(table: Any) -> Any:
    """Categories as their values, as parts of a result may number them in different ways; zoned times in UTC."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_interval(plain):  # of SQL, with months and days
            raise nested_labels("", plain)
        if pa.types.is_timestamp(plain) and plain.tz:
            plain = pa.timestamp(plain.unit, "UTC")
        if plain != field.type:
            table = table.set_column(place, field.name, table.column(place).cast(plain))
    return table


def _starts(table: Any, keys: Sequence[str]) -> BoolArray:
    """Where a cluster begins, among lines that are sorted by it."""
    from pyarrow import compute

    starts = np.zeros(table.num_rows, dtype=bool)
    starts[:1] = True
    for key in keys:
        column = table.column(key)
        changed = compute.not_equal(column.slice(1), column.slice(0, table.num_rows - 1))
        # A missing label is a cluster of its own here, and is refused when sums are made of it.
        starts[1:] |= compute.fill_null(changed, True).to_numpy(zero_copy_only=False)
    return starts


def sums_of(lines: Any, by: Axis, cells: CellKeys, values: Sequence[str]) -> Sums:
    """Lines of whole clusters, as `Query` names their columns, as arrays in the order of (cluster, cell)."""
    keys = {name: f"{KEY}{i}" for i, name in enumerate(dict.fromkeys((*by, *cells.columns)))}
    n = numbers_of(lines.column(ROWS))
    for name in by:
        _refuse_ids(name, by, lines.column(keys[name]), n)
    starts = _starts(lines, [keys[name] for name in by])
    cluster = np.cumsum(starts) - 1
    cell = cell_codes(cells, {name: lines.column(keys[name]) for name in cells.columns}, n.size)
    order = np.argsort(cluster * len(cells.labels) + cell, kind="stable")
    totals = {name: numbers_of(lines.column(f"{SUM}{i}"))[order] for i, name in enumerate(values)}
    at = np.flatnonzero(starts)
    labels = tuple(lines.column(keys[name]).take(at).combine_chunks() for name in by)
    return Sums(cluster, cell[order], n[order], totals, labels)


def cell_codes(cells: CellKeys, columns: Mapping[str, Any], n_lines: int) -> IntArray:
    """The number of the cell of each line."""
    if not columns:
        return np.zeros(n_lines, dtype=np.intp)
    of = [encoded(column) for column in columns.values()]
    values = joint([Codes(codes, len(labels), labels) for codes, labels in of])
    keys = list(zip(*(as_text(labels)[codes[values.first]] for codes, labels in of), strict=True))
    if not set(keys) <= cells.number.keys():
        raise changed_rows(f"joint values of {listed(cells.columns)} are new")
    return np.array([cells.number[key] for key in keys], dtype=np.intp)[values.codes]


def _refuse_ids(name: str, by: Axis, column: Any, n: FloatArray) -> None:
    """Raise where an id is missing, or is a float that is not exact."""
    import pyarrow as pa

    missing = column.is_null(nan_is_null=True).to_numpy()
    if missing.any():
        count = int(n[missing].sum())
        raise missing_ids(":".join(by), count, f"{count} have none")
    if pa.types.is_floating(column.type):
        refuse_inexact(column.to_numpy(), name)


def encoded(column: Any) -> Column:
    """Codes of a column of Arrow, -1 where it is missing, and its labels, all of which occur."""
    import pyarrow as pa

    kind = column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)):
        return factorize(column.to_pandas())
    # One chunk after the other, so that their dictionaries are one.
    held = column.dictionary_encode().combine_chunks()
    held = held.chunk(0) if isinstance(held, pa.ChunkedArray) else held
    codes = (held.indices.fill_null(-1) if held.null_count else held.indices).to_numpy(zero_copy_only=False)
    return codes, held.dictionary.to_numpy(zero_copy_only=False)


def numbers_of(column: Any) -> FloatArray:
    """A column of Arrow as numbers."""
    return np.asarray(column.cast("float64", safe=False).to_numpy())


def changed_rows(what: str) -> DataError:
    """The error for rows that are others than an estimate was made of."""
    return DataError(
        f"the rows in the engine have changed since the estimate was made: {what}. Make the estimate again."
    )


def kind_of(kind: Any) -> str:
    """What the values of a column of this type are called."""
    if holds_text(kind):
        return "text"
    return "truth values" if kind == nw.Boolean else "numbers" if kind.is_numeric() else str(kind)


def holds_text(kind: Any) -> bool:
    """Whether a column of this type holds text."""
    return bool(kind in (nw.String, nw.Categorical, nw.Enum))


def _text(name: str, kind: Any, argument: str) -> nw.Expr:
    column = nw.col(name)
    if kind == nw.Boolean:
        return nw.when(column).then(nw.lit("True")).otherwise(nw.when(~column).then(nw.lit("False")))
    if holds_text(kind) or kind.is_integer() or kind == nw.Date:
        return column.cast(nw.String)
    raise ArgumentError(
        f"`{argument}` joins text, whole numbers, Booleans or dates of an engine; column {name!r} is {kind}, whose "
        "text differs between engines. Make a column of text there, or collect the frame first.",
        column=name,
    )


def _refuse_alike(table: Query, name: str, parts: Sequence[str], argument: str) -> None:
    """Raise where a joint id names different values, which takes colons in two of its columns."""
    texts = {part: nw.col(part).cast(nw.String) for part in parts if holds_text(table.schema[part])}
    if len(texts) < 2:
        return
    with_colon = table.totals({part: count_of(text.str.contains(":", literal=True)) for part, text in texts.items()})
    if sum(with_colon[part] > 0 for part in texts) < 2:
        return
    label = nw.col(f"{KEY}0")
    times = Query(table.grouped((name, *parts), {})).grouped((f"{KEY}0",), {})
    alike = fetched(times.filter((nw.col(ROWS) > 1) & ~label.is_null()).head(1))
    if len(alike):
        raise ArgumentError(
            f"`{argument}` joins labels by a colon, and different ones of {' and '.join(map(repr, parts))} would read "
            f"alike, such as {str(alike[f'{KEY}0'][0])!r}. Replace the colons in one of the columns there first.",
            column=parts[0],
        )
