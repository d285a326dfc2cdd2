"""What single clusters alone determine in a regression, and regressions whose absorbed levels span clusters.

The leverages of all clusters add up to the identity. Where one cluster has leverage 1 the others have none, so that
such a direction stands apart from the rest, and the adjustments give it nothing. Where effects of levels that each lie
in one cluster are among the coefficients, few directions are left, and they are those of the regression that absorbs
the levels (Pustejovsky and Tipton 2018, theorem 2 as corrected in 2022). Levels that span clusters do matter: the
leverage is then that of the whole design, cluster by cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from evalreg.checks import FloatArray, IntArray, listed
from evalreg.covariance.leverage import (
    ClusterLeverage,
    ClusterPart,
    Forms,
    Narrow,
    Wide,
    full_leverage_directions,
    inverse_power_times,
    root_of,
)
from evalreg.data.clusters import Axis, Codes, axis_name
from evalreg.errors import NotAvailableError
from evalreg.estimate import Estimate
from evalreg.numerics.limits import FULL_LEVERAGE, HELD, ROOT_OF_ROUNDING
from evalreg.numerics.matrices import Matrix, dense, is_identity
from evalreg.scores.base import Scores
from evalreg.scores.rows import RowScores


@dataclass(frozen=True, eq=False)
class Directions:
    """Directions of a regression that single clusters alone determine, each orthogonal to the others.

    Parameters
    ----------
    root, inverse_root : ndarray, shape (k, k)
        R with RR' = (X'WX)^-1, and its inverse.
    alone : ndarray, shape (k, n_directions)
        Unit vectors, in which leverages are R'X_g'W X_g R.
    """

    root: FloatArray
    inverse_root: FloatArray
    alone: FloatArray

    def moves(self, estimate: Estimate) -> FloatArray | None:
        """How the parameters move along each, (n_params, n_directions); zero where one does not. None without any."""
        if not self.alone.shape[1]:
            return None
        reach = dense(estimate.coefficient_map) @ self.root
        moved = reach @ self.alone
        moved[np.abs(moved) <= ROOT_OF_ROUNDING * np.linalg.norm(reach, axis=1)[:, None]] = 0.0
        return np.asarray(moved)


def directions_of(estimate: Estimate, by: Axis | None) -> Directions:
    """What single clusters (or rows, without `by`) alone determine, where leverages are matrices."""
    assert estimate.refit is not None
    root, inverse_root = root_of(estimate.refit.inverse_gram)
    found = [np.zeros((root.shape[0], 0)), *_beyond_levels(estimate, by)]
    # A trace is rounded more than once.
    for leverage, lift in estimate.scores.dominant(by, root, 1 - 2 * FULL_LEVERAGE):
        own = full_leverage_directions(leverage)
        own = own if lift is None else lift @ own
        found.append(own / np.linalg.norm(own, axis=0))
    return Directions(root, inverse_root, np.concatenate(found, axis=1))


def _beyond_levels(estimate: Estimate, by: Axis | None) -> list[FloatArray]:
    """What single clusters or rows alone determine once absorbed levels are known, where that is more."""
    absorbed, scores = estimate.absorbed, estimate.scores
    if absorbed is None or not isinstance(scores, RowScores):
        return []
    if by is None:
        assert scores.residual is not None
        return [absorbed.lone_rows(scores.design, scores.residual)]
    leverage = scores.leverage_sums(by, np.eye(scores.n_columns))
    if leverage is not None and np.max(leverage) < absorbed.least_alone(scores.labels.codes(by)):
        return []
    spanning = spanning_of(estimate, by, 1.0) if affordable(estimate, by) else None
    return [] if spanning is None else [spanning.directions]


@dataclass(frozen=True, eq=False)
class AdjustedClusters:
    """AdjustedClusters totals of the clusters of a regression, by whichever form is the smaller for each."""

    totals: FloatArray  # (n_clusters, columns)
    bread: Matrix  # (columns, n_params): from adjusted totals to the parameters
    leverage: ClusterLeverage

    @property
    def influence(self) -> FloatArray:
        """What each cluster adds to the parameters, (n_clusters, n_params)."""
        return dense(self.totals @ self.bread)


def adjusted_clusters(estimate: Estimate, by: Axis, power: float, known: Directions | None) -> AdjustedClusters:
    """Totals of all clusters times (I - L)^-p, in the directions that no cluster alone determines."""
    spanning = spanning_of(estimate, by, power)
    if spanning is not None:
        k = spanning.rows.shape[1]
        leverage = ClusterLeverage((spanning,), np.eye(k), spanning.reach.shape[1])
        return AdjustedClusters(spanning.totals(estimate.scores), estimate.bread, leverage)
    scores, root, turn, bread = _remaining(estimate, known)
    totals, parts, others = np.empty((scores.n_clusters(by), root.shape[1])), list[ClusterPart](), list[FloatArray]()
    wide = np.ones(len(totals), dtype=bool)
    for clusters, blocks in scores.narrow(by):
        if clusters is not None:
            parts.append(narrow := Narrow(clusters, root, power))
            totals[clusters.which], wide[clusters.which] = narrow.totals, False
        for block in blocks:
            assert block.gram is not None
            L = block.gram if is_identity(root) else root.T @ block.gram @ root
            parts.append(Wide(L, power))
            others.append(inverse_power_times(L, power, (block.totals @ root)[:, :, None])[:, :, 0])
    if others:
        totals[wide] = np.concatenate(others)
    return AdjustedClusters(totals, bread, ClusterLeverage(tuple(parts), turn, turn.shape[1]))


def _remaining(estimate: Estimate, known: Directions | None) -> tuple[Scores, FloatArray, FloatArray, Matrix]:
    """The regression without what single clusters alone determine, in as few columns as are left.

    Returns its scores, the root that their leverages are formed with, what leads from contrasts of the coefficients to
    its columns (k, columns), and the bread from adjusted totals to the parameters.
    """
    scores = estimate.scores
    assert estimate.refit is not None
    root, inverse_root = root_of(estimate.refit.inverse_gram)
    k, m = (root.shape[0], 0) if known is None else known.alone.shape
    if known is None or not 0 < m < k or not isinstance(scores, RowScores):
        return scores, root, root, inverse_root @ estimate.bread
    rest = np.linalg.qr(known.alone, mode="complete")[0][:, m:]
    turn = root @ rest
    fewer = RowScores(scores.values @ turn, scores.labels, scores.design @ turn)
    return fewer, np.eye(k - m), turn, rest.T @ inverse_root @ estimate.bread


@dataclass(frozen=True, eq=False)
class Spanning:
    """AdjustedClusters rows of the covariates, W_g = (I - H_gg)^-p X_g, and what degrees of freedom need of them.

    H is the projection on the covariates X and on the levels D, of which Q are orthonormal columns, X first.
    """

    rows: FloatArray  # (n_rows, k): W
    grams: FloatArray  # (n_clusters, k, k): W_g'W_g
    reach: FloatArray  # (n_clusters, K, k): Q_g'W_g
    directions: FloatArray  # (k, m): what single clusters alone determine
    codes: Codes

    @property
    def n_clusters(self) -> int:
        """How many."""
        return self.codes.n_clusters

    def forms(self, turned: FloatArray) -> Iterator[Forms]:
        """With contrasts C' (k, m): D_g is C W_g'W_g C', and U_g is Q_g'W_g C'."""
        both = turned.T @ self.grams, turned.T @ np.swapaxes(self.reach, 1, 2)
        yield both[0], np.broadcast_to(turned.T, both[0].shape), both[1]

    def totals(self, scores: Scores) -> FloatArray:
        """AdjustedClusters totals of the clusters, shape (n_clusters, k)."""
        assert scores.residual is not None
        columns = np.ascontiguousarray((self.rows * scores.residual[:, None]).T)
        return np.column_stack([np.bincount(self.codes.codes, column, self.n_clusters) for column in columns])


