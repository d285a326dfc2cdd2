"""Each pair of models by itself: how often one beat the other, with an error bar, and cycles among such pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, IntArray, fraction
from evalreg.covariance.cell_dof import CellTerms, cell_terms
from evalreg.covariance.corrections import Counts, adjust_cell_totals
from evalreg.covariance.crossed import subset_signs, subsets
from evalreg.covariance.groups import union
from evalreg.covariance.options import ResolvedCov
from evalreg.covariance.widths import Widths, crossed_widths, one_t
from evalreg.data.clusters import Axis, Labels
from evalreg.inference.multiplicity import adjust_pvalues
from evalreg.inference.proportions import logit_interval
from evalreg.scores.sums import CellScores, compressed, scale_columns


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


@dataclass(frozen=True, eq=False)
class DuelErrors:
    """Errors of the cells, each by itself.

    Parameters
    ----------
    widths : Widths
        Of the cells' means; no variance where a cell rests on a single cluster.
    n_clusters : ndarray, shape (n_cells,)
        Clusters of each cell on the first axis.
    """

    widths: Widths
    n_clusters: FloatArray

    @property
    def se(self) -> FloatArray:
        """Standard errors, shape (n_cells,); NaN where there is none."""
        return np.sqrt(self.widths.variance)

    @property
    def dof(self) -> FloatArray:
        """Degrees of freedom, crossed those of 95% intervals, shape (n_cells,)."""
        return self.widths.dof(0.05)


def duel_errors(duels: Duels, axes: tuple[Axis, ...], options: ResolvedCov, n_rows: int) -> DuelErrors:
    """Errors of each cell's mean alone, and its clusters on the first axis.

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
    DuelErrors
        NaN where a cell rests on a single cluster.
    """
    if not axes:
        assert duels.scores.cell is not None
        squares = np.bincount(duels.scores.cell, duels.scores.row_scores**2, duels.count.size)
        n = duels.count
        variance = squares / duels.weight**2 * n_rows / max(n_rows - 1, 1)
        return DuelErrors(one_t(np.where((n > 1) & (variance > 0), variance, np.nan), n - 1.0), n.copy())
    smallest = min(duels.scores.n_clusters(axis) for axis in axes)
    variances, dofs, counts, sets = [], [], [], subsets(len(axes))
    for dims in sets:
        by = union(*(axes[d] for d in dims))
        terms, variance = _piece(duels, by, options, n_rows, smallest)
        variances.append(variance)
        dofs.append(terms.dof() if options.dof == "satterthwaite" and len(dims) == 1 else terms.n_clusters - 1.0)
        counts.append(terms.n_clusters)
    pieces = np.asarray(variances)
    total = _repaired(options.repair, sets, pieces)
    # Of the clusters of a pair by itself, those of the axis with fewest.
    fewest = np.min(counts[: len(axes)], axis=0)
    variance = np.where((total > 0) & (fewest > 1), total, np.nan)
    if len(axes) == 1 or options.dof != "satterthwaite":
        widths = one_t(variance, _dof(options, np.asarray(dofs[0]), smallest))
    else:
        safe = np.maximum(np.nan_to_num(np.asarray(dofs), nan=1.0), 1.0)
        widths = crossed_widths(variance, pieces, safe, sets, options.repair)
    return DuelErrors(widths, np.asarray(counts[0]))


def _repaired(repair: str, sets: list[tuple[int, ...]], pieces: FloatArray) -> FloatArray:
    """Variance of each cell from its pieces; the eigenvalue of a single variance is that variance itself."""
    if repair == "two-term":
        return np.asarray(pieces[[len(dims) == 1 for dims in sets]].sum(axis=0))
    signs = subset_signs(sets)
    return np.asarray(np.max((signs if repair == "max" else signs[-1:]) @ pieces, axis=0))


def _piece(duels: Duels, by: Axis, options: ResolvedCov, n_rows: int, smallest: int) -> tuple[CellTerms, FloatArray]:
    """Leverages of the cells on one clustering, and the variance of each mean."""
    power = options.kind.power
    G = duels.scores.n_clusters(by)
    (block,) = duels.scores.cells(by)
    share = scale_columns(block.gram, 1.0 / duels.weight)
    totals = scale_columns(adjust_cell_totals(block.totals, share, power), 1.0 / duels.weight)
    squares = np.asarray(compressed(totals).power(2).sum(axis=0), dtype=np.float64).ravel()
    factor = options.factor(Counts(n_clusters=G, smallest=smallest, n_rows=n_rows))
    return cell_terms(share, duels.weight, power), factor * squares


def _dof(options: ResolvedCov, own: FloatArray, smallest: int) -> FloatArray:
    """Degrees of freedom of each cell's mean where one t serves."""
    rule = options.dof
    if rule == "satterthwaite":
        return own
    fixed = np.inf if rule == "normal" else smallest - 1.0 if rule == "min" else float(rule)
    return np.full(own.size, fixed)


def head_to_head(duels: Duels, errors: DuelErrors, alpha: float | None = None) -> pd.DataFrame:
    """Table of all pairs that met, both ways round.

    Parameters
    ----------
    duels : Duels
        The cells.
    errors : DuelErrors
        From `duel_errors`.
    alpha : float, optional
        Adds dof, and intervals at this level on the logit scale: NaN without a standard error, and where psi is 0 or 1.

    Returns
    -------
    DataFrame
        Indexed by (left, right), or (stratum, left, right); columns psi, se, n, n_clusters and p_value (that psi is one
        half), and with `alpha` dof, lower and upper.
    """
    names = np.array(duels.models, dtype=object)
    se, p = errors.se, errors.widths.pvalues(duels.mean - 0.5)
    sides = [(duels.first, duels.second, duels.mean), (duels.second, duels.first, 1.0 - duels.mean)]
    parts = []
    for left, right, psi in sides:
        counts = {"n": duels.count.astype(int), "n_clusters": errors.n_clusters.astype(int)}
        columns = {"psi": psi, "se": se, **counts, "p_value": p}
        if alpha is not None:
            fraction("alpha", alpha)
            inside, ends = (se > 0) & (psi > 0) & (psi < 1), np.full((psi.size, 2), np.nan)
            half = errors.widths.half(alpha)[inside]
            ends[inside] = logit_interval(psi[inside], se[inside], half / se[inside])
            columns |= {"dof": errors.dof, "lower": ends[:, 0], "upper": ends[:, 1]}
        keys = {"left": names[left], "right": names[right]}
        if duels.strata != ("",):
            keys = {"stratum": np.array(duels.strata, dtype=object)[duels.stratum], **keys}
        parts.append(pd.DataFrame({**keys, **columns}).set_index(list(keys)))
    return pd.concat(parts).sort_index()


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
    fraction("alpha", alpha)
    models = list(dict.fromkeys(table.index.get_level_values("left")))
    psi = table["psi"].unstack("right").reindex(index=models, columns=models).to_numpy()
    p = table["p_value"][table.index.get_level_values("left") < table.index.get_level_values("right")]
    adjusted = dict(zip(p.index, adjust_pvalues(p.to_numpy(), "holm").tolist(), strict=True))
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
