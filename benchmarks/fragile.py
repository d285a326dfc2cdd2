"""How often 95% intervals hold where few rows or a few large scores tell, or a quantile is far out; no timing.

python -m benchmarks.fragile NAME --logs 200     one of the tables, with fewer logs than it has
python -m benchmarks.fragile                     all of them, an hour of a processor

quantiles     Woodruff's intervals on three scales (docs/decisions/quantiles.md)
tails         means of scores without bounds (docs/coverage.md)
few           independent rows of which few tell (docs/coverage.md)
unsaid        clustered worlds of which few warnings speak (docs/coverage.md)
classes       macro averages of classes of which some are rare (docs/coverage.md)
failed        two equal models, one of which left out failures (docs/guide/comparing.md)
posterior     beta-binomial posteriors of five clusters near 1 (docs/guide/quickstart.md)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import pandas as pd
from scipy import stats

import evalreg as er
from benchmarks.intervals import run
from evalreg.checks import FloatArray, IntArray
from evalreg.estimators.quantile import Woodruff, logit_shift, shares_within

SCALES: dict[str, Callable[[float, FloatArray], tuple[FloatArray, FloatArray]]] = {
    "logit": lambda q, half: (logit_shift(q, -half), logit_shift(q, half)),
    "plain": lambda q, half: (q - half, q + half),
    "both": shares_within,
}


def passages(rng: np.random.Generator, n_clusters: int, unequal: bool = False) -> np.ndarray:
    """Clusters of rows, eight rows each or lognormal numbers of them."""
    sizes = np.round(rng.lognormal(np.log(8) - 0.5, 1, n_clusters)).clip(1) if unequal else np.full(n_clusters, 8)
    return np.repeat(np.arange(n_clusters), sizes.astype(int))


def _quantile_worlds() -> Iterator[tuple[str, int, float, bool, bool]]:
    """Name, rows or clusters, level, whether in clusters, and whether of unequal size."""
    for q, n in itertools.product((0.5, 0.75, 0.9, 0.95, 0.99), (30, 100, 400)):
        yield f"{n} rows", n, q, False, False
    clusters = ((6, False), (12, False), (30, False), (100, False), (30, True))
    for q, (n, unequal) in itertools.product((0.25, 0.5, 0.75, 0.9, 0.95), clusters):
        yield f"{n} {'unequal ' if unequal else ''}clusters", n, q, True, unequal


def quantiles(n_logs: int) -> None:
    """Lognormal scores, in clusters with an intraclass correlation of .4: coverage, and intervals without an end."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in SCALES}
    for name, n, q, clustered, unequal in _quantile_worlds():
        rng, truth = np.random.default_rng([n, round(100 * q), clustered, unequal]), float(np.exp(stats.norm.ppf(q)))
        ends: dict[str, list[FloatArray]] = {scale: [] for scale in SCALES}
        for _ in range(n_logs):
            codes = passages(rng, n, unequal) if clustered else np.arange(n)
            effect = np.sqrt(0.4) * rng.normal(size=n)[codes] if clustered else 0.0
            score = np.exp(effect + np.sqrt(0.6 if clustered else 1.0) * rng.normal(size=codes.size))
            log = pd.DataFrame({"score": score, "passage": codes})
            results = er.quantile(log, q=q, groups="passage" if clustered else None)
            family = results.estimate.family
            assert isinstance(family, Woodruff)
            half = results.cov.critical(alpha=0.05) * results.bse.to_numpy() * family.density
            for scale, shares in SCALES.items():
                low, high = (float(share[0]) for share in shares(q, half))
                ends[scale].append(np.array([family.samples[0].limit(low, -1), family.samples[0].limit(high, 1)]))
        said = []
        for scale, limits in ends.items():
            low, high = np.array(limits).T
            held, open_ended = (
                float(np.mean((low <= truth) & (truth <= high))),
                float(np.mean(~np.isfinite(high - low))),
            )
            found[scale].append((held, open_ended))
            said.append(f"{scale} {held:.3f} ({open_ended:.2f})")
        print(f"{q:g}, {name}:", ", ".join(said), flush=True)
    for scale, rows in found.items():
        held, open_ended = np.array(rows).T
        closed = held[open_ended < 0.5]
        print(f"{scale}: mean {closed.mean():.3f}, worst {closed.min():.3f} where most have ends", flush=True)


