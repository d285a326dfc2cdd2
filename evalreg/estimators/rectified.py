"""Judge scores with human labels of a few rows: means and win rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress
from typing import Any, Unpack

import numpy as np

from evalreg.boards.pairs import Pairs, gather_pairs
from evalreg.checks import BoolArray, FloatArray, IntArray, listed, option
from evalreg.choices import CovName, DofName, EstimatorOptions, MissingName, OpponentsName, RepairName, SscName
from evalreg.covariance.options import check_cov_options, requested_options, resolve_cov
from evalreg.covariance.special import FEW_CLUSTERS
from evalreg.data.clusters import Axis, Codes, Groups, Labels, axis_name, refuse_same, rows_where, with_roles
from evalreg.data.frame import Table, UsedRows, restrict, rows_in_memory
from evalreg.data.pairs import PairRoles, as_names, read_scores
from evalreg.data.rows import cells_of, joint_names, read_rows
from evalreg.errors import (
    ArgumentError,
    DataError,
    EmptyDataError,
    FewClustersWarning,
    NonNumericError,
    Note,
    ScoreRangeError,
    TooFewClustersError,
    UnknownLabelError,
)
from evalreg.estimate import About, on_one_side
from evalreg.estimators.cells import independence_note, titled
from evalreg.estimators.win_rate import independence_notes, never_met
from evalreg.inference.rectification import LabelledRows, rectify, tune
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
        raise EmptyDataError(
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
        raise TooFewClustersError(
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
    return ((FewClustersWarning, text),)


COMPARISON = "comparison"


@dataclass(frozen=True, eq=False)
class BothSides:
    """Labels of rows of which each comparison has two: first those of the first model, then of the second."""

    # Labels of the comparisons in use.
    source: UsedRows

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns there are."""
        return self.source.columns

    def codes(self, column: str) -> Codes:
        """Codes of a column on the rows."""
        return _twice(self.source.codes(column))

    def align(self, name: str, labels: Any) -> Codes:
        """Codes of an array or a Series with one label a comparison."""
        return _twice(self.source.align(name, labels))

    def positions(self) -> IntArray:
        """Positions in the table of the rows' comparisons."""
        return np.tile(self.source.positions(), 2)


def _twice(codes: Codes) -> Codes:
    return Codes(np.tile(codes.codes, 2), codes.n_clusters, codes.labels, tuple(_twice(part) for part in codes.parts))


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
    cov: CovName | None = None,
    ssc: SscName | None = None,
    dof: DofName | float | None = None,
    repair: RepairName | None = None,
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
    missing : {"drop", "raise"}, optional
        What to do with rows without a judge's verdict (which must have no human one either), model or cluster id.
    cov, ssc, dof, repair : str, float or None, optional
        The covariance, as in `fit`.

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
    requested = check_cov_options(cov, ssc, dof, repair)
    option("opponents", opponents, OpponentsName)
    marked = {"judge": judge, "human": human}
    opened = rows_in_memory(data, "`rectified_win_rate`", [left, right, judge, human])
    table, _ = with_roles(opened, marked, left=left, right=right)
    refuse_same(marked)
    by_judge, by_human = (_roles(table, left, right, name, labels, key, missing) for name in (judge, human))
    if labels is not None and by_judge.winner is None and by_human.winner is None:
        raise ArgumentError("`labels` says what verdicts mean; both `judge` and `human` hold scores.")
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
    except NonNumericError:
        return PairRoles(left, right, winner=name, labels=labels, key=as_names(key), missing=missing)
    return PairRoles(left, right, score=name, key=as_names(key), missing=missing)


def _read(table: Table, roles: PairRoles, argument: str) -> FloatArray:
    """Scores of the left model; an error names the argument of this function."""
    try:
        return read_scores(table, roles)
    except (ScoreRangeError, UnknownLabelError) as error:
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
        labels=Labels(2 * cell.size, held, BothSides(source)),
        weights=_weights(pairs) if opponents == "uniform" else None,
    )
    return judged, (*pairs.lines, *lines)


def _weights(pairs: Pairs) -> FloatArray:
    """Weights of the rows by which a model's mean weighs its opponents alike, one on average over its rows."""
    sides = np.concatenate([pairs.first, pairs.second])
    counts = np.tile(pairs.sums.count, 2)
    weight = (np.bincount(sides, counts) / np.bincount(sides))[sides] / counts
    return np.asarray(weight.reshape(2, -1)[:, pairs.cell].ravel())
