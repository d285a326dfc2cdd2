"""The small language of ``--where`` and of `subset`: which rows to keep, in memory or in an engine.

It is part of Python's own grammar, and nothing of it is run as Python::

    expression := expression "or" expression | expression "and" expression | "not" expression | "(" expression ")"
                | column ("==" | "!=" | "<" | "<=" | ">" | ">=") value
                | column ("==" | "!=") "missing" | column ["not"] "in" "[" value ("," value)* "]"
    value      := number | "text" | 'text' | true | false

A column is a bare name (letters, digits, underscores and dots, not beginning with a digit) or anything in backticks, a
backtick inside being written twice. Words may be in any case.

Missing values follow SQL: a comparison with one is neither true nor false, nor is its `not`, and a row is kept only
where the whole expression is true. Only ``== missing`` and ``!= missing`` see missing values.
"""

from __future__ import annotations

import ast
import functools
import operator
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype

from evalreg.checks import BoolArray, Names, listed, nearest, pointed
from evalreg.data.clusters import known_column
from evalreg.data.engine import Query, count_of, kind_of
from evalreg.data.frame import Chosen, Table, open_frame
from evalreg.errors import ArgumentError, ArgumentTypeError, EmptyDataError

_SIGNS: dict[type[ast.cmpop], str] = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<="}
_SIGNS |= {ast.Gt: ">", ast.GtE: ">=", ast.In: "in", ast.NotIn: "not in"}
_ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_WORDS = ("and", "or", "not", "in", "true", "false", "missing")
_TOKENS = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|`(?P<quoted>(?:[^`]|``)+)`|[\d.][\w.]*|(?P<name>[^\W\d][\w.]*)"""
)
# Letters that stand for columns and texts in the code that Python parses: ideographs, which mean nothing to it.
FIRST_LETTER = 0x4E00
_BARE = re.compile(r"[^\W\d][\w.]*")
# What pandas calls the values of a column, and what messages call them.
_KINDS = {"string": "text", "boolean": "truth values"}
_KINDS |= dict.fromkeys(("integer", "floating", "mixed-integer-float", "decimal"), "numbers")

Value: TypeAlias = str | int | float | bool
Truth: TypeAlias = tuple[Any, Any]
"""Where an expression is true, and where it is false: arrays, or expressions of an engine; unknown is neither."""


@dataclass(frozen=True)
class Condition:
    """One column against one value or several; against none where the filter says ``missing``."""

    column: str
    sign: str
    values: tuple[Value, ...]

    @property
    def compare(self) -> Callable[[Any, Any], Any]:
        """What compares the column with one value, before "not"."""
        return _ORDERS.get(self.sign, operator.eq)


@dataclass(frozen=True)
class Filter:
    """A filter that was read; `names` and `texts` are what stands in its code, by the names that they have there."""

    text: str
    argument: str
    code: str
    tree: ast.expr
    names: dict[str, str]
    texts: dict[str, str]

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions, in order."""
        conditions: list[Condition] = []

        def noted(condition: Condition) -> Truth:
            conditions.append(condition)
            return True, True

        self.truth(noted)
        return tuple(conditions)

    @property
    def columns(self) -> Names:
        """Names of the columns, in order of appearance, each once."""
        return tuple(dict.fromkeys(condition.column for condition in self.conditions))

    def truth(self, of: Callable[[Condition], Truth]) -> Truth:
        """Where the filter is true and where it is false, from those of its conditions."""

        def walk(node: ast.expr) -> Truth:
            if isinstance(node, ast.BoolOp):
                true, false = zip(*map(walk, node.values), strict=True)
                joins = (operator.and_, operator.or_) if isinstance(node.op, ast.And) else (operator.or_, operator.and_)
                return functools.reduce(joins[0], true), functools.reduce(joins[1], false)
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
                return walk(node.operand)[::-1]
            return of(self._condition(node))

        return walk(self.tree)

    def _condition(self, node: ast.expr) -> Condition:
        if not isinstance(node, ast.Compare) or len(node.ops) > 1 or type(node.ops[0]) not in _SIGNS:
            if isinstance(node, ast.BinOp | ast.UnaryOp):
                self.refuse(node, "conditions are joined by `and`, `or` and `not`, and values are not computed")
            self.refuse(node, "a filter compares a column with a value, one comparison at a time")
        left, sign, right = node.left, _SIGNS[type(node.ops[0])], node.comparators[0]
        if not (isinstance(left, ast.Name) and left.id in self.names):
            self.refuse(left, "a condition begins with a column")
        column = self.names[left.id]
        if sign in ("in", "not in"):
            entries = right.elts if isinstance(right, ast.List | ast.Tuple) else [right]
            if not entries:
                self.refuse(right, 'a list such as ["a", "b"] has values')
            return Condition(column, sign, tuple(map(self._value, entries)))
        if isinstance(right, ast.Name) and right.id == "missing":
            if sign in _ORDERS:
                self.refuse(right, "only == and != go with `missing`")
            return Condition(column, sign, ())
        return Condition(column, sign, (self._value(right),))

    def _value(self, node: ast.expr) -> Value:
        if isinstance(node, ast.Name):
            if node.id in self.texts:
                return self.texts[node.id]
            if node.id in ("true", "false"):
                return node.id == "true"
            name = self.names.get(node.id, node.id)
            self.refuse(node, f'a column is compared with a value; text goes in quotes: "{name}"')
        sign, inner = 1, node
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            sign, inner = -1 if isinstance(node.op, ast.USub) else 1, node.operand
        number = inner.value if isinstance(inner, ast.Constant) else None
        if isinstance(number, int | float) and not isinstance(number, bool) and abs(number) <= sys.float_info.max:
            return sign * number
        return self.refuse(node, "a value is a number that a 64-bit float can hold, quoted text, true or false")

    def refuse(self, node: ast.expr, problem: str) -> NoReturn:
        """Raise with the line of the filter and a caret under the place."""
        raise _mistake(self.text, self.argument, len(self.code.encode()[: node.col_offset].decode()), problem)


def _mistake(text: str, argument: str, place: int, problem: str) -> ArgumentError:
    return ArgumentError(f"`{argument}` cannot be read: {problem}.\n{pointed(text, min(place, len(text)))}")


def parse(text: str, argument: str = "where") -> Filter:
    """The filter that a text spells; of a mistake, an error that marks the place and says what goes there."""
    names: dict[str, str] = {}
    texts: dict[str, str] = {}

    def token(match: re.Match[str]) -> str:
        word = match["name"] is not None and match["name"].lower() not in _WORDS
        if match["text"] is None and match["quoted"] is None and not word:
            return match[0].lower()
        # A letter of its own, as wide as what it stands for: places in the code are those in the text.
        key = chr(FIRST_LETTER + len(names) + len(texts)).ljust(len(match[0]) - (not word), "_")
        if match["text"] is not None:
            texts[key] = re.sub(r"\\(.)", r"\1", match["text"][1:-1])
        else:
            names[key] = match["name"] or match["quoted"].replace("``", "`")
        return key.ljust(len(match[0]))

    code = re.sub(r"\s", " ", _TOKENS.sub(token, text)).rstrip()
    if not code.strip():
        raise _mistake(text, argument, 0, "it is empty; write a condition such as score == 1")
    try:
        tree = ast.parse(code, mode="eval").body
    except SyntaxError as error:
        raise _mistake(text, argument, max((error.offset or 1) - 1, 0), _said(error)) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise _mistake(text, argument, 0, f"it is too deep, or holds what is no text ({error})") from None
    row_filter = Filter(text, argument, code, tree, names, texts)
    row_filter.conditions  # noqa: B018  what cannot be read is refused now
    return row_filter


