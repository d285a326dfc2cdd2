"""What is said of means in [0, 1] that a few clusters carry."""

from __future__ import annotations

import numpy as np

from evalreg.checks import BoolArray
from evalreg.clusters import Axis, axis_name, summarize_sizes
from evalreg.covariance import Covariance
from evalreg.errors import FewCarriersWarning, Note
from evalreg.estimate import Estimate
from evalreg.inference.widening import CARRIERS, Carried, Widening, n_rows, widening
from evalreg.sparsity import FEW_CLUSTERS

# Carriers are few beside the clusters where c^2, the clusters for each carrier less one, is larger. Of 0/1 scores
# c^2 is (1 - p)/p even where clusters do not matter, and no row lies beyond those seen.
UNEVEN, UNEVEN_WHOLE = 1.0, 10.0


def few_carriers(estimate: Estimate, cov: Covariance) -> list[Note]:
    """Warnings of means near an end that fewer than five clusters carry, out of many; an axis each.

    An axis of few or of very unequal clusters has a warning of its own, and one of single rows holds no dependence that
    could be missed.
    """
    wider = widening(estimate, cov) if cov.axes else None
    if wider is None:
        return []
    notes: list[Note] = []
    for axis, found in zip(cov.axes, wider.carriers, strict=True):
        which = _few(estimate, axis, wider, found)
        if which.any():
            notes.append((FewCarriersWarning, _text(estimate, axis, found, which)))
    return notes


def _few(estimate: Estimate, axis: Axis, wider: Widening, found: Carried) -> BoolArray:
    """Ends of the means that fewer than five clusters carry, shape (2, n_params)."""
    size = summarize_sizes(estimate.scores.sizes(axis), estimate.n_rows)
    if size.n_clusters < FEW_CLUSTERS or size.effective_clusters < size.n_clusters / 2:
        return np.zeros(wider.few.shape, dtype=bool)
    uneven = found.uneven > np.where(wider.whole, UNEVEN_WHOLE, UNEVEN)
    shared = n_rows(estimate) > size.n_clusters
    return np.asarray(wider.few & shared & uneven & (found.carriers < CARRIERS))


def _text(estimate: Estimate, axis: Axis, found: Carried, which: BoolArray) -> str:
    """The sentence, with the number of the mean that is carried by fewest."""
    carriers = np.where(which, found.carriers, np.inf).min(axis=0)
    names = [estimate.names[i] for i in np.flatnonzero(np.isfinite(carriers))]
    some = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    # A few small clusters may be worth less than one.
    fewest = f"{max(carriers.min(), 1.0):.1f} of {estimate.scores.n_clusters(axis)} {axis_name(axis)} clusters carry"
    what = "this mean" if len(names) == 1 else f"{estimate.names[int(np.argmin(carriers))]}, the others little more"
    return (
        f"{some}: {fewest} {what} (those whose scores lie away from the end), so that the interval may be too short. "
        'conf_int(method="clopper-pearson") is safer, and only more clusters make it safe.'
    )
