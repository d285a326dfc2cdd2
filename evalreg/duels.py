"""Each pair of models by itself: how often one beat the other, with an error bar, and cycles among such pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, IntArray, ResolvedCov, fraction
from evalreg.clusters import Axis, Labels
from evalreg.groups import union
from evalreg.inference.proportions import logit_interval, t_quantile
from evalreg.inference.wald import t_pvalues
from evalreg.pieces import subsets
from evalreg.scores import CellScores, compressed, scale_columns
from evalreg.small_sample import POWER, CellTerms, adjust_cell_totals, cell_terms, cr1_factor, crossed_dof


@dataclass(frozen=True, eq=False)
class Duels:
    """Comparisons by pair of models.

    Parameters
    ----------
    models : tuple of str
        Names, sorted.
    strata : tuple of str
        Names; one unnamed without strata.
    first, second, stratum : ndarray of int, shape (n_cells,)
        The models of each cell, first before second, and its stratum.
    scores : CellScores
        Rows in cells, as scores of the first model.
    count, weight : ndarray, shape (n_cells,)
        Rows of each cell, and their weight.
    swapped : ndarray of bool, shape (n_rows,)
        Whether the left model of a row is the second of its cell.
    """

    models: tuple[str, ...]
    strata: tuple[str, ...]
    first: IntArray
    second: IntArray
    stratum: IntArray
    scores: CellScores
    count: FloatArray
    weight: FloatArray
    swapped: Any

    @property
    def mean(self) -> FloatArray:
        """Mean score of the first model of each cell, shape (n_cells,)."""
        return self.scores.fitted

    def with_labels(self, labels: Labels) -> Duels:
        """The same with the cluster labels of the results that they belong to."""
        return replace(self, scores=replace(self.scores, labels=labels))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "scores": replace(self.scores, labels=self.scores.labels.detached())}


DuelErrors: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]
"""Standard errors, degrees of freedom and numbers of clusters of the cells, each by itself."""


def duel_errors(duels: Duels, axes: tuple[Axis, ...], options: ResolvedCov, n_rows: int) -> DuelErrors:
    """Standard errors and degrees of freedom of each cell's mean alone, and its clusters on the first axis.

    Parameters
    ----------
    duels : Duels
        The cells.
    axes : tuple of Axis
        Clusterings, none inside another; empty for independent rows.
    options : ResolvedCov
        Of the results.
    n_rows : int
        Rows in use.

    Returns
    -------
    se, dof, n_clusters : ndarray, shape (n_cells,)
        NaN where a cell rests on a single cluster.
    """
    if not axes:
        assert duels.scores.cell is not None
        squares = np.bincount(duels.scores.cell, duels.scores.row_scores**2, duels.count.size)
        n = duels.count
        variance = squares / duels.weight**2 * n_rows / max(n_rows - 1, 1)
        return np.sqrt(np.where((n > 1) & (variance > 0), variance, np.nan)), n - 1.0, n.copy()
    smallest = min(duels.scores.n_clusters(axis) for axis in axes)
    variances, dofs, signs, counts = [], [], [], []
    for dims in subsets(len(axes)):
        by = union(*(axes[d] for d in dims))
        terms, variance = _piece(duels, by, options, n_rows, smallest)
        variances.append(variance)
        dofs.append(terms.dof() if options.dof == "satterthwaite" and len(dims) == 1 else terms.n_clusters - 1.0)
        signs.append((-1.0) ** (len(dims) + 1))
        counts.append(terms.n_clusters)
    total = _repaired(options.repair, len(axes), np.asarray(signs), np.asarray(variances))
    # Of the clusters of a pair by itself, those of the axis with fewest.
    fewest = np.min(counts[: len(axes)], axis=0)
    variance = np.where((total > 0) & (fewest > 1), total, np.nan)
    dof = _dof(options, len(axes), variance, np.asarray(variances), np.asarray(dofs), smallest, fewest)
    return np.sqrt(variance), dof, np.asarray(counts[0])


def _repaired(repair: str, n_axes: int, signs: FloatArray, pieces: FloatArray) -> FloatArray:
    """Variance of each cell from its pieces; the eigenvalue of a single variance is that variance itself."""
    one_way = pieces[:n_axes]
    if repair == "two-term":
        return np.asarray(one_way.sum(axis=0))
    raw = np.asarray(signs @ pieces)
    return np.maximum(raw, one_way.max(axis=0)) if repair == "max" else raw


def _piece(duels: Duels, by: Axis, options: ResolvedCov, n_rows: int, smallest: int) -> tuple[CellTerms, FloatArray]:
    """Leverages of the cells on one clustering, and the variance of each mean."""
    power = POWER[options.cov]
    G = duels.scores.n_clusters(by)
    (block,) = duels.scores.cells(by)
    share = scale_columns(block.gram, 1.0 / duels.weight)
    totals = scale_columns(adjust_cell_totals(block.totals, share, power), 1.0 / duels.weight)
    squares = np.asarray(compressed(totals).power(2).sum(axis=0), dtype=np.float64).ravel()
    factor = 1.0
    if options.cov == "CR1":
        factor = cr1_factor(smallest if options.ssc == "fixest" else G, n_rows, 1, options.ssc, True)
    elif options.cov in ("CR3", "jackknife"):
        factor = (G - 1) / G
    return cell_terms(share, duels.weight, power), factor * squares


def _dof(
    options: ResolvedCov,
    n_axes: int,
    variance: FloatArray,
    pieces: FloatArray,
    dofs: FloatArray,
    smallest: int,
    fewest: FloatArray,
) -> FloatArray:
    """Degrees of freedom of each cell's mean."""
    rule = options.dof
    if rule == "normal":
        return np.full(variance.size, np.inf)
    if isinstance(rule, float):
        return np.full(variance.size, rule)
    if rule == "min":
        return np.full(variance.size, smallest - 1.0)
    if n_axes == 1:
        return np.asarray(dofs[0])
    safe = np.maximum(np.nan_to_num(dofs, nan=1.0), 1.0)
    return crossed_dof(variance, pieces[:n_axes], pieces, safe, np.maximum(fewest - 1.0, 1.0))


