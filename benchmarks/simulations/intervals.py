"""Intervals from estimates, variances and degrees of freedom, under the names that the tables use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from benchmarks.simulations.formulas import CrossedFit, Fit, summed_dof, t_quantile
from benchmarks.simulations.score import Rows, Terms, score_limits
from benchmarks.simulations.worlds import FloatArray

LEVEL = 0.05
LEVELS = (0.01, LEVEL, 0.1)
NO_VARIANCE = 1e-14
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
_ROWS = (lambda fit: fit.variance["rows"], lambda fit: float(fit.n_rows - fit.n_coefficients))

WALD = {
    "CR1 t(G-1)": Named({"cov": "CR1"}, "wald", *_one_way("CR0", factor=True)),
    "CR3 Satt.": Named({"cov": "CR3", "dof": "satterthwaite"}, "wald", *_one_way("CR3", satterthwaite=True)),
    "rows independent": Named({"groups": None}, "wald", *_ROWS),
}
BY_NAME = {
    "CR2 Wald": Named({}, "wald", *_CR2),
    "CR2 logit": Named({}, "logit", *_CR2),
    "Wilson": Named({}, "wilson", *_CR2),
    "Clopper-Pearson": Named({}, "clopper-pearson", *_CR2),
}
BOUNDED = {DEFAULT: Named({}, None, *_CR2), **WALD, **BY_NAME}
UNBOUNDED = {DEFAULT: Named({}, None, *_CR2), **WALD}


def one_way_bounds(fit: Fit, *, bounded: bool) -> dict[str, Bounds]:
    """Intervals of every method that the package offers for an estimate under one clustering."""
    result = {}
    for name, method in (BOUNDED if bounded else UNBOUNDED).items():
        variance, dof = settled(method.variance(fit), fit.variance["rows"]), method.dof(fit)
        effective = fit.effective if "groups" not in method.options else fit.n_rows
        if bounded and method.interval is None:
            assert fit.rows is not None
            result[name] = one_way_score(fit.rows, variance, float(dof))
        else:
            kind = method.interval or "wald"
            result[name] = interval(kind, fit.estimate, variance, dof, fit.n_rows, effective, bounded=bounded)
    return result


def one_way_score(rows: Rows, variance: FloatArray, dof: float) -> Bounds:
    """The score interval under one clustering, by one t."""

    def terms(level: float) -> Terms:
        return Terms(variance[None], t_quantile(level, np.array([dof])) ** 2, np.ones((1, 1)), variance)

    return with_tests(lambda level: Bounds(*score_limits(rows, terms(level))))


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
    *,
    bounded: bool,
    level: float = LEVEL,
) -> Bounds:
    """The interval by its name; without a variance Clopper-Pearson on the effective clusters, or none."""
    positive = variance > 0
    some, se = np.where(positive, variance, 1.0), None
    known = positive & (estimate > 0) & (estimate < 1)
    if kind in SCALES:
        found = SCALES[kind](estimate, some, dof, level)
        se = np.where(positive, found.se, np.nan)
    else:
        ratio = (t_quantile(level, n_rows - 1) / t_quantile(level, dof)) ** 2
        trials = np.where(known, np.minimum(n_rows, estimate * (1 - estimate) / some * ratio), effective)
        found = (wilson if kind == "wilson" else clopper_pearson)(estimate, trials)
    instead = clopper_pearson(estimate, effective, level) if bounded else Bounds(*np.full((2, estimate.size), np.nan))
    rule = np.where(positive, found.low, instead.low), np.where(positive, found.high, instead.high)
    return Bounds(*rule, se, found.dof)


def with_tests(of: Callable[[float], Bounds]) -> Bounds:
    """An interval, and those at the levels of tests, which go by it."""
    others = {level: of(level) for level in LEVELS}
    return replace(others[LEVEL], at={level: (one.low, one.high) for level, one in others.items()})


def one_way_peers(fit: Fit) -> dict[str, Bounds]:
    """Intervals as other packages make them by default, degenerate ones included.

    statsmodels (and Inspect's clustered `stderr` with 1.96, for a mean): CR1 with the normal quantile. pyfixest (and
    Inspect's clustered `ci`, for a mean): CR1 with t(G - 1). linearmodels' OLS: CR0 with the normal quantile. Miller's
    equation 1 and Inspect without a cluster: independent rows, 1.96.
    """
    clusters, estimate = fit.variance["CR0"], fit.estimate
    peers = {
        "statsmodels": wald(estimate, clusters * fit.stata, np.inf),
        "pyfixest": wald(estimate, clusters * fit.stata, fit.n_clusters - 1),
        "linearmodels": wald(estimate, clusters, np.inf),
    }
    if fit.n_coefficients == 1:
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
    "prompts only": Named({"groups": "prompt"}, None, lambda fit: fit.adjusted[0], _own(0)),
    "rows independent": Named({"groups": None}, None, lambda fit: fit.rows, _own(2)),
}


def _crossed_terms(name: str, fit: CrossedFit, variance: FloatArray, groups: str | None, level: float) -> Terms:
    """What a score interval of a mean under two clusterings is made of; the axis with most clusters grows."""
    method, of = CROSSED[name], {"prompt": 0, "judge": 1, None: 2}[groups]
    seen = settled(fit.adjusted[of], fit.rows)
    repair = "max" if name == DEFAULT else method.options.get("repair")
    if repair not in ("max", "two-term", "eigen"):
        dof = np.array([float(np.ravel(method.dof(fit, level))[0])])
        return Terms(variance[None], t_quantile(level, dof) ** 2, np.ones((1, 1)), seen)
    terms, t2 = fit.adjusted.copy(), t_quantile(level, np.array(fit.dof)) ** 2
    signs = np.array([[1.0, 1, -1], [1, 0, 0], [0, 1, 0]] if repair == "max" else [[1.0, 1, 0]])
    if repair == "eigen":
        axes = terms[0] + terms[1]
        terms = terms * np.where((axes > 0) & (variance > 0), variance / np.where(axes > 0, axes, 1.0), 1.0)
    return Terms(terms, t2, signs, seen, of)


def crossed_bounds(fit: CrossedFit, *, bounded: bool) -> dict[str, Bounds]:
    """Intervals of every method that the package offers for a mean under two clusterings."""
    result = {}
    for name, method in CROSSED.items():
        variance = settled(method.variance(fit), fit.rows)
        # Crossed, a variance that is not positive is unknown, and not zero.
        crossed = "groups" not in method.options
        groups = method.options.get("groups", ("prompt", "judge")[int(np.argmax(fit.counts[:2]))])

        def at(level: float, name: str = name, V: FloatArray = variance, groups: str | None = groups) -> Bounds:
            if bounded:
                return Bounds(*score_limits(fit.units[groups], _crossed_terms(name, fit, V, groups, level)))
            dof = CROSSED[name].dof(fit, level)
            return interval("wald", fit.estimate, V, dof, fit.counts[2], 0.0, bounded=False, level=level)

        found = with_tests(at) if bounded or crossed else at(LEVEL)
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
    return {
        "statsmodels": wald(fit.estimate, _three_terms_cr1(fit), np.inf),
        "pyfixest": wald(fit.estimate, plain * smallest / (smallest - 1), smallest - 1),
        "linearmodels": wald(fit.estimate, plain, np.inf),
    }
