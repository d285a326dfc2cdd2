"""Wild bootstrap statistics from sums within clusters.

The model is least squares (or means): coefficients beta with scores s_g = X_g'W e_g and grams G_g = X_g'W X_g of the
clusters, M = (sum G_g)^-1, and hypotheses C beta = c. With P = M C'(C M C')^-1 and d = C beta - c, the scores under the
null are s_g + G_g P d, so that they, the numerator and the squares below are polynomials in d. A draw v gives

    numerator   sum_g v_g L s_g                       L = C M
    influence   u_c = sum_g v_g L s_cg - L G_c M sum_g v_g s_g

for each cluster c of a clustering (s_cg the part of c that lies in g), and the variance of the draw is made of
u_c u_c'.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray
from evalreg.data.clusters import Axis, union
from evalreg.errors import NotAvailableError
from evalreg.estimate import Estimate
from evalreg.numerics.matrices import Matrix, compressed, dense
from evalreg.resampling.inversion import Drawn

# Squares that cancel to this fraction of their terms are zero.
CANCELLED = 1e-12
# Entries of the (draws, clusters, hypotheses) array that is held at a time.
MOST_ENTRIES = 1 << 22


@dataclass(frozen=True, eq=False)
class Hypotheses:
    """Linear hypotheses about coefficients, and what the null does to the scores."""

    columns: IntArray  # (k,): columns of the scores that matter
    L: FloatArray  # (q, k): C M
    M: FloatArray  # (k, k): (X'WX)^-1 of those columns
    P: FloatArray  # (k, q): M C'(C M C')^-1
    gap: FloatArray  # (q,): C beta - c
    imposed: bool  # whether residuals satisfy the null
    cells: bool  # whether grams are diagonal


def hypotheses_of(estimate: Estimate, contrasts: FloatArray, gap: FloatArray, imposed: bool) -> Hypotheses:
    """Hypotheses about the parameters as hypotheses about the coefficients.

    Shapes: contrasts (q, n_params), gap (q,).
    """
    assert estimate.refit is not None
    inverse = estimate.refit.inverse_gram
    coefficient_map: Matrix = estimate.coefficient_map
    C = dense(contrasts @ coefficient_map)
    if inverse.ndim == 1:
        # Cells do not depend on each other, so that the others drop out of everything below.
        columns = np.flatnonzero(np.any(C != 0, axis=0))
        C, M = C[:, columns], np.diag(inverse[columns])
    else:
        columns, M = np.arange(inverse.shape[0]), inverse
    L = C @ M
    P = np.asarray(np.linalg.solve(L @ C.T, L).T, dtype=np.float64)
    return Hypotheses(columns, L, M, P, gap, imposed, inverse.ndim == 1)


@dataclass(frozen=True, eq=False)
class Gathered:
    """Sums of the clusters of one clustering."""

    # (n, n_sets, k): for one hypothesis with the null imposed two sets, the constant and the slope in d; otherwise
    # one
    scores: FloatArray
    leverage: FloatArray  # (n, q, k): L G_c


def gather(estimate: Estimate, by: Axis, asked: Hypotheses) -> Gathered:
    """Scores (under the null) and leverages of the clusters of `by`."""
    scores, leverage = [], []
    for block in estimate.scores.cells(by):
        S = dense(block.totals[:, asked.columns])
        if asked.cells:
            weight = dense(compressed(block.gram)[:, asked.columns])
            pull, part = weight[:, :, None] * asked.P, weight[:, None, :] * asked.L
        else:
            assert block.gram is not None
            pull, part = block.gram @ asked.P, asked.L @ block.gram
        leverage.append(part)
        if not asked.imposed:
            scores.append(S[:, None])
        elif asked.gap.size == 1:
            scores.append(np.stack([S, pull[:, :, 0]], axis=1))
        else:
            scores.append((S + pull @ asked.gap)[:, None])
    return Gathered(np.concatenate(scores), np.concatenate(leverage))


@dataclass(frozen=True, eq=False)
class Incidence:
    """Where the clusters of a clustering and those that carry weights meet."""

    by: Axis  # columns of both
    cluster: IntArray  # (n,): cluster of the clustering that each meeting belongs to
    carrier: IntArray  # (n,): cluster that carries its weight
    shape: tuple[int, int]  # numbers of clusters of both kinds

    @property
    def single(self) -> bool:
        """Whether each cluster has one weight."""
        return self.cluster.size == self.shape[0]

    def spread(self, values: FloatArray) -> Matrix:
        """One value a meeting as a sparse matrix, clusters by carriers."""
        return sparse.csr_array((values, (self.cluster, self.carrier)), shape=self.shape)

    def summed(self, values: FloatArray) -> FloatArray:
        """Values (n, ...) summed within the clusters."""
        if self.single and np.array_equal(self.cluster, np.arange(self.cluster.size)):
            return values
        flat = values.reshape(values.shape[0], -1)
        member: Matrix = sparse.csr_array(
            (np.ones(self.cluster.size), (self.cluster, np.arange(self.cluster.size))),
            shape=(self.shape[0], self.cluster.size),
        )
        return np.asarray(member @ flat).reshape(self.shape[0], *values.shape[1:])


def incidence(estimate: Estimate, axes: tuple[Axis, ...], dims: tuple[int, ...], carrier: int) -> Incidence:
    """Meetings of the clustering on the axes `dims` with the axis that carries the weights."""
    if len(axes) == 1:
        every = np.arange(estimate.scores.n_clusters(axes[0]))
        return Incidence(axes[0], every, every, (every.size, every.size))
    labels = estimate.scores.row_labels()
    if labels is None:
        raise NotAvailableError(
            "a wild bootstrap of crossed clusters needs rows in memory; collect the frame first, or name one "
            "clustering."
        )
    by = union(*(axes[d] for d in sorted({*dims, carrier})))
    first = labels.codes(by).first
    clusters, carriers = labels.codes(union(*(axes[d] for d in dims))), labels.codes(axes[carrier])
    shape = (clusters.n_clusters, carriers.n_clusters)
    return Incidence(by, clusters.codes[first], carriers.codes[first], shape)


@dataclass(frozen=True, eq=False)
class SquareForm:
    """Sum of squares of u over the clusters of one clustering, for a single hypothesis."""

    # (n_carriers,) or (n_carriers, n_carriers): squares and products of the sets' first terms, in the order (0, 0),
    # (0, 1), (1, 1)
    own: list[FloatArray]
    mixed: FloatArray  # (n_carriers, n_sets, k): first terms of each set times the leverages
    gram: FloatArray  # (k, k): squares of the leverages

    def evaluate(self, V: FloatArray, mixed: FloatArray, pulled: FloatArray) -> FloatArray:
        """Constant, slope (halved) and square of the sum of squares as a polynomial in d, shape (n_pairs, n_draws).

        `mixed` and `pulled` (n_draws, n_sets, k) are the draws times `self.mixed` and times the scores M.
        """
        values = []
        for (a, b), own in zip(pairs(mixed.shape[1]), self.own, strict=True):
            terms = (V * V) @ own if own.ndim == 1 else np.sum((V @ own) * V, axis=1)
            across = np.sum(mixed[:, a] * pulled[:, b] + mixed[:, b] * pulled[:, a], axis=1)
            square = terms - across + np.sum((pulled[:, a] @ self.gram) * pulled[:, b], axis=1)
            values.append(np.where(square > CANCELLED * terms, square, 0.0) if a == b else square)
        if len(values) == 3:
            values[1] = np.where(values[2] > 0, values[1], 0.0)
        return np.array(values)


def pairs(n_sets: int) -> list[tuple[int, int]]:
    """Pairs of sets of scores, in the order of a polynomial's coefficients."""
    return [(0, 0)] if n_sets == 1 else [(0, 0), (0, 1), (1, 1)]


