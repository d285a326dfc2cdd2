"""Every data frame library and engine gives the numbers of pandas, and engines give up sums, never rows."""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Callable

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import pytest
from engines import cases
from narwhals import __version__ as nw_version

import evalreg as er
from evalreg.data import engine as engine_module
from evalreg.errors import (
    EngineError,
    SkewedScoresWarning,
    UnequalQuestionsWarning,
)

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

# An engine sums in another order, in blocks and in parallel; the promise of the design.
SAME = 1e-10


def _why_no_duckdb() -> str:
    """Why narwhals cannot read DuckDB's relations here, or nothing."""
    try:
        nw.from_native(duckdb.sql("SELECT 1 AS one"))
    except ModuleNotFoundError as error:
        # narwhals 2.0 imports duckdb.typing, which DuckDB 2 no longer has. Any other reason fails the tests.
        if error.name != "duckdb.typing":
            raise
        return f"narwhals {nw_version} cannot read DuckDB {duckdb.__version__}: {error}"
    return ""


NO_DUCKDB = _why_no_duckdb()


def _relation(make: Callable) -> Callable:
    """A maker of DuckDB relations that skips the test where narwhals cannot read them."""

    def made(frame):
        if NO_DUCKDB:
            pytest.skip(NO_DUCKDB)
        return make(frame)

    made.needs_duckdb = True
    return made


def _usable(makers: dict[str, Callable]) -> dict[str, Callable]:
    """Those that can be used here, for tests that loop over engines; the others are skipped visibly elsewhere."""
    return {name: make for name, make in makers.items() if not (NO_DUCKDB and hasattr(make, "needs_duckdb"))}


LAZY: dict[str, Callable] = {
    "polars lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "duckdb from_df": _relation(lambda frame: duckdb.from_df(frame)),
    "duckdb sql": _relation(lambda frame: duckdb.sql("SELECT * FROM frame")),
    "duckdb arrow": _relation(lambda frame: duckdb.from_arrow(pa.Table.from_pandas(frame, preserve_index=False))),
}
# One kind of frame and each engine, opened in one way. What a library or engine does is told by these; that the other
# ways to open one give the same is told by the means.
CORE = ("polars", "polars lazy", "duckdb sql")


def _first_of_all(names, first=CORE):
    """Parameters of which all but the first ones are slow."""
    return [pytest.param(name, marks=[] if name in first else [pytest.mark.slow]) for name in names]


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


# How far each statement may differ, relatively and absolutely.
STATEMENTS = {
    **dict.fromkeys(("params", "bse", "dof", "pvalues", "intervals", "design effect", "effective rows"), (SAME, 0.0)),
    "covariance": (SAME, SAME * 1e-4),
    # An intraclass correlation is a difference of mean squares.
    "icc": (SAME, SAME),
}


def _statements(results, *, told=True):
    """What is compared of results; what is told of them where it is asked for."""
    return {
        "names": list(results.params.index),
        "params": results.params,
        "bse": results.bse,
        "dof": results.dof,
        "pvalues": results.pvalues,
        "covariance": results.cov_params(),
        "intervals": results.conf_int(),
        "design effect": results.design_effect(),
        "effective rows": results.n_eff(),
        "icc": results.icc(),
        "diagnostics": results.diagnostics(),
        "dropped": results.dropped.to_dict(),
        "clusters": results.n_clusters,
        "rows": results.nobs,
        "notes": [note for note in results.notes if not _of_memory(note)],
        **({"told": _told(results)} if told else {}),
    }


def _assert_same(found, expected, *, told=True):
    """Results that say what others say, of which the statements may be there already."""
    found, expected = (one if isinstance(one, dict) else _statements(one, told=told) for one in (found, expected))
    for name, value in expected.items():
        if name == "told" and not told:
            continue
        if name in STATEMENTS:
            rtol, atol = STATEMENTS[name]
            np.testing.assert_allclose(found[name], value, rtol=rtol, atol=atol, err_msg=name)
        elif name == "diagnostics":
            pd.testing.assert_frame_equal(found[name], value, rtol=SAME, check_dtype=False)
        else:
            assert found[name] == value, name


