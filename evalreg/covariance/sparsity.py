"""How thinly the rows behind a parameter are spread over clusters: what a board must have before it is trusted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalreg.checks import BoolArray, FloatArray, listed
from evalreg.covariance.corrections import FULL_LEVERAGE
from evalreg.data.clusters import Axis, axis_name
from evalreg.estimate import Estimate
from evalreg.numerics.matrices import absolute_entries, identity, scale_rows, times, transposed

# Above either, covariances that hold weights fixed and do not correct for leverage miss too often to be shown.
LARGEST_CONCENTRATION = 0.12
LARGEST_SINGLE = 0.02
# With fewer clusters every pair is concentrated, and their number says so.
FEW_CLUSTERS = 10
# Below the first a board warns; below the second it does not rank.
FEW_EFFECTIVE = 6.0
TOO_FEW_EFFECTIVE = 3.0
LARGEST_SHARE = 0.30


@dataclass(frozen=True, eq=False)
class Sparsity:
    """How the weight of each parameter lies on the clusters of one axis. All arrays have shape (n_params,)."""

    axis: Axis
    # H: the weighted mean over the cells of a parameter of sum over clusters of h^2, h a cluster's share of a cell.
    concentration: FloatArray
    # Effective number of clusters, one over the sum of squared shares (Kish).
    effective: FloatArray
    # The largest share of one cluster.
    largest_share: FloatArray
    # Share of the weight on cells that rest on a single cluster.
    single: FloatArray

    @property
    def unsafe(self) -> BoolArray:
        """Parameters whose fixed-weight CR0 and CR1 are not shown."""
        return (self.concentration > LARGEST_CONCENTRATION) | (self.single > LARGEST_SINGLE)


def sparsity(estimate: Estimate, axis: Axis) -> Sparsity:
    """Concentration of the weight of each parameter on the clusters of an axis. Kish (1965), Survey Sampling."""
    assert estimate.cells is not None
    assert estimate.coefficient_map is not None
    weights = absolute_entries(estimate.coefficient_map)
    # A parameter's weights sum to one over its cells, whatever the scale of the parameter.
    weights = scale_rows(weights, 1.0 / np.maximum(weights @ np.ones(weights.shape[1]), 1e-300))
    share = scale_rows(identity(estimate.cells.weight.size), 1.0 / estimate.cells.weight)
    of_cells = estimate.scores.column_sums(axis, share, share)
    single = (1.0 - of_cells.largest < FULL_LEVERAGE).astype(float)
    mapped = times(share, transposed(weights))
    found = estimate.scores.column_sums(axis, mapped, mapped)
    squares = np.asarray(found.squares)
    # What rests on no cell, as the sum of all win rates, rests on no few clusters.
    effective = np.divide(1.0, squares, out=np.full(squares.size, np.inf), where=squares > 0)
    return Sparsity(axis, weights @ of_cells.squares, effective, found.largest, weights @ single)


def sparse_text(found: Sparsity, names: tuple[str, ...], where: BoolArray) -> str:
    """Why the parameters `where` are too thinly covered, in words, with the worst figures."""
    some = [name for name, is_meant in zip(names, where, strict=True) if is_meant]
    return (
        f"{listed(some)}: up to {np.max(found.single[where]):.0%} of the weight lies on pairs that met under a single "
        f"{axis_name(found.axis)} ({LARGEST_SINGLE:.0%} is safe), and two comparisons of a pair share their "
        f"{axis_name(found.axis)} in up to {np.max(found.concentration[where]):.0%} of cases (H; "
        f"{LARGEST_CONCENTRATION:.0%} is safe)"
    )


def effective_text(found: Sparsity, names: tuple[str, ...], where: BoolArray) -> str:
    """Which of the parameters `where` rest on few clusters, in words, with the worst figures."""
    some = [name for name, is_meant in zip(names, where, strict=True) if is_meant]
    name = axis_name(found.axis)
    return (
        f"{listed(some)}: the weight lies on as few as {np.min(found.effective[where]):.1f} effective {name} clusters, "
        f"up to {np.max(found.largest_share[where]):.0%} of it on one. For a model with fewer than "
        f"{TOO_FEW_EFFECTIVE:.0f} every rank is left open. Bradley-Terry ratings pool thin pairs and hold better there."
    )
