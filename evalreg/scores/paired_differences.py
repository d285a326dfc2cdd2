"""Differences of two models on the same questions, and how much they differ from zero."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.data.answers import NOBODY, ModelPairs
from evalreg.data.clusters import Axis
from evalreg.numerics.matrices import Matrix
from evalreg.scores.differences import PairScores, chunks, differences, pair_sums
from evalreg.scores.paired import Paired, PairedQuestions, Sides


@dataclass(frozen=True, eq=False)
class PairedDifferences(PairedQuestions):
    """Columns are differences of two models; a row is a question."""

    scores: PairScores

    def sides(self, contrasts: Matrix | None) -> Sides:
        """Contrasts that are multiples of one column, but of means of a model alone."""
        A, rows, start = self._held(contrasts, 1)
        column, scale = A.indices[start].astype(np.intp), A.data[start]
        both = self.scores.pairs.right[column] != NOBODY
        return rows[both], column[both], np.full(int(both.sum()), -1), scale[both]

    def _homes(self, axis: Axis) -> IntArray:
        """Cluster of each question."""
        return self.scores.labels.codes(axis).codes

    def _present(self, first: IntArray) -> None:
        """All that `_each` gives."""

    def _each(self, first: IntArray, second: IntArray) -> Iterator[tuple[IntArray, FloatArray, BoolArray | None]]:
        """Differences by question of the set that each is taken over, of a few contrasts at a time."""
        if not first.size:
            return
        pairs = self.scores.pairs
        own = ModelPairs(pairs.left[first], pairs.right[first], pairs.of_set[first], pairs.sets)
        for at, member in chunks(own, self.scores.n_rows):
            yield at, differences(self.scores.values, own, at, member), member


def paired_differences(estimate: Any, icc: float | None, pairs: ModelPairs, is_paired: BoolArray) -> Paired | None:
    """Those of an estimate of differences on the same questions, if their scores lie in [0, 1] and `icc` is given.

    Strata weigh as their questions, which leaves a difference the plain mean over its questions.
    """
    scores = estimate.scores
    if icc is None or not scores.paired or np.min(scores.values) < 0 or np.max(scores.values) > 1:
        return None
    if estimate.cells.stratum is None:
        cells = estimate.cells
        return PairedDifferences(scores, cells.mean, cells.weight, cells.squares, estimate.coefficient_map, icc)
    which = np.flatnonzero(is_paired)
    if not which.size:
        return None
    own = ModelPairs(pairs.left[which], pairs.right[which], pairs.of_set[which], pairs.sets)
    sums = pair_sums(scores.values, own)
    mean = sums.total / sums.weight
    inner = PairScores(scores.values, own, mean, scores.labels, np.zeros(which.size, dtype=bool))
    chosen = sparse.csr_array((np.ones(which.size), (which, np.arange(which.size))), (is_paired.size, which.size))
    return PairedDifferences(inner, mean, sums.weight, sums.squares, chosen, icc, stratified=True)
