"""Means of models on the same questions, and how much two of them differ there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.data.clusters import Axis
from evalreg.numerics.matrices import Matrix, compressed, dense, identity, mostly_there
from evalreg.scores.base import ENTRIES, ColumnSums
from evalreg.scores.mapped import MappedScores
from evalreg.scores.paired import ALIKE, Paired, PairedQuestions, Sides
from evalreg.scores.score_interval import ICC_DIFFERENCE as ICC


@dataclass(frozen=True, eq=False)
class PairedMeans(PairedQuestions):
    """Columns are means of models; `item` names a question, which has one row in a column."""

    item: Axis

    def sides(self, contrasts: Matrix | None) -> Sides:
        """Contrasts that are multiples of the difference of two columns."""
        A, rows, start = self._held(contrasts, 2)
        at = start[:, None] + np.arange(2)
        value, column = A.data[at], A.indices[at].astype(np.intp)
        opposite = np.abs(value.sum(axis=1)) <= ALIKE * np.abs(value).sum(axis=1)
        rows, value, column = rows[opposite], value[opposite], column[opposite]
        same = self._same_questions(column[:, 0], column[:, 1])
        return rows[same], column[same, 0], column[same, 1], value[same, 0]

    @cached_property
    def _shared(self) -> FloatArray:
        """Questions that columns share, shape (n_columns, n_columns)."""
        return _gram(self._answers[1])

    @cached_property
    def _all_shared(self) -> bool:
        """Whether every column has one row of every question."""
        return bool(np.all(self._shared == self._shared[0, 0]) and np.all(self.count == self._shared[0, 0]))

    @cached_property
    def _answers(self) -> tuple[Matrix, Matrix]:
        """Scores by question and column, and whether there is one, in compressed columns."""
        values, present = [], []
        for block in self.scores.cells(self.item):
            totals, gram = compressed(block.totals).tocoo(), compressed(block.gram).tocoo()
            gram.eliminate_zeros()
            sums = sparse.coo_array((totals.data, totals.coords), totals.shape).tocsr()
            fitted = sparse.coo_array((self.means[gram.coords[1]] * gram.data, gram.coords), gram.shape).tocsr()
            weights = gram.tocsr()
            inverse = sparse.csr_array((1.0 / weights.data, weights.indices, weights.indptr), weights.shape)
            values.append((sums + fitted).multiply(inverse).tocsr())
            present.append(weights.sign())
        return sparse.vstack(values).tocsc(), sparse.vstack(present).tocsc()

    @property
    def _values(self) -> Matrix:
        return self._answers[0]

    @cached_property
    def _picked(self) -> Matrix:
        """Scores with a row for each column, from which rows are quickly picked."""
        rows = compressed(self._values.T)
        return rows if rows.shape[0] * rows.shape[1] > ENTRIES else dense(rows)

    def _same_questions(self, first: IntArray, second: IntArray) -> BoolArray:
        """Whether both columns have a row of each question that either has."""
        if not first.size:
            return np.zeros(0, dtype=bool)
        # Of columns that have several rows of a question, none is looked up, which may be in an engine.
        alone = self._of_axis(self.item).n_clusters == self.count
        if not (alone[first] & alone[second]).any():
            return np.zeros(first.size, dtype=bool)
        count, a, b = np.diag(self._shared), first, second
        if self._all_shared:
            return np.ones(first.size, dtype=bool)
        once = (count[a] == self.count[a]) & (count[b] == self.count[b])
        return np.asarray(once & (self._shared[a, b] == count[a]) & (count[a] == count[b]))

    def _apart(self, axis: Axis | None) -> bool:
        """Whether each question is known to be a cluster of its own."""
        return axis == self.item or super()._apart(axis)

    def _of_axis(self, axis: Axis) -> ColumnSums:
        """What clusters hold of each column."""
        if axis not in self._sums_by_axis:
            every = identity(self.count.size)
            self._sums_by_axis[axis] = self.scores.column_sums(axis, every, every)
        return self._sums_by_axis[axis]

    @cached_property
    def _sums_by_axis(self) -> dict[Axis, ColumnSums]:
        return {}

    def _homes(self, axis: Axis) -> IntArray | None:
        """Cluster of each question; None where an engine's table is gone and did not say."""
        return self.scores.homes(self.item, axis)

    def _present(self, first: IntArray) -> FloatArray:
        """Which questions the columns have, shape (m, n_questions)."""
        return dense(self._answers[1][:, first]).T

    def _each(self, first: IntArray, second: IntArray) -> Iterator[tuple[IntArray, FloatArray, BoolArray | None]]:
        """Differences of a few contrasts at a time, by question; 0 where a question is of neither model."""
        if not first.size:
            return
        values = self._picked
        step = max(ENTRIES // max(values.shape[1], 1), 1)
        for at in np.array_split(np.arange(first.size), first.size // step + 1):
            if at.size:
                yield at, dense(values[first[at]] - values[second[at]]), None


def _gram(matrix: Matrix) -> FloatArray:
    """X'X, shape (n_columns, n_columns)."""
    matrix = dense(matrix) if mostly_there(matrix) else matrix
    return dense(matrix.T @ matrix)


def paired_answers(estimate: Any, item: Axis, icc: float = ICC) -> Paired | None:
    """Scores in [0, 1] of models on the same questions, from an estimate made of cells.

    Strata that weigh as their questions leave a mean the plain one, so that their cells are taken together; None where
    they weigh otherwise.
    """
    cells, maps = estimate.cells, estimate.coefficient_map
    if cells.stratum is None:
        return PairedMeans(estimate.scores, cells.mean, cells.weight, cells.squares, maps, icc, item)
    of = sparse.csr_array((compressed(maps) != 0).T.astype(np.float64))
    weight = cells.weight @ of
    if not np.allclose(dense(maps), dense(of.T * cells.weight) / weight[:, None], rtol=ALIKE, atol=0):
        return None
    mean = (cells.mean * cells.weight) @ of / weight
    squares = (cells.squares + cells.weight * (cells.mean - of @ mean) ** 2) @ of
    # Residuals about the mean of the stratum become those about the mean of the model.
    about = sparse.diags_array(cells.mean) @ of - of @ sparse.diags_array(mean)
    scores = MappedScores(estimate.scores, of, about, counted=of)
    maps = sparse.eye_array(mean.size, format="csr")
    return PairedMeans(scores, mean, weight, squares, maps, icc, item, stratified=True)
