"""From a formula to a fit: the design, the family, and the rows or sums that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from evalreg.checks import FamilyName, FloatArray, IntArray
from evalreg.data.clusters import as_codes, pair_codes, rows_where
from evalreg.data.formula import ParsedFormula, whole_column
from evalreg.data.frame import refuse_extreme
from evalreg.errors import (
    ConstantScoreError,
    ConvergenceError,
    DataError,
    FormulaError,
    NonFiniteError,
    NotAvailableError,
    ScoreRangeError,
)
from evalreg.numerics.fitting import MOST_STEPS, SEPARATED, STILL
from evalreg.results.bridge import from_statsmodels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from statsmodels.genmod.families import Family as Family

    from evalreg.estimate import Estimate
else:
    Family = Any


def estimate_of_family(model: Any, formula: str) -> Estimate:
    """The Estimate of a statsmodels GLM with any family and link, fitted until it stands still."""
    family = model.family
    words = f"{type(family).__name__} and its {type(family.link).__name__.lower()} link"
    check_outcomes(model.endog, str(model.endog_names), family)
    try:
        with np.errstate(all="ignore"):
            result = model.fit(tol=STILL, tol_criterion="params", maxiter=MOST_STEPS)
    # A warning is one where filters make errors of them.
    except (ValueError, FloatingPointError, np.linalg.LinAlgError, Warning) as error:
        raise ConvergenceError(f"the fit of {formula!r} with {words} failed: {error}.") from None
    weight = np.asarray(family.weights(result.fittedvalues), dtype=np.float64)
    inside = weight > SEPARATED * np.max(weight, initial=0.0)
    part = model.exog[inside] / np.max(np.abs(model.exog), axis=0)
    if not np.isfinite(weight).all() or np.linalg.matrix_rank(part) < part.shape[1]:
        raise ConvergenceError(
            f"the covariates of {formula!r} separate the outcomes perfectly, or predict some with certainty, so that "
            f"no finite estimate exists with {words}. Drop the covariate or level that separates them."
        )
    return from_statsmodels(result)


# In which outcomes of a family lie: from here on, and up to there.
RANGES = {
    "Gaussian": (-np.inf, np.inf, ""),
    "Binomial": (0.0, 1.0, "lie in [0, 1]"),
    "Gamma": (np.nextafter(0.0, 1.0), np.inf, "are positive"),
    "InverseGaussian": (np.nextafter(0.0, 1.0), np.inf, "are positive"),
    "Poisson": (0.0, np.inf, "are not negative"),
    "NegativeBinomial": (0.0, np.inf, "are not negative"),
    "Tweedie": (0.0, np.inf, "are not negative"),
}


def check_outcomes(values: FloatArray, name: str, family: FamilyName | Family) -> None:
    """Raise where outcomes are not in the range of the family, or do not vary."""
    classes = [family.capitalize()] if isinstance(family, str) else [one.__name__ for one in type(family).__mro__]
    known = next((RANGES[one] for one in classes if one in RANGES), None)
    if known is None:
        raise NotAvailableError(f"the range of scores of {classes[0]} is not known; fit it with statsmodels.")
    low, high, rule = known
    wrong = (values < low) | (values > high)
    if wrong.any():
        rows = rows_where(wrong)
        asked = f'`family="{family}"`' if isinstance(family, str) else f"`family`, {classes[0]},"
        raise ScoreRangeError(
            f"{asked} needs scores that {rule}; {name!r} is {values[rows.first[0]]:g} in {rows} of those in use.",
            column=name,
            rows=rows,
        )
    if np.all(values == values[0]):
        raise ConstantScoreError(
            f"`score` must vary; {name!r} is {values[0]:g} in every row, so that there is no error bar.", column=name
        )


@dataclass(frozen=True, eq=False)
class Design:
    """The score, and a design whose column i is coding[cell, i] times one of the numbers.

    Parameters
    ----------
    outcome : ndarray, shape (n_rows,)
        The score.
    outcome_name : str
        What statsmodels calls it.
    names : tuple of str
        Of the columns, under statsmodels' names.
    cell : ndarray of int, shape (n_rows,), or None
        Joint level of the factors; None without any.
    coding : ndarray, shape (n_cells, k)
        What patsy codes the levels as.
    numbers : tuple of ndarray, shape (n_rows,)
        Products of numeric factors.
    part : ndarray of int, shape (k,)
        Which of the numbers, counted from 1; 0 of factors alone.
    products : tuple of tuple of str
        Codes of the factors that are multiplied in each of the numbers.
    terms : tuple of frozenset of str, each of k
        Codes of the categorical factors of the term of each column.
    """

    outcome: FloatArray
    outcome_name: str
    names: tuple[str, ...]
    cell: IntArray | None
    coding: FloatArray
    numbers: tuple[FloatArray, ...]
    part: IntArray
    products: tuple[tuple[str, ...], ...] = ()
    terms: tuple[frozenset[str], ...] = ()

    @cached_property
    def rows(self) -> FloatArray:
        """The design as an array, shape (n_rows, k), each column in one piece of memory."""
        rows = np.empty((self.outcome.size, len(self.names)), order="F")
        for i, part in enumerate(self.part):
            rows[:, i] = self.coding[0, i] if self.cell is None else self.coding[:, i][self.cell]
            if part:
                rows[:, i] *= self.numbers[part - 1]
        return rows

    @property
    def constant(self) -> int:
        """Place of a column that is 1 in every row; -1 without one."""
        ones = np.flatnonzero((self.part == 0) & np.all(self.coding == 1.0, axis=0))
        return int(ones[0]) if ones.size else -1

    def check(self) -> None:
        """Raise where there are too few rows, or where entries are extreme."""
        n, k = self.outcome.size, len(self.names)
        if n <= k:
            raise DataError(f"there must be more rows than coefficients; got {n} rows and {k} coefficients.", count=n)
        ends = [np.ones(2), *(np.array([number.min(), number.max()]) for number in self.numbers)]
        for name, codes, part in zip(self.names, self.coding.T, self.part, strict=True):
            refuse_extreme(np.multiply.outer(np.array([codes.min(), codes.max()]), ends[part]).ravel(), name, TERMS)


TERMS = "terms of the formula"


def evaluated(parsed: ParsedFormula, data: pd.DataFrame) -> Design:
    """The design of a formula; names in it are columns, or numpy as np. Refuses terms that are not finite."""
    import patsy

    try:
        with np.errstate(all="ignore"):
            design = _of_columns(parsed, data) or _of_terms(parsed, data)
    except FormulaError:
        raise
    except patsy.PatsyError as error:
        raise nonfinite(parsed.text, data) or FormulaError(f"`formula` cannot be evaluated: {error}") from None
    except Exception as error:
        # What is written in a formula is the user's code, and may raise anything.
        text = f"`formula` cannot be evaluated: {type(error).__name__}: {error}"
        raise nonfinite(parsed.text, data) or FormulaError(text) from None
    if not all(np.isfinite(column.sum()) for column in (design.outcome, *design.numbers)):
        raise nonfinite(parsed.text, data) or NonFiniteError(f"{TERMS} must be finite, and so must their sums.")
    return design


def _of_columns(parsed: ParsedFormula, data: pd.DataFrame) -> Design | None:
    """Of columns of numbers and labels as they are, without patsy's walk over the labels of rows; None if unsure."""
    if not (parsed.columns_only and all(map(_is_plain, data.dtypes))):
        return None
    if not isinstance(data[parsed.outcome_names[0]].dtype, np.dtype):
        return None
    columns = {name: _array(parsed, data[name]) for name in data.columns}
    kinds = tuple((name, _levels(column)) for name, column in columns.items())
    left, right = _described(parsed.text, kinds)
    values = {}
    for factor, info in right.factor_infos.items():
        column = columns[whole_column(factor.code)]
        if info.type == "categorical":
            if not isinstance(column, pd.Categorical) or tuple(column.categories) != info.categories:
                return None
            values[factor] = np.asarray(column.codes)
        else:
            values[factor] = np.asarray(column)
    outcome = np.ascontiguousarray(columns[parsed.outcome_names[0]], dtype=np.float64)
    return _coded(outcome, left.column_names[0], right, values)


