"""A cluster of two workers on this machine, one of which is ended in the middle of a board: the numbers do not change.

    cluster_part.py FOLDER                     1,000,000 comparisons
    cluster_part.py FOLDER --rows 10000000     more of them

The master and the workers are those of pyspark's own distribution, each a process of its own on the loopback address; a
worker has one core and 1 GB, the driver 512 MB. Spark makes the comparisons itself, as Parquet, on a random schedule of
20 models, 5 judges and 100 comparisons a prompt. What a board costs is read from Spark's event log: what each query
does in short, what it hands from worker to worker, and the processor it takes. The numbers are held against those of
DuckDB on the same files, and of few comparisons against those of pandas.

Measured at 10,000,000 comparisons, on two cores at a load of 15: 13 queries, the source read once, 45,756,127 rows in
728 MB shuffled, 228 s of processor, at most 18,145 lines at once to the driver; with a worker ended 91,289,022 rows in
1,450 MB and 336 s. Errors are those of the undisturbed board to 2e-16, and of DuckDB (17 s of processor) to 8e-15.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cases
import duckdb
import numpy as np
import pandas as pd
import pyspark
import spark_part
from pyspark.sql import DataFrame, SparkSession, functions

import evalreg as er
from evalreg.data import engine_pairs

ROLES = {"left": "left", "right": "right", "winner": "winner", "groups": "prompt + judge"}
MODELS, JUDGES, A_PROMPT = 20, 5, 100
# Boards of at most so many rows are made again from pandas, and by Spark without keeping columns.
IN_MEMORY = 2_000_000


def free_port() -> int:
    """A port of the loopback address that nothing listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def process(folder: Path, name: str, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A master or a worker, from the class of that name, ended with the block."""
    home = Path(pyspark.__file__).parent
    kind = "org.apache.spark.deploy." + ("master.Master" if name == "master" else "worker.Worker")
    own = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
    with (folder / f"{name}.log").open("wb") as log:
        made = subprocess.Popen(
            [str(home / "bin" / "spark-class"), kind, "--host", "127.0.0.1", *command],
            stdout=log,
            stderr=log,
            env={**os.environ, **own},
        )
        try:
            yield made
        finally:
            made.kill()
            made.wait()


def wait_for_workers(page: str, n_workers: int, seconds: float = 180) -> None:
    """Return when so many workers are alive, as the master tells."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{page}/json/", timeout=5) as answer:
                if int(json.load(answer)["aliveworkers"]) == n_workers:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.5)
    raise AssertionError(f"no {n_workers} workers after {seconds:.0f} s")


