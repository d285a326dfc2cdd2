"""Time and memory of estimates whose rows stay in DuckDB, beside the engine's own grouped queries on the same file.

    python benchmarks/engines.py                     4e6 comparisons, clustered by prompt, and by prompt and judge
    python benchmarks/engines.py --means             4e6 comparisons, the score of each model on the left by prompt
    python benchmarks/engines.py --regressions       4e6 answers, regressed on factors and numbers with CR2 errors
    python benchmarks/engines.py --rows 100000000 --clusters 100000
                                                     more of them, in so many clusters; above 2e7 none is held in memory
    python benchmarks/engines.py --memory 2GB        the limit of DuckDB
    python benchmarks/engines.py --limit 4           a process whose peak passes so many GiB is killed
    python benchmarks/engines.py --folder FOLDER     where the log is kept, and found again
    python benchmarks/engines.py --case "prompt + judge"    one clustering or formula
    python benchmarks/engines.py --repeat 9          rounds of all contenders; 3 by default
    python benchmarks/engines.py --together          all in one process, for runs below a second

A random schedule of 20 models, 5 judges and 100 comparisons a prompt, with text ids, in a Parquet file that DuckDB
writes: its GROUP BY by prompt, judge and pair leaves nearly as many groups as there are rows. Each contender runs in a
process of its own; memory is the kernel's peak of that process, and what of it is more than it held before. Contenders
take turns: figures are medians of the rounds, and ratios are those of processor time to that of the floor in the same
round, with the least and the most; other work on the machine changes them less than the clock. The floor is the query
of the pairs and one for each clustering and intersection, each fetched as batches of Arrow; its memory is that of
DuckDB alone. The floor of means is the one query by prompt and model.

Of runs below a second a new process for each tells little: between one and the next the machine does other work, and a
first run pays for memory that its process never touched. With `--together` they take turns in one process, after a
round that is not counted; their memory is not told then.

Answers are of 3 models in clusters of 100 by text ids, with three numbers each; the floor of a regression is the one
query of what its covariance is made of, sums of squares and products of its columns by cluster, or counts and sums by
cluster and factor where there are no numbers. With squares two of its sums are there twice, as of tokens times tokens
and of their square, which `fit` asks for once; without these the floor would take 7% less.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from _measure import MIB, peak

Run = Callable[[], Any]

CLUSTERINGS = {"prompt": ["prompt"], "prompt + judge": ["prompt", "judge", "prompt, judge"]}
# Above, a log of text ids is not read into memory.
MOST_IN_MEMORY = 20_000_000

MADE = """
COPY (
  SELECT 'prompt-' || lpad((hash(i) % {prompts})::varchar, 7, '0') AS prompt,
         'judge-' || (hash(i + 77777777777) % 5)::varchar AS judge,
         'model-' || lpad(a::varchar, {width}, '0') AS "left",
         'model-' || lpad((b + (b >= a)::int)::varchar, {width}, '0') AS "right",
         CASE WHEN u < 4 THEN 'tie' WHEN u < 50 + b - a THEN 'left' ELSE 'right' END AS winner
  FROM (SELECT i, (hash(i * 3 + 1) % {models})::int AS a, (hash(i * 7 + 5) % ({models} - 1))::int AS b,
               (hash(i * 13 + 9) % 100)::int AS u
        FROM range({rows}) t(i))
) TO '{path}' (FORMAT parquet)
"""
SCORE = "sum(CASE winner WHEN 'left' THEN 1.0::double WHEN 'right' THEN 0.0::double ELSE 0.5::double END)"


ANSWERS = """
COPY (
  SELECT 'item-' || lpad((hash(i) % {prompts})::varchar, 7, '0') AS item,
         'model-' || (hash(i * 3 + 1) % 3)::varchar AS model,
         (hash(i * 7 + 5) % 1000) / 100.0 AS tokens,
         (hash(i * 11 + 3) % 500) / 50.0 AS words,
         (hash(i * 13 + 9) % 1000) / 1000.0 AS temperature,
         (hash(i * 17 + 2) % 1000) / 1000.0 + (hash(i) % {prompts}) % 10 / 10.0 AS score
  FROM range({rows}) t(i)
) TO '{path}' (FORMAT parquet)
"""
_FACTOR = ["(model = 'model-1')::double", "(model = 'model-2')::double"]
_NUMBERS = ["tokens", "words", "temperature"]
# Each regression has its columns beside the constant as the engine would make them.
REGRESSIONS = {
    "score ~ model + tokens + words + temperature": [*_FACTOR, *_NUMBERS],
    "score ~ tokens + words + temperature + I(tokens ** 2) + I(words ** 2)": [
        *_NUMBERS,
        "tokens * tokens",
        "words * words",
    ],
    "score ~ model": [],
}


def regress(what: str, formula: str, path: str, memory: str) -> Run:
    """What one contender of regressions does."""
    import duckdb

    import evalreg as er

    database = duckdb.connect()
    database.execute(f"SET threads = 1; SET memory_limit = '{memory}'")
    log = database.read_parquet(path)
    er.fit(formula, log.limit(20000), groups="item")  # imports
    columns = ["1.0::double", *REGRESSIONS[formula]]
    pairs = [f"sum(({a}) * ({b}))" for i, a in enumerate(columns) for b in columns[i:]]
    sums = (
        ", ".join([*pairs, *(f"sum(({a}) * score)" for a in columns)]) if len(columns) > 1 else "count(*), sum(score)"
    )
    keys = "item" if len(columns) > 1 else "item, model"
    if what == "floor":
        return lambda: drain(database.sql(f"SELECT {keys}, {sums} FROM '{path}' GROUP BY ALL"))
    return lambda: er.fit(formula, log.df() if what == "in memory" else log, groups="item")


def drain(query: Any) -> None:
    """Fetch what a query gives, batch by batch, and keep none of it."""
    for _ in query.to_arrow_reader():
        pass


def average(what: str, groups: str, path: str, memory: str) -> Run:
    """What one contender of means does."""
    import duckdb

    import evalreg as er

    database = duckdb.connect()
    database.execute(f"SET threads = 1; SET memory_limit = '{memory}'")
    columns = f'prompt, "left" AS model, {SCORE.removeprefix("sum(").removesuffix(")")} AS score'
    log = database.sql(f"SELECT {columns} FROM '{path}'")
    er.mean(log.limit(20000), by="model", groups=groups)  # imports
    if what == "floor":
        return lambda: drain(database.sql(f"SELECT {groups}, \"left\", count(*), {SCORE} FROM '{path}' GROUP BY ALL"))
    return lambda: er.mean(log.df() if what == "in memory" else log, by="model", groups=groups)


def contend(what: str, groups: str, path: str, memory: str) -> Run:
    """What one contender of boards does."""
    import duckdb

    import evalreg as er

    database = duckdb.connect()
    database.execute(f"SET threads = 1; SET memory_limit = '{memory}'")
    log = database.read_parquet(path)
    er.win_rate(log.limit(20000), left="left", right="right", winner="winner", groups=groups)  # imports
    if what == "floor":
        keys = ['"left", "right", winner', *(f'{by}, "left", "right"' for by in CLUSTERINGS[groups])]
        queries = [f"SELECT {one}, count(*), {SCORE} FROM '{path}' GROUP BY ALL" for one in keys]
        return lambda: [drain(database.sql(query)) for query in queries]
    board = er.bradley_terry if what == "bradley_terry" else er.win_rate
    roles = {"left": "left", "right": "right", "winner": "winner", "groups": groups}
    return lambda: board(log.df() if what == "in memory" else log, **roles)


def measured(run: Run) -> dict[str, float]:
    """Seconds and MiB of one run in this process, and the largest resident memory of the process."""

    def now() -> tuple[float, float, float]:
        return time.perf_counter(), time.process_time(), peak() / MIB

    began = now()
    run()
    seconds, processor, memory = (after - before for after, before in zip(now(), began, strict=True))
    return {"seconds": seconds, "processor": processor, "memory": memory, "peak": peak() / MIB}


KINDS = {
    "boards": (MADE, list(CLUSTERINGS), ("win_rate", "bradley_terry"), contend),
    "means": (MADE, ["prompt"], ("mean",), average),
    "regressions": (ANSWERS, list(REGRESSIONS), ("fit",), regress),
}


def with_children() -> float:
    """Peaks of this process and of those that it started, in MiB."""
    told = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parent = dict(map(int, line.split()) for line in told.splitlines())
    own = {os.getpid()}
    while more := {one for one, of in parent.items() if of in own} - own:
        own |= more
    return sum(peak(one) for one in own) / MIB


def report(command: list[str], limit: float) -> tuple[dict[str, float], str]:
    """What a process measured, or what it said when it failed; it is killed when its peak passes so many GiB."""
    # Not by RLIMIT_DATA, which counts what allocators reserve: 4 GiB of it ended boards that held 2.6.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while True:
        try:
            said, complaint = process.communicate(timeout=0.2)
            break
        except subprocess.TimeoutExpired:
            if limit and peak(process.pid) > limit * 1024 * MIB:
                process.kill()
    if process.returncode:
        return {}, (complaint.strip().splitlines() or [f"ended by signal {-process.returncode}"])[-1]
    return json.loads(said.splitlines()[-1]), ""


def made_log(made: str, name: str, asked: argparse.Namespace, folder: str, models: int = 20) -> str:
    """Path of the log in a folder, where DuckDB writes it unless it is there; answers are of 3 models."""
    import duckdb

    clusters = asked.clusters or asked.rows // 100
    path = Path(folder) / f"{name}-{asked.rows}-{clusters}{f'-{models}' if models != 20 else ''}.parquet"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        database = duckdb.connect()
        database.execute(f"SET threads = 1; SET memory_limit = '{asked.memory}'")
        size = {"rows": asked.rows, "prompts": clusters, "models": models, "width": len(str(models - 1))}
        database.execute(made.format(**size, path=unfinished))
        database.close()
        unfinished.rename(path)
    return str(path)


def figures(rounds: list[dict[str, float]], floors: list[dict[str, float]], together: bool = False) -> str:
    """Medians of the rounds of one contender, and of its processor time over that of the floor in the same round."""
    over = [one["processor"] / floor.get("processor", math.nan) for one, floor in zip(rounds, floors, strict=False)]
    seconds, processor, memory, peak = (
        statistics.median(one[name] for one in rounds) for name in ("seconds", "processor", "memory", "peak")
    )
    times = f"{seconds:.2f} | {processor:.2f} | {statistics.median(over):.2f} | {min(over):.2f} to {max(over):.2f}"
    return f"{times} | |" if together else f"{times} | {memory:.0f} | {peak:.0f}"


def in_turns(command: list[str], contenders: Sequence[str], case: list[str], asked: argparse.Namespace) -> list[str]:
    """A line for each contender, of as many rounds as are asked for; one that failed is not asked again."""
    rounds: dict[str, list[dict[str, float]]] = {what: [] for what in contenders}
    failed: dict[str, str] = {}
    for _ in range(asked.repeat):
        for what in contenders:
            if what not in failed:
                found, said = report([*command, what, *case], asked.limit)
                failed |= {what: said} if said else {}
                rounds[what].append(found)
    return [f"{what} | {failed.get(what) or figures(rounds[what], rounds['floor'])}" for what in contenders]


def together(prepare: Callable[..., Run], contenders: Sequence[str], case: str, path: str, asked: Any) -> list[str]:
    """A line for each contender, of rounds in which all take turns in this process, without the first."""
    runs = {what: prepare(what, case, path, asked.memory) for what in contenders}
    rounds = [{what: measured(run) for what, run in runs.items()} for _ in range(asked.repeat + 1)][1:]
    by_contender = {what: [one[what] for one in rounds] for what in contenders}
    return [f"{what} | {figures(by_contender[what], by_contender['floor'], True)}" for what in contenders]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--clusters", type=int, help="by default one for every 100 rows")
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--limit", type=float, default=0.0, help="GiB of a process, which is killed above them")
    parser.add_argument("--folder", help="keep the log there; by default in one that is removed afterwards")
    parser.add_argument("--case", help="one of the clusterings or formulas; all by default")
    for kind in ("means", "regressions"):
        parser.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind, default="boards")
    parser.add_argument("--repeat", type=int, default=3, help="rounds in which all contenders take turns")
    parser.add_argument("--together", action="store_true", help="in one process, after a round that is not counted")
    parser.add_argument("--contender", nargs=3)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    made, cases, contenders, prepare = KINDS[asked.kind]
    if asked.contender:
        print(json.dumps(measured(prepare(*asked.contender, asked.memory))))
        return
    option = [] if asked.kind == "boards" else [f"--{asked.kind}"]
    held = ("in memory",) if asked.rows <= MOST_IN_MEMORY else ()
    with tempfile.TemporaryDirectory() as temporary:
        path = made_log(made, "answers" if made is ANSWERS else "duels", asked, asked.folder or temporary)
        case = "formula" if asked.kind == "regressions" else "clusters"
        print(f"| {case} | contender | s | s of processor | over the floor | least to most | extra MiB | MiB in all |")
        print("|---|---|---:|---:|---:|---:|---:|---:|", flush=True)
        for one in [asked.case] if asked.case else cases:
            every = ("floor", *contenders, *held)
            if asked.together:
                lines = together(prepare, every, one, path, asked)
            else:
                command = [sys.executable, __file__, *option, "--memory", asked.memory, "--contender"]
                lines = in_turns(command, every, [one, path], asked)
            for line in lines:
                print(f"| {one} | {line} |", flush=True)


if __name__ == "__main__":
    main()
