"""P-values of many contrasts between bounds, exact only where a decision needs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.covariance.widths import Widths

Rule: TypeAlias = Callable[[FloatArray], BoolArray]
"""Which contrasts are decided, from the p-values of all, (m,) both; smaller ones never decide fewer."""


@dataclass(frozen=True, eq=False)
class RoughWidths:
    """Widths of many contrasts, known but for the bounds of their degrees of freedom."""

    narrow: Widths
    wide: Widths
    effect: FloatArray  # (m,), less its value under the null
    exact: Callable[[IntArray], Widths]  # of some of the contrasts

    def decided(self, rule: Rule) -> BoolArray:
        """What the rule decides by exact p-values, of which only those are sought that it turns on."""
        p = self._bounds
        while True:
            certain = rule(p[1])
            doubtful = np.flatnonzero(rule(p[0]) & ~certain)
            if not doubtful.size:
                return certain
            unknown = doubtful[p[0, doubtful] < p[1, doubtful]]
            self._settle(unknown if unknown.size else np.flatnonzero(p[0] < p[1]))

    def largest(self, which: BoolArray) -> float:
        """The largest p-value of some contrasts; 0 of none."""
        p, rows = self._bounds, np.flatnonzero(which)
        if not rows.size:
            return 0.0
        rows = rows[p[1, rows] >= np.max(p[0, rows])]
        self._settle(rows[p[0, rows] < p[1, rows]])
        return float(np.max(p[1, rows]))

    @cached_property
    def _bounds(self) -> FloatArray:
        """The least and the most that the p-values can be, (2, m), the same once they are known."""
        return np.sort([one.pvalues(self.effect) for one in (self.narrow, self.wide)], axis=0)

    def _settle(self, rows: IntArray) -> None:
        self._bounds[:, rows] = self.exact(rows).pvalues(self.effect[rows])
