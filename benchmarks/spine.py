"""Time and memory of `fit` and `covariance` beside statsmodels, pyfixest, linearmodels and plain numpy.

Every case runs its contenders in one process, in turn, on the same data, with one BLAS thread; the figures are medians.
Each contender computes its estimates up to standard errors and intervals, and prints nothing.

    python benchmarks/spine.py                        everything
    python benchmarks/spine.py --quick                a tenth of the rows, few repetitions: does it run?
    python benchmarks/spine.py --only mean-str        one case (repeat the option for more)
    python benchmarks/spine.py --repeat 21            more repetitions
"""

from __future__ import annotations

import os

# Before numpy is imported: more threads than free cores make small matrix products many times slower.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["RAYON_NUM_THREADS"] = "1"

import argparse
import importlib.util
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _measure import (
    MIB,
    Contender,
    Target,
    fresh_process,
    interleaved,
    peak,
    peak_of,
    process_seconds,
    table,
    verdict,
)
from scipy import stats

import evalreg as er

COVARIATES = ("x1", "x2", "x3", "x4", "x5")
FORMULA = "score ~ x1 + x2 + x3 + x4 + x5"
MOST_MEMORY = 3 << 30
IMPORT_BOUND = 1.3
# Sums of 1e6 terms in different orders, squared and differenced under crossed clusterings.
SAME = 1e-6
IMPORT_PEERS = "import pandas, scipy.sparse, narwhals"


# Data


def log(n_rows: int, n_clusters: int, ids: str, *, n_judges: int = 0, covariates: bool = False) -> pd.DataFrame:
    """0/1 scores whose rows depend within clusters, in random order.

    Parameters
    ----------
    n_rows, n_clusters : int
        Size.
    ids : {"str", "object", "int"}
        Type of the cluster ids in column "g": pandas' default for text, Python strings, or integers.
    n_judges : int, optional
        Adds a crossed column "h" of the same type.
    covariates : bool, optional
        Adds five numeric covariates.

    Returns
    -------
    DataFrame
        Columns score, g, and those asked for.
    """
    rng = np.random.default_rng(20240607)
    codes = rng.integers(0, n_clusters, n_rows)
    chance = rng.beta(2, 2, n_clusters)
    columns: dict[str, Any] = {"score": (rng.random(n_rows) < chance[codes]).astype(float)}
    columns["g"] = _ids("passage", codes, n_clusters, ids)
    if n_judges:
        columns["h"] = _ids("judge", rng.integers(0, n_judges, n_rows), n_judges, ids)
    if covariates:
        columns |= {name: rng.standard_normal(n_rows) for name in COVARIATES}
    return pd.DataFrame(columns)


def _ids(what: str, codes: Any, n_clusters: int, ids: str) -> Any:
    if ids == "int":
        return codes
    names = [f"{what}-{code:07d}" for code in range(n_clusters)]
    # Each row's string is taken from the few distinct ones, so that making the column needs little memory.
    return pd.array(names, dtype="str" if ids == "str" else object).take(codes)


# Contenders


def floor_mean(frame: pd.DataFrame, alpha: float = 0.05) -> tuple[float, float, float]:
    """CR1 of a mean in the fewest passes over the rows: no checks, no missing values, one cell."""
    codes, labels = pd.factorize(frame["g"])
    score = frame["score"].to_numpy()
    mean = score.mean()
    totals = np.bincount(codes, score - mean)
    n_clusters = len(labels)
    se = np.sqrt(totals @ totals * n_clusters / (n_clusters - 1)) / score.size
    half = stats.t.ppf(1 - alpha / 2, n_clusters - 1) * se
    return se, mean - half, mean + half


def floor_crossed(frame: pd.DataFrame, alpha: float = 0.05) -> tuple[float, float, float]:
    """CR1 of a mean under two crossed clusterings, by inclusion-exclusion."""
    g, g_labels = pd.factorize(frame["g"])
    h, h_labels = pd.factorize(frame["h"])
    both, both_labels = pd.factorize(g * len(h_labels) + h)
    score = frame["score"].to_numpy()
    mean = score.mean()
    residual = score - mean
    variance = 0.0
    for codes, n_clusters, sign in ((g, len(g_labels), 1), (h, len(h_labels), 1), (both, len(both_labels), -1)):
        totals = np.bincount(codes, residual)
        variance += sign * (totals @ totals) * n_clusters / (n_clusters - 1)
    se = np.sqrt(variance) / score.size
    half = stats.t.ppf(1 - alpha / 2, min(len(g_labels), len(h_labels)) - 1) * se
    return se, mean - half, mean + half