def _said(error: SyntaxError) -> str:
    said = error.msg[:1].lower() + error.msg[1:]
    return f"{said}. Equality is written ==, text goes in straight quotes, names of columns with blanks in backticks"


def open_subset(data: Any, subset: object, argument: str = "subset") -> tuple[Table | Query, str, int]:
    """The rows for which the filter is true, what is said of them, and how many others there are."""
    if not isinstance(subset, str):
        raise ArgumentTypeError(
            f"`subset` must be text such as 'language == \"en\" and tokens < 100'; got {type(subset).__name__}. Rows "
            "that are chosen in another way are left out beforehand, as in data[keep]."
        )
    row_filter, table = parse(subset, argument), open_frame(data)
    for name in row_filter.columns:
        known_column(name, table.columns, argument)
    if isinstance(table, Query):
        return _subset_in_engine(table, row_filter)
    keep = mask(row_filter, table)
    if not keep.any():
        raise _none_left(row_filter, keep.size, unheard_of(row_filter, table))
    chosen = Chosen(subset, keep, table.index)
    native = table.frame.to_native()
    if isinstance(native, pd.DataFrame):
        frame = nw.from_native(native[keep], eager_only=True)
    else:
        frame = table.frame.filter(nw.new_series("keep", keep, nw.Boolean, backend=table.frame.implementation))
    chosen_rows = replace(table, frame=frame, _labels={}, chosen=chosen)
    return chosen_rows, chosen.said, int(keep.size - np.count_nonzero(keep))


