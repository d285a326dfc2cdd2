"""The rows of a regression with absorbed factors: in use, with their levels, and none of them alone in a level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, MissingName, listed
from evalreg.data.clusters import Axis, Codes, as_codes, axis_name, joint
from evalreg.data.formula import ParsedFormula, absorbed_factors, design_frame, formula_columns, refuse_large_design
from evalreg.data.frame import Table
from evalreg.data.groups import Groups
from evalreg.data.rows import ReadRows, read_rows
from evalreg.errors import EmptyDataError, FormulaError


@dataclass(frozen=True, eq=False)
class AbsorbedRows:
    """The rows in use, none alone in a level."""

    rows: ReadRows
    frame: pd.DataFrame  # columns of the formula
    factors: tuple[Axis, ...]
    codes: tuple[Codes, ...]


def read_absorbed(
    parsed: ParsedFormula, table: Table, groups: Groups, weights: Any, missing: MissingName
) -> AbsorbedRows:
    """Rows with a score, covariates, levels and clusters; those alone in a level tell nothing and are left out."""
    if not parsed.has_constant:
        raise FormulaError(
            f'`formula` leaves out the constant, which absorbed factors contain; got {parsed.text!r}. Leave out "0 +" '
            'or "- 1".'
        )
    if parsed.intercept_only:
        raise FormulaError(
            f"`formula` has nothing to estimate: the absorbed {parsed.absorbed!r} contains the constant. Name a "
            f'covariate before the bar, or write "{parsed.outcome} ~ 1" for the mean.'
        )
    left, right = formula_columns(parsed, table.columns)
    factors = absorbed_factors(parsed.absorbed, table.columns)
    for name in (name for factor in factors for name in factor):
        if name in left:
            raise FormulaError(f'`formula` absorbs "{name}", which is its score.')
    plain = parsed.outcome in left
    rows = read_rows(
        table,
        {"score": parsed.outcome} if plain else {},
        present={"score": () if plain else left, "covariate": right},
        labels={name: "formula" for factor in factors for name in factor},
        weights=weights,
        groups=groups,
        missing=missing,
        split=(*right, *(name for factor in factors for name in factor)),
    )
    kept = _not_alone(_codes(rows, factors))
    if kept is not None and not kept.any():
        names = listed([axis_name(factor) for factor in factors])
        raise EmptyDataError(
            f"every one of the {rows.n_rows} rows is alone in a level of the absorbed {names}, so that nothing is left "
            "to compare. Absorb a column whose values recur, or name it in `groups` instead.",
            count=rows.n_rows,
        )
    if kept is not None:
        rows = rows.only(kept, "singleton")
    frame = design_frame(rows, (*left, *right), parsed)
    refuse_large_design(parsed, frame, max((len(rows.used[name].labels) for name in rows.held), default=0))
    return AbsorbedRows(rows, frame, factors, _codes(rows, factors))


def _codes(rows: ReadRows, factors: tuple[Axis, ...]) -> tuple[Codes, ...]:
    made = (joint([rows.used[name] for name in factor]) for factor in factors)
    return tuple(as_codes(one.codes, one.labels) if not one.parts else one for one in made)


def _not_alone(factors: Sequence[Codes]) -> BoolArray | None:
    """Rows that are not alone in a level, shape (n_rows,): those that are go, until none is; None if all stay."""
    kept = np.ones(factors[0].codes.size, dtype=bool)
    while True:
        single = np.zeros_like(kept)
        for factor in factors:
            counts = np.bincount(factor.codes[kept], minlength=factor.n_clusters)
            single |= counts[factor.codes] == 1
        single &= kept
        if not single.any():
            return None if kept.all() else kept
        kept &= ~single
