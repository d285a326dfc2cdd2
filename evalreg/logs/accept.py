"""What lets public functions take a log, or several by name, where they take rows."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from evalreg.errors import ArgumentTypeError

P = ParamSpec("P")
T = TypeVar("T")


def with_logs(function: Callable[P, T]) -> Callable[P, T]:
    """The same function, whose `data` may be a log, or a mapping of names to logs."""
    known = list(inspect.signature(function).parameters)
    if "data" not in known:
        return function
    place = known.index("data")

    @functools.wraps(function)
    def taking(*args: P.args, **kwargs: P.kwargs) -> T:
        data: Any = kwargs.get("data", args[place] if len(args) > place else None)
        if isinstance(data, os.PathLike) or (isinstance(data, str) and "~" not in data):
            raise ArgumentTypeError(
                f"`data` must be rows: a data frame, a query or a log; got the path {os.fspath(data)!r}. Read it: "
                f"er.read_log({os.fspath(data)!r}), whose log goes in its place; er.merged reads files of sums."
            )
        log = _as_log(data)
        if log is None:
            return function(*args, **kwargs)
        rest: list[Any] = [value for number, value in enumerate(args) if number != place]
        named: dict[str, Any] = {name: value for name, value in kwargs.items() if name != "data"}
        method = getattr(log, function.__name__, None)
        if method is not None:
            found: T = method(*rest, **named)
            return found
        rest.insert(min(place, len(rest)), log._rows())
        return function(*rest, **(_roles(log, known, set(named)) | named))

    return taking


def _as_log(data: Any) -> Any:
    """A log, if that is what the data are; readers are not loaded for rows in memory."""
    module = sys.modules.get("evalreg.logs.log")
    if module is None:
        return None
    if isinstance(data, Mapping) and any(isinstance(value, module.Log) for value in data.values()):
        return module.together(data)
    return data if isinstance(data, module.Log) else None


def _roles(log: Any, known: list[str], named: set[str]) -> dict[str, Any]:
    """Arguments that name columns, filled from the roles of a log; means are those of each model and task."""
    found = {
        role: role for role in ("model", "left", "right", "winner", "order") if role in log.roles
    } | log._questions()
    several = [role for role in ("model", "task", "prompt") if log._several(role)]
    if several and "left" not in log.roles:
        found["by"] = several
    if "winner" not in log.roles and "left" in log.roles:
        found["score"] = "score"
    return {name: value for name, value in found.items() if name in known and name not in named}
