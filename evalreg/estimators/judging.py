"""What human labels say of judges: scores rectified by a few, errors corrected by others, and what a panel is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, Unpack, cast

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg import errors
from evalreg.boards.board import Pairs, gather_pairs
from evalreg.checks import BoolArray, FloatArray, IntArray, issue, listed, option
from evalreg.choices import EstimatorOptions, MissingName, OpponentsName
from evalreg.covariance.options import CovOptions, requested_options, resolve_cov
from evalreg.covariance.special import FEW_CLUSTERS
from evalreg.covariance.terms import assemble
from evalreg.data.clusters import (
    Axis,
    Codes,
    Groups,
    Labels,
    axis_name,
    known_columns,
    parse_groups,
    refuse_same,
    rows_where,
    with_roles,
)
from evalreg.data.frame import Table, UsedRows, open_frame, restrict, rows_in_memory
from evalreg.data.pairs import PairRoles, as_names, read_scores
from evalreg.data.rows import ReadRows, cells_of, joint_names, read_rows
from evalreg.errors import DataError, Note
from evalreg.estimate import About, Estimate, Family, on_one_side
from evalreg.estimators.cells import (
    Split,
    from_row_influence,
    function_of,
    independence_note,
    means_of_cells,
    refuse_unless_binary,
    split_rows,
    titled,
)
from evalreg.estimators.design import Design
from evalreg.estimators.solving import solve_linear
from evalreg.estimators.win_rate import independence_notes, never_met
from evalreg.inference.intervals import Behind, Ratios
from evalreg.inference.rectification import LabelledRows, rectify, tune
from evalreg.numerics.limits import CONSTANT
from evalreg.results.results import Results, estimator, results_of


@estimator
def rectified_mean(
    data: Any,
    *,
    judge: str,
    human: str,
    by: str | list[str] | None = None,
    groups: Groups = None,
    missing: MissingName = "drop",
    **options: Unpack[EstimatorOptions],
) -> Results:
    """Means of what human labels would say about all rows, from a judge's scores of all and human labels of a few.

    theta = ybar_L - lambda (fbar_L - fbar_U), with y the human labels, f the judge's scores, L the rows with a human
    label and U those without. The judge may be wrong in any way: its scores only narrow the interval. lambda, between 0
    (human labels alone) and 1, is chosen to make the variance smallest under the clustering in use, and is then held
    fixed; its own estimation moves theta at second order only. Labelled rows must be a random sample of all rows, or of
    whole clusters, drawn without regard to labels and scores. Rows in different clusters are taken to be independent.

    Parameters
    ----------
    data : data frame or dict of arrays
        One row an answer, in memory.
    judge : str
        Column of the judge's scores, of all rows.
    human : str
        Column of the human labels on the same scale, null or NaN where there is none.
    by : str or list of str, optional
        Columns (the model) whose joint values have a mean and a lambda each.
    groups : str, list of str, array, Series, dict or None
        Clusters, as in `mean`. A cluster may have labelled and unlabelled rows.
    subset : str, optional
        Which rows to use, in the language of ``--where``: ``'language == "en" and tokens < 100'``. The summary and
        `dropped` count the others. Arrays of groups are those of all rows.
    missing : {"drop", "raise"}, optional
        Rows without a judge's score (that have no human label either), `by` or cluster id: dropped and counted, the
        default, or an error.
    cov, ssc, dof, repair : str, float or None, optional
        The covariance, as in `fit`.

    Returns
    -------
    Results
        Parameters named by the labels of `by`, or "mean". `to_frame()` has lambda, the numbers of rows, and the
        standard error from human labels alone; `with_cov` keeps lambda as it is. Where labels and judge's scores lie in
        [0, 1] the interval is on the logit scale; of a mean that is corrected to 0, to 1 or past them it is Clopper and
        Pearson's on as many trials as the labels are worth.

    Raises
    ------
    EmptyDataError
        If no row has a human label.
    DataError
        If rows have a human label and no judge's score, or some value of `by` has no human label.
    TooFewClustersError
        If the labelled rows of a mean lie in a single cluster.
    NotAvailableError
        If `cov` is "jackknife": without each cluster lambda would be another one.
    EvalregError
        As in `mean`.

    References
    ----------
    Angelopoulos, Duchi and Zrnic (2023), PPI++: efficient prediction-powered inference, arXiv:2311.01453, section 6;
    with covariances of cluster totals in place of those of rows.

    Examples
    --------
    >>> import numpy as np, evalreg as er
    >>> log = er.datasets.passages(n_passages=200, seed=1)  # simulated
    >>> rng = np.random.default_rng(1)
    >>> log["human"] = log["score"].where(rng.random(len(log)) < 0.25)
    >>> log["judge"] = np.where(rng.random(len(log)) < 0.9, log["score"], 1 - log["score"])
    >>> results = er.rectified_mean(log, judge="judge", human="human", groups="passage")
    >>> results.to_frame()[["lambda", "human_se", "se"]].round(3).to_dict("list")
    {'lambda': [0.667], 'human_se': [0.028], 'se': [0.022]}
    """
    requested = requested_options(options)
    resolved = resolve_cov(requested, groups is not None)
    marks = {"judge": judge, "human": human}
    table, by_columns = with_roles(rows_in_memory(data, "`rectified_mean`", [judge, human]), marks, by=by)
    refuse_same(marks)
    scores, values = table.floats(judge, "judge"), table.floats(human, "human")
    check_marks(scores, ~np.isnan(values), judge, human)
    rows = read_rows(table, {judge: scores}, labels=dict.fromkeys(by_columns, "by"), groups=groups, missing=missing)
    keys, model = cells_of(rows.used, by_columns)
    values = rows.restrict(values)
    labelled = ~np.isnan(values)
    judged = LabelledRows(
        judge=rows.values[judge],
        human=np.where(labelled, values, 0.0),
        labelled=labelled,
        model=np.zeros(values.size, dtype=np.intp) if model is None else model,
        names=joint_names(keys),
        labels=rows.labels(),
    )
    axes = rows.axes or ()
    few = check_labelled(judged, axes)
    weight, lines, notes = tune(judged, axes, resolved)
    about = About(
        model=titled("Rectified mean", by_columns),
        outcome=f"{human}, by judge {judge}",
        interval="logit",
        lines=lines,
        levels=on_one_side(values[labelled], values[labelled]),
    )
    estimate = rectify(judged, weight, dropped=rows.dropped, about=about)
    return results_of(estimate, rows.axes, requested, (*notes, *few, *independence_note(by_columns, groups, "means")))


def check_marks(scores: FloatArray, has_label: BoolArray, judge: str, human: str) -> None:
    """Refuse a log without human labels, and human labels of rows that the judge did not score (NaN)."""
    if not has_label.any():
        raise errors.EmptyDataError(
            f"`human` must label some rows; column {human!r} is missing in all {has_label.size}. Label a random sample "
            "of the rows, or use `mean` for what the judge says.",
            column=human,
            count=0,
        )
    unscored = has_label & np.isnan(scores)
    if unscored.any():
        rows = rows_where(unscored)
        raise DataError(
            f"every row with a human label ({human!r}) must have a judge's score; column {judge!r} is missing in "
            f"{rows}. Score such rows too: leaving them out could bias the sample.",
            column=judge,
            rows=rows,
        )


def check_labelled(judged: LabelledRows, axes: tuple[Axis, ...]) -> tuple[Note, ...]:
    """Refuse a mean without labelled rows in two clusters; warnings of those with fewer than ten labelled clusters."""
    n_labelled = judged.n_clusters(axes, True)
    without = list(compress(judged.names, n_labelled == 0))
    if without:
        raise DataError(
            f"`human` must label rows of every mean; none are labelled of {listed(without)}. Label some, or leave "
            "those rows out.",
            count=len(without),
        )
    single = list(compress(judged.names, n_labelled < 2))
    what = " + ".join(map(axis_name, axes))
    if single:
        raise errors.TooFewClustersError(
            f"a mean needs {f'labelled rows in at least 2 clusters of {what!r}' if axes else '2 labelled rows'}; "
            f"one alone has those of {listed(single)}. Label rows of other clusters too.",
            column=what or None,
            count=len(single),
        )
    fewest = int(np.min(n_labelled))
    enough = fewest >= FEW_CLUSTERS or not axes
    if enough or min(judged.labels.codes(axis).n_clusters for axis in axes) < FEW_CLUSTERS:
        return ()
    text = (
        f"{fewest} {what} clusters have labelled rows"
        f"{f' ({judged.names[int(np.argmin(n_labelled))]})' if len(judged.names) > 1 else ''}: "
        "few to learn lambda and a variance from, so that intervals may be too short."
    )
    return ((errors.FewClustersWarning, text),)


COMPARISON = "comparison"


@dataclass(frozen=True)
class BothSides(UsedRows):
    """Labels of rows of which each comparison has two: first those of the first model, then of the second."""

    def places(self) -> IntArray:
        """Positions in the table of the rows' comparisons."""
        return np.tile(super().places(), 2)

    def _used(self, name: str, codes: IntArray, labels: Any) -> Codes:
        return _twice(super()._used(name, codes, labels))


