"""Data frames that print every column, where pandas would leave the middle ones out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from evalreg.errors import ArgumentTypeError
from evalreg.report.tables import Grid, Summary, dof_texts, number, p_value


def show(frame: Any) -> Summary:
    """A table that prints every column, within 80 characters.

    pandas leaves columns out where a frame is wider than the terminal. Here columns that do not fit go below each
    other, names of rows are whole, and numbers are as in summaries.

    Parameters
    ----------
    frame : DataFrame or Series
        What `leaderboard`, `pairwise`, `to_frame`, `Comparison.table` and the like return; or any other.

    Returns
    -------
    Summary
        Prints as text of 80 columns; also `as_markdown()`, `as_latex()` and `as_html()`. All rows are shown.

    Raises
    ------
    ArgumentTypeError
        If it is no pandas frame.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.paired(n_passages=20, seed=1)
    >>> print(er.show(er.compare(log, item="question", groups="passage").table))
    1 row, 12 columns
    <BLANKLINE>
    model - baseline  difference      se    lower   upper  p_value  correlation    n
    --------------------------------------------------------------------------------
    new - old             0.0500  0.0663  -0.0964  0.1963    0.463       0.1732  100
    <BLANKLINE>
    model - baseline  n_clusters  dof  variance_saved  n_unpaired  paired
    ---------------------------------------------------------------------
    new - old                 20   19          0.1727           0    True
    """
    given: Any = frame
    table = (
        given.to_frame("value" if given.name is None else str(given.name)) if isinstance(given, pd.Series) else given
    )
    if not isinstance(table, pd.DataFrame):
        raise ArgumentTypeError(f"`frame` must be a pandas frame or series; got {type(given).__name__}.")
    joint = " - " if list(table.index.names) in (["left", "right"], ["model", "baseline"]) else ", "
    corner = joint.join(str(name) for name in table.index.names if name is not None)
    names = [joint.join(map(str, key)) if isinstance(key, tuple) else str(key) for key in table.index]
    cells = [_cells(table.iloc[:, i], str(column)) for i, column in enumerate(table.columns)]
    rows = tuple((name, *row) for name, *row in zip(names, *cells, strict=True))
    columns: Any = table.columns
    headers = (corner, *(", ".join(map(str, c)) if isinstance(c, tuple) else str(c) for c in columns))
    n, k = table.shape
    title = f"{n} row{'' if n == 1 else 's'}, {k} column{'' if k == 1 else 's'}"
    return Summary(title, (), (Grid(headers, rows, blocks=True),), ())


def _cells(values: pd.Series[Any], column: str) -> list[str]:
    """The values of a column as summaries print them."""
    if column == "dof" and pd.api.types.is_float_dtype(values):
        return ["" if text == "nan" else text for text in dof_texts(values)]
    return [_cell(value, column) for value in values]


def _cell(value: Any, column: str) -> str:
    """A value as summaries print it; nothing for a missing one."""
    if isinstance(value, bool | np.bool_ | int | np.integer | str):
        return str(value)
    if isinstance(value, list | tuple | dict | np.ndarray | pd.Series):
        return f"{len(value)} value{'' if len(value) == 1 else 's'}"
    if value is None or value is pd.NA or (isinstance(value, float | np.floating) and np.isnan(value)):
        return ""
    if isinstance(value, float | np.floating):
        if column.endswith("p_value") or column.startswith("p_") or "_p_" in column:
            return p_value(float(value))
        return number(float(value))
    return str(value)
