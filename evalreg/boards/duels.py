"""The comparisons behind a board, pair by pair: errors, cycles, and the judge and prompt of each comparison."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray, fraction, hold, listed
from evalreg.covariance.options import ResolvedCov
from evalreg.covariance.special import FEW_CLUSTERS, LARGEST_SINGLE, sparsity
from evalreg.covariance.terms import CellErrors, assemble, errors_by_cell
from evalreg.data.clusters import Axis, Codes, Labels, as_codes, axis_name, known_column, no_source, parse_groups
from evalreg.errors import ArgumentError, DataError, NotAvailableError, Note, TooFewClustersError, issue
from evalreg.estimate import Cells, Estimate, Refit
from evalreg.inference.dependence import correlation_columns, refuse_without_clusters, sums_of_cells
from evalreg.inference.simultaneous import adjust_pvalues
from evalreg.inference.wald import t_pvalues
from evalreg.numerics.matrices import Matrix, scale_columns
from evalreg.numerics.moments import icc_of
from evalreg.numerics.student import logit_interval
from evalreg.scores.base import CellSums, cell_sums
from evalreg.scores.cells import GONE, CellScores, SummedPairScores
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


PROMPT: Axis = ("prompt",)
"""What the clusters are called in here, whatever their columns."""

Errors: TypeAlias = tuple[FloatArray, FloatArray]
"""Standard errors and degrees of freedom."""


@dataclass(frozen=True, eq=False)
class JudgedRows:
    """Comparisons with their judges and prompts, pairs of models pooled over the strata of the board."""

    # Names, sorted as text.
    models: tuple[str, ...]
    judges: tuple[str, ...]
    # The models of each pair, first before second.
    first: IntArray
    second: IntArray
    # Pair and judge of each row.
    pair: IntArray
    judge: IntArray
    prompt: Codes
    # Scores of the first model of the pair.
    values: FloatArray
    # 1 where the first model was shown on the left, -1 where on the right.
    side: FloatArray
    weights: FloatArray | None = None

    @property
    def n_rows(self) -> int:
        """Comparisons."""
        return int(self.values.size)

    @property
    def n_pairs(self) -> int:
        """Pairs of models that met."""
        return int(self.first.size)

    @property
    def unit(self) -> Codes:
        """The (prompt, pair) of each row."""
        return as_codes(pd.factorize(self.prompt.codes * np.int64(self.n_pairs) + self.pair)[0].astype(np.intp))


def judged_rows(duels: Duels, judge: str, prompt: str) -> JudgedRows:
    """The comparisons of a board with the judge and prompt of each: columns, or several joined by colons."""
    scores = duels.scores
    if not isinstance(scores, CellScores):
        raise NotAvailableError(
            "comparing judges needs rows in memory, but these rows are in an engine. Collect the columns of the sides, "
            f"{judge!r}, {prompt!r} and those of the verdicts and groups, and make the board of that frame."
        )
    if isinstance(scores, SummedPairScores):
        raise NotAvailableError(GONE.format(what="comparing judges"))
    labels = scores.labels
    judges, prompts = (
        labels.codes(_axis(name, argument, labels)) for name, argument in ((judge, "judge"), (prompt, "prompt"))
    )
    if judges.n_clusters < 2:
        raise NotAvailableError(
            f'`judge="{judge}"` must have at least 2 distinct values for judges to be set against each other; all '
            f'{judges.codes.size} rows are by "{judges.label(0)}". What one judge says is the board itself: summary(), '
            "ranks() and head_to_head() remain available.",
            column=judge,
            count=1,
        )
    if prompts.n_clusters < 2:
        raise TooFewClustersError(
            f'`prompt="{prompt}"` must have at least 2 distinct values for error bars; it has 1 in '
            f"{prompts.codes.size} rows. Name the column of the prompts.",
            column=prompt,
            count=1,
        )
    names = [judges.label(code) for code in range(judges.n_clusters)]
    alike = [name for name in dict.fromkeys(names) if names.count(name) > 1] if len(set(names)) < len(names) else []
    if alike:
        raise DataError(
            f"judges' names must be distinct as text; different values of {judge!r} all read {listed(alike)}. Convert "
            "the column to one type first.",
            column=judge,
            count=len(alike),
        )
    order = sorted(range(len(names)), key=names.__getitem__)
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    size = len(duels.models)
    pairs, number = np.unique(duels.first * size + duels.second, return_inverse=True)
    cell = np.zeros(scores.n_rows, dtype=np.intp) if scores.cell is None else scores.cell
    return JudgedRows(
        models=duels.models,
        judges=tuple(names[code] for code in order),
        first=pairs // size,
        second=pairs % size,
        pair=number[cell],
        judge=rank[judges.codes],
        prompt=Codes(prompts.codes, prompts.n_clusters),
        values=scores.values,
        side=np.where(duels.swapped, -1.0, 1.0),
        weights=scores.weights,
    )


def _axis(name: str, argument: str, labels: Labels) -> Axis:
    """The columns that a name stands for."""
    if name not in labels.columns and hasattr(name, "partition"):
        if ":" in name and "+" not in name:
            for column in name.replace("`", "").split(":"):
                known_column(column.strip(), labels.columns, argument)
            (axis,) = parse_groups(name, labels.columns)
            return axis
        if "+" in name:
            raise ArgumentError(
                f'`{argument}` must name one clustering, a column or several joined by colons; got "{name}", which '
                "crosses two."
            )
        if labels.source is None:
            raise no_source(name, tuple(labels.held))
    return (known_column(name, labels.columns, argument),)


def means_by_cell(
    values: FloatArray, cell: IntArray, n_cells: int, prompt: IntArray, options: ResolvedCov, weights: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean of each cell by itself, with its standard error and degrees of freedom by prompt.

    Errors are NaN where a cell rests on one prompt, or where its values do not vary. Every cell has rows.
    """
    sums = cell_sums(values, cell, n_cells, weights)
    mean = np.where(sums.low == sums.high, sums.low, sums.total / sums.weight)
    return mean, *cell_errors(values, mean, sums, cell, prompt, options, weights)


