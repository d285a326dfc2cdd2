"""What single clusters alone determine, held against the null spaces of the design without each cluster."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.linalg

import evalreg as er
from evalreg.covariance.absorbed import directions_of

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


def _log(n_clusters, rows_each, n_levels, alone, seed=0):
    """Levels of a factor at random, and `alone` more of them, each seen in one cluster only."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(n_clusters), rows_each)
    level = rng.integers(0, n_levels, cluster.size)
    for j in range(alone):
        inside = np.flatnonzero(cluster == j)
        level[rng.choice(inside, max(rows_each // 3, 1), replace=False)] = n_levels + j
    x = np.where(cluster == n_clusters - 1, rng.normal(size=cluster.size), 0.0)  # varies in the last cluster only
    frame = pd.DataFrame({"m": [f"m{i:03d}" for i in level], "g": cluster, "x": x, "z": rng.normal(size=cluster.size)})
    return frame.assign(score=rng.normal(size=cluster.size), w=rng.uniform(0.5, 2.0, cluster.size))


def _without_each(X, codes):
    """Parameters that move along the null space of the design without some cluster, and the space's dimension."""
    moves, size = np.zeros(X.shape[1], dtype=bool), 0
    for g in np.unique(codes):
        null = scipy.linalg.null_space(X[codes != g], rcond=1e-9)
        moves |= np.any(np.abs(null) > 1e-7, axis=1)
        size += null.shape[1]
    return moves, size


@pytest.mark.parametrize("cov", ["CR1", "CR2"])
@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize(("clusters", "rows", "levels"), [(30, 3, 12), (12, 40, 5), (40, 1, 4)])
@pytest.mark.parametrize("alone", [0, 2])
def test_what_one_cluster_determines_is_what_is_lost_without_it(clusters, rows, levels, alone, weights, cov):
    log = _log(clusters, rows, levels, alone)
    results = er.fit("score ~ m + x + z", log, groups="g", weights=weights, cov=cov)
    levels = pd.get_dummies(log["m"], drop_first=True, dtype=float)
    X = np.column_stack([np.ones(len(log)), levels, log["x"], log["z"]])
    lost, size = _without_each(X, log["g"].to_numpy())
    assert np.isnan(results.bse.to_numpy()).tolist() == lost.tolist()
    blind = directions_of(results.estimate, ("g",)).moves(results.estimate)
    assert blind.shape[1] == size == alone + 1


@pytest.mark.parametrize("n_models", [4, 10])
def test_the_question_that_moves_a_regression_most_is_the_one_of_solving_again(n_models):
    log = _questions(40, n_models)
    results = er.fit("score ~ model + C(q)", log, groups="q")
    (row,) = results.diagnostics().to_dict("records")
    # Without its question, the effects of models are those of numpy's least squares on the other rows.
    moved = {}
    X = np.column_stack([np.ones(len(log)), *(pd.get_dummies(log[name], drop_first=True) for name in ("model", "q"))])
    X = X.astype(float)
    for q in log["q"].unique():
        kept = (log["q"] != q).to_numpy()
        # The coefficients of questions are then not unique, those of models are.
        moved[q] = np.linalg.lstsq(X[kept], log["score"].to_numpy()[kept], rcond=None)[0][1:n_models]
    names = [f"model[T.m{i}]" for i in range(1, n_models)]
    size = {q: np.max(np.abs(b - results.params[names]) / results.bse[names]) for q, b in moved.items()}
    most = max(size, key=size.get)
    assert row["most_influential"] == str(most)
    np.testing.assert_allclose([row["params_without"][name] for name in names], moved[most], rtol=1e-10)
    Q = np.linalg.qr(X)[0]
    largest = np.bincount(log["q"], np.sum(Q**2, axis=1)).max()
    np.testing.assert_allclose(row["max_leverage"], largest, rtol=1e-12)


def _questions(n, n_models=10):
    rng = np.random.default_rng(5)
    log = pd.DataFrame({"q": np.repeat(np.arange(n), n_models), "model": np.tile(np.arange(n_models), n)})
    log["model"] = np.char.add("m", log["model"].to_numpy().astype(str)).astype(object)
    return log.assign(score=rng.normal(size=len(log)) + rng.normal(size=n)[log["q"]])
