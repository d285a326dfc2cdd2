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
from evalreg import errors


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


TEXT = {"REAL": ["n/a", ""], "NUMERIC": ["n/a", ""], "INTEGER": ["n/a"], "BOOLEAN": ["true"]}


def check_text_among_numbers(folder: Path) -> None:
    """SQLite keeps text in any column, and counts it as 0: refused with the rows, and right once they are NULL."""
    path = folder / "typed.sqlite"
    frame = cases.answers().dropna().reset_index(drop=True)
    frame = frame[frame["attempt"] == 0].drop_duplicates(["model", "question"]).reset_index(drop=True)
    calls: dict[str, Any] = {
        "mean": lambda data: er.mean(data, "right", by="model", groups="passage"),
        "weights": lambda data: er.mean(data, "score", weights="right2", groups="passage"),
        "ratio": lambda data: er.ratio(data, "right", "score", groups="passage"),
        "fit": lambda data: er.fit("score ~ right", data, groups="passage"),
        "compare": lambda data: er.compare(data, "right", item="question").results,
        "board": lambda data: er.win_rate(data, left="model", right="other", score="right", groups="passage"),
        "sums": lambda data: er.mean(er.summarise(data, score="right", groups="passage"), "right", groups="passage"),
    }
    frame = frame.assign(other="nobody", right2=frame["right"])
    for kind, texts in TEXT.items():
        for text in texts:
            with sqlite3.connect(path) as connection:
                kinds = {"right": kind, "right2": kind}
                frame.to_sql("log", connection, index=False, dtype=kinds, if_exists="replace")
                connection.execute("UPDATE log SET right = ?, right2 = ? WHERE rowid % 9 = 2", (text, text))
            connection.close()
            for call in calls.values():
                cases.refused(errors.NonNumericError, "has text in", lambda call=call: call(table_of(path)))
            # The advice.
            with sqlite3.connect(path) as connection:
                connection.execute("UPDATE log SET right = NULL WHERE typeof(right) = 'text'")
                connection.execute("UPDATE log SET right2 = 1")
            connection.close()
            gaps = frame.assign(right=frame["right"].where(frame.index % 9 != 1), right2=1)
            for name in ("mean", "compare"):
                cases.assert_numbers(calls[name](table_of(path)), calls[name](gaps))
    print("text among numbers", flush=True)


def table_of(path: Path) -> Any:
    return ibis.sqlite.connect(path).table("log")


def main() -> None:
    cases.prepare()
    folder = Path(sys.argv[1])
    print("SQLite")
    make = over_sqlite(folder)
    cases.check_numbers(make, "Ibis over SQLite")
    cases.check_labels(make, ["text", "whole numbers beyond 2^53"])
    cases.check_labels(under_collation(folder), ["text"])
    check_text_among_numbers(folder)
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