def cell_errors(
    values: FloatArray,
    fitted: FloatArray,
    sums: CellSums,
    cell: IntArray,
    prompt: IntArray,
    options: ResolvedCov,
    weights: FloatArray | None,
) -> Errors:
    """Standard errors and degrees of freedom by prompt of cells with given fitted values.

    NaN where a cell rests on one prompt, or where its values do not vary.
    """
    labels = Labels(values.size, {PROMPT[0]: as_codes(prompt)})
    scores = CellScores(values, fitted, labels, cell, weights)
    zeros = np.zeros(fitted.size, dtype=np.intp)
    cells = Duels((), ("",), zeros, zeros, zeros, scores, sums.count, sums.weight, None)
    errors = duel_errors(cells, (PROMPT,), options, values.size)
    se, dof = errors.se.copy(), errors.dof.copy()
    return se, dof


def mapped_means(
    values: FloatArray,
    cell: IntArray,
    coefficients: Matrix,
    prompt: IntArray,
    options: ResolvedCov,
    weights: FloatArray | None,
) -> tuple[FloatArray, Errors]:
    """Linear functions of the means of cells, with errors by prompt; coefficients (n_params, n_cells).

    Errors are NaN where more than 2% of the weight lies on cells that rest on one prompt, whose residuals are zero by
    construction.
    """
    n_params, n_cells = coefficients.shape
    sums = cell_sums(values, cell, n_cells, weights)
    mean = np.where(sums.low == sums.high, sums.low, sums.total / sums.weight)
    params, unknown = np.asarray(coefficients @ mean), np.full(n_params, np.nan)
    prompts = as_codes(prompt)
    if prompts.n_clusters < 2 or not np.any(_on_single_prompts(coefficients, cell, prompts) <= LARGEST_SINGLE):
        return params, (unknown, unknown)
    estimate = Estimate(
        names=tuple(map(str, range(n_params))),
        params=params,
        scores=CellScores(values, mean, Labels(values.size, {PROMPT[0]: prompts}), cell, weights),
        bread=scale_columns(coefficients, 1.0 / sums.weight).T.tocsr(),
        kind="mean",
        coefficient_map=coefficients,
        refit=Refit(1.0 / sums.weight),
        cells=Cells(sums.count, sums.weight, mean, sums.squares, sums.low, sums.high),
    )
    found = sparsity(estimate, PROMPT)
    known = ~(found.unsafe if prompts.n_clusters >= FEW_CLUSTERS else found.single > LARGEST_SINGLE)
    if not known.any():
        return params, (unknown, unknown)
    chosen = estimate.select([name for name, is_known in zip(estimate.names, known, strict=True) if is_known])
    cov = assemble(chosen, (PROMPT,), options)
    variance, dof = cov.variance(), cov.dof()
    se, all_dof = unknown.copy(), unknown.copy()
    se[known] = np.sqrt(np.where(variance > 0, variance, np.nan))
    all_dof[known] = np.where(variance > 0, dof, np.nan)
    return params, (se, all_dof)


def _on_single_prompts(coefficients: Matrix, cell: IntArray, prompts: Codes) -> FloatArray:
    """Share of the weight of each function on cells that rest on one prompt, shape (n_params,)."""
    keys = np.unique(cell * np.int64(prompts.n_clusters) + prompts.codes)
    lone = np.bincount(keys // prompts.n_clusters, minlength=coefficients.shape[1]) == 1
    weights = abs(coefficients)
    total = np.asarray(weights.sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.asarray(weights @ lone.astype(float)) / np.maximum(total, 1e-300))


def adjusted_tests(estimate: FloatArray, errors: Errors, alpha: float) -> tuple[FloatArray, FloatArray, BoolArray]:
    """p-values of zero, by themselves and by Holm over all that have one, and which stand at the family-wise level.

    NaN where there is no error.
    """
    p = t_pvalues(estimate / errors[0], errors[1])
    adjusted = adjust_pvalues(p, "holm")
    return p, adjusted, adjusted <= alpha
