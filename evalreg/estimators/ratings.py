"""Ratings of models from their comparisons, with ties, position and covariates, and win rates with these held equal.

logit P(a beats b) = theta_a - theta_b + z'gamma, by maximum likelihood on the cells of the comparisons. All that errors
need is the scores of the rows and the information of each cell; what follows from leaving clusters out, or drawing them
again, is one Newton step from the fit.
"""

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
from evalreg.boards.pairs import Pairs, gather_pairs
from evalreg.checks import (
    SCALES,
    TIES,
    BoolArray,
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
)
from evalreg.covariance.options import check_cov_options, documented
from evalreg.data.clusters import Groups, rows_where
from evalreg.data.formula import parse_sides
from evalreg.data.pairs import PairRoles, as_names
from evalreg.errors import (
    ArgumentError,
    CollinearityError,
    ConvergenceError,
    DisconnectedError,
    MissingColumnError,
    ScoreRangeError,
)
from evalreg.estimate import About, Estimate, Ratings, Refit
from evalreg.estimators.win_rate import ModelMeans
from evalreg.numerics.basis import basis_of, refuse_singular
from evalreg.numerics.fitting import Evaluate, newton
from evalreg.numerics.matrices import (
    Matrix,
    compressed,
    dense,
    difference_rows,
    scale_rows,
    transposed,
    weighted_gram,
)
from evalreg.results.results import chooses_rows
from evalreg.scores.base import cell_sums
from evalreg.scores.cells import CellScores, beside_ties
from evalreg.scores.engine import EngineScores
from evalreg.scores.stacking import Information, MappedScores, flattened, squared

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
    scores: CellScores | EngineScores  # rows in these cells, as scores of the cell's first model
    weight: FloatArray  # (n_cells,): sum of weights
    mean: FloatArray  # (n_cells,): mean score
    first: IntArray  # (n_cells,): models of each cell
    second: IntArray
    sides: FloatArray  # (n_cells, n_terms): z
    units: FloatArray  # (n_terms, n_terms): from coefficients of the combinations to those of z

    @property
    def n_strengths(self) -> int:
        """Free strengths: one less than models."""
        return len(self.models) - 1


def contest_of(pairs: Pairs) -> Contest:
    """Cells with a design of their own: pairs, and where sides differ, each pattern of what differs.

    With covariates, first and second are the left and right sides.
    """
    if not pairs.side_names:
        X = difference_rows(pairs.first, pairs.second, len(pairs.models))[:, 1:].tocsr()
        scores = pairs.scores
        sides, weight = np.empty((pairs.first.size, 0)), pairs.sums.weight
        return Contest(pairs.models, (), X, scores, weight, pairs.mean, pairs.first, pairs.second, sides, np.eye(0))
    rows, cell, where = pairs.rows, *_patterns(pairs.rows, pairs.left_second, pairs.sides)
    swapped, of = pairs.left_second[where], rows.cell
    assert of is not None
    first, second = pairs.first[of[where]], pairs.second[of[where]]
    left, right = np.where(swapped, second, first), np.where(swapped, first, second)
    turned = rows.turned(pairs.left_second, cell, np.zeros(where.size))
    sums = cell_sums(turned.values, cell, where.size, turned.weights)
    X = difference_rows(left, right, len(pairs.models))[:, 1:]
    sides, mean = pairs.sides[where], sums.total / sums.weight
    basis = basis_of(sides, pairs.side_names, sums.weight)
    # Of size 1 on average, so that coefficients are log-odds whatever the units.
    size = np.sqrt(sums.weight.sum())
    scaled = basis.rows * (size / np.sqrt(sums.weight))[:, None]
    design = sparse.hstack([X, compressed(scaled)]).tocsr()
    scores = replace(turned, fitted=mean)
    units = basis.map * size
    return Contest(pairs.models, pairs.side_names, design, scores, sums.weight, mean, left, right, sides, units)


def _patterns(scores: CellScores, swapped: BoolArray, sides: FloatArray) -> tuple[IntArray, IntArray]:
    """Cell of each row, by the two sides and what differs between them, and one row of each cell."""
    assert scores.cell is not None
    key = scores.cell * 2 + swapped
    for column in sides.T:
        codes, values = pd.factorize(column)
        key = pd.factorize(key)[0].astype(np.int64) * len(values) + codes
    cell, first = pd.factorize(key)
    where = np.empty(len(first), dtype=np.intp)
    where[cell[::-1]] = np.arange(cell.size - 1, -1, -1)
    return cell.astype(np.intp), where


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


