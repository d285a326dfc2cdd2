"""The content of a file or of standard input, uncompressed: as a stream, which opens anew, and as blocks of lines."""

from __future__ import annotations

import glob
import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, cast

from evalreg.checks import nearest
from evalreg.errors import ArgumentError, LogFormatError
from evalreg.logs.files import refuse_link
from evalreg.numerics.progress import Progress

# Bytes of a line; a longer one is refused.
LONGEST_LINE = 1 << 26
BLOCK = 1 << 20
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Content:
    """A file; "-" is standard input, which is held in memory as it can be read once only."""

    path: str | os.PathLike[str]

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return "standard input" if self.path == "-" else str(self.path)

    @property
    def packed(self) -> bool:
        """Whether what lies on disk is not the content itself: compressed, or standard input."""
        with self._opened() as file:
            return isinstance(file, io.BytesIO) or file.read(2) == b"\x1f\x8b"

    def head(self, size: int) -> bytes:
        """The beginning."""
        with self.stream() as file:
            return file.read(size)

    @cached_property
    def _held(self) -> bytes | None:
        if self.path != "-":
            return None
        if sys.stdin is None:
            raise ArgumentError("Standard input is closed; name a file.")
        return sys.stdin.buffer.read()

    @contextmanager
    def stream(self) -> Iterator[IO[bytes]]:
        """The content from its beginning, uncompressed if its first bytes say that it is gzip."""
        with reading_errors(self.name), self._opened() as plain:
            packed = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            yield cast(IO[bytes], gzip.GzipFile(fileobj=plain)) if packed else plain

    @contextmanager
    def counted(self) -> Iterator[IO[bytes]]:
        """The same with a line on a terminal that counts bytes of the file, once they have taken two seconds."""
        with reading_errors(self.name), self._opened() as plain:
            packed = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            with Progress(max(1, self._size()), unit="bytes") as progress:
                told = cast(IO[bytes], _Counted(plain, progress))
                yield cast(IO[bytes], gzip.GzipFile(fileobj=told)) if packed else told

    def _size(self) -> int:
        return len(self._held) if self._held is not None else os.stat(self.path).st_size

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        if self._held is not None:
            yield io.BytesIO(self._held)
            return
        path = Path(self.path)
        if path.is_dir():
            raise ArgumentError(f'`path` must be a file; "{path}" is a directory. Name one file in it.')
        refuse_link(path)
        try:
            file = path.open("rb")
        except FileNotFoundError:
            if n := len(glob.glob(str(path))):
                raise ArgumentError(
                    f'`path` must be one file; "{path}" is a pattern, which {n} match. er.read_log takes patterns.'
                ) from None
            siblings = [sibling.name for sibling in path.parent.iterdir()] if path.parent.is_dir() else []
            hint = nearest(path.name, siblings) or " Check the spelling and the working directory."
            raise ArgumentError(f'`path` must be a file; there is no "{path}".{hint}') from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ArgumentError(f'`path` must be a file that can be read; "{path}" cannot: {reason}.') from error
        with file:
            if file.seekable():
                yield file
            else:  # a pipe, which can be read once only
                data = self.__dict__["_held"] = file.read()
                yield io.BytesIO(data)


@contextmanager
def reading_errors(name: str) -> Iterator[None]:
    """Say of a file that cannot be read to its end what is wrong with it."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise LogFormatError(f"{name} begins as gzip but is damaged or cut off ({error}). Copy it again.") from error
    except OSError as error:
        reason = error.strerror or error
        raise ArgumentError(f'`path` must be a file that can be read; "{name}" cannot: {reason}.') from error


class _Counted(io.RawIOBase):
    """A file that tells how much of it was read."""

    def __init__(self, file: IO[bytes], progress: Progress) -> None:
        self._file, self._progress = file, progress

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self._progress.advance(len(data))
        return len(data)

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._progress.advance(len(data))
        return data


@dataclass(frozen=True)
class LineBlock:
    """Whole lines of a file.

    Parameters
    ----------
    first : int
        Number of the first line, from 1.
    text : bytes or None
        The lines; None for a single one that is longer than `LONGEST_LINE`.
    """

    first: int
    text: bytes | None


def line_blocks(file: IO[bytes], size: int = BLOCK) -> Iterator[LineBlock]:
    """The lines of a file, about `size` bytes at a time, without a byte order mark."""
    number, rest = 1, file.read(size).removeprefix(_BOM)
    while rest:
        cut = rest.rfind(b"\n") + 1
        if cut:
            yield LineBlock(number, rest[:cut])
            number, rest = number + rest.count(b"\n", 0, cut), rest[cut:]
        pieces, length = [rest], len(rest)
        while length <= LONGEST_LINE and (more := file.read(size)):
            pieces.append(more)
            length += len(more)
            if b"\n" in more:
                break
        else:
            if length > LONGEST_LINE:
                yield LineBlock(number, None)
                number, pieces = number + 1, [_after_line(file, size)]
            elif rest or len(pieces) > 1:
                yield LineBlock(number, b"".join(pieces))
                return
        rest = b"".join(pieces)


def _after_line(file: IO[bytes], size: int) -> bytes:
    """What was read beyond the end of a line that is left out."""
    while more := file.read(size):
        _, end, rest = more.partition(b"\n")
        if end:
            return rest or file.read(size)
    return b""
