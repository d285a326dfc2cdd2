"""Means over strata whose shares are estimated: the scores of a stratified sample of clusters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray
from evalreg.data.clusters import Axis
from evalreg.scores.stacking import detached
from evalreg.scores.sums import Block, Matrix, Scores, compressed, dense, scale_columns, square, sum_blocks


@dataclass(frozen=True, eq=False)
class SampledShares:
    """Scores of means over strata of which clusters are drawn, so that the shares of the strata are estimated too.

    The total of cluster g in stratum k is sum (y - ybar), less its mean over the G_k clusters of the stratum:
    T_gk + (n_gk - n_k/G_k)(ybar_k - ybar). Clusters are the units, and have the leverage 1/G_k.

    Parameters
    ----------
    inner : Scores
        Residuals y - ybar_k of the rows in their cells.
    away : ndarray, shape (n_cells,)
        ybar_k - ybar.
    weight : ndarray, shape (n_cells,)
        n_k.

    References
    ----------
    Cochran (1977), Sampling Techniques, sections 5A and 6.12; Lumley (2004), J. Statistical Software 9(8).
    """

    inner: Scores
    away: FloatArray
    weight: FloatArray

    @property
    def n_rows(self) -> int:
        """Rows in use."""
        return self.inner.n_rows

    @property
    def n_columns(self) -> int:
        """Cells."""
        return self.inner.n_columns

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of labels that can be clustered on."""
        return self.inner.columns

    @property
    def has_source(self) -> bool:
        """Whether further columns can be looked up."""
        return self.inner.has_source

    @property
    def labels(self) -> Any:
        """Cluster labels of the rows."""
        return self.inner.labels  # type: ignore[attr-defined]

    def n_clusters(self, by: Axis) -> int:
        """Observed joint values of some columns."""
        return self.inner.n_clusters(by)

    def sizes(self, by: Axis) -> FloatArray:
        """Weight of each cluster, shape (n_clusters,)."""
        return self.inner.sizes(by)

    def label(self, by: Axis, code: int) -> str:
        """Label of one cluster."""
        return self.inner.label(by, code)

    def cells(self, by: Axis) -> Iterator[Block]:
        """Centred totals of clusters, and n_k/G_k for each cell that a cluster is in."""
        blocks = [(compressed(block.totals), compressed(block.gram)) for block in self.inner.cells(by)]
        clusters = sum(np.asarray((gram > 0).sum(axis=0)).ravel() for _, gram in blocks)
        typical = self.weight / np.maximum(clusters, 1)
        for totals, gram in blocks:
            unit = sparse.csr_array((gram > 0).astype(float))
            even = scale_columns(unit, typical)
            yield Block(compressed(totals + scale_columns(gram - even, self.away)), even)

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum of squares of the centred totals, mapped by the bread; rows are units alike."""
        if by is None:
            return self.inner.meat(None, bread)
        return sum_blocks(square(block.totals, dense(bread)) for block in self.cells(by))

    def with_labels(self, more: dict[str, Any]) -> SampledShares:
        """The same scores with further label columns."""
        return replace(self, inner=self.inner.with_labels(more))

    def detached(self) -> SampledShares:
        """The same scores without the source of further labels."""
        return replace(self, inner=detached(self.inner))
