"""Ratios of rows that stay in an engine are those of pandas, with their messages, warnings and counts."""

from __future__ import annotations

import functools

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg import errors

pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")


def _relation(frame):
    relation = duckdb.from_df(frame)
    try:
        nw.from_native(relation)
    except ModuleNotFoundError as error:
        pytest.skip(f"narwhals cannot read relations of this DuckDB: {error}")
    return relation


ENGINES = {"polars": lambda frame: pl.from_pandas(frame).lazy(), "duckdb": _relation}
engines = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())
# Of rules that are held before an engine is asked, or after.
in_polars = pytest.mark.parametrize(
    "engine",
    [
        pytest.param(make, id=name, marks=[pytest.mark.slow] if name == "duckdb" else [])
        for name, make in ENGINES.items()
    ],
)
quiet = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


def log() -> pd.DataFrame:
    """A copy of a log that is made once."""
    return _log(900).copy(deep=True)


@functools.cache
def _log(n: int) -> pd.DataFrame:
    """Errors in words of three models on 30 passages, with rows of no words, and holes that are null and NaN."""
    rng = np.random.default_rng(6)
    words = rng.integers(0, 40, n).astype(float)
    frame = pd.DataFrame(
        {
            "model": rng.choice(["ada", "bob", "cyd"], n),
            "passage": [f"p{one}" for one in rng.integers(0, 30, n)],
            "judge": rng.choice(["x", "y", "z", "v", "w"], n),
            "words": words,
            "errors": rng.poisson(1 + words / 9).astype(float),
            "right": np.floor(words * rng.random(n)),
            "weight": rng.uniform(0.5, 2, n),
        }
    )
    frame.loc[[4, 9], "errors"] = np.nan
    frame.loc[[4, 60], "words"] = np.nan
    frame.loc[[7], "weight"] = np.nan
    frame["passage"] = frame["passage"].where(~frame.index.isin([4, 12]), None)
    return frame


ROLES = {
    "one": {},
    "clustered": {"groups": "passage"},
    "by": {"by": "model", "groups": "passage"},
    "crossed": {"by": "model", "groups": "passage + judge"},
    "CR3": {"by": ["model", "judge"], "groups": "passage", "cov": "CR3"},
    "weighted": {"by": "model", "groups": "passage", "weights": "weight"},
    "weighted, no clusters": {"weights": "weight", "cov": "HC1"},
}


@functools.cache
def in_memory(top, name):
    """The ratio in pandas and what it tells, made once for both engines."""
    made = er.ratio(log(), top, "words", **ROLES[name])
    return made, str(made.summary())


# Errors and rates in turn.
@quiet
@pytest.mark.parametrize(
    ("name", "top"),
    [
        pytest.param(name, top, marks=[pytest.mark.slow] if (i + j) % 2 else [])
        for i, name in enumerate(ROLES)
        for j, top in enumerate(("errors", "right"))
    ],
)
@engines
def test_ratios_are_those_of_pandas(engine, name, top):
    roles, (expected, told) = ROLES[name], in_memory(top, name)
    found = er.ratio(engine(log()), top, "words", **roles)
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-12)
    np.testing.assert_allclose(found.cov_params(), expected.cov_params(), rtol=1e-10, atol=1e-16)
    np.testing.assert_allclose(found.dof, expected.dof, rtol=1e-8)
    np.testing.assert_allclose(found.conf_int(), expected.conf_int(), rtol=1e-8)
    np.testing.assert_allclose(found.n_eff(), expected.n_eff(), rtol=1e-9)
    assert (found.nobs, found.dropped.to_dict()) == (expected.nobs, expected.dropped.to_dict())
    assert expected.dropped.sum() > 0
    assert found.notes == expected.notes
    assert str(found.summary()) == told
    if "groups" in roles:
        np.testing.assert_allclose(found.icc(), expected.icc(), rtol=1e-8)
        by_judge = [results.with_cov(groups="judge", cov="CR1").bse for results in (found, expected)]
        np.testing.assert_allclose(*by_judge, rtol=1e-10)


@quiet
def test_the_error_is_that_of_a_plain_linearization():
    rows = log().dropna()
    found = er.ratio(pl.from_pandas(rows).lazy(), "errors", "words", groups="passage", cov="CR0")
    R = rows["errors"].sum() / rows["words"].sum()
    totals = (rows["errors"] - R * rows["words"]).groupby(rows["passage"]).sum()
    assert found.bse["ratio"] == pytest.approx(np.sqrt((totals**2).sum()) / rows["words"].sum(), rel=1e-10)


@quiet
@engines
def test_what_leaves_an_engine_are_sums(engine, collected):
    results = er.ratio(engine(log()), "errors", "words", by="model", groups="passage")
    str(results.summary())
    results.with_cov(cov="CR3").diagnostics()
    assert max(collected) <= 30 * 3


