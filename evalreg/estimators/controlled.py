"""Win rates with length, style or position held equal: average predictions at zero difference between the sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy
from scipy import sparse

from evalreg.boards.board import Board, board_of
from evalreg.checks import MISSING, CovName, DofName, MissingName, RepairName, SscName, option
from evalreg.covariance.options import check_cov_options, documented
from evalreg.data.clusters import Groups
from evalreg.data.formula import parse_sides
from evalreg.data.pairs import PairRoles, as_names
from evalreg.estimate import About, Estimate, Refit
from evalreg.estimators.pairs import Pairs, design_lines, duels_of, gather_pairs, independence_notes
from evalreg.estimators.ratings import (
    Contest,
    Fit,
    check_connected,
    check_design,
    contest_of,
    fit_half,
    incidence,
)
from evalreg.estimators.subsets import chooses_rows
from evalreg.numerics.matrices import Matrix, compressed, dense
from evalreg.scores.stacking import Information, MappedScores


def solve(contest: Contest, fit: Fit, pairs: Pairs) -> Estimate:
    """Average over each model's comparisons of its predicted score against that opponent, all else equal.

    With p_r the prediction at zero difference and J the derivative of the average, a row's influence is (p_r -
    theta)/n_a + J'H^-1 score_r: the comparisons that a model happened to have vary, and so do the coefficients.
    """
    K, p = len(contest.models), fit.coefficients.size
    side = incidence(contest.first, contest.second, K)
    counted: Matrix = abs(side).tocsr()
    strength = np.concatenate([[0.0], fit.coefficients[: K - 1]])
    chance = scipy.special.expit(strength[contest.first] - strength[contest.second])
    weight = counted.T @ contest.weight
    predicted = np.where(side.data > 0, np.repeat(chance, 2), 1.0 - np.repeat(chance, 2))
    by_cell: Matrix = sparse.csr_array((predicted, side.indices, side.indptr), side.shape)
    theta = np.asarray(by_cell.T @ contest.weight) / weight
    beyond: Matrix = sparse.csr_array((predicted - theta[side.indices], side.indices, side.indptr), side.shape)
    slope = sparse.diags_array(contest.weight * chance * (1 - chance)).tocsr()
    # d p_r / d strengths is p (1 - p) times the row's design, with the other sign for the second model.
    J = dense(side.T @ (slope @ side[:, 1:])) / weight[:, None]
    J = np.hstack([J, np.zeros((K, p - (K - 1)))])
    scores = _beside(fit.scores, beyond, counted)
    inverse = scipy.linalg.block_diag(fit.inverse, np.diag(1.0 / weight))
    coefficient_map = np.hstack([J, np.eye(K)])
    return Estimate(
        names=contest.models,
        params=theta,
        scores=scores,
        bread=inverse @ coefficient_map.T,
        kind="likelihood",
        coefficient_map=coefficient_map,
        refit=Refit(inverse, linear=False, step=True),
        bounded=True,
        dropped=pairs.dropped,
    )


def _beside(scores: MappedScores, beyond: Matrix, counted: Matrix) -> MappedScores:
    """Scores of the coefficients, then of the averages over each model's comparisons."""
    p, K = scores.n_columns, counted.shape[1]
    design = sparse.hstack([scores.design, sparse.csr_array((scores.design.shape[0], K))]).tocsr()
    offset = sparse.hstack([sparse.csr_array((beyond.shape[0], p)), beyond]).tocsr()
    assert scores.information is not None
    both = _spread(scores.information.flat, p, p + K) + _diagonal(counted, p)
    return replace(scores, design=design, offset=offset, information=Information(compressed(both)))


