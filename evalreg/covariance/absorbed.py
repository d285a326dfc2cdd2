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

from evalreg.checks import FloatArray, listed
from evalreg.covariance.leverage import ClusterLeverage, LeveragePart, adjusted_parts, full_leverage_directions, root_of
from evalreg.data.clusters import Axis, axis_name
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
    root : ndarray, shape (k, k)
        R with RR' = (X'WX)^-1.
    alone : ndarray, shape (k, n_directions)
        Unit vectors, in which leverages are R'X_g'W X_g R.
    """

    root: FloatArray
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
    root = root_of(estimate.refit.inverse_gram)[0]
    parts = [np.zeros((root.shape[0], 0)), *_beyond_levels(estimate, by), *_alone(estimate.scores, by, root)]
    return Directions(root, np.concatenate(parts, axis=1))


def _alone(scores: Scores, by: Axis | None, root: FloatArray) -> Iterator[FloatArray]:
    """Unit vectors that each cluster or row alone determines, (k, n_found) each."""
    # A trace is rounded more than once.
    for leverage, lift in scores.dominant(by, root, 1 - 2 * FULL_LEVERAGE):
        vectors = full_leverage_directions(leverage)
        vectors = vectors if lift is None else lift @ vectors
        yield vectors / np.linalg.norm(vectors, axis=0)


def _beyond_levels(estimate: Estimate, by: Axis | None) -> list[FloatArray]:
    """What single clusters or rows alone determine once absorbed levels are known, where that is more."""
    absorbed, scores = estimate.absorbed, estimate.scores
    if absorbed is None or not isinstance(scores, RowScores):
        return []
    if by is None:
        assert scores.residual is not None
        return [absorbed.lone_rows(scores.design, scores.residual)]
    squares = scores.squares_by_cluster(by, np.eye(scores.n_columns))
    if np.max(squares.sum(axis=1)) < absorbed.least_alone(scores.labels.codes(by)):
        return []
    whole = _with_levels(estimate, by) if affordable(estimate, by) else None
    if whole is None:
        return []
    directions = [vectors[: scores.n_columns] for vectors in _alone(whole, by, np.eye(whole.n_columns))]
    # A cluster that holds a whole level determines that level's effect, which is no direction of the covariates.
    return [vectors[:, np.linalg.norm(vectors, axis=0) > ROOT_OF_ROUNDING] for vectors in directions]


def adjusted_clusters(
    estimate: Estimate, by: Axis, power: float, known: Directions | None
) -> tuple[FloatArray, Matrix, ClusterLeverage]:
    """Totals of all clusters times (I - L)^-p, in the directions that no cluster alone determines, (n_clusters, K).

    With what leads from them to the parameters, (K, n_params), and the leverages.
    """
    scores, root, turn, bread = _columns_of(estimate, by, known)
    totals, few = np.empty((scores.n_clusters(by), root.shape[1])), turn.shape[0] < root.shape[1]
    parts, of_many, wide = list[LeveragePart](), list[FloatArray](), np.ones(len(totals), dtype=bool)
    for clusters, blocks in scores.narrow(by):
        for some, members in () if clusters is None else clusters.alike(HELD):
            assert clusters is not None
            which, Z = clusters.which[some], next(clusters.rows(members, root))
            M, few_rows, rows = Z @ np.swapaxes(Z, 1, 2), few or turn.shape[0] < members.shape[1], (clusters, members)
            totals[which], more = adjusted_parts(clusters.totals[some] @ root, M, power, few_rows, Z, *rows, root)
            wide[which], parts = False, [*parts, *more]
        for block in blocks:
            L = block.gram if is_identity(root) else root.T @ block.gram @ root
            adjusted, more = adjusted_parts(block.totals @ root, L, power, few)
            of_many.append(adjusted)
            parts += more
    if wide.any():
        totals[wide] = np.concatenate(of_many)
    return totals, bread, ClusterLeverage(tuple(parts), turn)


def _columns_of(
    estimate: Estimate, by: Axis, known: Directions | None
) -> tuple[Scores, FloatArray, FloatArray, Matrix]:
    """The regression in the columns in which its clusters are adjusted.

    They are those of the whole design where absorbed levels span clusters; otherwise as few as are left without what
    single clusters alone determine. Returns its scores, the root that their leverages are formed with, what leads from
    contrasts of the coefficients to its columns (k, columns), and the bread from adjusted totals to the parameters.
    """
    scores, whole = estimate.scores, _with_levels(estimate, by)
    if whole is not None:
        first = np.eye(scores.n_columns, whole.n_columns)
        return whole, np.eye(whole.n_columns), first, first.T @ estimate.bread
    assert estimate.refit is not None
    root, inverse_root = root_of(estimate.refit.inverse_gram)
    k, m = (root.shape[0], 0) if known is None else known.alone.shape
    if known is None or not 0 < m < k or not isinstance(scores, RowScores):
        return scores, root, root, inverse_root @ estimate.bread
    rest = np.linalg.qr(known.alone, mode="complete")[0][:, m:]
    turn = root @ rest
    fewer = RowScores(scores.values @ turn, scores.labels, scores.design @ turn)
    return fewer, np.eye(k - m), turn, rest.T @ inverse_root @ estimate.bread


def _with_levels(estimate: Estimate, by: Axis) -> RowScores | None:
    """The regression with the absorbed levels that span clusters among its orthonormal columns, after its own.

    None where no level does.
    """
    scores = estimate.scores
    if estimate.absorbed is None or not isinstance(scores, RowScores):
        return None
    outside = estimate.absorbed.outside(scores.labels.codes(by), axis_name(by))
    if outside is None:
        return None
    assert scores.residual is not None
    design = np.hstack([scores.design, outside])
    return RowScores(design * scores.residual[:, None], scores.labels, design)


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
