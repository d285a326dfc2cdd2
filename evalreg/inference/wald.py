"""t statistics, their p-values, and joint tests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from evalreg.checks import FloatArray
from evalreg.covariance.covariance import USUAL_LEVEL, Covariance
from evalreg.covariance.ends import Ends
from evalreg.covariance.widths import CLOSE, SMALLEST_LEVEL
from evalreg.errors import FewClustersWarning, Note, TooFewClustersError
from evalreg.estimate import Estimate
from evalreg.inference.contrasts import parse_contrasts, refuse_dependent
from evalreg.inference.joint_power import (
    FALSELY,
    LITTLE,
    falsely_shown,
    little_shown,
    share_shown,
    thin_axis,
    too_sure,
)
from evalreg.numerics.student import NORMAL, t_quantile
from evalreg.numerics.student import t_pvalues as t_pvalues

if TYPE_CHECKING:
    from statsmodels.stats.contrast import ContrastResults


# Of a test for which no degrees of freedom are left.
NO_DOF = "degrees of freedom cannot test"
# Levels are looked for in so many steps, and not nearer to one.
MOST_LEVELS, LARGEST_LEVEL = 200, 0.9999


@dataclass(frozen=True)
class JointTest:
    """A test that several contrasts are zero."""

    statistic: float  # F; NaN where the reference has no degrees of freedom left
    df_num: int  # degrees of freedom; df_denom is inf for a chi-squared reference
    df_denom: float
    reason: str = ""  # why the statistic is NaN; empty otherwise
    note: str = ""  # what so few clusters do to the test; empty where they are enough


def wald_quadratic(effect: FloatArray, covariance: FloatArray) -> float:
    """The Wald statistic W = effect' V^-1 effect; NaN where V is not positive definite to working precision."""
    scale = np.sqrt(np.diag(covariance))
    if not np.all(scale > 0):
        return float("nan")
    values, axes = np.linalg.eigh(covariance / np.outer(scale, scale))
    if values[0] <= 1e-12 * values[-1]:
        return float("nan")
    turned = axes.T @ (effect / scale)
    return float(np.sum(turned**2 / values))


def singular(covariance: FloatArray) -> str:
    """Why a joint test has no statistic, shape (q, q): how many of its contrasts are told apart."""
    scale = np.sqrt(np.maximum(np.diag(covariance), 0))
    q = scale.size
    if not np.all(scale > 0):
        return "the covariance of these contrasts is singular"
    values = np.linalg.eigvalsh(covariance / np.outer(scale, scale))
    rank = np.count_nonzero(values > 1e-12 * values[-1])
    return (
        f"the covariance of these contrasts is singular (rank {rank} of {q}): some follow from others, as A - C from "
        f"A - B and B - C, or clusters are too few. Test {rank} that do not, such as the differences from one model"
    )


def f_test(effect: FloatArray, covariance: FloatArray, dof: float) -> JointTest:
    """F = W/q, referred to F(q, dof). Shapes: effect (q,), covariance (q, q)."""
    q = effect.size
    W = wald_quadratic(effect, covariance)
    reason = singular(covariance) if np.isnan(W) else ""
    return JointTest(W / q, q, dof, reason)


def hotelling_test(effect: FloatArray, covariance: FloatArray, eta: float) -> JointTest:
    """Approximate Hotelling T^2 test (HTZ): F = (eta - q + 1)/(eta q) W, referred to F(q, eta - q + 1).

    NaN with the reason where eta <= q - 1. Pustejovsky and Tipton (2018), JBES 36(4), section 3.2. Shapes: effect (q,),
    covariance (q, q).
    """
    q = effect.size
    if not eta > q - 1:
        text = f"{eta:.3g} {NO_DOF} {q} contrasts jointly"
        return JointTest(float("nan"), q, float("nan"), text)
    W = wald_quadratic(effect, covariance)
    reason = singular(covariance) if np.isnan(W) else ""
    return JointTest((eta - q + 1) / (eta * q) * W, q, eta - q + 1, reason)


def as_contrast_results(test: JointTest) -> ContrastResults:
    """The joint test as statsmodels' ContrastResults.

    With an F reference, or chi-squared where df_denom is infinite.
    """
    from statsmodels.stats.contrast import ContrastResults

    if np.isinf(test.df_denom):
        result: Any = ContrastResults(
            statistic=test.statistic * test.df_num, df_denom=test.df_num, distribution="chi2", dist_args=(test.df_num,)
        )
    else:
        result = ContrastResults(F=test.statistic, df_num=test.df_num, df_denom=test.df_denom)
    result.reason, result.note = test.reason, test.note
    return result


def as_t_results(effect: FloatArray, se: FloatArray, dof: FloatArray, value: FloatArray) -> ContrastResults:
    """t tests of contrasts as statsmodels' ContrastResults.

    `df_denom` has one entry a contrast; p-values are NaN where a standard error is 0 or unknown. Shapes: effect, se,
    dof, value (m,).
    """
    from statsmodels.stats.contrast import ContrastResults

    se = np.where(se > 0, se, np.nan)
    return ContrastResults(effect=effect, t=(effect - value) / se, sd=se, df_denom=dof)


