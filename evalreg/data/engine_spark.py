"""What is particular to Spark: names that it parses, and work on whole clusters that its executors do."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import narwhals.stable.v2 as nw

from evalreg.checks import FloatArray, listed
from evalreg.errors import ArgumentError

# Lines of sums that the driver is given at once, and in all, by estimates that read ranges of clusters.
LINES_AT_ONCE, MOST_LINES = 1 << 20, 1 << 26


def is_spark(frame: nw.LazyFrame[Any]) -> bool:
    """Whether a frame is one of Spark, classic or Connect."""
    return bool(frame.implementation.is_pyspark() or frame.implementation.is_pyspark_connect())


def refuse_spark_names(frame: nw.LazyFrame[Any], names: Sequence[str | None]) -> None:
    """Raise where Spark would not find a column by its name."""
    odd = [name for name in dict.fromkeys(names) if name is not None and ("." in name or "`" in name)]
    if odd and is_spark(frame):
        raise ArgumentError(
            "columns in Spark must not have a dot or a backtick in their names, which stand for fields of structures "
            f"there; {listed(odd)} {'has' if len(odd) == 1 else 'have'}. Rename first: "
            f"data.withColumnRenamed({odd[0]!r}, {odd[0].replace('.', '_').replace('`', '_')!r}).",
            column=odd[0],
        )


def fold_in_spark(
    grouped: Any, keys: Sequence[str], work: Callable[[Iterator[Any]], Iterator[FloatArray]]
) -> list[FloatArray]:
    """What `work` makes of the lines of each partition, which holds whole clusters: one shuffle by the keys."""

    def made(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for part in work(pa.Table.from_batches([batch]) for batch in batches):
            yield pa.RecordBatch.from_pydict({"part": [pickle.dumps(part)]})

    whole = grouped.repartition(*keys).sortWithinPartitions(*keys)
    return [pickle.loads(row[0]) for row in whole.mapInArrow(made, "part binary").collect()]
