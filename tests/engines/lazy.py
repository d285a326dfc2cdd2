"""Frames of pandas put into engines, and the mark of a test that runs in each engine."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import pandas as pd
import pytest
from engines.cases import Make


def readable(relation: Any) -> Any:
    """A relation of DuckDB; skips the test where narwhals cannot read it."""
    try:
        nw.from_native(relation)
    except ModuleNotFoundError as error:
        pytest.skip(f"narwhals cannot read DuckDB here: {error}")
    return relation


def in_duckdb(frame: pd.DataFrame) -> Any:
    """The frame as a relation of DuckDB."""
    return readable(pytest.importorskip("duckdb").from_df(frame))


def in_polars(frame: pd.DataFrame) -> Any:
    """The frame as a LazyFrame of polars."""
    return pytest.importorskip("polars").from_pandas(frame).lazy()


LAZY: dict[str, Make] = {"polars lazy": in_polars, "duckdb": in_duckdb}
in_engines = pytest.mark.parametrize("engine", LAZY.values(), ids=LAZY.keys())
# Of a rule that is held before an engine is asked, or after. DuckDB takes longest to plan a query: there it is slow.
in_one_engine = pytest.mark.parametrize(
    "engine",
    [pytest.param(make, id=name, marks=[pytest.mark.slow] if name == "duckdb" else []) for name, make in LAZY.items()],
)
