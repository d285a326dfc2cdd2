"""What judges say: how far they agree, a board of each, how like these are, and their tastes for models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.boards.duels import JudgedRows, adjusted_tests, mapped_means, means_by_cell
from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.covariance.options import ResolvedCov

# Beyond so many judges only pairs of them that share enough are listed.
MOST_JUDGES = 1000
VERDICTS = 3


@dataclass(frozen=True, eq=False)
class Verdicts:
    """One verdict a judge and (prompt, pair), sorted by unit and then by judge."""

    # Codes of each verdict; a unit is a (prompt, pair).
    judge: IntArray
    unit: IntArray
    prompt: IntArray
    # 0 for the first model of the pair, 1 for a tie, 2 for the second.
    verdict: IntArray
    n_judges: int
    n_units: int
    # Verdicts made from more than one row.
    several: int


def verdicts_of(rows: JudgedRows) -> Verdicts:
    """One verdict a judge and (prompt, pair): who had the higher mean score over the rows, both orders together.

    A tie where the mean is one half, as for a judge whose verdict turns with the order: Zheng et al. (2023),
    arXiv:2306.05685, section 3.4.
    """
    unit = rows.unit
    keys, number, count = np.unique(
        unit.codes * np.int64(len(rows.judges)) + rows.judge, return_inverse=True, return_counts=True
    )
    above = np.bincount(number, rows.values - 0.5)
    verdict = np.where(above > 1e-9, 0, np.where(above < -1e-9, 2, 1))
    units = keys // len(rows.judges)
    prompt = rows.prompt.codes[unit.first][units]
    judge = keys % len(rows.judges)
    return Verdicts(judge, units, prompt, verdict, len(rows.judges), unit.n_clusters, int(np.sum(count > 1)))


def both_judged(found: Verdicts) -> tuple[IntArray, IntArray]:
    """Positions of the two verdicts wherever two judges saw one unit; the judge of the first comes first."""
    ones = [np.zeros(0, dtype=np.intp)]
    lags = [0]
    # Verdicts of a unit lie together: those d apart, for every d up to the judges of a unit.
    for lag in range(1, int(np.max(np.bincount(found.unit)))):
        ones.append(np.flatnonzero(found.unit[:-lag] == found.unit[lag:]))
        lags.append(lag)
    one = np.concatenate(ones)
    return one, one + np.repeat(lags, [part.size for part in ones])


def agreement_table(
    found: Verdicts, judges: tuple[str, ...], options: ResolvedCov, min_shared: int
) -> tuple[pd.DataFrame, pd.Series[float]]:
    """Agreement of all pairs of judges, and of all together: `Judging.agreement` and `Judging.overall`.

    Estimates are NaN below `min_shared` units. All pairs are listed, or, with over 1000 judges, those that share
    enough. Cohen (1960), Educational and Psychological Measurement 20, 37-46; Krippendorff (2004), Content Analysis,
    ch. 11; Fleiss (1971), Psychological Bulletin 76, 378-382.
    """
    one, other = both_judged(found)
    equal = (found.verdict[one] == found.verdict[other]).astype(float)
    key = found.judge[one] * len(judges) + found.judge[other]
    met, cell, shared = np.unique(key, return_inverse=True, return_counts=True)
    enough = shared >= min_shared
    use = enough[cell]
    cell = (np.cumsum(enough) - 1)[cell[use]]
    estimates = np.zeros((0, 4))
    if use.any():
        n_cells = int(enough.sum())
        errors = means_by_cell(equal[use], cell, n_cells, found.prompt[one][use], options, None)
        kappa = _kappas(found.verdict[one][use], found.verdict[other][use], cell, n_cells)
        estimates = np.column_stack([*errors, kappa])
    known = pd.DataFrame(estimates, index=met[enough], columns=["agreement", "se", "dof", "kappa"])
    every = len(judges) <= MOST_JUDGES
    first, second = np.triu_indices(len(judges), 1) if every else np.divmod(met[enough], len(judges))
    listed = first * len(judges) + second
    table = known.reindex(listed)
    table["n"] = pd.Series(shared, index=met).reindex(listed, fill_value=0)
    names = np.array(judges, dtype=object)
    table.index = pd.MultiIndex.from_arrays([names[first], names[second]], names=["judge", "other"])
    return table, _overall(found, equal, found.prompt[one], options)


def _kappas(one: IntArray, other: IntArray, cell: IntArray, n_cells: int) -> FloatArray:
    """Cohen's kappa of each cell, (p_o - p_e)/(1 - p_e) (Cohen 1960, eq. 1); NaN where both only ever say tie.

    Which model of a pair is the first is a matter of names: every verdict counts from either side.
    """
    size = VERDICTS**2
    flat = np.bincount(cell * size + one * VERDICTS + other, minlength=n_cells * size)
    tables = flat.reshape(n_cells, VERDICTS, VERDICTS)
    tables = tables + tables[:, ::-1, ::-1]
    n = tables.sum(axis=(1, 2))
    alike = np.trace(tables, axis1=1, axis2=2) * n
    by_chance = np.sum(tables.sum(axis=1) * tables.sum(axis=2), axis=1)
    top, bottom = (alike - by_chance).astype(np.float64), (n**2 - by_chance).astype(np.float64)
    return np.asarray(np.divide(top, bottom, out=np.full(n_cells, np.nan), where=bottom > 0))


def _overall(found: Verdicts, equal: FloatArray, prompt: IntArray, options: ResolvedCov) -> pd.Series[float]:
    """Agreement of all pairs of verdicts on one unit, and coefficients that allow for chance."""
    counts = np.zeros((found.n_units, VERDICTS))
    np.add.at(counts, (found.unit, found.verdict), 1.0)
    per_unit = counts.sum(axis=1)
    share = np.full(3, np.nan)
    if equal.size:
        cell = np.zeros(equal.size, dtype=np.intp)
        share = np.concatenate(means_by_cell(equal, cell, 1, prompt, options, None))
    return pd.Series(
        {
            "agreement": share[0],
            "se": share[1],
            "dof": share[2],
            "krippendorff": krippendorff_alpha(counts, mirrored=True),
            "fleiss": _fleiss(counts, found.n_judges),
            "n_shared": float(np.sum(per_unit > 1)),
            "n_units": float(found.n_units),
            "fewest_judges": float(np.min(per_unit)),
            "most_judges": float(np.max(per_unit)),
        }
    )


def _fleiss(counts: FloatArray, n_judges: int) -> float:
    """Fleiss' kappa by statsmodels, where every judge saw every unit; every verdict counts from either side."""
    from statsmodels.stats.inter_rater import fleiss_kappa

    both = np.vstack([counts, counts[:, ::-1]])
    if np.any(counts.sum(axis=1) != n_judges) or np.count_nonzero(both.sum(axis=0)) < 2:
        return np.nan
    return float(fleiss_kappa(both))


def krippendorff_alpha(counts: FloatArray, *, mirrored: bool = False) -> float:
    """Krippendorff's alpha for verdicts without an order, 1 - observed over expected disagreement.

    `counts` says how many judges gave each verdict, (n_units, n_verdicts); units with one judge say nothing and are
    left out. NaN where all verdicts are alike, or no unit has two. `mirrored`: the first verdict and the last are one,
    said from either side, so that by chance they are as frequent. Krippendorff (2004), Content Analysis, second
    edition, ch. 11.
    """
    counts = counts[counts.sum(axis=1) > 1]
    total = counts.sum(axis=0)
    if mirrored:
        total = (total + total[::-1]) / 2
    expected = total.sum() ** 2 - total @ total
    if not expected > 0:
        return np.nan
    per_unit = counts.sum(axis=1)
    observed = np.sum((per_unit**2 - np.sum(counts**2, axis=1)) / (per_unit - 1.0))
    return float(1.0 - (total.sum() - 1.0) * observed / expected)


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
