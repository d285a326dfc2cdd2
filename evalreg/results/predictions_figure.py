"""Which expected scores a figure of predictions shows."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from evalreg.checks import fraction
from evalreg.errors import ArgumentError
from evalreg.report.canvas import FigSize
from evalreg.report.predicted import predictions_axes
from evalreg.report.summaries import covariance_text
from evalreg.results.comparisons import fitted_groups, values_asked

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Values of a number along the axis.
N_VALUES = 25
OVERLAP = "Overlapping intervals are not a test of a difference: `avg_comparisons` is. "


def plot_predictions(
    results: Any, by: str | list[str] | dict[str, Any], alpha: float, figsize: FigSize, ax: Axes | None
) -> Axes:
    """The figure of `Predicted.plot_predictions`."""
    fraction("alpha", alpha)
    names = [by] if isinstance(by, str) else list(by)
    if not 1 <= len(names) <= 2:
        raise ArgumentError(f"`by` must name one covariate, or two: along the axis and in colour; got {len(names)}.")
    asked = asked_values(results.estimate, by, names)
    found = results.avg_predictions(variables=asked)
    ends = found.conf_int(alpha)
    places = list(product(*asked.values()))
    table = pd.DataFrame(
        {"estimate": found.params.to_numpy(), "lower": ends[0].to_numpy(), "upper": ends[1].to_numpy()}
    )
    table.insert(0, "x", [place[0] for place in places])
    if len(names) == 2:
        table["group"] = [f"{place[1]:g}" if isinstance(place[1], float) else str(place[1]) for place in places]
    dof = found.dof[np.isfinite(found.dof)]
    said = f", with {dof.min():.3g} to {dof.max():.3g} degrees of freedom" if len(dof) else ""
    note = f"{100 * (1 - alpha):.4g}% interval of each average{said}; every row is put at these values, its others "
    return predictions_axes(
        table,
        xlabel=names[0],
        ylabel=f"expected {results.estimate.about.outcome}",
        legend=names[1] if len(names) == 2 else "",
        note=f"{note}as they are. {OVERLAP if len(names) == 2 else ''}Standard errors: {covariance_text(results.cov)}.",
        figsize=figsize,
        ax=ax,
    )


def asked_values(estimate: Any, by: Any, names: list[str]) -> dict[str, list[Any]]:
    """Values of the covariates: those given, all levels of labels, a grid of the number along the axis."""
    fitted = fitted_groups(estimate, None)
    given = dict(by) if isinstance(by, dict) else {}
    x = names[0]
    if x not in given and x in fitted.frame and not fitted.labels(x):
        column = fitted.frame[x].to_numpy(dtype=float)
        given[x] = np.linspace(column.min(), column.max(), N_VALUES).tolist()
    found: dict[str, list[Any]] = {}
    for name in names:
        found |= values_asked(fitted, {name: given[name]} if name in given else [name])
    return found
