"""Wild cluster bootstrap tests of means and regressions, on sums within clusters.

The model is least squares (or means): coefficients beta with scores s_g = X_g'W e_g and grams G_g = X_g'W X_g of the
clusters, M = (sum G_g)^-1, and hypotheses C beta = c. With P = M C'(C M C')^-1 and d = C beta - c, the scores under the
null are s_g + G_g P d, so that they, the numerator and the squares below are polynomials in d. A draw v gives

    numerator   sum_g v_g L s_g                       L = C M
    influence   u_c = sum_g v_g L s_cg - L G_c M sum_g v_g s_g

for each cluster c of a clustering (s_cg the part of c that lies in g), and the variance of the draw is made of
u_c u_c'.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray, SscName, fraction, option
from evalreg.covariance.absorbed import refuse_spanning
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.crossed import subset_signs
from evalreg.covariance.options import ResolvedCov, cr1_factor
from evalreg.covariance.terms import assemble, counts_of
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
from evalreg.inference.simultaneous import Seed, base_seed
from evalreg.inference.wald import Contrasts, parse_contrasts, refuse_dependent, wald_quadratic
from evalreg.numerics.limits import EQUAL, ROUNDING
from evalreg.numerics.matrices import Matrix, compressed, dense, mostly_there
from evalreg.report.tables import Summary, fixed, number, p_value
from evalreg.resampling.draws import (
    WEBB_UP_TO,
    WILD_WEIGHTS,
    Drawn,
    WildWeightsName,
    seed_text,
    share,
    vectors,
    whole_number,
    wild_blocks,
)
from evalreg.resampling.solvers import meetings


@dataclass(frozen=True)
class WildTest:
    """A wild cluster bootstrap test, with the interval of the values that it does not reject.

    Made by `Results.wild_test`.

    Parameters
    ----------
    statistic : float
        The CR1 t of one hypothesis; of several the Wald statistic over their number, F.
    p_value : float
        Two-sided: the share of draws at least as extreme, ties counted.
    p_equal_tailed : float
        Twice the smaller tail; NaN for several hypotheses.
    interval : tuple of float, or None
        Values of the combination of parameters whose p-value is above `alpha`; an end is infinite where p never falls
        to it. None for several hypotheses.
    draws : int
        Weight vectors used.
    enumerated : bool
        Whether these are all there are, each once.
    weights : {"rademacher", "webb", "mammen"}
        Distribution of the weights.
    null : str
        The hypothesis.
    impose_null : bool
        Whether residuals satisfied the null.
    alpha : float
        One minus the level of the interval.
    seed : int or None
        Of the draws; None for a Generator, or where nothing was drawn.
    estimate : float
        The combination of parameters; NaN for several hypotheses.
    by : str
        The clustering that carries the weights; of crossed ones that with the largest p-value.
    n_clusters : int
        Its number of clusters.
    p_by_axis : tuple of (str, float)
        The p-value with each clustering carrying the weights; `p_value` is the largest of them.
    notes : tuple of (category, text)
        What was warned of.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=13, questions_per_passage=6, seed=2)
    >>> test = er.fit("score ~ 1", log, groups="passage").wild_test("Intercept = 0.5")
    >>> test.draws, test.enumerated, test.weights
    (8192, True, 'rademacher')
    """

    statistic: float
    p_value: float
    p_equal_tailed: float
    interval: tuple[float, float] | None
    draws: int
    enumerated: bool
    weights: WildWeightsName
    null: str
    impose_null: bool
    alpha: float
    seed: int | None
    estimate: float
    by: str
    n_clusters: int
    p_by_axis: tuple[tuple[str, float], ...] = ()
    notes: tuple[Note, ...] = ()

    def summary(self) -> Summary:
        """The test in words.

        Returns
        -------
        Summary
            Prints as text; also `as_markdown()`, `as_latex()` and `as_html()`.
        """
        return summarize_test(self)

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def __repr__(self) -> str:
        return self.summary().as_text()


def summarize_test(test: WildTest) -> Summary:
    """The facts of a test."""
    how = "all vectors, each once" if test.enumerated else f"drawn, {seed_text(test.seed)}"
    facts = [("Null", test.null), ("Weights", f"{test.weights}, by {test.by} ({test.n_clusters} clusters)")]
    facts.append(("Draws", f"{test.draws} ({how})"))
    facts.append(("Residuals", "under the null" if test.impose_null else "of the fit"))
    facts.append(("t (CR1)" if test.interval else "F (CR1)", fixed(test.statistic, 3)))
    facts.append(("p", p_value(test.p_value)))
    if len(test.p_by_axis) > 1:
        facts.append(("p by axis", ", ".join(f"{name} {p_value(one)}" for name, one in test.p_by_axis)))
    if test.interval is not None:
        low, high = (number(end) for end in test.interval)
        facts.append(("p, equal-tailed", p_value(test.p_equal_tailed)))
        facts.append(("Estimate", number(test.estimate)))
        facts.append((f"{1 - test.alpha:.4g} interval", f"{low} to {high}"))
    return Summary("Wild cluster bootstrap", tuple(facts), (), tuple(text for _, text in test.notes))


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
    refuse_dependent(asked.matrix)
    cov = assemble(estimate, axes, ResolvedCov("CR1", ssc, "min", "max"))
    # Fewest clusters first, which stands for ties.
    carriers = sorted(range(len(cov.axes)), key=lambda axis: cov.n_clusters[axis_name(cov.axes[axis])])
    gap, plans = asked.matrix @ estimate.params - asked.value, list[_Plan]()
    for carrier in carriers:
        size, kind = cov.n_clusters[axis_name(cov.axes[carrier])], weights
        if weights == "auto":
            kind = "webb" if size <= WEBB_UP_TO else "rademacher"
        every = vectors(kind, size, draws)
        n, enumerated = every or draws, every is not None
        plans.append(_Plan(estimate, cov, carrier, asked, gap, kind, n, enumerated, bool(impose_null), alpha, base))
    _check_rank(asked, plans[0].n_clusters)
    reasons = [reason for reason in cov.reasons(asked.matrix) if reason]
    single = gap.size == 1
    each = [_NOT_TESTED if reasons else (_single if single else _joint)(plan) for plan in plans]
    if not reasons and np.isnan(each[0].statistic):
        reasons = ["the covariance of these contrasts is singular"]
    # Of several axes the largest p-values, and the smallest interval that holds those of all.
    p = [one.p_value for one in each]
    plan = plans[0] if np.isnan(max(p)) else plans[p.index(max(p))]
    notes = next(filter(None, (_notes(one, found.far, reasons) for one, found in zip(plans, each, strict=True))), [])
    issue(notes)
    centre = float(asked.matrix[0] @ estimate.params) if single else np.nan
    low, high = min(one.gaps[0] for one in each), max(one.gaps[1] for one in each)
    pairs = zip(asked.names, asked.value, strict=True)
    return WildTest(
        statistic=each[0].statistic,
        p_value=max(p),
        p_equal_tailed=max(one.p_equal_tailed for one in each),
        interval=(centre - high, centre - low) if single else None,
        draws=plan.draws,
        enumerated=plan.enumerated,
        weights=plan.weights,
        null=", ".join(name if "=" in name else f"{name} = {value:g}" for name, value in pairs),
        impose_null=plan.imposed,
        alpha=alpha,
        seed=None if plan.enumerated else printed,
        estimate=centre,
        by=plan.by,
        n_clusters=plan.n_clusters,
        p_by_axis=tuple((one.by, found.p_value) for one, found in zip(plans, each, strict=True)),
        notes=tuple(notes),
    )


@dataclass(frozen=True, eq=False)
class _Plan:
    """What is drawn, and for which hypotheses."""

    estimate: Estimate
    cov: Covariance
    carrier: int
    asked: Contrasts
    gap: FloatArray  # (q,): C theta - c
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

    @property
    def factors(self) -> FloatArray:
        """CR1 factor of each term of the covariance, shape (n_terms,)."""
        sizes, smallest = [term.n_clusters for term in self.cov.pieces], min(p.n_clusters for p in self.cov.one_way)
        counts = counts_of(self.estimate, self.cov.axes, smallest, self.cov.options.ssc)
        every = (replace(counts, n_clusters=G, smallest=smallest, least_squares=True) for G in sizes)
        return np.array([cr1_factor(one, self.cov.options.ssc) for one in every])


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
    if q >= n_clusters:
        raise TooFewClustersError(
            f"a joint test needs more clusters than hypotheses; got {q} hypotheses and {n_clusters} clusters. Test "
            "fewer at a time.",
            count=q,
        )


@dataclass(frozen=True)
class _Found:
    """Statistic, p-values, ends of the interval as gaps from the estimate, and p far from the estimate."""

    statistic: float
    p_value: float
    p_equal_tailed: float = np.nan
    gaps: tuple[float, float] = (np.nan, np.nan)
    far: float = 0.0


_NOT_TESTED = _Found(np.nan, np.nan)


def _single(plan: _Plan) -> _Found:
    """One hypothesis: the p-value as a function of the hypothesised value."""
    drawn, d = _draw_single(plan), float(plan.gap[0])
    se = float(np.sqrt(drawn.variance))
    # The ends are looked for beside the gaps of the value 0 and of the hypothesised one.
    gaps = drawn.gaps(se, plan.alpha, (float(plan.asked.matrix[0] @ plan.estimate.params), d))
    return _Found(d / se, drawn.p(d), drawn.p_equal_tailed(d, d / se), gaps, drawn.p_far())


def _joint(plan: _Plan) -> _Found:
    """Several hypotheses: the Wald statistic with the sum of the one-way variances."""
    cov, C = plan.cov, plan.asked.matrix
    W = wald_quadratic(plan.gap, C @ cov.sum_one_way @ C.T)
    # The terms of single axes stand first.
    factors = plan.factors[: len(cov.one_way)]
    statistics = [
        wald_statistics(numerator, np.einsum("t,tijn->nij", factors, squares))
        for numerator, squares in _draws(plan, [term.dims for term in cov.one_way])
    ]
    count = int(np.count_nonzero(np.concatenate(statistics) >= W * (1 - EQUAL) ** 2))
    return _Found(W / C.shape[0], share(count, plan.draws, plan.enumerated) if np.isfinite(W) else np.nan)


def _draw_single(plan: _Plan) -> Drawn:
    """Statistics of all draws as polynomials in d, and the variances whose largest is taken."""
    dims = [term.dims for term in plan.cov.pieces]
    rules = np.asarray(subset_signs(dims) * plan.factors)
    numerators, squares = zip(*_draws(plan, dims), strict=True)
    numerator, square = np.concatenate(numerators).T, np.concatenate(squares, axis=3)
    found, n_sets = np.zeros((rules.shape[0], 3, numerator.shape[1])), numerator.shape[0]
    for power, (a, b) in enumerate([(0, 0), (0, 1), (1, 1)][: 1 if n_sets == 1 else 3]):
        found[:, power] = rules @ square[:, a, b]
    # Without the null imposed nothing depends on d.
    numerator = np.concatenate([numerator, np.zeros((2 - n_sets, numerator.shape[1]))])
    return Drawn(numerator, found, float(plan.cov.variance(plan.asked.matrix)[0]), plan.enumerated)


def _draws(plan: _Plan, dims: list[tuple[int, ...]]) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Numerators (n_draws, n) and, for each clustering, squares and products of u (n_terms, n, n, n_draws), in blocks.

    n are the hypotheses; of one under the null the constant and the slope in d. A draw's sums of squares follow from
    products of cluster sums alone: with u = F v - H p, p = sum_g v_g M s_g, u'u = v'F'F v - 2 v'F'H p + p'H'H p.
    """
    estimate, axes = plan.estimate, plan.cov.axes
    asked = _hypotheses(estimate, plan.asked.matrix)
    wheres = [_meetings(estimate, axes, one, plan.carrier) for one in dims]
    sums = {where.by: _gather(estimate, where.by, asked, plan.gap, plan.imposed) for where in wheres}
    forms = [_square_form(*sums[where.by], where, asked) for where in wheres]
    scores = sums[axes[plan.carrier]][0]
    k = scores.shape[2]
    pull, own = (scores @ asked.M).reshape(len(scores), -1), _numerators(scores, asked)
    for V in wild_blocks(plan.weights, plan.n_clusters, plan.draws, plan.enumerated, plan.base):
        pulled = (V @ pull).reshape(V.shape[0], -1, k)
        yield V @ own, np.array([_squares(form, V, pulled) for form in forms])


