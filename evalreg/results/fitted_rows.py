"""The rows of a fitted statsmodels model, as the source of labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, IntArray
from evalreg.data.alignment import align_labels
from evalreg.data.clusters import Codes, factorize, used_codes
from evalreg.data.labels import Labels, no_source
from evalreg.data.opening import held_pandas
from evalreg.errors import AlignmentError


@dataclass(frozen=True, eq=False)
class FittedRows:
    """The rows of a fitted statsmodels model; the source of its labels."""

    frame: pd.DataFrame | None  # the data of a formula model, all rows, as they were when the model was fitted
    row_labels: pd.Index | None  # index of the rows in use
    keep: BoolArray | None  # rows of the data in use, where some had missing values
    n_rows: int  # rows in use
    # whether the data are no longer those that were fitted, so that only the names of their columns are known
    changed: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data."""
        return () if self.frame is None else tuple(str(name) for name in self.frame.columns)

    def positions(self) -> IntArray:
        """Positions of the rows in use in the data."""
        return np.arange(self.n_rows) if self.keep is None else np.flatnonzero(self.keep)

    def codes(self, column: str) -> Codes:
        """Codes of a column on the rows in use."""
        if self.frame is None:
            raise no_source(column, ())
        if self.changed:
            raise AlignmentError(
                "the data frame of the fitted statsmodels model has other rows, or rows in another order, than when it "
                f"was fitted, so that labels of {column!r} cannot be matched. Fit the model again, or pass the labels "
                "as an array in the order of the rows that were fitted.",
                column=column,
            )
        labels = self.frame[column]
        return used_codes(column, *factorize(labels if self.keep is None else labels[self.keep]))

    def align(self, name: str, labels: Any) -> Codes:
        """Codes of an array (by length, of the rows in use or of all) or a Series (by index)."""
        if isinstance(labels, pd.Series) and self.row_labels is not None and self.row_labels.isin(labels.index).all():
            labels = labels.loc[self.row_labels] if labels.index.is_unique else labels
        if self.keep is not None and len(labels) == self.keep.size:
            labels = labels[self.keep]
        return used_codes(name, *factorize(align_labels(name, labels, self.n_rows, self.row_labels)))


def labels_of(model: Any, n_rows: int) -> Labels:
    """Labels of the rows that a statsmodels model was fitted to, with its data as their source."""
    data = model.data
    dropped = getattr(data, "missing_row_idx", None)
    frame = getattr(data, "frame", None)
    keep = None
    if dropped is not None and len(dropped):
        keep = np.ones(n_rows + len(dropped), dtype=bool)
        keep[np.asarray(dropped)] = False
    row_labels = getattr(data, "row_labels", None)
    index = row_labels if isinstance(row_labels, pd.Index) and len(row_labels) == n_rows else None
    if not isinstance(frame, pd.DataFrame):
        return Labels(n_rows, {}, FittedRows(None, index, keep, n_rows))
    changed = not _is_as_fitted(frame, model, index, keep)
    return Labels(n_rows, {}, FittedRows(held_pandas(frame), index, keep, n_rows, changed))


def _is_as_fitted(frame: pd.DataFrame, model: Any, index: pd.Index | None, keep: BoolArray | None) -> bool:
    """Whether a frame still has the rows that a model was fitted to, in their order: statsmodels holds the caller's."""
    values = np.asarray(model.endog)
    if len(frame) != (values.shape[0] if keep is None else keep.size):
        return False
    used = frame if keep is None else frame.loc[keep]
    if index is not None and not used.index.equals(index):
        return False
    name = str(model.endog_names)
    if name not in used.columns or values.ndim != 1 or not pd.api.types.is_numeric_dtype(used[name]):
        return True
    return bool(np.array_equal(used[name].to_numpy(dtype=np.float64, na_value=np.nan), values))
