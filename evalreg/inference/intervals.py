"""Confidence intervals of parameters, by the rule that suits the estimate."""

from __future__ import annotations

import numpy as np

from evalreg.checks import INTERVALS, BoolArray, FloatArray, fraction, option
from evalreg.covariance import Covariance
from evalreg.dependence import effective_clusters, exchangeable_limit, exchangeable_variance
from evalreg.errors import NotAvailableError, ScoreRangeError
from evalreg.estimate import Estimate
from evalreg.inference.proportions import (
    effective_n,
    logit_interval,
    proportion_interval,
    t_quantile,
)

# With fewer effective successes or failures the logit interval of a mean is widened.
FEW_EFFECTIVE = 5.0


def intervals(estimate: Estimate, cov: Covariance, alpha: float, method: str | None) -> FloatArray:
    """Confidence limits of the parameters, shape (n_params, 2).

    Parameters
    ----------
    estimate : Estimate
        The parameters.
    cov : Covariance
        Their covariance.
    alpha : float
        Level.
    method : str or None
        As in `Results.conf_int`.

    Returns
    -------
    ndarray, shape (n_params, 2)
        Never of width zero.

    Raises
    ------
    ScoreRangeError
        If a proportion's interval is asked of something else.
    """
    fraction("alpha", alpha)
    if method is not None:
        option("method", method, INTERVALS)
    if method not in (None, "wald") and not estimate.bounded:
        raise ScoreRangeError(
            f'`method="{method}"` is for means of scores that all lie in [0, 1]; this is {estimate.about.model} of '
            f'{estimate.about.outcome!r}, which is not. Use method="wald".'
        )
    chosen = method or (estimate.about.interval if estimate.bounded else "wald")
    theta, variance, critical = np.array(estimate.params), cov.variance(), cov.critical(alpha=alpha)
    se = np.sqrt(variance)
    if method is None and estimate.inversion is not None:
        found = estimate.inversion.limits(se, critical)
        found[~(se > 0)] = np.nan
        return found
    half = critical * se
    limits = np.column_stack([theta - half, theta + half])
    limits[~(se > 0)] = np.nan
    if not estimate.bounded:
        return limits
    if chosen in ("logit", "widened"):
        limits[se > 0] = on_logit_scale(estimate, cov, se > 0, critical[se > 0], widen=chosen == "widened")
    for rows, rule in ((se == 0, "clopper-pearson"), (se > 0, chosen)):
        if rows.any() and rule not in ("wald", "logit", "widened"):
            trials = effective_trials(estimate, cov, alpha, variance)[rows]
            limits[rows] = proportion_interval(theta[rows], trials, alpha, rule)
    return limits


def on_logit_scale(
    estimate: Estimate, cov: Covariance, rows: BoolArray, critical: FloatArray, *, widen: bool | None = None
) -> FloatArray:
    """Intervals of means in [0, 1] on the logit scale, widened where successes or failures are few.

    Parameters
    ----------
    estimate : Estimate
        Means of scores in [0, 1].
    cov : Covariance
        Their covariance.
    rows : ndarray of bool, shape (n_params,)
        The parameters asked for; their variances are positive.
    critical : ndarray, shape (m,)
        Critical value of each of them.
    widen : bool, optional
        Whether the interval also holds Jeffreys' where fewer than five successes or failures are effective (Clopper and
        Pearson's for independent 0/1 scores, whose number need not be estimated); by default as the estimate says.

    Returns
    -------
    ndarray, shape (m, 2)
        Inside [0, 1]. A mean that is 0 or 1 but for rounding has no logit; its interval is Clopper and Pearson's on the
        effective number of clusters.

    References
    ----------
    Korn and Graubard (1998), Survey Methodology 24, 193-201; Brown, Cai and DasGupta (2001), Statistical Science 16(2).
    """
    mean, se = np.array(estimate.params)[rows], np.sqrt(cov.variance())[rows]
    inside = (mean > 0) & (mean < 1)
    limits = np.full((mean.size, 2), np.nan)
    limits[inside] = logit_interval(mean[inside], se[inside], critical[inside])
    widen = estimate.about.interval == "widened" if widen is None else widen
    if not widen and inside.all():
        return limits
    distance, level = np.zeros(estimate.n_params), np.full(estimate.n_params, 0.5)
    distance[rows] = critical * se
    alpha = cov.pvalues(None, distance)[rows]
    level[rows] = alpha
    few, variance = few_effective(estimate, cov) if widen else (np.zeros(estimate.n_params, dtype=bool), cov.variance())
    trials = effective_trials(estimate, cov, level, variance)[rows]
    few, exact = few[rows], few[rows] & counted(estimate, cov)[rows]
    for wanted, rule in ((~inside | exact, "clopper-pearson"), (inside & few & ~exact, "jeffreys")):
        if wanted.any():
            found = proportion_interval(mean[wanted], trials[wanted], alpha[wanted], rule)
            low, high = np.fmin(limits[wanted, 0], found[:, 0]), np.fmax(limits[wanted, 1], found[:, 1])
            limits[wanted] = np.column_stack([low, high])
    return limits


