"""Numbers that a plan is made of, checked."""

from __future__ import annotations

import math
import numbers

from evalreg.errors import ArgumentError, ArgumentTypeError


def checked_delta(delta: object) -> float:
    """Return `delta` if it is a positive number."""
    value = checked_number("delta", delta)
    if value <= 0:
        raise ArgumentError(
            f"`delta` must be positive, the size of the difference to be detected; got {value:g}. The test is "
            "two-sided: pass the absolute value."
        )
    return value


def checked_variance(name: str, value: object) -> float:
    """Return `value` if it is a number of at least 0."""
    number = checked_number(name, value)
    if number < 0:
        raise ArgumentError(f"`{name}` must not be negative: it is a variance; got {number:g}.")
    return number


def checked_at_least(name: str, value: object, least: float, what: str) -> float:
    """Return `value` if it is a number of at least `least`."""
    number = checked_number(name, value)
    if number < least:
        raise ArgumentError(f"`{name}` must be at least {least:g}, {what}; got {number:g}.")
    return number


def checked_count(name: str, value: object, least: int, what: str) -> int:
    """Return `value` if it is a whole number of at least `least`."""
    number = checked_number(name, value)
    if number < least or number != int(number):
        raise ArgumentError(f"`{name}` must be a whole number of {what}, at least {least}; got {value!r}.")
    return int(number)


def checked_number(name: str, value: object) -> float:
    """Return `value` as a finite float."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ArgumentTypeError(f"`{name}` must be a number; got {type(value).__name__} {value!r}.")
    try:
        number = float(value)
    except OverflowError:  # a whole number of more than 308 digits
        number = math.inf
    if not math.isfinite(number):
        raise ArgumentError(f"`{name}` must be finite; got {number:g}.")
    return number
