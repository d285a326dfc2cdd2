"""Intervals of rectified means in [0, 1]: on the logit scale, or by the human labels where failures are few."""

from __future__ import annotations

import numpy as np

from evalreg.checks import BoolArray, FloatArray
from evalreg.covariance.assembly import assemble
from evalreg.covariance.covariance import Covariance
from evalreg.errors import TooFewClustersError
from evalreg.estimate import Estimate
from evalreg.estimate.behind import effective_clusters
from evalreg.inference.dependence import exchangeable_variance
from evalreg.inference.labelled import labelled_means
from evalreg.inference.widening import n_rows, scatter, too_few, trusted
from evalreg.numerics.proportions import logit_interval, proportion_interval, t_quantile

# Any critical value for the number of trials that says what is few.
PLAIN = 0.05


def rectified_limits(estimate: Estimate, cov: Covariance, alpha: FloatArray, critical: FloatArray) -> FloatArray:
    """Intervals of rectified means of labels in [0, 1], inside [0, 1]. Shapes: alpha, critical (n_params,).

    On the logit scale. Where fewer than five successes or failures are effective among the human labels, Jeffreys'
    about the estimate on as many trials as the labels alone are worth; Clopper and Pearson's where the estimate is not
    between 0 and 1, or has no variance. Korn and Graubard (1998), Survey Methodology 24, 193-201; Brown, Cai and
    DasGupta (2001), Statistical Science 16(2).
    """
    mean, se = np.array(estimate.params), np.sqrt(cov.variance())
    trials, few = label_trials(estimate, cov, alpha, critical), few_labels(estimate, cov)
    inside = (mean > 0) & (mean < 1) & (se > 0)
    limits = np.full((mean.size, 2), np.nan)
    scaled = inside & ~few
    limits[scaled] = logit_interval(mean[scaled], se[scaled], critical[scaled])
    for at, rule in ((inside & few, "jeffreys"), (~inside & ~np.isnan(se), "clopper-pearson")):
        limits[at] = proportion_interval(mean[at], trials[at], alpha[at], rule)
    return limits


def few_labels(estimate: Estimate, cov: Covariance) -> BoolArray:
    """Rectified means with fewer than five effective successes or failures among the labels, shape (n_params,)."""
    level, mean = np.full(estimate.n_params, PLAIN), np.array(estimate.params)
    plain = t_quantile(PLAIN, np.maximum(n_rows(labelled_means(estimate, ())) - 1, 1))
    trials = label_trials(estimate, cov, level, plain)
    return too_few(trials * np.minimum(mean, 1 - mean))


def label_trials(estimate: Estimate, cov: Covariance, alpha: FloatArray, critical: FloatArray) -> FloatArray:
    """Trials that the human labels alone are worth, shape (n_params,): as `widening` counts those of a mean."""
    alone = labelled_means(estimate, cov.axes)
    effective = effective_clusters(alone, cov.axes)
    try:
        own = assemble(alone, cov.axes, cov.options)
    except TooFewClustersError:
        return effective
    mean, variance, n = np.array(alone.params), own.variance(), n_rows(alone)
    known = (variance > 0) & (mean > 0) & (mean < 1)
    larger = np.where(known, np.fmax(variance, exchangeable_variance(alone, own)), 1.0)
    p = np.where(known, mean, 0.5)
    s2 = np.where(known, scatter(alone), 1.0)
    ratio = (t_quantile(alpha, np.maximum(n - 1, 1)) / critical) ** 2
    trust = trusted(alone, cov.axes, np.minimum(p, 1 - p)[None], s2)[0]
    by_variance = ratio * p * (1 - p) / larger
    by_rows = np.minimum(n * p * (1 - p) / s2, by_variance)
    return np.where(known, np.minimum(n, by_variance) ** (1 - trust) * by_rows**trust, effective)
