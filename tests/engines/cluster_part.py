"""A cluster of two workers on this machine, one of which is ended in the middle of a call: the numbers do not change.

    cluster_part.py FOLDER                             1,000,000 rows, every estimate
    cluster_part.py FOLDER --rows 10000000             more of them
    cluster_part.py FOLDER --only "win rates" ratios   some of the estimates

The master and the workers are those of pyspark's own distribution, each a process of its own on the loopback address; a
worker has one core and 1 GB, the driver 512 MB. Spark makes two logs itself, as Parquet. Comparisons are on a random
schedule of 20 models, 5 judges and 100 comparisons a prompt. Answers are those of 10 models, 4 each, to questions of
which 5 belong to a passage, in an order that has nothing to do with either.

Every estimate is made twice, and while it is made again a worker is ended in the middle of the query that took longest,
the last one apart; then another is started. What a call costs is read from Spark's event log: what each query does in
short, what it hands from worker to worker, and the processor it takes. The numbers are held against those of DuckDB on
the same files.
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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cases
import duckdb
import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import pyspark
import spark_part
from pyspark.sql import DataFrame, SparkSession, functions

import evalreg as er
from evalreg.covariance.summed_leverages import SummedProducts
from evalreg.data import engine_answers, engine_pairs

# Before `cases` makes it smaller.
TRIED = engine_answers.TRIED

MODELS, JUDGES, A_PROMPT = 20, 5, 100
SIDES = {"left": "left", "right": "right", "winner": "winner"}
ANSWERING, ANSWERS, A_PASSAGE, AUTHORS = 10, 4, 5, 40
QUESTIONS = {"by": "model", "item": "question", "sample": "attempt", "groups": "passage"}
# Win rates of at most so many rows are made again from pandas, and by Spark without keeping columns.
IN_MEMORY = 2_000_000


@dataclass(frozen=True)
class Call:
    """An estimate, the log it is made of, and how many lines may come to the driver at once, whatever the rows."""

    log: str
    make: Callable[[Any], Any]
    most: int


def two_of(n: int) -> int:
    """Lines of the products of n sums, for each two of them and for each with itself."""
    return n * (n + 1) // 2


PAIRS = two_of(MODELS - 1)
CALLS = {
    "win rates": Call("duels", lambda data: er.win_rate(data, **SIDES, groups="prompt + judge"), two_of(PAIRS)),
    # The number of clusters, squares of ratings, and what the degrees of freedom of CR2 are made of.
    "ratings": Call(
        "duels",
        lambda data: er.bradley_terry(data, **SIDES, groups="prompt + judge"),
        1 + MODELS**2 + SummedProducts.size(MODELS - 1),
    ),
    "means": Call("answers", lambda data: er.mean(data, by="model", groups="passage + author"), two_of(ANSWERING)),
    "ratios": Call(
        "answers", lambda data: er.ratio(data, "right", "words", by="model", groups="passage"), two_of(ANSWERING)
    ),
    # Whether the samples are of the same questions is tried on few.
    "pass@2": Call("answers", lambda data: er.pass_at_k(data, "right", k=2, **QUESTIONS), TRIED * ANSWERING * ANSWERS),
    "means of samples": Call("answers", lambda data: er.mean(data, **QUESTIONS), TRIED * ANSWERING * ANSWERS),
    "a regression": Call(
        "answers",
        lambda data: er.fit("score ~ subject + words + np.log(words)", data, groups="passage", cov="CR1"),
        two_of(6),
    ),
}


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


def wait_for_workers(page: str, n_workers: int, seconds: float = 600) -> None:
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


def drawn(salt: int, below: int, *of: str) -> Any:
    """A number from 0 on that looks drawn at random, the same for the same values of some columns."""
    return functions.pmod(functions.xxhash64(*(of or ("id",)), functions.lit(salt)), functions.lit(below))


def named(prefix: str, column: str, width: int) -> Any:
    """A text id from a number."""
    return functions.concat(functions.lit(prefix), functions.lpad(functions.col(column).cast("string"), width, "0"))


def comparisons(spark: SparkSession, n_rows: int) -> DataFrame:
    """Comparisons on a random schedule; winners depend on the models, on the prompt and on the judge."""
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
    return base.select(
        named("prompt-", "p", 7).alias("prompt"),
        named("judge-", "j", 1).alias("judge"),
        named("model-", "a", 2).alias("left"),
        named("model-", "b", 2).alias("right"),
        functions.when(u < 4, "tie").when(u < limit, "left").otherwise("right").alias("winner"),
    )


def answers(spark: SparkSession, n_rows: int) -> DataFrame:
    """Answers of models to questions, their scores and lengths; passages, authors and questions move both."""
    # A prime that divides no number of rows in use puts them into another order.
    at = functions.pmod(functions.col("id") * 1_000_003, functions.lit(n_rows))
    base = spark.range(0, n_rows, 1, 8).withColumn("at", at)
    base = base.select(
        "id",
        functions.pmod("at", functions.lit(ANSWERING)).alias("m"),
        functions.pmod(functions.floor(functions.col("at") / ANSWERING), functions.lit(ANSWERS)).alias("attempt"),
        functions.floor(functions.col("at") / (ANSWERING * ANSWERS)).alias("q"),
    )
    base = base.withColumn("p", functions.floor(functions.col("q") / A_PASSAGE)).withColumn(
        "a", drawn(11, AUTHORS, "q")
    )
    base = base.withColumn("s", drawn(12, 4, "p"))
    harder = drawn(13, 30, "p") + drawn(14, 20, "q", "m") + drawn(15, 10, "a", "m")
    base = base.withColumn("words", 20 + drawn(16, 200) + 10 * drawn(17, 30, "q") + 5 * functions.col("m"))
    points = 20 + 2 * functions.col("m") + drawn(18, 30) + harder - functions.col("words") / 50
    score = functions.greatest(functions.lit(0.0), functions.least(functions.lit(100.0), points)) / 100
    return base.select(
        named("model-", "m", 2).alias("model"),
        named("question-", "q", 8).alias("question"),
        named("passage-", "p", 7).alias("passage"),
        named("author-", "a", 2).alias("author"),
        named("subject-", "s", 1).alias("subject"),
        "attempt",
        "words",
        functions.round(score, 3).alias("score"),
        (score > 0.55).cast("int").alias("right"),
    )


LOGS = {"duels": comparisons, "answers": answers}


def made(spark: SparkSession, name: str, n_rows: int, folder: Path) -> DataFrame:
    """A log, which Spark has written in eight files of Parquet."""
    start = time.perf_counter()
    LOGS[name](spark, n_rows).write.parquet(str(folder / name))
    print(f"{n_rows:,} rows of {name} made in {time.perf_counter() - start:.1f} s", flush=True)
    return spark.read.parquet(str(folder / name))


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


@dataclass
class Asked:
    """The queries of a call: their lines and seconds, and which of them a worker was ended in."""

    lines: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)


@contextmanager
def watched(number: int = -1, worker: subprocess.Popen[bytes] | None = None, delay: float = 0.0) -> Iterator[Asked]:
    """Lines and seconds of the queries; a worker is ended so long after that query has begun, or at its end."""
    plain, asked = nw.LazyFrame.collect, Asked()

    def end() -> None:
        assert worker is not None
        worker.kill()
        asked.ended.append(len(asked.lines))

    def collect(self: Any, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        timer = threading.Timer(delay, end) if len(asked.lines) == number else None
        if timer is not None:
            timer.start()
        found = plain(self, *args, **kwargs)
        if timer is not None and not asked.ended:
            timer.cancel()
            end()
        asked.lines.append(len(found))
        asked.seconds.append(time.perf_counter() - start)
        return found

    nw.LazyFrame.collect = collect  # type: ignore[method-assign]
    try:
        yield asked
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


def estimate(spark: SparkSession, call: Call, log: DataFrame, name: str, **ending: Any) -> tuple[Any, Asked]:
    """An estimate, and the lines of every query; its jobs are named for the event log."""
    spark.sparkContext.setJobGroup(name, name)
    start = time.perf_counter()
    with watched(**ending) as asked:
        results = call.make(log)
    ended = f", a worker ended in query {asked.ended[0] + 1}" if asked.ended else ""
    print(
        f"{name}: {time.perf_counter() - start:.1f} s at a load of {os.getloadavg()[1]:.1f}, "
        f"{len(asked.lines)} queries, at most {max(asked.lines):,} lines at once, {sum(asked.lines):,} in all{ended}",
        flush=True,
    )
    storage = spark.sparkContext._jsc.getPersistentRDDs()
    assert storage.size() == 0, f"{storage.size()} tables are still kept"
    # No cluster comes to the driver: what comes is the same for any number of rows.
    assert max(asked.lines) <= call.most, (name, asked.lines)
    return results, asked


def in_duckdb(call: Call, folder: Path) -> Any:
    """The same estimate from the same files, whose sums by cluster DuckDB makes; its time of processor is told."""
    database = duckdb.connect()
    database.execute("SET threads = 1; SET memory_limit = '2GB'")
    start = time.process_time()
    found = call.make(database.read_parquet(str(folder / call.log / "*.parquet")))
    print(f"  DuckDB: {time.process_time() - start:.1f} s of processor", flush=True)
    return found


def assert_equal(found: Any, expected: Any) -> float:
    """The same estimates, errors and counts; the largest relative difference of the errors."""
    np.testing.assert_allclose(found.params, expected.params, rtol=cases.SAME)
    np.testing.assert_allclose(found.cov_params(), expected.cov_params(), rtol=cases.SAME, atol=1e-16)
    np.testing.assert_allclose(found.dof, expected.dof, rtol=1e-8)
    assert (found.n_clusters, found.nobs) == (expected.n_clusters, expected.nobs)
    return float(np.max(np.abs(found.bse / expected.bse - 1)))


@dataclass
class Cluster:
    """A master and two workers, which run with the block that they were started in."""

    folder: Path
    running: ExitStack
    port: int = field(default_factory=free_port)
    page: int = field(default_factory=free_port)
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    n_started: int = 0

    def __post_init__(self) -> None:
        ports = ("--port", str(self.port), "--webui-port", str(self.page))
        self.running.enter_context(process(self.folder, "master", *ports))
        self.wait(0)
        self.fill()

    @property
    def master(self) -> str:
        """Where the master listens."""
        return f"spark://127.0.0.1:{self.port}"

    def wait(self, n_workers: int) -> None:
        """Return when so many workers are alive."""
        wait_for_workers(f"http://127.0.0.1:{self.page}", n_workers)

    def fill(self) -> None:
        """Start workers until there are two."""
        options = ("--cores", "1", "--memory", "1g", "--webui-port", "0")
        while len(self.workers) < 2:
            self.n_started += 1
            name = f"worker{self.n_started}"
            own = (*options, "--work-dir", str(self.folder / name), self.master)
            self.workers.append(self.running.enter_context(process(self.folder, name, *own)))
        self.wait(2)


def check(spark: SparkSession, cluster: Cluster, name: str, log: DataFrame) -> None:
    """An estimate is that of DuckDB, and the same when a worker is ended in the middle of its longest query."""
    call = CALLS[name]
    undisturbed, asked = estimate(spark, call, log, name)
    print(f"  errors of DuckDB differ by {assert_equal(undisturbed, in_duckdb(call, cluster.folder)):.1e}", flush=True)
    # After the last one nothing that a worker holds is needed.
    longest = int(np.argmax(asked.seconds[:-1]))
    disturbed, again = estimate(
        spark,
        call,
        log,
        f"{name}, a worker lost",
        number=longest,
        worker=cluster.workers[-1],
        delay=asked.seconds[longest] / 2,
    )
    assert again.ended, "no worker was ended"
    print(f"  errors differ by {assert_equal(disturbed, undisturbed):.1e}", flush=True)
    cluster.workers.pop().wait()
    cluster.wait(1)
    cluster.fill()


def check_kept(spark: SparkSession, folder: Path, log: DataFrame) -> None:
    """Win rates without keeping columns, and those of pandas."""
    call = CALLS["win rates"]
    with nothing_kept():
        again, _ = estimate(spark, call, log, "win rates, not kept")
    held = call.make(pd.read_parquet(folder / "duels"))
    print(f"  errors of pandas differ by {assert_equal(again, held):.1e}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", nargs="+", choices=CALLS, default=list(CALLS))
    asked = parser.parse_args()
    cases.prepare()
    folder, n_rows = asked.folder, asked.rows
    with ExitStack() as running:
        cluster = Cluster(folder, running)
        spark = session(cluster.master, folder)
        heap = spark._jvm.java.lang.Runtime.getRuntime().maxMemory()
        assert heap <= 512 * 2**20, heap
        logs = {name: made(spark, name, n_rows, folder) for name in dict.fromkeys(CALLS[one].log for one in asked.only)}
        for name in asked.only:
            check(spark, cluster, name, logs[CALLS[name].log])
        not_kept = n_rows <= IN_MEMORY and "win rates" in asked.only
        if not_kept:
            check_kept(spark, folder, logs["duels"])
        spark.stop()
    (events,) = (folder / "events").iterdir()
    found, lost = costs(events)
    assert lost >= len(asked.only), "too few workers were lost"
    for name, cost in found.items():
        if not name:
            continue
        print(
            f"{name}: {len(cost.queries)} queries, source read {cost.scanned / n_rows:.2f} times, "
            f"{cost.failed} tasks failed, {cost}"
        )
        if name in CALLS:
            for number, query in enumerate(cost.queries.values(), 1):
                print(f"{number:4}. {query.steps}: {query}")
            assert cost.scanned == n_rows, cost.scanned
            again = found[f"{name}, a worker lost"]
            # A worker that had finished no task yet has one made again that failed with it.
            more = again.scanned + again.shuffled_rows - cost.scanned - cost.shuffled_rows
            assert again.failed > 0 or more > 0, f"{name}: nothing that the worker held was made again"
    if not_kept:
        # The pairs, and the lines of the joint clusters, which are kept nevertheless.
        assert found["win rates, not kept"].scanned == 2 * n_rows, found["win rates, not kept"].scanned


if __name__ == "__main__":
    main()
