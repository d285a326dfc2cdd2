"""Coverage of rectified means under clustering, against simulated truth; no timing.

Answers y = 0.6 a_g + e in clusters of m, the judge's score f = 0.3 + 0.8 y + 0.7 b_g + 0.5 e', all terms standard
normal; G clusters, of which as many whole ones are labelled as given, or the same share of single rows. Four intervals
of the mean: lambda and covariance by cluster (`rectified_mean` with `groups`), lambda of independent rows with a
clustered covariance, both of independent rows, and `mean` of the human labels alone.

The last designs have few labelled clusters: judges whose scores are in smaller units, and that are nearly right.

With --boards, win rates of 4 models on 80 prompts of four comparisons each, in which neighbours meet more often, and a
judge that leans to the left and to the last model: one lambda for all models, as `rectified_win_rate` has it, and one
for each (docs/decisions).

    python benchmarks/rectified.py             2000 logs of each design
    python benchmarks/rectified.py --boards    1000 logs of each
    python benchmarks/rectified.py --runs 200  fewer
"""

from __future__ import annotations

import argparse
import warnings
from unittest import mock

import numpy as np
import pandas as pd

import evalreg as er
from evalreg.estimators import rectified as rectified_pairs

# Labelled whole clusters or rows; clusters, labelled ones, rows of each; units of the judge, and how much it errs.
DESIGNS = (
    ("whole", 100, 6, 8, 1.0, 1.0),
    ("whole", 100, 10, 8, 1.0, 1.0),
    ("whole", 100, 15, 8, 1.0, 1.0),
    ("whole", 100, 20, 8, 1.0, 1.0),
    ("rows", 100, 20, 8, 1.0, 1.0),
    ("rows", 40, 10, 8, 1.0, 1.0),
    ("rows", 20, 4, 10, 1.0, 1.0),
    ("whole", 30, 8, 8, 1.0, 1.0),
    ("whole", 30, 8, 8, 0.02, 1.0),
    ("whole", 30, 8, 8, 1.0, 0.2),
    ("whole", 16, 8, 8, 1.0, 1.0),
)


def world(
    rng: np.random.Generator, kind: str, n_clusters: int, n_labelled: int, size: int, unit: float, errs: float
) -> pd.DataFrame:
    """One log; the true mean is 0."""
    a, b = rng.normal(size=(2, n_clusters))
    g = np.repeat(np.arange(n_clusters), size)
    y = 0.6 * a[g] + rng.normal(size=g.size)
    f = unit * (0.3 + 0.8 * y + errs * (0.7 * b[g] + 0.5 * rng.normal(size=g.size)))
    if kind == "whole":
        labelled = np.isin(g, rng.choice(n_clusters, n_labelled, replace=False))
    else:
        labelled = rng.random(g.size) < n_labelled / n_clusters
    return pd.DataFrame({"cluster": g, "judge": f, "human": np.where(labelled, y, np.nan)})


def covers(results: er.Results) -> bool:
    """Whether the interval holds 0."""
    low, high = results.conf_int().iloc[0]
    return bool(low <= 0 <= high)


# Win rates: whether whole prompts are labelled, and the share of them or of the comparisons.
BOARDS = ((False, 0.3), (False, 0.15), (False, 0.08), (True, 0.3), (True, 0.15), (True, 0.08))
ABILITY = np.array([0.0, 0.5, 1.0, 1.4])
SIDES = {"left": "left", "right": "right"}


def board_log(rng: np.random.Generator, n_prompts: int, whole: bool, share: float) -> pd.DataFrame:
    """Verdicts of humans and of a judge on four comparisons of each prompt; the humans' are kept for a share."""
    K = ABILITY.size
    a, b = np.triu_indices(K, 1)
    # The largest of logarithms of odds plus Gumbel noise are drawn without replacement, with these odds.
    chosen = np.argsort(rng.gumbel(size=(n_prompts, a.size)) - np.log(b - a), axis=1)[:, -4:]
    prompt, pair = np.repeat(np.arange(n_prompts), 4), chosen.ravel()
    flip = rng.random(pair.size) < 0.5
    left, right = np.where(flip, b[pair], a[pair]), np.where(flip, a[pair], b[pair])
    strength = ABILITY + 0.8 * rng.normal(size=(n_prompts, K))
    edge = strength[prompt, left] - strength[prompt, right] + rng.logistic(size=pair.size)
    leaning = edge + 0.5 + 1.5 * (left == K - 1) - 1.5 * (right == K - 1)
    truth, judge = ((gap > 0.3) * 0.5 + (gap > -0.3) * 0.5 for gap in (edge, leaning))
    judge = np.where(rng.random(pair.size) < 0.15, 1 - judge, judge)
    kept = rng.random(n_prompts)[prompt] < share if whole else rng.random(pair.size) < share
    names = np.array([f"m{k}" for k in range(K)])
    columns = {"prompt": prompt, "left": names[left], "right": names[right], "judge": judge, "truth": truth}
    return pd.DataFrame(columns).assign(human=np.where(kept, truth, np.nan))