def mask(row_filter: Filter, table: Table) -> BoolArray:
    """True for the rows of a table on which a filter is true, shape (n_rows,)."""
    columns = {name: _present(table, name) for name in row_filter.columns}
    true, _ = row_filter.truth(lambda condition: _of_values(row_filter, condition, *columns[condition.column]))
    return np.asarray(true, dtype=bool)


def _present(table: Table, name: str) -> tuple[pd.Series[Any], BoolArray]:
    """The values of a column that are there, and where."""
    column = table.series([name], None)[name]
    column = column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column
    present = ~table.missing(name)
    return column[present], present


def _truth(condition: Condition, present: Any, absent: Any, holds: Any) -> Truth:
    """Where a condition is true and where it is false, from where its column is present and the comparison holds."""
    truth = (present & holds, present & ~holds) if condition.values else (absent, present)
    return truth[::-1] if condition.sign in ("!=", "not in") else truth


def _of_values(row_filter: Filter, condition: Condition, values: pd.Series[Any], present: BoolArray) -> Truth:
    holds = np.zeros(present.size, dtype=bool)
    if condition.values and len(values):
        inferred = infer_dtype(values, skipna=False)
        _refuse_kind(row_filter, condition, _KINDS.get(inferred, inferred), values.drop_duplicates().head(3).tolist())
        array, compare = values.to_numpy(), condition.compare
        if isinstance(condition.values[0], str) and len(condition.values) > 1:
            holds[present] = values.isin(condition.values).to_numpy(dtype=bool)
        else:
            holds[present] = np.any([np.array(compare(array, value), dtype=bool) for value in condition.values], axis=0)
    return _truth(condition, present, ~present, holds)


def _subset_in_engine(table: Query, row_filter: Filter) -> tuple[Query, str, int]:
    """The same of rows that stay in an engine."""
    schema = table.schema

    def of(condition: Condition) -> Truth:
        absent, holds = table.absent([condition.column]), None
        if condition.values:
            _refuse_kind(row_filter, condition, kind_of(schema[condition.column]), [])
            column = nw.col(condition.column)
            holds = functools.reduce(operator.or_, [condition.compare(column, value) for value in condition.values])
        return _truth(condition, ~absent, absent, holds)

    true = row_filter.truth(of)[0]
    counts = table.totals({"chosen": count_of(true)})
    n, n_chosen = int(counts["n"]), int(np.nan_to_num(counts["chosen"]))
    if not n_chosen:
        raise _none_left(row_filter, n, "")
    return table.each(lambda frame: frame.filter(true)), f"{row_filter.text} ({n_chosen} of {n} rows)", n - n_chosen


def _none_left(row_filter: Filter, n: int, hint: str) -> EmptyDataError:
    return EmptyDataError(
        f"`{row_filter.argument}` must keep some rows; {row_filter.text} is true for none of the {n} rows.{hint}",
        count=n,
        parameter=row_filter.argument,
    )


def as_name(column: str) -> str:
    """A column as a filter names it, in backticks where it must be."""
    return column if _BARE.fullmatch(column) else "`" + column.replace("`", "``") + "`"


def _refuse_kind(row_filter: Filter, condition: Condition, kind: str, some: list[Any]) -> None:
    """Raise where a value is of another kind than its column."""
    rule = f"`{row_filter.argument}` compares like with like: column `{condition.column}` holds {kind}"
    if kind not in _KINDS.values():
        raise ArgumentError(f"{rule}. Only text, numbers and truth values can be compared.", column=condition.column)
    if kind == "truth values" and condition.sign in _ORDERS:
        raise ArgumentError(f"{rule}, which have no order: compare them by == or !=.", column=condition.column)
    for value in condition.values:
        value_kind = {bool: "truth values", str: "text"}.get(type(value), "numbers")
        if value_kind != kind:
            shown = f'"{value}"' if isinstance(value, str) else str(value).lower()
            what = {"text": "text", "numbers": "a number", "truth values": "a truth value"}[value_kind]
            written = f'["{value}", ...]' if "in" in condition.sign else f'"{value}"'
            example = f" It holds, for example, {listed(some)}." if some else ""
            advice = f" Write {as_name(condition.column)} {condition.sign} {written}." if kind == "text" else example
            raise ArgumentError(f"{rule}, and {shown} is {what}.{advice}", column=condition.column)


def unheard_of(row_filter: Filter, table: Table) -> str:
    """What else may have been meant by the first text of a filter that its column does not hold."""
    for condition in row_filter.conditions:
        if condition.sign in ("==", "in"):
            values = _present(table, condition.column)[0].unique()
            for value in condition.values:
                if value not in values:
                    hint = nearest(value, values) if isinstance(value, str) else ""
                    return f' No row has {value} in "{condition.column}".{hint}'
    return ""
