"""Average slopes, comparisons and predictions of a regression, and their derivatives by the coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray
from evalreg.estimate import Estimate
from evalreg.results.fitted_mean import (
    Mean,
    asked_covariates,
    design_at,
    frame_of,
    holds_labels,
    mean_of,
    model_of,
    row_shares,
)

# Step of a central difference, in standard deviations; its square is the relative error of a curved term.
STEP = 1e-4


def average_slopes(
    estimate: Estimate, variables: str | list[str] | None
) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """Average slopes, their derivatives with respect to the coefficients (n_slopes, k), and names."""
    model = model_of(estimate)
    frame, mean = frame_of(model), mean_of(model)
    share = row_shares(model, len(frame))
    found = []
    for name in asked_covariates(model, frame, variables):
        rows = _differences if holds_labels(model, frame, name) else _derivative
        found += rows(model, frame, name, estimate.params, mean, share)
    names, values, J = zip(*found, strict=True)
    return np.array(values), np.array(J), tuple(names)


def _derivative(
    model: Any, frame: pd.DataFrame, name: str, b: FloatArray, mean: Mean, share: FloatArray
) -> list[tuple[str, float, FloatArray]]:
    """Mean derivative with respect to a number: d/dx of the mean is slope(x'b) times dx'b."""
    x = frame[name].to_numpy(dtype=float)
    step, low, high = STEP * (np.std(x) or 1.0), x.min(), x.max()
    if high == low:
        low, high = low - step, high + step
    # Not beyond the data, where a spline is not defined.
    above, below = np.minimum(x + step, high), np.maximum(x - step, low)
    D = design_at(model, frame.assign(**{name: above})) - design_at(model, frame.assign(**{name: below}))
    D = D / (above - below)[:, None]
    X = np.asarray(model.exog)
    eta, moved = X @ b, D @ b
    slope, curve = share * mean.slope(eta), share * mean.curve(eta)
    return [(name, float(slope @ moved), slope @ D + (curve * moved) @ X)]


def _differences(
    model: Any, frame: pd.DataFrame, name: str, b: FloatArray, mean: Mean, share: FloatArray
) -> list[tuple[str, float, FloatArray]]:
    """Mean difference of each level to the first."""
    column = frame[name]
    levels = list(column.cat.categories) if isinstance(column.dtype, pd.CategoricalDtype) else sorted(column.unique())
    ends = []
    for level in levels:
        at = pd.Series([level] * len(frame), index=frame.index, dtype=column.dtype)
        X = design_at(model, frame.assign(**{name: at}))
        eta = X @ b
        ends.append((float(share @ mean.at(eta)), (share * mean.slope(eta)) @ X))
    (value, gradient), *others = ends
    return [
        (f"{name}[{level} - {levels[0]}]", end - value, at - gradient)
        for level, (end, at) in zip(levels[1:], others, strict=True)
    ]
