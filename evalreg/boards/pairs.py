"""Comparisons in cells, one a pair of models: what boards are made of, and what they say pair by pair."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, IntArray, counted, fraction, hold
from evalreg.covariance.crossed import USUAL_LEVEL, Widths
from evalreg.covariance.options import ResolvedCov
from evalreg.covariance.proportions import logit_interval
from evalreg.covariance.terms import errors_by_cell
from evalreg.data.clusters import Axis, Codes, Groups, Labels, union
from evalreg.data.engine import Query
from evalreg.data.engine_pairs import EXCHANGED, FIRST_SCORE, PairsInEngine, read_pairs_in_engine, read_summed_pairs
from evalreg.data.pairs import PairCells, PairRoles, open_pairs, read_pairs
from evalreg.data.sums import SummedLog, with_joint
from evalreg.errors import NotAvailableError
from evalreg.inference.simultaneous import adjust_pvalues
from evalreg.scores.base import Cells, CellScores, cell_sums, extremes
from evalreg.scores.engine import EngineScores, Measured
from evalreg.scores.stacking import SummedPairScores


@dataclass(frozen=True, eq=False, kw_only=True)
class Pairs(PairCells):
    """Comparisons by pair of models, scored for the first of the two; their arrays are read-only.

    Parameters
    ----------
    scores : CellScores or EngineScores
        Of the rows in their cells, fitted by the mean of each.
    sums : Cells
        Of the cells.
    axes : tuple of Axis or None
        The clusterings asked for.
    dropped : dict of str to int
        Rows dropped, by reason.
    lines : tuple of str
        What the schedule looks like, in words.
    """

    scores: CellScores | EngineScores
    sums: Cells
    axes: tuple[Axis, ...] | None
    dropped: dict[str, int]
    lines: tuple[str, ...]

    def __post_init__(self) -> None:
        hold(self)

    @property
    def mean(self) -> FloatArray:
        """psi of each cell: the mean score of its first model, shape (n_cells,)."""
        return self.scores.fitted

    @property
    def rows(self) -> CellScores:
        """The scores, of rows in memory."""
        assert isinstance(self.scores, CellScores)
        return self.scores

    def in_memory(self, what: str) -> CellScores:
        """The scores of rows in memory, which `what` needs."""
        if not isinstance(self.scores, CellScores):
            raise NotAvailableError(
                f"{what} needs rows in memory, but these rows are in an engine. Collect the columns of the sides, the "
                "verdicts, the groups and the judges, and make the board of that frame."
            )
        return self.scores

    def keys(self, *sides: IntArray) -> dict[str, Any]:
        """Names of the strata, where there are some, and of the left and right models, by column."""
        names = np.array(self.models, dtype=object)
        strata = {} if self.strata == ("",) else {"stratum": np.array(self.strata, dtype=object)[self.stratum]}
        return strata | dict(zip(("left", "right"), (names[side] for side in sides), strict=True))

    def errors(self, axes: tuple[Axis, ...], options: ResolvedCov) -> tuple[Widths, FloatArray]:
        """Errors of each cell's mean alone; NaN where a cell rests on a single cluster."""
        return errors_by_cell(self.scores, self.sums, axes, options)

    def with_labels(self, labels: Labels | None) -> Pairs:
        """The same with the cluster labels of the results that they belong to."""
        if labels is None or not isinstance(self.scores, CellScores):
            return self
        return replace(self, scores=replace(self.scores, labels=labels))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "scores": self.scores.detached()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        hold(self)


def gather_pairs(data: Any, roles: PairRoles, groups: Groups, needs_rows: str | None = None) -> Pairs:
    """Comparisons of a log, sorted into pairs of models, with the sums and the scores of the cells.

    Rows in an engine stay there, unless `needs_rows` says what needs them.
    """
    if isinstance(data, SummedLog):
        data = with_joint(data, roles.strata)
        return _of_lines(*read_summed_pairs(data, roles, groups, needs_rows), data.dropped)
    table, roles = open_pairs(data, roles, groups, needs_rows)
    if isinstance(table, Query):
        return _of_engine(read_pairs_in_engine(table, roles, groups), roles)
    cells, rows, values = read_pairs(table, roles, groups)
    sums = cell_sums(values, cells.cell, cells.first.size, rows.weights)
    scores = CellScores(values, sums.mean, rows.labels(), cells.cell, rows.weights)
    counts = {"n": np.ones(values.size), "tied": values == 0.5}
    return _pairs(cells, sums, scores, counts, rows.axes, rows.dropped)


