"""Formulas: parsed by patsy, with the columns that they use."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass

from evalreg.checks import listed, nearest
from evalreg.errors import ArgumentTypeError, FormulaError, MissingColumnError


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
        Names of variables and functions on each side.
    intercept_only : bool
        Whether the right side is 1.
    """

    text: str
    outcome: str
    outcome_names: tuple[str, ...]
    covariate_names: tuple[str, ...]
    intercept_only: bool


def parse_formula(formula: object) -> ParsedFormula:
    """Parse a formula by patsy, and collect the names that it uses.

    Parameters
    ----------
    formula : str
        Such as "score ~ 1" or "score ~ C(model) * length".

    Returns
    -------
    ParsedFormula
        The names on each side.

    Raises
    ------
    ArgumentTypeError
        If it is not a string.
    FormulaError
        If it does not parse (with patsy's caret under the place), or has no left side.

    Examples
    --------
    >>> parse_formula("score ~ np.log(length)").covariate_names
    ('length', 'np')
    """
    import patsy

    if not isinstance(formula, str):
        raise ArgumentTypeError(f'`formula` must be a string such as "score ~ 1"; got {type(formula).__name__}.')
    try:
        description = patsy.ModelDesc.from_formula(formula)
    except patsy.PatsyError as error:
        raise FormulaError(f"`formula` does not parse: {error}") from None
    except SyntaxError as error:
        raise FormulaError(_syntax_message(formula, error)) from None
    except (AssertionError, RecursionError, ValueError) as error:
        raise FormulaError(f"`formula` does not parse ({type(error).__name__}): {formula[:200]!r}.") from None
    left = [factor.code for term in description.lhs_termlist for factor in term.factors]
    right = [factor.code for term in description.rhs_termlist for factor in term.factors]
    if len(left) != 1:
        raise FormulaError(f'`formula` must have one score on the left of "~"; got {formula!r}. Write "score ~ 1".')
    if not description.rhs_termlist:
        raise FormulaError(f'`formula` has nothing on the right of "~"; got {formula!r}. Write "{left[0]} ~ 1".')
    try:
        names = _names_in(left), _names_in(right)
    except SyntaxError as error:
        raise FormulaError(_syntax_message(formula, error)) from None
    return ParsedFormula(
        formula,
        _column_of(left[0]),
        *names,
        description.rhs_termlist == [patsy.desc.INTERCEPT],
    )


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


def _names_in(codes: list[str]) -> tuple[str, ...]:
    """Names in Python expressions, with the columns quoted by Q("...")."""
    names: set[str] = set()
    for code in codes:
        for node in ast.walk(ast.parse(code, mode="eval")):
            if isinstance(node, ast.Name):
                names.add(node.id)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Q":
                names.update(str(arg.value) for arg in node.args if isinstance(arg, ast.Constant))
    return tuple(sorted(names))


def formula_columns(parsed: ParsedFormula, columns: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Columns on each side; a name that is neither a column nor a function of patsy, numpy or Python is refused."""
    import patsy

    known = {*patsy.builtins.__all__, *vars(builtins), "np"}
    for name in (*parsed.outcome_names, *parsed.covariate_names):
        if name not in columns and name not in known:
            hint = nearest(name, columns) or f" The columns are {listed(columns)}."
            raise MissingColumnError(
                f'`formula` names "{name}", which is neither a column nor a function of patsy or numpy (np).{hint}',
                column=name,
            )
    left = tuple(name for name in parsed.outcome_names if name in columns)
    return left, tuple(name for name in parsed.covariate_names if name in columns and name not in left)
