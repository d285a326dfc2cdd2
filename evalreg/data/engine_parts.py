"""Numbers of rows that stay in an engine as they are summed: less a centre, over a spread, and their products.

A power or product of a formula is made of numbers near zero, such as the square of x - c beside x: x^2 is that square,
2c times x - c, and c^2. So powers lose no digits however far x is from zero, and products that are the same, as x times
x^3 and x^2 times x^2, are summed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from evalreg.checks import FloatArray
from evalreg.data.engine_terms import Factors


def multiplied_in_parts(numbers: Sequence[str], products: Mapping[str, Factors]) -> tuple[tuple[int, ...], ...]:
    """Numbers that are multiplied in each part: the numbers themselves, then products, those of fewer first."""
    place = {name: v for v, name in enumerate(numbers)}
    found = {tuple(sorted(place[name] for name, _ in factors)) for factors in products.values()}
    return tuple(sorted(found | {(v,) for v in place.values()}, key=lambda own: (len(own), own)))


def names_of_parts(n_parts: int) -> tuple[str, ...]:
    """Columns of the parts."""
    return tuple(f"__part{v}" for v in range(n_parts))


def with_parts(
    frame: nw.LazyFrame[Any], scaled: Sequence[nw.Expr], multiplied: Sequence[tuple[int, ...]]
) -> nw.LazyFrame[Any]:
    """The frame with the scaled numbers and their products, each of a product of fewer and a number."""
    names = dict(zip(multiplied, names_of_parts(len(multiplied)), strict=True))
    for n in range(1, max(map(len, multiplied), default=0) + 1):
        own = [one for one in multiplied if len(one) == n]
        made = scaled if n == 1 else [nw.col(names[one[:-1]]) * nw.col(names[one[-1:]]) for one in own]
        frame = frame.with_columns(*(one.alias(names[name]) for name, one in zip(own, made, strict=True)))
    return frame


def maps_to_parts(
    numbers: Sequence[str],
    products: Mapping[str, Factors],
    multiplied: Sequence[tuple[int, ...]],
    centres: FloatArray,
    spreads: FloatArray,
) -> FloatArray:
    """What each product is of 1 and of the parts, shape (n_products, n_parts + 1)."""
    place = {name: v for v, name in enumerate(numbers)}
    at = {own: i for i, own in enumerate(((), *multiplied))}
    maps = np.zeros((len(products), len(at)))
    for row, factors in zip(maps, products.values(), strict=True):
        row[0] = 1.0
        for name, added in factors:
            v = place[name]
            # A number is its centre, and its spread times the part; all lower products are parts.
            higher = [(at[tuple(sorted((*own, v)))], row[i]) for own, i in at.items() if row[i] != 0]
            row *= centres[v] + added
            for i, times in higher:
                row[i] += times * spreads[v]
    return maps
