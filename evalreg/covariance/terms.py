"""A term of a covariance: that of one clustering or intersection, or of independent rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, frozen
from evalreg.covariance.crossed import sign
from evalreg.covariance.dof import SMALL, FixedDof, Leverage, RoughDof, WelchDof, quadratic
from evalreg.covariance.leverages import CellLeverage, FactoredLeverage, Projected, project
from evalreg.covariance.row_leverages import RowLeverage
from evalreg.data.clusters import Axis, axis_name
from evalreg.numerics.matrices import DENSE_SHARE, Matrix, compressed, dense, of_columns

# A variance below this fraction of the naive one is rounding, not a variance.
NO_VARIANCE = 1e-14

# What is left of a direction in a parameter is rounding.
CANCELS = 1e-8


@dataclass(frozen=True, eq=False)
class Term:
    """The covariance on one clustering, a term of inclusion-exclusion.

    Parameters
    ----------
    by : Axis
        Columns whose joint values are the clusters.
    dims : tuple of int
        The axes that it intersects; one for an axis itself, none for the naive covariance.
    n_clusters : int
        G_A.
    matrix : ndarray, shape (n_params, n_params)
        V_A with its small-sample factor.
    leverage : Leverage, optional
        Degrees of freedom of contrasts of the coefficients.
    contrasts : ndarray or sparse array, shape (n_params, n_columns), optional
        The parameters as contrasts of the coefficients.
    lost : ndarray of bool, shape (n_params,)
        Parameters with cells that rest on a single cluster.
    blind : ndarray, shape (n_params, n_directions), optional
        What single clusters alone determine in a regression: how the parameters move along each such direction. A
        contrast that moves has no variance; one in which it cancels has.
    """

    by: Axis
    dims: tuple[int, ...]
    n_clusters: int
    matrix: FloatArray
    leverage: Leverage | None
    contrasts: Matrix | None
    lost: BoolArray
    blind: FloatArray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", frozen(self.matrix))

    @property
    def name(self) -> str:
        """Columns joined by a colon; "rows" for the naive covariance."""
        return axis_name(self.by) if self.by else "rows"

    @property
    def sign(self) -> int:
        """(-1)^(|A|+1)."""
        return sign(self.dims)

    @property
    def dof_name(self) -> str:
        """What the degrees of freedom are, in a word."""
        if isinstance(self.leverage, WelchDof):
            single = self.contrasts is None or bool(np.all(np.count_nonzero(dense(self.contrasts), axis=1) == 1))
            return "n - 1" if single else "Welch-Satterthwaite"
        return "n - k" if isinstance(self.leverage, FixedDof) else "G - 1"

    def variance(self, C: Matrix) -> FloatArray:
        """Diagonal of C V_A C'."""
        return quadratic(C, self.matrix)

    def dof(self, C: Matrix) -> FloatArray:
        """Degrees of freedom of each contrast of the parameters."""
        if self.leverage is None or C.shape[0] == 0:
            return np.full(C.shape[0], float(self.n_clusters - 1))
        if self.contrasts is None:
            return self.leverage.dof(dense(C))
        of_cells = isinstance(self.leverage, CellLeverage | FactoredLeverage)
        found = self._projected.dof(C) if of_cells and _many_pairs(C, self.contrasts) else None
        return self.leverage.dof(self._product(C)) if found is None else found

    def dof_bounds(self, C: Matrix) -> tuple[FloatArray, FloatArray]:
        """Numbers between which these lie, of differences of two parameters where they cost much; else they, twice."""
        if self.rough is None:
            return (self.dof(C),) * 2
        return self.rough(C)

    @cached_property
    def rough(self) -> RoughDof | None:
        """What bounds degrees of freedom; None where those of a contrast cost little."""
        if not isinstance(self.leverage, RowLeverage):
            return None
        n_params = self.matrix.shape[0]
        return self.leverage.rough(np.eye(n_params) if self.contrasts is None else dense(self.contrasts))

    def _product(self, C: Matrix) -> Matrix:
        """C times the contrasts; sparse where both may be, as differences of many models touch few of the cells."""
        if sparse.issparse(self.contrasts) or (sparse.issparse(C) and self._thin is not None):
            return of_columns(compressed(C), self._thin)
        if C.size > SMALL and self._thin is not None and np.count_nonzero(C) < DENSE_SHARE * C.size:
            return dense(of_columns(compressed(C), self._thin))  # the parameters themselves, of which there are many
        return np.asarray(C @ self.contrasts)

    @cached_property
    def _thin(self) -> Matrix | None:
        """The contrasts in compressed sparse rows; None where they are dense."""
        own: Matrix = self.contrasts
        if not sparse.issparse(own) and np.count_nonzero(own) >= DENSE_SHARE * own.size:
            return None
        return compressed(own)

    @cached_property
    def _projected(self) -> Projected:
        assert isinstance(self.leverage, CellLeverage | FactoredLeverage)
        assert self.contrasts is not None
        return project(self.leverage, self.contrasts)

    def hotelling(self, C: FloatArray) -> float:
        """eta of the approximate Hotelling test of contrasts of the parameters; G - 1 without leverages."""
        if self.leverage is None:
            return float(self.n_clusters - 1)
        return self.leverage.hotelling(C if self.contrasts is None else dense(C @ self.contrasts))

    def linear(self, C: FloatArray) -> Term:
        """The same term for contrasts of the parameters."""
        contrasts = None if self.contrasts is None else C @ self.contrasts
        blind = None if self.blind is None else _moved(C, self.blind)
        return replace(self, matrix=C @ self.matrix @ C.T, contrasts=contrasts, lost=(C != 0) @ self.lost, blind=blind)

    def undetermined(self, C: Matrix) -> BoolArray:
        """Contrasts of a regression that some cluster alone determines, wholly or in part, shape (m,)."""
        if self.blind is None:
            return np.zeros(C.shape[0], dtype=bool)
        return np.asarray(np.any(_moved(C, self.blind) != 0, axis=1))


def _many_pairs(C: Matrix, contrasts: Matrix) -> bool:
    """Whether there are more combinations than contrasts, of two of them each."""
    return (
        sparse.issparse(contrasts)
        and C.shape[0] > C.shape[1]
        and bool(np.all(np.isin(np.diff(compressed(C).indptr), (1, 2))))
    )


def _moved(C: Matrix, directions: FloatArray) -> FloatArray:
    """C D, zero where it cancels."""
    moved = C @ directions
    moved[np.abs(moved) <= CANCELS * (abs(C) @ np.abs(directions))] = 0.0
    return np.asarray(moved)
