"""Functions of means of rows: the one way by which estimates that are no means get their scores and their bread.

Whatever these estimators say is theta = f(means of cells), with the influence J u of the means' own (delta method; van
der Vaart 1998, theorem 3.1), so that CR2, its degrees of freedom and crossed clusters are those of means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from evalreg.checks import FloatArray
from evalreg.estimate import About, Estimate, Family
from evalreg.estimators.linearized import Linearized, Split, linearized_estimate


def means_of_cells(split: Split, values: FloatArray, column: str, mean: FloatArray | None = None) -> Estimate:
    """Means of the cells of a split; `mean` says what they are but for rounding, and `column` is for messages."""
    total = split.total(np.ones(split.n_rows))
    theta = split.total(values) / total if mean is None else mean
    bounded = bool(values.min() >= 0 and values.max() <= 1)
    one = np.ones(split.n_rows)
    found = Linearized(theta, values - theta[split.codes], one, True, bounded, values if bounded else None)
    return linearized_estimate(split, found, About(outcome=column), column)


def function_of(
    means: Estimate,
    values: FloatArray,
    jacobian: FloatArray,
    names: Sequence[str],
    about: About,
    family: Family | None = None,
) -> Estimate:
    """Values of a smooth function of means, whose derivative there is `jacobian`."""
    moved = means.transform(lambda _: values, jacobian, names)
    return replace(moved, about=about, family=moved.family if family is None else family)


def from_row_influence(
    split: Split, values: FloatArray, influence: FloatArray, names: Sequence[str], about: About
) -> Estimate:
    """Values to which each row adds influence/n, shape (n_rows, n_values), side by side: each is a mean of its own."""
    parts = [
        replace(means_of_cells(split, value + column, name, np.array([value])), names=(name,), bounded=False)
        for value, column, name in zip(values, influence.T, names, strict=True)
    ]
    return replace(reduce(Estimate.stack, parts), about=about)
