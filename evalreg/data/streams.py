"""What can be read once only, kept in a file for as long as the process runs."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from evalreg.errors import ArgumentError

# Files with what streams held; a pipe that is written to again is read again.
_SPOOLED: dict[Any, Path] = {}


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether a path can be read once only: "-", which is standard input, or a pipe."""
    with suppress(OSError):  # no path at all: what reads it says so
        return path == "-" or Path(path).is_fifo()
    return False


def name_of(path: str | os.PathLike[str]) -> str:
    """What a path is called in messages."""
    return "standard input" if path == "-" else os.fspath(path)


def spooled(path: str | os.PathLike[str]) -> Path:
    """A file with what a stream holds."""

    def state() -> Any:
        return sys.stdin if path == "-" else (os.stat(path).st_dev, os.stat(path).st_ino, os.stat(path).st_mtime_ns)

    if path == "-" and sys.stdin is None:
        raise ArgumentError("Standard input is closed; name a file.")
    if state() not in _SPOOLED:
        handle, name = tempfile.mkstemp(prefix="evalreg-")
        atexit.register(Path(name).unlink, missing_ok=True)
        with (
            os.fdopen(handle, "wb") as file,
            nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as content,
        ):
            shutil.copyfileobj(content, file)
        _SPOOLED[state()] = Path(name)
    return _SPOOLED[state()]
