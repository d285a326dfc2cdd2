"""Sums of scores, read: what may not stand beside them, and one row for each model and question."""

from __future__ import annotations

from typing import Any

import pandas as pd

from evalreg.checks import listed
from evalreg.data.names import known_columns
from evalreg.data.rows import Roles
from evalreg.data.summed import SummedLog
from evalreg.data.summed_roles import ROWS, TOTAL, SummedRoles
from evalreg.errors import ArgumentError, DuplicateRowsError, NotAvailableError


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


def lines_as_rows(sums: SummedLog, model: str, item: str) -> pd.DataFrame:
    """One row for each model and question of a log that was summed by question."""
    if item not in sums.roles.labels:
        raise NotAvailableError(
            f"a comparison needs the score of each question; column {item!r} is not among the sums, which have "
            f'{listed(sums.roles.labels)}. Summarise with the questions among the groups, "{item} + ...", or take '
            f'`er.mean(sums, by="{model}", groups=...)`, whose `pairwise()` needs the sums of clusters alone.'
        )
    known_columns([model], sums.roles.labels, "model")
    refuse_repeats(sums.lines, Roles(sums.roles.outcome, (model,), item))
    rows = sums.lines[list(sums.roles.labels)].copy()
    rows[sums.roles.outcome] = sums.lines[TOTAL] / sums.lines[ROWS]
    return rows


def refuse_repeats(lines: pd.DataFrame, roles: Roles) -> None:
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
