"""Work on whole clusters that Spark's own processes of Python do: what it gives is added up, and clusters stay there.

A process sorts nothing and looks nothing up: Spark hands over the lines of a part of the clusters, those of a cluster
one after the other. One call for each of 50,000 clusters would cost far more than their sums do.
"""

from __future__ import annotations

import hashlib
import importlib.resources
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from evalreg.checks import FloatArray, IntArray

# Lines that a process holds at a time, unless a cluster has more.
LINES = 1 << 17
# Sums that work may give: they are lines of a query of the driver, of 12 bytes each.
MOST_SUMS = 1 << 21

Work: TypeAlias = Callable[[IntArray, int, dict[str, FloatArray]], FloatArray]
"""From the cluster of each line, how many clusters, and columns of numbers, to sums over these clusters."""

_ABLE: WeakKeyDictionary[Any, None] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class OnWorkers:
    """What a process makes of the lines that it is handed: a line for each sum, the number of clusters first.

    Parameters
    ----------
    keys, names : tuple of str
        Columns of the clusters, and of numbers.
    at_once : int
        Clusters that are worked on at a time.
    work : callable
        Gives an array of sums, added up over clusters.
    """

    keys: tuple[str, ...]
    names: tuple[str, ...]
    at_once: int
    work: Work

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Record batches of Arrow from those of lines."""
        import pyarrow as pa

        total: Any = 0.0
        for table, starts in whole_clusters(batches, self.keys):
            columns = {name: table[name].to_numpy().astype(float, copy=False) for name in self.names}
            for first in range(0, starts.size - 1, self.at_once):
                own = starts[first : first + self.at_once + 1]
                n = own.size - 1
                cluster = np.repeat(np.arange(n), np.diff(own))
                made = self.work(cluster, n, {name: column[own[0] : own[-1]] for name, column in columns.items()})
                total = total + np.append(float(n), made)
        if np.ndim(total):
            yield pa.RecordBatch.from_pydict({"place": np.arange(total.size, dtype=np.int32), "value": total})


def whole_clusters(batches: Iterator[Any], keys: tuple[str, ...]) -> Iterator[tuple[Any, IntArray]]:
    """Tables of whole clusters, and where each cluster begins in it, with the end appended."""
    import pyarrow as pa

    held, n_held = list[Any](), 0
    for batch in batches:
        held.append(batch)
        n_held += batch.num_rows
        if n_held < LINES:
            continue
        table = pa.Table.from_batches(held)
        starts = _starts(table, keys)
        if starts.size > 2:  # The last may go on in the next batch.
            yield table.slice(0, starts[-2]), starts[:-1]
            rest = table.slice(starts[-2])
            held, n_held = rest.to_batches(), rest.num_rows
    if n_held:
        table = pa.Table.from_batches(held)
        yield table, _starts(table, keys)


def _starts(table: Any, keys: tuple[str, ...]) -> IntArray:
    from pyarrow import compute

    new = np.zeros(table.num_rows + 1, dtype=bool)
    new[[0, -1]] = True
    for key in keys:
        column = table[key].combine_chunks()
        new[1:-1] |= compute.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    return np.flatnonzero(new)


def why_not(native: Any) -> str:
    """Why the workers of a frame's session cannot run this package; empty where they can, which is asked once."""
    session = native.sparkSession
    if session in _ABLE:
        return ""
    try:
        (line,) = session.range(1).mapInArrow(_tell_fingerprint, "code string").collect()
    except Exception as error:  # They may lack this package, Arrow, or any Python.
        return _why(str(error))
    if line["code"] != fingerprint():
        return "their evalreg is another version"
    _ABLE[session] = None
    return ""


def _why(said: str) -> str:
    """The line of a worker's error that tells what is missing."""
    lines = [line.strip() for line in said.splitlines()]
    told = [line for line in lines if line.startswith(("ModuleNotFoundError", "ImportError"))]
    return (told or [line for line in lines if line] or ["no message"])[-1 if told else 0]


def _tell_fingerprint(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    for batch in batches:
        yield pa.RecordBatch.from_pydict({"code": [fingerprint()] * batch.num_rows})


@cache
def fingerprint() -> str:
    """Of the code of this package, wherever it was installed from: a checkout or an archive tells no version."""
    found = hashlib.sha256()
    folders = [importlib.resources.files("evalreg")]
    while folders:
        for own in sorted(folders.pop().iterdir(), key=lambda one: one.name):
            if own.is_dir():
                folders.append(own)
            elif own.name.endswith(".py"):
                found.update(own.name.encode() + own.read_bytes())
    return found.hexdigest()
