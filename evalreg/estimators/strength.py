"""Strengths of models from their comparisons: the fit of logit P(a beats b) = theta_a - theta_b, and what it needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from scipy import sparse

from evalreg.checks import FloatArray, IntArray, listed
from evalreg.covariance.corrections import FULL_LEVERAGE
from evalreg.errors import DisconnectedError
from evalreg.numerics.graphs import reachable, strong_components
from evalreg.numerics.matrices import Matrix, compressed, in_rows, transposed, weighted_gram
from evalreg.numerics.newton import Evaluate, newton
from evalreg.numerics.packed import Touched
from evalreg.scores.sums import Block

# A prior of this precision on every strength keeps a fit finite, whatever the log.
RIDGE = 0.25
# Entries of matrices of clusters solved for at a time.
SOLVES_PER_BLOCK = 1 << 22


def incidence(first: IntArray, second: IntArray, n_models: int) -> Matrix:
    """Design of pairs: one for the first model, minus one for the second, shape (n_cells, n_models)."""
    n_cells = first.size
    data = np.tile([1.0, -1.0], n_cells)
    columns = np.column_stack([first, second]).ravel()
    return in_rows(data, columns, np.arange(0, 2 * n_cells + 1, 2), (n_cells, n_models))


def inner_products(first: IntArray, second: IntArray, n_models: int) -> Matrix:
    """x x' of each pair, flattened: shape (n_cells, n_models ** 2), four entries a row."""
    n_cells = first.size
    columns = np.column_stack(
        [first * n_models + first, first * n_models + second, second * n_models + first, second * n_models + second]
    )
    data = np.tile([1.0, -1.0, -1.0, 1.0], n_cells)
    starts = np.arange(0, 4 * n_cells + 1, 4)
    return in_rows(data, columns.ravel(), starts, (n_cells, n_models**2))


def logistic(design: Matrix, weight: FloatArray, mean: FloatArray, ridge: float = 0.0) -> Evaluate:
    """The quasi-likelihood of scores in [0, 1] whose mean is expit(x b), for `newton`; x is the design of each cell.

    `ridge` is the precision of a normal prior about zero on every coefficient.
    """
    p, rows = design.shape[1], transposed(compressed(design)) if sparse.issparse(design) else design.T

    def evaluate(beta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        index = design @ beta
        fitted, rest = scipy.special.expit(index), scipy.special.expit(-index)
        value = float(weight @ (mean * index - np.logaddexp(0.0, index))) - ridge / 2 * float(beta @ beta)
        # One minus a probability near one would have no digits left.
        gradient = rows @ (weight * (mean * rest - (1 - mean) * fitted)) - ridge * beta
        return value, gradient, weighted_gram(rows, design, weight * fitted * rest) + ridge * np.eye(p)

    return evaluate


def check_connected(first: IntArray, second: IntArray, mean: FloatArray, models: tuple[str, ...]) -> None:
    """Raise unless a chain of wins leads from every model to every other; a tie is a win both ways.

    Models that only win, only lose or never meet the others are named. Ford (1957), American Mathematical Monthly
    64(8), 28-33: the condition for a finite maximum.
    """
    n_models = len(models)
    wins, losses = mean > 0, mean < 1
    winner = np.concatenate([first[wins], second[losses]])
    loser = np.concatenate([second[wins], first[losses]])
    beats = reachable(winner, loser, n_models)
    parts, part = strong_components(beats)
    if parts.size == 1:
        return
    largest = np.argmax(np.bincount(part))
    cut = np.flatnonzero(part != largest)
    met = strong_components(reachable(np.append(winner, loser), np.append(loser, winner), n_models))[1]
    rest = part == largest
    sentences = []
    unmet = [models[m] for m in cut if met[m] != met[np.flatnonzero(rest)[0]]]
    if unmet:
        sentences.append(f"{listed(unmet)} met none of the others")
    remaining = [m for m in cut if models[m] not in unmet]
    reach = beats[np.flatnonzero(rest)[0]]
    winners, losers = ([models[m] for m in remaining if bool(reach[m]) is not won] for won in (True, False))
    if winners:
        sentences.append(f"{listed(winners)} never lost to the others")
    if losers:
        sentences.append(f"{listed(losers)} never won against the others")
    raise DisconnectedError(
        "every model needs wins and losses (or ties) that link it to the rest, or its strength is infinite; "
        f"{', '.join(sentences)}. Leave these models out, add comparisons, or use `win_rate`, which needs no link.",
        count=len(cut),
    )


@dataclass(frozen=True, eq=False)
class StrengthCentre:
    """Bradley-Terry totals, in place of those of pairs that met in a single cluster.

    The residuals of such a pair sum to zero inside its only cluster. What takes their place is the pair's total about
    the win probability that the other clusters predict: one Newton step, from a fit with a ridge, for each cluster.
    """

    # The two models of each cell, and psi and the weight of their comparisons.
    first: IntArray
    second: IntArray
    mean: FloatArray
    weight: FloatArray
    n_models: int

    def __call__(self, block: Block, leverage: Matrix) -> Matrix:
        """Totals of the cells of leverage 1, shape (n_clusters, n_cells)."""
        shares = compressed(leverage)
        full = 1.0 - shares.data < FULL_LEVERAGE
        row = np.repeat(np.arange(shares.shape[0]), np.diff(shares.indptr))[full]
        cell = shares.indices[full]
        if not row.size:
            return sparse.csr_array(shares.shape)
        clusters, place = np.unique(row, return_inverse=True)
        index = self._index_without(compressed(block.totals)[clusters], compressed(block.gram)[clusters], place, cell)
        data = self.weight[cell] * (self.mean[cell] - scipy.special.expit(index))
        return sparse.coo_array((data, (row, cell)), shape=shares.shape).tocsr()

    @cached_property
    def _fit(self) -> tuple[Matrix, FloatArray, FloatArray]:
        """The design of the pairs, strengths of all rows, and the inverse of their information."""
        X = incidence(self.first, self.second, self.n_models)
        return X, *newton(logistic(X, self.weight, self.mean, RIDGE), self.n_models)

    def _index_without(self, totals: Matrix, gram: Matrix, cluster: IntArray, cell: IntArray) -> FloatArray:
        """Differences of strengths in some cells, each without one of the clusters, shape (n_asked,).

        A cluster's information H_g = X_g'W_g X_g has entries for its own models alone. Of these, the step
        -(H - H_g)^-1 s_g is -(I - M H_g)^-1 M s_g, with M = H^-1 cut down to them.
        """
        X, theta, inverse = self._fit
        p = scipy.special.expit(X @ theta)
        working = sparse.diags_array(p * (1 - p)).tocsr() @ inner_products(self.first, self.second, self.n_models)
        # Sums about the fit, from sums about the means of the pairs.
        scores = compressed((totals + (gram @ sparse.diags_array(self.mean - p))) @ X).tocoo()
        models = Touched.of(gram, X)
        s, step = np.zeros((2, models.column.size))
        s[models.place(*scores.coords)] = scores.data
        for places, H in models.packed(compressed(gram @ working), SOLVES_PER_BLOCK):
            own = models.column[places]
            M = inverse[own[:, :, None], own[:, None, :]]
            step[places] = np.linalg.solve(np.eye(own.shape[1]) - M @ H, M @ s[places][:, :, None])[:, :, 0]
        first, second = (theta[m[cell]] - step[models.place(cluster, m[cell])] for m in (self.first, self.second))
        return np.asarray(first - second)
