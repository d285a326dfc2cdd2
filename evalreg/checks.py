"""Arguments checked once, at the door; messages in one voice."""

from __future__ import annotations

import dataclasses
import difflib
import numbers
import re
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, wraps
from typing import Any, TypeAlias, TypeVar, cast, get_args

import numpy as np
import numpy.typing as npt

from evalreg.choices import FULL, TargetName
from evalreg.errors import ArgumentError, ArgumentTypeError, EvalregError, NotAvailableError, Note

T = TypeVar("T")
FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.intp]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

# A message lists at most this many rows, names or values.
MOST_LISTED = 5


def nearest(name: object, options: Iterable[object]) -> str:
    """Return ``' Did you mean "x"?'`` for the options nearest to `name`, or an empty string."""
    candidates = list(dict.fromkeys(str(option) for option in options))
    close = difflib.get_close_matches(str(name), candidates, n=2, cutoff=0.6)
    if not close:
        lower = {candidate.lower(): candidate for candidate in candidates}
        close = [lower[str(name).lower()]] if str(name).lower() in lower else []
    return f" Did you mean {listed(close, joiner=' or ')}?" if close else ""


def listed(values: Iterable[object], joiner: str = ", ") -> str:
    """Return the first few values for a message, with the number of those left out."""
    values = list(values)
    shown = [f'"{value}"' if isinstance(value, str) else str(value) for value in values[:MOST_LISTED]]
    more = len(values) - len(shown)
    return joiner.join(shown) + (f" and {more} more" if more else "")


