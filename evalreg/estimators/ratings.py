"""Ratings of models from comparisons, with ties, position and covariates; win rates with these held equal; abilities.

logit P(a beats b) = theta_a - theta_b + z'gamma, by maximum likelihood on the cells of the comparisons. All that errors
need is the scores of the rows and the information of each cell; what follows from leaving clusters out, or drawing them
again, is one Newton step from the fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy
from scipy import sparse

from evalreg.boards.board import Board, Pairs, gather_pairs
from evalreg.checks import BoolArray, FloatArray, IntArray, listed, nearest_or_all, option, passed
from evalreg.choices import BoardOptions, EstimatorOptions, MissingName, ScaleName, TiesName
from evalreg.covariance.options import requested_options
from evalreg.data.clusters import Groups, joint_parts, names_of, parse_groups, rows_where
from evalreg.data.formula import parse_sides
from evalreg.data.pairs import PairRoles, as_names
from evalreg.data.rows import ReadRows
from evalreg.errors import (
    AlignmentError,
    ArgumentError,
    CollinearityError,
    ConvergenceError,
    DataError,
    DisconnectedError,
    MissingColumnError,
    ScoreRangeError,
)
from evalreg.estimate import About, Estimate, Ratings, Refit
from evalreg.estimators.cells import refuse_unless_binary, rows_by_item
from evalreg.estimators.win_rate import board_of, model_means
from evalreg.numerics.basis import basis_of, refuse_singular
from evalreg.numerics.fitting import newton
from evalreg.numerics.limits import ROUNDING
from evalreg.numerics.matrices import Matrix, compressed, dense, difference_rows, scale_rows, transposed, weighted_gram
from evalreg.results.results import estimator
from evalreg.scores.base import CellScores, cell_sums
from evalreg.scores.engine import EngineScores
from evalreg.scores.stacking import Information, MappedScores, beside_ties, flattened, squared

# Name of Davidson's parameter, log nu: 0 where equals tie as often as either wins.
TIE = "log_tie"
ELO = 400.0 / np.log(10.0)


# The design


@dataclass(frozen=True, eq=False)
class Contest:
    """Comparisons in cells that share a design: logit P = theta_first - theta_second + z'gamma."""

    models: tuple[str, ...]  # names
    terms: tuple[str, ...]  # names of the covariates, z
    # (n_cells, n_models - 1 + n_terms): strengths less that of the first model, then combinations of z that are
    # scaled and do not overlap
    design: Matrix
    scores: CellScores | EngineScores  # rows in these cells, as scores of the cell's first model, fitted by their mean
    weight: FloatArray  # (n_cells,): sum of weights
    first: IntArray  # (n_cells,): models of each cell
    second: IntArray
    sides: FloatArray  # (n_cells, n_terms): z
    units: FloatArray  # (n_terms, n_terms): from coefficients of the combinations to those of z


def contest_of(pairs: Pairs) -> Contest:
    """Cells with a design of their own: pairs, and where sides differ, each pattern of what differs.

    With covariates, first and second are the left and right sides. Raises where there is no finite fit.
    """
    check_connected(pairs)
    first, second, weight, scores = pairs.first, pairs.second, pairs.sums.weight, pairs.scores
    sides, units, scaled = np.empty((first.size, 0)), np.eye(0), []
    if pairs.side_names:
        patterns = pd.DataFrame(np.column_stack([pairs.cell, pairs.swapped, pairs.sides]))
        cell: IntArray = np.asarray(patterns.groupby(list(patterns), sort=False).ngroup(), dtype=np.intp)
        of = np.flatnonzero(~patterns.duplicated())  # a row of each pattern
        pair_first, pair_second, turned_over = first[pairs.cell[of]], second[pairs.cell[of]], pairs.swapped[of]
        first, second = np.where(turned_over, pair_second, pair_first), np.where(turned_over, pair_first, pair_second)
        turned = pairs.rows.turned(pairs.swapped, cell, np.zeros(of.size))
        sums, sides = cell_sums(turned.values, cell, of.size, turned.weights), pairs.sides[of]
        weight, scores = sums.weight, replace(turned, fitted=sums.mean)
        basis = basis_of(sides, pairs.side_names, weight)
        # Of size 1 on average, so that coefficients are log-odds whatever the units.
        size = np.sqrt(weight.sum())
        scaled, units = [compressed(basis.rows * (size / np.sqrt(weight))[:, None])], basis.map * size
    design = sparse.hstack([difference_rows(first, second, len(pairs.models))[:, 1:], *scaled]).tocsr()
    contest = Contest(pairs.models, pairs.side_names, design, scores, weight, first, second, sides, units)
    check_design(contest)
    return contest


