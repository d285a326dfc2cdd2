"""Processor time and memory beside statsmodels, pyfixest, polars-reg, DuckDB and plain numpy: one table of cases.

Each case runs its contenders in one process, in turn, on the same data and with one thread; figures are medians of
processor seconds, their ratio to the reference, and the peak of memory beyond what was held before. A peer that is not
installed is left out and named.

    python benchmarks/speed.py                            everything
    python benchmarks/speed.py --only board --only mean   some cases
    python benchmarks/speed.py --scale 0.01 --repeat 1    a hundredth of the rows: does it run?
    python benchmarks/speed.py --growth                   exponents of time and memory over rows and models
"""

from __future__ import annotations

import os

# Before numpy is imported: more threads than free cores make small matrix products many times slower.
os.environ |= dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS", "POLARS_MAX_THREADS"), "1"
)

import argparse
import gc
import importlib.util
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import evalreg as er

MIB = 1 << 20
Run = Callable[[Any], Any]


@dataclass(frozen=True)
class Case:
    """A job and those who do it.

    Parameters
    ----------
    name, what : str
        For `--only`, and in words.
    make : callable
        The data, from a scale and a random generator; not timed.
    contenders : dict of str to callable
        Each does the job, up to standard errors and degrees of freedom.
    reference : str
        The contender that ratios are over.
    goals : dict of str to float
        The largest ratio that is wanted.
    needs : dict of str to str
        Modules of contenders that may be missing.
    """

    name: str
    what: str
    make: Callable[[float, np.random.Generator], Any]
    contenders: Mapping[str, Run]
    reference: str
    goals: Mapping[str, float] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)


# Data


def answers(n: int, n_models: int, n_clusters: int, n_values: int, rng: np.random.Generator) -> pd.DataFrame:
    """Scores of models in clusters, with a covariate of few values."""
    model, cluster = rng.integers(0, n_models, n), rng.integers(0, n_clusters, n)
    x = rng.integers(0, n_values, n) / n_values
    score = rng.random(n) + 0.1 * rng.random(n_clusters)[cluster] + 0.02 * model + 0.1 * x
    names = pd.Categorical.from_codes(model, [f"m{i:02d}" for i in range(n_models)])
    return pd.DataFrame({"score": score, "model": names, "cluster": cluster, "x": x})


def covariates(n: int, n_clusters: int, k: int, rng: np.random.Generator) -> pd.DataFrame:
    """A regression on k numbers, with clusters of unequal sizes."""
    cluster = np.minimum(rng.geometric(4 / n_clusters, n), n_clusters)
    columns = {f"x{i}": rng.normal(size=n) + 0.3 * rng.normal(size=n_clusters + 1)[cluster] for i in range(1, k + 1)}
    return pd.DataFrame({"cluster": cluster, **columns, "score": rng.normal(size=n)})


def duels(n: int, n_models: int, n_prompts: int, n_judges: int, rng: np.random.Generator) -> pd.DataFrame:
    """Comparisons on a random schedule."""
    left = rng.integers(0, n_models, n)
    right = (left + rng.integers(1, n_models, n)) % n_models
    names = np.array([f"m{i:04d}" for i in range(n_models)])
    columns = {
        "left": names[left],
        "right": names[right],
        "score": (rng.random(n) < 0.5 + 0.001 * (left - right)) * 1.0,
    }
    return pd.DataFrame({**columns, "prompt": rng.integers(0, n_prompts, n), "judge": rng.integers(0, n_judges, n)})


def in_parquet(frame: pd.DataFrame) -> Any:
    """The frame in a file that DuckDB reads with one thread."""
    import duckdb

    path = Path(tempfile.mkdtemp(prefix="speed-")) / "rows.parquet"
    frame.to_parquet(path, index=False)
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    return connection, connection.read_parquet(str(path))


# Contenders


def numbers(results: Any) -> Any:
    """What a reader asks for first."""
    return results.bse, results.dof


def fitted(formula: str, **options: Any) -> Run:
    """A regression by evalreg."""
    return lambda data: numbers(er.fit(formula, data, groups="cluster", **options))


def numpy_sums(data: pd.DataFrame) -> Any:
    """Sums of scores, rows and x by (cluster, model), which any clustered regression on the two has to make."""
    model, cluster = data["model"].cat.codes.to_numpy(), data["cluster"].to_numpy()
    code = cluster * 64 + model
    return [np.bincount(code, w) for w in (None, data["score"].to_numpy(), data["x"].to_numpy())]


def statsmodels_ols(formula: str) -> Run:
    """The same by statsmodels."""

    def run(data: pd.DataFrame) -> Any:
        import statsmodels.formula.api as smf

        return smf.ols(formula, data).fit(cov_type="cluster", cov_kwds={"groups": data["cluster"]}).bse

    return run


def pyfixest_ols(formula: str) -> Run:
    """The same by pyfixest."""

    def run(data: pd.DataFrame) -> Any:
        import pyfixest

        return pyfixest.feols(formula, data, vcov={"CRV1": "cluster"}).se()

    return run


