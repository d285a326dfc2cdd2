"""Shares of the variance of a comparison: prompt, judge, model x prompt, model x judge, interactions, the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.boards.judge_rows import JudgedRows
from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.numerics.matrices import Matrix

# Components whose expected products lie this near to a combination of the others' are one to the log.
ALIASED = 1e-7
# Entries of the (pair, pair) products that are held at a time.
BLOCK_ENTRIES = 1 << 20

PROMPT, JUDGE, PROMPT_JUDGE = "prompt", "judge", "prompt x judge"
MODEL_PROMPT, MODEL_JUDGE, MODEL_BOTH = "model x prompt", "model x judge", "model x prompt x judge"
PAIR_PROMPT, PAIR_JUDGE, PAIR_BOTH, RESIDUAL = "pair x prompt", "pair x judge", "pair x prompt x judge", "residual"
POSITION = (PROMPT, JUDGE, PROMPT_JUDGE)
# Below this share of repeats, what is special to a (pair, prompt, judge) is left in the residual.
ENOUGH_REPEATS = 0.25
# Variance of the side within pairs, 1 where orders are balanced, below which position is not told from models.
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
    found = []
    if np.mean(_within_pairs(rows, rows.side) ** 2) >= ENOUGH_ORDERS:
        found += [
            Component(PROMPT, _one_hot(prompt, rows.side), 1.0),
            Component(JUDGE, _one_hot(judge, rows.side), 1.0),
            Component(PROMPT_JUDGE, _one_hot(both, rows.side), 1.0),
        ]
    for name, group in ((MODEL_PROMPT, prompt), (MODEL_JUDGE, judge), (MODEL_BOTH, both)):
        found.append(Component(name, _differences(group, rows, n_models), 2.0))
    for name, group in ((PAIR_PROMPT, prompt), (PAIR_JUDGE, judge)):
        found.append(Component(name, _one_hot(group * rows.n_pairs + rows.pair, np.ones(rows.n_rows)), 1.0))
    repeated = Component(PAIR_BOTH, _one_hot(both * rows.n_pairs + rows.pair, np.ones(rows.n_rows)), 1.0)
    if rows.n_rows - repeated.n_levels >= ENOUGH_REPEATS * rows.n_rows:
        found.append(repeated)
    return found


def _within_pairs(rows: JudgedRows, values: FloatArray) -> FloatArray:
    """Deviations from the mean of each pair, exactly zero where it does not vary."""
    count = np.bincount(rows.pair)
    deviation = values - (np.bincount(rows.pair, values) / count)[rows.pair]
    return np.where(np.abs(deviation) < 1e-12, 0.0, deviation)


def _levels(keys: IntArray) -> tuple[IntArray, int]:
    levels, names = pd.factorize(keys)
    return levels.astype(np.intp), len(names)


def _one_hot(keys: IntArray, values: FloatArray) -> Matrix:
    levels, n_levels = _levels(keys)
    return sparse.csr_array((values, levels, np.arange(keys.size + 1)), shape=(keys.size, n_levels))


def _differences(group: IntArray, rows: JudgedRows, n_models: int) -> Matrix:
    """The effect of the first model minus that of the second, each by group."""
    sides = np.column_stack([rows.first[rows.pair], rows.second[rows.pair]])
    levels, n_levels = _levels((group[:, None] * n_models + sides).ravel())
    values = np.tile([1.0, -1.0], rows.n_rows)
    design = sparse.csr_array((values, levels, np.arange(0, 2 * rows.n_rows + 1, 2)), shape=(rows.n_rows, n_levels))
    design.sort_indices()
    return design


def fixed_effects(rows: JudgedRows) -> Matrix:
    """Orthonormal columns Q that span the pairs' means and, where orders vary, a common position effect."""
    count = np.bincount(rows.pair).astype(float)
    pairs = _one_hot_of(rows.pair, 1.0 / np.sqrt(count)[rows.pair], rows.n_pairs)
    x = _within_pairs(rows, rows.side)
    if not x.any():
        return pairs
    return sparse.hstack([pairs, sparse.csr_array((x / np.linalg.norm(x))[:, None])]).tocsr()


