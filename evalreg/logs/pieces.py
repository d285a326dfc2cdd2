"""Columns of JSON values as they are read: a piece for each block of lines, held in arrays and not as objects."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalreg.checks import FloatArray
from evalreg.errors import LogFormatError

_NONE = type(None)
# Beyond this not every whole number is a float; beyond 64 bits some parsers make floats of them unasked.
_EXACT, _LARGEST = 2**53, 2.0**63


class Absent:
    """Stands for a field that an object does not have."""


ABSENT = Absent()


class LargeNumberError(Exception):
    """A number so large that it may have lost digits on its way."""


@dataclass(frozen=True)
class Numbers:
    """Whole numbers, or floats of which some were written as whole numbers; NaN where none was given."""

    values: npt.NDArray[Any]
    whole: npt.NDArray[np.bool_] | None = None

    def originals(self) -> list[Any]:
        """As Python's numbers, None where none was given."""
        if self.whole is None:
            return [None if value != value else value for value in self.values.tolist()]
        pairs = zip(self.values.tolist(), self.whole.tolist(), strict=True)
        return [None if value != value else int(value) if whole else value for value, whole in pairs]


@dataclass(frozen=True)
class Texts:
    """Codes of texts in the table of the column."""

    codes: npt.NDArray[np.int32]


@dataclass(frozen=True)
class Nothing:
    """Missing values alone."""

    n: int


Piece: TypeAlias = Numbers | Texts | Nothing | list[Any]


@dataclass(frozen=True)
class Grown:
    """A piece, the types of its values, and whether some object has the field, with a value or null."""

    piece: Piece
    kinds: set[type]
    found: bool


class _Table(dict[Any, int]):
    """Numbers of texts in the order in which they came."""

    def __missing__(self, text: Any) -> int:
        self[text] = code = len(self)
        return code


class Column:
    """One column, which grows by blocks.

    Parameters
    ----------
    n : int
        Rows before the first that has the field.
    """

    def __init__(self, n: int = 0) -> None:
        self.found = False
        self._kinds: set[type] = set()
        self._texts = _Table()
        self._pieces: list[Piece] = [Nothing(n)] if n else []

    def prepare(self, values: list[Any], strict: bool) -> Grown:
        """The values of a block in their arrays; `strict` says that large numbers are as they were written."""
        kinds = set(map(type, values))
        found = Absent not in kinds or len(kinds) > 1
        if Absent in kinds:
            values = [None if value is ABSENT else value for value in values]
            kinds = (kinds - {Absent}) | {_NONE}
        if float in kinds and any(value != value for value in values):
            values = [None if value != value else value for value in values]
            kinds = set(map(type, values))
        return Grown(self._piece(values, kinds, strict), kinds, found)

    def add(self, grown: Grown) -> None:
        """Take what was prepared."""
        self.found |= grown.found
        self._kinds |= grown.kinds
        self._pieces.append(grown.piece)

    def _piece(self, values: list[Any], kinds: set[type], strict: bool) -> Piece:
        if kinds == {_NONE}:
            return Nothing(len(values))
        if kinds <= {str, _NONE}:
            return Texts(np.fromiter(map(self._texts.__getitem__, values), np.int32, len(values)))
        if not kinds <= {int, float, _NONE}:
            if float in kinds and not strict and any(type(v) is float and abs(v) >= _LARGEST for v in values):
                raise LargeNumberError
            return values
        try:
            if kinds == {int}:
                return Numbers(np.array(values, dtype=np.int64))
            numbers = np.array(values, dtype=np.float64)
        except OverflowError:
            return values
        if float in kinds and not strict and bool((np.abs(numbers) >= _LARGEST).any()):
            raise LargeNumberError
        if int not in kinds:
            return Numbers(numbers)
        whole = np.fromiter((type(value) is int for value in values), np.bool_, len(values))
        return values if bool((np.abs(numbers[whole]) > _EXACT).any()) else Numbers(numbers, whole)

    def series(self, column: str, as_text: bool, name: str) -> pd.Series[Any]:
        """The column; what is of several kinds becomes text, as in CSV."""
        kinds = self._kinds - {_NONE}
        if kinds & {dict, list}:
            return self._nested(column, as_text, name)
        # Integers of more than 64 bits are ids; they become text, as in CSV.
        if kinds <= {int, float} and not as_text and not self._has_ids():
            return pd.Series(self._numbers(kinds))
        values = self._originals() if kinds != {str} else ()
        if kinds <= {bool} and not as_text:
            plain = list(values)
            return pd.Series(plain, dtype="boolean" if None in plain else None)
        return self._text(kinds)

    def _has_ids(self) -> bool:
        lists = (piece for piece in self._pieces if isinstance(piece, list))
        return any(type(value) is int and abs(value) >= 2**63 for values in lists for value in values)

    def _numbers(self, kinds: set[type]) -> npt.NDArray[Any]:
        """One array; whole numbers where all are and none is missing."""
        whole = kinds == {int} and _NONE not in self._kinds and not self._gaps()
        dtype = np.int64 if whole else np.float64
        arrays = [self._array(piece, dtype) for piece in self._pieces]
        return np.concatenate(arrays) if arrays else np.zeros(0)

    def _gaps(self) -> bool:
        return any(isinstance(piece, Nothing) for piece in self._pieces)

    def _array(self, piece: Piece, dtype: Any) -> npt.NDArray[Any]:
        if isinstance(piece, Nothing):
            missing: FloatArray = np.full(piece.n, np.nan)
            return missing
        return np.asarray(piece.values if isinstance(piece, Numbers) else piece, dtype=dtype)

    def _text(self, kinds: set[type]) -> pd.Series[Any]:
        """The column as text."""
        table = self._texts
        pieces = [self._codes(piece) for piece in self._pieces]
        codes = np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int32)
        del pieces, self._pieces[:]
        texts = pd.Series(list(table), dtype=None if kinds else object).array
        return pd.Series(texts.take(codes), copy=False)

    def _codes(self, piece: Piece) -> npt.NDArray[np.int32]:
        if isinstance(piece, Texts):
            return piece.codes
        if isinstance(piece, Nothing):
            return np.full(piece.n, self._texts[None], dtype=np.int32)
        values = _originals(piece)
        texts = (value if value is None or isinstance(value, str) else json.dumps(value) for value in values)
        return np.fromiter((self._texts[text] for text in texts), np.int32)

    def _originals(self) -> Iterable[Any]:
        """Values as they came, of what is not text alone."""
        return (value for piece in self._pieces if not isinstance(piece, Texts) for value in _originals(piece))

    def _nested(self, column: str, as_text: bool, name: str) -> pd.Series[Any]:
        """The column as objects."""
        texts = list(self._texts)
        values: list[Any] = []
        for piece in self._pieces:
            values += [texts[code] for code in piece.codes] if isinstance(piece, Texts) else _originals(piece)
        if not as_text:
            return pd.Series(values, dtype=object)
        row = next(row for row, value in enumerate(values) if isinstance(value, dict | list))
        raise LogFormatError(
            f'A column read as text must not hold lists or objects; "{column}" of {name} does, first in row {row}. '
            "Name another column.",
            column=column,
            rows=[row],
        )


def _originals(piece: Numbers | Nothing | list[Any]) -> list[Any]:
    if isinstance(piece, Nothing):
        return [None] * piece.n
    return piece if isinstance(piece, list) else piece.originals()
