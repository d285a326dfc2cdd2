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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray, fraction, issue, option, whole_number
from evalreg.covariance.covariance import Covariance, Term
from evalreg.covariance.crossed import subset_signs
from evalreg.covariance.options import ResolvedCov
from evalreg.covariance.terms import assemble, factor_of
from evalreg.data.clusters import Axis, union
from evalreg.errors import (
    ArgumentError,
    EvalregWarning,
    FewClustersWarning,
    LeverageWarning,
    NotAvailableError,
    Note,
    TooFewClustersError,
    ZeroVarianceWarning,
)
from evalreg.estimate import Estimate
from evalreg.inference.simultaneous import Seed, base_seed
from evalreg.inference.wald import parse_contrasts, refuse_dependent, wald_quadratic
from evalreg.numerics.limits import EQUAL, ROUNDING
from evalreg.numerics.matrices import Matrix, compressed, dense, faster_dense
from evalreg.report.tables import Shown, Summary, fixed, number, p_value
from evalreg.resampling.draws import (
    WEBB_UP_TO,
    Drawn,
    WildWeightsName,
    meetings,
    refuse_without_sums,
    seed_text,
    share,
    vectors,
    wild_blocks,
)


@dataclass(frozen=True, repr=False)
class WildTest(Shown):
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
    weights : {"rademacher", "webb"}
        Distribution of the weights.
    null : str
        The hypothesis.
    alpha : float
        One minus the level of the interval.
    seed : int or None
        Of the draws; None for a Generator, or where nothing was drawn.
    estimate : float
        The combination of parameters; NaN for several hypotheses.
    by : str
        The clustering that was given the weights; of crossed ones that with the largest p-value.
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
        how = "all vectors, each once" if self.enumerated else f"drawn, {seed_text(self.seed)}"
        facts = [
            ("Null", self.null),
            ("Weights", f"{self.weights}, by {self.by} ({self.n_clusters} clusters)"),
            ("Draws", f"{self.draws} ({how})"),
            ("Residuals", "under the null"),
            ("t (CR1)" if self.interval else "F (CR1)", fixed(self.statistic, 3)),
            ("p", p_value(self.p_value)),
        ]
        if len(self.p_by_axis) > 1:
            facts.append(("p by axis", ", ".join(f"{name} {p_value(p)}" for name, p in self.p_by_axis)))
        if self.interval is not None:
            ends = " to ".join(map(number, self.interval))
            facts += [("p, equal-tailed", p_value(self.p_equal_tailed)), ("Estimate", number(self.estimate))]
            facts.append((f"{1 - self.alpha:.4g} interval", ends))
        return Summary("Wild cluster bootstrap", tuple(facts), (), tuple(text for _, text in self.notes))


