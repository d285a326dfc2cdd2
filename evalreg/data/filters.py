"""Files of lm-evaluation-harness that hold every answer several times, once for each filter."""

from __future__ import annotations

from collections.abc import Collection

import narwhals.stable.v2 as nw
import numpy as np

from evalreg.checks import BoolArray, listed
from evalreg.data.engine import LazyTable
from evalreg.data.frame import Table, restrict
from evalreg.data.joint_ids import joint_parts
from evalreg.errors import DuplicateRowsError

FILTER = "filter"
# What a file of samples has besides the scores: the question, and either its hash, the answers or the metrics' names.
_DOCUMENT, _MARKS = "doc_id", frozenset({"doc_hash", "resps", "filtered_resps", "metrics"})


def refuse_filters(table: Table | LazyTable, keep: BoolArray | None, named: Collection[str]) -> None:
    """Refuse a per-sample file whose rows are of several filters: its rows are the same answers, read twice.

    Of the rows kept; where the filter is among what tells estimates apart, several are fine.
    """
    columns = set(table.columns)
    split = {part for name in named for part in (name, *joint_parts(name))}
    if not {_DOCUMENT, FILTER} <= columns or not columns & _MARKS or FILTER in split:
        return
    filters, n_rows = _filters(table, keep)
    if len(filters) < 2:
        return
    raise DuplicateRowsError(
        f"one filter at a time: this is a per-sample file of lm-evaluation-harness, whose {n_rows} rows are the same "
        f"answers as read by {len(filters)} filters, {listed(filters)}. Keep one, with "
        f'--where \'{FILTER} == "{filters[0]}"\' or data[data["{FILTER}"] == "{filters[0]}"], or read the file by '
        f'er.read_log(path, filter="{filters[0]}"); or have an estimate for each, with by="{FILTER}".',
        column=FILTER,
        count=len(filters),
    )


def _filters(table: Table | LazyTable, keep: BoolArray | None) -> tuple[list[str], int]:
    """Names of the filters in use, and the number of rows."""
    if isinstance(table, LazyTable):
        found = table.group((FILTER,), {"n": nw.len()}).dropna()
        return sorted(map(str, found[FILTER])), int(found["n"].sum())
    codes, labels = table.labels(FILTER, FILTER)
    used = restrict(codes, keep)
    return sorted(str(labels[code]) for code in np.unique(used[used >= 0])), int(used.size)
