"""What the Python processes of Spark's workers do for CR2, beside the whole estimate from an engine in this process.

    python benchmarks/spark.py                     1,000,000 rows of each log, half a minute

No Spark is needed: the sums by (cluster, cell) come from a polars LazyFrame, and what workers do with them, in batches
of 10,000 lines as Spark hands them over, is done here. Seconds are those of the processor, on one thread; the whole
estimate reads the rows, groups them, and has the same covariance. Memory is the peak of this process less what it held
before, the lines included in what it held; the most of all rounds.
"""

from __future__ import annotations

import argparse
import os
import pickle
import time
import warnings
from dataclasses import fields
from typing import Any

# Before polars and numpy start their threads.
os.environ |= {"POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from _measure import MIB, forget_peak, peak, resident

import evalreg as er
from evalreg.covariance.one_cluster import remaining
from evalreg.covariance.summed_leverages import Adjusting
from evalreg.data.engine_spark_sums import CELL
from evalreg.data.engine_spark_work import OnWorkers
from evalreg.scores.lazy_spark import ENTRIES, OfLines, SparkScores
from evalreg.scores.mapped import OfMapped

BATCH = 10_000


def regression(n_rows: int) -> Any:
    """Six coefficients, in clusters of 20 rows."""
    rng = np.random.default_rng(1)
    numbers = {name: rng.normal(size=n_rows) for name in ("tokens", "words", "temperature")}
    frame = {"item": rng.integers(0, n_rows // 20, n_rows), "model": rng.choice(["a", "b", "c"], n_rows), **numbers}
    frame["score"] = rng.normal(size=n_rows)
    return er.fit("score ~ model + tokens + words + temperature", pl.DataFrame(frame).lazy(), groups="item")


def ratings(n_rows: int) -> Any:
    """20 models on a random schedule, in clusters of 100 comparisons."""
    rng = np.random.default_rng(1)
    left = rng.integers(0, 20, n_rows)
    sides = {"left": left, "right": (left + rng.integers(1, 20, n_rows)) % 20}
    frame = {"item": rng.integers(0, n_rows // 100, n_rows), "score": rng.integers(0, 2, n_rows).astype(float)}
    frame |= {name: [f"model-{one:02d}" for one in side] for name, side in sides.items()}
    return er.bradley_terry(pl.DataFrame(frame).lazy(), left="left", right="right", score="score", groups="item")


def handed_over(results: Any) -> tuple[OnWorkers, list[Any]]:
    """What workers are sent, and the lines of the clusters as Spark has them."""
    estimate, (by,) = results.estimate, results.cov.axes
    inner = estimate.scores.inner
    (held,) = inner._query(by).held
    totals, weights = (np.asarray(one, dtype=float) for one in (held.totals, held.weights))
    names = [f"t{i}" for i in range(totals.shape[1])], [f"w{i}" for i in range(weights.shape[1])]
    lines = pd.DataFrame(np.column_stack([totals, weights]), columns=[*names[0], *names[1]])
    lines["__id0"] = [f"item-{one}" for one in held.of_entry]
    lines[CELL] = held.cell.astype(np.int32)
    own = {one.name: getattr(inner, one.name) for one in fields(inner)}
    bare = SparkScores(**own | {"table": None, "_queries": {}, "cell_codes": {}})
    mapped = {one.name: getattr(estimate.scores, one.name) for one in fields(estimate.scores) if one.name != "inner"}
    rest = remaining(estimate, None)
    work = Adjusting(by, rest.root, rest.bread, 0.5, True)
    on_lines = OfLines(by, bare, tuple(names[0]), tuple(names[1]), OfMapped(work, mapped))
    job = OnWorkers(("__id0",), (CELL, *names[0], *names[1]), ENTRIES // work.n_entries, on_lines)
    return job, pa.Table.from_pandas(lines, preserve_index=False).to_batches(max_chunksize=BATCH)


def main() -> None:
    """Print seconds of the processor, their ratio, memory and bytes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| estimate | lines | sums | bytes sent to workers | estimate, s | work, s | ratio | extra MiB of the work |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for make in (regression, ratings):
        whole, spent, extra = [], [], 0.0
        for _ in range(asked.repeat):
            began = time.process_time()
            results = make(asked.rows)
            whole.append(time.process_time() - began)
            job, batches = handed_over(results)
            forget_peak()
            before, began = resident(), time.process_time()
            (made,) = job(iter(batches))
            spent.append(time.process_time() - began)
            extra = max(extra, (peak() - before) / MIB)
        n_lines, sent = sum(one.num_rows for one in batches), len(pickle.dumps(job))
        ours, all_ = float(np.median(spent)), float(np.median(whole))
        row = f"{made.num_rows - 1:,} | {sent:,} | {all_:.2f} | {ours:.2f} | {ours / all_:.2f} | {extra:.0f}"
        print(f"| {make.__doc__.split(',')[0]} | {n_lines:,} | {row} |", flush=True)


if __name__ == "__main__":
    main()
