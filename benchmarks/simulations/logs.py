"""What is asked of one log at a time, through the public functions: boards, many models, few judges, odds."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

import evalreg as er
from benchmarks.simulations import boards, worlds
from benchmarks.simulations.grid import Cell
from benchmarks.simulations.questions import WORLDS
from benchmarks.simulations.worlds import FloatArray

LEVEL = 0.05
TIED = 1e-9

Counts: TypeAlias = dict[str, dict[str, float]]
"""Counts of one log by method."""
Draw: TypeAlias = Callable[[np.random.Generator], Any]
"""Draws a log and gives what is asked about: results, or the intervals themselves."""
Asked: TypeAlias = tuple[Draw, Callable[[Any, int], Counts]]
"""What draws a log, and what counts its statements, with a seed."""


def simulate(cell: Cell, draw: Draw, statements: Callable[[Any, int], Counts]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw logs one by one and count what is said of them.

    Returns
    -------
    methods, about : dict
        As in the record of a cell. A log that the package refuses is missing from every method.
    """
    tallies: dict[str, Counter[str]] = {}
    warned: dict[str, list[Any]] = {}
    refused: Counter[str] = Counter()
    for log in range(cell.n_logs):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                results = draw(np.random.default_rng([cell.seed, log]))
            except er.errors.DataError as error:
                refused[type(error).__name__] += 1
                continue
        for kind, text in {item.category.__name__: str(item.message) for item in caught}.items():
            warned.setdefault(kind, [0, text])[0] += 1
        with warnings.catch_warnings(action="ignore"):
            for name, counts in statements(results, log).items():
                tallies.setdefault(name, Counter()).update(counts)
    for counts in tallies.values():
        counts["missing"] += sum(refused.values())
        counts["logs"] += sum(refused.values())
    shares = {key: [count / cell.n_logs, text] for key, (count, text) in sorted(warned.items())}
    about = {"checked": cell.n_logs, "warnings": shares, "refused": dict(refused)}
    return {name: dict(counts) for name, counts in tallies.items()}, about


def run(cell: Cell) -> tuple[dict[str, Any], dict[str, Any]]:
    """Counts by method of a cell whose logs are drawn one by one."""
    return simulate(cell, *FAMILIES[cell.family](cell))


# Counts


def nothing() -> dict[str, float]:
    """Counts of a log of which a method says nothing."""
    return {"logs": 1, "missing": 1, "too_high": 0, "too_low": 0, "width": 0.0}


def single(low: FloatArray, high: FloatArray, truth: FloatArray) -> dict[str, float]:
    """Counts with every interval as one, on average over them."""
    known = ~(np.isnan(low) | np.isnan(high))
    ends = {"too_high": low[known] > truth[known], "too_low": high[known] < truth[known], "width": (high - low)[known]}
    return {"logs": 1, "missing": float(np.mean(~known))} | {
        name: float(np.sum(values) / truth.size) for name, values in ends.items()
    }


def each(limits: pd.DataFrame, truth: FloatArray) -> dict[str, float]:
    """The same of a table of `conf_int`."""
    return single(limits[0].to_numpy(), limits[1].to_numpy(), truth)


def whole(low: pd.Series, high: pd.Series, truth: FloatArray) -> dict[str, float]:
    """Counts with all intervals as one statement; one without an interval says nothing false."""
    low, high = low.to_numpy(dtype=float), high.to_numpy(dtype=float)
    above, below = bool(np.any(low > truth)), bool(np.any(high < truth))
    missed = {"too_high": int(above), "too_low": int(below and not above)}
    return {"logs": 1, "missing": 0, **missed, "width": float(np.nanmean(high - low))}


# Many models


