"""Records of cells as one table: a line for each world and method."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

# Methods of the published table; records have more.
METHODS = (
    *("default", "CR2 Wald", "CR2 Satt.", "CR2 logit", "Wilson", "Clopper-Pearson", "CR1 t(G-1)", "CR3 Satt."),
    *("max, t(min G-1)", "two-term", "eigen", "prompts only", "rows independent"),
    *("statsmodels", "pyfixest", "Miller eq. 1", "cluster bootstrap"),
)
IN_BLOCKS = ("means", "ends", "regressions", "differences", "crossed")
WARNED = 0.5


def lines(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Lines of one cell. A log without an interval is a miss; widths are means where there is an interval."""
    warned = [kind.removesuffix("Warning") for kind, (share, _) in record["warnings"].items() if share >= WARNED]
    for method, counts in record["methods"].items():
        if record["family"] in IN_BLOCKS and method not in METHODS:
            continue
        line = {"family": record["family"], "world": record["name"].partition(" ")[2], "method": method}
        logs = counts["logs"]
        line |= {"logs": record["n_logs"], "warned": " ".join(warned) if method == "default" else ""}
        if "false" in counts:
            yield line | {name: counts[name] / logs for name in ("false", "wrong", "found")}
            continue
        misses = {name: counts[name] / logs for name in ("too_high", "too_low", "missing")}
        known = logs - counts["missing"]
        line |= {"coverage": 1 - sum(misses.values()), "too_high": misses["too_high"], "missing": misses["missing"]}
        line["width"] = counts["width"] / known if known else float("nan")
        if "above_0.05" in counts:
            line["rejected"] = (counts["above_0.05"] + counts["below_0.05"]) / logs
        yield line


def tidy(folder: Path) -> pd.DataFrame:
    """The table of a folder of records, in the order of names."""
    records = sorted((json.loads(path.read_text()) for path in folder.glob("*.json")), key=lambda one: one["name"])
    return pd.DataFrame([line for record in records for line in lines(record)])


def write(table: pd.DataFrame, path: Path) -> None:
    """Write the table as CSV, with the digits that so many logs tell."""
    table.to_csv(path, index=False, float_format=lambda value: f"{value:.4f}".rstrip("0").rstrip("."))


def read(path: Path) -> pd.DataFrame:
    """Read the table back, with a column for each parameter of the worlds."""
    table = pd.read_csv(path, keep_default_na=False, na_values=[""], dtype={"world": str})
    grid = table["family"] != "question"
    worlds = [dict(part.split("=", 1) for part in world.split(" ")) for world in table.loc[grid, "world"]]
    parameters = pd.DataFrame(worlds, index=table.index[grid]).reindex(table.index)
    for name in parameters:
        numbers = pd.to_numeric(parameters[name], errors="coerce")
        if numbers.notna().sum() == parameters[name].notna().sum():
            parameters[name] = numbers
    parameters["of"] = table["world"].where(~grid).str.removeprefix("of=")
    return table.join(parameters)
