"""Files of logs: from paths, patterns and folders to regular files with their beginnings; no link is followed."""

from __future__ import annotations

import glob
import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from evalreg.checks import listed, nearest
from evalreg.errors import ArgumentError, ArgumentTypeError, LogFormatError
from evalreg.logs.reading import Source, counted

Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
HEAD = 65_536
# Files that writers of Parquet put beside others, and how Parquet begins.
DESCRIBING, PARQUET = ("_metadata", "_common_metadata"), b"PAR1"


@dataclass(frozen=True)
class FoundFiles:
    """What paths stand for: the files, and the links in folders and among matches, which are passed over."""

    sources: tuple[Source, ...]
    links: tuple[Path, ...]


def find_sources(paths: Paths) -> list[Source]:
    """The files that paths, patterns with `*` and folders stand for, each once, sorted within a folder or pattern."""
    return list(find_files(paths).sources)


def find_files(paths: Paths) -> FoundFiles:
    """The same, and the links that were passed over."""
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise ArgumentError("`path` must name at least one file; got none.")
    for path in given:
        if not isinstance(path, str | os.PathLike):
            raise ArgumentTypeError(f"`path` must be a path or a list of paths; got {path!r}.")
    try:
        found = list(dict.fromkeys(file for path in given for file in _files(path)))
    except PermissionError as error:
        raise ArgumentError(
            f'`path` must be a file or a folder that can be read; "{error.filename}" cannot: {error.strerror}.'
        ) from error
    links = tuple(file for file in found if file.is_symlink() and not is_handle(file))
    sources = [Source(file, read_head(file)) for file in found if file not in set(links)]
    # Named alone, such a file is read, and refused for what it is.
    return FoundFiles(tuple([one for one in sources if not _describes_others(one)] or sources), links)


def _describes_others(source: Source) -> bool:
    """Whether a Parquet file holds the columns of those beside it, or where their rows are, and no rows of its own."""
    return source.path.name in DESCRIBING and source.head.startswith(PARQUET)


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
        files = sorted(_inside(place))
        if all(file.is_symlink() for file in files):
            what = f"{counted(len(files), 'link')} and no file, and links are not followed" if files else "no file"
            raise ArgumentError(f'`path` must be a folder that holds logs; "{place}" holds {what}.')
        yield from files
    elif place.exists() or not glob.has_magic(str(path)):
        yield _checked(place)
    else:
        matches = sorted(Path(match) for match in glob.glob(str(path), recursive=True))
        files = [match for match in matches if match.is_file() or match.is_symlink()]
        if all(file.is_symlink() for file in files):
            what = f"{counted(len(files), 'link')} and no file matched, and links are not followed"
            what = what if files else f'nothing matches "{path}"'
            raise ArgumentError(f"`path` must match at least one file; {what}.")
        yield from files


def _inside(folder: Path) -> Iterator[Path]:
    """Files and links below a folder; hidden ones are passed over."""
    for base, folders, files in os.walk(folder, followlinks=False, onerror=_refuse_folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in (*files, *folders):
            path = Path(base) / name
            if not name.startswith(".") and (path.is_symlink() or (name not in folders and path.is_file())):
                yield path


def _refuse_folder(error: OSError) -> None:
    raise ArgumentError(
        f'`path` must be a folder that can be read; "{error.filename}" cannot: {error.strerror}.'
    ) from error


def _checked(path: Path) -> Path:
    refuse_link(path)
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