def strong_components(reaches: BoolArray) -> tuple[IntArray, IntArray]:
    """First node of each set of nodes that reach each other, shape (n_sets,), and the set of each, shape (n_nodes,)."""
    first, part = np.unique(np.argmax(reaches & reaches.T, axis=1), return_inverse=True)
    return first.astype(np.intp), part.reshape(-1).astype(np.intp)


def check_connected(first: IntArray, second: IntArray, mean: FloatArray, models: tuple[str, ...]) -> None:
    """Raise unless a chain of wins leads from every model to every other; a tie is a win both ways.

    Models that only win, only lose or never meet the others are named. Ford (1957), American Mathematical Monthly
    64(8), 28-33: the condition for a finite maximum.
    """
    n_models = len(models)
    wins, losses = mean > 0, mean < 1
    winner = np.concatenate([first[wins], second[losses]])
    loser = np.concatenate([second[wins], first[losses]])
    beats = reachable(winner, loser, n_models)
    parts, part = strong_components(beats)
    if parts.size == 1:
        return
    largest = np.argmax(np.bincount(part))
    cut = np.flatnonzero(part != largest)
    met = strong_components(reachable(np.append(winner, loser), np.append(loser, winner), n_models))[1]
    rest = part == largest
    sentences = []
    unmet = [models[m] for m in cut if met[m] != met[np.flatnonzero(rest)[0]]]
    if unmet:
        sentences.append(f"{listed(unmet)} met none of the others")
    remaining = [m for m in cut if models[m] not in unmet]
    reach = beats[np.flatnonzero(rest)[0]]
    winners, losers = ([models[m] for m in remaining if bool(reach[m]) is not won] for won in (True, False))
    if winners:
        sentences.append(f"{listed(winners)} never lost to the others")
    if losers:
        sentences.append(f"{listed(losers)} never won against the others")
    raise DisconnectedError(
        "every model needs wins and losses (or ties) that link it to the rest, or its strength is infinite; "
        f"{', '.join(sentences)}. Leave these models out, add comparisons, or use `win_rate`, which needs no link.",
        count=len(cut),
    )


def check_design(contest: Contest) -> None:
    """Raise CollinearityError, with the columns, if covariates of the sides determine each other or the strengths."""
    design = compressed(contest.design)
    gram = weighted_gram(transposed(design), design, contest.weight)
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
        'the advantage of a side, "position", cannot be told from the strengths of the models: each is always on '
        "the same side, as where all are compared with one baseline. A formula has the position unless it says 0. "
        f"{instead}.",
        column="position",
        count=1,
    )


# The fits


@dataclass(frozen=True, eq=False)
class Fit:
    """Coefficients with what their scores need."""

    # (p,): strengths less that of the first model, covariates, and the tie parameter where there is one
    coefficients: FloatArray
    inverse: FloatArray  # (p, p): H^-1
    scores: MappedScores  # of the rows