@quiet
@in_polars
def test_a_denominator_that_is_hardly_known_warns_with_the_same_words(engine):
    frame = log()[["errors", "words", "passage", "model"]].dropna().head(60)
    frame["words"] = np.where(frame["passage"] == "p1", 4000.0, frame["words"])
    for roles in ({"groups": "passage"}, {"by": "model", "groups": "passage"}, {}):
        found, expected = (er.ratio(data, "errors", "words", **roles).notes for data in (engine(frame), frame))
        found, expected = (
            [note for note in notes if note[0] is errors.DenominatorWarning] for notes in (found, expected)
        )
        assert found == expected
        assert errors.DenominatorWarning in [kind for kind, _ in expected]


@quiet
@pytest.mark.parametrize("share", [0.0, 1.0])
@in_polars
def test_a_rate_of_exactly_0_or_1_has_the_interval_of_pandas(engine, share):
    frame = log().dropna()
    frame["right"] = np.where(frame["model"] == "bob", share * frame["words"], frame["right"])
    found, expected = (
        er.ratio(data, "right", "words", by="model", groups="passage") for data in (engine(frame), frame)
    )
    np.testing.assert_allclose(found.conf_int(), expected.conf_int(), rtol=1e-8)
    assert str(found.summary()) == str(expected.summary())


REFUSED = {
    "negative": (lambda f: f.assign(words=f["words"] - 20), errors.ScoreRangeError, "must not be negative"),
    "infinite": (lambda f: f.assign(words=f["words"] + np.where(f.index == 2, np.inf, 0)), errors.NonFiniteError, "2"),
    "no words": (
        lambda f: f.assign(words=np.where(f["model"] == "bob", 0.0, f["words"])),
        errors.DataError,
        "column 'words' is 0 in every row of \"bob\"",
    ),
    "constant": (
        lambda f: f.assign(errors=3.1 * f["words"]),
        errors.ConstantScoreError,
        "leaves no variation in",
    ),
    "text": (lambda f: f.assign(words="ten"), errors.NonNumericError, "`denominator` must hold numbers"),
    "large numerators": (
        lambda f: f.assign(errors=f["errors"] * 1e200),
        errors.ScoreRangeError,
        "`numerator` must have squares that fit into a float; column 'errors' holds values as large as",
    ),
    "large denominators": (
        lambda f: f.assign(words=f["words"] * 1e200),
        errors.ScoreRangeError,
        "`denominator` must have squares that fit into a float; column 'words' holds values as large as",
    ),
    "small denominators": (
        lambda f: f.assign(words=f["words"] * 1e-200),
        errors.ScoreRangeError,
        "`denominator` must have squares that fit into a float; column 'words' holds values that differ by at most",
    ),
}


@quiet
@pytest.mark.parametrize("name", REFUSED)
@engines
def test_what_breaks_a_rule_is_refused_as_in_memory(engine, name):
    change, kind, words = REFUSED[name]
    frame = change(log().dropna().reset_index(drop=True))
    if name == "infinite":
        words = "must be finite"
    for data in (engine(frame), frame):
        with pytest.raises(kind) as caught:
            er.ratio(data, "errors", "words", by="model", groups="passage")
        assert name == "text" or words in str(caught.value), str(caught.value)


@quiet
def test_rows_that_changed_in_their_engine_are_refused():
    frame, connection = log(), duckdb.connect()
    connection.register("given", frame)
    connection.execute("CREATE TABLE held AS SELECT * FROM given")
    _relation(frame.head(3))
    results = er.ratio(connection.table("held"), "errors", "words", groups="passage")
    connection.execute("UPDATE held SET errors = errors + 1")
    with pytest.raises(errors.DataError, match="have changed"):
        results.with_cov(groups="judge")


@pytest.mark.pairwise
@quiet
@pytest.mark.parametrize(
    "roles", [{}, {"groups": "passage"}, {"weights": "weight"}], ids=["rows", "clusters", "weighted"]
)
@pytest.mark.parametrize("which", ["numerators", "denominators"])
@engines
def test_models_whose_ratios_differ_by_orders_of_magnitude_lose_no_digits(engine, which, roles):
    rng, parts = np.random.default_rng(2), []
    for name, scale in (("ada", 1.0), ("bob", 1e4), ("cyd", 1e8), ("dan", 1.5e8), ("eve", 1e12)):
        words = rng.integers(1, 20, 200).astype(float)
        errors = 0.5 * words * (1 + rng.normal(0, 0.01, 200))
        own = (errors * scale, words) if which == "numerators" else (errors, words * scale)
        columns = {"model": name, "passage": np.arange(200) // 5, "weight": rng.uniform(0.5, 2, 200)}
        parts.append(pd.DataFrame({**columns, "errors": own[0], "words": own[1]}))
    frame = pd.concat(parts, ignore_index=True)
    found, expected = (er.ratio(one, "errors", "words", by="model", **roles) for one in (engine(frame), frame))
    np.testing.assert_allclose(found.bse, expected.bse, rtol=1e-8)
    np.testing.assert_allclose(found.conf_int(), expected.conf_int(), rtol=1e-8)
    assert found.notes == expected.notes
