"""Leverages added up over clusters give the degrees of freedom of the single ones, and Spark's workers make them."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
from engines.lazy import in_polars

import evalreg as er
from evalreg.covariance import one_way
from evalreg.covariance.one_cluster import remaining
from evalreg.covariance.row_leverages import NarrowLeverage, RowLeverage, WideLeverage
from evalreg.covariance.summed_leverages import Adjusting, SummedLeverage, SummedProducts
from evalreg.data import engine_spark_work
from evalreg.data.engine_spark_sums import CELL
from evalreg.data.engine_spark_work import OnWorkers
from evalreg.errors import EngineWarning
from evalreg.scores import lazy_spark
from evalreg.scores.lazy_spark import OfLines, SparkScores
from evalreg.scores.mapped import OfMapped
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


def results_of(kind, cov):
    """A regression on cells or on numbers, or ratings, of a frame that stays in an engine."""
    if kind == "ratings":
        duels = er.datasets.judge_log(n_models=5, n_prompts=40, seed=3)
        roles = {"left": "left", "right": "right", "winner": "winner"}
        return er.bradley_terry(in_polars(duels), **roles, groups="prompt", cov=cov)
    log = er.datasets.passages(n_passages=30, unequal=True, seed=5)
    formula = "score ~ C(subject)" if kind == "cells" else "score ~ C(subject) + n_words + np.log(n_words)"
    return er.fit(formula, in_polars(log), groups="passage", cov=cov)


def handed_over(scores, by, work):
    """What workers make of the lines of the clusters, in small batches; all that they need is pickled."""
    pa = pytest.importorskip("pyarrow")
    (held,) = scores.inner._query(by).held
    totals, weights = np.asarray(held.totals, dtype=float), np.asarray(held.weights, dtype=float)
    names = [f"t{i}" for i in range(totals.shape[1])], [f"w{i}" for i in range(weights.shape[1])]
    lines = pd.DataFrame(np.column_stack([totals, weights]), columns=[*names[0], *names[1]])
    # Neighbours may be alike in each of two columns of ids, and differ in the other.
    cluster = held.of_entry
    lines = lines.assign(**{"__id0": cluster // 2, "__id1": [f"c{one}" for one in (cluster + 1) // 2], CELL: held.cell})
    own = {one.name: getattr(scores.inner, one.name) for one in fields(scores.inner)}
    bare = SparkScores(**own | {"table": None, "_queries": {}})
    mapped = {one.name: getattr(scores, one.name) for one in fields(scores) if one.name != "inner"}
    on_lines = OfLines(by, bare, tuple(names[0]), tuple(names[1]), OfMapped(work, mapped))
    job = OnWorkers(("__id0", "__id1"), (CELL, *names[0], *names[1]), 5, on_lines)
    job = pickle.loads(pickle.dumps(job))
    (batch,) = job(iter(pa.Table.from_pandas(lines).to_batches(max_chunksize=7)))
    assert batch["place"].to_pylist() == list(range(work.n_sums + 1))
    n_clusters, *sums = batch["value"].to_pylist()
    assert n_clusters == held.n_clusters
    assert not list(job(iter([])))
    return np.array(sums)


@pytest.mark.parametrize("kind", ["cells", "numbers", "ratings"])
@pytest.mark.parametrize("cov", ["CR2", "CR3"])
def test_workers_make_the_sums_of_the_driver(kind, cov, monkeypatch, rng):
    monkeypatch.setattr(engine_spark_work, "LINES", 40)
    results = results_of(kind, cov)
    estimate, (by,), power = results.estimate, results.cov.axes, results.cov.options.kind.power
    rest = remaining(estimate, None)
    matrix, own = one_way._adjust_rows(rest, by, power, True)
    for keep in (True, False):
        adjusting = Adjusting(by, rest.root, rest.bread, power, keep)
        found, leverage = adjusting.split(handed_over(estimate.scores, by, adjusting), rest.turn)
        np.testing.assert_allclose(found, matrix, rtol=SAME, atol=SAME * np.abs(matrix).max())
        assert (leverage is not None) is keep
        if keep:
            contrasts = rng.normal(size=(3, rest.turn.shape[0]))
            np.testing.assert_allclose(leverage.dof(contrasts), own.dof(contrasts), rtol=SAME)


def test_workers_solve_ratings_again_without_each_cluster(monkeypatch):
    monkeypatch.setattr(engine_spark_work, "LINES", 40)
    results = results_of("ratings", "jackknife")
    estimate, (by,) = results.estimate, results.cov.axes
    leaving = one_way.LeavingOut(by, estimate.n_params, estimate.refit.leave_out, estimate.refit.contrasts)
    np.testing.assert_allclose(handed_over(estimate.scores, by, leaving), leaving(estimate.scores), rtol=1e-9)


@pytest.mark.parametrize("limit", ["sums", "bytes", "workers"])
def test_clusters_come_where_workers_cannot_make_the_sums(limit, monkeypatch):
    results = results_of("cells", "CR2")
    estimate, (by,) = results.estimate, results.cov.axes
    inner = estimate.scores.inner
    scores = SparkScores(**{one.name: getattr(inner, one.name) for one in fields(inner)} | {"_queries": {}})
    monkeypatch.setattr(SparkScores, "_asked", lambda self, by: object())
    monkeypatch.setattr(lazy_spark, "why_not", lambda native: "none is there" if limit == "workers" else "")
    if limit != "workers":
        monkeypatch.setattr(lazy_spark, {"sums": "MOST_SUMS", "bytes": "MOST_SENT"}[limit], 10)
    rest = remaining(estimate, None)
    work = Adjusting(by, rest.root, rest.bread, 0.5, True)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert scores.added_up(by, work) is None
    assert list(scores._queries) == [by]
    texts = [str(one.message) for one in said if one.category is EngineWarning]
    reason = {
        "sums": f"make up to 10 sums over clusters, and this takes {work.n_sums:,}, so that sums of",
        "bytes": "are sent up to 10 bytes, and the design takes ",
        "workers": "cannot run evalreg (none is there), so that sums of single clusters come to the driver",
    }[limit]
    assert [reason in text for text in texts] == [True]


def test_the_code_of_the_package_is_told_apart(monkeypatch, tmp_path):
    same = engine_spark_work.fingerprint()
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "file.py").write_text("1")
    monkeypatch.setattr(engine_spark_work.importlib.resources, "files", lambda name: tmp_path)
    engine_spark_work.fingerprint.cache_clear()
    first = engine_spark_work.fingerprint()
    (tmp_path / "room" / "file.py").write_text("2")
    engine_spark_work.fingerprint.cache_clear()
    assert len({same, first, engine_spark_work.fingerprint()}) == 3
    engine_spark_work.fingerprint.cache_clear()


class _Lines:
    """Lines that answer with what residuals are about."""

    def powers(self, bread, levels):
        return np.array([levels**2, levels**4])

    def residual_sums(self, fitted, total, of):
        return 2.0, 4.0, float(fitted.sum()), 8.0, 16.0


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_scores_of_other_fitted_values_share_no_sums_of_residuals(monkeypatch):
    """They share what does not depend on these, also where both are asked for sums of one clustering."""
    frame = pd.DataFrame({"score": [0.0, 1.0, 1.0, 0.0], "model": list("aabb"), "passage": list("xyxy")})
    lazy = er.mean(in_polars(frame), by="model", groups="passage").estimate.scores
    own = {one.name: getattr(lazy, one.name) for one in fields(lazy)}
    monkeypatch.setattr(SparkScores, "_asked", lambda self, by: _Lines())
    first = SparkScores(**own | {"left": 1.0, "fitted": np.array([0.5, 0.25])})
    second = replace(first, fitted=np.array([0.5, 0.75]))
    assert second._sizes is first._sizes
    for scores in (first, second, first):
        powers = scores.influence_powers(("passage",), np.eye(2))
        np.testing.assert_array_equal(powers[0], scores.fitted**2)
        assert scores.residual_sums(("passage",)).total == scores.fitted.sum()
