"""From a pilot to the number of questions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import scipy

from evalreg.checks import fraction
from evalreg.errors import ArgumentError
from evalreg.numerics.student import t_quantile
from evalreg.planning.checked_numbers import checked_delta
from evalreg.planning.few_power import STEPS
from evalreg.planning.pilot_facts import Pilot, of_components, pilot_of
from evalreg.planning.t_power import REACHED, ROUNDING, fewest, normal_units, pilot_errors, pilot_power, pilot_shift
from evalreg.scores.score_interval import NullVariance

PLAN = ("variance", "n_eq9", "n", "n_clusters", "cluster_size", "mde")


def from_pilot(
    pilot: Any,
    *,
    delta: float,
    k_a: float | None = None,
    k_b: float | None = None,
    corrected: bool = True,
    assurance: float | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
) -> pd.DataFrame:
    """Number of questions that a pilot says a comparison needs, plain and clustered.

    Parameters
    ----------
    pilot : DataFrame or Results
        What `components` gives, or the results of one difference: a contrast of means by model, of ratios, of a
        regression. Components know the answer noise, so that other numbers of answers can be planned; a difference is
        planned with as many answers as the pilot had.
    delta : float
        True difference that should be detected, above 0.
    k_a, k_b : float, optional
        Answers of each model to each question, for components only; by default those of the pilot.
    corrected : bool, optional
        Whether to take the noise of the pilot's own answers out of omega2, True by default. False plans with
        `omega2_uncorrected` as the paper does, which counts the noise twice and errs upwards.
    assurance : float, optional
        With this probability over pilots the real power is at least `power`: the plan is made with the upper confidence
        limit of the variance. By default the real power is `power` on average over pilots of this size.
    alpha : float, optional
        Level of the two-sided test, 0.05 by default.
    power : float, optional
        Probability of detecting the difference, 0.8 by default. Above alpha.

    Returns
    -------
    pandas.DataFrame
        Rows "plain" and "clustered" ("clustered" only where the pilot has clusters of several questions), and columns

        - `variance`: variance of the difference times the number of questions, at the numbers of answers planned.
          Clustered components are multiplied by G/(G - 1), which appendix C leaves out.
        - `n_eq9`: questions by eq. 9 as printed: normal quantiles, the variance taken as known, no factor.
        - `n`, `n_clusters`: questions, and clusters of the pilot's mix of sizes, by the t test that will be made,
          allowing for the error of the pilot's variance.
        - `cluster_size`: questions of a cluster in the pilot; 1 in the row "plain".
        - `mde`: difference that the pilot's own questions would detect at these numbers of answers.

        Of results, n counts the questions that enter the difference where `item` named them, and otherwise the rows
        that enter it: comparisons on a board, two rows a question in a regression on models. Without `item`, "plain" is
        the naive covariance, which takes rows as independent and so does not pair the models.

    Raises
    ------
    ArgumentError
        If a corrected omega2 is 0 or less, results have several parameters or crossed clusters, or a number is outside
        its range.
    ArgumentTypeError
        If the pilot is neither.
    NotAvailableError
        If the results are about a finite benchmark.

    Notes
    -----
    A variance from d degrees of freedom is off by a factor chi2/d. Taken as known, it gives a power that is below the
    one asked for on average: 0.74 for 0.80 from 10 clusters, 0.77 from 20. The power is therefore averaged over that
    factor, or the variance replaced by its upper limit d/chi2. d is that of Satterthwaite; for components it is G - 1,
    less where the answer noise of the pilot is most of what was seen. Clusters of unequal sizes have fewer degrees of
    freedom than G - 1, which results know and components do not: give results where sizes differ much.

    Of two models with scores in [0, 1] on the same questions, of which few differ, the test will allow for differences
    not seen, and so does the plan: with V(x) the variance that the test takes if the difference is x, the power is
    Phi((delta - t sqrt V(0))/sqrt V(delta)). The rate of questions that differ is the likeliest one at a
    difference of `delta` in the direction that the pilot shows.

    References
    ----------
    Miller (2024), arXiv:2411.00640, eq. 9 and 10, appendix C; Julious and Owen (2006), Pharmaceutical Statistics 5,
    29-37, for the average over pilots; Browne (1995), Statistics in Medicine 14, 1933-1940, for the upper limit.

    Examples
    --------
    >>> import evalreg as er
    >>> pilot = er.datasets.sampled(n_questions=400, n_samples=5, n_models=2, correlation=0.5, icc=0.2, seed=1)
    >>> found = er.plan.components(pilot, item="question", groups="passage")
    >>> print(er.plan.from_pilot(found, delta=0.05, k_a=10, k_b=10)[["n_eq9", "n", "n_clusters"]].to_string())
               n_eq9    n  n_clusters
    plain        340  344         344
    clustered    402  435          87
    >>> print(er.plan.from_pilot(found, delta=0.05, k_a=10, k_b=10, assurance=0.9)[["n", "n_clusters"]].to_string())
                 n  n_clusters
    plain      387         387
    clustered  550         110
    """
    delta = checked_delta(delta)
    if assurance is not None:
        fraction("assurance", assurance)
    if isinstance(pilot, pd.DataFrame):
        rows = of_components(pilot, k_a, k_b, corrected)
    else:
        if k_a is not None or k_b is not None or not corrected:
            raise ArgumentError(
                "`k_a`, `k_b` and `corrected` need variance components, which tell answer noise from the rest; pass "
                "what `er.plan.components` gives of the pilot's single answers."
            )
        rows = pilot_of(pilot)
    table = {name: _plan(found, delta, assurance, alpha, power) for name, found in rows.items()}
    return pd.DataFrame.from_dict(table, orient="index", columns=list(PLAN)).astype(
        {"n_eq9": int, "n": int, "n_clusters": int}
    )


def _plan(pilot: Pilot, delta: float, assurance: float | None, alpha: float, power: float) -> list[float]:
    """One row of the table of plans."""
    needed, units = enough_units(pilot, delta, assurance, alpha, power)
    if pilot.few is not None:
        larger = _error(pilot, assurance)[1]
        variance = float(_expected(pilot.few, delta, larger).seen[0]) * pilot.n
        eq9 = normal_units(variance / larger, delta, alpha, power)
        return [variance, eq9, needed, units, pilot.size, detected(pilot, assurance, alpha, power)]
    eq9 = normal_units(pilot.published, delta, alpha, power)
    return [pilot.variance, eq9, needed, units, pilot.size, detected(pilot, assurance, alpha, power)]


def enough_units(pilot: Pilot, delta: float, assurance: float | None, alpha: float, power: float) -> tuple[int, int]:
    """Questions, and clusters of them, at which the power is reached."""
    larger = _error(pilot, assurance)[1]
    variance = pilot.variance * larger
    if pilot.few is not None:
        variance = float(_expected(pilot.few, delta, larger).seen[0]) * pilot.n
    least = max(2, normal_units(variance / pilot.size, delta, alpha, power))
    units = fewest(lambda units: power_at(pilot, units, delta, assurance, alpha) >= power - REACHED, least)
    return math.ceil(units * pilot.size * (1 - ROUNDING)), units


def detected(pilot: Pilot, assurance: float | None, alpha: float, power: float) -> float:
    """The difference that the pilot's own clusters detect."""
    if pilot.few is not None:
        return _least_difference(
            lambda difference: power_at(pilot, pilot.n_clusters, difference, assurance, alpha) >= power
        )
    spread, larger = _error(pilot, assurance)
    each = pilot.variance * larger / pilot.size
    return pilot_shift(pilot.dof, alpha, power, spread) * math.sqrt(each / pilot.n_clusters)