def _of_terms(parsed: ParsedFormula, data: pd.DataFrame) -> Design:
    """Of any formula, its factors evaluated by patsy."""
    import patsy
    from patsy.categorical import categorical_to_int

    left, right = patsy.incr_dbuilders(parsed.text, lambda: iter([data]), eval_env=0)
    keep_all = patsy.NAAction(on_NA="raise", NA_types=[])
    (outcome,) = patsy.build_design_matrices([left], data, NA_action=keep_all)
    if outcome.shape[1] != 1:
        raise FormulaError(
            f"the left side of {parsed.text!r} must be one column of numbers; it gave {outcome.shape[1]}."
        )
    values = {}
    for factor, info in right.factor_infos.items():
        value = factor.eval(info.state, data)
        if info.type == "categorical":
            value = categorical_to_int(value, info.categories, patsy.NAAction(on_NA="raise"))
        values[factor] = np.asarray(value)
    return _coded(np.array(outcome[:, 0], dtype=np.float64), left.column_names[0], right, values)


def _coded(outcome: FloatArray, outcome_name: str, right: Any, values: dict[Any, Any]) -> Design:
    """The columns that patsy describes, as codings of cells and numbers of rows."""
    factors = [factor for factor, info in right.factor_infos.items() if info.type == "categorical"]
    cell, n_cells = None, 1
    for factor in factors:
        levels, own = len(right.factor_infos[factor].categories), values[factor].astype(np.intp, copy=False)
        joint = as_codes(own) if cell is None else pair_codes(cell, n_cells, own, levels)
        cell, n_cells = joint.codes, joint.n_clusters
    level = {factor: np.zeros(n_cells, np.intp) for factor in factors}
    for factor, of_cell in level.items():
        of_cell[cell] = values[factor]
    columns, numbers = list[FloatArray](), dict[Any, FloatArray]()
    part, place, terms = list[int](), dict[Any, int](), list[frozenset[str]]()
    for subterm in (subterm for codings in right.term_codings.values() for subterm in codings):
        for coding, own in _columns_of(subterm, level, right.factor_infos):
            if own and own not in place:
                place[own] = len(place) + 1
                several = (values[factor] if values[factor].ndim == 1 else values[factor][:, at] for factor, at in own)
                numbers[own] = np.ascontiguousarray(reduce(np.multiply, several), dtype=np.float64)
            columns.append(np.broadcast_to(coding, (n_cells,)))
            part.append(place.get(own, 0))
            terms.append(frozenset(one.code for one in subterm.factors if one in level))
    coding = np.column_stack(columns) if columns else np.zeros((n_cells, 0))
    names = tuple(right.column_names)
    products = tuple(tuple(factor.code for factor, _ in own) for own in numbers)
    of = tuple(numbers.values()), np.array(part, np.intp), products, tuple(terms)
    return Design(outcome, outcome_name, names, cell, coding, *of)


