"""Statements about many models at once: family-wise coverage of bands, of pairs and of rank sets."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

import evalreg as er
from benchmarks.coverage import worlds
from benchmarks.coverage.grid import Cell
from benchmarks.coverage.worlds import FloatArray

LEVEL = 0.05
MEAN = 0.75
TIED = 1e-12

Peer: TypeAlias = Callable[[er.Results], pd.DataFrame]
"""Limits of the parameters from results, made as someone else does."""


def run(cell: Cell) -> tuple[dict[str, Any], dict[str, Any]]:
    """Counts by method, and what else is known, for means of models on the same questions."""
    truth = MEAN + cell["spread"] * np.linspace(0.5, -0.5, cell["models"])
    models = [f"model-{number:02d}" for number in range(1, truth.size + 1)]

    def fit(rng: np.random.Generator) -> er.Results:
        scores = worlds.many_models(rng, cell["G"], truth, cell["icc"])
        frame = pd.DataFrame(
            {
                "score": scores.ravel(),
                "model": np.tile(models, cell["G"]),
                "question": np.repeat(np.arange(cell["G"]), truth.size),
            }
        )
        return er.mean(frame, by="model", item="question")

    return simulate(cell, fit, pd.Series(truth, index=models), {})


def simulate(
    cell: Cell,
    fit: Callable[[np.random.Generator], er.Results],
    truth: pd.Series,
    others: Mapping[str, Mapping[str, Any]],
    peers: Mapping[str, Peer] = MappingProxyType({}),
    *,
    together: bool = True,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw logs one by one, and count the statements that are false.

    Parameters
    ----------
    cell : Cell
        Number of logs, and the seed.
    fit : callable
        Takes a Generator; draws a log and returns its results.
    truth : Series
        True values by model.
    others : mapping of str to mapping
        Arguments of `Results.with_cov` by method, for single intervals beside the default.
    peers : mapping of str to callable
        Further single intervals, from the results.
    together : bool
        Whether bands, pairs and rank sets are asked for too.

    Returns
    -------
    methods, about : dict
        As in the record of a cell. A log that the package refuses is missing from every method.
    """
    tallies: dict[str, Counter[str]] = {}
    warned: dict[str, list[Any]] = {}
    refused: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for log in range(cell.n_logs):
            rng = np.random.default_rng([cell.seed, log])
            try:
                with warnings.catch_warnings(record=True) as caught:
                    results = fit(rng)
            except er.errors.EvalregError as error:
                refused[type(error).__name__] += 1
                continue
            for kind, text in {item.category.__name__: str(item.message) for item in caught}.items():
                warned.setdefault(kind, [0, text])[0] += 1
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", er.errors.EvalregWarning)
                found = single_statements(results, truth, others, peers)
                if together:
                    found |= joint_statements(results, truth, log)
                for name, counts in found.items():
                    tallies.setdefault(name, Counter()).update(counts)
    for counts in tallies.values():
        counts["missing"] += sum(refused.values())
        counts["logs"] += sum(refused.values())
    shares = {key: [count / cell.n_logs, text] for key, (count, text) in sorted(warned.items())}
    about = {"checked": cell.n_logs, "warnings": shares, "refused": dict(refused)}
    return {name: dict(counts) for name, counts in tallies.items()}, about


Counts = dict[str, dict[str, float]]
"""Counts of one log by method."""


def single_statements(
    results: er.Results, truth: pd.Series, others: Mapping[str, Mapping[str, Any]], peers: Mapping[str, Peer]
) -> Counts:
    """Single intervals of the default and of other methods, on average over the models."""
    values = truth.loc[list(results.params.index)].to_numpy()
    found = {"single intervals": single(results.conf_int(), values)}
    for name, options in others.items():
        try:
            found[f"single intervals, {name}"] = single(results.with_cov(**options).conf_int(), values)
        except er.errors.EvalregError:
            found[f"single intervals, {name}"] = nothing()
    return found | {f"single intervals, {name}": single(peer(results), values) for name, peer in peers.items()}


def joint_statements(results: er.Results, truth: pd.Series, seed: int) -> Counts:
    """Families of statements, each of them true or false as a whole."""
    truth = truth.loc[list(results.params.index)]
    values, K = truth.to_numpy(), truth.size
    gaps = np.subtract.outer(values, values)
    place = {model: number for number, model in enumerate(truth.index)}

    def gap(table: pd.DataFrame) -> FloatArray:
        return np.array([gaps[place[left], place[right]] for left, right in table.index])

    bands, pairs = results.simultaneous(seed=seed), results.simultaneous(contrasts="pairs", seed=seed)
    found = {
        "bands": whole(bands["lower"], bands["upper"], values),
        "bands of pairs": whole(pairs["lower"], pairs["upper"], gap(pairs)),
    }
    n_pairs = K * (K - 1) // 2
    for name, alpha in (("unadjusted", LEVEL), ("Bonferroni", LEVEL / K)):
        each = results.conf_int(alpha=alpha)
        found[f"{name} intervals"] = whole(each[0], each[1], values)
    for name, alpha in (("unadjusted", LEVEL), ("Bonferroni", LEVEL / n_pairs)):
        each = results.pairwise(alpha=alpha)
        found[f"{name} pairs"] = whole(each["lower"], each["upper"], gap(each))
    ranks = results.ranks(seed=seed).loc[truth.index]
    true_rank = 1 + np.sum(gaps < -TIED, axis=1)
    found["rank sets"] = whole(ranks["lower"], ranks["upper"], true_rank)
    return found


def nothing() -> dict[str, float]:
    """Counts of a log of which a method says nothing."""
    return {"logs": 1, "missing": 1, "too_high": 0, "too_low": 0, "width": 0.0, "width_squared": 0.0}


def single(limits: pd.DataFrame, truth: FloatArray) -> dict[str, float]:
    """Counts with every model's interval as one."""
    low, high = limits[0].to_numpy(), limits[1].to_numpy()
    known = ~(np.isnan(low) | np.isnan(high))
    return {
        "logs": 1,
        "missing": float(np.mean(~known)),
        "too_high": float(np.sum(low[known] > truth[known]) / truth.size),
        "too_low": float(np.sum(high[known] < truth[known]) / truth.size),
        "width": float(np.sum((high - low)[known]) / truth.size),
        "width_squared": float(np.sum((high - low)[known] ** 2) / truth.size),
    }


def whole(low: pd.Series, high: pd.Series, truth: FloatArray) -> dict[str, float]:
    """Counts with all intervals as one statement; one without an interval says nothing false."""
    low, high = low.to_numpy(dtype=float), high.to_numpy(dtype=float)
    above, below = bool(np.any(low > truth)), bool(np.any(high < truth))
    width = float(np.nanmean(high - low))
    missed = {"too_high": int(above), "too_low": int(below and not above)}
    return {"logs": 1, "missing": 0, **missed, "width": width, "width_squared": width**2}
