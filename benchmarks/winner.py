"""How often intervals of the best of several models hold its truth: the figures of "The winner" in the guide.

python -m benchmarks.winner                        every world, with 2,000 logs of normal and 300 of 0/1 scores
python -m benchmarks.winner normal --logs 200      means of clusters of normal scores, with t in place of the normal
python -m benchmarks.winner crossed --logs 200     means over prompts and judges that cross
python -m benchmarks.winner unequal --logs 200     the same with one judge who has many of the rows
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
    for G, K, lead, correlation in itertools.product((5, 10, 30, 200, 2, 3), (2, 5, 12), (0.0, 1.0, 3.0), (0.0, 0.7)):
        said = world(rng, G, K, lead, correlation, n_logs)
        print(f"clusters {G}, models {K}, lead {lead:g}, correlation {correlation:g}:", said, flush=True)


def grid(P: int, J: int) -> tuple[np.ndarray, np.ndarray]:
    """Prompt and judge of each row, where every judge scores every prompt."""
    prompt, judge = np.indices((P, J)).reshape(2, -1)
    return prompt, judge


def heavy(rng: np.random.Generator, P: int, J: int, worth: float) -> tuple[np.ndarray, np.ndarray]:
    """The same where one judge scores most prompts, and the others so few that the judges are worth so many equal ones.

    Three rows to a prompt on average.
    """
    n, shares = 3 * P, np.linspace(1 / J, 1 / 3, 2000)
    worths = [counted_dof(np.append(share, np.full(J - 1, (1 - share) / (J - 1)))) + 1 for share in shares]
    share = shares[np.argmin(np.abs(np.array(worths) - worth))]
    rows = np.append(round(share * n), np.full(J - 1, round((1 - share) * n / (J - 1))))
    prompt = np.concatenate([rng.choice(P, size, replace=False) for size in rows])
    return np.unique(prompt, return_inverse=True)[1], np.repeat(np.arange(J), rows)


def counted_dof(h: np.ndarray) -> float:
    """Satterthwaite degrees of freedom of a mean under CR2, of clusters with these shares of the rows."""
    b, v2 = h / (1 - h), h**2 / (1 - h)
    return float((b.sum() - v2.sum()) ** 2 / (np.sum(b**2 - 2 * b * v2) + v2.sum() ** 2))


def crossed_world(
    rng: np.random.Generator,
    rows: tuple[np.ndarray, np.ndarray],
    K: int,
    taste: float,
    lead: float,
    uneven: bool,
    n_logs: int,
) -> dict[str, str]:
    """The same of K models scored by judges on prompts; tastes of half of the models thrice as strong if uneven."""
    prompt, judge = rows
    n, spread = prompt.size, np.where(np.arange(K) < K // 2, 1.0, 3.0) if uneven else np.ones(K)
    inside = [np.eye(codes.max() + 1)[codes].T for codes in rows]
    shares = [part.sum(axis=1) / n for part in inside]
    dofs = [*map(counted_dof, shares), n - 1.0]
    mu = np.zeros(K)
    own = 0.36 * np.sum(shares[0] ** 2) + taste**2 * np.mean(spread**2) * np.sum(shares[1] ** 2) + 1 / n
    mu[0] = lead * np.sqrt(own)
    logs = []
    for _ in range(n_logs):
        y = 0.6 * rng.standard_normal((shares[0].size, K))[prompt]
        y += taste * spread * rng.standard_normal((shares[1].size, K))[judge]
        y += mu + rng.standard_normal((n, K))
        x = y.mean(axis=0)
        away = (y - x) / n
        totals = [part @ away / np.sqrt(1 - h)[:, None] for part, h in zip(inside, shares, strict=True)]
        pieces = [total.T @ total for total in (*totals, away * np.sqrt(n / (n - 1)))]
        V_P, V_J, V_PJ = (np.diag(piece) for piece in pieces)
        both = pieces[0] + pieces[1]
        se = np.sqrt(np.max([V_P + V_J - V_PJ, V_P, V_J], axis=0))
        scale = se / np.sqrt(np.diag(both))
        w = int(np.argmax(x))
        low, high = winning_values(x, both * np.outer(scale, scale), w)
        logs.append((x[w], se[w], low, high, mu[w], V_P[w], V_J[w], V_PJ[w]))
    x, se, low, high, truth, V_P, V_J, V_PJ = np.array(logs).T

    def reach(level: float) -> np.ndarray:
        """Half-widths of crossed clusters: the sum of t^2 V over the terms, no shorter than that of an axis."""
        p, j, pj = (stats.t.ppf(1 - level / 2, dof) ** 2 for dof in dofs)
        return np.sqrt(np.max([p * V_P + j * V_J - pj * V_PJ, p * V_P, j * V_J], axis=0))

    def ends(level: float, outer: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        stretch = reach(level) / se / stats.norm.ppf(1 - level / 2)
        return tuple(
            quantile_unbiased(x, se, low, high, p, stretch=stretch, reach=outer) for p in (level / 2, 1 - level / 2)
        )

    usual, outer = reach(ALPHA), reach(SHARE * ALPHA / K)
    found = {
        "usual": (x - usual, x + usual),
        "projection": (x - reach(ALPHA / K), x + reach(ALPHA / K)),
        "conditional": ends(ALPHA, np.inf),
        "hybrid": ends(hybrid_level(ALPHA), outer),
    }
    middle = quantile_unbiased(x, se, low, high, 0.5, reach=outer)
    said = {
        name: f"{np.mean((a <= truth) & (truth <= b)):.3f} ({np.median(b - a) / np.median(2 * usual):.2f})"
        for name, (a, b) in found.items()
    }
    return said | {"corrected above": f"{np.mean(middle > truth):.3f}"}


def crossed(n_logs: int) -> None:
    """Winners over prompts and judges: coverage, length over the usual interval, and the corrected estimate."""
    rng = np.random.default_rng(3)
    for J, P, K, taste, lead, uneven in itertools.product(
        (3, 5, 7, 10), (20, 100), (2, 5, 12), (0.0, 0.3, 1.0), (0.0, 1.0, 3.0), (False, True)
    ):
        if taste or not uneven:
            said = crossed_world(rng, grid(P, J), K, taste, lead, uneven, n_logs)
            print(f"judges {J}, prompts {P}, models {K}, taste {taste:g}, lead {lead:g}, {uneven=}:", said, flush=True)


def unequal(n_logs: int) -> None:
    """Winners where one judge has many of the rows; `winner()` refuses all but two of these designs."""
    rng = np.random.default_rng(5)
    for worth, J, K, taste, lead, uneven in itertools.product(
        (7, 9.5, 12, 16), (20, 60), (2, 5, 12), (0.3, 1.0), (0.0, 1.0, 3.0), (False, True)
    ):
        rows = heavy(rng, 100, J, worth)
        first = np.mean(rows[1] == 0)
        said = crossed_world(rng, rows, K, taste, lead, uneven, n_logs)
        print(
            f"judges {J} worth {worth:g}, the first has {first:.2f}, models {K}, taste {taste:g}, lead {lead:g},",
            f"{uneven=}:",
            said,
            flush=True,
        )


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


TABLES = {"normal": (normal, 2000), "crossed": (crossed, 1000), "unequal": (unequal, 1000), "rates": (rates, 300)}

if __name__ == "__main__":
    run(TABLES, __doc__)