# What has no finite fit


def reachable(start: IntArray, end: IntArray, n_nodes: int) -> BoolArray:
    """Whether a chain of edges leads from one node to another, each to itself included; shape (n_nodes, n_nodes).

    Warshall (1962), Journal of the ACM 9(1), 11-12. Strong components by scipy 1.13 do not end on some graphs.
    """
    reaches = np.eye(n_nodes, dtype=bool)
    reaches[start, end] = True
    for through in range(n_nodes):
        before = np.flatnonzero(reaches[:, through])
        reaches[before] |= reaches[through]
    return reaches


def check_connected(pairs: Pairs) -> None:
    """Raise unless a chain of wins leads from every model to every other; a tie is a win both ways.

    Models that only win, only lose or never meet the others are named. Ford (1957), American Mathematical Monthly
    64(8), 28-33: the condition for a finite maximum.
    """
    first, second, n_models = pairs.first, pairs.second, len(pairs.models)
    wins, losses = pairs.mean > 0, pairs.mean < 1
    winner = np.concatenate([first[wins], second[losses]])
    loser = np.concatenate([second[wins], first[losses]])
    beats, met = reachable(winner, loser, n_models), reachable(np.r_[first, second], np.r_[second, first], n_models)
    linked = beats & beats.T
    hub = int(np.argmax(linked.sum(axis=1)))  # of the largest set of models that are linked to each other
    cut, reached = ~linked[hub], beats[hub]
    if not cut.any():
        return
    problems = {
        "met none of the others": cut & ~met[hub],
        "never lost to the others": cut & met[hub] & ~reached,
        "never won against the others": cut & met[hub] & reached,
    }
    sentences = [
        f"{listed(pairs.models[m] for m in np.flatnonzero(which))} {what}"
        for what, which in problems.items()
        if which.any()
    ]
    raise DisconnectedError(
        "every model needs wins and losses (or ties) that link it to the rest, or its strength is infinite; "
        f"{', '.join(sentences)}. Leave these models out, add comparisons, or use `win_rate`, which needs no link.",
        count=int(cut.sum()),
    )


def check_design(contest: Contest) -> None:
    """Raise where covariates of the sides determine each other or the strengths, or one decides every verdict."""
    design = compressed(contest.design)
    try:
        refuse_singular(
            weighted_gram(transposed(design), design, contest.weight), [*contest.models[1:], *contest.terms]
        )
    except CollinearityError as error:
        if error.column != "position":
            raise
        others = " + ".join(name for name in contest.terms if name != "position")
        instead = f'Write formula="0 + {others}"' if others else "Leave out `formula`"
        raise CollinearityError(
            'the advantage of a side, "position", cannot be told from the strengths of the models: each is always on '
            "the same side, as where all are compared with one baseline. A formula has the position unless it says 0. "
            f"{instead}.",
            column="position",
            count=1,
        ) from None
    win = 2 * contest.scores.fitted - 1
    for name, z in zip(contest.terms, contest.sides.T, strict=True):
        sign = np.sign(z[z != 0]) * win[z != 0]
        if np.all(np.abs(sign) == 1) and np.all(sign == sign[0]):
            side = "larger" if sign[0] > 0 else "smaller"
            what, without = f"the side with the {side} {name!r} wins every comparison in which the two differ", ""
            if name == "position":
                what = f"the {'left' if sign[0] > 0 else 'right'} side wins every comparison"
                without = '; "0 + ..." is a formula without position'
            raise ConvergenceError(
                f"{what}, so that no finite coefficient of {name!r} is the best. Check how verdicts were read, or "
                f"leave it out{without}.",
                column=name,
            )


