"""Regressions of rows that stay in an engine: against statsmodels and the formulas written out, and what is refused."""

from __future__ import annotations

import datetime
import pickle
from itertools import product

import numpy as np
import pandas as pd
import pytest
from engines.cases import SAME
from engines.lazy import in_engines, in_one_engine

import evalreg as er
from evalreg.errors import CollinearityError, DataError, NotAvailableError
from evalreg.scores import engine as engine_scores

duckdb = pytest.importorskip("duckdb")

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


@pytest.fixture(scope="module")
def log():
    """Three models on 600 answers in 25 unequal passages, with numbers and labels of several kinds and holes."""
    rng = np.random.default_rng(4)
    n = 600
    passage = np.minimum(rng.geometric(0.07, n), 25)
    tokens = rng.integers(20, 400, n)
    frame = pd.DataFrame(
        {
            "passage": [f"p{i}" for i in passage],
            "judge": rng.choice(["x", "y", "z"], n),
            "model": rng.choice(["ada", "bob", "Bob"], n),
            "level": rng.integers(1, 5, n),
            "day": pd.to_datetime(datetime.date(2024, 1, 1)) + pd.to_timedelta(rng.integers(0, 3, n), unit="D"),
            "long": tokens > 200,
            "tokens": tokens,
            "time": 1000 + rng.normal(size=n) * 100,
            "weight": rng.uniform(0.5, 2, n),
        }
    )
    noise = rng.normal(size=n) + rng.normal(size=26)[passage]
    frame["score"] = 0.002 * tokens + 0.3 * (frame["model"] == "bob") + noise
    for column, rows in {"score": [3], "time": [4, 5], "weight": [6]}.items():
        frame.loc[rows, column] = np.nan
    frame["model"] = frame["model"].where(frame.index != 8, None)
    frame["passage"] = frame["passage"].where(frame.index != 9, None)
    return frame


@in_engines
def test_a_row_of_leverage_1_is_as_in_memory_or_refused(log, engine):
    alone = log.dropna().reset_index(drop=True)
    alone.loc[5, "model"] = "zed"
    for weights in (None, "weight"):
        found, expected = (er.fit("score ~ model", data, weights=weights, cov="HC3") for data in (engine(alone), alone))
        np.testing.assert_allclose(found.bse, expected.bse, rtol=1e-10)
        assert np.isnan(found.bse).any()
    with pytest.raises(NotAvailableError, match=r"1 row has a leverage of 1.*Leave such rows"):
        er.fit("score ~ model + tokens", engine(alone), cov="HC3")


@in_one_engine
def test_all_clusterings_are_a_query_and_rows_stay_in_the_engine(log, engine, collected):
    data = engine(log)
    for formula, groups in product(
        ("score ~ model + C(level)", "score ~ model + time + tokens"), (None, "passage + judge")
    ):
        collected.clear()
        results = er.fit(formula, data, groups=groups)
        str(results.summary())
        results.with_cov(cov="HC1" if groups is None else "CR1").diagnostics()
        assert len(collected) <= 12, (formula, groups, collected)
        # At most the observed (cluster, judge, cell).
        assert max(collected) <= 25 * 3 * (12 if "level" in formula else 3)
    n_queries = len(collected)
    results.with_cov(groups="judge")
    assert len(collected) == n_queries


@in_one_engine
def test_sums_that_are_not_held_or_come_in_parts_give_the_same_numbers(log, engine, monkeypatch):
    data, formulas = engine(log), ("score ~ model * tokens", "score ~ model + C(level)")
    whole = [er.fit(formula, data, groups="passage + judge", weights="weight") for formula in formulas]
    monkeypatch.setattr(engine_scores, "HELD_BYTES", 10)
    for formula, expected in zip(formulas, whole, strict=True):
        found = er.fit(formula, data, groups="passage + judge", weights="weight")
        np.testing.assert_allclose(found.cov_params(), expected.cov_params(), rtol=SAME, atol=1e-16)
        np.testing.assert_allclose(found.dependence()["icc"], expected.dependence()["icc"], rtol=1e-8)


@in_engines
def test_a_coefficient_that_one_row_determines_has_no_error_bar(engine):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"score": rng.uniform(size=50), "z": rng.normal(size=50), "group": np.arange(50) // 4})
    frame["far"] = np.where(np.arange(50) == 7, 1.5, 0.0)
    frame["label"] = np.where(np.arange(50) == 9, "only", "rest")
    for formula, name in (("score ~ far + z", "far"), ("score ~ label + z", "label[T.rest]"), ("score ~ label", None)):
        for options in ({}, {"groups": "group"}) if name == "far" else ({"groups": "group"} if name else {},):
            found, expected = (er.fit(formula, data, **options) for data in (engine(frame), frame))
            assert np.isnan(found.bse[name or "label[T.rest]"])
            np.testing.assert_allclose(found.bse, expected.bse, rtol=1e-8)
            assert found.cov.reasons() == expected.cov.reasons()
    detached = pickle.loads(pickle.dumps(er.fit("score ~ far + z", engine(frame), groups="group")))
    with pytest.raises(NotAvailableError, match="whether single rows determine a coefficient"):
        detached.with_cov(groups=None)


