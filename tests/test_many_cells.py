"""Satterthwaite degrees of freedom of very many cells: the compact forms beside the full matrix."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import evalreg as er
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


def test_one_contrast_of_hotelling_is_satterthwaite() -> None:
    share, weight = shares(30, 12, 0.5)
    found = cell_leverage(share, weight, 0.5)
    c = np.random.default_rng(3).standard_normal((1, 12))
    np.testing.assert_allclose(found.hotelling(c), found.dof(c)[0], rtol=TIGHT)


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
@pytest.mark.parametrize("kind", ["dense", "sparse", "factored"])
def test_combinations_of_two_contrasts_have_the_degrees_of_freedom_of_their_product(monkeypatch, kind):
    log = er.datasets.judge_log(n_models=8, n_prompts=20, n_judges=2, pairs_per_prompt=6, seed=3)
    board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
    (block,) = board.estimate.scores.cells(("prompt",))
    weight, A = board.estimate.cells.weight, board.estimate.coefficient_map
    share = (block.gram @ sparse.diags_array(1 / weight)).tocsr()
    leverage = expected = cell_leverage(share, weight, 0.5)
    if kind != "dense":
        monkeypatch.setattr(leverages, "HELD", 25 if kind == "factored" else 27**2)
        leverage = cell_leverage(share, weight, 0.5)
        assert (leverage.sums[2] is None) == (kind == "sparse")
    left, right = np.triu_indices(8, 1)
    C = np.zeros((left.size, 8))
    C[np.arange(left.size), left], C[np.arange(left.size), right] = 1.0, -1.5
    C = np.vstack([C, np.eye(8)])
    found = leverage.of_pairs(C, leverage.project(A))
    np.testing.assert_allclose(found, expected.dof(np.asarray(C @ A.toarray())), rtol=TIGHT)
