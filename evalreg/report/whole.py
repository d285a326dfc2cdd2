"""Tables with more columns than a terminal is wide, which print all of them."""

from __future__ import annotations

import copy
from typing import Any

import pandas as pd

from evalreg.report.tables import visible


class _AnyFrame(type):
    """Every data frame counts as a `WholeFrame`: they differ in print alone, and are equal to `assert_frame_equal`."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, pd.DataFrame)


class WholeFrame(pd.DataFrame, metaclass=_AnyFrame):
    """A data frame that prints every column, where pandas would leave the middle ones out.

    Columns that do not fit the width stand in blocks below each other; rows, digits and the width are as the options of
    pandas say. What is made of it (rows, columns, rounded numbers) prints so too. Pickles hold a plain data frame.
    """

    @property
    def _constructor(self) -> type[WholeFrame]:
        return WholeFrame

    def __repr__(self) -> str:
        """All columns as text."""
        with pd.option_context("display.max_columns", None):
            return visible(super().__repr__(), keep="\n")

    def _repr_html_(self) -> str | None:
        with pd.option_context("display.max_columns", None):
            found: str | None = super()._repr_html_()  # type: ignore[misc]
        return found

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A plain frame, which opens where evalreg is not installed."""
        plain = pd.DataFrame(self)
        plain.attrs = self.attrs
        return copy.copy, (plain,)


def whole(table: pd.DataFrame) -> pd.DataFrame:
    """The same table, with its attributes, that prints every column."""
    found = WholeFrame(table)
    found.attrs = table.attrs
    return found