def _twice(codes: Codes) -> Codes:
    return Codes(np.tile(codes.codes, 2), codes.n_clusters, codes.labels, tuple(_twice(part) for part in codes.parts))


@estimator
def rectified_win_rate(
    data: Any,
    *,
    left: str,
    right: str,
    judge: str,
    human: str,
    labels: Mapping[Any, str | None] | None = None,
    key: str | list[str] | None = None,
    groups: Groups = None,
    opponents: OpponentsName = "uniform",
    missing: MissingName = "drop",
    **options: Unpack[EstimatorOptions],
) -> Results:
    """Win rates that human verdicts on all comparisons would give, from a judge's verdicts and human ones on a few.

    theta_a = ybar_L - lambda (fbar_L - fbar_U), the weighted means of model a's scores over its comparisons with a
    human verdict (y human, f judge) and without. The judge may be wrong in any way: its verdicts only narrow the
    interval. One lambda serves all models. The comparisons with a human verdict must be a random sample, or all those
    of randomly drawn clusters. Comparisons that share no cluster are taken to be independent.

    Parameters
    ----------
    data : data frame or dict of arrays
        One row a comparison, in memory.
    left, right : str
        Columns of the two models.
    judge, human : str
        Columns of the verdicts of the judge, on all rows, and of humans, missing where there is none. A column of
        numbers is scores of the left model in [0, 1]; any other has "left", "right", "tie" or a model's name.
    labels : mapping, optional
        What other verdicts mean in either column, as in `win_rate`.
    key : str or list of str, optional
        Columns that, with the two models, identify a comparison, which may then not be repeated.
    groups : str, list of str, array, Series, dict or None
        Clusters, as in `win_rate`; by default each comparison is one.
    opponents : {"uniform", "as_sampled"}, optional
        Equal weights of all opponents that a model met (the default), held fixed, or by the comparisons it had.
    subset : str, optional
        Which rows to use, in the language of ``--where``; frames in memory only.
    missing : {"drop", "raise"}, optional
        What to do with rows without a judge's verdict (which must have no human one either), model or cluster id.
    <cov>
        Covariance; "CR2" by default.
    <ssc>
    <dof>
        Degrees of freedom, as in `win_rate`.
    <repair>

    Returns
    -------
    Results
        Parameters named by model. A comparison counts as two rows, one for each of its models. `to_frame()` has
        lambda, the numbers of rows, and the standard errors from human verdicts alone. Intervals are those of
        `rectified_mean` and stay in [0, 1].

    Raises
    ------
    EmptyDataError, DataError, TooFewClustersError
        If there are no human verdicts, a labelled row has no judge's verdict, or a model has no labelled comparisons in
        two clusters; the message names them.
    UnknownLabelError, SelfComparisonError, DuplicateRowsError, ScoreRangeError
        As in `win_rate`.
    NotAvailableError, ArgumentError
        If the rows are in an engine, or `labels` comes with scores for verdicts.

    References
    ----------
    Angelopoulos, Duchi and Zrnic (2023), PPI++: efficient prediction-powered inference, arXiv:2311.01453, section 6.

    Examples
    --------
    >>> import numpy as np, evalreg as er
    >>> log = er.datasets.judge_log(n_models=3, n_prompts=150, n_judges=2, seed=1)  # simulated
    >>> log = log.rename(columns={"winner": "human"})
    >>> rng = np.random.default_rng(1)
    >>> log["judge"] = log["human"].where(rng.random(len(log)) < 0.9, "left")  # fond of the left side
    >>> log["human"] = log["human"].where(rng.random(len(log)) < 0.2)
    >>> sides = {"left": "left", "right": "right", "judge": "judge", "human": "human"}
    >>> results = er.rectified_win_rate(log, **sides, groups="prompt")
    >>> table = results.to_frame()
    >>> bool((table["se"] < table["human_se"]).all())
    True
    """
    requested = requested_options(options)
    option("opponents", opponents, OpponentsName)
    marked = {"judge": judge, "human": human}
    opened = rows_in_memory(data, "`rectified_win_rate`", [left, right, judge, human])
    table, _ = with_roles(opened, marked, left=left, right=right)
    refuse_same(marked)
    by_judge, by_human = (_roles(table, left, right, name, labels, key, missing) for name in (judge, human))
    if labels is not None and by_judge.winner is None and by_human.winner is None:
        raise errors.ArgumentError("`labels` says what verdicts mean; both `judge` and `human` hold scores.")
    marks = _read(table, by_human, "human")
    check_marks(_read(table, by_judge, "judge"), ~np.isnan(marks), judge, human)
    pairs = gather_pairs(data, by_judge, groups, "`rectified_win_rate`")
    comparison: Axis = (_unused(COMPARISON, table),)
    judged, lines = _both_sides(pairs, marks, opponents, comparison[0])
    clustered = requested.cov is None or requested.needs_clusters
    axes = (comparison,) if groups is None and clustered else pairs.axes
    few = check_labelled(judged, axes or ())
    weight, of_lambda, notes = tune(judged, axes or (), resolve_cov(requested, axes is not None), pooled=True)
    model = "Rectified win rate" if opponents == "uniform" else "Rectified win rate, as sampled"
    about = About(
        model=model,
        outcome=f"{human}, by judge {judge}",
        interval="logit",
        lines=(*lines, "A comparison is two rows, one for each of its models.", *of_lambda),
        n_models=len(judged.names),
        null=0.5,
    )
    estimate = rectify(judged, weight, comparison, dropped=pairs.dropped, about=about)
    return results_of(estimate, axes, requested, (*notes, *few, *independence_notes(groups)))


