"""The small language of ``--where`` and of `subset`: which rows of a table to keep.

Nothing of a filter is run as Python; this is all there is::

    expression  := conjunction ("or" conjunction)*
    conjunction := negation ("and" negation)*
    negation    := "not" negation | "(" expression ")" | condition
    condition   := column ("==" | "!=" | "<" | "<=" | ">" | ">=") value
                 | column ("==" | "!=") "missing" | column ["not"] "in" list
    list        := "[" value ("," value)* "]" | "(" value ("," value)* ")"
    value       := number | "text" | 'text' | true | false

A column is a bare name (letters, digits, underscores and dots, not beginning with a digit) or anything in backticks,
a backtick inside being written twice. Words of the language may be in any case. In text, a backslash comes before a
quote or another backslash.

Missing values follow SQL: a comparison with one is neither true nor false, nor is its `not`, and a row is kept only
where the whole expression is true. Only ``== missing`` and ``!= missing`` see missing values.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_float_dtype
from pandas.arrays import BooleanArray

from evalreg.checks import BoolArray, listed, nearest, pointed
from evalreg.data.names import known_column
from evalreg.errors import ArgumentError

__all__ = ["Combination", "Condition", "Constant", "Expression", "mask", "parse", "unheard_of"]

_WORDS = frozenset({"and", "or", "not", "in", "true", "false", "missing"})
_ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_JOINS = {"and": operator.and_, "or": operator.or_}
_SIGNS = ("==", "!=", *_ORDERS)
_DEEPEST = 100  # parentheses and `not` inside each other, well before Python's own limit

_NAME = re.compile(r"[^\W\d][\w.]*")
_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TOKEN = re.compile(
    rf"""
      (?P<space>\s+)
    | (?P<number>{_NUMBER.pattern})(?![\w.])
    | (?P<name>{_NAME.pattern})
    | (?P<backticks>`(?:[^`]|``)+`)
    | (?P<text>"(?:[^"\\]|\\["'\\])*"|'(?:[^'\\]|\\["'\\])*')
    | (?P<mark>[=!<>]=|<(?!>)|[>()\[\],])
    """,
    re.VERBOSE,
)
# What pandas calls the values of a column, and what messages call them.
_KINDS = {"string": "text", "boolean": "truth values"}
_KINDS |= dict.fromkeys(("integer", "floating", "mixed-integer-float", "decimal"), "numbers")
# What to say about a character with which nothing can begin.
_REMEDIES = {
    **dict.fromkeys(
        "\"'\N{LEFT DOUBLE QUOTATION MARK}\N{LEFT SINGLE QUOTATION MARK}",
        "Text goes between two straight quotes; inside it, a backslash comes before a quote or a backslash.",
    ),
    **dict.fromkeys(
        "0123456789",
        "Text that begins with a digit goes in quotes, such a column in backticks; a number has no zeros in front.",
    ),
    "=": "Equality is written ==.",
    "<": "Inequality is written !=.",
    "!": "Negation is written `not`.",
    "&": "Write `and`.",
    "|": "Write `or`.",
    "`": "A column name goes between two backticks.",
}


@dataclass(frozen=True)
class Constant:
    """A value in a filter; `text` is how it was written, without quotes."""

    value: str | int | float | bool
    text: str


