"""How often intervals of the best of several models hold its truth: the figures of "The winner" in the guide.

python -m benchmarks.winner                        every world, with 2,000 logs of normal and 300 of 0/1 scores
python -m benchmarks.winner normal --logs 200      means of clusters of normal scores, with t in place of the normal
python -m benchmarks.winner rates --logs 200       0/1 scores on questions of passages, through `winner()`

A line for each world: coverage, of normal scores also the length over the usual interval, and how often the corrected
estimate is above the truth.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
from scipy import stats

import evalreg as er
from benchmarks.intervals import run
from evalreg.inference.selection import SHARE, hybrid_level, quantile_unbiased, winning_values

ALPHA = 0.05
DRAWS = 20_000


def critical(rng: np.random.Generator, root: np.ndarray, dof: int, levels: tuple[float, ...]) -> list[float]:
    """Critical values of the largest statistic, each with a denominator of its own; at most Bonferroni's."""
    K = root.shape[0]
    below = np.ones((DRAWS, K))
    if dof <= 30:
        below = np.sqrt(np.mean((rng.standard_normal((DRAWS, dof, K)) @ root.T) ** 2, axis=1))
    largest = np.max(np.abs(rng.standard_normal((DRAWS, K)) @ root.T) / below, axis=1)
    return [min(float(np.quantile(largest, 1 - p)), float(stats.t.ppf(1 - p / 2 / K, dof))) for p in levels]


def world(rng: np.random.Generator, G: int, K: int, lead: float, correlation: float, n_logs: int) -> dict[str, str]:
    """Coverage and relative length by method, of logs in which one model leads by so many standard errors."""
    root = np.linalg.cholesky(correlation + (1 - correlation) * np.eye(K))
    mu = np.zeros(K)
    mu[0] = lead / np.sqrt(G)
    wide, widest = critical(rng, root, G - 1, (ALPHA, SHARE * ALPHA))
    rows = []
    for _ in range(n_logs):
        clusters = rng.standard_normal((G, K)) @ root.T
        x, V = clusters.mean(axis=0) + mu, np.cov(clusters.T) / G
        w = int(np.argmax(x))
        rows.append((x[w], np.sqrt(V[w, w]), *winning_values(x, V, w), mu[w]))
    x, se, low, high, truth = np.array(rows).T

    def ends(level: float, reach: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        stretch = stats.t.ppf(1 - level / 2, G - 1) / stats.norm.ppf(1 - level / 2)
        return tuple(
            quantile_unbiased(x, se, low, high, p, stretch=stretch, reach=reach) for p in (level / 2, 1 - level / 2)
        )

    t = stats.t.ppf(1 - ALPHA / 2, G - 1)
    found = {
        "usual": (x - t * se, x + t * se),
        "projection": (x - wide * se, x + wide * se),
        "conditional": ends(ALPHA, np.inf),
        "hybrid": ends(hybrid_level(ALPHA), widest * se),
    }
    middle = quantile_unbiased(x, se, low, high, 0.5, reach=widest * se)
    said = {
        name: f"{np.mean((a <= truth) & (truth <= b)):.3f} ({np.median(b - a) / np.median(2 * t * se):.2f})"
        for name, (a, b) in found.items()
    }
    return said | {"corrected above": f"{np.mean(middle > truth):.3f}"}


def normal(n_logs: int) -> None:
    """Winners of means of normal scores: coverage, length over the usual interval, and the corrected estimate."""
    rng = np.random.default_rng(0)
    for G, K, lead, correlation in itertools.product((5, 10, 30, 200), (2, 5, 12), (0.0, 1.0, 3.0), (0.0, 0.7)):
        said = world(rng, G, K, lead, correlation, n_logs)
        print(f"clusters {G}, models {K}, lead {lead:g}, correlation {correlation:g}:", said, flush=True)


def rated(rng: np.random.Generator, G: int, K: int, rate: float) -> pd.DataFrame:
    """Scores of 0 and 1 of K equal models on 8 questions of each of G passages; all take the same questions."""
    passage = np.repeat(np.arange(G), 8)
    ease = np.sqrt(0.4) * rng.standard_normal(8 * G) + np.sqrt(0.1) * rng.standard_normal(G)[passage]
    latent = ease + np.sqrt(0.5) * rng.standard_normal((K, 8 * G))
    score = latent < stats.norm.ppf(rate)
    model, question = np.indices(score.shape).reshape(2, -1)
    columns = {"model": model, "question": question, "passage": passage[question], "score": score.ravel()}
    return pd.DataFrame(columns)


def rates(n_logs: int) -> None:
    """Winners of 0/1 scores, hybrid where `winner()` gives it and projection elsewhere."""
    rng = np.random.default_rng(1)
    for G, K, rate in itertools.product((10, 30), (2, 5, 12), (0.6, 0.9)):
        rows = []
        for _ in range(n_logs):
            found = er.mean(rated(rng, G, K, rate), by="model", item="question", groups="passage").winner()
            usual = found.single_lower <= rate <= found.single_upper
            kept = found.lower <= rate <= found.upper
            rows.append((bool(found.reason), usual, kept, found.corrected > rate))
        alone, usual, kept, above = np.array(rows).T
        said = {"usual": usual, "hybrid": kept[~alone], "projection": kept[alone], "corrected above": above[~alone]}
        shares = {name: f"{np.mean(hits):.3f}" if hits.size else "none" for name, hits in said.items()}
        print(f"passages {G}, models {K}, rate {rate:g}, hybrid in {np.mean(~alone):.2f}:", shares, flush=True)


TABLES = {"normal": (normal, 2000), "rates": (rates, 300)}

if __name__ == "__main__":
    run(TABLES, __doc__)