def _roles(table: Table, left: str, right: str, name: str, labels: Any, key: Any, missing: MissingName) -> PairRoles:
    """The roles with one column of verdicts: scores where it holds numbers."""
    try:
        table.floats(name, "judge")
    except errors.NonNumericError:
        return PairRoles(left, right, winner=name, labels=labels, key=as_names(key), missing=missing)
    return PairRoles(left, right, score=name, key=as_names(key), missing=missing)


def _read(table: Table, roles: PairRoles, argument: str) -> FloatArray:
    """Scores of the left model; an error names the argument of this function."""
    try:
        return read_scores(table, roles)
    except (errors.ScoreRangeError, errors.UnknownLabelError) as error:
        text = error.message.replace("`score`", f"`{argument}`").replace("`winner`", f"`{argument}`")
        raise type(error)(text, column=error.column, rows=error.rows, count=error.count) from None


def _unused(name: str, table: Table) -> str:
    return name if name not in table.columns else _unused(f"{name}_", table)


def _both_sides(pairs: Pairs, marks: FloatArray, opponents: str, axis: str) -> tuple[LabelledRows, tuple[str, ...]]:
    """Two rows for each comparison, scored for its first and its second model."""
    source, cell = pairs.rows.labels.source, pairs.cell
    assert isinstance(source, UsedRows)
    mark = restrict(marks, source.keep)
    mark = np.where(pairs.swapped, 1.0 - mark, mark)
    has_label = ~np.isnan(mark)
    mark = np.where(has_label, mark, 0.0)
    held = {name: _twice(codes) for name, codes in pairs.rows.labels.held.items()}
    held[axis] = _twice(Codes(np.arange(cell.size), cell.size, source.positions()))
    lines = never_met(pairs) if opponents == "uniform" else []
    judge = pairs.rows.values
    judged = LabelledRows(
        judge=np.concatenate([judge, 1.0 - judge]),
        human=np.concatenate([mark, np.where(has_label, 1.0 - mark, 0.0)]),
        labelled=np.tile(has_label, 2),
        model=np.concatenate([pairs.first[cell], pairs.second[cell]]),
        names=pairs.models,
        labels=Labels(2 * cell.size, held, BothSides(source.table, source.keep)),
        weights=_weights(pairs) if opponents == "uniform" else None,
    )
    return judged, (*pairs.lines, *lines)


