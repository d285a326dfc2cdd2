"""What is simulated and estimated in each family of cells: blocks of logs, and single logs by the public functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

import evalreg as er
from benchmarks.simulations import worlds
from benchmarks.simulations.formulas import bootstrap, crossed_mean, least_squares
from benchmarks.simulations.grid import Cell
from benchmarks.simulations.intervals import (
    BOUNDED,
    CROSSED,
    DEFAULT,
    UNBOUNDED,
    Bounds,
    Named,
    crossed_bounds,
    crossed_peers,
    one_way_bounds,
    one_way_peers,
    one_way_score,
    settled,
)
from benchmarks.simulations.score import Rows
from benchmarks.simulations.worlds import Clusters, FloatArray

Limits = Mapping[str, tuple[float, float]]
"""Interval of one log by method."""


@dataclass(frozen=True)
class Public:
    """What the public functions say of one log.

    Parameters
    ----------
    limits : mapping of str to (float, float)
        Interval by method; the methods not named here are not the package's.
    warned : tuple of (category, text)
        Warnings of the default.
    p_value : float
        Of the default's test of the truth; NaN where there is none.
    """

    limits: Limits
    warned: tuple[tuple[str, str], ...]
    p_value: float = np.nan


@dataclass(frozen=True, eq=False)
class Block:
    """Many logs of one cell.

    Parameters
    ----------
    truth : float
        What the intervals should cover.
    estimate : ndarray, shape (n_logs,)
        Estimates.
    bounds : mapping of str to Bounds
        Intervals by method.
    public : callable
        Takes the number of a log; returns what the public functions say of it.
    """

    truth: float
    estimate: FloatArray
    bounds: Mapping[str, Bounds]
    public: Callable[[int], Public]


def by_public(
    fit: Callable[[], er.Results], methods: Mapping[str, Named], parameter: str, truth: float | None = None
) -> Public:
    """Limits of a parameter by every method, from `with_cov` and `conf_int`; none for a log that is refused."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            results = fit()
        except er.errors.ConstantScoreError as error:
            return Public(dict.fromkeys(methods, (np.nan, np.nan)), ((type(error).__name__, str(error)),))
    warned = tuple((item.category.__name__, str(item.message)) for item in caught)
    limits = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", er.errors.EvalregWarning)
        for name, method in methods.items():
            one = results.with_cov(**method.options) if method.options else results
            low, high = one.conf_int(method=method.interval).loc[parameter]
            limits[name] = (float(low), float(high))
    p_value = np.nan if truth is None else float(results.t_test(f"`{parameter}` = {truth}").pvalue)
    return Public(limits, warned, p_value)


def _bootstraps(
    rng: np.random.Generator, X: FloatArray, clusters: Clusters, Y: FloatArray, column: int
) -> dict[str, Bounds]:
    rows = Clusters(np.ones(X.shape[0], dtype=np.int64))
    return {
        "row bootstrap": Bounds(*bootstrap(rng, X, rows, Y, column)),
        "cluster bootstrap": Bounds(*bootstrap(rng, X, clusters, Y, column)),
    }


def means(cell: Cell, rng: np.random.Generator, n_logs: int) -> Block:
    """Means under one clustering."""
    clusters = Clusters(worlds.cluster_sizes(cell["sizes"], cell["G"]))
    Y = worlds.clustered_scores(rng, clusters, cell["scores"], cell["mean"], cell["icc"], n_logs)
    bounded = cell["scores"] in ("binary", "fraction")
    ones = np.ones((Y.shape[0], 1))
    fit = least_squares(ones, clusters, Y, 0)
    bounds = one_way_bounds(fit, bounded=bounded) | one_way_peers(fit) | _bootstraps(rng, ones, clusters, Y, 0)

    def public(log: int) -> Public:
        frame = pd.DataFrame({"score": Y[:, log], "g": clusters.codes})
        methods = BOUNDED if bounded else UNBOUNDED
        return by_public(lambda: er.mean(frame, groups="g"), methods, "mean", cell["mean"])

    return Block(cell["mean"], fit.estimate, bounds, public)


def ends(cell: Cell, rng: np.random.Generator, n_logs: int) -> Block:
    """Means of scores near 0 or 1 that are no 0/1 trials, or whose clusters are hard."""
    clusters = Clusters(worlds.cluster_sizes(cell["sizes"], cell["G"]))
    Y, truth = worlds.scores_near_an_end(rng, clusters, cell["scores"], cell["level"], cell["icc"], n_logs)
    fit = least_squares(np.ones((Y.shape[0], 1)), clusters, Y, 0)

    def public(log: int) -> Public:
        frame = pd.DataFrame({"score": Y[:, log], "g": clusters.codes})
        return by_public(lambda: er.mean(frame, groups="g"), BOUNDED, "mean", truth)

    return Block(truth, fit.estimate, one_way_bounds(fit, bounded=True) | one_way_peers(fit), public)


EFFECT = {"treated": 0.15, "x": 0.1}
CONTROL_MEAN = 0.6


