"""Regressions of rows that stay in an engine: against statsmodels and the formulas written out, and what is refused."""

from __future__ import annotations

import datetime
import functools
import pickle
from itertools import product

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from engines.cases import SAME, collected
from engines.lazy import LAZY, in_engines, in_one_engine

import evalreg as er
from evalreg.errors import (
    ArgumentError,
    CollinearityError,
    ConstantScoreError,
    DataError,
    EmptyDataError,
    MissingColumnError,
    MissingLabelsError,
    NonFiniteError,
    NonNumericError,
    NotAvailableError,
    ScoreRangeError,
)
from evalreg.estimators import engine_fit
from evalreg.scores import engine as engine_scores

pl = pytest.importorskip("polars")
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


FORMULAS = [
    "score ~ model",
    "score ~ C(level, Treatment(3)) * model + long",
    "score ~ tokens + time",
    "score ~ model * tokens + C(level) + C(day)",
    "score ~ 0 + model:tokens + long",
    "score ~ C(level) * model + model * tokens + level:tokens",
]
# Leverages of cells alone, of numbers alone, and of numbers within cells; another design of one of these kinds is slow.
OF_LEVERAGES = [
    pytest.param(one, marks=[] if i in (1, 2, 3, 5) else [pytest.mark.slow]) for i, one in enumerate(FORMULAS)
]


@pytest.mark.parametrize("formula", FORMULAS)
@in_engines
def test_cr1_is_that_of_statsmodels(log, engine, formula):
    used = log.dropna(subset=["score", "time", "model", "passage"]).reset_index(drop=True)
    used["passage_code"] = pd.factorize(used["passage"])[0]
    plain = smf.ols(formula, used).fit()
    expected = plain.get_robustcov_results("cluster", groups=used["passage_code"], use_t=True)
    found = er.fit(formula, engine(used), groups="passage", cov="CR1")
    assert list(found.params.index) == list(plain.params.index)
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-8)
    np.testing.assert_allclose(found.bse, expected.bse, rtol=1e-8)
    robust = found.with_cov(groups=None, cov="HC0")
    np.testing.assert_allclose(robust.bse, plain.get_robustcov_results("HC0").bse, rtol=1e-8)


@pytest.mark.pairwise
@pytest.mark.parametrize("cov", ["HC2", "HC3"])
@pytest.mark.parametrize("weights", [None, "weight"])
@pytest.mark.parametrize("formula", OF_LEVERAGES)
@in_engines
def test_hc2_and_hc3_are_those_of_statsmodels(log, engine, formula, weights, cov):
    used = log.dropna().reset_index(drop=True)
    model = smf.ols(formula, used) if weights is None else smf.wls(formula, used, weights=used[weights])
    with collected() as lines:
        found = er.fit(formula, engine(used), weights=weights, cov=cov)
    np.testing.assert_allclose(found.bse, model.fit().get_robustcov_results(cov).bse, rtol=1e-9)
    expected = er.fit(formula, used, weights=weights, cov=cov)
    scale = np.sqrt(np.outer(*[np.diag(expected.cov_params())] * 2))
    np.testing.assert_allclose(found.cov_params() / scale, expected.cov_params() / scale, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.dof, expected.dof)
    # Sums of cells leave the engine, and neither rows nor leverages.
    assert max(lines) <= 36


@in_engines
def test_other_covariances_give_leverages_of_single_rows_too(log, engine):
    clustered, of_rows = (er.fit("score ~ model + tokens", data, groups="passage") for data in (engine(log), log))
    for cov in ("HC3", "HC2"):
        found, expected = (one.with_cov(groups=None, cov=cov) for one in (clustered, of_rows))
        np.testing.assert_allclose(found.bse, expected.bse, rtol=1e-10)
    fresh = pickle.loads(pickle.dumps(er.fit("score ~ model + tokens", engine(log), groups="passage")))
    with pytest.raises(NotAvailableError, match="copied or unpickled"):
        fresh.with_cov(groups=None, cov="HC3")