def _weights(pairs: Pairs) -> FloatArray:
    """Weights of the rows by which a model's mean weighs its opponents alike, one on average over its rows."""
    sides = np.concatenate([pairs.first, pairs.second])
    counts = np.tile(pairs.sums.count, 2)
    weight = (np.bincount(sides, counts) / np.bincount(sides))[sides] / counts
    return np.asarray(weight.reshape(2, -1)[:, pairs.cell].ravel())


# Errors that a calibration set shows

OF_TRUTH = ("specificity", "sensitivity")
OF_LABELS = "sensitivity and specificity are of labels 0 and 1"


@estimator
def judge_corrected(
    data: Any,
    *,
    judge: str,
    calibration: Any,
    human: str,
    by: str | list[str] | None = None,
    groups: Groups = None,
    missing: MissingName = "drop",
    **options: Unpack[EstimatorOptions],
) -> Results:
    """Shares of positive answers, corrected for the errors of a judge that a calibration set shows.

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
        Named by the labels of `by`, or "mean". Estimates are not clipped; `conf_int()` is Fieller's, within [0, 1]. A
        share on which all verdicts agree has no variance; in `conf_int()` it counts with its own interval.

    Raises
    ------
    DataError
        If sensitivity + specificity - 1 may be 0 (its 95% interval contains 0), or no calibration row is truly
        positive, or none negative. ScoreRangeError, which is one, if a verdict is neither 0 nor 1.
    MissingColumnError, errors.ArgumentTypeError, errors.EmptyDataError, TooFewClustersError
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
    >>> results = er.judge_corrected(log, judge="verdict", calibration=calibration, human="label")
    >>> results.params.round(3).to_dict()
    {'mean': 0.5}
    """
    requested = requested_options(options)
    refuse_same({"judge": judge, "human": human})
    table, by_columns = with_roles(rows_in_memory(data, "`judge_corrected`"), {"judge": judge}, by=by)
    if groups is not None:
        parse_groups(groups, table.columns)
    answers = read_rows(table, {"judge": judge}, labels=dict.fromkeys(by_columns, "by"), groups=groups, missing=missing)
    refuse_unless_binary(answers.values["judge"], judge, OF_LABELS)
    known = _labelled_rows(calibration, judge, human, groups, missing)
    split, values = _together(answers, known, judge, by_columns, groups)
    means, n = means_of_cells(split, values, judge), len(split.names) - 2
    _refuse_chance(means, split, requested)
    right = np.array(means.params)[n:]
    # (p + q0 - 1)/(q0 + q1 - 1)
    numerator = np.hstack([np.eye(n), np.tile([1.0, 0.0], (n, 1))])
    denominator = np.hstack([np.zeros((n, n)), np.ones((n, 2))])
    family = Ratios(means, np.arange(n), numerator, denominator, np.full((n, 2), -1.0), (0.0, 1.0))
    line = f"{human} against {judge}: specificity {right[0]:.3f}, sensitivity {right[1]:.3f}; Fieller's intervals."
    title, n_models = titled("Mean corrected for a judge", by_columns), n if by_columns else 0
    about = About(title, judge, lines=(line,), n_models=n_models, levels=True)
    estimate = function_of(means, *family.values(), split.names[:n], about, family)
    notes: list[Note] = list(independence_note(by, groups))
    if flat := list(compress(split.names, np.isin(means.params, (0.0, 1.0)))):
        text = f"the verdicts behind {listed(flat)} are all alike: standard errors take such a share for known"
        notes.append((errors.ZeroVarianceWarning, f"{text}, conf_int() does not. Judge or label more answers there."))
    results = results_of(estimate, split.rows.axes, requested, tuple(notes))
    if outside := list(compress(split.names, np.ptp(results.conf_int().to_numpy(), axis=1) == 0)):
        text = f"no share of positive answers fits the verdicts on {listed(outside)}: the interval lies outside [0, 1]"
        note = (errors.RectificationWarning, f"{text}. The judge seems to err otherwise here than on `calibration`.")
        issue([note])
        results = replace(results, notes=(*results.notes, note))
    return results


