"""Intervals of parameters, and their tests against a value or a margin: a test keeps what the interval holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from weakref import ref

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, Names, checked_number, fraction, option, passed
from evalreg.choices import IntervalName
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.crossed import USUAL_LEVEL, t_quantile
from evalreg.covariance.proportions import logit_interval, logit_statistic, proportion_interval
from evalreg.covariance.terms import assemble
from evalreg.errors import ArgumentError, NotAvailableError, ScoreRangeError
from evalreg.estimate import PLAIN, Estimate, Family, effective_clusters, selects
from evalreg.inference.rectification import human_labels, labelled_means
from evalreg.inference.wald import Contrasts, JointTest, joint_by_rule, parse_contrasts, with_notes
from evalreg.numerics.matrices import Matrix, compressed, dense, nonzero_entries, signs_of_entries, without_zeros
from evalreg.numerics.roots import levels
from evalreg.scores.rows import RowScores
from evalreg.scores.score_interval import ICC_MEAN, SingleMeans

if TYPE_CHECKING:
    from statsmodels.stats.contrast import ContrastResults


def intervals(estimate: Estimate, cov: Covariance, alpha: float, method: str | None) -> FloatArray:
    """Confidence limits of the parameters, (n_params, 2).

    By default score intervals of means in [0, 1], of win rates, and of differences of two means; of rectified means, F1
    and AUC on the logit scale (Korn and Graubard 1998), at 0 and 1 Clopper and Pearson's on the effective clusters;
    estimate +- t times the standard error of everything else.
    """
    fraction("alpha", alpha)
    if method is not None:
        option("method", method, IntervalName)
    if method not in (None, "wald") and not estimate.bounded:
        raise ScoreRangeError(
            f"`{passed(method=method)}` is for means of scores that all lie in [0, 1]; this is {estimate.about.model} "
            f"of {estimate.about.outcome!r}, which is not. Use {passed(method='wald')}."
        )
    return _once(estimate, cov, (float(alpha), method), lambda: _ends(estimate, cov, alpha, method))


def _once(estimate: Estimate, cov: Covariance, name: Any, make: Callable[[], FloatArray]) -> FloatArray:
    """A copy of what tables, figures and files of one estimate under one covariance ask for again and again."""
    # A covariance that is kept alone keeps no estimate and its rows.
    held: tuple[ref[Estimate], dict[Any, FloatArray]] | None = cov.cache.get("statements")
    if held is None or held[0]() is not estimate:
        held = cov.cache["statements"] = (ref(estimate), {})
    if name not in held[1]:
        held[1][name] = make()
    return held[1][name].copy()


def _ends(estimate: Estimate, cov: Covariance, alpha: float | FloatArray, method: str | None) -> FloatArray:
    """Confidence limits of the parameters, (n_params, 2), at one level or each at its own."""
    family_ends = estimate.family.ends(estimate, cov, alpha) if method is None else None
    if family_ends is not None:
        return family_ends
    theta, variance = np.array(estimate.params), cov.variance()
    se, critical = np.sqrt(variance), cov.critical(alpha=alpha)
    if method is None:
        limits = cov.limits(theta, None, alpha)
    else:
        half = np.where(se > 0, critical * se, np.nan)
        limits = np.column_stack([theta - half, theta + half])
    if not estimate.bounded:
        return limits
    rule = method or estimate.about.interval
    level = np.full(theta.shape, alpha)
    rest = np.ones(theta.size, dtype=bool)
    if method is None and (scored := cov.widths().scored) is not None:
        rest[scored.rows] = False
    known = rest & (se > 0)
    inside = known & (theta > 0) & (theta < 1)
    if rule == "logit" and inside.any():
        limits[inside] = logit_interval(theta[inside], se[inside], critical[inside])
        known &= ~inside
    # Without a variance, or a logit, the bounds of the scores give an interval.
    for at, named in ((rest & (se == 0), "clopper-pearson"), (known, "clopper-pearson" if rule == "logit" else rule)):
        if at.any() and named != "wald":
            trials = effective_trials(estimate, cov, level)[at]
            limits[at] = proportion_interval(theta[at], trials, level[at], named)
    return limits


def score_interval_of_intercept(estimate: Estimate, cov: Covariance, alpha: float) -> FloatArray | None:
    """The score interval of a mean of scores in [0, 1] that was fitted as a regression; None of anything else."""
    cells, scores, A = estimate.cells, estimate.scores, estimate.coefficient_map
    if not (estimate.about.formula and estimate.bounded and estimate.n_params == 1 and cov.variance()[0] > 0):
        return None
    if cells is not None and A is not None and cells.count.size == 1 and not cells.weighted.any():
        mean, n, squares = cells.mean, cells.count, cells.squares
    elif isinstance(scores, RowScores) and scores.weights is None and scores.residual is not None:
        mean, n = np.array(estimate.params), np.array([float(estimate.n_rows)])
        squares = np.array([float(scores.residual @ scores.residual)])
    else:
        return None
    single = SingleMeans(scores, mean, n, np.ones((1, 1)), ICC_MEAN, squares, n)
    return np.asarray(replace(cov, single=single).limits(np.array(estimate.params), None, alpha)[0])


def effective_trials(estimate: Estimate, cov: Covariance, alpha: FloatArray) -> FloatArray:
    """Effective number of 0/1 trials behind each mean, shape (n_params,), at most its rows; Korn and Graubard (1998).

    Of independent 0/1 scores their number itself; of rectified means the effective clusters of the human labels.
    """
    if human_labels(estimate) is not None:
        return effective_clusters(labelled_means(estimate, cov.axes), cov.axes)
    if estimate.cells is None or estimate.coefficient_map is None:
        raise NotAvailableError("a proportion's interval needs means of cells.")
    A, cells = without_zeros(compressed(estimate.coefficient_map)), estimate.cells
    # Unweighted means of one cell of 0/1 scores, whose rows are the trials where they are independent.
    other = cells.weighted | ~np.isclose(cells.scatter, cells.mean * (1 - cells.mean), rtol=1e-9, atol=1e-12)
    counted = (np.diff(A.indptr) == 1) & ((signs_of_entries(A) @ other) == 0)
    n = np.asarray(nonzero_entries(A) @ cells.count, dtype=float)
    mean, variance, clusters = np.array(estimate.params), cov.variance(), effective_clusters(estimate, cov.axes)
    flat = (mean <= 0) | (mean >= 1) | ~(variance > 0)
    # So many independent trials have this variance, with Korn and Graubard's t correction.
    ratio = (t_quantile(alpha, np.maximum(n - 1, 1)) / cov.critical(alpha=alpha)) ** 2
    korn = np.minimum(n, mean * (1 - mean) / np.where(flat, 1.0, variance) * ratio)
    return np.where(counted & (clusters > n - 0.5), n, np.where(flat, clusters, korn))


def tested_against(estimate: Estimate) -> float | None:
    """What t and p of each parameter are against, to be shown; None where they tell nothing.

    Scores that are all at least 0 have a mean above 0 as soon as one of them is, so that nobody asks whether it is 0.
    Differences, contrasts, coefficients, and means of scores on both sides of 0 have a null.
    """
    return None if estimate.about.levels and estimate.about.null == 0 else estimate.about.null


def against_null(estimate: Estimate, cov: Covariance) -> tuple[FloatArray, FloatArray]:
    """t and p of each parameter against what its kind is tested against: a half for win rates, 1 for odds, else 0.

    NaN without a variance, and of levels against 0 where it is an end of the scale, or no interval of theirs holds it.
    """

    def both() -> FloatArray:
        t, p = against(estimate, cov, np.full(estimate.n_params, estimate.about.null))
        if tested_against(estimate) is None:
            never = np.isinf(t) | (estimate.bounded & (cov.variance() == 0))
            if cov.single is not None:
                never[cov.single.sides(None).rows] = True
            t[never] = p[never] = np.nan
        return np.stack([t, p])

    t, p = _once(estimate, cov, "null", both)
    return t, p


def against(
    estimate: Estimate, cov: Covariance, value: FloatArray, C: FloatArray | None = None, method: str | None = None
) -> tuple[FloatArray, FloatArray]:
    """t and p of parameters, or of contrasts (m, n_params) of them, against values (m,), by their intervals.

    p < alpha just where the interval of that level leaves the value out; t is the distance in the standard errors that
    the test takes, or has that p where the ends of the interval make it.
    """
    widths = cov.widths(C) if method is None else replace(cov.widths(C), scored=None)
    distance = (estimate.params if C is None else C @ estimate.params) - value
    A = np.eye(estimate.n_params) if C is None else C
    single, which = picks(A), np.argmax(A, axis=1)
    theta, se = estimate.params[which], np.sqrt(cov.variance())[which]
    if widths.scored is not None:
        single[widths.scored.rows] = False
    logit = single & (se > 0) & estimate.bounded & ((method or estimate.about.interval) == "logit")
    inside = logit & (theta > 0) & (theta < 1) & (value > 0) & (value < 1)
    distance[inside] = se[inside] * logit_statistic(theta[inside], se[inside], value[inside])
    t, p = widths.statistic(distance), widths.pvalues(distance)
    of_family = method is None and estimate.family.ends(estimate, cov, USUAL_LEVEL) is not None
    rest = np.flatnonzero(single & (of_family | (logit & ~inside) | (estimate.bounded & (se == 0))))
    if rest.size:
        p[rest] = _levels_of_ends(estimate, cov, which[rest], value[rest], method)
        size = np.where(p[rest] == 0, np.inf, widths.chosen(rest).critical(p[rest]))
        t[rest] = np.copysign(size, distance[rest])
    return t, p


def _levels_of_ends(
    estimate: Estimate, cov: Covariance, which: IntArray, value: FloatArray, method: str | None
) -> FloatArray:
    """p-values of parameters `which` against values: the levels at which their intervals end there, both (m,).

    1 where the interval of every level holds the value, 0 where that of none does, NaN where there is none.
    """
    p = np.empty(value.size)
    turn = pd.Series(which).groupby(which).cumcount().to_numpy()
    for i in range(int(turn.max()) + 1):
        rows = np.flatnonzero(turn == i)

        def outside(level: FloatArray, rows: IntArray = rows) -> FloatArray:
            alpha = np.full(estimate.n_params, USUAL_LEVEL)
            alpha[which[rows]] = level
            low, high = _ends(estimate, cov, alpha, method)[which[rows]].T
            return np.asarray(np.maximum(low - value[rows], value[rows] - high))

        with np.errstate(all="ignore"):
            none = np.isnan(outside(np.full(rows.size, USUAL_LEVEL)))
            p[rows] = np.where(none, np.nan, levels(outside, np.zeros(rows.size)))
    return p


def picks(C: FloatArray) -> BoolArray:
    """Which contrasts are one of the parameters itself."""
    return np.asarray((np.count_nonzero(C, axis=1) == 1) & (C.max(axis=1) == 1))


def t_tests(estimate: Estimate, cov: Covariance, contrasts: Contrasts, method: str | None) -> ContrastResults:
    """Tests of contrasts against values, as statsmodels' ContrastResults: t = (effect - value)/sd, on `df_denom`.

    `sd` is the standard error that the test takes: of a score interval that under the value tested. Where widths are
    sums over terms, `df_denom` has for each contrast the degrees of freedom at which t has its p-value.
    """
    C, value = contrasts.matrix, contrasts.value
    effect = C @ estimate.params
    if method == "logit" and not (possible := picks(C) & (value > 0) & (value < 1) & estimate.bounded).all():
        raise ScoreRangeError(
            f'`method="logit"` tests a mean of scores that all lie in [0, 1] against a value between 0 and 1; '
            f'{contrasts.names[int(np.argmin(possible))]!r} is not such a hypothesis. Use method="wald".'
        )
    t, p, dof = _tested(estimate, cov, contrasts, method)
    with np.errstate(all="ignore"):
        sd = np.where(t != 0, (effect - value) / t, np.sqrt(cov.variance(C)))
    from statsmodels.stats.contrast import ContrastResults

    result = ContrastResults(effect=effect, t=t, sd=np.where(np.isfinite(sd) & (sd > 0), sd, np.nan), df_denom=dof)
    result.pvalue = np.reshape(p, np.shape(result.pvalue))
    result.conf_int = partial(_limits, estimate, cov, C, method)
    return result


def _tested(
    estimate: Estimate, cov: Covariance, contrasts: Contrasts, method: str | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """t, p and degrees of freedom of contrasts; where widths are sums over terms those at which t has its p."""
    C = contrasts.matrix
    (t, p), dof = against(estimate, cov, contrasts.value, C, method), cov.dof(C)
    if cov.summed:
        level = np.clip(p, np.finfo(float).tiny, 1.0)
        at_level = cov.dof(C, alpha=level)
        dof = np.where(np.isnan(at_level), dof, at_level)
        known = np.isfinite(t) & (p > 0) & (p < 1) & np.isfinite(dof)
        t = np.where(known, np.copysign(t_quantile(level, np.where(known, dof, 1.0)), t), t)
    return t, p, dof


def joint_test(estimate: Estimate, cov: Covariance, contrasts: Any) -> JointTest:
    """Wald test of several contrasts, by the rule of the covariance in use, and what few clusters keep it from.

    One hypothesis is tested as its interval is built.
    """
    hypotheses = parse_contrasts(contrasts, estimate.names)
    C, test = hypotheses.matrix, None
    if len(C) == 1:
        t, p, dof = (float(of_one[0]) for of_one in _tested(estimate, cov, hypotheses, None))
        if not np.isnan(p):
            F = t_quantile(p, np.array([dof]))[0] ** 2 if p > 0 else t**2
            test = JointTest(float(F), 1, dof)
    return with_notes(test or joint_by_rule(cov, C, C @ estimate.params - hypotheses.value), cov, C)


def _limits(estimate: Estimate, cov: Covariance, C: FloatArray, method: str | None, alpha: float = 0.05) -> Any:
    """Intervals of contrasts; of single parameters those of the parameters."""
    widths = cov.widths(C) if method is None else replace(cov.widths(C), scored=None)
    limits = widths.limits(C @ estimate.params, alpha)
    single = picks(C)
    if single.any():
        limits[single] = intervals(estimate, cov, alpha, method)[np.argmax(C != 0, axis=1)[single]]
    return limits


EquivalenceName: TypeAlias = Literal["equivalence", "non-inferiority"]
Verdict: TypeAlias = Literal["shown", "shown to fail", "cannot tell"]


def equivalence_table(
    params: pd.Series[float],
    estimate: Estimate,
    cov: Covariance,
    margin: float | tuple[float, float],
    kind: EquivalenceName,
    alpha: float,
) -> pd.DataFrame:
    """Whether parameters lie within margins, or not below one.

    Columns estimate, se, dof, lower, upper (the 1 - 2 alpha interval), p_value and verdict. Schuirmann (1987), Journal
    of Pharmacokinetics and Biopharmaceutics 15, 657-680.
    """
    option("kind", kind, EquivalenceName)
    fraction("alpha", alpha)
    low, high = _bounds(margin, kind)
    theta, se = np.array(estimate.params), np.sqrt(cov.variance())

    def one_sided(bound: float) -> tuple[FloatArray, FloatArray]:
        """p-values of "at most the bound" and of "at least", half the two-sided one on the side of the estimate."""
        two_sided = against(estimate, cov, np.full(theta.size, bound))[1]
        sides = two_sided / 2, 1 - two_sided / 2
        return np.where(theta > bound, *sides), np.where(theta > bound, *sides[::-1])

    p_value, fails = one_sided(low)
    if math.isfinite(high):
        # Two one-sided tests: the claim needs both, and fails where either bound is passed.
        above, below = one_sided(high)
        p_value, fails = np.maximum(p_value, below), np.minimum(fails, above)
    both = 2 * min(alpha, 1 - alpha)
    ends = intervals(estimate, cov, both, None)
    if alpha > 0.5:  # the ends change sides
        ends = ends[:, ::-1]
    columns = {"estimate": theta, "se": np.where(se > 0, se, np.nan), "dof": cov.dof()}
    table = pd.DataFrame(columns | {"lower": ends[:, 0], "upper": ends[:, 1], "p_value": p_value}, index=params.index)
    table["verdict"] = np.where(p_value < alpha, "shown", np.where(fails < alpha, "shown to fail", "cannot tell"))
    table.attrs = {"kind": kind, "margin": (low, high), "alpha": alpha}
    return table


def _bounds(margin: Any, kind: str) -> tuple[float, float]:
    """Lower and upper bound; the upper one is infinite for non-inferiority."""
    if isinstance(margin, tuple | list) and len(margin) == 2 and kind == "equivalence":
        low, high = (checked_number("margin", value) for value in margin)
        if not low < 0 < high:
            raise ArgumentError(
                f"`margin` as two bounds must enclose zero, such as (-0.02, 0.01); got ({low:g}, {high:g})."
            )
        return low, high
    size = checked_number("margin", margin)
    if not size > 0:
        raise ArgumentError(
            f"`margin` must be positive: the largest difference that does not matter, in units of the score; got "
            f"{size:g}. {f'Pass {-size:g}' if size < 0 else 'A margin of zero can never be met'}"
            f"{', whatever the direction of the difference.' if size < 0 else '; ask for a test instead.'}"
        )
    return -size, (size if kind == "equivalence" else math.inf)


@dataclass(frozen=True, eq=False)
class Behind(Family):
    """Values made of an estimate; `at` says which of all values these are."""

    behind: Estimate
    at: IntArray

    def linear(self, whole: Estimate, C: Matrix) -> Family:
        """Some of the values; contrasts of them have Wald's intervals."""
        return replace(self, at=self.at[np.argmax(dense(C) != 0, axis=1)]) if selects(C) else PLAIN

    def with_labels(self, more: dict[str, Any]) -> Family:
        """The same with further columns of labels."""
        return replace(self, behind=replace(self.behind, scores=self.behind.scores.with_labels(more)))

    def covariance(self, cov: Covariance) -> Covariance:
        """The covariance of the estimate behind, of the kind and under the clusters of the values; made once."""
        held = cov.cache.get("behind")
        if held is None or held[0] is not self.behind:
            held = cov.cache["behind"] = (self.behind, assemble(self.behind, cov.axes, cov.options))
        cov_behind: Covariance = held[1]
        return cov_behind