def _one_hot_of(codes: IntArray, values: FloatArray, size: int) -> Matrix:
    return sparse.csr_array((values, codes, np.arange(codes.size + 1)), shape=(codes.size, size))


def moment_equations(rows: JudgedRows, components: list[Component]) -> tuple[FloatArray, FloatArray]:
    """Expected and observed quadratic forms e'ZZ'e of the residuals e, those of single rows last.

    With M = I - QQ' and e = Ms, E[e'Z_c Z_c'e] = sum_d sigma_d^2 |Z_c' M Z_d|^2, which counts what the fixed effects
    have taken out. Sums run over levels; no matrix has rows on both sides. Rao (1972), Journal of the American
    Statistical Association 67, 112-115, with weights zero (MINQUE(0)); Searle, Casella and McCulloch (1992), Variance
    Components, chapter 11; Henderson (1953), Biometrics 9, 226-252.
    """
    Q = fixed_effects(rows)
    e = rows.values - Q @ (Q.T @ rows.values)
    size = len(components)
    fixed = [(component.design.T @ Q).tocsr() for component in components]
    expected = _products(fixed)
    for c in range(size):
        for d in range(c, size):
            # The one with fewer levels on the left, which keeps the product small.
            few, many = (c, d) if fixed[c].shape[0] <= fixed[d].shape[0] else (d, c)
            A = (components[few].design.T @ components[many].design).tocsr()
            crossed = float(fixed[few].multiply(A @ fixed[many]).sum())
            expected[c, d] += float(A.power(2).sum()) - 2.0 * crossed
            expected[d, c] = expected[c, d]
    traces = [float(Z.design.power(2).sum() - B.power(2).sum()) for Z, B in zip(components, fixed, strict=True)]
    expected = np.block([[expected, np.array(traces)[:, None]], [np.array([*traces, rows.n_rows - Q.shape[1]])]])
    observed = np.array([*(float(np.sum((Z.design.T @ e) ** 2)) for Z in components), float(e @ e)])
    return expected, observed


def _products(fixed: list[Matrix]) -> FloatArray:
    """Traces of products of B_c'B_c and B_d'B_d for all c and d, in blocks of columns."""
    n_fixed = fixed[0].shape[1]
    step = max(BLOCK_ENTRIES // n_fixed, 1)
    columns = [B.tocsc() for B in fixed]
    total = np.zeros((len(fixed), len(fixed)))
    for start in range(0, n_fixed, step):
        parts = np.array([(B.T @ B[:, start : start + step]).toarray().ravel() for B in columns])
        total += parts @ parts.T
    return total


def solve_components(expected: FloatArray, observed: FloatArray) -> tuple[FloatArray, list[list[int]]]:
    """Variance components, the solution of least norm, and which of them the log cannot tell from each other.

    The sets are a partition: components alone, or those of which only the sum is known.
    """
    scale = np.sqrt(np.diag(expected))
    alive = scale > 1e-9 * scale.max()
    safe = np.where(alive, scale, 1.0)
    values, vectors = np.linalg.eigh(np.where(alive[:, None] & alive, expected / np.outer(safe, safe), 0.0))
    known = values > ALIASED * max(values[-1], 1.0)
    variances = (vectors[:, known] / values[known] @ (vectors[:, known].T @ (observed / safe))) / safe
    null = vectors[:, ~known] @ vectors[:, ~known].T
    tied: BoolArray = np.abs(null) > 1e-6
    n_sets, label = sparse.csgraph.connected_components(sparse.csr_array(tied.astype(float)))
    return variances, [np.flatnonzero(label == s).tolist() for s in range(n_sets)]


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
    variances, sets = solve_components(*moment_equations(rows, components))
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