def spanning_of(estimate: Estimate, by: Axis, power: float) -> Spanning | None:
    """The adjusted rows of a regression some of whose absorbed levels span clusters; None where none does."""
    scores = estimate.scores
    if estimate.absorbed is None or not isinstance(scores, RowScores):
        return None
    codes = scores.labels.codes(by)
    outside = estimate.absorbed.outside(codes, axis_name(by))
    return None if outside is None else adjusted_rows(scores.design, outside, codes, power)


def affordable(estimate: Estimate, by: Axis) -> bool:
    """Whether absorbed levels that span clusters, if any, are few enough to adjust for."""
    scores = estimate.scores
    if estimate.absorbed is None or not isinstance(scores, RowScores):
        return True
    return estimate.absorbed.affordable(scores.labels.codes(by))


def refuse_spanning(estimate: Estimate, by: Axis, what: str) -> None:
    """Raise where absorbed levels span clusters, for what sums within clusters alone cannot solve again."""
    scores = estimate.scores
    if estimate.absorbed is None or not isinstance(scores, RowScores):
        return
    inside = estimate.absorbed.nested(scores.labels.codes(by))
    if not inside.all():
        names = [axis_name(f) for f, is_in in zip(estimate.absorbed.factors, inside, strict=True) if not is_in]
        raise NotAvailableError(
            f"{what} solves the regression again from sums within clusters, and levels of the absorbed {listed(names)} "
            f"span clusters of {axis_name(by)!r}. Use the tests under cov='CR2' or 'CR3', or write the factor as "
            "C(...) among the covariates."
        )


