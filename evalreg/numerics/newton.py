"""The largest value of a concave log likelihood, by Newton's method on scaled coefficients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from evalreg.checks import FloatArray
from evalreg.errors import ConvergenceError

MOST_STEPS = 100
# The next step, and so the gradient in units of the information, is this small where the steps have settled.
SETTLED = 1e-11
# Steps as small as this that no longer shrink are rounding.
ROUNDING = 1e-8
# Information whose smallest eigenvalue is this fraction of its largest, coordinates scaled, says nothing of some
# combination of the coefficients.
SINGULAR = 1e-13

Evaluate: TypeAlias = Callable[[FloatArray], tuple[float, FloatArray, FloatArray]]
"""Log likelihood, its gradient and its information (minus the second derivative) at some coefficients."""


def newton(evaluate: Evaluate, n_coefficients: int, start: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Where a concave log likelihood of p coefficients is largest, and the inverse of its information there.

    There a whole Newton step, the gradient in units of the information, is nothing; raises where steps do not settle.
    """
    beta = np.zeros(n_coefficients) if start is None else start
    value, gradient, information = evaluate(beta)
    last = np.inf
    for _ in range(MOST_STEPS):
        inverse = _inverse(information)
        if inverse is None:
            break
        step = inverse @ gradient
        reach = float(np.max(np.abs(step), initial=0.0) / (1 + np.max(np.abs(beta), initial=0.0)))
        if reach < SETTLED or last / 2 < reach < ROUNDING:
            return beta + step, inverse
        last = reach
        size, moved = 1.0, evaluate(beta + step)
        # The likelihood is concave: a step that lowers it is too long, never in a wrong direction.
        while not moved[0] >= value - 1e-12 * abs(value) and size > 1e-8:
            size /= 2
            moved = evaluate(beta + size * step)
        beta = beta + size * step
        value, gradient, information = moved
    raise ConvergenceError(
        "the fit does not converge: some combination of the covariates separates wins from losses, so that no finite "
        f"coefficient is the best (the largest is {np.max(np.abs(beta)):.3g} and grows). Leave out the covariate that "
        "decides the verdict."
    )


def _inverse(information: FloatArray) -> FloatArray | None:
    """Inverse by way of unit diagonals, whatever the units of the coefficients; None where there is none."""
    diagonal = np.diag(information)
    if not np.all(np.isfinite(information)) or np.any(diagonal <= 0):
        return None
    unit = np.sqrt(diagonal)
    values, axes = np.linalg.eigh(information / np.outer(unit, unit))
    if values.size and values[0] <= SINGULAR * values[-1]:
        return None
    turned = axes / unit[:, None]
    return np.asarray((turned / values) @ turned.T, dtype=np.float64)
