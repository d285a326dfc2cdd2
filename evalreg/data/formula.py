"""Formulas: parsed by patsy, with the columns that they use."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray
from evalreg.data.bar import split_bar
from evalreg.data.columns import as_labels, for_formula
from evalreg.data.grammar import names_in, without_backticks
from evalreg.data.memory import DESIGNS, GRAMS, refuse_larger
from evalreg.data.names import no_column
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.data.rows import ReadRows
from evalreg.errors import ArgumentTypeError, FormulaError, NonFiniteError

# Below so many combinations of levels, columns are not counted before they are made.
MANY_LEVELS = 200


@dataclass(frozen=True)
class ParsedFormula:
    """A formula and the names in it.

    Parameters
    ----------
    text : str
        The formula.
    outcome : str
        Code of its left side, or the column that it quotes.
    outcome_names, covariate_names : tuple of str
        Columns on each side.
    intercept_only : bool
        Whether the right side is 1.
    functions : tuple of str
        Functions of patsy that it uses, and "np".
    has_constant : bool
        Whether the right side has a constant.
    plain : frozenset of str
        Columns that are used outside of ``C(...)``.
    factors : frozenset of str
        Columns that are used inside.
    columns_only : bool
        Whether the left side is a column, and each factor on the right a column or ``C(...)`` of one.
    whole : frozenset of str
        Columns that are factors as they are, bare or first in ``C(...)``, and occur nowhere else.
    absorbed : str
        What is behind the bar; the text ends before it.
    """

    text: str
    outcome: str
    outcome_names: tuple[str, ...]
    covariate_names: tuple[str, ...]
    intercept_only: bool
    functions: tuple[str, ...] = ()
    has_constant: bool = True
    plain: frozenset[str] = frozenset()
    factors: frozenset[str] = frozenset()
    columns_only: bool = False
    whole: frozenset[str] = frozenset()
    absorbed: str = ""


def parse_formula(formula: object) -> ParsedFormula:
    """Parse a formula by patsy, check that it says only what a formula may, and collect the names that it uses.

    As in ``score ~ C(model) * length``, with backticks or Q("...") around a name with a space.
    """
    if not isinstance(formula, str):
        raise ArgumentTypeError(f'`formula` must be a string such as "score ~ 1"; got {type(formula).__name__}.')
    return _parsed(formula)


@lru_cache(maxsize=64)
def _parsed(formula: str) -> ParsedFormula:
    """The same of a text; kept, since one formula is often fitted to many frames."""
    import patsy

    formula, absorbed = split_bar(formula)
    formula = without_backticks(formula)
    try:
        description = patsy.ModelDesc.from_formula(formula)
    except patsy.PatsyError as error:
        raise FormulaError(f"`formula` does not parse: {error}") from None
    except SyntaxError as error:
        raise FormulaError(_syntax_message(formula, error)) from None
    except (AssertionError, MemoryError, RecursionError, ValueError) as error:
        raise FormulaError(f"`formula` does not parse ({type(error).__name__}): {formula[:200]!r}.") from None
    left = [factor.code for term in description.lhs_termlist for factor in term.factors]
    right = [factor.code for term in description.rhs_termlist for factor in term.factors]
    if len(left) != 1:
        raise FormulaError(f'`formula` must have one score on the left of "~"; got {formula!r}. Write "score ~ 1".')
    if not description.rhs_termlist:
        raise FormulaError(f'`formula` has nothing on the right of "~"; got {formula!r}. Write "{left[0]} ~ 1".')
    try:
        outcome, covariates = names_in(left), names_in(right)
    except SyntaxError as error:
        raise FormulaError(_syntax_message(formula, error)) from None
    return ParsedFormula(
        formula,
        _column_of(left[0]),
        tuple(sorted(outcome.columns)),
        tuple(sorted(covariates.columns)),
        description.rhs_termlist == [patsy.desc.INTERCEPT],
        tuple(sorted(outcome.functions | covariates.functions)),
        patsy.desc.INTERCEPT in description.rhs_termlist,
        frozenset(outcome.plain | covariates.plain),
        frozenset(covariates.factors),
        left[0] in outcome.columns and all(map(whole_column, set(right))),
        _whole(left + right),
        absorbed,
    )


def whole_column(code: str) -> str:
    """The column that a factor is, bare or first in ``C(...)`` with no other column in it; else empty."""
    node = ast.parse(code, mode="eval").body
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "C" and node.args:
        node = node.args[0]
    column = node.id if isinstance(node, ast.Name) else _column_of(ast.unparse(node))
    return column if names_in([code]).columns == {column} else ""


def _whole(codes: list[str]) -> frozenset[str]:
    """Columns that some factors are and that no other factor uses."""
    used = [(whole_column(code), names_in([code]).columns) for code in codes]
    others = set().union(*(columns for column, columns in used if not column))
    return frozenset(column for column, _ in used if column) - others


def _column_of(code: str) -> str:
    """The name inside Q("..."), where that is all; otherwise the code."""
    node = ast.parse(code, mode="eval").body
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Q" and len(node.args) == 1:
        quoted = node.args[0]
        return str(quoted.value) if isinstance(quoted, ast.Constant) else code
    return code


def _syntax_message(formula: str, error: SyntaxError) -> str:
    """The formula with a caret under the place that Python does not understand."""
    start = max(formula.find((error.text or "").strip()), 0) + max((error.offset or 1) - 1, 0)
    return f"`formula` does not parse: {error.msg}\n    {formula}\n    {' ' * start}^"


def formula_columns(parsed: ParsedFormula, columns: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Columns on each side; a name that is not a column is refused, and a column that hides a function."""
    for name in (*parsed.outcome_names, *parsed.covariate_names):
        if name not in columns:
            raise no_column(name, columns, "formula", "neither a column nor a function of patsy or numpy (np)")
    hidden = [name for name in parsed.functions if name in columns]
    if hidden:
        raise FormulaError(
            f'`formula` uses the function "{hidden[0]}", and the data have a column of that name, which hides it. '
            "Rename the column."
        )
    if parsed.has_constant and "Intercept" in parsed.covariate_names:
        raise FormulaError(
            '`formula` names the column "Intercept", which is what the constant of a regression is called. Rename the '
            'column, or write "0 + Intercept" for a regression without a constant.'
        )
    left = parsed.outcome_names
    return left, tuple(name for name in parsed.covariate_names if name not in left)


