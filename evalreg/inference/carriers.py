"""Warnings about estimates from scores in [0, 1] that a few clusters carry."""

from __future__ import annotations

import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray, listed
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.sparsity import FEW_CLUSTERS, sparsity
from evalreg.data.clusters import Axis, axis_name
from evalreg.errors import FewCarriersWarning, NotAvailableError, Note, SparseBoardWarning
from evalreg.estimate import Estimate
from evalreg.inference.dependence import alike_in_strata, strata_variance
from evalreg.inference.diagnostics import cluster_sizes
from evalreg.inference.widening import CARRIERS, Carried, Widening, n_rows, widening
from evalreg.numerics.matrices import absolute_entries, compressed, dense

# Carriers are few beside the clusters where c^2, the clusters for each carrier less one, is larger. Of 0/1 scores
# c^2 is (1 - p)/p even where clusters do not matter, and no row lies beyond those seen.
UNEVEN, UNEVEN_WHOLE = 1.0, 10.0
# A coefficient that moves by less than this where all scores move by 1 is a difference.
LEVEL = 1e-6
# A difference that fewer clusters carry, and a smaller share of them, has a variance that is hardly known.
TELLING, TELLING_SHARE = 20.0, 0.1


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
    size = cluster_sizes(estimate, axis)
    if size.n_clusters < FEW_CLUSTERS or size.effective_clusters < size.n_clusters / 2:
        return np.zeros(wider.few.shape, dtype=bool)
    uneven = found.uneven > np.where(wider.whole, UNEVEN_WHOLE, UNEVEN)
    shared = n_rows(estimate) > size.n_clusters
    return np.asarray(wider.few & ~wider.unvaried & shared & uneven & (found.carriers < CARRIERS))


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


def unvaried_strata(estimate: Estimate, cov: Covariance) -> list[Note]:
    """A warning of means over strata, or pairs of models, of which some do not vary, unless intervals allow for it."""
    if estimate.bounded and estimate.about.interval == "widened":
        return []
    variance, alike = cov.variance(), strata_variance(estimate, cov)
    which = alike_in_strata(alike, variance)
    if estimate.kind == "board" and which.any():
        # Models of a sparse board have a warning of their own.
        for axis in cov.axes:
            which &= ~sparsity(estimate, axis).unsafe
    if not which.any():
        return []
    times = f"up to {float(np.sqrt(np.max(alike[which] / variance[which]))):.1f} times as large"
    if estimate.kind == "board":
        text = (
            f"{listed(estimate.names[i] for i in np.flatnonzero(which))}: against some opponent all comparisons went "
            "one way, so that they add nothing to the standard error, which would be larger if they varied as others "
            f"do ({times}). Intervals and ranks may be too sure. Bradley-Terry ratings pool such pairs, and with "
            'opponents="as_sampled" they count as often as they met.'
        )
        return [(SparseBoardWarning, text)]
    text = (
        f"{unvaried_words(estimate, which)} ({times}). The interval may be too short. More rows in such strata mend "
        "it, or weights that are as their rows."
    )
    return [(FewCarriersWarning, text)]


def unvaried_words(estimate: Estimate, which: BoolArray) -> str:
    """Which means (n_params,) count on strata without a variance, and on which; without a full stop."""
    cells = estimate.cells
    assert cells is not None
    assert cells.stratum is not None
    inside = np.asarray(absolute_entries(compressed(estimate.coefficient_map))[np.flatnonzero(which)].sum(axis=0)) > 0
    found = np.unique(cells.stratum[inside.ravel() & (cells.low == cells.high)]).tolist()
    return (
        f"{listed(estimate.names[i] for i in np.flatnonzero(which))}: all scores within "
        f"{listed(cells.strata[k] for k in found)} are alike, so that "
        f"{'it adds' if len(found) == 1 else 'they add'} nothing to the standard error, which would be larger if they "
        "varied as in other strata"
    )


def few_tell(estimate: Estimate, cov: Covariance) -> str:
    """A warning where few clusters carry an estimate and nothing is added for what they do not show.

    Of scores in [0, 1] with Wald intervals: differences that are not of two models on the same questions, or are
    weighted, and coefficients of regressions, but for those that are means.

    Whole sentences; empty where enough clusters tell.
    """
    if not (estimate.about.unit and estimate.about.interval == "wald" and cov.axes):
        return ""
    covered = np.zeros(0, dtype=np.intp) if cov.paired is None else cov.paired.covered
    which = np.setdiff1d(np.flatnonzero((cov.variance() > 0) & ~_levels(estimate)), covered)
    axis = max(cov.axes, key=estimate.scores.n_clusters)
    count = estimate.scores.n_clusters(axis)
    try:
        telling = carrying(estimate, axis, which)
    except NotAvailableError:  # Clusters that stayed in an engine are not known to a copy without its rows.
        return "Whether few clusters tell is not known: this copy no longer has its source rows."
    few = telling < min(TELLING, TELLING_SHARE * count)
    if not few.any():
        return ""
    names, fewest = [estimate.names[i] for i in which[few]], max(float(telling.min()), 1.0)
    example = "" if len(names) == 1 else f" for {estimate.names[which[np.argmin(telling)]]}"
    return (
        f"{listed(names)}: few clusters tell (about {fewest:.0f} of {count} by {axis_name(axis)}{example}). The "
        "interval and the p-value do not allow for differences that were not seen, and may be too sure. `compare` does "
        "so for two models on the same questions, without weights."
    )


def _levels(estimate: Estimate) -> BoolArray:
    """Means and levels of least squares, which move when all scores do and are not differences; shape (n_params,)."""
    scores, refit, maps = estimate.scores, estimate.refit, estimate.coefficient_map
    if estimate.kind == "board" or scores.paired or maps is None or refit is None:
        return np.zeros(estimate.n_params, dtype=bool)
    if estimate.cells is not None or scores.n_columns == 1:
        moved = dense(maps).sum(axis=1)
    elif estimate.kind == "least squares" and (total := scores.design_total()) is not None:
        moved = dense(maps) @ (refit.inverse_gram @ total)
    else:
        moved = np.zeros(estimate.n_params)
    return np.asarray(np.abs(moved) > LEVEL)


def carrying(estimate: Estimate, axis: Axis, which: IntArray) -> FloatArray:
    """Clusters that carry each of some parameters, (sum u^2)^2 / sum u^4 of their influence; shape (m,)."""
    if not which.size:
        return np.zeros(0)
    squares, fourth = estimate.scores.influence_powers(axis, compressed(estimate.bread).tocsc()[:, which])
    return np.asarray(squares**2 / np.where(fourth > 0, fourth, np.nan))