@dataclass(frozen=True, eq=False)
class _Hypotheses:
    """Linear hypotheses about coefficients, and what the null does to the scores."""

    columns: IntArray  # (k,): columns of the scores that matter
    L: FloatArray  # (q, k): C M
    M: FloatArray  # (k, k): (X'WX)^-1 of those columns
    P: FloatArray  # (k, q): M C'(C M C')^-1
    cells: bool  # whether grams are diagonal


def _hypotheses(estimate: Estimate, contrasts: FloatArray) -> _Hypotheses:
    """Hypotheses about the parameters, contrasts (q, n_params), as hypotheses about the coefficients."""
    assert estimate.refit is not None
    inverse, coefficient_map = estimate.refit.inverse_gram, estimate.coefficient_map
    assert coefficient_map is not None
    C = dense(contrasts @ coefficient_map)
    columns, M = np.arange(inverse.shape[0]), inverse
    if inverse.ndim == 1:
        # Cells do not depend on each other, so that the others drop out of everything below.
        columns = np.flatnonzero(np.any(C != 0, axis=0))
        C, M = C[:, columns], np.diag(inverse[columns])
    L = C @ M
    P = np.asarray(np.linalg.solve(L @ C.T, L).T, dtype=np.float64)
    return _Hypotheses(columns, L, M, P, inverse.ndim == 1)