World: TypeAlias = Callable[[np.random.Generator], tuple[er.Results, float]]
"""Draws a log and gives the results, whose last parameter is in question, and the truth."""


def _held(name: str, world: World, n_logs: int, kind: type[Warning]) -> None:
    """Coverage of 95% intervals, and with rows as clusters where that is another; the share of logs with a warning."""
    rng, hits, warned = np.random.default_rng(len(name)), [], []
    for _ in range(n_logs):
        with er.errors.muted():
            results, truth = world(rng)
            several = [results] if results.axes else [results, results.with_cov(groups="row")]
        ends = [one.conf_int().iloc[-1] for one in several]
        hits.append([low <= truth <= high for low, high in ends])
        warned.append(any(issubclass(category, kind) for category, _ in results.notes))
    held, said = np.array(hits), np.array(warned)
    with_rows = "" if held.shape[1] == 1 else f", rows as clusters {held[:, 1].mean():.3f}"
    print(f"{name}: {held[:, 0].mean():.3f}{with_rows}, warned {said.mean():.2f}", flush=True)


def _costs(draw: Callable[[np.random.Generator, int], np.ndarray], truth: float, n: int, clustered: bool) -> World:
    """Means of independent scores, one to a row or five to a passage."""

    def world(rng: np.random.Generator) -> tuple[er.Results, float]:
        rows = np.arange(5 * n if clustered else n)
        log = pd.DataFrame({"score": draw(rng, rows.size), "passage": rows // 5, "row": rows})
        return er.mean(log, groups="passage" if clustered else None), truth

    return world


def tails(n_logs: int) -> None:
    """Means of normal, exponential and lognormal scores."""
    shapes: dict[str, tuple[Callable[[np.random.Generator, int], np.ndarray], float]] = {
        "normal": (lambda rng, n: rng.normal(size=n), 0.0),
        "exponential": (lambda rng, n: rng.exponential(size=n), 1.0),
    }
    for spread in (1.0, 1.5, 2.0):
        mean = float(np.exp(spread**2 / 2))
        shapes[f"lognormal {spread:g}"] = (lambda rng, n, spread=spread: rng.lognormal(0, spread, n), mean)
    for name, (draw, truth) in shapes.items():
        for n in (30, 100, 400):
            _held(f"{name}, {n} rows", _costs(draw, truth, n, False), n_logs, er.errors.SkewedScoresWarning)
        for n in (20, 100):
            _held(f"{name}, {n} passages of five", _costs(draw, truth, n, True), n_logs, er.errors.SkewedScoresWarning)


def few(n_logs: int) -> None:
    """Slopes of few treated rows and of skewed covariates, weighted means, and ratios of unequal denominators."""

    def slope(n: int, x: Callable[[np.random.Generator], np.ndarray]) -> World:
        def world(rng: np.random.Generator) -> tuple[er.Results, float]:
            log = pd.DataFrame({"y": rng.normal(size=n), "x": x(rng), "row": np.arange(n)})
            return er.fit("y ~ x", log), 0.0

        return world

    def weighted(n: int, spread: float) -> World:
        def world(rng: np.random.Generator) -> tuple[er.Results, float]:
            log = pd.DataFrame({"score": rng.normal(size=n), "w": rng.lognormal(0, spread, n), "row": np.arange(n)})
            return er.mean(log, weights="w"), 0.0

        return world

    def words(n: int, spread: float) -> World:
        def world(rng: np.random.Generator) -> tuple[er.Results, float]:
            n_words = rng.lognormal(0, spread, n)
            errors = n_words * rng.uniform(0, 0.2, n)
            log = pd.DataFrame({"errors": errors, "words": n_words, "row": np.arange(n)})
            return er.ratio(log, "errors", "words"), 0.1

        return world

    worlds: dict[str, World] = {}
    for n, k in ((40, 3), (150, 8), (40, 10), (200, 20)):
        worlds[f"slope, {k} of {n} rows treated"] = slope(n, lambda _, n=n, k=k: (np.arange(n) < k) * 1.0)
    for n in (30, 200):
        worlds[f"slope, normal covariate, {n} rows"] = slope(n, lambda rng, n=n: rng.normal(size=n))
    worlds["slope, lognormal covariate, 200 rows"] = slope(200, lambda rng: rng.lognormal(size=200))
    for n, spread in itertools.product((50, 200), (0.5, 1.0, 1.5, 2.0)):
        worlds[f"mean, weights lognormal {spread:g}, {n} rows"] = weighted(n, spread)
        worlds[f"ratio, denominators lognormal {spread:g}, {n} rows"] = words(n, spread)
    for name, world in worlds.items():
        _held(name, world, n_logs, er.errors.FewClustersWarning)


def unsaid(n_logs: int) -> None:
    """Clusters whose size goes with their score, slopes that differ between clusters, and ratios of means."""

    def sized(n: int, binary: bool, along: float) -> World:
        def scores(rng: np.random.Generator, n: int) -> tuple[IntArray, FloatArray]:
            """Sizes, lognormal about six, and what clusters score, which correlates with the logarithm of the size."""
            size, own = rng.normal(size=(2, n))
            level = along * size + np.sqrt(1 - along**2) * own
            mean = 1 / (1 + np.exp(-1 - level)) if binary else 0.6 * level
            return np.round(6 * np.exp(size)).clip(1).astype(int), mean

        sizes, means = scores(np.random.default_rng(9), 1_000_000)
        truth = float(np.average(means, weights=sizes))

        def world(rng: np.random.Generator) -> tuple[er.Results, float]:
            sizes, means = scores(rng, n)
            codes = np.repeat(np.arange(n), sizes)
            score = (
                rng.random(codes.size) < means[codes] if binary else means[codes] + 0.8 * rng.normal(size=codes.size)
            )
            return er.mean(pd.DataFrame({"score": score * 1.0, "passage": codes}), groups="passage"), truth

        return world

    def slope(n: int, of_clusters: bool, spread: float) -> World:
        def world(rng: np.random.Generator) -> tuple[er.Results, float]:
            codes = np.repeat(np.arange(n), 8)
            x = np.exp(spread * (rng.normal(size=n)[codes] if of_clusters else rng.normal(size=codes.size)))
            y = x * 0.5 * rng.normal(size=n)[codes] + rng.normal(size=codes.size)
            return er.fit("y ~ x", pd.DataFrame({"x": x, "y": y, "passage": codes}), groups="passage"), 0.0

        return world

    def ratio(n: int, rate: float, logs: bool) -> World:
        def world(rng: np.random.Generator) -> tuple[er.Results, float]:
            codes = np.repeat(np.arange(n), 4)
            solved = rng.random(codes.size) < rng.beta(4 * rate, 4 * (1 - rate), n)[codes]
            log = pd.DataFrame({"solved": solved * 1.0, "cost": rng.lognormal(0, 0.5, codes.size), "passage": codes})
            both = (er.mean(log, name, groups="passage") for name in ("cost", "solved"))
            parts = next(both).stack(next(both), ["cost", "solved"])
            truth = np.exp(0.125) / rate
            if logs:
                return parts.transform(lambda p: np.log(p["cost"] / p["solved"]), "log"), float(np.log(truth))
            return parts.transform(lambda p: p["cost"] / p["solved"], "ratio"), truth

        return world

    worlds: dict[str, World] = {}
    for binary, n, along in itertools.product((False, True), (20, 50), (0.0, -0.9)):
        kind = "0/1" if binary else "normal"
        worlds[f"{kind} scores, {n} clusters, correlation with log size {along:g}"] = sized(n, binary, along)
    for n, of_clusters, spread in itertools.product((30, 100), (True, False), (1.0,)):
        of = "clusters" if of_clusters else "rows"
        worlds[f"slope, {n} clusters, lognormal {spread:g} covariate of {of}"] = slope(n, of_clusters, spread)
    for rate, n, logs in itertools.product((0.2, 0.6), (20, 100), (False, True)):
        name = f"cost over successes, {n} clusters, rate {rate:g}{', on the log scale' if logs else ''}"
        worlds[name] = ratio(n, rate, logs)
    for name, world in worlds.items():
        _held(name, world, n_logs, er.errors.EvalregWarning)


def classes(n_logs: int) -> None:
    """Macro averages of recall, precision and F1 of four classes with shares .6, .3, .07 and .03."""
    labels, shares = np.array(list("abcd")), np.array([0.6, 0.3, 0.07, 0.03])

    def world(n: int, right: float, metric: str) -> World:
        # What is not right is any of the other classes.
        confusion = np.where(np.eye(4) > 0, right, (1 - right) / 3)
        recall, precision = np.diag(confusion), right * shares / (shares @ confusion)
        true = {"recall": recall, "precision": precision, "f1": 2 * recall * precision / (recall + precision)}[metric]

        def draw(rng: np.random.Generator) -> tuple[er.Results, float]:
            of = rng.choice(4, n, p=shares)
            while np.unique(of).size < 4:
                of = rng.choice(4, n, p=shares)
            said = (rng.random(n)[:, None] > np.cumsum(confusion, axis=1)[of]).sum(axis=1)
            log = pd.DataFrame({"truth": labels[of], "said": labels[said], "row": np.arange(n)})
            return er.classification(log, truth="truth", predicted="said", metric=metric, average="macro"), true.mean()

        return draw

    for right, n, metric in itertools.product((0.75, 0.9), (100, 200, 400, 1000), ("recall", "precision", "f1")):
        name = f"{metric}, {n} rows of which {right:.0%} are right"
        _held(name, world(n, right, metric), n_logs, er.errors.FewClustersWarning)


def failed(n_logs: int) -> None:
    """Models of one true rate on 200 questions, where one loses three in ten of its wrong answers."""
    rng, held = np.random.default_rng(1), {"left out": 0, "scored 0": 0}
    for _ in range(n_logs):
        score = (rng.random((2, 200)) < 0.6) * 1.0
        gone = (score[1] == 0) & (rng.random(200) < 0.3)
        log = pd.DataFrame({"model": np.repeat(["a", "b"], 200), "question": np.tile(np.arange(200), 2)})
        log["score"] = score.ravel()
        lost = np.concatenate([np.zeros(200, dtype=bool), gone])
        for name, part in (("left out", log[~lost]), ("scored 0", log)):
            with er.errors.muted():
                low, high = er.compare(part, item="question").results.conf_int().iloc[0]
            held[name] += low <= 0 <= high
    print(", ".join(f"{name}: {count / n_logs:.3f}" for name, count in held.items()), flush=True)


def posterior(n_logs: int) -> None:
    """Equal-tailed intervals of a mean of .98, in five clusters of ten rows, by the intraclass correlation."""
    for icc in (0.05, 0.3):
        rng, held = np.random.default_rng(1), {"posterior": 0, "default": 0}
        for _ in range(n_logs):
            rate = rng.beta(0.98 * (1 / icc - 1), 0.02 * (1 / icc - 1), 5)
            codes = np.repeat(np.arange(5), 10)
            log = pd.DataFrame({"score": (rng.random(50) < rate[codes]) * 1.0, "passage": codes})
            with er.errors.muted():
                try:
                    results = er.mean(log, groups="passage")
                except er.errors.ConstantScoreError:
                    continue
                ends = {"posterior": results.posterior().interval().iloc[0], "default": results.conf_int().iloc[0]}
            for name, (low, high) in ends.items():
                held[name] += low <= 0.98 <= high
        print(f"icc {icc:g}:", ", ".join(f"{name} {count / n_logs:.3f}" for name, count in held.items()), flush=True)


TABLES: dict[str, tuple[Callable[[int], None], int]] = {
    "quantiles": (quantiles, 1000),
    "tails": (tails, 1000),
    "few": (few, 1000),
    "unsaid": (unsaid, 300),
    "classes": (classes, 500),
    "failed": (failed, 500),
    "posterior": (posterior, 500),
}


if __name__ == "__main__":
    run(TABLES, __doc__ or "")
