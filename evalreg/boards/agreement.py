"""How far judges agree: shares of equal verdicts, Cohen's and Fleiss' kappa, Krippendorff's alpha."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from evalreg.boards.judge_rows import JudgedRows, means_by_cell
from evalreg.checks import FloatArray, IntArray
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
