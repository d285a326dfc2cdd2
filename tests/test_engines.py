"""Every data frame library and engine gives the numbers of pandas, and engines give up sums, never rows."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import pytest
from engines import cases
from engines.cases import assert_numbers
from engines.lazy import LAZY, readable

import evalreg as er
from evalreg.data import engine as engine_module
from evalreg.errors import EngineError

pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

# An engine sums in another order, in blocks and in parallel; the promise of the design.
SAME = 1e-10


@pytest.fixture(scope="module")
def log():
    """Three models on 60 questions in 15 unequal passages, shuffled; some scores are missing."""
    rng = np.random.default_rng(8)
    sizes = rng.integers(1, 9, 15)
    passage = np.repeat(np.arange(15), sizes)
    n = passage.size
    frames = []
    for model, skill in (("ada", 0.0), ("bob", 0.4), ("cyd", -0.3)):
        latent = skill + rng.normal(size=15)[passage] + rng.normal(size=n)
        frames.append(
            pd.DataFrame(
                {
                    "model": model,
                    "question": [f"q{i:03d}" for i in range(n)],
                    "passage": [f"p{i:02d}" for i in passage],
                    "judge": rng.choice(["x", "y", "z", "w"], n),
                    "subject": np.where(passage % 3 == 0, "law", "math"),
                    "weight": rng.uniform(0.5, 2.0, n),
                    "words": rng.normal(size=n) + latent,
                    "score": 1 / (1 + np.exp(-latent)),
                    "right": (latent > 0).astype(int),
                }
            )
        )
    return pd.concat(frames).sample(frac=1, random_state=1, ignore_index=True)


# Missing values


@pytest.mark.parametrize("absent", [None, np.nan], ids=["null", "NaN"])
@pytest.mark.parametrize("column", ["score", "cluster", "model"])
@pytest.mark.parametrize("engine", ["polars lazy", "duckdb"])
def test_one_missing_value_alone_drops_its_row(engine, column, absent):
    rng, n = np.random.default_rng(3), 60
    columns = {"score": rng.random(n), "cluster": np.arange(n) // 6 + 0.5, "model": np.arange(n) % 3 + 0.5}
    columns = {name: list(values) for name, values in columns.items()}
    columns[column][7] = absent
    table = pl.DataFrame(columns, strict=False)
    assert table[column].null_count() == (absent is None)
    make = {"polars lazy": pl.DataFrame.lazy, "duckdb": lambda one: readable(duckdb.from_arrow(one.to_arrow()))}
    found, expected = (
        er.mean(data, by="model", groups="cluster") for data in (make[engine](table), pd.DataFrame(columns))
    )
    assert_numbers(found, expected)
    assert found.nobs == n - 1


# Labels of every kind


BIG = 2**53
KINDS: dict[str, list] = {
    "strings": [f"p{i}" for i in range(6)],
    "strings with separators": ["a:b", "a", "b", "a + b", "`a`", ""],
    "integers": [3, -4, 0, -1, 10**9, 7],
    "large integers": [BIG, BIG + 1, BIG + 2, -BIG - 1, -BIG - 2, 0],
    "floats": [0.5, -0.5, 0.0, 4e15, 1e-300, 0.1 + 0.2],
    "booleans": [True, False, True, False, True, False],
    "dates": [datetime.date(2024, 1, day) for day in range(1, 7)],
    "times": [datetime.datetime(2024, 1, day, 12, 30) for day in range(1, 7)],
    "bytes": [b"\xff", b"\x00\x01", b"a", b"", b"\xfe\xff", b"\x00"],
}
# Which rows have a label, and which label: 48 rows, six of them without one.
CODES = np.arange(48) * 5 % 6
ABSENT = np.arange(48) % 8 == 3
SCORES = np.random.default_rng(4).uniform(size=48) + 0.1 * CODES


def _expected(labels):
    """What integers in the place of labels give; labels that are equal are one."""
    return _by_codes(tuple(labels.index(labels[code]) for code in CODES))


@functools.cache
def _by_codes(codes):
    frame = pd.DataFrame({"score": SCORES, "label": [f"c{code}" for code in codes]})
    frame.loc[ABSENT, "label"] = None
    return er.mean(frame, groups="label")


def _columns(labels):
    return {
        "score": list(SCORES),
        "label": [None if absent else labels[c] for c, absent in zip(CODES, ABSENT, strict=True)],
    }


FRAMES: dict[str, Callable] = {
    "pandas object": lambda c: pd.DataFrame({"score": c["score"], "label": pd.Series(c["label"], dtype=object)}),
    "pandas": lambda c: pd.DataFrame(c),
    "pandas category": lambda c: pd.DataFrame(
        {"score": c["score"], "label": pd.Series(c["label"], dtype=object).astype("category")}
    ),
    "pandas arrow": lambda c: pl.DataFrame(c).to_pandas(use_pyarrow_extension_array=True),
    "polars": lambda c: pl.DataFrame(c),
    "pyarrow": lambda c: pl.DataFrame(c).to_arrow(),
    "polars lazy": lambda c: pl.LazyFrame(c),
    "duckdb": lambda c: readable(duckdb.from_arrow(pl.DataFrame(c).to_arrow())),
}


# Of integers with None among them pandas itself makes floats, which cannot hold large ones.
FRAMES_OF_LABELS = [
    (engine, kind) for engine in FRAMES for kind in KINDS if (engine, kind) != ("pandas", "large integers")
]


@pytest.mark.parametrize(("engine", "kind"), FRAMES_OF_LABELS)
def test_labels_of_any_kind_make_the_same_clusters(engine, kind):
    found, expected = er.mean(FRAMES[engine](_columns(KINDS[kind])), groups="label"), _expected(KINDS[kind])
    assert found.n_clusters == expected.n_clusters
    assert found.dropped["group"] == 6
    np.testing.assert_allclose(found.bse, expected.bse, rtol=SAME)
    np.testing.assert_allclose(found.dof, expected.dof, rtol=SAME)


@pytest.mark.parametrize("kind", ["strings", "integers", "large integers", "floats", "booleans", "dates", "bytes"])
@pytest.mark.parametrize("engine", FRAMES)
def test_means_are_named_by_labels_of_any_kind(engine, kind):
    labels = KINDS[kind]
    keep = ~ABSENT
    # Without missing labels, which turn the integers of pandas into floats.
    columns = {"score": list(SCORES[keep]), "label": [labels[code] for code in CODES[keep]]}
    found = er.mean(FRAMES[engine](columns), by="label")
    expected = pd.Series(SCORES[keep]).groupby([str(label) for label in columns["label"]]).mean()
    assert list(found.params.index) == sorted(map(str, set(labels)))
    np.testing.assert_allclose(found.params, expected[found.params.index], rtol=SAME)


def test_tuples_are_labels():
    columns = _columns([(1, 2), (2, 1), (1, "2"), ("a",), (), (1, 2, 3)])
    label = np.empty(48, dtype=object)
    label[:] = columns["label"]
    found = er.mean(pd.DataFrame({"score": SCORES}).assign(label=label), groups="label")
    np.testing.assert_allclose(found.bse, _expected(KINDS["strings"]).bse, rtol=SAME)
    # A list of tuples is one label a row, whether the tuples are alike in length or not.
    for given in (columns["label"], [one and (len(one), str(one)) for one in columns["label"]]):
        again = er.mean({"score": SCORES}, groups={"label": given})
        np.testing.assert_allclose(again.n_clusters["label"], len({one for one in given if one is not None}))
    with pytest.raises(er.errors.ArgumentTypeError, match="one value a row"):
        er.mean({"score": SCORES}, groups={"label": [[1, 2]] * 48})


@pytest.mark.parametrize("dtype", ["Int64", "Int32", "string", "string[pyarrow]", "category", "boolean", "Float64"])
def test_nullable_labels_of_pandas_are_labels(dtype):
    kind = {"boolean": "booleans", "Float64": "floats", "Int64": "integers", "Int32": "integers"}.get(dtype, "strings")
    columns = _columns(KINDS[kind])
    frame = pd.DataFrame({"score": SCORES, "label": pd.Series(columns["label"], dtype=object).astype(dtype)})
    found = er.mean(frame, groups="label")
    np.testing.assert_allclose(found.bse, _expected(KINDS[kind]).bse, rtol=SAME)
    assert found.dropped["group"] == 6


@pytest.mark.parametrize("dtype", ["Categorical", "Enum"])
@pytest.mark.parametrize("lazy", [False, True])
def test_categories_of_polars_are_labels(dtype, lazy):
    used = KINDS["strings"]
    kind = pl.Categorical if dtype == "Categorical" else pl.Enum(["unused", *reversed(used)])
    frame = pl.DataFrame(_columns(used)).with_columns(pl.col("label").cast(kind))
    found = er.mean(frame.lazy() if lazy else frame, groups="label")
    np.testing.assert_allclose(found.bse, _expected(used).bse, rtol=SAME)
    by = er.mean(frame.lazy() if lazy else frame, by="label")
    assert list(by.params.index) == used
    if not lazy:
        few = frame.filter(pl.col("label").cast(pl.String).is_in(["p0", "p1"]))
        assert len(er.fit("score ~ label", few).params) == 2


# Rows stay in the engine


@pytest.fixture
def collected(monkeypatch):
    """Numbers of rows of everything that narwhals, or polars itself, collects, and of tables of DuckDB."""
    sizes = []

    def record(owner, name="collect"):
        original = getattr(owner, name)

        def collect(*args, **options):
            frame = original(*args, **options)
            sizes.append(len(frame))
            return frame

        monkeypatch.setattr(owner, name, collect)

    record(nw.LazyFrame)
    record(pl.LazyFrame)
    record(engine_module, "in_batches")
    with cases.streamed(sizes):
        yield sizes


@pytest.fixture(scope="module")
def long_log():
    rng = np.random.default_rng(5)
    n = 5000
    return pd.DataFrame(
        {
            "model": rng.choice(["ada", "bob", "cyd"], n),
            "question": np.arange(n),
            "passage": rng.integers(0, 40, n),
            "judge": rng.integers(0, 5, n),
            "subject": rng.choice(["law", "math"], n),
            "weight": rng.uniform(0.5, 2, n),
            "score": np.where(rng.uniform(size=n) < 0.01, np.nan, rng.uniform(size=n)),
        }
    )


NO_ROWS = {
    "plain": {},
    "clustered": {"groups": "passage"},
    "crossed, by": {"by": "model", "groups": "passage + judge"},
    "strata": {"strata": "subject", "by": "model", "groups": "passage", "strata_weights": "macro"},
    "weighted": {"weights": "weight", "groups": "passage"},
    "item": {"by": "model", "item": "question", "groups": "passage"},
}


@pytest.fixture(scope="module")
def of_long_log(long_log):
    """Standard errors that the roles give in pandas."""
    return {name: er.mean(long_log, **roles).bse for name, roles in NO_ROWS.items()}


@pytest.mark.parametrize("roles", NO_ROWS)
@pytest.mark.parametrize("engine", LAZY)
def test_rows_stay_in_the_engine(long_log, of_long_log, collected, engine, roles):
    data = LAZY[engine](long_log)
    results = er.mean(data, **NO_ROWS[roles])
    str(results.summary(details=True))
    results.with_cov(groups="judge", cov="CR1").summary(details=True)
    results.summary().as_markdown()
    assert collected
    # At most the observed (passage, judge, model, subject), or lines of questions, where these are looked at.
    assert max(collected) <= 40 * 5 * 3 or roles == "item"
    np.testing.assert_allclose(results.bse, of_long_log[roles], rtol=SAME)


@pytest.mark.parametrize("engine", LAZY)
def test_an_engine_is_asked_once_for_each_clustering(long_log, collected, engine):
    results = er.mean(LAZY[engine](long_log), by="model", groups="passage")
    asked = len(collected)
    results.summary(details=True)
    results.with_cov(cov="CR1")
    results.with_cov(cov="CR3").diagnostics()
    assert len(collected) == asked


def test_a_clustered_mean_asks_its_engine_twice(long_log, collected):
    # Once for the sums of each model and the reasons for which rows are dropped, once for the clusters; by another
    # query squares, where the middle of scores from 0 to 1 is too far to take them about.
    complete = long_log.dropna()
    assert len(complete) < len(long_log)
    for log, scans in (complete, 2), (long_log, 2), (complete.assign(score=complete["score"] + 9.0), 3):
        collected.clear()
        found = er.mean(LAZY["duckdb"](log), by="model", groups="passage")
        assert len(collected) == scans
        expected = er.mean(log, by="model", groups="passage")
        assert found.dropped.equals(expected.dropped)
        for name in ("count", "squares", "low", "high"):
            ours, theirs = (getattr(one.estimate.cells, name) for one in (found, expected))
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)


# What happens to the data after the fit


@pytest.mark.parametrize(
    "change",
    ["DELETE FROM log WHERE passage = (SELECT min(passage) FROM log)", "UPDATE log SET score = score / 2"],
    ids=["rows", "scores"],
)
def test_a_table_that_changed_in_its_engine_is_refused(log, change):
    database = duckdb.connect()
    database.register("frame", log)
    database.execute("CREATE TABLE log AS SELECT * FROM frame")
    results = er.mean(database.table("log"), by="model", groups="question")
    assert_numbers(results.with_cov(groups="passage"), er.mean(log, by="model", groups="passage"))
    results = er.mean(database.table("log"), by="model", groups="question")
    database.execute(change)
    with pytest.raises(er.errors.DataError, match="have changed since the estimate was made"):
        results.with_cov(groups="passage")
    # What was asked of the engine before is held.
    assert results.with_cov(cov="CR1").nobs == len(log)


@pytest.mark.parametrize("collation", ["NOCASE", "NOACCENT", "NOCASE.NOACCENT"])
def test_ids_that_a_collation_calls_equal_stay_apart(collation: str) -> None:
    names = ["a", "A", "\u00e4", "b", "b ", 'say "b"']
    log = pd.DataFrame({"who is it": names * 3, "score": np.random.default_rng(1).uniform(size=18)})
    database = duckdb.connect()
    database.execute(f'CREATE TABLE log ("who is it" VARCHAR COLLATE {collation}, score DOUBLE)')
    database.append("log", log)
    table = database.table("log")
    assert database.sql('SELECT count(*) FROM (SELECT 1 FROM log GROUP BY "who is it")').fetchall()[0][0] < 6
    for roles in ({"groups": "who is it"}, {"by": "who is it"}):
        found, expected = er.mean(table, **roles), er.mean(log, **roles)
        pd.testing.assert_series_equal(found.params, expected.params, rtol=SAME)
        pd.testing.assert_series_equal(found.bse, expected.bse, rtol=SAME)


def test_an_engine_that_fails_in_the_middle_is_told_with_its_own_error() -> None:
    def broken(frame: pl.DataFrame) -> pl.DataFrame:
        raise ConnectionError("worker 3 was lost\nat node 7")

    rows = pl.DataFrame({"score": [0.0, 1.0, 1.0], "passage": ["a", "b", "b"]})
    lost = rows.lazy().map_batches(broken, schema=rows.schema)
    with pytest.raises(EngineError, match=r"polars did not finish a query.*worker 3 was lost") as caught:
        er.mean(lost, groups="passage")
    assert isinstance(caught.value, RuntimeError)
    assert "worker 3 was lost" in str(caught.value.__cause__)


@pytest.mark.pairwise
@pytest.mark.parametrize("make", [er.mean, lambda *given, **options: er.ratio(given[0], "score", "shown", **options)])
@pytest.mark.parametrize("groups", [None, "passage"])
@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e-40, 1e40, 1e160, 1e300])
def test_weights_of_any_size_give_the_number_of_pandas(make, groups, scale):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"score": rng.random(200), "passage": np.arange(200) // 4, "shown": rng.uniform(1, 2, 200)})
    frame["w"] = scale * rng.uniform(0.5, 2.0, 200)
    lazy = pl.from_pandas(frame).lazy()
    found, expected = (make(data, "score", weights="w", groups=groups) for data in (lazy, frame))
    np.testing.assert_allclose(found.bse, expected.bse, rtol=1e-9)


@functools.cache
def _far_apart():
    rng = np.random.default_rng(2)
    places = {"ada": 0.0, "bob": 1e4, "cyd": 1e7, "dan": 1.5e7, "eve": 1e9}
    parts = [
        pd.DataFrame(
            {
                "model": name,
                "passage": np.arange(200) // 5,
                "weight": rng.uniform(0.5, 2, 200),
                "score": place + rng.normal(size=200),
            }
        )
        for name, place in places.items()
    ]
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize("roles", [{}, {"groups": "passage"}, {"weights": "weight"}, {"cov": "HC1"}], ids=str)
@pytest.mark.parametrize("engine", LAZY)
def test_models_whose_means_are_far_apart_lose_no_digits(engine, roles):
    frame = _far_apart()
    found, expected = (er.mean(one, by="model", **roles) for one in (LAZY[engine](frame), frame))
    # Of a score of 1e9 a spread of 1 has nine digits less.
    np.testing.assert_allclose(found.bse, expected.bse, rtol=1e-7)
    np.testing.assert_allclose(found.to_frame()["naive_se"], expected.to_frame()["naive_se"], rtol=1e-8)
