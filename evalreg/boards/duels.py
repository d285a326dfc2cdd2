"""Each pair of models by itself: how often one beat the other, with an error bar, and cycles among such pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.checks import FloatArray, IntArray, fraction, hold
from evalreg.covariance.options import ResolvedCov
from evalreg.covariance.terms import CellErrors, errors_by_cell
from evalreg.data.clusters import Axis, axis_name
from evalreg.data.labels import Labels
from evalreg.errors import NotAvailableError, Note, issue
from evalreg.inference.dependence_table import correlation_columns, refuse_without_clusters, sums_of_cells
from evalreg.inference.multiplicity import adjust_pvalues
from evalreg.numerics.moments import icc_of
from evalreg.numerics.student import logit_interval
from evalreg.scores.cells import CellScores
from evalreg.scores.engine import EngineScores


@dataclass(frozen=True, eq=False)
class Duels:
    """Comparisons by pair of models."""

    models: tuple[str, ...]
    # One, without a name, where there are no strata.
    strata: tuple[str, ...]
    # The models of each cell, first before second, and its stratum.
    first: IntArray
    second: IntArray
    stratum: IntArray
    # Rows in cells, as scores of the first model.
    scores: CellScores | EngineScores
    # Rows of each cell, and their weight.
    count: FloatArray
    weight: FloatArray
    # Whether the left model of a row is the second of its cell; None where rows stay in an engine.
    swapped: Any

    def __post_init__(self) -> None:
        hold(self)

    @property
    def mean(self) -> FloatArray:
        """Mean score of the first model of each cell, shape (n_cells,)."""
        return self.scores.fitted

    def with_labels(self, labels: Labels) -> Duels:
        """The same with the cluster labels of the results that they belong to."""
        scores = self.scores
        return replace(self, scores=replace(scores, labels=labels)) if isinstance(scores, CellScores) else self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "scores": self.scores.detached()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        hold(self)


def duel_errors(duels: Duels, axes: tuple[Axis, ...], options: ResolvedCov, n_rows: int) -> CellErrors:
    """Errors of each cell's mean alone; NaN where a cell rests on a single cluster."""
    return errors_by_cell(duels.scores, duels.count, duels.weight, axes, options, n_rows)


def head_to_head(duels: Duels, errors: CellErrors, alpha: float | None = None) -> pd.DataFrame:
    """Table of all pairs that met, both ways round, indexed by (left, right), or (stratum, left, right).

    `alpha` adds dof and intervals on the logit scale: NaN without a standard error, and where psi is 0 or 1. `p_value`
    is of psi = 1/2.
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


def duel_dependence(
    duels: Duels, axes: tuple[Axis, ...], options: ResolvedCov, n_rows: int, alpha: float
) -> pd.DataFrame:
    """How alike the comparisons of one pair are within clusters, one row for each clustering and pair."""
    refuse_without_clusters(axes)
    if not isinstance(duels.scores, CellScores):
        raise NotAvailableError(
            "the correlations within each pair need rows in memory, but these rows are in an engine. Collect the "
            "columns of the sides, verdicts and groups, and make the board of that frame."
        )
    names, scale = np.array(duels.models, dtype=object), duels.count / duels.weight
    keys = {"left": names[duels.first], "right": names[duels.second]}
    if duels.strata != ("",):
        keys = {"stratum": np.array(duels.strata, dtype=object)[duels.stratum], **keys}
    index, every = pd.MultiIndex.from_frame(pd.DataFrame(keys)), sparse.eye_array(duels.count.size, format="csr")
    squares = duels.scores.row_moments()[0]
    more = np.maximum(duels.count - 1, 1)
    naive = np.where((duels.count > 1) & (squares > 0), squares / duels.weight**2 * duels.count / more, np.nan)
    parts: dict[str, pd.DataFrame] = {}
    notes: list[Note] = []
    for axis in axes:
        sums = sums_of_cells(duels.scores, scale, axis, every)
        part, found = correlation_columns(sums, icc_of(sums), alpha, axis_name(axis), index)
        variance = duel_errors(duels, (axis,), options, n_rows).widths.variance
        parts[axis_name(axis)] = part.assign(design_effect=variance / naive, se_ratio=np.sqrt(variance / naive))
        notes += found
    issue(notes)
    return pd.concat(parts, names=["clusters", *keys])


def condorcet_cycles(table: pd.DataFrame, alpha: float) -> pd.DataFrame:
    """Cycles a beats b beats c beats a, and which of them stand once chance is allowed for.

    One row a cycle, from `head_to_head` without strata. `p_adjusted` is the largest of its edges, which are tested with
    the edges of all pairs by Holm at the family-wise level `alpha`.
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
    """All triples with a beats b beats c beats a, each once, its smallest number first; `beats` is (n, n)."""
    found = []
    for a in range(len(beats)):
        # b that a beats, c that beats a, and b beats c; a the smallest of the three.
        after = np.flatnonzero(beats[a, a + 1 :]) + a + 1
        before = np.flatnonzero(beats[a + 1 :, a]) + a + 1
        inner = beats[np.ix_(after, before)]
        found += [(a, int(after[i]), int(before[j])) for i, j in np.argwhere(inner)]
    return sorted(found)
