"""Arguments checked once, at the door; messages in one voice; names of other packages in ours."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import math
import numbers
import os
import re
import sys
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, wraps
from itertools import starmap
from types import SimpleNamespace, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    ParamSpec,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)
from typing import get_type_hints as resolved_hints

import numpy as np
import numpy.typing as npt

from evalreg.choices import COVS, FULL, TargetName
from evalreg.errors import ArgumentError, ArgumentTypeError, EvalregError, NotAvailableError, Note

P = ParamSpec("P")
T = TypeVar("T")
FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.intp]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Names: TypeAlias = tuple[str, ...]

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


def nearest_or_all(name: object, options: Iterable[object], thing: str = "parameter") -> str:
    """Return ``' Did you mean "x"?'``, or all options: ``' The parameters are "x", "y".'``."""
    options = list(options)
    every = f"The only {thing} is" if len(options) == 1 else f"The {thing}s are"
    return nearest(name, options) or (f" {every} {listed(options)}." if options else f" There is no {thing}.")


def listed(values: Iterable[object], joiner: str = ", ") -> str:
    """Return the first few values for a message, with the number of those left out."""
    values = list(values)
    shown = [f'"{value}"' if isinstance(value, str) else str(value) for value in values[:MOST_LISTED]]
    more = len(values) - len(shown)
    return joiner.join(shown) + (f" and {more} more" if more else "")


def counted(n: float, thing: str) -> str:
    """A number of things: "1 sample", "3,000 samples"."""
    return f"{n:,.0f} {thing}{'' if round(n) == 1 else 's'}"


def repeated(values: Iterable[Any]) -> list[Any]:
    """Return the values that occur more than once, each once, in the order of their first."""
    return [value for value, times in Counter(values).items() if times > 1]


def without_none(*names: str | None) -> Names:
    """The names that there are."""
    return tuple(name for name in names if name is not None)


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
def accessing(argument: str, path: object, what: str = "a file to write to") -> Iterator[None]:
    """Say of what cannot be written or read which argument named it."""
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
    return option(name, "fdr_bh" if isinstance(value, str) and value == "bh" else value, options, hint)


# The largest whole number up to which floats hold all (limit).
LARGEST_COUNT = 2**53


def whole_number(name: str, value: object, least: int = 1, most: int = LARGEST_COUNT) -> int:
    """Return `value` as an int of at least `least`, and at most `most`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ArgumentTypeError(f"`{name}` must be a whole number; got {value!r}.")
    if int(value) < least:
        raise ArgumentError(f"`{name}` must be at least {least}; got {value!r}.")
    if int(value) > most:
        raise ArgumentError(f"`{name}` must be at most {most}; got {value!r}.")
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


def checked_number(
    name: str,
    value: object,
    rule: str = "",
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    most: float = math.inf,
    remedy: str = "",
) -> float:
    """Return `value` as a finite float that keeps to a rule: above a number, at least one, at most one."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ArgumentTypeError(f"`{name}` must be a number; got {type(value).__name__} {value!r}.")
    try:
        number = float(value)
    except OverflowError:  # a whole number of more than 308 digits
        number = math.inf
    if not math.isfinite(number):
        raise ArgumentError(f"`{name}` must be finite; got {number:g}.")
    if not (above < number and least <= number <= most):
        raise ArgumentError(f"`{name}` must {rule}; got {number:g}.{remedy}")
    return number


def checked_count(name: str, value: object, least: int, what: str) -> int:
    """Return `value` if it is a whole number of at least `least`."""
    number = checked_number(name, value)
    if not least <= number <= LARGEST_COUNT or number != int(number):
        raise ArgumentError(
            f"`{name}` must be a whole number of {what}, at least {least} and at most 2**53; got {value!r}."
        )
    return int(number)


def check_target(target: TargetName, n_population: object, refused: str | None) -> None:
    """Refuse what does not go together; `refused` says what has no place beside a finite benchmark, and why."""
    if (target == FULL) != (n_population is not None):
        raise ArgumentError(
            f'`target="{FULL}"` and `n_population` go together: the number of its questions, or of whole clusters as '
            f'{{"passage": 896}}; got target="{target}" and n_population={n_population!r}.'
        )
    if target == FULL and refused:
        raise NotAvailableError(f'`target="{FULL}"` is not defined with {refused}')


def real_numbers(values: Any) -> FloatArray:
    """Values as an array of floats; a TypeError or ValueError where they are none, or would lose an imaginary part."""
    if np.iscomplexobj(values):
        raise TypeError("complex numbers are not on one line")
    return np.asarray(values, dtype=np.float64)


def quotient(top: npt.ArrayLike, bottom: npt.ArrayLike, otherwise: npt.ArrayLike = np.nan) -> FloatArray:
    """Return top / bottom where the bottom is above 0, and something else where it is not."""
    top, bottom = np.broadcast_arrays(top, bottom)
    return np.asarray(np.divide(top, bottom, out=np.full(top.shape, otherwise), where=bottom > 0))


def frozen(array: npt.ArrayLike, dtype: Any = np.float64) -> npt.NDArray[Any]:
    """Return a read-only view (or converted copy) of an array; the caller's array stays as it is."""
    return _view(np.asarray(array, dtype=dtype))


