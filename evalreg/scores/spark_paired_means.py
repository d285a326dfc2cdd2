"""Means of models on the same questions in Spark, and how much two of them differ there: counts of pairs leave it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.data.clusters import Axis
from evalreg.data.engine import LazyTable
from evalreg.data.engine_spark import keep_native, one_scan
from evalreg.data.engine_spark_pairs import PairColumns, lines_of, pair_clusters, pair_sums, questions_of
from evalreg.numerics.matrices import Matrix
from evalreg.scores.lazy_spark import SparkScores
from evalreg.scores.paired import Differing
from evalreg.scores.paired_means import PairedMeans

# What is known of a pair, and of a pair in a clustering.
OF_PAIR = ("n", "size", "square", "differ", "whole")
OF_CLUSTERS = ("telling", "not_whole", "between", "n_clusters", "mixed")


@dataclass(frozen=True, eq=False)
class PairedMeansInSpark(PairedMeans):
    """The same of rows in Spark; `models` are the joint values of `by`, as text, a column each."""

    rows: SparkScores = field(kw_only=True)
    by: tuple[str, ...] = field(kw_only=True)
    models: tuple[tuple[str, ...], ...] = field(kw_only=True)
    # What was asked before, by columns, as `OF_PAIR` and `OF_CLUSTERS` have it.
    _known: dict[tuple[int, int], FloatArray] = field(default_factory=dict, kw_only=True)
    _known_clusters: dict[tuple[Axis, int, int], FloatArray] = field(default_factory=dict, kw_only=True)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"rows": self.rows.detached()}

    @one_scan
    def differing(self, contrasts: Matrix | None, variance: FloatArray, axes: tuple[Axis, ...]) -> Differing:
        """Which contrasts are differences of two models on the same questions, and may rest on few of them."""
        return super().differing(contrasts, variance, axes)

    def _same_questions(self, first: IntArray, second: IntArray) -> BoolArray:
        """Whether both columns have a row of each question that either has."""
        if not first.size:
            return np.zeros(0, dtype=bool)
        alone = self._of_axis(self.item).n_clusters == self.count
        same = alone[first] & alone[second] & (self.count[first] == self.count[second])
        same[same] = self._pairs(first[same], second[same])[0] == self.count[first[same]]
        return np.asarray(same)

    def _square(self, first: IntArray, second: IntArray) -> FloatArray:
        """Means of d^2."""
        return np.asarray(self._pairs(first, second)[2] / self.count[first])

    def _passed(self, first: IntArray, second: IntArray, axes: tuple[Axis, ...]) -> FloatArray:
        """Means of |d| and d^2, shares of questions that differ and that differ by 1, and silent ones, shape (6, m)."""
        clusters = [self._clusters(axis, first, second) for axis in axes or (self.item,)]
        if any(one[4].any() for one in clusters):  # Answers to a question lie in several clusters.
            return super()._passed(first, second, axes)
        count, pairs = self.count[first], self._pairs(first, second)
        silent = 1 - np.min([one[:2] for one in clusters], axis=0) / count
        return np.concatenate([pairs[1:] / count, silent])

    def _between(self, first: IntArray, second: IntArray, axes: tuple[Axis, ...]) -> tuple[FloatArray, FloatArray]:
        """Sums of squares between clusters, and numbers of clusters, shape (n_axes, m)."""
        clusters = [self._clusters(axis, first, second) for axis in axes]
        if any(one[4].any() for one in clusters):
            return super()._between(first, second, axes)
        shape = (len(axes), first.size)
        return np.reshape([one[2] for one in clusters], shape), np.reshape([one[3] for one in clusters], shape)

    def _pairs(self, first: IntArray, second: IntArray) -> FloatArray:
        """Sums over the questions that both of two models answered, as `OF_PAIR` has them, shape (5, m)."""
        pairs = list(zip(np.minimum(first, second).tolist(), np.maximum(first, second).tolist(), strict=True))
        asked = sorted({pair for pair in pairs if pair not in self._known})
        if asked:
            questions, columns = self._questions(asked, ())
            found = pair_sums(questions, columns, None).by_pair(len(asked))
            self._known.update(zip(asked, np.array([found[name] for name in OF_PAIR]).T, strict=True))
        return np.array([self._known[pair] for pair in pairs]).reshape(-1, len(OF_PAIR)).T

    def _clusters(self, by: Axis, first: IntArray, second: IntArray) -> FloatArray:
        """Sums over the clusters of these questions, as `OF_CLUSTERS` has them, shape (5, m)."""
        if by == self.item:  # Nothing lies between rows of a cluster, and nothing is made of the sums.
            n, _, _, differ, whole = self._pairs(first, second)
            return np.array([differ, n - whole, np.zeros(n.size), n, np.zeros(n.size)])
        pairs = list(zip(np.minimum(first, second).tolist(), np.maximum(first, second).tolist(), strict=True))
        asked = sorted({pair for pair in pairs if (by, *pair) not in self._known_clusters})
        if asked:
            questions, columns = self._questions(asked, by)
            found = pair_clusters(lines_of(questions, columns).frame.to_native(), by, len(asked))
            each = np.array([getattr(found, name) for name in OF_CLUSTERS]).T
            self._known_clusters.update({(by, *pair): one for pair, one in zip(asked, each, strict=True)})
        return np.array([self._known_clusters[by, *pair] for pair in pairs]).reshape(-1, len(OF_CLUSTERS)).T

    def _questions(self, pairs: list[tuple[int, int]], by: Axis) -> tuple[LazyTable, PairColumns]:
        """A line for each question with the scores of the models of some pairs, and these pairs."""
        rows = self.rows
        if rows.table is None:
            raise rows.gone(self.item)
        left, right = np.array(pairs, dtype=np.intp).T
        models = np.unique(np.append(left, right))
        of = tuple(name for name in by if name not in self.item)
        lines = rows.table.holding((*self.by, *self.item, *of, rows.value))
        named = [self.models[model] for model in models]
        frame = keep_native(questions_of(lines, named, self.by, self.item, of, rows.value))
        own, other = self.means[left], self.means[right]
        places = np.searchsorted(models, left), np.searchsorted(models, right)
        columns = PairColumns(places[0], places[1], own, other, own - other)
        return LazyTable(nw.from_native(frame)), columns


def in_spark(paired: PairedMeans, rows: SparkScores, n_by: int) -> PairedMeansInSpark:
    """The same answers, of rows that stay in Spark, whose cells are told by `n_by` columns first."""
    cells = sorted(rows.cell_codes, key=lambda key: rows.cell_codes[key])
    models = tuple(dict.fromkeys(key[:n_by] for key in cells))
    own = {one.name: getattr(paired, one.name) for one in fields(paired)}
    return PairedMeansInSpark(**own, rows=rows, by=rows.cell_columns[:n_by], models=models)
