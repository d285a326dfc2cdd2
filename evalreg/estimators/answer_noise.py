"""What the answers to the same questions add to the variance of means and differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray
from evalreg.data.answers import answers_of
from evalreg.data.cells import CellRows, read_cells
from evalreg.data.clusters import Codes
from evalreg.data.engine import LazyTable
from evalreg.data.frame import Table
from evalreg.data.groups import Groups
from evalreg.data.rows import Roles
from evalreg.errors import NotAvailableError
from evalreg.numerics.matrices import Matrix
from evalreg.scores.differences import ModelPairs


def noise_of_means(table: Table | LazyTable, roles: Roles, groups: Groups) -> Matrix:
    """Variance of the total of each cell that the answers alone make: of each question s^2/k, summed."""
    read = _noise_read(table, roles, groups)
    return sparse.diags_array(np.bincount(_cell(read), read.values, len(read.keys)), format="csr")


def _cell(read: CellRows) -> IntArray:
    return np.zeros(read.values.size, dtype=np.intp) if read.cell is None else read.cell


def noise_of_differences(table: Table | LazyTable, roles: Roles, groups: Groups, pairs: ModelPairs) -> Matrix:
    """Covariance of the totals of differences that the answers alone make; each model has answers of its own."""
    read = _noise_read(table, roles, groups)
    noise = answers_of(read, roles).values
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


def _noise_read(table: Table | LazyTable, roles: Roles, groups: Groups) -> CellRows:
    """One row for each model and question: the variance of the mean of its answers."""
    if isinstance(table, LazyTable):
        raise NotAvailableError(
            'target="the full benchmark" with `sample` needs the variance of the answers to each question, and so '
            "rows in memory: collect the columns first."
        )
    return read_cells(table, replace(roles, combine=_noise_of_answers), groups)


def _noise_of_answers(values: FloatArray, key: Codes) -> FloatArray:
    """s^2/k of the k answers to each question."""
    if np.min(key.counts) < 2:
        raise NotAvailableError(
            'target="the full benchmark" with `sample` needs two answers or more of every model to every question, '
            "because the noise of an answer shows only beside another; of "
            f"{np.count_nonzero(key.counts < 2)} of {key.n_clusters} there is one. Leave out such questions for all "
            "models; or average the answers first and leave `sample` out: the result then speaks of the answers as "
            "they came."
        )
    away = values - (np.bincount(key.codes, values) / key.counts)[key.codes]
    return np.asarray(np.bincount(key.codes, away**2) / (key.counts - 1) / key.counts)
