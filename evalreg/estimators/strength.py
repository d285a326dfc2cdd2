"""Strengths of models from their comparisons: the fit of logit P(a beats b) = theta_a - theta_b, and what it needs."""

from __future__ import annotations

import numpy as np
import scipy
from scipy import sparse

from evalreg.checks import FloatArray, IntArray, listed
from evalreg.errors import DisconnectedError
from evalreg.numerics.graphs import reachable, strong_components
from evalreg.numerics.matrices import Matrix, compressed, in_rows, transposed, weighted_gram
from evalreg.numerics.newton import Evaluate

# A prior of this precision on every strength keeps a fit finite, whatever the log.
RIDGE = 0.25
# Entries of matrices of clusters solved for at a time.
SOLVES_PER_BLOCK = 1 << 22


def incidence(first: IntArray, second: IntArray, n_models: int) -> Matrix:
    """Design of pairs: one for the first model, minus one for the second, shape (n_cells, n_models)."""
    n_cells = first.size
    data = np.tile([1.0, -1.0], n_cells)
    columns = np.column_stack([first, second]).ravel()
    return in_rows(data, columns, np.arange(0, 2 * n_cells + 1, 2), (n_cells, n_models))


def logistic(design: Matrix, weight: FloatArray, mean: FloatArray, ridge: float = 0.0) -> Evaluate:
    """The quasi-likelihood of scores in [0, 1] whose mean is expit(x b), for `newton`; x is the design of each cell.

    `ridge` is the precision of a normal prior about zero on every coefficient.
    """
    p, rows = design.shape[1], transposed(compressed(design)) if sparse.issparse(design) else design.T

    def evaluate(beta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        index = design @ beta
        fitted, rest = scipy.special.expit(index), scipy.special.expit(-index)
        value = float(weight @ (mean * index - np.logaddexp(0.0, index))) - ridge / 2 * float(beta @ beta)
        # One minus a probability near one would have no digits left.
        gradient = rows @ (weight * (mean * rest - (1 - mean) * fitted)) - ridge * beta
        return value, gradient, weighted_gram(rows, design, weight * fitted * rest) + ridge * np.eye(p)

    return evaluate


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