@pytest.fixture(scope="module")
def of_pandas(log):
    """What an estimator says of the log in pandas, found once for all engines."""
    made = {}

    def said(estimator, *formula, **options):
        key = (estimator, formula, repr(options))
        if key not in made:
            made[key] = _statements(estimator(*formula, log, **options))
        return made[key]

    return said


def _of_memory(note):
    """Whether a note is of unequal questions, of which an engine gives counts, or of single rows' parts."""
    category, text = note
    return issubclass(category, UnequalQuestionsWarning | SkewedScoresWarning) or "few of the rows tell" in text


def _told(results):
    """The words of the summary without what is said of rows in memory alone."""
    told = re.sub(r"\[\d+\] models answered different.*", "", _words(str(results.summary(details=True))))
    for _, said in filter(_of_memory, results.notes):
        told = told.replace(_words(said), "")
    return re.sub(r"\[\d+\] |Notes:", "", told).split()


def _words(text):
    return re.sub(r"\s+", " ", text)


# Missing values


@pytest.fixture(scope="module")
def holes(log):
    """Scores that are null and NaN, and labels, covariates and weights that are missing, sometimes in the same row."""
    frame = log.copy()
    for column, rows in {
        "score": [0, 7, 11],
        "passage": [7, 20, 21],
        "judge": [22],
        "model": [30],
        "subject": [31],
        "weight": [20, 32],
        "words": [33, 7],
        "question": [34],
    }.items():
        frame[column] = frame[column].where(~frame.index.isin(rows), None if frame[column].dtype == object else np.nan)
    return frame


MISSING = {
    "plain": {},
    "clustered": {"groups": "passage"},
    "by, crossed": {"by": "model", "groups": "passage + judge"},
    "by with item": {"by": "model", "item": "question"},
    "strata": {"strata": "subject", "groups": "passage"},
    "weighted": {"weights": "weight", "groups": "passage"},
}


@pytest.fixture(scope="module")
def of_holes(holes):
    """What the mean of each set of roles says of the log with holes in pandas."""
    said = {name: _statements(er.mean(holes, **roles)) for name, roles in MISSING.items()}
    assert all(sum(one["dropped"].values()) >= 3 for one in said.values())
    return said


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
    make = {"polars lazy": pl.DataFrame.lazy, "duckdb": _relation(lambda one: duckdb.from_arrow(one.to_arrow()))}
    found, expected = (
        er.mean(data, by="model", groups="cluster") for data in (make[engine](table), pd.DataFrame(columns))
    )
    _assert_same(found, expected, told=False)
    assert found.nobs == n - 1