# The fit


def chances(index: FloatArray, log_tie: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Mean scores of the first and the second model, chance of a tie, and logarithm of the outcomes' summed weights.

    P(win) : P(tie) : P(loss) = exp(d/2) : nu : exp(-d/2), `index` being d, the difference of the strengths. Davidson
    (1970), JASA 65, 317-328, equation 2.4; without ties of their own (log nu = -inf) Bradley and Terry's.
    """
    total = np.logaddexp(np.logaddexp(index / 2, -index / 2), log_tie)
    win, tie, loss = np.exp(index / 2 - total), np.exp(log_tie - total), np.exp(-index / 2 - total)
    return win + tie / 2, loss + tie / 2, tie, total


Fit: TypeAlias = tuple[FloatArray, FloatArray, MappedScores]
"""Coefficients, (p,): strengths less that of the first model, covariates, log nu; H^-1, (p, p); scores of the rows."""


def fit_contest(contest: Contest, ties: TiesName = "half") -> Fit:
    """The maximum of the likelihood of wins, ties and losses; or of scores, a tie being half a win for either side.

    The latter assumes no variance of ties. By Newton's method on the sparse cells: statsmodels' GLM of the same cells,
    binomial with weights, gives the same coefficients (1e-14) in 2.3 times the time with 20 models and 23 times with
    120, whose design has two entries a row.
    """
    X, weight, mean = contest.design, contest.weight, contest.scores.fitted
    rows, p, tie, share = transposed(compressed(X)), X.shape[1], None, None
    if ties == "davidson":
        assert isinstance(contest.scores, CellScores)
        tie = is_tie(contest.scores)
        share = cell_sums(tie, contest.scores.cell, weight.size, contest.scores.weights).mean

    def evaluate(beta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        index = X @ beta[:p]
        score, rest, tied, total = chances(index, np.append(beta, -np.inf)[p])
        value = float(weight @ ((mean - 0.5) * index - total))
        # One minus a probability near one would have no digits left.
        gradient = rows @ (weight * (mean * rest - (1 - mean) * score))
        information = weighted_gram(rows, X, weight * (score * rest - tied / 4))
        if share is None:
            return value, gradient, information
        cross, alone = X.T @ (weight * tied * (0.5 - score)), weight @ (tied * (1 - tied))
        gradient = np.append(gradient, weight @ (share - tied))
        value += float(beta[p] * (weight @ share))
        return value, gradient, np.block([[information, cross[:, None]], [cross, alone]])

    beta, inverse = newton(evaluate, p if share is None else p + 1)
    score, rest, tied, _ = chances(X @ beta[:p], np.append(beta, -np.inf)[p])
    variance, inner = score * rest - tied / 4, replace(contest.scores, fitted=score)
    if tie is None:
        return beta, inverse, MappedScores(inner, X, information=squared(X, variance))
    assert isinstance(inner, CellScores)
    # Information of a row of each cell: with Var(s) = a, Cov(s, t) = b and Var(t) = c of its score s and of t, one
    # where it is a tie, [[a x x', b x], [b x', c]] is a (x, b/a)(x, b/a)' + (c - b^2/a) of the last column.
    ones, both = sparse.csr_array(np.ones((X.shape[0], 1))), tied * (0.5 - score)
    slope = np.divide(both, variance, out=np.zeros_like(both), where=variance > 0)
    beside = sparse.hstack([X, scale_rows(ones, slope)]).tocsr()
    alone = sparse.hstack([sparse.csr_array(X.shape), ones]).tocsr()
    information = flattened(beside, variance) + flattened(alone, tied * (1 - tied) - both * slope)
    values = sparse.block_array([[X, None], [None, ones]]).tocsr()
    scores = MappedScores(beside_ties(inner, tie, tied), values, information=Information(compressed(information)))
    return beta, inverse, scores


def is_tie(rows: CellScores) -> FloatArray:
    """One where a verdict is a tie, else zero; refuses what is no verdict, and verdicts of one kind."""
    other = (rows.values != 0) & (rows.values != 0.5) & (rows.values != 1)
    if other.any():
        where = rows_where(other)
        raise ScoreRangeError(
            f'`ties="davidson"` needs verdicts: scores of 0, 1/2 and 1; {where.count} lie between them '
            f"({where} of those in use). Use {passed(ties='half')}, which takes any score in [0, 1].",
            rows=where,
        )
    tie = np.asarray(rows.values == 0.5, dtype=np.float64)
    if tie.all():
        raise ArgumentError(
            f'`ties="davidson"` needs wins to learn of; all {rows.n_rows} verdicts are ties, so that no finite "{TIE}" '
            f"is the best. Check how verdicts were read, or use {passed(ties='half')}.",
            count=rows.n_rows,
        )
    if not tie.any():
        raise ArgumentError(f'`ties="davidson"` needs ties to learn of; there is none. Use {passed(ties="half")}.')
    return tie


# Ratings


def ratings_of(
    contest: Contest, pairs: Pairs, ties: TiesName, reference: str | None, scale: ScaleName, about: About
) -> Estimate:
    """The ratings, covariates and tie parameter on a scale: contrasts of the coefficients of the fit.

    `reference` is the model whose rating is zero; None centres the ratings. One Newton step stands for leaving a
    cluster out: the linearised jackknife of MacKinnon, Nielsen and Webb (2024), arXiv:2406.00650.
    """
    beta, inverse, scores = fit_contest(contest, ties)
    K, J, p = len(contest.models), len(contest.terms), beta.size
    unit = ELO if scale == "elo" else 1.0
    free = np.vstack([np.zeros((1, K - 1)), np.eye(K - 1)])
    base = np.full(K, 1.0 / K) if reference is None else np.eye(K)[contest.models.index(reference)]
    # After the covariates comes the tie parameter, which has no scale.
    contrasts = scipy.linalg.block_diag(unit * (free - base @ free), unit * contest.units, np.eye(p - (K - 1) - J))
    units = np.ones(len(contrasts))
    units[: K + J] = np.ptp(contrasts[:K, 0])
    # Of what differs between sides, for a difference of usual size, whatever it is measured in.
    units[K : K + J] /= np.sqrt(contest.weight @ contest.sides**2 / contest.weight.sum())
    return Estimate(
        names=(*contest.models, *contest.terms, *((TIE,) if ties == "davidson" else ())),
        params=contrasts @ beta,
        scores=scores,
        bread=inverse @ contrasts.T,
        kind="likelihood",
        coefficient_map=contrasts,
        refit=Refit(inverse, linear=False, step=True, ratings=Ratings(contest.models, reference, units)),
        dropped=pairs.dropped,
        about=about,
    )


@estimator
def bradley_terry(
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
    formula: str | None = None,
    ties: TiesName = "half",
    reference: str | None = None,
    scale: ScaleName = "logit",
    missing: MissingName = "drop",
    **options: Unpack[BoardOptions],
) -> Board:
    """Bradley-Terry ratings of models, with error bars that allow for answers used many times.

    logit P(a beats b) = theta_a - theta_b, plus what differs between the two sides. Comparisons that share no cluster
    are taken to be independent; the sandwich needs no other assumption on the variance of verdicts.

    Parameters
    ----------
    data : data frame
        One row a comparison. In memory; or in an engine (a polars LazyFrame, a DuckDB relation), which then makes the
        sums: one query for the pairs of models, one for all clusterings together, and no row comes out.
        Or sums of comparisons, of `summarise` and `merged`.
        `formula` and `ties="davidson"` need rows: the columns named are collected, up to a million rows.
    left, right : str
        Columns of the two models.
    score : str, optional
        Column of the left model's score, in [0, 1].
    winner : str, optional
        Column of verdicts: "left", "right", "tie" or a model's name; exactly one of `score` and `winner`.
    labels : mapping, optional
        What other verdicts mean, such as {"A": "left", "B": "right", "error": None}, the last for no verdict.
    key : str or list of str, optional
        Columns that, with the two models, identify a comparison, which may then not be repeated.
    groups : str, list of str, array, Series or dict, optional
        Clusters, as in `fit`: "prompt + judge" crosses two.
    weights : str or array_like, shape (n_rows,), optional
        Sampling weights.
    formula : str, optional
        What differs between the two sides, left minus right, as a patsy formula: "1" is the advantage of the left side
        ("position"), "length_difference" has both, "0 + length_difference" no position.
    ties : {"half", "davidson"}, optional
        A tie is half a win for either side (the default), or an outcome with a probability of its own, whose parameter
        is "log_tie".
    reference : str, optional
        Model whose rating is zero; by default the ratings sum to zero.
    scale : {"logit", "elo"}, optional
        Log-odds (the default), or 400/ln(10) times that; covariates are on the same scale.
    subset : str, optional
        Which rows to use, in the language of ``--where``: ``'language == "en" and tokens < 100'``. The summary and
        `dropped` count the others. Arrays of groups and weights are those of all rows.
    missing : {"drop", "raise"}, optional
        What to do with rows whose verdict, model, covariate or cluster id is missing; dropped rows are counted.
    <cov>
        Covariance; "CR2" by default with groups, "naive" without. CR3 and the jackknife leave each cluster out by one
        Newton step.
    <ssc>
    <dof>
        Degrees of freedom; Satterthwaite under CR2, min over dimensions of G - 1 otherwise.
    <repair>
    <alike>

    Returns
    -------
    Board
        Results: one rating a model, sorted as text, then the covariates. Ranks are of the models alone.

    Raises
    ------
    DisconnectedError
        If some models only win or only lose against the rest, or never meet it; they are named.
    UnknownLabelError, SelfComparisonError, DuplicateRowsError, ScoreRangeError, TooFewClustersError
        If the log breaks a rule; the message says which rows, or how many in an engine.
    NotAvailableError
        If an option needs rows in memory and they are in an engine; the message names the columns to collect.
    MissingColumnError
        If a column is not there, or `reference` is none of the models.
    CollinearityError, ConvergenceError, FormulaError
        If the covariates determine each other, or the verdicts.

    References
    ----------
    Bradley and Terry (1952), Biometrika 39, 324-345; Davidson (1970), JASA 65, 317-328; Ford (1957), American
    Mathematical Monthly 64(8), 28-33; for CR2 of likelihoods McCaffrey and Bell (2006), Statistics in Medicine 25.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.judge_log(n_models=4, n_prompts=60, seed=1)
    >>> board = er.bradley_terry(log, left="left", right="right", winner="winner", groups="prompt", scale="elo")
    >>> board.ranks()["rank"].to_dict()
    {'model-01': 1, 'model-02': 2, 'model-03': 3, 'model-04': 4}
    """
    requested = requested_options(options)
    option("ties", ties, TiesName)
    option("scale", scale, ScaleName)
    sides = None if formula is None else parse_sides(formula)
    roles = PairRoles(left, right, score, winner, labels, as_names(key), None, weights, missing, sides)
    needs_rows = "`formula`" if formula is not None else '`ties="davidson"`' if ties == "davidson" else None
    pairs = gather_pairs(data, roles, groups, needs_rows)
    if reference is not None:
        reference = str(reference)
        if reference not in pairs.models:
            hint = nearest_or_all(reference, pairs.models, "model")
            raise MissingColumnError(f"`reference` must be one of the models; got {reference!r}.{hint}")
    contest = contest_of(pairs)
    where = "sum to zero" if reference is None else f"are relative to {reference}, which is 0"
    units = "log-odds" if scale == "logit" else "Elo points, 400/ln(10) times log-odds"
    tied = "A tie is half a win for either side." if ties == "half" else "Ties by Davidson's model."
    lines = (*pairs.lines, f"Ratings in {units}; they {where}.", tied)
    if contest.terms:
        lines += (f"Covariates are differences left minus right: {', '.join(contest.terms)}.",)
    outcome, n_models = score or winner or "", len(pairs.models)
    about = About("Bradley-Terry", outcome, formula or "", lines=lines, n_models=n_models, one_board=True)
    estimate = ratings_of(contest, pairs, ties, reference, scale, about)
    return board_of(estimate, pairs, requested, groups)


# Win rates at zero difference of the sides


def averages_at_zero(contest: Contest, fit: Fit, pairs: Pairs, about: About) -> Estimate:
    """Average over each model's comparisons of its predicted score against that opponent, all else equal.

    With p_r the prediction at zero difference and J the derivative of the average, a row's influence is (p_r -
    theta)/n_a + J'H^-1 score_r: the comparisons that a model happened to have vary, and so do the coefficients.
    """
    beta, of_fit, scores = fit
    K, p = len(contest.models), beta.size
    strength = np.append(0.0, beta[: K - 1])
    chance = scipy.special.expit(strength[contest.first] - strength[contest.second])
    params, weight, side, counted, beyond = model_means(contest.first, contest.second, chance, contest.weight, K)
    # d p_r / d strengths is p (1 - p) times the row's design, with the other sign for the second model.
    J = np.zeros((K, p))
    J[:, : K - 1] = dense(side.T @ scale_rows(side, contest.weight * chance * (1 - chance)))[:, 1:] / weight[:, None]
    inverse = scipy.linalg.block_diag(of_fit, np.diag(1.0 / weight))
    coefficient_map = np.hstack([J, np.eye(K)])
    return Estimate(
        names=contest.models,
        params=params,
        scores=_beside(scores, beyond, counted),
        bread=inverse @ coefficient_map.T,
        kind="likelihood",
        coefficient_map=coefficient_map,
        refit=Refit(inverse, linear=False, step=True),
        bounded=True,
        dropped=pairs.dropped,
        about=about,
    )


def _beside(scores: MappedScores, beyond: Matrix, counted: Matrix) -> MappedScores:
    """Scores of the coefficients, then of the averages over each model's comparisons."""
    p, K = scores.n_columns, counted.shape[1]
    design = sparse.hstack([scores.design, sparse.csr_array((scores.design.shape[0], K))]).tocsr()
    offset = sparse.hstack([sparse.csr_array((beyond.shape[0], p)), beyond]).tocsr()
    assert scores.information is not None
    # Flattened (p, p) matrices come first in flattened (p + K, p + K) ones, and counts last on the diagonal.
    inner, size = compressed(scores.information.flat), p + K
    index, place = inner.indices.astype(np.int64), p + counted.indices.astype(np.int64)
    parts = ((inner, index // p * size + index % p), (counted, place * (size + 1)))
    spread = [sparse.csr_array((m.data, where, m.indptr), (m.shape[0], size**2)) for m, where in parts]
    return replace(scores, design=design, offset=offset, information=Information(compressed(spread[0] + spread[1])))


@estimator
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
    missing: MissingName = "drop",
    **options: Unpack[BoardOptions],
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
    requested = requested_options(options)
    sides = parse_sides(formula)
    roles = PairRoles(left, right, score, winner, labels, as_names(key), None, weights, missing, sides)
    pairs = gather_pairs(data, roles, groups, "`formula`")
    contest = contest_of(pairs)
    fit = fit_contest(contest)
    terms = contest.units @ fit[0][len(contest.models) - 1 :]
    each = ", ".join(f"{name} {value:.4g}" for name, value in zip(contest.terms, terms, strict=True))
    said = f"Average predictions of a logistic model at no difference in {', '.join(contest.terms)} (log-odds: {each})."
    about = About(
        "Controlled win rate",
        score or winner or "",
        formula,
        "logit",
        (*pairs.lines, said),
        len(contest.models),
        one_board=True,
        null=0.5,
    )
    return board_of(averages_at_zero(contest, fit, pairs, about), pairs, requested, groups)


# From scores of answers to comparisons, and abilities whatever the items (Rasch)

# Columns of the frame of comparisons.
SIDES = ("left", "right", "score")


def wins(data: Any, score: str = "score", *, model: str = "model", item: str = "item") -> pd.DataFrame:
    """Comparisons of all pairs of models on the items that both answered, for `win_rate` and `bradley_terry`.

    `win_rate` of them, clustered by the item, is HELM's mean win rate; times the number of items and of other models it
    is Borda's count.

    Parameters
    ----------
    data : data frame
        In memory: pandas, polars, pyarrow; or a dict of arrays. One row for each answer.
    score : str
        Column of scores, of which more is better. Rows without one, or without a model or item, are left out.
    model, item : str
        Columns of the models and of the items; "task:question" joins two. One row for each model and item.

    Returns
    -------
    DataFrame
        One row for each item and pair of models: left, right, score (1 where left is better, 0.5 where they are equal
        but for rounding, 0), the item, and every further column that is the same in all answers to an item.

    Raises
    ------
    DuplicateRowsError
        If a model has several rows on an item.
    DataError
        If there is one model, or no item that two models answered.
    MissingColumnError, NonNumericError
        If a column is not there, or has no numbers.

    References
    ----------
    Liang et al. (2023), Holistic Evaluation of Language Models, TMLR, section 6 (mean win rate).

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.paired(n_passages=20, seed=1)
    >>> pairs = er.wins(log, model="model", item="question")
    >>> pairs.columns.tolist()
    ['left', 'right', 'score', 'question', 'passage']
    >>> board = er.win_rate(pairs, left="left", right="right", score="score", groups="question")
    >>> board.params.round(3).to_dict()
    {'new': 0.525, 'old': 0.475}
    """
    return pairs_of(*rows_by_item(data, {"score": score}, {"model": model, "item": item}), item)


def pairs_of(rows: ReadRows, names: tuple[str, ...], cell: IntArray, item: str) -> pd.DataFrame:
    """The comparisons of all pairs of models on one item."""
    answer = np.full((rows.used[item].n_clusters, len(names)), np.nan)
    answer[rows.used[item].codes, cell] = rows.values["score"]
    first, second = np.triu_indices(len(names), 1)
    left, right = answer[:, first], answer[:, second]
    better = np.where(np.isclose(left, right, rtol=ROUNDING, atol=0.0), 0.0, left - right)
    place, pair = np.nonzero(~np.isnan(better))
    if not place.size:
        raise DataError(f"no {item!r} was answered by two models, so that there is nothing to compare.", column=item)
    label = np.asarray(names, dtype=object)
    sides = {"left": label[first[pair]], "right": label[second[pair]], "score": (np.sign(better[place, pair]) + 1) / 2}
    of_items = item_columns(rows, item)
    return pd.concat([pd.DataFrame(sides), of_items.iloc[place].reset_index(drop=True)], axis=1)


def item_columns(rows: ReadRows, item: str) -> pd.DataFrame:
    """The columns that are the same in all answers to an item, the item first; one row an item.

    Columns called as those of the comparisons are have no place beside these.
    """
    if {item, *joint_parts(item)} & set(SIDES):
        raise ArgumentError(f"`item` must not be one of {listed(SIDES)}, columns of the comparisons.", column=item)
    table, codes = rows.source.table, rows.used[item]
    first, alike = rows.source.places()[codes.first], [item] if item in table.columns else []
    for name in (name for name in table.columns if name not in (*SIDES, item)):
        try:
            labels = rows.restrict(table.labels(name, "item")[0])
        except (TypeError, ValueError):  # lists and the like are no labels
            continue
        if np.array_equal(labels, labels[codes.first][codes.codes]):
            alike.append(name)
    frame = table.to_pandas(alike).iloc[first].reset_index(drop=True)
    if item not in frame:  # a joint id
        frame.insert(0, item, [codes.label(code) for code in range(codes.n_clusters)])
    return frame


@estimator
def ability(
    data: Any,
    score: str = "score",
    *,
    model: str = "model",
    item: str = "item",
    groups: Groups = None,
    missing: MissingName = "drop",
    **options: Unpack[EstimatorOptions],
) -> Board:
    """Rasch abilities of models, whose difficulties of items are conditioned out.

    logit P(model m solves item i) = theta_m - beta_i. Of two models of which one solved the item, it is a with
    probability 1/(1 + exp(theta_b - theta_a)), whatever beta_i: abilities are Bradley-Terry ratings on these pairs, so
    that models need not have answered the same items.

    Parameters
    ----------
    data : data frame
        In memory: pandas, polars, pyarrow; or a dict of arrays. One row for each answer.
    score : str, default "score"
        Column of scores, 0 or 1.
    model, item : str
        Columns of the models and of the items; one row for each model and item.
    groups : str or list of str, optional
        Clusters: columns that are the same in all answers to an item. The items by default, since pairs of one item
        share answers.
    subset : str, optional
        Which rows to use, in the language of ``--where``; frames in memory only.
    missing : {"drop", "raise"}, optional
        What to do with rows where something is missing; dropped rows are counted.
    <cov>
        Covariance; "CR2" by default.
    <ssc>
    <dof>
        Degrees of freedom, as in `bradley_terry`.
    <repair>

    Returns
    -------
    Board
        Results: abilities in logits that sum to zero. `nobs` counts the pairs that an item separates.

    Raises
    ------
    ScoreRangeError
        If a score is neither 0 nor 1.
    DisconnectedError
        If a model meets no other in such a pair, or is right, or wrong, in all of its pairs.
    AlignmentError
        If a column of `groups` differs within an item.
    DuplicateRowsError, DataError, MissingColumnError
        If the data break another rule.

    References
    ----------
    Rasch (1960), Probabilistic Models for Some Intelligence and Attainment Tests; Zwinderman (1995), Applied
    Psychological Measurement 19, 369-375 (pairwise conditional estimation).

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.paired(n_passages=40, seed=1)
    >>> er.ability(log, item="question", groups="passage").params.round(3).to_dict()
    {'new': 0.161, 'old': -0.161}
    """
    rows, names, cell = rows_by_item(data, {"score": score}, {"model": model, "item": item}, missing, groups)
    refuse_unless_binary(rows.values["score"], score, "`score` must be 0 or 1 for abilities")
    pairs, clusters = pairs_of(rows, names, cell, item), f"`{item}`" if groups is None else groups
    for name in (name for axis in parse_groups(clusters, names_of(rows.source.table)) for name in axis):
        if name in SIDES:
            raise ArgumentError(f"`groups` must not be one of {listed(SIDES)}: rename the column.", column=name)
        if name not in pairs:
            text = f"pairs of answers to an item have one cluster; {name!r} differs within items. Use a coarser column."
            raise AlignmentError(text, column=name)
    separated = pairs[pairs["score"] != 0.5]
    lone = [name for name in names if not (separated[["left", "right"]] == name).to_numpy().any()]
    if lone:
        text = f"a model needs items that it solved and another did not, or the reverse; {listed(lone)} has none."
        raise DisconnectedError(f"{text} Leave it out, or add items.", column=model, count=len(lone))
    sides: dict[str, Any] = {"left": "left", "right": "right", "score": "score"}
    board = bradley_terry(separated, **sides, groups=clusters, missing=missing, **options)
    said = f"{len(separated)} of {len(pairs)} pairs of answers to one item differ; the others say nothing."
    lines = ("Abilities in logits; they sum to zero. Difficulties of items are conditioned out.", said)
    about = replace(board.estimate.about, model="Ability in logits", outcome=score, lines=lines)
    estimate = replace(
        board.estimate, about=about, default_groups=f"`{item}`", dropped=board.estimate.dropped | rows.dropped
    )
    return replace(board, estimate=estimate)
