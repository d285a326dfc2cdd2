"""HC0 to HC3: the covariance of independent rows whose errors differ in variance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evalreg.checks import FloatArray, listed
from evalreg.covariance.corrections import adjust_cell_totals, power_scale
from evalreg.covariance.dof import WelchDof
from evalreg.covariance.one_way import one_term
from evalreg.covariance.options import ResolvedCov
from evalreg.covariance.terms import Term
from evalreg.errors import NotAvailableError
from evalreg.estimate import Estimate
from evalreg.numerics.matrices import compressed, dense, scale_columns, scale_rows, square, sum_blocks
from evalreg.scores.base import EVERY_ROW, with_every_row
from evalreg.scores.engine import EngineScores
from evalreg.scores.engine_moments import EngineMoments
from evalreg.scores.lazy import LazyScores
from evalreg.scores.mapped import MappedScores


def term_of_rows(estimate: Estimate, options: ResolvedCov, naive: Term) -> Term:
    """HC0 to HC3: CR0 to CR3 with every row its own cluster. HC1 is the naive one, and HC3 has no (n-1)/n.

    MacKinnon and White (1985), J. Econometrics 29, eq. 8, 10, 12 and 13 in its first form. Degrees of freedom are those
    of the naive covariance.
    """
    if options.kind.row_factor or options.kind.needs_clusters:
        return naive
    power = options.kind.power
    if power and estimate.refit is None:
        raise NotAvailableError(
            f'`cov="{options.cov}"` needs the leverages of the rows, and so the design of the model, which this '
            'estimate does not have. Available are cov "HC0" and "HC1".'
        )
    of_cells = not power or (estimate.refit is not None and estimate.refit.inverse_gram.ndim == 1)
    if power and not estimate.scores.of_means and isinstance(estimate.scores, EngineScores):
        raise NotAvailableError(
            f'`cov="{options.cov}"` of a ratio needs the leverage of each row, its share of the denominators, which '
            "needs the rows in memory: take the log itself, its columns collected first where an engine holds it, or "
            'use cov "HC0" or "HC1".'
        )
    if estimate.kind == "mean" and estimate.cells is not None and of_cells:
        return _of_means(estimate, power, naive)
    if not power:
        matrix = estimate.scores.meat(None, estimate.bread)
    elif isinstance(estimate.scores, EngineMoments):
        matrix = estimate.scores.scaled_meat(power, estimate.bread)
    else:
        assert estimate.refit is not None
        leverage = estimate.refit.inverse_gram
        h = estimate.scores.row_leverages(leverage) if leverage.ndim == 2 else None
        if h is None:
            _refuse_absorbed(estimate)
            _refuse_comparisons(estimate, options)
            own = replace(estimate, scores=with_every_row(estimate.scores))
            found = one_term(own, (EVERY_ROW,), (0,), replace(options, dof="min"), naive.matrix)
            return replace(naive, matrix=found.matrix, lost=naive.lost | found.lost)
        if estimate.absorbed is not None:
            h = h + estimate.absorbed.row_leverages()
        matrix = _of_scaled_rows(estimate, power_scale(h, power))
    none = np.diag(naive.matrix) == 0
    matrix[none, :] = matrix[:, none] = 0.0
    return replace(naive, matrix=matrix)


def _refuse_comparisons(estimate: Estimate, options: ResolvedCov) -> None:
    """Raise for boards of rows in an engine."""
    scores = estimate.scores.inner if isinstance(estimate.scores, MappedScores) else estimate.scores
    if not isinstance(scores, LazyScores):
        return
    columns = [*(scores.made_of or scores.cell_columns), *([] if scores.weight is None else [scores.weight])]
    raise NotAvailableError(
        f'`cov="{options.cov}"` of comparisons needs the leverage of each of them, and these stay in an engine: select '
        f"the columns {listed(columns)} and those of the verdicts, and collect the frame first. Clusters, and cov "
        '"HC0" and "HC1", need no leverages.'
    )


def _refuse_absorbed(estimate: Estimate) -> None:
    if estimate.absorbed is not None:
        raise NotAvailableError('the leverages of the rows are no longer held; use cov "HC0" or "HC1".')


def _of_scaled_rows(estimate: Estimate, scale: FloatArray) -> FloatArray:
    """Sum of squares of the influence of rows, each times its scale."""
    influence = estimate.scores.row_influence(estimate.bread) * scale[:, None]
    return np.asarray(influence.T @ influence)


def _of_means(estimate: Estimate, power: float, naive: Term) -> Term:
    """Of means: the leverage of a row is its share in the weight of its cell."""
    cells = estimate.cells
    assert cells is not None
    in_engine = isinstance(estimate.scores, LazyScores | EngineScores)
    if isinstance(estimate.scores, EngineScores) and estimate.scores.weighted and power:
        assert estimate.refit is not None
        squares = estimate.scores.scaled_squares(estimate.refit.inverse_gram, power)
        scaled = scale_rows(estimate.bread, np.sqrt(squares))
        matrix, variance = dense(scaled.T @ scaled), squares / cells.weight**2
    elif not power or in_engine:
        # Without weights every row of a cell has leverage 1/n.
        scale = (1 - 1 / np.maximum(cells.count, 2)) ** -power
        matrix = estimate.scores.meat(None, scale_rows(estimate.bread, scale))
        variance = cells.squares / cells.weight**2 * scale**2
    else:
        assert estimate.refit is not None
        parts, variance = [], np.zeros(cells.count.size)
        for block in with_every_row(estimate.scores).cells(EVERY_ROW):
            share = scale_columns(block.gram, estimate.refit.inverse_gram)
            totals = adjust_cell_totals(block.totals, share, power)
            parts.append(square(totals, estimate.bread))
            variance += np.asarray(compressed(totals).power(2).sum(axis=0)).ravel() * estimate.refit.inverse_gram**2
        matrix = sum_blocks(iter(parts))
    return replace(naive, matrix=matrix, leverage=WelchDof(variance, cells.count))