def joint_statements(results: er.Results, truth: pd.Series, seed: int) -> Counts:
    """Families of statements, each of them true or false as a whole."""
    values, K = truth.to_numpy(), truth.size
    gaps = np.subtract.outer(values, values)
    place = {model: number for number, model in enumerate(truth.index)}

    def gap(table: pd.DataFrame) -> FloatArray:
        return np.array([gaps[place[left], place[right]] for left, right in table.index])

    bands, pairs = results.simultaneous(seed=seed), results.simultaneous(contrasts="pairs", seed=seed)
    counts = {
        "bands": whole(bands["lower"], bands["upper"], values),
        "bands of pairs": whole(pairs["lower"], pairs["upper"], gap(pairs)),
    }
    for name, alpha in (("unadjusted", LEVEL), ("Bonferroni", LEVEL / K)):
        limits = results.conf_int(alpha=alpha)
        counts[f"{name} intervals"] = whole(limits[0], limits[1], values)
    for name, alpha in (("unadjusted", LEVEL), ("Bonferroni", LEVEL / (K * (K - 1) // 2))):
        table = results.pairwise(alpha=alpha)
        counts[f"{name} pairs"] = whole(table["lower"], table["upper"], gap(table))
    ranks = results.ranks(seed=seed).loc[truth.index]
    counts["rank sets"] = whole(ranks["lower"], ranks["upper"], 1 + np.sum(gaps < -TIED, axis=1))
    return counts


def bands(cell: Cell) -> Asked:
    """Bands, pairs and rank sets of means of models on the same questions."""
    models = boards.names(cell["models"])
    truth = pd.Series(0.75 + cell["spread"] * np.linspace(0.5, -0.5, cell["models"]), index=models)

    def draw(rng: np.random.Generator) -> er.Results:
        scores = worlds.many_models(rng, cell["G"], truth.to_numpy(), cell["icc"])
        question, model = np.indices(scores.shape).reshape(2, -1)
        log = pd.DataFrame({"score": scores.ravel(), "model": np.array(models)[model], "question": question})
        return er.mean(log, by="model", item="question")

    def statements(results: er.Results, seed: int) -> Counts:
        return {"single intervals": each(results.conf_int(), truth.to_numpy())} | joint_statements(results, truth, seed)

    return draw, statements


def leaderboards(cell: Cell) -> Asked:
    """Single intervals of a board by every method, and joint statements where they are asked for."""
    design = boards.schedule(cell["schedule"], cell["models"], cell["prompts"])
    target = boards.truth(cell["estimator"], cell["schedule"], cell["models"], cell["prompts"], cell["judge_sd"])
    peers = {"arena-rank": boards.arena_rank} if cell["estimator"] == "bradley_terry" else {}
    if cell["judges"] == 1:
        peers |= {"prompt bootstrap": boards.prompt_bootstrap}

    def draw(rng: np.random.Generator) -> er.Results:
        return boards.fit_board(cell, boards.draw(rng, design, cell["judges"], cell["judge_sd"]))

    def statements(board: er.Results, seed: int) -> Counts:
        truth = target.loc[list(board.params.index)]
        counts = {"single intervals": each(board.conf_int(), truth.to_numpy())}
        for name, options in boards.OTHERS[cell["estimator"]].items():
            try:
                counts[f"single intervals, {name}"] = each(board.with_cov(**options).conf_int(), truth.to_numpy())
            except er.errors.EvalregError:
                counts[f"single intervals, {name}"] = nothing()
        for name, peer in peers.items():
            counts[f"single intervals, {name}"] = each(peer(board), truth.to_numpy())
        return counts | (joint_statements(board, truth, seed) if cell["together"] else {})

    return draw, statements


# Pairs of models under few judges: false statements, and true differences found

HOLM, BANDS, RANKS, APART = "Holm", "bands of pairs", "rank sets", "Holm, judges by themselves"
# Scores of comparisons are one half and this times the difference of two scores, far from 0 and 1.
GRADE = 0.02


def tastes(cell: Cell) -> tuple[FloatArray, FloatArray]:
    """Quality of each model, the first half better by the gap, and the spread of judges' tastes for it."""
    K = cell["models"]
    taste = np.full(K, cell["taste"])
    taste[0] *= dict(cell.parameters).get("first", 1)
    return np.where(np.arange(K) < K // 2, cell["gap"], 0.0), taste


def scored(rng: np.random.Generator, cell: Cell) -> pd.DataFrame:
    """Scores of every model on every prompt by every judge: quality, a judge's taste for a model, and unit noise.

    What a prompt gives to all models falls out of every difference, and is left out.
    """
    quality, taste = tastes(cell)
    labels, shape = np.array(boards.names(quality.size)), (cell["prompts"], cell["judges"], quality.size)
    scores = quality + taste * rng.standard_normal(shape[1:]) + rng.standard_normal(shape)
    prompt, judge, model = (axis.ravel() for axis in np.indices(shape))
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


def few_judges(cell: Cell) -> Asked:
    """All pairs of models under few judges, who are taken to differ alike over models in cells of "alike"."""
    quality, _ = tastes(cell)
    alike = {"alike": "judge"} if cell.family == "alike" else {}
    truth = quality
    if cell["estimator"] == "mean" or cell["schedule"] == "graded":

        def draw(rng: np.random.Generator) -> er.Results:
            log = scored(rng, cell)
            if cell["estimator"] != "mean":
                return boards.fit_board(cell, graded(log), **alike)
            return er.mean(log, by="model", groups="prompt + judge")

    else:
        design = boards.schedule(cell["schedule"], cell["models"], cell["prompts"])
        truth = boards.TRUTHS[cell["estimator"]](boards.expected_between(quality, cell["taste"]), design.met)

        def draw(rng: np.random.Generator) -> er.Results:
            log = boards.draw(rng, design, cell["judges"], cell["taste"], quality)
            return boards.fit_board(cell, log, **alike)

    def statements(results: er.Results, seed: int) -> Counts:
        return decided(results, truth, seed, apart=bool(alike))

    return draw, statements


def decided(results: er.Results, truth: FloatArray, seed: int, *, apart: bool) -> Counts:
    """Counts of one log: anything false, anything in the wrong direction, and the share of true differences found."""
    place = {model: number for number, model in enumerate(results.params.index)}
    holm, bands = results.pairwise("step-down", seed=seed), results.simultaneous(contrasts="pairs", seed=seed)
    pairs = {HOLM: holm["p_adjusted"] <= LEVEL, BANDS: ((bands["lower"] > 0) | (bands["upper"] < 0)).loc[holm.index]}
    if apart:
        pairs[APART] = results.with_cov(alike=None).pairwise("step-down", seed=seed)["p_adjusted"] <= LEVEL
    gap = np.array([truth[place[left]] - truth[place[right]] for left, right in holm.index])
    differ, same_way = np.abs(gap) > TIED, holm["difference"].to_numpy() * gap > 0
    counts = {}
    for name, told_apart in pairs.items():
        said = told_apart.to_numpy()
        found = np.sum(said & differ & same_way) / max(differ.sum(), 1)
        wrong, false = np.any(said & differ & ~same_way), np.any(said & ~(differ & same_way))
        counts[name] = {"logs": 1, "false": int(false), "wrong": int(wrong), "found": float(found)}
    ranks, rank = results.ranks(seed=seed).loc[list(place)], 1 + np.sum(truth > truth[:, None] + TIED, axis=1)
    missed = bool(np.any((rank < ranks["lower"]) | (rank > ranks["upper"])))
    return counts | {RANKS: {"logs": 1, "false": int(missed), "wrong": 0, "found": counts[HOLM]["found"]}}


# Odds and net benefits of two models

# Comparisons of a prompt, or judges who each make one; what they share.
SIZE, JUDGES, ICC, JUDGE_SHARE = 4, 5, 0.3, 0.1


def odds(cell: Cell) -> Asked:
    """By the interval of the win rate and by their standard errors; odds are refused where a model won all."""
    prompts, names = cell["prompts"], boards.names(2)
    S = np.array([cell["rate"], 1 - cell["rate"]])

    def draw(rng: np.random.Generator) -> er.Results:
        if cell["design"] == "clustered":
            clusters = worlds.Clusters(np.full(prompts, SIZE))
            won = worlds.clustered_scores(rng, clusters, "binary", cell["rate"], ICC, 1)[:, 0]
            prompt, judge, groups = clusters.codes, 0, "prompt"
        else:
            won = worlds.crossed_scores(rng, (prompts, JUDGES), "binary", cell["rate"], JUDGE_SHARE, 1).ravel()
            (prompt, judge), groups = np.indices((prompts, JUDGES)).reshape(2, -1), "prompt + judge"
        log = pd.DataFrame({"left": names[0], "right": names[1], "score": won, "prompt": prompt, "judge": judge})
        return er.win_rate(log, left="left", right="right", score="score", groups=groups)

    def statements(board: Any, _: int) -> Counts:
        benefit = board.net_benefit()
        counts = {
            "win rate": each(board.conf_int(), S),
            "net benefit": each(benefit.conf_int(), 2 * S - 1),
            "net benefit, by its error": each(benefit.conf_int(method="wald"), 2 * S - 1),
        }
        if board.params.max() == 1:
            return counts
        odds = board.odds()
        gap = odds.contrast(" - ".join(f"`{name}`" for name in names))
        return counts | {
            "odds": each(odds.conf_int(), S / (1 - S)),
            "odds, by their error": each(odds.conf_int(method="wald"), S / (1 - S)),
            "difference of odds": each(gap.conf_int(), -np.diff(S / (1 - S))),
        }

    return draw, statements


def question(cell: Cell) -> Asked:
    """A world of its own; see `questions`."""
    _, make, parameters = WORLDS[cell["of"]]
    world = make(*parameters)

    def statements(ends: Mapping[str, tuple[float, float]], _: int) -> Counts:
        limits = {name: np.array(ends[name], dtype=float)[:, None] for name in world.truth}
        return {name: single(low, high, np.array([world.truth[name]])) for name, (low, high) in limits.items()}

    return world.ask, statements


FAMILIES: Mapping[str, Callable[[Cell], Asked]] = {
    "bands": bands,
    "boards": leaderboards,
    "familywise": few_judges,
    "alike": few_judges,
    "odds": odds,
    "question": question,
}
