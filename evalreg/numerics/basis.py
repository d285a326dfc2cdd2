"""Orthonormal columns in place of a design's own, so that no unit, offset or power costs digits; levels taken out.

With X the design and w the weights, Q = W^(1/2) X T has orthonormal columns. Everything is computed from Q and mapped
back by T: coefficients are T Q'W^(1/2)y, and (X'WX)^-1 is TT'. `within` takes out of columns what the levels of
factors explain of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray, listed
from evalreg.errors import CollinearityError, ConvergenceError
from evalreg.numerics.limits import CONSTANT, IN_SPAN, REDUNDANT
from evalreg.numerics.matrices import dense

# Entries are rounded to 1e-16. Times this condition number it is what they leave open, in standard errors.
LARGEST_CONDITION = 1e10
# The size of a column over its distance from the others: what rounding of its entries leaves of it is 1e-4.
LARGEST_INFLATION = 1e12
# Above this one nothing but rounding tells the columns apart.
ROUNDING_ALONE = 1e14
# From this condition number on, the columns are formed again with twice the digits.
EXACT_FROM = 1e4
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
    triangle : ndarray, shape (k, k)
        R, upper triangular, with QR the design's columns centred and scaled.
    condition : float
        Condition number of the design's columns, centred where a constant is among them and scaled to norm 1.
    """

    rows: FloatArray
    map: FloatArray
    triangle: FloatArray
    condition: float


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
    low, high = X.min(axis=0, initial=np.inf), X.max(axis=0, initial=-np.inf)
    unit = np.exp2(-np.frexp(np.maximum(np.maximum(-low, high), 0.0))[1].astype(float))
    level, carriers = _levels(X, low, high, share, unit)
    root = None if weights is None else np.sqrt(share)
    rows, R, size = _orthonormal(X, unit, level, root, np.sqrt(total))
    condition = _checked_condition(R, names)
    T = np.linalg.inv(R) / size[:, None]
    # Squares of a column are those about its level, and those of the level.
    squares = np.sqrt(size**2 + level**2 * total)
    # Rounding of a column's entries may be what tells it from the others.
    inflation = squares * np.linalg.norm(T, axis=1) * (carriers == 0)
    if np.any(inflation > LARGEST_INFLATION):
        raise _nearly(list(compress(map(str, names), inflation > LARGEST_INFLATION)), float(np.max(inflation)))
    T -= np.outer(carriers, level @ T)
    # Columns far from zero lose digits twice: in their levels, and by what they share.
    if condition * np.max(1 + np.abs(level) * np.sqrt(total) / size) > EXACT_FROM:
        rows, turn = np.linalg.qr(exact_product(X * unit, T) * np.sqrt(share)[:, None])
        T, R = T @ np.linalg.inv(turn), turn @ R
    T = unit[:, None] * T
    return Basis(rows, T if weights is None else T / np.sqrt(np.max(weights)), R, condition)


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