def adjusted_rows(X: FloatArray, Z: FloatArray, codes: Codes, power: float) -> Spanning:
    """W of every cluster, through whichever of H_gg and Q_g'Q_g is smaller; leverage 1 is mapped to 0.

    Shapes: X (n_rows, k) and Z (n_rows, m), orthonormal columns that are orthogonal to each other.
    """
    n, k = X.shape
    Q = np.hstack([X, Z])
    rows, reach, directions = np.empty((n, k)), np.empty((codes.n_clusters, Q.shape[1], k)), []
    grams = np.empty((codes.n_clusters, k, k))
    for clusters, members in _alike(codes, Q.shape[1]):
        own = Q[members]
        turned, by_rows = np.swapaxes(own, 1, 2), members.shape[1] <= Q.shape[1]
        leverage = own @ turned if by_rows else turned @ own
        if by_rows:
            W = inverse_power_times(leverage, power, own[:, :, :k])
        else:
            W = own[:, :, :k] + own @ inverse_power_times(leverage, power, leverage[:, :, :k], change=True)
        rows[members], grams[clusters] = W, np.swapaxes(W, 1, 2) @ W
        reach[clusters] = turned @ W
        for g in np.flatnonzero(np.einsum("gii->g", leverage) > 1 - 2 * FULL_LEVERAGE):
            found = full_leverage_directions(leverage[g])
            directions.append((own[g].T @ found if by_rows else found)[:k].T)
    found = np.concatenate([np.empty((0, k)), *directions])
    # A cluster that holds a whole level determines that level's effect, which is no direction of the covariates.
    return Spanning(rows, grams, reach, found[np.linalg.norm(found, axis=1) > ROOT_OF_ROUNDING].T, codes)


def _alike(codes: Codes, width: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Clusters of one size, some at a time, and their rows, shape (n, size)."""
    order, starts = codes.order
    for size in np.unique(codes.counts):
        clusters = np.flatnonzero(codes.counts == size)
        step = max(HELD // int(size * width), 1)
        for first in range(0, clusters.size, step):
            some = clusters[first : first + step]
            yield some, order[starts[some][:, None] + np.arange(size)]
