"""Keywords that a function does not have: the refusal says what they are called here."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from evalreg.checks import listed, nearest
from evalreg.elsewhere import KEYWORDS, LATER, MODELS
from evalreg.errors import ArgumentTypeError

P = ParamSpec("P")
T = TypeVar("T")


def keyword_hint(name: str, function: str, known: Sequence[str]) -> str:
    """What to write for a keyword that a function does not have.

    Parameters
    ----------
    name : str
        The keyword.
    function : str
        The function.
    known : sequence of str
        Its parameters.

    Returns
    -------
    str
        A whole message.
    """
    start = f"`{function}` has no keyword `{name}`"
    meant = next((ours for ours in KEYWORDS.get(name.lower(), ()) if ours in known), None)
    if meant is not None:
        return f"{start}; it is called `{meant}` here."
    if name.lower() in LATER:
        return f"{start}; ask the result: {LATER[name.lower()]}."
    if "formula" in known and name.lower() in MODELS:
        return f'{start}; models go into the formula, as in "score ~ C({name})".'
    return f"{start}.{nearest(name, known) or f' It has {listed(known)}.'}"


def with_hints(function: Callable[P, T]) -> Callable[P, T]:
    """The same function, whose refusal of an unknown keyword says what it is called here.

    Parameters
    ----------
    function : callable
        With its parameters written out.

    Returns
    -------
    callable
        With the same signature and docstring.

    Raises
    ------
    ArgumentTypeError
        From the function returned, for a keyword that it does not have.
    """
    known = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        unknown = [name for name in kwargs if name not in known]
        if unknown:
            raise ArgumentTypeError(keyword_hint(unknown[0], function.__name__, known))
        return function(*args, **kwargs)

    return checked
