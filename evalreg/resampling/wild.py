"""Wild cluster bootstrap tests of means and regressions, on sums within clusters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evalreg.checks import FloatArray, SscName, fraction, option
from evalreg.covariance.assembly import assemble
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.crossed import subset_signs
from evalreg.covariance.one_way import counts_of
from evalreg.covariance.options import KINDS, ResolvedCov
from evalreg.covariance.spanning import refuse_spanning
from evalreg.data.clusters import Axis, axis_name, union
from evalreg.errors import (
    ArgumentError,
    ArgumentTypeError,
    EvalregWarning,
    FewClustersWarning,
    LeverageWarning,
    NotAvailableError,
    Note,
    TooFewClustersError,
    ZeroVarianceWarning,
    issue,
)
from evalreg.estimate import Estimate
from evalreg.inference.contrasts import Contrasts, parse_contrasts, refuse_dependent
from evalreg.inference.multiplicity import base_seed
from evalreg.inference.simultaneous import Seed
from evalreg.inference.wald import wald_quadratic
from evalreg.resampling.draws import WEBB_UP_TO, WILD_WEIGHTS, WildWeightsName, vectors, whole_number, wild_blocks
from evalreg.resampling.inversion import SLACK, as_extreme, as_extreme_far, find_end, tails
from evalreg.resampling.wild_result import WildTest
from evalreg.resampling.wild_sums import (
    Hypotheses,
    draw_joint,
    draw_single,
    gather,
    hypotheses_of,
    incidence,
    square_form,
)


def wild_test(
    estimate: Estimate,
    axes: tuple[Axis, ...],
    null: str | dict[str, float] | Any,
    *,
    draws: int = 9999,
    weights: WildWeightsName = "auto",
    impose_null: bool = True,
    alpha: float = 0.05,
    seed: Seed = 0,
    ssc: SscName = "statsmodels",
) -> WildTest:
    """Wild cluster bootstrap test of linear hypotheses about means or least-squares coefficients.

    Clusters are taken to be independent; with crossed clusterings each axis in turn carries the weights, the largest of
    the p-values counts, and the variance is the largest of the crossed ones and those of fewer axes, in the data and in
    every draw. The interval holds every value that one of the axes does not reject.

    Cameron, Gelbach and Miller (2008), REStat 90(3); MacKinnon, Nielsen and Webb (2023), J. Applied Econometrics 38;
    Roodman, MacKinnon, Nielsen and Webb (2019), Stata Journal 19(1), for the interval.
    """
    option("weights", weights, WILD_WEIGHTS)
    draws, alpha = whole_number("draws", draws), fraction("alpha", alpha)
    base, printed = base_seed(seed)
    if not isinstance(impose_null, bool | np.bool_):
        raise ArgumentTypeError(f"`impose_null` must be True or False; got {impose_null!r}.")
    _refuse_without_sums(estimate, axes)
    asked = parse_contrasts(null, estimate.names)
    cov = assemble(estimate, axes, ResolvedCov("CR1", ssc, "min", "max"))
    # Fewest clusters first, which stands for ties.
    carriers = sorted(range(len(cov.axes)), key=lambda axis: cov.n_clusters[axis_name(cov.axes[axis])])
    plans = [_planned(estimate, cov, one, asked, weights, draws, bool(impose_null), alpha, base) for one in carriers]
    _check_rank(asked, plans[0].n_clusters)
    reasons = [reason for reason in cov.reasons(asked.matrix) if reason]
    each = [_NOT_TESTED if reasons else _single(plan) if plan.gap.size == 1 else _joint(plan) for plan in plans]
    if not reasons and np.isnan(each[0].statistic):
        reasons = ["the covariance of these contrasts is singular"]
    plan, found = plans[0], _largest(each)
    if not np.isnan(found.p_value):
        plan = plans[[one.p_value for one in each].index(found.p_value)]
    each_notes = (_notes(one, each[i].far, reasons) for i, one in enumerate(plans))
    notes = next(filter(None, each_notes), [])
    issue(notes)
    one = plan.gap.size == 1
    centre = float(asked.matrix[0] @ estimate.params) if one else np.nan
    return WildTest(
        statistic=found.statistic,
        p_value=found.p_value,
        p_equal_tailed=found.p_equal_tailed,
        interval=(centre - found.gaps[1], centre - found.gaps[0]) if one else None,
        draws=plan.draws,
        enumerated=plan.enumerated,
        weights=plan.weights,
        null=_null_text(asked),
        impose_null=plan.imposed,
        alpha=alpha,
        seed=None if plan.enumerated else printed,
        estimate=centre,
        by=plan.by,
        n_clusters=plan.n_clusters,
        p_by_axis=tuple((one.by, result.p_value) for one, result in zip(plans, each, strict=True)),
        notes=tuple(notes),
    )


@dataclass(frozen=True, eq=False)
class _Plan:
    """What is drawn, and for which hypotheses."""

    estimate: Estimate
    cov: Covariance
    carrier: int
    asked: Contrasts
    gap: FloatArray
    weights: WildWeightsName
    draws: int
    enumerated: bool
    imposed: bool
    alpha: float
    base: int

    @property
    def by(self) -> str:
        """The clustering that carries the weights."""
        return axis_name(self.cov.axes[self.carrier])

    @property
    def n_clusters(self) -> int:
        """Its number of clusters."""
        return self.cov.n_clusters[self.by]

    @property
    def smallest(self) -> float:
        """The smallest p-value there can be."""
        # Multiples of the vector of ones give the statistic of the data itself, where the null is imposed.
        multiples = {"rademacher": 2, "webb": 6}[self.weights] if self.enumerated and self.imposed else 0
        return multiples / self.draws if self.enumerated else 1 / (self.draws + 1)

    def hypotheses(self) -> Hypotheses:
        """The hypotheses about the coefficients."""
        return hypotheses_of(self.estimate, self.asked.matrix, self.gap, self.imposed)

    def blocks(self) -> Iterator[FloatArray]:
        """Weights."""
        return wild_blocks(self.weights, self.n_clusters, self.draws, self.enumerated, self.base)

    def share(self, count: int) -> float:
        """From the number of draws that are as extreme to a p-value."""
        # Drawn vectors leave out the one of the data, which belongs to them.
        return count / self.draws if self.enumerated else (1 + count) / (self.draws + 1)

    def factors(self) -> list[float]:
        """CR1 factor of each term of the covariance."""
        sizes, smallest = [term.n_clusters for term in self.cov.pieces], min(p.n_clusters for p in self.cov.one_way)
        ssc, axes = self.cov.options.ssc, self.cov.axes
        counts = counts_of(self.estimate, axes, smallest, ssc)
        every = (replace(counts, n_clusters=G, smallest=smallest, least_squares=True) for G in sizes)
        return [KINDS["CR1"].factor(one, ssc) for one in every]


def _planned(
    estimate: Estimate,
    cov: Covariance,
    carrier: int,
    asked: Contrasts,
    weights: WildWeightsName,
    draws: int,
    imposed: bool,
    alpha: float,
    base: int,
) -> _Plan:
    """Which weights the axis carries, and whether all vectors are taken."""
    size = cov.n_clusters[axis_name(cov.axes[carrier])]
    kind: WildWeightsName = weights
    if weights == "auto":
        kind = "webb" if size <= WEBB_UP_TO else "rademacher"
    every = vectors(kind, size, draws)
    gap = asked.matrix @ estimate.params - asked.value
    return _Plan(estimate, cov, carrier, asked, gap, kind, every or draws, every is not None, imposed, alpha, base)


def _refuse_without_sums(estimate: Estimate, axes: tuple[Axis, ...]) -> None:
    if not axes:
        raise ArgumentError(
            "a wild cluster bootstrap needs clusters; this result takes rows as independent. Pass `groups=` to the "
            "estimator, or use with_cov(groups=...) first."
        )
    refit = estimate.refit
    if refit is None or not refit.linear or estimate.coefficient_map is None:
        raise NotAvailableError(
            "a wild cluster bootstrap is available for means and least squares (and contrasts of them), which are "
            f'solved again from sums within clusters; this is {estimate.about.model}. Use the tests under cov="CR2" or '
            '"CR3", or resample whole clusters with `bootstrap`.'
        )
    refuse_spanning(estimate, union(*axes), "a wild cluster bootstrap")
    if estimate.cells is not None and estimate.cells.stratum is not None:
        raise NotAvailableError(
            'a wild cluster bootstrap of stratified means is not available. Use the tests under cov="CR2", or leave '
            "`strata` out."
        )


def _check_rank(asked: Contrasts, n_clusters: int) -> None:
    q = asked.matrix.shape[0]
    refuse_dependent(asked.matrix)
    if q >= n_clusters:
        raise TooFewClustersError(
            f"a joint test needs more clusters than hypotheses; got {q} hypotheses and {n_clusters} clusters. Test "
            "fewer at a time.",
            count=q,
        )


def _null_text(asked: Contrasts) -> str:
    texts = [
        name if "=" in name else f"{name} = {value:g}" for name, value in zip(asked.names, asked.value, strict=True)
    ]
    return ", ".join(texts)


@dataclass(frozen=True)
class _Found:
    """Statistic, p-values, ends of the interval as gaps from the estimate, and p far from the estimate."""

    statistic: float
    p_value: float
    p_equal_tailed: float
    gaps: tuple[float, float]
    far: float


_NOT_TESTED = _Found(np.nan, np.nan, np.nan, (np.nan, np.nan), 0.0)


def _largest(each: list[_Found]) -> _Found:
    """Of several axes: the largest p-values, and the smallest interval that holds those of all."""
    gaps = [one.gaps for one in each]
    return replace(
        each[0],
        p_value=max(one.p_value for one in each),
        p_equal_tailed=max(one.p_equal_tailed for one in each),
        gaps=(min(low for low, _ in gaps), max(high for _, high in gaps)),
        far=max(one.far for one in each),
    )


def _single(plan: _Plan) -> _Found:
    """One hypothesis: the p-value as a function of the hypothesised value."""
    cov, asked, alpha = plan.cov, plan.hypotheses(), plan.alpha
    wheres = [incidence(plan.estimate, cov.axes, term.dims, plan.carrier) for term in cov.pieces]
    sums = {where.by: gather(plan.estimate, where.by, asked) for where in wheres}
    forms = [square_form(sums[where.by], where, asked) for where in wheres]
    drawn = draw_single(forms, _rules(plan), sums[cov.axes[plan.carrier]], asked, plan.blocks())
    variance = float(cov.variance(plan.asked.matrix)[0])
    d, se = float(plan.gap[0]), float(np.sqrt(variance))

    def p(gap: float) -> float:
        return plan.share(int(np.count_nonzero(as_extreme(drawn, gap, variance))))

    far = plan.share(int(np.count_nonzero(as_extreme_far(drawn, variance))))
    # The gaps of the value 0 and of the hypothesised one.
    at = (float(plan.asked.matrix[0] @ plan.estimate.params), d)
    gaps = (-np.inf, np.inf)
    if far <= alpha:
        gaps = -find_end(lambda gap: p(-gap), se, alpha, [-mark for mark in at]), find_end(p, se, alpha, at)
    below, above = tails(*drawn.at(d), d / se)
    tail = min(1.0, 2 * min(plan.share(below), plan.share(above)))
    return _Found(d / se, p(d), tail, gaps, far)


def _rules(plan: _Plan) -> FloatArray:
    """Variances whose largest is taken, as combinations of the terms' sums of squares."""
    terms, factors = plan.cov.pieces, np.diag(plan.factors())
    return np.asarray(subset_signs([term.dims for term in terms]) @ factors)