def _labelled_rows(calibration: Any, judge: str, human: str, groups: Groups, missing: MissingName) -> ReadRows:
    """Rows of the calibration set; errors say that they are about it."""
    try:
        table = rows_in_memory(calibration, "a calibration set")
        rows = read_rows(table, {"judge": judge, "human": human}, groups=groups, missing=missing)
        for role, column in (("judge", judge), ("human", human)):
            refuse_unless_binary(rows.values[role], column, OF_LABELS)
        for value, what in enumerate(OF_TRUTH):
            if not (rows.values["human"] == value).any():
                text = f"sensitivity and specificity are of both truths; the {what} needs rows with {human!r} = {value}"
                raise DataError(f"{text}, and there are none. Label such answers too.", column=human, count=0)
    except errors.EvalregError as error:
        error.message = error.message.replace("`data`", "`calibration`") + " (This is about `calibration`.)"
        raise
    return rows


def _together(
    answers: ReadRows, known: ReadRows, judge: str, by: tuple[str, ...], groups: Groups
) -> tuple[Split, FloatArray]:
    """Rows of both frames as one: verdicts in cells by model; and whether they are right, by the truth."""
    for name in answers.held:
        texts = [{isinstance(label, str) for label in rows.used[name].labels} for rows in (answers, known)]
        if texts[0].isdisjoint(texts[1]):
            text = f"{name!r} holds text in one of `data` and `calibration`, and numbers or the like in the other"
            raise errors.ArgumentTypeError(
                f"{text}, so that no cluster could be in both. Make them alike first.", column=name
            )
    sides, verdicts, truth = (answers.source, known.source), answers.values["judge"], known.values["human"]
    shared = [name for name in sides[0].table.columns if name in sides[1].table.columns]
    both = pd.concat([side.table.to_pandas(shared).iloc[side.places()] for side in sides], ignore_index=True)
    keys, cell = cells_of(answers.used, by)
    part = np.append(np.zeros(verdicts.size) if cell is None else cell, len(keys) + truth).astype(np.intp)
    right = {judge: np.append(verdicts, known.values["judge"] == truth)}
    rows = read_rows(Table(nw.from_native(both)), right, groups=groups)
    rows = replace(rows, dropped={reason: count + known.dropped[reason] for reason, count in answers.dropped.items()})
    return Split(rows, (*joint_names(keys), *OF_TRUTH), part), rows.values[judge]


