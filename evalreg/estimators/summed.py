"""Means of a log that is known by its sums."""

from __future__ import annotations

from dataclasses import replace
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
from evalreg.data.summed_roles import HIGH, LOW, ROWS, SQUARES, TOTAL, SummedRoles
from evalreg.errors import ArgumentError, DuplicateRowsError, NotAvailableError, Note, UnequalQuestionsWarning
from evalreg.estimate import About, Estimate
from evalreg.estimators.cells import Solve, estimate_sums
from evalreg.scores.summed import SummedScores
from evalreg.scores.sums import CellSums


def refuse_beside_sums(sums: SummedLog, score: str, given: dict[str, Any]) -> None:
    """Raise where an argument needs rows, or names another score, or the sums are of something else."""
    scores_of(sums)
    if score != sums.roles.outcome:
        raise ArgumentError(f'`score` must be the score that was summed, "{sums.roles.outcome}"; got "{score}".')
    asked = [name for name, value in given.items() if value is not None]
    if asked:
        raise NotAvailableError(
            f"{listed(asked)} {'needs' if len(asked) == 1 else 'need'} rows, which a log of sums no longer "
            "has: give them to `summarise`, or take the log itself."
        )


def scores_of(sums: SummedLog) -> SummedRoles:
    """The roles of sums of scores; raises where they are of something else."""
    if not isinstance(sums.roles, SummedRoles):
        raise NotAvailableError(
            f"this log holds sums of {sums.roles.what}, and no scores of single ones: {sums.roles.takers}."
        )
    return sums.roles


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
        _refuse_repeats(lines, roles)
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
    estimate = estimate_sums(keys, CellSums(count, count, whole, spread, low, high), scores, roles, solve, about, axes)
    return replace(estimate, dropped=sums.dropped), axes


def lines_as_rows(sums: SummedLog, model: str, item: str) -> pd.DataFrame:
    """One row for each model and question of a log that was summed by question."""
    if item not in sums.roles.labels:
        raise NotAvailableError(
            f"a comparison needs the score of each question; column {item!r} is not among the sums, which have "
            f'{listed(sums.roles.labels)}. Summarise with the questions among the groups, "{item} + ...", or take '
            f'`er.mean(sums, by="{model}", groups=...)`, whose `pairwise()` needs the sums of clusters alone.'
        )
    known_columns([model], sums.roles.labels, "model")
    _refuse_repeats(sums.lines, Roles(sums.roles.outcome, (model,), item))
    rows = sums.lines[list(sums.roles.labels)].copy()
    rows[sums.roles.outcome] = sums.lines[TOTAL] / sums.lines[ROWS]
    return rows


def unequal_questions(sums: SummedLog, by: tuple[str, ...]) -> list[Note]:
    """A warning where models answered different questions, as the hashes of these tell."""
    if not sums.roles.hashed or by != sums.roles.by or sums.questions["hash"].nunique() == 1:
        return []
    n = sums.questions["n"]
    text = (
        f"models answered different questions ({n.min()} to {n.max()} of them; their hashes differ), so that "
        "differences between them are partly differences between questions. Summarise the questions that all answered."
    )
    return [(UnequalQuestionsWarning, text)]


def _coded(labels: pd.Series) -> tuple[Any, int, Any]:
    codes, names = factorize(labels)
    return codes, len(names), names


def _refuse_repeats(lines: pd.DataFrame, roles: Roles) -> None:
    """One row for each model and question."""
    key = [*roles.by, str(roles.item)]
    rows = lines.groupby(key, sort=False)[ROWS].sum()
    if (rows > 1).any():
        shown = [":".join(one) if isinstance(one, tuple) else str(one) for one in rows.index[rows > 1][:3]]
        raise DuplicateRowsError(
            f"there must be one row for each {' and '.join(map(repr, key))}; {int((rows - 1).sum())} repeat an earlier "
            f"one, such as of {listed(shown)}. Average answers before they are summed.",
            column=str(roles.item),
            count=int((rows - 1).sum()),
        )