def joint_test_p(test: JointTest) -> float:
    """The p-value of a joint test; NaN where there is none."""
    q, dof, F = test.df_num, test.df_denom, test.statistic
    return float(special.chdtrc(q, F * q) if np.isinf(dof) else special.fdtrc(q, dof, F))


def few_notes(test: JointTest) -> list[Note]:
    """The warning of a joint test that few clusters keep from showing much; none otherwise."""
    return [(FewClustersWarning, test.note)] if test.note else []


def joint_test(estimate: Estimate, cov: Covariance, contrasts: Any) -> JointTest:
    """Wald test of several contrasts, by the rule of the covariance in use, and what few clusters keep it from."""
    asked = parse_contrasts(contrasts, estimate.names)
    C = asked.matrix
    test = _tested(cov, C, C @ estimate.params - asked.value)
    if cov.axes and NO_DOF in test.reason:
        return replace(test, reason=f"{test.reason} ({thin_axis(cov, C)})")
    if not cov.axes or test.reason or test.note or share_shown(test.df_num, test.df_denom) >= LITTLE:
        return test
    return replace(test, note=little_shown(test.df_num, test.df_denom, thin_axis(cov, C)))


def _tested(cov: Covariance, C: FloatArray, effect: FloatArray) -> JointTest:
    """The test that effects are zero, by the rule of the covariance in use."""
    q = C.shape[0]
    refuse_dependent(C)
    reasons = [reason for reason in cov.reasons(C) if reason]
    if reasons:
        return JointTest(float("nan"), q, float("nan"), f"a contrast has no variance, because {reasons[0]}")
    if cov.ends is None or cov.reach(C) is None:
        return _by_rule(cov, C, effect, np.zeros((q, q)))
    return _allowing(cov, C, effect, cov.ends)


def _allowing(cov: Covariance, C: FloatArray, effect: FloatArray, ends: Ends) -> JointTest:
    """The test whose p-value is the level at which means without a variance have the errors that it allows them.

    One hypothesis is tested as its interval is built.
    """
    if effect.size == 1:
        dof = cov.dof(C)
        return JointTest(float(t_quantile(cov.pvalues(C, effect), dof)[0] ** 2), 1, float(dof[0]))
    test = _by_rule(cov, C, effect, ends.variance(C, USUAL_LEVEL, NORMAL))
    if test.reason:
        return test
    log_level = np.log(USUAL_LEVEL)
    for _ in range(MOST_LEVELS):
        level = float(np.exp(log_level))
        critical = float(t_quantile(level, np.array([test.df_denom]))[0])
        test = _by_rule(cov, C, effect, ends.variance(C, level, critical))
        reached = np.log(np.clip(joint_test_p(test), SMALLEST_LEVEL, LARGEST_LEVEL))
        if abs(reached - log_level) < CLOSE:
            break
        # A smaller level allows for more: halfway, as whole steps may go to and fro.
        log_level = (log_level + reached) / 2
    return test


def _by_rule(cov: Covariance, C: FloatArray, effect: FloatArray, more: FloatArray) -> JointTest:
    """The test by the rule of the covariance in use, whose contrasts have `more` covariance than it shows."""
    q, term = C.shape[0], cov.pieces[0]
    if not cov.crossed and cov.axes and cov.options.dof == "satterthwaite":
        eta = term.hotelling(C)
        return hotelling_test(effect, C @ term.matrix @ C.T + more, eta)
    if cov.summed:
        return _summed_test(cov, C, effect, more)
    middle = cov.sum_one_way if cov.repaired is None or cov.options.kind.dof == "satterthwaite" else cov.repaired
    rule = cov.options.dof
    dof = np.inf if rule == "normal" else rule if isinstance(rule, float) else cov.smallest_dof
    if cov.axes and q > cov.smallest_dof:
        raise TooFewClustersError(
            f"a joint test needs more clusters than hypotheses; got {q} hypotheses, and {cov.smallest_dof:.0f} "
            f"degree{'' if cov.smallest_dof == 1 else 's'} of freedom between clusters. Test fewer at a time.",
            count=q,
        )
    test = f_test(effect, C @ middle @ C.T + more, dof)
    if not cov.axes or test.reason or q == 1 or falsely_shown(q, dof, cov.smallest_dof) <= FALSELY:
        return test
    return replace(test, note=too_sure(q, dof, cov.smallest_dof, thin_axis(cov, C)))


def _summed_test(cov: Covariance, C: FloatArray, effect: FloatArray, more: FloatArray) -> JointTest:
    """The test of crossed terms that each have degrees of freedom of their own.

    One hypothesis is tested as its interval is built. For several the sum of the one-way terms, which is never below
    one of them, takes the smallest of their Hotelling degrees of freedom, so that no axis makes another surer.
    """
    q = effect.size
    if q == 1:
        p = float(cov.pvalues(C, effect)[0])
        F = float(effect[0] ** 2 / cov.variance(C)[0])
        # t with so many degrees of freedom has this p-value.
        return JointTest(F, 1, float(cov.dof(C, alpha=max(p, SMALLEST_LEVEL))[0]))
    eta = min(term.hotelling(C) for term in cov.one_way)
    return hotelling_test(effect, C @ cov.sum_one_way @ C.T + more, eta)
