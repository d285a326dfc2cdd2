"""What a covariance warns of: boards too thinly covered, parameters that one cluster determines, repairs."""

from __future__ import annotations

import numpy as np

from evalreg.checks import listed
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.options import ResolvedCov
from evalreg.covariance.sparsity import (
    FEW_CLUSTERS,
    FEW_EFFECTIVE,
    LARGEST_SHARE,
    effective_text,
    sparse_text,
    sparsity,
)
from evalreg.data.clusters import Axis
from evalreg.errors import LeverageWarning, Note, RepairWarning, SparseBoardWarning
from evalreg.estimate import Estimate

# A parameter that moves by more than this share of the one that moves most is what a cluster alone tells of; others are
# measured from it.
MOSTLY = 0.6
# What becomes of pairs that met under one cluster alone, by whether estimates are solved again without it.
SAID_OF_LONE_PAIRS = {
    False: "such pairs add nothing to the variance",
    True: "CR2 does not exist for such pairs, so that errors are those of the jackknife, which leaves out each "
    "cluster. Bradley-Terry ratings pool thin pairs",
}


def thin_notes(estimate: Estimate, axes: tuple[Axis, ...], options: ResolvedCov) -> list[Note]:
    """What to say about the models of a board that are too thinly covered for its covariance."""
    notes: list[Note] = []
    finest = max(axes, key=estimate.scores.n_clusters)
    for axis in axes:
        found = sparsity(estimate, axis)
        # An axis of a few judges is thin for every pair alike, which the number of its clusters tells.
        guarded = axis == finest and estimate.scores.n_clusters(axis) >= FEW_CLUSTERS
        fixed = estimate.refit is not None and estimate.refit.leave_out is not None
        if not options.kind.adjusts and guarded and fixed and found.unsafe.any():
            text = f'{options.cov} is far too small there; leave out `cov` for the default, or use "jackknife"'
            notes.append((SparseBoardWarning, f"{sparse_text(found, estimate.names, found.unsafe)}; {text}."))
        resolved = options.kind.needs_exact_refit
        if options.kind.adjusts and fixed and found.single.any() and (options.left_open or not resolved):
            text = f"{sparse_text(found, estimate.names, found.single > 0)}; {SAID_OF_LONE_PAIRS[resolved]}."
            notes.append((SparseBoardWarning, text))
        few = (found.effective < FEW_EFFECTIVE) | (found.largest_share > LARGEST_SHARE)
        if guarded and few.any():
            notes.append((SparseBoardWarning, effective_text(found, estimate.names, few)))
    return notes


def term_notes(cov: Covariance) -> list[Note]:
    """What to say about parameters that a single cluster determines, and about a repair."""
    notes: list[Note] = []
    notes.extend(_one_cluster_notes(cov))
    thin = cov._in_one_cell(np.eye(len(cov.names)))
    lost = [name for name, is_lost in zip(cov.names, thin, strict=True) if is_lost]
    if lost:
        text = (
            f"{listed(lost)}: some cluster alone determines {'it' if len(lost) == 1 else 'each of them'} (leverage 1)"
        )
        notes.append((LeverageWarning, f"{text}{cov.options.kind.single}."))
    if cov.change and cov.options.repair == "eigen":
        notes.append((RepairWarning, f"the crossed covariance was not positive semi-definite: {cov.change}."))
    return notes


def _one_cluster_notes(cov: Covariance) -> list[Note]:
    """Parameters of a regression that one cluster alone determines, and those measured from them."""
    size = np.zeros(len(cov.names))
    for term in cov.one_way:
        if term.blind is not None:
            moved = np.abs(term.blind)
            size = np.maximum(size, np.max(moved / np.max(moved, axis=0), axis=1))
    alone = [name for name, part in zip(cov.names, size, strict=True) if part > MOSTLY]
    if not alone:
        return []
    which = cov.one_way[0].name if len(cov.one_way) == 1 else "cluster"
    text = f"{listed(alone)}: only one {which if cov.axes else 'row'} tells of {'it' if len(alone) == 1 else 'them'}"
    text += f" (leverage 1), so that {'it has no error bar' if len(alone) == 1 else 'they have no error bars'}."
    rest = [name for name, part in zip(cov.names, size, strict=True) if 0 < part <= MOSTLY]
    if rest:
        verbs = ("is", "has") if len(rest) == 1 else ("are", "have")
        text += f" {listed(rest)} {verbs[0]} measured from there and {verbs[1]} none either."
    text += " Differences without it have theirs. Merge it with another level, or leave its rows out."
    return [(LeverageWarning, text)]