def _pairs(
    read: PairCells,
    sums: Cells,
    scores: CellScores | EngineScores,
    counts: dict[str, Any],
    axes: tuple[Axis, ...] | None,
    dropped: dict[str, int],
) -> Pairs:
    """The cells; `counts` are rows and ties of each entry."""
    lines = _design_lines(read, sums.count, counts)
    return Pairs(**vars(read), scores=scores, sums=sums, axes=axes, dropped=dropped, lines=lines)


def _of_engine(read: PairsInEngine, roles: PairRoles) -> Pairs:
    """Rows that stay in an engine, from the sums of their kinds."""
    pairs, kinds, sums = read.pairs, read.sums, _added(read.pairs, read.sums)
    sign = np.where(pairs.swapped, -1.0, 1.0)
    moments = {"ee": kinds["wwvv"], "ed": sign * kinds["wwv"], "dd": kinds["ww"]}
    heaviest = extremes(pairs.cell, kinds["heaviest"], kinds["heaviest"], sums.count.size)[1]
    exchanged = None if roles.key else nw.col(EXCHANGED)
    scores = EngineScores(
        Measured(read.table, nw.col(FIRST_SCORE), weight=read.weight, exchanged=exchanged),
        read.cells,
        sums,
        sums.mean,
        centre=np.full(sums.count.size, 0.5),
        weighted=read.weight is not None,
        heaviest=heaviest,
        _moments=[{name: np.bincount(pairs.cell, values).astype(float) for name, values in moments.items()}],
    )
    alike = 0
    if not roles.key and (read.axes is not None or roles.strata is not None):
        n_ordered = np.unique(pairs.cell * 2 + pairs.swapped).size
        alike = scores.n_rows - (n_ordered if read.axes is None else scores.n_entries(union(*read.axes)))
    return _pairs(replace(pairs, alike=alike), sums, scores, kinds, read.axes, read.dropped)


def _of_lines(
    cells: PairCells,
    labels: dict[str, Codes],
    axes: tuple[Axis, ...] | None,
    lines: dict[str, FloatArray],
    dropped: dict[str, int],
) -> Pairs:
    """Lines that were summed of comparisons."""
    sums = _added(cells, lines)
    constant = lines["low"] == lines["high"]
    means, within = [], []
    for w, wv, wvv in (("w", "wv", "wvv"), ("ww", "wwv", "wwvv")):
        mean = np.where(constant, lines["low"], lines[wv] / lines[w] + 0.5)
        means.append(np.where(cells.swapped, 1.0 - mean, mean))
        within.append(np.where(constant, 0.0, np.maximum(lines[wvv] - lines[wv] ** 2 / lines[w], 0.0)))
    scores = SummedPairScores(
        values=means[0],
        fitted=sums.mean,
        labels=Labels(cells.cell.size, labels),
        cell=cells.cell,
        weights=lines["w"],
        within=within[0],
        count=lines["n"],
        weight2=lines["ww"],
        mean2=means[1],
        within2=within[1],
        heaviest=lines["heaviest"],
    )
    return _pairs(cells, sums, scores, lines, axes, dropped)


def _added(read: PairCells, kinds: dict[str, FloatArray]) -> Cells:
    """Sums of cells, as scores of their first models, from those of kinds or lines, v being the left score less 1/2."""
    swapped, n_cells = read.swapped, read.first.size
    turned = {**kinds, "wv": np.where(swapped, -kinds["wv"], kinds["wv"])}
    n, w, wv, wvv = (np.bincount(read.cell, turned[name], n_cells).astype(float) for name in ("n", "w", "wv", "wvv"))
    least = np.where(swapped, 1 - kinds["high"], kinds["low"])
    low, high = extremes(read.cell, least, np.where(swapped, 1 - kinds["low"], kinds["high"]), n_cells)
    return Cells.of_totals(n, w, wv + w / 2, np.maximum(wvv - wv**2 / w, 0.0), low, high)


