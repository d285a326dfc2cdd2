"""Influence of rows and clusters, and warnings where clusters are few, unequal or dominant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray
from evalreg.covariance.absorbed import adjusted_clusters, affordable, directions_of
from evalreg.covariance.adjust import adjust_cell_totals, root_of
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.special import FEW_CLUSTERS, LARGEST_SHARE
from evalreg.data.clusters import Axis
from evalreg.errors import DominantClusterWarning, FewClustersWarning, Note
from evalreg.estimate import Estimate, LeaveOut
from evalreg.numerics.matrices import Matrix, compressed, dense
from evalreg.numerics.student import t_quantile
from evalreg.scores.sums import Block

# Thresholds below which a clustered result is valid but fragile.
FEW_CROSSED = 5
# Differences of more standard errors than these are hardly ever met.
MANY_ERRORS = 10
# Among a few equal clusters each has a large share; only one above this multiple of 1/G dominates.
TIMES_EQUAL = 1.5


@dataclass(frozen=True)
class SizeSummary:
    """What the sizes of the clusters say.

    Parameters
    ----------
    n_clusters : int
        G.
    effective_clusters : float
        Kish's G* = (sum n_g)^2 / sum n_g^2.
    largest_share : float
        Share of the largest cluster.
    mean_size : float
        Rows per cluster.
    """

    n_clusters: int
    effective_clusters: float
    largest_share: float
    mean_size: float


def cluster_sizes(estimate: Estimate, axis: Axis) -> SizeSummary:
    """Number of clusters, Kish's G*, the largest share and the mean size; weights count where there are any.

    References
    ----------
    Kish (1965); Carter, Schnepel and Steigerwald (2017), REStat 99(4), with a working correlation of 0.
    """
    found = estimate.scores.cluster_sizes(axis)
    return SizeSummary(
        n_clusters=found.n_clusters,
        effective_clusters=found.total**2 / found.squares,
        largest_share=found.largest / found.total,
        mean_size=estimate.n_rows / found.n_clusters,
    )


@dataclass(frozen=True, eq=False)
class ClusterInfluence:
    """What single clusters do to the parameters."""

    # Largest trace of H_gg: for means, the largest share of a cell.
    max_leverage: float
    # The cluster whose leaving moves some parameter by most standard errors; -1 where that is not available.
    cluster: int
    # Parameters without that cluster; NaN where nothing is left to solve one from.
    params_without: FloatArray
    # Whether they are those of the rows without it. Otherwise they are one step from the estimate, which may name
    # another cluster than solving again would.
    solved: bool


def cluster_influence(estimate: Estimate, axis: Axis, bse: FloatArray) -> ClusterInfluence:
    """Leverage of clusters, and the estimate without the most influential one; NaN without `refit`.

    MacKinnon, Nielsen and Webb (2023), J. Econometrics 232, sections 7 and 8.1.
    """
    if estimate.refit is None or (estimate.absorbed is not None and not affordable(estimate, axis)):
        return ClusterInfluence(np.nan, -1, np.full(estimate.n_params, np.nan), solved=False)
    unit = np.where(bse > 0, bse, np.inf)
    best, where, without, first = -1.0, -1, np.array(estimate.params), 0
    changes, leverage = _leave_out(estimate, axis)
    for change in changes:
        size = np.nan_to_num(np.abs(change) / unit)
        moved = np.asarray(size.max(axis=1)).ravel()
        cluster = int(np.argmax(moved))
        if moved[cluster] > best:
            best, where, without = float(moved[cluster]), first + cluster, estimate.params + change[cluster]
        first += change.shape[0]
    return ClusterInfluence(leverage, where, without, estimate.refit.exact and not estimate.refit.step)


def _leave_out(estimate: Estimate, axis: Axis) -> tuple[list[FloatArray], float]:
    """theta_(g) - theta of the clusters of each block, and the largest leverage."""
    refit, scores = estimate.refit, estimate.scores
    assert refit is not None
    again = refit.leave_out
    solved = None if again is None else [solved_again(again, b, refit.contrasts) for b in scores.sums_in_cells(axis)]
    if refit.inverse_gram.ndim == 2:
        root = root_of(refit.inverse_gram)[0]
        leverage = scores.leverage_sums(axis, root)
        assert leverage is not None
        return solved or [_one_step(estimate, axis)], float(leverage.max())
    changes, largest = list[FloatArray](), 0.0
    for block in scores.cells(axis):
        share = (compressed(block.gram) @ sparse.diags_array(refit.inverse_gram)).tocsr()
        changes.append(-dense(adjust_cell_totals(block.totals, share, 1.0) @ estimate.bread))
        largest = max(largest, float(share.data.max()))
    return solved or changes, largest


def _one_step(estimate: Estimate, axis: Axis) -> FloatArray:
    """theta_(g) - theta of a regression by its leverages; what a cluster alone determines stays (n_clusters, n_params).

    Matrices of columns by columns only of clusters of that many rows, as for the covariance.
    """
    return -adjusted_clusters(estimate, axis, 1.0, directions_of(estimate, axis)).influence


def solved_again(leave_out: LeaveOut, block: Block, contrasts: Matrix | None) -> FloatArray:
    """theta_(g) - theta of the parameters, solved again; NaN where nothing is left to solve one from."""
    change = leave_out(block)
    if contrasts is None:
        return change
    unsolved = np.asarray(np.isnan(change).astype(float) @ (abs(contrasts) > 0).T) > 0
    return np.where(unsolved, np.nan, np.asarray(np.nan_to_num(change) @ contrasts.T))


def fragility(estimate: Estimate, cov: Covariance) -> list[Note]:
    """Warnings about few, unequal or dominant clusters."""
    notes: list[Note] = []
    for axis in cov.axes:
        name = ":".join(axis)
        size = cluster_sizes(estimate, axis)
        G, effective = size.n_clusters, size.effective_clusters
        if G < FEW_CLUSTERS and name != cov.options.alike:
            notes.append((FewClustersWarning, _few_text(name, G, estimate, cov)))
        elif effective < G / 2:
            text = (
                f"{G} {name} clusters differ so much in size that they are worth {effective:.1f} equal ones "
                f"(G* = {effective:.1f}). Expect a rough interval."
            )
            notes.append((FewClustersWarning, text))
        n_coefficients = estimate.n_coefficients if estimate.absorbed is None else estimate.absorbed.n_covariates
        if n_coefficients >= G:
            text = (
                f"{G} {name} clusters for {n_coefficients} coefficients: their covariance is singular, so "
                "that joint tests of all of them are not available."
            )
            notes.append((FewClustersWarning, text))
        if size.largest_share > max(LARGEST_SHARE, TIMES_EQUAL / G):
            what = "rows" if estimate.scores.counts_rows(axis) else "weight"
            text = (
                f'The {name} "{estimate.scores.largest_cluster(axis)}" holds {size.largest_share:.0%} of '
                f"the {what}: the error bar rests on how that one cluster compares with the others."
            )
            notes.append((DominantClusterWarning, text))
    return notes


def _few_text(name: str, n_clusters: int, estimate: Estimate, cov: Covariance) -> str:
    dof = cov.dof()
    smallest = f"{np.min(dof[np.isfinite(dof)], initial=np.inf):.3g}"
    text = f"{n_clusters} {name} clusters: t intervals use {smallest} degree{'' if smallest == '1' else 's'} of freedom"
    if smallest == "inf":
        text = f"{n_clusters} {name} clusters: few to learn a variance from"
    if cov.crossed and n_clusters < FEW_CROSSED:
        return (
            f'{text}. So few values of "{name}" say little about others; without it in `groups` the result holds them '
            f"fixed and speaks of these {n_clusters} only.{_pairs_text(n_clusters, estimate)}"
            f"{_alike_text(name, estimate, cov)}"
        )
    return f"{text}, and may still be too short."


def _alike_text(name: str, estimate: Estimate, cov: Covariance) -> str:
    """What pools a few clusters over models, where that is there and has any to pool."""
    if not (estimate.about.one_board and estimate.about.n_models > 2 and len(cov.axes) == 2):
        return ""
    return f' alike="{name}" learns from all models together, where values of {name} differ alike over models.'


def _pairs_text(n_clusters: int, estimate: Estimate) -> str:
    """How far apart two of many models must lie, where a few clusters decide."""
    pairs = estimate.n_params * (estimate.n_params - 1) // 2
    if pairs < 2 or estimate.kind not in ("mean", "board"):
        return ""
    far = float(t_quantile(0.05 / pairs, np.array([n_clusters - 1.0]))[0])
    return (
        f" Where they differ, one of {pairs} pairs is told apart only at {far:.0f} standard errors or more"
        f"{', so that next to nothing can be' if far > MANY_ERRORS else ''}."
    )


def row_influence(estimate: Estimate, axis: Axis | None) -> tuple[FloatArray, list[object]]:
    """Influence B's_r of rows, or its sums within the clusters of an axis; columns sum to zero.

    The second part says whose it is: positions of the rows in the data, or labels of the clusters.
    """
    scores, bread = estimate.scores, dense(estimate.bread)
    if axis is not None:
        parts = [np.asarray(block.totals @ bread) for block in scores.cells(axis)]
        return np.concatenate(parts), [scores.label(axis, code) for code in range(scores.n_clusters(axis))]
    values, labels = scores.row_influence(bread), scores.row_labels()
    assert labels is not None
    return values, list(labels.positions())
