"""Inclusion-exclusion over crossed axes: its signs, its sum, its floor and its repair, and the terms that are summed.

Cameron, Gelbach and Miller (2011), JBES 29(2), eq. 2.13; the max rule of MacKinnon, Nielsen and Webb (2024),
arXiv:2406.08880.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TypeAlias

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, RepairName, frozen
from evalreg.covariance.absorbed import CANCELS
from evalreg.covariance.dof import CellLeverage, FactoredLeverage, FixedDof, Leverage, Projected, WelchDof, quadratic
from evalreg.data.clusters import Axis, axis_name
from evalreg.numerics.matrices import DENSE_SHARE, Matrix, compressed, dense, of_columns, sum_blocks

Dims: TypeAlias = tuple[int, ...]
"""The axes that a term intersects; one for an axis itself, none for independent rows."""


def subsets(n_axes: int) -> list[tuple[int, ...]]:
    """Non-empty subsets of the axes, the axes themselves first."""
    return [dims for size in range(1, n_axes + 1) for dims in combinations(range(n_axes), size)]


def sign(dims: Dims) -> int:
    """(-1)^(|A|+1); 1 for independent rows."""
    return 1 if len(dims) % 2 or not dims else -1


def subset_signs(dims: list[tuple[int, ...]]) -> FloatArray:
    """Inclusion-exclusion over each non-empty set of axes, shape (n_sets, n_terms).

    The variance and the width of several axes are the largest over these sets, so that none is smaller than fewer axes
    alone give.
    """
    axes = sorted({axis for one in dims for axis in one})
    sets = [set(chosen) for size in range(1, len(axes) + 1) for chosen in combinations(axes, size)]
    return np.array([[(-1.0) ** (len(one) + 1) if set(one) <= chosen else 0.0 for one in dims] for chosen in sets])


def sums_of(dims: Sequence[Dims], repair: str) -> FloatArray:
    """Signs of the sums of which the largest is the variance, shape (n_sums, n_terms)."""
    if repair == "two-term":
        return np.array([[float(len(one) == 1) for one in dims]])
    signs = subset_signs(list(dims))
    # The last set is that of all axes.
    return signs if repair == "max" else signs[-1:]


def crossed_variance(each: FloatArray, dims: Sequence[Dims], repair: RepairName) -> FloatArray:
    """Variances of contrasts, shape (m,), from those of the terms, shape (n_terms, m).

    The sum can be too small, or negative; under "max" no set of fewer axes gives more. The eigenvalue of a single
    variance is that variance, so that "eigen" is "none" here.
    """
    return np.asarray(np.max(sums_of(dims, repair) @ each, axis=0))


@dataclass(frozen=True, eq=False)
class Centring:
    """Maps from parameters to others that do not depend on which model is the reference, and back, both (n, n)."""

    there: FloatArray
    back: FloatArray


def centring_of(rated: BoolArray, zero: int | None, units: FloatArray) -> Centring:
    """To ratings in log-odds that sum to zero.

    `rated` are the parameters that are ratings, shape (n,), `zero` is the one that is 0 (None: they sum to zero) and
    `units` that of a log-odds in each parameter, shape (n,).
    """
    n_rated = np.count_nonzero(rated)
    there, back = np.eye(rated.size), np.eye(rated.size)
    there[np.ix_(rated, rated)] -= 1.0 / n_rated
    if zero is None:
        back = there.copy()
    else:
        back[rated, zero] -= 1.0
    return Centring(there / units, back * units[:, None])


def crossed_matrix(
    matrices: Sequence[FloatArray], dims: Sequence[Dims], repair: RepairName, centring: Centring | None = None
) -> tuple[FloatArray | None, str]:
    """The matrix that variances come from, shape (n, n), or None (from the terms); and what the repair changed.

    Eigenvalues depend on the parameters that they are of; `centring` has those in which they are cut.
    """
    raw = sum_blocks(sign(one) * V for one, V in zip(dims, matrices, strict=True))
    if repair == "none":
        return raw, ""
    if repair == "two-term":
        one_way = (V for one, V in zip(dims, matrices, strict=True) if len(one) == 1)
        return sum_blocks(one_way), "the intersection terms were left out"
    if repair == "max":
        largest = crossed_variance(np.array([np.diag(V) for V in matrices]), dims, "max")
        raised = int(np.sum(np.diag(raw) < largest * (1 - 1e-12)))
        fewer = "one-way variance" if max(map(len, dims)) == 2 else "variance of fewer axes"
        return None, f"{raised} of {raw.shape[0]} variances were raised to the largest {fewer}" if raised else ""
    centred = raw if centring is None else centring.there @ raw @ centring.there.T
    values, axes = np.linalg.eigh((centred + centred.T) / 2)
    # Win rates add up to a constant, whose eigenvalue of zero is rounding of either sign.
    negative = values < -1e-14 * max(values[-1], 0.0)
    if not negative.any():
        return raw, ""
    cut = int(np.sum(negative))
    share = -values[values < 0].sum() / np.abs(values).sum()
    repaired = (axes * np.clip(values, 0.0, None)) @ axes.T
    if centring is not None:
        repaired = centring.back @ repaired @ centring.back.T
    return repaired, f"{cut} negative eigenvalue{'s' if cut > 1 else ''} ({share:.2g} of the total) set to zero"


# A variance below this fraction of the naive one is rounding, not a variance.
NO_VARIANCE = 1e-14


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
        found = None
        if isinstance(self.leverage, CellLeverage | FactoredLeverage) and _many_pairs(C, self.contrasts):
            found = self.leverage.of_pairs(C, self._projected)
        return self.leverage.dof(self._product(C)) if found is None else found

    def _product(self, C: Matrix) -> Matrix:
        """C times the contrasts; sparse where both may be, as differences of many models touch few of the cells."""
        if sparse.issparse(self.contrasts) or (sparse.issparse(C) and self._thin is not None):
            return of_columns(compressed(C), self._thin)
        if C.size > 1 << 14 and self._thin is not None and np.count_nonzero(C) < DENSE_SHARE * C.size:
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
        return self.leverage.project(self.contrasts)

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
