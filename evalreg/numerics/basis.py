"""Orthonormal columns in place of a design's own, so that no unit, offset or power costs digits.

With X the design and w the weights, Q = W^(1/2) X T has orthonormal columns. Everything is computed from Q and mapped
back by T: coefficients are T Q'W^(1/2)y, and (X'WX)^-1 is TT'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evalreg.checks import FloatArray, listed
from evalreg.errors import CollinearityError
from evalreg.numerics.matrices import Matrix

# Entries are rounded to 1e-16. Times this condition number it is what they leave open, in standard errors.
LARGEST_CONDITION = 1e10
# The size of a column over its distance from the others: what rounding of its entries leaves of it is 1e-4.
LARGEST_INFLATION = 1e12
# Above this one nothing but rounding tells the columns apart.
ROUNDING_ALONE = 1e14
# From this condition number on, the columns are formed again with twice the digits.
EXACT_FROM = 1e4
# A column that varies by less than this fraction of its size is a constant with rounding.
CONSTANT = 1e-13
# What is left of a constant that other columns contain is rounding.
IN_SPAN = 1e-9
# Parts a double into two halves of 26 bits (Veltkamp).
SPLIT = 134217729.0
# Rows formed at a time, so that they stay in the fastest memory.
ROWS_PER_BLOCK = 1 << 10


@dataclass(frozen=True, eq=False)
class Basis:
    """Orthonormal columns of a weighted design.

    Parameters
    ----------
    rows : ndarray, shape (n_rows, k)
        Q.
    map : ndarray, shape (k, k)
        T, from coefficients of Q to those of the design.
    condition : float
        Condition number of the design's columns, centred where a constant is among them and scaled to norm 1.
    """

    rows: FloatArray
    map: FloatArray
    condition: float


@dataclass(frozen=True, eq=False)
class FewEntries:
    """Rows of few entries, E, as of factors of many levels or pairs of models; what is computed with are rows of ET.

    Parameters
    ----------
    rows : sparse array, shape (n_rows, k)
        E, a design's own columns times the square roots of the weights.
    map : ndarray, shape (k, m)
        T; with that of `Basis` the columns are orthonormal.
    """

    rows: Matrix
    map: FloatArray


def basis_of(design: FloatArray, names: Sequence[str], weights: FloatArray | None = None) -> Basis:
    """Orthonormal columns of a design, right to full precision whatever its units.

    Parameters
    ----------
    design : ndarray, shape (n_rows, k)
        X, finite.
    names : sequence of str
        Of its columns, for the message.
    weights : ndarray, shape (n_rows,), optional
        Not negative; one by default.

    Returns
    -------
    Basis
        Q and T.

    Raises
    ------
    CollinearityError
        If the condition number is above `LARGEST_CONDITION`; the columns that earlier ones determine are named.

    References
    ----------
    Golub and Van Loan (2013), Matrix Computations, sections 2.6.4 (scaling) and 5.3 (QR); Ogita, Rump and Oishi (2005),
    SIAM J. Scientific Computing 26(6), algorithm 5.3 (products with twice the digits).

    Examples
    --------
    >>> x = 1.7e12 + 1000 * np.arange(4.0)
    >>> basis = basis_of(np.column_stack([np.ones(4), x]), ["Intercept", "ms"])
    >>> (basis.map @ (basis.rows.T @ (2000.0 * np.arange(4)))).round(9).tolist()[1]
    2.0
    """
    X = np.asarray(design, dtype=np.float64)
    share = np.ones(X.shape[0]) if weights is None else weights / np.max(weights)
    total = float(share.sum())
    # Powers of two: scaling by them is exact.
    unit = np.exp2(-np.frexp(np.maximum(X.max(axis=0, initial=0.0), -X.min(axis=0, initial=0.0)))[1].astype(float))
    level, carriers = _levels(X, share, unit)
    root = None if weights is None else np.sqrt(share)
    rows, R, size = _orthonormal(X, unit, level, root, np.sqrt(total))
    condition = _checked_condition(R, names)
    T = np.linalg.inv(R) / size[:, None]
    # Squares of a column are those about its level, and those of the level.
    squares = np.sqrt(size**2 + level**2 * total)
    _refuse_rounded(squares * np.linalg.norm(T, axis=1) * (carriers == 0), names)
    T -= np.outer(carriers, level @ T)
    # Columns far from zero lose digits twice: in their levels, and by what they share.
    if condition * np.max(1 + np.abs(level) * np.sqrt(total) / size) > EXACT_FROM:
        rows, R = np.linalg.qr(exact_product(X * unit, T) * np.sqrt(share)[:, None])
        T = T @ np.linalg.inv(R)
    T = unit[:, None] * T
    return Basis(rows, T if weights is None else T / np.sqrt(np.max(weights)), condition)


def _orthonormal(
    X: FloatArray, unit: FloatArray, level: FloatArray, root: FloatArray | None, mass: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Q, R and the sizes of the centred columns; QR are the columns over their sizes, `mass` is the norm of ones."""
    rows = X * unit - level
    if root is not None:
        rows *= root[:, None]
    size = np.sqrt(np.einsum("ij,ij->j", rows, rows))
    flat = size <= CONSTANT * np.abs(level) * mass
    rows[:, flat] = 0.0
    size[flat] = 1.0
    rows /= size
    return *np.linalg.qr(rows), size


