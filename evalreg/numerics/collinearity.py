"""Columns that determine each other, told from their squares and products."""

from __future__ import annotations

import numpy as np

from evalreg.checks import FloatArray, listed
from evalreg.errors import CollinearityError

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