def power_at(pilot: Pilot, units: float, delta: float, assurance: float | None, alpha: float) -> float:
    """Power of the test on so many clusters, averaged over the error of the pilot's variance, or at its upper limit."""
    spread, larger = _error(pilot, assurance)
    if pilot.few is None:
        each = pilot.variance * larger / pilot.size
        return pilot_power(delta / math.sqrt(each / units), pilot.dof_at(units), alpha, spread)
    expected = _expected(pilot.few, delta, larger).grown(units / pilot.n_clusters)
    return _few_power(expected, pilot.dof_at(units), alpha, spread)


def _error(pilot: Pilot, assurance: float | None) -> tuple[float, float]:
    """Degrees of freedom of the variance that is planned with, and what multiplies that of the pilot."""
    spread = pilot.variance_dof
    if assurance is None:
        return spread, 1.0
    # The limit is on the safe side as it is; otherwise the power is averaged over the error of the variance.
    return np.inf, spread / _chi2(1 - assurance, spread)


def _expected(null: NullVariance, delta: float, larger: float) -> NullVariance:
    """What is expected at a true difference, its variance times the error that the pilot's may have."""
    found = null.if_true(delta)
    return replace(found, seen=found.seen * larger, base=found.base * larger)


def _few_power(expected: NullVariance, dof: float, alpha: float, pilot_dof: float) -> float:
    """Phi((theta - t sqrt(V_0))/sqrt(V_theta)) of the test of no difference, averaged over the error of the pilot."""
    theta, tested, true = (float(x[0]) for x in (expected.theta, expected.at(0.0), expected.seen))
    critical = float(t_quantile(alpha, np.array([dof]))[0])
    errors, weights = pilot_errors(pilot_dof)
    # A difference of 1 has no variance: it is found for sure, or never.
    sd = math.sqrt(max(true, float(np.finfo(float).tiny)))
    return float(weights @ scipy.special.ndtr((theta * errors - critical * math.sqrt(tested)) / sd))


def _least_difference(enough: Callable[[float], bool]) -> float:
    """The smallest difference that is enough; NaN where none is."""
    low, high = 0.0, 1 - REACHED
    if not enough(high):
        return math.nan
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if middle > REACHED and enough(middle) else (middle, high)
    return high


def _chi2(share: float, dof: float) -> float:
    """Quantile of a chi2 distribution."""
    return float(2 * scipy.special.gammaincinv(dof / 2, share))
