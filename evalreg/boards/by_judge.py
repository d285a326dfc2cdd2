"""A board for each judge, how like these are, and what a judge gives a model beyond what the others do."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.boards.judge_rows import JudgedRows, adjusted_tests, mapped_means
from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.covariance.options import ResolvedCov

# Models that two boards must have in common for their ranks to be compared.
FEWEST_MODELS = 3
# Judges, those with most comparisons, whose ranks are compared: all pairs of them are.
MOST_RANKED = 100


def board_table(rows: JudgedRows, has_board: BoolArray, options: ResolvedCov) -> pd.DataFrame:
    """Win rates by judge: each model's mean score against the opponents that it met under that judge, equal weights.

    Indexed by (judge, model), for judges with enough comparisons (`has_board`); columns estimate, se, dof, rank and n.
    """
    parts, order = [], np.argsort(rows.judge, kind="stable")
    starts = np.searchsorted(rows.judge[order], np.arange(len(rows.judges) + 1))
    for judge in np.flatnonzero(has_board).tolist():
        part = _one_board(rows, order[starts[judge] : starts[judge + 1]], options)
        parts.append(pd.concat({rows.judges[judge]: part}, names=["judge"]))
    if not parts:
        index = pd.MultiIndex.from_arrays([[], []], names=["judge", "model"])
        return pd.DataFrame({name: [] for name in ("estimate", "se", "dof", "rank", "n")}, index=index, dtype=float)
    return pd.concat(parts)


def _one_board(rows: JudgedRows, use: IntArray, options: ResolvedCov) -> pd.DataFrame:
    """Win rates of the models on some rows."""
    pairs, cell = np.unique(rows.pair[use], return_inverse=True)
    first, second = rows.first[pairs], rows.second[pairs]
    models = np.unique(np.concatenate([first, second]))
    one, other = np.searchsorted(models, first), np.searchsorted(models, second)
    met = np.bincount(np.concatenate([one, other]))
    column = np.arange(pairs.size)
    entries = np.concatenate([1.0 / met[one], -1.0 / met[other]])
    where = (np.concatenate([one, other]), np.concatenate([column, column]))
    A = sparse.coo_array((entries, where), shape=(models.size, pairs.size)).tocsr()
    weights = None if rows.weights is None else rows.weights[use]
    rate, (se, dof) = mapped_means(rows.values[use], cell, A, rows.prompt.codes[use], options, weights)
    # A model that is second in a pair scores 1 - psi there.
    rate = rate + np.bincount(other, minlength=models.size) / met
    count = np.bincount(cell)
    n = np.bincount(one, count, models.size) + np.bincount(other, count, models.size)
    frame = pd.DataFrame({"estimate": rate, "se": se, "dof": dof})
    # Rates that differ by rounding are tied.
    frame["rank"] = frame["estimate"].round(12).rank(ascending=False, method="min").astype(int)
    frame["n"] = n.astype(int)
    frame.index = pd.Index([rows.models[model] for model in models], name="model")
    return frame


def rank_table(boards: pd.DataFrame) -> pd.DataFrame:
    """Rank correlations between the boards of two judges, over the models that both have; NaN below three models.

    Kendall's is tau-b. Of over 100 judges those with most comparisons are compared.
    """
    n = boards["n"].groupby(level="judge").sum().sort_values(ascending=False, kind="stable")
    judges = sorted(n.index[:MOST_RANKED])
    wide = boards["estimate"].unstack("judge")[judges]
    first, second = np.triu_indices(len(judges), 1)
    known = wide.notna().to_numpy(dtype=float)
    index = pd.MultiIndex.from_arrays(
        [[judges[i] for i in first], [judges[j] for j in second]], names=["judge", "other"]
    )
    table = {
        name: wide.round(12).corr(method=name, min_periods=FEWEST_MODELS).to_numpy()[first, second]
        for name in ("kendall", "spearman")
    }
    return pd.DataFrame({**table, "n_models": (known.T @ known)[first, second].astype(int)}, index=index)


def effect_table(rows: JudgedRows, has_board: BoolArray, options: ResolvedCov, alpha: float) -> pd.DataFrame:
    """Judge-by-model effects: a judge's win rate of a model minus the mean of the judges, opponent by opponent.

    For model a and judge j it is the mean, over the opponents b that j and another judge saw against a, of psi_ab by j
    minus the mean of psi_ab over the judges who saw that pair. Where every judge saw every pair that is the judge's win
    rate minus the mean win rate; elsewhere it takes out that judges saw different opponents. Judges without enough
    comparisons (`has_board`) are left out of the means; errors are joint over judges, and `alpha` is family-wise over
    all effects, by Holm.
    """
    use = np.flatnonzero(has_board[rows.judge])
    model = np.concatenate([rows.first[rows.pair[use]], rows.second[rows.pair[use]]])
    row, side = np.concatenate([use, use]), np.repeat([1, -1], use.size)
    order = np.argsort(model, kind="stable")
    starts = np.searchsorted(model[order], np.arange(len(rows.models) + 1))
    frames = []
    for a, name in enumerate(rows.models):
        chosen = order[starts[a] : starts[a + 1]]
        frame = _effects_of_model(rows, row[chosen], side[chosen], options)
        frames.append(pd.concat({name: frame}, names=["model"]))
    table = pd.concat(frames).swaplevel().sort_index()
    errors = (table["se"].to_numpy(), table["dof"].to_numpy())
    p, adjusted, stands = adjusted_tests(table["effect"].to_numpy(), errors, alpha)
    table.insert(3, "p_value", p)
    table.insert(4, "p_adjusted", adjusted)
    table.insert(5, "stands", stands)
    return table


def _effects_of_model(rows: JudgedRows, row: IntArray, side: IntArray, options: ResolvedCov) -> pd.DataFrame:
    """Effects of all judges on one model, from the rows that it is in."""
    opponent = np.where(side > 0, rows.second[rows.pair[row]], rows.first[rows.pair[row]])
    values = np.where(side > 0, rows.values[row], 1.0 - rows.values[row])
    judges, j = np.unique(rows.judge[row], return_inverse=True)
    opponents, b = np.unique(opponent, return_inverse=True)
    seen = np.zeros((judges.size, opponents.size), dtype=bool)
    seen[j, b] = True
    # A pair that one judge saw alone says nothing of how judges differ.
    seen &= seen.sum(axis=0) > 1
    kept = seen[j, b]
    row, j, b, values = row[kept], j[kept], b[kept], values[kept]
    number = np.full(seen.shape, -1, dtype=np.intp)
    number[seen] = np.arange(np.count_nonzero(seen))
    A, some = effect_map(seen)
    weights = None if rows.weights is None else rows.weights[row]
    effect, se, dof = (np.full(judges.size, np.nan) for _ in range(3))
    if some.any():
        prompt = rows.prompt.codes[row]
        effect[some], (se[some], dof[some]) = mapped_means(values, number[j, b], A, prompt, options, weights)
    columns = {"effect": effect, "se": se, "dof": dof, "opponents": seen.sum(axis=1)}
    columns["n"] = np.bincount(j, minlength=judges.size)
    return pd.DataFrame(columns, index=pd.Index([rows.judges[k] for k in judges], name="judge"))


def effect_map(seen: BoolArray) -> tuple[FloatArray, BoolArray]:
    """Effects of judges as a linear function of the means of their (judge, opponent) cells, numbered along the rows.

    One row of coefficients for each judge with a cell, and which judges those are. Shapes: seen (n_judges,
    n_opponents).
    """
    judge, opponent = np.nonzero(seen)
    share = seen / np.maximum(seen.sum(axis=1, keepdims=True), 1)
    averaged = np.where(seen, 1.0 / np.maximum(seen.sum(axis=0), 1), 0.0)[judge, opponent]
    A = -share[:, opponent] * averaged
    A[judge, np.arange(judge.size)] += share[judge, opponent]
    some: BoolArray = np.asarray(seen.any(axis=1))
    return A[some], some