def _gather(
    estimate: Estimate, by: Axis, asked: _Hypotheses, gap: FloatArray, imposed: bool
) -> tuple[FloatArray, FloatArray]:
    """Scores of the clusters of `by` under the null, (G, n_sets, k), and leverages L G_c, (G, q, k).

    Two sets, the constant and the slope in d, for one hypothesis with the null imposed; otherwise one.
    """
    scores, leverage = [], []
    for block in estimate.scores.cells(by):
        S = dense(block.totals[:, asked.columns])
        if asked.cells:
            weight = dense(compressed(block.gram)[:, asked.columns])
            pull, part = weight[:, :, None] * asked.P, weight[:, None, :] * asked.L
        else:
            assert block.gram is not None
            pull, part = block.gram @ asked.P, asked.L @ block.gram
        leverage.append(part)
        if imposed and gap.size == 1:
            scores.append(np.stack([S, pull[:, :, 0]], axis=1))
        else:
            scores.append((S + pull @ gap if imposed else S)[:, None])
    return np.concatenate(scores), np.concatenate(leverage)


def _numerators(scores: FloatArray, asked: _Hypotheses) -> FloatArray:
    """L s of each cluster, (G, n): for each hypothesis, or for each set of one."""
    return np.asarray((scores @ asked.L.T).reshape(len(scores), -1))


