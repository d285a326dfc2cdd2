"""Labels and weights that are no column, in the order of the rows: by their index, or by their length."""

from __future__ import annotations

from typing import Any

import pandas as pd

from evalreg.checks import listed
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.errors import AlignmentError


def align_labels(name: str, labels: Any, n_rows: int, index: pd.Index | None, argument: str = "groups") -> Any:
    """Labels in the order of the rows: a Series by the index of the data, anything else by its length; or raise."""
    if isinstance(labels, pd.Series) and index is None and not labels.index.equals(pd.RangeIndex(len(labels))):
        raise AlignmentError(
            f"`{argument}`{_quoted(name)} is a Series with an index of its own, and the data have no index to align it "
            "with. Pass an array in the order of the rows, or a column's name.",
            column=name,
        )
    if isinstance(labels, pd.Series) and index is not None and not labels.index.equals(index):
        if not labels.index.is_unique or not index.is_unique:
            raise AlignmentError(
                f"`{argument}`{_quoted(name)} is a Series whose index differs from the data's and has repeats, so "
                "that rows cannot be matched. Pass an array in the order of the rows, or a column's name.",
                column=name,
            )
        absent = ~index.isin(labels.index)
        if absent.any():
            rows, count = row_list(absent)
            raise AlignmentError(
                f"`{argument}`{_quoted(name)} is a Series and is aligned by index; the data's {rows_text(rows, count)} "
                f"({listed(index[absent][:3])}) are not in its index. Pass an array, or reindex the Series.",
                column=name,
                rows=rows,
                count=count,
            )
        return labels.reindex(index)
    if len(labels) != n_rows:
        what, found = ("label" if argument == "groups" else "weight"), len(labels)
        raise AlignmentError(
            f"`{argument}`{_quoted(name)} must have one {what} for each row; got {found} {what}s for {n_rows} rows.",
            column=name,
            count=len(labels),
        )
    return labels


def _quoted(name: str) -> str:
    """The name of labels for a message, unless it says no more than the argument."""
    return "" if name in ("groups", "weights") else f" {name!r}"
