"""Terms of a formula that an engine can make row by row: columns of numbers, arithmetic, logarithms and roots."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

import narwhals.stable.v2 as nw

Number = nw.Expr | float | int
# Of `I((x - 3) ** 2)` they are x and -3, twice.
Factors = tuple[tuple[str, float], ...]
# Each with where it is defined; elsewhere engines differ in what they say, and the term is not finite.
_FUNCTIONS: dict[str, tuple[Callable[[nw.Expr], nw.Expr], Callable[[nw.Expr], nw.Expr] | None]] = {
    "log": (lambda x: x.log(), lambda x: x > 0),
    "log2": (lambda x: x.log(2), lambda x: x > 0),
    "log10": (lambda x: x.log(10), lambda x: x > 0),
    "log1p": (lambda x: (x + 1.0).log(), lambda x: x > -1),
    "sqrt": (lambda x: x.sqrt(), lambda x: x >= 0),
    "exp": (lambda x: x.exp(), None),
    "square": (lambda x: x * x, None),
    "abs": (lambda x: x.abs(), None),
    "absolute": (lambda x: x.abs(), None),
}
LARGEST_POWER = 8


class _NotHereError(Exception):
    """Something that is left to patsy."""


def number_of(code: str, schema: Mapping[str, Any]) -> nw.Expr | None:
    """A factor of a formula as a column of numbers that an engine makes; None where only patsy knows how."""
    try:
        made = _made(ast.parse(code, mode="eval").body, schema)
    except _NotHereError:
        return None
    return made if isinstance(made, nw.Expr) else None


def factors_of(code: str, schema: Mapping[str, Any]) -> Factors:
    """What a column of numbers that an engine makes is a product of: codes of other columns, with a number added."""
    return _factors(ast.parse(code, mode="eval").body, schema)


def _factors(node: ast.expr, schema: Mapping[str, Any]) -> Factors:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "I":
        return _factors(node.args[0], schema)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "square":
        return _factors(node.args[0], schema) * 2
    if isinstance(node, ast.BinOp) and isinstance(_made(node.left, schema), nw.Expr):
        right = _made(node.right, schema)
        if isinstance(node.op, ast.Mult) and isinstance(right, nw.Expr):
            return _factors(node.left, schema) + _factors(node.right, schema)
        if isinstance(node.op, ast.Pow) and not isinstance(right, nw.Expr):
            return _factors(node.left, schema) * int(right)
        if isinstance(node.op, ast.Add | ast.Sub) and not isinstance(right, nw.Expr):
            (name, added), *others = _factors(node.left, schema)
            if not others:
                return ((name, added + right if isinstance(node.op, ast.Add) else added - right),)
    return ((ast.unparse(node), 0.0),)


def _made(node: ast.expr, schema: Mapping[str, Any]) -> Number:
    if isinstance(node, ast.Name):
        return _column(node.id, schema)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        inside = _made(node.operand, schema)
        return inside * -1.0 if isinstance(node.op, ast.USub) else inside
    if isinstance(node, ast.BinOp):
        return _arithmetic(node, schema)
    if isinstance(node, ast.Call) and not node.keywords and len(node.args) == 1:
        return _called(node, schema)
    raise _NotHereError


def _column(name: str, schema: Mapping[str, Any]) -> nw.Expr:
    if name not in schema or not schema[name].is_numeric():
        raise _NotHereError
    return nw.col(name).cast(nw.Float64)


def _arithmetic(node: ast.BinOp, schema: Mapping[str, Any]) -> Number:
    left, right = _made(node.left, schema), _made(node.right, schema)
    if isinstance(node.op, ast.Add):
        return left + right
    if isinstance(node.op, ast.Sub):
        return left - right
    if isinstance(node.op, ast.Mult):
        return left * right
    if isinstance(node.op, ast.Div):
        if isinstance(right, nw.Expr):
            # Engines differ in what a division by zero is.
            return nw.when(right != 0).then(left / right)
        return left * 1.0 / right if right else _refused()
    if isinstance(node.op, ast.Pow) and isinstance(left, nw.Expr) and not isinstance(right, nw.Expr):
        if right not in range(1, LARGEST_POWER + 1):
            raise _NotHereError
        product = left
        for _ in range(1, int(right)):
            product = product * left
        return product
    raise _NotHereError


def _called(node: ast.Call, schema: Mapping[str, Any]) -> Number:
    called, argument = node.func, node.args[0]
    if isinstance(called, ast.Name) and called.id == "Q" and isinstance(argument, ast.Constant):
        return _column(str(argument.value), schema)
    if isinstance(called, ast.Name) and called.id == "I":
        return _made(argument, schema)
    if isinstance(called, ast.Attribute) and called.attr in _FUNCTIONS:
        function, defined = _FUNCTIONS[called.attr]
        inside = _made(argument, schema)
        if isinstance(inside, nw.Expr):
            return function(inside) if defined is None else nw.when(defined(inside)).then(function(inside))
    raise _NotHereError


def _refused() -> Number:
    raise _NotHereError
