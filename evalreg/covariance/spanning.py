"""CR2 and CR3 where absorbed levels span clusters: the leverage of the whole design, cluster by cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from evalreg.checks import FloatArray, IntArray, listed
from evalreg.covariance.corrections import FULL_LEVERAGE
from evalreg.covariance.dof import ratio, whiten
from evalreg.data.clusters import Axis, Codes, axis_name
from evalreg.errors import NotAvailableError
from evalreg.estimate import Estimate
from evalreg.scores.base import Scores
from evalreg.scores.rows import RowScores

# Entries of the designs of clusters that are held at a time.
ENTRIES = 1 << 23
# Eigenvalues below this are zero: (I - L)^-p - 1 over L is p there.
SMALL = 1e-8
# Of unit directions in the whole design, what is left of those among the covariates.
NO_DIRECTION = 1e-6


@dataclass(frozen=True, eq=False)
class Spanning:
    """Adjusted rows of the covariates, W_g = (I - H_gg)^-p X_g, and what degrees of freedom need of them.

    H is the projection on the covariates X and on the levels D, of which Q are orthonormal columns, X first.
    """

    rows: FloatArray  # (n_rows, k): W
    grams: FloatArray  # (n_clusters, k, k): W_g'W_g
    reach: FloatArray  # (n_clusters, K, k): Q_g'W_g
    directions: FloatArray  # (k, m): what single clusters alone determine

    codes: Codes

    def totals(self, scores: Scores) -> FloatArray:
        """Adjusted totals of the clusters, shape (n_clusters, k)."""
        assert scores.residual is not None
        residual, codes = scores.residual, self.codes
        columns = np.ascontiguousarray((self.rows * residual[:, None]).T)
        return np.column_stack([np.bincount(codes.codes, column, codes.n_clusters) for column in columns])

    def dof(self, contrasts: FloatArray) -> FloatArray:
        """Satterthwaite degrees of freedom of contrasts (m, k); Bell and McCaffrey (2002)."""
        # P_gh = delta_gh d_g - u_g'u_h, with d_g and u_g from W_g and the whole design.
        found = []
        for contrast in contrasts:
            d = np.einsum("gij,i,j->g", self.grams, contrast, contrast)
            u = self.reach @ contrast
            uu = np.einsum("gk,gk->g", u, u)
            products = u.T @ u if u.shape[0] > u.shape[1] else u @ u.T
            found.append((d.sum() - uu.sum(), np.sum(d**2 - 2 * d * uu) + np.sum(products**2)))
        expected, variance = np.array(found).T
        return ratio(expected**2, variance)

    def hotelling(self, contrasts: FloatArray) -> float:
        """eta of the approximate Hotelling test of `contrasts` (q, k), PT 2018 section 3.2."""
        q = contrasts.shape[0]
        d = contrasts @ self.grams @ contrasts.T
        u = self.reach @ contrasts.T
        scaled = whiten(contrasts, d.sum(axis=0) - np.einsum("gks,gkt->st", u, u))
        d, u = scaled @ self.grams @ scaled.T, self.reach @ scaled.T
        uu = np.swapaxes(u, 1, 2) @ u
        traces = np.einsum("gss->g", d)
        variance = float(np.sum(traces**2) - 2 * np.sum(traces * np.einsum("gss->g", uu)))
        variance += float(np.sum(d * np.swapaxes(d, 1, 2)) - 2 * np.sum(d * np.swapaxes(uu, 1, 2)))
        flat = u.reshape(u.shape[0], -1)
        pairs = (flat.T @ flat).reshape(u.shape[1], q, u.shape[1], q)
        variance += float(np.sum(pairs**2) + np.einsum("isjt,itjs->", pairs, pairs))
        return float(q * (q + 1) / variance)


def spanning_of(estimate: Estimate, by: Axis, power: float) -> Spanning | None:
    """The adjusted rows of a regression some of whose absorbed levels span clusters; None where none does."""
    scores = estimate.scores
    if estimate.absorbed is None or not isinstance(scores, RowScores) or scores.design is None:
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
        made = _by_rows if members.shape[1] <= Q.shape[1] else _by_columns
        W, found = made(own, k, power)
        rows[members], grams[clusters] = W, np.swapaxes(W, 1, 2) @ W
        reach[clusters] = np.swapaxes(own, 1, 2) @ W
        directions.append(found)
    found = np.concatenate(directions)
    # A cluster that holds a whole level determines that level's effect, which is no direction of the covariates.
    found = found[np.linalg.norm(found, axis=1) > NO_DIRECTION]
    return Spanning(rows, grams, reach, found.T, codes)


def _alike(codes: Codes, width: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Clusters of one size, some at a time, and their rows, shape (n, size)."""
    order, starts = codes.order
    for size in np.unique(codes.counts):
        clusters = np.flatnonzero(codes.counts == size)
        step = max(ENTRIES // int(size * width), 1)
        for first in range(0, clusters.size, step):
            some = clusters[first : first + step]
            yield some, order[starts[some][:, None] + np.arange(size)]


def _by_rows(Q: FloatArray, k: int, power: float) -> tuple[FloatArray, FloatArray]:
    values, axes = np.linalg.eigh(Q @ np.swapaxes(Q, 1, 2))
    full = 1.0 - values < FULL_LEVERAGE
    scale = np.where(full, 0.0, np.where(full, 1.0, 1.0 - values) ** -power)
    turned = np.swapaxes(axes, 1, 2) @ Q[:, :, :k]
    return axes @ (scale[:, :, None] * turned), turned[full]


def _by_columns(Q: FloatArray, k: int, power: float) -> tuple[FloatArray, FloatArray]:
    gram = np.swapaxes(Q, 1, 2) @ Q
    values, axes = np.linalg.eigh(gram)
    full, none = 1.0 - values < FULL_LEVERAGE, values < SMALL
    change = np.where(full, -1.0, np.where(full, 1.0, 1.0 - values) ** -power - 1.0)
    change = np.where(none, power, change / np.where(none, 1.0, values))
    turned = np.swapaxes(axes, 1, 2) @ gram[:, :, :k]
    directions = np.swapaxes(axes[:, :k, :], 1, 2)[full]
    return Q[:, :, :k] + Q @ (axes @ (change[:, :, None] * turned)), directions
