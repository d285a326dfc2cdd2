"""Satterthwaite degrees of freedom of very many cells: the compact forms beside the full matrix."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from evalreg.covariance import leverage as leverages
from evalreg.covariance.leverage import CellLeverage, cell_pieces, spread_of

TIGHT = 1e-10


def shares(n_clusters: int, n_cells: int, density: float) -> tuple[sparse.csr_array, np.ndarray]:
    """Shares of clusters in cells, some of them 1, and the weights of the cells."""
    rng = np.random.default_rng(4)
    count = rng.integers(1, 6, (n_clusters, n_cells)) * (rng.random((n_clusters, n_cells)) < density)
    count[rng.integers(0, n_clusters, n_cells), np.arange(n_cells)] += 1
    weight = count.sum(axis=0).astype(float)
    return sparse.csr_array(count / weight), weight


def cell_leverage(share: sparse.csr_array, weight: np.ndarray, power: float) -> CellLeverage:
    """What the leverages of all cells say."""
    sums = spread_of([cell_pieces(share, weight, power)])
    return CellLeverage(lambda: sums)


def by_loop(share: sparse.csr_array, weight: np.ndarray, power: float, contrasts: np.ndarray) -> list[float]:
    """Degrees of freedom from the expected cross products of the totals of all pairs of clusters."""
    h = share.toarray()
    scale = np.where(h > 1 - 1e-10, 0.0, (1 - np.where(h > 1 - 1e-10, 0.5, h)) ** -power)
    found = []
    for c in contrasts:
        P = -(scale * h / weight * c) @ (scale * h * c).T
        P[np.diag_indices(len(P))] += np.sum(scale**2 * h / weight * c**2, axis=1)
        found.append(np.trace(P) ** 2 / np.sum(P**2))
    return found


@pytest.mark.parametrize(("density", "form"), [(0.03, "sparse"), (0.6, "factored")])
@pytest.mark.parametrize("n_clusters", [7, 60])
def test_compact_forms_equal_the_full_matrix(
    density: float, form: str, n_clusters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    share, weight = shares(n_clusters, 40, density)
    full = cell_leverage(share, weight, 0.5)
    limit = 39 if form == "sparse" else 20
    monkeypatch.setattr(leverages, "HELD", limit**2)  # some columns or contrasts at a time
    compact = cell_leverage(share, weight, 0.5)
    assert (compact.sums[2] is None) == (form == "sparse")
    assert isinstance(full.sums[1], np.ndarray)
    C = np.random.default_rng(1).standard_normal((8, 40)) * (np.random.default_rng(2).random((8, 40)) < 0.4)
    for contrasts in (C, sparse.csr_array(C)):
        np.testing.assert_allclose(compact.dof(contrasts), full.dof(C), rtol=TIGHT)
    np.testing.assert_allclose(full.dof(sparse.csr_array(C)), full.dof(C), rtol=TIGHT)
    np.testing.assert_allclose(compact.hotelling(C[:3]), full.hotelling(C[:3]), rtol=TIGHT)
    np.testing.assert_allclose(compact.dof(C), by_loop(share, weight, 0.5, C), rtol=TIGHT)