def polars_reg_absorbed(data: pd.DataFrame) -> Any:
    """The same by polars-reg, from the frame of pandas that evalreg gets."""
    import polars as pl
    import polars_reg

    frame = pl.from_pandas(data)
    return polars_reg.ols("score ~ x | model", frame, vcov="cluster", cluster="cluster")


def group_by(keys: str, value: str = "score") -> Run:
    """One GROUP BY in DuckDB, its lines read as Arrow."""
    query = f"SELECT {keys}, count(*), sum({value}), sum({value} * {value}) FROM rows GROUP BY {keys} ORDER BY {keys}"

    def run(data: Any) -> Any:
        connection, rows = data
        connection.register("rows", rows)
        relation = connection.sql(query)
        reader = relation.to_arrow_reader if hasattr(relation, "to_arrow_reader") else relation.fetch_arrow_reader
        return sum(len(batch) for batch in reader(1 << 20))

    return run


def board(groups: str) -> Run:
    """Win rates in an engine."""
    return lambda data: numbers(er.win_rate(data[1], left="left", right="right", score="score", groups=groups))


SIDES: dict[str, Any] = {"left": "left", "right": "right", "score": "score", "groups": "prompt"}


def new_process(statement: str) -> Run:
    """A statement in a new process of Python, with the bytecode that an installation has."""
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}
    return lambda _: subprocess.run([sys.executable, "-c", statement], check=True, env=environment)


