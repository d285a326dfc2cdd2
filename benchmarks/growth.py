"""How the time of means and boards grows with rows, models and clusters, from a relation of DuckDB on one thread.

    python benchmarks/growth.py             seven sizes, and 320 models for means, some three minutes
    python benchmarks/growth.py --repeat 5  the least of five calls each; of three by default

Comparisons on a random schedule by 5 judges with text ids, as in `engines.py`. Seconds are those of a processor,
DuckDB's own included; reading the Parquet file is part of each call.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

from engines import MADE, SCORE, made_log

# Rows, models, prompts.
SIZES = [
    (250_000, 20, 2_500),
    (1_000_000, 20, 10_000),
    (4_000_000, 20, 40_000),
    (1_000_000, 20, 1_000),
    (1_000_000, 20, 100_000),
    (1_000_000, 5, 10_000),
    (1_000_000, 80, 10_000),
    (1_000_000, 320, 10_000),
]
# Boards of more models have more pairs than rows.
MOST_OF_BOARDS = 100


def least(call: Callable[[], Any], repeat: int) -> float:
    """The fewest seconds of processor of some calls."""
    seconds = []
    for _ in range(repeat):
        gc.collect()
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return min(seconds)


def main() -> None:
    """Print the table."""
    import duckdb

    import evalreg as er

    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    warnings.simplefilter("ignore")
    calls = [f"`{name}` by {by}" for name in ("mean", "win_rate", "bradley_terry") for by in ("prompt", "both")]
    print("| rows | models | prompts | " + " | ".join(calls) + " |")
    print("|---:" * (len(calls) + 3) + "|", flush=True)
    database = duckdb.connect()
    database.execute("SET threads = 1")
    with tempfile.TemporaryDirectory() as folder:
        for rows, models, prompts in SIZES:
            size = argparse.Namespace(rows=rows, clusters=prompts, memory="4GB")
            path = made_log(MADE, "duels", size, folder, models)
            duels = database.read_parquet(path)
            score = SCORE.removeprefix("sum(").removesuffix(")")
            answers = database.sql(f"SELECT prompt, judge, \"left\" AS model, {score} AS score FROM '{path}'")
            found = []
            for name, data, roles in (
                ("mean", answers, {"by": "model"}),
                ("win_rate", duels, {"left": "left", "right": "right", "winner": "winner"}),
                ("bradley_terry", duels, {"left": "left", "right": "right", "winner": "winner"}),
            ):
                for groups in ("prompt", "prompt + judge"):
                    if name != "mean" and models > MOST_OF_BOARDS:
                        found.append("")
                        continue
                    make = getattr(er, name)
                    seconds = least(lambda m=make, d=data, r=roles, g=groups: m(d, **r, groups=g), repeat)
                    found.append(f"{seconds:.2f}")
            print(f"| {rows:,} | {models} | {prompts:,} | " + " | ".join(found) + " |", flush=True)


if __name__ == "__main__":
    main()
