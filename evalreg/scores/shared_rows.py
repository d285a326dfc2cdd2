"""Scores of the rows of other scores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from evalreg.checks import FloatArray, IntArray
from evalreg.data.clusters import Axis, Labels
from evalreg.errors import NotAvailableError
from evalreg.numerics.matrices import Matrix
from evalreg.scores.base import ClusterSizes, ResidualSums, Scores, meat_of_sums


class SharedRows(Scores):
    """Scores of the rows of other scores, which answer for their labels."""

    @property
    @abstractmethod
    def whose(self) -> Scores:
        """Scores of the same rows."""

    @abstractmethod
    def each(self, change: Callable[[Any], Any]) -> SharedRows:
        """The same with a change made to the scores that these are made of."""

    @property
    def n_rows(self) -> int:
        """Rows in use."""
        return self.whose.n_rows

    @property
    def labels(self) -> Labels:
        """Cluster labels of the rows, which are in memory."""
        labels = self.whose.row_labels()
        if labels is None:
            raise NotAvailableError("labels of single rows need the rows in memory.")
        return labels

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of labels that can be clustered on."""
        return self.whose.columns

    @property
    def has_source(self) -> bool:
        """Whether further columns can be looked up."""
        return self.whose.has_source

    def n_clusters(self, by: Axis) -> int:
        """Observed joint values of some columns."""
        return self.whose.n_clusters(by)

    def sizes(self, by: Axis) -> FloatArray:
        """Weight of each cluster, shape (n_clusters,)."""
        return self.whose.sizes(by)

    def label(self, by: Axis, code: int) -> str:
        """Label of one cluster."""
        return self.whose.label(by, code)

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', shape (n_params, n_params)."""
        return meat_of_sums(self, by, bread)

    def homes(self, item: Axis, by: Axis) -> IntArray | None:
        """Cluster of each question, in the order of the clusters of `item`."""
        return self.whose.homes(item, by)

    def cluster_sizes(self, by: Axis) -> ClusterSizes:
        """How many clusters there are, and sums of their weights."""
        return self.whose.cluster_sizes(by)

    def largest_cluster(self, by: Axis) -> str:
        """Label of the cluster of most weight."""
        return self.whose.largest_cluster(by)

    def counts_rows(self, by: Axis) -> bool:
        """Whether the weights of clusters are numbers of rows."""
        return self.whose.counts_rows(by)

    def residual_sums(self, by: Axis) -> ResidualSums | None:
        """Sums of residuals within clusters; None where there are no residuals."""
        return self.whose.residual_sums(by)

    def row_labels(self) -> Labels | None:
        """Labels of the rows; None where they are not in memory."""
        return self.whose.row_labels()

    def relabelled(self, change: Callable[[Labels], Labels]) -> SharedRows:
        """The same scores with the labels of their rows changed."""
        return self.each(lambda scores: scores.relabelled(change))

    def with_labels(self, more: dict[str, Any]) -> SharedRows:
        """The same scores with further label columns."""
        return self.each(lambda scores: scores.with_labels(more))

    def detached(self) -> SharedRows:
        """The same scores without the source of further labels."""
        return self.each(lambda scores: scores.detached())
