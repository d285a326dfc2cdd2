"""Squares of cells that an engine sums about one centre, asked again about nearer ones where digits were lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from evalreg.checks import BoolArray, FloatArray, listed
from evalreg.errors import DataError

# Squares that are a smaller share of the terms they are a difference of have lost digits.
LOST = 1e-6
# Queries for cells that are far from each other.
MOST_CENTRES = 100


def about_near_centres(
    ask: Callable[[int | None], tuple[dict[str, FloatArray], BoolArray]],
    size: FloatArray,
    names: Sequence[str],
    what: str,
) -> dict[str, FloatArray]:
    """Sums of each cell, without loss of digits.

    `ask` gives sums about the centre of all cells (None) or of one, and which cells lost digits; about its own centre
    no cell does. `size` is how large the centre of each cell is, and `what` names the centres in the refusal.
    """
    made, far = ask(None)
    for _ in range(MOST_CENTRES):
        if not far.any():
            return made
        # The smallest: a larger one loses fewer digits about it than it about a larger one.
        own = int(np.argmin(np.where(far, np.abs(size), np.inf)))
        again, lost = ask(own)
        kept = far & ~lost | (np.arange(far.size) == own)
        made = {name: np.where(kept, again[name], made[name]) for name in made}
        far = far & ~kept
    if not far.any():
        return made
    some = [name for name, one in zip(names, far, strict=True) if one][:3]
    raise DataError(
        f"{what} of rows in an engine must not be so far from each other that their squares lose digits; more than "
        f"{MOST_CENTRES} are, such as {listed(some)}. Ask for them in parts, or collect the rows first.",
        count=int(far.sum()),
    )
