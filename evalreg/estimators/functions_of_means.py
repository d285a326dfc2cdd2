"""Functions of means of rows: the one way by which estimates that are no means get their scores and their bread.

Whatever these estimators say is theta = f(means of cells), with the influence J u of the means' own (delta method; van
der Vaart 1998, theorem 3.1), so that CR2, its degrees of freedom and crossed clusters are those of means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from evalreg.checks import BoolArray, FloatArray
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.errors import ScoreRangeError
from evalreg.estimate import About, Estimate, Family
from evalreg.estimators.cells import Linearized, Split, linearized_estimate


def means_of_cells(split: Split, values: FloatArray, column: str, mean: FloatArray | None = None) -> Estimate:
    """Means of the cells of a split; `mean` says what they are but for rounding, and `column` is for messages."""
    theta = split.total(values) / split.total(np.ones(split.n_rows)) if mean is None else mean
    bounded = bool(values.min() >= 0 and values.max() <= 1)
    deviation, one = values - theta[split.codes], np.ones(split.n_rows)
    found = Linearized(theta, deviation, one, True, bounded, values if bounded else None)
    return linearized_estimate(split, found, About(outcome=column), column)


def function_of(
    means: Estimate, values: FloatArray, jacobian: FloatArray, names: Sequence[str], about: About, family: Family
) -> Estimate:
    """Values of a smooth function of means, whose derivative there is `jacobian`."""
    return replace(means.transform(lambda _: values, jacobian, names), about=about, family=family)


def from_row_influence(
    split: Split, values: FloatArray, influence: FloatArray, names: Sequence[str], about: About
) -> Estimate:
    """Values to which each row adds influence/n, shape (n_rows, n_values), side by side: each is a mean of its own."""
    parts = [
        replace(means_of_cells(split, value + column, name, np.array([value])), names=(name,), bounded=False)
        for value, column, name in zip(values, influence.T, names, strict=True)
    ]
    return replace(reduce(Estimate.stack, parts), about=about)


def refuse_values(wrong: BoolArray, values: FloatArray, column: str, rule: str, do: str) -> None:
    """Raise where values of a column break a rule."""
    if wrong.any():
        rows, count = row_list(wrong)
        text = (
            f"column {column!r} is not in {rows_text(rows, count)} of those in use (the first is {values[rows[0]]:g})"
        )
        raise ScoreRangeError(f"{rule}; {text}. {do}", column=column, rows=rows, count=count)
