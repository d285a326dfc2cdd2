"""Files of tests dealt into parts of about the same size, each of which a process of its own reads and runs."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest


@functools.cache
def files_of(part: str, folder: Path) -> frozenset[Path]:
    """Files of part K of N of a folder; the largest first, each goes to the part that holds the least so far."""
    k, n = (int(number) for number in part.split("/"))
    bytes_held, files = [0] * n, [[] for _ in range(n)]
    for size, file in sorted((-file.stat().st_size, file) for file in folder.rglob("test_*.py")):
        least = bytes_held.index(min(bytes_held))
        bytes_held[least] -= size
        files[least].append(file)
    return frozenset(files[k - 1])


def part(text: str) -> str:
    """The value of `--part`, checked."""
    found = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if found is None or int(found[1]) > int(found[2]):
        raise pytest.UsageError(f"--part takes K/N with K from 1 to N; found {text!r}")
    return text