def floor_regression(frame: pd.DataFrame, alpha: float = 0.05) -> tuple[Any, Any, Any]:
    """Least squares and CR1 by the normal equations."""
    codes, labels = pd.factorize(frame["g"])
    score = frame["score"].to_numpy()
    X = np.column_stack([np.ones(score.size), *(frame[name].to_numpy() for name in COVARIATES)])
    bread = np.linalg.inv(X.T @ X)
    params = bread @ (X.T @ score)
    residual = score - X @ params
    totals = np.column_stack([np.bincount(codes, column * residual) for column in X.T])
    n_rows, n_coefficients = X.shape
    n_clusters = len(labels)
    factor = n_clusters / (n_clusters - 1) * (n_rows - 1) / (n_rows - n_coefficients)
    se = np.sqrt(factor * np.diag(bread @ (totals.T @ totals) @ bread))
    half = stats.t.ppf(1 - alpha / 2, n_clusters - 1) * se
    return se, params - half, params + half


def evalreg_fit(formula: str, frame: pd.DataFrame, groups: str, cov: Any = None) -> tuple[Any, Any]:
    """Standard errors and intervals by evalreg."""
    results = er.fit(formula, frame, groups=groups, cov=cov)
    return results.bse, results.conf_int()


def statsmodels_fit(formula: str, frame: pd.DataFrame, groups: list[str]) -> tuple[Any, Any]:
    """Standard errors and intervals by statsmodels, which wants integers for crossed clusterings."""
    import statsmodels.formula.api as smf

    ids = frame[groups[0]] if len(groups) == 1 else frame[groups].to_numpy()
    results = smf.ols(formula, frame).fit(cov_type="cluster", cov_kwds={"groups": ids}, use_t=True)
    return results.bse, results.conf_int()


def pyfixest_fit(formula: str, frame: pd.DataFrame, groups: str) -> tuple[Any, Any]:
    """Standard errors and intervals by pyfixest."""
    import pyfixest

    results = pyfixest.feols(formula, data=frame, vcov={"CRV1": groups})
    return results.se(), results.confint()


def linearmodels_fit(frame: pd.DataFrame) -> tuple[Any, Any]:
    """Standard errors and intervals by linearmodels, whose clusters are numbers."""
    from linearmodels.iv import IV2SLS

    ids = frame["g"] if frame["g"].dtype.kind == "i" else pd.Series(pd.factorize(frame["g"])[0], index=frame.index)
    results = IV2SLS.from_formula(FORMULA.replace("~", "~ 1 +"), frame).fit(cov_type="clustered", clusters=ids)
    return results.std_errors, results.conf_int()


# Cases


@dataclass(frozen=True)
class Case:
    """Contenders on the same data.

    Parameters
    ----------
    title : str
        What is computed, on what.
    build : callable
        Takes a divisor of the number of rows; returns the contenders.
    reference : str
        Contender that the quotients are over.
    targets : tuple of Target
        What the project promises.
    alike : tuple of str
        Contenders whose standard errors are the same number; a case with others would compare different things.
    repeat : int
        Rounds, unless the command line says otherwise.
    """

    title: str
    build: Callable[[int], dict[str, Contender]]
    reference: str
    targets: tuple[Target, ...] = ()
    alike: tuple[str, ...] = ("floor", "evalreg CR1", "statsmodels")
    repeat: int = 11


def _on(frame: pd.DataFrame, run: Callable[[pd.DataFrame], Any]) -> Contender:
    return Contender(run, lambda: frame)


