"""Simulated leaderboards: schedules, logs of comparisons, and the truth that each estimator aims at."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

import evalreg as er
from benchmarks.simulations.grid import Cell
from benchmarks.simulations.worlds import FloatArray, IntArray

# Latent scale: the noise of a verdict has standard deviation 1.
ANSWER_SD = 1.0
QUALITY_SPREAD = 1.5
TIE_THRESHOLD = 0.2
DENSE_PAIRS = 60
# Places that "neighbours", whom alone matchmaking lets meet, are apart at most.
NEAREST = 2

# The default is the jackknife where pairs met on one prompt, which "CR2" by name takes for known.
OTHERS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "win_rate": {
        "CR1 t(G-1)": {"cov": "CR1"},
        "CR2": {"cov": "CR2"},
        "CR3 t(G-1)": {"cov": "CR3"},
        "jackknife": {"cov": "jackknife"},
        "rows independent": {"groups": None},
    },
    "bradley_terry": {
        "CR1 t(G-1)": {"cov": "CR1"},
        "CR3 t(G-1)": {"cov": "CR3"},
        "jackknife": {"cov": "jackknife"},
        "rows independent": {"groups": None},
    },
}
N_DRAWS = 399


def arena_rank(board: er.Results) -> pd.DataFrame:
    """Return arena-rank's default limits of ratings: rows independent, no factor, the normal quantile."""
    rows = board.with_cov(groups=None)
    half = special.ndtri(0.975) * rows.bse * np.sqrt((rows.nobs - 1) / rows.nobs)
    return pd.DataFrame({0: rows.params - half, 1: rows.params + half})


def prompt_bootstrap(board: er.Results) -> pd.DataFrame:
    """Percentile limits from whole prompts drawn again."""
    return board.bootstrap(draws=N_DRAWS, seed=0).conf_int()


@dataclass(frozen=True, eq=False)
class Schedule:
    """Who meets whom on which prompt.

    Parameters
    ----------
    n_models : int
        Models.
    prompt, left, right : ndarray of int, shape (n_meetings,)
        Every meeting is seen by every judge.
    """

    n_models: int
    prompt: IntArray
    left: IntArray
    right: IntArray

    @property
    def met(self) -> FloatArray:
        """Meetings of each pair, symmetric, shape (n_models, n_models)."""
        counts = np.zeros((self.n_models, self.n_models))
        np.add.at(counts, (self.left, self.right), 1.0)
        return counts + counts.T