def boards(runs: int) -> None:
    """Print one line a share of human verdicts."""
    large = board_log(np.random.default_rng(1), 200_000, True, 1.0)
    truth = er.win_rate(large, **SIDES, score="truth", groups="prompt").params.to_numpy()

    def each_its_own(*arguments: object, pooled: bool) -> object:
        return tune(*arguments, pooled=not pooled)

    tune = rectified_pairs.tune
    for whole, share in BOARDS:
        rng, hits, errors, refused = np.random.default_rng(99), [], [], 0
        for _ in range(runs):
            log = board_log(rng, 80, whole, share)
            roles = {**SIDES, "judge": "judge", "human": "human", "groups": "prompt"}
            try:
                one = er.rectified_win_rate(log, **roles)
                with mock.patch.object(rectified_pairs, "tune", each_its_own):
                    each = er.rectified_win_rate(log, **roles)
            except er.errors.DataError:
                refused += 1
                continue
            ends = [results.conf_int().to_numpy().T for results in (one, each)]
            hits.append([(low <= truth) & (truth <= high) for low, high in ends])
            alone = one.rectification()["human_mean"].to_numpy()
            errors.append([values - truth for values in (one.params.to_numpy(), each.params.to_numpy(), alone)])
        cover, rmse = np.mean(hits, axis=(0, 2)), np.sqrt(np.mean(np.square(errors), axis=(0, 2)))
        print(
            f"{share:.0%} of the {'prompts' if whole else 'comparisons'}: one lambda {cover[0]:.3f}, {rmse[0]:.3f}; "
            f"one for each {cover[1]:.3f}, {rmse[1]:.3f}; human verdicts alone {rmse[2]:.3f}; refused {refused}",
            flush=True,
        )


def main() -> None:
    """Print the designs of means, or those of boards."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, help="logs of each design")
    parser.add_argument("--boards", action="store_true", help="win rates in place of means")
    options = parser.parse_args()
    runs = options.runs or (1000 if options.boards else 2000)
    warnings.simplefilter("ignore")
    if options.boards:
        boards(runs)
    else:
        means(runs)


def means(runs: int) -> None:
    """Print one line a design."""
    print(
        "labelled     G  of m | coverage: clustered  naive lambda  naive  human | sd: clustered  naive  human | mean SE"
    )
    for kind, n_clusters, n_labelled, size, unit, errs in DESIGNS:
        rng = np.random.default_rng(99)
        hits, estimates, errors = [], [], []
        for _ in range(runs):
            log = world(rng, kind, n_clusters, n_labelled, size, unit, errs)
            ours = er.rectified_mean(log, judge="judge", human="human", groups="cluster")
            naive = er.rectified_mean(log, judge="judge", human="human")
            alone = er.mean(log[log["human"].notna()], "human", groups="cluster")
            all_four = (ours, naive.with_cov(groups="cluster"), naive, alone)
            hits.append([covers(results) for results in all_four])
            estimates.append([results.params.iloc[0] for results in (ours, naive, alone)])
            errors.append(ours.bse.iloc[0])
        cover, sd = np.mean(hits, axis=0), np.std(estimates, axis=0)
        print(
            f"{n_labelled:3d} {kind:6s} {n_clusters:4d}  {size:3d}  |           {cover[0]:9.3f}     {cover[1]:9.3f}"
            f"  {cover[2]:5.3f}  {cover[3]:5.3f} |     {sd[0]:9.4f} {sd[1]:6.4f} {sd[2]:6.4f} |  {np.mean(errors):.4f}"
            + (f"  judge times {unit:g}" if unit != 1 else "")
            + (f"  a judge that errs {errs:g} times as much" if errs != 1 else ""),
            flush=True,
        )


if __name__ == "__main__":
    main()
