"""Figures of results: which tables are drawn, in which order, and the note below them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from evalreg.checks import adjustment, fraction, option
from evalreg.errors import ArgumentError, NotAvailableError
from evalreg.estimate import Estimate
from evalreg.inference.dependence import standard_error_ratios
from evalreg.inference.intervals import tested_against
from evalreg.inference.ranks import PAIR_ADJUSTMENTS, PairAdjustName
from evalreg.inference.simultaneous import Seed
from evalreg.report.axes import INK, FigSize, dependence_axes, estimates_axes, inflation_axes, pairs_axes
from evalreg.report.sentences import best_first, interval_text
from evalreg.report.tables import level_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FigureName: TypeAlias = Literal["estimates", "pairs", "inflation", "dependence", "predictions"]
KINDS: tuple[FigureName, ...] = get_args(FigureName)


def plot_results(
    results: Any,
    errors: str,
    kind: FigureName = "estimates",
    *,
    alpha: float = 0.05,
    adjust: PairAdjustName | None = "single-step",
    ranks: bool | None = None,
    by: Any = None,
    seed: Seed = 0,
    figsize: FigSize = None,
    ax: Axes | None = None,
) -> Axes:
    """The figure of `Results.plot`, whose module imports this one."""
    kind, alpha = option("kind", kind, KINDS), fraction("alpha", alpha)
    adjust = adjustment("adjust", adjust, PAIR_ADJUSTMENTS)
    if kind != "pairs" and adjust != "single-step":
        raise ArgumentError(f'`adjust` goes with kind="pairs"; got adjust={adjust!r} with kind="{kind}". Leave it out.')
    if kind != "estimates" and ranks is not None:
        raise ArgumentError(
            f'`ranks` goes with kind="estimates"; got ranks={ranks!r} with kind="{kind}". Leave it out.'
        )
    if (kind == "predictions") != (by is not None):
        raise ArgumentError(f'`by` goes with kind="predictions", which needs it; got by={by!r} with kind="{kind}".')
    if kind == "pairs":
        return _plot_pairs(results, errors, alpha, adjust, seed, figsize, ax)
    if kind == "inflation":
        return _plot_inflation(results, errors, figsize, ax)
    if kind == "dependence":
        note = f"Bars: {level_text(alpha)} intervals, one by one. Dashed: root of 1 + (m - 1) ICC, clusters of m."
        return dependence_axes(
            results.dependence(alpha), note=f"{note} Standard errors: {errors}.", figsize=figsize, ax=ax
        )
    return _plot_estimates(results, errors, alpha, ranks, seed, figsize, ax)


def _plot_estimates(
    results: Any,
    errors: str,
    alpha: float,
    ranks: bool | None,
    seed: Seed,
    figsize: FigSize,
    ax: Axes | None,
) -> Axes:
    estimate, several = results.estimate, results.estimate.n_params > 1
    if ranks is None:
        ranks = estimate.about.n_models > 1
    level, order = level_text(alpha), list(range(estimate.about.n_models or estimate.n_params))
    ends = results.conf_int(alpha)
    table = pd.DataFrame({"estimate": results.params, "lower": ends[0], "upper": ends[1], "se": results.bse})
    rule = interval_text(estimate, results.cov)
    scale = f" ({rule})" if rule else ""
    note, sets = f"Bars: {level} interval of each{scale}.", None
    if several:
        joint = results.simultaneous(alpha, seed=seed)
        # Of a board with covariates only the models are judged together, and drawn.
        table["joint_lower"], table["joint_upper"] = joint["lower"], joint["upper"]
        note = f"Thick: {level} interval of each{scale}. Thin: {level} intervals that hold for all at once."
        if joint.attrs["left_out"]:
            note += f" No thin line where there is no positive variance: {joint.attrs['n_left_out']}."
    if several and ranks:
        order = best_first(estimate, len(order))[: len(order)]
        sets = results.ranks(alpha, seed=seed)
        note += f" At the right: the ranks that are not excluded, {level} for all at once."
    if bool(np.isnan(table["se"].iloc[order]).any()):
        note += " Hollow: no standard error can be computed."
    table, sentence = _with_counts(table.iloc[order], results)
    note += sentence
    ax = estimates_axes(
        table,
        ranks=None if sets is None else sets.loc[[estimate.names[i] for i in order]],
        zero=not _are_models(estimate),
        xlabel=_axis_label(estimate),
        note=f"{note} Standard errors: {errors}.",
        figsize=figsize,
        ax=ax,
    )
    if tested_against(estimate) == 0.5:
        low, high = ax.get_xlim()
        ax.set_xlim(min(low, 0.49), max(high, 0.51))
        ax.axvline(0.5, color=INK, lw=0.8, ls=(0, (4, 3)), zorder=1, gid="half")
    return ax


def _with_counts(table: pd.DataFrame, results: Any) -> tuple[pd.DataFrame, str]:
    """The table with the rows of each model beside its name, and a sentence where all have as many."""
    if results.estimate.about.n_models < 2 or results._counts is None:
        return table, ""
    counts = pd.Series(results._counts, index=list(results.estimate.names)).loc[table.index]
    if counts.nunique() == 1:
        return table, f" {counts.iloc[0]:.0f} rows of each."
    labels = [f"{name} (n {count:.0f})" for name, count in counts.items()]
    return table.set_axis(labels), " n: rows of each."


def _plot_pairs(
    results: Any,
    errors: str,
    alpha: float,
    adjust: PairAdjustName | None,
    seed: Seed,
    figsize: FigSize,
    ax: Axes | None,
) -> Axes:
    estimate = results.estimate
    if estimate.n_params < 2:
        raise NotAvailableError('kind="pairs" needs at least two parameters; these results have one.')
    n = estimate.about.n_models or estimate.n_params
    order = [estimate.names[i] for i in best_first(estimate, n)[:n]]
    how = f"adjusted for all pairs ({adjust})" if adjust else "each pair by itself, not adjusted for their number"
    note = (
        f"Row minus column, best first: {_axis_label(estimate)}. Dots: differs from zero at {100 * alpha:.4g}%, {how}."
    )
    table, counts = results.pairwise(adjust, alpha, seed=seed), results._counts
    if estimate.about.n_models > 1 and counts is not None:
        fewest, most = counts[: estimate.about.n_models].min(), counts[: estimate.about.n_models].max()
        each = f"{fewest:.0f} rows each" if fewest == most else f"{fewest:.0f} to {most:.0f} rows"
        note += f" Models have {each}."
    if table.attrs["left_out"]:
        note += " Hatched: no standard error of the difference can be computed."
    return pairs_axes(
        table, order=order, alpha=alpha, note=f"{note} Standard errors: {errors}.", figsize=figsize, ax=ax
    )


def _plot_inflation(results: Any, errors: str, figsize: FigSize, ax: Axes | None) -> Axes:
    estimate, cov = results.estimate, results.cov
    if not cov.axes:
        raise NotAvailableError(
            'kind="inflation" compares clusterings with independent rows, and these results have no clusters. '
            'Pass groups="column" to the estimate or to `with_cov`.'
        )
    order = best_first(estimate)
    table = standard_error_ratios(cov).iloc[order]
    note = "Standard error if rows were dependent within the clusters of one axis, over that of independent rows (1)."
    if cov.crossed:
        note += " Bar: all axes together, as in the summary."
    if bool(table.isna().any(axis=None)):
        note += " Without a mark: no standard error to compare."
    return inflation_axes(table, note=f"{note} Standard errors: {errors}.", figsize=figsize, ax=ax)


def _are_models(estimate: Estimate) -> bool:
    """Whether parameters are alternatives whose zero means nothing, not coefficients or differences."""
    about = estimate.about
    level = estimate.kind == "mean" or estimate.bounded
    apart = bool(about.contrast) or about.model == "Difference"
    return level and not (about.formula and not about.n_models) and not apart


def _axis_label(estimate: Estimate) -> str:
    about = estimate.about
    if about.formula and not about.n_models:
        return f"coefficient ({about.model} of {about.outcome})"
    # Inside a line, "Mean by model" is in lower case; names of methods stay as they are.
    model = about.model.replace("Mean", "mean").replace("Contrast", "contrast")
    return f"{about.outcome} ({model})"
