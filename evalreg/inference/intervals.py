"""Confidence intervals of parameters, by the rule that suits the estimate."""

from __future__ import annotations

import numpy as np

from evalreg.checks import INTERVALS, BoolArray, FloatArray, fraction, option
from evalreg.covariance.covariance import Covariance
from evalreg.errors import ScoreRangeError
from evalreg.estimate import Estimate
from evalreg.inference.labelled import human_labels
from evalreg.inference.monotone import through
from evalreg.inference.rectified import label_trials, rectified_limits
from evalreg.inference.widening import effective_trials, widening
from evalreg.numerics.proportions import logit_interval, proportion_interval


def intervals(estimate: Estimate, cov: Covariance, alpha: float, method: str | None) -> FloatArray:
    """Confidence limits of the parameters, (n_params, 2)."""
    fraction("alpha", alpha)
    if method is not None:
        option("method", method, INTERVALS)
    if method not in (None, "wald") and not estimate.bounded:
        raise ScoreRangeError(
            f'`method="{method}"` is for means of scores that all lie in [0, 1]; this is {estimate.about.model} of '
            f'{estimate.about.outcome!r}, which is not. Use method="wald".'
        )
    own = estimate.family.ends(estimate, cov, alpha) if method is None else None
    if own is not None:
        return own
    behind = through(estimate, cov) if method is None else None
    if behind is not None:
        return behind.limits(intervals(behind.estimate, behind.cov, alpha, None))
    chosen = method or (estimate.about.interval if estimate.bounded else "wald")
    theta, variance, critical = np.array(estimate.params), cov.variance(), cov.critical(alpha=alpha)
    se = np.sqrt(variance)
    if method is None and estimate.family.inverted is not None:
        found = estimate.family.inverted.limits(se, critical)
        found[~(se > 0)] = np.nan
        return found
    if method is None and (estimate.family.paired is not None or cov.ends is not None):
        limits = cov.limits(theta, None, alpha)
    else:
        half = critical * se
        limits = np.column_stack([theta - half, theta + half])
        limits[~(se > 0)] = np.nan
    if not estimate.bounded:
        return limits
    if chosen == "rectified":
        return rectified_limits(estimate, cov, np.full(theta.size, alpha), critical)
    if chosen in ("logit", "widened"):
        limits[se > 0] = on_logit_scale(estimate, cov, se > 0, critical[se > 0], widen=chosen == "widened")
    for rows, rule in ((se == 0, "clopper-pearson"), (se > 0, chosen)):
        if rows.any() and rule not in ("wald", "logit", "widened"):
            trials = _trials(estimate, cov, np.full(theta.size, alpha))[rows]
            limits[rows] = proportion_interval(theta[rows], trials, alpha, rule)
    return limits


def on_logit_scale(
    estimate: Estimate, cov: Covariance, rows: BoolArray, critical: FloatArray, *, widen: bool | None = None
) -> FloatArray:
    """Intervals of means in [0, 1] on the logit scale, widened where successes or failures are few.

    Inside [0, 1]. A mean that is 0 or 1 but for rounding has no logit; its interval is Clopper and Pearson's on the
    effective number of clusters. `widen`: whether the interval also holds Jeffreys' where fewer than five successes or
    failures are effective (Clopper and Pearson's for independent 0/1 scores, whose number need not be estimated); by
    default as the estimate says. Scores that are not 0 or 1 are counted as `widening` says. Korn and Graubard (1998),
    Survey Methodology 24, 193-201; Brown, Cai and DasGupta (2001), Statistical Science 16(2). Shapes: rows (n_params,),
    critical (m,); returns (m, 2).
    """
    mean, se = np.array(estimate.params)[rows], np.sqrt(cov.variance())[rows]
    rectified = estimate.about.interval == "rectified" and widen is None
    widen = estimate.about.interval == "widened" if widen is None else widen
    inside = (mean > 0) & (mean < 1)
    limits = np.full((mean.size, 2), np.nan)
    limits[inside] = logit_interval(mean[inside], se[inside], critical[inside])
    if not widen and not rectified and inside.all():
        return limits
    distance, level = np.zeros(estimate.n_params), np.full(estimate.n_params, 0.5)
    distance[rows] = critical * se
    alpha = cov.pvalues(None, distance)[rows]
    level[rows] = alpha
    if rectified:
        return rectified_limits(estimate, cov, level, cov.critical(alpha=level))[rows]
    if not inside.all():
        trials = _trials(estimate, cov, level)[rows][~inside]
        limits[~inside] = proportion_interval(mean[~inside], trials, alpha[~inside], "clopper-pearson")
    wider = widening(estimate, cov) if widen else None
    if wider is not None:
        also = wider.limits(level, cov.critical(alpha=level))[rows]
        limits = np.column_stack([np.fmin(limits[:, 0], also[:, 0]), np.fmax(limits[:, 1], also[:, 1])])
    return limits


def _trials(estimate: Estimate, cov: Covariance, alpha: FloatArray) -> FloatArray:
    """Effective trials behind each mean; behind the human labels of a rectified one."""
    if human_labels(estimate) is not None:
        return label_trials(estimate, cov, alpha, cov.critical(alpha=alpha))
    return effective_trials(estimate, cov, alpha, cov.variance())