def few_of(names: Sequence[str]) -> str:
    """Return the first few names for a sentence, with the number of the others."""
    more = len(names) - MOST_LISTED
    return ", ".join(names[:MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def pointed(text: str, place: int) -> str:
    """Return the line of a text with a caret under a place, both indented."""
    start = text.rfind("\n", 0, place) + 1
    line = text[start:].split("\n", 1)[0].expandtabs(1)
    wide = (2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in line[: place - start])
    return f"    {line}\n    {' ' * sum(wide)}^"


def option(name: str, value: object, of: Any, hint: str = "") -> Any:
    """Return `value` if a Literal or a sequence has it; otherwise raise with its list, and a hint or the nearest."""
    options = get_args(of) or of
    if isinstance(value, str) and value in options:
        return value
    known = ", ".join(f'"{known}"' for known in options)
    raise ArgumentError(f"`{name}` must be one of {known}; got {value!r}.{hint or nearest(value, options)}")


@contextmanager
def writing(argument: str, path: object, what: str = "a file to write to") -> Iterator[None]:
    """Say of what cannot be written which argument named it."""
    try:
        yield
    except EvalregError:
        raise
    except (OSError, TypeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ArgumentError(f'`{argument}` must be {what}; "{path}" is not: {reason}.', parameter=argument) from error


def adjustment(name: str, value: object, options: Sequence[Any]) -> Any:
    """Return how p-values are adjusted by its name of statsmodels; "bh" is "fdr_bh", and None stays None."""
    if value is None:
        return None
    meant = isinstance(value, str) and value.lower() in ("fdr", "bh", "fdr_bh")
    hint = ' For the false discovery rate write "fdr_bh", or "bh" for short.' if meant else ""
    return option(name, "fdr_bh" if value == "bh" else value, options, hint)


def whole_number(name: str, value: object, least: int = 1) -> int:
    """Return `value` as an int of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ArgumentTypeError(f"`{name}` must be a whole number; got {value!r}.")
    if int(value) < least:
        raise ArgumentError(f"`{name}` must be at least {least}; got {value!r}.")
    return int(value)


def by_stratum(argument: str, values: Mapping[Any, Any], strata: Sequence[str], what: str) -> list[Any]:
    """Return the value of each stratum, in their order, of a mapping that must name each once; `what` they are."""
    named = {str(name): value for name, value in values.items()}
    unknown, without = [name for name in named if name not in strata], [name for name in strata if name not in named]
    problem = "" if len(named) == len(values) else "some of those given are the same as text."
    problem = f"{listed(without)} has no {what}." if without else problem
    problem = f"{listed(unknown)} is not among them.{nearest(unknown[0], strata)}" if unknown else problem
    if problem:
        raise ArgumentError(f"`{argument}` must name each stratum once; the strata are {listed(strata)}, and {problem}")
    return [named[name] for name in strata]


def fraction(name: str, value: object) -> float:
    """Return `value` as a float strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating):
        raise ArgumentTypeError(f"`{name}` must be a number between 0 and 1; got {value!r}.")
    if not 0.0 < float(value) < 1.0:
        raise ArgumentError(f"`{name}` must lie strictly between 0 and 1; got {value!r}.")
    if name == "alpha" and float(value) > 0.5:
        raise ArgumentError(
            f"`alpha` is the share of intervals that may miss, 0.05 for 95% intervals; got {value!r}, which is an "
            f"interval of {1 - float(value):.4g}. For {float(value):.4g} pass alpha={1 - float(value):.4g}."
        )
    return float(value)


def check_target(target: TargetName, n_population: object, refused: str | None) -> None:
    """Refuse what does not go together; `refused` says what has no place beside a finite benchmark, and why."""
    if (target == FULL) != (n_population is not None):
        raise ArgumentError(
            f'target="{FULL}" and `n_population` go together: the number of its questions, or of whole clusters as '
            f'{{"passage": 896}}; got target="{target}" and n_population={n_population!r}.'
        )
    if target == FULL and refused:
        raise NotAvailableError(f'target="{FULL}" is not defined with {refused}')


def frozen(array: npt.ArrayLike, dtype: Any = np.float64) -> npt.NDArray[Any]:
    """Return a read-only view (or converted copy) of an array; the caller's array stays as it is."""
    return _view(np.asarray(array, dtype=dtype))


_PLAIN = str | int | float | None


class held_property(cached_property[T]):
    """A property that is made once, and whose arrays are read-only."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        super().__init__(wraps(make)(lambda instance: cast(T, _held(make(instance), set()))))


def keeps(*names: str) -> Callable[[type[T]], type[T]]:
    """Mark fields of a frozen dataclass, tables and mappings: it holds copies of them, and hands out copies."""

    def marked(kind: type[T]) -> type[T]:
        for name in names:
            setattr(kind, name, _HandedOut(name))
        return kind

    return marked


class _HandedOut:
    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: object | None, owner: type) -> Any:
        if instance is None:
            raise AttributeError(self.name)
        return _copied(vars(instance)[self.name])

    def __set__(self, instance: object, value: object) -> None:
        vars(instance)[self.name] = _copied(value)


def _copied(value: Any) -> Any:
    """A copy of a table, or of mappings and lists and all that these hold; results cannot be changed, nor can text."""
    if isinstance(value, dict):
        return {name: _copied(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_copied(entry) for entry in value]
    return value.copy() if hasattr(value, "to_numpy") else value


def hold(*parts: object) -> None:
    """Make the arrays of frozen dataclasses, and of all that they hold, read-only views of what they were given.

    Sparse matrices keep theirs in order, so that nothing needs to write to them. No value is copied.
    """
    seen: set[int] = set()
    for part in parts:
        _held(part, seen)


def _held(value: Any, seen: set[int]) -> Any:
    """The same value, whose arrays cannot be written; a view in the place of an array."""
    if isinstance(value, np.ndarray):
        return _view(value) if value.flags.writeable else value
    if id(value) in seen:
        return value
    seen.add(id(value))
    if type(value) is tuple:
        # Names come by thousands, and are of one kind.
        return value if not value or isinstance(value[0], _PLAIN) else tuple(_held(part, seen) for part in value)
    if type(value) is dict:
        for key, entry in list(value.items()):
            if isinstance(entry, _PLAIN):
                break
            value[key] = _held(entry, seen)
    elif isinstance(getattr(value, "indptr", None), np.ndarray):  # a frame of an engine may have any attribute
        _hold_sparse(value)
    elif dataclasses.is_dataclass(value):
        for name, field in list(getattr(value, "__dict__", {}).items()):
            if not isinstance(field, _PLAIN) and (held := _held(field, seen)) is not field:
                object.__setattr__(value, name, held)
    return value


def _hold_sparse(matrix: Any) -> None:
    if matrix.data.flags.writeable:
        matrix.sum_duplicates()
        for name in ("data", "indices", "indptr"):
            setattr(matrix, name, _view(getattr(matrix, name)))


def _view(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


_MUTED: ContextVar[bool] = ContextVar("evalreg_muted", default=False)


@contextmanager
def muted() -> Iterator[None]:
    """Results made inside issue no warnings, but keep their notes; in this thread or task alone.

    `warnings.catch_warnings` changes the filters of the whole process, and threads that leave it in another order than
    they entered it leave them changed.
    """
    token = _MUTED.set(True)
    try:
        yield
    finally:
        _MUTED.reset(token)


def issue(notes: Iterable[Note]) -> None:
    """Issue notes as warnings that point at the caller outside the package.

    Parameters
    ----------
    notes : iterable of (category, text)
        What to say.
    """
    if _MUTED.get():
        return
    depth, frame = 1, sys._getframe().f_back
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "evalreg":
        depth, frame = depth + 1, frame.f_back
    depth += 1
    for category, text in notes:
        warnings.warn(text, category, stacklevel=depth)


# What a terminal obeys instead of showing it, what changes the direction of writing, and what has no width.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def visible(text: str, keep: str = "") -> str:
    r"""Return a text whose control characters are spelled out, so that a label cannot steer a terminal.

    Escapes, ends of lines, tabs, marks of writing direction and of no width as Python writes them.
    """
    return _HIDDEN.sub(lambda match: match[0] if match[0] in keep else ascii(match[0])[1:-1], text)
