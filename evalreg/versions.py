"""Versions of packages, as they were installed."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache  # a file of each package is read for it
def version_of(package: str) -> str:
    """Version of a package; "unknown" where it is on the path and was not installed, as a checkout may be."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
