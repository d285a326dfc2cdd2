"""Leverages added up over clusters give the degrees of freedom of the single ones."""

from __future__ import annotations

import numpy as np
import pytest

from evalreg.covariance.row_leverages import NarrowLeverage, RowLeverage, WideLeverage
from evalreg.covariance.summed_leverages import SummedLeverage, SummedProducts
from evalreg.scores.sums import NarrowClusters

# Products are added up in another order.
SAME = 1e-11
SIZES = [1, 2, 2, 3, 5, 9, 14, 4]


@pytest.fixture
def design(rng):
    """Rows of a regression in clusters, the second of which alone has the last column."""
    codes = np.repeat(np.arange(len(SIZES)), SIZES)
    X = np.column_stack([np.ones(codes.size), rng.normal(size=(codes.size, 3)), codes == 1])
    return X, codes


def slowly(X, codes, power, contrast):
    """Satterthwaite degrees of freedom by n x n matrices (Bell and McCaffrey 2002)."""
    H = X @ np.linalg.solve(X.T @ X, X.T)
    totals = []
    for cluster in np.unique(codes):
        own = np.flatnonzero(codes == cluster)
        values, axes = np.linalg.eigh(np.eye(own.size) - H[np.ix_(own, own)])
        full = values < 1e-9
        scale = np.where(full, 0.0, np.where(full, 1.0, values) ** -power)
        influence = axes @ (scale * (axes.T @ (X[own] @ np.linalg.solve(X.T @ X, contrast))))
        totals.append((np.eye(len(codes)) - H)[:, own] @ influence)
    P = np.array(totals) @ np.array(totals).T
    return np.trace(P) ** 2 / np.sum(P**2)


def parts_of(X, codes, power):
    """Leverages of the clusters, those of few rows by their rows."""
    root = np.linalg.cholesky(np.linalg.inv(X.T @ X))
    starts, k = np.append(0, np.cumsum(SIZES)), X.shape[1]
    narrow = np.flatnonzero(np.array(SIZES) < k)
    order = np.flatnonzero(np.isin(codes, narrow))
    clusters = NarrowClusters(
        X, np.zeros((narrow.size, k)), order, np.append(0, np.cumsum(np.array(SIZES)[narrow])), narrow
    )
    L = [root.T @ X[starts[g] : starts[g + 1]].T @ X[starts[g] : starts[g + 1]] @ root for g in range(len(SIZES))]
    wide = np.array([one for g, one in enumerate(L) if g not in narrow])
    return root, (NarrowLeverage(clusters, root, power), WideLeverage(wide, power))


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_dof_of_sums_is_that_of_all_rows(design, rng, power):
    X, codes = design
    root, parts = parts_of(X, codes, power)
    sums = SummedProducts.of_array(SummedProducts.of(parts, X.shape[1]).array, X.shape[1])
    summed, held = SummedLeverage(sums, root), RowLeverage(parts, root)
    contrasts = rng.normal(size=(4, X.shape[1]))
    expected = [slowly(X, codes, power, contrast) for contrast in contrasts]
    np.testing.assert_allclose(summed.dof(contrasts), expected, rtol=1e-8)
    np.testing.assert_allclose(summed.dof(contrasts), held.dof(contrasts), rtol=SAME)
    np.testing.assert_allclose(summed.hotelling(contrasts[:3]), held.hotelling(contrasts[:3]), rtol=SAME)


class _Lines:
    """Lines that answer with what residuals are about."""

    def powers(self, bread, levels):
        return np.array([levels**2, levels**4])

    def residual_sums(self, fitted, total, of):
        return 2.0, 4.0, float(fitted.sum()), 8.0, 16.0
