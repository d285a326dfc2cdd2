"""Codes of the rows in use by column, made when first asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pandas as pd

from evalreg.checks import IntArray, hold, listed, nearest
from evalreg.data.clusters import Axis, Codes, factorize, joint, used_codes
from evalreg.errors import AlignmentError, NotAvailableError


class LabelSource(Protocol):
    """Where the labels of the rows in use come from."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns there are."""

    def codes(self, column: str) -> Codes:
        """Codes of a column on the rows in use."""

    def align(self, name: str, labels: Any) -> Codes:
        """Codes of an array (by length) or a Series (by index) on the rows in use."""


@dataclass(frozen=True, eq=False)
class Labels:
    """Codes of the rows in use by column, made when first asked for and then kept.

    Parameters
    ----------
    n_rows : int
        Number of rows in use.
    held : dict of str to Codes
        Columns made so far.
    source : LabelSource, optional
        Makes the codes of further columns; dropped by pickle and copy.
    rows : ndarray of int, shape (n_rows,), optional
        Positions of the rows in the data, kept where the source is dropped.
    """

    n_rows: int
    held: dict[str, Codes] = field(default_factory=dict)
    source: LabelSource | None = None
    joined: dict[Axis, Codes] = field(default_factory=dict)
    rows: IntArray | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names that `codes` knows."""
        more = () if self.source is None else self.source.columns
        return tuple(dict.fromkeys((*self.held, *more)))

    def codes(self, axis: Axis) -> Codes:
        """Return the codes of the joint values of the columns of an axis."""
        if axis not in self.joined:
            codes = joint([self._column(name) for name in axis])
            hold(codes)
            self.joined[axis] = codes
        return self.joined[axis]

    def _column(self, name: str) -> Codes:
        if name not in self.held:
            if self.source is None:
                raise no_source(name, tuple(self.held))
            codes = self.source.codes(name)
            hold(codes)
            self.held[name] = codes
        return self.held[name]

    def align(self, name: str, labels: Any) -> Codes:
        """Return the codes of labels given as an array (by length) or a Series (by index)."""
        if self.source is not None:
            return self.source.align(name, labels)
        if isinstance(labels, pd.Series):
            raise NotAvailableError(
                f'`groups` "{name}" is a Series, which is aligned by the index of the data, and this result no '
                "longer holds the data (copied or unpickled). Pass an array in the order of the rows in use.",
                column=name,
            )
        if len(labels) != self.n_rows:
            raise AlignmentError(
                f'`groups` "{name}" must have one label for each row; got {len(labels)} labels for {self.n_rows} rows.',
                column=name,
                count=len(labels),
            )
        return used_codes(name, *factorize(labels))

    def positions(self) -> IntArray:
        """Positions of the rows in the data, shape (n_rows,)."""
        known = getattr(self.source, "positions", None)
        if known is not None:
            return np.asarray(known())
        return np.arange(self.n_rows) if self.rows is None else self.rows

    def with_held(self, more: dict[str, Codes]) -> Labels:
        """Return labels that hold some more columns, which win over the source's of that name."""
        held = {**self.held, **more}
        joined = {axis: codes for axis, codes in self.joined.items() if not set(axis) & set(more)}
        return Labels(self.n_rows, held, self.source, joined, self.rows)

    def detached(self) -> Labels:
        """Return the labels already held, without their source."""
        return Labels(self.n_rows, self.held, None, self.joined, self.positions())

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "source": None, "rows": self.positions()}


def no_source(name: str, held: Sequence[str]) -> NotAvailableError:
    """Return the error for a clustering that a result cannot look up any more."""
    return NotAvailableError(
        f'`groups` names "{name}", which this result does not hold: it no longer has its source rows (it was copied or '
        f"unpickled, or made of sums).{nearest(name, held)} Held are {listed(held) or 'none'}; fit again for others, "
        "of rows, or of sums that were made with them in `groups`.",
        column=name,
    )
