"""Running cells: logs in blocks, every k-th log through the public functions as well, one file a cell."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from benchmarks.simulations import logs
from benchmarks.simulations.families import FAMILIES, Block
from benchmarks.simulations.grid import Cell
from benchmarks.simulations.intervals import DEFAULT, LEVELS, Bounds

BLOCK = 200
CHECKS_PER_CELL = 5
SAME = 1e-9


class MismatchError(Exception):
    """The formulas on many logs and the public functions disagree."""


def run_cell(cell: Cell) -> dict[str, Any]:
    """What one cell measured, as plain numbers.

    Parameters
    ----------
    cell : Cell
        World, number of logs, seed.

    Returns
    -------
    dict
        Counts by method: logs, misses on either side, logs without an interval, sums of widths, rejections of a true
        null on either side at three levels; and the warnings of the default in the logs checked.

    Raises
    ------
    MismatchError
        If a public function gives an interval that differs by more than 1e-9, or a test that says otherwise.
    """
    if cell.family in logs.FAMILIES:
        return _record(cell, *logs.run(cell))
    tallies: dict[str, Counter[str]] = {}
    warned: dict[str, list[Any]] = {}
    every = max(cell.n_logs // CHECKS_PER_CELL, 1)
    estimates, checked = [], 0
    for number, first in enumerate(range(0, cell.n_logs, BLOCK)):
        rng = np.random.default_rng([cell.seed, number])
        block = FAMILIES[cell.family](cell, rng, min(BLOCK, cell.n_logs - first))
        estimates.append(block.estimate - block.truth)
        for name, bounds in block.bounds.items():
            tallies.setdefault(name, Counter()).update(tally(bounds, block))
        for log in range(-first % every, block.estimate.size, every):
            _check(cell, block, log, warned)
            checked += 1
    error = np.concatenate(estimates)
    about = {
        "mean_error": float(error.mean()),
        "sd": float(error.std(ddof=1)),
        "checked": checked,
        "warnings": {key: [count / checked, text] for key, (count, text) in sorted(warned.items())},
    }
    return _record(cell, {name: dict(counts) for name, counts in tallies.items()}, about)


def _record(cell: Cell, methods: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    world = {key: list(value) if isinstance(value, tuple) else value for key, value in cell.parameters}
    named = {"name": cell.name, "family": cell.family, "parameters": world, "n_logs": cell.n_logs}
    return named | about | {"methods": methods}


def tally(bounds: Bounds, block: Block) -> dict[str, float]:
    """Counts of one method in one block."""
    known = ~(np.isnan(bounds.low) | np.isnan(bounds.high))
    width = (bounds.high - bounds.low)[known]
    counts = {
        "logs": known.size,
        "missing": int(np.sum(~known)),
        "too_high": int(np.sum(bounds.low[known] > block.truth)),
        "too_low": int(np.sum(bounds.high[known] < block.truth)),
        "width": float(width.sum()),
        "width_squared": float(np.sum(width**2)),
    }
    if bounds.at is not None:
        counts |= left_out(block.truth, bounds.at)
    elif bounds.se is not None and bounds.dof is not None:
        counts |= rejections(block.estimate - block.truth, bounds.se, np.broadcast_to(bounds.dof, bounds.se.shape))
    return counts


def rejections(error: np.ndarray, se: np.ndarray, dof: np.ndarray) -> dict[str, int]:
    """Rejections of the truth by t tests, by level and side; a test without a standard error does not reject."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = error / se
    finite = np.where(np.isfinite(dof), dof, 1.0)
    counts = {"tests": int(np.sum(~np.isnan(t)))}
    for level in LEVELS:
        critical = -np.where(np.isinf(dof), special.ndtri(level / 2), special.stdtrit(finite, level / 2))
        counts[f"above_{level:g}"], counts[f"below_{level:g}"] = int(np.sum(t > critical)), int(np.sum(t < -critical))
    return counts


def left_out(truth: float, at: Mapping[float, tuple[np.ndarray, np.ndarray]]) -> dict[str, int]:
    """Rejections of the truth by intervals that leave it out, by level and side."""
    counts = {}
    for level, (low, high) in at.items():
        counts["tests"] = int(np.sum(~np.isnan(low)))
        counts[f"above_{level:g}"], counts[f"below_{level:g}"] = int(np.sum(low > truth)), int(np.sum(high < truth))
    return counts


def _check(cell: Cell, block: Block, log: int, warned: dict[str, list[Any]]) -> None:
    public = block.public(log)
    for name, expected in public.limits.items():
        found = block.bounds[name].low[log], block.bounds[name].high[log]
        # Both may say that there is no interval.
        alike = np.isclose(found, expected, rtol=SAME, atol=SAME, equal_nan=True)
        if not alike.all():
            raise MismatchError(f"{cell.name}, {name}: formulas give {found}, the public functions {expected}")
    for level, (low, high) in (block.bounds[DEFAULT].at or {}).items():
        outside = bool(low[log] > block.truth or high[log] < block.truth)
        if (public.p_value < level) != outside:
            text = f"{cell.name}: the public test has p = {public.p_value}, the interval at {level} "
            raise MismatchError(text + ("leaves the truth out" if outside else "holds the truth"))
    for kind, text in dict(public.warned).items():
        warned.setdefault(kind, [0, text])[0] += 1


def _run_quietly(cell: Cell) -> tuple[Cell, dict[str, Any] | str, float]:
    start = time.perf_counter()
    try:
        result: dict[str, Any] | str = run_cell(cell)
    except Exception as error:  # one cell that fails does not end the run of the others
        result = f"{type(error).__name__}: {error}"
    return cell, result, time.perf_counter() - start


def write(path: Path, record: dict[str, Any]) -> None:
    """Write a record in one step, so that a file is whole or absent."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    with os.fdopen(handle, "w") as file:
        file.write(json.dumps(record, sort_keys=True) + "\n")
    os.replace(temporary, path)


def run_grid(cells: Sequence[Cell], out: Path, workers: int) -> int:
    """Run the cells that `out` does not hold; the number that failed.

    Parameters
    ----------
    cells : sequence of Cell
        What to run; the result of a cell depends on nothing else.
    out : Path
        Folder, made if absent; one file a cell.
    workers : int
        Processes.

    Returns
    -------
    int
        Cells that failed.
    """
    out.mkdir(parents=True, exist_ok=True)
    left = [cell for cell in cells if not (out / f"{cell.key}.json").exists()]
    print(f"{len(cells) - len(left)} of {len(cells)} cells are there already", file=sys.stderr)
    failed, start = 0, time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for done, (cell, result, seconds) in enumerate(pool.imap_unordered(_run_quietly, left), 1):
            if isinstance(result, dict):
                write(out / f"{cell.key}.json", result)
            else:
                failed += 1
                print(f"FAILED {cell.name}: {result}", file=sys.stderr, flush=True)
            if done % 25 == 0 or done == len(left) or seconds > 20:
                passed = time.perf_counter() - start
                print(f"{done}/{len(left)} {passed:.0f} s  {cell.name} ({seconds:.1f} s)", file=sys.stderr, flush=True)
    return failed
