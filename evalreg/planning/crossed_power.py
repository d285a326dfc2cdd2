"""Power of the test of a difference on prompts crossed with judges, from the variance pieces of a pilot."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from evalreg.checks import FloatArray
from evalreg.covariance.crossed import sums_of
from evalreg.covariance.widths import crossed_widths
from evalreg.numerics.student import t_quantile
from evalreg.planning.t_power import REACHED, chi_nodes

DIMS: list[tuple[int, ...]] = [(0,), (1,), (0, 1)]
# Of an integral over the variance of one axis that the test will see, and over its error in the pilot.
TEST_NODES, ERROR_NODES = 20, 20


@dataclass(frozen=True)
class CrossedDesign:
    """So many prompts and judges, and combinations of them with scores."""

    prompts: float
    judges: float
    cells: float


@dataclass(frozen=True)
class CrossedPilot:
    """What a pilot on prompts and judges says about a difference."""

    design: CrossedDesign
    # Variance of the difference in one combination, by prompt, by judge and by what is left: at least 0.
    parts: tuple[float, float, float]
    # The same before negative ones were set to 0.
    solved: tuple[float, float, float]
    # Degrees of freedom of the one-way variances by prompt and by judge.
    dofs: tuple[float, float]
    repair: str

    def dofs_at(self, design: CrossedDesign) -> tuple[float, float]:
        """Those of another design with the pilot's mix of sizes; one less than equal clusters."""
        pairs = zip(
            self.dofs,
            (design.prompts, design.judges),
            (self.design.prompts, self.design.judges),
            strict=True,
        )
        prompt, judge = (max((dof + 1) * new / old - 1, REACHED) for dof, new, old in pairs)
        return prompt, judge


def expected_terms(design: CrossedDesign) -> FloatArray:
    """What each part adds to the variances by prompt, by judge and by combination, shape (3 terms, 3 parts).

    Scores are a prompt's effect, a judge's and the rest, combinations are at random among all, and their mean is taken
    off: the sample variance of M combinations holds 1 - 1/P of the prompts' variance, the mean of a prompt's judges
    their effects where not all judge all.
    """
    P, J, M = design.prompts, design.judges, design.cells
    gap = 1 / M - 1 / (P * J)
    within = np.array([1 - 1 / P, 1 - 1 / J, 1 - 1 / M]) / (M - 1)
    return np.array([[1 / P, gap, 1 / M], [gap, 1 / J, 1 / M], within])


def true_variance(parts: FloatArray, design: CrossedDesign) -> FloatArray:
    """Variance of the difference; parts (3, ...)."""
    return np.asarray(parts[0] / design.prompts + parts[1] / design.judges + parts[2] / design.cells)


def split(terms: FloatArray, design: CrossedDesign) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Variance parts from the three terms of a pilot, those below 0 set to 0; and as estimated."""
    weights = expected_terms(design)
    solved = np.linalg.solve(weights, terms)
    rest = max(solved[2], 0.0)
    # Where the rest is cut, the axes keep what was seen of them.
    axes = np.linalg.solve(weights[:2, :2], terms[:2] - weights[:2, 2] * rest)
    kept = np.array([*np.maximum(axes, 0.0), rest])
    return _three(kept), _three(solved)


def _three(values: npt.NDArray[np.floating[Any]]) -> tuple[float, float, float]:
    return float(values[0]), float(values[1]), float(values[2])


def crossed_power(
    pilot: CrossedPilot, design: CrossedDesign, delta: float, alpha: float, assurance: float | None = None
) -> float:
    """Probability that the test of `groups="prompt + judge"` finds a true difference.

    For given parts the terms by prompt and by judge are their expected values times chi2/dof, independent of each other
    and of the estimate, as in a normal two-way layout; that of combinations follows from both and the rest. H is then
    that of the test. The parts are averaged over the error of the pilot's two one-way terms, or, with `assurance`, the
    power is that which so many pilots reach.
    """
    if delta == 0:
        return alpha
    parts, weights = _possible_parts(pilot)
    found = _power_of(parts, pilot, design, delta, alpha)
    if assurance is None:
        return float(weights @ found)
    order = np.argsort(-found)
    return float(np.interp(assurance, np.cumsum(weights[order]), found[order]))


def _possible_parts(pilot: CrossedPilot) -> tuple[FloatArray, FloatArray]:
    """Parts that the pilot may have come from, shape (3, m), and their weights."""
    W = expected_terms(pilot.design)
    parts = np.array(pilot.parts)
    seen = W[:2] @ parts
    (prompt, w_prompt), (judge, w_judge) = (chi_nodes(dof, ERROR_NODES) for dof in pilot.dofs)
    terms = np.stack(np.broadcast_arrays(seen[0] / prompt[:, None] ** 2, seen[1] / judge[None, :] ** 2))
    axes = np.linalg.solve(W[:2, :2], terms.reshape(2, -1) - (W[:2, 2] * parts[2])[:, None])
    weights = (w_prompt[:, None] * w_judge[None, :]).ravel()
    return np.vstack([np.maximum(axes, 0.0), np.full(weights.size, parts[2])]), weights


def _power_of(parts: FloatArray, pilot: CrossedPilot, design: CrossedDesign, delta: float, alpha: float) -> FloatArray:
    """Power for each column of parts, shape (m,)."""
    expected = expected_terms(design) @ parts
    dofs = pilot.dofs_at(design)
    t2 = t_quantile(alpha, np.array([*dofs, max(design.cells - 1.0, 1.0)])) ** 2
    (prompt, w_prompt), (judge, w_judge) = (chi_nodes(dof, TEST_NODES) for dof in dofs)
    # In units of the true variance.
    variance = true_variance(parts, design)
    expected = expected / variance
    # The sum of squares of combinations is that of prompts, of judges and of the rest.
    P, J, M = design.prompts, design.judges, design.cells
    u, w = (P - 1) / (M - 1), (J - 1) / (M - 1)
    rest = np.maximum(expected[2] - u * expected[0] - w * expected[1], 0.0)[:, None]
    V_P, V_J = expected[0][:, None] * prompt**2, expected[1][:, None] * judge**2
    H2: Any = 0.0
    for on_P, on_J, on_both in sums_of(DIMS, pilot.repair) * t2:
        # What comes from prompts and the rest, and what comes from judges.
        by_prompt = (on_P + on_both * u) * V_P + on_both * rest
        by_judge = (on_J + on_both * w) * V_J
        H2 = np.maximum(H2, by_prompt[:, :, None] + by_judge[:, None, :])
    H, away = np.sqrt(H2), (delta / np.sqrt(variance))[:, None, None]
    found = scipy.special.ndtr(away - H) + scipy.special.ndtr(-away - H)
    return np.asarray((found @ w_judge) @ w_prompt)


def expected_error(pilot: CrossedPilot, design: CrossedDesign, alpha: float) -> tuple[float, float]:
    """Standard error of the difference on a design, and the degrees of freedom that its half-width is expected to have.

    The half-width is H with the expected terms, in these standard errors.
    """
    parts = np.array(pilot.parts)
    terms = (expected_terms(design) @ parts)[:, None]
    variance = true_variance(parts, design)
    dofs = np.array([*pilot.dofs_at(design), max(design.cells - 1.0, 1.0)])[:, None]
    shown = np.max(sums_of(DIMS, pilot.repair) @ terms, axis=0)
    widths = crossed_widths(shown, terms, dofs, DIMS, pilot.repair)
    return math.sqrt(float(variance)), float(widths.dof(alpha)[0])
