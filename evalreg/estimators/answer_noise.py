"""What the answers to the same questions add to the variance of means and differences."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray
from evalreg.data.cells import CellRows
from evalreg.data.model_pairs import ModelPairs
from evalreg.numerics.matrices import Matrix


def noise_of_means(read: CellRows) -> Matrix:
    """Variance of the total of each cell that the answers alone make: of each question s^2/k, summed."""
    return sparse.diags_array(np.bincount(_cell(read), read.values, len(read.keys)), format="csr")


def _cell(read: CellRows) -> IntArray:
    return np.zeros(read.values.size, dtype=np.intp) if read.cell is None else read.cell


def noise_of_differences(noise: FloatArray, pairs: ModelPairs) -> Matrix:
    """Covariance of the totals of differences that the answers alone make; each model has answers of its own.

    `noise` is s^2/k of each question, shape (n_models, n_questions).
    """
    every = np.ones(noise.shape[1], dtype=bool)
    members = np.array([every if member is None else member for member in pairs.sets], dtype=float)
    found = np.zeros((pairs.n_columns, pairs.n_columns))
    for model, own in enumerate(noise):
        columns = np.flatnonzero((pairs.left == model) | (pairs.right == model))
        sign = np.where(pairs.left[columns] == model, 1.0, -1.0)
        sets, place = np.unique(pairs.of_set[columns], return_inverse=True)
        shared = (members[sets] * own) @ members[sets].T
        found[np.ix_(columns, columns)] += np.outer(sign, sign) * shared[np.ix_(place, place)]
    return found