class WildTested:
    """Results that can be tested by wild cluster bootstraps."""

    estimate: Estimate
    cov: Covariance
    axes: tuple[Axis, ...]

    def wild_test(
        self,
        null: str | dict[str, float] | Any = None,
        draws: int = 9999,
        weights: WildWeightsName = "auto",
        alpha: float = 0.05,
        seed: Seed = 0,
    ) -> WildTest:
        """A wild cluster bootstrap test, for few clusters or unequal ones, with the interval that it gives.

        Parameters
        ----------
        null : str, dict or array_like, shape (q, n_params), optional
            Hypotheses as in `t_test`: "A - B = 0.1", or several with commas between them. By default that the intercept
            is 0, or the only parameter.
        draws : int, default 9999
            Weight vectors to draw; all are taken, once each, where there are no more.
        weights : {"auto", "rademacher", "webb"}, optional
            "auto" is Webb's six points for 12 clusters or fewer, Rademacher's two otherwise.
        alpha : float, default 0.05
            One minus the level of the interval.
        seed : int or Generator, default 0
            Of the draws.

        Returns
        -------
        WildTest
            Statistic (the CR1 t, whatever `cov` is), p-values and interval.

        Raises
        ------
        NotAvailableError
            If the estimate is not of means or least squares, or of a finite benchmark.
        ArgumentError, ArgumentTypeError
            If rows are taken as independent, an option is unknown, or `null` is needed and left out.
        TooFewClustersError
            If a joint test has as many hypotheses as clusters, or more.

        Notes
        -----
        Clusters are taken to be independent; with crossed clusterings each axis in turn is given the weights, the
        largest of the p-values counts, and the variance is the largest of the crossed ones and those of fewer axes, in
        the data and in every draw. The interval contains every value that one of the axes does not reject.

        References
        ----------
        Cameron, Gelbach and Miller (2008), REStat 90(3); MacKinnon, Nielsen and Webb (2023), J. Applied Econometrics
        38; Roodman, MacKinnon, Nielsen and Webb (2019), Stata Journal 19(1), for the interval.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
        >>> results = er.fit("score ~ n_words", log, groups="passage")
        >>> test = results.wild_test("n_words = 0", draws=999)
        >>> round(float(test.p_value), 2), test.draws
        (0.8, 999)
        """
        estimate, axes = self.estimate, self.axes
        option("weights", weights, WildWeightsName)
        draws, alpha = whole_number("draws", draws), fraction("alpha", alpha)
        base, printed = base_seed(seed)
        refuse_without_sums(estimate, axes, "a wild cluster bootstrap", "with_cov(groups=...) first")
        if estimate.refit is None or not estimate.refit.linear or estimate.coefficient_map is None:
            raise NotAvailableError(
                "a wild cluster bootstrap is available for means and least squares (and contrasts of them), which are "
                f"solved again from sums within clusters; this is {estimate.about.model}. Use the tests under "
                'cov="CR2" or "CR3", or resample whole clusters with `bootstrap`.'
            )
        if null is None:
            null = {name: 1.0 for name in estimate.names if name == "Intercept" or len(estimate.names) == 1}
            if not null:
                example = f"`{estimate.names[0]}` - `{estimate.names[1]}` = 0"
                raise ArgumentError(f'`null` must say what is tested, such as "{example}".', parameter="null")
        hypotheses = parse_contrasts(null, estimate.names)
        C, value = hypotheses.matrix, hypotheses.value
        refuse_dependent(C)
        cov = assemble(estimate, axes, ResolvedCov("CR1", self.cov.options.ssc, "min", "max"))
        # Fewest clusters first, which stands for ties.
        carriers = sorted(range(len(cov.axes)), key=lambda axis: cov.one_way[axis].n_clusters)
        if len(C) >= cov.one_way[carriers[0]].n_clusters:
            raise TooFewClustersError(
                f"a joint test needs more clusters than hypotheses; got {len(C)} hypotheses and "
                f"{cov.one_way[carriers[0]].n_clusters} clusters. Test fewer at a time.",
                count=len(C),
            )
        drawing = _Drawing(estimate, cov, C, C @ estimate.params - value)
        undefined, single = next(filter(None, cov.reasons(C)), ""), len(C) == 1
        statistic = np.nan if undefined else drawing.statistic()
        if not undefined and np.isnan(statistic):
            undefined = "the covariance of these contrasts is singular"
        text = f"no test, because {undefined}; statistic, p-value and interval are NaN."
        pairs = zip(hypotheses.names, value, strict=True)
        test = WildTest(
            statistic=statistic,
            p_value=np.nan,
            p_equal_tailed=np.nan,
            interval=(np.nan, np.nan) if single else None,
            draws=draws,
            enumerated=False,
            weights=weights,
            null=", ".join(name if "=" in name else f"{name} = {c:g}" for name, c in pairs),
            alpha=alpha,
            seed=printed,
            estimate=float(C[0] @ estimate.params) if single else np.nan,
            by="",
            n_clusters=0,
            notes=((ZeroVarianceWarning, text),) if undefined else (),
        )
        tests = [_axis_test(test, drawing, carrier, base) for carrier in carriers]
        # Of several axes the largest p-values, and the smallest interval that holds those of all.
        largest = max(tests, key=lambda test: test.p_value)
        notes: tuple[Note, ...] = next(filter(None, (test.notes for test in tests)), ())
        issue(notes)
        ends = [test.interval for test in tests if test.interval is not None]
        return replace(
            largest,
            p_equal_tailed=max(test.p_equal_tailed for test in tests),
            interval=(min(low for low, _ in ends), max(high for _, high in ends)) if ends else None,
            p_by_axis=tuple((test.by, test.p_value) for test in tests),
            notes=notes,
        )


@dataclass(frozen=True, eq=False)
class _Drawing:
    """Hypotheses C theta = c, whose statistics are drawn."""

    estimate: Estimate
    cov: Covariance
    C: FloatArray  # (q, n_params)
    gap: FloatArray  # (q,): C theta - c

    def statistic(self) -> float:
        """Of the data: t of one hypothesis; of several F, by the sum of the one-way variances. NaN without one."""
        if self.gap.size == 1:
            return float(self.gap[0] / np.sqrt(self.cov.variance(self.C)[0]))
        return float(wald_quadratic(self.gap, self.C @ self.cov.sum_one_way @ self.C.T)) / self.gap.size

    def factors(self, terms: Sequence[Term]) -> FloatArray:
        """CR1 factor of each term, shape (n_terms,)."""
        cov = self.cov
        return np.array([factor_of(self.estimate, cov.axes, term.n_clusters, cov.options) for term in terms])