def design_frame(rows: ReadRows, names: tuple[str, ...], parsed: ParsedFormula) -> pd.DataFrame:
    """Columns of the formula of rows in use as patsy takes them: numbers, objects, categories without unused levels."""
    frame = rows.source.table.to_pandas(names, rows.source.keep)
    if all(isinstance(dtype, np.dtype) and dtype.char in "dlqi" for dtype in frame.dtypes):
        return computed_as_floats(parsed, frame)
    columns: dict[str, Any] = {
        name: rows.values["score"]
        if name == parsed.outcome and "score" in rows.values
        else as_labels(for_formula(frame[name], name, name in parsed.plain), name in parsed.whole)
        for name in names
    }
    return computed_as_floats(parsed, pd.DataFrame(columns, index=frame.index))


def computed_as_floats(parsed: ParsedFormula, frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with whole numbers as floats where the formula computes with them: these would wrap at 2^63.

    Those of ``C(...)`` stay as they are, as levels have their names.
    """
    computed = parsed.plain - parsed.factors - parsed.whole
    floats = [name for name in computed if name in frame and frame[name].dtype.kind in "iu"]
    return frame.astype(dict.fromkeys(floats, np.float64)) if floats else frame


def refuse_large_design(parsed: ParsedFormula, frame: pd.DataFrame, n_clusters: int) -> None:
    """Raise if the columns of a formula do not fit into memory, before they are made; with the factor of most levels.

    `n_clusters` is that of the finest clustering asked for; 0 without groups.
    """
    import patsy

    levels = {
        name: int(frame[name].nunique())
        for name in parsed.covariate_names
        if name in parsed.factors or not pd.api.types.is_numeric_dtype(frame[name])
    }
    if math.prod(levels.values()) < MANY_LEVELS:
        return
    widest = max(levels, key=levels.__getitem__)
    remedy = f'Leave out or merge levels of "{widest}", which has {levels[widest]:,}.'
    terms = patsy.ModelDesc([], patsy.ModelDesc.from_formula(parsed.text).rhs_termlist)
    # What is far too large takes long to count alone.
    fewest = max(_fewest(term, levels) for term in terms.rhs_termlist)
    _refuse_columns(fewest, "at least ", parsed, frame, n_clusters, remedy)
    try:
        with np.errstate(all="ignore"):
            design = patsy.incr_dbuilder(terms, lambda: iter([frame]), eval_env=0)
    except Exception:
        return  # The fit says what is wrong, and where.
    _refuse_columns(len(design.column_names), "", parsed, frame, n_clusters, remedy)


def _fewest(term: Any, levels: dict[str, int]) -> int:
    """Columns that a term has at the least: the levels of its factors, less one each."""
    names = [names_in([factor.code]).columns & set(levels) for factor in term.factors]
    return math.prod(max(levels[name] for name in one) - 1 for one in names if one)


def _refuse_columns(
    k: int, about: str, parsed: ParsedFormula, frame: pd.DataFrame, n_clusters: int, remedy: str
) -> None:
    what = f"{parsed.text!r} has {about}{k:,} columns, which for {len(frame):,} rows"
    in_clusters = f" in {n_clusters:,} clusters" if n_clusters else ""
    # Only clusters of k rows or more need a matrix of k by k, and at most n / k have so many.
    grams = GRAMS * min(n_clusters * k, len(frame))
    refuse_larger(8.0 * k * (DESIGNS * len(frame) + grams), what + in_clusters, remedy)


def parse_sides(formula: object) -> ParsedFormula:
    """Parse the formula of what differs between two sides of a row, such as ``1 + length``: it has no left side."""
    if not isinstance(formula, str):
        raise ArgumentTypeError(f'`formula` must be a string such as "1 + length"; got {type(formula).__name__}.')
    left, tilde, right = formula.rpartition("~")
    if tilde and left.strip():
        raise FormulaError(
            f'`formula` says what differs between the two sides and has nothing on the left of "~"; got {formula!r}. '
            f"Write {right.strip()!r}."
        )
    parsed = parse_formula(f"score ~ {right}")
    if parsed.absorbed:
        raise FormulaError(
            f"`formula` of what differs between sides cannot absorb factors; got {formula!r}. Leave out what is "
            "behind the bar."
        )
    text = parsed.text.partition("~")[2].strip()
    return replace(parsed, text=text, outcome="", outcome_names=())


def sides_design(parsed: ParsedFormula, frame: pd.DataFrame, n_rows: int) -> tuple[tuple[str, ...], FloatArray]:
    """Names and columns, shape (n_rows, n_terms), of what differs between the sides, left minus right.

    The constant is the position; `n_rows` is what a formula without columns cannot tell.
    """
    import patsy

    try:
        with np.errstate(all="ignore"):
            keep_all = patsy.NAAction(on_NA="drop", NA_types=[])
            # A formula without columns takes its length from the index of the frame.
            frame = frame if frame.shape[1] else pd.DataFrame(index=range(n_rows))
            design = patsy.dmatrix(parsed.text, frame, eval_env=0, NA_action=keep_all, return_type="dataframe")
    except Exception as error:
        # What is written in a formula is the user's code, and may raise anything.
        raise FormulaError(f"`formula` cannot be evaluated: {type(error).__name__}: {error}") from None
    columns = design.to_numpy(dtype=np.float64)
    for name, column in zip(design.columns, columns.T, strict=True):
        wrong = ~np.isfinite(column)
        if wrong.any():
            rows, count = row_list(wrong)
            raise NonFiniteError(
                f"terms of the formula must be finite; {name!r} is missing or infinite in {rows_text(rows, count)} of "
                "those in use. Leave such rows out, or change the transformation.",
                column=str(name),
                rows=rows,
                count=count,
            )
    names = tuple("position" if name == "Intercept" else str(name) for name in design.columns)
    return names, columns
