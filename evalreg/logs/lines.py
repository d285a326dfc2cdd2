"""JSON lines one at a time, so that a file need not fit into memory: bounded lines, and broken ones counted."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any, cast

from evalreg.checks import listed
from evalreg.errors import ArgumentError, LogFormatError
from evalreg.logs.content import LONGEST_LINE
from evalreg.logs.reading import BrokenName
from evalreg.numerics.progress import Progress

BUFFER = 1 << 20  # lines are often longer than the default of 8 KiB, which would be read in pieces
_BOM = b"\xef\xbb\xbf"
_REMOVE = 'Remove that line, or pass broken="skip" to leave such lines out and count them.'


def fast_loads() -> Callable[[bytes], Any] | None:
    """The parser of orjson, where it is installed: half as fast again as that of Python."""
    try:
        found: Callable[[bytes], Any] = import_module("orjson").loads
    except ImportError:
        return None
    return found


def plain_loads(text: bytes) -> Any:
    """The parser of Python."""
    return json.loads(text.decode("utf-8"))


def parse_json(text: bytes, fast: Callable[[bytes], Any] | None = None) -> Any:
    """A JSON value; NaN and Infinity, which Python writes, are taken too, which orjson does not.

    Raises ValueError or RecursionError where the text is none.
    """
    if fast is not None:
        try:
            return fast(text)
        except ValueError:
            pass
    return json.loads(text.decode("utf-8"))


class JsonLines:
    """Objects of a file of JSON lines, plain or gzip, in UTF-8; `n_broken` counts the lines left out until now.

    `broken`: a line that is not an object raises an error with its number ("raise"), or is left out and counted
    ("skip"). `unique`: keys that a line may give once only at its top level. `exact`: whole numbers of any size keep
    all their digits, of which orjson drops those beyond 64 bits.
    """

    def __init__(self, path: Path, broken: BrokenName, unique: Sequence[str] = (), exact: bool = False) -> None:
        self.path, self.n_broken = path, 0
        self._broken, self._fast = broken, None if exact else fast_loads()
        self._unique = [f'"{key}"'.encode() for key in unique]

    def __iter__(self) -> Iterator[tuple[int, bytes, dict[str, Any]]]:
        """Number of each line from 1, the line, and its object."""
        try:
            with self._open() as file, Progress(max(1, self.path.stat().st_size), unit="bytes") as progress:
                before = 0
                for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), start=1):
                    if not line.isspace():
                        yield from self._object(number, line.removeprefix(_BOM) if number == 1 else line, file)
                    if not number % 256 and not isinstance(file, gzip.GzipFile):
                        before, last = file.tell(), before
                        progress.advance(before - last)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise LogFormatError(f"{self.path} begins as gzip but is damaged or cut off ({error}).") from error
        except OSError as error:
            reason = error.strerror or error
            raise ArgumentError(f'`path` must be a file that can be read; "{self.path}" cannot: {reason}.') from error

    def _open(self) -> IO[bytes]:
        with self.path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        return cast(IO[bytes], gzip.open(self.path)) if packed else self.path.open("rb", buffering=BUFFER)

    def _object(self, number: int, line: bytes, file: IO[bytes]) -> Iterator[tuple[int, bytes, dict[str, Any]]]:
        """The object of one line, or nothing where it is broken and left out."""
        if len(line) > LONGEST_LINE:
            # Refused at once, for the end of it may be far away.
            self._refuse(number, f"is longer than {LONGEST_LINE >> 20} MiB")
            while not line.endswith(b"\n") and line:
                line = file.readline(BUFFER)
            return
        try:
            record = parse_json(line, self._fast)
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            what = f"has the byte 0x{byte:02x}, which is not UTF-8"
            # Leaving out the lines with such bytes would leave out whole languages.
            self._refuse(number, what, error, "Is the file in another encoding? Save it as UTF-8.")
            return
        except (ValueError, RecursionError) as error:
            last = "" if line.endswith(b"\n") else "It is the last and was cut off: is the run still writing it? "
            self._refuse(number, f"is not: {str(error)[:200].rstrip('.')}", error, last + _REMOVE)
            return
        if not isinstance(record, dict):
            self._refuse(number, f"is {line.strip()[:40].decode('utf-8', 'replace')}")
        elif any(line.count(key) > 1 for key in self._unique) and (twice := _repeated(line)):
            self._refuse(number, f"gives {listed(twice)} twice")
        else:
            yield number, line, record

    def _refuse(self, number: int, what: str, cause: Exception | None = None, advice: str = _REMOVE) -> None:
        if self._broken == "skip":
            self.n_broken += 1
            return
        raise LogFormatError(
            f"In JSON lines every line is one whole object, each key once; line {number} of {self.path} {what}. "
            f"{advice}",
            rows=[number - 1],
        ) from cause


def _repeated(line: bytes) -> list[str]:
    """Keys that the object of a line has twice at its top level; its pairs are the last that the parser gives."""
    last: list[str] = []

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        last[:] = [key for key, _ in pairs]
        return dict(pairs)

    json.loads(line.decode("utf-8"), object_pairs_hook=keep)
    return [key for key, times in Counter(last).items() if times > 1]


def read_json(path: Path, largest: int) -> Any:
    """The one JSON value of a file of at most `largest` bytes."""
    try:
        with path.open("rb") as file:
            # What is too large is not read first.
            too_large = path.stat().st_size > largest
            text = b"" if too_large else file.read(largest + 1)
        if too_large or len(text) > largest:
            raise LogFormatError(f"{path} is larger than {largest >> 20} MiB. Is it the right file?")
        return parse_json(text.removeprefix(_BOM))
    except OSError as error:
        reason = error.strerror or error
        raise ArgumentError(f'`path` must be a file that can be read; "{path}" cannot: {reason}.') from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, LogFormatError):
            raise
        raise LogFormatError(f"{path} is not JSON as a whole: {str(error)[:200]}. Was it cut off?") from error