@pytest.mark.parametrize("engine", ["polars lazy", "duckdb sql"])
def test_whole_numbers_beside_a_missing_one_name_models_as_without_it(engine):
    model = pd.array([1, 2, 10] * 8 + [None], dtype="Int64")
    log = pd.DataFrame({"model": model, "passage": np.arange(25) // 6, "score": np.random.default_rng(0).random(25)})
    found, expected = (er.mean(make(log), by="model", groups="passage") for make in (LAZY[engine], lambda frame: frame))
    assert list(found.params.index) == list(expected.params.index) == ["1", "10", "2"]
    np.testing.assert_allclose(found.cov_params(), expected.cov_params(), rtol=1e-12)
    assert found.dropped.to_dict() == expected.dropped.to_dict() == {"score": 0, "covariate": 1, "group": 0}


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
    "duckdb": _relation(lambda c: duckdb.from_arrow(pl.DataFrame(c).to_arrow())),
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


def test_large_integers_with_nulls_stay_apart():
    for engine, make in _usable(FRAMES).items():
        if engine in ("pandas", "pandas category"):
            continue  # pandas makes floats of integers with None among them
        results = er.mean(make(_columns(KINDS["large integers"])), groups="label")
        assert results.n_clusters == {"label": 6}, engine
    nullable = pd.DataFrame(
        {"score": SCORES, "label": pd.array(_columns(KINDS["large integers"])["label"], dtype="Int64")}
    )
    assert er.mean(nullable, groups="label").n_clusters == {"label": 6}


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
    with pytest.raises(er.errors.ArgumentTypeError, match="one-dimensional"):
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
@pytest.mark.parametrize("engine", _first_of_all(LAZY))
def test_rows_stay_in_the_engine(long_log, of_long_log, collected, engine, roles):
    data = LAZY[engine](long_log)
    results = er.mean(data, **NO_ROWS[roles])
    str(results.summary(details=True))
    results.with_cov(groups="judge", cov="CR1").summary(details=True)
    results.to_markdown()
    assert collected
    # At most the observed (passage, judge, model, subject), or lines of questions, where these are looked at.
    assert max(collected) <= 40 * 5 * 3 or roles == "item"
    np.testing.assert_allclose(results.bse, of_long_log[roles], rtol=SAME)


@pytest.mark.parametrize("engine", _first_of_all(LAZY))
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
        found = er.mean(LAZY["duckdb sql"](log), by="model", groups="passage")
        assert len(collected) == scans
        expected = er.mean(log, by="model", groups="passage")
        assert found.dropped.equals(expected.dropped)
        for name in ("count", "squares", "low", "high"):
            ours, theirs = (getattr(one.estimate.cells, name) for one in (found, expected))
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)


# What happens to the data after the fit


@pytest.mark.skipif(bool(NO_DUCKDB), reason=NO_DUCKDB)
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
    _assert_same(results.with_cov(groups="passage"), er.mean(log, by="model", groups="passage"))
    results = er.mean(database.table("log"), by="model", groups="question")
    database.execute(change)
    with pytest.raises(er.errors.DataError, match="have changed since the estimate was made"):
        results.with_cov(groups="passage")
    # What was asked of the engine before is held.
    assert results.with_cov(cov="CR1").nobs == len(log)


@pytest.mark.parametrize("collation", ["NOCASE", "NOACCENT", "NOCASE.NOACCENT"])
def test_ids_that_a_collation_calls_equal_stay_apart(collation: str) -> None:
    if NO_DUCKDB:
        pytest.skip(NO_DUCKDB)
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


def test_a_query_that_fails_after_the_estimate_leaves_the_estimate_as_it_was() -> None:
    calls = []

    def breaks_later(frame: pl.DataFrame) -> pl.DataFrame:
        calls.append(1)
        if broken:
            raise ConnectionError("gone")
        return frame

    labels = {"passage": ["a", "b", "b", "c"], "author": ["x", "y", "z", "z"]}
    rows = pl.DataFrame({"score": [0.0, 1.0, 1.0, 0.0], **labels})
    broken = False
    results = er.mean(rows.lazy().map_batches(breaks_later, schema=rows.schema), groups="passage")
    before, broken = results.bse["mean"], True
    with pytest.raises(EngineError, match="gone"):
        results.with_cov(groups="author")
    assert results.bse["mean"] == before
    broken = False
    expected = er.mean(rows, groups="author").bse["mean"]
    assert results.with_cov(groups="author").bse["mean"] == pytest.approx(expected, rel=SAME)


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
@pytest.mark.parametrize("engine", _first_of_all(LAZY))
def test_models_whose_means_are_far_apart_lose_no_digits(engine, roles):
    frame = _far_apart()
    found, expected = (er.mean(one, by="model", **roles) for one in (LAZY[engine](frame), frame))
    # Of a score of 1e9 a spread of 1 has nine digits less.
    np.testing.assert_allclose(found.bse, expected.bse, rtol=1e-7)
    np.testing.assert_allclose(found.to_frame()["naive_se"], expected.to_frame()["naive_se"], rtol=1e-8)
