"""Scores of rows in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from evalreg.checks import FloatArray, IntArray
from evalreg.data.clusters import Axis, Labels
from evalreg.numerics.matrices import Matrix
from evalreg.scores.base import Scores, meat_of_sums


class LabelledScores(Scores):
    """Scores of rows in memory whose clusters are told by `labels`, a field of the dataclass."""

    labels: Labels
    stackable: ClassVar[bool] = True
    weights: FloatArray | None = None
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def n_rows(self) -> int:
        """Rows in use."""
        return self.labels.n_rows

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of labels that can be clustered on."""
        return self.labels.columns

    @property
    def has_source(self) -> bool:
        """Whether further columns can be looked up."""
        return self.labels.source is not None

    def n_clusters(self, by: Axis) -> int:
        """Observed joint values of some columns."""
        return self.labels.codes(by).n_clusters

    def sizes(self, by: Axis) -> FloatArray:
        """Weight of each cluster, shape (n_clusters,)."""
        codes = self.labels.codes(by)
        return np.asarray(codes.counts if self.weights is None else np.bincount(codes.codes, self.weights), dtype=float)

    def label(self, by: Axis, code: int) -> str:
        """Label of one cluster."""
        return self.labels.codes(by).label(code)

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', shape (n_params, n_params)."""
        return meat_of_sums(self, by, bread)

    def homes(self, item: Axis, by: Axis) -> IntArray | None:
        """Cluster of each question, in the order of the clusters of `item`."""
        of = self.labels.codes(item)
        home = np.zeros(of.n_clusters, dtype=np.intp)
        home[of.codes] = self.labels.codes(by).codes
        return home

    def row_labels(self) -> Labels | None:
        """Labels of the rows."""
        return self.labels

    def relabelled(self, change: Callable[[Labels], Labels]) -> LabelledScores:
        """The same scores with the labels of their rows changed."""
        return replace(self, labels=change(self.labels))

    def with_labels(self, more: dict[str, Any]) -> LabelledScores:
        """The same scores with further label columns."""
        return self.relabelled(lambda own: own.with_held({name: own.align(name, one) for name, one in more.items()}))

    def detached(self) -> LabelledScores:
        """The same scores without the source of further labels."""
        return self.relabelled(Labels.detached)
