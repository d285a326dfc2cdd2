"""Clusters of fewer rows than coefficients, whose leverages follow from their rows: against the n x n formulas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.covariance import leverage
from evalreg.scores import rows

TIGHT = 1e-9
pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
# Rows of each cluster; there are six coefficients.
SIZES = {
    "single rows": [1] * 60,
    "narrow": [1, 2, 3, 4, 5] * 8,
    "both": [1, 2, 3, 5, 6, 7, 12, 30] * 3,
    "wide": [6, 7, 20, 25] * 4,
}


def made(sizes: list[int]) -> pd.DataFrame:
    rng = np.random.default_rng(11)
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    n = cluster.size
    return pd.DataFrame(
        {
            "score": rng.normal(size=n) + rng.normal(size=len(sizes))[cluster],
            "x": rng.normal(size=n),
            "model": rng.choice(["a", "b", "c", "d", "e"], n),
            "passage": cluster,
        }
    ).sample(frac=1, random_state=1)


def by_hand(X: np.ndarray, y: np.ndarray, cluster: np.ndarray, power: float) -> tuple[np.ndarray, np.ndarray]:
    """Variances and Bell and McCaffrey's (2002) degrees of freedom, with the n x n projection written out."""
    M = np.linalg.pinv(X.T @ X)
    H, e = X @ M @ X.T, y - X @ M @ (X.T @ y)
    rest, V, columns = np.eye(len(y)) - H, np.zeros(M.shape), []
    for g in np.unique(cluster):
        own = cluster == g
        values, axes = np.linalg.eigh(rest[np.ix_(own, own)])
        scale = np.where(values < 1e-10, 0.0, np.where(values < 1e-10, 1.0, values) ** -power)
        pulled = X[own].T @ (axes * scale) @ axes.T
        V += np.outer(M @ pulled @ e[own], M @ pulled @ e[own])
        columns.append((rest[:, own] @ pulled.T @ M).T)
    columns = np.array(columns)  # (clusters, k, n)
    dof = []
    for j in range(X.shape[1]):
        P = columns[:, j] @ columns[:, j].T
        dof.append(np.trace(P) ** 2 / np.sum(P**2))
    return np.diag(V), np.array(dof)


@pytest.mark.parametrize("cov", ["CR2", "CR3"])
@pytest.mark.parametrize("name", SIZES)
def test_errors_and_degrees_of_freedom_are_those_of_all_rows(name: str, cov: str) -> None:
    log = made(SIZES[name])
    results = er.fit("score ~ x + C(model)", log, groups="passage", cov=cov, dof="satterthwaite")
    X = results.statsmodels.model.exog
    G = log["passage"].nunique()
    factor = (G - 1) / G if cov == "CR3" else 1.0
    variance, dof = by_hand(X, log["score"].to_numpy(), log["passage"].to_numpy(), 0.5 if cov == "CR2" else 1.0)
    np.testing.assert_allclose(results.bse**2, factor * variance, rtol=TIGHT)
    np.testing.assert_allclose(results.dof, dof, rtol=TIGHT)


@pytest.mark.parametrize("sizes", [[2, 9] * 40, [1, 2, 9, 24, 25, 40] * 8, [25, 40, 90] * 4])
def test_a_factor_of_many_levels_has_the_errors_of_all_rows(sizes: list[int]) -> None:
    log = made(sizes)
    log["task"] = np.arange(len(log)) % 23  # as many columns as have a product for each cluster
    results = er.fit("score ~ x + C(task)", log, groups="passage")
    X = results.statsmodels.model.exog
    assert X.shape[1] > rows.MANY_COLUMNS
    variance, dof = by_hand(X, log["score"].to_numpy(), log["passage"].to_numpy(), 0.5)
    np.testing.assert_allclose(results.bse**2, variance, rtol=TIGHT)
    np.testing.assert_allclose(results.dof, dof, rtol=TIGHT)


def test_a_joint_test_does_not_depend_on_how_wide_clusters_are_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    log = made(SIZES["both"])
    restriction = np.eye(6)[1:4]
    narrow = er.fit("score ~ x + C(model)", log, groups="passage").wald_test(restriction)
    monkeypatch.setattr("evalreg.scores.rows.RegressionScores.narrow", lambda self, by: iter([(None, self.cells(by))]))
    wide = er.fit("score ~ x + C(model)", log, groups="passage").wald_test(restriction)
    assert float(np.ravel(narrow.statistic)[0]) == pytest.approx(float(np.ravel(wide.statistic)[0]), rel=TIGHT)
    assert narrow.df_denom == pytest.approx(wide.df_denom, rel=TIGHT)


