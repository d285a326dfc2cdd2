"""Increasing functions of parameters, whose intervals and tests are those of the parameters, carried through."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evalreg.checks import FloatArray
from evalreg.covariance.covariance import Covariance
from evalreg.estimate import Estimate, Scale


@dataclass(frozen=True, eq=False)
class Through:
    """The parameters behind values of an increasing function of each."""

    scale: Scale
    estimate: Estimate
    cov: Covariance

    def limits(self, limits: FloatArray) -> FloatArray:
        """Ends of intervals of the values, from those of the parameters; any shape."""
        return self.scale.forward(limits)

    def value(self, value: FloatArray) -> FloatArray:
        """What the parameters are where the function has these values; outside [0, 1] where it has none."""
        return self.scale.back(value)


def through(estimate: Estimate, cov: Covariance) -> Through | None:
    """What is behind values of an increasing function; None of anything else."""
    family = estimate.family.monotone
    if family is None:
        return None
    held = cov.kept.get("monotone")
    if held is None or held[0] is not estimate:
        of = family.parameters(estimate)
        own = replace(cov.linear(np.diag(family.shrink), cov.names), bounded=of.bounded and of.cells is not None)
        held = cov.kept["monotone"] = (estimate, Through(family.scale, of, own))
    found: Through = held[1]
    return found