def logistic(design: Matrix, weight: FloatArray, mean: FloatArray) -> Evaluate:
    """The quasi-likelihood of scores in [0, 1] whose mean is expit(x b), for `newton`; x is the design of each cell."""
    rows = transposed(compressed(design)) if sparse.issparse(design) else design.T

    def evaluate(beta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        index = design @ beta
        fitted, rest = scipy.special.expit(index), scipy.special.expit(-index)
        value = float(weight @ (mean * index - np.logaddexp(0.0, index)))
        # One minus a probability near one would have no digits left.
        gradient = rows @ (weight * (mean * rest - (1 - mean) * fitted))
        return value, gradient, weighted_gram(rows, design, weight * fitted * rest)

    return evaluate


def fit_half(contest: Contest) -> Fit:
    """The logistic fit in which a tie is half a win for either side: no variance of ties is assumed.

    By Newton's method on the sparse cells: statsmodels' GLM of the same cells, binomial with weights, gives the same
    coefficients (1e-14) in 2.3 times the time with 20 models and 23 times with 120, whose design has two entries a row.
    """
    beta, inverse = newton(logistic(contest.design, contest.weight, contest.mean), contest.design.shape[1])
    p = scipy.special.expit(contest.design @ beta)
    inner = replace(contest.scores, fitted=p)
    return Fit(beta, inverse, MappedScores(inner, contest.design, information=squared(contest.design, p * (1 - p))))


@dataclass(frozen=True, eq=False)
class Tied:
    """Moments of a row under Davidson's model: E[s] of its score and E[t], t one where it is a tie."""

    score: FloatArray
    tie: FloatArray
    # Logarithm of the sum of the three outcomes' weights.
    log_normalizer: FloatArray

    @property
    def variances(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Var(s), Cov(s, t), Var(t)."""
        win = self.score - self.tie / 2
        of_score = win + self.tie / 4 - self.score**2
        return of_score, self.tie / 2 - self.score * self.tie, self.tie * (1 - self.tie)


def tied_moments(index: FloatArray, log_tie: float | FloatArray) -> Tied:
    """Moments under P(win) : P(tie) : P(loss) = exp(d/2) : nu : exp(-d/2).

    `index` is d, the difference of the strengths. Davidson (1970), JASA 65, 317-328, equation 2.4.
    """
    parts = np.stack([index / 2, np.broadcast_to(log_tie, index.shape), -index / 2])
    total = np.logaddexp(np.logaddexp(parts[0], parts[1]), parts[2])
    win, tie, _ = np.exp(parts - total)
    return Tied(win + tie / 2, tie, total)


def davidson(design: Matrix, weight: FloatArray, mean: FloatArray, share: FloatArray) -> Evaluate:
    """The likelihood of wins, ties and losses, for `newton`; the last coefficient is log nu.

    `design` is x of each cell, (n_cells, p - 1); weight, mean score and share of ties are those of each cell.
    """
    rows = transposed(compressed(design)) if sparse.issparse(design) else design.T

    def evaluate(beta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        index = design @ beta[:-1]
        moments = tied_moments(index, float(beta[-1]))
        value = float(weight @ ((mean - 0.5) * index + share * beta[-1] - moments.log_normalizer))
        of_score, both, of_tie = (weight * part for part in moments.variances)
        gradient = np.append(design.T @ (weight * (mean - moments.score)), weight @ (share - moments.tie))
        cross = design.T @ both
        top = weighted_gram(rows, design, of_score)
        information = np.block([[top, cross[:, None]], [cross[None, :], np.array([[of_tie.sum()]])]])
        return value, gradient, information

    return evaluate


def fit_davidson(contest: Contest) -> Fit:
    """The fit to scores of 0, 1/2 and 1 in which ties have a probability of their own; log nu comes last."""
    rows = contest.scores
    assert isinstance(rows, CellScores)
    other = (rows.values != 0) & (rows.values != 0.5) & (rows.values != 1)
    if other.any():
        where = rows_where(other)
        raise ScoreRangeError(
            f'`ties="davidson"` needs verdicts: scores of 0, 1/2 and 1; {where.count} lie between them '
            f'({where} of those in use). Use ties="half", which takes any score in [0, 1].',
            rows=where,
        )
    tie = (rows.values == 0.5).astype(float)
    if tie.all():
        raise ArgumentError(
            f'`ties="davidson"` needs wins to learn of; all {rows.n_rows} verdicts are ties, so that no finite "{TIE}" '
            'is the best. Check how verdicts were read, or use ties="half".',
            count=rows.n_rows,
        )
    if not tie.any():
        raise ArgumentError('`ties="davidson"` needs ties to learn of; there is none. Use ties="half".')
    sums = cell_sums(tie, rows.cell, contest.weight.size, rows.weights)
    X, share = contest.design, sums.total / sums.weight
    beta, inverse = newton(davidson(X, contest.weight, contest.mean, share), X.shape[1] + 1)
    moments = tied_moments(X @ beta[:-1], beta[-1])
    stacked = beside_ties(replace(rows, fitted=moments.score), tie, moments.tie)
    ones = sparse.csr_array(np.ones((X.shape[0], 1)))
    values = sparse.block_array([[X, None], [None, ones]]).tocsr()
    return Fit(beta, inverse, MappedScores(stacked, values, information=_of_ties(X, ones, moments)))


def _of_ties(X: Matrix, ones: Matrix, moments: Tied) -> Information:
    """Information of a row of each cell, flattened to (n_cells, p^2).

    [[a x x', b x], [b x', d]] is a (x, b/a)(x, b/a)' + (d - b^2/a) of the last column; b is 0 where a is.
    """
    of_score, both, of_tie = moments.variances
    slope = np.divide(both, of_score, out=np.zeros_like(both), where=of_score > 0)
    beside = sparse.hstack([X, scale_rows(ones, slope)]).tocsr()
    alone = sparse.hstack([sparse.csr_array(X.shape), ones]).tocsr()
    return Information(compressed(flattened(beside, of_score) + flattened(alone, of_tie - both * slope)))


# Ratings


def ratings_of(
    contest: Contest, pairs: Pairs, ties: TiesName, reference: str | None, scale: ScaleName, about: About
) -> Estimate:
    """The ratings, covariates and tie parameter on a scale: contrasts of the coefficients of the fit.

    `reference` is the model whose rating is zero; None centres the ratings. One Newton step stands for leaving a
    cluster out: the linearised jackknife of MacKinnon, Nielsen and Webb (2024), arXiv:2406.00650.
    """
    check_design(contest)
    fit = fit_half(contest) if ties == "half" else fit_davidson(contest)
    K, J, p = len(contest.models), len(contest.terms), fit.coefficients.size
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
        params=contrasts @ fit.coefficients,
        scores=fit.scores,
        bread=fit.inverse @ contrasts.T,
        kind="likelihood",
        coefficient_map=contrasts,
        refit=Refit(fit.inverse, linear=False, step=True, ratings=Ratings(contest.models, reference, units)),
        dropped=pairs.dropped,
        about=about,
    )


@chooses_rows
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
    subset: str | None = None,
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
    option("ties", ties, TIES)
    option("scale", scale, SCALES)
    sides = None if formula is None else parse_sides(formula)
    roles = PairRoles(left, right, score, winner, labels, as_names(key), None, weights, missing, sides)
    needs_rows = "`formula`" if formula is not None else '`ties="davidson"`' if ties == "davidson" else None
    pairs = gather_pairs(data, roles, groups, needs_rows)
    if reference is not None:
        reference = str(reference)
        if reference not in pairs.models:
            hint = nearest(reference, pairs.models) or f" The models are {listed(pairs.models)}."
            raise MissingColumnError(f"`reference` must be one of the models; got {reference!r}.{hint}")
    check_connected(pairs.first, pairs.second, pairs.mean, pairs.models)
    contest = contest_of(pairs)
    lines = (*pairs.lines, *_lines(contest, ties, reference, scale))
    about = About(
        "Bradley-Terry", score or winner or "", formula or "", lines=lines, n_models=len(pairs.models), one_board=True
    )
    estimate = ratings_of(contest, pairs, ties, reference, scale, about)
    return board_of(estimate, pairs, asked, groups)


def _lines(contest: Contest, ties: TiesName, reference: str | None, scale: ScaleName) -> list[str]:
    """Identification, scale, ties and covariates, in words."""
    where = "sum to zero" if reference is None else f"are relative to {reference}, which is 0"
    units = "log-odds" if scale == "logit" else "Elo points, 400/ln(10) times log-odds"
    lines = [f"Ratings in {units}; they {where}."]
    lines.append("A tie is half a win for either side." if ties == "half" else "Ties by Davidson's model.")
    if contest.terms:
        lines.append(f"Covariates are differences left minus right: {', '.join(contest.terms)}.")
    return lines


# Win rates at zero difference of the sides


def averages_at_zero(contest: Contest, fit: Fit, pairs: Pairs, about: About) -> Estimate:
    """Average over each model's comparisons of its predicted score against that opponent, all else equal.

    With p_r the prediction at zero difference and J the derivative of the average, a row's influence is (p_r -
    theta)/n_a + J'H^-1 score_r: the comparisons that a model happened to have vary, and so do the coefficients.
    """
    K, p = len(contest.models), fit.coefficients.size
    strength = np.append(0.0, fit.coefficients[: K - 1])
    chance = scipy.special.expit(strength[contest.first] - strength[contest.second])
    means = ModelMeans.of(contest.first, contest.second, chance, contest.weight, K)
    # d p_r / d strengths is p (1 - p) times the row's design, with the other sign for the second model.
    slope = scale_rows(means.side, contest.weight * chance * (1 - chance))
    J = np.zeros((K, p))
    J[:, : K - 1] = dense(means.side.T @ slope)[:, 1:] / means.weight[:, None]
    inverse = scipy.linalg.block_diag(fit.inverse, np.diag(1.0 / means.weight))
    coefficient_map = np.hstack([J, np.eye(K)])
    return Estimate(
        names=contest.models,
        params=means.params,
        scores=_beside(fit.scores, means.beyond, means.counted),
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


@chooses_rows
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
    sides = parse_sides(formula)
    roles = PairRoles(left, right, score, winner, labels, as_names(key), None, weights, missing, sides)
    pairs = gather_pairs(data, roles, groups, "`formula`")
    check_connected(pairs.first, pairs.second, pairs.mean, pairs.models)
    contest = contest_of(pairs)
    check_design(contest)
    fit = fit_half(contest)
    terms = contest.units @ fit.coefficients[contest.n_strengths :]
    each = ", ".join(f"{name} {value:.4g}" for name, value in zip(contest.terms, terms, strict=True))
    said = f"Average predictions at zero difference of the two sides in {', '.join(contest.terms)} (log-odds: {each})."
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
    return board_of(averages_at_zero(contest, fit, pairs, about), pairs, asked, groups)
