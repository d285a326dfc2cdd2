"""What a computation would take, counted before it is begun."""

from __future__ import annotations

import os
from pathlib import Path

from evalreg.errors import TooLargeError

GIB = 2.0**30
# Where the system does not say how much it has.
SUPPOSED = 8 * GIB
# Matrices of columns by columns for each cluster of a regression that exist at once, as measured on 300 columns.
GRAMS = 6
# Matrices of rows by columns of a regression that exist at once, as measured on 600 columns.
DESIGNS = 10


def refuse_larger(n_bytes: float, what: str, remedy: str) -> None:
    """Raise if something takes more bytes at its peak than are free; the message says what, and what to do."""
    # Asking the system costs more than most results take.
    if n_bytes < GIB / 4 or n_bytes <= (free := available()):
        return
    raise TooLargeError(f"{what} takes about {_gib(n_bytes)} GiB of memory, and {_gib(free)} are free. {remedy}")


def _gib(n_bytes: float) -> str:
    return f"{n_bytes / GIB:,.1f}" if n_bytes < 10 * GIB else f"{n_bytes / GIB:,.0f}"


def available() -> float:
    """Bytes that the process may still take: of the machine, and of the container where it runs in one."""
    free = [_machine()]
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        if limit != "max":
            free.append(float(limit) - float(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii")))
    except (OSError, ValueError):
        pass
    return max(min(free), 0.0)


def _machine() -> float:
    """Bytes that the machine can give without swapping; all that it has, where it does not tell the two apart."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return float(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return SUPPOSED