@dataclass(frozen=True, eq=False)
class _Meetings:
    """Where the clusters of a clustering and those that carry weights meet."""

    by: Axis  # columns of both
    cluster: IntArray  # (n,): cluster of the clustering that each meeting belongs to
    carrier: IntArray  # (n,): cluster that carries its weight
    shape: tuple[int, int]  # numbers of clusters of both kinds


def _meetings(estimate: Estimate, axes: tuple[Axis, ...], dims: tuple[int, ...], carrier: int) -> _Meetings:
    """Meetings of the clustering on the axes `dims` with the axis that carries the weights."""
    clustering = union(*(axes[d] for d in dims))
    pair = (clustering,) if clustering == axes[carrier] else (clustering, axes[carrier])
    by, codes, sizes = meetings(estimate, pair)
    return _Meetings(by, codes[0], codes[-1], (sizes[0], sizes[-1]))


@dataclass(frozen=True, eq=False)
class _SquareForm:
    """What squares and products of u over the clusters of one clustering are made of, for each pair a <= b of n."""

    pairs: list[tuple[int, int]]
    own: list[Matrix]  # F_a'F_b: (n_carriers,) where a cluster has one weight, or (n_carriers, n_carriers)
    mixed: FloatArray  # (n_carriers, n, q, k): F_a'H_b, of one hypothesis the same H for all
    gram: FloatArray  # (q, q, k, k): H_a'H_b