def _levels(X: FloatArray, share: FloatArray, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What to subtract from each column times its unit, and the combination of those that is 1 (nothing without)."""
    k, low, high = X.shape[1], X.min(axis=0, initial=np.inf), X.max(axis=0, initial=-np.inf)
    carriers = np.zeros(k)
    constant = np.flatnonzero((low == high) & (low != 0))
    if constant.size:
        support = constant[:1]
        carriers[support] = 1.0 / (low[support] * unit[support])
    else:
        # Indicators of all levels of a factor add up to a constant.
        support = np.flatnonzero(np.all((X == 0) | (high == X), axis=0) & (high > 0))
        found = np.linalg.lstsq(X[:, support], np.ones(X.shape[0]), rcond=None)[0]
        if np.max(np.abs(X[:, support] @ found - 1.0), initial=0.0 if support.size else 1.0) > IN_SPAN:
            return np.zeros(k), carriers
        carriers[support] = found / unit[support]
    level = unit * (share @ X) / share.sum()
    level[support] = 0.0
    return level, carriers


def _checked_condition(R: FloatArray, names: Sequence[str]) -> float:
    """Condition number of unit columns with this triangle; raises above the largest allowed."""
    if R.shape[0] < R.shape[1]:
        R = np.vstack([R, np.zeros((R.shape[1] - R.shape[0], R.shape[1]))])
    values = np.linalg.svd(R, compute_uv=False)
    smallest = float(values[-1]) if values.size else 1.0
    condition = float(values[0]) / smallest if smallest > 0 else np.inf
    if condition <= LARGEST_CONDITION:
        return condition
    # Of unit columns the diagonal is the distance from what the earlier ones span.
    near = np.abs(np.diag(R)) * LARGEST_CONDITION < values[0]
    if not near.any():
        near[np.argmax(np.abs(np.linalg.svd(R)[2][-1]))] = True
    named = [str(name) for name, is_near in zip(names, near, strict=True) if is_near]
    if condition < ROUNDING_ALONE:
        raise _nearly(named, condition)
    k = len(names)
    raise CollinearityError(
        f"covariates must not determine each other; {k} columns of the design have rank {k - len(named)}, and "
        f"{listed(named)} can be computed from the others (condition number {condition:.0e}). Drop "
        f"{'it' if len(named) == 1 else 'them'}.",
        column=named[0],
        count=len(named),
    )


def _refuse_rounded(inflation: FloatArray, names: Sequence[str]) -> None:
    """Raise where rounding of a column's entries is what tells it from the others; shape (k,)."""
    named = [str(name) for name, times in zip(names, inflation, strict=True) if times > LARGEST_INFLATION]
    if named:
        raise _nearly(named, float(np.max(inflation)))


def _nearly(named: list[str], condition: float) -> CollinearityError:
    """What to do about columns that the others determine nearly."""
    one = len(named) == 1
    return CollinearityError(
        f"covariates must not determine each other; {listed(named)} can be computed from the other columns of the "
        f"design but for {1 / condition:.0e} of {'its' if one else 'their'} size (condition number {condition:.1e}), "
        f"too little for numbers of 16 digits. Drop {'it' if one else 'one of them'}, or subtract a typical value "
        'from the covariate before its powers and products are formed, as in "I((x - 5000) ** 2)".',
        column=named[0],
        count=len(named),
    )


def exact_product(A: FloatArray, B: FloatArray) -> FloatArray:
    """A B with sums as if formed with twice the digits, then rounded.

    Parameters
    ----------
    A : ndarray, shape (n, k)
        Entries below 1e150 in size.
    B : ndarray, shape (k, m)
        Likewise.

    Returns
    -------
    ndarray, shape (n, m)
        Right to rounding even where the terms cancel to 1e-10 of their size.

    References
    ----------
    Ogita, Rump and Oishi (2005), SIAM J. Scientific Computing 26(6), algorithm 5.3.

    Examples
    --------
    >>> exact_product(np.array([[1e16, 1.0, -1e16]]), np.ones((3, 1))).item()
    1.0
    """
    result = np.empty((A.shape[0], B.shape[1]))
    for first in range(0, A.shape[0], ROWS_PER_BLOCK):
        part = slice(first, first + ROWS_PER_BLOCK)
        result[part] = _exact_block(np.ascontiguousarray(A[part].T), B)
    return result


def _exact_block(columns: FloatArray, B: FloatArray) -> FloatArray:
    """The product of some rows, whose columns are given."""
    total, rest = np.zeros((B.shape[1], columns.shape[1])), np.zeros((B.shape[1], columns.shape[1]))
    for column, factors in zip(columns, B, strict=True):
        factor = factors[:, None]
        (high, low), (f_high, f_low) = _halves(column), _halves(factor)
        product = column * factor
        # What rounding took from the product, and from the sum; both are exact.
        rest += ((high * f_high - product) + high * f_low + low * f_high) + low * f_low
        summed = total + product
        part = summed - total
        rest += (total - (summed - part)) + (product - part)
        total = summed
    return np.asarray((total + rest).T)


def _halves(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Two numbers of 26 bits that add up to x."""
    scaled = SPLIT * x
    high = scaled - (scaled - x)
    return high, x - high


# Likewise for squares and products of columns of norm 1: a condition number of the columns of 1e6.
SINGULAR_GRAM = 1e-12


def refuse_singular(gram: FloatArray, names: list[str]) -> None:
    """Raise CollinearityError if columns determine each other, from their squares and products X'X, shape (k, k)."""
    scale = np.sqrt(np.diag(gram))
    unit = np.where(scale > 0, scale, 1.0)
    gram = gram / np.outer(unit, unit)
    rank, k = int(np.linalg.matrix_rank(gram, tol=SINGULAR_GRAM, hermitian=True)), gram.shape[0]
    if rank == k:
        return
    kept: list[int] = []
    for j in range(k):
        trial = np.ix_([*kept, j], [*kept, j])
        if np.linalg.matrix_rank(gram[trial], tol=SINGULAR_GRAM, hermitian=True) > len(kept):
            kept.append(j)
    named = [str(names[j]) for j in range(k) if j not in kept]
    raise CollinearityError(
        f"covariates must not determine each other; {k} columns of the design have rank {rank}, and {listed(named)} "
        f"can be computed from the others. Drop {'it' if len(named) == 1 else 'them'}.",
        column=named[0],
        count=k - rank,
    )
