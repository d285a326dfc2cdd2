"""Corrections for few or unequal clusters: one function for each published formula.

Two forms of each. *Cells*: the design is one dummy a cell, X'WX is diagonal, and the leverage of cluster g in cell k
is its share h = W_gk / W_k. *Rows*: any design; with RR' = M = (X'WX)^-1 the leverage of cluster g is the k x k matrix
L_g = R'X_g'W X_g R, so that nothing is ever n_g x n_g or G x G.

The adjustments are (I - L_g)^-p with p = 0 for CR0 and CR1, 1/2 for CR2, 1 for CR3; where a cluster has leverage 1
the Moore-Penrose inverse gives it nothing.
"""

from __future__ import annotations

import math

import numpy as np

from evalreg.checks import BoolArray, FloatArray
from evalreg.numerics.matrices import Matrix, compressed, is_identity, with_entries

# 1 - leverage below this is leverage 1: rounding in sums of some 1e6 terms, with room.
FULL_LEVERAGE = 1e-10
# Up to these norms of L_g, the root of its sum of squares, the binomial series of (I - L_g)^-p is used: the first for
# matrices of so many rows at most, the other for larger ones, whose eigenvectors cost less beside a product. No norm is
# above the trace, and the traces sum to k, so that few clusters need eigenvectors, however many clusters there are.
SERIES_NORM, SERIES_ROWS, LARGER_NORM = 0.05, 64, 0.01
# The same for matrices with as many rows as a cluster, where few products make many terms, or vectors take the series.
NARROW_NORM = 0.3
SERIES_ERROR = 1e-17
# A sum of eighth powers this far below 1 holds no eigenvalue of 1, whatever the rounding.
SURELY_BELOW = 1e-6


def adjust_cell_totals(totals: Matrix, leverage: Matrix, power: float) -> Matrix:
    """Cluster totals of cells divided by (1 - h)^power, zero where h is 1; the power is 1/2 for CR2, 1 for CR3.

    h is the cluster's share of the cell's weight. Bell and McCaffrey (2002), Survey Methodology 28; Pustejovsky and
    Tipton (2018), JBES 36(4), eq. 8, for a saturated regression. Shapes: totals, leverage (n_clusters, n_cells).
    """
    return scaled_totals(totals, cell_scale(leverage, power)) if power else compressed(totals)


def scaled_totals(totals: Matrix, scale: Matrix) -> Matrix:
    """The same, from the `cell_scale` of the leverages."""
    sums = compressed(totals)
    if np.array_equal(sums.indptr, scale.indptr) and np.array_equal(sums.indices, scale.indices):
        return with_entries(sums, sums.data * scale.data)
    return sums.multiply(scale).tocsr()


def cell_scale(leverage: Matrix, power: float) -> Matrix:
    """(1 - h)^-power in each entry, zero where h is 1."""
    return with_entries(leverage, power_scale(leverage.data, power))


def power_scale(leverage: FloatArray, power: float) -> FloatArray:
    """(1 - h)^-power, zero where h is 1."""
    rest = 1.0 - leverage
    full = rest < FULL_LEVERAGE
    rest[full] = 1.0
    scale = 1.0 / np.sqrt(rest) if power == 0.5 else rest**-power
    scale[full] = 0.0
    return scale


def full_leverage_cells(leverage: Matrix) -> BoolArray:
    """Whether each cell rests on a single cluster, some h of it being 1. Shapes: leverage (n_clusters, n_cells)."""
    lost = np.zeros(leverage.shape[1], dtype=bool)
    lost[leverage.indices[1.0 - leverage.data < FULL_LEVERAGE]] = True
    return lost


def inverse_power_times(L: FloatArray, power: float, vectors: FloatArray) -> FloatArray:
    """(I - L_g)^-power times a matrix, for each cluster; eigenvalue 1 of L_g is mapped to 0 (Moore-Penrose).

    Shapes: L (n_clusters, k, k), eigenvalues in [0, 1]; vectors (n_clusters, k, m) or (k, m); returns (n_clusters, k,
    m).
    """
    vectors = np.broadcast_to(vectors, (L.shape[0], *vectors.shape[-2:]))
    if power == 0:
        return vectors
    norm, large = _norms(L, SERIES_NORM if L.shape[1] <= SERIES_ROWS else LARGER_NORM)
    if not large.any():
        return _series_times(L, power, vectors, float(norm.max(initial=0.0)))
    if large.all():
        return _eigen_times(L, power, vectors)
    result = np.empty(vectors.shape)
    small = ~large
    result[small] = _series_times(L[small], power, vectors[small], float(norm[small].max(initial=0.0)))
    result[large] = _eigen_times(L[large], power, vectors[large])
    return result


def _norms(L: FloatArray, most: float) -> tuple[FloatArray, BoolArray]:
    """The root of the sum of squares of each matrix, below which its eigenvalues are, and where it takes no series."""
    norm = np.sqrt(np.einsum("gij,gij->g", L, L))
    return norm, norm > most


def _series_times(L: FloatArray, power: float, vectors: FloatArray, largest: float) -> FloatArray:
    # Horner's rule for sum_j a_j L^j with a_j = a_(j-1) (power + j - 1)/j.
    result = vectors
    for j in range(_degree(largest), 0, -1):
        result = vectors + ((power + j - 1) / j) * (L @ result)
    return result


def _degree(largest: float) -> int:
    """Terms of the series beyond the first that are not lost in rounding."""
    degree = 1
    while degree < 64 and largest ** (degree + 1) > SERIES_ERROR:
        degree += 1
    return degree


