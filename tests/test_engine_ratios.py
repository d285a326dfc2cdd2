"""Ratios of rows that stay in an engine are those of pandas, with their messages, warnings and counts."""

from __future__ import annotations

import functools

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import pytest

import evalreg as er

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
quiet = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


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