def test_what_one_narrow_cluster_determines_has_no_error() -> None:
    log = made(SIZES["narrow"])
    log["alone"] = (log["passage"] == 4).astype(float)
    results = er.fit("score ~ x + C(model) + alone", log, groups="passage")
    assert np.isnan(results.bse["alone"])
    assert results.bse.drop("alone").notna().all()


@pytest.mark.parametrize("groups", ["prompt", "prompt + judge"])
def test_ratings_from_pairs_are_those_from_matrices_of_all_models(groups: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    n_prompts, n_models, n = 70, 12, 70 * 8
    left = rng.integers(0, n_models, n)
    right = (left + rng.integers(1, n_models, n)) % n_models
    names = np.array([f"m{i:02d}" for i in range(n_models)])
    prompt = np.repeat(np.arange(n_prompts), 8)
    log = pd.DataFrame(
        {
            "left": names[left],
            "right": names[right],
            "score": rng.integers(0, 2, n).astype(float),
            # Some prompts with more pairs than models.
            "prompt": np.where(prompt < 20, prompt // 10, prompt),
            "judge": rng.integers(0, 6, n),
        }
    )

    def ratings() -> er.Results:
        return er.bradley_terry(log, left="left", right="right", score="score", groups=groups)

    by_pairs = ratings()
    monkeypatch.setattr("evalreg.scores.stacking.MappedScores.narrow", lambda self, by: iter([(None, self.cells(by))]))
    by_matrices = ratings()
    np.testing.assert_allclose(by_pairs.bse, by_matrices.bse, rtol=TIGHT)
    np.testing.assert_allclose(by_pairs.dof, by_matrices.dof, rtol=TIGHT)


@pytest.mark.parametrize("cov", ["CR2", "CR3"])
@pytest.mark.parametrize("sizes", [[1], [2], [1, 2, 3, 70]])
def test_ratings_from_few_entries_of_the_design_are_those_from_matrices(
    sizes: list[int], cov: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    n_models, size = 44, np.tile(sizes, 900 // sum(sizes) + 200)
    left = rng.integers(0, n_models, n := int(size.sum()))
    log = pd.DataFrame(
        {
            "left": [f"m{i:02d}" for i in left],
            "right": [f"m{i:02d}" for i in (left + rng.integers(1, n_models, n)) % n_models],
            "score": rng.integers(0, 3, n) / 2,
            "prompt": np.repeat(np.arange(size.size), size),
        }
    )

    def ratings() -> er.Results:
        options = {"groups": "prompt", "cov": cov, "dof": "satterthwaite"}
        return er.bradley_terry(log, left="left", right="right", score="score", **options)

    used = []
    forms = leverage.entry_forms
    monkeypatch.setattr(leverage, "entry_forms", lambda *given: used.append(given) or forms(*given))
    by_entries = ratings()
    by_entries = by_entries.dof
    assert bool(used) == (max(sizes) < 70)
    monkeypatch.setattr("evalreg.scores.stacking.MappedScores.narrow", lambda self, by: iter([(None, self.cells(by))]))
    np.testing.assert_allclose(ratings().dof, by_entries, rtol=TIGHT)


def of_many_levels(rng: np.random.Generator) -> pd.DataFrame:
    """Clusters of one to five rows on a factor of 39 levels."""
    cluster = np.repeat(np.arange(500), np.tile([1, 1, 1, 1, 5], 100))
    x, n = rng.normal(size=cluster.size), cluster.size
    score = rng.poisson(np.exp(0.3 * x + 0.3 * rng.normal(size=500)[cluster]))
    columns = {"score": score, "x": x, "task": np.arange(n) * 7 % 39, "passage": cluster, "w": rng.uniform(1, 3, n)}
    return pd.DataFrame(columns).sample(frac=1, random_state=2)


def test_degrees_of_freedom_of_entries_are_those_of_all_rows(rng: np.random.Generator) -> None:
    log = of_many_levels(rng)
    results = er.fit("score ~ x + C(task)", log, groups="passage")
    X = results.statsmodels.model.exog
    variance, dof = by_hand(X, log["score"].to_numpy(), log["passage"].to_numpy(), 0.5)
    np.testing.assert_allclose(results.bse**2, variance, rtol=TIGHT)
    np.testing.assert_allclose(results.dof, dof, rtol=TIGHT)


def test_degrees_of_freedom_are_the_same_block_by_block(monkeypatch):
    log = made(SIZES["both"])
    whole = er.fit("score ~ x + model", log, groups="passage")
    monkeypatch.setattr(leverage, "HELD", 64)
    parts = er.fit("score ~ x + model", log, groups="passage")
    np.testing.assert_allclose(parts.dof, whole.dof, rtol=1e-12)
    np.testing.assert_allclose(parts.cov_params(), whole.cov_params(), rtol=1e-10, atol=1e-15)
