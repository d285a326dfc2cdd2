"""Position bias by judge: what being shown on the left is worth."""

from __future__ import annotations

import numpy as np
import pandas as pd

from evalreg.boards.judge_rows import JudgedRows, adjusted_tests, cell_errors
from evalreg.checks import FloatArray, IntArray
from evalreg.covariance.adjust import FULL_LEVERAGE
from evalreg.covariance.options import ResolvedCov
from evalreg.scores.sums import cell_sums

# An error below this is rounding: the contrasts do not vary.
NO_ERROR = 1e-9


def position_table(rows: JudgedRows, options: ResolvedCov, min_rows: int, alpha: float) -> pd.DataFrame:
    """Position bias of each judge, from pairs that the judge saw in both orders: `Judging.position`.

    A judge needs `min_rows` rows of such pairs; `alpha` is family-wise over judges, by Holm.
    """
    weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    n_judges = len(rows.judges)
    keys, cell = np.unique(rows.judge * np.int64(rows.n_pairs) + rows.pair, return_inverse=True)
    net = np.bincount(cell, weights * rows.side)
    bias, se, dof, n_contrast = order_contrast(rows, cell, weights, options)
    left = np.where(rows.side > 0, rows.values, 1.0 - rows.values)
    bias, se, dof = (np.where(n_contrast >= min_rows, column, np.nan) for column in (bias, se, dof))
    p, adjusted, stands = adjusted_tests(bias, (se, dof), alpha)
    n_both, consistent = _consistency(rows)
    columns = {
        "left": np.bincount(rows.judge, weights * left) / np.bincount(rows.judge, weights) - 0.5,
        "bias": bias,
        "se": se,
        "dof": dof,
        "p_value": p,
        "p_adjusted": adjusted,
        "stands": stands,
        "n": np.bincount(rows.judge),
        "n_contrast": n_contrast,
        "balanced": np.bincount(keys // rows.n_pairs, np.abs(net), n_judges) < 1e-9,
        "n_both": n_both.astype(int),
        "consistent": consistent,
    }
    return pd.DataFrame(columns, index=pd.Index(rows.judges, name="judge"))


def order_contrast(
    rows: JudgedRows, cell: IntArray, weights: FloatArray, options: ResolvedCov
) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
    """What the left side gains, by least squares within each judge's pairs.

    The model is s = psi_ab + bias x by judge, x = 1 where the first model of the pair is on the left and -1 where it is
    on the right. By the theorem of Frisch, Waugh and Lovell its bias is the weighted mean of (s - mean s)/(x - mean x),
    means within pairs, with weights (x - mean x)^2, and its residuals are those of that mean. The leverages of the
    pairs' means act on the mean residual of each (prompt, pair), those of x on the total of a prompt; the two are
    applied one after the other, which is exact where they do not overlap within a prompt.

    `cell` is the (judge, pair) of each row. Returns bias, se, dof and rows of pairs seen in both orders, by judge: NaN
    for judges who saw none, and no more degrees of freedom than rows less pairs less one. Lovell (1963), Journal of the
    American Statistical Association 58, 993-1010; Bell and McCaffrey (2002), Survey Methodology 28, 169-181.
    """
    n_judges = len(rows.judges)
    total = np.bincount(cell, weights)
    x = rows.side - (np.bincount(cell, weights * rows.side) / total)[cell]
    s = rows.values - (np.bincount(cell, weights * rows.values) / total)[cell]
    use = np.flatnonzero(np.abs(x) > 1e-9)
    found = [np.full(n_judges, np.nan) for _ in range(3)]
    n_contrast = np.bincount(rows.judge[use], minlength=n_judges)
    if not use.size:
        return found[0], found[1], found[2], n_contrast
    x, s, w, judge = x[use], s[use], weights[use], rows.judge[use]
    present, number = np.unique(judge, return_inverse=True)
    sums = cell_sums(s / x, number, present.size, w * x**2)
    bias = sums.total / sums.weight
    prompt = rows.prompt.codes[use]
    residual = _adjusted(s - bias[number] * x, w, prompt, cell[use], total.astype(float), options.kind.power)
    se, dof = cell_errors(bias[number] + residual / x, bias, sums, number, prompt, options, w * x**2)
    pairs = np.unique(cell[use], return_index=True)[1]
    left_over = np.bincount(number) - np.bincount(number[pairs], minlength=present.size) - 1.0
    se = np.where((left_over > 0) & (se > NO_ERROR), se, np.nan)
    dof = np.minimum(dof, left_over) if options.dof == "satterthwaite" else dof
    for column, values in zip(found, (bias, se, np.where(np.isnan(se), np.nan, dof)), strict=True):
        column[present] = values
    return found[0], found[1], found[2], n_contrast


def _adjusted(
    residual: FloatArray, weights: FloatArray, prompt: IntArray, cell: IntArray, total: FloatArray, power: float
) -> FloatArray:
    """Residuals with the mean of each (prompt, cell) divided by (1 - h)^power, h its share of the cell."""
    keys, block = np.unique(prompt * np.int64(total.size) + cell, return_inverse=True)
    weight = np.bincount(block, weights)
    rest = 1.0 - weight / total[keys % total.size]
    # A pair seen under one prompt has a mean residual of zero there, which stays.
    factor = np.where(rest > FULL_LEVERAGE, np.maximum(rest, FULL_LEVERAGE) ** -power, 1.0) - 1.0
    return np.asarray(residual + (factor * np.bincount(block, weights * residual) / weight)[block])


def _consistency(rows: JudgedRows) -> tuple[FloatArray, FloatArray]:
    """(prompt, pair) that a judge saw in both orders, and the share of them whose mean verdict was the same."""
    unit, n_judges = rows.unit, len(rows.judges)
    keys, number = np.unique(unit.codes * np.int64(n_judges) + rows.judge, return_inverse=True)
    verdicts, counts = [], []
    for side in (1.0, -1.0):
        where = rows.side == side
        counts.append(np.bincount(number[where], minlength=keys.size))
        above = np.bincount(number[where], rows.values[where] - 0.5, keys.size)
        verdicts.append(np.sign(np.where(np.abs(above) > 1e-9, above, 0.0)))
    both = (counts[0] > 0) & (counts[1] > 0)
    judge = (keys % n_judges)[both]
    n_both = np.bincount(judge, minlength=n_judges).astype(float)
    same = np.bincount(judge, (verdicts[0] == verdicts[1])[both].astype(float), n_judges)
    return n_both, np.where(n_both > 0, same / np.maximum(n_both, 1.0), np.nan)
