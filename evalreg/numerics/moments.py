"""Equations of moments for variance components: quadratic forms of residuals, what they are and what is expected."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray
from evalreg.numerics.matrices import Matrix

# Components whose expected products lie this near to a combination of the others' are one to the log.
ALIASED = 1e-7
# Entries of the (fixed effect, fixed effect) products that are held at a time.
BLOCK_ENTRIES = 1 << 20


def moment_equations(
    values: FloatArray, Q: Matrix, designs: Sequence[Matrix], forms: Sequence[Matrix] | None = None
) -> tuple[FloatArray, FloatArray]:
    """Expected and observed quadratic forms |L_c'e|^2 of the residuals e, that of single rows last.

    With M = I - QQ', the columns of Q orthonormal, and e = M s, E|L_c'e|^2 = sum_d sigma_d^2 |L_c' M Z_d|^2, which
    counts what the fixed effects have taken out. Z are the `designs`, (n_rows, n_levels) each. L are the `forms`: Z by
    default, which is MINQUE(0), and Z over the roots of the sizes of its levels for Henderson's method 1. Sums run over
    levels; no matrix has rows on both sides. Rao (1972), Journal of the American Statistical Association 67, 112-115;
    Searle, Casella and McCulloch (1992), Variance Components, chapters 5 and 11; Henderson (1953), Biometrics 9,
    226-252.
    """
    left = designs if forms is None else forms
    e = values - Q @ (Q.T @ values)
    fixed = [sparse.csr_array(design.T @ Q) for design in designs]
    of_forms = fixed if forms is None else [sparse.csr_array(form.T @ Q) for form in forms]
    expected = _products(of_forms, fixed)
    for c in range(len(left)):
        for d in range(c if forms is None else 0, len(designs)):
            expected[c, d] += _crossed(left[c], of_forms[c], designs[d], fixed[d])
            if forms is None:
                expected[d, c] = expected[c, d]
    down, right = (
        np.array([_square(L) - _square(B) for L, B in zip(of, of_fixed, strict=True)])
        for of, of_fixed in ((designs, fixed), (left, of_forms))
    )
    expected = np.block([[expected, right[:, None]], [np.array([*down, values.size - Q.shape[1]])]])
    observed = np.array([*(float(np.sum((L.T @ e) ** 2)) for L in left), float(e @ e)])
    return expected, observed


def _crossed(L: Matrix, B_L: Matrix, Z: Matrix, B_Z: Matrix) -> float:
    """|L'Z|^2 - 2 tr(L'Z B_Z B_L'), by the product that has fewer levels on the left, which keeps it small."""
    if L.shape[1] > Z.shape[1]:
        L, B_L, Z, B_Z = Z, B_Z, L, B_L
    A = (L.T @ Z).tocsr()
    return _square(A) - 2.0 * float(B_L.multiply(A @ B_Z).sum())


def _square(matrix: Matrix) -> float:
    return float(matrix.power(2).sum())


def _products(left: list[Matrix], right: list[Matrix]) -> FloatArray:
    """Traces of products of B_c'B_c and B_d'B_d for all c on the left and d on the right, in blocks of columns."""
    n_fixed = left[0].shape[1]
    step = max(BLOCK_ENTRIES // n_fixed, 1)
    total = np.zeros((len(left), len(right)))
    sides = [[B.tocsc() for B in side] for side in ([left] if left is right else [left, right])]
    for start in range(0, n_fixed, step):
        parts = [np.array([(B.T @ B[:, start : start + step]).toarray().ravel() for B in side]) for side in sides]
        total += parts[0] @ parts[-1].T
    return total


def solve_components(expected: FloatArray, observed: FloatArray) -> tuple[FloatArray, list[list[int]]]:
    """Variance components of symmetric equations, of least norm, and which of them the log cannot tell from each other.

    The sets are a partition: components alone, or those of which only the sum is known.
    """
    scale = np.sqrt(np.diag(expected))
    alive = scale > 1e-9 * scale.max()
    safe = np.where(alive, scale, 1.0)
    values, vectors = np.linalg.eigh(np.where(alive[:, None] & alive, expected / np.outer(safe, safe), 0.0))
    known = values > ALIASED * max(values[-1], 1.0)
    variances = (vectors[:, known] / values[known] @ (vectors[:, known].T @ (observed / safe))) / safe
    null = vectors[:, ~known] @ vectors[:, ~known].T
    tied: BoolArray = np.abs(null) > 1e-6
    n_sets, label = sparse.csgraph.connected_components(sparse.csr_array(tied.astype(float)))
    return variances, [np.flatnonzero(label == s).tolist() for s in range(n_sets)]
