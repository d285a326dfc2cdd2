"""From a formula to a fit: the design, the family, and the rows or sums that it needs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, IntArray, listed
from evalreg.choices import FamilyName
from evalreg.data.clusters import ordered
from evalreg.data.designs import TERMS, DesignColumns, evaluating, refuse_nonfinite
from evalreg.data.formula import ParsedFormula, terms_of
from evalreg.data.frame import refuse_extreme
from evalreg.errors import ConstantScoreError, ConvergenceError, DataError, FormulaError, NotAvailableError
from evalreg.estimators.cells import refuse_values
from evalreg.numerics.fitting import MOST_STEPS, SEPARATED, STILL
from evalreg.results.bridge import from_statsmodels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from statsmodels.genmod.families import Family as Family

    from evalreg.estimate import Estimate
else:
    Family = Any


def estimate_of_family(model: Any, columns: FloatArray, formula: str) -> Estimate:
    """The Estimate of a statsmodels GLM with any family and link, fitted until it stands still.

    `columns` are orthonormal and span those of the model.
    """
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
    refuse_separated(weight, columns, formula, words)
    return from_statsmodels(result)


def refuse_separated(weight: FloatArray, columns: FloatArray, formula: str, words: str = "") -> None:
    """Raise where a coefficient rests on rows that are fitted without error alone: it would grow without bound.

    `columns` are orthonormal, so that their squares leave digits enough to tell the rank of some of their rows.
    """
    inside = weight > SEPARATED * np.max(weight, initial=0.0)
    part = columns[inside]
    if not np.isfinite(weight).all() or (
        not inside.all() and np.linalg.matrix_rank(part.T @ part, hermitian=True) < part.shape[1]
    ):
        raise separated(formula, words)


def separated(formula: str, words: str = "") -> ConvergenceError:
    """The error for covariates that separate the outcomes; `words` name another family and its link."""
    return ConvergenceError(
        f"the covariates of {formula!r} separate the outcomes perfectly, or predict some with certainty, so that no "
        f"finite estimate exists{f' with {words}' if words else ''}. Drop the covariate or level that separates them"
        f"{'' if words else ', or use family=' + repr('gaussian')}."
    )


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
    classes = [family.capitalize()] if isinstance(family, str) else [base.__name__ for base in type(family).__mro__]
    known = next((RANGES[class_name] for class_name in classes if class_name in RANGES), None)
    if known is None:
        raise NotAvailableError(f"the range of scores of {classes[0]} is not known; fit it with statsmodels.")
    low, high, rule = known
    argument = f'`family="{family}"`' if isinstance(family, str) else f"`family`, {classes[0]},"
    do = "Rescale them, or choose another family."
    refuse_values((values < low) | (values > high), values, name, f"{argument} needs scores that {rule}", do)
    if np.all(values == values[0]):
        raise ConstantScoreError(
            f"`score` must vary; {name!r} is {values[0]:g} in every row, so that there is no error bar.", column=name
        )


@dataclass(frozen=True, eq=False)
class Design:
    """The score, and a design whose column i is coding[cell, i] times one of the numbers.

    Parameters
    ----------
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
    outcome : ndarray, shape (n_rows,)
        The score.
    outcome_name : str
        What statsmodels calls it.
    """

    names: tuple[str, ...]
    cell: IntArray | None
    coding: FloatArray
    numbers: tuple[FloatArray, ...]
    part: IntArray
    products: tuple[tuple[str, ...], ...]
    terms: tuple[frozenset[str], ...]
    outcome: FloatArray = field(default_factory=lambda: np.zeros(0))
    outcome_name: str = ""

    @property
    def rows(self) -> FloatArray:
        """The design as a new array, shape (n_rows, k), each column in one piece of memory."""
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

    @cached_property
    def ends(self) -> FloatArray:
        """The smallest and the largest of each of the numbers, shape (n_numbers, 2)."""
        return np.array([(number.min(), number.max()) for number in self.numbers]).reshape(-1, 2)

    def check(self) -> None:
        """Raise where there are too few rows, or where entries are extreme."""
        n, k = self.outcome.size, len(self.names)
        if n <= k:
            raise DataError(f"there must be more rows than coefficients; got {n} rows and {k} coefficients.", count=n)
        ends = [np.ones(2), *self.ends]
        for name, codes, part in zip(self.names, self.coding.T, self.part, strict=True):
            refuse_extreme(np.multiply.outer(np.array([codes.min(), codes.max()]), ends[part]).ravel(), name, TERMS)


def evaluated(parsed: ParsedFormula, data: DesignColumns) -> Design:
    """The design of a formula; names in it are columns, or numpy as np. Refuses terms that are not finite."""
    import patsy

    columns = {name: _array(parsed, name, column) for name, column in data.items()}
    with evaluating():
        left, right = patsy.incr_dbuilders(terms_of(parsed.text), lambda: iter([columns]), eval_env=0)
        values = [
            {factor: _values(factor, info, columns) for factor, info in side.factor_infos.items()}
            for side in (left, right)
        ]
    score = _coded(left, values[0])
    if len(score.names) != 1 or not score.numbers:
        rule = f"the left side of {parsed.text!r} must be one column of numbers; it makes {listed(score.names)}"
        (first, info), *_ = left.factor_infos.items()
        truth = f"1 * {first.code.removeprefix('I')}" if info.categories == (False, True) else "1 * (COLUMN == VALUE)"
        raise FormulaError(f"{rule}. What is true counts 1, and what is not 0, of I({truth}).")
    design = replace(_coded(right, values[1]), outcome=score.numbers[0], outcome_name=score.names[0])
    numbers = ((design.names[np.argmax(design.part == j)], z) for j, z in enumerate(design.numbers, 1))
    refuse_nonfinite([(design.outcome_name, design.outcome), *numbers])
    return design


def _array(parsed: ParsedFormula, name: str, column: pd.Series[Any]) -> Any:
    """Numbers or categories; whole numbers that are levels alone as categories, over whose rows patsy need not walk."""
    if name in parsed.whole - parsed.plain and column.dtype.kind == "i":
        return pd.Categorical(column)
    if column.dtype == np.float64 and name in parsed.plain - parsed.factors:
        return column.to_numpy()  # which patsy takes out of a Series each time that it looks at it
    # A Series gives patsy levels as Python writes them: C(x)[T.1.0], and not what NumPy calls a number.
    return column.array if isinstance(column.dtype, pd.CategoricalDtype) else column


def _values(factor: Any, info: Any, columns: dict[Any, Any]) -> Any:
    """Numbers of a factor, or the codes of its levels."""
    import patsy
    from patsy.categorical import categorical_to_int

    value = factor.eval(info.state, columns)
    if info.type == "categorical":
        boxed = getattr(value, "data", None)  # by C(...), whose categories patsy walks over
        value = boxed if isinstance(boxed, pd.Categorical) and tuple(boxed.categories) == info.categories else value
        value = categorical_to_int(value, info.categories, patsy.NAAction(on_NA="raise"))
    return np.asarray(value)


def _coded(side: Any, values: dict[Any, Any]) -> Design:
    """The columns that patsy describes, as codings of cells and numbers of rows."""
    factors = [factor for factor, info in side.factor_infos.items() if info.type == "categorical"]
    cell, n_cells, level = None, 1, dict[Any, IntArray]()
    for factor in factors:
        n_levels, codes = len(side.factor_infos[factor].categories), values[factor]
        # Of one factor in the few bytes that its codes have.
        present, cell = ordered(codes if cell is None else cell.astype(np.int64) * n_levels + codes)
        before, level[factor] = np.divmod(present, n_levels)
        level |= {other: codes_of[before] for other, codes_of in level.items() if other is not factor}
        n_cells = present.size
    columns, numbers = list[FloatArray](), dict[Any, FloatArray]()
    part, terms = list[int](), list[frozenset[str]]()
    for subterm in (subterm for codings in side.term_codings.values() for subterm in codings):
        for coding, operands in _columns_of(subterm, level, side.factor_infos):
            if operands and operands not in numbers:
                several = (values[f] if values[f].ndim == 1 else values[f][:, at] for f, at in operands)
                numbers[operands] = np.ascontiguousarray(reduce(np.multiply, several), dtype=np.float64)
            columns.append(np.broadcast_to(coding, (n_cells,)))
            part.append(1 + list(numbers).index(operands) if operands else 0)
            terms.append(frozenset(factor.code for factor in subterm.factors if factor in level))
    return Design(
        names=tuple(side.column_names),
        cell=cell,
        coding=np.column_stack(columns) if columns else np.zeros((n_cells, 0)),
        numbers=tuple(numbers.values()),
        part=np.array(part, np.intp),
        products=tuple(tuple(factor.code for factor, _ in operands) for operands in numbers),
        terms=tuple(terms),
    )


def _columns_of(subterm: Any, level: dict[Any, IntArray], infos: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Of each column of a term, of the first factor fastest, the coding of the cells and the columns of numbers."""
    coded = subterm.contrast_matrices
    widths = [coded[f].matrix.shape[1] if f in coded else infos[f].num_columns for f in subterm.factors]
    for last_first in product(*(range(width) for width in reversed(widths))):
        coding, operands = np.ones(1), []
        for factor, place in zip(subterm.factors, reversed(last_first), strict=True):
            if factor in coded:
                coding = coding * coded[factor].matrix[:, place][level[factor]]
            else:
                operands.append((factor, place))
        yield coding, tuple(sorted(operands, key=lambda operand: (operand[0].code, operand[1])))


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
