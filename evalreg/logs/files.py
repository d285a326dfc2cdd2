"""Files of logs: from paths, patterns and folders to regular files, and their content; no link is followed."""

from __future__ import annotations

import glob
import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, TypeAlias, cast

from evalreg.checks import listed, nearest
from evalreg.errors import ArgumentError, ArgumentTypeError, LogFormatError
from evalreg.logs.reading import Source, counted
from evalreg.numerics.fitting import Progress

Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
HEAD = 65_536
# Files that writers of Parquet put beside others, and how Parquet begins.
DESCRIBING, PARQUET = ("_metadata", "_common_metadata"), b"PAR1"


@dataclass(frozen=True)
class FoundFiles:
    """What paths stand for: the files, and the links in folders and among matches, which are passed over."""

    sources: tuple[Source, ...]
    links: tuple[Path, ...]


def find_files(paths: Paths) -> FoundFiles:
    """The files that paths, patterns with `*` and folders stand for, each once, sorted within a folder or pattern."""
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise ArgumentError("`path` must name at least one file; got none.")
    for path in given:
        if not isinstance(path, str | os.PathLike):
            raise ArgumentTypeError(f"`path` must be a path or a list of paths; got {path!r}.")
    try:
        found = list(dict.fromkeys(file for path in given for file in _files(path)))
    except PermissionError as error:
        raise _unreadable(error.filename, error) from error
    links = tuple(file for file in found if file.is_symlink() and not is_handle(file))
    sources = [Source(file, Content(file).head(HEAD)) for file in found if file not in set(links)]
    # Named alone, such a file is read, and refused for what it is.
    rows = [one for one in sources if not (one.path.name in DESCRIBING and one.head.startswith(PARQUET))]
    return FoundFiles(tuple(rows or sources), links)


def is_handle(path: str | os.PathLike[str]) -> bool:
    """Whether a path is the name of a stream that is open already, such as /dev/stdin; these look like links."""
    return str(path).startswith(("/dev/", "/proc/self/fd/"))


def refuse_link(path: Path) -> None:
    """An error where a path is a link."""
    if path.is_symlink() and not is_handle(path):
        raise ArgumentError(
            f'`path` must be a file; "{path}" is a link to "{os.path.realpath(path)}", and links are not followed. '
            "Name that."
        )


def _files(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Regular files of one argument, and links among those that it does not name itself."""
    place = Path(path)
    if place.is_dir() and not place.is_symlink():
        files, rule = sorted(_inside(place)), f'be a folder that holds logs; "{place}" holds'
        nothing, no_file = f"{rule} no file", f"{rule} {{}} and no file, and links are not followed"
    elif place.exists() or not glob.has_magic(str(path)):
        refuse_link(place)
        if not place.exists():
            raise _missing(place)
        if not place.is_file():
            raise ArgumentError(f'`path` must be a file or a folder; "{place}" is neither.')
        yield place
        return
    else:
        matches = sorted(Path(match) for match in glob.glob(str(path), recursive=True))
        files, rule = [match for match in matches if match.is_file() or match.is_symlink()], "match at least one file;"
        nothing = f'{rule} nothing matches "{path}"'
        no_file = f"{rule} {{}} and no file matched, and links are not followed"
    if all(file.is_symlink() for file in files):
        raise ArgumentError(f"`path` must {no_file.format(counted(len(files), 'link')) if files else nothing}.")
    yield from files


def _inside(folder: Path) -> Iterator[Path]:
    """Files and links below a folder; hidden ones are passed over."""

    def refuse(error: OSError) -> None:
        raise _unreadable(error.filename, error, "a folder") from error

    for base, folders, files in os.walk(folder, followlinks=False, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in (*files, *folders):
            path = Path(base) / name
            if not name.startswith(".") and (path.is_symlink() or (name not in folders and path.is_file())):
                yield path


def _missing(path: Path) -> ArgumentError:
    siblings = [sibling.name for sibling in path.parent.iterdir()] if path.parent.is_dir() else []
    hint = nearest(path.name, siblings) or " Check the spelling and the working directory."
    return ArgumentError(f'`path` must be a file; there is no "{path}".{hint}')


def _unreadable(name: object, error: Exception, what: str = "a file") -> ArgumentError:
    reason = getattr(error, "strerror", None) or error
    return ArgumentError(f'`path` must be {what} that can be read; "{name}" cannot: {reason}.')


def file_list(sources: Sequence[Source]) -> str:
    """Names of files for a message, five at most."""
    return listed(str(source.path) for source in sources)


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
        with self._content(None) as file:
            return file.read(size)

    def everything(self) -> bytes:
        """All of it."""
        with self._content(None) as file:
            return file.read()

    @contextmanager
    def counted(self) -> Iterator[IO[bytes]]:
        """The content from its beginning, with a line on a terminal that counts bytes once they took two seconds."""
        size = len(self._held) if self._held is not None else os.stat(self.path).st_size
        with Progress(max(1, size), unit="bytes") as progress, self._content(progress) as file:
            yield file

    @contextmanager
    def _content(self, progress: Progress | None) -> Iterator[IO[bytes]]:
        """The content, uncompressed if its first bytes say that it is gzip; damage is told by the file's name."""
        try:
            with self._opened() as plain:
                packed = plain.read(2) == b"\x1f\x8b"
                plain.seek(0)
                file = cast(IO[bytes], io.BufferedReader(_Counted(plain, progress), 1 << 20)) if progress else plain
                yield cast(IO[bytes], gzip.GzipFile(fileobj=file)) if packed else file
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise LogFormatError(
                f"{self.name} begins as gzip but is damaged or cut off ({error}). Copy it again."
            ) from error
        except OSError as error:
            raise _unreadable(self.name, error) from error

    @cached_property
    def _held(self) -> bytes | None:
        if self.path != "-":
            return None
        if sys.stdin is None:
            raise ArgumentError("Standard input is closed; name a file.")
        return sys.stdin.buffer.read()

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
            raise _missing(path) from None
        except (OSError, ValueError) as error:
            raise _unreadable(path, error) from error
        with file:
            if file.seekable():
                yield file
            else:  # a pipe, which can be read once only
                data = self.__dict__["_held"] = file.read()
                yield io.BytesIO(data)


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
