"""Combinations of parameters of results that were read back: what is stored of them, or follows from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray
from evalreg.covariance.crossed import NO_VARIANCE
from evalreg.errors import NotAvailableError
from evalreg.estimate.about import selects
from evalreg.inference.contrasts import Contrasts
from evalreg.numerics.student import t_pvalues, t_quantile
from evalreg.report.documents import numbers
from evalreg.report.summaries import coefficient_grid
from evalreg.report.tables import Summary
from evalreg.results.stored_tables import STATISTICS, PairTable, read_matrix

# `StoredResults`, whose module imports this one.
AnyStored: TypeAlias = Any


def combined_stored(results: AnyStored, asked: Contrasts) -> AnyStored:
    """Contrasts with the error bars that are stored, or that follow from what is."""
    rows = [_one(results, c) for c in asked.matrix]
    frame = pd.DataFrame([row for row, _ in rows], columns=list(STATISTICS))
    frame.insert(0, "parameter", list(asked.names))
    intervals = []
    for level in results.alphas:
        ends = np.array([one[level] for _, one in rows])
        intervals.append({"alpha": level, "lower": ends[:, 0].tolist(), "upper": ends[:, 1].tolist()})
    C, own = asked.matrix, results._held["covariance"]
    matrix, lost = C @ np.nan_to_num(results._matrix) @ C.T, (C != 0) @ np.isnan(np.diag(results._matrix))
    matrix[lost, :] = matrix[:, lost] = np.nan
    np.fill_diagonal(matrix, frame["se"].to_numpy() ** 2)
    naive = C @ read_matrix(own["naive"], "naive") @ C.T
    model = str(results._held["model"])
    more = {
        "covariance": {**own, "matrix": matrix.tolist(), "naive": naive.tolist(), "terms": []},
        "intervals": intervals,
        "kind": "results",
        "leaderboard": None,
        "model": model if model.startswith("Contrast of ") else f"Contrast of {model}",
        "notes": [],
        "pairs": None,
        "parameters": frame.to_dict("records"),
        "summary": None,
        "tested_against": results._held.get("tested_against", 0) if selects(C) else 0,
    }
    return replace(results, document={**results._held, **more})


def _one(results: AnyStored, c: FloatArray) -> tuple[list[float], dict[float, FloatArray]]:
    """Statistics and limits of one contrast."""
    where, values = np.flatnonzero(c), c[np.flatnonzero(c)]
    if where.size == 1 and values[0] == 1:
        row = results._statistics[list(STATISTICS)].iloc[where[0]]
        return row.tolist(), {level: ends[where[0]] for level, ends in results._ends.items()}
    if where.size == 2 and set(values) == {1.0, -1.0} and results._pairs is not None:
        return _pair(results._pairs, where, float(values[0]))
    dof = results._held["covariance"]["contrast_dof"]
    if dof is None:
        raise NotAvailableError(
            "the degrees of freedom of this combination are not stored: they are its own, and come from the rows. "
            "Single parameters and differences of two are stored. Write it with what you need: "
            'results.contrast("...").to_json(); `cov_params()` has the covariance.'
        )
    return _by_matrix(results, c, float(numbers([dof])[0]))


def _pair(pairs: PairTable, where: Any, first: float) -> tuple[list[float], dict[float, FloatArray]]:
    """A difference that is stored, turned around where it is asked the other way."""
    at = int(np.flatnonzero((pairs.places == where).all(axis=1))[0])
    row = pairs.frame[list(STATISTICS)].iloc[at].copy()
    ends = {level: one[at] for level, one in pairs.ends.items()}
    if first < 0:
        row[["estimate", "t"]] = -row[["estimate", "t"]]
        ends = {level: -one[::-1] for level, one in ends.items()}
    return row.tolist(), ends


def _by_matrix(results: AnyStored, c: FloatArray, dof: float) -> tuple[list[float], dict[float, FloatArray]]:
    """A contrast by c'Vc, with the degrees of freedom that all contrasts share."""
    where = np.flatnonzero(c)
    part, naive = c[where], read_matrix(results._held["covariance"]["naive"], "naive")[np.ix_(where, where)]
    theta = float(part @ results._statistics["estimate"].to_numpy()[where])
    variance, scale = float(part @ results._matrix[np.ix_(where, where)] @ part), part**2 @ np.diag(naive)
    se = np.sqrt(variance) if variance > NO_VARIANCE * scale else np.nan
    p = float(t_pvalues(np.array([theta / se]), np.array([dof]))[0])
    half = {level: float(t_quantile(level, np.array([dof]))[0]) * se for level in results.alphas}
    ends = {level: np.array([theta - width, theta + width]) for level, width in half.items()}
    return [theta, float(se), float(np.sqrt(part @ naive @ part)), theta / se, dof, p], ends


def short_summary(results: AnyStored, alpha: float) -> Summary:
    """A table of estimates, for combinations that were made after reading."""
    table = results.to_frame(alpha)
    tests = results._held.get("tested_against", 0) is not None
    grid = coefficient_grid(table.drop(columns="n", errors="ignore"), range(len(table)), alpha, tests)
    facts = (
        ("Score", str(results._held["score"])),
        ("Rows", str(results.nobs)),
        ("Model", str(results._held["model"])),
        ("Covariance", str(results.options["cov"])),
    )
    sentence = "Made from results that were read back from JSON, which hold the error bars but not the rows."
    return Summary("evalreg results", facts, (grid,), (sentence,))
