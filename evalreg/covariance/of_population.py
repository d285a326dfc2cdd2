"""The finite-population correction: of a sample that is a good part of all there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.dof import quadratic
from evalreg.data.clusters import axis_name
from evalreg.errors import NotAvailableError
from evalreg.estimate import PLAIN, About, Estimate, Population, Samples
from evalreg.numerics.matrices import Matrix, compressed, dense, scale_rows

# An eigenvalue below this share of the largest one is rounding.
ROUNDING = 1e-12


def as_drawn(estimate: Estimate, population: Population) -> Estimate:
    """The same with each column times sqrt(1 - n/N): Cochran (1977), eq. 2.8, 5.6 by stratum, 9.10 for clusters.

    Columns of different strata are independent, and those of one stratum and one sample share its factor.
    """
    A = estimate.coefficient_map
    scaled: Matrix | None = None
    if A is not None:
        scale = population.scale
        scaled = compressed(A) @ sparse.diags_array(scale) if sparse.issparse(A) else np.asarray(A) * scale
    return replace(
        estimate,
        bread=scale_rows(estimate.bread, population.scale),
        coefficient_map=scaled,
        family=estimate.family.drawn(population.scale),
        population=None,
    )


def each_column(estimate: Estimate, scale: FloatArray) -> Estimate:
    """The columns of the scores as parameters, each the mean of its rows times its sqrt(1 - n/N)."""
    inverse = _inverse_weights(estimate)
    return replace(
        estimate,
        names=tuple(map(str, range(scale.size))),
        params=np.zeros(scale.size),
        bread=sparse.diags_array(inverse * scale).tocsr(),
        coefficient_map=sparse.diags_array(np.where(inverse > 0, scale, 0.0)).tocsr(),
        about=About(),
        family=PLAIN,
        population=None,
    )


def _inverse_weights(estimate: Estimate) -> FloatArray:
    """One over the weight of each column, by which the bread is the parameters' map of the columns; 0 of one unused."""
    weight = np.asarray(abs(compressed(estimate.coefficient_map)).sum(axis=0)).ravel()
    size = np.asarray(abs(compressed(estimate.bread)).sum(axis=1)).ravel()
    return np.asarray(size / np.where(weight > 0, weight, 1.0))


def of_samples(cov: Covariance, columns: Covariance, estimate: Estimate, population: Population) -> Covariance:
    """The covariance where columns were drawn with different units of one population.

    `columns` is that of the columns, each times its own 1 - n/N.
    """
    samples, A = population.samples, compressed(estimate.coefficient_map)
    assert samples is not None
    found = [InCommon(one, population.scale, samples) for one in (columns.naive, *(t.matrix for t in columns.pieces))]
    naive, *terms = (dense(A @ (A @ one.matrix).T) for one in found)
    return replace(
        cov,
        pieces=tuple(replace(term, matrix=matrix) for term, matrix in zip(cov.pieces, terms, strict=True)),
        naive=naive,
        repaired=None if cov.repaired is None else terms[0],
        floor=found[1].floor(A, _noise_of_columns(estimate, population)),
    )


def _noise_of_columns(estimate: Estimate, population: Population) -> Matrix:
    if population.noise is None:
        return sparse.csr_array((population.scale.size,) * 2)
    inverse = sparse.diags_array(_inverse_weights(estimate))
    return inverse @ compressed(population.noise) @ inverse


class InCommon:
    """The covariance of means over samples of one population, from one that has the factors of the variances alone.

    Of simple random samples of n_a and n_b of N units with n_ab in common Cov = S_ab (n_ab/(n_a n_b) - 1/N), and what
    units in common show is S_ab n_ab/(n_a n_b): the factor of a pair is 1 - n_a n_b/(n_ab N), the smaller of the two
    where one sample is part of the other. Where it is negative, with fewer units in common than by chance or none,
    these do not tell S_ab: it is taken to be from 0 to sqrt(S_aa S_bb), whichever gives a contrast the wider error bar.
    """

    def __init__(self, drawn: FloatArray, scale: FloatArray, samples: Samples) -> None:
        self.matrix = np.array(drawn)
        # What covariances are taken below zero by where few units are in common, (n_columns, n_columns).
        self.unknown = np.zeros(drawn.shape)
        for columns in samples.mixed():
            own = np.ix_(columns, columns)
            self.matrix[own], self.unknown[own] = _mixed(drawn[own], scale[columns], samples, columns)

    def floor(self, A: Matrix, noise: Matrix) -> Widest | None:
        """The widest reading of every contrast; None where all pairs have enough units in common."""
        if not self.unknown.any():
            return None
        return Widest(A, self.matrix + self.unknown + dense(noise), self.unknown)