def _axis_test(test: WildTest, drawing: _Drawing, carrier: int, base: int) -> WildTest:
    """The test in which the clusters of one axis carry the weights, drawn from the streams of `base`."""
    cov, gap, term, kind = drawing.cov, drawing.gap, drawing.cov.one_way[carrier], test.weights
    if kind == "auto":
        kind = "webb" if term.n_clusters <= WEBB_UP_TO else "rademacher"
    every = vectors(kind, term.n_clusters, test.draws)
    n, enumerated = every or test.draws, every is not None
    seed = None if enumerated else test.seed
    test = replace(test, draws=n, enumerated=enumerated, weights=kind, seed=seed)
    test = replace(test, by=term.name, n_clusters=term.n_clusters)
    if test.notes:
        return test
    blocks = wild_blocks(kind, term.n_clusters, n, enumerated, base)
    if gap.size > 1:
        factors, least = drawing.factors(cov.one_way), test.statistic * gap.size * (1 - EQUAL) ** 2
        less = [
            np.count_nonzero(wald_quadratic(numerator, np.einsum("t,tijn->nij", factors, squares)) < least)
            for numerator, squares in _draws(drawing, carrier, cov.one_way, blocks)
        ]  # a draw whose covariance is singular is as extreme as can be
        return replace(test, p_value=share(n - int(sum(less)), n, enumerated), notes=_notes(test, 0.0))
    parts = list(_draws(drawing, carrier, cov.pieces, blocks))
    numerator = np.concatenate([part[0] for part in parts]).T
    square = np.concatenate([part[1] for part in parts], axis=3)
    # Statistics of all draws as polynomials in d, and the variances whose largest is taken.
    rules = subset_signs([term.dims for term in cov.pieces]) * drawing.factors(cov.pieces)
    powers = [rules @ square[:, a, b] for a, b in ((0, 0), (0, 1), (1, 1))]
    drawn = Drawn(numerator, np.stack(powers, axis=1), float(cov.variance(drawing.C)[0]), enumerated)
    d, centre = float(gap[0]), test.estimate
    # The ends are looked for beside the gaps of the value 0 and of the hypothesised one.
    low, high = drawn.gaps(float(np.sqrt(drawn.variance)), test.alpha, (centre, d))
    return replace(
        test,
        p_value=drawn.p(d),
        p_equal_tailed=drawn.p_equal_tailed(d, test.statistic),
        interval=(centre - high, centre - low),
        notes=_notes(test, drawn.p_far()),
    )


