"""Rules that were compared before a default was chosen, on the published grid, for the pages in docs/decisions.

Run with ``python -m benchmarks.coverage.rules --family means --logs 1000``, or ``--family crossed``; a minute or two.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.coverage import tables, worlds
from benchmarks.coverage.formulas import (
    CrossedFit,
    Fit,
    combined_dof,
    crossed_mean,
    least_squares,
    summed_dof,
    t_quantile,
)
from benchmarks.coverage.grid import Cell, full
from benchmarks.coverage.methods import (
    CROSSED,
    DEFAULT,
    FEW,
    LEVEL,
    Bounds,
    clopper_pearson,
    interval,
    jeffreys,
    logit,
    settled,
    wilson,
)
from benchmarks.coverage.page import BOUNDED, TOP
from benchmarks.coverage.run import BLOCK
from benchmarks.coverage.tables import CROSSED_TARGET, ENOUGH_CLUSTERS, ENOUGH_JUDGES, TARGET
from benchmarks.coverage.worlds import Clusters, FloatArray

Rules = Mapping[str, Bounds]


def both(first: Bounds, second: Bounds) -> Bounds:
    """The smallest intervals that hold both."""
    return Bounds(np.minimum(first.low, second.low), np.maximum(first.high, second.high))


def where(condition: FloatArray, then: Bounds, otherwise: Bounds) -> Bounds:
    """One interval where a condition holds, another elsewhere."""
    return Bounds(np.where(condition, then.low, otherwise.low), np.where(condition, then.high, otherwise.high))


def blocks(cell: Cell, n_logs: int) -> Iterator[np.random.Generator]:
    """Return the generators of the logs that the published grid draws first."""
    for number in range(n_logs // BLOCK):
        yield np.random.default_rng([cell.seed, number])


def bounded_means(cell: Cell, rng: np.random.Generator) -> Rules:
    """Intervals of a mean in [0, 1] by every rule."""
    clusters = Clusters(worlds.cluster_sizes(cell["sizes"], cell["G"]))
    Y = worlds.clustered_scores(rng, clusters, cell["scores"], cell["mean"], cell["icc"], BLOCK)
    fit = least_squares(np.ones((Y.shape[0], 1)), clusters, Y, 0)
    variance = settled(fit.variance["CR2"], fit.variance["rows"])
    known = (variance > 0) & (fit.estimate > 0) & (fit.estimate < 1)
    found = _widened(fit, np.where(known, fit.estimate, 0.5), np.where(known, variance, 1.0))
    given = fit.estimate, variance, fit.dof["CR2"], fit.n_rows, fit.effective, fit.alike
    found["both, trials by what carries the mean (the default)"] = interval(
        "widened", *given, bounded=True, spread=fit.spread
    )
    instead = clopper_pearson(fit.estimate, fit.effective)
    return {name: where(known, bounds, instead) for name, bounds in found.items()}


def _widened(fit: Fit, p: FloatArray, V: FloatArray) -> dict[str, Bounds]:
    n, G, dof = fit.n_rows, fit.n_clusters, fit.dof["CR2"]
    ratio = (t_quantile(LEVEL, n - 1) / t_quantile(LEVEL, dof)) ** 2
    rarer = np.minimum(p, 1 - p)

    def trials(variance: FloatArray, factor: FloatArray | float = 1.0) -> FloatArray:
        return np.minimum(n, p * (1 - p) / variance * factor)

    larger = np.maximum(V, fit.alike)
    few, effective = trials(larger) * rarer, trials(larger, ratio)
    by_variance, scale = trials(V, ratio), logit(p, V, dof)
    exact = jeffreys(p, effective)
    away = Bounds(np.where(p > 0.5, exact.low, scale.low), np.where(p > 0.5, scale.high, exact.high))
    found = {"logit": scale, "both, few < 5, a row at most one trial": where(few < FEW, both(scale, exact), scale)}
    for most in (3, 8, 10):
        found[f"both, few < {most}"] = where(few < most, both(scale, exact), scale)
    found |= {
        "of both only the end away from the bound, few < 5": where(few < FEW, both(scale, away), scale),
        "Jeffreys alone, few < 5": where(few < FEW, exact, scale),
        "Jeffreys alone, always": exact,
        "logit and Wilson, few < 5": where(few < FEW, both(scale, wilson(p, effective)), scale),
        "logit and Clopper-Pearson, few < 5": where(few < FEW, both(scale, clopper_pearson(p, effective)), scale),
    }
    plainly = trials(V) * rarer
    for name, rule in (("Jeffreys", jeffreys), ("Clopper-Pearson", clopper_pearson)):
        bounds = where(plainly < FEW, both(scale, rule(p, by_variance)), scale)
        found[f"logit and {name}, few < 5, n* by the variance in use"] = bounds
    for name, most in (("G", G), ("Kish's G*", fit.effective)):
        fewer = jeffreys(p, np.minimum(by_variance, most))
        found[f"both, few < 5, n* at most {name}"] = where(plainly < FEW, both(scale, fewer), scale)
    return found


def crossed_dofs(cell: Cell, rng: np.random.Generator) -> Rules:
    """Intervals of a mean of prompts by judges with the default's variance, by degrees of freedom."""
    shape, binary = (cell["prompts"], cell["judges"]), cell["scores"] == "binary"
    mask = worlds.crossed_mask(rng, *shape, cell["grid"])
    fit = crossed_mean(
        worlds.crossed_scores(rng, shape, cell["scores"], cell["mean"], cell["judge_share"], BLOCK), mask
    )
    variance = settled(CROSSED[DEFAULT].variance(fit), fit.rows)
    kind = "widened" if binary else "wald"
    given = fit.counts[2], fit.effective["both"], fit.alike["both"]
    return {
        name: interval(kind, fit.estimate, variance, dof(fit, variance), *given, bounded=binary)
        for name, dof in CROSSED_DOFS.items()
    }