def _refuse_chance(means: Estimate, split: Split, requested: CovOptions) -> None:
    """Refuse a judge that may be no better than chance: the correction would divide by what may be 0."""
    axes = split.rows.axes
    cov = assemble(means, axes or (), resolve_cov(requested, axes is not None, default="CR2"))
    C = np.append(np.zeros(means.n_params - 2), [1.0, 1.0])[None]
    slope, half = float((C @ means.params)[0]) - 1.0, float(np.nan_to_num(cov.half_width(C)[0]))
    if not abs(slope) > half:
        text = f"sensitivity + specificity - 1 of the judge must differ from 0; it is {slope:.3f} +- {half:.3f} (95%)"
        raise DataError(f"{text}: nothing that could be corrected. Label more answers, or take another judge.")


@estimator
def panel(
    data: Any,
    *,
    judges: Sequence[str],
    human: str | None = None,
    groups: Groups = None,
    missing: MissingName = "drop",
    **options: Unpack[EstimatorOptions],
) -> Results:
    """How many independent judges a panel is worth, from the errors that its judges share.

    Errors are verdict less label, centred by judge, with covariance S. J judges whose errors correlate by r on average
    are worth J/(1 + (J - 1) r) that err independently (Kish). Weights S^-1 1/(1'S^-1 1) give the mean verdict with the
    smallest error variance v = 1/(1'S^-1 1); judge j is worth 1 - v/v_(-j), the share of the error variance of the best
    panel without j that j takes away.

    Parameters
    ----------
    data : data frame
        One row an item, one column a judge, in memory: pandas, polars, pyarrow; or a dict of arrays.
    judges : list of str
        Columns of the verdicts, at least two, all on one scale.
    human : str, optional
        Column of the labels. Without it the verdicts stand for the errors: what judges share because it is right counts
        as shared error, so that the effective number is a lower bound.
    groups : str, list of str, array, Series or dict, optional
        Clusters, as in `mean`; independent rows by default.
    subset : str, optional
        Which rows to use, in the language of ``--where``; frames in memory only.
    missing : {"drop", "raise"}, optional
        What to do with rows that lack a verdict, a label or a cluster id; dropped rows are counted.
    <cov>
        Covariance; "CR2" by default with groups, "naive" without.
    <ssc>
    <dof>
        Degrees of freedom, as in `mean`.
    <repair>

    Returns
    -------
    Results
        Named "n_eff", "correlation", "weight:JUDGE" and "worth:JUDGE". `conf_int()` of weights is that of a regression,
        of the others on Fisher's z scale; a judge is worth nothing where its weight may be 0.

    Raises
    ------
    ArgumentError, MissingColumnError
        If there are fewer than two judges, one is named twice, or is no column.
    DataError
        If a judge makes no error that varies. CollinearityError, which is one, if errors of one are a combination of
        those of others.

    References
    ----------
    Kish (1965), Survey Sampling, section 5.4; Kohli (2026), arXiv:2605.29800 (effective votes of judges); Fisher
    (1925), Statistical Methods for Research Workers, section 39 (z); Bates and Granger (1969), Operational Research
    Quarterly 20, 451-468 (weights).

    Examples
    --------
    >>> import evalreg as er, numpy as np, pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.normal(size=400)
    >>> log = pd.DataFrame({name: shared + rng.normal(size=400) for name in "abc"}).assign(label=0.0)
    >>> er.panel(log, judges=["a", "b", "c"], human="label").params[["n_eff", "correlation"]].round(2).to_dict()
    {'n_eff': 1.45, 'correlation': 0.53}
    """
    requested = requested_options(options)
    table = open_frame(data)
    names = list(known_columns(list(judges) if np.ndim(judges) else judges, table.columns, "judges"))
    columns = [*names, *known_columns(human, table.columns, "human")]
    if len(names) < 2 or len(set(columns)) < len(columns):
        raise errors.ArgumentError(
            f"`judges` and `human` must be at least two columns and another; got {listed(columns)}."
        )
    split = split_rows(table, dict(zip(columns, columns, strict=True)), None, groups, None, missing, "panel")
    verdicts = np.column_stack([split.rows.values[name] for name in names])
    wrong = verdicts if human is None else verdicts - split.rows.values[human][:, None]
    wrong = wrong - wrong.mean(axis=0)
    # What is left of an error that is the same in all rows is rounding.
    wrong[:, np.ptp(wrong, axis=0) <= CONSTANT * np.abs(verdicts).max(axis=0)] = 0.0
    S = _covariance(wrong, names)
    values, influence = _values(S), _influence(wrong, S)
    alone = "Without labels what judges share because it is right counts as shared error: n_eff is a lower bound."
    line = alone if human is None else f"{len(names)} judges; correlations are of their errors against {human}."
    labels = ("n_eff", "correlation", *(f"{kind}:{name}" for kind in ("weight", "worth") for name in names))
    about = About("Panel of judges", human or "verdicts", lines=(line,))
    behind = from_row_influence(split, values, influence, labels, about)
    # What judges are worth are squares of the last.
    is_root = np.arange(values.size) >= 2 + len(names)
    worth, moves = np.where(is_root, values**2, values), np.where(is_root, 2 * values, 1.0)
    estimate = from_row_influence(split, worth, influence * moves, labels, about)
    family = Panel(behind, np.arange(values.size), _regression(wrong, names, split))
    return results_of(replace(estimate, family=family), split.rows.axes, requested)


