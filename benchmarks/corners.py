"""Corners that were slow: covariates, text factors, factors of many levels, crossed groups, ratings of many models.

python benchmarks/corners.py
python benchmarks/corners.py --quick
"""

from __future__ import annotations

import argparse
import functools
import io
import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import evalreg as er
from benchmarks._measure import Contender, first_seconds, fresh_process, interleaved, peak_of, table

COVARIATES = "score ~ x0 + x1 + x2 + x3 + x4"
Calls = dict[str, Callable[[], Any]]
Contenders = dict[str, Contender]


def regression_log(n_rows: int) -> pd.DataFrame:
    """Five covariates, 20 models by name, passages of 50 rows and 300 judges."""
    rng = np.random.default_rng(0)
    log = pd.DataFrame({f"x{i}": rng.normal(size=n_rows) for i in range(5)})
    log["passage"], log["judge"] = rng.integers(0, n_rows // 50, n_rows), rng.integers(0, 300, n_rows)
    log["model"] = np.array([f"model {i}" for i in range(20)])[rng.integers(0, 20, n_rows)]
    log["score"] = rng.normal(size=n_rows) + log["x0"]
    return log


def plain_covariance(log: pd.DataFrame, *groups: str) -> Any:
    """CR0 of the five covariates under one or two clusterings, in the fewest passes of numpy."""
    X = np.column_stack([np.ones(len(log)), *(log[f"x{i}"].to_numpy() for i in range(5))])
    y, bread = log["score"].to_numpy(), np.linalg.inv(X.T @ X)
    scores = np.ascontiguousarray((X * (y - X @ (bread @ (X.T @ y)))[:, None]).T)
    codes = [pd.factorize(log[name])[0] for name in groups]
    if len(groups) == 2:
        codes.append(pd.factorize(codes[0] * (codes[1].max() + 1) + codes[1])[0])
    totals = [np.column_stack([np.bincount(one, column) for column in scores]) for one in codes]
    return bread @ sum(sign * T.T @ T for sign, T in zip((1, 1, -1), totals, strict=False)) @ bread


def covariates(divisor: int) -> Calls:
    """Regressions of 1e6 rows on five covariates, and on 20 models."""
    import statsmodels.formula.api as smf

    log = regression_log(1_000_000 // divisor)

    def statsmodels(formula: str) -> Any:
        fitted = smf.ols(formula, log).fit(cov_type="cluster", cov_kwds={"groups": log["passage"]})
        return fitted.bse

    by_model = "score ~ x0 + C(model)"
    np.testing.assert_allclose(
        er.fit(COVARIATES, log, groups="passage", cov="CR1").bse, statsmodels(COVARIATES), rtol=1e-10
    )
    crossed = er.fit(COVARIATES, log, groups="passage + judge", cov="CR0", repair="none").cov_params()
    np.testing.assert_allclose(plain_covariance(log, "passage", "judge"), crossed, rtol=1e-8, atol=1e-14)

    def statsmodels_crossed() -> Any:
        by = log[["passage", "judge"]].to_numpy()
        return smf.ols(COVARIATES, log).fit(cov_type="cluster", cov_kwds={"groups": by}).bse

    return {
        "plain": lambda: plain_covariance(log, "passage"),
        "plain, crossed": lambda: plain_covariance(log, "passage", "judge"),
        "statsmodels CR1, crossed": statsmodels_crossed,
        "CR1, crossed": lambda: er.fit(COVARIATES, log, groups="passage + judge", cov="CR1").bse,
        "statsmodels CR1": lambda: statsmodels(COVARIATES),
        "CR1": lambda: er.fit(COVARIATES, log, groups="passage", cov="CR1").bse,
        "CR2": lambda: er.fit(COVARIATES, log, groups="passage").bse,
        "CR2, crossed": lambda: er.fit(COVARIATES, log, groups="passage + judge").bse,
        "statsmodels CR1, models": lambda: statsmodels(by_model),
        "CR1, models": lambda: er.fit(by_model, log, groups="passage", cov="CR1").bse,
        "CR2, models": lambda: er.fit(by_model, log, groups="passage").bse,
    }


def of_levels(n_rows: int, n_levels: int, n_clusters: int, uneven: bool = False) -> Calls:
    """A covariate and a factor whose levels are alike in size, or as uneven as the words of a text."""
    rng = np.random.default_rng(0)
    share = 1.0 / np.arange(1, n_levels + 1) ** (0.7 if uneven else 0.0)
    log = pd.DataFrame({"x0": rng.normal(size=n_rows), "passage": rng.integers(0, n_clusters, n_rows)})
    log["task"] = rng.choice(n_levels, n_rows, p=share / share.sum())
    log["score"] = rng.normal(size=n_rows) + log["x0"]
    formula = "score ~ x0 + C(task)"
    return {
        "CR1": lambda: er.fit(formula, log, groups="passage", cov="CR1").bse,
        "CR2": lambda: er.fit(formula, log, groups="passage").bse,
        "CR2 and dof": lambda: er.fit(formula, log, groups="passage").dof,
    }


def levels(divisor: int) -> Calls:
    """A factor of 300 levels, 1e5 rows, passages of 50 rows."""
    return of_levels(100_000 // divisor, 300, 2_000 // divisor)


def fewer_levels(divisor: int) -> Calls:
    """A factor of 100 levels, 1e5 rows, passages of 50 rows."""
    return of_levels(100_000 // divisor, 100, 2_000 // divisor)


def more_levels(divisor: int) -> Calls:
    """A factor of 1,000 levels, 2e4 rows, passages of 25 rows."""
    return of_levels(20_000 // min(divisor, 4), 1_000, 800 // min(divisor, 4))


def uneven_levels(divisor: int) -> Calls:
    """A factor of 300 levels of uneven sizes, 5e4 rows, passages of 50 rows."""
    return of_levels(50_000 // divisor, 300, 1_000 // divisor, uneven=True)


def large_clusters(divisor: int) -> Calls:
    """A factor of 300 levels, 5e4 rows in 100 passages."""
    return of_levels(50_000 // divisor, 300, 100)


def small_clusters(divisor: int) -> Calls:
    """A factor of 300 levels, 5e4 rows in 15,000 passages."""
    return of_levels(50_000 // divisor, 300, 15_000 // divisor)


def comparisons(n_models: int, n_prompts: int, n_pairs: int) -> pd.DataFrame:
    """Verdicts on as many random pairs of models for each prompt, by ten judges."""
    rng = np.random.default_rng(0)
    n = n_pairs * n_prompts
    names = np.array([f"model {i:03d}" for i in range(n_models)])
    strength = rng.normal(size=n_models)
    left = rng.integers(0, n_models, n)
    right = (left + rng.integers(1, n_models, n)) % n_models
    score = (rng.random(n) < 1 / (1 + np.exp(strength[right] - strength[left]))).astype(float)
    prompt = np.repeat(np.arange(n_prompts), n_pairs)
    log = pd.DataFrame({"left": names[left], "right": names[right], "score": score, "prompt": prompt})
    return log.assign(judge=rng.integers(0, 10, n))


def of_pairs(n_prompts: int, n_pairs: int) -> Contenders:
    """Bradley-Terry ratings of 200 models from prompts with as many random pairs each."""
    log = comparisons(200, n_prompts, n_pairs)

    def fitted(cov: Any = None) -> er.Results:
        return er.bradley_terry(log, left="left", right="right", score="score", groups="prompt", cov=cov)

    def of_board(run: Callable[[er.Results], Any]) -> Contender:
        return Contender(run, fitted)

    return {
        "CR1": Contender(lambda _: fitted("CR1").bse),
        "CR2": Contender(lambda _: fitted().bse),
        "CR2 and dof": Contender(lambda _: fitted().dof),
        "diagnostics": of_board(lambda board: board.diagnostics()),
        "jackknife": of_board(lambda board: board.with_cov(cov="jackknife").bse),
        "bootstrap, 200 draws": of_board(lambda board: board.bootstrap(200)),
        "leaderboard, tiers": of_board(lambda board: board.tiers()),
    }


def ratings(divisor: int) -> Contenders:
    """Bradley-Terry ratings of 200 models from 1,500 prompts with 60 random pairs each."""
    return of_pairs(1500 // min(divisor, 3), 60)


def ratings_of_few(divisor: int) -> Contenders:
    """Bradley-Terry ratings of 200 models from 30,000 prompts with 3 random pairs each."""
    return of_pairs(30_000 // min(divisor, 3), 3)


def win_rates(divisor: int) -> Contenders:
    """Win rates of 300 models of which two lost all, 45,000 comparisons: one a pair, mostly."""
    found: Contenders = {}
    for n_pairs in (60, 3):
        log = comparisons(300, 45_000 // (n_pairs * min(divisor, 3)), n_pairs)
        weak = ["model 000", "model 001"]
        log.loc[log["left"].isin(weak), "score"] = 0.0
        log.loc[log["right"].isin(weak) & ~log["left"].isin(weak), "score"] = 1.0
        for groups in ("prompt", "prompt + judge"):
            call = {"left": "left", "right": "right", "score": "score", "groups": groups}
            found |= _win_rates(log, call, f"{n_pairs} pairs, {groups}")
    return found


def _win_rates(log: pd.DataFrame, call: dict[str, Any], name: str) -> Contenders:
    """Standard errors of one board with and without strengths in the place of lone pairs, and its tables."""
    return {
        f"CR1, {name}": Contender(lambda _: er.win_rate(log, **call, cov="CR1").bse),
        f"default, {name}": Contender(lambda _: er.win_rate(log, **call).bse),
        f"leaderboard, {name}": Contender(lambda board: board.leaderboard(), lambda: er.win_rate(log, **call)),
    }


def answers(n_models: int, n_questions: int) -> pd.DataFrame:
    """Scores of 0 and 1 of models on the same questions."""
    rng = np.random.default_rng(3)
    strength, difficulty = np.linspace(1.5, -1.5, n_models), rng.standard_normal(n_questions)
    right = rng.logistic(size=(n_questions, n_models)) < strength - difficulty[:, None]
    log = pd.DataFrame({"score": right.ravel().astype(float)})
    log["model"] = np.tile(np.array([f"vendor/model-{m:04d}-instruct" for m in range(n_models)]), n_questions)
    log["item"] = np.repeat(np.arange(n_questions), n_models)
    return log


def plain_figure(matrix: Any) -> None:
    """Means of columns, 131,072 draws of the largest deviation, and a bare figure with 250 names, in numpy."""
    import matplotlib.pyplot as plt

    rng, (n, K) = np.random.default_rng(0), matrix.shape
    values, vectors = np.linalg.eigh(np.cov(matrix.T) / n)
    kept = values > 1e-12 * values[-1]
    factor = vectors[:, kept] * np.sqrt(values[kept])
    factor /= np.sqrt((factor**2).sum(axis=1))[:, None]
    largest = [np.abs(rng.standard_normal((1024, kept.sum())) @ factor.T).max(axis=1) for _ in range(128)]
    figure, ax = plt.subplots(figsize=(7, min(0.16 * K, 40)))
    half = np.quantile(np.concatenate(largest), 0.95) * matrix.std(axis=0) / np.sqrt(n)
    ax.errorbar(matrix.mean(axis=0), np.arange(K), xerr=half, fmt="o")
    named = np.arange(0, K, -(-K // 250))
    ax.set_yticks(named, [f"vendor/model-{m:04d}-instruct" for m in named])
    plt.close(figure)


def unlike(matrix: Any) -> tuple[Any, Any]:
    """Means of columns and their covariance, with standard errors that differ by a third."""
    sd = np.exp(0.3 * np.random.default_rng(1).standard_normal(matrix.shape[1]))
    return matrix.mean(axis=0), np.cov(matrix.T) / len(matrix) * np.outer(sd, sd)


def figures(divisor: int) -> Contenders:
    """Bands, ranks and figures of means of 1,000, 200, 29 and 2 models on 200 questions; results are new each time."""
    os.environ["MPLBACKEND"] = "Agg"

    def draw(results: er.Results, save: bool = False) -> None:
        figure: Any = results.plot().figure
        if save:
            figure.savefig(io.BytesIO())
        # Loaded by `plot`, if it was not before.
        sys.modules["matplotlib.pyplot"].close(figure)

    # What results have learnt of their pairs is kept with them, so that they are made anew before each call.
    logs = {n: answers(max(n // divisor, 2), 200) for n in (1000, 200, 29, 2)}

    def each(n: int, run: Callable[[er.Results], Any]) -> Contender:
        return Contender(run, lambda: er.mean(logs[n], by="model", item="item"))

    wide = logs[1000]["score"].to_numpy().reshape(200, -1)
    return {
        "plain, 1000": Contender(lambda _: plain_figure(wide)),
        "plot, 1000": each(1000, draw),
        "simultaneous, 1000": each(1000, lambda results: results.simultaneous()),
        "ranks, 1000": each(1000, lambda results: results.ranks()),
        "all pairs, 1000": each(1000, lambda results: results.simultaneous(contrasts="pairs")),
        "ranks, 1000 unlike errors": Contender(lambda given: er.rank_sets(*given), lambda: unlike(wide)),
        "plot and save, 1000": each(1000, lambda results: draw(results, save=True)),
        "ranks, 200": each(200, lambda results: results.ranks()),
        "plot, 200": each(200, draw),
        "plot and save, 200": each(200, lambda results: draw(results, save=True)),
        "plot, 29": each(29, draw),
        "plot, 2": each(2, draw),
    }


def small(divisor: int) -> Contenders:
    """A regression of 500 rows, and the tables of boards of 29, 93 and 200 models that are there."""
    import statsmodels.formula.api as smf

    rng = np.random.default_rng(0)
    log = pd.DataFrame({"x": rng.normal(size=500), "score": rng.normal(size=500), "g": np.arange(500) // 10})

    def board(n_models: int) -> Callable[[], er.Results]:
        frame = er.datasets.judge_log(n_models=n_models, n_prompts=500, n_judges=2, pairs_per_prompt=40, seed=1)
        return lambda: er.win_rate(frame, left="left", right="right", winner="winner", groups="prompt + judge")

    by = {"groups": log["g"]}
    one, many, most = board(29), board(93), board(200 // min(divisor, 3))
    return {
        "statsmodels, 500 rows": Contender(
            lambda _: smf.ols("score ~ x", log).fit(cov_type="cluster", cov_kwds=by).bse
        ),
        "CR1, 500 rows": Contender(lambda _: er.fit("score ~ x", log, groups="g", cov="CR1").bse),
        "CR2, 500 rows": Contender(lambda _: er.fit("score ~ x", log, groups="g").bse),
        "leaderboard, 29": Contender(lambda board: board.leaderboard(), one),
        "leaderboard, 93": Contender(lambda board: board.leaderboard(), many),
        "leaderboard, 200": Contender(lambda board: board.leaderboard(), most),
    }


def boards_of_ratings(divisor: int) -> Contenders:
    """Tables of ratings of 29, 93 and 200 models, from 1,500 prompts of 60 pairs and 5 judges; covariances are new."""

    @functools.cache
    def board(n_models: int) -> Any:
        how = {"n_judges": 5, "pairs_per_prompt": 60, "spread": 2.0}
        log = er.datasets.judge_log(n_models=n_models, n_prompts=1500 // divisor, seed=1, **how)
        return er.bradley_terry(log, left="left", right="right", winner="winner", groups="prompt")

    def new(n_models: int, groups: str) -> Callable[[], Any]:
        return lambda: board(n_models).with_cov(groups=groups)

    calls: Contenders = {
        "all pairs, 29": Contender(lambda made: made.pairwise(), new(29, "prompt")),
        "all pairs, 93": Contender(lambda made: made.pairwise(), new(93, "prompt")),
    }
    for n in (29, 93, 200):
        calls[f"leaderboard, {n}"] = Contender(lambda made: made.leaderboard(), new(n, "prompt"))
        both = new(n, "prompt + judge")
        calls[f"leaderboard, {n}, prompts and judges"] = Contender(lambda made: made.leaderboard(), both)
    return calls


CASES: dict[str, tuple[Callable[[int], Calls | Contenders], str]] = {
    "covariates": (covariates, "CR1"),
    "levels": (levels, "CR1"),
    "levels-100": (fewer_levels, "CR1"),
    "levels-1000": (more_levels, "CR1"),
    "levels-uneven": (uneven_levels, "CR1"),
    "large-clusters": (large_clusters, "CR1"),
    "small-clusters": (small_clusters, "CR1"),
    "ratings": (ratings, "CR1"),
    "ratings-of-few": (ratings_of_few, "CR1"),
    "win-rates": (win_rates, "CR1, 60 pairs, prompt"),
    "boards": (boards_of_ratings, "all pairs, 29"),
    "small": (small, "statsmodels, 500 rows"),
    "figures": (figures, "plain, 1000"),
}

# Calls that are timed in new processes as well, where they are the first to load what they need.
FIRST = {"figures": "plot, 1000"}


def contender(call: Contender | Callable[[], Any]) -> Contender:
    """One call, whose data are there beforehand."""
    return call if isinstance(call, Contender) else Contender(lambda _=None: call())


def main() -> None:
    """Print a table for each case."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, two rounds")
    parser.add_argument("--only", choices=CASES, action="append")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--no-memory", action="store_true", help="leave out the fresh processes that weigh memory")
    parser.add_argument("--weigh", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--first", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.weigh or options.first:
        case, name, divisor = options.weigh or options.first
        measured = peak_of if options.weigh else first_seconds
        print(json.dumps(measured(contender(CASES[case][0](int(divisor))[name]))))
        return
    divisor, repeat = (10, 2) if options.quick else (1, options.repeat)
    here = str(Path(__file__).resolve())
    for case in options.only or CASES:
        make, reference = CASES[case]
        calls = make(divisor)
        seconds = interleaved({name: contender(call) for name, call in calls.items()}, repeat)
        if case in FIRST:
            first = [here, "--first", case, FIRST[case], str(divisor)]
            seconds[f"{FIRST[case]}, first"] = [fresh_process(first, frugal=False) for _ in range(repeat)]
        weighed = [] if options.no_memory else list(calls)
        peaks = {name: fresh_process([here, "--weigh", case, name, str(divisor)]) for name in weighed}
        print(f"\n{case}: {make.__doc__}")
        print(table(seconds, reference, peaks))


if __name__ == "__main__":
    main()
