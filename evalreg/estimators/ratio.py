"""Ratios of two means, for one model or many at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, Unpack

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from evalreg.checks import BoolArray, FloatArray, counted, listed
from evalreg.choices import EstimatorOptions, MissingName
from evalreg.covariance.options import requested_options
from evalreg.data.clusters import Axis, Groups, parse_groups, refuse_same, rows_where, with_roles
from evalreg.data.engine import CellKeys, Measure, Query, count_of, floats_of
from evalreg.data.engine_rows import EngineRows, measured_cells, read_in_engine, weighted
from evalreg.data.frame import open_frame, refuse_extreme
from evalreg.data.rows import Roles, joint_names
from evalreg.data.sums import RATIO_COLUMNS, ROWS, WEIGHTED_RATIO_COLUMNS, Lines, SummedLog, lines_of, refuse_other
from evalreg.errors import DataError, DenominatorWarning, NonFiniteError, Note, RowList, ScoreRangeError
from evalreg.estimate import About, Estimate, of_means, on_one_side
from evalreg.estimators.cells import (
    Linearized,
    Split,
    independence_note,
    linearized_estimate,
    refuse_constant,
    split_rows,
    titled,
    with_score_intervals,
)
from evalreg.inference.questions import unequal_notes
from evalreg.numerics.limits import CONSTANT
from evalreg.results.results import Results, estimator, results_of
from evalreg.scores.base import Cells
from evalreg.scores.engine import EngineScores, Measured, SummedRows, near_centres
from evalreg.scores.score_interval import ICC_MEAN

# Above this relative standard error of a denominator, first-order variances of a ratio are not to be relied on.
HARDLY_KNOWN = 0.2


def solve(split: Split, numerator: FloatArray, denominator: FloatArray) -> Linearized:
    """Ratios R = sum w n / sum w d within cells, with influence (n - R d)/dbar; d is positive in sum.

    Leaving out cluster g changes R by exactly -T_g/(D - D_g), so that the leverage of a cluster is its share of the
    denominator. Cochran (1977), Sampling Techniques, section 6.3; Royall and Cumberland (1981), JASA 76, for the
    leverages.
    """
    tops, bottoms, weight = (split.total(column) for column in (numerator, denominator, np.ones(split.n_rows)))
    ratio, mean = tops / bottoms, bottoms / weight
    fitted = ratio[split.codes] * denominator
    residual = numerator - fitted
    residual[np.abs(residual) <= CONSTANT * (np.abs(numerator) + np.abs(fitted))] = 0.0
    scale = mean[split.codes]
    outside = ~((numerator >= 0) & (numerator <= denominator))
    bounded = np.bincount(split.codes, outside, len(split.names)) == 0
    value = np.divide(numerator, denominator, out=np.zeros_like(scale), where=denominator > 0)
    return Linearized(ratio, residual / scale, denominator / scale, exact=True, bounded=bounded, value=value)


@estimator
def ratio(
    data: Any,
    numerator: str,
    denominator: str,
    *,
    by: str | list[str] | None = None,
    groups: Groups = None,
    weights: str | npt.ArrayLike | None = None,
    missing: MissingName = "drop",
    **options: Unpack[EstimatorOptions],
) -> Results:
    """Ratios of two means with error bars valid when rows within a cluster are dependent.

    The sum of one column over the sum of another: errors per word, cost per solved task, a micro average over
    questions of different lengths. It is not the mean of the rows' own ratios.

    Parameters
    ----------
    data : data frame
        pandas, polars, pyarrow, a polars LazyFrame or a DuckDB relation; a dict of arrays; or sums of a log
        (`summarise` with `numerator` and `denominator`, `merged`).
    numerator, denominator : str
        Columns of numbers; booleans count as 0 and 1. The denominator is nowhere negative; a row may have a
        denominator of 0, and then still counts by its numerator.
    by : str or list of str, optional
        Columns of the models; one ratio each, named by the labels, with their joint covariance.
    groups : str, list of str, array, Series or dict, optional
        Clusters, as in `fit`; independent rows by default.
    weights : str or array_like, shape (n_rows,), optional
        Sampling weights.
    subset : str, optional
        Which rows to use, in the language of ``--where``: ``'language == "en" and tokens < 100'``. The summary and
        `dropped` count the others. Arrays of groups and weights are those of all rows.
    missing : {"drop", "raise"}, optional
        What to do with rows where something is missing; dropped rows are counted.
    <cov>
        Covariance; "CR2" by default with groups, "naive" without. "CR3" and "jackknife" solve the ratio again without
        each cluster, exactly.
    <ssc>
    <dof>
        Degrees of freedom, as in `mean`.
    <repair>

    Returns
    -------
    Results
        Parameters are named by the labels of `by`, sorted as strings, or "ratio". One of which every numerator lies
        between 0 and its denominator is a weighted mean of values in [0, 1] and has the score interval of `mean`.

    Raises
    ------
    ScoreRangeError
        If a denominator is negative.
    DataError
        If the denominators of a model sum to zero.
    MissingColumnError, NonNumericError, NonFiniteError, TooFewClustersError, ConstantScoreError, EmptyDataError
        If the data break another rule; the message says which rows.
    ArgumentError
        If an option is unknown.

    Notes
    -----
    By Taylor linearization row i has the influence (n_i - R d_i)/sum(d). The delta method needs a denominator that is
    well away from zero: a `DenominatorWarning` is issued where its relative standard error is above a fifth.

    References
    ----------
    Cochran (1977), Sampling Techniques, section 6.3; Woodruff (1971), JASA 66, 411-414.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
    >>> log["correct_words"] = log["score"] * log["n_words"]
    >>> results = er.ratio(log, "correct_words", "n_words", groups="passage")
    >>> results.params.index.tolist(), results.n_clusters
    (['ratio'], {'passage': 40})
    """
    requested = requested_options(options)
    columns = {"numerator": numerator, "denominator": denominator}
    refuse_same(columns)
    about = About(titled("Ratio", by), f"{numerator} / {denominator}", interval="logit", icc=ICC_MEAN)
    table = lines_of(data, "ratios") if isinstance(data, SummedLog) else open_frame(data)
    if isinstance(data, SummedLog):
        refuse_other(data, columns | {"weights": weights})
    if isinstance(table, Query):
        query, by_columns = with_roles(table, {} if isinstance(table, Lines) else columns, by=by)
        roles = Roles(numerator, by_columns, weights=weights, missing=missing)
        if isinstance(query, Lines):
            read, rows = _ratios_of_lines(query, roles, groups)
        else:
            read, rows = read_ratios(query, (numerator, denominator), roles, groups)
        axes = read.axes
        estimate, apart = _from_sums(read, rows, (numerator, denominator), about)
    else:
        split = split_rows(table, columns, by, groups, weights, missing, "ratio")
        axes = split.rows.axes
        estimate, apart = _in_memory(split, (numerator, denominator), about)
    unequal = unequal_notes(estimate, None, axes, of_mean=False) if by else ()
    notes = (*independence_note(by, groups), *unequal, *_denominator_notes(estimate, axes, apart, denominator))
    return results_of(estimate, axes, requested, notes)


def _in_memory(split: Split, columns: tuple[str, str], about: About) -> tuple[Estimate, FloatArray]:
    """The estimate from rows in memory, and by cell the sums over rows of w^2 (d/mean - 1)^2."""
    top, bottom = split.rows.values["numerator"], split.rows.values["denominator"]
    if (bottom < 0).any():
        rows = rows_where(bottom < 0, split.rows.source.positions())
        raise _negative(columns[1], str(rows), rows)
    _refuse_empty(split.names, split.total(bottom), columns[1])
    idle = int(np.count_nonzero((top == 0) & (bottom == 0)))
    about = replace(about, lines=_idle_lines(idle), levels=on_one_side(top, top))
    solved = solve(split, top, bottom)
    squares = np.bincount(split.codes, split.weighted(solved.share - 1) ** 2, len(split.names))
    return linearized_estimate(split, solved, about, columns[0]), squares.astype(np.float64)


def _denominator_notes(
    estimate: Estimate, axes: tuple[Axis, ...] | None, squares: FloatArray, column: str
) -> list[Note]:
    """A warning where the standard error of a mean denominator over that mean, the largest over clusterings, is large.

    About the bias of the ratio over its standard error, at most. Cochran (1977), Sampling Techniques, section 6.8.
    `squares` are those of independent rows.
    """
    assert estimate.cells is not None
    for axis in axes or ():
        squares = np.maximum(squares, estimate.scores.shares_apart(axis))
    relative = np.sqrt(squares) / estimate.cells.weight
    worst = int(np.argmax(relative))
    if relative[worst] <= HARDLY_KNOWN:
        return []
    where = "" if estimate.n_params == 1 else f" of {estimate.names[worst]}"
    text = (
        f"the denominator {column!r}{where} is known to within {relative[worst]:.0%} only (its relative standard "
        "error): the ratio is skewed and its interval may be too short."
    )
    return [(DenominatorWarning, text)]


def ratio_measures(n: nw.Expr, d: nw.Expr, weight: nw.Expr | None) -> dict[str, Measure]:
    """What is measured of numerators and denominators: weighted sums t and b, ends, and counts of what is refused."""
    conditions = {
        # Nothing but a finite number times zero is zero.
        "sound": (n * 0.0 == 0.0) & (d * 0.0 == 0.0),
        "negative": d < 0,
        "inside": (n >= 0) & (n <= d),
        "stray": (d == 0) & (n != 0),
        "idle": (d == 0) & (n == 0),
    }
    measures = {name: count_of(condition) for name, condition in conditions.items()}
    row_ratio = nw.when(d > 0).then(n / positive(d))
    measures |= {"t": (weighted(n, weight), "sum"), "b": (weighted(d, weight), "sum")}
    measures |= {"lo": (row_ratio, "min"), "hi": (row_ratio, "max")}
    return measures | {"least": (n, "min"), "most": (n, "max"), "shortest": (d, "min"), "longest": (d, "max")}


def positive(d: nw.Expr) -> nw.Expr:
    """The denominator, 1 where it is not positive: engines differ in what dividing by zero is."""
    return nw.when(d > 0).then(d).otherwise(nw.lit(1.0))


def read_ratios(table: Query, columns: tuple[str, str], roles: Roles, groups: Groups) -> tuple[EngineRows, Measured]:
    """The rows of an engine and what `ratio_measures` says of their cells, by one query."""
    values = dict(zip(("numerator", "denominator"), columns, strict=True))
    read = read_in_engine(table, roles, groups, values, ratio_measures)
    _check_sums(read.sums, columns)
    n, d = map(floats_of, columns)
    return read, Measured(read.table, n, d, read.weight)


def _ratios_of_lines(table: Lines, roles: Roles, groups: Groups) -> tuple[EngineRows, Measured]:
    """The same of lines of sums."""
    weighted, n = table.log.roles.weights is not None, nw.col(ROWS)
    stored = RATIO_COLUMNS | (WEIGHTED_RATIO_COLUMNS if weighted else {})
    of = {name: nw.col(column) for name, column in stored.items()}
    measures: dict[str, Measure] = {name: (of[name], "sum") for name in ("t", "b", "inside", "stray", "idle")}
    measures |= {"w": (of.get("w", n), "sum"), "lo": (of["lo"], "min"), "hi": (of["hi"], "max")}
    measures |= {"least": (of["least"], "min"), "most": (of["most"], "max")}
    cells, sums = measured_cells(table, roles.by, measures)
    powers = (("ee", "ed", "dd"), ("wee", "wed", "wdd"))[: 2 if weighted else 1]
    rows = SummedRows(
        table,
        of["t"],
        of["b"],
        of.get("w"),
        squares=tuple((of[ee], of[ed], of[dd]) for ee, ed, dd in powers),
        ratio_sums=(of["each"], of.get("ww", n), of.get("wd", of["b"])),
    )
    axes = None if groups is None else parse_groups(groups, table.columns)
    return EngineRows(table, axes, table.log.dropped, of.get("w"), cells, sums), rows


def centred(
    rows: Measured, cells: CellKeys, sums: dict[str, FloatArray]
) -> tuple[FloatArray, BoolArray, dict[str, FloatArray]]:
    """Centres of the cells, which of them are flat, and moments and spread about the centres."""
    top, bottom = sums["t"], sums["b"]
    size = np.fmax(np.abs(sums["lo"]), np.abs(sums["hi"]))
    flat = (sums["hi"] - sums["lo"] <= CONSTANT * size) & (sums["stray"] == 0)
    middle = np.full(top.size, float(top.sum() / max(bottom.sum(), np.finfo(float).tiny)))
    ratio = np.divide(top, bottom, out=middle.copy(), where=bottom > 0)
    centre, central = near_centres(
        rows, cells, ratio, middle, flat, lambda about: rows.spread(cells, about) | rows.sizes()
    )
    return centre, flat, central


def _from_sums(read: EngineRows, rows: Measured, columns: tuple[str, str], about: About) -> tuple[Estimate, FloatArray]:
    """The estimate from sums of cells, and by cell the sums over rows of w^2 (d/mean - 1)^2."""
    sums, cells = read.sums, read.cells
    w, top, bottom = sums["w"], sums["t"], sums["b"]
    names = joint_names(cells.keys) if cells.columns else ("ratio",)
    _refuse_empty(names, bottom, columns[1])
    centre, flat, central = centred(rows, cells, sums)
    ratio, mean = top / bottom, bottom / w
    bounded = sums["inside"] == sums["n"]
    refuse_constant(names, flat & ~bounded, columns[0])
    shift = ratio - centre
    squares = np.where(flat, 0.0, central["ee"] - 2 * shift * central["ed"] + shift**2 * central["dd"])
    spread = np.where(flat, 0.0, central["each"] - 2 * shift * central["e"] + shift**2 * bottom)
    squares, spread = np.maximum(squares, 0.0) / mean**2, np.maximum(spread, 0.0) / bottom
    weighted = rows.weight is not None
    moments = [] if weighted else [{name: central[name] for name in ("ee", "ed", "dd")}]
    of_cells = Cells(sums["n"], w, ratio, squares, sums["least"] / mean, sums["most"] / mean)
    scores = EngineScores(rows, cells, of_cells, ratio, centre, weighted, mean_size=mean, flat=flat, _moments=moments)
    low, high = np.where(bounded, sums["lo"], -np.inf), np.where(bounded, sums["hi"], np.inf)
    levels, spread = on_one_side(sums["least"], sums["most"]), np.where(bounded, spread, squares / w)
    cells_of_ratios = Cells(sums["n"] - sums["idle"], w, ratio, squares, low, high, spread=spread)
    estimate = of_means(
        names,
        np.eye(ratio.size),
        cells_of_ratios,
        scores,
        bounded=bool(bounded.all()),
        dropped=read.dropped,
        about=replace(about, lines=_idle_lines(int(sums["idle"].sum())), levels=levels),
    )
    apart = central["wdd"] / mean**2 - 2 * central["wd"] / mean + central["ww"]
    return with_score_intervals(estimate, bounded), np.maximum(apart, 0.0)


def _check_sums(sums: Mapping[str, FloatArray], columns: tuple[str, str]) -> None:
    """Raise where numbers are not finite or denominators negative."""
    n_rows = int(sums["n"].sum())
    if unsound := n_rows - int(sums["sound"].sum()):
        raise NonFiniteError(
            f"`numerator` and `denominator` must be finite; columns {listed(columns)} hold infinities in {unsound} of "
            f"{n_rows} rows in use. Set them to missing, or leave the rows out.",
            count=unsound,
        )
    refuse_extreme(np.array([sums["least"], sums["most"]]), columns[0], "`numerator`")
    refuse_extreme(np.array([sums["shortest"], sums["longest"]]), columns[1], "`denominator`")
    if negative := int(sums["negative"].sum()):
        raise _negative(columns[1], f"{negative} of {n_rows} rows in use", RowList((), negative))


def _negative(column: str, where: str, rows: RowList) -> ScoreRangeError:
    return ScoreRangeError(
        f"`denominator` must not be negative; column {column!r} is in {where}. A sum of both signs can come near zero, "
        "where a ratio has no error bar.",
        column=column,
        rows=rows,
    )


def _refuse_empty(names: Sequence[str], totals: FloatArray, column: str) -> None:
    """Raise where all denominators of a model are zero."""
    if empty := list(compress(names, totals == 0)):
        raise DataError(
            f"the denominators must not all be zero; column {column!r} is 0 in every row of {listed(empty)}. Leave "
            "those rows out.",
            column=column,
            count=len(empty),
        )


def _idle_lines(n_idle: int) -> tuple[str, ...]:
    """What a summary says of leverages, and of rows without any part in the ratio."""
    share = "Leverages and sizes of clusters are shares of the denominator."
    if not n_idle:
        return (share,)
    rows = counted(n_idle, "row")
    return (share, f"{rows} with a numerator and a denominator of 0 {'has' if n_idle == 1 else 'have'} no part in it.")