@dataclass(frozen=True, eq=False)
class Panel(Behind):
    """What a panel is worth; behind it, in place of what judges are worth, the roots of that, signed as their weights.

    Weights are coefficients of a regression, and have its intervals: its leverages are those of several coefficients. A
    root is a partial correlation, whose error is that of the weight in proportion. Correlations are on Fisher's scale.
    """

    interval_rule = "on Fisher's z scale, of weights as in a regression"
    regression: Estimate

    def with_labels(self, more: dict[str, Any]) -> Family:
        """The same with further columns of labels."""
        scores = self.regression.scores.with_labels(more)
        return replace(cast(Panel, super().with_labels(more)), regression=replace(self.regression, scores=scores))

    def ends(self, estimate: Estimate, cov: Any, alpha: float | FloatArray) -> FloatArray:
        """Both ends of every value, shape (n_values, 2)."""
        behind, J, level = self.covariance(cov), self.regression.n_params, np.broadcast_to(alpha, self.at.shape)
        if "regression" not in behind.cache:
            # Independent rows may err unequally.
            options = replace(cov.options, cov="HC2") if cov.options.cov == "naive" else cov.options
            behind.cache["regression"] = assemble(self.regression, cov.axes, options)
        fitted, judge, se = behind.cache["regression"], np.eye(J)[(self.at - 2) % J], np.sqrt(behind.variance())
        plain, of_weight = cov.critical(alpha=level) * se[self.at], judge @ se[2 : 2 + J]
        half = fitted.critical(judge, level) * np.sqrt(fitted.variance(judge)) / of_weight * se[self.at]
        half = np.where((self.at < 2) | np.isnan(half), plain, half)
        value, reach = np.array(self.behind.params)[self.at, None], half[:, None] * [-1, 1]
        ends, (n_eff, r) = value + reach, self.behind.params[:2]
        # Fisher's z of intraclass correlations: twice that is the log of (1 + (J - 1) r)/(1 - r) = (J - 1)/(n_eff - 1).
        odds = (J - 1) / (n_eff - 1)
        number, correlation, is_root = self.at == 0, self.at == 1, self.at >= 2 + J
        ends[number] = 1 + (n_eff - 1) * np.exp(reach[number] / (n_eff - 1))
        ends[correlation] = 1 - J / (odds * np.exp(reach[correlation] * n_eff / (1 - r)) + J - 1)
        root = value[is_root]
        roots = np.tanh(np.arctanh(root) + reach[is_root] / (1 - root**2))
        least = np.where(roots[:, 0] * roots[:, 1] > 0, np.abs(roots).min(axis=1), 0.0)
        ends[is_root] = np.column_stack([least, np.abs(roots).max(axis=1)]) ** 2
        return np.asarray(ends)


