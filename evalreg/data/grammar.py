"""What a formula may say. Nothing else of it is run: every factor is checked before patsy evaluates it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

import numpy as np

from evalreg.checks import nearest
from evalreg.errors import FormulaError

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
_SIGNS = (ast.UAdd, ast.USub, ast.Invert)
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
class Names:
    """Names in the factors of a formula.

    Parameters
    ----------
    columns : set of str
        Names that must be columns.
    functions : set of str
        Names of patsy's functions and contrasts, and "np", which no column may hide.
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


def names_in(codes: list[str]) -> Names:
    """Columns and functions in the factors of a formula, each of which says only what it may."""
    names = Names()
    for code in codes:
        _check(ast.parse(code, mode="eval").body, code, names)
    return names


def _check(node: ast.expr, code: str, names: Names) -> None:
    """Refuse what is neither a value nor made of values; collect names."""
    if isinstance(node, ast.Name):
        names.columns.add(node.id)
        names.plain.add(node.id)
    elif isinstance(node, ast.Constant):
        if type(node.value) not in (int, float):
            raise _refused(f"{ast.unparse(node)} where a column or a number is needed", code)
    elif isinstance(node, ast.BinOp):
        _check_arithmetic(node, code, names)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, _SIGNS):
        _check(node.operand, code, names)
    elif isinstance(node, ast.Compare):
        _check_comparison(node, code, names)
    elif isinstance(node, ast.Call):
        _check_call(node, code, names)
    elif isinstance(node, ast.Attribute) and _numpy_name(node) in CONSTANTS:
        names.functions.add("np")
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in _STATA:
        hint = f" Write {_STATA[node.value.id].format(node.attr)} for Stata's {ast.unparse(node)}."
        raise _refused("an attribute", code, hint)
    else:
        raise _refused(_WORDS.get(type(node), f"{ast.unparse(node)!r}"), code)


def _check_arithmetic(node: ast.BinOp, code: str, names: Names) -> None:
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
    _check(node.left, code, names)
    _check(node.right, code, names)


def _has_constant(node: ast.expr) -> bool:
    """Whether a sum has a number among its terms, as in (1 + x | question)."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _has_constant(node.left) or _has_constant(node.right)
    return isinstance(node, ast.Constant)


def _is_number(node: ast.expr) -> bool:
    return not any(isinstance(part, ast.Name | ast.Call) for part in ast.walk(node))


def _check_comparison(node: ast.Compare, code: str, names: Names) -> None:
    if len(node.ops) > 1:
        raise _refused(f"a chain of comparisons, {ast.unparse(node)} (write (a < b) & (b < c))", code)
    if not isinstance(node.ops[0], _COMPARISONS):
        raise _refused(f"the comparison {ast.unparse(node)!r}", code)
    for side in (node.left, *node.comparators):
        if not (isinstance(side, ast.Constant) and isinstance(side.value, str)):
            _check(side, code, names)


def _check_call(node: ast.Call, code: str, names: Names) -> None:
    name = node.func.id if isinstance(node.func, ast.Name) else None
    if name == "Q":
        names.columns.add(_quoted(node, code))
        names.plain.add(_quoted(node, code))
    elif name == "C":
        inside = Names()
        _check_arguments(node, code, inside, contrasts=True)
        names.columns |= inside.columns
        names.factors |= inside.columns
        names.functions |= inside.functions
    elif name in PATSY:
        _check_arguments(node, code, names, contrasts=False)
    elif isinstance(node.func, ast.Attribute) and _numpy_name(node.func) in NUMPY:
        fewest, most = NUMPY[node.func.attr]
        if node.keywords or not fewest <= len(node.args) <= most:
            count = f"{fewest}" if fewest == most else f"{fewest} or {most}"
            raise _refused(
                f"{ast.unparse(node)}: np.{node.func.attr} takes {count} arguments here, without names", code
            )
        for argument in node.args:
            _check(argument, code, names)
    else:
        raise _unknown(node, code)
    names.functions.add("np" if name is None else name)


def _quoted(node: ast.Call, code: str) -> str:
    """The column of Q("...")."""
    argument = node.args[0] if len(node.args) == 1 and not node.keywords else None
    if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
        raise _refused(f'{ast.unparse(node)}: Q takes the name of a column in quotes, such as Q("a name")', code)
    return argument.value


def _check_arguments(node: ast.Call, code: str, names: Names, contrasts: bool) -> None:
    """Arguments of a function of patsy: values, texts, lists of them, and contrasts inside C."""
    if any(keyword.arg is None for keyword in node.keywords):
        raise _refused("two stars", code)
    for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
        _check_argument(argument, code, names, contrasts)


def _check_argument(node: ast.expr, code: str, names: Names, contrasts: bool) -> None:
    if isinstance(node, ast.Constant) and (node.value is None or type(node.value) in (str, bool)):
        return
    if isinstance(node, ast.List | ast.Tuple):
        for entry in node.elts:
            _check_argument(entry, code, names, False)
    elif contrasts and isinstance(node, ast.Name) and node.id in CONTRASTS:
        names.functions.add(node.id)
    elif contrasts and isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CONTRASTS:
        names.functions.add(node.func.id)
        _check_arguments(node, code, names, contrasts=False)
    else:
        _check(node, code, names)


def _numpy_name(node: ast.Attribute) -> str:
    """The name after "np."; empty for other attributes."""
    return node.attr if isinstance(node.value, ast.Name) and node.value.id == "np" else ""


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
