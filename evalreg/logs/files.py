"""Files of logs: from paths, patterns and folders to regular files with their beginnings; no link is followed."""

from __future__ import annotations

import glob
import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from evalreg.checks import listed, nearest
from evalreg.errors import ArgumentError, ArgumentTypeError, LogFormatError
from evalreg.logs.reading import Source

Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
HEAD = 65_536


def find_sources(paths: Paths) -> list[Source]:
    """The files that paths, patterns with `*` and folders stand for, each once, sorted within a folder or pattern."""
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise ArgumentError("`path` must name at least one file; got none.")
    for path in given:
        if not isinstance(path, str | os.PathLike):
            raise ArgumentTypeError(f"`path` must be a path or a list of paths; got {path!r}.")
    found = dict.fromkeys(file for path in given for file in _files(path))
    return [Source(file, read_head(file)) for file in found]


def _files(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Regular files of one argument."""
    place = Path(path)
    if place.is_dir() and not place.is_symlink():
        files = sorted(_inside(place))
        if not files:
            raise ArgumentError(f'`path` must be a folder that holds logs; "{place}" holds no file.')
        yield from files
    elif place.exists() or not glob.has_magic(str(path)):
        yield _checked(place)
    else:
        matches = sorted(Path(match) for match in glob.glob(str(path), recursive=True))
        files = [match for match in matches if match.is_file() and not match.is_symlink()]
        if not files:
            raise ArgumentError(f'`path` must match at least one file; nothing matches "{path}".')
        yield from files


def _inside(folder: Path) -> Iterator[Path]:
    """Files below a folder; hidden ones and links are passed over."""
    for base, folders, files in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in files:
            path = Path(base) / name
            if not name.startswith(".") and path.is_file() and not path.is_symlink():
                yield path


def _checked(path: Path) -> Path:
    if path.is_symlink():
        raise ArgumentError(f'`path` must be a file; "{path}" is a link, and links are not followed. Name its target.')
    if not path.exists():
        siblings = [sibling.name for sibling in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = nearest(path.name, siblings) or " Check the spelling and the working directory."
        raise ArgumentError(f'`path` must be a file; there is no "{path}".{hint}')
    if not path.is_file():
        raise ArgumentError(f'`path` must be a file or a folder; "{path}" is neither.')
    return path


def read_head(path: Path) -> bytes:
    """The beginning of a file, uncompressed where it is gzip."""
    try:
        with path.open("rb") as file:
            start = file.read(HEAD)
        if not start.startswith(b"\x1f\x8b"):
            return start
        with gzip.open(path) as file:
            return file.read(HEAD)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise LogFormatError(f"{path} begins as gzip but is damaged or cut off ({error}). Copy it again.") from error
    except OSError as error:
        reason = error.strerror or error
        raise ArgumentError(f'`path` must be a file that can be read; "{path}" cannot: {reason}.') from error


def file_list(sources: Sequence[Source]) -> str:
    """Names of files for a message, five at most."""
    names = [str(source.path) for source in sources]
    return listed(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
