"""What a formula makes of the rows in use: outcome and columns, and, when asked for, the statsmodels model of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from evalreg.checks import FamilyName, FloatArray
from evalreg.data.formula import ParsedFormula, whole_column
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.errors import FormulaError, NonFiniteError
from evalreg.estimators.families import Family
from evalreg.numerics.fitting import Fitted
from evalreg.results.statsmodels_results import shown_fit

# What patsy says of a formula is kept where its columns of labels have no more levels.
MOST_LEVELS_KEPT = 64


@dataclass(frozen=True, eq=False)
class Design:
    """Outcome, shape (n_rows,), and columns, shape (n_rows, k), under statsmodels' names, and its model where made."""

    endog: FloatArray
    exog: FloatArray
    endog_names: str
    exog_names: tuple[str, ...]
    model: Any = None


@dataclass(frozen=True, eq=False)
class ShownFit:
    """Makes the statsmodels fit that shows what evalreg solved, when it is asked for."""

    formula: str
    data: pd.DataFrame
    weights: FloatArray | None
    family: FamilyName
    solved: Fitted
    model: Any = None

    def __call__(self) -> Any:
        """Return the fit."""
        return self._made

    @cached_property
    def _made(self) -> Any:
        model = self.model
        if model is None:
            with np.errstate(all="ignore"):
                model = statsmodels_model(self.formula, self.data, self.weights, self.family)
        return shown_fit(model, self.solved)


def evaluated(
    parsed: ParsedFormula, data: pd.DataFrame, weights: FloatArray | None, family: FamilyName | Family
) -> Design:
    """The design of a formula; names in it are columns, or numpy as np. Refuses terms that are not finite."""
    import patsy
    from statsmodels.tools.sm_exceptions import MissingDataError

    try:
        with np.errstate(all="ignore"):
            design = _of_columns(parsed, data) if _columns_only(parsed, data) else None
            if design is None:
                model = statsmodels_model(parsed.text, data, weights, family)
                names = tuple(map(str, model.exog_names))
                design = Design(model.endog, model.exog, str(model.endog_names), names, model)
    except (patsy.PatsyError, MissingDataError) as error:
        problem = _nonfinite(parsed.text, data) or FormulaError(f"`formula` cannot be evaluated: {error}")
        raise problem from None
    except Exception as error:
        # What is written in a formula is the user's code, and may raise anything.
        text = f"`formula` cannot be evaluated: {type(error).__name__}: {error}"
        problem = _nonfinite(parsed.text, data) or FormulaError(text)
        raise problem from None
    if not (np.isfinite(design.endog.sum()) and np.isfinite(design.exog.sum())):
        # statsmodels looks for missing values and plus infinity only.
        raise _nonfinite(parsed.text, data) or NonFiniteError(
            "terms of the formula must be finite, and so must their sums."
        )
    if design.endog.ndim != 1:
        raise FormulaError(
            f"the left side of {parsed.text!r} must be one column of numbers; it gave {design.endog.shape[1]}."
        )
    return design


def _columns_only(parsed: ParsedFormula, data: pd.DataFrame) -> bool:
    """Whether a formula takes columns of numbers and of labels as they are."""
    return (
        parsed.columns_only
        and all(map(_is_plain, data.dtypes))
        and isinstance(data[parsed.outcome_names[0]].dtype, np.dtype)
    )


def _is_plain(dtype: Any) -> bool:
    """Whether a column is of numbers, or of labels in no order."""
    if isinstance(dtype, np.dtype):
        return dtype.char in "dlqi"
    return isinstance(dtype, pd.CategoricalDtype)


def _of_columns(parsed: ParsedFormula, data: pd.DataFrame) -> Design | None:
    """The columns that patsy describes, made one by one: patsy itself walks over the labels of rows; None if unsure."""
    columns = {name: _array(parsed, data[name]) for name in data.columns}
    kinds = tuple((name, _levels(column)) for name, column in columns.items())
    few = all(levels is None or len(levels) <= MOST_LEVELS_KEPT for _, levels in kinds)
    left, right = (_described if few else _described.__wrapped__)(parsed.text, kinds)
    values = {}
    for factor, info in right.factor_infos.items():
        column = columns[whole_column(factor.code)]
        if info.type == "categorical":
            if not isinstance(column, pd.Categorical) or tuple(column.categories) != info.categories:
                return None
            values[factor] = np.asarray(column.codes)
        else:
            values[factor] = np.asarray(column, dtype=np.float64)
    # In the order of memory that a frame has: products of other orders are rounded otherwise.
    design = np.empty((len(data), len(right.column_names)), order="F")
    subterms = (subterm for codings in right.term_codings.values() for subterm in codings)
    made = (column for subterm in subterms for column in columns_of(subterm, values))
    for place, column in enumerate(made):
        design[:, place] = column
    outcome = np.ascontiguousarray(columns[parsed.outcome_names[0]], dtype=np.float64)
    return Design(outcome, design, left.column_names[0], tuple(right.column_names))


