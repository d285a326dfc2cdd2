"""Means of a log that is known by its sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import listed
from evalreg.data.cells import cells_of
from evalreg.data.clusters import Axis, Codes, factorize
from evalreg.data.groups import Groups, parse_groups
from evalreg.data.labels import Labels
from evalreg.data.names import known_columns
from evalreg.data.rows import Roles
from evalreg.data.summed import SummedLog
from evalreg.data.summed_roles import HIGH, LOW, ROWS, SQUARES, TOTAL
from evalreg.data.summed_scores import refuse_repeats
from evalreg.errors import NotAvailableError, Note, UnequalQuestionsWarning
from evalreg.estimate import About, Estimate
from evalreg.estimators.cells import Solve, estimate_sums
from evalreg.scores.summed import SummedScores
from evalreg.scores.sums import CellSums


def summed_estimate(
    sums: SummedLog, roles: Roles, groups: Groups, solve: Solve, about: About
) -> tuple[Estimate, tuple[Axis, ...] | None]:
    """Sums of the cells, and the scores that give their covariance, of any labels that the log was summed by."""
    lines, known = sums.lines, sums.roles.labels
    known_columns(list(roles.cell_columns) or None, known, "by")
    if roles.item is not None and roles.item not in known:
        raise NotAvailableError(
            f"questions of column {roles.item!r} are not among the sums, which have {listed(known)}. Leave `item` out "
            f'and name clusters in `groups`, or summarise with the questions among the groups, "{roles.item} + ...".'
        )
    axes = None if groups is None else parse_groups(groups, known)
    used = {name: Codes(*_coded(lines[name])) for name in known}
    keys, cell = cells_of(used, roles.cell_columns)
    code, n = np.zeros(len(lines), dtype=np.intp) if cell is None else cell, max(len(keys), 1)
    rows, total, squares = (lines[name].to_numpy(dtype=float) for name in (ROWS, TOTAL, SQUARES))
    if roles.item is not None:
        refuse_repeats(lines, roles)
    count, whole = (np.bincount(code, one, n).astype(float) for one in (rows, total))
    means, fitted = total / rows, whole / count
    low, high = np.full(n, np.inf), np.full(n, -np.inf)
    np.minimum.at(low, code, lines[LOW].to_numpy(dtype=float))
    np.maximum.at(high, code, lines[HIGH].to_numpy(dtype=float))
    away = np.bincount(code, squares + rows * (means - fitted[code]) ** 2, n)
    spread = np.asarray(np.where(low == high, 0.0, away), dtype=np.float64)
    # Where all scores of a cell are alike, its mean is exactly these.
    fitted = np.where(low == high, low, fitted)
    means = np.where(lines[LOW] == lines[HIGH], lines[LOW], means)
    scores = SummedScores(means, fitted, Labels(len(lines), used), cell, rows, within=squares)
    made = CellSums(count, count, whole, spread, low, high)
    return estimate_sums(keys, made, scores, roles, solve, about, axes, sums.dropped), axes


def unequal_questions(sums: SummedLog, by: tuple[str, ...]) -> list[Note]:
    """A warning where models answered different questions, as the hashes of these tell."""
    if not sums.roles.hashed or by != sums.roles.by or sums.questions["hash"].nunique() == 1:
        return []
    n = sums.questions["n"]
    how_many = f"{n.min()} to {n.max()} of them" if n.min() < n.max() else f"{n.min()} each"
    text = (
        f"models answered different questions ({how_many}; their hashes differ), so that "
        "differences between them are partly differences between questions. Summarise the questions that all answered."
    )
    return [(UnequalQuestionsWarning, text)]


def _coded(labels: pd.Series) -> tuple[Any, int, Any]:
    codes, names = factorize(labels)
    return codes, len(names), names
