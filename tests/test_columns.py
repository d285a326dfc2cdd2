"""Numbers are numbers in whatever a column holds them, for scores, weights and covariates alike."""

from __future__ import annotations

import datetime
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import evalreg as er
from evalreg.errors import ArgumentError, ArgumentTypeError, NonFiniteError, NonNumericError, ScoreRangeError

# Formulas are tried on few rows, of which some levels have a handful.
pytestmark = pytest.mark.filterwarnings("ignore:.*on few of the rows:evalreg.errors.FewClustersWarning")

SAME = 1e-12
# A row without a value is dropped and counted, whatever stands for it.
HOLES = [0, 7]


@pytest.fixture
def log(rng):
    n = 60
    x = rng.integers(1, 9, n) * 0.25
    columns = {"score": rng.normal(size=n) + x, "x": x, "k": rng.integers(0, 3, n), "passage": np.arange(n) // 4}
    return pd.DataFrame(columns)


def _some(values, make, absent=None):
    return [absent if i in HOLES else make(value) for i, value in enumerate(values)]


def _assert_same(found, expected):
    assert list(found.params.index) == list(expected.params.index)
    np.testing.assert_allclose(found.params, expected.params, rtol=SAME)
    np.testing.assert_allclose(found.bse, expected.bse, rtol=SAME)
    pd.testing.assert_series_equal(found.dropped, expected.dropped)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_large_integers_beside_nulls_stay_apart_as_levels(log, make):
    big = _some(log["k"], lambda v: 2**60 + int(v))
    data = {"score": log["score"].to_numpy(), "v": big}
    frame = (
        pd.DataFrame({"score": data["score"], "v": pd.Series(big, dtype="Int64")})
        if make is pd.DataFrame
        else make(data)
    )
    plain = log.assign(v=log["k"].astype(str)).drop(index=HOLES)
    np.testing.assert_allclose(er.fit("score ~ C(v)", frame).params, er.fit("score ~ C(v)", plain).params, rtol=SAME)


DAY = datetime.timedelta(days=1)
# Columns that are neither numbers nor labels, and what the message calls them.
NEITHER = {
    "dates": (lambda k: [datetime.date(2024, 1, 1) + int(v) * DAY for v in k], "dates"),
    "times": (lambda k: pd.Timestamp("2024-01-01") + pd.to_timedelta(k, unit="h"), "dates and times"),
    "times with a zone": (lambda k: pd.to_datetime(k, unit="h", utc=True), "dates and times"),
    "lengths of time": (lambda k: pd.to_timedelta(k, unit="s"), "lengths of time"),
    "lengths of time as objects": (lambda k: pd.Series([int(v) * DAY for v in k], dtype=object), "lengths of time"),
    "complex": (lambda k: k + 1j, "complex"),
    "complex objects": (lambda k: pd.Series([complex(v) for v in k], dtype=object), "complex"),
    "periods": (lambda k: pd.to_datetime(k, unit="D").to_period("D"), "periods"),
}


@pytest.mark.parametrize("kind", NEITHER)
def test_what_is_neither_number_nor_label_is_refused_by_name(log, kind):
    make, called = NEITHER[kind]
    frame = log.assign(v=make(log["k"].to_numpy()))
    with pytest.raises(NonNumericError, match=f"'v' as it is, and the column holds {called}") as caught:
        er.fit("score ~ v", frame)
    assert caught.value.column == "v"
    with pytest.raises(NonNumericError, match="'v'"):
        er.fit("v ~ x", frame)
    with pytest.raises(NonNumericError, match="'v'"):
        er.mean(frame, "v")
    # What the message offers; complex numbers have no order, so that their levels come as they come.
    if "complex" in kind:
        assert len(er.fit("score ~ C(v)", frame).params) == 3
        return
    np.testing.assert_allclose(er.fit("score ~ C(v)", frame).bse, er.fit("score ~ C(k)", log).bse, rtol=1e-9)


def test_times_with_a_zone_are_levels_in_utc_in_frames_of_any_kind(log):
    frame = log.assign(v=pd.to_datetime(log["k"], unit="D", utc=True).dt.tz_convert("Europe/Berlin"))
    frames = frame, frame.convert_dtypes(dtype_backend="pyarrow"), pl.from_pandas(frame), pa.Table.from_pandas(frame)
    calls = lambda data: er.fit("score ~ C(v)", data), lambda data: er.mean(data, by="v", groups="passage")
    for call, in_utc in zip(calls, ("tz='UTC'", "+00:00"), strict=True):
        names = {tuple(call(data).params.index) for data in frames}
        assert len(names) == 1
        assert in_utc in min(names)[1]


def test_short_whole_numbers_do_not_wrap_where_they_are_levels_too(log):
    frame, formula = log.assign(k=log["k"] + 90_000), "score ~ C(k):x + I(k ** 2)"
    found, expected = (er.fit(formula, frame.astype({"k": kind})).params for kind in ("int32", "int64"))
    np.testing.assert_allclose(found, expected, rtol=SAME)


@pytest.mark.parametrize("value", [10**400, -(10**400), Decimal("Infinity"), Decimal("1e400"), np.inf])
def test_numbers_too_large_for_floats_are_infinite(log, value):
    frame = log.assign(v=pd.Series([value if i == 3 else float(v) for i, v in enumerate(log["x"])], dtype=object))
    for call in (lambda: er.mean(frame, "v"), lambda: er.fit("score ~ v", frame), lambda: er.fit("v ~ x", frame)):
        with pytest.raises(NonFiniteError, match="row 3"):
            call()
    with pytest.raises(NonFiniteError, match="too large to be summed"):
        er.fit("score ~ v", log.assign(v=1e308 + log["x"] * 1e305))


# Sizes


@pytest.mark.parametrize("scale", [1e160, 1e300, 1e-200, 1e-320])
def test_values_whose_squares_are_no_floats_are_refused(log, scale):
    log["x"] -= 1.3
    frame = log.assign(score=log["score"] * scale, far=log["x"] * scale)
    calls = (
        lambda: er.mean(frame, groups="passage"),
        lambda: er.fit("score ~ x", frame, groups="passage"),
        lambda: er.fit("x ~ far", frame, groups="passage"),
        lambda: er.fit("x ~ I(far * 1)", frame, groups="passage"),
    )
    for call in calls:
        with pytest.raises(ScoreRangeError, match="squares that fit into a float"):
            call()
    # What the message asks for.
    if scale > 1e-300:
        again = er.mean(frame.assign(score=frame["score"] / scale), groups="passage")
        np.testing.assert_allclose(again.bse, er.mean(log, groups="passage").bse, rtol=1e-9)


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-200, 1e200, 1e308])
def test_weights_of_any_size_are_their_ratios(log, scale):
    weights = np.full(len(log), scale) if scale in (5e-324, 1e308) else scale * np.linspace(1, 2, len(log))
    right = weights / scale
    for call in (lambda w: er.mean(log, weights=w, groups="passage"), lambda w: er.fit("score ~ x", log, weights=w)):
        found, expected = call(weights), call(right)
        np.testing.assert_allclose(found.params, expected.params, rtol=1e-9)
        np.testing.assert_allclose(found.bse, expected.bse, rtol=1e-9)


