"""A sign of life of what takes long."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

SILENT_SECONDS = 2.0


class Progress:
    """A line on a terminal (stderr) that counts what is done, once it has taken two seconds; silent elsewhere."""

    def __init__(
        self, total: int, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic, unit: str = "draws"
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._visible = bool(getattr(self._stream, "isatty", lambda: False)())
        self._total, self._done, self._clock, self._unit = total, 0, clock, unit
        self._next, self._written = clock() + SILENT_SECONDS, False
        self._lock = threading.Lock()

    def advance(self, n: int) -> None:
        """Count `n` more."""
        if not self._visible:
            return
        with self._lock:
            self._done += n
            if self._clock() >= self._next:
                self._next, self._written = self._clock() + 0.2, True
                self._stream.write(f"\r{self._done} of {self._total} {self._unit} ({self._done / self._total:.0%})")
                self._stream.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._written:
            # Erased, so that what is printed next starts on a clean line.
            self._stream.write("\r" + " " * 60 + "\r")
            self._stream.flush()
