"""Figures of results: which tables are drawn, in which order, and the note below them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from evalreg.checks import adjustment, counted, fraction, option
from evalreg.covariance.covariance import Covariance
from evalreg.errors import ArgumentError, NotAvailableError
from evalreg.estimate import Estimate
from evalreg.inference.dependence import standard_error_ratios
from evalreg.inference.intervals import tested_against
from evalreg.inference.simultaneous import PAIR_ADJUSTMENTS, PairAdjustName, Seed
from evalreg.report.axes import DOTTED, INK, dependence_axes, estimates_axes, inflation_axes, pairs_axes
from evalreg.report.sentences import best_first, interval_rule, named
from evalreg.report.summaries import covariance_text
from evalreg.report.tables import level_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FigureName: TypeAlias = Literal["estimates", "pairs", "inflation", "dependence", "predictions"]
KINDS: tuple[FigureName, ...] = get_args(FigureName)


def plot_results(
    results: Any,
    kind: FigureName,
    alpha: float,
    adjust: PairAdjustName | None,
    ranks: bool | None,
    by: Any,
    seed: Seed,
    **place: Any,
) -> Axes:
    """The figure of `Results.plot`, whose module imports this one; `place` are its size and its axes."""
    kind, alpha = option("kind", kind, KINDS), fraction("alpha", alpha)
    adjust = adjustment("adjust", adjust, PAIR_ADJUSTMENTS)
    for name, value, default, owner in (
        ("adjust", adjust, "single-step", "pairs"),
        ("ranks", ranks, None, "estimates"),
        ("by", by, None, "predictions"),
    ):
        if value != default and kind != owner:
            raise ArgumentError(
                f'`{name}` goes with kind="{owner}"; got {name}={value!r} with kind="{kind}". Leave it out.'
            )
    if kind == "predictions":
        raise ArgumentError('kind="predictions" needs `by`, the covariates along which they are drawn.')
    if kind == "pairs":
        return _plot_pairs(results, alpha, adjust, seed, place)
    if kind == "inflation":
        return _plot_inflation(results, place)
    if kind == "dependence":
        note = f"Bars: {level_text(alpha)} intervals, one by one. Dashed: root of 1 + (m - 1) ICC, clusters of m."
        return dependence_axes(results.dependence(alpha), note=note + errors_note(results.cov), **place)
    return _plot_estimates(results, alpha, ranks, seed, place)


def errors_note(cov: Covariance) -> str:
    """What is below every figure of results: how its standard errors were made."""
    return f" Standard errors: {covariance_text(cov)}."


def _plot_estimates(results: Any, alpha: float, ranks: bool | None, seed: Seed, place: dict[str, Any]) -> Axes:
    estimate, several = results.estimate, results.estimate.n_params > 1
    if ranks is None:
        ranks = estimate.about.n_models > 1
    level, order, sets = level_text(alpha), list(range(estimate.about.n_models or estimate.n_params)), None
    ends = results.conf_int(alpha)
    table = pd.DataFrame({"estimate": results.params, "lower": ends[0], "upper": ends[1]})
    rule = interval_rule(estimate, results.cov)
    each = f"{level} interval of each{f' ({rule})' if rule else ''}."
    note = f"Bars: {each}"
    if several:
        joint = results.simultaneous(alpha, seed=seed)
        # Of a board with covariates only the models are judged together, and drawn.
        table["joint_lower"], table["joint_upper"] = joint["lower"], joint["upper"]
        note = f"Thick: {each} Thin: {level} intervals that hold for all at once."
        if joint.attrs["left_out"]:
            note += f" No thin line where there is no positive variance: {joint.attrs['n_left_out']}."
    if several and ranks:
        order = best_first(estimate, len(order))[: len(order)]
        sets = results.ranks(alpha, seed=seed).loc[[estimate.names[i] for i in order]]
        note += f" At the right: the ranks that are not excluded, {level} for all at once."
    if bool(np.isnan(results.bse.iloc[order]).any()):
        note += " Hollow: no standard error can be computed."
    table = table.iloc[order]
    if estimate.about.n_models > 1 and results._counts is not None:
        counts = results._counts[order]
        if np.ptp(counts) == 0:
            note += f" {counted(counts[0], 'row')} of each."
        else:
            table = table.set_axis([f"{name} (n {n:.0f})" for name, n in zip(table.index, counts, strict=True)])
            note += " n: rows of each."
    zero, xlabel = not _are_models(estimate), _axis_label(estimate)
    ax = estimates_axes(table, ranks=sets, zero=zero, xlabel=xlabel, note=note + errors_note(results.cov), **place)
    if tested_against(estimate) == 0.5:
        low, high = ax.get_xlim()
        ax.set_xlim(min(low, 0.49), max(high, 0.51))
        ax.axvline(0.5, color=INK, lw=0.8, ls=DOTTED, zorder=1, gid="half")
    return ax


def _plot_pairs(results: Any, alpha: float, adjust: PairAdjustName | None, seed: Seed, place: dict[str, Any]) -> Axes:
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
        fewest, most = counts[:n].min(), counts[:n].max()
        note += f" Models have {f'{fewest:.0f} rows each' if fewest == most else f'{fewest:.0f} to {most:.0f} rows'}."
    if table.attrs["left_out"]:
        note += " Hatched: no standard error of the difference can be computed."
    return pairs_axes(table, order=order, alpha=alpha, note=note + errors_note(results.cov), **place)


def _plot_inflation(results: Any, place: dict[str, Any]) -> Axes:
    cov = results.cov
    if not cov.axes:
        raise NotAvailableError(
            'kind="inflation" compares clusterings with independent rows, and these results have no clusters. '
            'Pass groups="column" to the estimate or to `with_cov`.'
        )
    table = standard_error_ratios(cov).iloc[best_first(results.estimate)]
    note = "Standard error if rows were dependent within the clusters of one axis, over that of independent rows (1)."
    if cov.crossed:
        note += " Bar: all axes together, as in the summary."
    if bool(table.isna().any(axis=None)):
        note += " Without a mark: no standard error to compare."
    return inflation_axes(table, note=note + errors_note(cov), **place)


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
    if estimate.kind in ("board", "likelihood"):  # whose outcome is a verdict or a success, and not what is drawn
        return named(estimate)
    # Inside a line, "Mean by model" is in lower case; names of methods stay as they are.
    model = about.model.replace("Mean", "mean").replace("Contrast", "contrast")
    return f"{about.outcome} ({model})"