# Names


def test_columns_named_by_numbers_go_by_their_text(log):
    frame = log.set_axis([0, 1, 2, 3], axis=1)
    _assert_same(er.mean(frame, "0", groups="3"), er.mean(log, "score", groups="passage"))
    found = er.fit('Q("0") ~ `1`', frame, groups="3")
    np.testing.assert_allclose(found.bse, er.fit("score ~ x", log, groups="passage").bse, rtol=SAME)
    assert list(frame.columns) == [0, 1, 2, 3]
    with pytest.raises(ArgumentError, match='distinct column names; "1"'):
        er.mean(frame.assign(**{"1": 0.0}), "0")
    joined = duckdb.from_df(log).select("score, x AS score, passage")  # as a join of two tables has it
    with pytest.raises(ArgumentError, match='distinct column names; "score"'):
        er.mean(joined, groups="passage")
    for role in ("groups", "by"):
        with pytest.raises(ArgumentTypeError, match="one value a row"):
            er.mean(duckdb.sql("SELECT i % 2 AS score, to_months(i % 5) AS span FROM range(40) t(i)"), **{role: "span"})


@pytest.mark.parametrize(("kind", "digits"), [("float64", 53), ("float32", 24), (object, 53)])
def test_ids_that_floats_do_not_tell_apart_are_refused_by_their_name(log, kind, digits):
    ids = (2.0**digits + np.arange(len(log))).astype(kind)
    for make in (pd.DataFrame, pl.from_pandas, lambda frame: pl.from_pandas(frame).lazy()):
        for roles in ({"groups": "id"}, {"item": "id"}):
            with pytest.raises(ArgumentTypeError, match=rf"column 'id'.* 2\^{digits}"):
                er.mean(make(log.assign(id=ids)), **roles)


