"""Time and memory of the wild cluster bootstrap beside pyfixest, and of the cluster bootstrap from cluster sums.

Every case runs its contenders in one process, in turn, on the same fitted model, with one BLAS thread; the figures are
medians. evalreg's time holds the test and its interval; pyfixest's the test alone, which it hands to wildboottest.

    python benchmarks/wild.py                       everything
    python benchmarks/wild.py --quick               a tenth of the rows, few repetitions: does it run?
    python benchmarks/wild.py --only clusters-500   one case (repeat the option for more)
    python benchmarks/wild.py --repeat 21           more repetitions
"""

from __future__ import annotations

import os

# Before numpy is imported: more threads than free cores make small matrix products many times slower.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["NUMBA_NUM_THREADS"] = "1"

import argparse
import importlib.util
import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _measure import Contender, Target, fresh_process, interleaved, peak_of, table, verdict

import evalreg as er

DRAWS = 9999
FORMULA = "score ~ x1 + x2 + x3 + x4 + x5"
PACKAGES = ("numpy", "scipy", "pandas", "pyfixest", "wildboottest", "evalica")


def log(n_rows: int, n_clusters: int) -> pd.DataFrame:
    """0/1 scores whose rows depend within clusters, in random order, with five covariates.

    Parameters
    ----------
    n_rows, n_clusters : int
        Size.

    Returns
    -------
    DataFrame
        Columns score, g and x1 to x5; x1 depends within clusters too.
    """
    rng = np.random.default_rng(20240607)
    codes = rng.integers(0, n_clusters, n_rows)
    chance = rng.beta(2, 2, n_clusters)
    columns: dict[str, Any] = {"score": (rng.random(n_rows) < chance[codes]).astype(float), "g": codes}
    columns |= {f"x{i}": rng.standard_normal(n_rows) for i in range(1, 6)}
    columns["x1"] = columns["x1"] + rng.standard_normal(n_clusters)[codes]
    return pd.DataFrame(columns)


def board(n_questions: int, n_models: int, n_clusters: int) -> pd.DataFrame:
    """Every model's 0/1 answer to every question.

    Parameters
    ----------
    n_questions, n_models, n_clusters : int
        Size; questions are spread evenly over clusters.

    Returns
    -------
    DataFrame
        Columns model, question, g and score.
    """
    rng = np.random.default_rng(20240607)
    question = np.repeat(np.arange(n_questions), n_models)
    names = np.array([f"model-{i:02}" for i in range(n_models)])
    easy = rng.beta(2, 2, n_questions)[question]
    return pd.DataFrame(
        {
            "model": np.tile(names, n_questions),
            "question": question,
            "g": question % n_clusters,
            "score": (rng.random(question.size) < easy).astype(float),
        }
    )


def evalreg_wild(results: er.Results) -> tuple[float, float]:
    """Statistic and p-value by evalreg, which computes the interval too."""
    test = results.wild_test("x1 = 0", draws=DRAWS, weights="rademacher")
    return test.statistic, test.p_value


def pyfixest_wild(fitted: Any) -> tuple[float, float]:
    """Statistic and p-value by pyfixest."""
    found = fitted.wildboottest(param="x1", reps=DRAWS, weights_type="rademacher", impose_null=True, seed=1)
    return float(found["t value"]), float(found["Pr(>|t|)"])


def fit_pyfixest(frame: pd.DataFrame) -> Any:
    """The same regression by pyfixest."""
    import pyfixest

    return pyfixest.feols(FORMULA, data=frame, vcov={"CRV1": "g"})