def head_to_head(duels: Duels, errors: DuelErrors) -> pd.DataFrame:
    """Table of all pairs that met, both ways round.

    Parameters
    ----------
    duels : Duels
        The cells.
    errors : tuple of ndarray, shape (n_cells,)
        From `duel_errors`.

    Returns
    -------
    DataFrame
        Indexed by (left, right), or (stratum, left, right); columns psi, se, n, n_clusters and dof.
    """
    se, dof, n_clusters = errors
    names = np.array(duels.models, dtype=object)
    sides = [(duels.first, duels.second, duels.mean), (duels.second, duels.first, 1.0 - duels.mean)]
    parts = []
    for left, right, psi in sides:
        counts = {"n": duels.count.astype(int), "n_clusters": n_clusters.astype(int)}
        columns = {"psi": psi, "se": se, **counts, "dof": dof}
        keys = {"left": names[left], "right": names[right]}
        if duels.strata != ("",):
            keys = {"stratum": np.array(duels.strata, dtype=object)[duels.stratum], **keys}
        parts.append(pd.DataFrame({**keys, **columns}).set_index(list(keys)))
    return pd.concat(parts).sort_index()


def with_intervals(table: pd.DataFrame, alpha: float) -> pd.DataFrame:
    """The table of `head_to_head` with an interval for each pair by itself.

    Parameters
    ----------
    table : DataFrame
        Columns psi, se and dof among others.
    alpha : float
        Level.

    Returns
    -------
    DataFrame
        With lower and upper, on the logit scale; NaN without a standard error, and where psi is 0 or 1.
    """
    fraction("alpha", alpha)
    psi, se, dof = (table[name].to_numpy() for name in ("psi", "se", "dof"))
    inside = (se > 0) & (psi > 0) & (psi < 1)
    ends = np.full((psi.size, 2), np.nan)
    ends[inside] = logit_interval(psi[inside], se[inside], t_quantile(alpha, dof[inside]))
    return table.assign(lower=ends[:, 0], upper=ends[:, 1])


def condorcet_cycles(table: pd.DataFrame, alpha: float) -> pd.DataFrame:
    """Cycles a beats b beats c beats a, and which of them stand once chance is allowed for.

    Parameters
    ----------
    table : DataFrame
        From `head_to_head`, without strata.
    alpha : float
        Family-wise level at which the edges of all pairs are tested (Holm).

    Returns
    -------
    DataFrame
        One row a cycle: columns a, b, c, psi_ab, psi_bc, psi_ca, p_adjusted (the largest of its edges) and stands.
    """
    from statsmodels.stats.multitest import multipletests

    fraction("alpha", alpha)
    models = list(dict.fromkeys(table.index.get_level_values("left")))
    psi = table["psi"].unstack("right").reindex(index=models, columns=models).to_numpy()
    t = (table["psi"] - 0.5) / table["se"]
    half = table.index.get_level_values("left") < table.index.get_level_values("right")
    p = pd.Series(np.nan, index=table.index[half])
    known = np.isfinite(t[half].to_numpy())
    raw = t_pvalues(t[half].to_numpy()[known], table["dof"][half].to_numpy()[known])
    if raw.size:
        p.iloc[np.flatnonzero(known)] = multipletests(raw, alpha, method="holm")[1]
    adjusted = p.to_dict()
    rows = []
    for a, b, c in cycles_of(psi > 0.5):
        edges = [(models[a], models[b]), (models[b], models[c]), (models[c], models[a])]
        worst = float(np.max([adjusted.get(tuple(sorted(edge)), np.nan) for edge in edges]))
        values = [float(psi[i, j]) for i, j in ((a, b), (b, c), (c, a))]
        rows.append((models[a], models[b], models[c], *values, worst, bool(worst <= alpha)))
    columns = ["a", "b", "c", "psi_ab", "psi_bc", "psi_ca", "p_adjusted", "stands"]
    found = pd.DataFrame(rows, columns=columns).sort_values(["p_adjusted", "a", "b", "c"], ignore_index=True)
    found.attrs["alpha"] = alpha
    return found


def cycles_of(beats: Any) -> list[tuple[int, int, int]]:
    """All triples with a beats b beats c beats a, each once, its smallest number first.

    Parameters
    ----------
    beats : ndarray of bool, shape (n, n)
        Whether the row's model beats the column's.

    Returns
    -------
    list of tuple of int
        Sorted.

    Examples
    --------
    >>> cycles_of(np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]], dtype=bool))
    [(0, 1, 2)]
    """
    found = []
    for a in range(len(beats)):
        # b that a beats, c that beats a, and b beats c; a the smallest of the three.
        after = np.flatnonzero(beats[a, a + 1 :]) + a + 1
        before = np.flatnonzero(beats[a + 1 :, a]) + a + 1
        inner = beats[np.ix_(after, before)]
        found += [(a, int(after[i]), int(before[j])) for i, j in np.argwhere(inner)]
    return sorted(found)