# What a result gives back


@pytest.mark.parametrize("make", [pl.Series, pa.array, lambda values: pa.chunked_array([values[:30], values[30:]])])
def test_columns_of_polars_and_pyarrow_are_labels(make):
    rng = np.random.default_rng(2)
    labels = [f"p{i // 6}" for i in range(60)]
    frame = pd.DataFrame({"score": rng.normal(size=60), "passage": labels})
    expected = er.mean(frame, groups="passage")
    for data in (frame, pl.from_pandas(frame)):
        _assert_same(er.mean(data, groups=pl.DataFrame({"passage": labels})), expected)
        found = er.mean(data, groups=make(labels))
        assert found.n_clusters == {"groups": 10}
        np.testing.assert_allclose(found.bse, expected.bse, rtol=1e-12)
    assert er.mean(frame, groups=pl.Series("passage", labels)).n_clusters == {"passage": 10}
    with pytest.raises(er.errors.AlignmentError):
        er.mean(frame, groups=make(labels[:59]))


@pytest.mark.parametrize("kind", ["double", "float", "categories", "Float64"])
def test_labels_of_nullable_types_are_those_of_arrays(log, kind):
    """NaN is missing, -0 is 0, and a category that no row has is no cluster."""
    row = np.arange(len(log))
    ids = np.where(row % 7, row // 2 % 20, np.nan) * np.where(row % 2, 1.0, -1.0) ** (row // 2 % 20 < 1)
    if kind == "Float64":
        held = pd.arrays.FloatingArray(ids, np.zeros(len(ids), dtype=bool))
    else:
        values = pd.Categorical(ids, np.arange(-20.0, 20)) if kind == "categories" else pa.array(ids, kind)
        held = pd.arrays.ArrowExtensionArray(pa.array(values))
    expected, answer = (er.mean(log.assign(id=column), groups="id", cov="CR1") for column in (ids, held))
    assert answer.n_clusters == expected.n_clusters == {"id": 20}
    np.testing.assert_allclose([*answer.bse, *answer.dropped], [*expected.bse, *expected.dropped], rtol=1e-12)


def test_moments_are_called_as_in_pandas(log):
    moments = log.assign(model=pd.Timestamp("2026-01-02 03:00") + pd.to_timedelta(np.arange(len(log)) % 3, unit="h"))
    of = [er.mean(data, by="model", groups="passage") for data in (moments, pl.from_pandas(moments))]
    assert list(of[0].params.index) == list(of[1].params.index)


def test_text_that_differs_after_a_zero_byte_stays_apart(log):
    """Old releases of pandas compare text up to its first zero byte only."""
    passages, questions = log["passage"].to_numpy(), np.arange(len(log)) // 2
    model = np.where(np.arange(len(log)) % 2, "new", "old")
    plain = pd.DataFrame({"score": log["score"], "passage": passages, "question": questions, "model": model})
    marked = plain.assign(
        **{name: [f"a\0{label}" for label in plain[name]] for name in ("passage", "question", "model")}
    )
    for call in (
        lambda frame: er.mean(frame, by="model", groups="passage"),
        lambda frame: er.compare(frame, item="question").results,
        lambda frame: er.fit("score ~ C(model)", frame, groups="passage"),
    ):
        np.testing.assert_allclose(call(marked).bse, call(plain).bse, rtol=1e-12)