def regressions(cell: Cell, rng: np.random.Generator, n_logs: int) -> Block:
    """One coefficient of a regression on a covariate of clusters and one of rows."""
    design = worlds.regression_design(rng, worlds.cluster_sizes(cell["sizes"], cell["G"]), cell["treated"])
    clusters, X, kind = design.clusters, design.X, cell["scores"]
    centre = CONTROL_MEAN + EFFECT["treated"] * design.treated
    Y = worlds.clustered_scores(rng, clusters, kind, centre, cell["icc"], n_logs)
    # 0/1 scores do not depend on x, so that the regression is right for them as well.
    slope = 0.0 if kind == "binary" else EFFECT["x"]
    Y = Y + slope * X[:, 2:]
    column = 1 if cell["target"] == "treated" else 2
    fit = least_squares(X, clusters, Y, column)
    bounds = one_way_bounds(fit, bounded=False) | one_way_peers(fit) | _bootstraps(rng, X, clusters, Y, column)

    def public(log: int) -> Public:
        frame = pd.DataFrame({"score": Y[:, log], "g": clusters.codes, "treated": X[:, 1], "x": X[:, 2]})
        return by_public(lambda: er.fit("score ~ treated + x", frame, groups="g"), UNBOUNDED, cell["target"])

    return Block(EFFECT["treated"] if column == 1 else slope, fit.estimate, bounds, public)


def differences(cell: Cell, rng: np.random.Generator, n_logs: int) -> Block:
    """Differences of two models on the same questions, clustered by passage."""
    clusters = Clusters(worlds.cluster_sizes(cell["sizes"], cell["G"]))
    first, second = worlds.paired_scores(rng, clusters, cell["scores"], cell["means"], cell["icc"], n_logs)
    Y, ones = first - second, np.ones((first.shape[0], 1))
    fit = least_squares(ones, clusters, Y, 0)
    bounds = one_way_bounds(fit, bounded=False) | one_way_peers(fit) | _bootstraps(rng, ones, clusters, Y, 0)
    del bounds["rows independent"]
    bounds["CR2 Satt."] = bounds[DEFAULT]
    if cell["scores"] == "binary":
        variance = settled(fit.variance["CR2"], fit.variance["rows"])
        bounds[DEFAULT] = one_way_score(Rows.of(Y, clusters, signed=True), variance, fit.dof["CR2"])
    methods = {name: method for name, method in UNBOUNDED.items() if name in bounds}
    methods["CR2 Satt."] = replace(UNBOUNDED[DEFAULT], interval="wald")

    def public(log: int) -> Public:
        frame = pd.DataFrame(
            {
                "score": np.concatenate([first[:, log], second[:, log]]),
                "model": np.repeat(["A", "B"], clusters.codes.size),
                "question": np.tile(np.arange(clusters.codes.size), 2),
                "passage": np.tile(clusters.codes, 2),
            }
        )
        return _by_contrast(frame, methods, cell["means"][0] - cell["means"][1])

    return Block(cell["means"][0] - cell["means"][1], fit.estimate, bounds, public)


def _by_contrast(frame: pd.DataFrame, methods: Mapping[str, Named], truth: float) -> Public:
    limits, warned, p_value = {}, (), np.nan
    for name, method in methods.items():
        options = dict(method.options)

        def contrast(options: dict[str, str] = options) -> er.Results:
            results = er.mean(frame, by="model", item="question", groups="passage", **options)
            return results.contrast("A - B")

        same = {name: Named({}, method.interval, method.variance, method.dof)}
        one = by_public(contrast, same, "A - B", truth if name == DEFAULT else None)
        limits[name] = one.limits[name]
        warned, p_value = (one.warned, one.p_value) if name == DEFAULT else (warned, p_value)
    return Public(limits, warned, p_value)


def crossed(cell: Cell, rng: np.random.Generator, n_logs: int) -> Block:
    """Means of scores that every judge, or half of them, gave to prompts."""
    shape, bounded = (cell["prompts"], cell["judges"]), cell["scores"] == "binary"
    mask = worlds.crossed_mask(rng, *shape, cell["grid"])
    scores = worlds.crossed_scores(rng, shape, cell["scores"], cell["mean"], cell["judge_share"], n_logs)
    fit = crossed_mean(scores, mask)
    bounds = crossed_bounds(fit, bounded=bounded) | crossed_peers(fit)
    prompt, judge = np.nonzero(mask)
    Y, ones = scores[prompt, judge], np.ones((prompt.size, 1))
    by_prompt = Clusters(mask.sum(axis=1))
    bounds["prompt bootstrap"] = Bounds(*bootstrap(rng, ones, by_prompt, Y, 0))

    def public(log: int) -> Public:
        frame = pd.DataFrame({"score": Y[:, log], "prompt": prompt, "judge": judge})
        return by_public(lambda: er.mean(frame, groups="prompt + judge"), CROSSED, "mean", cell["mean"])

    return Block(cell["mean"], fit.estimate, bounds, public)


FAMILIES: Mapping[str, Callable[[Cell, np.random.Generator, int], Block]] = {
    "means": means,
    "ends": ends,
    "regressions": regressions,
    "differences": differences,
    "crossed": crossed,
}
"""Families whose logs come in blocks."""