@functools.cache
def schedule(kind: str, n_models: int, n_prompts: int) -> Schedule:
    """The schedule of a design, always the same.

    "dense": all pairs on every prompt, at most sixty of them. "medium": as many random pairs a prompt as there are
    models. "star": every model against the first on every prompt. "sparse": a fifth as many pairs a prompt as models,
    at least two, so that most pairs meet on one prompt or two, or never. "neighbours": as many random pairs a prompt as
    there are models, but only of models at most two places apart in quality.
    """
    first, second = np.triu_indices(n_models, 1)
    rng = np.random.default_rng([n_models, n_prompts])
    if kind == "neighbours":
        near = np.flatnonzero(second - first <= NEAREST)
        chosen = near[rng.random((n_prompts, near.size)).argsort(axis=1)[:, :n_models]]
    elif kind == "star":
        chosen = np.broadcast_to(np.flatnonzero(first == 0), (n_prompts, n_models - 1))
    else:
        count = {"dense": DENSE_PAIRS, "medium": n_models, "sparse": max(n_models // 5, 2)}[kind]
        chosen = rng.random((n_prompts, first.size)).argsort(axis=1)[:, : min(count, first.size)]
    pair, prompt = chosen.ravel(), np.repeat(np.arange(n_prompts), chosen.shape[1])
    swapped = rng.random(pair.size) < 0.5
    left, right = np.where(swapped, second[pair], first[pair]), np.where(swapped, first[pair], second[pair])
    return Schedule(n_models, prompt, left, right)


def qualities(n_models: int) -> FloatArray:
    """Latent quality of each model, best first, evenly spaced around zero."""
    return np.linspace(QUALITY_SPREAD / 2, -QUALITY_SPREAD / 2, n_models)


def expected_scores(n_models: int, judge_sd: float) -> FloatArray:
    """psi, shape (n_models, n_models): expected score of each model against each, a tie one half; exact.

    The latent difference is normal, so psi is the mean of two normal probabilities.
    """
    return expected_between(qualities(n_models), judge_sd)


def expected_between(quality: FloatArray, judge_sd: float) -> FloatArray:
    """The same for models of these qualities."""
    gap = np.subtract.outer(quality, quality)
    sd = np.sqrt(1 + 2 * ANSWER_SD**2 + 2 * judge_sd**2)
    return (special.ndtr((gap - TIE_THRESHOLD) / sd) + special.ndtr((gap + TIE_THRESHOLD) / sd)) / 2


def win_rate_truth(psi: FloatArray, met: FloatArray) -> FloatArray:
    """Mean of psi over the opponents met, each counted once."""
    opponents = met > 0
    return np.sum(psi * opponents, axis=1) / opponents.sum(axis=1)


def bradley_terry_truth(psi: FloatArray, met: FloatArray) -> FloatArray:
    """Centred ratings to which Bradley-Terry converges under this schedule, by Newton's method.

    The world is not Bradley-Terry's, so the target is the maximum of the expected quasi-likelihood, which depends on
    who meets whom.
    """
    K = psi.shape[0]
    theta = np.zeros(K)
    for _ in range(100):
        p = special.expit(np.subtract.outer(theta, theta))
        gradient = np.sum(met * (psi - p), axis=1)
        weight = met * p * (1 - p)
        hessian = np.diag(weight.sum(axis=1)) - weight + 1 / K
        step = np.linalg.solve(hessian, gradient)
        theta = theta + step
        if np.max(np.abs(step)) < 1e-13:
            break
    return theta - theta.mean()


TRUTHS = {"win_rate": win_rate_truth, "bradley_terry": bradley_terry_truth}


@functools.cache
def truth(estimator: str, kind: str, n_models: int, n_prompts: int, judge_sd: float) -> pd.Series:
    """What the estimator aims at in a design, by model."""
    values = TRUTHS[estimator](expected_scores(n_models, judge_sd), schedule(kind, n_models, n_prompts).met)
    return pd.Series(values, index=names(n_models))


def names(n_models: int) -> list[str]:
    """Labels of the models, sorted as text in order of quality."""
    return [f"model-{number:02d}" for number in range(1, n_models + 1)]


def draw(
    rng: np.random.Generator, design: Schedule, n_judges: int, judge_sd: float, quality: FloatArray | None = None
) -> pd.DataFrame:
    """Return a log of comparisons: columns prompt, judge, left, right and score (of the left model; a tie is 0.5).

    An answer, one for each model and prompt, stands in every comparison of it; so does a judge's taste for a model.
    """
    K, n_prompts = design.n_models, int(design.prompt.max()) + 1
    quality = qualities(K) if quality is None else quality
    answer = quality[:, None] + ANSWER_SD * rng.standard_normal((K, n_prompts))
    taste = judge_sd * rng.standard_normal((K, n_judges))
    edge = answer[design.left, design.prompt] - answer[design.right, design.prompt]
    latent = edge[:, None] + taste[design.left] - taste[design.right] + rng.standard_normal((edge.size, n_judges))
    score = np.where(latent > TIE_THRESHOLD, 1.0, np.where(latent < -TIE_THRESHOLD, 0.0, 0.5))
    labels = np.array(names(K))
    return pd.DataFrame(
        {
            "prompt": np.repeat(design.prompt, n_judges),
            "judge": np.tile(np.arange(n_judges), edge.size),
            "left": np.repeat(labels[design.left], n_judges),
            "right": np.repeat(labels[design.right], n_judges),
            "score": score.ravel(),
        }
    )


def fit_board(cell: Cell, log: pd.DataFrame, **options: Any) -> er.Results:
    """The estimator that the cell names, on one log; judges are crossed with prompts where there are several."""
    groups = "prompt" if cell["judges"] == 1 else "prompt + judge"
    estimator = getattr(er, cell["estimator"])
    return estimator(log, left="left", right="right", score="score", groups=groups, **options)
