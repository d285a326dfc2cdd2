"""False statements about any pair of models where few judges stand for others, and true differences that are found."""

from __future__ import annotations

import gc
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import evalreg as er
from benchmarks.coverage import boards
from benchmarks.coverage.grid import Cell
from benchmarks.coverage.worlds import FloatArray, IntArray
from evalreg.boards.board import Board
from evalreg.checks import BoolArray
from evalreg.inference.ranks import deciding
from evalreg.inference.simultaneous import adjust_pvalues, family_of

LEVEL = 0.05
TIED = 1e-9
CHECKS = 4
GROUPS = "prompt + judge"
HOLM, BANDS, RANKS = "Holm", "bands of pairs", "rank sets"
APART = "Holm, judges by themselves"
# Scores of comparisons are one half and this times the difference of two scores, far from 0 and 1.
GRADE = 0.02

Fit = Callable[[np.random.Generator], er.Results]


class DisagreeError(Exception):
    """The public functions decide other pairs than the family does."""


def qualities(n_models: int, gap: float) -> FloatArray:
    """The first half of the models, of an odd number the smaller half, is better than the others by `gap`."""
    return np.where(np.arange(n_models) < n_models // 2, gap, 0.0)


def draw(
    rng: np.random.Generator, quality: FloatArray, n_prompts: int, n_judges: int, taste: float | FloatArray
) -> pd.DataFrame:
    """Scores of every model on every prompt by every judge: quality, a judge's taste for a model, and unit noise.

    What a prompt gives to all models falls out of every difference, and is left out.
    """
    K, labels = quality.size, np.array(boards.names(quality.size))
    scores = quality + taste * rng.standard_normal((n_judges, K)) + rng.standard_normal((n_prompts, n_judges, K))
    prompt, judge, model = (axis.ravel() for axis in np.indices(scores.shape))
    return pd.DataFrame({"prompt": prompt, "judge": judge, "model": labels[model], "score": scores.ravel()})


def graded(scores: pd.DataFrame) -> pd.DataFrame:
    """Comparisons of all pairs of models with graded verdicts, from a score of every model, prompt and judge."""
    wide = scores.pivot(index=["prompt", "judge"], columns="model", values="score")
    left, right = np.triu_indices(wide.shape[1], 1)
    values, labels = wide.to_numpy(), wide.columns.to_numpy()
    score = 0.5 + GRADE * (values[:, left] - values[:, right])
    place = wide.index.to_frame(index=False).loc[np.repeat(np.arange(len(wide)), left.size)]
    sides = {"left": np.tile(labels[left], len(wide)), "right": np.tile(labels[right], len(wide))}
    return place.reset_index(drop=True).assign(**sides, score=score.ravel())


def alike(cell: Cell) -> tuple[Fit, FloatArray]:
    """The same for a leaderboard whose judges are taken to differ alike over models; on the first they may not."""
    quality, taste = qualities(cell["models"], cell["gap"]), np.full(cell["models"], cell["taste"])
    taste[0] *= cell["first"]
    P, J = cell["prompts"], cell["judges"]
    if cell["schedule"] == "graded":

        def fit(rng: np.random.Generator) -> er.Results:
            log = graded(draw(rng, quality, P, J, taste))
            return boards.fit_board(cell, log, alike="judge")

        return fit, quality
    design = boards.schedule(cell["schedule"], cell["models"], P)
    truth = boards.TRUTHS[cell["estimator"]](boards.expected_between(quality, cell["taste"]), design.met)
    return lambda rng: boards.fit_board(cell, boards.draw(rng, design, J, cell["taste"], quality), alike="judge"), truth


def world(cell: Cell) -> tuple[Fit, FloatArray]:
    """What draws a log of the cell and returns its results, and the true values of the models."""
    if cell.family == "alike":
        return alike(cell)
    quality = qualities(cell["models"], cell["gap"])
    P, J, taste = cell["prompts"], cell["judges"], cell["taste"]
    if cell["estimator"] == "mean":
        return lambda rng: er.mean(draw(rng, quality, P, J, taste), by="model", groups=GROUPS), quality
    design = boards.schedule(cell["schedule"], cell["models"], P)
    psi = boards.expected_between(quality, taste)

    def fit(rng: np.random.Generator) -> er.Results:
        return boards.fit_board(cell, boards.draw(rng, design, J, taste, quality))

    return fit, boards.TRUTHS[cell["estimator"]](psi, design.met)


def decided(results: er.Results, seed: int) -> dict[str, BoolArray]:
    """Pairs that each method decides, shape (n_pairs,)."""
    family = family_of(results.params, results.cov, "pairs")
    counted = {}
    if results.asked.alike is not None:
        with warnings.catch_warnings(action="ignore"):
            apart = family_of(results.params, results.with_cov(alike=None).cov, "pairs")
        counted = {APART: apart.stepdown(seed) <= LEVEL}
    with np.errstate(invalid="ignore"):
        return {
            HOLM: deciding(results.params, results.cov, LEVEL, seed)[1] <= LEVEL,
            BANDS: family.p_value <= family.level(LEVEL, seed),
        } | counted


def check(results: er.Results, found: dict[str, BoolArray], seed: int) -> None:
    """Hold what was decided against the public tables of pairs, bands and ranks."""
    holm, bands = results.pairwise("step-down", seed=seed), results.simultaneous(contrasts="pairs", seed=seed)
    same = [
        np.array_equal(found[HOLM], holm["p_adjusted"] <= LEVEL),
        np.array_equal(found[BANDS], (bands["lower"] > 0) | (bands["upper"] < 0)),
        np.array_equal(rank_sets(results, found[HOLM], seed), public_ranks(results, seed)),
    ]
    if not all(same):
        raise DisagreeError(f"pairs, bands, ranks agree: {same}")


def public_ranks(results: er.Results, seed: int) -> IntArray:
    """Lower and upper ranks, shape (n_models, 2)."""
    return results.ranks(seed=seed).loc[list(results.params.index), ["lower", "upper"]].to_numpy()


def rank_sets(results: er.Results, pairs: BoolArray, seed: int) -> IntArray:
    """Lower and upper ranks that decided pairs leave; boards, which leave models without ranks, tell theirs."""
    if isinstance(results, Board):
        return public_ranks(results, seed)
    K, values = results.params.size, results.params.to_numpy()
    left, right = np.triu_indices(K, 1)
    wins = np.zeros((K, K), dtype=bool)
    wins[left, right], wins[right, left] = (
        pairs & (values[left] > values[right]),
        pairs & (values[left] < values[right]),
    )
    return np.column_stack([1 + wins.sum(axis=0), K - wins.sum(axis=1)])


def tally(
    found: dict[str, BoolArray], effect: FloatArray, ranks: IntArray, truth: FloatArray
) -> dict[str, dict[str, float]]:
    """Counts of one log: anything false, anything in the wrong direction, and the share of true differences found."""
    left, right = np.triu_indices(truth.size, 1)
    gap = truth[left] - truth[right]
    differ = np.abs(gap) > TIED
    counts = {}
    for name, pairs in found.items():
        right_way = pairs & differ & (effect * gap > 0)
        wrong, share = bool(np.any(pairs & differ & ~right_way)), np.sum(right_way) / max(differ.sum(), 1)
        false = bool(np.any(pairs & ~right_way))
        counts[name] = {"logs": 1, "false": int(false), "wrong": int(wrong), "found": float(share)}
    rank = 1 + np.sum(truth > truth[:, None] + TIED, axis=1)
    missed = bool(np.any((rank < ranks[:, 0]) | (rank > ranks[:, 1])))
    return counts | {RANKS: {"logs": 1, "false": int(missed), "wrong": 0, "found": counts[HOLM]["found"]}}


def run(cell: Cell) -> tuple[dict[str, Any], dict[str, Any]]:
    """Counts by method, and what else is known. A log that the package refuses says nothing false and finds nothing.

    Raises
    ------
    DisagreeError
        If a public function decides a pair otherwise.
    """
    fit, truth = world(cell)
    tallies: dict[str, Counter[str]] = {}
    warned: dict[str, list[Any]] = {}
    refused: Counter[str] = Counter()
    every = max(cell.n_logs // CHECKS, 1)
    adjust_pvalues(np.array([0.5, 0.5]), "holm")
    gc.freeze()  # statsmodels, now imported, collects garbage at each adjustment; not what modules hold from here on.
    for log in range(cell.n_logs):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                results = fit(np.random.default_rng([cell.seed, log]))
            except er.errors.EvalregError as error:
                refused[type(error).__name__] += 1
                continue
            found = decided(results, log)
            if log % every == 0:
                check(results, found, log)
        for kind, text in {item.category.__name__: str(item.message) for item in caught}.items():
            warned.setdefault(kind, [0, text])[0] += 1
        values = results.params.to_numpy()
        left, right = np.triu_indices(values.size, 1)
        ranks = rank_sets(results, found[HOLM], log)
        for name, counts in tally(found, values[left] - values[right], ranks, truth).items():
            tallies.setdefault(name, Counter()).update(counts)
    for counts in tallies.values():
        counts["logs"] += sum(refused.values())
    shares = {kind: [count / cell.n_logs, text] for kind, (count, text) in sorted(warned.items())}
    about = {"checked": -(-cell.n_logs // every), "warnings": shares, "refused": dict(refused)}
    return {name: dict(counts) for name, counts in tallies.items()}, about
