"""The small language of ``--where``: which rows of a table to keep.

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

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_float_dtype

from evalreg.checks import BoolArray, known_column, listed, pointed
from evalreg.errors import ArgumentError

__all__ = ["Combination", "Condition", "Constant", "Expression", "mask", "parse"]

_WORDS = frozenset({"and", "or", "not", "in", "true", "false", "missing"})
_ORDERS: dict[str, np.ufunc] = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
_CLOSING = {"[": "]", "(": ")"}
_DEEPEST = 100  # parentheses and `not` inside each other, well before Python's own limit

# What pandas calls the values of a column, and what messages call them.
_KINDS = {"string": "text", "boolean": "truth values"}
_KINDS |= dict.fromkeys(("integer", "floating", "mixed-integer-float", "decimal"), "numbers")

_NAME = re.compile(r"[^\W\d][\w.]*")
_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TOKEN = re.compile(
    rf"""
      (?P<space>\s+)
    | (?P<number>{_NUMBER.pattern})(?![\w.])
    | (?P<name>{_NAME.pattern})
    | (?P<backticks>`(?:[^`]|``)+`)
    | (?P<text>"(?:[^"\\]|\\["'\\])*"|'(?:[^'\\]|\\["'\\])*')
    | (?P<operator>[=!<>]=|<(?!>)|>)
    | (?P<mark>[()\[\],])
    """,
    re.VERBOSE,
)
# What to say about a character with which nothing can begin.
_QUOTING = "Text stands between two straight quotes; inside it, a backslash comes before a quote or a backslash."
_DIGITS = "Text that begins with a digit goes in quotes, such a column in backticks; a number has no zeros in front."
_REMEDIES = dict.fromkeys("\"'\N{LEFT DOUBLE QUOTATION MARK}\N{LEFT SINGLE QUOTATION MARK}", _QUOTING)
_REMEDIES |= dict.fromkeys("0123456789", _DIGITS)
_REMEDIES |= {"=": "Equality is written ==.", "<": "Inequality is written !=.", "!": "Negation is written `not`."}
_REMEDIES |= {"&": "Write `and`.", "|": "Write `or`.", "`": "A column name stands between two backticks."}


@dataclass(frozen=True)
class Constant:
    """A value in a filter; `text` is how it was written, without quotes."""

    value: str | int | float | bool
    text: str


