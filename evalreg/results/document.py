"""What is kept of results in JSON: all that can be said of them without the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from evalreg.checks import accessing, fraction, muted
from evalreg.covariance.covariance import Covariance
from evalreg.data.clusters import axis_name
from evalreg.errors import ArgumentError, EvalregError
from evalreg.inference.intervals import tested_against
from evalreg.inference.simultaneous import Seed
from evalreg.report.documents import SCHEMA_VERSION, as_json, records, versions

# `Results`, whose module imports this one.
AnyResults: TypeAlias = Any

# Of so many parameters the differences of all pairs are kept; there are n (n - 1)/2.
MOST_PAIRED = 64


def results_document(
    results: AnyResults,
    alphas: Sequence[float],
    printed: Any = None,
    table: pd.DataFrame | None = None,
    board: pd.DataFrame | None = None,
) -> dict[str, Any]:
    """Everything that is kept.

    `printed` is what has the summary, `table` its rows (indexed as it indexes them), `board` the leaderboard.
    """
    cov, alpha = results.cov, alphas[0]
    with muted():
        summary, whole = ((printed or results).summary(alpha, details=details) for details in (False, True))
        frame = results.to_frame(alpha)
    more = {name: frame[name].array for name in ("naive_se", "t", "design_effect", "n_eff")}
    rows = (frame if table is None else table.reset_index().assign(**more)).reset_index(drop=True)
    rows.insert(0, "parameter", list(results.estimate.names))
    categories = {text: category.__name__ for category, text in results.notes}
    return {
        "covariance": _covariance(cov),
        "dropped": {str(reason): int(count) for reason, count in results.dropped.items()},
        "formula": results.estimate.about.formula,
        "intervals": _ends(results, alphas),
        "kind": "results" if board is None else "board",
        "model": results.estimate.about.model,
        "n_clusters": results.n_clusters,
        "nobs": results.nobs,
        "notes": [{"text": text, "warning": categories.get(text)} for text in whole.sentences],
        "options": resolved_options(cov),
        "pairs": None if table is not None else _pairs(results, alphas),
        "parameters": rows.to_dict("records"),
        "schema_version": SCHEMA_VERSION,
        "score": results.estimate.about.outcome,
        "seed": None if board is None else board.attrs["seed"],
        "summary": asdict(summary),
        "tested_against": tested_against(results.estimate),
        "versions": versions(),
    } | ({} if board is None else {"leaderboard": records(board, "model")})


def resolved_options(cov: Covariance) -> dict[str, Any]:
    """Options of a covariance as they were resolved; None for what has no bearing on it."""
    return {
        "cov": cov.options.cov,
        "dof": cov.options.dof,
        "groups": " + ".join(map(axis_name, cov.axes)) or None,
        "repair": cov.options.repair if cov.crossed else None,
        "ssc": cov.options.ssc if cov.options.kind.takes_ssc else None,
    }


def _ends(results: AnyResults, alphas: Sequence[float]) -> list[dict[str, Any]]:
    """Intervals of all parameters at each level."""
    intervals = []
    with muted():
        for alpha in alphas:
            ends = results.conf_int(alpha)
            intervals.append({"alpha": alpha, "lower": ends[0].to_list(), "upper": ends[1].to_list()})
    return intervals


def _covariance(cov: Covariance) -> dict[str, Any]:
    """The matrix, and the terms that it is made of."""
    terms = [
        {
            "clusters": term.name,
            "dof": term.dof(np.eye(len(cov.names))).tolist(),
            "matrix": term.matrix.tolist(),
            "n_clusters": term.n_clusters,
            "sign": term.sign,
        }
        for term in (cov.pieces if cov.crossed else ())
    ]
    return {"matrix": cov.matrix.tolist(), "naive": cov.naive.tolist(), "terms": terms}


def _pairs(results: AnyResults, alphas: Sequence[float]) -> list[dict[str, Any]] | None:
    """Differences of all pairs as `pairwise` has them at each level, column by column."""
    if not 2 <= len(results._compared[0]) <= MOST_PAIRED:
        return None
    with muted():
        try:
            tables = [results.pairwise(alpha=alpha) for alpha in alphas]
        except EvalregError:
            # Parameters that have no differences, such as ends of intervals that were inverted.
            return None
    columns = (table.reset_index().to_dict("list") for table in tables)
    return [{"alpha": alpha, **by_name} for alpha, by_name in zip(alphas, columns, strict=True)]


def board_of(results: AnyResults, alpha: float, seed: Seed) -> tuple[pd.DataFrame | None, str]:
    """The leaderboard of several models; where they have none, why not."""
    if results.estimate.about.n_models < 2:
        return None, ""
    with muted():
        try:
            return results.leaderboard(alpha, seed), ""
        except EvalregError as error:
            return None, str(error)


def checked_levels(alpha: float | Sequence[float]) -> tuple[float, ...]:
    """One level or several, each once."""
    levels = tuple(alpha) if isinstance(alpha, list | tuple | np.ndarray) else (alpha,)
    for level in levels:
        fraction("alpha", level)
    if not levels:
        raise ArgumentError("`alpha` must be a level such as 0.05, or a list of levels; got an empty list.")
    return tuple(dict.fromkeys(map(float, levels)))


def written(document: Mapping[str, Any], path: Any) -> str:
    """The document as text, in a file too where one is named."""
    text = as_json(document)
    if path is not None:
        with accessing("path", path):
            Path(path).write_text(text + "\n", encoding="utf-8", newline="\n")
    return text
