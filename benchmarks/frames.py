"""The same file through every kind of data that evalreg takes: from the file to standard errors.

    python benchmarks/frames.py                      1e6 rows
    python benchmarks/frames.py --rows 10000000      more of them
    python benchmarks/frames.py --only duckdb spark  some kinds; others are left out, as are those not installed

Two logs in Parquet, which DuckDB writes: answers of 3 models with three numbers each, and comparisons of 20 models by 5
judges, 100 rows a cluster, with text ids (those of `engines.py`). Each kind of data runs in a process of its own, on
two threads where it is an engine, after a first call on 20,000 rows that loads what it needs and starts Spark. Seconds
are by the clock, the median of the rounds; memory is the peak of the process and of those that it started, in all.
Standard errors are compared with those of pandas.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

# Not `_measure`, which takes this folder from the places of imports.
from engines import ANSWERS, MADE, made_log, with_children

FORMULA = "score ~ model + tokens + words + temperature"
SIDES = {"left": "left", "right": "right", "winner": "winner", "groups": "prompt + judge"}
FIRST = 20_000


def calls() -> dict[str, tuple[str, Callable[[Any], Any]]]:
    """By name the log of an estimate, and what makes it."""
    import evalreg as er

    return {
        "mean": ("answers", lambda data: er.mean(data, by="model", groups="item")),
        "fit": ("answers", lambda data: er.fit(FORMULA, data, groups="item")),
        "win_rate": ("duels", lambda data: er.win_rate(data, **SIDES)),
    }


def opener(kind: str, folder: str) -> Callable[[str], Any]:
    """What opens a file of Parquet as one kind of data; what it needs is imported and started."""
    if kind == "pandas":
        import pandas as pd

        return pd.read_parquet
    if kind == "pyarrow":
        from pyarrow import parquet

        return parquet.read_table
    if kind in ("polars", "polars lazy"):
        import polars as pl

        return pl.read_parquet if kind == "polars" else pl.scan_parquet
    if kind == "duckdb":
        import duckdb

        database = duckdb.connect()
        database.execute("SET threads = 2")
        return database.read_parquet
    if kind == "ibis over duckdb":
        import ibis

        return ibis.duckdb.connect(threads=2).read_parquet
    if kind == "dask":
        import dask
        from dask import dataframe

        dask.config.set(num_workers=2)
        return dataframe.read_parquet
    assert kind == "spark"
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 4)
    for name, value in {"spark.ui.enabled": "false", "spark.sql.warehouse.dir": folder}.items():
        spark = spark.config(name, value)
    return spark.getOrCreate().read.parquet


KINDS = ("pandas", "polars", "pyarrow", "polars lazy", "duckdb", "ibis over duckdb", "dask", "spark")


def measure(kind: str, call: str, path: str, first: str, repeat: int) -> dict[str, Any]:
    """Seconds of each round, peak in MiB, and the standard errors."""
    make = calls()[call][1]
    with tempfile.TemporaryDirectory() as folder:
        opened = opener(kind, folder)
        make(opened(first))
        seconds = []
        for _ in range(repeat):
            start = time.perf_counter()
            found = make(opened(path))
            seconds.append(time.perf_counter() - start)
        return {"seconds": seconds, "peak": with_children(), "bse": [float(one) for one in found.bse]}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.one:
        print(json.dumps(measure(*asked.one, asked.repeat)))
        return
    asked.clusters, asked.memory = asked.rows // 100, "4GB"
    small = argparse.Namespace(rows=FIRST, clusters=FIRST // 100, memory="4GB")
    print("| data | call | s | MiB in all | errors differ by at most |\n|---|---|---:|---:|---:|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        paths = {
            name: [made_log(made, name, size, folder) for size in (asked, small)]
            for name, made in (("answers", ANSWERS), ("duels", MADE))
        }
        expected: dict[str, Any] = {}
        for kind in dict.fromkeys(("pandas", *asked.only)):
            for call, (log, _) in calls().items():
                command = [sys.executable, __file__, "--repeat", str(asked.repeat), "--one", kind, call, *paths[log]]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    print(f"| {kind} | `{call}` | {(done.stderr.strip().splitlines() or ['failed'])[-1]} | | |")
                    continue
                found = json.loads(done.stdout.splitlines()[-1])
                own = np.array(found["bse"])
                differ = np.max(np.abs(own / expected.setdefault(call, own) - 1))
                seconds = statistics.median(found["seconds"])
                print(f"| {kind} | `{call}` | {seconds:.2f} | {found['peak']:.0f} | {differ:.0e} |", flush=True)


if __name__ == "__main__":
    main()
