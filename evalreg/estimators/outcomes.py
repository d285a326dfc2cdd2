"""Likelihoods of comparisons: a tie as half a win for either side, or as an outcome with a probability of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray
from evalreg.numerics.matrices import Matrix, compressed, scale_rows, transposed, weighted_gram
from evalreg.numerics.newton import Evaluate
from evalreg.scores.mapped import flattened


@dataclass(frozen=True, eq=False)
class Tied:
    """Moments of a row under Davidson's model: E[s] of its score and E[t], t one where it is a tie."""

    score: FloatArray
    tie: FloatArray
    # Logarithm of the sum of the three outcomes' weights.
    log_normalizer: FloatArray

    @property
    def variances(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Var(s), Cov(s, t), Var(t)."""
        win = self.score - self.tie / 2
        of_score = win + self.tie / 4 - self.score**2
        return of_score, self.tie / 2 - self.score * self.tie, self.tie * (1 - self.tie)


def tied_moments(index: FloatArray, log_tie: float | FloatArray) -> Tied:
    """Moments under P(win) : P(tie) : P(loss) = exp(d/2) : nu : exp(-d/2).

    `index` is d, the difference of the strengths. Davidson (1970), JASA 65, 317-328, equation 2.4.
    """
    parts = np.stack([index / 2, np.broadcast_to(log_tie, index.shape), -index / 2])
    total = np.logaddexp(np.logaddexp(parts[0], parts[1]), parts[2])
    win, tie, _ = np.exp(parts - total)
    return Tied(win + tie / 2, tie, total)


def davidson(design: Matrix, weight: FloatArray, mean: FloatArray, share: FloatArray) -> Evaluate:
    """The likelihood of wins, ties and losses, for `newton`; the last coefficient is log nu.

    `design` is x of each cell, (n_cells, p - 1); weight, mean score and share of ties are those of each cell.
    """
    rows = transposed(compressed(design)) if sparse.issparse(design) else design.T

    def evaluate(beta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        index = design @ beta[:-1]
        moments = tied_moments(index, float(beta[-1]))
        value = float(weight @ ((mean - 0.5) * index + share * beta[-1] - moments.log_normalizer))
        of_score, both, of_tie = (weight * part for part in moments.variances)
        gradient = np.append(design.T @ (weight * (mean - moments.score)), weight @ (share - moments.tie))
        cross = design.T @ both
        top = weighted_gram(rows, design, of_score)
        information = np.block([[top, cross[:, None]], [cross[None, :], np.array([[of_tie.sum()]])]])
        return value, gradient, information

    return evaluate


class Outcomes(Protocol):
    """What a likelihood says about the cells, at many coefficients at once.

    The values of a row are its score and, where ties are an outcome, whether it is one; the columns of values are the
    cells of the first, then those of the second.
    """

    @property
    def design(self) -> Matrix:
        """Maps residuals of the values to the gradient, shape (n_values, p)."""

    def only(self, kept: IntArray) -> Outcomes:
        """The same likelihood with some of its coefficients only, the others zero."""

    def fitted(self, beta: FloatArray) -> FloatArray:
        """Expected values at each row of coefficients, shape (m, n_values)."""

    def information(self, beta: FloatArray, weight: FloatArray) -> FloatArray:
        """Information at each row of coefficients and of weights (m, n_values), shape (m, p, p)."""

    def flat(self, beta: FloatArray) -> Matrix:
        """Information of a row of each cell, of weight 1, at coefficients (p,), flattened to (n_cells, p ** 2)."""


@dataclass(frozen=True, eq=False)
class Logistic:
    """The logistic quasi-likelihood: one value a row, its score."""

    # x of each cell, (n_cells, p).
    design: Matrix

    @cached_property
    def _products(self) -> Matrix:
        return compressed(flattened(self.design, np.ones(self.design.shape[0])).T)

    def only(self, kept: IntArray) -> Logistic:
        """With some of the coefficients only."""
        return Logistic(self.design[:, kept])

    def fitted(self, beta: FloatArray) -> FloatArray:
        """Expected scores at each row of coefficients."""
        return _expit(np.asarray(self.design @ beta.T)).T

    def information(self, beta: FloatArray, weight: FloatArray) -> FloatArray:
        """Information at each row of coefficients and weights."""
        p = self.fitted(beta)
        return _square(self._products @ (weight * p * (1 - p)).T)

    def flat(self, beta: FloatArray) -> Matrix:
        """Information of a row of each cell."""
        p = self.fitted(beta[None, :])[0]
        return flattened(self.design, p * (1 - p))


@dataclass(frozen=True, eq=False)
class Davidson:
    """Davidson's likelihood: two values a row, its score and whether it is a tie."""

    # x of each cell, (n_cells, p - 1).
    of_score: Matrix

    @cached_property
    def design(self) -> Matrix:
        """Maps residuals of scores and of ties to the gradient."""
        return sparse.block_array([[self.of_score, None], [None, self._last]]).tocsr()

    @property
    def _last(self) -> Matrix:
        n_cells = self.of_score.shape[0]
        return sparse.csr_array(np.ones((n_cells, 1)))

    @cached_property
    def _products(self) -> tuple[Matrix, Matrix, Matrix]:
        """x x', x e' + e x' and e e' of each cell, with e the last coordinate; transposed."""
        n_cells = self.of_score.shape[0]
        x, one = sparse.hstack([self.of_score, 0 * self._last]).tocsr(), np.ones(n_cells)
        e = sparse.hstack([sparse.csr_array(self.of_score.shape), self._last]).tocsr()
        of_x, of_e = flattened(x, one), flattened(e, one)
        both = flattened(x + e, one) - of_x - of_e
        return compressed(of_x.T), compressed(both.T), compressed(of_e.T)

    def _moments(self, beta: FloatArray) -> Tied:
        return tied_moments(np.asarray((self.of_score @ beta[:, :-1].T).T), beta[:, -1:])

    def only(self, kept: IntArray) -> Davidson:
        """With some of the coefficients only, the last among them."""
        return Davidson(self.of_score[:, kept[:-1]])

    def fitted(self, beta: FloatArray) -> FloatArray:
        """Expected scores, then expected ties, at each row of coefficients."""
        moments = self._moments(beta)
        return np.hstack([moments.score, moments.tie])

    def information(self, beta: FloatArray, weight: FloatArray) -> FloatArray:
        """Information at each row of coefficients and weights."""
        weight = weight[:, : self.of_score.shape[0]]
        variances = self._moments(beta).variances
        return _square(
            sum(products @ (weight * part).T for products, part in zip(self._products, variances, strict=True))
        )

    def flat(self, beta: FloatArray) -> Matrix:
        """Information of a row of each cell."""
        of_score, both, of_tie = (part[0] for part in self._moments(beta[None, :]).variances)
        last, x = self._last, self.of_score
        # [[a x x', b x], [b x', d]] as a (x, b/a)(x, b/a)' + (d - b^2/a) of the last column; b is 0 where a is.
        slope = np.divide(both, of_score, out=np.zeros_like(both), where=of_score > 0)
        beside = sparse.hstack([x, scale_rows(last, slope)]).tocsr()
        alone = sparse.hstack([sparse.csr_array(x.shape), last]).tocsr()
        return compressed(flattened(beside, of_score) + flattened(alone, of_tie - both * slope))


def _expit(index: FloatArray) -> FloatArray:
    """Probabilities of log-odds, in their place: for millions a third of the time of scipy's."""
    with np.errstate(over="ignore"):
        np.exp(np.negative(index, out=index), out=index)
    index += 1.0
    return np.reciprocal(index, out=index)


def _square(flat: FloatArray) -> FloatArray:
    """Columns of p ** 2 entries as matrices, shape (m, p, p)."""
    p = round(flat.shape[0] ** 0.5)
    return np.ascontiguousarray(np.asarray(flat).T).reshape(-1, p, p)
