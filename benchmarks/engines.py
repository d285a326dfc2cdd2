"""Time and memory of boards whose comparisons stay in DuckDB, beside the engine's own grouped queries on the same file.

    python benchmarks/engines.py                     4e6 comparisons, clustered by prompt, and by prompt and judge
    python benchmarks/engines.py --rows 10000000     more of them
    python benchmarks/engines.py --memory 2GB        the limit of DuckDB

A random schedule of 20 models, 5 judges and 100 comparisons a prompt, with text ids, in a Parquet file that DuckDB
writes: its GROUP BY by prompt, judge and pair leaves nearly as many groups as there are rows. Each contender runs in a
process of its own; memory is the kernel's peak of that process less what it held before. The floor is the query of the
pairs and one for each clustering and intersection, each fetched as Arrow; its memory is that of DuckDB alone.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

CLUSTERINGS = {"prompt": ["prompt"], "prompt + judge": ["prompt", "judge", "prompt, judge"]}

MADE = """
COPY (
  SELECT 'prompt-' || lpad((hash(i) % {prompts})::varchar, 7, '0') AS prompt,
         'judge-' || (hash(i + 77777777777) % 5)::varchar AS judge,
         'model-' || lpad(a::varchar, 2, '0') AS "left",
         'model-' || lpad((b + (b >= a)::int)::varchar, 2, '0') AS "right",
         CASE WHEN u < 4 THEN 'tie' WHEN u < 50 + b - a THEN 'left' ELSE 'right' END AS winner
  FROM (SELECT i, (hash(i * 3 + 1) % 20)::int AS a, (hash(i * 7 + 5) % 19)::int AS b, (hash(i * 13 + 9) % 100)::int AS u
        FROM range({rows}) t(i))
) TO '{path}' (FORMAT parquet)
"""
SCORE = "sum(CASE winner WHEN 'left' THEN 1.0::double WHEN 'right' THEN 0.0::double ELSE 0.5::double END)"


def peak() -> int:
    """The largest resident memory so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def contend(what: str, groups: str, path: str, memory: str) -> dict[str, float]:
    """Seconds and MiB of one contender, in this process."""
    import duckdb

    import evalreg as er

    database = duckdb.connect()
    database.execute(f"SET threads = 1; SET memory_limit = '{memory}'")
    log = database.read_parquet(path)
    er.win_rate(log.limit(20000), left="left", right="right", winner="winner", groups=groups)  # imports
    before, start = peak(), time.perf_counter()
    if what == "floor":
        for keys in ['"left", "right", winner', *(f'{by}, "left", "right"' for by in CLUSTERINGS[groups])]:
            database.sql(f"SELECT {keys}, count(*), {SCORE} FROM '{path}' GROUP BY ALL").to_arrow_table()
    elif what == "in memory":
        er.win_rate(log.df(), left="left", right="right", winner="winner", groups=groups)
    else:
        board = er.bradley_terry if what == "bradley_terry" else er.win_rate
        board(log, left="left", right="right", winner="winner", groups=groups)
    return {"seconds": time.perf_counter() - start, "memory": peak() - before}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--contender", nargs=3)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.contender:
        print(json.dumps(contend(*asked.contender, asked.memory)))
        return
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "log.parquet")
        duckdb.sql(MADE.format(rows=asked.rows, prompts=asked.rows // 100, path=path))
        print("| clusters | contender | s | over the floor | extra MiB |\n|---|---|---:|---:|---:|")
        for groups in CLUSTERINGS:
            floor = 0.0
            for what in ("floor", "win_rate", "bradley_terry", "in memory"):
                command = [sys.executable, __file__, "--memory", asked.memory, "--contender", what, groups, path]
                run = subprocess.run(command, capture_output=True, text=True, check=True)
                found = json.loads(run.stdout.splitlines()[-1])
                floor = floor or found["seconds"]
                over = found["seconds"] / floor
                print(
                    f"| {groups} | {what} | {found['seconds']:.1f} | {over:.1f} | {found['memory']:.0f} |", flush=True
                )


if __name__ == "__main__":
    main()