def _axes_alone(fit: CrossedFit, power: float) -> FloatArray:
    """1/sum_d share_d^power/d_d with the shares of the one-way variances."""
    share = fit.adjusted[:2] / np.maximum(fit.adjusted[:2].sum(axis=0), np.finfo(float).tiny)
    below = np.sum(share**power / np.array(fit.dof[:2])[:, None], axis=0)
    return np.maximum(1 / np.maximum(below, np.finfo(float).tiny), fit.smallest - 1)


def _of_the_larger(fit: CrossedFit, variance: FloatArray) -> FloatArray:
    """Of the axis with fewest clusters where it has the larger variance, of the combined variance elsewhere."""
    fewest = int(np.argmin(fit.counts[:2]))
    return np.where(fit.adjusted[:2].argmax(axis=0) == fewest, fit.smallest - 1.0, combined_dof(variance, fit))


CROSSED_DOFS: Mapping[str, Callable[[CrossedFit, FloatArray], FloatArray | float]] = {
    "a t for each piece (the default)": lambda fit, variance: summed_dof(variance, fit, "max", LEVEL),
    "the largest one-way variance above": lambda fit, _: combined_dof(fit.adjusted[:2].max(axis=0), fit),
    "the combined variance above": lambda fit, variance: combined_dof(variance, fit),
    "of the larger axis": _of_the_larger,
    "of the axes' sum, shares squared": lambda fit, _: _axes_alone(fit, 2.0),
    "of the axes' sum, shares as they are": lambda fit, _: _axes_alone(fit, 1.0),
    "geometric mean of the combined and min G - 1": lambda fit, v: np.sqrt(combined_dof(v, fit) * (fit.smallest - 1)),
    "min G - 1": lambda fit, _: float(fit.smallest - 1),
}


@dataclass(frozen=True)
class Comparison:
    """What is compared on which cells.

    Parameters
    ----------
    rules : callable
        Takes a cell and a generator; returns intervals of a block of logs by rule, the first the reference of widths.
    chosen : callable
        Whether a cell of the published grid belongs to it.
    enough : callable
        Whether the target is about a cell.
    target : float
        Coverage that no such cell should be below.
    parts : mapping of str to callable
        Further columns: the mean coverage over some cells.
    """

    rules: Callable[[Cell, np.random.Generator], Rules]
    chosen: Callable[[Cell], bool]
    enough: Callable[[Cell], bool]
    target: float
    parts: Mapping[str, Callable[[Cell], bool]]


COMPARISONS = {
    "means": Comparison(
        bounded_means,
        lambda cell: cell.family == "means" and cell["scores"] in BOUNDED,
        lambda cell: bool(cell["G"] >= ENOUGH_CLUSTERS),
        TARGET,
        {"at the top": lambda cell: bool(cell["mean"] >= TOP), "balanced": lambda cell: cell["sizes"] == "balanced"},
    ),
    "crossed": Comparison(
        crossed_dofs,
        lambda cell: cell.family == "crossed",
        lambda cell: bool(cell["judges"] >= ENOUGH_JUDGES),
        CROSSED_TARGET,
        {
            "3 judges": lambda cell: cell["judges"] == 3,
            "judges who differ": lambda cell: bool(cell["judge_share"] == 0.3),
        },
    ),
}


def joined(parts: list[Rules]) -> Rules:
    """Rules of several blocks of logs as one."""
    return {
        name: Bounds(
            np.concatenate([part[name].low for part in parts]), np.concatenate([part[name].high for part in parts])
        )
        for name in parts[0]
    }


def compare(comparison: Comparison, n_logs: int) -> str:
    """Table of coverage and width by rule."""
    cells = [cell for cell in full() if comparison.chosen(cell)]
    coverage: dict[str, list[float]] = {}
    width: dict[str, list[float]] = {}
    for cell in cells:
        for name, bounds in joined([comparison.rules(cell, rng) for rng in blocks(cell, n_logs)]).items():
            held = (bounds.low <= cell["mean"]) & (cell["mean"] <= bounds.high)
            coverage.setdefault(name, []).append(float(held.mean()))
            width.setdefault(name, []).append(float(np.mean(bounds.high - bounds.low)))
    enough = np.array([comparison.enough(cell) for cell in cells])
    parts = {name: np.array([belongs(cell) for cell in cells]) for name, belongs in comparison.parts.items()}
    reference, rows = next(iter(width.values())), []
    for name, values in coverage.items():
        covered, ratio = np.array(values), np.log(np.array(width[name]) / reference)
        short = covered < comparison.target
        rows.append([name, tables.share(covered.mean()), tables.share(covered[enough].min())])
        rows[-1] += [str(short.sum()), str(short[enough].sum()), f"{np.exp(ratio.mean()):.2f}"]
        for part in parts.values():
            rows[-1] += [tables.share(covered[part].mean()), f"{np.exp(ratio[part].mean()):.2f}"]
    below = f"under {tables.share(comparison.target)}"
    header = ["rule", "mean", "worst, enough clusters", below, "of them enough clusters", "width"]
    return tables.grid(header + [text for name in parts for text in (f"mean, {name}", f"width, {name}")], rows)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", choices=COMPARISONS, default="means", help="which default")
    parser.add_argument("--logs", type=int, default=1000, help=f"logs of a world, a multiple of {BLOCK}")
    options = parser.parse_args()
    print(compare(COMPARISONS[options.family], options.logs))


if __name__ == "__main__":
    main()