@dataclass(frozen=True)
class Condition:
    """One column against one value or several.

    Parameters
    ----------
    column : str
        The name of the column.
    operator : str
        "==", "!=", "<", "<=", ">", ">=", "in" or "not in".
    constants : tuple of Constant
        The values on the right; empty for ``missing``.
    """

    column: str
    operator: str
    constants: tuple[Constant, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The name of the column, in a tuple."""
        return (self.column,)


@dataclass(frozen=True)
class Combination:
    """Expressions joined by a word.

    Parameters
    ----------
    word : {"and", "or", "not"}
        What joins them.
    operands : tuple of Condition or Combination
        Two or more; exactly one for "not".
    """

    word: Literal["and", "or", "not"]
    operands: tuple[Condition | Combination, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in order of appearance, each once."""
        return tuple(dict.fromkeys(name for operand in self.operands for name in operand.columns))


Expression: TypeAlias = Condition | Combination


def parse(text: str) -> Expression:
    """The expression that a filter spells.

    Parameters
    ----------
    text : str
        The filter, for example ``'model in ["a", "b"] and not answered == 0'``.

    Returns
    -------
    Condition or Combination
        To be given to `mask`; its `columns` are the names to read.

    Raises
    ------
    ArgumentError
        If the text does not follow the grammar. The message marks the place and says what was expected there.

    Examples
    --------
    >>> parse('category == "law" and (score >= 0.5 or score == missing)').columns
    ('category', 'score')
    """
    parser = _Parser(text)
    expression = parser.expression()
    if parser.token.kind != "end":
        raise parser.expected("`and`, `or` or the end")
    return expression


def mask(expression: Expression, frame: pd.DataFrame) -> BoolArray:
    """True for the rows on which an expression is true.

    Parameters
    ----------
    expression : Condition or Combination
        From `parse`.
    frame : DataFrame
        With the columns that the expression names.

    Returns
    -------
    ndarray of bool, shape (n_rows,)
        False where the expression is false and where, for a missing value, it is neither true nor false.

    Raises
    ------
    MissingColumnError
        If a column is not in the frame.
    ArgumentError
        If a column is compared with a value of another kind, such as text with a number.

    Examples
    --------
    >>> frame = pd.DataFrame({"model": ["a", "b", None], "score": [1.0, 0.0, 1.0]})
    >>> mask(parse('score == 1 and model != "b"'), frame).tolist()
    [True, False, False]
    """
    return _truth(expression, frame)[0]


def _truth(expression: Expression, frame: pd.DataFrame) -> tuple[BoolArray, BoolArray]:
    """Where an expression is true and where it is false; elsewhere it is unknown."""
    if isinstance(expression, Condition):
        return _condition_truth(expression, frame)
    trues, falses = zip(*(_truth(operand, frame) for operand in expression.operands), strict=True)
    if expression.word == "and":
        return np.all(trues, axis=0), np.any(falses, axis=0)
    if expression.word == "or":
        return np.any(trues, axis=0), np.all(falses, axis=0)
    return falses[0], trues[0]


def _condition_truth(condition: Condition, frame: pd.DataFrame) -> tuple[BoolArray, BoolArray]:
    names = [name for name in frame if isinstance(name, str)]
    column = frame[known_column(condition.column, names, "where")]
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    elif is_float_dtype(column.dtype) and not isinstance(column.dtype, np.dtype):
        column = column.astype(np.float64)  # extension floats may hold NaN that `notna` does not report
    present = column.notna().to_numpy(dtype=bool)
    if condition.constants:
        true = np.zeros(len(column), dtype=bool)
        if present.any():
            true[present] = _holds(condition, column[present])
    else:
        true = ~present
        present = np.ones(len(column), dtype=bool)
    false = present & ~true
    return (false, true) if condition.operator in ("!=", "not in") else (true, false)


def _holds(condition: Condition, column: pd.Series[Any]) -> BoolArray:
    """Where a column without missing values equals, is among, or is ordered against the constants."""
    inferred = infer_dtype(column, skipna=False)
    kind = _KINDS.get(inferred, inferred)
    for constant in condition.constants:
        if _kind_of(constant) != kind:
            raise _mismatch(condition, constant, column, kind)
    values = [constant.value for constant in condition.constants]
    if kind == "text" and len(values) > 1:
        return column.isin(values).to_numpy(dtype=bool)
    compare, array = _ORDERS.get(condition.operator, np.equal), column.to_numpy()
    holds: BoolArray = np.any([compare(array, value).astype(bool, copy=False) for value in values], axis=0)
    return holds


def _kind_of(constant: Constant) -> str:
    return {bool: "truth values", str: "text"}.get(type(constant.value), "numbers")


def _mismatch(condition: Condition, constant: Constant, column: pd.Series[Any], kind: str) -> ArgumentError:
    """The error for a constant of another kind than its column."""
    name, found = condition.column, _kind_of(constant)
    rule = f"`where` compares like with like: column `{name}` holds {kind}"
    if kind not in _KINDS.values():
        return ArgumentError(f"{rule}. Only text, numbers and truth values can be compared.", column=name)
    rewritten = _spelled(constant, kind)
    if kind == "truth values" and condition.operator in _ORDERS:
        advice = "Truth values have no order: compare them by == or !=."
    elif rewritten is None:
        advice = f"It holds, for example, {listed(column.drop_duplicates().head(3))}."
    else:
        bare = _NAME.fullmatch(name) and name.lower() not in _WORDS
        left = name if bare else "`" + name.replace("`", "``") + "`"
        right = f"[{rewritten}, ...]" if "in" in condition.operator else rewritten
        advice = f"Write {left} {condition.operator} {right}."
    remarks = _text_remarks(condition, column) if kind == "text" else ""
    what = {"numbers": "a number", "truth values": "a truth value"}.get(found, found)
    return ArgumentError(f"{rule}, and {_spelled(constant, found)} is {what}. {advice}{remarks}", column=name)


def _spelled(constant: Constant, kind: str) -> str | None:
    """A constant as it is written when it is of a kind, or None where it cannot be."""
    if kind == "text":
        return '"' + constant.text.replace("\\", "\\\\").replace('"', '\\"') + '"'
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
        remarks += f" If it should hold numbers, empty the fields that are none: {listed(distinct[~numeric])}."
    return remarks


@dataclass(frozen=True)
class _Token:
    kind: str  # "name", "word" (of the language), "number", "text", "operator", "mark" or "end"
    value: str
    start: int


def _tokens(text: str) -> list[_Token]:
    tokens, start = [], 0
    while start < len(text):
        found = _TOKEN.match(text, start)
        if found is None:
            raise _mistake(text, start, f"nothing can begin with {text[start]} here", _REMEDIES.get(text[start], ""))
        kind, value = str(found.lastgroup), found.group()
        if kind == "name" and value.lower() in _WORDS:
            kind, value = "word", value.lower()
        elif kind == "backticks":
            kind, value = "name", value[1:-1].replace("``", "`")
        elif kind == "text":
            value = re.sub(r"\\(.)", r"\1", value[1:-1])
        if kind != "space":
            tokens.append(_Token(kind, value, start))
        start = found.end()
    return [*tokens, _Token("end", "", len(text))]


def _mistake(text: str, place: int, problem: str, remedy: str = "") -> ArgumentError:
    """An error that shows the line of the filter with a caret under the place."""
    message = f"`where` cannot be read: {problem}.\n{pointed(text, place)}"
    return ArgumentError(message + (f"\n{remedy}" if remedy else ""))


class _Parser:
    """Recursive descent: a method for each line of the grammar, leaving `index` after what it has read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.index = 0
        self.depth = 0

    @property
    def token(self) -> _Token:
        return self.tokens[self.index]

    def accept(self, kind: str, *values: str) -> _Token | None:
        """The present token, passed over, if it is of a kind and, where values are given, among them."""
        token = self.token
        if token.kind != kind or (values and token.value not in values):
            return None
        self.index += 1
        return token

    def expected(self, what: str, remedy: str = "") -> ArgumentError:
        end = self.tokens[self.index + 1].start if self.token.kind != "end" else None
        found = self.text[self.token.start : end].strip() or "the end"
        return _mistake(self.text, self.token.start, f"expected {what}, found {found}", remedy)

    def expression(self) -> Expression:
        return self.joined("or", self.conjunction)

    def conjunction(self) -> Expression:
        return self.joined("and", self.negation)

    def joined(self, word: Literal["and", "or"], operand: Callable[[], Expression]) -> Expression:
        operands = [operand()]
        while self.accept("word", word):
            operands.append(operand())
        return operands[0] if len(operands) == 1 else Combination(word, tuple(operands))

    def negation(self) -> Expression:
        opening = self.accept("word", "not") or self.accept("mark", "(")
        if opening is None:
            return self.condition()
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _mistake(self.text, opening.start, f"more than {_DEEPEST} parentheses and `not` inside each other")
        if opening.value == "not":
            expression: Expression = Combination("not", (self.negation(),))
        else:
            expression = self.expression()
            if not self.accept("mark", ")"):
                raise self.expected("`and`, `or` or )")
        self.depth -= 1
        return expression

    def condition(self) -> Condition:
        column = self.accept("name")
        if column is None:
            in_backticks = f"A column named {self.token.value} goes in backticks."
            raise self.expected("a column name, `not` or (", in_backticks if self.token.kind == "word" else "")
        negated = self.accept("word", "not")
        if self.accept("word", "in"):
            return Condition(column.value, "not in" if negated else "in", self.constants())
        sign = None if negated else self.accept("operator")
        if sign is None:
            raise self.expected("`in`" if negated else "==, !=, <, <=, >, >=, `in` or `not in`")
        if sign.value in ("==", "!=") and self.accept("word", "missing"):
            return Condition(column.value, sign.value, ())
        return Condition(column.value, sign.value, (self.constant(ordered=sign.value in _ORDERS),))

    def constants(self) -> tuple[Constant, ...]:
        opening = self.accept("mark", "[", "(")
        if opening is None:
            raise self.expected('a list such as ["a", "b"]')
        constants = [self.constant()]
        while self.accept("mark", ","):
            constants.append(self.constant())
        if not self.accept("mark", _CLOSING[opening.value]):
            raise self.expected(f"a comma or {_CLOSING[opening.value]}")
        return tuple(constants)

    def constant(self, *, ordered: bool = False) -> Constant:
        if token := self.accept("text"):
            return Constant(token.value, token.value)
        if token := self.accept("number"):
            if not math.isfinite(float(token.value)):
                raise _mistake(self.text, token.start, "expected a number that a 64-bit float can hold")
            whole = token.value.lstrip("+-").isdecimal()
            return Constant(int(token.value) if whole else float(token.value), token.value)
        if not ordered and (token := self.accept("word", "true", "false")):
            return Constant(token.value == "true", token.value)
        raise self.expected("a number or quoted text" + ("" if ordered else ", true or false"), self.quotes())

    def quotes(self) -> str:
        """What to do about a word that stands in the place of a value."""
        if self.token.value == "missing":
            return "Only == and != go with `missing`."
        bare = re.match(r"[^\s()\[\],`'\"]+", self.text[self.token.start :])
        return f'Text goes in quotes: "{bare.group()}".' if self.token.kind == "name" and bare else ""
