"""Fits of a Bradley-Terry model: ties as half a win, or with a probability of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy

from evalreg.checks import FloatArray
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.errors import ArgumentError, ScoreRangeError
from evalreg.estimators.contest import Contest
from evalreg.estimators.outcomes import Davidson, Logistic, davidson, tied_moments
from evalreg.estimators.reweighted import Reweighted
from evalreg.estimators.strength import logistic
from evalreg.numerics.newton import newton
from evalreg.scores.cells import CellScores
from evalreg.scores.mapped import Information, MappedScores, squared
from evalreg.scores.summed import beside_ties
from evalreg.scores.sums import cell_sums

# Name of Davidson's parameter, log nu: 0 where equals tie as often as either wins.
TIE = "log_tie"


@dataclass(frozen=True, eq=False)
class Fit:
    """Coefficients with what their scores need."""

    # (p,): strengths less that of the first model, covariates, and the tie parameter where there is one
    coefficients: FloatArray
    inverse: FloatArray  # (p, p): H^-1
    scores: MappedScores  # of the rows
    again: Reweighted  # solves for the coefficients under other weights


def fit_half(contest: Contest) -> Fit:
    """The logistic fit in which a tie is half a win for either side: no variance of ties is assumed."""
    beta, inverse = newton(logistic(contest.design, contest.weight, contest.mean), contest.design.shape[1])
    p = scipy.special.expit(contest.design @ beta)
    inner = replace(contest.scores, fitted=p)
    again = Reweighted(Logistic(contest.design), beta, contest.weight, contest.mean - p)
    scores = MappedScores(inner, contest.design, information=squared(contest.design, p * (1 - p)))
    return Fit(beta, inverse, scores, again)


def fit_davidson(contest: Contest) -> Fit:
    """The fit to scores of 0, 1/2 and 1 in which ties have a probability of their own; log nu comes last."""
    rows = contest.scores
    assert isinstance(rows, CellScores)
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
            f'`ties="davidson"` needs wins to learn of; all {rows.n_rows} verdicts are ties, so that no finite "{TIE}" '
            'is the best. Check how verdicts were read, or use ties="half".',
            count=rows.n_rows,
        )
    if not tie.any():
        raise ArgumentError('`ties="davidson"` needs ties to learn of; there is none. Use ties="half".')
    sums = cell_sums(tie, rows.cell, contest.weight.size, rows.weights)
    design, share = contest.design, sums.total / sums.weight
    beta, inverse = newton(davidson(design, contest.weight, contest.mean, share), design.shape[1] + 1)
    moments = tied_moments(design @ beta[:-1], beta[-1])
    stacked = beside_ties(replace(rows, fitted=moments.score), tie, moments.tie)
    outcomes = Davidson(design)
    residual = np.concatenate([contest.mean - moments.score, share - moments.tie])
    again = Reweighted(outcomes, beta, np.tile(contest.weight, 2), residual)
    scores = MappedScores(stacked, outcomes.design, information=Information(outcomes.flat(beta)))
    return Fit(beta, inverse, scores, again)