def _eigen_times(L: FloatArray, power: float, vectors: FloatArray) -> FloatArray:
    values, axes = np.linalg.eigh(L)
    rest = 1.0 - values
    full = rest < FULL_LEVERAGE
    scale = np.where(full, 0.0, np.where(full, 1.0, rest) ** -power)
    return axes @ (scale[:, :, None] * (np.swapaxes(axes, 1, 2) @ vectors))


def narrow_adjustment(K: FloatArray, power: float) -> FloatArray:
    """(I - K_g)^-p of K_g = Z_gZ_g', which has the eigenvalues of L_g = Z_g'Z_g; 1 is mapped to 0.

    Shapes (n_clusters, n, n) with n the rows of a cluster.
    """
    if K.shape[1] == 1:
        return _narrow_scales(K, power)[0]
    norm, large = _norms(K, NARROW_NORM)
    coefficients = _binomial(power, float(norm[~large].max(initial=0.0)))
    if not large.any():
        return _powers_of(K, coefficients)
    adjustment = np.empty(K.shape)
    values, axes = np.linalg.eigh(K[large])
    adjustment[large] = (axes * _narrow_scales(values, power)[0][:, None, :]) @ np.swapaxes(axes, 1, 2)
    adjustment[~large] = _powers_of(K[~large], coefficients)
    return adjustment


def narrow_change_times(K: FloatArray, power: float, vectors: FloatArray) -> FloatArray:
    """F_g times a matrix, where (I - L_g)^-p = I + Z_g'F_gZ_g; shapes (n_clusters, n, n) and (n_clusters, n, m)."""
    if K.shape[1] == 1:
        return np.asarray(_narrow_scales(K, power)[1] * vectors)
    norm, large = _norms(K, NARROW_NORM)
    coefficients = _binomial(power, float(norm[~large].max(initial=0.0)))[1:]
    if not large.any():
        return _horner(K, coefficients, vectors)
    result = np.empty(vectors.shape)
    values, axes = np.linalg.eigh(K[large])
    result[large] = axes @ (_narrow_scales(values, power)[1][:, :, None] * (np.swapaxes(axes, 1, 2) @ vectors[large]))
    result[~large] = _horner(K[~large], coefficients, vectors[~large])
    return result


def _narrow_scales(values: FloatArray, power: float) -> tuple[FloatArray, FloatArray]:
    """(1 - v)^-p and ((1 - v)^-p - 1)/v of eigenvalues."""
    full = 1.0 - values < FULL_LEVERAGE
    log = np.log1p(np.where(full, 0.0, -values))
    scale = np.where(full, 0.0, np.exp(-power * log))
    # Where an eigenvalue is next to 0 the quotient has its limit, p.
    none = np.abs(values) < np.finfo(float).tiny ** 0.5
    return scale, np.where(full, -1.0, np.where(none, power, np.expm1(-power * log) / np.where(none, 1.0, values)))


def _binomial(power: float, largest: float) -> FloatArray:
    """a_j of (1 - x)^-p = sum_j a_j x^j up to what is lost in rounding, a_0 = 1 and a_j = a_(j-1) (p + j - 1)/j."""
    j = np.arange(1, _degree(largest) + 2)
    return np.concatenate([[1.0], np.cumprod((power + j - 1) / j)])


def _horner(K: FloatArray, coefficients: FloatArray, vectors: FloatArray) -> FloatArray:
    """sum_j a_j K^j times vectors, by products with them alone."""
    result: FloatArray = coefficients[-1] * vectors
    for coefficient in coefficients[-2::-1]:
        result = coefficient * vectors + K @ result
    return result


def _powers_of(K: FloatArray, coefficients: FloatArray) -> FloatArray:
    """sum_j a_j K^j with some 2 sqrt(n) products for n terms: sums of powers below K^s, then Horner's rule in K^s.

    Paterson and Stockmeyer (1973), SIAM J. Computing 2(1), 60-66.
    """
    s = math.isqrt(coefficients.size - 1) + 1
    powers = [np.broadcast_to(np.eye(K.shape[1]), K.shape), K]
    while len(powers) <= s:
        powers.append(powers[-1] @ K)
    result = np.zeros(K.shape)
    for first in reversed(range(0, coefficients.size, s)):
        if first + s < coefficients.size:
            result = result @ powers[s]
        for coefficient, power in zip(coefficients[first : first + s], powers, strict=False):
            result += coefficient * power
    return result


def full_leverage_directions(L: FloatArray) -> FloatArray:
    """Eigenvectors of eigenvalue 1 of the leverage matrix of a cluster, (k, n_directions)."""
    if _below_full(L):
        return np.zeros((L.shape[0], 0))
    values, axes = np.linalg.eigh(L)
    return np.asarray(axes[:, 1.0 - values < FULL_LEVERAGE])


def _below_full(L: FloatArray) -> bool:
    """Whether sums of powers of the eigenvalues, up to the eighth, show that none is 1; far cheaper than these are."""
    for _ in range(3):
        if np.vdot(L, L) < 1.0 - SURELY_BELOW:
            return True
        L = L @ L
    return False


def root_of(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A root R of a positive definite matrix, RR' = M, and its inverse.

    It goes by way of unit diagonals: eigenvalues of the matrix itself would be lost where coefficients have units as
    different as 1 and 1e8. Which root it is does not matter to the corrections, as any other is R times a rotation.
    """
    if is_identity(matrix):
        return matrix, matrix
    unit = np.sqrt(np.diag(matrix))
    values, axes = np.linalg.eigh((matrix + matrix.T) / (2 * np.outer(unit, unit)))
    values = np.sqrt(np.clip(values, np.finfo(float).tiny, None))
    return unit[:, None] * axes * values, (axes / values).T / unit