def _square_form(scores: FloatArray, leverage: FloatArray, where: _Meetings, asked: _Hypotheses) -> _SquareForm:
    first = [
        sparse.csr_array((column, (where.cluster, where.carrier)), shape=where.shape)
        for column in _numerators(scores, asked).T
    ]
    member = sparse.csr_array(
        (np.ones(where.cluster.size), (where.cluster, np.arange(where.cluster.size))),
        shape=(where.shape[0], where.cluster.size),
    )
    H = [dense(member @ leverage[:, i]) for i in range(leverage.shape[1])]
    pairs = [(a, b) for a in range(len(first)) for b in range(a, len(first))]
    products = [(first[a].T @ first[b]).tocsr() for a, b in pairs]
    single = where.cluster.size == where.shape[0]
    own = [one.diagonal() if single else dense(one) if mostly_there(one) else one for one in products]
    mixed = np.stack([np.stack([dense(one.T @ other) for other in H], axis=1) for one in first], axis=1)
    return _SquareForm(pairs, own, mixed, np.array([[one.T @ other for other in H] for one in H]))


def _squares(form: _SquareForm, V: FloatArray, pulled: FloatArray) -> FloatArray:
    """Sums over clusters of u_a u_b under each row of weights, (n, n, n_draws); `pulled` (n_draws, n_sets, k)."""
    n, q, k = form.mixed.shape[1:]
    pulled = np.broadcast_to(pulled, (V.shape[0], n, k))
    mixed = (V @ form.mixed.reshape(V.shape[1], -1)).reshape(-1, n, q, k)
    found = np.empty((n, n, V.shape[0]))
    for (a, b), own in zip(form.pairs, form.own, strict=True):
        terms = (V * V) @ own if own.ndim == 1 else np.einsum("vg,vg->v", V @ own, V)
        i, j = (a, b) if q > 1 else (0, 0)
        across = np.sum(mixed[:, a, j] * pulled[:, b] + mixed[:, b, i] * pulled[:, a], axis=1)
        square = terms - across + np.sum((pulled[:, a] @ form.gram[i, j]) * pulled[:, b], axis=1)
        found[a, b] = found[b, a] = np.where(square > ROUNDING * terms, square, 0.0) if a == b else square
    for a, b in form.pairs:
        found[a, b] = found[b, a] = np.where((found[a, a] > 0) & (found[b, b] > 0), found[a, b], 0.0)
    return found


def wald_statistics(effect: FloatArray, variance: FloatArray) -> FloatArray:
    """effect' V^-1 effect of many draws, infinite where V is singular. Shapes: effect (n, q), variance (n, q, q)."""
    scale = np.sqrt(np.einsum("nii->ni", variance))
    unit = np.where(scale > 0, scale, 1.0)
    values, axes = np.linalg.eigh(variance / (unit[:, :, None] * unit[:, None, :]))
    turned = np.einsum("nij,ni->nj", axes, effect / unit)
    regular = values[:, 0] > ROUNDING * values[:, -1]
    safe = np.where(regular[:, None], values, 1.0)
    return np.where(regular, np.sum(turned**2 / safe, axis=1), np.inf)


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