@in_engines
def test_numbers_far_from_zero_and_of_any_size_keep_their_digits(engine):
    rng = np.random.default_rng(6)
    x, group = rng.normal(size=400), np.arange(400) // 10
    score = 0.3 * x + rng.normal(size=400)
    near = er.fit("score ~ x", pd.DataFrame({"score": score, "x": x, "group": group}), groups="group")
    frame = pd.DataFrame({"score": 1e7 + score, "x": 1e9 + 100 * x, "group": group})
    far = er.fit("score ~ x", engine(frame), groups="group")
    # Rounding of the numbers themselves: 1e9 + 100 x has 9 digits behind the first of x.
    np.testing.assert_allclose(far.params["x"] * 100, near.params["x"], rtol=1e-8)
    np.testing.assert_allclose(far.bse["x"] * 100, near.bse["x"], rtol=1e-8)
    tiny = pd.DataFrame({"score": 1e-8 * score, "x": 1e-12 * x, "group": group})
    small = er.fit("score ~ x", engine(tiny), groups="group", weights=None)
    np.testing.assert_allclose(small.bse["x"] * 1e-4, near.bse["x"], rtol=1e-8)
    curved = pd.DataFrame({"score": score, "x": 100000 + x, "group": group})
    curved["xx"], curved["near"] = curved["x"] ** 2, (curved["x"] - 100000) ** 2
    with pytest.raises(CollinearityError, match=r'"x", "xx".*subtract a typical value'):
        er.fit("score ~ x + xx", engine(curved), groups="group")
    advised, known = (er.fit("score ~ x + near", data, groups="group") for data in (engine(curved), curved))
    np.testing.assert_allclose(advised.bse, known.bse, rtol=1e-8)


def test_rows_that_change_between_queries_are_told():
    database = duckdb.connect()
    database.execute("CREATE TABLE log AS SELECT range % 7 AS g, range % 3 AS x, random() AS score FROM range(200)")
    try:
        results = er.fit("score ~ C(x)", database.table("log"), groups="g")
    except ModuleNotFoundError as error:
        pytest.skip(f"narwhals cannot read DuckDB here: {error}")
    database.execute("UPDATE log SET score = score + 1 WHERE g = 2")
    with pytest.raises(DataError, match="have changed since the estimate was made"):
        results.with_cov(groups="x")
    numbers = er.fit("score ~ x", database.table("log"))
    database.execute("DELETE FROM log WHERE g = 3")
    with pytest.raises(DataError, match="have changed since the estimate was made"):
        numbers.with_cov(cov="HC3")


@in_engines
@pytest.mark.parametrize("formula", ["score ~ model", "score ~ 0 + model", "score ~ model * tokens"])
@pytest.mark.parametrize("weights", [None, "w"])
def test_a_model_whose_scores_do_not_vary_has_no_error_bar_but_rounding(engine, formula, weights):
    rng = np.random.default_rng(0)
    model = np.repeat(["a", "b", "c"], 40)
    score = np.where(model == "a", 0.7, rng.uniform(size=120).round(1))
    passage, w, tokens = np.tile(np.arange(20), 6), rng.uniform(0.5, 2, 120), rng.normal(size=120)
    frame = pd.DataFrame({"model": model, "score": score, "passage": passage, "w": w, "tokens": tokens})
    for groups, covs in (("passage", ("CR1", "CR2", "CR3")), (None, ("naive", "HC1"))):
        found, expected = (er.fit(formula, data, weights=weights, groups=groups) for data in (engine(frame), frame))
        for cov in covs:
            one, other = found.with_cov(cov=cov), expected.with_cov(cov=cov)
            assert np.isnan(one.bse.iloc[0])
            assert np.isnan(one.pvalues.iloc[0])
            np.testing.assert_allclose(one.bse, other.bse, rtol=1e-8)


@in_engines
@pytest.mark.parametrize("weights", [None, "w"])
def test_what_does_not_touch_the_one_cell_that_varies_has_no_error_bar(engine, weights):
    rng, cell, passage = np.random.default_rng(0), np.arange(240) % 6, np.arange(240) // 12
    score = np.where(cell == 0, rng.integers(0, 2, 240), cell == 3)
    frame = pd.DataFrame(
        {"score": score, "model": cell // 2, "half": cell % 2, "p": passage, "w": rng.uniform(1, 2, 240)}
    )
    for data in (frame, engine(frame)):
        errors = er.fit("score ~ C(model):C(half)", data, groups="p", weights=weights).bse
        assert errors.isna().tolist() == [False] * 4 + [True] * 2