def _draws(
    drawing: _Drawing, carrier: int, terms: Sequence[Term], blocks: Iterator[FloatArray]
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Numerators (n_draws, n) and, for each term, squares and products of u (n_terms, n, n, n_draws), in blocks.

    n are the hypotheses; of one hypothesis the constant and the slope in d.
    """
    axes, carried = drawing.cov.axes, drawing.cov.axes[carrier]
    sums, forms = dict[Axis, tuple[FloatArray, FloatArray, FloatArray]](), list[SquareForm]()
    for term in terms:
        clustering = union(*(axes[d] for d in term.dims))
        by, codes, sizes = meetings(drawing.estimate, tuple(dict.fromkeys((clustering, carried))))
        if by not in sums:
            sums[by] = _cluster_sums(drawing, by)
        effect, _, leverage = sums[by]
        forms.append(_square_form(effect, leverage, codes[0], codes[-1], (sizes[0], sizes[-1])))
    effect, pull, _ = sums[carried]
    for V in blocks:
        pulled = (V @ pull.reshape(len(pull), -1)).reshape(len(V), *pull.shape[1:])
        yield V @ effect, np.array([_squares(form, V, pulled) for form in forms])


def _cluster_sums(drawing: _Drawing, by: Axis) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of the clusters of `by`: L s_g (G, n), M s_g (G, n_sets, k), and leverages L G_g (G, q, k).

    Two sets of scores, the constant and the slope in d, of one hypothesis; of several the scores at their gap.
    """
    estimate, gap = drawing.estimate, drawing.gap
    assert estimate.refit is not None
    assert estimate.coefficient_map is not None
    C, M = dense(drawing.C @ estimate.coefficient_map), estimate.refit.inverse_gram
    cells, columns = M.ndim == 1, np.arange(len(M))
    if cells:
        # Cells do not depend on each other, so that those of no hypothesis drop out.
        columns = np.flatnonzero(np.any(C != 0, axis=0))
        C, M = C[:, columns], np.diag(M[columns])
    L = C @ M
    P = np.linalg.solve(L @ C.T, L).T  # M C'(C M C')^-1
    scores, leverage = [], []
    for block in estimate.scores.cells(by):
        S = dense(block.totals[:, columns])
        if cells:
            weight = dense(compressed(block.gram)[:, columns])
            pull, part = weight[:, :, None] * P, weight[:, None, :] * L
        else:
            pull, part = block.gram @ P, L @ block.gram
        leverage.append(part)
        scores.append(np.stack([S, pull[:, :, 0]] if gap.size == 1 else [S + pull @ gap], axis=1))
    s = np.concatenate(scores)
    return (s @ L.T).reshape(len(s), -1), s @ M, np.concatenate(leverage)


# What sums of u_a u_b over the clusters of a term are made of, of each pair of the n. With u = F v - H p, p the sum of
# v_g M s_g, u'u = v'F'F v - 2 v'F'H p + p'H'H p: products of cluster sums alone. F_a'F_b is (n_carriers,) where it is
# diagonal, or (n_carriers, n_carriers); F_a'H_b (n_carriers, n, q, k), of one hypothesis the same H for all; H_a'H_b
# (q, q, k, k).
SquareForm: TypeAlias = tuple[dict[tuple[int, int], Matrix], FloatArray, FloatArray]


def _square_form(
    effect: FloatArray, leverage: FloatArray, cluster: IntArray, carrier: IntArray, shape: tuple[int, int]
) -> SquareForm:
    """The form of a term whose clusters meet those that carry weights at (cluster, carrier)."""
    F = [sparse.csr_array((column, (cluster, carrier)), shape=shape) for column in effect.T]
    member = sparse.csr_array((np.ones(cluster.size), (cluster, np.arange(cluster.size))))
    H = [dense(member @ leverage[:, i]) for i in range(leverage.shape[1])]
    first = dict[tuple[int, int], Matrix]()
    for a, b in combinations_with_replacement(range(len(F)), 2):
        product = (F[a].T @ F[b]).tocsr()
        # Of clusters with one carrier each the product is diagonal.
        first[a, b] = product.diagonal() if cluster.size == shape[0] else product
        if cluster.size > shape[0] and faster_dense(product):
            first[a, b] = dense(product)
    mixed = np.stack([np.stack([dense(f.T @ h) for h in H], axis=1) for f in F], axis=1)
    return first, mixed, np.array([[left.T @ right for right in H] for left in H])


def _squares(form: SquareForm, V: FloatArray, pulled: FloatArray) -> FloatArray:
    """Sums over clusters of u_a u_b under each row of weights, (n, n, n_draws); `pulled` (n_draws, n_sets, k)."""
    every, mixed, gram = form
    n, q, k = mixed.shape[1:]
    pulled = np.broadcast_to(pulled, (len(V), n, k))
    mixed = (V @ mixed.reshape(V.shape[1], -1)).reshape(-1, n, q, k)
    squares = np.empty((n, n, len(V)))
    for (a, b), first in every.items():
        terms = (V * V) @ first if first.ndim == 1 else np.einsum("vg,vg->v", V @ first, V)
        i, j = (a, b) if q > 1 else (0, 0)
        across = np.sum(mixed[:, a, j] * pulled[:, b] + mixed[:, b, i] * pulled[:, a], axis=1)
        square = terms - across + np.sum((pulled[:, a] @ gram[i, j]) * pulled[:, b], axis=1)
        squares[a, b] = squares[b, a] = np.where(square > ROUNDING * terms, square, 0.0) if a == b else square
    varies = np.einsum("aan->an", squares) > 0
    return np.asarray(squares * (varies[:, None] & varies))


def _notes(test: WildTest, far: float) -> tuple[Note, ...]:
    """What makes a test fragile; `far` is p however far the hypothesised value lies."""
    clusters, alpha = f"{test.n_clusters} {test.by} clusters", test.alpha
    # Multiples of the vector of ones give the statistic of the data itself.
    multiples = {"rademacher": 2, "webb": 6}[test.weights] if test.enumerated else 0
    smallest = multiples / test.draws if test.enumerated else 1 / (test.draws + 1)
    if smallest > alpha and test.enumerated:
        more = ' weights="webb" has 6^G vectors.' if test.weights == "rademacher" else ""
        text = (
            f"{clusters} with {test.weights} weights: the smallest possible p-value is 1/{1 / smallest:.0f} = "
            f"{smallest:.3g}, above alpha = {alpha:g}, so that nothing can be rejected and the interval is "
            f"infinite.{more}"
        )
        return ((FewClustersWarning, text),)
    if smallest > alpha:
        text = f"{test.draws} draws: the smallest possible p-value is {smallest:.3g}, above alpha = {alpha:g}."
        return ((EvalregWarning, text),)
    if far > alpha:
        text = (
            f"the parameter rests on so few of the {clusters} that p stays at {far:.3g} or more however far the "
            f"hypothesised value lies, above alpha = {alpha:g}: the interval is infinite."
        )
        return ((LeverageWarning, text),)
    return ()
