"""Scores of differences between models on the same questions, which stay in Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.data.clusters import Axis
from evalreg.data.engine_spark_pairs import PairClusters, PairLines, Sums, pair_clusters
from evalreg.data.names import known_column
from evalreg.errors import NotAvailableError
from evalreg.numerics.matrices import Matrix, identity, scale_columns
from evalreg.scores.base import ClusterSizes
from evalreg.scores.lazy_spark import SparkScores
from evalreg.scores.paired import Paired, Sides
from evalreg.scores.sums import Block


@dataclass(frozen=True, eq=False)
class SparkDifferences(SparkScores):
    """A row is a question and a cell a pair of models, or one model, in a stratum; see `PairScores` of those in memory.

    Questions are counted once, whatever the number of pairs that they are in.
    """

    # Scores of the questions themselves, in one cell.
    questions: SparkScores = field(kw_only=True)
    # Of questions, which is a cluster of its own each, and sums over those of each pair.
    item: Axis = field(kw_only=True)
    by_pair: Sums = field(kw_only=True)
    # Cells whose differences are all alike, so that what is left of them would be rounding.
    flat: BoolArray = field(kw_only=True)
    _pairs: dict[Axis, PairClusters] = field(default_factory=dict, kw_only=True)

    paired = True

    @property
    def n_rows(self) -> int:
        """Questions in use."""
        return self.questions.n_rows

    @property
    def _units(self) -> tuple[FloatArray, FloatArray]:
        """What weights and sums of values are multiplied by."""
        return np.ones(self.n_cells), np.where(self.flat, 0.0, 1.0)

    @property
    def _levels(self) -> FloatArray:
        """What residuals of the cells are about."""
        return np.where(self.flat, 0.0, self.fitted)

    def _refuse_changed(self, count: FloatArray, total: FloatArray) -> None:
        super()._refuse_changed(count, np.where(self.flat, self.sums.total, total))

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', shape (n_params, n_params); None is every question its own cluster.

        Of one pair a question is in one cell, so that squares say it all.
        """
        return super().meat(self.item if by is None and self.by_pair["n"].size > 1 else by, bread)

    def cells(self, by: Axis) -> Iterator[Block]:
        """Sums within (cluster, cell), for what is asked of single clusters."""
        for block in super().cells(by):
            yield Block(scale_columns(block.totals, np.where(self.flat, 0.0, 1.0)), block.gram)

    def cluster_sizes(self, by: Axis) -> ClusterSizes:
        """How many clusters there are, and sums of their numbers of questions."""
        if by == self.item:
            n = self.n_rows
            return ClusterSizes(n, float(n), float(n), 1.0)
        return self.questions.cluster_sizes(by)

    def sizes(self, by: Axis) -> FloatArray:
        """Questions of each cluster, shape (n_clusters,)."""
        return self.questions.sizes(by)

    def largest_cluster(self, by: Axis) -> str:
        """Label of the cluster of most questions."""
        return self.questions.largest_cluster(by)

    def n_distinct(self, by: Axis) -> int:
        """Distinct joint values of some columns."""
        return self.n_rows if by == self.item else self.questions.n_distinct(by)

    def samples(self, by: Axis) -> tuple[Matrix, IntArray]:
        """Whether a cluster is in each distinct sample, (n_clusters, n_samples), and the sample of each column.

        Refused where differences are over different clusters: that would be a line for each of them.
        """
        every, n_clusters = identity(self.n_columns), self.n_clusters(by)
        if np.any(self.column_sums(by, every, every).n_clusters < n_clusters):
            raise NotAvailableError(
                f"which {':'.join(by)} clusters differences have in common is told from rows in memory. Keep the "
                "questions that all models answered in the engine, or collect the columns first."
            )
        return sparse.csr_array(np.ones((n_clusters, 1))), np.zeros(self.n_columns, dtype=np.intp)

    def of_pairs(self, by: Axis) -> PairClusters:
        """Sums over the clusters of each pair, asked once for each clustering; those of questions are known."""
        if by not in self._pairs:
            sums = self.by_pair
            if by == self.item:
                n, r2 = sums["n"], sums["squares"]
                never = np.zeros(n.size)
                self._pairs[by] = PairClusters(
                    n, n, sums["differ"], n - sums["whole"], r2, sums["wins"] + sums["losses"], never
                )
            else:
                self._refuse_gone(by)
                assert isinstance(self.table, PairLines)
                for name in by:
                    known_column(name, self.table.columns, "groups")
                lines = self.table.holding(by).to_native()
                self._pairs[by] = pair_clusters(lines, by, sums["n"].size)
        return self._pairs[by]

    def detached(self) -> SparkDifferences:
        """The same scores without their table: only what was asked for is known."""
        return replace(self, table=None, questions=self.questions.detached(), _lines={})


@dataclass(frozen=True, eq=False)
class PairedInSpark(Paired):
    """Columns are differences of two models, or means of one; questions stay in Spark, and counts of them leave."""

    scores: SparkDifferences
    # Whether a column is a difference; these are the first of the pairs that clusters are added up by.
    both: BoolArray

    def _sides(self, contrasts: Matrix | None) -> Sides:
        """Contrasts that are multiples of one column, but of means of a model alone."""
        A, rows, start = self._held(contrasts, 1)
        column, scale = A.indices[start].astype(np.intp), A.data[start]
        both = self.both[column]
        return rows[both], column[both], np.full(int(both.sum()), -1), scale[both]

    def _square(self, first: IntArray, second: IntArray) -> FloatArray:
        """Means of d^2."""
        return np.asarray(self.squares[first] / self.count[first] + self.means[first] ** 2)

    def _kish(self, axis: Axis) -> FloatArray:
        """Kish's effective number of clusters of each column."""
        return np.asarray(self.count**2 / self.scores.of_pairs(axis).squares[: self.count.size])

    def _passed(self, first: IntArray, second: IntArray, axes: tuple[Axis, ...]) -> FloatArray:
        """Means of |d| and d^2, shares of questions that differ and that differ by 1, and silent ones, shape (6, m)."""
        if not first.size:
            return np.zeros((6, 0))
        sums = self.scores.by_pair
        shares = [sums[name][first] / self.count[first] for name in ("size", "square", "differ", "whole")]
        known = [self.scores.of_pairs(axis) for axis in axes or (self.scores.item,)]
        told = [
            np.min([getattr(one, name)[first] for one in known], axis=0) / self.count[first]
            for name in ("telling", "not_whole")
        ]
        return np.array([*shares, *(1 - share for share in told)])

    def _between(self, first: IntArray, second: IntArray, axes: tuple[Axis, ...]) -> tuple[FloatArray, FloatArray]:
        """Sums of squares between clusters, and numbers of clusters, shape (n_axes, m)."""
        found = [self.scores.of_pairs(axis) for axis in axes] if first.size else []
        shape = (len(axes), first.size)
        between, counts = ([getattr(one, name)[first] for one in found] for name in ("between", "n_clusters"))
        return np.reshape(between, shape), np.reshape(counts, shape)