_PLAIN = (str, int, float, type(None))


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
    elif dataclasses.is_dataclass(value):
        for name, field in list(getattr(value, "__dict__", {}).items()):
            if not isinstance(field, _PLAIN) and (held := _held(field, seen)) is not field:
                object.__setattr__(value, name, held)
    elif "indptr" in getattr(value, "__dict__", ()):  # a frame may have any attribute, and take long to say which
        _hold_sparse(value)
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


def _in_python(name: str, value: object) -> str:
    return f'{name}="{value}"' if isinstance(value, str) and '"' not in value else f"{name}={value!r}"


_PASSED: ContextVar[Callable[[str, object], str]] = ContextVar("evalreg_passed", default=lambda name, value: "")


def passed(in_python: str = "", **arguments: object) -> str:
    """Arguments as a sentence names them: options inside `passing`; else `in_python`, or name=value with commas."""
    texts = [_PASSED.get()(name, value) for name, value in arguments.items()]
    return " ".join(texts) if all(texts) else in_python or ", ".join(starmap(_in_python, arguments.items()))


@contextmanager
def passing(how: Callable[[str, object], str]) -> Iterator[None]:
    """Inside, sentences name arguments by what `how` makes of name and value, unless that is empty; in this thread."""
    token = _PASSED.set(how)
    try:
        yield
    finally:
        _PASSED.reset(token)


# What a terminal obeys instead of showing it, what changes the direction of writing, and what has no width.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def visible(text: str, keep: str = "") -> str:
    r"""Return a text whose control characters are spelled out, so that a label cannot steer a terminal.

    Escapes, ends of lines, tabs, marks of writing direction and of no width as Python writes them.
    """
    return _HIDDEN.sub(lambda match: match[0] if match[0] in keep else ascii(match[0])[1:-1], text)


# Words of other packages

# What people type who know statsmodels, pyfixest or Stata, as keywords here: the first that a function has is meant.
KEYWORDS: dict[str, Names] = {
    **dict.fromkeys(("cluster", "clusters", "cov_kwds"), ("groups",)),
    **dict.fromkeys(("vcov", "cov_type", "se_type"), ("cov",)),
    "use_correction": ("ssc",),
    "use_t": ("dof",),
    "question": ("item",),
    "epochs": ("sample",),
    "models": ("by", "model"),
    "by": ("model",),
    "outcome": ("winner", "score"),
}
# The same of attributes of results.
ATTRIBUTES = {
    "coef": "params",
    "se": "bse",
    "tstat": "tvalues",
    "pvalue": "pvalues",
    "vcov": "cov_params()",
    "confint": "conf_int()",
    "tidy": "to_frame()",
    "to_csv": "to_frame().to_csv(path)",
    "icc": "dependence()",
    "f_test": "wald_test(hypotheses)",
    "tiers": "leaderboard()",
    **dict.fromkeys(("rsquared", "resid", "fittedvalues", "llf", "aic"), "statsmodels"),
}
# Covariances by the names of others.
COVARIANCES = {
    **dict.fromkeys(("cluster", "crv1"), 'Name the clusters in `groups`; that is cov="CR1".'),
    **dict.fromkeys(("robust", "hetero"), 'For independent rows that is "HC1".'),
    "nonrobust": 'Errors of one variance for all rows are not offered; "HC1" allows for rows of different variance.',
    "crv3": 'That is cov="CR3", up to the factor (G-1)/G.',
}


def covariance_hint(cov: object) -> str:
    """What a covariance of another package is here, as a sentence after a space; nothing for an unknown one."""
    kind = str(next(iter(cov), "") if isinstance(cov, dict) else cov)
    hint = COVARIANCES.get("cluster" if kind.startswith("~") else kind.lower())
    return f" {hint}" if hint else nearest(kind, COVS)


def keyword_hint(name: str, value: object, function: str, known: Sequence[str]) -> str:
    """The message for a keyword that a function with the parameters `known` does not have."""
    start = f"`{function}` has no keyword `{name}`"
    meant = next((ours for ours in KEYWORDS.get(name.lower(), ()) if ours in known), None)
    if name in ("freq_weights", "fweights") and "weights" in known:
        return (
            f"{start}; `weights` here are sampling weights, and a row is one observation whatever its weight. Write "
            f'out each row as many times as it occurred: data.loc[data.index.repeat(data["{value}"])].'
        )
    if meant is not None:
        return f"{start}; it is called `{meant}` here.{covariance_hint(value) if meant == 'cov' else ''}"
    if name == "alpha":
        return f"{start}; ask the result: `results.conf_int(alpha=0.05)`."
    return f"{start}.{nearest(name, known) or f' It has {listed(known)}.'}"


