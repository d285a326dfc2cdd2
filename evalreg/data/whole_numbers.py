"""Whole numbers in a formula: how large what it computes with them may become, and what of it would wrap at 2^63."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

import pandas as pd

from evalreg.errors import FormulaError

# From here on, 64 bits do not hold a whole number.
TOO_LARGE = 2.0**63
# Functions of numpy that leave whole numbers whole, and no larger than the largest that they are given.
_SAME = (
    "abs absolute ceil clip floor floor_divide fmax fmin fmod max maximum min minimum mod negative positive remainder "
    "round trunc where"
)
_NO_LARGER = frozenset(_SAME.split(" "))
_OPERATOR: dict[str, type[ast.operator]] = {"add": ast.Add, "subtract": ast.Sub, "multiply": ast.Mult, "power": ast.Pow}


def whole_sizes(frame: pd.DataFrame) -> dict[str, int]:
    """The largest size in each column of whole numbers."""
    whole = [name for name, dtype in frame.dtypes.items() if getattr(dtype, "kind", "O") in "iu" and len(frame)]
    return {str(name): max(abs(int(frame[name].min())), abs(int(frame[name].max()))) for name in whole}


def refuse_wrapping(codes: Iterable[str], sizes: Mapping[str, int]) -> None:
    """Raise if a factor computes with columns of whole numbers of these sizes what 64 bits may not hold."""
    for code in codes:
        for node in ast.walk(ast.parse(code, mode="eval").body):
            if not isinstance(node, ast.BinOp | ast.Call) or _patsy(node):
                continue
            if (_largest(node, sizes) or 0.0) >= TOO_LARGE:
                raise FormulaError(
                    f"`formula` may make whole numbers of 2^63 and more in the term {code!r}, which 64 bits do not "
                    "hold, and a column of it must stay whole for C(...). Make a copy of the column as floats, and "
                    "compute with the copy."
                )


def _patsy(node: ast.expr) -> bool:
    """Whether it is a call of a function of patsy, of which what it is given is looked at by itself."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def _largest(node: ast.expr, sizes: Mapping[str, int]) -> float | None:
    """A bound of the size of whole numbers; None of anything else."""
    if isinstance(node, ast.Name):
        return _float(sizes.get(node.id))
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):  # Of Q("a name").
            return _float(sizes.get(node.value))
        return float(abs(node.value)) if type(node.value) is int else None
    if isinstance(node, ast.UnaryOp):
        return _largest(node.operand, sizes)
    if isinstance(node, ast.BinOp):
        return _of_two(type(node.op), _largest(node.left, sizes), _largest(node.right, sizes))
    if isinstance(node, ast.Call) and node.args:
        return _of_call(node, [_largest(argument, sizes) for argument in node.args])
    return None


def _float(size: int | None) -> float | None:
    return None if size is None else float(size)


def _of_two(operator: type[ast.operator], left: float | None, right: float | None) -> float | None:
    if left is None or right is None or operator is ast.Div:
        return None
    if operator is ast.Mult:
        return left * right
    if operator is ast.Pow:
        try:
            return float(left**right)
        except OverflowError:
            return float("inf")
    return max(left, right) if operator in (ast.FloorDiv, ast.Mod) else left + right


def _of_call(node: ast.Call, given: list[float | None]) -> float | None:
    called = node.func
    name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
    if name in ("I", "Q"):
        return given[0]
    if name == "square":
        return _of_two(ast.Mult, given[0], given[0])
    if name in _OPERATOR and len(given) == 2:
        return _of_two(_OPERATOR[name], *given)
    return max((one for one in given if one is not None), default=None) if name in _NO_LARGER else None