@in_engines
def test_a_row_of_leverage_1_is_as_in_memory_or_refused(log, engine):
    alone = log.dropna().reset_index(drop=True)
    alone.loc[5, "model"] = "zed"
    for weights in (None, "weight"):
        found, expected = (er.fit("score ~ model", data, weights=weights, cov="HC3") for data in (engine(alone), alone))
        np.testing.assert_allclose(found.bse, expected.bse, rtol=1e-10)
        assert np.isnan(found.bse).any()
    with pytest.raises(NotAvailableError, match=r"1 row has a leverage of 1 or so near it.*one row alone"):
        er.fit("score ~ model + tokens", engine(alone), cov="HC3")


@in_engines
def test_one_row_far_out_has_its_leverage(engine):
    """A number far from all others: leverage .998, by numpy's own QR."""
    rng = np.random.default_rng(3)
    x = np.append(rng.normal(size=300), 400.0)
    frame = pd.DataFrame({"score": 0.2 * x + rng.normal(size=301), "x": x})
    Q, R = np.linalg.qr(np.column_stack([np.ones(301), x]))
    h = (Q**2).sum(axis=1)
    assert 0.998 < h.max() < 0.9999
    residual = frame["score"].to_numpy() - Q @ (Q.T @ frame["score"].to_numpy())
    scores = (Q * (residual / (1 - h))[:, None]) @ np.linalg.inv(R).T
    found = er.fit("score ~ x", engine(frame), cov="HC3")
    np.testing.assert_allclose(found.bse, np.sqrt((scores**2).sum(axis=0)), rtol=1e-9)


@in_one_engine
def test_leverages_beside_many_levels_are_refused(log, engine, monkeypatch):
    used = log.dropna()
    monkeypatch.setattr(engine_scores, "MOST_CELLS", 5)
    with pytest.raises(NotAvailableError, match=r'at most 5 joint values of factors; "level", "model" have 12. Merge'):
        er.fit("score ~ C(level) * model + tokens", engine(used), cov="HC3")
    # Without numbers and weights each cell has one leverage, and is asked for nothing.
    plain = er.fit("score ~ C(level) * model", engine(used), cov="HC3")
    np.testing.assert_allclose(plain.bse, er.fit("score ~ C(level) * model", used, cov="HC3").bse, rtol=1e-10)


@pytest.mark.pairwise
@pytest.mark.parametrize("weights", [None, "weight"])
@pytest.mark.parametrize("formula", OF_LEVERAGES)
@in_engines
def test_cr2_and_satterthwaite_are_the_formulas_written_out(log, engine, formula, weights):
    """Bell and McCaffrey (2002) with a working model of independent rows, as matrices of all rows."""
    import patsy

    used = log.dropna().reset_index(drop=True)
    y, X = (np.asarray(one, dtype=float) for one in patsy.dmatrices(formula, used))
    root = np.ones(len(y)) if weights is None else np.sqrt(used[weights].to_numpy())
    X, y = X * root[:, None], y[:, 0] * root
    unit = np.linalg.norm(X, axis=0)
    Q, R = np.linalg.qr(X / unit)
    residual = y - Q @ (Q.T @ y)
    H, codes = Q @ Q.T, pd.factorize(used["passage"])[0]
    bread = np.linalg.inv(R) / unit[:, None]
    pieces, spread = [], []
    for g in range(codes.max() + 1):
        rows = codes == g
        values, axes = np.linalg.eigh(np.eye(rows.sum()) - H[np.ix_(rows, rows)])
        adjusted = (axes / np.sqrt(values)) @ axes.T
        pieces.append(bread @ Q[rows].T @ adjusted @ residual[rows])
        spread.append((bread @ Q[rows].T @ adjusted) @ (np.eye(len(y)) - H)[rows])
    found = er.fit(formula, engine(used), groups="passage", weights=weights)
    np.testing.assert_allclose(found.cov_params(), sum(np.outer(one, one) for one in pieces), rtol=1e-7, atol=1e-13)
    for j in range(X.shape[1]):
        products = np.array([one[j] for one in spread]) @ np.array([one[j] for one in spread]).T
        dof = np.trace(products) ** 2 / np.sum(products**2)
        if weights is None:
            np.testing.assert_allclose(found.dof.iloc[j], dof, rtol=1e-6)