def _columns_of(subterm: Any, level: dict[Any, IntArray], infos: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Of each column of a term, of the first factor fastest, the coding of the cells and the columns of numbers."""
    coded = subterm.contrast_matrices
    widths = [coded[one].matrix.shape[1] if one in coded else infos[one].num_columns for one in subterm.factors]
    for last_first in product(*(range(width) for width in reversed(widths))):
        coding, own = np.ones(1), []
        for factor, place in zip(subterm.factors, reversed(last_first), strict=True):
            if factor in coded:
                coding = coding * coded[factor].matrix[:, place][level[factor]]
            else:
                own.append((factor, place))
        yield coding, tuple(sorted(own, key=lambda one: (one[0].code, one[1])))


def _is_plain(dtype: Any) -> bool:
    """Whether a column is of numbers, or of labels in no order."""
    return dtype.char in "dlqi" if isinstance(dtype, np.dtype) else isinstance(dtype, pd.CategoricalDtype)


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
    columns: dict[str, Any] = {name: np.zeros(n) for name, _ in kinds}
    for name, levels in kinds:
        if levels is not None:
            names = pd.Index([level for level, _, _ in levels], dtype=object)
            columns[name] = pd.Categorical.from_codes(np.arange(n) % len(levels), names)
    return tuple(patsy.incr_dbuilders(text, lambda: iter([columns]), eval_env=0))


def _array(parsed: ParsedFormula, column: pd.Series[Any]) -> Any:
    """Numbers, or categories, without an index; whole numbers that are levels alone as categories."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.array
    if column.name in parsed.whole - parsed.plain and column.dtype.kind == "i":
        return pd.Categorical(column.to_numpy())
    return column.to_numpy()


def statsmodels_model(formula: str, data: pd.DataFrame, weights: FloatArray | None, family: FamilyName | Any) -> Any:
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


def nonfinite(formula: str, data: pd.DataFrame) -> NonFiniteError | None:
    """Name the term of a formula that is not finite, and its rows; None if all are."""
    import patsy

    keep_all = patsy.NAAction(on_NA="drop", NA_types=[])
    try:
        with np.errstate(all="ignore"):
            sides = patsy.dmatrices(formula, data, eval_env=0, NA_action=keep_all, return_type="dataframe")
    except Exception:  # said where the design is made
        return None
    for name, column in ((name, side[name].to_numpy()) for side in sides for name in side.columns):
        wrong = ~np.isfinite(column)
        if wrong.any():
            rows = rows_where(wrong)
            return NonFiniteError(
                f"{TERMS} must be finite; {name!r} is missing or infinite in {rows} of those in use. "
                "Leave such rows out, or change the transformation.",
                column=str(name),
                rows=rows,
            )
    return None