def _mixed(V: FloatArray, scale: FloatArray, samples: Samples, columns: IntArray) -> tuple[FloatArray, FloatArray]:
    """The covariance of some columns of one population, and how far below zero it was taken where it is not known."""
    of, n, N = samples.of[columns], samples.n[columns], samples.size[columns]
    common = samples.together[np.ix_(of, of)]
    whole = scale == 0
    held = np.where(whole, 1.0, scale)
    exact = common / np.outer(n, n) - 1.0 / N
    spread = np.diag(V) * n / held**2
    most = np.sqrt(np.outer(spread, spread))
    unit = V / np.outer(held, held) * np.outer(n, n) / np.maximum(common, 1.0)
    few = common < np.outer(n, n) / N
    unknown = np.where(few, -exact * most, 0.0)
    unknown[whole, :] = unknown[:, whole] = 0.0
    found = np.where(of[:, None] == of, V, np.where(few, -unknown, unit * exact))
    found[whole, :] = found[:, whole] = 0.0
    values, axes = np.linalg.eigh((found + found.T) / 2)
    negative = values < -ROUNDING * max(float(values[-1]), 0.0)
    return found - (axes[:, negative] * values[negative]) @ axes[:, negative].T, unknown


@dataclass(frozen=True, eq=False)
class Widest:
    """Variances of contrasts of means whose samples have few units in common: the most that they may be.

    Parameters
    ----------
    A : sparse array, shape (n_params, n_columns)
        The parameters as contrasts of the columns.
    settled : ndarray, shape (n_columns, n_columns)
        The covariance of the columns, zero where it is not known.
    unknown : ndarray, shape (n_columns, n_columns)
        How far below zero such a covariance may lie.
    """

    A: Matrix
    settled: FloatArray
    unknown: FloatArray

    def variance(self, contrasts: FloatArray) -> FloatArray:
        """Each covariance at the end that makes the variance of the contrast largest, shape (n_contrasts,)."""
        L = dense(compressed(contrasts) @ self.A)
        above, below = np.maximum(L, 0.0), np.maximum(-L, 0.0)
        return np.asarray(quadratic(L, self.settled) + 2 * np.sum((above @ self.unknown) * below, axis=1))

    def linear(self, contrasts: FloatArray, names: Sequence[str]) -> Widest:
        """The same for contrasts of the parameters."""
        return replace(self, A=compressed(contrasts) @ self.A)


def refuse_undrawn(cov: Covariance, population: Population) -> None:
    """Refuse clusters that were not drawn from the population."""
    if cov.crossed:
        raise NotAvailableError(
            'target="the full benchmark" is defined for one clustering; '
            f"{' + '.join(map(axis_name, cov.axes))} are crossed, and judges or prompts are no part of a benchmark, so "
            "that nothing says how many of them there are. Cluster by what was drawn from it."
        )
    found = tuple(axis_name(axis) for axis in cov.axes)
    if population.axes and found != population.axes:
        raise NotAvailableError(
            f"`n_population` counts {population.axes[0]} clusters, which were drawn whole; clustered by "
            f"{found[0] if found else 'nothing'} their share is not defined. Use groups={population.axes[0]!r}."
        )


def with_answers(cov: Covariance, estimate: Estimate, population: Population) -> Covariance:
    """Add what answers make: Cochran (1977), eq. 10.15, of endless answers.

    The degrees of freedom stay those of the questions, which are fewer than those of the answers.
    """
    if population.noise is None:
        return cov
    noise = dense(estimate.bread.T @ compressed(population.noise) @ estimate.bread)
    terms = tuple(replace(term, matrix=term.matrix + noise) for term in cov.pieces)
    repaired = None if cov.repaired is None else cov.repaired + noise
    return replace(cov, pieces=terms, naive=cov.naive + noise, repaired=repaired)