def build_wild(n_clusters: int, divisor: int) -> dict[str, Contender]:
    """One coefficient of a regression of 1e5 rows on five covariates."""
    frame = log(100_000 // divisor, n_clusters)
    results = er.fit(FORMULA, frame, groups="g")
    contenders = {"evalreg": Contender(evalreg_wild, lambda: results)}
    if _installed("pyfixest") and _installed("wildboottest"):
        fitted = fit_pyfixest(frame)
        contenders["pyfixest"] = Contender(pyfixest_wild, lambda: fitted)
    return contenders


def build_bootstrap(n_clusters: int, divisor: int) -> dict[str, Contender]:
    """Means of 20 models over 10,000 questions, 2,000 draws."""
    frame = board(10_000 // divisor, 20, n_clusters // divisor)
    results = er.mean(frame, by="model", item="question", groups="g")

    def draw(kind: Any) -> Contender:
        return Contender(lambda one: one.bootstrap(draws=2000, kind=kind).conf_int(), lambda: results)

    return {f"evalreg {kind}": draw(kind) for kind in ("percentile", "bca", "studentized")}


FEW_DRAWS = 20


def evalica_draws(frame: pd.DataFrame) -> Any:
    """Ratings by evalica of a few draws of prompts, each from its rows."""
    import evalica

    rng, rows = np.random.default_rng(1), frame.groupby("prompt").indices
    prompts, verdicts = list(rows), {"left": evalica.Winner.X, "tie": evalica.Winner.Draw, "right": evalica.Winner.Y}
    found = []
    for _ in range(FEW_DRAWS):
        taken = np.concatenate([rows[prompts[one]] for one in rng.integers(0, len(prompts), len(prompts))])
        drawn = frame.iloc[taken]
        winners = [verdicts[verdict] for verdict in drawn["winner"]]
        found.append(np.log(evalica.bradley_terry(drawn["left"], drawn["right"], winners, tolerance=1e-8).scores))
    return found


def build_board(n_prompts: int) -> dict[str, Contender]:
    """A board of 20 models, all pairs on every prompt, 2,000 draws of prompts."""
    frame = er.datasets.judge_log(n_models=20, n_prompts=n_prompts, n_judges=1, seed=1)
    told = {"left": "left", "right": "right", "winner": "winner", "groups": "prompt"}
    rates, ratings = er.win_rate(frame, **told), er.bradley_terry(frame, **told)

    def draw(board: er.Results, kind: Any) -> Contender:
        return Contender(lambda one: one.bootstrap(draws=2000, kind=kind).conf_int(), lambda: board)

    contenders = {
        "win rates": draw(rates, "percentile"),
        "ratings": draw(ratings, "percentile"),
        "ratings bca": draw(ratings, "bca"),
    }
    if _installed("evalica"):
        contenders[f"evalica, {FEW_DRAWS} draws"] = Contender(evalica_draws, lambda: frame)
    return contenders


@dataclass(frozen=True)
class Case:
    """Contenders on the same model.

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
    alike : bool
        Whether contenders give the same statistic, and p-values that differ by chance alone.
    """

    title: str
    build: Callable[[int], dict[str, Contender]]
    reference: str
    targets: tuple[Target, ...]
    alike: bool = True


CASES = {
    "clusters-50": Case(
        f"wild test of a coefficient, {DRAWS} draws, 1e5 rows, 5 covariates, 50 clusters",
        lambda divisor: build_wild(50, divisor),
        "evalreg",
        (Target("evalreg", 0.05), Target("evalreg", 0.2, "pyfixest")),
    ),
    "clusters-500": Case(
        f"wild test of a coefficient, {DRAWS} draws, 1e5 rows, 5 covariates, 500 clusters",
        lambda divisor: build_wild(500, divisor),
        "evalreg",
        (Target("evalreg", 0.3), Target("evalreg", 0.1, "pyfixest")),
    ),
    "models-20": Case(
        "cluster bootstrap of 20 means, 2,000 draws, 2e5 rows, 2,000 clusters",
        lambda divisor: build_bootstrap(2000, divisor),
        "evalreg percentile",
        (Target("evalreg percentile", 2.0), Target("evalreg bca", 2.0)),
        alike=False,
    ),
    "board-20": Case(
        "cluster bootstrap of a board of 20 models, 2,000 draws, 9.5e4 comparisons, 500 prompts",
        lambda divisor: build_board(500 // divisor),
        "win rates",
        (Target("win rates", 2.0), Target("ratings", 2.0), Target("ratings bca", 2.0)),
        alike=False,
    ),
}


def run_case(name: str, divisor: int, repeat: int, memory: bool) -> None:
    """Time a case, weigh it in fresh processes, and print its table."""
    case = CASES[name]
    contenders = case.build(divisor)
    if case.alike:
        _check_alike(contenders)
    seconds = interleaved(contenders, repeat)
    here = str(Path(__file__).resolve())
    peaks = {key: fresh_process([here, "--weigh", name, key, str(divisor)]) for key in contenders} if memory else {}
    print(f"\n{name}: {case.title}{'' if divisor == 1 else f' (rows divided by {divisor})'}")
    print(table(seconds, case.reference, peaks))
    for target in case.targets:
        if target.over in (None, *seconds):
            print(verdict(seconds, target))


def _check_alike(contenders: dict[str, Contender]) -> None:
    found = {name: one.run(one.prepare()) for name, one in contenders.items()}
    t, p = found["evalreg"]
    for name, (other_t, other_p) in found.items():
        # Six standard errors of a difference of two shares.
        if not np.isclose(t, other_t, rtol=1e-6) or abs(p - other_p) > 6 * np.sqrt(0.5 / DRAWS):
            raise SystemExit(f"{name} computes {other_t}, p {other_p}, not {t}, p {p}: there is nothing to compare")


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def weigh(name: str, contender: str, divisor: int) -> dict[str, int]:
    """Peak memory of one contender in this process, after a small call that imports what it needs."""
    small = CASES[name].build(20)[contender]
    small.run(small.prepare())
    return peak_of(CASES[name].build(divisor)[contender])


def main() -> None:
    """Run the cases asked for."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description="Time and memory of the bootstraps beside their peers.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows and three repetitions")
    parser.add_argument("--only", action="append", choices=[*CASES], help="one case; may be repeated")
    parser.add_argument("--repeat", type=int, help="rounds of each case")
    parser.add_argument("--no-memory", action="store_true", help="leave out the fresh processes that weigh memory")
    parser.add_argument("--weigh", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.weigh:
        print(json.dumps(weigh(options.weigh[0], options.weigh[1], int(options.weigh[2]))))
        return
    known = [f"{name} {version(name)}" for name in PACKAGES if _installed(name)]
    print(f"Python {sys.version.split()[0]}, " + ", ".join(known))
    for name in options.only or CASES:
        run_case(
            name, 10 if options.quick else 1, options.repeat or (3 if options.quick else 11), not options.no_memory
        )


if __name__ == "__main__":
    main()