@dataclass(frozen=True)
class Condition:
    """One column against one value or several; against none where the filter says ``missing``."""

    column: str
    operator: str
    constants: tuple[Constant, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The name of the column, in a tuple."""
        return (self.column,)


@dataclass(frozen=True)
class Combination:
    """Expressions joined by "and" or "or"; exactly one for "not"."""

    word: str
    operands: tuple[Condition | Combination, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in order of appearance, each once."""
        return tuple(dict.fromkeys(name for operand in self.operands for name in operand.columns))


Expression: TypeAlias = Condition | Combination


class _Token(NamedTuple):
    kind: str  # "name", "number", "text" or "end"; a word of the language or a mark is its own kind
    value: str
    start: int


def parse(text: str, argument: str = "where") -> Expression:
    """The expression that a filter spells; of a mistake, an error that marks the place and says what goes there."""
    reader = _Reader(text, argument)
    expression = reader.expression()
    reader.read("`and`, `or` or the end", "end")
    return expression


def mask(expression: Expression, frame: pd.DataFrame, argument: str = "where") -> BoolArray:
    """True for the rows on which an expression is true; (n_rows,)."""
    return _truth(expression, frame, argument).to_numpy(dtype=bool, na_value=False)


# The grammar


def _tokens(text: str, argument: str) -> list[_Token]:
    tokens, start = [], 0
    while start < len(text):
        found = _TOKEN.match(text, start)
        if found is None:
            remedy = _REMEDIES.get(text[start], "")
            raise _mistake(argument, text, start, f"nothing can begin with {text[start]} here", remedy)
        kind, value = str(found.lastgroup), found.group()
        if kind == "mark" or (kind == "name" and value.lower() in _WORDS):
            kind = value.lower()
        elif kind == "backticks":
            kind, value = "name", value[1:-1].replace("``", "`")
        elif kind == "text":
            value = re.sub(r"\\(.)", r"\1", value[1:-1])
        if kind != "space":
            tokens.append(_Token(kind, value, start))
        start = found.end()
    return [*tokens, _Token("end", "", len(text))]


def _mistake(argument: str, text: str, place: int, problem: str, remedy: str = "") -> ArgumentError:
    """An error that shows the line of the filter with a caret under the place."""
    message = f"`{argument}` cannot be read: {problem}.\n{pointed(text, place)}"
    return ArgumentError(message + (f"\n{remedy}" if remedy else ""))


class _Reader:
    """Recursive descent: a method for each line of the grammar, leaving `tokens` after what it has read."""

    def __init__(self, text: str, argument: str) -> None:
        self.text, self.argument = text, argument
        self.tokens = _tokens(text, argument)[::-1]  # the next one last
        self.depth = 0

    def take(self, *kinds: str) -> _Token | None:
        """The next token, passed over, if it is of these kinds."""
        return self.tokens.pop() if self.tokens[-1].kind in kinds else None

    def read(self, expected: str, *kinds: str, remedy: str = "") -> _Token:
        """The next token, passed over; an error that says what was expected if it is not of these kinds."""
        token = self.take(*kinds)
        if token is None:
            start, end = self.tokens[-1].start, self.tokens[-2].start if len(self.tokens) > 1 else None
            found = self.text[start:end].strip() or "the end"
            raise _mistake(self.argument, self.text, start, f"expected {expected}, found {found}", remedy)
        return token

    def expression(self) -> Expression:
        return self.joined("or", lambda: self.joined("and", self.negation))

    def joined(self, word: str, operand: Callable[[], Expression]) -> Expression:
        operands = [operand()]
        while self.take(word):
            operands.append(operand())
        return operands[0] if len(operands) == 1 else Combination(word, tuple(operands))

    def negation(self) -> Expression:
        opening = self.take("not", "(")
        if opening is None:
            return self.condition()
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _mistake(
                self.argument, self.text, opening.start, f"more than {_DEEPEST} parentheses and `not` inside each other"
            )
        if opening.kind == "not":
            expression: Expression = Combination("not", (self.negation(),))
        else:
            expression = self.expression()
            self.read("`and`, `or` or )", ")")
        self.depth -= 1
        return expression

    def condition(self) -> Condition:
        kind = self.tokens[-1].kind
        remedy = f"A column named {kind} goes in backticks." if kind in _WORDS else ""
        column = self.read("a column name, `not` or (", "name", remedy=remedy).value
        if self.take("not"):
            self.read("`in`", "in")
            return Condition(column, "not in", self.constants())
        sign = self.read("==, !=, <, <=, >, >=, `in` or `not in`", "in", *_SIGNS).kind
        if sign == "in":
            return Condition(column, "in", self.constants())
        if sign not in _ORDERS and self.take("missing"):
            return Condition(column, sign, ())
        return Condition(column, sign, (self.constant(ordered=sign in _ORDERS),))

    def constants(self) -> tuple[Constant, ...]:
        closing = {"[": "]", "(": ")"}[self.read('a list such as ["a", "b"]', "[", "(").kind]
        constants = [self.constant()]
        while self.take(","):
            constants.append(self.constant())
        self.read(f"a comma or {closing}", closing)
        return tuple(constants)

    def constant(self, *, ordered: bool = False) -> Constant:
        kinds = ("text", "number") if ordered else ("text", "number", "true", "false")
        expected = "a number or quoted text" + ("" if ordered else ", true or false")
        kind, text, start = self.read(expected, *kinds, remedy=self.quotes())
        if kind == "text":
            return Constant(text, text)
        if kind != "number":
            return Constant(kind == "true", kind)
        if not math.isfinite(float(text)):
            raise _mistake(self.argument, self.text, start, "expected a number that a 64-bit float can hold")
        return Constant(int(text) if text.lstrip("+-").isdecimal() else float(text), text)

    def quotes(self) -> str:
        """What to do about a word that stands in the place of a value."""
        kind, _, start = self.tokens[-1]
        if kind == "missing":
            return "Only == and != go with `missing`."
        bare = re.match(r"[^\s()\[\],`'\"]+", self.text[start:])
        return f'Text goes in quotes: "{bare.group()}".' if kind == "name" and bare else ""


# What is true of the rows


def _truth(expression: Expression, frame: pd.DataFrame, argument: str) -> BooleanArray:
    """True, false or, for a missing value, neither, as the array's own logic (Kleene's) joins them; (n_rows,)."""
    if isinstance(expression, Condition):
        return _condition_truth(expression, frame, argument)
    first, *others = [_truth(operand, frame, argument) for operand in expression.operands]
    return functools.reduce(_JOINS[expression.word], others, first) if others else ~first


def _condition_truth(condition: Condition, frame: pd.DataFrame, argument: str) -> BooleanArray:
    names = [name for name in frame if isinstance(name, str)]
    column = frame[known_column(condition.column, names, argument)]
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    elif is_float_dtype(column.dtype) and not isinstance(column.dtype, np.dtype):
        column = column.astype(np.float64)  # extension floats may hold NaN that `notna` does not report
    absent = column.isna().to_numpy(dtype=bool)
    if condition.constants:
        holds = np.zeros(len(column), dtype=bool)
        if not absent.all():
            holds[~absent] = _holds(condition, column[~absent], argument)
        truth = BooleanArray(holds, absent)
    else:
        truth = BooleanArray(absent, np.zeros(len(column), dtype=bool))
    return ~truth if condition.operator in ("!=", "not in") else truth


def _holds(condition: Condition, column: pd.Series[Any], argument: str) -> BoolArray:
    """Where a column without missing values equals, is among, or is ordered against the constants."""
    inferred = infer_dtype(column, skipna=False)
    kind = _KINDS.get(inferred, inferred)
    for constant in condition.constants:
        if _kind_of(constant) != kind:
            raise _mismatch(condition, constant, column, kind, argument)
    values = [constant.value for constant in condition.constants]
    if kind == "text" and len(values) > 1:
        return column.isin(values).to_numpy(dtype=bool)
    compare, array = _ORDERS.get(condition.operator, operator.eq), column.to_numpy()
    holds: BoolArray = np.any([np.asarray(compare(array, value), dtype=bool) for value in values], axis=0)
    return holds


def _kind_of(constant: Constant) -> str:
    return {bool: "truth values", str: "text"}.get(type(constant.value), "numbers")


def _mismatch(
    condition: Condition, constant: Constant, column: pd.Series[Any], kind: str, argument: str
) -> ArgumentError:
    """The error for a constant of another kind than its column."""
    name, sign, found = condition.column, condition.operator, _kind_of(constant)
    rule = f"`{argument}` compares like with like: column `{name}` holds {kind}"
    if kind not in _KINDS.values():
        return ArgumentError(f"{rule}. Only text, numbers and truth values can be compared.", column=name)
    rewritten = _spelled(constant, kind)
    if kind == "truth values" and sign in _ORDERS:
        advice = "Truth values have no order: compare them by == or !=."
    elif rewritten is None:
        advice = f"It holds, for example, {listed(column.drop_duplicates().head(3))}."
    else:
        bare = _NAME.fullmatch(name) and name.lower() not in _WORDS
        left = name if bare else "`" + name.replace("`", "``") + "`"
        advice = f"Write {left} {sign} {f'[{rewritten}, ...]' if 'in' in sign else rewritten}."
    if kind == "text":
        advice += _text_remarks(condition, column)
    what = {"numbers": "a number", "truth values": "a truth value"}.get(found, found)
    return ArgumentError(f"{rule}, and {_spelled(constant, found)} is {what}. {advice}", column=name)


def _spelled(constant: Constant, kind: str) -> str | None:
    """A constant as it is written when it is of a kind, or None where it cannot be."""
    if kind == "text":
        return '"' + re.sub(r'(["\\])', r"\\\1", constant.text) + '"'
    plain = constant.text.strip().lower()
    if kind == "numbers":
        return {"true": "1", "false": "0"}.get(plain, plain if _NUMBER.fullmatch(plain) else None)
    return {"1": "true", "0": "false", "true": "true", "false": "false"}.get(plain)


def _text_remarks(condition: Condition, column: pd.Series[Any]) -> str:
    """What order means for text, and why a column of numbers may have become text."""
    remarks = ""
    if condition.operator in _ORDERS:
        remarks += ' Text is ordered letter by letter: "100" comes before "81".'
    distinct = column.drop_duplicates()
    numeric = distinct.str.fullmatch(rf"\s*(?:{_NUMBER.pattern})\s*").to_numpy(dtype=bool)
    if numeric.any() and not numeric.all():
        remarks += f" If it should hold numbers, empty the fields that are not numbers: {listed(distinct[~numeric])}."
    return remarks


def unheard_of(expression: Expression, frame: pd.DataFrame) -> str:
    """What else may have been meant by the first text of a filter that its column does not hold."""
    for condition in _conditions(expression):
        if condition.operator in ("==", "in"):
            values = frame[condition.column].dropna().unique()
            for constant in condition.constants:
                if constant.value not in values:
                    hint = nearest(constant.text, values) if isinstance(constant.value, str) else ""
                    return f' No row has {constant.text} in "{condition.column}".{hint}'
    return ""


def _conditions(expression: Expression) -> Iterator[Condition]:
    if isinstance(expression, Condition):
        yield expression
    else:
        for operand in expression.operands:
            yield from _conditions(operand)
