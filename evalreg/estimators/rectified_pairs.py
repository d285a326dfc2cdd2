"""Win rates by a judge's verdicts, corrected by human verdicts on a few of the comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evalreg.checks import (
    MISSING,
    OPPONENTS,
    CovName,
    DofName,
    FloatArray,
    IntArray,
    MissingName,
    OpponentsName,
    RepairName,
    SscName,
    option,
)
from evalreg.covariance.options import check_cov_options, resolve_cov
from evalreg.data.clusters import Axis, Codes
from evalreg.data.engine import LazyTable
from evalreg.data.frame import Table, UsedRows, restrict
from evalreg.data.groups import Groups
from evalreg.data.joint_ids import names_of, with_joint_ids
from evalreg.data.labels import Labels
from evalreg.data.names import known_column, refuse_same
from evalreg.data.opening import open_frame
from evalreg.data.pairs import read_scores
from evalreg.data.verdicts import PairRoles, as_names
from evalreg.errors import ArgumentError, NonNumericError, NotAvailableError, ScoreRangeError, UnknownLabelError
from evalreg.estimate import About
from evalreg.estimators.pairs import Pairs, design_lines, gather_pairs, independence_notes
from evalreg.estimators.rectified import check_labelled, check_marks, tuning_lines
from evalreg.estimators.schedules import make_schedule
from evalreg.inference.rectification import LabelledRows, labelled_cells, rectify, tune
from evalreg.results.results import Results, results_of

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
        numbers is scores of the left model in [0, 1]; any other holds "left", "right", "tie" or a model's name.
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
        Parameters named by model. A comparison counts as two rows, one for each of its models. `rectification()` has
        lambda, the numbers of rows, and the standard errors from human verdicts alone. Intervals are those of
        `rectified_mean` and stay in [0, 1].

    Raises
    ------
    EmptyDataError, DataError, TooFewClustersError
        If there are no human verdicts, a labelled row has no judge's verdict, or a model has no labelled comparisons in
        two clusters; the message names them.
    UnknownLabelError, SelfComparisonError, DuplicateRowsError, ScoreRangeError
        As in `win_rate`.

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
    >>> table = results.rectification()
    >>> bool((table["se"] < table["human_se"]).all())
    True
    """
    asked = check_cov_options(cov, ssc, dof, repair)
    option("missing", missing, MISSING)
    option("opponents", opponents, OPPONENTS)
    table = open_frame(data)
    if isinstance(table, LazyTable):
        raise NotAvailableError("`rectified_win_rate` needs the rows in memory; collect the frame first.")
    table = with_joint_ids(table, left=left, right=right)
    for name, argument in ((left, "left"), (right, "right"), (judge, "judge"), (human, "human")):
        known_column(name, names_of(table), argument)
    refuse_same({"judge": judge, "human": human})
    by_judge, by_human = (_roles(table, left, right, name, labels, key, missing) for name in (judge, human))
    if labels is not None and by_judge.winner is None and by_human.winner is None:
        raise ArgumentError("`labels` says what verdicts mean; both `judge` and `human` hold scores.")
    marks = _read(table, by_human, "human")
    check_marks(_read(table, by_judge, "judge"), ~np.isnan(marks), judge, human)
    pairs = gather_pairs(data, by_judge, groups, "`rectified_win_rate`")
    axes: tuple[Axis, ...] = ((_unused(COMPARISON, table),),) if groups is None else pairs.axes or ()
    judged, lines = _both_sides(pairs, marks, opponents, axes[0][0] if groups is None else "")
    parts = labelled_cells(judged)
    few = check_labelled(judged, parts, axes)
    tuning = tune(judged, parts, axes, resolve_cov(asked, True), pooled=True)
    model = "Rectified win rate" if opponents == "uniform" else "Rectified win rate, as sampled"
    about = About(
        model=model,
        outcome=f"{human}, by judge {judge}",
        interval="logit",
        lines=(*lines, "A comparison is two rows, one for each of its models.", *tuning_lines(tuning, judged.names)),
        n_models=len(judged.names),
        null=0.5,
    )
    estimate = rectify(judged, parts, tuning.weight, dropped=pairs.dropped, about=about)
    return results_of(estimate, axes, asked, (*tuning.notes, *few, *independence_notes(groups)))


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


def _both_sides(pairs: Pairs, marks: FloatArray, opponents: str, own: str) -> tuple[LabelledRows, tuple[str, ...]]:
    """Two rows for each comparison, scored for its first and its second model."""
    source, cell = pairs.rows.labels.source, pairs.rows.cell
    assert isinstance(source, UsedRows)
    assert cell is not None
    mark = restrict(marks, source.keep)
    mark = np.where(pairs.left_second, 1.0 - mark, mark)
    has_label = ~np.isnan(mark)
    mark = np.where(has_label, mark, 0.0)
    held = {name: _twice(codes) for name, codes in pairs.rows.labels.held.items()}
    if own:
        held[own] = _twice(Codes(np.arange(cell.size), cell.size, source.positions()))
    weights, lines = _weights(pairs, cell) if opponents == "uniform" else (None, [])
    judge = pairs.rows.values
    judged = LabelledRows(
        judge=np.concatenate([judge, 1.0 - judge]),
        human=np.concatenate([mark, np.where(has_label, 1.0 - mark, 0.0)]),
        labelled=np.tile(has_label, 2),
        model=np.concatenate([pairs.first[cell], pairs.second[cell]]),
        names=pairs.models,
        labels=Labels(2 * cell.size, held, BothSides(source)),
        weights=weights,
    )
    return judged, (*design_lines(pairs), *lines)


def _weights(pairs: Pairs, cell: IntArray) -> tuple[FloatArray, list[str]]:
    """Weights of the rows by which a model's mean weighs its opponents alike, one on average over its rows."""
    _, lines = make_schedule(pairs, "uniform", None)
    n_models = len(pairs.models)
    met = np.bincount(pairs.first, minlength=n_models) + np.bincount(pairs.second, minlength=n_models)
    rows = sum(np.bincount(side, pairs.sums.count, n_models) for side in (pairs.first, pairs.second))
    per_opponent = rows / met
    weight = [per_opponent[side[cell]] / pairs.sums.count[cell] for side in (pairs.first, pairs.second)]
    return np.concatenate(weight), lines
