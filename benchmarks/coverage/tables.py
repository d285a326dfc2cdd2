"""Markdown tables of measured coverage, with the Monte-Carlo error of every kind of figure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.coverage.methods import DEFAULT

BEGIN, END = "<!-- coverage tables: begin -->", "<!-- coverage tables: end -->"
TARGET = 0.9
SCHEDULES = {"dense": 0, "medium": 1, "star": 2, "sparse": 3, "neighbours": 4}
CROSSED_TARGET = 0.93
ENOUGH_CLUSTERS = 10
ENOUGH_JUDGES = 5
# Not offered by the package, so never a better choice within it.
BALANCED = ("balanced", "complete")
PEERS = (
    "statsmodels",
    "pyfixest",
    "linearmodels",
    "arena-rank",
    "Miller",
    "row bootstrap",
    "cluster bootstrap",
    "prompt bootstrap",
)


@dataclass(frozen=True)
class Measured:
    """One method in one cell.

    Parameters
    ----------
    cell : dict
        The record of the cell.
    counts : dict
        The counts of the method.
    """

    cell: dict[str, Any]
    counts: dict[str, float]

    @property
    def coverage(self) -> float:
        """Share of logs whose interval holds the truth; a log without an interval counts as a miss."""
        missed = self.counts["too_high"] + self.counts["too_low"] + self.counts["missing"]
        return 1 - missed / self.counts["logs"]

    @property
    def width(self) -> float:
        """Mean width where there is an interval."""
        known = self.counts["logs"] - self.counts["missing"]
        return self.counts["width"] / known if known else math.nan

    def share(self, count: str) -> float:
        """A count over the logs."""
        return self.counts[count] / self.counts["logs"]

    def size(self, level: float) -> float:
        """Rejections of the truth by the two-sided test."""
        return (self.counts[f"above_{level:g}"] + self.counts[f"below_{level:g}"]) / self.counts["logs"]


Records = list[dict[str, Any]]


def read(folder: Path) -> Records:
    """Records of a folder, by name."""
    return sorted((json.loads(path.read_text()) for path in folder.glob("*.json")), key=lambda one: one["name"])


def measured(records: Iterable[dict[str, Any]], method: str = DEFAULT) -> list[Measured]:
    """One method in every cell that has it."""
    return [Measured(one, one["methods"][method]) for one in records if method in one["methods"]]


def where(records: Records, **levels: Any) -> Records:
    """Records with these parameters; a tuple stands for any of its values, a function for a condition."""

    def fits(value: Any, level: Any) -> bool:
        if callable(level):
            return bool(level(value))
        return value in level if isinstance(level, tuple) else value == level

    def chosen(one: dict[str, Any]) -> bool:
        world = {"family": one["family"], **one["parameters"]}
        return all(key in world and fits(world[key], level) for key, level in levels.items())

    return [one for one in records if chosen(one)]


def grid(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, numbers to the right."""
    lines = [list(header), ["---", *["---:"] * (len(header) - 1)], *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def share(value: float) -> str:
    """Three decimals without the zero in front, as coverage is written here."""
    return "" if math.isnan(value) else f"{value:.3f}".replace("0.", ".", 1)


def mean_and_worst(found: Sequence[Measured]) -> str:
    """Mean coverage, and the worst cell in brackets."""
    if not found:
        return ""
    values = [one.coverage for one in found]
    return f"{share(float(np.mean(values)))} ({share(min(values))})"


def by_method(records: Records, few: Callable[[dict[str, Any]], bool]) -> str:
    """All methods over the same cells, `few` telling the cells that the target is not about."""
    names = list(dict.fromkeys(name for one in records for name in one["methods"]))
    reference = {one.cell["name"]: one.width for one in measured(records)}
    rows = []
    for name in sorted(names, key=_order):
        found = measured(records, name)
        enough = [one for one in found if not few(one.cell)]
        ratio = np.mean([np.log(one.width / reference[one.cell["name"]]) for one in found if one.width > 0])
        rows.append(
            [
                name,
                share(float(np.mean([one.coverage for one in found]))),
                share(min(one.coverage for one in found)),
                share(min((one.coverage for one in enough), default=math.nan)),
                str(sum(one.coverage < TARGET for one in found)),
                share(float(np.mean([one.share("too_high") for one in found]))),
                share(float(np.mean([one.share("too_low") for one in found]))),
                share(float(np.mean([one.share("missing") for one in found]))),
                f"{np.exp(ratio):.2f}",
            ]
        )
    header = [
        "interval",
        "mean",
        "worst",
        "worst, enough clusters",
        "cells under .90",
        "too high",
        "too low",
        "none",
        "width",
    ]
    return grid(header, rows)


def _order(name: str) -> tuple[int, str]:
    return (0 if name == DEFAULT else 2 if name.startswith(PEERS) else 1, "")


def at_a_glance(parts: Sequence[tuple[str, Records, Callable[[dict[str, Any]], bool], float]]) -> str:
    """The default against what is asked of it, one row a family.

    Parameters
    ----------
    parts : sequence of (title, records, few, target)
        `few` tells the cells that targets are not about; `target` is the coverage that no other cell should be below.

    Returns
    -------
    str
        Coverage; sizes of tests at 5%; and, where clusters are of one size, the best calibrated of all other intervals
        (nearest to .95 in the mean over cells), with the default's width over its.
    """
    rows = []
    for title, records, few, target in parts:
        found = measured(records)
        enough = [one for one in found if not few(one.cell)]
        sizes = np.array([one.size(0.05) for one in enough])
        rows.append([title, share(float(np.mean([one.coverage for one in found])))])
        rows[-1] += [share(min(one.coverage for one in enough)), str(sum(one.coverage < target for one in enough))]
        outside = [str(int(np.sum(some))) for some in (sizes < 0.03, sizes > 0.07)]
        rows[-1] += [share(float(sizes.mean())), *outside, *_best_other(records)]
    header = [
        "family",
        "mean",
        "worst, enough clusters",
        "of them below the target",
        "tests at 5%",
        "cells under .03",
        "cells over .07",
        "best other interval, balanced",
        "its mean",
        "width over its",
    ]
    return grid(header, rows)


def _best_other(records: Records) -> list[str]:
    alike = [one for one in records if one["parameters"].get("sizes", one["parameters"].get("grid")) in BALANCED]
    others = {name for one in alike for name in one["methods"] if name != DEFAULT}

    def error(name: str) -> float:
        return float(np.mean([abs(one.coverage - 0.95) for one in measured(alike, name)]))

    best = min(sorted(others), key=error)
    theirs, ours = measured(alike, best), measured([one for one in alike if best in one["methods"]])
    ratio = np.mean([np.log(mine.width / its.width) for mine, its in zip(ours, theirs, strict=True)])
    return [best, share(float(np.mean([one.coverage for one in theirs]))), f"{np.exp(ratio):.2f}"]


def cross(records: Records, down: str, across: str, method: str = DEFAULT) -> str:
    """Mean coverage (worst cell) of one method, by two parameters."""
    columns = sorted({one["parameters"][across] for one in records}, key=_level)
    rows = []
    for level in sorted({one["parameters"][down] for one in records}, key=_level):
        cells = [mean_and_worst(measured(where(records, **{down: level, across: c}), method)) for c in columns]
        rows.append([f"{down} {level}", *cells])
    return grid([f"{down}, {across}", *map(str, columns)], rows)


def by_level(records: Records, across: str, methods: Sequence[str]) -> str:
    """Mean coverage (worst cell) of several methods by one parameter."""
    levels = sorted({one["parameters"][across] for one in records}, key=_level)
    rows = [
        [name, *(mean_and_worst(measured(where(records, **{across: x}), name)) for x in levels)] for name in methods
    ]
    return grid([across, *map(str, levels)], rows)


def _level(value: Any) -> Any:
    return {"single": -1, "balanced": 0, "unequal": 1, "dominant": 2, "1to500": 3}.get(value, value)


def sizes_of_tests(records: Records, by: str, methods: Sequence[str]) -> str:
    """Rejections of a true null at three levels, averaged over cells, with the worst cell at 5%."""
    rows = []
    for level in sorted({one["parameters"][by] for one in records}):
        for method in methods:
            found = measured(where(records, **{by: level}), method)
            values = [share(float(np.mean([one.size(alpha) for one in found]))) for alpha in (0.01, 0.05, 0.1)]
            sides = [share(float(np.mean([one.share(f"{side}_0.05") for one in found]))) for side in ("above", "below")]
            rows.append([f"{by} {level}, {method}", *values, share(max(one.size(0.05) for one in found)), *sides])
    return grid(["interval", "1%", "5%", "10%", "5%, worst cell", "5%, too high", "5%, too low"], rows)


def warned(one: dict[str, Any]) -> str:
    """Warnings of the default that stood in at least half of the logs checked."""
    kinds = [kind.removesuffix("Warning") for kind, (often, _) in one["warnings"].items() if often >= 0.5]
    return ", ".join(kinds) or "none"


def by_warning(records: Records) -> str:
    """Coverage of the default by what it warned of."""
    groups: dict[str, list[Measured]] = {}
    for one in measured(records):
        groups.setdefault(warned(one.cell), []).append(one)
    rows = [
        [kind, str(len(found)), mean_and_worst(found), str(sum(one.coverage < TARGET for one in found))]
        for kind, found in sorted(groups.items(), key=lambda item: (item[0] != "none", item[0]))
    ]
    return grid(["warning", "cells", "mean (worst)", "cells under .90"], rows)


def misses(records: Records, target: float, most: int = 40) -> str:
    """Cells of the default below a target, worst first, with the method of the package that comes nearest to .95."""
    found = sorted((one for one in measured(records) if one.coverage < target), key=lambda one: one.coverage)
    if not found:
        return f"No cell is below {share(target)}."
    rows = []
    for one in found[:most]:
        others = {
            name: Measured(one.cell, counts)
            for name, counts in one.cell["methods"].items()
            if name != DEFAULT and not name.startswith(PEERS)
        }
        best = min(others, key=lambda name: abs(others[name].coverage - 0.95))
        width = others[best].width / one.width
        world = one.cell["name"].partition(" ")[2]
        rows.append([world, share(one.coverage), f"{best} {share(others[best].coverage)}", f"{width:.2f}"])
        rows[-1].append(warned(one.cell))
    rest = f"\n\n{len(found) - most} more cells are below {share(target)}." if len(found) > most else ""
    return grid(["cell", "default", "nearest to .950", "its width", "warnings"], rows) + rest


ALONE = "single intervals"


def by_world(records: Records, keys: Sequence[str]) -> str:
    """Single intervals of every method, one row a world, and what became of its logs: warned of, refused."""
    names = list(dict.fromkeys(name for one in records for name in one["methods"] if name.startswith(ALONE)))
    rows = []
    for one in sorted(records, key=lambda one: [SCHEDULES.get(v, v) for v in (one["parameters"][key] for key in keys)]):
        methods = one["methods"]
        found = [share(Measured(one, methods[name]).coverage) if name in methods else "" for name in names]
        sparse = one["warnings"].get("SparseBoardWarning", [0.0])[0]
        refused = sum(one["refused"].values()) / one["n_logs"]
        world = ", ".join(str(one["parameters"][key]) for key in keys)
        rows.append([world, *found, f"{100 * sparse:.0f}%", f"{100 * refused:.0f}%"])
    header = [", ".join(keys), "default", *(name.removeprefix(f"{ALONE}, ") for name in names[1:])]
    return grid([*header, "SparseBoard", "refused"], rows)


def of_odds(records: Records) -> str:
    """Statements about two models, one row a world, over the logs that have them; then what was refused."""
    keys = ("design", "prompts", "rate")
    names = ("win rate", "odds", "odds, by their error", "difference of odds")
    names += ("net benefit", "net benefit, by its error")
    rows = []
    for one in sorted(records, key=lambda one: [one["parameters"][key] for key in keys]):
        found = [share(Measured(one, one["methods"][name]).coverage) for name in names]
        refused = sum(one["refused"].values()) / one["n_logs"]
        rows.append([", ".join(str(one["parameters"][key]) for key in keys), *found, f"{100 * refused:.0f}%"])
    return grid([", ".join(keys), *names, "no odds"], rows)


def by_schedule(records: Records) -> str:
    """Statements about many models, one column a schedule and number of models."""
    records = sorted(records, key=lambda one: (SCHEDULES[one["parameters"]["schedule"]], one["parameters"]["models"]))
    names = dict.fromkeys(name for one in records for name in one["methods"] if not name.startswith(f"{ALONE}, "))
    rows = [[name, *(share(found.coverage) for found in measured(records, name))] for name in names]
    worlds = [f"{one['parameters']['schedule']} {one['parameters']['models']}" for one in records]
    return grid(["statement", *worlds], rows)


def families(records: Records) -> str:
    """Statements about many models: coverage by number of models."""
    counts = sorted({one["parameters"]["models"] for one in records})
    rows = [
        [name, *(mean_and_worst(measured(where(records, models=K), name)) for K in counts)]
        for name in dict.fromkeys(name for one in records for name in one["methods"])
    ]
    return grid(["statement", *(f"{K} models" for K in counts)], rows)


JUDGED = ("estimator", "schedule", "models", "prompts", "judges", "taste")


def of_world(records: Records, columns: Sequence[tuple[str, str, str]]) -> str:
    """Shares of logs, one row a world of few judges; columns are (title, method, count), the last row the largest."""
    rows, values = [], []
    for one in sorted(records, key=lambda one: [one["parameters"][key] for key in JUDGED]):
        world = {key: one["parameters"][key] for key in JUDGED}
        boards = f"{world['estimator'].replace('_', ' ')}, {world['schedule']}, " if world["schedule"] != "all" else ""
        label = f"{boards}{world['models']}, {world['prompts']}, {world['judges']}, {world['taste']}"
        first = one["parameters"].get("first", 1)
        label += f", first {first} times" if first != 1 else ""
        values.append([Measured(one, one["methods"][method]).share(count) for _, method, count in columns])
        rows.append([label, *map(share, values[-1]), str(one["n_logs"])])
    rows.append(["largest", *(share(max(column)) for column in zip(*values, strict=True)), ""])
    return grid(["models, prompts, judges, taste", *(title for title, _, _ in columns), "logs"], rows)