def square_form(sums: Gathered, where: Incidence, asked: Hypotheses) -> SquareForm:
    """The sum of squares of one clustering, for a single hypothesis."""
    first = [where.spread(column) for column in (sums.scores @ asked.L[0]).T]
    H = where.summed(sums.leverage[:, 0])
    own = []
    for a, b in pairs(len(first)):
        product = first[a].T @ first[b]
        # A cluster with one weight has no products between carriers.
        own.append(np.asarray(product.diagonal()) if where.single else dense(product))
    return SquareForm(own, np.stack([one.T @ H for one in first], axis=1), H.T @ H)


def draw_single(
    forms: list[SquareForm], rules: FloatArray, sums: Gathered, asked: Hypotheses, blocks: Iterable[FloatArray]
) -> Drawn:
    """Statistics of all draws of a single hypothesis: one matrix product of draws and cluster sums.

    Shapes: rules (n_rules, n_forms), blocks (n_draws, n_carriers).
    """
    n_sets, k = sums.scores.shape[1:]
    parts = [sums.scores @ asked.M, *(form.mixed for form in forms), (sums.scores @ asked.L[0])[:, :, None]]
    widths = np.cumsum([part[0].size for part in parts])[:-1]
    columns = np.concatenate([part.reshape(part.shape[0], -1) for part in parts], axis=1)
    numerators, squares = [], []
    for V in blocks:
        pulled, *mixed, numerator = np.split(V @ columns, widths, axis=1)
        shape = (V.shape[0], n_sets, k)
        each = [
            form.evaluate(V, one.reshape(shape), pulled.reshape(shape)) for form, one in zip(forms, mixed, strict=True)
        ]
        numerators.append(numerator)
        squares.append(np.einsum("rf,fpb->rpb", rules, np.array(each)))
    numerator, square = np.concatenate(numerators).T, np.concatenate(squares, axis=2)
    # Without the null imposed nothing depends on d.
    return Drawn(
        np.concatenate([numerator, np.zeros((2 - n_sets, numerator.shape[1]))]),
        np.concatenate([square, np.zeros((square.shape[0], 3 - square.shape[1], square.shape[2]))], axis=1),
    )


