"""Intervals from estimates, variances and degrees of freedom, under the names that the tables use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import special

from benchmarks.coverage.formulas import CrossedFit, Fit, Spread, combined_dof, summed_dof, t_quantile
from benchmarks.coverage.worlds import FloatArray

LEVEL = 0.05
LEVELS = (0.01, LEVEL, 0.1)
NO_VARIANCE = 1e-14
FEW = 5.0
DEFAULT = "default"


@dataclass(frozen=True, eq=False)
class Bounds:
    """Intervals of one method in many logs.

    Parameters
    ----------
    low, high : ndarray, shape (n_logs,)
        NaN where the method gives none.
    se, dof : ndarray, shape (n_logs,), optional
        Of the t test that goes with it; absent where there is none.
    at : mapping of float to (ndarray, ndarray), optional
        Intervals at other levels, where the test goes by the interval; NaN where there is no test.
    """

    low: FloatArray
    high: FloatArray
    se: FloatArray | None = None
    dof: FloatArray | None = None
    at: Mapping[float, tuple[FloatArray, FloatArray]] | None = None


def wald(estimate: FloatArray, variance: FloatArray, dof: FloatArray | float, level: float = LEVEL) -> Bounds:
    """Estimate +- t SE, as it stands: of width zero where the variance is, and none where it is negative."""
    dof = np.broadcast_to(np.asarray(dof, dtype=np.float64), estimate.shape)
    se = np.sqrt(np.where(variance >= 0, variance, np.nan))
    half = t_quantile(level, dof) * se
    return Bounds(estimate - half, estimate + half, se, dof)


def logit(estimate: FloatArray, variance: FloatArray, dof: FloatArray | float, level: float = LEVEL) -> Bounds:
    """The interval on the logit scale, for estimates strictly between 0 and 1."""
    plain = wald(estimate, variance, dof, level)
    p = np.where((estimate > 0) & (estimate < 1), estimate, 0.5)
    assert plain.se is not None
    half = t_quantile(level, plain.dof) * plain.se / (p * (1 - p))
    return Bounds(special.expit(special.logit(p) - half), special.expit(special.logit(p) + half), plain.se, plain.dof)


def clopper_pearson(estimate: FloatArray, trials: FloatArray | float, level: float = LEVEL) -> Bounds:
    """Exact interval of a proportion of so many trials, which need not be whole."""
    wins = estimate * trials
    losses = trials - wins
    low = special.betaincinv(np.maximum(wins, 1e-300), losses + 1, level / 2)
    high = special.betaincinv(wins + 1, np.maximum(losses, 1e-300), 1 - level / 2)
    return Bounds(np.where(estimate <= 0, 0.0, low), np.where(estimate >= 1, 1.0, high))


def jeffreys(estimate: FloatArray, trials: FloatArray | float, level: float = LEVEL) -> Bounds:
    """Quantiles of Beta(successes + 1/2, failures + 1/2)."""
    wins = estimate * trials
    return Bounds(*(special.betaincinv(wins + 0.5, trials - wins + 0.5, tail) for tail in (level / 2, 1 - level / 2)))


def widened(
    estimate: FloatArray,
    variance: FloatArray,
    dof: FloatArray | float,
    larger: FloatArray,
    n_rows: int,
    effective: float,
    spread: Spread,
    level: float = LEVEL,
    *,
    counted: bool = False,
) -> Bounds:
    """The logit interval, and the smallest that holds it and Jeffreys' where successes or failures are few.

    Successes count from the lowest score seen, failures from the highest. `larger` is the variance that tells what is
    few. Rows that are `counted` are independent 0/1 scores, whose interval is Clopper and Pearson's.
    """
    plain = logit(estimate, variance, dof, level)
    low, high = plain.low, plain.high
    ratio = (t_quantile(level, n_rows - 1) / t_quantile(level, dof)) ** 2
    for from_above in (False, True):
        end = 1 - spread.high if from_above else spread.low
        distance = (1 - estimate if from_above else estimate) - end
        inside = distance > 0
        distance, reach = np.where(inside, distance, 0.5), np.where(inside, 1 - end, 1.0)
        share, trials = distance / reach, distance * (reach - distance) / larger
        uneven = spread.between / distance**2
        enough = np.clip((effective / (1 + uneven) - 5) / 5, 0, 1)
        trust = np.maximum(enough, np.clip(2 - 2 * uneven, 0, 1))
        told = np.minimum(n_rows * distance * (reach - distance) / np.maximum(spread.rows, 1e-300), ratio * trials)
        effective_trials = np.minimum(n_rows, ratio * trials) ** (1 - trust) * told**trust
        few = inside & ((n_rows if counted else np.minimum(n_rows, trials)) * share < FEW)
        exact = clopper_pearson(share, n_rows, level) if counted else jeffreys(share, effective_trials, level)
        ends = [end + reach * exact.low, end + reach * exact.high]
        lower, upper = (1 - ends[1], 1 - ends[0]) if from_above else ends
        low, high = np.where(few, np.minimum(low, lower), low), np.where(few, np.maximum(high, upper), high)
    return Bounds(low, high, plain.se, plain.dof)


def wilson(estimate: FloatArray, trials: FloatArray | float) -> Bounds:
    """Score interval of a proportion."""
    z2 = special.ndtri(1 - LEVEL / 2) ** 2
    centre = (estimate + z2 / (2 * trials)) / (1 + z2 / trials)
    half = np.sqrt(z2 / trials * (estimate * (1 - estimate) + z2 / (4 * trials))) / (1 + z2 / trials)
    return Bounds(np.clip(centre - half, 0, 1), np.clip(centre + half, 0, 1))


SCALES = {"wald": wald, "logit": logit}


@dataclass(frozen=True)
class Named:
    """A method that the package offers: how it is asked for, and the same by formula.

    Parameters
    ----------
    options : mapping
        Arguments of `Results.with_cov`; empty for the default.
    interval : str or None
        Argument of `Results.conf_int`.
    variance, dof : callable
        Of a fit.
    """

    options: Mapping[str, Any]
    interval: str | None
    variance: Callable[[Any], FloatArray]
    dof: Callable[[Any], FloatArray | float]


def _one_way(cov: str, *, satterthwaite: bool = False, factor: bool = False) -> tuple[Any, Any]:
    def variance(fit: Fit) -> FloatArray:
        return fit.variance[cov] * (fit.stata if factor else 1.0)

    return variance, lambda fit: fit.dof[cov] if satterthwaite else float(fit.n_clusters - 1)


_CR2 = _one_way("CR2", satterthwaite=True)
_CR1 = _one_way("CR0", factor=True)
_ROWS = (lambda fit: fit.variance["rows"], lambda fit: float(fit.n_rows - fit.n_coefficients))

WALD = {
    "CR2 t(G-1)": Named({"cov": "CR2", "dof": "min"}, "wald", *_one_way("CR2")),
    "CR1 t(G-1)": Named({"cov": "CR1"}, "wald", *_CR1),
    "CR0 t(G-1)": Named({"cov": "CR0"}, "wald", *_one_way("CR0")),
    "CR3 t(G-1)": Named({"cov": "CR3"}, "wald", *_one_way("CR3")),
    "CR3 Satt.": Named({"cov": "CR3", "dof": "satterthwaite"}, "wald", *_one_way("CR3", satterthwaite=True)),
    "rows independent": Named({"groups": None}, "wald", *_ROWS),
}
LOGIT = {
    "CR2 Wald": Named({}, "wald", *_CR2),
    "CR2 logit": Named({}, "logit", *_CR2),
    "CR1 t(G-1) logit": Named({"cov": "CR1"}, "logit", *_CR1),
    "CR3 t(G-1) logit": Named({"cov": "CR3"}, "logit", *_one_way("CR3")),
    "CR3 Satt. logit": Named({"cov": "CR3", "dof": "satterthwaite"}, "logit", *_one_way("CR3", satterthwaite=True)),
    "Wilson": Named({}, "wilson", *_CR2),
    "Clopper-Pearson": Named({}, "clopper-pearson", *_CR2),
}
BOUNDED = {DEFAULT: Named({}, None, *_CR2), **WALD, **LOGIT}
UNBOUNDED = {DEFAULT: Named({}, None, *_CR2), **WALD}


def one_way_bounds(fit: Fit, *, bounded: bool) -> dict[str, Bounds]:
    """Intervals of every method that the package offers for an estimate under one clustering."""
    result = {}
    for name, method in (BOUNDED if bounded else UNBOUNDED).items():
        variance, dof = settled(method.variance(fit), fit.variance["rows"]), method.dof(fit)
        kind = method.interval or ("widened" if bounded else "wald")
        clustered = "groups" not in method.options
        effective = fit.effective if clustered else fit.n_rows
        alike = fit.alike if clustered else 0 * fit.alike
        given = (kind, fit.estimate, variance, dof, fit.n_rows, effective, alike)
        result[name] = with_tests(partial(interval, *given, bounded=bounded, spread=fit.spread), kind)
    return result


def settled(variance: FloatArray, rows: FloatArray) -> FloatArray:
    """Return variances with those that are rounding set to zero."""
    return np.where(variance > NO_VARIANCE * rows, variance, 0.0)


def interval(
    kind: str,
    estimate: FloatArray,
    variance: FloatArray,
    dof: FloatArray | float,
    n_rows: int,
    effective: float,
    alike: FloatArray,
    *,
    bounded: bool,
    counted: bool = False,
    level: float = LEVEL,
    spread: Spread | None = None,
) -> Bounds:
    """The interval by its name; without a variance Clopper-Pearson on the effective clusters, or none.

    The default of a bounded mean also looks at the variance that Kish's design effect gives, `alike`, and its test goes
    by the interval. Independent 0/1 scores are `counted`: their rows are the trials. Without a `spread` scores are 0
    and 1.
    """
    positive = variance > 0
    some, se = np.where(positive, variance, 1.0), None
    known = positive & (estimate > 0) & (estimate < 1)

    def trials(variance: FloatArray, ratio: FloatArray | float) -> FloatArray:
        if counted:
            return np.where(known, float(n_rows), effective)
        return np.where(known, np.minimum(n_rows, estimate * (1 - estimate) / variance * ratio), effective)

    ratio = (t_quantile(level, n_rows - 1) / t_quantile(level, dof)) ** 2
    if kind == "widened":
        p = np.where(known, estimate, 0.5)
        binary = Spread(np.zeros(p.size), np.ones(p.size), p * (1 - p), np.zeros(p.size))
        given = np.maximum(some, alike), n_rows, effective, spread or binary
        found = widened(estimate, some, dof, *given, level, counted=counted)
    elif kind in SCALES:
        found = SCALES[kind](estimate, some, dof, level)
    else:
        found = (wilson if kind == "wilson" else clopper_pearson)(estimate, trials(some, ratio))
    if kind in ("wald", "logit", "widened"):
        se = np.where(positive, found.se, np.nan)
    instead = clopper_pearson(estimate, effective, level) if bounded else Bounds(*np.full((2, estimate.size), np.nan))
    rule = np.where(positive, found.low, instead.low), np.where(positive, found.high, instead.high)
    return Bounds(*rule, se, found.dof)


def with_tests(of: Callable[..., Bounds], kind: str) -> Bounds:
    """An interval, and where its test goes by the interval those at the levels of tests."""
    found = of()
    if kind != "widened":
        return found
    tested = ~np.isnan(found.se)
    others = {level: of(level=level) for level in LEVELS}
    at = {
        level: (np.where(tested, one.low, np.nan), np.where(tested, one.high, np.nan)) for level, one in others.items()
    }
    return replace(found, at=at)


def one_way_peers(fit: Fit) -> dict[str, Bounds]:
    """Intervals as other packages make them by default, degenerate ones included.

    statsmodels (and Inspect's clustered `stderr` with 1.96, for a mean): CR1 with the normal quantile. pyfixest (and
    Inspect's clustered `ci`, for a mean): CR1 with t(G - 1). linearmodels' OLS: CR0 with the normal quantile. Miller's
    equation 4 to the letter: CR0 plus the variance of independent rows over n. Inspect without a cluster: independent
    rows, 1.96.
    """
    clusters, estimate = fit.variance["CR0"], fit.estimate
    peers = {
        "statsmodels": wald(estimate, clusters * fit.stata, np.inf),
        "pyfixest": wald(estimate, clusters * fit.stata, fit.n_clusters - 1),
        "linearmodels": wald(estimate, clusters, np.inf),
    }
    if fit.n_coefficients == 1:
        peers["Miller eq. 4"] = wald(estimate, clusters + fit.variance["rows"] / fit.n_rows, np.inf)
        peers["Miller eq. 1"] = wald(estimate, fit.variance["rows"], np.inf)
    return peers


def _max(fit: CrossedFit) -> FloatArray:
    return np.maximum(_three_terms(fit), fit.adjusted[:2].max(axis=0))


def _three_terms(fit: CrossedFit) -> FloatArray:
    return fit.adjusted[0] + fit.adjusted[1] - fit.adjusted[2]


def _three_terms_cr1(fit: CrossedFit) -> FloatArray:
    factor = np.array([count / (count - 1) for count in fit.counts])[:, None]
    pieces = factor * fit.plain
    return pieces[0] + pieces[1] - pieces[2]


def _two_terms(fit: CrossedFit) -> FloatArray:
    return fit.adjusted[0] + fit.adjusted[1]


def _smallest(fit: CrossedFit, level: float = LEVEL) -> float:
    return float(fit.smallest - 1)


def _summed(variance: Callable[[CrossedFit], FloatArray], repair: str) -> Callable[..., FloatArray]:
    return lambda fit, level=LEVEL: summed_dof(settled(variance(fit), fit.rows), fit, repair, level)


def _own(piece: int) -> Callable[..., float]:
    return lambda fit, level=LEVEL: fit.dof[piece]


_ALONE = {"cov": "CR2"}
CROSSED = {
    DEFAULT: Named({}, None, _max, _summed(_max, "max")),
    "max, t(min G-1)": Named({"dof": "min"}, None, _max, _smallest),
    "two-term": Named({"cov": "CR2", "repair": "two-term"}, None, _two_terms, _summed(_two_terms, "two-term")),
    "eigen": Named({"cov": "CR2", "repair": "eigen"}, None, _three_terms, _summed(_three_terms, "eigen")),
    "CR1 t(min G-1)": Named({"cov": "CR1", "repair": "none"}, None, _three_terms_cr1, _smallest),
    "prompts only": Named({"groups": "prompt"}, None, lambda fit: fit.adjusted[0], _own(0)),
    "judges only": Named({"groups": "judge"}, None, lambda fit: fit.adjusted[1], _own(1)),
    "rows independent": Named({"groups": None}, None, lambda fit: fit.rows, _own(2)),
}


def _at_level(dof: Callable[..., Any], fit: CrossedFit, *, level: float = LEVEL, **given: Any) -> Bounds:
    """The interval at a level, with the degrees of freedom at that level."""
    return interval(dof=dof(fit, level), level=level, **given)


def crossed_bounds(fit: CrossedFit, *, bounded: bool) -> dict[str, Bounds]:
    """Intervals of every method that the package offers for a mean under two clusterings."""
    result = {}
    for name, method in CROSSED.items():
        variance = settled(method.variance(fit), fit.rows)
        # Crossed, a variance that is not positive is unknown, and not zero.
        crossed = "groups" not in method.options
        kind = method.interval or ("widened" if bounded else "wald")
        groups = method.options.get("groups", "both")
        effective, alike, n, counted = fit.effective[groups], fit.alike[groups], fit.counts[2], groups is None
        scores = {"n_rows": n, "effective": effective, "alike": alike, "bounded": bounded, "counted": counted}
        at = partial(_at_level, method.dof, fit, kind=kind, estimate=fit.estimate, variance=variance, **scores)
        # The t of a crossed test depends on the level, so that each level has its interval.
        found = with_tests(at, "widened" if crossed else kind)
        unknown = crossed & (variance <= 0) & (fit.rows > 0)
        low, high = np.where(unknown, np.nan, found.low), np.where(unknown, np.nan, found.high)
        result[name] = replace(found, low=low, high=high)
    return result


def crossed_peers(fit: CrossedFit) -> dict[str, Bounds]:
    """Two-way intervals as other packages make them by default.

    statsmodels: each piece its own G/(G - 1), normal quantile. pyfixest: one factor from the smaller G, t(min G - 1).
    linearmodels' OLS: no factor, normal quantile.
    """
    smallest = fit.smallest
    plain = fit.plain[0] + fit.plain[1] - fit.plain[2]
    largest = fit.adjusted[:2].max(axis=0)
    return {
        # What stood before the sum of t^2 V.
        "max, one pooled dof": wald(fit.estimate, _max(fit), combined_dof(largest, fit)),
        "statsmodels": wald(fit.estimate, _three_terms_cr1(fit), np.inf),
        "pyfixest": wald(fit.estimate, plain * smallest / (smallest - 1), smallest - 1),
        "linearmodels": wald(fit.estimate, plain, np.inf),
    }