@dataclass(frozen=True, eq=False)
class Carried(Behind):
    """Values of an increasing function of each win rate: intervals are those of the rates, carried through.

    So tests of a value are those of the rate behind it; contrasts have intervals by the delta method.
    """

    interval_rule = "those of the win rates, carried through"
    function: Callable[[FloatArray], FloatArray]
    contrasts: Family  # what contrasts of the values keep

    def linear(self, whole: Estimate, C: Matrix) -> Family:
        """Some of the values, or what contrasts of them keep."""
        return super().linear(whole, C) if selects(C) else self.contrasts.linear(whole, C)

    def moved(self, constant: FloatArray) -> Family:
        """Values with a constant added are of another function."""
        return self.contrasts

    def arguments(self, names: Names, cov: Covariance) -> tuple[Estimate, Covariance]:
        """The parameters behind the values, under their names, with their covariance."""
        C = np.eye(self.behind.n_params)[self.at]
        return self.behind.linear(C, names), self.covariance(cov).linear(C, names)

    def ends(self, estimate: Estimate, cov: Any, alpha: float | FloatArray) -> FloatArray:
        """The function of the ends of theirs."""
        return self.function(_ends(*self.arguments(estimate.names, cov), alpha, None))


@dataclass(frozen=True, eq=False)
class Ratios(Behind):
    """Parameters (c + N theta)/(d + D theta) of an estimate theta, whose intervals are Fieller's, within a range.

    The interval holds each h for which c + N theta - h (d + D theta) is not significantly different from 0: Fieller
    (1954), JRSS B 16, 175-185. Where the denominator may be 0 it has no ends. A share of 0 or 1, whose variance is 0,
    counts with the square of how far its own interval goes. `constants` are c and d of each.
    """

    interval_rule = "Fieller's"
    numerator: FloatArray
    denominator: FloatArray
    constants: FloatArray
    range: tuple[float, float] = (-np.inf, np.inf)

    def values(self) -> tuple[FloatArray, FloatArray]:
        """The ratios, and their derivatives by theta."""
        n, d = self._sides()
        return n / d, (self.numerator - (n / d)[:, None] * self.denominator) / d[:, None]

    def _sides(self) -> tuple[FloatArray, FloatArray]:
        theta = np.array(self.behind.params)
        return self.constants[:, 0] + self.numerator @ theta, self.constants[:, 1] + self.denominator @ theta

    def ends(self, estimate: Estimate, cov: Any, alpha: float | FloatArray) -> FloatArray:
        """Both ends of every ratio, with the critical values of its own degrees of freedom, shape (n_params, 2)."""
        variances, flat, trials = self._of_all_levels(cov)
        t2, (n, d) = cov.critical(alpha=alpha) ** 2, (side[self.at] for side in self._sides())
        N, D, means = self.numerator[self.at], self.denominator[self.at], np.array(self.behind.params)[flat]
        level = np.repeat(np.broadcast_to(alpha, t2.shape), flat.size)
        each = proportion_interval(np.tile(means, t2.size), np.tile(trials, t2.size), level, "clopper-pearson")
        reach = np.ptp(each, axis=1).reshape(t2.size, flat.size)
        sides = ((N, N), (N, D), (D, D))
        nn, nd, dd = (
            t2 * variance[self.at] + np.sum(left[:, flat] * right[:, flat] * reach**2, axis=1)
            for variance, (left, right) in zip(variances, sides, strict=True)
        )
        # (n - h d)^2 = t^2 Var(n - h d), a quadratic in h.
        a, b, c = d**2 - dd, n * d - nd, n**2 - nn
        with np.errstate(invalid="ignore", divide="ignore"):
            root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
            limits = np.where((a > 0)[:, None], np.column_stack([b - root, b + root]) / a[:, None], [-np.inf, np.inf])
        limits[np.isnan(cov.variance()) & ~((N != 0) | (D != 0))[:, flat].any(axis=1)] = np.nan
        return np.clip(limits, *self.range)

    def _of_all_levels(self, cov: Covariance) -> tuple[list[FloatArray], IntArray, FloatArray]:
        """Var(n), Cov(n, d) and Var(d) of all ratios; the shares of 0 or 1 behind them, and the trials of each."""
        behind, N, D = self.covariance(cov), self.numerator, self.denominator
        if "ratios" not in behind.cache:
            V, flat = behind.matrix, np.flatnonzero((behind.variance() == 0) & self.behind.bounded)
            level = np.full(self.behind.n_params, USUAL_LEVEL)  # shares without a variance have one number of trials
            trials = effective_trials(self.behind, behind, level)[flat] if flat.size else np.zeros(0)
            variances = [np.sum((left @ V) * right, axis=1) for left, right in ((N, N), (N, D), (D, D))]
            behind.cache["ratios"] = variances, flat, trials
        of_all: tuple[list[FloatArray], IntArray, FloatArray] = behind.cache["ratios"]
        return of_all