def draw_joint(
    wheres: list[Incidence],
    factors: list[float],
    parts: list[Gathered],
    asked: Hypotheses,
    carrier: int,
    blocks: Iterable[FloatArray],
) -> FloatArray:
    """Wald statistics of all draws of several hypotheses, with the sum of the one-way variances.

    Infinite where the variance of a draw is singular. Shapes: blocks (n_draws, n_carriers); returns (n_draws,).
    """
    q, sums = asked.gap.size, parts[carrier]
    own, pull = sums.scores[:, 0] @ asked.L.T, sums.scores[:, 0] @ asked.M
    forms = [
        (factor, [where.spread(column) for column in (part.scores[:, 0] @ asked.L.T).T], where.summed(part.leverage))
        for where, factor, part in zip(wheres, factors, parts, strict=True)
    ]
    most = max(1, MOST_ENTRIES // (q * max(where.shape[0] for where in wheres)))
    statistics = []
    for block in blocks:
        for V in (block[first : first + most] for first in range(0, block.shape[0], most)):
            variance = np.zeros((V.shape[0], q, q))
            pulled = V @ pull
            for factor, first, H in forms:
                u = np.stack([(one @ V.T).T - pulled @ H[:, i].T for i, one in enumerate(first)], axis=2)
                variance += factor * (np.swapaxes(u, 1, 2) @ u)
            statistics.append(wald_statistics(V @ own, variance))
    return np.concatenate(statistics)


def wald_statistics(effect: FloatArray, variance: FloatArray) -> FloatArray:
    """effect' V^-1 effect of many draws, infinite where V is singular. Shapes: effect (n, q), variance (n, q, q)."""
    scale = np.sqrt(np.einsum("nii->ni", variance))
    unit = np.where(scale > 0, scale, 1.0)
    values, axes = np.linalg.eigh(variance / (unit[:, :, None] * unit[:, None, :]))
    turned = np.einsum("nij,ni->nj", axes, effect / unit)
    regular = values[:, 0] > CANCELLED * values[:, -1]
    safe = np.where(regular[:, None], values, 1.0)
    return np.where(regular, np.sum(turned**2 / safe, axis=1), np.inf)
