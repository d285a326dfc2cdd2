"""Figures of measured coverage for the page, drawn from the published table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from evalreg.report.axes import BLUE, GRID, INK, MUTED, canvas, curve_axes

NOMINAL = 0.95
METHODS = {
    "default": "evalreg",
    "CR2 logit": "CR2, logit scale",
    "Clopper-Pearson": "Clopper-Pearson, effective n",
    "Wilson": "Wilson, effective n",
    "CR3 Satt.": "CR3, Satterthwaite",
    "CR2 Wald": "CR2, Satterthwaite, Wald",
    "pyfixest": "pyfixest, Inspect: t(G - 1)",
    "cluster bootstrap": "clusters drawn again",
    "statsmodels": "statsmodels: normal",
    "Miller eq. 1": "rows independent, 1.96",
}
LINES = ("default", "CR2 Wald", "pyfixest", "statsmodels", "cluster bootstrap", "Miller eq. 1")
JUDGES = {
    "default": "evalreg",
    "pyfixest": "pyfixest: t(min G - 1)",
    "statsmodels": "statsmodels: normal",
    "prompts only": "by prompts alone",
    "rows independent": "rows independent",
}
TESTS = {"default": "evalreg", "CR2 Wald": "CR2, Wald", "CR1 t(G-1)": "CR1, t(G - 1)", "statsmodels": "statsmodels"}


def spread_axes(groups: Mapping[str, Sequence[float]], note: str) -> Axes:
    """Draw how coverage spreads over worlds: a thin line from the worst to the best, a bar over the middle half, a dot.

    Parameters
    ----------
    groups : mapping of str to sequence of float
        Coverage of the worlds by interval, first at the top.
    note : str
        For the foot of the figure.

    Returns
    -------
    Axes
        A new figure.
    """
    with canvas(None, 0.6 + 0.27 * len(groups), note, None) as ax:
        for place, (name, values) in enumerate(groups.items()):
            low, first, middle, third, high = np.quantile(values, [0, 0.25, 0.5, 0.75, 1])
            colour = BLUE if name == METHODS["default"] else MUTED
            ax.plot([low, high], [place, place], color=colour, lw=1.0)
            ax.plot([first, third], [place, place], color=colour, lw=5.0, solid_capstyle="butt")
            ax.plot(middle, place, "o", color="white", mec=INK, ms=4.5, zorder=3)
        ax.axvline(NOMINAL, color=INK, lw=0.8, ls=(0, (4, 3)), zorder=0)
        ax.set_yticks(range(len(groups)), groups)
        ax.invert_yaxis()
        ax.tick_params(labelsize=8, left=False)
        ax.grid(axis="x", color=GRID, lw=0.7)
        ax.set_axisbelow(True)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.set_xlabel("share of logs whose 95% interval holds the truth")
    return ax


def means_figure(table: pd.DataFrame) -> Axes:
    """Draw the spread of coverage over the worlds of means in [0, 1], by interval."""
    some = means(table)
    groups = {name: some.loc[some["method"] == method, "coverage"] for method, name in METHODS.items()}
    note = (
        f"Means of scores in [0, 1], {some['world'].nunique()} worlds: 5 to 200 clusters of 8 to 500 rows, equal or "
        "not; the line is from the worst world to the best, the bar the middle half of them, the dot the median. "
        "Dashed: what 95% promises."
    )
    return spread_axes(groups, note)


def means(table: pd.DataFrame) -> pd.DataFrame:
    """Lines of means of scores in [0, 1]."""
    return table[(table["family"] == "means") & table["scores"].isin(("binary", "fraction"))]


def _lines(table: pd.DataFrame, by: str, names: Mapping[str, str], values: str, level: float, **look: str) -> Axes:
    """Averages over worlds by a parameter and method, and a dashed line where they should be."""
    averages = table.pivot_table(values, by, "method")[list(names)].rename(columns=names)
    ax = curve_axes(averages, **look)
    ax.axhline(level, color=INK, lw=0.8, ls=(0, (4, 3)), zorder=1.5)
    ax.set_xticks(averages.index, [f"{value:g}" for value in averages.index])
    ax.set_xticks([], minor=True)
    return ax


def clusters_figure(table: pd.DataFrame) -> Axes:
    """Draw mean coverage of means in [0, 1] by number of clusters."""
    names = {name: METHODS[name] for name in LINES}
    some = means(table)
    some = some[~some["sizes"].isin(("25", "100", "500"))]
    note = "Means of scores in [0, 1], average over worlds with so many clusters. Dashed: what 95% promises."
    return _lines(some, "G", names, "coverage", NOMINAL, xlabel="clusters", ylabel="coverage", log="x", note=note)


def judges_figure(table: pd.DataFrame) -> Axes:
    """Draw mean coverage under prompts crossed with judges, by number of judges."""
    # Boards of prompts of very different sizes have another number of judges: a world of its own.
    some = table[(table["family"] == "crossed") & (table["grid"] != "unequal")]
    note = (
        "Means of scores of prompts by judges, average over worlds: judges who share 0%, 5% or 30% of the variance. "
        "Dashed: what 95% promises."
    )
    look = {"xlabel": "judges", "ylabel": "coverage", "log": "x", "note": note}
    return _lines(some, "judges", JUDGES, "coverage", NOMINAL, **look)


def tests_figure(table: pd.DataFrame) -> Axes:
    """Draw rejections of the truth at 5% by expected score."""
    some = means(table)
    some = some[(some["G"] >= 10) & some["rejected"].notna()]
    note = (
        "Tests of means of scores in [0, 1] against their expectations, 10 or more clusters. Dashed: what 5% promises."
    )
    look = {"xlabel": "expected score", "ylabel": "true standards rejected at 5%", "note": note}
    return _lines(some, "mean", TESTS, "rejected", 0.05, **look)


FIGURES: Mapping[str, Callable[[pd.DataFrame], Axes]] = {
    "means": means_figure,
    "clusters": clusters_figure,
    "tests": tests_figure,
    "judges": judges_figure,
}


def draw(table: pd.DataFrame, folder: Path) -> None:
    """Write every figure as SVG; the same table gives the same files."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    with mpl.rc_context({"svg.hashsalt": "coverage", "svg.fonttype": "none"}):
        for name, make in FIGURES.items():
            ax = make(table)
            ax.figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
            plt.close(ax.figure)
