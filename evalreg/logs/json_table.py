"""Tables in JSON lines: block by block, of each object the fields asked for, and no more of the file in memory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import pandas as pd

from evalreg.checks import listed
from evalreg.errors import LogFormatError
from evalreg.logs.content import LONGEST_LINE, Content, LineBlock, line_blocks
from evalreg.logs.fields import flat, nested_value
from evalreg.logs.lines import fast_loads, plain_loads
from evalreg.logs.pieces import ABSENT, Column, LargeNumberError
from evalreg.logs.reading import BrokenName


class _Object(dict[str, Any]):
    """A JSON object that knows which keys it was given twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        count = Counter(key for key, _ in pairs) if len(self) < len(pairs) else Counter[str]()
        self.repeated = [key for key, times in count.items() if times > 1]


class JsonTable:
    """Columns of the objects of JSON lines, read once.

    Parameters
    ----------
    content : Content
        The file.
    names : list of str or None
        Fields to keep, with dots into nested ones; None keeps all of the top level.
    nested : list of str
        Names with dots that become columns beside all of the top level.
    flat : bool
        Whether short fields of nested objects take the place of the objects.
    broken : {"raise", "skip"}
        What becomes of a line that is not an object: an error that gives its number, or left out and counted.

    Attributes
    ----------
    columns : dict from str to Column
        In the order asked for, else in that of the file; those that no object has are there too, empty.
    names : list of str
        Names of fields for messages: those that some object has, as far as they are known.
    n_rows, n_broken : int
        Lines kept and left out.
    """

    def __init__(
        self, content: Content, names: list[str] | None, nested: list[str], flat: bool, broken: BrokenName
    ) -> None:
        self.name, self._broken, self._flat = content.name, broken, flat
        self._all, self._nested = names is None, nested
        self.n_rows = self.n_broken = 0
        self.columns = {name: Column() for name in names or ()}
        self._seen: dict[str, None] = {}
        self._take = [_getter(name) for name in self.columns]
        self._parse = fast_loads() or plain_loads
        with content.counted() as file:
            for block in line_blocks(file):
                self._block(block)

    @property
    def names(self) -> list[str]:
        """Names of fields that some object has."""
        own = [name for name, column in self.columns.items() if column.found]
        return own if self._all else list(dict.fromkeys([*own, *self._seen]))

    def series(self, name: str, as_text: bool) -> pd.Series[Any]:
        """One column as pandas has it; its pieces are let go."""
        column = self.columns.pop(name)
        return column.series(name, as_text, self.name)

    def _block(self, block: LineBlock) -> None:
        """Take the objects of a block: at once where nothing is wrong with it, else line by line."""
        if block.text is None:
            self._refuse(block.first, f"is longer than {LONGEST_LINE >> 20} MiB", "Is it one document in one line?")
            return
        lines = [line for line in block.text.split(b"\n") if line and not line.isspace()]
        if not lines:
            return
        if self._parse is not plain_loads or not _half_pairs(block.text):  # orjson refuses them itself
            try:
                self._add(list(self._values(map(self._parse, lines), block.text, len(lines))), len(lines), strict=False)
                return
            except (ValueError, TypeError, AttributeError, _UnsureError, LargeNumberError, RecursionError):
                pass
        self._slowly(block.first, block.text)

    def _values(self, rows: Iterator[Any], text: bytes, n: int) -> Iterator[tuple[str, list[Any]]]:
        """Values of each column; stops where a key may stand twice in an object."""
        if self._all:
            yield from self._all_values([_an_object(row) for row in rows], text, n)
            return
        gathered: list[list[Any]] = [[] for _ in self._take]
        places = list(zip(self.columns, self._take, gathered, strict=True))
        plain = [(name, values.append) for name, _, values in places if "." not in name]
        nested = [(get, values.append) for name, get, values in places if "." in name]
        for row in rows:
            for name, append in plain:
                append(row.get(name, ABSENT))
            for get, append in nested:
                append(get(row))
        for name, values in zip(self.columns, gathered, strict=True):
            _be_sure(name, text, n - values.count(ABSENT))
        if not self._seen:
            self._seen |= dict.fromkeys(self._parse(text.lstrip().split(b"\n", 1)[0]))
        yield from zip(self.columns, gathered, strict=True)

    def _all_values(self, rows: list[dict[str, Any]], text: bytes, n: int) -> Iterator[tuple[str, list[Any]]]:
        """Values of every field that an object of the block has."""
        for name, times in Counter(chain.from_iterable(rows)).items():
            _be_sure(name, text, times)
        if self._flat:
            rows = [flat(row) for row in rows]
        found = dict.fromkeys(chain.from_iterable(rows))
        takers = {name: _getter(name) for name in self._nested} | {
            name: _plain_getter(name) for name in found if name not in self._nested
        }
        for name in dict.fromkeys([*found, *self._nested]):
            get = takers[name]
            values = [get(row) for row in rows]
            if name in found or name in self.columns or any(value is not ABSENT for value in values):
                yield name, values

    def _add(self, values: Sequence[tuple[str, list[Any]]], n: int, strict: bool) -> None:
        """Let the columns grow by `n` rows; none does where a number of one may have lost digits."""
        given = dict(values)
        for name in given:
            if name not in self.columns:
                self.columns[name] = Column(self.n_rows)
        absent = [ABSENT] * n
        grown = [column.prepare(given.get(name, absent), strict) for name, column in self.columns.items()]
        for column, more in zip(self.columns.values(), grown, strict=True):
            column.add(more)
        self.n_rows += n

    def _slowly(self, first: int, text: bytes) -> None:
        """Take the objects of a block line by line."""
        rows: list[dict[str, Any]] = []
        lines = text.split(b"\n")
        for number, line in enumerate(lines, start=first):
            if line.strip():
                record = self._record(number, line, len(rows), last=number - first == len(lines) - 1)
                rows += [] if record is None else [record]
        if not rows:
            return
        self._seen |= dict.fromkeys(chain.from_iterable(rows[:100]))
        if self._all:
            values = list(self._all_values([dict(row) for row in rows], b"", len(rows)))
        else:
            values = [(name, [get(row) for row in rows]) for name, get in zip(self.columns, self._take, strict=True)]
        self._add(values, len(rows), strict=True)

    def _record(self, number: int, line: bytes, above: int, last: bool) -> dict[str, Any] | None:
        """The object of one line; None where it is broken and left out."""
        try:
            record = json.loads(line.decode("utf-8"), object_pairs_hook=_Object)
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            return self._refuse(number, f"has the byte 0x{byte:02x}, which is not UTF-8", "Save it as UTF-8.", above)
        except (ValueError, RecursionError) as error:
            cut = "It is the last and was cut off: is the run still writing it?" if last else ""
            advice = f"{cut} Write one object per line, and remove a line that was cut off.".strip()
            return self._refuse(number, f"is not: {str(error)[:200]}", advice, above, error)
        if not isinstance(record, _Object):
            return self._refuse(number, f"is {line.strip()[:40].decode()}", "Remove it.", above)
        if _half_pairs(line) and not _is_unicode(record):
            return self._refuse(
                number,
                "has half a surrogate pair, such as \\ud83d alone",
                "Was an answer cut off within a character? Remove the line, or that half.",
                above,
            )
        wanted = {part.partition(".")[0] for part in (*self.columns, *self._nested)} | set(self.columns)
        repeated = [key for key in record.repeated if self._all or key in wanted]
        if repeated:
            more = f"has more than one {listed(repeated, joiner=' and ')}"
            return self._refuse(number, more, "Rename or remove one.", above, column=repeated[0])
        for name in dict.fromkeys([*self.columns, *self._nested]) if self._broken == "raise" else ():
            if "." in name:
                nested_value(record, name, f" in line {number} of {self.name}")
        return record

    def _refuse(
        self,
        number: int,
        what: str,
        advice: str,
        above: int = 0,
        cause: Exception | None = None,
        column: str | None = None,
    ) -> dict[str, Any] | None:
        """Count a line and give nothing, or raise."""
        if self._broken == "skip":
            self.n_broken += 1
            return None
        raise LogFormatError(
            f"In JSON lines every line is one whole object, each key once; line {number} of {self.name} {what}. "
            f"{advice}",
            column=column,
            rows=[self.n_rows + above],
        ) from cause


