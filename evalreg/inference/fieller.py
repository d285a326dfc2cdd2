"""Fieller's intervals of ratios of estimates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evalreg.checks import FloatArray
from evalreg.covariance.assembly import assemble
from evalreg.covariance.covariance import Covariance
from evalreg.estimate import PLAIN, Estimate, Family
from evalreg.estimate.about import selects
from evalreg.numerics.matrices import Matrix, dense


def covariance_behind(behind: Estimate, cov: Covariance) -> Covariance:
    """The covariance of what is behind an estimate, of the same kind and under the same clusters; made once."""
    held = cov.kept.get("behind")
    if held is None or held[0] is not behind:
        held = cov.kept["behind"] = (behind, assemble(behind, cov.axes, cov.options))
    found: Covariance = held[1]
    return found


@dataclass(frozen=True, eq=False)
class Ratios(Family):
    """Parameters (c + N theta)/(d + D theta) of an estimate theta, whose intervals are Fieller's, within a range.

    The interval holds each h for which c + N theta - h (d + D theta) is not significantly different from 0: Fieller
    (1954), JRSS B 16, 175-185. Where the denominator may be 0 it has no ends. `constants` are c and d of each.
    """

    behind: Estimate
    numerator: FloatArray
    denominator: FloatArray
    constants: FloatArray
    low: float = -np.inf
    high: float = np.inf

    def linear(self, whole: Estimate, C: Matrix) -> Family:
        """Some of the ratios; contrasts of them are no ratios, and have Wald's intervals."""
        if not selects(C):
            return PLAIN
        at = np.argmax(dense(C) != 0, axis=1)
        rows = {name: getattr(self, name)[at] for name in ("numerator", "denominator", "constants")}
        return replace(self, **rows)

    def with_labels(self, more: dict[str, Any]) -> Family:
        """The same with further columns of labels."""
        return replace(self, behind=replace(self.behind, scores=self.behind.scores.with_labels(more)))

    def ends(self, estimate: Estimate, cov: Any, alpha: float) -> FloatArray:
        """Both ends of every ratio, with the critical values of its own degrees of freedom, shape (n_params, 2)."""
        V, theta = covariance_behind(self.behind, cov).matrix, np.array(self.behind.params)
        n, d = self.constants[:, 0] + self.numerator @ theta, self.constants[:, 1] + self.denominator @ theta
        t2 = cov.critical(alpha=alpha) ** 2
        products = ((self.numerator, self.numerator), (self.numerator, self.denominator), (self.denominator,) * 2)
        nn, nd, dd = (np.einsum("ij,jk,ik->i", left, V, right) for left, right in products)
        # (n - h d)^2 = t^2 Var(n - h d), a quadratic in h.
        a, b, c = d**2 - t2 * dd, n * d - t2 * nd, n**2 - t2 * nn
        with np.errstate(invalid="ignore", divide="ignore"):
            root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
            limits = np.where((a > 0)[:, None], np.column_stack([b - root, b + root]) / a[:, None], [-np.inf, np.inf])
        limits[np.isnan(cov.variance())] = np.nan
        return np.clip(limits, self.low, self.high)
