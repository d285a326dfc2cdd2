"""What logs in engines hold that they should not: the number of pandas, or a refusal that says what to do."""

from __future__ import annotations

import functools

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import pytest
from engines.lazy import LAZY, in_engines, readable

import evalreg as er
from evalreg.errors import EngineError

pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
SAME = 1e-10


def log() -> pd.DataFrame:
    """A copy of a log that is made once."""
    return _log(240).copy(deep=True)


@functools.cache
def _log(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    return pd.DataFrame(
        {
            "score": rng.integers(0, 2, n),
            "model": rng.choice(["a", "b"], n),
            "other": "c",
            "passage": np.arange(n) // 6,
            "item": np.arange(n),
            "sample": 1,
            "words": rng.integers(1, 60, n),
            "weight": rng.integers(1, 5, n),
        }
    )


CALLS = {
    "mean": lambda data: er.mean(data, by="model", groups="passage").contrast("a - b"),
    "weights": lambda data: er.mean(data, groups="passage", weights="weight"),
    "ratio": lambda data: er.ratio(data, "score", "words", by="model", groups="passage"),
    "number": lambda data: er.fit("score ~ words * weight", data, groups="passage"),
    "factor": lambda data: er.fit("score ~ model + C(weight)", data, groups="passage", cov="CR1"),
    "HC3": lambda data: er.fit("score ~ words", data, weights="weight", cov="HC3"),
    "board": lambda data: er.win_rate(data, left="model", right="other", score="score", groups="passage"),
    "pass at k": lambda data: er.pass_at_k(data, k=1, item="item", sample="sample", groups="passage"),
}
KINDS = {
    "unsigned": {"score": "uint8", "words": "uint16", "weight": "uint32", "passage": "uint64"},
    "small": {"score": "int8", "words": "int16", "weight": "int8", "passage": "int32"},
    "single precision": {"score": "float32", "words": "float32"},
    "truth values": {"score": "bool"},
}


@functools.cache
def in_memory(name, kind=None):
    """The result of pandas, made once for all engines."""
    return CALLS[name](log().astype(KINDS[kind]) if kind else log())


# Each call in each engine with one kind, each kind in each engine of two calls; and numbers less one that is larger.
@pytest.mark.parametrize(
    ("engine", "name", "kind"),
    [
        pytest.param(make, name, kind, id=f"{engine}-{name}-{kind}", marks=[] if chosen else [pytest.mark.slow])
        for i, (engine, make) in enumerate(LAZY.items())
        for j, name in enumerate(CALLS)
        for k, kind in enumerate(KINDS)
        for chosen in [(2 * i + j + 1) % len(KINDS) == k or (name, kind) == ("number", "unsigned")]
    ],
)
def test_columns_of_any_kind_of_number_give_the_number_of_pandas(engine, name, kind):
    found, expected = CALLS[name](engine(log().astype(KINDS[kind]))), in_memory(name)
    np.testing.assert_allclose(found.params, expected.params, rtol=SAME, atol=1e-12)
    np.testing.assert_allclose(found.bse, expected.bse, rtol=SAME)
    # Unsigned numbers do not wrap below zero in memory either.
    np.testing.assert_allclose(in_memory(name, kind).params, expected.params, rtol=SAME, atol=1e-12)


@pytest.mark.parametrize(
    ("of", "name"),
    [
        pytest.param(of, name, marks=[pytest.mark.slow] if slow else [])
        for of in ("duckdb", "polars")
        for name in CALLS
        for slow in [of == "polars" and name not in ("mean", "ratio", "number")]
    ],
)
def test_decimals_are_numbers(of, name):
    held = log()
    relation = duckdb.from_df(held).project(
        "CAST(score AS DECIMAL(9, 3)) AS score, CAST(words AS DECIMAL(38, 0)) AS words, "
        "CAST(weight AS DECIMAL(12, 6)) AS weight, model, other, passage, item, sample"
    )
    data = readable(relation) if of == "duckdb" else relation.pl().lazy()
    if name == "factor":  # A level of a decimal is named as the engine spells it.
        np.testing.assert_allclose(CALLS[name](data).bse, in_memory(name).bse, rtol=SAME)
        return
    found, expected = CALLS[name](data), in_memory(name)
    np.testing.assert_allclose(found.params, expected.params, rtol=SAME, atol=1e-12)
    np.testing.assert_allclose(found.bse, expected.bse, rtol=SAME)


@in_engines
def test_times_are_clusters_and_days_of_a_zone_too(engine):
    frame = log()
    expected = er.mean(frame, groups="passage")
    times = pd.Timestamp("2024-03-31") + pd.to_timedelta(frame["passage"] * 37, unit="m")
    for column in (times, times.dt.tz_localize("UTC"), times.dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin")):
        data = frame.assign(passage=column)
        found, plain = er.mean(engine(data), groups="passage"), er.mean(data, groups="passage")
        assert set(map(str, found.influence("passage").index)) == set(map(str, plain.influence("passage").index))
        np.testing.assert_allclose(found.bse, expected.bse, rtol=SAME)
        assert found.n_clusters == {"passage": 40}


def halves(folder, **change):
    """Two files of Parquet, of which the second has some columns of another type, or without one."""
    pytest.importorskip("pyarrow")
    frame = log()
    second = frame[120:].drop(columns=[name for name, kind in change.items() if kind is None])
    second = second.astype({name: kind for name, kind in change.items() if kind is not None})
    frame[:120].to_parquet(folder / "a.parquet", index=False)
    second.to_parquet(folder / "b.parquet", index=False)
    return str(folder / "*.parquet")


@pytest.mark.parametrize("change", [{"passage": "str"}, {"score": "float64"}, {"score": "str"}, {"passage": None}])
@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_files_whose_types_differ_give_the_number_or_the_error_of_the_engine(engine, change, tmp_path):
    """An engine takes the types of the first file: it converts those of others, or says which column differs."""
    files, frame = halves(tmp_path, **change), log()
    if engine == "polars":
        with pytest.raises(EngineError, match="|".join(change)) as caught:
            er.mean(pl.scan_parquet(files), groups="passage")
        assert caught.value.__cause__ is not None
        return
    if None in change.values():
        with pytest.raises(EngineError, match="passage"):
            er.mean(readable(duckdb.read_parquet(files)), groups="passage")
        together = er.mean(readable(duckdb.read_parquet(files, union_by_name=True)), groups="passage")
        assert together.dropped.to_dict() == {"score": 0, "covariate": 0, "group": 120}
        return
    found = er.mean(readable(duckdb.read_parquet(files)), groups="passage")
    np.testing.assert_allclose(found.bse, er.mean(frame, groups="passage").bse, rtol=SAME)


AWKWARD = {
    "words": ("my score", "select", "a:b", "the item", "Größe", "1st"),
    "marks": ("(score)", "tab\t", "it's", 'say "hi"', "per%cent", "new\nline"),
    "more marks": ("back`tick", "(x)", "[x], y", "$1", "x\\y", "count(*)"),
    "commas": ("a, b", "a, b + 1", "-- c", "列", "; d", "1,5"),
}
ROLES = ("score", "model", "passage", "item", "sample", "weight")
NAMED = {
    "items": lambda data, s, m, p, i, k, w: er.mean(data, s, by=m, item=i, sample=k, groups=[p]),
    "weights": lambda data, s, m, p, i, k, w: er.mean(data, s, by=m, groups=[p, i], weights=w),
    "compare": lambda data, s, m, p, i, k, w: er.compare(data, s, model=m, item=i, groups=[p]).results,
    "board": lambda data, s, m, p, i, k, w: er.win_rate(data, left=m, right="other", score=s, groups=[p], by=w),
}


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("called", AWKWARD)
@in_engines
def test_names_of_columns_are_not_read_as_sql(engine, called, name):
    frame = log().assign(item=np.arange(240) // 2, sample=1 + np.arange(240) % 2)
    if name == "compare":
        frame = frame.assign(model=np.array(["a", "b"])[frame["sample"] - 1])
    names, call = AWKWARD[called], NAMED[name]
    frame = frame.rename(columns=dict(zip(ROLES, names, strict=True)))
    try:
        nw.from_native(engine(frame)).select(*names).collect()
    except Exception:  # of the engine, whichever that is
        pytest.skip("this narwhals cannot choose columns of such names")
    found, expected = call(engine(frame), *names), call(frame, *names)
    np.testing.assert_allclose(found.params, expected.params, rtol=SAME)
    np.testing.assert_allclose(found.bse, expected.bse, rtol=SAME)


# A column, its table, and the connection.
GONE = (
    lambda connection: connection.execute("ALTER TABLE log DROP COLUMN judge"),
    lambda connection: connection.execute("DROP TABLE log"),
    lambda connection: connection.close(),
)
LATER = CALLS | {"compare": lambda data: er.compare(data, item="item", groups="passage")}


@pytest.mark.parametrize("name", LATER)
def test_what_is_gone_after_the_estimate_is_the_error_of_the_engine_and_ours(name):
    """DuckDB looks for it when a query is made, before it is sent."""
    connection = duckdb.connect()
    frame = log().assign(judge=np.arange(240) % 6 + 10 * (np.arange(240) // 6))
    if name == "compare":
        frame = frame.assign(item=np.arange(240) // 2, model=np.array(["a", "b"])[np.arange(240) % 2], judge=1)
        frame["judge"] = frame["item"] // 2
    connection.register("given", frame)
    connection.execute("CREATE TABLE log AS SELECT * FROM given")
    results = LATER[name](readable(connection.table("log")))
    before = str(results.summary())
    for take_away in GONE:
        take_away(connection)
        with pytest.raises(EngineError, match=r"duckdb did not (take a query|tell the columns).*__cause__") as caught:
            results.with_cov(groups="judge", cov="CR1")
        assert caught.value.__cause__ is not None
        assert str(results.summary()) == before