def _joint(plan: _Plan) -> _Found:
    """Several hypotheses: the Wald statistic with the sum of the one-way variances."""
    cov, C, asked = plan.cov, plan.asked.matrix, plan.hypotheses()
    W = wald_quadratic(plan.gap, C @ cov.sum_one_way @ C.T)
    wheres = [incidence(plan.estimate, cov.axes, term.dims, plan.carrier) for term in cov.one_way]
    parts = [gather(plan.estimate, where.by, asked) for where in wheres]
    # The terms of single axes stand first.
    statistics = draw_joint(wheres, plan.factors()[: len(wheres)], parts, asked, plan.carrier, plan.blocks())
    count = int(np.count_nonzero(statistics >= W * (1 - SLACK) ** 2))
    return _Found(W / C.shape[0], plan.share(count) if np.isfinite(W) else np.nan, np.nan, (np.nan, np.nan), 0.0)


def _notes(plan: _Plan, far: float, reasons: list[str]) -> list[Note]:
    """What makes a test fragile, or leaves it undefined."""
    alpha, smallest, clusters = plan.alpha, plan.smallest, f"{plan.n_clusters} {plan.by} clusters"
    if reasons:
        return [(ZeroVarianceWarning, f"no test, because {reasons[0]}; statistic, p-value and interval are NaN.")]
    if smallest > alpha and plan.enumerated:
        more = ' weights="webb" has 6^G vectors.' if plan.weights == "rademacher" else ""
        text = (
            f"{clusters} with {plan.weights} weights: the smallest possible p-value is 1/{1 / smallest:.0f} = "
            f"{smallest:.3g}, above alpha = {alpha:g}, so that nothing can be rejected and the interval is "
            f"infinite.{more}"
        )
        return [(FewClustersWarning, text)]
    if smallest > alpha:
        text = f"{plan.draws} draws: the smallest possible p-value is {smallest:.3g}, above alpha = {alpha:g}."
        return [(EvalregWarning, text)]
    if far > alpha:
        text = (
            f"the parameter rests on so few of the {clusters} that p stays at {far:.3g} or more however far the "
            f"hypothesised value lies, above alpha = {alpha:g}: the interval is infinite."
        )
        return [(LeverageWarning, text)]
    return []
