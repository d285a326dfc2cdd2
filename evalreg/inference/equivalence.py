"""Tests against a margin: non-inferiority, and equivalence by two one-sided tests."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, fraction, option
from evalreg.covariance.covariance import Covariance
from evalreg.errors import ArgumentError, ArgumentTypeError

EquivalenceName: TypeAlias = Literal["equivalence", "non-inferiority"]
KINDS: tuple[EquivalenceName, ...] = get_args(EquivalenceName)
Verdict: TypeAlias = Literal["shown", "shown to fail", "cannot tell"]
SHOWN: Verdict = "shown"
FAILS: Verdict = "shown to fail"
OPEN: Verdict = "cannot tell"


@dataclass(frozen=True, eq=False)
class OneSided:
    """Both one-sided t tests of parameters against a bound."""

    # (m,): p-values of "the parameter is at most the bound" and of "it is at least the bound"; small ones show that
    # it lies above, or below
    above: FloatArray
    below: FloatArray


@dataclass(frozen=True)
class InRange:
    """Means in [0, 1], whose tests and intervals know that range."""

    # two-sided p-values against a value, (m,), and limits at a level, (m, 2)
    pvalues: Callable[[float], FloatArray]
    limits: Callable[[float], FloatArray]


def one_sided(
    estimate: FloatArray, cov: Covariance, bound: float, own: Callable[[float], FloatArray] | None = None
) -> OneSided:
    """One-sided p-values of parameters against a bound, half the two-sided ones on the side of the estimate.

    `own` has two-sided ones that are not by the standard error. NaN where there is none. Shapes: estimate (m,).
    """
    if math.isinf(bound):
        known = 0 * cov.pvalues(None, np.zeros_like(estimate))
        return OneSided(known + (bound > 0), known + (bound < 0))
    far = (cov.pvalues(None, estimate - bound) if own is None else own(bound)) / 2
    return OneSided(np.where(estimate > bound, far, 1 - far), np.where(estimate > bound, 1 - far, far))


def verdicts(p_shown: FloatArray, p_fails: FloatArray, alpha: float) -> list[Verdict]:
    """What two opposite tests say together, from their p-values (m,)."""
    return [SHOWN if a < alpha else FAILS if b < alpha else OPEN for a, b in zip(p_shown, p_fails, strict=True)]


def equivalence_table(
    params: pd.Series[float],
    cov: Covariance,
    margin: float | tuple[float, float],
    *,
    kind: EquivalenceName = "equivalence",
    alpha: float = 0.05,
    level: InRange | None = None,
) -> pd.DataFrame:
    """Whether parameters lie within margins, or not below one; `level` has the intervals of means in [0, 1].

    Columns estimate, se, dof, lower, upper (the 1 - 2 alpha interval), p_value and verdict. Schuirmann (1987), Journal
    of Pharmacokinetics and Biopharmaceutics 15, 657-680. Shapes: params (n_params,).
    """
    option("kind", kind, KINDS)
    fraction("alpha", alpha)
    low, high = _bounds(margin, kind)
    theta, se = np.asarray(params, dtype=np.float64), np.sqrt(cov.variance())
    se = np.where(se > 0, se, np.nan)
    own = None if level is None else level.pvalues
    against_low, against_high = one_sided(theta, cov, low, own), one_sided(theta, cov, high, own)
    # Two one-sided tests: the claim needs both, and fails where either bound is passed.
    p_value = np.maximum(against_low.above, against_high.below)
    fails = np.minimum(against_low.below, against_high.above)
    both = 2 * min(alpha, 1 - alpha)
    ends = cov.limits(theta, None, both) if level is None else level.limits(both)
    if alpha > 0.5:  # the ends change sides
        ends = ends[:, ::-1]
    columns = {"estimate": theta, "se": se, "dof": cov.dof(), "lower": ends[:, 0], "upper": ends[:, 1]}
    table = pd.DataFrame(columns | {"p_value": p_value}, index=params.index)
    table["verdict"] = verdicts(p_value, fails, alpha)
    table.attrs = {"kind": kind, "margin": (low, high), "alpha": alpha}
    return table


def _bounds(margin: Any, kind: str) -> tuple[float, float]:
    """Lower and upper bound; the upper one is infinite for non-inferiority."""
    if isinstance(margin, tuple | list) and len(margin) == 2 and kind == "equivalence":
        low, high = (_number(value) for value in margin)
        if not low < 0 < high:
            raise ArgumentError(
                f"`margin` as two bounds must enclose zero, such as (-0.02, 0.01); got ({low:g}, {high:g})."
            )
        return low, high
    size = _number(margin)
    if not size > 0:
        raise ArgumentError(
            f"`margin` must be positive: the largest difference that does not matter, in units of the score; got "
            f"{size:g}. {f'Pass {-size:g}' if size < 0 else 'A margin of zero can never be met'}"
            f"{', whatever the direction of the difference.' if size < 0 else '; ask for a test instead.'}"
        )
    return -size, (size if kind == "equivalence" else math.inf)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ArgumentTypeError(f"`margin` must be a positive number, or two bounds around zero; got {value!r}.")
    if not math.isfinite(value):
        raise ArgumentError(f"`margin` must be finite; got {float(value)}.")
    return float(value)