def _spread(information: Matrix, p: int, size: int) -> Matrix:
    """Flattened (p, p) matrices as the first part of flattened (size, size) ones."""
    rows = compressed(information)
    index = rows.indices.astype(np.int64)
    return sparse.csr_array((rows.data, index // p * size + index % p, rows.indptr), (rows.shape[0], size**2))


def _diagonal(counted: Matrix, p: int) -> Matrix:
    """Counts as the last part of the diagonal of flattened matrices."""
    rows = compressed(counted)
    size = p + rows.shape[1]
    place = (p + rows.indices.astype(np.int64)) * (size + 1)
    return sparse.csr_array((rows.data, place, rows.indptr), (rows.shape[0], size**2))


@chooses_rows()
@documented
def controlled_win_rate(
    data: Any,
    *,
    left: str,
    right: str,
    score: str | None = None,
    winner: str | None = None,
    labels: Mapping[Any, str | None] | None = None,
    key: str | list[str] | None = None,
    formula: str,
    groups: Groups = None,
    weights: str | npt.ArrayLike | None = None,
    subset: str | None = None,
    missing: MissingName = "drop",
    cov: CovName | None = None,
    ssc: SscName | None = None,
    dof: DofName | float | None = None,
    repair: RepairName | None = None,
    alike: str | None = None,
) -> Board:
    """Win rates with length, style or position held equal, with errors that include the coefficients' uncertainty.

    A logistic model of the verdicts has a strength for each model and what differs between the two sides. The
    controlled win rate of a model is the average, over the comparisons it had, of its predicted score at zero
    difference. Comparisons that share no cluster are taken to be independent.

    Parameters
    ----------
    data : data frame
        One row a comparison. Of a lazy frame the columns that the call names are collected.
    left, right : str
        Columns of the two models.
    score : str, optional
        Column of the left model's score, in [0, 1].
    winner : str, optional
        Column of verdicts, as in `win_rate`; exactly one of `score` and `winner`.
    labels : mapping, optional
        What other verdicts mean.
    key : str or list of str, optional
        Columns that, with the two models, identify a comparison, which may then not be repeated.
    formula : str
        What differs between the two sides, left minus right, such as "length_difference" (with the position) or
        "0 + length_difference" (without).
    groups : str, list of str, array, Series or dict, optional
        Clusters, as in `fit`.
    weights : str or array_like, shape (n_rows,), optional
        Sampling weights.
    subset : str, optional
        Which rows to use, in the language of ``--where``: ``'language == "en" and tokens < 100'``. The summary and
        `dropped` count the others. Arrays of groups and weights are those of all rows.
    missing : {"drop", "raise"}, optional
        What to do with rows where something is missing; dropped rows are counted.
    <cov>
        Covariance; "CR2" by default with groups, "naive" without; CR3 and the jackknife by one Newton step.
    <ssc>
    <dof>
        Degrees of freedom; Satterthwaite under CR2, min over dimensions of G - 1 otherwise.
    <repair>
    <alike>

    Returns
    -------
    Board
        Results, parameters named by model; intervals on the logit scale.

    Raises
    ------
    DisconnectedError
        If some models only win or only lose against the rest; they are named.
    UnknownLabelError, SelfComparisonError, DuplicateRowsError, ScoreRangeError, TooFewClustersError
        If the log breaks a rule; the message says which rows.
    CollinearityError, ConvergenceError, FormulaError
        If the covariates determine each other, or the verdicts.

    References
    ----------
    Dubois, Galambosi, Liang and Hashimoto (2024), arXiv:2404.04475, for the estimand; Newey and McFadden (1994),
    Handbook of Econometrics IV, section 6, for the error of an average of predictions.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.judge_log(n_models=4, n_prompts=60, position_effect=0.5, seed=1)
    >>> board = er.controlled_win_rate(
    ...     log, left="left", right="right", winner="winner", formula="1", groups="prompt"
    ... )
    >>> list(board.params.index)
    ['model-01', 'model-02', 'model-03', 'model-04']
    """
    asked = check_cov_options(cov, ssc, dof, repair, alike)
    option("missing", missing, MISSING)
    sides = parse_sides(formula)
    roles = PairRoles(left, right, score, winner, labels, as_names(key), None, weights, missing, sides)
    pairs = gather_pairs(data, roles, groups, "`formula`")
    check_connected(pairs.first, pairs.second, pairs.mean, pairs.models)
    contest = contest_of(pairs)
    check_design(contest)
    fit = fit_half(contest)
    terms = contest.units @ fit.coefficients[contest.n_strengths :]
    each = ", ".join(f"{name} {value:.4g}" for name, value in zip(contest.terms, terms, strict=True))
    lines = (
        *design_lines(pairs),
        f"Average predictions at zero difference of the two sides in {', '.join(contest.terms)} (log-odds: {each}).",
    )
    about = About(
        "Controlled win rate",
        score or winner or "",
        formula,
        "logit",
        lines,
        len(contest.models),
        one_board=True,
        null=0.5,
    )
    estimate = replace(solve(contest, fit, pairs), about=about)
    return board_of(estimate, pairs.axes, asked, duels_of(pairs), independence_notes(groups))
