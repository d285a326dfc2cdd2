"""Differences of models on the same questions: their scores, and what the score interval needs of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray, held_property
from evalreg.data.answers import NOBODY, ModelPairs, in_set
from evalreg.data.clusters import Axis, Codes, Labels
from evalreg.data.frame import restrict
from evalreg.numerics.limits import CLOSE, HELD, ROUNDING
from evalreg.numerics.matrices import (
    Matrix,
    compressed,
    dense,
    identity,
    inner_products,
    parts_of,
    scale_columns,
    square,
    sum_blocks,
    with_entries,
    without_zeros,
)
from evalreg.scores.base import Block, Blocks, Cells, LabelledScores
from evalreg.scores.score_interval import ICC_DIFFERENCE as ICC
from evalreg.scores.score_interval import Paired, Sides
from evalreg.scores.stacking import MappedScores

BlockRows: TypeAlias = tuple[IntArray | None, IntArray, int]
"""Rows of a block (None: all), the cluster of each within the block, and the number of clusters."""


def by_set(pairs: ModelPairs) -> Iterator[tuple[IntArray, BoolArray | None]]:
    """The columns of each set, and its questions."""
    for number, member in enumerate(pairs.sets):
        yield np.flatnonzero(pairs.of_set == number), member


def chunks(pairs: ModelPairs, n_questions: int) -> Iterator[tuple[IntArray, BoolArray | None]]:
    """The columns of each set, a few at a time, so that their differences take little memory."""
    for columns, member in by_set(pairs):
        for part in np.array_split(columns, columns.size * n_questions // HELD + 1):
            if part.size:
                yield part, member


def differences(values: FloatArray, pairs: ModelPairs, columns: IntArray, member: BoolArray | None) -> FloatArray:
    """left - right, or left alone, of some columns of one set on its questions (`member`), (n_columns, n_in_set)."""
    shared, right = in_set(values, member), pairs.right[columns]
    result = shared[pairs.left[columns]]
    both = right != NOBODY
    result[both] -= shared[right[both]]
    return result


def pair_sums(values: FloatArray, pairs: ModelPairs) -> Cells:
    """Counts, sums and sums of squares of the differences of each pair; values (n_models, n_questions).

    What stands where a model has no score is not looked at.
    """
    count, total, squares, low, high = (np.zeros(pairs.n_columns) for _ in range(5))
    for columns, member in chunks(pairs, values.shape[1]):
        d = differences(values, pairs, columns, member)
        count[columns], total[columns] = d.shape[1], d.sum(axis=1)
        low[columns], high[columns] = d.min(axis=1), d.max(axis=1)
        d -= (total[columns] / d.shape[1])[:, None]
        squares[columns] = np.einsum("mn,mn->m", d, d)
    return Cells.of_totals(count, count, total, squares, low, high)


@dataclass(frozen=True, eq=False)
class PairScores(LabelledScores):
    """Scores of differences of means over the same questions, in memory.

    A question has a score in the column of every pair that is taken over it, (left - right) - fitted, so that pairs
    with a model or a question in common are dependent as they are.
    """

    # Scores, (n_models, n_questions); 0 where a model has none.
    values: FloatArray
    pairs: ModelPairs
    # Mean of each difference.
    fitted: FloatArray
    # Cluster labels of the questions.
    labels: Labels
    # Differences that are all alike, so that what is left of them would be rounding.
    flat: BoolArray
    paired = True
    stackable = False

    @property
    def n_columns(self) -> int:
        """Number of differences."""
        return self.pairs.n_columns

    @held_property
    def means(self) -> tuple[FloatArray, ...]:
        """Of each set of questions the mean of every model, shape (n_models,) each."""
        return tuple(in_set(self.values, member).mean(axis=1) for member in self.pairs.sets)

    def cells(self, by: Axis) -> Blocks:
        """Sums within (cluster, pair), in blocks of whole clusters."""
        for part in _parts(self.labels.codes(by), self.n_columns):
            totals, sizes = self._sums(part)
            gram = compressed(sizes)
            yield Block(with_entries(gram, totals[sizes != 0]), gram)

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', shape (n_params, n_params)."""
        codes = self._every_question if by is None else self.labels.codes(by)
        if self._many_of_one_set:
            return self._of_models(codes, None, bread)
        return sum_blocks(square(self._sums(part)[0], bread) for part in _parts(codes, self.n_columns))

    def shares(self, by: Axis) -> FloatArray | None:
        """Share of the questions in each cluster, where many pairs are taken over the same ones; None elsewhere."""
        if not self._many_of_one_set:
            return None
        codes = self.labels.codes(by)
        size = np.bincount(restrict(codes.codes, self.pairs.sets[0]), minlength=codes.n_clusters)
        return np.asarray(size / size.sum())

    def scaled_meat(self, by: Axis, scale: FloatArray, bread: Matrix) -> FloatArray:
        """The meat with the totals of each cluster times a number; there where `shares` is."""
        return self._of_models(self.labels.codes(by), scale, bread)

    @property
    def _many_of_one_set(self) -> bool:
        return len(self.pairs.sets) == 1 and self.n_columns > len(self.values)

    def _of_models(self, codes: Codes, scale: FloatArray | None, bread: Matrix) -> FloatArray:
        """B'T'TB of pairs that are all taken over the same questions, from T'T of their models, far fewer."""
        left, right, member = self.pairs.left, self.pairs.right, self.pairs.sets[0]
        values, code = in_set(self.values, member), restrict(codes.codes, member)
        totals = _totals_of_models(values, self.means[0], code, codes.n_clusters) * (1.0 if scale is None else scale)
        models, contrasts = _contrasts(left, right)
        of_models = totals[models]
        gram = of_models @ of_models.T
        result: FloatArray = contrasts.T @ gram @ contrasts
        # Of two models that hardly differ, little is left of the sums: these are taken of their differences.
        close = np.flatnonzero(np.diag(result) < CLOSE * (contrasts**2).T @ np.diag(gram))
        for part in np.array_split(close, close.size * totals.shape[1] // HELD + 1):
            d = differences(totals, self.pairs, part, None)
            products = d @ of_models.T @ contrasts
            result[part], result[:, part] = products, products.T
            result[np.ix_(part, part)] = d @ d.T
        result[self.flat, :] = result[:, self.flat] = 0.0
        return dense(bread.T @ (result @ bread))

    def row_influence(self, bread: Matrix) -> FloatArray:
        """Influence of each question, B's_r, shape (n_questions, n_params)."""
        scores = np.concatenate([self._sums(part)[0] for part in _parts(self._every_question, self.n_columns)])
        return np.asarray(scores @ bread)

    def squares_in_cells(self, by: Axis) -> Matrix:
        """Sums of squares of the scores within (cluster, pair)."""
        codes = self.labels.codes(by)
        squares = np.zeros((codes.n_clusters, self.n_columns))
        for columns, member in chunks(self.pairs, self.n_rows):
            code = restrict(codes.codes, member)
            d = differences(self.values, self.pairs, columns, member) - self.fitted[columns][:, None]
            squares[:, columns] = np.array([np.bincount(code, of_pair, codes.n_clusters) for of_pair in d**2]).T
        squares[:, self.flat] = 0.0
        return squares

    @property
    def _every_question(self) -> Codes:
        return Codes(np.arange(self.n_rows), self.n_rows)

    def clusters_reached(self, by: Axis, maps: Matrix) -> IntArray:
        """Clusters with questions of some column that enters each row of `maps`; by sets where each is one column."""
        entries = compressed(maps).tocoo()
        if maps.shape[0] != self.n_columns or not np.array_equal(*entries.coords):
            return super().clusters_reached(by, maps)
        codes, result = self.labels.codes(by), np.zeros(self.n_columns, dtype=np.intp)
        for columns, member in by_set(self.pairs):
            result[columns] = np.count_nonzero(np.bincount(restrict(codes.codes, member)))
        return result

    def _sums(self, part: BlockRows) -> tuple[FloatArray, FloatArray]:
        """Sums of the scores, and questions, of the clusters of one block in each column."""
        rows, cluster, n_clusters = part
        values = self.values if rows is None else self.values[:, rows]
        pairs = self.pairs
        totals, sizes = (np.zeros((n_clusters, self.n_columns)) for _ in range(2))
        for (columns, member), mean in zip(by_set(pairs), self.means, strict=True):
            inside = member if member is None or rows is None else member[rows]
            code = restrict(cluster, inside)
            models, contrasts = _contrasts(pairs.left[columns], pairs.right[columns])
            sums = _totals_of_models(in_set(values[models], inside), mean[models], code, n_clusters)
            place = slice(None) if len(pairs.sets) == 1 else columns
            totals[:, place] = sums.T @ contrasts
            sizes[:, place] = np.bincount(code, minlength=n_clusters)[:, None]
        totals[:, self.flat] = 0.0
        return totals, sizes


def _totals_of_models(values: FloatArray, mean: FloatArray, code: IntArray, n_clusters: int) -> FloatArray:
    """Sums of scores about their mean within clusters, shape (n_models, n_clusters)."""
    return np.array(
        [np.bincount(code, scores - centre, n_clusters) for scores, centre in zip(values, mean, strict=True)]
    )


def _contrasts(left: IntArray, right: IntArray) -> tuple[IntArray, FloatArray]:
    """Models that occur, and a column of 1 and -1 among them for each pair."""
    models = np.unique(np.append(left, right))
    models = models[models != NOBODY]
    contrasts, every, both = np.zeros((models.size, left.size)), np.arange(left.size), right != NOBODY
    contrasts[np.searchsorted(models, left), every] = 1.0
    contrasts[np.searchsorted(models, right[both]), every[both]] = -1.0
    return models, contrasts


def _parts(codes: Codes, n_columns: int) -> Iterator[BlockRows]:
    """Whole clusters, so many at a time that their sums take little memory."""
    if codes.n_clusters * n_columns <= HELD:
        yield None, codes.codes, codes.n_clusters
        return
    order, starts = codes.order
    for part in parts_of(codes.n_clusters, max(HELD // n_columns, 1)):
        rows = order[starts[part.start] : starts[part.stop]]
        yield rows, codes.codes[rows] - part.start, part.stop - part.start


@dataclass(frozen=True, eq=False)
class PairedMeans(Paired):
    """Columns are means of models; `item` names a question, which has one row in a column."""

    item: Axis

    def sides(self, contrasts: Matrix | None) -> Sides:
        """Contrasts that are multiples of the difference of two means, each of models that had the same questions."""
        A = self.of_columns(contrasts)
        sides, n_models = Sides.of_signs(A, signed=True), np.diff(A.indptr)
        A, n_models = A[sides.rows], n_models[sides.rows]
        if not sides.rows.size:
            return sides
        same = self._same_questions(np.repeat(A.indices[A.indptr[:-1]], n_models), A.indices)
        return sides.chosen(np.logical_and.reduceat(same, A.indptr[:-1]))

    @cached_property
    def _shared(self) -> FloatArray:
        """Questions that columns share, shape (n_columns, n_columns)."""
        return inner_products(self._answers[1])

    @cached_property
    def _answers(self) -> tuple[Matrix, Matrix]:
        """Scores by question and column, and whether there is one, in compressed columns."""
        values, present = [], []
        for block in self.scores.cells(self.item):
            gram = without_zeros(compressed(block.gram))
            residual = compressed(block.totals).multiply(with_entries(gram, 1.0 / gram.data))
            present.append(gram.sign())
            values.append(compressed(residual + scale_columns(present[-1], self.means)))
        return sparse.vstack(values).tocsc(), sparse.vstack(present).tocsc()

    @cached_property
    def _picked(self) -> Matrix:
        """Scores with a row for each column, from which rows are quickly picked."""
        rows = compressed(self._answers[0].T)
        return rows if rows.shape[0] * rows.shape[1] > HELD else dense(rows)

    def _same_questions(self, first: IntArray, second: IntArray) -> BoolArray:
        """Whether both columns have a row of each question that either has."""
        alone = self._alone[first] & self._alone[second]
        # Of columns that have several rows of a question, none is looked up, which may be in an engine.
        if not alone.any():
            return alone
        shared = self._shared[first, second]
        return np.asarray(alone & (shared == self.count[first]) & (shared == self.count[second]))

    @property
    def once(self) -> bool:
        """Whether no column has several rows of a question."""
        return bool(self._alone.all())

    @cached_property
    def _alone(self) -> BoolArray:
        """Which columns have one row of each of their questions, shape (n_columns,)."""
        return np.equal(self.scores.column_sums(self.item, identity(self.count.size)).n_clusters, self.count)

    def _homes(self, axis: Axis) -> IntArray | None:
        """Cluster of each question; None where it is one itself, or an engine's table is gone and did not say."""
        return None if axis == self.item else self.scores.homes(self.item, axis)

    def _present(self, sides: Sides, at: IntArray) -> FloatArray:
        """Which questions some differences are over, shape (m, n_questions): those of any model in them."""
        model = np.append(np.arange(self.count.size), sides.shared.indices[sides.shared.indptr[:-1]])
        return dense(self._answers[1][:, model[sides.first[at]]]).T

    def _each(self, sides: Sides) -> Iterator[tuple[IntArray, FloatArray, BoolArray | None]]:
        """Differences of a few contrasts at a time, by question; 0 where a question is of neither model."""
        first, second, values = sides.first, sides.second, self._picked
        if sides.shared.shape[0]:
            values = compressed(sparse.vstack([compressed(values), sides.shared @ values]))
        step = max(HELD // max(values.shape[1], 1), 1)
        for at in np.array_split(np.arange(first.size), first.size // step + 1):
            if at.size:
                yield at, dense(values[first[at]] - values[second[at]]), None


def paired_answers(estimate: Any, item: Axis) -> Paired | None:
    """Scores in [0, 1] of models on the same questions, from an estimate made of cells.

    Strata that weigh as their questions leave a mean the plain one, so that their cells are taken together; None where
    they weigh otherwise.
    """
    cells, maps = estimate.cells, estimate.coefficient_map
    if cells.stratum is None:
        return PairedMeans(estimate.scores, cells.mean, cells.weight, maps, ICC, item)
    of = sparse.csr_array((compressed(maps) != 0).T.astype(np.float64))
    weight = cells.weight @ of
    if not np.allclose(dense(maps), dense(of.T * cells.weight) / weight[:, None], rtol=ROUNDING, atol=0):
        return None
    mean = (cells.mean * cells.weight) @ of / weight
    # Residuals about the mean of the stratum become those about the mean of the model.
    about = sparse.diags_array(cells.mean) @ of - of @ sparse.diags_array(mean)
    scores = MappedScores(estimate.scores, of, about, counted=of)
    maps = sparse.eye_array(mean.size, format="csr")
    return PairedMeans(scores, mean, weight, maps, ICC, item, strata=_by_stratum(cells, estimate.coefficient_map))


@dataclass(frozen=True, eq=False)
class PairedDifferences(Paired):
    """Columns are differences of two models; a row is a question."""

    scores: PairScores

    def sides(self, contrasts: Matrix | None) -> Sides:
        """Contrasts that are multiples of one column, but of means of a model alone."""
        A = self.of_columns(contrasts)
        rows = np.flatnonzero(np.diff(A.indptr) == 1)
        column, scale = A.indices[A.indptr[rows]].astype(np.intp), A.data[A.indptr[rows]]
        sides = Sides(rows, column, np.full(rows.size, -1), scale, sparse.csr_array((0, A.shape[1])))
        return sides.chosen(self.scores.pairs.right[column] != NOBODY)

    def _homes(self, axis: Axis) -> IntArray:
        """Cluster of each question."""
        return self.scores.labels.codes(axis).codes

    def _each(self, sides: Sides) -> Iterator[tuple[IntArray, FloatArray, BoolArray | None]]:
        """Differences by question of the set that each is taken over, of a few contrasts at a time."""
        pairs, first = self.scores.pairs, sides.first
        contrasted = ModelPairs(pairs.left[first], pairs.right[first], pairs.of_set[first], pairs.sets)
        for at, member in chunks(contrasted, self.scores.n_rows):
            yield at, differences(self.scores.values, contrasted, at, member), member


def paired_differences(estimate: Any, icc: float | None, pairs: ModelPairs, is_paired: BoolArray) -> Paired | None:
    """Those of an estimate of differences on the same questions, if their scores lie in [0, 1] and `icc` is given.

    Strata weigh as their questions, which leaves a difference the plain mean over its questions.
    """
    scores = estimate.scores
    if icc is None or not scores.paired or np.min(scores.values) < 0 or np.max(scores.values) > 1:
        return None
    if estimate.cells.stratum is None:
        cells = estimate.cells
        return PairedDifferences(scores, cells.mean, cells.weight, estimate.coefficient_map, icc)
    which = np.flatnonzero(is_paired)
    if not which.size:
        return None
    paired = ModelPairs(pairs.left[which], pairs.right[which], pairs.of_set[which], pairs.sets)
    cells = pair_sums(scores.values, paired)
    inner = PairScores(scores.values, paired, cells.mean, scores.labels, np.zeros(which.size, dtype=bool))
    chosen = sparse.csr_array((np.ones(which.size), (which, np.arange(which.size))), (is_paired.size, which.size))
    strata = _by_stratum(estimate.cells, compressed(estimate.coefficient_map)[which])
    return PairedDifferences(inner, cells.mean, cells.weight, chosen, icc, strata=strata)


def _by_stratum(cells: Any, maps: Matrix) -> tuple[FloatArray, FloatArray]:
    """Means and questions by stratum of what is made of cells, (n_params, n_strata) each."""
    of = compressed(maps).tocoo()
    place = of.coords[0], cells.stratum[of.coords[1]]
    tables = np.zeros((2, of.shape[0], len(cells.strata)))
    tables[0][place], tables[1][place] = cells.mean[of.coords[1]], cells.weight[of.coords[1]]
    return tables[0], tables[1]
