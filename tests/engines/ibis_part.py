"""Ibis over DuckDB and over SQLite: the numbers of pandas, or an error that says what the backend lacks."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from typing import Any

import cases
import duckdb
import ibis
import numpy as np
import pandas as pd
import pyarrow as pa

import evalreg as er


def over_duckdb(folder: Path) -> cases.Make:
    """Tables of a database of DuckDB, in which null and NaN both stand for a missing score."""
    connection = duckdb.connect(str(folder / "log.duckdb"))
    database = ibis.duckdb.from_connection(connection)
    names = iter(range(10**6))

    def make(frame: pd.DataFrame) -> Any:
        columns = {name: pa.array(frame[name], from_pandas=frame[name].dtype.kind != "f") for name in frame.columns}
        name = f"log{next(names)}"
        connection.register("given", pa.table(columns))
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        connection.unregister("given")
        return database.table(name)

    return make


def over_sqlite(folder: Path) -> cases.Make:
    """Tables of SQLite, which has no NaN."""
    path = folder / "log.sqlite"
    names = iter(range(10**6))

    def make(frame: pd.DataFrame) -> Any:
        name = f"log{next(names)}"
        with sqlite3.connect(path) as connection:
            frame.to_sql(name, connection, index=False)
        connection.close()
        return ibis.sqlite.connect(path).table(name)

    return make


def under_collation(folder: Path) -> cases.Make:
    """Tables of SQLite to which "a" and "A" are one."""
    path = folder / "collated.sqlite"
    names = iter(range(10**6))

    def make(frame: pd.DataFrame) -> Any:
        name = f"log{next(names)}"
        kinds = {one: "TEXT COLLATE NOCASE" if frame[one].dtype.kind == "O" else "REAL" for one in frame.columns}
        with sqlite3.connect(path) as connection:
            frame.to_sql(name, connection, index=False, dtype=kinds)
            assert connection.execute(f"SELECT count(DISTINCT label) FROM {name}").fetchone()[0] < 6
        connection.close()
        return ibis.sqlite.connect(path).table(name)

    return make


def main() -> None:
    cases.prepare()
    folder = Path(sys.argv[1])
    print("SQLite")
    make = over_sqlite(folder)
    cases.check_numbers(make, "Ibis over SQLite")
    cases.check_labels(make, ["text", "whole numbers beyond 2^53"])
    cases.check_labels(under_collation(folder), ["text"])
    print("DuckDB")
    make = over_duckdb(folder)
    cases.check_numbers(make, "Ibis over DuckDB")
    cases.check_labels(make)
    cases.check_scores(make)
    frame = cases.answers()
    whole = frame.assign(score=(frame["score"] * 100).round()).dropna().reset_index(drop=True)
    data = make(whole)
    for kind in ("uint8", "uint64", "decimal(10, 3)"):
        found = er.mean(data.mutate(score=data["score"].cast(kind)), by="model", groups="passage")
        expected = er.mean(whole, by="model", groups="passage")
        np.testing.assert_allclose(found.cov_params(), expected.cov_params(), rtol=cases.SAME, atol=1e-14, err_msg=kind)
    print("unsigned and decimal scores")


if __name__ == "__main__":
    main()