def few_effective(estimate: Estimate, cov: Covariance) -> tuple[BoolArray, FloatArray]:
    """Parameters whose default interval is widened, because few successes or failures are effective.

    Parameters
    ----------
    estimate : Estimate
        Of any kind.
    cov : Covariance
        Of its parameters.

    Returns
    -------
    few : ndarray of bool, shape (n_params,)
        Where n* min(p, 1 - p) < 5 with n* = min(n, p (1 - p)/V). Parameters without a positive variance are not among
        them.
    variance : ndarray, shape (n_params,)
        V: the larger of the variance in use and of that which the intraclass correlation and the sizes of clusters
        imply; the variance in use where no parameter is among the few.
    """
    variance = cov.variance()
    if not estimate.bounded or estimate.about.interval != "widened":
        return np.zeros(estimate.n_params, dtype=bool), variance
    mean = np.array(estimate.params)

    def few(larger: FloatArray) -> BoolArray:
        trials = effective_trials(estimate, cov, None, larger)
        return np.asarray((variance > 0) & (trials * np.minimum(mean, 1 - mean) < FEW_EFFECTIVE))

    # Most logs are settled without a pass over their clusters.
    possible = few(np.fmax(variance, exchangeable_limit(estimate, cov)))
    if not possible.any():
        return possible, variance
    larger = np.fmax(variance, exchangeable_variance(estimate, cov))
    return few(larger), larger


def effective_trials(
    estimate: Estimate, cov: Covariance, alpha: float | FloatArray | None, variance: FloatArray
) -> FloatArray:
    """Effective number of 0/1 trials behind each mean; their number itself for independent 0/1 scores.

    Parameters
    ----------
    estimate : Estimate
        Of means.
    cov : Covariance
        Of its parameters, for degrees of freedom and clusterings.
    alpha : float, ndarray or None
        Level, for the t correction; None leaves it out.
    variance : ndarray, shape (n_params,)
        Of the means.

    Returns
    -------
    ndarray, shape (n_params,)
        As in `proportions.effective_n`.

    Raises
    ------
    NotAvailableError
        If the estimate is not made of cells.
    """
    cells, A = estimate.cells, estimate.coefficient_map
    if cells is None or A is None:
        raise NotAvailableError("a proportion's interval needs means of cells.")
    n = np.asarray((A != 0) @ cells.count, dtype=float)
    mean = np.array(estimate.params)
    degenerate = (mean <= 0) | (mean >= 1) | ~(variance > 0)
    # A pass over the cells of every axis, which few logs need.
    clusters = effective_clusters(estimate, cov.axes) if degenerate.any() else np.ones(mean.size)
    level = 0.5 if alpha is None else alpha
    critical = t_quantile(level, np.maximum(n - 1, 1)) if alpha is None else cov.critical(alpha=level)
    korn = effective_n(mean, variance, n, critical, clusters, level)
    return np.where(counted(estimate, cov), n, korn)


def counted(estimate: Estimate, cov: Covariance) -> BoolArray:
    """Means of independent 0/1 scores, whose rows are the trials and need not be estimated.

    Parameters
    ----------
    estimate : Estimate
        Of means.
    cov : Covariance
        Of its parameters.

    Returns
    -------
    ndarray of bool, shape (n_params,)
        False everywhere where there are clusters.
    """
    cells, A = estimate.cells, estimate.coefficient_map
    if cells is None or A is None or cov.axes:
        return np.zeros(estimate.n_params, dtype=bool)
    binary = np.isclose(cells.squares, cells.weight * cells.mean * (1 - cells.mean), rtol=1e-9, atol=1e-12)
    plain = bool(binary.all()) and np.array_equal(cells.count, cells.weight)
    single: BoolArray = np.asarray((A != 0).sum(axis=1)).ravel() == 1
    return single & plain