def session(master: str, folder: Path) -> SparkSession:
    """A session on the cluster whose driver has 512 MB and which keeps a log of its events."""
    (folder / "events").mkdir()
    builder = SparkSession.builder.master(master).appName("evalreg")
    options = {
        "spark.executor.memory": "1g",
        "spark.executor.cores": "1",
        "spark.sql.shuffle.partitions": "8",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.local.dir": str(folder / "local"),
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in options.items():
        builder = builder.config(name, value)
    return spark_part.session(builder, str(folder / "warehouse"))


def comparisons(spark: SparkSession, n_rows: int, path: str) -> DataFrame:
    """Comparisons on a random schedule, in eight files of Parquet; winners depend on the models and on the prompt."""

    def drawn(salt: int, below: int, *of: str) -> Any:
        return functions.pmod(functions.xxhash64(*(of or ("id",)), functions.lit(salt)), functions.lit(below))

    a, b = drawn(1, MODELS), drawn(2, MODELS - 1)
    base = spark.range(0, n_rows, 1, 8).select(
        "id",
        drawn(3, max(n_rows // A_PROMPT, 2)).alias("p"),
        drawn(4, JUDGES).alias("j"),
        a.alias("a"),
        functions.when(b >= a, b + 1).otherwise(b).alias("b"),
        drawn(5, 100).alias("u"),
    )
    # Of every prompt and judge, how much a pair that meets there is moved.
    moved = drawn(6, 21, "p", "a") - drawn(6, 21, "p", "b") + drawn(7, 7, "j", "a") - drawn(7, 7, "j", "b")
    limit = 50 + functions.col("b") - functions.col("a") + moved
    u = functions.col("u")

    def named(prefix: str, column: str, width: int) -> Any:
        return functions.concat(functions.lit(prefix), functions.lpad(functions.col(column).cast("string"), width, "0"))

    log = base.select(
        named("prompt-", "p", 7).alias("prompt"),
        named("judge-", "j", 1).alias("judge"),
        named("model-", "a", 2).alias("left"),
        named("model-", "b", 2).alias("right"),
        functions.when(u < 4, "tie").when(u < limit, "left").otherwise("right").alias("winner"),
    )
    log.write.parquet(path)
    return spark.read.parquet(path)


@dataclass
class Cost:
    """What the jobs of one board, or of one of its queries, did."""

    queries: dict[str, Cost] = field(default_factory=dict)
    # Steps of the plan of a query, as it was carried out.
    steps: str = ""
    # Rows read from Parquet.
    scanned: int = 0
    # Bytes and rows written for other workers to read.
    shuffled: int = 0
    shuffled_rows: int = 0
    failed: int = 0
    # Seconds of processor that the workers took.
    seconds: float = 0.0

    def add(self, metrics: dict[str, Any]) -> None:
        """Add what a task did."""
        self.seconds += metrics.get("Executor CPU Time", 0) / 1e9
        written = metrics.get("Shuffle Write Metrics", {})
        self.shuffled += written.get("Shuffle Bytes Written", 0)
        self.shuffled_rows += written.get("Shuffle Records Written", 0)

    def __str__(self) -> str:
        return (
            f"shuffled {self.shuffled_rows:,} rows in {self.shuffled / 2**20:.1f} MB, {self.seconds:.1f} s of processor"
        )


def accumulators(plan: dict[str, Any]) -> Iterator[int]:
    """Numbers under which the rows that a plan reads from Parquet are counted."""
    if plan["nodeName"].startswith("Scan parquet"):
        yield from (one["accumulatorId"] for one in plan["metrics"] if one["name"] == "number of output rows")
    for child in plan["children"]:
        yield from accumulators(child)


# What the steps of a plan are called in short; others are left out.
STEPS = {
    "Scan parquet": "read",
    "InMemoryTableScan": "kept lines",
    "Exchange": "shuffle",
    "SortMergeJoin": "join by sorting",
    "ShuffledHashJoin": "join by hashing",
    "BroadcastHashJoin": "join with a table sent to all",
    "HashAggregate": "add up",
    "ObjectHashAggregate": "add up",
    "SortAggregate": "add up",
}


def steps(plan: dict[str, Any]) -> list[str]:
    """Steps of a plan from its sources on, the lines that Spark keeps being one of them."""
    name = plan["nodeName"]
    own = [short for long, short in STEPS.items() if name.split("(")[0].startswith(long)]
    if name.startswith("InMemoryTableScan"):
        return own
    return [step for child in plan["children"] for step in steps(child)] + own


def shortened(names: list[str]) -> str:
    """Steps in words, those that follow each other alike named once."""
    return ", ".join(one for i, one in enumerate(names) if i == 0 or names[i - 1] != one)


def costs(log: Path) -> tuple[dict[str, Cost], int]:
    """What each group of jobs did, and how many workers were lost, from the events of a session."""
    events = [json.loads(line) for line in log.read_text().splitlines()]
    found: dict[str, Cost] = {}
    of_stage: dict[int, tuple[str, str]] = {}
    plans = {str(event["executionId"]): event["sparkPlanInfo"] for event in events if "sparkPlanInfo" in event}
    counting = {one for event in events if "sparkPlanInfo" in event for one in accumulators(event["sparkPlanInfo"])}
    lost = 0
    for event in events:
        kind = event["Event"].rpartition(".")[2]
        if kind == "SparkListenerJobStart":
            group = event["Properties"].get("spark.jobGroup.id", "")
            query = event["Properties"].get("spark.sql.execution.root.id", "")
            of_stage |= {stage: (group, query) for stage in event["Stage IDs"] if stage not in of_stage}
        elif kind == "SparkListenerTaskEnd":
            group, query = of_stage[event["Stage ID"]]
            cost = found.setdefault(group, Cost())
            one = cost.queries.setdefault(query, Cost(steps=shortened(steps(plans[query])) if query in plans else ""))
            cost.failed += event["Task End Reason"]["Reason"] != "Success"
            for whole in (cost, one):
                whole.add(event.get("Task Metrics") or {})
            for read in event["Task Info"]["Accumulables"]:
                if read["ID"] in counting:
                    cost.scanned += int(read.get("Update", 0))
        elif kind == "SparkListenerExecutorRemoved":
            lost += 1
    return found, lost


@contextmanager
def ended_in_query(number: int, worker: subprocess.Popen[bytes], delay: float) -> Iterator[list[float]]:
    """End a worker that much after a query of that number has begun, and tell when."""
    import narwhals.stable.v2 as nw

    plain, asked, ended = nw.LazyFrame.collect, [0], list[float]()

    def end() -> None:
        worker.kill()
        ended.append(time.perf_counter())

    def collect(self: Any, *args: Any, **kwargs: Any) -> Any:
        asked[0] += 1
        if asked[0] == number:
            threading.Timer(delay, end).start()
        found = plain(self, *args, **kwargs)
        if asked[0] == number:
            assert ended, "the query was done before the worker was ended"
        return found

    nw.LazyFrame.collect = collect  # type: ignore[method-assign]
    try:
        yield ended
    finally:
        nw.LazyFrame.collect = plain  # type: ignore[method-assign]


@contextmanager
def nothing_kept() -> Iterator[None]:
    """Boards during which Spark keeps no columns."""
    plain = engine_pairs.keep
    engine_pairs.keep = lambda table, names: table
    try:
        yield
    finally:
        engine_pairs.keep = plain


def board(spark: SparkSession, log: DataFrame, name: str) -> tuple[Any, list[int]]:
    """Win rates, and the lines of every query; its jobs are named for the event log."""
    spark.sparkContext.setJobGroup(name, name)
    start = time.perf_counter()
    with cases.collected() as lines:
        results = er.win_rate(log, **ROLES)
    print(
        f"{name:12} {time.perf_counter() - start:6.1f} s at a load of {os.getloadavg()[1]:.1f}, {len(lines)} queries, "
        f"at most {max(lines):,} lines at once, "
        f"{sum(lines):,} in all",
        flush=True,
    )
    storage = spark.sparkContext._jsc.getPersistentRDDs()
    assert storage.size() == 0, f"{storage.size()} tables are still kept"
    return results, lines


def in_duckdb(folder: Path) -> Any:
    """The same board of the same files, whose sums by cluster DuckDB makes; its time of processor is told."""
    database = duckdb.connect()
    database.execute("SET threads = 1; SET memory_limit = '4GB'")
    start = time.process_time()
    found = er.win_rate(database.read_parquet(str(folder / "log" / "*.parquet")), **ROLES)
    print(f"{'DuckDB':12} {time.process_time() - start:6.1f} s of processor", flush=True)
    return found


def assert_equal(found: Any, expected: Any) -> float:
    """The same estimates, errors and counts; the largest relative difference of the errors."""
    np.testing.assert_allclose(found.params, expected.params, rtol=cases.SAME)
    np.testing.assert_allclose(found.cov_params(), expected.cov_params(), rtol=cases.SAME, atol=1e-16)
    np.testing.assert_allclose(found.dof, expected.dof, rtol=1e-8)
    assert (found.n_clusters, found.nobs) == (expected.n_clusters, expected.nobs)
    return float(np.max(np.abs(found.bse / expected.bse - 1)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    asked = parser.parse_args()
    cases.prepare()
    folder, n_rows = asked.folder, asked.rows
    port, page = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as running:
        running.enter_context(process(folder, "master", "--port", str(port), "--webui-port", str(page)))
        wait_for_workers(f"http://127.0.0.1:{page}", 0)
        options = ("--cores", "1", "--memory", "1g", "--webui-port", "0")
        workers = [
            running.enter_context(process(folder, name, *options, "--work-dir", str(folder / name), master))
            for name in ("first", "second")
        ]
        wait_for_workers(f"http://127.0.0.1:{page}", 2)
        spark = session(master, folder)
        heap = spark._jvm.java.lang.Runtime.getRuntime().maxMemory()
        assert heap <= 512 * 2**20, heap
        start = time.perf_counter()
        log = comparisons(spark, n_rows, str(folder / "log"))
        print(f"{n_rows:,} comparisons made in {time.perf_counter() - start:.1f} s", flush=True)
        board(spark, log.limit(20_000), "first")  # Java compiles as it goes.
        undisturbed, lines = board(spark, log, "kept")
        print(f"errors of DuckDB differ by {assert_equal(undisturbed, in_duckdb(folder)):.1e}", flush=True)
        if n_rows <= IN_MEMORY:
            with nothing_kept():
                again, _ = board(spark, log, "not kept")
            print(f"errors differ by {assert_equal(again, undisturbed):.1e}", flush=True)
        # The seventh query makes the products of the sums by prompt, the most work of all.
        with ended_in_query(7, workers[1], max(0.3, n_rows / 500_000)) as ended:
            disturbed, _ = board(spark, log, "worker lost")
        assert ended
        wait_for_workers(f"http://127.0.0.1:{page}", 1)
        print(f"errors differ by {assert_equal(disturbed, undisturbed):.1e}", flush=True)
        spark.stop()
    (events,) = (folder / "events").iterdir()
    found, lost = costs(events)
    for name, cost in found.items():
        if name:
            print(
                f"{name:12} {len(cost.queries)} queries, source read {cost.scanned / n_rows:.2f} times, "
                f"{cost.failed} tasks failed, {cost}"
            )
    for number, query in enumerate(found["kept"].queries.values(), 1):
        print(f"{number:4}. {query.steps}: {query}")
    assert lost >= 1, "no worker was lost"
    # No cluster comes to the driver: at most a line for each two pairs of models.
    pairs = MODELS * (MODELS - 1) // 2
    assert max(lines) <= pairs * (pairs + 1) // 2, lines
    assert found["kept"].scanned == n_rows, found["kept"].scanned
    if n_rows <= IN_MEMORY:
        # The pairs, and the lines of the joint clusters, which are kept nevertheless.
        assert found["not kept"].scanned == 2 * n_rows, found["not kept"].scanned
        held = er.win_rate(pd.read_parquet(folder / "log"), **ROLES)
        print(f"errors of pandas differ by {assert_equal(undisturbed, held):.1e}")


if __name__ == "__main__":
    main()
