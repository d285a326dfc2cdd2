"""The design of a regression whose rows stay in an engine: terms that are made there, and what others are by cell."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, listed
from evalreg.data.columns import as_labels, for_formula
from evalreg.data.engine import LazyTable
from evalreg.data.engine_design import DesignRows
from evalreg.data.engine_rows import refuse_arrays_of_weights
from evalreg.data.engine_terms import Factors, factors_of, number_of
from evalreg.data.formula import ParsedFormula, computed_as_floats
from evalreg.data.grammar import names_in
from evalreg.data.memory import refuse_larger
from evalreg.data.names import known_column
from evalreg.errors import FormulaError, NotAvailableError

# What learns from all rows, and would learn from cells here.
LEARNING = {"center", "standardize", "scale", "bs", "cr", "cc", "te"}
_OF_COLUMNS = {"max", "mean", "median", "min", "std", "var"}


@dataclass(frozen=True, eq=False)
class CellDesign:
    """What the columns of a design are in each cell.

    Parameters
    ----------
    names : tuple of str
        Of the columns, under statsmodels' names.
    coded : ndarray, shape (n_cells, n_parts + 1, k)
        A: a row of the design is A'u. Of columns that hold a part alone without its centre, which `shift` has.
    shift : ndarray, shape (k,)
        Centres that were taken from the columns, in units of the constant.
    constant : int
        Place of the constant; -1 without one.
    terms : tuple of (columns of labels, places of columns)
        What the columns of each term depend on beside the parts.
    """

    names: tuple[str, ...]
    coded: FloatArray
    shift: FloatArray
    constant: int
    terms: tuple[tuple[tuple[str, ...], tuple[int, ...]], ...]


def refuse_in_memory_only(
    parsed: ParsedFormula, columns: tuple[tuple[str, ...], tuple[str, ...]], weights: Any, family: Any
) -> None:
    """Raise where a regression needs more than sums by cell."""
    collect = (
        f"Collect the columns {listed(list(dict.fromkeys((*columns[0], *columns[1]))))} and those of `groups` first."
    )
    if family != "gaussian":
        raise NotAvailableError(
            f"rows in an engine can be regressed by least squares; got family={family!r}, whose weights change with "
            f"every step. {collect}"
        )
    refuse_arrays_of_weights(weights)
    learns = sorted(LEARNING & set(parsed.functions)) or sorted(_means_of_columns(parsed))
    if learns:
        raise NotAvailableError(
            f"{listed(learns)} of a formula {'learns' if len(learns) == 1 else 'learn'} from all rows, which an engine "
            f"keeps. Make that column in the engine first, or subtract a number as in I(x - 100). {collect}"
        )


def _means_of_columns(parsed: ParsedFormula) -> set[str]:
    """Functions of numpy in a formula that take a whole column to one number."""
    nodes = ast.walk(ast.parse(" + ".join(f"({code})" for code in _codes(parsed)) or "0", mode="eval"))
    return {f"np.{node.attr}" for node in nodes if isinstance(node, ast.Attribute) and node.attr in _OF_COLUMNS}


def _terms(parsed: ParsedFormula) -> list[Any]:
    import patsy

    return list(patsy.ModelDesc.from_formula(parsed.text).rhs_termlist)


def _codes(parsed: ParsedFormula) -> list[str]:
    """Code of every factor on the right side."""
    return list(dict.fromkeys(factor.code for term in _terms(parsed) for factor in term.factors))


def numbers_of(parsed: ParsedFormula, schema: Any) -> tuple[dict[str, nw.Expr], dict[str, nw.Expr], dict[str, Factors]]:
    """Factors that the engine makes, by code; the numbers that they are made of; and the products of these in terms."""
    factors = {code: one for code in _codes(parsed) if (one := number_of(code, schema)) is not None}
    own: dict[str, list[str]] = {}
    for term in _terms(parsed):
        # The lower products of a crossing are terms of their own, or come in where the constant does not.
        codes = [factor.code for factor in term.factors if factor.code in factors]
        if codes:
            own.setdefault(_called(codes), codes)
    products = {
        called: tuple(one for code in codes for one in factors_of(code, schema)) for called, codes in own.items()
    }
    numbers, there = dict[str, nw.Expr](), set[tuple[str, ...]]({()})
    for called in sorted(products, key=lambda called: len(products[called])):
        names = tuple(sorted(name for name, _ in products[called]))
        if all(names[:i] + names[i + 1 :] in there for i in range(len(names))):
            there.add(names)
            numbers |= {name: _made(name, schema) for name in names}
        else:
            # Less a centre, a product has lower ones in it: where these are no terms, it is a number of its own.
            numbers[called] = _product([factors[code] for code in own[called]])
            products[called] = ((called, 0.0),)
    return factors, numbers, products


def _made(code: str, schema: Any) -> nw.Expr:
    number = number_of(code, schema)
    assert number is not None
    return number


def _called(codes: list[str]) -> str:
    return ":".join(sorted(codes))


def _product(factors: list[nw.Expr]) -> nw.Expr:
    product = factors[0]
    for one in factors[1:]:
        product = product * one
    return product


def key_columns(parsed: ParsedFormula, numbers: dict[str, nw.Expr]) -> set[str]:
    """Columns of the factors that the engine does not make."""
    return names_in([code for code in _codes(parsed) if code not in numbers]).columns


def score_of(parsed: ParsedFormula, table: LazyTable, left: tuple[str, ...], schema: Any) -> nw.Expr:
    """The score as a column that the engine makes."""
    if parsed.outcome in left:
        table.check_numeric(known_column(parsed.outcome, table.columns, "formula"), "score")
        return nw.col(parsed.outcome).cast(nw.Float64)
    score = number_of(parsed.outcome, schema)
    if score is None:
        raise NotAvailableError(
            f"the score {parsed.outcome!r} is not a column, nor arithmetic, np.log, np.exp or np.sqrt of columns of "
            "numbers, which an engine can do. Make a column of it in the engine first, and name that."
        )
    return score


def coded_cells(
    parsed: ParsedFormula, rows: DesignRows, numbers: dict[str, nw.Expr], products: tuple[str, ...]
) -> CellDesign:
    """The columns that patsy describes, from the labels of the cells."""
    import patsy

    n_cells, n_parts = rows.count.size, len(rows.parts)
    columns: dict[str, Any] = {name: np.ones(n_cells) for name in parsed.covariate_names}
    for name in rows.labels.columns:
        column = rows.labels[name]
        if pd.api.types.infer_dtype(column) == "date":  # as frames in memory have them
            column = pd.to_datetime(column)
        columns[name] = as_labels(for_formula(column, name, name in parsed.plain), name in parsed.whole)
    # As in memory, where patsy takes names of levels from pandas.
    data = computed_as_floats(parsed, pd.DataFrame(columns, index=range(n_cells)))
    description = patsy.ModelDesc([], _terms(parsed))
    try:
        with np.errstate(all="ignore"):
            info = patsy.incr_dbuilder(description, lambda: iter([data]), eval_env=0)
            values = {factor: _evaluated(factor, of, data, numbers) for factor, of in info.factor_infos.items()}
    except patsy.PatsyError as error:
        raise FormulaError(f"`formula` cannot be evaluated: {error}") from None
    names = tuple(info.column_names)
    n_products = (n_parts + 1) * (n_parts + 2) // 2
    refuse_larger(
        8.0 * n_cells * n_products * (len(names) ** 2 + 1) * 2,
        f"{parsed.text!r} has {len(names):,} columns, which for {n_cells:,} joint values of "
        f"{listed(rows.labels.columns)}",
        "Leave out or merge levels.",
    )
    return _columns(names, info, values, rows, numbers, products)


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


def _columns(
    names: tuple[str, ...],
    info: Any,
    values: dict[Any, Any],
    rows: DesignRows,
    numbers: dict[str, nw.Expr],
    products: tuple[str, ...],
) -> CellDesign:
    """The columns of the design one by one, of the values of factors in the cells."""
    coded, shift = np.zeros((rows.count.size, len(rows.parts) + 1, len(names))), np.zeros(len(names))
    constant = names.index("Intercept") if "Intercept" in names else -1
    plain = np.eye(1, len(rows.parts) + 1)[0]
    terms, place = [], 0
    for term, subterms in info.term_codings.items():
        start = place
        for subterm in subterms:
            own = [factor.code for factor in subterm.factors if factor.code in numbers]
            made = rows.maps[products.index(_called(own))] if own else plain
            for column in columns_of(subterm, values):
                coded[:, :, place] = np.multiply.outer(np.asarray(column), made)
                if own and constant >= 0 and bool(np.all(np.asarray(column) == 1.0)):
                    shift[place], coded[:, 0, place] = made[0], 0.0
                place += 1
        others = names_in([factor.code for factor in term.factors if factor.code not in numbers]).columns
        terms.append((tuple(sorted(others)), tuple(range(start, place))))
    return CellDesign(names, coded, shift, constant, tuple(terms))


def _evaluated(factor: Any, of: Any, data: pd.DataFrame, numbers: dict[str, nw.Expr]) -> Any:
    """A factor in the cells: codes of its levels, or numbers; 1 for what the engine makes."""
    from patsy.categorical import categorical_to_int

    if factor.code in numbers:
        return 1.0
    value = factor.eval(of.state, data)
    if of.type == "categorical":
        import patsy

        return np.asarray(categorical_to_int(value, of.categories, patsy.NAAction(on_NA="raise")))
    column = np.asarray(value, dtype=np.float64)
    if column.ndim > 1:
        raise FormulaError(f"the term {factor.code!r} must be one column of numbers; it gave {column.shape[1]}.")
    if not np.isfinite(column).all():
        raise FormulaError(
            f"terms of the formula must be finite; {factor.code!r} is not, in {np.sum(~np.isfinite(column))} of "
            f"{column.size} joint values of the covariates. Leave such rows out, or change the transformation."
        )
    return column
