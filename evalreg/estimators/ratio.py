"""Ratios of two means, for one model or many at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evalreg.checks import MISSING, CovName, DofName, FloatArray, MissingName, RepairName, SscName, option
from evalreg.covariance.options import check_cov_options, documented
from evalreg.data.clusters import joint, pair_codes
from evalreg.data.engine import LazyTable
from evalreg.data.engine_spark import one_scan
from evalreg.data.groups import Groups
from evalreg.data.joint_ids import with_roles
from evalreg.data.names import known_columns
from evalreg.data.opening import open_frame
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.data.rows import Roles
from evalreg.data.summed import SummedLog, with_joint_lines
from evalreg.errors import ArgumentError, DenominatorWarning, Note, ScoreRangeError
from evalreg.estimate import About, Estimate
from evalreg.estimate.about import on_one_side
from evalreg.estimators.engine_ratio import idle_lines, ratio_in_engine, refuse_empty
from evalreg.estimators.linearized import Linearized, Split, independence_note, linearized_estimate, split_rows
from evalreg.estimators.subsets import chooses_rows
from evalreg.estimators.summed import unequal_questions
from evalreg.estimators.summed_ratio import ratio_of_sums
from evalreg.results.results import Results, results_of

# A residual below this fraction of its two terms is rounding.
ROUNDING = 1e-13
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
    residual[np.abs(residual) <= ROUNDING * (np.abs(numerator) + np.abs(fitted))] = 0.0
    scale = mean[split.codes]
    bounded = bool(np.all((numerator >= 0) & (numerator <= denominator)))
    value = np.divide(numerator, denominator, out=np.zeros_like(scale), where=denominator > 0)
    return Linearized(ratio, residual / scale, denominator / scale, exact=True, bounded=bounded, value=value)


@chooses_rows()
@one_scan
@documented
def ratio(
    data: Any,
    numerator: str,
    denominator: str,
    *,
    by: str | list[str] | None = None,
    groups: Groups = None,
    weights: str | npt.ArrayLike | None = None,
    subset: str | None = None,
    missing: MissingName = "drop",
    cov: CovName | None = None,
    ssc: SscName | None = None,
    dof: DofName | float | None = None,
    repair: RepairName | None = None,
) -> Results:
    """Ratios of two means with error bars that hold when rows within a cluster are dependent.

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
        `dropped` count the others. Arrays of groups and weights are those of all rows. Frames in memory only.
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
        Parameters are named by the labels of `by`, sorted as strings, or "ratio". Where every numerator lies between 0
        and its denominator, the ratio is a weighted mean of values in [0, 1] and the interval is built on the logit
        scale.

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
    asked = check_cov_options(cov, ssc, dof, repair)
    option("missing", missing, MISSING)
    if numerator == denominator:
        raise ArgumentError(f'`numerator` and `denominator` must be different columns; both name "{numerator}".')
    about = About(
        model="Ratio" if by is None else f"Ratio by {by if isinstance(by, str) else ', '.join(by)}",
        outcome=f"{numerator} / {denominator}",
        interval="widened",
    )
    columns = {"numerator": numerator, "denominator": denominator}
    more: list[Note] = []
    table = with_joint_lines(data, by=by) if isinstance(data, SummedLog) else open_frame(data)
    if isinstance(table, SummedLog):
        by_columns = known_columns(by, table.roles.labels, "by")
        roles = Roles(numerator, by_columns, weights=weights, missing=missing)
        found = ratio_of_sums(table, (numerator, denominator), roles, groups, about)
        estimate, axes, names, relative = found.estimate, found.axes, found.estimate.names, found.relative
        if by_columns:
            more = unequal_questions(table, by_columns)
    elif isinstance(table, LazyTable):
        lazy, by_columns = with_roles(table, columns, by=by)
        roles = Roles(numerator, by_columns, weights=weights, missing=missing)
        found = ratio_in_engine(lazy, (numerator, denominator), roles, groups, about)
        estimate, axes, names, relative = found.estimate, found.axes, found.estimate.names, found.relative
    else:
        split = split_rows(
            table, {"numerator": numerator, "denominator": denominator}, by, groups, weights, missing, "ratio"
        )
        estimate, relative = _in_memory(split, (numerator, denominator), about)
        axes, names = split.rows.axes, split.names
    notes = (*independence_note(by, groups), *_denominator_notes(names, relative, denominator), *more)
    return results_of(estimate, axes, asked, notes)


def _in_memory(split: Split, columns: tuple[str, str], about: About) -> tuple[Estimate, FloatArray]:
    """The estimate from rows in memory, and the relative error of each denominator."""
    top, bottom = split.rows.values["numerator"], split.rows.values["denominator"]
    _check_denominator(split, bottom, columns[1])
    idle = int(np.count_nonzero((top == 0) & (bottom == 0)))
    about = replace(about, lines=idle_lines(idle), levels=on_one_side(top, top))
    return linearized_estimate(split, solve(split, top, bottom), about, columns[0]), relative_error(split, bottom)


def relative_error(split: Split, denominator: FloatArray) -> FloatArray:
    """Standard error of each cell's mean denominator over that mean, the largest over the clusterings.

    About the bias of the ratio over its standard error, at most. Cochran (1977), Sampling Techniques, section 6.8.
    """
    total, codes, n_cells = split.total(denominator), split.codes, len(split.names)
    mean = total / split.total(np.ones(split.n_rows))
    deviation = split.weighted(denominator - mean[codes])
    squares = np.bincount(codes, deviation**2, n_cells)
    for axis in split.rows.axes or ():
        clusters = joint([split.rows.used[name] for name in axis])
        pairs = pair_codes(codes, n_cells, clusters.codes, clusters.n_clusters)
        sums = np.bincount(pairs.codes, deviation, pairs.n_clusters)
        squares = np.maximum(squares, np.bincount(codes[pairs.first], sums**2, n_cells))
    return np.asarray(np.sqrt(squares) / total)


def _denominator_notes(names: tuple[str, ...], relative: FloatArray, column: str) -> list[Note]:
    worst = int(np.argmax(relative))
    if relative[worst] <= HARDLY_KNOWN:
        return []
    where = "" if len(names) == 1 else f" of {names[worst]}"
    text = (
        f"the denominator {column!r}{where} is known to within {relative[worst]:.0%} only (its relative standard "
        "error): the ratio is skewed and its interval may be too short."
    )
    return [(DenominatorWarning, text)]


def _check_denominator(split: Split, bottom: FloatArray, column: str) -> None:
    negative = bottom < 0
    if negative.any():
        where, count = row_list(negative)
        rows = [int(row) for row in split.rows.source.positions()[where]]
        raise ScoreRangeError(
            f"`denominator` must not be negative; column {column!r} is in {rows_text(rows, count)}. A sum of both "
            "signs can come near zero, where a ratio has no error bar.",
            column=column,
            rows=rows,
            count=count,
        )
    refuse_empty([name for name, total in zip(split.names, split.total(bottom), strict=True) if total == 0], column)
