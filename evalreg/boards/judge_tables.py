"""Tables on judges, set for a page of 80 columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from evalreg.report.tables import Grid, fixed, number, p_value

# Rows that a table of the summary shows; the tables themselves are complete.
MOST_ROWS = 15
# Judges beside each other, and the longest name of one, that fit into 80 characters.
MOST_COLUMNS = 6
LONGEST_NAME = 8


def short_names(n: pd.Series[int]) -> dict[str, str]:
    """What judges are called in tables with several of them: a number each, where names are long.

    Numbered from the judge with most comparisons (`n`), in that order; the names themselves where all are short.
    """
    order = [str(name) for name in n.sort_values(ascending=False, kind="stable").index]
    if max(map(len, order)) <= LONGEST_NAME:
        return {name: name for name in sorted(order)}
    return {name: f"#{place}" for place, name in enumerate(order, 1)}


def position_grid(position: pd.DataFrame, keys: dict[str, str]) -> Grid:
    """Position bias of the judges with most comparisons, each with number and name."""
    rows = []
    for row in _records(position.sort_values("n", ascending=False, kind="stable").head(MOST_ROWS)):
        judge = row["judge"]
        cells = [fixed(row[name], 3) for name in ("left", "bias", "se")]
        name = judge if keys[judge] == judge else f"{keys[judge]} {judge}"
        rows.append((name, *cells, p_value(row["p_adjusted"]), fixed(row["consistent"], 2), f"{row['n']:.0f}"))
    return Grid(("judge", "left - 1/2", "bias", "std err", "adj. p", "same both ways", "n"), tuple(rows))


def agreement_grid(agreement: pd.DataFrame, ranks: pd.DataFrame, keys: dict[str, str]) -> Grid:
    """Agreement of the pairs of judges that share most."""
    table = agreement.join(ranks["kendall"])
    known = table[table["agreement"].notna()].sort_values("n", ascending=False, kind="stable")
    rows = []
    for row in _records(known.head(MOST_ROWS)):
        cells = [fixed(row[name], 3) for name in ("agreement", "se", "kappa")]
        name = f"{keys[row['judge']]}, {keys[row['other']]}"
        rows.append((name, *cells, fixed(row["kendall"], 2), f"{row['n']:.0f}"))
    return Grid(("two judges", "agree", "std err", "kappa", "tau", "n"), tuple(rows))


def wide_grid(corner: str, values: pd.Series[float], stands: pd.Series[bool] | None, keys: dict[str, str]) -> Grid:
    """A value for each model and judge, models that most judges have first.

    `stands` marks values; without it models come in the order of their mean.
    """
    wide: pd.DataFrame = values.unstack("judge").dropna(how="all")
    judges = [name for name in keys if name in wide.columns][:MOST_COLUMNS]
    wide = wide[judges].dropna(how="all")
    order = pd.DataFrame({"judges": wide.notna().sum(axis=1), "mean": wide.mean(axis=1) if stands is None else 0.0})
    wide = wide.loc[order.sort_values(["judges", "mean"], ascending=False, kind="stable").index].head(MOST_ROWS)
    marked = set() if stands is None else set(stands.index[stands])
    space = "" if stands is None else " "
    rows = [
        (
            str(model),
            *(
                fixed(value, 3) + ("*" if (judge, model) in marked else space)
                for judge, value in zip(judges, line, strict=True)
            ),
        )
        for model, line in zip(wide.index, wide.to_numpy(), strict=True)
    ]
    return Grid((corner, *(keys[judge] + space for judge in judges)), tuple(rows))


def variance_grid(variance: pd.DataFrame) -> Grid:
    """Components of the variance that the log can tell apart, one row each."""
    rows = [
        (
            row["component"],
            number(row["variance"]),
            fixed(100.0 * row["share"], 1),
            number(row["effect_sd"]),
            f"{row['levels']:.0f}",
        )
        for row in _records(variance)
        if np.isfinite(row["variance"])
    ]
    return Grid(("component", "variance", "share, %", "sd of an effect", "levels"), tuple(rows))


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows with the names of the index among them."""
    return [{str(name): value for name, value in row.items()} for row in table.reset_index().to_dict("records")]