class _UnsureError(Exception):
    """A key may stand twice in an object."""


def _be_sure(name: str, text: bytes, times: int) -> None:
    """Stop where a key stands more often than there are objects that have it: one may have it twice."""
    for key in {name, name.rpartition(".")[2]} if text else ():
        if text.count(json.dumps(key, ensure_ascii=False).encode()) > times:
            raise _UnsureError


def _an_object(row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise TypeError
    return row


def _half_pairs(text: bytes) -> bool:
    """Whether a surrogate is written by its number, of which the other half may be missing."""
    return b"\\ud" in text or b"\\uD" in text


def _is_unicode(record: Any) -> bool:
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _plain_getter(name: str) -> Callable[[dict[str, Any]], Any]:
    def get(row: dict[str, Any]) -> Any:
        return row.get(name, ABSENT)

    return get


def _getter(name: str) -> Callable[[dict[str, Any]], Any]:
    """Takes a field from an object, by its key or by dots into nested ones."""
    first, dot, rest = name.partition(".")
    if not dot:
        return _plain_getter(name)
    if "." in rest:

        def deep(row: dict[str, Any]) -> Any:
            there, value = nested_value(row, name)
            return value if there else ABSENT

        return deep

    def get(row: dict[str, Any]) -> Any:
        inner = row.get(first)
        if type(inner) is dict or isinstance(inner, dict):
            value = inner.get(rest, ABSENT)
            return value if value is ABSENT or name not in row else nested_value(row, name)[1]
        return row.get(name, ABSENT)

    return get