def with_hints(function: Callable[P, T], logs: bool = False) -> Callable[P, T]:
    """The same function, which says of an unknown keyword what it is called here, and which argument has another type.

    With `logs` its `data` may be a log, or a mapping of names to logs.
    """
    signature = inspect.signature(function)
    known = [name for name in signature.parameters if name != "self"]
    place = known.index("data") if logs and "data" in known else None
    called = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        for name, value in kwargs.items():
            if name not in known:
                raise ArgumentTypeError(keyword_hint(name, value, called, known))
        try:
            data: Any = None if place is None else kwargs.get("data", args[place] if len(args) > place else None)
            log = None if data is None else log_of_data(data)
            if log is None:
                return function(*args, **kwargs)
            named = signature.bind_partial(*args, **kwargs).arguments
            del named["data"]
            return cast(T, sys.modules["evalreg.logs.log"].ask(log, function, named))
        except EvalregError:
            raise
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            reason = _misfit(signature, getattr(function, "__globals__", {}), args, kwargs)
            if not reason:
                raise
            raise ArgumentTypeError(f"{reason}, in `{called}{_plain(signature)}`.") from error

    return checked


def _misfit(signature: inspect.Signature, home: dict[str, Any], args: Any, kwargs: Any) -> str:
    """Why arguments do not fit a signature: their number, or the first that is of another type; empty if they do."""
    try:
        arguments = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        return f"arguments must be those of the function: {error}"
    for name, value in arguments.items():
        written = str(signature.parameters[name].annotation)
        try:
            kind = resolved_hints(SimpleNamespace(__annotations__={name: written}), home)[name]
        except (NameError, AttributeError, SyntaxError):  # none, or a type that only type checkers import
            continue
        if not _is_a(value, kind):
            wanted = re.sub(r"\b[a-z_.]+\.", "", inspect.formatannotation(kind)).replace(" | ", " or ")
            return f"`{name}` must be {wanted}; got {type(value).__name__}"
    return ""


def _plain(signature: inspect.Signature) -> inspect.Signature:
    """The names of parameters alone, with the star before those that are keywords."""
    parameters = [parameter for name, parameter in signature.parameters.items() if name != "self"]
    return inspect.Signature([inspect.Parameter(parameter.name, parameter.kind) for parameter in parameters])


def _is_a(value: Any, kind: Any) -> bool:
    """Whether a value is of a type as annotations write it; of types that only checkers know it is taken to be."""
    origin, parts = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        return any(_is_a(value, part) for part in parts)
    if origin is Literal:
        return isinstance(value, str | int) and value in parts
    origin = {float: numbers.Real, int: numbers.Integral}.get(origin, origin)
    if origin is Any or not isinstance(origin, type) or getattr(origin, "_is_protocol", False):
        return True
    items = value if isinstance(value, list | tuple) and len(parts) == 1 else ()
    return isinstance(value, origin) and all(_is_a(item, parts[0]) for item in items)


def log_of_data(data: Any) -> Any:
    """A log, if that is what the data are; readers are not loaded for rows in memory."""
    if isinstance(data, os.PathLike) or (isinstance(data, str) and "~" not in data):
        raise ArgumentTypeError(
            f"`data` must be rows: a data frame, a query or a log; got the path {os.fspath(data)!r}. Read it: "
            f"er.read_log({os.fspath(data)!r}), whose log goes in its place; er.merged reads files of sums."
        )
    module = sys.modules.get("evalreg.logs.log")
    if module is None:
        return None
    if isinstance(data, Mapping) and any(isinstance(value, module.Log) for value in data.values()):
        return module.together(data)
    return data if isinstance(data, module.Log) else None


class Hinting:
    """Results that say, of an attribute of other packages, what it is called here."""

    # How the results are called in a message, and those that can do more.
    _called: ClassVar[str] = "results"
    _inner: ClassVar[type | None] = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Say what an attribute is called here; of a property that failed, its own error."""
            if hasattr(type(self), name):
                return object.__getattribute__(self, name)
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(f"{text}{_attribute_hint(type(self), name)}", name=name, obj=self)


def _attribute_hint(kind: type[Hinting], name: str) -> str:
    """Where an attribute is to be had; empty where it is nowhere."""
    ours = name if kind._inner is not None and _has(kind._inner, name) else ATTRIBUTES.get(name)
    if ours is None or name.startswith("_"):
        return ""
    attribute = ours.partition("(")[0].partition(".")[0]
    has_attribute = _has(kind, attribute)
    if not has_attribute and (kind._inner is None or not _has(kind._inner, attribute)):
        return ""
    rest = f".{name}" if ours == "statsmodels" else ""
    return f"; it is `{kind._called}{'' if has_attribute else '.results'}.{ours}{rest}` here."


def _has(kind: type, name: str) -> bool:
    """Whether objects of a class have an attribute; fields without a default are none of the class itself."""
    return hasattr(kind, name) or name in getattr(kind, "__dataclass_fields__", ())
