"""What a formula may say, and what it asks for."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from evalreg.checks import Names, nearest
from evalreg.data.clusters import Axes, no_column, parse_groups
from evalreg.errors import ArgumentError, ArgumentTypeError, FormulaError

_QUOTED, _BRACKETS = re.compile(r"""(["'`]).*?\1""", re.DOTALL), re.compile(r"[(\[{][^()\[\]{}]*[)\]}]")
_LIKE = '"score ~ x | question", "| question + judge" for two factors, or "| language:question" for their joint levels'


def split_bar(formula: str) -> tuple[str, str]:
    """The formula before the bar, and what is behind it; empty where there is none. Brackets and quotes are closed."""
    bars = _bars(formula)
    if not bars:
        return formula, ""
    if len(bars) > 1 and "~" in formula[bars[-1] :]:
        raise FormulaError(
            '`formula` holds no instruments (the part behind a second bar, "| x ~ z"). Fit them elsewhere, and pass '
            "the coefficients and the influence of each row to `er.from_influence`."
        )
    if len(bars) > 1:
        raise FormulaError(
            f"`formula` has {len(bars)} bars; write one, before the factors to absorb, as in {_LIKE}. Put a "
            "logical 'or' in brackets, as in I((a > 1) | (b > 1))."
        )
    before, behind = formula[: bars[0]].strip(), formula[bars[0] + 1 :].strip()
    if not behind:
        raise FormulaError(f"`formula` names no factor behind the bar; got {formula!r}. Write {_LIKE}.")
    if "~" not in before:
        raise FormulaError(f'`formula` absorbs factors behind "~" only; got {formula!r}. Write {_LIKE}.')
    return before, behind


def _bars(formula: str) -> list[int]:
    """Places of the bars outside of quotes and brackets, which are blanked out from the inside."""
    masked = _QUOTED.sub(_blank, formula)
    while _BRACKETS.search(masked):
        masked = _BRACKETS.sub(_blank, masked)
    return [bar.start() for bar in re.finditer(r"\|", masked)]


def _blank(text: re.Match[str]) -> str:
    return " " * len(text[0])


def absorbed_factors(behind: str, columns: Sequence[str]) -> Axes:
    """Columns of each factor behind the bar."""
    hints = {
        "(": f"Write their names alone, as in {_LIKE}. Put computed values into a column first",
        "^": f'Join the columns of joint levels by a colon: "| {behind.replace("^", ":")}"',
        "[": "These are levels, not slopes by level. Write C(question):x among the covariates",
    }
    hint = next((hint for sign, hint in hints.items() if sign in behind), None)
    if hint is not None and behind not in columns and "`" not in behind:
        raise FormulaError(f"`formula` absorbs the levels of columns; got {behind!r}. {hint}.")
    try:
        return parse_groups(behind, columns, "formula")
    except ArgumentError as error:
        raise FormulaError(f"`formula` absorbs {behind!r}: {error}") from None


CONTRASTS = frozenset({"Treatment", "Sum", "Helmert", "Diff", "Poly", "ContrastMatrix"})
PATSY = frozenset({"I", "Q", "C", "center", "standardize", "scale", "bs", "cr", "cc", "te"})
_UFUNCS = (
    "abs absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh cbrt ceil copysign cos cosh deg2rad degrees "
    "divide equal exp exp2 expm1 fabs float_power floor floor_divide fmax fmin fmod greater greater_equal heaviside "
    "hypot isfinite isinf isnan less less_equal log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not "
    "logical_or logical_xor maximum minimum mod multiply negative not_equal positive power rad2deg radians reciprocal "
    "remainder rint sign sin sinh sqrt square subtract tan tanh true_divide trunc"
)
# Fewest and most arguments. One more would be numpy's `out`, which writes into the data.
NUMPY: dict[str, tuple[int, int]] = {name: (getattr(np, name).nin,) * 2 for name in _UFUNCS.split(" ")}
NUMPY |= {"clip": (3, 3), "round": (1, 2), "where": (3, 3), "sinc": (1, 1)}
NUMPY |= dict.fromkeys(("max", "mean", "median", "min", "std", "var"), (1, 1))
CONSTANTS = frozenset({"e", "pi"})

_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr, ast.BitXor)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_WORDS: dict[type[ast.AST], str] = {
    ast.Attribute: "an attribute",
    ast.Subscript: "square brackets after a value",
    ast.Lambda: "a function of its own",
    ast.BoolOp: '"and" or "or" (write & or |)',
    ast.IfExp: "a condition",
    ast.NamedExpr: "an assignment",
    ast.JoinedStr: "a formatted text",
    ast.Starred: "a star",
    ast.Dict: "a dict",
    ast.Set: "a set",
}
_RULE = (
    "A formula may hold columns, numbers, arithmetic, comparisons, patsy's functions and numpy's mathematical functions"
    " by name; make a column of anything else first, and name that."
)
# What other packages have in formulas: labels, and what is no covariate.
_LEVELS = ("i", "factor", "as.factor", "as_factor", "c", "categorical")
_SEVERAL = "Fit each formula by itself, and put the results side by side with `er.table`."
_ELSEWHERE = {
    "offset": "There are no offsets: fit it with statsmodels, and pass the result to `er.from_statsmodels`.",
    **dict.fromkeys(("csw", "csw0", "sw", "sw0", "mvsw"), _SEVERAL),
}
# Curves by the names of R: what to write for a column.
_CURVES = {
    "poly": "{0} + I({0} ** 2)",
    **dict.fromkeys(("s", "smooth", "spline"), "bs({0}, df=4)"),
    **dict.fromkeys(("ns", "rcs"), "cr({0}, df=3, constraints='center')"),
}
# What Stata puts before a factor and before a number.
_STATA = {"i": "C({0})", "c": "{0}"}
# Text in quotes stays as it is; what is in backticks is a column.
_BACKTICKS = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|`([^`]+)`""")


@dataclass
class UsedNames:
    """UsedNames in the factors of a formula.

    Parameters
    ----------
    columns : set of str
        UsedNames that must be columns.
    functions : set of str
        UsedNames of patsy's functions and contrasts, and "np", which no column may hide.
    plain : set of str
        Those of the columns that are used outside of ``C(...)``.
    factors : set of str
        Those that are used inside.
    """

    columns: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    plain: set[str] = field(default_factory=set)
    factors: set[str] = field(default_factory=set)


def without_backticks(formula: str) -> str:
    """The formula with Q("a name") for `a name`."""

    def quoted(match: re.Match[str]) -> str:
        return match[1] or "Q({})".format('"' + match[2].replace("\\", "\\\\").replace('"', '\\"') + '"')

    return _BACKTICKS.sub(quoted, formula)


def names_in(codes: list[str]) -> UsedNames:
    """Columns and functions in the factors of a formula, each of which says only what it may."""
    names = UsedNames()
    for code in codes:
        _check(ast.parse(code, mode="eval").body, code, names)
    return names


def _check(node: ast.expr, code: str, names: UsedNames, place: str = "value") -> None:
    """Refuse what is neither a value nor made of values; collect names.

    In the place of an "argument" of patsy's functions also texts and lists are fine, in that of a "contrast" these too.
    """
    match node:
        case ast.List() | ast.Tuple() if place != "value":
            for entry in node.elts:
                _check(entry, code, names, "argument")
        case ast.BinOp():
            _check_arithmetic(node, code)
            _check(node.left, code, names)
            _check(node.right, code, names)
        case ast.UnaryOp(op=ast.UAdd() | ast.USub() | ast.Invert()):
            _check(node.operand, code, names)
        case ast.Compare():
            _check_comparison(node, code)
            for side in (node.left, *node.comparators):
                if not (isinstance(side, ast.Constant) and isinstance(side.value, str)):
                    _check(side, code, names)
        case ast.Call(func=ast.Name(id=name)) if place == "contrast" and name in CONTRASTS:
            _check_arguments(node, code, names)
        case ast.Call():
            _check_call(node, code, names)
        case _:
            _check_single(node, code, names, place)


def _check_single(node: ast.expr, code: str, names: UsedNames, place: str) -> None:
    """The same of what is made of nothing else: a column, a number, a constant of numpy, or a text as an argument."""
    match node:
        case ast.Name(id=name) if place == "contrast" and name in CONTRASTS:
            names.functions.add(name)
        case ast.Name(id=name):
            names.columns.add(name)
            names.plain.add(name)
        case ast.Constant(value=None | str() | bool()) if place != "value":
            pass
        case ast.Constant():
            if type(node.value) not in (int, float):
                raise _refused(f"{ast.unparse(node)} where a column or a number is needed", code)
        case ast.Attribute(value=ast.Name(id="np"), attr=name) if name in CONSTANTS:
            names.functions.add("np")
        case ast.Attribute(value=ast.Name(id=kind)) if kind in _STATA:
            hint = f" Write {_STATA[kind].format(node.attr)} for Stata's {ast.unparse(node)}."
            raise _refused("an attribute", code, hint)
        case _:
            raise _refused(_WORDS.get(type(node), f"{ast.unparse(node)!r}"), code)


def _check_arithmetic(node: ast.BinOp, code: str) -> None:
    if not isinstance(node.op, _OPERATORS):
        raise _refused(f"the operator of {ast.unparse(node)!r}", code)
    if isinstance(node.op, ast.Pow) and _is_number(node.left) and _is_number(node.right):
        # Powers of whole numbers have no largest size.
        raise _refused(f"a power of two numbers, {ast.unparse(node)} (write its value)", code)
    if isinstance(node.op, ast.BitOr) and _has_constant(node.left):
        raise FormulaError(
            f"`formula` has {ast.unparse(node)}, a random effect of lme4, in the term {code!r}. There are none here: "
            f"name {ast.unparse(node.right)} in `groups`, whose rows may depend on each other, or absorb it as a "
            f'factor, "score ~ x | {ast.unparse(node.right)}".'
        )


def _check_comparison(node: ast.Compare, code: str) -> None:
    if len(node.ops) > 1:
        raise _refused(f"a chain of comparisons, {ast.unparse(node)} (write (a < b) & (b < c))", code)
    if not isinstance(node.ops[0], _COMPARISONS):
        raise _refused(f"the comparison {ast.unparse(node)!r}", code)


def _has_constant(node: ast.expr) -> bool:
    """Whether a sum has a number among its terms, as in (1 + x | question)."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _has_constant(node.left) or _has_constant(node.right)
    return isinstance(node, ast.Constant)


def _is_number(node: ast.expr) -> bool:
    return not any(isinstance(part, ast.Name | ast.Call) for part in ast.walk(node))


def _check_call(node: ast.Call, code: str, names: UsedNames) -> None:
    """Functions of patsy take values, texts, lists of them, and inside of C contrasts; those of numpy values alone."""
    match node.func:
        case ast.Name(id="Q"):
            column = _quoted_name(node)
            if column is None:
                what = f'{ast.unparse(node)}: Q takes the name of a column in quotes, such as Q("a name")'
                raise _refused(what, code)
            names.columns.add(column)
            names.plain.add(column)
            names.functions.add("Q")
        case ast.Name(id="C"):
            inside = UsedNames(functions=names.functions)
            _check_arguments(node, code, inside, "contrast")
            names.columns |= inside.columns
            names.factors |= inside.columns
        case ast.Name(id=name) if name in PATSY:
            _check_arguments(node, code, names)
        case ast.Attribute(value=ast.Name(id="np"), attr=name) if name in NUMPY:
            fewest, most = NUMPY[name]
            if node.keywords or not fewest <= len(node.args) <= most:
                count = f"{fewest}" if fewest == most else f"{fewest} or {most}"
                raise _refused(f"{ast.unparse(node)}: np.{name} takes {count} arguments here, without names", code)
            for argument in node.args:
                _check(argument, code, names)
            names.functions.add("np")
        case _:
            raise _unknown(node, code)


def _quoted_name(node: ast.AST) -> str | None:
    """The name in Q("a name")."""
    match node:
        case ast.Call(func=ast.Name(id="Q"), args=[ast.Constant(value=str(name))], keywords=[]):
            return name
    return None


def _check_arguments(node: ast.Call, code: str, names: UsedNames, place: str = "argument") -> None:
    names.functions.add(ast.unparse(node.func))
    if any(keyword.arg is None for keyword in node.keywords):
        raise _refused("two stars", code)
    for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
        _check(argument, code, names, place)


def _unknown(node: ast.Call, code: str) -> FormulaError:
    """What to say about a call of something else, with what may have been meant."""
    called = ast.unparse(node.func)
    argument = ast.unparse(node.args[0]) if node.args else "x"
    if called in _LEVELS:
        return _refused(f"a call of {called}(...)", code, f" Write C({argument}).")
    if called in _ELSEWHERE:
        return FormulaError(f"`formula` has a call of {called}(...), in the term {code!r}. {_ELSEWHERE[called]}")
    if called in _CURVES:
        return _refused(f"a call of {called}(...)", code, f" Write {_CURVES[called].format(argument)}, for instance.")
    known = [*sorted(PATSY), *sorted(CONTRASTS), *(f"np.{name}" for name in sorted(NUMPY))]
    hint = nearest(called, known) or nearest(f"np.{called}", known)
    return _refused(f"a call of {called}(...)", code, hint)


def _refused(what: str, code: str, hint: str = "") -> FormulaError:
    return FormulaError(f"`formula` has {what}, in the term {code!r}.{hint} {_RULE}")


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
    outcome_names: Names
    covariate_names: Names
    intercept_only: bool
    functions: Names = ()
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
def terms_of(text: str) -> Any:
    """What patsy parses a formula as; kept, since one formula is evaluated many times."""
    import patsy

    return patsy.ModelDesc.from_formula(text)


@lru_cache(maxsize=64)
def _parsed(formula: str) -> ParsedFormula:
    """The same of a text; kept, since one formula is often fitted to many frames."""
    import patsy

    formula, absorbed = split_bar(formula)
    formula = without_backticks(formula)
    try:
        description = terms_of(formula)
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
        _column_of_formula(left[0]),
        tuple(sorted(outcome.columns)),
        tuple(sorted(covariates.columns)),
        description.rhs_termlist == [patsy.desc.INTERCEPT],
        tuple(sorted(outcome.functions | covariates.functions)),
        patsy.desc.INTERCEPT in description.rhs_termlist,
        frozenset(outcome.plain | covariates.plain),
        frozenset(covariates.factors),
        _column_of_formula(left[0]) in outcome.columns and all(map(whole_column, set(right))),
        _whole(left + right),
        absorbed,
    )


def whole_column(code: str) -> str:
    """The column that a factor is, bare or first in ``C(...)`` with no other column in it; else empty."""
    node = ast.parse(code, mode="eval").body
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "C" and node.args:
        node = node.args[0]
    column = node.id if isinstance(node, ast.Name) else _column_of_formula(ast.unparse(node))
    return column if names_in([code]).columns == {column} else ""


def _whole(codes: list[str]) -> frozenset[str]:
    """Columns that some factors are and that no other factor uses."""
    used = [(whole_column(code), names_in([code]).columns) for code in codes]
    others = set().union(*(columns for column, columns in used if not column))
    return frozenset(column for column, _ in used if column) - others


def _column_of_formula(code: str) -> str:
    """The name inside Q("..."), where that is all; otherwise the code."""
    return _quoted_name(ast.parse(code, mode="eval").body) or code


def _syntax_message(formula: str, error: SyntaxError) -> str:
    """The formula with a caret under the place that Python does not understand."""
    start = max(formula.find((error.text or "").strip()), 0) + max((error.offset or 1) - 1, 0)
    return f"`formula` does not parse: {error.msg}\n    {formula}\n    {' ' * start}^"


def formula_columns(parsed: ParsedFormula, columns: Names) -> tuple[Names, Names]:
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


_FACTOR = r"(?:C\((?:Q\(['\"])?(?P<factor>[\w .-]+)[^\[\]]*\)|(?P<plain>\w+))"
_LEVEL = re.compile(_FACTOR + r"\[(?:T\.)?(?P<level>[^\[\]]+)\]")


def short_name(name: str) -> str:
    """A coefficient of a factor as a reader says it: `model=o3` for `C(model)[T.o3]`."""
    return _LEVEL.sub(lambda match: f"{match['factor'] or match['plain']}={match['level']}", name)


def full_name(name: str, names: Sequence[str]) -> str:
    """The coefficient that is called so, or that alone a reader would call so."""
    called = [each for each in names if short_name(each) == name]
    return called[0] if name not in names and len(called) == 1 else name
