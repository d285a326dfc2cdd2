"""Win rates on a log of comparisons: each model's mean score against the others, whatever the matchmaking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from evalreg.boards.board import Board, board_of
from evalreg.checks import MISSING, OPPONENTS, CovName, DofName, MissingName, OpponentsName, RepairName, SscName, option
from evalreg.covariance.options import check_cov_options, documented
from evalreg.data.clusters import Groups
from evalreg.data.pairs import PairRoles, as_names
from evalreg.errors import ArgumentError
from evalreg.estimate import About, Cells, Estimate, Refit
from evalreg.estimators.pairs import Pairs, design_lines, duels_of, gather_pairs, independence_notes
from evalreg.estimators.ratings import incidence
from evalreg.estimators.schedules import Mix, Observed, Schedule, WithoutCluster, make_schedule
from evalreg.estimators.subsets import chooses_rows
from evalreg.numerics.matrices import compressed, scale_columns, transposed
from evalreg.scores.stacking import MappedScores


def solve(pairs: Pairs, schedule: Schedule, about: About) -> Estimate:
    """Win rates with fixed weights: a linear map of the means of the pairs."""
    A, weight = schedule.coefficient_map, pairs.sums.weight
    fixed = Estimate(
        names=schedule.names,
        params=np.asarray(schedule.mix @ schedule.rates(pairs.mean)),
        scores=pairs.scores,
        bread=transposed(scale_columns(A, 1.0 / weight)),
        kind="board",
        coefficient_map=A,
        refit=Refit(
            1.0 / weight,
            leave_out=WithoutCluster(schedule, pairs.mean, weight),
        ),
        cells=_cells(pairs),
        bounded=True,
        dropped=pairs.dropped,
        about=about,
    )
    return fixed if schedule.observed is None else _with_shares(fixed, pairs, schedule, schedule.observed)


def _with_shares(fixed: Estimate, pairs: Pairs, schedule: Schedule, observed: Observed) -> Estimate:
    """Win rates over strata whose shares pi_s are estimated: a row adds S_as - S_a to its model's rate by its stratum.

    The shares are means over all rows, one column each; S_a = sum_s pi_s S_as is linearised in them (delta method).
    """
    weight, members = pairs.sums.weight, observed.members
    n_cells, n_strata = members.shape
    by_stratum, whole = np.asarray(members.T @ weight), float(weight.sum())
    share = by_stratum / whole
    rates = np.zeros((len(schedule.names), n_strata))
    model, rate = schedule.mix.tocoo().coords
    rates[model, observed.of_rate[rate]] = schedule.rates(pairs.mean)[rate]
    beyond = rates - fixed.params[:, None]
    nothing = sparse.csr_array((n_cells, n_strata))
    every = sparse.eye_array(n_cells, format="csr")
    around = sparse.csr_array(members.toarray() - share)
    counted = sparse.hstack([every, sparse.csr_array(np.ones((n_cells, n_strata)))]).tocsr()
    sums = fixed.cells
    assert sums is not None
    assert fixed.refit is not None
    A = compressed(fixed.coefficient_map)
    zero, total = np.zeros(n_strata), np.full(n_strata, whole)
    # Rows count once: with their pair, not with the shares.
    parts = ((sums.count, zero), (sums.weight, total), (sums.mean, share), (sums.squares, whole * share * (1 - share)))
    count, size, mean, squares = (np.concatenate(pair) for pair in parts)
    cells = Cells(count, size, mean, squares, np.append(sums.low, zero), np.append(sums.high, zero + 1))
    return replace(
        fixed,
        scores=MappedScores(
            pairs.scores,
            sparse.hstack([every, nothing]).tocsr(),
            offset=sparse.hstack([sparse.csr_array((n_cells, n_cells)), around]).tocsr(),
            counted=counted,
        ),
        bread=sparse.vstack([fixed.bread, sparse.csr_array(beyond.T / whole)]).tocsr(),
        coefficient_map=sparse.hstack([A, sparse.csr_array(beyond)]).tocsr(),
        refit=replace(
            fixed.refit,
            inverse_gram=np.append(fixed.refit.inverse_gram, 1.0 / total),
        ),
        cells=cells,
    )


def _cells(pairs: Pairs) -> Cells:
    sums = pairs.sums
    squares = np.where(sums.low == sums.high, 0.0, sums.squares)
    return Cells(sums.count, sums.weight, pairs.mean, squares, sums.low, sums.high)


def solve_as_sampled(pairs: Pairs, about: About) -> Estimate:
    """Each model's mean score over the comparisons that it happened to have; the schedule varies with the rows.

    A row's scores are s - S_a for its first model and (1 - s) - S_b for its second.
    """
    K, sums = len(pairs.models), pairs.sums
    side = incidence(pairs.first, pairs.second, K)
    counted = abs(side).tocsr()
    weight, count = counted.T @ sums.weight, counted.T @ sums.count
    psi = np.where(side.data > 0, np.repeat(pairs.mean, 2), 1.0 - np.repeat(pairs.mean, 2))
    rate = (counted.T @ sparse.diags_array(sums.weight)).multiply(_like(side, psi).T).sum(axis=1) / weight
    beyond = _like(side, psi - rate[side.indices])
    moved = np.asarray(beyond.multiply(beyond).tocsr().T @ sums.weight)
    low, high = _extremes(pairs, K)
    return Estimate(
        names=pairs.models,
        params=rate,
        scores=MappedScores(pairs.scores, side, offset=beyond, counted=counted),
        bread=np.diag(1.0 / weight),
        kind="board",
        coefficient_map=np.eye(K),
        refit=Refit(1.0 / weight),
        cells=Cells(count, weight, rate, counted.T @ _cells(pairs).squares + moved, low, high),
        bounded=True,
        dropped=pairs.dropped,
        about=about,
    )


def _like(pattern: Any, data: Any) -> Any:
    return sparse.csr_array((data, pattern.indices, pattern.indptr), pattern.shape)


def _extremes(pairs: Pairs, n_models: int) -> tuple[Any, Any]:
    """Smallest and largest score of each model."""
    low, high = np.full(n_models, np.inf), np.full(n_models, -np.inf)
    for model, least, most in (
        (pairs.first, pairs.sums.low, pairs.sums.high),
        (pairs.second, 1.0 - pairs.sums.high, 1.0 - pairs.sums.low),
    ):
        np.minimum.at(low, model, least)
        np.maximum.at(high, model, most)
    return low, high


@chooses_rows()
@documented
def win_rate(
    data: Any,
    *,
    left: str,
    right: str,
    score: str | None = None,
    winner: str | None = None,
    labels: Mapping[Any, str | None] | None = None,
    key: str | list[str] | None = None,
    groups: Groups = None,
    weights: str | npt.ArrayLike | None = None,
    opponents: OpponentsName | pd.DataFrame = "uniform",
    by: str | None = None,
    standardise: Mix = None,
    subset: str | None = None,
    missing: MissingName = "drop",
    cov: CovName | None = None,
    ssc: SscName | None = None,
    dof: DofName | float | None = None,
    repair: RepairName | None = None,
    alike: str | None = None,
) -> Board:
    """Win rates of models from a log of comparisons, with error bars that know how answers are reused.

    The win rate of model a is S_a = sum over opponents b of w_ab psi_ab, psi_ab the mean score of a against b (a tie
    is one half). With fixed weights it is a linear map of a saturated regression on pairs, so that every clustered
    covariance carries over. Comparisons that share no cluster are taken to be independent.

    Parameters
    ----------
    data : data frame
        One row a comparison. In memory; or in an engine (a polars LazyFrame, a DuckDB relation), which then makes the
        sums: one query for the pairs of models, one for all clusterings together, and no row comes out.
        Or sums of comparisons, of `summarise` and `merged`.
    left, right : str
        Columns of the two models.
    score : str, optional
        Column of the left model's score, in [0, 1].
    winner : str, optional
        Column of verdicts: "left", "right", "tie" or a model's name; exactly one of `score` and `winner`.
    labels : mapping, optional
        What other verdicts mean, such as {"A": "left", "B": "right", "error": None}; None is not a verdict.
    key : str or list of str, optional
        Columns that, with the two models, identify a comparison, which may then not be repeated.
    groups : str, list of str, array, Series or dict, optional
        Clusters, as in `fit`: "prompt + judge" crosses two.
    weights : str or array_like, shape (n_rows,), optional
        Sampling weights.
    opponents : {"uniform", "as_sampled"} or DataFrame, optional
        Weights of opponents: equal for all that a model met (the default), by the comparisons it happened to have (the
        schedule is then random too), or given, models in rows and opponents in columns, and held fixed.
    by : str, optional
        Column of strata (languages, say): a win rate for each model in each, named "model:stratum".
    standardise : {"uniform", "observed"} or mapping, optional
        With `by`: one win rate a model, over the strata in these shares: equal, by their rows, or given. Equal and
        given shares are held fixed; observed ones vary with the rows, and add to the standard error.
    subset : str, optional
        Which rows to use, in the language of ``--where``: ``'language == "en" and tokens < 100'``. The summary and
        `dropped` count the others. Arrays of groups and weights are those of all rows.
    missing : {"drop", "raise"}, optional
        What to do with rows whose verdict, model or cluster id is missing; dropped rows are counted.
    <cov>
        Covariance; "CR2" by default with groups, "naive" without. Where pairs met under one cluster alone CR2 does not
        exist, and the default is "jackknife", which solves again without each cluster.
    <ssc>
    <dof>
        Degrees of freedom; Satterthwaite under CR2, min over dimensions of G - 1 otherwise.
    <repair>
    <alike>

    Returns
    -------
    Board
        Results, parameters named by model and sorted as text; with `head_to_head`, `odds`, `net_benefit`, `cycles`.

    Raises
    ------
    UnknownLabelError, SelfComparisonError, DuplicateRowsError, ScoreRangeError, TooFewClustersError
        If the log breaks a rule; the message says which rows, or how many in an engine.
    NotAvailableError
        If an option needs rows in memory and they are in an engine; the message names the columns to collect.
    ArgumentError
        If an option is unknown.

    References
    ----------
    Miller (2024), arXiv:2411.00640, section 2.2, for clusters; Cameron, Gelbach and Miller (2011), JBES 29(2), eq.
    2.13, for crossed ones; Bell and McCaffrey (2002), Survey Methodology 28, for CR2.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.judge_log(n_models=4, n_prompts=60, seed=1)
    >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
    >>> board.ranks()["rank"].to_dict()
    {'model-01': 1, 'model-02': 2, 'model-03': 3, 'model-04': 4}
    """
    asked = check_cov_options(cov, ssc, dof, repair, alike)
    option("missing", missing, MISSING)
    if isinstance(opponents, str):
        option("opponents", opponents, OPPONENTS)
    if standardise is not None and by is None:
        raise ArgumentError("`standardise` needs `by`, the column of the strata that it mixes.")
    sampled = isinstance(opponents, str) and opponents == "as_sampled"
    if sampled and by is not None:
        raise ArgumentError('`by` goes with fixed weights of opponents: opponents="uniform", or a table of weights.')
    roles = PairRoles(left, right, score, winner, labels, as_names(key), by, weights, missing)
    pairs = gather_pairs(data, roles, groups)
    schedule, lines = make_schedule(pairs, "uniform" if sampled else opponents, standardise)
    model = "Win rate" if by is None else f"Win rate by {by}" if standardise is None else f"Win rate, {by} standardised"
    if sampled:
        model, lines = "Win rate, as sampled", ["Opponents weigh as often as they were met; the schedule varies too."]
    all_lines = (*design_lines(pairs), *lines)
    about = About(model, score or winner or "", interval="logit", lines=all_lines, n_models=len(schedule.names))
    about = replace(about, one_board=by is None or standardise is not None, null=0.5)
    estimate = solve_as_sampled(pairs, about) if sampled else solve(pairs, schedule, about)
    return board_of(estimate, pairs.axes, asked, duels_of(pairs), independence_notes(groups))
