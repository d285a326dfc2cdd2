"""Means over strata whose shares are estimated: the scores of a stratified sample of clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray
from evalreg.data.clusters import Axis
from evalreg.errors import NotAvailableError
from evalreg.numerics.matrices import Matrix, compressed, dense, scale_columns
from evalreg.scores.base import Scores, meat_of_sums
from evalreg.scores.shared_rows import SharedRows
from evalreg.scores.sums import Block


@dataclass(frozen=True, eq=False)
class SampledShares(SharedRows):
    """Scores of means over strata whose clusters are drawn, so that the shares of the strata are estimated too.

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
    def whose(self) -> Scores:
        """Scores of the same rows."""
        return self.inner

    def each(self, change: Callable[[Any], Any]) -> SampledShares:
        """The same with a change made to the residuals."""
        return replace(self, inner=change(self.inner))

    @property
    def n_columns(self) -> int:
        """Cells."""
        return self.inner.n_columns

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
        return self.inner.meat(None, bread) if by is None else meat_of_sums(self, by, dense(bread))

    def row_influence(self, bread: Matrix) -> FloatArray:
        """Refused: a row has none."""
        raise NotAvailableError(
            "rows have no influence of their own where the shares of strata are estimated, since clusters are the "
            "units; name a clustering in `by`."
        )
