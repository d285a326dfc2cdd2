"""What lets public functions take the path of a table where they take rows; `logs.by_path` reads it."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def with_files(function: Callable[P, T]) -> Callable[P, T]:
    """The same function, whose `data` may be the path of a table."""
    known = list(inspect.signature(function).parameters)
    if "data" not in known:
        return function
    place = known.index("data")

    @functools.wraps(function)
    def reading(*args: P.args, **kwargs: P.kwargs) -> T:
        data: Any = kwargs.get("data", args[place] if len(args) > place else None)
        if not _is_path(data):
            return function(*args, **kwargs)
        # Readers are not needed for rows in memory.
        from evalreg.logs.by_path import rows_for

        rows = rows_for(function, data, *args, **kwargs)
        given: Any = args if "data" in kwargs else (*args[:place], rows, *args[place + 1 :])
        named: Any = kwargs | {"data": rows} if "data" in kwargs else kwargs
        return function(*given, **named)

    return reading


def _is_path(data: Any) -> bool:
    """Whether data is a path; a formula in its place is refused as one, and ~/log.csv is a path."""
    return isinstance(data, os.PathLike) or (isinstance(data, str) and ("~" not in data or "." in data))
