"""Bradley-Terry ratings from a log of comparisons, with ties, position and covariates of the two sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evalreg.boards.board import Board, board_of
from evalreg.checks import (
    MISSING,
    SCALES,
    TIES,
    CovName,
    DofName,
    FloatArray,
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
from evalreg.data.clusters import Groups
from evalreg.data.formula import parse_sides
from evalreg.data.pairs import PairRoles, as_names
from evalreg.errors import MissingColumnError
from evalreg.estimate import About, Estimate, Ratings, Refit
from evalreg.estimators.pairs import Pairs, design_lines, duels_of, gather_pairs, independence_notes
from evalreg.estimators.ratings import (
    TIE,
    Contest,
    Fit,
    check_connected,
    check_design,
    contest_of,
    fit_davidson,
    fit_half,
)
from evalreg.estimators.subsets import chooses_rows

ELO = 400.0 / np.log(10.0)


def solve(contest: Contest, ties: TiesName, reference: str | None, scale: ScaleName) -> tuple[Fit, FloatArray]:
    """Coefficients, and the map from them to the ratings and covariates on the scale asked for, shape (n_params, p).

    `reference` is the model whose rating is zero; None centres the ratings.
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
    """The estimate of contrasts of the coefficients, shape (n_params, p).

    One Newton step stands for leaving a cluster out: the linearised jackknife of MacKinnon, Nielsen and Webb (2024),
    arXiv:2406.00650. `reference` is as in `solve`.
    """
    K, J, units = len(contest.models), len(contest.terms), np.ones(len(names))
    units[: K + J] = np.ptp(contrasts[:K, 0])
    # Of what differs between sides, for a difference of usual size, whatever it is measured in.
    units[K : K + J] /= np.sqrt(contest.weight @ contest.sides**2 / contest.weight.sum())
    return Estimate(
        names=names,
        params=contrasts @ fit.coefficients,
        scores=fit.scores,
        bread=fit.inverse @ contrasts.T,
        kind="likelihood",
        coefficient_map=contrasts,
        refit=Refit(fit.inverse, linear=False, step=True, ratings=Ratings(contest.models, reference, units)),
        dropped=pairs.dropped,
    )


@chooses_rows()
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
    option("missing", missing, MISSING)
    option("ties", ties, TIES)
    option("scale", scale, SCALES)
    sides = None if formula is None else parse_sides(formula)
    roles = PairRoles(left, right, score, winner, labels, as_names(key), None, weights, missing, sides)
    needs_rows = "`formula`" if formula is not None else '`ties="davidson"`' if ties == "davidson" else None
    pairs = gather_pairs(data, roles, groups, needs_rows)
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
