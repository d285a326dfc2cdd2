"""Values whose intervals need the estimate that they are made of: what is behind them, and Fieller's ends of ratios."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evalreg.checks import FloatArray, IntArray
from evalreg.covariance.assembly import assemble
from evalreg.covariance.covariance import Covariance
from evalreg.estimate import PLAIN, Estimate, Family
from evalreg.estimate.estimate import selects
from evalreg.numerics.matrices import Matrix, dense


@dataclass(frozen=True, eq=False)
class Behind(Family):
    """Values made of an estimate; `at` says which of all values these are."""

    behind: Estimate
    at: IntArray

    def linear(self, whole: Estimate, C: Matrix) -> Family:
        """Some of the values; contrasts of them have Wald's intervals."""
        return replace(self, at=self.at[np.argmax(dense(C) != 0, axis=1)]) if selects(C) else PLAIN

    def with_labels(self, more: dict[str, Any]) -> Family:
        """The same with further columns of labels."""
        return replace(self, behind=replace(self.behind, scores=self.behind.scores.with_labels(more)))

    def covariance(self, cov: Covariance) -> Covariance:
        """The covariance of the estimate behind, of the kind and under the clusters of the values; made once."""
        held = cov.kept.get("behind")
        if held is None or held[0] is not self.behind:
            held = cov.kept["behind"] = (self.behind, assemble(self.behind, cov.axes, cov.options))
        found: Covariance = held[1]
        return found


@dataclass(frozen=True, eq=False)
class Ratios(Behind):
    """Parameters (c + N theta)/(d + D theta) of an estimate theta, whose intervals are Fieller's, within a range.

    The interval holds each h for which c + N theta - h (d + D theta) is not significantly different from 0: Fieller
    (1954), JRSS B 16, 175-185. Where the denominator may be 0 it has no ends. `constants` are c and d of each.
    """

    numerator: FloatArray
    denominator: FloatArray
    constants: FloatArray
    range: tuple[float, float] = (-np.inf, np.inf)

    def values(self) -> tuple[FloatArray, FloatArray]:
        """The ratios, and their derivatives by theta."""
        n, d = self._sides()
        return n / d, (self.numerator - (n / d)[:, None] * self.denominator) / d[:, None]

    def _sides(self) -> tuple[FloatArray, FloatArray]:
        theta = np.array(self.behind.params)
        return self.constants[:, 0] + self.numerator @ theta, self.constants[:, 1] + self.denominator @ theta

    def ends(self, estimate: Estimate, cov: Any, alpha: float) -> FloatArray:
        """Both ends of every ratio, with the critical values of its own degrees of freedom, shape (n_params, 2)."""
        V, t2 = self.covariance(cov).matrix, cov.critical(alpha=alpha) ** 2
        N, D, (n, d) = self.numerator[self.at], self.denominator[self.at], (side[self.at] for side in self._sides())
        nn, nd, dd = (np.einsum("ij,jk,ik->i", left, V, right) for left, right in ((N, N), (N, D), (D, D)))
        # (n - h d)^2 = t^2 Var(n - h d), a quadratic in h.
        a, b, c = d**2 - t2 * dd, n * d - t2 * nd, n**2 - t2 * nn
        with np.errstate(invalid="ignore", divide="ignore"):
            root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
            limits = np.where((a > 0)[:, None], np.column_stack([b - root, b + root]) / a[:, None], [-np.inf, np.inf])
        limits[np.isnan(cov.variance())] = np.nan
        return np.clip(limits, *self.range)
