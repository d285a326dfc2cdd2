"""Prevalences corrected for the errors of a judge, known from a calibration set of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import MISSING, CovName, DofName, FloatArray, MissingName, RepairName, SscName, option
from evalreg.covariance.assembly import assemble
from evalreg.covariance.options import CovOptions, check_cov_options, documented, resolve_cov
from evalreg.data.cells import cells_of, joint_names
from evalreg.data.frame import Table
from evalreg.data.groups import Groups, parse_groups, with_roles
from evalreg.data.opening import open_frame
from evalreg.data.rows import read_rows
from evalreg.errors import DataError, Note, ZeroVarianceWarning
from evalreg.estimate import About, Estimate
from evalreg.estimators.cells import Split, in_memory, independence_note
from evalreg.estimators.functions_of_means import function_of, means_of_cells, refuse_values
from evalreg.estimators.subsets import chooses_rows
from evalreg.inference.behind import Ratios
from evalreg.results.results import Results, results_of

OF_TRUTH = ("specificity", "sensitivity")


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
    with_roles(labelled, {"judge": judge, "human": human})
    split, values = _together(table, labelled, (judge, human), by_columns, groups, missing)
    means, n = means_of_cells(split, values, judge), len(split.names) - 2
    _refuse_chance(means, split, asked)
    right = np.array(means.params)[n:]
    # (p + q0 - 1)/(q0 + q1 - 1)
    numerator = np.hstack([np.eye(n), np.tile([1.0, 0.0], (n, 1))])
    denominator = np.hstack([np.zeros((n, n)), np.ones((n, 2))])
    family = Ratios(means, np.arange(n), numerator, denominator, np.full((n, 2), -1.0), (0.0, 1.0))
    line = f"{human} against {judge}: specificity {right[0]:.3f}, sensitivity {right[1]:.3f}; Fieller's intervals."
    title = f"Mean corrected for a judge{' by ' + ', '.join(by_columns) if by_columns else ''}"
    about = About(title, judge, lines=(line,), n_models=n if by_columns else 0, levels=True)
    estimate = function_of(means, *family.values(), split.names[:n], about, family)
    notes: list[Note] = list(independence_note(by, groups))
    for what in (what for what, share in zip(OF_TRUTH, right, strict=True) if share == 1):
        text = f"the judge made no error where its {what} is seen, which is then taken for known. Label more of these."
        notes.append((ZeroVarianceWarning, text))
    return results_of(estimate, split.rows.axes, asked, tuple(notes))


def _together(
    table: Table, labelled: Table, names: tuple[str, str], by: tuple[str, ...], groups: Groups, missing: MissingName
) -> tuple[Split, FloatArray]:
    """Rows of both frames as one: verdicts in cells by model; and whether they are right, by the truth."""
    (judge, human), shared = names, [name for name in table.columns if name in labelled.columns]
    if groups is not None:
        parse_groups(groups, shared)
    answers = read_rows(table, {"judge": judge}, labels=dict.fromkeys(by, "by"), missing=missing)
    known = read_rows(labelled, {"judge": judge, "human": human}, missing=missing)
    verdict, truth = known.values["judge"], known.values["human"]
    for name, column in ((judge, answers.values["judge"]), (judge, verdict), (human, truth)):
        rule = "sensitivity and specificity are of labels 0 and 1"
        refuse_values(~np.isin(column, (0.0, 1.0)), column, name, rule, "Compare it with a threshold first.")
    for value, what in enumerate(OF_TRUTH):
        if not (truth == value).any():
            text = (
                f"sensitivity and specificity are of both truths; the {what} needs rows of `calibration` with "
                f"{human!r} = {value}, and there are none. Label such answers too."
            )
            raise DataError(text, column=human, count=0)
    keys, cell = cells_of(answers.used, by)
    n, first = len(keys), table.n_rows
    values, part = np.full(first + labelled.n_rows, np.nan), np.zeros(first + labelled.n_rows, dtype=np.intp)
    at, others = answers.source.places(), first + known.source.places()
    values[at], part[at] = answers.values["judge"], 0 if cell is None else cell
    values[others], part[others] = verdict == truth, n + truth
    both = pd.concat([one.to_pandas(shared, None) for one in (table, labelled)], ignore_index=True)
    rows = read_rows(Table(nw.from_native(both)), made={judge: values}, groups=groups, missing=missing)
    # Those without a verdict were counted by both readings.
    dropped = {reason: count + known.dropped[reason] for reason, count in answers.dropped.items()}
    rows = replace(rows, dropped=dropped | {"group": rows.dropped["group"]})
    return Split(rows, (*joint_names(keys), *OF_TRUTH), rows.restrict(part)), rows.values[judge]


def _refuse_chance(means: Estimate, split: Split, asked: CovOptions) -> None:
    """Refuse a judge that may be no better than chance: the correction would divide by what may be 0."""
    axes = split.rows.axes
    cov = assemble(means, axes or (), resolve_cov(asked, axes is not None, default="CR2"))
    C = np.append(np.zeros(means.n_params - 2), [1.0, 1.0])[None]
    slope, half = float((C @ means.params)[0]) - 1.0, float(np.nan_to_num(cov.half_width(C)[0]))
    if not abs(slope) > half:
        text = f"sensitivity + specificity - 1 of the judge must differ from 0; it is {slope:.3f} +- {half:.3f} (95%)"
        raise DataError(f"{text}: nothing that could be corrected. Label more answers, or take another judge.")
