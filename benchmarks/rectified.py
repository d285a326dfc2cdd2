"""Coverage of rectified means under clustering, against simulated truth; no timing.

Answers y = 0.6 a_g + e in clusters of m, the judge's score f = 0.3 + 0.8 y + 0.7 b_g + 0.5 e', all terms standard
normal; G clusters, of which as many whole ones are labelled as given, or the same share of single rows. Four intervals
of the mean: lambda and covariance by cluster (`rectified_mean` with `groups`), lambda of independent rows with a
clustered covariance, both of independent rows, and `mean` of the human labels alone.

The last designs have few labelled clusters: judges whose scores are in smaller units, and that are nearly right.

    python benchmarks/rectified.py             2000 logs of each design
    python benchmarks/rectified.py --runs 200  fewer
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import pandas as pd

import evalreg as er

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


def main() -> None:
    """Print one line a design."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000)
    runs = parser.parse_args().runs
    warnings.simplefilter("ignore")
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
