"""Prevalences corrected for the errors of a judge, known from a calibration set of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import MISSING, CovName, DofName, FloatArray, MissingName, RepairName, SscName, option
from evalreg.covariance.assembly import assemble
from evalreg.covariance.options import check_cov_options, documented, resolve_cov
from evalreg.data.cells import cells_of, joint_names
from evalreg.data.frame import Table
from evalreg.data.groups import Groups, parse_groups
from evalreg.data.joint_ids import with_roles
from evalreg.data.names import known_column, no_column
from evalreg.data.opening import open_frame
from evalreg.data.rows import read_rows
from evalreg.errors import ArgumentTypeError, DataError, Note, ScoreRangeError, ZeroVarianceWarning
from evalreg.estimate import About, Estimate
from evalreg.estimators.functions_of_means import function_of, means_of_cells
from evalreg.estimators.linearized import Split, in_memory, independence_note
from evalreg.estimators.subsets import chooses_rows
from evalreg.inference.fieller import Ratios
from evalreg.results.results import Results, results_of


@chooses_rows()
@documented
def judge_corrected(
    data: Any,
    *,
    judge: str,
    calibration: Any,
    human: str,
    by: str | list[str] | None = None,
    groups: Groups = None,
    subset: str | None = None,
    missing: MissingName = "drop",
    cov: CovName | None = None,
    ssc: SscName | None = None,
    dof: DofName | float | None = None,
    repair: RepairName | None = None,
) -> Results:
    """Shares of positive answers corrected for the errors of a judge, which a calibration set of its own shows.

    theta = (p + q0 - 1)/(q0 + q1 - 1), with p the share that the judge calls positive, q0 its specificity and q1 its
    sensitivity on the calibration set (Rogan and Gladen). The judge errs on the data as it does there. All values share
    q0 and q1, which is in their covariance: a difference of two models is surer than two intervals suggest.

    Parameters
    ----------
    data : data frame
        One row an answer, in memory: pandas, polars, pyarrow; or a dict of arrays.
    judge : str
        Column of the judge's verdicts, 0 or 1, in `data` and in `calibration`.
    calibration : data frame
        Rows with the verdict of the judge and the truth; other rows than those of `data`.
    human : str
        Column of the truth in `calibration`, 0 or 1.
    by : str or list of str, optional
        Columns of `data` (the model) whose joint values have a share each.
    groups : str or list of str, optional
        Clusters: columns of both frames. A label that is in both is one cluster.
    subset : str, optional
        Which rows of `data` to use, in the language of ``--where``; frames in memory only.
    missing : {"drop", "raise"}, optional
        What to do with rows of either frame where something is missing; dropped rows are counted.
    <cov>
        Covariance; "CR2" by default with groups, "naive" without.
    <ssc>
    <dof>
        Degrees of freedom, as in `mean`.
    <repair>

    Returns
    -------
    Results
        Named by the labels of `by`, or "mean". Estimates are not clipped; `conf_int()` is Fieller's, within [0, 1].

    Raises
    ------
    DataError
        If sensitivity + specificity - 1 may be 0 (its 95% interval holds 0), or no calibration row is truly positive,
        or none negative. ScoreRangeError, which is one, if a verdict is neither 0 nor 1.
    MissingColumnError, ArgumentTypeError, EmptyDataError, TooFewClustersError
        If columns or rows are not there.

    References
    ----------
    Rogan and Gladen (1978), American Journal of Epidemiology 107, 71-76; Lee et al. (2025), arXiv:2511.21140; Fieller
    (1954), JRSS B 16, 175-185. `plan.labels` splits the labels of a calibration set.

    Examples
    --------
    >>> import evalreg as er
    >>> truth = [1] * 50 + [0] * 50
    >>> calibration = {"label": truth, "verdict": [1] * 45 + [0] * 5 + [0] * 40 + [1] * 10}
    >>> log = {"verdict": [1] * 55 + [0] * 45}
    >>> found = er.judge_corrected(log, judge="verdict", calibration=calibration, human="label")
    >>> found.params.round(3).to_dict()
    {'mean': 0.5}
    """
    asked = check_cov_options(cov, ssc, dof, repair)
    option("missing", missing, MISSING)
    table, by_columns = with_roles(in_memory(open_frame(data), "corrected mean"), {"judge": judge}, by=by)
    labelled = in_memory(open_frame(calibration), "calibration set")
    for argument, name in (("judge", judge), ("human", human)):
        known_column(name, labelled.columns, argument)
    split, values, names = _together(table, labelled, judge, human, by_columns, groups, missing)
    means = means_of_cells(split, values, judge)
    _check_judge(means, split, asked)
    n, theta = len(names), np.array(means.params)
    numerator, denominator = np.zeros((n, n + 2)), np.zeros((n, n + 2))
    numerator[:, :n], numerator[:, n], denominator[:, n:] = np.eye(n), 1.0, 1.0
    slope = theta[n] + theta[n + 1] - 1.0
    ratio = (theta[:n] + theta[n] - 1.0) / slope
    jacobian = (numerator - ratio[:, None] * denominator) / slope
    lines = (
        f"Specificity {theta[n]:.3f} and sensitivity {theta[n + 1]:.3f} of {judge} against {human}; intervals are "
        "Fieller's.",
    )
    title = f"Mean corrected for a judge{' by ' + ', '.join(by_columns) if by_columns else ''}"
    about = About(title, judge, lines=lines, n_models=n if by_columns else 0, levels=True)
    family = Ratios(means, numerator, denominator, np.full((n, 2), -1.0), 0.0, 1.0)
    estimate = function_of(means, ratio, jacobian, names, about, family)
    notes = (*independence_note(by, groups), *_perfect(theta[n:], split, len(names)))
    return results_of(estimate, split.rows.axes, asked, notes)


def _together(
    table: Table,
    labelled: Table,
    judge: str,
    human: str,
    by_columns: tuple[str, ...],
    groups: Groups,
    missing: MissingName,
) -> tuple[Split, FloatArray, tuple[str, ...]]:
    """Rows of both frames as one, in cells by model, and of truly negative and positive ones, where right counts 1."""
    shared = [name for name in table.columns if name in labelled.columns]
    _check_groups(groups, table, labelled)
    answers = read_rows(table, {"judge": judge}, labels=dict.fromkeys(by_columns, "by"), missing=missing)
    pairs = read_rows(labelled, {"judge": judge, "human": human}, missing=missing)
    truth = pairs.values["human"]
    for name, column in ((judge, answers.values["judge"]), (judge, pairs.values["judge"]), (human, truth)):
        _check_verdicts(name, column)
    for is_true, what in ((0.0, "specificity"), (1.0, "sensitivity")):
        if not (truth == is_true).any():
            raise DataError(
                f"the {what} of the judge needs calibration rows with {human!r} = {is_true:g}; there are none. Label "
                "such answers too.",
                column=human,
                count=0,
            )
    keys, cell = cells_of(answers.used, by_columns)
    names = joint_names(keys)
    n_first, n_rows = table.n_rows, table.n_rows + labelled.n_rows
    values, part = np.full(n_rows, np.nan), np.zeros(n_rows, dtype=np.intp)
    at, others = answers.source.places(), n_first + pairs.source.places()
    values[at], part[at] = answers.values["judge"], 0 if cell is None else cell
    values[others], part[others] = (pairs.values["judge"] == truth).astype(float), len(names) + truth.astype(int)
    both = pd.concat([one.to_pandas(shared, None) for one in (table, labelled)], ignore_index=True)
    rows = read_rows(_opened(both), made={judge: values}, groups=groups, missing=missing)
    dropped = {reason: count + pairs.dropped.get(reason, 0) for reason, count in answers.dropped.items()}
    dropped["group"] = rows.dropped["group"]
    cells = (*names, *(f"{what} of the judge" for what in ("specificity", "sensitivity")))
    return Split(replace(rows, dropped=dropped), cells, rows.restrict(part)), rows.values[judge], names


def _opened(frame: pd.DataFrame) -> Table:
    table = open_frame(frame)
    assert isinstance(table, Table)
    return table


def _check_groups(groups: Groups, table: Table, labelled: Table) -> None:
    if groups is None:
        return
    if not (isinstance(groups, str) or (isinstance(groups, list | tuple) and all(isinstance(g, str) for g in groups))):
        raise ArgumentTypeError(
            f"`groups` must name columns that `data` and `calibration` both have; got {type(groups).__name__}."
        )
    for name in (name for axis in parse_groups(groups, table.columns) for name in axis):
        if name not in labelled.columns:
            raise no_column(name, labelled.columns, "groups", "not a column of `calibration`")


def _check_verdicts(name: str, values: FloatArray) -> None:
    other = (values != 0) & (values != 1)
    if other.any():
        n, first = int(other.sum()), values[other][0]
        raise ScoreRangeError(
            f"sensitivity and specificity are of labels 0 and 1; column {name!r} holds others in {n} rows (the first "
            f"is {first:g}). Compare it with a threshold first.",
            column=name,
            count=n,
        )


def _check_judge(means: Estimate, split: Split, asked: Any) -> None:
    """Refuse a judge that may be no better than chance: the correction would divide by what may be 0."""
    axes = split.rows.axes
    cov = assemble(means, axes or (), resolve_cov(asked, axes is not None, default="CR2"))
    C = np.append(np.zeros(means.n_params - 2), [1.0, 1.0])[None]
    slope = float((C @ means.params)[0]) - 1.0
    half = float((cov.critical(C, 0.05) * np.sqrt(cov.variance(C)))[0])
    if not abs(slope) > (half if half == half else 0.0):
        raise DataError(
            f"sensitivity + specificity - 1 of the judge must differ from 0; it is {slope:.3f}, with the 95% interval "
            f"{slope - half:.3f} to {slope + half:.3f}. Such a judge says nothing that could be corrected: label more "
            "answers, or take another judge."
        )


def _perfect(right: FloatArray, split: Split, first: int) -> tuple[Note, ...]:
    """A warning where no error of the judge was seen, whose rate is then taken for known."""
    count = np.bincount(split.codes, minlength=first + 2)[first:]
    return tuple(
        (
            ZeroVarianceWarning,
            f"the judge made no error on the {n} calibration rows that tell its {what}, which is then taken for known: "
            "the intervals leave out errors that were not seen. Label more of these.",
        )
        for what, value, n in zip(("specificity", "sensitivity"), right, count, strict=True)
        if value == 1
    )
