"""What else moves a verdict: position bias by judge, and shares of variance by prompt, judge and model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.boards.judged import JudgedRows, adjusted_tests, cell_errors, prompt_scores
from evalreg.checks import FloatArray, IntArray
from evalreg.covariance.options import ResolvedCov
from evalreg.errors import NotAvailableError
from evalreg.numerics.limits import EQUAL, FULL_LEVERAGE, ROUNDING
from evalreg.numerics.matrices import Matrix, difference_rows
from evalreg.numerics.moments import moment_equations, solve_components
from evalreg.scores.base import cell_sums


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
    # (prompt, pair) that a judge saw in both orders, and the share of them whose mean verdict was the same.
    unit, judge, number = rows.by_judge(rows.unit)
    orders = [rows.side > 0, rows.side < 0]
    seen = [np.bincount(number[order], minlength=unit.size) > 0 for order in orders]
    ahead = [rows.ahead(number, unit.size, order) for order in orders]
    both = seen[0] & seen[1]
    n_both = np.bincount(judge[both], minlength=n_judges)
    same = np.bincount(judge[both & (ahead[0] == ahead[1])], minlength=n_judges)
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
        "balanced": np.bincount(keys // rows.n_pairs, np.abs(net), n_judges) < EQUAL,
        "n_both": n_both,
        "consistent": np.where(n_both > 0, same / np.maximum(n_both, 1), np.nan),
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
    use = np.flatnonzero(np.abs(x) > EQUAL)
    contrast = np.full((3, n_judges), np.nan)
    n_contrast = np.bincount(rows.judge[use], minlength=n_judges)
    if not use.size:
        return *contrast, n_contrast
    x, s, w, judge = x[use], s[use], weights[use], rows.judge[use]
    present, number = np.unique(judge, return_inverse=True)
    sums = cell_sums(s / x, number, present.size, w * x**2)
    bias = sums.total / sums.weight
    prompt = rows.prompt.codes[use]
    residual = _adjusted(s - bias[number] * x, w, prompt, cell[use], total.astype(float), options.kind.power)
    scores = prompt_scores(bias[number] + residual / x, bias, number, prompt, w * x**2)
    se, dof = cell_errors(scores, sums, options)
    pairs = np.unique(cell[use], return_index=True)[1]
    left_over = np.bincount(number) - np.bincount(number[pairs], minlength=present.size) - 1.0
    se = np.where((left_over > 0) & (se > EQUAL), se, np.nan)
    dof = np.minimum(dof, left_over) if options.dof == "satterthwaite" else dof
    contrast[:, present] = bias, se, np.where(np.isnan(se), np.nan, dof)
    return *contrast, n_contrast


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


PROMPT, JUDGE, PROMPT_JUDGE = "prompt", "judge", "prompt x judge"
MODEL_PROMPT, MODEL_JUDGE, MODEL_BOTH = "model x prompt", "model x judge", "model x prompt x judge"
PAIR_PROMPT, PAIR_JUDGE, PAIR_BOTH, RESIDUAL = "pair x prompt", "pair x judge", "pair x prompt x judge", "residual"
POSITION = (PROMPT, JUDGE, PROMPT_JUDGE)
# Below this share of repeats, what is special to a (pair, prompt, judge) is left in the residual.
ENOUGH_REPEATS = 0.25
# Variance of the side within pairs, 1 where orders are balanced, below which position is not told from models; and the
# share of (prompt, pair) that judges saw in several orders, below which the order is the prompt's.
ENOUGH_ORDERS = 0.1


@dataclass(frozen=True, eq=False)
class Component:
    """A random effect of a comparison, such as "model x prompt"."""

    name: str
    # Z: what each of its levels adds to a score of the first model, (n_rows, n_levels).
    design: Matrix
    # How many of its effects enter one comparison: 2 for those of models.
    multiple: float

    @property
    def n_levels(self) -> int:
        """Levels that occur."""
        return int(np.count_nonzero(np.bincount(self.design.indices)))


def components_of(rows: JudgedRows) -> list[Component]:
    """The random effects of a log of comparisons, without the residual.

    Those of position only where pairs were seen in both orders; those of a pair under one prompt and judge only where
    at least a quarter of the rows repeat another, as where judges see both orders.
    """
    prompt, judge = rows.prompt.codes, rows.judge
    n_judges, n_models = len(rows.judges), len(rows.models)
    both = prompt * n_judges + judge
    components = []
    if np.mean(_within_pairs(rows, rows.side) ** 2) >= ENOUGH_ORDERS:
        components += [
            Component(PROMPT, _one_hot(prompt, rows.side), 1.0),
            Component(JUDGE, _one_hot(judge, rows.side), 1.0),
            Component(PROMPT_JUDGE, _one_hot(both, rows.side), 1.0),
        ]
    for name, group in ((MODEL_PROMPT, prompt), (MODEL_JUDGE, judge), (MODEL_BOTH, both)):
        components.append(Component(name, _differences(group, rows, n_models), 2.0))
    for name, group in ((PAIR_PROMPT, prompt), (PAIR_JUDGE, judge)):
        components.append(Component(name, _one_hot(group * rows.n_pairs + rows.pair, np.ones(rows.n_rows)), 1.0))
    repeated = Component(PAIR_BOTH, _one_hot(both * rows.n_pairs + rows.pair, np.ones(rows.n_rows)), 1.0)
    if rows.n_rows - repeated.n_levels >= ENOUGH_REPEATS * rows.n_rows:
        components.append(repeated)
    return components


def _within_pairs(rows: JudgedRows, values: FloatArray) -> FloatArray:
    """Deviations from the mean of each pair, exactly zero where it does not vary."""
    count = np.bincount(rows.pair)
    deviation = values - (np.bincount(rows.pair, values) / count)[rows.pair]
    return np.where(np.abs(deviation) < ROUNDING, 0.0, deviation)


def _one_hot(keys: IntArray, values: FloatArray) -> Matrix:
    levels, names = pd.factorize(keys)
    return sparse.csr_array((values, levels, np.arange(keys.size + 1)), shape=(keys.size, len(names)))


def _differences(group: IntArray, rows: JudgedRows, n_models: int) -> Matrix:
    """The effect of the first model minus that of the second, each by group."""
    sides = np.column_stack([rows.first[rows.pair], rows.second[rows.pair]])
    levels, names = pd.factorize((group[:, None] * n_models + sides).ravel())
    design = difference_rows(levels[::2], levels[1::2], len(names))
    design.sort_indices()
    return design


def fixed_effects(rows: JudgedRows) -> Matrix:
    """Orthonormal columns Q that span the pairs' means and, where orders vary, a common position effect."""
    count = np.bincount(rows.pair).astype(float)
    pairs = sparse.csr_array(
        (1.0 / np.sqrt(count)[rows.pair], rows.pair, np.arange(rows.n_rows + 1)), shape=(rows.n_rows, rows.n_pairs)
    )
    x = _within_pairs(rows, rows.side)
    if not x.any():
        return pairs
    return sparse.hstack([pairs, sparse.csr_array((x / np.linalg.norm(x))[:, None])]).tocsr()