@in_engines
def test_what_is_missing_is_dropped_and_counted_by_reason(log, engine):
    found = er.fit("score ~ model + time", engine(log), groups="passage", weights="weight")
    expected = er.fit("score ~ model + time", log, groups="passage", weights="weight")
    assert found.dropped.to_dict() == {"score": 1, "covariate": 4, "group": 1} == expected.dropped.to_dict()
    assert str(found.summary()) == str(expected.summary())
    with pytest.raises(NonFiniteError, match="1 of 600 rows have no score"):
        er.fit("score ~ model", engine(log), missing="raise")
    with pytest.raises(EmptyDataError, match="none is left"):
        er.fit("score ~ model", engine(log.assign(score=np.nan)))


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
    monkeypatch.setattr(engine_scores, "HELD", 10)
    for formula, expected in zip(formulas, whole, strict=True):
        found = er.fit(formula, data, groups="passage + judge", weights="weight")
        np.testing.assert_allclose(found.cov_params(), expected.cov_params(), rtol=SAME, atol=1e-16)
        np.testing.assert_allclose(found.icc(), expected.icc(), rtol=1e-8)


@in_engines
def test_wild_tests_and_influence_of_clusters_need_no_rows(log, engine):
    found, expected = (er.fit("score ~ model + tokens", data, groups="passage") for data in (engine(log), log))
    drawn, same = (one.wild_test("tokens", draws=499) for one in (found, expected))
    np.testing.assert_allclose(drawn.statistic, same.statistic, rtol=1e-8)
    # Clusters come in another order, so that the same signs fall on others.
    assert abs(drawn.p_value - same.p_value) < 0.03
    moved, known = (one.influence("passage").sort_index() for one in (found, expected))
    pd.testing.assert_frame_equal(moved, known, rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(found.wald_test("tokens = 0").pvalue, expected.wald_test("tokens = 0").pvalue, rtol=1e-8)
    copied = pickle.loads(pickle.dumps(found))
    np.testing.assert_allclose(copied.with_cov(cov="CR3").bse, expected.with_cov(cov="CR3").bse, rtol=SAME)


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


REFUSED = [
    ("score ~ bs(tokens, df=4)", {}, NotAvailableError, r'Make the column in the engine.*"score", "tokens"'),
    ("score ~ np.log(tokens)", {}, NotAvailableError, "columns, C\\(...\\) of them and products"),
    ("np.log(score) ~ tokens", {}, NotAvailableError, "Make the column in the engine first"),
    ("score ~ tokens | passage", {}, NotAvailableError, "in an engine"),
    ("score ~ tokens", {"family": "poisson"}, NotAvailableError, "least squares; got family='poisson'"),
    ("score ~ tokens", {"weights": np.ones(600)}, ArgumentError, "must name a column"),
    ("score ~ token", {}, MissingColumnError, 'Did you mean "tokens"'),
    ("model ~ tokens", {}, NonNumericError, "must hold numbers"),
    ("score ~ tokens + twice", {}, CollinearityError, '"twice" can be computed'),
    ("score ~ C(level) + level", {}, CollinearityError, "can be computed"),
    ("score ~ model + C(model, Sum)", {}, CollinearityError, "can be computed"),
    ("score ~ negative", {}, CollinearityError, "determine each other"),
    ("negative ~ level", {}, ConstantScoreError, "is -1 in every row"),
    ("twice ~ tokens", {}, ConstantScoreError, "determined by the covariates"),
    ("far ~ C(level)", {}, ConstantScoreError, "determined by the covariates"),
    ("score ~ large", {}, ScoreRangeError, "squares that fit into a float"),
    ("score ~ tokens", {"weights": "time"}, None, ""),
    ("score ~ tokens", {"weights": "negative"}, ArgumentError, "must be positive; the smallest is -1"),
]


@pytest.mark.parametrize(
    ("engine", "formula", "options", "kind", "words"),
    [
        pytest.param(make, *one, id=f"{name}-{i}", marks=[pytest.mark.slow] if name == "duckdb" else [])
        for name, make in LAZY.items()
        for i, one in enumerate(REFUSED)
    ],
)
def test_what_cannot_be_done_says_why(log, engine, formula, options, kind, words):
    made = log.assign(negative=-1.0, twice=2.0 * log["tokens"], far=3.0 * log["level"], large=1e80 * log["tokens"])
    data = engine(made)
    if kind is None:
        er.fit(formula, data, **options)
        return
    with pytest.raises(kind, match=words):
        er.fit(formula, data, **options)


@in_engines
def test_infinities_are_told_with_their_number_even_if_they_add_up_to_none(log, engine):
    used = log.dropna().reset_index(drop=True).assign(tokens=lambda frame: frame["tokens"].astype(float))
    for column, words in (("tokens", "'tokens' is missing or infinite in 2 of"), ("score", "'score' holds infinities")):
        far = used.copy()
        far.loc[[3, 8], column] = [np.inf, -np.inf]
        for formula in ("score ~ tokens", "score ~ model + tokens"):
            with pytest.raises(NonFiniteError, match=words) as raised:
                er.fit(formula, engine(far), groups="passage")
            assert raised.value.count == (2 if column == "tokens" else None)


@in_one_engine
def test_few_rows_many_levels_and_changed_rows_are_refused(log, engine, monkeypatch):
    with pytest.raises(DataError, match="more rows than coefficients; got 4 rows"):
        er.fit("score ~ C(tokens)", engine(log.dropna().head(4)))
    results = er.fit("score ~ tokens", engine(log), groups="passage")
    with pytest.raises(NotAvailableError, match="influence of rows needs them in memory"):
        results.influence()
    with pytest.raises(NotAvailableError, match="fits of rows in an engine"):
        results.predict(log)
    with pytest.raises(NotAvailableError, match="labels must be columns"):
        results.with_cov(groups=np.arange(600))
    with pytest.raises(MissingLabelsError, match="must give an id to every row"):
        er.fit("score ~ tokens", engine(log)).with_cov(groups="passage")
    monkeypatch.setattr(engine_fit, "MOST_CELLS", 3)
    with pytest.raises(NotAvailableError, match="at most 3 levels"):
        er.fit("score ~ C(level) + model + tokens", engine(log))


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
@pytest.mark.parametrize("cov", ["HC2", "HC3"])
def test_weighted_means_have_the_hc_errors_of_statsmodels(engine, cov):
    """A mean by model is a weighted regression on indicators of models, whose hat values statsmodels computes."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"model": ["ada", "bob", "cy"] * 20, "score": rng.normal(size=60)})
    frame["weight"] = rng.uniform(0.2, 5.0, 60)
    fitted = smf.wls("score ~ 0 + model", frame, weights=frame["weight"]).fit()
    found = er.mean(engine(frame), by="model", weights="weight", cov=cov)
    np.testing.assert_allclose(found.bse, getattr(fitted, f"{cov}_se"), rtol=1e-12)
    duels = frame.assign(left="ada", right="bob", won=0.5)
    with pytest.raises(er.errors.NotAvailableError, match="need the rows in memory"):
        er.win_rate(engine(duels), left="left", right="right", score="won", cov=cov)


@in_engines
def test_a_cell_that_holds_nothing_but_zeros_is_no_change_of_the_rows(engine):
    rng = np.random.default_rng(3)
    passage = np.repeat([f"p{i}" for i in range(8)], 9)
    frame = pd.DataFrame({"passage": passage, "model": np.tile(["a", "b", "c"], 24), "weight": rng.uniform(0.5, 2, 72)})
    right = (rng.random(72) < 0.6) & (passage > "p3")
    frame = frame.assign(score=right.astype(int), other=(rng.random(72) < 0.5).astype(int))
    for formula in ("score ~ C(model) + passage", "score ~ model + C(other)"):
        for weights in (None, "weight"):
            call = functools.partial(er.fit, formula, groups="passage", weights=weights, cov="CR1")
            np.testing.assert_allclose(call(data=engine(frame)).bse, call(data=frame).bse, rtol=SAME)


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
