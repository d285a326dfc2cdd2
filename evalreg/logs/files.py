"""From paths to files: regular ones, none a link, and their content, uncompressed."""

from __future__ import annotations

import glob
import gzip
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, TypeAlias, cast

from evalreg.checks import counted, listed, nearest
from evalreg.data.streams import is_stream, name_of, spooled
from evalreg.errors import ArgumentError, ArgumentTypeError, LogFormatError

Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
# Bytes at the beginning of a file by which its format is recognised.
HEAD = 65_536
# Files that writers of Parquet put beside others, and how Parquet begins.
DESCRIBING, PARQUET = ("_metadata", "_common_metadata"), b"PAR1"
GZIP, BOM = b"\x1f\x8b", b"\xef\xbb\xbf"


def find_files(paths: Paths) -> tuple[list[Source], list[Path]]:
    """The files that paths, patterns with `*` and folders stand for, each once, sorted within a folder or pattern.

    Beside them the links in folders and among matches, which are passed over.
    """
    patterns = list(paths) if isinstance(paths, Iterable) and not isinstance(paths, str) else [paths]
    if not patterns:
        raise ArgumentError("`path` must name at least one file; got none.")
    for path in patterns:
        if not isinstance(path, str | os.PathLike):
            raise ArgumentTypeError(f"`path` must be a path or a list of paths; got {path!r}.")
    try:
        files = dict.fromkeys(file for path in patterns for file in ([path] if is_stream(path) else _files(path)))
    except OSError as error:  # it may not be read, or is no path that a system has
        raise _unreadable(error.filename, error) from error
    links = [Path(file) for file in files if os.path.islink(file) and not is_handle(file)]
    sources = [Source.of(file) for file in files if file not in set(links)]
    # Named alone, such a file is read, and refused for what it is.
    rows = [source for source in sources if not (source.path.name in DESCRIBING and source.head.startswith(PARQUET))]
    return rows or sources, links


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
    return listed(source.name for source in sources)


@dataclass(frozen=True)
class Source:
    """One file of a log, a regular file and never a link."""

    path: Path
    stream: str = ""  # the path of the stream that it holds, as it was typed

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Source:
        """The file of a path as it was typed; "-" is standard input."""
        if is_stream(path):
            return cls(spooled(path), str(path))
        return cls(Path(path))

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return name_of(self.stream or self.path)

    @property
    def place(self) -> Path:
        """Where it lies; the folder that a stream is kept in says nothing of it."""
        return Path(self.name)

    @property
    def stem(self) -> str:
        """The name of the file without what says its kind."""
        return re.sub(r"(\.csv)?(\.json)?(\.jsonl)?(\.gz)?$", "", self.place.name, count=1)

    @cached_property
    def head(self) -> bytes:
        """Its beginning, uncompressed where the file is gzip."""
        with self.opened() as file:
            return file.read(HEAD)

    @property
    def start(self) -> bytes:
        """The beginning without a byte order mark and blanks."""
        return self.head.removeprefix(BOM).lstrip()

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """The content, uncompressed if its first bytes say that it is gzip; damage is told by the file's name."""
        try:
            with self._plain() as plain:
                packed = plain.read(2) == GZIP
                plain.seek(0)
                yield cast(IO[bytes], gzip.GzipFile(fileobj=plain)) if packed else plain
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise LogFormatError(
                f"{self.name} begins as gzip but is damaged or cut off ({error}). Copy it again."
            ) from error
        except OSError as error:
            raise _unreadable(self.name, error) from error

    @contextmanager
    def _plain(self) -> Iterator[IO[bytes]]:
        path = self.path
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
            yield file
