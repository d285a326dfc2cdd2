"""What single clusters alone determine in a regression, leverage 1, and the regression without it.

The leverages of all clusters add up to the identity. Where one cluster has leverage 1 the others have none, so that
such a direction stands apart from the rest, and the adjustments give it nothing. Where effects of levels that each lie
in one cluster are among the coefficients, few directions are left, and they are those of the regression that absorbs
the levels (Pustejovsky and Tipton 2018, theorem 2 as corrected in 2022).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalreg.checks import FloatArray
from evalreg.covariance.corrections import FULL_LEVERAGE, full_leverage_directions, root_of
from evalreg.covariance.spanning import spanning_of
from evalreg.covariance.terms import CANCELS
from evalreg.data.clusters import Axis
from evalreg.estimate import Estimate
from evalreg.numerics.matrices import Matrix, dense
from evalreg.scores.base import Scores
from evalreg.scores.rows import RegressionScores, RowScores


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
        moved[np.abs(moved) <= CANCELS * np.linalg.norm(reach, axis=1)[:, None]] = 0.0
        return np.asarray(moved)


@dataclass(frozen=True, eq=False)
class Remaining:
    """A regression in the directions that no cluster alone determines; all of them where none does.

    Parameters
    ----------
    scores : Scores
        Scores and rows of the design in `columns` columns.
    root : ndarray, shape (columns, columns)
        With which the leverages of `scores` are formed.
    turn : ndarray, shape (k, columns)
        From contrasts of the coefficients to those directions.
    bread : ndarray or sparse array, shape (columns, n_params)
        From adjusted totals to the parameters.
    """

    scores: Scores
    root: FloatArray
    turn: FloatArray
    bread: Matrix


def directions_of(estimate: Estimate, by: Axis | None) -> Directions | None:
    """What single clusters (or rows, without `by`) alone determine; None where leverages are not matrices."""
    refit = estimate.refit
    if refit is None or refit.inverse_gram.ndim == 1:
        return None
    root, inverse_root = root_of(refit.inverse_gram)
    found = [np.zeros((root.shape[0], 0)), *_beyond_levels(estimate, by)]
    # A trace is rounded more than once.
    for leverage, lift in estimate.scores.dominant(by, root, 1 - 2 * FULL_LEVERAGE):
        own = full_leverage_directions(leverage)
        found.append(own if lift is None else _unit(lift @ own))
    return Directions(root, inverse_root, np.concatenate(found, axis=1))


def blind_directions(estimate: Estimate, by: Axis | None) -> FloatArray | None:
    """How the parameters move along what single clusters (or rows) alone determine; None where nothing is."""
    found = directions_of(estimate, by)
    return None if found is None else found.moves(estimate)


def _unit(columns: FloatArray) -> FloatArray:
    return np.asarray(columns / np.linalg.norm(columns, axis=0))


def _beyond_levels(estimate: Estimate, by: Axis | None) -> list[FloatArray]:
    """What single clusters or rows alone determine once absorbed levels are known, where that is more."""
    absorbed, scores = estimate.absorbed, estimate.scores
    if absorbed is None or not isinstance(scores, RowScores):
        return []
    if by is None:
        assert scores.design is not None
        assert scores.residual is not None
        return [absorbed.lone_rows(scores.design, scores.residual)]
    spanning = spanning_of(estimate, by, 1.0) if absorbed.affordable(scores.labels.codes(by)) else None
    return [] if spanning is None else [spanning.directions]


def remaining(estimate: Estimate, known: Directions | None) -> Remaining:
    """The regression without what single clusters alone determine, in as few columns as are left."""
    scores = estimate.scores
    if known is None:
        assert estimate.refit is not None
        root, inverse_root = root_of(estimate.refit.inverse_gram)
        return Remaining(scores, root, root, inverse_root @ estimate.bread)
    k, m = known.alone.shape
    if not 0 < m < k or not isinstance(scores, RegressionScores):
        return Remaining(scores, known.root, known.root, known.inverse_root @ estimate.bread)
    rest = np.linalg.qr(known.alone, mode="complete")[0][:, m:]
    turn = known.root @ rest
    return Remaining(scores.turned(turn), np.eye(k - m), turn, rest.T @ known.inverse_root @ estimate.bread)
