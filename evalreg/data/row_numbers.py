"""Which rows break a rule, as messages give them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from evalreg.checks import MOST_LISTED


def row_list(where: npt.ArrayLike) -> tuple[list[int], int]:
    """Return the positions (at most five) and the number of the rows where a mask is true."""
    rows = np.flatnonzero(np.asarray(where))
    return [int(row) for row in rows[:MOST_LISTED]], int(rows.size)


def rows_text(rows: Sequence[int], count: int) -> str:
    """Return ``'row 3'`` or ``'rows 3, 7, 9 and 12 more'`` for a message."""
    text = ", ".join(str(row) for row in rows)
    more = count - len(rows)
    return f"row{'s' if count > 1 else ''} {text}" + (f" and {more} more" if more else "")
