"""Dependence by name: how alike the rows of a cluster are, with an interval, beside what that does to the errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, IntArray, fraction
from evalreg.covariance.covariance import Covariance
from evalreg.data.clusters import Axis, axis_name
from evalreg.errors import NotAvailableError, Note, ZeroVarianceWarning, issue
from evalreg.estimate import Estimate
from evalreg.inference.dependence import intraclass_correlation, residual_parts, row_variance, standard_error_ratios
from evalreg.numerics.matrices import Matrix, compressed, dense, scale_columns
from evalreg.numerics.moments import ClusterSums, icc_interval
from evalreg.scores.base import Scores

TOGETHER = "together"
COLUMNS = ["n_clusters", "mean_size", "icc", "lower", "upper", "implied", "design_effect", "se_ratio"]


def dependence_table(estimate: Estimate, cov: Covariance, alpha: float) -> pd.DataFrame:
    """The table of `Results.dependence`, one row for each clustering and parameter."""
    alpha = fraction("alpha", alpha)
    refuse_without_clusters(cov.axes)
    ratios, names = standard_error_ratios(cov), list(estimate.names)
    notes: list[Note] = []
    parts: dict[str, pd.DataFrame] = {}
    for axis in cov.axes:
        name = axis_name(axis)
        sums, icc = cluster_sums(estimate, axis), intraclass_correlation(estimate, axis)
        part, found = correlation_columns(sums, icc, alpha, name, names)
        parts[name] = part.assign(design_effect=ratios[name] ** 2, se_ratio=ratios[name])
        notes += found
    if cov.crossed:
        ratio = ratios[TOGETHER]
        parts[TOGETHER] = pd.DataFrame({"design_effect": ratio**2, "se_ratio": ratio}).reindex(columns=COLUMNS)
    issue(notes)
    return pd.concat(parts, names=["clusters", "parameter"])


def refuse_without_clusters(axes: tuple[Axis, ...]) -> None:
    """Raise where rows are independent."""
    if not axes:
        raise NotAvailableError(
            "`dependence` says how alike rows of a cluster are, and these results have no clusters. Pass "
            'groups="column" to the estimate or to `with_cov`.'
        )


def correlation_columns(
    sums: ClusterSums | None, icc: FloatArray, alpha: float, name: str, index: Any
) -> tuple[pd.DataFrame, tuple[Note, ...]]:
    """Clusters, sizes, correlations with their intervals and the design effects they imply; what to warn of."""
    empty = np.full(icc.size, np.nan)
    lower, upper = empty, empty
    notes: tuple[Note, ...] = ()
    if sums is not None and sums.square is not None:
        lower, upper = icc_interval(sums, alpha)
        lower, upper = (np.where(np.isfinite(icc), end, np.nan) for end in (lower, upper))
    without = int(np.count_nonzero(np.isfinite(icc) & np.isnan(lower)))
    if without:
        # Of a regression of rows in an engine there are residuals of clusters, and no sums of cells.
        rows_away = sums is None or sums.square is None
        why = (
            "its rows are in an engine, which was asked for sums within clusters only. Collect the frame for them"
            if rows_away
            else "leaving out one cluster leaves no variation between clusters or within them, or too few clusters"
        )
        text = f"{without} of {icc.size} intraclass correlations by {name} have no interval: {why}."
        notes = ((ZeroVarianceWarning, text),)
    size = empty if sums is None else sums.mean_size
    columns = {
        "n_clusters": empty if sums is None else np.where(sums.add() > 0, sums.add(), np.nan),
        "mean_size": size,
        "icc": icc,
        "lower": lower,
        "upper": upper,
        "implied": 1 + (size - 1) * icc,
    }
    return pd.DataFrame(columns, index=index), notes


def cluster_sums(estimate: Estimate, axis: Axis) -> ClusterSums | None:
    """Sums within clusters of the rows that the intraclass correlation of each parameter is of; None without one."""
    scores, cells, A = estimate.scores, estimate.cells, estimate.coefficient_map
    of_residuals = [(part, part.residual, own) for part, own in residual_parts(estimate) if part.residual is not None]
    if of_residuals:
        sums = [_of_residuals(part, left, axis, np.flatnonzero(own)) for part, left, own in of_residuals]
        column, size, total, square = (np.concatenate(one) for one in zip(*sums, strict=True))
        return ClusterSums(column, estimate.n_params, size, total, square)
    if cells is None or A is None:
        return None
    if estimate.kind == "board":
        return sums_of_cells(scores, cells.count / cells.weight, axis, compressed(A).sign())
    if row_variance(estimate) is None:
        return None
    own = compressed((dense(A) != 0).astype(float))
    return sums_of_cells(scores.as_means, cells.count / cells.weight, axis, own)


def sums_of_cells(scores: Scores, scale: FloatArray, axis: Axis, side: Matrix) -> ClusterSums:
    """Sums of cells, each with the sign that `side` (m, n_cells) gives it; `scale` makes weights count as rows."""
    signs, m, first = compressed(side).T.tocsr(), side.shape[0], 0
    found = scores.squares_in_cells(axis)
    squares = None if found is None else compressed(scale_columns(compressed(found), scale)) @ abs(signs)
    parts: list[tuple[FloatArray, ...]] = []
    for block in scores.cells(axis):
        sizes = compressed(scale_columns(block.gram, scale)) @ abs(signs)
        totals = compressed(scale_columns(block.totals, scale)) @ signs
        keys, size = _entries(sizes, m)
        keys, size = keys[size > 0], size[size > 0]
        parts.append((keys + first * m, size, _at(_entries(totals, m), keys)))
        first += sizes.shape[0]
    key, size, total = (np.concatenate(one) for one in zip(*parts, strict=True))
    square = None if squares is None else _at(_entries(squares, m), key)
    return ClusterSums(key % m, m, size, total, square)


def _entries(matrix: Matrix, m: int) -> tuple[IntArray, FloatArray]:
    """Entries of a sparse matrix in the order of their places, row * m + column."""
    entries = matrix.tocoo()
    row, column = entries.coords
    keys = row.astype(np.intp) * m + column
    order = np.argsort(keys, kind="stable")
    return keys[order], np.asarray(entries.data[order], dtype=np.float64)


def _at(entries: tuple[IntArray, FloatArray], keys: IntArray) -> FloatArray:
    """Values of a sparse matrix at some places, zero where it holds none."""
    own, values = entries
    if not own.size:
        return np.zeros(keys.size)
    place = np.minimum(np.searchsorted(own, keys), own.size - 1)
    return np.where(own[place] == keys, values[place], 0.0)


def _of_residuals(scores: Scores, residual: FloatArray, axis: Axis, columns: IntArray) -> tuple[Any, ...]:
    """Columns, sizes, sums and squares of the residuals of a regression, the same for each of its coefficients."""
    labels = scores.row_labels()
    assert labels is not None
    codes, residual = labels.codes(axis), residual - residual.mean()
    one = (codes.counts.astype(float), np.bincount(codes.codes, residual), np.bincount(codes.codes, residual**2))
    return np.repeat(columns, codes.n_clusters), *(np.tile(values, columns.size) for values in one)
