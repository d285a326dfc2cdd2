"""Bradley-Terry ratings from a log of comparisons, with ties, position and covariates of the two sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy
from scipy import sparse

from evalreg.boards.board import Board, board_of
from evalreg.checks import (
    MISSING,
    SCALES,
    TIES,
    CovName,
    DofName,
    FloatArray,
    IntArray,
    MissingName,
    RepairName,
    ScaleName,
    SscName,
    TiesName,
    listed,
    nearest,
    option,
    row_list,
    rows_text,
)
from evalreg.covariance.documented import documented
from evalreg.covariance.options import check_cov_options
from evalreg.data.formula import parse_sides
from evalreg.data.groups import Groups
from evalreg.data.verdicts import PairRoles, as_names
from evalreg.errors import ArgumentError, CollinearityError, ConvergenceError, MissingColumnError, ScoreRangeError
from evalreg.estimate import About, Estimate, Refit
from evalreg.estimators.outcomes import Davidson, Logistic, davidson, tied_moments
from evalreg.estimators.pairs import Pairs, design_lines, duels_of, gather_pairs, independence_notes
from evalreg.estimators.reweighted import Reweighted
from evalreg.estimators.separated import Separated
from evalreg.estimators.strength import check_connected, incidence, logistic
from evalreg.numerics.basis import basis_of
from evalreg.numerics.matrices import Matrix, compressed, dense
from evalreg.numerics.newton import newton
from evalreg.results.bridge import refuse_singular
from evalreg.scores.cells import CellScores
from evalreg.scores.mapped import MappedScores, flattened
from evalreg.scores.stacking import StackedScores
from evalreg.scores.sums import cell_sums

ELO = 400.0 / np.log(10.0)
# Name of Davidson's parameter, log nu: 0 where equals tie as often as either wins.
TIE = "log_tie"


@dataclass(frozen=True, eq=False)
class Contest:
    """Comparisons in cells that share a design: logit P = theta_first - theta_second + z'gamma.

    Parameters
    ----------
    models : tuple of str
        Names.
    terms : tuple of str
        Names of the covariates, z.
    design : sparse array, shape (n_cells, n_models - 1 + n_terms)
        Strengths less that of the first model, then combinations of z that are scaled and do not overlap.
    scores : CellScores
        Rows in these cells, as scores of the cell's first model.
    weight, mean : ndarray, shape (n_cells,)
        Sum of weights, and mean score.
    first, second : ndarray of int, shape (n_cells,)
        Models of each cell.
    sides : ndarray, shape (n_cells, n_terms)
        z.
    units : ndarray, shape (n_terms, n_terms)
        From coefficients of the combinations to those of z.
    """

    models: tuple[str, ...]
    terms: tuple[str, ...]
    design: Matrix
    scores: CellScores
    weight: FloatArray
    mean: FloatArray
    first: IntArray
    second: IntArray
    sides: FloatArray
    units: FloatArray

    @property
    def n_strengths(self) -> int:
        """Free strengths: one less than models."""
        return len(self.models) - 1


def contest_of(pairs: Pairs) -> Contest:
    """Cells with a design of their own: pairs, and where sides differ, each pattern of what differs.

    Parameters
    ----------
    pairs : Pairs
        Comparisons.

    Returns
    -------
    Contest
        In the order of the left and right sides where there are covariates.
    """
    if not pairs.side_names:
        X = incidence(pairs.first, pairs.second, len(pairs.models))[:, 1:].tocsr()
        scores = pairs.scores
        sides, weight = np.empty((pairs.first.size, 0)), pairs.sums.weight
        return Contest(pairs.models, (), X, scores, weight, pairs.mean, pairs.first, pairs.second, sides, np.eye(0))
    cell, where = _patterns(pairs)
    swapped, of = pairs.swapped[where], pairs.scores.cell
    assert of is not None
    values = np.where(pairs.swapped, 1.0 - pairs.scores.values, pairs.scores.values)
    first, second = pairs.first[of[where]], pairs.second[of[where]]
    left, right = np.where(swapped, second, first), np.where(swapped, first, second)
    sums = cell_sums(values, cell, where.size, pairs.scores.weights)
    X = incidence(left, right, len(pairs.models))[:, 1:]
    sides, mean = pairs.sides[where], sums.total / sums.weight
    basis = basis_of(sides, pairs.side_names, sums.weight)
    # Of size 1 on average, so that coefficients are log-odds whatever the units.
    size = np.sqrt(sums.weight.sum())
    turned = basis.rows * (size / np.sqrt(sums.weight))[:, None]
    design = sparse.hstack([X, compressed(turned)]).tocsr()
    scores = CellScores(values, mean, pairs.scores.labels, cell, pairs.scores.weights)
    units = basis.map * size
    return Contest(pairs.models, pairs.side_names, design, scores, sums.weight, mean, left, right, sides, units)


def _patterns(pairs: Pairs) -> tuple[IntArray, IntArray]:
    """Cell of each row, by the two sides and what differs between them, and one row of each cell."""
    assert pairs.scores.cell is not None
    key = pairs.scores.cell * 2 + pairs.swapped
    for column in pairs.sides.T:
        codes, values = pd.factorize(column)
        key = pd.factorize(key)[0].astype(np.int64) * len(values) + codes
    cell, first = pd.factorize(key)
    where = np.empty(len(first), dtype=np.intp)
    where[cell[::-1]] = np.arange(cell.size - 1, -1, -1)
    return cell.astype(np.intp), where


def check_design(contest: Contest) -> None:
    """Raise if covariates of the two sides determine each other, or are strengths by another name.

    Parameters
    ----------
    contest : Contest
        Cells with their design.

    Raises
    ------
    CollinearityError
        If the design has not full rank; the columns are named.
    """
    gram = dense(contest.design.T @ (sparse.diags_array(contest.weight).tocsr() @ contest.design))
    try:
        refuse_singular(gram, [*contest.models[1:], *contest.terms])
    except CollinearityError as error:
        if error.column != "position":
            raise
        raise _fixed_order(contest) from None
    _refuse_decisive(contest)


def _refuse_decisive(contest: Contest) -> None:
    """Raise where one covariate decides every verdict that it has a part in."""
    win = 2 * contest.mean - 1
    for name, z in zip(contest.terms, contest.sides.T, strict=True):
        sign = np.sign(z[z != 0]) * win[z != 0]
        if np.all(np.abs(sign) == 1) and np.all(sign == sign[0]):
            side = "larger" if sign[0] > 0 else "smaller"
            what = f"the side with the {side} {name!r} wins every comparison in which the two differ"
            if name == "position":
                what = f"the {'left' if sign[0] > 0 else 'right'} side wins every comparison"
            without = '; "0 + ..." is a formula without position' if name == "position" else ""
            raise ConvergenceError(
                f"{what}, so that no finite coefficient of {name!r} is the best. Check how verdicts were read, or "
                f"leave it out{without}.",
                column=name,
            )


def _fixed_order(contest: Contest) -> CollinearityError:
    """The error for a position that the schedule does not show, and that a formula has unless it says 0."""
    others = " + ".join(name for name in contest.terms if name != "position")
    instead = f'Write formula="0 + {others}"' if others else "Leave out `formula`"
    return CollinearityError(
        'the advantage of a side, "position", cannot be told from the strengths of the models: each stands always on '
        "the same side, as where all are compared with one baseline. A formula has the position unless it says 0. "
        f"{instead}.",
        column="position",
        count=1,
    )


@dataclass(frozen=True, eq=False)
class Fit:
    """Coefficients with what their scores need.

    Parameters
    ----------
    coefficients : ndarray, shape (p,)
        Strengths less that of the first model, covariates, and the tie parameter where there is one.
    inverse : ndarray, shape (p, p)
        H^-1.
    scores : MappedScores
        Of the rows.
    again : Reweighted
        Solves for the coefficients under other weights.
    """

    coefficients: FloatArray
    inverse: FloatArray
    scores: MappedScores
    again: Reweighted


def fit_half(contest: Contest) -> Fit:
    """The logistic fit in which a tie is half a win for either side.

    Parameters
    ----------
    contest : Contest
        Cells with their design.

    Returns
    -------
    Fit
        Quasi-likelihood: no variance of ties is assumed.
    """
    beta, inverse = newton(logistic(contest.design, contest.weight, contest.mean), contest.design.shape[1])
    p = scipy.special.expit(contest.design @ beta)
    inner = replace(contest.scores, fitted=p)
    information = flattened(contest.design, p * (1 - p))
    again = Reweighted(Logistic(contest.design), beta, contest.weight, contest.mean - p)
    return Fit(beta, inverse, MappedScores(inner, contest.design, information=information), again)


def fit_davidson(contest: Contest) -> Fit:
    """The fit in which ties have a probability of their own.

    Parameters
    ----------
    contest : Contest
        Cells whose scores are 0, 1/2 or 1.

    Returns
    -------
    Fit
        The last coefficient is log nu.
    """
    rows = contest.scores
    other = (rows.values != 0) & (rows.values != 0.5) & (rows.values != 1)
    if other.any():
        where, count = row_list(other)
        raise ScoreRangeError(
            f'`ties="davidson"` needs verdicts: scores of 0, 1/2 and 1; {count} lie between them '
            f'({rows_text(where, count)} of those in use). Use ties="half", which takes any score in [0, 1].',
            rows=where,
            count=count,
        )
    tie = (rows.values == 0.5).astype(float)
    if tie.all():
        raise ArgumentError(
            f'`ties="davidson"` needs wins to learn of; all {tie.size} verdicts are ties, so that no finite "{TIE}" is '
            'the best. Check how verdicts were read, or use ties="half".',
            count=tie.size,
        )
    if not tie.any():
        raise ArgumentError('`ties="davidson"` needs ties to learn of; there is none. Use ties="half".')
    sums = cell_sums(tie, rows.cell, contest.weight.size, rows.weights)
    design, share = contest.design, sums.total / sums.weight
    beta, inverse = newton(davidson(design, contest.weight, contest.mean, share), design.shape[1] + 1)
    moments = tied_moments(design @ beta[:-1], beta[-1])
    of_score, both, of_tie = moments.variances
    last: Matrix = sparse.csr_array((np.ones(share.size), (np.arange(share.size), np.zeros(share.size, dtype=int))))
    # [[a x x', b x], [b x', d]] as a (x, b/a)(x, b/a)' + (d - b^2/a) of the last column.
    beside = sparse.hstack([design, sparse.diags_array(both / of_score) @ last]).tocsr()
    alone = sparse.hstack([sparse.csr_array(design.shape), last]).tocsr()
    information = flattened(beside, of_score) + flattened(alone, of_tie - both**2 / of_score)
    stacked = StackedScores(
        replace(rows, fitted=moments.score), CellScores(tie, moments.tie, rows.labels, rows.cell, rows.weights)
    )
    outcomes = Davidson(design)
    residual = np.concatenate([contest.mean - moments.score, share - moments.tie])
    again = Reweighted(outcomes, beta, np.tile(contest.weight, 2), residual)
    return Fit(beta, inverse, MappedScores(stacked, outcomes.design, information=compressed(information)), again)


def solve(contest: Contest, ties: TiesName, reference: str | None, scale: ScaleName) -> tuple[Fit, FloatArray]:
    """Coefficients, and the map from them to the ratings and covariates on the scale asked for.

    Parameters
    ----------
    contest : Contest
        Cells with their design.
    ties : {"half", "davidson"}
        The model of ties.
    reference : str, optional
        Model whose rating is zero; None centres the ratings.
    scale : {"logit", "elo"}
        Units of the linear predictor.

    Returns
    -------
    fit : Fit
        Coefficients and scores.
    contrasts : ndarray, shape (n_params, p)
        Params as contrasts of the coefficients.
    """
    check_design(contest)
    fit = fit_half(contest) if ties == "half" else fit_davidson(contest)
    K, p = len(contest.models), fit.coefficients.size
    free = np.vstack([np.zeros((1, K - 1)), np.eye(K - 1)])
    base = np.full(K, 1.0 / K) if reference is None else np.eye(K)[contest.models.index(reference)]
    unit = ELO if scale == "elo" else 1.0
    contrasts = np.zeros((K + p - (K - 1), p))
    contrasts[:K, : K - 1] = unit * (free - base @ free)
    n_terms = len(contest.terms)
    contrasts[K : K + n_terms, K - 1 : K - 1 + n_terms] = unit * contest.units
    if ties == "davidson":
        contrasts[-1, -1] = 1.0
    return fit, contrasts


def estimate_of(
    contest: Contest,
    pairs: Pairs,
    fit: Fit,
    contrasts: FloatArray,
    names: tuple[str, ...],
    reference: str | None = None,
) -> Estimate:
    """The estimate of contrasts of the coefficients.

    Parameters
    ----------
    contest : Contest
        Cells with their design.
    pairs : Pairs
        The comparisons.
    fit : Fit
        Coefficients and scores.
    contrasts : ndarray, shape (n_params, p)
        What is estimated.
    names : tuple of str
        Of the parameters.
    reference : str, optional
        Model whose rating is zero; None where ratings are centred.

    Returns
    -------
    Estimate
        One Newton step stands for leaving a cluster out, but in a jackknife.
    """
    zero = None if reference is None else contest.models.index(reference)
    at_infinity = Separated(fit.again, contest.first, contest.second, contest.models, contrasts, zero)
    return Estimate(
        names=names,
        params=contrasts @ fit.coefficients,
        scores=fit.scores,
        bread=fit.inverse @ contrasts.T,
        kind="likelihood",
        coefficient_map=contrasts,
        refit=Refit(fit.inverse, linear=False, leave_out=fit.again, contrasts=contrasts, at_infinity=at_infinity),
        dropped=pairs.dropped,
    )


@documented
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
    cov: CovName | None = None,
    ssc: SscName | None = None,
    dof: DofName | float | None = None,
    repair: RepairName | None = None,
    alike: str | None = None,
) -> Board:
    """Bradley-Terry ratings of models, with error bars that know how answers are reused.

    logit P(a beats b) = theta_a - theta_b, plus what differs between the two sides. Comparisons that share no cluster
    are taken to be independent; the sandwich needs no other assumption on the variance of verdicts.

    Parameters
    ----------
    data : data frame
        One row a comparison. Of a lazy frame the columns that the call names are collected.
    left, right : str
        Columns of the two models.
    score : str, optional
        Column of the left model's score, in [0, 1].
    winner : str, optional
        Column of verdicts: "left", "right", "tie" or a model's name; exactly one of `score` and `winner`.
    labels : mapping, optional
        What other verdicts mean, such as {"A": "left", "B": "right", "error": None}; None is no verdict.
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
    missing : {"drop", "raise"}, optional
        What to do with rows whose verdict, model, covariate or cluster id is missing; dropped rows are counted.
    <cov>
        Covariance; "CR2" by default with groups, "naive" without. CR3 leaves each cluster out by one Newton step, the
        jackknife solves again.
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
        If the log breaks a rule; the message says which rows.
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
    asked = check_cov_options(cov, ssc, dof, repair, alike)
    option("missing", missing, MISSING)
    option("ties", ties, TIES)
    option("scale", scale, SCALES)
    sides = None if formula is None else parse_sides(formula)
    roles = PairRoles(left, right, score, winner, labels, as_names(key), None, weights, missing, sides)
    pairs = gather_pairs(data, roles, groups)
    reference = None if reference is None else _known(reference, pairs.models)
    check_connected(pairs.first, pairs.second, pairs.mean, pairs.models)
    contest = contest_of(pairs)
    fit, contrasts = solve(contest, ties, reference, scale)
    names = (*pairs.models, *contest.terms, *((TIE,) if ties == "davidson" else ()))
    lines = (*design_lines(pairs), *_lines(contest, ties, reference, scale))
    about = About("Bradley-Terry", score or winner or "", formula or "", lines=lines, n_models=len(pairs.models))
    about = replace(about, one_board=True)
    estimate = replace(estimate_of(contest, pairs, fit, contrasts, names, reference), about=about)
    return board_of(estimate, pairs.axes, asked, duels_of(pairs), independence_notes(groups))


def _known(reference: str, models: tuple[str, ...]) -> str:
    if str(reference) not in models:
        hint = nearest(str(reference), models) or f" The models are {listed(models)}."
        raise MissingColumnError(f"`reference` must be one of the models; got {reference!r}.{hint}")
    return str(reference)


def _lines(contest: Contest, ties: TiesName, reference: str | None, scale: ScaleName) -> list[str]:
    """Identification, scale, ties and covariates, in words."""
    where = "sum to zero" if reference is None else f"are relative to {reference}, which is 0"
    units = "log-odds" if scale == "logit" else "Elo points, 400/ln(10) times log-odds"
    lines = [f"Ratings in {units}; they {where}."]
    lines.append("A tie is half a win for either side." if ties == "half" else "Ties by Davidson's model.")
    if contest.terms:
        lines.append(f"Covariates are differences left minus right: {', '.join(contest.terms)}.")
    return lines