def _levels(
    X: FloatArray, low: FloatArray, high: FloatArray, share: FloatArray, unit: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """What to subtract from each column times its unit, and the combination of those that is 1 (nothing without)."""
    carriers = np.zeros(X.shape[1])
    constant = np.flatnonzero((low == high) & (low != 0))
    if constant.size:
        support = constant[:1]
        carriers[support] = 1.0 / (low[support] * unit[support])
    else:
        # Indicators of all levels of a factor add up to a constant.
        support = np.flatnonzero(np.all((X == 0) | (high == X), axis=0) & (high > 0))
        if not support.size:
            return np.zeros(X.shape[1]), carriers
        combination = np.linalg.lstsq(X[:, support], np.ones(X.shape[0]), rcond=None)[0]
        if np.max(np.abs(X[:, support] @ combination - 1.0), initial=0.0) > IN_SPAN:
            return np.zeros(X.shape[1]), carriers
        carriers[support] = combination / unit[support]
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
    named = list(compress(map(str, names), near))
    if condition < ROUNDING_ALONE:
        raise _nearly(named, condition)
    raise _determined(named, len(names), f" (condition number {condition:.0e})")


def _determined(named: list[str], n_columns: int, condition: str = "") -> CollinearityError:
    """What to do about columns of a design that the others determine; patsy's cubic splines add up to the intercept."""
    cure = "Drop it." if len(named) == 1 else "Drop them."
    if named[0].startswith(("cr(", "cc(", "te(")):
        cure = f"""Write {named[0].rpartition(")")[0]}, constraints="center")."""
    return CollinearityError(
        f"covariates must not determine each other; {n_columns} columns of the design have rank "
        f"{n_columns - len(named)}, and {listed(named)} can be computed from the others{condition}. {cure}",
        column=named[0],
        count=len(named),
    )


def _nearly(named: list[str], condition: float) -> CollinearityError:
    """What to do about columns that the others determine nearly."""
    its, it = ("its", "it") if len(named) == 1 else ("their", "one of them")
    return CollinearityError(
        f"covariates must not determine each other; {listed(named)} can be computed from the other columns of the "
        f"design but for {1 / condition:.0e} of {its} size (condition number {condition:.1e}), too little for numbers "
        f"of 16 digits. Drop {it}, or subtract a typical value from the covariate before its powers and products are "
        'formed, as in "I((x - 5000) ** 2)".',
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
    # The rank stays where a column is a combination of those before it.
    ranks = [np.linalg.matrix_rank(gram[:j, :j], tol=SINGULAR_GRAM, hermitian=True) for j in range(1, k + 1)]
    named = [str(names[j]) for j in range(k) if ranks[j] == (ranks[j - 1] if j else 0)]
    raise _determined(named, k)


# Up to so many levels beside those of the largest factor, their equations are solved directly.
DIRECT = 600
# What levels may still explain of a column, as a fraction of its size.
TOLERANCE = 1e-13
MOST_STEPS = 5000
# Entries of the dummies that are held at once.
MOST_ENTRIES = 1e8


@dataclass(frozen=True, eq=False)
class Partition:
    """Levels of one factor: the level of each row, shape (n_rows,), every one of `n_levels` present."""

    codes: IntArray
    n_levels: int


@dataclass(frozen=True, eq=False)
class Within:
    """Projects the levels of factors out of columns; made by `within`."""

    first: Partition  # the factor of most levels, whose means are taken exactly
    weights: FloatArray | None
    total: FloatArray  # (n_levels,): weight of each of its levels
    others: Any = None  # (n_rows, n_other) sparse: dummies of the other factors
    shared: Any = None  # (n_levels, n_other) sparse: weight of each combination of levels
    gram: Any = None  # (n_other, n_other) sparse: D'WD of the other factors
    inverse: FloatArray | None = None  # (n_other, n_other): of their equations, where they are few
    n_redundant: int | None = None  # levels that others determine, where that is known exactly

    def __call__(self, columns: FloatArray) -> FloatArray:
        """Columns without what the levels explain, shape (n_rows, m)."""
        size = np.sqrt(self._sums_of_squares(columns))
        # The second time takes away what rounding left of large values.
        return self._once(self._once(columns, size), size)

    def leverages(self) -> FloatArray | None:
        """Leverage of the levels in each row, shape (n_rows,); None where their equations are not solved directly."""
        weights = np.ones(self.first.codes.size) if self.weights is None else self.weights
        leverages = weights / self.total[self.first.codes]
        if self.others is None:
            return np.asarray(leverages)
        if self.inverse is None or self.others.shape[0] * self.others.shape[1] > MOST_ENTRIES:
            return None
        left = dense(self.others) - (dense(self.shared) / self.total[:, None])[self.first.codes]
        return np.asarray(leverages + weights * np.einsum("ij,ij->i", left @ self.inverse, left))

    def _once(self, columns: FloatArray, size: FloatArray) -> FloatArray:
        left = self._beside_means(columns)
        if self.others is None:
            return left
        moments = self.others.T @ (left if self.weights is None else left * self.weights[:, None])
        effects = self.inverse @ moments if self.inverse is not None else self._gradients(moments, size)
        shift = (self.shared @ effects) / self.total[:, None]
        return np.asarray(left - self.others @ effects + shift[self.first.codes])

    def _beside_means(self, columns: FloatArray) -> FloatArray:
        """Columns less their means within the levels of the first factor, each in one piece of memory."""
        codes, left = self.first.codes, np.empty(columns.shape, order="F")
        for column, rest in zip(columns.T, left.T, strict=True):
            sums = np.bincount(codes, column if self.weights is None else column * self.weights, self.first.n_levels)
            np.subtract(column, (sums / self.total)[codes], out=rest)
        return left

    def _sums_of_squares(self, columns: FloatArray) -> FloatArray:
        weighted = columns if self.weights is None else columns * self.weights[:, None]
        return np.asarray(np.einsum("ij,ij->j", weighted, columns))

    def _gradients(self, moments: FloatArray, size: FloatArray) -> FloatArray:
        """Effects by conjugate gradients, levels scaled to unit diagonals; S is singular and consistent."""
        from scipy.sparse.linalg import LinearOperator, cg  # takes an eighth of the time of a first mean

        unit, effects = np.sqrt(self.gram.diagonal()), np.empty_like(moments)

        def of(scaled: FloatArray) -> FloatArray:
            """(D'WD - C'N^-1 C) b of the other factors, those of the first being solved for."""
            b = scaled / unit
            return np.asarray((self.gram @ b - self.shared.T @ ((self.shared @ b) / self.total)) / unit)

        equations = LinearOperator(self.gram.shape, matvec=of, dtype=np.float64)
        for effect, column, length in zip(effects.T, moments.T, size, strict=True):
            scaled, failed = cg(equations, column / unit, rtol=0.0, atol=TOLERANCE * length, maxiter=MOST_STEPS)
            if failed:
                raise ConvergenceError(
                    f"the absorbed factors could not be taken out of the columns in {MOST_STEPS} steps: they are "
                    "nearly the same partition of the rows, or a long chain of them. Absorb their joint levels "
                    'instead, as in "| question:judge", or one factor fewer.'
                )
            effect[:] = scaled / unit
        return effects


def within(factors: Sequence[Partition], weights: FloatArray | None = None) -> Within:
    """The projection that takes out of columns what the levels of factors explain (Frisch, Waugh and Lovell).

    Means of the factor of most levels are exact; the equations of the levels of the others are solved directly where
    there are few, otherwise by conjugate gradients until these levels explain less than `TOLERANCE` of a column.
    Correia (2017), "Linear models with high-dimensional fixed effects", section 3, for conjugate gradients on the
    equations of levels.
    """
    first, *rest = sorted(factors, key=lambda factor: -factor.n_levels)
    total = np.bincount(first.codes, weights, first.n_levels).astype(np.float64)
    if not rest:
        return Within(first, weights, total, n_redundant=0)
    others = sparse.hstack([_dummies(factor) for factor in rest], format="csr")
    weighted = others if weights is None else (sparse.diags_array(weights) @ others).tocsr()
    gram = (others.T @ weighted).tocsr()
    shared = (_dummies(first).T @ weighted).tocsr()
    projection = Within(first, weights, total, others, shared, gram)
    if gram.shape[0] > DIRECT:
        return projection
    S = dense(gram) - dense(shared.T @ (sparse.diags_array(1.0 / total) @ shared))
    inverse, n_redundant = _pseudo_inverse(S, gram.diagonal())
    return Within(first, weights, total, others, shared, gram, inverse, n_redundant)


def _dummies(factor: Partition) -> Any:
    n = factor.codes.size
    return sparse.csr_array(
        (np.ones(n), factor.codes.astype(np.int32), np.arange(n + 1, dtype=np.int32)), shape=(n, factor.n_levels)
    )


def _pseudo_inverse(S: FloatArray, diagonal: FloatArray) -> tuple[FloatArray, int]:
    """A generalised inverse of a positive semi-definite matrix, and how many of its eigenvalues are zero."""
    from scipy.linalg import pinvh

    n, scale = diagonal.size, np.sqrt(np.outer(diagonal, diagonal))
    inverse, rank = pinvh(S / scale, atol=REDUNDANT * n, rtol=0.0, return_rank=True)
    return inverse / scale, n - int(rank)


def redundant_levels(factors: Sequence[Partition], projection: Within) -> tuple[int, bool]:
    """Levels of factors that the others determine; and whether that is exact, or at least so many.

    Of two factors there are as many as connected components of the graph of levels that meet (Abowd, Creecy and
    Kramarz 2002). Of more, each further factor has at least as many as with any one before it.
    """
    if projection.n_redundant is not None:
        return projection.n_redundant, True
    count = sum(max(_components(factors[i], factors[j]) for j in range(i)) for i in range(1, len(factors)))
    return count, len(factors) == 2


def _components(first: Partition, second: Partition) -> int:
    n_levels = first.n_levels + second.n_levels
    met = sparse.coo_array(
        (np.ones(first.codes.size, dtype=np.int8), (first.codes, second.codes + first.n_levels)), (n_levels, n_levels)
    )
    from scipy.sparse.csgraph import connected_components

    count, _ = connected_components(met.tocsr(), directed=False)
    return int(count)
