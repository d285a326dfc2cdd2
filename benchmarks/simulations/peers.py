"""The peers' intervals that are replicated by formula, held against the packages themselves on a few logs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pandas as pd

import evalreg as er
from benchmarks.simulations import boards, worlds
from benchmarks.simulations.formulas import crossed_mean, least_squares
from benchmarks.simulations.intervals import Bounds, crossed_peers, one_way_peers
from benchmarks.simulations.worlds import Clusters

SAME = 1e-8
RATINGS_SAME = 5e-4
LOGS = 3

Interval = tuple[float, float]


def with_statsmodels(frame: pd.DataFrame, formula: str, parameter: str, groups: list[str]) -> Interval:
    """Interval of statsmodels' `OLS.fit(cov_type="cluster")`."""
    import statsmodels.formula.api as smf

    codes = frame[groups].to_numpy() if len(groups) > 1 else frame[groups[0]]
    fitted = smf.ols(formula, frame).fit(cov_type="cluster", cov_kwds={"groups": codes})
    return tuple(fitted.conf_int().loc[parameter])


def with_pyfixest(frame: pd.DataFrame, formula: str, parameter: str, groups: list[str]) -> Interval:
    """Interval of pyfixest's `feols` with CRV1."""
    import pyfixest as pf

    fitted = pf.feols(formula, frame, vcov={"CRV1": " + ".join(groups)})
    return tuple(fitted.confint().loc[parameter])


def with_linearmodels(frame: pd.DataFrame, formula: str, parameter: str, groups: list[str]) -> Interval:
    """Interval of linearmodels' least squares, whose default is not debiased."""
    from linearmodels.iv import IV2SLS

    with_constant = formula if "~ 1" in formula else formula.replace("~", "~ 1 +")
    fitted = IV2SLS.from_formula(with_constant, frame).fit(cov_type="clustered", clusters=frame[groups])
    return tuple(fitted.conf_int().loc[parameter])


PACKAGES: Mapping[str, Callable[[pd.DataFrame, str, str, list[str]], Interval]] = {
    "statsmodels": with_statsmodels,
    "pyfixest": with_pyfixest,
    "linearmodels": with_linearmodels,
}

Draw = tuple[str, pd.DataFrame, str, str, list[str], Mapping[str, Bounds], int]


def draws() -> Iterator[Draw]:
    """Logs of a mean, a regression and a crossed mean: what it is, and the intervals by formula."""
    rng = np.random.default_rng(20)
    clusters = Clusters(worlds.cluster_sizes("unequal", 12))
    Y = worlds.clustered_scores(rng, clusters, "binary", 0.7, 0.2, LOGS)
    bounds = one_way_peers(least_squares(np.ones((Y.shape[0], 1)), clusters, Y, 0))
    for log in range(LOGS):
        frame = pd.DataFrame({"score": Y[:, log], "g": clusters.codes})
        yield "mean", frame, "score ~ 1", "Intercept", ["g"], bounds, log
    design = worlds.regression_design(rng, worlds.cluster_sizes("unequal", 12), 0.5)
    Y = worlds.clustered_scores(rng, design.clusters, "normal", 0.6, 0.2, LOGS)
    bounds = one_way_peers(least_squares(design.X, design.clusters, Y, 1))
    for log in range(LOGS):
        frame = pd.DataFrame({"score": Y[:, log], "g": design.clusters.codes})
        frame[["treated", "x"]] = design.X[:, 1:]
        yield "regression", frame, "score ~ treated + x", "treated", ["g"], bounds, log
    mask = worlds.crossed_mask(rng, 30, 6, "half")
    scores = worlds.crossed_scores(rng, mask.shape, "normal", 0.0, 0.3, LOGS)
    bounds, (prompt, judge) = crossed_peers(crossed_mean(scores, mask)), np.nonzero(mask)
    for log in range(LOGS):
        frame = pd.DataFrame({"score": scores[prompt, judge, log], "g": prompt, "h": judge})
        yield "crossed mean", frame, "score ~ 1", "Intercept", ["g", "h"], bounds, log


