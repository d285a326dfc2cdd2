"""How far the answers of a model to one question lie apart, which is read as scores are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evalreg.checks import FloatArray
from evalreg.data.cells import CellRows, read_cells
from evalreg.data.clusters import Codes
from evalreg.data.engine import LazyTable
from evalreg.data.frame import Table
from evalreg.data.groups import Groups
from evalreg.data.rows import Roles
from evalreg.errors import NotAvailableError


def read_noise(table: Table | LazyTable, roles: Roles, groups: Groups) -> CellRows:
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
