"""What is drawn: random streams, weights of clusters, parameters solved again under any weights, and p-values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import scipy

from evalreg.checks import BoolArray, FloatArray, IntArray, quotient
from evalreg.covariance.absorbed import refuse_spanning
from evalreg.data.clusters import Axis, union
from evalreg.errors import ArgumentError, NotAvailableError
from evalreg.estimate import Estimate
from evalreg.inference.posterior import refuse_population
from evalreg.inference.simultaneous import block_stream
from evalreg.numerics.limits import EQUAL, HELD, ROUNDING
from evalreg.numerics.matrices import Matrix, compressed, dense, faster_dense, inverse_root, stacked
from evalreg.scores.stacking import MappedScores

WildWeightsName: TypeAlias = Literal["auto", "rademacher", "webb"]
BootWeightsName: TypeAlias = Literal["multinomial", "bayesian"]

# Draws of a block, which has a random stream of its own: they do not depend on who makes them.
BLOCK, WILD_BLOCK = 128, 256
# The identity stands first, so that it is vector 0 of an enumeration.
WEBB = np.array([1.0, -1.0, np.sqrt(1.5), -np.sqrt(1.5), np.sqrt(0.5), -np.sqrt(0.5)])
POINTS = {"rademacher": np.array([1.0, -1.0]), "webb": WEBB}
WEBB_UP_TO = 12


def blocks(draws: int, base: int, size: int = BLOCK) -> Iterator[tuple[int, int, np.random.Generator]]:
    """The first draw of each block, its number of draws, and its random stream."""
    for block, first in enumerate(range(0, draws, size)):
        yield first, min(size, draws - first), block_stream(base, block)


def seed_text(seed: int | None) -> str:
    """The seed of some draws in words; None where a Generator was given, whose state is not known."""
    return "from a Generator" if seed is None else f"seed {seed}"


def vectors(weights: WildWeightsName, n_clusters: int, most: int) -> int | None:
    """Number of equally likely weight vectors, where there are no more than `most`; None otherwise."""
    points = POINTS[weights].size
    # Compared by logarithm first, as the power of a large G has more digits than anyone needs.
    return None if n_clusters * np.log(points) > np.log(most) + 1e-6 else int(points**n_clusters)


def wild_blocks(
    weights: WildWeightsName, n_clusters: int, draws: int, enumerated: bool, base: int
) -> Iterator[FloatArray]:
    """Weights of clusters for the wild bootstrap, mean 0 and variance 1, block by block.

    Shapes: yields (n, n_clusters).
    """
    points = POINTS[weights]
    for first, n, rng in blocks(draws, base, WILD_BLOCK):
        if enumerated:
            # Digits of the vector's number, written with as many digits as there are points.
            places = points.size ** np.arange(n_clusters - 1, -1, -1)
            yield points[(np.arange(first, first + n)[:, None] // places) % points.size]
        elif weights == "rademacher":  # one random bit a weight
            octets = rng.integers(0, 256, size=(WILD_BLOCK, -(-n_clusters // 8)), dtype=np.uint8)
            yield np.asarray(1.0 - 2.0 * np.unpackbits(octets[:n], axis=1, count=n_clusters), dtype=np.float64)
        else:
            yield WEBB[rng.integers(0, WEBB.size, size=(WILD_BLOCK, n_clusters), dtype=np.uint8)[:n]]


def boot_chunks(
    weights: BootWeightsName, n_clusters: Sequence[int], n: int, rng: np.random.Generator
) -> Iterator[list[FloatArray]]:
    """Weights of the clusters of each axis for the cluster bootstrap, some draws at a time.

    Rubin (1981), Annals of Statistics 9(1), for "bayesian". Shapes: returns (n_some, n_clusters).
    """
    # As many rows as do not take much memory: a matter of the clusters alone, so that draws do not depend on `n`.
    rows = min(BLOCK, max(1, HELD // sum(n_clusters)))
    for first in range(0, n, rows):
        drawn = [_boot(weights, (rows, n_axis), rng) for n_axis in n_clusters]
        yield [of_axis[: n - first] for of_axis in drawn]


def _boot(weights: BootWeightsName, shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
    if weights == "bayesian":
        drawn = rng.standard_exponential(shape)
        return np.asarray(drawn / drawn.mean(axis=1, keepdims=True))
    chosen = rng.integers(0, shape[1], size=shape)
    chosen += shape[1] * np.arange(shape[0])[:, None]
    return np.bincount(chosen.ravel(), minlength=chosen.size).reshape(shape).astype(np.float64)


# Parameters solved again from sums within clusters


def refuse_without_sums(estimate: Estimate, axes: tuple[Axis, ...], what: str, instead: str) -> None:
    """Raise where sums within clusters do not make the estimate again; `instead` is what rows without clusters have."""
    refuse_population(estimate, what)
    if not axes:
        raise ArgumentError(
            f"{what} needs clusters; this result takes rows as independent. Pass `groups=` to the estimator, or "
            f"use {instead}."
        )
    refuse_spanning(estimate, union(*axes), what)
    if estimate.cells is not None and estimate.cells.stratum is not None:
        raise NotAvailableError(
            f'{what} of stratified means is not available. Use the tests under cov="CR2", or leave `strata` out.'
        )


# For each parameter, which scores enter it, and what each draw makes of a cluster's totals and of its weights.
Pulls: TypeAlias = Iterator[tuple[slice | IntArray, FloatArray, FloatArray]]


@dataclass(frozen=True, eq=False)
class Solver:
    """Parameters for any weights of clusters: one product of the weights with the clusters' sums, solved."""

    totals: Matrix  # (n_scores, n_clusters): sums of scores
    weight: Matrix  # (n_weights, n_clusters): sums of weights, or grams
    # Parameters (n_draws, n_params) from weighted sums, (n_scores, n_draws) and (n_weights, n_draws), and what makes
    # influence; NaN where there is no solution.
    solved: Callable[[FloatArray, FloatArray], tuple[FloatArray, Pulls]]

    def solve(self, V: FloatArray) -> FloatArray:
        """Parameters under each row of weights, shape (n_draws, n_params); NaN where there is no solution."""
        return self.solved(self.totals @ V.T, self.weight @ V.T)[0]

    def with_errors(self, V: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Parameters and their CR0 standard errors under each row of weights, shape (n_draws, n_params) each."""
        params, pulls = self.solved(self.totals @ V.T, self.weight @ V.T)
        influence = (self.totals[rows].T @ pull - self.weight[rows].T @ moved for rows, pull, moved in pulls)
        return params, np.sqrt([np.einsum("ng,gn->n", V, u * u) for u in influence]).T

    def without(self) -> FloatArray:
        """Parameters without each cluster, shape (n_clusters, n_params)."""
        top, bottom = (_whole(part) - dense(part) for part in (self.totals, self.weight))
        return self.solved(top, bottom)[0]


def _whole(part: Matrix) -> FloatArray:
    return np.asarray(part.sum(axis=1)).reshape(-1, 1)


def _of_cells(estimate: Estimate, A: FloatArray | None, totals: Matrix, weight: Matrix) -> Solver:
    """Solver of estimates that depend on the rows by the means of cells, mostly linearly: params + A means.

    Solves again where cells are gone or weigh otherwise: pairs of models that no drawn cluster holds, whose weight goes
    to the others; likelihoods, which have no A.
    """
    assert estimate.refit is not None
    params, again, of = np.array(estimate.params), estimate.refit.leave_out, estimate.refit.contrasts
    C = None if of is None else dense(of)
    whole, all_weight = _whole(totals), _whole(weight)

    def solved(top: FloatArray, bottom: FloatArray) -> tuple[FloatArray, Pulls]:
        # Of cells without a mean nothing but rounding is left.
        empty = bottom <= ROUNDING * all_weight
        bottom = np.where(empty, 0.0, bottom)
        means = quotient(top, bottom, 0.0)
        if again is not None:
            change = again.resolve(means, bottom) - again.resolve(whole / all_weight, all_weight)
            return params + (change if C is None else change @ C.T), pulls(means, bottom)
        assert A is not None
        moved = params[:, None] + A @ means
        return np.where((A != 0) @ empty, np.nan, moved).T, pulls(means, bottom)

    def pulls(means: FloatArray, bottom: FloatArray) -> Pulls:
        if A is None:
            raise NotAvailableError(
                'the "studentized" interval is available for means, win rates of fixed shares and least squares; this '
                'is a likelihood, or has shares that vary. Use kind="percentile", "basic" or "bca".'
            )
        for place, fixed in enumerate(A):
            share = fixed[:, None]
            if again is not None and not bottom.all():
                share = again.shares(np.eye(len(A))[place] if C is None else C[place], bottom)
            cells = np.flatnonzero(share.any(axis=1))
            pull = quotient(share[cells], bottom[cells], 0.0)
            yield cells, pull, pull * means[cells]

    return Solver(totals, weight, solved)


def _of_rows(estimate: Estimate, A: FloatArray, totals: Matrix, grams: Matrix) -> Solver:
    """Solver of least-squares regressions; of likelihoods of comparisons, by one Newton step from the fit.

    The weights are grams X_g'W X_g, k * k of a cluster. Davidson and MacKinnon (1999), International Economic Review
    40, 487-508, for few steps in each draw.
    """
    params = np.array(estimate.params)

    def solved(top: FloatArray, bottom: FloatArray) -> tuple[FloatArray, Pulls]:
        k = len(top)
        root = inverse_root(bottom.T.reshape(-1, k, k))
        inverse = root @ np.swapaxes(root, 1, 2)
        step = np.einsum("bij,jb->bi", inverse, top)
        shares = (inverse @ row for row in A)
        pulls = ((slice(None), share.T, np.einsum("bi,bj->ijb", share, step).reshape(k * k, -1)) for share in shares)
        return params + step @ A.T, pulls

    return Solver(totals, grams, solved)


def solver_of(estimate: Estimate, by: Axis) -> Solver:
    """Solver from the sums within the clusters of `by`."""
    refit, A = estimate.refit, estimate.coefficient_map
    again = refit is not None and refit.leave_out is not None
    if refit is not None and refit.delta:
        raise NotAvailableError(
            f"a bootstrap solves again for the parameters, and these are a function of them ({estimate.about.model}), "
            "of which only the slope is kept. Take the function of each draw: `bootstrap` of the results before "
            "`transform` (or `odds`) has them in `draws`. Or pass a function that does both to `evalreg.bootstrap`, "
            "which resamples the rows."
        )
    if refit is None or A is None or not (refit.linear or refit.step or again):
        raise NotAvailableError(
            "a bootstrap from cluster sums is available for means, win rates, ratings and least squares (and contrasts "
            f"of them); this is {estimate.about.model}. Pass a function that fits it to `evalreg.bootstrap`, which "
            "resamples the rows."
        )
    A = dense(A)
    if refit.step:
        assert isinstance(estimate.scores, MappedScores)
        totals, grams = estimate.scores.sparse_grams(by)
        return _of_rows(estimate, A, totals.T, grams.T)
    # What solves again takes the cells themselves; a linear solution takes what they are mapped to.
    blocks = list(estimate.scores.sums_in_cells(by) if again else estimate.scores.cells(by))
    if refit.inverse_gram.ndim == 2 and not again:
        totals = np.concatenate([dense(block.totals) for block in blocks])
        grams = np.concatenate([dense(block.gram).reshape(len(block.totals), -1) for block in blocks])
        return _of_rows(estimate, A, totals.T, grams.T)
    used = np.arange(blocks[0].totals.shape[1]) if again else np.flatnonzero(np.any(A != 0, axis=0))
    sums = ([block.totals for block in blocks], [block.gram for block in blocks])
    sparse = (compressed(stacked([compressed(part)[:, used] for part in parts]).T) for parts in sums)
    totals, weight = (dense(part) if faster_dense(part) else part for part in sparse)
    linear = refit.linear and not (again and estimate.scores.mapped)
    return _of_cells(estimate, A[:, used] if linear else None, totals, weight)


def meetings(estimate: Estimate, axes: tuple[Axis, ...]) -> tuple[Axis, list[IntArray], list[int]]:
    """Joint values of crossed clusterings, and the cluster of each on every axis.

    Shapes: returns codes (n_meetings,).
    """
    by, n_clusters = union(*axes), [estimate.scores.n_clusters(axis) for axis in axes]
    if len(axes) == 1:
        return by, [np.arange(n_clusters[0])], n_clusters
    labels = estimate.scores.row_labels()
    if labels is None:
        raise NotAvailableError(
            "a bootstrap of crossed clusters needs rows in memory; collect the frame first, or name one clustering."
        )
    first = labels.codes(by).first
    return by, [labels.codes(axis).codes[first] for axis in axes], n_clusters


# p-values


def share(count: int, n: int, enumerated: bool) -> float:
    """A p-value from the draws that are as extreme; those of a sample leave out the one of the data."""
    return count / n if enumerated else (1 + count) / (n + 1)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Statistics of the draws of one hypothesis, polynomials in the gap d between estimate and hypothesised value."""

    numerator: FloatArray  # (2, n_draws): constant and slope
    # (n_rules, 3, n_draws): constant, half the slope and square of each variance whose largest is taken
    squares: FloatArray
    variance: float  # of the data
    enumerated: bool  # whether these are all draws there are, that of the data among them

    def at(self, d: float) -> tuple[FloatArray, FloatArray]:
        """Numerators and variances at a value of d, shape (n_draws,) each."""
        constant, half, square = self.squares[:, 0], self.squares[:, 1], self.squares[:, 2]
        variance = constant + d * (2 * half + d * square)
        return self.numerator[0] + d * self.numerator[1], np.maximum(np.max(variance, axis=0), 0.0)

    def share(self, extreme: BoolArray) -> float:
        """A p-value from which draws are as extreme."""
        return share(int(np.count_nonzero(extreme)), extreme.size, self.enumerated)

    def p(self, gap: float) -> float:
        """Two-sided p-value of the value that lies `gap` below the estimate: |t| is at least that of the data."""
        numerator, spread = self.at(gap)
        return self.share(numerator**2 * self.variance >= (gap * (1 - EQUAL)) ** 2 * spread)

    def p_far(self) -> float:
        """Where p ends however far the hypothesised value lies from the estimate.

        The t of the data grows without bound; that of a draw does so only where its variance does not grow with the
        gap.
        """
        grows = np.max(self.squares[:, 2], axis=0) > 0
        constant = np.max(self.squares[:, 0], axis=0)
        slope = self.numerator[1]
        stays = ~grows & (slope != 0) & (slope**2 * self.variance >= (1 - EQUAL) ** 2 * constant)
        return self.share(stays)

    def p_equal_tailed(self, d: float, t: float) -> float:
        """Twice the smaller tail; ties count in both."""
        numerator, variance = self.at(d)
        room, se = abs(t) * EQUAL, np.sqrt(variance)
        below, above = self.share(numerator <= (t + room) * se), self.share(numerator >= (t - room) * se)
        return min(1.0, 2 * min(below, above))

    def gaps(self, scale: float, alpha: float, marks: Sequence[float]) -> tuple[float, float]:
        """The lowest and the highest gap whose p-value is above alpha; infinite where p never falls to it."""
        if self.p_far() > alpha:
            return -np.inf, np.inf
        low = find_end(lambda gap: self.p(-gap), scale, alpha, [-mark for mark in marks])
        return -low, find_end(self.p, scale, alpha, marks)


def find_end(p: Callable[[float], float], se: float, alpha: float, marks: Sequence[float]) -> float:
    """The largest gap whose p-value is above alpha, by bisection.

    Where it meets one of the gaps in `marks` (that of the value 0, say), it is that gap and not a number beside it.
    """
    far = 2.0 * se
    # Rejected at three doublings in a row, so that a single dip of a step function does not end the search.
    while any(p(far * factor) > alpha for factor in (1.0, 2.0, 4.0)):
        far *= 2
        if far > 1e12 * se:  # an interval so many standard errors wide is infinite
            return np.inf
    grid = np.linspace(0.0, 4.0 * far, 65)
    last = max(i for i, gap in enumerate(grid) if i == 0 or p(float(gap)) > alpha)
    # A step function: its sign is what tells the sides of the end apart.
    low, high = grid[last : last + 2].tolist()
    end = scipy.optimize.bisect(lambda gap: 1.0 if p(gap) > alpha else -1.0, low, high, xtol=1e-13 * far)
    # Ties that are not exact move an end by a few of their width.
    return next((mark for mark in marks if abs(end - mark) <= 100 * EQUAL * abs(end) and p(mark) > alpha), end)