def build_mean(ids: str, divisor: int) -> dict[str, Contender]:
    """One-way clustered mean of 1e6 rows in 5e4 clusters."""
    frame = log(1_000_000 // divisor, 50_000 // divisor, ids)
    return {
        "floor": _on(frame, floor_mean),
        "evalreg": _on(frame, lambda data: evalreg_fit("score ~ 1", data, "g")),
        "evalreg CR1": _on(frame, lambda data: evalreg_fit("score ~ 1", data, "g", "CR1")),
        "statsmodels": _on(frame, lambda data: statsmodels_fit("score ~ 1", data, ["g"])),
        "pyfixest": _on(frame, lambda data: pyfixest_fit("score ~ 1", data, "g")),
    }


def build_crossed(divisor: int) -> dict[str, Contender]:
    """Mean of 1e6 rows under two crossed clusterings."""
    frame = log(1_000_000 // divisor, 50_000 // divisor, "int", n_judges=200)
    return {
        "floor": _on(frame, floor_crossed),
        "evalreg": _on(frame, lambda data: evalreg_fit("score ~ 1", data, "g + h")),
        "evalreg CR1": _on(frame, lambda data: evalreg_fit("score ~ 1", data, "g + h", "CR1")),
        "statsmodels": _on(frame, lambda data: statsmodels_fit("score ~ 1", data, ["g", "h"])),
        "pyfixest": _on(frame, lambda data: pyfixest_fit("score ~ 1", data, "g + h")),
    }


def build_regression(ids: str, divisor: int) -> dict[str, Contender]:
    """Regression of 1e6 rows on five covariates."""
    frame = log(1_000_000 // divisor, 50_000 // divisor, ids, covariates=True)
    return {
        "floor": _on(frame, floor_regression),
        "evalreg CR1": _on(frame, lambda data: evalreg_fit(FORMULA, data, "g", "CR1")),
        "evalreg CR2": _on(frame, lambda data: evalreg_fit(FORMULA, data, "g")),
        "statsmodels": _on(frame, lambda data: statsmodels_fit(FORMULA, data, ["g"])),
        "pyfixest": _on(frame, lambda data: pyfixest_fit(FORMULA, data, "g")),
        "linearmodels": _on(frame, linearmodels_fit),
    }


def build_covariance(divisor: int) -> dict[str, Contender]:
    """CR2 and its degrees of freedom for an estimate that is already there."""
    frame = log(100_000 // divisor, 1000 // divisor, "int", covariates=True)

    def clustered(estimate: er.Estimate) -> tuple[Any, Any]:
        cov = er.covariance(estimate, "g")
        return cov.variance(), cov.dof()

    return {
        "evalreg CR2": Contender(clustered, lambda: er.fit(FORMULA, frame).estimate),
        "evalreg CR1": Contender(
            lambda estimate: er.covariance(estimate, "g", cov="CR1").variance(),
            lambda: er.fit(FORMULA, frame).estimate,
        ),
    }


CASES = {
    "mean-str": Case(
        "mean, one-way, 1e6 rows, 5e4 clusters, ids of pandas' str dtype",
        lambda divisor: build_mean("str", divisor),
        "floor",
        (Target("evalreg", 3.0, "floor"),),
    ),
    "mean-object": Case(
        "mean, one-way, 1e6 rows, 5e4 clusters, ids as Python strings (object dtype)",
        lambda divisor: build_mean("object", divisor),
        "floor",
        (Target("evalreg", 3.0, "floor"),),
    ),
    "mean-int": Case(
        "mean, one-way, 1e6 rows, 5e4 clusters, integer ids",
        lambda divisor: build_mean("int", divisor),
        "floor",
        (Target("evalreg", 2.5, "floor"),),
        repeat=15,
    ),
    "crossed-int": Case(
        "mean, two-way, 1e6 rows, 5e4 x 200 clusters, integer ids",
        build_crossed,
        "floor",
        (Target("evalreg", 4.0, "floor"),),
        repeat=9,
    ),
    "regression-str": Case(
        "5 covariates, one-way, 1e6 rows, 5e4 clusters, ids of pandas' str dtype",
        lambda divisor: build_regression("str", divisor),
        "statsmodels",
        (
            Target("evalreg CR1", 0.25, "statsmodels"),
            Target("evalreg CR1", 1.0, "pyfixest"),
            Target("evalreg CR2", 2.0, "evalreg CR1"),
        ),
        repeat=7,
    ),
    "regression-int": Case(
        "5 covariates, one-way, 1e6 rows, 5e4 clusters, integer ids",
        lambda divisor: build_regression("int", divisor),
        "statsmodels",
        (
            Target("evalreg CR1", 0.8, "statsmodels"),
            Target("evalreg CR1", 1.0, "pyfixest"),
            Target("evalreg CR2", 2.0, "evalreg CR1"),
        ),
        repeat=9,
    ),
    "covariance": Case(
        "covariance and degrees of freedom alone: 5 covariates, 1e5 rows, 1000 clusters",
        build_covariance,
        "evalreg CR1",
        (Target("evalreg CR2", 0.1),),
        alike=(),
        repeat=15,
    ),
}


def run_case(name: str, divisor: int, repeat: int | None, memory: bool) -> None:
    """Time a case, weigh it in fresh processes, and print its table."""
    case = CASES[name]
    contenders = {key: one for key, one in case.build(divisor).items() if _installed(key)}
    _check_alike({key: contenders[key] for key in case.alike})
    seconds = interleaved(contenders, repeat or case.repeat)
    peaks = {}
    if memory:
        here = str(Path(__file__).resolve())
        peaks = {key: fresh_process([here, "--weigh", name, key, str(divisor)]) for key in contenders}
    print(f"\n{name}: {case.title}{'' if divisor == 1 else f' (rows and clusters divided by {divisor})'}")
    print(table(seconds, case.reference, peaks))
    for target in case.targets:
        if target.name in seconds and target.over in (None, *seconds):
            print(verdict(seconds, target))


def _check_alike(contenders: Mapping[str, Contender]) -> None:
    errors = {name: np.atleast_1d(one.run(one.prepare())[0]) for name, one in contenders.items()}
    for name, se in errors.items():
        first = next(iter(errors.values()))
        if not np.allclose(se, first, rtol=SAME):
            raise SystemExit(f"{name} computes {se}, not {first}: there is nothing to compare")


def _installed(contender: str) -> bool:
    package = contender.split()[0]
    return package == "floor" or importlib.util.find_spec(package) is not None


def weigh(name: str, contender: str, divisor: int) -> dict[str, int]:
    """Peak memory of one contender in this process, after a small call that imports what it needs."""
    small = CASES[name].build(100)[contender]
    small.run(small.prepare())
    return peak_of(CASES[name].build(divisor)[contender])


def run_memory(divisor: int, repeat: int | None) -> None:
    """Peak memory of a mean of 1e7 rows, the frame included, in a fresh process."""
    held = fresh_process([str(Path(__file__).resolve()), "--weigh-large", str(divisor)])
    print(f"\nmemory: mean, one-way, {10_000_000 // divisor} rows, ids of pandas' str dtype, in a process of its own")
    print(f"  frame {held['frame'] / MIB:.0f} MiB; peak of the call {held['extra'] / MIB:.0f} MiB beyond it")
    print(f"  peak in all, making the frame included: {held['total'] / MIB:.0f} MiB")
    met = "met" if held["total"] <= MOST_MEMORY else "NOT MET"
    print(f"  target: at most {MOST_MEMORY / MIB:.0f} MiB: {met}")


def weigh_large(divisor: int) -> dict[str, int]:
    """Peak memory of this process over making the frame and the fit."""
    frame = log(10_000_000 // divisor, 500_000 // divisor, "str")
    made = peak()
    call = peak_of(_on(frame, lambda data: evalreg_fit("score ~ 1", data, "g")))
    return {
        "frame": int(frame.memory_usage(deep=True).sum()),
        "extra": call["extra"],
        "total": max(made, call["total"]),
    }


def run_import(divisor: int, repeat: int | None) -> None:
    """Time of `import evalreg` beside its dependencies alone, each in fresh processes."""
    statements = {"import evalreg": "import evalreg", "dependencies": IMPORT_PEERS}
    seconds: dict[str, list[float]] = {name: [] for name in statements}
    with tempfile.TemporaryDirectory() as bytecode:
        for counted in range(-1, repeat or 11):
            for name, statement in statements.items():
                elapsed = process_seconds(statement, bytecode)
                if counted >= 0:
                    seconds[name].append(elapsed)
    print(f"\nimport: import evalreg, beside {IMPORT_PEERS}")
    print(table(seconds, "dependencies", {}))
    print(verdict(seconds, Target("import evalreg", IMPORT_BOUND, "dependencies")))


OTHERS: Mapping[str, Callable[[int, int | None], None]] = {"memory": run_memory, "import": run_import}


def arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description="Time and memory of evalreg beside its peers.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows and three repetitions")
    parser.add_argument("--only", action="append", choices=[*CASES, *OTHERS], help="one case; may be repeated")
    parser.add_argument("--repeat", type=int, help="rounds of each case")
    parser.add_argument("--no-memory", action="store_true", help="leave out the fresh processes that weigh memory")
    parser.add_argument("--weigh", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--weigh-large", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Run the cases asked for."""
    warnings.simplefilter("ignore")
    options = arguments()
    if options.weigh:
        print(json.dumps(weigh(options.weigh[0], options.weigh[1], int(options.weigh[2]))))
        return
    if options.weigh_large:
        print(json.dumps(weigh_large(options.weigh_large)))
        return
    divisor, repeat = (10, options.repeat or 3) if options.quick else (1, options.repeat)
    print(f"Python {sys.version.split()[0]}, " + ", ".join(f"{name} {_version(name)}" for name in PACKAGES))
    for name in options.only or [*CASES, *OTHERS]:
        if name in CASES:
            run_case(name, divisor, repeat, not options.no_memory)
        else:
            OTHERS[name](divisor, repeat)


PACKAGES = ("numpy", "scipy", "pandas", "statsmodels", "pyfixest", "linearmodels")


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    main()