CASES = [
    Case(
        "factor",
        "score ~ C(model) + x, 20 models, x of 10 values, 20,000 clusters, 5e6 rows of pandas",
        lambda scale, rng: answers(int(5e6 * scale), 20, 20_000, 10, rng),
        {
            "numpy sums": numpy_sums,
            "CR1": fitted("score ~ C(model) + x", cov="CR1"),
            "CR2": fitted("score ~ C(model) + x"),
        },
        "numpy sums",
        {"CR1": 4, "CR2": 5},
    ),
    Case(
        "absorbed",
        "score ~ x | model, 1e6 rows",
        lambda scale, rng: answers(int(1e6 * scale), 20, 20_000, 1 << 20, rng),
        {
            "polars-reg": polars_reg_absorbed,
            "pyfixest": pyfixest_ols("score ~ x | model"),
            "CR1": fitted("score ~ x | model", cov="CR1"),
        },
        "polars-reg",
        {"CR1": 1.5},
        {"polars-reg": "polars_reg", "pyfixest": "pyfixest"},
    ),
    Case(
        "covariates",
        "5 covariates, 1e6 rows",
        lambda scale, rng: covariates(int(1e6 * scale), 10_000, 5, rng),
        {
            "statsmodels": statsmodels_ols("score ~ x1 + x2 + x3 + x4 + x5"),
            "CR1": fitted("score ~ x1 + x2 + x3 + x4 + x5", cov="CR1"),
            "CR2": fitted("score ~ x1 + x2 + x3 + x4 + x5"),
        },
        "statsmodels",
        {"CR1": 0.5, "CR2": 1.0},
    ),
    Case(
        "small",
        "score ~ x1, 500 rows",
        lambda _, rng: covariates(500, 50, 1, rng),
        {"statsmodels": statsmodels_ols("score ~ x1"), "CR2": fitted("score ~ x1"), "mean": fitted("score ~ 1")},
        "statsmodels",
        {"CR2": 1.0},
    ),
    Case(
        "mean",
        "a mean of 1e7 rows in Parquet by DuckDB, 20,000 clusters",
        lambda scale, rng: in_parquet(answers(int(1e7 * scale), 2, 20_000, 10, rng)),
        {"GROUP BY": group_by("cluster"), "CR2": lambda data: numbers(er.mean(data[1], groups="cluster"))},
        "GROUP BY",
        {"CR2": 1.3},
        {"GROUP BY": "duckdb", "CR2": "duckdb"},
    ),
    Case(
        "board",
        "win rates of 50 models, 1e7 comparisons, 200,000 prompts, 40 judges in Parquet by DuckDB",
        lambda scale, rng: in_parquet(duels(int(1e7 * scale), 50, int(2e5 * scale) + 1, 40, rng)),
        {
            "GROUP BY": group_by('prompt, least("left", "right"), greatest("left", "right")'),
            "prompt": board("prompt"),
            "prompt + judge": board("prompt + judge"),
        },
        "GROUP BY",
        {"prompt": 4, "prompt + judge": 6},
        {"GROUP BY": "duckdb", "prompt": "duckdb", "prompt + judge": "duckdb"},
    ),
    Case(
        "ratings",
        "ratings of 120 models, 60,000 comparisons on 1,500 prompts",
        lambda scale, rng: duels(int(6e4 * max(scale, 0.2)), 120, 1500, 3, rng),
        {
            "CR1": lambda data: numbers(er.bradley_terry(data, **SIDES, cov="CR1")),
            "CR2": lambda data: numbers(er.bradley_terry(data, **SIDES)),
        },
        "CR1",
        {"CR2": 3},
    ),
    Case(
        "ranks",
        "win rates with ranks of 500 and 1,000 models, 100 comparisons a model",
        lambda _, rng: [duels(100 * n // 2, n, n, 3, rng) for n in (500, 1000)],
        {f"{n} models": lambda data, i=i: er.win_rate(data[i], **SIDES).ranks() for i, n in enumerate((500, 1000))},
        "500 models",
    ),
    Case(
        "wild",
        "wild bootstrap of a slope, 5e4 rows in 60 clusters, 9,999 draws",
        lambda scale, rng: covariates(int(5e4 * scale) + 600, 60, 2, rng),
        {
            "CR2": fitted("score ~ x1 + x2"),
            "wild": lambda data: er.fit("score ~ x1 + x2", data, groups="cluster").wild_test("x1 = 0").p_value,
        },
        "CR2",
    ),
    Case(
        "import",
        "a new process",
        lambda _, rng: None,
        {
            "import pandas": new_process("import pandas"),
            "import evalreg": new_process("import evalreg"),
            "evalreg --version": new_process("from evalreg.cli import main; main.main(['--version'])"),
            "a first mean": new_process("import evalreg as er; er.mean(er.datasets.passages(), groups='passage').bse"),
        },
        "import pandas",
        {"evalreg --version": 0.5, "a first mean": 2.5},
    ),
]


# Measuring


def processor_seconds(run: Run, data: Any) -> float:
    """Seconds of the processor, those of processes that it starts included."""
    gc.collect()
    mine, children = time.process_time(), sum(os.times()[2:4])
    run(data)
    return time.process_time() - mine + sum(os.times()[2:4]) - children


def peak_beyond(run: Run, data: Any) -> float:
    """MiB that a call holds at most beyond what was held before (Linux; elsewhere NaN)."""
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = memory("VmRSS")
    run(data)
    return (memory("VmHWM") - before) / MIB


def memory(entry: str) -> int:
    """Bytes of this process under a name of the kernel."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(entry))


def measured(case: Case, scale: float, repeat: int) -> Iterator[str]:
    """Lines of the table of a case."""
    missing = [name for name, module in case.needs.items() if importlib.util.find_spec(module) is None]
    runs = {name: run for name, run in case.contenders.items() if name not in missing}
    data = case.make(scale, np.random.default_rng(7))
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for round_ in range(repeat + 1):  # the first warms up
        for name, run in runs.items():
            took = processor_seconds(run, data)
            if round_:
                seconds[name].append(took)
    yield f"{case.name}: {case.what}"
    base = statistics.median(seconds[case.reference]) if case.reference in seconds else float("nan")
    for name, run in runs.items():
        middle = statistics.median(seconds[name])
        goal = case.goals.get(name)
        verdict = "" if goal is None else f"  goal {goal:g}: {'met' if middle / base <= goal else 'NOT met'}"
        ends = f"{min(seconds[name]):.3f} to {max(seconds[name]):.3f}"
        held = peak_beyond(run, data)
        yield f"  {name:18} {middle:8.3f} s ({ends}) {middle / base:7.2f} times {held:7.0f} MiB{verdict}"
    for name in missing:
        yield f"  {name:18} not installed"


def growth(scale: float, repeat: int) -> Iterator[str]:
    """Exponents: time and memory as powers of rows (1e5 to 1e7) and of models (10 to 300)."""
    rng = np.random.default_rng(7)
    jobs: dict[str, tuple[list[int], Callable[[int], Any], Run]] = {
        "mean by model, rows": (
            [int(n * scale) for n in (1e5, 1e6, 1e7)],
            lambda n: answers(n, 10, n // 50, 10, rng),
            lambda data: numbers(er.mean(data, by="model", groups="cluster")),
        ),
        "win rates, models": (
            [10, 100, 300],
            lambda n: duels(int(3e5 * scale) + 20 * n, n, 2000, 5, rng),
            lambda data: numbers(er.win_rate(data, **SIDES)),
        ),
    }
    for name, (sizes, make, run) in jobs.items():
        figures = []
        for size in sizes:
            data = make(size)
            run(data)
            figures.append(
                (statistics.median(processor_seconds(run, data) for _ in range(repeat)), peak_beyond(run, data))
            )
        times, peaks = np.log(np.maximum(np.array(figures).T, 1e-3))
        exponents = [np.polyfit(np.log(sizes), values, 1)[0] for values in (times, peaks)]
        for size, (took, held) in zip(sizes, figures, strict=True):
            yield f"{name} {size:,}: {took:.3f} s, {held:.0f} MiB"
        yield f"  time grows with the power {exponents[0]:.2f}, memory with {exponents[1]:.2f}"


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[case.name for case in CASES], help="repeat for more")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows")
    parser.add_argument("--repeat", type=int, default=5, help="rounds")
    parser.add_argument("--growth", action="store_true", help="exponents only")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.growth:
        print(*growth(options.scale, options.repeat), sep="\n", flush=True)
        return
    for case in CASES:
        if options.only is None or case.name in options.only:
            began = time.perf_counter()
            print(*measured(case, options.scale, options.repeat), sep="\n")
            print(f"  ({time.perf_counter() - began:.0f} s in all)", flush=True)


if __name__ == "__main__":
    main()
