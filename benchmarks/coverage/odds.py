"""Odds and net benefits of two models, by the interval of the win rate and by their standard errors."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

import evalreg as er
from benchmarks.coverage import worlds
from benchmarks.coverage.grid import Cell
from benchmarks.coverage.models import Counts, single
from benchmarks.coverage.worlds import Clusters, FloatArray, IntArray

# Comparisons of a prompt, or judges who each make one; what they share.
SIZE, JUDGES = 4, 5
ICC, JUDGE_SHARE = 0.3, 0.1
NAMES = ("model-01", "model-02")


def scores(cell: Cell, rng: np.random.Generator) -> tuple[FloatArray, IntArray, IntArray]:
    """Wins of the first model, one log, with their prompts and judges."""
    prompts, rate = cell["prompts"], cell["rate"]
    if cell["design"] == "clustered":
        clusters = Clusters(np.full(prompts, SIZE))
        won = worlds.clustered_scores(rng, clusters, "binary", rate, ICC, 1)
        return won[:, 0], clusters.codes, np.zeros_like(clusters.codes)
    won = worlds.crossed_scores(rng, (prompts, JUDGES), "binary", rate, JUDGE_SHARE, 1)
    prompt, judge = np.indices((prompts, JUDGES))
    return won[:, :, 0].ravel(), prompt.ravel(), judge.ravel()


def fit(cell: Cell, rng: np.random.Generator) -> er.Board:
    """Win rates of the two, on one log."""
    score, prompt, judge = scores(cell, rng)
    log = pd.DataFrame({"left": NAMES[0], "right": NAMES[1], "score": score, "prompt": prompt, "judge": judge})
    groups = "prompt" if cell["design"] == "clustered" else "prompt + judge"
    return er.win_rate(log, left="left", right="right", score="score", groups=groups)


def statements(board: er.Board, rate: float) -> Counts:
    """Intervals of both models, and of a difference; odds are refused where a model won all."""
    S = np.array([rate, 1 - rate])
    benefit, gap = board.net_benefit(), " - ".join(f"`{name}`" for name in NAMES)
    found = {
        "win rate": single(board.conf_int(), S),
        "net benefit": single(benefit.conf_int(), 2 * S - 1),
        "net benefit, by its error": single(benefit.conf_int(method="wald"), 2 * S - 1),
    }
    if board.params.max() == 1:
        return found
    odds = board.odds()
    return found | {
        "odds": single(odds.conf_int(), S / (1 - S)),
        "odds, by their error": single(odds.conf_int(method="wald"), S / (1 - S)),
        "difference of odds": single(odds.contrast(gap).conf_int(), -np.diff(S / (1 - S))),
    }


def run(cell: Cell) -> tuple[dict[str, Any], dict[str, Any]]:
    """Counts by method, each over the logs that it has something to say of, and what was refused."""
    tallies: dict[str, Counter[str]] = {}
    refused: Counter[str] = Counter()
    for log in range(cell.n_logs):
        rng = np.random.default_rng([cell.seed, log])
        with warnings.catch_warnings(action="ignore", category=er.errors.EvalregWarning):
            try:
                found = statements(fit(cell, rng), cell["rate"])
            except er.errors.ConstantScoreError as error:
                refused[type(error).__name__] += 1
                continue
        refused["odds"] += "odds" not in found
        for name, counts in found.items():
            tallies.setdefault(name, Counter()).update(counts)
    about = {"checked": cell.n_logs, "warnings": {}, "refused": dict(refused)}
    return {name: dict(counts) for name, counts in tallies.items()}, about