Levels: TypeAlias = tuple[tuple[Any, type, str], ...] | None
"""Levels of a column with their types and how they read, as 1 and 1.0 are equal; None for a column of numbers."""


def _levels(column: Any) -> Levels:
    if not isinstance(column, pd.Categorical):
        return None
    return tuple((level, type(level), str(level)) for level in column.categories)


@lru_cache(maxsize=64)
def _described(text: str, kinds: tuple[tuple[str, Levels], ...]) -> tuple[Any, Any]:
    """What patsy makes of a formula of columns as they are: of their names, and of the levels of those of labels.

    It is asked with a few rows of its own, so that what is kept holds no data.
    """
    import patsy

    n = max([len(levels) for _, levels in kinds if levels is not None], default=1)
    columns = {name: np.zeros(n) if levels is None else _one_row_a_level(levels, n) for name, levels in kinds}
    return tuple(patsy.incr_dbuilders(text, lambda: iter([columns]), eval_env=0))


def _one_row_a_level(levels: tuple[tuple[Any, type, str], ...], n: int) -> pd.Categorical:
    names = pd.Index([level for level, _, _ in levels], dtype=object)
    return pd.Categorical.from_codes(np.arange(n) % len(levels), names)


def columns_of(subterm: Any, values: dict[Any, Any]) -> Iterator[FloatArray | float]:
    """Products of the columns of the factors of a term, of the first factor fastest."""
    coded = subterm.contrast_matrices
    widths = [coded[factor].matrix.shape[1] if factor in coded else 1 for factor in subterm.factors]
    for last_first in product(*(range(width) for width in reversed(widths))):
        column: FloatArray | float = 1.0
        for factor, place in zip(subterm.factors, reversed(last_first), strict=True):
            one = values[factor]
            column = column * (np.ascontiguousarray(coded[factor].matrix[:, place])[one] if factor in coded else one)
        yield column


def _array(parsed: ParsedFormula, column: pd.Series[Any]) -> Any:
    """Numbers, or categories, without an index; whole numbers that are levels alone as categories."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.array
    if column.name in parsed.whole - parsed.plain and column.dtype.kind == "i":
        return pd.Categorical(column.to_numpy())
    return column.to_numpy()


def statsmodels_model(formula: str, data: pd.DataFrame, weights: FloatArray | None, family: FamilyName | Family) -> Any:
    """The statsmodels model; missing values were dropped and counted before, any that a transformation makes raise."""
    import statsmodels.api as sm
    import statsmodels.formula.api as smf

    if family == "gaussian" and weights is None:
        return smf.ols(formula, data, missing="raise", eval_env=0)
    if family == "gaussian":
        return smf.wls(formula, data, weights=weights, missing="raise", eval_env=0)
    families = {"binomial": sm.families.Binomial, "poisson": sm.families.Poisson}
    chosen = families[family]() if isinstance(family, str) else family
    return smf.glm(formula, data, family=chosen, var_weights=weights, missing="raise", eval_env=0)


def _nonfinite(formula: str, data: pd.DataFrame) -> NonFiniteError | None:
    """Name the term of a formula that is not finite, and its rows; None if all are."""
    import patsy

    keep_all = patsy.NAAction(on_NA="drop", NA_types=[])
    try:
        with np.errstate(all="ignore"):
            sides = patsy.dmatrices(formula, data, eval_env=0, NA_action=keep_all, return_type="dataframe")
    except patsy.PatsyError:
        return None
    for name, column in ((name, side[name].to_numpy()) for side in sides for name in side.columns):
        wrong = ~np.isfinite(column)
        if wrong.any():
            rows, count = row_list(wrong)
            return NonFiniteError(
                f"terms of the formula must be finite; {name!r} is missing or infinite in {rows_text(rows, count)} of "
                "those in use. Leave such rows out, or change the transformation.",
                column=str(name),
                rows=rows,
                count=count,
            )
    return None