def _regression(wrong: FloatArray, names: list[str], split: Split) -> Estimate:
    """Best weights by least squares: the error of the last judge on what those of the others are below it."""
    less, J = wrong[:, -1:] - wrong[:, :-1], len(names)
    design = Design(
        ("", *names[:-1]), None, np.ones((1, J)), tuple(less.T), np.arange(J), (), (), wrong[:, -1], names[-1]
    )
    coefficients = solve_linear(design, split.rows.labels(), None, About(outcome=names[-1]))
    others = np.eye(J)[1:]
    return coefficients.linear(np.vstack([others, -others.sum(axis=0)]), names)


def _covariance(wrong: FloatArray, names: list[str]) -> FloatArray:
    """Covariance of the errors of judges, of which none is without, and none determined by others."""
    S: FloatArray = wrong.T @ wrong / len(wrong)
    flat = list(compress(names, ~(np.diag(S) > 0)))
    if flat:
        text = f"every judge must err; the error of {listed(flat)} is the same in all rows. Leave such a judge out."
        raise DataError(text, column=flat[0], count=len(flat))
    r = np.corrcoef(wrong.T)
    if np.linalg.matrix_rank(r, hermitian=True) < len(names):
        alike = [names[i] for i in sorted(np.argsort(np.abs(np.linalg.eigh(r)[1][:, 0]))[-2:])]
        text = f"errors of judges must not determine each other; those of {listed(alike)} do. Leave one of them out."
        raise errors.CollinearityError(text, column=alike[0])
    return S


def _values(S: FloatArray) -> FloatArray:
    """Kish's number, the mean correlation, the best weights w, and the roots of what judges are worth.

    v = 1/(1'S^-1 1) is the variance that w leaves, s_j^2 = 1/(S^-1)_jj that of the error of a judge about those of the
    others, and 1 - v/v_(-j) = w_j^2 s_j^2/v.
    """
    J, inverse, scale = len(S), np.linalg.inv(S), np.sqrt(np.diag(S))
    r = ((S / np.outer(scale, scale)).sum() - J) / (J * (J - 1))
    v = 1 / inverse.sum()
    w = v * inverse.sum(axis=1)
    return np.hstack([J / (1 + (J - 1) * r), r, w, w / np.sqrt(v * np.diag(inverse))])


def _influence(wrong: FloatArray, S: FloatArray) -> FloatArray:
    """n times the influence of each row of errors e, (n_rows, n_values): the derivatives of the values along ee' - S.

    Derivatives by an imaginary step lose no digits: Squire and Trapp (1998), SIAM Review 40, 110-112.
    """
    n_judges, step = len(S), 1e-100
    entries = np.eye(n_judges**2).reshape(-1, n_judges, n_judges)
    G = np.array([_values(S + 1j * step * entry).imag / step for entry in entries]).T.reshape(-1, *S.shape)
    return np.column_stack([np.einsum("ri,ri->r", wrong @ M, wrong) - np.sum(M * S) for M in G])
