"""Averages over independent estimates: with stated weights, or as a sample from a population of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalreg.checks import FloatArray

# Halvings of the bracket of tau^2: far below rounding.
HALVINGS = 60


@dataclass(frozen=True, eq=False)
class Averaged:
    """Averages of k estimates of each of p effects; arrays of shape (p,)."""

    estimate: FloatArray
    se: FloatArray
    dof: FloatArray
    # Of effects drawn from a population: the spread of the true ones, and the standard error of a new one. NaN else.
    tau: FloatArray
    new_se: FloatArray


def weighted(theta: FloatArray, se: FloatArray, dof: FloatArray, weights: FloatArray) -> Averaged:
    """Sum w_j theta_j of independent estimates; shapes (k, p), weights (k,).

    Degrees of freedom by Welch and Satterthwaite: V^2/sum (w_j^2 V_j)^2/dof_j. Satterthwaite (1946), Biometrics
    Bulletin 2(6), 110-114.
    """
    parts = weights[:, None] ** 2 * se**2
    variance = parts.sum(axis=0)
    spread = (parts**2 / dof).sum(axis=0)
    own = np.divide(variance**2, spread, out=np.full_like(variance, np.inf), where=spread > 0)
    unknown = np.full_like(variance, np.nan)
    return Averaged(weights @ theta, np.sqrt(variance), own, unknown, unknown)


def drawn_alike(theta: FloatArray, se: FloatArray) -> Averaged:
    """Mean of the population from which k effects were drawn, all counted alike; shapes (k, p), k >= 2.

    The spread of the k estimates holds their own errors and the effects', so that mean +- t(k - 1) sd/sqrt(k) needs
    neither (Student 1908, Biometrika 6, 1-25). It is never below the error of these k alone. A new one varies by
    sd^2 about the mean, errors of such a size included. tau^2 is the sample variance less the mean squared error.
    """
    k, spread, own = theta.shape[0], theta.var(axis=0, ddof=1), (se**2).mean(axis=0)
    tau = np.sqrt(np.maximum(spread - own, 0.0))
    widest = np.maximum(spread, own)
    dof = np.full(spread.size, k - 1.0)
    return Averaged(theta.mean(axis=0), np.sqrt(widest / k), dof, tau, np.sqrt(widest * (1 + 1 / k)))


def drawn(theta: FloatArray, se: FloatArray) -> Averaged:
    """Mean of the population from which k effects were drawn; shapes (k, p), k >= 2, se > 0.

    tau^2 by Paule and Mandel: sum (y - mu)^2/(v + tau^2) = k - 1, 0 where that has no root. The variance of Hartung and
    Knapp with t(k - 1), never below 1/sum of weights. Paule and Mandel (1982), J. Res. Natl. Bur. Stand. 87, 377-385;
    Knapp and Hartung (2003), Statistics in Medicine 22, 2693-2710; Roever, Knapp and Friede (2015), BMC Medical
    Research Methodology 15:99. The interval of a new one has tau^2 + Var(mean) and the same t, as R's metafor; Higgins,
    Thompson and Spiegelhalter (2009), JRSS A 172, 137-159, take k - 2.
    """
    k, v = theta.shape[0], se**2
    # At the sample variance the sum is at most k - 1, so that the root lies below.
    low, high = np.zeros(theta.shape[1]), theta.var(axis=0, ddof=1)
    homogeneous = _excess(theta, v, low) <= 0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        above = _excess(theta, v, middle) > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    tau2 = np.where(homogeneous, 0.0, (low + high) / 2)
    w = 1 / (v + tau2)
    mean = (w * theta).sum(axis=0) / w.sum(axis=0)
    ratio = (w * (theta - mean) ** 2).sum(axis=0) / (k - 1)
    variance = np.maximum(ratio, 1.0) / w.sum(axis=0)
    dof = np.full(mean.size, k - 1.0)
    return Averaged(mean, np.sqrt(variance), dof, np.sqrt(tau2), np.sqrt(tau2 + variance))


def _excess(theta: FloatArray, v: FloatArray, tau2: FloatArray) -> FloatArray:
    """Cochran's Q with weights 1/(v + tau^2), less its expectation."""
    w = 1 / (v + tau2)
    mean = (w * theta).sum(axis=0) / w.sum(axis=0)
    excess: FloatArray = (w * (theta - mean) ** 2).sum(axis=0) - (theta.shape[0] - 1)
    return excess
