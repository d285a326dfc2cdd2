"""Comparisons with the design of a Bradley-Terry model: strengths of models, and what differs between two sides."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.errors import CollinearityError, ConvergenceError
from evalreg.estimators.pairs import Pairs
from evalreg.estimators.strength import incidence
from evalreg.numerics.basis import basis_of
from evalreg.numerics.collinearity import refuse_singular
from evalreg.numerics.matrices import Matrix, compressed, transposed, weighted_gram
from evalreg.scores.cells import CellScores
from evalreg.scores.lazy import LazyScores
from evalreg.scores.sums import cell_sums


@dataclass(frozen=True, eq=False)
class Contest:
    """Comparisons in cells that share a design: logit P = theta_first - theta_second + z'gamma."""

    models: tuple[str, ...]  # names
    terms: tuple[str, ...]  # names of the covariates, z
    # (n_cells, n_models - 1 + n_terms): strengths less that of the first model, then combinations of z that are
    # scaled and do not overlap
    design: Matrix
    scores: CellScores | LazyScores  # rows in these cells, as scores of the cell's first model
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
        X = incidence(pairs.first, pairs.second, len(pairs.models))[:, 1:].tocsr()
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
    X = incidence(left, right, len(pairs.models))[:, 1:]
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