def _design_lines(read: PairCells, count: FloatArray, counts: dict[str, Any]) -> tuple[str, ...]:
    """What the schedule of `count` comparisons of each pair looks like; `counts` are rows and ties of each entry."""
    n_models, n_strata, alike = len(read.models), len(read.strata), read.alike
    turned = np.bincount(read.cell, np.where(read.swapped, counts["n"], 0.0))
    # Shares of ties, and of rows in their pair's rarer order.
    tied, rarer = (part.sum() / count.sum() for part in (counts["tied"], np.minimum(turned, count - turned)))
    several = count.size > 1
    fewest, most = f"{np.min(count):.0f}", counted(np.max(count), "comparison")
    each = f"{most}{' each' if several else ''}"
    if fewest != f"{np.max(count):.0f}":
        each = f"{fewest} to {most} (median {np.median(count):.0f})"
    order = f"{rarer:.0%} with the models in the other order"
    if rarer == 0:
        order = f"{'each pair' if several else 'all'} in one order"
    pairs = counted(count.size, "pair") + (f" in {n_strata} strata" if n_strata > 1 else "")
    line = f"{n_models} models, {pairs} with {each}; {tied:.1%} tied, {order}."
    if not alike:
        return (line,)
    return line, (
        f"{alike} rows equal an earlier one in the models and in all columns named; name in `key` what identifies a "
        "comparison, and repeats are refused."
    )


def head_to_head(pairs: Pairs, errors: tuple[Widths, FloatArray], alpha: float | None = None) -> pd.DataFrame:
    """Table of all pairs that met, both ways round, indexed by (left, right), or (stratum, left, right).

    `alpha` adds dof and intervals on the logit scale: NaN without a standard error, and where psi is 0 or 1. `p_value`
    is of psi = 1/2.
    """
    widths, n_clusters = errors
    se, p = np.sqrt(widths.variance), widths.pvalues(pairs.mean - 0.5)
    sides = [(pairs.first, pairs.second, pairs.mean), (pairs.second, pairs.first, 1.0 - pairs.mean)]
    parts = []
    for left, right, psi in sides:
        counts = {"n": pairs.sums.count.astype(int), "n_clusters": n_clusters.astype(int)}
        columns = {"psi": psi, "se": se, **counts, "p_value": p}
        if alpha is not None:
            fraction("alpha", alpha)
            inside, ends = (se > 0) & (psi > 0) & (psi < 1), np.full((psi.size, 2), np.nan)
            half = widths.half(alpha)[inside]
            ends[inside] = logit_interval(psi[inside], se[inside], half / se[inside])
            columns |= {"dof": widths.dof(USUAL_LEVEL), "lower": ends[:, 0], "upper": ends[:, 1]}
        keys = pairs.keys(left, right)
        parts.append(pd.DataFrame({**keys, **columns}).set_index(list(keys)))
    return pd.concat(parts).sort_index()


def condorcet_cycles(table: pd.DataFrame, alpha: float) -> pd.DataFrame:
    """Cycles a beats b beats c beats a, and which of them stand once chance is allowed for.

    One row a cycle, from `head_to_head` without strata. `p_adjusted` is the largest of its edges, which are tested with
    the edges of all pairs by Holm at the family-wise level `alpha`.
    """
    fraction("alpha", alpha)
    models = list(dict.fromkeys(table.index.get_level_values("left")))
    psi = table["psi"].unstack("right").reindex(index=models, columns=models).to_numpy()
    p = table["p_value"][table.index.get_level_values("left") < table.index.get_level_values("right")]
    adjusted = pd.Series(adjust_pvalues(p.to_numpy(), "holm"), p.index).to_dict()
    rows = []
    for a, b, c in cycles_of(psi > 0.5):
        edges = [(models[a], models[b]), (models[b], models[c]), (models[c], models[a])]
        worst = float(np.max([adjusted.get(tuple(sorted(edge)), np.nan) for edge in edges]))
        values = [float(psi[i, j]) for i, j in ((a, b), (b, c), (c, a))]
        rows.append((models[a], models[b], models[c], *values, worst, bool(worst <= alpha)))
    columns = ["a", "b", "c", "psi_ab", "psi_bc", "psi_ca", "p_adjusted", "stands"]
    cycles = pd.DataFrame(rows, columns=columns).sort_values(["p_adjusted", "a", "b", "c"], ignore_index=True)
    cycles.attrs["alpha"] = alpha
    return cycles


def cycles_of(beats: Any) -> list[tuple[int, int, int]]:
    """All triples with a beats b beats c beats a, each once, its smallest number first; `beats` is (n, n)."""
    after = [beats[a + 1 :, a + 1 :] & beats[a, a + 1 :, None] & beats[a + 1 :, a] for a in range(len(beats))]
    return [(a, a + 1 + int(b), a + 1 + int(c)) for a, edges in enumerate(after) for b, c in np.argwhere(edges)]