def variance_table(rows: JudgedRows) -> pd.DataFrame:
    """Shares of the variance of one comparison around the mean score of its pair: `Judging.variance`.

    The model is s = psi_ab + (u_ap - u_bp) + (v_aj - v_bj) + (w_apj - w_bpj) + t_abp + t_abj + t_abpj + x (c + c_p +
    c_j + c_pj) + e, x = 1 where the first model is on the left and -1 on the right, all effects but psi and c random
    with mean zero. What a prompt or a judge adds to all models alike cancels out of a comparison; what is left of their
    main effects is c_p, c_j and c_pj, by how much the left side is favoured there. Components are covariances of
    comparisons that share something and nothing else, which can be negative in truth too: t_abpj is, where a judge's
    verdict turns with the order.

    Estimates are unbiased, so that small ones may be negative; they are not cut. Components that the log cannot tell
    from each other are one row, named by all of them; those that cannot be seen are NaN. Sampling weights are not used.
    Brennan (2001), Generalizability Theory, chapters 3 and 7; Rao (1972), JASA 67, 112-115.
    """
    components = components_of(rows)
    designs = [component.design for component in components]
    variances, sets = solve_components(*moment_equations(rows.values, fixed_effects(rows), designs))
    names = [*(component.name for component in components), RESIDUAL]
    multiples = np.array([*(component.multiple for component in components), 1.0])
    levels = [*(component.n_levels for component in components), rows.n_rows]
    total = float(multiples @ variances)
    table = {}
    for members in sets:
        added = float(multiples[members] @ variances[members])
        alone = len(members) == 1
        sd = np.sqrt(variances[members[0]]) if alone and variances[members[0]] >= 0 else np.nan
        share = added / total if total > 0 else np.nan
        table[" + ".join(names[i] for i in members)] = (added, share, sd, min(levels[i] for i in members))
    for name in POSITION:
        if name not in names:
            table[name] = (np.nan, np.nan, np.nan, 0)
    frame = pd.DataFrame.from_dict(table, orient="index", columns=["variance", "share", "effect_sd", "levels"])
    ranked = {name: place for place, name in enumerate([*POSITION, *names])}
    frame = frame.loc[sorted(frame.index, key=lambda name: ranked[name.split(" + ")[0]])]
    frame.index.name = "component"
    return frame


def board_variances(rows: JudgedRows, table: pd.DataFrame) -> tuple[dict[str, float], tuple[str, ...]]:
    """Variances as `plan.board` takes them, of win rates over all opponents, and components that were negative.

    With K models the difference of two win rates is K/(K - 1) (u_a - u_b) for an effect u of models, and has the
    variance 2K/(K - 1)^2 for one of pairs with variance 1. Where a prompt shows a pair in one order to all judges, by
    how much it favours a side is an effect of pair and prompt; otherwise the orders average out as single ratings do.
    """
    K = len(rows.models)
    of_models, of_pairs = K**2 / (2.0 * (K - 1) ** 2), K / (K - 1.0) ** 2
    counts = np.bincount(rows.unit.codes)
    one_order = np.abs(np.bincount(rows.unit.codes, rows.side)) == counts
    fixed = bool(np.mean(one_order[counts > 1]) > 1 - ENOUGH_ORDERS) if np.any(counts > 1) else True
    roles = {MODEL_PROMPT: "model_prompt", PAIR_PROMPT: "model_prompt", MODEL_JUDGE: "model_judge"}
    roles |= {PAIR_JUDGE: "model_judge", PROMPT: "model_prompt" if fixed else "residual"}
    variances, negative = {"model_prompt": 0.0, "model_judge": 0.0, "residual": 0.0}, []
    for label, added in table["variance"].dropna().items():
        names = str(label).split(" + ")
        held = sorted({roles.get(name, "residual") for name in names})
        if len(held) > 1:
            raise NotAvailableError(
                f"the log cannot tell {' from '.join(names)}, and a plan needs each by itself. Add comparisons of the "
                "same pairs by other judges, or on other prompts."
            )
        factor = of_models if any(name.startswith("model ") for name in names) else of_pairs
        variances[held[0]] += factor * max(float(added), 0.0)
        negative += [str(label)] if added < 0 and not set(names) <= set(POSITION) else []
    return variances, tuple(negative)
