"""Figures of measured coverage for the page, drawn from the records of the cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from benchmarks.coverage.page import BOUNDED
from benchmarks.coverage.tables import ENOUGH_CLUSTERS, Records, measured, where
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
    "linearmodels": "linearmodels: normal",
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
    with canvas(None, 6.5, 0.6 + 0.27 * len(groups), note) as ax:
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


def means_figure(records: Records) -> Axes:
    """Draw the spread of coverage over the worlds of means in [0, 1], by interval."""
    some = where(records, family="means", scores=BOUNDED)
    groups = {name: [one.coverage for one in measured(some, method)] for method, name in METHODS.items()}
    note = (
        f"Means of scores in [0, 1], {len(some)} worlds: 5 to 200 clusters, equal or not; the line is from the worst "
        "world to the best, the bar the middle half of them, the dot the median. Dashed: what 95% promises."
    )
    return spread_axes(groups, note)


def _averages(records: Records, by: str, names: Mapping[str, str], of: Callable[..., float]) -> pd.DataFrame:
    levels = sorted({one["parameters"][by] for one in records})
    rows = [[np.mean([of(one) for one in measured(where(records, **{by: x}), m)]) for m in names] for x in levels]
    return pd.DataFrame(rows, index=pd.Index(levels, name=by), columns=list(names.values()))


def _lines(table: pd.DataFrame, level: float, **look: str) -> Axes:
    """Lines with a tick at every level of the index, and a dashed one where they should be."""
    ax = curve_axes(table, **look)
    ax.axhline(level, color=INK, lw=0.8, ls=(0, (4, 3)), zorder=1.5)
    ax.set_xticks(table.index, [f"{value:g}" for value in table.index])
    ax.set_xticks([], minor=True)
    return ax


def clusters_figure(records: Records) -> Axes:
    """Draw mean coverage of means in [0, 1] by number of clusters."""
    some = where(records, family="means", scores=BOUNDED)
    table = _averages(some, "G", {name: METHODS[name] for name in LINES}, lambda one: one.coverage)
    note = "Means of scores in [0, 1], average over worlds with so many clusters. Dashed: what 95% promises."
    return _lines(table, NOMINAL, xlabel="clusters", ylabel="coverage", log="x", note=note)


def judges_figure(records: Records) -> Axes:
    """Draw mean coverage under prompts crossed with judges, by number of judges."""
    # Boards of prompts of very different sizes have another number of judges: a world of its own.
    some = where(records, family="crossed", grid=lambda grid: grid != "unequal")
    table = _averages(some, "judges", JUDGES, lambda one: one.coverage)
    note = (
        "Means of scores of prompts by judges, average over worlds: judges who share 0%, 5% or 30% of the variance. "
        "Dashed: what 95% promises."
    )
    return _lines(table, NOMINAL, xlabel="judges", ylabel="coverage", log="x", note=note)


def tests_figure(records: Records) -> Axes:
    """Draw rejections of the truth at 5% by expected score."""
    some = where(records, family="means", scores=BOUNDED, G=lambda G: G >= ENOUGH_CLUSTERS)
    table = _averages(some, "mean", TESTS, lambda one: one.size(0.05))
    note = (
        f"Tests of a mean of scores in [0, 1] against its own expectation, {ENOUGH_CLUSTERS} or more clusters. Dashed: "
        "what a test at 5% promises."
    )
    return _lines(table, 0.05, xlabel="expected score", ylabel="true standards rejected at 5%", note=note)


FIGURES: Mapping[str, Callable[[Records], Axes]] = {
    "means": means_figure,
    "clusters": clusters_figure,
    "tests": tests_figure,
    "judges": judges_figure,
}


def draw(records: Records, folder: Path, suffix: str = "svg") -> list[Path]:
    """Write every figure; the same records give the same files.

    Parameters
    ----------
    records : list of dict
        Of the full grid.
    folder : Path
        Made if absent.
    suffix : str
        File format: "svg" or "png".

    Returns
    -------
    list of Path
        What was written.
    """
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with mpl.rc_context({"svg.hashsalt": "coverage", "svg.fonttype": "none"}):
        for name, make in FIGURES.items():
            ax = make(records)
            paths.append(folder / f"{name}.{suffix}")
            ax.figure.savefig(paths[-1], dpi=110, metadata={"Date": None} if suffix == "svg" else None)
            plt.close(ax.figure)
    return paths
