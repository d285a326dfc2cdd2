"""A finite population; the rows are a sample drawn from it without replacement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray, held_property
from evalreg.data.clusters import Axis
from evalreg.errors import NotAvailableError
from evalreg.numerics.matrices import Matrix, compressed, dense


@dataclass(frozen=True, eq=False)
class Samples:
    """Which units each column of the scores was drawn with, where columns of one population have different ones.

    Parameters
    ----------
    members : sparse array, shape (n_units, n_samples)
        One where a sample has a unit. Units that are not known to be in common are different ones.
    of : ndarray of int, shape (n_columns,)
        The sample of each column.
    part : ndarray of int, shape (n_columns,)
        The population that it was drawn from: a stratum.
    size : ndarray, shape (n_columns,)
        N, the units of that population.
    """

    members: Matrix
    of: IntArray
    part: IntArray
    size: FloatArray

    @held_property
    def together(self) -> FloatArray:
        """Units that two samples have in common, shape (n_samples, n_samples)."""
        return dense(self.members.T @ self.members)

    @property
    def n(self) -> FloatArray:
        """Units of each column, shape (n_columns,)."""
        return np.asarray(np.diag(self.together)[self.of])

    def mixed(self) -> list[IntArray]:
        """The columns of each population from which they are not one and the same sample."""
        parts = [np.flatnonzero(self.part == part) for part in np.unique(self.part)]
        return [columns for columns in parts if np.unique(self.of[columns]).size > 1]

    def answered(self, noise: Matrix) -> Matrix:
        """Entries of a matrix of columns times n_a n_b/(n_ab N): what new answers to the units in common make."""
        entries = sparse.coo_array(compressed(noise))
        i, j = entries.coords
        n, common = self.n, self.together[self.of[i], self.of[j]]
        share = n[i] * n[j] / np.maximum(common, 1.0) / self.size[i]
        return sparse.csr_array((entries.data * share, (i, j)), entries.shape)


@dataclass(frozen=True, eq=False)
class Population:
    """How much of a population was drawn, and what does not become less by it.

    Parameters
    ----------
    scale : ndarray, shape (n_columns,)
        sqrt(1 - n/N) of what each column of the scores was drawn from.
    noise : ndarray or sparse array, shape (n_columns, n_columns), optional
        n/N times the covariance of the totals of the columns that the answers alone make; with `scale` they are whole.
    axes : tuple of str
        The clustering whose whole clusters were drawn; empty for questions drawn one by one.
    samples : Samples, optional
        What was drawn for each column, where columns differ in it.
    """

    scale: FloatArray
    noise: Matrix | None = None
    axes: tuple[str, ...] = ()
    samples: Samples | None = None

    @property
    def factor(self) -> float:
        """The largest 1 - n/N, by which the variance of a draw with replacement is multiplied; Cochran, eq. 2.8."""
        return float(np.max(self.scale) ** 2)


def beside(
    first: tuple[Population | None, int, Axis], second: tuple[Population | None, int, Axis], same_rows: bool
) -> Population | None:
    """The populations of two estimates with so many columns and these questions, side by side; None is without end."""
    if first[0] is None and second[0] is None:
        return None
    (one, n_first, _), (other, n_second, _) = (
        (Population(np.ones(n)) if part is None else part, n, item) for part, n, item in (first, second)
    )
    noise = None
    if one.noise is not None or other.noise is not None:
        parts = (
            sparse.csr_array((n, n)) if part.noise is None else compressed(part.noise)
            for part, n in ((one, n_first), (other, n_second))
        )
        noise = sparse.block_diag(list(parts), format="csr")
    scale, axes = np.concatenate([one.scale, other.scale]), tuple(dict.fromkeys((*one.axes, *other.axes)))
    if one.samples is None and other.samples is None:
        return Population(scale, noise, axes)
    return Population(scale, noise, axes, _samples_beside(one, other, same_rows, first[2] == second[2]))


def _samples_beside(one: Population, other: Population, same_rows: bool, same_item: bool) -> Samples:
    """The samples of both: of the same units where the rows are the same, from populations apart where not."""
    first, second = (_samples_of(part) for part in (one, other))
    # Units have no names here: those of one column are in the order of its labels, those of another in another.
    alike = one.samples is not None and other.samples is not None and one.axes == other.axes and same_item
    alike = alike and first.members.shape[0] == second.members.shape[0] and _same_sizes(first, second)
    if same_rows and not alike:
        raise NotAvailableError(
            "of a finite benchmark of which models answered different questions, only estimates of one sampling can be "
            "stacked. Give both the same `by`, `item`, `groups` and `n_population`."
        )
    join = sparse.hstack if same_rows else sparse.block_diag
    return Samples(
        compressed(join([first.members, second.members])),
        np.concatenate([first.of, second.of + first.members.shape[1]]),
        np.concatenate([first.part, second.part + (0 if same_rows else int(first.part.max()) + 1)]),
        np.concatenate([first.size, second.size]),
    )


def _same_sizes(first: Samples, second: Samples) -> bool:
    """Whether the populations of both have the same numbers of units."""
    one, other = (dict(zip(part.part.tolist(), part.size.tolist(), strict=True)) for part in (first, second))
    return one == other


def _samples_of(population: Population) -> Samples:
    """The samples, or one in common where columns do not differ in them."""
    n = population.scale.size
    one = Samples(sparse.csr_array((1, 1)), np.zeros(n, np.intp), np.zeros(n, np.intp), np.full(n, np.inf))
    return population.samples or one