def with_inspect(frame: pd.DataFrame, *_: object) -> Interval:
    """Interval of Inspect's `ci` metric of a mean, with the cluster in the samples' metadata."""
    from inspect_ai.scorer import SampleScore, Score, ci

    scores = [
        SampleScore(score=Score(value=score), sample_metadata={"g": int(g)})
        for score, g in zip(frame["score"], frame["g"], strict=True)
    ]
    limits = ci(cluster="g")(scores)
    return limits["lower"], limits["upper"]


def verify_inspect() -> int:
    """Print whether Inspect's clustered interval of a mean is that of CR1 with t(G - 1), pyfixest's."""
    if importlib.util.find_spec("inspect_ai") is None:
        print("inspect-ai is not installed: its formula is not verified", file=sys.stderr)
        return 0
    wrong = 0
    for what, frame, _, _, _, bounds, log in draws():
        if what == "mean":
            found, expected = with_inspect(frame), (bounds["pyfixest"].low[log], bounds["pyfixest"].high[log])
            same = np.allclose(found, expected, rtol=SAME, atol=SAME)
            wrong += not same
            print(f"mean {log}, Inspect: {'agree' if same else f'DIFFER: package {found}, formula {expected}'}")
    return wrong


def verify_ratings() -> int:
    """Print whether arena-rank's limits of ratings agree with its formula; the number of logs in which they differ.

    It adds a ridge of 1e-5 a comparison to the information, so that they agree to some four digits.
    """
    if importlib.util.find_spec("arena_rank") is None:
        print("arena-rank is not installed: its formula is not verified", file=sys.stderr)
        return 0
    from arena_rank.models.bradley_terry import BradleyTerry
    from arena_rank.utils.data_utils import PairDataset

    wrong, verdicts = 0, {1.0: "left", 0.5: "tie", 0.0: "right"}
    for log in range(LOGS):
        frame = boards.draw(np.random.default_rng(log), boards.schedule("dense", 6, 50), 1, 0.0)
        board = er.bradley_terry(frame, left="left", right="right", score="score", groups="prompt")
        expected = boards.arena_rank(board)
        data = PairDataset.from_pandas(
            frame.assign(winner=frame["score"].map(verdicts)),
            competitor_cols=["left", "right"],
            outcome_col="winner",
            outcome_map={verdict: score for score, verdict in verdicts.items()}.__getitem__,
        )
        model = BradleyTerry(n_competitors=len(data.competitors))
        found = model.compute_ratings_and_cis(data)
        limits = pd.DataFrame({0: found["rating_lower"], 1: found["rating_upper"]}, index=found["competitors"])
        limits = (limits.sort_index() - model.init_rating) / model.alpha
        same = np.allclose(limits, expected, rtol=0, atol=RATINGS_SAME)
        wrong += not same
        print(f"ratings {log}, arena-rank: {'agree' if same else f'DIFFER: package {limits}, formula {expected}'}")
    return wrong


def verify() -> int:
    """Print where formula and package agree; 1 if they differ anywhere, 0 otherwise."""
    wrong = verify_ratings() + verify_inspect()
    there = {name: run for name, run in PACKAGES.items() if importlib.util.find_spec(name) is not None}
    for absent in [name for name in PACKAGES if name not in there]:
        print(f"{absent} is not installed: its formula is not verified", file=sys.stderr)
    for what, frame, formula, parameter, groups, bounds, log in draws():
        for name, run in there.items():
            found, expected = run(frame, formula, parameter, groups), (bounds[name].low[log], bounds[name].high[log])
            same = np.allclose(found, expected, rtol=SAME, atol=SAME)
            wrong += not same
            end = "agree" if same else f"DIFFER: package {found}, formula {expected}"
            print(f"{what} {log}, {name}: {end}")
    return int(wrong > 0)
