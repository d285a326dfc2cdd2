"""A finite population, of which the rows are a sample drawn without replacement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray
from evalreg.numerics.matrices import Matrix, compressed


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
    """

    scale: FloatArray
    noise: Matrix | None = None
    axes: tuple[str, ...] = ()

    @property
    def factor(self) -> float:
        """The largest 1 - n/N, by which the variance of a draw with replacement is multiplied; Cochran, eq. 2.8."""
        return float(np.max(self.scale) ** 2)


def beside(first: Population | None, n_first: int, second: Population | None, n_second: int) -> Population | None:
    """The populations of two estimates with so many columns, side by side; None is one without end."""
    if first is None and second is None:
        return None
    one, other = (
        Population(np.ones(n)) if part is None else part for part, n in ((first, n_first), (second, n_second))
    )
    noise = None
    if one.noise is not None or other.noise is not None:
        parts = (
            sparse.csr_array((n, n)) if part.noise is None else compressed(part.noise)
            for part, n in ((one, n_first), (other, n_second))
        )
        noise = sparse.block_diag(list(parts), format="csr")
    return Population(np.concatenate([one.scale, other.scale]), noise, tuple(dict.fromkeys((*one.axes, *other.axes))))
